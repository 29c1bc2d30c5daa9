"""Masked vectors: clients send vectors under masks, and shares of the keys of the masks.

- A client sends its masked vector to the analyzer, and shares of its key to the shufflers. The
  masked vector is sealed: it is hidden by a stream whose key is the exclusive or of 32 bytes for
  each shuffler.
- A shuffler mixes the shares of one set of reports, once, and releases its 32 bytes of each report
  in the set.
- The analyzer adds up the keys' shares and the masked vectors of the set, and subtracts the sum of
  the masks.

The proof is in docs/masked-vectors.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import count
from typing import Any, ClassVar, Unpack

import gmpy2
import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, integer, number, quote
from ikos.counts import MessageCount
from ikos.counts.masks import SEAL_BYTES, MaskedLayout, MaskParameters, mask_parameters
from ikos.counts.types import MAX_SIGMA, Trust
from ikos.counts.vectors import MASKED
from ikos.data.domains import ResidueVectors
from ikos.data.encoding import Encoding
from ikos.data.reading import Inputs, Participation, Reader
from ikos.noise.base import UsersNoise
from ikos.noise.choice import HIDING_FRACTION, best_noise
from ikos.numeric.rings import Negacyclic, Words, above, add, from_bytes, raised, scaled, to_bytes
from ikos.numeric.rounding import DOWN, UP, exact, float_down, float_up, rounding
from ikos.primitives.concurrency import Interrupted, cores, spread
from ikos.primitives.modular import Integers, blocks
from ikos.primitives.randomness import RandomSource
from ikos.primitives.samplers import discrete_gaussian
from ikos.primitives.shuffling import View
from ikos.results.conditions import Condition, Kind
from ikos.results.text import hundredths
from ikos.transports.base import (
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
from ikos.transports.shares import MAX_ENTRIES, Shares, Shuffled

COEFFICIENTS_PER_PASS = 1 << 18
"""Coefficients of a vector that are masked at a time."""

LARGEST_SUM = 1 << 61
"""Sums are int64, and so are digits of two of them."""

THEOREM = "masked vectors, docs/masked-vectors.md"


# tried for many lengths of blocks, on which the masks do not depend
_mask_parameters = lru_cache(maxsize=16)(mask_parameters)


def joint(seals: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the exclusive or of all parties' seals, a row for each user."""
    rows: NDArray[np.uint8] = np.bitwise_xor.reduce(np.asarray(seals))
    return rows


@dataclass(frozen=True, eq=False)
class MaskedView:
    """The analyzer's view: sealed masked vectors, mixed shares of keys, and seals.

    ``masked`` has a row of bytes for each user, and so has each of ``seals``, one per shuffler.
    """

    masked: NDArray[np.uint8]
    keys: View
    seals: tuple[NDArray[np.uint8], ...]


@dataclass(frozen=True)
class Masks(Transport):
    """Masked vectors of ``n`` users, with entries from 0 to ``highest`` before noise.

    ``masks`` has the parameters of the masks, and ``keys`` are the shares that add up the keys.
    Sums of integers are released modulo ``q``, a power of two that they do not exceed.
    """

    n: int
    q: int
    highest: int
    masks: MaskParameters
    keys: Shares

    name: ClassVar[str] = "masks"
    bound: ClassVar[bool] = True
    ring: ClassVar[Integers] = Integers()

    @cached_property
    def polynomials(self) -> Negacyclic:
        """The polynomials of masked vectors."""
        return Negacyclic(self.masks.degree, self.masks.modulus_bits)

    @property
    def parties(self) -> int:
        """Shufflers for shares of keys: one for each row of all blocks, or a single one."""
        return self.keys.parties

    @cached_property
    def layout(self) -> MaskedLayout:  # type: ignore[override]
        """The messages per user, with the level for the vector."""
        keys = self.keys.layout
        size = self.masks.dimension, keys.length, (self.q - 1).bit_length()
        more: dict[str, Any] = {"masks": self.masks, "keys": keys, "shufflers": self.parties}
        return MaskedLayout(keys.count, *size, self._level(keys.sigma), **more)

    def lost(self, keys: float) -> gmpy2.mpfr:
        """Return a bound on the advantage beyond all assumptions: from shares, and split masks.

        ``keys`` is the level at which the sum of keys hides them.
        """
        with rounding(UP):
            return sum(gmpy2.exp2(-gmpy2.mpfr(bits)) for bits in (keys, self.masks.security))

    def _level(self, keys: float) -> float:
        """Return the level for any two inputs with the same sum, in bits, rounded down."""
        with rounding(UP):
            return max(0.0, float_down(-gmpy2.log2(2 * self.lost(keys))))

    @property
    def failure(self) -> float:  # type: ignore[override]
        """Bound on the probability that the errors of the masks make sums wrong."""
        return self.masks.failure

    @property
    def digits(self) -> int:  # type: ignore[override]
        """Coordinates in a coefficient, which a carry makes wrong together."""
        return self.masks.digits

    @property
    def theorem(self) -> str:
        """The theorem, and that of the keys."""
        return f"{THEOREM}; keys: {self.keys.layout.count.theorem}"

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The assumptions on lattices and hashes, and on the parties that add keys."""
        masks = self.masks
        assumed = (
            f"assuming {masks.row}, an advantage against which counts up to "
            f"{masks.users - 1:,} times for each sum and input",
            "assuming that SHAKE-128 and SHAKE-256 behave as random oracles",
        )
        proved = (
            f"keys are hidden to 2^-{hundredths(self.keys.sigma)}, and splitting masks costs "
            f"2^-{hundredths(masks.security)}: both are proved, and counted"
        )
        computational = (Condition(Kind.CRYPTOGRAPHY, text, computational=True) for text in assumed)
        return (*computational, Condition(Kind.SCOPE, proved), *self.keys.conditions)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        return {
            "protocol": "ikos-masked-vector-sum-1",
            "q": hex(self.q),
            **asdict(self.masks),
            "keys": self.keys.parameters,
        }

    @property
    def description(self) -> str:
        """The shufflers and the honest users, in words."""
        return self.keys.description

    def remaining(self, *, honest: int | None, corrupt_shufflers: int | None) -> MessageCount:
        """Return the remaining guarantee of whole vectors if fewer are honest than planned."""
        keys = self.keys.remaining(honest=honest, corrupt_shufflers=corrupt_shufflers)
        return replace(keys, sigma=self._level(keys.sigma))

    # How vectors are masked

    def _seed(self, context: bytes) -> bytes:
        """Return the seed of the public polynomials."""
        return hashlib.sha256(b"ikos masked vectors 1" + context).digest()

    def gaussians(self, polynomials: int, rng: RandomSource) -> NDArray[np.int64]:
        """Return random polynomials, keys (each of one vector) or errors."""
        masks = self.masks
        drawn = discrete_gaussian(masks.deviation**2, polynomials * masks.degree, rng)
        return drawn.reshape(polynomials, masks.degree)

    def masked(
        self,
        seed: bytes,
        vectors: NDArray[np.int64],
        keys: NDArray[np.int64],
        rng: RandomSource,
    ) -> Iterator[tuple[slice, int, Words]]:
        """Yield the messages for vectors: numbers of polynomials, of users, and their upper bits.

        All of a user's have the key in its row of ``keys``; ``seed`` determines the public ones.
        Polynomial l has coordinates l N c to (l + 1) N c - 1, of which the first N are the lowest
        digits.
        """
        masks, ring, users = self.masks, self.polynomials, len(vectors)
        size = masks.degree * masks.digits
        for rows in blocks(masks.samples, max(1, COEFFICIENTS_PER_PASS // masks.degree)):
            public = ring.transform(ring.public(seed, range(rows.start, rows.stop)))
            drawn = self.gaussians(users * (rows.stop - rows.start), rng)
            errors = drawn.reshape(users, -1, masks.degree)
            here = vectors[:, rows.start * size : rows.stop * size]
            full = np.zeros((users, (rows.stop - rows.start) * size), dtype=np.int64)
            full[:, : here.shape[1]] = here
            digits = full.reshape(users, -1, masks.digits, masks.degree)
            for user, key in enumerate(keys):
                sent = ring.product(public, key)
                add(sent, scaled(errors[user], 0, ring.words))
                for digit in range(masks.digits):
                    place = masks.shift + digit * masks.digit_bits
                    add(sent, scaled(digits[user, :, digit], place, ring.words))
                ring.reduce(sent)
                yield rows, user, above(sent, masks.dropped_bits)

    def unmasked(
        self, seed: bytes, total: Words, keys: NDArray[Any], users: int
    ) -> NDArray[np.int64]:
        """Return the sums of vectors, each within M/2 of the middle of the possible range.

        ``total`` is the sum of the messages, and ``keys`` that of the keys modulo q_s.
        """
        masks, ring, centre = self.masks, self.polynomials, -(-users * self.highest // 2)
        taken = keys.astype(np.int64)
        taken[taken >= masks.key_modulus // 2] -= masks.key_modulus
        half = 1 << masks.digit_bits - 1
        # half of the dropped bits' range and of the errors' is added, and half of each digit's
        constant = users * ((1 << masks.dropped_bits) - 1) // 2 + (1 << masks.shift - 1)
        for digit in range(masks.digits):
            constant += half - centre << masks.shift + digit * masks.digit_bits
        constants = [constant >> 64 * i & (1 << 64) - 1 for i in range(ring.words)]
        result = np.empty((masks.samples, masks.digits, masks.degree), dtype=np.int64)
        for rows in blocks(masks.samples, max(1, COEFFICIENTS_PER_PASS // masks.degree)):
            left = raised(total[:, rows], masks.dropped_bits)
            public = ring.transform(ring.public(seed, range(rows.start, rows.stop)))
            add(left, ring.product(public, -taken))
            add(left, np.array(constants, dtype=np.uint64).reshape(-1, 1, 1))
            for digit in range(masks.digits):
                low = above(left, masks.shift + digit * masks.digit_bits)[0]
                digits = (low & np.uint64(2 * half - 1)).astype(np.int64)
                result[rows, digit] = digits + (centre - half)
        return result.reshape(-1)[: masks.dimension]

    # The clients

    def report(
        self, reader: Reader, values: NDArray[Any], rng: RandomSource, context: bytes = b""
    ) -> Reports:
        """Return the reports of a few clients; their keys are used for nothing else."""
        masked, keys = self._masked_bytes(reader.elements(values, rng), context, rng)
        return self._reports(masked, self.keys.shares_of(self._key_reader, keys, rng), rng)

    def share(self, inputs: Inputs, rng: RandomSource, context: bytes = b"") -> Reports:
        """Return all users' messages."""
        streams, users = rng.streams(), 0
        masked: list[NDArray[np.uint8]] = []
        keys: list[NDArray[Any]] = []
        for block, values in enumerate(inputs.blocks(self._users_at_once)):
            users += len(values)
            if users * self.masks.coefficients > MAX_ENTRIES:
                raise InvalidValue(
                    "x",
                    f"has users whose messages have more than {MAX_ENTRIES} entries; "
                    "use run, or fewer users",
                )
            source = streams(block)
            vectors = inputs.reader.elements(values, source)
            octets, some = self._masked_bytes(vectors, context, source)
            masked.append(octets)
            keys.append(some)
        inputs.reader.users.check("x", users)
        shares = self.keys.share(self._key_reader.read(np.concatenate(keys)), rng)
        return self._reports(np.concatenate(masked), shares, rng)

    @property
    def _users_at_once(self) -> int:
        """Users whose vectors are masked at a time."""
        return max(1, COEFFICIENTS_PER_PASS // self.masks.coefficients)

    @cached_property
    def _key_reader(self) -> Reader:
        """The reader of keys, which are elements already."""
        domain = ResidueVectors(self.keys.group, None, self.keys.dimension)
        users = Participation(self.n, 1)
        return Reader(users, domain, None, None, self.keys.group, scalar=False)

    def _masked_bytes(
        self, vectors: NDArray[np.int64], context: bytes, rng: RandomSource
    ) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        """Return masked vectors, (k, bytes), and their keys, (k, degree), modulo q_s."""
        keys, packed = self.gaussians(len(vectors), rng), [bytearray() for _ in vectors]
        for _, user, sent in self.masked(self._seed(context), vectors, keys, rng):
            packed[user] += to_bytes(sent, self._width)
        return np.array([*map(bytearray, packed)], dtype=np.uint8), self.keys.group.reduce(keys)

    @property
    def _width(self) -> int:
        """Bits of a coefficient that are sent."""
        return self.masks.modulus_bits - self.masks.dropped_bits

    def _reports(
        self, masked: NDArray[np.uint8], shares: NDArray[Any], rng: RandomSource
    ) -> Reports:
        """Return sealed masked vectors and shares of keys, (messages, k, degree), by party."""
        ids = drawn_ids(len(masked), rng)
        drawn = np.frombuffer(rng.bytes(self.parties * len(masked) * SEAL_BYTES), np.uint8)
        seals = drawn.reshape(self.parties, len(masked), SEAL_BYTES)
        sealed = np.array([masked[i] ^ self._stream(seal) for i, seal in enumerate(joint(seals))])
        own, *parts = self.keys.reports(shares, ids).parts
        by_shuffler = ((*part, seal) for part, seal in zip(parts, seals, strict=True))
        return Reports(ids, ((sealed, *own), *by_shuffler))

    def _stream(self, seal: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the stream that hides a masked vector, for the exclusive or of its seals."""
        stream = hashlib.shake_256(b"ikos masked vector" + seal.tobytes())
        return np.frombuffer(stream.digest(self.masks.masked_bytes), np.uint8)

    # The shufflers

    def check(self, party: int, part: Part) -> None:
        """Refuse anything but a masked vector, or a seal, with shares of a key."""
        shares, octets = (part[:-1], part[-1:]) if party else (part[1:], part[:1])
        self.keys.check(party, shares)
        size = SEAL_BYTES if party else self.masks.masked_bytes
        if [(rows.dtype, rows.shape[1:]) for rows in octets] != [(np.dtype(np.uint8), (size,))]:
            what = "a seal" if party else "a masked vector"
            raise InvalidValue("part", f"must hold {what} of {size} bytes for party {party}")

    def release(self, party: int, part: Part, rng: RandomSource, **of: Unpack[ReportSet]) -> Any:
        """Return the mixed shares of keys, and the seals; the analyzer's part as it is."""
        if not party:
            return part
        *shares, seals = part
        return self.keys.release(party, tuple(shares), rng, **of), seals

    def view(self, released: Sequence[Any]) -> MaskedView:
        """Return the analyzer's view."""
        (masked, *clear), *others = released
        keys = self.keys.view([tuple(clear), *(columns for columns, _ in others)])
        return MaskedView(masked, keys, tuple(seals for _, seals in others))

    # The analyzer

    def totals(self, view: Any, context: bytes = b"") -> Totals:
        """Return the sums of all vectors in a view."""
        if not isinstance(view, MaskedView):
            raise InvalidType("view", f"must be a MaskedView, got {type(view).__name__}")
        keys = self.keys.totals(view.keys)
        if {keys.users} != {len(rows) for rows in (view.masked, *view.seals)}:
            raise InvalidValue("view", "must hold as many masked vectors and seals as keys")
        total = self.zeros()
        for sealed, seal in zip(view.masked, joint(view.seals), strict=True):
            self.add_opened(total, sealed, seal)
        return self.unmask(total, keys, context)

    def zeros(self) -> Words:
        """Return the sum of no masked vectors."""
        return self.polynomials.zeros(self.masks.samples)

    def add_opened(self, total: Words, sealed: NDArray[np.uint8], seal: NDArray[np.uint8]) -> None:
        """Add a sealed masked vector to a sum, opened by the `joint` seal of its report."""
        ring, opened = self.polynomials, sealed ^ self._stream(seal)
        add(total, from_bytes(opened, self._width, ring.words, ring.degree))

    def unmask(self, total: Words, keys: Totals, context: bytes = b"") -> Totals:
        """Return the sums of vectors, from those of masked vectors and of keys."""
        summed = np.array(keys.sums, dtype=self.keys.group.dtype)
        sums = self.unmasked(self._seed(context), total, summed, keys.users)
        return Totals((sums % self.q).tolist(), keys.users)

    # All of them

    def run(
        self, inputs: Inputs, rng: RandomSource, context: bytes = b"", **work: Unpack[Work]
    ) -> Totals:
        """Play all parties: mask some users' vectors at a time, and add them up.

        Seals are left out, as they cancel out.
        """
        seed, streams = self._seed(context), rng.streams()

        def part(number: int, values: NDArray[Any]) -> tuple[Words, NDArray[Any]]:
            source = streams(number)
            vectors = inputs.reader.elements(values, source)
            keys = self.gaussians(len(vectors), source)
            total = self.zeros()
            for rows, _, sent in self.masked(seed, vectors, keys, source):
                add(total[:, rows], sent)
            return total, self.keys.group.reduce(keys)

        total, keys, users = self.zeros(), [], 0
        participation = inputs.reader.users
        inputs.check_users()
        progress = work["progress"]
        threads = cores() if work["threads"] is None else work["threads"]
        try:
            with nullcontext() if threads == 1 else ThreadPoolExecutor(threads) as executor:
                tasks = zip(count(), inputs.blocks(self._users_at_once), strict=False)
                for more, some in spread(part, tasks, executor):
                    add(total, more)
                    keys.append(some)
                    users += len(some)
                    if progress is not None:
                        progress(users, participation.n)
        except KeyboardInterrupt:
            raise Interrupted(None, users, participation.n, "users") from None
        participation.check("x", users)
        elements = self._key_reader.read(np.concatenate(keys))
        added = self.keys.run(elements, rng, threads=threads, progress=None)
        return self.unmask(total, added, context)


@dataclass(frozen=True)
class Masked(Recipe):
    """The options of masked vectors: the recipe of `Masks`.

    Parameters
    ----------
    keys : Shuffled
        The shares of keys: in blocks, with as many messages as hide them.
    """

    keys: Shuffled = field(default_factory=lambda: Shuffled(layout="blocks"))

    @classmethod
    def of(cls, options: Shuffled) -> Masked:
        """Return the recipe whose keys are shared with some options."""
        if options.messages is not None:
            raise InvalidValue(
                "messages", f"must be None with masked vectors, got {options.messages!r}"
            )
        if options.layout not in ("separate", "blocks", MASKED):
            raise InvalidValue(
                "layout", f"must not be given with masked vectors, got {quote(options.layout)}"
            )
        return cls(replace(options, layout="blocks"))

    def order(self, least: int) -> int:
        """Return the smallest power of two from ``least`` on."""
        return 1 << (least - 1).bit_length()

    def secure(
        self, users: Participation, dimension: int | None, q: int, upper: int | None, sigma: object
    ) -> Masks:
        """Return the masks that take the fewest bytes at a level of security."""
        if upper is None:
            raise InvalidType("upper", "must be given with masked vectors: sums are not modulo q")
        wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
        with rounding(DOWN):
            allowed = gmpy2.exp2(-exact(wanted + 1, UP))
        largest = -(-users.n * upper // 2)
        return self._masks(users, dimension, q, upper, largest, allowed)

    def largest_noise(self, need: Need) -> UsersNoise:
        """Return the noise: nothing else costs epsilon."""
        noise_delta = need.delta * (1 - HIDING_FRACTION)
        shift = need.shift.repeated(need.releases)
        noise = best_noise(need.epsilon, noise_delta, shift, need.parties)
        return UsersNoise(noise, need.users.least)

    def size(self, need: Need, encoding: Encoding, q: int) -> tuple[Masks, UsersNoise, float]:
        """Return the masks that take the fewest bytes within the budget.

        Up to an advantage nu, each release reveals the noisy sum alone: for every test, P[M in E]
        <= e^epsilon P[M' in E] + (1 + e^epsilon) nu plus the noise's delta.
        """
        if q & (q - 1):
            raise InvalidValue(
                "modulus", f"must be a power of two with masked vectors, got {quote(q)}"
            )
        placed = self.largest_noise(need)
        noise = placed.noise
        hiding = (need.delta * HIDING_FRACTION if noise.delta else need.delta) / need.releases
        with rounding(UP):
            factor = 1 + gmpy2.exp(exact(need.epsilon, UP))
        with rounding(DOWN):
            allowed = exact(hiding, DOWN) / factor
        d = None if need.scalar else need.shift.dimension
        size = q, encoding.precision, q // 2 - 1
        masks = self._masks(need.users, d, *size, allowed, noise.deviation)
        with rounding(UP):
            hidden = need.releases * factor * masks.lost(masks.keys.sigma)
            delta = min(1.0, float_up(hidden + gmpy2.mpfr(noise.delta)))
        return masks, placed, delta

    def _masks(
        self,
        users: Participation,
        dimension: int | None,
        q: int,
        highest: int,
        largest: int,
        allowed: gmpy2.mpfr,
        deviation: float = 0.0,
    ) -> Masks:
        """Return masks for which `Masks.lost` is at most ``allowed``.

        ``largest`` is that of the sums, less the middle of the possible range, and ``deviation``
        the standard deviation of the noise, which never leaves int64 if 2^10 of them fit.
        """
        if dimension is None:
            raise InvalidValue(
                "transport", "must not be 'masks' for numbers: masks are for vectors"
            )
        if max(largest, 1024 * deviation) >= LARGEST_SUM:
            raise InvalidValue(
                "sums", f"must be below 2^{LARGEST_SUM.bit_length() - 1} for masked vectors"
            )
        keys = replace(self.keys, overhead=integer("overhead", self.keys.overhead, low=0))
        trust = Trust.of(users.n, min_honest=users.least, **keys.trusted())
        with rounding(DOWN):
            bits = math.ceil(-gmpy2.log2(allowed))
        options = {"overhead": keys.overhead, "analysis": keys.analysis, **asdict(trust)}
        masks = _mask_parameters(users.n, dimension, largest, sigma=bits, **options)
        with rounding(UP):
            split = gmpy2.exp2(-gmpy2.mpfr(masks.security))
        with rounding(DOWN):
            hiding = allowed - split
        if hiding <= 0:
            raise ValueError(
                "n and dimension must be less for masked vectors of this level: splitting the "
                f"masks costs 2^-{hundredths(masks.security)}"
            )
        with rounding(DOWN):
            level = Fraction(float_up(-gmpy2.log2(hiding)))
        shares = keys.secure(users, masks.degree, masks.key_modulus, None, level)
        return Masks(users.n, q, highest, masks, shares)
