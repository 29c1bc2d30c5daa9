"""Programs that measure this machine: what they print, in small."""

from __future__ import annotations

import csv
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
on_linux = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is read from /proc"
)


@pytest.fixture(name="program")
def fixture_program() -> Callable[[str], ModuleType]:
    return lambda name: importlib.import_module(f"analysis.{name}")


def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"analysis.{name}", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


# Vectors


@pytest.mark.slow
@on_linux
def test_runs_of_vector_protocols_are_measured_and_written(tmp_path: Path) -> None:
    names = ["privkv", "grid"]
    chosen = [word for name in names for word in ("--protocol", name)]
    done = run("vector_runs", "--quick", *chosen, "--output", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with (tmp_path / "vector-runs.csv").open(newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert list(rows) == names
    for row in rows.values():
        assert 0 < float(row["seconds"]) < 60
        assert float(row["core_seconds"]) > 0
        assert 0 <= int(row["memory"]) < 10**9
    assert int(rows["privkv"]["data"]) == 2000 * 32
    assert (rows["grid"]["users"], rows["grid"]["coordinates"]) == ("2000", "8")
    table = (tmp_path / "vector-runs.md").read_text(encoding="utf-8")
    assert done.stdout.startswith(table.splitlines()[0])
    assert table.count("\n|") == len(names) + 2


@pytest.mark.slow
def test_every_protocol_takes_its_vectors(program: Callable[[str], ModuleType]) -> None:
    module = program("vector_runs")
    for name, run in module.RUNS.items():
        if name not in ("sampled-32", "sampled-all"):  # the others search for seconds
            run.make(2000, 32).run(module._vectors(run.data, 2000, 32))


# Mixing


def test_ways_of_mixing_keep_the_messages(program: Callable[[str], ModuleType]) -> None:
    module = program("mixing_ways")
    x = np.random.default_rng(0).integers(0, 2**64, 1000, dtype=np.uint64)
    there, held = np.sort(x), x.copy()
    for way in module.WAYS.values():
        assert np.array_equal(np.sort(way(x)), there)
        assert np.array_equal(x, held)
    for parts in (2, 4, 16):
        assert np.array_equal(module.in_parts(x, parts), there)
    assert (np.diff((module.scattered(x, 8) >> np.uint64(56)).astype(int)) >= 0).all()
    assert not np.array_equal(module.scattered(x, 8), there)


def test_ways_of_mixing_are_measured_and_written(
    program: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    module = program("mixing_ways")
    arguments = ["--quick", "--repeats", "2", "--output", str(tmp_path)]
    made = CliRunner().invoke(module.command, arguments)
    assert made.exit_code == 0, made.output
    text = (tmp_path / "mixing-ways.md").read_text(encoding="utf-8")
    assert "the least of 2 runs" in text
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    assert [cells[0].strip() for cells in rows[2:]] == list(module.WAYS)
    assert all(float(cell) > 0 for cells in rows[2:] for cell in cells[1:])


# Workers of Dask


@on_linux
@pytest.mark.slow
def test_sums_on_workers_are_measured_beside_threads(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    arguments = ["--kind", "private", "--users", 200_000, "--threads", 1, "--workers", 1]
    done = run("large_sums", "--quick", *arguments, "--output", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = (tmp_path / "large-sums.md").read_text(encoding="utf-8").split("\n\n")[1:]
    assert "| threads |" in first
    (row,) = second.splitlines()[2:]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:3] == ["200,000", "1"]
    assert all(0 < float(cell.removesuffix(" s")) < 120 for cell in cells[3:])
