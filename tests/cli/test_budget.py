"""``ikos budget`` and ``--ledger``: what is entered, shown and refused."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from ikos import Ledger

VALUES = ("--column", "age", "--lower", "0", "--upper", "100", "--delta", "1e-9", "--epsilon")
COUNTS = ("--column", "age", "--bins", "0,50,100", "--delta", "1e-9", "--epsilon")


@pytest.fixture
def ledger(tmp_path):
    return Ledger.new(tmp_path / "a.ledger", 1, Fraction(1, 10**6))


def test_new_show_and_enter(run, tmp_path):
    path = tmp_path / "a.ledger"
    made = run("budget", "new", path, "--epsilon", "1", "--delta", "1e-6", "--json").json
    assert (made["epsilon"], made["delta"], made["slack"]) == (1.0, 1e-6, 5e-7)
    assert (made["spent"], made["left"], made["rows"]) == (0.0, [1.0, 5e-7], [])
    given = ("--epsilon", "0.1", "--delta", "1e-9", "--note", "by hand", "--key", "k")
    entered = run("budget", "enter", path, *given, "--json").json
    shown = run("budget", "show", path, "--json").json
    assert shown["rows"] == entered["rows"]
    assert run("budget", "enter", path, *given, "--json").json["rows"] == shown["rows"]
    (row,) = shown["rows"]
    assert (row["number"], row["epsilon"], row["note"], row["key"]) == (1, 0.1, "by hand", "k")
    text = run("budget", "show", path).out
    assert "Budget (1, 1e-06) of " in text
    assert "10 % is spent. What is left for the next release: (0.9, 4.99e-07)." in text
    assert "by hand" in run("budget", "show", path, "--format", "markdown").out
    assert run("budget", "show", path, "--format", "csv").out.startswith("number,time,epsilon,")


def test_without_slack_all_of_delta_is_for_the_releases(run, tmp_path):
    path = tmp_path / "a.ledger"
    total = ("--epsilon", "1", "--delta", "1e-6", "--slack", "0")
    assert run("budget", "new", path, *total, "--json").json["left"] == [1.0, 1e-6]


@pytest.mark.points(1)
@pytest.mark.parametrize("command", ["sum", "mean", "histogram"])
def test_releases_are_entered(run, people, ledger, command):
    given = COUNTS if command == "histogram" else VALUES
    made = run(command, people, *given, "0.1", "--ledger", ledger.path)
    assert f"Recorded in {ledger.path}, which has (0.9, " in " ".join(made.out.split())
    result = run(command, people, *given, "0.1", "--ledger", ledger.path, "--json").json
    assert result["ledger"] == str(ledger.path)
    assert [entry.epsilon for entry in ledger.entries] == [Fraction(1, 10)] * 2
    assert run(command, people, *given, "0.1", "--json").json["ledger"] is None


def test_three_months_read_as_three_months(run, refused, people, ledger):
    months = ["mean age, January", "mean age, February", "mean age, March"]
    for month in months:
        run("mean", people, *VALUES, "0.1", "--ledger", ledger.path, "--note", month)
    run("histogram", people, *COUNTS, "0.1", "--ledger", ledger.path, "--note", "ages")
    assert [entry.note for entry in ledger.entries] == [*months, "ages"]
    shown = run("budget", "show", ledger.path).out
    assert all(f"  {month}\n" in shown for month in months)
    assert f"spent [{'#' * 16}{'.' * 24}] left\n" in shown
    assert "--note needs --ledger" in refused("mean", people, *VALUES, "0.1", "--note", "March")


@pytest.mark.parametrize("command", ["sum", "mean", "histogram"])
def test_overspending_is_refused(refused, people, ledger, command):
    ledger.enter(Fraction(19, 20))
    given = COUNTS if command == "histogram" else VALUES
    assert refused(command, people, *given, "0.1", "--ledger", ledger.path).startswith(
        "--epsilon and --delta must be within the remaining budget, at most (0.05, 5e-07), got (0"
    )
    assert len(ledger.entries) == 1


def test_what_proves_nothing_is_not_entered(refused, people, ledger):
    given = ("sum", people, *VALUES, "0.1", "--messages", "1", "--unproved")
    assert "nothing is proved" in refused(*given, "--ledger", ledger.path)
    assert not ledger.entries


def test_refusals(run, refused, people, ledger, tmp_path):
    for said, *words in (
        ("no such file or directory\n", "show", tmp_path / "none"),
        ("is not a ledger, or is damaged", "show", people),
        ("already holds a ledger", "new", ledger.path, "--epsilon", "2", "--delta", "1e-6"),
        ("error: --epsilon and --delta must be within", "enter", ledger.path, "--epsilon", "2"),
        ("--mu must be at least 0", "enter", ledger.path, "--epsilon", "0.1", "--mu", "-1"),
    ):
        assert said in run("budget", *words, status=2).err
    assert "is not a ledger" in refused("sum", people, *VALUES, "1", "--ledger", people)


def test_documented_keys(run, ledger):
    from ikos.cli.budget import COLUMNS, KEYS

    result = json.loads(run("budget", "enter", ledger.path, "--epsilon", "0.1", "--json").out)
    common = {"command", "version", "warnings", "rows", "notes"}
    assert set(result) == {key.key for key in KEYS} | common
    assert set(result["rows"][0]) == {column.key for column in COLUMNS}
