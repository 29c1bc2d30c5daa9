"""What every protocol for sums of vectors answers, and what they share.

The same questions as for sums of numbers (`ikos.baselines.SumProtocol`): what is guaranteed and by
which theorem, what is sent, how large the error can be, what one dishonest user can do.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import check_participation, flag, number
from ikos.aggregation.base import Reports
from ikos.domains import Domain
from ikos.errors import ErrorLaw
from ikos.modular import blocks
from ikos.randomness import RandomSource, secure
from ikos.results import Cost, Guarantee, Printed, at_least, figures, footer
from ikos.shuffling import View

BLOCK = 1 << 21
"""Entries of everybody's vectors that are worked on at a time."""

MAX_ENTRIES = 1 << 28
"""Most entries of an array of messages."""


@dataclass(frozen=True)
class VectorError:
    """What is known of the error of an estimated sum of vectors, in the data's units.

    Parameters
    ----------
    coordinate : ErrorLaw
        Of each coordinate by itself, whatever the vectors of the domain.
    mean_square : float
        Bound on the mean of the squared Euclidean norm, whatever the vectors of the domain.
    sampling : float
        The part of ``mean_square`` that is due to coordinates which users do not report; 0 where
        all report everything. Papers that estimate the sum of what was sampled leave it out.
    integers : bool
        Whether sums and their errors are integers, so that half widths are as well.
    """

    coordinate: ErrorLaw
    mean_square: float
    sampling: float = 0.0
    integers: bool = False


class Band(NamedTuple):
    """An interval for each coordinate."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class VectorResult(Printed):
    """An estimate of a sum of vectors, in the data's units.

    Attributes
    ----------
    estimate : (d,) ndarray of float
        Unbiased estimate of the sum over the users. Not clipped or projected.
    users : int
        Users who took part; public.
    domain : Domain
        Of the vectors.
    guarantee : Guarantee
        What is guaranteed to each user. Every further release adds to it.
    cost : Cost
        What was sent.
    error : VectorError
        How far off the estimate can be.
    """

    estimate: NDArray[np.float64]
    users: int
    domain: Domain
    guarantee: Guarantee
    cost: Cost
    error: VectorError = field(repr=False)

    @property
    def standard_error(self) -> float:
        """Bound on the root of the mean squared Euclidean error of the sum."""
        return math.sqrt(self.error.mean_square)

    def mean(self) -> NDArray[np.float64]:
        """Return the estimate of the mean over the users."""
        return self.estimate / self.users

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Band:
        """Return an interval for each coordinate of the true sum.

        Parameters
        ----------
        confidence : float
            Between 0 and 1: with at least this probability each interval contains its coordinate.
        simultaneous : bool
            With at least this probability all of them do, by a union bound.

        Returns
        -------
        Band
            ``low`` and ``high``, (d,) each; conservative, not asymptotic. Integers where the
            vectors were taken as they are: categories, signs, or a box with ``integers``.
        """
        miss = float(1 - number("confidence", confidence, above=0, below=1))
        if not miss:
            raise ValueError(f"confidence must be below 1 by a double, got {confidence!r}")
        if flag("simultaneous", simultaneous):
            miss /= self.estimate.size
        reach = self.error.coordinate.half_width(miss)
        rounding = np.spacing(np.abs(self.estimate) + reach)
        if self.error.integers:  # below 2^53, where doubles are even closer, they are exact
            rounding[rounding <= 1] = 0
        return Band(self.estimate - reach - rounding, self.estimate + reach + rounding)

    def __str__(self) -> str:
        d = self.estimate.size
        each = math.sqrt(self.error.coordinate.mean_square)
        scale = max(each, 100.0) if self.error.integers else each  # integers have no decimals
        shown = ", ".join(figures(value, scale) for value in self.estimate[:4])
        return "\n".join(
            (
                f"sum       ({shown}{', ...' if d > 4 else ''}), {d:,} coordinates",
                f"error     {at_least(self.standard_error, 4)} (Euclidean norm, root mean square, "
                f"at most); {at_least(each, 4)} at most for any one coordinate",
                *footer(self.guarantee, str(self.cost), self.users),
            )
        )


@runtime_checkable
class VectorProtocol(Protocol):
    """A differentially private protocol for the sum of everybody's vectors.

    An object holds public parameters only; `report` is the client's part (`randomize` plays all
    clients at once), `shuffle` that of the shufflers, `analyze` the analyzer's, and `run` plays
    all.
    """

    @property
    def n(self) -> int:
        """Users."""

    @property
    def min_honest(self) -> int:
        """How many users must be honest and present; fewer reports are refused."""

    @property
    def domain(self) -> Domain:
        """Where the vectors lie."""

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run, of the view and so of the estimate."""

    @property
    def mse(self) -> float:
        """Bound on the mean of the squared Euclidean norm of the error of the sum of all n."""

    @property
    def influence(self) -> float:
        """Greatest Euclidean distance that one user's messages alone can move the estimate.

        In the data's units, with messages of the right kind and everybody else's fixed. Lying about
        one's vector moves it by up to the diameter of the domain in any protocol.
        """

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` send: from 1 to n, all n by default."""

    def report(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages: what a client sends."""

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return everybody's messages, row j for shuffler j.

        Of shape (messages, k), or with a third axis for the coordinates.
        """

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return what the analyzer sees of them."""

    def analyze(self, view: View) -> VectorResult:
        """Return the estimate for a view."""

    def run(self, x: ArrayLike, rng: RandomSource | None = None) -> VectorResult:
        """Run the protocol on everybody's vectors, here."""


class VectorBaseline(Reports):
    """What the protocols share: users with vectors of a domain, and a run made of the three parts.

    Frozen dataclasses, see `ikos.aggregation.base.Reports`.
    """

    domain: Domain

    # What each protocol defines

    @property
    @abstractmethod
    def influence(self) -> float:
        """Greatest Euclidean distance that one user's messages alone can move the estimate."""

    @abstractmethod
    def error(self, users: int) -> VectorError:
        """Return what is known of the error of a sum over so many users."""

    @abstractmethod
    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        """Return the messages, (messages, k), of some users with checked vectors."""

    @abstractmethod
    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        """Return the estimate of the sum, (d,), in the data's units."""

    # What follows for all of them

    @property
    def dimension(self) -> int:
        """Coordinates."""
        return self.domain.dimension

    @property
    def mse(self) -> float:
        """Bound on the mean of the squared Euclidean norm of the error of the sum of all n."""
        return self.error(self.n).mean_square

    def report(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages.

        Parameters
        ----------
        x : (d,) array_like of float
            A vector of the domain.
        rng : RandomSource, optional
            Secure randomness by default.
        """
        row = self._vector(x).astype(np.float64)
        return self._messages(row, secure(rng))[:, 0].copy()

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return everybody's messages.

        Parameters
        ----------
        x : (k, d) array_like of float
            Vectors of the domain, ``min_honest <= k <= n``.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (messages, k) ndarray
            Row j is what goes to shuffler j.

        Raises
        ------
        ValueError
            Also if the messages would have more than 2^28 entries: `run` takes blocks.
        """
        values = self._vectors(x)
        entries = values.shape[0] * self.cost().messages_per_user
        if entries > MAX_ENTRIES:
            raise ValueError(
                f"x has {values.shape[0]:,} users who send {entries:,.0f} messages, more than "
                f"{MAX_ENTRIES:,} at a time; use run, or fewer users"
            )
        return self._all_messages(values, secure(rng))

    def analyze(self, view: View) -> VectorResult:
        """Return the estimate of the sum over the users of a view.

        Raises
        ------
        ValueError
            If the view is not one of this protocol's, of at least ``min_honest`` users.
        """
        users = self._checked_view(view)
        return self._result(self._totals(view, users), users)

    def run(self, x: ArrayLike, rng: RandomSource | None = None) -> VectorResult:
        """Run the protocol on everybody's vectors, here.

        Parameters
        ----------
        x : (k, d) array_like of float
            Vectors of the domain, ``min_honest <= k <= n``. Worked on in blocks of users: beside
            them memory holds what the shufflers do.
        rng : RandomSource, optional
            Secure randomness by default.

        Raises
        ------
        TypeError, ValueError
            If a vector is not of the domain (one with NaN is not), or there are too few or too
            many. Nothing is clipped.
        """
        source = secure(rng)
        result = self._play(self._vectors(x), source)
        return replace(result, guarantee=result.guarantee.of_run(source))

    def _play(self, values: NDArray[Any], rng: RandomSource) -> VectorResult:
        """Return everybody's result; overridden where the same law takes less memory."""
        return self.analyze(self.shuffle(self._all_messages(values, rng), rng))

    def _result(self, totals: NDArray[np.float64], users: int) -> VectorResult:
        totals.setflags(write=False)
        return VectorResult(
            estimate=totals,
            users=users,
            domain=self.domain,
            guarantee=self.guarantee,
            cost=self.cost(users),
            error=self.error(users),
        )

    def _all_messages(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return everybody's messages, made in blocks of users."""
        parts = [self._messages(rows, rng) for rows in self._rows(values)]
        return np.concatenate(parts, axis=1)

    def _rows(self, values: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
        """Yield checked vectors, some users at a time."""
        for part in blocks(values.shape[0], max(1, BLOCK // self.dimension)):
            yield values[part].astype(np.float64)

    def _vectors(self, x: ArrayLike) -> NDArray[Any]:
        """Return everybody's vectors, checked; a protocol that takes fewer narrows this."""
        values = self.domain.vectors(x)
        check_participation("x", values.shape[0], self.min_honest, self.n)
        return values

    def _vector(self, x: ArrayLike) -> NDArray[Any]:
        """Return one user's vector, checked, as one row."""
        return self.domain.vector(x)
