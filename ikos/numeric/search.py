"""Searches: the smallest integer that is enough, bisections, roots on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from ikos._validation import InvalidValue

_LEAST = 1e-320  # of a delta whose logarithm is taken

T = TypeVar("T")


def halve(
    holds: Callable[[T], bool],
    good: T,
    bad: T,
    middle: Callable[[T, T], T | None],
    *,
    steps: int = 100_000,
) -> T:
    """Return a point where ``holds`` is true, by bisection towards a point where it is false.

    Ends when ``middle`` returns None, as the two are close, or after some steps.
    """
    for _ in range(steps):
        if (point := middle(good, bad)) is None:
            break
        good, bad = (point, bad) if holds(point) else (good, point)
    return good


def least_point(f: Callable[[float], float], low: float, high: float) -> float:
    """Return a point near the minimum of a function that falls and then rises (golden sections).

    It is within 1e-9 of the interval's length.
    """
    part = (math.sqrt(5) - 1) / 2
    a, b = high - part * (high - low), low + part * (high - low)
    at_a, at_b = f(a), f(b)
    for _ in range(43):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - part * (high - low)
            at_a = f(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + part * (high - low)
            at_b = f(b)
    return a if at_a < at_b else b


def log_excess(delta: float, target: float) -> float:
    """Return ln(delta / target), positive if delta is larger and negative otherwise.

    1 or -1 where the logarithms are equal, as below 1e-320: chords must not end there.
    """
    ratio = math.log(max(delta, _LEAST)) - math.log(max(target, _LEAST))
    return max(ratio, 0.0) or 1.0 if delta > target else min(ratio, 0.0) or -1.0


def first(enough: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first number above ``low`` that is enough, given that ``high`` is."""
    return halve(enough, high, low, lambda a, b: (a + b) // 2 if a - b > 1 else None)


def smallest(enough: Callable[[int], bool], guess: int, *, most: int) -> int:
    """Return the smallest m >= 1 that is enough, searched for from a guess in doubling steps.

    ValueError if the steps pass ``most``.
    """
    step = 1
    if enough(guess):
        high, low = guess, guess - 1
        while low >= 1 and enough(low):
            high, low, step = low, max(0, low - step), 2 * step
    else:
        low, high = guess, guess + 1
        while not enough(high):
            low, high, step = high, high + step, 2 * step
            if low > most:
                raise ValueError(f"no number of messages up to {most} is proved enough")
    return first(enough, low, high)


def bisect(
    holds: Callable[[float], bool],
    good: float,
    bad: float,
    *,
    close: float = 1e-6,
    geometric: bool = False,
) -> float:
    """Return a point where ``holds`` is true, relatively close to one where it is false."""

    def middle(good: float, bad: float) -> float | None:
        if not abs(good - bad) > close * min(good, bad):
            return None
        return math.sqrt(good * bad) if geometric else (good + bad) / 2

    return halve(holds, good, bad, middle)


def bisect_integers(
    holds: Callable[[int], bool], good: int, bad: int, *, close: float = 0.0
) -> int:
    """Return an integer where ``holds`` is true, next to or relatively close to one where not."""

    def middle(good: int, bad: int) -> int | None:
        return (good + bad) // 2 if abs(good - bad) > max(1, close * good) else None

    return halve(holds, good, bad, middle)


_BITS = 24  # few, so that sampling from a rate or a variance takes integers of machine words


def _spacing(value: Fraction) -> Fraction:
    """Return the distance of neighbouring numbers of `_BITS` significant bits."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return Fraction(2) ** (exponent - _BITS)


def short_up(value: Fraction) -> Fraction:
    """Return the next number of `_BITS` bits."""
    return _spacing(value) * math.ceil(value / _spacing(value))


def least_value(enough: Callable[[Fraction], bool], guess: Fraction) -> Fraction:
    """Return the smallest number of `_BITS` bits that is enough."""
    good = short_up(guess)
    while not enough(good):
        good *= 2
    bad = good / 2
    while enough(bad):
        good, bad = bad, bad / 2

    def middle(good: Fraction, bad: Fraction) -> Fraction | None:
        point = short_up((good + bad) / 2)
        return point if point < good and good - bad > _spacing(good) else None

    return halve(enough, good, bad, middle)


def crossing(excess: Callable[[float], float], bad: float, good: float) -> float:
    """Return a point where ``excess`` is at most 0, within a millionth of one where it is not.

    By chords, aimed slightly to the side of the root where the end is farther away (Illinois).
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


def last_safe(
    excess: Callable[[float], float], slope: float, *, start: float = 0.0, close: float = 2e-4
) -> float:
    """Return a point near the root of an increasing function at which it is not positive.

    By secants from ``start`` with about this slope, until it is within ``close`` below 0.
    """
    low, high, x = -math.inf, math.inf, start
    slope = max(slope, 1e-6)  # where it is flat, steps of 1
    here = excess(x)
    while high - low > close / 200 and not -close <= here <= 0:
        low, high = (x, high) if here <= 0 else (low, x)
        if x < -50:
            raise InvalidValue("epsilon and delta", "must be larger for a composition in doubles")
        if x > 50:
            break
        step = min(max(-(here + close / 2) / slope, -1.0), 1.0)
        before, x = x, x + step
        if not low < x < high:
            x = (low + high) / 2
        before_here, here = here, excess(x)
        slope = min(max((here - before_here) / (x - before), slope / 4), slope * 4)
    return x if here <= 0 else low
