"""Messages that users send in addition to values: noise in single units, and floods that cancel."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import round_down
from ikos.accounting.flooding_gkmps21 import (
    Flooding,
    atom,
    certified_flooding,
    paper_flooding,
    rate_down,
)
from ikos.baselines.base import Baseline
from ikos.noise import geometric, polya
from ikos.noise.shares import polya_jumps
from ikos.randomness import RandomSource, secure
from ikos.results import ONE_REPORT, Guarantee, present
from ikos.shuffling import View, release

FLOODINGS = ("certified", "paper")

MAX_LISTED = 2 * 10**7
"""Most expected messages in all of which each is made."""

MAX_ARRAY = 1 << 28
"""Most entries of an array of messages, padded to the most that one user sends."""


@dataclass(frozen=True)
class Kind:
    """Sets of messages: ``parties`` users together send each Polya(variables, e^-rate) times."""

    sets: tuple[tuple[int, ...], ...]
    variables: int
    parties: int
    rate: Fraction

    def columns(self) -> list[NDArray[np.int64]]:
        """Return the first message of each set, the second, the third; 0 where there is none."""
        width = max(map(len, self.sets))
        padded = [(*messages, *(0,) * (width - len(messages))) for messages in self.sets]
        return list(np.array(padded, dtype=np.int64).T)

    @property
    def mean(self) -> float:
        """Expected number of messages of one user."""
        each = self.variables / self.parties / math.expm1(self.rate)
        return each * sum(map(len, self.sets))

    def sent(self, users: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return who sends and what, a message each."""
        padded = -(-users // self.parties) * self.parties  # whole groups of users for each set
        index, amounts = polya_jumps(
            padded * len(self.sets), self.rate, self.parties, rng, self.variables
        )
        which, user = index // padded, index % padded
        real = user < users
        user = np.repeat(user[real], amounts[real].astype(np.int64))
        which = np.repeat(which[real], amounts[real].astype(np.int64))
        messages = np.stack([column[which] for column in self.columns()])
        sender = np.broadcast_to(user, messages.shape)
        used = messages != 0
        return sender[used], messages[used]

    def totals(self, users: int, rng: RandomSource) -> NDArray[np.int64]:
        """Return how often each set is sent by all users together."""
        whole, part = divmod(Fraction(self.variables * users, self.parties), 1)
        number = len(self.sets)
        total = np.zeros(number, dtype=np.int64)
        if whole:
            drawn = geometric(self.rate, number * whole, rng).astype(np.int64)
            total += drawn.reshape(number, whole).sum(axis=1)
        if part:
            total += polya(part, self.rate, number, rng).astype(np.int64)
        return total


def sent_together(noise: Flooding, honest: int) -> list[Kind]:
    """Return what ``honest`` users together must send: the central noise, then the floods."""
    kinds = [Kind(((1,), (-1,)), 1, honest, noise.central)]
    for flood in noise.floods:
        variables = math.ceil(flood.shape)
        parties = math.floor(variables * honest / flood.shape)  # h users have the shape or more
        kinds.append(Kind(tuple(map(atom, flood.atoms)), variables, parties, flood.rate))
    return kinds


def flooded(
    p: int, share: Fraction, epsilon: Fraction | float, delta: float, flooding: str
) -> Flooding:
    """Return the noise and the floods of values of p steps: a ``share`` of epsilon is for noise."""
    central = rate_down(share * Fraction(epsilon) / p)
    if flooding == "paper":
        return paper_flooding(p, central, round_down(Fraction(epsilon) - central * p), delta)
    return certified_flooding(p, central, round_down(Fraction(epsilon)), delta)


class Flooded(Baseline):
    """A protocol whose users send a random number of messages, of which no one sees how many."""

    flooding: str
    noise: Flooding

    @abstractmethod
    def _listed(
        self, values: NDArray[np.float64], rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return who sends and what, ordered by user; 0 is no message."""

    def _unseen(self, theorem: str, reports: str = ONE_REPORT) -> Guarantee:
        """Return the guarantee where ``{how}`` of the theorem says how floods are proved."""
        how = "numerical certificate" if self.flooding == "certified" else "checked numerically"
        return self._guaranteed(
            theorem.format(how=how),
            present(self.min_honest, self.n),
            "while the shuffler does not collude with the analyzer",
            "who sends how many messages is not seen",
            random="draws of noise",
            reports=reports,
        )

    @property
    def influence(self) -> float:
        """Without limit: after the shuffler no one sees how many messages one user sent."""
        return math.inf

    @cached_property
    def _kinds(self) -> list[Kind]:
        """What is sent in addition to the values: the central noise and the floods."""
        return sent_together(self.noise, self.min_honest)

    def sent(
        self, x: ArrayLike, rng: RandomSource | None = None
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return all users' messages as a list, which takes less than the array of ``randomize``.

        Parameters
        ----------
        x, rng
            As of ``randomize``.

        Returns
        -------
        senders, messages : (messages,) ndarray of int
            User and message, ordered by user.

        Raises
        ------
        ValueError
            Also if more than 2 10^7 messages are expected.
        """
        return self._limited(self._values(x).astype(np.float64), secure(rng))

    def _too_many(self, users: int) -> bool:
        """Whether this many users are expected to send more messages than are listed."""
        return users * self._sent[0] > MAX_LISTED

    def _limited(
        self, values: NDArray[np.float64], rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        users = values.shape[0]
        if self._too_many(users):
            raise ValueError(
                f"x has {users:,} users who send about {users * self._sent[0]:,.0f} messages, more "
                f"than {MAX_LISTED:,} at a time; use run, which simulates their sum, or fewer users"
            )
        return self._listed(values, rng)

    def report(self, x: Any, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's messages; possibly none."""
        messages = super().report(x, rng)
        return np.asarray(messages[messages != 0])

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return all users' messages, an array with a column for each user, padded with zeros.

        Zeros are no messages. There are as many rows as the most that one user sends: `sent`
        returns a list, which takes less.
        """
        return self._messages(self._values(x).astype(np.float64), secure(rng))

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        return padded(*self._limited(values, rng), values.shape[0])

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Return what the analyzer sees: all messages, mixed, and the number of users."""
        self._arrived(messages, order)
        return counted_view(release(messages[messages != 0], order, secure(rng)), messages.shape[1])


def counted_view(messages: NDArray[Any], users: int) -> View:
    """Return a view of one column of messages, and one of the number of users, which is public."""
    columns = messages, np.array([users])
    for column in columns:
        column.setflags(write=False)
    return View(columns, None)


def counted_column(view: View, what: str) -> tuple[NDArray[Any], int]:
    """Return the messages and the users of a `counted_view`; ValueError for another view."""
    if len(view.columns) != 2 or view.clear is not None or view.columns[1].size != 1:
        raise ValueError(f"view must hold one column of {what}, and the number of users")
    column = view.columns[0]
    if column.dtype.kind not in "iu":
        raise ValueError(f"view must hold integers, got an array of {column.dtype}")
    return column, int(view.columns[1][0])


def padded(sender: NDArray[np.int64], messages: NDArray[Any], users: int) -> NDArray[Any]:
    """Return messages, ordered by sender, as a column for each user, padded with 0."""
    counts = np.bincount(sender, minlength=users)
    most = int(counts.max(initial=1))
    if most * users > MAX_ARRAY:
        raise ValueError(
            f"x has {users:,} users of whom one sends {most:,} messages, too many for an array of "
            f"{MAX_ARRAY:,}; use run or sent"
        )
    place = np.arange(sender.size) - np.repeat(np.cumsum(counts) - counts, counts)
    result = np.zeros((most, users), dtype=messages.dtype)
    result[place, sender] = messages
    return result
