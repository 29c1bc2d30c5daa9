"""What WLQDLY21's formulas state: no guarantees, see the errata of the documentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from ikos._validation import integer, number, quote

_MAX_EPSILON = 100
_MOST = 1 << 53
"""Of sizes and numbers."""


def definition_3(values: Sequence[int], t: int, odds: Fraction) -> list[Fraction]:
    """Return P[z | x] for z = 0..t-1 by Definition 3 of WLQDLY21, for one hash function.

    ``values`` are the hash values H(y), from 0 to t - 1, of the user's s events y, with t > s. The
    distinct ones have probability odds / Omega each, Omega = s odds + t - s and odds = e^eps; the
    rest is even. For a uniform H, ([H(y) = z] - 1/t) / (odds/Omega - 1/t) estimates without bias
    whether the user has y.

    Examples
    --------
    >>> [str(p) for p in definition_3([0, 1, 1], 4, Fraction(5))]
    ['5/16', '5/16', '3/16', '3/16']
    """
    s, count = len(values), integer("t", t, low=len(values) + 1)
    hit = {integer("values", value, low=0, high=count - 1) for value in values}
    omega = s * odds + count - s
    rest = (omega - odds * len(hit)) / (count - len(hit))
    return [(odds if z in hit else rest) / omega for z in range(count)]


def private_assouad_bound(
    n: int, dimension: int, epsilon: float, separation: float, discrepancy: float
) -> float:
    """Return Lemma 1 of WLQDLY21 (Duchi, Jordan, Wainwright 2018): d tau (1 - sqrt(...)).

    The root is of n (e^eps - 1)^2 F / (2d). Of the mean squared error of any estimate of d
    parameters from n messages that are each eps-private by themselves: ``separation`` is tau, the
    distributions of the 2^d sign vectors are 2 tau-separated, ``discrepancy`` is F. 0 where the
    lemma has a negative number.

    Examples
    --------
    >>> round(private_assouad_bound(1000, 8, 0.1, 0.01, 0.1), 4)
    0.059
    """
    users, d = integer("n", n, low=1, high=_MOST), integer("dimension", dimension, low=1)
    gain = math.expm1(float(number("epsilon", epsilon, above=0, high=_MAX_EPSILON)))
    tau, most = float(number("separation", separation, low=0)), number("discrepancy", discrepancy)
    return max(0.0, d * tau * (1 - gain * math.sqrt(users * float(most) / (2 * d))))


def explicit_lower_bound(n: int, dimension: int, sparsity: int, epsilon: float) -> float:
    """Return Theorem 1's lower bound of WLQDLY21 with a constant, by Lemma 1.

    s buckets of d/s coordinates (of s floor(d/s) in all) each have one entry at a uniform place,
    whose sign there is 1 with probability (1 + beta)/2 or (1 - beta)/2. So tau = beta^2 s^2/(2d^2),
    and F is at most 4 beta^2 s/d: it is 4 beta^2 |E gamma(x) x|^2, with x uniform and |gamma| <= 1,
    and the matrix E x x^T is s/d times the identity. The beta here is sqrt(2) times the paper's
    delta. With the best one the bound is d s/(27 n (e^eps - 1)^2), or from s^2/(6d) to s^2/(2d)
    where that is larger than s^2/(6d).

    Examples
    --------
    >>> setting = 10**5, 256, 16, 1.0
    >>> round(published_lower_bound(*setting) / explicit_lower_bound(*setting), 1)
    79.7
    """
    integer("n", n, low=1, high=_MOST)
    s = integer(
        "sparsity", sparsity, low=1, high=integer("dimension", dimension, low=1, high=_MOST)
    )
    eps = float(number("epsilon", epsilon, above=0, low=1e-100, high=_MAX_EPSILON))
    d = dimension // s * s
    beta = min(1.0, 2 * d / (3 * math.expm1(eps) * math.sqrt(2 * n * s)))
    return private_assouad_bound(n, d, eps, (beta * s / d) ** 2 / 2, 4 * beta**2 * s / d)


def published_nonprivate_error(n: int, sparsity: int) -> float:
    """Return the rate without privacy that WLQDLY21 has after Theorem 1, 4s/n.

    Of the mean of n users' vectors as an estimate of the expected one, theta. Its mean squared
    error is (s - |theta|^2)/n for vectors with s entries, so the 4 is not needed.

    Examples
    --------
    >>> published_nonprivate_error(10**5, 16)
    0.00064
    """
    users = integer("n", n, low=1, high=_MOST)
    return 4 * integer("sparsity", sparsity, low=1, high=_MOST) / users


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

    Examples
    --------
    >>> round(published_shuffled_values(16, 146.296), 2)
    65.67
    """
    s = integer("sparsity", sparsity, low=1, high=_MOST)
    omega = float(number("omega", omega, above=s, high=1e100))
    root = math.sqrt(omega**2 + 2 * omega * (7 * s - 8) + s * s - 16 * s + 16)
    return (4 + omega + s + root) / 6


def published_asymptotic_error(
    n: int, dimension: int, sparsity: int, epsilon: float, delta: float
) -> float:
    """Return the order of the error after shuffling in Section 5 of WLQDLY21, without a constant.

    ``d s^2 ln(1/delta) / (n^2 eps^2)`` times ``max(1, 14 s ln(2/delta) / (eps^2 (n - 1)))``, of an
    estimated mean, epsilon and delta those of the shuffled messages. The maximum is that of 1 and
    s/Omega, and always 1 where there is a mechanism (Omega > s); for few users the order has
    (1 - s/Omega)^-4 in its place: see the errata of the documentation.

    Examples
    --------
    >>> round(published_asymptotic_error(10**6, 10**5, 16, 0.5, 1e-5), 6)
    0.001179
    """
    users, d = integer("n", n, low=2, high=_MOST), integer("dimension", dimension, low=1)
    s = integer("sparsity", sparsity, low=1, high=d)
    eps = float(number("epsilon", epsilon, above=0, low=1e-100, high=_MAX_EPSILON))
    small = float(number("delta", delta, above=0, low=1e-300, below=1))
    few = 14 * s * math.log(2 / small) / (eps**2 * (users - 1))
    return d * s**2 * math.log(1 / small) / (users * eps) ** 2 * max(1.0, few)


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
