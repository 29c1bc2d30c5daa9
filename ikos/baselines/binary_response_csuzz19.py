"""Shuffled randomized response on bits: one per user, or many in unary encoding.

A. Cheu, A. Smith, J. Ullman, D. Zeber, M. Zhilyaev, *Distributed differential privacy via
shuffling*, EUROCRYPT 2019 (CSUZZ19).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue, choice, integer, number, round_up
from ikos.accounting.binary_response import (
    MAX_BITS,
    binary_response_delta,
    binary_response_gamma,
    composed_gamma,
    published_gamma,
)
from ikos.accounting.blanket import LEAST_GAMMA
from ikos.baselines.base import (
    Description,
    NumberBaseline,
    checked,
    numbers_of,
    read_only_view,
    refuse_unproved,
)
from ikos.data.domains import number_bounds
from ikos.data.encoding import steps_of
from ikos.primitives.modular import blocks
from ikos.primitives.randomized_response import debias, grid_up
from ikos.primitives.randomness import RandomSource
from ikos.primitives.shuffling import View
from ikos.results.conditions import Condition, Kind
from ikos.results.error import Bounded, Flips, SumError

_BITS_PER_PASS = 1 << 20

_THEOREMS = {  # of each accountant's guarantee
    "exact": "randomized response, shuffled; exact law of the number of ones",
    "composition": "randomized response, exact for each bit; advanced composition",
    "csuzz19": "CSUZZ19: published lambda for each bit, from memory; advanced composition",
}


@dataclass(frozen=True, init=False, repr=False)
class BitProtocol(NumberBaseline):
    """Users send x as r bits in unary; each is replaced by a fair coin with probability gamma."""

    gamma: Fraction
    messages: int

    def _bits_described(
        self, theorem: str, *conditions: Condition, delta: float | None = None, local: bool = False
    ) -> Description:
        # A user's r bits change the debiased sum by at most r/(1 - gamma) steps of 1/r.
        return self._described(
            f"{self.domain}, bits ({self.messages} of each user) answered at random with "
            f"probability {float(self.gamma):.4g}",
            theorem,
            *conditions,
            influence=self.domain.width / float(1 - self.gamma),
            sent=(self.messages, 1),
            delta=delta,
            local=local,
        )

    def _users_of(self, view: View) -> int:
        return int(self._below(view, "bits", 2)[0].size)

    def _ones(self, view: View) -> int:
        """Return the number of ones in a view."""
        return int(self._below(view, "bits", 2)[0].sum(dtype=np.int64))

    def _error(self, users: int) -> SumError:
        # All of a user's bits but one are certain, and one is 1 with a probability f, to round the
        # value. With g = gamma/2, a certain bit's response has variance g (1 - g), and that one's,
        # 1 with probability g + f (1 - gamma), has g (1 - g) + f (1 - f) (1 - gamma)^2: the mean
        # square is the exact supremum over all values, as f (1 - f) is of the domain's rounding. A
        # response is off its mean by at most 1 - g, and a bit counts 1/(r (1 - gamma)). For bits,
        # with r = 1 and nothing rounded, the mean square is n g (1 - g) / (1 - gamma)^2.
        bits, width, g = self.messages, self.domain.width, self.gamma / 2
        rounding, step = self.domain.rounding(bits), bits * float(1 - self.gamma)
        last = float(g * (1 - g) + rounding * (1 - self.gamma) ** 2)
        flip = float(g)
        each = ((bits - 1) * flip * (1 - flip) + last) / step**2
        square = width**2 * users * each
        if rounding:
            return SumError.number(Bounded(square, width * (1 - flip) / step))
        return SumError.number(Flips(square, users * bits, flip, width / step))

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        """Return the bits, (r, k) of uint8: r bytes per user, all in memory at once."""
        ones = steps_of(values, self.domain, self.messages, rng)
        result = np.empty((self.messages, ones.size), dtype=np.uint8)
        for bit, row in enumerate(result):
            np.less(bit, ones, out=row.view(np.bool_))
            for part in blocks(row.size, 1 << 18):
                block = row[part]
                block ^= rng.bernoullis(self.gamma / 2, block.size).view(np.uint8)
        return result

    def _totals(self, view: View, users: int) -> float:
        total = debias(self._ones(view), users * self.messages, 2, self.gamma)
        return self.domain.total(total / self.messages, users)


@dataclass(frozen=True, init=False, repr=False)
class ShuffledBits(BitProtocol):
    """All users' bits are shuffled, and the analyzer sees the number of ones."""

    accountant: str
    proved_delta: float

    def _describe(self) -> Description:
        honest = Condition(Kind.PARTIES, "the shuffler is honest")
        theorem = _THEOREMS[self.accountant]
        return self._bits_described(theorem, honest, self._answering, delta=self.proved_delta)


def _informative(gamma: Fraction, honest: int) -> Fraction:
    """Return a probability of random answers; refuse that all are random."""
    if gamma == 1:
        raise InvalidValue(
            "epsilon", f"is too small for {honest} users: every answer would be random"
        )
    return gamma


@dataclass(frozen=True, init=False, repr=False)
class BinaryRandomizedResponse(ShuffledBits):
    """Binary randomized response: one shuffled bit per user.

    A value is rounded at random to 0 or 1; with probability gamma a fair coin replaces it. The
    analyzer sees only the number of ones.

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper, integers
        As for `Baseline`.
    accountant : {"exact", "csuzz19"}
        How gamma is chosen: exactly, or by the published lambda, a dozen times as large, which
        requires epsilon <= 1 (`ikos.accounting.binary_response`).
    gamma : float or Fraction, optional
        Probability of a random answer, rounded up to a multiple of 2^-53: CSUZZ19's lambda / n. Its
        guarantee is exact, with the delta that is proved; ValueError if that is larger than
        ``delta``. By default the least gamma found.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random answer, a multiple of 2^-53.
    proved_delta : float
        The delta of the guarantee: ``delta``, or what is proved for a given ``gamma``.
    mse : float
        The exact supremum over all values, n / (4 (1 - gamma)^2): the price of one bit. For values
        that are bits, with ``integers``, n (gamma/2) (1 - gamma/2) / (1 - gamma)^2: hardly a
        function of n.

    Examples
    --------
    >>> protocol = BinaryRandomizedResponse(10**4, epsilon=1, delta=1e-8)
    >>> 97 < protocol.gamma * protocol.n < 98
    True
    >>> for n in (10**4, 10**6):
    ...     of_bits = BinaryRandomizedResponse(n, epsilon=1, delta=1e-8, integers=True)
    ...     print(round(of_bits.mse ** 0.5, 1))
    7.0
    7.0
    >>> lam = 150
    >>> given = BinaryRandomizedResponse(10**4, epsilon=1, delta=1e-8, gamma=lam / 10**4)
    >>> f"{given.guarantee.delta:.1e}"
    '3.9e-12'
    """

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        accountant: str = "exact",
        gamma: float | Fraction | None = None,
        min_honest: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        terms = checked(n, number_bounds(lower, upper, integers), epsilon, delta, min_honest)
        choice("accountant", accountant, ("exact", "csuzz19"))
        proved = round_up(terms.delta)
        if gamma is None:
            least_gamma = binary_response_gamma if accountant == "exact" else published_gamma
            chance = _informative(least_gamma(*terms._budget), terms.min_honest)
        elif accountant == "exact":
            chance = grid_up(number("gamma", gamma, low=LEAST_GAMMA, below=1, high=1 - LEAST_GAMMA))
            proved = binary_response_delta(terms.epsilon, terms.min_honest, chance)
            refuse_unproved("gamma", proved, terms)
        else:
            raise InvalidValue("gamma", "is chosen by accountant='csuzz19'")
        self._init(terms, accountant=accountant, messages=1, gamma=chance, proved_delta=proved)


def default_messages(epsilon: Fraction, n: int) -> int:
    """Return ceil(eps sqrt n), as in CSUZZ19, but at most the accountant's limit."""
    return min(math.ceil(float(epsilon) * math.sqrt(n)), MAX_BITS // n)


@dataclass(frozen=True, init=False, repr=False)
class UnaryEncoding(ShuffledBits):
    """Unary encoding: each user sends x in [0, 1] as about x r ones among r shuffled bits.

    With mu = ceil(x r), bits 1 to mu - 1 are 1, bit mu is 1 with probability x r - mu + 1, and the
    rest are 0. Each is flipped with probability gamma/2. One shuffler takes all users' bits: the
    view is one column with the numbers of zeros and ones.

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper, integers
        As for `Baseline`.
    messages : int, optional
        r, with n r at most 2^39; by default ceil(epsilon sqrt n), or the largest allowed.
    accountant : {"exact", "composition", "csuzz19"}
        How gamma is chosen: from the distribution of the number of ones; by composing r runs of
        `BinaryRandomizedResponse`; or by doing so with the published lambda, for large n only.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random answer to each bit, a multiple of 2^-53.
    mse : float
        The exact supremum, where every x r is halfway between two integers; for ``integers``, as
        near to that as they are, and nothing is rounded if r is a multiple of ``upper - lower``.

    Examples
    --------
    >>> protocol = UnaryEncoding(10**4, epsilon=1, delta=1e-8, messages=20)
    >>> 33 < protocol.mse < 34
    True
    """

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
        integers: bool = False,
    ) -> None:
        terms = checked(n, number_bounds(lower, upper, integers), epsilon, delta, min_honest)
        choice("accountant", accountant, tuple(_THEOREMS))
        if messages is None:
            messages = default_messages(terms.epsilon, terms.n)
        bits = integer("messages", messages, low=1, high=MAX_BITS // terms.n)
        if accountant == "exact":
            gamma = binary_response_gamma(*terms._budget, bits=bits)
        else:
            of_one_bit = "exact" if accountant == "composition" else "csuzz19"
            gamma = composed_gamma(*terms._budget, bits, accountant=of_one_bit)
        gamma = _informative(gamma, terms.min_honest)
        self._init(
            terms, accountant=accountant, messages=bits, gamma=gamma,
            proved_delta=round_up(terms.delta),
        )  # fmt: skip

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return the numbers of zeros and ones; ``order`` and ``rng`` make no difference."""
        del rng
        self._check_messages(messages, order, rows=self.messages, most=1)
        ones = int(messages.sum(dtype=np.int64))
        return read_only_view(np.array([messages.size - ones, ones]))

    def _view(self, values: NDArray[np.float64], rng: RandomSource) -> View:
        """Return the view without holding all bits: flips are drawn and added up in blocks."""
        ones = int(steps_of(values, self.domain, self.messages, rng).sum())
        zeros = values.size * self.messages - ones
        raised, lowered = (self._flips(count, rng) for count in (zeros, ones))
        return read_only_view(np.array([zeros - raised + lowered, ones + raised - lowered]))

    def _flips(self, bits: int, rng: RandomSource) -> int:
        return sum(
            int(np.count_nonzero(rng.bernoullis(self.gamma / 2, part.stop - part.start)))
            for part in blocks(bits, _BITS_PER_PASS)
        )

    def _users_of(self, view: View) -> int:
        wanted = "one column, the number of zeros and the number of ones"
        zeros, ones = map(int, numbers_of(view, wanted, 2))
        if min(zeros, ones) < 0 or (zeros + ones) % self.messages:
            raise InvalidValue("view", f"must hold {wanted}, {self.messages} for each user")
        return (zeros + ones) // self.messages

    def _ones(self, view: View) -> int:
        return int(view.columns[0][1])
