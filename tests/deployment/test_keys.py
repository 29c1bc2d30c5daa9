"""Keys of the analyzer: each for some windows, and erased when nothing of them is left."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")

from deployment_tasks import KEYS, small_task

from ikos.deployment import endpoint, server, tokens
from ikos.deployment.analyzer import Stopped
from ikos.deployment.hpke import unseal
from ikos.deployment.opening import X25519, PrivateKey
from ikos.deployment.party_files import PartyConfig

PUBLIC = tuple(key.public_bytes for key in KEYS)


pytestmark = pytest.mark.usefixtures("remembered")


def rotating(windows, keys):
    return small_task(20, 12, 6, period=3600, windows=windows, public_keys=PUBLIC[:keys])


@pytest.mark.parametrize(("windows", "keys"), [(1, 1), (3, 1), (3, 2), (3, 3), (7, 3), (10, 3)])
def test_each_window_has_one_key_and_each_key_windows(windows, keys):
    task = rotating(windows, keys)
    groups = [list(task.windows_of(key)) for key in range(keys)]
    assert [window for group in groups for window in group] == list(range(windows))
    assert max(map(len, groups)) - min(map(len, groups)) <= 1
    for key, group in enumerate(groups):
        assert {(task.at(n).key, task.at(n).public_key(0)) for n in group} == {(key, PUBLIC[key])}


def test_keys_that_make_no_sense():
    task = rotating(3, 3)
    for keys, words in (
        (PUBLIC[:1] * 2, "must be different"),
        ((*PUBLIC, bytes(1216)), "keys must be at most 3, got 4"),
        ((*PUBLIC[:2], bytes(32)), "must be of 1216 bytes for kem = 'mlkem768-x25519'"),
    ):
        with pytest.raises(ValueError, match=words):
            small_task(20, 12, 6, public_keys=keys, windows=3, period=3600)
    many = [number.to_bytes(1216) for number in range(1, 700)]
    with pytest.raises(ValueError, match="must have fewer keys"):
        small_task(20, 12, 6, public_keys=tuple(many), windows=700, period=3600)
    curve = tuple(number.to_bytes(32) for number in range(10_000))
    assert small_task(20, 12, 6, public_keys=curve, windows=10_000, period=60, kem=X25519)
    assert task.at(1).bound[:-4] == task.id


@pytest.fixture
def world(world_of):
    """Three windows of an hour, the first of which is open; a key for each."""
    return world_of(rotating(3, 3))


@pytest.fixture
def clock(world, date):
    """The hours since the first window opened."""

    def set_to(hours):
        date.now = world.task.opens + timedelta(hours=hours)

    set_to(0)
    return set_to


def filled(world, window):
    reports = [world.report(1, window) for _ in range(14)]
    world.send_all(reports, window)
    return reports[0].parts[1]


def secrets_of(key):
    """Return all in which a private key may be written, or from which it follows."""
    expanded = hashlib.shake_256(key.raw).digest(96)
    halves = (key.raw, key.raw[:16], expanded[:32], expanded[32:64], expanded[64:])
    texts = (tokens.to_text(key.raw)[:20], tokens.to_text(key.raw)[22:])
    return [*halves, *(one.hex().encode() for one in halves), *(one.encode() for one in texts)]


def found_in(folder, key):
    """Return the names of files in which anything of a private key is."""
    wanted = secrets_of(key)
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.name for path in files if any(one in path.read_bytes() for one in wanted)}


@pytest.mark.slow
def test_nothing_opens_a_recorded_envelope_after_its_window_is_over(world, clock):
    recorded = []
    for window in range(2):
        clock(window)
        recorded.append(filled(world, window))
    analyzer, own = world.parties[0], world.folder / "analyzer"
    for window, envelope in enumerate(recorded):
        assert unseal(envelope, KEYS[window], world.task.at(window), 1, 0)
    assert world.party(0, 0).release().estimate == 14
    assert found_in(own, KEYS[0]) == {"private-key"}
    analyzer.expire(endpoint.now())
    assert analyzer.config.keys.remaining == {1, 2}
    assert not found_in(world.folder, KEYS[0])
    with pytest.raises(OSError, match="no private key in line 1"):
        analyzer.config.keys.read(0)
    for window in range(3):
        for key in (1, 2):
            with pytest.raises(ValueError, match="could not be decrypted"):
                unseal(recorded[0], analyzer.config.keys.read(key), world.task.at(window), 1, 0)
    # others are as they were, also after a restart
    analyzer.end()
    world.start(0)
    assert world.parties[0].config.keys.remaining == {1, 2}
    assert world.party(0, 1).release().estimate == 14
    world.parties[0].expire(endpoint.now())
    assert not found_in(world.folder, KEYS[1])
    assert found_in(own, KEYS[2]) == {"private-key"}


def test_an_envelope_of_a_window_does_not_open_with_the_key_of_another(world):
    report = world.report(1, 1)
    assert unseal(report.parts[1], KEYS[1], world.task.at(1), 1, 0)
    for key, window in ((0, 1), (2, 1), (1, 0)):
        with pytest.raises(ValueError, match="could not be decrypted"):
            unseal(report.parts[1], KEYS[key], world.task.at(window), 1, 0)


@pytest.mark.slow
def test_a_key_of_two_windows_is_erased_when_both_are_over(world_of):
    world = world_of(rotating(3, 2))  # the first key is for two of them
    filled(world, 1)
    world.party(0, 1).release()
    keys = world.parties[0].config.keys
    world.parties[0].expire(endpoint.now())
    assert keys.remaining == {0, 1}
    with pytest.raises(Stopped, match="0 reports are complete"):
        world.party(0, 0).release()
    world.parties[0].expire(endpoint.now())
    assert keys.remaining == {1}


def test_windows_that_were_never_released_lose_their_keys_when_they_expire(world, clock, caplog):
    filled(world, 0)
    keys = world.parties[0].config.keys
    keep = world.parties[0].config.keep / timedelta(hours=1)
    for hours, left in ((keep + 0.9, {0, 1, 2}), (keep + 1, {1, 2}), (keep + 3, set())):
        clock(hours)
        world.parties[0].expire(endpoint.now())
        world.parties[0].expire(endpoint.now())
        assert keys.remaining == left
    assert not any(found_in(world.folder, key) for key in KEYS)


@pytest.mark.slow
def test_a_clock_that_is_ahead_for_a_while_deletes_nothing(world, monkeypatch):
    """Neither reports nor keys; once it has run evenly for an hour, what expired is deleted."""
    keep = (world.task.closes + world.parties[0].config.keep - world.task.opens).total_seconds()
    running, ahead, left = 60.0, 0.0, []
    monkeypatch.setattr(
        endpoint, "now", lambda: world.task.opens + timedelta(seconds=running + ahead)
    )
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: running))
    filled(world, 0)

    class Over:
        """The seconds until something of the first window was deleted."""

        def wait(self, seconds):
            nonlocal running, ahead
            running += seconds
            ahead = keep if 7200 <= running < 7212 or running >= 9000 else 0.0
            left.append(
                (running, world.party(1).count("report"), *world.parties[0].config.keys.remaining)
            )
            return running > 14_000

    steady = server.SteadyClock()
    server._repeat(lambda party: party.expire(steady.now()), world.parties, Over())
    kept = [time for time, *rest in left if rest == [14, 0, 1, 2]]
    assert kept[-1] == pytest.approx(9000 + server.STEADY_SECONDS, abs=2 * server.LOOK_SECONDS)
    assert left[-1][1:] == (0,)


def test_a_party_whose_work_fails_stops_no_other(caplog):
    done, over = [], SimpleNamespace(is_set=lambda: False, wait=lambda _: len(done) == 3)

    def work(party):
        if party == "bad":
            raise OverflowError("with secrets")
        done.append(party)

    server._repeat(work, {"first": "bad", "second": "good"}, over)
    assert done == ["good"] * 3
    assert caplog.messages == ["task first: an error of the program: OverflowError"]


def test_erasing_is_repeated_and_touches_no_other_key(world, caplog):
    """It may be cut off by a loss of power, or the file be another than it was."""
    path, task = world.folder / "analyzer" / "private-key", world.task
    keys, whole = world.parties[0].config.keys, path.read_bytes()
    world.parties[0]._is_gone = lambda window, _: window == 1
    path.write_bytes(b"\n" + whole)
    for _ in range(2):
        world.parties[0].expire(endpoint.now())
    assert caplog.text.count("a private key stays") == 1
    assert path.read_bytes() == b"\n" + whole
    lines = whole.split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"." * 20 + lines[1][20:], *lines[2:]]))
    world.parties[0].end()
    world.start(0)
    world.parties[0]._is_gone = lambda window, _: window == 1
    assert world.parties[0].config.keys.remaining == {0, 1, 2}
    world.parties[0].expire(endpoint.now())
    assert path.read_bytes() == b"\n".join([lines[0], b"." * 43, *lines[2:]])
    assert PartyConfig.read(path.parent).keys.remaining == {0, 2}
    assert keys.read(2).raw == KEYS[2].raw
    assert PrivateKey(KEYS[2].raw).public_bytes == task.public_keys[2]
