"""What is on a disk may be damaged, or not be there: an exact sum, or an error by its own name."""

from __future__ import annotations

import errno
import random
import shutil
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")

from deployment_tasks import small_task
from deployment_world import World, flip

from ikos.deployment import tokens
from ikos.deployment.store import Store, StoreError, Writing

USERS = 40
STAGES = ("closed", "killed", "running", "fetched")
VALUES = (1, 0, 1, 1) * 8


pytestmark = pytest.mark.usefixtures("remembered")


@pytest.fixture
def world(world_of):
    return world_of(small_task(USERS, 20, 4))


def filled(world):
    """Let clients report; the last two reach some parties only."""
    reports = [world.report(value) for value in VALUES]
    world.send_all(reports)
    world.send(USERS - 2, world.report(1), parties=[0, 1, 2])
    world.send(USERS - 1, world.report(1), parties=[3, 4])
    return reports


def token(world, client, party):
    return tokens.digest(tokens.for_party(world.secrets[client], world.task, party))


def files(folder, party):
    """Return the files of a party's database that have anything, but for what is shared memory."""
    home = folder / (f"shuffler-{party}" if party else "analyzer")
    found = sorted(home.glob("store.sqlite3*"))
    return [path for path in found if not path.name.endswith("-shm") and path.stat().st_size]


def row_of(world, party, report, client):
    """Return where a report's row begins in the database: its id, its token, its part."""
    world.party(party).store.shrink()
    path = world.party(party).store.path
    return path, path.read_bytes().index(report.id + token(world, client, party))


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 16, 48, 49], ids=["id", "token", "share", "digest"])
def test_a_damaged_clear_share_stops_the_release(world, place):
    """Every column of it; and nothing is deleted, so that a disk can be mended."""
    assert world.task.width == 1
    reports = filled(world)
    path, begin = row_of(world, 0, reports[7], 7)
    flip(path, begin + place)
    for _ in range(2):
        with pytest.raises(StoreError, match="row") as caught:
            world.analyzer.release()
        assert caught.value.name == "storeDamaged"
    flip(path, begin + place)
    assert world.analyzer.release().estimate == sum(VALUES)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["report", "complete", "opened"])
def test_a_row_is_checked_whenever_it_is_read(world, monkeypatch, table):
    """After the sets were compared, too; the row that is damaged is named."""
    filled(world)
    usual = world.analyzer._sum
    monkeypatch.setattr(world.analyzer, "_sum", lambda ids: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.analyzer.release()
    monkeypatch.setattr(world.analyzer, "_sum", usual)
    with closing(sqlite3.connect(world.analyzer.store.path)) as connection, connection:
        name = {"report": "parts", "complete": "ids", "opened": "sums"}[table]
        key = {"report": "first", "complete": "window", "opened": "party"}[table]
        first = f"SELECT min({key}) FROM {table}"
        connection.execute(f"UPDATE {table} SET {name} = X'00' WHERE {key} = ({first})")
    with pytest.raises(StoreError, match=f"row 1 of table '{table}'"):
        world.analyzer.release()


def test_a_damaged_token_is_found_when_a_party_starts(world):
    """Under it, a client's second report would be accepted."""
    reports = filled(world)
    path, begin = row_of(world, 0, reports[5], 5)
    flip(path, begin + 20)
    world.parties[0].end()
    world.start(0)
    for client in (5, USERS - 3):
        with pytest.raises(StoreError, match=r"row 6|a moment ago"):
            world.send(client, world.report(1), parties=[0])
    flip(path, begin + 20)
    intake = world.analyzer.intake
    assert intake._again > 0  # until then it is not read again
    intake._again = 0
    assert world.send(5, world.report(1), parties=[0]) == {0: "reportRejected"}


def test_what_is_known_of_reports_is_what_is_on_disk(world, monkeypatch):
    """Reports that were refused as the disk was full are accepted when it is not."""
    intake, store = world.analyzer.intake, world.analyzer.store
    reports = [(bytes([n]) * 16, bytes([n]) * 32, bytes([n % 2])) for n in range(40)]
    intake.accept(reports[:20]).result()

    def full(*_):
        raise sqlite3.OperationalError("full")

    usual = store._write_tally
    monkeypatch.setattr(store, "_write_tally", full)
    with pytest.raises(StoreError):
        intake.accept(reports[10:]).result()
    monkeypatch.setattr(store, "_write_tally", usual)
    held = threading.Event()
    store.write(0, lambda _: held.wait(60))
    first, failing = intake.accept(reports[20:30]), store.write(0, lambda _: 1 // 0)
    held.set()  # both are of one transaction
    with pytest.raises(ZeroDivisionError):
        failing.result()
    assert first.result() == [True] * 10
    held.clear()
    store.write(0, lambda _: held.wait(60))

    def clear_and_fail(writing):
        intake.clear(writing)
        raise ZeroDivisionError

    first, failing = intake.accept(reports[30:31]), store.write(0, clear_and_fail)
    again = intake.accept(reports[30:31])
    held.set()
    with pytest.raises(ZeroDivisionError):
        failing.result()
    assert (first.result(), again.result()) == ([True], [False])
    assert intake.accept(reports).result() == [False] * 31 + [True] * 9
    assert intake.ids() == sorted(number for number, *_ in reports)


@pytest.mark.points(1)
@pytest.mark.parametrize("party", [0, 2])
@pytest.mark.parametrize("harm", ["damaged", "lost"])
def test_a_log_that_ends_early_is_found(world, tmp_path, party, harm):
    """SQLite goes on as if what comes after had never been written."""
    filled(world)
    copied = tmp_path / "copied"
    shutil.copytree(world.folder, copied)
    (_, count, log) = files(copied, party)
    assert (count.name, log.name) == ("store.sqlite3-count", "store.sqlite3-wal")
    if harm == "lost":
        log.unlink()
    else:
        flip(log, log.stat().st_size // 2)
    with pytest.raises(ValueError, match=r"damaged: (only \d+|none) of"):
        World(world.task, tmp_path / "again", SimpleNamespace(folder=copied))


@pytest.mark.slow
def test_a_result_that_was_damaged_is_not_told(world):
    filled(world)
    world.analyzer.release()
    world.parties[0].end()
    path = world.analyzer.store.path
    flip(path, path.read_bytes().index(b'"estimate":') + len(b'"estimate":'))
    with pytest.raises(ValueError, match="of table 'fact'"):
        world.start(0)


def test_what_a_digest_binds(world, tmp_path):
    """The task, the party, the table, each column and its kind."""
    config = replace(world.analyzer.config, task=small_task(users=7), folder=tmp_path)
    others = [Store(config), world.shufflers[1].store, world.shufflers[2].store]
    digest = world.analyzer.store.digest
    rows = [(b"ab", b"c"), (b"a", b"bc"), (b"abc",), ("ab", b"c"), (b"ab", "c"), (1,), ("1",)]
    found = {digest(table, row) for table in ("report", "fact") for row in rows}
    found |= {other.digest("report", rows[0]) for other in others}
    others[0].close()
    assert len(found) == 2 * len(rows) + 3


# What a store says of itself


def test_damage_that_makes_bytes_a_text_tells_nothing_of_them(world):
    """SQLite's driver quotes a text that it cannot read."""
    filled(world)
    with closing(sqlite3.connect(world.analyzer.store.path)) as connection, connection:
        connection.execute("UPDATE report SET parts = CAST(X'534543524554FF' AS TEXT)")
    with pytest.raises(StoreError, match="row 1 of table 'report'") as caught:
        world.analyzer.release()
    assert caught.value.name == "storeDamaged"
    assert "SECRET" not in f"{caught.value} {world.analyzer.store.check()}"


def test_a_first_start_that_was_ended_does_no_harm(world, tmp_path):
    """By a full disk, say, when the count was there and empty."""
    config = replace(world.analyzer.config, folder=tmp_path)
    (tmp_path / "store.sqlite3-count").touch()
    for _ in range(2):
        store = Store(config)
        store.write(0, Writing.touch).result()
        store.close()
    (tmp_path / "store.sqlite3-count").write_bytes(b"")  # and of a store that has changes
    with pytest.raises(ValueError, match="count of changes"):
        Store(config)


def test_a_count_that_cannot_be_written_is_said(world, monkeypatch, caplog):
    store = world.analyzer.store

    def full(*_):
        raise OSError(errno.EIO, "Input/output error")

    usual = store._count
    monkeypatch.setattr(store, "_count", SimpleNamespace(seek=full))
    store.write(0, Writing.touch).result()  # is there all the same
    found = store.check()
    assert (found.name, "Input/output error" in str(found)) == ("storeFailed", True)
    assert "the count of changes cannot be written" in caplog.text
    monkeypatch.setattr(store, "_count", usual)
    store.write(0, Writing.touch).result()
    assert store.check() is None


def test_a_disk_with_little_room_is_said(world, monkeypatch, caplog):
    """Though a small write may still fit into the log, which has its room already."""
    store = world.analyzer.store
    with monkeypatch.context() as patched:
        patched.setattr("ikos.deployment.store.SPARE_BYTES", 1 << 60)
        assert store.check().name == "storeFull"
    monkeypatch.setattr("ikos.deployment.store.FRESH_SECONDS", 0)
    assert store.check() is None
    assert "bytes are free" in caplog.text


def test_two_stores_of_one_folder(world, tmp_path):
    """The second to write is refused, before it writes a tally without the other's rows."""
    config = replace(world.analyzer.config, folder=tmp_path)
    one, other = Store(config), Store(config)
    one.write(0, lambda writing: writing.note("a", "1")).result()
    with pytest.raises(StoreError, match="another program"):
        other.write(0, lambda writing: writing.note("b", "1")).result()
    one.write(0, lambda writing: writing.note("c", "1")).result()
    assert dict(one.rows(0, "fact")) == {"0 a": "1", "0 c": "1"}
    one.close()
    other.close()


def test_the_count_is_of_what_is_on_disk(world):
    """It is written after the changes: one that is ahead would refuse a store that is whole."""
    store = world.analyzer.store
    count = store.path.with_name("store.sqlite3-count")
    before = count.read_bytes()

    def refuse(action, what, *_):
        commits = (action, what) == (sqlite3.SQLITE_TRANSACTION, "COMMIT")
        return sqlite3.SQLITE_DENY if commits else sqlite3.SQLITE_OK

    store._writer.set_authorizer(refuse)
    with pytest.raises(StoreError):
        store.write(0, Writing.touch).result()
    assert count.read_bytes() == before
    store._writer.set_authorizer(None)
    store.write(0, Writing.touch).result()
    assert count.read_bytes() > before


def test_a_row_of_another_time_is_found(world):
    """As many rows as were written, each whole: the sum of digests is another."""
    reports = filled(world)
    store, mine = world.analyzer.store, token(world, 0, 0)
    parts = reports[0].id + mine + bytes([reports[0].parts[0][0] ^ 1])
    digest = store.digest("report", (0, 0, parts))
    with closing(sqlite3.connect(store.path)) as connection, connection:
        change = "UPDATE report SET parts = ?, digest = ? WHERE first = 0"
        assert connection.execute(change, (parts, digest)).rowcount == 1
    with pytest.raises(StoreError, match="rows of table 'report'"):
        world.analyzer.release()


def agreed(world):
    """Return a shuffler from which the batch can be fetched."""
    ids = b"".join(sorted(report.id for report in filled(world)))
    for shuffler in world.shufflers.values():
        shuffler.close()
        shuffler.agree(ids)
    return world.shufflers[2]


def test_damage_after_rows_were_checked_is_not_sent(world):
    """The analyzer would stop for good at such an envelope, and everything would be deleted."""
    shuffler = agreed(world)
    batch = shuffler.batch()
    with closing(sqlite3.connect(shuffler.store.path)) as connection, connection:
        connection.execute("UPDATE report SET parts = zeroblob(length(parts))")
    assert bytes(49) not in b"".join(batch)


# Anything, anywhere


class Stages:
    """Folders of all parties at some moments, to be damaged."""

    def __init__(self, folder):
        self.folder, self.trials = folder, 0
        self.task = small_task(USERS, 20, 4)
        (folder / "first").mkdir()
        world = World(self.task, folder / "first")
        filled(world)
        self._keep(world, "killed")  # with a log beside each database
        world.stop()
        self._keep(world, "closed")
        shutil.copytree(world.folder, folder / "running")
        world = World(self.task, folder / "second", world)
        world.analyzer._sum = lambda ids: (_ for _ in ()).throw(OSError("as if it were killed"))
        with pytest.raises(OSError, match="killed"):
            world.analyzer.release()
        self._keep(world, "fetched")
        world.stop()

    def _keep(self, world, name):
        shutil.copytree(world.folder, self.folder / name)

    def released(self, stage, draw):
        """Damage a byte of a party's files, and release; return whether there was a result."""
        self.trials += 1
        folder = self.folder / f"trial-{self.trials}"
        base = SimpleNamespace(folder=folder / "base")
        shutil.copytree(self.folder / stage, base.folder)
        party = draw.randrange(5)
        world = None
        try:
            if stage == "running":
                world = World(self.task, folder, base)
                self._damage(world.folder, party, draw)
            else:
                self._damage(base.folder, party, draw)
                world = World(self.task, folder, base)
            result = world.analyzer.release()
        except (OSError, ValueError):  # and never Stopped, which deletes all reports
            return False
        finally:
            if world is not None:
                world.stop()
            shutil.rmtree(folder)
        assert (result.estimate, result.users) == (sum(VALUES), len(VALUES))
        return True

    def _damage(self, folder, party, draw):
        paths = files(folder, party)
        sizes = [path.stat().st_size for path in paths]
        (path,) = draw.choices(paths, sizes)
        flip(path, draw.randrange(path.stat().st_size), draw.randrange(1, 256))


@pytest.mark.slow
def test_any_byte_anywhere_is_found_or_does_no_harm(tmp_path, quiet):
    stages, draw = Stages(tmp_path), random.Random(1)
    found = Counter(stages.released(STAGES[k % len(STAGES)], draw) for k in range(100))
    assert found[True] > 0
    assert found[False] > 5  # of about 28; fewer have a chance of 1e-9


@pytest.mark.points(1)
@pytest.mark.parametrize("table", ["report", "complete"])
def test_a_damaged_row_is_found_before_anything_is_sent(world, table):
    shuffler = agreed(world)
    with closing(sqlite3.connect(shuffler.store.path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET digest = X'00'")
    with pytest.raises(StoreError, match=f"row 1 of table '{table}'"):
        shuffler.batch()


def test_an_error_of_the_driver_is_not_quoted(world):
    store = world.analyzer.store

    def read():
        with store.read() as connection:
            connection.text_factory = str
            connection.execute("SELECT CAST(X'534543524554FF' AS TEXT)").fetchone()

    with pytest.raises(StoreError, match="cannot be read: OperationalError") as caught:
        read()
    assert "SECRET" not in str(caught.value)
