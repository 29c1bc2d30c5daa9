"""The programs of the shufflers and the analyzer: a server for the folders of one role."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import ClassVar
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette

from ikos.deployment import analyzer_service, shuffler_service
from ikos.deployment.connections import Door, Hurried
from ikos.deployment.lock import alone
from ikos.deployment.party_files import AnalyzerSeat, PartyConfig, owner_alone
from ikos.deployment.remote import connect
from ikos.deployment.service import log
from ikos.deployment.task import on_loopback

__all__ = ["serve_analyzer", "serve_shuffler"]

RATE = 5000.0
"""Reports a second at most, unless told."""

CONNECTIONS = 800  # with the store's files, fewer than the 1,024 that many systems allow a program
HEADER_BYTES = 1 << 14
IDLE_SECONDS = 20
STOP_SECONDS = 20
BACKLOG = 1024
SELDOM_SECONDS = 60.0
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


@dataclass(frozen=True)
class Listening:
    """Where and how a server listens.

    Attributes
    ----------
    host : str, optional
        Of this machine's; without a certificate it must be on loopback. By default that of the
        party's address in its tasks, if it is on loopback.
    port : int, optional
        From 1 to 65535, or 0 for any that is free. By default that of the party's address.
    certificate, private_key : Path, optional
        TLS, in PEM files.
    ca : Path, optional
        Authorities to trust in other parties' certificates, instead of the system's.
    rate : float
        Reports a second at most.
    """

    host: str | None = None
    port: int | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    ca: Path | None = None
    rate: float = RATE

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key must be given together")
        if self.certificate is None and self.host is not None and not on_loopback(self.host):
            raise ValueError(
                f"host must be on loopback without a certificate, got {self.host!r}: give "
                "certificate and private_key"
            )
        if self.port is not None and not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, got {self.port}")
        if not self.rate > 0:
            raise ValueError(f"rate must be positive, got {self.rate}")
        self.tls()

    def tls(self) -> ssl.SSLContext | None:
        """Return how to speak TLS, from the files as they are now.

        Raises
        ------
        ValueError
            If they are no certificate with its key, or others than their owner may read the key.
        """
        if self.certificate is None or self.private_key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # a server that starts by itself is not asked for a password
            context.load_cert_chain(self.certificate, self.private_key, password=lambda: b"")
        except OSError as error:  # of ssl as well
            known = not isinstance(error, ssl.SSLError) and error.strerror
            reason = str(known).lower() if known else "they are not"
            raise ValueError(
                "certificate and private_key must be PEM files of a certificate and its key "
                f"without a password, got {str(self.certificate)!r} and {str(self.private_key)!r}: "
                f"{reason}"
            ) from None
        owner_alone(self.private_key)
        return context

    def of(self, seats: Sequence[PartyConfig]) -> Listening:
        """Return where to listen for some seats, with host and port known.

        Raises
        ------
        ValueError
            If they are not given, and do not follow from the addresses in the tasks.
        """
        if self.host is not None and self.port is not None:
            return self
        addresses = {seat.task.address(seat.party) for seat in seats}
        if len(addresses) > 1:
            raise ValueError(
                "host and port must be given where tasks have different addresses for this party, "
                f"got {' and '.join(sorted(addresses)[:2])}"
            )
        (address,) = addresses
        parts = urlsplit(address)
        host, port = self.host, self.port
        if host is None:
            host = parts.hostname or ""
            if not on_loopback(host):
                raise ValueError(
                    f"host must be given: the party's address in the task, {address}, is not on "
                    "this machine alone"
                )
        if port is None:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            if parts.scheme == "https" and self.certificate is None:
                raise ValueError(
                    f"certificate and private_key must be given for {address}, or the port where "
                    "what has them passes requests on"
                )
        return replace(self, host=host, port=port)


def _bound(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at each address of a host; connections wait to be answered.

    Raises
    ------
    ValueError
        If one is in use, or none is of this machine.
    """
    sockets: list[socket.socket] = []
    refused: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, protocol, _, where in found:
            # a port that was free for the first is asked for at the others
            number = sockets[0].getsockname()[1] if sockets else port
            try:
                sockets.append(_socket(family, protocol, (where[0], number, *where[2:])))
            except OSError as error:
                if error.errno not in _ABSENT:
                    raise
                refused = error  # "localhost" has an address of IPv6 where there is no IPv6
        if refused is not None and not sockets:
            raise refused
    except OSError as error:
        for one in sockets:
            one.close()
        reason = (error.strerror or "an error").lower()
        raise ValueError(
            f"host and port must be free to listen at, got {_shown(host, port)}: {reason}"
        ) from None
    return sockets


def _socket(family: int, protocol: int, where: tuple[object, ...]) -> socket.socket:
    """Return a socket that listens; it must know its protocol, or answers wait to be acknowledged.

    asyncio sets TCP_NODELAY for sockets that say that they are TCP.
    """
    made = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(where)
        made.listen(BACKLOG)  # now: two could be bound to one port, as long as neither listens
    except BaseException:
        made.close()
        raise
    return made


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Lines(logging.Formatter):
    """A line for each record, with the priorities of the journal where it listens."""

    priorities: ClassVar = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}

    def __init__(self, *, journal: bool) -> None:
        super().__init__("%(levelname)s %(name)s %(message)s")
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = None  # a traceback would show what a request held
        record.exc_text = None
        line = " ".join(super().format(record).split())
        return f"<{self.priorities.get(record.levelno, 5)}>{line}" if self._journal else line


class _Seldom(logging.Filter):
    """Lets the words of others pass, and the same again after a while: strangers cause them."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "ikos.deployment":
            return True
        now, said = time.monotonic(), str(record.msg).splitlines()[:1]
        key = f"{record.name} {said}"
        if len(self._passed) > 1000:
            self._passed.clear()
        if now - self._passed.get(key, -SELDOM_SECONDS) < SELDOM_SECONDS:
            return False
        self._passed[key] = now
        return True


def log_lines() -> None:
    """Log to standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(journal="JOURNAL_STREAM" in os.environ))
    handler.addFilter(_Seldom())
    levels = {
        "ikos.deployment": logging.INFO,
        "uvicorn": logging.WARNING,
        "asyncio": logging.WARNING,
    }
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False


def serve_shuffler(folders: Sequence[Path], listening: Listening) -> None:
    """Run a shuffler for the tasks of some folders until it is told to stop.

    Raises
    ------
    ValueError
        If a folder is not a shuffler's, or it cannot listen there.
    """
    seats = [PartyConfig.read(folder) for folder in _different(folders)]
    if any(seat.party == 0 for seat in seats):
        raise ValueError("folders must be a shuffler's, got the analyzer's")
    if len({seat.task.name for seat in seats}) < len(seats):
        raise ValueError("folders must be of different tasks: one party sees one column")
    with _place(seats, listening) as place, contextlib.ExitStack() as opened:
        client = opened.enter_context(connect(listening.ca))
        desks = {}
        for seat in seats:
            opened.enter_context(alone(seat.folder))
            desk = shuffler_service.shuffler(seat, client)
            opened.callback(desk.close)
            desks[seat.task.name] = desk
        _run(shuffler_service.application(desks, rate=listening.rate), place)


def serve_analyzer(folders: Sequence[Path], listening: Listening) -> None:
    """Run the analyzer of the tasks of some folders until it is told to stop; as above."""
    seats = [AnalyzerSeat.read(folder) for folder in _different(folders)]
    with (
        _place([one.seat for one in seats], listening) as place,
        contextlib.ExitStack() as opened,
    ):
        client = opened.enter_context(connect(listening.ca))
        desks = {}
        for seat in seats:
            opened.enter_context(alone(seat.seat.folder))
            office = analyzer_service.Office(seat, client)
            opened.callback(office.end)
            desks[seat.seat.task.name] = office
        _run(analyzer_service.application(desks, rate=listening.rate), place)


def _different(folders: Sequence[Path]) -> list[Path]:
    if not folders:
        raise ValueError("folders must be at least one")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError("folders must be different")
    return list(folders)


@dataclass(frozen=True)
class _Place:
    """Sockets that listen, and how to speak there."""

    listening: Listening
    sockets: tuple[socket.socket, ...]

    def __str__(self) -> str:
        scheme = "http" if self.listening.certificate is None else "https"
        return f"{scheme}://{_shown(self.listening.host or '', self.sockets[0].getsockname()[1])}"


@contextlib.contextmanager
def _place(seats: Sequence[PartyConfig], listening: Listening) -> Iterator[_Place]:
    """Take the place where a server will listen, before it touches anything that it keeps."""
    known = listening.of(seats)
    assert known.host is not None
    assert known.port is not None
    sockets = _bound(known.host, known.port)
    try:
        yield _Place(known, tuple(sockets))
    finally:
        for one in sockets:
            one.close()


class _Server(uvicorn.Server):
    """Listens by a door of its own, and takes signals as the wishes that they are."""

    def __init__(self, config: uvicorn.Config, place: _Place) -> None:
        super().__init__(config)
        self._place = place
        self._door: Door | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        tls = self._place.listening.tls()
        self._door = Door(self.config, self.server_state, sockets or [], CONNECTIONS, tls)
        self.servers = [self._door]  # type: ignore[list-item]  # which uvicorn closes
        self.started = True
        log.info("listening on %s", self._place)

    def _reload(self) -> None:
        """Take the certificate as it is now; what is wrong with it changes nothing."""
        if self._door is None:
            return
        try:
            self._door.tls = self._place.listening.tls()
        except ValueError as error:
            log.error("the old certificate stays in force: %s", error)
        else:
            log.info("read the certificate again" if self._door.tls else "no certificate to read")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        told: dict[signal.Signals, Callable[[int, FrameType | None], object]]
        told = {signal.SIGINT: self.handle_exit, signal.SIGTERM: self.handle_exit}
        with contextlib.suppress(AttributeError):  # where there is none
            told[signal.SIGHUP] = lambda *_: loop.call_soon_threadsafe(self._reload)
        before = {number: signal.signal(number, handler) for number, handler in told.items()}
        try:
            yield
        finally:  # uvicorn would raise the signal again, and end with its status
            for number, handler in before.items():
                signal.signal(number, handler)


def leave_no_dump() -> None:
    """Let a crash leave no image of this process's memory, which has keys and shares, on a disk."""
    with contextlib.suppress(ImportError):  # where there are no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run(application: Starlette, place: _Place) -> None:
    """Serve until SIGTERM or SIGINT; then finish the requests that are under way."""
    log_lines()
    leave_no_dump()
    config = uvicorn.Config(
        application,
        http=Hurried,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # a stranger's word for who asks
        server_header=False,
        date_header=False,
        limit_concurrency=CONNECTIONS + 1,  # beyond it, all that are there are at work
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        lifespan="off",
    )
    _Server(config, place).run(list(place.sockets))
    log.info("stopped")
