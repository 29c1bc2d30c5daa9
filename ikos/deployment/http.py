"""HTTP for a server that strangers can reach: bounded heads, bodies, connections and waits.

uvicorn and asyncio wait forever, and accept without a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ikos.deployment.limits import Addresses
from ikos.deployment.party_files import reason
from ikos.deployment.store import log
from ikos.deployment.wire import SLOWEST

CONNECTIONS = 800  # with the store's files, below the 1,024 that many systems allow
HANDSHAKE_SECONDS = 10.0  # for the first bytes of TLS, and again for the rest of its handshake
CLOSE_SECONDS = 1.0  # for the other end to close TLS, when a server stops
WAIT_SECONDS = 30.0  # for a head, and for a body or for an answer to be read: long ones take longer
SWEEP_SECONDS = 1.0  # after which to look again for who has waited too long
REQUESTS = 1000  # in one connection at most
HEADER_BYTES, HEADER_LINES = 1 << 14, 64  # of a request's head at most
UNREAD_BYTES = 1 << 16  # of answers that wait to be read, before more of one is made
SPARE_CONNECTIONS = 100  # beyond the limit, that are answered 503; more are closed at once
_ACCEPTS_PER_TURN = 32
_HEAD_END = re.compile(rb"\r\n\r\n|\r(?:\n\r?)?\Z")  # or the part that has come
_ABSOLUTE = re.compile(rb"(?i:https?)://[^/?#]+(.*)")  # a target (RFC 9112, 3.2.2)

Waiting = dict[object, tuple[float, Callable[[], object]]]
"""Waiting connections, the first one first, each with its time limit and a way to end it."""


def uvicorn_config(application: Starlette) -> uvicorn.Config:
    """Return uvicorn's configuration for an application."""
    return uvicorn.Config(
        application,
        http=TimedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # any client can send them
        server_header=False,
        date_header=False,
        limit_concurrency=CONNECTIONS + 1,  # beyond it, all connections are busy
        timeout_keep_alive=20,
        timeout_graceful_shutdown=20,
        lifespan="off",
    )


class _StrictConnection(h11.Connection):
    """Refuses heads that are long, which h11 does after it has parsed them, or ambiguous.

    A proxy might parse the latter differently, so that requests could be confused.
    """

    def next_event(self) -> Any:
        """Return the next event, with a target that is a path; an error if it is refused."""
        if self.their_state is h11.IDLE:
            data, _ = self.trailing_data
            head = _HEAD_END.split(data, 1)[0]
            ends = head.count(b"\n")
            if len(head) > HEADER_BYTES or ends >= HEADER_LINES:
                raise h11.RemoteProtocolError("a head that is too long")
            if ends > head.count(b"\r\n") or b"\n " in head or b"\n\t" in head:
                raise h11.RemoteProtocolError("a line that is folded, or ends in LF alone")
        event = super().next_event()
        if isinstance(event, h11.Request):
            if b"transfer-encoding" in {name for name, _ in event.headers}:
                # chunks and trailers have such lines too
                raise h11.RemoteProtocolError("Transfer-Encoding instead of Content-Length")
            if absolute := _ABSOLUTE.fullmatch(event.target):
                target = b"/" + absolute[1].removeprefix(b"/")
                event = h11.Request(
                    method=event.method,
                    target=target,
                    headers=event.headers,
                    http_version=event.http_version,
                )
        return event


def _then_wait(name: str) -> Any:
    """Return a method of uvicorn's protocol, after which the other end may be waited for."""
    inherited = getattr(H11Protocol, name)

    def method(self: TimedProtocol, *arguments: Any) -> None:
        inherited(self, *arguments)
        self.wait()

    return method


class TimedProtocol(H11Protocol):
    """A connection in ``waiting`` while it waits; uvicorn would wait forever.

    It waits for a head or a reader, or else for a body.
    """

    def __init__(self, waiting: Waiting, slot: contextlib.ExitStack, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._slot = slot
        # beside a head, what has come of the lines' end that ends it
        self.conn = _StrictConnection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES + 3)
        self._waiting = waiting
        self._waits: Callable[[], int] | None = None
        self._requests = 0

    def handle_events(self) -> None:
        """Count requests; the last is answered as if the client had asked to close."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._requests += 1
            if self._requests >= REQUESTS:
                self.headers.append(CLOSE_HEADER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        # asyncio's transport for TLS does not count what waits below it, nor end it once closed
        self._wire = getattr(getattr(transport, "_ssl_protocol", None), "_transport", transport)
        transport.set_write_buffer_limits(UNREAD_BYTES)  # of TLS it would be 512 KiB
        super().connection_made(transport)
        self.wait()

    data_received = _then_wait("data_received")  # its head may be incomplete
    on_response_complete = _then_wait("on_response_complete")
    pause_writing = _then_wait("pause_writing")
    resume_writing = _then_wait("resume_writing")

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._waiting.pop(self, None)
        self._slot.close()
        super().connection_lost(exc)

    def wait(self) -> None:
        """Set a deadline when it begins to wait for the other end."""
        waits: Callable[[], int] | None = None
        # before the first request the cycle is None, whatever uvicorn's types say
        if self.flow.write_paused or getattr(self.cycle, "response_complete", True):
            waits = self._unread
        elif self.cycle.more_body:
            waits = self._announced
        if waits != self._waits:
            self._waits = waits
            self._waiting.pop(self, None)
            if waits is not None:
                until = self.loop.time() + WAIT_SECONDS + waits() / SLOWEST
                self._waiting[self] = until, self._wire.abort

    def _unread(self) -> int:
        """Return the number of unread bytes of answers."""
        unread = self._wire.get_write_buffer_size()
        if self._wire is not self.transport and not self.transport.is_closing():
            unread += self.transport.get_write_buffer_size()
        return unread

    def end_if_read(self) -> None:
        """End the connection if all answers were read."""
        if self in self._waiting and not self._unread():
            self._wire.abort()

    def _announced(self) -> int:
        """Return the length of the body; the service refuses those that are too long."""
        return int(dict(self.headers)[b"content-length"])


class Acceptor:
    """Accepts at most ``most`` connections; one more ends the one that has waited longest.

    asyncio's own servers accept without a limit, and take 300 kB for each connection before the
    first byte of TLS. ``tls`` may be changed, for subsequent connections. With ``addresses`` it
    closes connections beyond the limit of an address.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        listener: socket.socket,
        most: int,
        tls: ssl.SSLContext | None = None,
        addresses: Addresses | None = None,
    ) -> None:
        self.tls, self._addresses = tls, addresses
        self._state, self._most, self._listener = state, most, listener
        self._loop = asyncio.get_running_loop()
        self._waiting: Waiting = {}
        self._arriving: set[asyncio.Task[None]] = set()
        self._arguments: tuple[Any, ...] = (config, state, {}, self._loop)
        listener.setblocking(False)
        self._listen()
        self._sweep()

    def close(self) -> None:
        """Accept no more; soon end what uvicorn closes and a client leaves half open."""
        self._loop.remove_reader(self._listener)
        for waiting in self._waiting:
            if isinstance(waiting, TimedProtocol):
                self._loop.call_later(CLOSE_SECONDS, waiting.end_if_read)
        for task in self._arriving:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when no more connections are accepted, as uvicorn expects."""
        await asyncio.gather(*self._arriving, return_exceptions=True)
        self._sweeping.cancel()

    def _sweep(self) -> None:
        """End connections that have waited too long, now and from time to time."""
        self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        now = self._loop.time()
        for end in [end for until, end in self._waiting.values() if until <= now]:
            end()

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                wire, (host, *_) = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors, mostly
                if not self._make_room():
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(1, self._listen)
                    log.error("connections cannot be accepted: %s", reason(error))
                return
            taken = len(self._arriving) + len(self._state.connections)
            most = self._most + SPARE_CONNECTIONS
            if taken >= self._most and not self._make_room() and taken >= most:
                wire.close()
                continue
            slot, addresses = contextlib.ExitStack(), self._addresses
            if addresses is not None and (key := addresses.connecting(host)) is not None:
                if not addresses.admits(key):
                    wire.close()
                    continue
                addresses.slots.take(key)
                slot.callback(addresses.slots.leave, key)
            wire.setblocking(False)
            with contextlib.suppress(OSError):  # otherwise answers wait to be acknowledged
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protocol = partial(TimedProtocol, self._waiting, slot, *self._arguments)
            task = self._loop.create_task(self._admit(wire, protocol, slot))
            self._arriving.add(task)
            task.add_done_callback(self._arrived)
            # not at once: a task cancelled before it began would not close its socket
            self._waiting[task] = math.inf, partial(self._loop.call_soon, task.cancel)

    def _make_room(self) -> bool:
        """End the connection that has waited longest, if any waits."""
        if not self._waiting:
            return False
        _, end = self._waiting.pop(next(iter(self._waiting)))
        end()
        return True

    async def _admit(
        self,
        wire: socket.socket,
        protocol: Callable[[], TimedProtocol],
        slot: contextlib.ExitStack,
    ) -> None:
        """Turn a socket into a connection, or close it; a silent one takes no memory."""
        seconds, forever = None, None
        with contextlib.suppress(OSError), contextlib.ExitStack() as failing:  # of time and TLS too
            failing.callback(slot.close)
            failing.callback(wire.close)
            if self.tls is not None:
                seconds, forever = HANDSHAKE_SECONDS, 1e6
                readable = asyncio.Event()
                self._loop.add_reader(wire, readable.set)
                try:
                    async with asyncio.timeout(seconds):
                        await readable.wait()
                finally:
                    self._loop.remove_reader(wire)
            failing.pop_all()
            failing.callback(slot.close)
            await self._loop.connect_accepted_socket(
                protocol,
                wire,
                ssl=self.tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=forever,  # it would cut answers off: `_sweep` ends it
            )
            failing.pop_all()

    def _arrived(self, task: asyncio.Task[None]) -> None:
        self._arriving.discard(task)
        self._waiting.pop(task, None)
