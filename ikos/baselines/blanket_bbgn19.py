"""The single-message privacy blanket (BBGN19; BBGN20, Algorithms 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ikos._validation import choice, integer
from ikos.accounting.digits_bbgn20 import DigitParameters, optimized_digits
from ikos.accounting.shuffled_response import (
    ACCOUNTANTS,
    THEOREMS,
    response_accountant,
    response_gamma,
)
from ikos.baselines.base import Asked
from ikos.baselines.digits import DigitProtocol
from ikos.bounds import Bounds
from ikos.randomized_response import grid_up

MAX_PRECISION = 1 << 20


@dataclass(frozen=True, init=False, repr=False)
class PrivacyBlanket(DigitProtocol):
    """One message from each user: a rounded value, or now and then a uniform one to hide in.

    Each user rounds its value at random to {0..precision}, and sends the result through randomized
    response on these ``precision + 1`` values and a shuffler. The mean squared error grows as
    n^(1/3), the best for a single message.

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper
        As of `Baseline`.
    precision : int, optional
        Steps p of the encoding; by default those of the smallest error that a search finds.
    accountant : {"exact", "bennett", "hoeffding", "closed-form"}
        For the probability of a uniform answer. "closed-form" needs epsilon at most 1. Where
        "exact" gives up, Bennett's inequality takes its place, and ``guarantee`` says so.

    Attributes
    ----------
    digits : DigitParameters
        The domain, and the probability of a uniform answer.
    mse : float
        ``n/(1-g)^2 (g p(p+2)/12 + g(1-g) p^2/4) / p^2 + n/(4 p^2)`` for gamma = g.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = PrivacyBlanket(10**4, epsilon=1, delta=1e-8)
    >>> protocol.digits.domains, round(protocol.mse, 1)
    ((7,), 221.1)
    >>> result = protocol.run(np.full(10**4, 0.3), DeterministicRandom(0))
    >>> abs(result.estimate - 3000) < 6 * 221.1**0.5
    True
    """

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        accountant: str = "exact",
        min_honest: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
    ) -> None:
        asked = Asked.of(n, Bounds(lower, upper), epsilon, delta, min_honest)
        name, honest = choice("accountant", accountant, ACCOUNTANTS), asked.min_honest
        eps, small = asked.epsilon, asked.delta
        if precision is None:
            digits = optimized_digits(honest, eps, small, 1, composition="basic", accountant=name)
        else:
            p = integer("precision", precision, low=1, high=MAX_PRECISION)
            gamma = grid_up(response_gamma(eps, small, honest, p + 1, accountant=name))
            if gamma == 1:
                raise ValueError(
                    f"precision must be smaller for {honest} honest users, epsilon = "
                    f"{float(eps):g} and delta = {float(small):.3g}, got {p}: every answer "
                    "would be random"
                )
            proved = response_accountant(eps, honest, p + 1, gamma, accountant=name)
            digits = DigitParameters(p, (p + 1,), (1,), (gamma,), (proved,))
        super().__init__(asked, digits=digits, shuffler="parallel", accountant=name)

    @property
    def precision(self) -> int:
        """Steps of the encoding."""
        return self.digits.precision

    @property
    def gamma(self) -> Fraction:
        """Probability of a uniform answer."""
        return self.digits.gammas[0]

    @property
    def _theorem(self) -> str:
        return THEOREMS[self.digits.accountants[0]]
