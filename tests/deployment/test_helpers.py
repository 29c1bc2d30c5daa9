"""Sums with helpers between parties: one sum of one set, whoever lies, restarts or is restored."""

from __future__ import annotations

import json
import shutil
import threading
import time
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pytest

pytest.importorskip("starlette")

from deployment_helpers import opened, seed_of, unpacked, vector_of
from deployment_tasks import KEYS
from deployment_world import World

from ikos import Box, Categories
from ikos.deployment import Task, adder, helper, helpers, store, tokens
from ikos.deployment.analyzer import Stopped
from ikos.deployment.helper import HelperEndpoint
from ikos.deployment.helpers import added_shares
from ikos.deployment.opening import KEMS, public_key, suite
from ikos.deployment.packed import add_packed, packed
from ikos.deployment.party_files import KeyFile
from ikos.deployment.reports import ClientReport
from ikos.deployment.store import StoreError
from ikos.deployment.task import BatchTooLarge
from ikos.deployment.wire import Problem
from ikos.results.conditions import Kind
from ikos.transports.helpers import AddedShares

BOX = Box(5, -5, 250)
VECTORS = [[-5, 250, 7, 1, 9], [0, 1, 2, 3, 4], [3, 3, 250, 8, -5], [1, 1, 1, 1, 1]]
EXACT = np.sum(VECTORS, axis=0).tolist()

pytestmark = pytest.mark.usefixtures("remembered")


@cache
def few(noise: str = "users", keys: int = 2, **options: object) -> Task:
    """Return a task of a few users, of two windows and helpers, each with some keys."""
    now = datetime.now(UTC).replace(microsecond=0)
    public = [key.public_bytes for key in KEYS_OF[: 2 * keys]]
    return Task.new(
        6, 8, 1e-3, domain=BOX, integers=True, transport="helpers", noise=noise, min_honest=3,
        analyzer="http://127.0.0.1:9000", public_keys=public, kem=KEYS[0].kem, windows=2,
        shufflers=[f"http://127.0.0.1:{9001 + j}" for j in range(2)],
        opens=now - timedelta(minutes=30), closes=timedelta(hours=1), **options,
    )  # fmt: skip


KEYS_OF = [*KEYS, type(KEYS[0])(bytes(range(3, 35)))]


@pytest.fixture(autouse=True)
def known_keys(monkeypatch):
    """Let worlds have four keys."""
    monkeypatch.setattr("deployment_world.KEYS", KEYS_OF)
    monkeypatch.setattr(helpers, "SETTLE_SECONDS", 0.0)


@pytest.fixture
def world(world_of):
    return world_of(few())


@pytest.fixture
def noisy(tmp_path):
    """All parties of a task whose parties add noise, and a folder for copies of them."""
    (tmp_path / "noisy").mkdir()
    world = World(few("parties"), tmp_path / "noisy")
    yield world
    world.stop()


def filled(world, window=0, vectors=VECTORS):
    reports = [world.report(vector, window) for vector in vectors]
    world.send_all(reports, window)
    return reports


def restarted(world):
    for party in range(world.task.parties):
        world.parties[party].end()
        world.start(party)


def agreed(world, reports, parties=(1, 2)):
    """Close the first window, and let helpers agree to some reports; return the ids."""
    world.analyzer.close_all()
    ids = b"".join(sorted(report.id for report in reports))
    for party in parties:
        world.shufflers[party].agree(ids)
    return ids


def refused(name, work, *arguments):
    with pytest.raises(Problem) as caught:
        b"".join(work(*arguments))
    assert caught.value.name == name


def keys_of(window):
    """Return the private key of each helper for a window."""
    return KEYS_OF[2 * window.key :][:2]


def seed(world, report, party=1):
    return seed_of(world.task.at(0), report, party, KEYS_OF[party - 1])


def released(endpoint):
    return unpacked(b"".join(endpoint.batch()), endpoint.task)


def sum_of(world, reports, party):
    """Return what the seeds of reports add up to, without noise."""
    window = world.task.at(0)
    vectors = (vector_of(window, seed(world, one, party), one, party) for one in reports)
    return sum(vectors) % world.task.modulus


# The sum


@pytest.mark.parametrize("noise", ["users", "parties"])
def test_the_sum_is_that_of_complete_reports_in_each_window(world_of, date, noise):
    """Seeds without a vector are left out, and so is a vector without a seed; so after restarts."""
    task = few(noise)
    world = world_of(task)
    for window in (0, 1):
        date.now = task.at(window).opens
        filled(world, window)
        for client, parties in ((4, (0, 1)), (5, (1, 2))):
            sent = world.send(client, world.report([250] * 5, window), parties, window)
            assert set(sent.values()) == {True}
        restarted(world)
        result = world.party(0, window).release()
        assert (result.estimate, result.users) == (EXACT, 4)
        assert {one.at(window).state for one in world.parties.values()} == {"released", "sent"}
    assert world.party(0, 1).release() == result
    for party in world.parties.values():
        assert not any(party.at(1).count(table) for table in ("report", "opened", "complete"))


def test_what_is_added_up_as_it_comes_is_what_is_on_disk(world):
    """Also of a report that is left out in the end, and of one that came before a restart."""
    reports = [world.report(vector) for vector in VECTORS]
    for client, report in enumerate(reports[:2]):
        world.send(client, report)
    world.start(1)
    for client, report in enumerate([*reports[2:], world.report([9] * 5)], 2):
        world.send(client, report)
    assert [len(one._ahead[1]) for one in world.shufflers.values()] == [3, 5]
    agreed(world, reports)
    for party, one in world.shufflers.items():
        assert (released(one) == sum_of(world, reports, party)).all()


def test_long_vectors_are_added_up_by_threads(tmp_path, monkeypatch, quiet):
    monkeypatch.setattr(helpers, "cores", lambda: 3)
    monkeypatch.setattr(helpers, "ENTRIES_AT_ONCE", 1)
    box = Box(helpers.LONG_VECTOR, 0, 3)
    now = datetime.now(UTC)
    task = Task.new(
        9, 8, 1e-3, domain=box, integers=True, transport="helpers", min_honest=3,
        analyzer="http://127.0.0.1:9000", shufflers=["http://127.0.0.1:9001"],
        public_keys=[KEYS[0].public_bytes], kem=KEYS[0].kem, opens=now,
    )  # fmt: skip
    world = World(task, tmp_path)
    vectors = [(np.arange(box.dimension) + client) % 4 for client in range(9)]
    filled(world, vectors=vectors)
    assert world.shufflers[1]._ahead is None
    assert world.analyzer.release().estimate == np.sum(vectors, axis=0).tolist()
    world.stop()


# What a helper takes


def test_an_envelope_of_another_place_is_refused_when_it_comes(world, date):
    """Of another id, helper, window or task, or a changed one: planted envelopes cannot count."""
    report, other = world.report(VECTORS[0]), world.report(VECTORS[1])
    later, elsewhere = world.report(VECTORS[0], 1), few(corrupt_clients=1)
    foreign = ClientReport.make(elsewhere.at(0), VECTORS[0])
    one, words = world.shufflers[1], "must be encrypted to this helper, for this window and report"
    date.now = world.task.opens
    for number, part in (
        (other.id, report.parts[1]),
        (report.id, report.parts[2]),
        (later.id, later.parts[1]),
        (foreign.id, foreign.parts[1]),
        (report.id, report.parts[1][:-1] + bytes([report.parts[1][-1] ^ 1])),
        (report.id, report.parts[1][:-1]),
    ):
        with pytest.raises(ValueError, match=words):
            one.stored(number, part)
    assert one.stored(report.id, report.parts[1])
    info = world.task.transport.info(world.task.at(0), 1, report.id)
    sealed = suite(KEYS[0].kem).encrypt(
        bytes(32), public_key(KEYS[0].public_bytes, KEYS[0].kem), info
    )
    assert one.stored(report.id, bytes(sealed))  # anybody can make one for a new report


def test_a_report_that_is_sent_again_counts_once_and_another_under_its_id_never(world):
    report, envelope = world.report(VECTORS[0]), suite(KEYS[0].kem)
    assert set(world.send(0, report).values()) == {True}
    world.start(1)
    key, info = (
        public_key(KEYS[0].public_bytes, KEYS[0].kem),
        world.task.transport.info(world.task.at(0), 1, report.id),
    )
    again, other = (
        bytes(envelope.encrypt(one, key, info)) for one in (seed(world, report), bytes(32))
    )
    for client, part, told in (
        (0, report.parts[1], False), (0, again, False), (0, other, "reportRejected"),
        (1, report.parts[1], "reportRejected"), (1, other, "reportRejected"),
    ):  # fmt: skip
        assert world.send(client, ClientReport(report.id, (b"", part, b"")), [1]) == {1: told}
    assert world.shufflers[1].reports() == 1


def test_a_vector_with_bits_beyond_its_last_element_is_refused(world):
    part = world.report(VECTORS[0]).parts[0]
    bits = 5 * (world.task.modulus.bit_length() - 1)
    assert bits % 8
    assert world.analyzer.stored(bytes(16), part) == part
    wrong = part[:-1] + bytes([part[-1] | 1 << bits % 8])
    with pytest.raises(ValueError, match="after a vector's last element must be 0"):
        world.analyzer.stored(bytes(16), wrong)


def test_a_late_report_is_refused_when_its_key_is_erased(world, date):
    """Even by a clock that was set back: its envelope cannot be opened any more."""
    filled(world)
    world.analyzer.release()
    world.parties[1].expire(datetime.now(UTC))
    refused("taskClosed", world.shufflers[1].stored, bytes(16), bytes(1168))


def test_a_key_that_is_erased_while_it_is_read_does_not_stay_in_memory(world, monkeypatch):
    keys, read = world.parties[1].config.keys, KeyFile.read
    erasing = threading.Thread(target=keys.erase, args=(0,))

    def slowly(self, number):
        key = read(self, number)
        erasing.start()
        erasing.join(0.05)
        return key

    monkeypatch.setattr(KeyFile, "read", slowly)
    assert keys.hold(0).raw == KEYS[0].raw
    erasing.join()
    assert not keys._held


def test_seeds_are_not_on_the_disk_as_they_are(world):
    reports = filled(world)
    on_disk = b"".join(path.read_bytes() for path in world.folder.glob("helper-1/store*"))
    for report in reports:
        clear = seed(world, report)
        stored = world.shufflers[1].stored(report.id, report.parts[1])
        assert len(stored) == 32
        assert stored in on_disk
        assert not any(part in on_disk for part in (clear[:16], clear[16:], report.parts[1][:32]))


# One set


def test_a_second_set_is_refused_after_a_restart_too(world):
    """Two sums that differ by one user would reveal that user's vector."""
    reports = filled(world)
    ids = agreed(world, reports)
    smaller = ids[16:]
    first = released(world.shufflers[1])
    for _ in range(2):
        refused("batchRejected", world.shufflers[1].agree, smaller)
        assert (released(world.shufflers[1]) == first).all()
        world.parties[1].end()
        world.start(1)
    world.shufflers[1].agree(ids)
    world.shufflers[1].forget()
    refused("batchRejected", world.shufflers[1].agree, smaller)
    refused("batchGone", world.shufflers[1].batch)


def test_sets_that_no_helper_agrees_to(world):
    """An id twice, out of order, unknown, or too few; and nothing is agreed after that."""
    reports = filled(world)
    world.analyzer.close_all()
    one, ids = world.shufflers[1], sorted(report.id for report in reports)
    for wrong in (
        [*ids, ids[-1]], [ids[0], ids[0], *ids[1:]], ids[::-1], ids[:2], [*ids[:-1], b"\xff" * 16],
    ):  # fmt: skip
        refused("batchRejected", one.agree, b"".join(wrong))
    refused("batchRejected", one.agree, b"".join(ids)[:-1])
    assert one.agreement() is None
    refused("notAgreed", one.batch)


def test_helpers_that_were_shown_different_sets_release_nothing(world):
    reports = filled(world)
    agreed(world, reports, [1])
    refused("notAgreed", world.shufflers[1].batch)  # the other has agreed to none
    agreed(world, reports[1:], [2])
    for one in world.shufflers.values():
        refused("notAgreed", one.batch)
        assert one.count("report") == 4


def noise_of(endpoint, world, reports):
    q = world.task.modulus
    found = (released(endpoint) - sum_of(world, reports, endpoint.config.party)) % q
    return ((found + q // 2) % q - q // 2).tolist()


def test_a_restored_helper_answers_one_set_with_one_noise_and_another_with_another(noisy, tmp_path):
    """So the difference of two answers is not a user's vector."""
    reports = filled(noisy)
    noisy.analyzer.close_all()
    noisy.parties[1].end()
    saved = noisy.folder / "helper-1"
    shutil.copytree(saved, tmp_path / "saved")
    noises = []
    for chosen in (reports, reports, reports[1:]):
        shutil.rmtree(saved)
        shutil.copytree(tmp_path / "saved", saved)
        noisy.start(1)
        ids = agreed(noisy, chosen, [1])
        one = noisy.shufflers[1]
        one._ask = lambda _, one=one: one.agreement()  # the other helper lies as is needed
        noises.append(noise_of(one, noisy, chosen))
        assert len(ids) == 16 * len(chosen)
        noisy.parties[1].end()
    noisy.start(1)
    assert noises[0] == noises[1]
    assert sum(a == b for a, b in zip(noises[0], noises[2], strict=True)) < 5
    assert any(noises[0])


def test_a_restored_helper_that_was_sent_another_seed_has_another_noise(noisy, tmp_path):
    """A report under the id of another: the difference of two answers is not that one's vector."""
    reports = [noisy.report(vector) for vector in VECTORS]
    noisy.send_all(reports[:2])
    noisy.parties[1].end()
    shutil.copytree(noisy.folder / "helper-1", tmp_path / "saved")
    noisy.start(1)
    sealed = suite(KEYS[0].kem).encrypt(
        bytes(32),
        public_key(KEYS[0].public_bytes, KEYS[0].kem),
        noisy.task.transport.info(noisy.task.at(0), 1, reports[3].id),
    )
    planted = ClientReport(reports[3].id, (b"", bytes(sealed), b""))
    noises = []
    for last in ({2: reports[2], 3: reports[3]}, {3: reports[3], 2: reports[2]},
                 {2: reports[2], 4: planted}):  # fmt: skip
        for client, report in last.items():
            assert noisy.send(client, report, [1]) == {1: True}
        agreed(noisy, reports, [1])
        one = noisy.shufflers[1]
        one._ask = lambda _, one=one: one.agreement()
        noises.append(noise_of(one, noisy, [*reports[:2], *last.values()]))
        noisy.parties[1].end()
        shutil.rmtree(noisy.folder / "helper-1")
        shutil.copytree(tmp_path / "saved", noisy.folder / "helper-1")
        noisy.start(1)
    assert noises[0] == noises[1]
    assert sum(a == b for a, b in zip(*noises[1:], strict=True)) < 5


def test_each_helper_window_and_set_has_its_own_noise(tmp_path):
    """Windows of one key too."""
    world = World(few("parties", keys=1), tmp_path)
    sources = [
        world.party(party, window).derived(purpose)
        for party in (1, 2)
        for window in (0, 1)
        for purpose in (b"store", b"noise" + bytes(32), b"noise" + bytes(31) + b"1")
    ]
    assert len(set(sources)) == len(sources)
    world.stop()


def test_the_analyzer_and_each_helper_add_noise(noisy):
    """The result less the helpers' noises is the analyzer's, which it keeps nowhere."""
    reports = filled(noisy)
    for one in noisy.shufflers.values():
        one.forget = lambda: None
    found = np.array(noisy.analyzer.release().estimate) - EXACT
    noises = [noise_of(one, noisy, reports) for one in noisy.shufflers.values()]
    noises.append((found - np.sum(noises, axis=0)).tolist())
    assert all(map(any, noises))
    assert np.abs(noises).max() < 40 * noisy.task.protocol.noise.deviation


# What stays


def test_seeds_are_gone_before_the_sum_is_sent(world, monkeypatch):
    """Of the whole window, also of a report outside the set; and all of them if any of it is."""
    monkeypatch.setattr(store, "SHRINK_SECONDS", 0)
    reports = filled(world)
    left_out = world.report([9] * 5)
    world.send(4, left_out)
    agreed(world, reports)
    one = world.shufflers[1]
    stored = [one.stored(report.id, report.parts[1]) for report in (*reports, left_out)]
    with one.store.read() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM report").fetchall()
        with pytest.raises(StoreError, match="a reader holds the store"):
            one.batch()
    first = released(one)
    on_disk = b"".join(path.read_bytes() for path in world.folder.glob("helper-1/store*"))
    assert not any(part in on_disk for part in stored)
    assert not any(report.id in on_disk for report in (*reports, left_out))
    assert (one.state, one.reports()) == ("sent", 5)
    assert one._ahead is not None
    world.parties[1].expire(datetime.now(UTC))
    assert one._ahead is None
    assert one.config.keys.remaining == {1}
    world.start(1)
    again = world.shufflers[1]
    assert (released(again) == first).all()
    again.forget()
    assert (again.state, again.reports()) == ("sent", 5)
    refused("batchGone", again.batch)


@pytest.mark.parametrize("after", [False, True])
def test_a_helper_that_ends_as_it_answers_answers_the_same(noisy, monkeypatch, after):
    """Before or after its sum is stored."""
    agreed(noisy, filled(noisy))
    keep = HelperEndpoint._keep

    def ends(self, *given):
        if after:
            keep(self, *given)
        raise OSError("the helper ended")

    drawn = []
    usual = helper.noisy
    monkeypatch.setattr(helper, "noisy", lambda *given: drawn.append(usual(*given)) or drawn[-1])
    with monkeypatch.context() as patch:
        patch.setattr(HelperEndpoint, "_keep", ends)
        with pytest.raises(OSError, match="ended"):
            noisy.shufflers[1].batch()
    noisy.parties[1].end()
    noisy.start(1)
    found = [released(noisy.shufflers[1]) for _ in range(2)]
    assert (found[0] == found[1]).all()
    assert len(drawn) == 2
    assert (drawn[0] == drawn[1]).all()


def test_a_sum_that_is_being_added_up_is_waited_for(world, monkeypatch):
    """By one request, not by all: they would hold all threads."""
    monkeypatch.setattr(adder, "PEER_SECONDS", 0.01)
    agreed(world, filled(world))
    one, begun, going_on = world.shufflers[1], threading.Event(), threading.Event()
    usual = one.sum
    one.sum = lambda: begun.set() or (going_on.wait(60) and usual())
    first = threading.Thread(target=one.batch)
    first.start()
    assert begun.wait(60)
    refused("batchPending", one.batch)
    going_on.set()
    first.join()
    assert len(b"".join(one.batch())) == one.released_bytes(4)


def test_a_report_that_is_gone_stops_the_release(world):
    agreed(world, filled(world))
    intake = world.shufflers[1].intake
    left = list(intake.reports())[1:]
    intake.reports = lambda: iter(left)
    with pytest.raises(StoreError, match="1 reports are gone"):
        world.shufflers[1].batch()
    assert not world.shufflers[1].count("opened")


def test_reports_that_expire_take_their_key_with_them(world, date):
    filled(world)
    one = world.shufflers[1]
    date.now = one.expires
    world.parties[1].expire(one.expires)
    assert one.state == "deleted"
    assert one.config.keys.remaining == {1}
    refused("batchExpired", one.batch)


def test_an_analyzer_that_ends_before_it_publishes_draws_again(noisy, monkeypatch):
    """Nobody saw what it drew; when the result is stored, no other can be made."""
    filled(noisy)
    unseen = []

    def ends(result):
        unseen.extend(result.estimate)
        raise OSError("the analyzer ended")

    monkeypatch.setattr(noisy.analyzer, "_conclude", ends)
    with pytest.raises(OSError, match="ended"):
        noisy.analyzer.release()
    restarted(noisy)
    result = noisy.analyzer.release()
    assert result.estimate != unseen
    restarted(noisy)
    assert noisy.analyzer.release() == result


def test_too_few_reports_are_deleted(world):
    filled(world, vectors=VECTORS[:2])
    with pytest.raises(Stopped, match="2 reports are complete"):
        world.analyzer.release()
    assert {one.state for one in world.shufflers.values()} == {"deleted"}


def test_an_answer_comes_after_a_time_that_tells_nothing(monkeypatch):
    """Noise takes as long to draw as it is large: the rest is slept."""
    slept = []
    transport = added_shares(few("parties"))
    monkeypatch.setattr(helpers, "SETTLE_SECONDS", 9.0)
    monkeypatch.setattr(helpers, "NOISE_SECONDS", 1.0)
    monkeypatch.setattr(time, "sleep", slept.append)
    helpers.noisy(transport, transport.elements(transport.zeros()), helpers.secure(None))
    assert 13.5 < slept[0] < 14
    silent = added_shares(few())
    helpers.noisy(silent, silent.elements(silent.zeros()), helpers.secure(None))
    assert len(slept) == 1


def test_an_answer_whose_noise_takes_long_is_slept_for_longer(monkeypatch):
    """Than a draw that is not used took: noise of a small epsilon takes seconds."""
    transport, slept, clock = added_shares(few("parties")), [], [0.0]
    durations = iter((50.0, 70.0))

    def slow(self, sums, rng):
        clock[0] += next(durations)
        return sums

    monkeypatch.setattr(AddedShares, "noisy", slow)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", slept.append)
    helpers.noisy(transport, transport.elements(transport.zeros()), helpers.secure(None))
    assert slept == [30]


def test_names_are_those_of_helpers(world):
    filled(world)
    world.shufflers[2].ids = lambda: b""
    with pytest.raises(Stopped, match=r"helper 2 has 0 of the 4 here$"):
        world.analyzer.release()
    names = {path.name for path in world.folder.iterdir()}
    assert names == {"analyzer", "helper-1", "helper-2", "operator", "clients", "task.json"}


def test_private_keys_are_the_helpers_own(world):
    task = world.task
    assert not (world.folder / "analyzer" / "private-key").exists()
    for party in (1, 2):
        lines = (world.folder / f"helper-{party}" / "private-key").read_text().split()
        keys = [keys_of(task.at(window))[party - 1] for window in (0, 1)]
        assert lines == [tokens.to_text(key.raw) for key in keys]
        assert task.keys_of(party) == tuple(key.public_bytes for key in keys)
        assert [task.at(w).public_key(party) for w in (0, 1)] == list(task.keys_of(party))
    assert task.keys_of(0) == ()


# What is sent, and what a task says


@pytest.mark.parametrize("bits", [1, 5, 8, 11, 18, 31, 32, 33, 57, 58, 63, 64])
def test_packed_vectors_are_one_little_endian_integer(bits):
    draw = np.random.default_rng(bits)
    for dimension in (1, 7, 8, 9, 50):
        rows = draw.integers(0, 1 << bits, (3, dimension), np.uint64, endpoint=False)
        rows[0] = (1 << bits) - 1
        parts = [packed(row, bits) for row in rows]
        assert {len(part) for part in parts} == {-(-dimension * bits // 8)}
        whole = sum(int(x) << i * bits for i, x in enumerate(rows[1]))
        assert int.from_bytes(parts[1], "little") == whole
        total = np.zeros(dimension, np.uint64)
        add_packed(total, parts, bits)
        assert (total == rows.sum(axis=0)).all()


def test_what_is_sent_is_what_the_page_says(world):
    task, report = world.task, world.report(VECTORS[1])
    assert [len(part) for part in report.parts] == [task.part_bytes(party) for party in range(3)]
    sent = opened(task.at(0), report, keys_of(task.at(0)))
    assert sent.tolist() == [x + 5 for x in VECTORS[1]]


def test_a_task_says_who_adds_noise_and_is_read_as_it_was_written():
    for noise in ("users", "parties"):
        task = few(noise)
        assert Task.from_json(task.to_json()) == task
        terms = json.loads(task.to_json())["transport"]
        assert terms == {"kind": "helpers", "helpers": 2, "noise": noise}
        texts = [str(one) for one in task.protocol.guarantee.conditions]
        assert any("one of the analyzer and 2 helpers is honest" in text for text in texts)
        assert any(KEMS[task.kem].words in text and "TLS" in text for text in texts)
        assert task.protocol.guarantee.computational
        kinds = {one.kind for one in task.protocol.guarantee.conditions}
        assert (Kind.USERS in kinds) == (noise == "users")
        assert task.corrupt_shufflers == 1


@pytest.mark.parametrize(
    "changed", [{"helpers": 1}, {"helpers": 0}, {"noise": "parties"}, {"noise": "all"}, {"more": 1}]
)
def test_terms_that_are_not_those_computed_are_refused(changed):
    values = json.loads(few().to_json())
    values["transport"] |= changed
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    words = "keys must be at most 2|of version|computes from its|transport|byte for byte"
    with pytest.raises(ValueError, match=words):
        Task.from_json(text)


def test_keys_that_are_not_as_many_for_each_helper():
    values = {field.name: getattr(few(), field.name) for field in fields(Task)}
    for keys, words in ((3, "as many for each of 2 parties, got 3"), (6, "keys must be at most 2")):
        public = tuple(bytes([number]) * 1216 for number in range(keys))
        with pytest.raises(ValueError, match=words):
            Task(**values | {"public_keys": public})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": 4}, "layout must not be given with helpers, got 4"),
        ({"set_size": 4}, "set_size must not be given with helpers, got 4"),
        ({"corrupt_shufflers": 1}, "corrupt_shufflers must not be given with helpers"),
        ({"helpers": 0}, "helpers must be at least 1, got 0"),
        ({"noise": "nobody"}, "noise must be"),
        ({"transport": "shares", "helpers": 2}, "helpers must not be given with shares, got 2"),
        ({"transport": "masks", "noise": "users"}, "noise must not be given with masks"),
        ({"helpers": 2, "shufflers": ["https://a.example"]}, "must be the number of addresses, 1"),
        ({"modulus": 1_000_003}, "modulus must be a power of two"),
    ],
)
def test_what_helpers_cannot_be(options, words):
    given = {"transport": "helpers", "domain": Box(3), **options}
    with pytest.raises(ValueError, match=words):
        Task.new(1000, 1, 1e-6, **given)


def test_noise_of_parties_lets_any_client_be_dishonest():
    for noise, words in ("users", "of which 0 may"), ("parties", "of which any may"):
        draft = Task.new(1000, 1, 1e-6, domain=Box(3), min_honest=900, transport="helpers",
                         helpers=np.int64(2), noise=noise)  # fmt: skip
        assert f"fewer than 900 complete reports, {words}" in " ".join(draft.explain().split())


@pytest.mark.slow
def test_a_million_clients_of_a_thousand_classes_are_one_task():
    """A batch is one vector, and a seed takes 32 bytes on a helper's disk."""
    how = {"domain": Categories([1000]), "min_honest": 900_000}
    draft = Task.new(10**6, 1, 1e-9, transport="helpers", helpers=2, **how)
    shown = draft.summary().as_dict()
    bits = draft.modulus.bit_length() - 1
    assert draft.part_bytes(0) == 125 * bits <= 2750
    assert draft.part_bytes(1) == 1168
    assert draft.transport.batch_bytes(draft, 10**6) == 125 * bits
    assert shown["disk_per_shuffler"] == 10**6 * (96 + 32)
    assert shown["disk_analyzer"] == 10**6 * (96 + 125 * bits)
    with pytest.raises(BatchTooLarge):
        Task.new(10**6, 1, 1e-9, layout="blocks", **how)
