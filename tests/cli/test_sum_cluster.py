"""``ikos sum`` on a cluster: what it prints is what it prints here, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from ikos.cluster import connection

distributed = pytest.importorskip("distributed")

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
AGE = ("--column", "age", "--lower", "0", "--upper", "100", "--epsilon", "1", "--delta", "1e-6")
NO_PORT = "tcp://127.0.0.1:1"


@pytest.fixture(scope="module")
def address():
    """Where a scheduler listens that has a worker."""
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        memory_limit=0,
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    ) as local:
        yield local.scheduler_address


def table(path, ages):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.table({"age": ages}), path)
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder of two tables of 500 people, which workers read."""
    ages = 20 + np.arange(1000) % 50
    table(tmp_path / "people" / "a.parquet", ages[:500])
    return table(tmp_path / "people" / "b.parquet", ages[500:]).parent


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("read", ["by workers", "here"])
def test_a_scheduler_gives_what_this_process_gives(run, address, folder, people, read):
    """Every field: with a seed, one file is a block of users here and there."""
    file = folder / "a.parquet" if read == "by workers" else people
    here, there = (
        run("sum", file, *AGE, "--json", *options).json
        for options in ((), ("--scheduler", address))
    )
    assert here == there
    assert here["users"] == (500 if read == "by workers" else 1000)


def test_the_truth(run, address, folder):
    options = ("--show-true", "--scheduler", address)
    found = run("sum", folder, *AGE, *options, "--json").json
    assert found["not_private"]["true_sum"] == 44500
    assert found["not_private"]["sum_error"] == found["sum"] - 44500


def test_a_bad_value_on_a_worker(refused, address, folder):
    table(folder / "b.parquet", [30] * 400 + [101] + [30] * 99)
    said = refused("sum", folder, *AGE, "--scheduler", address)
    assert re.fullmatch(
        r"'\S+b\.parquet': row 401 has a value in column 'age', outside \[0, 100\]; give "
        r"public bounds that hold every value, or --on-out-of-range clamp",
        said,
    )


@pytest.mark.slow
def test_an_address_where_nobody_is(refused, folder, monkeypatch):
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.5)
    said = refused("sum", folder, *AGE, "--scheduler", NO_PORT)
    assert said.startswith(f"--scheduler: no scheduler answers at '{NO_PORT}': ")


@pytest.mark.parametrize("option", [("--workers", "2"), ("--scheduler", NO_PORT)])
def test_without_dask(refused, folder, monkeypatch, option):
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = refused("sum", folder, *AGE, *option)
    assert said == "a cluster needs Dask, which is not installed: pip install 'ikos[cluster]'"


PROGRAM = """
import os, signal, sys
from contextlib import contextmanager
from ikos.cli import main
from ikos.cluster import connection, driver

def now(*_):
    os.killpg(0, signal.SIGINT)  # all processes, as a terminal does

where = sys.argv.pop(1)
if where == "starting":
    real = connection.interrupts_held
    @contextmanager
    def interrupts_held():
        with real():
            now()
            yield
    connection.interrupts_held = interrupts_held
elif where == "reading":
    real = driver._DistributedSum.attempt
    def attempt(self, seen):
        now()
        return real(self, seen)
    driver._DistributedSum.attempt = attempt
elif where == "adding":
    real = connection.add_up
    def add_up(*arguments):
        return real(*arguments[:-1], lambda done, _: now() if done == 2 else None)
    connection.add_up = add_up
elif where == "killed":
    real = driver._DistributedSum.attempt
    def attempt(self, seen):
        os.kill(os.getpid(), signal.SIGKILL)
    driver._DistributedSum.attempt = attempt
main()
"""


def program(where, *arguments):
    """Run a program that starts workers; when it has ended, nothing that it started is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, where, *map(str, arguments)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        # a shell lets its background processes, such as these tests may be, ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=180)
        end = time.monotonic() + 30
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.killpg(process.pid, 0)
                assert time.monotonic() < end, "after 30 s a process is there still"
                time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
    return process.returncode, out, err


@POSIX
@pytest.mark.slow
def test_workers_that_are_started_here(run, folder):
    status, out, err = program("whole", "sum", folder, *AGE, "--json", "--workers", "2")
    assert (status, err) == (0, "")
    there, here = json.loads(out), run("sum", folder, *AGE, "--json").json
    assert there.keys() == here.keys()
    random = {"sum", "sum_low", "sum_high", "mean", "mean_low", "mean_high", "rows"}
    assert {key: there[key] for key in here if key not in random} == {
        key: here[key] for key in here if key not in random
    }
    # the noise is beyond this with a probability below 1e-9: 100 / epsilon is its scale
    assert abs(there["sum"] - 44500) < 2500
    assert there["sum_low"] < there["sum"] < there["sum_high"]


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("where", ["starting", "reading", "adding"])
def test_an_interruption_releases_nothing_and_leaves_nothing(folder, where):
    status, out, err = program(where, "sum", folder, *AGE, "--workers", "2")
    assert re.fullmatch(r"ikos sum: interrupted.*; nothing was released\n", err)
    assert (status, out) == (130, "")


@POSIX
@pytest.mark.slow
def test_workers_end_with_a_program_that_is_killed(folder):
    status, out, _ = program("killed", "sum", folder, *AGE, "--workers", "2")
    assert (status, out) == (-signal.SIGKILL, "")
