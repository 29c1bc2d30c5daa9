"""Components of sampled graphs: the fast path, the reference, and both against brute force."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from exact.share_graph import SETTINGS, components
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ikos.graphs import (
    component_labels,
    count_components,
    multigraph,
    sample_targets,
    share_graphs,
)
from ikos.graphs.share_graphs import BACKENDS
from ikos.testing import DeterministicRandom


def true_labels(graph: NDArray[np.int32], clear: bool) -> list[int]:
    """Return the components of the users, or of their left copies, numbered by first users."""
    n, m = graph.shape
    right = 0 if clear else n
    edges = ((i, right + int(graph[i, h])) for i in range(n) for h in range(m))
    names = components(n if clear else 2 * n, edges)[:n]
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return [number[name] for name in names]


def check_graph_by_graph(targets: NDArray[np.int32], clear: bool) -> None:
    """Compare both backends with networkx, one graph at a time, and with naive relabelling."""
    found = [count_components(targets, clear_share=clear, backend=name) for name in BACKENDS]
    labels = [component_labels(targets, clear_share=clear, backend=name) for name in BACKENDS]
    for t, graph in enumerate(targets):
        parts = list(nx.connected_components(multigraph(graph, clear_share=clear)))
        copies = 1 if clear else 2
        assert all(len(part) % copies == 0 for part in parts)
        sizes = [len(part) // copies for part in parts]
        for counts in found:
            assert counts.counts[t] == len(sizes)
            assert counts.smallest[t] == min(sizes)
            assert counts.alone[t] == sizes.count(1)
        true = true_labels(graph, clear)
        for rows in labels:
            assert rows[t].tolist() == true
        assert sorted(sizes) == sorted(np.bincount(true).tolist())
    for counts in found:
        for values in (counts.counts, counts.smallest, counts.alone):
            assert values.shape == (len(targets),)
            assert values.dtype == np.int64
    for rows in labels:
        assert rows.shape == targets.shape[:2]
        assert rows.dtype == np.int32


@given(
    n=st.integers(1, 60),
    m=st.integers(1, 4),
    trials=st.integers(1, 3),
    setting=st.sampled_from(SETTINGS),
    seed=st.integers(0, 2**20),
)
def test_backends_and_brute_force_agree_on_every_graph(
    n: int, m: int, trials: int, setting: tuple[str, bool], seed: int
) -> None:
    shuffler, clear = setting
    targets = sample_targets(n, m, trials, shuffler=shuffler, rng=DeterministicRandom(seed))
    check_graph_by_graph(targets, clear)


@pytest.mark.points(1)
@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@pytest.mark.parametrize("m", [1, 2])
def test_backends_and_brute_force_agree_where_components_are_many(
    shuffler: str, clear: bool, m: int
) -> None:
    """Graphs of few users, and all sizes up to 20, in one call for each."""
    for n in range(1, 21):
        rng = DeterministicRandom(500 + n)
        check_graph_by_graph(sample_targets(n, m, 8, shuffler=shuffler, rng=rng), clear)


def blocks_of_cycles(sizes: list[int]) -> NDArray[np.int32]:
    """Return one permutation whose cycles have these lengths, in this order."""
    targets: list[int] = []
    for size in sizes:
        first = len(targets)
        targets += [*range(first + 1, first + size), first]
    return np.array(targets, dtype=np.int32)[:, None]


def test_components_of_graphs_that_are_written_down() -> None:
    targets = blocks_of_cycles([3, 1, 4, 1])
    found = count_components(targets)
    assert found.counts.tolist() == [4]
    assert found.smallest.tolist() == [1]
    assert found.alone.tolist() == [2]
    assert component_labels(targets).tolist() == [[0, 0, 0, 1, 2, 2, 2, 2, 3]]
    # left copies alone are joined to nobody by one edge each
    assert count_components(targets, clear_share=False).counts.tolist() == [9]
    # the second message stays: left copy i meets right copies i and i + 1
    twice = np.concatenate((targets, np.arange(9, dtype=np.int32)[:, None]), axis=1)
    assert count_components(twice, clear_share=False).counts.tolist() == [4]
    assert component_labels(twice, clear_share=False).tolist() == [[0, 0, 0, 1, 2, 2, 2, 2, 3]]


def test_labels_do_not_depend_on_the_names_that_a_search_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As from a search that begins anywhere, and goes on anywhere."""
    find = share_graphs._scipy_labels

    def renamed(targets: NDArray[np.int32], clear: bool) -> NDArray[np.int32]:
        labels = find(targets, clear)
        order = DeterministicRandom(504).permutation(int(labels.max()) + 1)
        renamed: NDArray[np.int32] = order.astype(np.int32)[labels]
        return renamed

    monkeypatch.setattr(share_graphs, "_scipy_labels", renamed)
    targets = blocks_of_cycles([2, 1, 3, 1, 1, 2, 4])
    expected = [0, 0, 1, 2, 2, 2, 3, 4, 5, 5, 6, 6, 6, 6]
    assert component_labels(targets).tolist() == [expected]
    check_graph_by_graph(np.stack([targets, targets[::-1]]), True)


@pytest.mark.parametrize("together", [1, 7, 8, 16, 50, 1 << 21])
@pytest.mark.parametrize("clear", [True, False])
def test_blocks_of_graphs_begin_and_end_anywhere(
    monkeypatch: pytest.MonkeyPatch, together: int, clear: bool
) -> None:
    """Eleven graphs of eight slots in blocks of 1, 2, 6 or all, the last one cut short."""
    targets = sample_targets(4, 2, 11, rng=DeterministicRandom(501))
    monkeypatch.setattr(share_graphs, "_SLOTS_PER_PASS", together)
    check_graph_by_graph(targets, clear)


def test_arrays_that_are_not_contiguous_are_read_as_they_are() -> None:
    targets = sample_targets(6, 3, 10, rng=DeterministicRandom(502))
    swapped = np.asfortranarray(targets)
    mirrored = targets[::-1, :, ::-1]
    same = count_components(targets).counts
    assert count_components(swapped).counts.tolist() == same.tolist()
    assert count_components(mirrored).counts.tolist() == same[::-1].tolist()
    assert component_labels(mirrored).tolist() == component_labels(targets)[::-1].tolist()


def test_targets_are_left_as_they_were() -> None:
    targets = sample_targets(6, 3, 10, rng=DeterministicRandom(503))
    before = targets.copy()
    for clear in (True, False):
        for backend in BACKENDS:
            count_components(targets, clear_share=clear, backend=backend)
            component_labels(targets, clear_share=clear, backend=backend)
    assert (targets == before).all()
