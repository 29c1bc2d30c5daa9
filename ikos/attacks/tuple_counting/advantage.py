"""An experiment: how often the attack guesses right."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ikos._validation import flag, number
from ikos.attacks.tuple_counting.comparison import checked_difference, compared
from ikos.attacks.tuple_counting.counts import reduced
from ikos.attacks.tuple_counting.views import (
    checked_setting,
    drawn_views,
    known_inputs,
    own_residues,
    trial_blocks,
)
from ikos.confidence import clopper_pearson
from ikos.randomness import RandomSource, secure


@dataclass(frozen=True)
class Advantage:
    """What the attack gained in an experiment.

    The advantage is Pr[guess x | x] - Pr[guess x | x'], which no attack can have above the total
    variation between the two views.

    Attributes
    ----------
    estimate : float
        2 correct / trials - 1, unbiased.
    lower, upper : float
        Exact (Clopper-Pearson) interval for the advantage: it contains it with probability at
        least ``confidence``, and each end fails with half of the rest. ``lower`` bounds the total
        variation from below with that confidence, and can be negative.
    confidence : float
        Of the interval.
    correct, trials : int
        Guesses that were right, and all of them.
    n, q, m : int
        Users, order of the group, shuffled messages of each user.
    """

    estimate: float
    lower: float
    upper: float
    confidence: float
    correct: int
    trials: int
    n: int
    q: int
    m: int

    @property
    def scale(self) -> float:
        """Leading order of the proved bound for two users, ``sqrt(q / n^m)``, to compare with."""
        return math.sqrt(self.q / self.n**self.m)


def measure_advantage(
    n: int,
    q: int,
    m: int,
    trials: int,
    *,
    clear_share: bool = True,
    difference: int = 1,
    confidence: float | Fraction = 0.99,
    rng: RandomSource | None = None,
) -> Advantage:
    """Measure how well the attack tells x from x' = x + (d, -d, 0, ..., 0).

    Each trial tosses a coin for x or x', draws the view, and lets the attack guess. It knows both
    inputs, as an analyzer may. With a clear share x is zero, and no other x would make a
    difference: the residues, the input less the clear share, are uniform. Without one x is
    uniform in each trial, and what is measured is an average, a lower bound on the worst case all
    the same. (The two settings then have the same residues, and the same advantage.)

    Parameters
    ----------
    n : int
        Users, from 2 to 2^18.
    q : int
        Order of the group, from 2 to 2^26.
    m : int
        Shuffled messages of each user; a clear share is not counted.
    trials : int
        How many views to draw. To see an advantage of A takes a few times 1/A^2.
    clear_share : bool
        Whether each user sends one further share that bypasses the shufflers.
    difference : int
        d, any integer but a multiple of q.
    confidence : float
        Of the interval, between 0 and 1.
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    Advantage
        The estimate with its exact interval.

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong kind or out of range.

    Notes
    -----
    Trials are drawn in blocks of bounded memory, and can be interrupted between them. A trial
    takes time in proportion to n^ceil(m/2) or, where that is less, to m n q.

    Examples
    --------
    Ten users who send two messages each into a group of order 50, seen by the analyzer:

    >>> from ikos.testing import DeterministicRandom
    >>> found = measure_advantage(10, 50, 2, 10_000, rng=DeterministicRandom(1))
    >>> found.lower > 0.4
    True
    >>> round(found.scale, 3)
    0.707
    """
    n, group, m, trials = checked_setting(n, q, m, trials)
    clear_share = flag("clear_share", clear_share)
    d = checked_difference(difference, group.q)
    level = number("confidence", confidence, above=0, below=1)
    source = secure(rng)
    change: NDArray[np.uint32] = np.array([d, group.q - d], dtype=np.uint32)
    correct = 0
    for size in trial_blocks(trials, n, group.q, m):
        x = known_inputs(size, n, group, clear_share, source)
        hidden: NDArray[np.uint32] = source.uniform(2, size)
        actual = x.copy()
        actual[:, :2] = reduced(x[:, :2] + hidden[:, None] * change, group.q)
        columns, clear = drawn_views(actual, group, m, clear_share, source)
        correct += int((_guess(columns, clear, x, group.q, d, source) == hidden).sum())
    low, high = clopper_pearson(correct, trials, level)
    return Advantage(
        estimate=2 * correct / trials - 1,
        lower=2 * low - 1,
        upper=2 * high - 1,
        confidence=float(level),
        correct=correct,
        trials=trials,
        n=n,
        q=group.q,
        m=m,
    )


def _guess(
    columns: NDArray[np.uint32],
    clear: NDArray[np.uint32] | None,
    x: NDArray[np.uint32],
    q: int,
    d: int,
    rng: RandomSource,
) -> NDArray[np.uint32]:
    """Return 0 for x and 1 for x', from what the analyzer sees and knows; a coin where S is 0."""
    s = compared(columns, own_residues(x, clear, q), q, d)
    return np.where(s == 0, rng.uniform(2, len(s)), (s < 0).astype(np.uint32))
