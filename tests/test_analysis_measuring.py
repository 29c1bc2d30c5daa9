"""Programs that measure this machine: what they print, in small."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner


@pytest.fixture(name="program")
def fixture_program() -> Callable[[str], ModuleType]:
    return lambda name: importlib.import_module(f"analysis.{name}")


# Vectors


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


# Large sums


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_sum_holds_a_column_for_each_thread(program, tmp_path):
    n = 2 * 10**6
    arguments = ["--kind", "secure", "--users", str(n), "--repeats", "2", "--output", str(tmp_path)]
    assert CliRunner().invoke(program("large_sums").command, arguments).exit_code == 0
    with (tmp_path / "large-sums.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            # the last shares and a column for each thread, and what threads and imports need
            assert 1.9 < float(row["memory"]) / (8 * n) < 1 + int(row["threads"]) + 4
    assert not list(tmp_path.glob("*.npy"))
