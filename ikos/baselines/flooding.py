"""Messages that users send beside their values: noise in single units, and floods that cancel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.accounting.flooding_gkmps21 import Flooding, atom
from ikos.noise import geometric, polya, polya_jumps
from ikos.randomness import RandomSource
from ikos.shuffling import View

MAX_ARRAY = 1 << 28
"""Most entries of an array of messages, padded to the most that one user sends."""


@dataclass(frozen=True)
class Kind:
    """Sets of messages that are sent together, each so often: Polya(variables / parties).

    Attributes
    ----------
    sets : tuple of tuple of int
        The messages of each set.
    variables, parties : int
        So many users together send each set a Polya(variables, e^-rate) number of times.
    rate : Fraction
        Of the distribution.
    """

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
            padded * len(self.sets),
            self.rate,
            variables=self.variables,
            parties=self.parties,
            rng=rng,
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


def counted_view(messages: NDArray[Any], users: int) -> View:
    """Return a view of one column of messages, beside the number of users, which is public."""
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
    """Return messages, ordered by sender, as an array with a column for each user.

    Zeros are padding. As many rows as the most that a user sends, and at least one.
    """
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
