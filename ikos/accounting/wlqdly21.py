"""Sparse vectors of signs in one message: its guarantee, its error, the size of the hash.

WLQDLY21 is Wang, Li, Qian, Du, Lin, Yang, *Hiding Numerical Vectors in Local Private and Shuffled
Messages*, IJCAI 2021. A user has at most s events out of 2d, "coordinate j is +1" or "is -1", and
sends one message: with probability gamma uniform on all possible ones, otherwise uniform on a set
of them, a fraction 1/k of all, determined by the vector and possibly further randomness:

- Collision (Definition 3) draws a hash function from 2d events to {0..t-1}: k = t / s.
- PrivKV draws a coordinate and answers by randomized response on its three values: k = 3.
- PCKV-GRR draws one of the user's s events and answers on all 2d: k = 2d / s, not 2d.

By itself such a message is ln(1 + k (1 - gamma) / gamma)-private; n shuffled ones are as private
as `ikos.accounting.blanket` says for k (:ref:`proof-sets`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from ikos._validation import InvalidValue, integer, number, quote
from ikos.accounting.amplification import amplified_local_epsilon
from ikos.accounting.blanket import local_gamma
from ikos.accounting.shuffled_response import THEOREMS, response_accountant, response_gamma
from ikos.numeric.rounding import exp_down
from ikos.primitives.randomized_response import grid_up

MAX_VALUES = 1 << 16  # most values of a hash function: the seed and the value share 64 bits
_MOST_AMPLIFIED = 60
_MAX_USERS_FOR_DISTANCE = 10**5  # most users for whom the messages' distance is used: seconds
_REFINEMENTS = 3
_LEAST = Fraction(1, 1 << 60)


def set_response_gamma(
    epsilon: Fraction,
    delta: Fraction,
    n: int,
    k: int | Fraction,
    *,
    most_local: Fraction | None = None,
) -> Fraction:
    """Return the probability of a uniform message, a multiple of 2^-53, rounded up.

    If delta is 0, for the guarantee of each message by itself; otherwise for that of n shuffled
    ones, and ``most_local`` then also caps the local epsilon of each message. ``k`` is the inverse
    of the fraction of all possible messages in one user's set: at least 1, or 2 if delta is
    positive.
    """
    alone = local_gamma(epsilon, number("k", k, low=1))
    if delta == 0:
        return alone
    gamma = min(alone, response_gamma(epsilon, delta, n, k))
    return gamma if most_local is None else max(gamma, local_gamma(most_local, k))


def set_response_theorem(
    epsilon: Fraction, delta: Fraction, n: int, k: int | Fraction, gamma: Fraction
) -> str:
    """Return the theorem for a gamma of `set_response_gamma`, also if raised for ``most_local``."""
    enough = min(gamma, response_gamma(epsilon, delta, n, k))
    return THEOREMS[response_accountant(epsilon, n, k, enough)]


def raised(
    epsilon: Fraction, delta: Fraction, n: int, *, most_local: Fraction | None = None
) -> Fraction:
    """Return the probability with which unary encoding sets a bit of another event.

    1/(e^eps0 + 1), rounded up to a multiple of 2^-53, for a message that is eps0-private by itself.
    With a positive delta eps0 is the largest for which `ikos.accounting.amplification` proves the
    guarantee of n shuffled messages, or ``most_local`` if that is smaller. Up to 10^5 users that
    uses that two messages' total variation distance is 1/2 - q, half of the largest that eps0
    allows.
    """
    local = epsilon
    if delta > 0 and local < _MOST_AMPLIFIED:
        share = Fraction(1, 2) if n <= _MAX_USERS_FOR_DISTANCE else 1
        local = max(local, Fraction(amplified_local_epsilon(local, delta, n, share=share)))
    if most_local is not None:
        local = min(local, most_local)
    return min(Fraction(1, 2), grid_up(1 / (exp_down(local) + 1)))


@dataclass(frozen=True)
class CollisionParameters:
    """Values t of the hash function, and the probability gamma = t / Omega of a uniform one."""

    t: int
    gamma: Fraction


@lru_cache(maxsize=1024)
def collision_parameters(
    n: int,
    dimension: int,
    sparsity: int,
    epsilon: float | Fraction,
    delta: float | Fraction = 0,
    *,
    most_local: float | Fraction | None = None,
    t: int | None = None,
) -> CollisionParameters:
    """Return private parameters of the Collision mechanism with a small error.

    The guarantee and ``most_local`` are as for `set_response_gamma`. ``t`` is above the sparsity,
    at least twice that if delta is positive, and at most 2^16. By default it has the smallest mean
    squared error of the worst vector: among all for delta = 0, and otherwise among those that a
    search tries. ValueError if only noise is private.
    """
    d, s = dimension, sparsity
    eps = number("epsilon", epsilon, above=0, high=100)
    small = number("delta", delta, low=0, below=1)
    cap = None if most_local is None else number("most_local", most_local, above=0)
    if 2 * s > MAX_VALUES:
        raise InvalidValue("sparsity", f"must be at most {MAX_VALUES // 2}, got {s}")
    first = 2 * s if small else s + 1

    @cache
    def gamma(values: int) -> Fraction:
        return set_response_gamma(eps, small, n, Fraction(values, s), most_local=cap)

    if t is not None:
        t = integer("t", t, low=first, high=MAX_VALUES)
    elif not small:
        every = np.arange(first, MAX_VALUES + 1, dtype=np.float64)
        shares = every / (s * math.expm1(eps) + every)
        t = int(every[np.argmin(_mean_squares(d, s, every, shares))])
    else:
        t = _searched_values(d, s, first, gamma)
    if float(1 - gamma(t)) < 1e-12:
        raise InvalidValue(
            "epsilon",
            f"must be larger for so few users, got {quote(epsilon)} for n = {n}: "
            "only noise would be private",
        )
    return CollisionParameters(t, gamma(t))


def _searched_values(d: int, s: int, first: int, gamma: Callable[[int], Fraction]) -> int:
    """Return the number of values with the smallest error of those that are tried."""
    # ln(gamma / (1 - gamma)) is smooth in ln t: a curve through a few points indicates the smallest
    if first == MAX_VALUES:
        return first
    every = np.arange(first, MAX_VALUES + 1, dtype=np.float64)
    at = {min(MAX_VALUES, first * 4**power) for power in range(9)}
    for _ in range(_REFINEMENTS + 1):
        known = np.array(sorted(at))
        gammas = [gamma(values) for values in known.tolist()]
        odds = [float(chance / max(1 - chance, _LEAST)) for chance in gammas]
        through = scipy.interpolate.PchipInterpolator(np.log(known), np.log(odds))
        likely = 1 / (1 + np.exp(-through(np.log(every))))
        at.add(int(every[np.argmin(_mean_squares(d, s, every, likely))]))
    exact = _mean_squares(d, s, known.astype(np.float64), np.array(gammas, dtype=np.float64))
    return int(known[np.argmin(exact)])


def _mean_squares(
    d: int, s: int, t: NDArray[np.float64], gamma: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the worst mean squared errors for arrays of parameters; infinite if useless."""
    useful = (gamma < 1) & (t > s)
    t, g = np.where(useful, t, s + 1.0), np.where(useful, gamma, 0.5)
    p, q = g / t + (1 - g) / s, 1 / t
    square = ((1 - g) * (t - s) / (s * t)) ** 2
    nonzero = (p + q - 2 * p * q) / square - 1
    zero = 2 * q * (1 - q) / square
    worst = np.maximum(d * zero, s * nonzero + (d - s) * zero)
    return np.where(useful, worst, np.inf)


@dataclass(frozen=True)
class SupportVariances:
    """Variances of one user's part of the estimates, exact (:ref:`proof-sets`).

    An unbiased estimate of whether the user has an event has variance ``present`` or ``absent``.
    That of a coordinate x_j is the difference of its two events': variance ``nonzero`` for x_j of 1
    or -1, ``zero`` for x_j = 0, and an absolute error of at most ``largest``. ``sampling`` bounds
    the sum over the coordinates of the variance due to those not reported.
    """

    nonzero: float
    zero: float
    present: float
    absent: float
    largest: float
    sampling: float = 0.0

    def mean_square(self, dimension: int, sparsity: int, *, exactly: bool = False) -> float:
        """Return the mean squared Euclidean error of a user's part, for the worst vector.

        ``exactly`` says that all vectors have as many entries as the sparsity, not fewer.
        """
        full = sparsity * self.nonzero + (dimension - sparsity) * self.zero
        return full if exactly else max(full, dimension * self.zero)


def collision_variances(t: int, s: int, gamma: Fraction) -> SupportVariances:
    """Return the variances of the Collision mechanism, for independent uniform hash values."""
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
    """Return the variances of PrivKV: [J = j] ([answer = b] - gamma / 3) d / (1 - gamma)."""
    # J is a uniform coordinate; an answer about x_j = 0 is not 0 with probability 2 gamma / 3
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
    """Return the variances of PCKV-GRR: ([answer = event] - gamma / (2d)) s / (1 - gamma)."""
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
    """Return the variances of PCKV-UE: (bit - q) s / (1/2 - q), with unset bits raised with q."""
    # an event that the user has is drawn with probability 1/s, and then sent with probability 1/2
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
