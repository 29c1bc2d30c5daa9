"""The programs that compare Lemma C.5 with the law, and compute the page on random graphs."""

from __future__ import annotations

import csv
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ikos.graphs import (
    Slack,
    Sweep,
    component_bound,
    enclosed_law,
    exact_component_law,
    parts_bound,
    sweep,
)
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]
TABLES = ("component-law", "component-bounds", "rare-components")
FIGURES = (
    "components-parallel", "components-single", "second-moment",
    "graph-connected", "graph-components", "graph-bipartite",
)  # fmt: skip
FILES = {f"{name}.{suffix}" for name in TABLES for suffix in ("md", "csv")} | {
    f"{name}.{suffix}" for name in FIGURES for suffix in ("svg", "png")
}


def program(name):
    return importlib.import_module(f"analysis.{name}")


@pytest.fixture(scope="module")
def lemma():
    return program("lemma_c5")


@pytest.fixture(scope="module")
def figures():
    return program("random_graphs")


def run(module, *arguments):
    return CliRunner().invoke(module.command, list(map(str, arguments)))


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run a program as from a shell and return the one line that it ends with."""

    def refused(module, *arguments, status=2):
        monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            module.main(module.command)
        assert end.value.code == status
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        start, _, message = said.rstrip("\n").partition(": error: ")
        assert start == module.command.name
        return message

    return refused


# Lemma C.5


def test_the_table_and_the_verdict(lemma):
    result = run(lemma, "--users", "19:40", "--messages", "3:4")
    assert result.exit_code == 0
    found = sweep((19, 40), (3, 4))
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +([\d.,]+)$", result.stdout, re.MULTILINE)
    assert len(rows) == 2
    for row, slack in zip(rows, found.smallest, strict=True):
        assert tuple(map(int, row[:3])) == (slack.m, slack.n, slack.c)
        shown = float(row[3].replace(",", ""))
        assert shown <= slack.factor < shown * 1.001
    assert "Holds for n = 19 to 40, m = 3 to 4 and every c:" in result.stdout
    assert f"{found.compared:,} comparisons" in result.stdout


def test_it_compares_the_bound_with_the_law(lemma):
    """The factors, against rationals."""
    result = run(lemma, "--users", "19:22", "--messages", "3", "--json")
    (smallest,) = json.loads(result.stdout)["smallest"]
    factors = {
        (n, c): component_bound(n, 3, c) / float(chance)
        for n in range(19, 23)
        for c, chance in enumerate(exact_component_law(n, 3), 1)
        if c > 1
    }
    n, c = min(factors, key=factors.__getitem__)
    assert (smallest["users"], smallest["components"]) == (n, c)
    assert smallest["factor"] == pytest.approx(factors[n, c], rel=1e-12)


def test_the_other_bound_as_json(lemma):
    options = ("--bound", "parts", "--shuffler", "single", "--no-clear-share")
    result = run(lemma, *options, "--users", "2:12", "--messages", "3", "--json")
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    found = sweep((2, 12), (3, 3), bound="parts", shuffler="single", clear_share=False)
    (slack,) = found.smallest
    assert shown == {
        "bound": "parts",
        "shuffler": "single",
        "clear_share": False,
        "users": [2, 12],
        "messages": [3, 3],
        "compared": found.compared,
        "smallest": [
            {"messages": 3, "users": slack.n, "components": slack.c, "factor": slack.factor}
        ],
        "unproved": [],
        "holds": True,
    }


@pytest.mark.parametrize("many", [1, 12, 100])
def test_a_violation_is_told_and_is_the_exit_status(lemma, monkeypatch, many):
    bad = tuple(Slack(20, 3, c, 0.5) for c in range(2, 2 + many))
    wrong = Sweep("lemma_c5", "parallel", True, (19, 20), (3, 3), 50, bad, bad[:1])
    monkeypatch.setattr(lemma, "sweep", lambda *_, **__: wrong)
    result = run(lemma)
    assert result.exit_code == 1
    assert "n = 20, m = 3, c = 2: bound / P[C = c] is 0.5" in result.stdout
    assert result.stdout.count("bound / P[C = c] is") == min(10, many)
    assert f"NOT PROVED, {'at least 100' if many == 100 else many} times" in result.stdout
    result = run(lemma, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["holds"] is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--users", "5:30"), "--users"),
        (("--messages", "2"), "--messages"),
        (("--users", "30:19"), "ends before it begins"),
        (("--users", "9" * 50), "is no range"),
        (("--shuffler", "single"), "--bound"),
        (("--bound", "parts", "--messages", "1"), "--messages"),
    ],
)
def test_mistakes_of_the_comparison(lemma, refused, options, message):
    assert message in refused(lemma, *options)


def test_the_comparison_interrupted(lemma, refused, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(lemma, "sweep", interrupt)
    assert refused(lemma, status=130) == "interrupted"


# Tables and figures


@pytest.fixture(scope="module")
def quick(figures, tmp_path_factory):
    """Return a folder that the program has made and filled."""
    folder = tmp_path_factory.mktemp("analysis") / "new" / "folder"
    result = run(figures, "--quick", "--output", folder)
    assert result.exit_code == 0, result.output
    assert set(result.stdout.split()) == {str(folder / name) for name in FILES}
    return folder


def table(folder, name):
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def cells(path):
    """Return a Markdown table as dictionaries."""
    text = path.read_text(encoding="utf-8")
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(head, line, strict=True)) for line in body]


@pytest.mark.slow
def test_all_files(quick):
    assert {path.name for path in quick.iterdir()} == FILES


@pytest.mark.slow
def test_only_what_is_sampled_depends_on_the_seed(figures, quick, tmp_path):
    assert run(figures, "--quick", "--seed", "2", "--output", tmp_path).exit_code == 0
    differ = {
        name for name in FILES if (tmp_path / name).read_bytes() != (quick / name).read_bytes()
    }
    sampled = ("rare-components.", "components-")
    assert differ == {name for name in FILES if name.startswith(sampled)}


@pytest.mark.slow
def test_the_same_seed_writes_the_same_bytes(figures, quick, tmp_path):
    assert run(figures, "--quick", "--output", tmp_path).exit_code == 0
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (quick / name).read_bytes(), name


@pytest.mark.slow
def test_the_table_of_the_law(figures, quick):
    rows = table(quick, "component-law")
    assert len(rows) == len(figures.LAW) * 4 * 3
    for row in rows:
        n, m, c = int(row["n"]), int(row["m"]), int(row["c"])
        model = {"shuffler": row["shuffler"], "clear_share": row["clear"] == "1"}
        exact = enclosed_law(n, m, c, **model)[-1]
        assert float(row["exact"]) == pytest.approx(float(exact), rel=1e-15)
        assert float(row["parts"]) == parts_bound(n, m, c, **model) >= float(row["exact"])
        if model == {"shuffler": "parallel", "clear_share": True}:
            assert float(row["lemma_c5"]) == component_bound(n, m, c) > float(row["parts"])
        else:
            assert row["lemma_c5"] == ""
    shown = cells(quick / "component-law.md")
    main = [row for row in rows if row["shuffler"] == "parallel" and row["clear"] == "1"]
    for row, line in zip(main, shown, strict=True):
        for name, column in (("exact", "P[C = c]"), ("lemma_c5", "Lemma C.5"), ("parts", "parts")):
            assert float(row[name]) <= float(line[column]) < float(row[name]) * 1.001


@pytest.mark.slow
def test_the_table_of_the_bounds(quick):
    rows = table(quick, "component-bounds")
    assert [(row["bound"], row["shuffler"], row["clear"]) for row in rows[::2]] == [
        ("lemma_c5", "parallel", "1"),
        ("parts", "parallel", "1"),
        ("parts", "parallel", "0"),
        ("parts", "single", "1"),
        ("parts", "single", "0"),
    ]
    assert {row["unproved"] for row in rows} == {"0"}
    found = sweep((19, 40), (3, 4))
    for row, slack in zip(rows, found.smallest, strict=False):
        assert (int(row["m"]), int(row["n"]), int(row["c"])) == (slack.m, slack.n, slack.c)
        assert float(row["factor"]) == slack.factor
    first = cells(quick / "component-bounds.md")[0]
    assert first["Lemma C.5"] == "5.497 at (19, 2)"


@pytest.mark.slow
def test_the_table_of_rare_events(figures, quick):
    rows = table(quick, "rare-components")
    assert [tuple(int(row[key]) for key in ("n", "m", "c")) for row in rows] == list(figures.RARE)
    for row in rows:
        n, m, c = (int(row[key]) for key in ("n", "m", "c"))
        found = {key: float(value) for key, value in row.items() if value}
        assert found["low"] <= found["estimate"] <= found["high"]
        law = enclosed_law(n, m, min(n, c + 12))
        assert found["exact"] == pytest.approx(float(sum(e.high for e in law[c - 1 :])), rel=1e-9)
        assert found["low"] <= found["exact"] <= found["high"]
        assert found["seen_low"] <= found["exact"] <= found["seen_high"]
    assert rows[-1]["n"] == "1000000"
    for line, row in zip(cells(quick / "rare-components.md"), rows, strict=True):
        assert float(line["hence P <"]) >= float(row["seen_high"])
        down, up = (float(x) for x in re.findall(r"[\d.]+", line["interval"]))
        estimate = float(row["estimate"])
        assert estimate * (1 - down / 100) <= float(row["low"])
        assert estimate * (1 + up / 100) >= float(row["high"])


def test_what_is_drawn_shows_what_the_page_says(figures):
    from ikos.graphs import count_components, sample_targets

    counts = {}
    for name, n, m, clear, seed in figures.DRAWN:
        targets = sample_targets(n, m, rng=DeterministicRandom(seed))
        found = count_components(targets, clear_share=clear)
        counts[name] = int(found.counts[0]), int(found.alone[0])
    assert counts["graph-connected"] == (1, 0)
    assert counts["graph-components"] == counts["graph-bipartite"] == (3, 1)


def test_interrupted_while_writing(figures, refused, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def interrupt(self, file, **_):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", interrupt)
    assert refused(figures, "--quick", "--output", tmp_path, status=130) == "interrupted"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_table_of_the_law_is_the_programs(quick):
    shown = (ROOT / "docs" / "figures" / "component-law.md").read_text(encoding="utf-8")
    made = (quick / "component-law.md").read_text(encoding="utf-8")
    assert shown == made, "make figures, and copy it"


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_tables_are_the_programs(figures, tmp_path):
    result = run(figures, "--output", tmp_path)
    assert result.exit_code == 0, result.output
    for name in TABLES:
        shown = (ROOT / "docs" / "figures" / f"{name}.md").read_text(encoding="utf-8")
        made = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert shown == made, "make figures, and copy them"


def scripts():
    text = (ROOT / "docs" / "random-graphs.md").read_text(encoding="utf-8")
    return re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_page_has_two_scripts():
    pool, cluster = scripts()
    assert "ProcessPoolExecutor" in pool
    assert "LocalCluster" in cluster


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
