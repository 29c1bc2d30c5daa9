"""The central model for vectors: a trusted curator adds discrete Gaussian noise to the sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, validate_users
from ikos.accounting.vector_noise import Sensitivity, least_variance
from ikos.aggregation.calibration import MAX_RELEASES, reports
from ikos.baselines.base import Asked, Baseline, exact_sums, one_column, published
from ikos.domains import Domain
from ikos.encoding import Encoding, converge, encoding_of
from ikos.errors import SumError
from ikos.modular import blocks
from ikos.noise import discrete_gaussian
from ikos.randomness import RandomSource, secure
from ikos.results import Guarantee
from ikos.shuffling import View

_BLOCK = 1 << 21


@dataclass(frozen=True)
class Subgaussian:
    """An error that is the sum of subgaussian terms: ln E exp(h error) <= h^2 mean_square / 2."""

    mean_square: float

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss."""
        return math.sqrt(2 * self.mean_square * math.log(2 / miss))


@dataclass(frozen=True, init=False, repr=False)
class CentralGaussian(Baseline):
    """Central discrete Gaussian: the best there is to hope for, with a curator whom all trust.

    Each vector is rounded at random to steps; the curator adds exactly discrete Gaussian noise to
    every coordinate of the sum. The analyzer sees the noisy sum alone.

    Parameters
    ----------
    n, epsilon, delta
        As of `ikos.baselines.Baseline`.
    domain : Box, Ball, SparseTernary or Categories
        Where the vectors lie.
    precision : int, optional
        Steps between the smallest and the largest value of a coordinate; by default as for
        `PrivateVectorSum`.
    sensitivity : Sensitivity, optional
        For a Box: as for `PrivateVectorSum`.
    integers : bool
        For a Box: promise that all entries are integers, and refuse others.
    releases : int
        How many sums about the same users the guarantee is for, as for `PrivateVectorSum`.

    Attributes
    ----------
    variance : Fraction
        Parameter of the noise in each coordinate, in squared steps: the smallest for which
        concentrated differential privacy proves (epsilon, delta).

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> from ikos.vectors import Ball
    >>> protocol = CentralGaussian(1000, Ball(64), epsilon=1, delta=1e-8)
    >>> round(protocol.error(1000).coordinate.mean_square ** 0.5, 1)
    10.9
    >>> x = np.full((1000, 64), 0.125)
    >>> result = protocol.run(x, DeterministicRandom(0))
    >>> bool(np.linalg.norm(result.estimate - 125) < 1.5 * result.standard_error)
    True
    """

    encoding: Encoding
    variance: Fraction
    releases: int

    def __init__(
        self,
        n: int,
        domain: Domain,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        sensitivity: Sensitivity | None = None,
        integers: bool = False,
        releases: int = 1,
    ) -> None:
        asked = Asked.of(n, domain, epsilon, delta, 1)
        made = encoding_of(domain, precision, integers, sensitivity)
        times = integer("releases", releases, low=1, high=MAX_RELEASES)
        # Concentrated privacy adds up over releases, as squares do.
        unit = times * least_variance(asked.epsilon, asked.delta, Fraction(1))

        def variance(encoding: Encoding) -> Fraction:
            # Proportional to the square of the sensitivity: only their ratio matters.
            return unit * encoding.shift(domain.dimension).l2_squared

        if not isinstance(made, Encoding):
            made = converge(
                made,
                lambda encoding: encoding.precision / math.sqrt(variance(encoding)),
                math.sqrt(asked.n) / 2,
            )
        super().__init__(asked, encoding=made, variance=variance(made), releases=times)

    @property
    def _particulars(self) -> str:
        return (
            f"{self.domain}, precision={self.encoding.precision}, noise of variance "
            f"{float(self.variance):.4g} in steps"
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for all releases, except from the curator."""
        promise = "while any two vectors that a user may have are within the promised sensitivity"
        return self._guaranteed(
            "discrete Gaussian mechanism, by concentrated differential privacy (CKS20)",
            *([promise] if self.encoding.promised else []),
            "the curator is trusted with every vector, and to add the noise",
            random="draws of noise",
            reports=reports(self.releases),
        )

    @property
    def influence(self) -> float:
        """One user can report any vector of steps within the bounds, and no other."""
        return self.encoding.bounds.width * math.sqrt(self.dimension)

    def error(self, users: int) -> SumError:
        """Return what is known of noise and rounding.

        Discrete Gaussian noise is subgaussian with its parameter as proxy, which also bounds its
        variance (CKS20, Section 2.2); the rounding of each user is within an interval of one step.
        """
        users = validate_users(users, self.n)
        square = float(self.variance) + (0 if self.encoding.exact else users / 4)
        square *= self.encoding.step**2
        return SumError(Subgaussian(square), self.dimension * square)

    @property
    def _sent(self) -> tuple[int, int]:
        return 1, self.encoding.precision.bit_length() * self.dimension

    def _taken(self, values: NDArray[Any]) -> NDArray[Any]:
        self.encoding.check(values)
        return values

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        """Return encoded vectors, (1, users, d): a message is a whole vector."""
        columns = self.encoding.encode(np.ascontiguousarray(rows.T), rng)
        return np.ascontiguousarray(columns.T)[np.newaxis]

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return what the curator publishes: the number of users and the noisy sums.

        Raises
        ------
        ValueError
            If a message is not an encoding: the noise is for sums of those.
        """
        if not isinstance(messages, np.ndarray):
            raise TypeError(f"messages must be a numpy array, got {type(messages).__name__}")
        if messages.ndim != 3 or (messages.shape[0], messages.shape[2]) != (1, self.dimension):
            raise ValueError(
                f"messages must have shape (1, users, {self.dimension}), got {messages.shape}"
            )
        self._arrived(messages[:, :, 0], order)
        p = self.encoding.precision
        if messages.dtype.kind not in "iu" or not 0 <= messages.min() <= messages.max() <= p:
            raise ValueError(f"messages must be in [0, {p}]; there are others (not shown)")
        totals = np.zeros(self.dimension, dtype=object)
        return self._published(totals + exact_sums(messages[0]), messages.shape[1], secure(rng))

    def _published(self, totals: NDArray[Any], users: int, rng: RandomSource) -> View:
        """Return the number of users and the sums with noise."""
        noise = discrete_gaussian(self.variance, self.dimension, rng)
        sums = (int(a) + int(b) for a, b in zip(totals, noise, strict=True))
        return published(users, *sums, dtype=object)

    def _view(self, values: NDArray[Any], rng: RandomSource) -> View:
        totals = np.zeros(self.dimension, dtype=object)
        for part in blocks(values.shape[0], max(1, _BLOCK // self.dimension)):
            totals += exact_sums(self._messages(values[part], rng)[0])
        return self._published(totals, values.shape[0], rng)

    def _users_of(self, view: View) -> int:
        what = f"the number of users and {self.dimension} noisy sums"
        return int(one_column(view, what, 1 + self.dimension)[0])

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        p, bounds = self.encoding.precision, self.encoding.bounds
        sums = (Fraction(int(z), p) for z in view.columns[0][1:])
        return np.array([bounds.total(part, users) for part in sums])
