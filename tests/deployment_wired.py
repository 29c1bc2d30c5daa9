"""The servers of all parties of a task in this process, with requests that use no network."""

from __future__ import annotations

import asyncio
import errno
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from ikos.deployment import analyzer, client, helper, intermediary, relay, remote, shuffler
from ikos.deployment.party_files import PartyConfig, folder_of, read_task

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def address_of(request):
    return f"{request.url.scheme}://{request.url.host}:{request.url.port}"


class Wires(httpx.BaseTransport):
    """Takes each request to the application of its address; to those that are cut, to nobody."""

    def __init__(self, stack):
        self.loop, self._lock, self._over = asyncio.new_event_loop(), threading.Lock(), False
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        stack.callback(self._end)
        self.ends = {}
        self.cut = set()
        self.requests = []

    def _end(self):
        """Answer nothing more, not even what was asked."""
        with self._lock:
            self._over = True
        asyncio.run_coroutine_threadsafe(self._cancel(), self.loop).result(60)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    @staticmethod
    async def _cancel():
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def handle_request(self, request):
        address = address_of(request)
        self.requests.append((request.method, address))
        if address in self.cut or address not in self.ends:
            raise httpx.ConnectError("nobody listens", request=request) from REFUSED
        return self.answer(request)

    def answer(self, request):
        """Return the application's answer, whatever is cut."""
        with self._lock:
            if self._over:
                raise httpx.ConnectError("all is over", request=request)
            answer = self._answer(self.ends[address_of(request)], request)
            future = asyncio.run_coroutine_threadsafe(answer, self.loop)
        return future.result(60)

    @staticmethod
    async def _answer(application, request):
        async with httpx.ASGITransport(application) as transport:
            response = await transport.handle_async_request(request)
            content = await response.aread()
        return httpx.Response(
            response.status_code, headers=response.headers, stream=httpx.ByteStream(content)
        )


class Wired:
    """All parties of the task whose folders are in ``folder``."""

    def __init__(self, folder: Path, stack: ExitStack, rate=1e6):
        self.folder, self.rate = folder, rate
        self.task = read_task(folder)
        self.wires = Wires(stack)
        self.http = stack.enter_context(httpx.Client(transport=self.wires))
        self.parties, self.endpoints = {}, {}
        stack.callback(self.end)
        self.start()

    @property
    def analyzer(self):
        return self.endpoints[0]

    def start(self, parties=None):
        """Start parties from their folders, by default all; the analyzer last."""
        for party in (*range(1, self.task.parties), 0) if parties is None else parties:
            roles = {"shuffler": shuffler.shuffler, "helper": helper.helper, "relay": relay.relay}
            role = roles[self.task.transport.intermediary] if party else analyzer.analyzer
            serve = intermediary.application if party else analyzer.application
            config = PartyConfig.read(self.folder / folder_of(self.task, party))
            self.parties[party] = one = role(config, self.http)
            self.endpoints[party] = one.at(0)
            application = serve({self.task.name: one}, rate=self.rate)
            self.wires.ends[self.task.address(party)] = application

    def end(self):
        for one in self.parties.values():
            one.end()

    def connect(self, ca=None):
        """Return a client, as `ikos.deployment.remote.connect` does."""
        assert ca is None
        return httpx.Client(transport=self.wires)


@pytest.fixture
def wired(monkeypatch):
    """Let the parties of some folder run, and everybody reach them."""
    with ExitStack() as stack:

        def wired(folder: Path) -> Wired:
            made = Wired(folder, stack)
            for module in (remote, client):
                monkeypatch.setattr(module, "connect", made.connect)
            return made

        yield wired


def addresses(columns=5, first=9001):
    """Return the options for so many shufflers and the analyzer on this machine."""
    shufflers = [f"http://127.0.0.1:{first + j}" for j in range(columns)]
    options = [word for address in shufflers for word in ("--shuffler", address)]
    return (*options, "--analyzer", f"http://127.0.0.1:{first - 1}")


SMALL = (
    "--users", "60", "--min-honest", "66.6%", "--epsilon", "8", "--delta", "0.5",
    "--lower", "0", "--upper", "3", "--integers",
)  # fmt: skip
"""A task that five shufflers are enough for; it protects little, and that is said."""

LITTLE = "delta = 0.5 is not below 1/users"


@pytest.fixture
def small(run, tmp_path):
    """The folder of a small task."""
    folder = tmp_path / "visits"
    run("task", "new", *SMALL, *addresses(), "--output", folder, warning=LITTLE)
    return folder
