"""A shuffler's server: those of `ikos.deployment.service`, and the routes the analyzer uses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ikos.deployment.errors import Refused
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.remote import agreement_of
from ikos.deployment.reports import ID_BYTES
from ikos.deployment.service import Service, body_of, command, note, public_status
from ikos.deployment.shuffler import Shuffler


def shuffler(seat: PartyConfig, client: httpx.Client) -> Shuffler:
    """Return a shuffler that asks the others over a connection."""
    return Shuffler(seat, partial(agreement_of, client, seat.task))


class _Service(Service):
    async def _ids(self, request: Request) -> Response:
        desk = self._commanded(request)
        return Response(await run_in_threadpool(desk.ids), media_type="application/octet-stream")

    async def _agree(self, request: Request) -> Response:
        desk = self._commanded(request)
        ids = await body_of(request, ID_BYTES * desk.seat.task.users, exactly=False)
        digest = await run_in_threadpool(desk.agree, ids)
        note(desk.seat, "batch agreed")
        return JSONResponse({"digest": digest})

    async def _agreement(self, request: Request) -> Response:
        digest = self.desk(request).agreement()
        if digest is None:
            raise Refused("notFound", "no batch was agreed")
        return JSONResponse({"digest": digest})

    async def _batch(self, request: Request) -> Response:
        desk = self._commanded(request)
        pieces = await run_in_threadpool(desk.batch)
        length = desk.complete() * desk.seat.part_bytes
        note(desk.seat, "batch released")
        return StreamingResponse(
            pieces,
            headers={"Content-Length": str(length)},  # so that one that is cut is told from it
            media_type="application/octet-stream",
        )

    async def _forget(self, request: Request) -> Response:
        desk = self._commanded(request)
        await run_in_threadpool(desk.forget)
        note(desk.seat, "batch deleted")
        return JSONResponse(public_status(desk))

    def _commanded(self, request: Request) -> Shuffler:
        desk: Shuffler = self.desk(request)
        command(request, desk.seat)
        return desk

    def application(self) -> Starlette:
        return self.serving(
            self.route("/tasks/{task}/reports", self._ids, "GET"),
            self.route("/tasks/{task}/agreement", self._agreement, "GET"),
            self.route("/tasks/{task}/batch", self._agree, "PUT"),
            self.route("/tasks/{task}/batch", self._batch, "GET"),
            self.route("/tasks/{task}/batch", self._forget, "DELETE"),
        )


def application(desks: Mapping[str, Shuffler], *, rate: float) -> Starlette:
    """Return the ASGI application of shufflers, by their tasks' names."""
    return _Service(desks, rate).application()
