"""Components of share graphs, against permutations and a search that they cannot do without."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from floors import keystream, multiply_and_add, weak_components
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ikos.counts import recursion
from ikos.graphs import (
    check_components,
    component_counts,
    component_distribution,
    component_pmf,
    importance_sampling,
    sample_targets,
)
from ikos.primitives.randomness import SecureRandom


def matrix(targets: NDArray[np.int32]) -> csr_array:
    """Return graphs as blocks of one matrix, built by hand."""
    trials, n, m = targets.shape
    columns = (targets + n * np.arange(trials, dtype=np.int32)[:, None, None]).ravel()
    ends = np.arange(0, columns.size + 1, m, dtype=np.int32)
    return csr_array((np.ones(columns.size), columns, ends), shape=(trials * n, trials * n))


def test_one_graph_of_a_million(against: Callable[..., float]) -> None:
    """n = 10^6, m = 3; the floor is three permutations and one search. At most 1.2 is wanted."""
    n, m = 10**6, 3
    rng = SecureRandom()
    prebuilt = matrix(sample_targets(n, m))

    def floor() -> None:
        for _ in range(m):
            rng.permutation(n)
        weak_components(prebuilt)

    against(lambda: component_counts(n, m, 1), floor, rounds=7)


def test_networkx_against_the_fast_path(
    against: Callable[..., float], note: Callable[[str], None]
) -> None:
    """n = 10^5, m = 3; the floor is networkx with its graph: at most 1/30 is wanted."""
    n, m = 10**5, 3
    ratio = against(
        lambda: component_counts(n, m, 1),
        lambda: component_counts(n, m, 1, backend="networkx"),
        rounds=3,
    )
    note(f"networkx takes {1 / ratio:.0f} times as long")


@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_many_small_graphs(against: Callable[..., float], shuffler: str) -> None:
    """50 000 graphs of n = 20, m = 3; the floor is keystream, sort and one search for all.

    About 0.1 s is wanted.
    """
    n, m, trials = 20, 3, 50_000
    prebuilt = matrix(sample_targets(n, m, trials, shuffler=shuffler))
    rows = (trials * m, n) if shuffler == "parallel" else (trials, n * m)
    keys = np.zeros(rows, dtype=np.uint32)

    def floor() -> None:
        keystream(keys)
        keys.sort(axis=1)
        weak_components(prebuilt)

    def target() -> None:
        component_counts(n, m, trials, shuffler=shuffler)

    against(target, floor, rounds=21)


def test_check_of_two_thousand_users(against: Callable[..., float]) -> None:
    """n = 2048, m = 4; the floor counts components of as many graphs. At most 1.3 is wanted."""
    n, m, trials = 2048, 4, 10
    drawn = trials + sum(tally.trials for tally in check_components(n, m, trials).planted)

    def forget() -> None:
        component_distribution._rooted.cache_clear()
        recursion.enclosed.cache_clear()
        importance_sampling._plan.cache_clear()
        importance_sampling._sums.cache_clear()

    def target() -> None:
        check_components(n, m, trials)

    against(target, lambda: component_counts(n, m, drawn), setup=forget, rounds=5)


def test_law_of_a_thousand_users(against: Callable[..., float]) -> None:
    """The floor is the recursion's 2 n^2 products and n products with a matrix."""
    n = 1000
    law = np.random.default_rng(1).random((n, n))

    def forget() -> None:
        component_distribution._rooted.cache_clear()
        recursion.enclosed.cache_clear()

    def floor() -> None:
        multiply_and_add(2 * n * n)
        for k in range(1, n):
            law[k, :k] @ law[n - k :, :k]

    against(lambda: component_pmf(n, 3), floor, setup=forget, rounds=5)
