"""Verified sums between parties: who lies is named, and the sum of all others is exact."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("coincurve")

from deployment_tasks import KEYS, SIGNERS
from deployment_world import World

from ikos import Box
from ikos.deployment import Task, store, verified
from ikos.deployment.analyzer import Stopped
from ikos.deployment.party_files import PartyConfig, write_party_files
from ikos.deployment.reports import ClientReport
from ikos.deployment.store import StoreError
from ikos.deployment.verified import added_openings
from ikos.deployment.wire import Problem, encoded
from ikos.primitives.randomness import secure
from ikos.sums.ledger import Ledger
from ikos.transports.base import Reports, Totals
from ikos.verified.certificate import verify
from ikos.verified.statements import ORDER

BOX = Box(2, -3, 20)
VALUES = [[-3, 20], [0, 1], [20, 20], [4, 4]]

pytestmark = pytest.mark.usefixtures("remembered")

PUBLIC = tuple(key.public_key().public_bytes_raw() for key in SIGNERS)
KEYS_OF = [*KEYS, type(KEYS[0])(bytes(range(3, 35)))]


@cache
def few(**options: object) -> Task:
    """Return a task of a few users, of two windows and relays."""
    now = datetime.now(UTC).replace(microsecond=0)
    options = {"min_honest": 3, "signing_keys": PUBLIC, **options}
    return Task.new(
        6, 8, 1e-3, domain=BOX, integers=True, transport="verified", kem=KEYS[0].kem, windows=2,
        analyzer="http://127.0.0.1:9000", public_keys=[key.public_bytes for key in KEYS_OF],
        shufflers=[f"http://127.0.0.1:{9001 + j}" for j in range(2)],
        opens=now - timedelta(minutes=30), closes=timedelta(hours=1), **options,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def known_keys(monkeypatch):
    """Let worlds have four keys."""
    monkeypatch.setattr("deployment_world.KEYS", KEYS_OF)


@pytest.fixture
def world(world_of):
    """All parties of a task, with noise."""
    return world_of(few())


# Reports, as the transport makes them


def made(window, value=(1, 1)):
    """Return a report before it is sealed, which liars change."""
    values = window.task.values([value])
    return window.task.transport.reports(window, values, secure(None))


def sealed(window, report):
    return ClientReport.of(window, report)


def openings(report):
    """Return each party's opening: the shares of all coordinates, and of the blinding factor."""
    rows = (part[-1][0].tobytes() for part in report.parts)
    return [[int.from_bytes(row[i : i + 32]) for i in range(0, len(row), 32)] for row in rows]


def estimate_of(task, reports):
    """Return the result for what the reports hold, noise included."""
    columns = zip(*itertools.chain(*map(openings, reports)), strict=True)
    sums = [sum(column) % ORDER for column in columns]
    return task.protocol.result(Totals(sums[:-1], len(reports))).estimate


def filled(world, window=0, values=VALUES):
    """Send honest reports; return them unsealed."""
    reports = [made(world.task.at(window), value) for value in values]
    world.send_all([sealed(world.task.at(window), report) for report in reports], window)
    return reports


def with_rows(report, party, place, row):
    """Return a report with other bytes for a party: the report (0) or its opening (-1)."""
    parts = [list(part) for part in report.parts]
    parts[party][place] = np.frombuffer(bytes(row), np.uint8).reshape(1, -1)
    return Reports(report.ids, tuple(map(tuple, parts)))


def opening_row(scalars):
    return b"".join(scalar.to_bytes(32) for scalar in scalars)


def public_of(report):
    return report.parts[0][0][0].tobytes()


def shifted(report, party, amount=1, coordinate=0):
    """Return a report with an opening of another value for a party."""
    scalars = openings(report)[party]
    scalars[coordinate] = (scalars[coordinate] + amount) % ORDER
    return with_rows(report, party, -1, opening_row(scalars))


def committed(world, report, party):
    """Return a report with the commitment that its opening for a party opens."""
    *values, blinding = openings(report)[party]
    proofs = added_openings(world.task).proofs(world.task.transport.context(world.task.at(0)))
    public = bytearray(public_of(report))
    public[33 * party : 33 * party + 33] = proofs.commit(values, blinding)
    return with_rows(report, 0, 0, public)


def flipped(report, place):
    public = bytearray(public_of(report))
    public[place] ^= 1
    return with_rows(report, 0, 0, public)


def exchanged(report):
    """Return a report with the commitments and openings of both relays in each other's place."""
    public = public_of(report)
    again = with_rows(report, 0, 0, public[:33] + public[66:99] + public[33:66] + public[99:])
    one, two = (openings(report)[party] for party in (1, 2))
    return with_rows(with_rows(again, 1, -1, opening_row(two)), 2, -1, opening_row(one))


def renamed(report, number):
    return Reports((number,), report.parts)


ELSEWHERE = {"corrupt_clients": 1}

LIES = {
    # what is wrong: the report, given the world and an honest one, and who names it
    "a value beyond the largest": (
        lambda world, one: committed(world, shifted(one, 0, 10**6), 0), 0),
    "a value below 0": (
        lambda world, one: committed(world, shifted(one, 2, -30, 1), 2), 0),
    "a value of one more, linked to another's proof": (
        lambda world, one: committed(world, shifted(one, 0, 1), 0), 0),
    "a proof with one bit changed": (lambda world, one: flipped(one, -1), 0),
    "a commitment that is another point": (
        lambda world, one: with_rows(one, 0, 0, public_of(made(world.task.at(0)))[:33]
                                     + public_of(one)[33:]), 0),
    "a commitment that is no point": (
        lambda world, one: with_rows(one, 0, 0, b"\2" + b"\xff" * 32 + public_of(one)[33:]), 0),
    "an opening that does not fit for the analyzer": (lambda world, one: shifted(one, 0), 0),
    "an opening that does not fit for relay 1": (lambda world, one: shifted(one, 1), 1),
    "a blinding factor that does not fit for relay 2": (
        lambda world, one: shifted(one, 2, 1, -1), 2),
    "openings that add up, each of another value": (
        lambda world, one: shifted(shifted(one, 1), 2, -1), 1),
    "relays' openings and commitments in each other's place": (
        lambda world, one: exchanged(one), 0),
    "a report of another window": (
        lambda world, one: made(world.task.at(1)), 0),
    "a report of another task": (
        lambda world, one: made(few(**ELSEWHERE).at(0)), 0),
    "a copy under another id": (
        lambda world, one: renamed(one, bytes(16)), 0),
}  # fmt: skip


# The sum


@pytest.mark.slow
def test_the_sum_is_that_of_complete_reports_in_each_window(world, date):
    """Openings without a report are left out, and so is a report without; so after restarts."""
    task = world.task
    for window in (0, 1):
        date.now = task.at(window).opens
        reports = filled(world, window)
        for client, parties in ((4, (0, 1)), (5, (1, 2))):
            extra = sealed(task.at(window), made(task.at(window)))
            assert set(world.send(client, extra, parties, window).values()) == {True}
        for party in range(task.parties):
            world.parties[party].end()
            world.start(party)
        result = world.party(0, window).release()
        assert (result.estimate, result.users) == (estimate_of(task, reports).tolist(), 4)
        assert {one.at(window).state for one in world.parties.values()} == {"released", "sent"}
        assert world.party(0, window).status().refused == 0
    assert world.party(0, 1).release() == result
    for party in world.parties.values():
        assert not any(party.at(1).count(table) for table in ("report", "opened", "complete"))


@pytest.mark.slow
def test_anyone_can_check_the_certificate(world, monkeypatch):
    """It is on the disk before the result, of the reports in the set alone, signed by all."""
    monkeypatch.setattr(verified, "SORTED_BYTES", 3000)  # a few reports
    window = world.task.at(0)
    reports, liar = filled(world), shifted(made(window), 1)
    world.send(4, sealed(window, liar))
    refused("notFound", world.analyzer.certificate)
    with monkeypatch.context() as patch:
        patch.setattr(world.analyzer, "_conclude", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.analyzer.release()
    path = world.folder / "analyzer" / "certificate-0"
    first = path.read_bytes()
    world.parties[0].end()
    world.start(0)
    result = world.analyzer.release()
    assert path.read_bytes() == first
    assert world.analyzer.certificate().path == path
    with path.open("rb") as file:
        checked = verify(file)
    assert checked.users == result.users == 4
    assert checked.keys == PUBLIC
    assert checked.window == window.bound
    assert checked.parameter_hash.hex() == world.task.parameters
    assert checked.estimates == result.estimate
    listed = [line.partition(b" ")[0].decode() for line in first.splitlines()[1:-1]]
    assert listed == sorted(report.ids[0].hex() for report in reports)


def test_a_certificate_that_cannot_be_written_is_no_result(world):
    """It is tried again, and the message does not quote what it would have held."""
    filled(world)
    part = world.folder / "analyzer" / "certificate-0.part"
    part.mkdir()
    with pytest.raises(OSError, match=r"^the certificate cannot be written: is a directory$"):
        world.analyzer.release()
    assert world.analyzer.result() is None
    part.rmdir()
    assert world.analyzer.release().users == 4


# Who lies


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_is_named_and_the_others_are_added_up(world, lie, caplog):
    window, (change, party) = world.task.at(0), LIES[lie]
    reports = filled(world)
    liar = change(world, made(window))
    assert set(world.send(4, sealed(window, liar)).values()) == {True}
    caplog.clear()
    result = world.analyzer.release()
    assert (result.estimate, result.users) == (estimate_of(world.task, reports).tolist(), 4)
    assert result.refused == 1
    assert "1 more refused" in result.text
    status, number = world.analyzer.status(), encoded(liar.ids[0])
    assert (status.refused, status.refusals) == (1, {number: party})
    lines = [record.getMessage() for record in caplog.records if number in record.getMessage()]
    assert {line.count(number) for line in lines} == {1}
    assert any(f"relay {party}" in line for line in lines) == bool(party)
    assert not any(
        str(scalar) in line for line in lines for scalar in itertools.chain(*openings(liar))
    )


@pytest.mark.slow
def test_all_liars_at_once_are_named(world_of):
    now = datetime.now(UTC).replace(microsecond=0)
    task = Task.new(
        24, 8, 1e-3, domain=BOX, integers=True, transport="verified", kem=KEYS[0].kem, min_honest=3,
        analyzer="http://127.0.0.1:9000", public_keys=[key.public_bytes for key in KEYS_OF[:2]],
        shufflers=[f"http://127.0.0.1:{9001 + j}" for j in range(2)], signing_keys=PUBLIC,
        opens=now - timedelta(minutes=30),
    )  # fmt: skip
    world = world_of(task)
    window, named = task.at(0), {}
    reports = filled(world)
    lies = {name: lie for name, lie in LIES.items() if "another window" not in name}
    for client, (change, party) in enumerate(lies.values(), 4):
        liar = change(world, made(window))
        assert set(world.send(client, sealed(window, liar)).values()) == {True}
        named[encoded(liar.ids[0])] = party
    result = world.analyzer.release()
    assert world.analyzer.status().refusals == named
    assert result.estimate == estimate_of(task, reports).tolist()


def test_too_few_that_are_valid_stop_the_release(world):
    filled(world, values=VALUES[:2])
    for client in (2, 3):
        world.send(client, sealed(world.task.at(0), shifted(made(world.task.at(0)), client - 1)))
    with pytest.raises(Stopped, match=r"2 reports are complete, .* than 3; 2 were refused"):
        world.analyzer.release()
    assert sorted(world.analyzer.status().refusals.values()) == [1, 2]
    assert {one.state for one in world.shufflers.values()} == {"deleted"}


def test_what_is_no_report_is_refused_when_it_comes(world):
    """Points that are none, scalars that are not below the order; the client is told."""
    window, terms = world.task.at(0), world.task.transport
    report = made(window)
    part = bytearray(sealed(window, report).parts[0])
    points = 33 * (3 + 3)
    for place, byte in ((0, 4), (0, 0), (33, 7), (points - 33, 1)):
        wrong = part[:place] + bytes([byte]) + part[place + 1 :]
        with pytest.raises(ValueError, match="must hold points, and scalars"):
            world.analyzer.stored(report.ids[0], bytes(wrong))
    for place in (points, len(part) - 32):
        wrong = part[:place] + ORDER.to_bytes(32) + part[place + 32 :]
        with pytest.raises(ValueError, match="scalars below their order"):
            world.analyzer.stored(report.ids[0], bytes(wrong))
    part, other = sealed(window, report).parts[1], made(window)
    for number, party in ((other.ids[0], 1), (report.ids[0], 2)):
        with pytest.raises(ValueError, match="must be encrypted to this relay, for this window"):
            world.shufflers[party].stored(number, part)
    assert terms.info(window, 1, report.ids[0]).startswith(b"ikos-parties 3 opening")


# Relays


@pytest.mark.parametrize("place", range(3))
def test_a_relay_that_lies_about_its_sum_is_named(world, place, monkeypatch):
    """Whatever it shifts; and nothing is released, now or later."""
    filled(world)
    one = world.shufflers[2]
    usual = one.sum

    def lie():
        data = bytearray(usual())
        data[32 * place + 31] ^= 1
        return bytes(data)

    monkeypatch.setattr(one, "sum", lie)
    words = "relay 2 released a sum that does not open its commitments; nothing is released"
    with pytest.raises(Stopped, match=words):
        world.analyzer.release()
    world.start(0)
    with pytest.raises(Stopped, match=words):
        world.analyzer.release()
    assert world.analyzer.state == "stopped"
    assert not list(world.folder.glob("analyzer/certificate*"))
    assert not any(one.count(table) for one in world.shufflers.values() for table in store.TABLES)


def test_a_sum_beyond_the_order_is_a_lie(world, monkeypatch):
    filled(world)
    one = world.shufflers[1]
    usual = one.sum

    def lie():
        data = usual()
        return ((int.from_bytes(data[:32]) + ORDER) % 2**256).to_bytes(32) + data[32:]

    monkeypatch.setattr(one, "sum", lie)
    with pytest.raises(Stopped, match="relay 1 released a sum that does not open"):
        world.analyzer.release()


def test_a_relay_that_does_not_sign_the_set_is_named(world, monkeypatch):
    """As with the key of another, or for other reports."""
    filled(world)
    one = world.shufflers[2]
    monkeypatch.setattr(one.config.__class__, "signing", SIGNERS[0], raising=False)
    object.__setattr__(one.config, "signing", SIGNERS[1])
    with pytest.raises(Stopped, match="relay 2 has not signed the set of reports; nothing is"):
        world.analyzer.release()


@pytest.mark.slow
def test_a_release_that_a_relay_stopped_is_in_the_ledger(world_of, tmp_path, monkeypatch):
    """It was entered before sums were asked for: who altered them may know the sum."""
    ledger = Ledger.new(tmp_path / "ledger", 16, 0.1)
    world = world_of(few(), ledger=tmp_path / "ledger")
    filled(world)
    monkeypatch.setattr(world.shufflers[1], "sum", lambda: bytes(160))
    with pytest.raises(Stopped, match="relay 1"):
        world.analyzer.release()
    assert [entry.key for entry in ledger.entries] == [world.task.at(0).path]


@pytest.mark.parametrize(
    "answer", [bytes(15), bytes(16), bytes(32)], ids=["cut", "of nobody", "twice"]
)
def test_a_relay_that_refuses_what_it_was_not_asked_about_is_named(world, answer, monkeypatch):
    filled(world)
    monkeypatch.setattr(world.shufflers[1], "examine", lambda _: answer)
    with pytest.raises(Stopped, match="relay 1, refused reports: ids must be"):
        world.analyzer.release()


def test_a_relay_can_shut_a_user_out_but_not_unseen(world, monkeypatch):
    """It is the one that names the user."""
    reports = filled(world)
    one = world.shufflers[2]
    usual, (victim, *others) = one.examine, reports
    monkeypatch.setattr(one, "examine", lambda receipts: usual(receipts) + victim.ids[0])
    assert world.analyzer.release().estimate == estimate_of(world.task, others).tolist()
    assert world.analyzer.status().refusals == {encoded(victim.ids[0]): 2}


# One set


def receipts_of(world, reports):
    terms, window = world.task.transport, world.task.at(0)
    pairs = [(report.ids[0], sealed(window, report).parts[0]) for report in reports]
    return dict(terms.receipts(window, pairs))


def handed(receipts):
    return b"".join(number + receipts[number] for number in sorted(receipts))


def refused(name, work, *arguments):
    with pytest.raises(Problem) as caught:
        b"".join(work(*arguments))
    assert caught.value.name == name


def test_a_relay_releases_one_set_of_reports_that_fit(world):
    """Not one that it refused, that it was not handed, or that nobody handed it at all."""
    honest = filled(world)
    liar = shifted(made(world.task.at(0)), 1)
    unknown = made(world.task.at(0))
    world.send(4, sealed(world.task.at(0), liar))
    world.send(5, sealed(world.task.at(0), unknown))
    world.analyzer.close_all()
    ids = sorted(report.ids[0] for report in honest)
    one, two = world.shufflers.values()
    refused("batchRejected", one.agree, b"".join(ids))
    receipts = receipts_of(world, [*honest, liar])
    assert one.examine(handed(receipts)) == liar.ids[0]
    assert two.examine(handed(receipts)) == b""
    for wrong in ([*ids, liar.ids[0]], [*ids, unknown.ids[0]], ids[1:2]):
        refused("batchRejected", one.agree, b"".join(sorted(wrong)))
    for relay in (one, two):
        relay.agree(b"".join(ids))
        refused("batchRejected", relay.agree, b"".join(ids[1:]))
        refused("batchRejected", relay.examine, handed(receipts))
    first = b"".join(one.batch())
    world.parties[1].end()
    world.start(1)
    refused("batchRejected", world.shufflers[1].agree, b"".join(ids[1:]))
    assert b"".join(world.shufflers[1].batch()) == first
    columns = zip(*(openings(report)[1] for report in honest), strict=True)
    assert first[:-64] == opening_row(sum(column) % ORDER for column in columns)


def test_relays_that_were_shown_different_sets_release_nothing(world):
    reports = filled(world)
    world.analyzer.close_all()
    receipts, ids = receipts_of(world, reports), sorted(report.ids[0] for report in reports)
    for one, some in zip(world.shufflers.values(), (ids, ids[1:]), strict=True):
        one.examine(handed(receipts))
        one.agree(b"".join(some))
    for one in world.shufflers.values():
        refused("notAgreed", one.batch)
        assert one.count("report") == 4


def test_receipts_that_no_relay_keeps(world):
    """Cut, out of order, twice, or of reports that are not here; and none before the end."""
    reports = filled(world)
    one, receipts = world.shufflers[1], receipts_of(world, reports)
    good = handed(receipts)
    refused("taskOpen", one.examine, good)
    world.analyzer.close_all()
    size = len(good) // 4
    for wrong in (
        good[:-1], good[size:] + good[:size], good[:size] + good,
        good[:16] + bytes(size - 16) + good, b"\xff" * 16 + bytes(size - 16),
    ):  # fmt: skip
        refused("batchRejected", one.examine, wrong)
    assert one.examine(good) == b""
    assert one.examine(good[size:]) == b""  # others, while nothing is agreed
    refused("batchRejected", one.agree, b"".join(sorted(receipts)))
    one.agree(b"".join(sorted(receipts)[1:]))


def test_a_scalar_that_is_not_below_the_order_does_not_fit(world):
    """Though the commitment is the same modulo the order: there is one encoding of each."""
    honest, report = filled(world), made(world.task.at(0))
    _, *rest = openings(report)[1]
    proofs = added_openings(world.task).proofs(b"")
    *values, blinding = 5, *rest
    receipts = receipts_of(world, honest)
    receipts[report.ids[0]] = bytes(33) + proofs.commit(values, blinding) + bytes(33 + 32)
    liar = with_rows(report, 1, -1, opening_row([5 + ORDER, *rest]))
    world.send(4, sealed(world.task.at(0), liar), [1])
    world.analyzer.close_all()
    assert world.shufflers[1].examine(handed(receipts)) == report.ids[0]


def test_a_commitment_that_is_no_point_is_refused_by_its_relay(world):
    reports = filled(world)
    world.analyzer.close_all()
    receipts = receipts_of(world, reports)
    number = sorted(receipts)[1]
    receipts[number] = receipts[number][:33] + bytes(33) + receipts[number][66:]
    assert world.shufflers[1].examine(handed(receipts)) == number
    assert world.shufflers[2].examine(handed(receipts)) == b""


# What stays


def test_openings_are_hidden_on_the_disk_and_gone_before_the_sum_is_sent(world, monkeypatch):
    monkeypatch.setattr(store, "SHRINK_SECONDS", 0)
    reports = filled(world)
    left_out = made(world.task.at(0))
    world.send(4, sealed(world.task.at(0), left_out), [1])
    folder, one = world.folder / "relay-1", world.shufflers[1]

    def on_disk():
        return b"".join(path.read_bytes() for path in folder.glob("store*"))

    kept = [part for _, _, part in one.intake.reports()]
    assert all(part in on_disk() for part in kept)
    for report in (*reports, left_out):
        clear = opening_row(openings(report)[1])
        assert not any(clear[i : i + 16] in on_disk() for i in range(0, len(clear), 16))
    world.analyzer.close_all()
    receipts = receipts_of(world, reports)
    for relay in world.shufflers.values():
        relay.examine(handed(receipts))
        relay.agree(b"".join(sorted(receipts)))
    with one.store.read() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM report").fetchall()
        with pytest.raises(StoreError, match="a reader holds the store"):
            one.batch()
        assert not one.count("report")
    first = b"".join(one.batch())
    assert first == b"".join(one.batch())
    assert not any(part in on_disk() for part in kept)
    one.forget()
    refused("batchGone", one.batch)


@pytest.mark.slow
def test_a_connection_that_breaks_anywhere(tmp_path):
    """At every call of a release in turn, before it and after it was done, and a restart."""
    base = World(few(), tmp_path)
    reports = filled(base)
    liar = shifted(made(base.task.at(0)), 2)
    base.send(4, sealed(base.task.at(0), liar))
    base.stop()
    total = estimate_of(base.task, reports).tolist()
    for number in itertools.count():
        broke = False
        for after in (False, True):
            world = World(base.task, tmp_path / "again", base)
            world.faults.plan((number, after))
            try:
                result = world.analyzer.release()
            except OSError:
                world.start(number % world.task.parties)
                result = world.analyzer.release()
                broke = True
            assert (result.estimate, result.users, result.refused) == (total, 4, 1)
            assert world.analyzer.status().refusals == {encoded(liar.ids[0]): 2}
            world.stop()
            shutil.rmtree(tmp_path / "again")
        if not broke:
            break
    assert number == 6 * 2 + 2  # closing, ids, receipts, sets, sums, forgotten; and each peer


# Keys that sign


def test_each_party_has_its_signing_key(tmp_path):
    task = few()
    text = json.loads(task.to_json())
    assert text["transport"] == {
        "kind": "verified", "relays": 2, "signing_keys": list(map(encoded, PUBLIC)),
    }  # fmt: skip
    assert Task.from_json(task.to_json()) == task
    write_party_files(task, KEYS_OF, tmp_path / "task", signing=SIGNERS)
    for name, key in zip(("analyzer", "relay-1", "relay-2"), SIGNERS, strict=True):
        config = PartyConfig.read(tmp_path / "task" / name)
        assert config.signing.private_bytes_raw() == key.private_bytes_raw()
    shutil.copy(tmp_path / "task/relay-2/signing-key", tmp_path / "task/relay-1/signing-key")
    with pytest.raises(ValueError, match=r"the signing key in .* must be that of the task"):
        PartyConfig.read(tmp_path / "task" / "relay-1")


def test_a_party_without_the_extra_does_not_start(tmp_path, monkeypatch):
    """A relay needs it for a release alone, when all clients have reported."""
    write_party_files(few(), KEYS_OF, tmp_path / "task", signing=SIGNERS)
    monkeypatch.setitem(sys.modules, "coincurve", None)
    monkeypatch.delitem(sys.modules, "ikos.verified.group")
    monkeypatch.delattr("ikos.verified.group")
    for name in ("analyzer", "relay-1"):
        with pytest.raises(ImportError, match=r"ikos\[verified\]"):
            PartyConfig.read(tmp_path / "task" / name)


@pytest.mark.parametrize("keys", [PUBLIC[:2], (*PUBLIC[:2], PUBLIC[0]), (*PUBLIC[:2], b"short")])
def test_a_task_without_a_key_for_each_party_is_refused(keys):
    with pytest.raises(ValueError, match="signing_keys must be 3 different ones of 32 bytes"):
        few(signing_keys=keys)


def test_other_tasks_have_no_such_keys(tmp_path):
    with pytest.raises(ValueError, match="signing_keys must not be given with helpers"):
        Task.new(6, 8, 1e-3, transport="helpers", signing_keys=PUBLIC)
    with pytest.raises(ValueError, match="signing must be the private keys of the task's signing"):
        write_party_files(few(), KEYS_OF, tmp_path / "task")
