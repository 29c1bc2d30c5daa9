"""What given messages buy: deltas, epsilons, users, and what is left when some are not honest.

The other way round than counting messages. Deltas and epsilons are rounded up and levels down;
what is called smallest is the smallest that the library proves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr, mpq

from ikos._validation import integer, number, quote
from ikos.counts import hockey_stick
from ikos.counts.directed import DOWN, PRECISION, UP, exact, float_up, rounding
from ikos.counts.exact import LONGEST_RECURSION
from ikos.counts.private import (
    MAX_EPSILON,
    MIN_EPSILON,
    checked_budget,
    checked_trust,
    lemma_5_2,
    private_proved,
    share_graphs,
)
from ikos.counts.secure import MAX_SIGMA, MAX_USERS, proved, security_level, setting
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import MessageCount

__all__ = [
    "Remaining",
    "private_delta",
    "private_epsilon",
    "private_remaining",
    "remaining",
    "short_noise_epsilon",
    "smallest_users",
]

_TINY = Fraction(1, 1 << 5000)


def private_delta(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    precision: int,
    *,
    analysis: str = "exact",
    shuffler: str = "parallel",
    clear_share: bool = True,
    reserve: float | Fraction = 0.01,
) -> float:
    """Return the smallest delta that is proved for a private sum with m shuffled messages.

    Parameters
    ----------
    n : int
        Users who share the noise.
    m : int
        Shuffled messages of each user; a clear share is not counted.
    q, epsilon, precision, analysis, shuffler, clear_share, reserve
        As in `ikos.private_message_count`.

    Returns
    -------
    float
        Rounded up; 1.0 where nothing is proved. `private_message_count` with this delta needs at
        most m, and `private_proved` says what is left of epsilon for the noise then: for "exact"
        up to all of ``reserve`` is spent.

    Examples
    --------
    >>> f"{private_delta(10**6, 2**31, 5, 1, 1000):.1e}"
    '4.3e-17'
    >>> f"{private_delta(10**6, 2**31, 4, 1, 1000):.1e}"
    '4.3e-11'
    """
    found = private_proved(
        n,
        q,
        integer("m", m, low=1),
        epsilon,
        _TINY,
        precision,
        analysis=analysis,
        shuffler=shuffler,
        clear_share=clear_share,
        reserve=reserve,
    )
    assert found.delta is not None
    return found.delta


def private_epsilon(
    n: int,
    q: int,
    m: int,
    delta: float | Fraction,
    precision: int,
    *,
    analysis: str = "exact",
    shuffler: str = "parallel",
    clear_share: bool = True,
    reserve: float | Fraction = 0.01,
) -> float:
    """Return the smallest epsilon at which m shuffled messages are proved to reach delta.

    The noise belongs to epsilon: a smaller one needs more noise, and more messages to hide it.

    Parameters
    ----------
    n : int
        Users who share the noise.
    m : int
        Shuffled messages of each user; a clear share is not counted.
    delta : float
        In (0, 1).
    q, precision, analysis, shuffler, clear_share, reserve
        As in `ikos.private_message_count`.

    Returns
    -------
    float
        `private_proved` proves (epsilon, delta) with this epsilon, from 1e-100 to 1e6: the search
        ends at budgets that were checked themselves. It takes for granted that what is reached
        at one epsilon is so down to a least one, and is exact to about 12 digits. 1e-100 if the
        messages hide noise of every size well enough.

    Raises
    ------
    ValueError
        If an argument is out of range, or no epsilon is found at which delta is reached.

    Examples
    --------
    >>> epsilon = private_epsilon(1000, 2**16, 5, 1e-6, 32)
    >>> round(epsilon, 4)
    0.1658
    >>> private_proved(1000, 2**16, 5, epsilon, 1e-6, 32).delta <= 1e-6
    True
    """
    n, q, analysis, shuffler, clear_share = setting(n, q, analysis, shuffler, clear_share)
    _, allowed, spare = checked_budget(1, delta, reserve)
    m = integer("m", m, low=1)
    p = integer("precision", precision, low=1)

    def reached(epsilon: float) -> float:
        """Return the proved delta, 0 where it is what is asked for."""
        found = private_proved(
            n,
            q,
            m,
            epsilon,
            allowed,
            p,
            analysis=analysis,
            shuffler=shuffler,
            clear_share=clear_share,
            reserve=spare,
        ).delta
        assert found is not None
        return 0.0 if found <= allowed else found

    high = _some_epsilon(reached, allowed)
    step = 2.0
    while reached(low := max(MIN_EPSILON, high / step)) == 0:
        if low == MIN_EPSILON:
            return low
        high, step = low, step * step
    while low * (1 + 1e-12) < high:
        middle = math.sqrt(low) * math.sqrt(high)
        if reached(middle) == 0:
            high = middle
        else:
            low = middle
    return high


def _some_epsilon(reached: Callable[[float], float], delta: Fraction) -> float:
    """Return an epsilon at which delta is reached: near the smallest delta if not at a guess.

    As epsilon grows delta first falls, because there is less noise to hide and more epsilon to
    hide it with, and then rises with e^epsilon.
    """
    candidates = [2.0**k for k in sorted(range(-40, 20), key=abs)]
    for spacing in (1, 1 / 16, 1 / 256):
        tried: dict[float, float] = {}
        for epsilon in candidates:
            tried[epsilon] = reached(epsilon)
            if tried[epsilon] == 0:
                return epsilon
        best = min(tried, key=tried.__getitem__)
        candidates = [best * 2.0 ** (spacing * i / 16) for i in range(-16, 17)]
        if tried[best] >= 1:
            break
    raise ValueError(
        f"delta must be at least {tried[best]:.3g}, reached at epsilon = {best:.3g}, got "
        f"{quote(float(delta))}: no epsilon reaches it with this m"
    )


def smallest_users(
    q: int,
    sigma: float | Fraction,
    m: int,
    *,
    analysis: str = "exact",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> int:
    """Return the smallest n such that m shuffled messages are enough for n users and for any more.

    Parameters
    ----------
    q : int
        Order of the group.
    sigma : float
        Security in bits.
    m : int
        Shuffled messages of each user.
    analysis, shuffler, clear_share
        As in `ikos.security_level`.

    Returns
    -------
    int
        `security_level` proves sigma for every number of users from here on, and not for one
        less. For "exact" beyond 1024 users by one bound that falls as n grows.

    Raises
    ------
    ValueError
        If an argument is out of range, or there is no such number up to 10^100: one message that
        hides does not hide better among more users, and what ishai2006 proves falls with n.

    Examples
    --------
    >>> smallest_users(2**64, 80, 24)
    830
    >>> smallest_users(2**64, 80, 23, shuffler="single", clear_share=False)
    593
    """
    _, q, analysis, shuffler, clear_share = setting(1, q, analysis, shuffler, clear_share)
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    m = integer("m", m, low=1)
    if analysis == "ishai2006":
        raise ValueError(
            "analysis 'ishai2006' proves less for more users, and so no level for every number of "
            f"users from some n on, got sigma = {quote(sigma)}; analysis='exact' does"
        )
    if analysis == "exact" and ShareGraph(m, shuffler, clear_share).hiding < 2:
        raise ValueError(
            f"m must be at least {2 if clear_share else 3} for more users to hide better, got {m}"
        )

    def level(low: int, high: int) -> float:
        return proved(
            (low, high), q, m, analysis=analysis, shuffler=shuffler, clear_share=clear_share
        ).sigma

    # refuses what the analysis does not cover for any n
    most = security_level(
        MAX_USERS, q, m, analysis=analysis, shuffler=shuffler, clear_share=clear_share
    )
    if most < wanted:
        raise ValueError(
            f"sigma must be at most {most:.6g} with m = {m}, which is proved for 10^100 users, got "
            f"{quote(sigma)}"
        )
    low, high = 1, 2
    while high < MAX_USERS and level(high, MAX_USERS) < wanted:
        low, high = high, min(2 * high, MAX_USERS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if level(middle, MAX_USERS) >= wanted else (middle, high)
    # What holds from here on is bounded as a whole, and may be proved for one less by itself.
    n = high
    while n > 1 and level(n - 1, max(n - 1, LONGEST_RECURSION)) >= wanted:
        n -= 1
    return n


def remaining(
    n: int,
    q: int,
    total: int,
    *,
    honest: int | None = None,
    corrupt_shufflers: int = 0,
    analysis: str = "exact",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> MessageCount:
    """Return what a secure sum still proves when users or shufflers turn out not to be honest.

    Parameters
    ----------
    n, q, analysis, shuffler, clear_share
        As in `ikos.security_level`.
    total : int
        Messages of each user in all, a clear share included.
    honest : int, optional
        The level holds for every number of honest users from this to ``n``; ``n`` by default.
    corrupt_shufflers : int
        How many of the parallel shufflers collude with the analyzer. Their messages are as good as
        clear, and the others hide by themselves.

    Returns
    -------
    MessageCount
        With the level that is left as ``sigma``; 0.0 where nothing is proved.

    Raises
    ------
    ValueError
        If an argument is out of range, or a single shuffler colludes: it sees everything.

    Examples
    --------
    >>> from ikos import message_count
    >>> count = message_count(1000, 2**64, 80)
    >>> round(remaining(1000, 2**64, count.total).sigma, 2)
    83.11
    >>> round(remaining(1000, 2**64, count.total, honest=500, corrupt_shufflers=2).sigma, 2)
    62.64
    """
    n, q, analysis, shuffler, clear_share = setting(n, q, analysis, shuffler, clear_share)
    total = integer("total", total, low=1)
    users, corrupt = _trust(n, honest, corrupt_shufflers, shuffler)
    hiding = max(0, total - int(clear_share) - corrupt)
    count = proved(
        (users, n), q, hiding, analysis=analysis, shuffler=shuffler, clear_share=clear_share
    )
    return count.sent(corrupt, total)


def _trust(n: int, honest: object, corrupt_shufflers: object, shuffler: str) -> tuple[int, int]:
    if honest is not None:
        integer("honest", honest, low=1, high=n)
    return checked_trust(n, honest, corrupt_shufflers, shuffler)


# Noise of fewer users than it was meant for
#
# Let r = h / N < 1 and let D = A - B, with A and B independent Polya(r, alpha), be what h users add
# of noise that is discrete Laplace with N of them, alpha = e^-s. Then for shifts by at most p
#
#     D is exactly  ln(P[D = 0] / P[D = p])-differentially private,  with no delta.
#
# *Proof.* P[A = k] = (1 - alpha)^r c_k alpha^k with c_k = Gamma(k + r) / (Gamma(r) k!), which for
# r < 1 is the k-th moment of the law Beta(r, 1 - r). So P[A = k] is a mixture, with positive
# weights, of sequences z^k with 0 <= z <= alpha; and so is P[D = k] = sum_b P[B = b] P[A = b + k]
# for k >= 0, while P[D = -k] is the same. Write P[k]. It falls with |k|, and for k >= 0 it is
# log-convex (Cauchy-Schwarz). Let 1 <= j <= p and bound P[k] / P[k + j]; the other direction is its
# mirror image. For k >= 0 it is at most P[0] / P[j] <= P[0] / P[p] by log-convexity. For k < 0
# either |k + j| <= |k|, and it is at most 1, or 0 < k + j < p, and it is at most P[0] / P[p]. QED
#
# With J ~ Poisson(2 lambda r) signed jumps, each made by an independent and uniformly random one of
# the h users, the rest of the proof in `ikos.counts.hockey_stick` is as it was, for h users.
#
# Both probabilities are (1 - alpha)^(2r) times a series of f(a) = c_a c_(a+j) e^(-2sa - sj), j = 0
# or p. As a function of a real, f is log-convex (c is, for r < 1) and so convex: a block of w terms
# from a on is at least w f(a + (w-1)/2) and at most f(a) (w+1)/2 + f(a+w) (w-1)/2.


def short_noise_epsilon(rate: Fraction, shape: Fraction, sensitivity: int) -> float:
    """Return the epsilon of the noise that a part of the users add, without any delta.

    Parameters
    ----------
    rate : Fraction
        s: all users together add discrete Laplace noise, P[k] proportional to exp(-s |k|).
    shape : Fraction
        The part of them who did, in (0, 1].
    sensitivity : int
        How far a replacement moves the sum at most, p.

    Returns
    -------
    float
        The smallest epsilon, rounded up, within about 0.001; ``s p`` for a shape of 1.

    Examples
    --------
    Ninety and fifty per cent of the noise of epsilon = 1, at two precisions:

    >>> [round(short_noise_epsilon(Fraction(1, p), Fraction(part, 10), p), 2)
    ...  for part in (9, 5) for p in (1000, 10**6)]
    [1.19, 1.19, 3.06, 3.63]
    """
    if shape == 1:
        return float_up(exact(rate * sensitivity, UP))
    none = _series(rate, shape, 0, UP)
    apart = _series(rate, shape, sensitivity, DOWN)
    with rounding(UP):
        return float_up(gmpy2.log(none / apart) + exact(rate * sensitivity, UP))


_FINE = 32
"""Blocks are this much shorter than the scale on which terms change."""


def _series(rate: Fraction, shape: Fraction, shift: int, direction: int) -> mpfr:
    """Return the sum of c_a c_(a + shift) exp(-2 rate a), rounded in a direction."""
    up, scale = direction == UP, max(1, int(1 / rate))
    end = max(_FINE, 12 * scale)  # what is left is below e^-24 or so of the first term
    terms, a = [], 0
    while a < end:
        w = max(1, min(a, scale) // _FINE)
        at = [(mpq(a), w)] if w == 1 else [(mpq(2 * a + w - 1, 2), w)]
        if up and w > 1:
            at = [(mpq(a), mpq(w + 1, 2)), (mpq(a + w), mpq(w - 1, 2))]
        for x, weight in at:
            term = _term(x, rate, shape, shift, direction)
            with rounding(direction):
                terms.append(term * weight)
        a += w
    if up:  # the terms fall, so that the rest is below a geometric series
        with rounding(DOWN):
            ratio = -gmpy2.expm1(-2 * exact(rate, DOWN))
        with rounding(UP):
            terms.append(_term(mpq(a), rate, shape, shift, UP) / ratio)
    with rounding(direction):
        return gmpy2.fsum(terms)


def _term(a: mpq, rate: Fraction, shape: Fraction, shift: int, direction: int) -> mpfr:
    other = DOWN if direction == UP else UP
    with rounding(other):
        decay = 2 * exact(rate, other) * mpfr(a)
    first = _log_weight(a, shape, direction)
    second = _log_weight(a + shift, shape, direction) if shift else first
    with rounding(direction):
        return gmpy2.exp(first + second - decay)


@lru_cache(maxsize=1 << 12)
def _log_weight(x: mpq, shape: Fraction, direction: int) -> mpfr:
    """Return ln(Gamma(x + r) / (Gamma(r) Gamma(x + 1))), rounded in a direction.

    For an integer x <= 32 from the product; beyond from the value at 32, by two differences of
    ln Gamma at arguments where it rises.
    """
    r = mpq(shape)
    product = _weight(min(int(x), _FINE), r)
    if x <= _FINE:
        with rounding(direction):
            return gmpy2.log(mpfr(product))
    other = DOWN if direction == UP else UP
    digits = PRECISION + 2 * int(x).bit_length()
    with rounding(direction, digits):
        known = gmpy2.log(mpfr(product)) + gmpy2.lngamma(mpfr(x + r))
        known += gmpy2.lngamma(mpfr(_FINE + 1))
    with rounding(other, digits):
        less = gmpy2.lngamma(mpfr(_FINE + r)) + gmpy2.lngamma(mpfr(x + 1))
    with rounding(direction, digits):
        return known - less


@lru_cache(maxsize=1 << 10)
def _weight(k: int, r: mpq) -> mpq:
    return _weight(k - 1, r) * (r + k - 1) / k if k else mpq(1)


@dataclass(frozen=True)
class Remaining:
    """What a private sum still proves.

    Attributes
    ----------
    epsilon : float
        Rounded up.
    noise_epsilon : float
        The part of it that is the noise's own, rounded up: more than what it was meant to be where
        users who should add noise do not.
    users : int
        Honest users whom the proof counts, with their noise.
    count : MessageCount
        Messages, with the delta that is proved.
    """

    epsilon: float
    noise_epsilon: float
    users: int
    count: MessageCount

    @property
    def delta(self) -> float:
        """The proved delta, rounded up."""
        assert self.count.delta is not None
        return self.count.delta


def private_remaining(
    n: int,
    q: int,
    total: int,
    noise_epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    honest: int | None = None,
    noise_users: int | None = None,
    corrupt_shufflers: int = 0,
    analysis: str = "exact",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> Remaining:
    """Return what a private sum still proves when users or shufflers turn out not to be honest.

    For messages and noise that are fixed, as they are once a protocol runs.

    Parameters
    ----------
    n, q, precision, analysis, shuffler, clear_share
        As in `ikos.private_message_count`.
    total : int
        Messages of each user in all, a clear share included.
    noise_epsilon : float
        The noise of ``noise_users`` users is discrete Laplace of rate ``noise_epsilon /
        precision``. At most 10^6.
    delta : float
        The delta to be reached, in (0, 1).
    honest : int, optional
        How many users are honest and present, at least; ``n`` by default.
    noise_users : int, optional
        How many users' noise makes a whole discrete Laplace variable (``min_honest`` of the
        protocol); ``n`` by default.
    corrupt_shufflers : int
        How many of the parallel shufflers collude with the analyzer.

    Returns
    -------
    Remaining
        The smallest epsilon that is proved with this delta, whoever is honest, as long as there
        are as many.

    Raises
    ------
    ValueError
        If an argument is out of range, a single shuffler colludes, or no epsilon is proved; then
        the message says which delta could be reached.

    Notes
    -----
    With ``noise_users`` or more honest users it is the theorem for exactly that many: the adversary
    is given the others' messages. With fewer, the noise is short of discrete Laplace, but still
    private by itself, with a larger epsilon (`short_noise_epsilon`) that is exact; hiding is
    counted for the honest users alone, with as many jumps as they make.

    Examples
    --------
    >>> from ikos import private_message_count
    >>> count = private_message_count(10_000, 2**22, 1, 1e-8, 354)
    >>> def left(**who):
    ...     given = (10_000, 2**22, count.total, count.noise_epsilon, 1e-8, 354)
    ...     return round(private_remaining(*given, **who).epsilon, 3)
    >>> left(), left(honest=9_900), left(honest=9_000)
    (1.0, 1.017, 1.187)
    """
    n, q, analysis, shuffler, clear_share = setting(n, q, analysis, shuffler, clear_share)
    total, p = integer("total", total, low=1), integer("precision", precision, low=1)
    own = number("noise_epsilon", noise_epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    allowed = number("delta", delta, above=0, below=1)
    makers = n if noise_users is None else integer("noise_users", noise_users, low=1, high=n)
    present, corrupt = _trust(n, honest, corrupt_shufflers, shuffler)
    users = min(present, makers)
    shape, rate = Fraction(users, makers), own / p
    level = short_noise_epsilon(rate, shape, p)
    m = max(0, total - int(clear_share) - corrupt)
    count = proved(
        (users, users), q, m, analysis=analysis, shuffler=shuffler, clear_share=clear_share
    )
    if analysis != "exact":
        found = lemma_5_2(count, Fraction(level))
        assert found.delta is not None
        best = (mpfr(level), exact(Fraction(found.delta), UP))
        theorem = found.theorem
    else:
        best, theorem = (mpfr(level), mpfr(1)), hockey_stick.THEOREM
        whole = hockey_stick.Noise.discrete_laplace(users, rate)
        with rounding(UP):
            noise = hockey_stick.Noise(users, whole.mean * mpfr(mpq(shape)))
        for graph in share_graphs(m, shuffler, clear_share):
            moments = hockey_stick.divergences(q, graph, noise)
            relative, reached = hockey_stick.least_relative(moments, level, allowed)
            with rounding(UP):
                way = (level + 2 * gmpy2.log1p(relative), reached)
            best = min(best, way, key=lambda way: _preference(way, allowed))
    epsilon, reached = best
    if reached > allowed:
        least = f"at least {float_up(reached):.3g}" if reached < 1 else "as large as 1"
        raise ValueError(
            f"delta must be {least} for anything to be proved with {users} honest users who add "
            f"noise and {m} messages that hide, got {quote(delta)}"
        )
    left = replace(
        count,
        analysis=analysis,
        theorem=theorem,
        delta=float_up(reached),
        noise_epsilon=float_up(exact(own, UP)),
    )
    return Remaining(float_up(epsilon), level, users, left.sent(corrupt, total))


def _preference(way: tuple[mpfr, mpfr], delta: Fraction) -> tuple[bool, mpfr]:
    reached = bool(way[1] <= exact(delta, DOWN))
    return not reached, way[0] if reached else way[1]
