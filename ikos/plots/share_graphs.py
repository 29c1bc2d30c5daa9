"""Pictures of share graphs, their components coloured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import flag
from ikos.graphs import component_labels, multigraph
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
"""Most users and edges of a graph that is drawn; one that is legible has fewer."""

Point = NDArray[np.float64]

_DARK = (BLUE, GREEN, VERMILLION)

_SIZES = {"o": 14.5, "s": 13.5, "D": 13.5, "p": 17.0, "h": 16.0}
"""Points across, so that two digits fit in."""

_LEGEND = 8
"""Most components that the legend names one by one."""


# A graph


@dataclass(frozen=True)
class _Look:
    """How a component of this many users is drawn; hollow, if it is a single user."""

    size: int
    colour: str
    marker: str

    @property
    def alone(self) -> bool:
        return self.size == 1

    @property
    def line(self) -> str:
        return GREY if self.alone else self.colour

    @property
    def marking(self) -> dict[str, Any]:
        return {
            "marker": self.marker,
            "markersize": _SIZES[self.marker],
            "markerfacecolor": "white" if self.alone else self.colour,
            "markeredgecolor": BLACK if self.alone else "white",
            "markeredgewidth": 1.3,
        }

    @property
    def text(self) -> str:
        return "white" if self.colour in _DARK and not self.alone else BLACK


def _by_size(labels: NDArray[np.int32]) -> list[int]:
    """Return the components, the largest first."""
    order: list[int] = np.argsort(-np.bincount(labels), kind="stable").tolist()
    return order


def _looks(labels: NDArray[np.int32]) -> list[_Look]:
    """Return a look for each component."""
    sizes = np.bincount(labels).tolist()
    looks = {
        part: _Look(sizes[part], colour, marker if sizes[part] > 1 else "o")
        for part, colour, marker in zip(
            _by_size(labels), cycle(COLOURS), cycle(MARKERS), strict=False
        )
    }
    return [looks[part] for part in range(len(sizes))]


def graph_figure(
    targets: ArrayLike, *, clear_share: bool = True, title: str | None = None
) -> Figure:
    """Draw one share graph, its components apart and each in a colour and shape of its own.

    Every edge is drawn: repeated ones as bundles of arcs, self-loops as loops. Users who are a
    component of their own are hollow. Without a clear share, left copies stand on the left and
    right ones on the right. The same graph gives the same picture.

    Parameters
    ----------
    targets : (n, m) array_like of int
        One of the graphs of `ikos.graphs.sample_targets`; up to 100 users and 1000 edges, legible
        up to about 40 users.
    clear_share : bool
        Whether the users' copies are one vertex each.
    title : str, optional
        By default it says how many components there are.

    Returns
    -------
    Figure

    Examples
    --------
    >>> figure = graph_figure([[1, 0], [0, 1], [2, 2]])
    >>> print(figure.axes[0].get_title(loc="left"))
    C = 2 components of 3 users, m = 2 shuffled messages of each
    """
    graph = multigraph(targets, clear_share=flag("clear_share", clear_share))
    edges = np.asarray(targets)
    n, m = edges.shape
    if n > MAX_DRAWN_USERS or n * m > MAX_DRAWN_SLOTS:
        raise ValueError(
            f"targets must have at most {MAX_DRAWN_USERS} users and {MAX_DRAWN_SLOTS} edges to be "
            f"drawn, got {n} and {n * m}"
        )
    labels = component_labels(edges, clear_share=clear_share)[0]
    looks = _looks(labels)
    owners: dict[Any, int] = dict(enumerate(labels.tolist()))
    place = _components_apart(graph, labels) if clear_share else _columns(edges, labels)
    if not clear_share:
        ends = zip(labels.tolist(), edges.tolist(), strict=True)
        receivers = {("right", to): part for part, row in ends for to in row}
        owners = {("left", user): part for user, part in owners.items()} | receivers
    figure, axes = _canvas(place, clear_share)
    _draw_edges(axes, graph, place, owners, looks)
    _draw_users(axes, place, owners, looks)
    if title is None:
        parts = len(looks)
        title = (
            f"C = {parts} component{'s' if parts > 1 else ''} of {n} "
            f"user{'s' if n > 1 else ''}, m = {m} shuffled message{'s' if m > 1 else ''} of each"
        )
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=24 if clear_share else 34)
    _name_components(axes, looks, clear_share)
    return figure


def _user(vertex: Any) -> int:
    return int(vertex[1] if isinstance(vertex, tuple) else vertex)


def _components_apart(graph: Any, labels: NDArray[np.int32]) -> dict[Any, Point]:
    """Place users: near those they are joined to, in rows of components, the largest first.

    The unit is the distance at which two users can be told apart with ease.
    """
    boxes = []
    for part in _by_size(labels):
        users = np.flatnonzero(labels == part).tolist()
        boxes.append((users, _spread_out(nx.Graph(graph.subgraph(users)))))
    widths = [np.ptp(points[:, 0]) + 1.4 for _, points in boxes]
    area = sum((np.ptp(points[:, 0]) + 1.4) * (np.ptp(points[:, 1]) + 1.4) for _, points in boxes)
    line = max(max(widths), 1.5 * math.sqrt(area))
    place: dict[Any, Point] = {}
    left = top = deepest = 0.0
    for (users, points), width in zip(boxes, widths, strict=True):
        if left and left + width > line + 1e-9:
            left, top, deepest = 0.0, top - deepest, 0.0
        corner = np.array([points[:, 0].min(), points[:, 1].max()])
        for user, point in zip(users, points, strict=True):
            place[user] = point - corner + np.array([left + 0.7, top - 0.7])
        left += width
        deepest = max(deepest, float(np.ptp(points[:, 1])) + 1.4)
    return place


def _spread_out(graph: Any) -> Point:
    """Return places for the users of one component, at least a unit apart, in their order."""
    users = sorted(graph)
    if len(users) == 1:
        return np.zeros((1, 2))
    if len(users) == 2:
        return np.array([[0.0, 0.0], [1.6, 0.0]])
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    if max(dict(graph.degree()).values()) <= 2:  # a path or a ring
        ordered = nx.Graph()
        ordered.add_nodes_from(nx.dfs_preorder_nodes(graph, _end(graph)))
        found = nx.circular_layout(ordered)
    else:
        found = nx.kamada_kawai_layout(graph)
    points = np.array([found[user] for user in users])
    gaps = np.linalg.norm(points[:, None] - points[None], axis=-1) + 1e9 * np.eye(len(users))
    # the nearest two decide, unless that would make the picture huge
    scale = min(1.15 / max(float(gaps.min()), 1e-9), 1.0 * len(users))
    scale = max(scale, 1.1 / float(np.median(gaps.min(axis=1))))
    return _pushed_apart(points * scale)


def _end(graph: Any) -> int:
    """Return where to begin on a path or a ring: at an end, if there is one."""
    return int(min(graph, key=lambda user: (graph.degree(user), user)))


def _pushed_apart(points: Point) -> Point:
    """Move points that are too near to each other, a little at a time."""
    points = points.copy()
    for _ in range(200):
        apart = points[:, None] - points[None]
        gaps = np.linalg.norm(apart, axis=-1) + 1e9 * np.eye(len(points))
        if gaps.min() >= 1.0:
            break
        push = np.clip(1.02 - gaps, 0, None)[..., None] * apart / np.maximum(gaps, 1e-9)[..., None]
        points += push.sum(axis=1) / 2
    return points


_ROW, _ACROSS, _BETWEEN = 0.72, 4.5, 0.75


def _columns(edges: NDArray[Any], labels: NDArray[np.int32]) -> dict[Any, Point]:
    """Place left and right copies in two columns, components below each other."""
    place: dict[Any, Point] = {}
    depth = 0.0
    for part in _by_size(labels):
        left = np.flatnonzero(labels == part).tolist()
        right = sorted(set(edges[left].ravel().tolist()))
        left, right = _uncrossed(edges, left, right)
        for row, (sender, receiver) in enumerate(zip(left, right, strict=True)):
            place["left", sender] = np.array([0.0, depth - row * _ROW])
            place["right", receiver] = np.array([_ACROSS, depth - row * _ROW])
        depth -= len(left) * _ROW + _BETWEEN
    return place


def _uncrossed(
    edges: NDArray[Any], left: list[int], right: list[int]
) -> tuple[list[int], list[int]]:
    """Return the two columns in an order in which fewer edges cross: by their neighbours' means."""
    for _ in range(24):
        rank = {user: i for i, user in enumerate(left)}
        met: dict[int, list[int]] = {user: [] for user in right}
        for user in left:
            for to in edges[user].tolist():
                met[to].append(rank[user])
        right = sorted(right, key=lambda user: (sum(met[user]) / len(met[user]), user))
        rank = {user: i for i, user in enumerate(right)}
        left = sorted(left, key=lambda user: (sum(rank[to] for to in edges[user].tolist()), user))
    return left, right


_INCHES = 0.5
"""Of one unit."""


def _canvas(place: dict[Any, Point], clear_share: bool) -> tuple[Figure, Axes]:
    points = np.array(list(place.values()))
    low, high = points.min(axis=0) - 0.9, points.max(axis=0) + 0.9
    width, height = (high - low) * _INCHES
    # room for the title above, and for the legend on the right
    above, below, beside = (0.75 if clear_share else 0.95), 0.15, 3.0
    whole = max(width + beside + 0.2, 6.6), max(height + above + below, 2.4)
    figure = Figure(figsize=whole, dpi=150)
    axes = figure.add_axes(
        (0.15 / whole[0], 1 - (above + height) / whole[1], width / whole[0], height / whole[1])
    )
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_axis_off()
    return figure, axes


def _draw_edges(
    axes: Axes, graph: Any, place: dict[Any, Point], owners: dict[Any, int], looks: Sequence[_Look]
) -> None:
    """Draw every edge, with a name that says of which user, to which one, and which message."""
    together: dict[tuple[Any, Any], list[tuple[Any, Any, int]]] = {}
    for one, other, message in graph.edges(data="message"):
        key = (one, other) if place[one].tolist() <= place[other].tolist() else (other, one)
        together.setdefault(key, []).append((one, other, message))
    free = {
        one: _free_angle([place[to] - place[one] for to in graph[one] if to != one])
        for one, other in together
        if one == other
    }
    for (one, other), bundle in together.items():
        look = looks[owners[one]]
        for i, (sender, receiver, message) in enumerate(bundle):
            if one == other:
                path = _loop(place[one], free[one], i, len(bundle))
            else:
                path = _arc(place[one], place[other], i - (len(bundle) - 1) / 2)
            axes.add_patch(
                PathPatch(
                    path,
                    facecolor="none",
                    edgecolor=look.line,
                    linewidth=1.3,
                    alpha=0.9,
                    zorder=2,
                    clip_on=False,
                    gid=f"edge-{_user(sender)}-{_user(receiver)}-{message}",
                )
            )


def _arc(start: Point, end: Point, rank: float) -> Path:
    """Return a curve between two users, the more bent the farther from a bundle's middle."""
    along = end - start
    length = max(float(np.linalg.norm(along)), 1e-9)
    across = np.array([-along[1], along[0]]) / length
    middle = (start + end) / 2 + across * rank * min(0.42, 0.3 * length)
    return Path([start, middle, end], [Path.MOVETO, Path.CURVE3, Path.CURVE3])


def _free_angle(towards: Sequence[Point]) -> float:
    """Return the middle of the widest angle between a user's neighbours; upwards without any."""
    if not towards:
        return math.pi / 2
    angles = sorted(math.atan2(y, x) for x, y in towards)
    gaps = [after - angle for angle, after in pairwise([*angles, angles[0] + 2 * math.pi])]
    widest = max(range(len(gaps)), key=gaps.__getitem__)
    return angles[widest] + gaps[widest] / 2


def _loop(at: Point, angle: float, rank: int, many: int) -> Path:
    """Return a loop at a user, in a direction where there is room; several fan out."""
    angle += (rank - (many - 1) / 2) * min(1.1, 2 * math.pi / many)
    half = min(0.5, 0.9 * math.pi / max(many, 2))
    legs = [at + 1.15 * np.array([math.cos(a), math.sin(a)]) for a in (angle - half, angle + half)]
    return Path([at, *legs, at], [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])


def _draw_users(
    axes: Axes, place: dict[Any, Point], owners: dict[Any, int], looks: Sequence[_Look]
) -> None:
    for vertex, (x, y) in place.items():
        look = looks[owners[vertex]]
        side = f"{vertex[0]}-" if isinstance(vertex, tuple) else ""
        axes.plot(
            [x], [y], **look.marking, zorder=4, clip_on=False, gid=f"user-{side}{_user(vertex)}"
        )
        axes.text(
            x,
            y,
            str(_user(vertex)),
            color=look.text,
            fontsize=7.5,
            fontweight="bold",
            ha="center",
            va="center_baseline",
            zorder=5,
        )
    if isinstance(next(iter(place)), tuple):
        for x, words in ((0.0, "left copies"), (_ACROSS, "right copies")):
            axes.text(x, 0.5, words, fontsize=8.5, color=GREY, ha="center", va="bottom")


def _name_components(axes: Axes, looks: Sequence[_Look], clear_share: bool) -> None:
    larger = sorted((look for look in looks if not look.alone), key=lambda look: -look.size)
    alone = [look for look in looks if look.alone]
    handles = [_handle(look, _size_text(look.size, clear_share)) for look in larger[:_LEGEND]]
    if len(larger) > _LEGEND:
        more = f"and {len(larger) - _LEGEND} more components"
        handles.append(Line2D([], [], linestyle="none", label=more))
    if alone:
        if clear_share:
            words = "a user alone: nothing hides it"
        else:
            words = "one left and one right copy:\nnothing hides them"
        handles.append(_handle(alone[0], words + (f" ({len(alone)})" if len(alone) > 1 else "")))
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        bbox_transform=axes.transAxes,
        frameon=False,
        fontsize=9,
        borderaxespad=0.3,
        labelspacing=0.8,
    )
    words = "an edge for each shuffled message"
    if not clear_share:
        words += ", from its sender's left copy to a right copy"
    axes.annotate(
        words,
        (0, 1),
        (0, 10 if clear_share else 20),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8.5,
        color=GREY,
        annotation_clip=False,
    )


def _size_text(size: int, clear_share: bool) -> str:
    if clear_share:
        return f"a component of {size} users"
    return f"a component of {size} left\nand {size} right copies"


def _handle(look: _Look, words: str) -> Line2D:
    return Line2D([], [], linestyle="none", label=words, **look.marking)
