"""Many shuffled bits per user: a value in unary, each bit through binary randomized response.

A. Cheu, A. Smith, J. Ullman, D. Zeber, M. Zhilyaev, *Distributed differential privacy via
shuffling*, EUROCRYPT 2019.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, integer
from ikos.accounting.binary_response import MAX_BITS, binary_response_gamma
from ikos.accounting.csuzz19 import composed_gamma
from ikos.baselines.base import Asked, one_column, published
from ikos.baselines.bits import ShuffledBits, not_all_random
from ikos.bounds import Bounds
from ikos.encoding import encode
from ikos.modular import blocks
from ikos.randomness import RandomSource
from ikos.shuffling import View

_AT_ONCE = 1 << 20


def default_messages(epsilon: Fraction, n: int) -> int:
    """Return ceil(eps sqrt n), as CSUZZ19 choose, and at most what the accountant takes.

    Examples
    --------
    >>> default_messages(Fraction(1, 2), 10**5)
    159
    """
    return min(math.ceil(float(epsilon) * math.sqrt(n)), MAX_BITS // n)


@dataclass(frozen=True, init=False, repr=False)
class UnaryEncoding(ShuffledBits):
    """Unary encoding: each user sends x in [0, 1] as about x r ones among r shuffled bits.

    With mu = ceil(x r), bits 1 to mu - 1 are 1, bit mu is 1 with probability x r - mu + 1, and the
    rest are 0. Each is flipped with probability gamma/2. The estimate is the debiased number of
    ones, divided by r.

    One shuffler takes all users' bits, so that the analyzer sees nothing but how many of them are
    1. The view is that: one column with the number of zeros and the number of ones. It is the
    multiset of all messages, no more and no less.

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper
        As of `Baseline`.
    messages : int, optional
        r, with n r at most 2^39; by default ceil(epsilon sqrt n), or as many as that allows.
    accountant : {"exact", "composition", "csuzz19"}
        How gamma is chosen. "exact": from the distribution of the number of ones. "composition"
        treats the bits as r separate runs of binary randomized response, each with its exact
        divergence, and composes; it would hold for r shufflers as well. "csuzz19": the same with
        the published lambda, for large n alone.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random answer to each bit, a multiple of 2^-53.

    Notes
    -----
    ``mse`` is the exact supremum over all values, where all x r lie in the middle between two
    integers: n ((r - 1) g (1 - g) + 1/4) / (r (1 - gamma))^2 with g = gamma/2.

    Examples
    --------
    >>> protocol = UnaryEncoding(10**4, epsilon=1, delta=1e-8, messages=20)
    >>> 33 < protocol.mse < 34
    True
    """

    _THEOREMS: ClassVar[Mapping[str, str]] = {
        "exact": "randomized response, one shuffler; exact law of the number of ones",
        "composition": "randomized response, exact for each bit; advanced composition",
        "csuzz19": "CSUZZ19: published lambda for each bit, from memory; advanced composition",
    }

    messages: int

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        messages: int | None = None,
        accountant: str = "exact",
        min_honest: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
    ) -> None:
        asked = Asked.of(n, Bounds(lower, upper), epsilon, delta, min_honest)
        how = choice("accountant", accountant, tuple(self._THEOREMS))
        chosen = default_messages(asked.epsilon, asked.n) if messages is None else messages
        bits = integer("messages", chosen, low=1, high=MAX_BITS // asked.n)
        if how == "exact":
            found = binary_response_gamma(*asked.budget, bits=bits)
        else:
            single = "exact" if how == "composition" else "csuzz19"
            found = composed_gamma(*asked.budget, bits, accountant=single)
        gamma = not_all_random(found, asked.min_honest)
        super().__init__(asked, accountant=how, messages=bits, gamma=gamma)

    @property
    def _sent(self) -> tuple[int, int]:
        return self.messages, 1

    def shuffle(
        self,
        messages: NDArray[Any],
        rng: RandomSource | None = None,  # noqa: ARG002
        *,
        order: str = "sorted",
    ) -> View:
        """Return what the analyzer sees: how many zeros and how many ones there are.

        Any order of the bits can be made from that, and it from any order: ``order`` makes no
        difference, and no randomness is needed.
        """
        self._arrived(messages, order, rows=self.messages, most=1)
        ones = int(messages.sum(dtype=np.int64))
        return published(messages.size - ones, ones)

    def _view(self, values: NDArray[np.float64], rng: RandomSource) -> View:
        """Return the view without holding all bits: only the counts matter.

        Of the true bits only how many are 1 matters. Flips are drawn for the zeros and for
        the ones, one for each bit as in `randomize`, and added up a block at a time.
        """
        ones = int(encode(self.domain.unit(values), self.messages, rng).sum())
        zeros = values.size * self.messages - ones
        raised, lowered = (self._flips(count, rng) for count in (zeros, ones))
        return published(zeros - raised + lowered, ones + raised - lowered)

    def _flips(self, bits: int, rng: RandomSource) -> int:
        return sum(
            int(np.count_nonzero(rng.bernoullis(self.gamma / 2, part.stop - part.start)))
            for part in blocks(bits, _AT_ONCE)
        )

    def _users_of(self, view: View) -> int:
        wanted = "one column, the number of zeros and the number of ones"
        zeros, ones = map(int, one_column(view, wanted, 2))
        if min(zeros, ones) < 0 or (zeros + ones) % self.messages:
            raise ValueError(f"view must hold {wanted}, {self.messages} for each user")
        return (zeros + ones) // self.messages

    def _ones(self, view: View) -> int:
        return int(view.columns[0][1])
