"""The client's part of secure summation: additive shares.

A value x in Z_q becomes shares that are uniform subject to their sum being x modulo q, so that
any proper subset of them is independent of x (IKOS06; BBGN20, Section 5.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.modular import Zq, blocks
from ikos.randomness import RandomSource

__all__ = ["share_columns", "split"]


def _peel(remainder: NDArray[Any], column: NDArray[Any], group: Zq, rng: RandomSource) -> None:
    """Fill ``column`` with uniform shares and take them off ``remainder``, block by block."""
    for part in blocks(column.size):
        rng.uniform_into(column[part], group)
        group.subtract(remainder[part], column[part])


def split(x: NDArray[Any], group: Zq, messages: int, rng: RandomSource) -> NDArray[Any]:
    """Split group elements into additive shares.

    Parameters
    ----------
    x : (n,) ndarray
        Reduced elements in the group's dtype.
    group : Zq
        The group.
    messages : int
        Shares of each user, at least 1. A single share is the value itself.
    rng : RandomSource
        Where the shares come from.

    Returns
    -------
    (messages, n) ndarray
        Row j holds everybody's share j. Each column sums to its user's value modulo q, and any
        ``messages - 1`` rows are uniform and independent of ``x``.
    """
    shares = np.empty((messages, x.size), dtype=group.dtype)
    remainder = shares[-1]
    remainder[:] = x
    for column in shares[:-1]:
        _peel(remainder, column, group, rng)
    return shares


def share_columns(
    x: NDArray[Any], group: Zq, messages: int, rng: RandomSource
) -> Iterator[NDArray[Any]]:
    """Yield the rows that `split` would return, one at a time and in one reused buffer.

    The memory needed is two rows, whatever ``messages`` is. A row that was yielded may be changed
    by its receiver; it is overwritten at the next step.
    """
    remainder = x.copy()
    column = np.empty_like(remainder)
    for _ in range(messages - 1):
        _peel(remainder, column, group, rng)
        yield column
    yield remainder
