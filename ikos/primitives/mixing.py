"""The sum of all users' shares, which parallel workers compute in little memory.

Each shuffler releases all of its messages, sorted. `mixed_sum` makes the release in pieces, adds up
each and forgets it. All threads work on one column of messages at a time: each draws some users'
shares, subtracts them from their last shares, and puts them into ranges of values; then each thread
sorts a range and adds it up. If memory cannot hold all ranges at once, the column is drawn again
for the next ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, repeat
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.primitives.concurrency import Interrupted, Progress, Scratch, cores
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource
from ikos.primitives.sharing import Sharing, SharingScheme, users_in_blocks

MESSAGES_IN_MEMORY = 1 << 27  # about the largest number of messages held at once: 1 GiB of uint64
MESSAGES_FOR_ALL_CORES = 1 << 21  # total number of messages from which all cores are used
_COLUMN_FOR_THREADS = 1 << 16  # messages of a shuffler: with fewer, threads take longer


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
    """The elements of users, computed a block at a time.

    ``write`` takes a block's number, the slice of its users, and memory for their elements.
    """

    users: int
    write: Callable[[int, slice, NDArray[Any]], None]


@dataclass(frozen=True)
class Plan:
    """The pieces of a sum: groups of ranges of one column that are in memory at once.

    If ``kept``, the last row is in memory, and shares are subtracted from it as the first group of
    each column is drawn. Otherwise all are drawn and subtracted before.
    """

    groups: list[list[Partition]]
    kept: bool


def planned(scheme: SharingScheme, users: int, *, threads: int, most: int) -> Plan:
    """Return the pieces of a sum such that at most about ``most`` messages are held at once.

    Those of the last row do not count if it is to be released.
    """
    shuffled = scheme.shuffled
    width = shuffled if scheme.single else 1
    size = width * users
    kept = shuffled > 0 and (not scheme.clear or size + users <= most)
    # at most as many as there are values or messages: no range is drawn for nothing
    parts = min(threads * -(-size // most), scheme.group.q, size)
    groups = [
        [
            Partition(number, range(first, first + width), part, parts)
            for part in range(parts)[parts_together]
        ]
        for number, first in enumerate(range(0, shuffled, max(1, width)))
        for parts_together in blocks(parts, threads)
    ]
    return Plan(groups, kept)


_Step = tuple[Callable[[Any], int | None], Any]
"""A step, which returns the sum of the piece that it computes, and its argument."""


@dataclass
class _Mixing:
    """The work of the clients, the shufflers and the analyzer of one sum."""

    sharing: Sharing
    scheme: SharingScheme
    plan: Plan
    blocks: tuple[slice, ...]
    encoder: Encoder | None
    receive: Receiver | None
    scratch: Scratch = field(default_factory=Scratch)
    stop: threading.Event = field(default_factory=threading.Event)
    failed: BaseException | None = None
    clear: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.users, self.last = self.blocks[-1].stop, self.scheme.messages - 1
        self.memory = np.empty(0, dtype=self.sharing.group.dtype)

    def run(self, threads: int, progress: Progress | None) -> int:
        """Do all steps, and return the sum modulo q; afterwards no thread works on them."""
        wanted = sum(map(len, self.plan.groups))
        total = done = 0
        failed: BaseException | None = None
        try:
            with nullcontext() if threads == 1 else ThreadPoolExecutor(threads) as executor:
                try:
                    for piece in self.pieces(map if executor is None else executor.map):
                        total += piece
                        done += 1
                        if progress is not None:
                            progress(done, wanted)
                except BaseException as error:
                    self.stop.set()  # before the executor waits for its threads
                    failed = self.failed or error
            if failed is not None:
                raise failed  # here: the context of an error would keep all memory alive
        except KeyboardInterrupt:
            raise Interrupted(None, done, wanted, "pieces of the shufflers' output") from None
        finally:
            self.failed = failed = None  # and so would these, by its traceback
        return (total + sum(self.clear)) % self.scheme.group.q

    def pieces(self, do: Callable[..., Iterator[int | None]]) -> Iterator[int]:
        """Do all steps with ``do``, which is like ``map``, and yield the sums of pieces."""
        for stage in self.stages():
            for piece in do(self.do, stage):
                if piece is not None:
                    yield piece

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
        """Yield the stages in order, each with the steps that may be done in parallel."""
        every = range(len(self.blocks))
        if not self.plan.kept:
            yield zip(repeat(self.share), every, strict=False)
        for group in self.plan.groups:
            column = _ShufflerOutput(self, group)
            yield zip(repeat(column.draw), every, strict=False)
            yield zip(repeat(column.make), group, strict=False)

    def share(self, block: int) -> None:
        """Encode and share a block of users, and keep nothing but the sum of the clear shares."""
        last, drawn = self.encoded(block), self.block_memory("drawn", block)
        for row in range(self.last):
            self.draw(row, block, drawn)
            self.sharing.group.subtract_lazily(last, drawn)
        self.finish(last)

    def encoded(self, block: int) -> NDArray[Any]:
        """Return the elements of a block of users, in the last row if it is kept."""
        kept = self.sharing.last.size > 0
        last = self.sharing.last[self.blocks[block]] if kept else self.block_memory("last", block)
        if self.encoder is not None:
            self.encoder.write(block, self.blocks[block], last)
        return last

    def finish(self, last: NDArray[Any]) -> None:
        """Reduce a block of the last row, which is complete, and add up its shares if clear."""
        self.sharing.group.reduce_in_place(last)
        if self.scheme.clear:
            self.clear.append(self.sharing.group.sum(last))

    def draw(
        self, row: int, block: int, out: NDArray[Any], *, subtract_from_last: bool = False
    ) -> None:
        """Overwrite ``out`` with one block of a row, unless another thread failed."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        if row == self.last:
            out[:] = self.sharing.last[self.blocks[block]]
        else:
            self.sharing.draw(row, block, out, subtract_from_last=subtract_from_last)

    def block_memory(self, name: str, block: int) -> NDArray[Any]:
        """Return memory of this thread for a block."""
        here = self.blocks[block]
        return self.scratch(name, here.stop - here.start, self.sharing.group.dtype)


class _ShufflerOutput:
    """One shuffler's messages in a group of ranges of values.

    Messages are uniform: a range hardly ever has more of them than fit into ``memory``,
    and the excess goes to ``beyond``.
    """

    def __init__(self, mixing: _Mixing, group: list[Partition]) -> None:
        self.mixing, self.group, self.rows = mixing, group, group[0].rows
        self.whole, self.lock = group[0].parts == 1, threading.Lock()
        q, size = mixing.scheme.group.q, len(self.rows) * mixing.users
        ends = [piece.ends(q) for piece in group]
        room = [size * (high - low + 1) // q for low, high in ends]
        if not self.whole:
            room = [messages + 8 * isqrt(messages) + 64 for messages in room]
        self.bounds = [*(low for low, _ in ends), ends[-1][1] + 1]
        self.starts = [0, *accumulate(room)]
        self.stops = self.starts[1:] if self.whole else self.starts[:-1]
        self.beyond: list[list[NDArray[Any]]] = [[] for _ in group]
        if mixing.memory.size < self.starts[-1]:
            mixing.memory = np.empty(self.starts[-1], dtype=mixing.memory.dtype)
        self.memory = mixing.memory

    def draw(self, block: int) -> None:
        """Draw one block of each row, and put its messages into their ranges.

        Shares are subtracted from the last row when they are drawn for the first time.
        """
        mixing, here = self.mixing, self.mixing.blocks[block]
        first = mixing.plan.kept and self.group[0].part == 0
        if first and self.rows[0] == 0:
            mixing.encoded(block)
        for place, row in enumerate(self.rows):
            if self.whole:
                drawn = self.memory[place * mixing.users :][here]
            else:
                drawn = mixing.block_memory("drawn", block)
            mixing.draw(row, block, drawn, subtract_from_last=first)
            if first and row == mixing.last - 1:
                mixing.finish(mixing.sharing.last[here])
            if not self.whole:
                self.put(drawn)

    def put(self, messages: NDArray[Any]) -> None:
        """Put messages, which are reordered, into their ranges."""
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
        """Finish a range of the output: sort it, and add it up."""
        place = piece.part - self.group[0].part
        messages = self.memory[self.starts[place] : self.stops[place]]
        if self.beyond[place]:
            messages = np.concatenate((messages, *self.beyond[place]))
        messages.sort()
        if self.mixing.receive is None:
            return self.mixing.scheme.group.sum(messages)
        return self.mixing.receive(piece, messages)


def _cut(a: NDArray[Any], ranks: list[int]) -> None:
    """Partition at these ranks: no value is below one before it. Rank by rank is fastest."""
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
    most: int = MESSAGES_IN_MEMORY,
) -> int:
    """Share all users' elements, shuffle the shares and return their sum modulo q.

    ``elements`` are reduced; an array is overwritten. The analyzer passes each piece to
    ``receive``, which by default adds it up. Ctrl-C leaves no partial sum, as every partial sum is
    uniform.
    """
    encoder = elements if isinstance(elements, Encoder) else None
    users = elements.users if isinstance(elements, Encoder) else elements.size
    if threads is None:
        column = users * (scheme.shuffled if scheme.single else 1)
        many = users * scheme.messages >= MESSAGES_FOR_ALL_CORES and column >= _COLUMN_FOR_THREADS
        threads = cores() if many else 1
    plan = planned(scheme, users, threads=threads, most=most)
    if isinstance(elements, Encoder):
        elements = np.empty(users if plan.kept else 0, dtype=scheme.group.dtype)
    sharing = Sharing(elements, scheme.group, rng)
    work = _Mixing(sharing, scheme, plan, users_in_blocks(users), encoder, receive)
    return work.run(threads, progress)


def mixed_sums(
    elements: NDArray[Any], scheme: SharingScheme, rng: RandomSource, stop: threading.Event
) -> list[int]:
    """Like `mixed_sum` for several coordinates, (coordinates, users), on one thread.

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
                group.reduce_in_place(sharing.last)
                out[:] = elements
                continue
            for number, block in enumerate(sharing.blocks):
                sharing.draw(row, number, out.reshape(-1)[block], subtract_from_last=True)
        columns = received.swapaxes(0, 1).reshape(len(elements), -1)
        columns.sort(axis=1)
        sums.append(group.sums(columns))
    if scheme.clear:
        group.reduce_in_place(sharing.last)
        sums.append(group.sums(elements))
    return [sum(sums_of_coordinate) % group.q for sums_of_coordinate in zip(*sums, strict=True)]
