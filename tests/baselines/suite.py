"""Every protocol for sums, of numbers and of vectors, and what is measured of each.

`CASES` is the register: a new protocol is one line. `test_interface` runs the same tests on all.
Every statistical statement here holds with probability at least 1 - 1e-9 for a protocol that is
as it says, at every number of runs; no normal approximation.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos import Ball, Box, Categories, PrivateSum, PrivateVectorSum, SparseTernary
from ikos.accounting import recursive_digits
from ikos.baselines import (
    PCKVGRR,
    PCKVUE,
    BinaryRandomizedResponse,
    CentralDiscreteLaplace,
    CentralGaussian,
    CentralLaplace,
    Collision,
    CorrelatedNoise,
    DesignatedNoise,
    FrequencyEstimation,
    KashinCorrelatedNoise,
    KashinPrivateSum,
    LocalLaplace,
    LocalRandomizedResponse,
    PrivacyBlanket,
    PrivKV,
    RecursiveSum,
    SampleAndThreshold,
    SampledCoordinates,
    SingleMessageGrid,
    SparseNoise,
    UnaryEncoding,
)
from ikos.data.domains import Bounds, Domain
from ikos.data.reading import Participation
from ikos.primitives.randomness import RandomSource
from ikos.results.confidence import mean_interval
from ikos.results.sums import SumResult
from ikos.testing import DeterministicRandom
from ikos.transports import Reports

FALSE_ALARM = 1e-9
LN = math.log(2 / FALSE_ALARM)


@dataclass(frozen=True)
class Case:
    """A protocol and how it is tested.

    Parameters
    ----------
    make : callable
        Returns the protocol for n users and keyword arguments that it takes: ``lower``, ``upper``
        of numbers, ``min_honest``.
    forged : callable, optional
        Returns what a dishonest user may send in place of honest messages, given the protocol and
        those; None for numbers where one user's influence has no limit, and for vectors where such
        messages are for tests of the protocol's own.
    attacked : callable, optional
        Returns a small protocol whose ``influence`` such messages reach; by default ``make`` for
        `few` users.
    n : int
        Users of the statistical tests.
    few : int
        Users where few are enough: the protocol must be possible for so many.
    tight : float
        ``mse`` times this is reached on some of the data sets.
    ragged : bool
        Whether the number of a user's messages is random; arrays of them are padded with zeros.
    biased : bool
        Whether the estimate is, and says so.
    """

    make: Callable[..., Any]
    forged: Callable[[Any, NDArray[Any]], Iterable[NDArray[Any]]] | None = None
    attacked: Callable[[], Any] | None = None
    n: int = 150
    few: int = 12
    tight: float = 0.9
    ragged: bool = False
    biased: bool = False

    @cache  # noqa: B019 - some take a second to make, and all are immutable
    def small(self, **options: Any) -> Any:
        """Return the protocol for few users."""
        return self.make(self.few, **options)


def shares(protocol: Any, honest: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield reports with another last share: this alone reaches every sum."""
    for value in range(protocol.modulus):
        column = honest.copy()
        column[-1] = value
        yield column


def encodings(protocol: Any, honest: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield both ends of the encoding."""
    for value in (0, protocol.precision):
        yield np.full_like(honest, value)


def digits(protocol: Any, honest: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield the smallest digits, and the greatest; labelled where one shuffler takes all."""
    domains = protocol.digits.domains
    first = np.cumsum((0, *domains[:-1])) * (protocol.shuffler == "single")
    for values in (first, first + domains - 1):
        yield values.astype(honest.dtype)


def bits(protocol: Any, honest: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield no ones, and ones alone."""
    for value in (0, 1):
        yield np.full_like(honest, value)


def answers(count: Callable[[Any], int], least: int = 0) -> Callable[..., Iterator[NDArray[Any]]]:
    """Return a forger of messages that all are one answer, each of so many."""

    def forged(protocol: Any, honest: NDArray[Any]) -> Iterator[NDArray[Any]]:
        for value in range(least, least + count(protocol)):
            yield np.full_like(honest, value)

    return forged


def raised_bits(protocol: Any, honest: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield items with all bits of one sign, and with those of the other."""
    for sign in (0, 1):
        bits = np.arange(2 * protocol.dimension) % 2 == sign
        yield np.packbits(bits).view(honest.dtype)


def steps(protocol: Any, honest: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield both ends of the encoding of a vector."""
    for value in (0, protocol.encoding.precision):
        yield np.full_like(honest, value)


def tiny_sum(protocol: Callable[..., Any], **options: Any) -> Callable[[], Any]:
    """Return a maker of a secure sum in a group of 64 elements."""
    return lambda: protocol(
        5, 1, 0.5, precision=3, modulus=64, messages=3, lower=-1, upper=2, **options
    )


NUMBERS: dict[str, Case] = {
    "central-laplace": Case(lambda n, **bounds: CentralLaplace(n, 1, **bounds), encodings),
    "central-discrete-laplace": Case(
        lambda n, **bounds: CentralDiscreteLaplace(n, 0.7, **bounds), encodings
    ),
    "local-laplace": Case(lambda n, **bounds: LocalLaplace(n, 1, **bounds), n=40),
    "private-sum": Case(
        lambda n, **options: PrivateSum(n, 1, 1e-3, **options), shares, tiny_sum(PrivateSum)
    ),
    "private-sum-single": Case(
        lambda n, **options: PrivateSum(
            n, 1, 1e-2, shuffler="single", clear_share=False, **options
        ),
        shares,
        tiny_sum(PrivateSum, shuffler="single", clear_share=False),
    ),
    "designated-noise": Case(
        lambda n, **options: DesignatedNoise(n, 1, 1e-3, **options),
        shares,
        tiny_sum(DesignatedNoise),
    ),
    "sparse-noise": Case(
        lambda n, **options: SparseNoise(n, 1, 1e-3, **options), shares, tiny_sum(SparseNoise)
    ),
    "sparse-noise-published": Case(
        lambda n, **options: SparseNoise(n, 1, 1e-3, accountant="published", **options),
        shares,
        tiny_sum(SparseNoise, accountant="published"),
    ),
    "local-randomized-response": Case(
        lambda n, **bounds: LocalRandomizedResponse(n, 1, **bounds), bits
    ),
    "binary-randomized-response": Case(
        lambda n, **options: BinaryRandomizedResponse(n, 2, 1e-2, **options), bits
    ),
    "unary-encoding": Case(lambda n, **options: UnaryEncoding(n, 2, 1e-2, **options), bits),
    "unary-encoding-composed": Case(
        lambda n, **options: UnaryEncoding(
            n, 4, 1e-2, messages=2, accountant="composition", **options
        ),
        bits,
    ),
    "sample-and-threshold": Case(
        lambda n, **bounds: SampleAndThreshold(n, 2, 1e-2, **bounds),
        bits,
        few=60,
        tight=0.1,
        biased=True,
    ),
    "privacy-blanket": Case(
        lambda n, **options: PrivacyBlanket(n, 2, 1e-2, **options), digits, tight=0.7
    ),
    "recursive-two": Case(
        lambda n, **options: RecursiveSum(n, 4, 1e-2, **options), digits, tight=0.5
    ),
    "recursive-paper": Case(
        lambda n, **options: RecursiveSum(n, 4, 1e-2, parameters="paper", **options),
        digits,
        tight=0.5,
    ),
    "recursive-given": Case(
        lambda n, **options: RecursiveSum(
            n, 4, 1e-2, parameters=recursive_digits((2, 3), (0.5, 0.75)), **options
        ),
        digits,
        tight=0.5,
    ),
    "recursive-single-shuffler": Case(
        lambda n, **options: RecursiveSum(
            n, 4, 1e-2, messages=3, composition="basic", shuffler="single", **options
        ),
        digits,
        tight=0.5,
    ),
    "correlated-noise": Case(
        lambda n, **options: CorrelatedNoise(n, 2, 1e-2, precision=2, **options), ragged=True
    ),
}


VECTORS: dict[str, Case] = {
    "central-gaussian": Case(
        lambda n, **options: CentralGaussian(n, Ball(3), 1, 1e-3, **options), steps
    ),
    "private-vector-sum-box": Case(
        lambda n, **options: PrivateVectorSum(n, Box(2, -1, 3), 1, 1e-3, **options)
    ),
    "private-vector-sum-ball": Case(
        lambda n, **options: PrivateVectorSum(n, Ball(3, 2), 1, 1e-3, **options)
    ),
    "private-vector-sum-signs": Case(
        lambda n, **options: PrivateVectorSum(n, SparseTernary(4, 2), 1, 1e-3, **options)
    ),
    "private-vector-sum-one-group": Case(
        lambda n, **options: PrivateVectorSum(n, Ball(2), 1, 1e-3, **{"layout": "group", **options})
    ),
    "sampled-coordinates": Case(
        lambda n, **options: SampledCoordinates(n, Box(4, -1, 2), 3, 1e-2, **options)
    ),
    "sampled-coordinates-of-runs": Case(
        lambda n, **options: SampledCoordinates(n, Box(5), 4, 1e-2, messages=2, **options)
    ),
    "sampled-coordinates-uniform": Case(
        lambda n, **options: SampledCoordinates(
            n, Box(4), 5, 1e-2, messages=2, precision=1, sampling="uniform", **options
        )
    ),
    "single-message-box": Case(
        lambda n, **options: SingleMessageGrid(n, Box(2, -1, 1), 5, 1e-2, **options),
        answers(lambda grid: grid.points),
    ),
    "single-message-ball": Case(
        lambda n, **options: SingleMessageGrid(n, Ball(3, 2.0), 6, 1e-2, **options),
        answers(lambda grid: grid.points),
    ),
    "collision": Case(
        lambda n, **options: Collision(n, SparseTernary(5, 2), epsilon=2, delta=1e-2, **options)
    ),
    "collision-local": Case(
        lambda n, **options: Collision(n, SparseTernary(5, 2), epsilon=2, **options)
    ),
    "privkv": Case(
        lambda n, **options: PrivKV(n, SparseTernary(5, 2), epsilon=2, delta=1e-2, **options),
        answers(lambda _: 15),
    ),
    "privkv-local": Case(lambda n, **options: PrivKV(n, SparseTernary(5, 2), epsilon=2, **options)),
    "pckv-grr": Case(
        lambda n, **options: PCKVGRR(n, SparseTernary(5, 2), epsilon=2, delta=1e-2, **options),
        answers(lambda _: 10),
    ),
    "pckv-grr-published": Case(
        lambda n, **options: PCKVGRR(
            n, SparseTernary(5, 2), epsilon=2, sampling="published", **options
        )
    ),
    "pckv-ue": Case(
        lambda n, **options: PCKVUE(n, SparseTernary(5, 2), epsilon=2, delta=1e-2, **options),
        raised_bits,
    ),
    "pckv-ue-local": Case(
        lambda n, **options: PCKVUE(n, SparseTernary(5, 2), epsilon=2, **options)
    ),
    "kashin-correlated-noise": Case(
        lambda n, **options: KashinCorrelatedNoise(
            n, Ball(3), 4, 1e-2, **{"precision": 2, **options}
        ),
        ragged=True,
    ),
    "kashin-correlated-noise-sampled": Case(
        lambda n, **options: KashinCorrelatedNoise(
            n, Ball(3), 4, 1e-2, **{"precision": 1, "sampling": 0.5, **options}
        ),
        ragged=True,
    ),
    "frequency-estimation": Case(
        lambda n, **options: FrequencyEstimation(n, Categories([4]), 2, 1e-2, **options),
        answers(lambda _: 4, least=1),
        ragged=True,
    ),
    "frequency-estimation-sets": Case(
        lambda n, **options: FrequencyEstimation(
            n, Categories([6]), 3, 1e-2, **{"set_size": 2, **options}
        ),
        ragged=True,
    ),
    "kashin-private-sum": Case(
        lambda n, **options: KashinPrivateSum(n, Ball(3), 4, 1e-2, **options)
    ),
}

CASES = NUMBERS | VECTORS


def inputs(protocol: Any, users: int) -> NDArray[np.float64]:
    """Return values of a protocol's domain that most encodings must round, extreme ones too."""
    if isinstance(protocol.domain, Bounds):
        return np.linspace(protocol.domain.lower, protocol.domain.upper, users)
    return vectors(protocol.domain, users)


def vectors(domain: Domain, users: int, seed: int = 0) -> NDArray[np.float64]:
    """Return vectors of a domain that differ from each other, its extreme ones among them."""
    draw = np.random.default_rng(seed)
    d = domain.dimension
    if isinstance(domain, Box):
        x = draw.uniform(domain.lower, domain.upper, (users, d))
        x[0], x[-1] = domain.lower, domain.upper
        return x
    if isinstance(domain, Ball):
        x = draw.normal(size=(users, d))
        x *= domain.radius / np.linalg.norm(x, axis=1, keepdims=True)
        x[1::3] *= 0.5
        return x
    if isinstance(domain, Categories):
        return np.eye(d)[draw.integers(d, size=users)]
    assert isinstance(domain, SparseTernary)
    x = np.zeros((users, d))
    for row in x:
        chosen = draw.choice(d, domain.sparsity, replace=False)
        row[chosen] = draw.choice([-1, 1], domain.sparsity)
    return x


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
    """The errors of independent runs on one data set, and the result of the last."""

    protocol: Any
    errors: NDArray[np.float64]
    result: SumResult


@cache
def sample(name: str, data: str, runs: int) -> Sample:
    """Return runs of a case on a data set."""
    case = NUMBERS[name]
    protocol, x = case.make(case.n), data_sets(case.n)[data]
    rng = DeterministicRandom(1000 * list(NUMBERS).index(name) + DATA.index(data))
    truth = math.fsum(x)
    errors = []
    for _ in range(runs):
        result = protocol.run(x, rng)
        errors.append(result.estimate - truth)
    return Sample(protocol, np.array(errors), result)


def bias_allowed(mse: float, runs: int) -> float:
    """Return what the mean of clipped errors can be, at most, of an unbiased estimate.

    Errors are clipped at c = 3 sqrt(mse): that moves their mean by E(abs(e) - c)_+ <= mse / (4 c)
    at most. Then Bernstein's inequality for variables of variance mse, within c + mse / (4 c) of
    their mean. A bias below mse / (4 c), a twelfth of a standard deviation, is not seen by any
    number of runs.
    """
    c = 3 * math.sqrt(mse)
    moved = mse / (4 * c)
    a = (c + moved) * LN / (3 * runs)
    return moved + a + math.sqrt(a * a + 2 * mse * LN / runs)


def clipped_mean(errors: NDArray[np.float64], mse: float) -> float:
    """Return the mean of errors clipped as in `bias_allowed`."""
    c = 3 * math.sqrt(mse)
    return float(np.clip(errors, -c, c).mean())


def mean_square(errors: NDArray[np.float64], mse: float) -> tuple[float, float]:
    """Return bounds, as parts of ``mse``, of the mean of squared errors that are cut at 16 mse.

    The true mean square is at least what the first bound says.
    """
    cut = np.minimum(errors**2 / (16 * mse), 1.0)
    low, high = mean_interval(float(cut.sum()), errors.size, 1 - Fraction(FALSE_ALARM))
    return 16 * low, 16 * high


def attack(case: Case, protocol: Any, x: NDArray[np.float64], seed: int) -> float:
    """Return the largest difference between estimates that the first user's messages make."""
    honest = protocol.randomize(x, DeterministicRandom(seed))
    assert case.forged is not None
    estimates = []
    for column in case.forged(protocol, honest[:, 0]):
        messages = honest.copy()
        messages[:, 0] = column
        view = protocol.shuffle(messages, DeterministicRandom(seed + 1))
        estimates.append(protocol.analyze(view).estimate)
    return max(float(np.linalg.norm(a - b)) for a, b in combinations(estimates, 2))


def careless(protocol: Any, users: int) -> Any:
    """Return a protocol whose shufflers pass on what ``users`` send, fewer than they must await."""
    other = copy.deepcopy(protocol)
    if hasattr(other, "reader"):
        reader = replace(other.reader, users=Participation(other.n, users))
        object.__setattr__(other, "reader", reader)
    else:
        object.__setattr__(other, "min_honest", users)
    return other


def reported(protocol: Any, x: Any, rng: RandomSource | None = None, **options: bool) -> Any:
    """Return one user's messages, as `randomize` does those of all."""
    report = protocol.report(x, rng, **options)
    if not isinstance(report, Reports):
        return report
    parts = chain(*report.parts[1:], report.parts[0])  # clear shares, the analyzer's, come last
    rows = np.concatenate([part.reshape(-1, protocol.dimension) for part in parts])
    return rows[:, 0] if isinstance(protocol, PrivateSum) else rows


def canonical(view: Any, order: NDArray[np.int64] | None = None) -> Any:
    """Return a view with its columns sorted, and clear messages put back into their order."""
    clear = view.clear
    if clear is not None:
        undone = clear if order is None else clear[np.argsort(order)]
        clear = tuple(undone.tolist())
    return [sorted(column.tolist()) for column in view.columns], clear
