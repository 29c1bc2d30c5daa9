"""The sum of all users' shares, which parallel workers compute in little memory.

Each shuffler releases all of its messages, sorted. `mixed_sum` makes the release in pieces, adds up
each and forgets it. Most pieces are whole columns, each made by one thread: drawn once, subtracted
from the last share, sorted in place. Columns that cannot be divided evenly among the threads, or
are too long for that, are made by all threads, each of which sorts a range of the values. Their
shares are drawn and subtracted from the last share at the beginning. As many of them as there is
room for are then put into their ranges at once; the others are drawn again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, product, repeat
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.concurrency import Interrupted, Progress, Scratch, cores
from ikos.modular import blocks
from ikos.randomness import RandomSource
from ikos.sharing import Sharing, SharingScheme, users_in_blocks

AT_ONCE = 1 << 27  # about the most messages held at once: 1 GiB of uint64
WORTHWHILE = 1 << 21  # messages in all, from which all cores are used


@dataclass(frozen=True)
class Partition:
    """A range of values in the output of one shuffler, which gets ``rows`` of the shares.

    It holds the values v with ``v * parts // q == part``.
    """

    shuffler: int
    rows: range
    part: int
    parts: int

    def ends(self, q: int) -> tuple[int, int]:
        """Return the smallest and the largest value of the range."""
        return -(-self.part * q // self.parts), -(-(self.part + 1) * q // self.parts) - 1


Receiver = Callable[[Partition, NDArray[Any]], int]
"""The analyzer: takes a piece of a shuffler's output and returns its sum modulo q."""


@dataclass(frozen=True)
class Encoder:
    """The elements of so many users, computed a block at a time.

    ``write`` takes a block's number, which users it has, and memory for their elements.
    """

    users: int
    write: Callable[[int, slice, NDArray[Any]], None]


@dataclass(frozen=True)
class Plan:
    """The pieces of a sum.

    ``whole`` are columns that one thread each makes. ``together`` has groups of ranges of the
    others, of one column each: all threads draw a group, and then sort a range each. The first
    ``early`` groups are whole columns, for which there is room while shares are made.
    """

    whole: list[Partition]
    together: list[list[Partition]]
    early: int


def planned(scheme: SharingScheme, users: int, *, threads: int, most: int) -> Plan:
    """Return the pieces of a sum of which at most about ``most`` messages are held at once.

    Those of the last row do not count where it is to be kept in any case.
    """
    shuffled = scheme.shuffled
    width = shuffled if scheme.single else 1
    firsts, size = range(0, shuffled, max(1, width)), width * users
    # The last row is complete only once all others are drawn, also for what is drawn early.
    alone = len(firsts) - (not scheme.clear) if threads * size + users * scheme.clear <= most else 0
    whole = alone - alone % threads
    # at most as many as there are values or messages: no range is drawn for nothing
    parts = min(threads * -(-size // most), scheme.group.q, size)
    early = min(len(firsts) - whole - (not scheme.clear), most // max(size, 1))
    plan = Plan([], [], early)
    for number, first in enumerate(firsts):
        rows = range(first, first + width)
        if number < whole:
            plan.whole.append(Partition(number, rows, 0, 1))
            continue
        ranges = [Partition(number, rows, part, parts) for part in range(parts)]
        plan.together.extend(ranges[part] for part in blocks(parts, threads))
    return plan


_Step = tuple[Callable[[Any], int | None], Any]
"""A step, which returns the sum of a piece that it makes, and the step's argument."""


@dataclass
class _Mixing:
    """The clients, the shufflers and the analyzer of one sum at work."""

    sharing: Sharing
    scheme: SharingScheme
    plan: Plan
    blocks: tuple[slice, ...]
    encoder: Encoder | None
    receive: Receiver | None
    scratch: Scratch = field(default_factory=Scratch)
    stop: threading.Event = field(default_factory=threading.Event)
    failed: BaseException | None = None
    free: list[NDArray[Any]] = field(default_factory=list)
    clear: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        firsts = {group[0].shuffler: group[0] for group in self.plan.together}
        self.columns = {number: _CutColumn(self, piece) for number, piece in firsts.items()}
        self.last = self.scheme.messages - 1

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

    def stages(self) -> Iterator[Iterable[_Step]]:
        """Yield what may be done at once, and which stages come one after the other."""
        every = range(len(self.blocks))
        early, late = self.plan.together[: self.plan.early], self.plan.together[self.plan.early :]
        for group in early:
            self.columns[group[0].shuffler].begin(group)
        yield zip(repeat(self.share), every, strict=False)
        for group in early:
            yield from self.made(group)
        yield zip(repeat(self.whole), self.plan.whole, strict=False)
        if self.plan.whole:
            yield zip(repeat(self.finish), every, strict=False)
        for group in late:
            column = self.columns[group[0].shuffler]
            column.begin(group)
            yield zip(repeat(column.draw), product(column.rows, every), strict=False)
            yield from self.made(group)

    def made(self, group: list[Partition]) -> Iterator[Iterable[_Step]]:
        """Yield what makes the ranges of a group, all of whose messages are there."""
        column = self.columns[group[0].shuffler]
        yield zip(repeat(column.make), group, strict=False)
        self.free.append(column.end())

    def share(self, block: int) -> None:
        """Encode a block of users, and take off what is not taken off with whole columns."""
        last, drawn = self._last(block), self.memory("drawn", block)
        if self.encoder is not None:
            self.encoder.write(block, self.blocks[block], last)
        for column in self.columns.values():
            for row in column.rows:
                if row != self.last:
                    self.draw(row, block, drawn)
                    self.sharing.group.take_off(last, drawn)
                    column.put(drawn)
        if not self.plan.whole:
            self.finish(block, last)

    def finish(self, block: int, last: NDArray[Any] | None = None) -> None:
        """Reduce a block of the last row, which is complete, and add up its shares."""
        last = self._last(block) if last is None else last
        self.sharing.group.finish(last)
        if self.scheme.clear:
            self.clear.append(self.sharing.group.sum(last))

    def whole(self, piece: Partition) -> int:
        """Make all of a shuffler's output, and add it up."""
        size = len(piece.rows) * self.blocks[-1].stop
        memory = self.take(size)
        messages = memory[:size].reshape(len(piece.rows), -1)
        for place, row in enumerate(piece.rows):
            for step in range(len(self.blocks)):
                # each row begins elsewhere, so that threads rarely wait for the same users
                block = (step + row * len(self.blocks) // self.scheme.messages) % len(self.blocks)
                self.draw(row, block, messages[place, self.blocks[block]], peel=True)
        total = self.release(piece, messages.reshape(-1))
        self.free.append(memory)
        return total

    def release(self, piece: Partition, messages: NDArray[Any]) -> int:
        """Sort a piece of a shuffler's output, and add it up."""
        messages.sort()
        if self.receive is None:
            return self.sharing.group.sum(messages)
        return self.receive(piece, messages)

    def draw(self, row: int, block: int, out: NDArray[Any], *, peel: bool = False) -> None:
        """Overwrite ``out`` with one block of a row, unless another thread failed."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        if row == self.last:
            out[:] = self._last(block)
        else:
            self.sharing.draw(row, block, out, peel=peel)

    def take(self, size: int) -> NDArray[Any]:
        """Return memory for ``size`` messages, if possible that of a piece made before."""
        with suppress(IndexError):
            if (memory := self.free.pop()).size >= size:
                return memory
        return np.empty(size, dtype=self.sharing.group.dtype)

    def _last(self, block: int) -> NDArray[Any]:
        """Return a block of the last row, or memory for it if the row is not kept."""
        if self.sharing.last.size:
            return self.sharing.last[self.blocks[block]]
        return self.memory("last", block)

    def memory(self, name: str, block: int) -> NDArray[Any]:
        """Return memory of this thread for a block."""
        here = self.blocks[block]
        return self.scratch(name, here.stop - here.start, self.sharing.group.dtype)


class _CutColumn:
    """One shuffler's messages, of which a group of ranges of values is held at a time.

    Messages are uniform: a range hardly ever has more of them than there is room for in ``memory``,
    and what is too much goes ``beyond``.
    """

    def __init__(self, mixing: _Mixing, piece: Partition) -> None:
        self.mixing, self.rows = mixing, piece.rows
        self.lock = threading.Lock()
        self.group: list[Partition] = []

    def begin(self, group: list[Partition]) -> None:
        """Make room for the messages of a group of ranges."""
        q, size = self.mixing.scheme.group.q, len(self.rows) * self.mixing.blocks[-1].stop
        ends = [piece.ends(q) for piece in group]
        expected = [size * (high - low + 1) // q for low, high in ends]
        room = [some + 8 * isqrt(some) + 64 for some in expected]
        self.group = group
        self.bounds = [*(low for low, _ in ends), ends[-1][1] + 1]
        self.starts = [0, *accumulate(room)]
        self.stops = self.starts[:-1]
        self.beyond: list[list[NDArray[Any]]] = [[] for _ in group]
        self.memory = self.mixing.take(self.starts[-1])

    def end(self) -> NDArray[Any]:
        """Give up the memory, and return it."""
        memory, self.group, self.beyond = self.memory, [], []
        del self.memory
        return memory

    def draw(self, where: tuple[int, int]) -> None:
        """Draw one block of a row, and put its messages into their ranges."""
        row, block = where
        drawn = self.mixing.memory("drawn", block)
        self.mixing.draw(row, block, drawn)
        self.put(drawn)

    def put(self, messages: NDArray[Any]) -> None:
        """Put messages, which are reordered, into the ranges at hand."""
        if not self.group:
            return
        size, q = messages.size, self.mixing.scheme.group.q
        ranks = [
            int(np.count_nonzero(messages < bound)) if 0 < bound < q else size * (bound == q)
            for bound in self.bounds
        ]
        _cut(messages, sorted({rank for rank in ranks if 0 < rank < size}))
        for place, (low, high) in enumerate(pairwise(ranks)):
            with self.lock:
                start, stop = self.stops[place], self.stops[place] + high - low
                if stop > self.starts[place + 1]:
                    self.beyond[place].append(messages[low:high].copy())
                    continue
                self.stops[place] = stop
            self.memory[start:stop] = messages[low:high]

    def make(self, piece: Partition) -> int:
        """Make a range of the output, and add it up."""
        place = piece.part - self.group[0].part
        messages = self.memory[self.starts[place] : self.stops[place]]
        if self.beyond[place]:
            messages = np.concatenate((messages, *self.beyond[place]))
        return self.mixing.release(piece, messages)


def _cut(a: NDArray[Any], ranks: list[int]) -> None:
    """Reorder, so that no value is below one before these ranks; one at a time is the fastest."""
    if ranks:
        middle = len(ranks) // 2
        rank = ranks[middle]
        a.partition(rank)
        _cut(a[:rank], ranks[:middle])
        _cut(a[rank:], [other - rank for other in ranks[middle + 1 :]])


def mixed_sum(
    elements: NDArray[Any] | Encoder,
    scheme: SharingScheme,
    rng: RandomSource,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    receive: Receiver | None = None,
    most: int = AT_ONCE,
) -> int:
    """Share all users' elements, shuffle the shares and return their sum modulo q.

    ``elements`` are reduced; an array is overwritten. ``receive`` is what the analyzer does with a
    piece; by default it adds it up. Ctrl-C leaves no partial sum, as every partial sum is uniform.
    """
    encoder = elements if isinstance(elements, Encoder) else None
    users = elements.users if isinstance(elements, Encoder) else elements.size
    if threads is None:
        threads = cores() if users * scheme.messages >= WORTHWHILE else 1
    plan = planned(scheme, users, threads=threads, most=most)
    if isinstance(elements, Encoder):
        # the last row is kept only where shares are taken off it later, or it is released
        kept = plan.whole or not scheme.clear
        elements = np.empty(users if kept else 0, dtype=scheme.group.dtype)
    sharing = Sharing(elements, scheme.group, rng)
    work = _Mixing(sharing, scheme, plan, users_in_blocks(users), encoder, receive)
    wanted = len(plan.whole) + sum(map(len, plan.together))
    total = done = 0
    try:
        with nullcontext() if threads == 1 else ThreadPoolExecutor(threads) as executor:
            try:
                for stage in work.stages():
                    do = map if executor is None else executor.map
                    for found in do(work.do, stage):
                        if found is None:
                            continue
                        total += found
                        done += 1
                        if progress is not None:
                            progress(done, wanted)
            except BaseException as error:
                work.stop.set()  # before the executor waits for its threads
                raise work.failed or error from None
    except KeyboardInterrupt:
        raise Interrupted(None, done, wanted, "pieces of the shufflers' output") from None
    finally:
        work.columns.clear()  # they refer to each other, and would keep all memory for a while
    return (total + sum(work.clear)) % scheme.group.q


def mixed_sums(
    elements: NDArray[Any], scheme: SharingScheme, rng: RandomSource, stop: threading.Event
) -> list[int]:
    """Do as `mixed_sum` for several coordinates, (coordinates, users), on one thread.

    All of them are shared together. Returns the sum of each. ``stop`` interrupts it.
    """
    group, last = scheme.group, scheme.messages - 1
    sharing = Sharing(elements.reshape(-1), group, rng)
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
