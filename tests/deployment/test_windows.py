"""Vectors, several windows and a ledger, without a network."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial

import pytest

pytest.importorskip("starlette")

from datetime import UTC, datetime, timedelta

from deployment_tasks import small_task
from deployment_world import until_it_is

from ikos import Ball, Box, Categories, Ledger
from ikos.deployment.analyzer import Stopped
from ikos.deployment.reports import ClientReport

SLOW = partial(pytest.param, marks=pytest.mark.slow)
LABELS = ("red", "green", "blue")
HISTOGRAM = (("domain", Categories([3])), ("labels", LABELS))


pytestmark = pytest.mark.usefixtures("remembered")


@pytest.fixture
def world(world_of, tmp_path):
    """Three windows; the ledger has room for two of them."""
    Ledger.new(tmp_path / "ledger", 2, 0.99, slack=0)
    return world_of(small_task(20, 12, 6, windows=3), ledger=tmp_path / "ledger")


@pytest.fixture
def clock(world, date):
    """The time, which begins in the first window."""

    def set_to(window):
        date.now = world.task.at(window).opens

    set_to(0)
    return set_to


def filled(world, window, ones):
    world.send_all([world.report(int(i < ones), window) for i in range(14)], window)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "layout", "vectors"),
    [
        SLOW(Box(3, -5, 250), "separate", [[-5, 250, 7], [0, 1, 2], [3, 3, 250]] * 5),
        (Box(2, -5, 250), "group", [[-5, 250], [0, 1], [3, 250]] * 5),
        (Box(5, -5, 250), 2, [[-5, 250, 7, 1, 9], [0, 1, 2, 3, 4], [3, 3, 250, 8, -5]] * 5),
        SLOW(Categories([2, 3]), "separate", [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]] * 8),
        (Ball(3, 2), "separate", [[2, 0, 0], [0, -2, 0], [0, 0, 0]] * 5),
    ],
    ids=["box", "one block", "a shorter block", "categories", "ball"],
)
def test_vectors_add_up(world_of, domain, layout, vectors):
    """Each coordinate by itself, in whatever blocks."""
    whole = not isinstance(domain, Ball)
    values = (("domain", domain), ("layout", layout), ("integers", whole))
    values += () if whole else (("precision", 2**10),)
    world = world_of(small_task(20, 12, 12, values))
    world.send_all([world.report(vector) for vector in vectors])
    found = world.analyzer.release()
    exact = [sum(column) for column in zip(*vectors, strict=True)]
    assert found.estimate == pytest.approx(exact, abs=0.1 * (not whole))
    assert [len(found.sum_low), len(found.sum_high), len(found.mean)] == [domain.dimension] * 3


@pytest.mark.slow
def test_each_block_is_ordered_by_itself(world_of):
    """No place in a batch belongs to a client: each block's envelopes are in order of bytes."""
    world = world_of(small_task(20, 12, 9, HISTOGRAM))
    reports = [world.report(random.choice(LABELS)) for _ in range(14)]
    world.send_all(reports)
    world.analyzer.close_all()
    ids = b"".join(sorted(report.id for report in reports))
    for shuffler in world.shufflers.values():
        shuffler.agree(ids)
    data, first, offset = b"".join(world.shufflers[2].batch()), 0, 0
    for block in range(3):
        size = world.task.block_bytes(block)
        sent = [data[first + i * size : first + (i + 1) * size] for i in range(14)]
        assert sent == sorted(report.parts[2][offset : offset + size] for report in reports)
        first, offset = first + 14 * size, offset + size
    assert first == len(data)


@pytest.mark.slow
def test_an_envelope_in_the_place_of_another_block_stops_the_release(world_of):
    world = world_of(small_task(20, 12, 9, HISTOGRAM))
    reports = [world.report("green") for _ in range(14)]
    size, (first, *parts) = world.task.block_bytes(0), reports[3].parts
    parts[1] = parts[1][size : 2 * size] + parts[1][:size] + parts[1][2 * size :]
    reports[3] = ClientReport(reports[3].id, (first, *parts))
    world.send_all(reports)
    with pytest.raises(Stopped, match="2 envelopes of shuffler 2 could not be decrypted"):
        world.analyzer.release()


@pytest.mark.slow
def test_each_window_has_its_own_intake_release_and_deletion(world, clock):
    for window, ones in ((0, 9), (1, 4)):
        clock(window)
        filled(world, window, ones)
    assert world.send(14, world.report(1, 2), window=2)[1] == "reportTooEarly"
    late = world.report(1, 0)
    assert set(world.send(14, late, window=0).values()) == {"taskClosed"}
    assert world.party(0, 0).release().estimate == 9
    assert [world.party(3, window).state for window in (0, 1)] == ["sent", "collecting"]
    assert world.party(3, 1).count("report") == 14
    for party in range(world.task.parties):  # each goes on from its disk
        world.parties[party].end()
        world.start(party)
    assert world.party(0, 0).result().estimate == 9
    clock(2)
    assert world.party(0, 1).release().estimate == 4
    left = b"".join(path.read_bytes() for path in world.folder.glob("[as]*/store*"))
    assert late.id not in left


@pytest.mark.slow
def test_a_token_is_spent_once_in_each_window(world, clock):
    first = world.report(1)
    assert set(world.send(0, first).values()) == {True}
    clock(1)
    again = world.report(0, 1)
    assert set(world.send(0, again, window=1).values()) == {True}
    other = world.send(0, world.report(1, 1), window=1)
    assert set(other.values()) == {"reportRejected"}


@pytest.mark.slow
def test_a_report_of_another_window_does_not_count_there(world, clock):
    """A shuffler, or whoever has its envelopes, cannot use them twice: they cannot be decrypted."""
    old = [world.report(1, 0) for _ in range(14)]
    clock(1)
    world.send_all(old, window=1)
    with pytest.raises(Stopped, match=r"14 envelopes of shuffler \d could not be decrypted"):
        world.party(0, 1).release()


@pytest.mark.slow
def test_the_release_that_the_ledger_refuses_is_stopped_and_deleted(world, clock, tmp_path):
    for window in range(3):
        clock(window)
        filled(world, window, 5 + window)
    for window in range(2):
        assert world.party(0, window).release().estimate == 5 + window
    calls = []
    shuffler = world.party(1, 2)
    shuffler.batch = lambda: calls.append(1)
    with pytest.raises(Stopped, match="the ledger refuses this release: epsilon and delta must"):
        world.party(0, 2).release()
    assert not calls
    assert [world.party(party, 2).state for party in range(7)] == ["stopped", *["deleted"] * 6]
    assert all(not world.party(party, 2).count("report") for party in range(7))
    entries = [(entry.key, entry.note) for entry in Ledger(tmp_path / "ledger").entries]
    assert entries == [(world.task.at(i).path, f"sums, window {i}") for i in range(2)]


@pytest.mark.slow
def test_what_was_begun_is_paid_once_and_before_a_batch_is_asked_for(world, tmp_path):
    """Connections break at some calls, and the analyzer is started again after each."""
    filled(world, 0, 9)
    ledger = Ledger(tmp_path / "ledger")
    usual, entered = world.party(4).batch, []
    world.party(4).batch = lambda: entered.append(len(ledger.entries)) or usual()
    for number in (3, 7, 12, 2, 6, 1):
        world.faults.plan((number, True))
        with suppress(OSError):
            world.analyzer.release()
        world.parties[0].end()
        world.start(0)
    assert world.analyzer.release().estimate == 9
    assert set(entered) == {1}
    assert len(ledger.entries) == 1


@pytest.mark.slow
def test_a_ledger_that_cannot_be_used_is_waited_for(world, tmp_path, caplog):
    filled(world, 0, 9)
    (tmp_path / "ledger").rename(tmp_path / "away")
    with pytest.raises(OSError, match=r"^the ledger cannot be used; the analyzer's log says why"):
        world.analyzer.release()
    assert "No such file" in caplog.text
    assert {shuffler.state for shuffler in world.shufflers.values()} == {"closed"}
    (tmp_path / "away").rename(tmp_path / "ledger")
    assert world.analyzer.release().estimate == 9


def test_the_schedule_tells_which_window_is_open(world, clock, date):
    def told():
        found = world.parties[2].schedule()
        return found.open, found.windows

    assert told() == (0, 3)
    clock(1)
    assert told() == (1, 3)
    world.party(2, 1).close()
    assert told() == (None, 3)
    early, late = world.task.opens - timedelta(1), world.task.closes
    for moment in (early, late):
        date.now = moment
        assert told() == (None, 3)


def test_a_task_until_the_last_day_of_all_expires(world_of):
    opens = datetime(2026, 1, 1, tzinfo=UTC)
    period = (datetime(9999, 12, 31, tzinfo=UTC) - opens) // timedelta(seconds=1)
    for party in world_of(small_task(opens=opens, period=period)).parties.values():
        party.expire(datetime.now(UTC))
        assert party.at(0).status().expires.startswith("9999-12-31T23:59:59")


@pytest.mark.slow
def test_each_window_expires_by_itself(world, clock, date):
    """Thirty days after it closed; a later one of the same store is kept."""
    for window in (0, 2):
        clock(window)
        filled(world, window, 5)
    date.now = world.task.at(1).closes + world.parties[0].config.keep
    for party in world.parties.values():
        party.expire(date.now)
    until_it_is(lambda: world.analyzer.over)
    for number in world.parties:
        first, last = world.party(number, 0), world.party(number, 2)
        assert first.state == ("deleted" if number else "stopped")
        assert (first.reports(), first.count("report")) == (14, 0)
        assert (last.state, last.count("report")) == ("closed", 14)
