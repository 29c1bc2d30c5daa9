"""The common part of shufflers and analyzer: one report per token and id, received over HTTP.

Answers and addresses follow the IETF's distributed aggregation protocol where the concepts match;
problems are as in RFC 9457. No id, token, share or address of a client is logged, or in a metric.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property, partial
from inspect import isawaitable
from itertools import pairwise
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ikos.deployment import tokens
from ikos.deployment.hpke import read_clear
from ikos.deployment.limits import Places, Rate
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.store import Store, StoreError, Writing, log
from ikos.deployment.wire import ID_BYTES, SLOWEST, Message, Problem, decoded

_CLOSED = "closed"
_EXPIRED = "expired"
_BAR = "bar "
_REPORTS = "reports"
_DELETED = ("report", "complete", "batch")
BARS = 48  # of the chart at most
BODY_SECONDS = 10.0
CLIENT_RATE = 10.0  # reports a second with one token: a client needs one, and repeats it at most
CLIENT_PLACES = 4  # reports at a time with one token
_SIZES = [64, 256, 1024, 4096, 1 << 14, 1 << 17, 1 << 20, 1 << 24, 1 << 30]
PROBLEM = "urn:ikos:parties:"
BYTES = "application/octet-stream"
LIVE, HEALTH, METRICS = "/live", "/health", "/metrics"
_NAMES = {
    400: ("invalidMessage",),
    401: ("unauthorized",),
    403: ("reportTooEarly",),
    404: ("unrecognizedTask", "notFound"),
    408: ("tooSlow",),
    409: ("reportRejected", "taskOpen", "batchRejected", "notAgreed"),
    410: ("batchGone", "taskClosed"),
    429: ("tooManyRequests",),
    503: ("peerUnreachable", "storeBusy", "storeDamaged", "storeFailed", "storeReadOnly"),
    507: ("storeFull",),
}
_STATUS = {name: status for status, names in _NAMES.items() for name in names}
_TOO_MANY = "tooManyRequests"
_AGAIN = {"Retry-After": "1"}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: _AGAIN, 507: _AGAIN}


class Refused(Exception):  # noqa: N818
    """A request that is refused: the problem's name, and words that reveal nothing private."""

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
        self._settled = False

    @property
    def state(self) -> str:
        """How far it is."""
        return "closed" if self.closed else "collecting"

    def reports(self) -> int:
        """Return how many reports were accepted, also after they were deleted."""
        return int(self.fact(_REPORTS) or self.store.count("report"))

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
            "expires": self.expires.isoformat(),
            "bar_hours": self._bar // timedelta(hours=1),
            "bars": self._bars(),
        }

    def fact(self, name: str) -> str | None:
        """Return the value noted under a name."""
        return self.store.facts.get(name)

    def note(self, name: str, value: str) -> Future[str]:
        """Note a value permanently; the result is the first value noted."""
        return self.store.write(lambda writing: writing.note(name, value))

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

    def watch(self, told: Callable[[str | None], object]) -> None:  # noqa: B027
        """Tell each step of a release, and None at its end, if this party makes releases."""

    @property
    def expires(self) -> datetime:
        """When what was not released is deleted."""
        return self.task.closes + self.config.keep

    @property
    def expired(self) -> bool:
        """Whether something was deleted that was not released."""
        return self.fact(_EXPIRED) is not None

    def expire(self) -> bool:
        """Delete, for good, what was not released in time; return whether something was.

        StoreError if this must be called again; it may be called at any time.
        """
        if self._settled or now() < self.expires:
            return False
        found = self.store.write(self._expire).result()
        if found:
            self.log("not released in time: all that was left is deleted", logging.WARNING)
        if self.expired:  # also if that failed before
            self.store.shrink()
        self._settled = True
        return found

    def _expire(self, writing: Writing) -> bool:
        if not any(map(writing.count, _DELETED)):
            return False
        # final, in one transaction: no clock that is set back opens the task again
        for name in (_CLOSED, _EXPIRED):
            writing.note(name, now().isoformat(timespec="seconds"))
        writing.note(_REPORTS, str(writing.count("report")))
        writing.clear(*_DELETED)
        return True

    @cached_property
    def _bar(self) -> timedelta:
        """The time of a bar of the chart: whole hours."""
        return timedelta(hours=-(-(self.task.closes - self.task.opens) // timedelta(hours=BARS)))

    def _bars(self) -> list[int]:
        """Return how many reports came in each bar's time, from when the task opened."""
        facts = [(int(n), name) for name, n in self.store.facts.items() if name.startswith(_BAR)]
        begun = sorted((before, int(name.removeprefix(_BAR))) for before, name in facts)
        bars = [0] * (1 + max((bar for _, bar in begun), default=-1))
        ends = [*(before for before, _ in begun[1:]), self.reports()]
        for (before, bar), end in zip(begun, ends, strict=True) if begun else ():
            bars[bar] = end - before
        return bars

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
            if (early := now() - self.task.opens) < timedelta():
                raise Refused("reportTooEarly", "the task is not open yet")
            writing.note(f"{_BAR}{early // self._bar}", str(writing.count("report")))
            writing.insert("report", number, token, part)
            return True

        return self.store.write(work)

    def all_ids(self) -> Iterator[bytes]:
        """Yield all ids, in byte order; StoreError if one was damaged or lost."""
        self.store.compare_indexes()  # tokens are looked up in one
        for number, *_ in self.store.rows("report"):
            yield number

    def end(self) -> None:
        """Finish pending work, and end."""
        self.store.close()


class Service:
    """The routes of a server for some tasks, whose endpoints are given by name."""

    def __init__(self, endpoints: Mapping[str, Endpoint], rate: float) -> None:
        self.endpoints = endpoints
        self._rate, self._client_rate = Rate(rate), Rate(CLIENT_RATE)
        self._client_places = Places(CLIENT_PLACES)
        self._registry = registry = CollectorRegistry()

        def histogram(name: str, about: str, *labels: str, **options: Any) -> Histogram:
            return Histogram(f"ikos_{name}", about, labels, registry=registry, **options)

        self._seconds = histogram("request_seconds", "Seconds of requests.", "route", "status")
        self._received = histogram(
            "request_bytes", "Bytes of contents read.", "route", buckets=_SIZES
        )
        self._sent = histogram("answer_bytes", "Bytes of answers.", "route", buckets=_SIZES)
        stages = histogram("release_stage_seconds", "Seconds of a release's steps.", "stage")
        writes = histogram("store_write_seconds", "Seconds of transactions on disk.", "task")
        self._refusals = Counter(
            "ikos_refusals", "Requests refused.", ["reason"], registry=registry
        )
        self._limited = Counter(
            "ikos_limited", "Requests beyond a limit.", ["limit"], registry=registry
        )
        reports = Gauge("ikos_reports", "Reports accepted.", ["task"], registry=registry)
        for name, endpoint in endpoints.items():
            reports.labels(name).set_function(endpoint.reports)
            endpoint.store.timed = writes.labels(name).observe
            endpoint.watch(_Stages(stages))
        registry.register(_States(endpoints))

    def application(self, *routes: Route) -> Starlette:
        """Return the ASGI application of some routes, and of those that both servers have."""
        made = Starlette(
            routes=[
                self.route("GET", LIVE, self._live),
                self.route("GET", HEALTH, self._health),
                self.route("GET", METRICS, self._metrics),
                self.task_route("GET", "", lambda endpoint, _: endpoint.status()),
                self.task_route("PUT", "/reports/{report}", self._report),
                *routes,
            ],
            exception_handlers={HTTPException: _no_route},
        )
        made.router.redirect_slashes = False  # each route has one address
        made.state.limited = self.limited
        return made

    def route(
        self, method: str, path: str, handler: Callable[[Request], Awaitable[Response]]
    ) -> Route:
        """Return a route that answers problems and counts its answers."""
        name = f"{method} {path}"
        received, sent = self._received.labels(name), self._sent.labels(name)
        seconds = cache(partial(self._seconds.labels, name))

        async def answered(request: Request) -> Response:
            start = time.monotonic()
            try:
                response = await handler(request)
            except (Refused, StoreError) as refused:  # the store has logged its errors
                response = problem(refused.name, str(refused))
                self._refusals.labels(refused.name).inc()
            read = getattr(request.state, "read", None)
            if read is not None:
                received.observe(read)
            elif request.headers.get("content-length", "0") != "0":  # do not receive the rest
                response.headers["Connection"] = "close"
            sent.observe(int(response.headers["content-length"]))
            seconds(response.status_code).observe(time.monotonic() - start)
            return response

        return Route(path, answered, methods=[method])

    def task_route(self, method: str, path: str, handler: Callable[[Any, Request], Any]) -> Route:
        """Return the route of a public query to a party of a task."""

        async def asked(request: Request) -> Response:
            found = handler(self._endpoint(request), request)
            return _response(await found if isawaitable(found) else found)

        return self.route(method, f"/tasks/{{task}}{path}", asked)

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

        return self.route(method, f"/tasks/{{task}}{path}", asked)

    def _endpoint(self, request: Request) -> Any:
        try:
            return self.endpoints[request.path_params["task"]]
        except KeyError:
            raise Refused("unrecognizedTask", "there is no such task here") from None

    async def _live(self, _: Request) -> Response:
        """Whether this process can go on; if not, it must be started again."""
        alive = all(endpoint.store.alive for endpoint in self.endpoints.values())
        return PlainTextResponse(
            "ok\n" if alive else "a store's writer ended\n", 200 if alive else 503
        )

    async def _health(self, _: Request) -> Response:
        lines = []
        for name, endpoint in self.endpoints.items():
            if trouble := await run_in_threadpool(endpoint.store.check):
                lines.append(f"task {name}: {trouble.name}: {trouble}\n")
        return PlainTextResponse("".join(lines) or "ok\n", status_code=503 if lines else 200)

    async def _metrics(self, _: Request) -> Response:
        text = generate_latest(self._registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    def limited(self, limit: str) -> Response:
        """Count a request beyond a limit, and return its answer."""
        self._limited.labels(limit).inc()
        self._refusals.labels(_TOO_MANY).inc()
        answer = problem(_TOO_MANY, f"too many at once for this {limit}; try again")
        answer.headers["Connection"] = "close"
        return answer

    async def _report(self, endpoint: Endpoint, request: Request) -> Response:
        token = tokens.digest(_bearer(request))
        if token not in endpoint.config.tokens:
            raise Refused("unauthorized", "this token is not one of the task's")
        # only clients use up limits, and one client does not use up those of all
        if not (self._client_places.left(token) > 0 and self._client_rate.allows(token)):
            return self.limited("client")
        if not self._rate.allows():
            return self.limited("server")
        with self._client_places.taken(token):
            return await self._accepted(endpoint, request, token)

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
        new = await asyncio.wrap_future(endpoint.accept(number, token, part))
        return Response(status_code=201 if new else 200)


class _Stages:
    """Measures the steps of a release, under names without the number of a shuffler."""

    def __init__(self, seconds: Histogram) -> None:
        self._seconds = seconds
        self._stage, self._then = "", 0.0

    def __call__(self, step: str | None) -> None:
        now = time.monotonic()
        if self._stage:
            self._seconds.labels(self._stage).observe(now - self._then)
        self._stage, self._then = (step or "").rstrip("0123456789 "), now


class _States(Collector):
    """The state of each task, as a metric."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self._endpoints = endpoints

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = GaugeMetricFamily("ikos_state", "State of each task.", labels=["task", "state"])
        for name, endpoint in self._endpoints.items():
            found.add_metric([name, endpoint.state], 1)
        yield found


def _response(found: Response | bytes | Message) -> Response:
    if isinstance(found, Response):
        return found
    if isinstance(found, bytes):
        return Response(found, media_type=BYTES)
    return JSONResponse(found.model_dump())


def problem(name: str, detail: str) -> Response:
    """Return the answer to a request that is refused."""
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


async def _body(request: Request, size: int, *, exactly: bool = True) -> bytes:
    """Return a request's body of exactly, or at most, this many bytes; no more is read."""
    wanted = f"the content must be {'' if exactly else 'at most '}{size} bytes"
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS + size / SLOWEST):
            async for piece in request.stream():
                body += piece
                if len(body) > size:
                    raise Refused("invalidMessage", wanted)
    except TimeoutError:
        raise Refused("tooSlow", "the content did not come in time") from None
    except ClientDisconnect:
        raise Refused("invalidMessage", "the content ended early") from None
    request.state.read = len(body)
    if exactly and len(body) != size:
        raise Refused("invalidMessage", wanted)
    return bytes(body)
