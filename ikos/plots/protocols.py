"""Protocols for sums as a figure: their error against what each user sends."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ikos.plots.style import BLACK, BLUE, GREY, ORANGE, VERMILLION, plain

try:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter
    from matplotlib.transforms import ScaledTranslation
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

if TYPE_CHECKING:
    from ikos.baselines import ComparisonRow, Measurement

_CENTRAL = "central"
_OURS = ("private-sum", "private-vector-sum")
_LINE = 105

_LEAST = 1e-300
"""What stands for no error at all on a logarithmic axis."""

_STYLES: dict[str, dict[str, Any]] = {
    "ours": {"color": VERMILLION, "marker": "D", "markersize": 8},
    "shuffle": {"color": BLUE, "marker": "o", "markersize": 6},
    "local": {"color": ORANGE, "marker": "s", "markersize": 6},
}
_WORDS = {
    "ours": "shuffle model, private sums of ikos",
    "shuffle": "shuffle model",
    "local": "local model",
    "central": "central model, the best compared",
    "measured": "measured, about a 95 % interval",
}


@dataclass(frozen=True)
class _Point:
    """A marker: what is sent, and the mean squared error."""

    key: str
    kind: str
    sent: float
    mse: float
    measured: tuple[float, float, float] | None


def protocols_figure(
    rows: Iterable[ComparisonRow],
    title: str,
    *,
    measured: Mapping[str, Measurement] | None = None,
) -> Figure:
    """Return a figure of mean squared errors, against messages and against bits of each user.

    Parameters
    ----------
    rows : iterable of ComparisonRow
        What `ikos.baselines.comparison` returns; those without a protocol are left out. The central
        model is a line.
    title : str
        What is compared.
    measured : mapping, optional
        Measured errors by key, drawn over the bounds.

    Raises
    ------
    ValueError
        If there is nothing to draw.

    Examples
    --------
    >>> from ikos.baselines import comparison
    >>> rows = comparison(10**4, 1, 1e-8, protocols=["private-sum", "privacy-blanket"])
    >>> figure = protocols_figure(rows, "Two protocols")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['private-sum', 'privacy-blanket']
    """
    possible = [row for row in rows if row.protocol is not None]
    if not possible:
        raise ValueError("rows must hold at least one protocol that there is")
    found = measured or {}
    central = [row.mse for row in possible if row.contender.model == _CENTRAL]
    line = min((mse for mse in central if mse is not None), default=None)
    figure = Figure(figsize=(11.5, 5.6), dpi=150)
    canvas = FigureCanvasAgg(figure)
    # an epsilon and its delta stay on one line
    lines = textwrap.wrap(re.sub(r", (?=\S+\)-diff)", ",\N{NO-BREAK SPACE}", title), _LINE)
    figure.text(0.012, 0.985, "\n".join(lines), fontsize=12, fontweight="bold", va="top")
    panels = []
    for left, sent in ((0.068, "messages"), (0.56, "bits")):
        axes = figure.add_axes((left, 0.17, 0.422, 0.78 - 0.04 * len(lines)))
        points = [_point(row, sent, found.get(row.key)) for row in possible]
        points = [point for point in points if point.kind != _CENTRAL]
        _draw(figure, axes, points, line)
        axes.set_xlabel(f"{sent} of each user", fontsize=10)
        panels.append((axes, points))
    panels[0][0].set_ylabel("mean squared error of the sum", fontsize=10)
    canvas.draw()  # type: ignore[no-untyped-call]
    for axes, points in panels:
        _label(axes, points, line, canvas)
    _legend(figure, panels[0][1])
    return figure


def _point(row: ComparisonRow, sent: str, measured: Measurement | None) -> _Point:
    assert row.protocol is not None
    cost = row.protocol.cost()
    kind = row.contender.model
    if row.key.startswith(_OURS):
        kind = "ours"
    ends = None
    if measured is not None:
        low, high = measured.interval()
        ends = (low**2, measured.rmse**2, high**2)
    return _Point(
        row.key,
        kind,
        cost.messages_per_user if sent == "messages" else cost.bits_per_user,
        row.protocol.mse,
        ends,
    )


# What is drawn


def _aside(point: _Point, points: Sequence[_Point]) -> float:
    """Return how far to the right a point is drawn, in points.

    Where something is measured, what sends as much stands side by side: bars would cover others'
    markers.
    """
    level = [other.key for other in points if other.sent == point.sent]
    if all(other.measured is None for other in points):
        return 0.0
    return 9.0 * (level.index(point.key) - (len(level) - 1) / 2)


def _draw(figure: Figure, axes: Axes, points: Sequence[_Point], line: float | None) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain(axes)
    if line is not None:
        axes.axhline(line, color=BLACK, linewidth=1.2, linestyle=(0, (4, 1.5)), gid="central")
    for point in points:
        aside = axes.transData + ScaledTranslation(
            _aside(point, points) / 72, 0, figure.dpi_scale_trans
        )
        axes.plot(
            [point.sent],
            [point.mse],
            linestyle="none",
            gid=point.key,
            transform=aside,
            zorder=4 if point.kind == "ours" else 5,
            markeredgecolor="white",
            markeredgewidth=0.6,
            **_STYLES[point.kind],
        )
        if point.measured is not None:
            low, middle, high = (max(end, _LEAST) for end in point.measured)
            style: dict[str, Any] = {"color": BLACK, "zorder": 6, "transform": aside}
            axes.plot(
                [point.sent] * 2, [low, high], linewidth=1, gid=f"{point.key}-interval", **style
            )
            axes.plot(
                [point.sent], [middle], linestyle="none", marker="_", markersize=6,
                gid=f"{point.key}-measured", **style,
            )  # fmt: skip
    heights = [point.mse for point in points] + ([] if line is None else [line])
    heights += [end for point in points for end in point.measured or () if end > 0]
    _scale(axes, "y", heights, 0.1)
    _scale(axes, "x", [point.sent for point in points] or [1.0], 0.09)


def _scale(axes: Axes, name: str, values: Sequence[float], room: float) -> None:
    """Let a logarithmic axis hold the values with room to both sides, and number it."""
    low, high = math.log10(min(values)), math.log10(max(values))
    spare = room * max(high - low, 1.0)
    ends = low - spare, high + spare
    if ends[1] - ends[0] < 1:
        ends = (low + high - 1) / 2, (low + high + 1) / 2
    (axes.set_xlim if name == "x" else axes.set_ylim)(10 ** ends[0], 10 ** ends[1])
    first, last = math.floor(ends[0]), math.ceil(ends[1])
    every = math.ceil((last - first) / 8)
    digits = (1, 2, 5) if ends[1] - ends[0] <= 2.6 else (1,)
    ticks = [digit * 10.0**k for k in range(first, last + 1, every) for digit in digits]
    axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axis.set_minor_formatter(NullFormatter())


def _tick(value: float) -> str:
    if 1e-3 <= value < 1e5:
        return f"{value:,.10g}"
    exponent = math.floor(math.log10(value) + 1e-9)
    digit = round(value / 10.0**exponent)
    return f"$10^{{{exponent}}}$" if digit == 1 else f"${digit}\\cdot 10^{{{exponent}}}$"


# Labels that do not overlap

_SIZE = 7.5
_RINGS = (9, 14, 20, 28, 38, 50, 64, 80, 98, 118, 140, 165, 192)
_ANGLES = 24

Box = tuple[float, float, float, float]
"""Left, lower, right and upper end, in pixels."""

Segment = tuple[float, float, float, float]
"""Both ends, in pixels."""


def _label(
    axes: Axes, points: Sequence[_Point], line: float | None, canvas: FigureCanvasAgg
) -> None:
    """Write each marker's name beside it, where nothing else is, with a thin line to it."""
    scale = canvas.figure.dpi / 72  # from points to pixels
    frame = axes.get_window_extent()
    to_pixels = axes.transData.transform
    places = {
        p.key: (float(x) + _aside(p, points) * scale, float(y))
        for p in points
        for x, y in [to_pixels((p.sent, p.mse))]
    }
    taken = [_box(x, y, 9 * scale, 9 * scale) for x, y in places.values()]
    for point in points:
        if point.measured is not None:
            x = places[point.key][0]
            low, high = (
                float(to_pixels((point.sent, max(end, _LEAST)))[1])
                for end in (point.measured[0], point.measured[2])
            )
            taken.append((x - 3, low, x + 3, high))
    if line is not None:
        height = float(to_pixels((1, line))[1])
        taken.append((frame.x0, height - 2, frame.x1, height + 2))
    leaders: list[Segment] = []
    for point in sorted(points, key=lambda p: -_near(places, p.key, 60 * scale)):
        place = places[point.key]
        text = axes.annotate(
            point.key,
            (point.sent, point.mse),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=_SIZE,
            ha="center",
            va="center",
            color="#222222",
            zorder=8,
            gid=f"{point.key}-label",
        )
        extent = text.get_window_extent(canvas.get_renderer())  # type: ignore[no-untyped-call]
        size = extent.width + 3 * scale, extent.height + 1.5 * scale
        view = frame.x0, frame.y0, frame.x1, frame.y1
        others = [there for key, there in places.items() if key != point.key]
        dx, dy = _offset(place, size, scale, view, others, taken, leaders)
        text.set_position((_aside(point, points) + dx / scale, dy / scale))
        box = _box(place[0] + dx, place[1] + dy, *size)
        taken.append(box)
        end = _nearest(box, *place)
        if _apart(box, place) > 8 * scale:
            leaders.append((*place, *end))
            axes.plot(
                *zip(*axes.transData.inverted().transform([place, end]), strict=True),
                color=GREY,
                linewidth=0.5,
                zorder=3,
                gid="leader",
                scalex=False,
                scaley=False,
            )


def _near(places: Mapping[str, tuple[float, float]], key: str, reach: float) -> int:
    """Return how many other markers are near one."""
    here = places[key]
    return sum(math.dist(here, there) < reach for other, there in places.items() if other != key)


def _offset(
    place: tuple[float, float],
    size: tuple[float, float],
    scale: float,
    frame: Box,
    others: Sequence[tuple[float, float]],
    taken: Sequence[Box],
    leaders: Sequence[Segment],
) -> tuple[float, float]:
    """Return where the middle of a label is best, from its marker: the least bad, the nearest."""
    offsets = []
    for ring in _RINGS:
        for step in range(_ANGLES):
            angle = 2 * math.pi * step / _ANGLES
            cos, sin = math.cos(angle), math.sin(angle)
            offsets.append(
                (
                    cos * (ring * scale + size[0] / 2 * abs(cos)),
                    sin * (ring * scale + size[1] / 2 * abs(sin)),
                )
            )
    least, best = math.inf, (0.0, 0.0)

    def distance(offset: tuple[float, float]) -> float:
        return _apart(_box(*offset, *size), (0.0, 0.0))

    for dx, dy in sorted(offsets, key=distance):
        own = distance((dx, dy))
        if own >= least:  # the cost is this and more
            break
        box = _box(place[0] + dx, place[1] + dy, *size)
        # a label near another marker would be taken for that one's
        wrong = sum(_apart(box, other) < min(own + 8 * scale, 20 * scale) for other in others)
        cost = own + 150 * wrong + _cost(box, place, frame, taken, leaders)
        if cost < least:
            least, best = cost, (dx, dy)
    return best


def _cost(
    box: Box,
    place: tuple[float, float],
    frame: Box,
    taken: Sequence[Box],
    leaders: Sequence[Segment],
) -> float:
    """Return how bad a label's place is: overlaps count most, then lines through things."""
    cost = 0.0
    if box[0] < frame[0] or box[2] > frame[2] or box[1] < frame[1] or box[3] > frame[3]:
        cost += 1e6
    leader = (*place, *_nearest(box, *place))
    for other in taken:
        if _overlap(box, other):
            cost += 1e4
        elif not _overlap((*place, *place), other) and _meets(other, leader):
            cost += 600
    for line in leaders:
        cost += 1e3 * _meets(box, line) + 200 * _cross(line, leader)
    return cost


def _box(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _nearest(box: Box, x: float, y: float) -> tuple[float, float]:
    """Return the point of a box that is nearest to another."""
    return min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])


def _apart(box: Box, place: tuple[float, float]) -> float:
    """Return how far a point is from a box."""
    return math.dist(_nearest(box, *place), place)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] <= b[2] and b[0] <= a[2] and a[1] <= b[3] and b[1] <= a[3]


def _meets(box: Box, line: Segment) -> bool:
    """Whether a segment goes through a box: the part of it between its sides is not empty."""
    first, last = 0.0, 1.0
    for start, end, low, high in (
        (line[0], line[2], box[0], box[2]),
        (line[1], line[3], box[1], box[3]),
    ):
        if start == end:
            if not low <= start <= high:
                return False
            continue
        entry, leave = sorted(((low - start) / (end - start), (high - start) / (end - start)))
        first, last = max(first, entry), min(last, leave)
    return first <= last


def _cross(a: Segment, b: Segment) -> bool:
    """Whether two segments cross."""

    def side(s: Segment, x: float, y: float) -> float:
        return (s[2] - s[0]) * (y - s[1]) - (s[3] - s[1]) * (x - s[0])

    return side(a, *b[:2]) * side(a, *b[2:]) < 0 and side(b, *a[:2]) * side(b, *a[2:]) < 0


# Words


def _legend(figure: Figure, points: Sequence[_Point]) -> None:
    axes = figure.axes[0]
    drawn: dict[str, Any] = {}
    for artist in axes.get_lines():
        gid = artist.get_gid()
        for point in points:
            if gid == point.key:
                drawn.setdefault(point.kind, artist)
            elif gid == f"{point.key}-measured":
                drawn["measured"] = Line2D(
                    [], [], color=BLACK, linestyle="none", marker="|", markersize=11
                )
        if gid == "central":
            drawn["central"] = artist
    names = [name for name in _WORDS if name in drawn]
    figure.legend(
        [drawn[name] for name in names],
        [_WORDS[name] for name in names],
        loc="lower center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=len(names),
        frameon=False,
        fontsize=9,
    )
