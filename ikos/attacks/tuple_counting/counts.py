"""Counts of the tuples of messages that add up to a residue.

Inside, columns are (trials, m, n) arrays of uint32 below q <= 2^26.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import integer
from ikos.modular import Zq
from ikos.shuffling import View

MAX_MODULUS = 1 << 26
"""Largest q: the counts of all residues are kept in memory, 512 MiB for one view and more while
they are made."""

LIST = 1 << 22
"""Tuples of one view that are listed in memory, if they are more than the residues."""

Counts = NDArray[Any]
"""int64, or Python integers in an object array where n^m does not fit."""


def reduced(a: NDArray[np.uint32], q: int) -> NDArray[np.uint32]:
    """Return values below 2q modulo q: the smaller of a and a - q, which wraps where a < q."""
    result: NDArray[np.uint32] = np.minimum(a, a - np.uint32(q))
    return result


def _sums(columns: NDArray[np.uint32], q: int) -> NDArray[np.uint32]:
    """Return the sums of all tuples, (trials, n^k) for k columns."""
    trials = len(columns)
    sums = np.zeros((trials, 1), dtype=np.uint32)
    for j in range(columns.shape[1]):
        pairs = sums[:, :, None] + columns[:, j, None, :]
        sums = reduced(pairs.reshape(trials, pairs.shape[1] * pairs.shape[2]), q)
    return sums


def _histogram(values: NDArray[np.uint32], q: int) -> NDArray[np.int64]:
    """Return how often each residue occurs in each row."""
    trials = len(values)
    cells = values + q * np.arange(trials, dtype=np.int64)[:, None]
    return np.bincount(cells.reshape(-1), minlength=trials * q).reshape(trials, q)


def _convolved(counts: Counts, column: NDArray[np.uint32], q: int) -> Counts:
    """Return the counts with one more column: out[r] is the sum of counts[r - v] over it."""
    twice = np.concatenate([counts, counts], axis=1)
    out = np.zeros_like(counts)
    n = column.shape[1]
    if n < q:
        rows = np.arange(len(counts))
        windows = np.lib.stride_tricks.sliding_window_view(twice, q, axis=1)
        for i in range(n):
            out += windows[rows, np.int64(q) - column[:, i]]
    else:
        weights = _histogram(column, q)
        for v in range(q):
            out += weights[:, v, None] * twice[:, q - v : 2 * q - v]
    return out


def enumerable(n: int, m: int, q: int) -> int:
    """Return how many of m columns, at least one, to count tuple by tuple.

    One more column costs n times as many tuples as there are, or n times as many residues.
    """
    k = 1
    while k < m and 2 * n**k <= q and n ** (k + 1) <= max(q, LIST):
        k += 1
    return k


def _all_counts(columns: NDArray[np.uint32], q: int) -> Counts:
    """Return N(r) for every residue r, (trials, q)."""
    _, m, n = columns.shape
    k = enumerable(n, m, q)
    counts: Counts = _histogram(_sums(columns[:, :k], q), q)
    if n**m >= 1 << 63:
        counts = counts.astype(object)
    for j in range(k, m):
        counts = _convolved(counts, columns[:, j], q)
    return counts


def counts_at(columns: NDArray[np.uint32], q: int, residues: NDArray[np.uint32]) -> Counts:
    """Return N(r) for some residues of each trial, (trials, k) for residues of that shape.

    Half of the columns are counted for all residues, and the tuples of the others meet them.
    """
    trials, m, n = columns.shape
    half = (m + 1) // 2
    left = _all_counts(columns[:, :half], q)
    if n**m >= 1 << 63:
        left = left.astype(object)
    right: NDArray[np.uint32]
    weights: Counts | None = None
    if n ** (m - half) <= q:
        right = _sums(columns[:, half:], q)
    else:
        right = np.broadcast_to(np.arange(q, dtype=np.uint32), (trials, q))
        weights = _all_counts(columns[:, half:], q)
    rows = np.arange(trials)[:, None]
    result = np.empty(residues.shape, dtype=left.dtype)
    for j in range(residues.shape[1]):
        met = left[rows, reduced(residues[:, j, None] + (np.uint32(q) - right), q)]
        result[:, j] = (met if weights is None else met * weights).sum(axis=1)
    return result


def checked_modulus(q: object) -> int:
    """Check and return the order of the group."""
    return integer("q", q, low=2, high=MAX_MODULUS)


def tuple_counts(columns: ArrayLike, q: int) -> NDArray[Any]:
    """Count, for every residue, the tuples of one message from each shuffler that add up to it.

    Parameters
    ----------
    columns : (m, n) or (trials, m, n) array_like of int
        Row j is the output of shuffler j, in any order; every value in ``[0, q)``. Leading axes
        are independent views.
    q : int
        Order of the group, from 2 to 2^26.

    Returns
    -------
    (q,) or (trials, q) ndarray
        Entry r counts the tuples with sum r modulo q: exact, of dtype int64, or Python integers
        where n^m does not fit. The counts of one view add up to n^m.

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong kind, out of range or of a wrong shape.

    Examples
    --------
    Of the four sums 0 + 1, 0 + 2, 2 + 1 and 2 + 2, two are 1 modulo 3:

    >>> tuple_counts([[0, 2], [1, 2]], 3)
    array([1, 2, 1])
    """
    q = checked_modulus(q)
    given = Zq(q).elements(columns, "columns")
    if given.ndim < 2 or 0 in given.shape[-2:]:
        raise ValueError(
            f"columns must have shape (..., m, n) with m, n >= 1, got shape {given.shape}"
        )
    lead = given.shape[:-2]
    flat = given.reshape(math.prod(lead), *given.shape[-2:])
    return _all_counts(flat, q).reshape(*lead, q)


def consistent_tuples(view: View, q: int, user: int, value: int) -> int:
    """Count the tuples of a view's messages that would give a user a certain input.

    Parameters
    ----------
    view : View
        What the analyzer received from parallel shufflers, with clear shares or without.
    q : int
        Order of the group, from 2 to 2^26.
    user : int
        The target, counted from 0. Without clear shares the count is the same for all users.
    value : int
        The input to try, in ``[0, q)``.

    Returns
    -------
    int
        How many tuples, one message from each shuffler, add up to the value less the target's
        clear share. At least 1 for the true value; compare it with the counts for other values.

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong kind or out of range, or the columns differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> view = View((np.array([5, 8, 1]), np.array([3, 3, 9])), np.array([0, 4, 2]))
    >>> consistent_tuples(view, 10, user=2, value=0)  # 5 + 3 + 2 twice, 9 + 9 + 2 never
    2
    """
    q = checked_modulus(q)
    group = Zq(q)
    if not isinstance(view, View):
        raise TypeError(f"view must be an ikos.View, got {type(view).__name__}")
    target = integer("user", user, low=0)
    residue = integer("value", value, low=0, high=q - 1)
    arrays = view.columns if view.clear is None else (*view.columns, view.clear)
    sizes = sorted({array.size for array in arrays})
    if not view.columns or len(sizes) != 1 or not sizes[0]:
        raise ValueError(
            "view must hold as many messages of each parallel shuffler as there are users, "
            f"got {len(view.columns)} columns and sizes {sizes}"
        )
    if target >= sizes[0]:
        raise ValueError(f"user must be at most {sizes[0] - 1}, got {target}")
    columns = np.stack([group.elements(column, "view.columns") for column in view.columns])
    if view.clear is not None:
        residue = (residue - int(group.elements(view.clear, "view.clear")[target])) % q
    return int(counts_at(columns[None], q, np.array([[residue]], dtype=np.uint32))[0, 0])
