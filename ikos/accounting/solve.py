"""Searches for parameters that an accountant proves: where to start, and bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from scipy.special import log_ndtr


def gaussian_log_delta(epsilon: float, mu: float) -> float:
    """Return ln delta at which N(mu, 1) hides N(0, 1) at an epsilon."""
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return first + math.log(-math.expm1(min(second - first, -1e-300)))


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return mu for which distinguishing N(mu, 1) from N(0, 1) is (epsilon, delta)-private."""
    target = math.log(delta)
    return bisect(
        lambda mu: gaussian_log_delta(epsilon, mu) <= target, 1e-9, 1e3, close=1e-14, geometric=True
    )


def gaussian_gamma(k: int, noise: float, n: int) -> float:
    """Return gamma with 2 k (1 - gamma)^2 / (gamma n) = noise: about mu^2 of the digit."""
    c = noise * n / (2 * k)
    return 2 / ((2 + c) + math.sqrt(c * (4 + c)))


def bisect(
    holds: Callable[[float], bool],
    good: float,
    bad: float,
    *,
    close: float = 1e-6,
    geometric: bool = False,
) -> float:
    """Return a point where ``holds`` is true, relatively close to one where it is not."""
    while abs(good - bad) > close * min(good, bad):
        middle = math.sqrt(good * bad) if geometric else (good + bad) / 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def bisect_integers(holds: Callable[[int], bool], good: int, bad: int) -> int:
    """Return an integer where ``holds`` is true, next to one where it is not."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def last_safe(
    excess: Callable[[float], float], slope: float, *, start: float = 0.0, close: float = 2e-4
) -> float:
    """Return a point near the root of an increasing function at which it is not positive.

    By secants from ``start`` with about this slope, until it is within ``close`` below 0.
    """
    low, high, x = -math.inf, math.inf, start
    here = excess(x)
    while high - low > close / 200 and not -close <= here <= 0:
        low, high = (x, high) if here <= 0 else (low, x)
        if x < -50:
            raise ValueError("epsilon and delta must be larger for a composition in doubles")
        if x > 50:
            break
        step = min(max(-(here + close / 2) / slope, -1.0), 1.0)
        before, x = x, x + step
        if not low < x < high:
            x = (low + high) / 2
        before_here, here = here, excess(x)
        slope = min(max((here - before_here) / (x - before), slope / 4), slope * 4)
    return x if here <= 0 else low
