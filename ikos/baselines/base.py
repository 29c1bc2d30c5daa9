"""The common part of published protocols: parameters, claims and views."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, round_up, validate_users
from ikos.data.domains import Bounds, Domain
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.shuffling import View, release
from ikos.results.error import SumError
from ikos.results.sums import ONE_REPORT, Cost, Guarantee
from ikos.sums.protocol import MAX_USERS, BaseProtocol, budget, checked_epsilon


@dataclass(frozen=True, init=False, repr=False)
class Baseline(BaseProtocol):
    """A protocol for the sum of numbers or of vectors.

    A subclass's constructor checks its arguments with ``_ask``, sets the parameters that it
    finds with ``_set``, and states what follows from them with ``_claim``.

    Parameters
    ----------
    n : int
        Number of users, at most 10^9; public.
    domain : Domain
        The set of the users' vectors. Protocols for numbers instead take their public bounds
        ``lower`` and ``upper``, by default 0 and 1.
    epsilon, delta : float
        The guarantee, under replacement of one user's value. Purely private protocols have no
        ``delta``.
    min_honest : int, optional
        How many users must be honest and present, ``n`` by default: the guarantee counts on the
        random answers or the noise of this many, and fewer reports are refused.
    """

    n: int
    domain: Domain
    epsilon: Fraction
    delta: Fraction
    min_honest: int

    def _ask(
        self,
        n: object,
        domain: Domain,
        epsilon: object,
        delta: object = None,
        min_honest: object = None,
        kinds: tuple[type[Domain], ...] = (),
    ) -> None:
        """Check and set the parameters; a ``delta`` of None is for purely private protocols."""
        users = honest = integer("n", n, low=1, high=MAX_USERS)
        if min_honest is not None:
            honest = integer("min_honest", min_honest, low=1, high=users)
        if kinds and not isinstance(domain, kinds):
            names = " or a ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"domain must be a {names}, got {type(domain).__name__}")
        eps = checked_epsilon(epsilon)
        small = Fraction(0) if delta is None else budget(epsilon, delta)[1]
        self._set(n=users, domain=domain, epsilon=eps, delta=small, min_honest=honest)

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _claim(
        self,
        settings: str,
        theorem: str,
        *conditions: str,
        influence: float,
        sent: tuple[float, float] = (1, 1),
        random: str = "answers",
        reports: str = ONE_REPORT,
        delta: float | None = None,
        local: bool = False,
    ) -> None:
        """State the guarantee and the cost: messages per user, and bits per message.

        ``settings`` is for the printed form; ``delta`` is the proved one, if not the one asked for.
        ``local`` means that each message is private by itself, and the analyzer knows who sent it.
        """
        public = f"the number of users is public; {random} are pseudorandom (AES-256)"
        proved = round_up(self.delta) if delta is None else delta
        all_conditions = (*conditions, reports, public)
        guarantee = Guarantee(round_up(self.epsilon), proved, theorem, all_conditions)
        self._set(_settings=settings, _guarantee=guarantee, _influence=influence)
        self._set(_sent=sent, _local=local)

    _settings: str
    _guarantee: Guarantee
    _influence: float
    _sent: tuple[float, float]
    _local: bool

    @property
    def _budget(self) -> tuple[Fraction, Fraction, int]:
        """Epsilon, delta, and the number of honest users."""
        return self.epsilon, self.delta, self.min_honest

    @property
    def _answering(self) -> str:
        """The condition that enough users answer at random."""
        return f"while at least {self.min_honest:,} of {self.n:,} users answer at random as asked"

    @property
    def _particulars(self) -> str:
        return self._settings

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each user for one run, for the view and so for the estimate."""
        return self._guarantee

    @property
    def influence(self) -> float:
        """Greatest distance by which one user's messages can move the estimate, in data units."""
        return self._influence

    def error(self, users: int) -> SumError:
        """Return bounds on the error of a sum over this many users."""
        return self._error(validate_users(users, self.n))

    @abstractmethod
    def _error(self, users: int) -> SumError:
        """Return bounds on the error for 1 to n users."""

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send; means if it is random."""
        messages, bits = self._sent
        return Cost(validate_users(users, self.n), messages, bits)

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return a column for each shuffler; in the local model, who sent what."""
        self._arrived(messages, order, rows=int(self._sent[0]))
        if not self._local:
            return super().shuffle(messages, rng, order=order)
        clear = messages[0].copy()
        clear.setflags(write=False)
        return View((), clear)

    def _columns(self, view: View, what: str, count: int = 1) -> tuple[NDArray[Any], ...]:
        """Return the columns of a view, one in the local model; ValueError for another view."""
        clear = () if view.clear is None else (view.clear,)
        columns, others = (clear, view.columns) if self._local else (view.columns, clear)
        if others or len(columns) != count or len({column.size for column in columns}) > 1:
            where = "in clear" if self._local else f"in {count} equal columns"
            raise ValueError(f"view must hold {what} {where}, got {view!r}")
        return columns

    def _below(self, view: View, what: str, *ends: int) -> tuple[NDArray[Any], ...]:
        """Return columns of integers, each from 0 to below its end, or raise ValueError."""
        columns = self._columns(view, what, len(ends))
        for column, end in zip(columns, ends, strict=True):
            if not are_below(column, end):
                raise ValueError(f"view must hold {what} from 0 to {end - 1}; there are others")
        return columns


@dataclass(frozen=True, init=False, repr=False)
class NumberBaseline(Baseline):
    """A protocol for numbers."""

    domain: Bounds


@dataclass(frozen=True, init=False, repr=False)
class Padded(Baseline):
    """A protocol whose users send different numbers of messages; 0 stands for none."""

    def report(self, x: Any, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages; possibly none."""
        messages = super().report(x, rng)
        return np.asarray(messages[messages != 0])

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return what the analyzer sees: all messages, mixed, and the number of users."""
        self._arrived(messages, order)
        mixed = release(messages[messages != 0], order, secure(rng))
        return read_only_view(mixed, np.array([messages.shape[1]]))

    def _counted(
        self, view: View, what: str, most: int, least: int = 1
    ) -> tuple[NDArray[Any], int]:
        """Return the messages and the number of users of a view, or raise ValueError."""
        if len(view.columns) != 2 or view.clear is not None or view.columns[1].size != 1:
            raise ValueError(f"view must hold one column of {what}, and the number of users")
        column = view.columns[0]
        if column.dtype.kind not in "iu":
            raise ValueError(f"view must hold integers, got an array of {column.dtype}")
        if (column.size and not least <= column.min() <= column.max() <= most) or 0 in column:
            raise ValueError(f"view must hold {what} from {least} to {most}")
        return column, int(view.columns[1][0])


def read_only_view(*columns: NDArray[Any]) -> View:
    """Return a view of columns, which become read-only."""
    for column in columns:
        column.setflags(write=False)
    return View(columns, None)


def numbers_of(view: View, what: str, size: int) -> NDArray[Any]:
    """Return the one column of a view of a few numbers; ValueError for another view."""
    if view.clear is not None or len(view.columns) != 1 or view.columns[0].size != size:
        raise ValueError(f"view must hold {what}, got {view!r}")
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
