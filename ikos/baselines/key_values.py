"""Key-value data (WLQDLY21): vectors of -1, 0 and 1, where 0 stands for an absent key."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidValue, flag, number
from ikos.accounting.blanket import local_epsilon
from ikos.accounting.shuffled_response import MAX_EPSILON, MIN_EPSILON
from ikos.accounting.wlqdly21 import SupportVariances, set_response_theorem
from ikos.baselines.base import (
    Baseline,
    Description,
    ProtocolTerms,
    are_below,
    checked,
    draw_subsets,
)
from ikos.data.domains import MAX_BOUND, Bounds, Box, SparseTernary
from ikos.data.encoding import encode
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.shuffling import View
from ikos.results.conditions import Condition, Kind, alone
from ikos.results.error import Bounded, SumError
from ikos.results.sums import SumResult, at_least

_DRAWS_PER_PASS = 1 << 18


@dataclass(frozen=True, eq=False)
class KeyValueResult(SumResult):
    """An estimate of a sum of vectors of signs, and of how many users have each sign.

    Attributes
    ----------
    estimate, users, domain, guarantee, cost, error
        As for `SumResult`.
    counts : (d, 2) ndarray of float, or ``(*shape, 2)``
        Unbiased estimates of how many users have 1 (column 0) and -1 (column 1) at each coordinate.
        ``estimate`` is the difference of the columns.
    count_error : float
        Bound on the root mean squared error of each count.
    """

    counts: NDArray[np.float64]
    count_error: float

    def frequencies(self) -> NDArray[np.float64]:
        """Return the estimated fractions of users with 1, and -1, as ``counts``."""
        return self.counts / self.users

    def conditional_mean(self) -> NDArray[np.float64]:
        """Return the mean value at each coordinate over the users who have it.

        A ratio of two estimates, and so biased, more so if few users have the key; clipped to
        [-1, 1]. NaN if fewer users than twice the bound on the root mean squared error of their
        number are estimated to have the key.
        """
        having = self.counts.sum(axis=-1)
        # the root mean square of a sum of two is at most the sum of theirs
        many = having >= 4 * self.count_error
        ratio = np.full(having.shape, np.nan)
        ratio[many] = np.clip(self.estimate[many] / having[many], -1, 1)
        return ratio


def key_value_terms(
    n: object,
    domain: SparseTernary,
    epsilon: object,
    delta: object,
    local_epsilon: object,
    min_honest: object,
) -> tuple[ProtocolTerms, Fraction | None]:
    """Return the checked terms of a protocol, and the upper limit on its local epsilon."""
    shuffled = bool(number("delta", delta, low=0, below=1))
    if min_honest is None and not shuffled:
        min_honest = 1  # each message protects itself
    terms = checked(n, domain, epsilon, delta, min_honest, (SparseTernary,), pure=not shuffled)
    if local_epsilon is None:
        return terms, None
    if not shuffled:
        raise InvalidValue("local_epsilon", "is for a shuffled guarantee, with delta > 0")
    return terms, number("local_epsilon", local_epsilon, low=MIN_EPSILON, high=MAX_EPSILON)


@dataclass(frozen=True, init=False, repr=False)
class KeyValueBaseline(Baseline):
    """A protocol for key-value data: one message per user, counted by coordinate and sign.

    With delta = 0 the guarantee covers each message by itself, and the analyzer may know its
    sender. With a positive delta it covers all messages together, shuffled.

    Parameters
    ----------
    n, epsilon, delta
        As for `Baseline`.
    domain : SparseTernary
        The set of the vectors.
    local_epsilon : float, optional
        Upper limit on the epsilon of each message by itself, on top of the shuffled guarantee.
    min_honest : int, optional
        Minimum number of users who answer at random as prescribed; by default ``n``, or 1 if delta
        is 0.
    """

    domain: SparseTernary
    variances: SupportVariances

    def __init__(
        self,
        n: int,
        domain: SparseTernary,
        epsilon: float | Fraction,
        delta: float | Fraction = 0,
        *,
        local_epsilon: float | Fraction | None = None,
        min_honest: int | None = None,
    ) -> None:
        terms, most = key_value_terms(n, domain, epsilon, delta, local_epsilon, min_honest)
        self._init(terms, **self._calibrated(terms, most))

    @classmethod
    @abstractmethod
    def _calibrated(cls, terms: Any, most: Fraction | None) -> dict[str, object]:
        """Return the other fields for the terms, with a local epsilon of at most ``most``."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """The guarantee of each message by itself, with delta 0, rounded up."""

    @abstractmethod
    def _counts(self, column: NDArray[Any]) -> NDArray[np.float64]:
        """Return the estimated counts, (d, 2), for the messages of a view."""

    @abstractmethod
    def _valid(self, column: NDArray[Any]) -> bool:
        """Whether all messages are valid in this protocol."""

    _exactly: ClassVar[bool] = False
    """Whether vectors must have as many entries as the sparsity."""

    @property
    def _events(self) -> int:
        """Number of events that are counted: each sign of each coordinate."""
        return 2 * self.dimension

    def _counts_described(
        self, settings: str, theorem: str, *, influence: float, bits: int
    ) -> Description:
        """Return a description with the guarantee of each message, or of all of them shuffled."""
        conditions = [Condition(Kind.SCOPE, "of each message by itself: no one is trusted")]
        if self.delta:
            conditions = [
                self._answering,
                alone(),
                Condition(
                    Kind.SCOPE,
                    f"each message is ({at_least(self.local_epsilon, 4)}, 0)-private by itself, "
                    "also without the shuffler",
                ),
            ]
        return self._described(
            f"{self.domain}, {settings}",
            theorem,
            *conditions,
            influence=influence,
            sent=(1, bits),
            local=not self.delta,
        )

    def _error(self, users: int) -> SumError:
        each = self.variances
        d, s = self.domain.dimension, self.domain.sparsity
        return SumError(
            Bounded(users * max(each.nonzero, each.zero), each.largest),
            users * each.mean_square(d, s, exactly=self._exactly),
            users * each.sampling,
        )

    def _column(self, view: View) -> NDArray[Any]:
        (column,) = self._columns(view, "one message of each user")
        if not self._valid(column):
            raise InvalidValue("view", "must hold messages of this protocol; there are others")
        return column

    def _users_of(self, view: View) -> int:
        return int(self._column(view).size)

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:  # noqa: ARG002
        return self._counts(self._column(view))

    def _result(self, total: NDArray[np.float64], users: int) -> KeyValueResult:
        """Return the result of estimated counts, (d, 2)."""
        result = super()._result(total[:, 0] - total[:, 1], users)
        counts = np.moveaxis(self.domain.shaped(total.T), 0, -1)
        counts.setflags(write=False)
        shared = {field.name: getattr(result, field.name) for field in fields(result)}
        square = users * max(self.variances.present, self.variances.absent)
        return KeyValueResult(**shared, counts=counts, count_error=math.sqrt(square))


@dataclass(frozen=True, init=False, repr=False)
class SetResponse(KeyValueBaseline):
    """A message that is an answer from the user's set, or with probability ``gamma`` any answer.

    It consists of a seed of some bits, if there is one, and an integer below ``_alphabet``, the
    number of answers. ``_answers`` is the inverse of the fraction of them in one user's set.
    """

    gamma: Fraction
    _alphabet: int
    _answers: Fraction

    @property
    def _accounted(self) -> Fraction:
        """The value of ``_answers`` for the accountant of shuffled messages."""
        return self._answers

    @property
    def local_epsilon(self) -> float:
        """The guarantee of each message by itself, with delta 0, rounded up."""
        return local_epsilon(self._answers, self.gamma)

    def _response_described(
        self, settings: str, response: str, *, influence: float, seed_bits: int = 0
    ) -> Description:
        """Return a description with what is proved for a response."""
        if self.delta:
            response += f": {set_response_theorem(*self._budget, self._accounted, self.gamma)}"
        return self._counts_described(
            f"{settings} answered at random with probability {float(self.gamma):.4g}",
            response,
            influence=influence,
            bits=seed_bits + (self._alphabet - 1).bit_length(),
        )

    def _valid(self, column: NDArray[Any]) -> bool:
        return are_below(column, self._alphabet)


def events_of(rows: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return users and their events, ordered by user; event 2j + 1 is -1 at j."""
    user, coordinate = np.nonzero(rows)
    return user, 2 * coordinate + (rows[user, coordinate] < 0)


@dataclass(frozen=True)
class Ternarizer:
    """Turns real vectors, such as gradients, into random vectors of -1, 0 and 1.

    For each vector, a uniformly random set of ``sparsity`` coordinates is drawn. A drawn value v
    becomes its sign with probability abs(v)/bound, and otherwise 0 (as in TernGrad); or, without
    ``zeros``, 1 with probability (1 + v/bound)/2 and otherwise -1. The others become 0. The
    expectation is the vector divided by ``scale``. No privacy rests on it.

    Parameters
    ----------
    dimension, sparsity : int
        Number of coordinates of a vector, and of those drawn.
    bound : float
        Largest absolute value of a coordinate; public. Larger values are refused, not clipped.
    shape : tuple of int, optional
        Shape of values and results, as for `Box`.
    zeros : bool
        Whether drawn values may become 0. If not, every result has exactly ``sparsity`` nonzero
        entries, as `PCKVGRR` requires, and more variance.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> ternarizer = Ternarizer(4, 2, bound=0.5)
    >>> x = np.full((1000, 4), [0.25, -0.25, 0.5, 0.0])
    >>> signs = ternarizer(x, DeterministicRandom(0))
    >>> bool((np.abs(ternarizer.scale * signs.mean(axis=0) - x[0]) < 0.05).all())
    True
    """

    dimension: int
    sparsity: int
    bound: float = 1.0
    zeros: bool = True
    shape: Sequence[int] = ()

    def __post_init__(self) -> None:
        domain = self.domain
        bound = number("bound", self.bound, low=1 / MAX_BOUND, high=MAX_BOUND)
        object.__setattr__(self, "dimension", domain.dimension)
        object.__setattr__(self, "sparsity", domain.sparsity)
        object.__setattr__(self, "shape", domain.shape)
        object.__setattr__(self, "bound", float(bound))
        object.__setattr__(self, "zeros", flag("zeros", self.zeros))

    @property
    def scale(self) -> float:
        """Factor of the signs in an unbiased estimate, bound d / s."""
        return self.bound * self.dimension / self.sparsity

    @property
    def domain(self) -> SparseTernary:
        """The set of the results."""
        return SparseTernary(self.dimension, self.sparsity, shape=self.shape)

    def mean_square(self, x: ArrayLike) -> float:
        """Return the exact mean squared Euclidean error of the scaled sum of vectors ``x``."""
        values = self._checked(x).astype(np.float64)
        chance = self.sparsity / self.dimension
        sent = np.abs(values).sum() / self.bound if self.zeros else values.size
        return float(self.scale**2 * chance * sent - (values**2).sum())

    def __call__(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[np.int8]:
        """Return random vectors of signs for real vectors, of the same shape, one per user.

        Probabilities are the doubles nearest to those of the class, and are drawn exactly.
        """
        values, source = self._checked(x), secure(rng)
        result = np.zeros(values.shape, dtype=np.int8)
        for part in blocks(values.shape[0], max(1, _DRAWS_PER_PASS // self.sparsity)):
            columns = draw_subsets(values[part].shape[0], self.dimension, self.sparsity, source)
            drawn = np.take_along_axis(values[part], columns, axis=1).astype(np.float64)
            np.put_along_axis(result[part], columns, self._signs(drawn, source), axis=1)
        signs: NDArray[np.int8] = self.domain.shaped(result)
        return signs

    def _signs(self, drawn: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int8]:
        flat = drawn.reshape(-1)
        if self.zeros:
            kept = encode(np.abs(flat) / self.bound, 1, rng)
            signs = kept * np.sign(flat).astype(np.int64)
        else:
            signs = 2 * encode(Bounds(-self.bound, self.bound).unit(flat), 1, rng) - 1
        return signs.astype(np.int8).reshape(drawn.shape)

    def _checked(self, x: ArrayLike) -> NDArray[Any]:
        return Box(self.dimension, -self.bound, self.bound, shape=self.shape).values(x)
