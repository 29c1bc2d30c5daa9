"""How many messages are enough: one module for each analysis.

All of these bound the worst-case statistical security of IKOS summation: the total variation
between the analyzer's views of any two inputs with the same sum. Levels are rounded down and
counts up, so that what is returned is what the theorem proves.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import gmpy2

from ikos._validation import choice, flag, integer, number, quote
from ikos.counts import balle2020, ghazi2020, ishai2006
from ikos.counts.directed import DOWN, UP, exact, float_down, float_up, rounding
from ikos.counts.types import SHUFFLERS, MessageCount

__all__ = [
    "ANALYSES",
    "SHUFFLERS",
    "MessageCount",
    "least",
    "message_count",
    "private",
    "private_message_count",
    "proved",
    "security_level",
]


Users = tuple[int, int]
"""The fewest and the most honest users for whom a level must hold."""


class _Analysis(Protocol):
    """What a module of this package provides for one analysis; m counts shuffled messages."""

    THEOREM: str

    def refusal(self, n: int, m: int | None, *, shuffler: str, clear_share: bool) -> str | None: ...

    def level(self, n: int, q: int, m: int, *, clear_share: bool) -> float: ...

    def guess(self, n: int, q: int, sigma: float, *, clear_share: bool) -> int: ...


_MODULES: dict[str, _Analysis] = {
    "balle2020": balle2020,
    "ghazi2020": ghazi2020,
    "ishai2006": ishai2006,
}

ANALYSES = ("published", *_MODULES)
"""Names of the analyses; "published" is the better of balle2020 and ishai2006 where both apply.

It leaves out ghazi2020, whose constants are not derived here and whose proof is for prime q; it
never needs fewer messages than balle2020.
"""

MAX_SIGMA = 1e12
"""Levels up to here are counted; the arithmetic carries far more."""

MIN_EPSILON, MAX_EPSILON = 1e-100, 1e6
"""Budgets within these are counted: what lies outside is a slip, and overflows doubles."""


def _setting(
    n: object, q: object, analysis: object, shuffler: object, clear_share: object
) -> tuple[int, int, str, str, bool]:
    return (
        integer("n", n, low=1),
        integer("q", q, low=2),
        choice("analysis", analysis, ANALYSES),
        choice("shuffler", shuffler, SHUFFLERS),
        flag("clear_share", clear_share),
    )


def _names(analysis: str) -> list[str]:
    return ["balle2020", "ishai2006"] if analysis == "published" else [analysis]


def _covering(
    n: int, m: int | None, analysis: str, shuffler: str, clear_share: bool
) -> dict[str, _Analysis]:
    """Return the analyses of that name that cover a setting, or raise for none."""
    names = _names(analysis)
    refusals = {
        name: _MODULES[name].refusal(n, m, shuffler=shuffler, clear_share=clear_share)
        for name in names
    }
    covering = {name: _MODULES[name] for name, refused in refusals.items() if refused is None}
    if covering:
        return covering
    reasons = "; ".join(text for text in refusals.values() if text)
    clear = "a clear share" if clear_share else "no clear share"
    raise ValueError(
        f"analysis {analysis!r} does not cover n = {quote(n)} with {shuffler} shuffling and "
        f"{clear}: {reasons}{_way_out(n, analysis, shuffler, clear_share)}"
    )


def _way_out(n: int, analysis: str, shuffler: str, clear_share: bool) -> str:
    """Return what would be covered: another analysis, or another setting."""

    def covers(name: str, shuffler: str, clear_share: bool) -> bool:
        module = _MODULES[name]
        return module.refusal(n, None, shuffler=shuffler, clear_share=clear_share) is None

    for name in _names("published"):
        if name != analysis and analysis != "published" and covers(name, shuffler, clear_share):
            return f"; analysis={name!r} covers this setting"
    for name in _names("published"):
        if covers(name, "single", False):
            return f'; analysis={name!r} covers n with shuffler="single", clear_share=False'
    return "; nothing is proved for a single user"


def _level(
    module: _Analysis, users: Users, q: int, m: int, shuffler: str, clear_share: bool
) -> float | None:
    """Return the level proved for every number of users between the two ends, None if refused.

    Each analysis moves one way in the number of users, so the worse end bounds what lies between.
    """
    if any(module.refusal(n, m, shuffler=shuffler, clear_share=clear_share) for n in users):
        return None
    return min(module.level(n, q, m, clear_share=clear_share) for n in users)


def _smallest(
    module: _Analysis, users: Users, q: int, sigma: Fraction, shuffler: str, clear_share: bool
) -> int:
    """Return the smallest count whose proved level reaches sigma; levels rise with m."""

    def enough(m: int) -> bool:
        level = _level(module, users, q, m, shuffler, clear_share)
        return level is not None and Fraction(level) >= sigma

    m = max(module.guess(n, q, float(sigma), clear_share=clear_share) for n in users)
    while not enough(m):
        m += 1
    while enough(m - 1):
        m -= 1
    return m


def security_level(
    n: int,
    q: int,
    m: int,
    *,
    analysis: str = "published",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> float:
    """Return the proved security, in bits, of m shuffled messages per user.

    Parameters
    ----------
    n : int
        Users.
    q : int
        Order of the group, at least 2.
    m : int
        Shuffled messages of each user; a clear share is not counted.
    analysis : {"published", "balle2020", "ghazi2020", "ishai2006"}
        Whose theorem; by default the better of balle2020 and ishai2006 where both cover the
        setting.
    shuffler : {"parallel", "single"}
        m independent shufflers, or one for everything.
    clear_share : bool
        Whether each user sends one further share that bypasses the shufflers.

    Returns
    -------
    float
        sigma: the views of two inputs with the same sum are within total variation
        ``2**-sigma``. Rounded down; 0.0 where the formula proves nothing.

    Raises
    ------
    ValueError
        If an argument is out of range, or no theorem of that name covers the setting.

    Examples
    --------
    >>> round(security_level(10**6, 2**64, 14), 2)
    88.18
    """
    n, q, analysis, shuffler, clear_share = _setting(n, q, analysis, shuffler, clear_share)
    m = integer("m", m, low=1)
    covering = _covering(n, m, analysis, shuffler, clear_share)
    return max(module.level(n, q, m, clear_share=clear_share) for module in covering.values())


def message_count(
    n: int,
    q: int,
    sigma: float | Fraction,
    *,
    analysis: str = "published",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> MessageCount:
    """Return how many messages each user must send for sigma bits of security.

    Parameters
    ----------
    n : int
        Users.
    q : int
        Order of the group, at least 2.
    sigma : float
        Security in bits, positive and at most 1e12: total variation at most ``2**-sigma`` between
        the views of any two inputs with the same sum.
    analysis, shuffler, clear_share
        As in `security_level`.

    Returns
    -------
    MessageCount
        The smallest count for which the analysis proves ``sigma``, and the level that it proves.

    Raises
    ------
    ValueError
        If an argument is out of range, or no theorem of that name covers the setting.

    Examples
    --------
    >>> message_count(10**6, 2**64, 80).total
    15
    >>> message_count(10**6, 2**64, 80, analysis="ghazi2020", shuffler="single",
    ...               clear_share=False).total
    765
    """
    n = integer("n", n, low=1)
    return least((n, n), q, sigma, analysis=analysis, shuffler=shuffler, clear_share=clear_share)


def least(
    users: Users,
    q: int,
    sigma: float | Fraction,
    *,
    analysis: str = "published",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> MessageCount:
    """Return `message_count` for every number of users from ``users[0]`` to ``users[1]``.

    Where any number of users in a range may turn out to be honest, the level must hold for each:
    ishai2006 proves less for more users, the others for fewer.
    """
    n, q, analysis, shuffler, clear_share = _setting(users[0], q, analysis, shuffler, clear_share)
    level = number("sigma", sigma, above=0, high=MAX_SIGMA)
    covering = _covering(n, None, analysis, shuffler, clear_share)
    if level < 1 and "balle2020" in covering:
        # Corollary 6.1 says nothing of levels below 1; the count for level 1 has at least that.
        if analysis == "balle2020":
            raise ValueError(f"balle2020 needs sigma >= 1, got {quote(sigma)}; ask for sigma = 1")
        level = Fraction(1)
    counts = {
        name: _smallest(module, users, q, level, shuffler, clear_share)
        for name, module in covering.items()
    }
    best = min(counts, key=lambda name: counts[name])
    return proved(users, q, counts[best], analysis=best, shuffler=shuffler, clear_share=clear_share)


def proved(
    users: Users,
    q: int,
    m: int,
    *,
    analysis: str = "published",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> MessageCount:
    """Return m shuffled messages with whatever is proved for them, if only nothing.

    Like `security_level`, for every number of users from ``users[0]`` to ``users[1]``, and for
    counts that are given rather than asked for: where no theorem covers the setting the result
    says ``sigma=0.0`` and ``analysis=None``.
    """
    _, q, analysis, shuffler, clear_share = _setting(users[0], q, analysis, shuffler, clear_share)
    levels = {
        name: _level(_MODULES[name], users, q, m, shuffler, clear_share) or 0.0
        for name in _names(analysis)
    }
    best = max(levels, key=lambda name: levels[name])
    if levels[best] == 0.0:
        return MessageCount(m, int(clear_share), 0.0, None, "nothing is proved for this count")
    return MessageCount(m, int(clear_share), levels[best], best, _MODULES[best].THEOREM)


def private(count: MessageCount, epsilon: Fraction) -> MessageCount:
    """Return a count with the delta that its sigma buys by BBGN20, Lemma 5.2.

    The private sum is (epsilon, (1 + e^epsilon) 2^-sigma)-differentially private; all of epsilon
    goes to the noise. The delta is rounded up, and is 1.0 where nothing is proved.
    """
    delta = 1.0
    theorem = count.theorem
    if count.analysis is not None:
        with rounding(UP):
            delta = min(
                1.0,
                float_up(
                    (1 + gmpy2.exp(exact(epsilon, UP)))
                    * gmpy2.exp2(-exact(Fraction(count.sigma), DOWN))
                ),
            )
        theorem = f"BBGN20, Lemma 5.2, with {count.theorem}"
    with rounding(DOWN):
        noise_epsilon = float_down(exact(epsilon, DOWN))
    return MessageCount(
        count.shuffled, count.clear, count.sigma, count.analysis, theorem, delta, noise_epsilon
    )


def private_message_count(
    n: int,
    q: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    analysis: str = "published",
    shuffler: str = "parallel",
    clear_share: bool = True,
    min_honest: int | None = None,
) -> MessageCount:
    """Return how many messages the private sum needs to be (epsilon, delta)-private.

    Parameters
    ----------
    n : int
        Users.
    q : int
        Order of the group.
    epsilon, delta : float
        The guarantee, under replacement of one user's value; epsilon > 0, 0 < delta < 1.
    precision : int
        Steps of the encoding, {0..precision}. The published analyses do not depend on it.
    analysis, shuffler, clear_share
        As in `security_level`.
    min_honest : int, optional
        Count for this many users in place of ``n``.

    Returns
    -------
    MessageCount
        The smallest count with sigma >= log2((1 + e^epsilon) / delta), which is enough by
        BBGN20, Lemma 5.2, with the delta that it proves, rounded up.

    Raises
    ------
    ValueError
        If an argument is out of range, or no theorem of that name covers the setting.

    Examples
    --------
    >>> private_message_count(10**6, 2**31, 1.0, 1e-12, 1000).total
    9
    """
    n = integer("n", n, low=1)
    integer("precision", precision, low=1)
    users = n if min_honest is None else integer("min_honest", min_honest, low=1, high=n)
    budget = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    allowed = number("delta", delta, above=0, below=1)
    with rounding(UP):
        needed = gmpy2.log2((1 + gmpy2.exp(exact(budget, UP))) / exact(allowed, DOWN))
    sigma = float_up(needed)
    count = message_count(
        users, q, sigma, analysis=analysis, shuffler=shuffler, clear_share=clear_share
    )
    return private(count, budget)
