"""The calculators for sparse vectors of signs, and what WLQDLY21's formulas are worth."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.wlqdly21_published import (
    published_amplification,
    published_binary_amplification,
    published_local_epsilon,
    published_shuffled_values,
    published_values,
)
from ikos.accounting import amplified_delta, response_delta, response_gamma
from ikos.accounting.blanket import local_epsilon
from ikos.accounting.wlqdly21 import (
    MAX_VALUES,
    collision_parameters,
    collision_variances,
    raised,
    set_response_gamma,
)
from ikos.numeric.rounding import exp_down

# Privacy


@given(st.floats(1e-6, 99), st.fractions(1, 10**6))
def test_gamma_of_a_local_guarantee_is_the_smallest_on_the_grid(epsilon, k):
    gamma = set_response_gamma(Fraction(epsilon), Fraction(0), 1, k)
    with gmpy2.context(precision=300):
        exact = gmpy2.exp(gmpy2.mpq(Fraction(epsilon)))
        assert 1 + gmpy2.mpq(k * (1 - gamma) / gamma) <= exact
        below = gamma - Fraction(1, 2**53)
        assert below == 0 or 1 + gmpy2.mpq(k * (1 - below) / below) > exact
    assert local_epsilon(k, gamma) >= math.log1p(float(k * (1 - gamma) / gamma))


def test_exponentials_are_rounded_down():
    for epsilon in (Fraction(1, 3), Fraction(1), Fraction(50)):
        with gmpy2.context(precision=400):
            exact = gmpy2.exp(gmpy2.mpq(epsilon))
            assert exact * (1 - gmpy2.mpfr(2) ** -250) < gmpy2.mpq(exp_down(epsilon)) <= exact


def test_shuffled_gammas():
    eps, delta, n, k = Fraction(1, 2), Fraction(1, 10**5), 10**4, Fraction(25, 3)
    gamma = set_response_gamma(eps, delta, n, k)
    assert gamma == response_gamma(eps, delta, n, k)
    assert response_delta(eps, n, k, gamma) <= delta
    capped = set_response_gamma(eps, delta, n, k, most_local=Fraction(1))
    assert local_epsilon(k, capped) == pytest.approx(1)
    assert response_delta(eps, n, k, capped) <= delta
    alone = set_response_gamma(eps, Fraction(0), 1, k)
    assert set_response_gamma(eps, delta, 1, k) <= alone


def test_raised_bits():
    with gmpy2.context(precision=300):
        exact = 1 / (gmpy2.exp(1) + 1)
    q = raised(Fraction(1), Fraction(0), 1)
    assert 0 <= gmpy2.mpq(q) - exact < gmpy2.mpfr(2) ** -53
    q = raised(Fraction(1, 2), Fraction(1, 10**6), 10**4)
    far = Fraction(1, 2) - q
    assert amplified_delta(0.5, 10**4, math.log(1 / q - 1), total_variation=far) <= 1e-6
    assert raised(Fraction(1, 2), Fraction(1, 10**6), 10**4, most_local=Fraction(1)) > q
    assert raised(Fraction(1, 10**6), Fraction(0), 1) < Fraction(1, 2)


# The size of the hash


@pytest.mark.parametrize(("d", "s"), [(256, 16), (64, 64), (5, 1)])
@pytest.mark.parametrize("epsilon", [0.01, 3.0])
def test_local_values_are_the_best_of_all(d, s, epsilon):
    found = collision_parameters(1, d, s, epsilon)
    best = collision_variances(found.t, s, found.gamma).mean_square(d, s)
    for t in {s + 1, s + 2, found.t - 1, found.t + 1, 2 * found.t, 7 * s} - {s}:
        if t > s:
            other = collision_parameters(1, d, s, epsilon, t=t)
            assert collision_variances(t, s, other.gamma).mean_square(d, s) >= best * (1 - 1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 3.0])
@pytest.mark.parametrize("s", [4, 32])
def test_the_papers_local_values_are_near_the_best(s, epsilon):
    """Within a part in 200 of the error where d is large beside s."""
    best = collision_parameters(1, 1024, s, epsilon)
    t = round(published_values(s, epsilon))
    other = collision_parameters(1, 1024, s, epsilon, t=t)
    errors = [
        collision_variances(each.t, s, each.gamma).mean_square(1024, s) for each in (best, other)
    ]
    assert errors[0] <= errors[1] <= errors[0] * (1 + 1 / 200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "d", "s", "epsilon", "delta"), [(500, 32, 4, 1.0, 1e-4), (10**5, 1024, 32, 0.5, 1e-5)]
)
def test_no_other_number_of_values_is_much_better_after_shuffling(n, d, s, epsilon, delta):
    found = collision_parameters(n, d, s, epsilon, delta)
    best = collision_variances(found.t, s, found.gamma).mean_square(d, s)
    assert response_delta(epsilon, n, Fraction(found.t, s), found.gamma) <= delta
    for factor in (0.5, 0.95, 1.05, 2):
        t = max(2 * s, round(found.t * factor))
        other = collision_parameters(n, d, s, epsilon, delta, t=t)
        assert collision_variances(t, s, other.gamma).mean_square(d, s) >= best * 0.9999


def test_the_largest_sparsity():
    found = collision_parameters(10**6, 10**6, MAX_VALUES // 2, 1, 1e-6)
    assert found.t == MAX_VALUES
    with pytest.raises(ValueError, match="sparsity must be at most"):
        collision_parameters(10**6, 10**6, MAX_VALUES // 2 + 1, 1, 1e-6)


@pytest.mark.parametrize(
    ("arguments", "match"), [((5, 5, 2, 0), "epsilon"), ((5, 5, 2, 1, 1), "delta")]
)
def test_wrong_settings_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        collision_parameters(*arguments)


# What the paper states


def test_the_displayed_variance_lacks_a_square_and_a_factor():
    """Its numerator is right: s p (1 - p) + (2d - s) (1/t) (1 - 1/t), as summed for the events."""
    d, s, t, omega = 64, 4, 30, 100.0
    gamma = Fraction(t, 100)
    said = collision_variances(t, s, gamma)
    events = s * said.present + (2 * d - s) * said.absent
    lead = (2 * d - s) * (t - 1) / t**2
    own = (omega + s - t) * (omega * (s - 1) - s + t) / (omega**2 * s)
    gain = (omega + s - t) / (omega * s) - 1 / t
    assert (lead + own) / gain**2 == pytest.approx(events)
    assert (lead + own) / gain < events / 5


@pytest.mark.parametrize("s", [4, 32])
@pytest.mark.parametrize("omega", [146.3, 2000.0])
def test_the_papers_shuffled_values_are_the_best_at_a_fixed_omega(s, omega):
    """With the square. Omega is fixed by Theorem 3, not by the divergence."""

    def error(t):
        gamma = Fraction(t / omega)
        return collision_variances(t, s, gamma).mean_square(1024, s)

    best = min(range(s + 1, int(omega)), key=error)
    assert error(round(published_shuffled_values(s, omega))) <= error(best) * 1.01


def test_theorem_3_both_ways():
    local, t = published_local_epsilon(0.5, 1e-5, 10**5, 16)
    assert published_amplification(local, 1e-5, 10**5, 16, t) == pytest.approx(0.5)
    assert 1.7 < local < 2.0  # "around 2.0" (Section 6.5)
    local, t = published_local_epsilon(0.5, 1e-5, 10**5, 16, t=40.0)
    assert published_amplification(local, 1e-5, 10**5, 16, t) == pytest.approx(0.5)


def test_theorem_3_has_the_condition_of_bbgn19():
    """n >= 27 Omega / epsilon + 1, which matters for a large delta alone."""
    setting = 1.8, 0.5
    omega = 16 * math.exp(1.8) + 66 - 16
    with pytest.raises(ValueError, match=r"^n must be at least \d+, got 4000$") as refused:
        published_amplification(*setting, 4000, 16, 66)
    least = int(str(refused.value).split()[5].rstrip(","))
    assert least - 1 == pytest.approx(729 * omega / (14 * math.log(4)), abs=1)
    found = published_amplification(*setting, least, 16, 66)
    assert least == pytest.approx(27 * omega / found + 1, abs=1)
    with pytest.raises(ValueError, match=r"^n must be at least"):
        published_amplification(*setting, least - 1, 16, 66)
    with pytest.raises(ValueError, match=r"^local must be smaller"):
        published_amplification(*setting, 2000, 16, 66)


def test_theorem_3_is_far_above_the_divergence():
    local, t = published_local_epsilon(0.5, 1e-5, 10**5, 16)
    k = Fraction(round(t), 16)
    gamma = set_response_gamma(Fraction(local), Fraction(0), 1, k)
    assert response_delta(0.5, 10**5, k, gamma) < 1e-100


def test_errors_of_many_sizes_agree_with_the_formula():
    t, s, gamma = 37, 5, 0.3
    p, q = gamma / t + (1 - gamma) / s, 1 / t
    said = collision_variances(t, s, Fraction(gamma))
    assert said.zero == pytest.approx((2 * q - 2 * q * q) / (p - q) ** 2)
    assert said.nonzero == pytest.approx((p + q - 2 * p * q) / (p - q) ** 2 - 1)
    assert np.isclose(
        said.mean_square(100, s), max(100 * said.zero, 5 * said.nonzero + 95 * said.zero)
    )


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: local_epsilon(3, Fraction(0)), "gamma"),
        (lambda: local_epsilon(Fraction(1, 2), Fraction(1, 2)), "k"),
        (lambda: set_response_gamma(Fraction(1), Fraction(0), 1, Fraction(1, 2)), "k"),
        (lambda: set_response_gamma(Fraction(1), Fraction(1, 10), 9, Fraction(3, 2)), "k"),
    ],
)
def test_bad_arguments_are_named(call, match):
    with pytest.raises(ValueError, match=f"^{match} must be"):
        call()


def test_a_message_that_tells_nearly_all_is_not_private_by_itself():
    assert local_epsilon(3, Fraction(1, 10**400)) == math.inf
    assert local_epsilon(3, Fraction(1)) == 0


@pytest.mark.parametrize(("local", "delta", "n"), [(1.0, 1e-8, 10**6), (4.0, 1e-12, 10**7)])
def test_the_published_form_for_two_values_is_the_closed_form(local, delta, n):
    printed = math.sqrt(14 * math.log(2 / delta) * (math.exp(local) + 1) / (n - 1))
    assert published_binary_amplification(local, delta, n) == pytest.approx(printed)
    gamma = 2 / (math.exp(local) + 1)
    above, below = (
        response_delta(printed * factor, n, 2, gamma, accountant="closed-form")
        for factor in (1 + 1e-9, 0.999)
    )
    assert above <= delta < below
