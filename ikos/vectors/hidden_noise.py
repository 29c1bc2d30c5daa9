"""How many messages hide a noisy sum of vectors, and what is left of the budget for the noise.

Discrete Laplace noise in every coordinate may be purely private, or (eps0, delta0)-private for some
delta0 > 0 (`ikos.accounting.vector_noise`). The proofs for the private sum go through two
mechanisms, M_i and M'_i, in which the user whose vector changes carries all the noise, and which
are as private as the noise (`ikos.counts.hockey_stick`; BBGN20, Lemma 5.2). They need no more of
the noise than that, and that it is a sum of jumps that fall on random users. If the views of M and
M_i are within D_(1+c) <= eta, for both inputs, then for every event

    P[M]  <=  (1+c) P[M_i] + eta
          <=  (1+c) (e^eps0 P[M'_i] + delta0) + eta
          <=  (1+c) (e^eps0 ((1+c) P[M'] + eta) + delta0) + eta,

so that M is (eps0 + 2 ln(1+c), (1 + (1+c) e^eps0) eta + (1+c) delta0)-private; c = 0 and
eta = 2^-sigma is the lemma. A hundredth of delta is spent on hiding noise that needs a delta0, and
all of it for noise that does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import gmpy2

from ikos.accounting.vector_noise import NoiseRate, Shift, best_rate
from ikos.counts import Layout, hockey_stick, least, private_proved, proved
from ikos.counts.directed import DOWN, UP, exact, float_down, float_up, rounding
from ikos.counts.private import lemma_5_2, near, share_graphs
from ikos.counts.secure import smallest
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import MessageCount
from ikos.counts.vectors import ONE_GROUP, level_of_sums

__all__ = ["HiddenNoise", "Hiding"]

HIDING_SHARE = Fraction(1, 100)
"""The part of delta that is spent on hiding noise which needs a delta itself."""

WORTH = Fraction(101, 100)
"""By how much noise with a delta must be smaller than purely private noise to be preferred."""


@dataclass(frozen=True)
class HiddenNoise:
    """A layout with noise, and what is proved.

    Attributes
    ----------
    layout : Layout
        Its ``delta`` is that of the whole, 1.0 where nothing is proved.
    noise : NoiseRate
        The noise, private by itself with ``noise_epsilon`` of the layout's count.
    """

    layout: Layout
    noise: NoiseRate


@dataclass(frozen=True)
class Hiding:
    """A private sum of integer vectors, but for the number of messages and the order of the group.

    Parameters
    ----------
    honest, most : int
        Honest users, at least and at most.
    epsilon, delta, reserve : Fraction
        As for `ikos.PrivateSum`.
    shift : Shift
        What one user's replacement can change.
    layout : {"separate sums", "one group"}
        What is shuffled together.
    analysis, shuffler, clear_share
        As for `ikos.SecureSum`.
    """

    honest: int
    most: int
    epsilon: Fraction
    delta: Fraction
    reserve: Fraction
    shift: Shift
    layout: str
    analysis: str
    shuffler: str
    clear_share: bool

    @property
    def sums(self) -> int:
        """How many sums are hidden apart from each other."""
        return 1 if self.layout == ONE_GROUP else self.shift.dimension

    @property
    def _spare(self) -> Fraction:
        """Most of epsilon that may be spent on c."""
        return self.epsilon * self.reserve if self.analysis == "exact" else Fraction(0)

    @property
    def _noise_delta(self) -> Fraction:
        """What noise may spend of delta, such that (1+c) times it and the rest are within delta."""
        with rounding(DOWN):
            shrink = gmpy2.exp(-exact(self._spare / 2, UP))
        above, below = shrink.as_integer_ratio()
        return self.delta * (1 - HIDING_SHARE) * Fraction(int(above), int(below))

    @cached_property
    def pure(self) -> bool:
        """Whether the noise is purely private: the other kind is hardly smaller, or larger."""
        left = self.epsilon - self._spare
        found = best_rate(left, self._noise_delta, self.shift)
        return found.method == "pure" or found.rate < WORTH * left / self.shift.l1

    @property
    def least_rate(self) -> Fraction:
        """The rate of the largest noise there can be, whatever hiding takes of the budget."""
        left = self.epsilon - self._spare
        if self.pure:
            return left / self.shift.l1
        return best_rate(left, self._noise_delta, self.shift).rate

    def chosen(self, q: int, corrupt: int) -> HiddenNoise:
        """Return the fewest messages that prove the budget, for groups of order q."""
        found: dict[int, HiddenNoise] = {}

        def enough(m: int) -> bool:
            found[m] = self.proved(q, m)
            proof = found[m].layout.delta
            assert proof is not None
            return proof <= self.delta

        allowed = self.delta if self.pure else self.delta * HIDING_SHARE
        m = smallest(enough, self._guess(self._order(q), allowed))
        best = found.get(m) or self.proved(q, m)
        return self._sent(best, corrupt, None)

    def given(self, q: int, total: int, corrupt: int) -> HiddenNoise:
        """Return what is proved for so many messages of each sum, if only nothing."""
        found = self.proved(q, max(0, total - int(self.clear_share) - corrupt))
        return self._sent(found, corrupt, total)

    @staticmethod
    def _sent(found: HiddenNoise, corrupt: int, total: int | None) -> HiddenNoise:
        count = found.layout.count.sent(corrupt, total)
        return replace(found, layout=replace(found.layout, count=count))

    def _order(self, q: int) -> int:
        """Return the order of the group of one sum."""
        return int(q ** (self.shift.dimension // self.sums))

    def _guess(self, order: int, allowed: Fraction) -> int:
        if self.analysis == "exact":
            return near(self.honest, order, allowed, self.shuffler, self.clear_share)
        with rounding(UP):
            level = float_up(1 - gmpy2.log2(exact(allowed, DOWN)))
        return least(
            (self.honest, self.honest),
            order,
            Fraction(level),
            analysis=self.analysis,
            shuffler=self.shuffler,
            clear_share=self.clear_share,
        ).shuffled

    def proved(self, q: int, m: int) -> HiddenNoise:
        """Return what is proved for m shuffled messages of each sum."""
        order = self._order(q)
        if self.analysis != "exact":
            count, noise = self._by_lemma(order, m)
        elif self.pure:
            count, noise = self._pure(order, m)
        else:
            count, noise = self._with_delta(order, m)
        sigma = level_of_sums(count.sigma, self.sums, analysis=count.analysis)
        bits = (q - 1).bit_length() * (self.shift.dimension // self.sums)
        layout = Layout(
            self.layout, count, self.sums, bits, sigma, self.epsilon, count.delta, noise.rate
        )
        return HiddenNoise(layout, noise)

    def _present(self, order: int, m: int) -> MessageCount:
        """Return the count with the level for every number of honest users."""
        return proved(
            (self.honest, self.most),
            order,
            m,
            analysis=self.analysis,
            shuffler=self.shuffler,
            clear_share=self.clear_share,
        )

    def _pure(self, order: int, m: int) -> tuple[MessageCount, NoiseRate]:
        """Purely private noise, by the hockey-stick theorem as it is."""
        d = self.shift.dimension
        count = private_proved(
            self.honest,
            order,
            m,
            self.epsilon,
            self.delta,
            self.shift.linf,
            shuffler=self.shuffler,
            clear_share=self.clear_share,
            reserve=self.reserve,
            dimension=d // self.sums,
            sensitivity=self.shift.l1,
            sums=self.sums,
            most=self.most,
        )
        assert count.noise_epsilon is not None
        rate = Fraction(count.noise_epsilon) / self.shift.l1
        return count, NoiseRate(rate, "pure", 0.0)

    def _by_lemma(self, order: int, m: int) -> tuple[MessageCount, NoiseRate]:
        """Any noise, by Lemma 5.2 and the level of the sums together."""
        count = proved(
            (self.honest, self.honest),
            order,
            m,
            analysis=self.analysis,
            shuffler=self.shuffler,
            clear_share=self.clear_share,
        )
        level = level_of_sums(count.sigma, self.sums, analysis=self.analysis)
        together = replace(count, sigma=level, analysis=self.analysis if level > 0 else None)
        hidden = lemma_5_2(together, self.epsilon)
        assert hidden.noise_epsilon is not None
        assert hidden.delta is not None
        left = Fraction(hidden.noise_epsilon)
        noise = NoiseRate(left / self.shift.l1, "pure", 0.0)
        if not self.pure:
            noise = best_rate(left, self._noise_delta, self.shift)
        with rounding(UP):
            total = float_up(gmpy2.mpfr(hidden.delta) + gmpy2.mpfr(noise.delta))
        present = self._present(order, m)
        return replace(hidden, delta=min(1.0, total), sigma=present.sigma), noise

    def _with_delta(self, order: int, m: int) -> tuple[MessageCount, NoiseRate]:
        """Noise that needs a delta, by the extended hockey-stick theorem."""
        count = self._present(order, m)
        allowed = self.delta * HIDING_SHARE
        tried = sorted(
            (
                way
                for graph in share_graphs(m, self.shuffler, self.clear_share)
                for way in self._ways(order, graph, allowed)
            ),
            key=self._preference,
        )
        if not tried:
            left = float_down(exact(self.epsilon, DOWN))
            noise = best_rate(Fraction(left), self._noise_delta, self.shift)
            return replace(count, delta=1.0, noise_epsilon=left), noise
        best = tried[0]
        found = replace(
            count,
            analysis="exact",
            theorem=hockey_stick.THEOREM,
            delta=best.delta,
            noise_epsilon=best.noise_epsilon,
        )
        return found, best.noise

    def _preference(self, way: _Way) -> tuple[bool, Fraction | float]:
        """Return what sorts first: of ways that reach delta, the one of the least noise."""
        reached = way.delta <= self.delta
        return not reached, -way.noise.rate if reached else way.delta

    def _ways(self, order: int, graph: ShareGraph, allowed: Fraction) -> list[_Way]:
        """Return what is proved with all of epsilon for the noise, and with less of it."""
        whole = float_down(exact(self.epsilon, DOWN))
        untouched = self._way(order, graph, whole, allowed)
        if (untouched is not None and untouched.delta <= self.delta) or not self.reserve:
            return [] if untouched is None else [untouched]
        low = float_up(exact(self.epsilon - self._spare, UP))
        found = [untouched, first := self._way(order, graph, low, allowed)]
        if first is not None:
            # as much for the noise as c leaves, and a hair for what moves with it
            with rounding(DOWN):
                spent = 2 * gmpy2.log1p(first.relative * (1 + gmpy2.mpfr(2) ** -10))
                left = float_down(exact(self.epsilon, DOWN) - spent)
            if left > low:
                found.append(self._way(order, graph, left, allowed))
        return [way for way in found if way is not None]

    def _way(self, order: int, graph: ShareGraph, level: float, allowed: Fraction) -> _Way | None:
        """Return what is proved for noise of this epsilon, or None if it takes too much of it."""
        noise = best_rate(Fraction(level), self._noise_delta, self.shift)
        jumps = hockey_stick.Noise.discrete_laplace(
            self.honest, noise.rate, self.shift.dimension // self.sums
        )
        moments = hockey_stick.divergences(order, graph, jumps).of_sums(self.sums, graph)
        relative, hidden = hockey_stick.least_relative(moments, level, allowed)
        with rounding(UP):
            spent = 2 * gmpy2.log1p(relative) + gmpy2.mpfr(level)
            total = hidden + (1 + relative) * gmpy2.mpfr(noise.delta)
        if hidden >= 1 or spent > exact(self.epsilon, DOWN):
            # without a c, if that proves anything
            hidden = hockey_stick.least_relative(
                hockey_stick.Divergences(moments.difference, gmpy2.mpfr(0)), level, allowed
            )[1]
            relative = gmpy2.mpfr(0)
            with rounding(UP):
                total = hidden + gmpy2.mpfr(noise.delta)
            if hidden >= 1:
                return None
        return _Way(noise, level, relative, min(1.0, float_up(total)))


@dataclass(frozen=True)
class _Way:
    """What is proved for some noise, with a relative error c of the view."""

    noise: NoiseRate
    noise_epsilon: float
    relative: gmpy2.mpfr
    delta: float
