"""Both sides of Lemma C.4 by enumeration, against loops that are as dumb as the definitions."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
from exact.share_graph import SETTINGS, all_slot_permutations, component_counts, sizes_law, views

from analysis import enumeration
from analysis.enumeration import (
    CollisionIdentity,
    case_count,
    check_collision_identity,
    collision_probability,
    enumerated_component_law,
    view_agreement,
)
from ikos.graphs.component_distribution import exact_component_law

SHUFFLERS = ("parallel", "single")

each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
each_shuffler = pytest.mark.parametrize("shuffler", SHUFFLERS)

TINY = [(1, 1, 5), (1, 2, 4), (2, 1, 4), (2, 2, 2), (2, 2, 3), (3, 1, 2), (3, 1, 3), (1, 4, 2)]
SMALL = [*TINY, (2, 2, 4), (2, 2, 6), (2, 3, 2), (2, 3, 3), (3, 2, 2), (3, 2, 3), (4, 1, 4)]


def order(n: int, m: int, shuffler: str) -> int:
    """Return how many permutations there are."""
    return math.factorial(n) ** m if shuffler == "parallel" else math.factorial(m * n)


# The list of permutations


@each_shuffler
@pytest.mark.parametrize(("n", "m"), [(1, 3), (2, 3), (4, 1), (3, 2)])
@pytest.mark.parametrize("together", [1 << 18, 50])
def test_the_group_is_listed_once(n, m, shuffler, together, monkeypatch):
    monkeypatch.setattr(enumeration, "_TOGETHER", together)
    found = [tuple(row) for b in enumeration._permutations(n, m, shuffler) for row in b.tolist()]
    # the tests' slot h n + i is the library's i m + h
    name = [(slot % n) * m + slot // n for slot in range(m * n)]
    expected = {
        tuple(name[row[name.index(slot)]] for slot in range(m * n))
        for row in all_slot_permutations(n, m, shuffler)
    }
    assert len(found) == len(expected) == order(n, m, shuffler)
    assert set(found) == expected


# The law of C


@each_setting
@pytest.mark.parametrize(("n", "m"), [(1, 5), (2, 4), (3, 2), (5, 1)])
def test_the_enumerated_law(n: int, m: int, shuffler: str, clear: bool) -> None:
    found = enumerated_component_law(n, m, shuffler=shuffler, clear_share=clear)
    assert all(isinstance(chance, Fraction) for chance in found)
    assert sum(found) == 1
    law = sizes_law(n, m, shuffler, clear)
    assert list(found) == [law.count_is(c) for c in range(1, n + 1)]
    assert list(found) == component_counts(n, m, shuffler, clear)[n][1:]
    assert found == exact_component_law(n, m, shuffler=shuffler, clear_share=clear)


@pytest.mark.slow
@each_setting
@pytest.mark.parametrize("n", [2, 3, 4, 5, 10])
def test_the_law_of_as_many_messages_as_can_be_enumerated(n, shuffler, clear):
    most = {"parallel": {2: 21, 3: 8, 4: 4, 5: 3, 10: 1}, "single": {2: 5, 3: 3, 4: 2, 5: 2, 10: 1}}
    m = most[shuffler][n]
    found = enumerated_component_law(n, m, shuffler=shuffler, clear_share=clear)
    assert found == exact_component_law(n, m, shuffler=shuffler, clear_share=clear)
    with pytest.raises(ValueError, match=r"^n must be smaller"):
        enumerated_component_law(n, m + 1, shuffler=shuffler)


# The two probabilities


def sharings(x: tuple[int, ...], n: int, m: int, q: int) -> list[tuple[int, ...]]:
    """Return the tuples, slot ``h n + i`` for the h-th share of user i, that share x."""
    return [
        shares
        for shares in product(range(q), repeat=m * n)
        if all(sum(shares[i::n]) % q == x[i] for i in range(n))
    ]


def dumb_collisions(n: int, m: int, q: int, shuffler: str) -> Fraction:
    """Try every permutation, every input and every two sharings of it."""
    equal = cases = 0
    for pi in all_slot_permutations(n, m, shuffler):
        for x in product(range(q), repeat=n):
            for a in sharings(x, n, m, q):
                for b in sharings(x, n, m, q):
                    shuffled = [0] * (m * n)
                    for slot, to in enumerate(pi):
                        shuffled[to] = b[slot]
                    cases += 1
                    equal += a == tuple(shuffled)
    return Fraction(equal, cases)


def dumb_agreement(n: int, m: int, q: int, shuffler: str) -> Fraction:
    """Add up the squares of the probabilities of all views of every input."""
    total = Fraction(0)
    for x in product(range(q), repeat=n):
        law = Counter(
            tuple(a[slot] for slot in pi)
            for pi in all_slot_permutations(n, m, shuffler)
            for a in sharings(x, n, m, q)
        )
        total += Fraction(sum(count**2 for count in law.values()), law.total() ** 2)
    return total / q**n


@each_shuffler
@pytest.mark.parametrize(("n", "m", "q"), TINY)
def test_the_probabilities_by_nested_loops(n: int, m: int, q: int, shuffler: str) -> None:
    expected = dumb_collisions(n, m, q, shuffler)
    assert collision_probability(n, m, q, shuffler=shuffler) == expected
    assert view_agreement(n, m, q, shuffler=shuffler) == dumb_agreement(n, m, q, shuffler)


@each_shuffler
@pytest.mark.parametrize(("n", "m", "q"), SMALL)
def test_views_agree_as_their_laws_say(n: int, m: int, q: int, shuffler: str) -> None:
    """The tests' own laws of the view as a multiset, whose order is uniform."""
    laws = views((q,), n, m, shuffler)
    inputs = product(range(q), repeat=n)
    mean = sum((laws.agreement(x, x) for x in inputs), Fraction(0)) / q**n
    assert view_agreement(n, m, q, shuffler=shuffler) == mean / q ** (m * n - 1)


@each_shuffler
@pytest.mark.parametrize("together", [1, 7, 100])
def test_the_size_of_blocks_does_not_matter(shuffler, together, monkeypatch):
    expected = check_collision_identity(2, 2, 3, shuffler=shuffler)
    monkeypatch.setattr(enumeration, "_TOGETHER", together)
    assert check_collision_identity(2, 2, 3, shuffler=shuffler) == expected


# The identity


def check(n: int, m: int, q: int, shuffler: str) -> CollisionIdentity:
    found = check_collision_identity(n, m, q, shuffler=shuffler)
    mean = sizes_law(n, m, shuffler, clear=True).mean(
        lambda sizes: Fraction(q) ** (len(sizes) - m * n)
    )
    assert found.holds
    assert found.matched == mean
    assert found.permutations == order(n, m, shuffler)
    assert found.tuples == q ** (m * n)
    assert case_count(n, m, q, shuffler=shuffler) == found.permutations * found.tuples
    return found


@each_shuffler
@pytest.mark.parametrize(("n", "m", "q"), SMALL)
def test_the_identity(n: int, m: int, q: int, shuffler: str) -> None:
    check(n, m, q, shuffler)


def test_each_of_the_four_numbers_counts() -> None:
    found = check_collision_identity(2, 2, 2)
    for name in ("matched", "views", "expected", "formula"):
        assert not dataclasses.replace(found, **{name: Fraction(1, 3)}).holds
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.n = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (enumerated_component_law, (11, 1), "n must be at most 10, got 11"),
        (enumerated_component_law, (4, 5), "n must be smaller .* 4000000 permutations, got 4"),
        (enumerated_component_law, (2, 10**100), "m must be at most 64, got an integer of 333 b"),
        (case_count, (3, 3, 5), "n must be smaller .* cases, got 3"),
        (collision_probability, (1, 1, 2**3000), "q must be at most .*, got an integer of 3001 b"),
        (view_agreement, (10, 1, 2), "n must be smaller .* cases, got 10"),
        (check_collision_identity, (1, 30, 2), "m must be smaller .* got 30"),
    ],
)
def test_what_takes_too_long_is_refused(call, arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call(*arguments)
