"""Results of runs: estimates in the data's units, with guarantee, error and cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

import numpy as np

from ikos._validation import InvalidValue, flag, number
from ikos.results.conditions import Condition
from ikos.results.error import SumError
from ikos.results.guarantees import Guarantee
from ikos.results.intervals import Interval, shown
from ikos.results.report import cell
from ikos.results.tables import CONFIDENCE, EstimateTable, Tabular
from ikos.results.text import Printed, at_least, at_most, figures, grouped

__all__ = ["Cost", "Interval", "SumResult", "at_least", "at_most", "footer", "shown"]

_LIKELY_WRAP = 1e-6  # a wrap-around probability that default parameters never reach


def _counted(number: float, what: str) -> str:
    return f"{cell(number)} {what}{'s' * (number != 1)}"


@dataclass(frozen=True)
class Cost(Printed):
    """The cost of a sum: integers where numbers are the same for all users, and floats for means.

    Messages include the clear share; bits, such as ceil(log2 q), are before any encryption.
    """

    users: int
    messages_per_user: int | float
    bits_per_message: int | float

    @property
    def fixed(self) -> bool:
        """Whether all users send the same number of messages and bits."""
        return isinstance(self.messages_per_user, int) and isinstance(self.bits_per_message, int)

    @property
    def bits_per_user(self) -> int | float:
        """Bits that each user sent."""
        return self.messages_per_user * self.bits_per_message

    @property
    def messages(self) -> int | float:
        """Messages of all users together."""
        return self.users * self.messages_per_user

    def __str__(self) -> str:
        return (
            f"{_counted(self.messages_per_user, 'message')} of "
            f"{_counted(self.bits_per_message, 'bit')} per user "
            f"({_counted(math.ceil(self.bits_per_user / 8), 'byte')}); {self.messages:,.0f} in all"
        )


def budget_warnings(epsilon: float | Fraction, delta: float | Fraction, users: int) -> list[str]:
    """Return warnings for a budget that protects little.

    Publishing a random user's value in full is (0, 1/n)-private. An epsilon of 10 allows a
    likelihood ratio of 22,000.
    """
    warnings = []
    if delta * users >= 1:
        warnings.append(
            f"delta = {float(delta):.3g} is not below 1/users = {1 / users:.3g}: it would allow "
            "publishing a random user's value; choose a far smaller delta"
        )
    if epsilon > 10:
        warnings.append(f"epsilon = {float(epsilon):.6g} is very weak protection; 1 is customary")
    return warnings


def noise_warnings(domain: Any, users: int, error: float) -> list[str]:
    """Return a warning if noise exceeds the signal, for a root mean squared error of a sum.

    A guess without any data, the middle of the bounds for each user, is then nearer to the sum,
    whatever the data are.
    """
    farthest = users * domain.circumradius
    if error <= farthest:
        return []
    error_shown, farthest_shown = (grouped(at_least(one, 4)) for one in (error, farthest))
    return [
        f"noise exceeds the signal: the error of the sum is {error_shown}, and no sum is further "
        f"than {farthest_shown} from the middle of the bounds"
    ]


def trust_warnings(corrupt_shufflers: int, shuffled: int) -> list[str]:
    """Return a warning if most shufflers may collude."""
    warning = (
        f"corrupt_shufflers = {corrupt_shufflers:,}: that is most of the {shuffled:,} shufflers, "
        "and each costs a message"
    )
    return [warning] * (2 * corrupt_shufflers > shuffled)


def footer(guarantee: Guarantee, cost: str, users: int) -> tuple[str, ...]:
    """Return the last lines of a printed result: guarantee, theorem, conditions and cost."""
    lines = [guarantee.budget]
    if not guarantee.vacuous:
        warnings = budget_warnings(guarantee.epsilon, guarantee.delta, users)
        lines += [*(f"beware: {warning}" for warning in warnings), f"by {guarantee.theorem}"]
    first, *rest = (*lines, *map(str, guarantee.conditions))
    return (f"guarantee {first}", *(f"          {line}" for line in rest), f"sent      {cost}")


@dataclass(frozen=True, eq=False)
class SumResult(Tabular):
    """An estimate of a sum in the data's units, with its guarantee and its error.

    Its table has the quantities ``sum`` and ``mean``, and a row for each coordinate of a vector
    (`ikos.results.tables.Tabular`).

    Attributes
    ----------
    estimate : float or ndarray of float
        The estimated sum over the users: a float if users hold numbers, otherwise an array of the
        shape of their values. It is unbiased unless the sum wrapped around modulo q
        (``error.wrap_probability``), and not clipped: it may fall outside the possible range.
    users : int
        Number of users who took part.
    domain
        The set in which their values lie.
    guarantee : Guarantee
        The guarantee of this release alone; every further release about the users weakens it.
    cost, error
        Messages and bits that the users sent, and bounds on the error. All of these are public.
    refused : tuple of bytes
        Of verified sums, the ids of reports that were refused.
    soundness : tuple of Condition
        What is assumed of verified sums, apart from privacy, for a sum of valid values.
    certificate : ikos.verified.certificate.Certificate or None
        Of verified sums, what lets anyone check the estimate.
    """

    estimate: Any
    users: int
    domain: Any
    guarantee: Guarantee
    cost: Cost
    error: SumError
    refused: tuple[bytes, ...] = field(default=(), kw_only=True)
    soundness: tuple[Condition, ...] = field(default=(), kw_only=True)
    certificate: Any = field(default=None, repr=False, compare=False, kw_only=True)

    def __eq__(self, other: object) -> bool:
        names = [one.name for one in fields(self) if one.compare]
        return type(other) is type(self) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in names
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def _sum(self) -> SumResult:
        return self

    @property
    def lower(self) -> float:
        """The smallest possible value of a user or of one coordinate."""
        return float(self.domain.lower)

    @property
    def upper(self) -> float:
        """The largest possible value of a user or of one coordinate."""
        return float(self.domain.upper)

    @property
    def standard_error(self) -> float:
        """Bound on the root mean squared error of the sum, in Euclidean norm for vectors."""
        return math.sqrt(self.error.mean_square)

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return an interval for the true sum, for vectors one per coordinate.

        Each contains its true sum with probability at least ``confidence``, or ``simultaneous`` all
        do, by a union bound. They account for noise, rounding and wrap-around, are valid for every
        number of users, and have integer ends if values are integers.
        """
        miss = float(1 - number("confidence", confidence, above=0, below=1))
        if not miss:
            raise InvalidValue("confidence", f"is too close to 1 for a double, got {confidence!r}")
        if flag("simultaneous", simultaneous):
            miss /= np.size(self.estimate)
        reach = self.error.coordinate.half_width(miss)
        last = np.spacing(np.minimum(np.abs(self.estimate) + reach, 1e308))
        # rounding of the estimate and of its ends; integers below 2^53 are exact
        rounding = np.where((last <= 1) & self.error.integers, 0.0, 2 * last)
        low, high = self.estimate - reach - rounding, self.estimate + reach + rounding
        return Interval(low, high) if np.ndim(low) else Interval(float(low), float(high))

    def mean(self) -> Any:
        """Return the estimated mean over the users."""
        return self.estimate / self.users

    def mean_interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return `interval` for the mean."""
        low, high = self.interval(confidence, simultaneous=simultaneous)
        return Interval(low / self.users, high / self.users)

    def _table(self) -> EstimateTable:
        shape = np.shape(self.estimate)
        names = [f"axis {axis}" for axis in range(len(shape))]
        return EstimateTable(
            tuple(names) if len(shape) > 1 else ("coordinate",) * len(shape),
            np.ndindex(shape),
            {
                "sum": (self.estimate, self.interval(CONFIDENCE)),
                "mean": (self.mean(), self.mean_interval(CONFIDENCE)),
            },
        )

    def warnings(self) -> list[str]:
        """Return warnings of a budget that protects little, and of an estimate that may be wrong.

        The former only where anything is proved. An estimate is worth little if its error is larger
        than that of a guess without data, or if the sum may have wrapped around.
        """
        warnings = self._estimate_warnings()
        if not self.guarantee.vacuous:
            warnings += budget_warnings(self.guarantee.epsilon, self.guarantee.delta, self.users)
        return warnings

    def _estimate_warnings(self) -> list[str]:
        warnings = noise_warnings(self.domain, self.users, self.standard_error)
        if self.error.wrap_probability > _LIKELY_WRAP:
            chance = at_least(min(1.0, self.error.wrap_probability), 2)
            warnings.append(f"the sum wrapped around with probability up to {chance}")
        return warnings

    def _end(self) -> tuple[str, ...]:
        refused = f"{len(self.refused):,} more refused; " if self.refused else ""
        verified = (f"verified  {refused}{condition}" for condition in self.soundness)
        return (*verified, *footer(self.guarantee, str(self.cost), self.users))

    def __str__(self) -> str:
        end = list(self._end())
        end[:0] = (f"beware    {warning}" for warning in self._estimate_warnings())
        whole, each = self.standard_error, math.sqrt(self.error.coordinate.mean_square)
        if not np.ndim(self.estimate):
            lines = [
                f"sum       {shown(self.estimate, self.interval())}",
                f"mean      {shown(self.mean(), self.mean_interval())}",
                f"error     {grouped(at_least(whole, 4))} (sum, root mean square, at most)",
            ]
            return "\n".join((*lines, *end))
        scale = max(each, 100.0) if self.error.integers else each  # integers have no decimals
        some = ", ".join(figures(value, scale) for value in self.estimate.flat[:4])
        more = ", ..." * (self.estimate.size > 4)
        lines = [
            f"sum       ({some}{more}), {self.estimate.size:,} coordinates",
            f"error     {grouped(at_least(whole, 4))} (Euclidean norm, root mean square, at most); "
            f"{grouped(at_least(each, 4))} at most for any one coordinate",
        ]
        return "\n".join((*lines, *end))
