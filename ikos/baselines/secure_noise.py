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

from ikos._validation import floating, integer, quote, validate_users
from ikos.accuracy import Noise, standard_error
from ikos.aggregation import SecureSum
from ikos.aggregation.protocol import Baseline
from ikos.aggregation.secure_sum import alone, unproved_conditions
from ikos.counts import MessageCount, least, proved
from ikos.counts.private import lemma_5_2
from ikos.counts.rounding import DOWN, UP, exact, float_up, rounding
from ikos.counts.secure import MAX_MESSAGES
from ikos.encoding import decode, encode
from ikos.randomness import RandomSource
from ikos.results import ONE_REPORT, Cost
from ikos.sharing import split
from ikos.shuffling import View


def hiding(
    n: int,
    q: int,
    epsilon: Fraction,
    delta: Fraction,
    *,
    min_honest: int,
    messages: object,
    analysis: str,
    shuffler: str,
    clear_share: bool,
) -> tuple[MessageCount, SecureSum]:
    """Return a secure sum that hides all but the sum at the price of delta, and what is proved.

    By BBGN20, Lemma 5.2, whatever the noise: if the sum of min_honest users is (epsilon, d)-private
    and their views of equal sums are within total variation 2^-sigma, then the view is (epsilon,
    d + (1 + e^epsilon) 2^-sigma)-private. What further honest users send is the adversary's.

    Parameters
    ----------
    delta : Fraction
        The largest (1 + e^epsilon) 2^-sigma to choose the number of messages for.
    messages : int or None
        A number of messages that is given, the clear share included; then as much is proved as is.

    Returns
    -------
    MessageCount, SecureSum
        The count has ``delta`` = (1 + e^epsilon) 2^-sigma, rounded up; 1.0 where nothing is proved.
    """
    users = (min_honest, min_honest)
    if messages is None:
        with rounding(UP):
            level = float_up(gmpy2.log2((1 + gmpy2.exp(exact(epsilon, UP))) / exact(delta, DOWN)))
        count = least(
            users, q, level, analysis=analysis, shuffler=shuffler, clear_share=clear_share
        )
        total = count.total
    else:
        total = integer("messages", messages, low=1, high=MAX_MESSAGES)
        count = proved(
            users,
            q,
            max(0, total - int(clear_share)),
            analysis=analysis,
            shuffler=shuffler,
            clear_share=clear_share,
        )
    secure_sum = SecureSum(
        n,
        q,
        messages=total,
        analysis=analysis,
        shuffler=shuffler,
        clear_share=clear_share,
        min_honest=min_honest,
    )
    if math.isinf(count.sigma):  # one honest user: its value is the sum, and hidden by the noise
        count = replace(count, delta=0.0, theorem=f"BBGN20, Lemma 5.2, with {count.theorem}")
    else:
        count = lemma_5_2(count, epsilon)
    return count, secure_sum


@dataclass(frozen=True)
class Modular:
    """The error of a noisy sum modulo q of values that were rounded at random.

    Parameters
    ----------
    law : Noise
        Of the noise, in steps of the encoding.
    precision, modulus, users : int
        Steps, order of the group and users, modulus > users * precision.
    """

    law: Noise
    precision: int
    modulus: int
    users: int

    @property
    def wrap_probability(self) -> float:
        """Bound on the probability of a wrap-around."""
        return self.law.tail_bound(Fraction(self.modulus - self.users * self.precision, 2))

    @property
    def mean_square(self) -> float:
        """Bound on the mean square: noise, rounding and wrap-around."""
        error = standard_error(
            self.law, users=self.users, precision=self.precision, modulus=self.modulus
        )
        return error**2 if error < 1e150 else math.inf

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss.

        Estimates lie in a window of q points about the possible sums. So none is further off than
        (q + users p) / 2 steps, which is the answer where a wrap-around alone is likelier than
        ``miss``.
        """
        always = floating(Fraction(self.modulus + self.users * self.precision, 2 * self.precision))
        left = miss - self.wrap_probability
        if left <= 0:
            return always
        return min(always, self.law.half_width(left, self.users) / self.precision)


class NoiseOverSecureSum(Baseline):
    """Values are rounded at random to {0..precision}, some users add noise, and all are shared."""

    epsilon: Fraction
    precision: int
    messages: MessageCount
    secure_sum: SecureSum

    @property
    def _particulars(self) -> str:
        return (
            f"{self.bounds}, precision={self.precision}, q={quote(self.secure_sum.q)}, "
            f"{self.messages.total} messages of each user"
        )

    @abstractmethod
    def _noise(self, users: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return which of so many users add noise, each once, and how much."""

    @abstractmethod
    def _law(self, users: int) -> Noise:
        """Return the law of the sum of so many users' noise, in steps."""

    @property
    def modulus(self) -> int:
        """Order of the group."""
        return self.secure_sum.q

    @property
    def min_honest(self) -> int:  # type: ignore[override]
        """How many users must be honest and present."""
        return self.secure_sum.min_honest

    @property
    def influence(self) -> float:
        """Any of the q points of the window that sums are decoded to, as of `ikos.PrivateSum`."""
        return self.bounds.width * floating(Fraction(self.modulus - 1, self.precision))

    @property
    def _conditions(self) -> tuple[str, ...]:
        if self.secure_sum.shuffler == "single":
            shufflers = alone(self.secure_sum.clear_share)
        else:
            shufflers = "while no shuffler colludes with the analyzer"
        return (
            *unproved_conditions(self.messages.analysis, self.modulus),
            shufflers,
            ONE_REPORT,
            "the number of users is public; shares are pseudorandom (AES-256)",
        )

    def error(self, users: int) -> Modular:
        """Return the law of noise, rounding and wrap-around, in units of the width."""
        users = validate_users(users, self.n)
        return Modular(self._law(users), self.precision, self.modulus, users)

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""
        return self.secure_sum.cost(users)

    def _messages(self, unit: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        return self._shares(unit, *self._noise(unit.size, rng), rng)

    def _shares(
        self,
        unit: NDArray[np.float64],
        noisy: NDArray[np.int64],
        noise: NDArray[Any],
        rng: RandomSource,
    ) -> NDArray[Any]:
        """Return the shares of rounded values, to some of which noise is added."""
        group = self.secure_sum.group
        elements = encode(unit, self.precision, rng).astype(group.dtype)
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

    def _parts(self, view: View, users: int) -> Fraction:
        z = self.secure_sum.analyze(view)
        return Fraction(decode(z, users, self.precision, self.modulus), self.precision)
