"""Skellam noise: the accountant against exact divergences, other numerics and check values."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from accounting.test_vector_noise import exact_delta as divergence_of_shift
from statistical import skellam_delta, skellam_law

from ikos.counts.skellam import return_chance
from ikos.data.sensitivity import Sensitivity, Shift
from ikos.noise.choice import best_noise
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.noise.skellam_noise import SkellamNoise, least_skellam
from ikos.numeric.rounding import DOWN, UP

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
def test_steps_are_the_published_ones(variance: Any, expected: float) -> None:
    chance = mpmath.mpf(str(return_chance(Fraction(variance), UP)))
    assert math.sqrt(8) * float(mpmath.erfinv(chance)) == pytest.approx(expected, rel=1e-11)


def exact_delta(variance: float, k: tuple[int, ...], epsilon: float) -> float:
    """Return the divergence of product laws shifted by k, up to what the laws' grids leave out."""
    law = skellam_law(variance).pmf
    law = law[np.searchsorted(law, 1e-18) : law.size - np.searchsorted(law, 1e-18)]
    return divergence_of_shift(law, k, epsilon)


@pytest.mark.parametrize(
    ("variance", "k", "epsilon", "exact", "bound"),
    [
        (25, (2, 3), 1, 4.242651e-2, 4.403948e-2),
        (25, (1, 1, 3), 1, 2.969502e-2, 3.118445e-2),
        (100, (10,), 2, 2.034624e-2, 2.114135e-2),
    ],
)
def test_exact_divergences_and_bounds_are_the_published_ones(variance, k, epsilon, exact, bound):
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


@pytest.mark.parametrize("failing", [Fraction(1, 10), Fraction(1, 200)])
def test_rounding_at_random_is_paid_for(failing: Fraction) -> None:
    """Vectors 16 steps apart, rounded at random: the divergence of the mixture of all roundings."""
    first, second, variance = np.array([8.5, 2.5]), np.array([-6.5, -3.0]), 400
    law = skellam_law(variance).pmf
    seen: list[Any] = []
    for vector in (first, second):
        mixed: Any = 0.0
        for ups in itertools.product((0, 1), repeat=2):
            low = np.floor(vector)
            chance = float(np.prod(np.where(ups, vector - low, low + 1 - vector)))
            each = [np.roll(np.pad(law, 20), int(x)) for x in low + ups]
            mixed = mixed + chance * np.multiply.outer(*each)
        seen.append(mixed)
    expected = Fraction(float(np.linalg.norm(first - second))) * Fraction(1_000_001, 10**6)
    square, paid = Shift(2, 99, 10**4, 99, expected).likely(failing)
    assert paid == failing
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        true = float(np.maximum(seen[0] - math.exp(epsilon) * seen[1], 0).sum())
        assert 0 < true <= skellam_delta(Fraction(epsilon), Fraction(variance), square) + failing


def test_smaller_distances_would_be_refuted() -> None:
    """At epsilon 0 the bound is the largest probability, that of 0: exact for a shift by 1."""
    for variance in (0.3, 4.0, 40.0):
        true = exact_delta(variance, (1,), 0.0)
        assert true == pytest.approx(skellam_delta(Fraction(0), Fraction(variance), 1), rel=1e-12)
    # a shift by (2, 3) counted as one of norm 3, or the variance as that of one Poisson variable
    assert exact_delta(25, (2, 3), 1) > skellam_delta(Fraction(1), Fraction(25), 9)
    assert exact_delta(25, (2, 3), 1) > skellam_delta(Fraction(1), Fraction(50), 13)


@pytest.mark.parametrize(
    ("variance", "second"),
    [(0.001, 0.28369318), (0.05, 0.36844819), (1, 0.75609493), (10, 0.99847998), (100, 0.99998727)],
)
def test_the_middle_step_is_the_largest(variance: float, second: float) -> None:
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
        assert float(steps[1] / steps[0]) == pytest.approx(second, rel=1e-7)


def test_variances_are_proved_and_hardly_smaller_ones_are_not() -> None:
    for epsilon, delta, l2_squared in (
        (1, 1e-8, 1), (Fraction(1, 10), 1e-5, 10**12), (5, 1e-3, 56), (20, 1e-9, 10**12)
    ):  # fmt: skip
        given = Fraction(epsilon), Fraction(delta), l2_squared
        found = least_skellam(*given)
        assert found.delta == delta
        assert skellam_delta(given[0], found.variance, l2_squared) <= delta
        less = found.variance * Fraction(999_999, 10**6)
        assert skellam_delta(given[0], less, l2_squared) > delta
        assert len(bin(found.variance.numerator).rstrip("0")) <= 2 + 25


@pytest.mark.parametrize(
    ("honest", "epsilon"), [(0.99, 1.005314), (0.9, 1.057147), (0.5, 1.442591)]
)
def test_fewer_honest_users_have_the_published_epsilon(honest: float, epsilon: float) -> None:
    variance = least_skellam(Fraction(1), Fraction(1, 10**8), 10**6).variance * Fraction(honest)
    for off, less in ((-2e-6, False), (2e-6, True)):
        delta = skellam_delta(Fraction(epsilon + off), variance, 10**6)
        assert (delta <= 1e-8) is less


def test_the_bound_of_sixteen_steps_in_four_coordinates() -> None:
    """Exact: between 9.98742e-9 and 9.99182e-9."""
    bound = skellam_delta(Fraction(1), Fraction(266_378, 10), 4 * 16**2)
    assert bound == pytest.approx(1e-8, rel=1e-4)


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
    # what rounding may exceed is part of delta
    shift = Sensitivity(l2=2).steps(1000, scale=512, bias=0)
    square, paid = shift.likely(given[1] / 200)
    rounded = best_noise(*given, shift, 1000)
    assert isinstance(rounded, SkellamNoise)
    assert float(rounded.deviation) / 512 == pytest.approx(10.2006176 * 1.0053, rel=2e-4)
    assert Fraction(rounded.delta) >= given[1]
    less = rounded.variance * Fraction(999_999, 10**6)
    assert skellam_delta(given[0], less, square) + paid > given[1]
    assert skellam_delta(given[0], rounded.variance, square) + paid <= given[1]
    # shares that cannot be drawn
    wide = Sensitivity(l2=2**30).steps(1000)
    assert isinstance(best_noise(*given, wide, 1000), LaplaceNoise)
    assert isinstance(best_noise(*given, wide, None), SkellamNoise)
