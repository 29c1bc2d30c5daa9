"""The Collision mechanism: hash functions, the sampler's law, privacy and error by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from baselines.suite import vectors
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from statistical import FALSE_ALARM, outcome_p_value, uniform_p_value
from vectors.key_value_laws import (
    Views,
    collision_law,
    events,
    moments,
    sparse_vectors,
    worst_ratio,
)

from ikos import SparseTernary
from ikos.accounting import response_delta
from ikos.accounting.wlqdly21 import collision_variances
from ikos.baselines import Collision
from ikos.baselines.collision_wlqdly21 import hash_values, respond_in_sets, support_counts
from ikos.testing import DeterministicRandom


def odds_of(t, s, gamma):
    """Return e^eps of Definition 3 for a probability of uniform values."""
    return 1 + Fraction(t, s) * (1 - gamma) / gamma


# The hash functions


def reference(seed, event, t):
    block = seed.to_bytes(8, "little") + (event // 2).to_bytes(8, "little")
    cipher = Cipher(algorithms.AES(b"ikos.collision.1"), modes.ECB()).encryptor()
    half = cipher.update(block)[8 * (event % 2) :][:8]
    return (int.from_bytes(half, "little") >> 16) * t >> 48


@given(
    st.lists(st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**40 - 1)), min_size=1),
    st.integers(2, 1 << 16),
)
def test_hash_values_are_as_specified(pairs, t):
    seeds, some = map(list, zip(*pairs, strict=True))
    wanted = [reference(seed, event, t) for seed, event in pairs]
    assert hash_values(seeds, some, t).tolist() == wanted


VECTORS = (
    # seed, event, values for t = 2, 10, 79, 65536
    (0, 0, (1, 5, 44, 37104)),
    (0, 1, (0, 3, 28, 23603)),
    (1, 0, (1, 6, 53, 44647)),
    (2**48 - 1, 2047, (1, 8, 63, 53084)),
    (123456789012345, 777, (1, 8, 66, 54910)),
)


@pytest.mark.parametrize(("seed", "event", "values"), VECTORS)
def test_hash_values_never_change(seed, event, values):
    """Clients and analyzers of different releases must agree."""
    found = tuple(int(hash_values(seed, event, t)) for t in (2, 10, 79, 65536))
    assert found == values


def test_hash_values_are_uniform_and_independent():
    """Of one event under many seeds, of many under one, and of both signs of a coordinate."""
    some = np.arange(60_000)
    for seeds, chosen in ((some, 5), (2**40 + 7, some), (some, 2 * (some % 97) + 1)):
        assert uniform_p_value(hash_values(seeds, chosen, 11), 11) > FALSE_ALARM
    for first, second in (
        ((some, 6), (some, 7)),
        ((some, 6), (some + 1, 6)),
        ((3, some), (4, some)),
    ):
        pairs = 7 * hash_values(*first, 7) + hash_values(*second, 7)
        assert uniform_p_value(pairs, 49) > FALSE_ALARM


@pytest.mark.parametrize(
    ("seeds", "chosen", "t", "error"),
    [
        (-1, 0, 3, ValueError),
        (2**48, 0, 3, ValueError),
        (0, -1, 3, ValueError),
        (0, 0, 1, ValueError),
        (0, 0, 65537, ValueError),
        (0.5, 0, 3, TypeError),
        (0, "a", 3, TypeError),
    ],
)
def test_what_cannot_be_hashed_is_refused(seeds, chosen, t, error):
    with pytest.raises(error, match=r"seeds|events|t must"):
        hash_values(seeds, chosen, t)


@pytest.mark.parametrize("t", [2, 3, 10, 4097, 65536])
@pytest.mark.parametrize(("users", "d"), [(1, 1), (600, 3), (37, 300), (3, 70_000)])
def test_support_counts_are_what_hash_values_say(t, users, d):
    rng = np.random.default_rng(t)
    seeds = rng.integers(0, 2**48, users, dtype=np.uint64)
    z = hash_values(seeds, rng.integers(0, 2 * d, users), t)  # each hit by an event at least
    z[::3] = rng.integers(0, t, z[::3].size)
    z[0] = t - 1
    hits = hash_values(seeds[:, np.newaxis], np.arange(2 * d), t) == z[:, np.newaxis]
    assert (support_counts(seeds, z, d, t) == hits.sum(axis=0).reshape(d, 2)).all()


# The sampler's law


@pytest.mark.parametrize(("s", "t"), [(1, 2), (1, 3), (2, 4), (3, 7), (5, 6)])
@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(1, 100), Fraction(1)])
def test_filled_sets_are_definition_3(s, t, gamma):
    """Averaged over all completions, in rationals, for every number of values that are hit."""
    for c in range(s + 1):
        hits = range(c)
        choices = list(combinations(range(c, t), s - c))
        law = dict.fromkeys(range(t), gamma / t)
        for filled in choices:
            for z in (*hits, *filled):
                law[z] += (1 - gamma) / s / len(choices)
        assert law == collision_law(hits, s, t, odds_of(t, s, gamma))


LISTS = ([], [0], [4, 4], [1, 3, 1], [5, 0, 2])
SIZE, VALUES, GAMMA = 3, 6, Fraction(1, 4)


def drawn(sampler, hits, users, seed):
    owners = np.repeat(np.arange(users), len(hits))
    values = np.tile(np.array(hits, dtype=np.int64), users)
    return sampler(
        owners, values, users, size=SIZE, t=VALUES, gamma=GAMMA, rng=DeterministicRandom(seed)
    )


@pytest.mark.parametrize("hits", LISTS, ids=str)
def test_answers_follow_definition_3(hits):
    law = collision_law(hits, SIZE, VALUES, odds_of(VALUES, SIZE, GAMMA))
    found = drawn(respond_in_sets, hits, 30_000, 1)
    assert outcome_p_value(found.tolist(), law) > FALSE_ALARM


def test_users_with_different_sets_are_not_mixed_up():
    """Every user's answer follows that user's law, in one call."""
    users = 30_000
    owners = np.concatenate([np.full(len(LISTS[u % 5]), u) for u in range(users)])
    values = np.concatenate([np.array(LISTS[u % 5], dtype=np.int64) for u in range(users)])
    found = respond_in_sets(
        owners.astype(np.int64),
        values,
        users,
        size=SIZE,
        t=VALUES,
        gamma=GAMMA,
        rng=DeterministicRandom(2),
    )
    for kind, hits in enumerate(LISTS):
        law = collision_law(hits, SIZE, VALUES, odds_of(VALUES, SIZE, GAMMA))
        assert outcome_p_value(found[kind::5].tolist(), law) > FALSE_ALARM


# Privacy


@pytest.mark.slow
@pytest.mark.parametrize(("d", "s", "t"), [(2, 1, 2), (2, 2, 3), (2, 2, 5), (3, 2, 3)])
def test_one_message_is_as_private_as_it_says(d, s, t):
    """Over all hash functions and vectors: ratios up to e^eps, and no further."""
    gamma = Fraction(1, 3)
    odds = odds_of(t, s, gamma)
    ratios = []
    for table in product(range(t), repeat=2 * d):
        laws = [
            collision_law([table[e] for e in events(x)], s, t, odds) for x in sparse_vectors(d, s)
        ]
        ratios.append(worst_ratio(laws))
    assert max(ratios) == odds


@pytest.mark.parametrize(("epsilon", "t"), [(0.01, None), (1.0, None), (7.0, None), (1.0, 500)])
def test_the_parameters_of_a_local_guarantee(epsilon, t):
    protocol = Collision(10, SparseTernary(50, 4), epsilon=epsilon, t=t)
    assert t in (None, protocol.t)
    odds = odds_of(protocol.t, 4, protocol.gamma)
    assert odds <= Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**15))
    assert float(odds) == pytest.approx(math.exp(epsilon), rel=1e-9)
    assert epsilon * (1 - 1e-9) <= protocol.local_epsilon <= epsilon * (1 + 1e-9)
    assert protocol.guarantee.delta == 0
    assert protocol.min_honest == 1


def seen_laws(d, s, t, gamma, seeds):
    """Return the laws of real messages (seed, z), for a few seeds of the real hash functions."""
    laws = []
    for x in sparse_vectors(d, s):
        law = {}
        for seed in seeds:
            hits = [int(hash_values(seed, event, t)) for event in events(x)]
            for z, chance in collision_law(hits, s, t, odds_of(t, s, gamma)).items():
                law[seed, z] = chance / len(seeds)
        laws.append(law)
    return laws


SETTINGS = [(2, 1, 2, 2), (2, 1, 3, 3), (2, 2, 4, 2), (1, 1, 5, 3), (2, 2, 5, 3)]


@pytest.mark.parametrize(("d", "s", "t", "n"), SETTINGS)
@pytest.mark.parametrize("gamma", [Fraction(1, 2), Fraction(1, 8)])
def test_shuffled_messages_are_as_private_as_sets_of_answers(d, s, t, n, gamma):
    """All views of all users, seeds seen: below the divergence for k = t / s."""
    views = Views(seen_laws(d, s, t, gamma, range(3)), n)
    known = None if n == 2 else [(0, 1), (1, 2), (2, 2), (0, 0)]
    for epsilon in (0.2, 0.7, 1.5):
        seen = views.divergence(epsilon, known)
        claimed = response_delta(epsilon, n, Fraction(t, s), gamma)
        assert seen <= claimed * (1 + 1e-9)
    assert views.divergence(0.2, known) > 0.1 * response_delta(0.2, n, Fraction(t, s), gamma)


@pytest.mark.points(0)
@pytest.mark.parametrize(("min_honest", "t"), [(None, None), (400, None), (400, 9)])
def test_the_parameters_of_a_shuffled_guarantee(min_honest, t):
    domain, budget = SparseTernary(64, 4), {"epsilon": 1, "delta": 1e-6}
    protocol = Collision(1000, domain, **budget, min_honest=min_honest, t=t)
    honest = min_honest or 1000
    assert t in (None, protocol.t)
    k = Fraction(protocol.t, 4)
    assert protocol.min_honest == honest
    assert response_delta(1, honest, k, protocol.gamma) <= 1e-6
    assert response_delta(1, honest, k, protocol.gamma * Fraction(999, 1000)) > 1e-6
    assert (protocol.guarantee.epsilon, protocol.guarantee.delta) == (1.0, 1e-6)


@pytest.mark.slow
def test_a_local_guarantee_can_be_asked_for_beside_it():
    free = Collision(1000, SparseTernary(64, 4), epsilon=1, delta=1e-6)
    both = Collision(1000, SparseTernary(64, 4), epsilon=1, delta=1e-6, local_epsilon=2)
    assert free.local_epsilon > 2.5
    assert both.local_epsilon == pytest.approx(2, rel=1e-9)
    assert both.mse > free.mse
    assert "(2.001, 0)-private by itself" in str(both.guarantee.conditions)
    few = Collision(5, SparseTernary(8, 2), epsilon=1, delta=1e-6)
    assert few.local_epsilon == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(("delta", "least"), [(0, 5), (1e-6, 8)])
def test_too_few_values_are_refused(delta, least):
    with pytest.raises(ValueError, match=f"^t must be at least {least}, got {least - 1}"):
        Collision(1000, SparseTernary(64, 4), epsilon=1, delta=delta, t=least - 1)


# Error


@pytest.mark.points(1)
@pytest.mark.parametrize(("d", "s", "t"), [(1, 1, 3), (2, 2, 3), (2, 1, 4), (2, 2, 5)])
def test_variances_are_exact(d, s, t):
    """Over all hash functions, in the mean over them, for every vector."""
    gamma = Fraction(2, 5)
    said = collision_variances(t, s, gamma)
    gain = float((1 - gamma) * Fraction(t - s, s * t))
    tables = list(product(range(t), repeat=2 * d))
    for x in sparse_vectors(d, s):
        law = {}
        for table in tables:
            hits = [table[e] for e in events(x)]
            for z, chance in collision_law(hits, s, t, odds_of(t, s, gamma)).items():
                law[table, z] = chance / len(tables)

        def count(message):
            table, z = message
            return (np.array([value == z for value in table]) - 1 / t).reshape(d, 2) / gain

        truth = np.array([[value == 1, value == -1] for value in x], dtype=float)
        mean, variance = moments(law, count)
        np.testing.assert_allclose(mean, truth, atol=1e-10)
        np.testing.assert_allclose(variance, np.where(truth, said.present, said.absent), rtol=1e-9)
        mean, variance = moments(law, lambda m: count(m) @ [1, -1])
        wanted = np.where(np.array(x) == 0, said.zero, said.nonzero)
        np.testing.assert_allclose(mean, x, atol=1e-10)
        np.testing.assert_allclose(variance, wanted, rtol=1e-9)


# One user


@pytest.mark.slow
def test_one_users_messages_stay_within_the_influence():
    protocol = Collision(3, SparseTernary(4, 2), epsilon=2, t=4)
    base = protocol.randomize(np.zeros((3, 4)), DeterministicRandom(6))
    estimates = []
    for seed in range(2000):
        for z in range(4):
            base[0, 0] = seed << 16 | z
            estimates.append(protocol.analyze(protocol.shuffle(base)).estimate)
    from scipy.spatial.distance import pdist

    reach = pdist(np.unique(np.round(estimates, 9), axis=0)).max()
    assert 0.9 * protocol.influence < reach <= protocol.influence * (1 + 1e-9)


@pytest.mark.slow
def test_messages_are_seeds_and_values():
    protocol = Collision(20_000, SparseTernary(4, 2), epsilon=2)
    x = vectors(protocol.domain, 20_000)
    messages = protocol.randomize(x, DeterministicRandom(8))[0]
    assert messages.dtype == np.uint64
    assert uniform_p_value(messages >> np.uint64(58), 64) > FALSE_ALARM  # the seeds' upper bits
    assert uniform_p_value(messages >> np.uint64(16) & np.uint64(63), 64) > FALSE_ALARM
    z = (messages & np.uint64(0xFFFF)).astype(np.int64)
    assert z.max() < protocol.t
    # what an event of the user's own hits has probability e^eps / Omega
    first = x.argmax(axis=1)
    has = x[np.arange(x.shape[0]), first] == 1
    hit = hash_values(messages >> np.uint64(16), 2 * first, protocol.t) == z
    p = float(protocol.gamma / protocol.t + (1 - protocol.gamma) / 2)
    assert outcome_p_value(hit[has].tolist(), {True: p, False: 1 - p}) > FALSE_ALARM
