"""The search for the last safe point."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos.accounting.gaussian import gaussian_mu
from ikos.accounting.solve import gaussian_log_delta, last_safe


@given(st.floats(-20, 20), st.floats(0.1, 100), st.floats(0.01, 1000), st.floats(-20, 20))
def test_it_ends_just_below_the_root(root, bend, slope, start):
    def excess(x):
        return bend * (x - root) + math.expm1(min(x - root, 2.0))

    found = last_safe(excess, slope, start=start)
    assert -2e-4 - 1e-4 * bend <= excess(found) <= 0


def test_a_jump_ends_before_it():
    found = last_safe(lambda x: -1.0 if x < 3 else 1.0, 1.0)
    assert 3 - 1e-5 < found < 3


def test_no_safe_point_is_refused():
    with pytest.raises(ValueError, match="must be larger"):
        last_safe(lambda x: 1.0, 1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-3), (1, 1e-8), (8, 1e-12), (1, 1e-100)])
def test_gaussian_losses(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_log_delta(epsilon, mu) == pytest.approx(math.log(delta), rel=1e-9)
