"""The demonstration of the three parties: what it prints, and what is left when it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("httpx", reason="needs the extra ikos[deployment]")

from ikos.cli import demo_deployment as demo
from ikos.data.datasets import load_anes96

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes in /proc"),
]
PROGRAM = [sys.executable, "-m", "ikos.cli.demo_deployment"]


def left(folder):
    """Return the processes that work in a folder, by what they were started with."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text:
            found.append(text)
    return found


def test_the_account(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(PROGRAM, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("$ ikos serve shuffler ") == 5
    flat = " ".join(done.stdout.split())
    assert "All 6 parties have the reports of 944 clients." in flat
    assert "Released: 944 reports, 944 of them complete" in flat
    truth = int(load_anes96("vote").sum())
    assert flat.endswith(f"these data are public: {truth}")
    estimate = int(re.search(r"^  sum +(\d+) ", done.stdout, re.MULTILINE)[1])
    assert abs(estimate - truth) <= 40  # of a standard error below 2
    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_nothing(tmp_path):
    """By SIGTERM, which is made one by Ctrl-C."""
    process = subprocess.Popen(
        PROGRAM, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        while "$ ikos submit" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(1)
        assert len(left(tmp_path)) == 7
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert f"{demo.NAME}: error: interrupted\n" in err
    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
