"""The shufflers' part: mix all users' messages, so that only their multiset is revealed.

A uniformly random order and the sorted order reveal the same: the multiset of the messages (BBGN20,
Section 2.2). Sorting, the default, needs no randomness and no trust in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import refuse_missing
from ikos.primitives.randomness import RandomSource

MESSAGE_ORDERS = ("sorted", "permuted")


@dataclass(frozen=True, eq=False)
class View:
    """All that the analyzer receives: messages without a user index or an order of arrival.

    Arrays are new and read-only, and integers beyond machine words are objects created in the order
    of the output.

    Attributes
    ----------
    columns : tuple of ndarray
        One array per shuffler: n messages from each parallel shuffler, or all from a single one.
    clear : (n,) ndarray or None
        The clear shares, if any, in the users' order.
    """

    columns: tuple[NDArray[Any], ...]
    clear: NDArray[Any] | None

    def __post_init__(self) -> None:
        arrays = tuple(self.columns) if self.clear is None else (*self.columns, self.clear)
        types = [type(self.columns) is tuple, *(isinstance(a, np.ndarray) for a in arrays)]
        if not all(types) or any(refuse_missing("view", array).ndim != 1 for array in arrays):
            raise TypeError("the columns of a View must be a tuple of one-dimensional arrays")

    def __repr__(self) -> str:
        sizes = sorted({column.size for column in self.columns}) or [0]
        each = " or ".join(f"{size:,}" for size in sizes)
        clear = "no" if self.clear is None else f"{self.clear.size:,}"
        return f"<View: {len(self.columns)} columns of {each} messages, {clear} clear>"


def release(column: NDArray[Any], order: str, rng: RandomSource) -> NDArray[Any]:
    """Return one shuffler's output, sorted or "permuted" by ``rng``; the input may be changed."""
    if order == "permuted":
        return column[rng.permutation(column.size)]
    column.sort()
    return column


def _fresh(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column whose Python integers are new objects, created in this order.

    The input objects were created in the users' order, which their addresses would reveal.
    """
    if column.dtype == object:
        values = [int.from_bytes(v.to_bytes(v.bit_length() // 8 + 1)) for v in column]
        column[:] = values
    return column


def shuffle(
    messages: NDArray[Any], *, shuffler: str, order: str, rng: RandomSource
) -> tuple[NDArray[Any], ...]:
    """Pass messages, (shufflers, n), through the shufflers and return their output.

    Row j goes to shuffler j, or all rows to a "single" one.
    """
    inputs = [messages.reshape(-1)] if shuffler == "single" else list(messages)
    columns = tuple(_fresh(release(column.copy(), order, rng)) for column in inputs)
    for column in columns:
        column.setflags(write=False)
    return columns
