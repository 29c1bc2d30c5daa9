"""How near the second moment E[q^C] of the share graph is to q, its least possible value."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

from ikos._validation import integer
from ikos.counts.recursion import enclosed
from ikos.counts.share_graph import ShareGraph
from ikos.graphs import excess_bound
from ikos.graphs.component_bounds import BOUNDS
from ikos.graphs.component_distribution import MAX_LAW_USERS
from ikos.numeric.rounding import DOWN, NEAREST, nearest, rounding
from ikos.plots.style import (
    COLOURS,
    GREY,
    MARKERS,
    plain,
    power_of_ten,
)

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None


@dataclass(frozen=True)
class ExcessCurve:
    """E[q^C]/q - 1 as a function of the users, with a bound and its leading term."""

    q: int
    graph: ShareGraph
    users: tuple[int, ...]
    exact: tuple[float, ...]
    bound: tuple[float | None, ...]
    leading: tuple[float, ...]


_DASHED: tuple[float, Sequence[float]] = (0, (5, 2))
_DOTTED: tuple[float, Sequence[float]] = (0, (1, 1.5))
_LEAST, _MOST = 1e-300, 1e300
"""Values beyond these are not drawn."""


def excess_curve(
    users: Sequence[int], m: int, q: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> ExcessCurve:
    """Compute E[q^C]/q - 1, Lemma C.5's bound of it and its leading term.

    The leading term is (q - 1) P[C = 2] to first order. By the lemma of the documentation (How
    many messages, "Any number of users"), more than two components are of the order of the square
    of B(n, 1) and two components of which none is a single user of the order of B(n, 2), which is
    smaller than B(n, 1) by a factor that falls to 0 with n where two or more messages hide. What
    is left is one user alone: of probability B(n, 1) to first order, where q^(C-1) - 1 is q - 1.
    """
    order = integer("q", q, low=2)
    points = tuple(sorted({integer("users", n, low=1, high=MAX_LAW_USERS) for n in users}))
    if not points:
        raise ValueError("users must hold at least one number")
    graph = ShareGraph(m, shuffler, clear_share)
    excess = enclosed(points[-1], order, graph).excess
    stated = BOUNDS["lemma_c5"].covers(points[-1], graph)
    with rounding(NEAREST):
        leading = tuple(float((order - 1) / graph.growth(n, DOWN)) for n in points)
    return ExcessCurve(
        order,
        graph,
        points,
        tuple(nearest(excess[n]) for n in points),
        tuple(_bound(n, graph.m, order) if stated else None for n in points),
        leading,
    )


def _bound(n: int, m: int, q: int) -> float | None:
    with contextlib.suppress(ValueError):  # too few users, or too large a group
        return excess_bound(n, m, q)
    return None


def excess_figure(curves: Sequence[ExcessCurve], title: str | None = None) -> Figure:
    """Draw E[q^C]/q - 1 against the users, a colour for each number of messages."""
    if not curves:
        raise ValueError("curves must hold at least one curve")
    q, graph = curves[0].q, curves[0].graph
    model = (graph.shuffler, graph.clear_share)
    if any((c.q, c.graph.shuffler, c.graph.clear_share) != (q, *model) for c in curves):
        raise ValueError("curves must be for one group, one shuffler and one kind of graph")
    figure = Figure(figsize=(10.5, 5.6), dpi=150)
    axes = figure.add_axes((0.085, 0.115, 0.6, 0.765))
    for look in zip(curves, cycle(COLOURS), cycle(MARKERS), strict=False):
        _draw_excess(axes, *look)
    _scale(axes, curves)
    plain(axes)
    axes.set_xlabel("users n", fontsize=10)
    axes.set_ylabel("$E[q^C]/q - 1$  (no unit)", fontsize=10)
    figure.text(
        0.015,
        0.98,
        title or f"How far the second moment is above its least value, q = {_order(q)}",
        fontsize=12.5,
        fontweight="bold",
        va="top",
    )
    figure.text(
        0.015,
        0.925,
        f"{_model(graph)}; 0 would be a share graph that is always connected",
        fontsize=9,
        color=GREY,
        va="top",
    )
    handles = [
        Line2D([], [], color=colour, marker=marker, linewidth=1.8, label=f"m = {curve.graph.m}")
        for curve, colour, marker in zip(curves, cycle(COLOURS), cycle(MARKERS), strict=False)
    ]
    alone = "n^{1-m}" if model == ("parallel", True) else "B(n,1)"
    styles = [
        Line2D([], [], color="black", linewidth=1.8, label="exact"),
        Line2D(
            [],
            [],
            color="black",
            linestyle=_DASHED,
            linewidth=1.4,
            label="Lemma C.5 of BBGN20: $q\\,(e/n)^{m-1}$,\nwhere it is stated",
        ),
        Line2D(
            [],
            [],
            color="black",
            linestyle=_DOTTED,
            linewidth=1.4,
            label=f"leading term: $(q-1)\\,{alone}$,\none user alone",
        ),
    ]
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.7, 0.89),
        frameon=False,
        fontsize=9.5,
        title="shuffled messages per user",
        title_fontproperties={"size": 9.5, "weight": "bold"},
        alignment="left",
    )
    figure.legend(
        handles=styles,
        loc="upper left",
        bbox_to_anchor=(0.7, 0.5),
        frameon=False,
        fontsize=9.5,
        alignment="left",
        handlelength=3.2,
        labelspacing=0.9,
    )
    return figure


def _model(graph: ShareGraph) -> str:
    shuffler = "a single shuffler" if graph.shuffler == "single" else "parallel shufflers"
    return f"{shuffler}, {'a' if graph.clear_share else 'no'} clear share"


def _order(q: int) -> str:
    if q > 10**6 and q & (q - 1) == 0:
        return f"$2^{{{q.bit_length() - 1}}}$"
    return f"{q:,}" if q < 10**12 else f"about $10^{{{len(str(q)) - 1}}}$"


def _draw_excess(axes: Axes, curve: ExcessCurve, colour: str, marker: str) -> None:
    styles: tuple[tuple[str, Sequence[float | None], dict[str, Any]], ...] = (
        ("exact", curve.exact, {"linewidth": 1.8, "marker": marker, "markersize": 5, "zorder": 4}),
        ("bound", curve.bound, {"linewidth": 1.4, "linestyle": _DASHED, "zorder": 3}),
        ("leading", curve.leading, {"linewidth": 1.4, "linestyle": _DOTTED, "zorder": 5}),
    )
    for name, values, style in styles:
        points = [
            (n, value)
            for n, value in zip(curve.users, values, strict=True)
            if value is not None and _LEAST <= value <= _MOST
        ]
        if points:
            (line,) = axes.plot(*zip(*points, strict=True), color=colour, **style)
            line.set_gid(f"{name}-{curve.graph.m}")
            line.set_markevery(_evenly([n for n, _ in points]))


def _evenly(users: Sequence[int]) -> list[int]:
    """Return about eight indices that are evenly spaced on a logarithmic axis."""
    wanted = np.geomspace(users[0], users[-1], 8)
    return sorted(set(np.searchsorted(users, wanted - 1e-6).clip(0, len(users) - 1).tolist()))


def _scale(axes: Axes, curves: Sequence[ExcessCurve]) -> None:
    """Scale both axes logarithmically, with numbers that people read."""
    low, high = (end(end(curve.users) for curve in curves) for end in (min, max))
    axes.set_xscale("log")
    axes.set_xlim((low, high) if low < high else (low / 2, 2 * high))
    few = math.log10(high / low) < 2.5
    digits = (1, 2, 5) if few else (1,)
    ticks = [d * 10**k for k in range(5) for d in digits]
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: power_of_ten(n)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yscale("log")
    values = [y for line in axes.get_lines() for y in np.asarray(line.get_ydata()).tolist()]
    if values:
        bottom, top = math.log10(min(values)), math.log10(max(values))
        room = 0.04 * max(1.0, top - bottom)
        axes.set_ylim(10 ** max(-307.0, bottom - room), 10 ** min(307.0, top + room))
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_minor_formatter(NullFormatter())
