"""Figures of the curves, with matplotlib."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ikos._validation import InvalidValue
from ikos.plots.curves import Curve
from ikos.plots.style import ANALYSES, GREY, plain, power_of_ten

try:
    from matplotlib import ticker
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

__all__ = ["Figure", "messages_figure"]

_DASHES: dict[tuple[str, bool], Any] = {
    ("parallel", True): "-",
    ("single", False): (0, (4, 1.5)),
    ("parallel", False): (0, (1, 1.2)),
    ("single", True): (0, (5, 1.2, 1, 1.2)),
}

_STYLES: dict[str, dict[str, Any]] = {
    "necessary": {"linewidth": 6.0, "alpha": 0.35, "zorder": 2},
    "floor": {"linewidth": 1.0, "zorder": 2},
    "attack": {"linestyle": (0, (1, 1.5)), "linewidth": 1.6, "zorder": 6},
    "direct_comparison": {"linewidth": 2.0, "zorder": 7},
    "higher_moments": {"linewidth": 2.0, "zorder": 6},
    "second_moment": {"linewidth": 2.0, "zorder": 5},
}


_WORDS = {
    "attack": "fewer: the attack's advantage is above $2^{-\\sigma}$",
    "floor": "counting lower bound",
    "necessary": "proved lower bound",
}


def label(curve: Curve) -> str:
    """Return a curve's name for a legend."""
    setting = f"{curve.shuffler}, {'clear share' if curve.clear_share else 'no clear share'}"
    if curve.name == "attack":
        setting = setting.replace("parallel", "parallel shufflers only")
    return f"{_WORDS.get(curve.name, curve.name)}, {setting}"


def _style(curve: Curve) -> dict[str, Any]:
    style = _STYLES.get(curve.name, {"linestyle": "-", "linewidth": 1.5, "zorder": 4})
    return {"linestyle": _DASHES[curve.shuffler, curve.clear_share]} | style


def draw_messages(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw the curves as steps, and lower bounds as a band below them.

    Between two points a step errs on the safe side: sufficient numbers are drawn at the larger of
    the two values (ishai2006 rises with the users, the others fall), lower bounds at the smaller.
    """
    for curve in curves:
        users, totals = zip(*curve.points, strict=True)
        before = curve.name in ("necessary", "floor", "ishai2006")
        clear = "clear" if curve.clear_share else "shuffled"
        axes.plot(
            users, totals, color=ANALYSES.get(curve.name, GREY), label=label(curve),
            drawstyle="steps-pre" if before else "steps-post",
            gid=f"{curve.name}-{curve.shuffler}-{clear}", **_style(curve),
        )  # fmt: skip


def users_axis(axes: Axes, curves: Sequence[Curve]) -> None:
    """Scale the axis of the users logarithmically, with readable numbers."""
    users = [n for curve in curves for n, _ in curve.points]
    low, high = min(users), max(users)
    axes.set_xscale("log")
    axes.set_xlim((low, high) if low < high else (low / 2, high * 2))
    axes.xaxis.set_major_locator(ticker.LogLocator(numticks=9))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda n, _: power_of_ten(n)))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    plain(axes)


def log_messages(axes: Axes, low: float, high: float, *, decades: float = 3.5) -> None:
    """Scale the axis of the messages logarithmically, with readable numbers.

    Over at least this many decades it shows only powers of ten.
    """
    bottom = max(0.8, 0.8 * low)
    top = max(2 * bottom, 1.25 * high)
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    if top < 10 * bottom:
        even = ticker.MaxNLocator(6, integer=True, steps=[1, 2, 5, 10])
        ticks = list(even.tick_values(bottom, top))
    else:
        digits = (1,) if top >= 10**decades * bottom else (1, 2, 5)
        ticks = [digit * 10**k for k in range(13) for digit in digits]
    ticks = [y for y in ticks if 1.1 * bottom <= y <= top]
    axes.yaxis.set_major_locator(ticker.FixedLocator(ticks))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(_messages))
    axes.yaxis.set_minor_locator(ticker.NullLocator())


def _messages(value: float, _: object) -> str:
    if value >= 10**6:
        return f"{value / 10**6:g}M"
    return f"{value / 1000:g}k" if value >= 10**5 else f"{value:,.0f}"


def legend_order(curves: Sequence[Curve], users: int | None = None) -> list[Curve]:
    """Return curves from the highest to the lowest, nearest to a number of users or at the end."""

    def height(curve: Curve) -> int:
        if users is None:
            return curve.points[-1][1]
        return min(curve.points, key=lambda point: abs(math.log(point[0] / users)))[1]

    return sorted(curves, key=height, reverse=True)


def messages_figure(
    curves: Sequence[Curve],
    title: str,
    *,
    mark: int | None = None,
    honest: Fraction = Fraction(1),
    footnote: str = "",
) -> Figure:
    """Return a figure of messages against users.

    Parameters
    ----------
    mark : int, optional
        A number of users to mark; the legend has each curve's value there.
    honest : Fraction
        The fraction of the users assumed honest, for the axis.
    footnote : str
        Lines below the legend.

    Examples
    --------
    >>> from ikos.plots import grid, secure_curves
    >>> curves = secure_curves(grid(10, 10**6, 5), 2**64, 80)
    >>> figure = messages_figure(curves, "A secure sum", mark=10**6)
    >>> len(figure.legends[0].get_texts())
    7
    """
    if not curves:
        raise InvalidValue("curves", "must hold at least one curve")
    figure = Figure(figsize=(10.5, 5.2), dpi=150)
    figure.text(0.015, 0.985, title, fontsize=12, fontweight="bold", va="top")
    axes = figure.add_axes((0.09, 0.12, 0.495, 0.785))
    draw_messages(axes, curves)
    users_axis(axes, curves)
    totals = [total for curve in curves for _, total in curve.points]
    log_messages(axes, min(totals), max(totals))
    if mark is not None:
        axes.axvline(mark, color=GREY, linewidth=0.9, linestyle=":", zorder=1, gid="mark")
        marked: Counter[int] = Counter()
        for curve in curves:
            if (total := curve.at(mark)) is not None:
                size = 5 + 4 * marked[total]  # equal numbers are rings around each other
                marked[total] += 1
                axes.plot(
                    [mark], [total], "o", color=ANALYSES.get(curve.name, GREY), markersize=size,
                    markerfacecolor="none", markeredgewidth=1.6, zorder=8, clip_on=False,
                )  # fmt: skip
    assumed = "" if honest == 1 else f", at least {float(100 * honest):.3g} % of them honest"
    axes.set_xlabel(f"users n{assumed}", fontsize=10)
    axes.set_ylabel("messages per user in all", fontsize=10)
    _legend(figure, legend_order(curves, mark), mark, footnote)
    return figure


def _legend(figure: Figure, curves: Sequence[Curve], mark: int | None, footnote: str) -> None:
    lines = {line.get_label(): line for axes in figure.axes for line in axes.get_lines()}
    texts = []
    for curve in curves:
        total = None if mark is None else curve.at(mark)
        first, _, rest = label(curve).partition(", ")
        known = "" if total is None else f"{total:,}   "
        texts.append(f"{known}{first}" + (f"\n{rest}" if rest else ""))
    figure.legend(
        [lines[label(curve)] for curve in curves], texts, bbox_to_anchor=(0.6, 0.925),
        title=None if mark is None else f"messages at n = {power_of_ten(mark)}",
        title_fontproperties={"size": 9.5, "weight": "bold"}, frameon=False, fontsize=9.5,
        loc="upper left", alignment="left", handlelength=2.6, labelspacing=0.75,
    )  # fmt: skip
    if footnote:
        figure.text(0.61, 0.03, footnote, fontsize=8, color=GREY, va="bottom", linespacing=1.35)
