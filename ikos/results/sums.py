"""What a run returns: estimates in the data's units, with guarantee, error and cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ikos._validation import flag, number
from ikos.primitives.randomness import RandomSource, SecureRandom
from ikos.results.error import SumError

__all__ = ["Cost", "Interval", "at_least", "at_most"]

ONE_REPORT = "for one report per user; every further release about the same users adds to it"
NOT = "NOT for this "  # begins a condition that is not met: the guarantee is for comparison only
_SEEDED = f"{NOT}run: drawn from a seed, it protects no one from those who know the seed"
_WIDE = Context(prec=700, Emin=-(10**5), Emax=10**5, traps=[InvalidOperation])
_LIKELY_WRAP = 1e-6  # a wrap-around probability that default parameters never reach


def present(least: int, n: int, *, adaptive: bool = False) -> str:
    """Return a condition on how many are present, if who is missing may be ``adaptive`` or not."""
    verb = "is" if least == 1 else "are"
    text = f"while at least {least:,} of {n:,} users {verb} honest and present"
    if adaptive or least == n:
        return text
    return f"{text}, and who is missing does not depend on shares or noise"


def unmet(conditions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the conditions that do not hold."""
    return tuple(said for said in conditions if said.startswith(NOT))


def at_least(value: float | Fraction, digits: int) -> str:
    """Return a number to this many significant digits, rounded up.

    The text is at least the value, when read as a double for a float, exactly for a fraction.

    Examples
    --------
    >>> at_least(1e-8, 3), at_least(1.0000001e-8, 3), at_least(Fraction(1e-8), 3)
    ('1e-08', '1.01e-08', '1.01e-08')
    """
    return _directed(value, digits, ROUND_CEILING)


def at_most(value: float | Fraction, digits: int) -> str:
    """Return a number to this many significant digits, rounded down; otherwise as `at_least`."""
    return _directed(value, digits, ROUND_FLOOR)


def _directed(value: float | Fraction, digits: int, rounding: str) -> str:
    if isinstance(value, float):
        text = f"{value:.{digits}g}"
        if float(text) == value or not math.isfinite(value):
            return text
    above, below = map(Decimal, value.as_integer_ratio())
    context = _WIDE.copy()
    context.prec, context.rounding = digits, rounding
    return f"{float(context.divide(above, below)):.{digits}g}"


def hundredths(value: float) -> Decimal:
    """Return a level to two decimals, rounded down."""
    exact = Decimal.from_float(value)
    return exact if math.isinf(value) else exact.quantize(Decimal("0.01"), ROUND_FLOOR, _WIDE)


def percent(confidence: float) -> str:
    """Return a confidence in per cent, rounded down."""
    return f"{at_most(100 * Fraction(repr(confidence)), 6)} %"


def figures(value: float, scale: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """Return a number to three significant digits of ``scale``, its uncertainty.

    Without a scale (0 or infinite), or if it is far smaller than the number, all digits of the
    double are kept.
    """
    short = f"{value:.10g}"
    double = short if float(short) == value else repr(float(value)).removesuffix(".0")
    if not (math.isfinite(value) and 0 < scale < math.inf):
        return double
    place = math.floor(math.log10(scale)) - 2
    step = Decimal((0, (1,), place if place > 15 else min(place, 0)))
    rounded = Decimal.from_float(value).quantize(step, rounding, _WIDE)
    text = f"{rounded if rounded else rounded.copy_abs():f}"
    if len(text) <= 18:
        return text
    # with an exponent, further digits are not those of the double
    return double if len(rounded.as_tuple().digits) > 17 else f"{rounded.normalize(_WIDE):e}"


class Interval(NamedTuple):
    """A closed interval; for vectors, an array of low and one of high ends.

    Printed with its ends rounded outwards, to a hundredth of its width, but integers as they are.

    Examples
    --------
    >>> print(Interval(0.123456, 0.234567), Interval(5.0, 7.0))
    [0.123, 0.235] [5, 7]
    """

    low: Any
    high: Any

    def __str__(self) -> str:
        if np.ndim(self.low):
            return f"[{self.low}, {self.high}]"
        low = figures(self.low, self._scale(), ROUND_FLOOR)
        return f"[{low}, {figures(self.high, self._scale(), ROUND_CEILING)}]"

    def _scale(self, *others: float) -> float:
        """Return the width; at least 100, which shows no decimals, if all numbers are integers."""
        whole = all(float(one).is_integer() for one in (*self, *others))
        return max(float(self.high - self.low), 100.0 if whole else 0.0)


def shown(estimate: float, interval: Interval) -> str:
    """Return an estimate and its 95 % interval, to the same number of digits."""
    return f"{figures(estimate, interval._scale(estimate))}  95 % interval {interval}"


class Printed:
    """A class that notebooks show as ``print`` does, not as a list of fields."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # set in each class, because the __repr__ of a dataclass would take precedence
        cls._repr_pretty_ = Printed._repr_pretty_  # type: ignore[method-assign]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002
        printer.text(str(self))


@dataclass(frozen=True)
class Guarantee(Printed):
    """A differential privacy guarantee, the theorem that proves it, and its conditions.

    A delta of 1 means that nothing is proved, and a condition that begins with "NOT for this" does
    not hold. Inputs are neighbours if they differ in one user's value; the number of users is
    public. A ``computational`` guarantee is against tests that cannot break what its conditions
    assume, up to the advantage of those that can.
    """

    epsilon: float
    delta: float
    theorem: str
    conditions: tuple[str, ...]
    adjacency: str = "replace-one"
    computational: bool = False

    @property
    def vacuous(self) -> bool:
        """Whether nothing is proved because there are too few messages."""
        return self.delta >= 1

    @property
    def proved(self) -> bool:
        """Whether something is proved, for this group and this run."""
        return not self.vacuous and not unmet(self.conditions)

    def of_run(self, rng: RandomSource) -> Guarantee:
        """Return the guarantee of a run, void unless its randomness is secure."""
        if isinstance(rng, SecureRandom):
            return self
        return replace(self, conditions=(_SEEDED, *self.conditions))

    @property
    def budget(self) -> str:
        """The guarantee in words."""
        if self.vacuous:
            return "no differential privacy is proved: too few messages"
        epsilon, delta = at_least(self.epsilon, 6), at_least(self.delta, 3)
        kind = "computational " * self.computational
        return f"({epsilon}, {delta})-{kind}differential privacy, {self.adjacency}"

    def __str__(self) -> str:
        if self.vacuous:
            return self.budget
        return "; ".join((f"{self.budget} ({self.theorem})", *unmet(self.conditions)))


def _counted(number: float, what: str) -> str:
    return f"{number:,.6g} {what}{'s' * (number != 1)}"


@dataclass(frozen=True)
class Cost(Printed):
    """What the users sent: integers where numbers are the same for all, and floats for means.

    Messages include the clear share; bits, such as ceil(log2 q), are before any encryption.
    """

    users: int
    messages_per_user: int | float
    bits_per_message: int | float

    @property
    def fixed(self) -> bool:
        """Whether every user sends as many messages, each of as many bits."""
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
    said = []
    if delta * users >= 1:
        said.append(
            f"delta = {float(delta):.3g} is not below 1/users = {1 / users:.3g}: it would allow "
            "publishing a random user's value; take it far smaller"
        )
    if epsilon > 10:
        said.append(f"epsilon = {float(epsilon):.6g} is very weak protection; 1 is customary")
    return said


def trust_warnings(corrupt_shufflers: int, shuffled: int) -> list[str]:
    """Return a warning if most shufflers may collude."""
    said = (
        f"corrupt_shufflers = {corrupt_shufflers:,}: that is most of the {shuffled:,} shufflers, "
        "and each costs a message"
    )
    return [said] * (2 * corrupt_shufflers > shuffled)


def footer(guarantee: Guarantee, cost: str, users: int) -> tuple[str, ...]:
    """Return the last lines of a printed result: guarantee, theorem, conditions and cost."""
    lines = [guarantee.budget]
    if not guarantee.vacuous:
        said = budget_warnings(guarantee.epsilon, guarantee.delta, users)
        lines += [*(f"beware: {one}" for one in said), f"by {guarantee.theorem}"]
    first, *rest = (*lines, *guarantee.conditions)
    return (f"guarantee {first}", *(f"          {line}" for line in rest), f"sent      {cost}")


@dataclass(frozen=True, eq=False)
class SumResult(Printed):
    """An estimate of a sum in the data's units, with its guarantee and its error.

    Attributes
    ----------
    estimate : float or (d,) ndarray of float
        The estimated sum over the users: a float if users hold numbers, an array otherwise. It is
        unbiased unless the sum wrapped around modulo q (``error.wrap_probability``), and not
        clipped: it may fall outside the possible range.
    users : int
        How many users took part.
    domain
        The set in which their values lie.
    guarantee : Guarantee
        What this release alone guarantees each user; every further release weakens it.
    cost, error
        What the users sent, and bounds on the error. All of these are public.
    """

    estimate: Any
    users: int
    domain: Any
    guarantee: Guarantee
    cost: Cost
    error: SumError = field(repr=False)

    def __eq__(self, other: object) -> bool:
        names = [one.name for one in fields(self)]
        return type(other) is type(self) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in names
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def lower(self) -> float:
        """The smallest value of a user or of one coordinate."""
        return float(self.domain.lower)

    @property
    def upper(self) -> float:
        """The largest value of a user or of one coordinate."""
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
            raise ValueError(f"confidence must be below 1 by a double, got {confidence!r}")
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

    def __str__(self) -> str:
        end = list(footer(self.guarantee, str(self.cost), self.users))
        if self.error.wrap_probability > _LIKELY_WRAP:
            chance = at_least(min(1.0, self.error.wrap_probability), 2)
            end.insert(0, f"beware    wrong if the sum wrapped around: a chance of up to {chance}")
        whole, each = self.standard_error, math.sqrt(self.error.coordinate.mean_square)
        if not np.ndim(self.estimate):
            lines = [
                f"sum       {shown(self.estimate, self.interval())}",
                f"mean      {shown(self.mean(), self.mean_interval())}",
                f"error     {at_least(whole, 4)} (sum, root mean square, at most)",
            ]
            return "\n".join((*lines, *end))
        scale = max(each, 100.0) if self.error.integers else each  # integers have no decimals
        some = ", ".join(figures(value, scale) for value in self.estimate[:4])
        more = ", ..." * (self.estimate.size > 4)
        lines = [
            f"sum       ({some}{more}), {self.estimate.size:,} coordinates",
            f"error     {at_least(whole, 4)} (Euclidean norm, root mean square, at most); "
            f"{at_least(each, 4)} at most for any one coordinate",
        ]
        return "\n".join((*lines, *end))
