"""Lemma C.5 of BBGN20: how unlikely many components are, for parallel shufflers and a clear share.

For n >= 19 users and m >= 3 shuffled messages of each,

    P[C = c] <= (1.5^(c-1) / c!) (e/n)^((m-1)(c-1)),

and if also q <= (n/e)^(m-1) / 2, then E[q^C] <= q + q^2 (e/n)^(m-1). The printed proof has gaps;
the documentation has one that holds (How many messages, "Lemma C.5"), and `ikos.graphs.sweeps`
compares it with the exact distribution. `ikos.graphs.partition_bound` has the sharper bound behind
that proof, for all four models and any number of users.
"""

from __future__ import annotations

import gmpy2
from gmpy2 import mpfr, mpq

from ikos._validation import integer, quote
from ikos.counts.rounding import DOWN, PRECISION, UP, float_up, rounding
from ikos.counts.types import MAX_BITS, MAX_MESSAGES, MAX_USERS

LEAST_USERS = 19
LEAST_MESSAGES = 3


def covers(n: int, m: int, *, shuffler: str = "parallel", clear_share: bool = True) -> bool:
    """Return whether the lemma is stated for a setting."""
    stated = shuffler == "parallel" and clear_share
    return stated and n >= LEAST_USERS and m >= LEAST_MESSAGES


def _setting(n: object, m: object) -> tuple[int, int]:
    users = integer("n", n, low=1, high=MAX_USERS)
    messages = integer("m", m, low=1, high=MAX_MESSAGES)
    if not covers(users, messages):
        name, value, least = ("n", users, 19) if users < LEAST_USERS else ("m", messages, 3)
        raise ValueError(
            f"{name} must be at least {least} for Lemma C.5 of BBGN20, got {value}; "
            "parts_bound holds for any n"
        )
    return users, messages


def component_bound(n: int, m: int, c: int) -> float:
    """Return Lemma C.5's upper bound of P[C = c].

    Parameters
    ----------
    n : int
        Users, at least 19.
    m : int
        Shuffled messages of each, at least 3; with parallel shufflers and a clear share.
    c : int
        Components, from 1 to n.

    Returns
    -------
    float
        Rounded up.

    Raises
    ------
    ValueError
        Outside of the lemma's conditions; `ikos.graphs.parts_bound` covers more.

    Examples
    --------
    >>> print(f"{component_bound(100, 4, 2):.3e}")
    1.506e-05
    """
    users, messages = _setting(n, m)
    return float_up(upper_bound(users, messages, integer("c", c, low=1, high=users)))


def upper_bound(n: int, m: int, c: int) -> mpfr:
    """Return the bound, rounded up, without underflow."""
    digits = PRECISION + 2 * (n * m).bit_length()
    with rounding(DOWN, digits):
        ways = gmpy2.lngamma(mpfr(c + 1))
        fall = (m - 1) * (gmpy2.log(mpfr(n)) - 1)
    with rounding(UP, digits):
        exponent = (c - 1) * (gmpy2.log(mpfr(mpq(3, 2))) - fall) - ways
    with rounding(UP):
        return gmpy2.exp(exponent)


def excess_bound(n: int, m: int, q: int) -> float:
    """Return Lemma C.5's upper bound of E[q^C]/q - 1.

    Parameters
    ----------
    n : int
        Users, at least 19.
    m : int
        Shuffled messages of each, at least 3; with parallel shufflers and a clear share.
    q : int
        Order of the group, from 2 to (n/e)^(m-1) / 2.

    Returns
    -------
    float
        q (e/n)^(m-1), rounded up.

    Raises
    ------
    ValueError
        Outside of the lemma's conditions.

    Examples
    --------
    >>> print(f"{excess_bound(100, 4, 2**8):.3e}")
    5.142e-03
    """
    users, messages = _setting(n, m)
    order = integer("q", q, low=2)
    if order.bit_length() > MAX_BITS:
        raise ValueError(f"q must be below 2**{MAX_BITS}, got one of {order.bit_length()} bits")
    with rounding(UP):
        each = (gmpy2.exp(mpfr(1)) / users) ** (messages - 1)
        excess = mpfr(order) * each
    if not excess <= mpq(1, 2):
        with rounding(DOWN):
            most = gmpy2.floor(mpq(1, 2) / each)
        told = str(int(most)) if most < 10**6 else f"{most:.6Dg}"
        raise ValueError(
            f"q must be at most (n/e)^(m-1) / 2, here {told}, for Lemma C.5 of BBGN20, "
            f"got {quote(order)}"
        )
    return float_up(excess)


def falling_bounds(n: int, m: int, most: int) -> list[mpfr]:
    """Return the bound for c = 1..most, rounded down, without underflow."""
    with rounding(DOWN):
        e = gmpy2.exp(mpfr(1))
    with rounding(UP):
        divisor = (n / e) ** (m - 1)
    with rounding(DOWN):
        step = mpq(3, 2) / divisor
        bounds = [mpfr(1)]
        for c in range(2, most + 1):
            bounds.append(bounds[-1] * step / c)
    return bounds
