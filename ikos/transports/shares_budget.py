"""The number of messages that hide a noisy sum of vectors, and the budget left for the noise.

The chain that leads from (eps0, delta0)-private noise to the guarantee is in docs/vectors.md, "What
the view reveals" and "Rounds".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import gmpy2

from ikos.counts import Layout, hockey_stick
from ikos.counts.analyses import TABLE, checked_scheme
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import MAX_MESSAGES, Budget, MessageCount, Scheme, Trust
from ikos.counts.vectors import least_bytes, level_of_sums, sums_of
from ikos.data.sensitivity import Shift
from ikos.noise.base import Noise
from ikos.noise.choice import HIDING_FRACTION, best_noise
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.numeric.rounding import DOWN, UP, exact, exp_down, float_down, float_up, rounding
from ikos.numeric.search import smallest
from ikos.transports.base import Need


@dataclass(frozen=True)
class SharesBudget:
    """A private sum over shares, without the number of messages and the group order.

    A vector is cut into blocks of ``length`` coordinates, or 0 for the fewest bytes. At most a
    fraction ``reserve`` of epsilon is spent on hiding.
    """

    need: Need
    trust: Trust
    analysis: str
    reserve: Fraction
    length: int
    overhead: int

    @property
    def epsilon(self) -> Fraction:
        """That of all releases together."""
        return self.need.epsilon

    @cached_property
    def total_shift(self) -> Shift:
        """The shift by replacing one user in all releases together."""
        return self.need.shift.repeated(self.need.releases)

    @property
    def sums(self) -> int:
        """Number of blocks, each with its own shufflers."""
        return sums_of(self.need.shift.dimension, self.length)

    @property
    def _has_theorem(self) -> bool:
        """Whether the analysis has its own theorem on privacy."""
        return TABLE[self.analysis].private

    @property
    def _spare(self) -> Fraction:
        """Largest fraction of epsilon that may be spent on c."""
        return self.epsilon * self.reserve if self._has_theorem else Fraction(0)

    @property
    def _noise_delta(self) -> Fraction:
        """The delta for the noise, such that (1+c) times it and the rest are within delta."""
        return self.need.delta * (1 - HIDING_FRACTION) * exp_down(-self._spare / 2)

    @property
    def _hiding_delta(self) -> Fraction:
        """The delta for hiding."""
        return self.need.delta if self.pure else self.need.delta * HIDING_FRACTION

    def _best(self, level: Fraction) -> Noise:
        """Return the smallest noise of all releases together with this epsilon."""
        return best_noise(level, self._noise_delta, self.total_shift, self.need.parties)

    def _noise(self, level: Fraction) -> Noise:
        """Return the noise of all releases together with this epsilon."""
        if self.pure:
            return LaplaceNoise(level / self.total_shift.l1)
        return self._best(level)

    @cached_property
    def pure(self) -> bool:
        """Whether the noise is discrete Laplace, which analyses have their own theorems to hide."""
        return self.need.scalar or isinstance(self._best(self.epsilon - self._spare), LaplaceNoise)

    @property
    def largest_noise(self) -> Noise:
        """The largest possible noise: hiding takes as much of the budget as it may."""
        return self._noise(self.epsilon - self._spare)

    def chosen(self, q: int, messages: int | None = None) -> tuple[Layout, Noise]:
        """Return the fewest messages per block that prove the budget, for groups of order q.

        For a given number of messages, return the proved budget, if any.
        """
        if not self.length:
            d = self.need.shift.dimension
            best = least_bytes(lambda b: replace(self, length=b).chosen(q)[0], d, self.overhead)
            return replace(self, length=best.length).chosen(q)
        if messages is None:
            scheme, allowed = self._scheme(q), self._hiding_delta / self.need.releases
            scheme.refuse_uncovered()
            pure_release = self.pure and self.need.releases == 1
            near = self._budget if pure_release else Budget(Fraction(0), allowed, Fraction(0), 1)

            def enough(m: int) -> bool:
                if pure_release:
                    return scheme.analysis.enough(scheme, m, self._budget)
                return self._delta(q, m) <= self.need.delta

            m = smallest(enough, scheme.analysis.guess(scheme, near), most=MAX_MESSAGES)
        else:
            m = self.trust.hiding(messages)
        layout, noise = self.proved(q, m)
        count = layout.count.with_corruption(self.trust.corrupt_shufflers, messages)
        return replace(layout, count=count), noise

    def _scheme(self, q: int) -> Scheme:
        """Return the scheme of one block."""
        options = {"analysis": self.analysis, **asdict(self.trust)}
        return checked_scheme(self.need.users.n, q**self.length, **options)

    def proved(self, q: int, m: int) -> tuple[Layout, Noise]:
        """Return the proved budget for m shuffled messages per block, and the noise for it."""
        budgeted = self._by_budget if self._by_analysis else self._with_delta
        count, noise = budgeted(q, m)
        sigma = level_of_sums(count.sigma, self.sums, analysis=count.analysis)
        size = self.need.shift.dimension, self.length, (q - 1).bit_length()
        layout = Layout(count, *size, sigma, self.epsilon, count.delta)
        value: dict[str, Any] = {noise.parameter: noise.value}
        return replace(layout, **value), noise

    @property
    def _by_analysis(self) -> bool:
        """Whether the analysis proves one release's pure noise by its theorem, any by Lemma 5.2."""
        return not self._has_theorem or (self.pure and self.need.releases == 1)

    @property
    def _budget(self) -> Budget:
        """That of `_by_analysis`."""
        shift = self.need.shift.l1
        return Budget(self.epsilon, self.need.delta, self.reserve, shift, self.length, self.sums)

    def _delta(self, q: int, m: int) -> float:
        """Return the delta of `proved`, without the level, which takes longer among few users."""
        if not self._by_analysis:
            count, _ = self._with_delta(q, m)
            assert count.delta is not None
            return count.delta
        scheme = self._scheme(q)
        proof = scheme.analysis.privacy(scheme, m, self._budget)
        return 1.0 if proof is None else self._with_noise(proof.delta, proof.noise_epsilon)[0]

    def _with_noise(self, delta: float, level: float) -> tuple[float, Noise]:
        """Return the delta of all releases if each has this one for hiding, and their noise."""
        noise = self._noise(Fraction(level))
        with rounding(UP):
            total = float_up(self.need.releases * gmpy2.mpfr(delta) + gmpy2.mpfr(noise.delta))
        return min(1.0, total), noise

    def _by_budget(self, q: int, m: int) -> tuple[MessageCount, Noise]:
        count = self._scheme(q).proved(m, self._budget)
        assert count.noise_epsilon is not None
        assert count.delta is not None
        delta, noise = self._with_noise(count.delta, count.noise_epsilon)
        return replace(count, delta=delta), noise

    def _with_delta(self, q: int, m: int) -> tuple[MessageCount, Noise]:
        """Noise that needs a delta, or several releases, by the extended hockey-stick theorem."""
        count = self._scheme(q).proved(m)
        graphs = self.trust.share_graphs(m)
        tried = [way for graph in graphs for way in self._ways(q, graph, self._hiding_delta)]
        if not tried:
            whole = float_down(exact(self.epsilon, DOWN))
            noise = self._noise(Fraction(whole))
            return replace(count, delta=1.0, noise_epsilon=whole), noise
        reaching = [way for way in tried if way.delta <= self.need.delta]
        best = min(tried, key=lambda way: way.delta)
        if reaching:
            best = max(reaching, key=lambda way: -way.noise.deviation)
        proof = replace(
            count,
            analysis="second_moment",
            theorem=best.noise.hiding_theorem,
            delta=best.delta,
            noise_epsilon=best.noise_epsilon,
        )
        return proof, best.noise

    def _ways(self, q: int, graph: ShareGraph, allowed: Fraction) -> list[_Way]:
        """Return the proofs with all of epsilon for the noise, and with less of it."""
        whole = float_down(exact(self.epsilon, DOWN))
        untouched = self._way(q, graph, whole, allowed)
        if (untouched is not None and untouched.delta <= self.need.delta) or not self.reserve:
            return [] if untouched is None else [untouched]
        low = float_up(exact(self.epsilon - self._spare, UP))
        ways = [untouched, first := self._way(q, graph, low, allowed)]
        if first is not None:
            # the epsilon that c leaves for the noise; a little less, since c changes with the noise
            more = first.noise.error_growth(self.epsilon / (self.epsilon - self._spare))
            with rounding(DOWN):
                spent = 2 * self.need.releases * gmpy2.log1p(first.relative * exact(more, UP))
                level = float_down(exact(self.epsilon, DOWN) - spent)
            if level > low:
                ways.append(self._way(q, graph, level, allowed))
        return [way for way in ways if way is not None]

    def _way(self, q: int, graph: ShareGraph, level: float, allowed: Fraction) -> _Way | None:
        """Return the proof for noise of this epsilon, or None if c costs too much of it."""
        noise, times = self._noise(Fraction(level)), self.need.releases
        honest = self.trust.min_honest
        moments = noise.divergences(q, graph, honest, self.length, self.sums)
        # (1+c)^(2T) is at most e to the allowed cost of c
        each = allowed if times == 1 else allowed * exp_down(-self._spare) / times
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
    """The proof for some noise, with a relative error c of the view."""

    noise: Noise
    noise_epsilon: float
    relative: gmpy2.mpfr
    delta: float
