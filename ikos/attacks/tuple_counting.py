"""The tuple-counting attack on IKOS summation with parallel shufflers and a clear share.

A target's m shuffled messages, one in the output of each shuffler, add up to its input less its
clear share. The attack counts the tuples, one message from each shuffler, that do: N(r) of the n^m
tuples add up to a residue r, about n^m / q of them by chance, and one more if r is the target's
own. The fluctuations of the count hide that one.

To distinguish an input x from x' = x + (1, -1, 0, ..., 0), let y_i be the residue of user i under x
and compare

    S = N(y_1) - N(y_1 + 1) + N(y_2) - N(y_2 - 1)

with zero: positive indicates x, negative x', and at zero a coin is tossed. Under x' the
distribution of S is that of -S under x, by the automorphism -1 of the group.

S has mean 2 and variance 4 (n^m + 2^m - 2)/q, exactly (:ref:`proof-tuple-counting`). If S were
normal, the advantage would be about 0.8 sqrt(q / n^m): the expected result of experiments, not a
bound. The proved bound on the total variation for a change on two users is sqrt(q / n^m) to leading
order in q n^(1-m): close to this advantage if it is small, and far above it otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, number
from ikos.confidence import clopper_pearson
from ikos.modular import Zq, blocks
from ikos.randomness import RandomSource, secure
from ikos.sharing import split

MAX_MODULUS = 1 << 26
"""Largest q: the counts of all residues take 512 MiB for one view."""

MAX_TUPLES = 1 << 22
"""Most tuples of half of the messages, n^ceil(m/2)."""

_WORK = 1 << 17  # approximate array elements of a block of trials: 1 MiB of counts

_Columns = NDArray[np.uint32]  # (trials, m, n), below q <= 2^26
_Residues = NDArray[np.int64]


@dataclass(frozen=True)
class Advantage:
    """The attack's gain in an experiment.

    The advantage is Pr[guess x | x] - Pr[guess x | x'], which for any attack is at most the total
    variation between the two views.

    ``estimate`` is 2 correct / trials - 1, unbiased. ``lower`` and ``upper`` are an exact
    (Clopper-Pearson) interval that contains the advantage with probability at least ``confidence``;
    each end fails with at most half of the rest. ``lower`` bounds the total variation from below,
    and can be negative.
    """

    n: int
    q: int
    m: int
    trials: int
    estimate: float
    lower: float
    upper: float
    confidence: float
    correct: int

    @property
    def scale(self) -> float:
        """``sqrt(q / n^m)``, the leading order of the proved bound for two users, to compare."""
        return math.sqrt(self.q / self.n**self.m)


def measure_advantage(
    n: int,
    q: int,
    m: int,
    trials: int,
    *,
    confidence: float | Fraction = 0.99,
    rng: RandomSource | None = None,
) -> Advantage:
    """Measure how well the attack distinguishes x from x' = x + (1, -1, 0, ..., 0).

    Each trial tosses a coin for x or x', draws the view, and lets the attack guess. It knows both
    inputs, as an analyzer may. x is zero; any x gives the same advantage, as the residues (the
    input less the clear share) are uniform.

    Parameters
    ----------
    n : int
        Number of users, at least 2.
    q : int
        Order of the group, from 2 to 2^26.
    m : int
        Shuffled messages per user, without the clear share; n^ceil(m/2) is at most 2^22.
    trials : int
        Views to draw: a few times 1/A^2 to see an advantage of A. Each takes time proportional to
        n^ceil(m/2) and to q.
    confidence : float
        Of the interval, between 0 and 1.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> found = measure_advantage(10, 50, 2, 10_000, rng=DeterministicRandom(1))
    >>> found.lower > 0.4
    True
    """
    n, m = integer("n", n, low=2, high=MAX_TUPLES), integer("m", m, low=1, high=64)
    tuples = n ** math.ceil(m / 2)
    if tuples > MAX_TUPLES:
        raise ValueError(f"m must be smaller for {n} users: n^ceil(m/2) is above 2^22, got {m}")
    group = Zq(integer("q", q, low=2, high=MAX_MODULUS))
    trials, source = integer("trials", trials, low=1), secure(rng)
    level = number("confidence", confidence, above=0, below=1)
    correct = 0
    for part in blocks(trials, max(1, _WORK // (m * n + group.q + tuples))):
        hidden: NDArray[np.uint32] = source.uniform(2, part.stop - part.start)
        columns, clear = _views(hidden, n, group, m, source)
        correct += int((_guess(columns, clear, group.q, source) == hidden).sum())
    low, high = clopper_pearson(correct, trials, level)
    return Advantage(
        n, group.q, m, trials, estimate=2 * correct / trials - 1,
        lower=2 * low - 1, upper=2 * high - 1, confidence=float(level), correct=correct,
    )  # fmt: skip


def _views(
    hidden: NDArray[np.uint32], n: int, group: Zq, m: int, rng: RandomSource
) -> tuple[_Columns, NDArray[np.uint32]]:
    """Return the shufflers' outputs, (trials, m, n), and the clear shares, (trials, n).

    The inputs are x = 0 where ``hidden`` is 0 and x' where it is 1. Each output is in a uniformly
    random order; the clear shares are in the users' order.
    """
    x = np.zeros((hidden.size, n), dtype=np.uint32)
    x[:, 0], x[:, 1] = hidden, hidden * np.uint32(group.q - 1)
    # users share independently of each other: those of all trials form one long row
    shares = split(x.reshape(-1), group, m + 1, rng).reshape(m + 1, *x.shape)
    order = rng.permutations(m * hidden.size, n).reshape(m, *x.shape)
    shuffled = np.take_along_axis(shares[:m], order, axis=2)
    return np.swapaxes(shuffled, 0, 1), shares[m]


def _guess(
    columns: _Columns, clear: NDArray[np.uint32], q: int, rng: RandomSource
) -> NDArray[np.uint32]:
    """Return 0 for x and 1 for x', from what the analyzer sees; a coin if S is 0."""
    own = -clear[:, :2].astype(np.int64) % q  # the residues of users 1 and 2 under x = 0
    s = _statistic(columns, own, q)
    return np.where(s == 0, rng.uniform(2, len(s)), (s < 0).astype(np.uint32))


def _statistic(columns: _Columns, own: _Residues, q: int) -> NDArray[np.int64]:
    """Return S for each view, (trials,), from the residues of users 1 and 2, (trials, 2)."""
    moved = (own + np.array([1, -1])) % q
    counts = _counts(columns, q, np.concatenate([own, moved], axis=1))
    result: NDArray[np.int64] = counts @ np.array([1, 1, -1, -1])
    return result


def _counts(columns: _Columns, q: int, residues: _Residues) -> NDArray[np.int64]:
    """Return N(r) for some residues r of each trial, in the shape of the residues, (trials, k).

    The sums of half of the messages are counted, and met with those of the other half.
    """
    rows = np.arange(len(columns))[:, None]
    half = (columns.shape[1] + 1) // 2
    first, second = _sums(columns[:, :half], q), _sums(columns[:, half:], q)
    counted = np.bincount((first + q * rows).reshape(-1), minlength=len(columns) * q)
    counted = counted.reshape(-1, q)
    result = np.empty(residues.shape, dtype=np.int64)
    for j in range(residues.shape[1]):
        result[:, j] = counted[rows, (residues[:, j, None] - second) % q].sum(axis=1)
    return result


def _sums(columns: _Columns, q: int) -> _Residues:
    """Return the sums of all tuples modulo q, (trials, n^k) for k columns."""
    sums = np.zeros((len(columns), 1), dtype=np.int64)
    for j in range(columns.shape[1]):
        sums = (sums[:, :, None] + columns[:, j, None, :]).reshape(len(columns), -1) % q
    return sums
