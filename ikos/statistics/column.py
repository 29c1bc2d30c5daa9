"""One column: its mean, count and variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._options import MeanOptions, SumOptions
from ikos._validation import array, real, vector
from ikos.aggregation import PrivateSum
from ikos.randomness import RandomSource
from ikos.results import Guarantee, Interval, Printed, SumResult
from ikos.statistics.columns import Variances, variances


def _one_column(x: ArrayLike, read: Callable[..., NDArray[Any]] = real) -> NDArray[Any]:
    """Return one value per user, of at least one user."""
    values = vector("x", x, read("x", x))
    if not values.size:
        raise ValueError("x must hold at least one user's value, got none")
    return values


def mean(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[MeanOptions],
) -> SumResult:
    """Release the sum and the mean of values within public bounds.

    Parameters
    ----------
    x : (n,) array_like of float
        One value per user, each in ``[lower, upper]``.
    lower, upper : float
        Public bounds, not taken from the data.
    epsilon, delta : float
        The guarantee of the release.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateSum`.

    Returns
    -------
    SumResult
        ``.mean()``, ``.mean_interval()``, and the same for the sum.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(20, 30, 5000)
    >>> result = mean(x, lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> bool(abs(result.mean() - 25) < 1)
    True
    """
    values = _one_column(x)
    protocol = PrivateSum(values.size, epsilon, delta, lower=lower, upper=upper, **options)
    return protocol.run(values, rng)


def count(
    x: ArrayLike,
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[SumOptions],
) -> SumResult:
    """Release how many users' answers are true.

    Parameters
    ----------
    x : (n,) array_like of bool
        One answer per user.
    epsilon, delta, rng, **options
        As for `mean`.

    Returns
    -------
    SumResult
        The count as ``.estimate``, the proportion as ``.mean()``.

    Examples
    --------
    >>> import numpy as np
    >>> result = count(np.arange(10_000) % 4 == 0, epsilon=1, delta=1e-8)
    >>> bool(abs(result.estimate - 2500) < 50), result.estimate.is_integer()
    (True, True)
    """
    answers = _one_column(x, array)
    if answers.dtype != bool:
        raise TypeError(f"x must hold booleans, got an array of {answers.dtype}")
    protocol = PrivateSum(answers.size, epsilon, delta, lower=0, upper=1, integers=True, **options)
    return protocol.run(answers.astype(np.float64), rng)


@dataclass(frozen=True, eq=False)
class Variance(Printed):
    """A private mean and variance of one column.

    Attributes
    ----------
    columns : Variances
        The release behind it, of one column.
    """

    columns: Variances

    @property
    def guarantee(self) -> Guarantee:
        """For both together."""
        return self.columns.guarantee

    @property
    def estimate(self) -> float:
        """The variance of the users' values, with denominator n.

        The difference of two noisy numbers: not clipped, it can be negative where the variance is
        small against the noise.
        """
        return float(self.columns.estimate[0])

    def mean(self) -> float:
        """Return the estimate of the mean."""
        return float(self.columns.means()[0])

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return an interval that contains the variance with at least this probability."""
        band = self.columns.interval(confidence)
        return Interval(float(band.low[0]), float(band.high[0]))

    def __str__(self) -> str:
        return str(self.columns).replace("variance 0  ", "variance", 1)


def variance(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[SumOptions],
) -> Variance:
    """Release the mean and the variance of one column within public bounds.

    Parameters
    ----------
    x, lower, upper, epsilon, delta, rng, **options
        As for `mean`, but for ``integers``.

    Returns
    -------
    Variance

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(20, 30, 5000)
    >>> result = variance(x, lower=0, upper=50, epsilon=1, delta=1e-6)
    >>> bool(abs(result.estimate - x.var()) < 5)
    True
    """
    column = _one_column(x)[:, np.newaxis]
    return Variance(
        variances(
            column, lower=lower, upper=upper, epsilon=epsilon, delta=delta, rng=rng, **options
        )
    )
