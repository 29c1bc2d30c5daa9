"""The client's part of secure summation: additive shares.

A value x in Z_q becomes shares that are uniform subject to their sum being x modulo q, so that
any proper subset of them is independent of x (IKOS06; BBGN20, Section 5.1).

All shares but the last are uniform and independent of everything: keystreams. The shares of many
users are therefore not kept. A row of them is drawn where it is needed, block of users by block,
each from a source of its own that can be asked again, and only the last row is memory.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.modular import Zq, blocks
from ikos.randomness import RandomSource

USERS = 1 << 18
"""Users whose shares of one row come from one source."""

_LOCKS = 64
_STEP = 1 << 17  # shares that are drawn and taken off at a time, in cache


class Sharing:
    """All users' shares, any block of any row at any time, in the memory of one row.

    ``x`` holds reduced elements, and is overwritten, in time, by the last row; or it is memory
    alone (``blank``), where elements are still to be `put`. `put` and `draw` may be called by
    several threads at once. The last row is complete once all users' elements are there, each block
    of each other row was drawn with ``peel`` exactly once, and then `finish` was called for each
    block.
    """

    def __init__(
        self, x: NDArray[Any], group: Zq, messages: int, rng: RandomSource, *, blank: bool = False
    ) -> None:
        self.last = x
        self.group = group
        self.messages = messages
        self.blocks = tuple(blocks(x.size, USERS))
        self._family = rng.family()
        self._blank = np.full(len(self.blocks), blank)
        self._locks = [threading.Lock() for _ in range(min(_LOCKS, len(self.blocks)))]

    def put(self, first: int, elements: NDArray[Any]) -> None:
        """Add the elements of users to the last row, from user number ``first`` on."""
        done = 0
        while done < elements.size:
            start = first + done
            block = start // USERS
            part = slice(start, min(self.blocks[block].stop, first + elements.size))
            some = elements[done : done + part.stop - start]
            done += some.size
            with self._locks[block % _LOCKS]:
                if self._blank[block] and part == self.blocks[block]:
                    self.last[part] = some
                    self._blank[block] = False
                    continue
                self._begin(block)
                self.group.put_on(self.last[part], some)

    def _begin(self, block: int) -> None:
        """Make a blank block zeros: where it is changed first, so that its memory is found once."""
        if self._blank[block]:
            self.last[self.blocks[block]] = 0
            self._blank[block] = False

    def draw(self, row: int, block: int, out: NDArray[Any], *, peel: bool) -> None:
        """Overwrite ``out``, contiguous, with one block of a row other than the last.

        ``peel`` takes the shares off the last row. Without, they are those that were drawn before,
        or will be.
        """
        # One source for each block of each row, and no two of them alike: no two messages share
        # randomness, whatever draws them and in whatever order.
        source = self._family((row << 64) + block)
        last = self.last[self.blocks[block]]
        for part in blocks(out.size, _STEP):
            source.uniform_into(out[part], self.group)
            if peel:
                with self._locks[block % _LOCKS]:
                    self._begin(block)
                    self.group.take_off(last[part], out[part])

    def finish(self, block: int) -> None:
        """Reduce one block of the last row, when all others were taken off it."""
        self.group.finish(self.last[self.blocks[block]])


def split(
    x: NDArray[Any], group: Zq, messages: int, rng: RandomSource, *, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Return additive shares, (messages, n), of n reduced group elements.

    Row j holds all users' share j; ``out`` where it is given. Each column sums to its user's value
    modulo q, and any ``messages - 1`` rows are uniform and independent of ``x``.
    """
    shares = np.empty((messages, x.size), dtype=group.dtype) if out is None else out
    shares[-1] = x
    sharing = Sharing(shares[-1], group, messages, rng)
    for row in range(messages - 1):
        for number, block in enumerate(sharing.blocks):
            sharing.draw(row, number, shares[row, block], peel=True)
    for number in range(len(sharing.blocks)):
        sharing.finish(number)
    return shares
