"""Figures of models that are trained on private sums: accuracy by round, and by budget."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import numpy as np
from numpy.typing import ArrayLike

from ikos.plots.style import BLACK, COLOURS, GREY, MARKERS, plain

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'ikos[plot]'") from None


def learning_figure(
    by_round: Mapping[str, ArrayLike],
    by_epsilon: Mapping[str, Mapping[float, ArrayLike]],
    title: str,
    *,
    reference: str | None = None,
) -> Figure:
    """Draw the accuracy after each round, and after the last one for several budgets."""
    names = list(dict.fromkeys([*by_round, *by_epsilon]))
    if not names:
        raise ValueError("by_round must hold at least one protocol's accuracies, got none")
    others = [name for name in names if name != reference]
    looks = dict(zip(others, zip(cycle(COLOURS), cycle(MARKERS), strict=False), strict=False))
    if reference is not None:
        looks[reference] = BLACK, "x"
    figure = Figure(figsize=(11.5, 4.6), dpi=150)
    grid = figure.add_gridspec(1, 2, left=0.07, right=0.77, top=0.85, bottom=0.13, wspace=0.08)
    left = figure.add_subplot(grid[0])
    right = figure.add_subplot(grid[1], sharey=left)
    for name, given in by_round.items():
        colour, marker = looks[name]
        accuracies = np.asarray(given)
        rounds = np.arange(1, accuracies.size + 1)
        left.plot(
            rounds, accuracies, color=colour, marker=marker, markersize=4, linewidth=1.4,
            markevery=max(1, accuracies.size // 10), label=name,
        )  # fmt: skip
    for name, points in by_epsilon.items():
        colour, marker = looks[name]
        epsilons = sorted(points)
        means = [float(np.mean(np.asarray(points[e]))) for e in epsilons]
        spread = np.array(
            [
                [mean - np.min(points[e]), np.max(points[e]) - mean]
                for e, mean in zip(epsilons, means, strict=True)
            ]
        ).T
        right.errorbar(
            epsilons, means, yerr=spread, color=colour, marker=marker, markersize=5,
            linewidth=1.4, capsize=3, label="" if name in by_round else name,
        )  # fmt: skip
    left.set_title("after each round", fontsize=10)
    right.set_title("after the last round", fontsize=10)
    left.set_xlabel("round")
    left.set_ylabel("accuracy on the test set")
    right.set_xlabel("ε of all rounds together")
    right.set_xscale("log")
    ticks = sorted({epsilon for points in by_epsilon.values() for epsilon in points})
    right.set_xticks(ticks, [f"{epsilon:g}" for epsilon in ticks])
    right.xaxis.set_minor_locator(NullLocator())
    right.tick_params(labelleft=False)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    left.set_ylim(0, 1)
    for axes in (left, right):
        plain(axes)
    figure.suptitle(title, x=0.07, ha="left", fontsize=12)
    figure.legend(loc="upper left", bbox_to_anchor=(0.775, 0.86), frameon=False, fontsize=9)
    figure.text(0.785, 0.14, "points: means; bars: all repetitions", fontsize=8, color=GREY)
    return figure
