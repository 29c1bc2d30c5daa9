"""Parameters of protocols: a comparison and its searches, against the losses that they end with."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import _lru_cache_wrapper

from ikos.accounting.blanket import ResponseBlanket
from ikos.accounting.composition import composed_divergence
from ikos.accounting.digits_bbgn20 import optimized_digits
from ikos.baselines import comparison
from ikos.domains import Ball

FOUND = optimized_digits(10**4, 1, 1e-8, 3)
BLANKETS = [
    ResponseBlanket(10**4, k, gamma) for k, gamma in zip(FOUND.domains, FOUND.gammas, strict=True)
]


def forget() -> None:
    """Empty every cache of the accountants, so that each call does all of its work."""
    for cached in gc.get_objects():
        if isinstance(cached, _lru_cache_wrapper) and cached.__module__.startswith("ikos."):
            cached.cache_clear()


def losses() -> None:
    """Compose the losses of three digits once: what any proof of them takes."""
    composed_divergence(1.0, BLANKETS, delta=1e-8, cells=120)


def test_search_of_digits(against: Callable[..., float]) -> None:
    """Three digits of 10^4 users; the floor is one composition of their losses."""
    against(lambda: optimized_digits(10**4, 1, 1e-8, 3), losses, setup=forget, rounds=9)


def test_comparison(against: Callable[..., float]) -> None:
    """All protocols for numbers, n = 10^4; the floor is the same."""
    against(lambda: comparison(10**4, 1, 1e-8), losses, setup=forget, rounds=5)


def test_comparison_of_a_million(against: Callable[..., float]) -> None:
    against(lambda: comparison(10**6, 1, 1e-12), losses, setup=forget, rounds=3)


def test_comparison_of_vectors(against: Callable[..., float]) -> None:
    """All protocols for a ball of 64 dimensions."""
    ball = Ball(64)
    against(lambda: comparison(10**4, 1, 1e-8, domain=ball), losses, setup=forget, rounds=5)
