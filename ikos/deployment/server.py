"""The life of a server: it binds, locks and checks, listens until it is stopped, and ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import resource
import signal
import socket
import sys
import threading
import time
from asyncio import sslproto
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import methodcaller
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from uvicorn.server import ServerState

from ikos._validation import InvalidValue
from ikos.deployment import analyzer, endpoint, helper, intermediary, relay, shuffler
from ikos.deployment.endpoint import PartyEndpoints
from ikos.deployment.http import CONNECTIONS, Acceptor, uvicorn_config
from ikos.deployment.limits import Addresses
from ikos.deployment.party_files import PartyConfig, locked, reason
from ikos.deployment.remote import connect
from ikos.deployment.service import HEALTH, LIVE, METRICS
from ikos.deployment.settings import Listening
from ikos.deployment.store import log

__all__ = ["serve_analyzer", "serve_helper", "serve_relay", "serve_shuffler"]

BUFFER_BYTES = 1 << 14  # that TLS reads at once: a record; asyncio would keep 256 KiB for each
METRICS_CONNECTIONS = 20
LOOK_SECONDS = 10.0  # after which to look again for what has expired, and at shufflers
STEADY_SECONDS = 3600.0  # for which a clock must have run before it deletes anything
JUMP_SECONDS = 60.0  # by which it may be off meanwhile
_OBJECTS_PER_COLLECTION = 10_000
_BACKLOG = 1024


def _place(host: str, port: int) -> str:
    """Return a host and port, as in an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket, bound as by `socket.create_server`, that does not listen yet."""
    with contextlib.ExitStack() as failing:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = failing.enter_context(socket.socket(family))
        if os.name == "posix":  # elsewhere it would share a port with another listener
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            both = host == "::" and socket.has_dualstack_ipv6()
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        listener.bind((host, port))
        failing.pop_all()
        return listener


@contextlib.contextmanager
def _free(host: str, port: int, names: str) -> Iterator[None]:
    """Raise ValueError for an OSError: the address is in use, or another machine's."""
    try:
        yield
    except OSError as error:
        raise InvalidValue(
            names, f"must be free on this machine, got {_place(host, port)}: {reason(error)}"
        ) from None


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
    """Run a shuffler for the tasks of some folders, all different, until it is stopped."""
    _serve("shuffler", folders, listening, shuffler.shuffler, intermediary.application)


def serve_helper(folders: Sequence[Path], listening: Listening) -> None:
    """Run a helper for the tasks of some folders, as `serve_shuffler` runs a shuffler."""
    _serve("helper", folders, listening, helper.helper, intermediary.application)


def serve_relay(folders: Sequence[Path], listening: Listening) -> None:
    """Run a relay for the tasks of some folders, as `serve_shuffler` runs a shuffler."""
    _serve("relay", folders, listening, relay.relay, intermediary.application)


def serve_analyzer(folders: Sequence[Path], listening: Listening) -> None:
    """Run the analyzer of the tasks of some folders, as `serve_shuffler` runs a shuffler."""
    _serve("analyzer", folders, listening, analyzer.analyzer, analyzer.application)


def _configs(role: str, folders: Sequence[Path], listening: Listening) -> list[PartyConfig]:
    """Return the configurations in the folders of a role: at least one, of different tasks."""
    keep = timedelta(days=listening.keep_days)
    group = listening.group_access
    configs = [replace(PartyConfig.read(folder, group=group), keep=keep) for folder in folders]
    for config in configs:
        if role != (config.task.transport.intermediary if config.party else "analyzer"):
            owner = config.task.party_name(config.party)
            article = "the" if role == "analyzer" else "a"
            raise ValueError(f"{str(config.folder)!r} must be {article} {role}'s, got {owner}'s")
    names = {config.task.name for config in configs}
    if not names or len(names) < len(configs):
        raise InvalidValue("folders", "must be of different tasks: one party sees one column")
    return configs


def _serve(
    role: str,
    folders: Sequence[Path],
    listening: Listening,
    start: Callable[..., PartyEndpoints[Any]],
    application: Callable[..., Starlette],
) -> None:
    """Bind the addresses, lock and check the folders, then listen, until SIGTERM or SIGINT."""
    configs = _configs(role, folders, listening)
    listening = listening.of(configs)
    with contextlib.ExitStack() as opened:
        places, listeners = list(listening.places()), list[socket.socket]()
        for host, port, setting in places:
            with _free(host, port, setting):
                listeners.append(opened.enter_context(_bound(host, port)))
        client = opened.enter_context(connect(listening.ca))
        parties: dict[str, PartyEndpoints[Any]] = {}
        for config in configs:
            opened.enter_context(locked(config.folder))
            parties[config.task.name] = party = start(config, client)
            opened.callback(party.end)
        for place, listener in zip(places, listeners, strict=True):  # from here on, requests wait
            with _free(*place):
                listener.listen(_BACKLOG)
        log_lines()
        leave_no_dump()
        over = threading.Event()
        opened.callback(over.set)
        clock = SteadyClock()
        for work in (lambda party: party.expire(clock.now()), methodcaller("meet")):
            # daemons: both can be interrupted at any point and repeated
            threading.Thread(target=_repeat, args=(work, parties, over), daemon=True).start()
        addresses = Addresses(
            listening.address_rate, listening.address_connections, listening.proxy
        )
        served = application(parties, rate=listening.rate, addresses=addresses)
        gc.freeze()  # collections, a tenth of a report's time, need not look at what was loaded
        gc.set_threshold(_OBJECTS_PER_COLLECTION)
        sslproto.SSLProtocol.max_size = BUFFER_BYTES
        _Server(served, listening, addresses).run(listeners)
        log.info("stopped")


class SteadyClock:
    """The time, or the earliest possible one until the clock has run evenly for an hour.

    So a clock that is far ahead for a while, as before it is synchronized, deletes nothing.
    """

    def __init__(self) -> None:
        self._began = -math.inf  # the monotonic clock, when the other one last jumped
        self._ahead = math.inf  # of the monotonic clock, since then

    def now(self) -> datetime:
        """Return it; call this from time to time."""
        moment, running = endpoint.now(), time.monotonic()
        ahead = moment.timestamp() - running
        if abs(ahead - self._ahead) > JUMP_SECONDS:
            self._began, self._ahead = running, ahead
        steady = running - self._began >= STEADY_SECONDS
        return moment if steady else datetime.min.replace(tzinfo=UTC)


def _repeat(
    work: Callable[[PartyEndpoints[Any]], object],
    parties: Mapping[str, PartyEndpoints[Any]],
    over: threading.Event,
) -> None:
    """Let each party do its regular work while the server runs."""
    logged = set[tuple[str, type]]()
    while True:
        for name, party in parties.items():
            try:
                work(party)
            except Exception as error:  # the other parties' work goes on
                if not over.is_set() and (name, type(error)) not in logged:
                    # without its text, which might hold secrets
                    log.error("task %s: an error of the program: %s", name, type(error).__name__)
                    logged.add((name, type(error)))
        if over.wait(LOOK_SECONDS):
            return


class _Server(uvicorn.Server):
    """Accepts through an `Acceptor`; SIGTERM and SIGINT stop it, SIGHUP reloads the certificate."""

    _acceptor: Acceptor

    def __init__(self, application: Starlette, listening: Listening, addresses: Addresses) -> None:
        routes = application.routes
        by_path = {route.path: route for route in routes if isinstance(route, Route)}
        self._watched = Starlette(routes=[by_path[path] for path in (METRICS, HEALTH, LIVE)])
        if listening.metrics_port is not None:
            routes.remove(by_path[METRICS])
        super().__init__(uvicorn_config(application))
        self._listening, self._addresses = listening, addresses

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        (listener, *watched), tls = sockets, self._listening.tls()
        state = self.server_state
        self._acceptor = Acceptor(self.config, state, listener, CONNECTIONS, tls, self._addresses)
        acceptors = [self._acceptor]
        for other in watched:
            config = uvicorn_config(self._watched)
            config.load()
            acceptors.append(Acceptor(config, ServerState(), other, METRICS_CONNECTIONS))
        self.servers = acceptors  # type: ignore[assignment]  # which uvicorn closes
        self.started = True
        for bound, words in zip(sockets, ("", " for metrics"), strict=False):
            host = self._listening.metrics_host if words else self._listening.host or ""
            scheme = "https" if tls and not words else "http"
            place = _place(host, bound.getsockname()[1])
            log.info("listening on %s://%s%s", scheme, place, words)

    def _reload(self) -> None:
        """Reload the certificate; an invalid one changes nothing."""
        try:
            self._acceptor.tls = self._listening.tls()
        except ValueError as error:
            log.error("the old certificate stays in force: %s", error)
        else:
            log.info(
                "read the certificate again" if self._acceptor.tls else "no certificate to read"
            )

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
    """Prevent crashes from dumping this process's memory, with keys and shares, to disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
