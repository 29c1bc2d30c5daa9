"""Figures of AFNNTZ24: the error of one message, reconstruction, and dishonest users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ikos.plots.style import BLACK, BLUE, COLOURS, GREY, MARKERS, VERMILLION, plain

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None


@dataclass(frozen=True)
class GridCurve:
    """The mean squared error of one message, for each coordinate of a box of width 1."""

    dimension: int
    places: tuple[float, ...]
    bounds: tuple[float, ...]
    floors: tuple[float, ...]
    measured: tuple[tuple[float, float], ...] = ()


def single_message_figure(
    users: Sequence[GridCurve], epsilons: Sequence[GridCurve], title: str, note: str
) -> Figure:
    """Draw errors against the users and against epsilon, a colour for each dimension."""
    if not users or not epsilons:
        raise ValueError("users and epsilons must hold at least one curve each")
    figure = Figure(figsize=(11.5, 5.4), dpi=150)
    figure.text(0.012, 0.98, title, fontsize=12.5, fontweight="bold", va="top")
    figure.text(0.012, 0.925, note, fontsize=9, color=GREY, va="top")
    left = figure.add_axes((0.07, 0.115, 0.37, 0.75))
    right = figure.add_axes((0.495, 0.115, 0.3, 0.75))
    for axes, curves, label in ((left, users, "users n"), (right, epsilons, "ε")):
        for number, curve in enumerate(curves):
            colour, marker = COLOURS[number % 6], MARKERS[number % 5]
            axes.plot(curve.places, curve.bounds, color=colour, linewidth=1.8, gid="bound")
            axes.plot(
                curve.places, curve.floors, color=colour, linewidth=1.3, linestyle=(0, (4, 2)),
                gid="floor",
            )  # fmt: skip
            if curve.measured:
                x, y = zip(*curve.measured, strict=True)
                axes.plot(x, y, color=colour, marker=marker, linestyle="none", markersize=6.5,
                          markeredgecolor="white", markeredgewidth=0.6, gid="measured")  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(label, fontsize=10)
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
        plain(axes)
    left.set_ylabel("mean squared error of the sum per coordinate", fontsize=10)
    left.xaxis.set_major_locator(LogLocator(numticks=8))
    places = sorted({place for curve in epsilons for place in curve.places})
    shown = [p for p in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if places[0] <= p <= places[-1]]
    right.xaxis.set_major_locator(FixedLocator(shown))
    right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    handles = [
        Line2D([], [], color=COLOURS[i % 6], marker=MARKERS[i % 5], linewidth=1.8)
        for i in range(len(users))
    ]
    names = [f"d = {curve.dimension}" for curve in users]
    handles += [
        Line2D([], [], color=BLACK, linewidth=1.8),
        Line2D([], [], color=BLACK, marker="o", linestyle="none"),
        Line2D([], [], color=BLACK, linewidth=1.3, linestyle=(0, (4, 2))),
    ]
    names += [
        "bound of the protocol",
        "measured, uniform data",
        "floor: no protocol with\none message is below\n(Theorem 1.4, proved\nwith constants)",
    ]
    figure.legend(
        handles, names, loc="upper left", bbox_to_anchor=(0.805, 0.89), frameon=False,
        fontsize=9.5, handlelength=2.4, labelspacing=0.75,
    )  # fmt: skip
    return figure


@dataclass(frozen=True)
class ReconstructionPanel:
    """Distances from the set of sums, against messages per user."""

    messages: tuple[int, ...]
    own: tuple[tuple[float, float, float], ...]
    other: tuple[tuple[float, float, float], ...]
    limit: float


def _band(
    axes: Axes, x: Sequence[int], values: Sequence[tuple[float, float, float]], colour: str,
    marker: str, gid: str,
) -> None:  # fmt: skip
    low, middle, high = zip(*values, strict=True)
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, middle, color=colour, marker=marker, markersize=5.5, linewidth=1.8, gid=gid)


def reconstruction_figure(
    rows: Mapping[str, Mapping[int, ReconstructionPanel]], title: str, note: str
) -> Figure:
    """Draw distances, a row for each protocol and a column for each dimension."""
    if not rows or not all(rows.values()):
        raise ValueError("rows must hold at least one panel each")
    columns = max(len(panels) for panels in rows.values())
    height = 1.75 + 2.75 * len(rows)
    figure = Figure(figsize=(11.5, height), dpi=150)
    figure.text(0.012, 1 - 0.1 / height, title, fontsize=12.5, fontweight="bold", va="top")
    figure.text(0.012, 1 - 0.42 / height, note, fontsize=9, color=GREY, va="top", linespacing=1.35)
    grid = figure.add_gridspec(
        len(rows), columns, left=0.075, right=0.985, top=1 - 1.2 / height, bottom=0.95 / height,
        wspace=0.07, hspace=0.3,
    )  # fmt: skip
    lows = [values[0] for panels in rows.values() for p in panels.values() for values in p.own]
    highs = [values[2] for panels in rows.values() for p in panels.values() for values in p.other]
    for i, (name, panels) in enumerate(rows.items()):
        for j, (dimension, panel) in enumerate(panels.items()):
            axes = figure.add_subplot(grid[i, j])
            axes.axhline(
                panel.limit, color=BLACK, linewidth=1.1, linestyle=(0, (4, 2)), gid="limit"
            )
            _band(axes, panel.messages, panel.other, BLUE, "o", "other")
            _band(axes, panel.messages, panel.own, VERMILLION, "D", "own")
            axes.set_yscale("log")
            axes.set_ylim(min(lows) / 1.3, max(highs) * 1.3)
            axes.xaxis.set_major_locator(FixedLocator(list(panel.messages)))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.set_title(f"d = {dimension}, {name}", fontsize=10, loc="left")
            plain(axes)
            if j:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel("distance from the set", fontsize=9.5)
            if i == len(rows) - 1:
                axes.set_xlabel("messages per user k", fontsize=10)
    handles = [
        Line2D([], [], color=BLUE, marker="o", linewidth=1.8),
        Line2D([], [], color=VERMILLION, marker="D", linewidth=1.8),
        Line2D([], [], color=BLACK, linewidth=1.1, linestyle=(0, (4, 2))),
    ]
    names = [
        "a vector that no user has",
        "the target's vector",
        "root of Err/n: the target's is no further, in mean square (Proposition 2.3)",
    ]
    figure.legend(
        handles, names, loc="lower left", bbox_to_anchor=(0.06, 0.0), frameon=False, fontsize=9.5,
        ncols=3, handlelength=2.4, columnspacing=2.0,
    )  # fmt: skip
    return figure
