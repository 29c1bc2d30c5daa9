"""How many messages are enough for the secure sum, by each analysis.

All of them bound the worst-case statistical security of IKOS summation: the total variation
between the analyzer's views of any two inputs with the same sum. Levels are rounded down and
counts up, so that what is returned is what the theorem proves.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from ikos._validation import choice, flag, integer, number, quote
from ikos.counts import balle2020, ghazi2020, ishai2006, second_moment
from ikos.counts.types import SHUFFLERS, MessageCount, Users

__all__ = ["ANALYSES"]


class _Analysis(Protocol):
    """What a module of this package provides for one analysis; m counts shuffled messages."""

    THEOREM: str

    def refusal(self, n: int, m: int | None, *, shuffler: str, clear_share: bool) -> str | None: ...

    def level(self, users: Users, q: int, m: int, *, shuffler: str, clear_share: bool) -> float: ...

    def guess(self, n: int, q: int, sigma: float, *, shuffler: str, clear_share: bool) -> int: ...


_MODULES: dict[str, _Analysis] = {
    "second_moment": second_moment,
    "balle2020": balle2020,
    "ghazi2020": ghazi2020,
    "ishai2006": ishai2006,
}

ANALYSES = tuple(_MODULES)
"""Names of the analyses, the tightest first."""

BEST = "second_moment"
"""What ``analysis="best"`` stands for: of the analyses, the one that proves the most."""

MAX_SIGMA = 10**6
MAX_BITS = 10**7
MAX_USERS = 10**100
MAX_MESSAGES = 10**8
"""Levels, orders of groups (in bits), users and messages beyond these are slips.

No level within them asks for as many messages of two or more users.
"""


def checked_analysis(analysis: object) -> str:
    """Check and return the name of an analysis; "exact" is an older name of "best"."""
    name = choice("analysis", analysis, ("best", *ANALYSES, "exact"))
    return BEST if name in ("best", "exact") else name


def setting(
    n: object, q: object, analysis: object, shuffler: object, clear_share: object
) -> tuple[int, int, str, str, bool]:
    """Check and return what all counts depend on."""
    order = integer("q", q, low=2)
    if order.bit_length() > MAX_BITS:
        raise ValueError(f"q must be below 2**{MAX_BITS}, got one of {order.bit_length()} bits")
    return (
        integer("n", n, low=1, high=MAX_USERS),
        order,
        checked_analysis(analysis),
        choice("shuffler", shuffler, SHUFFLERS),
        flag("clear_share", clear_share),
    )


def checked_trust(
    n: int, min_honest: object, corrupt_shufflers: object, shuffler: str | None
) -> tuple[int, int]:
    """Check and return how many users are honest at least and how many shufflers are not.

    A ``shuffler`` of None leaves the choice open.
    """
    honest = n if min_honest is None else integer("min_honest", min_honest, low=1, high=n)
    corrupt = integer("corrupt_shufflers", corrupt_shufflers, low=0)
    if corrupt and shuffler == "single":
        raise ValueError(
            f"corrupt_shufflers must be 0 with a single shuffler, got {corrupt}: "
            "whoever controls it sees everything"
        )
    return honest, corrupt


def _check_range(users: Users) -> None:
    low, high = users
    if integer("n", high, low=1, high=MAX_USERS) < low:
        raise ValueError(f"users must be (fewest, most), got {quote(users)}")


def _check_covered(n: int, m: int | None, analysis: str, shuffler: str, clear_share: bool) -> None:
    """Refuse a setting that an analysis does not cover."""
    reason = _MODULES[analysis].refusal(n, m, shuffler=shuffler, clear_share=clear_share)
    if reason is None:
        return
    clear = "a clear share" if clear_share else "no clear share"
    way_out = "" if analysis == BEST else "; analysis='best' covers this setting"
    raise ValueError(
        f"analysis {analysis!r} does not cover n = {quote(n)} with {shuffler} shuffling and "
        f"{clear}: {reason}{way_out}"
    )


def _level(
    analysis: str, users: Users, q: int, m: int, shuffler: str, clear_share: bool
) -> float | None:
    """Return the level proved for every number of users between the two ends, None if refused."""
    module = _MODULES[analysis]
    if any(module.refusal(n, m, shuffler=shuffler, clear_share=clear_share) for n in users):
        return None
    return module.level(users, q, m, shuffler=shuffler, clear_share=clear_share)


def smallest(enough: Callable[[int], bool], guess: int) -> int:
    """Return the smallest m >= 1 that is enough, for a property that stays once it holds.

    Looked for from a guess outwards, in steps that double.
    """
    step = 1
    if enough(guess):
        high, low = guess, guess - 1
        while low >= 1 and enough(low):
            high, step = low, 2 * step
            low = max(0, high - step)
    else:
        low, high = guess, guess + 1
        while not enough(high):
            low, step = high, 2 * step
            high = low + step
            if low > MAX_MESSAGES:
                raise ValueError(f"no number of messages up to {MAX_MESSAGES} is proved enough")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


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
        Order of the group, at least 2. For a vector as one group of order ``q**d``, that.
    m : int
        Shuffled messages of each user; a clear share is not counted.
    analysis : {"best", "second_moment", "balle2020", "ghazi2020", "ishai2006"}
        Which bound. "best" is the best that is proved here, today "second_moment", which covers
        every setting.
    shuffler : {"parallel", "single"}
        m independent shufflers, or one for everything.
    clear_share : bool
        Whether each user sends one further share that bypasses the shufflers.

    Returns
    -------
    float
        sigma: the views of two inputs with the same sum are within total variation
        ``2**-sigma``. Rounded down; 0.0 where the formula proves nothing, infinite for n = 1. A
        lower bound on the security: the true total variation may be far smaller.

    Raises
    ------
    ValueError
        If an argument is out of range, or the analysis does not cover the setting.

    Examples
    --------
    >>> round(security_level(10**6, 2**64, 13), 2)
    88.09
    >>> round(security_level(10**6, 2**64, 14, analysis="balle2020"), 2)
    88.18
    """
    n, q, analysis, shuffler, clear_share = setting(n, q, analysis, shuffler, clear_share)
    m = integer("m", m, low=1, high=MAX_MESSAGES)
    _check_covered(n, m, analysis, shuffler, clear_share)
    return _MODULES[analysis].level((n, n), q, m, shuffler=shuffler, clear_share=clear_share)


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
    n : int
        Users.
    q : int
        Order of the group, at least 2.
    sigma : float
        Security in bits, positive and at most 10^6: total variation at most ``2**-sigma`` between
        the views of any two inputs with the same sum.
    analysis, shuffler, clear_share
        As in `security_level`.
    min_honest : int, optional
        How many users are honest and present at least; ``n`` by default. The level holds for every
        number of honest users from here to ``n``.
    corrupt_shufflers : int
        How many of the parallel shufflers may collude with the analyzer. As many messages are
        added; ``shuffled`` counts these, too.

    Returns
    -------
    MessageCount
        The smallest count for which the analysis proves ``sigma``, and the level that it proves.

    Raises
    ------
    ValueError
        If an argument is out of range, or the analysis does not cover the setting.

    Examples
    --------
    >>> message_count(10**6, 2**64, 80).total
    14
    >>> message_count(10**6, 2**64, 80, analysis="balle2020").total
    15
    >>> message_count(10**6, 2**64, 80, analysis="ghazi2020", shuffler="single",
    ...               clear_share=False).total
    765

    A tenth of the users may be missing or dishonest, and two of the shufflers:

    >>> message_count(10**6, 2**64, 80, min_honest=900_000, corrupt_shufflers=2).total
    16
    """
    n, q, analysis, shuffler, clear_share = setting(n, q, analysis, shuffler, clear_share)
    honest, corrupt = checked_trust(n, min_honest, corrupt_shufflers, shuffler)
    count = least(
        (honest, n), q, sigma, analysis=analysis, shuffler=shuffler, clear_share=clear_share
    )
    return count.with_corruption(corrupt)


def least(
    users: Users,
    q: int,
    sigma: float | Fraction,
    *,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> MessageCount:
    """Return `message_count` for every number of users from ``users[0]`` to ``users[1]``.

    Where any number of users in a range may turn out to be honest, the level must hold for each:
    ishai2006 proves less for more users, the others mostly for fewer.
    """
    n, q, analysis, shuffler, clear_share = setting(users[0], q, analysis, shuffler, clear_share)
    _check_range(users)
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    _check_covered(n, None, analysis, shuffler, clear_share)
    if wanted < 1 and analysis == "balle2020":
        raise ValueError(
            f"balle2020 needs sigma >= 1, got {quote(sigma)}; analysis='best' covers this range"
        )
    module = _MODULES[analysis]

    def enough(m: int) -> bool:
        found = _level(analysis, users, q, m, shuffler, clear_share)
        return found is not None and found >= wanted

    guess = max(
        module.guess(k, q, float(wanted), shuffler=shuffler, clear_share=clear_share) for k in users
    )
    m = smallest(enough, guess)
    return proved(users, q, m, analysis=analysis, shuffler=shuffler, clear_share=clear_share)


def proved(
    users: Users,
    q: int,
    m: int,
    *,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> MessageCount:
    """Return m shuffled messages with whatever is proved for them, if only nothing.

    Like `security_level`, for every number of users from ``users[0]`` to ``users[1]``, and for
    counts that are given rather than asked for: where the analysis does not cover the setting the
    result says ``sigma=0.0`` and ``analysis=None``.
    """
    _, q, analysis, shuffler, clear_share = setting(users[0], q, analysis, shuffler, clear_share)
    _check_range(users)
    m = integer("m", m, low=0, high=MAX_MESSAGES)
    found = _level(analysis, users, q, m, shuffler, clear_share)
    if not found:
        return MessageCount(m, int(clear_share), 0.0, None, "nothing is proved for this count")
    return MessageCount(m, int(clear_share), found, analysis, _MODULES[analysis].THEOREM)
