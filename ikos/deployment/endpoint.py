"""What all parties that accept reports have in common: a store, and one report per token and id."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

from ikos.deployment.party_files import PartyConfig
from ikos.deployment.store import Store, Writing
from ikos.deployment.wire import Message

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


class Endpoint:
    """A party at work on one task."""

    def __init__(self, config: PartyConfig, schema: str = "") -> None:
        self.config = config
        self.task = config.task
        self.store = Store(config, schema)

    @property
    def state(self) -> str:
        """How far it is."""
        return "closed" if self.closed else "collecting"

    def reports(self) -> int:
        """Return how many reports were accepted."""
        return self.store.count("report")

    def status(self) -> Message:
        """Return what it tells anyone."""
        raise NotImplementedError

    def _public(self) -> dict[str, Any]:
        """Return the part of the status that all parties have."""
        return {
            "task": self.task.name,
            "party": self.config.party,
            "state": self.state,
            "reports": self.reports(),
            "opens": self.task.opens.isoformat(),
            "closes": self.task.closes.isoformat(),
        }

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
        return self.closed_by_order or now() >= self.task.closes

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
        """Keep a client's part, once: answered when it is on disk.

        The same part of the same report and token again is ``AGAIN``, even when the task is closed;
        anything else under the same id or token is a ``CONFLICT``. A StoreError as the future's
        exception means that nothing of it was kept.
        """

        def work(writing: Writing) -> Outcome:
            rows = writing.connection.execute(
                "SELECT id, token, part FROM report WHERE id = ? OR token = ?", (number, token)
            ).fetchall()
            if rows:
                same = rows == [(number, token, part)]
                return Outcome.AGAIN if same else Outcome.CONFLICT
            # checked here, in the order of writes: nothing is accepted after `close` returned
            if self.closed or _CLOSED in writing.facts:
                return Outcome.CLOSED
            if now() < self.task.opens:
                return Outcome.EARLY
            writing.insert("report", number, token, part)
            return Outcome.ACCEPTED

        return self.store.write(work)

    def all_ids(self) -> Iterator[bytes]:
        """Yield all ids, in the order of their bytes; StoreError where one was damaged or lost.

        The index in which tokens are looked up is compared with the reports, too.
        """
        self.store.compare_indexes()
        for number, *_ in self.store.rows("report"):
            yield number

    def end(self) -> None:
        """End: finish what waits."""
        self.store.close()
