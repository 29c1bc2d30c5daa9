"""How many values the hash of the Collision mechanism has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from ikos._validation import integer, number, quote
from ikos.accounting.wlqdly21.privacy import set_response_gamma

MAX_VALUES = 1 << 16
"""Most values of a hash function: the seed and the value share 64 bits."""

_REFINEMENTS = 3

_LEAST = Fraction(1, 1 << 60)


@dataclass(frozen=True)
class CollisionParameters:
    """The parameters of the Collision mechanism.

    Attributes
    ----------
    t : int
        Values of the hash function.
    gamma : Fraction
        Probability of a uniform value, a multiple of 2^-53: t / Omega.
    """

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
    """Return parameters of the Collision mechanism that are private, and of small error.

    Parameters
    ----------
    n : int
        Users who answer at random as they should; of no matter if delta is 0.
    dimension, sparsity : int
        Of the vectors.
    epsilon, delta : float
        The guarantee: of each message by itself if delta is 0, otherwise of n shuffled ones.
    most_local : float, optional
        Beside a shuffled guarantee, what each message must guarantee by itself.
    t : int, optional
        Values of the hash function, above the sparsity and at most 2^16, and at least twice the
        sparsity if delta is positive. By default those of the smallest mean squared error of the
        worst vector: of all for delta = 0, where the paper has about 2s - 1 + s e^eps; of those
        that a search tries otherwise, each at its own smallest gamma.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or only noise is private.

    Examples
    --------
    >>> from ikos.accounting.wlqdly21 import local_epsilon, published_values
    >>> collision_parameters(1, 256, 16, 1.0).t, published_values(16, 1.0)
    (79, 74.49250925534471)
    >>> found = collision_parameters(10**5, 256, 16, 0.5, 1e-5)
    >>> 7 < local_epsilon(Fraction(found.t, 16), found.gamma) < 7.1  # of each message by itself
    True
    """
    d = integer("dimension", dimension, low=1)
    s = integer("sparsity", sparsity, low=1, high=d)
    users = integer("n", n, low=1)
    eps = number("epsilon", epsilon, above=0, high=100)
    small = number("delta", delta, low=0, below=1)
    cap = None if most_local is None else number("local_epsilon", most_local, above=0, high=100)
    least = 2 * s if small else s + 1
    if 2 * s > MAX_VALUES:
        raise ValueError(f"sparsity must be at most {MAX_VALUES // 2:,}, got {s:,}")
    if t is not None:
        t = integer("t", t, low=least, high=MAX_VALUES)
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
    # ln(gamma / (1 - gamma)) is smooth in ln t: a curve through a few points says where the
    # smallest error is, and gamma is computed there.
    first, last = int(every[0]), MAX_VALUES
    if first == last:
        return CollisionParameters(last, gamma(last))
    known: dict[int, Fraction] = {}
    ahead = {min(last, first * 4**power) for power in range(9)}
    for _ in range(_REFINEMENTS + 1):
        known |= {values: gamma(values) for values in ahead}
        at = np.array(sorted(known))
        odds = [float(known[v] / max(1 - known[v], _LEAST)) for v in at.tolist()]
        through = PchipInterpolator(np.log(at), np.log(odds))
        likely = 1 / (1 + np.exp(-through(np.log(every))))
        ahead = {int(every[np.argmin(_mean_squares(d, s, every, likely))])}
    exact = _mean_squares(
        d, s, at.astype(np.float64), np.array([float(known[v]) for v in at.tolist()])
    )
    best = int(at[np.argmin(exact)])
    return CollisionParameters(best, known[best])
