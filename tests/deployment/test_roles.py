"""The parties' logic, without a network: exact sums of complete reports, whatever breaks."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import shutil
import stat
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from deployment_tasks import KEY, small_task
from deployment_world import World, kept_reports, until_it_is
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ikos.deployment import store, tokens
from ikos.deployment.analyzer import Stopped
from ikos.deployment.endpoint import split_ids
from ikos.deployment.hpke import PrivateKey
from ikos.deployment.intermediary import _batch, agreed_digest
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.reports import ClientReport
from ikos.deployment.task import Task
from ikos.deployment.wire import Problem

COLUMNS = small_task().columns


pytestmark = pytest.mark.usefixtures("remembered")


@pytest.fixture
def world(world_of):
    return world_of(small_task())


def all_of(world, outcome):
    return dict.fromkeys(range(world.task.parties), outcome)


def filled(world, values=(1, 0, 1, 1)):
    world.send_all([world.report(value) for value in values])
    return sum(values)


def on_disk(world, parties="*"):
    """Return all bytes in the stores of some parties, by the names of their folders."""
    data = b"".join(path.read_bytes() for path in world.folder.glob(f"{parties}/store*"))
    assert len(data) > 1000
    return data


@pytest.mark.slow
def test_one_release_at_a_time(world, monkeypatch):
    total, analyzer = filled(world), world.analyzer
    real, under_way, clashes, results = analyzer._release, [], [], []

    def slowly(progress):
        clashes.extend(under_way)
        under_way.append(1)
        time.sleep(0.05)
        try:
            return real(progress)
        finally:
            under_way.pop()

    monkeypatch.setattr(analyzer, "_release", slowly)
    threads = [
        threading.Thread(target=lambda: results.append(analyzer.release())) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes
    assert [result.estimate for result in results] == [total] * 3


@pytest.mark.slow
def test_dishonest_clients_need_more_reports(world_of):
    """Six users, three of them honest and two perhaps not: five reports, at every party."""
    world = world_of(small_task(corrupt_clients=2))
    assert world.task.min_reports == 5
    filled(world)
    world.analyzer.close_all()
    ids = world.shufflers[1].ids()
    refused("batchRejected", world.shufflers[1].agree, ids)
    with pytest.raises(Stopped, match=r"4 reports are complete, .* fewer than 5"):
        world.analyzer.release()


def test_the_clock(world, date):
    date.now = world.task.opens - timedelta(seconds=1)
    report = world.report(1)
    assert world.send(0, report) == all_of(world, "reportTooEarly")
    date.now = world.task.opens
    assert world.send(0, report) == all_of(world, True)
    date.now = world.task.closes
    assert world.send(1, world.report(1)) == all_of(world, "taskClosed")
    assert world.shufflers[1].state == "closed"
    ids = world.shufflers[1].ids()
    assert ids == report.id
    date.now = datetime(1999, 1, 1, tzinfo=UTC)  # a clock that is set back opens nothing
    assert world.send(1, world.report(1), [1]) == {1: "taskClosed"}
    world.start(1)
    assert world.shufflers[1].state == "closed"


# What a shuffler does not do


def refused(name, work, *arguments):
    with pytest.raises(Problem) as caught:
        b"".join(work(*arguments))
    assert caught.value.name == name


def closed(world):
    filled(world)
    world.analyzer.close_all()
    return split_ids(world.shufflers[1].ids())


def agreed(world):
    """Let all shufflers agree; return the ids."""
    ids = closed(world)
    for shuffler in world.shufflers.values():
        shuffler.agree(b"".join(ids))
    return ids


def test_a_second_batch_is_refused(world):
    """Two sums that differ in one report would tell that report."""
    ids = agreed(world)
    world.shufflers[1].agree(b"".join(ids))
    refused("batchRejected", world.shufflers[1].agree, b"".join(ids[:3]))
    world.start(1)
    refused("batchRejected", world.shufflers[1].agree, b"".join(ids[:3]))


def test_shufflers_that_were_asked_for_different_batches_release_none(world):
    ids = closed(world)
    for party, shuffler in world.shufflers.items():
        shuffler.agree(b"".join(ids if party > 1 else ids[:3]))
    for shuffler in world.shufflers.values():
        refused("notAgreed", shuffler.batch)


def test_a_batch_that_was_deleted_is_gone(world):
    ids = agreed(world)
    data = b"".join(world.shufflers[1].batch())
    world.shufflers[1].forget()
    world.shufflers[1].forget()
    for _ in range(2):
        shuffler = world.shufflers[1]
        refused("batchGone", shuffler.batch)
        refused("batchGone", shuffler.ids)
        assert shuffler.state == "sent"
        world.start(1)
    left, size = on_disk(world, "shuffler-1"), len(data) // 4
    assert not any(data[i : i + size] in left for i in range(0, len(data), size))
    assert not any(number in left for number in ids)


def test_what_is_deleted_while_it_is_read_is_gone(world, monkeypatch):
    """At any point, of the batch and of the ids: never is a part of them an answer."""
    agreed(world)
    shufflers = iter(world.shufflers.values())
    for ask, names in (("batch", ("agreement", "complete_ids", "reports")), ("ids", ("reports",))):
        for name, before in itertools.product(names, (True, False)):
            shuffler = next(shufflers)
            whose = shuffler.intake if name == "reports" else shuffler
            usual = getattr(whose, name)

            def reading(*given, usual=usual, before=before, shuffler=shuffler):
                if before:
                    shuffler.forget()
                found = usual(*given)
                found = found if isinstance(found, str) else list(found)
                shuffler.forget()
                return found

            with monkeypatch.context() as patch:
                patch.setattr(whose, name, reading)
                refused("batchGone", getattr(shuffler, ask))


def test_a_batch_that_is_being_sent_is_sent_whole(world):
    ids, shuffler = agreed(world), world.shufflers[1]
    answer = _batch(shuffler)
    shuffler.forget()

    async def sent():
        return b"".join([piece async for piece in answer.body_iterator])

    data = asyncio.run(sent())
    assert shuffler.state == "sent"
    assert len(data) == len(ids) * world.task.part_bytes(1)
    assert answer.headers["content-length"] == str(len(data))


@pytest.mark.points(1)
@pytest.mark.parametrize("batch", [True, False])
def test_what_was_sent_is_known_after_it_expired(world, batch):
    """And a batch that was agreed, and never asked for, was not sent."""
    agreed(world)
    one = world.shufflers[1]
    if batch:
        one.batch()
    assert one.state == "agreed"
    assert one.expire(one.expires)
    assert one.state == ("sent" if batch else "deleted")


# What stops a release for good


@pytest.mark.points(1)
@pytest.mark.parametrize("step", ["ids", "agree", "batch"])
def test_a_release_stops_where_a_shuffler_deleted_what_was_not_released(world, step):
    """It would be of no use to ask again: its clock was ahead, or this release is late."""
    filled(world)
    shuffler = world.shufflers[2]
    usual = getattr(shuffler, step)

    def late(*given):
        assert shuffler.expire(shuffler.expires)
        return usual(*given)

    setattr(shuffler, step, late)
    with pytest.raises(Stopped, match=r"not released in time were deleted; nothing is released"):
        world.analyzer.release()
    assert world.analyzer.state == "stopped"
    assert not any(one.count("report") for one in world.shufflers.values())


def test_a_shuffler_that_names_too_few_is_named(world):
    filled(world)
    world.shufflers[2].ids = lambda: b""
    with pytest.raises(Stopped, match=r"fewer than 3; shuffler 2 has 0 of the 4 here$"):
        world.analyzer.release()


@pytest.mark.slow
def test_whose_batch_is_waited_for_is_told(world):
    """It takes hours where a shuffler sends a large batch slowly; the others go on meanwhile."""
    total, steps, come = filled(world), [], threading.Event()
    usual = world.shufflers[3].batch
    world.shufflers[3].batch = lambda: come.wait(60) and usual()
    release = threading.Thread(target=world.analyzer.release, args=(steps.append,))
    release.start()
    until_it_is(lambda: steps[-1:] == ["receiving batches of shufflers 3"])
    come.set()
    release.join()
    assert world.analyzer.result().estimate == total


def test_envelopes_that_do_not_open(world):
    filled(world)
    report = world.report(1)
    parts = list(report.parts)
    parts[2] = bytes(len(parts[2]))
    world.send(4, ClientReport(report.id, tuple(parts)))
    with pytest.raises(Stopped, match="1 envelopes of shuffler 2 could not be decrypted"):
        world.analyzer.release()
    assert world.analyzer.result() is None


@pytest.mark.slow
def test_an_envelope_twice(world):
    """A client that copies another's envelope, or a shuffler that sends one for another."""
    first, second = world.report(1), world.report(1)
    world.send(0, first)
    world.send(1, ClientReport(second.id, (second.parts[0], first.parts[1], *second.parts[2:])))
    for client in (2, 3):
        world.send(client, world.report(0))
    with pytest.raises(Stopped, match="are duplicates"):
        world.analyzer.release()


@pytest.mark.slow
def test_a_batch_of_another_length(world, monkeypatch):
    """It may have been cut on the way: it is asked for again."""
    total = filled(world)
    with monkeypatch.context() as patch:
        patch.setattr(world.shufflers[3], "batch", lambda: iter([b"short"]))
        with pytest.raises(OSError, match="shuffler 3 released 5 bytes, not "):
            world.analyzer.release()
    assert world.analyzer.release().estimate == total


def test_nothing_is_kept_of_a_task_that_stopped(world):
    """At no party, even if a shuffler did not answer at first."""
    reports = [world.report(1) for _ in range(2)]
    world.send_all(reports)
    release = world.analyzer.release
    world.faults.plan((2 * COLUMNS, False))  # the first that is told to delete
    for left, error in ((1, OSError), (0, Stopped)):
        with pytest.raises(error, match="2 reports are complete" if left == 0 else "broke"):
            release()
        states = [shuffler.state for shuffler in world.shufflers.values()]
        assert states.count("deleted") == COLUMNS - left
    kept = on_disk(world)
    for report in reports:
        assert not any(part in kept for part in (report.id, *report.parts[1:]))


@pytest.mark.slow
def test_a_release_is_over_when_nothing_is_left_on_the_disk(world, monkeypatch):
    """Somebody reads the analyzer's store while the sum is noted; the same order ends the rest."""
    monkeypatch.setattr(store, "SHRINK_SECONDS", 0)
    total, analyzer = filled(world), world.analyzer
    with analyzer.store.read() as reader:
        reader.execute("BEGIN")
        ids = [one[1] for one in kept_reports(reader, world.task.part_bytes(0))]
        with pytest.raises(OSError, match="a reader holds the store"):
            analyzer.release()
        assert (analyzer.state, analyzer.over) == ("released", False)
        with pytest.raises(OSError, match="a reader holds the store"):
            analyzer.release()
    assert analyzer.release().estimate == total
    assert analyzer.over
    assert len(ids) == 4
    assert not any(number in on_disk(world, "analyzer") for number in ids)


@pytest.mark.slow
def test_a_store_that_cannot_be_read_for_now_is_tried_again(world, monkeypatch):
    """Descriptors are short for a moment: an OSError, as for a shuffler that does not answer."""
    total, connect = filled(world), store.sqlite3.connect

    def none_left(*arguments, **options):
        error = store.sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorname = "SQLITE_CANTOPEN"
        raise error

    monkeypatch.setattr(store.sqlite3, "connect", none_left)
    with pytest.raises(OSError, match="cannot be read: unable to open"):
        world.analyzer.release()
    monkeypatch.setattr(store.sqlite3, "connect", connect)
    assert world.analyzer.release().estimate == total


def test_a_store_is_durable_and_leaves_no_traces(world, tmp_path, monkeypatch):
    """Synced at each commit, zeros over what is deleted, sorted in memory, its owner's alone."""
    connect = store.sqlite3.connect

    def by_default(*arguments, **options):  # as SQLite is built elsewhere
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA secure_delete=OFF")
        return connection

    monkeypatch.setattr(store.sqlite3, "connect", by_default)
    config = replace(world.analyzer.config, folder=tmp_path)
    made = store.Store(config)

    def kept(connection):
        names = ("journal_mode", "synchronous", "secure_delete", "temp_store")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert made.write(0, lambda writing: kept(writing.connection)).result() == ["wal", 2, 1, 2]
    with made.read() as connection:
        assert kept(connection) == ["wal", 2, 1, 2]
    for path in tmp_path.glob("store*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    made.close()


def test_a_folder_with_a_part_of_another_task_is_refused(world):
    """With another key no envelope would open, and all shares be deleted for good."""
    analyzer, shuffler = world.folder / "analyzer", world.folder / "shuffler-1"
    key, config = analyzer / "private-key", shuffler / "seat.json"
    right = key.read_bytes()
    for lines, wrong in (
        ([tokens.to_text(PrivateKey.generate().raw)], r"line 1 of .* must be that of the task"),
        ([], "must have a line for each key of the task"),
        (["x" * 43], "must hold a private key in each line"),
    ):
        key.write_text("".join(f"{line}\n" for line in lines))
        with pytest.raises(ValueError, match=wrong):
            PartyConfig.read(analyzer)
    key.write_bytes(right)
    assert PartyConfig.read(analyzer).keys.read(0).raw == KEY.raw
    values = json.loads(config.read_text())
    config.write_text(json.dumps({**values, "task": small_task(users=7).name}))
    with pytest.raises(ValueError, match="must be a party's folder for its task"):
        PartyConfig.read(shuffler)
    config.write_text(json.dumps(values))
    assert PartyConfig.read(shuffler).party == 1


# Whatever breaks, the sum is exact


@pytest.mark.slow
def test_a_connection_that_breaks_anywhere(tmp_path, quiet):
    """At every call of a release in turn, before it and after it was done, and a restart."""
    task = small_task(users=20, min_honest=17, columns=4)
    base = World(task, tmp_path)
    total = filled(base, [1, 0] * 9)
    base.stop()
    for number in itertools.count():
        broke = False
        for after in (False, True):
            world = World(task, tmp_path / "again", base)
            world.faults.plan((number, after))
            try:
                result = world.analyzer.release()
            except OSError:
                world.start(number % task.parties)
                result = world.analyzer.release()
                broke = True
            assert (result.estimate, result.users) == (total, 18)
            world.stop()
            shutil.rmtree(tmp_path / "again")
        if not broke:
            break
    assert number == 5 * 4 + 4 * 3  # closing, ids, batches told, sent, forgotten; and each peer


GONE = ("sent", "deleted", "released", "stopped")  # what a party says when it has no reports


class Parties(RuleBasedStateMachine):
    """Clients, faults, restarts and releases in any order, against a model of a few lines."""

    task = staticmethod(small_task)

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.world = World(self.task(), self.folder)
        self.values, self.reports, self.at = {}, {}, {}
        self.closed, self.result = set(), None

    def teardown(self):
        if hasattr(self, "world"):
            self.world.stop()
            shutil.rmtree(self.folder)

    parties = st.sets(st.integers(0, COLUMNS), min_size=1)

    @rule(client=st.integers(0, 5), value=st.integers(0, 1), parties=parties)
    def send(self, client, value, parties):
        """A client sends its report to some parties, and perhaps the rest later."""
        if client not in self.reports:
            self.reports[client] = self.world.report(value)
            self.values[client] = value
        self._send(client, parties)

    @precondition(lambda self: self.reports)
    @rule(choice=st.integers(0, 5))
    def send_the_rest(self, choice):
        client = sorted(self.reports)[choice % len(self.reports)]
        self._send(client, range(COLUMNS + 1))

    def _send(self, client, parties):
        outcomes = self.world.send(client, self.reports[client], parties)
        for party, outcome in outcomes.items():
            there = client in self.at.get(party, ())
            gone = self.world.party(party).state in GONE
            if party in self.closed:
                assert outcome == (False if there and not gone else "taskClosed")
            else:
                assert outcome == (not there)
                self.at.setdefault(party, set()).add(client)

    @precondition(lambda self: self.reports)
    @rule(client=st.integers(0, 5), party=st.integers(0, COLUMNS))
    def send_another(self, client, party):
        """Another report under a token that was spent."""
        if client in self.at.get(party, ()):
            (outcome,) = self.world.send(client, self.world.report(1), [party]).values()
            gone = self.world.party(party).state in GONE
            assert outcome == ("taskClosed" if gone else "reportRejected")

    @rule(party=st.integers(0, COLUMNS))
    def restart(self, party):
        self.world.start(party)

    @rule(party=st.integers(1, COLUMNS))
    def close_one(self, party):
        self.world.shufflers[party].close()
        self.closed.add(party)

    @rule(faults=st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=3))
    def release(self, faults):
        self.world.faults.plan(*faults)
        self.closed.add(0)
        complete = set.intersection(*(self.at.get(p, set()) for p in range(COLUMNS + 1)))
        few = len(complete) < self.world.task.min_honest
        try:
            result = self.world.analyzer.release()
        except OSError:
            self._who_is_closed()
        except Stopped:
            assert few
            self.closed.update(range(COLUMNS + 1))
        else:
            self.closed.update(range(COLUMNS + 1))
            assert not few
            assert result.users == len(complete)
            assert result.estimate == sum(self.values[client] for client in complete)
            assert self.result in (None, result)
            self.result = result
        self.world.faults.plan()

    def _who_is_closed(self):
        for party in range(COLUMNS + 1):
            if self.world.party(party).closed:
                self.closed.add(party)

    @invariant()
    def nothing_acknowledged_is_lost(self):
        if not hasattr(self, "world"):
            return
        for party, clients in self.at.items():
            assert self.world.party(party).reports() == len(clients)


Parties.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
class TestParties(Parties.TestCase):
    pass


class Helped(Parties):
    """With as many helpers."""

    @staticmethod
    @cache
    def task():
        addresses = [f"http://127.0.0.1:{9000 + j}" for j in range(COLUMNS + 1)]
        return Task.new(
            6, 1, 1e-6, upper=1, integers=True, min_honest=3, transport="helpers",
            public_keys=[key.public_bytes for key in HELPERS], analyzer=addresses[0],
            shufflers=addresses[1:],
        )  # fmt: skip


HELPERS = [PrivateKey(bytes([number]) * 32) for number in range(COLUMNS)]
Helped.TestCase.settings = settings(Parties.TestCase.settings, max_examples=15)


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
class TestHelped(Helped.TestCase):
    @pytest.fixture(autouse=True)
    def keys(self, monkeypatch):
        monkeypatch.setattr("deployment_world.KEYS", HELPERS)


def test_what_shufflers_compare_names_the_task_and_the_window():
    """SHA-256 of a label, the task's 32 bytes, the window and the ids, written out here."""
    task, ids = small_task(windows=9), bytes(range(32))
    text = b"ikos-parties 3 batch" + task.id + bytes([0, 0, 0, 7]) + ids
    assert agreed_digest(task.at(7), ids) == hashlib.sha256(text).hexdigest()
    assert agreed_digest(task.at(8), ids) != agreed_digest(task.at(7), ids)


@pytest.mark.slow
def test_a_store_that_is_there_is_opened_without_writing(world, monkeypatch):
    """So that a result can be read where the disk is full."""
    total, path = filled(world), world.analyzer.store.path
    assert world.analyzer.release().estimate == total
    world.stop()
    before = path.read_bytes()
    monkeypatch.setattr(store, "SCHEMA", "CREATE TABLE other (id);")
    again = store.Store(world.analyzer.config)
    with again.read() as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    again.close()
    assert "other" not in tables
    assert path.read_bytes() == before
