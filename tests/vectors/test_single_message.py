"""One message for a whole vector: its law, its error, and where it is refused."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from accounting.shuffled_laws import hockey_stick, shuffled
from hypothesis import given, settings
from hypothesis import strategies as st
from statistical import FALSE_ALARM, outcome_p_value

from ikos import Ball, Box, View
from ikos.accounting import response_gamma
from ikos.baselines import SingleMessageGrid
from ikos.baselines.single_message_afnntz24 import Grids, _smallest, _worst_total, _worst_variance
from ikos.testing import DeterministicRandom

BOX = Box(2, -1, 1)


def tiny(gamma=None, levels=1, n=3, epsilon=3, delta=0.2, domain=BOX):
    protocol = SingleMessageGrid(n, domain, epsilon, delta, levels=levels)
    if gamma is not None:
        object.__setattr__(protocol, "gamma", gamma)
    return protocol


def answer_law(protocol, x):
    """Return the exact law of one user's message, in rationals; x in twelfths is exact."""
    r, d = protocol.levels, protocol.domain.dimension
    coordinates = []
    for value in x:
        m = (Fraction(value) + 1) / 2 * r
        low = math.floor(m)
        coordinates.append({low: 1 - (m - low), low + 1: m - low} if m != low else {low: 1})
    truth = Counter()
    for steps in product(*(law.items() for law in coordinates)):
        point = sum(step * (r + 1) ** j for j, (step, _) in enumerate(steps))
        truth[point] += math.prod((chance for _, chance in steps), start=Fraction(1))
    g, k = protocol.gamma, (r + 1) ** d
    return {point: (1 - g) * truth[point] + g / k for point in range(k)}


VECTORS = [(-1, -1), (1, 1), (1, -1), (Fraction(1, 2), 0), (0, 0)]


def worst_divergence(protocol, epsilon):
    """Return the largest divergence over neighbours, the others' vectors being any of some."""
    worst = 0.0
    for others in combinations_with_replacement(VECTORS[:3], protocol.n - 1):
        laws = [shuffled([answer_law(protocol, row) for row in (v, *others)]) for v in VECTORS]
        for law, other in product(laws, repeat=2):
            worst = max(worst, hockey_stick(law, other, Fraction(math.exp(epsilon))))
    return worst


@pytest.mark.parametrize(("epsilon", "delta"), [(1.5, 0.2), (2, 0.05)])
def test_the_view_is_as_private_as_it_says(epsilon, delta):
    protocol = tiny(epsilon=epsilon, delta=delta)
    assert 0 < worst_divergence(protocol, epsilon) <= delta


def test_half_the_random_answers_are_not_enough():
    protocol = tiny(epsilon=2, delta=0.05)
    less = tiny(gamma=protocol.gamma / 2, epsilon=2, delta=0.05)
    assert worst_divergence(less, 2) > 0.05


def test_the_exact_local_law():
    """No message tells two vectors apart by more than the local guarantee of the response."""
    protocol = tiny(levels=2)
    laws = [answer_law(protocol, v) for v in VECTORS]
    g, k = protocol.gamma, protocol.points
    assert k == 9
    for law in laws:
        assert sum(law.values()) == 1
        assert min(law.values()) >= g / k
    ratio = max(a[p] / b[p] for a, b in product(laws, repeat=2) for p in a)
    assert ratio == 1 + k * (1 - g) / g


@pytest.mark.parametrize("levels", [1, 2, 4])
def test_messages_have_their_law(levels):
    protocol = tiny(levels=levels, n=4000, epsilon=1, delta=1e-6)
    x = (-0.25, 0.875)
    messages = protocol.randomize(np.tile(x, (4000, 1)), DeterministicRandom(levels))
    law = answer_law(protocol, x)
    assert outcome_p_value(messages[0].tolist(), law) > FALSE_ALARM
    wrong = tiny(gamma=protocol.gamma * 3, levels=levels, n=4000, epsilon=1, delta=1e-6)
    if levels == 4:
        assert outcome_p_value(messages[0].tolist(), answer_law(wrong, x)) < FALSE_ALARM


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_unbiased_and_the_exact_error_by_enumeration(levels):
    """All messages of one user, in rationals."""
    protocol = SingleMessageGrid(2, BOX, 4, 0.5, levels=levels)
    law, most = protocol.error(2).coordinate, 0.0
    for x in VECTORS:
        mean, square = [Fraction(0)] * 2, Fraction(0)
        for point, chance in answer_law(protocol, x).items():
            totals = protocol._totals(View((np.array([point]),), None), 1)
            found = [Fraction(float(t)) for t in totals]
            mean = [m + chance * f for m, f in zip(mean, found, strict=True)]
            square += chance * sum((f - v) ** 2 for f, v in zip(found, x, strict=True))
            most = max(most, *(abs(float(f - v)) for f, v in zip(found, x, strict=True)))
        assert [float(m) for m in mean] == pytest.approx([float(v) for v in x], abs=1e-12)
        twice = protocol.expected_square(np.array([x, x], dtype=float))
        assert twice == pytest.approx(2 * float(square), rel=1e-12)
        assert twice <= protocol.mse * (1 + 1e-12)
    # what the intervals rest on: no answer is further off, and from the corners one is as far
    assert law.largest * (1 - 1e-9) <= most <= law.largest


@pytest.mark.slow
@given(st.integers(1, 30), st.floats(1e-6, 0.999))
@settings(max_examples=200, deadline=None)
def test_the_worst_variance_is_reached_and_not_exceeded(levels, gamma):
    m = np.linspace(0, levels, 40 * levels + 1)
    f = m - np.floor(m)
    g, r = gamma, levels
    each = (1 - g) * (f * (1 - f) + g * (m - r / 2) ** 2) + g * r * (r + 2) / 12
    each /= (1 - g) ** 2 * r**2
    worst = _worst_variance(levels, gamma)
    assert each.max() <= worst * (1 + 1e-12)
    start = r / 2 - 1
    best = min(1.0, (1 + 2 * g * start) / (2 * (1 - g)))
    at = (1 - g) * (best * (1 - best) + g * (start + best) ** 2) + g * r * (r + 2) / 12
    assert at / ((1 - g) ** 2 * r**2) == pytest.approx(worst)
    for d in (1, 3):
        assert _worst_total(r, g, d, ball=True) <= _worst_total(r, g, d, ball=False) * (1 + 1e-12)


@pytest.mark.slow
def test_the_bound_for_a_ball_holds_for_its_vectors():
    protocol = SingleMessageGrid(3000, Ball(3, 2.0), 1, 1e-6)
    draw = np.random.default_rng(1)
    for scale in (1.0, 0.9, 0.5, 0.0):
        for _ in range(20):
            x = draw.normal(size=(1, 3))
            x *= 2 * scale / np.linalg.norm(x)
            assert protocol.expected_square(np.tile(x, (3000, 1))) <= protocol.mse * (1 + 1e-9)
    for levels in (4, 8):
        protocol = SingleMessageGrid(10**6, Ball(3, 2.0), 1, 1e-6, levels=levels)
        box = SingleMessageGrid(10**6, Box(3, -2, 2), 1, 1e-6, levels=levels)
        assert protocol.mse < 0.99 * box.mse


def test_vectors_of_any_box_are_mapped_exactly():
    """Without noise, whole steps come back as they went."""
    for domain in (Box(2, -1, 1), Box(2, 3, 11), Box(2, -1e6, 7e6)):
        protocol = tiny(gamma=Fraction(1, 1 << 53), levels=4, n=5, domain=domain)
        grid = np.linspace(domain.lower, domain.upper, 5)
        x = np.stack([grid, grid[::-1]], axis=1)
        estimate = protocol.run(x, DeterministicRandom(0)).estimate
        assert estimate == pytest.approx(x.sum(axis=0), rel=1e-12, abs=1e-9)


@pytest.mark.slow
def test_the_search_finds_the_best_levels():
    for n, d, epsilon, ball in ((10**4, 2, 1, True), (10**5, 3, 1, False)):
        eps, delta = Fraction(epsilon), Fraction(1, 10**8)
        grids = Grids(n, n, eps, delta, d, ball)
        errors = [grids.error(r) for r in range(1, 9)]
        found = grids.best()
        assert found == 1 + int(np.argmin(errors))
    for least in range(1, 60):
        assert _smallest(lambda r, least=least: abs(r - least), 50) == min(least, 50)


def test_the_probability_counts_every_point():
    protocol = SingleMessageGrid(10**4, Box(3), 1, 1e-8, levels=2)
    assert protocol.gamma == response_gamma(1, 1e-8, 10**4, 27)
    assert protocol.gamma > response_gamma(1, 1e-8, 10**4, 2**3)  # what r^d would ask for


@pytest.mark.slow
def test_the_largest_dimension_is_named():
    with pytest.raises(ValueError, match=r"at most (\d+) coordinates") as caught:
        SingleMessageGrid(10**5, Box(1024), 1, 1e-10)
    largest = int(str(caught.value).split("at most ")[1].split()[0])
    protocol = SingleMessageGrid(10**5, Box(largest), 1, 1e-10)
    assert protocol.mse < (10**5 / 2) ** 2 * largest
    with pytest.raises(ValueError, match=f"at most {largest} coordinates"):
        SingleMessageGrid(10**5, Box(largest + 1), 1, 1e-10)
    with pytest.raises(ValueError, match="n must be larger"):
        SingleMessageGrid(2, Box(3), 0.01, 1e-10)


def test_fewer_honest_users_need_more_noise():
    alone = SingleMessageGrid(10**4, BOX, 1, 1e-8, levels=2)
    fewer = SingleMessageGrid(10**4, BOX, 1, 1e-8, levels=2, min_honest=5000)
    assert fewer.gamma > alone.gamma
    assert fewer.gamma == response_gamma(1, 1e-8, 5000, 9)


def test_a_norm_within_the_tolerance_stays_on_the_grid():
    """The box is that of the ball with its tolerance: a step is far less than the excess."""
    n, r = 3, 2**34
    protocol = SingleMessageGrid(n, Ball(1), 60, 1e-3, levels=r)
    x = np.full((n, 1), 1 + 9e-10)
    for ends, seed in ((x, 0), (-x, 1)):
        messages = protocol.randomize(ends, DeterministicRandom(seed))
        assert 0 <= int(messages.min()) <= int(messages.max()) < protocol.points
        estimate = protocol.analyze(protocol.shuffle(messages)).estimate
        assert estimate == pytest.approx(ends.sum(axis=0), abs=1e-8)


@pytest.mark.slow
def test_sums_beyond_64_bits_are_exact():
    """Nine million users with the largest point of 2^40: their sum is above 2^63."""
    n, r = 9_000_000, 2**40 - 1
    protocol = SingleMessageGrid(n, Box(1), 60, 1e-6, levels=r)
    assert n * r > 2**63
    view = View((np.broadcast_to(np.int64(r), n),), None)
    most = protocol._totals(view, n)[0]
    g = float(protocol.gamma)
    assert most == pytest.approx(n * (1 - g / 2) / (1 - g), rel=1e-12)
