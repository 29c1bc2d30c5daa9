"""The common part of published protocols: parameters and what follows from them, runs, views."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    MAX_PROTOCOL_USERS,
    InvalidType,
    InvalidValue,
    choice,
    integer,
    number,
    refuse_missing,
    round_up,
    validate_users,
)
from ikos.accounting.digits_bbgn20 import checked_budget
from ikos.accounting.shuffled_response import MAX_EPSILON, MIN_EPSILON
from ikos.data.domains import Bounds, Domain
from ikos.data.reading import Participation
from ikos.numeric.distributions import Distribution
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.shuffling import MESSAGE_ORDERS, View, release, shuffle
from ikos.results.conditions import ONE_REPORT, Condition, answering, pseudorandom
from ikos.results.error import NoisySum, SumError
from ikos.results.guarantees import Guarantee
from ikos.results.sums import Cost, SumResult, footer
from ikos.results.text import at_least
from ikos.sums.ledger import Ledger, enter_run

ENTRIES_PER_PASS = 1 << 21  # of the users' vectors
MAX_ENTRIES = 1 << 28  # of an array of messages


@dataclass(frozen=True, repr=False)
class ProtocolTerms:
    """The parameters of every protocol, checked."""

    n: int
    domain: Domain
    epsilon: Fraction
    delta: Fraction
    min_honest: int

    @property
    def _budget(self) -> tuple[Fraction, Fraction, int]:
        """Epsilon, delta, and the number of honest users, as accountants take them."""
        return self.epsilon, self.delta, self.min_honest

    @property
    def _participation(self) -> Participation:
        """The users, and how many of them must take part."""
        return Participation(self.n, self.min_honest)


def checked(
    n: object,
    domain: Domain,
    epsilon: object,
    delta: object = None,
    min_honest: object = None,
    kinds: tuple[type[Domain], ...] = (),
    *,
    pure: bool = False,
) -> ProtocolTerms:
    """Return the terms of a protocol, checked; a protocol with pure DP takes no ``delta``."""
    users = honest = integer("n", n, low=1, high=MAX_PROTOCOL_USERS)
    if min_honest is not None:
        honest = integer("min_honest", min_honest, low=1, high=users)
    if kinds and not isinstance(domain, kinds):
        names = " or a ".join(kind.__name__ for kind in kinds)
        raise InvalidType("domain", f"must be a {names}, got {type(domain).__name__}")
    if pure:
        budget = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON), Fraction(0)
    else:
        budget = checked_budget(epsilon, delta)
    return ProtocolTerms(users, domain, *budget, honest)


def refuse_unproved(name: str, proved: float, terms: ProtocolTerms) -> None:
    """Refuse a caller's probabilities of random answers that prove too large a delta."""
    if proved > terms.delta:
        found = f"a delta of {at_least(proved, 3)}" if proved < 1 else "nothing"
        raise InvalidValue(
            name,
            f"must ask for more random answers: for epsilon = {float(terms.epsilon):g} and "
            f"{terms.min_honest} users it proves {found}, where delta = "
            f"{float(terms.delta):.3g} is wanted",
        )


@dataclass(frozen=True)
class Description:
    """The properties that follow from a protocol's parameters; ``settings`` is their printed form.

    ``sent`` are messages per user and bits per message: integers if they are the same for all,
    otherwise means. ``local``: each message is private by itself, and the analyzer knows its user.
    """

    settings: str
    guarantee: Guarantee
    influence: float
    sent: tuple[int | float, int | float]
    local: bool


@dataclass(frozen=True, init=False, repr=False)
class Baseline(ProtocolTerms, ABC):
    """A protocol for the sum of numbers or of vectors.

    A subclass's constructor checks its arguments, with ``checked`` first, computes its parameters,
    and sets all of them with one call of ``_init``. What follows from them is in ``_describe``.

    Parameters
    ----------
    n : int
        Number of users, at most 10^9; public.
    domain : Domain
        The set of the users' vectors. Protocols for numbers instead take their public bounds
        ``lower`` and ``upper``, by default 0 and 1, and ``integers``: a promise that the values are
        integers between integer bounds, so that others are refused, and none is rounded where the
        steps of the encoding are a multiple of ``upper - lower``, the default ``precision`` then.
    epsilon, delta : float
        The guarantee, under replacement of one user's value. Protocols with pure differential
        privacy take no ``delta``.
    min_honest : int, optional
        Minimum number of users who are honest and do not drop out, ``n`` by default: the guarantee
        counts on their random answers or noise, and fewer reports are refused.
    """

    _description: Description

    def _init(self, terms: ProtocolTerms, **parameters: object) -> None:
        """Set the fields, which are final, and the description that follows from them."""
        vars(self).update(vars(terms) | parameters)
        vars(self)["_description"] = self._describe()

    # Each protocol defines

    @abstractmethod
    def _describe(self) -> Description:
        """Return what follows from the parameters, with ``_described``."""

    @abstractmethod
    def _error(self, users: int) -> SumError:
        """Return bounds on the error for 1 to n users."""

    @abstractmethod
    def _messages(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return the messages, (messages, k), of users with checked values."""

    @abstractmethod
    def _users_of(self, view: View) -> int:
        """Return how many users' messages a view holds; ValueError for another protocol's view."""

    @abstractmethod
    def _totals(self, view: View, users: int) -> Any:
        """Return the estimate of the sum in the data's units: a float, or (d,)."""

    # and can override

    @property
    def _shuffler(self) -> str:
        """Return "parallel" for one shuffler per row, or "single" for one for all rows."""
        return "parallel"

    def _accepted(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of the domain; overridden if not all of them are accepted."""
        return values

    def _play(self, values: NDArray[Any], rng: RandomSource) -> SumResult:
        """Return the result of a run; overridden if no view is needed."""
        return self.analyze(self._view(values, rng))

    def _view(self, values: NDArray[Any], rng: RandomSource) -> View:
        """Return the view of a run; overridden if it takes fewer passes."""
        return self.shuffle(self._all_messages(values, rng), rng)

    # All of them share

    def _described(
        self,
        settings: str,
        theorem: str,
        *conditions: Condition,
        influence: float,
        sent: tuple[int | float, int | float] = (1, 1),
        random: str = "answers",
        reports: Condition = ONE_REPORT,
        delta: float | None = None,
        local: bool = False,
    ) -> Description:
        """Return a description with the guarantee of a theorem.

        ``delta`` is the proved one, if not the requested one; ``random`` names what is
        pseudorandom.
        """
        proved = round_up(self.delta) if delta is None else delta
        all_conditions = (*conditions, reports, pseudorandom(random))
        guarantee = Guarantee(round_up(self.epsilon), proved, theorem, all_conditions)
        return Description(settings, guarantee, influence, sent, local)

    @property
    def _answering(self) -> Condition:
        """The condition that enough users answer at random."""
        return answering(self.min_honest, self.n)

    @property
    def dimension(self) -> int:
        """Coordinates; 1 for numbers."""
        return self.domain.dimension

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each user for one run, for the view and so for the estimate."""
        return self._description.guarantee

    @property
    def influence(self) -> float:
        """Greatest distance by which one user's messages can move the estimate, in data units."""
        return self._description.influence

    def error(self, users: int) -> SumError:
        """Return bounds on the error of a sum over this many users."""
        return self._error(validate_users(users, self.n))

    @property
    def mse(self) -> float:
        """Bound on the mean squared error of the sum over all n users, whatever their values."""
        return self.error(self.n).mean_square

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send; means if it is random."""
        return Cost(validate_users(users, self.n), *self._description.sent)

    def report(self, x: Any, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages for a value of the domain."""
        value = self._accepted(self.domain.value(x)).astype(np.float64)
        return self._messages(value, secure(rng))[:, 0].copy()

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return the messages of ``min_honest`` to n users."""
        values = self._values(x)
        entries = values.shape[0] * self.cost().messages_per_user
        if entries > MAX_ENTRIES:
            raise InvalidValue(
                "x",
                f"has {values.shape[0]} users who send {entries:.0f} messages, more than "
                f"{MAX_ENTRIES} at a time; use run, or fewer users",
            )
        return self._all_messages(values, secure(rng))

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return a column for each shuffler; in the local model, messages in the users' order."""
        self._check_messages(messages, order, rows=int(self._description.sent[0]))
        if not self._description.local:
            source = secure(rng)
            return View(shuffle(messages, shuffler=self._shuffler, order=order, rng=source), None)
        clear = messages[0].copy()
        clear.setflags(write=False)
        return View((), clear)

    def analyze(self, view: View) -> SumResult:
        """Return the estimate for a view of at least ``min_honest`` users."""
        if not isinstance(view, View):
            raise InvalidType("view", f"must be a View, got {type(view).__name__}")
        users = self._users_of(view)
        self._participation.check("view", users)
        return self._result(self._totals(view, users), users)

    def run(
        self, x: ArrayLike, rng: RandomSource | None = None, *, ledger: Ledger | None = None
    ) -> SumResult:
        """Run the protocol on all users' values, in this process, some users at a time.

        Values outside the domain, NaN included, are refused, not clipped. With a ``ledger``, the
        run is recorded before anything is drawn, and refused if it would exceed the budget.
        """
        source, values = secure(rng), self._values(x)
        enter_run(ledger, self)
        result = self._play(values, source)
        return replace(result, guarantee=result.guarantee.of_run(source))

    def _result(self, total: Any, users: int) -> SumResult:
        if isinstance(total, np.ndarray):
            total = self.domain.shaped(total)[0]
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
        for part in blocks(values.shape[0], max(1, ENTRIES_PER_PASS // self.dimension)):
            yield values[part].astype(np.float64)

    def _values(self, x: ArrayLike) -> NDArray[Any]:
        """Return all users' values, checked."""
        values = self.domain.values(x)
        self._participation.check("x", values.shape[0])
        return self._accepted(values)

    def _check_messages(
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
            raise InvalidType("messages", f"must be a numpy array, got {type(messages).__name__}")
        if refuse_missing("messages", messages).ndim != 2 or messages.dtype.kind not in "iuO":
            raise InvalidValue(
                "messages",
                "must be integers of shape (messages, users), got "
                f"{messages.dtype} of shape {messages.shape}",
            )
        self._participation.check("messages", messages.shape[1])
        if rows is not None and messages.shape[0] != rows:
            raise InvalidValue("messages", f"must be {rows} of each user, got {messages.shape[0]}")
        if most is not None and messages.size and not 0 <= messages.min() <= messages.max() <= most:
            raise InvalidValue("messages", f"must be in [0, {most}]; there are others (not shown)")

    def _columns(self, view: View, what: str, count: int = 1) -> tuple[NDArray[Any], ...]:
        """Return the columns of a view, one in the local model; ValueError for another view."""
        clear, local = () if view.clear is None else (view.clear,), self._description.local
        columns, others = (clear, view.columns) if local else (view.columns, clear)
        if others or len(columns) != count or len({column.size for column in columns}) > 1:
            where = "in clear" if local else f"in {count} equal columns"
            raise InvalidValue("view", f"must hold {what} {where}, got {view!r}")
        return columns

    def _below(self, view: View, what: str, *ends: int) -> tuple[NDArray[Any], ...]:
        """Return columns of integers, each from 0 to below its end, or raise ValueError."""
        columns = self._columns(view, what, len(ends))
        for column, end in zip(columns, ends, strict=True):
            if not are_below(column, end):
                raise InvalidValue(
                    "view", f"must hold {what} from 0 to {end - 1}; there are others"
                )
        return columns

    def __repr__(self) -> str:
        honest = f", min_honest={self.min_honest}" if self.min_honest < self.n else ""
        about = f"{type(self).__name__} n={self.n}{honest}, {self._description.settings}"
        return f"<{about}; mean squared error at most {at_least(self.mse, 4)}; {self.guarantee}>"

    def __str__(self) -> str:
        title = f"{type(self).__name__} of {self.n:,} user{'s' * (self.n > 1)}"
        error = f"error     {at_least(math.sqrt(self.mse), 4)} (root mean square, at most)"
        rest = footer(self.guarantee, str(self.cost()), self.n)
        return "\n".join((f"{title}, {self._description.settings}", error, *rest))


@dataclass(frozen=True, init=False, repr=False)
class NumberBaseline(Baseline):
    """A protocol for numbers."""

    domain: Bounds


def noisy_error(
    bounds: Bounds, noise: Distribution, precision: int, users: int, modulus: int | None = None
) -> SumError:
    """Return the error of a sum of encoded numbers with noise, rounded where the bounds say so."""
    rounded = bool(bounds.rounding(precision))
    return NoisySum(noise, precision, users, bounds.width, modulus, rounded=rounded).error()


@dataclass(frozen=True, init=False, repr=False)
class Padded(Baseline):
    """A protocol whose users send different numbers of messages; a message 0 stands for none."""

    def report(self, x: Any, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages; possibly none."""
        messages = super().report(x, rng)
        return np.asarray(messages[messages != 0])

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return what the analyzer sees: all messages, mixed, and the number of users."""
        self._check_messages(messages, order)
        mixed = release(messages[messages != 0], order, secure(rng))
        return read_only_view(mixed, np.array([messages.shape[1]]))

    def _counted(
        self, view: View, what: str, most: int, least: int = 1
    ) -> tuple[NDArray[Any], int]:
        """Return the messages and the number of users of a view, or raise ValueError."""
        if len(view.columns) != 2 or view.clear is not None or view.columns[1].size != 1:
            raise InvalidValue("view", f"must hold one column of {what}, and the number of users")
        column = view.columns[0]
        if column.dtype.kind not in "iu":
            raise InvalidValue("view", f"must hold integers, got an array of {column.dtype}")
        if (column.size and not least <= column.min() <= column.max() <= most) or 0 in column:
            raise InvalidValue("view", f"must hold {what} from {least} to {most}")
        return column, int(view.columns[1][0])


def read_only_view(*columns: NDArray[Any]) -> View:
    """Return a view of columns, which become read-only."""
    for column in columns:
        column.setflags(write=False)
    return View(columns, None)


def numbers_of(view: View, what: str, size: int) -> NDArray[Any]:
    """Return the one column of a view of a few numbers; ValueError for another view."""
    if view.clear is not None or len(view.columns) != 1 or view.columns[0].size != size:
        raise InvalidValue("view", f"must hold {what}, got {view!r}")
    return view.columns[0]


def are_below(column: NDArray[Any], end: int) -> bool:
    """Whether messages are integers from 0 to ``end`` - 1."""
    if column.dtype.kind not in "iuO":
        return False
    return not column.size or 0 <= int(column.min()) <= int(column.max()) < end


def exact_sums(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the sums over rows of integers of at most 2^62, as Python integers."""
    wide = rows.astype(np.int64, copy=False)
    low, high = (wide & 0xFFFFFFFF).sum(axis=0), (wide >> 32).sum(axis=0)
    return np.asarray(high.astype(object) * (1 << 32) + low.astype(object))


def draw_subsets(users: int, d: int, s: int, rng: RandomSource) -> NDArray[np.int64]:
    """Return a uniformly random set of s of d coordinates for each user, in a random order."""
    if 4 * s > d:
        return rng.permutations(users, d)[:, :s].astype(np.int64)
    result = np.empty((users, s), dtype=np.int64)
    for column in range(s):
        # uniform among the coordinates not taken, by rejection
        todo = np.arange(users)
        while todo.size:
            fresh = rng.uniform(d, todo.size).astype(np.int64)
            result[todo, column] = fresh
            taken = (result[todo, :column] == fresh[:, np.newaxis]).any(axis=1)
            todo = todo[taken]
    return result
