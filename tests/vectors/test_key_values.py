"""Frequencies and conditional means of key-value data, and real vectors made sparse signs."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from statistical import FALSE_ALARM, outcome_p_value, uniform_p_value

from ikos import SparseTernary
from ikos.baselines import PCKVGRR, PCKVUE, Collision, KeyValueResult, PrivKV, Ternarizer
from ikos.baselines.base import draw_subsets
from ikos.results.confidence import mean_interval
from ikos.statistics import projected_frequencies
from ikos.testing import DeterministicRandom

N, D, S = 3000, 6, 2
PROTOCOLS = {
    "collision": Collision(N, SparseTernary(D, S), epsilon=5),
    "privkv": PrivKV(N, SparseTernary(D, S), epsilon=5),
    "pckv-grr": PCKVGRR(N, SparseTernary(D, S), epsilon=5),
    "pckv-ue": PCKVUE(N, SparseTernary(D, S), epsilon=5),
}


def movies():
    """Everybody has key 0, three in four like it; half of the users have 1, the others 2."""
    x = np.zeros((N, D), dtype=np.int64)
    x[:, 0] = np.where(np.arange(N) % 4, 1, -1)
    x[::2, 1], x[1::2, 2] = -1, 1
    return x


@pytest.fixture(name="protocol", params=PROTOCOLS)
def fixture_protocol(request):
    return PROTOCOLS[request.param]


def test_results_have_counts(protocol):
    result = protocol.run(movies(), DeterministicRandom(1))
    assert isinstance(result, KeyValueResult)
    assert result.counts.shape == (D, 2)
    assert not result.counts.flags.writeable
    assert (result.counts[:, 0] - result.counts[:, 1] == result.estimate).all()
    assert (result.frequencies() == result.counts / N).all()


def test_counts_are_near_the_truth(protocol):
    """Within five root mean squares: Chebyshev's inequality for 20 runs of 12 counts, pooled."""
    x = movies()
    truth = np.stack([(x == 1).sum(axis=0), (x == -1).sum(axis=0)], axis=1)
    rng, runs = DeterministicRandom(2), 60
    squares = []
    for _ in range(runs):
        result = protocol.run(x, rng)
        worst = float(((result.counts - truth) ** 2).mean()) / result.count_error**2
        squares.append(min(worst / 8, 1.0))
    low, _ = mean_interval(math.fsum(squares), runs, 1 - FALSE_ALARM)
    assert 8 * low <= 1
    assert sum(squares) > 0.01 * runs / 8


def test_conditional_means_are_ratios(protocol):
    result = protocol.run(movies(), DeterministicRandom(3))
    found = result.conditional_mean()
    assert found.shape == (D,)
    assert found[0] == pytest.approx(0.5, abs=0.4)
    assert found[1] < -0.6
    assert found[2] > 0.6
    having = result.counts.sum(axis=1)
    wanted = np.clip(result.estimate[:3] / having[:3], -1, 1)
    assert (found[:3] == wanted).all()
    assert (np.isnan(found) == (having < 4 * result.count_error)).all()


def test_frequencies_can_be_projected(protocol):
    result = protocol.run(movies(), DeterministicRandom(4))
    near = projected_frequencies(result.frequencies(), S)
    truth = np.zeros((D, 2))
    truth[0], truth[1, 1], truth[2, 0] = (0.75, 0.25), 0.5, 0.5
    assert near.sum() == pytest.approx(S)
    assert (near >= 0).all()
    # the truth is in the simplex, and a projection onto a convex set comes no further from it
    assert ((near - truth) ** 2).sum() <= ((result.frequencies() - truth) ** 2).sum() * (1 + 1e-12)


# Subsets


@pytest.mark.slow
@pytest.mark.parametrize(("d", "s"), [(9, 2), (12, 3), (4, 2), (3, 3), (5, 1)])
def test_subsets_are_uniform_and_in_a_random_order(d, s):
    found = draw_subsets(20_000, d, s, DeterministicRandom(5))
    assert found.shape == (20_000, s)
    orders = [c for c in product(range(d), repeat=s) if len(set(c)) == s]
    law = dict.fromkeys(orders, 1 / len(orders))
    assert outcome_p_value(map(tuple, found.tolist()), law) > FALSE_ALARM


def test_large_subsets_of_many():
    found = draw_subsets(50, 10**6, 20, DeterministicRandom(6))
    assert all(len(set(row)) == 20 for row in found.tolist())
    assert uniform_p_value(found.reshape(-1) * 10 // 10**6, 10) > FALSE_ALARM


# Ternary vectors


@pytest.mark.parametrize("zeros", [True, False])
def test_ternary_vectors_are_unbiased_with_the_exact_law(zeros):
    """Each coordinate's law, drawn many times; two of four coordinates are drawn each time."""
    ternarizer = Ternarizer(4, 2, bound=2.0, zeros=zeros)
    x = np.array([0.5, -1.5, 2.0, 0.0])
    signs = ternarizer(np.tile(x, (20_000, 1)), DeterministicRandom(7))
    assert signs.dtype == np.int8
    assert ternarizer.scale == 4
    for j, value in enumerate(x):
        mean = value / ternarizer.scale
        sent = abs(mean) if zeros else 0.5
        law = {1: (sent + mean) / 2, -1: (sent - mean) / 2, 0: 1 - sent}
        assert outcome_p_value(signs[:, j].tolist(), law) > FALSE_ALARM
    entries = np.count_nonzero(signs, axis=1)
    assert entries.max() == 2
    assert (entries.min() == 2) == (not zeros)
    ternarizer.domain.values(signs)


@pytest.mark.parametrize("zeros", [True, False])
def test_the_error_of_ternary_vectors_is_exact(zeros):
    """By enumeration of the subset and the signs of one vector."""
    ternarizer = Ternarizer(3, 2, bound=1.5, zeros=zeros)
    x = np.array([0.3, -1.5, 0.9])
    mean, square = np.zeros(3), 0.0
    subsets = [(0, 1), (0, 2), (1, 2)]
    for subset in subsets:
        for signs in product((-1, 0, 1), repeat=2):
            chance, made = 1 / len(subsets), np.zeros(3)
            for j, sign in zip(subset, signs, strict=True):
                part = abs(x[j]) / 1.5
                if zeros:
                    chance *= 1 - part if sign == 0 else part * (np.sign(x[j]) == sign)
                else:
                    chance *= 0 if sign == 0 else (1 + sign * x[j] / 1.5) / 2
                made[j] = sign * ternarizer.scale
            mean += chance * made
            square += chance * ((made - x) ** 2).sum()
    np.testing.assert_allclose(mean, x, atol=1e-12)
    assert ternarizer.mean_square(x[np.newaxis]) == pytest.approx(square)
    assert ternarizer.mean_square(np.tile(x, (5, 1))) == pytest.approx(5 * square)


def test_values_beyond_the_bound_are_refused_not_clipped():
    ternarizer = Ternarizer(2, 1, bound=0.5)
    for wrong in ([[0.6, 0.0]], [[math.nan, 0.0]], [[0.1]], [0.1, 0.2]):
        with pytest.raises(ValueError, match="x"):
            ternarizer(wrong)
    with pytest.raises(TypeError, match="rng"):
        ternarizer([[0.1, 0.2]], np.random.default_rng(0))
