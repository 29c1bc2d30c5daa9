"""Bisection for the extreme parameter that an accountant proves; returns the proved side."""

from __future__ import annotations

import math
from collections.abc import Callable


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
