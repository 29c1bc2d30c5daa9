"""Bounds on what is possible: by brute force, beside protocols, and each step of the proofs."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.special import betainc
from statistical import FALSE_ALARM

from analysis.afnntz24_bounds import (
    _ball_moment,
    _box_moment,
    _log_subsets,
    _sum_log_need,
    _unbiased_log_need,
    coefficient_influence,
    group_sizes,
    least_messages,
    poisoning_floor,
    single_message_floor,
)
from ikos import Ball, Box
from ikos.baselines import SingleMessageGrid
from ikos.results.confidence import mean_interval

# Steps of the proofs


def test_the_number_of_subsets():
    for n, k in product((2, 3, 10, 1000), (1, 2, 5, 40)):
        exact = math.log(math.comb(n * k, k))
        assert exact <= _log_subsets(n, k) <= exact + 0.15
    grown = [_log_subsets(2, k) for k in range(1, 200)]
    assert grown == sorted(grown)


@given(st.integers(1, 200), st.floats(1e-6, 1))
def test_the_measure_of_a_cap(m, x):
    """I_x(m/2, 1/2) <= x^(m/2): a cap of half angle arcsin sqrt(x) on the sphere in m + 1."""
    assert betainc(m / 2, 0.5, x) <= x ** (m / 2) * (1 + 1e-12)


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_moments_of_the_distance_to_the_middle(d):
    draw = np.random.default_rng(d)
    for r in (0.0, 0.2, 0.7, 1.0):
        ball = integrate.quad(lambda t, r=r: max(t - r, 0) ** 2 * d * t ** (d - 1), 0, 1)[0]
        assert _ball_moment(np.array([r]), d)[0] == pytest.approx(ball, abs=1e-9)
        scale = r * math.sqrt(d) / 2
        drawn = np.linalg.norm(draw.uniform(-0.5, 0.5, (20_000, d)), axis=1)
        # a bound from below; squares of at most that of the distance to a corner
        most = max(math.sqrt(d) / 2 - scale, 1e-9) ** 2
        parts = np.minimum(np.maximum(drawn - scale, 0) ** 2 / most, 1)
        high = mean_interval(float(parts.sum()), 20_000, 1 - Fraction(FALSE_ALARM)).high
        assert _box_moment(np.array([scale]), d)[0] <= most * high
        assert _box_moment(np.array([0.0]), d)[0] >= 0.55 * d / 12


def test_the_middle_is_the_worst_place():
    """E (|a - b| - r)_+^2 is least for b in the middle: exact sums on a grid of the disc."""
    grid = np.linspace(-1, 1, 41)
    disc = np.array([p for p in product(grid, repeat=2) if p[0] ** 2 + p[1] ** 2 <= 1])
    for r in (0.1, 0.5):
        values = [
            (np.maximum(np.linalg.norm(disc - b, axis=1) - r, 0) ** 2).mean()
            for b in ([0, 0], [0.2, 0], [0.5, 0.3], [0.9, 0])
        ]
        assert values == sorted(values)


def test_messages_near_a_point_by_enumeration():
    """The inequality for P[R(a) near b], on all randomizers of a coarse grid, n = 2 and 3."""
    tested = 0
    steps = [Fraction(i, 6) for i in range(7)]
    for n, p, q in product((2, 3), steps, steps):  # P[near b] under b and under a
        # the view: how many messages are near b, among (b, a, ..., a) and (a, ..., a)
        others = [math.comb(n - 1, j) * q**j * (1 - q) ** (n - 1 - j) for j in range(n)]
        laws = []
        for chance in (p, q):
            law = [Fraction(0)] * (n + 1)
            for j, weight in enumerate(others):
                law[j] += weight * (1 - chance)
                law[j + 1] += weight * chance
            laws.append(law)
        for epsilon in (0.1, 1.0, 3.0):
            e = Fraction(math.exp(epsilon))
            delta = max(
                sum(max(Fraction(0), a - e * b) for a, b in zip(*pair, strict=True))
                for pair in (laws, laws[::-1])
            )
            x = max((p - delta) / e, 1 - delta - e * (1 - p))
            assert n * q >= x - Fraction(1, 10**12)
            tested += x > 0
    assert tested > 50


# Few messages


def test_needs_are_those_of_a_finer_search():
    """Closed form and grid against optimizers of the inequalities as they are stated."""
    for d, a in ((5, 0.01), (100, 0.2)):
        r2 = np.geomspace(a, 10, 20_001)[1:]
        chance = 1 - 1e-6 - a / r2
        with np.errstate(invalid="ignore"):
            need = np.log(chance) - 1.0 - d / 2 * np.log(r2)
        assert _sum_log_need(d, 1.0, 1e-6, a) == pytest.approx(np.nanmax(need), abs=1e-4)
        best = -math.inf
        for m in range(1, d):
            start = math.sqrt(a * m / (d - 1))
            t = start * np.geomspace(1.0001, 1e6, 2000)
            g = (1 - start / t) ** 2 / (1 + a) - 1e-6
            cap = (t**2 / (1 + t**2)) ** (m / 2) / 2
            with np.errstate(invalid="ignore", divide="ignore"):
                best = max(best, float(np.nanmax(np.log(g / cap))) - 1.0)
        assert _unbiased_log_need(d, 1.0, 1e-6, a) == pytest.approx(best, abs=0.02)
    assert _unbiased_log_need(1, 1.0, 0.0, 0.1) == -math.inf


def test_the_least_number_is_the_first_that_is_not_excluded():
    n, d, error = 10**4, 50, 200.0
    for protocol, need in (("unbiased", _unbiased_log_need), ("summation", _sum_log_need)):
        k = least_messages(n, d, 1, 1e-8, error, protocol=protocol)
        wanted = need(d, 1.0, 1e-8, error / n)
        assert k > 1
        assert _log_subsets(n, k - 1) < wanted <= _log_subsets(n, k)


@given(st.integers(2, 10**8), st.integers(1, 10**6), st.floats(0.01, 5), st.floats(1e-3, 10))
def test_monotone(n, d, epsilon, scale):
    error = scale * d
    for protocol in ("unbiased", "summation"):
        k = least_messages(n, d, epsilon, 1e-9, error, protocol=protocol)
        assert k >= least_messages(n, d, epsilon, 1e-9, 4 * error, protocol=protocol)
        assert k >= least_messages(n, d, 2 * epsilon, 1e-9, error, protocol=protocol)
        assert k >= least_messages(n, d, epsilon, 1e-3, error, protocol=protocol)


@pytest.mark.points(0)
def test_no_single_message_protocol_is_excluded():
    """What exists is possible: the error of the grid allows one message."""
    for n, d in ((10**4, 2), (10**6, 4), (10**6, 8)):
        protocol = SingleMessageGrid(n, Ball(d), 1, 1e-10)
        assert least_messages(n, d, 1, 1e-10, protocol.mse) == 1


# One message


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 10**6])
@pytest.mark.parametrize("d", [1, 3])
def test_the_grid_is_above_the_floor(n, d):
    for domain, shape, unit in ((Ball(d, 2.0), "ball", 4), (Box(d, -1, 2), "box", 9)):
        floor = unit * single_message_floor(n, d, 1, 1e-10, shape=shape)
        protocol = SingleMessageGrid(n, domain, 2, 1e-10)
        assert 0 < floor < protocol.mse
        assert unit * single_message_floor(n, d, 2, 1e-10, shape=shape) <= floor


@pytest.mark.slow
def test_the_floor_by_brute_force():
    """A coarse search over radii and probabilities gives no more, and about as much."""
    n, d, epsilon, delta = 1000, 3, 0.5, 0.01
    best = 0.0
    for r in np.linspace(0.01, 0.9, 90):
        moment = float(_ball_moment(np.array([r]), d)[0])
        least = math.inf
        for p in np.linspace(0, 1, 2001):
            x = max(math.exp(-epsilon) * (p - delta), 1 - delta - math.exp(epsilon) * (1 - p), 0)
            least = min(least, max(r * r * (1 - p), x * moment / (n * r**d)))
        best = max(best, n * least)
    assert single_message_floor(n, d, epsilon, delta) == pytest.approx(best, rel=0.02)


# Malicious users


def test_the_poisoning_floor():
    d = 10**6
    one = poisoning_floor(10**6, d, 1, 1e-10, 50 * d, messages=d)
    assert poisoning_floor(10**6, d, 1, 1e-10, 50 * d, messages=d, malicious=7) == 7 * one
    assert poisoning_floor(10**6, d, 1, 1e-10, 50 * d, messages=d, malicious=0) == 0
    # d / log: the square, in units of d / (2 ln(n d))
    assert 0.1 < one**2 / (d / (2 * math.log(10**12))) < 1
    # no more than what a protocol with even coefficients lets one user do
    assert one < coefficient_influence(d, 2 / math.sqrt(d))
    many = poisoning_floor(10**6, d, 1, 1e-10, 50 * d, messages=d, shufflers=100)
    assert many == pytest.approx(one, rel=0.2)  # their number does not help
    assert poisoning_floor(10**6, d, 1, 0.6, 50 * d, messages=d) == 0  # nothing is proved


def test_the_correlation_of_random_vectors():
    """P[correlation above t] <= (1 - t^2)^((d-1)/2) / 2."""
    for d, t in product((2, 5, 50), (0.1, 0.5, 0.9)):
        exact = betainc((d - 1) / 2, 0.5, 1 - t * t) / 2
        assert exact <= (1 - t * t) ** ((d - 1) / 2) / 2 * (1 + 1e-12)


@given(st.integers(1, 60), st.data())
def test_the_influence_counts_every_shuffler(coefficients, data):
    parts = data.draw(st.integers(1, coefficients))
    squares = sum(size**2 for size in group_sizes(coefficients, parts))
    assert coefficient_influence(coefficients, 1, shufflers=parts) == math.sqrt(squares)


# The published rules


def test_the_published_bound_on_the_error_holds():
    """1/(4 r^2) + gamma/2 is enough for each coordinate."""
    from ikos.baselines.single_message_afnntz24 import _worst_variance

    for r, gamma in product((1, 2, 3, 10), (0.001, 0.1, 0.5, 0.9)):
        bound = (1 / (4 * r * r) + gamma / 2) / (1 - gamma) ** 2
        assert _worst_variance(r, gamma) <= bound * (1 + 1e-12)
