"""Shares that helpers add up: a vector for the analyzer, and a seed for each helper.

- A client subtracts from its encoded value the vectors that its seeds stand for, one for each
  helper, and sends the analyzer what is left, and each helper its seed.
- A helper adds up the vectors of one set of reports, once, with noise if the parties add it.
- The analyzer adds up the helpers' sums and its own.

A seed stands for a keystream of AES-256, in chunks with a key each that HKDF derives; they are
bound to the sum, the helper and the report. The proof is in docs/helpers.md.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, Literal, Unpack

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, choice, integer, number, quote
from ikos.counts import MessageCount
from ikos.counts.helpers import (
    CHUNK_BYTES,
    SEED_BYTES,
    HelpersLayout,
    expansion_loss,
    word_bytes,
)
from ikos.counts.types import MAX_SIGMA
from ikos.data.encoding import Encoding
from ikos.data.reading import BlockEncoder, Inputs, Participation, Reader
from ikos.noise.base import Noise, PartiesNoise, PlacedNoise, UsersNoise
from ikos.noise.choice import HIDING_FRACTION, best_noise
from ikos.numeric.rounding import UP, exact, float_up, rounding
from ikos.primitives.concurrency import Interrupted, cores, spread
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import KEY_BYTES, RandomSource
from ikos.primitives.sharing import SharingScheme
from ikos.results.conditions import Condition, Kind, present
from ikos.results.text import hundredths
from ikos.transports.base import (
    ID_BYTES,
    Need,
    Part,
    Recipe,
    Reports,
    ReportSet,
    Totals,
    Transport,
    Work,
    drawn_ids,
)
from ikos.transports.shares import MAX_ENTRIES, Shuffled

LARGEST_GROUP = 1 << 64
"""Largest order of the group of a coordinate."""

MAX_HELPERS = 1000

_SEEDS = np.dtype(np.uint8)

_LABEL = b"ikos helpers 1"
_ZEROS = bytes(CHUNK_BYTES)


@dataclass(frozen=True, eq=False)
class AddedVectors:
    """What a party releases: the sums of its vectors, with its noise if it adds any."""

    sums: NDArray[Any]
    users: int


@dataclass(frozen=True)
class AddedShares(Transport):
    """Shares modulo ``q``, a power of two, that ``helpers`` and the analyzer add up.

    If there is a ``noise``, each of these parties adds all of it to each coordinate of its sum.
    """

    users: Participation
    q: int
    layout: HelpersLayout
    noise: Noise | None = None
    assumptions: tuple[Condition, ...] = ()

    name: ClassVar[str] = "helpers"
    bound: ClassVar[bool] = True

    @property
    def parties(self) -> int:
        """Helpers."""
        return self.layout.helpers

    @property
    def scheme(self) -> SharingScheme:
        """The shares of each coordinate: one for each helper, and the analyzer's in the clear."""
        return SharingScheme(self.group, self.parties + 1, single=False, clear=True)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The assumptions on users, parties, and cryptography."""
        users, helpers = self.users, f"{self.parties} helpers" if self.parties > 1 else "the helper"
        honest = () if self.noise else (present(users.least, users.n, adaptive=True),)
        one = Condition(
            Kind.PARTIES, f"while one of the analyzer and {helpers} is honest, whichever it is"
        )
        keys = (users.n if self.noise is None else 1) * self.layout.chunks
        times = "once" if keys == 1 else f"up to {keys:,} times"
        assumed = Condition(
            Kind.CRYPTOGRAPHY,
            "assuming that HKDF-SHA512 and AES-256 are pseudorandom, an advantage against which "
            f"counts {times} for each sum and input",
            computational=True,
        )
        return (*honest, one, assumed, *self.assumptions)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        return {
            "protocol": "ikos-added-shares-1",
            "n": self.users.n,
            "min_honest": self.users.least,
            "q": hex(self.q),
            "dimension": self.dimension,
            "helpers": self.parties,
            "noise": "users" if self.noise is None else "parties",
        }

    @property
    def description(self) -> str:
        """The helpers and the honest users, in words."""
        words = f"{self.parties} helper{'s' * (self.parties > 1)}"
        if self.users.least < self.users.n:
            words += f", min_honest={self.users.least}"
        return words if self.noise is None else f"{words}, noise of parties"

    def remaining(self, *, honest: int | None, corrupt_shufflers: int | None) -> MessageCount:
        """Return the guarantee that remains: all of it, unless every helper is corrupt."""
        if honest is not None:
            integer("honest", honest, low=1, high=self.users.n)
        corrupt = integer("corrupt_shufflers", corrupt_shufflers or 0, low=0, high=self.parties)
        if corrupt < self.parties:
            return self.messages
        return replace(self.messages, sigma=0.0, analysis=None)

    # What a seed stands for

    @cached_property
    def word(self) -> np.dtype[Any]:
        """The type of a word of a keystream."""
        return np.dtype(f"<u{word_bytes(self.group.bits)}")

    def keystream(self, seed: bytes, party: int, id: bytes, context: bytes) -> NDArray[Any]:
        """Return a word for each coordinate, of which the low bits are the element."""
        if len(id) != ID_BYTES:  # or another context, party and id might have the same keys
            raise InvalidValue("id", f"must have {ID_BYTES} bytes, got {len(id)}")
        info = _LABEL + context + party.to_bytes(4, "big") + id
        pieces = []
        for chunk, part in enumerate(blocks(self.dimension * self.word.itemsize, CHUNK_BYTES)):
            # HKDF-Expand of one block (RFC 5869)
            key = hmac.digest(seed, info + chunk.to_bytes(4, "big") + b"\1", "sha512")
            mode = modes.CTR(key[KEY_BYTES : KEY_BYTES + 16])
            encryptor = Cipher(algorithms.AES(key[:KEY_BYTES]), mode).encryptor()
            pieces.append(encryptor.update(memoryview(_ZEROS)[: part.stop - part.start]))
        return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), self.word)

    def elements(self, words: NDArray[Any]) -> NDArray[Any]:
        """Return words modulo q."""
        if self.group.bits < 8 * words.dtype.itemsize:
            words = words & words.dtype.type(self.q - 1)
        return words.astype(self.group.dtype, copy=False)

    def zeros(self) -> NDArray[Any]:
        """Return the sum of no words."""
        return np.zeros(self.dimension, dtype=self.word)

    # The clients

    def report(
        self, reader: Reader, values: NDArray[Any], rng: RandomSource, context: bytes = b""
    ) -> Reports:
        """Return the reports of a few clients."""
        return self._reports(reader.elements(values, rng), rng, context)

    def _reports(self, elements: NDArray[Any], rng: RandomSource, context: bytes) -> Reports:
        """Return the reports of users with these elements."""
        vectors = elements.reshape(-1, self.dimension).copy()
        ids = drawn_ids(len(vectors), rng)
        drawn = rng.bytes(len(vectors) * self.parties * SEED_BYTES)
        seeds = np.frombuffer(drawn, np.uint8).reshape(self.parties, len(vectors), SEED_BYTES)
        for vector, id, *mine in zip(vectors, ids, *seeds, strict=True):
            for party, seed in enumerate(mine, 1):
                words = self.keystream(seed.tobytes(), party, id, context)
                self.group.subtract(vector, self.elements(words))
        return Reports(ids, ((vectors,), *((rows,) for rows in seeds)))

    def share(self, inputs: Inputs, rng: RandomSource, context: bytes = b"") -> Reports:
        """Return all users' messages."""
        made, users = list[Reports](), 0
        for elements, source in self._blocks(inputs, rng):
            users += len(elements)
            if users * self.dimension > MAX_ENTRIES:
                raise InvalidValue(
                    "x",
                    f"has users whose vectors have more than {MAX_ENTRIES} entries; "
                    "use run, or fewer users",
                )
            made.append(self._reports(elements, source, context))
        inputs.reader.users.check("x", users)
        parts = zip(*(reports.parts for reports in made), strict=True)
        joint = tuple((np.concatenate([rows for (rows,) in part]),) for part in parts)
        return Reports(tuple(id for reports in made for id in reports.ids), joint)

    def _blocks(
        self, inputs: Inputs, rng: RandomSource
    ) -> Iterator[tuple[NDArray[Any], RandomSource]]:
        """Yield the elements of some users at a time, with the source of their shares."""
        encode, secrets = BlockEncoder(inputs.reader, rng.streams()), rng.streams()
        for block, values in enumerate(inputs.blocks()):
            yield encode(values, block), secrets(block)

    # The helpers, and the analyzer as one of the parties

    def check(self, party: int, part: Part) -> None:
        """Refuse anything but seeds, or vectors for the analyzer."""
        if not party:
            (rows,) = part if len(part) == 1 else (np.empty(0),)
            if rows.shape[1:] != (self.dimension,) or not self.group.contains(rows):
                raise InvalidValue(
                    "part", f"must hold vectors of {self.dimension} elements for party 0"
                )
        elif [(rows.dtype, rows.shape[1:]) for rows in part] != [(_SEEDS, (SEED_BYTES,))]:
            raise InvalidValue("part", f"must hold seeds of {SEED_BYTES} bytes for party {party}")

    def release(
        self, party: int, part: Part, rng: RandomSource, **of: Unpack[ReportSet]
    ) -> AddedVectors:
        """Return the sums of the vectors, with noise if the parties add it."""
        (rows,), total = part, self.zeros()
        ids, context = of.get("ids", ()), of.get("context", b"")
        for id, row in zip(ids, rows, strict=True):
            total += self.keystream(row.tobytes(), party, id, context) if party else row
        return AddedVectors(self.noisy(self.elements(total), rng), len(rows))

    def noisy(self, sums: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return a party's sums with its noise, if it adds any; call it once for each set."""
        if self.noise is not None:
            self.group.add(sums, *self.noise.whole(sums.size, rng))
        return sums

    def with_noise(self, totals: Totals, rng: RandomSource) -> Totals:
        """Return totals with the noise of all parties, if they add it; call it once."""
        sums = np.array(totals.sums, dtype=self.group.dtype)
        for _ in range(self.parties + 1):
            self.noisy(sums, rng)
        return Totals(sums.tolist(), totals.users)

    def view(self, released: Sequence[Any]) -> tuple[AddedVectors, ...]:
        """Return the analyzer's view: the sums of all parties."""
        return tuple(released)

    def totals(self, view: Any, context: bytes = b"") -> Totals:
        """Return the sum of each coordinate, and the number of users."""
        if not isinstance(view, tuple) or not all(isinstance(one, AddedVectors) for one in view):
            raise InvalidType("view", f"must be the sums of all parties, got {type(view).__name__}")
        users = {one.users for one in view}
        if len(view) != self.parties + 1 or len(users) != 1:
            raise InvalidValue("view", f"must hold the sums of {self.parties + 1} parties, of "
                               "the same number of reports")  # fmt: skip
        total = np.zeros(self.dimension, dtype=self.group.dtype)
        for one in view:
            if one.sums.shape != total.shape or not self.group.contains(one.sums):
                raise InvalidValue(
                    "view", f"must hold sums of {self.dimension} elements of each party"
                )
            total += one.sums  # q divides the number of values of a machine word
        return Totals(self.elements(total).tolist(), users.pop())

    # All of them

    def run(
        self, inputs: Inputs, rng: RandomSource, context: bytes = b"", **work: Unpack[Work]
    ) -> Totals:
        """Play all users and parties; the helpers' vectors are drawn without seeds."""
        encode, secrets = BlockEncoder(inputs.reader, rng.streams()), rng.streams()

        def part(block: int, values: NDArray[Any]) -> tuple[NDArray[Any], int]:
            elements, secret = encode(values, block).reshape(-1), secrets(block)
            sums = np.empty((self.parties + 1, self.dimension), dtype=self.group.dtype)
            shares = np.empty_like(elements)
            for party in range(1, self.parties + 1):
                secret.uniform_into(shares, self.group)
                self.group.subtract(elements, shares)
                sums[party] = self._added(shares)
            sums[0] = self._added(elements)
            return sums, len(values)

        sums = np.zeros((self.parties + 1, self.dimension), dtype=self.group.dtype)
        users, participation = 0, inputs.reader.users
        inputs.check_users()
        progress = work["progress"]
        threads = cores() if work["threads"] is None else work["threads"]
        try:
            with nullcontext() if threads == 1 else ThreadPoolExecutor(threads) as executor:
                tasks = zip(count(), inputs.blocks(), strict=False)
                for more, some in spread(part, tasks, executor):
                    sums += more  # q divides the number of values of a machine word
                    users += some
                    if progress is not None:
                        progress(users, participation.n)
        except KeyboardInterrupt:
            raise Interrupted(None, users, participation.n, "users") from None
        participation.check("x", users)
        view = (AddedVectors(self.noisy(self.elements(row), rng), users) for row in sums)
        return self.totals(tuple(view))

    def _added(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of vectors that lie one after the other, in machine words."""
        added: NDArray[Any] = rows.reshape(-1, self.dimension).sum(axis=0, dtype=rows.dtype)
        return added


@dataclass(frozen=True)
class Helpers(Recipe):
    """The options of sums with helpers: the recipe of `AddedShares`.

    Parameters
    ----------
    helpers : int
        Parties beside the analyzer that add up numbers. Values are hidden unless all of them and
        the analyzer collude.
    noise : {"users", "parties"}
        Who adds the noise of a private sum; a secure sum has none. All users add shares of it, and
        ``min_honest`` of them must be honest; or each party adds all of it: no user need be honest,
        and the error of one helper is about sqrt(2) times as large, that of k helpers sqrt(k + 1).
    assumptions : tuple of Condition
        Further conditions of guarantees, such as the encryption of messages in transit.

    Examples
    --------
    >>> import ikos
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = ikos.SecureSum(1000, upper=1000, transport=Helpers(2))
    >>> protocol.run(range(1000), DeterministicRandom(0))  # in production, omit the generator
    499500
    """

    helpers: int = 1
    noise: Literal["users", "parties"] = "users"
    assumptions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        count = integer("helpers", self.helpers, low=1, high=MAX_HELPERS)
        object.__setattr__(self, "helpers", count)  # no numpy integer, which JSON does not know
        choice("noise", self.noise, ("users", "parties"))

    @classmethod
    def of(cls, options: Shuffled) -> Helpers:
        """Return one helper; options of shares have no meaning here."""
        if options != Shuffled():
            raise InvalidValue(
                "transport",
                "must not be 'helpers' beside options of shares, which it does not have",
            )
        return cls()

    def noise_users(self, users: Participation) -> int:
        """Return the number of users for each variable of the noise; of the parties', all."""
        return users.least if self.noise == "users" else users.n

    def order(self, least: int) -> int:
        """Return the smallest power of two from ``least`` on."""
        return 1 << (least - 1).bit_length()

    def secure(
        self, users: Participation, dimension: int | None, q: int, upper: int | None, sigma: object
    ) -> AddedShares:
        """Return the transport; refuse a level beyond what keystreams give."""
        del upper
        wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
        if self.noise == "parties":
            raise InvalidValue(
                "noise", "must be 'users' for a secure sum, to which no one adds any"
            )
        transport = self._shares("q", users, dimension, q, None)
        if transport.sigma < wanted:
            raise InvalidValue(
                "sigma",
                f"must be at most {hundredths(transport.sigma)} with helpers for this number of "
                f"users and coordinates, got {quote(sigma)}",
            )
        return transport

    def largest_noise(self, need: Need) -> PlacedNoise:
        """Return the noise: nothing else costs epsilon."""
        delta, shift = need.delta * (1 - HIDING_FRACTION), need.shift.repeated(need.releases)
        if self.noise == "users":
            noise = best_noise(need.epsilon, delta, shift, need.parties)
            return UsersNoise(noise, need.users.least)
        noise = best_noise(need.epsilon, delta, shift, 1 if need.drawn else None)
        return PartiesNoise(noise, self.helpers + 1)

    def size(
        self, need: Need, encoding: Encoding, q: int
    ) -> tuple[AddedShares, PlacedNoise, float]:
        """Return the transport within the budget, the noise, and the delta proved for both.

        With users' noise the keystreams of all honest users' seeds to an honest helper must look
        random, with the parties' only that of the user who is replaced (docs/helpers.md).
        """
        del encoding
        placed = self.largest_noise(need)
        dimension = None if need.scalar else need.shift.dimension
        added, seeds = (None, need.users.n) if self.noise == "users" else (placed.noise, 1)
        transport = self._shares("modulus", need.users, dimension, q, added)
        with rounding(UP):
            factor = need.releases * (1 + gmpy2.exp(exact(need.epsilon, UP)))
            lost = factor * seeds * expansion_loss(transport.dimension, transport.group.bits)
            delta = float_up(lost + gmpy2.mpfr(placed.noise.delta))
        if delta > need.delta:
            raise InvalidValue(
                "delta", f"must be at least {delta:.3g} with helpers for this number of users and "
                f"coordinates, got {quote(need.delta)}"
            )  # fmt: skip
        return transport, placed, delta

    def _shares(
        self, name: str, users: Participation, dimension: int | None, q: int, noise: Noise | None
    ) -> AddedShares:
        """Return the transport of a group of this order, called ``name`` in errors."""
        if q & (q - 1):
            raise InvalidValue(name, f"must be a power of two with helpers, got {quote(q)}")
        if q > LARGEST_GROUP:
            raise InvalidValue(
                name,
                f"must be at most 2^64 with helpers, which sums must not reach, got {quote(q)}",
            )
        layout = HelpersLayout.of(users.n, dimension or 1, q.bit_length() - 1, self.helpers)
        return AddedShares(users, q, layout, noise, self.assumptions)
