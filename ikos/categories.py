"""One answer to each of several questions, as a vector of zeros and ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, quote
from ikos.domains import MAX_DIMENSION, Vectors


@dataclass(frozen=True)
class Categories(Vectors):
    """Vectors with exactly one 1 in each of some runs of coordinates, and 0 elsewhere (one-hot).

    Parameters
    ----------
    sizes : sequence of int
        How many categories each question has, at least one question.

    Raises
    ------
    TypeError, ValueError
        If they are no sequence (a set is none), or empty, or one is no positive integer.

    Examples
    --------
    >>> Categories([2, 3]).values([[0, 1, 1, 0, 0]])
    array([[0, 1, 1, 0, 0]])
    >>> Categories([2, 3]).values([[0, 1, 1, 1, 0]])
    Traceback (most recent call last):
    ...
    ValueError: x[0] must have exactly one 1 among its entries 2 to 4
    """

    sizes: Sequence[int]

    _made_by: ClassVar[str] = (
        "; each answer is a 1 among zeros (one-hot): ikos.vectors.histograms takes labels"
    )

    def __post_init__(self) -> None:
        # a set has no order, and forgets sizes that are equal
        given: object = self.sizes
        if isinstance(given, (str, bytes)) or not isinstance(given, (Sequence, np.ndarray)):
            kind = type(given).__name__
            raise TypeError(f"sizes must be a sequence of integers, got {kind} {quote(given)}")
        if not len(self.sizes):
            raise ValueError(f"sizes must hold at least one number, got {quote(self.sizes)}")
        sizes = tuple(integer("sizes", size, low=1) for size in self.sizes)
        integer("sizes in all", sum(sizes), high=MAX_DIMENSION)
        object.__setattr__(self, "sizes", sizes)

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Categories of all questions together."""
        return sum(self.sizes)

    @property
    def diameter(self) -> float:
        """Of two vectors that differ in every answer."""
        return float(np.sqrt(2 * len(self.sizes)))

    @property
    def runs(self) -> list[slice]:
        """The coordinates of each question."""
        edges = np.concatenate(([0], np.cumsum(self.sizes))).tolist()
        return [slice(first, last) for first, last in pairwise(edges)]

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        binary = (rows == 0) | (rows == 1)  # False for NaN
        if not binary.all():
            row, column = np.unravel_index(int(np.argmin(binary)), binary.shape)
            raise ValueError(f"x[{first + row}, {column}] must be 0 or 1")
        for run in self.runs:
            single = rows[:, run].sum(axis=1) == 1
            if not single.all():
                worst = int(np.argmin(single))
                raise ValueError(
                    f"x[{first + worst}] must have exactly one 1 among its entries {run.start} to "
                    f"{run.stop - 1}"
                )
