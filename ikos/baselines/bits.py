"""What the protocols share whose users answer in bits, each flipped at random."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import validate_users
from ikos.baselines.base import NumberBaseline
from ikos.encoding import encode
from ikos.errors import Bounded, SumError
from ikos.modular import blocks
from ikos.randomized_response import debias
from ikos.randomness import RandomSource
from ikos.results import Guarantee
from ikos.shuffling import View


@dataclass(frozen=True, init=False, repr=False)
class BitProtocol(NumberBaseline):
    """Users send r bits, in unary, of which each is a fair coin instead with probability gamma.

    About x r of them are 1, and so x is rounded at random to a part of r.
    """

    gamma: Fraction

    @property
    def _particulars(self) -> str:
        return (
            f"{self.domain}, bits ({self._sent[0]} of each user) answered at random with "
            f"probability {float(self.gamma):.4g}"
        )

    @abstractmethod
    def _ones(self, view: View) -> int:
        """Return how many bits of a view are 1."""

    @property
    def influence(self) -> float:
        """A user's r bits change the debiased sum by r/(1 - gamma) parts of r."""
        return self.domain.width / float(1 - self.gamma)

    def error(self, users: int) -> SumError:
        """Return what is known of the error of all responses and of rounding.

        All of a user's bits but one are certain, and one is drawn at random, to round the value. A
        certain bit's response has variance g (1 - g) with g = gamma/2, a random one's at most 1/4,
        which is attained at probability 1/2: the mean square is the exact supremum over all values.
        Every response is off its mean by at most 1 - g, and a bit counts 1/(r (1 - gamma)).
        """
        users, bits, width = validate_users(users, self.n), self._sent[0], self.domain.width
        g, step = float(self.gamma / 2), bits * float(1 - self.gamma)
        each = ((bits - 1) * g * (1 - g) + 0.25) / step**2
        return SumError.number(Bounded(width**2 * users * each, width * (1 - g) / step))

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        """Return the bits, (r, k) of uint8: r bytes for each user, all held at once."""
        bits = int(self._sent[0])
        ones = encode(self.domain.unit(values), bits, rng)
        result = np.empty((bits, ones.size), dtype=np.uint8)
        for bit, row in enumerate(result):
            np.less(bit, ones, out=row.view(np.bool_))
            for part in blocks(row.size, 1 << 18):
                block = row[part]
                block ^= rng.bernoullis(self.gamma / 2, block.size).view(np.uint8)
        return result

    def _totals(self, view: View, users: int) -> float:
        bits = int(self._sent[0])
        total = debias(self._ones(view), users * bits, 2, self.gamma)
        return self.domain.total(total / bits, users)


@dataclass(frozen=True, init=False, repr=False)
class ShuffledBits(BitProtocol):
    """All users' bits are shuffled, and the analyzer sees how many are 1."""

    _THEOREMS: ClassVar[Mapping[str, str]]
    """What proves the guarantee, for each accountant."""

    accountant: str

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run."""
        honest = "all" if self.min_honest == self.n else f"at least {self.min_honest}"
        verb = "is" if self.min_honest == 1 else "are"
        return self._guaranteed(
            self._THEOREMS[self.accountant],
            "the shuffler is honest",
            f"{honest} of the {self.n} users {verb} honest and present",
        )


def not_all_random(gamma: Fraction, honest: int) -> Fraction:
    """Return a probability of random answers; ValueError if all would be random."""
    if gamma == 1:
        raise ValueError(f"epsilon is too small for {honest} users: every answer would be random")
    return gamma
