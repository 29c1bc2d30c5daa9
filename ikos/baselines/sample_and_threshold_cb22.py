"""Sample and threshold (CB22): ones are sampled and counted, and small counts suppressed."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue
from ikos.accounting.sample_threshold import (
    best_sample_threshold,
    sampled_variance,
    suppression,
)
from ikos.baselines.base import Description, NumberBaseline, checked, numbers_of, read_only_view
from ikos.data.domains import number_bounds
from ikos.data.encoding import steps_of
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource
from ikos.primitives.shuffling import View
from ikos.results.conditions import Condition, Kind
from ikos.results.error import Bounded, SumError


@dataclass(frozen=True)
class Thresholded:
    """The error of a sampled count over its probability, biased as small counts become 0.

    A count of 1 is ``width`` in data units; a count of ones below ``threshold`` is suppressed.
    ``bits``: nothing is rounded.
    """

    users: int
    sampling: float
    threshold: int
    mean_square: float
    width: float
    bits: bool

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss.

        Half of ``miss`` is for the sampling noise, the other half for the suppression of a sum
        above t; a smaller sum that is suppressed is off by itself, at most t.
        """
        p, n = self.sampling, self.users
        variance = float(sampled_variance(0.0, float(n), n, p, bits=self.bits))
        noise = Bounded(variance, 1 / p).half_width(miss / 2)
        low, high = 0.0, float(n)
        for _ in range(60):
            middle = (low + high) / 2
            at = np.array([middle])
            chance = float(suppression(at, n, p, self.threshold, bits=self.bits)[0])
            low, high = (low, middle) if chance <= miss / 2 else (middle, high)
        return self.width * max(noise, high)


@dataclass(frozen=True, init=False, repr=False)
class SampleAndThreshold(NumberBaseline):
    """Sample and threshold: ones are counted with probability p, and small counts are suppressed.

    A value is rounded at random to 0 or 1. With probability p a user sends its bit, and otherwise a
    0. The shuffler counts the ones, and passes on the count if it is at least ``threshold``, and 0
    otherwise. The estimate is that count divided by p. Unlike `BinaryRandomizedResponse`, it hides
    ones only among ones.

    Parameters
    ----------
    n, epsilon, delta, lower, upper, integers
        As for `Baseline`. All users must be honest: a user certain to send a one lowers the
        threshold for the others.

    Attributes
    ----------
    sampling, threshold : Fraction, int
        p, and the count below which nothing is published; chosen for the smallest ``mse`` found.

    Notes
    -----
    **Biased.** If the count is suppressed, the estimate is that all values are ``lower``; the bias
    is negligible above about threshold/p users with a one. ``mse`` and the interval include it. The
    shuffler is trusted to count, not only to mix.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = SampleAndThreshold(10**4, epsilon=1, delta=1e-8)
    >>> protocol.run([0.0] * 9990 + [1.0] * 10, DeterministicRandom(0)).estimate
    0.0
    """

    sampling: Fraction
    threshold: int
    _mean_square: float = field(repr=False)

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        bounds = number_bounds(lower, upper, integers)
        terms = checked(n, bounds, epsilon, delta)
        best = best_sample_threshold(*terms._budget, bits=not bounds.rounding(1))
        self._init(terms, sampling=best.sampling, threshold=best.threshold, _mean_square=best.mse)

    def _describe(self) -> Description:
        return self._described(
            f"{self.domain}, sampled with probability {float(self.sampling):.4g}, threshold "
            f"{self.threshold}",
            "sampled count, suppressed if small; exact divergence",
            Condition(
                Kind.PARTIES,
                "the shuffler is trusted to count, to hand on the count alone, and to suppress",
            ),
            Condition(Kind.USERS, f"all {self.n} users are honest and present"),
            # one more one can raise the published count from 0 to the threshold
            influence=self.domain.width * float(self.threshold / self.sampling),
            random="coins",
        )

    def _error(self, users: int) -> SumError:
        # also for fewer users than n: zeros change nothing
        return SumError.number(
            Thresholded(
                users,
                float(self.sampling),
                self.threshold,
                self.domain.width**2 * self._mean_square,
                self.domain.width,
                not self.domain.rounding(1),
            )
        )

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        bits = steps_of(values, self.domain, 1, rng).astype(np.uint8)
        for part in blocks(bits.size, 1 << 18):
            block = bits[part]
            block &= rng.bernoullis(self.sampling, block.size).view(np.uint8)
        return bits[np.newaxis]

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return the shuffler's output: the number of users, and the count or 0."""
        del rng
        self._check_messages(messages, order, rows=1, most=1)
        count = int(messages.sum(dtype=np.int64))
        kept = count if count >= self.threshold else 0
        return read_only_view(np.array([messages.size, kept]))

    def _users_of(self, view: View) -> int:
        users, count = map(int, numbers_of(view, "the number of users and the count", 2))
        if count != 0 and not self.threshold <= count <= users:
            raise InvalidValue(
                "view", f"must hold a count of 0, or from {self.threshold} to {users}"
            )
        return users

    def _totals(self, view: View, users: int) -> float:
        return self.domain.total(int(view.columns[0][1]) / self.sampling, users)
