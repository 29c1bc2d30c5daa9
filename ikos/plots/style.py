"""The common style of all figures: the look of each protocol and analysis, axes, numbers.

The colours suit the colour-blind.
"""

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
SKY = "#56B4E9"
VERMILLION = "#D55E00"

GREY = "#5A5A5A"

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILLION, SKY)
MARKERS = ("o", "s", "D", "p", "h")
"""Six colours and five shapes: pairs of them repeat after thirty."""

MOST_LABELS = 10
"""The largest number of protocols labelled where they are; others are faint."""

LOOKS: dict[str, tuple[str, str]] = {
    "central-laplace": (GREY, "s"), "central-discrete": (GREY, "D"),
    "central-gaussian": (GREY, "o"),
    "private-sum": (BLACK, "D"), "private-sum-bbgn20": (BLACK, "o"),
    "private-vector-sum": (BLACK, "D"), "masked-vector-sum": (BLACK, "p"),
    "helpers-sum": (BLACK, "s"), "helpers-sum-parties": (BLACK, "h"),
    "verified-sum": (BLACK, "^"), "verified-sum-shuffled": (BLACK, "v"),
    "verified-vector-sum": (BLACK, "^"), "verified-vector-sum-shuffled": (BLACK, "v"),
    "helpers-vector-sum": (BLACK, "s"), "helpers-vector-sum-parties": (BLACK, "h"),
    "privacy-blanket": (BLUE, "o"), "recursive-2-paper": (ORANGE, "s"), "recursive-2": (GREEN, "D"),
    "recursive-3-paper": (PURPLE, "p"), "recursive-3": (VERMILLION, "h"), "recursive-4": (SKY, "^"),
    "designated-noise": (BLUE, "D"), "sparse-noise": (BLUE, "s"),
    "sparse-noise-scrcs11": (ORANGE, "D"), "correlated-noise": (GREEN, "o"),
    "binary-response": (PURPLE, "o"), "unary-encoding": (VERMILLION, "s"),
    "sample-threshold": (ORANGE, "o"), "local-response": (SKY, "s"), "local-laplace": (SKY, "o"),
    "kashin-correlated-noise": (BLUE, "o"), "kashin-sampled-noise": (ORANGE, "s"),
    "kashin-private-sum": (GREEN, "D"), "sampled-coordinates": (VERMILLION, "h"),
    "one-coordinate": (SKY, "^"), "single-message-grid": (PURPLE, "o"),
    "collision": (BLUE, "o"), "privkv": (ORANGE, "s"), "pckv-grr": (VERMILLION, "h"),
    "pckv-ue": (PURPLE, "p"), "local-collision": (SKY, "o"), "local-privkv": (SKY, "s"),
    "frequency-estimation": (BLUE, "o"), "frequency-sets": (ORANGE, "s"),
}  # fmt: skip
"""The colour and the marker of each protocol of the comparison, by its key."""

ANALYSES = {
    "direct_comparison": SKY, "higher_moments": ORANGE, "second_moment": BLUE,
    "balle2020": VERMILLION, "ishai2006": GREEN, "ghazi2020": PURPLE, "attack": BLACK,
    "necessary": GREY, "floor": GREY,
}  # fmt: skip
"""The colour of each analysis and bound."""


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
