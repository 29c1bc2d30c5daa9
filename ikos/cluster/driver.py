"""A sum on a cluster: what runs on workers, and the driver that starts it.

Tasks are the clients of a block of users, the envelopes to a shuffler, and the shuffler with its
part of the analyzer. The driver starts them, and restarts the shuffling until all shufflers had
messages of the same sharings.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import check_participation, reject_masked
from ikos.aggregation.shuffled_sum import (
    ShuffledSum,
    checked_blocks,
    iterator_or_array,
    with_location,
)
from ikos.cluster.waiting import (
    ClusterError,
    check_versions,
    connection,
    first_done,
    results,
    threads,
)
from ikos.concurrency import Progress
from ikos.modular import Zq
from ikos.randomness import RandomSource
from ikos.sharing import USERS, Partition, Sharing, SharingScheme

LONGEST = 1 << 26
"""Approximate limit on the messages of a shuffler's task: 512 MiB of uint64, held twice."""

ATTEMPTS = 8  # how often the shuffling may begin
SPAN = 4  # most blocks of `USERS` users in one task: messages to workers are below 10 MB
NONCE_BYTES = 16

_STRIDE = 1 << 32
_KINDS = (ValueError, TypeError, ImportError, OSError, MemoryError, ArithmeticError)


# On workers


@dataclass(frozen=True, repr=False)
class Refusal:
    """What clients raised.

    It is a result, not an exception, which Dask would log with its arguments.
    """

    kind: type[Exception]
    message: str

    @classmethod
    def of(cls, error: Exception, where: str) -> Refusal:
        """Return an exception's message in a form that can be sent anywhere."""
        for kind in _KINDS:
            if isinstance(error, kind):
                return cls(kind, f"{str(error) or type(error).__name__}{where}")
        return cls(ClusterError, f"{type(error).__name__}: {error}{where}")


def digest(sharings: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the SHA-256 of blocks' numbers and nonces, in any order."""
    pairs = sorted(number.to_bytes(8, "big") + nonce for number, nonce in sharings)
    return hashlib.sha256(b"".join(pairs)).digest()


@dataclass(frozen=True, repr=False)
class Checked:
    """Checked values on their way to a worker; their printed form shows none."""

    blocks: Sequence[NDArray[Any]]


class SharedColumn(Sharing):
    """A complete sharing of one coordinate of a block of users; any row can be drawn."""

    def __init__(self, elements: NDArray[Any], scheme: SharingScheme, rng: RandomSource) -> None:
        super().__init__(elements, scheme.group, scheme.messages, rng)
        for place, here in enumerate(self.blocks):
            drawn = np.empty(here.stop - here.start, dtype=self.group.dtype)
            for row in range(self.messages - 1):
                self.draw(row, place, drawn, peel=True)
            self.finish(place)

    def row(self, row: int, out: NDArray[Any]) -> NDArray[Any]:
        """Overwrite ``out``, as long as the block, with the shares of one row, and return it."""
        if row == self.messages - 1:
            out[:] = self.last
            return out
        for place, here in enumerate(self.blocks):
            self.draw(row, place, out[here], peel=False)
        return out

    def __getstate__(self) -> dict[str, Any]:
        # nothing more is subtracted from the last row, so it needs no lock
        return {name: value for name, value in self.__dict__.items() if name != "_locks"}


@dataclass(frozen=True, repr=False)
class Sealed:
    """Something that belongs to one sharing of a block's values.

    The nonce identifies the sharing: it comes from the operating system, even with a seeded source
    of randomness, so that no two runs have the same.
    """

    number: int
    nonce: bytes


@dataclass(frozen=True, repr=False)
class Block(Sealed):
    """One sharing of the values of a block of users."""

    columns: Sequence[SharedColumn]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(_bytes(column.last) for column in self.columns)


@dataclass(frozen=True, repr=False)
class Seen(Sealed):
    """A block's sharing, its number of users, and the sums of their clear shares."""

    users: int
    clear: list[int]


@dataclass(frozen=True, repr=False)
class Envelope(Sealed):
    """One block's messages to one shuffler, or those in a range of values."""

    shares: NDArray[Any]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + _bytes(self.shares)


@dataclass(frozen=True)
class Released:
    """The analyzer's result for a shuffler's messages of a coordinate.

    Their sum modulo q, their number, and the digest of their sharings.
    """

    coordinate: int
    total: int
    count: int
    digest: bytes


def _bytes(a: NDArray[Any]) -> int:
    """Return the memory of messages, so that the scheduler knows what is large."""
    return a.nbytes + (a.size * sys.getsizeof(a[0]) if a.dtype == object and a.size else 0)


@dataclass(frozen=True, repr=False)
class BlockSharing:
    """The clients' work: turns values into a `Block`.

    Rounding and noise draw from sources of ``encoding`` (`RandomSource.streams`), of which each
    block has ``stride`` to itself, and the secrets from a source of ``sharing``.
    """

    clients: ShuffledSum[Any]
    encoding: Callable[[int], RandomSource]
    sharing: Callable[[int], RandomSource]
    stride: int

    __name__ = "clients"  # Dask's name of tasks, which would otherwise print all of this

    def __call__(self, given: Any, number: int) -> Block | Refusal:
        """Return a fresh sharing of values: checked ones, a part of a table, or a partition."""
        clients, scheme, where = self.clients, self.clients.setting, ""
        try:
            if isinstance(given, Checked):
                blocks: Iterable[NDArray[Any]] = given.blocks
            elif hasattr(given, "blocks") and hasattr(given, "rows"):  # says where a mistake is
                blocks = checked_blocks(clients, iter(given.blocks()))
            else:
                where = f" (in partition {number}, counted from 0)"
                blocks = checked_blocks(clients, np.asarray(reject_masked("x", given)))
            sources = map(self.encoding, count(number * self.stride))
            encoded = map(clients.encoded, blocks, sources)
            found = [np.atleast_2d(elements.T) for elements in encoded]
            # for a block without users
            found.append(np.empty((clients.dimension, 0), dtype=scheme.group.dtype))
            source, columns = self.sharing(number), np.ascontiguousarray(np.hstack(found))
            made = [SharedColumn(column, scheme, source) for column in columns]
            return Block(number, os.urandom(NONCE_BYTES), made)
        except Exception as error:  # to be raised by the driver, not logged by Dask
            return Refusal.of(error, where)


def described(block: Block | Refusal, *, clear: bool) -> Seen | Refusal:
    """Return which sharing a block has, with its clear shares or zeros, or why there is none."""
    if isinstance(block, Refusal):
        return block
    sums = [column.group.sum(column.last) if clear else 0 for column in block.columns]
    return Seen(block.number, block.nonce, block.columns[0].last.size, sums)


def posted(
    block: Block | Refusal, coordinate: int, pieces: Sequence[Partition]
) -> tuple[Envelope | Refusal, ...]:
    """Return a block's envelopes for some pieces of one shuffler's output.

    There may be none even if there was a block: values can be bad when they are read again.
    """
    if isinstance(block, Refusal):
        return (block,) * len(pieces)
    column, rows = block.columns[coordinate], pieces[0].rows
    users, q = column.last.size, column.group.q
    if pieces[0].parts == 1:
        shares = np.empty((len(rows), users), dtype=column.group.dtype)
        for row, out in zip(rows, shares, strict=True):
            column.row(row, out)
        return (Envelope(block.number, block.nonce, shares.reshape(-1)),)
    found: list[list[NDArray[Any]]] = [[] for _ in pieces]
    drawn = np.empty(users, dtype=column.group.dtype)
    for row in rows:
        column.row(row, drawn)
        for shares_in_range, piece in zip(found, pieces, strict=True):
            low, high = piece.ends(q)
            shares_in_range.append(drawn[(drawn >= low) & (drawn <= high)])
    return tuple(Envelope(block.number, block.nonce, np.concatenate(some)) for some in found)


def picked(envelopes: tuple[Envelope | Refusal, ...], place: int) -> tuple[Envelope | Refusal]:
    """Return one of several envelopes."""
    return (envelopes[place],)


def mixed(
    received: Sequence[tuple[Envelope | Refusal]], group: Zq, coordinate: int
) -> Released | Refusal:
    """Mix the messages of all envelopes and add them up; if one is missing, return why."""
    envelopes = []
    for (envelope,) in received:
        if isinstance(envelope, Refusal):
            return envelope
        envelopes.append(envelope)
    output = np.concatenate([envelope.shares for envelope in envelopes])
    output.sort()
    sharings = digest((envelope.number, envelope.nonce) for envelope in envelopes)
    return Released(coordinate, group.sum(output), output.size, sharings)


# The driver


def block_tasks(
    client: Any, clients: ShuffledSum[Any], x: Any, rng: RandomSource, threads: int
) -> Generator[Any, None, None]:
    """Yield a future of a `Block` for each block of users, on demand.

    ``x`` is a Dask array or series, a column of tables, or what `SecureSum.run` takes.
    """
    encoding, sharing = rng.streams(), rng.streams()
    if hasattr(x, "__dask_graph__"):
        yield from _collection(client, x, BlockSharing(clients, encoding, sharing, _STRIDE))
        return
    given: Iterable[Any]
    span = SPAN
    if hasattr(x, "parts"):
        # pickling raises the error of a part that cannot be sent, such as a pipe
        given = (part for part in with_location(clients, x).parts if pickle.dumps(part))
        span = _STRIDE
    else:
        values = iterator_or_array(clients, x)
        if isinstance(values, np.ndarray):
            users = values.shape[0]
            check_participation("x", users, clients.min_honest, clients.n)
            span = min(SPAN, max(1, users * clients.dimension // (2 * threads * USERS)))
        blocks = checked_blocks(clients, values)
        given = map(Checked, iter(lambda: list(islice(blocks, span)), []))
    endpoint = BlockSharing(clients, encoding, sharing, span)
    for number, some in enumerate(given):
        yield client.submit(endpoint, some, number, pure=False)


def _collection(client: Any, x: Any, endpoint: BlockSharing) -> Iterator[Any]:
    from dask.delayed import delayed

    dimensions = getattr(x, "ndim", None)
    if not isinstance(dimensions, int):  # a delayed object has any attribute, itself delayed
        raise TypeError(
            f"x must be a Dask array or a column of a data frame, got {type(x).__name__}"
        )
    if dimensions != (1 if endpoint.clients.scalar else 2):
        wanted = "one" if endpoint.clients.scalar else "two"
        raise ValueError(f"x must be {wanted}-dimensional, got {dimensions} dimensions")
    if dimensions == 2 and hasattr(x, "rechunk"):
        x = x.rechunk({1: -1})  # whole vectors in each partition
    work = delayed(endpoint, pure=False, traverse=False, name=False)
    partitions = np.ravel(x.to_delayed()).tolist()
    yield from client.compute([work(given, number) for number, given in enumerate(partitions)])


def columns(scheme: SharingScheme, users: int) -> list[tuple[Partition, ...]]:
    """Return the pieces of all shufflers' output, in groups for which blocks are drawn again once.

    A piece has at most `LONGEST` messages, up to chance.
    """
    shuffled, q = scheme.shuffled, scheme.group.q
    size = users * (shuffled if scheme.single else 1)
    # at most as many as there are values: an empty range would be drawn for nothing
    parts = max(1, min(-(-size // LONGEST), q))
    if scheme.single and shuffled:
        every = range(shuffled)
        return [(Partition(0, every, part, parts),) for part in range(parts)]
    return [
        tuple(Partition(row, range(row, row + 1), part, parts) for part in range(parts))
        for row in range(shuffled)
    ]


class _Reshared(Exception):  # noqa: N818
    """Clients ran again in between: the results belong to different sharings."""


class _Sum:
    """One sum on a cluster, with the tasks that it holds there."""

    def __init__(self, client: Any, clients: ShuffledSum[Any], progress: Progress | None) -> None:
        self.client = client
        self.clients = clients
        self.progress = progress
        self.threads = threads(client)
        self.blocks: list[Any] = []
        self.tasks: set[Any] = set()  # of one attempt

    def drop(self, futures: Iterable[Any]) -> None:
        """Forget tasks on the cluster, even if others still refer to them."""
        if (some := list(futures)) and self.client.status == "running":
            self.client.cancel(some, force=True)

    def read(self, tasks: Iterable[Any]) -> None:
        """Run clients, a bounded number of blocks at once; stop at the first mistake."""
        under_way: deque[Any] = deque()
        for block in tasks:
            self.blocks.append(block)
            under_way.append(self.client.submit(described, block, clear=False, pure=False))
            if len(under_way) > 2 * self.threads:
                self._accepted([under_way.popleft()])

    def attempt(self) -> tuple[list[int], int]:
        """Return the sum of each coordinate of the current blocks, and the number of users.

        Raises `_Reshared` if blocks were shared again in between.
        """
        self.drop(self.tasks)
        clients, scheme = self.clients, self.clients.setting
        tasks = self.client.map(described, self.blocks, clear=scheme.clear, pure=False)
        self.tasks = set(tasks)
        seen: list[Seen] = self._accepted(tasks)
        users = sum(one.users for one in seen)
        check_participation("x", users, clients.min_honest, clients.n)
        sharings = digest((one.number, one.nonce) for one in seen)
        totals = [sum(clear) for clear in zip(*(one.clear for one in seen), strict=True)]
        groups = columns(scheme, users)
        wanted = clients.dimension * sum(map(len, groups))
        count = 0
        for done, released in enumerate(self._released(groups), 1):
            if not _same(released.digest, sharings):
                raise _Reshared
            totals[released.coordinate] += released.total
            count += released.count
            if self.progress is not None:
                self.progress(done, wanted)
        if count != users * scheme.shuffled * clients.dimension:
            raise ClusterError(
                f"shufflers released {count} messages of {users} users; nothing was returned"
            )
        return [total % scheme.group.q for total in totals], users

    def _accepted(self, tasks: Iterable[Any]) -> list[Any]:
        """Return the results of tasks, or raise what the first of the clients raised."""
        found = results(self.client, tasks)
        for one in found:
            if isinstance(one, Refusal):
                raise one.kind(one.message)
        return found

    def _released(self, groups: list[tuple[Partition, ...]]) -> Iterator[Released]:
        """Yield the analyzer's result for each piece, with a few columns under way at once."""
        todo = deque((c, pieces) for c in range(self.clients.dimension) for pieces in groups)
        under_way: set[Any] = set()
        while todo or under_way:
            while todo and len(under_way) <= self.threads:
                tasks = self._mixed(*todo.popleft())
                self.tasks.update(tasks)
                under_way.update(tasks)
            done = first_done(self.client, under_way)
            yield from self._accepted(done)
            under_way -= done
            self.tasks -= done

    def _mixed(self, coordinate: int, pieces: tuple[Partition, ...]) -> list[Any]:
        """Start the clients' envelopes and the shufflers of a column."""
        client, group = self.client, self.clients.setting.group
        posts = client.map(posted, self.blocks, coordinate=coordinate, pieces=pieces, pure=False)
        if len(pieces) == 1:
            return [client.submit(mixed, posts, group, coordinate, pure=False)]
        each = [client.map(picked, posts, place=at, pure=False) for at in range(len(pieces))]
        return [client.submit(mixed, some, group, coordinate, pure=False) for some in each]


def _same(released: bytes, blocks: bytes) -> bool:
    return released == blocks


def add_up(
    client: Any, clients: ShuffledSum[Any], x: Any, rng: RandomSource, progress: Progress | None
) -> tuple[list[int], int]:
    """Run a secure summation on a cluster: return each coordinate's sum and the number of users.

    The progress counts the finished pieces of the shufflers' output; it restarts with the
    shuffling. However the sum ends, nothing of it stays on the cluster.
    """
    with client.as_current(), connection():
        check_versions(client)
        made = _Sum(client, clients, progress)
        try:
            with closing(block_tasks(client, clients, x, rng, made.threads)) as tasks:
                made.read(tasks)
            for _ in range(ATTEMPTS):
                try:
                    return made.attempt()
                except _Reshared:
                    continue
        finally:
            made.drop(made.tasks)  # before the blocks that they take, or the scheduler stumbles
            made.drop(made.blocks)
    raise ClusterError(
        f"in the middle of each of {ATTEMPTS} attempts workers were lost and shares drawn again; "
        "nothing was released"
    )
