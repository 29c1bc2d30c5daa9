"""Additive shares, and their sum, which parallel workers compute in little memory.

A value x in Z_q becomes shares that are uniform subject to their sum being x modulo q, so that any
proper subset of them is independent of x (IKOS06; BBGN20, Section 5.1). All shares but the last are
keystreams. They are not stored: a row of them is drawn where it is needed, one block of users at a
time, each from a source that can be replayed.

Each shuffler releases all of its messages, sorted. `mixed_sum` makes the release in pieces, adds up
each and forgets it. Most pieces are whole columns: drawn once, subtracted from the last share,
sorted in place. Columns that cannot be divided evenly among the threads, or are too long, are first
subtracted from the last share and then drawn again, once per range of values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.concurrency import Interrupted, Progress, cores
from ikos.modular import Zq, blocks
from ikos.randomness import RandomSource

USERS = 1 << 18  # whose shares of one row come from one source
LONGEST = 1 << 27  # about the most messages of a piece: 1 GiB of uint64
AT_ONCE = 1 << 29  # about the most messages that all threads hold together: 4 GiB of uint64
WORTHWHILE = 1 << 21  # messages in all, from which all cores are used

_LOCKS = 64
_STEP = 1 << 17  # shares drawn and subtracted at a time, in cache
_WORTH_CUTTING = 4  # each thread draws a whole column for its range, a third of the column's time


class Sharing:
    """All users' shares, any block of any row at any time, in the memory of one row.

    ``x`` holds reduced elements and is overwritten by the last row. Several threads may call `draw`
    at once. The last row is complete once each block of every other row is drawn with ``peel``
    exactly once, and `finish` is then called for each block.
    """

    def __init__(self, x: NDArray[Any], group: Zq, messages: int, rng: RandomSource) -> None:
        self.last = x
        self.group = group
        self.messages = messages
        self.blocks = tuple(blocks(x.size, USERS))
        self._family = rng.family()
        self._locks = [threading.Lock() for _ in range(min(_LOCKS, len(self.blocks)))]

    def draw(self, row: int, block: int, out: NDArray[Any], *, peel: bool) -> None:
        """Overwrite ``out``, contiguous, with one block of a row other than the last.

        With ``peel``, the shares are subtracted from the last row.
        """
        # One source per block of each row: no two messages share randomness, whatever the threads
        # and their order.
        source = self._family((row << 64) + block)
        last = self.last[self.blocks[block]]
        for part in blocks(out.size, _STEP):
            source.uniform_into(out[part], self.group)
            if peel:
                with self._locks[block % _LOCKS]:
                    self.group.take_off(last[part], out[part])

    def finish(self, block: int) -> None:
        """Reduce one block of the last row after all other rows were subtracted from it."""
        self.group.finish(self.last[self.blocks[block]])


def split(x: NDArray[Any], group: Zq, messages: int, rng: RandomSource) -> NDArray[Any]:
    """Return additive shares, (messages, n), of n reduced group elements.

    Row j holds all users' share j.
    """
    shares = np.empty((messages, x.size), dtype=group.dtype)
    shares[-1] = x
    sharing = Sharing(shares[-1], group, messages, rng)
    for row in range(messages - 1):
        for number, block in enumerate(sharing.blocks):
            sharing.draw(row, number, shares[row, block], peel=True)
    for number in range(len(sharing.blocks)):
        sharing.finish(number)
    return shares


@dataclass(frozen=True)
class SharingScheme:
    """How many ``messages`` each user sends, from which group, and to whom.

    A ``single`` shuffler gets all shuffled messages, or each has its own; if ``clear``, the last
    message bypasses them.
    """

    group: Zq
    messages: int
    single: bool
    clear: bool

    @property
    def shuffled(self) -> int:
        """Shuffled messages of each user."""
        return self.messages - self.clear


@dataclass(frozen=True)
class Partition:
    """A range of values in the output of one shuffler, which gets ``rows`` of the shares.

    It holds the values v with ``v * parts // q == part``. With ``peel``, drawing it subtracts its
    shares from the last row.
    """

    shuffler: int
    rows: range
    part: int
    parts: int
    peel: bool

    def ends(self, q: int) -> tuple[int, int]:
        """Return the smallest and the largest value of the range."""
        return -(-self.part * q // self.parts), -(-(self.part + 1) * q // self.parts) - 1


Receiver = Callable[[Partition, NDArray[Any]], int]
"""The analyzer: takes a piece of a shuffler's output and returns its sum modulo q."""


@dataclass(frozen=True)
class Plan:
    """The order of work: ``whole`` and ``peeled`` together, then ``later``.

    ``whole`` are pieces that need no other work, ``peeled`` the rows and blocks to be subtracted
    from the last row, ``later`` the pieces made from shares drawn again or from the last row.
    """

    whole: list[Partition]
    peeled: list[tuple[int, int]]
    later: list[Partition]


def planned(scheme: SharingScheme, users: int, *, cuts: int, threads: int, longest: int) -> Plan:
    """Return the pieces, of ``longest`` messages at most, of a sum over blocks of users."""
    shuffled = scheme.shuffled
    width = shuffled if scheme.single else 1
    size, last = width * users, None if scheme.clear else shuffled - 1
    firsts = range(0, shuffled, max(1, width))
    # The last row of parallel shufflers is complete only once all others are drawn.
    fitting = len(firsts) - (not scheme.single and not scheme.clear) if size <= longest else 0
    over = fitting % threads
    # each column left over is cut into as many ranges as it has threads, unless that is one
    share = threads // over if over else 1
    whole = fitting if share < _WORTH_CUTTING else fitting - over
    plan = Plan([], [], [])
    for number, first in enumerate(firsts):
        rows = range(first, first + width)
        if number < whole:
            plan.whole.append(Partition(number, rows, 0, 1, True))
            continue
        least = share if number < fitting else threads
        # at most as many as there are values: an empty range would be drawn for nothing
        parts = min(max(least, -(-size // longest)), scheme.group.q)
        plan.later.extend(Partition(number, rows, part, parts, False) for part in range(parts))
        plan.peeled.extend((row, block) for row in rows if row != last for block in range(cuts))
    return plan


_Step = tuple[Callable[[Any], int | None], Any]
"""A step, which returns the sum of a piece that it makes, and the step's argument."""


@dataclass
class _Shufflers:
    """The shufflers at work on one sharing."""

    sharing: Sharing
    receive: Receiver | None
    stop: threading.Event = field(default_factory=threading.Event)
    failed: BaseException | None = None
    local: threading.local = field(default_factory=threading.local)

    def do(self, step: _Step) -> int | None:
        """Do one step, perhaps on a thread; if it fails, the others stop."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        try:
            return step[0](step[1])
        except BaseException as error:
            if not self.stop.is_set():
                self.failed = error  # not the error of a step that stops because of it
                self.stop.set()
            raise

    def make(self, piece: Partition) -> int:
        """Make a piece of a shuffler's output, sorted, and add it up."""
        messages = self._whole(piece) if piece.parts == 1 else self._range(piece)
        messages.sort()
        if self.receive is None:
            return self.sharing.group.sum(messages)
        return self.receive(piece, messages)

    def peel(self, where: tuple[int, int]) -> None:
        """Subtract one block of a row from the last row."""
        self._drawn(*where, peel=True)

    def _buffer(self, size: int, kept: int = 0) -> NDArray[Any]:
        """Return a thread's memory for at least ``size`` messages, keeping the first ``kept``."""
        held: NDArray[Any] | None = getattr(self.local, "buffer", None)
        if held is None or held.size < size:
            more = 2 * held.size if held is not None and kept else 0  # seldom twice
            larger = np.empty(max(size, more), dtype=self.sharing.group.dtype)
            if held is not None:
                larger[:kept] = held[:kept]
            held = self.local.buffer = larger
        return held

    def _drawn(self, row: int, block: int, *, peel: bool) -> NDArray[Any]:
        if self.stop.is_set():
            raise KeyboardInterrupt
        here = self.sharing.blocks[block]
        if row == self.sharing.messages - 1:
            return self.sharing.last[here]
        out = np.empty(here.stop - here.start, dtype=self.sharing.group.dtype)
        self.sharing.draw(row, block, out, peel=peel)
        return out

    def _whole(self, piece: Partition) -> NDArray[Any]:
        """Return all messages of some rows, possibly including the last row."""
        users, last = self.sharing.last.size, self.sharing.messages - 1
        if piece.rows[0] == last:
            return self.sharing.last
        size, cuts = len(piece.rows) * users, self.sharing.blocks
        messages = self._buffer(size)[:size].reshape(len(piece.rows), users)
        for place, row in enumerate(piece.rows):
            if row == last:
                for number in range(len(cuts)):
                    self.sharing.finish(number)  # all others were drawn before
                messages[place] = self.sharing.last
                continue
            for step in range(len(cuts)):
                if self.stop.is_set():
                    raise KeyboardInterrupt
                # each row begins elsewhere, so that threads rarely wait for the same users
                number = (step + row * len(cuts) // self.sharing.messages) % len(cuts)
                self.sharing.draw(row, number, messages[place, cuts[number]], peel=piece.peel)
        return messages.reshape(-1)

    def _range(self, piece: Partition) -> NDArray[Any]:
        """Return the messages of some rows that are in a range of values."""
        q, last = self.sharing.group.q, self.sharing.messages - 1
        low, high = piece.ends(q)
        count = 0
        for row in piece.rows:
            for number in range(len(self.sharing.blocks)):
                drawn = self._drawn(row, number, peel=False)
                found = _within(drawn.copy() if row == last else drawn, low, high, q)
                # about one part of a block, unless a last row is not random
                expected = len(piece.rows) * self.sharing.last.size // piece.parts + drawn.size
                messages = self._buffer(max(expected, count + found.size), count)
                messages[count : count + found.size] = found
                count += found.size
        return self._buffer(0)[:count]


def _within(drawn: NDArray[Any], low: int, high: int, q: int) -> NDArray[Any]:
    """Return the elements from ``low`` to ``high``; all elements are reordered.

    Selection as in quicksort, by the rank, which is counted first: five times as fast as a mask.
    """
    if low > 0 and (rank := int(np.count_nonzero(drawn < low))) > 0:
        if rank < drawn.size:
            drawn.partition(rank)
        drawn = drawn[rank:]
    if high < q - 1 and (rank := int(np.count_nonzero(drawn <= high))) < drawn.size:
        drawn.partition(rank)
        drawn = drawn[:rank]
    return drawn


def mixed_sum(
    elements: NDArray[Any],
    scheme: SharingScheme,
    rng: RandomSource,
    *,
    encode: Iterable[Callable[[NDArray[Any]], None]] = (),
    threads: int | None = None,
    progress: Progress | None = None,
    receive: Receiver | None = None,
    longest: int = LONGEST,
) -> int:
    """Share all users' elements, shuffle the shares and return their sum modulo q.

    ``elements`` are reduced, once each of ``encode`` has written its part of them, and overwritten.
    ``receive`` is what the analyzer does with a piece; by default it adds it up. Ctrl-C leaves no
    partial sum, as every partial sum is uniform.
    """
    sharing = Sharing(elements, scheme.group, scheme.messages, rng)
    if threads is None:
        threads = cores() if elements.size * scheme.messages >= WORTHWHILE else 1
    most = min(longest, max(1, AT_ONCE // threads))
    cuts = len(sharing.blocks)
    plan = planned(scheme, elements.size, cuts=cuts, threads=threads, longest=most)
    shufflers = _Shufflers(sharing, receive)
    wanted = len(plan.whole) + len(plan.later)
    stages: tuple[Iterable[_Step], ...] = (
        zip(encode, repeat(elements), strict=False),
        chain(
            zip(repeat(shufflers.make), plan.whole, strict=False),
            zip(repeat(shufflers.peel), plan.peeled, strict=False),
        ),
        zip(repeat(sharing.finish), range(cuts), strict=False),
        zip(repeat(shufflers.make), plan.later, strict=False),
    )
    total = done = 0
    try:
        with nullcontext() if threads == 1 else ThreadPoolExecutor(threads) as executor:
            try:
                for stage in stages:
                    do = map if executor is None else executor.map
                    for found in do(shufflers.do, stage):
                        if found is None:
                            continue
                        total += found
                        done += 1
                        if progress is not None:
                            progress(done, wanted)
                if scheme.clear:
                    total += scheme.group.sum(elements)
            except BaseException as error:
                shufflers.stop.set()  # before the executor waits for its threads
                raise shufflers.failed or error from None
    except KeyboardInterrupt:
        raise Interrupted(None, done, wanted, "pieces of the shufflers' output") from None
    return total % scheme.group.q


def mixed_sums(
    elements: NDArray[Any], scheme: SharingScheme, rng: RandomSource, stop: threading.Event
) -> list[int]:
    """Do as `mixed_sum` for several coordinates, (coordinates, users), on one thread.

    All of them are shared together. Returns the sum of each. ``stop`` interrupts it.
    """
    group, last = scheme.group, scheme.messages - 1
    sharing = Sharing(elements.reshape(-1), group, scheme.messages, rng)
    width = scheme.shuffled if scheme.single else 1
    received = np.empty((width, *elements.shape), dtype=group.dtype)
    sums: list[list[int]] = []
    for first in range(0, scheme.shuffled, max(1, width)):
        for row, out in zip(range(first, first + width), received, strict=True):
            if stop.is_set():
                raise KeyboardInterrupt
            if row == last:
                group.finish(sharing.last)
                out[:] = elements
                continue
            for number, block in enumerate(sharing.blocks):
                sharing.draw(row, number, out.reshape(-1)[block], peel=True)
        columns = received.swapaxes(0, 1).reshape(len(elements), -1)
        columns.sort(axis=1)
        sums.append(group.sums(columns))
    if scheme.clear:
        group.finish(sharing.last)
        sums.append(group.sums(elements))
    return [sum(one) % group.q for one in zip(*sums, strict=True)]
