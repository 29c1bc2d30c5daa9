"""Intervals and tests that hold at every sample size: checked against exact sums over outcomes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from ikos.confidence import clopper_pearson


@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)])
@pytest.mark.parametrize("trials", [1, 2, 7, 40])
def test_intervals_cover_at_every_probability(trials: int, confidence: Fraction) -> None:
    """Summed over all outcomes; each end fails with at most half of the rest."""
    ends = [clopper_pearson(k, trials, confidence) for k in range(trials + 1)]
    lower, upper = (np.array(side) for side in zip(*ends, strict=True))
    assert (np.diff(lower) > 0).all()
    assert (np.diff(upper) > 0).all()
    tail = float((1 - confidence) / 2)
    for p in np.linspace(0, 1, 401):
        pmf = binom.pmf(np.arange(trials + 1), trials, p)
        assert pmf[lower > p + 1e-12].sum() <= tail + 1e-9
        assert pmf[upper < p - 1e-12].sum() <= tail + 1e-9


def test_intervals_at_the_extremes_are_in_closed_form() -> None:
    low, high = clopper_pearson(0, 50, Fraction(19, 20))
    assert (low, high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 50)))
    low, high = clopper_pearson(50, 50, Fraction(19, 20))
    assert (low, high) == (pytest.approx(0.025 ** (1 / 50)), 1.0)
