"""Pictures of share graphs, their components coloured."""

from __future__ import annotations

import math
from itertools import cycle
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidValue
from ikos.graphs import multigraph
from ikos.plots.style import BLACK, BLUE, COLOURS, GREEN, GREY, MARKERS, VERMILLION

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

MAX_DRAWN_USERS = 100
MAX_DRAWN_SLOTS = 1000
"""Most users and edges of a graph that is drawn; a legible one has fewer."""

Point = NDArray[np.float64]

_DARK = (BLUE, GREEN, VERMILLION)
_SIZES = {"o": 14.5, "s": 13.5, "D": 13.5, "p": 17.0, "h": 16.0}  # two digits fit
_LEGEND = 8  # most components named one by one in the legend
_INCHES = 0.5  # of one unit; users on a circle are 1.15 apart
_ROW, _ACROSS = 0.72, 4.5  # distances of copies in columns: between two, and between the columns


class _Look(NamedTuple):
    """How a component of this many users is drawn; hollow if it is a single user."""

    size: int
    colour: str
    marker: str

    @property
    def marking(self) -> dict[str, Any]:
        face, edge = ("white", BLACK) if self.size == 1 else (self.colour, "white")
        return {
            "marker": self.marker, "markersize": _SIZES[self.marker],
            "markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": 1.3,
        }  # fmt: skip


Looks = dict[Any, _Look]  # of each vertex


def graph_figure(
    targets: ArrayLike, *, clear_share: bool = True, title: str | None = None
) -> Figure:
    """Draw one share graph, each component on a circle, in its own colour and shape.

    Every edge is drawn: repeated ones as bundles of arcs, self-loops as loops. Users who are a
    component by themselves are hollow. Without a clear share, left copies are on the left and right
    copies on the right. The same graph always gives the same picture.

    Parameters
    ----------
    targets, clear_share
        One graph, (n, m), as for `ikos.graphs.multigraph`; up to 100 users and 1000 edges, legible
        up to about 40 users.
    title : str, optional
        By default, the number of components.

    Examples
    --------
    >>> figure = graph_figure([[1, 0], [0, 1], [2, 2]])
    >>> print(figure.axes[0].get_title(loc="left"))
    C = 2 components of 3 users, m = 2 shuffled messages of each
    """
    graph = multigraph(targets, clear_share=clear_share)
    n, m = np.shape(targets)
    if n > MAX_DRAWN_USERS or n * m > MAX_DRAWN_SLOTS:
        raise InvalidValue(
            "targets",
            f"must have at most {MAX_DRAWN_USERS} users and {MAX_DRAWN_SLOTS} edges to be "
            f"drawn, got {n} and {n * m}",
        )
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=len, reverse=True)
    sizes = [len(part) if clear_share else len(part) // 2 for part in parts]
    looks = [
        _Look(size, colour, marker if size > 1 else "o")
        for size, colour, marker in zip(sizes, cycle(COLOURS), cycle(MARKERS), strict=False)
    ]
    owner = {vertex: look for part, look in zip(parts, looks, strict=True) for vertex in part}
    place, outwards = _circles(graph, parts) if clear_share else (_columns(parts), {})
    figure, axes = _canvas(place)
    _draw_edges(axes, graph, place, outwards, owner)
    _draw_users(axes, place, owner)
    if title is None:
        title = (
            f"C = {len(parts)} component{'s' * (len(parts) > 1)} of {n} user{'s' * (n > 1)}, "
            f"m = {m} shuffled message{'s' * (m > 1)} of each"
        )
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=32)
    _name_components(axes, looks, clear_share)
    return figure


def _user(vertex: Any) -> int:
    return int(vertex[1] if isinstance(vertex, tuple) else vertex)


def _circles(graph: Any, parts: list[list[Any]]) -> tuple[dict[Any, Point], dict[Any, float]]:
    """Place each component on a circle, in rows, depth first; also return angles away from it."""
    sizes = np.array([len(part) for part in parts])
    radii = np.where(sizes > 1, 0.575 / np.sin(np.pi / np.maximum(sizes, 2)), 0.0)
    line = max(2 * radii.max() + 1.4, 1.5 * math.sqrt(float(((2 * radii + 1.4) ** 2).sum())))
    place: dict[Any, Point] = {}
    outwards: dict[Any, float] = {}
    left = top = deepest = 0.0
    for users, radius in zip(parts, radii.tolist(), strict=True):
        width = 2 * radius + 1.4
        if left + width > line + 1e-9:
            left, top, deepest = 0.0, top - deepest, 0.0
        first = min(users, key=lambda user: (len(set(graph[user]) - {user}), user))
        centre = np.array([left + width / 2, top - width / 2])
        for i, user in enumerate(nx.dfs_preorder_nodes(graph, first)):
            outwards[user] = angle = math.pi * (0.5 + 2 * i / len(users))
            place[user] = centre + radius * np.array([math.cos(angle), math.sin(angle)])
        left, deepest = left + width, max(deepest, width)
    return place, outwards


def _columns(parts: list[list[Any]]) -> dict[Any, Point]:
    """Place left and right copies in two columns, components below each other."""
    place: dict[Any, Point] = {}
    depth = 0.0
    for part in parts:
        half = len(part) // 2  # left copies come first, and are as many
        for left, right in zip(part[:half], part[half:], strict=True):
            place[left], place[right] = np.array([0.0, depth]), np.array([_ACROSS, depth])
            depth -= _ROW
        depth -= _ROW
    return place


def _canvas(place: dict[Any, Point]) -> tuple[Figure, Axes]:
    points = np.array(list(place.values()))
    low, high = points.min(axis=0) - 1.1, points.max(axis=0) + 1.1
    width, height = (high - low) * _INCHES
    # room for the title above, and for the legend on the right
    whole = max(width + 3.2, 6.6), max(height + 1.1, 2.4)
    figure = Figure(figsize=whole, dpi=150)
    left, bottom = 0.15 / whole[0], 1 - (0.95 + height) / whole[1]
    axes = figure.add_axes((left, bottom, width / whole[0], height / whole[1]))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_axis_off()
    return figure, axes


def _draw_edges(
    axes: Axes, graph: Any, place: dict[Any, Point], outwards: dict[Any, float], owner: Looks
) -> None:
    """Draw every edge, with a name that gives its sender, its receiver and its message."""
    bundles: dict[tuple[Any, Any], list[tuple[Any, Any, int]]] = {}
    for one, other, message in graph.edges(data="message"):
        bundles.setdefault((min(one, other), max(one, other)), []).append((one, other, message))
    for (first, last), bundle in bundles.items():
        look = owner[first]
        for i, (sender, receiver, message) in enumerate(bundle):
            if first == last:
                path = _loop(place[first], outwards[first], i, len(bundle))
            else:
                path = _arc(place[first], place[last], i - (len(bundle) - 1) / 2)
            axes.add_patch(PathPatch(
                path, facecolor="none", edgecolor=GREY if look.size == 1 else look.colour,
                linewidth=1.3, alpha=0.9, zorder=2, clip_on=False,
                gid=f"edge-{_user(sender)}-{_user(receiver)}-{message}",
            ))  # fmt: skip


def _arc(start: Point, end: Point, rank: float) -> Path:
    """Return a curve between two users, the more bent the farther from a bundle's middle."""
    along = end - start
    length = float(np.linalg.norm(along))
    across = np.array([-along[1], along[0]]) / length
    middle = (start + end) / 2 + across * rank * min(0.42, 0.3 * length)
    return Path([start, middle, end], [Path.MOVETO, Path.CURVE3, Path.CURVE3])


def _loop(at: Point, angle: float, rank: int, many: int) -> Path:
    """Return a loop at a user, away from the circle; several fan out."""
    angle += (rank - (many - 1) / 2) * min(1.1, 2 * math.pi / many)
    half = min(0.5, 0.9 * math.pi / max(many, 2))
    legs = [at + 1.15 * np.array([math.cos(a), math.sin(a)]) for a in (angle - half, angle + half)]
    return Path([at, *legs, at], [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])


def _draw_users(axes: Axes, place: dict[Any, Point], owner: Looks) -> None:
    for vertex, (x, y) in place.items():
        look = owner[vertex]
        side = f"{vertex[0]}-" if isinstance(vertex, tuple) else ""
        name = f"user-{side}{_user(vertex)}"
        axes.plot([x], [y], **look.marking, zorder=4, clip_on=False, gid=name)
        axes.text(
            x, y, str(_user(vertex)), fontsize=7.5, fontweight="bold", zorder=5,
            color="white" if look.colour in _DARK and look.size > 1 else BLACK,
            ha="center", va="center_baseline",
        )  # fmt: skip


def _name_components(axes: Axes, looks: list[_Look], clear_share: bool) -> None:
    """Add the legend; the looks are of the components, the largest first."""
    larger = [look for look in looks if look.size > 1]
    alone = looks[len(larger) :]
    if clear_share:
        size, single, sent = "a component of {} users", "a user alone: nothing hides it", ""
    else:
        size = "a component of {0} left\nand {0} right copies"
        single = "one left and one right copy:\nnothing hides them"
        sent = ", from its sender's left copy to a right copy"
    named = [(size.format(look.size), look.marking) for look in larger[:_LEGEND]]
    if len(larger) > _LEGEND:
        named.append((f"and {len(larger) - _LEGEND} more components", {}))
    if alone:
        named.append((single + f" ({len(alone)})" * (len(alone) > 1), alone[0].marking))
    axes.legend(
        handles=[Line2D([], [], linestyle="none", label=words, **how) for words, how in named],
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9,
        borderaxespad=0.3, labelspacing=0.8,
    )  # fmt: skip
    axes.annotate(
        f"an edge for each shuffled message{sent}", (0, 1), (0, 15), xycoords="axes fraction",
        textcoords="offset points", fontsize=8.5, color=GREY, annotation_clip=False,
    )  # fmt: skip
