"""Searches for parameters that an accountant proves: where to start, and bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from scipy import optimize
from scipy.stats import norm


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return mu for which distinguishing N(mu, 1) from N(0, 1) is (epsilon, delta)-private."""

    def log_delta(mu: float) -> float:
        first = norm.logsf(epsilon / mu - mu / 2)
        second = epsilon + norm.logsf(epsilon / mu + mu / 2)
        return float(first + math.log(-math.expm1(min(second - first, -1e-300))))

    return float(optimize.brentq(lambda mu: log_delta(mu) - math.log(delta), 1e-9, 1e3))


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
