"""What a run returns: estimates in the data's units, what is guaranteed, what it cost."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from ikos._validation import number, round_down, round_up
from ikos.accuracy import NoiseLaw, standard_error
from ikos.randomness import RandomSource, SecureRandom

__all__ = ["Cost", "Estimate", "Interval", "at_least", "at_most"]

ONE_REPORT = "for one report per user; every further release about the same users adds to it"
"""A condition of every guarantee."""


def present(least: int, n: int, *, whoever: bool = False) -> str:
    """Return the condition that this many of n users are honest and present.

    Parameters
    ----------
    least, n : int
        How many, of how many.
    whoever : bool
        Whether these may be chosen by who has seen some of what they sent.

    Examples
    --------
    >>> present(900, 1000, whoever=True)
    'while at least 900 of 1,000 users are honest and present'
    """
    verb = "is" if least == 1 else "are"
    text = f"while at least {least:,} of {n:,} users {verb} honest and present"
    if whoever or least == n:
        return text
    return f"{text}, and who is missing does not depend on shares or noise"


NOT = "NOT for this "
"""How a condition begins that is not met: what follows is for comparison only."""

_SEEDED = f"{NOT}run: drawn from a seed, it protects no one from a person who knows it"


def at_least(value: float | Fraction, digits: int) -> str:
    """Return a number to this many significant digits, rounded up: what is printed must hold.

    The text is at least the value: of a float, if it is read as a double; of a fraction, as it is.

    Examples
    --------
    >>> at_least(1e-8, 3), at_least(1.0000001e-8, 3), at_least(Fraction(1e-8), 3)
    ('1e-08', '1.01e-08', '1.01e-08')
    """
    return _directed(value, digits, ROUND_CEILING)


def at_most(value: float | Fraction, digits: int) -> str:
    """Return a number to this many significant digits, rounded down: what is printed must hold.

    The text is at most the value, read as `at_least` is.
    """
    return _directed(value, digits, ROUND_FLOOR)


def _directed(value: float | Fraction, digits: int, rounding: str) -> str:
    if isinstance(value, float):
        text = f"{value:.{digits}g}"
        if float(text) == value or not math.isfinite(value):
            return text
    above, below = map(Decimal, value.as_integer_ratio())
    rounded = Context(prec=digits, rounding=rounding).divide(above, below)
    return f"{float(rounded):.{digits}g}"


def hundredths(value: float) -> Decimal:
    """Return a level to two decimals, rounded down: what is printed must hold.

    Examples
    --------
    >>> print(hundredths(80.129), hundredths(0.16999999999999998))
    80.12 0.16
    """
    if math.isinf(value):
        return Decimal(value)
    return Decimal(value).quantize(Decimal("0.01"), ROUND_FLOOR, _WIDE)


def percent(confidence: float) -> str:
    """Return a confidence in per cent, rounded down: 100 % is never said of less.

    Examples
    --------
    >>> percent(0.95), percent(0.29), percent(0.99999999)
    ('95 %', '29 %', '99.9999 %')
    """
    return f"{at_most(100 * Fraction(repr(confidence)), 6)} %"


class Printed:
    """What notebooks show as ``print`` does: in words, and not as a list of fields."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # in each class itself: a dataclass has a __repr__, which else would be nearer
        cls._repr_pretty_ = Printed._repr_pretty_  # type: ignore[method-assign]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002
        printer.text(str(self))


class Interval(NamedTuple):
    """A closed interval; printed with its ends rounded outwards, to a hundredth of its width.

    Read as doubles, the ends that are printed hold the interval, also if its width is 0. Integers
    have no decimals.

    Examples
    --------
    >>> print(Interval(0.123456, 0.234567), Interval(5.0, 7.0), Interval(1e9 / 3, 1e9 / 3))
    [0.123, 0.235] [5, 7] [333333333.3333333, 333333333.3333333]
    """

    low: float
    high: float

    def __str__(self) -> str:
        width = self.high - self.low
        if not 0 < width < math.inf:
            if self.low == self.high:
                return f"[{_double(self.low)}, {_double(self.high)}]"
            return f"[{at_most(self.low, 10)}, {at_least(self.high, 10)}]"
        step = _step(width)
        if self._whole:
            step = max(step, Decimal(1))
        low = Decimal(self.low).quantize(step, ROUND_FLOOR, _WIDE)
        high = Decimal(self.high).quantize(step, ROUND_CEILING, _WIDE)
        return f"[{_plain(low)}, {_plain(high)}]"

    @property
    def _whole(self) -> bool:
        return float(self.low).is_integer() and float(self.high).is_integer()


def shown(estimate: float, interval: Interval) -> str:
    """Return an estimate and its 95 % interval, both to as many digits: the one in the other.

    Examples
    --------
    >>> shown(1700043142.8765, Interval(1700043116.83, 1700043168.91))
    '1700043142.9  95 % interval [1700043116.8, 1700043169.0]'
    """
    scale = interval.high - interval.low
    if interval._whole and float(estimate).is_integer():
        scale = max(scale, 100.0)  # no decimals
    return f"{figures(estimate, scale)}  95 % interval {interval}"


def figures(value: float, scale: float) -> str:
    """Return a number to three significant digits of ``scale``, what it is uncertain by.

    Its own digits before the point are never rounded while there are few. Without a scale (0, or
    infinite), the double that it is.

    Examples
    --------
    >>> figures(1234.5678, 0.5), figures(1234567.8, 123456), figures(-0.001, 1), figures(5, 0)
    ('1234.568', '1234568', '0.00', '5')
    """
    if not (math.isfinite(value) and 0 < scale < math.inf):
        return _double(value)
    rounded = Decimal(value).quantize(_step(scale), ROUND_HALF_EVEN, _WIDE)
    text = _plain(rounded)
    # with an exponent, more digits than these are not the double's
    return _double(value) if "e" in text and len(rounded.as_tuple().digits) > 17 else text


def _step(width: float) -> Decimal:
    """Return a hundredth of a width, as a power of ten: of 1 at most, where digits are not many."""
    place = math.floor(math.log10(width)) - 2
    return Decimal(1).scaleb(place if place > 15 else min(place, 0))


_WIDE = Context(prec=700)


def _double(value: float) -> str:
    """Return a double, and no other: to ten digits where these are enough."""
    text = f"{value:.10g}"
    return text if float(text) == value else repr(float(value)).removesuffix(".0")


def _plain(value: Decimal) -> str:
    """Return a number with all of its digits, or with an exponent where these are too many."""
    text = f"{value if value else abs(value):f}"
    return text if len(text) <= 18 else f"{value.normalize(_WIDE):e}"


def unmet(conditions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the conditions that say of themselves that they do not hold.

    Examples
    --------
    >>> unmet(("NOT for this group: not proved for a composite modulus", ONE_REPORT))
    ('NOT for this group: not proved for a composite modulus',)
    """
    return tuple(said for said in conditions if said.startswith(NOT))


@dataclass(frozen=True)
class Guarantee(Printed):
    """A differential privacy guarantee and what it rests on.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee; a delta of 1 means that nothing is proved.
    adjacency : str
        ``"replace-one"``: two inputs are neighbours if they differ in one user's value. The
        number of users is public.
    theorem : str
        The statements that prove it, with their sources.
    conditions : tuple of str
        What must hold for it. One that begins with "NOT for this" does not hold.
    """

    epsilon: float
    delta: float
    theorem: str
    conditions: tuple[str, ...]
    adjacency: str = "replace-one"

    @property
    def vacuous(self) -> bool:
        """Whether nothing is said: too few messages."""
        return self.delta >= 1

    @property
    def proved(self) -> bool:
        """Whether something is proved, for this group and this run."""
        return not self.vacuous and not unmet(self.conditions)

    def of_run(self, rng: RandomSource) -> Guarantee:
        """Return the guarantee of a run: the same, or its first condition says that it is none.

        Parameters
        ----------
        rng : RandomSource
            What the run was drawn from. All but secure randomness is known to somebody.

        Examples
        --------
        >>> from ikos.testing import DeterministicRandom
        >>> protocol = Guarantee(1.0, 0.0, "discrete Laplace mechanism", (ONE_REPORT,))
        >>> protocol.of_run(DeterministicRandom(0)).conditions[0]
        'NOT for this run: drawn from a seed, it protects no one from a person who knows it'
        """
        if isinstance(rng, SecureRandom):
            return self
        return replace(self, conditions=(_SEEDED, *self.conditions))

    @property
    def budget(self) -> str:
        """What is guaranteed, in words."""
        if self.vacuous:
            return "no differential privacy is proved: too few messages"
        return (
            f"({at_least(self.epsilon, 6)}, {at_least(self.delta, 3)})-differential privacy, "
            f"{self.adjacency}"
        )

    def __str__(self) -> str:
        if self.vacuous:
            return self.budget
        return "; ".join((f"{self.budget} ({self.theorem})", *unmet(self.conditions)))


def _counted(number: float, what: str) -> str:
    return f"{number:,.6g} {what}{'s' * (number != 1)}"


@dataclass(frozen=True)
class Cost(Printed):
    """What the users sent.

    Attributes
    ----------
    users : int
        Users who sent a report.
    messages_per_user : int or float
        Messages of each, a clear share included; the mean where the number is random.
    bits_per_message : int or float
        Bits of one message before any encryption, such as ceil(log2 q); the mean where messages
        differ.
    """

    users: int
    messages_per_user: int | float
    bits_per_message: int | float

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


LARGE_EPSILON = 10


def budget_warnings(epsilon: float | Fraction, delta: float | Fraction, users: int) -> list[str]:
    """Return warnings for a budget that a mechanism could spend on giving somebody away.

    Publishing one user's value in full, chosen at random, is (0, 1/n)-private: a delta of 1/n or
    more excludes next to nothing. At an epsilon of 10 a likelihood ratio of 22,000 is allowed.
    """
    said = []
    if delta * users >= 1:
        said.append(
            f"delta = {float(delta):.3g} is not below 1/users = {1 / users:.3g}: it would allow "
            "publishing a random user's value; take it far smaller"
        )
    if epsilon > LARGE_EPSILON:
        said.append(f"epsilon = {float(epsilon):.6g} protects next to nobody; 1 is customary")
    return said


def trust_warnings(corrupt_shufflers: int, shuffled: int) -> list[str]:
    """Return a warning where most of the shufflers may collude."""
    if 2 * corrupt_shufflers <= shuffled:
        return []
    return [
        f"corrupt_shufflers = {corrupt_shufflers:,}: that is most of the {shuffled:,} shufflers, "
        "and each costs a message"
    ]


def footer(guarantee: Guarantee, cost: str, users: int) -> tuple[str, ...]:
    """Return the last lines of what is printed: the guarantee, what it rests on, and the cost."""
    lines = [guarantee.budget]
    if not guarantee.vacuous:
        lines += [
            f"beware: {said}" for said in budget_warnings(guarantee.epsilon, guarantee.delta, users)
        ]
        lines += [f"by {guarantee.theorem}"]
    first, *rest = (*lines, *guarantee.conditions)
    return (f"guarantee {first}", *(f"          {line}" for line in rest), f"sent      {cost}")


@dataclass(frozen=True)
class Estimate(Printed, ABC):
    """An estimate of a sum in the data's units, and how far off it can be.

    Attributes
    ----------
    estimate : float
        Unbiased estimate of the sum over the users. Not clipped: it may fall outside the possible
        range.
    users : int
        Users who took part; public.
    lower, upper : float
        The data's public bounds.
    guarantee : Guarantee
        What is guaranteed to each user. Every further release adds to it.
    cost : Cost
        What was sent.
    """

    estimate: float
    users: int
    lower: float
    upper: float
    guarantee: Guarantee
    cost: Cost

    @property
    @abstractmethod
    def standard_error(self) -> float:
        """Bound on the root of the mean squared error of the sum, in the data's units."""

    @abstractmethod
    def interval(self, confidence: float = 0.95) -> Interval:
        """Return an interval that contains the true sum with at least this probability."""

    def mean(self) -> float:
        """Return the estimate of the mean over the users, in the data's units."""
        return self.estimate / self.users

    def mean_interval(self, confidence: float = 0.95) -> Interval:
        """Return `interval` for the mean."""
        low, high = self.interval(confidence)
        return Interval(low / self.users, high / self.users)

    def _estimates(self) -> tuple[str, str]:
        """Return the sum and the mean as they are printed, each with its interval."""
        return shown(self.estimate, self.interval()), shown(self.mean(), self.mean_interval())

    def __str__(self) -> str:
        of_sum, of_mean = self._estimates()
        return "\n".join(
            (
                f"sum       {of_sum}",
                f"mean      {of_mean}",
                f"error     {at_least(self.standard_error, 4)} (sum, root mean square, at most)",
                *footer(self.guarantee, str(self.cost), self.users),
            )
        )


@dataclass(frozen=True)
class SumResult(Estimate):
    """A private sum by secure summation, in the data's units.

    Attributes
    ----------
    estimate, users, lower, upper, guarantee, cost
        As of `Estimate`; unbiased up to a wrap-around, with probability ``wrap_probability``.
    precision, modulus : int
        Steps of the encoding between the bounds, and the order of the group.
    noise : NoiseLaw
        Distribution of the noise, in steps of the encoding.
    rounded : bool
        Whether values were rounded at random to a step of the encoding.
    wrap_probability : float
        Bound on the probability that the sum wrapped around and the estimate is wrong.
    """

    precision: int
    modulus: int
    noise: NoiseLaw
    rounded: bool
    wrap_probability: float

    @property
    def step(self) -> float:
        """Data units of one step of the encoding."""
        return (self.upper - self.lower) / self.precision

    @property
    def standard_error(self) -> float:
        """Bound on the root of the mean squared error of the sum, in the data's units."""
        return (self.upper - self.lower) * standard_error(
            self.noise,
            users=self.users,
            precision=self.precision,
            modulus=self.modulus,
            rounded=self.rounded,
        )

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return an interval that contains the true sum with at least this probability.

        Parameters
        ----------
        confidence : float
            Between 0 and 1.

        Returns
        -------
        Interval
            Symmetric about the estimate, in the data's units. Covers noise, rounding and
            wrap-around, from the distribution of the noise; conservative, not asymptotic. Its ends
            are integers where the values were promised to be.

        Raises
        ------
        ValueError
            If ``confidence`` is not strictly between 0 and 1, or closer to 1 than the
            probability of a wrap-around allows.
        """
        level = number("confidence", confidence, above=0, below=1)
        miss = float(1 - level - Fraction(self.wrap_probability))
        if miss <= 0:
            wrapped = at_least(self.wrap_probability, 3)
            raise ValueError(
                f"confidence must be below 1 - {wrapped}, the probability of no "
                f"wrap-around, got {confidence!r}; use a larger modulus"
            )
        reach = self.noise.half_width(miss, self.users if self.rounded else 0)
        if self._of_integers:
            return self._between_integers(reach)
        reach *= self.step
        # and one unit in the last place for the rounding of the estimate itself
        reach += math.ulp(self.estimate)
        return Interval(self.estimate - reach, self.estimate + reach)

    @property
    def _of_integers(self) -> bool:
        """Whether values were taken as they are in steps of 1 from an integer: all are integers."""
        return not self.rounded and self.step == 1 and float(self.lower).is_integer()

    def _between_integers(self, reach: float) -> Interval:
        """Return the interval of the integers within reach: truth and noise are integers."""
        # ``reach`` is made of logarithms over the rate. This is far above its rounding errors, so
        # that no integer is left out.
        wider = Fraction(reach) + Fraction(1e-9) * (Fraction(reach) + 1 / self.noise.rate)
        if abs(self.estimate) >= 2.0**53:  # an integer that was rounded to a double
            wider += Fraction(math.ulp(self.estimate))
        low = math.ceil(Fraction(self.estimate) - wider)
        high = math.floor(Fraction(self.estimate) + wider)
        return Interval(round_down(Fraction(low)), round_up(Fraction(high)))

    def _estimates(self) -> tuple[str, str]:
        if self.wrap_probability < 0.05:
            return super()._estimates()
        chance = at_least(self.wrap_probability, 2)
        text = f"no interval: wrapped around with probability up to {chance}"
        of_sum = figures(self.estimate, self.standard_error)
        of_mean = figures(self.mean(), self.standard_error / self.users)
        return f"{of_sum}  {text}", f"{of_mean}  {text}"
