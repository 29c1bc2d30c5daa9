"""Figures of the errors of sparse vectors of signs, in the manner of WLQDLY21's experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from ikos.plots.style import BLACK, COLOURS, GREY, MARKERS, plain

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

_DASHES: dict[str, tuple[int, tuple[float, ...]]] = {
    "dashed": (0, (4, 1.5)),
    "dotted": (0, (1, 1.5)),
}


@dataclass(frozen=True)
class Line:
    """A curve."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    reference: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel of a figure."""

    title: str
    lines: tuple[Line, ...]


def panels_figure(
    rows: Mapping[str, Sequence[Panel]],
    title: str,
    *,
    below: str,
    note: str = "",
    logarithmic: bool = False,
    ticks: Sequence[float] = (),
) -> Figure:
    """Draw rows of panels with one horizontal scale, logarithmic, and a legend beside them."""
    counts = {len(panels) for panels in rows.values()}
    if not rows or counts == {0}:
        raise ValueError("rows must hold at least one panel")
    if len(counts) > 1:
        raise ValueError(f"rows must have one number of panels, got {sorted(counts)}")
    columns = counts.pop()
    names = list(
        dict.fromkeys(
            line.name for panels in rows.values() for panel in panels for line in panel.lines
        )
    )
    looks = dict(zip(names, zip(cycle(COLOURS), cycle(MARKERS), strict=False), strict=False))
    height, width = 1.25 + 3.0 * len(rows), 3.2 + 2.75 * columns
    figure = Figure(figsize=(width, height), dpi=150)
    right = 1 - 2.5 / width
    grid = figure.add_gridspec(
        len(rows), columns, left=0.75 / width, right=right, top=1 - 0.95 / height,
        bottom=0.55 / height, wspace=0.08, hspace=0.22,
    )  # fmt: skip
    for row, (label, panels) in enumerate(rows.items()):
        first = None
        for column, panel in enumerate(panels):
            axes = figure.add_subplot(grid[row, column], sharey=first)
            first = first or axes
            for line in panel.lines:
                _draw(axes, line, *looks[line.name])
            _scale(axes, ticks, logarithmic=logarithmic)
            axes.set_title(panel.title, fontsize=10, loc="left")
            if column:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel(label, fontsize=10)
            if row == len(rows) - 1:
                axes.set_xlabel(below, fontsize=10)
            else:
                axes.tick_params(labelbottom=False)
    _legend(figure, names, right + 0.1 / width)
    figure.text(0.12 / width, 1 - 0.12 / height, title, fontsize=12.5, fontweight="bold", va="top")
    figure.text(0.12 / width, 1 - 0.40 / height, note, fontsize=9, color=GREY, va="top")
    return figure


def _draw(axes: Axes, line: Line, colour: str, marker: str) -> None:
    if line.reference:
        axes.plot(
            line.x, line.y, color=BLACK, linewidth=1.2, linestyle=_DASHES[line.reference],
            label=line.name, gid=line.name,
        )  # fmt: skip
        return
    axes.plot(
        line.x, line.y, color=colour, marker=marker, markersize=4.5, linewidth=1.6,
        markeredgecolor="white", markeredgewidth=0.4, label=line.name, gid=line.name,
    )  # fmt: skip


def _scale(axes: Axes, ticks: Sequence[float], *, logarithmic: bool) -> None:
    axes.set_xscale("log")
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=8))
        axes.yaxis.set_minor_formatter(NullFormatter())
    if ticks:
        axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:,.0f}" if value > 1 else f"{value:g}")
        )
    axes.xaxis.set_minor_formatter(NullFormatter())
    plain(axes)


def _legend(figure: Figure, names: list[str], left: float) -> None:
    drawn: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            drawn.setdefault(name, handle)
    figure.legend(
        [drawn[name] for name in names], names, loc="upper left",
        bbox_to_anchor=(left, figure.axes[0].get_position().y1 + 0.01), frameon=False, fontsize=9,
        handlelength=2.4, labelspacing=0.9,
    )  # fmt: skip
