"""What the bounds take: users, dimensions, guarantees and errors."""

from __future__ import annotations

from ikos._validation import integer, number, quote

MAX_DIMENSION = 1 << 40
MAX_USERS = 10**12
MAX_MESSAGES = 1 << 60

_LEAST, MOST = 1e-100, 1e100
"""Of errors and steps: their squares are doubles."""

SAFE = 1e-9
"""What logarithms and bounds are moved by to the safe side: far above the errors of doubles."""


def checked_budget(epsilon: object, delta: object) -> tuple[float, float]:
    """Check and return a budget; a delta of 0 is allowed."""
    eps = number("epsilon", epsilon, above=0, high=100)
    small = float(number("delta", delta, low=0, below=1))
    if small == 1:
        raise ValueError(f"delta must be below 1 by a double, got {quote(delta)}")
    return float(eps), small


def checked_error(mse: object) -> float:
    """Check and return a mean squared error; the bounds fall with it, so that it is rounded up."""
    return max(_LEAST, float(number("mse", mse, above=0, high=MOST)))


def users_and_dimension(n: object, d: object) -> tuple[int, int]:
    """Check and return a number of users, and of the coordinates of their vectors."""
    return (
        integer("n", n, low=1, high=MAX_USERS),
        integer("d", d, low=1, high=MAX_DIMENSION),
    )
