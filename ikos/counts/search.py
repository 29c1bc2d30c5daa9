"""Searches for the smallest number with a property that stays once it holds."""

from __future__ import annotations

from collections.abc import Callable

from ikos.trust import MAX_MESSAGES


def first(enough: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first place above ``low`` that is enough, given that ``high`` is."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def smallest(enough: Callable[[int], bool], guess: int) -> int:
    """Return the smallest m >= 1 that is enough, looked for from a guess in doubling steps."""
    step = 1
    if enough(guess):
        high, low = guess, guess - 1
        while low >= 1 and enough(low):
            high, step = low, 2 * step
            low = max(0, high - step)
    else:
        low, high = guess, guess + 1
        while not enough(high):
            low, step = high, 2 * step
            high = low + step
            if low > MAX_MESSAGES:
                raise ValueError(f"no number of messages up to {MAX_MESSAGES} is proved enough")
    return first(enough, low, high)
