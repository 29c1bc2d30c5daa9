"""Values that are integers: rounded only where steps do not fit them, and charged only then."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from exact.enumeration import Halves, exact_law
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.signal import fftconvolve
from statistical import FALSE_ALARM

from ikos.baselines import (
    PROTOCOLS,
    BinaryRandomizedResponse,
    CentralDiscreteLaplace,
    CorrelatedNoise,
    LocalRandomizedResponse,
    PrivacyBlanket,
    RecursiveSum,
    UnaryEncoding,
    comparison,
)
from ikos.data.domains import Bounds, IntegerBounds
from ikos.data.encoding import steps_of
from ikos.results.error import Flips
from ikos.testing import DeterministicRandom

NUMBERS = [one.key for one in PROTOCOLS if Bounds in one.domains]
SEARCHED = {"recursive-2", "recursive-3", "recursive-4", "correlated-noise"}


# What rounding adds


@pytest.mark.parametrize("width", range(1, 13))
def test_rounding_is_that_of_the_worst_integer(width: int) -> None:
    bounds = IntegerBounds(-2, width - 2)
    for steps in range(1, 14):
        parts = [Fraction(j * steps, width) % 1 for j in range(width + 1)]
        assert bounds.rounding(steps) == max(part * (1 - part) for part in parts)
    assert Bounds(-2, width - 2).rounding(width) == Fraction(1, 4)


@given(st.data(), st.integers(1, 2**52), st.integers(-(2**51), 2**51))
def test_whole_steps_are_exact(data: st.DataObject, width: int, lower: int) -> None:
    width = min(width, 2**52 - lower)
    p = width * data.draw(st.integers(1, 2**52 // width or 1))
    ends = st.integers(0, width)
    parts = [0, width, *data.draw(st.lists(ends, max_size=5))]
    values = np.array([float(lower + part) for part in parts])
    steps = steps_of(values, IntegerBounds(lower, lower + width), p, DeterministicRandom(0))
    assert steps.tolist() == [part * (p // width) for part in parts]


@pytest.mark.parametrize(
    "protocol",
    [
        BinaryRandomizedResponse(3, 1, 0.05, integers=True),
        BinaryRandomizedResponse(2, 1, 0.05, integers=True, lower=-1, upper=1),
        UnaryEncoding(2, 1, 0.05, messages=2, integers=True, upper=2),
        UnaryEncoding(1, 1, 0.05, messages=3, integers=True, upper=2),
        UnaryEncoding(1, 1, 0.05, messages=3, integers=True),
        LocalRandomizedResponse(2, 1, integers=True, lower=3, upper=4),
    ],
    ids=str,
)
def test_the_error_of_bits_is_the_supremum_by_enumeration(protocol: Any) -> None:
    bounds, worst = protocol.domain, 0.0
    for x in product(range(int(bounds.lower), int(bounds.upper) + 1), repeat=protocol.n):

        def estimate(rng: Any, x: Any = x) -> float:
            messages = protocol.randomize(np.array(x, dtype=float), rng)
            return float(protocol.analyze(protocol.shuffle(messages, rng)).estimate)

        law, unfinished = exact_law(estimate, Halves)
        assert unfinished == 0
        worst = max(worst, sum(float(p) * (y - sum(x)) ** 2 for y, p in law.items()))
    assert protocol.mse == pytest.approx(worst, rel=1e-12)


@pytest.mark.parametrize(("precision", "upper"), [(1, 1), (6, 3), (4, 4), (6, 4)])
def test_the_error_of_the_blanket_is_the_supremum(precision: int, upper: int) -> None:
    protocol = PrivacyBlanket(
        100, 1, 1e-3, precision=precision, integers=True, upper=upper, min_honest=90
    )
    gamma, p = protocol.gamma, Fraction(precision)
    errors = []
    for value in range(upper + 1):
        low, part = divmod(Fraction(value * precision, upper), 1)
        law = [gamma / (p + 1)] * (precision + 1)
        for step, chance in ((low, 1 - part), (low + 1, part)):
            if chance:
                law[int(step)] += (1 - gamma) * chance
        mean = (1 - gamma) * (low + part) + gamma * p / 2
        square = sum(chance * (y - mean) ** 2 for y, chance in enumerate(law))
        errors.append(100 * square * (upper / p / (1 - gamma)) ** 2)
    exact = (precision % upper) == 0
    assert float(max(errors)) <= protocol.mse * (1 + 1e-12)
    assert not exact or protocol.mse == pytest.approx(float(max(errors)), rel=1e-12)
    rounded = PrivacyBlanket(100, 1, 1e-3, precision=precision, upper=upper, min_honest=90)
    less = 100 * (Fraction(1, 4) - protocol.domain.rounding(precision)) * (upper / p) ** 2
    assert rounded.mse - protocol.mse == pytest.approx(float(less))


def test_digits_of_integers() -> None:
    bits, reals = (RecursiveSum(1000, 1, 1e-4, integers=bits) for bits in (True, False))
    precision = reals.digits.precision
    assert bits.digits == reals.digits
    assert reals.mse - bits.mse == pytest.approx(1000 / 4 / precision**2)
    assert bits.error(1000).coordinate.half_width(0.05) < reals.error(1000).coordinate.half_width(
        0.05
    )


def test_the_defaults_fit_integers() -> None:
    laplace = CentralDiscreteLaplace(1000, 1, integers=True, lower=-2, upper=5)
    assert laplace.precision == 7
    assert laplace.mse == pytest.approx(1 / (2 * math.sinh(1 / 14) ** 2))
    low, high = laplace.run([0] * 1000, DeterministicRandom(0)).interval(0.95)
    assert low == int(low)
    assert high == int(high)
    coarse = CentralDiscreteLaplace(1000, 1, integers=True, precision=6, upper=5)
    assert coarse.mse > CentralDiscreteLaplace(1000, 1, integers=True, upper=5).mse + 250 * 25 / 36
    assert PrivacyBlanket(1000, 1, 1e-4, integers=True).precision == 1
    few = PrivacyBlanket(1000, 1, 1e-4)
    assert PrivacyBlanket(1000, 1, 1e-4, integers=True, upper=100).precision == few.precision > 1
    assert CentralDiscreteLaplace(1000, 1, integers=True, upper=2.0**33).precision < 1000
    noisy = CorrelatedNoise(10, 1, 0.1, integers=True, upper=5)
    assert (noisy.precision, noisy.error(10).integers) == (5, True)


# Binary sums: an error of O(sqrt(log(1/delta)) / epsilon), whatever n is


@pytest.mark.parametrize("n", [10**3, 10**4, 10**5, 10**6, 10**7])
def test_the_error_of_bits_does_not_grow(n: int) -> None:
    protocol = BinaryRandomizedResponse(n, 1, 1e-8, integers=True)
    g = protocol.gamma / 2
    exact = n * g * (1 - g) / (1 - protocol.gamma) ** 2
    assert protocol.mse == pytest.approx(float(exact), rel=1e-14)
    assert 7.01 < math.sqrt(protocol.mse) < 7.03
    assert 13.7 < protocol.error(n).coordinate.half_width(0.05) < 15
    assert n != 10**6 or round(protocol.mse, 1) == 49.4
    reals = BinaryRandomizedResponse(n, 1, 1e-8)
    assert reals.gamma == protocol.gamma
    assert reals.mse - protocol.mse == pytest.approx(n / 4)


def flips_law(ones: int, zeros: int, g: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the errors of a count of ones, and their probabilities."""
    pmf = np.convolve(
        stats.binom.pmf(np.arange(zeros + 1), zeros, g),
        stats.binom.pmf(np.arange(ones + 1), ones, g)[::-1],
    )
    return np.arange(pmf.size) - ones - (zeros - ones) * g, pmf


@pytest.mark.parametrize("miss", [0.9, 0.3, 0.05, 1e-3, 1e-9])
@pytest.mark.parametrize(
    ("bits", "g"), [(1, 0.2), (1, 0.5), (4, 0.01), (40, 0.001), (60, 0.3), (300, 0.1), (300, 0.5)]
)
def test_the_interval_holds_for_every_count(bits: int, g: float, miss: float) -> None:
    t = Flips(bits * g * (1 - g), bits, g, 1.0).half_width(miss)
    missed = []
    for ones in range(bits + 1):
        errors, pmf = flips_law(ones, bits - ones, g)
        missed.append((pmf[np.abs(errors) > t].sum(), pmf[np.abs(errors) > 0.8 * t - 1].sum()))
    assert max(outside for outside, _ in missed) <= miss * (1 + 1e-9)
    if bits == 300 and miss < 0.1:
        assert max(outside for _, outside in missed) > miss


@pytest.mark.slow
def test_measured_errors_of_bits() -> None:
    """The mean square of 60 runs, within the exact law of sums of squares, rounded outwards."""
    n, runs, ones = 10**6, 60, 300_000
    protocol = BinaryRandomizedResponse(n, 1, 1e-8, integers=True)
    x = np.zeros(n)
    x[:ones] = 1
    rng = DeterministicRandom(11)
    results = [protocol.run(x, rng) for _ in range(runs)]
    errors = np.array([result.estimate - ones for result in results])
    g, most = float(protocol.gamma / 2), 200  # beyond, a probability below 1e-50
    raised, lowered = (stats.binom.pmf(np.arange(most), k, g) for k in (n - ones, ones))
    pmf = np.convolve(raised, lowered[::-1])
    squares = ((np.arange(pmf.size) - most + 1 - (n - 2 * ones) * g) / (1 - 2 * g)) ** 2
    ends = []
    for rounded in (np.floor(squares), np.ceil(squares)):
        one = np.bincount(np.minimum(rounded, 6000).astype(int), weights=pmf)
        total = np.ones(1)
        for _ in range(runs):
            total = np.maximum(fftconvolve(total, one), 0)
        ends.append(np.cumsum(total))
    least = int(np.searchsorted(ends[0], FALSE_ALARM / 2))
    most_squares = int(np.searchsorted(ends[1], 1 - FALSE_ALARM / 2))
    assert least / runs > 11
    assert most_squares / runs < 130
    assert least <= (errors**2).sum() <= most_squares
    inside = sum(low <= ones <= high for low, high in (one.interval(0.95) for one in results))
    assert inside >= stats.binom(runs, 0.95).ppf(FALSE_ALARM)


# All protocols for numbers


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=[pytest.mark.slow] * (key in SEARCHED)) for key in NUMBERS]
)
def test_every_protocol_takes_integers_and_nothing_else(key: str) -> None:
    ends: dict[str, Any] = {"lower": -1, "upper": 2, "protocols": [key]}
    (row,) = comparison(60, 2, 0.01, integers=True, **ends)
    (same,) = comparison(60, 2, 0.01, domain=IntegerBounds(-1, 2), protocols=[key])
    protocol: Any = row.protocol
    assert protocol == same.protocol
    x = np.array([-1.0, 0.0, 2.0] * 20)
    result = protocol.run(x, DeterministicRandom(1))
    low, high = result.interval(1 - 1e-9)
    assert low <= x.sum() <= high
    x[4] = 0.5
    with pytest.raises(ValueError, match=r"^x\[4\] must be an integer$"):
        protocol.run(x)
    with pytest.raises(ValueError, match="upper must be an integer"):
        row.spec.made_by(60, *((2,) if row.spec.pure else (2, 0.01)), integers=True, upper=5.5)


def test_a_domain_says_itself_whether_values_are_integers() -> None:
    with pytest.raises(ValueError, match="integers must be left out with a domain"):
        comparison(10, 1, 0.1, integers=True, domain=IntegerBounds(0, 1))
    with pytest.raises(TypeError, match="integers must be"):
        comparison(10, 1, 0.1, integers=1)  # type: ignore[arg-type]
