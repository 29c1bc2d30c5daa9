"""What is left of a sum's guarantee when users or shufflers turn out not to be honest.

For messages and noise that are fixed, as they are once a protocol runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import gmpy2
from gmpy2 import mpfr

from ikos._validation import integer, number, quote
from ikos.counts import hockey_stick
from ikos.counts.partial_noise import short_noise_epsilon
from ikos.counts.private import (
    MAX_EPSILON,
    MAX_PRECISION,
    MIN_DELTA,
    MIN_EPSILON,
    lemma_5_2,
    share_graphs,
)
from ikos.counts.rounding import DOWN, UP, exact, float_up, rational, rounding
from ikos.counts.secure import MAX_MESSAGES, checked_trust, proved, setting
from ikos.counts.types import MessageCount
from ikos.results import at_least


def remaining(
    n: int,
    q: int,
    total: int,
    *,
    honest: int | None = None,
    corrupt_shufflers: int = 0,
    analysis: str = "best",
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
    total = integer("total", total, low=1, high=MAX_MESSAGES)
    users, corrupt = _trust(n, honest, corrupt_shufflers, shuffler)
    hiding = max(0, total - int(clear_share) - corrupt)
    count = proved(
        (users, n), q, hiding, analysis=analysis, shuffler=shuffler, clear_share=clear_share
    )
    return count.with_corruption(corrupt, total)


def _trust(n: int, honest: object, corrupt_shufflers: object, shuffler: str) -> tuple[int, int]:
    if honest is not None:
        integer("honest", honest, low=1, high=n)
    return checked_trust(n, honest, corrupt_shufflers, shuffler)


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
    analysis: str = "best",
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
    total = integer("total", total, low=1, high=MAX_MESSAGES)
    p = integer("precision", precision, low=1, high=MAX_PRECISION)
    own = number("noise_epsilon", noise_epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    allowed = number("delta", delta, above=0, low=MIN_DELTA, below=1)
    makers = n if noise_users is None else integer("noise_users", noise_users, low=1, high=n)
    present, corrupt = _trust(n, honest, corrupt_shufflers, shuffler)
    users = min(present, makers)
    shape, rate = Fraction(users, makers), own / p
    level = short_noise_epsilon(rate, shape, p)
    m = max(0, total - int(clear_share) - corrupt)
    count = proved(
        (users, users), q, m, analysis=analysis, shuffler=shuffler, clear_share=clear_share
    )
    if analysis != "second_moment":
        found = lemma_5_2(count, Fraction(level))
        assert found.delta is not None
        best = (mpfr(level), exact(Fraction(found.delta), UP))
        theorem = found.theorem
    else:
        best, theorem = (mpfr(level), mpfr(1)), hockey_stick.THEOREM
        whole = hockey_stick.Noise.discrete_laplace(users, rate)
        with rounding(UP):
            noise = hockey_stick.Noise(users, whole.mean * mpfr(rational(shape)))
        for graph in share_graphs(m, shuffler, clear_share):
            moments = hockey_stick.divergences(q, graph, noise)
            relative, reached = hockey_stick.least_relative(moments, level, allowed)
            with rounding(UP):
                way = (level + 2 * gmpy2.log1p(relative), reached)
            best = min(best, way, key=lambda way: _preference(way, allowed))
    epsilon, reached = best
    if reached > rational(allowed):
        if reached >= 1:
            raise ValueError(
                f"total must be larger for anything to be proved with {users} honest users who "
                f"add noise: {m} messages of {total} hide"
            )
        limit = at_least(float_up(reached), 3)
        raise ValueError(
            f"delta must be at least {limit} for anything to be proved with "
            f"{users} honest users who add noise and {m} messages that hide, got {quote(delta)}"
        )
    left = replace(
        proved((present, n), q, m, analysis=analysis, shuffler=shuffler, clear_share=clear_share),
        analysis=analysis,
        theorem=theorem,
        delta=float_up(reached),
        noise_epsilon=float_up(exact(own, UP)),
    )
    return Remaining(float_up(epsilon), level, users, left.with_corruption(corrupt, total))


def _preference(way: tuple[mpfr, mpfr], delta: Fraction) -> tuple[bool, mpfr]:
    reached = bool(way[1] <= exact(delta, DOWN))
    return not reached, way[0] if reached else way[1]
