"""Both sides of Lemma C.4 by enumeration, against loops that are as dumb as the definitions."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from exact.share_graph import (
    SETTINGS,
    all_graphs,
    all_slot_permutations,
    component_counts,
    sizes_law,
    views,
)

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
def test_the_group_is_listed_once(
    n: int, m: int, shuffler: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@each_setting
@pytest.mark.parametrize(("n", "m"), [(2, 3), (3, 2), (4, 2)])
def test_the_law_is_that_of_all_graphs_drawn_one_by_one(
    n: int, m: int, shuffler: str, clear: bool
) -> None:
    graphs: Counter[int] = Counter()
    for names, count in all_graphs(n, m, shuffler, clear).items():
        graphs[len(set(names))] += count
    found = enumerated_component_law(n, m, shuffler=shuffler, clear_share=clear)
    assert list(found) == [Fraction(graphs[c], graphs.total()) for c in range(1, n + 1)]


@pytest.mark.slow
@each_setting
@pytest.mark.parametrize("n", [2, 3, 4, 5, 10])
def test_the_law_of_as_many_messages_as_can_be_enumerated(
    n: int, shuffler: str, clear: bool
) -> None:
    most = {
        "parallel": {2: 21, 3: 8, 4: 4, 5: 3, 10: 1},
        "single": {2: 5, 3: 3, 4: 2, 5: 2, 10: 1},
    }
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
def test_the_size_of_blocks_does_not_matter(
    shuffler: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m", "q", "shuffler"),
    [
        (2, 3, 7, "parallel"),
        (2, 4, 4, "parallel"),
        (3, 2, 7, "parallel"),
        (3, 3, 4, "parallel"),
        (4, 2, 4, "parallel"),
        (4, 3, 2, "parallel"),
        (5, 2, 2, "parallel"),
        (7, 1, 3, "parallel"),
        (2, 2, 16, "single"),
        (2, 3, 7, "single"),
        (2, 4, 2, "single"),
        (3, 2, 6, "single"),
        (4, 2, 2, "single"),
    ],
)
def test_the_identity_at_larger_sizes(n: int, m: int, q: int, shuffler: str) -> None:
    check(n, m, q, shuffler)


@pytest.mark.parametrize("shuffler", SHUFFLERS)
def test_one_user_collides_whatever_the_shuffler(shuffler: str) -> None:
    for m, q in product((1, 2, 3), (2, 5, 6)):
        assert check(1, m, q, shuffler).matched == Fraction(1, q ** (m - 1))


def not_a_group(n: int, m: int, shuffler: str, rows: Callable[..., Any]) -> Any:
    """Let two users swap a message beforehand, one for the first and one for the second."""
    columns = list(range(m * n))
    columns[0], columns[m + 1] = columns[m + 1], columns[0]
    for block in rows(n, m, shuffler):
        yield block[:, columns]


MUTANTS = {
    "bipartite graph": ("count_components", {"clear_share": False}),
    "law of the other shuffler": ("exact_component_law", {"shuffler": "single"}),
    "law without a clear share": ("exact_component_law", {"clear_share": False}),
}


@pytest.mark.parametrize(("name", "options"), MUTANTS.values(), ids=MUTANTS)
def test_another_graph_is_caught(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    true = getattr(enumeration, name)
    monkeypatch.setattr(enumeration, name, lambda *args, **kw: true(*args, **{**kw, **options}))
    assert not check_collision_identity(3, 2, 2).holds


@pytest.mark.parametrize("power", [-1, 1])
def test_another_exponent_is_caught(power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    true = enumeration._mean_power
    monkeypatch.setattr(
        enumeration, "_mean_power", lambda law, q, slots: true(law, q, slots + power)
    )
    found = check_collision_identity(2, 2, 2)
    assert found.matched == found.views != found.expected == found.formula
    assert not found.holds


def test_another_sharing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views of inputs of which the first share is not drawn up to q - 1."""
    true = enumeration._digits
    monkeypatch.setattr(
        enumeration,
        "_digits",
        lambda numbers, q, places: np.minimum(true(numbers, q, places), q - 2),
    )
    assert not check_collision_identity(2, 2, 3).holds


def test_permutations_that_are_no_group_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true = enumeration._permutations
    monkeypatch.setattr(
        enumeration, "_permutations", lambda n, m, shuffler: not_a_group(n, m, shuffler, true)
    )
    found = check_collision_identity(2, 2, 3)
    assert found.matched != found.views
    assert not found.holds


def test_each_of_the_four_numbers_counts() -> None:
    found = check_collision_identity(2, 2, 2)
    for name in ("matched", "views", "expected", "formula"):
        assert not dataclasses.replace(found, **{name: Fraction(1, 3)}).holds
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.n = 3  # type: ignore[misc]


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2), "n must be at least 1, got 0"),
        ((2, 0), "m must be at least 1, got 0"),
        ((11, 1), "n must be at most 10, got 11"),
        ((4, 5), "n must be smaller .* 4000000 permutations, got 4"),
        ((2, 10**100), "m must be at most 64, got an integer of 333 bits"),
    ],
)
def test_laws_that_take_too_long_are_refused(arguments: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        enumerated_component_law(*arguments)


@pytest.mark.parametrize(
    ("n", "m", "q", "shuffler", "message"),
    [
        (2, 2, 1, "parallel", "q must be at least 2, got 1"),
        (3, 3, 5, "parallel", "n must be smaller .* cases, got 3"),
        (1, 1, 2**3000, "single", "q must be at most .*, got an integer of 3001 bits"),
        (10, 1, 2, "parallel", "n must be smaller .* cases, got 10"),
        (1, 30, 2, "parallel", "m must be smaller .* got 30"),
        (1, 11, 2, "single", "m must be smaller .* got 11"),
        (2, 2, 2, "serial", "shuffler must be one of 'parallel', 'single', got 'serial'"),
    ],
)
def test_identities_that_take_too_long_are_refused(
    n: int, m: int, q: int, shuffler: str, message: str
) -> None:
    for call in (collision_probability, view_agreement, check_collision_identity, case_count):
        with pytest.raises(ValueError, match=f"^{message}$"):
            call(n, m, q, shuffler=shuffler)


def test_what_is_no_integer_is_refused() -> None:
    for arguments in ((2.0, 2, 2), (2, "2", 2), (2, 2, True)):
        with pytest.raises(TypeError, match="must be an integer, got"):
            collision_probability(*arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="clear_share must be True or False, got int 1"):
        enumerated_component_law(2, 2, clear_share=1)  # type: ignore[arg-type]


def test_numpy_integers_are_integers() -> None:
    sizes = [np.uint8(2), np.int32(2), np.uint8(6)]
    found = check_collision_identity(*sizes)
    assert found == check_collision_identity(2, 2, 6)
    assert {type(value) for value in (found.n, found.m, found.q, found.tuples)} == {int}
