"""The program that checks Lemma C.4."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis import enumeration
from analysis.enumeration import check_collision_identity

ROOT = Path(__file__).resolve().parents[1]
ONE = ("--users", 2, "--messages", 2, "--modulus", 3)


@pytest.fixture(scope="module")
def program() -> Any:
    sys.path.insert(0, str(ROOT))
    try:
        from analysis import lemma_c4
    finally:
        sys.path.remove(str(ROOT))
    return lemma_c4


@pytest.fixture
def small_grid(program, monkeypatch):
    monkeypatch.setattr(program, "GRID_CASES", 50_000)
    return list(program.default_grid())


def run(program, *arguments, status=0):
    result = CliRunner().invoke(program.command, list(map(str, arguments)))
    assert result.exit_code == status, result.output
    return result.stdout


def table(text: str) -> list[dict[str, str]]:
    lines = [line.split() for line in text.splitlines() if line.startswith("  ")]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def test_the_table_of_the_default_grid(program, small_grid):
    lines = run(program).splitlines()
    assert (
        lines[0] == "Lemma C.4 of BBGN20, and for one shuffler: P[R(X) = S(R'(X))] = E[q^(C - mn)]"
    )
    assert lines[-1] == f"The identity holds in all {len(small_grid)} cases."
    rows = table("\n".join(lines))
    assert [(int(r["n"]), int(r["m"]), int(r["q"]), r["shuffler"]) for r in rows] == small_grid
    for row in rows:
        assert row["left"] == row["right"]
        assert row["equal"] == "yes"
        permutations, tuples = (
            int(row[key].replace(",", "")) for key in ("permutations", "tuples")
        )
        assert permutations * tuples <= 50_000
        assert tuples == int(row["q"]) ** (int(row["n"]) * int(row["m"]))


def test_the_default_grid_has_both_shufflers_and_composite_orders(program):
    sizes = list(program.default_grid())
    assert len(sizes) == len(set(sizes)) > 50
    for shuffler in ("parallel", "single"):
        mine = [size for size in sizes if size[3] == shuffler]
        assert {q for *_, q, _ in mine} == {2, 3, 4, 6}
        for n, m in ((2, 3), (3, 2), (4, 2)):
            assert (n, m, 2, shuffler) in mine


@pytest.mark.slow
def test_the_whole_default_grid(program):
    found = json.loads(run(program, "--json"))
    assert found["holds"] is True
    assert len(found["checks"]) == len(list(program.default_grid()))
    assert all(check["equal"] for check in found["checks"])


def test_one_shuffler_of_the_grid(program, small_grid):
    rows = table(run(program, "--shuffler", "single"))
    assert len(rows) == sum(size[3] == "single" for size in small_grid)
    assert {row["shuffler"] for row in rows} == {"single"}


def test_one_size(program):
    text = run(program, *ONE, "--shuffler", "single")
    (row,) = table(text)
    assert row == {
        "n": "2",
        "m": "2",
        "q": "3",
        "shuffler": "single",
        "permutations": "24",
        "tuples": "81",
        "left": "4/81",
        "right": "4/81",
        "equal": "yes",
    }
    assert text.splitlines()[-1] == "The identity holds."
    assert [row["shuffler"] for row in table(run(program, *ONE))] == ["parallel", "single"]


def test_json(program):
    result = json.loads(run(program, *ONE, "--json"))
    assert list(result) == ["checks", "holds"]
    assert result["holds"] is True
    for shuffler, check in zip(("parallel", "single"), result["checks"], strict=True):
        found = check_collision_identity(2, 2, 3, shuffler=shuffler)
        assert check == {
            "users": 2,
            "messages": 2,
            "modulus": 3,
            "shuffler": shuffler,
            "permutations": found.permutations,
            "tuples": found.tuples,
            "matched": str(found.matched),
            "views": str(found.views),
            "expected": str(found.expected),
            "formula": str(found.formula),
            "equal": True,
        }
        assert Fraction(check["matched"]) == Fraction(check["formula"]) == found.matched


def test_the_documented_json_is_the_printed_one(program):
    (check, *_) = json.loads(run(program, *ONE, "--json"))["checks"]
    assert all(f"``{key}``" in program.__doc__ for key in check)


MUTANTS = {
    "wrong graph": ("count_components", lambda true: lambda t, **_: true(t, clear_share=False)),
    "wrong exponent": ("_mean_power", lambda true: lambda law, q, slots: true(law, q, slots - 1)),
    "wrong law": ("exact_component_law", lambda true: lambda n, m, **_: true(n, m + 1)),
    "wrong views": ("view_agreement", lambda true: lambda *sizes, **how: true(*sizes, **how) / 2),
    "wrong collisions": (
        "collision_probability",
        lambda true: lambda *sizes, **how: true(*sizes, **how) / 2,
    ),
}


@pytest.mark.parametrize(("name", "mutant"), MUTANTS.values(), ids=MUTANTS)
def test_a_mistake_is_told_and_is_the_exit_status(program, monkeypatch, name, mutant):
    monkeypatch.setattr(enumeration, name, mutant(getattr(enumeration, name)))
    arguments = (*ONE, "--shuffler", "parallel")
    text = run(program, *arguments, status=1)
    lines = text.splitlines()
    assert lines[-1] == "The identity fails in 1 of 1 cases."
    assert lines[3].endswith("NO")
    found = check_collision_identity(2, 2, 3)
    assert "n = 2, m = 2, q = 3, parallel:" in lines
    told = [line.rsplit(" ", 1)[1] for line in lines if line.startswith(("  P[", "  E["))]
    numbers = (found.matched, found.views, found.expected, found.formula)
    assert told == list(map(str, numbers))
    result = json.loads(run(program, *arguments, "--json", status=1))
    assert result["holds"] is False
    assert result["checks"][0]["equal"] is False


def test_one_failure_of_several(program, small_grid, monkeypatch):
    true = program.check_collision_identity

    def wrong_once(n, m, q, *, shuffler):
        with monkeypatch.context() as patch:
            if (n, m, q, shuffler) == (2, 2, 6, "single"):
                patch.setattr(enumeration, "exact_component_law", lambda n, *_, **__: (0,) * n)
            return true(n, m, q, shuffler=shuffler)

    monkeypatch.setattr(program, "check_collision_identity", wrong_once)
    lines = run(program, status=1).splitlines()
    assert lines[-1] == f"The identity fails in 1 of {len(small_grid)} cases."
    assert sum(line.endswith("NO") for line in lines) == 1
    assert "n = 2, m = 2, q = 6, single:" in lines


@pytest.fixture
def ended(program, monkeypatch, capsys):
    """Run the program as from a shell, and return its status and the one line that it ends with."""

    def ended(*arguments):
        monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            program.main(program.command)
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.count("\n") == 1
        start, _, message = output.err.rstrip("\n").partition(": error: ")
        assert start == "python -m analysis.lemma_c4"
        return end.value.code, message

    return ended


def sizes(users: object, messages: object, modulus: object) -> tuple[object, ...]:
    return ("--users", users, "--messages", messages, "--modulus", modulus)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--users", 3), "a single size also needs --messages and --modulus"),
        (("--modulus", 3, "--users", 2), "a single size also needs --messages"),
        (sizes(0, 2, 2), "--users must be at least 1, got 0"),
        (sizes(2, 0, 2), "--messages must be at least 1, got 0"),
        (sizes(2, 2, 1), "--modulus must be at least 2, got 1"),
        (sizes("x", 2, 2), "'x' is not a whole number"),
        (sizes(11, 1, 2), "--users must be at most 10, got 11"),
        (sizes(2, 100, 2), "--messages must be at most 64, got 100"),
        ((*sizes(1, 30, 2), "--shuffler", "single"), "--messages must be smaller"),
        (sizes(2, 2, "2^100"), "--modulus must be at most"),
        (("--shuffler", "none"), "'none' is not one of 'parallel', 'single'"),
        (("--nonsense",), "no such option"),
        (("extra",), "got unexpected extra argument"),
    ],
)
def test_mistakes(ended, options, message):
    status, said = ended(*options)
    assert status == 2
    assert message in said


def test_a_size_is_refused_before_the_other_shufflers_is_enumerated(program, ended, monkeypatch):
    monkeypatch.setattr(program, "check_collision_identity", None)
    assert "--users must be smaller" in ended(*sizes(3, 3, 4))[1]


def test_interrupted(program, ended, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(enumeration, "view_agreement", interrupt)
    assert ended(*ONE) == (130, "interrupted")


def test_progress_covers_the_whole_grid(program, small_grid, monkeypatch):
    from contextlib import contextmanager

    calls = []

    @contextmanager
    def recorded(label):
        assert label == "enumerating"
        yield lambda *call: calls.append(call)

    monkeypatch.setattr(program, "progress", recorded)
    program.check_all(small_grid)
    done, whole = zip(*calls, strict=True)
    assert len(set(whole)) == 1
    assert list(done) == sorted(done)
    assert done[-1] == whole[-1]


@pytest.mark.slow
def test_as_a_module():
    command = [sys.executable, "-m", "analysis.lemma_c4", *map(str, ONE)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0
    assert result.stderr == ""
    assert "1/18" in result.stdout
    assert result.stdout.endswith("The identity holds in all 2 cases.\n")


def test_help(program):
    text = run(program, "--help")
    assert "python -m analysis.lemma_c4 --users 3" in text
