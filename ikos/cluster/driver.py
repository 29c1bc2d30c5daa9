"""The driver of a sum: blocks, then one attempt after another until all shufflers agree."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

from ikos.aggregation.engine import Partition, SharingScheme
from ikos.aggregation.execution import Encoder
from ikos.cluster.columns import block_tasks
from ikos.cluster.errors import ClusterError, Refused, connection
from ikos.cluster.tasks import Released, Seen, described, digest, mixed, picked, posted
from ikos.cluster.versions import check_versions
from ikos.cluster.waiting import first_done, results, threads
from ikos.concurrency import Interrupted, Progress
from ikos.randomness import RandomSource

LONGEST = 1 << 26
"""Messages of a shuffler's task at most, up to chance: 512 MiB of uint64, held twice."""

WORTHWHILE = 1 << 20
"""Messages of a task at least, where a column is cut to keep all threads at work."""

ATTEMPTS = 8
"""How often the shuffling may begin again."""


class _Reshared(Exception):  # noqa: N818
    """Clients ran again in the middle: what came back belongs to different sharings."""


def columns(setting: SharingScheme, users: int, threads: int) -> list[tuple[Partition, ...]]:
    """Return the pieces of all shufflers' output, in groups for which blocks are drawn again once.

    A group has as many messages as there are users, about; of a single shuffler, up to `LONGEST`.

    Parameters
    ----------
    setting : Setting
        What is sent to whom.
    users : int
        How many.
    threads : int
        Of the cluster.
    """
    many = setting.shuffled
    if not many:
        return []
    # no more than there are values: a range without any would be drawn for nothing
    values = setting.group.q
    groups = min(-(-many * users // max(users, LONGEST)), values) if setting.single else many
    size = -(-many * users // groups)
    ranges = max(-(-size // LONGEST), min(-(-threads // groups), size // WORTHWHILE), 1)
    if setting.single:
        ranges = min(ranges, values // groups)
        parts = groups * ranges
        whole = [Partition(0, range(many), part, parts, False) for part in range(parts)]
        return [tuple(whole[first : first + ranges]) for first in range(0, parts, ranges)]
    ranges = min(ranges, values)
    return [
        tuple(Partition(row, range(row, row + 1), part, ranges, False) for part in range(ranges))
        for row in range(many)
    ]


class _Futures:
    """What is held on the cluster: the blocks, and the shufflers' tasks of one attempt."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.blocks: list[Any] = []
        self.others: set[Any] = set()

    def begin_again(self) -> None:
        """Drop all but the blocks."""
        self._drop(self.others)
        self.others.clear()

    def end(self) -> None:
        """Drop everything, whoever still refers to it."""
        self.begin_again()
        self._drop(self.blocks)
        self.blocks.clear()

    def _drop(self, futures: Iterable[Any]) -> None:
        if futures and self.client.status == "running":
            self.client.cancel(list(futures), force=True)


class _Sum:
    """One sum on a cluster."""

    def __init__(self, client: Any, clients: Encoder, progress: Progress | None) -> None:
        self.client = client
        self.clients = clients
        self.threads = 1  # until the cluster is asked
        self.progress = progress
        self.futures = _Futures(client)
        self.done = 0
        self.wanted = 0  # not known before all values are read

    def read(self, tasks: Iterable[Any]) -> None:
        """Let clients work, a bounded number of blocks at once; stop at the first mistake."""
        under_way: deque[Any] = deque()
        for block in tasks:
            self.futures.blocks.append(block)
            under_way.append(self.client.submit(described, block, clear=False, pure=False))
            if len(under_way) > 2 * self.threads:
                self._accepted([under_way.popleft()])

    def attempt(self) -> tuple[int, int]:
        """Return the sum of the blocks as they are now, and the number of users.

        Raises
        ------
        _Reshared
            If they were others in between.
        """
        setting = self.clients.setting
        tasks = self.client.map(described, self.futures.blocks, clear=setting.clear, pure=False)
        self.futures.others.update(tasks)
        seen: list[Seen] = self._accepted(tasks)
        users = sum(one.users for one in seen)
        self.clients.check_users(users, "x")
        sharings = digest((one.number, one.nonce) for one in seen)
        total = sum(one.clear for one in seen)
        todo = columns(setting, users, self.threads)
        self.done, self.wanted = 0, sum(map(len, todo))
        count = 0
        for released in self._released(todo):
            if not _same(released.digest, sharings):
                raise _Reshared
            total += released.total
            count += released.count
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.wanted)
        if count != users * setting.shuffled:
            raise ClusterError(
                f"shufflers released {count} messages of {users} users; nothing was returned"
            )
        return total % setting.group.q, users

    def _accepted(self, tasks: list[Any]) -> list[Any]:
        """Return what tasks found, or raise what the first of the clients raised."""
        found = results(self.client, tasks)
        for one in found:
            if isinstance(one, Refused):
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
                self.futures.others.update(tasks)
                under_way.update(tasks)
            done = first_done(self.client, under_way)
            yield from self._accepted(list(done))
            under_way -= done
            self.futures.others -= done

    def _mixed(self, pieces: tuple[Partition, ...]) -> list[Any]:
        """Put the clients to their envelopes and the shufflers of a column to work."""
        client, group = self.client, self.clients.setting.group
        posts = client.map(posted, self.futures.blocks, pieces=pieces, pure=False)
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
    client: Any, clients: Encoder, x: Any, rng: RandomSource, progress: Progress | None
) -> tuple[int, int]:
    """Run a secure summation on a cluster.

    Parameters
    ----------
    client : distributed.Client
        The connection.
    clients, x, rng
        As for `ikos.cluster.columns.block_tasks`.
    progress : callable, optional
        Called with the pieces of the shufflers' output that are done, and their number; it begins
        anew where the shuffling does.

    Returns
    -------
    z, users : int
        The sum modulo q, and how many users there were.

    Raises
    ------
    TypeError, ValueError
        If a value is not one that the users may have, or there are too few or too many.
    ClusterError
        If workers are lost faster than the sum can be made, or all of them are for
        `ikos.cluster.waiting.LIMIT` seconds, or the scheduler is.
    Interrupted
        At Ctrl-C; nothing was released.
    """
    with client.as_current(), connection():
        made = _Sum(client, clients, progress)
        try:
            check_versions(client)
            made.threads = threads(client)
            with closing(block_tasks(client, clients, x, rng, made.threads)) as tasks:
                made.read(tasks)
            for _ in range(ATTEMPTS):
                try:
                    return made.attempt()
                except _Reshared:
                    made.futures.begin_again()
        except KeyboardInterrupt:
            if made.wanted:
                stopped = Interrupted(
                    None, made.done, made.wanted, "pieces of the shufflers' output"
                )
            else:
                stopped = Interrupted(None, 0, 0, "while values were read")
            raise stopped from None
        finally:
            made.futures.end()
    raise ClusterError(
        f"in the middle of each of {ATTEMPTS} attempts workers were lost and shares drawn again; "
        "nothing was released"
    )
