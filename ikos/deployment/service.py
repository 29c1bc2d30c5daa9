"""The routes that all servers have: reports, one for each token and id; status, health, metrics.

Answers and addresses follow the IETF's distributed aggregation protocol where the concepts match;
problems are as in RFC 9457. No id, token, share or address of a client is logged, or in a metric.
"""

from __future__ import annotations

import base64
import hashlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from inspect import isawaitable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ikos.deployment import tokens
from ikos.deployment.endpoint import Endpoint, PartyEndpoints
from ikos.deployment.limits import Addresses, Rate, Slots
from ikos.deployment.store import StoreError
from ikos.deployment.task import Task
from ikos.deployment.wire import (
    ID_BYTES,
    Message,
    Peers,
    Problem,
    ProblemDetails,
    decoded,
    first_few,
)

_BODY_READ = "ikos.read"  # in the scope of a request whose body was read
METRICS_SECONDS = 0.2  # for which metrics answer all requests
CLIENT_RATE = 10.0  # reports a second with one token: a client needs one, and repeats it at most
CLIENT_SLOTS = 4  # reports at a time with one token
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
    503: (
        "batchPending",
        "peerUnreachable",
        "storeBusy",
        "storeDamaged",
        "storeFailed",
        "storeReadOnly",
    ),
    507: ("storeFull",),
}
_STATUS = {name: status for status, names in _NAMES.items() for name in names}
_AGAIN = {"Retry-After": "1"}
_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {**_AGAIN, "Connection": "close"},  # new connections have a separate limit
    507: _AGAIN,
}


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
        self, parties: Mapping[str, PartyEndpoints[Any]], rate: float, addresses: Addresses | None
    ) -> None:
        self.parties, self._addresses = parties, addresses
        self._rate, self._client_rate = Rate(rate), Rate(CLIENT_RATE)
        self._client_slots = Slots(CLIENT_SLOTS)
        self._written, self._text = -math.inf, b""  # when metrics were written, and what
        self._registry = CollectorRegistry()
        options: dict[str, Any] = {"registry": self._registry}
        seconds, labels = "Seconds of requests.", ["route", "status"]
        self._seconds = Histogram("ikos_request_seconds", seconds, labels, **options)
        self._refusals = Counter("ikos_refusals", "Requests refused.", ["reason"], **options)
        self._limited = Counter("ikos_limited", "Those beyond a limit.", ["limit"], **options)
        self._windows = Gauge("ikos_windows", "Latest windows.", ["task", "state"], **options)
        self._reports = Gauge("ikos_reports", "In the latest window.", ["task"], **options)
        options["buckets"] = _SECONDS
        seconds = "Seconds of writes and of a release's steps."
        work = Histogram("ikos_work_seconds", seconds, ["task", "work"], **options)
        for name, party in parties.items():
            party.store.timed = partial(_timed, work, name)

    def application(self, *routes: Route) -> Starlette:
        """Return the ASGI application of some routes, and of those common to all servers."""
        application = Starlette(
            routes=[
                self.window_route("PUT", "/reports/{report}", self._report),  # most requests
                self.route("GET", LIVE, self._live),
                self.route("GET", HEALTH, self._health),
                self.route("GET", METRICS, self._metrics),
                self.route("GET", "/tasks/{task}", self._schedule),
                self.window_route("GET", "", lambda endpoint, _: endpoint.status()),
                self.command("GET", "/peers", _peers),
                *routes,
            ],
            exception_handlers={HTTPException: _no_route},
        )
        application.router.redirect_slashes = False  # each route has one address
        return application

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
            except (Problem, StoreError) as problem:  # the store has logged its errors
                response = _problem(problem.name, str(problem))
                self._refusals.labels(problem.name).inc()
            if _BODY_READ not in request.scope and _length(request):  # do not receive the rest
                response.headers["Connection"] = "close"
            seconds(response.status_code).observe(time.monotonic() - start)
            return response

        return Route(path, _Answered(answer), methods=[method])

    def window_route(self, method: str, path: str, handler: Callable[[Any, Request], Any]) -> Route:
        """Return the route of a public query about a window of a task."""

        async def asked(request: Request) -> Response:
            answer = handler(self._endpoint(request), request)
            return _response(await answer if isawaitable(answer) else answer)

        return self.route(method, _WINDOW + path, asked)

    def command(
        self,
        method: str,
        path: str,
        handler: Callable[..., Any],
        more: Callable[[Task], int] = lambda _: 0,
    ) -> Route:
        """Return the route of a command with the control secret, run in a thread.

        A PUT has ids, each with ``more`` bytes.
        """

        async def asked(request: Request) -> Response:
            endpoint = self._endpoint(request)
            if not endpoint.config.commanded_by(_bearer(request)):
                raise Problem("unauthorized", "this request needs the task's control secret")
            content = []
            if method == "PUT":
                size = endpoint.task.users * (ID_BYTES + more(endpoint.task))
                content = [await _body(request, size, exactly=False)]
            answer = await run_in_threadpool(handler, endpoint, *content)
            return _response(endpoint.status() if answer is None else answer)

        return self.route(method, _WINDOW + path, asked)

    def party(self, request: Request) -> PartyEndpoints[Any]:
        """Return the party of a request's task."""
        try:
            return self.parties[request.path_params["task"]]
        except KeyError:
            raise Problem("unrecognizedTask", "there is no such task here") from None

    def _endpoint(self, request: Request) -> Any:
        party, text = self.party(request), request.path_params["window"]
        with suppress(ValueError):  # also of a number too long for int
            number = int(text)
            if str(number) == text and 0 <= number < party.task.windows:
                return party.at(number)
        raise Problem("unrecognizedTask", "the task has no such window")

    async def _schedule(self, request: Request) -> Response:
        return _response(self.party(request).schedule())

    async def _live(self, _: Request) -> Response:
        """Whether this process can go on; if not, it must be restarted."""
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
                for window in windows:
                    self._windows.labels(name, window.state).inc()
            self._written, self._text = moment, generate_latest(self._registry)
        return Response(self._text, media_type="text/plain; version=0.0.4; charset=utf-8")

    def _check(self, limit: str, allowed: bool) -> None:
        """Refuse a request beyond a limit."""
        if not allowed:
            self._limited.labels(limit).inc()
            raise Problem("tooManyRequests", f"too many at once for this {limit}; try again")

    async def _report(self, endpoint: Endpoint, request: Request) -> Response:
        token = tokens.digest(_bearer(request))
        if token not in endpoint.config.tokens:
            raise Problem("unauthorized", "this token is not one of the task's")
        # only clients use up limits, and no client uses up those of others
        self._check("client", self._client_slots.free(token) and self._client_rate.allows(token))
        self._check("server", self._rate.allows())
        self._client_slots.take(token)
        try:
            return await self._accepted(endpoint, request, token)
        finally:
            self._client_slots.leave(token)

    async def _accepted(self, endpoint: Endpoint, request: Request, token: bytes) -> Response:
        try:
            number = decoded(request.path_params["report"], ID_BYTES, "the report's id")
            part = await _body(request, endpoint.config.part_bytes)
            digest = base64.b64encode(hashlib.sha256(part).digest()).decode()
            if request.headers.get("content-digest") != f"sha-256=:{digest}:":
                raise ValueError("the content is not that of its Content-Digest")
            stored = endpoint.stored(number, part)
        except ValueError as error:
            raise Problem("invalidMessage", str(error)) from None
        new = await endpoint.intake.receive(number, token, stored)
        if new:
            endpoint.received(number, stored)
        return Response(status_code=201 if new else 200)


def _timed(seconds: Histogram, task: str, work: str, took: float) -> None:
    """Record the duration of some work, without the numbers of parties in its name."""
    seconds.labels(task, work.rstrip("0123456789, ")).observe(took)


def _peers(endpoint: Endpoint) -> Peers:
    return Peers(unreachable=first_few(endpoint.unreachable()))


def _response(answer: Response | bytes | Message) -> Response:
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, bytes):
        return Response(answer, media_type=BYTES)
    return JSONResponse(answer.model_dump())


def _problem(name: str, detail: str) -> Response:
    return JSONResponse(
        ProblemDetails(type=PROBLEM + name, detail=detail).model_dump(),
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
        raise Problem("unauthorized", "this needs a bearer token") from None


def _length(request: Request) -> int:
    """Return the length of a request's body; the server refuses any but a number, and chunks."""
    return int(request.headers.get("content-length", 0))


async def _body(request: Request, size: int, *, exactly: bool = True) -> bytes:
    """Return a request's body of exactly, or at most, a number of bytes; others are not read."""
    length = _length(request)
    if length > size or (exactly and length < size):
        at_most = "" if exactly else "at most "
        raise Problem("invalidMessage", f"the content must be {at_most}{size} bytes")
    try:
        body = await request.body()
    except ClientDisconnect:
        raise Problem("invalidMessage", "the content ended early") from None
    request.scope[_BODY_READ] = True
    return body
