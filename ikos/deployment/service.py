"""What both servers have in common: how reports are received, and how little is said about them.

Answers and addresses follow the IETF's distributed aggregation protocol where the concepts match;
problems are as in RFC 9457. No id, token, share or address of anybody is logged or counted.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ikos.deployment import tokens
from ikos.deployment.collection import Collection, Outcome
from ikos.deployment.errors import Refused
from ikos.deployment.hpke import read_clear
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.reports import ID_BYTES
from ikos.deployment.store import StoreError
from ikos.deployment.task import decoded
from ikos.deployment.timeouts import SLOWEST

BODY_SECONDS = 10.0
_OUTCOMES = {
    Outcome.CONFLICT: ("reportRejected", "this report or token was used for something else"),
    Outcome.EARLY: ("reportTooEarly", "the task is not open yet"),
    Outcome.CLOSED: ("taskClosed", "the task is closed"),
}
_STATUS = {
    "invalidMessage": 400,
    "unauthorized": 401,
    "reportTooEarly": 403,
    "unrecognizedTask": 404,
    "notFound": 404,
    "tooSlow": 408,
    "reportRejected": 409,
    "taskOpen": 409,
    "batchRejected": 409,
    "notAgreed": 409,
    "batchGone": 410,
    "taskClosed": 410,
    "tooManyRequests": 429,
    "peerUnreachable": 503,
    "storeBusy": 503,
    "storeDamaged": 503,
    "storeFailed": 503,
    "storeReadOnly": 503,
    "storeFull": 507,
}

log = logging.getLogger("ikos.deployment")


def note(seat: PartyConfig, words: str, *arguments: object, level: int = logging.INFO) -> None:
    """Log what became of a task, by its name: one server can have several."""
    log.log(level, f"task %s: {words}", seat.task.name, *arguments)


class Endpoint(Protocol):
    """A party at work on one task."""

    seat: PartyConfig
    collection: Collection

    @property
    def state(self) -> str:
        """What it is at."""

    def reports(self) -> int:
        """Return how many reports were accepted."""


class Meter:
    """Counts of what was answered, and the seconds that it took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def add(self, name: str, seconds: float) -> None:
        """Count one answer."""
        with self._lock:
            self._counts[name] += 1
            self._seconds += seconds

    def text(self) -> str:
        """Return the counts in the text format of Prometheus."""
        with self._lock:
            lines = ["# TYPE ikos_answers_total counter"]
            lines += [
                f'ikos_answers_total{{answer="{name}"}} {count}'
                for name, count in sorted(self._counts.items())
            ]
            lines += [
                "# TYPE ikos_answer_seconds_total counter",
                f"ikos_answer_seconds_total {self._seconds:.6f}",
            ]
        return "\n".join(lines) + "\n"


@dataclass
class _Rate:
    """So many requests a second, with bursts of a second."""

    most: float
    left: float = field(init=False)
    then: float = field(init=False)

    def __post_init__(self) -> None:
        self.left, self.then = self.most, time.monotonic()

    def allows(self) -> bool:
        """Whether there is one more; to be called from one thread."""
        now = time.monotonic()
        self.left = min(self.most, self.left + (now - self.then) * self.most)
        self.then = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


Handler = Callable[[Request], Awaitable[Response]]


class _Ending:
    """Ends the connection where a request is answered before its content was read to the end.

    A server would go on to receive what is left, for as long as somebody goes on to send.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope.get("headers", ())
        left = any(name == b"content-length" and value != b"0" for name, value in headers)

        async def received() -> Message:
            nonlocal left
            message = await receive()
            left = left and bool(message.get("more_body"))
            return message

        async def sent(message: Message) -> None:
            if left and message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await self._app(scope, received, sent)


class Service:
    """The routes of a server for some tasks.

    Parameters
    ----------
    desks : mapping of str to Desk
        By the task's name.
    rate : float
        Reports a second at most, in all.
    """

    def __init__(self, desks: Mapping[str, Endpoint], rate: float) -> None:
        self.desks = dict(desks)
        self.meter = Meter()
        self._rate = _Rate(rate)

    def serving(self, *routes: Route) -> Starlette:
        """Return the ASGI application of some routes, and of those that both servers have."""
        made = Starlette(routes=[*self._routes(), *routes], middleware=[Middleware(_Ending)])
        made.router.redirect_slashes = False  # what is here has one address
        return made

    def _routes(self) -> list[Route]:
        return [
            self.route("/health", self._health, "GET"),
            self.route("/metrics", self._metrics, "GET"),
            self.route("/tasks/{task}", self._status, "GET"),
            self.route("/tasks/{task}/reports/{report}", self._report, "PUT"),
            self.route("/tasks/{task}/close", self._close, "POST"),
        ]

    def route(self, path: str, handler: Handler, *methods: str) -> Route:
        """Return a route whose problems are answered, and whose answers are counted."""

        async def answered(request: Request) -> Response:
            start = time.monotonic()
            try:
                response, name = await handler(request), "done"
            except Refused as refused:
                response, name = _problem(refused), refused.name
            except StoreError as error:  # which the store has logged
                response, name = _problem(Refused(error.name, str(error))), error.name
            self.meter.add(name, time.monotonic() - start)
            return response

        return Route(path, answered, methods=list(methods))

    def desk(self, request: Request) -> Any:
        """Return the desk of the task that is asked for."""
        found = self.desks.get(request.path_params["task"])
        if found is None:
            raise Refused("unrecognizedTask", "there is no such task here")
        return found

    async def _health(self, request: Request) -> Response:
        del request
        found = await run_in_threadpool(self._troubles)
        return PlainTextResponse(found or "ok\n", status_code=503 if found else 200)

    def _troubles(self) -> str:
        """Return a line for each store that fails."""
        found = ((name, desk.collection.store.check()) for name, desk in self.desks.items())
        return "".join(f"task {name}: {error.name}: {error}\n" for name, error in found if error)

    async def _metrics(self, request: Request) -> Response:
        del request
        text = self.meter.text()
        for name, desk in self.desks.items():
            text += f'ikos_reports{{task="{name}"}} {desk.reports()}\n'
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def _status(self, request: Request) -> Response:
        return JSONResponse(public_status(self.desk(request)))

    async def _report(self, request: Request) -> Response:
        desk = self.desk(request)
        token = tokens.digest(_bearer(request))
        if token not in desk.seat.tokens:
            raise Refused("unauthorized", "this token is not one of the task's")
        if not self._rate.allows():  # which strangers do not use up: a token is looked up at once
            raise Refused("tooManyRequests", "too many reports at once; try again")
        try:
            number = decoded("the report's id", request.path_params["report"], ID_BYTES)
        except ValueError as error:
            raise Refused("invalidMessage", str(error)) from None
        part = await body_of(request, desk.seat.part_bytes)
        wanted = f"sha-256=:{base64.b64encode(hashlib.sha256(part).digest()).decode()}:"
        if request.headers.get("content-digest") != wanted:
            raise Refused("invalidMessage", "the content is not that of its Content-Digest")
        if desk.seat.party == 0:
            try:
                read_clear(part, desk.seat.task)
            except ValueError as error:
                raise Refused("invalidMessage", str(error)) from None
        outcome = await asyncio.wrap_future(desk.collection.accept(number, token, part))
        if outcome in _OUTCOMES:
            raise Refused(*_OUTCOMES[outcome])
        return Response(status_code=201 if outcome is Outcome.ACCEPTED else 200)

    async def _close(self, request: Request) -> Response:
        desk = self.desk(request)
        command(request, desk.seat)
        if await run_in_threadpool(desk.collection.close):
            note(desk.seat, "closed by order")
        return JSONResponse(public_status(desk))


def _problem(refused: Refused) -> Response:
    """Return the answer for what is refused, as RFC 9457 says."""
    headers = None
    if refused.name in ("tooManyRequests", "storeFull"):
        headers = {"Retry-After": "1"}
    elif refused.name == "unauthorized":
        headers = {"WWW-Authenticate": "Bearer"}
    return JSONResponse(
        {"type": f"urn:ikos:parties:{refused.name}", "detail": refused.detail},
        status_code=_STATUS[refused.name],
        headers=headers,
        media_type="application/problem+json",
    )


def public_status(desk: Endpoint) -> dict[str, Any]:
    """Return what a party tells everybody of a task."""
    task = desk.seat.task
    return {
        "task": task.name,
        "party": desk.seat.party,
        "state": desk.state,
        "reports": desk.reports(),
        "opens": task.opens.isoformat(),
        "closes": task.closes.isoformat(),
    }


def command(request: Request, seat: PartyConfig) -> None:
    """Refuse a request that does not show the secret that commands this party."""
    if not seat.commanded_by(_bearer(request)):
        raise Refused("unauthorized", "this needs the task's control")


def _bearer(request: Request) -> bytes:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    try:
        if kind.lower() != "bearer":
            raise ValueError
        return tokens.from_text(text)
    except ValueError:
        raise Refused("unauthorized", "this needs a bearer token") from None


async def body_of(request: Request, size: int, *, exactly: bool = True) -> bytes:
    """Return a request's body, of which no more is read than it may be long.

    Parameters
    ----------
    request : Request
        Whose.
    size : int
        Its bytes.
    exactly : bool
        Whether it must have so many, or may have fewer.
    """
    wanted = f"the content must be {'' if exactly else 'at most '}{size} bytes"
    parts, length = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS + size / SLOWEST):
            async for piece in request.stream():
                parts.append(piece)
                length += len(piece)
                if length > size:
                    raise Refused("invalidMessage", wanted)
    except TimeoutError:
        raise Refused("tooSlow", "the content did not come in time") from None
    except ClientDisconnect:
        raise Refused("invalidMessage", "the content ended early") from None
    if exactly and length != size:
        raise Refused("invalidMessage", wanted)
    return b"".join(parts)
