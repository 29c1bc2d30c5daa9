"""``ikos compare``: what it prints is what the protocols say, and errors only where asked for."""

from __future__ import annotations

import math
import re
import shlex
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from command_lines import once

import ikos.baselines
from ikos.baselines import PrivacyBlanket, comparison, measure, measuring
from ikos.cli import compare_report, names
from ikos.datasets import anes96_path, load_anes96
from ikos.testing import DeterministicRandom

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
SEARCHED = ("recursive-2", "recursive-3", "recursive-4", "correlated-noise")
QUICK = [one for one in names.PROTOCOLS if one not in SEARCHED]
ONLY = [word for key in QUICK for word in ("--protocol", key)]
FEW = ("--protocol", "private-sum", "--protocol", "local-laplace", "--protocol", "central-discrete")
BUDGET = ("--users", "1000", "--epsilon", "1", "--delta", "1e-6")
DATA = ("--data", anes96_path(), "--column", "age", "--lower", "18", "--upper", "100",
        "--epsilon", "1", "--delta", "1e-6")  # fmt: skip
WARNING = "NOT private"

TOP = {
    "command", "version", "users", "min_honest", "epsilon", "delta", "lower", "upper", "data",
    "protocols", "plot", "warnings",
}  # fmt: skip
ROW = {
    "key", "name", "source", "model", "trust", "possible", "reason", "messages_per_user",
    "bits_per_message", "bits_per_user", "guarantee", "mse", "standard_error", "mean_error",
    "influence", "unlimited", "measured", "skipped",
}  # fmt: skip
GUARANTEE = {"epsilon", "delta", "adjacency", "theorem", "conditions"}
FILE = {"file", "column", "out_of_range", "runs", "seed", "confidence"}
MEASURED = {"standard_error", "low", "high", "ratio", "seconds", "errors"}


def flat(text):
    return " ".join(text.split())


# What is printed


def test_json_has_every_documented_key(run):
    result = run("compare", *BUDGET, *ONLY, "--json").json
    assert set(result) == TOP
    assert result["data"] is result["plot"] is None
    assert all(set(row) == ROW for row in result["protocols"])
    assert all(set(row["guarantee"]) == GUARANTEE for row in result["protocols"])
    measured = run("compare", *DATA, *FEW, "--runs", "2", "--json", warning=WARNING).json
    assert set(measured["data"]) == FILE
    assert all(set(row["measured"]) == MEASURED for row in measured["protocols"])
    documented = set(re.findall(r"``(\w+)``", compare_report.__doc__ or ""))
    assert documented >= TOP | ROW | GUARANTEE | FILE | MEASURED


def test_numbers_are_the_librarys(run):
    bounds = ("--lower", "-1", "--upper", "3")
    result = run("compare", *BUDGET, *bounds, *ONLY, "--json").json
    rows = comparison(1000, 1, Fraction("1e-6"), lower=-1, upper=3, protocols=QUICK)
    assert [row["key"] for row in result["protocols"]] == [row.key for row in rows]
    assert (result["epsilon"], result["delta"]) == (1, 1e-6)
    for found, row in zip(result["protocols"], rows, strict=True):
        assert found["possible"] is True
        assert found["reason"] is found["measured"] is found["skipped"] is None
        assert found["messages_per_user"] == row.messages
        assert found["bits_per_user"] == row.bits
        assert found["mse"] == row.mse
        assert found["standard_error"] == row.rmse
        assert found["mean_error"] == row.rmse / 1000
        assert found["guarantee"]["delta"] == row.guarantee.delta
        assert found["guarantee"]["theorem"] == row.guarantee.theorem
        assert found["guarantee"]["conditions"] == list(row.guarantee.conditions)
        assert found["unlimited"] == math.isinf(row.influence)
        assert found["influence"] == (None if found["unlimited"] else row.influence)
    assert any(row["unlimited"] for row in result["protocols"])


def test_the_table_holds_the_numbers_rounded_up(run):
    text = run("compare", *BUDGET, *ONLY).out
    for row in comparison(1000, 1, Fraction("1e-6"), protocols=QUICK):
        (line,) = re.findall(rf"^[ a-h] {row.key}  .*$", text, re.MULTILINE)
        messages, bits, mse, error, influence, delta = line[2:].replace(",", "").split()[1:7] if (
            "no limit" not in line
        ) else line[2:].replace(",", "").replace("no limit", "inf").split()[1:7]  # fmt: skip
        assert float(messages) == pytest.approx(row.messages, rel=0.01)
        assert float(bits) == pytest.approx(row.bits, rel=0.01)
        for shown, value in ((mse, row.mse), (error, row.rmse / 1000), (influence, row.influence)):
            assert value * (1 - 1e-11) <= float(shown) <= value * 1.1
        assert row.guarantee.delta * (1 - 1e-11) <= float(delta) <= row.guarantee.delta * 1.1


def test_the_table_has_models_notes_and_sources(run):
    text = run("compare", *BUDGET, *ONLY).out
    order = [text.index(f"{model} model: ") for model in ("Central", "Shuffle", "Local")]
    assert order == sorted(order)
    assert re.search(r"^a central-laplace", text, re.MULTILINE)
    assert re.search(r"^b designated-noise", text, re.MULTILINE)
    assert "b all users trust the first one to add the noise" in flat(text)
    assert "nobody is protected from that user" in flat(text)
    assert (
        "privacy-blanket: single-message privacy blanket (BBGN19). The proof: exact divergence of "
        "the privacy blanket (BBGN19, Lemma 5.3)"
    ) in flat(text)
    assert "Not possible" not in text


def test_the_text_says_where_a_proof_is_not_exact(run):
    options = ("--users", "10^7", "--epsilon", "0.005", "--delta", "1e-8")
    text = run("compare", *options, "--protocol", "privacy-blanket").out
    assert "The proof: privacy blanket by Bennett's inequality (BBGN19)" in flat(text)


@pytest.mark.parametrize(
    "options",
    [
        ("--users", "19", "--epsilon", "0.1"),
        pytest.param(
            ("--users", "10^4", "--epsilon", "1", "--delta", "1e-30"), marks=pytest.mark.slow
        ),
        ("--users", "500", "--epsilon", "4", "--upper", "1e100"),
        pytest.param(
            ("--users", "10^5", "--epsilon", "0.5", "--upper", "1e100"), marks=pytest.mark.slow
        ),
        ("--users", "3", "--epsilon", "2", "--delta", "0.3", "--upper", "1e-90"),
    ],
)
def test_eighty_columns(run, options):
    outcome = run("compare", *options, *ONLY)
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert "nan" not in outcome.out


@pytest.mark.slow
def test_all_protocols(run):
    text = run("compare", *BUDGET).out
    assert max(map(len, text.splitlines())) <= 80
    assert all(f"  {key}: " in text for key in names.PROTOCOLS)


def test_what_is_not_possible(run):
    options = ("--users", "10", "--epsilon", "1", *FEW, "--protocol", "private-sum-bbgn20",
               "--protocol", "designated-noise", "--min-honest", "50%")  # fmt: skip
    text = run("compare", *options).out
    absent = text.partition("Not possible here\n")[2]
    assert "  private-sum-bbgn20: balle2020 needs at least 19 honest users, got 5\n" in absent
    assert "  designated-noise: it needs all users to be honest and present\n" in absent
    assert "while at least 5 users are honest and present" in text
    rows = {row["key"]: row for row in run("compare", *options, "--json").json["protocols"]}
    row = rows["designated-noise"]
    assert row["possible"] is row["unlimited"] is False
    assert row["reason"]
    null = ("messages_per_user", "bits_per_message", "bits_per_user", "guarantee", "mse",
            "standard_error", "mean_error", "influence", "measured", "skipped")  # fmt: skip
    assert all(row[key] is None for key in null)


def test_delta_is_one_over_the_square_of_users_unless_given(run):
    result = run("compare", "--users", "10^4", "--epsilon", "1", *FEW, "--json").json
    assert result["delta"] == 1e-8
    assert "give --delta" in run("compare", "--users", "1", "--epsilon", "1", status=2).err


def test_weak_budgets_are_warned_of(run):
    options = ("--users", "100", "--epsilon", "1", "--delta", "0.5", *FEW, "--json")
    warned = run("compare", *options, warning="it would allow publishing a random user's value")
    assert len(warned.json["warnings"]) == 1


# On data


def test_measured_errors_are_those_of_runs(run):
    options = ("--runs", "4", "--seed", "7")
    result = run("compare", *DATA, *FEW, *options, "--json", warning=WARNING).json
    ages = load_anes96("age")
    assert result["users"] == ages.size
    assert result["data"] | {"file": ""} == {
        "file": "", "column": "age", "out_of_range": "reject", "runs": 4, "seed": "7",
        "confidence": 0.95,
    }  # fmt: skip
    assert "NOT private" in " ".join(result["warnings"])
    rows = comparison(944, 1, Fraction("1e-6"), lower=18, upper=100, protocols=QUICK)
    expected = {row.key: row for row in rows}
    for found in result["protocols"]:
        row = expected[found["key"]]
        runs = measure(row, ages, 4, DeterministicRandom(7))
        assert found["measured"]["errors"] == list(runs.errors)
        assert found["measured"]["standard_error"] == runs.rmse
        assert (found["measured"]["low"], found["measured"]["high"]) == runs.interval(0.95)
        assert found["measured"]["ratio"] == runs.rmse / row.rmse
        assert found["measured"]["seconds"] > 0


def test_secure_randomness_without_a_seed(run):
    first, second = (
        run("compare", *DATA, *FEW, "--runs", "1", "--json", warning=WARNING).json for _ in "ab"
    )
    assert first["data"]["seed"] is None
    assert [row["measured"]["errors"] for row in first["protocols"]] != [
        row["measured"]["errors"] for row in second["protocols"]
    ]


def test_measured_beside_predicted(run):
    outcome = run("compare", *DATA, *ONLY, "--runs", "3", "--seed", "1", warning=WARNING)
    text = outcome.out
    assert max(map(len, text.splitlines())) <= 80
    table = text.partition("Measured error")[2]
    assert "of the sum of column 'age' in 3 runs of each, NOT private: do not publish" in (
        flat(table)
    )
    for key in QUICK:
        assert re.search(rf"^  {key} .* to .* \d+\.\d\d ", table, re.MULTILINE), key


def test_runs_that_are_too_large_are_skipped(run, monkeypatch):
    monkeypatch.setattr(measuring, "MAX_RUN", 1000)
    options = (*DATA, *FEW, "--protocol", "unary-encoding", "--runs", "1")
    result = run("compare", *options, "--json", warning=WARNING).json
    rows = {row["key"]: row for row in result["protocols"]}
    assert rows["private-sum"]["measured"] is None
    assert "more than the 1,000" in rows["private-sum"]["skipped"]
    assert rows["local-laplace"]["measured"]["errors"]
    assert rows["unary-encoding"]["measured"]["errors"]  # draws counts, not messages
    text = run("compare", *options, warning=WARNING).out
    assert "private-sum did not run: a run has 5,664 messages" in flat(text)


def test_too_little_memory_for_one(run, monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(PrivacyBlanket, "run", fail)
    options = (*DATA, "--protocol", "privacy-blanket", "--protocol", "local-laplace", "--json")
    rows = run("compare", *options, warning=WARNING).json["protocols"]
    assert [row["skipped"] for row in rows] == ["not enough memory for this", None]


def test_clamped(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "1;5\n" * 20)
    options = ("--data", path, "--column", "2", "--no-header", "--delimiter", ";", "--lower", "0",
               "--upper", "3", "--epsilon", "1", "--protocol", "central-discrete")  # fmt: skip
    path.write_text("1;5\n" * 20)
    said = run("compare", *options, status=2).err
    assert "row 1 (line 1) has a value in column 2, outside [0, 3]" in said
    clamp = ("--on-out-of-range", "clamp", "--json")
    said = (WARNING, "20 of 20 values were moved to the bounds")
    result = run("compare", *options, *clamp, warning=said).json
    assert result["data"]["out_of_range"] == "clamp"
    assert np.abs(result["protocols"][0]["measured"]["errors"]).max() < 300
    assert "--users must be the 20 rows" in run("compare", *options, *clamp, "--users", "19",
                                                status=2).err  # fmt: skip
    assert run("compare", *options, *clamp, "--users", "20", warning=said).json["users"] == 20


def test_the_file_and_its_row_are_named(run, tmp_path):
    (tmp_path / "1.csv").write_text("age\n" + "30\n" * 20)
    (tmp_path / "2.csv").write_text("age\n30\n500\n")
    said = run("compare", "--data", tmp_path, *DATA[2:], status=2).err
    assert "2.csv': row 2 (line 3) has a value in column 'age', outside [" in said


# Figures


def test_plot(run, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "c.svg"
    outcome = run("compare", *BUDGET, *FEW, "--plot", path)
    assert flat(outcome.out).endswith(f"Plotted in {path}")
    assert "private-sum" in path.read_text(encoding="utf-8") or path.stat().st_size > 10_000
    data = tmp_path / "d.png"
    result = run("compare", *DATA, *FEW, "--runs", "2", "--plot", data, "--json", warning=WARNING)
    assert result.json["plot"] == str(data)
    assert data.read_bytes().startswith(b"\x89PNG")


# Mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give --users, or --data"),
        (("--users", "0"), "--users must be at least 1, got 0"),
        (("--users", "10^10"), "--users must be at most 1000000000, got 10^10"),
        (("--users", "ten"), "'--users': 'ten' is not a whole number"),
        (("--users", "10", "--epsilon", "0"), "--epsilon must be greater than 0, got 0"),
        (("--users", "10", "--epsilon", "1000"), "--epsilon must be at most 100, got 1000"),
        (("--users", "10", "--epsilon", "1e-7"), "--epsilon must be at least 1e-06, got 1e-07"),
        (("--users", "10", "--delta", "1"), "--delta must be less than 1, got 1"),
        (("--users", "10", "--delta", "1e-200"), "--delta must be at least 1e-100, got 1e-200"),
        (("--users", "10", "--lower", "1"), "--upper must be greater than --lower, got 1 and 1"),
        (("--users", "10", "--min-honest", "11"), "--min-honest must be at most --users = 10"),
        (("--users", "10", "--protocol", "x"), "'--protocol': 'x' is not one of central-laplace,"),
        (("--users", "10", "--runs", "3"), "--runs needs --data"),
        (("--users", "10", "--seed", "3"), "--seed needs --data"),
        (("--users", "10", "--column", "a"), "--column needs --data"),
        (("--users", "10", "--delimiter", ";"), "--delimiter needs --data"),
        (("--users", "10", "--no-header"), "--no-header needs --data"),
        (("--users", "10", "--on-out-of-range", "clamp"), "--on-out-of-range needs --data"),
        (("--users", "10", "--plot", "x.gif"), "'--plot': 'x.gif' does not end in"),
        (("--users", "10", "--protocol", "private-sum-bbgn20"), "no protocol is possible here: "),
        (("--data", "nothing.csv"), "--data needs --column"),
        (("--data", "nothing.csv", "--column", "a"), "--data needs --lower"),
        (("--data", "nothing.csv", "--column", "a", "--lower", "0"), "--data needs --upper"),
        (("--users", "10", "more"), "unexpected extra argument"),
    ],
)
def test_mistakes(refused, options, message):
    given = options if "--epsilon" in options else ("--epsilon", "1", *options)
    assert message in refused("compare", *given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--users", "943"), "--users must be the 944 rows of "),
        (("--upper", "50"), "outside [18, 50]; give public bounds that hold every value"),
        (("--column", "agee"), "no column 'agee'"),
        (("--column", "agee", "--show-values"), "did you mean 'age'?"),
        (("--no-header",), "--column is a number counted from 1, got 'age'"),
        (("--runs", "0"), "--runs must be at least 1, got 0"),
        (("--data", "nothing.csv"), "there is no such file"),
        (("--delimiter", "11"), "'--delimiter': must be one character"),
    ],
)
def test_mistakes_with_data(refused, options, message):
    assert message in refused("compare", *once(*DATA, *options))


def test_required(refused):
    assert refused("compare", "--users", "10") == "missing option '--epsilon'"


@pytest.mark.parametrize("name", ["comparison", "measure"])
def test_interrupted(run, monkeypatch, name):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(ikos.baselines, name, interrupt)
    assert run("compare", *DATA, *FEW, status=130).err == "ikos: error: interrupted\n"


def test_bugs_are_not_hidden(run, monkeypatch):
    def fail(*args, **kwargs):
        raise KeyError("a bug")

    monkeypatch.setattr(ikos.baselines, "comparison", fail)
    with pytest.raises(KeyError, match="a bug"):
        run("compare", *BUDGET)


# The documentation


def test_the_example_of_the_documentation(run):
    """The block after a command is what it prints, at least as far as it is quoted."""
    text = DOCS.read_text(encoding="utf-8")
    section = text.partition("## Comparing protocols")[2].partition("\n## ")[0]
    found = re.findall(
        r"```console\n\$ (ikos compare [^$`]*)\n```\n+```text\n(.*?)```", section, re.S
    )
    assert found
    for line, expected in found:
        assert run(*shlex.split(line.replace("\\\n", ""))[1:]).out.startswith(expected)
