"""Searches for parameters that an accountant proves: where to start, and bisection."""

from __future__ import annotations

import math
from collections.abc import Callable


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


def crossing(excess: Callable[[float], float], bad: float, good: float) -> float:
    """Return a point where ``excess`` is at most 0, within a millionth of one where it is not.

    By chords, aimed a little to the side of the root whose end is farther away (Illinois).
    """
    above, below = excess(bad), min(excess(good), -1e-300)
    side = 1.0
    while good - bad > 1e-6 * bad:
        root = bad + (good - bad) * above / (above - below)
        margin = (good - bad) * 1e-3
        point = min(max(root * (1 + side * 4e-7), bad + margin), good - margin)
        here = excess(point)
        if here > 0:
            below = below / 2 if side > 0 else below
            bad, above, side = point, here, 1.0
        else:
            above = above / 2 if side < 0 else above
            good, below, side = point, min(here, -1e-300), -1.0
    return good


def last_safe(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return a point, near a root of an increasing function, at which it is not positive."""
    step = high - low
    while (f_low := excess(low)) > 0:
        low, high, step = low - step, low, 2 * step
        if low < -50:
            raise ValueError("epsilon and delta must be larger for a composition in doubles")
    while (f_high := excess(high)) <= 0:
        low, high, f_low, step = high, high + step, f_high, 2 * step
        if high > 50:
            return low
    # Regula falsi with halving (Illinois): a few evaluations, and the safe side is kept.
    for _ in range(30):
        if high - low < 2e-4 or -1e-3 < f_low <= 0:
            break
        middle = low - f_low * (high - low) / (f_high - f_low)
        middle = min(max(middle, low + (high - low) * 1e-3), high - (high - low) * 1e-3)
        here = excess(middle)
        if here <= 0:
            low, f_low = middle, here
            f_high /= 2
        else:
            high, f_high = middle, here
            f_low /= 2
        if here <= 0 and here > -1e-3:
            break
    return low
