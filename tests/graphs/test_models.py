"""Share graphs as arrays and as multigraphs: their law, and how they are read.

Statistical tests have a proved false-alarm rate of at most 1e-9 each (see `statistical`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
from exact.share_graph import all_slot_permutations
from hypothesis import given
from hypothesis import strategies as st
from statistical import FALSE_ALARM, outcome_p_value

from ikos import SecureSum
from ikos.graphs import count_components, multigraph, replayed_targets, sample_targets
from ikos.graphs.share_graphs import MAX_SLOTS
from ikos.primitives.randomness import RandomSource, SecureRandom
from ikos.testing import DeterministicRandom

# The law of the arrays


def targets_law(n: int, m: int, shuffler: str) -> dict[tuple[int, ...], Fraction]:
    """Return the law of the array by enumeration; slot h n + i is user i's h-th, whoever counts."""
    counts: Counter[tuple[int, ...]] = Counter()
    for slots in all_slot_permutations(n, m, shuffler):
        counts[tuple(slots[h * n + i] % n for i in range(n) for h in range(m))] += 1
    total = sum(counts.values())
    return {targets: Fraction(count, total) for targets, count in counts.items()}


TINY = [
    ("parallel", 3, 2, 36),
    ("parallel", 2, 3, 8),
    ("parallel", 4, 1, 24),
    ("single", 2, 2, 6),
    ("single", 3, 2, 90),
    ("single", 2, 3, 20),
    ("single", 4, 1, 24),
]


@pytest.mark.points(2)
@pytest.mark.parametrize(("shuffler", "n", "m", "outcomes"), TINY)
@pytest.mark.parametrize("source", [SecureRandom, lambda: DeterministicRandom(400)])
def test_graphs_fit_the_law_of_all_permutations(
    shuffler: str, n: int, m: int, outcomes: int, source: Callable[[], RandomSource]
) -> None:
    law = targets_law(n, m, shuffler)
    assert len(law) == outcomes
    assert set(law.values()) == {Fraction(1, outcomes)}
    graphs = sample_targets(n, m, 20_000, shuffler=shuffler, rng=source()).reshape(-1, n * m)
    assert outcome_p_value(map(tuple, graphs.tolist()), law) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_graphs_of_one_call_are_independent(shuffler: str) -> None:
    """Pairs of neighbours, and the first and the last of three."""
    one = targets_law(2, 2, shuffler)
    law = {(a, b): p * r for (a, p), (b, r) in product(one.items(), repeat=2)}
    graphs = sample_targets(2, 2, 30_000, shuffler=shuffler, rng=DeterministicRandom(401))
    rows = list(map(tuple, graphs.reshape(-1, 3, 4).tolist()))
    for i, j in ((0, 1), (1, 2), (0, 2)):
        drawn = ((tuple(triple[i]), tuple(triple[j])) for triple in rows)
        assert outcome_p_value(drawn, law) > FALSE_ALARM


@given(
    n=st.integers(1, 40),
    m=st.integers(1, 5),
    trials=st.integers(1, 4),
    shuffler=st.sampled_from(["parallel", "single"]),
    seed=st.integers(0, 2**20),
)
def test_arrays_have_the_promised_form(
    n: int, m: int, trials: int, shuffler: str, seed: int
) -> None:
    targets = sample_targets(n, m, trials, shuffler=shuffler, rng=DeterministicRandom(seed))
    assert targets.shape == (trials, n, m)
    assert targets.dtype == np.int32
    assert targets.flags.c_contiguous
    for graph in targets:
        assert (np.bincount(graph.ravel(), minlength=n) == m).all()
        if shuffler == "parallel":
            assert (np.sort(graph, axis=0) == np.arange(n)[:, None]).all()
    again = sample_targets(n, m, trials, shuffler=shuffler, rng=DeterministicRandom(seed))
    assert (targets == again).all()


def test_large_graphs_are_permutations_too() -> None:
    """Beyond 65 536 users or slots permutations are drawn one by one."""
    targets = sample_targets(70_000, 2, 2, rng=DeterministicRandom(404))
    assert (np.sort(targets, axis=1) == np.arange(70_000)[:, None]).all()
    assert (targets[0] != targets[1]).mean() > 0.99
    single = sample_targets(40_000, 2, 2, shuffler="single", rng=DeterministicRandom(404))
    for graph in single:
        assert (np.bincount(graph.ravel()) == 2).all()
        assert len(np.unique(graph[:, 0])) < 40_000


# Multigraphs


@given(
    n=st.integers(1, 15),
    m=st.integers(1, 4),
    shuffler=st.sampled_from(["parallel", "single"]),
    seed=st.integers(0, 2**20),
)
def test_multigraphs_keep_every_edge(n: int, m: int, shuffler: str, seed: int) -> None:
    targets = sample_targets(n, m, shuffler=shuffler, rng=DeterministicRandom(seed))[0]
    edges = {(i, h): int(targets[i, h]) for i in range(n) for h in range(m)}

    graph = multigraph(targets)
    assert isinstance(graph, nx.MultiGraph)
    assert not graph.is_directed()
    assert sorted(graph) == list(range(n))
    assert graph.number_of_edges() == n * m
    assert {degree for _, degree in graph.degree()} == {2 * m}
    assert Counter(
        (frozenset((a, b)), message) for a, b, message in graph.edges(data="message")
    ) == Counter((frozenset((i, to)), h) for (i, h), to in edges.items())

    bipartite = multigraph(targets, clear_share=False)
    assert bipartite.number_of_nodes() == 2 * n
    assert bipartite.number_of_edges() == n * m
    assert {degree for _, degree in bipartite.degree()} == {m}
    assert dict(bipartite.nodes(data="bipartite")) == {
        **{("left", i): 0 for i in range(n)},
        **{("right", i): 1 for i in range(n)},
    }
    assert nx.is_bipartite(bipartite)
    assert Counter(
        (frozenset((a, b)), message) for a, b, message in bipartite.edges(data="message")
    ) == Counter((frozenset((("left", i), ("right", to))), h) for (i, h), to in edges.items())


@given(
    n=st.integers(1, 15),
    m=st.integers(1, 4),
    shuffler=st.sampled_from(["parallel", "single"]),
    seed=st.integers(0, 2**20),
)
def test_a_replayed_graph_is_that_of_the_shuffle(n: int, m: int, shuffler: str, seed: int) -> None:
    protocol = SecureSum(n, 2**64, messages=m + 1, shuffler=shuffler)
    shares = protocol.share([1] * n, DeterministicRandom(seed))
    view = protocol.shuffle(shares, DeterministicRandom(seed + 1), order="permuted")
    targets = replayed_targets(n, m, shuffler=shuffler, rng=DeterministicRandom(seed + 1))
    multigraph(targets)  # each user's places are taken m times
    if shuffler == "parallel":
        columns = np.take_along_axis(np.array(view.columns), targets.T.astype(int), axis=1)
        assert (columns == shares[:m]).all()
        return
    owners = {share: int(place % n) for place, share in enumerate(view.columns[0].tolist())}
    assert [[owners[share] for share in row] for row in shares[:m].tolist()] == targets.T.tolist()


# What is refused


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"n": 2**15 + 1, "m": 2**15}, ValueError, r"n and m must .* 32769 and 32768"),
        ({"rng": np.random.default_rng(1)}, TypeError, "rng must be .* Generator"),
    ],
)
def test_samples_of_no_model_are_refused(
    arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        sample_targets(**{"n": 4, "m": 2, **arguments})


def test_a_graph_of_many_that_no_permutation_leads_to_is_refused() -> None:
    """User 0 is named once too often in one graph, and once too little in the other."""
    good = [[[1], [0]], [[0], [1]]]
    assert count_components(good).counts.tolist() == [1, 2]
    with pytest.raises(ValueError, match="targets must name each user 1 times in each graph"):
        count_components([[[0], [0]], [[1], [1]]])
    with pytest.raises(ValueError, match=r"targets must have shape \(n, m\), got \(2, 2, 1\)"):
        multigraph(good)


def test_targets_beyond_32_bits_are_refused() -> None:
    flat = np.broadcast_to(np.int32(0), (2**15 + 1, 2**15))
    with pytest.raises(ValueError, match=rf"n \* m must be at most {MAX_SLOTS}, got 32769 \* "):
        count_components(flat)


def test_any_integers_are_targets() -> None:
    for kind in (np.int8, np.uint8, np.uint64, np.int64):
        assert count_components(np.array([[1, 0], [0, 1]], dtype=kind)).counts.tolist() == [1]
