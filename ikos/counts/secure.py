"""How many messages are enough for the secure sum, and what given messages prove.

All analyses bound the worst-case statistical security of IKOS summation: the total variation
between the analyzer's views of any two inputs with the same sum. Levels are rounded down and
counts up, so that what is returned is what the theorem proves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from ikos._validation import flag, integer, number, quote
from ikos.counts.analyses import ANALYSES, BEST, TABLE, checked_analysis
from ikos.counts.search import first, smallest
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import (
    MAX_BITS,
    MAX_MESSAGES,
    MAX_SIGMA,
    MAX_USERS,
    Analysis,
    Budget,
    MessageCount,
    PrivacyProof,
    Users,
)
from ikos.trust import Trust

__all__ = [
    "ANALYSES",
    "BEST",
    "MAX_BITS",
    "MAX_MESSAGES",
    "MAX_SIGMA",
    "checked_analysis",
    "smallest",
]


@dataclass(frozen=True)
class Scheme:
    """Users, group, trust and analysis: all that what m messages prove depends on."""

    n: int
    q: int
    trust: Trust
    analysis: Analysis

    @classmethod
    def of(
        cls,
        n: object,
        q: object,
        analysis: object = "best",
        shuffler: str = "parallel",
        clear_share: bool = True,
        min_honest: int | None = None,
        corrupt: int = 0,
    ) -> Scheme:
        """Check and return a scheme."""
        order = integer("q", q, low=2)
        if order.bit_length() > MAX_BITS:
            raise ValueError(f"q must be below 2**{MAX_BITS}, got one of {order.bit_length()} bits")
        users, name = integer("n", n, low=1, high=MAX_USERS), checked_analysis(analysis)
        trust = Trust.of(
            users,
            shuffler=shuffler,
            clear_share=flag("clear_share", clear_share),
            min_honest=min_honest,
            corrupt_shufflers=corrupt,
        )
        return cls(users, order, trust, TABLE[name])

    @classmethod
    def for_range(
        cls, users: Users, q: object, analysis: object, shuffler: str, clear_share: bool
    ) -> Scheme:
        """Return the scheme for every number of honest users in a range."""
        low, high = users
        if integer("n", high, low=1, high=MAX_USERS) < integer("n", low, low=1):
            raise ValueError(f"users must be (fewest, most), got {quote(users)}")
        return cls.of(high, q, analysis, shuffler, clear_share, low)

    def with_honest(self, honest: object) -> Scheme:
        """Return the scheme of which only ``honest`` users are honest, at least; all for None."""
        users = self.n if honest is None else integer("honest", honest, low=1, high=self.n)
        return replace(self, trust=replace(self.trust, min_honest=users))

    def hiding(self, total: object) -> int:
        """Return how many of all messages are shuffled, and not by a colluding shuffler."""
        return self.trust.hiding(integer("total", total, low=1, high=MAX_MESSAGES))

    @property
    def users(self) -> Users:
        """The fewest and the most honest users."""
        return self.trust.min_honest, self.n

    def refuse_uncovered(self, m: int | None = None) -> None:
        """Refuse a setting that the analysis does not cover."""
        n, trust, name = self.trust.min_honest, self.trust, self.analysis.name
        reason = self.analysis.refusal(n, m, trust)
        if reason is None:
            return
        clear = "a clear share" if trust.clear_share else "no clear share"
        way_out = "" if name == BEST else "; analysis='best' covers this setting"
        raise ValueError(
            f"analysis {name!r} does not cover n = {quote(n)} with {trust.shuffler} shuffling and "
            f"{clear}: {reason}{way_out}"
        )

    def level(self, m: int, sums: int = 1) -> float:
        """Return the level of m shuffled messages of each sum, and 0.0 where none is proved."""
        found = self.analysis.covered_level(self.users, self.q, m, self.trust)
        return self.analysis.of_sums(found, sums)

    def proved(self, m: int) -> MessageCount:
        """Return m shuffled messages with whatever is proved for them, if only nothing."""
        clear, found = int(self.trust.clear_share), self.level(m)
        if not found:
            return MessageCount(m, clear, 0.0, None, "nothing is proved for this count")
        return MessageCount(m, clear, found, self.analysis.name, self.analysis.theorem)

    def least(self, sigma: Fraction, sums: int = 1) -> MessageCount:
        """Return the fewest messages of each sum such that all together have this level."""
        self.refuse_uncovered()
        if sigma < self.analysis.min_sigma:
            raise ValueError(
                f"{self.analysis.name} needs sigma >= {self.analysis.min_sigma}, got "
                f"{quote(sigma)}; analysis='best' covers this range"
            )
        each = min(float(sigma) + math.log2(sums), MAX_SIGMA)
        guess = max(self.analysis.guess(n, self.q, each, self.trust) for n in self.users)
        return self.proved(smallest(lambda m: self.level(m, sums) >= sigma, guess))

    def private(self, m: int, budget: Budget) -> MessageCount:
        """Return m shuffled messages with the privacy that is proved for them, if only nothing.

        The delta for the fewest users is one for more as it is: the others' messages may be given
        to the adversary. ``sigma``, of inputs that may differ everywhere, is for every number.
        """
        count = self.proved(m)
        found = self.privacy(m, budget)
        if found is None:
            return replace(count, delta=1.0, noise_epsilon=budget.whole)
        return replace(
            count,
            analysis=self.analysis.name,
            theorem=found.theorem,
            delta=found.delta,
            noise_epsilon=found.noise_epsilon,
        )

    def privacy(self, m: int, budget: Budget) -> PrivacyProof | None:
        """Return the privacy of the fewest users' messages and noise, if any is proved."""
        return self.analysis.privacy(self.trust.min_honest, self.q, m, self.trust, budget)

    def least_private(self, budget: Budget) -> MessageCount:
        """Return the fewest messages of each sum that are proved to keep to a budget."""
        self.refuse_uncovered()

        def enough(m: int) -> bool:
            found = self.privacy(m, budget)
            return m >= 1 and found is not None and found.delta <= budget.delta

        guess = self.analysis.privacy_guess(self.trust.min_honest, self.q, self.trust, budget)
        return self.private(smallest(enough, guess), budget)


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

    Examples
    --------
    >>> round(security_level(10**6, 2**64, 13), 2)
    88.09
    >>> round(security_level(10**6, 2**64, 14, analysis="balle2020"), 2)
    88.18
    """
    scheme = Scheme.of(n, q, analysis, shuffler, clear_share)
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
        How many users are honest and present at least; ``n`` by default. The level holds for every
        number of honest users from here to ``n``.
    corrupt_shufflers : int
        How many of the parallel shufflers may collude with the analyzer. As many messages are
        added; ``shuffled`` counts these, too.

    Returns
    -------
    MessageCount
        The smallest count for which the analysis proves ``sigma``, and the level that it proves.

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
    scheme = Scheme.of(n, q, analysis, shuffler, clear_share, min_honest, corrupt_shufflers)
    count = scheme.least(number("sigma", sigma, above=0, high=MAX_SIGMA))
    return count.with_corruption(scheme.trust.corrupt_shufflers)


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
    scheme = Scheme.for_range(users, q, analysis, shuffler, clear_share)
    return scheme.least(number("sigma", sigma, above=0, high=MAX_SIGMA))


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
    counts that are given: where the analysis does not cover the setting the result says
    ``sigma=0.0`` and ``analysis=None``.
    """
    scheme = Scheme.for_range(users, q, analysis, shuffler, clear_share)
    return scheme.proved(integer("m", m, low=0, high=MAX_MESSAGES))


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
    total : int
        Messages of each user in all, a clear share included.
    honest : int, optional
        The level holds for every number of honest users from this to ``n``; ``n`` by default.
    corrupt_shufflers : int
        How many of the parallel shufflers collude with the analyzer. Their messages are as good as
        clear, and the others hide by themselves.
    n, q, analysis, shuffler, clear_share
        As in `ikos.security_level`.

    Returns
    -------
    MessageCount
        With the level that is left as ``sigma``; 0.0 where nothing is proved.

    Examples
    --------
    >>> count = message_count(1000, 2**64, 80)
    >>> round(remaining(1000, 2**64, count.total).sigma, 2)
    83.11
    >>> round(remaining(1000, 2**64, count.total, honest=500, corrupt_shufflers=2).sigma, 2)
    62.64
    """
    whole = Scheme.of(n, q, analysis, shuffler, clear_share, None, corrupt_shufflers)
    scheme = whole.with_honest(honest)
    return scheme.proved(scheme.hiding(total)).with_corruption(
        scheme.trust.corrupt_shufflers, total
    )


def smallest_users(
    q: int,
    sigma: float | Fraction,
    m: int,
    *,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> int:
    """Return the smallest n such that m shuffled messages are enough for n users and for any more.

    Parameters
    ----------
    q, m, analysis, shuffler, clear_share
        As in `ikos.security_level`.
    sigma : float
        Security in bits.

    Returns
    -------
    int
        `security_level` proves sigma for every number of users from here on to 10^100, and not
        for one less. For "second_moment" beyond 1024 users by one bound that falls as n grows.

    Raises
    ------
    ValueError
        If there is none: one message that hides does not hide better among more users, and what
        ishai2006 proves falls with n.

    Examples
    --------
    >>> smallest_users(2**64, 80, 24)
    830
    >>> smallest_users(2**64, 80, 23, shuffler="single", clear_share=False)
    593
    """
    scheme = Scheme.of(MAX_USERS, q, analysis, shuffler, clear_share)
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    m = integer("m", m, low=1)
    if scheme.analysis.name == "ishai2006":
        raise ValueError(
            "analysis 'ishai2006' proves less for more users, and so no level for every number of "
            f"users from some n on, got sigma = {quote(sigma)}; analysis='best' does"
        )
    if scheme.analysis.name == BEST and ShareGraph(m, shuffler, clear_share).hiding < 2:
        raise ValueError(
            f"m must be at least {2 if clear_share else 3} for more users to hide better, got {m}"
        )

    def enough(low: int, high: int = MAX_USERS) -> bool:
        trust = replace(scheme.trust, min_honest=low)
        return replace(scheme, n=high, trust=trust).level(m) >= wanted

    integer("m", m, high=MAX_MESSAGES)
    scheme.refuse_uncovered(m)
    if (most := scheme.level(m)) < wanted:
        raise ValueError(
            f"sigma must be at most {math.floor(most * 1e3) / 1e3} with m = {m}, which is proved "
            f"for 10^100 users, got {quote(sigma)}"
        )
    low, high = 1, 2
    while high < MAX_USERS and not enough(high):
        low, high = high, min(2 * high, MAX_USERS)
    # What holds from here on is bounded as a whole, and may be proved for one less by itself.
    n = first(enough, low, high)
    while n > 1 and enough(n - 1, n - 1):
        n -= 1
    return n
