"""Protocols for sums as a figure: their error against messages and bits per user."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ikos._validation import InvalidValue
from ikos.baselines import ComparisonRow, Measurement, ProtocolSpec
from ikos.plots.style import BLACK, GREY, LOOKS, MOST_LABELS, plain

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
    from matplotlib.transforms import Bbox
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

Groups = Mapping[str, list[ComparisonRow]]

_CENTRAL = "central"
_OURS = ("helpers", "verified", "private-sum", "private-vector-sum", "masked-vector-sum")
_LINE = 105

_LEAST = 1e-140  # stands for a root mean squared error of zero on a logarithmic axis

_WORDS = {
    "ours": "private sums of ikos", "shuffle": "other shuffle protocols", "local": "local model",
}  # fmt: skip
_CENTRAL_LINE: dict[str, Any] = {"color": BLACK, "linewidth": 1.2, "linestyle": (0, (4, 1.5))}
_FAINT = 0.4  # opacity
_NEAR = 0.015  # of an axis: markers at this distance are drawn around each other
_MOST_TICKS = 7  # as wide as 1,000,000,000
_PLACES = [
    (x * far, y * far, ("center", "left", "right")[x], ("center", "bottom", "top")[y])
    for far in (9, 16, 26, 38)
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
]
"""Of a label: points from the marker, and alignments."""
_BESIDE = 9  # points from the marker; a line leads to labels further away


def protocols_figure(
    rows: Iterable[ComparisonRow], title: str, *, measured: Mapping[str, Measurement] | None = None
) -> Figure:
    """Return a figure of mean squared errors, against messages and against bits per user.

    At most ten protocols are labelled where they are: those of this library, and others than
    which none has a smaller error in fewer messages and bits. The rest are faint.

    Parameters
    ----------
    rows : iterable of ComparisonRow
        From `ikos.baselines.comparison`; those without a protocol are left out. The protocol of
        the central model with the smallest error is a line.
    measured : mapping, optional
        Measured errors by key, drawn over the bounds.

    Examples
    --------
    >>> from ikos.baselines import comparison
    >>> rows = comparison(10**4, 1, 1e-8, protocols=["private-sum", "privacy-blanket"])
    >>> figure = protocols_figure(rows, "Two protocols")
    >>> [text.get_text() for text in figure.legends[0].get_texts() if "-" in text.get_text()]
    ['private-sum', 'privacy-blanket']
    """
    possible = [row for row in rows if row.protocol is not None]
    if not possible:
        raise InvalidValue("rows", "must hold at least one protocol")
    central = min((row for row in possible if row.spec.model == _CENTRAL), key=_mse, default=None)
    groups: Groups = {kind: [] for kind in _WORDS}
    for row in possible:
        groups.get(_kind(row.spec), []).append(row)
    figure = Figure(figsize=(12.5, 5.6), dpi=150)
    lines = textwrap.wrap(title, _LINE)
    figure.text(0.012, 0.985, "\n".join(lines), fontsize=12, fontweight="bold", va="top")
    panels = figure.subplots(
        1, 2, sharey=True, gridspec_kw={
            "left": 0.065, "right": 0.775, "bottom": 0.11, "top": 0.93 - 0.04 * len(lines),
            "wspace": 0.06,
        },
    )  # fmt: skip
    panels[0].set(yscale="log")
    panels[0].set_ylim(
        _limits([*_heights(groups, measured or {}), *([_mse(central)] if central else [])])
    )
    panels[0].set_ylabel("mean squared error of the sum", fontsize=10)
    labelled = _labelled(groups)
    for axes, sent in zip(panels, ("messages", "bits"), strict=True):
        _draw(axes, groups, sent, measured or {}, labelled)
        taken = _markers(axes)
        if central is not None:
            line = axes.axhline(_mse(central), gid="central", **_CENTRAL_LINE)
            taken.append(line.get_window_extent().padded(4))
        for key in labelled:
            taken += _label(axes, key, taken)
    _legend(figure, groups, central, bool(measured), labelled)
    return figure


def _kind(spec: ProtocolSpec) -> str:
    """Return the group in which a protocol is drawn."""
    return "ours" if spec.key.startswith(_OURS) else spec.model


def _mse(row: ComparisonRow) -> float:
    """Return the error of a protocol that is possible."""
    assert row.mse is not None
    return row.mse


def _heights(groups: Groups, measured: Mapping[str, Measurement]) -> list[float]:
    """Return all mean squared errors that are drawn."""
    bounds = [_mse(row) for rows in groups.values() for row in rows]
    ends = [end for measurement in measured.values() for end in measurement.interval()]
    return [*bounds, *(max(end, _LEAST) ** 2 for end in ends)]


def _labelled(groups: Groups) -> list[str]:
    """Return the protocols to label: those of this library, and then those that none beats."""
    rows = [row for rows in groups.values() for row in rows]

    costs = {row.key: np.array([row.mse, row.messages, row.bits]) for row in rows}

    def beaten(row: ComparisonRow) -> bool:
        mine = costs[row.key]
        return any((cost <= mine).all() and (cost < mine).any() for cost in costs.values())

    first = sorted(rows, key=lambda row: (_kind(row.spec) != "ours", beaten(row), _mse(row)))
    return [row.key for row in first[:MOST_LABELS]]


def _draw(
    axes: Axes, groups: Groups, sent: str, measured: Mapping[str, Measurement], labelled: list[str]
) -> None:
    rows = [row for rows in groups.values() for row in rows]
    places = [(getattr(row, sent), _mse(row)) for row in rows]
    plain(axes)
    axes.set_xlabel(f"{sent} per user", fontsize=10)
    axes.set(xscale="log", xlim=_limits([at for at, _ in places]))
    low, high = axes.get_xlim()
    subs = (1.0, 2.0, 5.0) if high < 400 * low else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=_MOST_TICKS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    points = [axes.transAxes.inverted().transform(axes.transData.transform(at)) for at in places]
    for number, (row, (at, mse)) in enumerate(zip(rows, places, strict=True)):
        near = sum(math.dist(points[number], other) < _NEAR for other in points[:number])
        style = _look(row.spec, faint=row.key not in labelled)
        style["markersize"] += 4.5 * near  # around those that are drawn there already
        axes.plot([at], [mse], gid=row.key, zorder=6, **style)
        if row.key in measured:
            low, high = (max(end, _LEAST) ** 2 for end in measured[row.key].interval())
            axes.plot(
                [at, at], [low, high], color=BLACK, linewidth=1, zorder=5,
                gid=f"{row.key}-interval", marker="_", markersize=4,
            )  # fmt: skip


def _markers(axes: Axes) -> list[Bbox]:
    """Return the boxes of all markers, in pixels."""
    lines = [line for line in axes.get_lines() if line.get_gid() in LOOKS]
    return [line.get_window_extent().padded(2) for line in lines]


def _label(axes: Axes, key: str, taken: Collection[Bbox]) -> list[Bbox]:
    """Write the name of a protocol beside it, where nothing else is; return the box, if any."""
    (line,) = (line for line in axes.get_lines() if line.get_gid() == key)
    at, frame = tuple(np.asarray(line.get_xydata())[0]), axes.get_window_extent()
    for x, y, across, up in _PLACES:
        text = axes.annotate(
            key, at, (x, y), textcoords="offset points", ha=across, va=up, fontsize=8, zorder=7,
            color=line.get_color(), gid=f"{key}-label",
        )  # fmt: skip
        box = text.get_window_extent()
        within = frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1)
        if within and not any(map(box.overlaps, taken)):
            if math.hypot(x, y) > _BESIDE:
                axes.annotate(
                    "", at, (x, y), textcoords="offset points", zorder=3,
                    arrowprops={"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.6,
                                "shrinkA": 0, "shrinkB": 5},
                )  # fmt: skip
            return [box]
        text.remove()
    return []  # the legend names it


def _limits(values: Collection[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis, of at least a decade, that holds the values."""
    low, high = (math.log10(end) for end in (min(values, default=1.0), max(values, default=1.0)))
    margin = max(0.09 * (high - low), (1 - high + low) / 2)
    return 10 ** (low - margin), 10 ** (high + margin)


def _look(spec: ProtocolSpec, *, faint: bool = False) -> dict[str, Any]:
    """Return the look of a protocol, the same in every figure: open, so that none hides another."""
    colour, marker = LOOKS[spec.key]
    return {
        "color": colour, "marker": marker, "markersize": 7.5, "linestyle": "none",
        "markerfacecolor": "none", "markeredgewidth": 1.6, "alpha": _FAINT if faint else 1.0,
    }  # fmt: skip


def _legend(
    figure: Figure, groups: Groups, central: ComparisonRow | None, measured: bool,
    labelled: list[str],
) -> None:  # fmt: skip
    """Name every protocol on the right, by model."""
    handles = []
    for kind, rows in groups.items():
        if rows:
            handles.append(Line2D([], [], linestyle="none", label=_WORDS[kind]))
        for row in rows:
            style = _look(row.spec, faint=row.key not in labelled)
            handles.append(Line2D([], [], label=row.key, **style))
    if central is not None:
        handles.append(Line2D([], [], linestyle="none", label="central model"))
        handles.append(Line2D([], [], label=central.key, **_CENTRAL_LINE))
    if measured:
        words = "measured, about a 95 % interval"
        interval: dict[str, Any] = {"linestyle": "none", "marker": "|", "markersize": 11}
        handles.append(Line2D([], [], color=BLACK, label=words, **interval))
    legend = figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.785, 0.93), frameon=False, fontsize=9,
    )  # fmt: skip
    for text in legend.get_texts():
        if text.get_text() in (*_WORDS.values(), "central model"):
            text.set_color(GREY)
