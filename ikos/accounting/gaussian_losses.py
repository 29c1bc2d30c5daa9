"""Gaussian approximations of the privacy losses of responses, as starting points of searches.

They prove nothing: an exact accountant recomputes the result of a search.
"""

from __future__ import annotations

import math
from functools import lru_cache

import scipy


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return mu for which distinguishing N(mu, 1) from N(0, 1) is (epsilon, delta)-private."""

    def log_delta(mu: float) -> float:
        first = scipy.stats.norm.logsf(epsilon / mu - mu / 2)
        second = epsilon + scipy.stats.norm.logsf(epsilon / mu + mu / 2)
        return float(first + math.log(-math.expm1(min(second - first, -1e-300))))

    return float(scipy.optimize.brentq(lambda mu: log_delta(mu) - math.log(delta), 1e-9, 1e3))


def gaussian_gamma(k: int, noise: float, n: int) -> float:
    """Return gamma with 2 k (1 - gamma)^2 / (gamma n) = noise: about mu^2 of the digit."""
    c = noise * n / (2 * k)
    return 2 / ((2 + c) + math.sqrt(c * (4 + c)))
