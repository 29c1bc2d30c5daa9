"""The programs of the shufflers and the analyzer: a server for the folders of one role."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import uvicorn
from starlette.applications import Starlette

from ikos.parties import analyzer_service, shuffler_service
from ikos.parties.remote import connect
from ikos.parties.seats import AnalyzerSeat, Seat
from ikos.parties.task import on_loopback

__all__ = ["Listening", "serve_analyzer", "serve_shuffler"]

RATE = 5000.0
"""Reports a second at most, unless told."""

CONNECTIONS = 1000
HEADER_BYTES = 1 << 14
IDLE_SECONDS = 20
STOP_SECONDS = 20


@dataclass(frozen=True)
class Listening:
    """Where and how a server listens.

    Attributes
    ----------
    host : str
        Of this machine's; without a certificate it must be on loopback.
    port : int
        From 1 to 65535, or 0 for any that is free.
    certificate, private_key : Path, optional
        TLS, in PEM files.
    ca : Path, optional
        Authorities to trust in other parties' certificates, instead of the system's.
    rate : float
        Reports a second at most.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    private_key: Path | None = None
    ca: Path | None = None
    rate: float = RATE

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key must be given together")
        if self.certificate is None and not on_loopback(self.host):
            raise ValueError(
                f"host must be on loopback without a certificate, got {self.host!r}: give "
                "certificate and private_key"
            )
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, got {self.port}")
        if not self.rate > 0:
            raise ValueError(f"rate must be positive, got {self.rate}")


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


def log_lines() -> None:
    """Log to standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(journal="JOURNAL_STREAM" in os.environ))
    for name, level in (("ikos.parties", logging.INFO), ("uvicorn", logging.WARNING)):
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
    seats = [Seat.read(folder) for folder in _different(folders)]
    if any(seat.party == 0 for seat in seats):
        raise ValueError("folders must be a shuffler's, got the analyzer's")
    with connect(listening.ca) as client, contextlib.ExitStack() as opened:
        desks = {}
        for seat in seats:
            if seat.task.name in desks:
                raise ValueError("folders must be of different tasks: one party sees one column")
            desk = shuffler_service.shuffler(seat, client)
            opened.callback(desk.close)
            desks[seat.task.name] = desk
        _run(shuffler_service.application(desks, rate=listening.rate), listening)


def serve_analyzer(folders: Sequence[Path], listening: Listening) -> None:
    """Run the analyzer of the tasks of some folders until it is told to stop; as above."""
    seats = [AnalyzerSeat.read(folder) for folder in _different(folders)]
    with connect(listening.ca) as client, contextlib.ExitStack() as opened:
        desks = {}
        for seat in seats:
            office = analyzer_service.Office(seat, client)
            opened.callback(office.end)
            desks[seat.seat.task.name] = office
        _run(analyzer_service.application(desks, rate=listening.rate), listening)


def _different(folders: Sequence[Path]) -> list[Path]:
    if not folders:
        raise ValueError("folders must be at least one")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError("folders must be different")
    return list(folders)


def _run(application: Starlette, listening: Listening) -> None:
    """Serve until SIGTERM or SIGINT; then finish the requests that are under way."""
    log_lines()
    config = uvicorn.Config(
        application,
        host=listening.host,
        port=listening.port,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.private_key,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        lifespan="off",
    )
    server = uvicorn.Server(config)
    try:
        server.run()
    except SystemExit:
        raise ValueError(
            f"host and port must be free to listen at, got {listening.host}:{listening.port}"
        ) from None
