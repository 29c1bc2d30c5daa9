"""Errors of protocols' runs on data whose sum is known."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from ikos._validation import integer, number, quote
from ikos.aggregation.protocol import SumProtocol
from ikos.baselines.registry import PROTOCOLS, ComparisonRow, checked_progress
from ikos.concurrency import Progress
from ikos.randomness import RandomSource, secure
from ikos.results import Interval

MAX_RUN = 10**8
"""Most messages of one run that is measured."""

KURTOSIS = 6
"""Of Laplace noise, whose tails are about the heaviest of all errors here."""


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
        """Root of the mean of the squared errors."""
        return math.sqrt(math.fsum(error * error for error in self.errors) / self.runs)

    def interval(self, confidence: float | Fraction = Fraction(19, 20)) -> Interval:
        """Return an approximate interval for the root mean squared error of all possible runs.

        Parameters
        ----------
        confidence : float
            Strictly between 0 and 1.

        Returns
        -------
        Interval

        Notes
        -----
        If errors are normal, the sum of their squares has a chi-square distribution with one
        degree of freedom for each run. Here each run counts ``2 / (kurtosis - 1)`` degrees, with
        the kurtosis of Laplace noise, 6, so that the mean square has the right variance. For errors
        nearer to normal, as in most protocols, the interval is wider than necessary.
        """
        from scipy.special import chdtri

        miss = float(1 - number("confidence", confidence, above=0, below=1))
        freedom = 2 * self.runs / (KURTOSIS - 1)
        scale = self.rmse * math.sqrt(freedom)
        low, high = chdtri(freedom, miss / 2), chdtri(freedom, 1 - miss / 2)
        return Interval(scale / math.sqrt(low), scale / math.sqrt(high))


def measure(
    row: ComparisonRow | SumProtocol,
    values: ArrayLike,
    runs: int,
    rng: RandomSource | None = None,
    *,
    progress: Progress | None = None,
) -> Measurement:
    """Run a protocol many times on data whose sum is known.

    Parameters
    ----------
    row : ComparisonRow or SumProtocol
        A row of a comparison that has a protocol, or any protocol, also one of your own.
    values : (n,) or (n, d) array_like of float
        All users' values, of the protocol's domain.
    runs : int
        Number of runs, at least 1.
    rng : RandomSource, optional
        Secure randomness by default.
    progress : callable, optional
        Called with the number of runs done and their total number.

    Raises
    ------
    ValueError
        Also if one run would take more than 10^8 messages, of a protocol that makes each.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> from ikos.baselines import comparison
    >>> (row,) = comparison(1000, 1, 1e-6, protocols=["central-discrete"])
    >>> measured = measure(row, np.full(1000, 0.25), 50, DeterministicRandom(0))
    >>> low, high = measured.interval()
    >>> low < row.rmse < high
    True
    """
    many = integer("runs", runs, low=1)
    report = checked_progress(progress)
    protocol, counted = _measured(row)
    sent = protocol.cost().messages
    if sent > MAX_RUN and not counted:
        raise ValueError(
            f"a run has {sent:,.0f} messages, more than the {MAX_RUN:,} that are simulated"
        )
    checked = protocol.domain.values(values)
    truth, source = np.array(list(map(math.fsum, np.atleast_2d(checked.T)))), secure(rng)
    errors = []
    began = time.perf_counter()
    for done in range(1, many + 1):
        off = np.ravel(protocol.run(checked, source).estimate) - truth
        errors.append(float(off[0] if checked.ndim == 1 else np.linalg.norm(off)))
        report(done, many)
    return Measurement(tuple(errors), (time.perf_counter() - began) / many)


def _measured(row: object) -> tuple[SumProtocol, bool]:
    """Return a protocol, and whether a run draws how often each message is sent."""
    if isinstance(row, ComparisonRow):
        if row.protocol is None:
            raise ValueError(f"row must be of a protocol that there is, got none: {row.reason}")
        return row.protocol, row.spec.counted
    if isinstance(row, type) or not isinstance(row, SumProtocol):  # a class has all members, too
        raise TypeError(
            f"row must be a ComparisonRow or a SumProtocol, got {type(row).__name__} {quote(row)}"
        )
    return row, any(one.counted and type(row) is one.made_by for one in PROTOCOLS)
