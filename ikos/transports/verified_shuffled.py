"""Verified sums in the shuffle model: commitments take the place of clear shares.

- A client commits to its value and sends the analyzer the commitment with a proof that the value is
  valid, and shufflers shares of the blinding factor; of vectors, also shares of the coordinates.
- The analyzer refuses reports whose proofs fail, before a set is fixed.
- Shufflers mix the shares of one set of reports, once.
- The analyzer adds up blinding factors, and finds the sum to which the product of the commitments
  opens. Without one, a share was altered: nothing is released, and nobody can tell whose it was.

The theorems are in docs/verified-sums.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import gmpy2
import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, number, quote
from ikos.accounting.uniform_noise import composed_delta
from ikos.counts import MessageCount
from ikos.counts.analyses import checked_scheme
from ikos.counts.hockey_stick import Divergences, any_noise, least_relative
from ikos.counts.openings import OpeningsLayout, level_together
from ikos.counts.types import MAX_MESSAGES, MAX_SIGMA, Budget, Trust
from ikos.counts.vectors import checked_layout, least_bytes, sums_of
from ikos.data.domains import Residues, ResidueVectors
from ikos.data.encoding import Encoding
from ikos.data.reading import Participation, Reader
from ikos.noise.base import Noise, PlacedNoise
from ikos.numeric.rounding import UP, exact, float_up, fraction, rounding
from ikos.numeric.search import smallest
from ikos.primitives.randomness import RandomSource
from ikos.results.conditions import Condition, Kind
from ikos.transports.base import Need, Part, Reports, ReportSet
from ikos.transports.bounded import BoundedRecipe
from ikos.transports.shares import Shares, Shuffled
from ikos.transports.verified import Commitments, Valid, VerifiedView, valid_sums, valid_values
from ikos.verified.statements import ORDER

if TYPE_CHECKING:
    from ikos.verified.proofs import Proofs

_INFINITE = gmpy2.inf()

HIDING = Fraction(1, 10)
"""Fraction of delta for hiding: noise takes a whole number of steps, and seldom all of its part."""

LARGEST_LOGARITHM = 1 << 50
"""Largest sum of numbers that is found from the product of commitments."""


@dataclass(frozen=True)
class ShuffledOpenings(Commitments):
    """Verified sums whose openings are shared among shufflers: ``keys`` shares blinding factors.

    ``coordinates`` shares vectors; numbers are found from the product of their commitments.
    """

    keys: Shares = field(kw_only=True)
    coordinates: Shares | None = field(kw_only=True, default=None)

    name: ClassVar[str] = "verified-shuffled"

    @property
    def parties(self) -> int:
        """Shufflers: one for each row of shares, or a single one."""
        return max(shares.parties for shares in self._shares)

    @cached_property
    def _shares(self) -> tuple[Shares, ...]:
        return (self.keys,) if self.coordinates is None else (self.keys, self.coordinates)

    def _shares_of(self, party: int) -> tuple[Shares, ...]:
        """Return the shares of which a party has some: no others are sent to it."""
        return tuple(shares for shares in self._shares if party <= shares.parties)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The assumptions on groups, users and parties."""
        every = (one for shares in self._shares for one in shares.conditions)
        groups = dict.fromkeys(one for one in every if one.kind is Kind.GROUP)
        return *groups, *super().conditions

    @property
    def _honest_parties(self) -> Condition:
        return next(one for one in self.keys.conditions if one.kind is Kind.PARTIES)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        shares = [shares.parameters for shares in self._shares]
        protocol = {"protocol": "ikos-shuffled-openings-1", "shares": shares}
        return {**protocol, **super().parameters}

    @property
    def description(self) -> str:
        """The shufflers and the honest users, in words."""
        return self.keys.description

    def remaining(self, *, honest: int | None, corrupt_shufflers: int | None) -> MessageCount:
        """Return the remaining guarantee if fewer users or shufflers are honest than planned."""
        present = {"honest": honest, "corrupt_shufflers": corrupt_shufflers}
        rest, *others = (shares.remaining(**present) for shares in self._shares)
        return replace(rest, sigma=level_together(rest.sigma, *(one.sigma for one in others)))

    # The clients

    def _reports(self, elements: NDArray[Any], rng: RandomSource, context: bytes) -> Reports:
        ids, public, (opened,) = self._committed(elements, rng, context)
        parts: list[list[NDArray[Any]]] = [[public], *([] for _ in range(self.parties))]
        for shares, rows in zip(self._shares, self._shared(opened), strict=True):
            split = shares.shares_of(_reader(shares), rows, rng)
            for part, more in zip(parts, shares.reports(split, ids).parts, strict=False):
                part += more
        return Reports(ids, tuple(map(tuple, parts)))

    def _shared(self, opened: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return what is shared of openings, (users, d + 1), as elements of each group."""
        if self.coordinates is None:
            return (opened[:, -1],)
        return opened[:, -1], opened[:, :-1].astype(self.coordinates.group.dtype)

    # The parties

    def check(self, party: int, part: Part) -> None:
        """Refuse anything but shares, or a report for the analyzer."""
        if not party:
            size = sum(self.public_bytes)
            if [(rows.dtype, rows.shape[1:]) for rows in part] != [(np.dtype(np.uint8), (size,))]:
                raise InvalidValue("part", f"must hold a report of {size} bytes for party 0")
            return
        shares = self._shares_of(party)
        if len(part) != len(shares):
            raise InvalidValue("part", f"must hold {len(shares)} arrays for party {party}")
        for one, rows in zip(shares, part, strict=True):
            one.check(party, (rows,))

    def release(self, party: int, part: Part, rng: RandomSource, **of: Unpack[ReportSet]) -> Any:
        """Return mixed shares; the analyzer's ids and reports as they are."""
        if not party:
            return (tuple(of.get("ids", ())), part[0])
        shares = zip(self._shares_of(party), part, strict=True)
        return tuple(one.release(party, (rows,), rng, **of) for one, rows in shares)

    # The analyzer

    def _openings(self, view: VerifiedView) -> list[list[int]]:
        blinding, *values = (
            shares.totals(shares.view([(), *(one[i] for one in view.released[: shares.parties])]))
            for i, shares in enumerate(self._shares)
        )
        if {len(view.ids)} != {blinding.users, *(totals.users for totals in values)}:
            raise InvalidValue("view", "must hold as many shares in each column as reports")
        return [[*(total for totals in values for total in totals.sums), *blinding.sums]]

    def _opened(
        self, proofs: Proofs, points: list[bytes], openings: Sequence[Sequence[int]]
    ) -> list[int]:
        (*sums, blinding) = openings[0]
        if not sums:
            total = proofs.total(points, blinding, len(points) * self.valid.largest)
            sums = [] if total is None else [total]
        elif not proofs.opens(points, sums, blinding):
            sums = []
        if not sums:
            raise InvalidValue(
                "view",
                "must hold the shares of its reports: some were altered, and nobody can tell "
                "whose; release nothing of these reports, ever",
            )
        return [*sums, blinding]

    # All of them

    def _kept(self, opened: NDArray[Any]) -> NDArray[Any]:
        return opened

    def _added(self, kept: NDArray[Any], rng: RandomSource, threads: int) -> list[list[int]]:
        (opened,), totals = kept, []
        for shares, rows in zip(self._shares, self._shared(opened), strict=True):
            inputs = _reader(shares).read(rows)
            totals += [shares.run(inputs, rng, threads=threads, progress=None).sums]
        blinding, *values = totals
        return [[*(total for sums in values for total in sums), *blinding]]


def _reader(shares: Shares) -> Reader:
    """Return the reader of elements that are shared as they are."""
    domain: Residues = Residues(shares.group, None)
    if not shares.scalar:
        domain = ResidueVectors(shares.group, None, shares.dimension)
    return Reader(Participation(shares.n, 1), domain, None, None, shares.group, shares.scalar)


@dataclass(frozen=True)
class VerifiedShuffled(BoundedRecipe):
    """The options of verified sums in the shuffle model: the recipe of `ShuffledOpenings`.

    Parameters
    ----------
    shares : Shuffled
        How shufflers share openings. The commitment is the clear share, and the analyzer, which
        has it, chooses the set of reports: no other share bypasses the shufflers.

    Examples
    --------
    >>> import ikos
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = ikos.SecureSum(100, upper=10, transport=VerifiedShuffled())
    >>> protocol.cost().messages_per_user
    66
    >>> protocol.run([3] * 100, DeterministicRandom(0))  # in production, omit the generator
    300
    """

    shares: Shuffled = field(default_factory=lambda: Shuffled(clear_share=False))

    def __post_init__(self) -> None:
        if not isinstance(self.shares, Shuffled):
            raise InvalidType("shares", f"must be Shuffled, got {quote(self.shares)}")
        if self.shares.clear_share or self.shares.adaptive:
            raise InvalidValue(
                "shares", "must be Shuffled(clear_share=False, ...), and not adaptive, with "
                "verified sums: the commitment is the clear share, whoever chooses the set"
            )  # fmt: skip

    @classmethod
    def of(cls, options: Shuffled) -> VerifiedShuffled:
        """Return the recipe with some options of shares."""
        return cls(replace(options, clear_share=False))

    def order(self, least: int) -> int:
        """Return the order of the curve."""
        del least
        return ORDER

    def secure(
        self, users: Participation, dimension: int | None, q: int, upper: int | None, sigma: object
    ) -> ShuffledOpenings:
        """Return the fewest messages that prove a level, half of it for each sum of a vector."""
        valid = valid_sums(users, dimension, q, upper)
        if dimension is None:
            return self._openings(users, valid, self.shares.secure(users, None, ORDER, None, sigma))
        wanted = number("sigma", sigma, above=0, high=MAX_SIGMA) + 1
        keys = self.shares.secure(users, None, ORDER, None, wanted)
        coordinates = self.shares.secure(users, dimension, self._group(users, valid), None, wanted)
        return self._openings(users, valid, keys, coordinates)

    def noise_delta(self, need: Need) -> Fraction:
        """Return nine tenths of delta: the rest is for hiding."""
        return need.delta * (1 - HIDING)

    def size(
        self, need: Need, encoding: Encoding, q: int
    ) -> tuple[ShuffledOpenings, PlacedNoise, float]:
        """Return the fewest messages that hide any noise within the budget."""
        placed, users = self.largest_noise(need), need.users
        valid = valid_values(need, encoding, placed.noise, q)
        trust = Trust.of(users.n, min_honest=users.least, **self.shares.trusted())
        hiding, given = _Hiding(need, placed.noise, trust), self.shares.messages
        none, budget = gmpy2.mpfr(0), Budget(Fraction(0), need.delta * HIDING, Fraction(0), 1)
        scheme_options = {"analysis": "second_moment", **self.shares.trusted()}

        def fewest(q: int, others: gmpy2.mpfr, length: int = 1, copies: int = 1) -> Shares:
            """Return the fewest messages with which these shares and others hide any noise."""
            vector = None if q == ORDER else valid.dimension
            order, sums = q**length, sums_of(vector or 1, length)

            def enough(m: int) -> bool:
                return hiding.delta(others, *[hiding.excess(m, order, sums)] * copies) <= need.delta

            scheme = checked_scheme(users.n, order, users.least, **scheme_options)
            guess = scheme.analysis.guess(scheme, budget)
            m = given or smallest(enough, guess, most=MAX_MESSAGES) + trust.corrupt_shufflers
            shares = replace(self.shares, messages=m, layout=length)
            return shares.secure(users, vector, q, None, 1)

        def lost(shares: Shares) -> gmpy2.mpfr:
            layout = shares.layout
            hidden = trust.hiding(layout.count.total)
            return hiding.excess(hidden, shares.q**layout.length, layout.sums)

        coordinates, others = None, none
        if not need.scalar:  # half of what may be lost, and keys the rest
            blocks = partial(fewest, self._group(users, valid), none, copies=2)
            length = checked_layout(self.shares.layout, valid.dimension, given)
            if not length:
                size = valid.dimension, self.shares.overhead
                length = least_bytes(lambda b: blocks(b).layout, *size).length
            coordinates = blocks(length)
            others = lost(coordinates)
        keys = fewest(ORDER, others)
        count = replace(keys.layout.count, theorem=placed.noise.hiding_theorem)
        keys = replace(keys, layout=replace(keys.layout, count=count))
        delta = hiding.delta(others, lost(keys))
        return self._openings(users, valid, keys, coordinates), placed, delta

    def _group(self, users: Participation, valid: Valid) -> int:
        """Return the order of the group in which coordinates are shared: no sum wraps around."""
        return self.shares.order(users.n * valid.largest + 1)

    def _openings(
        self,
        users: Participation,
        valid: Valid,
        keys: Shares,
        coordinates: Shares | None = None,
    ) -> ShuffledOpenings:
        """Return the transport with these shares."""
        if coordinates is None and users.n * valid.largest > LARGEST_LOGARITHM:
            raise InvalidValue(
                "n", f"times the largest value must be at most 2^50 with shuffled commitments, got "
                f"{users.n} times {valid.largest}"
            )  # fmt: skip
        shares = [keys] if coordinates is None else [keys, coordinates]
        layouts = tuple(one.layout for one in shares)
        layout = OpeningsLayout.shared(layouts, valid.statement.proof_bytes)
        options: dict[str, Any] = {"keys": keys, "coordinates": coordinates}
        return ShuffledOpenings(users, valid, layout, self.shares.assumptions, **options)


@dataclass(frozen=True)
class _Hiding:
    """How well shares hide noisy values, of any noise, within the budget of a private sum."""

    need: Need
    noise: Noise
    trust: Trust

    def excess(self, m: int, q: int, sums: int) -> gmpy2.mpfr:
        """Return an upper bound on the second moment of m shares of some sums, less 1."""
        graphs, users = self.trust.share_graphs(m), self.need.users.least
        return min((any_noise(q, graph, users, sums).excess for graph in graphs), default=_INFINITE)

    def delta(self, *excesses: gmpy2.mpfr) -> float:
        """Return the delta proved with noise and independent shares of these second moments.

        A relative error c of the view costs 2 ln(1 + c) of epsilon in each release, and a hiding
        delta: docs/vectors.md, "Rounds", with Theorem 7 of docs/verified-sums.md.
        """
        need, times = self.need, self.need.releases
        with rounding(UP):
            excess = gmpy2.expm1(sum(gmpy2.log1p(one) for one in excesses))
            moments = Divergences(excess / 2, excess)
        level = float_up(exact(need.epsilon, UP))
        relative, hidden = least_relative(moments, level, need.delta * HIDING / (2 * times))
        with rounding(UP):
            spent = 2 * times * gmpy2.log1p(relative)
            grown = (1 + relative) ** times
            hidden *= times * grown**2
        left = need.epsilon - fraction(spent)
        if hidden > exact(need.delta, UP) or left <= 0:
            return 1.0
        shift, users = need.shift.repeated(times), need.users.least
        noise = composed_delta(users, int(self.noise.value), shift.linf, left, shift.moved)
        with rounding(UP):
            return min(1.0, float_up(hidden + grown * gmpy2.mpfr(noise)))
