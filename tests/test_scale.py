"""Large sums: exact, in memory that the operating system measures, and ended by Ctrl-C.

Each runs in a fresh interpreter, whose peak memory is its own; values come from an iterator or
from files, so that no input is counted with it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pages import page, prose

from ikos.primitives.mixing import MESSAGES_IN_MEMORY

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)

MIB = 1 << 20
SLACK = 96 * MIB  # blocks of values under way, threads' stacks, what the allocator keeps

PRELUDE = """
import json, sys, threading
import numpy as np
import ikos

def peak():
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))

def blocks(n, factor, size=1 << 18):
    '''User i has factor * i modulo 2^64.'''
    for start in range(0, n, size):
        yield np.arange(start, min(n, start + size), dtype=np.uint64) * np.uint64(factor)

base = peak()
"""

FACTOR = 0x9E3779B97F4A7C15


def child(code: str, *arguments: object) -> dict:
    """Run code in a fresh interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def truth(n: int) -> int:
    return FACTOR * (n * (n - 1) // 2) % 2**64


def said(words: str) -> float:
    """Return a number of the documentation's page."""
    found = re.search(words, prose(page("scale.md")))
    assert found is not None
    return float(found[1])


SUM = f"""
n, m, threads = map(int, sys.argv[1:4])
protocol = ikos.SecureSum(n, 2**64, messages=m)
z = protocol.run(blocks(n, {FACTOR}), threads=threads)
print(json.dumps(dict(z=z, base=base, peak=peak(), alive=threading.active_count())))
"""


@pytest.mark.slow
def test_a_hundred_million_users_within_eight_gibibytes():
    found = child(SUM, 10**8, 8, 2)
    assert found["z"] == truth(10**8)
    assert found["peak"] < 8 << 30
    assert found["peak"] / 1e9 == pytest.approx(said(r"q = 2\^64 took (.*?) GB on two"), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_memory_is_the_last_row_and_one_column(threads):
    n, m = 10**7, 16
    found = child(SUM, n, m, threads)
    assert found["z"] == truth(n)
    # Values that come one by one are held twice when they are put together. Then there are the
    # last row and a column.
    assert found["peak"] - found["base"] < 8 * n * 2 + SLACK
    assert found["alive"] == 1
    assert 8 * n * 2 + SLACK < 8 * n * m / 2  # far from all the messages


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_private_sum_of_a_long_array_holds_one_column(threads):
    code = """
n, threads = map(int, sys.argv[1:3])
protocol = ikos.PrivateSum(n, 1, 1e-12)
result = protocol.run(np.broadcast_to(0.5, n), threads=threads)
print(json.dumps(dict(estimate=result.estimate, base=base, peak=peak())))
"""
    found = child(code, 10**8, threads)
    # nothing is rounded, and the noise has a standard deviation of 1.5
    assert found["estimate"] == pytest.approx(10**8 / 2, abs=1000)
    assert found["peak"] - found["base"] < 8 * 10**8 + SLACK


@pytest.mark.slow
def test_a_single_shuffler_does_not_hold_all_of_its_messages():
    n, m = 2 * 10**7, 24
    code = f"""
n, m = map(int, sys.argv[1:3])
protocol = ikos.SecureSum(n, 2**64, messages=m, shuffler="single", clear_share=False)
pieces = []
z = protocol.run(blocks(n, {FACTOR}), threads=1, progress=lambda *p: pieces.append(p))
print(json.dumps(dict(z=z, base=base, peak=peak(), pieces=pieces)))
"""
    found = child(code, n, m)
    assert found["z"] == truth(n)
    parts = -(-n * m // MESSAGES_IN_MEMORY)
    assert found["pieces"] == [[k, parts] for k in range(1, parts + 1)]
    # The last row, and a range to be sorted.
    bound = 8 * n + 8 * MESSAGES_IN_MEMORY + SLACK
    assert found["peak"] - found["base"] < bound < 8 * n * m
    assert found["peak"] / 1e9 == pytest.approx(said("messages, took (.*?) GB on one"), abs=0.1)


# A private sum of a folder


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory):
    """Ten million values in [0, 100] in a folder of Parquet files, and their sum."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path_factory.mktemp("scale") / "people"
    folder.mkdir()
    rng, total = np.random.default_rng(5), 0.0
    for number in range(8):
        values = rng.uniform(0, 100, 10**7 // 8)
        total += float(values.sum())
        table = pa.table({"age": values})
        parquet.write_table(table, folder / f"part-{number}.parquet", compression="none")
    return folder, total


@pytest.mark.slow
def test_a_private_sum_of_ten_million_users_in_a_folder(folder):
    path, total = folder
    n = 10**7
    code = """
from ikos.data.tables import open_column
column = open_column(sys.argv[1], "age")
protocol = ikos.PrivateSum(column.rows, 1, 1e-12, lower=0, upper=100)
result = protocol.run(column.blocks())
low, high = result.interval(1 - 1e-9)
print(json.dumps(dict(
    rows=column.rows, low=low, high=high, estimate=result.estimate, base=base, peak=peak(),
    messages=protocol.messages.total,
)))
"""
    found = child(code, path)
    assert found["rows"] == n
    assert found["low"] < total < found["high"]
    assert found["high"] - found["low"] < 100 * 100  # a hundred times the bounds' width
    # as above, on two cores, and what pyarrow takes to read
    assert found["peak"] - found["base"] < 8 * n * 5 + SLACK + 300 * MIB


@pytest.mark.slow
def test_the_command_sums_the_same_folder(folder):
    path, total = folder
    options = (
        "--column age --lower 0 --upper 100 --epsilon 1 --delta 1e-12 --confidence 0.999999999"
    )
    code = """
import contextlib, io
from ikos.cli import main
said = io.StringIO()
sys.argv = ["ikos", "sum", *sys.argv[1:], "--json"]
with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
    main()
print(json.dumps(dict(result=json.loads(said.getvalue()), base=base, peak=peak())))
"""
    found = child(code, path, *options.split())
    result = found["result"]
    assert result["users"] == 10**7
    assert result["sum_low"] < total < result["sum_high"]
    assert result["not_private"] is None
    assert found["peak"] - found["base"] < 8 * 10**7 * 5 + SLACK + 300 * MIB


# Ctrl-C

INTERRUPTED = """
import os, signal
from ikos.primitives.concurrency import Interrupted

n, threads, where = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
protocol = ikos.SecureSum(n, 2**64, messages=8)
told, z, caught = [], None, None

def progress(done, whole):
    told.append((done, whole))
    if where == "mixing" and done == 3:
        os.kill(os.getpid(), signal.SIGINT)

def values():
    for number, block in enumerate(blocks(n, 3)):
        if where == "reading" and number == 4:
            os.kill(os.getpid(), signal.SIGINT)
        yield block

try:
    z = protocol.run(values(), threads=threads, progress=progress)
except Interrupted as error:
    caught = error
print(json.dumps(dict(
    z=z, told=told, kind=type(caught).__name__, alive=threading.active_count(),
    **({} if caught is None else dict(
        partial=caught.partial, done=caught.done, trials=caught.trials, text=str(caught))),
)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_in_the_middle(threads):
    found = child(INTERRUPTED, 10**7, threads, "mixing")
    assert found["kind"] == "Interrupted"
    assert found["z"] is found["partial"] is None
    assert found["alive"] == 1
    # the handler runs at the next step of the interpreter: no piece more is told
    assert len(found["told"]) == found["told"][-1][0] == 3 < found["trials"]
    assert found["done"] == 3
    whole = found["trials"]
    assert found["text"] == f"interrupted after 3 of {whole} pieces of the shufflers' output"


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_while_values_are_read(threads):
    found = child(INTERRUPTED, 10**7, threads, "reading")
    assert found["kind"] == "Interrupted"
    assert found["z"] is found["partial"] is None
    assert found["told"] == []
    assert found["done"] == 0
    assert found["alive"] == 1


@pytest.mark.slow
def test_without_ctrl_c_the_same_program_ends_with_the_sum():
    """What the tests above see is the signal's doing."""
    found = child(INTERRUPTED, 10**6, 1, "nowhere")
    assert found["kind"] == "NoneType"
    assert found["z"] == 3 * (10**6 * (10**6 - 1) // 2) % 2**64
