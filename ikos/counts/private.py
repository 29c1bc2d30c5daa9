"""How many messages are enough for the private sum, and the guarantee for a number of messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import attrgetter
from typing import Unpack

from ikos._validation import InvalidValue, choice, integer, number, quote
from ikos.counts.analyses import checked_scheme
from ikos.counts.partial_noise import short_noise_epsilon
from ikos.counts.secure import left_over
from ikos.counts.types import (
    MAX_MESSAGES,
    Budget,
    Choices,
    FixedNoise,
    MessageCount,
)
from ikos.numeric.rounding import UP, exact, float_up, rational
from ikos.numeric.search import halve
from ikos.results.sums import at_least

MAX_PRECISION = 1 << 100
MIN_EPSILON, MIN_DELTA = math.nextafter(1e-100, 0), math.nextafter(1e-300, 0)
MAX_EPSILON = 1e6
"""Limits of budgets: others are taken for mistakes, or overflow doubles."""

SMALLEST = Fraction(1, 1 << 5000)
"""A delta so small that the smallest possible one is returned."""

LEAST = 1e-100
"""Searches for an epsilon end here."""

RESERVES = Fraction(1, 100), Fraction(1, 50), Fraction(1, 25)
"""The reserves of "fewest": the least of them that takes no more messages than any other."""


def checked_reserves(reserve: object) -> tuple[Fraction, ...]:
    """Check and return the fractions of epsilon that hiding may take, the least first."""
    if isinstance(reserve, str):
        choice("reserve", reserve, ("fewest",))
        return RESERVES
    return (number("reserve", reserve, low=0, high=0.5),)


def checked_budget(
    epsilon: object, delta: object, reserve: object
) -> tuple[Fraction, Fraction, Fraction]:
    """Check and return a budget and the fraction of it that hiding may take."""
    return (
        number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON),
        number("delta", delta, above=0, low=MIN_DELTA, below=1),
        checked_reserves(reserve)[-1],
    )


def budget_of(epsilon: object, delta: object, reserve: object, precision: object) -> Budget:
    """Check and return the budget of a sum of single values."""
    parts = checked_budget(epsilon, delta, reserve)
    return Budget(*parts, integer("precision", precision, low=1, high=MAX_PRECISION))


def private_message_count(
    n: int,
    q: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
    reserve: float | Fraction | str = 0.01,
) -> MessageCount:
    """Return how many messages the private sum needs to be (epsilon, delta)-private.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, under replacement of one user's value; epsilon > 0, 0 < delta < 1.
    precision : int
        Steps of the encoding, {0..precision}. The published analyses do not depend on it.
    n, q, analysis, shuffler, clear_share, min_honest, corrupt_shufflers
        As in `message_count`; the guarantee counts the noise of ``min_honest`` users.
    reserve : float or "fewest"
        Largest fraction of epsilon, up to 1/2, that may be spent on imperfect hiding instead of
        noise. The count spends about what it needs; the published analyses spend none. "fewest" is
        1 %, or where that saves messages 2 or 4 %; the error grows by as much.

    Returns
    -------
    MessageCount
        The smallest count, with the delta that it proves (rounded up) and the epsilon that remains
        for the noise (``noise_epsilon``, rounded down): the noise must be discrete Laplace of rate
        ``noise_epsilon / precision``. "best" takes the fewest of "higher_moments"
        (docs/higher-moments.md) and "second_moment" (docs/message-counts.md), and of
        "direct_comparison" (docs/direct-comparison.md) where that is a message fewer; the others go
        through BBGN20, Lemma 5.2, with sigma >= log2((1 + e^epsilon) / delta).

    Examples
    --------
    >>> count = private_message_count(10**6, 2**31, 1.0, 1e-12, 1000)
    >>> count.total, count.noise_epsilon >= 0.99
    (4, True)
    >>> private_message_count(10**6, 2**31, 1.0, 1e-12, 1000, analysis="balle2020").total
    9
    >>> private_message_count(10**4, 2**21, 1.0, 1e-8, 100).total
    5
    >>> count = private_message_count(10**4, 2**21, 1.0, 1e-8, 100, reserve="fewest")
    >>> count.total, count.noise_epsilon >= 0.97
    (4, True)
    """
    choices: Choices = {"analysis": analysis, "shuffler": shuffler, "clear_share": clear_share}
    scheme = checked_scheme(n, q, min_honest, corrupt_shufflers, **choices)
    budget = budget_of(epsilon, delta, reserve, precision)
    counts = [
        scheme.least_private(replace(budget, reserve=part)) for part in checked_reserves(reserve)
    ]
    count = min(counts, key=attrgetter("total"))
    return count.with_corruption(scheme.trust.corrupt_shufflers)


def private_proved(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    reserve: float | Fraction = 0.01,
    dimension: int = 1,
    sensitivity: int | None = None,
    sums: int = 1,
    **choices: Unpack[Choices],
) -> MessageCount:
    """Return m shuffled messages with their proved privacy, if any.

    Parameters
    ----------
    n : int
        Users who share the noise.
    m : int
        Shuffled messages per user, at least 0.
    delta : float
        The target: "second_moment" spends only as much of epsilon on hiding as it takes to reach
        it. Where it is not reached, delta is the smallest that ``reserve`` allows.
    dimension : int
        Coordinates of a vector that is shared as one element of a group of order q, each encoded in
        {0..precision} and noisy at rate noise_epsilon / sensitivity.
    sensitivity : int, optional
        Bound on the shift of the sum by replacing one user, in l1 norm over all coordinates: ``sums
        * dimension * precision`` unless less is promised.
    sums : int
        Number of such sums, each with its own shufflers. ``delta`` and ``noise_epsilon`` are for
        all of them together, the counts and ``sigma`` for each.
    q, epsilon, precision, reserve, **choices
        As in `private_message_count`: ``analysis``, ``shuffler``, ``clear_share``.

    Returns
    -------
    MessageCount
        Its ``delta`` is 1.0 where nothing is proved.

    Examples
    --------
    >>> f"{private_proved(1000, 2**16, 6, 1, 1e-9, 32).delta:.1e}"
    '3.9e-13'
    """
    scheme = checked_scheme(n, q, **choices)
    budget = budget_of(epsilon, 0.5, reserve, precision)
    dimension, sums = integer("dimension", dimension, low=1), integer("sums", sums, low=1)
    budget = replace(
        budget,
        delta=number("delta", delta, above=0, below=1),  # any: may ask for the smallest
        sensitivity=promised(sensitivity, budget.sensitivity * dimension * sums),
        dimension=dimension,
        sums=sums,
    )
    return scheme.proved(integer("m", m, low=0, high=MAX_MESSAGES), budget)


def promised(sensitivity: object, most: int) -> int:
    """Check and return a promised sensitivity, by default the largest possible."""
    return integer("sensitivity", most if sensitivity is None else sensitivity, low=1, high=most)


def private_delta(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    precision: int,
    *,
    reserve: float | Fraction = 0.01,
    **choices: Unpack[Choices],
) -> float:
    """Return the smallest delta that is proved for a private sum with m shuffled messages.

    Parameters
    ----------
    m : int
        Shuffled messages per user; a clear share is not counted.
    n, q, epsilon, precision, reserve, **choices
        As in `ikos.private_message_count`: ``analysis``, ``shuffler``, ``clear_share``.

    Returns
    -------
    float
        Rounded up; 1.0 where nothing is proved. `private_proved` returns the epsilon that remains
        for the noise: "second_moment" may spend all of ``reserve``.

    Examples
    --------
    >>> f"{private_delta(10**6, 2**31, 5, 1, 1000):.1e}"
    '1.2e-39'
    """
    scheme = checked_scheme(n, q, **choices)
    budget = budget_of(epsilon, 0.5, reserve, precision)
    m = integer("m", m, low=1, high=MAX_MESSAGES)
    proof = scheme.analysis.privacy(scheme, m, replace(budget, delta=SMALLEST))
    return 1.0 if proof is None else proof.delta


def private_epsilon(
    n: int,
    q: int,
    m: int,
    delta: float | Fraction,
    precision: int,
    *,
    reserve: float | Fraction = 0.01,
    **choices: Unpack[Choices],
) -> float:
    """Return the smallest epsilon at which m shuffled messages are proved to reach delta.

    A smaller epsilon needs more noise, and more messages to hide it.

    Parameters
    ----------
    n, q, m, delta, precision, reserve, **choices
        As in `private_delta` and `ikos.private_message_count`.

    Returns
    -------
    float
        From 1e-100 to 1e6; `private_proved` proves (epsilon, delta). It is the smallest, to about
        12 digits, if every larger epsilon reaches delta as well.

    Raises
    ------
    ValueError
        If no epsilon reaches delta; the message names the delta that could be reached.

    Examples
    --------
    >>> round(private_epsilon(1000, 2**16, 5, 1e-6, 32, analysis="second_moment"), 4)
    0.1658
    """
    scheme = checked_scheme(n, q, **choices)
    budget = budget_of(1, delta, reserve, precision)
    m = integer("m", m, low=1, high=MAX_MESSAGES)

    def reached(epsilon: float) -> float:
        """Return the proved delta, or 0 where it is the one requested."""
        proof = scheme.analysis.privacy(scheme, m, replace(budget, epsilon=Fraction(epsilon)))
        if proof is None:
            return 1.0
        return 0.0 if proof.delta <= budget.delta else proof.delta

    high = _some_epsilon(reached, budget.delta)
    step = 2.0
    while reached(low := max(LEAST, high / step)) == 0:
        if low == LEAST:
            return low
        high, step = low, step * step

    def middle(high: float, low: float) -> float | None:
        return math.sqrt(low) * math.sqrt(high) if low * (1 + 1e-12) < high else None

    return halve(lambda epsilon: reached(epsilon) == 0, high, low, middle)


def _some_epsilon(reached: Callable[[float], float], delta: Fraction) -> float:
    """Return an epsilon at which delta is reached: a guess, or one near the smallest delta.

    As epsilon grows delta first falls, with less noise to hide, and then rises with e^epsilon, for
    this library's analyses up to 2^-sigma.
    """
    candidates = [2.0**k for k in sorted(range(-40, 20), key=abs)]
    for spacing in (1, 1 / 16, 1 / 256):
        tried: dict[float, float] = {}
        for epsilon in candidates:
            tried[epsilon] = reached(epsilon)
            if tried[epsilon] == 0:
                return epsilon
        best = min(tried, key=tried.__getitem__)
        if tried[best] >= 1:
            raise InvalidValue("m", "must be larger: no epsilon can be proved with this m")
        candidates = [best * 2.0 ** (spacing * i / 16) for i in range(-16, 17)]
    raise InvalidValue(
        "delta",
        f"must be at least {at_least(tried[best], 3)}, reached at epsilon = {best:.3g}, got "
        f"{quote(float(delta))}: no epsilon reaches it with this m",
    )


@dataclass(frozen=True)
class Remaining:
    """The remaining privacy of a private sum.

    Attributes
    ----------
    epsilon : float
        The whole epsilon, rounded up.
    noise_epsilon : float
        Epsilon of the noise alone, rounded up: larger than planned if some users do not add their
        noise.
    users : int
        Honest users, with their noise, for whom the proof holds.
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
    **choices: Unpack[Choices],
) -> Remaining:
    """Return the remaining privacy of a private sum if users or shufflers turn out dishonest.

    Parameters
    ----------
    n, q, total, precision, corrupt_shufflers, **choices
        As in `remaining` and `ikos.private_message_count`.
    noise_epsilon : float
        The noise of ``noise_users`` users is discrete Laplace of rate ``noise_epsilon /
        precision``. At most 10^6.
    delta : float
        The target, in (0, 1).
    honest : int, optional
        Least number of users who are honest and did not drop out; ``n`` by default.
    noise_users : int, optional
        Number of users whose noise adds up to a whole discrete Laplace variable (``min_honest`` of
        the protocol); ``n`` by default.

    Returns
    -------
    Remaining
        The smallest epsilon that is proved with this delta, whichever users are honest.

    Raises
    ------
    ValueError
        If no epsilon is proved; the message names the delta that could be reached.

    Notes
    -----
    With ``noise_users`` honest users or more, the theorem is applied to exactly ``noise_users``.
    With fewer, the noise is less than discrete Laplace, but still private, with a larger epsilon
    (`short_noise_epsilon`); hiding is counted for the honest users alone.

    Examples
    --------
    >>> from ikos import private_message_count
    >>> by = {"analysis": "second_moment"}
    >>> count = private_message_count(10_000, 2**22, 1, 1e-8, 354, **by)
    >>> def left(**who):
    ...     given = (10_000, 2**22, count.total, count.noise_epsilon, 1e-8, 354)
    ...     return round(private_remaining(*given, **who, **by).epsilon, 3)
    >>> left(), left(honest=9_900), left(honest=9_000)
    (1.0, 1.017, 1.187)
    """
    scheme, m = left_over(n, q, total, honest, corrupt_shufflers, choices)
    p = integer("precision", precision, low=1, high=MAX_PRECISION)
    noise_level = number("noise_epsilon", noise_epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    allowed = number("delta", delta, above=0, low=MIN_DELTA, below=1)
    makers = integer("noise_users", n if noise_users is None else noise_users, low=1, high=scheme.n)
    users = min(scheme.trust.min_honest, makers)
    shape, rate = Fraction(users, makers), noise_level / p
    level = short_noise_epsilon(rate, shape, p)
    noise = FixedNoise(users, level, rate, shape, p)
    proof = scheme.analysis.remaining_privacy(scheme, m, noise, allowed)
    if proof.delta > rational(allowed):
        name, reached = "total", ""
        if proof.delta < 1:
            name, least = "delta", at_least(float_up(proof.delta), 3)
            reached = f": {least} is proved, got {quote(float(allowed))}"
        raise InvalidValue(
            name,
            f"must be larger to be proved with {users} honest users who add noise "
            f"and {m} message{'s' * (m != 1)} that hide{reached}",
        )
    count = replace(
        scheme.proved(m),
        analysis=proof.analysis,
        theorem=proof.theorem,
        delta=float_up(proof.delta),
        noise_epsilon=float_up(exact(noise_level, UP)),
    ).with_corruption(scheme.trust.corrupt_shufflers, total)
    return Remaining(float_up(proof.epsilon), level, users, count)
