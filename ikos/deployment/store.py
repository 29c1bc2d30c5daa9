"""A party's store: an SQLite file that one thread writes, durable before a request is answered.

The windows of a task share it. Each row has a digest. The tally, for each window and table the
number of its entries and the sum of its rows' digests, is written with them, and a file next to the
database counts changes. So a row damaged or lost by accident is an error when it is read. This does
not stop an attacker who can write to the disk, and so can write other digests.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import queue
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ikos.deployment.party_files import PartyConfig, write_new

LAYOUT = 6
TOGETHER = 512  # writes in one transaction at most: all are answered after its commit
REPORTS = "reports"  # the fact that records how many there were, when they are deleted
SPARE_BYTES = 1 << 20  # on a disk that is not full; its log may have room for small writes
SHRINK_SECONDS = 5  # to wait for readers
FRESH_SECONDS = 1.0  # for which a check answers all requests

SCHEMA = """
CREATE TABLE IF NOT EXISTS fact (
    window INTEGER, name TEXT PRIMARY KEY, value TEXT NOT NULL, digest BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tally (
    place INTEGER PRIMARY KEY, text TEXT NOT NULL, digest BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS report (
    window INTEGER, first INTEGER, parts BLOB NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (window, first)
);
CREATE TABLE IF NOT EXISTS complete (
    window INTEGER PRIMARY KEY, ids BLOB NOT NULL, digest BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS opened (
    window INTEGER, party INTEGER, sums TEXT NOT NULL, rest BLOB NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (window, party)
);
"""
"""The last column of each table is the digest of the others. Facts of all windows are of window 0,
each under a name that begins with its own."""

TABLES = ("report", "complete", "opened")  # those that are cleared

PROBLEMS = {
    "FULL": "storeFull",
    "CORRUPT": "storeDamaged",
    "NOTADB": "storeDamaged",
    "BUSY": "storeBusy",
    "LOCKED": "storeBusy",
    "READONLY": "storeReadOnly",
}
"""Names of problems by SQLite's names of errors; any other is ``storeFailed``."""

_WRITING = "the store cannot be written to"
_COUNTING = "the count of changes cannot be written"
_NONE = (0, 0)  # rows, and the sum of their digests

_T = TypeVar("_T")

log = logging.getLogger("ikos.deployment")


class StoreError(OSError):
    """The store cannot be used for now. Nothing was written; earlier writes are kept."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.name = name


def damaged(words: str) -> StoreError:
    """Return the error for a damaged store."""
    return StoreError("storeDamaged", f"the store is damaged: {words}")


def _added(total: int, digest: bytes) -> int:
    """Return the sum of digests after adding one."""
    return (total + int.from_bytes(digest, "big")) % (1 << 256)


def _named(what: str, error: sqlite3.Error | StoreError) -> StoreError:
    """Return an error under its own name."""
    if isinstance(error, StoreError):
        return error
    code = getattr(error, "sqlite_errorname", None)
    if code is None:  # Python's own error, which may quote what was read
        return StoreError("storeFailed", f"{what}: {type(error).__name__}")
    name = PROBLEMS.get(code.split("_")[1], "storeFailed")
    return StoreError(name, f"{what}: {error} ({code})")


@dataclass
class _Contents:
    """Content of a store: its number of changes, the tally of each window's tables, and facts."""

    changes: int
    tallies: dict[str, tuple[int, int]]
    facts: dict[str, str]

    def tally(self, window: int, table: str) -> tuple[int, int]:
        return self.tallies.get(f"{table} {window}", _NONE)


class Writing(_Contents):
    """Work on a window in one transaction: queries by ``connection``, rows by its methods.

    The functions that it adds to ``undo`` are called if the work is not kept.
    """

    def __init__(
        self,
        store: Store,
        connection: sqlite3.Connection,
        before: _Contents,
        window: int,
        undo: list[Callable[[], object]],
    ) -> None:
        super().__init__(before.changes, dict(before.tallies), before.facts)
        self._store, self.window = store, window
        self.connection, self.undo = connection, undo

    def insert(self, table: str, *row: bytes | str | int, count: int = 1) -> None:
        """Add a row, of ``count`` entries."""
        self._insert(self.window, table, row, count)

    def _insert(self, window: int, table: str, row: Sequence[Any], count: int = 1) -> None:
        digest = self._store.digest(table, (window, *row))
        values = (window, *row, digest)
        marks = ", ".join("?" * len(values))
        self.connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)
        before, total = self.tally(window, table)
        self.tallies[f"{table} {window}"] = before + count, _added(total, digest)
        self.touch()

    def count(self, table: str) -> int:
        """Return the number of entries in a table."""
        return self.tally(self.window, table)[0]

    def fact(self, name: str) -> str | None:
        """Return the value recorded under a name."""
        return self.facts.get(f"{self.window} {name}")

    def note(self, name: str, value: str) -> str:
        """Record a fact permanently; return the first value recorded."""
        if (first := self.fact(name)) is not None:
            return first
        full_name = f"{self.window} {name}"
        self._insert(0, "fact", (full_name, value))
        self.facts = {**self.facts, full_name: value}
        return value

    @property
    def deleted(self) -> bool:
        """Whether `clear` was called: there are no reports any more."""
        return self.fact(REPORTS) is not None

    def clear(self, tables: Sequence[str] = TABLES) -> None:
        """Delete all rows of some tables, but not how many reports there were."""
        self.note(REPORTS, str(self.count("report")))
        for table in tables:
            self.empty(table)
        self.touch()

    def empty(self, table: str) -> None:
        """Delete all rows of a table."""
        self.connection.execute(f"DELETE FROM {table} WHERE window = ?", (self.window,))
        self.tallies.pop(f"{table} {self.window}", None)

    def touch(self) -> None:
        """Count a change, so that the tally is written even if nothing else is."""
        self.changes += 1


def _undo(undo: list[Callable[[], object]], kept: int = 0) -> None:
    """Undo all but the first ``kept`` changes, the last one first."""
    while len(undo) > kept:
        undo.pop()()


_Write = Callable[[Writing], Any]


class Store:
    """A database file with ordered writes."""

    def __init__(self, config: PartyConfig) -> None:
        self.path = path = config.store
        self._name = config.task.name
        self._bound = hashlib.sha256(
            b"ikos-parties 3 row" + config.task.id + config.party.to_bytes(4, "big")
        )
        self._trouble: dict[str, StoreError] = {}
        self._noting, self._checking = threading.Lock(), threading.Lock()
        self._checked = -math.inf
        counter = path.with_name(f"{path.name}-count")
        try:
            path.touch(mode=0o600, exist_ok=True)
            with closing(self._connect()) as connection:
                self._contents = self._opened(connection, counter)
            self._contents.facts = {str(name): str(value) for name, value in self.rows(0, "fact")}
            self._writer = self._connect()
            self._count = counter.open("r+b", buffering=0)
        except (OSError, sqlite3.Error) as error:
            raise ValueError(f"{str(path)!r} cannot be used as a store: {error}") from None
        self._queue: queue.SimpleQueue[tuple[_Write, int, Future[Any]] | None] = queue.SimpleQueue()
        self._closing, self._closed = threading.Lock(), False
        # told what took how many seconds: writes, and the steps of a release
        self.timed: Callable[[str, float], object] = lambda *_: None
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self._thread.start()

    def _opened(self, connection: sqlite3.Connection, counter: Path) -> _Contents:
        """Return the store's content, without its facts; create it if it is new."""
        layout = connection.execute("PRAGMA user_version").fetchone()[0]
        if layout not in (0, LAYOUT):
            raise ValueError(f"{str(self.path)!r} was written by another version of ikos")
        if layout == 0 and not (counter.exists() and counter.stat().st_size):
            counter.unlink(missing_ok=True)  # empty if an earlier write of it failed
            write_new(counter, self._line(0))
        # after damage SQLite silently drops part of its log: only this shows it
        line = counter.read_bytes()
        known = line[:20].decode("ascii", "replace")
        if not known.isdecimal() or self._line(int(known)) != line:
            raise damaged("the count of changes is not what was written")
        counted = int(known)  # never more than are on disk
        if layout == 0:  # otherwise nothing is written: a store on a full disk can be read
            if counted:
                raise damaged(f"none of {counted} recorded changes is present")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(SCHEMA)
            self._write_tally(connection, _Contents(0, {}, {}))
            connection.execute(f"PRAGMA user_version={LAYOUT}")
            connection.commit()
        return self._tally(connection, counted)

    def _connect(self) -> sqlite3.Connection:
        # a connection may pass between threads, but is used by one at a time
        connection = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
        # damaged bytes of text are read, and detected by their digest: an error would quote them
        connection.text_factory = lambda data: data.decode(errors="replace")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("PRAGMA temp_store=MEMORY")  # sorting leaves no trace on disk
        return connection

    @property
    def windows(self) -> list[int]:
        """The windows with any data, in order."""
        known = [name.partition(" ")[0] for name in self._contents.facts]
        rows = [name.partition(" ")[2] for name in self._contents.tallies if name != "fact 0"]
        return sorted({*map(int, known), *map(int, rows)})

    @property
    def alive(self) -> bool:
        """Whether its writer runs; otherwise writes wait forever."""
        return self._thread.is_alive()

    def fact(self, window: int, name: str) -> str | None:
        """Return a recorded fact of a window; like counts, from memory."""
        return self._contents.facts.get(f"{window} {name}")

    def count(self, window: int, table: str) -> int:
        """Return the number of entries in a window's table."""
        return self._contents.tally(window, table)[0]

    def digest(self, table: str, row: Sequence[Any]) -> bytes:
        """Return the digest of a row: of the task, the party, the table, and the row's values."""
        parts = [cell if isinstance(cell, bytes) else str(cell).encode() for cell in row]
        cells = zip(row, parts, strict=True)
        shape = " ".join(f"{type(cell).__name__}{len(part)}" for cell, part in cells)
        digest = self._bound.copy()
        digest.update(f"{table} {shape}\n".encode())
        for part in parts:
            digest.update(part)
        return digest.digest()

    def _write_tally(self, connection: sqlite3.Connection, contents: _Contents) -> None:
        text = json.dumps([contents.changes, contents.tallies])
        row = (1, text, self.digest("tally", (1, text)))
        connection.execute("INSERT OR REPLACE INTO tally VALUES (?, ?, ?)", row)

    def _tally(self, connection: sqlite3.Connection, least: int) -> _Contents:
        """Return the tallies on disk, after at least this many changes."""
        row: tuple[Any, ...] = connection.execute("SELECT * FROM tally").fetchone() or (b"",)
        if self.digest("tally", row[:-1]) != row[-1]:
            raise damaged("the tally of its rows is not what was written")
        changes, tallies = json.loads(row[1])
        if changes < least:
            raise damaged(f"only {changes} of at least {least} recorded changes are present")
        return _Contents(changes, {table: (n, total) for table, (n, total) in tallies.items()}, {})

    def _line(self, changes: int) -> bytes:
        """Return a count of changes in constant length, as written next to the database."""
        text = f"{changes:020d}"
        return f"{text} {self.digest('count', (text,)).hex()}\n".encode()

    def rows(self, window: int, table: str) -> Generator[list[Any], None, None]:
        """Yield a window's rows of a table, without their digests, ordered by the first column.

        StoreError at a row that is not as written; after the last one, if any are missing.
        """
        least = self._contents.changes
        with self.read(f"table {table!r} of the store") as reader:
            reader.execute("BEGIN")  # so that the tally and the rows are of one moment
            _, written = self._tally(reader, least).tally(window, table)
            total = 0
            query = f"SELECT * FROM {table} WHERE window = ? ORDER BY 2"
            for place, (number, *row, digest) in enumerate(reader.execute(query, (window,)), 1):
                if self.digest(table, (number, *row)) != digest:
                    # identified by its number: ids are private
                    raise damaged(f"row {place} of table {table!r} is not what was written")
                total = _added(total, digest)
                yield row
            if total != written:
                raise damaged(f"the rows of table {table!r} are not those that were written")

    def check(self) -> StoreError | None:
        """Write and read a little; return any failure, of this or of earlier work."""
        if self._checking.acquire(blocking=False):  # one check for all requests
            try:
                if time.monotonic() - self._checked >= FRESH_SECONDS:
                    with suppress(OSError):  # then the next writes tell
                        free = shutil.disk_usage(self.path.parent).free
                        words = f"less than {SPARE_BYTES} bytes are free on its disk"
                        short = StoreError("storeFull", words) if free < SPARE_BYTES else None
                        self._note("space", short)
                    with suppress(OSError):  # it is noted
                        self.write(0, Writing.touch).result()
                        least = self._contents.changes
                        with self.read("the tally of the store") as reader:
                            self._tally(reader, least)
                    self._checked = time.monotonic()
            finally:
                self._checking.release()
        with self._noting:
            return next(iter(self._trouble.values()), None)

    def _note(self, what: str, error: StoreError | None) -> None:
        """Log a failure when it begins, and when it ends."""
        with self._noting:
            before = self._trouble.pop(what, None)
            if error is not None:
                self._trouble[what] = error
        if error is None and before is not None:
            log.info("task %s: this is over: %s", self._name, before)
        elif error is not None and (before is None or before.name != error.name):
            log.error("task %s: %s", self._name, error)

    @contextmanager
    def read(self, what: str = "the store") -> Iterator[sqlite3.Connection]:
        """Open a connection for reading; StoreError if that fails, or its use does."""
        reading = f"{what} cannot be read"
        try:
            with closing(self._connect()) as connection:
                yield connection
        except (sqlite3.Error, StoreError) as error:
            failure = _named(reading, error)
            self._note(reading, failure)
            raise failure from None
        self._note(reading, None)

    def write(self, window: int, work: Callable[[Writing], _T]) -> Future[_T]:
        """Queue some work on a window; the future has the result when it is on disk.

        An exception of ``work`` undoes only its own changes. A failure of SQLite is a `StoreError`;
        a closed store is an OSError.
        """
        result: Future[_T] = Future()
        with self._closing:
            if self._closed:
                result.set_exception(OSError("the store is closed"))
            else:
                self._queue.put((work, window, result))
        return result

    def close(self) -> None:
        """Finish pending work, and close."""
        with self._closing:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        with closing(self._count), closing(self._writer) as connection:
            connection.isolation_level = None
            going_on = True
            while going_on:
                taken = [self._queue.get()]
                while taken[-1] and len(taken) < TOGETHER and not self._queue.empty():
                    taken.append(self._queue.get())
                going_on = taken[-1] is not None
                # a write whose client is gone is not begun; one that is begun is finished
                waiting = [w for w in taken if w and w[2].set_running_or_notify_cancel()]
                begin, undo = time.monotonic(), list[Callable[[], object]]()
                try:
                    answers = self._transact(connection, waiting, undo)
                    self.timed("write", time.monotonic() - begin)
                except (sqlite3.Error, StoreError) as error:
                    # nothing of this transaction is stored, and no client was told otherwise
                    if connection.in_transaction:
                        with suppress(sqlite3.Error):
                            connection.execute("ROLLBACK")
                    _undo(undo)
                    failed = _named(_WRITING, error)
                    self._note(_WRITING, failed)
                    answers = [partial(result.set_exception, failed) for *_, result in waiting]
                for answer in answers:
                    answer()

    def _transact(
        self,
        connection: sqlite3.Connection,
        waiting: list[tuple[_Write, int, Future[Any]]],
        undo: list[Callable[[], object]],
    ) -> list[Callable[[], None]]:
        """Do writes in one transaction; return the answer to each, now that it is on disk."""
        answers: list[Callable[[], None]] = []
        contents: _Contents = self._contents
        connection.execute("BEGIN IMMEDIATE")
        if self._tally(connection, contents.changes).changes != contents.changes:
            raise StoreError("storeFailed", f"{_WRITING}: another program has written to it")
        for work, window, result in waiting:
            connection.execute("SAVEPOINT write")
            writing = Writing(self, connection, contents, window, undo)
            kept = len(undo)
            try:
                answers.append(partial(result.set_result, work(writing)))
                contents = writing
            except sqlite3.Error:
                raise
            except Exception as error:  # the caller's: only its own write is undone
                connection.execute("ROLLBACK TO write")
                _undo(undo, kept)
                answers.append(partial(result.set_exception, error))
            connection.execute("RELEASE write")
        changed = contents.changes != self._contents.changes
        if changed:
            self._write_tally(connection, contents)
        connection.execute("COMMIT")
        if changed:
            self._contents = contents
            self._note(_WRITING, None)
            try:  # after the commit: a count that is too small is also valid
                self._count.seek(0)
                self._count.write(self._line(contents.changes))
                self._note(_COUNTING, None)
            except OSError as error:
                self._note(_COUNTING, StoreError("storeFailed", f"{_COUNTING}: {error.strerror}"))
        return answers

    def shrink(self) -> None:
        """Erase deleted data from the file and its log; StoreError if a reader holds them there."""
        self.write(0, lambda _: None).result()
        with self.read() as connection:
            connection.execute(f"PRAGMA busy_timeout={1000 * SHRINK_SECONDS}")
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreError("storeBusy", "a reader holds the store, and with it what was deleted")
