"""Randomized response on {0..k-1}: the true value, or with probability gamma a uniform one.

BBGN20, Algorithm 1; BBGN19. Gamma is a multiple of 2^-53, so that draws have exactly the
probability that the accountants use.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource

GRID = 1 << 53  # probabilities are multiples of 1 / GRID, which doubles represent exactly


def grid_up(gamma: float | Fraction) -> Fraction:
    """Return a probability, rounded up to a multiple of 2^-53."""
    return Fraction(math.ceil(Fraction(gamma) * GRID), GRID)


def grid_down(gamma: Fraction) -> Fraction:
    """Return a probability, rounded down to a positive multiple of 2^-53."""
    return Fraction(max(1, math.floor(gamma * GRID)), GRID)


def respond(
    values: NDArray[np.int64], k: int, gamma: Fraction, rng: RandomSource
) -> NDArray[np.int64]:
    """Return values in {0..k-1}, each replaced with probability gamma by a uniform one.

    ``gamma`` is a multiple of 2^-53 in [0, 1].
    """
    result = values.copy()
    for part in blocks(values.size, 1 << 18):
        block = result[part]
        random = np.flatnonzero(rng.bernoullis(gamma, block.size))
        block[random] = rng.uniform(k, random.size)
    return result


def debias(total: int, users: int, k: int, gamma: Fraction) -> Fraction:
    """Return the unbiased estimate of the sum of true values from the sum of the responses.

    A uniform value on {0..k-1} has mean (k - 1)/2 (BBGN20, Algorithm 2 has p + 1 = k there, which
    is biased by gamma users / 2 / (1 - gamma)).
    """
    return (total - users * gamma * Fraction(k - 1, 2)) / (1 - gamma)


def response_variance(k: int, gamma: float) -> float:
    """Return the largest variance of a debiased response, at both ends of {0..k-1}.

    BBGN20, Theorem 4.1, whose k counts the values of {0..p}.
    """
    p = k - 1
    return (gamma * p * (p + 2) / 12 + gamma * (1 - gamma) * p * p / 4) / (1 - gamma) ** 2
