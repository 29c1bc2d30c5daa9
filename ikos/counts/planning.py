"""What costs least: the shufflers, clear share and layout of a sum, and a private sum's parameters.

Settings that cost the same are taken in the order of ``SETTINGS``: first the one whose proof asks
least. The output of a single shuffler can be computed from that of parallel ones; and a count with
a clear share also holds if that share is shuffled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any, Unpack

from ikos._validation import InvalidValue, choice, flag, integer, number, quote
from ikos.counts.analyses import checked_scheme
from ikos.counts.private import checked_budget
from ikos.counts.trust import SHUFFLERS
from ikos.counts.types import Budget, MessageCount, Others, Scheme
from ikos.counts.vectors import COMPOSED, Layout, private_vector_layouts, vector_layouts
from ikos.numeric.distributions import NoiseLaw, standard_error
from ikos.numeric.search import first
from ikos.results.sums import at_least

SETTINGS = (("parallel", True), ("parallel", False), ("single", True), ("single", False))
"""Shuffler and clear share, in the order in which ties are resolved."""

MINIMIZE = ("messages", "bits")
"""What can be made small."""

MAX_PRECISION, MAX_USERS = 1 << 52, 1 << 53  # as for the private sum itself

_TRIED = 64
"""Precisions beyond the first that would do without wrap-around; then q is too small."""

EXTRA_VARIANCE = Fraction(1, 100)
"""By default, what rounding and wrap-around may add to the variance of the noise."""


@dataclass(frozen=True)
class Setting:
    """How to run a sum, chosen for what it costs; ``layout`` says what is sent and proved."""

    shuffler: str
    clear_share: bool
    layout: Layout

    @property
    def count(self) -> MessageCount:
        """Messages of each sum."""
        return self.layout.count

    @property
    def messages_per_user(self) -> int:
        """Messages that each user sends."""
        return self.layout.messages_per_user

    @property
    def bits_per_user(self) -> int:
        """Bits that each user sends, before any encryption."""
        return self.layout.bits_per_user

    def __str__(self) -> str:
        return f"{self.shuffler}, {_clear(self.clear_share)}, {self.layout}"


def _clear(share: bool) -> str:
    return "a clear share" if share else "no clear share"


def _schemes(
    n: object, q: object, shuffler: str | None, clear_share: bool | None, choices: Others
) -> list[Scheme]:
    """Return the settings that are covered, in the order of ``SETTINGS``; None leaves it free."""
    if shuffler is not None:
        choice("shuffler", shuffler, SHUFFLERS)
    if clear_share is not None:
        flag("clear_share", clear_share)
    found, last = [], None
    for kind, clear in SETTINGS:
        if shuffler not in (None, kind) or clear_share not in (None, clear):
            continue
        if kind == "single" and shuffler is None and choices.get("corrupt_shufflers"):
            continue
        scheme = checked_scheme(n, q, shuffler=kind, clear_share=clear, **choices)
        try:
            scheme.refuse_uncovered()
            found.append(scheme)
        except ValueError as refusal:
            last = refusal
    if last is not None and not found:
        raise last
    return found


def _least(
    ways: Callable[..., Sequence[Layout]], schemes: Sequence[Scheme], minimize: str, choices: Others
) -> Setting:
    """Return the first setting of those that cost least."""
    found = []
    for scheme in schemes:
        fixed = scheme.trust.shuffler, scheme.trust.clear_share
        layouts = ways(shuffler=fixed[0], clear_share=fixed[1], **choices)
        found += [Setting(*fixed, layout) for layout in layouts]

    def cost(setting: Setting) -> tuple[int, int]:
        both = setting.messages_per_user, setting.bits_per_user
        return both if minimize == "messages" else both[::-1]

    return min(found, key=cost)


def cheapest(
    n: int,
    q: int,
    sigma: float | Fraction,
    *,
    minimize: str = "messages",
    shuffler: str | None = None,
    clear_share: bool | None = None,
    dimension: int = 1,
    **choices: Unpack[Others],
) -> Setting:
    """Return the setting in which sigma bits of security cost each user least.

    Parameters
    ----------
    n, q, sigma, **choices
        As in `ikos.message_count`: ``analysis``, ``min_honest``, ``corrupt_shufflers`` (with any,
        a single shuffler is no choice).
    minimize : {"messages", "bits"}
        What each user sends least of; ties go to the less of the other, then to the first in
        ``SETTINGS``.
    shuffler, clear_share
        Fixed at a value, or free (None).
    dimension : int
        Coordinates; the layout is chosen as well. One group mostly takes fewer messages and
        separate sums fewer bits.

    Examples
    --------
    >>> print(cheapest(1000, 2**64, 80))
    single, a clear share, one group: 22 messages of 64 bits per user (1,408 bits)
    >>> print(cheapest(10**6, 2**32, 60, minimize="bits", dimension=50, clear_share=True))
    parallel, a clear share, separate sums: 500 messages of 32 bits per user (16,000 bits)
    """
    choice("minimize", minimize, MINIMIZE)
    schemes = _schemes(n, q, shuffler, clear_share, choices)
    return _least(partial(vector_layouts, n, q, sigma, dimension), schemes, minimize, choices)


def cheapest_private(
    n: int,
    q: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    minimize: str = "messages",
    shuffler: str | None = None,
    clear_share: bool | None = None,
    dimension: int = 1,
    sensitivity: int | None = None,
    reserve: float | Fraction = 0.01,
    **choices: Unpack[Others],
) -> Setting:
    """Return the setting in which (epsilon, delta)-differential privacy costs each user least.

    ``minimize``, ``shuffler``, ``clear_share`` and ``dimension`` are as in `cheapest`, the rest as
    in `private_vector_layouts`. With a ``sensitivity`` below that of all vectors, separate budgets
    for the coordinates are no choice: they need more noise.

    Examples
    --------
    >>> print(cheapest_private(1000, 2**16, 1, 1e-12, 32))
    parallel, a clear share, one group: 6 messages of 16 bits per user (96 bits), noise scale 32.03
    """
    choice("minimize", minimize, MINIMIZE)
    schemes = _schemes(n, q, shuffler, clear_share, choices)

    def ways(**how: Any) -> list[Layout]:
        found = private_vector_layouts(
            n, q, epsilon, delta, precision, dimension, sensitivity=sensitivity, reserve=reserve,
            **how,
        )  # fmt: skip
        full = sensitivity in (None, dimension * precision)
        return [layout for layout in found if full or layout.name != COMPOSED]

    return _least(ways, schemes, minimize, choices)


@dataclass(frozen=True)
class Parameters:
    """All arguments of `ikos.PrivateSum`, and what they give.

    ``count`` is what each user sends, with the delta proved; ``error`` a bound on the root mean
    squared error of the sum, in units of one user's range.
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
        """Bound on the mean squared error."""
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
    def keywords(self) -> dict[str, Any]:
        """The arguments of `ikos.PrivateSum`, by name."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        del given["count"], given["error"]
        return given | {"messages": self.count.total, "clear_share": self.clear_share}

    def __str__(self) -> str:
        return (
            f"precision {self.precision:,}, q = 2^{self.bits_per_message}, {self.shuffler} "
            f"shuffling, {_clear(self.clear_share)}, {_many(self.count.total, 'message')} of "
            f"{_many(self.bits_per_message, 'bit')} ({_many(self.bits_per_user, 'bit')} per user); "
            f"error {at_least(self.error, 6)}"
        )


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


@dataclass(frozen=True)
class _Accuracy:
    """When n users' sum is accurate enough.

    At a fixed noise_epsilon e and for u = 1/p, the mean squared error without wrap-around,
    (n/h) (2/e^2) y^2 / sinh(y)^2 + n u^2 / 4 with y = e u / 2, falls as p rises: the first term
    falls with u at most with slope n u / (3 h), the second rises with slope n u / 2.
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
        start = first(lambda p: self.error(noise_epsilon, p) <= self.target, low - 1, top)
        if q is None:
            return start
        tried = range(start, min(top, start + _TRIED) + 1)
        return next((p for p in tried if self.error(noise_epsilon, p, q) <= self.target), None)


def private_parameters(
    n: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    *,
    error: float | None = None,
    shuffler: str | None = None,
    clear_share: bool | None = None,
    reserve: float | Fraction = 0.01,
    **choices: Unpack[Others],
) -> Parameters:
    """Return the parameters of the private sum that cost each user the fewest bits.

    Parameters
    ----------
    n, epsilon, delta, reserve, **choices
        As for `ikos.PrivateSum`: ``analysis``, ``min_honest``, ``corrupt_shufflers``.
    error : float, optional
        Largest root mean squared error of the sum over n users, in units of one user's range, as
        `ikos.PrivateSum.mse` bounds it. By default that of 1 % more variance than the noise has at
        infinite precision, all of ``reserve`` spent on hiding: ``1.01 * 2 / ((1 - reserve)
        epsilon)^2``, times ``n / min_honest``.
    shuffler, clear_share
        Fixed at a value, or free (None).

    Returns
    -------
    chosen : Parameters
        For ``PrivateSum(**chosen.keywords)``: the best of all settings, numbers of messages,
        precisions up to 2^52, and powers of two q, if with more messages, a smaller q and a smaller
        precision no more of epsilon is spent on hiding, and privacy is not lost. Ties go to fewer
        messages, then to the first of ``SETTINGS``, then to the smallest precision.

    Examples
    --------
    >>> chosen = private_parameters(10_000, 1, 1e-8, shuffler="parallel")
    >>> print(chosen)  # doctest: +NORMALIZE_WHITESPACE
    precision 205, q = 2^21, parallel shuffling, a clear share, 5 messages of 21 bits (105 bits
    per user); error 1.43548
    """
    n = integer("n", n, low=1, high=MAX_USERS)
    schemes = _schemes(n, 2, shuffler, clear_share, choices)
    budget = Budget(*checked_budget(epsilon, delta, reserve), 1)
    honest, corrupt = schemes[0].trust.min_honest, schemes[0].trust.corrupt_shufflers
    if error is None:
        least = budget.epsilon * (1 - budget.reserve)
        target = math.sqrt((1 + EXTRA_VARIANCE) * 2 * Fraction(n, honest) / least**2)
    else:
        target = float(number("error", error, above=0, high=1e300))
    accuracy = _Accuracy(n, honest, target)
    possible = accuracy.error(budget.whole, MAX_PRECISION)
    if target < possible:
        raise InvalidValue(
            "error",
            f"must be at least {at_least(possible, 6)}, the error of the noise alone, "
            f"got {quote(error)}",
        )

    def precise(scheme: Scheme, m: int, p: int | None) -> Parameters | None:
        """Return the least precision from p on that is accurate and private with m messages."""
        while p is not None:
            asked = replace(budget, sensitivity=p)
            found = scheme.analysis.privacy(scheme, m, asked)
            if found is None or found.delta > budget.delta:
                return None
            reached = accuracy.error(found.noise_epsilon, p, scheme.q)
            if reached <= target:
                count = scheme.proved(m, asked).with_corruption(corrupt)
                return Parameters(
                    n, budget.epsilon, budget.delta, p, scheme.q, scheme.trust.shuffler, count,
                    reached, scheme.analysis.name, honest, corrupt, budget.reserve,
                )  # fmt: skip
            p = accuracy.first(found.noise_epsilon, p + 1, scheme.q)
        return None

    # the smallest precision that is accurate enough with all of epsilon for the noise
    floor = accuracy.first(budget.whole, 1)
    assert floor is not None
    bits = (n * floor).bit_length()  # of the smallest power of two above the sum
    start = replace(budget, sensitivity=floor)
    fewest = [
        (scheme, replace(scheme, q=1 << bits).least_private(start).shuffled) for scheme in schemes
    ]
    best: Parameters | None = None

    def worth(m: int, scheme: Scheme) -> bool:
        """Whether messages of this many bits cost no more than the best so far."""
        total = m + scheme.trust.clear_share + corrupt
        return best is None or total * bits <= best.bits_per_user

    while any(worth(m, scheme) for scheme, m in fewest):
        p = accuracy.first(budget.whole, floor, 1 << bits)
        for scheme, m in fewest if p else []:
            found = None
            while found is None and worth(m, scheme):
                found = precise(replace(scheme, q=1 << bits), m, p)
                m += 1
            if found is not None:
                best = min(best or found, found, key=lambda p: (p.bits_per_user, p.count.total))
        bits += 1
    assert best is not None
    return best
