"""The local model with one bit: randomized rounding, then binary randomized response."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import number, up
from ikos.accounting.binary_response import local_gamma
from ikos.bounds import Bounds
from ikos.encoding import encode
from ikos.protocols.binary_csuzz19 import flipped, response_error
from ikos.protocols.error_laws import ErrorLaw
from ikos.protocols.interface import MAX_EPSILON, MIN_EPSILON, Baseline
from ikos.randomized_response import debias
from ikos.randomness import RandomSource
from ikos.results import ONE_REPORT, Cost, Guarantee
from ikos.shuffling import View

__all__ = ["LocalRandomizedResponse"]


@dataclass(frozen=True, init=False)
class LocalRandomizedResponse(Baseline):
    """Local randomized response: each user sends one bit, true with e^eps to 1, and trusts nobody.

    A value is rounded at random to 0 or 1, and the bit is flipped with probability 1/(e^eps + 1).
    The analyzer knows who sent what; nothing is shuffled.

    Parameters
    ----------
    n : int
        Users; public.
    epsilon : float
        The guarantee of each message by itself, purely private: delta is 0.
    lower, upper : float
        Public bounds of the values.

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

    n: int
    epsilon: Fraction
    gamma: Fraction
    bounds: Bounds

    def __init__(
        self, n: int, epsilon: float | Fraction, *, lower: float = 0.0, upper: float = 1.0
    ) -> None:
        users, _ = self._checked_users(n)
        eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
        self._hold(n=users, epsilon=eps, gamma=local_gamma(eps), bounds=Bounds(lower, upper))

    @property
    def min_honest(self) -> int:  # type: ignore[override]
        """One: each user's noise protects that user."""
        return 1

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run."""
        return Guarantee(
            up(self.epsilon),
            0.0,
            "randomized response; the two probabilities of each bit have a ratio of at most e^eps",
            (
                ONE_REPORT,
                "answers are pseudorandom (AES-256)",
            ),
        )

    @property
    def influence(self) -> float:
        """A bit changes the debiased sum by 1/(1 - gamma)."""
        return self.bounds.width / float(1 - self.gamma)

    def error(self, users: int) -> ErrorLaw:
        """Return the law of everybody's response and rounding, in units of the width."""
        return response_error(users, 1, self.gamma)

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send: one bit each."""
        return Cost(self.n if users is None else users, 1, 1)

    def _messages(self, unit: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        return flipped(encode(unit, 1, rng).astype(np.uint8), self.gamma, rng)[np.newaxis]

    def shuffle(
        self,
        messages: NDArray[Any],
        rng: RandomSource | None = None,  # noqa: ARG002
        *,
        order: str = "sorted",
    ) -> View:
        """Return what the analyzer sees: every message, and whose it is."""
        self._arrived(messages, order, rows=1)
        clear = messages[0].copy()
        clear.setflags(write=False)
        return View((), clear)

    def _users_of(self, view: View) -> int:
        bits = view.clear
        if view.columns or bits is None or not np.isin(bits, (0, 1)).all():
            raise ValueError("view must hold one clear message of each user, 0 or 1")
        return int(bits.size)

    def _parts(self, view: View, users: int) -> Fraction:
        assert view.clear is not None
        return debias(int(view.clear.sum(dtype=np.int64)), users, 2, self.gamma)
