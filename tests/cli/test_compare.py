"""``ikos compare``: its numbers are those of the library, for numbers, vectors and data."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from ikos import Ball, PrivateVectorSum, baselines
from ikos.accounting import optimal_delta
from ikos.baselines import comparison
from ikos.testing import DeterministicRandom

KEYS = ("central-discrete", "private-sum", "privacy-blanket", "local-laplace")
SOME = tuple(word for key in KEYS for word in ("--protocol", key))
LINE = ("compare", "--users", "1000", "--epsilon", "1", "--delta", "1e-8", *SOME)
DATA = ("--column", "age", "--lower", "0", "--upper", "100", "--epsilon", "1", "--delta", "1e-8",
        "--protocol", "private-sum", "--protocol", "local-laplace")  # fmt: skip
WARNING = "measured errors are differences from the true sum, and NOT private"


def check(rows, expected, users):
    assert [row["key"] for row in rows] == [row.key for row in expected]
    for row, found in zip(rows, expected, strict=True):
        assert row["reason"] == found.reason
        if found.protocol is None:
            assert row["mse"] is row["guarantee"] is None
            continue
        cost = found.protocol.cost()
        assert row["messages_per_user"] == cost.messages_per_user
        assert row["bits_per_user"] == cost.bits_per_user
        assert (row["mse"], row["standard_error"]) == (found.mse, math.sqrt(found.mse))
        assert row["mean_error"] == found.rmse / users
        assert row["unlimited"] == math.isinf(found.influence)
        assert row["influence"] == (None if row["unlimited"] else found.influence)
        assert row["guarantee"]["delta"] == found.guarantee.delta
        assert row["guarantee"]["conditions"] == list(map(str, found.guarantee.conditions))


@pytest.mark.slow
def test_numbers_are_the_librarys(run):
    result = run(*LINE, "--lower", "-1", "--upper", "3", "--json").json
    rows = comparison(1000, 1, Fraction("1e-8"), lower=-1, upper=3, protocols=KEYS)
    check(result["rows"], rows, 1000)
    assert (result["lower"], result["upper"], result["domain"]) == (-1, 3, None)


def test_integers_are_the_librarys(run, people, refused):
    keys = ("binary-response", "sample-threshold", "local-response")
    given = [word for key in keys for word in ("--protocol", key)]
    line = ("compare", "--users", "1000", "--epsilon", "1", "--delta", "1e-8", "--integers", *given)
    result = run(*line, "--json").json
    rows = comparison(1000, 1, Fraction("1e-8"), integers=True, protocols=keys)
    check(result["rows"], rows, 1000)
    assert result["integers"]
    assert "sum of 1,000 integers" in run(*line).out
    assert not run(*LINE[:7], "--protocol", "local-laplace", "--json").json["integers"]
    score = ("--column", "score", *DATA[2:6], *LINE[3:7], *given, "--integers")
    assert "not an integer, although --integers" in refused("compare", "--data", people, *score)


def test_vectors_are_the_librarys(run):
    keys = ("central-gaussian", "private-vector-sum", "collision")
    given = [word for key in keys for word in ("--protocol", key)]
    line = ("compare", "--users", "1000", "--epsilon", "1", "--delta", "1e-8", "--json")
    result = run(*line, "--domain", "ball", "--dimension", "8", *given).json
    rows = comparison(1000, 1, Fraction("1e-8"), domain=Ball(8), protocols=keys)
    assert {row["key"]: row["reason"] is None for row in result["rows"]} == dict(
        zip(keys, (True, True, False), strict=True)
    )
    check(result["rows"][:2], rows[:2], 1000)
    assert (result["domain"], result["dimension"], result["radius"]) == ("ball", 8, 1)


@pytest.mark.points(0)
def test_an_overhead_is_counted_and_laid_out_for(run):
    line = ("compare", "--users", "10^4", "--epsilon", "1", "--delta", "1e-8", "--domain", "ball",
            "--dimension", "30", "--protocol", "private-vector-sum", "--json")  # fmt: skip
    rows = {n: run(*line, *more).json["rows"][0] for n, more in ((0, ()), (48, ("--overhead", 48)))}
    assert rows[0]["bytes_per_user"] is None
    protocol = PrivateVectorSum(10**4, Ball(30), 1, Fraction("1e-8"), layout="blocks")
    assert rows[48]["messages_per_user"] == protocol.layout.messages_per_user
    assert rows[48]["bytes_per_user"] == protocol.layout.bytes_per_user(48)
    assert rows[48]["messages_per_user"] < rows[0]["messages_per_user"]


@pytest.mark.slow
def test_the_table_holds_the_numbers_rounded_up(run):
    rows = {row["key"]: row for row in run(*LINE, "--json").json["rows"]}
    lines = [line.split() for line in run(*LINE).out.splitlines()]
    shown = {words[0]: words for words in lines if words and words[0] in rows and words[1] in
             ("central", "shuffle", "local")}  # fmt: skip
    assert shown.keys() == rows.keys()
    for key, row in rows.items():
        mse, mean_error = (float(text.replace(",", "")) for text in shown[key][4:6])
        assert row["mse"] * (1 - 1e-9) <= mse <= 1.011 * row["mse"] + 1
        assert row["mean_error"] * (1 - 1e-9) <= mean_error


@pytest.mark.points(0)
def test_fewer_honest_users_and_what_is_not_possible(run):
    result = run(*LINE, "--min-honest", "50%", "--json").json
    assert result["min_honest"] == 500
    reasons = {row["key"]: row["reason"] for row in result["rows"]}
    assert reasons["private-sum"] is None
    few = run(*LINE, "--protocol", "designated-noise", "--min-honest", "50%", "--json").json
    assert "all users" in {row["key"]: row["reason"] for row in few["rows"]}["designated-noise"]


def test_delta_is_one_over_the_square_of_users_unless_given(run):
    line = ("compare", "--users", "1000", "--epsilon", "1", "--protocol", "local-laplace")
    found = run(*line, "--json").json
    assert found["delta"] == 1e-6
    assert any(note.startswith("delta is 1/users^2") for note in found["notes"])


def test_measured_errors_are_those_of_runs(run, people):
    given = (*DATA, "--runs", "3", "--seed", "5", "--json")
    result = run("compare", "--data", people, *given, warning=WARNING).json
    assert result["data"]["runs"] == 3
    assert (result["users"], result["data"]["column"]) == (1000, "age")
    made = comparison(1000, 1, Fraction("1e-8"), lower=0, upper=100, protocols=["private-sum"])
    values = [20 + i % 50 for i in range(1000)]
    found = baselines.measure(made[0], values, 3, DeterministicRandom(5))
    (row,) = (row for row in result["rows"] if row["key"] == "private-sum")
    assert row["errors"] == list(found.errors)
    assert row["measured"] == found.rmse
    assert (row["low"], row["high"]) == found.interval(0.95)
    shown = run("compare", "--data", people, *given[:-1], "--protocol", "private-sum",
                warning=WARNING).out  # fmt: skip
    assert shown.splitlines()[2].split()[4:7] == ["MSE", "RMSE", "RMSE"]  # as is measured


def test_data_out_of_range(run, refused, people):
    given = ["--upper", "40"]
    narrow = [*DATA[:4], *given, *DATA[6:]]
    assert "row 22" in refused("compare", "--data", people, *narrow)
    options = ("--on-out-of-range", "clamp", "--runs", "1", "--json")
    moved = run("compare", "--data", people, *narrow, *options,
                warning=[WARNING, "580 values were moved"])  # fmt: skip
    assert len(moved.json["warnings"]) == 2


def test_a_protocol_that_cannot_run_says_why(run, people, monkeypatch):
    def short(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(baselines, "measure", short)
    result = run("compare", "--data", people, *DATA, "--json", warning=WARNING).json
    assert {row["reason"] for row in result["rows"]} == {"not enough memory for this"}
    assert all(row["mse"] for row in result["rows"])


@pytest.mark.slow
def test_a_year_of_weekly_histograms_is_one_table(run):
    line = ("compare", "--users", "10^6", "--epsilon", "1", "--domain", "categories", "--sizes",
            "1000", "--releases", "52", "--overhead", "48")  # fmt: skip
    result = run(*line, "--json").json
    assert result["releases"] == 52
    found = {row["key"]: row for row in result["rows"]}
    rows = {key: row for key, row in found.items() if not key.startswith("verified")}
    for key in found.keys() - rows.keys():
        assert "500 bits" in found[key]["reason"] or "dimension" in found[key]["reason"]
    tasks = {None, "shares", "masks", "helpers", "frequencies"}
    assert {row["task"] for row in rows.values()} == tasks
    assert all(row["guarantee"]["delta"] <= 1e-12 * (1 + 1e-9) for row in rows.values())
    assert all(row["bytes_per_user"] for row in rows.values())
    text = run(*line).out
    assert "for 52 releases together" in " ".join(text.split())
    shown = {words[0]: words for words in map(str.split, text.splitlines()) if words}
    for key, row in rows.items():
        task = [row["task"]] if row["task"] else []
        assert shown[key][8:] == [str(row["servers"]), *task, *row["trusted"].split()]
    spent = " ".join(text.split()).split("may spend --epsilon ")[1].split()
    assert optimal_delta(1, 52, float(spent[0]), float(spent[2])) <= 1e-12
    assert float(spent[0]) == pytest.approx(0.02274, rel=1e-3)


def test_weak_budgets_are_warned_of(run):
    line = ("compare", "--users", "1000", "--epsilon", "20", "--protocol", "local-laplace")
    run(*line, warning="epsilon = 20")


@pytest.mark.slow
def test_plot(run, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "x.png"
    assert run(*LINE, "--plot", path, "--json").json["plot"] == str(path)
    assert path.read_bytes().startswith(b"\x89PNG")
