"""The common part of shufflers and analyzer: one report per token and id, received over HTTP.

Answers and addresses follow the IETF's distributed aggregation protocol where the concepts match;
problems are as in RFC 9457. No id, token, share or address of a client is logged, or in a metric.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from inspect import isawaitable
from itertools import pairwise
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ikos import __version__
from ikos.deployment import tokens
from ikos.deployment.hpke import read_clear
from ikos.deployment.intake import Intake
from ikos.deployment.limits import Addresses, Places, Rate
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.remote import (
    PEER_SECONDS,
    STATUS_SECONDS,
    RemoteShuffler,
    Unanswered,
    in_parallel,
)
from ikos.deployment.store import REPORTS, TABLES, Store, StoreError, Writing, log
from ikos.deployment.task import Window
from ikos.deployment.wire import (
    ID_BYTES,
    Message,
    Peers,
    Problem,
    Refused,
    Schedule,
    ShufflerStatus,
    decoded,
    first_few,
)

_CLOSED = "closed"
EXPIRED = "expired"
LATEST = 48  # windows in the chart, and in metrics
_READ = "ikos.read"  # in the scope of a request whose body was read
CLOCK_SECONDS = 10.0  # by which clocks may differ: an answer takes some of them
START_SECONDS = 60.0  # in which a shuffler that does not answer may be starting
METRICS_SECONDS = 0.2  # for which metrics answer all requests
CLIENT_RATE = 10.0  # reports a second with one token: a client needs one, and repeats it at most
CLIENT_PLACES = 4  # reports at a time with one token
_SECONDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000]
PROBLEM = "urn:ikos:parties:"
BYTES = "application/octet-stream"
LIVE, HEALTH, METRICS = "/live", "/health", "/metrics"
_WINDOW = "/tasks/{task}/windows/{window}"
_NAMES = {
    400: ("invalidMessage",),
    401: ("unauthorized",),
    403: ("reportTooEarly",),
    404: ("unrecognizedTask", "notFound"),
    409: ("reportRejected", "taskOpen", "batchRejected", "notAgreed"),
    410: ("batchExpired", "batchGone", "taskClosed"),
    429: ("tooManyRequests",),
    503: ("peerUnreachable", "storeBusy", "storeDamaged", "storeFailed", "storeReadOnly"),
    507: ("storeFull",),
}
_STATUS = {name: status for status, names in _NAMES.items() for name in names}
_AGAIN = {"Retry-After": "1"}
_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {**_AGAIN, "Connection": "close"},  # new connections have a limit of their own
    507: _AGAIN,
}

_T = TypeVar("_T")
_E = TypeVar("_E", bound="Endpoint")


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
    """A party at work on one window of a task; all of its windows share a store.

    ``peer`` makes what asks a shuffler about a window.
    """

    def __init__(
        self,
        config: PartyConfig,
        store: Store,
        window: Window,
        peer: Callable[[Window, int], RemoteShuffler],
    ) -> None:
        self.config, self.store, self.window = config, store, window
        self.peer, self.task = partial(peer, window), config.task
        self.others = [j for j in range(1, self.task.columns + 1) if j != config.party]
        self.intake = Intake(store, window.number, config.part_bytes, self._refusal)
        self._settled = False

    @property
    def state(self) -> str:
        """How far it is."""
        return "closed" if self.closed else "collecting"

    def reports(self) -> int:
        """Return how many reports were accepted, also after they were deleted."""
        return int(self.fact(REPORTS) or self.count("report"))

    @abstractmethod
    def status(self) -> Message:
        """Return its public status."""

    def log(self, words: str, level: int = logging.INFO) -> None:
        """Log an event, by the task's name: one server can have several."""
        log.log(level, "task %s, window %d: %s", self.task.name, self.window.number, words)

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
        """Whether no more reports are accepted: by order, which is final, or by the clock."""
        return self.closed_by_order or now() >= self.window.closes

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

    @property
    def lasting(self) -> bool:
        """Whether it is kept in memory: it is open, or the store knows of it."""
        is_open = self.window.opens <= now() < self.window.closes
        return is_open or self.closed_by_order or any(map(self.count, TABLES))

    def look(self, party: int, seconds: float = STATUS_SECONDS) -> tuple[ShufflerStatus, str]:
        """Return the status of a shuffler, and in what its clock or version differs from here."""
        found, words = self.peer(party).status(seconds), []
        ahead = found.time - now().timestamp()
        if found.version != __version__:
            words.append(f"runs ikos {found.version}, and this party {__version__}")
        if found.time and abs(ahead) > CLOCK_SECONDS:
            words.append(f"has a clock {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}")
        return found, "; ".join(words)

    def unreachable(self) -> list[str]:
        """Return why other shufflers cannot be asked, of each that cannot."""
        found = in_parallel(lambda j: self.look(j, PEER_SECONDS), self.others)
        return [str(answer) for _, answer in sorted(found) if isinstance(answer, OSError)]

    @property
    def expires(self) -> datetime:
        """When what was not released is deleted."""
        return self.config.expires(self.window)

    @property
    def expired(self) -> bool:
        """Whether something was deleted that was not released."""
        return self.fact(EXPIRED) is not None

    def expire(self, moment: datetime) -> bool:
        """Delete, for good, what was not released in time; return whether something was.

        StoreError if this must be called again; it may be called at any time.
        """
        if self._settled or moment < self.expires:
            return False
        if not self.expired and not any(map(self.count, TABLES)):
            return False  # and not settled: the clock may be set back, and reports come
        found = self.write(self._expire).result()
        if found:
            self.log("not released in time: all that was left is deleted", logging.WARNING)
        if self.expired:  # also if that failed before
            self.store.shrink()
        self._settled = True
        return found

    def _expire(self, writing: Writing) -> bool:
        if not any(map(writing.count, TABLES)):
            return False
        # final, in one transaction: no clock that is set back opens the window again
        for name in (_CLOSED, EXPIRED):
            writing.note(name, now().isoformat(timespec="seconds"))
        self.intake.clear(writing)
        return True

    def _refusal(self, writing: Writing) -> Refused | None:
        """Return why no new report is accepted, if none is."""
        # checked in the order of writes: nothing is accepted after `close` returned
        if self.closed or writing.fact(_CLOSED):
            return Refused("taskClosed", "the window is closed")
        if now() < self.window.opens:
            return Refused("reportTooEarly", "the window is not open yet")
        return None

    @abstractmethod
    def resume(self) -> None:
        """Resume what was ordered before the process ended."""

    @abstractmethod
    def end(self) -> None:
        """Begin nothing more."""


class Party(Generic[_E]):
    """A party of a task, with an endpoint for each window that is open or in its store.

    Those of other windows, for which anyone may ask, live while they answer.
    """

    def __init__(self, config: PartyConfig, make: Callable[[PartyConfig, Store, Window], _E]):
        self.config, self.task, self.store = config, config.task, Store(config)
        self._make, self._making = make, threading.Lock()
        self._made: WeakValueDictionary[int, _E] = WeakValueDictionary()  # one for each window
        self._kept = dict[int, _E]()
        # shufflers that have not been well, with the kinds of trouble that were logged
        others = (j for j in range(1, self.task.columns + 1) if j != config.party)
        self._unmet = {j: set[type]() for j in others}
        self._started = time.monotonic()
        for number in self.store.windows:
            self.at(number).resume()

    def at(self, number: int) -> _E:
        """Return the endpoint of a window."""
        with self._making:
            if (made := self._made.get(number)) is None:
                made = self._made[number] = self._make(
                    self.config, self.store, self.task.at(number)
                )
            if number not in self._kept and made.lasting:
                self._kept[number] = made
            return made

    def meet(self) -> None:
        """Ask the shufflers that have not been well so far; log each kind of trouble once."""
        one = self.at(self.task.current(now()).number)
        for party, found in in_parallel(one.look, list(self._unmet)):
            told = self._unmet[party]  # by kind: a shuffler may change its words every time
            words = str(found) if isinstance(found, OSError) else f"shuffler {party} {found[1]}"
            early = time.monotonic() < self._started + START_SECONDS
            if not isinstance(found, OSError) and not found[1]:
                del self._unmet[party]
                if told:
                    log.info("task %s: shuffler %d is well", self.task.name, party)
            elif type(found) not in told and not (isinstance(found, Unanswered) and early):
                told.add(type(found))
                log.warning("task %s: %s", self.task.name, words)

    def latest(self) -> list[_E]:
        """Return the endpoints of the latest windows that have opened, and at least of the first.

        Not of all: anyone may ask for a page.
        """
        last = self.task.current(now()).number
        return [self.at(number) for number in range(max(0, last + 1 - LATEST), last + 1)]

    def expire(self, moment: datetime) -> None:
        """Delete what was not released in time, where that is possible now."""
        for number, one in list(self._kept.items()):
            with suppress(OSError):  # the store has logged it; this is called again
                one.expire(moment)
            with self._making:
                if not one.lasting:
                    self._kept.pop(number, None)

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
        for one in list(self._made.values()):
            one.end()
        self.store.close()


@dataclass(frozen=True)
class _Answered:
    """A route's answers; Starlette would check twice for exceptions that it knows."""

    answer: Callable[[Request], Awaitable[Response]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self.answer(Request(scope, receive))
        await response(scope, receive, send)


class Service:
    """The routes of a server for some tasks, whose parties are given by name."""

    def __init__(
        self, parties: Mapping[str, Party[Any]], rate: float, addresses: Addresses | None
    ) -> None:
        self.parties, self._addresses = parties, addresses
        self._rate, self._client_rate = Rate(rate), Rate(CLIENT_RATE)
        self._client_places = Places(CLIENT_PLACES)
        self._written, self._text = -math.inf, b""  # when metrics were written, and what
        self._registry = own = CollectorRegistry()
        self._seconds = Histogram(
            "ikos_request_seconds", "Seconds of requests.", ["route", "status"], registry=own
        )
        work = Histogram(
            "ikos_work_seconds",
            "Seconds of writes and of a release's steps.",
            ["task", "work"],
            buckets=_SECONDS,
            registry=own,
        )
        self._refusals = Counter("ikos_refusals", "Requests refused.", ["reason"], registry=own)
        self._limited = Counter("ikos_limited", "Those beyond a limit.", ["limit"], registry=own)
        self._windows = Gauge("ikos_windows", "Latest windows.", ["task", "state"], registry=own)
        self._reports = Gauge("ikos_reports", "In the latest window.", ["task"], registry=own)
        for name, party in parties.items():
            party.store.timed = partial(_timed, work, name)

    def application(self, *routes: Route) -> Starlette:
        """Return the ASGI application of some routes, and of those that both servers have."""
        made = Starlette(
            routes=[
                self.window_route("PUT", "/reports/{report}", self._report),  # most requests
                self.route("GET", LIVE, self._live),
                self.route("GET", HEALTH, self._health),
                self.route("GET", METRICS, self._metrics),
                self.route("GET", "/tasks/{task}", self._schedule),
                self.window_route("GET", "", lambda endpoint, _: endpoint.status()),
                self.command(
                    "GET", "/peers", lambda one: Peers(unreachable=first_few(one.unreachable()))
                ),
                *routes,
            ],
            exception_handlers={HTTPException: _no_route},
        )
        made.router.redirect_slashes = False  # each route has one address
        return made

    def route(
        self, method: str, path: str, handler: Callable[[Request], Awaitable[Response]]
    ) -> Route:
        """Return a route that answers problems and counts its answers."""
        seconds = cache(partial(self._seconds.labels, f"{method} {path}"))

        async def answer(request: Request) -> Response:
            start = time.monotonic()
            try:
                addresses = self._addresses
                self._check("address", addresses is None or addresses.allows(request.scope))
                response = await handler(request)
            except (Refused, StoreError) as refused:  # the store has logged its errors
                response = _problem(refused.name, str(refused))
                self._refusals.labels(refused.name).inc()
            if not (_READ in request.scope or _length(request) == 0):  # do not receive the rest
                response.headers["Connection"] = "close"
            seconds(response.status_code).observe(time.monotonic() - start)
            return response

        return Route(path, _Answered(answer), methods=[method])

    def window_route(self, method: str, path: str, handler: Callable[[Any, Request], Any]) -> Route:
        """Return the route of a public query about a window of a task."""

        async def asked(request: Request) -> Response:
            found = handler(self._endpoint(request), request)
            return _response(await found if isawaitable(found) else found)

        return self.route(method, _WINDOW + path, asked)

    def command(self, method: str, path: str, handler: Callable[..., Any]) -> Route:
        """Return the route of a command that needs the control, run in a thread; a PUT has ids."""

        async def asked(request: Request) -> Response:
            endpoint = self._endpoint(request)
            if not endpoint.config.commanded_by(_bearer(request)):
                raise Refused("unauthorized", "this needs the task's control")
            content = []
            if method == "PUT":
                content = [await _body(request, ID_BYTES * endpoint.task.users, exactly=False)]
            found = await run_in_threadpool(handler, endpoint, *content)
            return _response(endpoint.status() if found is None else found)

        return self.route(method, _WINDOW + path, asked)

    def party(self, request: Request) -> Party[Any]:
        """Return the party of a request's task."""
        try:
            return self.parties[request.path_params["task"]]
        except KeyError:
            raise Refused("unrecognizedTask", "there is no such task here") from None

    def _endpoint(self, request: Request) -> Any:
        party, text = self.party(request), request.path_params["window"]
        with suppress(ValueError):  # also of a number too long for int
            number = int(text)
            if str(number) == text and 0 <= number < party.task.windows:
                return party.at(number)
        raise Refused("unrecognizedTask", "the task has no such window")

    async def _schedule(self, request: Request) -> Response:
        return _response(self.party(request).schedule())

    async def _live(self, _: Request) -> Response:
        """Whether this process can go on; if not, it must be started again."""
        alive = all(party.store.alive for party in self.parties.values())
        return PlainTextResponse(
            "ok\n" if alive else "a store's writer ended\n", 200 if alive else 503
        )

    async def _health(self, _: Request) -> Response:
        lines = []
        for name, party in self.parties.items():
            if trouble := await run_in_threadpool(party.store.check):
                lines.append(f"task {name}: {trouble.name}: {trouble}\n")
        return PlainTextResponse("".join(lines) or "ok\n", status_code=503 if lines else 200)

    async def _metrics(self, _: Request) -> Response:
        moment = time.monotonic()
        if moment >= self._written + METRICS_SECONDS:  # they cost as much as four reports
            self._windows.clear()
            for name, party in self.parties.items():
                windows = party.latest()
                self._reports.labels(name).set(windows[-1].reports())
                for one in windows:
                    self._windows.labels(name, one.state).inc()
            self._written, self._text = moment, generate_latest(self._registry)
        return Response(self._text, media_type="text/plain; version=0.0.4; charset=utf-8")

    def _check(self, limit: str, allowed: bool) -> None:
        """Refuse a request beyond a limit."""
        if not allowed:
            self._limited.labels(limit).inc()
            raise Refused("tooManyRequests", f"too many at once for this {limit}; try again")

    async def _report(self, endpoint: Endpoint, request: Request) -> Response:
        token = tokens.digest(_bearer(request))
        if token not in endpoint.config.tokens:
            raise Refused("unauthorized", "this token is not one of the task's")
        # only clients use up limits, and one client does not use up those of all
        self._check("client", self._client_places.free(token) and self._client_rate.allows(token))
        self._check("server", self._rate.allows())
        self._client_places.take(token)
        try:
            return await self._accepted(endpoint, request, token)
        finally:
            self._client_places.leave(token)

    async def _accepted(self, endpoint: Endpoint, request: Request, token: bytes) -> Response:
        config = endpoint.config
        try:
            number = decoded(request.path_params["report"], ID_BYTES, "the report's id")
            part = await _body(request, config.part_bytes)
            wanted = base64.b64encode(hashlib.sha256(part).digest()).decode()
            if request.headers.get("content-digest") != f"sha-256=:{wanted}:":
                raise ValueError("the content is not that of its Content-Digest")
            if config.party == 0:
                read_clear(part, config.task)
        except ValueError as error:
            raise Refused("invalidMessage", str(error)) from None
        new = await endpoint.intake.receive(number, token, part)
        return Response(status_code=201 if new else 200)


def _timed(seconds: Histogram, task: str, work: str, took: float) -> None:
    """Observe what some work took, without the numbers of shufflers in its name."""
    seconds.labels(task, work.rstrip("0123456789, ")).observe(took)


def _response(found: Response | bytes | Message) -> Response:
    if isinstance(found, Response):
        return found
    if isinstance(found, bytes):
        return Response(found, media_type=BYTES)
    return JSONResponse(found.model_dump())


def _problem(name: str, detail: str) -> Response:
    return JSONResponse(
        Problem(type=PROBLEM + name, detail=detail).model_dump(),
        status_code=_STATUS[name],
        headers=_HEADERS.get(_STATUS[name]),
        media_type="application/problem+json",
    )


def _no_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = {**(error.headers or {}), "Connection": "close"}  # whatever else is sent
    return PlainTextResponse(error.detail, error.status_code, headers)


def _bearer(request: Request) -> bytes:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    try:
        if kind.lower() != "bearer":
            raise ValueError
        return tokens.from_text(text)
    except ValueError:
        raise Refused("unauthorized", "this needs a bearer token") from None


def _length(request: Request) -> int:
    """Return the length of a request's body; the server refuses any but a number, and chunks."""
    return int(request.headers.get("content-length", 0))


async def _body(request: Request, size: int, *, exactly: bool = True) -> bytes:
    """Return a request's body of exactly, or at most, this many bytes; of others none is read."""
    length = _length(request)
    if length > size or (exactly and length < size):
        wanted = f"the content must be {'' if exactly else 'at most '}{size} bytes"
        raise Refused("invalidMessage", wanted)
    try:
        body = await request.body()
    except ClientDisconnect:
        raise Refused("invalidMessage", "the content ended early") from None
    request.scope[_READ] = True
    return body
