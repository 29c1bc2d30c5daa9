"""The servers' routes: each answer and each problem, and that none of them tells a secret."""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import json
import logging
import math
import re
import shutil
import sqlite3
import ssl
import threading
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette")

import httpx
from deployment_tasks import KEY, small_task
from deployment_world import flip

import ikos
from ikos.deployment import (
    analyzer,
    endpoint,
    intake,
    intermediary,
    limits,
    remote,
    retry,
    service,
    shuffler,
    store,
    tokens,
)  # fmt: skip
from ikos.deployment.hpke import unseal
from ikos.deployment.intermediary import agreed_digest
from ikos.deployment.party_files import (
    PartyConfig,
    read_control,
    read_secrets,
    write_party_files,
)
from ikos.deployment.reports import ClientReport
from ikos.deployment.task import Task
from ikos.deployment.wire import encoded, first_few

USERS, MIN_HONEST, COLUMNS = 40, 20, 4
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
READ = cache(Task.from_json)
PROBLEM = "urn:ikos:parties:"


@pytest.fixture(autouse=True)
def remembered(monkeypatch):
    monkeypatch.setattr(Task, "from_json", staticmethod(READ))
    monkeypatch.setattr(service, "CLIENT_RATE", 1e6)  # these clients repeat themselves


def digest_of(part: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(part).digest()).decode()}:"


class Front:
    """An application, asked without a network."""

    def __init__(self, app):
        self.app = app

    def request(self, method, path, **options):
        async def ask():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://party") as client:
                return await client.request(method, path, **options)

        return asyncio.run(ask())

    def get(self, path):
        return self.request("GET", path)


class Net(httpx.BaseTransport):
    """All parties' applications, at the addresses of the task; some may be silent."""

    def __init__(self, folder: Path, *, rate: float = 1e6):
        self.task = small_task(USERS, MIN_HONEST, COLUMNS)
        self.silent: set[int] = set()
        self.answers: list[httpx.Response] = []
        self.secrets = read_secrets(folder / "clients")
        self.operator = read_control(folder / "operator")
        self.controls = PartyConfig.read(folder / "analyzer").controls
        self.wire = httpx.Client(transport=self)
        self.endpoints, self.parties = {}, {}
        self.clients = {}
        self.requests = []
        self.folder, self.rate = folder, rate
        self.start()

    def start(self):
        name = self.task.name
        for party in range(1, COLUMNS + 1):
            config = PartyConfig.read(self.folder / f"shuffler-{party}")
            self.parties[party] = one = shuffler.shuffler(config, self.wire)
            self.endpoints[party] = one.at(0)
            self.clients[party] = Front(intermediary.application({name: one}, rate=self.rate))
        self.start_analyzer()

    def start_again(self):
        for one in self.parties.values():
            one.end()
        self.start()

    def start_analyzer(self):
        config = PartyConfig.read(self.folder / "analyzer")
        self.parties[0] = one = analyzer.analyzer(config, self.wire)
        self.endpoints[0] = one.at(0)
        self.clients[0] = Front(analyzer.application({self.task.name: one}, rate=self.rate))

    def handle_request(self, request):
        party = (urlsplit(str(request.url)).port or 0) - 9000
        self.requests.append((request.method, party))
        if party in self.silent:
            raise httpx.ConnectError("nobody listens") from REFUSED
        answer = self.clients[party].request(
            request.method,
            request.url.raw_path.decode(),
            content=request.read(),
            headers=dict(request.headers),
        )
        stream = httpx.ByteStream(answer.content)
        return httpx.Response(answer.status_code, stream=stream, headers=answer.headers)

    def ask(self, party, method, path, *, task=None, control=None, **options):
        headers = dict(options.pop("headers", {}))
        if control is not None:
            headers["Authorization"] = f"Bearer {tokens.to_text(control)}"
        answer = self.clients[party].request(
            method, f"/tasks/{task or self.task.name}/windows/0{path}", headers=headers, **options
        )
        self.answers.append(answer)
        return answer

    def token(self, client, party):
        return tokens.for_party(self.secrets[client], self.task, party)

    def put(self, party, client, report, **changed):
        """Send a part as a client does, or with one thing changed."""
        part = changed.get("part", report.parts[party])
        headers = {
            "Authorization": changed.get(
                "authorization",
                f"Bearer {tokens.to_text(changed.get('token', self.token(client, party)))}",
            ),
            "Content-Digest": changed.get("digest", digest_of(part)),
        }
        if headers["Authorization"] is None:
            del headers["Authorization"]
        if headers["Content-Digest"] is None:
            del headers["Content-Digest"]
        number = changed.get("number", encoded(report.id))
        return self.ask(
            party, "PUT", f"/reports/{number}", task=changed.get("task"), content=part,
            headers=headers,
        )  # fmt: skip

    def send(self, client, report, parties=None):
        for party in range(COLUMNS + 1) if parties is None else parties:
            assert self.put(party, client, report).status_code == 201

    def fill(self, values=(1, 0) * (MIN_HONEST // 2)):
        """Let clients report, without requests."""
        waiting = []
        for client, value in enumerate(values):
            report = ClientReport.make(self.task.at(0), value)
            for party, one in self.endpoints.items():
                token = tokens.digest(self.token(client, party))
                waiting.append(one.intake.accept([(report.id, token, report.parts[party])]))
        assert all(future.result() == [True] for future in waiting)
        return sum(values)

    def release(self):
        answer = self.ask(0, "POST", "/release", control=self.operator)
        assert answer.status_code == 202
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = self.ask(0, "GET", "").json()
            if not found["release"]["running"]:
                del found["time"]
                return found
            time.sleep(0.02)
        raise AssertionError(f"not released: {found}")

    def counts(self):
        return {one.reports() for one in self.endpoints.values()}

    def end(self):
        for one in self.parties.values():
            one.end()
        self.wire.close()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the folders of all parties, who were here once, to be copied: that is faster."""
    made = tmp_path_factory.mktemp("parties") / "task"
    write_party_files(small_task(USERS, MIN_HONEST, COLUMNS), [KEY], made)
    Net(made).end()
    return made


@pytest.fixture
def net(tmp_path, folders, quiet):
    net = Net(shutil.copytree(folders, tmp_path / "task"))
    yield net
    net.end()


def refused(answer, status, name):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["type"] == PROBLEM + name
    assert set(found) == {"type", "detail"}
    return found["detail"]


# Reports


@pytest.mark.parametrize("party", [0, 1, COLUMNS])
def test_a_report_is_accepted_once_and_acknowledged_again(net, party):
    report = ClientReport.make(net.task.at(0), 1)
    answers = [net.put(party, 3, report) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert not any("connection" in answer.headers for answer in answers)  # it is kept
    assert net.endpoints[party].reports() == 1
    assert net.ask(party, "GET", "").json()["reports"] == 1


def test_the_token_of_a_party_is_of_no_use_elsewhere(net):
    report = ClientReport.make(net.task.at(0), 1)
    for party in range(COLUMNS + 1):
        for other in range(COLUMNS + 1):
            if other != party:
                answer = net.put(party, 0, report, token=net.token(0, other))
                refused(answer, 401, "unauthorized")
                assert answer.headers["www-authenticate"] == "Bearer"
    assert net.counts() == {0}
    net.send(0, report)  # nothing of it was spent


@pytest.mark.parametrize("party", [0, 2])
def test_what_is_no_token(net, party):
    report = ClientReport.make(net.task.at(0), 1)
    good = tokens.to_text(net.token(0, party))
    for authorization in (
        None, "", "Bearer", "Bearer ", f"Basic {good}", good, f"Bearer  {good}", f"Bearer {good}=",
        f"Bearer {good[:-1]}", f"Bearer {good}A", f"Bearer {good} {good}", "Bearer " + "\xe9" * 43,
        f"Bearer {tokens.to_text(net.secrets[0])}", f"Bearer {tokens.to_text(bytes(32))}",
        f"Bearer {tokens.to_text(net.operator)}",
    ):  # fmt: skip
        value = authorization and authorization.encode("latin-1")
        refused(net.put(party, 0, report, authorization=value), 401, "unauthorized")
    assert net.endpoints[party].reports() == 0
    # the scheme's name is not case-sensitive (RFC 9110)
    assert net.put(party, 0, report, authorization=f"bEARER {good}").status_code == 201


def test_another_task(net):
    report = ClientReport.make(net.task.at(0), 1)
    other = small_task(USERS, MIN_HONEST, COLUMNS, nonce=bytes(16)).name
    for name in (other, "x", net.task.name[:-1], net.task.name.swapcase()):
        refused(net.put(1, 0, report, task=name), 404, "unrecognizedTask")
        refused(net.ask(1, "GET", "", task=name), 404, "unrecognizedTask")
        refused(net.ask(0, "POST", "/release", task=name), 404, "unrecognizedTask")
    assert net.counts() == {0}


@pytest.mark.parametrize("party", [0, 1])
def test_a_part_of_another_size(net, party):
    report = ClientReport.make(net.task.at(0), 1)
    right = len(report.parts[party])
    assert right == (net.task.envelope_bytes if party else net.task.width)
    for part in (b"", report.parts[party][:-1], report.parts[party] + b"\0", bytes(1 << 20)):
        refused(net.put(party, 0, report, part=part), 400, "invalidMessage")
    assert net.endpoints[party].reports() == 0
    net.send(0, report)


@pytest.mark.parametrize("window", ["00", "+0", " 0", "1", "-1", "x", 5000 * "1"])
def test_a_window_that_is_none(net, window):
    answer = net.clients[0].get(f"/tasks/{net.task.name}/windows/{window}")
    refused(answer, 404, "unrecognizedTask")


def test_another_digest(net):
    report = ClientReport.make(net.task.at(0), 1)
    right = digest_of(report.parts[1])
    for digest in (None, "", right[:-1], right.upper(), digest_of(b""), "sha-512" + right[7:]):
        refused(net.put(1, 0, report, digest=digest), 400, "invalidMessage")
    tampered = bytes([report.parts[1][0] ^ 1]) + report.parts[1][1:]
    refused(net.put(1, 0, report, part=tampered, digest=right), 400, "invalidMessage")
    assert net.counts() == {0}


@pytest.mark.parametrize("party", [0, COLUMNS])
def test_conflicts_and_replays(net, party):
    report = other = ClientReport.make(net.task.at(0), 1)
    while other.parts[party] == report.parts[party]:  # a share has few values
        other = ClientReport.make(net.task.at(0), 0)
    assert net.put(party, 0, report).status_code == 201
    for answer in (
        net.put(party, 0, other),  # a second report with one token
        net.put(party, 0, ClientReport(report.id, other.parts)),  # another part
        net.put(party, 0, ClientReport(other.id, report.parts)),  # another id
        net.put(party, 1, report),  # a replay with another's token
        net.put(party, 1, ClientReport(report.id, other.parts)),
    ):
        refused(answer, 409, "reportRejected")
    assert net.endpoints[party].reports() == 1
    assert net.put(party, 1, other).status_code == 201
    refused(net.put(party, 1, report), 409, "reportRejected")  # both are there, not together


@pytest.fixture
def clock(monkeypatch):
    """A clock of the servers that stands still until it is moved."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


# Stores that fail


def order(net, party, statement):
    """Let a party's connection that writes do something, outside of any transaction."""
    net.endpoints[party].store._writer.execute(statement).fetchall()


def health(net, party):
    """Return what a party says of its store now, whatever it said before."""
    net.endpoints[party].store._checked = -math.inf
    answer = net.clients[party].get("/health")
    assert answer.status_code == (200 if answer.text == "ok\n" else 503)
    return answer.text


def lines(caplog, words):
    return [r.getMessage() for r in caplog.records if words in r.getMessage()]


def test_a_full_disk(net, caplog):
    """Of SQLite's own, which has no more pages."""
    order(net, 1, "PRAGMA max_page_count=14")
    first = ClientReport.make(net.task.at(0), 1)
    statuses = [net.put(1, 0, first).status_code]
    for client in range(1, USERS):
        answer = net.put(1, client, ClientReport.make(net.task.at(0), 1))
        assert net.put(1, 0, first).status_code == 200  # nothing is written for it
        statuses.append(answer.status_code)
        if answer.status_code != 201:
            assert "SQLITE_FULL" in refused(answer, 507, "storeFull")
            assert answer.headers["retry-after"] == "1"
    assert set(statuses) == {201, 507}
    assert net.endpoints[1].reports() == statuses.count(201)
    assert len(lines(caplog, "the store")) == 1
    order(net, 1, "PRAGMA max_page_count=1000000")
    client = statuses.index(507)
    assert net.put(1, client, ClientReport.make(net.task.at(0), 1)).status_code == 201


@pytest.mark.parametrize("party", [0, 1])
def test_a_corrupt_store(net, caplog, party):
    """It is not called a full disk, and the server's health is not good."""
    net.fill()
    store = net.endpoints[party].store
    store.shrink()
    path = store.path
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.write(bytes(len(whole)))
    assert "storeDamaged" in health(net, party)
    (line,) = lines(caplog, "the store")
    assert re.search("SQLITE_(NOTADB|CORRUPT)", line)
    assert "full" not in line
    control = net.controls[0] if party else net.operator
    refused(net.ask(party, "POST", "/close", control=control), 503, "storeDamaged")
    assert len(lines(caplog, "the store cannot be written")) == 1


def test_a_damaged_row_is_named_by_its_place(net, monkeypatch, caplog):
    """At a shuffler: the analyzer says which, and goes on when it is mended."""
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    total = net.fill()
    net.endpoints[2].store.shrink()
    path = net.endpoints[2].store.path
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT parts FROM report ORDER BY first").fetchall()
    place = path.read_bytes().index(rows[4][0])
    flip(path, place + 3)
    net.ask(0, "POST", "/release", control=net.operator)
    message = told_when(net, lambda found: found["release"]["message"])["release"]["message"]
    assert "shuffler 2" in message
    assert "storeDamaged" in message
    assert "row 5 of table 'report'" in message
    assert "storeDamaged" in health(net, 2)
    assert "storeDamaged" in health(net, 2)
    assert len(lines(caplog, "the store is damaged")) <= 2  # the shuffler's line, the analyzer's
    flip(path, place + 3)
    assert told_when(net, lambda found: found["result"])["result"]["estimate"] == total


def test_the_public_is_answered_without_the_disk(net, monkeypatch):
    """What strangers ask for costs no query: not after a restart, and not after a release."""
    connect = sqlite3.connect

    def look(reports, state):
        def no_disk(*_, **__):
            raise AssertionError("a public request opened the database")

        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", no_disk)
            for party in range(COLUMNS + 1):
                found = net.ask(party, "GET", "").json()
                assert (found["reports"], found["state"]) == (reports, state(party))
                text = net.clients[party].get("/metrics").text
                assert f'ikos_reports{{task="{net.task.name}"}} {reports}.0\n' in text
            assert net.clients[0].get("/").status_code == 200
            assert net.clients[0].get(f"/tasks/{net.task.name}/windows/0/page").status_code == 200
        assert sqlite3.connect is connect

    net.fill()
    look(20, lambda _: "collecting")
    net.start_again()
    look(20, lambda _: "collecting")
    net.release()
    look(20, lambda party: "sent" if party else "released")
    net.start_again()
    look(20, lambda party: "sent" if party else "released")


def test_pages_ask_shufflers_a_few_times_a_second(net, clock):
    """Whoever opens the pages of many windows does not use up what shufflers allow the analyzer."""
    page = f"{net.task.at(0).path}/page"
    seen = []
    for _ in range(9):
        net.endpoints[0]._asked = -math.inf  # as a page of another window
        seen.append(net.clients[0].get(page).text)
    assert Counter(net.requests) == {("GET", party): 4 for party in range(1, COLUMNS + 1)}
    assert all("collecting" in text for text in seen)


def test_a_request_that_is_given_up_stops_nobody_else(net):
    """As those are that a server which stops no longer waits for."""
    begun, held = threading.Event(), threading.Event()
    net.endpoints[1].store.write(0, lambda _: begun.set() or held.wait(60))
    assert begun.wait(60)  # what comes now is not of the same transaction
    given_up, report = ClientReport.make(net.task.at(0), 1), ClientReport.make(net.task.at(0), 0)

    async def give_up():
        first, second = (
            asyncio.ensure_future(net.endpoints[1].intake.receive(one.id, token, one.parts[1]))
            for one, token in ((given_up, bytes(32)), (report, b"1" * 32))
        )
        await asyncio.sleep(2 * intake.GATHER_SECONDS)
        first.cancel()
        await asyncio.wait([first])
        held.set()
        assert await second
        return first.cancelled()

    assert asyncio.run(give_up())
    assert net.endpoints[1].reports() == 2  # its other parts may have been kept


def test_reports_that_come_together_are_answered_one_by_one(net):
    """Four share a transaction: two are new, one was there, and one has a token of another."""
    reports = net.endpoints[1].intake
    size = net.endpoints[1].config.part_bytes
    parts = [(bytes([n]) * 16, bytes([n]) * 32, bytes(size)) for n in range(4)]
    assert reports.accept([parts[0]]).result() == [True]
    stolen = (bytes(15) + b"9", *parts[1][1:])

    async def together():
        asked = (reports.receive(*part) for part in (parts[1], parts[0], stolen, parts[2]))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, again, refused, last = asyncio.run(together())
    assert (first, again, last) == (True, False, True)
    assert refused.name == "reportRejected"
    assert reports.accept([parts[3], parts[3]]).result() == [True, False]
    assert list(reports.ids()) == sorted(part[0] for part in parts)


# How much is read


def called(net, party, path, headers, receive):
    """Call an application with a body that is made as it is read.

    Returns the status, and whether the server is told to end the connection.
    """
    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "PUT",
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": headers, "client": None, "server": ("127.0.0.1", 9000),
    }  # fmt: skip
    asyncio.run(net.clients[party].app(scope, receive, send))
    assert not any(message.get("more_body") for message in sent)
    return sent[0]["status"], (b"connection", b"close") in sent[0]["headers"]


def headed(net, party, token, length=None):
    number = encoded(bytes(16))
    headers = [
        (b"authorization", b"Bearer " + tokens.to_text(token).encode()),
        (b"content-digest", digest_of(b"").encode()),
        (b"content-length", b"%d" % (length or net.task.envelope_bytes)),
    ]
    return f"/tasks/{net.task.name}/windows/0/reports/{number}", headers


@pytest.mark.parametrize("more", [-1, 1, 10**12])
def test_of_a_body_of_another_size_nothing_is_read(net, more):
    read = []

    async def endless():
        read.append(10)
        return {"type": "http.request", "body": bytes(10), "more_body": True}

    length = net.task.envelope_bytes + more
    path, headers = headed(net, 1, net.token(0, 1), length)
    assert called(net, 1, path, headers, endless) == (400, True)
    path, headers = headed(net, 1, net.secrets[0])
    assert called(net, 1, path, headers, endless) == (401, True)
    assert called(net, 1, "/nowhere", headers, endless) == (404, True)
    assert called(net, 1, "/health", headers, endless) == (405, True)
    assert not read  # of strangers nothing is read at all


def test_a_body_whose_client_leaves(net):
    async def gone():
        return {"type": "http.disconnect"}

    path, headers = headed(net, 1, net.token(0, 1))
    assert called(net, 1, path, headers, gone)[0] == 400
    assert net.counts() == {0}


# Commands


def commands(party):
    shufflers = [("GET", "/reports"), ("PUT", "/batch"), ("GET", "/batch"), ("DELETE", "/batch")]
    return [("POST", "/close"), *(shufflers if party else [("POST", "/release")])]


@pytest.mark.parametrize("party", [0, 1])
def test_who_may_command(net, party):
    net.fill()
    mine = net.controls[0] if party else net.operator
    others = {net.operator, *net.controls} - {mine}
    for method, path in commands(party):
        for control in (None, bytes(32), net.secrets[0], net.token(0, party), *others):
            refused(net.ask(party, method, path, control=control), 401, "unauthorized")
    assert net.ask(party, "GET", "").json()["state"] == "collecting"
    for method, path in commands(party):
        assert net.ask(party, method, path, control=mine).status_code != 401


def everybody(net, method, path, **options):
    return [
        net.ask(party, method, path, control=net.controls[party - 1], **options)
        for party in range(1, COLUMNS + 1)
    ]


def test_the_order_of_commands(net):
    net.fill()
    one = {"control": net.controls[0]}
    refused(net.ask(1, "GET", "/reports", **one), 409, "taskOpen")
    refused(net.ask(1, "PUT", "/batch", content=b"", **one), 409, "taskOpen")
    refused(net.ask(1, "GET", "/batch", **one), 409, "notAgreed")
    refused(net.ask(1, "DELETE", "/batch", **one), 409, "taskOpen")
    refused(net.ask(1, "GET", "/agreement"), 404, "notFound")
    everybody(net, "POST", "/close")
    answers = everybody(net, "GET", "/reports")
    ids = answers[0].content
    assert {answer.content for answer in answers} == {ids}
    assert len(ids) == MIN_HONEST * 16
    for wrong in (b"", ids[:-16], ids[:-1], ids[16:] + ids[:16], bytes(16) + ids, ids + ids[:16]):
        refused(net.ask(1, "PUT", "/batch", content=wrong, **one), 409, "batchRejected")
    detail = "the content must be at most"
    too_long = net.ask(1, "PUT", "/batch", content=bytes(16 * USERS + 1), **one)
    assert detail in refused(too_long, 400, "invalidMessage")
    digest = agreed_digest(net.task.at(0), ids)
    for _ in range(2):
        assert net.ask(1, "PUT", "/batch", content=ids, **one).json() == {"digest": digest}
    assert net.ask(1, "GET", "/agreement").json() == {"digest": digest}
    assert net.ask(1, "GET", "").json()["state"] == "agreed"
    refused(net.ask(1, "GET", "/batch", **one), 409, "notAgreed")  # the others have not
    everybody(net, "PUT", "/batch", content=ids)
    net.silent = {3}
    assert "shuffler 3" in refused(net.ask(1, "GET", "/batch", **one), 503, "peerUnreachable")
    net.silent = set()
    for column, answer in enumerate(everybody(net, "GET", "/batch"), 1):
        assert answer.status_code == 200
        length = net.task.envelope_bytes
        parts = [answer.content[i : i + length] for i in range(0, len(answer.content), length)]
        assert len(parts) == MIN_HONEST
        assert parts == sorted(parts)
        for part in parts:
            unseal(part, KEY, net.task.at(0), column, 0)[0]
        assert not any(ids[i : i + 16] in answer.content for i in range(0, len(ids), 16))
    for _ in range(2):
        answer = net.ask(1, "DELETE", "/batch", **one)
        assert (answer.status_code, answer.json()["state"]) == (200, "sent")
    refused(net.ask(1, "GET", "/batch", **one), 410, "batchGone")
    refused(net.ask(1, "GET", "/reports", **one), 410, "batchGone")
    assert net.ask(1, "GET", "/agreement").json() == {"digest": digest}
    assert net.ask(1, "GET", "").json()["reports"] == MIN_HONEST
    assert net.ask(2, "GET", "/batch", control=net.controls[1]).status_code == 200


# The analyzer


def test_a_release(net):
    total = net.fill()
    net.send(27, ClientReport.make(net.task.at(0), 1), parties=range(COLUMNS))  # not complete
    found = net.release()
    assert found["state"] == "released"
    assert (found["reports"], found["complete"]) == (MIN_HONEST + 1, MIN_HONEST)
    assert (found["result"]["estimate"], found["result"]["users"]) == (total, MIN_HONEST)
    assert found["release"] == {"running": False, "step": None, "message": None, "again": None}
    text = net.clients[0].get("/metrics").text
    for stage, times in (("adding up", 1), ("opening the batch of shuffler", COLUMNS)):
        labels = f'task="{net.task.name}",work="{stage}"'
        assert f"ikos_work_seconds_count{{{labels}}} {times}.0\n" in text
    assert net.release() == found
    assert {one.state for party, one in net.endpoints.items() if party} == {"sent"}
    refused(net.put(0, 29, ClientReport.make(net.task.at(0), 1)), 410, "taskClosed")


def told_when(net, check):
    """Return the analyzer's status when it is as it is waited for; nobody orders anything."""
    until = time.monotonic() + 60
    while True:
        found = net.ask(0, "GET", "").json()
        if check(found):
            return found
        assert time.monotonic() < until, found
        time.sleep(0.02)


def test_a_release_goes_on_by_itself(net, monkeypatch):
    """Asked for once, with a shuffler that comes up later."""
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(retry, "LONGEST_PAUSE", 0.05)
    total = net.fill()
    net.silent = {2, 3}
    assert net.ask(0, "POST", "/release", control=net.operator).status_code == 202
    found = told_when(net, lambda found: found["release"]["message"])
    assert found["release"] == {
        "running": False, "step": None, "again": 0,
        "message": "shuffler 2 does not answer: connection refused; "
        "shuffler 3 does not answer: connection refused",
    }  # fmt: skip
    net.silent = {3}
    told_when(net, lambda found: "shuffler 2" not in (found["release"]["message"] or "shuffler 2"))
    net.silent = set()
    assert told_when(net, lambda found: found["result"])["result"]["estimate"] == total


def test_an_order_outlives_the_analyzer(net, monkeypatch):
    """It was told to release, nobody answered it, and it was started again."""
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    total = net.fill()
    net.silent = {1, 2, 3}
    net.release()
    net.parties[0].end()
    net.silent = set()
    net.start_analyzer()
    assert told_when(net, lambda found: found["result"])["result"]["estimate"] == total


@pytest.mark.points(0)
def test_pauses_grow_and_are_bounded(net, monkeypatch):
    net.fill()
    net.silent = {2}
    pauses, enough = [], threading.Event()

    def wait_for(condition, check, pause):
        pauses.append(pause)
        if len(pauses) == 9:
            enough.set()
            return usual(condition, check, pause)
        return False

    usual = threading.Condition.wait_for
    monkeypatch.setattr(threading.Condition, "wait_for", wait_for)
    net.ask(0, "POST", "/release", control=net.operator)
    assert enough.wait(60)
    assert pauses == [None, 1, 2, 4, 8, 16, 32, 60, 60]  # the first wait ends at once
    assert net.ask(0, "GET", "").json()["release"]["again"] in range(50, 61)


def test_what_stops_is_deleted_where_a_shuffler_was_silent(net, monkeypatch):
    """It is told to delete when it is there again, by itself or by the next order."""
    net.fill((1, 1, 1))
    assert net.ask(0, "POST", "/close", control=net.operator).json()["missing"] is None
    usual = net.handle_request

    def silent(request):
        if request.method == "DELETE" and request.url.port == 9002:
            raise httpx.ConnectError("nobody listens") from REFUSED
        return usual(request)

    with monkeypatch.context() as patch:
        patch.setattr(net, "handle_request", silent)
        found = net.release()
        assert found["state"] == "stopped"
        assert found["release"]["message"] == (
            "3 reports are complete, and nothing is released for fewer than 20; "
            "shuffler 2 does not answer: connection refused"
        )
        assert found["release"]["again"] is not None
    assert [net.endpoints[party].state for party in (1, 2, 3)] == ["deleted", "closed", "deleted"]
    found = net.release()
    assert [net.endpoints[party].state for party in (1, 2, 3)] == ["deleted"] * 3
    assert "shuffler" not in found["release"]["message"]
    assert found["release"]["again"] is None
    requests = len(net.requests)
    assert net.release() == found
    net.parties[0].end()
    net.start_analyzer()
    assert net.release() == found
    assert len(net.requests) == requests  # nobody is told once more


def test_a_slow_shuffler_holds_up_no_other(net, monkeypatch):
    """All are asked before any has answered: by the analyzer, and by each shuffler."""
    net.fill()
    kinds = ("POST close", "GET reports", "PUT batch", "DELETE batch", "GET agreement")
    together = {kind: threading.Barrier(COLUMNS, timeout=60) for kind in kinds[:-1]}
    together[kinds[-1]] = threading.Barrier(COLUMNS - 1, timeout=60)
    usual = net.handle_request
    met = Counter()

    def slow(request):
        kind = f"{request.method} {request.url.path.rpartition('/')[2]}"
        if kind in together:
            together[kind].wait()
            met[kind] += 1
        return usual(request)

    monkeypatch.setattr(net, "handle_request", slow)
    assert net.release()["state"] == "released"
    assert met == {**dict.fromkeys(kinds, COLUMNS), kinds[-1]: COLUMNS * (COLUMNS - 1)}


def test_closing_goes_on_by_itself(net, monkeypatch):
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    net.silent = {2}
    assert net.ask(0, "POST", "/close", control=net.operator).json()["missing"]
    net.silent = set()
    told_when(net, lambda found: found["release"]["again"] is None)
    told_when(net, lambda _: net.endpoints[2].state == "closed")
    assert net.ask(0, "GET", "").json()["state"] == "closed"  # and nothing is released


def test_the_log_names_the_task_and_says_once_that_it_was_closed(net, caplog):
    caplog.set_level(logging.INFO)
    net.fill()
    for _ in range(3):
        net.ask(0, "POST", "/close", control=net.operator)
    net.silent = {2}
    net.release()
    net.silent = set()
    net.release()
    net.ask(0, "POST", "/close", control=net.operator)
    lines = [r.getMessage() for r in caplog.records if r.name == "ikos.deployment"]
    assert lines
    assert all(line.startswith(f"task {net.task.name}, window 0: ") for line in lines)
    said = Counter(line.partition(": ")[2] for line in lines)
    assert said["closed by order"] == COLUMNS + 1  # at each party
    assert said["result released"] == 1
    assert lines[-1].endswith(": result released")
    assert said["batch agreed"] >= COLUMNS
    assert said["batch deleted"] >= COLUMNS
    assert "release hindered: shuffler 2 does not answer: connection refused" in said


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"[1]", b"{}", b'"x"', b"\xff", b"[" * 50_000, b'{"reports":[]}']
)
def test_a_shuffler_that_answers_something_else(net, monkeypatch, answer):
    """Nobody's words break the page, or end a release."""
    usual = net.handle_request

    def odd(request):
        if request.url.port == 9002:
            return httpx.Response(200, stream=httpx.ByteStream(answer))
        return usual(request)

    monkeypatch.setattr(net, "handle_request", odd)
    page = net.clients[0].get(f"/tasks/{net.task.name}/windows/0/page")
    assert page.status_code == 200
    assert net.endpoints[1]._ask(3) is None
    with pytest.raises(OSError, match="shuffler 2 sent an unexpected answer"):
        net.endpoints[1]._ask(2)


# Whether parties reach each other


@pytest.fixture
def altered(net, monkeypatch):
    """What goes wrong on the way to each party: an error, or other values in its status."""
    changes, usual = {}, net.handle_request

    def handle_request(request):
        change = changes.get(request.url.port - 9000)
        if isinstance(change, Exception):
            raise httpx.ConnectError("of no use to people") from change
        answer = usual(request)
        if not change:
            return answer
        found = {**json.loads(answer.read()), **change}
        left = {key: value for key, value in found.items() if value is not None}
        return httpx.Response(200, stream=httpx.ByteStream(json.dumps(left).encode()))

    monkeypatch.setattr(net, "handle_request", handle_request)
    return changes


def untrusted():
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


def test_a_party_that_starts_says_what_is_wrong(net, altered, caplog, monkeypatch):
    """At once, each once, until all is well; of those that do not answer only after a while."""
    other = small_task(USERS, MIN_HONEST, COLUMNS, nonce=bytes(16)).name
    net.clients[2] = Front(intermediary.application({other: net.parties[2]}, rate=1))
    altered[1] = untrusted()
    altered[3] = {"time": time.time() - 75, "version": "0.0.9"}
    altered[4] = REFUSED
    begin = f"task {net.task.name}: shuffler"
    known = [
        f"{begin} 1: its certificate cannot be verified (see --ca): self-signed certificate",
        f"{begin} 2 refuses: there is no such task here (unrecognizedTask)",
        f"{begin} 3 runs ikos 0.0.9, and this party {ikos.__version__}; has a clock 75 s behind",
    ]
    for _ in range(2):
        net.parties[0].meet()
        assert sorted(caplog.messages) == known
    page = net.clients[0].get(f"{net.task.at(0).path}/page").text
    for words in (
        "(see --ca): self-signed",
        "no such task here",
        "a clock 75 s behind",
        "refused",
    ):
        assert words in page
    monkeypatch.setattr(endpoint, "START_SECONDS", 0)
    net.parties[0].meet()
    late = f"{begin} 4 does not answer: connection refused"
    assert sorted(caplog.messages) == [*known, late]
    net.clients[2] = Front(intermediary.application({net.task.name: net.parties[2]}, rate=1))
    altered.clear()
    caplog.clear()
    with caplog.at_level("INFO", "ikos.deployment"):
        net.parties[0].meet()
    assert sorted(caplog.messages) == [f"{begin} {party} is well" for party in range(1, 5)]
    asked = len(net.requests)
    net.parties[0].meet()
    assert len(net.requests) == asked


def test_a_shuffler_that_changes_its_words_is_logged_once(net, altered, caplog):
    for ahead in (12, 13, 14):
        altered[3] = {"time": time.time() + ahead, "version": f"0.0.{ahead}"}
        net.parties[0].meet()
    altered[3] = untrusted()
    net.parties[0].meet()
    assert ["certificate" in line for line in caplog.messages] == [False, True]


def test_an_earlier_version_is_named(net, altered):
    altered[2] = {"time": None, "version": None}
    words = f"runs ikos of an earlier version, and this party {ikos.__version__}"
    assert net.endpoints[0].look(2)[1] == words


def test_who_cannot_be_reached_is_told_to_who_may_release(net, altered):
    """Each shuffler asks the others, as it will have to; others are not told."""
    refused(net.ask(0, "GET", "/peers"), 401, "unauthorized")
    refused(net.ask(1, "GET", "/peers", control=net.operator), 401, "unauthorized")
    assert net.ask(0, "GET", "/peers", control=net.operator).json() == {"unreachable": []}
    wrong = "shuffler 3: its certificate cannot be verified (see --ca): self-signed certificate"

    def look(party, _):
        if party == 3:
            raise OSError(wrong + "\x1b[2J")
        return None, ""

    net.endpoints[1].look = look
    said = net.ask(0, "GET", "/peers", control=net.operator).json()
    assert said == {"unreachable": [f"shuffler 1 says: {wrong}?[2J"]}
    altered[3] = untrusted()
    said = net.ask(0, "GET", "/peers", control=net.operator).json()
    assert said == {"unreachable": [wrong]}


@pytest.mark.parametrize("lying", [False, True])
def test_many_who_cannot_be_reached_are_a_few_and_a_count(net, altered, monkeypatch, lying):
    """What shufflers say together stays a short answer, whatever one of them says."""
    many = [f"shuffler {k}: " + 2000 * "\u4e00" for k in range(2000 if lying else 40)]
    if lying:
        monkeypatch.setattr(remote, "_ANSWER", 1 << 30)
        altered[1] = {"unreachable": many}
    else:
        for party in range(1, COLUMNS + 1):
            monkeypatch.setattr(net.endpoints[party], "unreachable", lambda: many)
    answer = net.ask(0, "GET", "/peers", control=net.operator)
    said = answer.json()["unreachable"]
    assert len(answer.content) < 1 << 14
    assert said[0].startswith("shuffler 1 says: shuffler 0: ")
    assert len(said) == (1 if lying else COLUMNS)


def test_a_few_and_a_count():
    every = list("abcdefg")
    assert [len(first_few(every[:k])) for k in range(8)] == [0, 1, 2, 3, 4, 4, 4, 4]
    few = first_few(every)
    assert few == ["a", "b", "c", "and 4 more"] == first_few(few)


# What is told


def test_health_status_and_metrics(net):
    net.fill()
    for party in range(COLUMNS + 1):
        answer = net.clients[party].get("/health")
        assert (answer.status_code, answer.text) == (200, "ok\n")
        found = net.ask(party, "GET", "").json()
        assert found["task"] == net.task.name
        assert (found["party"], found["state"], found["reports"]) == (party, "collecting", 20)
        assert found["opens"] == net.task.opens.isoformat()
    net.put(1, 27, ClientReport.make(net.task.at(0), 1))
    net.put(1, 27, ClientReport.make(net.task.at(0), 1))
    text = net.clients[1].get("/metrics").text
    assert f'ikos_reports{{task="{net.task.name}"}} 21.0\n' in text


def test_metrics(net):
    """Each request, by its route and status; nothing in them says who sent what."""
    net.fill((1,) * 3)
    report = ClientReport.make(net.task.at(0), 1)
    net.put(1, 27, report)
    net.put(1, 28, report)
    net.put(1, 29, report, part=b"xxx")
    net.ask(1, "POST", "/close", control=net.controls[0])
    for party in (0, 1):
        text = net.clients[party].get("/metrics").text
        assert f'ikos_reports{{task="{net.task.name}"}} {3 + party}.0\n' in text
        state = "closed" if party else "collecting"
        assert f'ikos_windows{{state="{state}",task="{net.task.name}"}} 1.0\n' in text
    assert 'ikos_refusals_total{reason="reportRejected"} 1.0\n' in text
    assert 'ikos_refusals_total{reason="invalidMessage"} 1.0\n' in text
    route = "PUT /tasks/{task}/windows/{window}/reports/{report}"
    for status in (201, 409, 400):
        assert f'ikos_request_seconds_count{{route="{route}",status="{status}"}} 1.0\n' in text
    assert f'ikos_work_seconds_count{{task="{net.task.name}",work="write"}}' in text
    texts = [net.clients[party].get("/metrics").text for party in (1, 2)]
    labels = set(re.findall(r'(\w+)="', "".join(texts)))
    assert labels == {"le", "reason", "route", "state", "status", "task", "work"}


def test_metrics_are_not_written_for_each_request(net, monkeypatch):
    written = []
    usual = service.generate_latest
    monkeypatch.setattr(service, "METRICS_SECONDS", 1000)
    monkeypatch.setattr(service, "generate_latest", lambda *what: written.append(1) or usual(*what))
    assert len({net.clients[1].get("/metrics").text for _ in range(5)}) == len(written) == 1


def test_live(net, monkeypatch):
    """A full disk is no reason to start the process again; a writer that has ended is."""
    order(net, 1, "PRAGMA query_only=1")
    net.put(1, 1, ClientReport.make(net.task.at(0), 1))
    assert "storeReadOnly" in health(net, 1)
    assert net.clients[1].get("/live").text == "ok\n"
    monkeypatch.setattr(net.endpoints[1].store, "_transact", None)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    net.endpoints[1].write(lambda _: None)
    net.endpoints[1].store._thread.join(60)
    assert net.clients[1].get("/live").status_code == 503


def forms(secret: bytes) -> list[bytes]:
    """Return how bytes may stand in a text."""
    return [
        secret, secret.hex().encode(), encoded(secret).encode(),
        base64.b64encode(secret), repr(secret)[2:-1].encode(),
    ]  # fmt: skip


def test_no_answer_and_no_line_of_the_log_tells_a_secret(net, caplog):
    caplog.set_level(logging.DEBUG)
    reports = [ClientReport.make(net.task.at(0), 1) for _ in range(MIN_HONEST)]
    for client, report in enumerate(reports):
        net.send(client, report)
    report = reports[0]
    for party in range(COLUMNS + 1):
        assert net.put(party, 0, report).status_code == 200
        assert net.put(party, 1, report).status_code == 409
        assert net.put(party, 29, report, digest="").status_code == 400
        assert net.put(party, 29, report, part=b"xxx").status_code == 400
        assert net.put(party, 29, report, authorization=None).status_code == 401
        assert net.put(party, 29, report, number=encoded(report.id) + "A").status_code == 400
    for party, (method, path) in ((p, c) for p in (0, 1) for c in commands(p)):
        net.ask(party, method, path, control=net.secrets[3])
    found = net.release()
    assert found["result"]["users"] == MIN_HONEST
    for client in net.clients.values():
        net.answers += [client.get("/metrics"), client.get("/health")]
    page = net.clients[0].get(f"{net.task.at(0).path}/page")
    net.answers += [page, net.clients[0].get("/")]
    told = b"\n".join(answer.content + str(answer.headers).encode() for answer in net.answers)
    # this test's own client logs the addresses that it asks for
    lines = [r.getMessage() for r in caplog.records if not r.name.startswith("http")]
    assert any("result released" in line for line in lines)
    told += "\n".join(lines).encode()
    hidden = [KEY.raw, net.operator, *net.controls, *net.secrets]
    hidden += [net.token(client, p) for client in range(USERS) for p in range(COLUMNS + 1)]
    hidden += [tokens.digest(secret) for secret in hidden]
    for report in reports:
        hidden += [report.id, *report.parts[1:]]
    assert net.task.name.encode() in told  # what is looked for would be found
    for secret in hidden:
        assert not any(form in told for form in forms(secret))


def test_whatever_is_refused_has_a_status():
    """A name without one would be an error of the program, in the middle of an answer."""
    text = "".join(path.read_text() for path in Path(service.__file__).parent.glob("*.py"))
    named = set(re.findall(r'Problem\(\s*"(\w+)"', text))
    named |= {"storeFailed", "tooManyRequests", *store.PROBLEMS.values()}
    assert named == set(service._STATUS)


def test_too_many_at_once(tmp_path, folders, quiet, clock):
    net = Net(shutil.copytree(folders, tmp_path / "task"), rate=2)
    try:
        reports = [ClientReport.make(net.task.at(0), 1) for _ in range(3)]
        for _ in range(5):  # strangers use nothing up
            refused(net.put(1, 0, reports[0], token=bytes(32)), 401, "unauthorized")
            refused(net.put(1, 0, reports[0], authorization=None), 401, "unauthorized")
        answers = [net.put(1, client, report) for client, report in enumerate(reports)]
        assert [answer.status_code for answer in answers] == [201, 201, 429]
        refused(answers[2], 429, "tooManyRequests")
        assert answers[2].headers["retry-after"] == "1"
        assert net.ask(1, "GET", "").status_code == 200  # other requests are answered
        assert net.put(2, 2, reports[2]).status_code == 201  # and other parties have not so many
        clock.now += 0.5
        assert net.put(1, 2, reports[2]).status_code == 201
        refused(net.put(1, 2, reports[2]), 429, "tooManyRequests")
        clock.now += 1e9
        again = [net.put(1, 2, reports[2]).status_code for _ in range(3)]
        assert again == [200, 200, 429]  # a burst is of a second, however long nobody asked
    finally:
        net.end()


def test_a_client_that_repeats_itself(tmp_path, folders, quiet, clock, monkeypatch):
    """It is told to wait, others are not, and it uses up nothing of theirs."""
    monkeypatch.setattr(service, "CLIENT_RATE", 2)
    net = Net(shutil.copytree(folders, tmp_path / "task"), rate=4)
    try:
        reports = [ClientReport.make(net.task.at(0), 1) for _ in range(2)]
        answers = [net.put(1, 0, reports[0]) for _ in range(9)]
        assert [answer.status_code for answer in answers] == [201, 200, *[429] * 7]
        assert "this client" in refused(answers[-1], 429, "tooManyRequests")
        assert answers[-1].headers["retry-after"] == "1"
        assert answers[-1].headers["connection"] == "close"
        assert net.put(1, 1, reports[1]).status_code == 201
        assert net.put(2, 0, reports[0]).status_code == 201
        clock.now += 1
        assert net.put(1, 0, reports[0]).status_code == 200
        text = net.clients[1].get("/metrics").text
        assert 'ikos_limited_total{limit="client"} 7.0\n' in text
        assert 'ikos_refusals_total{reason="tooManyRequests"} 7.0\n' in text
    finally:
        net.end()


def test_a_client_with_many_slow_requests(net):
    """A few bodies at a time with one token; others, and later ones, are read."""
    most = service.CLIENT_SLOTS
    path, headers = headed(net, 1, net.token(0, 1))
    other, others = headed(net, 1, net.token(1, 1))

    async def ask(path, headers, come):
        sent = []

        async def receive():
            await come.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message.get("status"))

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "PUT",
            "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
            "root_path": "", "headers": headers, "client": None, "server": ("127.0.0.1", 9000),
        }  # fmt: skip
        await net.clients[1].app(scope, receive, send)
        return sent[0]

    async def check():
        come, at_once = asyncio.Event(), asyncio.Event()
        at_once.set()
        slow = [asyncio.ensure_future(ask(path, headers, come)) for _ in range(most)]
        await asyncio.sleep(0.02)
        found = [await ask(path, headers, at_once), await ask(other, others, at_once)]
        come.set()
        return [*found, *await asyncio.gather(*slow), await ask(path, headers, at_once)]

    assert asyncio.run(check()) == [429, *[400] * (most + 2)]


# What is never released


@pytest.fixture
def later(monkeypatch):
    """A date of the servers that can be moved."""
    later = SimpleNamespace(by=timedelta())
    monkeypatch.setattr(endpoint, "now", lambda: datetime.now(UTC) + later.by)
    return later


def test_what_is_never_released_is_deleted(net, later, caplog):
    """At each party by its own clock, for good; the analyzer tells the others as well."""
    net.fill()
    days = timedelta(days=30)
    found = net.ask(1, "GET", "").json()
    assert found["expires"] == (net.task.closes + days).isoformat()
    later.by = net.task.closes + days - datetime.now(UTC) - timedelta(minutes=1)
    assert not any(one.expire(endpoint.now()) for one in net.endpoints.values())
    assert net.counts() == {MIN_HONEST}
    later.by += timedelta(minutes=1)
    assert [net.endpoints[party].expire(endpoint.now()) for party in (1, 2)] == [True, True]
    assert [net.endpoints[party].state for party in (1, 2, 3)] == ["deleted", "deleted", "closed"]
    assert net.endpoints[0].expire(endpoint.now())
    told_when(net, lambda _: net.endpoints[3].state == "deleted")
    told_when(net, lambda found: not found["release"]["running"])
    found = net.ask(0, "GET", "").json()
    assert (found["state"], found["reports"]) == ("stopped", MIN_HONEST)
    assert "not released by" in found["release"]["message"]
    assert net.endpoints[0].over
    assert len(lines(caplog, "not released in time")) == 3
    later.by = timedelta()  # whatever the clock says afterwards
    for party, one in net.endpoints.items():
        assert (one.expire(endpoint.now()), one.closed) == (False, True)
        refused(net.put(party, 27, ClientReport.make(net.task.at(0), 1)), 410, "taskClosed")
        assert not any(one.count(table) for table in ("report", "opened", "complete"))
    one = {"control": net.controls[0]}
    refused(net.ask(1, "GET", "/reports", **one), 410, "batchExpired")
    refused(net.ask(1, "GET", "/batch", **one), 410, "batchExpired")
    net.start_again()
    assert net.release()["state"] == "stopped"


def test_a_clock_that_was_ahead_for_a_while_stops_no_deletion(net, later):
    later.by = ahead = net.task.closes - datetime.now(UTC) + timedelta(days=31)
    assert not net.endpoints[1].expire(endpoint.now())
    later.by = timedelta()
    net.fill()
    later.by = ahead
    assert net.endpoints[1].expire(endpoint.now())


def test_a_shuffler_that_agreed_sends_nothing_that_has_expired(net, later):
    net.fill()
    everybody(net, "POST", "/close")
    ids = everybody(net, "GET", "/reports")[0].content
    everybody(net, "PUT", "/batch", content=ids)
    later.by = net.task.closes - datetime.now(UTC) + timedelta(days=31)
    assert net.endpoints[1].expire(endpoint.now())
    assert net.endpoints[1].state == "deleted"  # not sent
    refused(net.ask(1, "GET", "/batch", control=net.controls[0]), 410, "batchExpired")
    found = net.release()
    assert found["state"] == "stopped"
    assert "shuffler 1 refuses: " in found["release"]["message"]


def test_shufflers_are_told_of_what_expired_while_somebody_reads_the_store(net, later, monkeypatch):
    """The analyzer cannot shrink its store then, which raises after all reports are deleted."""
    monkeypatch.setattr(store, "SHRINK_SECONDS", 0)
    net.fill()
    later.by = net.task.closes - datetime.now(UTC) + timedelta(days=31)
    one = net.endpoints[0]
    with closing(sqlite3.connect(one.store.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM report").fetchone()
        with pytest.raises(OSError, match="a reader holds the store"):
            one.expire(endpoint.now())
    told_when(net, lambda _: one.over)
    assert {net.endpoints[party].state for party in range(1, COLUMNS + 1)} == {"deleted"}


def test_deleting_while_somebody_reads_the_store(net, later, monkeypatch):
    """What was deleted is in the store's log then; it is called again until it is not."""
    monkeypatch.setattr(store, "SHRINK_SECONDS", 0)
    net.fill()
    later.by = net.task.closes - datetime.now(UTC) + timedelta(days=31)
    one = net.endpoints[1]
    digests = [tokens.digest(net.token(client, 1)) for client in range(MIN_HONEST)]

    def there():
        data = b"".join(path.read_bytes() for path in one.store.path.parent.glob("store.sqlite3*"))
        return sum(digest in data for digest in digests)

    with closing(sqlite3.connect(one.store.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM report").fetchone()
        with pytest.raises(OSError, match="a reader holds the store"):
            one.expire(endpoint.now())
        assert (one.state, there()) == ("deleted", MIN_HONEST)
    assert not one.expire(endpoint.now())  # nothing is left to be deleted
    assert not there()


def test_what_was_released_does_not_expire(net, later):
    net.fill()
    found = net.release()
    later.by = net.task.closes - datetime.now(UTC) + timedelta(days=31)
    assert not any(one.expire(endpoint.now()) for one in net.endpoints.values())
    assert net.endpoints[0].state == "released"
    assert {one.state for party, one in net.endpoints.items() if party} == {"sent"}
    assert net.release() == found


def test_a_release_under_way_does_not_expire(net, later):
    net.fill()
    later.by = net.task.closes - datetime.now(UTC) + timedelta(days=31)
    with net.endpoints[0]._releasing:
        assert not net.endpoints[0].expire(endpoint.now())
    assert net.endpoints[0].state == "closed"
    assert net.endpoints[0].expire(endpoint.now())


def test_a_clear_share_that_is_none_is_refused_at_once(net):
    """Found out later, it would stop the release: the shufflers' batches are deleted by then."""
    report = ClientReport.make(net.task.at(0), 1)
    wrong = b"\xff" * net.task.width
    assert int.from_bytes(wrong, "big") >= net.task.modulus
    answer = net.put(0, 0, ClientReport(report.id, (wrong, *report.parts[1:])))
    assert "element of the group" in refused(answer, 400, "invalidMessage")
    assert net.put(0, 0, report).status_code == 201


@pytest.mark.points(0)
def test_a_store_that_cannot_be_written_is_said_once_and_again_when_it_can(net, caplog):
    caplog.set_level(logging.INFO)
    reports = [ClientReport.make(net.task.at(0), 1) for _ in range(3)]
    assert net.put(1, 0, reports[0]).status_code == 201
    order(net, 1, "PRAGMA query_only=1")
    for _ in range(100):
        refused(net.put(1, 1, reports[1]), 503, "storeReadOnly")
    (line,) = lines(caplog, "the store")
    assert line.startswith(f"task {net.task.name}: ")
    assert "SQLITE_READONLY" in line
    assert "storeReadOnly" in health(net, 1)
    order(net, 1, "PRAGMA query_only=0")
    assert health(net, 1) == "ok\n"  # though nobody reports
    assert net.put(1, 1, reports[1]).status_code == 201
    assert len(lines(caplog, "the store")) == 2
    assert "over" in lines(caplog, "the store")[1]
