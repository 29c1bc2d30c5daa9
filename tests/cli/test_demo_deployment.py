"""The demonstration of the three parties: its account, and what is left when it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("httpx", reason="needs the extra ikos[deployment]")

from ikos.cli import demo_deployment as demo
from ikos.datasets import load_anes96

LINUX = pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes in /proc")


def small(clients, before="pass"):
    """Return a command that runs the demonstration with fewer clients and a smaller task."""
    text = (
        f"from ikos.cli import demo_deployment as demo; demo.CLIENTS = {clients}; "
        f"demo.MIN_HONEST = {clients - 10}; demo.DELTA = '0.5'; demo.EPSILON = 10; {before}; "
        "demo.execute(demo.command, demo.NAME)"
    )
    return [sys.executable, "-c", text]


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


def run(command, folder, timeout=300):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip


@LINUX
@pytest.mark.slow
def test_the_account(tmp_path):
    done = run(small(100), tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(demo.NAME) for line in done.stderr.splitlines())
    text, flat = done.stdout, " ".join(done.stdout.split())
    assert max(map(len, text.splitlines())) <= 80
    rows = re.findall(r"^  (analyzer|shuffler \d) +(\d+)$", text, re.MULTILINE)
    assert [int(reports) for _, reports in rows] == [101, 101, 101, 100, 100, 100]
    assert flat.startswith("How many of 100 answers are for Bob Dole (1) rather than Bill ")
    assert "those of the 944 people of the American National Election Study of 1996" in flat
    assert "100 of 101 reports are complete" in flat
    truth = int(np.resize(load_anes96("vote"), 100).sum())
    assert f"allow to be shown, {truth}." in flat
    estimate = int(re.search(r"The estimated sum is (-?\d+),", flat)[1])
    assert abs(estimate - truth) <= 5  # of a standard error of a hundredth
    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@LINUX
@pytest.mark.slow
def test_an_interruption_leaves_nothing(tmp_path):
    """By SIGTERM, which is made one by Ctrl-C."""
    process = subprocess.Popen(
        small(5000), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        while "clients report" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(1)
        assert len(left(tmp_path)) == 6
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err == f"{demo.NAME}: error: interrupted\n"
    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@LINUX
@pytest.mark.slow
def test_a_party_that_does_not_start(tmp_path):
    taken = "import socket; held = socket.create_server(('127.0.0.1', 0)); " \
        "demo._free_ports = lambda count, real=demo._free_ports: " \
        "[held.getsockname()[1], *real(count - 1)]"  # fmt: skip
    done = run(small(100, taken), tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        f"{demo.NAME}: error: the analyzer does not answer: .*address already in use",
        done.stderr.splitlines()[-1],
    )
    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.points(1)
@pytest.mark.parametrize("missing", ["httpx", "uvicorn", "cryptography.hazmat.primitives.hpke"])
@pytest.mark.slow
def test_without_the_extra(tmp_path, missing):
    text = (
        f"import sys; sys.modules[{missing!r}] = None; import runpy; sys.argv = ['demo']; "
        "runpy.run_module('ikos.cli.demo_deployment', run_name='__main__')"
    )
    done = run([sys.executable, "-c", text], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"{demo.NAME}: error: this needs the extra 'deployment': pip install 'ikos[deployment]'\n"
    )
    assert list(tmp_path.iterdir()) == []
