"""Figures of measured errors: protocols against the number of users, on a few data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from ikos.plots.style import COLOURS, GREY, MARKERS, plain

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import (
        FixedLocator,
        FuncFormatter,
        LogLocator,
        NullFormatter,
        NullLocator,
    )
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None


@dataclass(frozen=True)
class ErrorCurve:
    """A protocol's errors against the number of users."""

    name: str
    users: tuple[int, ...]
    means: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def errors_figure(panels: Mapping[str, Sequence[ErrorCurve]], title: str, *, spread: str) -> Figure:
    """Draw curves of errors, a panel for each data set and group of protocols, two in a row."""
    if not panels or not all(panels.values()):
        raise ValueError("panels must hold at least one panel, and each at least one curve")
    names = list(dict.fromkeys(curve.name for curves in panels.values() for curve in curves))
    looks = dict(zip(names, zip(cycle(COLOURS), cycle(MARKERS), strict=False), strict=False))
    rows = -(-len(panels) // 2)
    figure = Figure(figsize=(10.5, 1.3 + 3.9 * rows), dpi=150)
    height = 1.3 + 3.9 * rows
    grid = figure.add_gridspec(
        rows, 2, left=0.085, right=0.76, top=1 - 0.95 / height, bottom=0.6 / height,
        wspace=0.06, hspace=0.22,
    )  # fmt: skip
    for number, (name, curves) in enumerate(panels.items()):
        row, column = divmod(number, 2)
        left = figure.axes[-1] if column else None
        axes = figure.add_subplot(grid[row, column], sharey=left)
        for curve in curves:
            _draw(axes, curve, *looks[curve.name], shift=names.index(curve.name) % 5 - 2)
        _scale(axes, curves)
        axes.set_title(name, fontsize=10.5, loc="left")
        if column:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel("absolute error of the mean", fontsize=10)
        if number >= len(panels) - 2:
            axes.set_xlabel("users n", fontsize=10)
        else:
            axes.tick_params(labelbottom=False)
        if column or number == len(panels) - 1:
            _legend(figure, axes)
    figure.text(0.015, 1 - 0.12 / height, title, fontsize=12.5, fontweight="bold", va="top")
    figure.text(0.015, 1 - 0.42 / height, f"bars: {spread}", fontsize=9, color=GREY, va="top")
    return figure


def _draw(axes: Axes, curve: ErrorCurve, colour: str, marker: str, *, shift: int) -> None:
    users = [n * 1.02**shift for n in curve.users]  # so that bars do not hide each other
    below = [mean - low for mean, low in zip(curve.means, curve.low, strict=True)]
    above = [high - mean for mean, high in zip(curve.means, curve.high, strict=True)]
    drawn = axes.errorbar(
        users, curve.means, yerr=(below, above), color=colour, marker=marker, markersize=5.5,
        linewidth=1.8, elinewidth=1.0, capsize=2.5, alpha=0.95, label=curve.name,
    )  # fmt: skip
    drawn.lines[0].set_gid(curve.name)


def _scale(axes: Axes, curves: Sequence[ErrorCurve]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    users = sorted({n for curve in curves for n in curve.users})
    axes.set_xlim(users[0] / 1.15, users[-1] * 1.15)
    axes.xaxis.set_major_locator(FixedLocator(users))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_minor_formatter(NullFormatter())
    plain(axes)


def _legend(figure: Figure, axes: Axes) -> None:
    """Name the curves of a row beside it, from the largest error down."""
    handles, labels = axes.get_legend_handles_labels()
    last = {line.get_gid(): float(np.asarray(line.get_ydata())[-1]) for line in axes.get_lines()}
    order = sorted(range(len(labels)), key=lambda i: -last[labels[i]])
    box = axes.get_position()
    figure.legend(
        [handles[i] for i in order], [labels[i] for i in order], loc="upper left",
        bbox_to_anchor=(0.77, box.y1 + 0.01), frameon=False, fontsize=9.5, handlelength=2.6,
        labelspacing=0.8,
    )  # fmt: skip
