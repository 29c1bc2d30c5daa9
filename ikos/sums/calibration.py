"""How many messages hide a noisy sum of vectors, and how much budget remains for the noise.

The chain that leads from (eps0, delta0)-private noise to the guarantee is in the documentation:
Sums of vectors, "What the view reveals" and "Rounds".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache, cached_property

import gmpy2

from ikos.counts import Layout, hockey_stick, skellam
from ikos.counts.analyses import TABLE, checked_scheme
from ikos.counts.share_graph import ShareGraph, share_graphs
from ikos.counts.types import MAX_MESSAGES, Budget, MessageCount, Scheme, Trust
from ikos.counts.vectors import ENVELOPE_BYTES, least_bytes, level_of_sums, sums_of
from ikos.data.sensitivity import LaplaceNoise, Shift
from ikos.noise.skellam import SkellamNoise, VectorNoise, best_noise
from ikos.numeric.rounding import DOWN, UP, exact, float_down, float_up, rounding
from ikos.numeric.search import smallest
from ikos.results.sums import ONE_REPORT

MAX_RELEASES = 10**6
"""Largest number of sums about the same users."""

HIDING_SHARE = Fraction(1, 100)
"""The part of delta spent on hiding noise that itself needs a delta."""


def _exp_down(exponent: Fraction) -> Fraction:
    """Return e^exponent for an exponent of at most 0, rounded down."""
    with rounding(DOWN):
        above, below = gmpy2.exp(-exact(-exponent, UP)).as_integer_ratio()
    return Fraction(int(above), int(below))


def reports(releases: int) -> str:
    """Return the condition of a guarantee for this many releases."""
    if releases == 1:
        return ONE_REPORT
    return (
        f"for {releases:,} reports per user in all, each of which may depend on earlier results; "
        "every further release about the same users adds to it"
    )


@dataclass(frozen=True)
class NoiseCalibration:
    """A private sum of integer vectors, without the number of messages and the group order.

    ``shift`` is what replacing one user can change; the budget is for all ``releases``. A vector is
    cut into blocks of ``length`` coordinates, or 0 for the fewest bytes. For numbers, the noise is
    ``always_pure``; it need not be ``drawn`` to find an encoding.
    """

    users: int
    trust: Trust
    epsilon: Fraction
    delta: Fraction
    reserve: Fraction
    shift: Shift
    length: int
    analysis: str
    overhead: int = ENVELOPE_BYTES
    releases: int = 1
    always_pure: bool = False
    drawn: bool = True

    @cached_property
    def total_shift(self) -> Shift:
        """What replacing one user can change in all releases together."""
        return self.shift.repeated(self.releases)

    @property
    def sums(self) -> int:
        """Number of blocks, each with its own shufflers."""
        return sums_of(self.shift.dimension, self.length)

    @property
    def _has_theorem(self) -> bool:
        """Whether the analysis has a theorem of its own on privacy."""
        return TABLE[self.analysis].private

    @property
    def _spare(self) -> Fraction:
        """Largest part of epsilon that may be spent on c."""
        return self.epsilon * self.reserve if self._has_theorem else Fraction(0)

    @property
    def _noise_delta(self) -> Fraction:
        """The delta for the noise, such that (1+c) times it and the rest are within delta."""
        return self.delta * (1 - HIDING_SHARE) * _exp_down(-self._spare / 2)

    @property
    def _hiding_delta(self) -> Fraction:
        """The delta for hiding."""
        return self.delta if self.pure else self.delta * HIDING_SHARE

    def _best(self, level: Fraction) -> VectorNoise:
        """Return the smallest noise of all releases together with this epsilon."""
        parties = self.trust.min_honest if self.drawn else None
        return best_noise(level, self._noise_delta, self.total_shift, parties)

    def _noise(self, level: Fraction) -> VectorNoise:
        """Return the noise of all releases together with this epsilon."""
        if self.pure:
            return LaplaceNoise(level / self.total_shift.l1)
        return self._best(level)

    @cached_property
    def pure(self) -> bool:
        """Whether the noise is purely private."""
        if self.always_pure:
            return True
        return isinstance(self._best(self.epsilon - self._spare), LaplaceNoise)

    @property
    def largest_noise(self) -> VectorNoise:
        """The largest possible noise: hiding takes as much of the budget as it may."""
        return self._noise(self.epsilon - self._spare)

    def hiding(self) -> gmpy2.mpfr:
        """Return the largest advantage that masked vectors may leave, rounded down.

        In the place of what is masked is the sum, but for this advantage nu, in each release: for
        every test, P[M in E] <= e^epsilon P[M' in E] + (1 + e^epsilon) nu, and the noise's delta.
        """
        allowed = self._hiding_delta / self.releases
        with rounding(UP):
            factor = 1 + gmpy2.exp(exact(self.epsilon, UP))
        with rounding(DOWN):
            return exact(allowed, DOWN) / factor

    def masked(self, layout: Layout, lost: gmpy2.mpfr) -> Layout:
        """Return the layout of masked vectors, which lose so much, with what is proved."""
        noise = self.largest_noise
        with rounding(UP):
            hidden = self.releases * (1 + gmpy2.exp(exact(self.epsilon, UP))) * lost
            delta = float_up(hidden + gmpy2.mpfr(noise.delta))
        layout = replace(layout, epsilon=self.epsilon, delta=delta)
        if isinstance(noise, SkellamNoise):
            return replace(layout, variance=noise.variance)
        return replace(layout, rate=noise.rate)

    def chosen(self, q: int, messages: int | None = None) -> tuple[Layout, VectorNoise]:
        """Return the fewest messages per block that prove the budget, for groups of order q.

        For a given number of messages, return what is proved, possibly nothing.
        """
        if not self.length:
            d = self.shift.dimension
            best = least_bytes(lambda b: replace(self, length=b).chosen(q)[0], d, self.overhead)
            return replace(self, length=best.length).chosen(q)
        proof = cache(lambda m: self.proved(q, m))
        if messages is None:

            def enough(m: int) -> bool:
                delta = proof(m)[0].delta
                return delta is not None and delta <= self.delta

            scheme, allowed = self._scheme(q), self._hiding_delta / self.releases
            scheme.refuse_uncovered()
            near = Budget(Fraction(0), allowed, Fraction(0), 1)
            m = smallest(enough, scheme.analysis.guess(scheme, near), most=MAX_MESSAGES)
        else:
            m = self.trust.hiding(messages)
        layout, noise = proof(m)
        count = layout.count.with_corruption(self.trust.corrupt_shufflers, messages)
        return replace(layout, count=count), noise

    def _scheme(self, q: int) -> Scheme:
        """Return the scheme of one block."""
        how = {"analysis": self.analysis, **asdict(self.trust)}
        return checked_scheme(self.users, q**self.length, **how)

    def proved(self, q: int, m: int) -> tuple[Layout, VectorNoise]:
        """Return what is proved for m shuffled messages per block, and the noise for it."""
        if self._has_theorem and not (self.pure and self.releases == 1):
            count, noise = self._with_delta(q, m)
        else:
            count, noise = self._by_budget(q, m)
        sigma = level_of_sums(count.sigma, self.sums, analysis=count.analysis)
        size = self.shift.dimension, self.length, (q - 1).bit_length()
        layout = Layout(count, *size, sigma, self.epsilon, count.delta)
        if isinstance(noise, SkellamNoise):
            return replace(layout, variance=noise.variance), noise
        return replace(layout, rate=noise.rate), noise

    def _by_budget(self, q: int, m: int) -> tuple[MessageCount, VectorNoise]:
        """Purely private noise of one release by the analysis's own theorem, any by Lemma 5.2."""
        total_shift = self.shift.l1
        budget = Budget(self.epsilon, self.delta, self.reserve, total_shift, self.length, self.sums)
        count = self._scheme(q).proved(m, budget)
        assert count.noise_epsilon is not None
        assert count.delta is not None
        noise = self._noise(Fraction(count.noise_epsilon))
        with rounding(UP):
            total = float_up(self.releases * gmpy2.mpfr(count.delta) + gmpy2.mpfr(noise.delta))
        return replace(count, delta=min(1.0, total)), noise

    def _with_delta(self, q: int, m: int) -> tuple[MessageCount, VectorNoise]:
        """Noise that needs a delta, or several releases, by the extended hockey-stick theorem."""
        count = self._scheme(q).proved(m)
        graphs = share_graphs(m, **self.trust.graph)
        tried = [way for graph in graphs for way in self._ways(q, graph, self._hiding_delta)]
        if not tried:
            left = float_down(exact(self.epsilon, DOWN))
            noise = self._noise(Fraction(left))
            return replace(count, delta=1.0, noise_epsilon=left), noise
        reaching = [way for way in tried if way.delta <= self.delta]
        best = min(tried, key=lambda way: way.delta)
        if reaching:
            best = max(reaching, key=lambda way: -way.noise.deviation)
        is_skellam = isinstance(best.noise, SkellamNoise)
        found = replace(
            count,
            analysis="second_moment",
            theorem=skellam.THEOREM if is_skellam else hockey_stick.THEOREM,
            delta=best.delta,
            noise_epsilon=best.noise_epsilon,
        )
        return found, best.noise

    def _ways(self, q: int, graph: ShareGraph, allowed: Fraction) -> list[_Way]:
        """Return what is proved with all of epsilon for the noise, and with less of it."""
        whole = float_down(exact(self.epsilon, DOWN))
        untouched = self._way(q, graph, whole, allowed)
        if (untouched is not None and untouched.delta <= self.delta) or not self.reserve:
            return [] if untouched is None else [untouched]
        low = float_up(exact(self.epsilon - self._spare, UP))
        found = [untouched, first := self._way(q, graph, low, allowed)]
        if first is not None:
            # the epsilon that c leaves for the noise; a little less, since c changes with the noise
            more = Fraction(1025, 1024)
            if isinstance(first.noise, SkellamNoise):  # less noise hides less
                more = (self.epsilon / (self.epsilon - self._spare)) ** 3
            with rounding(DOWN):
                spent = 2 * self.releases * gmpy2.log1p(first.relative * exact(more, UP))
                left = float_down(exact(self.epsilon, DOWN) - spent)
            if left > low:
                found.append(self._way(q, graph, left, allowed))
        return [way for way in found if way is not None]

    def _divergences(
        self, noise: VectorNoise, q: int, graph: ShareGraph
    ) -> hockey_stick.Divergences:
        """Return the second moments of all views of one release."""
        n, together = self.trust.min_honest, self.length
        if isinstance(noise, SkellamNoise):
            return skellam.divergences(q, graph, n, noise.variance, together, self.sums)
        jumps = hockey_stick.NoiseJumps.discrete_laplace(n, noise.rate, together)
        return hockey_stick.divergences(q**together, graph, jumps).of_sums(self.sums, graph)

    def _way(self, q: int, graph: ShareGraph, level: float, allowed: Fraction) -> _Way | None:
        """Return what is proved for noise of this epsilon, or None if c costs too much of it."""
        noise, times = self._noise(Fraction(level)), self.releases
        moments = self._divergences(noise, q, graph)
        # (1+c)^(2T) is at most e to the allowed cost of c
        each = allowed if times == 1 else allowed * _exp_down(-self._spare) / times
        relative, hidden = hockey_stick.least_relative(moments, level, each)
        with rounding(UP):
            spent = 2 * times * gmpy2.log1p(relative) + gmpy2.mpfr(level)
        if hidden >= 1 or spent > exact(self.epsilon, DOWN):
            # with c = 0, if that proves anything
            alone = hockey_stick.Divergences(moments.difference, gmpy2.mpfr(0))
            hidden = hockey_stick.least_relative(alone, level, each)[1]
            relative = gmpy2.mpfr(0)
            if hidden >= 1:
                return None
        with rounding(UP):
            grown = 1 + relative
            total = times * grown ** (2 * times - 2) * hidden
            total += grown**times * gmpy2.mpfr(noise.delta)
        return _Way(noise, level, relative, min(1.0, float_up(total)))


@dataclass(frozen=True)
class _Way:
    """What is proved for some noise, with a relative error c of the view."""

    noise: VectorNoise
    noise_epsilon: float
    relative: gmpy2.mpfr
    delta: float
