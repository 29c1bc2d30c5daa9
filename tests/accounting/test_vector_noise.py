"""Noise in every coordinate: bounds against exact laws, exact fractions and another accountant."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos.accounting.gaussian import gaussian_mu
from ikos.accounting.vector_noise import (
    METHODS,
    NoiseRate,
    Sensitivity,
    Shift,
    best_rate,
    composition_delta,
    laplace_delta,
    least_variance,
)

ONES = Sensitivity(linf=1)


def proved(
    epsilon: float, rate: float | Fraction, dimension: int, sensitivity: Sensitivity, *methods: str
) -> float:
    """Return the delta of Laplace noise by some methods, by default the smallest of all."""
    shift = sensitivity.steps(dimension)
    given = Fraction(epsilon), Fraction(rate), shift
    return min(laplace_delta(*given, method) for method in methods or METHODS)


def best(epsilon: float, delta: float, dimension: int, sensitivity: Sensitivity) -> NoiseRate:
    return best_rate(Fraction(epsilon), Fraction(delta), sensitivity.steps(dimension))


def exact_composition(epsilon: float, each: float, count: int) -> Any:
    """Return the delta of so many responses in 60 digits, as the sum of Theorem 3.3."""
    with mpmath.workdps(60):
        e, eps = mpmath.mpf(each), mpmath.mpf(epsilon)
        terms = (
            mpmath.binomial(count, i)
            * max(mpmath.mpf(0), mpmath.e ** (i * e) - mpmath.e ** (eps + (count - i) * e))
            for i in range(count + 1)
        )
        return mpmath.fsum(terms) / (1 + mpmath.e**e) ** count


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize(
    ("each", "count"), [(0.5, 1), (0.3, 7), (0.05, 200), (2.5, 40), (1e-3, 90)]
)
def test_composition_is_exact_and_rounded_up(epsilon: float, each: float, count: int) -> None:
    found = composition_delta(Fraction(epsilon), Fraction(each), count)
    true = exact_composition(epsilon, each, count)
    assert true <= found <= true * (1 + 1e-7) + mpmath.mpf(10) ** -289


# Exact hockey-stick divergences of discrete Laplace and Gaussian noise, by their laws


def laplace_law(rate: float, reach: int) -> Any:
    k = np.arange(-reach, reach + 1)
    return math.tanh(rate / 2) * np.exp(-rate * np.abs(k))


def gaussian_law(variance: float, reach: int) -> Any:
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    law = np.exp(-k * k / (2 * variance))
    return law / law.sum()


def exact_delta(law: Any, k: tuple[int, ...], epsilon: float) -> float:
    """Return the divergence of product laws shifted by k, up to what the laws' grids leave out."""
    most = max(map(abs, k))
    padded = np.pad(law, most)
    p, q = np.ones(1), np.ones(1)
    for shift in k:
        p = np.multiply.outer(p, padded).ravel()
        q = np.multiply.outer(q, np.roll(padded, shift)).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


SHIFTS = [k for k in itertools.product(range(4), repeat=2) if any(k)]


@pytest.mark.parametrize("rate", [0.2, 0.7])
@pytest.mark.parametrize("epsilon", [0.1, 1.5])
@pytest.mark.parametrize(
    "norms",
    [{"l1": 3}, {"l2": 2.3}, {"linf": 2}, {"l1": 2, "linf": 1}, {"l1": 4, "l2": 3}],
    ids=str,
)
def test_every_shift_within_the_norms_is_covered(
    rate: float, epsilon: float, norms: dict[str, float]
) -> None:
    """All shifts of two coordinates: the exact delta is at most what each method says."""
    sensitivity = Sensitivity(**norms)
    law = laplace_law(rate, 60 if rate > 0.5 else 200)
    covered = 0
    for k in SHIFTS:
        vector = np.array(k)
        inside = (
            vector.sum() <= norms.get("l1", math.inf)
            and np.linalg.norm(vector) <= norms.get("l2", math.inf)
            and vector.max() <= norms.get("linf", math.inf)
        )
        if not inside:
            continue
        covered += 1
        true = exact_delta(law, k, epsilon)
        for method in METHODS:
            assert true <= proved(epsilon, rate, 2, sensitivity, method) + 1e-12
    assert covered >= 3


def test_ones_in_three_coordinates_reach_the_delta_by_composition() -> None:
    true = exact_delta(laplace_law(0.5, 40), (1, 1, -1), 0.8)
    found = proved(0.8, 0.5, 3, ONES, "composition")
    assert true == pytest.approx(found, rel=1e-6)


def test_a_smaller_sensitivity_would_be_refuted() -> None:
    """Mutants that forget a coordinate, or halve rate or distance, claim less than the truth."""
    true = exact_delta(laplace_law(0.5, 40), (1, 1, 1), 0.8)
    assert proved(0.8, 0.5, 2, ONES, "composition") < true
    for method in ("composition", "renyi"):
        assert proved(0.8, 0.25, 3, ONES, method) < true
    assert proved(0.8, 0.5, 3, Sensitivity(l2=1), "renyi") < true


@pytest.mark.parametrize("k", [(1, 0), (0, 5), (3, 4), (2, 2)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.1), (1.0, 1e-3), (4.0, 1e-2)])
def test_gaussian_variances_suffice_for_the_exact_law(
    k: tuple[int, int], epsilon: float, delta: float
) -> None:
    """And hardly smaller ones do not, if noise is wider than a step."""
    square = sum(x * x for x in k)
    variance = float(least_variance(Fraction(epsilon), Fraction(delta), square))
    assert exact_delta(gaussian_law(variance, 100), k, epsilon) <= delta * (1 + 1e-12)
    if variance > 1:
        assert exact_delta(gaussian_law(0.92 * variance, 100), k, epsilon) > delta


@pytest.mark.parametrize("variance", [0.02, 0.16, 1, 5.5, 40])
def test_steps_of_the_discrete_gaussian_decrease(variance: float) -> None:
    """What the proof says of normal quantiles of its distribution function, in 60 digits."""
    with mpmath.workdps(60):
        v = mpmath.mpf(variance)
        weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * v)) for k in range(int(15 * v**0.5) + 20)]
        total = 2 * mpmath.fsum(weights) - 1
        quantiles, beyond = [], mpmath.fsum(weights[1:]) / total
        for weight in weights[1:]:
            if beyond < 1e-25:
                break
            quantiles.append(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * beyond))
            beyond -= weight / total
        steps = [2 * quantiles[0], *(b - a for a, b in itertools.pairwise(quantiles))]
        assert all(b < a for a, b in itertools.pairwise(steps))
        assert steps[0] == pytest.approx(2 * mpmath.sqrt(2) * mpmath.erfinv(1 / total))
        assert 1 / total <= 1 / mpmath.sqrt(2 * mpmath.pi * v)


@pytest.mark.parametrize("square", [3, 5, 6, 7, 11, 15])
def test_doubles_that_stand_for_roots_are_not_below_them(square: int) -> None:
    """A norm that is an irrational root is given as a double, which may be the one below."""
    assert Sensitivity(l2=math.sqrt(square)).steps(100).l2_squared == square


# The lemma behind "renyi"


def moment(order: float, e: float) -> float:
    """Return (a - 1) D_a of randomized response from its two probabilities."""
    with mpmath.workdps(40):
        p = 1 / (1 + mpmath.e ** -mpmath.mpf(e))
        return float(
            mpmath.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order))
        )


@given(st.floats(1.01, 60), st.floats(1e-3, 9), st.floats(0, 1))
def test_equal_parts_are_the_worst(order: float, total: float, part: float) -> None:
    """F is concave and increasing: two coordinates with squares adding up to a total."""
    first, second = math.sqrt(part * total), math.sqrt((1 - part) * total)
    split = moment(order, first) + moment(order, second)
    assert split <= 2 * moment(order, math.sqrt(total / 2)) * (1 + 1e-12) + 1e-14
    assert moment(order, first) <= moment(order, math.sqrt(total)) + 1e-14


def test_renyi_is_the_best_order_of_the_formula() -> None:
    """Against a search over orders with the probabilities of randomized response themselves."""
    each, count, epsilon = 0.02, 200, 1.0
    best = min(
        count * moment(a, each) - (a - 1) * epsilon + a * math.log1p(-1 / a) - math.log(a - 1)
        for a in np.linspace(5, 60, 1101)
    )
    found = proved(epsilon, each, count, ONES, "renyi")
    assert math.exp(best) * (1 - 1e-3) <= found <= math.exp(best) * (1 + 1e-9)


def test_large_orders_do_not_overflow() -> None:
    """Just above the pure budget the best order is huge."""
    shift = Sensitivity(l2=80)
    for rate in (Fraction(1, 639), Fraction(1000, 639_999)):
        assert proved(1, rate, 64, shift, "renyi") < 1e-15


# Sensitivities


@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=6).filter(any),
    st.sampled_from(["l1", "l2", "linf"]),
)
def test_norms_that_follow_hold(k: list[int], known: str) -> None:
    norms = {
        "l1": sum(map(abs, k)),
        "l2": math.sqrt(sum(x * x for x in k)),
        "linf": max(map(abs, k)),
    }
    shift = Sensitivity(**{known: norms[known]}).steps(len(k))
    assert shift.l1 >= norms["l1"]
    assert shift.l2_squared >= sum(x * x for x in k)
    assert shift.linf >= norms["linf"]
    assert shift.support >= sum(x != 0 for x in k)


@given(
    st.lists(st.tuples(*[st.floats(-3, 3)] * 4), min_size=1, max_size=5),
    st.integers(1, 50),
)
def test_rounding_of_both_vectors_is_covered(
    entries: list[tuple[float, float, float, float]], scale: int
) -> None:
    """Any rounding to a neighbouring step, of both vectors, stays within the shift."""
    x, y, up, down = (np.array(column) for column in zip(*entries, strict=True))
    difference = np.abs(x - y)
    if difference.max() < 1e-9:
        return
    sensitivity = Sensitivity(
        l1=float(difference.sum()) * (1 + 1e-12),
        l2=float(np.linalg.norm(difference)) * (1 + 1e-12),
        linf=float(difference.max()) * (1 + 1e-12),
    )
    shift = sensitivity.steps(len(entries), scale=scale, rounding_error=2)
    first = np.where(up > 0, np.ceil(x * scale), np.floor(x * scale))
    second = np.where(down > 0, np.ceil(y * scale), np.floor(y * scale))
    k = np.abs(first - second).astype(int)
    assert k.sum() <= shift.l1
    assert (k * k).sum() <= shift.l2_squared
    assert k.max() <= shift.linf


def test_shifts_are_made_tight() -> None:
    assert Sensitivity(l1=2, linf=1).steps(100) == Shift(100, 2, 2, 1)
    assert Sensitivity(l2=math.sqrt(2)).steps(100) == Shift(100, 2, 2, 1)
    assert Sensitivity(linf=3).steps(4) == Shift(4, 12, 36, 3)
    assert Sensitivity(linf=9).steps(4, most=3) == Shift(4, 12, 36, 3)


# Inverses


@pytest.mark.parametrize("dimension", [1, 300])
@pytest.mark.parametrize(
    "sensitivity", [ONES, Sensitivity(l2=50), Sensitivity(l1=2, linf=1)], ids=str
)
def test_rates_are_proved_and_hardly_larger_ones_are_not(
    dimension: int, sensitivity: Sensitivity
) -> None:
    for epsilon, delta in ((1, 1e-8), (0.1, 1e-5), (5, 1e-3)):
        found = best(epsilon, delta, dimension, sensitivity)
        assert proved(epsilon, found.rate, dimension, sensitivity) <= found.delta <= delta
        above = found.rate * Fraction(10**6 + 1, 10**6)
        assert proved(epsilon, above, dimension, sensitivity) > delta


def test_without_a_delta_noise_is_pure() -> None:
    found = best(1, 0, 50, ONES)
    assert (found.rate, found.method, found.delta) == (Fraction(1, 50), "pure", 0.0)


def test_rates_have_few_bits() -> None:
    rate = best_rate(Fraction(1), Fraction(1, 10**8), Sensitivity(l2=12345).steps(1000)).rate
    assert rate.numerator.bit_length() <= 25
    assert (rate.denominator & (rate.denominator - 1)) == 0


@pytest.mark.parametrize("square", [1, 7, 10**12])
def test_variances_are_a_twelfth_above_those_of_gaussian_noise(square: int) -> None:
    for epsilon, delta in ((1, 1e-8), (0.1, 1e-5), (5, 1e-3)):
        variance = least_variance(Fraction(epsilon), Fraction(delta), square)
        analytic = square / gaussian_mu(epsilon, delta) ** 2
        assert analytic < variance
        assert variance < (analytic + 1 / 12) * (1 + 2e-7) + 0.01 / analytic


# Another accountant


def test_renyi_is_within_seven_per_cent_of_the_exact_composition() -> None:
    """Of k with ten steps in each of 256 coordinates; and no smaller than it."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rate = float(best(1, 1e-8, 256, Sensitivity(l2=160)).rate)

    def other(rate: float, pessimistic: bool) -> float:
        one = pld.from_discrete_laplace_mechanism(
            rate, sensitivity=10, value_discretization_interval=2e-5,
            pessimistic_estimate=pessimistic,
        )  # fmt: skip
        return float(one.self_compose(256).get_delta_for_epsilon(1.0))

    assert other(rate, False) <= 1e-8
    assert other(rate * 1.07, True) > 1e-8


# Bad input


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "at least one of l1, l2, linf"),
        ({"l1": 0}, "l1 must be"),
        ({"linf": -1}, "linf must be"),
    ],
)
def test_sensitivities_that_are_none(given: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sensitivity(**given)


def test_sensitivities_below_a_step() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        Sensitivity(l1=0.5).steps(3)


@pytest.mark.parametrize("method", METHODS)
def test_huge_rates_hide_nothing(method: str) -> None:
    for rate in (1e200, 1e300):
        assert proved(1, rate, 3, ONES, method) == 1
