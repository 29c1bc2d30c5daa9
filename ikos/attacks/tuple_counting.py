"""The tuple-counting attack on IKOS summation with parallel shufflers.

A target's m shuffled messages, one in the output of each shuffler, add up to its input less its
clear share (if any). The attack counts the tuples, one message from each shuffler, that do: N(r) of
the n^m tuples add up to a residue r, about n^m / q of them by coincidence, and one more if r is the
target's own. The fluctuations of the count hide that one.

To distinguish an input x from x' = x + (d, -d, 0, ..., 0), let y_i be the residue of user i under x
and compare

    S = N(y_1) - N(y_1 + d) + N(y_2) - N(y_2 - d)

with zero: positive indicates x, negative x', and at zero a coin is tossed. Under x' the
distribution of S is that of -S under x, by the automorphism -1 of the group.

S has mean 2 and variance 4 (n^m + 2^m - 2)/q, exactly (:ref:`proof-tuple-counting`). If S were
normal, the advantage would be about 0.8 sqrt(q / n^m): an estimate, not a bound. The proved bound
is sqrt(q / n^m) to leading order in q n^(1-m): close if that is small, else far above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import MAX_SIMULATED_USERS, InvalidValue, flag, integer, number, quote
from ikos.primitives.modular import Zq, blocks
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.sharing import split
from ikos.results.confidence import clopper_pearson

MAX_MODULUS = 1 << 26
"""Largest q: the counts of all residues take 512 MiB for one view, and more while computed."""

MAX_MESSAGES = 50  # most shuffled messages of an experiment: n^m stays within floats
_MAX_LISTED_TUPLES = 1 << 22  # of one view in memory, if they outnumber the residues
_ENTRIES_PER_BLOCK = 1 << 17  # approximate array elements of a block of trials: 1 MiB of counts
_Words = NDArray[np.uint32]  # below q <= 2^26; messages are (trials, m, n)
_Counts = NDArray[Any]  # int64, or Python integers in an object array if n^m does not fit


def _sums(columns: _Words, q: int) -> _Words:
    """Return the sums of all tuples, (trials, n^k) for k columns."""
    trials, k, n = columns.shape
    sums = np.zeros((trials, 1), dtype=np.uint32)
    for j in range(k):
        pairs = (sums[:, :, None] + columns[:, j, None, :]).reshape(trials, n ** (j + 1))
        sums = np.minimum(pairs, pairs - np.uint32(q))  # modulo q: the latter wraps if below 0
    return sums


def _weighted_sums(columns: _Words, q: int) -> tuple[_Words, _Counts]:
    """Return all sums, with weights 1, or all residues and their counts, if those are fewer."""
    trials, k, n = columns.shape
    if n**k <= q:
        return _sums(columns, q), np.ones((trials, n**k), dtype=np.int64)
    residues = np.broadcast_to(np.arange(q, dtype=np.uint32), (trials, q))
    return residues, _all_counts(columns, q)


def _enumerable(n: int, m: int, q: int) -> int:
    """Return how many of m columns, at least one, to count tuple by tuple."""
    k = 1  # one more column costs n times the number of tuples, or n times the number of residues
    while k < m and 2 * n**k <= q and n ** (k + 1) <= max(q, _MAX_LISTED_TUPLES):
        k += 1
    return k


def _all_counts(columns: _Words, q: int) -> _Counts:
    """Return N(r) for every residue r, (trials, q)."""
    trials, m, n = columns.shape
    rows = np.arange(trials)
    k = _enumerable(n, m, q)
    cells = _sums(columns[:, :k], q) + q * rows[:, None]
    counts: _Counts = np.bincount(cells.reshape(-1), minlength=trials * q).reshape(trials, q)
    if n**m >= 1 << 63:
        counts = counts.astype(object)
    for j in range(k, m):  # N(r) becomes the sum of N(r - v) over the messages v of column j
        twice = np.concatenate([counts, counts], axis=1)
        windows = np.lib.stride_tricks.sliding_window_view(twice, q, axis=1)
        values, weights = _weighted_sums(columns[:, j : j + 1], q)
        counts = np.zeros_like(counts)
        for i in range(values.shape[1]):
            counts += weights[:, i, None] * windows[rows, np.int64(q) - values[:, i]]
    return counts


def _counts_at(columns: _Words, q: int, residues: _Words) -> _Counts:
    """Return N(r) for some residues of each trial, (trials, k) for residues of that shape."""
    trials, m, n = columns.shape
    half = (m + 1) // 2
    first_half = _all_counts(columns[:, :half], q)
    if n**m >= 1 << 63:
        first_half = first_half.astype(object)
    second_half, weights = _weighted_sums(columns[:, half:], q)
    met = (
        first_half[np.arange(trials)[:, None], (r[:, None] + q - second_half) % q]
        for r in residues.T
    )
    return np.stack([(counts * weights).sum(axis=1) for counts in met], axis=1)


def tuple_counts(columns: ArrayLike, q: int) -> NDArray[Any]:
    """Count, for every residue, the tuples of one message from each shuffler that add up to it.

    Parameters
    ----------
    columns : (..., m, n) array_like of int
        Independent views: row j is the output of shuffler j, in any order, in ``[0, q)``.
    q : int
        Order of the group, from 2 to 2^26.

    Returns
    -------
    (..., q) ndarray
        Exact, int64 or, if n^m does not fit, Python integers. Those of one view add up to n^m.

    Examples
    --------
    >>> tuple_counts([[0, 2], [1, 2]], 3)  # two of the four sums, 0 + 1 and 2 + 2, are 1
    array([1, 2, 1])
    """
    group = Zq(integer("q", q, low=2, high=MAX_MODULUS))
    views = group.elements(columns, "columns")
    *lead, m, n = views.shape if views.ndim > 1 else (0, 0)
    if m * n == 0:
        raise InvalidValue(
            "columns", f"must have shape (..., m, n), with none 0, got {views.shape}"
        )
    return _all_counts(views.reshape(math.prod(lead), m, n), group.q).reshape(*lead, group.q)


def _compared(columns: _Words, residues: _Words, q: int, d: int) -> NDArray[Any]:
    """Return S for each view, (trials,), from y_1 and y_2 as residues, (trials, 2)."""
    shifted = (residues + np.array([d, q - d], dtype=np.uint32)) % q
    counts = _counts_at(columns, q, np.concatenate([residues, shifted], axis=1))
    return np.asarray(counts[:, 0] + counts[:, 1] - counts[:, 2] - counts[:, 3])


def _permuted(columns: _Words, q: int, rng: RandomSource) -> _Words:
    """Return each row in a uniformly random order: by random keys, drawn again if some are tied."""
    values = columns.reshape(-1, columns.shape[-1])
    bits = np.uint64((q - 1).bit_length())
    low = (np.uint64(1) << bits) - np.uint64(1)
    todo = np.arange(len(values))
    out = np.empty_like(values)
    while todo.size:
        packed = np.empty((todo.size, values.shape[1]), dtype=np.uint64)
        rng.fill(packed)
        packed &= ~low
        packed |= values[todo]
        packed.sort(axis=1)
        out[todo] = packed & low
        todo = todo[(np.diff(packed >> bits) == 0).any(axis=1)]
    return out.reshape(columns.shape)


def _drawn_views(
    x: _Words, group: Zq, m: int, clear_share: bool, rng: RandomSource
) -> tuple[_Words, _Words | None]:
    """Return the shufflers' outputs and the clear shares, (trials, n), for inputs of that shape."""
    # users share independently of each other: those of all trials form one long row
    shares = split(x.reshape(-1), group, m + clear_share, rng).reshape(-1, *x.shape)
    columns = _permuted(np.swapaxes(shares[:m], 0, 1), group.q, rng)
    return columns, shares[m] if clear_share else None


def _trial_blocks(trials: int, n: int, q: int, m: int) -> Iterator[int]:
    """Yield sizes of blocks of trials whose arrays take about `_ENTRIES_PER_BLOCK` elements."""
    tuples = n ** _enumerable(n, (m + 1) // 2, q)
    for part in blocks(trials, max(1, _ENTRIES_PER_BLOCK // (m * n + 2 * q + tuples))):
        yield part.stop - part.start


def _inputs(
    trials: int, n: int, group: Zq, m: int, clear_share: bool, rng: RandomSource
) -> Iterator[_Words]:
    """Yield the inputs x of blocks of trials, (block, n)."""
    for size in _trial_blocks(trials, n, group.q, m):
        x = np.zeros(size * n, np.uint32) if clear_share else rng.uniform(group.q, size * n)
        yield x.reshape(size, n)


def _own_residues(x: _Words, clear: _Words | None, q: int) -> _Words:
    """Return the sums of the shuffled messages of users 1 and 2 for inputs x."""
    return x[:, :2] if clear is None else (x[:, :2] + q - clear[:, :2]) % q


@dataclass(frozen=True)
class Advantage:
    """The advantage Pr[guess x | x] - Pr[guess x | x'], at most the views' total variation.

    ``estimate`` is 2 correct / trials - 1, unbiased. ``lower`` and ``upper`` are an exact
    (Clopper-Pearson) interval that contains the advantage with probability at least ``confidence``;
    each end fails with at most half of the rest, and ``lower`` can be negative.
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
    clear_share: bool = True,
    difference: int = 1,
    confidence: float | Fraction = 0.99,
    rng: RandomSource | None = None,
) -> Advantage:
    """Measure how well the attack distinguishes x from x' = x + (d, -d, 0, ..., 0).

    Each trial tosses a coin for x or x', draws the view, and lets the attack, which knows both,
    guess. With a clear share x is zero: any x gives the same advantage, as the residues are
    uniform. Without one x is uniform: the advantage is an average, below that of the worst x.

    Parameters
    ----------
    n, q, m : int
        Users, 2 to 2^18, order of the group, 2 to 2^26, and shuffled messages per user, 1 to 50.
    trials : int
        Views to draw: a few times 1/A^2 to see an advantage of A. Each takes time proportional to
        n^ceil(m/2) or, if that is less, to m n q.
    clear_share : bool
        Whether each user sends one further share that bypasses the shufflers.
    difference : int
        d, any integer but a multiple of q.
    confidence : float
        Confidence level of the interval, between 0 and 1.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> measure_advantage(10, 50, 2, 10_000, rng=DeterministicRandom(1)).lower > 0.4
    True
    """
    n = integer("n", n, low=2, high=MAX_SIMULATED_USERS)
    m = integer("m", m, low=1, high=MAX_MESSAGES)
    trials, clear_share = integer("trials", trials, low=1), flag("clear_share", clear_share)
    group, source = Zq(integer("q", q, low=2, high=MAX_MODULUS)), secure(rng)
    d = integer("difference", difference) % group.q
    if d == 0:
        got = quote(difference)
        raise InvalidValue("difference", f"must not be a multiple of q = {group.q}, got {got}")
    level = number("confidence", confidence, above=0, below=1)
    correct = 0
    for x in _inputs(trials, n, group, m, clear_share, source):
        hidden: _Words = source.uniform(2, len(x))
        actual = x.copy()
        actual[:, :2] = (x[:, :2] + np.outer(hidden, [d, group.q - d])) % group.q
        columns, clear = _drawn_views(actual, group, m, clear_share, source)
        correct += int((_guess(columns, clear, x, group.q, d, source) == hidden).sum())
    low, high = clopper_pearson(correct, trials, level)
    return Advantage(
        n, group.q, m, trials, estimate=2 * correct / trials - 1,
        lower=2 * low - 1, upper=2 * high - 1, confidence=float(level), correct=correct,
    )  # fmt: skip


def _guess(
    columns: _Words, clear: _Words | None, x: _Words, q: int, d: int, rng: RandomSource
) -> _Words:
    """Return 0 for x and 1 for x', from what the analyzer sees and knows; a coin if S is 0."""
    s = _compared(columns, _own_residues(x, clear, q), q, d)
    return np.where(s == 0, rng.uniform(2, len(s)), (s < 0).astype(np.uint32))
