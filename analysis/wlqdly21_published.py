"""What WLQDLY21's formulas state: no guarantees, see the errata of the documentation."""

from __future__ import annotations

import math

from ikos._validation import integer, number, quote

_MAX_EPSILON = 100
_MOST = 1 << 53
"""Of sizes and numbers."""


def published_values(sparsity: int, epsilon: float) -> float:
    """Return the paper's t for a local guarantee, 2s - 1 + s e^eps (Theorem 2's proof).

    Examples
    --------
    >>> round(published_values(16, 1.0), 2)
    74.49
    """
    s = integer("sparsity", sparsity, low=1, high=_MOST)
    eps = float(number("epsilon", epsilon, above=0, high=_MAX_EPSILON))
    return 2 * s - 1 + s * math.exp(eps)


def published_shuffled_values(sparsity: int, omega: float) -> float:
    """Return the paper's t after shuffling, from Omega = s e^eps + t - s (Section 5).

    ``omega`` is eps^2 (n - 1) / (14 ln(2/delta)) by Theorem 3.
    """
    s = integer("sparsity", sparsity, low=1, high=_MOST)
    omega = float(number("omega", omega, above=s, high=1e100))
    root = math.sqrt(omega**2 + 2 * omega * (7 * s - 8) + s * s - 16 * s + 16)
    return (4 + omega + s + root) / 6


def published_amplification(local: float, delta: float, n: int, sparsity: int, t: float) -> float:
    """Return what n shuffled messages guarantee by Theorem 3, its condition corrected.

    sqrt(14 ln(2/delta) Omega / (n - 1)), Omega = s e^local + t - s; the paper's condition has
    e^eps + t - 1 in place of Omega. What the proof ignores, that the hash functions are seen, does
    not refute it: the guarantee of `collision_parameters` is stronger and proved.

    Raises
    ------
    ValueError
        If that is above 1, or n is below 27 Omega / epsilon + 1: outside of BBGN19's Theorem 3.1,
        on which it rests.

    Examples
    --------
    >>> round(published_amplification(1.8, 1e-5, 10**5, 16, 66), 2)
    0.5
    """
    each = float(number("local", local, above=0, high=_MAX_EPSILON))
    small = float(number("delta", delta, above=0, low=1e-300, below=1))
    integer("n", n, low=2, high=_MOST)
    s = integer("sparsity", sparsity, low=1, high=_MOST)
    omega = s * math.exp(each) + float(number("t", t, above=s, high=_MOST)) - s
    found = math.sqrt(14 * math.log(2 / small) * omega / (n - 1))
    if found > 1:
        raise ValueError(f"local must be smaller for an epsilon up to 1, got {quote(local)}")
    if n < 27 * omega / found + 1:
        # n is on both sides: found falls with its root
        least = 1 + math.ceil(729 * omega / (14 * math.log(2 / small)) * (1 + 1e-12))
        raise ValueError(f"n must be at least {quote(least)}, got {n}")
    return found


def published_binary_amplification(local: float, delta: float, n: int) -> float:
    """Return sqrt(14 ln(2/delta) (e^local + 1) / (n - 1)), Section 5's form for two values.

    What n shuffled bits guarantee by BBGN19's Theorem 3.1, each by randomized response and
    local-private by itself; ValueError outside its conditions, as for `published_amplification`, of
    which it is the case s = 1 and t = 2. `ikos.accounting.response_epsilon` is smaller.

    Examples
    --------
    >>> from ikos.accounting import response_epsilon
    >>> published = published_binary_amplification(2, 1e-8, 10**6)
    >>> exact = response_epsilon(1e-8, 10**6, 2, 2 / (math.exp(2) + 1))
    >>> print(f"{published:.4f} {exact:.4f}")
    0.0474 0.0130
    """
    return published_amplification(local, delta, n, 1, 2)


def published_local_epsilon(
    epsilon: float, delta: float, n: int, sparsity: int, t: float | None = None
) -> tuple[float, float]:
    """Return what each message may have by Theorem 3, and t: the converse.

    Epsilon is at most 1; t is `published_shuffled_values` by default.

    Examples
    --------
    >>> local, t = published_local_epsilon(0.5, 1e-5, 10**5, 16)
    >>> round(local, 2), round(t, 1)
    (1.8, 65.7)
    """
    eps = float(number("epsilon", epsilon, above=0, high=1))
    small = float(number("delta", delta, above=0, low=1e-300, below=1))
    integer("n", n, low=2, high=_MOST)
    s = integer("sparsity", sparsity, low=1, high=_MOST)
    omega = min(eps**2 * (n - 1) / (14 * math.log(2 / small)), eps * (n - 1) / 27)
    if t is not None:
        t = float(number("t", t, above=s, high=_MOST))
    elif omega > s:
        t = published_shuffled_values(s, omega)
    if t is None or (odds := (omega - t + s) / s) <= 1:
        raise ValueError(f"n must be larger for any local epsilon, got {n}")
    return math.log(odds), t


def published_lower_bound(n: int, dimension: int, sparsity: int, epsilon: float) -> float:
    """Return Theorem 1's lower bound, min(s^2/d, d s/(n eps^2)), but for its unnamed constant.

    Of the mean squared Euclidean error of an estimated *mean*, epsilon in (0, 1], without a
    shuffler.

    Examples
    --------
    >>> published_lower_bound(10**5, 256, 16, 1.0)
    0.04096
    """
    eps = float(number("epsilon", epsilon, above=0, low=1e-100, high=1))
    users = integer("n", n, low=1, high=_MOST)
    d = integer("dimension", dimension, low=1, high=_MOST)
    s = integer("sparsity", sparsity, low=1, high=d)
    return min(s**2 / d, d * s / (users * eps**2))
