"""From shares through shufflers to a sum, in the memory of a few columns.

What each shuffler releases is all of its messages, sorted. Here it is made one range of values at
a time, where it would be too long for one piece, and each piece is added up and forgotten. The
pieces in their order are the release (`ikos.shuffling.release`) of all the messages, drawn by
`ikos.sharing.Sharing`; no other is made.

Most pieces are whole columns: drawn once, taken off the last share, sorted in place. What is left
over when the columns do not go evenly into the threads, and what is longer than a piece may be,
is first taken off the last share and then drawn again, once for each range.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.concurrency import Interrupted, Progress, pool, spread, threads_for
from ikos.modular import Zq
from ikos.randomness import RandomSource
from ikos.sharing import Sharing
from ikos.shuffling import release
from ikos.trust import Trust

LONGEST = 1 << 27
"""Messages of a piece at most, up to chance: 1 GiB of uint64. Those of one value stay together."""

AT_ONCE = 1 << 29
"""Messages of all threads at once at most, up to chance: 4 GiB of uint64."""

WORTHWHILE = 1 << 21
"""Messages in all from which on all cores are used."""

_WORTH_CUTTING = 4  # each thread draws all of a column for its range: a third of the time of it

_AHEAD = 1 << 20

Receiver = Callable[["Partition", NDArray[Any]], int]
"""The analyzer: takes a piece of a shuffler's output and returns its sum modulo q."""


@dataclass(frozen=True)
class SharingScheme:
    """What is sent to whom: ``messages`` of each user in all, from the group."""

    group: Zq
    messages: int
    trust: Trust

    @property
    def clear(self) -> bool:
        """Whether the last message of each user is a clear share."""
        return self.trust.clear_share

    @property
    def single(self) -> bool:
        """Whether one shuffler gets all other messages, or each a shuffler of its own."""
        return self.trust.single

    @property
    def shuffled(self) -> int:
        """Shuffled messages of each user."""
        return self.messages - self.clear


@dataclass(frozen=True)
class Partition:
    """A range of the values in the output of one shuffler, which gets ``rows`` of the shares.

    Of values v with ``v * parts // q == part``. Drawing it takes its shares off the last row if
    ``peel``.
    """

    shuffler: int
    rows: range
    part: int
    parts: int
    peel: bool

    def ends(self, q: int) -> tuple[int, int]:
        """Return the smallest and the largest value of the range."""
        return -(-self.part * q // self.parts), -(-(self.part + 1) * q // self.parts) - 1


@dataclass(frozen=True)
class Plan:
    """What is to be done, in order: the first two together, then the third.

    ``whole`` are pieces that need no other's work, ``peeled`` rows and blocks that are to be taken
    off the last row, ``later`` pieces made from shares drawn again or from the last row.
    """

    whole: tuple[Partition, ...]
    peeled: tuple[tuple[int, int], ...]
    later: tuple[Partition, ...]


def planned(setting: SharingScheme, users: int, *, cuts: int, threads: int, longest: int) -> Plan:
    """Return the pieces, of ``longest`` messages at most, of a sum over blocks of users."""
    shuffled = setting.shuffled
    if setting.single:
        groups = [range(shuffled)] if shuffled else []
    else:
        groups = [range(row, row + 1) for row in range(shuffled)]
    last = None if setting.clear else shuffled - 1
    # The last row of parallel shufflers is complete when all others are drawn, and not before.
    fitting = [
        number
        for number, rows in enumerate(groups)
        if len(rows) * users <= longest and (setting.single or rows[0] != last)
    ]
    over = len(fitting) % threads
    # as many ranges of each column left over as threads are there for it; of one, none is made
    share = threads // over if over else 1
    whole = fitting if share < _WORTH_CUTTING else fitting[:-over]
    later: list[Partition] = []
    drawn_once, short = set(whole), set(fitting)
    for number, rows in enumerate(groups):
        if number not in drawn_once:
            least = share if number in short else threads
            # no more than there are values: a range without any would be drawn for nothing
            parts = min(max(least, -(-len(rows) * users // longest)), setting.group.q)
            later += (Partition(number, rows, part, parts, False) for part in range(parts))
    drawn = {row for piece in later for row in piece.rows if row != last}
    return Plan(
        tuple(Partition(number, groups[number], 0, 1, True) for number in whole),
        tuple((row, block) for row in sorted(drawn) for block in range(cuts)),
        tuple(later),
    )


_Done = tuple[int, int]  # pieces that a step of the work has made, and what it adds to the sum


class _Shufflers:
    """The shufflers at work on one sharing."""

    def __init__(
        self,
        sharing: Sharing,
        setting: SharingScheme,
        receive: Receiver,
        rng: RandomSource,
        stop: threading.Event,
    ) -> None:
        self.sharing = sharing
        self.setting = setting
        self.receive = receive
        self.rng = rng
        self.stop = stop
        self.failed: BaseException | None = None
        self._local = threading.local()

    def _buffer(self, size: int, kept: int = 0) -> NDArray[Any]:
        """Return a thread's memory for messages, at least ``size``; the first ``kept`` stay."""
        held: NDArray[Any] | None = getattr(self._local, "buffer", None)
        if held is None or held.size < size:
            more = 2 * held.size if held is not None and kept else 0  # seldom twice
            larger = np.empty(max(size, more), dtype=self.sharing.group.dtype)
            if held is not None:
                larger[:kept] = held[:kept]
            held = self._local.buffer = larger
        return held

    def sums(
        self, plan: Plan, encoded: Iterator[NDArray[Any]] | None, executor: Executor | None
    ) -> Generator[_Done, None, None]:
        """Yield what each step of the work has done."""
        given = [] if encoded is None else [(self.put, encoded)]
        pieces = ((self.make, piece) for piece in plan.whole)
        rests = ((self.peel, *where) for where in plan.peeled)
        if any(self.sharing.messages - 1 in piece.rows for piece in plan.whole):
            # the last row is released with the others: all users' elements must be there
            yield from self._stage(given, executor)
            yield from self._stage(chain(pieces, rests), executor)
        else:
            yield from self._stage(chain(given, pieces, rests), executor)
        blocks = range(len(self.sharing.blocks))
        yield from self._stage(((self.finish, block) for block in blocks), executor)
        yield from self._stage(((self.make, piece) for piece in plan.later), executor)

    def _stage(
        self, steps: Iterable[tuple[Any, ...]], executor: Executor | None
    ) -> Generator[_Done, None, None]:
        """Do steps on all threads, and yield what each has done."""
        # a step is little to remember, and those that are short must not wait for a long one
        with closing(spread(self._step, steps, executor, ahead=_AHEAD)) as done:
            yield from done

    def _step(self, work: Callable[..., _Done], *about: Any) -> _Done:
        self._go_on()
        try:
            return work(*about)
        except BaseException as error:
            if not self.stop.is_set():
                self.failed = error  # which others, that stop for it, would come before
                self.stop.set()
            raise

    def _go_on(self) -> None:
        if self.stop.is_set():
            raise KeyboardInterrupt

    def put(self, encoded: Iterator[NDArray[Any]]) -> _Done:
        """Put all users' elements to the last row."""
        users, first = self.sharing.last.size, 0
        for elements in encoded:
            self._go_on()
            if first + elements.size > users:
                raise ValueError(f"encoded must hold {users} elements, got more")
            self.sharing.put(first, elements)
            first += elements.size
        if first < users:
            raise ValueError(f"encoded must hold {users} elements, got {first}")
        return 0, 0

    def make(self, piece: Partition) -> _Done:
        """Make a piece of a shuffler's output."""
        messages = self._whole(piece) if piece.parts == 1 else self._range(piece)
        self._go_on()
        return 1, self.receive(piece, release(messages, "sorted", self.rng))

    def peel(self, row: int, block: int) -> _Done:
        """Take one block of a row off the last row."""
        self._drawn(row, block, peel=True)
        return 0, 0

    def finish(self, block: int) -> _Done:
        """Reduce one block of the last row; where it is the clear shares, they are added up."""
        self.sharing.finish(block)
        clear = self.sharing.last[self.sharing.blocks[block]]
        return 0, self.sharing.group.sum(clear) if self.setting.clear else 0

    def _drawn(self, row: int, block: int, *, peel: bool) -> NDArray[Any]:
        self._go_on()
        here = self.sharing.blocks[block]
        if row == self.sharing.messages - 1:
            return self.sharing.last[here]
        out = np.empty(here.stop - here.start, dtype=self.sharing.group.dtype)
        self.sharing.draw(row, block, out, peel=peel)
        return out

    def _whole(self, piece: Partition) -> NDArray[Any]:
        """Return all messages of some rows; the last row, if it is one of them, is the last."""
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
                self._go_on()
                # each row begins elsewhere, so that threads seldom wait for the same users
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
                # one part and the like of a block, unless a last row is not random
                expected = len(piece.rows) * self.sharing.last.size // piece.parts + drawn.size
                messages = self._buffer(max(expected, count + found.size), count)
                messages[count : count + found.size] = found
                count += found.size
        return self._buffer(0)[:count]


def _within(drawn: NDArray[Any], low: int, high: int, q: int) -> NDArray[Any]:
    """Return the elements from ``low`` to ``high``; all of them change their places.

    Selection as in quicksort, by the rank that is counted first, takes a fifth of the time of a
    mask.
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
    setting: SharingScheme,
    rng: RandomSource,
    *,
    encoded: Iterator[NDArray[Any]] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    receive: Receiver | None = None,
    longest: int = LONGEST,
) -> int:
    """Share all users' elements, shuffle the shares and return their sum modulo q.

    ``elements`` are reduced, and overwritten; or memory for them, where one thread reads them from
    ``encoded``, block by block, while others work. ``receive`` is what the analyzer does with a
    piece; by default it adds it up. At Ctrl-C there is no partial sum: any of them is uniform.
    """
    group = setting.group
    blank = encoded is not None
    sharing = Sharing(elements, group, setting.messages, rng, blank=blank)
    many = threads_for(threads, elements.size * setting.messages, WORTHWHILE)
    plan = planned(
        setting,
        elements.size,
        cuts=len(sharing.blocks),
        threads=many,
        longest=min(longest, max(1, AT_ONCE // many)),
    )
    stop = threading.Event()
    receive = receive or (lambda _, a: group.sum(a))
    shufflers = _Shufflers(sharing, setting, receive, rng, stop)
    wanted = len(plan.whole) + len(plan.later)
    total = done = 0
    try:
        with pool(many) as executor:
            try:
                with closing(shufflers.sums(plan, encoded, executor)) as sums:
                    for pieces, found in sums:
                        total += found
                        done += pieces
                        if pieces and progress is not None:
                            progress(done, wanted)
            except BaseException as error:
                stop.set()  # before the executor waits for its threads
                raise shufflers.failed or error from None
    except KeyboardInterrupt:
        raise Interrupted(None, done, wanted, "pieces of the shufflers' output") from None
    return total % group.q
