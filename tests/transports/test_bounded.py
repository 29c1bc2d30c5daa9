"""Bounded noise in private sums: precisions, means, errors and influence, over helpers' shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from statistical import polya_law

from ikos import Ball, Box, Categories, InvalidValue, PrivateSum, PrivateVectorSum, SparseTernary
from ikos.accounting.uniform_noise import composed_delta
from ikos.data.domains import Bounds, Coordinates
from ikos.data.encoding import Encoding
from ikos.data.sensitivity import Sensitivity, Shift
from ikos.noise.cut_laplace_noise import CutLaplaceNoise
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.noise.uniform_noise import UniformNoise, most_steps
from ikos.numeric.uniform_sum import UniformSum
from ikos.testing import DeterministicRandom
from ikos.transports import Helpers
from ikos.transports.base import Totals
from ikos.transports.bounded import BoundedRecipe


@dataclass(frozen=True)
class Bounded(BoundedRecipe):
    """Helpers that add up values with bounded noise."""

    noise: str = "uniform"

    of = classmethod(lambda cls, options: cls())
    order, secure = Helpers.order, Helpers.secure

    def noise_delta(self, need):
        return need.delta * Fraction(99, 100)

    def size(self, need, encoding, q):
        placed, dimension = self.largest_noise(need), None if need.scalar else need.shift.dimension
        transport = Helpers()._shares("modulus", need.users, dimension, q, None)
        return transport, placed, placed.noise.delta


def a_sum(n, epsilon, delta, **numbers):
    return PrivateSum(n, epsilon, delta, transport=Bounded(), **numbers)


@pytest.mark.parametrize(
    ("users", "epsilon", "delta", "steps"),
    [(100, 1, 1e-4, 14), (1000, 1, 1e-6, 34), (10**4, 1, 1e-8, 90), (10**4, 0.1, 1e-8, 10)],
)
def test_reals_have_the_steps_of_the_documentation(users, epsilon, delta, steps):
    protocol = a_sum(users, epsilon, delta, lower=-1, upper=3)
    assert protocol.precision == steps
    assert protocol.noise == UniformNoise(16, users, composed_delta(users, 16, steps, epsilon))
    square = users * (Fraction(255, 12) + Fraction(1, 4)) * Fraction(4, steps) ** 2
    assert protocol.mse == pytest.approx(float(square), rel=1e-9)
    assert protocol.guarantee.delta <= delta
    assert protocol.parameters["noise_width"] == "16"


@pytest.mark.parametrize(("users", "width"), [(1000, 4), (10**5, 2)])
def test_integers_are_multiplied_and_have_the_least_width_that_is_worthwhile(users, width):
    protocol = a_sum(users, 1, 1e-6, lower=-1, upper=0, integers=True)
    k = protocol.precision
    assert protocol.noise.width == width
    assert composed_delta(users, width, k, 1) <= 0.99e-6 < composed_delta(users, width, k + 1, 1)
    assert protocol.mse == pytest.approx(users * (width**2 - 1) / 12 / k**2, rel=1e-9)
    steps = protocol.encoding.encode(np.array([-1.0, 0.0]), DeterministicRandom(0))
    assert steps.tolist() == [0, k]
    errors = [(w**2 - 1) / most_steps(users, w, Fraction(1), Fraction(99, 10**8)) ** 2
              for w in (2, 4, 8, 16)]  # fmt: skip
    assert (width**2 - 1) / k**2 <= 1.05**2 * min(errors)


def test_integers_of_a_long_range_have_wider_noise():
    protocol = a_sum(1000, 1, 1e-6, upper=100, integers=True)
    assert protocol.precision == 100
    width = protocol.noise.width
    assert composed_delta(1000, width, 100, 1) <= 0.99e-6 < composed_delta(1000, width - 1, 100, 1)


@pytest.mark.parametrize("precision", [4, 8, 12])
def test_a_multiple_is_taken_for_the_precision_of_integers(precision):
    protocol = a_sum(1000, 1, 1e-6, upper=4, integers=True, precision=precision)
    assert protocol.precision == precision
    x = np.arange(1000) % 5
    estimate = protocol.run(x, DeterministicRandom(3)).estimate
    assert abs(estimate - x.sum()) <= protocol.error(1000).coordinate.half_width(1e-12)


def test_no_other_precision_is_taken_for_integers():
    with pytest.raises(InvalidValue, match="must be a multiple of upper - lower = 4"):
        a_sum(1000, 1, 1e-6, upper=4, integers=True, precision=6)
    with pytest.raises(InvalidValue, match="must be upper - lower = 4"):
        PrivateSum(1000, 1, 1e-6, upper=4, integers=True, precision=8)


def test_a_given_precision_has_the_least_width():
    protocol = a_sum(1000, 1, 1e-6, precision=34)
    assert protocol.noise.width == 16
    assert a_sum(1000, 1, 1e-6, precision=5).noise.width < 5
    assert a_sum(20, 0.1, 1e-9).precision == 1  # not even one step at a width of 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "promise", "moved"),
    [
        (Categories([9]), None, 2), (Categories([5, 4]), None, 4), (Box(6), None, 6),
        (SparseTernary(50, 3), None, 6), (SparseTernary(4, 3), None, 4), (Ball(4), None, 4),
        (Box(10, 0, 3), Sensitivity(l1=4), 4),
    ],
)  # fmt: skip
def test_the_coordinates_that_one_user_moves(domain, promise, moved):
    integers = isinstance(domain, Box) and promise is not None
    protocol = PrivateVectorSum(
        800, domain, 2, 1e-4, transport=Bounded(), sensitivity=promise, integers=integers,
        releases=2, precision=None if integers or not isinstance(domain, Ball) else 3,
    )  # fmt: skip
    shift, noise = protocol.encoding.shift(domain.dimension), protocol.noise
    assert shift.moved == moved
    proved = composed_delta(800, noise.width, shift.linf, Fraction(2), 2 * moved)
    assert noise.delta == proved <= 0.99e-4
    if isinstance(domain, Categories):
        assert noise.width == 2
        assert composed_delta(800, 2, protocol.precision + 1, Fraction(2), 2 * moved) > 0.99e-4


def test_numbers_of_moved_coordinates_do_not_depend_on_the_multiple():
    known = Coordinates(Bounds(0, 3), True, Sensitivity(l1=4))
    shifts = [Encoding(**vars(known), precision=3 * k).shift(10) for k in (1, 5)]
    assert [(shift.moved, shift.l1, shift.linf) for shift in shifts] == [(4, 4, 3), (4, 20, 15)]


@pytest.mark.parametrize("users", [400, 397])
@pytest.mark.parametrize("numbers", [{}, {"upper": 9, "integers": True}, {"precision": 7}])
def test_the_mean_of_the_noise_of_all_who_are_present_is_subtracted(users, numbers):
    protocol = a_sum(400, 1, 1e-4, min_honest=390, **numbers)
    low, high = (np.full(users, end) for end in (0, protocol.domain.upper))
    noises = []
    for seed in range(30):
        for x in (low, high):
            result = protocol.run(x, DeterministicRandom(seed))
            noises.append(result.estimate - x.sum())
    spread = math.sqrt(protocol.error(users).mean_square / len(noises))
    assert abs(np.mean(noises)) < 6.2 * spread  # by Hoeffding's inequality, below 1e-8
    assert np.std(noises) > spread


@pytest.mark.parametrize("width", [2, 5, 16])
@pytest.mark.parametrize("users", [1, 2, 7])
def test_totals_at_both_ends_are_decoded_exactly(users, width):
    """Half steps of the mean are not lost, and the window is that of values with their noise."""
    protocol = a_sum(7, 3, 0.5, min_honest=1, precision=10, lower=-1, upper=1)
    width = protocol.noise.width
    for z in (0, users * (10 + width - 1)):
        expected = Fraction(z) - Fraction(users * (width - 1), 2)
        result = protocol.result(Totals([z], users))
        assert result.estimate == float(-users + expected * Fraction(2, 10))


def test_errors_of_half_steps_are_not_rounded_to_integers():
    protocol = a_sum(5, 1, 0.3, upper=7, integers=True)
    assert protocol.noise.width % 2 == 0
    assert not protocol.error(5).integers
    assert protocol.error(4).integers
    errors = [
        protocol.run([0, 7, 1, 2, 4], DeterministicRandom(seed)).estimate - 14 for seed in range(9)
    ]
    assert all(error % 1 == 0.5 for error in errors)
    half = protocol.error(5).coordinate.half_width(0.05)
    assert half == UniformSum(5, protocol.noise.width).half_width(0.05, 0)


@pytest.mark.slow
def test_intervals_hold_with_the_worst_values_of_few_users():
    protocol = a_sum(3, 1, 0.3, precision=2)
    x = np.full(3, 0.25)  # halfway between two steps
    half = protocol.error(3).coordinate.half_width(0.2)
    beyond = 0
    for seed in range(400):
        beyond += abs(protocol.run(x, DeterministicRandom(seed)).estimate - 0.75) > half
    assert beyond <= 80 + 6.2 * math.sqrt(400 * 0.16)


@pytest.mark.slow
def test_a_histogram_with_uniform_noise():
    protocol = PrivateVectorSum(1000, Categories([4]), 2, 1e-4, transport=Bounded())
    x = np.eye(4)[np.arange(1000) % 3]
    result = protocol.run(x, DeterministicRandom(5))
    half = protocol.error(1000).coordinate.half_width(1e-12)
    assert (abs(result.estimate - x.sum(axis=0)) <= half).all()
    assert protocol.influence == pytest.approx((protocol.modulus - 1) / protocol.precision * 2)


def test_a_transport_bounds_the_influence(monkeypatch):
    protocol = a_sum(1000, 1, 1e-6, upper=5)
    assert protocol.influence == pytest.approx(5 * (protocol.modulus - 1) / protocol.precision)
    monkeypatch.setattr(type(protocol.transport), "reach", 34.0 + 15)
    assert protocol.influence == 5 * (49 / 34)


# Laplace noise with a bound


@pytest.mark.parametrize("users", [1, 2, 10])
@pytest.mark.parametrize("rate", [0.05, 0.7])
def test_cuts_are_at_least_as_rare_as_proved(users, rate):
    """The differences of all users, added up from exact probabilities."""
    epsilon = Fraction(rate) * 3
    noise = CutLaplaceNoise.least(epsilon, Fraction(1, 50), Shift(2, 3, 5, 2), users)
    assert noise.rate == Fraction(rate)
    law = polya_law(1 / users, rate)
    both = law.minus(law)
    values = both.first + np.arange(both.pmf.size)
    beyond = float(both.pmf[abs(values) > noise.width // 2].sum())
    cut = 1 - (1 - beyond) ** users
    assert 0.2 * cut < cut <= noise.cut
    assert noise.cut * (1 + math.exp(epsilon)) * 2 <= noise.delta <= 0.02


@pytest.mark.parametrize("rate", [Fraction(1, 9), Fraction(2)])
def test_cut_shares_are_clipped_and_lifted_shares(rate):
    noise = CutLaplaceNoise(rate, width=9, cut=0.1, delta=0.1)
    places, drawn = noise.shares(20_000, 3, DeterministicRandom(8))
    assert (places == np.arange(20_000)).all()
    at, amounts = LaplaceNoise(rate).shares(20_000, 3, DeterministicRandom(8))
    whole = np.zeros(20_000, dtype=np.int64)
    whole[at] = amounts
    assert (drawn == np.clip(whole, -4, 4) + 4).all()
    assert (drawn.min(), drawn.max()) == (0, 8)


def exact_cut(users, rate, bound):
    """Return the distribution of the sum of cut shares, in doubles."""
    law = polya_law(1 / users, rate)
    both = law.minus(law)
    values = np.clip(both.first + np.arange(both.pmf.size), -bound, bound)
    one = np.bincount(values + bound, weights=both.pmf)
    total = np.ones(1)
    for _ in range(users):
        total = np.convolve(total, one)
    return total


@pytest.mark.parametrize("users", [1, 2, 5])
@pytest.mark.parametrize(("epsilon", "steps"), [(1, 1), (1, 4), (0.5, 3), (2, 2)])
def test_cut_noise_is_as_private_as_proved(users, epsilon, steps):
    shift = Shift(1, steps, steps**2, steps)
    noise = CutLaplaceNoise.least(Fraction(epsilon), Fraction(1, 100), shift, users)
    law = exact_cut(users, float(noise.rate), noise.width // 2)
    for moved in range(1, steps + 1):
        p, q = np.pad(law, (0, moved)), np.pad(law, (moved, 0))
        for one, other in ((p, q), (q, p)):
            assert np.maximum(one - math.exp(epsilon) * other, 0).sum() <= noise.delta + 1e-12


def test_a_private_sum_with_cut_noise():
    recipe = Bounded("laplace")
    protocol = PrivateSum(400, 1, 1e-6, lower=-1, upper=2, transport=recipe, min_honest=390)
    free = PrivateSum(400, 1, 1e-6, lower=-1, upper=2, transport="helpers", min_honest=390)
    assert protocol.precision == free.precision
    assert protocol.mse == pytest.approx(free.mse)
    assert protocol.guarantee.delta <= 1e-6
    assert "cut discrete Laplace" in protocol.guarantee.theorem
    assert protocol.parameters["noise_cut_width"] == str(protocol.noise.width)
    for seed in range(5):
        x = np.linspace(-1, 2, 395)
        result = protocol.run(x, DeterministicRandom(seed))
        assert abs(result.estimate - x.sum()) < protocol.error(395).coordinate.half_width(1e-5)
    assert protocol.noise.distribution(Fraction(1)).half_width(1e-8, 0) == math.inf
    whole = PrivateSum(400, 1, 1e-6, upper=7, integers=True, transport=recipe)
    assert whole.precision == 7
    with pytest.raises(InvalidValue, match="noise must be one of"):
        PrivateSum(400, 1, 1e-6, transport=Bounded("gaussian"))
