"""Additive shares, and their sum, which parallel workers compute in little memory.

A value x in Z_q becomes shares that are uniform subject to their sum being x modulo q, so that any
proper subset of them is independent of x (IKOS06; BBGN20, Section 5.1). All shares but the last are
keystreams. They are not stored: a row of them is drawn where it is needed, one block of users at a
time, each from a source that can be replayed.

Each shuffler releases all of its messages, sorted. `mixed_sum` makes the release in pieces, adds up
each and forgets it. Most pieces are whole columns, each made by one thread: drawn once, subtracted
from the last share, sorted in place. Columns that cannot be divided evenly among the threads, or
are too long for that, are first subtracted from the last share and counted, and then drawn again:
by all threads, each of which sorts a range of the values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise, product, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.concurrency import Interrupted, Progress, cores
from ikos.modular import Zq, blocks
from ikos.randomness import RandomSource

USERS = 1 << 18  # whose shares of one row come from one source
AT_ONCE = 1 << 27  # about the most messages held at once: 1 GiB of uint64
WORTHWHILE = 1 << 21  # messages in all, from which all cores are used

_LOCKS = 64
_MANY = 16  # ends of ranges from which a block is sorted to count what is below them
_STEP = 1 << 20  # bytes of shares drawn and subtracted at a time, in cache


class Sharing:
    """All users' shares, any block of any row at any time, in the memory of one row.

    ``x`` holds reduced elements and is overwritten by the last row. Several threads may call `draw`
    at once. The last row is complete once each block of every other row is drawn with ``peel``
    exactly once, and `Zq.finish` is then applied to it.
    """

    def __init__(self, x: NDArray[Any], group: Zq, rng: RandomSource) -> None:
        self.last = x
        self.group = group
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
        for part in blocks(out.size, _STEP // out.dtype.itemsize):
            source.uniform_into(out[part], self.group)
            if peel:
                with self._locks[block % _LOCKS]:
                    self.group.take_off(self.last[self.blocks[block]][part], out[part])


def split(x: NDArray[Any], group: Zq, messages: int, rng: RandomSource) -> NDArray[Any]:
    """Return additive shares, (messages, n), of n reduced group elements.

    Row j holds all users' share j.
    """
    shares = np.empty((messages, x.size), dtype=group.dtype)
    shares[-1] = x
    sharing = Sharing(shares[-1], group, rng)
    for row in range(messages - 1):
        for number, block in enumerate(sharing.blocks):
            sharing.draw(row, number, shares[row, block], peel=True)
    group.finish(shares[-1])
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
    others, of one column each: all threads draw a group, and then sort a range each.
    """

    whole: list[Partition]
    together: list[list[Partition]]


def planned(scheme: SharingScheme, users: int, *, threads: int, most: int) -> Plan:
    """Return the pieces of a sum of which at most about ``most`` messages are held at once.

    Those of the last row do not count where it is to be kept in any case.
    """
    shuffled = scheme.shuffled
    width = shuffled if scheme.single else 1
    firsts, size = range(0, shuffled, max(1, width)), width * users
    # The last row is complete only once all others are drawn.
    alone = len(firsts) - (not scheme.clear) if threads * size + users * scheme.clear <= most else 0
    whole = alone - alone % threads
    # at most as many as there are values or messages: no range is drawn for nothing
    parts = min(threads * -(-size // most), scheme.group.q, size)
    plan = Plan([], [])
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
    stop: threading.Event = field(default_factory=threading.Event)
    failed: BaseException | None = None
    free: list[NDArray[Any]] = field(default_factory=list)
    clear: list[int] = field(default_factory=list)
    local: threading.local = field(default_factory=threading.local)

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
        yield zip(repeat(self.share), every, strict=False)
        yield zip(repeat(self.whole), self.plan.whole, strict=False)
        if self.plan.whole:
            yield zip(repeat(self.finish), every, strict=False)
        for group in self.plan.together:
            column = self.columns[group[0].shuffler]
            column.begin(group)
            yield zip(repeat(column.draw), product(column.rows, every), strict=False)
            yield zip(repeat(column.make), group, strict=False)
            self.free.append(column.memory)
            del column.memory  # the next column may need more

    def share(self, block: int) -> None:
        """Encode a block of users, and take off what is not taken off with whole columns."""
        last, drawn = self._last(block), self.scratch(block)
        if self.encoder is not None:
            self.encoder.write(block, self.blocks[block], last)
        for column in self.columns.values():
            for row in column.rows:
                if row != self.last:
                    self.draw(row, block, drawn)
                    self.sharing.group.take_off(last, drawn)
                    column.count(row, block, drawn)
        if not self.plan.whole:
            self.finish(block, last)

    def finish(self, block: int, last: NDArray[Any] | None = None) -> None:
        """Reduce a block of the last row, which is complete, and add up or count its shares."""
        last = self._last(block) if last is None else last
        self.sharing.group.finish(last)
        if self.scheme.clear:
            self.clear.append(self.sharing.group.sum(last))
        else:
            self.columns[max(self.columns)].count(self.last, block, last)

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
        return self.scratch(block, "last")

    def scratch(self, block: int, name: str = "drawn") -> NDArray[Any]:
        """Return memory of this thread for a block; threads lose time where they allocate it."""
        here, held = self.blocks[block], getattr(self.local, name, None)
        if held is None:
            held = np.empty(self.blocks[0].stop, dtype=self.sharing.group.dtype)
            setattr(self.local, name, held)
        return held[: here.stop - here.start]


class _CutColumn:
    """One shuffler's messages, which are drawn in groups of ranges of values.

    ``below`` counts, for each row, block and end of a range, the messages below it.
    """

    def __init__(self, mixing: _Mixing, piece: Partition) -> None:
        self.mixing, self.rows, parts = mixing, piece.rows, range(1, piece.parts)
        self.lows = [replace(piece, part=part).ends(mixing.scheme.group.q)[0] for part in parts]
        shape = len(self.rows), len(mixing.blocks), piece.parts + 1
        self.below = np.zeros(shape, dtype=np.int32)

    def count(self, row: int, block: int, drawn: NDArray[Any]) -> None:
        """Count the messages of one block of a row."""
        if len(self.lows) > _MANY:
            ranks = np.searchsorted(np.sort(drawn), np.array(self.lows, drawn.dtype)).tolist()
        else:
            ranks = [int(np.count_nonzero(drawn < low)) for low in self.lows]
        self.below[row - self.rows[0], block, 1:] = [*ranks, drawn.size]

    def begin(self, group: list[Partition]) -> None:
        """Find the place of each block's messages in each range of a group."""
        self.first, end = group[0].part, group[-1].part + 1
        self.ranks = self.below[..., self.first : end + 1]
        sizes = np.diff(self.ranks)
        ends = np.cumsum(sizes.reshape(-1, len(group)).T, dtype=np.int64).reshape(len(group), -1)
        self.ends = [0, *ends[:, -1].tolist()]
        self.places = ends.T.reshape(sizes.shape) - sizes
        self.memory = self.mixing.take(self.ends[-1])

    def draw(self, where: tuple[int, int]) -> None:
        """Draw one block of a row, and put its messages into their ranges."""
        row, block = where
        drawn = self.mixing.scratch(block)
        self.mixing.draw(row, block, drawn)
        place = row - self.rows[0], block
        ranks = self.ranks[place].tolist()
        _cut(drawn, sorted({rank for rank in ranks if 0 < rank < drawn.size}))
        for (low, high), start in zip(pairwise(ranks), self.places[place].tolist(), strict=True):
            self.memory[start : start + high - low] = drawn[low:high]

    def make(self, piece: Partition) -> int:
        """Make a range of the output, and add it up."""
        start, stop = self.ends[piece.part - self.first : piece.part - self.first + 2]
        return self.mixing.release(piece, self.memory[start:stop])


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
    work = _Mixing(sharing, scheme, plan, tuple(blocks(users, USERS)), encoder, receive)
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
