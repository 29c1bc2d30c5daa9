"""Reports as a party collects them: one for each token and id, acknowledged when on disk."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime

from ikos.deployment.party_files import PartyConfig
from ikos.deployment.store import Store, Writing

SCHEMA = """
CREATE TABLE IF NOT EXISTS report (
    id BLOB PRIMARY KEY, token BLOB NOT NULL UNIQUE, part BLOB NOT NULL, digest BLOB NOT NULL
) WITHOUT ROWID;
"""
_CLOSED = "closed"


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

    def __init__(self, seat: PartyConfig, store: Store) -> None:
        self.seat = seat
        self.store = store

    # Facts: single values that are on disk once they are set

    def fact(self, name: str) -> str | None:
        """Return what was noted under a name."""
        return self.store.facts.get(name)

    def note(self, name: str, value: str) -> Future[str]:
        """Note a value, once and for all: the result is what was noted first."""
        return self.store.write(lambda writing: writing.note(name, value))

    # Collecting

    @property
    def closed(self) -> bool:
        """Whether no more reports are accepted: by order, which is for good, or by the clock."""
        return self.closed_by_order or now() >= self.seat.task.closes

    @property
    def closed_by_order(self) -> bool:
        """Whether it was told to close, whatever the clock says."""
        return self.fact(_CLOSED) is not None

    def close(self) -> bool:
        """Accept no more reports, on disk when this returns; whether it was not told to before."""
        first = not self.closed_by_order
        self.note(_CLOSED, now().isoformat(timespec="seconds")).result()
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
        StoreError
            As the future's exception: nothing of it was kept.
        """

        def work(writing: Writing) -> Outcome:
            rows = writing.connection.execute(
                "SELECT id, token, part FROM report WHERE id = ? OR token = ?", (number, token)
            ).fetchall()
            if rows:
                same = rows == [(number, token, part)]
                return Outcome.AGAIN if same else Outcome.CONFLICT
            # looked at here, in the order of writes: nothing is accepted after `close` returned
            if self.closed or _CLOSED in writing.facts:
                return Outcome.CLOSED
            if now() < self.seat.task.opens:
                return Outcome.EARLY
            writing.insert("report", number, token, part)
            return Outcome.ACCEPTED

        return self.store.write(work)

    def count(self) -> int:
        """Return how many reports there are."""
        return self.store.count("report")

    def ids(self) -> Iterator[bytes]:
        """Yield all ids, in the order of their bytes; StoreError where one was damaged or lost.

        What a token was looked up in is compared with the reports, too.
        """
        self.store.compare_indexes()
        for number, *_ in self.store.rows("report"):
            yield number
