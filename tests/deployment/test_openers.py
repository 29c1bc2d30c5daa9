"""Processes that open envelopes: the same sums as in one, and nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from deployment_tasks import KEY, small_task

from ikos import Box
from ikos.deployment import openers
from ikos.deployment.analyzer import Stopped
from ikos.deployment.hpke import info, seal
from ikos.deployment.opening import X25519, PrivateKey
from ikos.deployment.reports import ClientReport

TASK = small_task(columns=40, values=(("domain", Box(5, 0, 3)), ("layout", "group")))
CURVE = PrivateKey(KEY.raw, X25519)
SHORT = small_task(kem=X25519, public_keys=(CURVE.public_bytes,))


@pytest.fixture
def two(monkeypatch):
    """Two processes for any two envelopes."""
    monkeypatch.setattr(openers, "ENOUGH", 1)
    monkeypatch.setattr(openers, "cores", lambda: 2)


@pytest.fixture
def started(monkeypatch):
    """The processes that were started."""
    made = []

    class Noted(subprocess.Popen):
        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            made.append(self)

    monkeypatch.setattr(openers.subprocess, "Popen", Noted)
    return made


def chunks(task, damaged=()):
    """Twelve chunks of two envelopes; in each of those that are damaged, one does not open."""
    q, dimension = task.modulus, task.blocks[0]
    for number in range(12):
        sealed = [seal([q - 1 - number] * dimension, task.at(0), 1, 0) for _ in range(2)]
        if number in damaged:
            sealed[1] = sealed[1][:-1] + bytes([sealed[1][-1] ^ 1])
        yield number, b"".join(sealed), info(task.at(0), 1, 0).hex(), len(sealed[0]), dimension


@pytest.mark.points(1)
@pytest.mark.parametrize(("task", "key"), [(TASK, KEY), (SHORT, CURVE)], ids=["hybrid", "x25519"])
def test_processes_find_what_one_does(two, started, task, key):
    made = list(chunks(task, {3, 7}))
    with openers.openers(key, task, 1) as here:
        alone = list(here(made))
    assert not started
    with openers.openers(key, task, 24) as add_up:
        assert list(add_up(made)) == list(add_up(iter(made))) == alone
    for number, opened, sums in alone:
        assert opened == 2 - (number in {3, 7})
        assert sums == [opened * (task.modulus - 1 - number)] * task.blocks[0]
    assert [one.returncode for one in started] == [-signal.SIGKILL] * 2


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="read from /proc")
def test_other_programs_do_not_see_the_key(two, started):
    with openers.openers(KEY, TASK, 24) as add_up:
        assert len(list(add_up(chunks(TASK)))) == 12
        for one in started:
            for name in ("cmdline", "environ"):
                found = Path(f"/proc/{one.pid}/{name}").read_bytes()
                assert found
                assert KEY.raw.hex().encode() not in found


def test_a_process_that_is_killed_is_an_error_and_no_result(two, started):
    with openers.openers(KEY, TASK, 24) as add_up:
        found = add_up(chunks(TASK))
        next(found)
        started[0].kill()
        started[0].wait()
        with pytest.raises(OSError, match="a process that opens envelopes has ended"):
            list(found)
    assert all(one.returncode == -signal.SIGKILL for one in started)


def test_an_interruption_leaves_no_process(two, started):
    def interrupted():
        with openers.openers(KEY, TASK, 24) as add_up:
            next(add_up(chunks(TASK)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all(one.returncode == -signal.SIGKILL for one in started)


PARENT = """
import signal
from deployment_tasks import KEY, small_task
from ikos.deployment import openers
openers.ENOUGH, openers.cores = 1, lambda: 2
Popen = openers.subprocess.Popen
class Told(Popen):
    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        print(self.pid, flush=True)
openers.subprocess.Popen = Told
with openers.openers(KEY, small_task(), 2):
    signal.pause()
"""


@pytest.mark.slow
def test_they_end_if_the_program_is_killed():
    """They hold the key: none may be left, though nobody ended them."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:  # fmt: skip
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
    until = time.monotonic() + 10
    while pids and time.monotonic() < until:
        for pid in list(pids):
            with suppress(ProcessLookupError):
                os.kill(pid, 0)
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    continue
            pids.remove(pid)
        time.sleep(0.01)
    assert not pids


@pytest.mark.slow
@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize("damage", [0, 1, 2], ids=["none", "an envelope", "and a double one"])
def test_a_release_with_processes_is_that_without(world_of, two, started, damage):
    world = world_of(small_task(20, 12, 6))
    reports = [world.report(1) for _ in range(14)]
    parts = [list(report.parts) for report in reports[:3]]
    if damage:
        parts[0][2] = parts[0][2][:-1] + bytes([parts[0][2][-1] ^ 1])
    if damage > 1:
        parts[1][2] = parts[2][2]
    reports[:3] = [
        ClientReport(report.id, tuple(own)) for report, own in zip(reports[:3], parts, strict=True)
    ]
    world.send_all(reports)
    if damage:
        words = (
            f"^{damage} envelopes of shuffler 2 .* or are duplicates, and .*; nothing is released"
        )
        with pytest.raises(Stopped, match=words):
            world.analyzer.release()
    else:
        assert world.analyzer.release().estimate == 14
    assert len(started) == 2
