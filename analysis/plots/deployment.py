"""A figure of what a deployment needs: by the number of users, which limit breaks first."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from ikos.plots.style import BLACK, COLOURS, GREY, MARKERS, plain

try:
    from matplotlib.figure import Figure
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None


def limits_figure(limits: Mapping[str, Mapping[int, float]], title: str) -> Figure:
    """Draw the machines that each limit asks for against the number of users."""
    if not limits:
        raise ValueError("limits must hold at least one, got none")
    figure = Figure(figsize=(9.5, 4.8), dpi=150)
    axes = figure.add_axes((0.08, 0.12, 0.6, 0.76))
    looks = zip(cycle((*COLOURS, GREY)), cycle(MARKERS), strict=False)
    # what is drawn later is smaller and dashed, so that equal limits both show
    wide = len(limits) // 2
    for k, (name, points) in enumerate(limits.items()):
        users = sorted(points)
        colour, marker = next(looks)
        size, dashes = (7, "-") if k < wide else (4, "--")
        axes.plot(
            users, [points[n] for n in users], dashes, color=colour, marker=marker,
            markersize=size, linewidth=1.4, label=name,
        )  # fmt: skip
    axes.axhline(1, color=BLACK, linewidth=0.9)
    axes.annotate(
        "one machine", (0, 1), (6, 4), xycoords=("axes fraction", "data"),
        textcoords="offset points", fontsize=8, color=GREY,
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("users")
    axes.set_ylabel("machines")
    plain(axes)
    figure.suptitle(title, x=0.08, ha="left", fontsize=11)
    # by height at the right, as the lines end
    last = {name: points[max(points)] for name, points in limits.items()}
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda k: -last[labels[k]])
    figure.legend(
        [handles[k] for k in order], [labels[k] for k in order], loc="upper left",
        bbox_to_anchor=(0.69, 0.88), frameon=False, fontsize=9,
    )  # fmt: skip
    return figure
