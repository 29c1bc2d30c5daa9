"""Additive shares: uniform subject to their sum, for every group, exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from exact.enumeration import Ideal, exact_law, words
from numpy.typing import NDArray
from statistical import FALSE_ALARM, uniform_p_value

from ikos.primitives.modular import BLOCK, Zq
from ikos.primitives.sharing import split
from ikos.testing import DeterministicRandom

ORDERS = {
    "2": 2,
    "3": 3,
    "2^8": 2**8,
    "2^32": 2**32,
    "2^61-1": 2**61 - 1,
    "3*2^61": 3 * 2**61,
    "2^64-59": 2**64 - 59,
    "2^64": 2**64,
    "2^64+13": 2**64 + 13,
    "2^127-1": 2**127 - 1,
    "2^521-1": 2**521 - 1,
}
each_order = pytest.mark.parametrize("q", ORDERS.values(), ids=ORDERS.keys())


def users(q: int, n: int) -> list[int]:
    """Return n values with the extremes among them."""
    return [(0, q - 1, 1, q // 2, q - 2)[i % 5] % q for i in range(n)]


def frozen(matrix: NDArray[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(v) for v in row) for row in matrix)


@pytest.mark.parametrize(
    ("q", "messages", "n"), [(2, 2, 1), (2, 3, 2), (3, 3, 1), (3, 2, 2), (4, 3, 1), (5, 2, 2)]
)
def test_any_proper_subset_of_shares_is_exactly_uniform_whatever_the_value(
    q: int, messages: int, n: int
) -> None:
    """Every choice of the randomness, every input: m-1 rows take each value equally often.

    Uniform on all of Z_q, the value q-1 included, and so independent of the input.
    """
    group = Zq(q)
    cells = q ** ((messages - 1) * n)
    for x in product(range(q), repeat=n):
        law, unfinished = exact_law(
            lambda rng, x=x: frozen(split(group.elements(x), group, messages, rng))
        )
        assert unfinished == 0
        for shares in law:
            assert tuple(sum(column) % q for column in zip(*shares, strict=True)) == x
        for kept in combinations(range(messages), messages - 1):
            seen: dict[Hashable, Fraction] = defaultdict(Fraction)
            for shares, p in law.items():
                seen[tuple(shares[j] for j in kept)] += p
            assert len(seen) == cells
            assert set(seen.values()) == {Fraction(1, cells)}


@pytest.mark.parametrize("q", [2, 4])
def test_shares_are_exactly_uniform_from_the_words_up(q: int) -> None:
    """The raw words played under the real sampler."""
    group = Zq(q)
    bits = (q - 1).bit_length()
    for x in range(q):
        law, _ = exact_law(
            lambda rng, x=x: frozen(split(group.elements([x]), group, 3, rng)), words(bits, 4)
        )
        assert len(law) == q * q
        for kept in combinations(range(3), 2):
            seen: dict[Hashable, Fraction] = defaultdict(Fraction)
            for shares, p in law.items():
                seen[tuple(shares[j] for j in kept)] += p
            assert len(seen) == q * q
            assert len(set(seen.values())) == 1
        assert len(set(law.values())) == 1


@each_order
@pytest.mark.parametrize(("n", "messages"), [(1, 1), (1, 5), (1000, 2)])
def test_shares_add_up_to_the_values(q: int, n: int, messages: int) -> None:
    group, x = Zq(q), users(q, n)
    shares = split(group.elements(x), group, messages, DeterministicRandom(90))
    assert shares.shape == (messages, n)
    assert group.contains(shares)
    assert [sum(int(v) for v in column) % q for column in shares.T] == x


@pytest.mark.parametrize("q", [2, 2**32 - 5, 2**61 - 1, 2**64])
@pytest.mark.parametrize("n", [0, BLOCK, 2 * BLOCK + 5])
def test_shares_add_up_across_blocks(q: int, n: int) -> None:
    group = Zq(q)
    x = group.elements(users(q, n))
    before = x.copy()
    shares = split(x, group, 3, DeterministicRandom(91))
    assert (x == before).all()
    for row in shares[:-1]:
        group.subtract(x, row)
    assert (x == shares[-1]).all()


@each_order
def test_each_row_of_shares_fits_the_uniform_law(q: int) -> None:
    """Three rows, first and last digits: tests of a proved false-alarm rate of 1e-9 each.

    All users hold q-1, so that a last row that leans on the value would show. Buckets differ by
    an element at most, a relative 2^-50 of their size where q is not itself tiny.
    """
    size = 20_000
    group = Zq(q)
    shares = split(group.elements([q - 1] * size), group, 3, DeterministicRandom(92))
    cells = min(q, 32)
    for row in shares:
        values = [int(v) for v in row]
        assert uniform_p_value([v * cells // q for v in values], cells) > FALSE_ALARM
        assert uniform_p_value([v % cells for v in values], cells) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("q", [3, 7])
def test_pairs_of_rows_fit_the_uniform_law(q: int) -> None:
    group = Zq(q)
    shares = split(group.elements([q - 1] * 100_000), group, 3, DeterministicRandom(93))
    for i, j in combinations(range(3), 2):
        pair = shares[i].astype(np.int64) * q + shares[j]
        assert uniform_p_value(pair, q * q) > FALSE_ALARM
    everything = (shares[0].astype(np.int64) * q + shares[1]) * q + shares[2]
    assert uniform_p_value(everything, q**3) < FALSE_ALARM  # the three together are not


@pytest.mark.slow
@pytest.mark.parametrize("q", [3, 7])
def test_shares_of_neighbouring_users_are_independent(q: int) -> None:
    group = Zq(q)
    shares = split(group.elements([0] * 100_000), group, 2, DeterministicRandom(94))
    for row in shares:
        pair = row[::2].astype(np.int64) * q + row[1::2]
        assert uniform_p_value(pair, q * q) > FALSE_ALARM


def test_one_message_is_the_value_itself() -> None:
    group = Zq(10)
    x = group.elements([3, 9, 0])
    shares = split(x, group, 1, Ideal([], Fraction(0)))  # plays no outcome at all
    assert shares.tolist() == [[3, 9, 0]]
    assert not np.shares_memory(shares, x)
