"""Skellam noise: the accountant against exact divergences, other numerics and check values."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special
from statistical import skellam_law

from ikos.accounting.skellam import (
    SkellamNoise,
    best_noise,
    gaussian_privacy,
    least_skellam,
    skellam_delta,
    step,
)
from ikos.accounting.vector_noise import LaplaceNoise, Sensitivity
from ikos.counts.rounding import DOWN, UP
from ikos.counts.skellam import return_chance

VARIANCES = [Fraction(1, 50), Fraction(1), Fraction(63), Fraction(64), Fraction(10**9, 7)]


def central_mass(variance: Any) -> Any:
    return mpmath.besseli(0, variance) * mpmath.exp(-variance)


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_the_chance_of_no_noise_is_enclosed(variance: Fraction) -> None:
    with mpmath.workdps(90):
        true = central_mass(mpmath.mpf(variance.numerator) / variance.denominator)
        low, high = (
            mpmath.mpf(str(return_chance(variance, direction))) for direction in (DOWN, UP)
        )
        assert low <= true * (1 + mpmath.mpf(10) ** -75)
        assert high >= true * (1 - mpmath.mpf(10) ** -75)
        assert high - low < true * mpmath.mpf(10) ** -25


STEPS = {
    Fraction(1, 2): 1.85000452891, 1: 1.24309213921, 10: 0.321813964731, 100: 0.100167571294,
    10**4: 0.0100001666756, 10**6: 0.00100000016667,
}  # fmt: skip


@pytest.mark.parametrize(("variance", "expected"), STEPS.items(), ids=str)
def test_steps_are_the_published_ones_and_rounded_up(variance: Any, expected: float) -> None:
    found = step(Fraction(variance))
    assert float(found) * math.sqrt(8) == pytest.approx(expected, rel=1e-11)
    with mpmath.workdps(60):
        mass = central_mass(mpmath.mpf(float(variance)))
        assert mpmath.erf(mpmath.mpf(str(found))) >= mass * (1 - mpmath.mpf(10) ** -50)
        assert mpmath.erf(mpmath.mpf(str(found)) * (1 - mpmath.mpf(10) ** -20)) < mass


def test_a_step_is_rounded_up_where_the_enclosure_is_widest() -> None:
    with mpmath.workdps(80):
        assert mpmath.erf(mpmath.mpf(str(step(Fraction(64))))) >= central_mass(64)


@pytest.mark.parametrize(
    ("epsilon", "delta", "theta"),
    [
        (1, 1e-8, 0.19606656),
        (1, 1e-6, 0.236704381),
        (0.99, 1e-8, 0.19420673),
        (2, 1e-6, 0.44833474),
    ],
)
def test_gaussian_privacy_at_the_published_distances(
    epsilon: float, delta: float, theta: float
) -> None:
    def at(theta: float) -> float:
        import gmpy2

        return gaussian_privacy(Fraction(epsilon), gmpy2.mpfr(theta) / gmpy2.sqrt(gmpy2.mpfr(8)))

    assert at(theta - 1e-9) < delta < at(theta + 1e-9)
    true = special.ndtr(theta / 2 - epsilon / theta) - math.exp(epsilon) * special.ndtr(
        -theta / 2 - epsilon / theta
    )
    assert at(theta) == pytest.approx(true, rel=1e-8)


def exact_delta(variance: float, k: tuple[int, ...], epsilon: float) -> float:
    """Return the divergence of product laws shifted by k, up to what the laws' grids leave out."""
    law, most = skellam_law(variance).pmf, max(map(abs, k))
    law = np.pad(law[np.searchsorted(law, 1e-18) : law.size - np.searchsorted(law, 1e-18)], most)
    p, q = np.ones(1), np.ones(1)
    for shift in k:
        p = np.multiply.outer(p, law).ravel()
        q = np.multiply.outer(q, np.roll(law, shift)).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(
    ("variance", "k", "epsilon", "exact", "bound"),
    [
        (25, (2, 3), 1, 4.242651e-2, 4.403948e-2),
        (25, (1, 1, 3), 1, 2.969502e-2, 3.118445e-2),
        (100, (10,), 2, 2.034624e-2, 2.114135e-2),
    ],
)
def test_exact_divergences_and_bounds_are_the_published_ones(
    variance: int, k: tuple[int, ...], epsilon: float, exact: float, bound: float
) -> None:
    assert exact_delta(variance, k, epsilon) == pytest.approx(exact, rel=1e-6)
    square = sum(x * x for x in k)
    assert skellam_delta(Fraction(epsilon), Fraction(variance), square) == pytest.approx(bound)


SHIFTS: list[tuple[int, ...]] = [
    *((k,) for k in (1, 2, 3, 7)),
    *itertools.combinations_with_replacement((-1, 1, 2, 4), 2),
]


@pytest.mark.parametrize("variance", [0.02, 0.3, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0, 8.0])
def test_no_shift_has_a_larger_divergence_than_the_bound(variance: float, epsilon: float) -> None:
    for k in SHIFTS:
        bound = skellam_delta(Fraction(epsilon), Fraction(variance), sum(x * x for x in k))
        assert exact_delta(variance, k, epsilon) <= bound + 1e-15


def test_smaller_distances_would_be_refuted() -> None:
    """At epsilon 0 the bound is the largest probability, that of 0: exact for a shift by 1."""
    for variance in (0.3, 4.0, 40.0):
        true = exact_delta(variance, (1,), 0.0)
        assert true == pytest.approx(skellam_delta(Fraction(0), Fraction(variance), 1), rel=1e-12)
    # a shift by (2, 3) counted as one of norm 3, or the variance as that of one Poisson variable
    assert exact_delta(25, (2, 3), 1) > skellam_delta(Fraction(1), Fraction(25), 9)
    assert exact_delta(25, (2, 3), 1) > skellam_delta(Fraction(1), Fraction(50), 13)


@pytest.mark.parametrize("variance", [0.001, 0.05, 1, 10, 100])
def test_the_middle_step_is_the_largest(variance: float) -> None:
    """z_t = Phi^-1(P[X <= t]) is concave for t >= -1: the theorem's claim, in 60 digits."""
    with mpmath.workdps(60):
        v = mpmath.mpf(variance)
        count = 12 + int(6 * math.sqrt(variance))
        tails, tail = [], mpmath.mpf(0)
        for k in range(count + 60, 0, -1):
            tail += mpmath.besseli(k, v) * mpmath.exp(-v)
            tails.append(tail)
        z = [-mpmath.sqrt(2) * mpmath.erfinv(2 * t - 1) for t in tails[::-1][:count]]
        assert len(z) == count
        z.insert(0, -z[0])
        steps = [b - a for a, b in itertools.pairwise(z)]
        assert all(a > b for a, b in itertools.pairwise(steps))
        if variance == 1:
            assert float(steps[1] / steps[0]) == pytest.approx(0.75609493, rel=1e-7)


def test_variances_are_proved_and_hardly_smaller_ones_are_not() -> None:
    for epsilon, delta, l2_squared in (
        (1, 1e-8, 1), (Fraction(1, 10), 1e-5, 10**12), (5, 1e-3, 56), (10**4, 1e-9, 10**12)
    ):  # fmt: skip
        given = Fraction(epsilon), Fraction(delta), l2_squared
        found = least_skellam(*given)
        assert skellam_delta(given[0], found.variance, l2_squared) == found.delta <= given[1]
        less = found.variance * Fraction(999_999, 10**6)
        assert skellam_delta(given[0], less, l2_squared) > given[1]
        assert len(bin(found.variance.numerator).rstrip("0")) <= 2 + 25


def test_the_error_of_a_ball_is_near_the_analytic_gaussian() -> None:
    norm = 2 * 515.728419
    found = least_skellam(Fraction(1), Fraction(1, 10**8), math.floor(norm**2))
    assert float(found.variance) == pytest.approx(27_675_473.8, rel=1e-6)
    assert 2 * found.deviation / norm == pytest.approx(10.2006176, rel=1e-6)


def test_the_smaller_noise_is_taken() -> None:
    given = Fraction(1), Fraction(1, 10**8)
    kinds = {
        d: type(best_noise(*given, Sensitivity(l2=200).steps(d), 1000)) for d in (1, 13, 14, 1000)
    }
    assert kinds == {1: LaplaceNoise, 13: LaplaceNoise, 14: SkellamNoise, 1000: SkellamNoise}
    # shares that cannot be drawn
    wide = Sensitivity(l2=2**30).steps(1000)
    assert isinstance(best_noise(*given, wide, 1000), LaplaceNoise)
    assert isinstance(best_noise(*given, wide, None), SkellamNoise)
