"""Columns of numbers within public bounds, and their means."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._options import VectorSumOptions, check_passed_on
from ikos._validation import array, quote, real
from ikos.aggregation.private_vector_sum import PrivateVectorSum
from ikos.aggregation.protocol import BLOCK
from ikos.bounds import MAX_BOUND
from ikos.columns.sums import ColumnSums
from ikos.domains import Box
from ikos.modular import blocks
from ikos.randomness import RandomSource

SCALED = dict.fromkeys(
    ("sensitivity", "integers"),
    "columns are scaled to one range; PrivateVectorSum with a Box takes it",
)
"""What cannot be promised of columns in their own units, with the reason."""


def _limits(name: str, value: ArrayLike, columns: int) -> NDArray[np.float64]:
    """Return a bound for each column."""
    given = array(name, value)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got an array of {given.dtype}")
    if given.shape not in ((), (columns,)):
        raise ValueError(f"{name} must be a number or {columns} of them, got shape {given.shape}")
    limits = np.broadcast_to(given.astype(np.float64), (columns,))
    if not (np.abs(limits) <= MAX_BOUND).all():
        raise ValueError(f"{name} must be within {MAX_BOUND:g}, got {quote(value)}")
    return limits


@dataclass(frozen=True, eq=False)
class BoundedColumns:
    """Everybody's values within bounds, one column for each coordinate."""

    values: NDArray[Any]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @classmethod
    def checked(cls, x: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> BoundedColumns:
        """Check and return them; the values are read block by block."""
        values = real("x", x)
        if values.ndim == 2 and values.shape[1] and not values.size:
            raise ValueError("x must hold at least one user's values, got none")
        if values.ndim != 2 or not values.size:
            raise ValueError(
                f"x must have shape (users, columns), a row for each user, got shape {values.shape}"
            )
        low, high = (
            _limits(name, bound, values.shape[1])
            for name, bound in (("lower", lower), ("upper", upper))
        )
        if not (high - low >= 1 / MAX_BOUND).all():
            place = int(np.argmin(high - low))
            raise ValueError(
                f"upper must be greater than lower in each column, got {float(high[place])!r} and "
                f"{float(low[place])!r} in column {place}"
            )
        found = cls(values, low, high)
        for part in found.parts():
            rows = values[part].astype(np.float64)
            inside = (rows >= low) & (rows <= high)  # False for NaN
            if not inside.all():
                row, column = np.unravel_index(int(np.argmin(inside)), inside.shape)
                raise ValueError(
                    f"x[{part.start + row}, {column}] must be in [{low[column]:g}, "
                    f"{high[column]:g}]"
                )
        return found

    @property
    def centre(self) -> NDArray[np.float64]:
        """The middle of the bounds, up to a rounding: public, and whatever it is."""
        return np.asarray(self.lower / 2 + self.upper / 2)

    @property
    def half(self) -> NDArray[np.float64]:
        """The distance of the middle to the bound that is further from it.

        Where bounds are a few roundings apart the middle is not halfway. It is subtracted from them
        exactly then, so that no value is cut off and none is off by more than a rounding.
        """
        return np.asarray(np.maximum(self.upper - self.centre, self.centre - self.lower))

    def parts(self) -> list[slice]:
        """Return runs of users."""
        return list(blocks(self.values.shape[0], max(1, BLOCK // self.values.shape[1])))

    def signed(self, part: slice) -> NDArray[np.float64]:
        """Return values as distances from the middle, in [-1, 1]."""
        rows = self.values[part].astype(np.float64)
        return np.asarray(np.clip((rows - self.centre) / self.half, -1.0, 1.0))


def means(
    x: ArrayLike,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[VectorSumOptions],
) -> ColumnSums:
    """Release the sums and the means of several columns within public bounds.

    Each column is brought to the same range, so that noise is in proportion to its bounds.

    Parameters
    ----------
    x : (n, d) array_like of float
        A row for each user.
    lower, upper : float or (d,) array_like of float
        Public bounds of all columns or of each, not taken from the data.
    epsilon, delta : float
        The guarantee of the release, for all columns together.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateVectorSum`, but for ``sensitivity`` and ``integers``, which are in the units
        of its vectors, not of these columns: with one of them use a `Box` there.

    Returns
    -------
    ColumnSums
        ``.means()``, ``.mean_interval()``, and the same for sums.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace([20, 0], [30, 1], 5000)
    >>> result = means(x, lower=0, upper=[100, 1], epsilon=1, delta=1e-6)
    >>> bool(np.abs(result.means() - [25, 0.5]).max() < 1)
    True
    """
    check_passed_on("means", options, VectorSumOptions, SCALED)
    columns = BoundedColumns.checked(x, lower, upper)
    users, d = columns.values.shape
    scaled = np.empty((users, d))
    for part in columns.parts():
        scaled[part] = columns.signed(part)
    private = PrivateVectorSum(users, Box(d, -1, 1), epsilon, delta, **options).run(scaled, rng)
    return ColumnSums(private, columns.half, columns.centre)
