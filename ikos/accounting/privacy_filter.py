"""A privacy filter: whether one more release is within a total budget, for any earlier results.

Every release, its budget included, may be adaptively chosen, after the results of those before it.
A theorem on a fixed list of budgets does not cover that; a filter does (Rogers, Roth, Ullman,
Vadhan, *Privacy Odometers and Filters*, NeurIPS 2016). This one accepts a release while the
epsilons add up to at most the total, or while the losses do in exponential moment of one fixed
order, which is Feldman's and Zrnic's Renyi filter (NeurIPS 2021), with exact moments.
:ref:`proof-filter` has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import gmpy2

from ikos._validation import number, round_down, round_up
from ikos.numeric.rounding import DOWN, UP, exact, float_down, float_up, rounding
from ikos.numeric.search import bisect
from ikos.results.sums import at_most

MAX_EPSILON = 10**6


class Charge(NamedTuple):
    """The proved privacy of a release: (epsilon, delta), and perhaps also mu-Gaussian privacy."""

    epsilon: Fraction
    delta: Fraction
    mu: Fraction | None = None

    @classmethod
    def of(cls, epsilon: object, delta: object = 0, mu: object = None) -> Charge:
        """Check and return a charge."""
        return cls(
            number("epsilon", epsilon, low=0, high=MAX_EPSILON),
            number("delta", delta, low=0, high=1),
            None if mu is None else number("mu", mu, low=0, high=MAX_EPSILON),
        )


class EpsilonDelta(NamedTuple):
    """An epsilon and a delta."""

    epsilon: Fraction
    delta: Fraction

    def __str__(self) -> str:
        return f"({at_most(float(self.epsilon), 6)}, {at_most(float(self.delta), 3)})"


@lru_cache(maxsize=1024)
def log_moment(order: Fraction, epsilon: Fraction) -> Fraction:
    """Return ln E[e^(order L)] of the loss L of randomized response, the largest, rounded up."""
    with rounding(DOWN):
        less = 1 + gmpy2.exp(exact(-epsilon, DOWN))
    with rounding(UP):
        more = 1 + gmpy2.exp(exact(-(2 * order + 1) * epsilon, UP))
        return Fraction(float_up(exact(order * epsilon, UP) + gmpy2.log(more / less)))


@dataclass(frozen=True)
class PrivacyFilter:
    """A total budget, of whose delta ``slack`` pays for composition at an ``order``.

    The order is positive and any one is sound; it is chosen once, before the first release.
    """

    epsilon: Fraction
    delta: Fraction
    slack: Fraction
    order: Fraction

    @classmethod
    def of(cls, epsilon: object, delta: object, slack: object = None) -> PrivacyFilter:
        """Return the filter whose order allows most small releases; by default half is slack."""
        eps = number("epsilon", epsilon, low=1e-6, high=MAX_EPSILON)
        small = number("delta", delta, low=0, below=1)
        reserve = small / 2 if slack is None else number("slack", slack, low=0, high=small)
        basic = cls(eps, small, reserve, Fraction(1))
        if not reserve:
            return basic
        # times 0.1 to 2 is the best one
        scale = -math.log(min(float(reserve) or math.ulp(0), 1 - 2.0**-53)) / float(eps)
        tried = (replace(basic, order=Fraction(scale * 2 ** (i / 8))) for i in range(-27, 10))
        return max(
            tried,
            key=lambda candidate: candidate.limit / float(candidate.order * (candidate.order + 1)),
        )

    @cached_property
    def limit(self) -> float:
        """The largest sum of log-moments that keeps the divergence within slack, rounded down."""
        order = exact(self.order, DOWN)
        with rounding(UP):
            less = exact(self.order, UP) * gmpy2.log(exact(self.order, UP))
        with rounding(DOWN):
            more = exact(self.order * self.epsilon, DOWN) + gmpy2.log(exact(self.slack, DOWN))
            return float_down(more + (order + 1) * gmpy2.log1p(order) - less)

    def log_moment(self, charge: Charge) -> Fraction:
        """Return the log-moment that a release adds, rounded up."""
        if charge.mu is None:
            return log_moment(self.order, charge.epsilon)
        return self.order * (self.order + 1) * charge.mu**2 / 2


@dataclass(frozen=True)
class Account:
    """The spent part of a total budget: sums of epsilons, deltas and log-moments.

    ``adding`` is true as long as the epsilons have stayed within the total.
    """

    total: PrivacyFilter
    epsilons: Fraction = Fraction(0)
    deltas: Fraction = Fraction(0)
    moments: Fraction = Fraction(0)
    adding: bool = True

    def after(self, charge: Charge) -> Account | None:
        """Return the account after one more release, or None if the release does not fit."""
        epsilons, deltas = self.epsilons + charge.epsilon, self.deltas + charge.delta
        moments = self.moments + self.total.log_moment(charge)
        most = self.total.delta - self.total.slack
        if self.adding and epsilons <= self.total.epsilon and deltas <= most:
            return Account(self.total, epsilons, deltas, moments)
        if charge.mu is not None:  # all of its loss is in its moment
            deltas = self.deltas
        if moments <= self.total.limit and deltas <= most:
            return Account(self.total, epsilons, deltas, moments, adding=False)
        return None

    @cached_property
    def left(self) -> EpsilonDelta:
        """The largest epsilon of one more release, and the largest delta at that epsilon.

        The epsilon is too small by at most a relative 1e-9, and 0 if it is below 2e-6 of the total.
        """
        remaining = self.total.epsilon - self.epsilons if self.adding else Fraction(0)

        def fits(epsilon: float) -> bool:
            return self.after(Charge(Fraction(epsilon), Fraction(0))) is not None

        high = 2 * float(self.total.epsilon)
        if fits(low := max(round_down(remaining), high * 1e-6)):
            remaining = max(remaining, Fraction(bisect(fits, low, high, close=1e-9)))
        return EpsilonDelta(remaining, self.total.delta - self.total.slack - self.deltas)

    @cached_property
    def spent(self) -> float:
        """The fraction of the total that is spent, 0 to 1, rounded up."""
        parts = [self.epsilons / self.total.epsilon] if self.adding else []
        if self.total.limit > 0:
            parts.append(self.moments / Fraction(self.total.limit))
        of_delta = self.total.delta - self.total.slack
        part = max(min(parts), self.deltas / of_delta if of_delta else Fraction(0))
        return min(1.0, round_up(part))
