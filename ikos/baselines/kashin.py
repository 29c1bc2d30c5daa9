"""Kashin's representation: a vector as twice as many coefficients of about the same size.

A tight frame U is a matrix of D rows and d columns with U^T U = 1; here d columns of the Hadamard
matrix of D = 2^k >= 2 d rows, over sqrt(D), chosen and signed by a public seed. Some coefficients a
with U^T a = x are as even as abs(a_j) <= K norm(x) / sqrt(D), for a constant K (LV10). A search
finds them for most vectors: see docs/vector-protocols.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidValue, integer, number
from ikos.data.domains import MAX_DIMENSION, Ball
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import Expanded

KASHIN = 2.5  # default value of K
_FACTOR = 6  # Hadamard matrices of 2^6 rows are applied directly; larger ones are products of these
_BLOCK = 1 << 18  # coefficients processed at a time: 2 MiB, which fit in a core's cache
_INNER = 0.97  # the box used for truncation, as a fraction of the required box
_STEPS = 300  # most truncations


@lru_cache(maxsize=8)
def _matrix(size: int) -> NDArray[np.float64]:
    from scipy.linalg import hadamard  # slow to import

    result: NDArray[np.float64] = hadamard(size).astype(np.float64)
    result.setflags(write=False)
    return result


def walsh_hadamard(a: NDArray[np.float64]) -> None:
    """Replace each row, in place, by its Walsh-Hadamard transform over the root of its length."""
    length = a.shape[1]
    for part in blocks(a.shape[0], max(1, _BLOCK // length)):
        block = a[part]
        rest = length
        while rest > 1:
            factor = min(rest, 1 << _FACTOR)
            rest //= factor
            after = length // (factor * rest)
            pieces = block.reshape(-1, factor, after)
            if after == 1:
                pieces[..., 0] = pieces[..., 0] @ _matrix(factor)
            else:
                pieces[:] = np.matmul(_matrix(factor), pieces)
        block *= 1 / math.sqrt(length)


@lru_cache(maxsize=8)
def _columns(dimension: int, rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the columns of the Hadamard matrix that make a frame, and their signs."""
    material = b"ikos.vectors.kashin" + seed.to_bytes((seed.bit_length() + 7) // 8 or 1, "big")
    source = Expanded(hashlib.sha512(material).digest())
    columns = np.sort(source.permutation(rows)[:dimension])
    signs = 1.0 - 2.0 * (source.uniform(2, dimension) == 1)
    columns.setflags(write=False)
    signs.setflags(write=False)
    return columns, signs


@dataclass(frozen=True)
class KashinFrame:
    """A tight frame, and the coefficients of vectors in it.

    Parameters
    ----------
    dimension : int
        Coordinates d of the vectors.
    seed : int
        Public, not chosen for the data: selects the columns of the Hadamard matrix and their signs.
    bound : float
        K: coefficients are at most K / sqrt(D) times the norm. A smaller K holds for fewer vectors,
        and takes longer; the mean squared error of a private sum is proportional to its square.

    Examples
    --------
    >>> frame = KashinFrame(3)
    >>> x = np.array([[0.0, 0.6, -0.8]])
    >>> a = frame.coefficients(x)
    >>> a.shape, bool(np.allclose(frame.vectors(a), x, atol=1e-12))
    ((1, 8), True)
    """

    dimension: int
    seed: int = 0
    bound: float = KASHIN

    def __post_init__(self) -> None:
        d = integer("dimension", self.dimension, low=1, high=MAX_DIMENSION)
        object.__setattr__(self, "dimension", d)
        object.__setattr__(self, "seed", integer("seed", self.seed, low=0))
        bound = float(number("bound", self.bound, low=1, high=1000))
        # the bound on U x itself, and room for its rounding
        object.__setattr__(self, "bound", min(bound, math.sqrt(d) * (1 + 1e-12)))

    @property
    def rows(self) -> int:
        """Number of coefficients of a vector, D, the smallest power of two of at least 2 d."""
        return 1 << (2 * self.dimension - 1).bit_length()

    @property
    def largest(self) -> float:
        """Bound K / sqrt(D) on the coefficients of a vector of norm 1."""
        return self.bound / math.sqrt(self.rows)

    def apply(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return U x for each row of (k, d), as (k, D)."""
        columns, signs = _columns(self.dimension, self.rows, self.seed)
        result = np.zeros((x.shape[0], self.rows))
        result[:, columns] = x * signs
        walsh_hadamard(result)
        return result

    def vectors(self, a: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the vectors U^T a, (k, d), of coefficients (k, D)."""
        columns, signs = _columns(self.dimension, self.rows, self.seed)
        work = np.array(a, dtype=np.float64, order="C")
        walsh_hadamard(work)
        vectors: NDArray[np.float64] = work[:, columns] * signs
        return vectors

    def coefficients(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return even coefficients, (k, D), of vectors of norm at most 1, (k, d).

        ``vectors`` maps them to x up to about 1e-15, and none is above ``largest`` in absolute
        value. ValueError for a vector for which none are found.
        """
        vectors = Ball(self.dimension).values(x)
        result = np.empty((vectors.shape[0], self.rows))
        for part, coefficients, failed in self._searched(vectors, 1.0):
            if failed.size:
                row = part.start + int(failed[0])
                raise InvalidValue(
                    f"x[{row}]",
                    f"has no coefficients within {self.bound:g}/sqrt({self.rows}) that were found; "
                    "use another public seed, or a larger bound",
                    row=row,
                )
            result[part] = coefficients
        return result

    def _searched(
        self, x: NDArray[Any], radius: float
    ) -> Iterator[tuple[slice, NDArray[np.float64], NDArray[np.int64]]]:
        """Yield rows of checked vectors, their coefficients over the radius, and the failures."""
        for part in blocks(x.shape[0], max(1, _BLOCK // self.rows)):
            with np.errstate(under="ignore"):
                coefficients, failed = self._even(x[part].astype(np.float64) / radius)
            yield part, coefficients, failed

    def _even(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return coefficients of vectors of norm 1, and the indices where they are too large."""
        result = self.apply(x)
        largest, inner = self.largest, _INNER * self.largest
        todo = np.flatnonzero(np.abs(result).max(axis=1, initial=0.0) > largest)
        before, here, wanted = result[todo], result[todo], x[todo]
        for step in range(_STEPS):
            if not todo.size:
                break
            ahead = here + step / (step + 3) * (here - before)
            np.clip(ahead, -inner, inner, out=ahead)
            ahead += self.apply(wanted - self.vectors(ahead))
            before, here = here, ahead
            going_on = np.abs(here).max(axis=1) > largest
            if not going_on.all():
                result[todo] = here
                todo, wanted = todo[going_on], wanted[going_on]
                before, here = before[going_on], here[going_on]
        if todo.size:
            result[todo] = here
        return result, todo
