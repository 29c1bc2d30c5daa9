"""The search for the last safe point."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos.accounting import blanket_convolution, shuffled_response
from ikos.numeric.gaussian import gaussian_log_delta, gaussian_mu
from ikos.numeric.search import last_safe, least_point, log_excess


@given(st.floats(-20, 20), st.floats(0.1, 100), st.floats(0.01, 1000), st.floats(-20, 20))
def test_it_ends_just_below_the_root(root, bend, slope, start):
    def excess(x):
        return bend * (x - root) + math.expm1(min(x - root, 2.0))

    found = last_safe(excess, slope, start=start)
    assert -2e-4 - 1e-4 * bend <= excess(found) <= 0


def test_a_jump_ends_before_it():
    found = last_safe(lambda x: -1.0 if x < 3 else 1.0, 1.0)
    assert 3 - 1e-5 < found < 3


def test_it_leaves_a_flat_start():
    found = last_safe(lambda x: max(x, 2.0) - 5, 0.0)
    assert -2e-4 <= found - 5 <= 0


@given(st.floats(-3, 5))
def test_a_function_is_least_where_it_turns(place):
    found = least_point(lambda x: abs(x - place) if x > -2.5 else math.inf, -3.0, 5.0)
    assert found == pytest.approx(max(place, -2.5), abs=1e-7)


def test_no_safe_point_is_refused():
    with pytest.raises(ValueError, match="must be larger"):
        last_safe(lambda x: 1.0, 1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-3), (1, 1e-8), (8, 1e-12), (1, 1e-100)])
def test_gaussian_losses(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_log_delta(epsilon, mu) == pytest.approx(math.log(delta), rel=1e-9)


@given(st.floats(0, 1), st.floats(5e-324, 1))
def test_an_excess_is_positive_or_negative(delta, target):
    assert (log_excess(delta, target) > 0) == (delta > target)
    assert (log_excess(delta, target) < 0) == (delta <= target)
    assert log_excess(target, target) < 0


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-320, 5e-324])
def test_searches_do_not_creep_where_logarithms_are_equal(monkeypatch, delta):
    seen = []

    def counted(*pair):
        seen.append(pair)
        return log_excess(*pair)

    for module in (shuffled_response, blanket_convolution):
        monkeypatch.setattr(module, "log_excess", counted)
    epsilon = shuffled_response.response_epsilon(delta, 10**6, 3, 0.1)
    assert shuffled_response.response_delta(epsilon, 10**6, 3, 0.1) <= delta
    report = blanket_convolution.sets_report(0.4, 0.5, 0)
    blanket_convolution.report_epsilon(report, delta, 2000)
    assert len(seen) < 200
