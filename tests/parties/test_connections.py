"""Connections on which nothing, or half a request, is sent: each ends by itself."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("uvicorn", reason="needs the extra ikos[parties]")

import uvicorn
from uvicorn.server import ServerState

from ikos.parties import connections
from ikos.parties.connections import Hurried

REQUEST = b"GET / HTTP/1.1\r\nHost: party\r\n\r\n"


async def application(scope, receive, send):
    if scope["path"] == "/slow":
        await asyncio.sleep(0.6)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def opened(limit=None):
    """Serve, and open connections."""
    config = uvicorn.Config(
        application, http=Hurried, lifespan="off", log_config=None, limit_concurrency=limit
    )
    config.load()
    loop, state, writers = asyncio.get_running_loop(), ServerState(), []
    server = await loop.create_server(
        lambda: config.http_protocol_class(config, state, {}, loop), "127.0.0.1", 0
    )

    async def connection():
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writers.append(writer)
        return reader, writer

    try:
        yield connection
    finally:
        for writer in writers:
            writer.close()
        server.close()


async def ends(reader, seconds=30):
    try:
        return await asyncio.wait_for(reader.read(), seconds)
    except ConnectionError:
        return b""


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)


@pytest.mark.parametrize("sent", [b"", b"G", REQUEST[:-2], REQUEST + b"GET / HT"])
def test_a_head_that_does_not_come(hurried, sent):
    async def check():
        async with opened() as connection:
            reader, writer = await connection()
            writer.write(sent)
            return await ends(reader)

    assert asyncio.run(check()).count(b"200 OK") == sent.count(REQUEST)


def test_a_head_that_drips(hurried):
    async def check():
        async with opened() as connection:
            reader, writer = await connection()
            ended = asyncio.ensure_future(ends(reader))
            loop = asyncio.get_running_loop()
            begin = loop.time()
            while not ended.done() and loop.time() < begin + 30:
                writer.write(b"G")
                await asyncio.sleep(0.02)
            return ended.done() and await ended

    assert asyncio.run(check()) == b""


def test_whole_requests_take_their_time(hurried):
    """An answer may take longer than a head, and the connection is there for the next."""

    async def check():
        async with opened() as connection:
            reader, writer = await connection()
            answers = []
            for path in (b"/slow", b"/", b"/slow"):
                writer.write(REQUEST.replace(b"/", path, 1))
                answers.append(await reader.readuntil(b"ok"))
            return answers

    assert all(answer.startswith(b"HTTP/1.1 200") for answer in asyncio.run(check()))


def test_far_too_many(monkeypatch):
    monkeypatch.setattr(connections, "SPARE", 2)

    async def check():
        async with opened(limit=3) as connection:
            first = [await connection() for _ in range(5)]
            over = [await connection() for _ in range(3)]
            ended = [await ends(reader) for reader, _ in over]
            first[4][1].write(REQUEST)
            return ended, await first[4][0].readuntil(b"\r\n")

    ended, answer = asyncio.run(check())
    assert ended == [b""] * 3
    assert b" 503 " in answer
