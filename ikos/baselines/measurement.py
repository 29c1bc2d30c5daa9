"""Errors of runs on data whose sum is known, to compare with the stated bounds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from ikos._validation import InvalidType, InvalidValue, integer, number, quote
from ikos.baselines.registry import PROTOCOLS, ComparisonRow
from ikos.primitives.randomness import RandomSource, secure
from ikos.results.sums import Interval
from ikos.sums.protocol import SumProtocol

MAX_RUN = 10**8  # largest number of messages of one run that is measured
KURTOSIS = 6  # kurtosis of Laplace noise, whose tails are about the heaviest of all errors here


@dataclass(frozen=True)
class Measurement:
    """Errors of runs on data whose sum is known. Not private: they reveal the sum.

    Attributes
    ----------
    errors : tuple of float
        Estimate minus true sum of each run, in the data's units; for vectors its Euclidean norm.
    seconds : float
        Average time of one run.
    """

    errors: tuple[float, ...]
    seconds: float

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.errors)

    @property
    def rmse(self) -> float:
        """Root mean squared error of the runs."""
        return math.sqrt(math.fsum(error * error for error in self.errors) / self.runs)

    def interval(self, confidence: float | Fraction = Fraction(19, 20)) -> Interval:
        """Return an approximate interval for the root mean squared error of all possible runs.

        For normal errors, the sum of squares has a chi-square distribution with one degree of
        freedom per run. Here each run counts ``2 / (kurtosis - 1)`` degrees, with the kurtosis of
        Laplace noise, 6: for errors nearer to normal, the interval is wider than necessary.
        """
        from scipy.special import chdtri

        miss = float(1 - number("confidence", confidence, above=0, below=1))
        freedom = 2 * self.runs / (KURTOSIS - 1)
        scale = self.rmse * math.sqrt(freedom)
        low, high = chdtri(freedom, miss / 2), chdtri(freedom, 1 - miss / 2)
        return Interval(scale / math.sqrt(low), scale / math.sqrt(high))


def measure(
    row: ComparisonRow | SumProtocol, values: ArrayLike, runs: int, rng: RandomSource | None = None
) -> Measurement:
    """Run a protocol many times on data whose sum is known.

    Parameters
    ----------
    row : ComparisonRow or SumProtocol
        A row of a comparison that has a protocol, or any protocol, including your own. One run may
        send 10^8 messages.
    values : (n,) or ``(n, *shape)`` array_like of float
        All users' values, in the protocol's domain.
    runs : int
        Number of runs, at least 1.
    rng : RandomSource, optional
        Secure randomness by default.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.baselines import comparison
    >>> from ikos.testing import DeterministicRandom
    >>> (row,) = comparison(1000, 1, 1e-6, protocols=["central-discrete"])
    >>> measured = measure(row, np.full(1000, 0.25), 50, DeterministicRandom(0))
    >>> low, high = measured.interval()
    >>> low < row.rmse < high
    True
    """
    many = integer("runs", runs, low=1)
    protocol = row.protocol if isinstance(row, ComparisonRow) else row
    if isinstance(row, ComparisonRow) and protocol is None:
        raise InvalidValue("row", f"must have a protocol, got none: {row.reason}")
    if isinstance(row, type) or not isinstance(protocol, SumProtocol):  # a class has all members
        raise InvalidType("row", f"must be a ComparisonRow or a SumProtocol, got {quote(row)}")
    counted = any(spec.counted and type(protocol) is spec.made_by for spec in PROTOCOLS)
    sent = protocol.cost().messages
    if sent > MAX_RUN and not counted:
        raise ValueError(
            f"a run has {sent:.0f} messages, more than the {MAX_RUN} that are simulated"
        )
    checked = protocol.domain.values(values)
    truth, source = np.array(list(map(math.fsum, np.atleast_2d(checked.T)))), secure(rng)
    errors, x = [], protocol.domain.shaped(checked)
    began = time.perf_counter()
    for _ in range(many):
        off = np.ravel(protocol.run(x, source).estimate) - truth
        errors.append(float(off[0] if checked.ndim == 1 else np.linalg.norm(off)))
    return Measurement(tuple(errors), (time.perf_counter() - began) / many)
