"""A shuffler's processor time for a report, against that of its HTTP server alone.

Both are processes of their own on loopback; this one sends the same requests to both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
import httpx
from test_deployment import HELPER, KEY, Request, request_of, task_of

from ikos.deployment.opening import public_key, suite
from ikos.deployment.party_files import read_secrets, write_party_files
from ikos.deployment.wire import ID_BYTES

AT_ONCE = 64
IN_A_CONNECTION = 900
BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def put(request):
    await request.body()
    return Response(status_code=201)

place = "/tasks/{task}/windows/{window:int}/reports/{report}"
uvicorn.run(
    Starlette(routes=[Route(place, put, methods=["PUT"])]),
    port=int(sys.argv[1]), http="h11", access_log=False, log_config=None,
)
"""

_pids: list[int] = []


def processor_seconds() -> float:
    """Return the processor seconds that all servers took."""
    ticks = 0
    for pid in _pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def server(*arguments: object) -> Iterator[int]:
    """Run a server; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    words = [str(port) if one is None else str(one) for one in arguments]
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL)
    _pids.append(process.pid)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        _pids.remove(process.pid)


def raw(path: str, headers: list[tuple[bytes, bytes]], part: bytes) -> bytes:
    """Return the bytes of a request."""
    lines = [f"PUT {path} HTTP/1.1".encode(), b"host: 127.0.0.1"]
    lines += [name + b": " + text for name, text in headers]
    return b"\r\n".join([*lines, b"content-length: %d" % len(part), b"", part])


def send(port: int, requests: list[bytes]) -> None:
    """Send requests over some connections, each of which must be accepted."""

    async def one(waiting: Iterator[bytes]) -> None:
        while some := list(islice(waiting, IN_A_CONNECTION)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for request in some:
                writer.write(request)
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201")
            writer.close()

    async def all_of_them() -> None:
        shares = (iter(requests[place::AT_ONCE]) for place in range(AT_ONCE))
        await asyncio.gather(*map(one, shares))

    asyncio.run(all_of_them())


def written(port: int) -> tuple[int, float]:
    """Return how many writes a server made, and the seconds that they took."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    found = re.findall(r'ikos_work_seconds_(count|sum)\{[^}]*work="write"\} (\S+)', text)
    counted = dict(found)
    return int(float(counted["count"])), float(counted["sum"])


def fsync_seconds(path: Path, times: int, size: int) -> float:
    """Return how long it takes to append as many bytes, each time down to the disk."""
    with path.open("wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(times):
            file.write(bytes(size))
            os.fsync(file.fileno())
        return time.perf_counter() - start


@pytest.mark.parametrize("role", ["shuffler", "helper"])
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="times are read from /proc")
@pytest.mark.benchmark(timer=processor_seconds)
def test_intake(
    against: Callable[..., float],
    note: Callable[[str], None],
    benchmark: Any,
    tmp_path: Path,
    role: str,
) -> None:
    """Against a server that keeps nothing. A helper also decrypts, and adds up."""
    count, rounds = 4000, 5
    task = task_of(count * (rounds + 3), **(HELPER if role == "helper" else {}))
    write_party_files(task, [KEY], tmp_path / "task")
    window = task.at(0)

    def request(secret: bytes) -> bytes:
        number, part = os.urandom(ID_BYTES), os.urandom(task.part_bytes(1))
        if role == "helper":
            info = task.transport.info(window, 1, number)
            key = public_key(window.public_key(1), task.kem)
            part = bytes(suite(task.kem).encrypt(os.urandom(32), key, info))
        made: Request = request_of(task, secret, 1, part, number)
        return raw(*made)

    requests = [request(secret) for secret in read_secrets(tmp_path / "task" / "clients")]
    waiting = iter(requests)
    folder = tmp_path / "task" / f"{role}-1"
    words = ("-m", "ikos", "serve", role, folder, "--port", None, "--rate", 1e6)
    with server("-c", BARE, None) as bare, server(*words) as port:
        ratio = against(
            lambda: send(port, list(islice(waiting, count))),
            lambda: send(bare, requests[:count]),
            rounds=rounds,
        )
        begin = time.perf_counter()
        before, since = written(port)
        send(port, list(islice(waiting, count)))
        took, (writes, seconds) = time.perf_counter() - begin, written(port)
        writes, seconds = writes - before, seconds - since
        synced = fsync_seconds(tmp_path / "synced", writes, count * len(requests[0]) // writes)
    each = benchmark.stats.stats.median / count
    note(
        f"{count / took:,.0f} reports a second in {writes} writes, which take {seconds / took:.0%} "
        f"of the time; as many bytes and calls of fsync alone, {synced / took:.0%}"
    )
    note(f"{1e6 * each:.0f} us of a processor for each report, {ratio:.2f} of the server alone")
