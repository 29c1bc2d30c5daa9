"""The programs that compare Lemma C.5 with the law, and compute the page on random graphs."""

from __future__ import annotations

import csv
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ikos.graphs import enclosed_law
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]


def program(name):
    return importlib.import_module(f"analysis.{name}")


@pytest.fixture(scope="module")
def figures():
    return program("random_graphs")


# Tables and figures


@pytest.mark.slow
def test_intervals_of_rare_events_hold_the_exact_chances(figures, tmp_path):
    arguments = ["--quick", "--output", str(tmp_path)]
    assert CliRunner().invoke(figures.command, arguments).exit_code == 0
    with (tmp_path / "rare-components.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [tuple(int(row[key]) for key in ("n", "m", "c")) for row in rows] == list(figures.RARE)
    for row in rows:
        n, m, c = (int(row[key]) for key in ("n", "m", "c"))
        found = {key: float(value) for key, value in row.items() if value}
        assert found["low"] <= found["estimate"] <= found["high"]
        law = enclosed_law(n, m, min(n, c + 12))
        assert found["exact"] == pytest.approx(float(sum(e.high for e in law[c - 1 :])), rel=1e-9)
        assert found["low"] <= found["exact"] <= found["high"]
        assert found["seen_low"] <= found["exact"] <= found["seen_high"]


def test_what_is_drawn_shows_what_the_page_says(figures):
    from ikos.graphs import count_components, sample_targets

    counts = {}
    for name, n, m, clear, seed in figures.DRAWN:
        targets = sample_targets(n, m, rng=DeterministicRandom(seed))
        found = count_components(targets, clear_share=clear)
        counts[name] = int(found.counts[0]), int(found.alone[0])
    assert counts["graph-connected"] == (1, 0)
    assert counts["graph-components"] == counts["graph-bipartite"] == (3, 1)


def scripts():
    text = (ROOT / "docs" / "random-graphs.md").read_text(encoding="utf-8")
    return re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_the_pages_scripts_run(number, tmp_path):
    """They start processes, which the other blocks of the documentation do not."""
    if number:
        pytest.importorskip("distributed")
    script = tmp_path / "script.py"
    script.write_text(scripts()[number], encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    counts = dict(re.findall(r"(\d+): (\d+)", ended.stdout))
    assert sum(map(int, counts.values())) == 1_000_000
    assert int(counts["2"]) == pytest.approx(2518, abs=400)
