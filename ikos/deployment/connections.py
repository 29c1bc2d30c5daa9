"""Connections of a server: a bounded number, and deadlines for those that send or read nothing."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ikos.deployment.party_files import reason
from ikos.deployment.store import log
from ikos.deployment.wire import SLOWEST

HANDSHAKE_SECONDS = 10.0  # for the first bytes of TLS, and again for the rest of its handshake
WAIT_SECONDS = 30.0  # for a head, and for an answer to be read: longer in proportion to its length
REQUESTS = 1000  # in one connection at most
HEADER_BYTES = 1 << 14  # of a request's head at most
SPARE = 100  # connections beyond the limit that are answered 503; more are closed at once
_BATCH = 32  # connections that are accepted before others have their turn
_ODD_LINES = re.compile(rb"(?<!\r)\n|\n[ \t]")

Waiting = dict[object, Callable[[], object]]
"""What waits for its other end, with how to end it; what has waited longest is first."""


class _Strict(h11.Connection):
    """Refuses heads that a proxy might parse differently, so that requests could be confused."""

    def next_event(self) -> Any:
        """Return the next event; an error if it is ambiguous."""
        if self.their_state is h11.IDLE:
            data, _ = self.trailing_data
            end = data.find(b"\r\n\r\n")
            if _ODD_LINES.search(data, 0, len(data) if end < 0 else end):
                raise h11.RemoteProtocolError("a line that is folded, or ends in LF alone")
        event = super().next_event()
        names = {name for name, _ in event.headers} if isinstance(event, h11.Request) else ()
        if b"transfer-encoding" in names:  # chunks and trailers have such lines too
            raise h11.RemoteProtocolError("Transfer-Encoding instead of Content-Length")
        return event


def _then_wait(name: str) -> Any:
    """Return a method of uvicorn's protocol, after which the other end may be waited for."""
    usual = getattr(H11Protocol, name)

    def method(self: TimedProtocol, *arguments: Any) -> None:
        usual(self, *arguments)
        self.wait()

    return method


class TimedProtocol(H11Protocol):
    """A uvicorn connection with deadlines and a limit on requests.

    uvicorn ends a connection that stays idle after an answer was read, but waits forever for the
    first request, the rest of one, or a reader. ``waiting`` holds it while it waits.
    """

    def __init__(self, waiting: Waiting, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.conn = _Strict(h11.SERVER, self.config.h11_max_incomplete_event_size or HEADER_BYTES)
        self._waiting = waiting
        self._deadline: asyncio.TimerHandle | None = None
        self._requests = 0

    def handle_events(self) -> None:
        """Count requests; the last is answered as if the client had asked to close."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._requests += 1
            if self._requests >= REQUESTS:
                self.headers.append(CLOSE_HEADER)

    connection_made = _then_wait("connection_made")
    data_received = _then_wait("data_received")  # its head may be incomplete
    on_response_complete = _then_wait("on_response_complete")
    pause_writing = _then_wait("pause_writing")
    resume_writing = _then_wait("resume_writing")

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def wait(self) -> None:
        """Set a deadline while waiting for the other end."""
        # before the first request the cycle is None, whatever uvicorn's types say
        ours = not getattr(self.cycle, "response_complete", True)
        if ours and not self.flow.write_paused:
            self._stop_waiting()
            if self.cycle.more_body:  # the service limits its time
                self._waiting[self] = self.transport.abort
        elif self._deadline is None:
            seconds = WAIT_SECONDS + self.transport.get_write_buffer_size() / SLOWEST
            self._deadline = self.loop.call_later(seconds, self.transport.abort)
            self._waiting[self] = self.transport.abort

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._waiting.pop(self, None)


class Door:
    """Accepts at most ``most`` connections; one more ends the one that has waited longest.

    Idle connections thus make room for clients. asyncio's own servers accept without a limit, and
    take 300 kB for each connection before the first byte of TLS. ``tls`` may be changed, for
    subsequent connections.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        listener: socket.socket,
        most: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self._state, self._most, self._listener = state, most, listener
        self._loop = asyncio.get_running_loop()
        self._waiting: Waiting = {}
        self._arriving: set[asyncio.Task[None]] = set()
        self._protocol = partial(TimedProtocol, self._waiting, config, state, {}, self._loop)
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self._listener)
        for task in self._arriving:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when no more connections are accepted, as uvicorn expects."""
        await asyncio.gather(*self._arriving, return_exceptions=True)

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_BATCH):
            try:
                wire, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors, mostly
                if not self._make_room():
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(1, self._listen)
                    log.error("connections cannot be accepted: %s", reason(error))
                return
            there = len(self._arriving) + len(self._state.connections)
            if there >= self._most and not self._make_room() and there >= self._most + SPARE:
                wire.close()
                continue
            wire.setblocking(False)
            with contextlib.suppress(OSError):  # otherwise answers wait to be acknowledged
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._admit(wire))
            self._arriving.add(task)
            task.add_done_callback(self._arrived)
            # not at once: a task cancelled before it began would not close its socket
            self._waiting[task] = partial(self._loop.call_soon, task.cancel)

    def _make_room(self) -> bool:
        """End the connection that has waited longest, if any waits."""
        if not self._waiting:
            return False
        self._waiting.pop(next(iter(self._waiting)))()
        return True

    async def _admit(self, wire: socket.socket) -> None:
        """Make a connection of a socket, or close it; a silent one takes no memory."""
        seconds = None
        with contextlib.suppress(OSError), contextlib.ExitStack() as failing:  # of time and TLS too
            failing.callback(wire.close)
            if self.tls is not None:
                seconds = HANDSHAKE_SECONDS
                there = asyncio.Event()
                self._loop.add_reader(wire, there.set)
                try:
                    async with asyncio.timeout(seconds):
                        await there.wait()
                finally:
                    self._loop.remove_reader(wire)
            failing.pop_all()
            await self._loop.connect_accepted_socket(
                self._protocol, wire, ssl=self.tls, ssl_handshake_timeout=seconds
            )

    def _arrived(self, task: asyncio.Task[None]) -> None:
        self._arriving.discard(task)
        self._waiting.pop(task, None)
