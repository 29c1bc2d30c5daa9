"""The analyzer's server: the routes of `ikos.deployment.service`, releases, and the status page."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from ikos.deployment.analyzer import Analyzer, Stopped
from ikos.deployment.parallel import at_once
from ikos.deployment.party_files import AnalyzerSeat
from ikos.deployment.remote import RemoteShuffler
from ikos.deployment.retry import Persistent
from ikos.deployment.service import Service, command, note, public_status
from ikos.deployment.status_page import task_page, tasks_page
from ikos.deployment.store import StoreError

GLANCE_SECONDS = 2.0
_ORDERED = "ordered"
_FRESH = 1.0  # seconds for which a glance at the shufflers is kept


class Office:
    """The analyzer of one task, at work: what it is ordered to do runs in a thread of its own.

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
        self._work = Persistent(f"task {task.name}: release", self._do)
        self._glancing = threading.Lock()
        self._glance: list[dict[str, Any] | None] = [None] * task.columns
        self._glanced = -math.inf
        if self._due():  # what was ordered before the process ended goes on
            self._work.begin()

    @property
    def state(self) -> str:
        """What the analyzer is at."""
        return self.analyzer.state

    def reports(self) -> int:
        """Return how many clear shares were accepted."""
        return self.analyzer.reports()

    def close(self) -> str | None:
        """Close the task at all parties; return which do not answer: they are told again later."""
        if self.collection.close():
            note(self.seat, "closed by order")
        try:
            self.analyzer.close()
        except StoreError:
            raise
        except OSError as error:
            self._work.begin()
            return str(error)
        return None

    def release(self) -> None:
        """Begin a release, or go on with one; `status` tells how far it is."""
        if not self.analyzer.over:
            self.collection.note(_ORDERED, "yes").result()
            self._work.begin()

    def _due(self) -> bool:
        """Whether something was ordered that may not be done."""
        return not self.analyzer.over and (self._ordered() or self.collection.closed_by_order)

    def _ordered(self) -> bool:
        """Whether a release was."""
        begun = self.state in ("agreed", "released", "stopped")
        return begun or self.collection.fact(_ORDERED) is not None

    def _do(self, step: Callable[[str], None]) -> None:
        """Do what was ordered, or what is left of it."""
        if self.analyzer.over:
            return
        if not self._ordered():
            step("closing")
            self.analyzer.close()
            return
        try:
            self.analyzer.release(step)
            note(self.seat, "result released")
        except Stopped as stopped:
            if stopped.left is not None:
                raise stopped.left from None
            note(self.seat, "release stopped: %s", stopped, level=logging.WARNING)

    def status(self) -> dict[str, Any]:
        """Return what the analyzer tells everybody."""
        now = self._work.now
        said = (self.analyzer.why_stopped(), now.message)
        return {
            **public_status(self),
            "complete": self.analyzer.complete(),
            "release": {
                "running": now.running,
                "step": None if self.state == "released" else now.step,  # what is left is quick
                "message": "; ".join(filter(None, said)) or None,
                "again": now.again,
            },
            "result": self.analyzer.result(),
        }

    def glance(self) -> list[dict[str, Any] | None]:
        """Return what each shuffler tells; None for one that does not answer."""
        # one asks for all: who looks meanwhile has what is known
        if self._glancing.acquire(blocking=False):
            try:
                if time.monotonic() - self._glanced > _FRESH:
                    told = sorted(at_once(self._told, range(1, len(self.shufflers) + 1)))
                    self._glance = [None if isinstance(one, OSError) else one for _, one in told]
                    self._glanced = time.monotonic()
            finally:
                self._glancing.release()
        return self._glance

    def _told(self, party: int) -> dict[str, Any]:
        return self.shufflers[party - 1].status(GLANCE_SECONDS)

    def end(self) -> None:
        """End: try nothing more, and finish what is written."""
        self._work.end()
        self.analyzer.end()


class _Service(Service):
    async def _release(self, request: Request) -> Response:
        office: Office = self.desk(request)
        command(request, office.seat)
        await run_in_threadpool(office.release)
        return JSONResponse(office.status(), status_code=202)

    async def _status(self, request: Request) -> Response:
        office: Office = self.desk(request)
        return JSONResponse(office.status())

    async def _close(self, request: Request) -> Response:
        office: Office = self.desk(request)
        command(request, office.seat)
        missing = await run_in_threadpool(office.close)
        return JSONResponse({**office.status(), "missing": missing})

    async def _page(self, request: Request) -> Response:
        office: Office = self.desk(request)
        columns = await run_in_threadpool(office.glance)
        return HTMLResponse(task_page(office.seat.task, office.status(), columns))

    async def _tasks(self, request: Request) -> Response:
        del request
        desks = self.desks.values()
        page = tasks_page((desk.seat.task, desk.state, desk.reports()) for desk in desks)
        return HTMLResponse(page)

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
