"""Projection of estimated frequencies onto the probability simplex (WLQDLY21, Section 6.1).

It needs no data and costs no privacy, but the result is biased. By Wang and Carreira-Perpinan,
*Projection onto the probability simplex*, 2013, the nearest point is found by subtracting one
number, which follows from the largest coordinates, from all of them and cutting off at 0.
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
    """Return the nearest vectors whose coordinates are at least 0 and add up to a total.

    Parameters
    ----------
    y : (..., m) array_like of float
        Finite vectors along the last axis.
    total : float
        Positive, from 1e-300 to 1e300.

    Returns
    -------
    (..., m) ndarray of float
        Nearest in Euclidean distance; unique.

    Examples
    --------
    >>> project_simplex([0.5, 0.9, -0.2]).round(6).tolist()
    [0.3, 0.7, 0.0]
    """
    values = _checked("y", y)
    whole = float(number("total", total, above=0, low=1e-300, high=1e300))
    if values.ndim < 1 or values.shape[-1] < 1:
        raise ValueError(f"y must hold at least one number in its last axis, got {values.shape}")
    # Shifting all values changes nothing: around the largest, nothing cancels. Values further below
    # it than the total become 0.
    with np.errstate(over="ignore"):
        values = np.maximum(values - values.max(axis=-1, keepdims=True), -2 * whole)
    falling = -np.sort(-values, axis=-1)
    count = np.arange(1, values.shape[-1] + 1)
    excess = (np.cumsum(falling, axis=-1) - whole) / count
    # the largest stay positive while they exceed the number subtracted
    last = np.count_nonzero(falling > excess, axis=-1, keepdims=True) - 1
    result: NDArray[np.float64] = np.maximum(
        values - np.take_along_axis(excess, last, axis=-1), 0.0
    )
    return result


def projected_frequencies(frequencies: ArrayLike, sparsity: int) -> NDArray[np.float64]:
    """Return the nearest possible frequencies of 2d events, ``sparsity`` of them per user.

    Parameters
    ----------
    frequencies : (d, 2) array_like of float
        Estimates, such as `KeyValueResult.frequencies`.
    sparsity : int
        Events per user, s, from 1 to d: the frequencies over s are in the simplex.

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
