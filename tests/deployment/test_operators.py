"""What an operator relies on, with real processes: limits, metrics, expiry."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("starlette")
if sys.platform != "linux":
    pytest.skip("these tests are for Linux", allow_module_level=True)

import httpx
from deployment_processes import PATIENCE, free_ports, until
from deployment_tasks import KEY, small_task

from ikos.deployment import endpoint, tokens
from ikos.deployment.party_files import PartyConfig, read_secrets, write_party_files
from ikos.deployment.reports import ClientReport
from ikos.deployment.shuffler import ShufflerEndpoint
from ikos.deployment.wire import encoded

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pathlib import Path
parent, tests, orders, role, folder, config = sys.argv[1:]
sys.path.append(tests)
from deployment_processes import die_where_told, end_with
end_with(int(parent))
die_where_told(Path(orders))
from ikos.deployment import server
from ikos.deployment.settings import Listening
server.LOOK_SECONDS, server.STEADY_SECONDS = 0.2, 0.5
getattr(server, f"serve_{role}")([Path(folder)], Listening.read(Path(config), {}))
"""


class Party:
    """A server with settings of its own, which looks often for what has changed."""

    def __init__(self, folder, settings, role="shuffler"):
        self.folder, self.role = folder, role
        self.config = folder.parent / f"{folder.name}.toml"
        self.orders = folder.parent / "orders"
        self.log = folder.parent / f"{folder.name}.log"
        self.config.write_text(f'host = "127.0.0.1"\nport = 0\n{settings}')
        self.start()

    def start(self):
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(os.getpid()), str(Path(__file__).parents[1]),
                 self.orders, self.role, self.folder, self.config],
                stdin=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip

    @property
    def said(self):
        return self.log.read_text()

    def logged(self, words, times=1):
        until(lambda: self.said.count(words) >= times, words)

    @property
    def ports(self):
        """Return where it listens: for all, and for metrics."""
        self.logged("listening on")
        return [int(port) for port in re.findall(r"listening on \S+:(\d+)", self.said)]

    def end(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def party(folder, settings="", role="shuffler"):
    started = Party(folder, settings, role)
    try:
        yield started
    finally:
        started.end()


@pytest.fixture
def folders(tmp_path):
    made = tmp_path / "task"
    write_party_files(small_task(40, 20, 4), [KEY], made)
    return made


def ask(port, path="/health", **headers):
    return httpx.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=60)


def put(port, task, secret, report, **headers):
    import hashlib

    token = tokens.to_text(tokens.for_party(secret, task, 1))
    digest = base64.b64encode(hashlib.sha256(report.parts[1]).digest()).decode()
    return httpx.put(
        f"http://127.0.0.1:{port}{task.at(0).path}/reports/{encoded(report.id)}",
        content=report.parts[1], timeout=60,
        headers={
            "Authorization": f"Bearer {token}", "Content-Digest": f"sha-256=:{digest}:", **headers,
        },
    )  # fmt: skip


# Limits and metrics


def test_an_address_behind_the_named_proxy(folders):
    """It is told to wait; others are not; and of both nothing is written down."""
    task, secrets = small_task(40, 20, 4), read_secrets(folders / "clients")
    addresses = ["203.0.113.77", "2001:db8:7777::77"]
    settings = 'proxy = "127.0.0.1"\naddress_rate = 2\nmetrics_port = 0\n'
    reports = [ClientReport.make(task.at(0), 1) for _ in range(3)]
    with party(folders / "shuffler-1", settings) as one:
        until(lambda: len(one.ports) == 2, "both ports")
        port, metrics = one.ports
        for client, report in enumerate(reports):
            where = addresses[client % 2]
            found = [put(port, task, secrets[client], report, **{"X-Forwarded-For": where})]
            found += [ask(port, **{"X-Forwarded-For": f"198.51.100.9, {where}"}) for _ in range(9)]
            over = [answer for answer in found if answer.status_code == 429]
            assert len(over) >= 4
            for answer in over:
                assert answer.headers["retry-after"] == "1"
                assert answer.json()["type"].endswith(":tooManyRequests")
            time.sleep(1.1)
        assert {ask(port).status_code for _ in range(20)} == {200}  # of this machine itself
        assert put(port, task, secrets[5], reports[2]).status_code in (201, 409)
        text = ask(metrics, "/metrics").text
        counted = float(re.search(r'ikos_limited_total\{limit="address"\} (\S+)', text)[1])
        assert counted >= 12
        assert f'ikos_reports{{task="{task.name}"}} ' in text
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(PATIENCE) == 0
        written = [text, one.said]
        written += [path.read_bytes().decode("latin-1") for path in one.folder.iterdir()]
        assert "127.0.0.1" in one.said
        for client, report in enumerate(reports):
            token = tokens.for_party(secrets[client], task, 1)
            for secret in (report.id, token, report.parts[1]):
                assert not any(encoded(secret) in part for part in written)
                assert not any(secret.hex() in part for part in written)
            for part in written[:2]:
                assert report.id.decode("latin-1") not in part
        for address in (*addresses, "198.51.100.9", "2001:db8:7777"):
            assert not any(address in part for part in written)


def test_without_a_named_proxy_the_header_counts_for_nothing(folders):
    with party(folders / "shuffler-1", "address_rate = 2\n") as one:
        (port,) = one.ports
        found = [ask(port, **{"X-Forwarded-For": "203.0.113.77"}) for _ in range(20)]
        assert {answer.status_code for answer in found} == {200}


def test_metrics_at_a_place_of_their_own(folders):
    """What is for watching is there alone, and nothing else is."""
    task = small_task(40, 20, 4)
    with party(folders / "shuffler-1", "metrics_port = 0\n") as one:
        until(lambda: len(one.ports) == 2, "both ports")
        port, metrics = one.ports
        watching = http.client.HTTPConnection("127.0.0.1", metrics)
        watching.request("GET", "/health")
        assert watching.getresponse().status == 200
        for path, statuses in (
            ("/metrics", (404, 200)), ("/health", (200, 200)), ("/live", (200, 200)),
            (f"/tasks/{task.name}", (200, 404)), ("/", (404, 404)),
        ):  # fmt: skip
            assert tuple(ask(place, path).status_code for place in (port, metrics)) == statuses
        assert httpx.post(f"http://127.0.0.1:{metrics}{task.at(0).path}/close").status_code == 404
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(PATIENCE) == 0
        assert one.said.splitlines()[-1].endswith("stopped")
        watching.close()
    with party(folders / "shuffler-1") as one:
        assert ask(one.ports[-1], "/metrics").status_code == 200


# What is never released


def closed_with_reports(folder, monkeypatch):
    """Make a task that closed an hour ago, with reports at its first shuffler and its analyzer."""
    now = datetime.now(UTC).replace(microsecond=0)
    ports = free_ports(5)
    task = small_task(
        40, 20, 4, opens=now - timedelta(hours=2), period=3600,
        analyzer=f"http://127.0.0.1:{ports[0]}",
        shufflers=tuple(f"http://127.0.0.1:{port}" for port in ports[1:]),
    )  # fmt: skip
    write_party_files(task, [KEY], folder)
    found = {}
    with monkeypatch.context() as patch:
        patch.setattr(endpoint, "now", lambda: task.opens + timedelta(minutes=1))
        for number, name in enumerate(("analyzer", "shuffler-1")):
            config = PartyConfig.read(folder / name)
            one = endpoint.PartyEndpoints(config, ShufflerEndpoint, lambda *_: None)
            reports = [ClientReport.make(task.at(0), 1) for _ in range(20)]
            parts = [os.urandom(config.part_bytes) for _ in reports]
            waiting = [
                one.at(0).intake.accept([(report.id, os.urandom(32), part)])
                for report, part in zip(reports, parts, strict=True)
            ]
            assert all(future.result() == [True] for future in waiting)
            # a clear share is a byte, which is everywhere
            found[name] = [report.id for report in reports] + (parts if number else [])
            one.end()
    return task, found


def traces(folder, found):
    data = b"".join(path.read_bytes() for path in folder.glob("store.sqlite3*"))
    return sum(one in data for one in found)


@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_what_expires_is_deleted_though_the_process_is_killed(tmp_path, monkeypatch, role, point):
    """Not while it is kept; then for good, and nothing of it stays in the file or its log."""
    task, found = closed_with_reports(tmp_path / "task", monkeypatch)
    folder = tmp_path / "task" / ("shuffler-1" if role == "shuffler" else "analyzer")
    with party(folder, "keep_days = 30\n", role) as one:
        (port,) = one.ports
        time.sleep(1)
        state = ask(port, task.at(0).path).json()
        assert (state["state"], state["reports"]) == ("closed", 20)
        one.process.terminate()
        assert one.process.wait(PATIENCE) == 0
    assert traces(folder, found[folder.name]) >= 20
    (tmp_path / "task" / "orders").write_text(f"Store.shrink:{point} 1")
    with party(folder, "keep_days = 0.01\n", role) as one:
        assert one.process.wait(PATIENCE) == -signal.SIGKILL
        one.start()
        (port,) = one.ports
        until(lambda: not traces(folder, found[folder.name]), "nothing is left")
        state = ask(port, task.at(0).path).json()
        wanted = "deleted" if role == "shuffler" else "stopped"
        assert (state["state"], state["reports"]) == (wanted, 20)
        expires = task.closes + timedelta(days=0.01)
        assert datetime.fromisoformat(state["expires"]) == expires
        assert ask(port).text == "ok\n"
        if role == "analyzer":
            assert "not released by" in state["release"]["message"]
