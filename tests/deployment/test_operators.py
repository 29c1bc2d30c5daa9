"""What an operator relies on, with real processes: limits and metrics."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")
if sys.platform != "linux":
    pytest.skip("these tests are for Linux", allow_module_level=True)

import httpx
from deployment_processes import PATIENCE, killed, until
from deployment_tasks import KEY, small_task

from ikos.deployment import tokens
from ikos.deployment.party_files import read_secrets, write_party_files
from ikos.deployment.reports import ClientReport
from ikos.deployment.wire import encoded

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def party(folder, settings="", ports=1):
    """Serve a shuffler with settings of its own, and yield it with where it listens and its log."""
    config, log = folder.parent / "party.toml", folder.parent / "party.log"
    config.write_text(f'host = "127.0.0.1"\nport = 0\n{settings}')
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "ikos", "serve", "shuffler", folder, "--config", config],
            stdin=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip

    def listens():
        return re.findall(r"listening on \S+:(\d+)", log.read_text())

    with killed(process):
        until(lambda: len(listens()) == ports, "it listens")
        yield SimpleNamespace(process=process, ports=list(map(int, listens())), log=log)


@pytest.fixture
def folders(tmp_path):
    made = tmp_path / "task"
    write_party_files(small_task(40, 20, 4), [KEY], made)
    return made


def ask(port, path="/health", **headers):
    return httpx.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=60)


def put(port, task, secret, report, **headers):
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
    with party(folders / "shuffler-1", settings, ports=2) as one:
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
        written = [text, one.log.read_text()]
        written += [
            path.read_bytes().decode("latin-1") for path in (folders / "shuffler-1").iterdir()
        ]
        assert "127.0.0.1" in one.log.read_text()
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
    with party(folders / "shuffler-1", "metrics_port = 0\n", ports=2) as one:
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
        assert one.log.read_text().splitlines()[-1].endswith("stopped")
        watching.close()
    with party(folders / "shuffler-1") as one:
        assert ask(one.ports[-1], "/metrics").status_code == 200
