"""Pictures of share graphs, their components coloured."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue
from ikos.plots.style import BLACK, COLOURS, GREY, MARKERS

try:
    from matplotlib.axes import Axes
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

MAX_DRAWN_USERS = 100
MAX_DRAWN_EDGES = 1000


def graph_figure(graph: nx.MultiGraph) -> Figure:
    """Draw one share graph, each component in its own colour and shape.

    Repeated edges are arcs beside each other, repeated loops are inside each other. Users who are
    a component by themselves are hollow: nothing hides them. Without a clear share, left copies
    are on the left and right copies on the right. The same graph always gives the same picture.

    Parameters
    ----------
    graph : networkx.MultiGraph
        One graph, as `ikos.graphs.multigraph` returns it; up to 100 users and 1000 edges, legible
        up to about 40 users.

    Examples
    --------
    >>> from ikos.graphs import multigraph
    >>> figure = graph_figure(multigraph([[1, 0], [0, 1], [2, 2]]))
    >>> print(figure.axes[0].get_title(loc="left"))
    C = 2 components of n = 3 users, m = 2 shuffled messages each
    """
    n, m, clear_share = _shape(graph)
    if n > MAX_DRAWN_USERS or n * m > MAX_DRAWN_EDGES:
        raise InvalidValue(
            "graph",
            f"must have at most {MAX_DRAWN_USERS} users and {MAX_DRAWN_EDGES} edges to be drawn, "
            f"got {n} and {n * m}",
        )
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=len, reverse=True)
    place = _places(graph, parts, clear_share)
    inches = max(6.0, 2 + 0.6 * float(np.sqrt(n * m)))
    figure = Figure(figsize=(inches, inches), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    for part, colour, marker in zip(parts, cycle(COLOURS), cycle(MARKERS), strict=False):
        alone = len(part) == (1 if clear_share else 2)
        nx.draw_networkx_nodes(
            graph, place, nodelist=part, ax=axes, node_shape="o" if alone else marker,
            node_color="white" if alone else colour, edgecolors=BLACK if alone else "white",
        )  # fmt: skip
        names = {vertex: vertex[1] if isinstance(vertex, tuple) else vertex for vertex in part}
        nx.draw_networkx_labels(
            graph,
            place,
            labels=names,
            ax=axes,
            font_size=8,
            font_color=_ink("white" if alone else colour),
        )
        _draw_edges(axes, graph, place, part, GREY if alone else colour)
    if clear_share:
        axes.set_aspect("equal")
    axes.autoscale_view()
    axes.set_title(
        f"C = {len(parts)} component{'s' * (len(parts) > 1)} of n = {n} user{'s' * (n > 1)}, "
        f"m = {m} shuffled message{'s' * (m > 1)} each",
        loc="left", fontsize=10,
    )  # fmt: skip
    return figure


def _shape(graph: Any) -> tuple[int, int, bool]:
    """Return the users of a share graph, their messages, and whether a user is one vertex."""
    if not isinstance(graph, nx.MultiGraph) or graph.is_directed():
        raise InvalidType("graph", f"must be a networkx.MultiGraph, got {type(graph).__name__}")
    clear_share = not nx.get_node_attributes(graph, "bipartite")
    n = len(graph) if clear_share else len(graph) // 2
    m = graph.number_of_edges() // max(n, 1)
    # a graph of one even degree, or bipartite of one degree, is a union of permutations
    if {degree for _, degree in graph.degree()} != {m * (1 + clear_share)}:
        raise InvalidValue("graph", "must be a share graph, which has one degree everywhere")
    return n, m, clear_share


def _ink(colour: str) -> str:
    """Return the colour of letters on a colour, by its luminance."""
    return "white" if np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) < 0.5 else BLACK


def _places(graph: Any, parts: list[list[Any]], clear_share: bool) -> dict[Any, Any]:
    """Return where vertices are: on a circle, or copies of users in two columns."""
    if clear_share:
        order = [user for part in parts for user in nx.dfs_preorder_nodes(graph, part[0])]
        return dict(nx.circular_layout(order))
    # left copies come first in a component, and are as many as right ones
    halves = [(part[: len(part) // 2], part[len(part) // 2 :]) for part in parts]
    rows = [pair for left, right in halves for pair in zip(left, right, strict=True)]
    return {user: (side, -i) for i, pair in enumerate(rows) for side, user in enumerate(pair)}


def _draw_edges(
    axes: Axes, graph: Any, place: dict[Any, Any], part: list[Any], colour: str
) -> None:
    """Draw a component's edges: those that join the same users bend to either side.

    Loops are on the outside of the circle, where no other edge is.
    """
    drawn: Counter[Any] = Counter()
    for ends in sorted(tuple(sorted(edge)) for edge in graph.edges(part)):
        rank, drawn[ends] = drawn[ends], drawn[ends] + 1
        if ends[0] == ends[1]:
            axes.add_patch(_loop(np.asarray(place[ends[0]]), rank, colour))
            continue
        bend = (-1) ** rank * (rank + 1) // 2 * 0.15
        nx.draw_networkx_edges(
            graph, place, edgelist=[ends], ax=axes, arrows=True, arrowstyle="-",
            connectionstyle=f"arc3,rad={bend}", edge_color=colour,
        )  # fmt: skip


def _loop(at: NDArray[np.float64], rank: int, colour: str) -> PathPatch:
    """Return a loop at a vertex of the circle, larger than those of lower ranks."""
    length = float(np.linalg.norm(at))
    away = at / length if length > 0.5 else np.array([0.0, 1.0])  # a single vertex is in the middle
    across = np.array([-away[1], away[0]])
    size = 0.22 + 0.4 * rank / (rank + 4)
    path = Path(
        [at, at + size * (away + across), at + size * (away - across), at],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    return PathPatch(path, fill=False, edgecolor=colour, linewidth=1.0)
