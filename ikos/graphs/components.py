"""Connected components of share graphs, many graphs in one call.

The reference is networkx, one graph at a time. The fast path is scipy's csgraph, with many graphs
as blocks of one sparse matrix that holds the sampled arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ikos._validation import choice, flag
from ikos.graphs.models import Targets, checked_targets, multigraph
from ikos.modular import blocks

_SLOTS_TOGETHER = 1 << 21


def _networkx_labels(targets: Targets, clear_share: bool) -> NDArray[np.int32]:
    trials, n, _ = targets.shape
    labels = np.empty((trials, n), dtype=np.int32)
    for row, edges in zip(labels, targets, strict=True):
        graph = multigraph(edges, clear_share=clear_share)
        for name, component in enumerate(nx.connected_components(graph)):
            if clear_share:
                row[list(component)] = name
            else:
                row[[user for side, user in component if side == "left"]] = name
    return labels


def _scipy_labels(targets: Targets, clear_share: bool) -> NDArray[np.int32]:
    """Return labels that also differ between graphs."""
    trials, n, m = targets.shape
    if trials > 1:
        targets = targets + (n * np.arange(trials, dtype=np.int32))[:, None, None]
    users = trials * n
    slots = users * m
    ends = np.arange(0, slots + 1, m, dtype=np.int32)
    columns = targets.reshape(slots)
    size = users
    if not clear_share:  # right copies follow the left ones, and have no rows
        columns = columns + np.int32(users)
        ends = np.concatenate((ends, np.full(users, slots, dtype=np.int32)))
        size = 2 * users
    matrix = csr_array((np.ones(slots), columns, ends), shape=(size, size))
    labels: NDArray[np.int32] = connected_components(matrix, directed=False)[1]
    return labels[:users].reshape(trials, n)


_LABELS: dict[str, Callable[[Targets, bool], NDArray[np.int32]]] = {
    "scipy": _scipy_labels,
    "networkx": _networkx_labels,
}

BACKENDS = tuple(_LABELS)


@dataclass(frozen=True, eq=False)
class Components:
    """For each graph: its components, the users in the largest and smallest, and the users alone.

    Without a clear share a component has as many left as right copies; its size is that number.
    """

    counts: NDArray[np.int64]
    largest: NDArray[np.int64]
    smallest: NDArray[np.int64]
    alone: NDArray[np.int64]


def _blocks(trials: int, slots: int) -> Iterator[slice]:
    return blocks(trials, max(1, _SLOTS_TOGETHER // slots))


def component_labels(
    targets: ArrayLike, *, clear_share: bool = True, backend: str = "scipy"
) -> NDArray[np.int32]:
    """Return the component of each user (without a clear share, of its left copy).

    Parameters
    ----------
    targets : (trials, n, m) or (n, m) array_like of int
        Graphs, as `sample_targets` returns them.
    clear_share : bool
        Whether each user's copies are one vertex.
    backend : {"scipy", "networkx"}
        The fast one, or the reference.

    Returns
    -------
    (trials, n) ndarray of int32
        Components numbered from 0 in each graph, by their first users.

    Examples
    --------
    >>> component_labels([[1, 0], [0, 1], [2, 2]])
    array([[0, 0, 1]], dtype=int32)
    """
    graphs = checked_targets(targets)
    find = _LABELS[choice("backend", backend, BACKENDS)]
    clear = flag("clear_share", clear_share)
    labels = np.empty(graphs.shape[:2], dtype=np.int32)
    for part in _blocks(len(graphs), graphs[0].size):
        for row, found in zip(labels[part], find(graphs[part], clear), strict=True):
            _, first, which = np.unique(found, return_index=True, return_inverse=True)
            row[:] = np.argsort(np.argsort(first))[which]
    return labels


def count_components(
    targets: ArrayLike, *, clear_share: bool = True, backend: str = "scipy"
) -> Components:
    """Count the components of graphs, and the users in them.

    Parameters
    ----------
    targets, clear_share, backend
        As for `component_labels`.

    Examples
    --------
    >>> found = count_components([[1, 0], [0, 1], [2, 2]])
    >>> found.counts, found.largest, found.alone
    (array([2]), array([2]), array([1]))
    """
    graphs = checked_targets(targets)
    return counted(graphs, flag("clear_share", clear_share), choice("backend", backend, BACKENDS))


def counted(graphs: Targets, clear_share: bool, backend: str) -> Components:
    """Return `count_components` of graphs that are already checked."""
    trials, n, m = graphs.shape
    result = Components(*(np.empty(trials, dtype=np.int64) for _ in range(4)))
    for part in _blocks(trials, n * m):
        labels = _LABELS[backend](graphs[part], clear_share)
        size = len(labels)
        if backend == "networkx":  # its labels begin at 0 in each graph
            labels = labels + (n * np.arange(size, dtype=np.int32))[:, None]
        sizes = np.bincount(labels.ravel())
        owner = np.zeros(sizes.size, dtype=np.int64)
        owner[labels] = np.arange(size)[:, None]
        used = sizes > 0
        sizes, owner = sizes[used], owner[used]
        result.counts[part] = np.bincount(owner, minlength=size)
        order = np.lexsort((sizes, owner))
        ends = np.cumsum(result.counts[part])
        result.largest[part] = sizes[order][ends - 1]
        result.smallest[part] = sizes[order][ends - result.counts[part]]
        result.alone[part] = np.bincount(owner[sizes == 1], minlength=size)
    return result
