"""The local model: each user's message is private by itself, and no one is trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.accounting.blanket import local_gamma
from ikos.baselines.base import Description, NumberBaseline, checked, exact_sums, noisy_error
from ikos.baselines.binary_response_csuzz19 import BitProtocol
from ikos.baselines.central_model import FINE
from ikos.data.domains import number_bounds
from ikos.data.encoding import steps_of
from ikos.numeric.distributions import PolyaDifference
from ikos.primitives.randomness import RandomSource
from ikos.primitives.samplers import discrete_laplace
from ikos.primitives.shuffling import View
from ikos.results.error import SumError


@dataclass(frozen=True, init=False, repr=False)
class LocalRandomizedResponse(BitProtocol):
    """Local randomized response (Warner 1965): each user sends one bit, and trusts no one.

    A value is rounded at random to 0 or 1, and the bit is flipped with probability 1/(e^eps + 1).
    The analyzer knows the sender of each message.

    Parameters
    ----------
    n, epsilon, lower, upper, integers
        As for `Baseline`; the guarantee is that of each message by itself.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random answer, 2/(e^eps + 1), rounded up to a multiple of 2^-53.
    mse : float
        The exact supremum, n (e^eps/(e^eps - 1)^2 + 1/4), attained if all values are 1/2; for bits
        without the 1/4.

    Examples
    --------
    >>> round(LocalRandomizedResponse(1000, epsilon=1).mse, 2)
    1170.67
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
        bounds = number_bounds(lower, upper, integers)
        terms = checked(n, bounds, epsilon, min_honest=1, pure=True)
        self._init(terms, gamma=local_gamma(terms.epsilon, 2), messages=1)

    def _describe(self) -> Description:
        return self._bits_described(
            "randomized response; the two probabilities of each bit have a ratio of at most e^eps",
            local=True,
        )


@dataclass(frozen=True, init=False, repr=False)
class LocalLaplace(NumberBaseline):
    """Local Laplace: each user sends its value plus noise of scale 1 / epsilon.

    Like `CentralLaplace`, with exact discrete Laplace noise on a grid of 2^32 steps. The analyzer
    knows who sent what.

    Parameters
    ----------
    n, epsilon, lower, upper, integers
        As for `LocalRandomizedResponse`.

    Examples
    --------
    >>> round(LocalLaplace(1000, epsilon=1).mse, 3)  # 2 n / epsilon^2
    2000.0
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
        self._init(
            checked(n, number_bounds(lower, upper, integers), epsilon, min_honest=1, pure=True)
        )

    def _describe(self) -> Description:
        return self._described(
            str(self.domain),
            "discrete Laplace mechanism on each value",
            influence=math.inf,  # noise, and so a message, can have any size
            sent=(1, 64),
            random="draws of noise",
            local=True,
        )

    @property
    def _rate(self) -> Fraction:
        """Epsilon / FINE, lower by a relative 2^-25 at most; its terms fit machine words."""
        return Fraction(1, math.ceil(FINE / self.epsilon))

    def _error(self, users: int) -> SumError:
        noise = PolyaDifference(self._rate, Fraction(users))
        return noisy_error(self.domain, noise, FINE, users)

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        noise = discrete_laplace(self._rate, values.size, rng)
        return np.asarray(steps_of(values, self.domain, FINE, rng) + noise)[np.newaxis]

    def _totals(self, view: View, users: int) -> float:
        total = int(exact_sums(self._columns(view, "numbers")[0]))
        return self.domain.total(Fraction(total, FINE), users)

    def _users_of(self, view: View) -> int:
        return int(self._columns(view, "numbers")[0].size)
