"""Figures of AFNNTZ24: errors and messages against their laws, and Kashin's constant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from ikos.plots.style import BLACK, COLOURS, GREY, MARKERS, plain

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None


@dataclass(frozen=True)
class RateCurve:
    """A quantity against a parameter."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    measured: tuple[tuple[float, float, float, float], ...] = ()
    reference: bool = False


@dataclass(frozen=True)
class Panel:
    """Axes of a figure."""

    title: str
    x_label: str
    curves: tuple[RateCurve, ...]


def rates_figure(panels: Sequence[Panel], title: str, y_label: str, note: str = "") -> Figure:
    """Draw panels in a row, with one legend below: curves, measured points, and laws."""
    if not panels or not all(panel.curves for panel in panels):
        raise ValueError("panels must hold at least one panel, and each at least one curve")
    curves = {curve.name: curve for panel in panels for curve in panel.curves}
    drawn = [name for name, curve in curves.items() if not curve.reference]
    looks = dict(zip(drawn, zip(cycle(COLOURS), cycle(MARKERS), strict=False), strict=False))
    styles = cycle(("--", ":", "-."))
    dashes = {name: next(styles) for name, curve in curves.items() if curve.reference}
    columns = 2
    lines = math.ceil(len(curves) / columns)
    height = 5.2 + 0.23 * lines
    figure = Figure(figsize=(4.1 * len(panels) + 1.5 * (len(panels) == 1), height), dpi=150)
    bottom = (0.75 + 0.23 * lines) / height
    grid = figure.add_gridspec(
        1, len(panels), left=0.95 / figure.get_figwidth(), right=0.985,
        top=1 - 1.0 / height, bottom=bottom, wspace=0.2,
    )  # fmt: skip
    handles: dict[str, Line2D] = {}
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(grid[0, number])
        for curve in panel.curves:
            if curve.reference:
                line = axes.plot(
                    curve.x, curve.y, color=BLACK, linewidth=1.2, linestyle=dashes[curve.name],
                    label=curve.name, gid=curve.name, zorder=2,
                )[0]  # fmt: skip
            else:
                line = _draw(axes, curve, *looks[curve.name])
            handles.setdefault(curve.name, line)
        _scale(axes, panel)
        axes.set_title(panel.title, fontsize=10, loc="left")
        axes.set_xlabel(panel.x_label, fontsize=10)
        if not number:
            axes.set_ylabel(y_label, fontsize=10)
    figure.text(0.012, 1 - 0.12 / height, title, fontsize=12, fontweight="bold", va="top")
    if note:
        figure.text(0.012, 1 - 0.42 / height, note, fontsize=9, color=GREY, va="top")
    figure.legend(
        list(handles.values()), list(handles), loc="lower left",
        bbox_to_anchor=(0.6 / figure.get_figwidth(), 0.0), ncols=columns, frameon=False,
        fontsize=9, handlelength=2.8,
    )  # fmt: skip
    return figure


def _draw(axes: Axes, curve: RateCurve, colour: str, marker: str) -> Line2D:
    line = axes.plot(
        curve.x, curve.y, color=colour, marker="" if curve.measured else marker, markersize=4.5,
        linewidth=1.7, label=curve.name, gid=curve.name, zorder=3,
    )[0]  # fmt: skip
    if curve.measured:
        x, mean, low, high = zip(*curve.measured, strict=True)
        below = [m - a for m, a in zip(mean, low, strict=True)]
        above = [b - m for m, b in zip(mean, high, strict=True)]
        axes.errorbar(
            x, mean, yerr=(below, above), color=colour, marker=marker, markersize=5,
            linestyle="none", elinewidth=1, capsize=2.5, zorder=4,
        )  # fmt: skip
    return line


def _scale(axes: Axes, panel: Panel) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    xs = sorted({x for curve in panel.curves for x in curve.x})
    if xs[-1] / xs[0] < 300:
        shown = [x for i, x in enumerate(xs) if len(xs) <= 7 or i % 2 == 0]
        axes.xaxis.set_major_locator(FixedLocator(shown))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
    else:
        axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low < 30:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.6g}"))
    else:
        axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_minor_formatter(NullFormatter())
    plain(axes)


def slope_text(slopes: Mapping[str, float]) -> str:
    """Return fitted exponents as a line of text."""
    rounded = {name: round(value, 2) + 0.0 for name, value in slopes.items()}
    return "fitted exponents: " + ", ".join(
        f"{name} {value:.2f}" for name, value in rounded.items()
    )
