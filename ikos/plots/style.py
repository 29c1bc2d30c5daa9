"""The common style of all figures: colours that suit the colour-blind, axes, numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito, https://jfly.uni-koeln.de/color/
BLACK = "#000000"
BLUE = "#0072B2"
GREEN = "#009E73"
ORANGE = "#E69F00"
PURPLE = "#CC79A7"
VERMILLION = "#D55E00"

GREY = "#5A5A5A"

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILLION, "#56B4E9")
MARKERS = ("o", "s", "D", "p", "h")
"""Six colours and five shapes: pairs of them repeat after thirty."""


def plain(axes: Axes) -> None:
    """Reduce the axes to the essentials: two spines, a light grid behind the data."""
    axes.grid(which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)


def power_of_ten(value: float) -> str:
    """Return a number of users for an axis or a title: small and irregular ones in full.

    Examples
    --------
    >>> power_of_ten(100), power_of_ten(10**6), power_of_ten(1234567)
    ('100', '$10^{6}$', '1,234,567')
    """
    exponent = round(math.log10(value)) if value >= 1 else 0
    if exponent >= 4 and value == 10**exponent:
        return f"$10^{{{exponent}}}$"
    return f"{value:,.0f}"
