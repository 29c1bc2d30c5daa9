"""Statements about samples that hold at every sample size, not in the limit of many.

Each is a theorem about n independent draws, for every n: no normal approximation, no condition on
how many draws fall where. Ends of intervals are computed in floating point and moved outwards by
more than its errors: a binomial tail is evaluated with a relative error below 1e-7 up to
2^50 draws, and asked to be a millionth smaller than it must be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc

from ikos._validation import integer, number, quote
from ikos.results import Interval

_CONFIDENCE = Fraction(19, 20)

MAX_DRAWS = 1 << 50
"""Most draws of one statement."""

_MARGIN = 1e-6
"""What is asked of a tail beyond what it must be, as a part of it."""

_LEAST_RISK = Fraction(1, 10**15)

_SLACK = 1e-9
"""Relative error that is allowed to sums of doubles."""

_ROUNDING = 1e-15
"""Absolute error that is allowed to a few operations on numbers of at most 1."""


def clopper_pearson(
    successes: int, trials: int, confidence: float | Fraction = _CONFIDENCE
) -> Interval:
    """Return an interval for the probability of an event from how often it happened.

    Parameters
    ----------
    successes, trials : int
        How often it happened, in how many independent trials.
    confidence : float
        The interval contains the probability with at least this probability, whatever it is.

    Notes
    -----
    C. J. Clopper, E. S. Pearson, *The use of confidence or fiducial limits illustrated in the case
    of the binomial*, Biometrika 26, 1934. Each side errs with probability at most
    (1 - confidence)/2, also where the interval ends at 0 or 1.

    Examples
    --------
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
    # Beta quantiles are found here and not by scipy, whose search can end far away. For k of n,
    # the chance of k or more is at most (e n x / k)^k at probability x: a first bracket.
    if successes:
        start = share * math.exp(math.log(tail) / successes - 1)
        low = _last(lambda x: bool(betainc(successes, failures + 1, x) <= goal), start, share)
    if failures:
        start = 1 - failures / trials * math.exp(math.log(tail) / failures - 1)
        high = _last(lambda x: bool(betaincc(successes + 1, failures, x) <= goal), start, share)
    return Interval(low, high)


def _last(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return a point as near to ``outside`` as can be at which ``holds`` is true."""
    for _ in range(120):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def _risk(confidence: float | Fraction) -> float:
    """Return 1 - confidence, of at least 1e-15: below, sums of doubles are not told from 1."""
    level = number("confidence", confidence, above=0, below=1)
    if 1 - level < _LEAST_RISK:
        raise ValueError(f"confidence must be at most 1 - 1e-15, got {quote(confidence)}")
    return float(1 - level)


def mean_interval(
    total: float, trials: int, confidence: float | Fraction = _CONFIDENCE
) -> Interval:
    """Return an interval for the mean of independent variables that lie in [0, 1].

    Parameters
    ----------
    total : float
        The sum of the variables.
    trials : int
        How many there were.
    confidence : float
        The interval contains the mean with at least this probability, whatever their distributions.

    Notes
    -----
    All means mu with trials * kl(total/trials, mu) <= ln(2 / (1 - confidence)), where kl is the
    relative entropy of two Bernoulli distributions: W. Hoeffding, *Probability inequalities for
    sums of bounded random variables*, J. Amer. Statist. Assoc. 58, 1963, Theorem 1. Narrow where
    the variables are nearly always 0 or nearly always 1.

    Examples
    --------
    >>> print(mean_interval(999.5, 1000))
    [0.99463, 1.00000]
    """
    trials = integer("trials", trials, low=1, high=MAX_DRAWS)
    mean = min(1.0, float(number("total", total, low=0, high=trials * (1 + _SLACK))) / trials)
    reach = math.log(2 / _risk(confidence)) / trials
    low = 1.0 - _above(1.0 - mean, reach)
    return Interval(max(0.0, low), _above(mean, reach))


def _above(mean: float, reach: float) -> float:
    """Return the largest mu with kl(mean, mu) <= reach, rounded up."""
    most = reach * (1 + _SLACK) + _ROUNDING
    high = _last(lambda mu: _relative_entropy(mean, mu) > most, 1.0, mean)
    return min(1.0, high * (1 + _SLACK) + _ROUNDING)


def _relative_entropy(p: float, q: float) -> float:
    first = p * math.log(p / q) if p > 0 else 0.0
    if p == 1:
        return first
    return first + (1 - p) * math.log((1 - p) / (1 - q)) if q < 1 else math.inf


def tail_bound(t: float, cells: int) -> float:
    """Bound the probability that N KL(E || P) is at least t, for N draws from some cells.

    Parameters
    ----------
    t : float
        N times the relative entropy of the empirical distribution of N draws to the true one.
    cells : int
        How many values the draws can take.

    Returns
    -------
    float
        e^-t (e t / (k - 1))^(k - 1) for k cells and t > k - 1, else 1: an upper bound for every N
        and every distribution (R. Agrawal, *Finite-sample concentration of the multinomial in
        relative entropy*, IEEE Trans. Inf. Theory 66, 2020).

    Examples
    --------
    >>> tail_bound(30.0, 2) < 1e-10
    True
    """
    degrees = integer("cells", cells, low=1) - 1
    if math.isnan(t):
        raise ValueError(f"t must be a number, got {t}")
    if degrees == 0:
        return 1.0 if t <= 0 else 0.0
    if t <= degrees:
        return 1.0
    return math.exp(min(0.0, degrees * (1 + math.log(t / degrees)) - t))


def p_value_bound(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """Bound the probability, under given probabilities, of counts that fit it as badly as these.

    A likelihood-ratio test whose false-alarm rate is proved for every number of draws
    (`tail_bound`).

    Parameters
    ----------
    counts : (k,) array_like of int
        How often each cell occurred.
    probabilities : (k,) array_like of float
        The cells' probabilities; normalized here against rounding.

    Returns
    -------
    float
        An upper bound of the p-value.

    Examples
    --------
    >>> p_value_bound([495, 505], [0.5, 0.5]), p_value_bound([600, 400], [0.5, 0.5]) < 1e-6
    (1.0, True)
    """
    seen = np.asarray(counts, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    if seen.shape != p.shape:
        raise ValueError(
            f"counts and probabilities must have one shape, got {seen.shape} and {p.shape}"
        )
    if not (seen >= 0).all():
        raise ValueError("counts must not be negative")
    if not (p >= 0).all() or not abs(p.sum() - 1) <= 1e-9:
        raise ValueError(f"probabilities must be at least 0 and add up to 1, got {p.sum()}")
    p = p / p.sum()
    if (seen[p == 0] > 0).any():
        return 0.0
    hit = seen > 0
    t = float(np.sum(seen[hit] * np.log(seen[hit] / (seen.sum() * p[hit]))))
    return tail_bound(t, int((p > 0).sum()))
