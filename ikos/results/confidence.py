"""Confidence intervals and tests that are valid at every sample size.

Each is a theorem about n independent draws, for every n. The ends of intervals are computed in
floating point and moved outwards by more than the error (a relative 1e-7 of a binomial tail).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ikos._validation import InvalidValue, integer, number, quote
from ikos.numeric.search import halve
from ikos.numeric.underflow import may_underflow
from ikos.results.sums import Interval

_CONFIDENCE = Fraction(19, 20)
MAX_DRAWS = 1 << 50
_MARGIN = 1e-6  # fraction of a tail that is left unused
_LEAST_RISK = Fraction(1, 10**15)
_SLACK = 1e-9  # relative error of sums of doubles
_ROUNDING = 1e-15  # absolute error of a few operations on numbers of at most 1


@may_underflow()
def clopper_pearson(
    successes: int, trials: int, confidence: float | Fraction = _CONFIDENCE
) -> Interval:
    """Return an interval that contains the probability of an event with at least ``confidence``.

    The event happened in ``successes`` of ``trials`` independent trials. Each side errs with
    probability at most (1 - confidence)/2 (C. J. Clopper, E. S. Pearson, *The use of confidence or
    fiducial limits illustrated in the case of the binomial*, Biometrika 26, 1934).

    >>> print(clopper_pearson(0, 1000))
    [0.00000, 0.00369]
    """
    trials = integer("trials", trials, low=1, high=MAX_DRAWS)
    successes = integer("successes", successes, low=0, high=trials)
    tail = _risk(confidence) / 2
    goal = tail * (1 - _MARGIN)
    failures = trials - successes
    share = successes / trials
    low, high = 0.0, 1.0
    # By bisection, because scipy's beta quantiles can be far off. At probability x, the chance of k
    # or more of n is at most (e n x / k)^k, which gives a first bracket.
    below, above = scipy.special.betainc, scipy.special.betaincc
    if successes:
        start = share * math.exp(math.log(tail) / successes - 1)
        low = _last(lambda x: bool(below(successes, failures + 1, x) <= goal), start, share)
    if failures:
        start = 1 - failures / trials * math.exp(math.log(tail) / failures - 1)
        high = _last(lambda x: bool(above(successes + 1, failures, x) <= goal), start, share)
    return Interval(low, high)


def _last(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the point nearest to ``outside`` at which ``holds`` is true, by bisection."""
    return halve(holds, inside, outside, lambda a, b: (a + b) / 2, steps=120)


def _risk(confidence: float | Fraction) -> float:
    """Return 1 - confidence; refused below 1e-15, which sums of doubles do not resolve."""
    level = number("confidence", confidence, above=0, below=1)
    if 1 - level < _LEAST_RISK:
        raise InvalidValue("confidence", f"must be at most 1 - 1e-15, got {quote(confidence)}")
    return float(1 - level)


@may_underflow()
def mean_interval(
    total: float, trials: int, confidence: float | Fraction = _CONFIDENCE
) -> Interval:
    """Return an interval for the mean of independent variables in [0, 1] that add up to ``total``.

    All means mu with trials * kl(total/trials, mu) <= ln(2 / (1 - confidence)), where kl is the
    relative entropy of two Bernoulli distributions (W. Hoeffding, *Probability inequalities for
    sums of bounded random variables*, J. Amer. Statist. Assoc. 58, 1963, Theorem 1).
    """
    trials = integer("trials", trials, low=1, high=MAX_DRAWS)
    mean = min(1.0, float(number("total", total, low=0, high=trials * (1 + _SLACK))) / trials)
    reach = math.log(2 / _risk(confidence)) / trials
    low = 1.0 - _above(1.0 - mean, reach)
    return Interval(max(0.0, low), _above(mean, reach))


def _above(mean: float, reach: float) -> float:
    """Return the largest mu with kl(mean, mu) <= reach, rounded up."""
    most = reach * (1 + _SLACK) + _ROUNDING

    def beyond(mu: float) -> bool:
        gain = scipy.special.rel_entr([mean, 1 - mean], [mu, 1 - mu]).sum()
        return bool(gain > most)

    high = _last(beyond, 1.0, mean)
    return min(1.0, high * (1 + _SLACK) + _ROUNDING)


def tail_bound(t: float, cells: int) -> float:
    """Bound P[N KL(E || P) >= t] for the empirical distribution E of N draws from P on k cells.

    e^-t (e t / (k - 1))^(k - 1) for t > k - 1, else 1: for every N and every P (R. Agrawal,
    *Finite-sample concentration of the multinomial in relative entropy*, IEEE Trans. Inf. Theory
    66, 2020).
    """
    degrees = integer("cells", cells, low=1) - 1
    if t <= degrees:
        return 1.0
    if degrees == 0:
        return 0.0
    return math.exp(min(0.0, degrees * (1 + math.log(t / degrees)) - t))


def p_value_bound(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """Bound the p-value of a likelihood-ratio test of cell counts against probabilities.

    By `tail_bound`, its false-alarm rate is proved for every number of draws.
    """
    seen = np.asarray(counts, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    if seen.shape != p.shape or not (seen >= 0).all():
        raise InvalidValue(
            "counts", f"must be at least 0, one for each probability, got {quote(counts)}"
        )
    if not (p >= 0).all() or not abs(p.sum() - 1) <= 1e-9:
        raise InvalidValue("probabilities", f"must be at least 0 and add up to 1, got {p.sum()}")
    p = p / p.sum()
    if (seen[p == 0] > 0).any():
        return 0.0
    hit = seen > 0
    t = float(np.sum(seen[hit] * np.log(seen[hit] / (seen.sum() * p[hit]))))
    return tail_bound(t, int((p > 0).sum()))
