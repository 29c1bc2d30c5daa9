"""The delta that a Renyi divergence buys (CKS20, Proposition 12)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import gmpy2
import numpy as np
from gmpy2 import mpfr

from ikos.counts.rounding import DOWN, UP, exact, float_up, rounding


def _log_conversion(order: float, divergence: float, epsilon: float) -> float:
    """Return ln delta in doubles, for the search of an order; divergence is (a - 1) D_a."""
    a = order
    return divergence - (a - 1) * epsilon + a * math.log1p(-1 / a) - math.log(a - 1)


def best_order(divergence: Callable[[float], float], epsilon: float) -> float:
    """Return about the order a of the smallest delta, for (a - 1) D_a in doubles."""
    from scipy import optimize

    def log_delta(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return _log_conversion(order, divergence(order), epsilon)

    grid = np.linspace(-12, 23, 141)
    values = [log_delta(float(point)) for point in grid]
    best = int(np.argmin(values))
    near = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, grid.size - 1)]))
    found = optimize.minimize_scalar(
        log_delta, bounds=near, method="bounded", options={"xatol": 1e-7}
    )
    return 1 + math.exp(float(found.x))


def converted(order: Fraction, divergence_up: mpfr, epsilon: Fraction) -> float:
    """Return delta for an order and an upper bound of (a - 1) D_a, rounded up."""
    a = order
    with rounding(UP):
        # a ln(1 - 1/a), which is negative, and -ln(a - 1)
        shrink = exact(a, DOWN) * gmpy2.log(exact(1 - 1 / a, UP))
        if shrink > 0:
            shrink = mpfr(0)
    with rounding(DOWN):
        spent = exact((a - 1) * epsilon, DOWN) + gmpy2.log(exact(a - 1, DOWN))
    with rounding(UP):
        return min(1.0, float_up(gmpy2.exp(divergence_up + shrink - spent)))
