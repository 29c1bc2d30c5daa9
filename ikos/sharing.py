"""Additive shares, and their sum, which parallel workers compute in little memory.

A value x in Z_q becomes shares that are uniform subject to their sum being x modulo q, so that any
proper subset of them is independent of x (IKOS06; BBGN20, Section 5.1). All shares but the last are
keystreams. They are not stored: a row of them is drawn where it is needed, one block of users at a
time, each from a source that can be replayed.

Each shuffler releases all of its messages, sorted. `mixed_sum` makes the release in pieces, adds up
each and forgets it. Most pieces are whole columns: drawn once, subtracted from the last share,
sorted in place. Columns that cannot be divided evenly among the threads are drawn by all of them,
and each thread sorts a range of the values. Those that are too long are first subtracted from the
last share and then drawn again, once per range.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain, product, repeat
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
_STEP = 1 << 20  # bytes of shares drawn and subtracted at a time, in cache


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
        for part in blocks(out.size, _STEP // out.dtype.itemsize):
            source.uniform_into(out[part], self.group)
            if peel:
                with self._locks[block % _LOCKS]:
                    self.group.take_off(last[part], out[part])

    def finish(self, block: int) -> None:
        """Reduce one block of the last row after all other rows were subtracted from it."""
        self.group.finish(self.last[self.blocks[block]])


def split(
    x: NDArray[Any], group: Zq, messages: int, rng: RandomSource, *, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Return additive shares, (messages, n), of n reduced group elements.

    Row j holds all users' share j. The rows are written to ``out`` if it is given.
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
    """The order of work: ``whole`` and ``peeled``, then ``together``, and then ``later``.

    ``whole`` are pieces that need no other work, ``peeled`` the rows and blocks to be subtracted
    from the last row. ``together`` has columns, as their ranges, that all threads make one after
    the other. ``later`` are pieces made from shares drawn again or from the last row.
    """

    whole: list[Partition]
    peeled: list[tuple[int, int]]
    together: list[list[Partition]]
    later: list[Partition]


def planned(scheme: SharingScheme, users: int, *, cuts: int, threads: int, longest: int) -> Plan:
    """Return the pieces, of ``longest`` messages at most, of a sum over blocks of users."""
    shuffled = scheme.shuffled
    width = shuffled if scheme.single else 1
    size, last = width * users, None if scheme.clear else shuffled - 1
    firsts = range(0, shuffled, max(1, width))
    fits = size <= longest
    # The last row of parallel shufflers is complete only once all others are drawn.
    alone = len(firsts) - (not scheme.single and not scheme.clear) if fits else 0
    whole = alone - alone % threads
    # at most as many as there are values or messages: no range is drawn for nothing
    parts = min(max(threads, -(-size // longest)), scheme.group.q, max(size, 1))
    plan = Plan([], [], [], [])
    for number, first in enumerate(firsts):
        rows = range(first, first + width)
        if number < whole:
            plan.whole.append(Partition(number, rows, 0, 1, True))
            continue
        ranges = [Partition(number, rows, part, parts, False) for part in range(parts)]
        if fits and parts > 1:
            plan.together.append(ranges)
            continue
        plan.later.extend(ranges)
        plan.peeled.extend((row, block) for row in rows if row != last for block in range(cuts))
    return plan


_Step = tuple[Callable[[Any], int | None], Any]
"""A step, which returns the sum of a piece that it makes, and the step's argument."""


@dataclass
class _Shufflers:
    """The shufflers at work on one sharing."""

    sharing: Sharing
    scheme: SharingScheme
    receive: Receiver | None
    stop: threading.Event = field(default_factory=threading.Event)
    failed: BaseException | None = None
    free: list[NDArray[Any]] = field(default_factory=list)
    clear: list[int] = field(default_factory=list)

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

    def stages(self, plan: Plan) -> Iterator[Iterable[_Step]]:
        """Yield what may be done at once, and which stages come one after the other."""
        last, cuts = self.sharing.messages - 1, range(len(self.sharing.blocks))
        finish = [(self.finish, block) for block in cuts]
        yield chain(
            zip(repeat(self.make), plan.whole, strict=False),
            zip(repeat(self.peel), plan.peeled, strict=False),
        )
        for pieces in plan.together:
            rows = pieces[0].rows
            column = _Column(self, pieces)
            yield [(column.draw, where) for where in product(rows, cuts) if where[0] != last]
            if last in rows:
                yield finish
                finish = []
                yield [(column.draw, (last, block)) for block in cuts]
            column.gather()
            yield [(column.make, piece) for piece in pieces]
            column.forget()
        yield finish
        yield zip(repeat(self.make), plan.later, strict=False)

    def make(self, piece: Partition) -> int:
        """Make a piece of a shuffler's output, and add it up."""
        messages, held = self._whole(piece) if piece.parts == 1 else self._range(piece)
        total = self.released(piece, messages)
        self.free.append(held)
        return total

    def released(self, piece: Partition, messages: NDArray[Any]) -> int:
        """Sort a piece of a shuffler's output, and add it up."""
        messages.sort()
        if self.receive is None:
            return self.sharing.group.sum(messages)
        return self.receive(piece, messages)

    def peel(self, where: tuple[int, int]) -> None:
        """Subtract one block of a row from the last row."""
        row, block = where
        here = self.sharing.blocks[block]
        out = np.empty(here.stop - here.start, dtype=self.sharing.group.dtype)
        self.draw(row, block, out, peel=True)

    def finish(self, block: int) -> None:
        """Reduce one block of the last row, once complete, and add up its clear shares."""
        self.sharing.finish(block)
        if self.scheme.clear:
            self.clear.append(self.sharing.group.sum(self.sharing.last[self.sharing.blocks[block]]))

    def memory(self, size: int) -> NDArray[Any]:
        """Return memory for ``size`` messages, if possible that of a piece made before."""
        with suppress(IndexError):
            if (held := self.free.pop()).size >= size:
                return held
        return np.empty(size, dtype=self.sharing.group.dtype)

    def draw(self, row: int, block: int, out: NDArray[Any], *, peel: bool) -> None:
        """Overwrite ``out`` with one block of a row, unless another thread failed."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        if row == self.sharing.messages - 1:
            out[:] = self.sharing.last[self.sharing.blocks[block]]
        else:
            self.sharing.draw(row, block, out, peel=peel)

    def _whole(self, piece: Partition) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return all messages of some rows, possibly including the last row, and their memory."""
        users, last = self.sharing.last.size, self.sharing.messages - 1
        if piece.rows[0] == last:
            return self.sharing.last, self.sharing.last[:0]
        size, cuts = len(piece.rows) * users, self.sharing.blocks
        held = self.memory(size)
        messages = held[:size].reshape(len(piece.rows), users)
        for place, row in enumerate(piece.rows):
            if row == last:
                for number in range(len(cuts)):
                    self.sharing.finish(number)  # all others were drawn before
            for step in range(len(cuts)):
                # each row begins elsewhere, so that threads rarely wait for the same users
                number = (step + row * len(cuts) // self.sharing.messages) % len(cuts)
                self.draw(row, number, messages[place, cuts[number]], peel=piece.peel)
        return messages.reshape(-1), held

    def _range(self, piece: Partition) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the messages of some rows that are in a range of values, and their memory."""
        q, blocks = self.sharing.group.q, self.sharing.blocks
        low, high = piece.ends(q)
        longest = max((block.stop - block.start for block in blocks), default=0)
        drawn = np.empty(longest, dtype=self.sharing.group.dtype)
        # about one part of a block, unless a last row is not random
        held = self.memory(len(piece.rows) * self.sharing.last.size // piece.parts + longest)
        count = 0
        for row, (number, block) in product(piece.rows, enumerate(blocks)):
            some = drawn[: block.stop - block.start]
            self.draw(row, number, some, peel=False)
            found = _within(some, low, high, q)
            if held.size < count + found.size:
                held = np.concatenate((held[:count], np.empty(count + longest, held.dtype)))
            held[count : count + found.size] = found
            count += found.size
        return held[:count], held


class _Column:
    """One shuffler's messages, which all threads draw, and of which each makes a range of values.

    Blocks of users are cut into ranges as they are drawn, and the cuts of each range brought
    together.
    """

    def __init__(self, shufflers: _Shufflers, pieces: list[Partition]) -> None:
        self.shufflers, self.rows = shufflers, pieces[0].rows
        self.lowest = [piece.ends(shufflers.sharing.group.q)[0] for piece in pieces[1:]]
        self.users = shufflers.sharing.last.size
        self.drawn = shufflers.memory(len(self.rows) * self.users)
        self.cuts: dict[tuple[int, int], list[int]] = {}

    def draw(self, where: tuple[int, int]) -> None:
        """Draw one block of a row, and put its ranges of values one after the other."""
        row, block = where
        here = self.shufflers.sharing.blocks[block]
        first = (row - self.rows[0]) * self.users
        out = self.drawn[first + here.start : first + here.stop]
        self.shufflers.draw(row, block, out, peel=True)
        ranks = [int(np.count_nonzero(out < low)) for low in self.lowest]
        if inner := [rank for rank in ranks if 0 < rank < out.size]:
            out.partition(inner)
        begin = first + here.start
        self.cuts[where] = [begin, *(begin + rank for rank in ranks), first + here.stop]

    def gather(self) -> None:
        """Find where each range will be, once all blocks are drawn."""
        sizes = np.diff(np.array(list(self.cuts.values())), axis=1).sum(axis=0)
        self.ends = [0, *np.cumsum(sizes).tolist()]
        self.ranges = self.shufflers.memory(self.ends[-1])

    def make(self, piece: Partition) -> int:
        """Make a range of the output, and add it up."""
        messages = self.ranges[self.ends[piece.part] : self.ends[piece.part + 1]]
        cuts = (self.drawn[ends[piece.part] : ends[piece.part + 1]] for ends in self.cuts.values())
        np.concatenate(list(cuts), out=messages)
        return self.shufflers.released(piece, messages)

    def forget(self) -> None:
        """Give the memory back."""
        self.shufflers.free += [self.drawn, self.ranges]


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
    shufflers = _Shufflers(sharing, scheme, receive)
    wanted = len(plan.whole) + sum(map(len, plan.together)) + len(plan.later)
    encoding: Iterable[_Step] = zip(encode, repeat(elements), strict=False)
    total = done = 0
    try:
        with nullcontext() if threads == 1 else ThreadPoolExecutor(threads) as executor:
            try:
                for stage in chain([encoding], shufflers.stages(plan)):
                    do = map if executor is None else executor.map
                    for found in do(shufflers.do, stage):
                        if found is None:
                            continue
                        total += found
                        done += 1
                        if progress is not None:
                            progress(done, wanted)
            except BaseException as error:
                shufflers.stop.set()  # before the executor waits for its threads
                raise shufflers.failed or error from None
    except KeyboardInterrupt:
        raise Interrupted(None, done, wanted, "pieces of the shufflers' output") from None
    return (total + sum(shufflers.clear)) % scheme.group.q
