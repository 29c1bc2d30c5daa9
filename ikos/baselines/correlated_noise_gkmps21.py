"""Correlated noise: almost central accuracy in almost one message (GKMPS21).

In addition to values, users send noise in single units, and floods of messages that cancel.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue, choice, integer, number, round_down
from ikos.accounting.flooding_gkmps21 import (
    MAX_STEPS,
    Flooding,
    atom,
    certified_flooding,
    paper_flooding,
    rate_down,
)
from ikos.baselines.base import Description, Padded, checked, noisy_error, read_only_view
from ikos.data.domains import Bounds, number_bounds
from ikos.data.encoding import steps_of
from ikos.numeric.distributions import PolyaDifference
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource
from ikos.primitives.samplers import geometric, polya, polya_jumps
from ikos.primitives.shuffling import View
from ikos.results.conditions import ONE_REPORT, UNSEEN_COUNTS, Condition, alone, present
from ikos.results.error import SumError

FLOODINGS = ("certified", "paper")

MAX_LISTED = 2 * 10**7  # largest expected number of messages that are created one by one
_DRAWS_PER_PASS = 1 << 20


def polya_sums(shape: Fraction, rate: Fraction, many: int, rng: RandomSource) -> NDArray[np.int64]:
    """Return independent Polya(shape, e^-rate) variables, from geometric ones if shape is large."""
    times, part = divmod(shape, 1)
    result = np.zeros(many, dtype=np.int64)
    for some in blocks(times, max(1, _DRAWS_PER_PASS // many)):
        each = some.stop - some.start
        result += geometric(rate, many * each, rng).astype(np.int64).reshape(many, each).sum(axis=1)
    if part:
        result += polya(part, rate, many, rng).astype(np.int64)
    return result


def noise_sums(
    rate: Fraction, users: int, honest: int, many: int, rng: RandomSource
) -> NDArray[np.int64]:
    """Return sums of all users' noise: differences of Polya(users / honest) variables."""
    share = Fraction(users, honest)
    return polya_sums(share, rate, many, rng) - polya_sums(share, rate, many, rng)


@dataclass(frozen=True)
class MessageSets:
    """Sets of messages: ``parties`` users together send each Polya(variables, e^-rate) times."""

    sets: tuple[tuple[int, ...], ...]
    variables: int
    parties: int
    rate: Fraction

    def columns(self) -> list[NDArray[np.int64]]:
        """Return the first, second and third message of each set; 0 if it has none."""
        width = max(map(len, self.sets))
        filled = [(*messages, *(0,) * (width - len(messages))) for messages in self.sets]
        return list(np.array(filled, dtype=np.int64).T)

    @property
    def mean(self) -> float:
        """Expected number of messages of one user."""
        each = self.variables / self.parties / math.expm1(self.rate)
        return each * sum(map(len, self.sets))

    def sent(self, users: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return senders and their messages, one entry per message."""
        whole = -(-users // self.parties) * self.parties  # whole groups of users for each set
        draws = whole * len(self.sets)
        index, amounts = polya_jumps(draws, self.rate, self.parties, rng, self.variables)
        which, user = np.divmod(np.repeat(index, amounts.astype(np.int64)), whole)
        which, user = which[user < users], user[user < users]
        messages = np.stack([column[which] for column in self.columns()])
        used = messages != 0
        return np.broadcast_to(user, messages.shape)[used], messages[used]

    def totals(self, users: int, rng: RandomSource) -> NDArray[np.int64]:
        """Return how often all users together send each set."""
        shape = Fraction(self.variables * users, self.parties)
        return polya_sums(shape, self.rate, len(self.sets), rng)


def sent_together(noise: Flooding, honest: int) -> list[MessageSets]:
    """Return what ``honest`` users together must send: the central noise, then the floods."""
    kinds = [MessageSets(((1,), (-1,)), 1, honest, noise.central)]
    for flood in noise.floods:
        variables = math.ceil(flood.shape)
        parties = math.floor(variables * honest / flood.shape)  # h users have at least the shape
        kinds.append(MessageSets(tuple(map(atom, flood.atoms)), variables, parties, flood.rate))
    return kinds


def flooded(
    p: int, share: Fraction, epsilon: Fraction | float, delta: float, flooding: str
) -> Flooding:
    """Return noise and floods for values of p steps; a ``share`` of epsilon is for the noise."""
    central = rate_down(share * Fraction(epsilon) / p)
    if flooding == "paper":
        return paper_flooding(p, central, round_down(Fraction(epsilon) - central * p), delta)
    return certified_flooding(p, central, round_down(Fraction(epsilon)), delta)


@dataclass(frozen=True, init=False, repr=False)
class Flooded(Padded):
    """A protocol whose users send a random number of messages, hidden from the analyzer."""

    precision: int
    flooding: str
    noise: Flooding

    @property
    def _proof(self) -> str:
        """The proof of the delta of the floods."""
        return "numerical certificate" if self.flooding == "certified" else "checked numerically"

    def _floods_described(
        self,
        settings: str,
        theorem: str,
        values: float,
        bits: int,
        reports: Condition = ONE_REPORT,
    ) -> Description:
        """Return a description of what is proved, and of the cost.

        ``values`` bounds the mean number of messages of each coefficient that carry a value.
        """
        copies = sum(kind.mean for kind in self._kinds)
        return self._described(
            f"{settings}, precision={self.precision}, {self.flooding} floods",
            theorem,
            present(self.min_honest, self.n),
            alone(),
            UNSEEN_COUNTS,
            influence=math.inf,  # after the shuffler, no one sees how many messages one user sent
            sent=(self.coefficients * (values + copies), bits),
            random="draws of noise",
            reports=reports,
        )

    @property
    def coefficients(self) -> int:
        """Number of sums."""
        return 1

    @cached_property
    def _kinds(self) -> list[MessageSets]:
        """The messages besides the values: the central noise and the floods."""
        return sent_together(self.noise, self.min_honest)

    @abstractmethod
    def _steps(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int64]:
        """Return users' steps of each coefficient, in {0..precision}, (k * coefficients,)."""

    def _labelled(self, coefficient: NDArray[np.int64], message: NDArray[np.int64]) -> NDArray[Any]:
        """Return messages about coefficients in the form in which they are sent."""
        del coefficient  # there is one
        return message.astype(np.min_scalar_type(-self.precision - 1))

    def _listed(
        self, values: NDArray[np.float64], rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return senders and messages, ordered by user; 0 is no message."""
        encoded = self._steps(values, rng)
        places = [np.flatnonzero(encoded)]
        messages = [encoded[places[0]]]
        for kind in self._kinds:  # each pair of a user and a coefficient has its own noise
            place, message = kind.sent(encoded.size, rng)
            places.append(place)
            messages.append(message)
        sender, coefficient = np.divmod(np.concatenate(places), self.coefficients)
        labels = self._labelled(coefficient, np.concatenate(messages))
        order = np.lexsort((labels, sender))
        return sender[order], labels[order]

    def _too_many(self, users: int) -> bool:
        """Whether this many users are expected to send more messages than can be listed."""
        return users * self.cost().messages_per_user > MAX_LISTED

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        """Return messages, one column per user, padded with 0, which is no message."""
        users = values.shape[0]
        if self._too_many(users):
            expected = self.cost(users).messages
            raise InvalidValue(
                "x",
                f"has {users} users who send about {expected:.0f} messages, more "
                f"than {MAX_LISTED} at a time; use run, which simulates their sum, or fewer users",
            )
        sender, messages = self._listed(values, rng)
        counts = np.bincount(sender, minlength=users)
        most = int(counts.max(initial=1))
        place = np.arange(sender.size) - np.repeat(np.cumsum(counts) - counts, counts)
        result = np.zeros((most, users), dtype=messages.dtype)
        result[place, sender] = messages
        return result


def default_steps(central: Fraction, users: int) -> int:
    """Return the smallest precision at which rounding adds at most a quarter to the noise.

    Rounding has variance users / (4 p^2), noise about 2 / central^2.
    """
    square = central**2 * users / 2
    return min(MAX_STEPS, max(1, math.ceil(math.sqrt(square))))


@dataclass(frozen=True, init=False, repr=False)
class CorrelatedNoise(Flooded):
    """Correlated noise of GKMPS21: discrete Laplace noise in single units, hidden by floods.

    Each user rounds its value at random to {0..precision} and sends it as one message, unless it is
    0. All users together also send geometric numbers of +1 and of -1, whose difference is discrete
    Laplace noise, and messages that cancel, {1, -1} and {i, floor(-i/2), ceil(-i/2)}, which hide
    everything else. One shuffler mixes all messages; their sum is the estimate.

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper, integers
        As for `Baseline`.
    precision : int, optional
        Steps of the encoding, at most 2^16. By default the smallest at which rounding adds at most
        a quarter to the variance of the noise; the number of messages grows a little faster.
    flooding : {"certified", "paper"}
        Number of cancelling messages: a small one that is certified numerically, or the paper's,
        often a hundred times as large, whose proof is checked numerically.
    central_share : float
        The fraction of epsilon for the noise that remains in the estimate, in (0, 1). The rest is
        for the cancelling messages, whose number is inversely proportional to it.

    Attributes
    ----------
    noise : Flooding
        Distributions of the numbers of messages that carry no value, and their proved delta.

    Notes
    -----
    A view holds a column of all messages and a second column with the number of users, as a user
    may send nothing. The proof is in ``ikos.accounting.flooding_gkmps21``.

    Examples
    --------
    >>> protocol = CorrelatedNoise(100_000, 1, 1e-10, integers=True, upper=10)
    >>> 2.45e2 < protocol.mse < 2.5e2, protocol.cost().messages_per_user < 2.5
    (True, True)
    """

    domain: Bounds

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        flooding: str = "certified",
        min_honest: int | None = None,
        central_share: float | Fraction = Fraction(9, 10),
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        bounds = number_bounds(lower, upper, integers)
        terms = checked(n, bounds, epsilon, delta, min_honest)
        choice("flooding", flooding, FLOODINGS)
        share = number("central_share", central_share, low=0.001, high=0.999)
        if precision is None:
            default = default_steps(share * terms.epsilon, terms.min_honest)
            precision = bounds.precision(default, MAX_STEPS)
        p = integer("precision", precision, low=1, high=MAX_STEPS)
        noise = flooded(p, share, terms.epsilon, round_down(terms.delta), flooding)
        self._init(terms, precision=p, flooding=flooding, noise=noise)

    def _describe(self) -> Description:
        return self._floods_described(
            str(self.domain),
            f"GKMPS21, discrete Laplace and zero-sum floods; {self._proof}",
            1,  # for a value that is not 0: the number of messages is random
            (2 * self.precision - 1).bit_length(),
        )

    def _error(self, users: int) -> SumError:
        law = PolyaDifference(self.noise.central, Fraction(users, self.min_honest))
        return noisy_error(self.domain, law, self.precision, users)

    def _steps(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int64]:
        return steps_of(values, self.domain, self.precision, rng)

    def _users_of(self, view: View) -> int:
        return self._counted(view, "messages", self.precision, -self.precision)[1]

    def _totals(self, view: View, users: int) -> float:
        steps = int(view.columns[0].sum(dtype=np.int64))
        return self.domain.total(Fraction(steps, self.precision), users)

    def _view(self, values: NDArray[np.float64], rng: RandomSource) -> View:
        """Return the view of all users, from the total number of copies of each message.

        If more messages are expected than memory should hold, the floods are left out, which add up
        to 0. The cost counts them.
        """
        p, users = self.precision, values.size
        copies = np.zeros(2 * p + 1, dtype=np.int64)
        encoded = self._steps(values, rng)
        copies[p:] += np.bincount(encoded, minlength=p + 1)
        for kind in self._kinds[:1] if self._too_many(users) else self._kinds:
            totals = kind.totals(users, rng)
            for column in kind.columns():
                np.add.at(copies, column + p, totals)
        copies[p] = 0
        every = np.arange(-p, p + 1)
        return read_only_view(np.repeat(self._labelled(every, every), copies), np.array([users]))
