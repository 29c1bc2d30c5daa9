"""Protocols for sums as a figure: their error against messages and bits per user."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ikos._validation import InvalidValue
from ikos.baselines import PROTOCOLS, ComparisonRow, Measurement, ProtocolSpec
from ikos.data.domains import Bounds
from ikos.plots.style import BLACK, BLUE, GREY, ORANGE, VERMILLION, plain

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None

Groups = Mapping[str, list[ComparisonRow]]

_CENTRAL = "central"
_OURS = ("private-sum", "private-vector-sum", "masked-vector-sum")
_LINE = 105

_LEAST = 1e-140  # stands for a root mean squared error of zero on a logarithmic axis

_COLOURS = {"ours": VERMILLION, "shuffle": BLUE, "local": ORANGE}
_WORDS = {
    "ours": "private sums of ikos", "shuffle": "other shuffle protocols", "local": "local model",
}  # fmt: skip
_CENTRAL_LINE: dict[str, Any] = {"color": BLACK, "linewidth": 1.2, "linestyle": (0, (4, 1.5))}
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">", "p", "d", "h", "8", "H")


def protocols_figure(
    rows: Iterable[ComparisonRow], title: str, *, measured: Mapping[str, Measurement] | None = None
) -> Figure:
    """Return a figure of mean squared errors, against messages and against bits per user.

    Parameters
    ----------
    rows : iterable of ComparisonRow
        From `ikos.baselines.comparison`; those without a protocol are left out. The protocol of
        the central model with the smallest error is a line.
    measured : mapping, optional
        Measured errors by key, drawn over the bounds.

    Examples
    --------
    >>> from ikos.baselines import comparison
    >>> rows = comparison(10**4, 1, 1e-8, protocols=["private-sum", "privacy-blanket"])
    >>> figure = protocols_figure(rows, "Two protocols")
    >>> [text.get_text() for text in figure.legends[0].get_texts() if "-" in text.get_text()]
    ['private-sum', 'privacy-blanket']
    """
    possible = [row for row in rows if row.protocol is not None]
    if not possible:
        raise InvalidValue("rows", "must hold at least one protocol")
    central = min((row for row in possible if row.spec.model == _CENTRAL), key=_mse, default=None)
    groups: Groups = {kind: [] for kind in _COLOURS}
    for row in possible:
        groups.get(_kind(row.spec), []).append(row)
    figure = Figure(figsize=(12.5, 5.6), dpi=150)
    lines = textwrap.wrap(title, _LINE)
    figure.text(0.012, 0.985, "\n".join(lines), fontsize=12, fontweight="bold", va="top")
    panels = figure.subplots(
        1, 2, sharey=True, gridspec_kw={
            "left": 0.065, "right": 0.775, "bottom": 0.11, "top": 0.93 - 0.04 * len(lines),
            "wspace": 0.06,
        },
    )  # fmt: skip
    for axes, sent in zip(panels, ("messages", "bits"), strict=True):
        _draw(axes, groups, sent, measured or {})
        if central is not None:
            axes.axhline(_mse(central), gid="central", **_CENTRAL_LINE)
    panels[0].set_ylim(
        _limits([*_heights(groups, measured or {}), *([_mse(central)] if central else [])])
    )
    panels[0].set_ylabel("mean squared error of the sum", fontsize=10)
    _legend(figure, groups, central, bool(measured))
    return figure


def _kind(spec: ProtocolSpec) -> str:
    """Return the group in which a protocol is drawn."""
    return "ours" if spec.key.startswith(_OURS) else spec.model


def _mse(row: ComparisonRow) -> float:
    """Return the error of a protocol that is possible."""
    assert row.mse is not None
    return row.mse


def _heights(groups: Groups, measured: Mapping[str, Measurement]) -> list[float]:
    """Return all mean squared errors that are drawn."""
    bounds = [_mse(row) for rows in groups.values() for row in rows]
    ends = [end for measurement in measured.values() for end in measurement.interval()]
    return [*bounds, *(max(end, _LEAST) ** 2 for end in ends)]


def _draw(axes: Axes, groups: Groups, sent: str, measured: Mapping[str, Measurement]) -> None:
    places = [getattr(row, sent) for rows in groups.values() for row in rows]
    for rows in groups.values():
        for row in rows:
            at = getattr(row, sent)
            axes.plot([at], [_mse(row)], gid=row.key, zorder=6, **_look(row.spec))
            if row.key in measured:
                low, high = (max(end, _LEAST) ** 2 for end in measured[row.key].interval())
                axes.plot(
                    [at, at], [low, high], color=BLACK, linewidth=1, zorder=5,
                    gid=f"{row.key}-interval", marker="_", markersize=4,
                )  # fmt: skip
    plain(axes)
    axes.set_xlabel(f"{sent} per user", fontsize=10)
    axes.set(xscale="log", yscale="log", xlim=_limits(places))
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 400 * low else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _limits(values: Collection[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis, of at least a decade, that holds the values."""
    low, high = (math.log10(end) for end in (min(values, default=1.0), max(values, default=1.0)))
    margin = max(0.09 * (high - low), (1 - high + low) / 2)
    return 10 ** (low - margin), 10 ** (high + margin)


def _look(spec: ProtocolSpec) -> dict[str, Any]:
    """Return the look of a protocol, the same in every figure: open, so that none hides another."""
    kind, numbers = _kind(spec), Bounds in spec.domains
    alike = [one.key for one in PROTOCOLS if (_kind(one), Bounds in one.domains) == (kind, numbers)]
    return {
        "color": _COLOURS[kind], "marker": _MARKERS[alike.index(spec.key) % len(_MARKERS)],
        "markersize": 10 if kind == "ours" else 7.5, "linestyle": "none",
        "markerfacecolor": "none", "markeredgewidth": 1.6,
    }  # fmt: skip


def _legend(figure: Figure, groups: Groups, central: ComparisonRow | None, measured: bool) -> None:
    """Name every protocol on the right, by model."""
    handles = []
    for kind, rows in groups.items():
        if rows:
            handles.append(Line2D([], [], linestyle="none", label=_WORDS[kind]))
        handles += [Line2D([], [], label=row.key, **_look(row.spec)) for row in rows]
    if central is not None:
        handles.append(Line2D([], [], linestyle="none", label="central model"))
        handles.append(Line2D([], [], label=central.key, **_CENTRAL_LINE))
    if measured:
        words = "measured, about a 95 % interval"
        interval: dict[str, Any] = {"linestyle": "none", "marker": "|", "markersize": 11}
        handles.append(Line2D([], [], color=BLACK, label=words, **interval))
    legend = figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.785, 0.93), frameon=False, fontsize=9,
    )  # fmt: skip
    for text in legend.get_texts():
        if text.get_text() in (*_WORDS.values(), "central model"):
            text.set_color(GREY)
