"""The error of sampled coordinates: of one, and of the sum over all users."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ikos._validation import integer, number
from ikos.accounting.scm22.answers import SampledAnswers
from ikos.accounting.scm22.repeated import MAX_VALUES
from ikos.accounting.scm22.sampling import weights
from ikos.randomized_response import GRID

MOST = 1 << 53
"""Of sizes that are counted in doubles."""


@dataclass(frozen=True)
class CoordinateError:
    """The error of one user's part in the estimate of one coordinate, in units of the width.

    Attributes
    ----------
    mean_square : float
        The largest over all values.
    sampling : float
        The largest that is left if values are reported as they are; at most ``mean_square``.
    """

    mean_square: float
    sampling: float


def shares(gamma: object) -> tuple[float, float]:
    """Return a probability of random answers below 1, and that of the others, both as doubles."""
    random = number("gamma", gamma, low=0, below=1)
    return float(random), float(number("1 - gamma", 1 - random, low=1 / GRID))


def coordinate_error(
    precision: int, gamma: float | Fraction, weight: float | Fraction, centre: float | Fraction = 0
) -> CoordinateError:
    """Return the error of a coordinate that is reported with probability 1 / weight.

    The estimate of a value u of [0, 1] is c where nothing is reported, and c + w (v - c) for a
    debiased answer v: without bias whatever the centre c is.

    Parameters
    ----------
    precision : int
        Steps k of the rounding.
    gamma : float
        Probability of a uniform answer, at most 1 - 2^-53.
    weight : float
        w >= 1: d / t, or the length of a run.
    centre : float
        c, in [0, 1]. 1/2 makes the worst case of the sampling the smallest.

    Returns
    -------
    CoordinateError
        Exact, up to the rounding of doubles: w E[(v - c)^2] is linear in u between two steps, so
        that w E[(v - c)^2] - (u - c)^2 has its maximum where it can be read off.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> coordinate_error(3, 0.0, 1)  # rounding alone, 1 / (4 k^2)
    CoordinateError(mean_square=0.0277..., sampling=0.0)
    >>> coordinate_error(3, 0.0, 100).sampling, coordinate_error(3, 0.0, 100, 0.5).sampling
    (99.0, 24.75)
    """
    k = integer("precision", precision, low=1, high=MAX_VALUES - 1)
    g, share = shares(gamma)
    w = float(number("weight", weight, low=1, high=MOST))
    c = float(number("centre", centre, low=0, high=1))
    values = (np.arange(k + 1) / k - g / 2) / share
    squares = (values - c) ** 2
    at = w * (share * squares + g * squares.mean())
    steps = np.arange(k) / k
    slope = (at[1:] - at[:-1]) * k
    worst = np.clip(c + slope / 2, steps, np.arange(1, k + 1) / k)
    error = at[:-1] + slope * (worst - steps) - (worst - c) ** 2
    sampling = (w - 1) * max(c, 1 - c) ** 2
    return CoordinateError(max(sampling, float(error.max())) * (1 + 1e-12), sampling)


def total_error(
    n: int, d: int, answers: SampledAnswers, centre: float | Fraction = Fraction(1, 2)
) -> CoordinateError:
    """Return the error of the sum over n users and d coordinates, in units of the width."""
    users = integer("n", n, low=0, high=MOST)
    coordinates = integer("d", d, low=1, high=MOST)
    found = np.zeros(2)
    for weight, count in weights(coordinates, answers.messages, answers.sampling):
        one = coordinate_error(answers.precision, answers.gamma, weight, centre)
        found += float(users * count) * np.array((one.mean_square, one.sampling))
    return CoordinateError(float(found[0]), float(found[1]))
