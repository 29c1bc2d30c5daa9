"""Correlated noise: almost central accuracy in almost one message (GKMPS21).

Ghazi, Kumar, Manurangsi, Pagh, Sinha, *Differentially Private Aggregation in the Shuffle Model:
Almost Central Accuracy in Almost a Single Message*, ICML 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, flag, integer, number, round_down, validate_users
from ikos.accounting.flooding_gkmps21 import MAX_STEPS, Flooding
from ikos.accuracy import NoiseLaw
from ikos.baselines.base import Asked, NumberBaseline
from ikos.baselines.flooding import FLOODINGS, Flooded, counted_column, counted_view, flooded
from ikos.bounds import Bounds, whole
from ikos.encoding import encode
from ikos.errors import NoisySum, SumError
from ikos.randomness import RandomSource
from ikos.results import Guarantee
from ikos.shuffling import View

_ROUNDING_SHARE = Fraction(1, 4)


def default_steps(central: Fraction, users: int) -> int:
    """Return the smallest precision at which rounding adds at most a quarter to the noise.

    Rounding has variance users / (4 p^2), noise about 2 / central^2. The number of messages grows
    somewhat faster than p, which is why p is not larger.
    """
    square = central**2 * users / (8 * _ROUNDING_SHARE)
    return min(MAX_STEPS, max(1, math.ceil(math.sqrt(square))))


@dataclass(frozen=True, init=False, repr=False)
class CorrelatedNoise(Flooded, NumberBaseline):
    """Correlated noise of GKMPS21: discrete Laplace noise in single units, hidden by floods.

    Each user rounds its value at random to {0..precision} and sends it as one message, unless it
    is 0. Together, all users send geometric numbers of +1 and of -1, whose difference is discrete
    Laplace noise; and messages that cancel, {1, -1} and {i, floor(-i/2), ceil(-i/2)}, which hide
    everything else. One shuffler mixes all of them; their sum is the estimate.

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper
        As of `Baseline`.
    precision : int, optional
        Steps of the encoding, at most 2^16. By default the smallest at which rounding adds at most
        a quarter to the variance of the noise, about 0.7 epsilon sqrt(min_honest); the number of
        messages grows a little faster than the precision.
    flooding : {"certified", "paper"}
        How many messages cancel: a small number that is certified numerically, or the paper's,
        often a hundred times as many, its proof checked numerically at these parameters.
    integers : bool
        Promise that the values are integers, and refuse others. The bounds must be integers and
        the precision is ``upper - lower``: nothing is rounded.
    central_share : float
        The part of epsilon for the noise that remains in the estimate, in (0, 1): its variance is
        about 2 / (central_share epsilon)^2. The rest is for the messages that cancel, whose number
        grows as one over it.

    Attributes
    ----------
    noise : Flooding
        Laws of the numbers of all messages but the values', and the delta proved for them.

    Notes
    -----
    A view holds all messages that are sent, in one column, and the number of users, which is
    public, in a second of one entry. A user who sends nothing cannot be told from one who is not
    there: the shuffler counts users, not messages.

    Proof and certificate are in ``ikos.accounting.flooding_gkmps21``.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = CorrelatedNoise(100_000, 1, 1e-10, integers=True, upper=10)
    >>> 2.45e2 < protocol.mse < 2.5e2, protocol.cost().messages_per_user < 2.5
    (True, True)
    >>> result = protocol.run([3] * 100_000, DeterministicRandom(0))
    >>> abs(result.estimate - 300_000) < 200
    True
    """

    precision: int
    flooding: str
    integers: bool
    noise: Flooding

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        flooding: str = "certified",
        integers: bool = False,
        min_honest: int | None = None,
        central_share: float | Fraction = Fraction(9, 10),
        lower: float = 0.0,
        upper: float = 1.0,
    ) -> None:
        asked = Asked.of(n, Bounds(lower, upper), epsilon, delta, min_honest)
        choice("flooding", flooding, FLOODINGS)
        share = number("central_share", central_share, low=0.001, high=0.999)
        if exact := flag("integers", integers):
            precision = asked.domain.whole_steps(precision)
        if precision is None:
            precision = default_steps(share * asked.epsilon, asked.min_honest)
        p = integer("precision", precision, low=1, high=MAX_STEPS)
        noise = flooded(p, share, asked.epsilon, round_down(asked.delta), flooding)
        super().__init__(asked, precision=p, flooding=flooding, integers=exact, noise=noise)

    @property
    def _particulars(self) -> str:
        return f"{self.domain}, precision={self.precision}, {self.flooding} floods"

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run."""
        return self._unseen("GKMPS21, discrete Laplace and zero-sum floods; {how}")

    def error(self, users: int) -> SumError:
        """Return what is known of noise and rounding."""
        users = validate_users(users, self.n)
        law = NoiseLaw(self.noise.central, Fraction(users, self.min_honest))
        rounded = not self.integers
        return NoisySum(law, self.precision, users, self.domain.width, rounded=rounded).error()

    @property
    def _sent(self) -> tuple[float, int]:
        """The mean for a value that is not 0: the number of messages is random."""
        copies = sum(kind.mean for kind in self._kinds)
        return 1 + copies, (2 * self.precision - 1).bit_length()

    def _taken(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return whole(values) if self.integers else values

    def _encoded(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int64]:
        unit = self.domain.unit(values)
        if self.integers:  # j / p p is within 2^-36 of j for p <= 2^16
            return np.rint(unit * self.precision).astype(np.int64)
        return encode(unit, self.precision, rng)

    @property
    def _dtype(self) -> np.dtype[Any]:
        """The smallest that holds every message."""
        return np.dtype(np.min_scalar_type(-self.precision - 1))

    def _listed(
        self, values: NDArray[np.float64], rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        encoded = self._encoded(values, rng)
        senders = [np.flatnonzero(encoded)]
        messages = [encoded[senders[0]].astype(self._dtype)]
        for kind in self._kinds:
            user, value = kind.sent(values.size, rng)
            senders.append(user)
            messages.append(value.astype(self._dtype))
        sender, message = np.concatenate(senders), np.concatenate(messages)
        order = np.argsort(sender, kind="stable")
        return sender[order], message[order]

    def _users_of(self, view: View) -> int:
        column, users = counted_column(view, "messages")
        least, most = int(column.min(initial=0)), int(column.max(initial=0))
        if max(-least, most) > self.precision or (column == 0).any():
            raise ValueError(
                f"view must hold messages from 1 to {self.precision} in absolute value"
            )
        return users

    def _totals(self, view: View, users: int) -> float:
        steps = int(view.columns[0].sum(dtype=np.int64))
        return self.domain.total(Fraction(steps, self.precision), users)

    def _view(self, values: NDArray[np.float64], rng: RandomSource) -> View:
        """Return the view of all users, from the numbers of copies of each message in all.

        They have the distribution of what users send one by one, and take no pass over the users.
        Where more messages are expected than memory should hold, the atoms are left out: each adds
        up to 0, so that the sum, and the estimate, is what it would be. The cost counts them.
        """
        p, users = self.precision, values.size
        kinds = self._kinds
        if self._too_many(users):
            kinds = kinds[:1]
        copies = np.zeros(2 * p + 1, dtype=np.int64)
        encoded = self._encoded(values, rng)
        copies[p:] += np.bincount(encoded, minlength=p + 1)
        for kind in kinds:
            totals = kind.totals(users, rng)
            for column in kind.columns():
                np.add.at(copies, column + p, totals)
        copies[p] = 0
        messages = np.repeat(np.arange(-p, p + 1, dtype=self._dtype), copies)
        return counted_view(messages, users)
