"""Projection of estimated frequencies onto the possible ones (WLQDLY21, Section 6.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import doubles, integer


def projected_frequencies(frequencies: ArrayLike, sparsity: int) -> NDArray[np.float64]:
    """Return the nearest possible frequencies of 2d events, ``sparsity`` of them per user.

    It needs no data and costs no privacy, but the result is biased.

    Parameters
    ----------
    frequencies : (d, 2) array_like of float
        Estimates, such as `KeyValueResult.frequencies`.
    sparsity : int
        Events per user, s, from 1 to d: the frequencies over s are in the simplex.

    Examples
    --------
    >>> projected_frequencies([[0.9, -0.1], [1.3, 0.2]], 2).round(6).tolist()
    [[0.766667, 0.0], [1.166667, 0.066667]]
    """
    given = doubles("frequencies", frequencies)
    if given.ndim != 2 or given.shape[1] != 2 or not given.size:
        raise ValueError(f"frequencies must have shape (d, 2), got {given.shape}")
    if (wrong := ~np.isfinite(given)).any():
        raise ValueError(f"frequencies must be finite, got {float(given[wrong][0])!r}")
    s = integer("sparsity", sparsity, low=1, high=given.shape[0])
    return s * project_simplex(given.reshape(-1) / s).reshape(given.shape)


def project_simplex(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest vector whose coordinates are at least 0 and add up to 1.

    By Wang and Carreira-Perpinan, *Projection onto the probability simplex*, 2013, one number,
    which follows from the largest coordinates, is subtracted from all, and what is below 0 cut off.
    """
    # Shifting all values changes nothing: around the largest, nothing cancels. Values further below
    # it than 1 become 0.
    with np.errstate(over="ignore"):
        values = np.maximum(y - y.max(), -2.0)
    falling = -np.sort(-values)
    excess = (np.cumsum(falling) - 1) / np.arange(1, y.size + 1)
    # the largest stay positive while they exceed the number subtracted
    return np.asarray(np.maximum(values - excess[np.count_nonzero(falling > excess) - 1], 0.0))
