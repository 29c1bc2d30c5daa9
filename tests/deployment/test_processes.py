"""Parties in processes of their own: killed, slow, full, lied to; sums are exact all the same.

Clients are in the test's process, where their noise can be left away: what the servers add up must
be the sum to the last unit. Two tests leave the noise in.
"""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import socket
import sqlite3
import ssl
import struct
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette")
if sys.platform != "linux":  # signals, prlimit
    pytest.skip("these tests are for Linux", allow_module_level=True)

import httpx
import numpy as np
from deployment_processes import PATIENCE, Fleet, put_part, until
from deployment_tasks import KEY
from deployment_tls import certificates
from deployment_world import kept_reports

from ikos import Box
from ikos.deployment import tokens
from ikos.deployment.client import Client, Unsent
from ikos.deployment.opening import X25519, PrivateKey
from ikos.deployment.reports import ClientReport
from ikos.deployment.wire import encoded
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import secure
from ikos.primitives.sharing import split

pytestmark = pytest.mark.slow

VALUES = [1, 1, 0] * 8

# each state of a disk once: before a step it is that after the one before
SHUFFLER_POINTS = [
    "Intake.accept:before 5", "Intake.accept:after 5", "Endpoint.close:after 1",
    "ShufflerEndpoint.ids:after 1", "ShufflerEndpoint.agree:after 1",
    "ShufflerEndpoint.batch:after 1", "ShufflerEndpoint.released:within 3", "Store.shrink:before 1",
    "ShufflerEndpoint.forget:after 1",
]  # fmt: skip
ANALYZER_POINTS = [
    "Intake.accept:after 5", "AnalyzerEndpoint.close_all:after 1", "RemoteShuffler.close:after 2",
    "RemoteShuffler.ids:after 2", "AnalyzerEndpoint._agree:after 1", "RemoteShuffler.agree:after 2",
    "RemoteShuffler.batch:after 2", "RemoteShuffler.forget:after 2",
    "AnalyzerEndpoint._open_batches:after 1",
    "AnalyzerEndpoint._sum:after 1", "Store.shrink:before 1",
]  # fmt: skip
HELPER_POINTS = [
    "Intake.accept:after 5", "HelperEndpoint.ids:after 1", "HelperEndpoint.agree:after 1",
    "HelperEndpoint.sum:after 1", "HelperEndpoint._keep:after 1", "Store.shrink:before 1",
    "HelperEndpoint.batch:after 1", "HelperEndpoint.forget:after 1", "KeyFile.erase:before 1",
]  # fmt: skip
POINTS = [(1 + i % 3, point) for i, point in enumerate(SHUFFLER_POINTS)]
POINTS += [(0, point) for point in ANALYZER_POINTS]
KEYS = [PrivateKey(bytes(range(first, first + 32)), X25519) for first in range(2)]


@pytest.fixture(scope="module")
def whole_fleet(tmp_path_factory):
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), tasks=len(POINTS) + 5)
    yield fleet
    fleet.end()


@pytest.fixture
def fleet(whole_fleet, quiet):
    for party in range(whole_fleet.columns + 1):
        whole_fleet.orders(party).unlink(missing_ok=True)
    whole_fleet.ready()
    return whole_fleet


def is_released(running, total, users):
    found = running.release()
    assert found["state"] == "released", found["release"]
    assert found["complete"] == found["result"]["users"] == users
    assert found["result"]["estimate"] == total
    assert [running.ask(p, "GET").json()["state"] for p in range(1, running.task.parties)] == (
        ["sent"] * running.task.columns
    )
    assert running.release() == found
    return found


# Killed anywhere


@pytest.mark.parametrize(("party", "point"), POINTS)
def test_a_party_that_is_killed(fleet, party, point):
    """Nothing that was acknowledged is lost, nothing is counted twice, and the release goes on."""
    running = fleet.fresh()
    deaths = fleet.deaths
    fleet.orders(party).write_text(point)
    with fleet.watched():
        total = running.submit(VALUES)
        is_released(running, total, len(VALUES))
        until(lambda: not fleet.orders(party).exists(), f"party {party} ends at {point}")
        until(lambda: fleet.deaths > deaths, "it is noticed")
    fleet.ready()
    assert running.reports() == [len(VALUES)] * running.task.parties
    assert fleet.deaths == deaths + 1
    is_released(running, total, len(VALUES))


@pytest.fixture(scope="module")
def helpers(tmp_path_factory):
    fleet = Fleet(
        tmp_path_factory.mktemp("helpers"), tasks=len(HELPER_POINTS) + 3, columns=2, keys=KEYS,
        kem=X25519, transport="helpers",
    )  # fmt: skip
    yield fleet
    fleet.end()


HELPERS = [(1 + i % 2, point) for i, point in enumerate(HELPER_POINTS)]
HELPERS += [(0, f"AnalyzerEndpoint.{step}:after 1") for step in ("_open_batches", "_sum")]
HELPERS += [(0, "RemoteShuffler.batch:after 2")]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("party", "point"), HELPERS)
def test_a_helper_or_its_analyzer_that_is_killed(helpers, party, point):
    """Nothing that was acknowledged is lost, nothing is counted twice, and there is one answer."""
    running, deaths = helpers.fresh(), helpers.deaths
    helpers.orders(party).write_text(point)
    with helpers.watched():
        total = running.submit(VALUES)
        is_released(running, total, len(VALUES))
        until(lambda: not helpers.orders(party).exists(), f"party {party} ends at {point}")
        until(lambda: helpers.deaths > deaths, "it is noticed")
    helpers.ready()
    assert running.reports() == [len(VALUES)] * 3
    is_released(running, total, len(VALUES))


RELAYS = [
    (1 + i % 2, f"RelayEndpoint.{step}:{when} 1")
    for i, (step, when) in enumerate(
        [("examine", "before"), ("examine", "after"), ("agree", "after"), ("sum", "after"),
         ("_keep", "after"), ("batch", "after")]
    )
]  # fmt: skip
RELAYS += [
    (0, f"AnalyzerEndpoint.{step} 1")
    for step in ("_examined:after", "_agree:after", "_open_batches:after", "_certify:before",
                 "_certify:after")
]  # fmt: skip


@pytest.fixture(scope="module")
def relays(tmp_path_factory):
    pytest.importorskip("coincurve")
    fleet = Fleet(
        tmp_path_factory.mktemp("relays"), tasks=len(RELAYS), columns=2, keys=KEYS, kem=X25519,
        transport="verified", epsilon=8,
    )  # fmt: skip
    yield fleet
    fleet.end()


@pytest.mark.parametrize(("party", "point"), RELAYS)
def test_a_relay_or_its_analyzer_that_is_killed(relays, party, point):
    """The result is that of the reports in the certificate, which all parties signed once."""
    from ikos.verified.certificate import verify

    running, deaths = relays.fresh(), relays.deaths
    relays.orders(party).write_text(point)
    with relays.watched():
        running.submit(VALUES)
        found = running.release()
        assert found["state"] == "released", found["release"]
        until(lambda: not relays.orders(party).exists(), f"party {party} ends at {point}")
        until(lambda: relays.deaths > deaths, "it is noticed")
    relays.ready()
    assert running.release() == found
    assert (found["complete"], found["refused"]) == (len(VALUES), 0)
    with (relays.home(running, 0) / "certificate-0").open("rb") as file:
        checked = verify(file)
    assert checked.users == found["result"]["users"] == len(VALUES)
    assert checked.estimates == [found["result"]["estimate"]]
    assert len(checked.keys) == 3


def test_sigterm_in_the_middle_of_requests(fleet):
    """Each ends with status 0, and what it acknowledged is there when it is started again."""
    running = fleet.fresh()
    pending = [ClientReport.make(running.task.at(0), 1) for _ in range(24)]
    for client, report in enumerate(pending[:12]):
        running.put(client, report)
    for party in (0, 1):
        # one whose content does not come yet
        half = opened(running, party)
        half.sendall(head(running, party, 30, pending[0], length=fleet_size(running, party)))
        fleet.processes[party].send_signal(signal.SIGTERM)
        time.sleep(0.2)
        half.close()
        assert fleet.processes[party].wait(PATIENCE) == 0
        assert fleet.log(party).read_text().splitlines()[-1].endswith("stopped")
        fleet.start(party)
    fleet.ready()
    assert running.reports() == [12] * running.task.parties
    with fleet.watched():
        fleet.processes[1].send_signal(signal.SIGTERM)
        running.submit([1] * 12, first=12)
    is_released(running, 24, 24)


# Clients


# What does not belong


def opened(running, party):
    parts = urlsplit(running.task.address(party))
    return socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)


def fleet_size(running, party):
    return len(ClientReport.make(running.task.at(0), 1).parts[party])


def head(running, party, client, report, *, length):
    token = tokens.to_text(tokens.for_party(running.secrets[client], running.task, party))
    digest = base64.b64encode(hashlib.sha256(report.parts[party]).digest()).decode()
    return (
        f"PUT {running.task.at(0).path}/reports/{encoded(report.id)} HTTP/1.1\r\n"
        f"Host: party\r\nAuthorization: Bearer {token}\r\nContent-Digest: sha-256=:{digest}:\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


# Full, slow and dead


def test_a_full_disk(fleet):
    """New reports are refused, none that was acknowledged is lost, and it goes on."""
    running = fleet.fresh()
    running.submit([1] * 10)
    store = fleet.home(running, 1)
    largest = max(path.stat().st_size for path in store.glob("store.sqlite3*"))
    fleet.limit_files(1, max(largest, fleet.log(1).stat().st_size + (1 << 15)) + 4096)
    refused, kept = [], []
    for client in range(10, 40):
        report = ClientReport.make(running.task.at(0), 1)
        sent = put_part(fleet.http, running.task.at(0), running.secrets[client], report, 1)
        (kept if sent else refused
         ).append((client, report))  # fmt: skip
    assert refused
    client, report = refused[0]
    with pytest.raises(Unsent, match="of 5 parties have the report"):
        submit_with(running, client, report, patience=0.5)
    assert running.ask(1, "GET").json()["reports"] == 10 + len(kept)
    assert "the store cannot be written to" in fleet.log(1).read_text()
    fleet.limit_files(1, -1)
    for client, report in (*kept, *refused):
        running.put(client, report)
    assert running.reports() == [40] * 5
    is_released(running, 40, 40)


def submit_with(running, client, report, patience):
    from ikos.deployment.client import _send

    until_ = time.monotonic() + patience
    _send(running.fleet.http, running.task.at(0), running.secrets[client], report, until_)


def test_a_slow_shuffler(fleet, monkeypatch):
    """One that stands still for a while, when reports come and in the middle of a release."""
    monkeypatch.setattr("ikos.deployment.client.CONNECT_SECONDS", 1.0)  # for any answer
    running = fleet.fresh()
    slow = fleet.processes[3]
    slow.send_signal(signal.SIGSTOP)
    report = ClientReport.make(running.task.at(0), 1)
    with pytest.raises(Unsent, match="4 of 5 parties"):
        submit_with(running, 30, report, patience=0.5)
    slow.send_signal(signal.SIGCONT)
    running.put(30, report)
    total = 1 + running.submit(VALUES)
    slow.send_signal(signal.SIGSTOP)
    assert running.ask(0, "POST", "/release", running.operator).status_code == 202
    page = f"{running.task.analyzer}{running.task.at(0).path}/page"
    assert fleet.http.get(page, timeout=30).status_code == 200
    assert running.ask(0, "GET").json()["release"]["step"] == "closing"
    slow.send_signal(signal.SIGCONT)
    is_released(running, total, len(VALUES) + 1)


# Who speaks to whom


def test_tls(tmp_path, quiet):
    authority, certificate = certificates(tmp_path)
    fleet = Fleet(tmp_path, certificate=certificate, ca=authority)
    try:
        (running,) = fleet.tasks
        assert running.task.analyzer.startswith("https://")
        with pytest.raises(Unsent, match="its certificate cannot be verified"):
            Client(running.task, running.secrets[30]).submit(1, timeout=1000)  # a strange authority
        with pytest.raises(httpx.HTTPError):
            httpx.get(running.task.analyzer.replace("https", "http") + "/health")
        parts = urlsplit(running.task.analyzer)
        context = ssl.create_default_context(cafile=str(authority))
        with (
            socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE) as wire,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            context.wrap_socket(wire, server_hostname="party.example")
        assert running.reports() == [0] * 5
        assert not Client(running.task, running.secrets[30], ca=authority).submit(1).again
        total = 1 + running.submit(VALUES)
        is_released(running, total, len(VALUES) + 1)
    finally:
        fleet.end()


# What each party has


def forms(secret: bytes) -> list[bytes]:
    """Return how bytes may stand in a file."""
    return [secret, secret.hex().encode(), encoded(secret).encode(), base64.b64encode(secret)]


def searched(paths, secrets) -> list[int]:
    """Return which of the secrets are in some files."""
    there = b"\n".join(path.read_bytes() for path in paths)
    return [i for i, one in enumerate(secrets) if any(form in there for form in forms(one))]


def held(store, rows, part_bytes):
    """Return the names of a store's facts; all else in it must be these reports, and digests."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        tables = {name for name in tables if not name.startswith("sqlite_")}
        found = {
            name: {tuple(row) for *row, _ in connection.execute(f"SELECT * FROM {name}")}
            for name in tables - {"tally", "report"}
        }
        assert kept_reports(connection, part_bytes) == rows
    facts = {name.removeprefix("0 ") for _, name, _ in found.pop("fact")}
    assert not any(found.values()), found
    return facts


def test_what_each_party_has_on_disk_and_in_its_log(fleet):
    """Searched for by value: while it collects, closed, and after the release."""
    running = fleet.fresh()
    task = running.task
    reports = [ClientReport.make(task.at(0), value) for value in VALUES]
    everybody = list(range(task.parties))
    # a clear share is a byte, which is everywhere: `held` looks at what the stores hold instead
    # and of envelopes their ends: what is between them may lie on two pages of a file
    parts = {
        j: [end for one in reports for end in (one.parts[j][:24], one.parts[j][-24:])]
        for j in everybody[1:]
    }
    ids = [report.id for report in reports]
    given = {
        party: [tokens.for_party(secret, task, party) for secret in running.secrets]
        for party in everybody
    }
    never = [*running.secrets, running.operator, *(one for all_ in given.values() for one in all_)]

    def others(party, lists):
        return [one for other, all_ in lists.items() if other != party for one in all_]

    def look(*, released):
        for party in everybody:
            folder = fleet.home(running, party)
            files = [path for path in folder.iterdir() if path.is_file()]
            kept = [path for path in files if path.name not in ("private-key", "controls.json")]
            logs = [fleet.log(party)]
            assert not searched(files, never)
            assert not searched(files, others(party, parts))
            hidden = [*never, *ids, *(one for all_ in parts.values() for one in all_)]
            assert not searched(logs, [*hidden, KEY.raw, *running.controls])
            digests = {p: [tokens.digest(one) for one in all_] for p, all_ in given.items()}
            assert not searched(files, others(party, digests))
            assert not searched(kept, [KEY.raw, *running.controls])
            assert party == 0 or kept == files
            mine = searched(files, [*ids, *parts.get(party, ())])
            count = len(VALUES) * (3 if party else 1)
            assert mine == ([] if released else list(range(count)))
            spent = searched([p for p in files if p.name.startswith("store")], digests[party])
            assert spent == ([] if released else list(range(len(VALUES))))
            rows = {
                (0, report.id, digests[party][client], report.parts[party])
                for client, report in enumerate(reports)
            }
            facts = held(
                folder / "store.sqlite3", set() if released else rows, task.part_bytes(party)
            )
            known = {"closed", "ordered", "agreed", "complete", "reports", "sent", "result", "over"}
            assert facts <= known

    for client, report in enumerate(reports):
        running.put(client, report)
    look(released=False)
    assert running.ask(0, "POST", "/close", running.operator).status_code == 200
    look(released=False)
    is_released(running, sum(VALUES), len(VALUES))
    look(released=True)
    for party in everybody:
        fleet.kill(party)
    fleet.ready()
    look(released=True)


def number_forms(number: int, size: int = 8) -> list[bytes]:
    """Return how a number may stand in a file: in digits, in bytes of either order, as a double."""
    raw = [number.to_bytes(size, order) for order in ("big", "little")]
    return [
        str(number).encode(), f"{number:,}".encode(), float(number).hex().encode(),
        struct.pack("<d", number), struct.pack(">d", number), f"{number:x}".encode(),
        *(form for one in raw for form in forms(one)),
    ]  # fmt: skip


def test_no_party_holds_a_value_an_encoded_one_or_a_share(tmp_path):
    """Searched for in all forms, where each is of so many digits that none is there by chance."""
    lower, upper = 10**14 + 7, 10**15
    fleet = Fleet(
        tmp_path, columns=16, users=60, min_honest=50, delta=0.9, lower=lower, upper=upper,
        modulus=2**64,
    )  # fmt: skip
    try:
        (running,) = fleet.tasks
        task = running.task
        group, source = Zq(task.modulus), secure(None)
        values = [lower + int.from_bytes(os.urandom(8), "big") % (upper - lower) for _ in range(52)]
        elements = task.protocol.reader.elements(task.values(values), source.streams()(0))
        shares = split(elements, group, task.parties, source).T.tolist()
        steps = [value - lower for value in values]
        for client, own in enumerate(shares):
            assert sum(own) % task.modulus == int(elements[client])  # with its noise
            rows = np.array(own, dtype=group.dtype)[:, None, None]
            made = task.transport.shares_of(task).reports(rows, (os.urandom(16),))
            running.put(client, ClientReport.of(task.at(0), made))
        some = slice(2)  # of them are enough to be looked for
        columns = list(zip(*shares[some], strict=True))
        secret = [*values[some], *steps[some], *map(int, elements[some])]
        secret += [share for column in columns[:-1] for share in column]
        clear = list(columns[-1])

        def found(party, numbers):
            folder = fleet.home(running, party)
            there = b"\n".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
            there += fleet.log(party).read_bytes()
            return [n for n in numbers if any(form in there for form in number_forms(n))]

        def look(*, released):
            for party in range(task.parties):
                assert found(party, secret) == []
                kept = clear if party == 0 and not released else []
                assert found(party, clear) == kept  # what is searched for would be found

        look(released=False)
        found_ = running.release()
        assert found_["state"] == "released", found_["release"]
        low, high = task.protocol.run(values).interval(1 - 1e-9)
        assert abs(found_["result"]["estimate"] - sum(values)) <= (high - low) / 2 + 1
        look(released=True)
    finally:
        fleet.end()


# Many


# Masked vectors


def test_masked_vectors_of_two_windows(tmp_path, quiet):
    """Long ones, of clients that are lost too; every party is killed in each window."""
    now, d = datetime.now(UTC).replace(microsecond=0), 100_000
    fleet = Fleet(
        tmp_path, columns=24, users=8, min_honest=6, delta=0.9, keys=KEYS, kem=X25519,
        domain=Box(d, 0, 3), transport="masks", windows=2, opens=now - timedelta(minutes=30),
        closes=now + timedelta(minutes=30),
    )  # fmt: skip
    try:
        (running,) = fleet.tasks
        for window in range(2):
            fleet.set_clock(3600 * window)
            vectors = [(np.arange(d) + client) % 4 for client in range(6)]
            running.submit(vectors, window=window)
            lost = ClientReport.make(running.task.at(window), np.full(d, 3))
            assert running.status(7, lost, 0, window) == 201  # and no other party has it
            for party in range(fleet.columns + 1):
                fleet.kill(party)
            fleet.ready()
            found = running.release(window)
            assert found["state"] == "released", found["release"]
            assert (found["complete"], found["reports"]) == (6, 7)
            assert found["result"]["estimate"] == np.sum(vectors, axis=0).tolist()
            assert running.release(window) == found
            assert running.ask(1, "GET", "/batch", running.controls[0], window).status_code == 410
    finally:
        fleet.end()


# All parties at once


def test_all_parties_are_killed_at_once_and_a_disk_is_full(fleet):
    running = fleet.fresh()
    total = running.submit(VALUES[:12])
    fleet.limit_files(2, 4096)  # enough for the count of changes
    report = ClientReport.make(running.task.at(0), 1)
    assert not put_part(fleet.http, running.task.at(0), running.secrets[30], report, 2)
    for party in range(fleet.columns + 1):
        fleet.kill(party)
    fleet.ready()
    assert running.reports() == [12] * running.task.parties
    running.put(30, report)  # nothing of it was spent
    total += 1 + running.submit(VALUES[12:], first=12)
    is_released(running, total, len(VALUES) + 1)
