"""Means, counts, variances, histograms and linear statistics, from private sums.

Each function runs a protocol on all users' values in this process, and returns estimates with a
guarantee for the whole release. Keyword arguments that it does not name (``shuffler``,
``min_honest``, ...) go to its protocol: `PrivateSum` for `mean` and `count` of all users,
`ikos.PrivateVectorSum` for the others.
"""

from __future__ import annotations

from ikos.statistics.columns import (
    ColumnSums,
    Variances,
    count,
    linear_statistics,
    mean,
    means,
    variance,
    variances,
)
from ikos.statistics.groups import GroupMeans, GroupVariances, PresentMean, PresentVariance
from ikos.statistics.histograms import (
    Histogram,
    Histograms,
    histogram,
    histogram_protocols,
    histograms,
    maximum_absolute_error,
    projected_frequencies,
    total_variation_error,
)
from ikos.statistics.quantiles import Quantiles, median, quantiles

__all__ = [
    "ColumnSums", "GroupMeans", "GroupVariances", "Histogram", "Histograms", "PresentMean",
    "PresentVariance", "Quantiles", "Variances", "count", "histogram", "histogram_protocols",
    "histograms", "linear_statistics", "maximum_absolute_error", "mean", "means", "median",
    "projected_frequencies", "quantiles", "total_variation_error", "variance", "variances",
]  # fmt: skip
