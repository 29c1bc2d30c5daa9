"""The interface of all private protocols for sums, and the common part of the baselines."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import check_participation, choice, number, refuse_missing
from ikos.data.domains import Domain
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.shuffling import MESSAGE_ORDERS, View, shuffle
from ikos.results.error import SumError
from ikos.results.sums import Cost, Guarantee, SumResult, at_least, footer
from ikos.sums.ledger import Ledger, enter_run

__all__ = ["BaseProtocol", "SumProtocol"]

MAX_USERS = 10**9

MIN_EPSILON, MAX_EPSILON = math.nextafter(1e-6, 0), 100.0
MIN_DELTA = math.nextafter(1e-100, 0)  # so that the decimals themselves are allowed

BLOCK = 1 << 21  # entries of the users' vectors processed at a time
MAX_ENTRIES = 1 << 28  # in an array of messages


@runtime_checkable
class SumProtocol(Protocol):
    """A differentially private protocol for the sum of all users' values, numbers or vectors.

    All private sums and baselines have these members, so that one loop can compare them. An object
    holds public parameters only. `report` is the client's part (`randomize` that of all clients),
    `shuffle` the shufflers' (in the central model, the curator's), `analyze` the analyzer's, and
    `run` executes all parts.
    """

    @property
    def n(self) -> int:
        """Users."""

    @property
    def min_honest(self) -> int:
        """How many users must be honest and present; fewer reports are refused."""

    @property
    def domain(self) -> Domain:
        """The domain of the values, public bounds on numbers or a set of vectors."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each user for one run, for the view and so for the estimate."""

    @property
    def mse(self) -> float:
        """Bound on the mean squared error (of vectors, in Euclidean norm) over all n users."""

    @property
    def influence(self) -> float:
        """Greatest distance by which one user's valid messages alone can move the estimate.

        In any protocol, a user who lies about its value moves the estimate by up to the diameter of
        the domain.
        """

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users``, from 1 to n, send; all n by default."""

    def report(self, x: Any, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages: what a client sends."""

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return all users' messages, (messages, k) or (messages, k, d), row j for shuffler j."""

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return what the analyzer sees of the messages."""

    def analyze(self, view: View) -> SumResult:
        """Return the estimate for a view."""

    def run(
        self, x: ArrayLike, rng: RandomSource | None = None, *, ledger: Ledger | None = None
    ) -> SumResult:
        """Run the protocol on all users' values, in this process, entered in a ledger before."""


def checked_epsilon(epsilon: object) -> Fraction:
    """Check and return the budget of a purely private protocol."""
    return number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)


def budget(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    """Check and return a budget with a positive delta."""
    return checked_epsilon(epsilon), number("delta", delta, low=MIN_DELTA, below=1)


class BaseProtocol(ABC):
    """A `SumProtocol` made of parts; subclasses are frozen dataclasses of public parameters."""

    n: int
    min_honest: int
    domain: Domain

    # Each protocol defines

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee of each user for one run."""

    @property
    @abstractmethod
    def influence(self) -> float:
        """Greatest distance by which one user's messages alone can move the estimate."""

    @abstractmethod
    def error(self, users: int) -> SumError:
        """Return bounds on the error of a sum over this many users."""

    @abstractmethod
    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""

    @abstractmethod
    def _messages(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return the messages, (messages, k), of users with checked values."""

    @abstractmethod
    def _users_of(self, view: View) -> int:
        """Return how many users' messages a view holds; ValueError for another protocol's view."""

    @abstractmethod
    def _totals(self, view: View, users: int) -> Any:
        """Return the estimate of the sum in the data's units: a float, or (d,)."""

    @property
    @abstractmethod
    def _particulars(self) -> str:
        """What the printed form says besides users, error and guarantee."""

    @property
    def _shuffler(self) -> str:
        """Return "parallel" for one shuffler per row, or "single" for one for all rows."""
        return "parallel"

    # All of them share

    @property
    def dimension(self) -> int:
        """Coordinates; 1 for numbers."""
        return self.domain.dimension

    @property
    def mse(self) -> float:
        """Bound on the mean squared error of the sum over all n users, whatever their values."""
        return self.error(self.n).mean_square

    def report(self, x: Any, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages for a value of the domain."""
        value = self._taken(self.domain.value(x)).astype(np.float64)
        return self._messages(value, secure(rng))[:, 0].copy()

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return the messages of ``min_honest`` to n users."""
        values = self._values(x)
        entries = values.shape[0] * self.cost().messages_per_user
        if entries > MAX_ENTRIES:
            raise ValueError(
                f"x has {values.shape[0]} users who send {entries:.0f} messages, more than "
                f"{MAX_ENTRIES} at a time; use run, or fewer users"
            )
        return self._all_messages(values, secure(rng))

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return a column of messages for each shuffler, as `ikos.SecureSum.shuffle` does."""
        self._arrived(messages, order)
        columns = shuffle(messages, shuffler=self._shuffler, order=order, rng=secure(rng))
        return View(columns, None)

    def analyze(self, view: View) -> SumResult:
        """Return the estimate for a view of at least ``min_honest`` users."""
        if not isinstance(view, View):
            raise TypeError(f"view must be a View, got {type(view).__name__}")
        users = self._users_of(view)
        check_participation("view", users, self.min_honest, self.n)
        return self._result(self._totals(view, users), users)

    def run(
        self, x: ArrayLike, rng: RandomSource | None = None, *, ledger: Ledger | None = None
    ) -> SumResult:
        """Run the protocol on all users' values, in this process, some users at a time.

        Values outside the domain, NaN included, are refused, not clipped. With a ``ledger``, the
        run is entered before anything is drawn, and refused if it would overspend.
        """
        source, values = secure(rng), self._values(x)
        enter_run(ledger, self)
        result = self._play(values, source)
        return replace(result, guarantee=result.guarantee.of_run(source))

    def _play(self, values: NDArray[Any], rng: RandomSource) -> SumResult:
        """Return the result of a run; overridden if no view is needed."""
        return self.analyze(self._view(values, rng))

    def _view(self, values: NDArray[Any], rng: RandomSource) -> View:
        """Return the view of a run; overridden if it takes fewer passes."""
        return self.shuffle(self._all_messages(values, rng), rng)

    def _result(self, total: Any, users: int) -> SumResult:
        if isinstance(total, np.ndarray):
            total.setflags(write=False)
        return SumResult(
            estimate=total,
            users=users,
            domain=self.domain,
            guarantee=self.guarantee,
            cost=self.cost(users),
            error=self.error(users),
        )

    def _all_messages(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return all users' messages; for vectors, made in blocks of users."""
        if values.ndim == 1:
            return self._messages(values, rng)
        return np.concatenate([self._messages(rows, rng) for rows in self._rows(values)], axis=1)

    def _rows(self, values: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
        """Yield checked vectors, some users at a time."""
        for part in blocks(values.shape[0], max(1, BLOCK // self.dimension)):
            yield values[part].astype(np.float64)

    def _values(self, x: ArrayLike) -> NDArray[Any]:
        """Return all users' values, checked."""
        values = self.domain.values(x)
        check_participation("x", values.shape[0], self.min_honest, self.n)
        return self._taken(values)

    def _taken(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of the domain; overridden if not all of them are accepted."""
        return values

    def _arrived(
        self,
        messages: NDArray[Any],
        order: str,
        *,
        rows: int | None = None,
        most: int | None = None,
    ) -> None:
        """Refuse anything but messages of enough users, ``rows`` of each, from 0 to ``most``."""
        choice("order", order, MESSAGE_ORDERS)
        if not isinstance(messages, np.ndarray):
            raise TypeError(f"messages must be a numpy array, got {type(messages).__name__}")
        if refuse_missing("messages", messages).ndim != 2 or messages.dtype.kind not in "iuO":
            raise ValueError(
                "messages must be integers of shape (messages, users), got "
                f"{messages.dtype} of shape {messages.shape}"
            )
        check_participation("messages", messages.shape[1], self.min_honest, self.n)
        if rows is not None and messages.shape[0] != rows:
            raise ValueError(f"messages must be {rows} of each user, got {messages.shape[0]}")
        if most is not None and messages.size and not 0 <= messages.min() <= messages.max() <= most:
            raise ValueError(f"messages must be in [0, {most}]; there are others (not shown)")

    def __repr__(self) -> str:
        honest = f", min_honest={self.min_honest}" if self.min_honest < self.n else ""
        about = f"{type(self).__name__} n={self.n}{honest}, {self._particulars}"
        return f"<{about}; mean squared error at most {at_least(self.mse, 4)}; {self.guarantee}>"

    def __str__(self) -> str:
        title = f"{type(self).__name__} of {self.n:,} user{'s' * (self.n > 1)}"
        error = f"error     {at_least(math.sqrt(self.mse), 4)} (root mean square, at most)"
        rest = footer(self.guarantee, str(self.cost()), self.n)
        return "\n".join((f"{title}, {self._particulars}", error, *rest))
