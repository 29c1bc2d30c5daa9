"""The error of one user's part of the estimates, exact, for each of the mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class SupportVariances:
    """Variances of one user's part of the estimates, exact.

    An event's estimate is an unbiased one of whether the user has it. That of a coordinate x_j is
    the difference of those of its two events.

    Attributes
    ----------
    nonzero, zero : float
        Of the estimate of x_j, for x_j of 1 or -1 and for x_j = 0.
    present, absent : float
        Of the estimate of an event that the user has, and of one that the user has not.
    largest : float
        Bound on the absolute error of the estimate of x_j.
    sampling : float
        The sum over the coordinates of the variance due to those that are not reported, at most.
    """

    nonzero: float
    zero: float
    present: float
    absent: float
    largest: float
    sampling: float = 0.0

    def mean_square(self, dimension: int, sparsity: int, *, exactly: bool = False) -> float:
        """Return the mean squared Euclidean error of a user's part, for the worst vector.

        Parameters
        ----------
        dimension, sparsity : int
            Of the vectors.
        exactly : bool
            Whether they have as many entries as the sparsity, and not only at most.
        """
        full = sparsity * self.nonzero + (dimension - sparsity) * self.zero
        return full if exactly else max(full, dimension * self.zero)


def collision_variances(t: int, s: int, gamma: Fraction) -> SupportVariances:
    """Return the variances of the Collision mechanism.

    Notes
    -----
    An event that the user has is hit with p = gamma / t + (1 - gamma) / s, another one with 1/t,
    independently of all others: the estimate is ([hit] - 1/t) / (p - 1/t). For x_j of 1 or -1 the
    difference of two hits has second moment p + 1/t - 2 p/t, for x_j = 0 it is 2/t - 2/t^2. Those
    are over (p - 1/t)^2, less the square of x_j. The displayed bound after WLQDLY21's Theorem 3
    lacks this square.

    Examples
    --------
    >>> found = collision_variances(10, 2, Fraction(1, 2))
    >>> round(found.zero, 9)  # p = 0.3: 0.18 / 0.2^2
    4.5
    """
    share = float(1 - gamma)
    p, q = float(gamma) / t + share / s, 1 / t
    gain = share * (t - s) / (s * t)
    return SupportVariances(
        nonzero=(p + q - 2 * p * q) / gain**2 - 1,
        zero=2 * q * (1 - q) / gain**2,
        present=p * (1 - p) / gain**2,
        absent=q * (1 - q) / gain**2,
        largest=1 / gain + 1,
    )


def privkv_variances(d: int, s: int, gamma: Fraction) -> SupportVariances:
    """Return the variances of PrivKV.

    Notes
    -----
    Coordinate J is uniform, and [J = j] ([answer = b] - gamma / 3) d / (1 - gamma) estimates an
    event. An answer about x_j = 0 is not 0 with probability 2 gamma / 3.

    Examples
    --------
    >>> privkv_variances(4, 1, Fraction(1, 2)).zero  # 4 (1/3) / (1/2)^2
    5.333333333333333
    """
    share, g = float(1 - gamma), float(gamma)
    right, wrong, scale = share + g / 3, g / 3, d / share**2

    def second(p: float) -> float:
        return scale * (p * (1 - wrong) ** 2 + (1 - p) * wrong**2)

    return SupportVariances(
        nonzero=scale * (share + 2 * g / 3) - 1,
        zero=scale * 2 * g / 3,
        present=second(right) - 1,
        absent=second(wrong),
        largest=d / share + 1,
        sampling=(d - 1.0) * s,
    )


def pckv_grr_variances(d: int, s: int, gamma: Fraction) -> SupportVariances:
    """Return the variances of PCKV with randomized response on the 2d events.

    Notes
    -----
    ([answer = event] - gamma / (2d)) s / (1 - gamma) estimates an event.

    Examples
    --------
    >>> pckv_grr_variances(4, 1, Fraction(1, 2)).zero  # (1/8) / (1/2)^2
    0.5
    """
    share, g = float(1 - gamma), float(gamma)
    scale = (s / share) ** 2
    right, wrong = share / s + g / (2 * d), g / (2 * d)
    return SupportVariances(
        nonzero=scale * (right + wrong) - 1,
        zero=scale * 2 * wrong,
        present=scale * right * (1 - right),
        absent=scale * wrong * (1 - wrong),
        largest=s / share + 1,
        sampling=(s - 1.0) * s,
    )


def pckv_ue_variances(s: int, q: Fraction) -> SupportVariances:
    """Return the variances of PCKV with unary encoding, bits that are not set raised with q.

    Notes
    -----
    (bit - q) s / (1/2 - q) estimates an event. One that the user has is drawn with probability 1/s,
    and then its bit is sent with 1/2.

    Examples
    --------
    >>> pckv_ue_variances(1, Fraction(1, 4)).zero  # 2 (1/4) (3/4) / (1/4)^2
    6.0
    """
    low = float(q)
    scale = (s / float(Fraction(1, 2) - q)) ** 2
    sent = 0.5 / s + (1 - 1 / s) * low
    return SupportVariances(
        nonzero=scale * (0.5 / s + (1 - 1 / s) * 2 * low * (1 - low)) - 1,
        zero=scale * 2 * low * (1 - low),
        present=scale * sent * (1 - sent),
        absent=scale * low * (1 - low),
        largest=math.sqrt(scale) + 1,
        sampling=(s - 1.0) * s,
    )
