"""Intervals from a few noisy sums: check values, and probabilities of a miss."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import signal, stats

from ikos.numeric.distributions import Divisible, PolyaDifference, SkellamDistribution
from ikos.results.linear import (
    HIGH_OF_THREE,
    LinearError,
    _tail_inverse,
    _variance_widths,
    _widths,
    variances,
)

P, RISK = 16, 0.05
NOISES = [
    PolyaDifference(Fraction(1, 2 * P), Fraction(1)),
    PolyaDifference(Fraction(1, 2 * P), Fraction(5, 4)),
    SkellamDistribution(Fraction(40**2)),
]


def law(noise: Divisible) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a noise within 16 deviations, and their probabilities."""
    last = int(16 * noise.variance**0.5)
    k = np.arange(-last, last + 1)
    if isinstance(noise, SkellamDistribution):
        half = float(noise.spread) / 2
        return k, stats.skellam.pmf(k, half, half)
    one = stats.nbinom.pmf(np.arange(2 * last), float(noise.shape), -np.expm1(-float(noise.rate)))
    both = np.convolve(one, one[::-1])
    return k, both[one.size - 1 - last : one.size + last]


def rounding(users: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of rounding values halfway between two steps, and their probabilities."""
    ups = np.arange(users + 1)
    return ups - users / 2, stats.binom.pmf(ups, users, 0.5)


def test_check_values_of_the_tails() -> None:
    for miss, table in (
        (0.05, (2.995732, 2.707339, 2.334972, 2.101967, 2.056502)),
        (0.01, (4.605170, 4.155833, 3.542208, 3.095206, 2.995122)),
    ):
        for mu, value in zip((0, 0.1, 0.25, 0.4, 0.5), table, strict=True):
            assert _tail_inverse((1 - mu, mu), miss) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(
    "weights", [(1, 1, 1), (1, 0.5, 0), (0.8, 0.8, 0.1), (0.9, 0.3, 0.3), (1, 0, 0), (3, 2, 1)]
)
@pytest.mark.parametrize("miss", [0.05, 1e-9])
def test_tails_of_three(weights: tuple[float, float, float], miss: float) -> None:
    """By convolution on a lattice of 1/200 of a scale."""
    t = float(_tail_inverse(weights, miss))
    k = np.arange(-12_000, 12_001)
    total = np.ones(1)
    for weight in weights:
        if weight:
            one = np.exp(-np.abs(k) / (200 * weight))
            one = one[np.abs(k) <= 12_000 * weight / max(weights)]
            total = signal.fftconvolve(total, one / one.sum())
    beyond = np.cumsum(total[::-1])[::-1]  # P[T >= k], where it is far above rounding errors
    if miss > 1e-6:
        exact = 2 * beyond[total.size // 2 + round(200 * t)]
        assert exact == pytest.approx(miss, rel=0.02)
    two = float(_tail_inverse(weights[:2], miss))
    assert two <= t * (1 + 1e-12)
    if not weights[2]:
        assert t == pytest.approx(two, rel=1e-9)


def test_check_values_of_the_intervals() -> None:
    error = LinearError(PolyaDifference(Fraction(1, 512), Fraction(1)), 256, 10**4)
    assert error.half_width((1, 1), 0, 0.05) == pytest.approx(8.2338, abs=1e-4)
    band = error.mean_interval([300, 5, -3, 7, 0, 20], [200, 3, 900, -2, 40, 20], 0.05)
    low = [0.5915663, 0, 0, 0.3937817, 0, 0.3939185]
    high = [0.6084961, 1, 0.00665939, 1, 0.1319609, 0.6060815]
    np.testing.assert_allclose(band.low, low, rtol=2e-3, atol=1e-8)
    np.testing.assert_allclose(band.high, high, rtol=2e-3)
    assert (band.low <= np.array(low) + 1e-7).all()
    assert (band.high >= np.array(high) - 1e-7).all()


@pytest.mark.parametrize("noise", NOISES, ids=["laplace", "polya", "skellam"])
@pytest.mark.parametrize("weights", [(1, 1, 0), (1, 0, 1), (5, 3, 8), (0, 2, 0)])
def test_half_widths_are_missed_as_rarely_as_they_say(
    noise: Divisible, weights: tuple[float, float, float]
) -> None:
    a, b, c = weights
    users = 300 if c else 0
    (k, p), (r, q) = law(noise), rounding(users)
    t = P * LinearError(noise, P, users).half_width((a, -b), c, RISK)
    cdf = np.concatenate(([0.0], np.cumsum(p)))
    centre = a * k[:, np.newaxis] + c * r  # given X and R, the values of Y that are within t
    if b:
        first, last = np.ceil((-t - centre) / b), np.floor((t - centre) / b)
        inside = (
            cdf[np.clip(last - k[0] + 1, 0, k.size).astype(int)]
            - cdf[np.clip(first - k[0], 0, k.size).astype(int)]
        )
    else:
        inside = (np.abs(centre) <= t).astype(float)
    miss = 1 - float(p @ inside @ q)
    assert miss <= RISK
    assert miss >= RISK * (0.9 if noise is NOISES[0] else 0.45)  # and not much more rarely


@pytest.mark.parametrize("noise", NOISES, ids=["laplace", "polya", "skellam"])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(
    ("users", "mean"), [(0, 0.5), (3, 0.0), (10, 0.5), (60, 1.0), (200, 0.9), (1000, 0.02)]
)
def test_means_are_missed_as_rarely_as_they_say(
    noise: Divisible, centred: bool, users: int, mean: float
) -> None:
    """For every number of users, also none. A false alarm has a probability below 1e-9."""
    draws = 8_000
    rng, (k, p), rounded = np.random.default_rng(users), law(noise), 20
    x, y = rng.choice(k, (2, draws), p=p / p.sum()) / P
    e = (rng.binomial(rounded, 0.5, draws) - rounded / 2) / P
    high, low = users * mean, users * (1 - mean)
    if centred:  # N / 2 + D and N / 2 - D
        high, low = high + x - y + e, low - x - y - e
    else:
        high, low = high + x + e, low + y - e
    weights = ((1, -1), (-1, -1)) if centred else ()
    band = LinearError(noise, P, rounded).mean_interval(high, low, RISK, *weights)
    miss = np.mean((band.low > mean) | (band.high < mean))
    assert miss * draws <= stats.binom.isf(1e-10, draws, RISK)
    if users >= 200 and noise is NOISES[0]:
        assert miss * draws >= stats.binom.ppf(1e-10, draws, 0.03)


def sums_of_three(
    noise: Divisible, values: np.ndarray, rounded: int, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of the three noisy sums of users with these values."""
    k, p = law(noise)
    parts = np.array([values**2, 2 * values * (1 - values), (1 - values) ** 2]).sum(axis=1)
    e = rng.binomial(rounded, 0.5, draws) - rounded / 2  # of the first and third part, halved
    errors = np.stack([e, np.zeros(draws), -e])
    return parts[:, np.newaxis] + (rng.choice(k, (3, draws), p=p / p.sum()) + errors) / P


@pytest.mark.parametrize(
    ("users", "values"),
    [(3, [0]), (60, [0, 1]), (200, [0, 0.3, 0.5, 1]), (1000, [0.5]), (1000, [0.02, 0.9, 0.95])],
)
@pytest.mark.parametrize(
    "noise",
    [NOISES[0], *(pytest.param(one, marks=pytest.mark.slow) for one in NOISES[1:])],
    ids=["laplace", "polya", "skellam"],
)
def test_variances_are_missed_as_rarely_as_they_say(
    noise: Divisible, users: int, values: list[float]
) -> None:
    """And the intervals contain the estimates. A false alarm has a probability below 1e-9."""
    draws, rounded, rng = 2000, 20, np.random.default_rng(users)
    x = np.resize(np.array(values, dtype=float), users)
    sums = sums_of_three(noise, x, rounded, draws, rng)
    error = LinearError(noise, P, rounded)
    band = error.variance_interval(sums, RISK)
    miss = np.mean((band.low > x.var()) | (band.high < x.var()))
    assert miss * draws <= stats.binom.isf(1e-10, draws, RISK)
    if len(values) > 2 and noise is NOISES[0]:  # not at an end of what is possible
        assert miss * draws >= stats.binom.ppf(1e-10, draws, 0.025)
    high, low = (np.maximum(np.array(one) @ sums, 0) for one in (HIGH_OF_THREE, (0, 0.5, 1)))
    estimates = variances(sums, high / np.where(high + low > 0, high + low, 1))
    assert ((band.low <= estimates) & (estimates <= band.high)).all()
    means = error.mean_interval(high, low, RISK, HIGH_OF_THREE, HIGH_OF_THREE[::-1])
    miss = np.mean((means.low > x.mean()) | (means.high < x.mean()))
    assert miss * draws <= stats.binom.isf(1e-10, draws, RISK)
    if users >= 200 and noise is NOISES[0]:
        assert miss * draws >= stats.binom.ppf(1e-10, draws, 0.03)


def test_variances_of_exact_sums_are_exact() -> None:
    x = np.array([0.1, 0.2, 0.7, 1.0])
    sums = np.array([x**2, 2 * x * (1 - x), (1 - x) ** 2]).sum(axis=1)
    assert variances(sums, np.array(x.mean())) == pytest.approx(x.var(), abs=1e-12)


@pytest.mark.parametrize("noise", NOISES, ids=["laplace", "polya", "skellam"])
def test_half_widths_of_cells_are_those_of_all_points_in_them(noise: Divisible) -> None:
    error, rng = LinearError(noise, P, 20), np.random.default_rng(0)
    edges, steps, widths = _variance_widths(error, RISK)
    ends, halves = _widths(error, HIGH_OF_THREE, HIGH_OF_THREE[::-1], RISK)
    for m in rng.uniform(0, 1, 40):
        v = rng.uniform(0, m * (1 - m))
        half = error.half_width(((1 - m) ** 2 - v, m * (1 - m) + v, m * m - v), 1.0, RISK)
        cell = np.searchsorted(steps, v) - 1, np.searchsorted(edges, m) - 1
        assert half <= widths[cell] * (1 + 1e-9)
        half = error.half_width((1 - m, 0.5 - m, m), 1.0, RISK)
        assert half <= halves[np.searchsorted(ends, m) - 1] * (1 + 1e-9)
