"""Every result in every form: for notebooks, programs, data frames and figures."""

from __future__ import annotations

import json
import math
import pickle
import re
import sys
from html.parser import HTMLParser
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import ikos
from ikos.baselines import PCKVGRR
from ikos.results.tables import Estimate, Results, Tabular
from ikos.statistics import histograms, linear_statistics, means, variances
from ikos.testing import DeterministicRandom

N = 400
NORTH, SOUTH, EMPTY = "north <b> & $x_", "south", "nowhere"
GROUPS = [NORTH, SOUTH, EMPTY]
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-5}
HUNDRED: dict[str, Any] = {"lower": 0, "upper": 100, **BUDGET}
TABLE = pd.DataFrame(
    {
        "region": [NORTH, SOUTH] * (N // 2),
        "sex": [0, 0, 1, 1] * (N // 4),
        "pay": np.linspace(20, 80, N),
        "age": np.linspace(30, 50, N),
    }
)
PAY, TWO = TABLE["pay"], TABLE[["pay", "age"]]
REGION: dict[str, Any] = {"by": TABLE["region"], "groups": GROUPS}
BOTH: dict[str, Any] = {
    "by": TABLE[["region", "sex"]], "groups": {"region": GROUPS, "sex": [0, 1]},
}  # fmt: skip


def key_values(rng: DeterministicRandom) -> Any:
    domain = ikos.SparseTernary(4, 1)
    return PCKVGRR(100, domain, 1, 1e-4).run(np.eye(4)[np.arange(100) % 4], rng)


CASES: dict[str, Any] = {
    "SumResult": lambda rng: ikos.mean(PAY, rng=rng, **HUNDRED),
    "SumResult of a count": lambda rng: ikos.count(PAY > 50, rng=rng, **BUDGET),
    "SumResult of a vector": lambda rng: ikos.PrivateVectorSum(9, ikos.Box(50), 1, 1e-3).run(
        np.full((9, 50), 0.5), rng
    ),
    "SumResult of a matrix": lambda rng: ikos.PrivateVectorSum(
        9, ikos.Box(4, shape=(2, 2)), 1, 1e-3
    ).run(np.full((9, 2, 2), 0.5), rng),
    "KeyValueResult": key_values,
    "PresentMean": lambda rng: ikos.mean(
        PAY.where(PAY > 25), missing="exclude", rng=rng, **HUNDRED
    ),
    "GroupMeans": lambda rng: ikos.mean(PAY, rng=rng, **REGION, **HUNDRED),
    "GroupMeans of a count": lambda rng: ikos.count(PAY > 50, rng=rng, **REGION, **BUDGET),
    "GroupMeans of two columns": lambda rng: ikos.mean(PAY, rng=rng, **BOTH, **HUNDRED),
    "Quantiles": lambda rng: ikos.quantiles(PAY, rng=rng, **HUNDRED),
    "Quantiles by groups": lambda rng: ikos.quantiles(PAY, rng=rng, **REGION, **HUNDRED),
    "median by two columns": lambda rng: ikos.median(PAY, rng=rng, **BOTH, **HUNDRED),
    "Histogram": lambda rng: ikos.histogram(TABLE["region"], GROUPS, rng=rng, **BUDGET),
    "Histograms": lambda rng: histograms(BOTH["by"], BOTH["groups"], rng=rng, **BUDGET),
    "ColumnSums": lambda rng: means(TWO, rng=rng, **HUNDRED),
    "ColumnSums of functions": lambda rng: linear_statistics(
        TWO / 100, [[1, 1]], ikos.Box(2), rng=rng, **BUDGET
    ),
    "Variances": lambda rng: variances(TWO, rng=rng, **HUNDRED),
    "Variances of one": lambda rng: ikos.variance(PAY, rng=rng, **HUNDRED),
    "GroupMeans of columns": lambda rng: means(TWO, rng=rng, **REGION, **HUNDRED),
    "PresentMean of columns": lambda rng: means(TWO, missing="exclude", rng=rng, **HUNDRED),
}


@pytest.fixture(scope="module", params=CASES)
def result(request: pytest.FixtureRequest) -> Tabular:
    found: Tabular = CASES[request.param](DeterministicRandom(1))
    return found


def strict(text: str) -> Any:
    def refused(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refused)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, with NaN as null."""
    return a == b or all(one is None or one != one for one in (a, b))


@pytest.mark.points(1)
def test_json_is_the_dict(result: Tabular) -> None:
    data, read = result.as_dict(), strict(result.to_json())
    assert read["confidence"] == 0.95
    assert read["guarantee"]["epsilon"] == data["guarantee"]["epsilon"]
    assert not data["proved"]  # drawn from a seed
    for row, other in zip(data["rows"], read["rows"], strict=True):
        assert row.keys() == other.keys()
        assert all(same(row[key], other[key]) for key in row)


@pytest.mark.points(1)
def test_a_frame_has_the_rows_of_the_dict(result: Tabular) -> None:
    rows, frame = result.as_dict()["rows"], result.to_frame()
    if result._table().names:
        frame = frame.reset_index()
    for row, other in zip(rows, frame.to_dict("records"), strict=True):
        assert row.keys() == other.keys()
        assert all(same(row[key], other[key]) for key in row)
    for name in result._table().quantities:
        known = frame[frame[name].notna()]
        assert (known[f"{name}_low"] <= known[name]).all()
        assert (known[name] <= known[f"{name}_high"]).all()


@pytest.mark.points(1)
def test_rows_are_found_by_their_labels(result: Tabular) -> None:
    table, frame = result._table(), result.to_frame()
    for place, label in enumerate(table.labels):
        for name in table.quantities:
            if isinstance(result, Results):  # a dict first
                depth = len(label) - len(result[next(iter(result))]._table().names)
                key = label[0] if depth == 1 else label[:depth]
                inner, rest = result[key], label[depth:]
            else:
                inner, rest = result, label
            at = rest if len(rest) > 1 else rest[0] if rest else name
            found = inner[at]
            if rest and len(table.quantities) > 1:
                found = found[name]
            assert isinstance(found, Estimate)
            ends = frame.iloc[place][[name, f"{name}_low", f"{name}_high"]]
            assert all(map(same, found, ends))


class _Texts(HTMLParser):
    """Counts elements, all of which must be closed in order, and collects their texts."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.texts: list[str] = []
        self.elements: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append(tag)
        if tag != "br":
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_notebooks_show_a_table_and_the_guarantee(result: Tabular) -> None:
    parser = _Texts()
    parser.feed(result._repr_html_())
    assert not parser.opened
    assert set(parser.elements) == {"table", "tr", "th", "td", "small", "p", "br", "ul", "li"}
    text = "".join(parser.texts)
    guarantee = result._sum.guarantee
    assert guarantee.budget in text
    assert all(str(one) in parser.texts for one in guarantee.conditions)
    table = result._table()
    rows = list(table.labels)
    if table.names:
        assert parser.elements.count("tr") == 1 + min(len(rows), 20)
        assert all(str(part) in parser.texts for label in rows[:20] for part in label)
    else:
        assert parser.elements.count("tr") == 1 + len(table.quantities)
    assert (f"of {len(rows)} rows" in text) == (len(rows) > 20)


def test_repr_is_one_line(result: Tabular) -> None:
    text = repr(result)
    assert "\n" not in text
    assert text.startswith(f"<{type(result).__name__} of ")
    assert text.endswith(f"{result._sum.guarantee.budget}>")
    assert len(str(result).splitlines()) > 3


def test_every_result_is_drawn_with_its_intervals(result: Tabular) -> None:
    figure = result.plot()
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    table = result._table()
    names = table.drawn or tuple(table.quantities)
    lines = [line for axes in figure.axes for line in axes.lines if line.get_gid() == "estimates"]
    drawn = sum(len(line.get_xdata()) for line in lines)  # type: ignore[arg-type]
    assert drawn == len(list(table.labels)) * len(names)
    with pytest.raises(ValueError, match=r"^quantities must be .*got 'colour'"):
        result.plot("colour")


def test_results_by_name_are_dicts_that_pickle() -> None:
    result = CASES["GroupMeans of columns"](DeterministicRandom(1))
    assert isinstance(result, dict)
    assert list(result) == ["pay", "age"]
    again = pickle.loads(pickle.dumps(result))
    assert again.to_json() == result.to_json()
    lines = str(result).splitlines()
    assert [line.partition(": mean ")[0] for line in lines[:6]] == [
        f"{name}: {group}" for name in result for group in GROUPS
    ]
    assert sum(line.startswith("guarantee ") for line in lines) == 1


@pytest.mark.slow
def test_indexes_have_the_names_of_columns() -> None:
    by_region = CASES["GroupMeans"](None)
    assert by_region.to_frame().index.name == "region"
    assert CASES["GroupMeans of two columns"](None).to_frame().index.names == ["region", "sex"]
    frame = CASES["Quantiles by groups"](None).to_frame()
    assert frame.index.names == ["region", "quantile"]
    unnamed = ikos.mean(PAY, by=TABLE["region"].tolist(), groups=GROUPS, **HUNDRED)
    assert unnamed.to_frame().index.name == "group"


@pytest.mark.parametrize("convert", [pd.DataFrame, pa.Table.from_pandas], ids=["pandas", "pyarrow"])
def test_columns_keep_their_names(convert: Any) -> None:
    table = convert(TWO)
    assert list(means(table, **HUNDRED).to_frame().index) == ["pay", "age"]
    assert str(variances(table, **HUNDRED)).startswith("variance pay ")
    assert list(means(table, missing="exclude", **HUNDRED)) == ["pay", "age"]
    assert list(means(TWO.to_numpy(), **HUNDRED).to_frame().index) == [0, 1]


@pytest.mark.parametrize("convert", [pd.DataFrame, pa.Table.from_pandas], ids=["pandas", "pyarrow"])
def test_bounds_by_the_names_of_columns(convert: Any) -> None:
    table, lower, upper = convert(TWO), {"age": 0, "pay": -50}, {"age": 200, "pay": 150}
    bounds: dict[str, Any] = {"lower": lower, "upper": upper, **BUDGET}
    result = means(table, **bounds)
    assert result.offset.tolist() == [50, 100]
    assert variances(table, **bounds).centre.tolist() == [50, 100]
    present = means(table, missing="exclude", **bounds)
    assert (present["pay"].bounds.lower, present["age"].bounds.lower) == (-50, 0)
    present = variances(table, missing="exclude", **bounds)
    assert (present["pay"].bounds.upper, present["age"].bounds.upper) == (150, 200)
    for broken, said in (
        ({"age": 0}, "lower must name a bound for each column of x, got none for 'pay'"),
        ({**lower, "size": 0}, "lower must name columns of x, got a bound for 'size'"),
    ):
        for function, missing in product((means, variances), ("refuse", "exclude")):
            with pytest.raises(ValueError, match=re.escape(said)):
                function(table, missing=missing, **{**bounds, "lower": broken})
    with pytest.raises(ValueError, match="lower must name columns of x, got a bound for 'age'"):
        means(TWO.to_numpy(), **bounds)


def test_labels_that_hide_a_quantity_are_renamed() -> None:
    by = pd.Series(TABLE["sex"], name="mean")
    row = ikos.mean(PAY, by=by, groups=[0, 1], **HUNDRED).as_dict()["rows"][1]
    assert row["mean_label"] == 1
    assert math.isclose(row["mean"], 50, abs_tol=10)


def test_labels_of_json_are_values_or_texts() -> None:
    labels = [np.int64(3), None, "a", (1, 2), pd.Timestamp("2026-01-01")]
    result = ikos.histogram(labels * 20, labels, **BUDGET)
    rows = strict(result.to_json())["rows"]
    assert [row["category"] for row in rows] == [3, None, "a", "(1, 2)", "2026-01-01 00:00:00"]


def test_means_beside_variances_have_the_intervals_of_a_sum() -> None:
    """In the data's units, with more noise than if the mean were released alone."""
    wide = np.diff(ikos.variance(PAY, **HUNDRED).mean_interval())[0]
    alone = np.diff(ikos.mean(PAY, **HUNDRED).mean_interval())[0]
    assert alone < wide < 2 * alone


def test_nothing_known_is_said_in_every_form() -> None:
    result = CASES["GroupMeans"](DeterministicRandom(1))
    assert re.search(r">none <small[^>]*>\[0, 100\]<", result._repr_html_())
    assert strict(result.to_json())["rows"][2]["mean"] is None
    assert result[EMPTY]["mean"][1:] == (0, 100)
    assert str(result[EMPTY]["mean"]) == "none [0, 100]"


@pytest.mark.slow
def test_warnings_are_shown() -> None:
    result = ikos.count([True] * 30, epsilon=11, delta=1e-3)
    assert result.as_dict()["warnings"] == result.warnings()
    assert "Beware: epsilon = 11 is very weak protection" in result._repr_html_()


def test_frames_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CASES["SumResult"](None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^to_frame\(\) needs pandas: pip install pandas$"):
        result.to_frame()


def test_counts_by_groups() -> None:
    result = ikos.count(PAY > 50, **REGION, **BUDGET)
    truth = TABLE[PAY > 50].groupby("region").size()
    frame = result.to_frame()
    for group in (NORTH, SOUTH):
        assert abs(frame["sum"][group] - truth[group]) < 40
        assert abs(frame["count"][group] - N // 2) < 50
    with pytest.raises(TypeError, match=r"^count\(\) got an unexpected keyword argument 'lower'"):
        ikos.count(PAY > 50, lower=0, **BUDGET)
    with pytest.raises(TypeError, match=r"^median\(\) got an unexpected keyword argument 'q'"):
        ikos.median(PAY, q=0.3, **HUNDRED)


def test_missing_values_have_the_same_name_in_every_form() -> None:
    result = ikos.histogram(["a", None] * 500, ["a"], missing="exclude", **BUDGET)
    (axes,) = result.plot().axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a", "missing"]
    assert ">missing<" in result._repr_html_()
    assert ", missing: " in str(result)
