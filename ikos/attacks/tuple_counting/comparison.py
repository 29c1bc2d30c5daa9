"""The statistic S, by which the attack tells one input from another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer
from ikos.attacks.tuple_counting.counts import checked_modulus, counts_at, reduced
from ikos.modular import Zq


def statistic(
    columns: NDArray[Any], residues: NDArray[Any], q: int, difference: int
) -> NDArray[Any]:
    """Return S for each view: positive speaks for x, negative for x' = x + (d, -d, 0, ..., 0).

    Parameters
    ----------
    columns : (trials, m, n) ndarray of int
        The shufflers' outputs, every value in ``[0, q)``.
    residues : (trials, 2) ndarray of int
        What the shuffled messages of users 1 and 2 add up to if the inputs are x: the input, less
        the clear share where there is one.
    q : int
        Order of the group, from 2 to 2^26.
    difference : int
        d, any integer but a multiple of q.

    Returns
    -------
    (trials,) ndarray
        Exact integers.

    Examples
    --------
    Two users and one message each are no protection: if x is (3, 5) the messages show it.

    >>> import numpy as np
    >>> statistic(np.array([[[5, 3]]]), np.array([[3, 5]]), q=10, difference=1)
    array([2])
    """
    q = checked_modulus(q)
    group = Zq(q)
    d = checked_difference(difference, q)
    seen, own = group.elements(columns, "columns"), group.elements(residues, "residues")
    if seen.ndim != 3 or 0 in seen.shape[1:] or own.shape != (len(seen), 2):
        raise ValueError(
            "columns and residues must have shapes (trials, m, n) and (trials, 2), got "
            f"{seen.shape} and {own.shape}"
        )
    return compared(seen, own, q, d)


def checked_difference(difference: object, q: int) -> int:
    """Check and return d, reduced modulo q."""
    d = integer("difference", difference) % q
    if d == 0:
        raise ValueError(f"difference must not be a multiple of q = {q}, got {difference!r}")
    return d


def compared(
    columns: NDArray[np.uint32], residues: NDArray[np.uint32], q: int, d: int
) -> NDArray[Any]:
    """Return `statistic` of what is checked already."""
    moved = reduced(residues + np.array([d, q - d], dtype=np.uint32), q)
    counts = counts_at(columns, q, np.concatenate([residues, moved], axis=1))
    result: NDArray[Any] = counts[:, 0] + counts[:, 1] - counts[:, 2] - counts[:, 3]
    return result
