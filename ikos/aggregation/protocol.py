"""What every protocol for sums answers, and what the baselines share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import check_participation, number
from ikos.aggregation.base import Reports
from ikos.bounds import Bounds
from ikos.errors import ErrorLaw
from ikos.randomness import RandomSource, secure
from ikos.results import Cost, Estimate, Guarantee, Interval
from ikos.shuffling import View

MIN_EPSILON, MAX_EPSILON = math.nextafter(1e-6, 0), 100.0
MIN_DELTA = math.nextafter(1e-100, 0)  # so that the decimals themselves are allowed


@runtime_checkable
class SumProtocol(Protocol):
    """A differentially private protocol for the sum of everybody's values.

    `ikos.PrivateSum` and every baseline have these members, so that a comparison is one loop. An
    object holds public parameters only; `report` is the client's part (`randomize` plays all
    clients at once), `shuffle` that of the shufflers (of the curator, in the central model),
    `analyze` the analyzer's, and `run` plays all.
    """

    @property
    def n(self) -> int:
        """Users."""

    @property
    def min_honest(self) -> int:
        """How many users must be honest and present; fewer reports are refused."""

    @property
    def bounds(self) -> Bounds:
        """The public bounds of the values."""

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run, of the view and so of the estimate."""

    @property
    def mse(self) -> float:
        """Bound on the mean squared error of the sum of all n, whatever the values; data units."""

    @property
    def influence(self) -> float:
        """Greatest difference that one user's messages alone can make to the estimate.

        In the data's units, with messages of the right kind and everybody else's fixed. Lying about
        one's value makes a difference of ``upper - lower`` in any protocol.
        """

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` send: from 1 to n, all n by default."""

    def report(self, x: float, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages: what a client sends."""

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return everybody's messages, (messages, k), row j for shuffler j."""

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return what the analyzer sees of them."""

    def analyze(self, view: View) -> Estimate:
        """Return the estimate for a view."""

    def run(self, x: ArrayLike, rng: RandomSource | None = None) -> Estimate:
        """Run the protocol on everybody's values, here."""


@dataclass(frozen=True)
class BaselineResult(Estimate):
    """What a baseline returns.

    Attributes
    ----------
    estimate, users, lower, upper, guarantee, cost
        As of `Estimate`.
    error : ErrorLaw
        What is known of the law of the estimate's error, in units of ``upper - lower``.
    """

    error: ErrorLaw

    @property
    def standard_error(self) -> float:
        """Bound on the root of the mean squared error of the sum, in the data's units."""
        return (self.upper - self.lower) * float(np.sqrt(self.error.mean_square))

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return an interval that contains the true sum with at least this probability.

        Parameters
        ----------
        confidence : float
            Between 0 and 1.

        Returns
        -------
        Interval
            Symmetric about the estimate, in the data's units; conservative, not asymptotic.
        """
        miss = float(1 - number("confidence", confidence, above=0, below=1))
        if not miss:
            raise ValueError(f"confidence must be below 1 by a double, got {confidence!r}")
        reach = (self.upper - self.lower) * self.error.half_width(miss)
        reach += float(np.spacing(abs(self.estimate)))
        return Interval(self.estimate - reach, self.estimate + reach)


def checked_epsilon(epsilon: object) -> Fraction:
    """Check and return the budget of a purely private baseline."""
    return number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)


def budget(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    """Check and return the budget of a baseline; a delta of 0 is for the purely private ones."""
    return checked_epsilon(epsilon), number("delta", delta, low=MIN_DELTA, below=1)


class Baseline(Reports):
    """What the baselines share: users within public bounds, and a run made of the three parts.

    Frozen dataclasses, see `ikos.aggregation.base.Reports`.
    """

    bounds: Bounds

    # What each baseline defines

    @property
    @abstractmethod
    def influence(self) -> float:
        """Greatest difference that one user's messages alone can make to the estimate."""

    @abstractmethod
    def error(self, users: int) -> ErrorLaw:
        """Return what is known of the error of a sum over so many users, in units of the width."""

    @abstractmethod
    def _messages(self, unit: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        """Return the messages, (messages, k), of users with values in [0, 1]."""

    @abstractmethod
    def _parts(self, view: View, users: int) -> Fraction | float:
        """Return the estimate of the sum of values in [0, 1]."""

    # What follows for all of them

    @property
    def mse(self) -> float:
        """Bound on the mean squared error of the sum of all n, whatever the values; data units."""
        return self.bounds.width**2 * self.error(self.n).mean_square

    def report(self, x: float, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages.

        Parameters
        ----------
        x : float
            Within the bounds.
        rng : RandomSource, optional
            Secure randomness by default.
        """
        return self._messages(self.bounds.unit(self.bounds.values([x])), secure(rng))[:, 0].copy()

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return everybody's messages.

        Parameters
        ----------
        x : (k,) array_like of float
            Values within the bounds, ``min_honest <= k <= n``.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (messages, k) ndarray
            Row j is what goes to shuffler j.
        """
        return self._messages(self.bounds.unit(self._values(x)), secure(rng))

    def analyze(self, view: View) -> BaselineResult:
        """Return the estimate of the sum over the users of a view.

        Raises
        ------
        ValueError
            If the view is not one of this protocol's, of at least ``min_honest`` users.
        """
        users = self._checked_view(view)
        return BaselineResult(
            estimate=self.bounds.total(self._parts(view, users), users),
            users=users,
            lower=self.bounds.lower,
            upper=self.bounds.upper,
            guarantee=self.guarantee,
            cost=self.cost(users),
            error=self.error(users),
        )

    def run(self, x: ArrayLike, rng: RandomSource | None = None) -> BaselineResult:
        """Run the protocol on everybody's values, here.

        Parameters
        ----------
        x : (k,) array_like of float
            Values within the bounds, ``min_honest <= k <= n``.
        rng : RandomSource, optional
            Secure randomness by default.

        Raises
        ------
        TypeError, ValueError
            If a value is not a real number within the bounds (NaN is not), or there are too few
            or too many. Nothing is clipped.
        """
        source = secure(rng)
        result = self.analyze(self._play(self._values(x), source))
        return replace(result, guarantee=result.guarantee.of_run(source))

    def _play(self, values: NDArray[np.float64], rng: RandomSource) -> View:
        """Return everybody's view; overridden where the same law takes fewer passes."""
        return self.shuffle(self._messages(self.bounds.unit(values), rng), rng)

    def _values(self, x: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
        values = self.bounds.values(x)
        check_participation("x", values.size, self.min_honest, self.n)
        return values
