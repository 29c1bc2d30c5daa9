"""The analyzer's server: the routes of `ikos.parties.service`, releases, and the status page."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from ikos.parties.analyzer import Analyzer, Stopped
from ikos.parties.page import task_page, tasks_page
from ikos.parties.remote import RemoteError, RemoteShuffler
from ikos.parties.seats import AnalyzerSeat
from ikos.parties.service import Service, command, log, public_status

__all__ = ["Office", "application"]

GLANCE_SECONDS = 2.0
_FRESH = 1.0  # seconds for which a glance at the shufflers is kept


@dataclass
class _Release:
    """How far a release is."""

    running: bool = False
    step: str | None = None
    message: str | None = None


class Office:
    """The analyzer of one task, at work: releases run in a thread of their own.

    Parameters
    ----------
    seat : AnalyzerSeat
        What it knows.
    client : httpx.Client
        The connection to the shufflers.
    """

    def __init__(self, seat: AnalyzerSeat, client: httpx.Client) -> None:
        task = seat.seat.task
        self.shufflers = tuple(
            RemoteShuffler(client, task, party, control)
            for party, control in enumerate(seat.controls, 1)
        )
        self.analyzer = Analyzer(seat, self.shufflers)
        self.seat = seat.seat
        self.collection = self.analyzer.collection
        self._release = _Release()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._glance: tuple[float, list[dict[str, Any] | None]] = (-1e9, [])
        # a release that was under way when the process ended goes on
        if self.state == "agreed":
            self.release()

    @property
    def state(self) -> str:
        """What the analyzer is at."""
        return self.analyzer.state

    def reports(self) -> int:
        """Return how many clear shares were accepted."""
        return self.analyzer.reports()

    def release(self) -> None:
        """Begin a release, or go on with one; `status` tells how far it is."""
        with self._lock:
            if self._release.running or self.state in ("released", "stopped"):
                return
            self._release = _Release(running=True)
            self._thread = threading.Thread(target=self._run, name="release", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self.analyzer.release(self._step)
            log.info("result released")
            self._release = _Release()
        except Stopped as stopped:
            log.warning("release stopped: %s", stopped)
            self._release = _Release()
        except OSError as error:
            log.warning("release interrupted: %s", error)
            self._release = _Release(message=str(error))
        except Exception:
            # without its text: it might hold what nobody may see
            log.error("release failed: an error of the program")
            self._release = _Release(message="an error of the program")

    def _step(self, step: str) -> None:
        self._release = _Release(running=True, step=step)

    def status(self) -> dict[str, Any]:
        """Return what the analyzer tells everybody."""
        release = self._release
        return {
            **public_status(self),
            "complete": self.analyzer.complete(),
            "release": {
                "running": release.running,
                "step": release.step,
                "message": self.analyzer.why_stopped() or release.message,
            },
            "result": self.analyzer.result(),
        }

    def glance(self) -> list[dict[str, Any] | None]:
        """Return what each shuffler tells; None for one that does not answer."""
        then, found = self._glance
        if time.monotonic() - then > _FRESH:
            found = [_told(shuffler) for shuffler in self.shufflers]
            self._glance = (time.monotonic(), found)
        return found

    def end(self) -> None:
        """End: finish what is written."""
        self.analyzer.end()


def _told(shuffler: RemoteShuffler) -> dict[str, Any] | None:
    try:
        return shuffler.status(GLANCE_SECONDS)
    except (RemoteError, ValueError):
        return None


class _Service(Service):
    async def _release(self, request: Request) -> Response:
        office: Office = self.desk(request)
        command(request, office.seat)
        await run_in_threadpool(office.release)
        return JSONResponse(await run_in_threadpool(office.status), status_code=202)

    async def _status(self, request: Request) -> Response:
        office: Office = self.desk(request)
        return JSONResponse(await run_in_threadpool(office.status))

    async def _close(self, request: Request) -> Response:
        office: Office = self.desk(request)
        command(request, office.seat)
        missing = None
        try:
            await run_in_threadpool(office.analyzer.close)
        except OSError as error:
            missing = str(error)
        log.info("task closed by order")
        return JSONResponse({**await run_in_threadpool(office.status), "missing": missing})

    async def _page(self, request: Request) -> Response:
        office: Office = self.desk(request)
        status = await run_in_threadpool(office.status)
        columns = await run_in_threadpool(office.glance)
        return HTMLResponse(task_page(office.seat.task, status, columns))

    async def _tasks(self, request: Request) -> Response:
        del request
        states = {name: desk.state for name, desk in self.desks.items()}
        return HTMLResponse(tasks_page(states))

    def application(self) -> Starlette:
        return self.serving(
            self.route("/", self._tasks, "GET"),
            self.route("/tasks/{task}/page", self._page, "GET"),
            self.route("/tasks/{task}/release", self._release, "POST"),
        )


def application(desks: Mapping[str, Office], *, rate: float) -> Starlette:
    """Return the ASGI application of the analyzer, for tasks by their names."""
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return _Service(desks, rate).application()
