"""The driver of a sum: blocks, then one attempt after another until all shufflers agree."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np

from ikos.aggregation.shuffled_sum import (
    USERS,
    ShuffledSum,
    checked_blocks,
    iterator_or_array,
    with_location,
)
from ikos.cluster.errors import ClusterError, Refusal, connection
from ikos.cluster.tasks import (
    BlockSharing,
    Checked,
    Released,
    Seen,
    described,
    digest,
    mixed,
    picked,
    posted,
)
from ikos.cluster.versions import check_versions
from ikos.cluster.waiting import first_done, results, threads
from ikos.concurrency import Progress
from ikos.randomness import RandomSource
from ikos.sharing import Partition, SharingScheme

LONGEST = 1 << 26
"""Approximate cap on the messages of a shuffler's task: 512 MiB of uint64, held twice."""

WORTHWHILE = 1 << 20
"""Messages of a task at least, where a column is cut to keep all threads busy."""

ATTEMPTS = 8
"""How often the shuffling may begin."""

SPAN = 4
"""Blocks of `USERS` users in one task at most: as messages of less than 10 MB."""

_STRIDE = 1 << 32


def block_tasks(
    client: Any, clients: ShuffledSum[Any], x: Any, rng: RandomSource, threads: int
) -> Generator[Any, None, None]:
    """Yield a future of a `Block` for each block of users, as fast as they are asked for.

    ``x`` is a Dask array or series, a column of tables, or what `SecureSum.run` takes.
    """
    encoding, sharing = rng.streams(), rng.streams()
    if hasattr(x, "__dask_graph__"):
        yield from _collection(client, x, BlockSharing(clients, encoding, sharing, _STRIDE))
        return
    given: Iterable[Any]
    span = SPAN
    if hasattr(x, "parts"):
        # a part that cannot be sent, such as a pipe, says so as it is pickled
        given = (part for part in with_location(clients, x).parts if pickle.dumps(part))
        span = _STRIDE
    else:
        values = iterator_or_array(clients, x)
        if isinstance(values, np.ndarray):
            clients.check_users(values.size, "x")
            span = min(SPAN, max(1, values.size // (2 * threads * USERS)))
        blocks = checked_blocks(clients, values)
        given = map(Checked, iter(lambda: list(islice(blocks, span)), []))
    endpoint = BlockSharing(clients, encoding, sharing, span)
    for number, some in enumerate(given):
        yield client.submit(endpoint, some, number, pure=False)


def _collection(client: Any, x: Any, endpoint: BlockSharing) -> Iterator[Any]:
    from dask.delayed import delayed

    dimensions = getattr(x, "ndim", None)
    if not isinstance(dimensions, int):  # what is delayed has any attribute, delayed as well
        raise TypeError(
            f"x must be a Dask array or a column of a data frame, got {type(x).__name__}"
        )
    if dimensions != 1:
        raise ValueError(f"x must be one-dimensional, got {dimensions} dimensions")
    work = delayed(endpoint, pure=False, traverse=False, name=False)
    partitions = np.ravel(x.to_delayed()).tolist()
    yield from client.compute([work(given, number) for number, given in enumerate(partitions)])


def columns(setting: SharingScheme, users: int, threads: int) -> list[tuple[Partition, ...]]:
    """Return the pieces of all shufflers' output, in groups for which blocks are drawn again once.

    A group has about as many messages as there are users; of a single shuffler, up to `LONGEST`.
    """
    shuffled = setting.shuffled
    if not shuffled:
        return []
    # no more than there are values: a range without any would be drawn for nothing
    values = setting.group.q
    most = -(-shuffled * users // max(users, LONGEST))
    groups = min(most, values) if setting.single else shuffled
    size = -(-shuffled * users // groups)
    ranges = max(-(-size // LONGEST), min(-(-threads // groups), size // WORTHWHILE), 1)
    if setting.single:
        ranges = min(ranges, values // groups)
        parts = groups * ranges
        whole = [Partition(0, range(shuffled), part, parts, False) for part in range(parts)]
        return [tuple(whole[first : first + ranges]) for first in range(0, parts, ranges)]
    ranges = min(ranges, values)
    return [
        tuple(Partition(row, range(row, row + 1), part, ranges, False) for part in range(ranges))
        for row in range(shuffled)
    ]


class _Reshared(Exception):  # noqa: N818
    """Clients ran again in the middle: what came back belongs to different sharings."""


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
        """Forget tasks on the cluster, whatever still refers to them."""
        if (some := list(futures)) and self.client.status == "running":
            self.client.cancel(some, force=True)

    def read(self, tasks: Iterable[Any]) -> None:
        """Let clients work, a bounded number of blocks at once; stop at the first mistake."""
        under_way: deque[Any] = deque()
        for block in tasks:
            self.blocks.append(block)
            under_way.append(self.client.submit(described, block, clear=False, pure=False))
            if len(under_way) > 2 * self.threads:
                self._accepted([under_way.popleft()])

    def attempt(self) -> tuple[int, int]:
        """Return the sum of the blocks as they are now, and the number of users.

        Raises `_Reshared` if blocks were shared again in between.
        """
        self.drop(self.tasks)
        setting = self.clients.setting
        tasks = self.client.map(described, self.blocks, clear=setting.clear, pure=False)
        self.tasks = set(tasks)
        seen: list[Seen] = self._accepted(tasks)
        users = sum(one.users for one in seen)
        self.clients.check_users(users, "x")
        sharings = digest((one.number, one.nonce) for one in seen)
        total = sum(one.clear for one in seen)
        todo = columns(setting, users, self.threads)
        wanted = sum(map(len, todo))
        count = 0
        for done, released in enumerate(self._released(todo), 1):
            if not _same(released.digest, sharings):
                raise _Reshared
            total += released.total
            count += released.count
            if self.progress is not None:
                self.progress(done, wanted)
        if count != users * setting.shuffled:
            raise ClusterError(
                f"shufflers released {count} messages of {users} users; nothing was returned"
            )
        return total % setting.group.q, users

    def _accepted(self, tasks: Iterable[Any]) -> list[Any]:
        """Return what tasks found, or raise what the first of the clients raised."""
        found = results(self.client, tasks)
        for one in found:
            if isinstance(one, Refusal):
                one.throw()
        return found

    def _released(self, todo: list[tuple[Partition, ...]]) -> Iterator[Released]:
        """Yield what the analyzer makes of each piece, with a few columns under way at once."""
        if not todo:
            return
        columns = deque(todo)
        ranges = len(columns[0])
        ahead = -(-self.threads // ranges) * ranges
        under_way: set[Any] = set()
        while columns or under_way:
            while columns and len(under_way) <= ahead:
                tasks = self._mixed(columns.popleft())
                self.tasks.update(tasks)
                under_way.update(tasks)
            done = first_done(self.client, under_way)
            yield from self._accepted(done)
            under_way -= done
            self.tasks -= done

    def _mixed(self, pieces: tuple[Partition, ...]) -> list[Any]:
        """Start the clients' envelopes and the shufflers of a column."""
        client, group = self.client, self.clients.setting.group
        posts = client.map(posted, self.blocks, pieces=pieces, pure=False)
        if len(pieces) == 1:
            return [client.submit(mixed, posts, group, pure=False)]
        return [
            client.submit(
                mixed, client.map(picked, posts, place=place, pure=False), group, pure=False
            )
            for place in range(len(pieces))
        ]


def _same(released: bytes, blocks: bytes) -> bool:
    """Whether a shuffler's envelopes were all of the sharings that the blocks are."""
    return released == blocks


def add_up(
    client: Any, clients: ShuffledSum[Any], x: Any, rng: RandomSource, progress: Progress | None
) -> tuple[int, int]:
    """Run a secure summation on a cluster: return the sum modulo q and the number of users.

    The progress is the number of pieces of the shufflers' output that are done; it begins anew
    where the shuffling does. Whatever ends the sum, nothing of it stays on the cluster.
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
            made.drop(made.tasks)  # before what they take, at which the scheduler would stumble
            made.drop(made.blocks)
    raise ClusterError(
        f"in the middle of each of {ATTEMPTS} attempts workers were lost and shares drawn again; "
        "nothing was released"
    )
