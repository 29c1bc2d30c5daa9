"""Additive shares: messages that add up to a value.

A value x in Z_q becomes shares that are uniform subject to their sum being x modulo q, so that any
proper subset of them is independent of x (IKOS06; BBGN20, Section 5.1). All shares but the last are
keystreams. They need not be stored: a row of them can be drawn where it is needed, one block of
users at a time, each from a source that can be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.primitives.modular import Zq, blocks
from ikos.primitives.randomness import RandomSource

USERS_PER_SOURCE = 1 << 18  # whose shares of one row come from one source

_BYTES_PER_STEP = 1 << 20  # bytes of shares drawn and subtracted at a time, in cache


def users_in_blocks(users: int) -> tuple[slice, ...]:
    """Return the blocks of users whose shares of one row come from one source each."""
    return tuple(blocks(users, USERS_PER_SOURCE))


class Sharing:
    """All users' shares, any block of any row at any time, in the memory of one row.

    ``x`` holds reduced elements and is overwritten by the last row. Several threads may call `draw`
    at once, for different blocks of users. The last row is complete once each block of every other
    row has been drawn with ``subtract_from_last`` exactly once; apply `Zq.reduce_in_place` to it
    then.
    """

    def __init__(self, x: NDArray[Any], group: Zq, rng: RandomSource) -> None:
        self.last = x
        self.group = group
        self.blocks = users_in_blocks(x.size)
        self._family = rng.family()

    def draw(self, row: int, block: int, out: NDArray[Any], *, subtract_from_last: bool) -> None:
        """Overwrite ``out``, contiguous, with one block of a row other than the last.

        With ``subtract_from_last``, the shares are subtracted from the last row.
        """
        # One source per block of each row: no two messages share randomness, whatever the threads
        # and their order.
        source = self._family((row << 64) + block)
        for part in blocks(out.size, _BYTES_PER_STEP // out.dtype.itemsize):
            source.uniform_into(out[part], self.group)
            if subtract_from_last:
                self.group.subtract_lazily(self.last[self.blocks[block]][part], out[part])


def split(x: NDArray[Any], group: Zq, messages: int, rng: RandomSource) -> NDArray[Any]:
    """Return additive shares, (messages, n), of n reduced group elements.

    Row j holds all users' share j.
    """
    shares = np.empty((messages, x.size), dtype=group.dtype)
    shares[-1] = x
    sharing = Sharing(shares[-1], group, rng)
    for row in range(messages - 1):
        for number, block in enumerate(sharing.blocks):
            sharing.draw(row, number, shares[row, block], subtract_from_last=True)
    group.reduce_in_place(shares[-1])
    return shares


@dataclass(frozen=True)
class SharingScheme:
    """The number of ``messages`` per user, their group, and their recipients.

    A ``single`` shuffler gets all shuffled messages, or each has its own; if ``clear``, the last
    message bypasses them.
    """

    group: Zq
    messages: int
    single: bool
    clear: bool

    @property
    def shuffled(self) -> int:
        """Shuffled messages per user."""
        return self.messages - self.clear
