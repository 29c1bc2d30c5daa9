"""Figures of the errors of sampled coordinates, in the manner of SCM22's experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ikos.plots.style import BLUE, GREEN, GREY, ORANGE, VERMILLION, plain

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "whole": (
        "whole error: of the estimated mean of all users",
        {"color": VERMILLION, "marker": "D", "markersize": 5, "linewidth": 1.8},
    ),
    "own": (
        "the paper's error: of the sums of what was drawn, over (n/d)²",
        {"color": BLUE, "marker": "o", "markersize": 5.5, "linewidth": 1.8},
    ),
    "reports": (
        "the same over (n t/d)², the mean number of reports squared",
        {"color": GREEN, "marker": "s", "markersize": 5, "linewidth": 1.8},
    ),
    "best": (
        "the paper's error at the best precision k (worst case, calculated)",
        {"color": BLUE, "linestyle": (0, (1, 1.5)), "linewidth": 1.6},
    ),
    "bound": (
        "the paper's bound, at its own k (Section 4.5; Theorem 4.6 for t > 1)",
        {"color": ORANGE, "linestyle": (0, (4, 1.5)), "linewidth": 1.6},
    ),
    "law": (
        "the paper's power law, through the last point of its error",
        {"color": GREY, "linestyle": (0, (4, 1.5)), "linewidth": 1.3},
    ),
}
"""What a line is: its words and its looks."""


@dataclass(frozen=True)
class ErrorLine:
    """A curve of errors."""

    kind: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    label: str = ""


@dataclass(frozen=True)
class ErrorPanel:
    """One panel of a figure."""

    title: str
    axis: str
    lines: tuple[ErrorLine, ...]


def sampled_figure(panels: Sequence[ErrorPanel], title: str, note: str) -> Figure:
    """Draw panels of errors, two in a row, both axes logarithmic, and a legend below."""
    if not panels or not all(panel.lines for panel in panels):
        raise ValueError("panels must hold at least one panel, and each at least one line")
    kinds = [kind for kind in KINDS if any(line.kind == kind for p in panels for line in p.lines)]
    rows = -(-len(panels) // 2)
    height = 1.75 + 3.3 * rows + 0.2 * len(kinds)
    figure = Figure(figsize=(10.5, height), dpi=150)
    below = (0.75 + 0.2 * len(kinds)) / height
    grid = figure.add_gridspec(
        rows, 2, left=0.085, right=0.985, top=1 - 1.0 / height, bottom=below,
        wspace=0.08, hspace=0.34,
    )  # fmt: skip
    for number, panel in enumerate(panels):
        row, column = divmod(number, 2)
        left = figure.axes[-1] if column else None
        axes = figure.add_subplot(grid[row, column], sharey=left)
        for line in panel.lines:
            _draw(axes, line)
        _scale(axes, [x for line in panel.lines for x in line.x])
        axes.set_title(panel.title, fontsize=10.5, loc="left")
        axes.set_xlabel(panel.axis, fontsize=10, labelpad=2)
        if column:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel("mean squared error, normalized", fontsize=10)
    figure.text(0.015, 1 - 0.12 / height, title, fontsize=12.5, fontweight="bold", va="top")
    figure.text(0.015, 1 - 0.42 / height, note, fontsize=9, color=GREY, va="top")
    drawn = {line.get_gid(): line for axes in figure.axes for line in axes.get_lines()}
    figure.legend(
        [drawn[kind] for kind in kinds], [KINDS[kind][0] for kind in kinds], loc="lower left",
        bbox_to_anchor=(0.075, 0.005), frameon=False, fontsize=9.5, handlelength=3.2,
    )  # fmt: skip
    return figure


def _draw(axes: Axes, line: ErrorLine) -> None:
    axes.plot(line.x, line.y, gid=line.kind, **KINDS[line.kind][1])
    if line.label:
        axes.annotate(
            line.label, (line.x[0], line.y[0]), xytext=(4, 6), textcoords="offset points",
            fontsize=9, color=KINDS[line.kind][1]["color"],
        )  # fmt: skip


def _scale(axes: Axes, values: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = sorted(set(values))
    axes.set_xlim(ticks[0] / 1.08, ticks[-1] * 1.08)
    room = math.log(ticks[-1] / ticks[0]) / 9 if len(ticks) > 1 else 0.0
    shown: list[float] = []
    for tick in ticks:  # numbers that have room beside each other
        if not shown or math.log(tick / shown[-1]) >= room:
            shown.append(tick)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(FixedLocator(ticks))
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_minor_formatter(NullFormatter())
    plain(axes)
