"""Tail bounds of binomial variables."""

from __future__ import annotations

from typing import Any

import numpy as np


def reach_up(mean: Any, wanted: float) -> Any:
    """Return x with P[X > mean + x] <= e^-wanted for every binomial X, by Bernstein."""
    return wanted / 3 + np.sqrt(wanted * wanted / 9 + 2 * mean * wanted)


def reach_down(mean: Any, wanted: float) -> Any:
    """Return x with P[X < mean - x] <= e^-wanted for every binomial X, by Chernoff."""
    return np.sqrt(2 * mean * wanted)
