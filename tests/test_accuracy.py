"""The law of the noise: variance, wrap-around and intervals against exact convolutions."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import accumulate
from operator import mul
from typing import Any

import gmpy2
import mpmath
import numpy as np
import pytest
from gmpy2 import mpfr
from numpy.typing import NDArray
from scipy import signal, stats
from statistical import skellam_law

from ikos.numeric.binomial import log_negative_pmf
from ikos.numeric.distributions import (
    PolyaDifference,
    SkellamDistribution,
    default_modulus,
    default_precision,
)
from ikos.results.error import bennett


@cache
def noise_pmf(law: PolyaDifference) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return support and law of the difference of two Polya variables, by convolution."""
    s, r = float(law.rate), float(law.shape)
    last = int(stats.nbinom(r, -math.expm1(-s)).isf(1e-15)) + 2
    k = np.arange(last)
    from scipy.special import gammaln

    pmf = np.exp(gammaln(k + r) - gammaln(k + 1) - gammaln(r) + r * np.log(-np.expm1(-s)) - s * k)
    both = signal.fftconvolve(pmf, pmf[::-1])
    return np.arange(-(last - 1), last), np.clip(both, 0, None)


@pytest.mark.parametrize("rate", [1e-9, 1e-3, 0.7, 30.0])
@pytest.mark.parametrize("shape", [1.0, 1.25, 40.5, 1e6 + 0.3, 1e12])
def test_logarithms_of_polya_probabilities(rate, shape):
    mode = math.floor((shape - 1) / math.expm1(rate))
    for k in {0, 1, mode, 2 * mode + 7}:
        with gmpy2.context(precision=200):
            beta, r = -gmpy2.expm1(-mpfr(rate)), mpfr(shape)
            ways = gmpy2.lngamma(k + r) - gmpy2.lngamma(r) - gmpy2.lngamma(mpfr(k + 1))
            exact = float(ways + r * gmpy2.log(beta) - k * mpfr(rate))
        assert float(log_negative_pmf(k, shape, rate)) == pytest.approx(exact, rel=1e-9, abs=1e-9)


LAWS = [
    PolyaDifference(Fraction(1, 20), Fraction(1)),
    PolyaDifference(Fraction(2), Fraction(1)),
    PolyaDifference(Fraction(1, 20), Fraction(10, 9)),
    PolyaDifference(Fraction(1, 20), Fraction(3)),
    PolyaDifference(Fraction(1, 2), Fraction(25)),
    PolyaDifference(Fraction(1, 700), Fraction(5, 2)),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_variance(law: PolyaDifference) -> None:
    support, pmf = noise_pmf(law)
    assert math.isclose(law.variance, float((pmf * support**2).sum()), rel_tol=1e-6)


def test_variance_of_a_negligible_noise_does_not_overflow() -> None:
    assert PolyaDifference(Fraction(10**6), Fraction(1)).variance == 0.0


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("miss", [0.5, 1e-6])
@pytest.mark.parametrize("users", [0, 1, 400])
def test_half_width_covers_noise_and_rounding(
    law: PolyaDifference, miss: float, users: int
) -> None:
    """Rounding is worst, in variance, at fractions of one half: Bin(users, 1/2) - users/2."""
    support, pmf = noise_pmf(law)
    rounding = stats.binom(users, 0.5).pmf(np.arange(users + 1))
    total = np.clip(signal.fftconvolve(pmf, rounding), 0, None)
    error = np.abs(np.arange(total.size) + support[0] - users / 2)
    t = law.half_width(miss, users)
    assert total[error > t].sum() <= miss + 1e-12


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_half_width_is_not_wasteful(law: PolyaDifference) -> None:
    """Within 10 % and three steps of the exact quantile where rounding is a small share."""
    support, pmf = noise_pmf(law)
    users = max(1, math.floor(0.04 * law.variance))
    order = np.argsort(np.abs(support), kind="stable")
    for miss in (0.3, 0.05, 1e-4):
        outside = 1 - np.cumsum(pmf[order])
        exact = np.abs(support)[order][int(np.argmax(outside <= miss))]
        assert law.half_width(miss, users) <= 1.1 * exact + 3


def test_half_width_on_a_coarse_lattice_still_covers() -> None:
    law = PolyaDifference(Fraction(1, 10**6), Fraction(3, 2))
    assert law._grid[0] > 1
    # at this scale the law is that of a difference of two Gamma(3/2) variables times 10^6
    k = np.arange(0, 60, 0.005) + 0.0025
    density = stats.gamma(1.5).pdf(k) * 0.005
    both = signal.fftconvolve(density, density[::-1])
    x = (np.arange(both.size) - (k.size - 1)) * 0.005
    for miss in (0.05, 1e-3):
        t = law.half_width(miss, 10**6) / 10**6
        outside = both[np.abs(x) > t].sum()
        assert 0.97 * miss - 1e-5 <= outside + 0.02 * miss <= miss * 1.02


@pytest.mark.parametrize("rate", [8, 36, 40, 800])
@pytest.mark.parametrize("shape", [Fraction(1), Fraction(2), Fraction(1000)])
def test_half_width_covers_rounding_where_there_is_no_noise(rate: int, shape: Fraction) -> None:
    """With a survival function that falls below what doubles resolve in a step or two."""
    users, miss = 1000, 0.05
    t = PolyaDifference(Fraction(rate), shape).half_width(miss, users)
    rounding = stats.binom(users, 0.5)
    assert rounding.cdf(users / 2 - t) + rounding.sf(users / 2 + t) <= miss
    assert t < 60


def test_half_width_at_a_rate_beyond_the_lattice() -> None:
    assert 2e30 < PolyaDifference(Fraction(1, 10**30), Fraction(2)).half_width(0.05, 10) < 2e31
    # standard deviations here are sqrt(2 shape) / rate, and 1.96 of them the normal quantile
    for rate, shape in ((Fraction(1, 10**11), 10**9), (Fraction(1, 16), 2**53)):
        deviation = math.sqrt(2 * shape) / float(rate)
        t = PolyaDifference(rate, Fraction(shape)).half_width(0.05, 1)
        assert 1.96 < t / deviation < 2.8


@pytest.mark.parametrize("shape", [Fraction(3, 2), Fraction(40)])
def test_tail_bound_is_twice_chernoffs_bound(shape: Fraction) -> None:
    s, r, distance = 0.05, float(shape), 900.0
    theta = np.linspace(0, s, 200_001)[1:-1]
    log_mgf = r * (2 * np.log(-np.expm1(-s)) - np.log(-np.expm1(theta - s)))
    log_mgf -= r * np.log(-np.expm1(-theta - s))
    best = 2 * math.exp(float((log_mgf - theta * distance).min()))
    bound = PolyaDifference(Fraction(1, 20), shape).tail_bound(distance)
    assert math.isclose(bound, min(1.0, best), rel_tol=1e-6)


@pytest.mark.points(0)
def test_tail_bound_is_nowhere_below_twice_chernoffs_bound() -> None:
    """Not by a part of 2^-60: what doubles find is computed again, and rounded up."""
    rng = np.random.default_rng(0)
    for shape, s, far in zip(
        rng.integers(2, 50, 40), rng.uniform(0.01, 2, 40), rng.uniform(2, 30, 40), strict=True
    ):
        law = PolyaDifference(Fraction(s), Fraction(int(shape)))
        t = Fraction(far * law.variance**0.5)
        with gmpy2.context(precision=400):
            rate, distance = gmpy2.mpfr(law.rate.numerator) / law.rate.denominator, gmpy2.mpq(t)

            def bound(
                theta: Any, rate: Any = rate, distance: Any = distance, r: Any = shape
            ) -> Any:
                grown = 2 * gmpy2.log(-gmpy2.expm1(-rate)) - gmpy2.log(-gmpy2.expm1(theta - rate))
                return int(r) * (grown - gmpy2.log(-gmpy2.expm1(-theta - rate))) - theta * distance

            low, high = gmpy2.mpfr(0), rate
            for _ in range(200):  # convex in theta
                left, right = (2 * low + high) / 3, (low + 2 * high) / 3
                low, high = (low, right) if bound(left) < bound(right) else (left, high)
            least = gmpy2.const_log2() + bound(low)
            assert law.log_tail_bound(t) >= min(0, least * (1 + gmpy2.mpfr(2) ** -60))
    assert PolyaDifference(Fraction(1), Fraction(1)).tail_bound(-5) == 1


@pytest.mark.points(2)
@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("miss", [0.05, 1e-6])
def test_half_width_where_rounding_dominates(law: PolyaDifference, miss: float) -> None:
    """Within the constant that separates Hoeffding's bound from the normal quantile."""
    users = math.ceil(100 * law.variance)
    normal = stats.norm.isf(miss / 2) * math.sqrt(users / 4 + law.variance)
    assert normal * 0.99 < law.half_width(miss, users) < 1.5 * normal


@pytest.mark.parametrize("shape", [Fraction(1), Fraction(2)])
def test_half_width_reaches_the_far_tail(shape: Fraction) -> None:
    law = PolyaDifference(Fraction(1, 10), shape)
    assert 690 < law.half_width(1e-30, 10) < 1000


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("top", [0, 7, 500])
def test_reach_bounds_the_wrap_around_probability(law: PolyaDifference, top: int) -> None:
    """Every true sum in {0..top}, windows of every kind of width."""
    support, pmf = noise_pmf(law)
    left, right = np.cumsum(pmf), np.cumsum(pmf[::-1])[::-1]
    first, truth = int(support[0]), np.arange(top + 1)
    for q in (top + 1, top + 2, top + 20, top + 301, 2 * top + 2000):
        # noise that wraps around: truth + noise is at most (top - q) / 2, or above (top + q) / 2
        low = (top - q) // 2 - truth - first
        high = (top + q) // 2 + 1 - truth - first
        wrong = np.where(low >= 0, left[np.clip(low, 0, pmf.size - 1)], 0.0)
        wrong += np.where(high < pmf.size, right[np.clip(high, 0, pmf.size - 1)], 0.0)
        worst = float(wrong.max())
        assert worst <= law.tail_bound((q - top) / 2) + 1e-12


@pytest.mark.points(1)
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(7, 5), Fraction(5), Fraction(40)])
@pytest.mark.parametrize("shape", [1, 2, 5])
def test_reach_bounds_the_tail_at_every_distance(rate: Fraction, shape: int) -> None:
    """Both ends of a window (-t, t], by sums over the law of A - B with enough digits."""
    law = PolyaDifference(rate, Fraction(shape))
    last = math.ceil(1700 / rate)  # what is beyond does not matter
    with gmpy2.context(precision=5000):
        alpha = gmpy2.exp(-mpfr(rate.numerator) / rate.denominator)
        start = (1 - alpha) ** shape
        one = [start * math.comb(k + shape - 1, k) * alpha**k for k in range(last)]
        below = [sum(map(mul, one, one[d:])) for d in range(min(25, last))]
        above = (1 + below[0]) / 2 - gmpy2.fsum(below)  # P[A - B >= 25]
        tail = list(accumulate(reversed(below), initial=above))[::-1]
        for distance in {Fraction(step, 10) for step in range(1, 230)}:
            here = tail[math.ceil(distance)] + tail[math.floor(distance) + 1]
            assert here <= law.tail_bound(distance), (distance, float(here))


@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(1, 3), Fraction(7, 10), Fraction(5)])
def test_reach_of_discrete_laplace_noise_is_rounded_up(rate: Fraction) -> None:
    """alpha^t at multiples of 1/2, and what is attained at integers."""
    law = PolyaDifference(rate, Fraction(1))
    for halves in range(1, 60):
        with gmpy2.context(precision=300):
            exact = gmpy2.exp(-mpfr(rate.numerator * halves) / (2 * rate.denominator))
            assert exact <= law.tail_bound(Fraction(halves, 2)) <= exact * (1 + 1e-14)


@pytest.mark.parametrize("parties", [1, 32561, 10**12])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(10)])
def test_default_precision_is_the_smallest_for_its_share(parties: int, epsilon: Fraction) -> None:
    p = default_precision(epsilon, parties)

    def share(p: int) -> float:
        return parties / 4 / PolyaDifference(epsilon / p, Fraction(1)).variance

    assert share(p) <= 0.01 * (1 + 1e-9)
    assert p == 1 or share(p - 1) > 0.01 * (1 - 1e-9)


@pytest.mark.parametrize("shape", [Fraction(1), Fraction(3, 2)])
@pytest.mark.parametrize("users", [1, 1000, 10**6])
def test_default_modulus_is_the_smallest_power_of_two(users: int, shape: Fraction) -> None:
    p = default_precision(Fraction(1), users)
    law = PolyaDifference(Fraction(1, p), shape)
    q = default_modulus(users, p, law)
    assert q & (q - 1) == 0
    assert q > users * p
    assert law.tail_bound((q - users * p) / 2) <= 2.0**-40
    half = q // 2
    assert half <= users * p or law.tail_bound((half - users * p) / 2) > 2.0**-40


@pytest.mark.parametrize("variance", [Fraction(1, 5), Fraction(9), Fraction(10**6)], ids=str)
def test_half_widths_of_skellam_noise_cover_and_are_hardly_wider(variance: Fraction) -> None:
    """Against its exact tails, also with errors of rounding, here those of uniform variables."""
    law, true = SkellamDistribution(variance), skellam_law(float(variance))
    tails = np.cumsum(true.pmf[::-1])[::-1]
    for miss in (0.3, 0.05, 1e-3, 1e-9):
        t = law.half_width(miss, 0)
        beyond = math.floor(t) + 1 - true.first  # errors above t
        assert 2 * tails[beyond] <= miss
        assert t <= 1.35 * math.sqrt(variance) * stats.norm.isf(miss / 2) + 6
        if miss <= 0.05 and variance > 100:
            assert t <= 1.025 * math.sqrt(variance) * stats.norm.isf(miss / 2)
        assert law.half_width(miss, 40) > t
        distance = Fraction(math.ceil(t))
        left = 2 * tails[int(distance) - true.first]
        assert left <= law.tail_bound(distance) <= 1


@pytest.mark.parametrize("variance", [10**9, 10**12, 10**20, 10**60])
def test_half_widths_of_wide_skellam_noise_are_nearly_gaussian(variance: int) -> None:
    law, miss = SkellamDistribution(Fraction(variance)), 0.05
    gaussian = math.sqrt(variance) * stats.norm.isf(miss / 2)
    widths = law.half_width(miss, 0), law.linear_half_width(np.ones(1), np.ones(1, dtype=int), miss)
    assert all(1 <= width / gaussian <= 1.1 for width in widths)


@pytest.mark.parametrize("rate", [1000, 10**4, 10**5])
def test_noise_that_is_almost_never_drawn_has_half_widths_below_one(rate: int) -> None:
    law = PolyaDifference(Fraction(rate), Fraction(1))
    weights, counts = np.array([1.0, 0.01]), np.array([1, 8])
    assert 0 <= law.linear_half_width(weights, counts, 0.05) < 1


def test_tails_of_skellam_noise_do_not_fall_as_fast_as_those_of_gaussian_noise() -> None:
    law = SkellamDistribution(Fraction(100))
    assert law.log_tail_bound(0) == 0
    assert law.log_tail_bound(60) > math.log(2) - 60**2 / 200
    assert law.log_tail_bound(60) == pytest.approx(
        math.log(2) - 60 * math.asinh(0.6) + math.hypot(60, 100) - 100, rel=1e-12
    )


@pytest.mark.parametrize("exponent", range(-12, 1))
def test_bennetts_bound_is_above_its_exact_value_and_close(exponent: int) -> None:
    """(e^x - 1 - x) / largest^2 times the variance, with 60 digits."""
    for digits in (1.0, 2.5, 9.999):
        h, variance, largest = digits * 10.0**exponent, 3.0, 0.75
        with mpmath.workdps(60):
            x = mpmath.mpf(h) * largest
            true = variance * (mpmath.expm1(x) - x) / mpmath.mpf(largest) ** 2
            assert 1 - 1e-9 <= bennett(h, variance, largest) / true <= 1 + 1e-5
