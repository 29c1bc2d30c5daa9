"""Projection of estimated frequencies onto the probability simplex (WLQDLY21, Section 6.1).

It needs no data and costs no privacy, but the result is not unbiased. The method is that of Wang
and Carreira-Perpinan, *Projection onto the probability simplex*, 2013: the nearest point subtracts
one number, which follows from the largest coordinates, from all of them and cuts off at 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import doubles, integer, number


def _checked(name: str, y: ArrayLike) -> NDArray[np.float64]:
    """Return real, finite numbers as doubles."""
    values = doubles(name, y)
    if (wrong := ~np.isfinite(values)).any():
        raise ValueError(f"{name} must be finite, got {float(values[wrong][0])!r}")
    return values


def project_simplex(y: ArrayLike, total: float = 1.0) -> NDArray[np.float64]:
    """Return the nearest vectors with coordinates that are at least 0 and add up to a total.

    Parameters
    ----------
    y : (..., m) array_like of float
        Vectors, the last axis of each; finite.
    total : float
        Positive, from 1e-300 to 1e300.

    Returns
    -------
    (..., m) ndarray of float
        In Euclidean distance; unique.

    Examples
    --------
    >>> project_simplex([0.5, 0.9, -0.2]).round(6).tolist()
    [0.3, 0.7, 0.0]
    """
    values = _checked("y", y)
    whole = float(number("total", total, above=0, low=1e-300, high=1e300))
    if values.ndim < 1 or values.shape[-1] < 1:
        raise ValueError(f"y must hold at least one number in its last axis, got {values.shape}")
    # Moving all values changes nothing: around the largest nothing cancels. Values that are further
    # below it than the total become 0.
    with np.errstate(over="ignore"):
        values = np.maximum(values - values.max(axis=-1, keepdims=True), -2 * whole)
    falling = -np.sort(-values, axis=-1)
    count = np.arange(1, values.shape[-1] + 1)
    excess = (np.cumsum(falling, axis=-1) - whole) / count
    # the largest ones stay positive while they are above the number subtracted
    last = np.count_nonzero(falling > excess, axis=-1, keepdims=True) - 1
    result: NDArray[np.float64] = np.maximum(
        values - np.take_along_axis(excess, last, axis=-1), 0.0
    )
    return result


def projected_frequencies(frequencies: ArrayLike, sparsity: int) -> NDArray[np.float64]:
    """Return the nearest possible frequencies of 2d events, ``sparsity`` of them for each user.

    Parameters
    ----------
    frequencies : (d, 2) array_like of float
        Estimates, as of `KeyValueResult.frequencies`.
    sparsity : int
        Events of each user, s, from 1 to d: the frequencies over s are in the simplex.

    Returns
    -------
    (d, 2) ndarray of float

    Examples
    --------
    >>> projected_frequencies([[0.9, -0.1], [1.3, 0.2]], 2).round(6).tolist()
    [[0.766667, 0.0], [1.166667, 0.066667]]
    """
    given = _checked("frequencies", frequencies)
    if given.ndim != 2 or given.shape[1] != 2 or not given.size:
        raise ValueError(f"frequencies must have shape (d, 2), got {given.shape}")
    s = integer("sparsity", sparsity, low=1, high=given.shape[0])
    return s * project_simplex(given.reshape(-1) / s).reshape(given.shape)
