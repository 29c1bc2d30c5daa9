"""PCKV as in WLQDLY21, Section 4: one of a user's keys, as one of 2d categories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue, choice, refuse_missing
from ikos.accounting import wlqdly21
from ikos.baselines.base import Description
from ikos.baselines.key_values import (
    KeyValueBaseline,
    SetResponse,
    events_of,
    key_value_terms,
)
from ikos.data.domains import SparseTernary
from ikos.primitives.modular import blocks
from ikos.primitives.randomized_response import respond
from ikos.primitives.randomness import RandomSource

SAMPLINGS = ("counted", "published")

_BITS_PER_PASS = 1 << 23


def _one_event(
    rows: NDArray[np.float64], sparsity: int, rng: RandomSource
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the users who draw one of their events, and these events.

    Each user draws a number below the sparsity, and the event with that number; a user with fewer
    events may draw none.
    """
    owners, events = events_of(rows)
    counts = np.bincount(owners, minlength=rows.shape[0])
    starts = np.cumsum(counts) - counts
    number = rng.below(np.full(rows.shape[0], sparsity, dtype=np.int64))
    drawn = np.flatnonzero(number < counts)
    return drawn, events[starts[drawn] + number[drawn]]


def _answers_counted(domain: SparseTernary, sampling: str) -> Fraction:
    """Return the inverse of the fraction of answers in a user's set; of one answer if published."""
    return Fraction(2 * domain.dimension, 1 if sampling == "published" else domain.sparsity)


@dataclass(frozen=True, init=False, repr=False)
class PCKVGRR(SetResponse):
    """PCKV with randomized response: one of the user's signed keys, or any of the 2d.

    Parameters
    ----------
    n, domain, epsilon, delta, local_epsilon, min_honest
        As for `KeyValueBaseline`, but every vector must have exactly ``sparsity`` nonzero entries:
        with fewer, frequencies could not be estimated.
    sampling : {"counted", "published"}
        "counted" accounts for the random draw of the key: the message is an answer from a set of
        ``sparsity`` among 2d. "published" accounts for plain randomized response on 2d values, as
        WLQDLY21 does for its comparison.

    Attributes
    ----------
    gamma : Fraction
        Probability of a uniform answer.

    Examples
    --------
    >>> from ikos import SparseTernary
    >>> plain = PCKVGRR(1000, SparseTernary(256, 16), epsilon=1, sampling="published")
    >>> PCKVGRR(1000, SparseTernary(256, 16), epsilon=1).mse < plain.mse / 10
    True
    """

    sampling: str
    _exactly: ClassVar[bool] = True

    def __init__(
        self,
        n: int,
        domain: SparseTernary,
        epsilon: float | Fraction,
        delta: float | Fraction = 0,
        *,
        local_epsilon: float | Fraction | None = None,
        sampling: str = "counted",
        min_honest: int | None = None,
    ) -> None:
        choice("sampling", sampling, SAMPLINGS)
        terms, most = key_value_terms(n, domain, epsilon, delta, local_epsilon, min_honest)
        self._init(terms, sampling=sampling, **self._calibrated(terms, most, sampling))

    @classmethod
    def _calibrated(
        cls, terms: Any, most: Fraction | None, sampling: str = "counted"
    ) -> dict[str, object]:
        (eps, delta, honest), d, s = terms._budget, terms.domain.dimension, terms.domain.sparsity
        answers = _answers_counted(terms.domain, sampling)
        gamma = wlqdly21.set_response_gamma(eps, delta, honest, answers, most_local=most)
        return {
            "gamma": gamma,
            "variances": wlqdly21.pckv_grr_variances(d, s, gamma),
            "_alphabet": 2 * d,
            "_answers": Fraction(2 * d, s),
        }

    def _describe(self) -> Description:
        published = self.sampling == "published"
        response = "randomized response on the events" if published else "an answer from a set"
        return self._response_described(
            "an event",
            f"PCKV-GRR, {response}",
            influence=2 * self._scale,  # from one sign of a key to the other
        )

    @property
    def _accounted(self) -> Fraction:
        return _answers_counted(self.domain, self.sampling)

    @property
    def _scale(self) -> float:
        return self.domain.sparsity / float(1 - self.gamma)

    def _accepted(self, values: NDArray[Any]) -> NDArray[Any]:
        counts = np.count_nonzero(values, axis=1)
        if (wrong := counts != self.domain.sparsity).any():
            first, s = int(np.argmax(wrong)), self.domain.sparsity
            raise InvalidValue(
                f"x[{first}]", f"must have exactly {s} entries that are not 0", row=first
            )
        return values

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        _, events = _one_event(rows, self.domain.sparsity, rng)
        return respond(events, self._events, self.gamma, rng)[np.newaxis]

    def _counts(self, column: NDArray[Any]) -> NDArray[np.float64]:
        seen = np.bincount(column.astype(np.int64), minlength=self._events).reshape(-1, 2)
        expected = column.size * float(self.gamma) / self._events
        return np.asarray((seen - expected) * self._scale, dtype=np.float64)


@dataclass(frozen=True, init=False, repr=False)
class PCKVUE(KeyValueBaseline):
    """PCKV with optimized unary encoding: one of the user's signed keys as one of 2d bits.

    The bit of the drawn event is sent as 1 with probability 1/2, every other bit with a smaller
    probability q. A user with fewer than ``sparsity`` events may draw none.

    Parameters
    ----------
    n, domain, epsilon, delta, local_epsilon, min_honest
        As for `KeyValueBaseline`.

    Attributes
    ----------
    q : Fraction
        1/(e^eps + 1) for a local guarantee eps, rounded up to a multiple of 2^-53.

    Notes
    -----
    A message is all 2d bits as one item of ceil(2d/8) bytes (numpy's void type, bits in the order
    of the events, the first one highest). The guarantee after shuffling is that for any locally
    private messages (``ikos.accounting.amplification``).

    Examples
    --------
    >>> from ikos import SparseTernary
    >>> PCKVUE(1000, SparseTernary(4, 1), epsilon=2).report([0, -1, 0, 0]).dtype
    dtype('V1')
    """

    q: Fraction

    @classmethod
    def _calibrated(cls, terms: Any, most: Fraction | None) -> dict[str, object]:
        q = wlqdly21.raised(*terms._budget, most_local=most)
        return {"q": q, "variances": wlqdly21.pckv_ue_variances(terms.domain.sparsity, q)}

    @property
    def local_epsilon(self) -> float:
        """The guarantee of each message by itself, with delta 0, rounded up."""
        # near q = 1/2 the odds are near 1: a rational difference loses nothing there
        return math.log1p(float((1 - 2 * self.q) / self.q)) * (1 + 1e-12)

    def _describe(self) -> Description:
        theorem = "PCKV-UE, optimized unary encoding"
        if self.delta:
            theorem += ", and amplification of any randomizer"
        return self._counts_described(
            f"bits raised with probability {float(self.q):.4g}",
            theorem,
            # from the bits of one sign of all keys to those of the other
            influence=2 * math.sqrt(self.dimension) * self._scale,
            bits=self._events,
        )

    @property
    def _scale(self) -> float:
        return self.domain.sparsity / float(Fraction(1, 2) - self.q)

    @property
    def _bytes(self) -> int:
        return -(-self._events // 8)

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        users, (owners, events) = rows.shape[0], _one_event(rows, self.domain.sparsity, rng)
        packed = np.empty((users, self._bytes), dtype=np.uint8)
        kept = rng.bernoullis(Fraction(1, 2), owners.size)
        for part in blocks(users, max(1, _BITS_PER_PASS // self._events)):
            count = packed[part].shape[0]
            bits = rng.bernoullis(self.q, count * self._events).reshape(count, self._events)
            here = slice(*np.searchsorted(owners, (part.start, part.start + count)))
            bits[owners[here] - part.start, events[here]] = kept[here]
            packed[part] = np.packbits(bits, axis=1)
        return packed.view(f"V{self._bytes}").reshape(1, users)

    def _check_messages(self, messages: NDArray[Any], order: str, **limits: Any) -> None:
        """Check items like integers of the same shape."""
        if isinstance(messages, np.ndarray):
            if refuse_missing("messages", messages).dtype != f"V{self._bytes}":
                raise InvalidValue("messages", f"must be items of {self._bytes} bytes")
            messages = np.zeros(messages.shape, dtype=np.uint8)
        super()._check_messages(messages, order, **limits)

    def _valid(self, column: NDArray[Any]) -> bool:
        if column.dtype != f"V{self._bytes}":
            return False
        spare = 8 * self._bytes - self._events  # bits beyond the events are 0
        last = np.ascontiguousarray(column).view(np.uint8).reshape(-1, self._bytes)[:, -1]
        return not bool((last & ((1 << spare) - 1)).any())

    def _counts(self, column: NDArray[Any]) -> NDArray[np.float64]:
        packed = np.ascontiguousarray(column).view(np.uint8).reshape(-1, self._bytes)
        seen = np.zeros(self._events, dtype=np.int64)
        for part in blocks(packed.shape[0], max(1, _BITS_PER_PASS // self._events)):
            bits = np.unpackbits(packed[part], axis=1, count=self._events)
            seen += bits.sum(axis=0, dtype=np.int64)
        counts = (seen - column.size * float(self.q)) * self._scale
        return np.asarray(counts, dtype=np.float64).reshape(-1, 2)
