"""The common part of shufflers and analyzer: a store, and one report per token and id."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from ikos.deployment.party_files import PartyConfig
from ikos.deployment.reports import ID_BYTES
from ikos.deployment.store import Store, Writing
from ikos.deployment.wire import Message

_CLOSED = "closed"

log = logging.getLogger("ikos.deployment")


class Refused(Exception):  # noqa: N818
    """A request that a party refuses: the problem's name, and words that reveal nothing private."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.name = name


def now() -> datetime:
    """Return the time, by this party's clock."""
    return datetime.now(UTC)


def split_ids(data: bytes) -> list[bytes]:
    """Return concatenated ids; ValueError if they are not in strictly increasing order."""
    if len(data) % ID_BYTES:
        raise ValueError(f"ids must be {ID_BYTES} bytes each, got {len(data)} in all")
    ids = [data[start : start + ID_BYTES] for start in range(0, len(data), ID_BYTES)]
    if any(later <= before for before, later in pairwise(ids)):
        raise ValueError("ids must be in strictly increasing order")
    return ids


class Endpoint(ABC):
    """A party at work on one task."""

    def __init__(self, config: PartyConfig) -> None:
        self.config = config
        self.task = config.task
        self.store = Store(config)

    @property
    def state(self) -> str:
        """How far it is."""
        return "closed" if self.closed else "collecting"

    def reports(self) -> int:
        """Return how many reports were accepted, also after they were deleted."""
        return int(self.fact("reports") or self.store.count("report"))

    @abstractmethod
    def status(self) -> Message:
        """Return its public status."""

    def log(self, words: str, level: int = logging.INFO) -> None:
        """Log an event of the task, by its name: one server can have several."""
        log.log(level, "task %s: %s", self.task.name, words)

    def _public(self) -> dict[str, Any]:
        """Return the part of the status common to all parties."""
        return {
            "task": self.task.name,
            "party": self.config.party,
            "state": self.state,
            "reports": self.reports(),
            "opens": self.task.opens.isoformat(),
            "closes": self.task.closes.isoformat(),
        }

    # Facts: single values, on disk once they are set

    def fact(self, name: str) -> str | None:
        """Return the value noted under a name."""
        return self.store.facts.get(name)

    def note(self, name: str, value: str) -> Future[str]:
        """Note a value permanently; the result is the first value noted."""
        return self.store.write(lambda writing: writing.note(name, value))

    # Collecting

    @property
    def closed(self) -> bool:
        """Whether no more reports are accepted: by order, which is final, or by the clock."""
        return self.closed_by_order or now() >= self.task.closes

    @property
    def closed_by_order(self) -> bool:
        """Whether it was ordered to close, whatever the clock says."""
        return self.fact(_CLOSED) is not None

    def close(self) -> None:
        """Accept no more reports; this is on disk on return."""
        first = not self.closed_by_order
        self.note(_CLOSED, now().isoformat(timespec="seconds")).result()
        if first:
            self.log("closed by order")

    def accept(self, number: bytes, token: bytes, part: bytes) -> Future[bool]:
        """Keep a client's part, once; the result, when it is on disk, is whether it is new.

        It is not new if the same part, id and token came before, even if the task is closed by now.
        Anything else under that id or token is Refused. After a StoreError nothing of it is kept.
        """

        def work(writing: Writing) -> bool:
            rows = writing.connection.execute(
                "SELECT id, token, part FROM report WHERE id = ? OR token = ?", (number, token)
            ).fetchall()
            if rows:
                if rows != [(number, token, part)]:
                    raise Refused(
                        "reportRejected", "this report or token was used for something else"
                    )
                return False
            # checked here, in the order of writes: nothing is accepted after `close` returned
            if self.closed or _CLOSED in writing.facts:
                raise Refused("taskClosed", "the task is closed")
            if now() < self.task.opens:
                raise Refused("reportTooEarly", "the task is not open yet")
            writing.insert("report", number, token, part)
            return True

        return self.store.write(work)

    def all_ids(self) -> Iterator[bytes]:
        """Yield all ids, in byte order; StoreError if one was damaged or lost."""
        self.store.compare_indexes()  # tokens are looked up in one
        for number, *_ in self.store.rows("report"):
            yield number

    def end(self) -> None:
        """End: finish pending work."""
        self.store.close()
