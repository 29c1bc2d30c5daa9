"""Bounds of errors against exact laws: they hold, and are not far too wide."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statistical import discrete_laplace_law

from ikos.numeric.distributions import PolyaDifference
from ikos.results.error import Bounded, NoisySum, chernoff

MISSES = [0.9, 0.5, 0.05, 1e-3, 1e-6, 1e-9]


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize(
    ("n", "p"), [(1, 0.5), (3, 0.1), (20, 0.5), (100, 0.01), (1000, 0.3), (10**5, 0.5)]
)
def test_half_widths_bound_binomial_tails(n: int, p: float, miss: float) -> None:
    law = stats.binom(n, p)
    t = Bounded(n * p * (1 - p), max(p, 1 - p)).half_width(miss)
    outside = float(law.sf(math.floor(n * p + t)) + law.cdf(math.ceil(n * p - t) - 1))
    assert outside <= miss
    if n * p * (1 - p) > 1 and miss < 0.1:  # a third of it would not do
        third = float(law.sf(math.floor(n * p + t / 3)) + law.cdf(math.ceil(n * p - t / 3) - 1))
        assert third > miss


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize("n", [5, 400])
def test_chernoff_with_the_exact_moments_of_coins(n: int, miss: float) -> None:
    """E exp(h (S - n/2)) = cosh(h/2)^n; the bound is at least the exact quantile."""
    t = chernoff(lambda h: n * math.log(math.cosh(h / 2)), miss, math.inf)
    law = stats.binom(n, 0.5)
    assert 2 * float(law.sf(math.floor(n / 2 + t))) <= miss
    assert t <= math.sqrt(n * math.log(2 / miss) / 2) * (1 + 1e-6)  # Hoeffding's inequality


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_chernoff_ends_where_the_moments_do(scale: float, miss: float) -> None:
    """Laplace noise: E exp(h X) = 1 / (1 - (scale h)^2) below 1 / scale; P[abs > t] is exact."""

    def log_mgf(h: float) -> float:
        assert h < 1 / scale
        return -math.log1p(-((scale * h) ** 2)) if scale * h < 1 else math.inf

    t = chernoff(log_mgf, miss, 1 / scale)
    assert math.exp(-t / scale) <= miss
    assert t < scale * (math.log(1 / miss) + 2 * math.log(3 + math.log(1 / miss)) + 3)


def test_chernoff_passes_over_what_overflows() -> None:
    assert 0 < chernoff(lambda h: math.expm1(h) - h, 0.1, math.inf) < 6


@given(st.floats(1e-6, 1e9), st.floats(1e-9, 1e3), st.floats(1e-12, 0.5))
@settings(max_examples=25)
def test_half_widths_grow_with_what_they_are_of(v: float, b: float, miss: float) -> None:
    t = Bounded(v, b).half_width(miss)
    slack = 1 + 1e-9
    assert t <= Bounded(2 * v, b).half_width(miss) * slack
    assert t <= Bounded(v, 2 * b).half_width(miss) * slack
    assert t <= Bounded(v, b).half_width(miss / 10) * slack
    # between the normal law's and Bernstein's
    wanted = math.log(2 / miss)
    assert math.sqrt(2 * v * wanted) <= t * slack
    assert t <= (math.sqrt(2 * v * wanted) + b * wanted / 1.5) * slack


def test_no_variance_no_error() -> None:
    assert Bounded(0.0, 0.5).half_width(0.01) == 0


@pytest.mark.parametrize("miss", [0.3, 0.05, 1e-3, 1e-8])
@pytest.mark.parametrize(("shape", "users"), [(1, 0), (1, 60), (4, 60)])
def test_noise_and_rounding_by_their_exact_law(shape: int, users: int, miss: float) -> None:
    """``shape`` discrete Laplace variables and fair roundings of ``users`` values."""
    rate, precision = Fraction(1, 6), 12
    one = discrete_laplace_law(float(rate))
    law = np.ones(1)
    for _ in range(shape):
        law = np.convolve(law, one.pmf)
    law = np.convolve(law, [math.comb(users, k) / 2**users for k in range(users + 1)])
    y = (shape * one.first - users / 2 + np.arange(law.size)) / precision
    error = NoisySum(PolyaDifference(rate, Fraction(shape)), precision, users)
    assert error.mean_square == pytest.approx(float((law * y**2).sum()))
    t = error.half_width(miss)
    assert float(law[np.abs(y) > t].sum()) <= miss
    assert float(law[np.abs(y) > t / 2].sum()) > miss


def test_what_is_not_rounded_has_noise_alone() -> None:
    plain = NoisySum(PolyaDifference(Fraction(1, 5), Fraction(1)), 10, 100)
    whole = NoisySum(plain.noise, 10, 100, rounded=False)
    assert whole.mean_square == pytest.approx(plain.mean_square - 100 / 4 / 100)
    assert whole.half_width(0.05) < plain.half_width(0.05)
