"""Moments of message tuples: how far the views' counts of tuples are from their mean.

A tuple has one message of each shuffler. ``eps(w)`` is the relative surplus of the tuples with sum
-w. With eps_b its value at the clear share of user b less what user b shares, and p_r the sum of
eps_b^r over all users but one, this module bounds for even K and all l

    E eps_b^K <= A_K,    E p_1^K <= M_K,    E p_2^l <= V_l

under uniform views. Each is a sum over partitions without singletons, of positive terms, so that
rounding up is all that a bound needs. The proof is in the documentation: Fewer messages
for the private sum, "Moments".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import gmpy2
from gmpy2 import mpfr, mpq

from ikos.counts.rounding import UP, rounding

HIGHEST = 20
"""The highest moment that is used."""

Blocks = tuple[int, ...]
"""Sizes of the blocks of a partition, the largest first."""


@cache
def without_singletons(size: int) -> tuple[int, ...]:
    """Return how many partitions of a set of this size into u blocks of two or more there are."""
    if size < 2:
        return (1,) if size == 0 else (0,)
    counts = [0] * (size // 2 + 1)
    for u in range(1, len(counts)):
        smaller, paired = without_singletons(size - 1), without_singletons(size - 2)
        counts[u] = u * smaller[u] if u < len(smaller) else 0
        counts[u] += (size - 1) * paired[u - 1] if u - 1 < len(paired) else 0
    return tuple(counts)


def partitions(total: int, least: int, most: int | None = None) -> Iterator[Blocks]:
    """Yield the partitions of a number into parts from ``least`` on."""
    if total == 0:
        yield ()
    for part in range(min(total, most or total), least - 1, -1):
        for rest in partitions(total - part, least, part):
            yield (part, *rest)


def arrangements(blocks: Blocks) -> int:
    """Return the number of partitions of a set into blocks of these sizes."""
    ways = math.factorial(sum(blocks))
    for size, times in Counter(blocks).items():
        ways //= math.factorial(size) ** times * math.factorial(times)
    return ways


def _with_first(blocks: Blocks) -> Iterator[tuple[Blocks, Blocks, int]]:
    """Yield the sub-multisets that hold the first block, what is left, and in how many ways."""
    counts = Counter(blocks[1:])
    sizes = sorted(counts, reverse=True)

    def chosen(place: int) -> Iterator[tuple[Blocks, Blocks, int]]:
        if place == len(sizes):
            yield (), (), 1
            return
        size, times = sizes[place], counts[sizes[place]]
        for inside, outside, ways in chosen(place + 1):
            for k in range(times + 1):
                yield (
                    (size,) * k + inside,
                    (size,) * (times - k) + outside,
                    ways * math.comb(times, k),
                )

    for inside, outside, ways in chosen(0):
        yield (blocks[0], *inside), outside, ways


@dataclass(frozen=True)
class _Type:
    """A multiset of block sizes: the ways to split off what is connected with its first block."""

    blocks: Blocks
    splits: tuple[tuple[Blocks, Blocks, int], ...]
    connecting: tuple[int, ...]


@cache
def _types() -> dict[Blocks, _Type]:
    """Return all multisets of two or more with a sum of at most HIGHEST, the smallest first.

    ``connecting[u]`` counts the partitions into u blocks of two or more, of a set that has these
    blocks, which connect all of the blocks.
    """
    types: dict[Blocks, _Type] = {}
    for total in range(2, HIGHEST + 1):
        for blocks in partitions(total, 2):
            splits = tuple(_with_first(blocks))
            counts = list(without_singletons(total))
            for inside, outside, ways in splits:
                if not outside:
                    continue
                rest = without_singletons(sum(outside))
                for u, connected in enumerate(types[inside].connecting):
                    for v, free in enumerate(rest):
                        counts[u + v] -= ways * connected * free
            types[blocks] = _Type(blocks, splits, tuple(counts))
    return types


def connecting(blocks: Blocks) -> tuple[int, ...]:
    """Return how many partitions of a set with these blocks connect them all, by their number."""
    return _types()[blocks].connecting


def _connected_sums(n: int, theta: mpfr) -> dict[Blocks, mpfr]:
    """Return upper bounds of I_t(theta) for all types t."""
    sums: dict[Blocks, mpfr] = {(): mpfr(1)}
    connected: dict[Blocks, mpfr] = {}
    with rounding(UP):
        shrink = [mpfr(mpq(1, n**k)) for k in range(HIGHEST + 1)]
        power = [theta**k for k in range(HIGHEST + 1)]
        for blocks, found in _types().items():
            total, parts = sum(blocks), len(blocks)
            connected[blocks] = gmpy2.fsum(
                [
                    count * shrink[total - u] * power[total - parts - u + 1]
                    for u, count in enumerate(found.connecting)
                    if count
                ]
            )
            sums[blocks] = gmpy2.fsum(
                [ways * connected[inside] * sums[outside] for inside, outside, ways in found.splits]
            )
    return sums


@dataclass(frozen=True)
class TupleMoments:
    """Upper bounds of A_K and M_K, at even K, and of V_l."""

    single: dict[int, mpfr]
    total: dict[int, mpfr]
    squares: dict[int, mpfr]


@lru_cache(maxsize=256)
def tuple_moments(n: int, q: int, m: int) -> TupleMoments:
    """Return the moments for n users, a group of order q and m >= 2 shuffled messages each."""
    with rounding(UP):
        order, others = mpfr(q), mpfr(n - 1)
        sums = _connected_sums(n, gmpy2.rootn(order, m))
        fewer = _connected_sums(n, gmpy2.rootn(order, m - 1))
        even = range(2, HIGHEST + 1, 2)
        single, total, squares = {}, {}, {}
        for k in even:
            types = [(t, arrangements(t)) for t in partitions(k, 2)]
            total[k] = gmpy2.fsum([w * others ** len(t) * sums[t] ** m for t, w in types])
            by_first = gmpy2.fsum(
                [w * mpq(1, n ** (k - len(t))) * fewer[t] ** (m - 1) for t, w in types]
            )
            single[k] = min(sums[(k,)] ** m, by_first)
        for pairs in range(1, HIGHEST // 2 + 1):
            squares[pairs] = gmpy2.fsum(
                [
                    arrangements(t) * others ** len(t) * sums[tuple(2 * b for b in t)] ** m
                    for t in partitions(pairs, 1)
                ]
            )
    return TupleMoments(single, total, squares)
