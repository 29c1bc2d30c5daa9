"""An experiment: how much a tuple count fluctuates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import flag
from ikos.attacks.tuple_counting.counts import counts_at
from ikos.attacks.tuple_counting.moments import count_moments
from ikos.attacks.tuple_counting.views import (
    checked_setting,
    drawn_views,
    known_inputs,
    own_residues,
    trial_blocks,
)
from ikos.randomness import RandomSource, secure


@dataclass(frozen=True)
class Fluctuation:
    """How much a tuple count fluctuates, relative to n^m / q.

    Attributes
    ----------
    estimate : float
        Root of the mean square of ``(N - mean) / (n^m / q)``, with the exact mean.
    standard_error : float
        Of the estimate, from the sample.
    exact : float
        What the estimate converges to: ``sqrt((n^m - 1)(q - 1)) / n^m``.
    trials : int
        Views drawn.
    n, q, m : int
        Users, order of the group, shuffled messages of each user.
    """

    estimate: float
    standard_error: float
    exact: float
    trials: int
    n: int
    q: int
    m: int

    @property
    def scale(self) -> float:
        """sqrt(q / n^m), to compare with."""
        return math.sqrt(self.q / self.n**self.m)


def fluctuation(
    n: int,
    q: int,
    m: int,
    trials: int,
    *,
    clear_share: bool = True,
    rng: RandomSource | None = None,
) -> Fluctuation:
    """Measure the relative fluctuation of a target's tuple count.

    If the other users' inputs are uniform, the likelihood of a target's value, relative to a view
    of independent uniform messages, is exactly N / (n^m / q) for its tuple count N: each tuple is
    equally likely to be the target's. How far likelihood ratios stray from 1 is what differential
    privacy is about, and so this is the leakage that it has to cover.

    Parameters
    ----------
    n, q, m, trials, clear_share, rng
        As in `measure_advantage`; the target is the first user, with its true value.

    Returns
    -------
    Fluctuation
        The measured standard deviation of N / (n^m / q) next to the exact one.

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong kind or out of range.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> found = fluctuation(20, 16, 2, 2_000, rng=DeterministicRandom(1))
    >>> round(found.exact, 4)
    0.1934
    >>> abs(found.estimate - found.exact) < 0.01
    True
    """
    n, group, m, trials = checked_setting(n, q, m, trials)
    clear_share = flag("clear_share", clear_share)
    source = secure(rng)
    mean, variance = count_moments(n, group.q, m)
    by_chance = Fraction(n**m, group.q)
    second = fourth = 0.0
    for size in trial_blocks(trials, n, group.q, m):
        x = known_inputs(size, n, group, clear_share, source)
        columns, clear = drawn_views(x, group, m, clear_share, source)
        counts = counts_at(columns, group.q, own_residues(x, clear, group.q)[:, :1])[:, 0]
        squares = _relative(counts, mean, by_chance) ** 2
        second += float(squares.sum())
        fourth += float((squares**2).sum())
    mean_square = second / trials
    estimate = math.sqrt(mean_square)
    spread = math.sqrt(max(0.0, fourth / trials - mean_square**2) / trials)
    return Fluctuation(
        estimate=estimate,
        standard_error=spread / (2 * estimate) if estimate else 0.0,
        exact=math.sqrt(variance / by_chance**2),
        trials=trials,
        n=n,
        q=group.q,
        m=m,
    )


def _relative(counts: NDArray[Any], mean: Fraction, by_chance: Fraction) -> NDArray[np.float64]:
    """Return (counts - mean) / by_chance, with the difference taken exactly where it matters."""
    base = math.floor(mean)
    whole = (counts - base).astype(np.float64)
    return (whole - float(mean - base)) / float(by_chance)
