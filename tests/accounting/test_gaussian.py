"""The exact delta of Gaussian noise: against 60 digits, published values and another accountant."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos.numeric.gaussian import gaussian_delta, gaussian_mu


def true_delta(epsilon: float, mu: float) -> Any:
    with mpmath.workdps(80 + max(0, round(-math.log10(mu)))):
        eps, distance = mpmath.mpf(epsilon), mpmath.mpf(mu)
        root = mpmath.sqrt(2)
        above = mpmath.erfc((eps / distance - distance / 2) / root) / 2
        below = mpmath.erfc((eps / distance + distance / 2) / root) / 2
        return above - mpmath.exp(eps) * below


@given(st.floats(0, 20), st.floats(1e-3, 20))
def test_delta_is_rounded_up_once(epsilon: float, mu: float) -> None:
    true = true_delta(epsilon, mu)
    found = gaussian_delta(epsilon, mu)
    assert true <= found
    assert found <= true * (1 + mpmath.mpf(2) ** -52) + 5e-324


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    [(1, 1e-8, 0.196066560), (1, 1e-6, 0.236704381), (0.99, 1e-8, 0.194206730),
     (2, 1e-6, 0.448334740), (0, 1e-5, 2.50662827e-5), (100, 1e-3, 11.44652786),
     (0, 1e-100, 2.50662827e-100), (0, 1e-300, 2.50662827e-300), (1e-101, 1e-100, 2.63005882e-100),
      (1, 1e-310, 0.0266783648)],
)  # fmt: skip
def test_mu_is_the_largest(epsilon: float, delta: float, mu: float) -> None:
    found = gaussian_mu(epsilon, delta)
    assert found == pytest.approx(mu, rel=4e-9)
    assert (
        gaussian_delta(epsilon, found) <= Fraction(delta) < true_delta(epsilon, found * (1 + 2e-12))
    )


def test_the_deviation_of_the_analytic_mechanism() -> None:
    assert 2 / gaussian_mu(1, 1e-8) == pytest.approx(10.2006176, abs=1e-7)


@pytest.mark.parametrize("mu", [0.2, 1.5])
def test_it_agrees_with_another_accountant(mu: float) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    loss = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3)
    assert gaussian_delta(1.0, mu) == pytest.approx(loss.get_delta_for_epsilon(1.0), rel=1e-10)
