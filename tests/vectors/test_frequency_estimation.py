"""LWY22: the law of a user's messages, the divergence of views by enumeration, and the error."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from typing import Any

import gmpy2
import numpy as np
import pytest
from exact.enumeration import Ideal, Law, exact_law
from gmpy2 import mpfr, mpq
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statistical import FALSE_ALARM, IntegerLaw, uniform_p_value

from ikos import Categories
from ikos.accounting.lwy22 import MAX_MESSAGES, random_messages, random_messages_delta
from ikos.baselines import FrequencyEstimation
from ikos.testing import DeterministicRandom


class Played(Ideal):
    """Plays Bernoulli variables too."""

    def bernoullis(self, probability: Fraction, size: int) -> Any:
        return np.array([self.flip(probability) for _ in range(size)], dtype=bool)


def tiny(n: int, d: int, size: int, extra: int, chance: Fraction) -> FrequencyEstimation:
    """Return a protocol with given numbers of random messages, whatever they guarantee."""
    protocol = FrequencyEstimation(n, Categories([d]), 4, 0.5, set_size=size)
    for name, value in (("extra", extra), ("chance", chance)):
        object.__setattr__(protocol, name, value)
    return protocol


def members(protocol: FrequencyEstimation, message: int) -> list[int]:
    """Return the set that a message names, from the definition."""
    d, s = divmod(message - 1, protocol.modulus)
    return [(s + t * (d + 1)) % protocol.modulus for t in range(protocol.set_size)]


def universe(protocol: FrequencyEstimation) -> range:
    q = protocol.modulus
    return range(1, 1 + (q if protocol.set_size == 1 else q * (q - 1)))


@cache
def user_law(protocol: FrequencyEstimation, x: int) -> Law:
    """Return the law of the sorted messages of a user with category x, by playing the code."""
    value = np.eye(protocol.dimension)[x]
    played, unfinished = exact_law(
        lambda rng: tuple(sorted(map(int, protocol.report(value, rng)))), Played
    )
    assert unfinished == 0
    return played


def view_law(protocol: FrequencyEstimation, inputs: tuple[int, ...]) -> dict[Any, mpq]:
    """Return the law of the multiset of all messages, as counts of each, from users' laws."""
    place = {message: i for i, message in enumerate(universe(protocol))}
    law: dict[Any, mpq] = {(0,) * len(place): mpq(1)}
    for x in inputs:
        wider: dict[Any, mpq] = defaultdict(mpq)
        for messages, weight in user_law(protocol, x).items():
            add = [0] * len(place)
            for message in messages:
                add[place[message]] += 1
            part = mpq(weight)
            for counts, before in law.items():
                wider[tuple(a + b for a, b in zip(counts, add, strict=True))] += before * part
        law = wider
    return law


def divergence(first: dict[Any, mpq], second: dict[Any, mpq], epsilon: float) -> float:
    with gmpy2.context(precision=200):
        odds = gmpy2.exp(mpfr(epsilon))
        gains = (mpfr(p) - odds * mpfr(second.get(view, mpq(0))) for view, p in first.items())
        return float(sum((gain for gain in gains if gain > 0), mpfr(0)))


def claimed(protocol: FrequencyEstimation, epsilon: float) -> float:
    chance = 2 * protocol.chance * Fraction(protocol.set_size, protocol.modulus)
    return random_messages_delta(epsilon, protocol.n * protocol.extra, chance)


LONGER = pytest.param(6, 3, marks=pytest.mark.slow)


@pytest.mark.parametrize(("d", "size"), [(2, 1), (3, 1), (4, 2), LONGER])
def test_messages_of_a_user_have_the_stated_law(d: int, size: int) -> None:
    protocol = tiny(2, d, size, 1, Fraction(3, 4))
    every = list(universe(protocol))
    for x in range(d):
        own = [message for message in every if x in members(protocol, message)]
        assert len(own) * protocol.modulus == size * len(every)
        law: dict[Any, Fraction] = defaultdict(Fraction)
        for message in own:
            law[(message,)] += Fraction(1, 4 * len(own))
            for other in every:
                pair = tuple(sorted((message, other)))
                law[pair] += Fraction(3, 4 * len(own) * len(every))
        assert user_law(protocol, x) == law


SINGLE = [
    (2, 2, 1, Fraction(1, 2)),
    (3, 3, 2, Fraction(7, 8)),
    (5, 4, 1, Fraction(3, 4)),
    (8, 2, 2, Fraction(1, 4)),
    (12, 2, 1, Fraction(1)),
    (12, 3, 1, Fraction(5, 8)),
]


@pytest.mark.points(1)
@pytest.mark.parametrize(("n", "d", "extra", "chance"), SINGLE)
def test_divergence_of_views_by_enumeration(n: int, d: int, extra: int, chance: Fraction) -> None:
    """With one category in a message the bound is the divergence, whatever the others hold."""
    protocol = tiny(n, d, 1, extra, chance)
    for others in ((0,) * (n - 1), tuple(i % d for i in range(n - 1))):
        first, second = (view_law(protocol, (x, *others)) for x in (0, 1))
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
            bound = claimed(protocol, epsilon)
            for true in (divergence(first, second, epsilon), divergence(second, first, epsilon)):
                assert true <= bound <= true * (1 + 1e-5) + 1e-12


@pytest.mark.parametrize("other", [0, 1, 2])
@pytest.mark.slow
def test_divergence_of_views_of_sets_by_enumeration(other: int) -> None:
    protocol = tiny(2, 4, 2, 1, Fraction(3, 4))
    laws = [view_law(protocol, (x, other)) for x in range(4)]
    for (x, first), (y, second) in product(enumerate(laws), repeat=2):
        for epsilon in (0.1, 0.5, 1.0, 2.0) if x != y else ():
            assert 0 < divergence(first, second, epsilon) <= claimed(protocol, epsilon)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("random", [1, 2, 3])
def test_sets_that_meet_reveal_no_more_than_those_that_do_not(size: int, random: int) -> None:
    """The user's message among random ones, with no other user's: the pair of the proof."""
    protocol = tiny(2, 2 * size, size, 1, Fraction(1))
    every = [frozenset(members(protocol, message)) for message in universe(protocol)]
    kinds: dict[Any, int] = defaultdict(int)
    for named in every:
        kinds[0 in named, 1 in named] += 1
    total = len(every)
    for epsilon in (0.2, 1.0, 3.0):
        odds, found = math.exp(epsilon), 0.0
        for drawn in product(kinds, repeat=random + 1):  # of random + 1 uniform messages
            weight = math.prod(kinds[kind] / total for kind in drawn)
            gain = sum(kind[0] for kind in drawn) - odds * sum(kind[1] for kind in drawn)
            found += weight * max(gain, 0.0) * protocol.modulus / size / (random + 1)
        bound = random_messages_delta(epsilon, random, Fraction(2 * size, protocol.modulus))
        assert 0.5 * bound < found <= bound


def definition(epsilon: float, most: int, chance: Fraction) -> float:
    """Return E D(M), each D a sum of positive parts."""
    odds = mpq(Fraction(math.exp(epsilon)))
    total = mpq(0)
    p = mpq(chance)
    for m in range(most + 1):
        gains = (
            mpq(math.comb(m, b)) - odds * (math.comb(m, b - 1) if b else 0) for b in range(m + 2)
        )
        pair = sum((gain for gain in gains if gain > 0), mpq(0)) / 2**m
        total += math.comb(most, m) * p**m * (1 - p) ** (most - m) * pair
    return float(total)


@given(st.integers(1, 24), st.integers(1, 64), st.floats(0, 6))
def test_delta_by_definition(most: int, part: int, epsilon: float) -> None:
    true = definition(epsilon, most, Fraction(part, 64))
    found = random_messages_delta(epsilon, most, Fraction(part, 64))
    assert true <= found * (1 + 1e-12)
    assert found <= true * (1 + 1e-5) + 1e-12


@pytest.mark.parametrize(
    ("epsilon", "most", "chance"), [(0.2, 10**7, 1e-4), (0.02, 10**7, 0.05), (3.0, 10**6, 5e-5)]
)
def test_delta_where_counts_are_large(epsilon: float, most: int, chance: float) -> None:
    """Against a sum over every count by scipy's tails; the last but one is taken in cells."""
    law = stats.binom(most, chance)
    m = np.arange(max(0, int(law.mean() - 20 * law.std())), int(law.mean() + 20 * law.std()))
    c = np.ceil((m + 1) / (1 + math.exp(epsilon))) - 1
    pair = stats.binom.cdf(c, m, 0.5) - math.exp(epsilon) * stats.binom.cdf(c - 1, m, 0.5)
    true = float(law.pmf(m) @ pair)
    found = random_messages_delta(epsilon, most, chance)
    assert true * (1 - 1e-9) <= found <= 1.01 * true


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "delta"),
    [(2, 2, 1, 0.1), (100, 10, 0.5, 1e-6), (10**4, 10**4, 1, 1e-8), (10**9, 10**5, 4, 1e-12)],
)
def test_random_messages_are_enough_and_hardly_more(n, d, epsilon, delta):
    extra, chance = random_messages(Fraction(epsilon), Fraction(delta), n, Fraction(1, d))
    assert random_messages_delta(epsilon, n * extra, 2 * chance / d) <= delta
    assert random_messages_delta(epsilon, n * extra, 2 * chance / d * Fraction(999, 1000)) > delta
    assert chance * extra > extra - 1


def test_fewer_messages_than_ever_computed_or_sent() -> None:
    assert random_messages_delta(1, 0, 0.5) == random_messages_delta(1, 10**12, 0.5) == 1
    with pytest.raises(ValueError, match=r"^n or epsilon must be larger.*1048576"):
        random_messages(Fraction(1, 10), Fraction(1, 10**9), 2, Fraction(1, MAX_MESSAGES))


@pytest.mark.parametrize(("d", "size"), [(3, 1), (4, 2), LONGER])
def test_error_is_exact(d: int, size: int) -> None:
    """The largest mean square of one user's part of an estimate, and of all coordinates."""
    protocol = tiny(2, d, size, 1, Fraction(3, 4))
    q = protocol.modulus
    share, missed = Fraction(size, q), 1 - Fraction(size - 1, q - 1)
    squares = []
    for own in range(d):
        square, mean = [Fraction(0)] * d, [Fraction(0)] * d
        for messages, weight in user_law(protocol, own).items():
            for x in range(d):
                named = sum(x in members(protocol, message) for message in messages)
                part = (named - (len(messages) - 1) * share - (1 - missed)) / missed
                mean[x] += weight * part
                square[x] += weight * (part - (x == own)) ** 2
        assert mean == [Fraction(x == own) for x in range(d)]
        squares.append(square)
    for users in (1, 2):
        error = protocol.error(users)
        assert error.coordinate.mean_square == pytest.approx(float(users * max(map(max, squares))))
        assert error.mean_square == pytest.approx(float(users * sum(squares[0])))


def test_the_count_of_a_category_has_its_exact_law() -> None:
    n, d, runs = 50, 20, 400
    protocol = FrequencyEstimation(n, Categories([d]), 2, 1e-3)
    rng = DeterministicRandom(7)
    sent = protocol.extra * n
    found = []
    for _ in range(runs):
        view = protocol.shuffle(protocol.randomize(np.zeros(n, dtype=int), rng), rng)
        found.append(np.count_nonzero(view.columns[0] == d))
    law = stats.binom.pmf(np.arange(sent + 1), sent, float(protocol.chance) / d)
    assert IntegerLaw(0, law).p_value(np.array(found)) > FALSE_ALARM


def test_messages_of_sets_are_uniform() -> None:
    protocol = FrequencyEstimation(4000, Categories([28]), 4, 1e-3, set_size=3)
    q = protocol.modulus
    assert q == 29
    messages = protocol.randomize(np.full(4000, 5), DeterministicRandom(3))
    random = messages[1:][messages[1:] > 0] - 1
    assert uniform_p_value(random, q * (q - 1)) > FALSE_ALARM
    step, start = np.divmod(messages[0] - 1, q)
    place = (5 - start) * np.array([pow(int(d) + 1, -1, q) for d in step]) % q
    assert uniform_p_value(place * (q - 1) + step, 3 * (q - 1)) > FALSE_ALARM


def test_categories_as_numbers_or_vectors() -> None:
    protocol = FrequencyEstimation(40, Categories([7]), 2, 1e-2, set_size=3)
    x = np.arange(40) % 7
    runs = [protocol.run(given, DeterministicRandom(1)) for given in (x, np.eye(7)[x])]
    assert runs[0] == runs[1]
    for wrong in (x - 1, x + 1, x + 0.5, np.where(x == 3, np.nan, x)):
        with pytest.raises(ValueError, match=r"x\[.* must be an integer from 0 to 6"):
            protocol.run(wrong)


def test_fewer_honest_users_send_more() -> None:
    sizes = [
        FrequencyEstimation(1000, Categories([100]), 1, 1e-6, min_honest=honest).cost()
        for honest in (1000, 500, 100)
    ]
    messages = [cost.messages_per_user - 1 for cost in sizes]
    assert [b / a for a, b in pairwise(messages)] == pytest.approx([2, 5], rel=0.01)


def test_the_papers_size_of_sets() -> None:
    large = FrequencyEstimation(1000, Categories([10**5]), 4, 1e-6, set_size=None)
    assert large.set_size == round(10**5 * math.log(1000) / 1000)
