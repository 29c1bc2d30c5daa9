"""A sum on a cluster: the tasks of workers, and the driver that starts them.

Tasks play the clients of a block of users, the envelopes to a shuffler, and the shuffler with its
part of the analyzer. An envelope holds keys that determine the shuffler's messages, so that these
are drawn where they are shuffled, and are not sent. The driver starts the tasks, and restarts the
shuffling until all shufflers have messages of the same sharings.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, refuse_missing
from ikos.cluster.waiting import (
    ClusterError,
    check_versions,
    connection,
    first_done,
    results,
    threads,
)
from ikos.data.reading import BlockEncoder, Inputs, Reader, located
from ikos.primitives.concurrency import Progress
from ikos.primitives.mixing import Partition
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import RandomSource
from ikos.primitives.sharing import USERS_PER_SOURCE, SharingScheme
from ikos.transports.base import Totals

MESSAGES_PER_TASK = 1 << 27
"""Approximate limit on the messages of a shuffler's task: 1 GiB of uint64."""

MAX_ATTEMPTS = 8  # attempts at the shuffling
BLOCKS_PER_TASK = 4  # at most: messages to workers are below 10 MB
PIECES_PER_THREAD = 4  # pieces of shufflers' output under way for each thread
ROWS_PER_TASK = 1 << 22  # of a table, at least, if there are enough for all workers
NONCE_BYTES = 16

_STRIDE = 1 << 32
_KINDS = (ValueError, TypeError, ImportError, OSError, MemoryError, ArithmeticError)

Key = Callable[[int], RandomSource]
"""A secret that determines one row of a block's shares: it maps k to the source of some users'."""


# On workers


@dataclass(frozen=True, repr=False)
class Refusal:
    """An error that clients raised.

    It is a result, not an exception: Dask would log an exception with its arguments.
    """

    error: Exception

    @classmethod
    def of(cls, error: Exception, where: str) -> Refusal:
        """Return an exception in a form that can be sent anywhere."""
        if isinstance(error, InvalidType | InvalidValue):
            named = InvalidType if isinstance(error, InvalidType) else InvalidValue
            return cls(
                named(error.parameter, f"{error.what}{where}", row=error.row, advice=error.advice)
            )
        for kind in _KINDS:
            if isinstance(error, kind):
                return cls(kind(f"{str(error) or type(error).__name__}{where}"))
        return cls(ClusterError(f"{type(error).__name__}: {error}{where}"))


def digest(sharings: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the SHA-256 of blocks' numbers and nonces, in any order."""
    pairs = sorted(number.to_bytes(8, "big") + nonce for number, nonce in sharings)
    return hashlib.sha256(b"".join(pairs)).digest()


@dataclass(frozen=True, repr=False)
class Checked:
    """Checked values that are sent to a worker; their printed form shows none."""

    blocks: Sequence[NDArray[Any]]


@dataclass(frozen=True, repr=False)
class Stored:
    """Parts of a table, to be read by a worker; errors name the file and row."""

    parts: Sequence[Any]


@dataclass(frozen=True, repr=False)
class Sealed:
    """A part of one sharing of a block's values.

    The nonce identifies the sharing: it comes from the operating system, even with a seeded source
    of randomness, so that no two runs have the same.
    """

    number: int
    nonce: bytes


@dataclass(frozen=True, repr=False)
class Block(Sealed):
    """One sharing of the values of a block of users.

    Source k of a row is for ``sizes[k]`` users. For each coordinate there are a key of each row but
    the last, and the last row, or if it is clear its sum.
    """

    sizes: Sequence[int]
    keys: Sequence[Sequence[Key]]
    last: Sequence[Sequence[NDArray[Any]]]
    clear: Sequence[int]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(map(_bytes, self.last))


@dataclass(frozen=True, repr=False)
class Seen(Sealed):
    """A block's sharing, its number of users, and the sums of their clear shares."""

    users: int
    clear: Sequence[int]


@dataclass(frozen=True, repr=False)
class Envelope(Sealed):
    """One block's messages to one shuffler: keys of rows, and its part of the last row."""

    sizes: Sequence[int]
    keys: Sequence[Key]
    last: Sequence[NDArray[Any]]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + _bytes(self.last)


@dataclass(frozen=True)
class Released:
    """The analyzer's result for a shuffler's messages of a coordinate.

    Their sum modulo q, their number, and the digest of their sharings.
    """

    coordinate: int
    total: int
    count: int
    digest: bytes


def _bytes(arrays: Iterable[NDArray[Any]]) -> int:
    """Return the memory of messages, so that the scheduler knows what is large."""
    return sum(
        a.nbytes + (a.size * sys.getsizeof(a[0]) if a.dtype == object and a.size else 0)
        for a in arrays
    )


@dataclass(frozen=True, repr=False)
class BlockSharing:
    """The clients' work: turns values into a `Block`.

    Rounding and noise draw from sources of ``encoding`` (`RandomSource.streams`), one for each
    `USERS_PER_SOURCE` users; a part or a partition has `_STRIDE` to itself. Sources of ``sharing``
    draw keys.
    """

    reader: Reader
    scheme: SharingScheme
    encoding: Callable[[int], RandomSource]
    sharing: Callable[[int], RandomSource]

    __name__ = "clients"  # Dask's name of tasks, which would otherwise print all of this

    def __call__(self, data: Any, number: int) -> Block | Refusal:
        """Return a fresh sharing of values; ``number`` is that of the first part or source."""
        reader, where, stride = self.reader, "", _STRIDE
        try:
            runs: Iterable[Iterable[NDArray[Any]]]
            if isinstance(data, Checked):
                runs, stride = [data.blocks], 1
            elif isinstance(data, Stored):
                runs = (Inputs(reader, iter(part.blocks())).blocks() for part in data.parts)
            else:
                where = f" (in partition {number}, counted from 0)"
                runs = [Inputs(reader, np.asarray(refuse_missing("x", data))).blocks()]
            encode = BlockEncoder(reader, self.encoding)
            encoded = (
                np.atleast_2d(encode(values, first * stride + place).T)
                for first, run in enumerate(runs, number)
                for place, values in enumerate(run)
            )
            return self._shared(encoded, number)
        except Exception as error:  # to be raised by the driver, not logged by Dask
            return Refusal.of(error, where)

    def _shared(self, encoded: Iterator[NDArray[Any]], number: int) -> Block:
        """Return a sharing of elements, which come in pieces of all coordinates."""
        scheme, source, every = self.scheme, self.sharing(number), self.reader.dimension
        group, rows = scheme.group, range(scheme.messages - 1)
        keys = [[source.family() for _ in rows] for _ in range(every)]
        last: list[list[NDArray[Any]]] = [[] for _ in keys]
        clear, sizes = [0 for _ in keys], list[int]()
        # pieces of vectors have fewer users the more coordinates there are
        while some := list(islice(encoded, every)):
            for c, column in enumerate(zip(*some, strict=True)):
                row = np.concatenate(column)
                drawn = np.empty_like(row)
                for key in keys[c]:
                    key(len(sizes)).uniform_into(drawn, group)
                    group.subtract_lazily(row, drawn)
                group.reduce_in_place(row)
                if scheme.clear:
                    clear[c] += group.sum(row)
                else:
                    last[c].append(row)
            sizes.append(row.size)
        return Block(number, os.urandom(NONCE_BYTES), sizes, keys, last, clear)


def described(block: Block | Refusal) -> Seen | Refusal:
    """Return the sharing of a block, with sums of clear shares, or why there is none."""
    if isinstance(block, Refusal):
        return block
    return Seen(block.number, block.nonce, sum(block.sizes), block.clear)


def posted(block: Block | Refusal, coordinate: int, piece: Partition, q: int) -> Envelope | Refusal:
    """Return a block's envelope for a piece of a shuffler's output.

    There may be none even if there was a block: values can be invalid when they are read again.
    """
    if isinstance(block, Refusal):
        return block
    keys = block.keys[coordinate][piece.rows.start : piece.rows.stop]
    last: Sequence[NDArray[Any]] = []
    if len(keys) < len(piece.rows):
        last = block.last[coordinate]
        if piece.parts > 1:
            last = [_within(row.copy(), *piece.ends(q), q) for row in last]
    return Envelope(block.number, block.nonce, block.sizes, keys, last)


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


def mixed(
    envelopes: Sequence[Envelope | Refusal], coordinate: int, piece: Partition, group: Zq
) -> Released | Refusal:
    """Draw, mix and add up the messages of all envelopes; if one is missing, return why."""
    received, size = [], 0
    for envelope in envelopes:
        if isinstance(envelope, Refusal):
            return envelope
        received.append(envelope)
        size += len(envelope.keys) * sum(envelope.sizes) // piece.parts
        size += sum(row.size for row in envelope.last)
    # up to chance, a piece and the users from whose messages its values are selected
    output, count = np.empty(size + (piece.parts > 1) * USERS_PER_SOURCE, dtype=group.dtype), 0
    low, high = piece.ends(group.q)
    for envelope in received:
        for row in envelope.last:
            output[count : count + row.size] = row
            count += row.size
        for key, (number, users) in product(envelope.keys, enumerate(envelope.sizes)):
            end = count + users
            if end > output.size:
                output = np.concatenate([output, np.empty(end, dtype=group.dtype)])
            key(number).uniform_into(output[count:end], group)
            inside = _within(output[count:end], low, high, group.q)
            if inside.size < users:
                output[count : count + inside.size] = inside
            count += inside.size
    output = output[:count]
    output.sort()
    sharings = digest((envelope.number, envelope.nonce) for envelope in received)
    return Released(coordinate, group.sum(output), count, sharings)


# The driver


def block_tasks(
    client: Any, reader: Reader, scheme: SharingScheme, x: Any, rng: RandomSource, threads: int
) -> Generator[Any, None, None]:
    """Yield a future of a `Block` for each block of users, on demand.

    ``x`` is a Dask array or series, a column of tables, or values as `SecureSum.run` takes them.
    """
    endpoint = BlockSharing(reader, scheme, rng.streams(), rng.streams())
    if hasattr(x, "__dask_graph__"):
        yield from _collection(client, x, endpoint)
        return
    blocks: Iterable[tuple[int, Any]]
    if hasattr(x, "parts"):
        blocks = _stored(located(reader.checked, x).parts, threads)
    else:
        span, inputs = BLOCKS_PER_TASK, reader.read(x)
        inputs.check_users()
        if isinstance(inputs.values, np.ndarray):
            users = inputs.values.shape[0]
            blocks_per_thread = users * reader.dimension // (2 * threads * USERS_PER_SOURCE)
            span = min(BLOCKS_PER_TASK, max(1, blocks_per_thread))
        checked = inputs.blocks()
        sent = enumerate(iter(lambda: list(islice(checked, span)), []))
        blocks = ((span * number, Checked(some)) for number, some in sent)
    for number, some in blocks:
        yield client.submit(endpoint, some, number, pure=False)


def _stored(parts: Sequence[Any], threads: int) -> Iterator[tuple[int, Stored]]:
    """Yield parts that follow each other, with the number of the first; they may be small."""
    enough = min(ROWS_PER_TASK, sum(part.rows or 0 for part in parts) // (2 * threads))
    some: list[Any] = []
    rows = 0
    for number, part in enumerate(parts, 1):
        pickle.dumps(part)  # raises the error of a part that cannot be sent, such as a pipe
        some.append(part)
        rows += part.rows or ROWS_PER_TASK
        if rows >= enough or number == len(parts):
            yield number - len(some), Stored(some)
            some, rows = [], 0


def _collection(client: Any, x: Any, endpoint: BlockSharing) -> Iterator[Any]:
    from dask.delayed import delayed

    dimensions = getattr(x, "ndim", None)
    if not isinstance(dimensions, int):  # a delayed object has any attribute, itself delayed
        raise InvalidType(
            "x", f"must be a Dask array or a column of a data frame, got {type(x).__name__}"
        )
    wanted = 1 + len(endpoint.reader.domain.shape)
    if dimensions != wanted:
        raise InvalidValue("x", f"must have {wanted} axes, got {dimensions}")
    if wanted > 1 and hasattr(x, "rechunk"):
        x = x.rechunk(dict.fromkeys(range(1, wanted), -1))  # whole values in each partition
    work = delayed(endpoint, pure=False, traverse=False, name=False)
    partitions = np.ravel(x.to_delayed()).tolist()
    yield from client.compute([work(part, number) for number, part in enumerate(partitions)])


def pieces(
    scheme: SharingScheme, users: int, *, dimension: int, threads: int
) -> list[tuple[int, Partition]]:
    """Return the pieces of all shufflers' output, each with its coordinate.

    A piece has at most `MESSAGES_PER_TASK` messages, up to chance. Columns left over when all
    threads have equally many are cut into ranges, so that each thread has one.
    """
    width = scheme.shuffled if scheme.single else 1
    size, firsts = users * width, range(0, scheme.shuffled, max(1, width))
    columns = list(product(range(dimension), enumerate(firsts)))
    over = len(columns) % threads
    output = []
    for number, (coordinate, (shuffler, first)) in enumerate(columns):
        # short ranges are not worth it
        least = (
            min(threads // over, -(-size // USERS_PER_SOURCE))
            if number >= len(columns) - over
            else 1
        )
        # at most as many as there are values: an empty range would be drawn for nothing
        parts = min(max(least, -(-size // MESSAGES_PER_TASK)), scheme.group.q)
        about = shuffler, range(first, first + width)
        output += [(coordinate, Partition(*about, part, parts)) for part in range(parts)]
    return output


class _Reshared(Exception):  # noqa: N818
    """Clients ran again in between: the results belong to different sharings."""


class _DistributedSum:
    """One sum on a cluster, with its tasks there."""

    def __init__(
        self, client: Any, reader: Reader, scheme: SharingScheme, progress: Progress | None
    ) -> None:
        self.client = client
        self.reader = reader
        self.scheme = scheme
        self.progress = progress
        self.threads = threads(client)
        self.blocks: list[Any] = []
        self.tasks: set[Any] = set()  # of one attempt

    def drop(self, futures: Iterable[Any]) -> None:
        """Forget tasks on the cluster, even if others still refer to them."""
        if (some := list(futures)) and self.client.status == "running":
            self.client.cancel(some, force=True)

    def read(self, tasks: Iterable[Any]) -> list[Seen]:
        """Run clients, a bounded number of blocks at once; stop at the first mistake."""
        under_way: deque[Any] = deque()
        seen = []
        for block in tasks:
            self.blocks.append(block)
            under_way.append(self.client.submit(described, block, priority=1, pure=False))
            if len(under_way) > 2 * self.threads:
                seen += self._accepted([under_way.popleft()])
        return seen + self._accepted(under_way)

    def seen_again(self) -> list[Seen]:
        """Forget an attempt, and find the present sharings."""
        self.drop(self.tasks)
        tasks = self.client.map(described, self.blocks, pure=False)
        self.tasks = set(tasks)
        return self._accepted(tasks)

    def attempt(self, seen: list[Seen]) -> Totals:
        """Return the sum of each coordinate of the blocks that were seen, and the number of users.

        Raises `_Reshared` if blocks were shared again in between.
        """
        scheme, d = self.scheme, self.reader.dimension
        users = sum(block.users for block in seen)
        self.reader.users.check("x", users)
        sharings = digest((block.number, block.nonce) for block in seen)
        totals = [sum(clear) for clear in zip(*(block.clear for block in seen), strict=True)]
        todo = pieces(scheme, users, dimension=d, threads=self.threads)
        count = 0
        for done, released in enumerate(self._released(todo), 1):
            if not _same(released.digest, sharings):
                raise _Reshared
            totals[released.coordinate] += released.total
            count += released.count
            if self.progress is not None:
                self.progress(done, len(todo))
        if count != users * scheme.shuffled * d:
            raise ClusterError(
                f"shufflers released {count} messages of {users} users; nothing was returned"
            )
        return Totals([total % scheme.group.q for total in totals], users)

    def _accepted(self, tasks: Iterable[Any]) -> list[Any]:
        """Return the results of tasks, or raise the error of the first client that failed."""
        accepted = results(self.client, tasks)
        for result in accepted:
            if isinstance(result, Refusal):
                raise result.error
        return accepted

    def _released(self, todo: Sequence[tuple[int, Partition]]) -> Iterator[Released]:
        """Yield the analyzer's result for each piece, with a few under way at once."""
        waiting = iter(todo)
        under_way: set[Any] = set()
        while True:
            free = PIECES_PER_THREAD * self.threads - len(under_way)
            tasks = self._mixed(list(islice(waiting, free)))
            under_way.update(tasks)
            if not under_way:
                return
            self.tasks.update(tasks)
            done = first_done(self.client, under_way)
            yield from self._accepted(done)
            under_way -= done
            self.tasks -= done

    def _mixed(self, some: Sequence[tuple[int, Partition]]) -> list[Any]:
        """Start the clients' envelopes and the shufflers for some pieces."""
        if not some:
            return []
        client, blocks, scheme = self.client, self.blocks, self.scheme
        # envelopes of keys alone are the same for all ranges of values
        posts = [
            (c, piece if piece.rows.stop == scheme.messages else replace(piece, part=0))
            for c, piece in some
        ]
        kinds = list(dict.fromkeys(posts))
        envelopes = zip(*((block, *kind) for block in blocks for kind in kinds), strict=True)
        about = {"q": scheme.group.q, "priority": 1}  # before shufflers, which wait for all blocks
        futures = client.map(posted, *map(list, envelopes), **about, pure=False)
        received = [futures[kinds.index(post) :: len(kinds)] for post in posts]
        to = zip(*some, strict=True)
        tasks: list[Any] = client.map(mixed, received, *to, group=scheme.group, pure=False)
        return tasks


def _same(released: bytes, blocks: bytes) -> bool:
    return released == blocks


def add_up(
    client: Any,
    reader: Reader,
    scheme: SharingScheme,
    x: Any,
    rng: RandomSource,
    progress: Progress | None,
) -> Totals:
    """Run a secure summation on a cluster: return each coordinate's sum and the number of users.

    The progress counts the finished pieces of the shufflers' output; it restarts with the
    shuffling. However the sum ends, no task of it stays on the cluster.
    """
    with client.as_current(), connection():
        check_versions(client)
        run = _DistributedSum(client, reader, scheme, progress)
        try:
            with closing(block_tasks(client, reader, scheme, x, rng, run.threads)) as tasks:
                seen = run.read(tasks)
            for _ in range(MAX_ATTEMPTS):
                try:
                    return run.attempt(seen)
                except _Reshared:
                    seen = run.seen_again()
        finally:
            run.drop(run.tasks)  # before the blocks that they take, or the scheduler stumbles
            run.drop(run.blocks)
    raise ClusterError(
        f"in the middle of each of {MAX_ATTEMPTS} attempts workers were lost and shares drawn "
        "again; nothing was released"
    )
