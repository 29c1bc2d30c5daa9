"""Parties that are asked at once, and work that is stopped while it waits for one."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from ikos.deployment.remote import in_parallel


def test_errors_of_some():
    def ask(party):
        if party == 2:
            raise TimeoutError("late")
        return str(party)

    found = dict(in_parallel(ask, range(1, 5)))
    assert isinstance(found.pop(2), TimeoutError)
    assert found == {1: "1", 3: "3", 4: "4"}
    assert list(in_parallel(ask, [])) == []


def test_no_more_than_that_many():
    most, now, lock = [0], [0], threading.Lock()

    def ask(_):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.01)
        with lock:
            now[0] -= 1

    assert len(list(in_parallel(ask, range(20), 3))) == 20
    assert 1 <= most[0] <= 3


@pytest.mark.slow
def test_a_program_that_ends_waits_for_nobody():
    """Not for who is asked, and not for work that is tried again later."""
    program = """
import threading, time
from ikos.deployment.remote import in_parallel
from ikos.deployment.retry import RetryLoop
asked = threading.Event()
def ask(party):
    asked.set()
    threading.Event().wait()
work = RetryLoop("release", lambda step: list(in_parallel(ask, [1, 2])) and None)
work.begin()
asked.wait()
work.end()
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
