"""What given messages buy: deltas, epsilons, users.

The other way round than counting messages. Deltas and epsilons are rounded up and levels down;
what is called smallest is the smallest that the library proves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ikos._validation import integer, number, quote
from ikos.counts.private import MAX_PRECISION, checked_budget, private_proved
from ikos.counts.secure import MAX_SIGMA, MAX_USERS, proved, security_level, setting
from ikos.counts.share_graph import ShareGraph
from ikos.results import at_least

_TINY = Fraction(1, 1 << 5000)
LEAST = 1e-100
"""Searches for an epsilon end here."""


def private_delta(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    precision: int,
    *,
    analysis: str = "best",
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
        most m, and `private_proved` says what is left of epsilon for the noise then: for
        "second_moment" up to all of ``reserve`` is spent.

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
    analysis: str = "best",
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
    p = integer("precision", precision, low=1, high=MAX_PRECISION)

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
    while reached(low := max(LEAST, high / step)) == 0:
        if low == LEAST:
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
    if tried[best] >= 1:
        raise ValueError("m must be larger for anything to be proved, whatever epsilon is")
    raise ValueError(
        f"delta must be at least {at_least(tried[best], 3)}, reached at epsilon = {best:.3g}, got "
        f"{quote(float(delta))}: no epsilon reaches it with this m"
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
        `security_level` proves sigma for every number of users from here on to 10^100, and not
        for one less. For "second_moment" beyond 1024 users by one bound that falls as n grows.

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
            f"users from some n on, got sigma = {quote(sigma)}; analysis='best' does"
        )
    if analysis == "second_moment" and ShareGraph(m, shuffler, clear_share).hiding < 2:
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
        provable = math.floor(most * 1e3) / 1e3
        raise ValueError(
            f"sigma must be at most {provable} with m = {m}, which is proved for 10^100 users, got "
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
    while n > 1 and level(n - 1, n - 1) >= wanted:
        n -= 1
    return n
