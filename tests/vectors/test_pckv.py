"""PCKV, by randomized response and by unary encoding: privacy and error by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from statistical import FALSE_ALARM, outcome_p_value
from vectors.key_value_laws import (
    Views,
    check_variances,
    grr_law,
    sparse_vectors,
    ue_law,
    worst_ratio,
)

from ikos import SparseTernary, View
from ikos.accounting import amplified_delta, response_delta
from ikos.baselines import PCKVGRR, PCKVUE
from ikos.testing import DeterministicRandom

# Randomized response


@pytest.mark.parametrize("sampling", ["counted", "published"])
def test_one_event_is_as_private_as_it_says(sampling):
    for epsilon in (0.1, 1.0, 4.0):
        protocol = PCKVGRR(5, SparseTernary(4, 2), epsilon=epsilon, sampling=sampling)
        ratio = worst_ratio(
            [grr_law(x, protocol.gamma) for x in sparse_vectors(4, 2, exactly=True)]
        )
        assert ratio <= Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**15))
        assert math.log(ratio) == pytest.approx(protocol.local_epsilon, rel=1e-9)
        exactly = float(ratio) == pytest.approx(math.exp(epsilon), rel=1e-9)
        assert exactly == (sampling == "counted")


@pytest.mark.parametrize(("d", "s", "n"), [(1, 1, 2), (1, 1, 3), (2, 2, 3), (2, 1, 3), (3, 2, 2)])
@pytest.mark.parametrize("gamma", [Fraction(1, 2), Fraction(1, 10)])
def test_shuffled_events_are_answers_from_sets(d, s, n, gamma):
    views = Views([grr_law(x, gamma) for x in sparse_vectors(d, s, exactly=True)], n)
    for epsilon in (0.2, 0.8, 1.6):
        claimed = response_delta(epsilon, n, Fraction(2 * d, s), gamma)
        assert views.divergence(epsilon) <= claimed * (1 + 1e-9)


def test_events_follow_the_law():
    protocol = PCKVGRR(30_000, SparseTernary(3, 2), epsilon=1)
    for x in ((1, 0, -1), (0, -1, -1)):
        found = protocol.randomize([x] * 30_000, DeterministicRandom(1))[0]
        assert outcome_p_value(found.tolist(), grr_law(x, protocol.gamma)) > FALSE_ALARM
        wrong = grr_law(tuple(-v for v in x), protocol.gamma)
        assert outcome_p_value(found.tolist(), wrong) < FALSE_ALARM


@pytest.mark.parametrize("sampling", ["counted", "published"])
def test_variances_of_events_are_exact(sampling):
    for d, s in ((3, 2), (3, 3), (2, 1)):
        protocol = PCKVGRR(5, SparseTernary(d, s), epsilon=1.5, sampling=sampling)
        for x in sparse_vectors(d, s, exactly=True):
            check_variances(protocol, x, grr_law(x, protocol.gamma), lambda m: np.array([m]))


def test_vectors_with_other_numbers_of_entries_are_refused():
    protocol = PCKVGRR(2, SparseTernary(4, 2), epsilon=1)
    good = np.array([[1, -1, 0, 0], [0, 0, 1, 1]])
    assert protocol.run(good).users == 2
    for wrong, match in ((1, "exactly 2 entries that are not 0"), (3, "at most 2")):
        x = good.copy()
        x[1] = np.arange(4) < wrong
        with pytest.raises(ValueError, match=rf"x\[1\] must have {match}"):
            protocol.run(x)
        with pytest.raises(ValueError, match=rf"x\[0\] must have {match}"):
            protocol.report(x[1])


# Unary encoding


@pytest.mark.parametrize(("d", "s"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_bits_are_as_private_as_they_say(d, s):
    for epsilon in (0.1, 1.0, 4.0):
        protocol = PCKVUE(5, SparseTernary(d, s), epsilon=epsilon)
        ratio = worst_ratio([ue_law(x, s, protocol.q) for x in sparse_vectors(d, s)])
        assert ratio <= Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**15))
        assert float(ratio) == pytest.approx(math.exp(epsilon), rel=1e-9)
        assert math.log(ratio) <= protocol.local_epsilon <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("d", "s", "n"), [(1, 1, 2), (1, 1, 3), (2, 1, 2), (2, 2, 2)])
@pytest.mark.parametrize("q", [Fraction(1, 3), Fraction(1, 9)])
def test_shuffled_bits_are_hidden_as_any_message(d, s, n, q):
    views = Views([ue_law(x, s, q) for x in sparse_vectors(d, s)], n)
    for epsilon in (0.2, 0.6):
        far = Fraction(1, 2) - q
        claimed = amplified_delta(epsilon, n, math.log(1 / q - 1), total_variation=far)
        assert views.divergence(epsilon) <= claimed * (1 + 1e-9)


def test_the_probability_of_shuffled_bits_is_enough():
    protocol = PCKVUE(5000, SparseTernary(8, 2), epsilon=0.5, delta=1e-6)
    local, far = protocol.local_epsilon, Fraction(1, 2) - protocol.q
    assert amplified_delta(0.5, 5000, local * (1 - 1e-9), total_variation=far) <= 1e-6
    assert amplified_delta(0.5, 5000, local * 1.001, total_variation=far) > 1e-6
    capped = PCKVUE(5000, SparseTernary(8, 2), epsilon=0.5, delta=1e-6, local_epsilon=1)
    assert capped.local_epsilon == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [1e-6, 2e-6, 1e-3, 1.0, 40.0])
def test_what_a_message_of_bits_guarantees_is_rounded_up(epsilon):
    """Near q = 1/2 too, where the logarithm of a rounded ratio is mostly rounding."""
    protocol = PCKVUE(5, SparseTernary(4, 2), epsilon=epsilon)
    with gmpy2.context(precision=300):
        exact = gmpy2.log(gmpy2.mpq(1 / protocol.q - 1))
        assert exact <= protocol.local_epsilon <= exact * (1 + 1e-11)


def unpacked(message, events):
    packed = np.frombuffer(message.tobytes(), dtype=np.uint8)
    return tuple(np.unpackbits(packed, count=events).tolist())


@pytest.mark.slow
def test_bits_follow_the_law():
    for x, s in (((1, -1), 2), ((0, -1), 2), ((0, 0), 1)):
        protocol = PCKVUE(20_000, SparseTernary(2, s), epsilon=1)
        found = protocol.randomize([x] * 20_000, DeterministicRandom(1))[0]
        seen = [unpacked(m, 4) for m in found]
        assert outcome_p_value(seen, ue_law(x, s, protocol.q)) > FALSE_ALARM
        wrong = ue_law((1, 0), s, protocol.q)
        assert outcome_p_value(seen, wrong) < FALSE_ALARM


def test_users_of_all_blocks_keep_their_own_bits(monkeypatch):
    monkeypatch.setattr("ikos.baselines.pckv._BITS_PER_PASS", 64)
    protocol = PCKVUE(50, SparseTernary(8, 1), epsilon=100)
    x = np.eye(8, dtype=np.int64)[np.arange(50) % 8]
    messages = protocol.randomize(x, DeterministicRandom(2))[0]
    own = np.array([unpacked(m, 16) for m in messages])
    assert (own.sum(axis=1) <= 1).all()
    assert (own[:, 0::2] <= x).all()
    assert own.sum() > 5
    assert protocol.analyze(View((), messages)).counts[:, 0].sum() == pytest.approx(2 * own.sum())


@pytest.mark.slow
def test_variances_of_bits_are_exact():
    for d, s in ((1, 1), (2, 2), (3, 2)):
        protocol = PCKVUE(5, SparseTernary(d, s), epsilon=1.5)
        for x in sparse_vectors(d, s):
            check_variances(
                protocol,
                x,
                ue_law(x, s, protocol.q),
                lambda bits: np.packbits(np.array(bits, dtype=np.uint8)).view("V1"),
            )


@pytest.mark.parametrize("d", [1, 4, 5, 33])
def test_a_view_keeps_each_users_bits_together(d):
    protocol = PCKVUE(60, SparseTernary(d, 1), epsilon=1, delta=0.1)
    x = np.zeros((60, d))
    x[:, 0] = 1
    messages = protocol.randomize(x, DeterministicRandom(3))
    assert messages.dtype.itemsize == -(-2 * d // 8)
    for order in ("sorted", "permuted"):
        view = protocol.shuffle(messages, DeterministicRandom(4), order=order)
        (column,) = view.columns
        assert sorted(m.tobytes() for m in column) == sorted(m.tobytes() for m in messages[0])
        if d > 1:
            assert [m.tobytes() for m in column] != [m.tobytes() for m in messages[0]]


# Both


@pytest.mark.points(1)
@pytest.mark.parametrize(("kind", "name"), [(PCKVGRR, "gamma"), (PCKVUE, "q")])
def test_dishonest_users_do_not_hide_anybody(kind, name):
    domain, budget = SparseTernary(8, 2), {"epsilon": 0.5, "delta": 1e-6}
    some, few, all_ = (
        getattr(kind(n, domain, **budget, **options), name)
        for n, options in ((5000, {"min_honest": 1000}), (1000, {}), (5000, {}))
    )
    assert some == few > all_
