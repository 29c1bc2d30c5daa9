"""Sparse vectors of signs in one message: its guarantee, its error, the size of the hash.

WLQDLY21 is Wang, Li, Qian, Du, Lin, Yang, *Hiding Numerical Vectors in Local Private and Shuffled
Messages*, IJCAI 2021. A user has at most s events out of 2d, "coordinate j is +1" or "is -1", and
sends one message: with probability gamma uniform on all possible ones, otherwise uniform on a set
of them, a part 1/k of all, determined by the vector and possibly further randomness:

- Collision (Definition 3) draws a hash function from 2d events to {0..t-1}: k = t / s.
- PrivKV draws a coordinate and answers by randomized response on its three values: k = 3.
- PCKV-GRR draws one of the user's s events and answers on all 2d: k = 2d / s, not 2d.

By itself such a message is ln(1 + k (1 - gamma) / gamma)-private; n shuffled ones are as private
as `ikos.accounting.blanket` says for k (:ref:`proof-sets`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from ikos._validation import integer, number, quote
from ikos.accounting.blanket import exp_down, local_gamma
from ikos.accounting.clones_fmt21 import clones_local_epsilon
from ikos.accounting.shuffled_response import THEOREMS, response_accountant, response_gamma
from ikos.randomized_response import grid_up

MAX_VALUES = 1 << 16  # most values of a hash function: the seed and the value share 64 bits
_MAX_EPSILON = 100
_CLONES_MAX = 60
_REFINEMENTS = 3
_LEAST = Fraction(1, 1 << 60)


# How often messages must be random


def set_response_gamma(
    epsilon: Fraction,
    delta: Fraction,
    n: int,
    k: int | Fraction,
    *,
    most_local: Fraction | None = None,
) -> Fraction:
    """Return how often a message must be uniform, a multiple of 2^-53, rounded up.

    If delta is 0, for the guarantee of each message by itself; otherwise for that of n shuffled
    ones, and ``most_local`` then also caps what each message may spend by itself. ``k`` is the
    inverse of the share of a user's own messages among all: at least 1, or 2 if delta is positive.
    """
    eps, small, cap = _guarantee(epsilon, delta, most_local)
    alone = local_gamma(eps, number("k", k, low=1))
    if small == 0:
        return alone
    gamma = min(alone, response_gamma(eps, small, n, k))
    return gamma if cap is None else max(gamma, local_gamma(cap, k))


def set_response_theorem(
    epsilon: Fraction, delta: Fraction, n: int, k: int | Fraction, gamma: Fraction
) -> str:
    """Return what proves a gamma of `set_response_gamma` with these arguments, for a delta above 0.

    The proof of a smaller gamma also covers the larger one that ``most_local`` requires.
    """
    enough = min(gamma, response_gamma(epsilon, delta, n, k))
    return THEOREMS[response_accountant(epsilon, n, k, enough)]


def _guarantee(
    epsilon: object, delta: object, most_local: object
) -> tuple[Fraction, Fraction, Fraction | None]:
    eps = number("epsilon", epsilon, above=0, high=_MAX_EPSILON)
    small = number("delta", delta, low=0, below=1)
    if most_local is None:
        return eps, small, None
    return eps, small, number("most_local", most_local, above=0, high=_MAX_EPSILON)


def raised(
    epsilon: Fraction, delta: Fraction, n: int, *, most_local: Fraction | None = None
) -> Fraction:
    """Return the probability with which unary encoding raises a bit that is not set.

    1/(e^eps0 + 1), rounded up to a multiple of 2^-53, for a message that is eps0-private by itself.
    With a positive delta eps0 is the largest for which clones (`ikos.accounting.clones_fmt21`)
    prove the guarantee of n shuffled messages, or ``most_local`` if that is smaller.
    """
    local, small, cap = _guarantee(epsilon, delta, most_local)
    if small > 0 and local < _CLONES_MAX:
        local = max(local, Fraction(clones_local_epsilon(local, small, n)))
    if cap is not None:
        local = min(local, cap)
    return min(Fraction(1, 2), grid_up(1 / (exp_down(local) + 1)))


# Number of hash values of the Collision mechanism


@dataclass(frozen=True)
class CollisionParameters:
    """Values t of the hash function, and the probability gamma = t / Omega of a uniform one."""

    t: int
    gamma: Fraction


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
    search tries, each at its own smallest gamma. ValueError if only noise is private.
    """
    d = integer("dimension", dimension, low=1)
    s = integer("sparsity", sparsity, low=1, high=d)
    users = integer("n", n, low=1)
    eps, small, cap = _guarantee(epsilon, delta, most_local)
    if 2 * s > MAX_VALUES:
        raise ValueError(f"sparsity must be at most {MAX_VALUES // 2:,}, got {s:,}")
    if t is not None:
        t = integer("t", t, low=2 * s if small else s + 1, high=MAX_VALUES)
    found = _parameters(users, d, s, eps, small, cap, t)
    if found.gamma == 1 or float(1 - found.gamma) < 1e-12:
        raise ValueError(
            f"epsilon must be larger for so few users, got {quote(epsilon)} for n = {users:,}: "
            "only noise would be private"
        )
    return found


def _mean_squares(
    d: int, s: int, t: NDArray[np.float64], gamma: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the worst mean squared errors for arrays of parameters; infinite where useless."""
    useful = (gamma < 1) & (t > s)
    t, g = np.where(useful, t, s + 1.0), np.where(useful, gamma, 0.5)
    p, q = g / t + (1 - g) / s, 1 / t
    square = ((1 - g) * (t - s) / (s * t)) ** 2
    nonzero = (p + q - 2 * p * q) / square - 1
    zero = 2 * q * (1 - q) / square
    worst = np.maximum(d * zero, s * nonzero + (d - s) * zero)
    return np.where(useful, worst, np.inf)


@lru_cache(maxsize=1024)
def _parameters(
    n: int, d: int, s: int, eps: Fraction, small: Fraction, cap: Fraction | None, t: int | None
) -> CollisionParameters:
    def gamma(values: int) -> Fraction:
        return set_response_gamma(eps, small, n, Fraction(values, s), most_local=cap)

    if t is not None:
        return CollisionParameters(t, gamma(t))
    every = np.arange(2 * s if small else s + 1, MAX_VALUES + 1, dtype=np.float64)
    if not small:
        more = math.expm1(eps)  # gamma = t / Omega
        best = int(every[np.argmin(_mean_squares(d, s, every, every / (s * more + every)))])
        return CollisionParameters(best, gamma(best))
    # ln(gamma / (1 - gamma)) is smooth in ln t: a curve through a few points indicates the smallest
    # error, and gamma is computed there.
    first, last = int(every[0]), MAX_VALUES
    if first == last:
        return CollisionParameters(last, gamma(last))
    known: dict[int, Fraction] = {}
    ahead = {min(last, first * 4**power) for power in range(9)}
    for _ in range(_REFINEMENTS + 1):
        known |= {values: gamma(values) for values in ahead}
        at = np.array(sorted(known))
        odds = [float(known[v] / max(1 - known[v], _LEAST)) for v in at.tolist()]
        through = scipy.interpolate.PchipInterpolator(np.log(at), np.log(odds))
        likely = 1 / (1 + np.exp(-through(np.log(every))))
        ahead = {int(every[np.argmin(_mean_squares(d, s, every, likely))])}
    exact = _mean_squares(
        d, s, at.astype(np.float64), np.array([float(known[v]) for v in at.tolist()])
    )
    best = int(at[np.argmin(exact)])
    return CollisionParameters(best, known[best])


# The error of one user's part of the estimates


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
    """Return the variances of PrivKV.

    Coordinate J is uniform, and [J = j] ([answer = b] - gamma / 3) d / (1 - gamma) estimates an
    event. An answer about x_j = 0 is not 0 with probability 2 gamma / 3.
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

    ([answer = event] - gamma / (2d)) s / (1 - gamma) estimates an event.
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
    """Return the variances of PCKV with unary encoding, where unset bits are raised with q.

    (bit - q) s / (1/2 - q) estimates an event. An event that the user has is drawn with probability
    1/s, and its bit is then sent with probability 1/2.
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
