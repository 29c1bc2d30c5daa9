"""The discrete Gaussian sampler against its exact law.

Statistical tests have a proved false-alarm rate of at most 1e-9 each (see `statistical`). That
there is no floating point in the module is tested in `test_noise`.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statistical import FALSE_ALARM, IntegerLaw, p_value_bound

from ikos.primitives.samplers import bernoulli_exp_any, discrete_gaussian
from ikos.testing import DeterministicRandom

VARIANCES = [Fraction(1, 10), Fraction(7, 3), 1, 12_345]
each_variance = pytest.mark.parametrize("variance", VARIANCES, ids=str)


def gaussian_law(variance: float) -> IntegerLaw:
    """Return P[k] proportional to exp(-k^2 / (2 v)), cut where less than e^-40 is left."""
    reach = int((80 * variance) ** 0.5) + 2
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    pmf = np.exp(-k * k / (2 * variance))
    return IntegerLaw(-reach, pmf / pmf.sum())


@pytest.mark.slow
@each_variance
def test_fits_its_law_and_not_a_variance_eight_per_cent_off(variance: Any) -> None:
    draws = discrete_gaussian(variance, 150_000, DeterministicRandom(1))
    assert gaussian_law(float(variance)).p_value(draws) > FALSE_ALARM
    for wrong in (0.92, 1.08):
        assert gaussian_law(float(variance) * wrong).p_value(draws) < FALSE_ALARM


def test_a_law_far_beyond_machine_words_has_its_shape() -> None:
    variance = 10**30
    draws = discrete_gaussian(variance, 4000, DeterministicRandom(2))
    scaled = draws.astype(np.float64) / 1e15
    cells = np.searchsorted([-1.0, 0.0, 1.0], scaled)
    tail = 0.15865525393145707
    law = [tail, 0.5 - tail, 0.5 - tail, tail]  # normal: a step is 1e-15 of the deviation
    assert p_value_bound(np.bincount(cells, minlength=4), law) > FALSE_ALARM
    wide = discrete_gaussian(2 * variance, 4000, DeterministicRandom(2)).astype(np.float64) / 1e15
    cells = np.searchsorted([-1.0, 0.0, 1.0], wide)
    assert p_value_bound(np.bincount(cells, minlength=4), law) < FALSE_ALARM


@pytest.mark.parametrize("variance", [10**9, 2 * 10**9, 2_147_000_000])
def test_squares_that_overflow_words_are_taken_in_python_integers(variance: int) -> None:
    """2 v t^2 fits a word, and the exponent's numerator, of draws beyond 2.5 sigma, does not.

    The chance of a tail is that of the normal law, to 1 part in sigma; a wrapped square is
    negative, and is never kept.
    """
    draws = discrete_gaussian(variance, 20_000, DeterministicRandom(variance))
    for reach in (2.5, 3.0):
        tail = int((np.abs(draws.astype(np.float64)) > reach * variance**0.5).sum())
        chance = float(2 * stats.norm.sf(reach))
        assert stats.binom(draws.size, chance * 0.999).sf(tail - 1) > FALSE_ALARM
        assert stats.binom(draws.size, chance * 0.99).cdf(tail) > FALSE_ALARM


@given(st.fractions(Fraction(1, 50), 5000), st.integers(0, 200))
def test_what_is_kept_of_the_laplace_law_is_gaussian(variance: Fraction, y: int) -> None:
    """The two exponents add up to y^2 / (2 v) and a constant: as fractions, exactly."""
    a, b = variance.numerator, variance.denominator
    t = isqrt(a // b) + 1
    assert (t - 1) ** 2 <= variance < t**2

    def exponent(size: int) -> Fraction:
        return Fraction(size, t) + Fraction((size * b * t - a) ** 2, 2 * a * b * t * t)

    assert exponent(y) - exponent(0) == Fraction(y * y) / (2 * variance)


@pytest.mark.parametrize(("numerator", "chance"), [(0, 1.0), (3, 0.4723665527410147),
    (4, 0.36787944117144233), (9, 0.10539922456186433)])  # fmt: skip
def test_coins_of_any_exponent(numerator: int, chance: float) -> None:
    """exp(-numerator / 4), above 1 as well."""
    draws = bernoulli_exp_any(np.full(120_000, numerator), 4, DeterministicRandom(3))
    heads = int(draws.sum())
    if chance == 1:
        assert heads == draws.size
        return
    counts = [heads, draws.size - heads]
    assert p_value_bound(counts, [chance, 1 - chance]) > FALSE_ALARM
    assert p_value_bound(counts, [1.1 * chance, 1 - 1.1 * chance]) < FALSE_ALARM


def test_one_draw_and_none() -> None:
    assert isinstance(discrete_gaussian(10, rng=DeterministicRandom(1)), int)
    assert discrete_gaussian(10, 0).shape == (0,)
    assert discrete_gaussian(10**40, 3, DeterministicRandom(1)).dtype == object


def test_a_seed_gives_the_same_draws() -> None:
    first, second = (discrete_gaussian(5, 100, DeterministicRandom(9)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_variances_that_are_none(bad: float) -> None:
    with pytest.raises(ValueError, match="variance must be"):
        discrete_gaussian(bad, 3)


def test_other_bad_arguments() -> None:
    with pytest.raises(TypeError, match="variance must be"):
        discrete_gaussian("1", 3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="size must be at least 0"):
        discrete_gaussian(1, -1)
    with pytest.raises(ValueError, match="size must be at most 1099511627776, got"):
        discrete_gaussian(1, 10**30)
    with pytest.raises(TypeError, match="rng must be None"):
        discrete_gaussian(1, 3, np.random.default_rng(0))  # type: ignore[call-overload]
