"""The central model: a trusted curator adds up the values and adds noise to the sum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, validate_users
from ikos.accuracy import NoiseLaw, default_precision
from ikos.baselines.base import Asked, NumberBaseline, exact_sums, one_column, published
from ikos.bounds import Bounds
from ikos.encoding import encode
from ikos.errors import NoisySum, SumError
from ikos.noise import discrete_laplace
from ikos.randomness import RandomSource, secure
from ikos.results import Guarantee
from ikos.shuffling import View

FINE = 1 << 32
"""Steps of an encoding so fine that discrete Laplace noise on it is as good as continuous."""

MAX_PRECISION = 1 << 32


@dataclass(frozen=True, init=False, repr=False)
class CentralDiscreteLaplace(NumberBaseline):
    """Central discrete Laplace: the best that can be hoped for, with a curator whom all trust.

    Each value is rounded at random to {0..precision}; the curator adds exactly discrete Laplace
    noise of rate epsilon / precision to the sum. The analyzer sees the noisy sum alone.

    Parameters
    ----------
    n, epsilon, lower, upper
        As of `Baseline`.
    precision : int, optional
        Steps of the encoding, at most 2^32; by default as for `ikos.PrivateSum`.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = CentralDiscreteLaplace(1000, epsilon=1)
    >>> protocol.guarantee.delta, 2.0 < protocol.mse < 2.05
    (0.0, True)
    >>> result = protocol.run([0.25] * 1000, DeterministicRandom(0))
    >>> abs(result.estimate - 250) < 20
    True
    """

    precision: int

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        *,
        precision: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
    ) -> None:
        asked = Asked.of(n, Bounds(lower, upper), epsilon, min_honest=1)
        chosen = default_precision(asked.epsilon, asked.n) if precision is None else precision
        super().__init__(asked, precision=integer("precision", chosen, low=1, high=MAX_PRECISION))

    @property
    def _particulars(self) -> str:
        return f"{self.domain}, precision={self.precision}"

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run, except from the curator."""
        return self._guaranteed(
            "discrete Laplace mechanism; sensitivity is the precision",
            "the curator is trusted with every value, and to add the noise",
            random="draws of noise",
        )

    @property
    def influence(self) -> float:
        """One user can report any value within the bounds, and no other."""
        return self.domain.width

    def error(self, users: int) -> SumError:
        """Return what is known of noise and rounding."""
        users = validate_users(users, self.n)
        noise = NoiseLaw(self.epsilon / self.precision, Fraction(1))
        return NoisySum(noise, self.precision, users, self.domain.width).error()

    @property
    def _sent(self) -> tuple[int, int]:
        return 1, self.precision.bit_length()

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        return encode(self.domain.unit(values), self.precision, rng)[np.newaxis]

    def shuffle(
        self,
        messages: NDArray[Any],
        rng: RandomSource | None = None,
        *,
        order: str = "sorted",
    ) -> View:
        """Return what the curator publishes: the number of users and the noisy sum.

        Raises
        ------
        ValueError
            If a message is not an encoding: the noise is for sums of those.
        """
        self._arrived(messages, order, rows=1, most=self.precision)
        noise = discrete_laplace(self.epsilon / self.precision, rng=secure(rng))
        total = int(exact_sums(messages[0])) + noise
        return published(messages.shape[1], total, dtype=object)

    def _users_of(self, view: View) -> int:
        return int(one_column(view, "the number of users and the noisy sum", 2)[0])

    def _totals(self, view: View, users: int) -> float:
        return self.domain.total(Fraction(int(view.columns[0][1]), self.precision), users)


@dataclass(frozen=True, init=False, repr=False)
class CentralLaplace(CentralDiscreteLaplace):
    """Central Laplace: the sum of reals plus noise of scale 1 / epsilon, by a trusted curator.

    Laplace noise computed in floating point is not private (Mironov, *On significance of the least
    significant bits for differential privacy*, CCS 2012). This is the discrete mechanism on a grid
    of 2^32 steps, exactly epsilon-private, and within a step, 2^-32, of the continuous one.

    Parameters
    ----------
    n, epsilon, lower, upper
        As of `Baseline`.

    Examples
    --------
    >>> round(CentralLaplace(1000, epsilon=0.5).mse, 6)
    8.0
    """

    def __init__(
        self, n: int, epsilon: float | Fraction, *, lower: float = 0.0, upper: float = 1.0
    ) -> None:
        super().__init__(n, epsilon, precision=FINE, lower=lower, upper=upper)
