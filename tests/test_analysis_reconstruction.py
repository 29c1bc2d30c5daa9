"""Reconstruction from few messages: the set, the distances, and Propositions 2.3 and 2.4."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from baselines.suite import bias_allowed, clipped_mean
from hypothesis import given
from hypothesis import strategies as st
from statistical import FALSE_ALARM

from analysis.reconstruction_afnntz24 import (
    MAX_SUBSETS,
    SplitSum,
    distances,
    dummy_candidates,
    measure_reconstruction,
    random_unit,
    subset_sums,
)
from ikos.results.confidence import clopper_pearson, mean_interval
from ikos.testing import DeterministicRandom

RATE = Fraction(1, 20)


@given(st.integers(1, 9), st.data())
def test_all_sums_and_each_once(count, data):
    k = data.draw(st.integers(1, count))
    messages = np.array(
        data.draw(st.lists(st.tuples(*[st.integers(-9, 9)] * 2), min_size=count, max_size=count))
    )
    wanted = sorted(
        tuple(messages[list(chosen)].sum(axis=0).tolist())
        for chosen in combinations(range(count), k)
    )
    found = np.concatenate(list(subset_sums(messages, k)))
    assert sorted(map(tuple, found.tolist())) == wanted
    modular = np.concatenate(list(subset_sums(messages, k, modulus=7)))
    assert sorted(map(tuple, modular.tolist())) == sorted(
        tuple((v + 3) % 7 - 3 for v in row) for row in wanted
    )


def test_large_sets_come_in_blocks_and_too_large_ones_are_refused():
    messages = np.zeros((60, 1))
    blocks = [len(block) for block in subset_sums(messages, 4)]
    assert sum(blocks) == math.comb(60, 4)
    assert len(blocks) > 1
    assert math.comb(60, 6) > MAX_SUBSETS
    with pytest.raises(ValueError, match="sets of k = 6"):
        next(subset_sums(messages, 6))
    with pytest.raises(ValueError, match="sets of k = 10"):
        measure_reconstruction(SplitSum(10, 1, 10, 10, RATE), 1)
    with pytest.raises(ValueError, match="samples"):
        dummy_candidates(np.zeros((20, 1)), 5, None, np.zeros((1000, 15, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("modulus", [None, 5000])
def test_the_protocol_adds_up_to_what_it_says(modulus):
    protocol = SplitSum(5, 3, 4, 200, RATE, modulus=modulus, spread=150)
    rng, runs = DeterministicRandom(1), 400
    x = random_unit(5, 3, rng)
    errors = np.array(
        [protocol.analyze(protocol.shuffled(x, rng)) - x.sum(axis=0) for _ in range(runs)]
    )
    squares = (errors**2).sum(axis=1)
    low, high = mean_interval(
        float(np.minimum(squares / (16 * protocol.mse), 1).sum()), runs, 1 - Fraction(FALSE_ALARM)
    )
    assert 16 * low < 1
    assert 16 * high > 0.5
    each = protocol.mse / 3
    for column in errors.T:  # a false alarm of 1e-9 for each, whatever the law
        assert abs(clipped_mean(column, each)) <= bias_allowed(each, runs) < 0.5 * math.sqrt(each)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0, 300])
def test_proposition_2_3(spread):
    """The mean square of the target's distance is at most Err / n."""
    protocol = SplitSum(5, 4, 2, 100, RATE, spread=spread)
    found = measure_reconstruction(protocol, 300, DeterministicRandom(3))
    squares = np.array(found.own) ** 2
    low, _ = mean_interval(
        float(np.minimum(squares / (16 * found.mean_square), 1).sum()),
        300,
        1 - Fraction(FALSE_ALARM),
    )
    assert 16 * low <= 1
    assert found.subsets == math.comb(10, 2)


@pytest.mark.slow
def test_few_messages_give_the_vector_away_and_many_do_not():
    """By exact intervals for how often the target's vector is the nearer one."""
    confidence = 1 - Fraction(FALSE_ALARM)
    few = measure_reconstruction(
        SplitSum(5, 8, 2, 500, RATE, spread=300), 60, DeterministicRandom(4)
    )
    wins = sum(a < b for a, b in zip(few.own, few.other, strict=True))
    assert clopper_pearson(wins, 60, confidence).low > 0.6
    assert np.median(few.own) < 0.25 < 0.7 < np.median(few.other)
    many = measure_reconstruction(
        SplitSum(5, 1, 5, 10, Fraction(1, 8), modulus=256), 60, DeterministicRandom(5)
    )
    # every step of the group is the sum of some set: all vectors are equally near
    assert max(many.other) <= 0.5 / 10 + 1e-9
    wins = sum(a < b for a, b in zip(many.own, many.other, strict=True))
    assert clopper_pearson(wins, 60, confidence).low < 0.5


def test_distances_are_those_of_the_nearest():
    draw = np.random.default_rng(3)
    messages, targets = draw.integers(-50, 50, (9, 2)), draw.normal(size=(3, 2))
    for modulus in (None, 64):
        sums = np.concatenate(list(subset_sums(messages, 3, modulus=modulus))) / 10
        nearest = np.linalg.norm(sums[None] - targets[:, None], axis=2).min(axis=1)
        assert np.allclose(distances(messages, 3, targets, scale=10, modulus=modulus), nearest)


# Algorithm 2


def distance(points, target):
    return float(np.linalg.norm(points - target, axis=1).min())


def test_a_linear_analyzer_needs_no_dummies():
    """With dummies that cancel exactly, the points are the sums themselves."""
    protocol = SplitSum(4, 2, 2, 100, RATE, spread=80)
    rng = DeterministicRandom(6)
    x = random_unit(4, 2, rng)
    messages = protocol.shuffled(x, rng) / 100
    sample = protocol.randomize(np.vstack([x[1:], x[:1]]), rng)[:3].reshape(-1, 2) / 100
    found, _ = dummy_candidates(messages, 2, lambda m: m.sum(axis=1), [sample, -sample])
    sums = np.concatenate(list(subset_sums(messages, 2)))
    assert np.allclose(found, sums)
    assert distance(found, x[0]) == pytest.approx(distances(messages, 2, x[:1])[0])


def tagged(protocol, x, rng):
    """Return messages with a random sign beside each: the analyzer's noise is their product."""
    messages = protocol.randomize(x, rng).reshape(-1, protocol.d) / protocol.precision
    signs = 2.0 * rng.uniform(2, len(messages)) - 1
    return np.column_stack([messages, signs])


def crooked(messages):
    """Return an unbiased estimate that is no sum: with noise that depends on all messages."""
    total = messages[:, :, :-1].sum(axis=1)
    return total + 0.3 * np.prod(messages[:, :, -1], axis=1)[:, None]


@pytest.mark.slow
def test_proposition_2_4():
    """Any unbiased analyzer: the target is within Err / n in mean square, up to the dummies."""
    protocol, trials, samples = SplitSum(4, 3, 2, 200, RATE, spread=150), 20, 60
    rng = DeterministicRandom(7)
    err = protocol.mse + 3 * 0.3**2
    squares, others = [], []
    for _ in range(trials):
        x = random_unit(5, 3, rng)
        messages = tagged(protocol, x[:4], rng)
        dummies = np.stack(
            [tagged(protocol, random_unit(4, 3, rng), rng)[:6] for _ in range(samples)]
        )
        found, errors = dummy_candidates(messages, 2, crooked, dummies)
        assert found.shape == (math.comb(8, 2), 3)
        allowed = (math.sqrt(err / 4) + 2 * errors.max()) ** 2
        squares.append(distance(found, x[0]) ** 2 / allowed)
        others.append(distance(found, x[4]))
        # three dummies' vectors on the sphere: a mean square of 3 and the noise, per sample
        assert errors.max() < 1.5 * math.sqrt((3 + err) / samples)
    low, _ = mean_interval(
        float(np.minimum(np.array(squares) / 16, 1).sum()), trials, 1 - Fraction(FALSE_ALARM)
    )
    assert 16 * low <= 1
    assert np.median(np.sqrt(squares)) < 1
    assert all(standard > 0 for standard in others)
