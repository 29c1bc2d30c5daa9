"""Message counts: one call, a grid, and the recursion, against bare 256-bit arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from operator import mul

import gmpy2
from gmpy2 import mpfr

from ikos import message_count, private_message_count
from ikos.counts import hockey_stick, largest_component, recursion, second_moment
from ikos.counts.share_graph import ShareGraph
from ikos.numeric.rounding import UP, rounding

THOUSAND = tuple(1 / mpfr(k) for k in range(1, 1001))


def forget() -> None:
    """Empty every cache, so that each call does all of its work."""
    for cached in (
        second_moment.bound,
        hockey_stick.privacy,
        largest_component.largest_component,
        recursion.enclosed,
    ):
        cached.cache_clear()


def products(count: int) -> None:
    """Multiply and add this many thousand numbers of 256 bits."""
    with rounding(UP):
        for _ in range(count):
            gmpy2.fsum(map(mul, THOUSAND, THOUSAND))


def test_one_count(against: Callable[..., float]) -> None:
    """n = 10^6, sigma = 80, q = 2^64; the floor is a thousand multiplications."""
    against(lambda: message_count(10**6, 2**64, 80), lambda: products(1), setup=forget, rounds=201)


def test_one_private_count(against: Callable[..., float]) -> None:
    against(
        lambda: private_message_count(10**6, 2**31, 1, 1e-12, 1000),
        lambda: products(1),
        setup=forget,
        rounds=201,
    )


def test_grid(against: Callable[..., float]) -> None:
    """Ten thousand settings; the floor is a thousand multiplications for each."""

    def target() -> None:
        for n in (2, 5, 10, 30, 100, 300, 10**3, 10**4, 10**6, 10**9):
            for bits in range(8, 258, 10):
                for sigma in range(8, 168, 4):
                    message_count(n, 2**bits, sigma)

    against(target, lambda: products(10_000), setup=forget, rounds=3)


def test_recursion(against: Callable[..., float]) -> None:
    """A thousand users: four sums of n^2 / 2 products each."""
    against(
        lambda: recursion.enclosed(1000, 2**64, ShareGraph(25, "parallel", True)),
        lambda: products(2000),
        setup=forget,
        rounds=5,
    )
