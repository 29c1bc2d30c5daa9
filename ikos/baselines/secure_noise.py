"""What the protocols share in which some users add noise and all values are summed securely."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, flag, floating, integer, quote, validate_users
from ikos.accuracy import Noise
from ikos.aggregation import SecureSum
from ikos.aggregation.shuffled_sum import alone, unproved_conditions
from ikos.baselines.base import Asked, NumberBaseline
from ikos.counts import MessageCount, least, proved
from ikos.counts.private import lemma_5_2
from ikos.counts.rounding import DOWN, UP, exact, float_up, rounding
from ikos.counts.secure import MAX_MESSAGES, checked_analysis
from ikos.encoding import decode, encode
from ikos.errors import NoisySum, SumError
from ikos.randomness import RandomSource
from ikos.results import Cost, Guarantee
from ikos.sharing import split
from ikos.shuffling import View
from ikos.trust import SHUFFLERS


@dataclass(frozen=True, init=False, repr=False)
class NoiseOverSecureSum(NumberBaseline):
    """Values are rounded at random to {0..precision}, some users add noise, and all are shared."""

    precision: int
    messages: MessageCount
    secure_sum: SecureSum

    def _noisily(self, theorem: str, delta: float, *conditions: str) -> Guarantee:
        """Return the guarantee with a delta that is proved; without conditions if it is nothing."""
        made = self._guaranteed(
            f"{theorem}; {self.messages.theorem}", *conditions, *self._sharing, random="shares"
        )
        return replace(made, delta=delta, conditions=made.conditions if delta < 1 else ())

    @property
    def _particulars(self) -> str:
        return (
            f"{self.domain}, precision={self.precision}, q={quote(self.secure_sum.q)}, "
            f"{self.messages.total} messages of each user"
        )

    @abstractmethod
    def _noise(self, users: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return which of this many users add noise, each once, and how much."""

    @abstractmethod
    def _law(self, users: int) -> Noise:
        """Return the distribution of the sum of this many users' noise, in steps."""

    @property
    def modulus(self) -> int:
        """Order of the group."""
        return self.secure_sum.q

    @property
    def influence(self) -> float:
        """Any of the q points of the window that sums are decoded to, as of `ikos.PrivateSum`."""
        return self.domain.width * floating(Fraction(self.modulus - 1, self.precision))

    @property
    def _sharing(self) -> tuple[str, ...]:
        """The conditions on group and shufflers."""
        shufflers = "while no shuffler colludes with the analyzer"
        if self.secure_sum.shuffler == "single":
            shufflers = alone(self.secure_sum.clear_share)
        return *unproved_conditions(self.messages.analysis, self.modulus), shufflers

    def error(self, users: int) -> SumError:
        """Return what is known of noise, rounding and wrap-around."""
        users = validate_users(users, self.n)
        noise, width = self._law(users), self.domain.width
        return NoisySum(noise, self.precision, users, width, self.modulus).error()

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""
        return self.secure_sum.cost(users)

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        return self._shares(values, *self._noise(values.size, rng), rng)

    def _shares(
        self,
        values: NDArray[np.float64],
        noisy: NDArray[np.int64],
        noise: NDArray[Any],
        rng: RandomSource,
    ) -> NDArray[Any]:
        """Return the shares of rounded values, to some of which noise is added."""
        group = self.secure_sum.group
        elements = encode(self.domain.unit(values), self.precision, rng).astype(group.dtype)
        changed = elements[noisy]
        group.add(changed, group.reduce(noise))
        elements[noisy] = changed
        return split(elements, group, self.secure_sum.messages.total, rng)

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Pass shares through the shufflers, as `ikos.SecureSum.shuffle` does."""
        return self.secure_sum.shuffle(messages, rng, order=order)

    def _users_of(self, view: View) -> int:
        return self.secure_sum.users(view)

    def _totals(self, view: View, users: int) -> float:
        z = self.secure_sum.analyze(view)
        steps = decode(z, users, self.precision, self.modulus)
        return self.domain.total(Fraction(steps, self.precision), users)


def hidden(
    asked: Asked,
    q: int,
    delta: Fraction,
    messages: object,
    analysis: str,
    shuffler: str,
    clear: bool,
) -> tuple[MessageCount, SecureSum]:
    """Return what is proved of a secure sum that hides all but the sum for delta, and the sum.

    By BBGN20, Lemma 5.2, whatever the noise: if the sum of min_honest users is (epsilon, d)-
    private and their views of equal sums are within total variation 2^-sigma, then the view is
    (epsilon, d + (1 + e^epsilon) 2^-sigma)-private. What further honest users send is the
    adversary's. ``messages.delta`` is (1 + e^epsilon) 2^-sigma, rounded up; 1.0 where a given
    number of messages proves nothing. One honest user's value is the sum, hidden by the noise.
    """
    users = (asked.min_honest, asked.min_honest)
    how: dict[str, Any] = {
        "analysis": checked_analysis(analysis),
        "shuffler": choice("shuffler", shuffler, SHUFFLERS),
        "clear_share": flag("clear_share", clear),
    }
    if messages is None:
        with rounding(UP):
            odds = 1 + gmpy2.exp(exact(asked.epsilon, UP))
            level = float_up(gmpy2.log2(odds / exact(delta, DOWN)))
        count = least(users, q, level, **how)
        total = count.total
    else:
        total = integer("messages", messages, low=1, high=MAX_MESSAGES)
        count = proved(users, q, max(0, total - int(clear)), **how)
    secure_sum = SecureSum(asked.n, q, messages=total, min_honest=asked.min_honest, **how)
    if math.isinf(count.sigma):
        count = replace(count, delta=0.0, theorem=f"BBGN20, Lemma 5.2, with {count.theorem}")
    else:
        count = lemma_5_2(count, asked.epsilon)
    return count, secure_sum
