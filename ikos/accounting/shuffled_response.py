"""Shuffled randomized response: delta, epsilon and gamma from each other, by any accountant.

The exact divergence of the privacy blanket (`ikos.accounting.blanket`), or closed bounds of it
(BBGN19): Bennett's and Hoeffding's inequality, and Theorem 3.1. Proofs: :ref:`proof-bbgn19`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr

from ikos._validation import InvalidValue, choice, integer, number, quote, round_down, round_up
from ikos.accounting.amplification import excess, third_value
from ikos.accounting.blanket import (
    LEAST_GAMMA,
    MAX_ANSWERS,
    ResponseBlanket,
    blanket_divergence,
    local_epsilon,
)
from ikos.numeric.rounding import UP, float_up, rational
from ikos.numeric.search import crossing, log_excess
from ikos.primitives.randomized_response import GRID

MIN_EPSILON, MAX_EPSILON = math.nextafter(1e-6, 0), 100.0
_MAX_USERS_FOR_THIRD = 10**5  # largest n for which third answers are counted apart from others
_NEGLIGIBLE = 1e-100  # below it Bennett's bound suffices
_ABOVE = 1 + Fraction(1, 1 << 200)  # exceeds the relative errors of a few operations of 300 bits


def _hoeffding(eps: mpfr, n: int, k: mpfr, gamma: mpfr) -> mpfr:
    a = gmpy2.expm1(eps)
    b = (1 - gamma) * k * (2 + a)
    spread = 1 + gamma * gmpy2.expm1(-2 * a * a / (b * b))
    return b * b / (4 * a) / (gamma * n) * spread**n


def _bennett(eps: mpfr, n: int, k: mpfr, gamma: mpfr) -> mpfr:
    """Return Bennett's bound, or Hoeffding's if that is better."""
    a = gmpy2.expm1(eps)
    truth = (1 - gamma) * k
    # L = truth (1[W = x] - e^eps 1[W = x']) - gamma a, whose first term has mean -a (1 - gamma)
    odds = 1 + a
    variance = truth**2 * (1 + odds * odds) / k - ((1 - gamma) * a) ** 2
    excess = truth + (1 - gamma) * a
    x = excess * a / variance
    rate = variance / excess**2 * ((1 + x) * gmpy2.log1p(x) - x)
    spread = 1 + gamma * gmpy2.expm1(-rate)
    return min(excess / gmpy2.log1p(x) / (gamma * n) * spread**n, _hoeffding(eps, n, k, gamma))


def _closed_form(eps: mpfr, n: int, k: mpfr, gamma: mpfr) -> mpfr:
    """Return the delta that needs gamma = max(14 k ln(2/delta)/((n-1) eps^2), 27 k/((n-1) eps))."""
    if gamma * (n - 1) * eps < 27 * k:
        return mpfr(1)
    return 2 * gmpy2.exp(-gamma * (n - 1) * eps * eps / (14 * k))


_FORMULAS = {"bennett": _bennett, "hoeffding": _hoeffding, "closed-form": _closed_form}


def closed_bound(
    name: str, epsilon: float | Fraction, n: int, k: int | Fraction, gamma: Fraction
) -> float:
    """Return the delta of a closed bound, rounded up."""
    number("epsilon", epsilon, above=0, high=1 if name == "closed-form" else None)
    if gamma == 1:
        return 0.0
    with gmpy2.context(precision=300):
        eps, values, chance = (mpfr(rational(Fraction(value))) for value in (epsilon, k, gamma))
        bound = _FORMULAS[name](eps, n, values, chance)
        return min(1.0, float_up(bound * mpfr(rational(_ABOVE))))


ACCOUNTANTS = ("exact", *_FORMULAS)
"""From the tightest to the loosest."""

THEOREMS = {
    "exact": "exact divergence of the privacy blanket (BBGN19, Lemma 5.3)",
    "bennett": "privacy blanket by Bennett's inequality (BBGN19)",
    "hoeffding": "privacy blanket by Hoeffding's inequality (BBGN19)",
    "closed-form": "BBGN19, Theorem 3.1",
}


def _proved(
    name: str, epsilon: float, n: int, k: int | Fraction, gamma: Fraction
) -> tuple[float, str]:
    """Return an accountant's delta and its name: Bennett's if an exact one is negligible."""
    if name == "exact":
        if epsilon >= local_epsilon(k, gamma):  # where Bennett's bound is above 0
            return 0.0, name
        bound = closed_bound("bennett", epsilon, n, k, gamma)
        if bound >= _NEGLIGIBLE:
            return blanket_divergence(epsilon, n, k, gamma), name
        return bound, "bennett"
    return closed_bound(name, epsilon, n, k, gamma), name


def _checked(n: object, k: object, accountant: object) -> tuple[int, int | Fraction, str]:
    """Check and return users, values and accountant."""
    name = choice("accountant", accountant, ACCOUNTANTS)
    if name == "closed-form":
        values = Fraction(integer("k", k, low=2, high=1 << 40))
    else:
        values = number("k", k, low=2, high=1 << 40)
    return (
        integer("n", n, low=2 if name == "closed-form" else 1, high=MAX_ANSWERS),
        values.numerator if values.denominator == 1 else values,
        name,
    )


def response_delta(
    epsilon: float | Fraction,
    n: int,
    k: int | Fraction,
    gamma: float | Fraction,
    *,
    accountant: str = "exact",
) -> float:
    """Return a delta for which shuffled randomized response is (epsilon, delta)-private.

    For both orders of any two values. An upper bound, rounded up (BBGN19, Lemma 5.3 and Theorem
    3.1). "exact" is Bennett's bound where that is below 1e-100 (see `response_accountant`), and 0
    from the local epsilon of one answer on. `response_attained` is the other side.

    Parameters
    ----------
    epsilon : float
        Positive, at most 100; at most 1 for the closed form.
    n : int
        Number of users who follow the protocol, up to 10^10.
    k : int or Fraction
        Number of values in the domain, at least 2; on {0..p} it is p + 1. A Fraction is the inverse
        of the fraction of all possible messages in one user's set: see `ikos.accounting.blanket`.
    gamma : float or Fraction
        Probability with which a user sends a uniform value instead of the true value.
    accountant : {"exact", "bennett", "hoeffding", "closed-form"}
        From tightest to loosest.

    Examples
    --------
    >>> for accountant in ACCOUNTANTS:
    ...     print(f"{response_delta(1, 10**4, 7, 0.2, accountant=accountant):.1e}")
    1.1e-46
    1.2e-34
    5.4e-14
    2.7e-09
    """
    return _response(epsilon, n, k, gamma, accountant)[0]


def response_accountant(
    epsilon: float | Fraction,
    n: int,
    k: int | Fraction,
    gamma: float | Fraction,
    *,
    accountant: str = "exact",
) -> str:
    """Return the one of ``ACCOUNTANTS`` that proves `response_delta` for the same arguments.

    It is the one requested, except "bennett" instead of a negligible "exact".

    Examples
    --------
    >>> response_accountant(0.005, 10**10, 3, 1e-3), response_accountant(1, 10**6, 7, 0.5)
    ('exact', 'bennett')
    """
    return _response(epsilon, n, k, gamma, accountant)[1]


def response_attained(epsilon: float | Fraction, n: int, k: int, gamma: float | Fraction) -> float:
    """Return a delta below which shuffled randomized response is not (epsilon, delta)-private.

    If all other users hold one third value: for up to 10^5 users the divergence of the whole view,
    for more that of the numbers of answers x and x'. Rounded down.

    Parameters
    ----------
    epsilon, n, k, gamma
        As for `response_delta`, but k is an integer, at least 3.

    Examples
    --------
    >>> response_attained(0.01, 10**7, 10, 0.25) / response_delta(0.01, 10**7, 10, 0.25) > 0.9999
    True
    """
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    chance = number("gamma", gamma, low=LEAST_GAMMA, high=1)
    blanket = ResponseBlanket(n, integer("k", k, low=3), chance)
    if blanket.n > _MAX_USERS_FOR_THIRD:
        return blanket.attained(round_up(eps))
    o1 = excess(Fraction(round_up(eps)), UP)
    return third_value(o1, k * (1 - chance) / chance, blanket.n, k)


def _response(
    epsilon: object, n: object, k: object, gamma: object, accountant: object
) -> tuple[float, str]:
    users, values, name = _checked(n, k, accountant)
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    chance = number("gamma", gamma, low=LEAST_GAMMA, high=1)
    return _proved(name, round_down(eps), users, values, chance)


def response_gamma(
    epsilon: float | Fraction,
    delta: float | Fraction,
    n: int,
    k: int | Fraction,
    *,
    accountant: str = "exact",
) -> Fraction:
    """Return a probability of uniform answers that makes the shuffled answers private.

    A multiple of 2^-53, within a millionth of the smallest one found; 1 means that every answer
    must be random.

    Parameters
    ----------
    epsilon, n, k, accountant
        As for `response_delta`.
    delta : float
        In (0, 1).

    Examples
    --------
    >>> round(float(response_gamma(1, 1e-8, 10**4, 7)), 4)
    0.0398
    >>> round(float(response_gamma(1, 1e-8, 10**4, 7, accountant="closed-form")), 4)
    0.1873
    """
    users, values, name = _checked(n, k, accountant)
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    small = number("delta", delta, above=0, below=1)
    return _gamma(round_down(eps), round_down(small), users, values, name)


@lru_cache(maxsize=4096)
def _gamma(eps: float, small: float, users: int, values: int | Fraction, name: str) -> Fraction:

    def excess(steps: int) -> float:
        # negative if this many steps of the grid suffice
        if steps == GRID:  # all answers are uniform, and reveal nothing
            return -math.inf
        return log_excess(_proved(name, eps, users, values, Fraction(steps, GRID))[0], small)

    low, high, below, above = 0, GRID, math.inf, -math.inf
    guess = max(1, min(GRID - 1, int(8 * values / (users * eps * eps) * GRID)))
    while low + max(1, high >> 20) < high:
        here = excess(guess)
        if here > 0:
            low, below, above = guess, here, above / 2
        else:
            high, above, below = guess, here, below / 2
        # Chords of ln delta, about linear in gamma; halves of the far end's value keep both moving.
        if low == 0 or high == GRID:
            guess = max(1, high // 2) if low == 0 else min(2 * low, (low + GRID) // 2)
        elif math.isfinite(below) and math.isfinite(above):
            step = int((high - low) * below / (below - above))
            least = max(1, high >> 21)
            guess = min(max(low + step, low + least), high - least)
        else:
            guess = (low + high) // 2
    return Fraction(high, GRID)


def response_epsilon(
    delta: float | Fraction,
    n: int,
    k: int | Fraction,
    gamma: float | Fraction,
    *,
    accountant: str = "exact",
) -> float:
    """Return an epsilon for which shuffled randomized response is (epsilon, delta)-private.

    Within a millionth of the smallest in [1e-6, 100] (1 for the closed form) for which
    `response_delta` is at most delta; ValueError if there is none. "exact" needs no more than the
    local guarantee of one answer.

    Parameters
    ----------
    delta : float
        In (0, 1).
    n, k, gamma, accountant
        As for `response_delta`.

    Examples
    --------
    >>> round(response_epsilon(1e-8, 10**4, 7, 0.0398), 3)
    1.0
    """
    users, values, name = _checked(n, k, accountant)
    small = round_down(number("delta", delta, above=0, below=1))
    chance = number("gamma", gamma, low=LEAST_GAMMA, high=1)

    def excess(eps: float) -> float:
        return log_excess(_proved(name, eps, users, values, chance)[0], small)

    # The bounds, unlike the divergence, grow again with epsilon: take the first sufficient point.
    # None is below half of what noise of the same variance would allow, unless it is very small.
    largest = 1.0 if name == "closed-form" else MAX_EPSILON
    mu = math.sqrt(2 * values * (1 - chance) ** 2 / (chance * users))
    low = high = max(MIN_EPSILON, min(mu * math.sqrt(log_excess(1.0, small)) / 2, largest))
    if excess(high) <= 0:
        low = high = MIN_EPSILON
    while excess(high) > 0:
        if high == largest:
            raise InvalidValue(
                "gamma",
                f"must be larger for any epsilon up to {largest:g} with "
                f"accountant={name!r}, got {quote(gamma)}",
            )
        low, high = high, min(2 * high, largest)
    return crossing(excess, low, high)
