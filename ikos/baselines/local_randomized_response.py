"""The local model with one bit: randomized rounding, then binary randomized response."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.accounting.binary_response import local_gamma
from ikos.baselines.base import Asked, ClearBaseline
from ikos.baselines.bits import BitProtocol
from ikos.bounds import Bounds
from ikos.results import Guarantee
from ikos.shuffling import View


@dataclass(frozen=True, init=False, repr=False)
class LocalRandomizedResponse(ClearBaseline, BitProtocol):
    """Local randomized response: each user sends one bit, true with e^eps to 1, and trusts no one.

    A value is rounded at random to 0 or 1, and the bit is flipped with probability 1/(e^eps + 1).
    The analyzer knows who sent what; nothing is shuffled.

    Parameters
    ----------
    n, lower, upper
        As of `Baseline`.
    epsilon : float
        The guarantee of each message by itself, purely private.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random answer, 2/(e^eps + 1), rounded up to a multiple of 2^-53.

    Notes
    -----
    ``mse`` is the exact supremum over all values, n / (4 (1 - gamma)^2), with all in the middle.
    With gamma = 2/(e^eps + 1) that is n (e^eps/(e^eps - 1)^2 + 1/4): the largest variance of the
    response, of a bit, plus the largest of rounding, though no value attains both. A value x sends
    a 1 with probability q = (1 - gamma) x + gamma/2, and q (1 - q) is 1/4 at x = 1/2.

    Examples
    --------
    >>> round(LocalRandomizedResponse(1000, epsilon=1).mse, 2)  # e / (e - 1)^2 + 1/4 each
    1170.67
    """

    def __init__(
        self, n: int, epsilon: float | Fraction, *, lower: float = 0.0, upper: float = 1.0
    ) -> None:
        asked = Asked.of(n, Bounds(lower, upper), epsilon, min_honest=1)
        super().__init__(asked, gamma=local_gamma(asked.epsilon))

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run."""
        return self._guaranteed(
            "randomized response; the two probabilities of each bit have a ratio of at most e^eps"
        )

    def _clear(self, view: View) -> NDArray[Any]:
        bits = super()._clear(view)
        if not np.isin(bits, (0, 1)).all():
            raise ValueError("view must hold one clear message of each user, 0 or 1")
        return bits

    def _ones(self, view: View) -> int:
        return int(self._clear(view).sum(dtype=np.int64))
