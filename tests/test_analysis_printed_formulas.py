"""Formulas of SCM22 and WLQDLY21 as printed: against enumerations, and against what they bound."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from vectors.key_value_laws import collision_law, sparse_vectors

from analysis.scm22_repaired import (
    corollary_4_3_share,
    corollary_4_7_deviation,
    single_deviation,
    theorem_4_6_error,
    theorem_4_6_precision,
)
from analysis.wlqdly21_published import (
    definition_3,
    explicit_lower_bound,
    private_assouad_bound,
    published_asymptotic_error,
    published_lower_bound,
    published_nonprivate_error,
    published_shuffled_values,
)
from ikos import SparseTernary
from ikos.accounting import optimal_delta
from ikos.accounting.composition import advanced_share
from ikos.accounting.scm22 import published_gamma, published_single_gamma
from ikos.baselines import PCKVGRR, PCKVUE, Collision, PrivKV

# SCM22


@pytest.mark.parametrize("delta", [1e-10, 1e-3, 0.5, 0.7])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1.5, 6.0])
def test_corollary_4_3_holds_where_it_follows_from_theorem_4_2(epsilon, delta):
    for times in (1, 3, 100):
        each = corollary_4_3_share(epsilon, delta, times)
        half = epsilon / 2 if epsilon <= 1 else epsilon / 12
        assert math.sqrt(2 * times * math.log(1 / delta)) * each == pytest.approx(half)
        assert half + times * each * math.expm1(each) <= epsilon * (1 + 1e-12)
        assert optimal_delta(epsilon, times, each, 0) <= delta
        assert each <= advanced_share(epsilon, delta, times)


def test_corollary_4_3_is_false_for_delta_near_1():
    each = corollary_4_3_share(0.9, 0.999, 1)
    assert each > 10
    keep = math.exp(each) / (1 + math.exp(each))  # randomized response of one bit
    assert keep - math.exp(0.9) * (1 - keep) > 0.9998


@pytest.mark.parametrize("epsilon", [0.95, 1.0, 1.5, 6.0])
@pytest.mark.parametrize("t", [1, 2, 7])
def test_theorem_4_6_is_the_error_at_its_precision(epsilon, t):
    """t d^2/n (1/(4k^2) + gamma/2) / (1 - gamma)^2, where both terms are equal; t = 1 too."""
    n, d, delta = 10**9, 100, 1e-3
    k = theorem_4_6_precision(epsilon, delta, n, d, t)
    a = 28 if epsilon <= 1 else 1008
    log = math.log(1 / delta) * math.log(2 * t / delta)
    assert k**3 == pytest.approx((n - 1) * epsilon**2 / (4 * a * d * log))
    gamma = k * published_gamma(epsilon, delta, n, d, 1, t)
    assert 1 / (4 * k * k) == pytest.approx(gamma / 2)
    exact = t * d * d / n * (1 / (4 * k * k) + gamma / 2) / (1 - gamma) ** 2
    error = theorem_4_6_error(epsilon, delta, n, d, gamma, t)
    assert error == pytest.approx(exact, rel=1e-8)
    printed = (2 * t) ** 0.5 if epsilon <= 1 else (8 * t) ** 0.5
    printed *= ((14 if epsilon <= 1 else 63) * log) ** (1 / 3) * d ** (4 / 3)
    printed /= (1 - gamma) * n ** (5 / 6) * epsilon ** (2 / 3)
    found = corollary_4_7_deviation(epsilon, delta, n, d, gamma, t)
    assert found == pytest.approx(printed, rel=1e-12)
    assert found == math.sqrt(error)


@pytest.mark.parametrize("epsilon", [0.01, 0.95, 1.5, 6.0])
@pytest.mark.parametrize("delta", [0.5, 0.999, 1e-6])
def test_the_deviation_of_one_coordinate(epsilon, delta):
    """Sigma' as printed, whose larger part is that of the larger part of gamma."""
    n, d, gamma, log = 10**6, 100, 0.1, math.log(2 / delta)
    if epsilon <= 1:
        parts = (
            98 ** (1 / 6) * log ** (1 / 3) / epsilon ** (2 / 3),
            18**0.5 / (4 * epsilon) ** (1 / 3),
        )
    else:
        parts = (
            2**0.5 * (20 * log) ** (1 / 3) / epsilon ** (2 / 3),
            2**0.5 * 9 ** (1 / 3) / (11 * epsilon) ** (1 / 3),
        )
    printed = d ** (4 / 3) / ((1 - gamma) * n ** (5 / 6)) * max(parts)
    found = single_deviation(epsilon, delta, n, d, gamma)
    assert found == pytest.approx(printed, rel=1e-12)
    slope = published_single_gamma(epsilon, delta, n, d, 1)  # the error is least over k, but 6 %
    square = d * d / n * 3 / 4 * slope ** (2 / 3) / (1 - gamma) ** 2
    assert 1.05 < found**2 / square < 1.07


# WLQDLY21


@pytest.mark.parametrize(("s", "t"), [(1, 2), (2, 3), (2, 4), (3, 4)])
def test_definition_3_is_private_and_unbiased(s, t):
    """Proposition 1 and the estimator, over all hash values of s events and of another one."""
    odds = Fraction(7, 2)
    laws = {h: definition_3(h, t, odds) for h in product(range(t), repeat=s)}
    for h, law in laws.items():
        assert law == list(collision_law(h, s, t, odds).values())
        assert sum(law) == 1
    for z in range(t):
        chances = [law[z] for law in laws.values()]
        assert max(chances) == odds * min(chances)  # reached where no values collide
    omega = s * odds + t - s
    for own in range(s + 1):  # the last one is an event that the user does not have
        found = sum(laws[h[:s]][h[own]] for h in product(range(t), repeat=s + 1)) / Fraction(t) ** (
            s + 1
        )
        estimate = (found - Fraction(1, t)) / (odds / omega - Fraction(1, t))
        assert estimate == (own < s)
    with pytest.raises(ValueError, match="t must be at least"):
        definition_3([0] * s, s, odds)


def test_lemma_1s_numbers_for_the_distributions_of_buckets():
    """F over all functions of 16 vectors with values 1 and -1, and the separation."""
    s, d, beta = 2, 4, 0.5
    buckets = [[(j, sign) for j in (2 * b, 2 * b + 1) for sign in (1, -1)] for b in range(s)]
    x = np.zeros((16, d))
    for row, entries in zip(x, product(*buckets), strict=True):
        for j, sign in entries:
            row[j] = sign
    hypercube = np.array(list(product((-1, 1), repeat=d)))
    laws = np.array(
        [[math.prod((1 + beta * v * e) / 4 for v, e in zip(nu, row, strict=True) if e) for row in x]
         for nu in hypercube]
    )  # fmt: skip
    np.testing.assert_allclose(laws.sum(axis=1), 1)
    differences = np.array(
        [laws[hypercube[:, j] == 1].mean(axis=0) - laws[hypercube[:, j] == -1].mean(axis=0)
         for j in range(d)]
    )  # fmt: skip
    functions = 2 * (np.arange(1 << 16)[:, None] >> np.arange(16) & 1) - 1
    most = ((functions @ differences.T) ** 2).sum(axis=1).max()
    assert most <= 4 * beta**2 * s / d < 1.2 * most
    means = laws @ x
    np.testing.assert_allclose(means, beta * s / d * hypercube, atol=1e-12)
    # no other beta is better, also where the best one is 1; and the stated form
    bounds = [
        private_assouad_bound(50, d, 0.2, (b * s / d) ** 2 / 2, 4 * b * b * s / d)
        for b in np.linspace(0.01, 1, 100)
    ]
    assert max(bounds) == pytest.approx(explicit_lower_bound(50, d, s, 0.2), rel=1e-3)
    n = 10**4
    expected = d * s / (27 * n * math.expm1(0.2) ** 2)
    assert explicit_lower_bound(n, d, s, 0.2) == pytest.approx(expected)
    assert explicit_lower_bound(n, d + 1, s, 0.2) == explicit_lower_bound(n, d, s, 0.2)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(("d", "s"), [(1, 1), (16, 4), (256, 16)])
def test_no_protocol_is_below_the_explicit_lower_bound(d, s, epsilon):
    for n in (1, 100, 10**6):
        bound = explicit_lower_bound(n, d, s, epsilon)
        published = published_lower_bound(n, d, s, epsilon)
        assert published / 80 <= bound <= published
        zero = s * s / d  # the largest squared norm of a mean of these distributions, guessed as 0
        errors = [zero]
        for kind in (Collision, PrivKV, PCKVGRR, PCKVUE):
            protocol = kind(n, SparseTernary(d, s), epsilon=epsilon)
            errors.append(protocol.variances.mean_square(d, s, exactly=True) / n)
        assert 0 < bound < min(errors)


def test_the_rate_without_privacy():
    """Exactly (s - |theta|^2)/n, here over users uniform on some of the vectors."""
    d, s = 4, 2
    x = np.array(sparse_vectors(d, s, exactly=True))
    for some in (x, x[:5], x[:1]):
        theta = some.mean(axis=0)
        one = ((some - theta) ** 2).sum(axis=1).mean()
        assert one == pytest.approx(s - theta @ theta)
        for n in (1, 2):
            means = np.array([sum(some[list(rows)]) / n
                              for rows in product(range(len(some)), repeat=n)])  # fmt: skip
            error = ((means - theta) ** 2).sum(axis=1).mean()
            assert error == pytest.approx(one / n)
            assert 4 * error <= published_nonprivate_error(n, s) * (1 + 1e-12)


@pytest.mark.parametrize("s", [4, 16, 64])
def test_the_order_of_the_error_after_shuffling(s):
    """The maximum is 1, and the error is (1 - s/Omega)^-4 times the rest of the formula."""
    d, epsilon, delta = 10**7, 0.5, 1e-5
    log = math.log(2 / delta)
    for ratio in (1.01, 1.1, 2, 10, 1000):
        n = math.ceil(14 * log * ratio * s / epsilon**2) + 1
        omega = epsilon**2 * (n - 1) / (14 * log)
        t = published_shuffled_values(s, omega)
        p, q = (omega - t + s) / (s * omega), 1 / t
        error = 2 / n * (s * p * (1 - p) + (2 * d - s) * q * (1 - q)) / (p - q) ** 2
        printed = published_asymptotic_error(n, d, s, epsilon, delta)
        assert printed == pytest.approx(d * s * s * math.log(1 / delta) / (n * epsilon) ** 2)
        assert 300 < error / printed * (1 - s / omega) ** 4 < 1000
    few = round(14 * log * s / epsilon**2 / 2) + 1  # Omega = s/2, where there is no mechanism
    assert published_asymptotic_error(few, d, s, epsilon, delta) == pytest.approx(
        2 * d * s * s * math.log(1 / delta) / (few * epsilon) ** 2, rel=1e-2
    )
