"""Public linear functions of everybody's vector, and how far one user moves them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._options import VectorSumOptions, check_passed_on
from ikos._validation import array
from ikos.accounting.vector_noise import Sensitivity
from ikos.aggregation.private_vector_sum import PrivateVectorSum
from ikos.aggregation.protocol import BLOCK
from ikos.bounds import MAX_BOUND
from ikos.columns.sums import ROUNDING, ColumnSums, promise_kept
from ikos.domains import Ball, Box
from ikos.modular import blocks
from ikos.randomness import RandomSource

_CORNERS = 1 << 23
"""Most numbers to be computed in going through the corners of a box."""


def linear_statistics(
    x: ArrayLike,
    weights: ArrayLike,
    domain: Box | Ball,
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[VectorSumOptions],
) -> ColumnSums:
    """Release the sums of public linear functions of everybody's vector.

    Parameters
    ----------
    x : (n, d) array_like of float
        Vectors of the domain, a row for each user.
    weights : (k, d) array_like of float
        W: each user adds W x. All k functions get the same noise: scale rows that may be less
        precise down, and their estimates up.
    domain : Box or Ball
        Where the vectors lie.
    epsilon, delta : float
        The guarantee of the release.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateVectorSum`, but for ``sensitivity`` and ``integers``.

    Returns
    -------
    ColumnSums
        Of W x.

    Notes
    -----
    How far W x moves is computed from W and the domain. For a ball in l2 norm it is the diameter
    times the largest singular value. For a box it is a convex function's maximum over its corners,
    gone through where there are few; else the smallest of bounds by norms of W.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).uniform(size=(5000, 3))
    >>> total_and_trend = [[1, 1, 1], [-1, 0, 1]]
    >>> result = linear_statistics(x, total_and_trend, Box(3), epsilon=1, delta=1e-6)
    >>> bool(np.abs(result.means() - [1.5, 0]).max() < 0.1)
    True
    """
    own = dict.fromkeys(("sensitivity", "integers"), "they follow from the domain and the weights")
    check_passed_on("linear_statistics", options, VectorSumOptions, own)
    matrix = array("weights", weights)
    if matrix.dtype.kind not in "iuf":
        raise TypeError(f"weights must hold real numbers, got an array of {matrix.dtype}")
    if not isinstance(domain, (Box, Ball)):
        raise TypeError(f"domain must be a Box or a Ball, got {type(domain).__name__}")
    matrix = matrix.astype(np.float64)
    if matrix.ndim != 2 or not matrix.size or matrix.shape[1] != domain.dimension:
        raise ValueError(
            f"weights must have shape (functions, {domain.dimension}), got shape {matrix.shape}"
        )
    size = float(np.abs(matrix).max())
    if not 1e-50 <= size <= 1e50:  # False for NaN
        raise ValueError(f"weights must be finite, at most 1e50 and not all 0, got {size!r}")
    values = domain.values(x)
    reach, apart = _moved(matrix, domain)
    if not 1 / MAX_BOUND <= reach <= MAX_BOUND:
        raise ValueError(
            f"weights must be such that results in {domain} are at most {MAX_BOUND:g} from the "
            f"middle, and not all within {1 / MAX_BOUND:g} of it, got {reach:.3g}"
        )
    centre = np.zeros(domain.dimension)
    if isinstance(domain, Box):
        centre += domain.lower / 2 + domain.upper / 2
    users, k = values.shape[0], matrix.shape[0]
    results = np.empty((users, k))
    for part in blocks(users, max(1, BLOCK // max(values.shape[1], k))):
        results[part] = (values[part].astype(np.float64) - centre) @ matrix.T
    protocol = PrivateVectorSum(
        users, Box(k, -reach, reach), epsilon, delta, sensitivity=apart, **options
    )
    private = promise_kept(protocol.run(np.clip(results, -reach, reach), rng))
    return ColumnSums(private, np.ones(k), matrix @ centre)


def _moved(matrix: NDArray[np.float64], domain: Box | Ball) -> tuple[float, Sensitivity]:
    """Return the largest absolute value of W (x - centre), and how far two of them are apart.

    All are enlarged by more than the rounding errors of W x, of a part d 2^-52 of the largest
    value in each coordinate, and of what is computed here.
    """
    k, d = matrix.shape
    larger = 1 + float(ROUNDING) + 8 * d * k * 2.0**-52
    top = float(np.linalg.norm(matrix, 2)) if min(k, d) <= 2000 else float(np.linalg.norm(matrix))
    absolute = np.abs(matrix)
    if isinstance(domain, Ball):
        rows = np.linalg.norm(matrix, axis=1)
        tallest = float(rows.max())
        l2 = top
        l1 = min(float(rows.sum()), math.sqrt(k) * l2)
        width = domain.diameter
    else:
        tallest = float(absolute.sum(axis=1).max())
        columns = np.linalg.norm(matrix, axis=0)
        l2 = min(
            math.sqrt(d) * top,
            float(np.linalg.norm(absolute.sum(axis=1))),
            float(columns.sum()),
        )
        l1 = min(float(absolute.sum()), math.sqrt(k) * l2)
        width = float(domain.bounds.width) * (1 + 2.0**-50)
        if d <= 20 and k << d <= _CORNERS:
            corners = matrix @ _signs(d)
            l1 = min(l1, float(np.abs(corners).sum(axis=0).max()))
            l2 = min(l2, float(np.linalg.norm(corners, axis=0).max()))
        elif k <= 20 and d << k <= _CORNERS:  # the same maximum, by duality
            l1 = min(l1, float(np.abs(matrix.T @ _signs(k)).sum(axis=0).max()))
    apart = Sensitivity(
        l1=l1 * width * larger, l2=l2 * width * larger, linf=tallest * width * larger
    )
    return tallest * width / 2 * larger, apart


def _signs(count: int) -> NDArray[np.float64]:
    """Return all vectors of signs, up to a sign of the whole, as columns."""
    codes = np.arange(1 << (count - 1))
    return np.where((codes >> np.arange(count)[:, np.newaxis]) & 1, -1.0, 1.0)
