"""The lemmas of BBGN20's Appendices C and E in their printed form.

BBGN20 is Balle, Bell, Gascón, Nissim, "Private Summation in the Multi-Message Shuffle Model",
CCS 2020. Levels are in bits: sigma for a total variation distance of 2^-sigma. Logarithms are to
base 2. `analysis.enumeration` has Lemmas C.2 and C.4, `analysis.lemma_c5` Lemma C.5, and
`ikos.message_count` what the library uses instead.
"""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2

from analysis.enumeration import collision_probability, view_agreement
from ikos._validation import integer, number
from ikos.numeric.rounding import DOWN, UP, exact, float_down, log2, rounding

_MAX_MESSAGES = 1 << 16
_MAX_BITS = 1 << 16


# Appendix C


def lemma_c1_bound(n: int, m: int, q: int, *, shuffler: str = "parallel") -> float:
    """Return Lemma C.1's bound of BBGN20, sqrt(q^(mn-1) P[V(X) = V'(X)] - 1).

    It bounds E[TV(V(X), V(X'))] for X and X' that are uniform with the same sum, all m messages
    shuffled. The proof compares each view with a uniform one, so the bound holds for any joint
    distribution of X and X', also for X' = X + y with a fixed y. ``ikos`` has sqrt(Delta/2), with
    Delta = E[q^(C-1); C >= 2]: smaller by a factor of up to sqrt(2), and equal for q = n = 2.

    Parameters
    ----------
    n, m, q, shuffler
        As for `analysis.enumeration.view_agreement`, which is P[V(X) = V'(X)].

    Examples
    --------
    >>> lemma_c1_bound(2, 2, 2)
    0.5
    """
    return _second_moment_bound(view_agreement(n, m, q, shuffler=shuffler), m * n, q)


def lemma_c3_bound(n: int, m: int, q: int, *, shuffler: str = "parallel") -> float:
    """Return Lemma C.3's bound of BBGN20, sqrt(q^(mn-1) P[R(X) = S(R'(X))] - 1).

    As `lemma_c1_bound`, with one permutation S and the unshuffled shares R and R'. By Lemma C.2 the
    two are equal.

    Examples
    --------
    >>> lemma_c3_bound(2, 3, 2) == lemma_c1_bound(2, 3, 2)
    True
    """
    return _second_moment_bound(collision_probability(n, m, q, shuffler=shuffler), m * n, q)


def _second_moment_bound(agreement: Fraction, slots: int, q: int) -> float:
    return math.sqrt(agreement * q ** (slots - 1) - 1)


# Appendix E


def lemma_e1_level(size: int, bits: int) -> float:
    """Return the s of Lemma E.1 of BBGN20, the leftover hash lemma, rounded down.

    Let h be drawn from a universal family of hash functions to ``bits`` bits, and d from a set of
    ``size`` = 2^(bits + 2s) elements, s > 0. Then (h, h(d)) is within 2^-s of (h, U), with a
    uniform U, in total variation.

    Examples
    --------
    >>> lemma_e1_level(2**12, 4)
    4.0
    """
    elements = integer("size", size, low=1)
    length = integer("bits", bits, low=0, high=_MAX_BITS)
    with rounding(DOWN):
        return float_down((log2(elements, DOWN) - length) / 2)


def lemma_e2_level(m: int, q: int) -> float:
    """Return the s of Lemma E.2 of BBGN20, (log C(2m, m) - ceil(log q)) / 2, rounded down.

    Two users share uniform X and Y in Z_q, m shares each, and all 2m are shuffled: V. Then (V, X)
    is within 2^-s of (V, U), with an independent uniform U, since X is the sum of m of the 2m
    shares in V, chosen uniformly.

    Examples
    --------
    >>> round(lemma_e2_level(264, 2**64), 2)
    229.58
    """
    each = integer("m", m, low=1, high=_MAX_MESSAGES)
    return lemma_e1_level(math.comb(2 * each, each), _bits(q))


def lemma_e3_level(level: float, q: int) -> float:
    """Return the level that Lemma E.3 of BBGN20 has for two fixed inputs, rounded down.

    From the ``level`` of Lemma E.2: TV(V(x, y), V(x', y')) <= 2 q^2 TV((V, X), (V, U)) for inputs
    with x + y = x' + y'. (q^2 would do: the distances of all V(x) from V add up to q times the
    distance on the right.)

    Examples
    --------
    >>> round(lemma_e3_level(lemma_e2_level(264, 2**64), 2**64), 2)  # Inequality (8)'s first line
    100.58
    """
    order = integer("q", q, low=2)
    given = number("level", level)
    with rounding(DOWN):
        return float_down(exact(given, DOWN) - 1 - 2 * log2(order, UP))


def lemma_e4_messages(n: int, q: int, sigma: float | Fraction) -> int:
    """Return the messages of Lemma E.4 of BBGN20, for n users those in the proof of Lemma 5.1.

    2 + 5 ceil(log q) + ceil(2 sigma + 2 log(n - 1)) messages per user, all through one shuffler,
    suffice for a level of ``sigma`` bits between any two inputs with the same sum. Appendix E.1,
    ``analysis="ishai2006"``, has about half of them.

    Parameters
    ----------
    n, q : int
        At least 2 users; order of the group, at least 2.
    sigma : float or Fraction
        Level in bits, at least 0.

    Examples
    --------
    >>> import ikos
    >>> lemma_e4_messages(10**6, 2**64, 80)
    522
    >>> model = dict(shuffler="single", clear_share=False)
    >>> ikos.message_count(10**6, 2**64, 80, analysis="ishai2006", **model).total
    264
    """
    users, level = integer("n", n, low=2), number("sigma", sigma, low=0)
    with rounding(UP):
        sharp = int(gmpy2.ceil(2 * (exact(level, UP) + log2(users - 1, UP))))
    return 2 + 5 * _bits(q) + sharp


def equation_3(n: int, q: int, sigma: float | Fraction) -> float:
    """Return Equation (3) of BBGN20, the messages of Lemma 5.1, without its O(1).

    (5/2) log q + sigma + log(n - 1) + (1/4) log(log q + sigma + log(n - 1)), for n users, a group
    of q elements and a level of sigma bits.

    Examples
    --------
    >>> round(equation_3(10**6, 2**64, 80), 2)  # with all constants 264
    261.77
    """
    users, order = integer("n", n, low=2), integer("q", q, low=2)
    level = float(number("sigma", sigma, low=0))
    steps = math.log2(users - 1)
    return 2.5 * math.log2(order) + level + steps + math.log2(math.log2(order) + level + steps) / 4


def _bits(q: object) -> int:
    """Return ceil(log q)."""
    return (integer("q", q, low=2) - 1).bit_length()
