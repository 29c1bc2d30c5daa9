"""What a party keeps on disk: SQLite, written by one thread, durable before anybody is answered."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["Full", "Store"]

LAYOUT = 1
TOGETHER = 512
"""Writes of one transaction at most: those that wait are answered after one commit."""

SHRINK_SECONDS = 5
"""For which readers are waited for."""

_T = TypeVar("_T")
_Write = Callable[[sqlite3.Connection], Any]


class Full(OSError):  # noqa: N818
    """The disk is full: nothing was written, and what was written before is there."""


class Store:
    """A database file, with its writes in one order.

    Parameters
    ----------
    path : Path
        The file; made where it is not there, readable by its owner alone.
    schema : str
        Statements that make its tables.

    Raises
    ------
    ValueError
        If it is another kind of file, or of another version.
    """

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        try:
            path.touch(mode=0o600, exist_ok=True)
            with closing(self._opened()) as connection:
                layout = connection.execute("PRAGMA user_version").fetchone()[0]
                if layout not in (0, LAYOUT):
                    raise ValueError(f"{str(path)!r} was written by another version of ikos")
                if layout == 0:  # else nothing is written: what is there can be read on a full disk
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.executescript(schema)
                    connection.execute(f"PRAGMA user_version={LAYOUT}")
                    connection.commit()
            self._writer = self._opened()
        except (OSError, sqlite3.Error) as error:
            raise ValueError(f"{str(path)!r} cannot be used as a store: {error}") from None
        self._queue: queue.SimpleQueue[tuple[_Write, Future[Any]] | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self._thread.start()

    def _opened(self) -> sqlite3.Connection:
        # a connection may be handed from thread to thread, but is used by one at a time
        connection = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("PRAGMA temp_store=MEMORY")  # what is sorted leaves no other trace
        return connection

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Open a connection of one's own; OSError where that, or what is done with it, fails."""
        try:
            with closing(self._opened()) as connection:
                yield connection
        except sqlite3.OperationalError as error:  # a lack of descriptors, of room, of a lock
            raise OSError(f"the store cannot be read: {error}") from None

    def write(self, work: Callable[[sqlite3.Connection], _T]) -> Future[_T]:
        """Let the writer do something; the result is there when it is on disk.

        What ``work`` raises undoes what it alone did. A full disk is `Full`; a store that was
        closed is an OSError.
        """
        result: Future[_T] = Future()
        with self._closing:
            if self._closed:
                result.set_exception(OSError("the store is closed"))
            else:
                self._queue.put((work, result))
        return result

    def close(self) -> None:
        """Finish what waits, and close."""
        with self._closing:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        with closing(self._writer) as connection:
            connection.isolation_level = None
            going_on = True
            while going_on:
                waiting: list[tuple[_Write, Future[Any]]] = []
                first = self._queue.get()
                while first is not None:
                    waiting.append(first)
                    if len(waiting) == TOGETHER or self._queue.empty():
                        break
                    first = self._queue.get()
                going_on = first is not None
                self._together(connection, waiting)

    @staticmethod
    def _together(
        connection: sqlite3.Connection, waiting: list[tuple[_Write, Future[Any]]]
    ) -> None:
        """Do writes in one transaction, and answer each when it is on disk."""
        # what nobody waits for is not begun; what is begun is not given up, and has a result
        waiting = [pair for pair in waiting if pair[1].set_running_or_notify_cancel()]
        done: list[tuple[Future[Any], Any]] = []
        failed: list[tuple[Future[Any], BaseException]] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for work, result in waiting:
                connection.execute("SAVEPOINT one")
                try:
                    done.append((result, work(connection)))
                except sqlite3.Error:
                    raise
                except Exception as error:  # the caller's: its own write is undone, no other
                    connection.execute("ROLLBACK TO one")
                    failed.append((result, error))
                connection.execute("RELEASE one")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            # Nothing of this transaction is there, and nobody was told that it is.
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            reason = Full(f"the store cannot be written to: {error}")
            for _, result in waiting:
                result.set_exception(reason)
            return
        for result, value in done:
            result.set_result(value)
        for result, reason_ in failed:
            result.set_exception(reason_)

    def shrink(self) -> bool:
        """Leave nothing in the file of what was deleted, nor in the log beside it.

        Returns
        -------
        bool
            Whether it is so: somebody who reads for long holds the log.
        """
        self.write(lambda _: None).result()
        with self.read() as connection:
            connection.execute(f"PRAGMA busy_timeout={1000 * SHRINK_SECONDS}")
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
