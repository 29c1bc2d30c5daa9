"""The programs of the shufflers and the analyzer: a server for the folders of one role."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import ssl
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import uvicorn
from pydantic import ConfigDict, Field, Strict, ValidationError
from pydantic.dataclasses import dataclass
from starlette.applications import Starlette

from ikos.deployment import analyzer, shuffler
from ikos.deployment.connections import HEADER_BYTES, Door, TimedProtocol
from ikos.deployment.party_files import AnalyzerConfig, PartyConfig, locked, owner_alone, reason
from ikos.deployment.remote import connect
from ikos.deployment.service import Endpoint
from ikos.deployment.store import log
from ikos.deployment.task import on_loopback
from ikos.deployment.wire import in_one_line

__all__ = ["serve_analyzer", "serve_shuffler"]

CONNECTIONS = 800  # with the store's files, below the 1,024 that many systems allow


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Listening:
    """Where and how a server listens.

    By default, ``host`` and ``port`` are those of the party's address in its tasks, if that is on
    loopback. Without ``certificate`` and ``private_key`` (PEM files) the host must be on loopback.
    Port 0 is any free one. ``ca`` holds authorities to trust instead of the system's; ``rate``
    limits reports per second.
    """

    host: Annotated[str | None, Field(min_length=1)] = None
    port: Annotated[int | None, Strict(), Field(ge=0, le=65535)] = None
    certificate: Path | None = None
    private_key: Path | None = None
    ca: Path | None = None
    rate: Annotated[float, Strict(), Field(gt=0, lt=1e9)] = 5000.0

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key must be given together")
        if self.certificate is None and self.host is not None and not on_loopback(self.host):
            raise ValueError(
                f"host must be on loopback without a certificate, got {self.host!r}: give "
                "certificate and private_key"
            )
        self.tls()

    @classmethod
    def read(cls, path: Path | None, given: Mapping[str, Any]) -> Listening:
        """Return a TOML file's settings, overridden by those given; errors name the setting."""
        found = {} if path is None else _toml(path)
        try:
            return cls(**{**found, **given})
        except ValidationError as error:
            line = in_one_line(error)
            known = path is not None and not any(name in line.split(" must")[0] for name in given)
            raise ValueError(f"{str(path)!r}: {line}" if known else line) from None

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
            raise ValueError(
                "certificate and private_key must be PEM files of a certificate and its key "
                f"without a password, got {str(self.certificate)!r} and {str(self.private_key)!r}: "
                f"{why}"
            ) from None
        owner_alone(self.private_key)
        return context

    def of(self, configs: Sequence[PartyConfig]) -> Listening:
        """Return where to listen for some parties, by default at their address in the tasks."""
        if self.host is not None and self.port is not None:
            return self
        address, *others = sorted({config.task.address(config.party) for config in configs})
        if others:
            raise ValueError(
                "host and port must be given where tasks have different addresses for this party, "
                f"got {address} and {others[0]}"
            )
        parts = urlsplit(address)
        host = self.host or parts.hostname or ""
        if self.host is None and not on_loopback(host):
            raise ValueError(
                f"host must be given: the party's address in the task, {address}, is not on this "
                "machine alone"
            )
        tls = parts.scheme == "https"
        if self.port is None and tls and self.certificate is None:
            raise ValueError(
                f"certificate and private_key must be given for {address}, or the port to which a "
                "proxy with a certificate passes requests"
            )
        port = parts.port or (443 if tls else 80)
        return replace(self, host=host, port=port if self.port is None else self.port)

    @property
    def place(self) -> str:
        """The host and port, as in an address."""
        return f"[{self.host}]:{self.port}" if ":" in str(self.host) else f"{self.host}:{self.port}"

    def socket(self) -> socket.socket:
        """Listen; ValueError if the place is in use, or of another machine."""
        host, port = self.host or "", self.port or 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        both = host == "::" and socket.has_dualstack_ipv6()
        try:
            return socket.create_server(
                (host, port), family=family, backlog=1024, dualstack_ipv6=both
            )
        except OSError as error:
            why = reason(error).partition(" (while")[0]
            raise ValueError(
                f"host and port must be free to listen at, got {self.place}: {why}"
            ) from None


def _toml(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file; file names in it are relative to its folder."""
    try:
        found = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise ValueError(
            f"config must be a file that can be read, got {str(path)!r}: {reason(error)}"
        ) from None
    except ValueError as error:  # errors of decoding and of TOML
        why = " ".join(str(error).split())
        raise ValueError(f"config must be TOML, got {str(path)!r}: {why}") from None
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
    """Run a shuffler for the tasks of some folders until it is told to stop.

    ValueError if a folder is not a shuffler's, two are for one task, or it cannot listen there.
    """
    configs = [PartyConfig.read(folder) for folder in folders]
    for config in configs:
        if config.party == 0:
            raise ValueError(f"{str(config.folder)!r} must be a shuffler's, got the analyzer's")
    _serve(configs, listening, shuffler.shuffler, shuffler.application)


def serve_analyzer(folders: Sequence[Path], listening: Listening) -> None:
    """Run the analyzer of the tasks of some folders, as `serve_shuffler` runs a shuffler."""
    configs = [AnalyzerConfig.read(folder) for folder in folders]
    _serve(configs, listening, analyzer.analyzer, analyzer.application)


def _serve(
    configs: Sequence[Any],
    listening: Listening,
    start: Callable[..., Endpoint],
    application: Callable[..., Starlette],
) -> None:
    """Bind the addresses, then lock the folders; serve until SIGTERM or SIGINT."""
    names = {config.task.name for config in configs}
    if not names or len(names) < len(configs):
        raise ValueError("folders must be of different tasks: one party sees one column")
    known = listening.of(configs)
    with known.socket() as listener, contextlib.ExitStack() as opened:
        client = opened.enter_context(connect(listening.ca))
        endpoints: dict[str, Endpoint] = {}
        for config in configs:
            opened.enter_context(locked(config.folder))
            endpoint = start(config, client)
            opened.callback(endpoint.end)
            endpoints[config.task.name] = endpoint
        log_lines()
        leave_no_dump()
        _Server(uvicorn_config(application(endpoints, rate=known.rate)), known).run([listener])
        log.info("stopped")


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
        h11_max_incomplete_event_size=HEADER_BYTES,
        lifespan="off",
    )


class _Server(uvicorn.Server):
    """Accepts through a `Door`; SIGTERM and SIGINT stop it, SIGHUP reloads the certificate."""

    _door: Door

    def __init__(self, config: uvicorn.Config, listening: Listening) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        (listener,), tls = sockets, self._listening.tls()
        self._door = Door(self.config, self.server_state, listener, CONNECTIONS, tls)
        self.servers = [self._door]  # type: ignore[list-item]  # which uvicorn closes
        self.started = True
        place = replace(self._listening, port=listener.getsockname()[1]).place
        log.info("listening on %s://%s", "https" if tls else "http", place)

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
