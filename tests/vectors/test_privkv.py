"""PrivKV: privacy and error by enumeration, and what is drawn."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from statistical import FALSE_ALARM, outcome_p_value
from vectors.key_value_laws import Views, check_variances, privkv_law, sparse_vectors, worst_ratio

from ikos import SparseTernary
from ikos.accounting import response_delta
from ikos.baselines import PrivKV
from ikos.testing import DeterministicRandom


def test_one_message_is_as_private_as_it_says():
    for epsilon in (0.1, 1.0, 4.0):
        protocol = PrivKV(5, SparseTernary(3, 2), epsilon=epsilon)
        laws = [privkv_law(x, protocol.gamma) for x in sparse_vectors(3, 2)]
        ratio = worst_ratio(laws)
        assert ratio <= Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**15))
        assert float(ratio) == pytest.approx(math.exp(epsilon), rel=1e-9)
        assert math.log(ratio) <= protocol.local_epsilon <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("d", "n"), [(1, 2), (1, 3), (2, 2), (3, 2), (2, 3)])
@pytest.mark.parametrize("gamma", [Fraction(1, 2), Fraction(1, 10)])
def test_shuffled_messages_are_private_whatever_the_dimension(d, n, gamma):
    views = Views([privkv_law(x, gamma) for x in sparse_vectors(d, min(d, 2))], n)
    known = None if n == 2 or d == 1 else [(0, 1), (1, 2), (3, 4), (2, 2)]
    for epsilon in (0.2, 0.8, 1.6):
        assert views.divergence(epsilon, known) <= response_delta(epsilon, n, 3, gamma) * (1 + 1e-9)


@pytest.mark.slow
def test_answers_follow_the_law():
    protocol = PrivKV(30_000, SparseTernary(3, 2), epsilon=1)
    for x in ((0, 0, 0), (1, 0, -1), (0, -1, 0)):
        found = protocol.randomize([x] * 30_000, DeterministicRandom(1))[0]
        assert outcome_p_value(found.tolist(), privkv_law(x, protocol.gamma)) > FALSE_ALARM
        wrong = privkv_law(tuple(-v for v in x), protocol.gamma)
        assert not any(x) or outcome_p_value(found.tolist(), wrong) < FALSE_ALARM


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_variances_are_exact(epsilon):
    protocol = PrivKV(5, SparseTernary(3, 2), epsilon=epsilon)
    for x in sparse_vectors(3, 2):
        check_variances(protocol, x, privkv_law(x, protocol.gamma), lambda m: np.array([m]))


def test_sampling_is_what_remains_without_noise():
    protocol = PrivKV(10, SparseTernary(6, 2), epsilon=60)
    error = protocol.error(10)
    assert error.sampling == 10 * 5 * 2
    assert error.mean_square == pytest.approx(error.sampling, rel=1e-6)


def test_a_local_guarantee_can_be_asked_for_beside_a_shuffled_one():
    capped = PrivKV(10_000, SparseTernary(16, 2), epsilon=0.5, delta=1e-6, local_epsilon=1)
    assert capped.local_epsilon == pytest.approx(1)
