"""Dishonest users of protocols that send coefficients: what they reach, and no more."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statistical import FALSE_ALARM

from analysis.afnntz24_bounds import coefficient_influence
from analysis.afnntz24_poisoning import CoefficientSum, flooded, poison
from ikos import Ball, Box
from ikos.baselines import KashinCorrelatedNoise, SingleMessageGrid
from ikos.testing import DeterministicRandom


def test_sums_are_unbiased_and_exact_on_the_grid():
    protocol = CoefficientSum(coefficients=3, bound=2.0, steps=4, shufflers=2)
    a = np.array([[-2, -1, 0], [1, 2, 2]])
    labels = protocol.randomize(a, DeterministicRandom(0))
    assert (labels // 5 == [[0, 1, 2]] * 2).all()
    assert (protocol.totals(labels.ravel(), users=2) == a.sum(axis=0)).all()
    between = np.full((4000, 3), 0.3)
    sums = protocol.totals(protocol.randomize(between, DeterministicRandom(1)).ravel(), users=4000)
    # one of two neighbours each, a step of 1, so that Hoeffding's inequality holds: a false alarm
    # of 1e-9 in all three
    allowed = math.sqrt(4000 / 2 * math.log(2 * 3 / FALSE_ALARM))
    assert np.abs(sums - 1200).max() < allowed < 0.06 * 4000


@given(st.integers(1, 12), st.data())
def test_forged_messages_pass_and_one_more_does_not(coefficients, data):
    shufflers = data.draw(st.integers(1, coefficients))
    limit = data.draw(st.integers(1, 3))
    protocol = CoefficientSum(coefficients, 1.0, 3, shufflers, limit)
    forged = protocol.forged()
    assert protocol.allowed(forged)
    assert forged.size == limit * coefficients
    for label in {int(value) for value in forged}:
        assert not protocol.allowed(np.append(forged, label))
    honest = protocol.randomize(np.zeros((1, coefficients)), DeterministicRandom(0))[0]
    assert protocol.allowed(honest)
    for label in (-1, 4 * coefficients):  # about no coefficient
        assert not protocol.allowed(np.array([label]))
    assert sum(len(group) for group in protocol.groups) == coefficients


@pytest.mark.slow
def test_nothing_that_passes_moves_the_sum_further():
    """All messages of one user, by enumeration, against what the calculator says."""
    for shufflers, limit in product((1, 2, 3), (1, 2)):
        protocol = CoefficientSum(3, 0.5, 1, shufflers, limit)
        if 3 * limit > 4 and shufflers == 1:
            continue
        reached = []
        for labels in product(range(6), repeat=3 * limit):
            sent = np.array(labels)
            if protocol.allowed(sent):
                reached.append(protocol.totals(sent, users=1))
        points = np.unique(np.array(reached), axis=0)
        most = np.linalg.norm(points[:, None] - points[None], axis=2).max()
        # the greatest distance of any two is reached, and not exceeded
        assert most == pytest.approx(protocol.influence, rel=1e-12)
        base = protocol.totals(np.zeros(0, dtype=np.int64), users=1)
        far = np.linalg.norm(points - base, axis=1).max()
        added = coefficient_influence(3, 1.0, shufflers=shufflers, limit=limit)
        assert far == pytest.approx(added)
        assert (most > 1.01 * far) == (shufflers < 3)
        forged = protocol.totals(protocol.forged(), users=1)
        assert np.linalg.norm(forged - base) == pytest.approx(far)


def test_a_vector_on_the_other_side_is_further_away():
    """Twice the square of what forged messages add: the dishonest user's own vector is missing."""
    protocol = CoefficientSum(4, 1.0, 2)
    x = [[-1, 1, 1, 1], *[[0] * 4] * 3]
    found = poison(protocol, x, 1, rng=DeterministicRandom(0))
    assert (found.honest, found.attacked) == (0, 76)
    assert found.limit == pytest.approx(2 * coefficient_influence(4, 2.0) ** 2)
    assert found.attacked > coefficient_influence(4, 2.0) ** 2


@given(st.integers(1, 6), st.data())
def test_whole_steps_never_move_further(coefficients, data):
    """Without rounding the squared error is that of the attack alone."""
    shufflers = data.draw(st.integers(1, coefficients))
    users = data.draw(st.integers(1, 4))
    liars = data.draw(st.integers(0, users))
    protocol = CoefficientSum(coefficients, 1.0, 2, shufflers)
    row = st.lists(st.integers(-1, 1), min_size=coefficients, max_size=coefficients)
    x = data.draw(st.lists(row, min_size=users, max_size=users))
    found = poison(protocol, x, liars, rng=DeterministicRandom(0))
    assert found.honest == 0
    assert found.attacked <= found.limit * (1 + 1e-12)


@pytest.mark.parametrize("shufflers", [1, 4, 16, 64])
def test_the_law_of_the_shufflers(shufflers):
    """d/s times the squared range of a coefficient, times d, over many users and several liars."""
    d, users = 64, 200
    flat = CoefficientSum(d, 1 / math.sqrt(d), 10, shufflers)
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (users, d)) / math.sqrt(d)
    for liars in (1, 3):
        found = poison(flat, x, liars, rng=DeterministicRandom(1))
        added = liars**2 * 4 * d / shufflers
        assert found.limit == pytest.approx(added * (1 if shufflers == d else 2))
        assert found.attacked > 0.2 * added
        # rounding is left
        spare = math.sqrt(found.honest) * 3
        assert math.sqrt(found.attacked) <= math.sqrt(found.limit) + spare
    with_noise = poison(flat, x, 0, noise=0.5, rng=DeterministicRandom(2))
    assert with_noise.honest == with_noise.attacked > 0


def test_a_shuffler_for_each_coefficient_leaves_a_constant():
    """Lemma 4.2: one user moves flat coefficients by at most 2, whatever d is."""
    for d in (4, 64, 1024):
        flat = CoefficientSum(d, 1 / math.sqrt(d), 4, shufflers=d)
        assert flat.influence == pytest.approx(2)
        single = CoefficientSum(d, 1 / math.sqrt(d), 4)
        assert single.influence == pytest.approx(2 * math.sqrt(2 * d))
        unit = CoefficientSum(d, 1.0, 4, shufflers=d)  # vectors of norm 1 as they are
        assert unit.influence == pytest.approx(2 * math.sqrt(d))


def test_two_liars_do_four_times_as_much_as_one():
    """Lemma 4.2's bound is linear in the number of users; the square of their distance is not."""
    d = 256
    flat = CoefficientSum(d, 1 / math.sqrt(d), 4, shufflers=d)
    x = np.full((100, d), -1 / math.sqrt(d))
    one, ten = (poison(flat, x, k, rng=DeterministicRandom(1)).attacked for k in (1, 10))
    assert one == pytest.approx(4)
    assert ten == pytest.approx(400)


def test_a_frame_does_not_make_it_longer():
    d = 8
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(2 * d, d)))[0]  # tight: U^T U = 1
    protocol = CoefficientSum(2 * d, 1.0, 4, shufflers=4, inverse=lambda a: basis.T @ a)
    x = np.random.default_rng(2).normal(size=(50, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    found = poison(protocol, x @ basis.T, 1, rng=DeterministicRandom(3))
    assert math.sqrt(found.attacked) <= math.sqrt(found.limit) + 3 * math.sqrt(found.honest)
    assert found.limit == pytest.approx(2 * coefficient_influence(16, 2.0, shufflers=4) ** 2)


def test_the_grid_of_one_message():
    """One message reaches from corner to corner: sqrt(d) times the diameter of a ball."""
    for domain in (Box(4, -1, 1), Ball(4)):
        protocol = SingleMessageGrid(500, domain, 1, 1e-4)
        messages = protocol.randomize(np.zeros((500, 4)), DeterministicRandom(5))
        low, high = (
            protocol.analyze(protocol.shuffle(flooded(messages, 0, label))).estimate
            for label in (0, protocol.points - 1)
        )
        moved = float(np.linalg.norm(high - low))
        assert moved == pytest.approx(protocol.influence)
        assert moved >= 2 * math.sqrt(4)


@pytest.mark.points(0)
def test_kashin_by_one_shuffler():
    """The protocol of many messages: all that a user may send, about one coefficient."""
    protocol = KashinCorrelatedNoise(300, Ball(4), 4, 1e-2, flooding="certified")
    x = np.zeros((300, 4))
    messages = protocol.randomize(x, DeterministicRandom(6))
    label = 2 * protocol.precision  # the largest value of the first coefficient
    forged = flooded(messages, 0, label)
    honest, attacked = (
        protocol.analyze(protocol.shuffle(sent)).estimate for sent in (messages, forged)
    )
    moved = float(np.linalg.norm(attacked - honest))
    step = 2 * protocol.frame.largest * math.sqrt(4 / protocol.coefficients)
    assert moved > 0.5 * len(messages) * step
    assert moved > 20 * protocol.domain.radius
