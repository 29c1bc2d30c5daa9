"""A check of the component bounds as a figure: the exact distribution, bounds, and samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ikos.numeric.rounding import log10
from ikos.plots.style import BLACK, BLUE, GREEN, GREY, PURPLE, VERMILLION, plain, power_of_ten
from ikos.results.sums import at_least
from ikos.results.text import percent

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

if TYPE_CHECKING:
    from ikos.graphs import ComponentCheck

# hollow markers do not hide what is below them
_HOLLOW: dict[str, Any] = {"markerfacecolor": "none"}
_STYLES: dict[str, dict[str, Any]] = {
    "lemma": {"color": VERMILLION, "marker": "s", "linestyle": (0, (4, 1.5)), "markersize": 7}
    | _HOLLOW,
    "bound": {"color": GREEN, "marker": "^", "linestyle": (0, (1, 1.2)), "markersize": 8} | _HOLLOW,
    "exact": {"color": BLUE, "marker": "o", "linestyle": "-", "markersize": 4.5},
    "sampled": {"color": BLACK, "marker": "x", "markersize": 7.5, "linestyle": "none"},
    "planted": {"color": PURPLE, "marker": "D", "markersize": 8.5, "linestyle": "none"} | _HOLLOW,
}
_ARROW = [(-0.5, 0), (0.5, 0), (0, 0), (0, -2), (-0.4, -1.4), (0, -2), (0.4, -1.4), (0, -2), (0, 0)]
"""A marker: a bar at an upper limit, and an arrow from it downwards."""


class _Sampled(NamedTuple):
    """Estimates of P[C = c] from samples: decimal logarithms, minus infinity for zero."""

    c: int
    low: float
    middle: float
    high: float


Points = list[tuple[int, float]]


def components_figure(check: ComponentCheck) -> Figure:
    """Return a figure of a check by `ikos.graphs.check_components`: P[C = c] against c.

    The axis is logarithmic, without a lower end. The importance samples are drawn again below,
    divided by the exact distribution: their intervals are too narrow for the large axis.

    Examples
    --------
    >>> from ikos.graphs import check_components
    >>> from ikos.testing import DeterministicRandom
    >>> check = check_components(20, 3, 1000, rng=DeterministicRandom(1))
    >>> figure = components_figure(check)
    >>> [text.get_text().partition(",")[0] for text in figure.legends[0].get_texts()][:3]
    ['Lemma C.5 of BBGN20', 'bound of this library', 'exact distribution']
    """
    curves, samples = _curves(check), _samples(check)
    figure = Figure(figsize=(10.5, 5.2), dpi=150)
    figure.text(0.015, 0.985, "Components of share graphs", size=12, weight="bold", va="top")
    graph = check.graph
    setting = f"n = {power_of_ten(check.n)} users, m = {graph.m:,} shuffled messages of each, "
    setting += "parallel shufflers" if graph.shuffler == "parallel" else "a single shuffler"
    setting += f", {'a' if graph.clear_share else 'no'} clear share"
    figure.text(0.015, 0.935, setting, size=10.5, va="top")
    ratios = bool(samples["planted"])
    axes = figure.add_axes((0.09, 0.37, 0.495, 0.505) if ratios else (0.09, 0.12, 0.495, 0.755))
    many = len(check.rows)
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), linewidth=1.3, gid=name, **_style(name, many))
    for name, seen in samples.items():
        _draw_samples(axes, name, seen, many)
    heights = [log for points in curves.values() for _, log in points]
    heights += [
        end
        for seen in samples.values()
        for interval in seen
        for end in (interval.low, interval.high)
    ]
    _probabilities(axes, min(filter(math.isfinite, heights)))
    _components(axes, many)
    last = axes
    if ratios:
        axes.tick_params(labelbottom=False)
        last = figure.add_axes((0.09, 0.12, 0.495, 0.2))
        _draw_ratios(last, dict(curves["exact"]), samples["planted"], many)
        _components(last, many)
    last.set_xlabel("number of components c", fontsize=10)
    _legend(figure, check, axes)
    return figure


def _curves(check: ComponentCheck) -> dict[str, Points]:
    """Return the points of each curve, c and log10; the highest curve first."""
    curves: dict[str, Points] = {}
    for row in check.rows:
        values = row.lemma, row.bound, row.exact.high
        for name, value in zip(("lemma", "bound", "exact"), values, strict=True):
            if value:
                curves.setdefault(name, []).append((row.c, log10(value)))
    return curves


def _samples(check: ComponentCheck) -> dict[str, list[_Sampled]]:
    """Return the estimates of each kind of samples."""
    trials = check.tally.trials
    sampled = [
        _Sampled(row.c, *map(log10, (row.sampled.low, row.seen / trials, row.sampled.high)))
        for row in check.rows
    ]
    planted = []
    for row, tally in zip(check.rows[1:], check.planted, strict=False):
        assert row.planted is not None
        share = tally.counts.get(row.c, 0) / tally.trials
        middle = log10(tally.expected.high) + log10(share)
        ends = log10(row.planted.low), middle, log10(row.planted.high)
        planted.append(_Sampled(row.c, *ends))
    return {"sampled": sampled, "planted": planted}


def _style(name: str, rows: int) -> dict[str, Any]:
    """Return a style with markers small enough for this many of them."""
    style = _STYLES[name]
    return style | {"markersize": style["markersize"] * min(1.0, math.sqrt(14 / rows))}


def _draw_samples(axes: Axes, name: str, seen: Sequence[_Sampled], rows: int) -> None:
    colour = _STYLES[name]["color"]
    bounded = [interval for interval in seen if math.isfinite(interval.low)]
    unbounded = [
        (interval.c, interval.high) for interval in seen if not math.isfinite(interval.low)
    ]
    if bounded:
        places, lows, middles, highs = zip(*bounded, strict=True)
        style: dict[str, Any] = {"linewidth": 1.6, "zorder": 4, "gid": f"{name}-intervals"}
        axes.vlines(places, lows, highs, color=colour, **style)
        axes.plot(places, middles, zorder=5, gid=name, **_style(name, rows))
    if unbounded:
        size = 15 if rows <= 20 else 10
        axes.plot(
            *zip(*unbounded, strict=True), marker=_ARROW, color=colour, linestyle="none", zorder=4,
            gid=f"{name}-limits", markersize=size, markeredgewidth=size / 15, **_HOLLOW,
        )  # fmt: skip


def _draw_ratios(axes: Axes, exact: dict[int, float], seen: Sequence[_Sampled], rows: int) -> None:
    """Draw the intervals of the importance samples, divided by the exact distribution."""
    ends = [
        [10 ** (value - exact[point.c]) for value in (point.low, point.middle, point.high)]
        for point in seen
    ]
    places = [point.c for point in seen]
    low, middle, high = zip(*ends, strict=True)
    style = _style("planted", rows)
    axes.axhline(1, color=BLUE, linewidth=1.3, gid="exact-ratio")
    axes.vlines(places, low, high, color=style["color"], linewidth=1.6, gid="ratio-intervals")
    axes.plot(places, middle, gid="ratio", zorder=5, **style)
    bottom, top = min(1.0, *low), max(1.0, *high)
    room = 0.15 * max(1e-9, top - bottom)
    axes.set_ylim(bottom - room, top + room)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_ylabel("÷ exact", fontsize=10)


def _components(axes: Axes, rows: int) -> None:
    """Scale the axis of the components."""
    axes.set_xlim(0.5, rows + 0.5)
    every = next(step for step in (1, 2, 5, 10) if rows <= 14 * step or step == 10)
    axes.xaxis.set_major_locator(FixedLocator([1, *range(max(2, every), rows + 1, every)]))
    plain(axes)


def _probabilities(axes: Axes, lowest: float) -> None:
    """Scale the axis of the logarithms, and label it with powers of ten."""
    # an arrow hangs from its limit, and takes some of the height
    span = max(1.0, -lowest)
    bottom = -1.13 * span
    axes.set_ylim(bottom, 0.05 * span)
    ticks = MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]).tick_values(bottom, 0.0)
    axes.yaxis.set_major_locator(FixedLocator([float(k) for k in ticks if bottom <= k <= 0]))
    words = FuncFormatter(lambda k, _: f"$10^{{{k:.0f}}}$" if round(k) else "1")
    axes.yaxis.set_major_formatter(words)
    axes.set_ylabel("P[C = c]", fontsize=10)


def _legend(figure: Figure, check: ComponentCheck, axes: Axes) -> None:
    sure = percent(check.confidence)
    words = {
        "lemma": "Lemma C.5 of BBGN20, an upper bound",
        "bound": "bound of this library, for any n",
        "exact": "exact distribution",
        "sampled": f"{check.tally.trials:,} sampled graphs,\n{sure} interval for each c",
        "sampled-limits": f"seen in none of {check.tally.trials:,}:\n"
        f"upper end of the {sure} interval",
    }
    if check.planted:
        many = f"{check.planted[0].trials:,} importance samples"
        which = "each c" if len(check.planted) > 1 else f"c = {check.planted[0].parts}"
        words["planted"] = f"{many} for {which},\n{sure} interval"
        words["planted-limits"] = f"no such graph in {many}:\nupper end of the interval"
    drawn = {line.get_gid(): line for line in axes.get_lines()}
    names = [name for name in words if name in drawn]
    figure.legend(
        [drawn[name] for name in names], [words[name] for name in names], loc="upper left",
        bbox_to_anchor=(0.6, 0.895), frameon=False, fontsize=9.5, alignment="left",
        handlelength=2.6, labelspacing=0.9,
    )  # fmt: skip
    style: dict[str, Any] = {"fontsize": 8, "color": GREY, "va": "bottom", "linespacing": 1.35}
    figure.text(0.61, 0.03, "\n".join(_notes(check)), **style)


def _notes(check: ComponentCheck) -> list[str]:
    notes = []
    if not all(row.exact.high for row in check.rows):
        notes.append("Where there is no point, the exact distribution is 0.")
    if check.rows[0].bound is None:
        notes.append("No bound is stated where fewer than two messages hide.")
    if any(tally.counts.get(tally.parts) == tally.trials for tally in check.planted):
        notes.append("Where all importance samples had exactly c components,")
        notes.append("the estimate (diamond) is the upper end of its interval.")
    c = check.unseen
    if c <= check.n:
        tail = at_least(check.tally.tail(c, check.confidence).high, 2)
        notes.append(f"The sample saw no graph of {c:,} or more components:")
        notes.append(f"it says P[C ≥ {c:,}] < {tail}, and no more.")
    return notes
