"""The servers' routes: each answer and each problem, and that none of them tells a secret."""

from __future__ import annotations

import asyncio
import base64
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
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")

import httpx
from deployment_tasks import KEY, small_task
from deployment_wired import REFUSED, Wired, address_of
from deployment_world import flip

import ikos
from ikos.deployment import (
    endpoint,
    intake,
    intermediary,
    limits,
    remote,
    retry,
    service,
    store,
    tokens,
)  # fmt: skip
from ikos.deployment.hpke import unseal
from ikos.deployment.party_files import read_control, read_secrets, write_party_files
from ikos.deployment.reports import ClientReport
from ikos.deployment.wire import encoded, first_few

USERS, MIN_HONEST, COLUMNS = 40, 20, 4
SHUFFLERS = range(1, COLUMNS + 1)
EVERYBODY = range(COLUMNS + 1)
SUBMIT = "/tasks/{task}/windows/{window}/reports/{report}"
STATUS = {
    400: {"invalidMessage"},
    401: {"unauthorized"},
    403: {"reportTooEarly"},
    404: {"unrecognizedTask", "notFound"},
    409: {"reportRejected", "taskOpen", "batchRejected", "notAgreed"},
    410: {"batchExpired", "batchGone", "taskClosed"},
    429: {"tooManyRequests"},
    503: {
        "batchPending",
        "peerUnreachable",
        "storeBusy",
        "storeDamaged",
        "storeFailed",
        "storeReadOnly",
    },
    507: {"storeFull"},
}
HEADERS = {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": "1", "connection": "close"},
           507: {"retry-after": "1"}}  # fmt: skip

pytestmark = pytest.mark.usefixtures("remembered")


@pytest.fixture(autouse=True)
def repeating(monkeypatch):
    monkeypatch.setattr(service, "CLIENT_RATE", 1e6)  # these clients repeat themselves


def digest_of(part: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(part).digest()).decode()}:"


def bearer(token: bytes) -> str:
    return f"Bearer {tokens.to_text(token)}"


class Net(Wired):
    """All parties, and requests to them that are not counted, nor cut."""

    def __init__(self, folder: Path, stack: ExitStack, **options):
        super().__init__(folder, stack, **options)
        self.answers: list[httpx.Response] = []
        self.secrets = read_secrets(folder / "clients")
        self.operator = read_control(folder / "operator")
        self.controls = self.analyzer.config.controls
        direct = httpx.MockTransport(self.wires.answer)
        self.direct = stack.enter_context(httpx.Client(transport=direct))

    def start_again(self, parties=EVERYBODY):
        for party in parties:
            self.parties[party].end()
        self.start([*parties][::-1])

    def silence(self, *parties):
        self.wires.cut = {self.task.address(party) for party in parties}

    def get(self, party, path):
        return self.direct.get(self.task.address(party) + path)

    def metrics(self, party):
        return self.get(party, "/metrics").text

    def ask(self, party, method, path, *, task=None, window="0", control=None, **options):
        headers = dict(options.pop("headers", {}))
        if control is not None:
            headers["Authorization"] = bearer(control)
        place = f"{self.task.address(party)}/tasks/{task or self.task.name}/windows/{window}{path}"
        answer = self.direct.request(method, place, headers=headers, **options)
        self.answers.append(answer)
        return answer

    def command(self, party, method, path, **options):
        """Ask with the control that commands a party."""
        control = self.controls[party - 1] if party else self.operator
        return self.ask(party, method, path, control=control, **options)

    def everybody(self, method, path, **options):
        return [self.command(party, method, path, **options) for party in SHUFFLERS]

    def status(self, party=0):
        return self.ask(party, "GET", "").json()

    def token(self, client, party):
        return tokens.for_party(self.secrets[client], self.task, party)

    def report(self, value=1):
        return ClientReport.make(self.task.at(0), value)

    def put(self, party, client, report=None, **changed):
        """Send a part as a client does, or with one thing changed."""
        report = report or self.report()
        part = changed.pop("part", report.parts[party])
        token = changed.pop("token", self.token(client, party))
        headers = {
            "Authorization": changed.pop("authorization", bearer(token)),
            "Content-Digest": changed.pop("digest", digest_of(part)),
        }
        headers = {name: value for name, value in headers.items() if value is not None}
        path = f"/reports/{changed.pop('number', encoded(report.id))}"
        return self.ask(party, "PUT", path, content=part, headers=headers, **changed)

    def send(self, client, report, parties=EVERYBODY):
        for party in parties:
            assert self.put(party, client, report).status_code == 201

    def fill(self, values=(1, 0) * (MIN_HONEST // 2)):
        """Let clients report, without requests."""
        waiting = []
        for client, value in enumerate(values):
            report = self.report(value)
            for party, one in self.endpoints.items():
                token = tokens.digest(self.token(client, party))
                waiting.append(one.intake.accept([(report.id, token, report.parts[party])]))
        assert all(future.result() == [True] for future in waiting)
        return sum(values)

    def when(self, check):
        """Return the analyzer's status when it is as it is waited for; nobody orders anything."""
        until = time.monotonic() + 60
        while not check(status := self.status()):
            assert time.monotonic() < until, status
            time.sleep(0.02)
        del status["time"]
        return status

    def release(self):
        assert self.command(0, "POST", "/release").status_code == 202
        return self.when(lambda status: not status["release"]["running"])

    def counts(self):
        return {one.reports() for one in self.endpoints.values()}

    def states(self, parties=SHUFFLERS):
        return [self.endpoints[party].state for party in parties]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the folders of all parties, who were here once, to be copied: that is faster."""
    folder = tmp_path_factory.mktemp("parties") / "task"
    write_party_files(small_task(USERS, MIN_HONEST, COLUMNS), [KEY], folder)
    with ExitStack() as stack:
        Net(folder, stack)
    return folder


@pytest.fixture
def net_of(tmp_path, folders, quiet):
    with ExitStack() as stack:
        yield lambda **options: Net(shutil.copytree(folders, tmp_path / "task"), stack, **options)


@pytest.fixture
def net(net_of):
    return net_of()


def refused(answer, name):
    (status,) = (status for status, names in STATUS.items() if name in names)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert HEADERS.get(status, {}).items() <= answer.headers.items()
    problem = answer.json()
    assert problem["type"] == f"urn:ikos:parties:{name}"
    assert set(problem) == {"type", "detail"}
    return problem["detail"]


def test_whatever_is_refused_has_a_status():
    """A name without one would be an error of the program, in the middle of an answer."""
    text = "".join(path.read_text() for path in Path(service.__file__).parent.glob("*.py"))
    named = set(re.findall(r'Problem\(\s*"(\w+)"', text))
    named |= {"storeFailed", *store.PROBLEMS.values()}
    assert named == set(service._STATUS)
    assert {name: status for status in STATUS for name in STATUS[status]} == service._STATUS


# Reports


@pytest.mark.points(1)
@pytest.mark.parametrize("party", [0, 1, COLUMNS])
def test_a_report_is_accepted_once_and_acknowledged_again(net, party):
    report = net.report()
    answers = [net.put(party, 3, report) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert not any("connection" in answer.headers for answer in answers)  # it is kept
    assert net.endpoints[party].reports() == net.status(party)["reports"] == 1


def wrong_reports(net, report, party):
    """Yield problems, each with what is changed in a right request."""
    part, good = report.parts[party], tokens.to_text(net.token(0, party))
    right = digest_of(part)
    others = [tokens.to_text(net.token(0, other)) for other in EVERYBODY if other != party]
    secrets = map(tokens.to_text, (net.secrets[0], bytes(32), net.operator))
    for text in (
        None, "", "Bearer", "Bearer ", f"Basic {good}", good, f"Bearer  {good}", f"Bearer {good}=",
        f"Bearer {good[:-1]}", f"Bearer {good}A", f"Bearer {good} {good}", "Bearer " + "\xe9" * 43,
        *(f"Bearer {token}" for token in (*others, *secrets)),
    ):  # fmt: skip
        yield "unauthorized", {"authorization": text and text.encode("latin-1")}
    other = small_task(USERS, MIN_HONEST, COLUMNS, nonce=bytes(16)).name
    for name in (other, "x", net.task.name[:-1], net.task.name.swapcase()):
        yield "unrecognizedTask", {"task": name}
    for window in ("00", "+0", " 0", "1", "-1", "x", 5000 * "1"):
        yield "unrecognizedTask", {"window": window}
    for wrong in (b"", part[:-1], part + b"\0", bytes(1 << 20)):
        yield "invalidMessage", {"part": wrong}
    for digest in (None, "", right[:-1], right.upper(), digest_of(b""), "sha-512" + right[7:]):
        yield "invalidMessage", {"digest": digest}
    yield "invalidMessage", {"part": bytes([part[0] ^ 1]) + part[1:], "digest": right}
    yield "invalidMessage", {"number": encoded(report.id) + "A"}
    if not party:  # found out later, it would stop the release: batches are deleted by then
        yield "invalidMessage", {"part": b"\xff" * net.task.width}  # no element of the group


@pytest.mark.points(1)
@pytest.mark.parametrize("party", [0, 1, COLUMNS])
def test_of_a_report_in_which_one_thing_is_wrong_nothing_is_kept_or_spent(net, party):
    report = net.report()
    assert len(report.parts[party]) == (net.task.envelope_bytes if party else net.task.width)
    for problem, changed in wrong_reports(net, report, party):
        refused(net.put(party, 0, report, **changed), problem)
    assert net.counts() == {0}
    # the scheme's name is not case-sensitive (RFC 9110)
    good = f"bEARER {tokens.to_text(net.token(0, party))}"
    assert net.put(party, 0, report, authorization=good).status_code == 201


@pytest.mark.points(1)
@pytest.mark.parametrize("party", [0, COLUMNS])
def test_conflicts_and_replays(net, party):
    report = other = net.report()
    while other.parts[party] == report.parts[party]:  # a share has few values
        other = net.report(0)
    assert net.put(party, 0, report).status_code == 201
    for answer in (
        net.put(party, 0, other),  # a second report with one token
        net.put(party, 0, ClientReport(report.id, other.parts)),  # another part
        net.put(party, 0, ClientReport(other.id, report.parts)),  # another id
        net.put(party, 1, report),  # a replay with another's token
        net.put(party, 1, ClientReport(report.id, other.parts)),
    ):
        refused(answer, "reportRejected")
    assert net.endpoints[party].reports() == 1
    assert net.put(party, 1, other).status_code == 201
    refused(net.put(party, 1, report), "reportRejected")  # both are there, not together


@pytest.fixture
def clock(monkeypatch):
    """A clock of the limits that stands still until it is moved."""
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
    answer = net.get(party, "/health")
    assert answer.status_code == (200 if answer.text == "ok\n" else 503)
    return answer.text


def lines(caplog, words):
    return [r.getMessage() for r in caplog.records if words in r.getMessage()]


@pytest.mark.slow
def test_a_full_disk(net):
    """New reports are refused; those that are there are acknowledged, as nothing is written."""
    order(net, 1, "PRAGMA max_page_count=14")
    first = net.report()
    answers = [net.put(1, 0, first)]
    while answers[-1].status_code == 201:
        answers.append(net.put(1, len(answers)))
        assert net.put(1, 0, first).status_code == 200
    assert "SQLITE_FULL" in refused(answers.pop(), "storeFull")
    assert net.endpoints[1].reports() == len(answers)
    order(net, 1, "PRAGMA max_page_count=1000000")
    assert net.put(1, len(answers)).status_code == 201


@pytest.mark.points(1)
@pytest.mark.parametrize("party", [0, 1])
def test_a_corrupt_store(net, caplog, party):
    """It is not called a full disk, and the server's health is not good."""
    net.fill()
    net.endpoints[party].store.shrink()
    path = net.endpoints[party].store.path
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert "storeDamaged" in health(net, party)
    (line,) = lines(caplog, "the store")
    assert re.search("SQLITE_(NOTADB|CORRUPT)", line)
    assert "full" not in line
    refused(net.command(party, "POST", "/close"), "storeDamaged")
    assert len(lines(caplog, "the store cannot be written")) == 1


@pytest.mark.slow
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
    net.command(0, "POST", "/release")
    message = net.when(lambda status: status["release"]["message"])["release"]["message"]
    for words in ("shuffler 2", "storeDamaged", "row 5 of table 'report'"):
        assert words in message
    assert "storeDamaged" in health(net, 2)
    assert "storeDamaged" in health(net, 2)
    assert len(lines(caplog, "the store is damaged")) <= 2  # the shuffler's line, the analyzer's
    flip(path, place + 3)
    assert net.when(lambda status: status["result"])["result"]["estimate"] == total


@pytest.mark.points(0)
def test_a_store_that_cannot_be_written_is_said_once_and_again_when_it_can(net, caplog):
    caplog.set_level(logging.INFO)
    report = net.report()
    assert net.put(1, 0).status_code == 201
    order(net, 1, "PRAGMA query_only=1")
    for _ in range(100):
        refused(net.put(1, 1, report), "storeReadOnly")
    (line,) = lines(caplog, "the store")
    assert line.startswith(f"task {net.task.name}: ")
    assert "SQLITE_READONLY" in line
    assert "storeReadOnly" in health(net, 1)
    order(net, 1, "PRAGMA query_only=0")
    assert health(net, 1) == "ok\n"  # though nobody reports
    assert net.put(1, 1, report).status_code == 201
    assert len(lines(caplog, "the store")) == 2
    assert "over" in lines(caplog, "the store")[1]


@pytest.mark.slow
def test_the_public_is_answered_without_the_disk(net, monkeypatch):
    """What strangers ask for costs no query: not after a restart, and not after a release."""

    def no_disk(*_, **__):
        raise AssertionError("a public request opened the database")

    def look(*states):
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", no_disk)
            for party in EVERYBODY:
                status = net.status(party)
                assert (status["reports"], status["state"]) == (20, states[party > 0])
                assert f'ikos_reports{{task="{net.task.name}"}} 20.0\n' in net.metrics(party)
            for path in ("/", f"{net.task.at(0).path}/page"):
                assert net.get(0, path).status_code == 200

    net.fill()
    look("collecting", "collecting")
    net.start_again()
    look("collecting", "collecting")
    net.release()
    look("released", "sent")
    net.start_again()
    look("released", "sent")


def test_pages_ask_shufflers_a_few_times_a_second(net, clock):
    """Whoever opens the pages of many windows does not use up what shufflers allow the analyzer."""
    for _ in range(9):
        net.analyzer._asked = -math.inf  # as a page of another window
        assert "collecting" in net.get(0, f"{net.task.at(0).path}/page").text
    assert Counter(net.wires.requests) == {("GET", net.task.address(j)): 4 for j in SHUFFLERS}


def test_a_request_that_is_given_up_stops_nobody_else(net):
    """As those are that a server which stops no longer waits for."""
    begun, held = threading.Event(), threading.Event()
    net.endpoints[1].store.write(0, lambda _: begun.set() or held.wait(60))
    assert begun.wait(60)  # what comes now is not of the same transaction

    async def give_up():
        first, second = (
            asyncio.ensure_future(net.endpoints[1].intake.receive(one.id, token, one.parts[1]))
            for one, token in ((net.report(), bytes(32)), (net.report(), b"1" * 32))
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
    reports, size = net.endpoints[1].intake, net.task.part_bytes(1)
    parts = [(bytes([n]) * 16, bytes([n]) * 32, bytes(size)) for n in range(4)]
    assert reports.accept([parts[0]]).result() == [True]
    stolen = (bytes(15) + b"9", *parts[1][1:])

    async def together():
        asked = (reports.receive(*part) for part in (parts[1], parts[0], stolen, parts[2]))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, again, problem, last = asyncio.run(together())
    assert (first, again, last) == (True, False, True)
    assert problem.name == "reportRejected"
    assert reports.accept([parts[3], parts[3]]).result() == [True, False]
    assert list(reports.ids()) == sorted(part[0] for part in parts)


# How much is read


async def called(net, path, headers, receive):
    """Call a shuffler's application with a body that is made as it is read.

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
    await net.wires.ends[net.task.address(1)](scope, receive, send)
    assert not any(message.get("more_body") for message in sent)
    return sent[0]["status"], (b"connection", b"close") in sent[0]["headers"]


def headed(net, token, more=0):
    headers = [
        (b"authorization", bearer(token).encode()),
        (b"content-digest", digest_of(b"").encode()),
        (b"content-length", b"%d" % (net.task.envelope_bytes + more)),
    ]
    return f"{net.task.at(0).path}/reports/{encoded(bytes(16))}", headers


@pytest.mark.parametrize("more", [-1, 1, 10**12])
def test_of_a_body_of_another_size_nothing_is_read(net, more):
    read = []

    async def endless():
        read.append(10)
        return {"type": "http.request", "body": bytes(10), "more_body": True}

    path, headers = headed(net, net.token(0, 1), more)
    assert asyncio.run(called(net, path, headers, endless)) == (400, True)
    path, headers = headed(net, net.secrets[0])
    for place, status in ((path, 401), ("/nowhere", 404), ("/health", 405)):
        assert asyncio.run(called(net, place, headers, endless)) == (status, True)
    assert not read  # of strangers nothing is read at all


async def gone():
    return {"type": "http.disconnect"}


def test_a_client_with_many_slow_requests(net):
    """A few bodies at a time with one token; others, and later ones, are read."""
    mine, other = headed(net, net.token(0, 1)), headed(net, net.token(1, 1))

    async def check():
        come = asyncio.Event()

        async def late():
            await come.wait()
            return await gone()

        slow = [
            asyncio.ensure_future(called(net, *mine, late)) for _ in range(service.CLIENT_SLOTS)
        ]
        await asyncio.sleep(0.02)
        answers = [await called(net, *mine, gone), await called(net, *other, gone)]
        come.set()
        answers += [*await asyncio.gather(*slow), await called(net, *mine, gone)]
        return [status for status, _ in answers]

    assert asyncio.run(check()) == [429, *[400] * (service.CLIENT_SLOTS + 2)]
    assert net.counts() == {0}


def test_too_many_at_once(net_of, clock):
    net = net_of(rate=2)
    for _ in range(5):  # strangers use nothing up
        refused(net.put(1, 0, token=bytes(32)), "unauthorized")
        refused(net.put(1, 0, authorization=None), "unauthorized")
    reports = [net.report() for _ in range(3)]
    answers = [net.put(1, client, report) for client, report in enumerate(reports)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    refused(answers[2], "tooManyRequests")
    assert net.ask(1, "GET", "").status_code == 200  # other requests are answered
    assert net.put(2, 2, reports[2]).status_code == 201  # and other parties have not so many
    clock.now += 0.5
    assert net.put(1, 2, reports[2]).status_code == 201
    refused(net.put(1, 2, reports[2]), "tooManyRequests")
    clock.now += 1e9
    again = [net.put(1, 2, reports[2]).status_code for _ in range(3)]
    assert again == [200, 200, 429]  # a burst is of a second, however long nobody asked


def test_a_client_that_repeats_itself(net_of, clock, monkeypatch):
    """It is told to wait, others are not, and it uses up nothing of theirs."""
    monkeypatch.setattr(service, "CLIENT_RATE", 2)
    net = net_of(rate=4)
    report = net.report()
    answers = [net.put(1, 0, report) for _ in range(9)]
    assert [answer.status_code for answer in answers] == [201, 200, *[429] * 7]
    assert "this client" in refused(answers[-1], "tooManyRequests")
    assert net.put(1, 1).status_code == 201
    assert net.put(2, 0, report).status_code == 201
    clock.now += 1
    assert net.put(1, 0, report).status_code == 200
    text = net.metrics(1)
    assert 'ikos_limited_total{limit="client"} 7.0\n' in text
    assert 'ikos_refusals_total{reason="tooManyRequests"} 7.0\n' in text


# Commands


def commands(party):
    shufflers = [("GET", "/reports"), ("PUT", "/receipts"), ("PUT", "/batch"), ("GET", "/batch")]
    shufflers.append(("DELETE", "/batch"))
    always = [("GET", "/peers"), ("POST", "/close")]
    return [*always, *(shufflers if party else [("POST", "/release")])]


@pytest.mark.slow
@pytest.mark.parametrize("party", [0, 1])
def test_who_may_command(net, party):
    net.fill()
    mine = net.controls[0] if party else net.operator
    others = {net.operator, *net.controls} - {mine}
    for method, path in commands(party):
        for control in (None, bytes(32), net.secrets[0], net.token(0, party), *others):
            refused(net.ask(party, method, path, control=control), "unauthorized")
        refused(net.ask(party, method, path, control=mine, task="x"), "unrecognizedTask")
    refused(net.ask(party, "GET", "", task="x"), "unrecognizedTask")
    assert net.status(party)["state"] == "collecting"
    for method, path in commands(party):
        assert net.ask(party, method, path, control=mine).status_code != 401


@pytest.mark.slow
def test_the_order_of_commands(net):
    net.fill()

    def refuses(problem, method, path, **options):
        return refused(net.command(1, method, path, **options), problem)

    refuses("taskOpen", "GET", "/reports")
    refuses("taskOpen", "PUT", "/batch", content=b"")
    refuses("notFound", "PUT", "/receipts", content=b"")
    refused(net.ask(0, "GET", "/certificate"), "notFound")
    refuses("notAgreed", "GET", "/batch")
    refuses("taskOpen", "DELETE", "/batch")
    refused(net.ask(1, "GET", "/agreement"), "notFound")
    net.everybody("POST", "/close")
    (ids,) = {answer.content for answer in net.everybody("GET", "/reports")}
    assert len(ids) == MIN_HONEST * 16
    for wrong in (b"", ids[:-16], ids[:-1], ids[16:] + ids[:16], bytes(16) + ids, ids + ids[:16]):
        refuses("batchRejected", "PUT", "/batch", content=wrong)
    too_long = bytes(16 * USERS + 1)
    detail = refuses("invalidMessage", "PUT", "/batch", content=too_long)
    assert "the content must be at most" in detail
    digest = {"digest": intermediary.agreed_digest(net.task.at(0), ids)}
    for _ in range(2):
        assert net.command(1, "PUT", "/batch", content=ids).json() == digest
    assert net.ask(1, "GET", "/agreement").json() == digest
    assert net.status(1)["state"] == "agreed"
    refuses("notAgreed", "GET", "/batch")  # the others have not
    net.everybody("PUT", "/batch", content=ids)
    net.silence(3)
    assert "shuffler 3" in refuses("peerUnreachable", "GET", "/batch")
    net.silence()
    length = net.task.envelope_bytes
    for column, answer in enumerate(net.everybody("GET", "/batch"), 1):
        assert answer.status_code == 200
        data = answer.content
        parts = [data[start : start + length] for start in range(0, len(data), length)]
        assert len(parts) == MIN_HONEST
        assert parts == sorted(parts)
        for part in parts:
            assert unseal(part, KEY, net.task.at(0), column, 0)
        assert not any(ids[i : i + 16] in data for i in range(0, len(ids), 16))
    for _ in range(2):
        answer = net.command(1, "DELETE", "/batch")
        assert (answer.status_code, answer.json()["state"]) == (200, "sent")
    refuses("batchGone", "GET", "/batch")
    refuses("batchGone", "GET", "/reports")
    assert net.ask(1, "GET", "/agreement").json() == digest
    assert net.status(1)["reports"] == MIN_HONEST
    assert net.command(2, "GET", "/batch").status_code == 200


# The analyzer


@pytest.mark.slow
def test_a_release(net):
    total = net.fill()
    net.send(27, net.report(), parties=range(COLUMNS))  # not complete
    status = net.release()
    assert status["state"] == "released"
    assert (status["reports"], status["complete"]) == (MIN_HONEST + 1, MIN_HONEST)
    assert (status["result"]["estimate"], status["result"]["users"]) == (total, MIN_HONEST)
    assert status["release"] == {"running": False, "step": None, "message": None, "again": None}
    text = net.metrics(0)
    for stage, times in (("adding up", 1), ("opening the batch of shuffler", COLUMNS)):
        labels = f'task="{net.task.name}",work="{stage}"'
        assert f"ikos_work_seconds_count{{{labels}}} {times}.0\n" in text
    assert net.release() == status
    assert set(net.states()) == {"sent"}
    refused(net.put(0, 29), "taskClosed")


@pytest.mark.slow
def test_a_release_goes_on_by_itself(net, monkeypatch):
    """Asked for once, with a shuffler that comes up later."""
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(retry, "LONGEST_PAUSE", 0.05)
    total = net.fill()
    net.silence(2, 3)
    assert net.command(0, "POST", "/release").status_code == 202
    assert net.when(lambda status: status["release"]["message"])["release"] == {
        "running": False, "step": None, "again": 0,
        "message": "shuffler 2 does not answer: connection refused; "
        "shuffler 3 does not answer: connection refused",
    }  # fmt: skip
    net.silence(3)
    net.when(lambda status: "shuffler 2" not in (status["release"]["message"] or "shuffler 2"))
    net.silence()
    assert net.when(lambda status: status["result"])["result"]["estimate"] == total


@pytest.mark.slow
def test_an_order_outlives_the_analyzer(net, monkeypatch):
    """It was told to release, nobody answered it, and it was started again."""
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    total = net.fill()
    net.silence(1, 2, 3)
    net.release()
    net.parties[0].end()
    net.silence()
    net.start([0])
    assert net.when(lambda status: status["result"])["result"]["estimate"] == total


@pytest.mark.points(0)
def test_pauses_grow_and_are_bounded(net, monkeypatch):
    net.fill()
    net.silence(2)
    pauses, enough = [], threading.Event()

    def wait_for(condition, check, pause):
        pauses.append(pause)
        if len(pauses) == 9:
            enough.set()
            return usual(condition, check, pause)
        return False

    usual = threading.Condition.wait_for
    monkeypatch.setattr(retry.threading.Condition, "wait_for", wait_for)
    net.command(0, "POST", "/release")
    assert enough.wait(60)
    assert pauses == [None, 1, 2, 4, 8, 16, 32, 60, 60]  # the first wait ends at once
    assert net.status()["release"]["again"] in range(50, 61)


@pytest.fixture
def through(net, monkeypatch):
    """Let what parties ask each other go through a function of the request, and of what is next."""
    usual = net.wires.handle_request

    def through(function):
        monkeypatch.setattr(net.wires, "handle_request", lambda request: function(request, usual))

    return through


@pytest.mark.slow
def test_what_stops_is_deleted_where_a_shuffler_was_silent(net, through):
    """It is told to delete when it is there again, by itself or by the next order."""
    net.fill((1, 1, 1))
    assert net.command(0, "POST", "/close").json()["missing"] is None

    def silent(request, usual):
        if request.method == "DELETE" and address_of(request) == net.task.address(2):
            raise httpx.ConnectError("nobody listens") from REFUSED
        return usual(request)

    through(silent)
    status = net.release()
    assert status["state"] == "stopped"
    assert status["release"]["message"] == (
        "3 reports are complete, and nothing is released for fewer than 20; "
        "shuffler 2 does not answer: connection refused"
    )
    assert status["release"]["again"] is not None
    assert net.states((1, 2, 3)) == ["deleted", "closed", "deleted"]
    through(lambda request, usual: usual(request))
    status = net.release()
    assert net.states((1, 2, 3)) == ["deleted"] * 3
    assert "shuffler" not in status["release"]["message"]
    assert status["release"]["again"] is None
    requests = len(net.wires.requests)
    assert net.release() == status
    net.start_again([0])
    assert net.release() == status
    assert len(net.wires.requests) == requests  # nobody is told once more


@pytest.mark.slow
def test_a_slow_shuffler_holds_up_no_other(net, through):
    """All are asked before any has answered: by the analyzer, and by each shuffler."""
    net.fill()
    kinds = ("POST close", "GET reports", "PUT batch", "DELETE batch", "GET agreement")
    together = {kind: threading.Barrier(COLUMNS, timeout=60) for kind in kinds[:-1]}
    together[kinds[-1]] = threading.Barrier(COLUMNS - 1, timeout=60)
    met = Counter()

    def slow(request, usual):
        kind = f"{request.method} {request.url.path.rpartition('/')[2]}"
        if kind in together:
            together[kind].wait()
            met[kind] += 1
        return usual(request)

    through(slow)
    assert net.release()["state"] == "released"
    assert met == {**dict.fromkeys(kinds, COLUMNS), kinds[-1]: COLUMNS * (COLUMNS - 1)}


def test_closing_goes_on_by_itself(net, monkeypatch):
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    net.silence(2)
    assert net.command(0, "POST", "/close").json()["missing"]
    net.silence()
    net.when(lambda status: status["release"]["again"] is None)
    net.when(lambda _: net.endpoints[2].state == "closed")
    assert net.status()["state"] == "closed"  # and nothing is released


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"[1]", b"{}", b'"x"', b"\xff", b"[" * 50_000, b'{"reports":[]}']
)
def test_a_shuffler_that_answers_something_else(net, through, answer):
    """Nobody's words break the page, or end a release."""

    def odd(request, usual):
        if address_of(request) == net.task.address(2):
            return httpx.Response(200, stream=httpx.ByteStream(answer))
        return usual(request)

    through(odd)
    assert net.get(0, f"{net.task.at(0).path}/page").status_code == 200
    assert net.endpoints[1]._ask(3) is None
    with pytest.raises(OSError, match="shuffler 2 sent an unexpected answer"):
        net.endpoints[1]._ask(2)


# Whether parties reach each other


@pytest.fixture
def altered(net, through):
    """What goes wrong on the way to each party: an error, or other values in its status."""
    changes = {}

    def alter(request, usual):
        change = changes.get(request.url.port - 9000)
        if isinstance(change, Exception):
            raise httpx.ConnectError("of no use to people") from change
        answer = usual(request)
        if not change:
            return answer
        values = {**json.loads(answer.read()), **change}
        values = {key: value for key, value in values.items() if value is not None}
        return httpx.Response(200, stream=httpx.ByteStream(json.dumps(values).encode()))

    through(alter)
    return changes


def untrusted():
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = 18, "self-signed certificate"
    return error


def test_a_party_that_starts_says_what_is_wrong(net, altered, caplog, monkeypatch):
    """At once, each once, until all is well; of those that do not answer only after a while."""
    other = small_task(USERS, MIN_HONEST, COLUMNS, nonce=bytes(16)).name
    usual = net.wires.ends[net.task.address(2)]
    elsewhere = intermediary.application({other: net.parties[2]}, rate=1)
    net.wires.ends[net.task.address(2)] = elsewhere
    altered[1] = untrusted()
    altered[3] = {"time": time.time() - 75, "version": "0.0.9"}
    altered[4] = REFUSED
    begin = f"task {net.task.name}: shuffler"
    known = [
        f"{begin} 1: its certificate cannot be verified (see --ca): self-signed certificate",
        f"{begin} 2 refuses: there is no such task here (unrecognizedTask)",
        f"{begin} 3 runs ikos 0.0.9, and this party {ikos.__version__}: install one version at "
        "both; has a clock 75 s behind: synchronize both clocks",
    ]
    for _ in range(2):
        net.parties[0].meet()
        assert sorted(caplog.messages) == known
    page = net.get(0, f"{net.task.at(0).path}/page").text
    for words in ("(see --ca): self-signed", "no such task here", "a clock 75 s behind", "refused"):
        assert words in page
    monkeypatch.setattr(endpoint, "START_SECONDS", 0)
    net.parties[0].meet()
    late = f"{begin} 4 does not answer: connection refused"
    assert sorted(caplog.messages) == [*known, late]
    net.wires.ends[net.task.address(2)] = usual
    altered.clear()
    caplog.clear()
    with caplog.at_level("INFO", "ikos.deployment"):
        net.parties[0].meet()
    assert [line for line in sorted(caplog.messages) if line.startswith("task")] == [
        f"{begin} {party} is well" for party in SHUFFLERS
    ]
    asked = len(net.wires.requests)
    net.parties[0].meet()
    assert len(net.wires.requests) == asked


def test_a_shuffler_that_changes_its_words_is_logged_once(net, altered, caplog):
    altered[2] = {"time": None, "version": None}
    words = (
        f"runs ikos of an earlier version, and this party {ikos.__version__}: install one version "
        "at both"
    )
    assert net.endpoints[0].look(2)[1] == words
    altered.clear()
    for ahead in (12, 13, 14):
        altered[3] = {"time": time.time() + ahead, "version": f"0.0.{ahead}"}
        net.parties[0].meet()
    altered[3] = untrusted()
    net.parties[0].meet()
    assert ["certificate" in line for line in caplog.messages] == [False, True]


def test_who_cannot_be_reached_is_told_to_who_may_release(net, altered):
    """Each shuffler asks the others, as it will have to."""
    assert net.command(0, "GET", "/peers").json() == {"unreachable": []}
    wrong = "shuffler 3: its certificate cannot be verified (see --ca): self-signed certificate"

    def look(party, _):
        if party == 3:
            raise OSError(wrong + "\x1b[2J")
        return None, ""

    net.endpoints[1].look = look
    peers = net.command(0, "GET", "/peers").json()
    assert peers == {"unreachable": [f"shuffler 1 says: {wrong}?[2J"]}
    altered[3] = untrusted()
    assert net.command(0, "GET", "/peers").json() == {"unreachable": [wrong]}


@pytest.mark.slow
def test_many_who_cannot_be_reached_are_a_few_and_a_count(net, altered, monkeypatch):
    """What shufflers say together stays a short answer, whatever one of them says."""
    many = [f"shuffler {k}: " + 2000 * "\u4e00" for k in range(2000)]
    monkeypatch.setattr(remote, "_ANSWER", 1 << 30)
    altered[1] = {"unreachable": many}
    for party in SHUFFLERS[1:]:
        monkeypatch.setattr(net.endpoints[party], "unreachable", lambda: many[:40])
    answer = net.command(0, "GET", "/peers")
    peers = answer.json()["unreachable"]
    assert len(answer.content) < 1 << 14
    assert peers[0].startswith("shuffler 1 says: shuffler 0: ")
    assert len(peers) == COLUMNS


def test_a_few_and_a_count():
    every = list("abcdefg")
    assert [len(first_few(every[:k])) for k in range(8)] == [0, 1, 2, 3, 4, 4, 4, 4]
    few = first_few(every)
    assert few == ["a", "b", "c", "and 4 more"] == first_few(few)


# What is told


def test_status_and_metrics(net):
    """Each request, by its route and status; nothing in them says who sent what."""
    net.fill((1,) * 3)
    for party in EVERYBODY:
        assert net.get(party, "/health").text == "ok\n"
        status = net.status(party)
        assert (status["task"], status["opens"]) == (net.task.name, net.task.opens.isoformat())
        assert (status["party"], status["state"], status["reports"]) == (party, "collecting", 3)
    report = net.report()
    net.put(1, 27, report)
    net.put(1, 28, report)
    net.put(1, 29, report, part=b"xxx")
    net.command(1, "POST", "/close")
    for party in (0, 1):
        text = net.metrics(party)
        assert f'ikos_reports{{task="{net.task.name}"}} {3 + party}.0\n' in text
        state = "closed" if party else "collecting"
        assert f'ikos_windows{{state="{state}",task="{net.task.name}"}} 1.0\n' in text
    for reason in ("reportRejected", "invalidMessage"):
        assert f'ikos_refusals_total{{reason="{reason}"}} 1.0\n' in text
    for status in (201, 409, 400):
        labels = f'route="PUT {SUBMIT}",status="{status}"'
        assert f"ikos_request_seconds_count{{{labels}}} 1.0\n" in text
    assert f'ikos_work_seconds_count{{task="{net.task.name}",work="write"}}' in text
    labels = set(re.findall(r'(\w+)="', net.metrics(1) + net.metrics(2)))
    assert labels == {"le", "reason", "route", "state", "status", "task", "work"}


def test_metrics_are_not_written_for_each_request(net, monkeypatch):
    written = []
    usual = service.generate_latest
    monkeypatch.setattr(service, "METRICS_SECONDS", 1000)
    monkeypatch.setattr(service, "generate_latest", lambda *what: written.append(1) or usual(*what))
    assert len({net.metrics(1) for _ in range(5)}) == len(written) == 1


def test_live(net, monkeypatch):
    """A full disk is no reason to start the process again; a writer that has ended is."""
    order(net, 1, "PRAGMA query_only=1")
    net.put(1, 1)
    assert "storeReadOnly" in health(net, 1)
    assert net.get(1, "/live").text == "ok\n"
    monkeypatch.setattr(net.endpoints[1].store, "_transact", None)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    net.endpoints[1].write(lambda _: None)
    net.endpoints[1].store._thread.join(60)
    assert net.get(1, "/live").status_code == 503


def forms(secret: bytes) -> list[bytes]:
    """Return how bytes may stand in a text."""
    return [
        secret, secret.hex().encode(), encoded(secret).encode(),
        base64.b64encode(secret), repr(secret)[2:-1].encode(),
    ]  # fmt: skip


@pytest.mark.slow
def test_no_answer_and_no_line_of_the_log_tells_a_secret(net, caplog):
    caplog.set_level(logging.DEBUG)
    reports = [net.report() for _ in range(MIN_HONEST)]
    for client, report in enumerate(reports):
        net.send(client, report)
    report = reports[0]
    for party in EVERYBODY:
        assert net.put(party, 0, report).status_code == 200
        assert net.put(party, 1, report).status_code == 409
        for problem, changed in wrong_reports(net, report, party):
            refused(net.put(party, 29, report, **changed), problem)
    for party, (method, path) in ((p, c) for p in (0, 1) for c in commands(p)):
        net.ask(party, method, path, control=net.secrets[3])
    assert net.release()["result"]["users"] == MIN_HONEST
    for party in EVERYBODY:
        net.answers += [net.get(party, path) for path in ("/metrics", "/health")]
    net.answers += [net.get(0, path) for path in ("/", f"{net.task.at(0).path}/page")]
    told = b"\n".join(answer.content + str(answer.headers).encode() for answer in net.answers)
    # this test's own client logs the addresses that it asks for
    lines = [r.getMessage() for r in caplog.records if not r.name.startswith("http")]
    assert any("result released" in line for line in lines)
    told += "\n".join(lines).encode()
    hidden = [KEY.raw, net.operator, *net.controls, *net.secrets]
    hidden += [net.token(client, party) for client in range(USERS) for party in EVERYBODY]
    hidden += [tokens.digest(secret) for secret in hidden]
    for report in reports:
        hidden += [report.id, *report.parts[1:]]
    assert net.task.name.encode() in told  # what is looked for would be found
    assert not any(form in told for secret in hidden for form in forms(secret))


# What is never released


@pytest.fixture
def late(net, date):
    """The last moment at which reports that were not released are kept."""
    return net.task.closes + timedelta(days=30)


@pytest.mark.slow
def test_what_is_never_released_is_deleted(net, date, late, caplog):
    """At each party by its own clock, for good; the analyzer tells the others as well."""
    net.fill()
    assert net.status(1)["expires"] == late.isoformat()
    date.now = late - timedelta(minutes=1)
    assert not any(one.expire(date.now) for one in net.endpoints.values())
    assert net.counts() == {MIN_HONEST}
    date.now = late
    assert [net.endpoints[party].expire(date.now) for party in (1, 2)] == [True, True]
    assert net.states((1, 2, 3)) == ["deleted", "deleted", "closed"]
    assert net.analyzer.expire(date.now)
    net.when(lambda _: net.endpoints[3].state == "deleted")
    status = net.when(lambda status: not status["release"]["running"])
    assert (status["state"], status["reports"]) == ("stopped", MIN_HONEST)
    assert "not released by" in status["release"]["message"]
    assert net.analyzer.over
    assert len(lines(caplog, "not released in time")) == 3
    date.now = None  # whatever the clock says afterwards
    for party, one in net.endpoints.items():
        assert (one.expire(endpoint.now()), one.closed) == (False, True)
        refused(net.put(party, 27), "taskClosed")
        assert not any(one.count(table) for table in ("report", "opened", "complete"))
    for path in ("/reports", "/batch"):
        refused(net.command(1, "GET", path), "batchExpired")
    net.start_again()
    assert net.release()["state"] == "stopped"


def test_a_clock_that_was_ahead_for_a_while_stops_no_deletion(net, date, late):
    date.now = late
    assert not net.endpoints[1].expire(late)
    date.now = None
    net.fill()
    date.now = late
    assert net.endpoints[1].expire(late)


@pytest.mark.points(1)
@pytest.mark.parametrize("party", [0, 1])
@pytest.mark.parametrize("restart", [False, True])
def test_deleting_while_somebody_reads_the_store(net, date, late, monkeypatch, party, restart):
    """What was deleted is in the store's log then; the analyzer tells the shufflers all the same.

    It is called again until nothing is left, also by a party that was started again.
    """
    monkeypatch.setattr(store, "SHRINK_SECONDS", 0)
    net.fill()
    date.now = late
    one = net.endpoints[party]
    digests = [tokens.digest(net.token(client, party)) for client in range(MIN_HONEST)]

    def there():
        data = b"".join(path.read_bytes() for path in one.store.path.parent.glob("store.sqlite3*"))
        return sum(digest in data for digest in digests)

    with closing(sqlite3.connect(one.store.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM report").fetchone()
        with pytest.raises(OSError, match="a reader holds the store"):
            one.expire(late)
        assert (one.state, there()) == ("deleted" if party else "stopped", MIN_HONEST)
    if restart:
        net.start_again([party])
        one = net.endpoints[party]
        one.expire(late)
    if party:
        assert not one.expire(late)  # nothing is left to be deleted
    else:
        net.when(lambda _: one.over)
        assert set(net.states()) == {"deleted"}
    assert not there()


@pytest.mark.slow
def test_what_was_released_does_not_expire(net, date, late):
    net.fill()
    status = net.release()
    date.now = late
    assert not any(one.expire(late) for one in net.endpoints.values())
    assert net.states(EVERYBODY) == ["released", *["sent"] * COLUMNS]
    assert net.release() == status


def test_a_release_under_way_does_not_expire(net, date, late):
    net.fill()
    date.now = late
    with net.analyzer._releasing:
        assert not net.analyzer.expire(late)
    assert net.analyzer.state == "closed"
    assert net.analyzer.expire(late)
