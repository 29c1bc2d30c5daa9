"""CentralGaussian: its law, its budget against the exact divergence, errors, and refusals.

Statistical tests have a proved false-alarm rate of at most 1e-9 each, at fixed sizes.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from statistical import FALSE_ALARM
from test_discrete_gaussian import gaussian_law

from ikos import Ball, Box, Categories, SparseTernary
from ikos.baselines import CentralGaussian
from ikos.baselines.central_model import Subgaussian, exact_sums
from ikos.data.domains import Domain
from ikos.noise.gaussian_noise import least_variance
from ikos.testing import DeterministicRandom


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0.1), (0.5, 1e-3), (3, 1e-5)])
def test_the_exact_divergence_is_at_most_delta(epsilon: float, delta: float) -> None:
    """Two coordinates of zeros and ones: the worst neighbours differ in both."""
    protocol = CentralGaussian(5, Box(2), epsilon, delta, integers=True)
    law = gaussian_law(float(protocol.variance)).pmf
    law = np.pad(law, 1)
    first = np.multiply.outer(law, law)
    second = np.multiply.outer(np.roll(law, 1), np.roll(law, 1))
    true = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
    assert true <= delta
    narrow = np.pad(gaussian_law(0.5 * float(protocol.variance)).pmf, 1)
    second = np.multiply.outer(np.roll(narrow, 1), np.roll(narrow, 1))
    first = np.multiply.outer(narrow, narrow)
    assert float(np.maximum(first - math.exp(epsilon) * second, 0).sum()) > delta


@pytest.mark.parametrize(
    "domain", [Box(16), Ball(16, 3), SparseTernary(16, 2), Categories([9, 7])], ids=str
)
def test_the_budget_is_kept_for_every_pair_of_encodings(domain: Domain) -> None:
    protocol = CentralGaussian(1000, domain, 1, 1e-8)
    shift = protocol.encoding.shift(16)
    assert protocol.variance == least_variance(Fraction(1), Fraction(1e-8), shift.l2_squared)
    rng = DeterministicRandom(1)
    x = np.zeros((2, 16))
    if isinstance(domain, Box):
        x[1] = 1
    elif isinstance(domain, Ball):
        x[0], x[1] = 0.75, -0.75
    elif isinstance(domain, SparseTernary):
        x[0, :2], x[1, :2] = 1, -1
    else:
        x[0, [0, 9]], x[1, [1, 10]] = 1, 1
    first, second = domain.values(x)
    for _ in range(20):
        moved = protocol.report(first, rng) - protocol.report(second, rng)
        assert int((moved**2).sum()) <= shift.l2_squared
        assert int((moved**2).sum()) > 0.9 * shift.l2_squared


@pytest.mark.points(0)
def test_the_noise_is_discrete_gaussian() -> None:
    protocol = CentralGaussian(4, Box(30_000), 100, 1e-3, integers=True)
    noise = protocol.run(np.zeros((4, 30_000)), DeterministicRandom(2)).estimate.astype(np.int64)
    assert gaussian_law(float(protocol.variance)).p_value(noise) > FALSE_ALARM
    assert gaussian_law(1.3 * float(protocol.variance)).p_value(noise) < FALSE_ALARM


@pytest.mark.slow
def test_many_users_are_added_up_in_blocks() -> None:
    users, d = 70_000, 40
    protocol = CentralGaussian(users, Box(d, 0, 9), 100, 1e-3, integers=True)
    x = np.random.default_rng(1).integers(0, 10, (users, d))
    error = protocol.run(x, DeterministicRandom(5)).estimate - x.sum(axis=0)
    assert np.abs(error).max() < protocol.error(users).coordinate.half_width(FALSE_ALARM / d)


def test_sums_of_large_encodings_are_exact() -> None:
    rows = np.full((5, 2), 1 << 52, dtype=np.int64)
    rows[:, 1] -= 1
    assert exact_sums(rows).tolist() == [5 << 52, (5 << 52) - 5]
    assert exact_sums(np.full((300, 1), 255, dtype=np.uint8)).tolist() == [300 * 255]


def test_half_widths_hold_for_the_law() -> None:
    law = gaussian_law(20.0)
    bound = Subgaussian(20.0)
    values = np.abs(np.arange(law.pmf.size) + law.first)
    for miss in (0.3, 1e-3, 1e-6):
        assert law.pmf[values > bound.half_width(miss)].sum() <= miss


def test_several_releases_add_up() -> None:
    once = CentralGaussian(10, Ball(3), 1, 1e-3)
    often = CentralGaussian(10, Ball(3), 1, 1e-3, precision=once.encoding.precision, releases=9)
    assert float(often.variance) == pytest.approx(9 * float(once.variance), rel=1e-4)
    assert "9 reports" in often.guarantee.conditions[1].text
    with pytest.raises(ValueError, match="releases must be at least 1"):
        CentralGaussian(10, Ball(3), 1, 1e-3, releases=0)
