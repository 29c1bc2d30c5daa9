"""A lower bound on the delta of the private sum, for parallel shufflers and a clear share.

By moments of tuple counts, or a normal limit with Goldstein's constant. The proof is in
docs/necessary-messages.md, "The private sum".
"""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
from gmpy2 import mpfr

from ikos._validation import integer
from ikos.counts.analyses import checked_scheme
from ikos.counts.necessary import THRESHOLDS, fourth_moment, pair_moment, ways
from ikos.counts.private import SMALLEST, budget_of, private_proved
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import MAX_MESSAGES, Budget
from ikos.numeric.rounding import DOWN, UP, exact, float_down, log2, rounding

_ZERO = mpfr(0)
_LOOKAHEAD_MESSAGES = 16


def delta(
    n: int, q: int, m: int, precision: int, epsilon: Fraction, noise_epsilon: Fraction
) -> mpfr:
    """Return a lower bound on delta if the private sum is (epsilon, delta)-DP, rounded down.

    It holds for noise of this epsilon and every larger one up to ``epsilon``; 0 is trivial.
    """
    if n < 3 or m < 2 or 4 * precision > q or 2 * precision % q == 0 or noise_epsilon > epsilon:
        return _ZERO
    graph, rate = ShareGraph(m, "parallel", True), noise_epsilon / precision
    with rounding(UP):
        alpha = gmpy2.exp(exact(-rate, UP))
        jump_chance = -gmpy2.expm1(exact(-rate, UP))  # 1 - alpha, rounded down
        both = 1 + alpha
        gone = -gmpy2.expm1(exact(-rate * q, UP))  # 1 - alpha^q, rounded down
    with rounding(DOWN):
        rho = mpfr(q) / ways(n, graph, UP)
        lost_part = gmpy2.expm1(gmpy2.log(jump_chance) * 2 / n)  # minus nu
        half, end = mpfr(q) / 2 - 2 * precision, mpfr(q // 4 + 1)
    with rounding(UP):
        excess = mpfr(q) / ways(n, graph, DOWN)  # rho, rounded up
        wrapped, far = 2 * alpha**half, alpha**end
        grown = gmpy2.exp(exact(epsilon - noise_epsilon, UP)) * (1 + wrapped / gone)
        c = grown - 1
        jumped = -lost_part
        blurred = jumped * gmpy2.sqrt(excess / 2)
        blurred *= 1 + grown * gmpy2.exp(exact(noise_epsilon, UP))
        lost = c * gmpy2.sqrt(excess)
    columns = ShareGraph(m - 1, "parallel", True)
    shown = max(
        _by_moments(n, q, graph, precision, c, rho, lost),
        _normal(n, q, columns, precision, c, rho, lost),
    )
    with rounding(DOWN):
        return max(_ZERO, (1 - far) / both * shown - blurred)


def _by_moments(n: int, q: int, graph: ShareGraph, p: int, c: mpfr, rho: mpfr, lost: mpfr) -> mpfr:
    """Return the bound by Hoelder's inequality."""
    fourth = fourth_moment(n, q, graph, p)
    with rounding(DOWN):
        return rho * gmpy2.sqrt(2 * rho / fourth) - c - lost / 2


def _normal(n: int, q: int, graph: ShareGraph, p: int, c: mpfr, rho: mpfr, lost: mpfr) -> mpfr:
    """Return the bound by a normal limit, given all columns but one, which ``graph`` has."""
    fourth = fourth_moment(n, q, graph, p)
    pair = pair_moment(n, q, graph, p, p)
    with rounding(UP):
        kappa = pair * (ways(n, graph, UP) / 2 / q) ** 2 - 1
        circle = gmpy2.sqrt(2 * gmpy2.const_pi())
    with rounding(DOWN):
        best = -c
    for theta in THRESHOLDS:
        with rounding(DOWN):
            spread = gmpy2.sqrt(2 * rho * theta)
            gap, scale = mpfr((1 - theta) ** 2), 2 * rho * theta * mpfr(n) ** 3
        with rounding(UP):
            missed = max(_ZERO, kappa) / gap
            at = c / spread
            error, root = gmpy2.sqrt(fourth / scale), gmpy2.sqrt(mpfr(2))
        with rounding(DOWN):
            inner = at / root
        with rounding(UP):
            beyond = at * gmpy2.erfc(inner) / 2
            square = at * at / 2
        with rounding(DOWN):
            mean = spread * (gmpy2.exp(-square) / circle - beyond)
            if missed < 1 and mean > 0:
                best = max(best, (1 - missed) * mean - error - lost)
    return best


def _least(n: int, q: int, m: int, budget: Budget) -> mpfr:
    """Return the lower bound for all noise that leaves at most the reserve."""
    p, epsilon = budget.sensitivity, budget.epsilon
    return delta(n, q, m, p, epsilon, epsilon * (1 - budget.reserve))


def private_delta_interval(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    precision: int,
    *,
    reserve: float | Fraction = 0.01,
) -> tuple[float, float]:
    """Return lower and upper bounds on delta for a private sum with m shuffled messages.

    Parameters
    ----------
    n, q, m, epsilon, precision, reserve
        As in `ikos.counts.private_delta`, with parallel shufflers and a clear share.

    Returns
    -------
    low, high : float
        ``high`` is `private_delta`, rounded up. No sum whose noise has from ``(1 - reserve)
        epsilon`` to ``epsilon`` is (epsilon, delta)-private with a delta below ``low``, which is
        rounded down, and 0.0 where nothing is proved.

    Notes
    -----
    The proof is in docs/necessary-messages.md, "The private sum". The bounds are far from tight:
    the two ends are often a message apart, not a factor.

    Examples
    --------
    >>> low, high = private_delta_interval(10**6, 2**31, 2, 1, 1000)
    >>> f"{low:.3f} {high:.3f}"
    '0.009 1.000'
    """
    budget = budget_of(epsilon, 0.5, reserve, precision)
    m = integer("m", m, low=1, high=MAX_MESSAGES)
    proved = private_proved(n, q, m, epsilon, SMALLEST, precision, reserve=reserve)
    assert proved.delta is not None
    # more messages never hurt, and so a bound for more is one for m
    low = max(_least(n, q, k, budget) for k in range(m, m + _LOOKAHEAD_MESSAGES))
    return float_down(low), proved.delta


def necessary_private_messages(
    n: int,
    q: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
    reserve: float | Fraction = 0.01,
) -> int:
    """Return a proved lower bound on the number of shuffled messages for the private sum.

    Parameters
    ----------
    n, q, epsilon, delta, precision, min_honest, corrupt_shufflers, reserve
        As in `ikos.private_message_count`, with parallel shufflers and a clear share.

    Returns
    -------
    int
        With fewer, no noise of the library that leaves at most ``reserve`` of epsilon is
        (epsilon, delta)-private. See `private_delta_interval`.

    Examples
    --------
    >>> necessary_private_messages(10**6, 2**31, 1, 1e-12, 1000)
    3
    """
    scheme = checked_scheme(n, q, min_honest, corrupt_shufflers)
    budget = budget_of(epsilon, delta, reserve, precision)
    users, corrupt = scheme.trust.min_honest, scheme.trust.corrupt_shufflers
    allowed = exact(budget.delta, UP)
    # `delta` is at most sqrt(rho / 2), rho = q / n^m: with more messages it proves nothing
    bits = float(log2(scheme.q / budget.delta**2, UP))
    most = math.ceil(bits / math.log2(max(users, 2)))
    # more messages never hurt, and so any count that is not enough excludes those below it
    missed = (m for m in range(most, 1, -1) if _least(users, q, m, budget) > allowed)
    return corrupt + next(missed, 0) + 1
