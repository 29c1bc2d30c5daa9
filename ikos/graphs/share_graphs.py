"""Share graphs as sampled arrays and for networkx, and their connected components.

A shuffler moves n users' m n slots, m per user: m independent permutations of the n users (parallel
shufflers), or one of all m n slots (a single one). Slot h of user i goes to a slot of user
``targets[i, h]``, and the graph has an edge for each slot, including self-loops and repeated edges:

- with a clear share, between users i and ``targets[i, h]``: for parallel shufflers the
  unconditioned permutation model R*(n, 2m) of BBGN20, Definition C.1;
- without one, between the left copy of user i and the right copy of user ``targets[i, h]``.

The clear share decides only how the array is read. Components are counted by scipy, many graphs as
blocks of one sparse matrix that holds the sampled arrays, or one graph at a time by networkx, the
reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ikos._validation import InvalidType, InvalidValue, choice, flag, integer
from ikos.counts.share_graph import SHUFFLERS, ShareGraph
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource, secure

MAX_SLOTS = (1 << 30) - 1
"""Most slots of one graph, n m: edges, and twice as many vertices, are 32-bit integers."""

Targets = NDArray[np.int32]


@dataclass(frozen=True)
class Model:
    """The share graph of n users, with n m at most `MAX_SLOTS`."""

    n: int
    graph: ShareGraph

    @classmethod
    def of(cls, n: object, m: object, shuffler: object, clear_share: object) -> Model:
        """Check and return a model."""
        users = integer("n", n, low=1, high=MAX_SLOTS)
        slots = integer("m", m, low=1, high=MAX_SLOTS)
        if users * slots > MAX_SLOTS:
            raise InvalidValue(
                "n and m", f"must have a product of at most {MAX_SLOTS}, got {users} and {slots}"
            )
        kind, clear = choice("shuffler", shuffler, SHUFFLERS), flag("clear_share", clear_share)
        return cls(users, ShareGraph(slots, kind, clear))

    @property
    def slots(self) -> int:
        """Number of slots of all users, n m."""
        return self.n * self.graph.m

    def sample(self, trials: int, rng: RandomSource) -> Targets:
        """Draw graphs as arrays, as `sample_targets` returns them."""
        n, m = self.n, self.graph.m
        if self.graph.shuffler == "single":
            targets = rng.permutations(trials, m * n).reshape(trials, n, m)
            targets //= np.int32(m)
            return targets
        columns = rng.permutations(trials * m, n).reshape(trials, m, n)
        return np.ascontiguousarray(columns.transpose(0, 2, 1))


def sample_targets(
    n: int, m: int, trials: int = 1, *, shuffler: str = "parallel", rng: RandomSource | None = None
) -> Targets:
    """Draw share graphs as arrays, (trials, n, m), by the arguments of `component_counts`.

    ``[t, i, h]`` is the user whose slot receives the h-th slot of user i, in graph t.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> sample_targets(3, 2, rng=DeterministicRandom(1)).tolist()
    [[[2, 1], [0, 0], [1, 2]]]
    """
    model = Model.of(n, m, shuffler, True)
    return model.sample(integer("trials", trials, low=1), secure(rng))


def replayed_targets(n: int, m: int, *, shuffler: str = "parallel", rng: RandomSource) -> Targets:
    """Return the share graph of a simulated run as an array, (n, m): who went where.

    ``protocol.shuffle(shares, rng, order="permuted")`` draws its permutations from ``rng``; this
    function draws them again, from a source with the same seed. So it is for simulations: the
    randomness of a real shuffler is its secret, and no module of this library records it.

    Parameters
    ----------
    n, m : int
        Users, and shuffled messages per user.
    shuffler : {"parallel", "single"}
        As in the protocol.
    rng : RandomSource
        `ikos.testing.DeterministicRandom`, with the seed of the shuffle.

    Returns
    -------
    (n, m) ndarray of int32
        ``[i, h]`` is the user whose place share h of user i took. The share of parallel shufflers
        is ``view.columns[h][targets[i, h]]``. A single shuffler releases m n messages; the place at
        index p is one of user ``p % n``.

    Examples
    --------
    >>> import ikos
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = ikos.SecureSum(5, upper=3, messages=4)
    >>> shares = protocol.share([0, 1, 2, 3, 3], DeterministicRandom(1))
    >>> view = protocol.shuffle(shares, DeterministicRandom(2), order="permuted")
    >>> targets = replayed_targets(5, 3, rng=DeterministicRandom(2))
    >>> [int(view.columns[h][targets[0, h]]) for h in range(3)] == shares[:3, 0].tolist()
    True
    """
    if rng is None:
        raise InvalidType("rng", "must be a source with the seed of the shuffle, got None")
    model, source = Model.of(n, m, shuffler, True), secure(rng)
    columns = 1 if model.graph.shuffler == "single" else model.graph.m
    size = model.slots // columns
    places = [np.argsort(source.permutation(size)) for _ in range(columns)]
    # shares are (m, n): a single shuffler receives one row after the other
    users = np.concatenate(places).reshape(model.graph.m, model.n) % model.n
    return np.ascontiguousarray(users.T, dtype=np.int32)


def checked_targets(targets: ArrayLike) -> Targets:
    """Return graphs as a (trials, n, m) array; refuse those that are not permutations."""
    array = np.asarray(targets)
    if array.dtype.kind not in "iu":
        raise InvalidType("targets", f"must hold integers, got an array of {array.dtype}")
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidValue(
            "targets", f"must have shape (trials, n, m) or (n, m), got {array.shape}"
        )
    trials, n, m = array.shape
    if n * m > MAX_SLOTS:
        raise ValueError(f"n * m must be at most {MAX_SLOTS}, got {n} * {m}")
    if array.min() < 0 or array.max() >= n:
        raise InvalidValue(
            "targets", f"must be users 0 to {n - 1}, got {array.min()} to {array.max()}"
        )
    flat = array.reshape(trials, n * m).astype(np.int64) + n * np.arange(trials)[:, None]
    if (np.bincount(flat.ravel(), minlength=trials * n) != m).any():
        raise InvalidValue(
            "targets", f"must name each user {m} times in each graph, once for each slot"
        )
    return array.astype(np.int32, copy=False)


def multigraph(targets: ArrayLike, *, clear_share: bool = True) -> Any:
    """Return one share graph, (n, m), as a ``networkx.MultiGraph``.

    With a clear share its vertices are the users 0 to n - 1; without one they are ("left", i) and
    ("right", i), with the node attribute ``bipartite`` 0 and 1. Each edge has the attribute
    ``message``, the number h of its slot.

    Examples
    --------
    >>> graph = multigraph([[1, 0], [0, 1]], clear_share=False)
    >>> graph.number_of_nodes(), graph.number_of_edges(("left", 0), ("right", 1))
    (4, 1)
    """
    array = np.asarray(targets)
    if array.ndim != 2:
        raise InvalidValue("targets", f"must have shape (n, m), got {array.shape}")
    rows = checked_targets(array)[0].tolist()
    graph = nx.MultiGraph()
    left: list[Any] = list(range(len(rows)))
    right = left
    if flag("clear_share", clear_share):
        graph.add_nodes_from(left)
    else:
        left, right = [[(side, i) for i in left] for side in ("left", "right")]
        graph.add_nodes_from(left, bipartite=0)
        graph.add_nodes_from(right, bipartite=1)
    for user, row in zip(left, rows, strict=True):
        graph.add_edges_from((user, right[to], {"message": h}) for h, to in enumerate(row))
    return graph


# Components

BACKENDS = ("scipy", "networkx")

_SLOTS_PER_PASS = 1 << 21


def _networkx_labels(targets: Targets, clear_share: bool) -> NDArray[np.int32]:
    labels = np.empty(targets.shape[:2], dtype=np.int32)
    name = 0
    for row, edges in zip(labels, targets, strict=True):
        graph = multigraph(edges, clear_share=clear_share)
        for component in nx.connected_components(graph):
            users = component if clear_share else {i for side, i in component if side == "left"}
            row[list(users)] = name
            name += 1
    return labels


def _scipy_labels(targets: Targets, clear_share: bool) -> NDArray[np.int32]:
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


def _labels(
    graphs: Targets, clear_share: bool, backend: str
) -> Iterator[tuple[slice, NDArray[np.int32]]]:
    """Yield blocks of graphs with labels of each user's component, which differ between graphs."""
    find = _networkx_labels if backend == "networkx" else _scipy_labels
    for part in blocks(len(graphs), max(1, _SLOTS_PER_PASS // graphs[0].size)):
        yield part, find(graphs[part], clear_share)


@dataclass(frozen=True, eq=False)
class Components:
    """For each graph: its components, the users in the smallest one, and the users alone.

    Without a clear share a component has as many left as right copies; its size is that number.
    """

    counts: NDArray[np.int64]
    smallest: NDArray[np.int64]
    alone: NDArray[np.int64]


def component_labels(
    targets: ArrayLike, *, clear_share: bool = True, backend: str = "scipy"
) -> NDArray[np.int32]:
    """Return the component of each user (without a clear share, of its left copy), (trials, n).

    Components are numbered from 0 in each graph, by their first users.

    Parameters
    ----------
    targets : (trials, n, m) or (n, m) array_like of int
        Graphs, as `sample_targets` returns them.
    clear_share : bool
        Whether each user's copies are one vertex.
    backend : {"scipy", "networkx"}
        Default and reference implementation.

    Examples
    --------
    >>> component_labels([[1, 0], [0, 1], [2, 2]])
    array([[0, 0, 1]], dtype=int32)
    """
    graphs = checked_targets(targets)
    clear, kind = flag("clear_share", clear_share), choice("backend", backend, BACKENDS)
    result = np.empty(graphs.shape[:2], dtype=np.int32)
    for part, labels in _labels(graphs, clear, kind):
        for row, labels_of_graph in zip(result[part], labels, strict=True):
            _, first, which = np.unique(labels_of_graph, return_index=True, return_inverse=True)
            row[:] = np.argsort(np.argsort(first))[which]
    return result


def count_components(
    targets: ArrayLike, *, clear_share: bool = True, backend: str = "scipy"
) -> Components:
    """Count the components of graphs, and the users in them, as for `component_labels`.

    Examples
    --------
    >>> found = count_components([[1, 0], [0, 1], [2, 2]])
    >>> found.counts, found.smallest, found.alone
    (array([2]), array([1]), array([1]))
    """
    graphs = checked_targets(targets)
    return counted(graphs, flag("clear_share", clear_share), choice("backend", backend, BACKENDS))


def counted(graphs: Targets, clear_share: bool, backend: str) -> Components:
    """Return `count_components` of graphs that are already checked."""
    trials, n, _ = graphs.shape
    result = Components(np.empty(trials, dtype=np.int64), np.full(trials, n), np.empty(trials, int))
    for part, labels in _labels(graphs, clear_share, backend):
        size = len(labels)
        sizes = np.bincount(labels.ravel())
        owner = np.zeros(sizes.size, dtype=np.int64)
        owner[labels] = np.arange(size)[:, None]
        owner, sizes = owner[sizes > 0], sizes[sizes > 0]  # scipy also labels right copies
        result.counts[part] = np.bincount(owner, minlength=size)
        np.minimum.at(result.smallest[part], owner, sizes)
        result.alone[part] = np.bincount(owner[sizes == 1], minlength=size)
    return result
