"""Releases of several columns under one guarantee: what is printed is the library's."""

from __future__ import annotations

import csv
import io
import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from ikos import Ledger, PrivateVectorSum, statistics
from ikos.testing import DeterministicRandom

N = 1200
PEOPLE = pd.DataFrame({  # at the bounds or halfway: nothing is rounded at random
    "age": np.arange(N) % 3 * 50.0,
    "pay": np.where(np.arange(N) % 10 == 0, math.nan, np.arange(N) % 7 % 3 * 1000.0 - 1000),
    "region": ["north" if i % 5 else "south" for i in range(N)],
})  # fmt: skip
BUDGET = {"epsilon": 1, "delta": 1e-6}
COLUMNS = ("--column", "age", "--column", "pay")
BOUNDS = ("--lower", "0", "--lower", "-1000", "--upper", "100", "--upper", "1000")
OPTIONS = (*COLUMNS, *BOUNDS, "--epsilon", "1", "--delta", "1e-6")
BY = ("--by", "region", "--groups", "north,south")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Return a file of ages and pays, of which some are missing, and make sums reproducible."""
    real = PrivateVectorSum.run

    def seeded(self, x, rng=None, **options):
        return real(self, x, DeterministicRandom(1), **options)

    monkeypatch.setattr(PrivateVectorSum, "run", seeded)
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


@pytest.mark.parametrize("command", ["sum", "mean", "variance"])
@pytest.mark.parametrize(
    "more", [("--on-missing", "0"), ("--on-missing", "exclude"), (*BY, "--on-missing", "exclude")]
)
def test_numbers_are_the_librarys(run, table, command, more):
    printed = run(command, table, *OPTIONS, *more, "--json").json
    of = statistics.variances if command == "variance" else statistics.means
    result = of(
        PEOPLE[["age", "pay"]], lower=[0, -1000], upper=[100, 1000],
        by=PEOPLE["region"] if "--by" in more else None,
        groups=["north", "south"] if "--by" in more else None,
        missing="exclude" if "exclude" in more else 0, **BUDGET,
    )  # fmt: skip
    expected = json.loads(result.to_json())
    for row, known in zip(printed["rows"], expected["rows"], strict=True):
        assert row["group"] == known.pop("region", None)
        assert {key: row[key] for key in known} == known
        assert {key for key, value in row.items() if value is not None} <= {*known, "group"}
    assert printed["column"] == ["age", "pay"]
    assert (printed["lower"], printed["upper"]) == ([0, -1000], [100, 1000])
    assert printed["mean"] is printed[{"mean": "sum"}.get(command, command)] is None
    assert printed["guarantee"] == expected["guarantee"]
    assert printed["cost"] == expected["cost"]


def test_a_row_for_each(run, table):
    """One entry of the ledger, and one bound for all columns."""
    ledger = Ledger.new(table.parent / "survey.ledger", 2, Fraction(1, 10**5))
    line = ("mean", table, *COLUMNS, "--lower", "-1000", "--upper", "1000", *OPTIONS[12:], *BY,
            "--on-missing", "exclude")  # fmt: skip
    lines = run(*line, "--ledger", ledger.path, "--note", "both").out.splitlines()
    assert lines[0] == "Private mean of column 'age', column 'pay' by column 'region'"
    assert [one.split()[:2] for one in lines[3:7]] == [
        ["age", "north"], ["age", "south"], ["pay", "north"], ["pay", "south"],
    ]  # fmt: skip
    assert any("the bounds, -1,000 and 1,000, and the labels" in one for one in lines)
    assert [entry.epsilon for entry in ledger.entries] == [1]
    rows = list(csv.DictReader(io.StringIO(run(*line, "--format", "csv").out)))
    assert [(row["column"], row["group"]) for row in rows] == [
        (column, group) for column in ("age", "pay") for group in ("north", "south")
    ]


def test_one_column_has_no_key_of_its_name(run, table):
    given = ("--column", "age", "--lower", "0", "--upper", "100", *OPTIONS[12:], "--json")
    for command in ("sum", "mean", "variance"):
        for more in ((), BY):
            printed = run(command, table, *given, *more).json
            assert (printed["column"], printed["lower"], printed["upper"]) == ("age", 0, 100)
            assert not any("column" in row for row in printed["rows"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "more", "quantities"),
    [
        ("sum", ("--on-missing", "0"), ["sum", "mean"]),
        ("mean", ("--on-missing", "exclude"), ["mean", "count", "missing"]),
        ("mean", (*BY, "--on-missing", "exclude"), ["mean", "count"]),
        ("variance", ("--on-missing", "0"), ["variance", "mean"]),
    ],
)
def test_figures_have_panels_for_each_column(run, table, monkeypatch, command, more, quantities):
    figure = pytest.importorskip("matplotlib.figure").Figure
    real, drawn = figure.savefig, []
    monkeypatch.setattr(figure, "savefig", lambda self, *a, **k: (
        drawn.append(self), real(self, *a, **k)
    ))  # fmt: skip
    path = table.parent / "x.svg"
    rows = run(command, table, *OPTIONS, *more, "--plot", path, "--json").json["rows"]
    axes = drawn[0].axes
    assert [one.get_xlabel() for one in axes] == [""] * len(quantities) + quantities
    points = [
        [line.get_xdata().tolist() for line in one.lines if line.get_gid() == "estimates"]
        for one in axes
    ]
    assert points == [
        [[row[name] for row in rows if row["column"] == column]]
        for column in ("age", "pay")
        for name in quantities
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((*OPTIONS, "--upper", "7"), "--upper must be given once, or once for each --column, got"),
        ((*OPTIONS[2:4], *OPTIONS[4:]), "--lower must be given once, or once for each --column, g"),
        ((*OPTIONS[:3], "age", *OPTIONS[4:]), "--column and --by must name different columns, got"),
        ((*OPTIONS[:3], "region", *OPTIONS[4:], *BY), "different columns, got age, region, region"),
        ((*OPTIONS[:7], "1000", *OPTIONS[8:]), "--upper must be greater than --lower, got 1000 an"),
        ((*OPTIONS, "--on-missing", "200"), "--on-missing must be a value within the bounds"),
        ((*OPTIONS, "--no-header"), "--column must be a number counted from 1, got 'age'"),
        (("--no-header", "--column", "1", *OPTIONS[2:]),
         "--column or --by must be a number counted from 1, got 'pay'"),
        (OPTIONS, "row 1 has no value in column 'pay'"),
        *(((*OPTIONS, *more), f"{more[0]} is not for several columns")
          for more in (("--integers",), ("--precision", "9"), ("--show-true",))),
    ],
)  # fmt: skip
def test_refused(refused, table, options, said):
    assert said in refused("mean", table, *options)
