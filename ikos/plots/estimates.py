"""Results as figures: estimates with their intervals."""

from __future__ import annotations

import io
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice
from ikos.plots.style import BLUE, GREY, plain
from ikos.results.tables import label_text

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

if TYPE_CHECKING:
    from ikos.results.tables import EstimateTable

_MOST_LABELS = 40
_LONGEST_LABEL = 30
_COUNTED = ("count", "missing")

Rows = dict[tuple[Hashable, ...], NDArray[np.float64]]
"""An estimate and the ends of its interval, by the labels of rows."""


class _Shown(Figure):
    """A figure that notebooks show, also without pyplot."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def estimates_figure(table: EstimateTable, quantities: Sequence[str], caption: str) -> Figure:
    """Return a figure of estimates and intervals, with a panel for each quantity.

    Beyond 40 rows, they are numbered.

    Parameters
    ----------
    table : EstimateTable
        Of a result.
    quantities : sequence of str
        What to draw; if empty, what the table chooses.
    caption : str
        Lines above the panels.

    Examples
    --------
    >>> import ikos
    >>> result = ikos.histogram(["yes", "no"] * 500, ["yes", "no"], epsilon=1, delta=1e-6)
    >>> [axes.get_xlabel() for axes in result.plot().axes]
    ['count']
    """
    for name in quantities:
        choice("quantities", name, tuple(table.quantities))
    names = list(quantities or table.drawn or table.quantities)
    labels, columns = list(table.labels), table.columns()
    numbers = {name: np.stack([columns[name + end] for end in ("", "_low", "_high")], axis=1)
               for name in names}  # fmt: skip
    if len(labels) > _MOST_LABELS:
        return _long(numbers, ", ".join(table.names), caption)
    panels: dict[tuple[Hashable, ...], list[int]] = {}
    for row, label in enumerate(labels):
        panels.setdefault(label[: table.units], []).append(row)
    heights = [len(rows) + 1.0 for rows in panels.values()]
    size = (max(7.0, 1.5 + 4.0 * len(names)), 1.1 + 0.34 * sum(heights))
    figure, grid = _grid(size, caption, len(panels), len(names), height_ratios=heights)
    for (first, places), line in zip(panels.items(), grid, strict=True):
        rest = [label[len(first) :] or first for label in (labels[row] for row in places)]
        for name, axes in zip(names, line, strict=True):
            _draw(axes, numbers[name][places], name)
            axes.set_yticks(range(len(rest)), [_text(label) for label in rest], parse_math=False)
            axes.tick_params(labelleft=axes is line[0])
        if first and rest[0] != first:
            line[0].set_title(_text(first), loc="left", fontsize=10, parse_math=False)
    for name, axes in zip(names, grid[-1], strict=True):
        axes.set_xlabel(name, fontsize=10)
    return figure


def quantiles_figure(
    table: EstimateTable, edges: NDArray[np.float64], fractions: NDArray[np.float64], caption: str
) -> Figure:
    """Return a figure of an estimated distribution, and quantiles with their intervals on it.

    Parameters
    ----------
    table : EstimateTable
        Of quantiles, by their numbers between 0 and 1.
    edges, fractions : ndarray of float
        Values, and the fraction of the users up to each.
    caption : str
        Lines above the panel.
    """
    figure, ((axes,),) = _grid((7.0, 4.2), caption, 1, 1)
    axes.plot(edges, fractions, color=GREY, linewidth=1.0, gid="distribution")
    levels = [label for (label,) in table.labels]
    values, low, high = table.columns().values()
    axes.hlines(levels, low, high, color=BLUE, linewidth=2.2, gid="intervals")
    axes.plot(values, levels, "o", color=BLUE, markersize=4.5, gid="estimates")
    axes.set(xlabel="value", ylabel="fraction of users", ylim=(-0.02, 1.02))
    plain(axes)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    return figure


def _grid(
    size: tuple[float, float], caption: str, rows: int, columns: int, **ratios: Any
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure and its panels, below the caption."""
    figure = _Shown(figsize=size, dpi=150, layout="constrained")
    figure.suptitle(caption, fontsize=9, color=GREY, x=0.01, ha="left")
    return figure, figure.subplots(rows, columns, squeeze=False, gridspec_kw=ratios or None)


def _draw(axes: Axes, rows: NDArray[np.float64], name: str) -> None:
    """Draw an estimate and its interval on each line, from the top; counts also as bars.

    Intervals without an estimate, which say nothing, do not scale the axis.
    """
    lines = np.arange(len(rows))
    estimates, low, high = rows.T
    known = np.isfinite(estimates)
    if name == "count":
        axes.barh(lines, estimates, height=0.6, color=BLUE, alpha=0.2)
    style: dict[str, Any] = {"color": BLUE, "linewidth": 2.2, "gid": "intervals"}
    axes.hlines(lines[known], low[known], high[known], **style)
    axes.plot(estimates, lines, "o", color=BLUE, markersize=4.5, gid="estimates")
    if known.any():
        axes.set_xlim(axes.get_xlim())
    style = {"color": GREY, "linewidth": 1.0, "linestyle": ":", "gid": "unknown"}
    axes.hlines(lines[~known], low[~known], high[~known], **style)
    for line in lines[~known]:
        axes.annotate(
            "no estimate", (0.5, line), xycoords=("axes fraction", "data"), ha="center",
            va="center", fontsize=8, color=GREY, backgroundcolor="white",
        )  # fmt: skip
    axes.set_ylim(len(rows) - 0.4, -0.6)
    plain(axes)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=_whole(name, rows)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _long(numbers: dict[str, NDArray[np.float64]], names: str, caption: str) -> Figure:
    """Return a figure of many rows, side by side."""
    figure, grid = _grid((10.0, 0.8 + 2.8 * len(numbers)), caption, len(numbers), 1)
    for (name, rows), (axes,) in zip(numbers.items(), grid, strict=True):
        places = np.arange(len(rows))
        estimates, low, high = rows.T
        axes.fill_between(places, low, high, step="mid", color=BLUE, alpha=0.3, linewidth=0)
        axes.plot(places, estimates, ".", color=BLUE, markersize=3, gid="estimates")
        axes.set_ylabel(name, fontsize=10)
        plain(axes)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=_whole(name, rows)))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    grid[-1, 0].set_xlabel(f"{names}, numbered from 0", fontsize=10)
    return figure


def _whole(name: str, rows: NDArray[np.float64]) -> bool:
    """Whether a quantity is in whole numbers."""
    return name in _COUNTED or bool((rows == np.floor(rows)).all())


def _text(label: tuple[Hashable, ...]) -> str:
    """Return labels as one text that is not too long."""
    text = ", ".join(map(label_text, label))
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
