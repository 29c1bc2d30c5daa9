"""Reports as a party collects them: one for each token and id, acknowledged when on disk."""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime

from ikos.parties.seats import Seat
from ikos.parties.store import Store

__all__ = ["SCHEMA", "Collection", "Outcome", "now"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS report (
    id BLOB PRIMARY KEY, token BLOB NOT NULL UNIQUE, part BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_CLOSED = "closed"
_AT_ONCE = 10_000


def now() -> datetime:
    """Return the time, by this party's clock."""
    return datetime.now(UTC)


class Outcome(enum.Enum):
    """What became of a report."""

    ACCEPTED = "accepted"
    AGAIN = "again"
    CONFLICT = "conflict"
    EARLY = "early"
    CLOSED = "closed"


class Collection:
    """The reports of one task at one party.

    Parameters
    ----------
    seat : Seat
        Whose.
    store : Store
        Where, with the tables of `SCHEMA`.
    """

    def __init__(self, seat: Seat, store: Store) -> None:
        self.seat = seat
        self.store = store
        self._closed = self.fact(_CLOSED) is not None

    # Facts: single values that are on disk once they are set

    def fact(self, name: str) -> str | None:
        """Return what was noted under a name."""
        with self.store.read() as connection:
            return _fact(connection, name)

    def note(self, name: str, value: str) -> Future[str]:
        """Note a value, once and for all: the result is what was noted first."""

        def work(connection: sqlite3.Connection) -> str:
            connection.execute("INSERT OR IGNORE INTO fact VALUES (?, ?)", (name, value))
            noted = _fact(connection, name)
            assert noted is not None
            return noted

        return self.store.write(work)

    # Collecting

    @property
    def closed(self) -> bool:
        """Whether no more reports are accepted: by order, which is for good, or by the clock."""
        return self._closed or now() >= self.seat.task.closes

    @property
    def closed_by_order(self) -> bool:
        """Whether it was told to close, whatever the clock says."""
        return self._closed

    def close(self) -> bool:
        """Accept no more reports, on disk when this returns; whether it was not told to before."""
        first = not self._closed
        self.note(_CLOSED, now().isoformat(timespec="seconds")).result()
        self._closed = True
        return first

    def accept(self, number: bytes, token: bytes, part: bytes) -> Future[Outcome]:
        """Keep a client's part, once.

        Parameters
        ----------
        number : bytes
            The report's id.
        token : bytes
            Digest of a token that this party accepts.
        part : bytes
            An envelope, or a clear share.

        Returns
        -------
        Future of Outcome
            When it is on disk. The same part of the same report again is ``AGAIN``, even when the
            task is closed; anything else under the same id or token is a ``CONFLICT``.

        Raises
        ------
        Full
            As the future's exception: nothing of it was kept.
        """

        def work(connection: sqlite3.Connection) -> Outcome:
            rows = connection.execute(
                "SELECT id, token, part FROM report WHERE id = ? OR token = ?", (number, token)
            ).fetchall()
            if rows:
                same = rows == [(number, token, part)]
                return Outcome.AGAIN if same else Outcome.CONFLICT
            # looked at here, in the order of writes: nothing is accepted after `close` returned
            if self.closed or _fact(connection, _CLOSED) is not None:
                return Outcome.CLOSED
            if now() < self.seat.task.opens:
                return Outcome.EARLY
            connection.execute("INSERT INTO report VALUES (?, ?, ?)", (number, token, part))
            return Outcome.ACCEPTED

        return self.store.write(work)

    def count(self) -> int:
        """Return how many reports there are."""
        with self.store.read() as connection:
            return int(connection.execute("SELECT count(*) FROM report").fetchone()[0])

    def ids(self) -> Iterator[bytes]:
        """Yield all ids, in the order of their bytes."""
        with self.store.read() as connection:
            for (number,) in connection.execute("SELECT id FROM report ORDER BY id"):
                yield number


def _fact(connection: sqlite3.Connection, name: str) -> str | None:
    row = connection.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])
