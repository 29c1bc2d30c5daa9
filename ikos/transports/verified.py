"""Verified sums: users commit to their values, prove that these are valid, and share the openings.

- A client commits to random shares of its value, one for each party, and sends the analyzer all
  commitments with a proof that they open to a valid value, and each party the opening of its own.
- The analyzer refuses reports whose proofs fail. A relay refuses those whose opening does not fit
  the commitment, which the analyzer hands on. Each names what it refuses.
- A relay adds up the openings of one set of reports, once.
- The analyzer checks every relay's sum against the product of its commitments.

The sum of a set is that of valid values, whatever users and relays do. The theorems are in
docs/verified-sums.md; those on privacy assume nothing on discrete logarithms.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, integer, number, quote
from ikos.counts import MessageCount
from ikos.counts.openings import OpeningsLayout
from ikos.counts.types import MAX_SIGMA
from ikos.data.domains import Bounds, Box, Categories
from ikos.data.encoding import Encoding
from ikos.data.reading import Inputs, Participation, Reader
from ikos.noise.base import Noise, PlacedNoise
from ikos.primitives.concurrency import Interrupted, cores, spread
from ikos.primitives.modular import Integers, Zq
from ikos.primitives.randomness import RandomSource
from ikos.primitives.sharing import split
from ikos.results.conditions import Condition, Kind, present
from ikos.results.text import at_least, grouped
from ikos.transports.base import (
    Evidence,
    Need,
    Part,
    Reports,
    ReportSet,
    Totals,
    Transport,
    Work,
    drawn_ids,
)
from ikos.transports.bounded import BoundedRecipe
from ikos.verified.statements import (
    ORDER,
    POINT_BYTES,
    SCALAR_BYTES,
    Statement,
    bounded,
    one_hot,
)

if TYPE_CHECKING:
    from ikos.verified.proofs import Proofs

Rows = NDArray[np.uint8]

_OCTETS = np.dtype(np.uint8)

LARGEST_SUM = 1 << 62
"""Values and their sums are int64."""

USERS_PER_BLOCK = 256
"""Users whose proofs are made, and verified, together."""

MAX_RELAYS = 100

SCALARS = Zq(ORDER)

SOUND = Condition(
    Kind.CRYPTOGRAPHY,
    "each report commits to a valid value, and the sum is theirs, if discrete logarithms on "
    "secp256k1 are hard and SHA-256 and SHA-512 are random oracles",
    computational=True,
)


NONCES = Condition(
    Kind.RANDOMNESS, "the nonces of proofs are pseudorandom (SHA-512 of fresh random bytes)"
)


@dataclass(frozen=True)
class Valid:
    """The values that users may commit to: in {0..largest} in each coordinate.

    ``one_hot`` values are ``steps`` in one coordinate and 0 in the others, plus noise below
    ``width``.
    """

    dimension: int
    largest: int
    one_hot: tuple[int, int] | None = None

    @cached_property
    def statement(self) -> Statement:
        """What is proved."""
        if self.one_hot is None:
            return bounded(self.largest, self.dimension)
        return one_hot(self.dimension, *self.one_hot)

    @property
    def reach(self) -> float:
        """Greatest Euclidean distance of two valid values, in steps."""
        if self.one_hot is None:
            return self.largest * math.sqrt(self.dimension)
        noise = self.largest - self.one_hot[0]
        return math.hypot(*[self.largest] * 2, *[noise] * (self.dimension - 2))

    @property
    def reach_l1(self) -> int:
        """Greatest distance of two valid values in the 1-norm, in steps."""
        if self.one_hot is None:
            return self.largest * self.dimension
        steps, width = self.one_hot
        return 2 * steps + self.dimension * (width - 1)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        steps, width = self.one_hot or (None, None)
        one_hot = None if steps is None else {"steps": steps, "width": width}
        return {"dimension": self.dimension, "largest": self.largest, "one_hot": one_hot}


def valid_sums(users: Participation, dimension: int | None, q: int, upper: int | None) -> Valid:
    """Return the values of a secure sum, in {0..upper}."""
    if upper is None:
        raise InvalidType("upper", "must be given with verified sums: they are not modulo q")
    if q != ORDER:
        raise InvalidValue("q", f"must not be given with verified sums, got {quote(q)}")
    return _summable(users, Valid(dimension or 1, upper))


def valid_values(need: Need, encoding: Encoding, noise: Noise, q: int) -> Valid:
    """Return the values of a private sum with uniform noise of this width."""
    if q != ORDER:
        raise InvalidValue("modulus", f"must not be given with verified sums, got {quote(q)}")
    domain, steps, width = need.domain, encoding.precision, int(noise.value)
    classes = isinstance(domain, Categories) and len(domain.sizes) == 1
    if not (classes or isinstance(domain, (Bounds, Box))):
        raise InvalidValue(
            "domain", "must be numbers, a Box or Categories of one question with verified sums, "
            f"got {quote(domain)}"
        )  # fmt: skip
    one_hot = (steps, width) if classes else None
    return _summable(need.users, Valid(domain.dimension, steps + width - 1, one_hot))


def _summable(users: Participation, valid: Valid) -> Valid:
    """Refuse values whose sums exceed int64."""
    if users.n * valid.largest >= LARGEST_SUM:
        raise InvalidValue(
            "n", f"times the largest value must be below 2^62 with verified sums, got {users.n} "
            f"times {quote(valid.largest)}"
        )  # fmt: skip
    return valid


@dataclass(frozen=True, eq=False)
class VerifiedView:
    """The analyzer's view: reports, each with commitments and a proof, and parties' releases."""

    ids: tuple[bytes, ...]
    public: Rows
    released: tuple[Any, ...]
    refused: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Commitments(Transport):
    """The common part of verified sums: reports of commitments with proofs."""

    users: Participation
    valid: Valid
    layout: OpeningsLayout
    assumptions: tuple[Condition, ...] = ()
    q: int = field(default=ORDER, init=False)

    bound: ClassVar[bool] = True
    verified: ClassVar[bool] = True
    ring: ClassVar[Integers] = Integers()
    soundness: ClassVar[tuple[Condition, ...]] = (SOUND,)
    openers: ClassVar[int] = 0
    """Number of relays that open commitments, each of its own."""

    @property
    def order(self) -> str:
        """The group, as printed."""
        return "secp256k1"

    @property
    def reach(self) -> float:
        """Greatest Euclidean distance by which one user's valid messages move the sum, in steps."""
        return self.valid.reach

    def influence_lines(self, step: float) -> tuple[str, ...]:
        """Return how far one user can move the sum, a step being that long, and what it assumes."""
        whole, l1 = (grouped(at_least(one * step, 4)) for one in (self.reach, self.valid.reach_l1))
        norms = f" in Euclidean norm, {l1} in 1-norm" if self.dimension > 1 else ""
        sound = (f"verified  {condition}" for condition in self.soundness)
        return f"influence {whole}{norms} (of one user on the sum, at most)", *sound

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The assumptions on users and parties; `soundness` has those of the sum."""
        honest = present(self.users.least, self.users.n, adaptive=True)
        return honest, self._honest_parties, *self.assumptions, NONCES

    @property
    @abstractmethod
    def _honest_parties(self) -> Condition:
        """Which parties must be honest."""

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        users = self.users
        common = {"n": users.n, "min_honest": users.least, "q": hex(self.q)}
        return {**common, **self.valid.parameters}

    def proofs(self, context: bytes) -> Proofs:
        """Return what makes and verifies proofs for one sum."""
        from ikos.verified.proofs import Proofs  # needs the extra

        return Proofs(self.valid.statement, context)

    @cached_property
    def public_bytes(self) -> tuple[int, int]:
        """Lengths of a report's commitments and of its proof."""
        return (self.openers + 1) * POINT_BYTES, self.valid.statement.proof_bytes

    # The clients

    def report(
        self, reader: Reader, values: NDArray[Any], rng: RandomSource, context: bytes = b""
    ) -> Reports:
        """Return the reports of a few clients."""
        return self._reports(reader.elements(values, rng), rng, context)

    @abstractmethod
    def _reports(self, elements: NDArray[Any], rng: RandomSource, context: bytes) -> Reports:
        """Return the reports of users with these elements."""

    def _committed(
        self, elements: NDArray[Any], rng: RandomSource, context: bytes
    ) -> tuple[tuple[bytes, ...], Rows, NDArray[Any]]:
        """Return ids, commitments with proofs, and openings, (openers + 1, users, d + 1)."""
        proofs, values = self.proofs(context), elements.reshape(-1, self.dimension)
        users, parties = len(values), self.openers + 1
        ids, fresh = drawn_ids(users, rng), rng.bytes(users * SCALAR_BYTES)
        opened = np.empty((users, self.dimension + 1), dtype=object)
        opened[:, :-1], opened[:, -1] = values, rng.uniform(ORDER, users)
        shares = split(opened.reshape(-1), SCALARS, parties, rng).reshape(parties, *opened.shape)
        rows = []
        for user, (id, (*y, r)) in enumerate(zip(ids, opened.tolist(), strict=True)):
            sent = [proofs.commit(v[:-1], v[-1]) for v in shares[:, user].tolist()]
            secret = fresh[user * SCALAR_BYTES :][:SCALAR_BYTES]
            rows.append(b"".join((*sent, proofs.prove(y, r, sent, id, secret))))
        public = np.frombuffer(b"".join(rows), np.uint8).reshape(users, sum(self.public_bytes))
        return ids, public, shares

    def share(self, inputs: Inputs, rng: RandomSource, context: bytes = b"") -> Reports:
        """Return all users' reports."""
        streams, made = rng.streams(), list[Reports]()
        for block, values in enumerate(inputs.blocks(USERS_PER_BLOCK)):
            made.append(self.report(inputs.reader, values, streams(block), context))
        ids = tuple(id for reports in made for id in reports.ids)
        inputs.reader.users.check("x", len(ids))
        parts = zip(*(reports.parts for reports in made), strict=True)
        joint = (tuple(map(np.concatenate, zip(*part, strict=True))) for part in parts)
        return Reports(ids, tuple(joint))

    # The parties

    def receipts(self, part: Part) -> Rows:
        """Return the commitments of each report, and SHA-256 of its proof."""
        size, _ = self.public_bytes
        digests = (hashlib.sha256(row[size:].tobytes()).digest() for row in part[0])
        rows = [row[:size].tobytes() + one for row, one in zip(part[0], digests, strict=True)]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), size + 32)

    def refused(
        self,
        party: int,
        part: Part,
        *,
        ids: Sequence[bytes],
        context: bytes = b"",
        receipts: Rows | None = None,
    ) -> list[int]:
        """Return the places of reports whose proofs the analyzer refuses."""
        return [] if party else self._false(part[0], ids, context)

    def _false(self, public: Rows, ids: Sequence[bytes], context: bytes) -> list[int]:
        """Return the places of reports with a false proof."""
        size, _ = self.public_bytes
        rows = map(np.ndarray.tobytes, public)
        reports = [(id, row[:size], row[size:]) for id, row in zip(ids, rows, strict=True)]
        return self.proofs(context).refused(reports)

    def shuffle(
        self,
        shares: Any,
        rng: RandomSource,
        order: str,
        users: Participation,
        context: bytes = b"",
    ) -> VerifiedView:
        """Return the analyzer's view of the reports that no party refuses."""
        if not isinstance(shares, Reports):
            raise InvalidType("shares", f"must be Reports, got {type(shares).__name__}")
        for party, part in enumerate(shares.parts):
            self.check(party, part)
        ids, receipts = shares.ids, self.receipts(shares.parts[0])
        if not len({*ids}) == len(ids) == len(receipts):  # a proof is valid once
            raise InvalidValue("shares", "must have an id of its own for each report")
        of: dict[str, Any] = {"ids": ids, "context": context, "receipts": receipts}
        bad = {i for j, part in enumerate(shares.parts) for i in self.refused(j, part, **of)}
        kept = sorted(set(range(len(ids))) - bad)
        rest = tuple(tuple(rows[kept] for rows in part) for part in shares.parts)
        valid = Reports(tuple(ids[i] for i in kept), rest)
        view: VerifiedView = super().shuffle(valid, rng, order, users, context)
        return replace(view, refused=tuple(ids[i] for i in sorted(bad)))

    def view(self, released: Sequence[Any]) -> VerifiedView:
        """Return the analyzer's view."""
        (ids, public, *own), *others = released
        return VerifiedView(ids, public, (*own, *others))

    # The analyzer

    def totals(self, view: Any, context: bytes = b"") -> Totals:
        """Return the sums in a view, checked against the commitments of its reports.

        Proofs are not verified again.
        """
        if not isinstance(view, VerifiedView):
            raise InvalidType("view", f"must be a VerifiedView, got {type(view).__name__}")
        if not len({*view.ids}) == len(view.ids) == len(view.public):
            raise InvalidValue("view", "must hold an id of its own for each report")
        return replace(self.checked(view, self._openings(view), context), refused=view.refused)

    def checked(
        self, reports: VerifiedView, openings: Sequence[Sequence[int]], context: bytes
    ) -> Totals:
        """Return the sums of reports, given each opener's sum of openings.

        Raises `InvalidValue` for one that does not open the product of its commitments.
        """
        proofs, (size, _) = self.proofs(context), self.public_bytes
        points = [row[:size].tobytes() for row in reports.public]
        *sums, blinding = self._opened(proofs, points, openings)
        evidence = Evidence(context, reports.ids, reports.public, size, tuple(sums), blinding)
        return Totals(sums, len(points), evidence=evidence)

    @abstractmethod
    def _openings(self, view: VerifiedView) -> Sequence[Sequence[int]]:
        """Return each opener's sum of openings, in a view."""

    @abstractmethod
    def _opened(
        self, proofs: Proofs, points: list[bytes], openings: Sequence[Sequence[int]]
    ) -> list[int]:
        """Return the opening of the product of all ``points``, a string for each report."""

    # All of them

    def run(
        self, inputs: Inputs, rng: RandomSource, context: bytes = b"", **work: Unpack[Work]
    ) -> Totals:
        """Play all users and parties: every proof is made, and verified."""
        streams = rng.streams()

        def part(block: int, values: NDArray[Any]) -> tuple[tuple[bytes, ...], Rows, NDArray[Any]]:
            elements = inputs.reader.elements(values, source := streams(block))
            ids, public, opened = self._committed(elements, source, context)
            if self._false(public, ids, context):
                raise RuntimeError("a proof of a valid value was refused")
            return ids, public, self._kept(opened)

        ids: list[bytes] = []
        rows, kept = [], []
        participation = inputs.reader.users
        inputs.check_users()
        progress = work["progress"]
        threads = cores() if work["threads"] is None else work["threads"]
        try:
            with nullcontext() if threads == 1 else ThreadPoolExecutor(threads) as executor:
                tasks = zip(count(), inputs.blocks(USERS_PER_BLOCK), strict=False)
                for some, public, opened in spread(part, tasks, executor):
                    ids += some
                    rows.append(public)
                    kept.append(opened)
                    if progress is not None:
                        progress(len(ids), participation.n)
        except KeyboardInterrupt:
            raise Interrupted(None, len(ids), participation.n, "users") from None
        participation.check("x", len(ids))
        openings = self._added(np.concatenate(kept, axis=1), rng, threads)
        return self.checked(VerifiedView(tuple(ids), np.concatenate(rows), ()), openings, context)

    @abstractmethod
    def _kept(self, opened: NDArray[Any]) -> NDArray[Any]:
        """Return what a run keeps of some users' openings, (openers + 1, rows, d + 1)."""

    @abstractmethod
    def _added(
        self, kept: NDArray[Any], rng: RandomSource, threads: int
    ) -> Sequence[Sequence[int]]:
        """Return each opener's sum of openings, of what a run kept."""


def scalars(rows: NDArray[Any]) -> Rows:
    """Return integers below 2^256, (..., k), as bytes, (..., 32 k)."""
    octets = b"".join(int(one).to_bytes(SCALAR_BYTES, "big") for one in rows.flat)
    return np.frombuffer(octets, np.uint8).reshape(*rows.shape[:-1], -1)


def opening_of(row: Rows) -> list[int]:
    """Return the integers of a row of `scalars`."""
    octets = row.tobytes()
    places = range(0, len(octets), SCALAR_BYTES)
    return [int.from_bytes(octets[i : i + SCALAR_BYTES], "big") for i in places]


def added(openings: NDArray[Any]) -> list[int]:
    """Return the sum of openings, (users, d + 1), modulo the order of the curve."""
    return [int(total) % ORDER for total in openings.sum(axis=0)]


@dataclass(frozen=True)
class AddedOpenings(Commitments):
    """Verified sums whose openings are shared among the analyzer and relays, who add them up."""

    name: ClassVar[str] = "verified"

    @property
    def parties(self) -> int:
        """Relays."""
        return self.layout.count.shuffled

    @property
    def openers(self) -> int:  # type: ignore[override]
        """Relays, each of which opens its own commitments."""
        return self.parties

    @property
    def _honest_parties(self) -> Condition:
        relays = f"{self.parties} relays" if self.parties > 1 else "the relay"
        which = f"while one of the analyzer and {relays} is honest, whichever it is"
        return Condition(Kind.PARTIES, which)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        protocol = {"protocol": "ikos-added-openings-1", "relays": self.parties}
        return {**protocol, **super().parameters}

    @property
    def description(self) -> str:
        """The relays and the honest users, in words."""
        words = f"{self.parties} relay{'s' * (self.parties > 1)}"
        if self.users.least < self.users.n:
            words += f", min_honest={self.users.least}"
        return words

    def remaining(self, *, honest: int | None, corrupt_shufflers: int | None) -> MessageCount:
        """Return the guarantee that remains: all of it, unless every relay is corrupt."""
        if honest is not None:
            integer("honest", honest, low=1, high=self.users.n)
        corrupt = integer("corrupt_shufflers", corrupt_shufflers or 0, low=0, high=self.parties)
        if corrupt < self.parties:
            return self.messages
        return replace(self.messages, sigma=0.0, analysis=None)

    def _reports(self, elements: NDArray[Any], rng: RandomSource, context: bytes) -> Reports:
        ids, public, opened = self._committed(elements, rng, context)
        own, *others = map(scalars, opened)
        return Reports(ids, ((public, own), *((rows,) for rows in others)))

    def check(self, party: int, part: Part) -> None:
        """Refuse anything but openings, with commitments and a proof for the analyzer."""
        sizes = [SCALAR_BYTES * (self.dimension + 1)]
        if not party:
            sizes.insert(0, sum(self.public_bytes))
        if [(rows.dtype, rows.shape[1:]) for rows in part] != [(_OCTETS, (n,)) for n in sizes]:
            what = "an opening" if party else "a report and an opening"
            raise InvalidValue("part", f"must hold {what} of {sum(sizes)} bytes for party {party}")

    def refused(
        self,
        party: int,
        part: Part,
        *,
        ids: Sequence[bytes],
        context: bytes = b"",
        receipts: Rows | None = None,
    ) -> list[int]:
        """Return the places of reports with a false proof, or an opening that does not fit."""
        bad = super().refused(party, part, ids=ids, context=context)
        commitments = part[0] if receipts is None else receipts
        own = commitments[:, party * POINT_BYTES :][:, :POINT_BYTES]
        openings = [opening_of(row) for row in part[-1]]
        points = [row.tobytes() for row in own]
        false = self.proofs(context).unopened(
            points, [values for *values, _ in openings], [one[-1] for one in openings]
        )
        return sorted({*bad, *false})

    def release(self, party: int, part: Part, rng: RandomSource, **of: Unpack[ReportSet]) -> Any:
        """Return the sum of openings; the analyzer's with the ids and reports."""
        del rng
        rows = np.array([opening_of(row) for row in part[-1]], dtype=object)
        total = added(rows)
        return total if party else (tuple(of.get("ids", ())), part[0], total)

    def _openings(self, view: VerifiedView) -> Sequence[Sequence[int]]:
        opened = view.released
        fits = all(len(one) == self.dimension + 1 for one in opened)
        if len(opened) != self.parties + 1 or not fits:
            raise InvalidValue("view", f"must hold the sums of {self.parties + 1} parties")
        return opened

    def _opened(
        self, proofs: Proofs, points: list[bytes], openings: Sequence[Sequence[int]]
    ) -> list[int]:
        for party, (*sums, blinding) in enumerate(openings):
            own = [one[party * POINT_BYTES :][:POINT_BYTES] for one in points]
            if not proofs.opens(own, sums, blinding):
                who = f"relay {party}" if party else "the analyzer"
                raise InvalidValue("view", f"must hold sums of openings; that of {who} is false")
        return added(np.array(openings, dtype=object))

    def _kept(self, opened: NDArray[Any]) -> NDArray[Any]:
        total: NDArray[Any] = opened.sum(axis=1, keepdims=True)
        return total

    def _added(
        self, kept: NDArray[Any], rng: RandomSource, threads: int
    ) -> Sequence[Sequence[int]]:
        return [added(rows) for rows in kept]


@dataclass(frozen=True)
class Verified(BoundedRecipe):
    """The options of verified sums with relays: the recipe of `AddedOpenings`.

    Parameters
    ----------
    relays : int
        Parties beside the analyzer that check and add up openings. Values are hidden unless all of
        them and the analyzer collude.
    noise : {"uniform", "laplace"}
        The noise of a private sum, in shares that are bounded by their own range, or cut at a
        bound: then the error is smaller, and one user can move the sum by tens of values.
    assumptions : tuple of Condition
        Further conditions of guarantees, such as the encryption of messages in transit.

    Examples
    --------
    >>> import ikos
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = ikos.SecureSum(100, upper=10, transport=Verified())
    >>> protocol.run([3] * 100, DeterministicRandom(0))  # in production, omit the generator
    300
    """

    relays: int = 1
    noise: Literal["uniform", "laplace"] = "uniform"
    assumptions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        count = integer("relays", self.relays, low=1, high=MAX_RELAYS)
        object.__setattr__(self, "relays", count)  # no numpy integer, which JSON does not know

    @classmethod
    def of(cls, options: Any) -> Verified:
        """Return one relay; options of shares have no meaning here."""
        if options != type(options)():
            raise InvalidValue(
                "transport",
                "must not be 'verified' with options of shares, which relays do not have",
            )
        return cls()

    def order(self, least: int) -> int:
        """Return the order of the curve; values are bounded in `valid_of`."""
        del least
        return ORDER

    def secure(
        self, users: Participation, dimension: int | None, q: int, upper: int | None, sigma: object
    ) -> AddedOpenings:
        """Return the transport; nothing is lost, at any level."""
        number("sigma", sigma, above=0, high=MAX_SIGMA)
        return self._transport(users, valid_sums(users, dimension, q, upper))

    def size(
        self, need: Need, encoding: Encoding, q: int
    ) -> tuple[AddedOpenings, PlacedNoise, float]:
        """Return the transport, the noise, and its delta: nothing is lost beside it."""
        placed = self.largest_noise(need)
        transport = self._transport(need.users, valid_values(need, encoding, placed.noise, q))
        return transport, placed, placed.noise.delta

    def _transport(self, users: Participation, valid: Valid) -> AddedOpenings:
        """Return the transport of valid values."""
        proof = valid.statement.proof_bytes
        layout = OpeningsLayout.added(self.relays, valid.dimension, proof)
        return AddedOpenings(users, valid, layout, self.assumptions)
