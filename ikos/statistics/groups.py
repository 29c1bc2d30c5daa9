"""Counts, sums, means and variances by public groups, and of columns with missing values.

A user whose value is h of p steps above the lower bound holds h and p - h at two places of its
group, high and low, and 0 at all others. Two such vectors are at most 2 p apart in l1 norm,
whatever the number of groups: whose group a user is in is protected as well as its value. A missing
value is p at one more place of the group, and a user in no group holds 0 everywhere. For variances
of values u in [0, 1], three places hold p u^2, 2 p u (1 - u) and p (1 - u)^2, rounded to integers
that add up to p.

Without groups, a user holds h and 0, or p/2 and p/2 if its value is missing: at most p apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue, flag, number
from ikos.data.domains import Bounds, Box, IntegerBounds, Portions
from ikos.data.encoding import steps_of
from ikos.data.sensitivity import Sensitivity
from ikos.numeric.distributions import Divisible
from ikos.primitives.randomness import RandomSource, secure
from ikos.results.error import NoisySum
from ikos.results.intervals import Interval, shown
from ikos.results.linear import HIGH_OF_THREE, LinearError, variances
from ikos.results.tables import EstimateTable
from ikos.statistics.labels import NO_GROUP, UsersGroups
from ikos.statistics.release import Release, Run, first_lines, private_sum_of

_CONFIDENCE = 0.95
_OUTWARDS = 1e-12  # relative distance by which ends are moved outwards, for rounding of doubles
_MOST_STEPS = 1 << 20  # of integers that are not rounded


class _Linear(NamedTuple):
    """An estimate: a constant, weights of the noisy sums, and of the error of rounding."""

    constant: float
    weights: tuple[float, ...]
    rounding: float = 0.0


@dataclass(frozen=True, eq=False)
class Means(Release, ABC):
    """Private counts, sums and means of users' values within public ``bounds``.

    Counts and sums are unbiased and not clipped. Means are within the bounds; they are NaN where
    noise and data exclude no mean at all, at a confidence of 95 %.
    """

    bounds: Bounds
    rounded: bool
    excluded: bool = True

    @property
    @abstractmethod
    def _sums(self) -> NDArray[np.float64]:
        """The noisy sums, in users, on the first axis."""

    @property
    @abstractmethod
    def _estimates(self) -> dict[str, _Linear]:
        """The linear estimates, by name."""

    @property
    def _noisy(self) -> NoisySum:
        return cast(NoisySum, self.private.error.coordinate)

    @cached_property
    def _error(self) -> LinearError:
        noise = cast(Divisible, self._noisy.noise)
        return LinearError(noise, self._noisy.precision, self.users if self.rounded else 0)

    def _estimate(self, name: str) -> Any:
        if name == "missing" and not self.excluded:
            raise InvalidValue("missing", 'must be "exclude" for missing values to be counted')
        one = self._estimates[name]
        total = one.constant + np.tensordot(one.weights, self._sums[: len(one.weights)], 1)
        return float(total) if total.ndim == 0 else total

    def _interval(self, name: str, confidence: float, simultaneous: bool) -> Interval:
        estimate, one = self._estimate(name), self._estimates[name]
        miss = self._miss(confidence, simultaneous)
        half = self._error.half_width(one.weights, one.rounding, miss)
        half = half + _OUTWARDS * (np.abs(estimate) + half + abs(one.constant))
        return Interval(estimate - half, estimate + half)

    def _fractions(self, miss: float) -> Interval:
        """Return intervals for the means as fractions of the way between the bounds."""
        high, low = (self._estimate(name) for name in ("high", "low"))
        weights = (self._estimates[name].weights for name in ("high", "low"))
        return self._error.mean_interval(high, low, miss, *weights)

    def _miss(self, confidence: float, simultaneous: bool = False) -> float:
        """Return the probability of a miss of each interval that is left to noise."""
        miss = float(1 - number("confidence", confidence, above=0, below=1))
        if flag("simultaneous", simultaneous):
            miss /= self._sums[0].size
        return miss - len(self._estimates["high"].weights) * self._noisy.wrap_probability

    def counts(self) -> Any:
        """Return the estimated numbers of users with a value."""
        return self._estimate("count")

    def sums(self) -> Any:
        """Return the estimated sums of their values."""
        return self._estimate("sum")

    def missing(self) -> Any:
        """Return the estimated numbers of users whose value is missing, if they are excluded."""
        return self._estimate("missing")

    def means(self) -> Any:
        """Return the estimated means of the values, or NaN."""
        band = self._fractions(self._miss(_CONFIDENCE))
        known = (band.low > 0) | (band.high < 1)
        means = self.bounds.lower + self.bounds.width * np.where(known, self._mean, math.nan)
        return float(means) if np.ndim(means) == 0 else means

    @property
    def _mean(self) -> NDArray[np.float64]:
        """The means as fractions of the way between the bounds."""
        high, low = (np.maximum(self._estimate(name), 0.0) for name in ("high", "low"))
        return np.asarray(high / np.where(high + low > 0, high + low, 1.0))

    def count_interval(
        self, confidence: float = _CONFIDENCE, *, simultaneous: bool = False
    ) -> Interval:
        """Return an interval for each of `counts`, as `SumResult.interval`."""
        return self._interval("count", confidence, simultaneous)

    def sum_interval(
        self, confidence: float = _CONFIDENCE, *, simultaneous: bool = False
    ) -> Interval:
        """Return an interval for each of `sums`."""
        return self._interval("sum", confidence, simultaneous)

    def missing_interval(
        self, confidence: float = _CONFIDENCE, *, simultaneous: bool = False
    ) -> Interval:
        """Return an interval for each of `missing`."""
        return self._interval("missing", confidence, simultaneous)

    def mean_interval(
        self, confidence: float = _CONFIDENCE, *, simultaneous: bool = False
    ) -> Interval:
        """Return an interval for each of `means`, valid for every number of users, also for none.

        It is within the bounds, and the bounds themselves where the mean is NaN at this confidence.
        """
        band = self._fractions(self._miss(confidence, simultaneous))
        lower, upper, width = self.bounds.lower, self.bounds.upper, self.bounds.width
        slack = 4 * np.spacing(max(abs(lower), abs(upper)))
        low = np.maximum(lower + width * band.low - slack, lower)
        high = np.minimum(lower + width * band.high + slack, upper)
        return Interval(low, high) if np.ndim(low) else Interval(float(low), float(high))

    def _labelled(
        self, names: tuple[str, ...], labels: Sequence[tuple[Hashable, ...]], drawn: tuple[str, ...]
    ) -> EstimateTable:
        """Return the table of these rows."""
        return EstimateTable(names, labels, self._quantities(), drawn)

    def _quantities(self) -> dict[str, tuple[Any, Interval]]:
        """Return the estimates of each quantity with their intervals."""
        quantities = {
            "count": (self.counts(), self.count_interval()),
            "sum": (self.sums(), self.sum_interval()),
            "mean": (self.means(), self.mean_interval()),
        }
        if self.excluded:
            quantities["missing"] = self.missing(), self.missing_interval()
        return quantities

    def _described(self) -> list[str]:
        """Return the mean of each row in words."""
        numbers = map(np.atleast_1d, (self.means(), *self.mean_interval(), self.counts()))
        return [
            f"{_or_none(*row)}  of {count:,.0f} users" for *row, count in zip(*numbers, strict=True)
        ]


def _or_none(estimate: float, low: float, high: float) -> str:
    return "none" if math.isnan(estimate) else shown(estimate, Interval(low, high))


@dataclass(frozen=True, eq=False)
class PresentMean(Means):
    """The private mean of those users who have a value, with their number and sum: floats.

    Its pair begins at place ``first`` of the ``private`` sum.
    """

    first: int = 0

    @cached_property
    def _sums(self) -> NDArray[np.float64]:
        pair = self.private.estimate[self.first : self.first + 2]
        return np.asarray(pair / self.private.domain.upper)

    @property
    def _estimates(self) -> dict[str, _Linear]:
        n, lower, upper = float(self.users), self.bounds.lower, self.bounds.upper
        return {
            "high": _Linear(0, (1, -1)),
            "low": _Linear(n, (-1, -1)),
            "count": _Linear(n, (0, -2)),
            "missing": _Linear(0, (0, 2)),
            "sum": _Linear(n * lower, (upper - lower, -(upper + lower)), upper - lower),
        }

    mean, count = Means.means, Means.counts

    def _table(self) -> EstimateTable:
        return self._labelled((), [()], ("mean", "count", "missing"))

    def _lines(self) -> list[str]:
        missing = shown(self.missing(), self.missing_interval())
        return [f"mean      {self._described()[0]}", f"missing   {missing}"]


@dataclass(frozen=True, eq=False)
class GroupMeans(Means):
    """Private counts, sums and means of one column by groups: arrays in the order of ``groups``.

    Their pairs begin at place ``first`` of the ``private`` sum. The groups are labels of the column
    ``by``, or tuples of labels of several.
    """

    groups: tuple[Hashable, ...] = ()
    first: int = 0
    by: str | tuple[str, ...] = "group"
    _parts: ClassVar[int] = 2
    _drawn: ClassVar[tuple[str, ...]] = ("mean", "count")

    @classmethod
    def cells(cls, excluded: bool) -> int:
        """Return the number of places of a group."""
        return cls._parts + excluded

    @staticmethod
    def encode(
        values: NDArray[np.float64], bounds: Bounds, p: int, rng: RandomSource
    ) -> NDArray[np.int64]:
        """Return the parts of each user, (parts, users), in steps that add up to p."""
        high = steps_of(values, bounds, p, rng)
        return np.stack([high, p - high])  # rounded once: they add up to p

    @cached_property
    def _sums(self) -> NDArray[np.float64]:
        return self._by_group()

    def _by_group(self) -> NDArray[np.float64]:
        size = self.cells(self.excluded) * len(self.groups)
        steps = self.private.estimate[self.first : self.first + size].reshape(len(self.groups), -1)
        users: NDArray[np.float64] = steps.T / self.private.domain.upper
        return users

    @property
    def _estimates(self) -> dict[str, _Linear]:
        lower, upper = self.bounds.lower, self.bounds.upper
        return {
            "high": _Linear(0, (1, 0)),
            "low": _Linear(0, (0, 1)),
            "count": _Linear(0, (1, 1)),
            "missing": _Linear(0, (0, 0, 1)),
            "sum": _Linear(0, (upper, lower), upper - lower),
        }

    def _table(self) -> EstimateTable:
        if isinstance(self.by, str):
            return self._labelled((self.by,), [(one,) for one in self.groups], self._drawn)
        return self._labelled(self.by, cast(Any, self.groups), self._drawn)

    def _lines(self) -> list[str]:
        rows = zip(self.groups, self._described(), strict=True)
        lines = (f"{label}: {self._drawn[0]} {row}" for label, row in rows)
        return first_lines(lines, len(self.groups))


@dataclass(frozen=True, eq=False)
class GroupVariances(GroupMeans):
    """Private counts, sums, means and variances of one column by groups, as `GroupMeans`."""

    _parts: ClassVar[int] = 3
    _drawn: ClassVar[tuple[str, ...]] = ("variance", "mean", "count")

    @staticmethod
    def encode(
        values: NDArray[np.float64], bounds: Bounds, p: int, rng: RandomSource
    ) -> NDArray[np.int64]:
        """Return the steps of u^2, 2 u (1 - u) and (1 - u)^2 of each user, which add up to p.

        Sums of the first parts are all rounded by the same random number, up if it carries.
        """
        u, digits = bounds.unit(values), 62 - p.bit_length()
        below = rng.uniform(1 << digits, u.size).astype(np.int64)
        one, two = (
            (np.floor(part * float(p << digits)).astype(np.int64) + below) >> digits
            for part in (u * u, u * (2 - u))  # at most 1, and in this order, also as doubles
        )
        return np.stack([one, two - one, p - two])

    @property
    def _estimates(self) -> dict[str, _Linear]:
        lower, upper = self.bounds.lower, self.bounds.upper
        return {
            "high": _Linear(0, HIGH_OF_THREE),
            "low": _Linear(0, HIGH_OF_THREE[::-1]),
            "count": _Linear(0, (1, 1, 1)),
            "missing": _Linear(0, (0, 0, 0, 1)),
            "sum": _Linear(0, (upper, lower / 2 + upper / 2, lower), upper - lower),
        }

    def variances(self) -> Any:
        """Return the estimated variances of the values, with denominator N, or NaN.

        They are possible variances between the bounds, with the estimated means.
        """
        square = self.bounds.width**2
        band = self.variance_interval()
        known = (np.asarray(band.low) > 0) | (np.asarray(band.high) < square / 4)
        found = np.where(known, variances(self._sums[:3], self._mean), math.nan) * square
        return float(found) if found.ndim == 0 else found

    def variance_interval(
        self, confidence: float = _CONFIDENCE, *, simultaneous: bool = False
    ) -> Interval:
        """Return an interval for each of `variances`, valid for every number of users.

        It is within [0, (upper - lower)^2 / 4], and all of it where the variance is NaN.
        """
        miss = self._miss(confidence, simultaneous)
        square = self.bounds.width**2
        low, high = (square * end for end in self._error.variance_interval(self._sums[:3], miss))
        return Interval(low, high) if np.ndim(low) else Interval(float(low), float(high))

    def _quantities(self) -> dict[str, tuple[Any, Interval]]:
        variance = {"variance": (self.variances(), self.variance_interval())}
        return variance | super()._quantities()

    def _described(self) -> list[str]:
        band, means = self.variance_interval(), super()._described()
        numbers = map(np.atleast_1d, (self.variances(), *band))
        return [
            f"{_or_none(*row)}; mean {mean}" for *row, mean in zip(*numbers, means, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class PresentVariance(GroupVariances):
    """The private variance of those users who have a value, with their number, sum and mean."""

    @cached_property
    def _sums(self) -> NDArray[np.float64]:
        one: NDArray[np.float64] = self._by_group()[:, 0]
        return one

    variance, mean, count = GroupVariances.variances, Means.means, Means.counts

    def _table(self) -> EstimateTable:
        return self._labelled((), [()], (*self._drawn, "missing"))

    def _lines(self) -> list[str]:
        missing = shown(self.missing(), self.missing_interval())
        return [f"variance  {self._described()[0]}", f"missing   {missing}"]


def steps(bounds: Sequence[Bounds], users: int, epsilon: float | Fraction) -> int:
    """Return the number of steps p of a user, common to all columns.

    Integers are not rounded, if that takes at most 2^20 steps. Otherwise rounding adds at most 1 %
    to the variance of the noise: a deviation of sqrt(users) / 2 steps at most, to one of 2 sqrt(2)
    p times the number of columns over epsilon. Even, for the halves of missing values.
    """
    whole = math.lcm(*(int(one.width) for one in bounds if isinstance(one, IntegerBounds)))
    p = 2 * whole // math.gcd(2, whole) if whole <= _MOST_STEPS else 2
    wanted = 5 * float(epsilon) * math.sqrt(users / 8) / len(bounds)
    while p < wanted and any(one.rounding(p) for one in bounds):
        p *= 2
    return p


def group_vectors(
    columns: Sequence[NDArray[np.float64]],
    bounds: Sequence[Bounds],
    places: NDArray[np.int64],
    domain: Portions,
    excluded: bool,
    rng: RandomSource,
    kind: type[GroupMeans] = GroupMeans,
) -> NDArray[np.integer[Any]]:
    """Return users' vectors: in each column's run, the parts of a user at the places of a group."""
    p, cells = domain.total, kind.cells(excluded)
    x = np.zeros((places.size, domain.dimension), np.min_scalar_type(p))
    member = places != NO_GROUP
    for values, bound, run in zip(columns, bounds, domain.runs, strict=True):
        first = run.start + cells * places
        some = np.flatnonzero(member & ~np.isnan(values))
        for part, steps in enumerate(kind.encode(bound.values(values[some]), bound, p, rng)):
            x[some, first[some] + part] = steps
        gone = np.flatnonzero(member & np.isnan(values))
        x[gone, first[gone] + cells - 1] = p
    return x


def means_by_group(
    columns: Sequence[NDArray[np.float64]],
    bounds: Sequence[Bounds],
    users: UsersGroups,
    excluded: bool,
    run: Run,
    kind: type[GroupMeans] = GroupMeans,
) -> list[Any]:
    """Return results of a ``kind`` for each column by groups, under one budget.

    Missing values are NaN, and there are none unless ``excluded``.
    """
    epsilon, delta, rng, ledger, options = run
    p = steps(bounds, users.places.size, epsilon)
    domain = Portions([kind.cells(excluded) * len(users.groups)] * len(columns), p)
    rng = secure(rng)
    x = group_vectors(columns, bounds, users.places, domain, excluded, rng, kind)
    private = private_sum_of(x, domain, (epsilon, delta, rng, ledger, options))
    return [
        kind(private, bound, bool(bound.rounding(p)), excluded, users.groups, part.start, users.by)
        for bound, part in zip(bounds, domain.runs, strict=True)
    ]


def present_vectors(
    columns: Sequence[NDArray[np.float64]], bounds: Sequence[Bounds], p: int, rng: RandomSource
) -> NDArray[np.integer[Any]]:
    """Return users' vectors, with two places for each column, of p steps that are even."""
    x = np.full((columns[0].size, 2 * len(columns)), p // 2, np.min_scalar_type(p))
    for column, (values, bound) in enumerate(zip(columns, bounds, strict=True)):
        some = ~np.isnan(values)
        x[some, 2 * column] = steps_of(bound.values(values[some]), bound, p, rng)
        x[some, 2 * column + 1] = 0
    return x


def means_of_present(
    columns: Sequence[NDArray[np.float64]], bounds: Sequence[Bounds], run: Run
) -> list[PresentMean]:
    """Return the mean of each column's values that are not missing, that is, not NaN."""
    epsilon, delta, rng, ledger, options = run
    p, rng = steps(bounds, columns[0].size, epsilon), secure(rng)
    x = present_vectors(columns, bounds, p, rng)
    apart = Sensitivity(l1=len(columns) * p, linf=p, proved=True)
    run = epsilon, delta, rng, ledger, options
    private = private_sum_of(x, Box(x.shape[1], 0, p), run, apart, integers=True)
    return [
        PresentMean(private, bound, bool(bound.rounding(p)), True, 2 * column)
        for column, bound in enumerate(bounds)
    ]
