"""Means, variances, counts and histograms from private sums.

Each function takes everybody's values, runs the protocol here, and returns estimates with a
guarantee for the whole release. The number of users is public. Keyword arguments that a
function does not name go to `PrivateSum` (``shuffler``, ``min_honest``, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._labels import checked_labels, places_among
from ikos._options import MeanOptions, SumOptions, check_passed_on
from ikos._validation import array, number, real, round_up, vector
from ikos.aggregation import PrivateSum
from ikos.randomness import RandomSource
from ikos.results import Guarantee, Interval, Printed, SumResult, footer, shown

__all__ = ["Histogram", "Variance", "count", "histogram", "mean", "variance"]

COUNTED = dict.fromkeys(("lower", "upper", "integers"), "users are counted, each as 0 or 1")
"""What does not go with a count, with the reason."""

SQUARED = {"integers": "the middle of the bounds, and so squares, need not be integers"}
"""What does not go with a variance, with the reason."""


def mean(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[MeanOptions],
) -> SumResult:
    """Release the sum and the mean of values within public bounds.

    Parameters
    ----------
    x : (n,) array_like of float
        One value per user, each in ``[lower, upper]``.
    lower, upper : float
        Public bounds, not taken from the data.
    epsilon, delta : float
        The guarantee of the release.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateSum`.

    Returns
    -------
    SumResult
        ``.mean()``, ``.mean_interval()``, and the same for the sum.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(20, 30, 5000)
    >>> result = mean(x, lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> bool(abs(result.mean() - 25) < 1)
    True
    """
    check_passed_on("mean", options, MeanOptions, {})
    values = _vector(x, real)
    protocol = PrivateSum(values.size, epsilon, delta, lower=lower, upper=upper, **options)
    return protocol.run(values, rng)


def count(
    x: ArrayLike,
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[SumOptions],
) -> SumResult:
    """Release how many users' answers are true.

    Parameters
    ----------
    x : (n,) array_like of bool
        One answer per user.
    epsilon, delta : float
        The guarantee of the release.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateSum`.

    Returns
    -------
    SumResult
        The count as ``.estimate``, the proportion as ``.mean()``.

    Examples
    --------
    >>> import numpy as np
    >>> result = count(np.arange(10_000) % 4 == 0, epsilon=1, delta=1e-8)
    >>> bool(abs(result.estimate - 2500) < 50), result.estimate.is_integer()
    (True, True)
    """
    check_passed_on("count", options, SumOptions, COUNTED)
    answers = _vector(x)
    if answers.dtype != bool:
        raise TypeError(f"x must hold booleans, got an array of {answers.dtype}")
    protocol = PrivateSum(answers.size, epsilon, delta, integers=True, **options)
    return protocol.run(answers.astype(np.float64), rng)


@dataclass(frozen=True)
class Variance(Printed):
    """A private mean and variance.

    Attributes
    ----------
    first, second : SumResult
        Private sums of x and of (x - c)^2, c the middle of the bounds.
    guarantee : Guarantee
        For both together.
    """

    first: SumResult
    second: SumResult
    guarantee: Guarantee

    @property
    def _centre(self) -> float:
        return (self.first.lower + self.first.upper) / 2

    @property
    def estimate(self) -> float:
        """The variance of the users' values, with denominator n.

        The difference of two noisy numbers: not clipped, it can be negative where the variance
        is small against the noise.
        """
        return float(self.second.mean() - (self.first.mean() - self._centre) ** 2)

    def mean(self) -> float:
        """Return the estimate of the mean."""
        return float(self.first.mean())

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return an interval that contains the variance with at least this probability.

        From one interval for each of the two sums, each at half the risk.
        """
        level = number("confidence", confidence, above=0, below=1)
        each = float((1 + level) / 2)
        low2, high2 = self.second.mean_interval(each)
        low1, high1 = (end - self._centre for end in self.first.mean_interval(each))
        largest = max(low1**2, high1**2)
        smallest = 0.0 if low1 <= 0 <= high1 else min(low1**2, high1**2)
        return Interval(low2 - largest, high2 - smallest)

    def __str__(self) -> str:
        return "\n".join(
            (
                f"variance  {shown(self.estimate, self.interval())}",
                f"mean      {shown(self.mean(), self.first.mean_interval())}",
                *footer(self.guarantee, f"twice {self.first.cost}", self.first.users),
            )
        )


def _composed(parts: Sequence[Guarantee], how: str) -> Guarantee:
    """Return the guarantee of several releases about the same users, by basic composition."""
    return replace(
        parts[0],
        epsilon=round_up(sum((Fraction(part.epsilon) for part in parts), Fraction(0))),
        delta=min(1.0, round_up(sum((Fraction(part.delta) for part in parts), Fraction(0)))),
        theorem=f"{parts[0].theorem}; {how}",
    )


def variance(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[SumOptions],
) -> Variance:
    """Release the mean and the variance of values within public bounds.

    Two private sums at half the budget each: of x, and of the squared distance from the middle of
    the bounds, which is smaller than x^2.

    Parameters
    ----------
    x : (n,) array_like of float
        One value per user, each in ``[lower, upper]``.
    lower, upper : float
        Public bounds, not taken from the data.
    epsilon, delta : float
        The guarantee of the release.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateSum`.

    Returns
    -------
    Variance

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(20, 30, 5000)
    >>> result = variance(x, lower=0, upper=50, epsilon=1, delta=1e-6)
    >>> bool(abs(result.estimate - x.var()) < 5)
    True
    """
    check_passed_on("variance", options, SumOptions, SQUARED)
    values = _vector(x, real)
    budget = number("epsilon", epsilon, above=0) / 2
    risk = number("delta", delta, above=0, below=1) / 2
    first = PrivateSum(values.size, budget, risk, lower=lower, upper=upper, **options)
    half = (first.upper - first.lower) / 2
    centre = (first.lower + first.upper) / 2
    second = PrivateSum(values.size, budget, risk, lower=0, upper=half**2, **options)
    mean_part = first.run(values, rng)
    # The squared distance of a value within the bounds is at most half^2 but for the rounding
    # of its last bit, which the minimum takes off.
    squares = np.minimum((values - centre) ** 2, half**2)
    square_part = second.run(squares, rng)
    guarantee = _composed((mean_part.guarantee, square_part.guarantee), "basic composition of two")
    return Variance(mean_part, square_part, guarantee)


@dataclass(frozen=True)
class Histogram(Printed):
    """Private counts of categories.

    Attributes
    ----------
    counts : mapping
        Category to its `SumResult`.
    guarantee : Guarantee
        For the whole histogram.
    """

    counts: Mapping[Hashable, SumResult]
    guarantee: Guarantee

    def estimates(self) -> dict[Hashable, float]:
        """Return category to estimated count. Not clipped: small counts can come out negative."""
        return {category: result.estimate for category, result in self.counts.items()}

    def __str__(self) -> str:
        width = max(len(str(category)) for category in self.counts)
        lines = [
            f"{category!s:>{width}}  {result.estimate:>12.0f}  95 % interval {result.interval()}"
            for category, result in self.counts.items()
        ]
        each = next(iter(self.counts.values()))
        sent = f"{len(self.counts):,} times {each.cost}"
        return "\n".join((*lines, *footer(self.guarantee, sent, each.users)))


def histogram(
    x: ArrayLike,
    categories: Sequence[Hashable],
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[SumOptions],
) -> Histogram:
    """Release how many users fall into each of the given categories.

    A private count for each category. Replacing one user's value changes at most two of them, so
    each is run at half the budget, however many there are.

    Parameters
    ----------
    x : (n,) array_like
        One value per user, each equal to one of the categories, as Python objects: in a list, 1 is
        no ``"1"``.
    categories : sequence
        Public and distinct, fixed without looking at the data.
    epsilon, delta : float
        The guarantee of the release.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateSum`.

    Returns
    -------
    Histogram

    Raises
    ------
    TypeError
        If the categories are no sequence (a set has no order), text, or not hashable.
    ValueError
        If a value is not among the categories, or these are empty or repeat.

    Examples
    --------
    >>> answers = ["yes", "no", "yes"] * 2000
    >>> result = histogram(answers, ["yes", "no", "unknown"], epsilon=1, delta=1e-6)
    >>> {k: bool(abs(v - t) < 100) for (k, v), t in
    ...  zip(result.estimates().items(), (4000, 2000, 0))}
    {'yes': True, 'no': True, 'unknown': True}
    """
    check_passed_on("histogram", options, SumOptions, COUNTED)
    labels = checked_labels("categories", categories)
    # One cell for each user, whatever equals what: a user who counted twice would change more than
    # two of the counts.
    cell = places_among(labels, "x", x)
    budget = number("epsilon", epsilon, above=0) / 2
    risk = number("delta", delta, above=0, below=1) / 2
    counts = {
        label: count(cell == place, epsilon=budget, delta=risk, rng=rng, **options)
        for place, label in enumerate(labels)
    }
    parts = [result.guarantee for result in counts.values()][:1] * 2
    return Histogram(counts, _composed(parts, "a replacement changes at most two of the counts"))


def _vector(x: ArrayLike, read: Callable[..., NDArray[Any]] = array) -> NDArray[Any]:
    values = vector("x", x, read("x", x))
    if not values.size:
        raise ValueError("x must hold at least one user's value, got none")
    return values
