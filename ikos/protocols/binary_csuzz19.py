"""One shuffled bit per user: binary randomized response.

A. Cheu, A. Smith, J. Ullman, D. Zeber, M. Zhilyaev, *Distributed differential privacy via
shuffling*, EUROCRYPT 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, up
from ikos.accounting.binary_response import binary_response_gamma
from ikos.accounting.csuzz19 import published_gamma
from ikos.bounds import Bounds
from ikos.encoding import encode
from ikos.modular import blocks
from ikos.protocols.error_laws import Bounded, ErrorLaw
from ikos.protocols.interface import Baseline, budget
from ikos.randomized_response import debias
from ikos.randomness import RandomSource
from ikos.results import ONE_REPORT, Cost, Guarantee
from ikos.shuffling import View

__all__ = ["BinaryRandomizedResponse", "flipped", "response_error"]

THEOREMS = {
    "exact": "randomized response, shuffled; exact law of the number of ones",
    "csuzz19": "CSUZZ19: randomized response, shuffled; published lambda, from memory",
}


def flipped(bits: NDArray[np.uint8], gamma: Fraction, rng: RandomSource) -> NDArray[np.uint8]:
    """Flip each bit with probability gamma/2, in place: a fair coin with probability gamma.

    Parameters
    ----------
    bits : (k,) ndarray of uint8
        0 or 1; changed and returned.
    gamma : Fraction
        A multiple of 2^-53.
    rng : RandomSource
        Decides.
    """
    for part in blocks(bits.size, 1 << 18):
        block = bits[part]
        block ^= rng.bernoullis(gamma / 2, block.size).view(np.uint8)
    return bits


def response_error(users: int, bits: int, gamma: Fraction) -> Bounded:
    """Return the error of debiased responses to so many bits of each user, their sum over bits.

    All of a user's bits but one are certain, and one is drawn at random, to round the value. A
    certain bit's response has variance g (1 - g) with g = gamma/2, a random one's at most 1/4,
    which is attained at probability 1/2: the mean square is the exact supremum over all values.
    Every response is off its mean by at most 1 - g, and a bit counts 1/(bits (1 - gamma)).
    """
    g, step = float(gamma / 2), bits * float(1 - gamma)
    each = ((bits - 1) * g * (1 - g) + 0.25) / step**2
    return Bounded(users * each, (1 - g) / step)


@dataclass(frozen=True, init=False)
class BinaryRandomizedResponse(Baseline):
    """Binary randomized response: one shuffled bit per user.

    A value is rounded at random to 0 or 1; with probability gamma a fair coin takes its place. The
    analyzer sees how many ones there are, and no more. With lambda = gamma n the estimate is
    n/(n - lambda) (ones - lambda/2).

    Parameters
    ----------
    n : int
        Users; public.
    epsilon, delta : float
        The guarantee.
    accountant : {"exact", "csuzz19"}
        How gamma is chosen: by the exact law of the view, or by the published lambda (a dozen times
        as much, `ikos.accounting.csuzz19`), which demands epsilon <= 1.
    min_honest : int, optional
        Whose random answers the guarantee counts on; all n by default.
    lower, upper : float
        Public bounds of the values.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random answer, a multiple of 2^-53.

    Notes
    -----
    ``mse`` is the exact supremum over all values, n / (4 (1 - gamma)^2). For reals it is at least
    n/4, the price of one bit; for values that are 0 or 1 it is ``binary_mse``.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = BinaryRandomizedResponse(10**4, epsilon=1, delta=1e-8)
    >>> 97 < protocol.gamma * protocol.n < 98 and 48 < protocol.binary_mse < 50
    True
    >>> result = protocol.run([0.0, 1.0] * 5000, DeterministicRandom(0))
    >>> abs(result.estimate - 5000) < 40
    True
    """

    n: int
    epsilon: Fraction
    delta: Fraction
    accountant: str
    min_honest: int
    gamma: Fraction
    bounds: Bounds

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
        users, honest = self._checked_users(n, min_honest)
        eps, small = budget(epsilon, delta)
        how = choice("accountant", accountant, tuple(THEOREMS))
        chosen = binary_response_gamma if how == "exact" else published_gamma
        gamma = chosen(eps, small, honest)
        if gamma == 1:
            raise ValueError(
                f"epsilon is too small for {honest} users: every answer would be random"
            )
        self._hold(
            n=users,
            epsilon=eps,
            delta=small,
            accountant=how,
            min_honest=honest,
            gamma=gamma,
            bounds=Bounds(lower, upper),
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run."""
        return Guarantee(
            up(self.epsilon), up(self.delta), THEOREMS[self.accountant], conditions(self)
        )

    @property
    def influence(self) -> float:
        """A bit changes the debiased sum by 1/(1 - gamma)."""
        return self.bounds.width / float(1 - self.gamma)

    @property
    def binary_mse(self) -> float:
        """Mean squared error where all values are at the bounds, in the data's units."""
        g = float(self.gamma / 2)
        return self.bounds.width**2 * self.n * g * (1 - g) / float(1 - self.gamma) ** 2

    def error(self, users: int) -> ErrorLaw:
        """Return the law of everybody's response and rounding, in units of the width."""
        return response_error(users, 1, self.gamma)

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send: one bit each."""
        return Cost(self.n if users is None else users, 1, 1)

    def _messages(self, unit: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        return flipped(encode(unit, 1, rng).astype(np.uint8), self.gamma, rng)[np.newaxis]

    def _users_of(self, view: View) -> int:
        if (
            view.clear is not None
            or len(view.columns) != 1
            or not np.isin(view.columns[0], (0, 1)).all()
        ):
            raise ValueError("view must hold one column of bits")
        return int(view.columns[0].size)

    def _parts(self, view: View, users: int) -> Fraction:
        return debias(int(view.columns[0].sum(dtype=np.int64)), users, 2, self.gamma)


def conditions(protocol: Baseline) -> tuple[str, ...]:
    """Return what shuffled responses rest on."""
    honest = "all" if protocol.min_honest == protocol.n else f"at least {protocol.min_honest}"
    return (
        "the shuffler is honest",
        f"{honest} of the {protocol.n} users are honest and present",
        ONE_REPORT,
        "the number of users is public; answers are pseudorandom (AES-256)",
    )
