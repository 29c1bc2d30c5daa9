"""Intervals from pairs of noisy sums: check values, and exact probabilities of a miss."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ikos.numeric.distributions import Divisible, PolyaDifference, SkellamDistribution
from ikos.results.pairs import PairError, _tail_inverse

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
            assert _tail_inverse(1 - mu, mu, miss) == pytest.approx(value, abs=1e-6)


def test_check_values_of_the_intervals() -> None:
    error = PairError(PolyaDifference(Fraction(1, 512), Fraction(1)), 256, 10**4)
    assert error.half_width(1, 1, 0, 0.05) == pytest.approx(8.2338, abs=1e-4)
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
    t = P * PairError(noise, P, users).half_width(a, b, c, RISK)
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
    band = PairError(noise, P, rounded, centred).mean_interval(high, low, RISK)
    miss = np.mean((band.low > mean) | (band.high < mean))
    assert miss * draws <= stats.binom.isf(1e-10, draws, RISK)
    if users >= 200 and noise is NOISES[0]:
        assert miss * draws >= stats.binom.ppf(1e-10, draws, 0.03)
