"""Rotations, permutations and signs: errors become the same for all, and nothing else changes."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from statistical import FALSE_ALARM, outcome_p_value

from analysis.afnntz24_symmetry import Rotation, SignedPermutation, symmetrized
from ikos import Ball
from ikos.results.confidence import mean_interval
from ikos.testing import DeterministicRandom

CUBE = [
    SignedPermutation(order, signs)
    for order in permutations(range(3))
    for signs in product((-1, 1), repeat=3)
]


def uneven(x, rng):
    """Shrink and turn, differently along each axis, with two messages and bounded noise."""
    matrix = np.array([[0.2, 0.3, 0.0], [0.0, 0.9, 0.0], [-0.5, 0.0, 1.0]])
    sent = x @ matrix.T
    noise = (rng.uniform(3, x.size).astype(float).reshape(x.shape) - 1) * [0.3, 0.0, 0.1]
    return np.stack([sent + noise, np.ones_like(x) * 0.05], axis=1)


def mean_error(randomizer_of, v, runs, rng, most):
    """Return an interval for E |R(v) - v|^2, which is at most ``most``."""
    total = 0.0
    for _ in range(runs):
        sent = randomizer_of(rng)(v[np.newaxis], rng)
        total += float(((sent.sum(axis=1) - v) ** 2).sum()) / most
    low, high = mean_interval(total, runs, 1 - Fraction(FALSE_ALARM))
    return low * most, high * most


@pytest.mark.slow
def test_after_a_rotation_all_vectors_have_the_same_error():
    """Exactly |A - I|_F^2 / 3 and the constant parts; without the rotation they differ."""
    a = np.array([[0.2, 0.3, 0.0], [0.0, 0.9, 0.0], [-0.5, 0.0, 1.0]]) - np.eye(3)
    noise = 2 / 3 * (0.3**2 + 0.1**2) + 3 * 0.05**2
    expected = (a**2).sum() / 3 + noise
    rng, runs, most = DeterministicRandom(1), 4000, 3.0
    plain = []
    for v in np.eye(3):
        low, high = mean_error(
            lambda rng: symmetrized(uneven, Rotation.random(3, rng)), v, runs, rng, most
        )
        assert low < expected < high
        assert high - low < 0.35
        plain.append(mean_error(lambda _: uneven, v, 2000, rng, most))
    assert plain[0][0] > plain[1][1]  # without it, the first is certainly worse


def test_a_wrapped_randomizer_is_the_same_one_seen_from_elsewhere():
    turn = Rotation.random(3, DeterministicRandom(2))
    x = np.random.default_rng(0).normal(size=(5, 3))
    messages = symmetrized(uneven, turn)(x, DeterministicRandom(3))
    assert messages.shape == (5, 2, 3)
    # the view, mapped by the public rotation, is the view of the protocol on the mapped vectors
    again = uneven(turn.apply(x), DeterministicRandom(3))
    assert np.allclose(turn.apply(messages), again)


def test_privacy_is_unchanged_for_every_map():
    """The law of the messages for each map: largest ratios for neighbours, by enumeration."""
    g = Fraction(1, 4)
    vertices = list(product((-1, 1), repeat=3))

    def law(v, symmetry):
        """Randomized response on the vertices, wrapped; exact."""
        mapped = tuple(symmetry.apply(np.array(v)).tolist())
        found = Counter()
        for vertex in vertices:
            chance = (1 - g) * (vertex == mapped) + g / 8
            found[tuple(symmetry.undo(np.array(vertex)).tolist())] += chance
        return found

    for symmetry in CUBE[::5]:
        laws = [law(v, symmetry) for v in vertices]
        assert all(sum(one.values()) == 1 for one in laws)
        worst = max(a[m] / b[m] for a, b in product(laws, repeat=2) for m in a)
        assert worst == 1 + 8 * (1 - g) / g


@pytest.mark.parametrize("d", [1, 2, 5])
def test_random_rotations_are_uniform(d):
    """Signs of the first row are equally likely, and its squares are those of the sphere."""
    rng, count = DeterministicRandom(d), 600
    rows = np.array([Rotation.random(d, rng).matrix[0] for _ in range(count)])
    assert np.allclose((rows**2).sum(axis=1), 1)
    outcomes = [bool(row[0] > 0) for row in rows]
    assert outcome_p_value(outcomes, {True: 0.5, False: 0.5}) > FALSE_ALARM
    low, high = mean_interval(float((rows[:, -1] ** 2).sum()), count, 1 - Fraction(FALSE_ALARM))
    assert low < 1 / d <= high
    turned = Rotation.random(d, rng)
    x = np.random.default_rng(1).normal(size=(4, d))
    assert np.allclose(turned.undo(turned.apply(x)), x)
    assert np.allclose(np.linalg.norm(turned.apply(x), axis=1), np.linalg.norm(x, axis=1))


@pytest.mark.slow
def test_random_signed_permutations_are_uniform():
    rng = DeterministicRandom(9)
    seen = []
    for _ in range(3000):
        one = SignedPermutation.random(2, rng)
        seen.append((tuple(one.order.tolist()), tuple(one.signs.tolist())))
    law = {(o, s): 1 / 8 for o in permutations(range(2)) for s in product((-1, 1), repeat=2)}
    assert outcome_p_value(seen, law) > FALSE_ALARM


def test_every_signed_permutation_is_undone():
    x = np.arange(6.0).reshape(2, 3) + 1
    for symmetry in CUBE:
        assert (symmetry.undo(symmetry.apply(x)) == x).all()
        assert sorted(np.abs(symmetry.apply(x)[0])) == [1, 2, 3]


def test_undoing_signs_after_the_order_is_another_map():
    """The printed inverse, s x(order^-1), gives coordinates the signs of others."""
    x = np.array([1.0, 2.0, 3.0])
    broken = 0
    for symmetry in CUBE:
        y = symmetry.apply(x)
        back = np.empty(3)
        back[symmetry.order] = y
        broken += bool((symmetry.signs * back != x).any())
    assert broken == 24


def coordinate_errors(shrink, rows):
    """Return E error_j^2 over all signed permutations, for R(v) a linear map without noise."""
    squares = np.zeros(rows.shape[1])
    for symmetry in CUBE:
        sent = symmetrized(lambda x, _: (x @ shrink.T)[:, np.newaxis], symmetry)(rows, None)
        squares += (sent.sum(axis=(0, 1)) - rows.sum(axis=0)) ** 2
    return squares / len(CUBE)


def test_coordinates_have_at_most_the_even_part_of_the_error():
    """For all vertices of the cube and a biased map; with the same vector for all, exactly."""
    shrink = np.array([[0.1, 0.4, 0.0], [0.0, 0.9, 0.2], [0.0, 0.0, 1.0]])
    vertices = np.array(list(product((-1, 1), repeat=3))) / math.sqrt(3)
    worst = max(
        (((rows @ shrink.T - rows).sum(axis=0)) ** 2).sum()
        for rows in (np.stack([v, w]) for v in vertices for w in vertices)
    )
    uneven_pairs = 0
    for v, w in product(vertices, repeat=2):
        found = coordinate_errors(shrink, np.stack([v, w]))
        assert (found <= worst / 3 * (1 + 1e-12)).all()
        if (v == w).all():
            assert np.allclose(found, found[0])
        uneven_pairs += not np.allclose(found, found[0])
    assert uneven_pairs > 0  # Lemma A.2 says that there is none


def test_unsigned_vectors_are_mapped_back():
    symmetry = SignedPermutation([1, 2, 0], [1, -1, 1])
    assert symmetry.undo(np.array([1, 2, 3], np.uint8)).tolist() == [3, 1, -2]


def test_rotated_vectors_stay_in_the_ball():
    """What is accepted makes nothing longer by more than the tolerance of a ball."""
    for d in (1, 3, 64):
        accepted = np.eye(d) * (1 + 1e-12)
        Ball(d).values(Rotation(accepted).apply(np.eye(d)))
        for excess in (4e-7, 1e-9, -1e-9):
            with pytest.raises(ValueError, match="orthonormal rows"):
                Rotation(np.eye(d) * (1 + excess))
    one = np.ones((64, 64)) / 64  # small in every entry, and along one vector not at all
    with pytest.raises(ValueError, match="orthonormal rows"):
        Rotation(np.eye(64) + 1e-9 * one)
