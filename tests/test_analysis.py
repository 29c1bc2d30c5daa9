"""All programs of the analysis: what they write, what the documentation has of it, mistakes."""

from __future__ import annotations

import csv
import importlib
import math
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import DOCS, assert_drawn, rows

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = sorted(
    path.stem for path in (ROOT / "analysis").glob("*.py") if "main(command)" in path.read_text()
)

QUICK = {"mixing_ways": "--repeats 2"}
SLOW = {
    "afnntz24_attacks": "",
    "afnntz24_rates": "",
    "afnntz24_single_message": "",
    "bbgn20_figure_2": "",
    "deployment_plan": "--users 1e7 --modulus 2^64 --sigma 80 --memory 1e3 --cores 2^6",
    "direct_comparison": "",
    "federated_learning": "",
    "higher_moments": "",
    "large_sums": "--kind private --users 200000 --threads 1 --workers 1",
    "masked_vectors": "",
    "message_counts": "--trials 500",
    "necessary_messages": "",
    "random_graphs": "",
    "scm22_figures": "",
    "vector_runs": "--protocol privkv --protocol grid",
    "wlqdly21_figures": "",
}
"""Arguments beside --quick."""

SEEDED = ("message_counts", "random_graphs", "wlqdly21_figures")

COMMITTED = [
    (
        "afnntz24_attacks",
        "",
        "afnntz24-dishonest afnntz24-floors afnntz24-poisoning.png afnntz24-reconstruction.png",
    ),
    ("afnntz24_single_message", "", "afnntz24-single-message afnntz24-single-message.png"),
    ("bbgn20_table_1", "", "bbgn20-table-1"),
    ("bbgn20_table_3", "", "bbgn20-table-3 bbgn20-table-3-floors"),
    ("direct_comparison", "--quick", "direct-comparison direct-comparison-settings"),
    ("higher_moments", "--quick", "higher-moments message-progress"),
    ("masked_vectors", "", "masked-attacks masked-blocks masked-bytes masked-bytes.png"),
    ("message_counts", "--quick --trials 500", "message-counts private-message-counts"),
    ("necessary_messages", "", "necessary-messages necessary-settings necessary-private"),
    ("peers", "", "peers"),
    ("random_graphs", "", "component-law component-bounds rare-components"),
    ("scalar_robustness", "", "scalar-robustness missing-blankets"),
    (
        "scm22_figures",
        "",
        "scm22-exponents scm22-precisions scm22-reports scm22-figure-1.png scm22-figure-2.png "
        "scm22-figure-3.png",
    ),
    ("transports", "", "transports"),
    ("verified_sums", "--quick", "verified-noise verified-shares"),
    (
        "vector_tables",
        "",
        "kashin-sampling kashin-sums vector-blocks vector-choice vector-layouts vector-messages "
        "vector-noise vector-users",
    ),
]
"""What the documentation includes, with the arguments that make it."""


def program(name):
    return importlib.import_module(f"analysis.{name}")


def run(name, *arguments):
    return CliRunner().invoke(program(name).command, list(map(str, arguments)))


def filled(name, folder, *arguments):
    """Run a program, and check that it has printed the names of its files, which are tables."""
    result = run(name, *arguments, "--output", folder)
    assert result.exit_code == 0, result.output
    printed = {line for line in result.stdout.splitlines() if line.startswith(str(folder))}
    assert printed == set(map(str, folder.iterdir()))
    for path in folder.glob("*.csv"):
        with path.open(newline="") as file:
            head, *body = csv.reader(file)
        assert body
        assert {len(row) for row in body} == {len(head)}
    for path in folder.glob("*.md"):
        tables = rows(path.read_text(encoding="utf-8"))
        assert tables
        for header, lines in tables.items():
            assert {len(line) for line in lines} == {len(header)}
    return folder


@pytest.mark.points(2)
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_files_are_tables_and_are_named(name, tmp_path):
    if name in ("large_sums", "vector_runs") and not Path("/proc/self/status").exists():
        pytest.skip("memory is read from /proc")
    for needed in {"federated_learning": ["sklearn"], "large_sums": ["distributed"]}.get(name, []):
        pytest.importorskip(needed)
    arguments = {**QUICK, **SLOW}[name].split()
    assert any(filled(name, tmp_path / "new" / "folder", "--quick", *arguments).iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDED)
def test_the_same_seed_writes_the_same_bytes(name, tmp_path):
    first, second = (filled(name, tmp_path / part, "--quick", *SLOW[name].split()) for part in "ab")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def check_committed(name, folder, arguments, names):
    filled(name, folder, *arguments)
    for file in names.split():
        if file.endswith(".png"):
            assert_drawn(file.removesuffix(".png"), folder)
        else:
            shown = (DOCS / "figures" / f"{file}.md").read_text(encoding="utf-8")
            made = (folder / f"{file}.md").read_text(encoding="utf-8")
            assert shown == made, "make figures, and copy it"


@pytest.mark.slow
@pytest.mark.reproduces
@pytest.mark.parametrize(("name", "arguments", "names"), COMMITTED, ids=lambda value: value[:30])
def test_the_documentations_tables_are_the_programs(name, arguments, names, tmp_path):
    check_committed(name, tmp_path / "out", arguments.split(), names)


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_table_2_is_the_programs(tmp_path, adult):
    check_committed("bbgn20_table_2", tmp_path / "out", ["--data", adult], "bbgn20-table-2")


def test_every_table_that_is_included_is_compared():
    """But for measurements of a machine, and those of tests of their own."""
    names = " ".join(names for *_, names in COMMITTED).split()
    measured = {"benchmarks", "mixing-ways", "vector-runs", "deployment-plan", "secure-aggregation"}
    measured.add("verified-costs")
    others = {"afnntz24-rates", "bbgn20-table-2", "peer-libraries"}
    others |= {f"federated-learning{part}" for part in ("", "-bytes", "-round")}
    others |= {"higher-moments-grid", "direct-comparison-grid", "review"}
    there = {path.stem for path in (DOCS / "figures").glob("*.md")}
    assert there == measured | others | {name for name in names if not name.endswith(".png")}


# Command lines


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_names_itself_and_writes_nowhere_unasked(name):
    command = program(name).command
    assert command.name == f"python -m analysis.{name}"
    assert command.name in run(name, "--help").output
    if any(option.name == "output" for option in command.params):
        refused = run(name, "--output", "")
        assert (refused.exit_code, "--output" in refused.output) == (2, True)


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run a program as from a shell and return the one line that it ends with."""

    def refused(name, *arguments, status=2):
        module = program(name)
        monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            module.main(module.command)
        assert end.value.code == status
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.count("\n") == 1
        start, _, message = output.err.rstrip("\n").partition(": error: ")
        assert start == f"python -m analysis.{name}"
        return message

    return refused


ONE = ("--users", 2, "--messages", 2, "--modulus", 2)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("message_counts", (), "missing option '--output'"),
        ("message_counts", ("--output", "x", "--trials", "5"), "--trials must be at least 100"),
        ("message_counts", ("--output", "x", "--seed", "-1"), "--seed must be at least 0, got -1"),
        ("message_counts", ("--output", "x", "--nonsense"), "no such option"),
        ("message_counts", ("--output", "x" * 300), "file name too long"),
        ("message_counts", ("--output", "/dev/null/y"), "not a directory"),
        ("lemma_c5", ("--users", "5:30"), "--users must be at least 19"),
        ("lemma_c5", ("--messages", "2"), "--messages must be at least 3"),
        ("lemma_c5", ("--users", "30:19"), "ends before it begins"),
        ("lemma_c5", ("--users", "9" * 50), "is no range"),
        ("lemma_c5", ("--shuffler", "single"), "--bound must be 'parts'"),
        ("lemma_c4", ("--users", 3), "a single size also needs --messages and --modulus"),
        ("lemma_c4", (*ONE[:-1], "2^100"), "--modulus must be at most"),
        ("lemma_c4", ("--users", 3, "--messages", 3, "--modulus", 4), "--users must be smaller"),
        ("large_sums", ("--users", "1e13"), "80,000.0 GB of disk"),
        ("deployment_plan", ("--epsilon", 1, "--sigma", 80), "not both"),
        ("deployment_plan", ("--modulus", "2^64"), "together"),
        ("deployment_plan", ("--memory", 0), "--memory must be at least 1, got 0"),
        ("bbgn20_table_2", ("--output", "x"), "missing option '--data'"),
        ("bbgn20_table_2", ("--data", "none", "--output", "x"), "no such file"),
        ("bbgn20_table_2", ("--data", __file__, "--output", "x"), "got one with"),
    ],
)
def test_mistakes(refused, tmp_path, monkeypatch, name, options, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(name, *options)
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_interrupted_while_writing(refused, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def interrupt(self, file, **_):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", interrupt)
    assert refused("random_graphs", "--quick", "--output", tmp_path, status=130) == "interrupted"
    assert not list(tmp_path.iterdir())


# The attack's advantage


def test_the_bound_for_two_users():
    """Against the worst case over all users, and the leading term where it is one."""
    from ikos import security_level

    module = program("message_counts")
    for n, q, m in ((5, 16, 6), (10, 64, 5), (30, 1024, 4)):
        bound = module.proved_advantage(n, q, m)
        assert bound <= 2 ** -security_level(n, q, m)
        assert bound == pytest.approx(math.sqrt(q / n**m), rel=0.05)
    assert module.proved_advantage(5, 16, 1) == 1


def test_measured_advantages_are_below_the_bound():
    from ikos.testing import DeterministicRandom

    for found in program("message_counts").measure(300, DeterministicRandom(1)):
        assert found.found.lower <= found.bound <= 1
