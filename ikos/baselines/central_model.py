"""The central model: a trusted curator adds noise to the sum."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, integer
from ikos.baselines.base import (
    ENTRIES_PER_PASS,
    Baseline,
    Description,
    are_below,
    checked,
    exact_sums,
    noisy_error,
    numbers_of,
    read_only_view,
)
from ikos.data.domains import Bounds, Domain, number_bounds
from ikos.data.encoding import Encoding, converge, coordinates_of, encoding_of, steps_of
from ikos.noise.gaussian_noise import least_variance
from ikos.numeric.distributions import PolyaDifference, default_precision
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.samplers import discrete_gaussian, discrete_laplace
from ikos.primitives.shuffling import View
from ikos.results.conditions import Condition, Kind, reports
from ikos.results.error import SumError
from ikos.sums.private import MAX_RELEASES

FINE = 1 << 32  # most steps: discrete Laplace noise is then as good as continuous


def _trusted(what: str) -> Condition:
    """Return the condition on the curator, who has every value or vector."""
    return Condition(
        Kind.PARTIES, f"the curator is trusted with every {what}, and to add the noise"
    )


@dataclass(frozen=True, init=False, repr=False)
class Curator(Baseline):
    """A curator adds noise to each coordinate of the sum of encoded values.

    Messages are encodings, (1, users) or, for vectors, (1, users, d).
    """

    @property
    @abstractmethod
    def _steps(self) -> tuple[int, Bounds]:
        """Number of steps of the encoding, and the bounds of a coordinate that they divide."""

    @abstractmethod
    def _noise(self, rng: RandomSource) -> NDArray[Any]:
        """Return the noise of each coordinate of the sum, in steps."""

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return what the curator publishes: the number of users and the noisy sums.

        Messages that are not valid encodings are refused, as noise is calibrated for encodings.
        """
        if not isinstance(messages, np.ndarray):
            raise InvalidType("messages", f"must be a numpy array, got {type(messages).__name__}")
        vectors = messages[..., np.newaxis] if isinstance(self.domain, Bounds) else messages
        if vectors.ndim != 3 or vectors.shape[2] != self.dimension:
            raise InvalidValue(
                "messages",
                f"must have an encoding of {self.dimension} coordinates for each user, "
                f"got shape {messages.shape}",
            )
        self._check_messages(vectors[:, :, 0], order, rows=1)
        most = self._steps[0]
        if not are_below(vectors, most + 1):
            raise InvalidValue("messages", f"must be in [0, {most}]; there are others (not shown)")
        return self._published(exact_sums(vectors[0]), messages.shape[1], secure(rng))

    def _published(self, totals: NDArray[Any], users: int, rng: RandomSource) -> View:
        """Return the number of users and the noisy sums."""
        pairs = zip(totals, self._noise(rng), strict=True)
        sums = [int(total) + int(noise) for total, noise in pairs]
        return read_only_view(np.array([users, *sums], dtype=object))

    def _users_of(self, view: View) -> int:
        what = f"the number of users and {self.dimension} noisy sums"
        return int(numbers_of(view, what, 1 + self.dimension)[0])

    def _totals(self, view: View, users: int) -> Any:
        steps, bounds = self._steps
        sums = [bounds.total(Fraction(int(z), steps), users) for z in view.columns[0][1:]]
        return sums[0] if isinstance(self.domain, Bounds) else np.array(sums)


@dataclass(frozen=True, init=False, repr=False)
class CentralDiscreteLaplace(Curator):
    """Central discrete Laplace: the smallest error, if all users trust a curator.

    Each value is rounded at random to {0..precision}; the curator adds exactly discrete Laplace
    noise of rate epsilon / precision to the sum. The analyzer sees only the noisy sum.

    Parameters
    ----------
    n, epsilon, lower, upper, integers
        As for `Baseline`.
    precision : int, optional
        Steps of the encoding, at most 2^32; by default as in `ikos.PrivateSum`.

    Examples
    --------
    >>> protocol = CentralDiscreteLaplace(1000, epsilon=1)
    >>> protocol.guarantee.delta, 2.0 < protocol.mse < 2.05
    (0.0, True)
    """

    domain: Bounds
    precision: int

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        *,
        precision: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        bounds = number_bounds(lower, upper, integers)
        terms = checked(n, bounds, epsilon, min_honest=1, pure=True)
        if precision is None:
            precision = bounds.precision(default_precision(terms.epsilon, terms.n), FINE)
        self._init(terms, precision=integer("precision", precision, low=1, high=FINE))

    def _describe(self) -> Description:
        return self._described(
            f"{self.domain}, precision={self.precision}",
            "discrete Laplace mechanism; sensitivity is the precision",
            _trusted("value"),
            influence=self.domain.width,  # any value within the bounds, and no other
            sent=(1, self.precision.bit_length()),
            random="draws of noise",
        )

    def _error(self, users: int) -> SumError:
        noise = PolyaDifference(self.epsilon / self.precision, Fraction(1))
        return noisy_error(self.domain, noise, self.precision, users)

    @property
    def _steps(self) -> tuple[int, Bounds]:
        return self.precision, self.domain

    def _noise(self, rng: RandomSource) -> NDArray[Any]:
        return np.array([discrete_laplace(self.epsilon / self.precision, rng=rng)], dtype=object)

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        return steps_of(values, self.domain, self.precision, rng)[np.newaxis]


@dataclass(frozen=True, init=False, repr=False)
class CentralLaplace(CentralDiscreteLaplace):
    """Central Laplace: the sum of reals plus noise of scale 1 / epsilon, by a trusted curator.

    Laplace noise computed in floating point is not private (M12). This is the discrete mechanism on
    a grid of 2^32 steps, exactly epsilon-private, and within one step of the continuous one.

    Parameters
    ----------
    n, epsilon, lower, upper, integers
        As for `Baseline`.

    Examples
    --------
    >>> round(CentralLaplace(1000, epsilon=0.5).mse, 6)
    8.0
    """

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        *,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        super().__init__(n, epsilon, precision=FINE, lower=lower, upper=upper, integers=integers)


@dataclass(frozen=True)
class Subgaussian:
    """An error that is the sum of subgaussian terms: ln E exp(h error) <= h^2 mean_square / 2."""

    mean_square: float

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss."""
        return math.sqrt(2 * self.mean_square * math.log(2 / miss))


@dataclass(frozen=True, init=False, repr=False)
class CentralGaussian(Curator):
    """Central discrete Gaussian: a trusted curator adds noise to each coordinate of a sum.

    Each vector is rounded at random to steps; the curator adds exactly discrete Gaussian noise to
    every coordinate of the sum. The analyzer sees only the noisy sum.

    Parameters
    ----------
    n, epsilon, delta
        As for `Baseline`.
    domain : Box, Ball, SparseTernary, Categories or Portions
    precision, integers, releases
        As in `PrivateVectorSum`.

    Attributes
    ----------
    variance : Fraction
        Parameter of the noise in each coordinate, in squared steps: 1/12 above that of the analytic
        Gaussian mechanism (BW18), for which the exact Gaussian delta holds.

    Examples
    --------
    >>> from ikos import Ball
    >>> protocol = CentralGaussian(1000, Ball(64), epsilon=1, delta=1e-8)
    >>> round(protocol.error(1000).coordinate.mean_square ** 0.5, 1)
    10.2
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
        integers: bool = False,
        releases: int = 1,
    ) -> None:
        terms = checked(n, domain, epsilon, delta, 1)
        encoding = encoding_of(coordinates_of(domain, integers, None), precision)
        times = integer("releases", releases, low=1, high=MAX_RELEASES)

        def variance(encoding: Encoding) -> Fraction:
            # Gaussian privacy adds up in squares over releases.
            total_shift = times * encoding.shift(domain.dimension).l2_squared
            return least_variance(terms.epsilon, terms.delta, total_shift)

        if not isinstance(encoding, Encoding):
            coarse = converge(
                encoding,
                lambda encoding: encoding.precision / math.sqrt(variance(encoding)),
                math.sqrt(terms.n) / 2,
            )
            encoding = encoding(coarse.precision << 8)  # bits sent to a curator cost nothing
        self._init(terms, encoding=encoding, variance=variance(encoding), releases=times)

    def _describe(self) -> Description:
        precision = self.encoding.precision
        return self._described(
            f"{self.domain}, precision={precision}, noise of variance "
            f"{float(self.variance):.4g} in steps",
            "discrete Gaussian mechanism, by Gaussian differential privacy",
            _trusted("vector"),
            # one user can report any vector of steps within the bounds, and no other
            influence=self.encoding.bounds.width * math.sqrt(self.dimension),
            sent=(1, precision.bit_length() * self.dimension),
            random="draws of noise",
            reports=reports(self.releases),
        )

    def _error(self, users: int) -> SumError:
        # Discrete Gaussian noise is subgaussian with its parameter as proxy, which also bounds its
        # variance (CKS20, Section 2.2); each user's rounding is within an interval of one step.
        square = float(self.variance) + (0 if self.encoding.exact else users / 4)
        square *= self.encoding.step**2
        return SumError(Subgaussian(square), self.dimension * square)

    @property
    def _steps(self) -> tuple[int, Bounds]:
        return self.encoding.precision, self.encoding.bounds

    def _noise(self, rng: RandomSource) -> NDArray[Any]:
        noise: NDArray[Any] = discrete_gaussian(self.variance, self.dimension, rng)
        return noise

    def _accepted(self, values: NDArray[Any]) -> NDArray[Any]:
        self.encoding.check(self.domain.shaped(values))
        return values

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        """Return encoded vectors, (1, users, d): a message is a whole vector."""
        columns = self.encoding.encode(np.ascontiguousarray(rows.T), rng)
        return np.ascontiguousarray(columns.T)[np.newaxis]

    def _view(self, values: NDArray[Any], rng: RandomSource) -> View:
        totals = np.zeros(self.dimension, dtype=object)
        for part in blocks(values.shape[0], max(1, ENTRIES_PER_PASS // self.dimension)):
            totals += exact_sums(self._messages(values[part], rng)[0])
        return self._published(totals, values.shape[0], rng)
