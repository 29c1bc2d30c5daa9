"""The tables of messages that are enough, and of those that are necessary."""

from __future__ import annotations

import csv
import importlib

import pytest
from click.testing import CliRunner

from ikos.counts import necessary_messages, private_delta


def run(name, folder, *arguments):
    program = importlib.import_module(f"analysis.{name}")
    result = CliRunner().invoke(program.command, [*arguments, "--output", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_necessary_counts_in_every_setting(tmp_path):
    rows = table(run("necessary_messages", tmp_path, "--quick") / "necessary-messages.csv")
    assert len(rows) == 2 * 3 * 3 * 4
    for row in rows:
        how = {"shuffler": row["shuffler"], "clear_share": row["clear_share"] == "True"}
        n, q, sigma = int(row["n"]), 1 << int(row["bits"]), int(row["sigma"])
        assert int(row["necessary"]) == necessary_messages(n, q, sigma, **how)
        assert int(row["floor"]) <= int(row["necessary"]) <= int(row["sufficient"])
        assert sigma <= float(row["level_low"]) <= float(row["level_high"])


@pytest.mark.slow
def test_private_sums_by_higher_moments(tmp_path):
    rows = table(run("higher_moments", tmp_path, "--quick") / "higher-moments.csv")
    totals = [int(row["higher_moments"]) for row in rows]
    assert totals == [7, 5, 6, 5, 5, 5, 4, 5, 5, 4, 4, 4, 5, 5, 4]
    for row, total in zip(rows, totals, strict=True):
        assert int(row["necessary"]) <= total <= int(row["second_moment"])
        assert float(row["delta_of_one_fewer"]) > float(row["delta"])
    first = rows[0]
    asked = (int(first["n"]), int(first["q"]), totals[0] - 1, 1, 10)
    assert float(first["delta_at_100"]) == private_delta(*asked, reserve=0.01)
    grid = (tmp_path / "higher-moments-grid.md").read_text(encoding="utf-8")
    assert "| -" not in grid.split("\n", 4)[-1]  # nowhere more messages than before
