"""A party's work on the windows of a task: its intake, its facts, its peers, its clock.

The common part of intermediaries and the analyzer, without the network.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakValueDictionary

from ikos import __version__
from ikos._validation import InvalidValue
from ikos.deployment.intake import Intake
from ikos.deployment.party_files import PartyConfig, reason
from ikos.deployment.remote import (
    PEER_SECONDS,
    STATUS_SECONDS,
    RemoteShuffler,
    Unanswered,
    in_parallel,
)
from ikos.deployment.store import REPORTS, TABLES, Store, Writing, log
from ikos.deployment.task import Window
from ikos.deployment.wire import (
    ID_BYTES,
    Message,
    Problem,
    Schedule,
    ShufflerStatus,
    encoded,
)

_CLOSED = "closed"
EXPIRED = "expired"
IDS_PER_LINE = 50
LATEST_WINDOWS = 48  # in the chart, and in metrics
CLOCK_SECONDS = 10.0  # allowed difference of clocks, network delay included
START_SECONDS = 60.0  # during which a shuffler that does not answer may be starting

_T = TypeVar("_T")
_E = TypeVar("_E", bound="Endpoint")
Peer = Callable[[Window, int], RemoteShuffler]
"""Returns a connection to a shuffler, for one window."""


def now() -> datetime:
    """Return the time, by this party's clock."""
    return datetime.now(UTC)


def split_ids(data: bytes) -> list[bytes]:
    """Return concatenated ids; ValueError if they are not in strictly increasing order."""
    if len(data) % ID_BYTES:
        raise InvalidValue("ids", f"must be {ID_BYTES} bytes each, got {len(data)} in all")
    ids = [data[start : start + ID_BYTES] for start in range(0, len(data), ID_BYTES)]
    if any(later <= before for before, later in pairwise(ids)):
        raise InvalidValue("ids", "must be in strictly increasing order")
    return ids


class Endpoint(ABC):
    """A party at work on one window of a task; all of its windows share a store."""

    over_fact: ClassVar[str]
    """The fact that records that the window needs its private key no longer."""

    def __init__(self, party: PartyEndpoints[Any], window: Window) -> None:
        self.config, self.store, self.window = party.config, party.store, window
        self.peer, self.task = partial(party.peer, window), party.task
        self.others = party.others
        part_bytes = self.task.transport.stored_bytes(self.task, self.config.party)
        self.intake = Intake(self.store, window.number, part_bytes, self._refusal)
        self._settled = False

    @property
    def state(self) -> str:
        """State of the window."""
        return "closed" if self.closed else "collecting"

    def reports(self) -> int:
        """Return how many reports were accepted, those since deleted included."""
        return int(self.fact(REPORTS) or self.count("report"))

    @abstractmethod
    def status(self) -> Message:
        """Return its public status."""

    @abstractmethod
    def stored(self, number: bytes, part: bytes) -> bytes:
        """Return the part of the report with an id in the form in which it is stored.

        ValueError if it could never be released.
        """

    def received(self, number: bytes, part: bytes) -> None:
        """Prepare the release, now that a part is on disk, as it is stored."""
        del number, part

    def log(self, words: str, level: int = logging.INFO) -> None:
        """Log an event, by the task's name: one server can have several."""
        log.log(level, "task %s, window %d: %s", self.task.name, self.window.number, words)

    def name_refused(self, ids: Sequence[bytes], why: str) -> None:
        """Log which reports are refused, some to a line."""
        for start in range(0, len(ids), IDS_PER_LINE):
            some = " ".join(map(encoded, ids[start : start + IDS_PER_LINE]))
            self.log(f"refused, as {why}: {some}", logging.WARNING)

    def _public(self) -> dict[str, Any]:
        """Return the part of the status common to all parties."""
        return {
            "task": self.task.name,
            "window": self.window.number,
            "party": self.config.party,
            "state": self.state,
            "reports": self.reports(),
            "opens": self.window.opens.isoformat(),
            "closes": self.window.closes.isoformat(),
            "expires": self.expires.isoformat(),
            "time": now().timestamp(),
            "version": __version__,
        }

    def fact(self, name: str) -> str | None:
        """Return the value noted under a name."""
        return self.store.fact(self.window.number, name)

    def note(self, name: str, value: str) -> Future[str]:
        """Note a value permanently; the result is the first value noted."""
        return self.write(lambda writing: writing.note(name, value))

    def write(self, work: Callable[[Writing], _T]) -> Future[_T]:
        """Give the store some work on the window, as `Store.write`."""
        return self.store.write(self.window.number, work)

    def rows(self, table: str) -> Generator[list[Any], None, None]:
        """Yield the window's rows of a table, as `Store.rows`."""
        return self.store.rows(self.window.number, table)

    def count(self, table: str) -> int:
        """Return the number of entries in the window's table."""
        return self.store.count(self.window.number, table)

    def complete_ids(self) -> list[bytes]:
        """Return the ids of the complete reports, if they are known here."""
        return [number for (ids,) in self.rows("complete") for number in split_ids(ids)]

    @property
    def closed(self) -> bool:
        """Whether it was closed by command, which is final, or is by the clock."""
        return self.closed_by_order or now() >= self.window.closes

    @property
    def closed_by_order(self) -> bool:
        """Whether it was closed by command, whatever the time."""
        return self.fact(_CLOSED) is not None

    def close(self) -> None:
        """Accept no more reports; this is on disk on return."""
        first = not self.closed_by_order
        self.note(_CLOSED, now().isoformat(timespec="seconds")).result()
        if first:
            self.log("closed by command")

    @property
    def lasting(self) -> bool:
        """Whether it stays in memory: it is open, or the store has data of it."""
        is_open = self.window.opens <= now() < self.window.closes
        return is_open or self.closed_by_order or any(map(self.count, TABLES))

    def look(self, party: int, seconds: float = STATUS_SECONDS) -> tuple[ShufflerStatus, str]:
        """Return a shuffler's status, and how its clock or version differs from this party's."""
        status, words = self.peer(party).status(seconds), []
        ahead = status.time - now().timestamp()
        if status.version != __version__:
            words.append(
                f"runs ikos {status.version}, and this party {__version__}: install one version "
                "at both"
            )
        if status.time and abs(ahead) > CLOCK_SECONDS:
            side = "ahead" if ahead > 0 else "behind"
            words.append(f"has a clock {abs(ahead):.0f} s {side}: synchronize both clocks")
        return status, "; ".join(words)

    def unreachable(self) -> list[str]:
        """Return, for each other shuffler that cannot be reached, why."""
        answers = in_parallel(lambda j: self.look(j, PEER_SECONDS), self.others)
        return [str(answer) for _, answer in sorted(answers) if isinstance(answer, OSError)]

    @property
    def expires(self) -> datetime:
        """When unreleased reports are deleted."""
        return self.config.expires(self.window)

    @property
    def expired(self) -> bool:
        """Whether unreleased reports were deleted."""
        return self.fact(EXPIRED) is not None

    def expire(self, moment: datetime) -> bool:
        """Delete reports not released in time; return whether there were any.

        StoreError if this must be called again; it may be called at any time.
        """
        if self._settled or moment < self.expires:
            return False
        if not self.expired and not any(map(self.count, TABLES)):
            return False  # and not settled: the clock may be set back, and reports come
        deleted = self.write(self._expire).result()
        if deleted:
            self.log("not released in time: all remaining data are deleted", logging.WARNING)
        if self.expired:  # also if that failed before
            self.store.shrink()
        self._settled = True
        return deleted

    def _expire(self, writing: Writing) -> bool:
        if not any(map(writing.count, TABLES)):
            return False
        # final, in one transaction: no clock that is set back opens the window again
        for name in (_CLOSED, EXPIRED):
            writing.note(name, now().isoformat(timespec="seconds"))
        self.intake.clear(writing)
        return True

    def _refusal(self, writing: Writing) -> Problem | None:
        """Return why no new report is accepted, or None."""
        # checked in the order of writes: nothing is accepted after `close` returned
        if self.closed or writing.fact(_CLOSED):
            return Problem("taskClosed", "the window is closed")
        if now() < self.window.opens:
            return Problem("reportTooEarly", "the window is not open yet")
        return None

    @abstractmethod
    def resume(self) -> None:
        """Resume work that was requested before the process ended."""

    @abstractmethod
    def end(self) -> None:
        """Start no more work."""


class PartyEndpoints(Generic[_E]):
    """A party of a task, with an endpoint for each window that is open or in its store.

    Endpoints of other windows, which anyone may request, live while they answer. Private keys that
    are not needed are erased.
    """

    _stays: str | None = None  # why the last key could not be erased

    def __init__(self, config: PartyConfig, kind: type[_E], peer: Peer) -> None:
        self.config, self.task, self.store, self.peer = config, config.task, Store(config), peer
        self.others = [j for j in range(1, self.task.columns + 1) if j != config.party]
        self._kind, self._making = kind, threading.Lock()
        self._endpoints: WeakValueDictionary[int, _E] = WeakValueDictionary()  # one for each window
        self._lasting = dict[int, _E]()
        # shufflers with trouble, and the kinds of it that were logged
        self._unmet = {j: set[type]() for j in self.others}
        self._started = time.monotonic()
        for number in self.store.windows:
            self.at(number).resume()

    def at(self, number: int) -> _E:
        """Return the endpoint of a window."""
        with self._making:
            if (endpoint := self._endpoints.get(number)) is None:
                endpoint = self._endpoints[number] = self._kind(self, self.task.at(number))
            if number not in self._lasting and endpoint.lasting:
                self._lasting[number] = endpoint
            return endpoint

    def meet(self) -> None:
        """Ask the shufflers that had trouble so far; log each kind of trouble once."""
        endpoint = self.at(self.task.current(now()).number)
        for party, answer in in_parallel(endpoint.look, list(self._unmet)):
            logged = self._unmet[party]  # by kind: a shuffler may change its words every time
            starting = time.monotonic() < self._started + START_SECONDS
            if not isinstance(answer, OSError) and not answer[1]:
                del self._unmet[party]
                if logged:
                    log.info("task %s: %s is well", self.task.name, self.task.party_name(party))
            elif type(answer) not in logged and not (isinstance(answer, Unanswered) and starting):
                logged.add(type(answer))
                name = self.task.party_name(party)
                words = answer if isinstance(answer, OSError) else f"{name} {answer[1]}"
                log.warning("task %s: %s", self.task.name, words)

    def latest(self) -> list[_E]:
        """Return the endpoints of the latest windows that have opened, and at least of the first.

        Not of all: anyone may ask for a page.
        """
        last = self.task.current(now()).number
        return [self.at(number) for number in range(max(0, last + 1 - LATEST_WINDOWS), last + 1)]

    def expire(self, moment: datetime) -> None:
        """Delete reports not released in time and keys that are not needed, if possible now."""
        for number, endpoint in list(self._lasting.items()):
            with suppress(OSError):  # the store has logged it; this is called again
                endpoint.expire(moment)
            with self._making:
                if not endpoint.lasting:
                    self._lasting.pop(number, None)
        for key in sorted(self.config.keys.remaining):
            windows = self.task.windows_of(key)
            # the last one is gone last, mostly
            if all(self._is_gone(window, moment) for window in reversed(windows)):
                try:
                    self.config.keys.erase(key)
                    words = "the private key of windows %d to %d is erased"
                    log.info(f"task %s: {words}", self.task.name, windows[0], windows[-1])
                    self._stays = None
                except OSError as error:
                    if (why := reason(error)) != self._stays:  # this is tried every few seconds
                        log.error("task %s: a private key stays: %s", self.task.name, why)
                    self._stays = why

    def _is_gone(self, number: int, moment: datetime) -> bool:
        """Whether a window needs its key no longer: it is over, or expired without reports."""
        if self.store.fact(number, self._kind.over_fact) is not None:
            return True
        expired = moment >= self.config.expires(self.task.at(number))
        return expired and not self.store.count(number, "report")

    def schedule(self) -> Schedule:
        """Return which window is open."""
        moment = now()
        number = self.task.current(moment).number
        is_open = self.task.opens <= moment and not self.at(number).closed
        return Schedule(
            task=self.task.name,
            party=self.config.party,
            windows=self.task.windows,
            open=number if is_open else None,
        )

    def end(self) -> None:
        """Finish pending work, and end."""
        for endpoint in list(self._endpoints.values()):
            endpoint.end()
        self.store.close()
