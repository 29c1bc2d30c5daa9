"""PrivKV, and PCKV by randomized response and by unary encoding: laws, privacy and error."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import product

import gmpy2
import numpy as np
import pytest
from statistical import FALSE_ALARM, outcome_p_value
from vectors.key_value_laws import (
    Views,
    check_variances,
    grr_law,
    privkv_law,
    sparse_vectors,
    ue_law,
    worst_ratio,
)

from ikos import SparseTernary, View
from ikos.accounting import amplified_delta, response_delta
from ikos.baselines import PCKVGRR, PCKVUE, PrivKV
from ikos.testing import DeterministicRandom

LAWS = {"privkv": lambda x, _, gamma: privkv_law(x, gamma),
        "grr": lambda x, _, gamma: grr_law(x, gamma), "ue": ue_law}  # fmt: skip
MAKERS = {
    "privkv": PrivKV, "grr": PCKVGRR, "ue": PCKVUE,
    "grr-published": partial(PCKVGRR, sampling="published"),
}  # fmt: skip
each_kind = pytest.mark.parametrize("kind", MAKERS)


def made(kind, n, d, s, **budget):
    return MAKERS[kind](n, SparseTernary(d, s), **budget)


def vectors(kind, d, s):
    return sparse_vectors(d, s, exactly=kind.startswith("grr"))


def law(kind, x, protocol):
    """Return the law of a message of a protocol of this kind."""
    chance = protocol.q if kind == "ue" else protocol.gamma
    return LAWS[kind.partition("-")[0]](x, protocol.domain.sparsity, chance)


def unpacked(message, events):
    packed = np.frombuffer(message.tobytes(), dtype=np.uint8)
    return tuple(np.unpackbits(packed, count=events).tolist())


@each_kind
def test_one_message_is_as_private_as_it_says(kind):
    sizes = ((1, 1), (2, 1), (2, 2), (3, 2)) if kind == "ue" else ((4, 2),)
    for (d, s), epsilon in product(sizes, (0.1, 1.0, 4.0)):
        protocol = made(kind, 5, d, s, epsilon=epsilon)
        ratio = worst_ratio([law(kind, x, protocol) for x in vectors(kind, d, s)])
        assert ratio <= Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**15))
        assert math.log(ratio) == pytest.approx(protocol.local_epsilon, rel=1e-9)
        exactly = float(ratio) == pytest.approx(math.exp(epsilon), rel=1e-9)
        assert exactly == (kind != "grr-published")


@pytest.mark.parametrize("chance", [Fraction(1, 3), Fraction(1, 9)])
@pytest.mark.parametrize(
    ("kind", "d", "s", "n"),
    [("privkv", 1, 1, 2), ("privkv", 1, 1, 3), ("privkv", 2, 2, 2), ("privkv", 3, 2, 2),
     ("privkv", 2, 2, 3), ("grr", 1, 1, 2), ("grr", 1, 1, 3), ("grr", 2, 2, 3), ("grr", 2, 1, 3),
     ("grr", 3, 2, 2), ("ue", 1, 1, 2), ("ue", 1, 1, 3), ("ue", 2, 1, 2), ("ue", 2, 2, 2)],
)  # fmt: skip
def test_shuffled_messages_are_as_private_as_claimed(kind, d, s, n, chance):
    """As answers from 3 values whatever the dimension, from sets, or as any message."""
    views = Views([LAWS[kind](x, s, chance) for x in vectors(kind, d, s)], n)
    known = [(0, 1), (1, 2), (3, 4), (2, 2)] if (kind, d, n) == ("privkv", 2, 3) else None
    for epsilon in (0.2, 0.8, 1.6):
        if kind == "ue":
            far = Fraction(1, 2) - chance
            claimed = amplified_delta(epsilon, n, math.log(1 / chance - 1), total_variation=far)
        else:
            k = 3 if kind == "privkv" else Fraction(2 * d, s)
            claimed = response_delta(epsilon, n, k, chance)
        assert views.divergence(epsilon, known) <= claimed * (1 + 1e-9)


@pytest.mark.points(3)
@pytest.mark.parametrize(
    ("kind", "s", "x"),
    [("grr", 2, (1, 0, -1)), ("grr", 2, (0, -1, -1)), ("privkv", 2, (1, 0, -1)),
     ("privkv", 2, (0, -1, 0)), ("privkv", 2, (0, 0, 0)), ("ue", 2, (1, -1)), ("ue", 2, (0, -1)),
     ("ue", 1, (0, 0))],
)  # fmt: skip
def test_messages_follow_the_law(kind, s, x):
    protocol = made(kind, 20_000, len(x), s, epsilon=1)
    found = protocol.randomize([x] * 20_000, DeterministicRandom(1))[0]
    seen = [unpacked(m, 2 * len(x)) for m in found] if kind == "ue" else found.tolist()
    assert outcome_p_value(seen, law(kind, x, protocol)) > FALSE_ALARM
    wrong = law(kind, tuple(-v for v in x), protocol)
    assert not any(x) or outcome_p_value(seen, wrong) < FALSE_ALARM


@each_kind
def test_variances_are_exact(kind):
    for d, s in ((3, 2), (2, 1), (2, 2)):
        protocol = made(kind, 5, d, s, epsilon=1.5)
        for x in vectors(kind, d, s):
            check_variances(
                protocol, x, law(kind, x, protocol),
                lambda m: np.packbits(np.array(m, dtype=np.uint8)).view("V1")
                if kind == "ue" else np.array([m]),
            )  # fmt: skip


@each_kind
def test_sampling_is_what_remains_without_noise(kind):
    error = made(kind, 300, 6, 2, epsilon=60).error(10)
    assert error.sampling == (10 * 5 * 2 if kind == "privkv" else 10 * 2)
    # unary encoding sends a bit that is set only half the time
    assert error.mean_square / error.sampling == pytest.approx(3 if kind == "ue" else 1, rel=1e-6)


# Randomized response


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


def test_the_probability_of_shuffled_bits_is_enough():
    protocol = PCKVUE(5000, SparseTernary(8, 2), epsilon=0.5, delta=1e-6)
    local, far = protocol.local_epsilon, Fraction(1, 2) - protocol.q
    assert amplified_delta(0.5, 5000, local * (1 - 1e-9), total_variation=far) <= 1e-6
    assert amplified_delta(0.5, 5000, local * 1.001, total_variation=far) > 1e-6
    for kind in ("ue", "privkv"):
        capped = made(kind, 5000, 8, 2, epsilon=0.5, delta=1e-6, local_epsilon=1)
        assert capped.local_epsilon == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [1e-6, 2e-6, 1e-3, 1.0, 40.0])
def test_what_a_message_of_bits_guarantees_is_rounded_up(epsilon):
    """Near q = 1/2 too, where the logarithm of a rounded ratio is mostly rounding."""
    protocol = PCKVUE(5, SparseTernary(4, 2), epsilon=epsilon)
    with gmpy2.context(precision=300):
        exact = gmpy2.log(gmpy2.mpq(1 / protocol.q - 1))
        assert exact <= protocol.local_epsilon <= exact * (1 + 1e-11)


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


@pytest.mark.points(1)
@pytest.mark.parametrize(("kind", "name"), [(PCKVGRR, "gamma"), (PCKVUE, "q"), (PrivKV, "gamma")])
def test_dishonest_users_do_not_hide_anybody(kind, name):
    domain, budget = SparseTernary(8, 2), {"epsilon": 0.5, "delta": 1e-6}
    some, few, all_ = (
        getattr(kind(n, domain, **budget, **options), name)
        for n, options in ((5000, {"min_honest": 1000}), (1000, {}), (5000, {}))
    )
    assert some == few > all_
