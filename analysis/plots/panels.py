"""Panels of curves, like most figures of papers: rows that share a scale, and a legend."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from ikos.plots.style import BLACK, COLOURS, GREY, LOOKS, MARKERS, plain

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

_COLOURS = (*COLOURS, GREY, BLACK)
"""Eight curves have different colours; references are black as well, but have no markers."""

_DASHES: dict[str, Any] = {
    "dashed": (0, (4, 1.5)),
    "dotted": (0, (1, 1.5)),
    "dash-dotted": (0, (6, 2, 1, 2)),
}


@dataclass(frozen=True)
class Line:
    """A curve; the same name has the same colour in all panels.

    ``measured`` are points drawn over it, each x, middle, and the ends of a bar, if there is one.
    A ``reference``, one of "dashed", "dotted" and "dash-dotted", is drawn in black. A ``protocol``
    of the library's comparison looks as in all figures.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    reference: str = ""
    measured: tuple[tuple[float, ...], ...] = ()
    protocol: str = ""


@dataclass(frozen=True)
class Panel:
    """What one panel shows."""

    title: str
    lines: tuple[Line, ...]
    axis: str = ""


def panels_figure(
    rows: Sequence[tuple[str, Sequence[Panel]]],
    title: str,
    note: str = "",
    *,
    linear: bool = False,
    ticks: Sequence[float] = (),
    beside: float = 3.2,
) -> Figure:
    """Draw rows of panels, each with what its vertical axis shows, logarithmic unless linear.

    The horizontal axes have numbers at ``ticks``, or where points are; the legend has ``beside``
    inches on the right.
    """
    counts = {len(panels) for _, panels in rows}
    if len(counts) != 1 or not all(panel.lines for _, panels in rows for panel in panels):
        raise ValueError("rows must hold as many panels each, and each panel at least one line")
    columns = counts.pop()
    lines = {line.name: line for _, panels in rows for panel in panels for line in panel.lines}
    looks = {name: LOOKS[line.protocol] for name, line in lines.items() if line.protocol}
    others = [name for name, line in lines.items() if not line.protocol and not line.reference]
    pairs = zip(cycle(_COLOURS), cycle(MARKERS), strict=False)
    looks |= zip(others, (pair for pair in pairs if pair not in looks.values()), strict=False)
    width = 0.8 + max(2.75, 8.4 / max(2, columns)) * columns + beside
    words = textwrap.wrap(note, int(15 * width))
    above = 0.7 + 0.19 * len(words)
    height = 0.6 + above + 3.1 * len(rows)
    figure = Figure(figsize=(width, height), dpi=150)
    grid = figure.add_gridspec(
        len(rows), columns, left=0.8 / width, right=1 - beside / width, top=1 - above / height,
        bottom=0.6 / height, wspace=0.1, hspace=0.36,
    )  # fmt: skip
    handles: dict[str, Line2D] = {}
    for row, (label, panels) in enumerate(rows):
        first = None
        for column, panel in enumerate(panels):
            axes = figure.add_subplot(grid[row, column], sharey=first)
            first = first or axes
            for line in panel.lines:
                handles.setdefault(line.name, _draw(axes, line, *looks.get(line.name, ("", ""))))
            _scale(axes, ticks or [x for line in panel.lines for x in line.x], linear=linear)
            axes.set_title(panel.title, fontsize=10, loc="left")
            axes.set_xlabel(panel.axis, fontsize=10)
            if column:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel(label, fontsize=10)
    figure.legend(
        list(handles.values()), list(handles), loc="upper left", frameon=False, fontsize=9,
        bbox_to_anchor=(1 - (beside - 0.1) / width, 1 - (above - 0.05) / height), handlelength=2.6,
        labelspacing=0.8,
    )  # fmt: skip
    figure.text(0.012, 1 - 0.12 / height, title, fontsize=12.5, fontweight="bold", va="top")
    below = 1 - 0.42 / height
    figure.text(0.012, below, "\n".join(words), fontsize=9, color=GREY, va="top", linespacing=1.35)
    return figure


def _draw(axes: Axes, line: Line, colour: str, marker: str) -> Line2D:
    if line.reference:
        style: dict[str, Any] = {
            "color": BLACK, "linewidth": 1.2, "linestyle": _DASHES[line.reference]
        }  # fmt: skip
    else:
        style = {
            "color": colour, "linewidth": 1.7, "marker": "" if line.measured else marker,
            "markersize": 4.5,
        }  # fmt: skip
    axes.plot(line.x, line.y, gid=line.name, **style)
    if line.measured:
        x, middle, *ends = zip(*line.measured, strict=True)
        bars = [[abs(m - e) for m, e in zip(middle, end, strict=True)] for end in ends]
        axes.errorbar(
            x, middle, yerr=bars or None, color=colour, marker=marker, markersize=5,
            linestyle="none", elinewidth=1, capsize=2.5, zorder=4,
        )  # fmt: skip
    return Line2D([], [], **{**style, "marker": marker})


def _scale(axes: Axes, ticks: Sequence[float], *, linear: bool) -> None:
    axes.set_xscale("log")
    numbers = sorted(set(ticks))
    room = math.log(numbers[-1] / numbers[0]) / 8
    shown: list[float] = []
    for number in numbers:  # those that have room next to each other
        if not shown or math.log(number / shown[-1]) >= room:
            shown.append(number)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _number(x)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if not linear:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        narrow = high / low < 30
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,), numticks=9))
        if narrow:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _number(y)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    plain(axes)


def _number(value: float) -> str:
    exponent = round(math.log10(value))
    if exponent >= 5 and math.isclose(value, 10**exponent):
        return f"$10^{{{exponent}}}$"
    return f"{value:,.6g}"
