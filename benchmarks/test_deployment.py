"""A shuffler's reports a second, the seconds of a release, and the share of HPKE in both.

Without a network: what is measured is the library's, down to the disk.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
import httpx
from starlette.applications import Starlette

from ikos import Categories
from ikos.deployment import intermediary, tokens
from ikos.deployment import shuffler as shufflers
from ikos.deployment.analyzer import AnalyzerEndpoint
from ikos.deployment.endpoint import PartyEndpoints
from ikos.deployment.helper import HelperEndpoint
from ikos.deployment.helpers import added_shares
from ikos.deployment.hpke import PrivateKey, seal, unseal
from ikos.deployment.party_files import PartyConfig, read_secrets, write_party_files
from ikos.deployment.reports import ClientReport
from ikos.deployment.shuffler import ShufflerEndpoint
from ikos.deployment.task import Task, Window
from ikos.deployment.wire import ID_BYTES, encoded

AT_ONCE = 64
COLUMNS = 5
KEY = PrivateKey(bytes(range(32)))
HELPER: dict[str, Any] = {"columns": 1, "transport": "helpers", "domain": Categories([50])}
"""Options of a task with a helper."""
Request = tuple[str, list[tuple[bytes, bytes]], bytes]


def task_of(users: int, columns: int = COLUMNS, **options: Any) -> Task:
    now = datetime.now(UTC)
    return Task.new(
        users,
        1,
        1e-6,
        shufflers=[f"http://127.0.0.1:{9001 + j}" for j in range(columns)],
        analyzer="http://127.0.0.1:9000",
        public_keys=[KEY.public_bytes],
        opens=now - timedelta(hours=1),
        closes=now + timedelta(days=1),
        integers=True,
        min_honest=users // 2,
        **options,
    )


def request_of(
    task: Task, secret: bytes, party: int, part: bytes, number: bytes | None = None
) -> Request:
    """Return a request as a client makes it, by default with a random id."""
    token = tokens.to_text(tokens.for_party(secret, task, party))
    digest = base64.b64encode(hashlib.sha256(part).digest())
    headers = [
        (b"authorization", b"Bearer " + token.encode()),
        (b"content-digest", b"sha-256=:" + digest + b":"),
    ]
    return f"{task.at(0).path}/reports/{encoded(number or os.urandom(ID_BYTES))}", headers, part


def put(application: Starlette, requests: list[Request]) -> None:
    """Send requests, some at once, each of which must be accepted."""

    async def one(path: str, headers: list[tuple[bytes, bytes]], part: bytes) -> None:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": part, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "PUT",
            "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
            "root_path": "", "client": None, "server": None,
            "headers": [*headers, (b"content-length", b"%d" % len(part))],
        }  # fmt: skip
        await application(scope, receive, send)
        assert sent[0]["status"] == 201, sent

    async def some(waiting: Iterator[Request]) -> None:
        for request in waiting:
            await one(*request)

    async def everything() -> None:
        waiting = iter(requests)
        await asyncio.gather(*(some(waiting) for _ in range(AT_ONCE)))

    asyncio.run(everything())


class Collecting:
    """One shuffler, and requests of all its clients."""

    def __init__(self, folder: Path, users: int) -> None:
        self.task = task_of(users)
        write_party_files(self.task, [KEY], folder)
        secrets = read_secrets(folder / "clients")
        # a shuffler cannot tell an envelope from other bytes, of which there are enough at once
        parts = (os.urandom(self.task.envelope_bytes) for _ in secrets)
        pairs = zip(secrets, parts, strict=True)
        self.requests = iter([request_of(self.task, secret, 1, part) for secret, part in pairs])
        self.wire = httpx.Client()
        self.desk = shufflers.shuffler(PartyConfig.read(folder / "shuffler-1"), self.wire)
        self.application = intermediary.application({self.task.name: self.desk}, rate=1e9)

    def put(self, count: int) -> None:
        put(self.application, [next(self.requests) for _ in range(count)])

    def end(self) -> None:
        self.desk.end()
        self.wire.close()


def test_reports_of_one_shuffler(
    against: Callable[..., float], note: Callable[[str], None], benchmark: Any, tmp_path: Path
) -> None:
    """Against what one client does to seal as many envelopes: HPKE, which shufflers do not do."""
    count, rounds = 2000, 5
    collecting = Collecting(tmp_path / "task", count * (rounds + 3))
    task = collecting.task
    against(
        lambda: collecting.put(count),
        lambda: [seal([1], task.at(0), 1, 0) for _ in range(count)],
        rounds=rounds,
    )
    seconds = benchmark.stats.stats.median
    sealing = benchmark.extra_info["floor_seconds"]
    note(f"{count / seconds:,.0f} reports a second; {count / sealing:,.0f} envelopes sealed")
    assert collecting.desk.at(0).reports() >= count * rounds
    collecting.end()


class Direct:
    """A shuffler or helper, as the analyzer speaks to it, without a network."""

    def __init__(self, desk: intermediary.Intermediary) -> None:
        self._desk = desk
        self.close = desk.close
        self.ids = desk.ids
        self.forget = desk.forget
        self.agreement = desk.agreement

    def agree(self, ids: bytes) -> None:
        self._desk.agree(ids)

    def batch(self, limit: int) -> bytes:
        found = b"".join(self._desk.batch())
        assert len(found) <= limit
        return found


class Releasing:
    """All parties of a task whose clients have reported, to be begun again for each round."""

    def __init__(self, folder: Path, users: int, **options: Any) -> None:
        self.filled, self.now = folder / "filled", folder / "now"
        self.task = task_of(users, **options)
        write_party_files(self.task, [KEY], self.filled)
        secrets = read_secrets(self.filled / "clients")
        self.sent: list[tuple[int, bytes, bytes]] = []
        self._start(self.filled)
        value = np.eye(1, self.task.domain.dimension)[0] if options else 1
        reports = list(ClientReport.make_many(self.task.at(0), np.array([value] * users)))
        for party in range(self.task.parties):
            desk = self.desks[party] if party else self.analyzer
            given = [tokens.digest(tokens.for_party(one, self.task, party)) for one in secrets]
            rows = [
                (one.id, token, desk.stored(one.id, one.parts[party]))
                for one, token in zip(reports, given, strict=True)
            ]
            for start in range(0, users, AT_ONCE):
                desk.intake.accept(rows[start : start + AT_ONCE]).result()
            if party:
                self.sent += [(party, one.id, one.parts[party]) for one in reports]
        self.end()

    def _start(self, folder: Path) -> None:
        self.desks: dict[int, intermediary.Intermediary] = {}
        self.parties: list[PartyEndpoints[Any]] = []
        word = self.task.transport.intermediary
        kind = {"shuffler": ShufflerEndpoint, "helper": HelperEndpoint}[word]

        def peer(_: Window, party: int) -> Any:
            return Direct(self.desks[party])

        for party in range(1, self.task.columns + 1):
            config = PartyConfig.read(folder / f"{word}-{party}")
            self.parties.append(PartyEndpoints(config, kind, peer))
            self.desks[party] = self.parties[-1].at(0)
        config = PartyConfig.read(folder / "analyzer")
        self.parties.append(PartyEndpoints(config, AnalyzerEndpoint, peer))
        self.analyzer = self.parties[-1].at(0)

    def begin(self) -> None:
        self.end()
        shutil.rmtree(self.now, ignore_errors=True)
        shutil.copytree(self.filled, self.now)
        self._start(self.now)

    def release(self) -> None:
        assert self.analyzer.release().users == self.task.users

    def unseal(self) -> None:
        for party, _, envelope in self.sent:
            unseal(envelope, KEY, self.task.at(0), party, 0)

    def expand(self) -> None:
        transport = added_shares(self.task)
        for party, number, envelope in self.sent:
            transport.keystream(envelope[:32], party, number, b"")

    def end(self) -> None:
        for party in self.parties:
            party.end()


def test_release(
    against: Callable[..., float], note: Callable[[str], None], benchmark: Any, tmp_path: Path
) -> None:
    """Against opening all envelopes on one core, which a release does on all of them."""
    users = 10_000
    releasing = Releasing(tmp_path, users)
    ratio = against(releasing.release, releasing.unseal, rounds=3, setup=releasing.begin)
    releasing.end()
    seconds = benchmark.stats.stats.median
    opening = f"opening them on one core takes {1 / ratio:.2f} of that"
    note(f"{seconds:.2f} s for {users:,} reports in {COLUMNS} columns; {opening}")


def test_release_of_a_helper(
    against: Callable[..., float], note: Callable[[str], None], tmp_path: Path
) -> None:
    """Against the vectors of all seeds; the helper began anew, and had added nothing up before."""
    users = 10_000
    releasing = Releasing(tmp_path, users, **HELPER)
    ratio = against(releasing.release, releasing.expand, rounds=3, setup=releasing.begin)
    releasing.end()
    note(f"{ratio:.1f} of the keystreams of {users:,} seeds for 50 categories")


def resident() -> int:
    """Return the bytes of memory of this process that are in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_over_many_reports(note: Callable[[str], None], tmp_path: Path) -> None:
    """A shuffler keeps no envelope in memory, but which ids and tokens were used."""
    first, most = 10_000, 100_000
    collecting = Collecting(tmp_path / "task", most)
    collecting.put(first)
    before = resident()
    begin = time.monotonic()
    for _ in range(9):
        collecting.put(first)
    seconds = time.monotonic() - begin
    grown = resident() - before
    assert collecting.desk.at(0).reports() == most
    collecting.end()
    note(
        f"{grown / 2**20:+.1f} MiB from 10^4 to 10^5 reports, {most * 0.9 / seconds:,.0f} a second"
    )
    assert grown < 500 * 0.9 * most
