"""The programs of the shufflers and the analyzer: a server for the folders of one role.

It has a bounded number of connections, and deadlines for those that send or read nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import re
import resource
import signal
import socket
import ssl
import sys
import threading
import time
import tomllib
from asyncio import sslproto
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import h11
import uvicorn
from pydantic import ConfigDict, Field, IPvAnyNetwork, Strict, ValidationError
from pydantic.dataclasses import dataclass
from starlette.applications import Starlette
from starlette.routing import Route
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ikos._validation import InvalidValue
from ikos.deployment import analyzer, service, shuffler
from ikos.deployment.limits import Addresses
from ikos.deployment.party_files import PartyConfig, locked, owner_alone, reason
from ikos.deployment.remote import connect
from ikos.deployment.service import HEALTH, LIVE, METRICS, Party
from ikos.deployment.store import log
from ikos.deployment.task import on_loopback
from ikos.deployment.wire import SLOWEST, refusal

__all__ = ["serve_analyzer", "serve_shuffler"]

CONNECTIONS = 800  # with the store's files, below the 1,024 that many systems allow
HANDSHAKE_SECONDS = 10.0  # for the first bytes of TLS, and again for the rest of its handshake
CLOSE_SECONDS = 1.0  # for the other end to close TLS, when a server stops
WAIT_SECONDS = 30.0  # for a head, and for a body or for an answer to be read: long ones take longer
SWEEP_SECONDS = 1.0  # after which to look again for who has waited too long
REQUESTS = 1000  # in one connection at most
HEADER_BYTES, HEADER_LINES = 1 << 14, 64  # of a request's head at most
BUFFER_BYTES = 1 << 14  # that TLS reads at once: a record; asyncio would keep 256 KiB for each
UNREAD_BYTES = 1 << 16  # of answers that wait to be read, before more of one is made
SPARE = 100  # connections beyond the limit that are answered 503; more are closed at once
WATCHERS = 20  # connections for metrics
LOOK_SECONDS = 10.0  # after which to look again for what has expired, and at shufflers
STEADY_SECONDS = 3600.0  # for which a clock must have run before it deletes anything
JUMP_SECONDS = 60.0  # by which it may be off meanwhile
_ALLOCATED = 10_000  # objects after which garbage is collected
_BATCH = 32  # connections that are accepted before others have their turn
_HEAD_END = re.compile(rb"\r\n\r\n|\r(?:\n\r?)?\Z")  # or what has come of it
_ABSOLUTE = re.compile(rb"(?i:https?)://[^/?#]+(.*)")  # a target (RFC 9112, 3.2.2)

Waiting = dict[object, tuple[float, Callable[[], object]]]
"""What waits for its other end, with how long it may and how to end it; the first began first."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Listening:
    """Where and how a server listens.

    By default, ``host`` and ``port`` are those of the party's address in its tasks, if that is on
    loopback. Without ``certificate`` and ``private_key`` (PEM files) the host must be on loopback.
    Port 0 is any free one. ``ca`` holds authorities to trust instead of the system's; ``rate``
    limits reports per second, ``address_rate`` and ``address_connections`` what comes from one
    address (`ikos.deployment.limits.Addresses`, also for ``proxy``). With ``metrics_port``, metrics
    are there instead, in plain HTTP. ``keep_days`` after closing, what was not released is deleted.
    With ``group_access``, the group of a file of secrets, or of a party's folder, may use it too.
    """

    host: Annotated[str | None, Field(min_length=1)] = None
    port: Annotated[int | None, Strict(), Field(ge=0, le=65535)] = None
    certificate: Path | None = None
    private_key: Path | None = None
    ca: Path | None = None
    rate: Annotated[float, Strict(), Field(gt=0, lt=1e9)] = 5000.0
    address_rate: Annotated[float, Strict(), Field(gt=0, lt=1e9)] = 100.0
    address_connections: Annotated[int, Strict(), Field(gt=0)] = 100
    proxy: IPvAnyNetwork | None = None
    metrics_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    metrics_port: Annotated[int | None, Strict(), Field(ge=0, le=65535)] = None
    keep_days: Annotated[float, Strict(), Field(gt=0, lt=1e5)] = 30.0
    group_access: Annotated[bool, Strict()] = False

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidValue("certificate and private_key", "must be given together")
        if self.certificate is None and self.host is not None and not on_loopback(self.host):
            raise InvalidValue(
                "host",
                f"must be on loopback without a certificate, got {self.host!r}: give "
                "certificate and private_key",
            )
        self.tls()

    @classmethod
    def read(cls, path: Path | None, given: Mapping[str, Any]) -> Listening:
        """Return a TOML file's settings, overridden by those given; errors name the setting."""
        found = {} if path is None else _toml(path)
        try:
            return cls(**{**found, **given})
        except ValidationError as error:
            wrong = refusal(error)
            if path is None or any(name in (wrong.parameter or "") for name in given):
                raise wrong from None
            raise ValueError(f"{str(path)!r}: {wrong}") from None

    def tls(self) -> ssl.SSLContext | None:
        """Return a TLS context from the current files; ValueError if they do not match."""
        if self.certificate is None or self.private_key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # a server that starts by itself cannot ask for a password
            context.load_cert_chain(self.certificate, self.private_key, password=lambda: b"")
        except OSError as error:  # ssl.SSLError is one
            why = "they are not" if isinstance(error, ssl.SSLError) else reason(error)
            raise InvalidValue(
                "certificate and private_key",
                "must be PEM files of a certificate and its key "
                f"without a password, got {str(self.certificate)!r} and {str(self.private_key)!r}: "
                f"{why}",
            ) from None
        owner_alone(self.private_key, group=self.group_access)
        return context

    def of(self, configs: Sequence[PartyConfig]) -> Listening:
        """Return where to listen for some parties, by default at their address in the tasks."""
        if self.host is not None and self.port is not None:
            return self
        address, *others = sorted({config.task.address(config.party) for config in configs})
        if others:
            raise InvalidValue(
                "host and port",
                "must be given where tasks have different addresses for this party, "
                f"got {address} and {others[0]}",
            )
        parts = urlsplit(address)
        host = self.host or parts.hostname or ""
        if self.host is None and not on_loopback(host):
            raise InvalidValue(
                "host",
                f"must be given: the party's address in the task, {address}, is not on this "
                "machine alone",
            )
        tls = parts.scheme == "https"
        if self.port is None and tls and self.certificate is None:
            raise InvalidValue(
                "certificate and private_key",
                f"must be given for {address}, or the port to which a "
                "proxy with a certificate passes requests",
            )
        port = parts.port or (443 if tls else 80)
        return replace(self, host=host, port=port if self.port is None else self.port)

    def places(self) -> Iterator[tuple[str, int, str]]:
        """Yield where it listens, and by which settings: for all, and for metrics elsewhere."""
        yield self.host or "", self.port or 0, "host and port"
        if self.metrics_port is not None:
            yield self.metrics_host, self.metrics_port, "metrics_host and metrics_port"


def _place(host: str, port: int) -> str:
    """Return a host and port, as in an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound as by `socket.create_server`, and does not listen yet."""
    with contextlib.ExitStack() as failing:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        one = failing.enter_context(socket.socket(family))
        if os.name == "posix":  # elsewhere it would share a port that another listens at
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            both = host == "::" and socket.has_dualstack_ipv6()
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        one.bind((host, port))
        failing.pop_all()
        return one


@contextlib.contextmanager
def _free(host: str, port: int, names: str) -> Iterator[None]:
    """Raise ValueError for an OSError: the place is in use, or of another machine."""
    try:
        yield
    except OSError as error:
        raise InvalidValue(
            names, f"must be free to listen at, got {_place(host, port)}: {reason(error)}"
        ) from None


def _toml(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file; file names in it are relative to its folder."""
    try:
        found = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise InvalidValue(
            "config", f"must be a file that can be read, got {str(path)!r}: {reason(error)}"
        ) from None
    except ValueError as error:  # errors of decoding and of TOML
        why = " ".join(str(error).split())
        raise InvalidValue("config", f"must be TOML, got {str(path)!r}: {why}") from None
    for name in {"certificate", "private_key", "ca"} & found.keys():
        if isinstance(found[name], str):
            found[name] = path.parent / found[name]
    return found


class _Lines(logging.Formatter):
    """One line per record."""

    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = None  # a traceback would show the content of a request
        record.exc_text = None
        return " ".join(super().format(record).split())


def log_lines() -> None:
    """Log to standard error; for other libraries only errors, as strangers can cause warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("%(levelname)s %(name)s %(message)s"))
    for name in ("ikos.deployment", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO if name == "ikos.deployment" else logging.ERROR)
        logger.propagate = False


def serve_shuffler(folders: Sequence[Path], listening: Listening) -> None:
    """Run a shuffler for the tasks of some folders, which differ, until it is told to stop."""
    _serve("a shuffler's", folders, listening, shuffler.shuffler, shuffler.application)


def serve_analyzer(folders: Sequence[Path], listening: Listening) -> None:
    """Run the analyzer of the tasks of some folders, as `serve_shuffler` runs a shuffler."""
    _serve("the analyzer's", folders, listening, analyzer.analyzer, analyzer.application)


def _serve(
    wanted: str,
    folders: Sequence[Path],
    listening: Listening,
    start: Callable[..., Party[Any]],
    application: Callable[..., Starlette],
) -> None:
    """Bind the addresses, lock and check the folders, then listen, until SIGTERM or SIGINT."""
    keep = timedelta(days=listening.keep_days)
    group = listening.group_access
    configs = [replace(PartyConfig.read(folder, group=group), keep=keep) for folder in folders]
    for config in configs:
        if (config.party == 0) != (wanted == "the analyzer's"):
            found = f"shuffler {config.party}'s" if config.party else "the analyzer's"
            raise ValueError(f"{str(config.folder)!r} must be {wanted}, got {found}")
    names = {config.task.name for config in configs}
    if not names or len(names) < len(configs):
        raise InvalidValue("folders", "must be of different tasks: one party sees one column")
    known = listening.of(configs)
    with contextlib.ExitStack() as opened:
        places, listeners = list(known.places()), list[socket.socket]()
        for host, port, setting in places:
            with _free(host, port, setting):
                listeners.append(opened.enter_context(_bound(host, port)))
        client = opened.enter_context(connect(listening.ca))
        parties: dict[str, Party[Any]] = {}
        for config in configs:
            opened.enter_context(locked(config.folder))
            parties[config.task.name] = party = start(config, client)
            opened.callback(party.end)
        for place, one in zip(places, listeners, strict=True):  # from here on somebody answers
            with _free(*place):
                one.listen(1024)
        log_lines()
        leave_no_dump()
        over = threading.Event()
        opened.callback(over.set)
        clock = SteadyClock()
        for work in (lambda party: party.expire(clock.now()), methodcaller("meet")):
            # daemons, which are not waited for: both can be left at any point and repeated
            threading.Thread(target=_repeat, args=(work, parties, over), daemon=True).start()
        addresses = Addresses(known.address_rate, known.address_connections, known.proxy)
        made = application(parties, rate=known.rate, addresses=addresses)
        gc.freeze()  # collections, a tenth of a report's time, need not look at what was loaded
        gc.set_threshold(_ALLOCATED)
        sslproto.SSLProtocol.max_size = BUFFER_BYTES
        _Server(made, known, addresses).run(listeners)
        log.info("stopped")


class SteadyClock:
    """The time, but the first of all times until the clock has run evenly for an hour.

    So no clock that is far ahead for a while, as one can be before it is set by others, deletes.
    """

    def __init__(self) -> None:
        self._began = -math.inf  # the monotonic clock, when the other one last jumped
        self._ahead = math.inf  # of the monotonic clock, since then

    def now(self) -> datetime:
        """Return it; call this from time to time."""
        moment, running = service.now(), time.monotonic()
        ahead = moment.timestamp() - running
        if abs(ahead - self._ahead) > JUMP_SECONDS:
            self._began, self._ahead = running, ahead
        steady = running - self._began >= STEADY_SECONDS
        return moment if steady else datetime.min.replace(tzinfo=UTC)


def _repeat(
    work: Callable[[Party[Any]], object], parties: Mapping[str, Party[Any]], over: threading.Event
) -> None:
    """Let each party do some work from time to time, while the server runs."""
    told = set[tuple[str, type]]()
    while True:
        for name, party in parties.items():
            try:
                work(party)
            except Exception as error:  # the other parties' work goes on
                if not over.is_set() and (name, type(error)) not in told:
                    # without its text, which might hold secrets
                    log.error("task %s: an error of the program: %s", name, type(error).__name__)
                    told.add((name, type(error)))
        if over.wait(LOOK_SECONDS):
            return


def uvicorn_config(application: Starlette) -> uvicorn.Config:
    """Return how uvicorn runs an application."""
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


class _Strict(h11.Connection):
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
    usual = getattr(H11Protocol, name)

    def method(self: TimedProtocol, *arguments: Any) -> None:
        usual(self, *arguments)
        self.wait()

    return method


class TimedProtocol(H11Protocol):
    """A connection in ``waiting`` while it waits; uvicorn would wait forever.

    What it waits for is a head or a reader, or else a body.
    """

    def __init__(self, waiting: Waiting, place: contextlib.ExitStack, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._place = place
        # beside a head, what has come of the lines' end that ends it
        self.conn = _Strict(h11.SERVER, max_incomplete_event_size=HEADER_BYTES + 3)
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
        """Wait no more."""
        self._waiting.pop(self, None)
        self._place.close()
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
        """Return how many bytes of answers are not read."""
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


class Door:
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
        """Accept no more; end soon what uvicorn closes and a client leaves half open."""
        self._loop.remove_reader(self._listener)
        for one in self._waiting:
            if isinstance(one, TimedProtocol):
                self._loop.call_later(CLOSE_SECONDS, one.end_if_read)
        for task in self._arriving:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when no more connections are accepted, as uvicorn expects."""
        await asyncio.gather(*self._arriving, return_exceptions=True)
        self._sweeping.cancel()

    def _sweep(self) -> None:
        """End what has waited too long, now and from time to time."""
        self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        now = self._loop.time()
        for end in [end for until, end in self._waiting.values() if until <= now]:
            end()

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_BATCH):
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
            there = len(self._arriving) + len(self._state.connections)
            if there >= self._most and not self._make_room() and there >= self._most + SPARE:
                wire.close()
                continue
            place, addresses = contextlib.ExitStack(), self._addresses
            if addresses is not None and (key := addresses.connecting(host)) is not None:
                if not addresses.admits(key):
                    wire.close()
                    continue
                addresses.places.take(key)
                place.callback(addresses.places.leave, key)
            wire.setblocking(False)
            with contextlib.suppress(OSError):  # otherwise answers wait to be acknowledged
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protocol = partial(TimedProtocol, self._waiting, place, *self._arguments)
            task = self._loop.create_task(self._admit(wire, protocol, place))
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
        place: contextlib.ExitStack,
    ) -> None:
        """Make a connection of a socket, or close it; a silent one takes no memory."""
        seconds, forever = None, None
        with contextlib.suppress(OSError), contextlib.ExitStack() as failing:  # of time and TLS too
            failing.callback(place.close)
            failing.callback(wire.close)
            if self.tls is not None:
                seconds, forever = HANDSHAKE_SECONDS, 1e6
                there = asyncio.Event()
                self._loop.add_reader(wire, there.set)
                try:
                    async with asyncio.timeout(seconds):
                        await there.wait()
                finally:
                    self._loop.remove_reader(wire)
            failing.pop_all()
            failing.callback(place.close)
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


class _Server(uvicorn.Server):
    """Accepts through a `Door`; SIGTERM and SIGINT stop it, SIGHUP reloads the certificate."""

    _door: Door

    def __init__(self, application: Starlette, listening: Listening, addresses: Addresses) -> None:
        routes = application.routes
        watched = {one.path: one for one in routes if isinstance(one, Route)}
        self._watched = Starlette(routes=[watched[path] for path in (METRICS, HEALTH, LIVE)])
        if listening.metrics_port is not None:
            routes.remove(watched[METRICS])
        super().__init__(uvicorn_config(application))
        self._listening, self._addresses = listening, addresses

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        (listener, *watched), tls = sockets, self._listening.tls()
        state = self.server_state
        self._door = Door(self.config, state, listener, CONNECTIONS, tls, self._addresses)
        doors = [self._door]
        for one in watched:
            config = uvicorn_config(self._watched)
            config.load()
            doors.append(Door(config, ServerState(), one, WATCHERS))
        self.servers = doors  # type: ignore[assignment]  # which uvicorn closes
        self.started = True
        for one, words in zip(sockets, ("", " for metrics"), strict=False):
            host = self._listening.metrics_host if words else self._listening.host or ""
            scheme = "https" if tls and not words else "http"
            place = _place(host, one.getsockname()[1])
            log.info("listening on %s://%s%s", scheme, place, words)

    def _reload(self) -> None:
        """Reload the certificate; a wrong one changes nothing."""
        try:
            self._door.tls = self._listening.tls()
        except ValueError as error:
            log.error("the old certificate stays in force: %s", error)
        else:
            log.info("read the certificate again" if self._door.tls else "no certificate to read")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals; uvicorn would raise them again at the end, and exit with their status."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        stopping = (signal.SIGINT, signal.SIGTERM)
        for number in stopping:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number in (*stopping, signal.SIGHUP):
                loop.remove_signal_handler(number)


def leave_no_dump() -> None:
    """Keep crashes from dumping this process's memory, which has keys and shares, to disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
