"""Precision, modulus, messages and setting of a private sum, chosen together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ikos._validation import integer, number, quote
from ikos.accuracy import NoiseLaw, smallest_modulus, standard_error
from ikos.counts.private import (
    MAX_EPSILON,
    MIN_EPSILON,
    checked_budget,
    private_message_count,
    private_proved,
)
from ikos.counts.rounding import DOWN, exact, float_down
from ikos.counts.search import allowed_settings
from ikos.counts.secure import checked_trust, setting
from ikos.counts.types import MessageCount
from ikos.results import at_least

MAX_PRECISION = 1 << 52
MAX_USERS = 1 << 53
"""Both as for the private sum itself."""

EXTRA_VARIANCE = Fraction(1, 100)
"""By default, what rounding and wrap-around may add to the variance of the noise."""


@dataclass(frozen=True)
class Modulus:
    """The orders that keep sums from wrapping around.

    Attributes
    ----------
    smallest : int
        The smallest of all.
    power_of_two : int
        The smallest power of two, of as many bits: sampling and reduction are free for it.
    """

    smallest: int
    power_of_two: int


def wrap_modulus(
    n: int,
    epsilon: float | Fraction,
    precision: int,
    *,
    failure: float = 2.0**-40,
    min_honest: int | None = None,
) -> Modulus:
    """Return the smallest orders q at which a private sum wraps around rarely enough.

    Parameters
    ----------
    n : int
        Users, at most 2^53.
    epsilon : float
        Of the noise, whose rate is ``epsilon / precision``.
    precision : int
        Steps of the encoding.
    failure : float
        Largest probability of a wrap-around, between 1e-300 and 1. It costs accuracy, never
        privacy: a sum that wraps is wrong.
    min_honest : int, optional
        How many users' noise makes one discrete Laplace variable; ``n`` by default.

    Returns
    -------
    Modulus
        By the bounds of ``ikos.accuracy.NoiseLaw.reach``, which hold whatever the values are.

    Examples
    --------
    >>> wrap_modulus(10_000, 1, 354)
    Modulus(smallest=3559630, power_of_two=4194304)
    """
    n = integer("n", n, low=1, high=MAX_USERS)
    budget = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    p = integer("precision", precision, low=1, high=MAX_PRECISION)
    allowed = float(number("failure", failure, low=1e-300, below=1))
    honest, _ = checked_trust(n, min_honest, 0, None)
    q = smallest_modulus(n, p, NoiseLaw(budget / p, Fraction(n, honest)), allowed)
    return Modulus(q, 1 << (q - 1).bit_length())


@dataclass(frozen=True)
class Parameters:
    """Everything that a private sum needs to be told.

    Attributes
    ----------
    n : int
        Users.
    epsilon, delta : Fraction
        The budget.
    precision, modulus : int
        Steps of the encoding and order of the group.
    shuffler : str
        The setting, with ``count.clear``.
    count : MessageCount
        Messages of each user, the delta proved, the epsilon left for the noise.
    error : float
        Bound on the root mean squared error of the sum, in units of one user's range.
    analysis : str
        Whose theorem.
    min_honest, corrupt_shufflers : int
        Who may be dishonest.
    reserve : Fraction
        Largest share of epsilon that is spent on hiding.
    """

    n: int
    epsilon: Fraction
    delta: Fraction
    precision: int
    modulus: int
    shuffler: str
    count: MessageCount
    error: float
    analysis: str
    min_honest: int
    corrupt_shufflers: int
    reserve: Fraction

    @property
    def mse(self) -> float:
        """Bound on the mean squared error of the sum, in squared units of one user's range."""
        return self.error**2

    @property
    def clear_share(self) -> bool:
        """Whether one share of each user bypasses the shufflers."""
        return bool(self.count.clear)

    @property
    def bits_per_message(self) -> int:
        """ceil(log2 q)."""
        return (self.modulus - 1).bit_length()

    @property
    def bits_per_user(self) -> int:
        """Bits that each user sends, before any encryption."""
        return self.count.total * self.bits_per_message

    @property
    def _cost(self) -> tuple[int, int]:
        return self.bits_per_user, self.count.total

    @property
    def keywords(self) -> dict[str, Any]:
        """The arguments of `ikos.PrivateSum`, by name."""
        return {
            "n": self.n,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "precision": self.precision,
            "modulus": self.modulus,
            "messages": self.count.total,
            "analysis": self.analysis,
            "shuffler": self.shuffler,
            "clear_share": self.clear_share,
            "min_honest": self.min_honest,
            "corrupt_shufflers": self.corrupt_shufflers,
            "reserve": self.reserve,
        }

    def __str__(self) -> str:
        clear = "a clear share" if self.clear_share else "no clear share"
        return (
            f"precision {self.precision:,}, q = 2^{self.bits_per_message}, {self.shuffler} "
            f"shuffling, {clear}, {_many(self.count.total, 'message')} of "
            f"{_many(self.bits_per_message, 'bit')} ({_many(self.bits_per_user, 'bit')} per user); "
            f"error {at_least(self.error, 6)}"
        )


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


@dataclass(frozen=True)
class _Accuracy:
    """When n users' sum is accurate enough.

    At a fixed noise_epsilon e, and for u = q/p with fixed q, the mean squared error is

        (n/h) (2/e^2) y^2 / sinh(y)^2 + n u^2 / (4 q^2) + u^2 P[wrap],    y = e u / (2q).

    Without wrap-around the error falls as p rises: the first term falls with u at most with slope
    n u / (3 h q^2), because y^2 / sinh(y)^2 does with slope 2y/3, and the second rises with slope
    n u / (2 q^2). Likewise their sum is convex in u. The third is so for u > 7/e and one
    discrete Laplace variable, P[wrap] = exp(-e (u - n)/2). So the error falls with p down to a
    least one and rises from there on, until a wrap-around is likely.
    """

    n: int
    honest: int
    target: float

    def error(self, noise_epsilon: float, p: int, q: int | None = None) -> float:
        """Return the bound of the error, without wrap-around if no q is given."""
        law = NoiseLaw(Fraction(noise_epsilon) / p, Fraction(self.n, self.honest))
        return standard_error(law, users=self.n, precision=p, modulus=q)

    def first(self, noise_epsilon: float, low: int, q: int | None = None) -> int | None:
        """Return the least precision from ``low`` on that is accurate enough, if there is one."""
        top = MAX_PRECISION if q is None else min(MAX_PRECISION, (q - 1) // self.n)
        if low > top or self.error(noise_epsilon, top) > self.target:
            return None
        start = _first(lambda p: self.error(noise_epsilon, p) <= self.target, low, top)
        if q is None or self.error(noise_epsilon, start, q) <= self.target:
            return start
        best = self._most_accurate(noise_epsilon, start, top, q)
        if self.error(noise_epsilon, best, q) > self.target:
            return None
        return _first(lambda p: self.error(noise_epsilon, p, q) <= self.target, start, best)

    def _most_accurate(self, noise_epsilon: float, low: int, high: int, q: int) -> int:
        def error(p: int) -> float:
            """Return the error, infinite where a wrap-around is not known to be unlikely."""
            law = NoiseLaw(Fraction(noise_epsilon) / p, Fraction(self.n, self.honest))
            sure = law.tail_bound(Fraction(q - self.n * p, 2)) >= 1
            return math.inf if sure else self.error(noise_epsilon, p, q)

        while high - low > 2:
            third = (high - low) // 3
            if error(low + third) <= error(high - third):
                high -= third
            else:
                low += third
        return min(range(low, high + 1), key=error)


def _first(enough: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first place from low to high that is enough, given that high is."""
    if enough(low):
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def private_parameters(
    n: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    *,
    error: float | None = None,
    analysis: str = "best",
    shuffler: str | None = None,
    clear_share: bool | None = None,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
    reserve: float | Fraction = 0.01,
) -> Parameters:
    """Return the parameters of the private sum that cost each user the fewest bits.

    Parameters
    ----------
    n, epsilon, delta, analysis, min_honest, corrupt_shufflers, reserve
        As for `ikos.PrivateSum`.
    error : float, optional
        Largest root mean squared error of the sum over n users, in units of one user's range:
        noise, randomized rounding and wrap-around together, as `ikos.PrivateSum.mse` bounds it. By
        default that of 1 % more variance than the noise has at infinite precision, all of
        ``reserve`` spent on hiding: ``1.01 * 2 / ((1 - reserve) epsilon)^2``, times ``n /
        min_honest``.
    shuffler, clear_share
        Fixed at a value, or free (None).

    Returns
    -------
    chosen : Parameters
        For ``PrivateSum(**chosen.keywords)``. Ties go to fewer messages, then in the order of
        ``ikos.counts.search.SETTINGS``; the precision is the smallest that is accurate enough.

    Raises
    ------
    ValueError
        If an argument is out of range, the analysis covers none of the settings left, or no
        parameters are as accurate as ``error``; the least error that can be had is named.

    Notes
    -----
    The search is complete over all settings, all numbers of messages, all precisions up to 2^52,
    and all q that are powers of two, by three monotonicities that it takes for granted: with more
    messages, a smaller q and a smaller precision no more of epsilon is spent on hiding, and
    privacy is not lost. Then, for q and messages, the smallest precision that would be
    accurate enough with all of epsilon for the noise is tried, and each that follows is the
    smallest for the noise_epsilon that was left at the one before, until it is accurate or
    there is none; and larger q need not be looked at once even the fewest messages cost more. It
    does not try other q: they save no bits unless a slightly smaller q saves a message.

    Examples
    --------
    >>> chosen = private_parameters(10_000, 1, 1e-8, shuffler="parallel")
    >>> print(chosen)  # doctest: +NORMALIZE_WHITESPACE
    precision 204, q = 2^21, parallel shuffling, a clear share, 6 messages of 21 bits (126 bits
    per user); error 1.43543
    """
    n = integer("n", n, low=1, high=MAX_USERS)
    budget, failure, spare = checked_budget(epsilon, delta, reserve)
    honest, corrupt = checked_trust(n, min_honest, corrupt_shufflers, shuffler)
    settings = allowed_settings(shuffler, clear_share, corrupt)
    _, _, analysis, *_ = setting(n, 2, analysis, *settings[0])
    whole = float_down(exact(budget, DOWN))
    if error is None:
        variance = (1 + EXTRA_VARIANCE) * 2 * Fraction(n, honest) / (budget * (1 - spare)) ** 2
        target = math.sqrt(variance)
    else:
        target = float(number("error", error, above=0, high=1e300))
    accuracy = _Accuracy(n, honest, target)
    least = accuracy.error(whole, MAX_PRECISION)
    if target < least:
        raise ValueError(
            f"error must be at least {at_least(least, 6)}, the error of the noise alone, "
            f"got {quote(error)}"
        )
    how: dict[str, Any] = {"analysis": analysis, "reserve": spare}

    def proved(m: int, p: int, q: int, way: dict[str, Any]) -> MessageCount:
        return private_proved(honest, q, m, budget, failure, p, most=n, **way, **how)

    def precise(
        m: int, p: int | None, q: int, way: dict[str, Any]
    ) -> tuple[int, MessageCount] | None:
        """Return the least precision from p on that is accurate and private with m messages."""
        while p is not None:
            found = proved(m, p, q, way)
            assert found.delta is not None
            assert found.noise_epsilon is not None
            if found.delta > failure:
                return None
            if accuracy.error(found.noise_epsilon, p, q) <= target:
                return p, found
            p = accuracy.first(found.noise_epsilon, p + 1, q)
        return None

    floor = accuracy.first(whole, 1)
    assert floor is not None
    bits = (n * floor).bit_length()  # of the smallest power of two that holds the sum
    candidates: list[tuple[dict[str, Any], int, int]] = []  # setting, shuffled, messages beside
    refusals: list[ValueError] = []
    for shuffling, clear in settings:
        way: dict[str, Any] = {"shuffler": shuffling, "clear_share": clear}
        try:
            fewest = private_message_count(
                honest, 1 << bits, budget, failure, floor, **way, **how
            ).shuffled
        except ValueError as refusal:  # arguments are in range: the analysis does not cover it
            refusals.append(refusal)
            continue
        candidates.append((way, fewest, int(clear) + corrupt))
    if not candidates:
        raise refusals[-1]

    best: Parameters | None = None
    while best is None or bits * min(m + more for _, m, more in candidates) <= best.bits_per_user:
        q = 1 << bits
        start = accuracy.first(whole, floor, q)
        for way, fewest, more in candidates if start else []:
            m = fewest
            while best is None or (m + more) * bits <= best.bits_per_user:
                found = precise(m, start, q, way)
                if found is None:
                    m += 1
                    continue
                p, count = found
                assert count.noise_epsilon is not None
                reached = accuracy.error(count.noise_epsilon, p, q)
                candidate = Parameters(
                    n,
                    budget,
                    failure,
                    p,
                    q,
                    way["shuffler"],
                    count.with_corruption(corrupt),
                    reached,
                    analysis,
                    honest,
                    corrupt,
                    spare,
                )
                if best is None or candidate._cost < best._cost:
                    best = candidate
                break
        bits += 1
    return best
