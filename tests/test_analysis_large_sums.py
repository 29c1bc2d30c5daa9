"""What large sums take: measured in processes of their own."""

from __future__ import annotations

import csv
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from ikos import PrivateSum, SecureSum

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is read from /proc"
)


@pytest.fixture(name="program", scope="module")
def fixture_program():
    return importlib.import_module("analysis.large_sums")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "analysis.large_sums", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_protocols_are_what_the_table_says(program):
    secure, private, colluding = (program.protocol(kind, 10**5) for kind in program.KINDS)
    assert isinstance(secure, SecureSum)
    assert (secure.q, secure.messages.total) == (2**64, 8)
    assert isinstance(private, PrivateSum)
    assert (private.epsilon, private.guarantee.delta) <= (1, 1e-12)
    assert colluding.secure_sum.trust.corrupt_shufflers == 2
    assert colluding.messages.shuffled == private.messages.shuffled + 2


@pytest.mark.slow
def test_rows_are_measured_and_written(tmp_path):
    n = 2 * 10**6
    done = run("--kind", "secure", "--users", n, "--repeats", 2, "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "out" / "large-sums.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert int(rows[0]["threads"]) == 1
    for row in rows:
        columns = float(row["memory"]) / (8 * n)
        # the last shares and a column for each thread, and what threads and imports need
        assert 1.9 < columns < 1 + int(row["threads"]) + 4
        assert 0 < float(row["seconds"]) < 60
        assert float(row["core_seconds"]) > 0
        if row["threads"] == "2":
            assert 0.3 < float(row["at_once"]) < 4
    table = (tmp_path / "out" / "large-sums.md").read_text()
    assert "8 messages" in table
    assert all(f"{float(row['speed_up']):.2f}" in table for row in rows)
    assert not list(Path(tmp_path).glob("*.npy"))


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kind", "public"], "public"),
        (["--users", "1e13"], "80,000.0 GB of disk"),
    ],
)
@pytest.mark.slow
def test_nonsense_is_refused_in_one_line(arguments, said):
    done = run(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
