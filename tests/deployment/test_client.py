"""The client: one report, kept before it is sent, and sent until all parties have it."""

from __future__ import annotations

import copy
import errno
import math
import os
import pickle
import resource
import ssl
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import permutations
from types import NoneType
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette")

import httpx
from deployment_tasks import KEY, small_task

from ikos.deployment import client as module
from ikos.deployment import tokens
from ikos.deployment.client import Client, Rejected, Unsent, submit_many
from ikos.deployment.hpke import read_clear, unseal
from ikos.deployment.party_files import write_new
from ikos.deployment.reports import ClientReport, ReportStore
from ikos.deployment.wire import encoded

TASK = small_task(40, 20, 4)
FIRST = TASK.at(0)
SECRET = bytes(range(32))


class CrashError(BaseException):
    """The program ends here."""


class Parties(httpx.BaseTransport):
    """What all parties receive; each request may be answered by something else."""

    def __init__(self):
        self.asked = []
        self.parts = {}
        self.before = lambda _number, _party: None
        self._lock = threading.Lock()

    def handle_request(self, request):
        party = (urlsplit(str(request.url)).port or 0) - 9000
        with self._lock:
            number = len(self.asked)
            self.asked.append(party)
        answer = self.before(number, party)
        if answer is not None:
            return httpx.Response(answer.status_code, headers=answer.headers, stream=answer.stream)
        name, part = request.url.path.rsplit("/", 1)[1], request.read()
        with self._lock:
            self.parts.setdefault(party, set()).add((name, part))
        return httpx.Response(201, stream=httpx.ByteStream(b""))


@pytest.fixture
def parties(monkeypatch):
    parties = Parties()
    monkeypatch.setattr(module, "connect", lambda _: httpx.Client(transport=parties))
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(module, "_PAUSE", 0.002)
    return parties


def is_one_report(parties, value):
    """Whether all that parties ever received is one report of this value."""
    assert set(parties.parts) == set(range(TASK.parties))
    assert all(len(received) == 1 for received in parties.parts.values())
    (names,) = {tuple(name for name, _ in received) for received in parties.parts.values()}
    assert len(names) == 1
    parts = {party: part for party, ((_, part),) in parties.parts.items()}
    (total,) = read_clear(parts[0], TASK)
    total += sum(unseal(parts[j], KEY, FIRST, j, 0)[0] for j in range(1, TASK.parties))
    return total % TASK.modulus == value


def place_of(store):
    """Return the file of the only report of a store."""
    (place,) = store.glob("*.json")
    return place


def report_of(store):
    return ClientReport.from_json(place_of(store).read_text(), FIRST)


def test_a_report_is_kept_before_it_is_sent(tmp_path, parties, quiet):
    store = tmp_path / "reports"
    kept = []
    parties.before = lambda *_: kept.append(report_of(store))
    receipt = Client(TASK, SECRET, store=store).submit(1)
    assert (receipt.parties, receipt.again) == (TASK.parties, False)
    assert is_one_report(parties, 1)
    assert len(set(kept)) == 1
    assert parties.parts[0] == {(encoded(kept[0].id), kept[0].parts[0])}
    place = place_of(store)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    assert set(store.iterdir()) == {place, place.with_suffix(".sent")}
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]


def test_the_first_value_is_the_one(tmp_path, parties, quiet):
    store = tmp_path / "reports"
    assert not Client(TASK, SECRET, store=store).submit(1).again
    kept = place_of(store).read_bytes()
    for value in (0, 1, 99, float("nan")):
        assert Client(TASK, SECRET, store=str(store)).submit(value).again
    assert place_of(store).read_bytes() == kept
    assert is_one_report(parties, 1)


def test_without_a_store_the_object_remembers(parties, quiet):
    client = Client(TASK, SECRET)
    assert not client.submit(1).again
    assert client.submit(0).again
    assert is_one_report(parties, 1)


@pytest.mark.parametrize("received", [False, True])
@pytest.mark.parametrize("number", range(TASK.parties))
def test_a_crash_while_it_sends(tmp_path, parties, quiet, number, received):
    """Before or after each party has its part, with another value afterwards."""

    def crash(now, party):
        if now == number:
            if received:
                report = report_of(store)
                parties.parts.setdefault(party, set()).add(
                    (encoded(report.id), report.parts[party])
                )
            raise CrashError

    store = tmp_path / "reports"
    parties.before = crash
    with pytest.raises(CrashError):
        Client(TASK, SECRET, store=store).submit(1)
    assert len(parties.asked) == number + 1
    assert Client(TASK, SECRET, store=store).submit(0).again
    assert is_one_report(parties, 1)


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        ("reports.write_new", False),
        ("reports.os.link", False),
        ("reports.os.open", True),
        ("client._send", True),
    ],
)
def test_a_crash_while_it_is_kept(tmp_path, parties, monkeypatch, quiet, place, kept):
    """Before it is kept nothing was sent, and there may be another one; then there is none."""

    usual = os.open

    def crash(*arguments, **_):
        if place.endswith("open") and arguments[0] != store:  # the folder's alone
            return usual(*arguments)
        raise CrashError

    store = tmp_path / "reports"
    with monkeypatch.context() as patch:
        patch.setattr(f"ikos.deployment.{place}", crash)
        with pytest.raises(CrashError):
            Client(TASK, SECRET, store=store).submit(1)
    assert not parties.asked
    assert len(list(store.glob("*"))) == kept
    assert Client(TASK, SECRET, store=store).begun() is kept
    assert Client(TASK, SECRET, store=store).submit(0).again is kept
    assert is_one_report(parties, int(kept))


def at_once(works):
    with ThreadPoolExecutor(len(works)) as executor:
        return [future.result() for future in [executor.submit(work) for work in works]]


def test_two_programs_with_one_store_send_one_report(tmp_path, parties, monkeypatch, quiet):
    """Both have made a report before either keeps its own."""
    barrier = threading.Barrier(4, timeout=60)
    usual = os.link

    def link(*names):
        if names[1].suffix == ".json":
            barrier.wait()
        usual(*names)

    monkeypatch.setattr("ikos.deployment.reports.os.link", link)
    store = tmp_path / "reports"
    clients = [Client(TASK, SECRET, store=store) for _ in range(4)]
    receipts = at_once([lambda c=client: c.submit(1) for client in clients])
    assert sorted(receipt.again for receipt in receipts) == [False, True, True, True]
    assert is_one_report(parties, 1)
    assert len(parties.asked) == 4 * TASK.parties


# A store that is none


def damages():
    text = ClientReport.make(FIRST, 1).to_json(FIRST)
    other = small_task(40, 20, 4, nonce=bytes(16)).at(0)
    number = text.index('"id"') + 10
    return {
        "empty": "",
        "truncated": text[: len(text) // 2],
        "longer": text + text,
        "another task": ClientReport.make(other, 1).to_json(other),
        "an id": text[:number] + "!" + text[number + 1 :],
        "another id": text[:number] + ("A" if text[number] != "A" else "B") + text[number + 1 :],
        "no parts": '{"task": "x", "id": "y", "parts": 3}',
        "brackets": "[" * 100_000,
        "no text": "\xff\x00\xfe" * 100,
        "an object": "{}",
    }


@pytest.mark.parametrize("name", damages())
def test_a_damaged_store_is_refused_and_left(tmp_path, parties, name):
    store = tmp_path / "reports"
    ReportStore(store, FIRST).add(SECRET, ClientReport.make(FIRST, 1))
    place = place_of(store)
    data = damages()[name].encode("latin-1")
    place.write_bytes(data)
    with pytest.raises(ValueError, match=r"report|must be") as caught:
        Client(TASK, SECRET, store=store).submit(1)
    assert not parties.asked
    assert place.read_bytes() == data
    told = str(caught.value).replace(str(place), "")
    assert "store must hold reports" in told
    assert len(told) < 120  # nothing of it is quoted
    assert list(store.iterdir()) == [place]


def test_a_report_that_was_sent_and_is_gone_is_not_made_again(tmp_path, parties, quiet):
    store = tmp_path / "reports"
    Client(TASK, SECRET, store=store).submit(1)
    place_of(store).unlink()
    asked = len(parties.asked)
    with pytest.raises(ValueError, match=r"store must keep sent reports, but .* was deleted"):
        Client(TASK, SECRET, store=store).submit(1)
    with pytest.raises(ValueError, match="was deleted"):
        ReportStore(store, FIRST).add(SECRET, ClientReport.make(FIRST, 1))
    assert Client(TASK, SECRET, store=store).begun()
    assert submit_many(TASK, [SECRET], [0], store=store) == 1
    assert len(parties.asked) == asked
    assert not list(store.glob("*.json"))


def test_a_store_is_where_it_was_when_it_was_named(tmp_path, parties, quiet, monkeypatch):
    """Whatever the current folder is then."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    client = Client(TASK, SECRET, store="reports")
    monkeypatch.chdir(tmp_path / "other")
    client.submit(1)
    assert Client(TASK, SECRET, store=tmp_path / "reports").submit(0).again
    assert not list((tmp_path / "other").iterdir())
    with pytest.raises(ValueError, match="store must name a folder, got ''"):
        Client(TASK, SECRET, store="")


def test_nothing_is_sent_that_is_not_on_disk(tmp_path, parties, quiet, monkeypatch):
    """Names as well: of the folder that was made, and of the file in it."""
    store, synced, names = tmp_path / "reports", [], {}
    usual_open, usual_sync = os.open, os.fsync

    def opened(path, *rest, **more):
        number = usual_open(path, *rest, **more)
        names[number] = path
        return number

    def sync(number):
        synced.append(names.get(number))
        usual_sync(number)

    monkeypatch.setattr("ikos.deployment.reports.os.open", opened)
    monkeypatch.setattr("ikos.deployment.reports.os.fsync", sync)
    before = []
    parties.before = lambda *_: before.append(list(synced))
    Client(TASK, SECRET, store=store).submit(1)
    assert set(before[0]) >= {tmp_path, store}
    synced.clear()
    before.clear()
    Client(TASK, SECRET, store=store).submit(1)  # of an earlier program, which may have ended
    assert before[0] == [store, tmp_path]


def half(path, data, **_):
    path.write_bytes(data[: len(data) // 2])
    raise OSError(errno.EIO, "Input/output error")


def fails(*_):
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.points(3)
@pytest.mark.parametrize(
    ("call", "failing"), [("os.fsync", fails), ("os.link", fails), ("write_new", half)]
)
def test_a_disk_that_fails(tmp_path, parties, quiet, monkeypatch, call, failing):
    """A file that is half written is never the store."""
    store = tmp_path / "reports"
    with monkeypatch.context() as patch:
        patch.setattr(f"ikos.deployment.reports.{call}", failing)
        with pytest.raises(ValueError, match=r"written, got '.*': input/output error$"):
            Client(TASK, SECRET, store=store).submit(1)
    assert not parties.asked
    if failing is half:
        assert not list(store.iterdir())
        assert not Client(TASK, SECRET, store=store).submit(0).again
        assert is_one_report(parties, 0)


def test_a_client_without_a_store_is_for_one_process(parties, quiet, monkeypatch):
    client = Client(TASK, SECRET)
    monkeypatch.setattr("ikos.deployment.client.os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forked"):
        client.submit(1)
    assert not parties.asked


def test_alone_and_among_many_a_client_has_one_report(tmp_path, parties, quiet):
    """Whichever was first, also where it was broken off."""
    secrets, store = [SECRET, tokens.fresh()], tmp_path / "reports"

    def down(_, party):
        if party == 2:
            raise httpx.ConnectError("down")

    parties.before = down
    with pytest.raises(Unsent):
        Client(TASK, SECRET, store=store).submit(1, timeout=0)
    parties.before = lambda *_: None
    submit_many(TASK, secrets, [0, 0], store=store)
    assert total_of(parties) == 1
    assert Client(TASK, secrets[1], store=store).submit(1).again
    assert total_of(parties) == 1
    asked = len(parties.asked)
    alone = [tokens.fresh()]
    Client(TASK, *alone, store=store).submit(1)
    submit_many(TASK, alone, [0], store=store)
    assert len(parties.asked) == asked + TASK.parties  # and all parties have it
    assert total_of(parties) == 2


NAN, INF = float("nan"), float("inf")
REFUSED = [
    *(((value,), {}, "value must be ") for value in
      (-1, 2, 0.5, NAN, INF, "1", None, [1], Fraction(1, 3), 10**400)),
    *(((1,), {"timeout": timeout}, "timeout must be ") for timeout in (-1, NAN, 1e7)),
]  # fmt: skip


@pytest.mark.points(13)
@pytest.mark.parametrize(("value", "options", "said"), REFUSED)
def test_what_is_refused_is_not_kept(tmp_path, parties, value, options, said):
    client = Client(TASK, SECRET, store=tmp_path / "reports")
    with pytest.raises((TypeError, ValueError), match=f"^{said}"):
        client.submit(*value, **options)
    assert not parties.asked
    assert not list(tmp_path.iterdir())


@pytest.mark.points(7)
@pytest.mark.parametrize(
    ("secrets", "values", "said"),
    [
        (SECRET[:-1], None, "secret must be 32 bytes, got 31"),
        ("a" * 32, None, "secret must be bytes, got str"),
        ([SECRET] * 2, [1, 0, 1], "secrets must be one for each of 3, got 2"),
        ([SECRET] * 2, [1, 2], "x"),
        ([SECRET] * 2, [1, 1], "secrets must be different"),
        ([SECRET, SECRET[:-1]], [1, 1], r"secrets\[1\] must be 32 bytes, got 31"),
        (["secret"], [1], r"secrets\[0\] must be bytes, got str"),
    ],
)
def test_secrets(parties, secrets, values, said):
    with pytest.raises((TypeError, ValueError), match=said):
        submit_many(TASK, secrets, values) if values else Client(TASK, secrets)
    assert not parties.asked


def test_a_task_that_promises_less_than_agreed(parties):
    """What is proved counts, to the last digit."""
    delta = TASK.protocol.guarantee.delta
    for make in (
        lambda **most: Client(TASK, SECRET, **most),
        lambda **most: submit_many(TASK, [SECRET], [1], **most),
    ):
        for name, least in (("max_epsilon", 1.0), ("max_delta", delta)):
            with pytest.raises(ValueError, match=f"{name} must be at least the .* task guarantees"):
                make(**{name: math.nextafter(least, 0)})
            with pytest.raises(ValueError, match=r"guarantees, \S+, got") as refused:
                make(**{name: least / 2})
            told = str(refused.value).split("guarantees, ")[1].split(",")[0]
            assert least <= Fraction(told) <= Fraction(least) * 100001 / 100000
            for wrong in (-1, float("nan"), "1"):
                with pytest.raises((TypeError, ValueError), match=name):
                    make(**{name: wrong})
    assert not parties.asked
    Client(TASK, SECRET, max_epsilon=1, max_delta=delta).submit(1)


def test_a_client_cannot_be_copied():
    client = Client(TASK, SECRET)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(client)


# What parties answer


def problem(status, name="theName", detail="some words"):
    return httpx.Response(status, json={"type": f"urn:ikos:parties:{name}", "detail": detail})


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410])
@pytest.mark.parametrize("party", [0, 2])
def test_rejected(tmp_path, parties, status, party):
    parties.before = lambda _, now: problem(status) if now == party else None
    client = Client(TASK, SECRET, store=tmp_path / "reports")
    with pytest.raises(Rejected, match=r"rejects the report: some words \(theName\)") as caught:
        client.submit(1)
    assert (caught.value.party, caught.value.name) == (
        f"shuffler {party}" if party else "the analyzer", "theName",
    )  # fmt: skip
    assert parties.asked.count(party) == 1
    report = report_of(tmp_path / "reports")
    told = str(caught.value) + repr(caught.value)
    for secret in (SECRET, report.id, *report.parts[1:], tokens.for_party(SECRET, TASK, party)):
        assert encoded(secret) not in told


def test_words_of_a_party_command_no_terminal(parties):
    """They stand in logs, too."""
    parties.before = lambda *_: problem(400, "n\x1b[2J", "a\x9b31mword\x00 of \u202ethem")
    with pytest.raises(Rejected, match=r"a\?31mword\? of \?them \(n\?\[2J\)") as caught:
        Client(TASK, SECRET).submit(1)
    assert caught.value.name == "n?[2J"


class Endless(httpx.SyncByteStream):
    def __init__(self):
        self.given = 0

    def __iter__(self):
        while self.given < 1 << 26:
            self.given += 1 << 12
            yield bytes(1 << 12)


@pytest.mark.parametrize("status", [201, 400, 503])
def test_of_an_endless_answer_little_is_read(parties, quiet, status):
    endless = Endless()
    parties.before = lambda number, _: (
        httpx.Response(status, stream=endless) if number == 0 else None
    )
    client = Client(TASK, SECRET)
    if status == 400:
        with pytest.raises(Rejected, match=r"HTTP status 400 \(unknown\)"):
            client.submit(1)
    else:
        client.submit(1)
    assert endless.given <= (1 << 16) + (1 << 12)


@pytest.mark.parametrize("status", [200, 408, 429, 500, 502, 503, 504, 507])
def test_what_is_tried_again(parties, quiet, status):
    """A page is no receipt: a server between answers so while it is mended."""
    page = httpx.Response(200, content=b"<p>We are back soon.</p>")
    answer = page if status == 200 else problem(status)
    parties.before = lambda number, _: answer if number < 9 else None
    Client(TASK, SECRET).submit(1)
    assert is_one_report(parties, 1)
    assert len(parties.asked) == 9 + TASK.parties


@pytest.mark.parametrize(
    "error", [httpx.ConnectError, httpx.ReadTimeout, httpx.WriteError, httpx.RemoteProtocolError]
)
def test_a_party_that_is_down_and_comes_back(tmp_path, parties, quiet, error):
    """The others have the report meanwhile; it has the same one."""
    downs = []

    def down(_, party):
        if party == 2 and len(downs) < 5:
            downs.append(party)
            raise error("down")

    parties.before = down
    Client(TASK, SECRET, store=tmp_path / "reports").submit(1)
    assert is_one_report(parties, 1)
    assert [parties.asked.count(party) for party in range(5)] == [1, 1, 6, 1, 1]


def test_a_party_that_stays_down(tmp_path, parties, quiet):
    def down(_, party):
        if party == 2:
            raise httpx.ConnectError("down")

    parties.before = down
    store = tmp_path / "reports"
    for timeout in (0, 0.05):
        with pytest.raises(Unsent, match=r"4 of 5 parties .*; submit again to .*: shuffler 2"):
            Client(TASK, SECRET, store=store).submit(1, timeout=timeout)
    parties.before = lambda *_: None
    assert Client(TASK, SECRET, store=store).submit(0).again
    assert is_one_report(parties, 1)


def test_a_certificate_that_is_not_trusted_is_not_asked_again(tmp_path, parties):
    """It would be the same again; what the others have is kept."""

    def untrusted(_, party):
        if party == 2:
            error = ssl.SSLCertVerificationError(1, "no")
            error.verify_code, error.verify_message = 18, "self-signed certificate"
            raise httpx.ConnectError("no") from error

    parties.before = untrusted
    with pytest.raises(Unsent, match=r"^shuffler 2: its certificate cannot .* \(see --ca\): "):
        Client(TASK, SECRET, store=tmp_path / "reports").submit(1, timeout=1000)
    assert parties.asked.count(2) == 1


@pytest.mark.slow
def test_parties_are_asked_in_a_random_order(parties):
    """Each of 120 orders comes in 5,000 but with a probability of 120 * (119/120)^5000 < 1e-15."""
    report = ClientReport.make(FIRST, 1)
    orders = set()
    with httpx.Client(transport=parties) as http:
        for _ in range(5000):
            parties.asked.clear()
            until = time.monotonic() + 60
            module._send(http, FIRST, SECRET, report, until)
            orders.add(tuple(parties.asked))
            if len(orders) == 120:
                break
    assert orders == set(permutations(range(5)))


def test_sending_begins_at_a_time_that_says_nothing(parties, monkeypatch):
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.1)
    times = []
    parties.before = lambda *_: times.append(time.monotonic())
    begin = time.monotonic()
    Client(TASK, SECRET).submit(1)
    assert min(times) - begin >= 0.1


# Many clients


def test_many(parties, quiet):
    secrets = [tokens.fresh() for _ in range(20)]
    values = [1, 0] * 10
    steps = []
    done = submit_many(TASK, secrets, values, progress=lambda *now: steps.append(now))
    assert done == 20
    assert steps == [(k, 20) for k in range(1, 21)]
    assert [len(parties.parts[party]) for party in range(TASK.parties)] == [20] * TASK.parties
    assert len({name for received in parties.parts.values() for name, _ in received}) == 20


def total_of(parties):
    """Add up all shares; every party has one part of each of the same reports."""
    names = [sorted(name for name, _ in parties.parts[party]) for party in range(TASK.parties)]
    assert all(one == names[0] == sorted(set(one)) for one in names)
    total = sum(read_clear(part, TASK)[0] for _, part in parties.parts[0])
    for column in range(1, TASK.parties):
        total += sum(unseal(part, KEY, FIRST, column, 0)[0] for _, part in parties.parts[column])
    return total % TASK.modulus


@pytest.mark.parametrize("received", [False, True])
@pytest.mark.parametrize("number", [0, 1, 13, 27, 5 * 10 - 1])
def test_many_go_on_where_they_ended(tmp_path, parties, quiet, number, received):
    """With the same shares of those who were begun, whatever their values are now."""
    secrets, store = [tokens.fresh() for _ in range(10)], tmp_path / "reports"

    def crash(now, party):
        if now == number:
            if received:
                kept = next(
                    report
                    for report in map(read, store.glob("*.json"))
                    if (encoded(report.id), report.parts[party]) not in parties.parts.get(party, ())
                )
                parties.parts.setdefault(party, set()).add((encoded(kept.id), kept.parts[party]))
            raise CrashError

    def read(path):
        return ClientReport.from_json(path.read_text(), FIRST)

    parties.before = crash
    with pytest.raises(CrashError):
        submit_many(TASK, secrets, [1] * 10, store=store, connections=1)
    begun, sent = {path.stem for path in store.glob("*.json")}, list(store.glob("*.sent"))
    assert (len(begun), len(sent)) == (number // 5 + 1, number // 5)
    before = {path: path.read_bytes() for path in store.glob("*.json")}
    asked, steps = len(parties.asked), []
    parties.before = lambda *_: None
    done = submit_many(
        TASK, secrets, [0] * 10, store=store, progress=lambda *now: steps.append(now)
    )
    assert done == 10
    assert steps == [(k, 10) for k in range(max(1, len(sent)), 11)]
    assert len(parties.asked) - asked == 5 * (10 - len(sent))  # nothing of what all have
    assert total_of(parties) == len(begun)
    assert {path: path.read_bytes() for path in before} == before


def test_a_damaged_report_of_many_is_refused(tmp_path, parties):
    """Before anything is sent of the others."""
    secrets, store = [tokens.fresh() for _ in range(3)], tmp_path / "reports"
    parties.before = lambda *_: problem(410, "taskClosed")
    with pytest.raises(Rejected):
        submit_many(TASK, secrets, [1] * 3, store=store, connections=1)
    (path,) = store.iterdir()
    path.write_text("{}")
    asked = len(parties.asked)
    with pytest.raises(ValueError, match=rf"store must hold reports, got '.*{path.name}'"):
        submit_many(TASK, secrets, [1] * 3, store=store)
    assert len(parties.asked) == asked


@pytest.mark.parametrize("kept", [False, True])
def test_threads_with_one_client_send_one_report(tmp_path, parties, monkeypatch, quiet, kept):
    usual = ClientReport.make

    def make(task, value):
        time.sleep(0.02)
        return usual(task, value)

    monkeypatch.setattr(ClientReport, "make", staticmethod(make))
    client = Client(TASK, SECRET, store=tmp_path / "reports" if kept else None)
    receipts = at_once([lambda: client.submit(1)] * 4)
    assert sorted(receipt.again for receipt in receipts) == [False, True, True, True]
    assert is_one_report(parties, 1)


def test_a_report_that_is_gone_again_is_not_made_twice(tmp_path, parties, quiet):
    """Its place is taken by a link to nowhere."""
    store = tmp_path / "reports"
    ReportStore(store, FIRST).add(SECRET, ClientReport.make(FIRST, 1))
    place = place_of(store)
    place.unlink()
    place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="store must keep its files, but"):
        Client(TASK, SECRET, store=store).submit(1)
    assert not parties.asked


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200 + 4), httpx.Response(307, headers={"Location": "http://127.0.0.1:9003"}),
        httpx.Response(400, content=b"[" * 50_000), httpx.Response(404, content=b"\xff\xfe"),
        httpx.Response(418, json=[1]), httpx.Response(418, json={"type": 1}),
    ],
)  # fmt: skip
def test_odd_answers_are_no_receipts(parties, answer):
    parties.before = lambda *_: answer
    with pytest.raises(Rejected, match=rf"HTTP status {answer.status_code} \(unknown\)"):
        Client(TASK, SECRET).submit(1)
    assert len(parties.asked) == 1  # a redirection is not followed


@pytest.fixture(params=[errno.ENOTSUP, errno.EPERM, errno.EACCES])
def no_links(monkeypatch, request):
    """A file system that has no hard links."""

    def cannot(*_):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr("ikos.deployment.reports.os.link", cannot)


def test_a_file_system_without_hard_links(tmp_path, parties, quiet, no_links):
    """One report, also of programs at once: nothing is replaced."""
    barrier, usual = threading.Barrier(4, timeout=60), ReportStore.add

    def add(*arguments):
        barrier.wait()
        return usual(*arguments)

    store = tmp_path / "reports"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReportStore, "add", add)
        clients = [Client(TASK, SECRET, store=store) for _ in range(4)]
        with ThreadPoolExecutor(4) as executor:
            found = [executor.submit(client.submit, 1) for client in clients]
    # the others may have read one that was not whole yet
    assert all(isinstance(one.exception(), ValueError | NoneType) for one in found)
    assert [one.result().again for one in found if not one.exception()].count(False) == 1
    assert Client(TASK, SECRET, store=store).submit(0).again
    assert is_one_report(parties, 1)
    assert sorted(path.suffix for path in store.iterdir()) == [".json", ".sent"]


def test_a_crash_where_there_are_no_hard_links(tmp_path, parties, quiet, no_links, monkeypatch):
    """What it leaves may be what was sent, for all that anyone knows: there is no second report."""
    usual, store = write_new, tmp_path / "reports"

    def half(path, data, **how):
        if path.suffix != ".json":
            return usual(path, data, **how)
        usual(path, data[: len(data) // 2])
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr("ikos.deployment.reports.write_new", half)
        with pytest.raises(CrashError):
            Client(TASK, SECRET, store=store).submit(1)
    with pytest.raises(ValueError, match="store must hold reports"):
        Client(TASK, SECRET, store=store).submit(1)
    assert not parties.asked


def test_a_full_disk_where_there_are_no_hard_links(tmp_path, parties, quiet, no_links, monkeypatch):
    """What was never whole was never sent, and does not stay."""
    usual, store = write_new, tmp_path / "reports"

    def full(path, data, **how):
        if path.suffix != ".json":
            return usual(path, data, **how)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(data) // 2, limits[1]))
        try:
            return usual(path, data, **how)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    with monkeypatch.context() as patch:
        patch.setattr("ikos.deployment.reports.write_new", full)
        with pytest.raises(ValueError, match=r"read and written, got .*: file too large"):
            Client(TASK, SECRET, store=store).submit(1)
    assert not list(store.iterdir())
    assert not Client(TASK, SECRET, store=store).submit(0).again


def test_a_whole_file_stays_if_it_cannot_be_synced(tmp_path, monkeypatch):
    """Another program may have read it, and sent what it holds."""

    def fsync(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("ikos.deployment.party_files.os.fsync", fsync)
    with pytest.raises(OSError, match="Input"):
        write_new(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_a_file_system_without_syncs_of_folders(tmp_path, parties, quiet, monkeypatch):
    usual = os.fsync

    def of_files(number):
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(errno.ENOTSUP, "Operation not supported")
        usual(number)

    monkeypatch.setattr("ikos.deployment.reports.os.fsync", of_files)
    assert not Client(TASK, SECRET, store=tmp_path / "reports").submit(1).again
    assert is_one_report(parties, 1)
