"""One shuffled bit per user: binary randomized response.

A. Cheu, A. Smith, J. Ullman, D. Zeber, M. Zhilyaev, *Distributed differential privacy via
shuffling*, EUROCRYPT 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from ikos._validation import choice
from ikos.accounting.binary_response import binary_response_gamma
from ikos.accounting.csuzz19 import published_gamma
from ikos.baselines.base import Asked, one_column
from ikos.baselines.bits import ShuffledBits, not_all_random
from ikos.bounds import Bounds
from ikos.shuffling import View


@dataclass(frozen=True, init=False, repr=False)
class BinaryRandomizedResponse(ShuffledBits):
    """Binary randomized response: one shuffled bit per user.

    A value is rounded at random to 0 or 1; with probability gamma a fair coin takes its place. The
    analyzer sees how many ones there are, and no more. With lambda = gamma n the estimate is
    n/(n - lambda) (ones - lambda/2).

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper
        As of `Baseline`.
    accountant : {"exact", "csuzz19"}
        How gamma is chosen: exactly, or by the published lambda (a dozen times
        as much, `ikos.accounting.csuzz19`), which demands epsilon <= 1.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random answer, a multiple of 2^-53.

    Notes
    -----
    ``mse`` is the exact supremum over all values, n / (4 (1 - gamma)^2): at least n/4, the price of
    one bit. For values that are 0 or 1 it is n g (1 - g) / (1 - gamma)^2 with g = gamma/2.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = BinaryRandomizedResponse(10**4, epsilon=1, delta=1e-8)
    >>> 97 < protocol.gamma * protocol.n < 98
    True
    >>> result = protocol.run([0.0, 1.0] * 5000, DeterministicRandom(0))
    >>> abs(result.estimate - 5000) < 40
    True
    """

    _THEOREMS: ClassVar[Mapping[str, str]] = {
        "exact": "randomized response, shuffled; exact law of the number of ones",
        "csuzz19": "CSUZZ19: randomized response, shuffled; published lambda, from memory",
    }

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        accountant: str = "exact",
        min_honest: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
    ) -> None:
        asked = Asked.of(n, Bounds(lower, upper), epsilon, delta, min_honest)
        how = choice("accountant", accountant, tuple(self._THEOREMS))
        chosen = binary_response_gamma if how == "exact" else published_gamma
        gamma = not_all_random(chosen(*asked.budget), asked.min_honest)
        super().__init__(asked, accountant=how, gamma=gamma)

    def _users_of(self, view: View) -> int:
        column = one_column(view, "one column of bits")
        if not np.isin(column, (0, 1)).all():
            raise ValueError("view must hold one column of bits")
        return int(column.size)

    def _ones(self, view: View) -> int:
        return int(view.columns[0].sum(dtype=np.int64))
