"""How many messages are enough for the secure sum, and the guarantee for a number of messages.

All analyses bound the worst-case statistical security of IKOS summation: the total variation
between the analyzer's views of any two inputs with the same sum. Levels are rounded down and counts
up: the theorem proves every result.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Unpack

from ikos._validation import MAX_COUNTED_USERS, InvalidValue, integer, number, quote
from ikos.counts.analyses import ANALYSES, BEST, checked_analysis, checked_scheme
from ikos.counts.types import (
    MAX_MESSAGES,
    MAX_SIGMA,
    Choices,
    MessageCount,
    Scheme,
)
from ikos.numeric.search import first, smallest

__all__ = ["ANALYSES", "BEST", "MAX_MESSAGES", "MAX_SIGMA", "checked_analysis", "smallest"]


def security_level(
    n: int,
    q: int,
    m: int,
    *,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> float:
    """Return the proved security, in bits, of m shuffled messages per user.

    Parameters
    ----------
    n : int
        Users.
    q : int
        Order of the group, at least 2: ``p**d`` for vectors of d elements of Z_p as one group.
    m : int
        Shuffled messages per user; a clear share is not counted.
    analysis : {"best", "second_moment", "balle2020", "ghazi2020", "ishai2006"}
        Bound on the security level; "best" is the tightest, currently "second_moment", which covers
        every setting.
    shuffler : {"parallel", "single"}
        m independent shufflers, or one for all messages.
    clear_share : bool
        Whether each user sends one more share that bypasses the shufflers.

    Returns
    -------
    float
        sigma: the views of two inputs with the same sum are within total variation
        ``2**-sigma``. A lower bound, rounded down; 0.0 where the formula proves nothing, infinite
        for n = 1.

    Raises
    ------
    ValueError
        If the analysis does not cover the setting.

    Examples
    --------
    >>> round(security_level(10**6, 2**64, 13), 2)
    88.09
    >>> round(security_level(10**6, 2**64, 14, analysis="balle2020"), 2)
    88.18
    """
    scheme = checked_scheme(n, q, analysis=analysis, shuffler=shuffler, clear_share=clear_share)
    m = integer("m", m, low=1, high=MAX_MESSAGES)
    scheme.refuse_uncovered(m)
    return scheme.level(m)


def message_count(
    n: int,
    q: int,
    sigma: float | Fraction,
    *,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
) -> MessageCount:
    """Return how many messages each user must send for sigma bits of security.

    Parameters
    ----------
    sigma : float
        Security in bits, positive and at most 10^6: total variation at most ``2**-sigma`` between
        the views of any two inputs with the same sum.
    n, q, analysis, shuffler, clear_share
        As in `security_level`.
    min_honest : int, optional
        Minimum number of users who are honest and do not drop out, by default all. The level holds
        for every number of honest users from this to ``n``.
    corrupt_shufflers : int
        How many of the parallel shufflers may collude with the analyzer. A message is added for
        each and counted in ``shuffled``.

    Returns
    -------
    MessageCount
        The smallest count for which the analysis proves ``sigma``, and the level that it proves.

    Examples
    --------
    >>> message_count(10**6, 2**64, 80).total
    14
    >>> message_count(10**6, 2**64, 80, analysis="ghazi2020", shuffler="single",
    ...               clear_share=False).total
    765

    A tenth of the users and two of the shufflers may be dishonest:

    >>> message_count(10**6, 2**64, 80, min_honest=900_000, corrupt_shufflers=2).total
    16
    """
    choices: Choices = {"analysis": analysis, "shuffler": shuffler, "clear_share": clear_share}
    scheme = checked_scheme(n, q, min_honest, corrupt_shufflers, **choices)
    count = scheme.least(number("sigma", sigma, above=0, high=MAX_SIGMA))
    return count.with_corruption(scheme.trust.corrupt_shufflers)


def remaining(
    n: int,
    q: int,
    total: int,
    *,
    honest: int | None = None,
    corrupt_shufflers: int = 0,
    **choices: Unpack[Choices],
) -> MessageCount:
    """Return the remaining security of a secure sum if users or shufflers turn out dishonest.

    Parameters
    ----------
    total : int
        Messages per user, a clear share included.
    honest : int, optional
        The level holds for every number of honest users from this to ``n``, its default.
    corrupt_shufflers : int
        How many of the parallel shufflers collude with the analyzer. Their messages hide nothing.
    n, q, **choices
        As in `ikos.security_level`: ``analysis``, ``shuffler``, ``clear_share``.

    Returns
    -------
    MessageCount
        With the remaining level as ``sigma``; 0.0 where nothing is proved.

    Examples
    --------
    >>> count = message_count(1000, 2**64, 80)
    >>> round(remaining(1000, 2**64, count.total, honest=500, corrupt_shufflers=2).sigma, 2)
    62.64
    """
    scheme, m = left_over(n, q, total, honest, corrupt_shufflers, choices)
    return scheme.proved(m).with_corruption(scheme.trust.corrupt_shufflers, total)


def left_over(
    n: object, q: object, total: object, honest: object, corrupt_shufflers: int, choices: Choices
) -> tuple[Scheme, int]:
    """Check and return the scheme of honest users, and the number of their messages that hide."""
    scheme = checked_scheme(n, q, None, corrupt_shufflers, **choices)
    if honest is not None:
        scheme = scheme.with_honest(integer("honest", honest, low=1, high=scheme.n))
    return scheme, scheme.trust.hiding(integer("total", total, low=1, high=MAX_MESSAGES))


def smallest_users(q: int, sigma: float | Fraction, m: int, **choices: Unpack[Choices]) -> int:
    """Return the smallest n such that m shuffled messages are enough for any n or more users.

    Parameters
    ----------
    sigma : float
        Security in bits.
    q, m, **choices
        As in `ikos.security_level`: ``analysis``, ``shuffler``, ``clear_share``.

    Returns
    -------
    int
        `security_level` proves sigma for every number of users from this one to 10^100, and not for
        one less. For "second_moment" beyond 1024 users by one bound that falls as n grows.

    Raises
    ------
    ValueError
        If there is none: one message that hides does not hide better among more users, and the
        level that "ishai2006" proves falls with n.

    Examples
    --------
    >>> smallest_users(2**64, 80, 24)
    830
    """
    scheme = checked_scheme(MAX_COUNTED_USERS, q, **choices)
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    m = integer("m", m, low=1, high=MAX_MESSAGES)
    if scheme.analysis.name == "ishai2006":
        raise InvalidValue(
            "analysis",
            "'ishai2006' proves less for more users, and so no level for every number of users "
            f"from some n on, got sigma = {quote(sigma)}",
            advice=[("analysis", "best", "does")],
        )
    if scheme.analysis.private and scheme.trust.share_graph(m).hiding < 2:
        least_m = 2 if scheme.trust.clear_share else 3
        raise InvalidValue(
            "m", f"must be at least {least_m} for more users to hide better, got {m}"
        )

    def enough(low: int, high: int = MAX_COUNTED_USERS) -> bool:
        return replace(scheme.with_honest(low), n=high).level(m) >= wanted

    scheme.refuse_uncovered(m)
    if (most := scheme.level(m)) < wanted:
        raise InvalidValue(
            "sigma",
            f"must be at most {math.floor(most * 1e3) / 1e3} with m = {m}, which is proved "
            f"for 10^100 users, got {quote(sigma)}",
        )
    low, high = 1, 2
    while high < MAX_COUNTED_USERS and not enough(high):
        low, high = high, min(2 * high, MAX_COUNTED_USERS)
    # the range is bounded as a whole: one fewer user may be enough when bounded alone
    n = first(enough, low, high)
    while n > 1 and enough(n - 1, n - 1):
        n -= 1
    return n
