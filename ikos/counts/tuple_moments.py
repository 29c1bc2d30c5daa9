"""Moments of message tuples: the distance of the views' counts of tuples from their mean.

In the terms of docs/higher-moments.md, "Moments", which has the proof, E eps_b^K <= A_K, E p_1^K <=
M_K and E p_2^l <= V_l, for even K and all l. All terms are positive, so that rounding up is all
that a bound needs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product

import gmpy2
from gmpy2 import mpfr, mpq

from ikos.numeric.rounding import DOWN, PRECISION, UP, rounding

HIGHEST = 20
"""The highest moment that is used, unless more is asked for."""

_CANCELLING = 512
"""Bits for differences of moments that cancel almost."""

Blocks = tuple[int, ...]
"""Sizes of the blocks of a partition, the largest first."""


@cache
def without_singletons(size: int) -> tuple[int, ...]:
    """Return the number of partitions of a set of this size into u blocks of two or more."""
    counts = [0] * (size // 2 + 1)
    for blocks in partitions(size, 2):
        counts[len(blocks)] += arrangements(blocks)
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


@cache
def _arranged(total: int, least: int) -> tuple[tuple[Blocks, int], ...]:
    """Return the partitions of a number, each with its `arrangements`."""
    return tuple((blocks, arrangements(blocks)) for blocks in partitions(total, least))


Splits = list[tuple[Blocks, Blocks, int]]


def _with_first(blocks: Blocks) -> Splits:
    """Return the sub-multisets with the first block, the rest, and the number of ways."""
    counts = Counter(blocks[1:])
    splits: Splits = []
    for chosen in product(*(range(times + 1) for times in counts.values())):
        inside, outside, ways = blocks[:1], blocks[:0], 1
        for (size, times), k in zip(counts.items(), chosen, strict=True):
            inside, outside = inside + (size,) * k, outside + (size,) * (times - k)
            ways *= math.comb(times, k)
        splits.append((inside, outside, ways))
    return splits


@cache
def _types(highest: int) -> dict[Blocks, tuple[Splits, Sequence[int]]]:
    """Return all multisets of two or more up to a sum, with their splits and counts.

    Count u is of the partitions into u blocks of two or more that connect all of these blocks.
    """
    types: dict[Blocks, tuple[Splits, Sequence[int]]] = {}
    if highest > HIGHEST:
        types |= _types(HIGHEST)
    for total in range(HIGHEST + 1 if types else 2, highest + 1):
        for blocks in partitions(total, 2):
            splits, counts = _with_first(blocks), list(without_singletons(total))
            for inside, outside, ways in splits:
                if not outside:
                    continue
                rest = without_singletons(sum(outside))
                for u, connected in enumerate(types[inside][1]):
                    for v, free in enumerate(rest):
                        counts[u + v] -= ways * connected * free
            types[blocks] = splits, counts
    return types


def connecting(blocks: Blocks) -> tuple[int, ...]:
    """Return how many partitions of a set with these blocks connect them all, by their number."""
    return tuple(_types(max(HIGHEST, sum(blocks)))[blocks][1])


def _connected_sums(
    n: int, theta: mpfr, highest: int, direction: int = UP, precision: int = PRECISION
) -> dict[Blocks, mpfr]:
    """Return I_t(theta) for all types t, rounded in a direction."""
    sums: dict[Blocks, mpfr] = {(): mpfr(1)}
    connected: dict[Blocks, mpfr] = {}
    with rounding(direction, precision):
        shrink = [mpfr(mpq(1, n**k)) for k in range(highest + 1)]
        power = [theta**k for k in range(highest + 1)]
        for blocks, (splits, counts) in _types(highest).items():
            total, parts = sum(blocks), len(blocks)
            connected[blocks] = gmpy2.fsum(
                [
                    count * shrink[total - u] * power[total - parts - u + 1]
                    for u, count in enumerate(counts)
                    if count
                ]
            )
            sums[blocks] = gmpy2.fsum(
                [ways * connected[inside] * sums[outside] for inside, outside, ways in splits]
            )
    return sums


@dataclass(frozen=True)
class TupleMoments:
    """Upper bounds on A_K and M_K, at even K, and on V_l."""

    single: dict[int, mpfr]
    total: dict[int, mpfr]
    squares: dict[int, mpfr]


def tuple_moments(n: int, q: int, m: int, highest: int = HIGHEST) -> TupleMoments:
    """Return the moments for n users, a group of order q and m >= 2 shuffled messages each."""
    return _tuple_moments(n, q, m, highest)


@lru_cache(maxsize=256)
def _tuple_moments(n: int, q: int, m: int, highest: int) -> TupleMoments:
    with rounding(UP):
        order, others = mpfr(q), mpfr(n - 1)
        sums = _connected_sums(n, gmpy2.rootn(order, m), highest)
        by_first = _by_first(n, q, m, highest, UP)
        single, total, squares = {}, {}, {}
        for k in range(2, highest + 1, 2):
            types = _arranged(k, 2)
            total[k] = gmpy2.fsum([w * others ** len(t) * sums[t] ** m for t, w in types])
            single[k] = min(sums[(k,)] ** m, by_first[k])
        for half in range(1, highest // 2 + 1):
            squares[half] = gmpy2.fsum(
                [
                    w * others ** len(t) * sums[tuple(2 * b for b in t)] ** m
                    for t, w in _arranged(half, 1)
                ]
            )
    return TupleMoments(single, total, squares)


@lru_cache(maxsize=256)
def _by_first(n: int, q: int, m: int, highest: int, direction: int) -> list[mpfr]:
    """Return A'_K, K = 0..highest, rounded in a direction: the second bound of A_K, for any K."""
    with rounding(direction, _CANCELLING):
        root = gmpy2.rootn(mpfr(q), m - 1)
    sums = _connected_sums(n, root, highest, direction, _CANCELLING)
    with rounding(direction, _CANCELLING):
        return [
            gmpy2.fsum(
                [w * mpq(1, n ** (k - len(t))) * sums[t] ** (m - 1) for t, w in _arranged(k, 2)]
            )
            for k in range(highest + 1)
        ]


@lru_cache(maxsize=256)
def cluster_moments(n: int, q: int, m: int, highest: int = HIGHEST) -> list[mpfr]:
    """Return upper bounds on y_B, B = 0..highest, the connected part of A'_B: Lemma 7.

    The exponential of sum_B y_B x^B / B! is sum_K A'_K x^K / K!: the join of *all* partitions is
    to be one block. Nearly all of A'_B cancels, so that both ends have more bits; for B = 4 the
    direct count may be smaller.
    """
    high, low = (_by_first(n, q, m, highest, direction) for direction in (UP, DOWN))
    above, below = [mpfr(0)] * 2, [mpfr(0)] * 2
    for size in range(2, highest + 1):
        parts = [(math.comb(size - 1, b - 1), b) for b in range(2, size)]
        with rounding(UP, _CANCELLING):
            most = gmpy2.fsum([ways * above[b] * high[size - b] for ways, b in parts])
        with rounding(DOWN, _CANCELLING):
            least = gmpy2.fsum([ways * below[b] * low[size - b] for ways, b in parts])
            below.append(max(mpfr(0), low[size] - most))
        with rounding(UP, _CANCELLING):
            above.append(high[size] - least)
    with rounding(DOWN, _CANCELLING):
        users, pairs, places = mpfr(n) ** m, mpfr(n + 1) ** m, mpfr(n) ** (3 * m)
    with rounding(UP, _CANCELLING):
        # all Pi_j are one block or one of three pairings: of one kind of pairing, or of more
        one = mpfr(n + 1) ** m - users - 1
        several = mpfr(3 * n + 1) ** m - 3 * pairs + 2
        above[4] = min(above[4], (3 * one * q * q + several * q + mpfr(q) ** 3) / places)
    return above
