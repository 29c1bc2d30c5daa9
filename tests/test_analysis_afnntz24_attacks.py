"""The programs of AFNNTZ24's single message and attacks, and their figures."""

from __future__ import annotations

import csv
import importlib
import math
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import page, prose, rows

pytest.importorskip("matplotlib")

from analysis.plots import afnntz24_attacks as plots
from ikos.results.sums import at_least

ROOT = Path(__file__).resolve().parents[1]


def program(name):
    return importlib.import_module(f"analysis.{name}")


def run(module, *arguments):
    return CliRunner().invoke(module.command, list(map(str, arguments)))


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_single_message_quick(tmp_path):
    module = program("afnntz24_single_message")
    assert run(module, "--quick", "--output", tmp_path).exit_code == 0
    rows = table(tmp_path / "afnntz24-single-message.csv")
    assert {int(row["d"]) for row in rows} == set(module.DIMENSIONS)
    for row in rows:
        assert 0 < float(row["floor"]) < float(row["mse"])
        assert float(row["published"] or "inf") > float(row["mse"])
        if int(row["runs"]):
            assert float(row["expected"]) <= float(row["mse"]) * (1 + 1e-9)
            # the mean of a few chi-square variables of d degrees: far inside for both
            assert 0.01 < float(row["measured"]) / float(row["expected"]) < 20
    assert (tmp_path / "afnntz24-single-message.png").stat().st_size > 10_000


@pytest.mark.slow
def test_attacks_quick(tmp_path):
    module = program("afnntz24_attacks")
    assert run(module, "--quick", "--output", tmp_path).exit_code == 0
    rows = table(tmp_path / "afnntz24-reconstruction.csv")
    for row in rows:
        assert int(row["sets"]) == math.comb(module.USERS * int(row["k"]), int(row["k"]))
        if row["d"] == "8":
            assert float(row["own"]) < float(row["other"])
    for row in table(tmp_path / "afnntz24-poisoning.csv"):
        # the others' rounding is left
        reach = math.sqrt(float(row["at_most"])) + 2
        assert math.sqrt(float(row["measured"])) <= reach
    for name in ("afnntz24-reconstruction.png", "afnntz24-poisoning.png"):
        assert (tmp_path / name).stat().st_size > 10_000


# What the documentation shows


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_slopes_are_the_programs(monkeypatch):
    """Three of the six dimensions, each of which takes a quarter of a minute."""
    module = program("afnntz24_single_message")
    monkeypatch.setattr(module, "DIMENSIONS", (1, 3, 6))
    found = module.points(*module.settings(quick=False), 1, lambda: None)
    ((head, body),) = rows(module._slopes(found)).items()
    shown = rows(page("vector-protocols.md"))[head]
    assert [row[0] for row in shown] == list("123456")
    assert [row for row in shown if row[0] in "136"] == body


@pytest.mark.slow
def test_the_documentations_poisoning_is_the_programs():
    module = program("afnntz24_attacks")
    tables = rows(page("vector-protocols.md"))
    shown = next(body for head, body in tables.items() if "ten users" in head)
    made = []
    for case in module._attacked(512, 1):
        if not case.name.startswith("Kashin"):
            continue
        for s in (1, 16, 256, 1024):
            found = module.poisoned(case, s, 1)
            made.append((found.attacked, found.limit))
    cells = [tuple(f"{x:,.0f}" if x > 10 else f"{x:.1f}" for x in pair) for pair in made]
    assert shown == [(f"{s:,}", *cells[i], *cells[i + 4]) for i, s in enumerate((1, 16, 256, 1024))]


@pytest.mark.slow
def test_the_documentations_dishonest_users_are_the_programs():
    (grid, kashin) = program("afnntz24_attacks").dishonest(1)
    text = prose(page("vector-protocols.md"))
    assert f"that was {kashin[1]:,} messages;" in text
    assert f"moved the estimate by {kashin[2]:,.0f}, where" in text
    assert f"with the same users moves by at most {at_least(grid[3], 2)}." in text


def test_the_documentations_floors_are_the_programs():
    rows = {(n, d): rest for n, d, *rest in program("afnntz24_attacks").floors()}
    moved = [f"{rows[10**8, d][2]:.0f}" for d in (10**6,)]
    assert f"12.5 for d = 10^4, and {moved[0]} for d = 10^6" in prose(page("vector-protocols.md"))
    assert all(f"{rows[n, 10**4][2]:.1f}" in ("12.4", "12.5") for n in (10**4, 10**6, 10**8))


def test_slopes():
    module = program("afnntz24_single_message")
    assert module.exponent([1, 10, 100], [2, 20, 200]) == pytest.approx(1)


@pytest.mark.slow
def test_one_dishonest_user_is_limited_by_one_message_alone():
    module = program("afnntz24_attacks")
    grid, kashin = module.dishonest(1)
    assert grid[2] == pytest.approx(grid[3])
    assert math.isinf(kashin[3])
    assert kashin[2] > 100 * grid[2]


def test_the_floors():
    module = program("afnntz24_attacks")
    rows = {(n, d): rest for n, d, *rest in module.floors()}
    assert 249e6 < rows[10**8, 10**6][3] < 250e6
    assert rows[10**8, 10**6][4] == 12.5e12
    for messages, sums, moved, counters, tokens in rows.values():
        assert messages >= 1
        assert sums >= 1
        assert moved > 0
        assert counters < tokens


def test_figures_name_what_they_draw():
    curve = plots.GridCurve(2, (1e4, 1e6), (20.0, 200.0), (0.1, 1.0), ((1e4, 15.0),))
    figure = plots.single_message_figure([curve], [curve], "Errors", "note")
    lines = {line.get_gid(): line for line in figure.axes[0].get_lines()}
    assert list(lines["bound"].get_ydata()) == [20, 200]
    assert list(lines["floor"].get_ydata()) == [0.1, 1]
    assert list(lines["measured"].get_ydata()) == [15]
    panel = plots.ReconstructionPanel((1, 2), ((0.1, 0.2, 0.3),) * 2, ((0.5, 0.6, 0.7),) * 2, 0.25)
    figure = plots.reconstruction_figure({"split": {2: panel}}, "Attack", "note")
    lines = {line.get_gid(): line for line in figure.axes[0].get_lines()}
    assert list(lines["own"].get_ydata()) == [0.2, 0.2]
    assert list(lines["other"].get_ydata()) == [0.6, 0.6]
    assert set(lines["limit"].get_ydata()) == {0.25}
    for wrong in (
        lambda: plots.single_message_figure([], [curve], "", ""),
        lambda: plots.reconstruction_figure({}, "", ""),
    ):
        with pytest.raises(ValueError, match="must hold"):
            wrong()
