"""How often messages must be random: each by itself private, or all of them shuffled."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
from gmpy2 import mpfr

from ikos._validation import floating, number
from ikos.accounting.clones_fmt21 import clones_local_epsilon
from ikos.accounting.shuffled_response import THEOREMS, response_accountant, response_gamma
from ikos.counts.rounding import rational
from ikos.randomized_response import grid_up

MAX_EPSILON = 100

_PRECISION = 256

_CLONES_MAX = 60


def exp_down(epsilon: Fraction) -> Fraction:
    """Return a rational that is at most e^epsilon, to 256 bits."""
    with gmpy2.context(precision=_PRECISION, round=gmpy2.RoundDown):
        below = gmpy2.exp(mpfr(rational(epsilon)))
        return Fraction(*map(int, below.as_integer_ratio()))


def local_epsilon(k: int | Fraction, gamma: Fraction) -> float:
    """Return the guarantee of one message by itself, ln(1 + k (1 - gamma) / gamma), rounded up.

    Parameters
    ----------
    k : int or Fraction
        One over the share of a user's own messages among all, at least 1.
    gamma : Fraction
        Probability of a uniform message, in (0, 1].

    Returns
    -------
    float
        Infinite where the likelihood ratio is above 2^1000.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> round(local_epsilon(3, Fraction(1, 2)), 6) == round(math.log(4), 6)
    True
    """
    chance = number("gamma", gamma, above=0, high=1)
    odds = number("k", k, low=1) * (1 - chance) / chance
    return math.log1p(floating(odds)) * (1 + 1e-12)


def set_response_gamma(
    epsilon: Fraction,
    delta: Fraction,
    n: int,
    k: int | Fraction,
    *,
    most_local: Fraction | None = None,
) -> Fraction:
    """Return how often a message must be uniform, a multiple of 2^-53, rounded up.

    Parameters
    ----------
    epsilon, delta : Fraction
        The guarantee: of each message by itself if delta is 0, otherwise of n shuffled ones.
    n : int
        Users who answer at random as they should.
    k : int or Fraction
        One over the share of a user's own messages among all, at least 1; at least 2 if delta is
        positive.
    most_local : Fraction, optional
        What each message must guarantee by itself, beside that.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> alone = set_response_gamma(Fraction(1), Fraction(0), 1, 3)
    >>> shuffled = set_response_gamma(Fraction(1), Fraction(1, 10**6), 10**4, 3)
    >>> round(float(alone), 4), round(float(shuffled), 4)
    (0.6358, 0.0125)
    """
    eps, small, cap = _checked_guarantee(epsilon, delta, most_local)
    alone = _local_gamma(eps, number("k", k, low=1))
    if small == 0:
        return alone
    gamma = min(alone, response_gamma(eps, small, n, k))
    return gamma if cap is None else max(gamma, _local_gamma(cap, k))


def set_response_theorem(
    epsilon: Fraction, delta: Fraction, n: int, k: int | Fraction, gamma: Fraction
) -> str:
    """Return what proves a gamma of `set_response_gamma` with these arguments, for a delta above 0.

    What a smaller gamma is proved for, a larger one that ``most_local`` asks for is private by too.
    """
    enough = min(gamma, response_gamma(epsilon, delta, n, k))
    return THEOREMS[response_accountant(epsilon, n, k, enough)]


def _checked_guarantee(
    epsilon: object, delta: object, most_local: object
) -> tuple[Fraction, Fraction, Fraction | None]:
    cap = None
    if most_local is not None:
        cap = number("most_local", most_local, above=0, high=MAX_EPSILON)
    return (
        number("epsilon", epsilon, above=0, high=MAX_EPSILON),
        number("delta", delta, low=0, below=1),
        cap,
    )


def _local_gamma(epsilon: Fraction, k: int | Fraction) -> Fraction:
    return min(Fraction(1), grid_up(Fraction(k) / (exp_down(epsilon) - 1 + k)))


def raised(
    epsilon: Fraction, delta: Fraction, n: int, *, most_local: Fraction | None = None
) -> Fraction:
    """Return with which probability unary encoding raises a bit that is not set, rounded up.

    1/(e^eps0 + 1) for a message that is eps0-private by itself. With a positive delta eps0 is the
    largest for which clones (`ikos.accounting.clones_fmt21`) prove the guarantee of n shuffled
    messages, or ``most_local`` if that is smaller.

    Parameters
    ----------
    epsilon, delta, n, most_local
        As for `set_response_gamma`.

    Returns
    -------
    Fraction
        A multiple of 2^-53.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    """
    eps, small, cap = _checked_guarantee(epsilon, delta, most_local)
    local = eps
    if small > 0 and eps < _CLONES_MAX:
        local = max(local, Fraction(clones_local_epsilon(eps, small, n)))
    if cap is not None:
        local = min(local, cap)
    return min(Fraction(1, 2), grid_up(1 / (exp_down(local) + 1)))
