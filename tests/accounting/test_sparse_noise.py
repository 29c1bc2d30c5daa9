"""Sparse noise: how likely each user must add it, against laws computed term by term."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from statistical import discrete_laplace_law

from ikos.accounting.sparse_noise import divergence, least_chance, published_chance, silence
from ikos.primitives.randomized_response import GRID

STEP = Fraction(1, GRID)


def sparse_law(users: int, chance: Fraction, rate: float) -> NDArray[np.float64]:
    """Return the law of the sum of everybody's noise, its middle at 0."""
    one = discrete_laplace_law(rate).pmf
    law = np.ones(1)
    for _ in range(users):
        with_noise = fftconvolve(law, one)
        middle = with_noise.size // 2
        quiet = np.zeros_like(with_noise)
        quiet[middle - law.size // 2 : middle + law.size // 2 + 1] = law
        law = float(chance) * with_noise + float(1 - chance) * quiet
    return np.asarray(law)


def hockey_stick(law: NDArray[np.float64], shift: int, epsilon: float) -> float:
    """Return the divergence between a law and its shift, from the definition."""
    here = np.concatenate((law, np.zeros(shift)))
    there = np.concatenate((np.zeros(shift), law))
    gain = here - math.exp(epsilon) * there
    return float(gain[gain > 1e-14].sum())


# Nobody adds noise


@given(st.integers(1, 300), st.integers(0, GRID))
def test_silence_is_the_exact_power_rounded_up(users: int, numerator: int) -> None:
    chance = Fraction(numerator, GRID)
    true = (1 - chance) ** users
    found = silence(users, chance)
    assert true <= Fraction(found)
    assert found == 0 or Fraction(math.nextafter(found, 0)) < true


@given(st.integers(1, 400), st.floats(1e-30, 0.999))
def test_published_chance_is_the_smallest_on_the_grid(users: int, delta: float) -> None:
    chance = published_chance(users, delta)
    assert chance % STEP == 0
    assert (1 - chance) ** users <= Fraction(delta)
    assert (1 - chance + STEP) ** users > Fraction(delta)


def test_published_chance_of_very_many_users() -> None:
    chance = published_chance(10**9, 1e-18)
    assert 10**9 * float(chance) == pytest.approx(18 * math.log(10), rel=1e-6)
    assert silence(10**9, chance) <= 1e-18


# The exact divergence

SETTINGS = [
    (users, Fraction(numerator, 32), rate, precision)
    for users in (1, 2, 5, 12)
    for numerator in (1, 5, 16, 32)
    for rate, precision in ((Fraction(1), 1), (Fraction(1, 4), 4), (Fraction(1, 10), 7))
]


@pytest.mark.parametrize(("users", "chance", "rate", "precision"), SETTINGS)
def test_divergence_is_that_of_the_law(users, chance, rate, precision):
    """Every shift that one user can cause, from the definition; the largest is the precision's."""
    law = sparse_law(users, chance, float(rate))
    epsilon = float(rate * precision)
    true = [hockey_stick(law, shift, epsilon) for shift in range(1, precision + 1)]
    found = divergence(users, chance, rate, precision)
    assert max(true) == pytest.approx(true[-1], abs=1e-12)
    assert max(true) <= found + 1e-12
    assert found <= max(true) + 1e-9
    assert found <= silence(users, chance)


def precise_law(users: int, chance: Fraction, rate: Fraction, reach: int) -> list[mpfr]:
    """Return the law on {-reach..reach} by plain convolution in 200-bit arithmetic."""
    alpha = gmpy2.exp(-mpfr(gmpy2.mpq(rate)))
    top = (1 - alpha) / (1 + alpha)
    beta = mpfr(gmpy2.mpq(chance))
    one = [beta * top * alpha ** abs(y) for y in range(-reach, reach + 1)]
    one[reach] += 1 - beta
    law = one
    for _ in range(users - 1):
        law = [
            sum(
                (
                    law[i + reach] * one[y - i + reach]
                    for i in range(max(-reach, y - reach), min(reach, y + reach) + 1)
                ),
                mpfr(0),
            )
            for y in range(-reach, reach + 1)
        ]
    return law


@pytest.mark.parametrize("chance", [Fraction(1, 8), Fraction(3, 8), Fraction(7, 8)])
def test_divergence_is_an_upper_bound_to_the_last_digits(chance: Fraction) -> None:
    """(M(0) - e^eps M(p))_+ in 200 bits; what is cut off is below 1e-17."""
    with gmpy2.context(precision=200):
        law = precise_law(4, chance, Fraction(1, 2), 100)
        for precision in (1, 2, 4):
            epsilon = mpfr(precision) / 2
            true = law[100] - gmpy2.exp(epsilon) * law[100 + precision]
            found = divergence(4, chance, Fraction(1, 2), precision)
            if true <= 0:
                assert found <= 1e-9
            else:
                assert float(true) - 1e-17 <= found <= float(true) + 1e-9


def test_the_atom_drowns_in_the_noise_of_others() -> None:
    """At 10^4 users, a third of the published noise is purely private."""
    rate, precision = Fraction(1, 83), 83
    chance = least_chance(10**4, 1e-8, rate, precision)
    assert divergence(10**4, chance, rate, precision) == 0
    assert silence(10**4, chance) > 1e-3
    assert 3 * chance < published_chance(10**4, 1e-8)


def test_long_laws_and_large_epsilons_fall_back_on_silence() -> None:
    for rate, precision in ((Fraction(1, 2**40), 2**40), (Fraction(1), 90)):
        chance = Fraction(1, 64)
        assert divergence(100, chance, rate, precision) == silence(100, chance)
        assert least_chance(100, 1e-3, rate, precision) <= published_chance(100, 1e-3)


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.integers(1, 10**5),
    st.floats(1e-12, 0.5),
    st.integers(1, 60),
    st.fractions(Fraction(1, 9), 3),
)
def test_least_chance_is_enough_and_nearly_least(users, delta, precision, epsilon):
    rate = epsilon / precision
    chance = least_chance(users, delta, rate, precision)
    assert chance % STEP == 0
    assert divergence(users, chance, rate, precision) <= delta
    assert chance <= published_chance(users, delta)
    less = Fraction(int(chance * GRID * 250 // 256), GRID)
    assert divergence(users, less, rate, precision) > delta
