"""Every protocol for sums, and what is measured of each.

`CASES` is the register: a new protocol is one line. `test_interface` runs the same tests on all.
Every statistical statement here holds with probability at least 1 - 1e-9 for a protocol that is
as it says, at every number of runs; no normal approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos import PrivateSum
from ikos.confidence import mean_interval
from ikos.protocols import (
    CentralDiscreteLaplace,
    CentralLaplace,
    DesignatedNoise,
    LocalLaplace,
    SparseNoise,
)
from ikos.results import Estimate
from ikos.testing import DeterministicRandom

FALSE_ALARM = 1e-9
LN = math.log(2 / FALSE_ALARM)


@dataclass(frozen=True)
class Case:
    """A protocol and how it is tested.

    Parameters
    ----------
    make : callable
        Returns the protocol for n users and keyword arguments (``lower``, ``upper``; others that
        it takes, such as ``min_honest``).
    n : int
        Users of the statistical tests.
    attacked : callable, optional
        Returns a small protocol whose ``influence`` an attack by `columns` reaches; by default
        ``make`` for `few` users.
    alphabet : callable, optional
        What one message may be, of that protocol; None where it may be anything.
    few : int
        Users where few are enough: the protocol must be possible for so many.
    tight : float
        ``mse`` times this is reached on some of the data sets.
    whole : bool
        Whether one seed gives one error whatever the bounds: all randomness is drawn in an order
        that does not depend on them.
    """

    make: Callable[..., Any]
    alphabet: Callable[[Any], Iterable[int]] | None = None
    attacked: Callable[[], Any] | None = None
    n: int = 150
    few: int = 12
    tight: float = 0.9
    whole: bool = True

    def small(self, **options: Any) -> Any:
        """Return the protocol for few users."""
        return self.make(self.few, **options)


def group(protocol: Any) -> range:
    """Return all elements of a protocol's group."""
    return range(protocol.modulus)


def tiny_sum(protocol: Callable[..., Any], **options: Any) -> Callable[[], Any]:
    """Return a maker of a secure sum in a group of 64 elements."""
    return lambda: protocol(
        5, 1, 0.5, precision=3, modulus=64, messages=3, lower=-1, upper=2, **options
    )


CASES: dict[str, Case] = {
    "central-laplace": Case(
        lambda n, **bounds: CentralLaplace(n, 1, **bounds),
        lambda protocol: (0, protocol.precision),
    ),
    "central-discrete-laplace": Case(
        lambda n, **bounds: CentralDiscreteLaplace(n, 0.7, **bounds),
        lambda protocol: range(protocol.precision + 1),
    ),
    "local-laplace": Case(lambda n, **bounds: LocalLaplace(n, 1, **bounds)),
    "private-sum": Case(
        lambda n, **options: PrivateSum(n, 1, 1e-3, **options), group, tiny_sum(PrivateSum)
    ),
    "private-sum-single": Case(
        lambda n, **options: PrivateSum(
            n, 1, 1e-2, shuffler="single", clear_share=False, **options
        ),
        group,
        tiny_sum(PrivateSum, shuffler="single", clear_share=False),
    ),
    "designated-noise": Case(
        lambda n, **options: DesignatedNoise(n, 1, 1e-3, **options),
        group,
        tiny_sum(DesignatedNoise),
    ),
    "designated-noise-single": Case(
        lambda n, **options: DesignatedNoise(
            n, 1, 1e-2, shuffler="single", clear_share=False, **options
        ),
        group,
        tiny_sum(DesignatedNoise, shuffler="single", clear_share=False),
    ),
    "sparse-noise": Case(
        lambda n, **options: SparseNoise(n, 1, 1e-3, **options), group, tiny_sum(SparseNoise)
    ),
    "sparse-noise-published": Case(
        lambda n, **options: SparseNoise(n, 1, 1e-3, accountant="published", **options),
        group,
        tiny_sum(SparseNoise, accountant="published"),
    ),
}


def data_sets(n: int) -> dict[str, NDArray[np.float64]]:
    """Return values in [0, 1] on which protocols differ: where they round, and where they do not.

    The normal values are those of BBGN20, Figure 2; what falls outside is drawn again.
    """
    rng = np.random.default_rng(0)
    normal = rng.normal(0.573, 0.1, 4 * n)
    return {
        "uniform": rng.uniform(0, 1, n),
        "normal": normal[(normal >= 0) & (normal <= 1)][:n],
        "zeros": np.zeros(n),
        "ones": np.ones(n),
        "halves": np.full(n, 0.5),
    }


DATA = tuple(data_sets(1))


@dataclass(frozen=True)
class Sample:
    """Independent runs on one data set."""

    protocol: Any
    errors: NDArray[np.float64]
    results: tuple[Estimate, ...]

    @property
    def size(self) -> int:
        """How many runs."""
        return self.errors.size


@cache
def sample(name: str, data: str, runs: int, lower: float = 0.0, upper: float = 1.0) -> Sample:
    """Return runs of a case on a data set, stretched to other bounds."""
    case = CASES[name]
    protocol = case.make(case.n, lower=lower, upper=upper)
    x = lower + (upper - lower) * data_sets(case.n)[data]
    seed = 1000 * list(CASES).index(name) + DATA.index(data)
    rng = DeterministicRandom(seed)
    results = tuple(protocol.run(x, rng) for _ in range(runs))
    truth = math.fsum(x)
    return Sample(protocol, np.array([r.estimate - truth for r in results]), results)


def bias_allowed(mse: float, runs: int) -> float:
    """Return what the mean of clipped errors can be, at most, of an unbiased estimate.

    Errors are clipped at c = 6 sqrt(mse): that moves their mean by E(abs(e) - c)_+ <= mse / (4 c)
    at most. Then Bernstein's inequality for variables of variance mse within c.
    """
    c = 6 * math.sqrt(mse)
    a = 2 * c * LN / (3 * runs)  # abs(e - mean) <= 2 c
    return mse / (4 * c) + math.sqrt(2 * mse * LN / runs) + a


def clipped_mean(errors: NDArray[np.float64], mse: float) -> float:
    """Return the mean of errors clipped as in `bias_allowed`."""
    c = 6 * math.sqrt(mse)
    return float(np.clip(errors, -c, c).mean())


def mean_square(errors: NDArray[np.float64], mse: float) -> tuple[float, float]:
    """Return bounds, as parts of ``mse``, of the mean of squared errors that are cut at 16 mse.

    The true mean square is at least what the first bound says.
    """
    cut = np.minimum(errors**2 / (16 * mse), 1.0)
    low, high = mean_interval(float(cut.sum()), errors.size, 1 - Fraction(FALSE_ALARM))
    return 16 * low, 16 * high


def columns(messages: NDArray[Any], values: Iterable[int]) -> Iterable[NDArray[Any]]:
    """Yield what a dishonest user may send: all messages alike, or one other message than before.

    For messages of independent meaning the extremes are among the former; for shares the one
    message alone reaches every sum.
    """
    for value in values:
        same = messages[:, 0].copy()
        same[:] = value
        one = messages[:, 0].copy()
        one[-1] = value
        yield from (same, one)


def attack(protocol: Any, x: NDArray[np.float64], values: Iterable[int], seed: int) -> float:
    """Return the largest difference between estimates that the first user's messages make."""
    honest = protocol.randomize(x, DeterministicRandom(seed))
    estimates = []
    for column in columns(honest, values):
        messages = honest.copy()
        messages[:, 0] = column
        view = protocol.shuffle(messages, DeterministicRandom(seed + 1))
        estimates.append(protocol.analyze(view).estimate)
    return float(max(estimates) - min(estimates))


def canonical(view: Any, order: NDArray[np.int64] | None = None) -> Any:
    """Return a view with its columns sorted, and clear messages put back into their order."""
    clear = view.clear
    if clear is not None:
        undone = clear if order is None else clear[np.argsort(order)]
        clear = tuple(undone.tolist())
    return [sorted(column.tolist()) for column in view.columns], clear
