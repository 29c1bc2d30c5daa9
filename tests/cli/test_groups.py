"""Releases by groups, with missing values, and quantiles: what is printed is the library's."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from command_lines import POSIX, PROGRAM

from ikos import Ledger, PrivateVectorSum, statistics
from ikos.cli.release import Labelled
from ikos.statistics import mean, quantiles, variance
from ikos.testing import DeterministicRandom

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "groups.md"

N = 600
BOUNDS = {"lower": 0, "upper": 100_000, "epsilon": 1, "delta": 1e-6}
BUDGET = {"epsilon": 1, "delta": 1e-6}
OPTIONS = ("--column", "pay", "--lower", "0", "--upper", "100000", "--epsilon", "1", "--delta",
           "1e-6", "--json")  # fmt: skip
BY = ("--by", "region", "--groups", "north,south")
WRITTEN = ("--thousands", ",", "--na", "-", "--on-missing", "exclude")

ADVICE = "; --on-missing accepts such rows"

PAY = np.where(np.arange(N) % 10 == 0, math.nan, 20_000.0 + 50 * np.arange(N))
REGION = np.array([["north", "south", None][i % 7 % 3] for i in range(N)], dtype=object)
SEX = np.array(["f" if i % 5 else "m" for i in range(N)], dtype=object)


@pytest.fixture
def staff(tmp_path):
    """Return a file with blanks, dashes and thousands."""
    rows = [
        f'{region or ""},"{"-" if math.isnan(pay) else f"{pay:,.0f}"}",{sex}\n'
        for region, pay, sex in zip(REGION, PAY, SEX, strict=True)
    ]
    path = tmp_path / "staff.csv"
    path.write_text("region,pay,sex\n" + "".join(rows))
    return path


@pytest.fixture
def seeded(monkeypatch):
    """Make sums of vectors reproducible."""
    real = PrivateVectorSum.run

    def seeded(self, x, rng=None, **options):
        return real(self, x, DeterministicRandom(1), **options)

    monkeypatch.setattr(PrivateVectorSum, "run", seeded)


def near(rows, expected, key="count"):
    """The noise is beyond this with a probability below 1e-20 for each count."""
    assert [row["group"] for row in rows] == [
        list(group) if isinstance(group, tuple) else group for group in expected
    ]
    for row, count in zip(rows, expected.values(), strict=True):
        assert abs(row[key] - count) < 150
        assert row[f"{key}_low"] <= row[key] <= row[f"{key}_high"]


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("command", ["sum", "mean"])
def test_numbers_by_groups_are_the_librarys(run, staff, command):
    """Sums of integers are not rounded, so that what is released depends on the seed alone."""
    given = (*OPTIONS, *BY, *WRITTEN, "--integers", "--confidence", "0.9")
    printed = run(command, staff, *given).json
    expected = mean(
        PAY, by=REGION, groups=["north", "south"], missing="exclude", integers=True, **BOUNDS
    )
    for row, place in zip(printed["rows"], range(2), strict=True):
        assert row["group"] == ["north", "south"][place]
        for name, of in (("count", "counts"), ("sum", "sums"), ("mean", "means")):
            band = getattr(expected, f"{name}_interval")(0.9)
            assert row[name] == getattr(expected, of)()[place]
            assert (row[f"{name}_low"], row[f"{name}_high"]) == (band.low[place], band.high[place])
        assert row["missing"] == expected.missing()[place]
    assert (printed["users"], printed["on_missing"], printed["by"]) == (N, "exclude", ["region"])
    assert printed["guarantee"]["epsilon"] == 1
    assert printed["delta"] == expected.guarantee.delta <= 1e-6
    assert {printed[key] for key in ("sum", "mean", "count", "missing", "not_private")} == {None}
    header = run(command, staff, *OPTIONS[:-1], *BY, *WRITTEN).out.splitlines()[2].split()
    assert ("sum" in header, header[:1]) == (command == "sum", ["users"])


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(("by", "missing"), [((), "exclude"), (BY, "exclude"), ((), "20000")])
def test_variances_are_the_librarys(run, staff, by, missing):
    """Rounding draws from its own randomness: the noise alone is seeded."""
    given = (*OPTIONS, *by, *WRITTEN[:-1], missing, "--confidence", "0.9")
    printed = run("variance", staff, *given).json
    groups = {"by": REGION, "groups": ["north", "south"]} if by else {}
    fill = missing if missing == "exclude" else float(missing)
    expected = variance(PAY, missing=fill, **groups, **BOUNDS)
    alone = fill != "exclude"
    values = np.atleast_1d(expected.estimate if alone else expected.variances())
    band = expected.interval(0.9) if alone else expected.variance_interval(0.9)
    for place, value in enumerate(values):
        row = printed["rows"][place] if by else printed
        assert row["variance"] == pytest.approx(value, abs=2e7)
        low, high = (np.atleast_1d(end)[place] for end in band)
        assert row["variance_high"] - row["variance_low"] == pytest.approx(high - low, rel=0.2)
        assert row["mean_low"] <= row["mean"] <= row["mean_high"]
        assert (row["missing"] is None) == alone
    names = [row.get("name") for row in printed["rows"]]
    wanted = ["variance", "mean"] if alone else ["variance", "mean", "count", "missing"]
    assert names == ([None, None] if by else wanted)
    header = run("variance", staff, *(one for one in given if one != "--json")).out.splitlines()[2]
    assert header.split()[:1] == (["users"] if by else ["estimate"])


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("by", [(), BY])
def test_counts_are_the_librarys(run, staff, by):
    """Answers are not rounded, so that what is released depends on the seed alone."""
    given = ("--column", "sex", "--where", "m", *OPTIONS[6:], *by)
    printed = run("count", staff, *given, "--on-missing", "exclude").json
    groups = {"by": REGION, "groups": ["north", "south"]} if by else {}
    expected = statistics.count(SEX == "m", missing="exclude", **groups, **BUDGET)
    for place, true in enumerate(np.atleast_1d(expected.sums())):
        row = printed["rows"][place] if by else printed
        assert row["sum"] == true
        assert row["mean"] == np.atleast_1d(expected.means())[place]
        assert row["count"] == np.atleast_1d(expected.counts())[place]
    plain = (one for one in given if one != "--json")
    text = run("count", staff, *plain, "--on-missing", "exclude").out
    assert "proportion" in text


def test_counts_of_all_users(run, refused, tmp_path):
    """And of missing answers, counted or not."""
    path = tmp_path / "t.csv"
    path.write_text("vote,n\n" + "yes,1\nYES,2\n,3\n no,1.0\n" * 200)
    given = ("--column", "vote", "--where", "yes", *OPTIONS[6:])
    assert refused("count", path, *given).endswith(f"row 3 has no value in column 'vote'{ADVICE}")
    for fill, true in (("0", 200), ("1", 400)):
        printed = run("count", path, *given, "--on-missing", fill).json
        assert abs(printed["sum"] - true) < 60
        assert printed["mean"] == printed["sum"] / 800
        assert printed["count"] is printed["missing"] is None
    printed = run("count", path, "--column", "n", "--where", "1", *OPTIONS[6:]).json
    assert abs(printed["sum"] - 400) < 60


@pytest.mark.parametrize("what", ["--categories", "--bins"])
def test_histograms_of_missing_values(run, refused, tmp_path, what):
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "1\n2\nn/a\n2.0\n" * 200)
    kind = ("--categories", "1,2") if what == "--categories" else ("--bins", "0,2,4")
    given = ("--column", "n", "--na", "n/a", *kind, *OPTIONS[6:])
    assert refused("histogram", path, *given).endswith(f"row 3 has no value in column 'n'{ADVICE}")
    printed = run("histogram", path, *given, "--on-missing", "exclude").json
    counts = [row["estimate"] for row in printed["rows"]]
    assert np.abs(np.subtract(counts, (200, 400, 200))).max() < 60
    assert (len(printed["categories"]), printed["rows"][-1]["name"]) == (2, "missing")
    assert printed["missing"] == counts[-1]
    assert printed["missing_low"] <= counts[-1] <= printed["missing_high"]
    printed = run("histogram", path, *given, "--on-missing", "1").json
    counts = [row["estimate"] for row in printed["rows"]]
    assert np.abs(np.subtract(counts, (400, 400))).max() < 60
    assert printed["missing"] is None
    assert any("The value 1, which is public, stands" in note for note in printed["notes"])


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("missing", ["exclude", "m"])
def test_histograms_by_groups_are_the_librarys(run, tmp_path, missing):
    """In one release, with a row for each group and category."""
    path = tmp_path / "t.csv"
    pairs = [("" if i % 9 == 0 else "fmx"[i % 3], REGION[i] or "north") for i in range(N)]
    path.write_text("sex,region\n" + "".join(f"{sex},{region}\n" for sex, region in pairs))
    given = ("--column", "sex", "--categories", "f,m", "--other", "rest", *OPTIONS[6:], *BY)
    printed = run("histogram", path, *given, "--on-missing", missing, "--confidence", "0.9").json
    sex, region = ([one or None for one in column] for column in zip(*pairs, strict=True))
    expected = statistics.histogram(
        sex, ["f", "m"], other="rest", missing=missing, by=region, groups=["north", "south"],
        **BUDGET,
    )  # fmt: skip
    wanted = [
        {
            "group": group, "name": "missing" if name is None else name,
            "estimate": value, "low": low, "high": high,
        }
        for group, result in expected.items()
        for (name, value), (low, high) in zip(
            result.estimates().items(), result.intervals(0.9).values(), strict=True
        )
    ]  # fmt: skip
    assert printed["rows"] == wanted
    assert len(wanted) == (8 if missing == "exclude" else 6)
    assert (printed["by"], printed["missing"]) == (["region"], None)
    assert printed["guarantee"]["epsilon"] == 1
    plain = (one for one in given if one != "--json")
    text = run("histogram", path, *plain, "--on-missing", missing).out
    lines = re.findall(r"^  (north|south)  (f|m|rest|missing) ", text, re.MULTILINE)
    assert lines == [(row["group"], row["name"]) for row in wanted]


def test_histograms_by_several_columns(run, refused, staff):
    """With a protocol for all combinations; others are a category, and no group."""
    given = ("--column", "pay", "--thousands", ",", "--na", "-", "--bins", "0,30000,50000",
             *OPTIONS[6:], "--on-missing", "exclude")  # fmt: skip
    by = (*BY, "--by", "sex", "--groups", "f,m")
    found = run("histogram", staff, *given, *by, "--max-error", "8").json
    best, *_ = statistics.histogram_protocols(N, 2 * 2 * 3 + 1, **BUDGET, max_error=8)
    assert str(best.cost()) in found["choice"][0]
    low = np.where(np.isnan(PAY), 2, PAY >= 30_000)
    true = [
        np.sum((region == REGION) & (sex == SEX) & (low == cell))
        for region in ("north", "south")
        for sex in ("f", "m")
        for cell in range(3)
    ]
    counts = [row["estimate"] for row in found["rows"]]
    assert np.abs(np.subtract(counts, true)).max() < 80
    assert found["rows"][0]["group"] == ["north", "f"]
    said = refused("histogram", staff, *given, "--by", "sex", "--groups", "f,x")
    assert said.endswith("has a value in column 'sex', which is not one of the --groups")
    assert "--groups must be given once" in refused("histogram", staff, *given, "--by", "sex")


@pytest.mark.usefixtures("seeded")
def test_those_who_have_a_value(run, staff):
    printed = run("mean", staff, *OPTIONS, *WRITTEN).json
    values = {row["name"]: (row["estimate"], row["low"], row["high"]) for row in printed["rows"]}
    assert list(values) == ["mean", "count", "missing"]
    for name, true in (("mean", np.nanmean(PAY)), ("count", 540), ("missing", 60)):
        assert values[name] == tuple(printed[f"{name}{end}"] for end in ("", "_low", "_high"))
        low, high = values[name][1:]
        assert (
            low - 1000 < true < high + 1000 if name == "mean" else abs(values[name][0] - true) < 90
        )


def test_several_columns_of_groups_and_others(run, staff):
    given = (*BY[:3], "north", "--other", "rest", "--by", "sex", "--groups", "f,m", *WRITTEN)
    rows = run("sum", staff, *OPTIONS, *given).json["rows"]
    there = ~np.isnan(PAY) & (REGION != None)  # noqa: E711
    cells = {
        (region, sex): np.sum(there & ((REGION == "north") == (region == "north")) & (sex == SEX))
        for region in ("north", "rest")
        for sex in ("f", "m", "rest")
    }
    near(rows, {**cells, ("rest", "rest"): 0})
    assert run("sum", staff, *OPTIONS[:-1], *given).out.count("\n  north, f ") == 1


def test_a_number_for_each_missing_value(run, refused, staff):
    """The sum of all users, as before."""
    given = (*OPTIONS, "--thousands", ",", "--na", "-", "--on-missing")
    printed = run("sum", staff, *given, "50000", "--show-true").json
    filled = np.where(np.isnan(PAY), 50_000, PAY)
    assert printed["not_private"]["true_sum"] == filled.sum()
    assert printed["not_private"]["true_sum_before_clamping"] == filled.sum()
    assert printed["not_private"]["clamped_values"] == 0
    assert any("The value 50,000, which is public, stands for" in one for one in printed["notes"])
    assert refused("sum", staff, *given, "refuse").endswith(
        f"row 1 has no value in column 'pay'{ADVICE}"
    )
    said = refused("sum", staff, *given, "50000", *BY)
    assert said.endswith("row 3 has no value in column 'region'")


def test_a_user_without_a_label_is_no_other():
    look = Labelled("--groups", ["north", "south"], "rest", gaps=True)
    cells = np.array(["south", "", "abroad", "north"], dtype=object)
    assert look(cells, 0).tolist() == ["south", None, "rest", "north"]


def test_labels_that_are_numbers_are_compared_as_numbers(run, refused, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("pay,year\n" + "5,2020\n6,2021.0\n7,NA\n" * 50)
    given = ("--column", "pay", "--lower", "0", "--upper", "9", *OPTIONS[6:], "--by", "year",
             "--groups", "2020,2021")  # fmt: skip
    assert refused("mean", path, *given).endswith(f"row 3 has no value in column 'year'{ADVICE}")
    printed = run("mean", path, *given, "--on-missing", "exclude").json
    near(printed["rows"], {"2020": 50, "2021": 50})


def test_groups_of_a_parquet_file_and_of_a_folder(run, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "p").mkdir()
    pay, region = np.where(np.isnan(PAY), None, PAY), REGION
    for part in range(3):
        table = pa.table({"pay": pay[part::3].tolist(), "region": region[part::3].tolist()})
        parquet.write_table(table, tmp_path / "p" / f"{part}.parquet")
    rows = run("mean", tmp_path / "p", *OPTIONS, *BY, "--on-missing", "exclude").json["rows"]
    there = ~np.isnan(PAY)
    near(rows, {name: np.sum(there & (region == name)) for name in ("north", "south")})
    near(rows, {name: np.sum(~there & (region == name)) for name in ("north", "south")}, "missing")


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("more", [(), (*BY, "--on-missing", "exclude")])
def test_quantiles_are_the_librarys(run, staff, more):
    filled = more or ("--on-missing", "0")
    given = (*OPTIONS, "--thousands", ",", "--na", "-", "--bins", "40", "--confidence", "0.9")
    printed = run("quantiles", staff, *given, *filled, "--q", "0.5,0.9").json
    by = (
        {"by": REGION, "groups": ["north", "south"], "missing": "exclude"}
        if more
        else {"missing": 0}
    )
    expected = quantiles(PAY, (0.5, 0.9), bins=40, **by, **BOUNDS)
    for group, result in (expected if more else {None: expected}).items():
        rows = [row for row in printed["rows"] if row["group"] == group]
        assert [row["q"] for row in rows] == [0.5, 0.9]
        estimates = [None if math.isnan(one) else one for one in result.estimate]
        assert [row["value"] for row in rows] == estimates
        band = result.interval(0.9)
        assert [(row["low"], row["high"]) for row in rows] == [*zip(*band, strict=True)]
    assert (printed["bins"], printed["confidence"], printed["users"]) == (40, 0.9, N)


def test_quantiles_of_integers(run, people):
    """One bin for each, in the ages of whom 20 to 69 are equally frequent."""
    given = ("--column", "age", "--lower", "0", "--upper", "100", "--integers", "--epsilon", "50",
             "--delta", "1e-6")  # fmt: skip
    warning = "epsilon = 50 is very weak protection"
    printed = run("quantiles", people, *given, "--json", warning=warning).json
    assert [row["value"] for row in printed["rows"]] == [32, 44, 57]
    assert printed["bins"] == 101
    lines = run("quantiles", people, *given, warning=warning).out.splitlines()
    assert lines[4].split()[:2] == ["0.5", "44"]


@POSIX
@pytest.mark.slow
def test_an_hour_with_a_table(tmp_path):
    """The script of the page, on three months of a file as it comes, in one budget.

    An interval of confidence 1 - 1e-12 is 24,000 wide on each side for a mean, and 7,000 for a
    median: for all 18 the false alarms have probability below 1e-10.
    """
    rng, true = np.random.default_rng(0), {}
    for month in ("march", "april", "may"):
        region = rng.choice(["north", "south", "west"], 1500)
        pay = rng.normal(42_000, 6_000, 1500).clip(0, 200_000).round()
        lost = rng.random(1500)
        cells = [
            "" if gone < 0.05 else "n/a" if gone < 0.1 else f"{one:,.0f}"
            for one, gone in zip(pay, lost, strict=True)
        ]
        rows = map(";".join, zip(region, cells, strict=True))
        (tmp_path / f"{month}.csv").write_text("\n".join(["region;salary", *rows, ""]))
        true[month] = [np.mean(pay[(lost >= 0.1) & (region == one)]) for one in np.unique(region)]
    path = os.pathsep.join([os.path.dirname(PROGRAM[0]), os.environ["PATH"]])
    script = re.search(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "54 % is spent" in done.stdout
    assert [entry.epsilon for entry in Ledger(tmp_path / "salaries.ledger").entries] == [
        Fraction("0.9"), Fraction("0.9"),
    ] * 3  # fmt: skip
    for month, means in true.items():
        found = json.loads((tmp_path / f"{month}-mean.json").read_text())["rows"]
        assert [row["group"] for row in found] == ["north", "south", "west"]
        medians = json.loads((tmp_path / f"{month}-median.json").read_text())["rows"]
        for row, median, mean_of_region in zip(found, medians, means, strict=True):
            assert abs(row["mean"] - mean_of_region) < 25_000
            assert row["mean_low"] <= row["mean"] <= row["mean_high"]
            assert abs(median["value"] - 42_000) < 8000
            assert median["low"] <= median["value"] <= median["high"]
