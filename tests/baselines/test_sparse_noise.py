"""Noise of a few random users: privacy of the view, computed exactly; the noise and its tails."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from baselines.views import no_noise, noise_modulo, view_delta
from exact.test_private_view import hockey_stick
from statistical import FALSE_ALARM, IntegerLaw, discrete_laplace_law

from ikos.accounting.sparse_noise import silence
from ikos.baselines import SparseNoise
from ikos.baselines.secure_noise import SparseLaw
from ikos.testing import DeterministicRandom


def tiny(n: int, q: int, p: int, epsilon: Any, delta: float, **options: Any) -> SparseNoise:
    options = {"shuffler": "single", "clear_share": False} | options
    return SparseNoise(n, epsilon, delta, precision=p, modulus=q, **options)


def sparse_modulo(protocol: SparseNoise) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the law modulo q of one user's noise."""
    beta, q = float(protocol.chance), protocol.modulus
    noise = noise_modulo(q, 1.0, float(protocol.epsilon / protocol.precision))
    return np.asarray((1 - beta) * no_noise(q) + beta * noise)


@pytest.mark.points(1)
@pytest.mark.parametrize("accountant", ["exact", "published"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 1])
@pytest.mark.parametrize(("n", "q", "p"), [(2, 3, 1), (2, 4, 1), (2, 5, 2), (3, 4, 1)])
def test_view_is_as_private_as_stated(accountant, epsilon, n, q, p):
    """Messages are given, to keep the enumeration small; the rest is as the protocol chooses."""
    protocol = tiny(n, q, p, epsilon, 0.4, accountant=accountant, messages=9)
    guarantee = protocol.guarantee
    assert guarantee.proved
    noise = sparse_modulo(protocol)
    true = view_delta((noise,) * n, q, protocol.messages.total, p, guarantee.epsilon)
    assert true <= guarantee.delta
    # What noise costs shows where hiding costs little: the sum's own divergence is below it.
    total = no_noise(q)
    for _ in range(n):
        total = np.asarray([sum(total[k] * noise[(y - k) % q] for k in range(q)) for y in range(q)])
    sums = max(hockey_stick(total, np.roll(total, d), guarantee.epsilon) for d in (p, -p))
    assert sums <= protocol.noise_delta
    # With half the chance of noise the part of delta that noise is to cost is exceeded.
    sparser = noise.copy()
    sparser[1:] /= 4
    sparser[0] = 1 - sparser[1:].sum()
    leaking = view_delta((sparser,) * n, q, protocol.messages.total, p, guarantee.epsilon)
    assert leaking > max(true, protocol.noise_delta)


def test_min_honest_covers_those_who_add_nothing() -> None:
    """Three users, one of whom colludes: the views of the two others are as private as stated."""
    protocol = tiny(3, 4, 1, 1, 0.4, min_honest=2, messages=8)
    noise, m = sparse_modulo(protocol), protocol.messages.total
    assert view_delta((noise,) * 2, 4, m, 1, 1.0) <= protocol.guarantee.delta
    assert protocol.chance == tiny(2, 4, 1, 1, 0.4, messages=8).chance
    for_all = tiny(3, 4, 1, 1, 0.4, messages=8)
    assert for_all.chance < protocol.chance
    assert view_delta((sparse_modulo(for_all),) * 2, 4, m, 1, 1.0) > for_all.noise_delta


@pytest.mark.parametrize("accountant", ["exact", "published"])
def test_delta_is_reached_with_no_more_than_min_honest_users(accountant: str) -> None:
    protocol = SparseNoise(10_000, 1, 1e-6, min_honest=2000, accountant=accountant)
    assert protocol.guarantee.delta <= 1e-6
    assert protocol.chance > 4 * SparseNoise(10_000, 1, 1e-6, accountant=accountant).chance


def noise_law(chance: float, rate: float) -> IntegerLaw:
    law = discrete_laplace_law(rate)
    pmf = chance * law.pmf
    pmf[pmf.size // 2] += 1 - chance
    return IntegerLaw(law.first, pmf)


def test_users_add_noise_of_the_right_law_with_the_right_probability() -> None:
    """All values 0: what a user shares is its noise. Small mistakes in either are found."""
    n = 200_000
    protocol = SparseNoise(n, 1, 1e-3, precision=10, min_honest=3, messages=2)
    rate, chance, q = 1 / 10, float(protocol.chance), protocol.modulus
    shared = protocol.randomize(np.zeros(n), DeterministicRandom(3)).astype(np.int64).sum(axis=0)
    noise = (shared + q // 2) % q - q // 2
    assert noise_law(chance, rate).p_value(noise) > FALSE_ALARM
    for wrong in (
        noise_law(1.02 * chance, rate),
        noise_law(0.98 * chance, rate),
        noise_law(chance, 1.05 * rate),
        noise_law(chance, 0.95 * rate),
        noise_law(chance, 2 * rate),
    ):
        assert wrong.p_value(noise) < FALSE_ALARM


def test_delta_is_that_of_noise_and_of_hiding() -> None:
    for accountant in ("exact", "published"):
        for delta in (1e-3, 1e-8, 1e-20):
            protocol = SparseNoise(10**4, 1, delta, accountant=accountant)
            hidden = protocol.messages.delta
            assert hidden is not None
            assert hidden <= delta / 2
            assert hidden + protocol.noise_delta <= protocol.guarantee.delta <= delta
            if accountant == "published":
                assert protocol.noise_delta == silence(10**4, protocol.chance)
                assert protocol.noise_delta + hidden > 0.999 * delta  # nothing is left over


def test_given_messages_state_what_is_proved() -> None:
    chosen = SparseNoise(1000, 1, 1e-6)
    total = chosen.messages.total
    assert SparseNoise(1000, 1, 1e-6, messages=total) == chosen
    assert SparseNoise(1000, 1, 1e-6, messages=total - 1).guarantee.delta > 1e-6 / 2
    nothing = SparseNoise(1000, 1, 1e-6, messages=1)
    assert nothing.guarantee.delta == 1
    assert nothing.guarantee.conditions == ()


# The law of the noise, for accuracy


def true_law(law: SparseLaw) -> IntegerLaw:
    one = noise_law(float(law.chance), float(law.rate))
    pmf = one.pmf
    for _ in range(law.users - 1):
        pmf = np.convolve(pmf, one.pmf)  # no transform: its errors would swamp the tails
    return IntegerLaw(law.users * one.first, pmf)


@pytest.mark.parametrize("chance", [Fraction(1, 64), Fraction(1, 4), Fraction(1)])
@pytest.mark.parametrize("users", [1, 4, 9])
def test_variance_tails_and_moments_are_those_of_the_law(users: int, chance: Fraction) -> None:
    law = SparseLaw(Fraction(1, 6), chance, users)
    true = true_law(law)
    y = true.first + np.arange(true.pmf.size)
    assert law.variance == pytest.approx(float((true.pmf * y**2).sum()))
    for theta in (0.01, 0.05, 0.1):
        assert law.log_mgf(theta) == pytest.approx(
            math.log(float((true.pmf * np.exp(theta * y)).sum())), rel=1e-6
        )
    for distance in (1, 5, 20, 60, 100):
        outside = float(true.pmf[np.abs(y) >= distance].sum())
        assert outside <= law.tail_bound(distance) <= 1
    for miss in (0.5, 0.05, 1e-6):
        t = law.half_width(miss, 0)
        assert float(true.pmf[np.abs(y) > t].sum()) <= miss
        assert law.half_width(miss, 50) > t
    assert law.tail_bound(300) < 1e-6


def test_half_width_covers_rounding_too() -> None:
    """Noise of 5 users and 40 fair roundings, by the exact law of their sum."""
    law = SparseLaw(Fraction(1, 2), Fraction(1, 8), 5)
    true = true_law(law)
    coins = np.array([math.comb(40, k) for k in range(41)]) / 2**40
    both = np.convolve(true.pmf, coins)
    y = true.first - 20 + np.arange(both.size)
    for miss in (0.3, 0.05, 1e-3, 1e-6):
        t = law.half_width(miss, 40)
        assert float(both[np.abs(y) > t].sum()) <= miss
        smaller = float(both[np.abs(y) > t / 3].sum())
        assert smaller > miss  # and is not far too wide


# Sums that wrap around


@pytest.mark.slow
def test_wrapping_around_is_part_of_the_error() -> None:
    """The smallest modulus there is: wrong estimates are many, and still as stated."""
    n, p = 5, 2
    protocol = SparseNoise(n, Fraction(1, 2), 0.4, precision=p, modulus=n * p + 1, messages=3)
    error = protocol.error(n)
    assert error.wrap_probability > 0.5
    assert error.coordinate.half_width(0.05) == (11 + 10) / 4
    rng = DeterministicRandom(4)
    missed = [abs(protocol.run([1.0] * n, rng).estimate - n) for _ in range(300)]
    assert max(missed) <= error.coordinate.half_width(0.05)
    assert np.mean(np.square(missed)) <= protocol.mse


def test_the_default_modulus_hardly_ever_wraps() -> None:
    for options in ({}, {"accountant": "published"}, {"min_honest": 100}):
        protocol = SparseNoise(2000, 1, 1e-8, **options)
        error = protocol.error(2000)
        assert error.wrap_probability <= 2.0**-40
        plain = protocol._law(2000).variance / protocol.precision**2
        assert plain < protocol.mse < 1.02 * plain + 2000 / 4 / protocol.precision**2


def test_any_modulus_makes_a_bound() -> None:
    protocol = SparseNoise(100, 1, 1e-3, precision=10, modulus=2**2000, messages=3)
    assert 0 < protocol.mse < 100
    assert protocol.run(np.zeros(100)).interval().high < 1e3
    assert protocol.influence == math.inf
    assert protocol.error(100).coordinate.half_width(1e-3) < 1e3
