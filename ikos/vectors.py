"""Users' vectors before they enter a sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidValue, array, doubles, number

__all__ = ["clip"]

_MARGIN = 2.0**-23
"""Twice the relative error of rounding to float32, so that all other roundings fit in, too."""


@np.errstate(under="ignore")
def clip(x: ArrayLike, radius: float) -> NDArray[Any]:
    """Return a user's array, scaled down to a Euclidean norm of at most ``radius``.

    The result passes the check of ``ikos.Ball(dimension, radius)``, and so does the result rounded
    to float32. It is computed in double precision. Arrays of a norm of at most radius (1 - 2^-23)
    keep their entries; others get this norm.

    Parameters
    ----------
    x : array_like
        Of any shape. Its norm is that of all entries together.
    radius : float
        From 1e-30 to 1e30: float32 then holds the entries.

    Returns
    -------
    ndarray
        A new array of the same shape, in float32 if ``x`` is, otherwise in float64. Infinite and
        missing entries are refused, since they have no direction.

    Examples
    --------
    >>> gradient = np.array([[3, 4], [0, 12]], dtype=np.float32)
    >>> clip(gradient, 6.5).round(3)
    array([[1.5, 2. ],
           [0. , 6. ]], dtype=float32)
    """
    most = float(number("radius", radius, low=1e-30, high=1e30)) * (1 - _MARGIN)
    data = array("x", x)
    values = doubles("x", data)
    finite = np.isfinite(values)
    if not finite.all():
        place = ", ".join(map(str, np.argwhere(~finite)[0]))
        raise InvalidValue(f"x[{place}]", "must be finite")
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest:
        # The largest entry is 1, so that squares do not overflow, and those that vanish do not
        # matter. With 2^24 entries, all relative errors here and in the check are below 2^-27 in
        # total, and entries too small for float32 add less than 2^-38 of the radius to the norm.
        units = values / largest
        norm = float(np.linalg.norm(units))
        if largest * norm > most:
            values = units * (most / norm)
    return values.astype(data.dtype if data.dtype == np.float32 else np.float64, copy=False)
