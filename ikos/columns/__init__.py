"""Statistics of several columns at once, each from one private sum of vectors.

Histograms of categorical columns, means and variances within bounds, and public linear functions
of everybody's vector. Each function takes everybody's values, runs the protocol here, and returns
estimates with a guarantee for the whole release. The number of users is public. Keyword arguments
that a function does not name go to `ikos.vectors.PrivateVectorSum` (``min_honest``, ...).
"""

from __future__ import annotations

from ikos.columns.bounded import means
from ikos.columns.categorical import Histograms, histograms
from ikos.columns.linear import linear_statistics
from ikos.columns.sums import ColumnSums
from ikos.columns.variance import Variances, variances

__all__ = [
    "ColumnSums",
    "Histograms",
    "Variances",
    "histograms",
    "linear_statistics",
    "means",
    "variances",
]
