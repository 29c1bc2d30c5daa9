"""The program that computes the documentation's tables and figures."""

from __future__ import annotations

import csv
import importlib
import math
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ikos import message_count, private_message_count
from ikos.counts.floor import counting_floor
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "message-counts.md", "message-counts.csv", "message-counts.svg", "message-counts.png",
    "private-message-counts.md", "private-message-counts.csv",
    "attack-advantage.csv", "attack-advantage.svg", "attack-advantage.png",
}  # fmt: skip


@pytest.fixture(scope="module")
def program():
    return importlib.import_module("analysis.message_counts")


@pytest.fixture
def refused(program, monkeypatch, capsys):
    """Run the program as from a shell and return the one line that it ends with."""

    def refused(*arguments, status=2):
        monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            program.main(program.command)
        assert end.value.code == status
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        start, _, message = said.rstrip("\n").partition(": error: ")
        assert start == "python -m analysis.message_counts"
        return message

    return refused


def run(program, *arguments):
    return CliRunner().invoke(program.command, list(map(str, arguments)))


@pytest.fixture(scope="module")
def quick(program, tmp_path_factory):
    """Return a folder that the program has made and filled."""
    folder = tmp_path_factory.mktemp("analysis") / "new" / "folder"
    result = run(program, "--quick", "--trials", 500, "--output", folder)
    assert result.exit_code == 0, result.output
    assert set(result.stdout.split()) == {str(folder / name) for name in FILES}
    return folder


def table(folder, name):
    with (folder / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_all_files(quick):
    assert {path.name for path in quick.iterdir()} == FILES


@pytest.mark.slow
def test_the_same_run_writes_the_same_bytes(program, quick, tmp_path):
    run(program, "--quick", "--trials", 500, "--output", tmp_path)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (quick / name).read_bytes(), name


@pytest.mark.slow
def test_the_table_of_the_secure_sum(quick):
    rows = table(quick, "message-counts.csv")
    keys = {(row["sigma"], row["log2_q"], row["n"]) for row in rows}
    assert len(keys) == 3 * 3 * 6
    # floor and exact in all settings, balle2020 too but for n = 10, the others in one
    assert len(rows) == 54 * (4 + 4 + 1 + 1) + 45 * 4
    for row in rows:
        n, q, sigma = int(row["n"]), 1 << int(row["log2_q"]), int(row["sigma"])
        setting = {"shuffler": row["shuffler"], "clear_share": row["clear"] == "1"}
        assert int(row["total"]) == int(row["shuffled"]) + int(row["clear"])
        if row["analysis"] == "floor":
            assert int(row["shuffled"]) == counting_floor(n, q, sigma, **setting)
            assert row["sigma_proved"] == ""
        else:
            count = message_count(n, q, sigma, analysis=row["analysis"], **setting)
            assert int(row["shuffled"]) == count.shuffled
            assert float(row["sigma_proved"]) == count.sigma >= sigma


@pytest.mark.slow
def test_the_markdown_says_the_same(quick):
    rows = table(quick, "message-counts.csv")
    text = (quick / "message-counts.md").read_text(encoding="utf-8")
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in line] for line in lines]
    assert len(body) == 54
    columns = {
        "floor": ("floor", "single", "0"),
        "p+": ("second_moment", "parallel", "1"),
        "p": ("second_moment", "parallel", "0"),
        "s+": ("second_moment", "single", "1"),
        "s": ("second_moment", "single", "0"),
        "balle2020": ("balle2020", "parallel", "1"),
        "ghazi2020": ("ghazi2020", "single", "0"),
        "ishai2006": ("ishai2006", "single", "0"),
    }
    assert set(head) == {"σ", "q", "n", *columns}
    keys = ("sigma", "log2_q", "n", "analysis", "shuffler", "clear")
    found = {tuple(row[key] for key in keys): row["total"] for row in rows}
    for cells in body:
        line = dict(zip(head, cells, strict=True))
        n = line["n"].replace(",", "")
        n = str(10 ** int(n[3:])) if n.startswith("10^") else n
        for name, column in columns.items():
            total = found.get((line["σ"], line["q"].removeprefix("2^"), n, *column), "–")
            assert line[name].replace(",", "") == total


@pytest.mark.slow
def test_the_table_of_the_private_sum(quick):
    rows = table(quick, "private-message-counts.csv")
    assert len(rows) == 5 * 6
    for row in rows:
        n, q = int(row["n"]), 1 << int(row["log2_q"])
        precision = math.ceil(math.sqrt(n))
        assert q // 2 < 2 * n * precision <= q
        count = private_message_count(
            n,
            q,
            1,
            float(row["delta"]),
            precision,
            analysis=row["analysis"],
            shuffler=row["shuffler"],
            clear_share=row["clear"] == "1",
        )
        assert int(row["total"]) == count.total
        assert float(row["delta_proved"]) == count.delta <= float(row["delta"])
        assert float(row["noise_epsilon"]) == count.noise_epsilon
    published = [int(row["total"]) for row in rows if row["analysis"] == "balle2020"]
    exact = [
        int(row["total"])
        for row in rows
        if (row["analysis"], row["shuffler"], row["clear"]) == ("second_moment", "parallel", "1")
    ]
    assert published == [10, 9, 9, 9, 14]
    assert exact == [7, 6, 6, 6, 8]


@pytest.mark.slow
def test_the_experiments(program, quick):
    rows = table(quick, "attack-advantage.csv")
    assert [(int(r["n"]), int(r["q"]), int(r["m"])) for r in rows] == [
        (n, q, m) for n, q, messages in program.EXPERIMENTS for m in messages
    ]
    for row in rows:
        found = {key: float(value) for key, value in row.items()}
        assert found["lower"] < found["estimate"] < found["upper"]
        assert found["lower"] <= found["proved_bound"] <= 1
        assert found["estimate"] == pytest.approx(2 * found["correct"] / 500 - 1)


def test_the_bound_for_two_users(program):
    """Against the worst case over all users, and the leading term where it is one."""
    from ikos import security_level

    for n, q, m in ((5, 16, 6), (10, 64, 5), (30, 1024, 4)):
        bound = program.proved_advantage(n, q, m)
        assert bound <= 2 ** -security_level(n, q, m)
        assert bound == pytest.approx(math.sqrt(q / n**m), rel=0.05)
    assert program.proved_advantage(5, 16, 1) == 1


def test_the_figure_of_the_advantage_holds_its_points(program):
    results = program.measure(300, DeterministicRandom(1))
    figure = program.advantage_figure(results)
    for axes, (n, q, messages) in zip(figure.axes, program.EXPERIMENTS, strict=True):
        assert f"n = {n} users" in axes.get_title(loc="left")
        group = [r for r in results if (r.found.n, r.found.q) == (n, q)]
        lines = {line.get_gid(): line for line in axes.get_lines()}
        assert list(lines["bound"].get_xdata()) == list(messages)
        assert list(lines["bound"].get_ydata()) == [r.bound for r in group]
        scale = dict(zip(*lines["scale"].get_data(), strict=True))
        assert scale[messages[0]] == pytest.approx(math.sqrt(q / n ** messages[0]))
        (container,) = axes.containers
        data, caps, _ = container.lines
        assert list(data.get_ydata()) == [r.found.estimate for r in group]
        assert list(caps[0].get_ydata()) == pytest.approx([r.found.lower for r in group])
        assert list(caps[1].get_ydata()) == pytest.approx([r.found.upper for r in group])


@pytest.mark.slow
def test_the_figure_of_the_counts_holds_all_curves(program):
    from ikos.plots import secure_curves

    users = (10, 1000, 10**9)
    figure = program.counts_figure(users)
    assert len(figure.axes) == 2 * 9
    panels = iter(figure.axes)
    for sigma in program.SIGMAS:
        for bits in program.MODULI_BITS:
            upper, lower = next(panels), next(panels)
            assert upper.get_title(loc="left") == f"σ = {sigma} bits,  q = $2^{{{bits}}}$"
            lines = [line for axes in (upper, lower) for line in axes.get_lines()]
            found = {
                line.get_label(): [(round(x), round(y)) for x, y in zip(*line.get_data())]  # noqa: B905
                for line in lines
                if line.get_gid()
            }
            curves = secure_curves(users, 1 << bits, sigma)
            assert len(curves) == 7
            assert list(found.values()) != []
            assert sorted(found.values()) == sorted(list(curve.points) for curve in curves)
    assert len(figure.legends[0].get_texts()) == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "missing option '--output'"),
        (("--output", ""), "'--output': must name a folder, got ''"),
        (("--output", "x", "--trials", "5"), "--trials must be at least 100, got 5"),
        (("--output", "x", "--seed", "-1"), "--seed must be at least 0, got -1"),
        (("--output", "x", "--nonsense"), "no such option"),
        (("--output", "x" * 300), "file name too long"),
    ],
)
def test_mistakes(refused, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*options)
    assert not list(tmp_path.iterdir())


def test_a_file_in_place_of_the_folder(refused, tmp_path):
    path = tmp_path / "x"
    path.write_text("")
    assert "not a directory" in refused("--output", path / "y", "--quick")
    assert "is a file" in refused("--output", path, "--quick")
    assert path.read_text() == ""


@pytest.mark.slow
def test_interrupted(program, refused, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "measure", interrupt)
    assert refused("--quick", "--output", tmp_path, status=130) == "interrupted"
    assert {path.name for path in tmp_path.iterdir()} == {
        name for name in FILES if not name.startswith("attack")
    }


PROGRAMS = sorted(
    path.stem for path in (ROOT / "analysis").glob("*.py") if "main(command)" in path.read_text()
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_names_itself_and_writes_nowhere_unasked(name):
    command = importlib.import_module(f"analysis.{name}").command
    assert command.name == f"python -m analysis.{name}"
    assert command.name in CliRunner().invoke(command, ["--help"]).output
    if any(option.name == "output" for option in command.params):
        refused = CliRunner().invoke(command, ["--output", ""])
        assert (refused.exit_code, "--output" in refused.output) == (2, True)


@pytest.mark.slow
def test_the_documentations_tables_are_the_programs(quick):
    for name in ("message-counts.md", "private-message-counts.md"):
        shown = (ROOT / "docs" / "figures" / name).read_text(encoding="utf-8")
        assert shown == (quick / name).read_text(encoding="utf-8"), "make figures, and copy them"
