"""No error shows a user's value, unless its own holder asks a table for that."""

from __future__ import annotations

import re
import traceback
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikos import (
    Ball,
    Box,
    Categories,
    PrivateSum,
    SecureSum,
    SecureVectorSum,
    SparseTernary,
    statistics,
)
from ikos.data.tables import open_column, read_column
from ikos.primitives.modular import Zq
from ikos.statistics import histograms, linear_statistics, means, variances

N = 30
SECRET = 7654.25
BAD = [SECRET, "7654.25", Decimal("7654.25"), [7654.25]]
"""Of whatever kind it is, its digits give it away."""

BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
SECURE = SecureSum(N, 2**16, messages=20)
VECTORS = SecureVectorSum(N, 1, 2**16, messages=20)


@cache
def private(upper: int = 5, *, integers: bool = False) -> PrivateSum:
    return PrivateSum(N, 1, 1e-6, lower=0, upper=upper, integers=integers)


@cache
def whole() -> PrivateSum:
    return private(10_000, integers=True)


def users(bad: Any) -> Any:
    return [1] * (N - 1) + [bad]


def rows(bad: Any) -> Any:
    return [[value] for value in users(bad)]


def objects(bad: Any) -> Any:
    x = np.empty(N, dtype=object)
    x[:] = 1
    x[-1] = bad
    return x


RUNS = {
    "private": lambda bad: private().run(users(bad)),
    "objects": lambda bad: private().run(objects(bad)),
    "blocks": lambda bad: private().run(iter([users(bad)])),
    "values instead of blocks": lambda bad: private().run(iter([bad])),
    "integers": lambda bad: whole().run(users(bad)),
    "report": lambda bad: whole().report(bad),
    "secure": lambda bad: SECURE.run(users(bad)),
    "secure objects": lambda bad: SECURE.run(objects(bad)),
    "secure blocks": lambda bad: SECURE.run(iter([users(bad)])),
    "secure report": lambda bad: SECURE.report(bad),
    "group": lambda bad: Zq(97).elements([bad]),
    "secure vectors": lambda bad: VECTORS.run(rows(bad)),
    "means": lambda bad: means(rows(bad), lower=0, upper=5, **BUDGET),
    "variances": lambda bad: variances(rows(bad), lower=0, upper=5, **BUDGET),
    "linear": lambda bad: linear_statistics(rows(bad), [[1]], Box(1), **BUDGET),
    "histograms": lambda bad: histograms({"a": users(bad)}, {"a": [1, 2]}, **BUDGET),
    "no mapping": lambda bad: histograms(users(bad), {"a": [1, 2]}, **BUDGET),
    "box": lambda bad: Box(1, 0, 5).values(rows(bad)),
    "ball": lambda bad: Ball(1, 5).values(rows(bad)),
    "ternary": lambda bad: SparseTernary(1, 1).values(rows(bad)),
    "categories": lambda bad: Categories([2]).values([[bad, 0]]),
    "mean": lambda bad: statistics.mean(users(bad), lower=0, upper=5, **BUDGET),
    "variance": lambda bad: statistics.variance(users(bad), lower=0, upper=5, **BUDGET),
    "count": lambda bad: statistics.count(users(bad), **BUDGET),
    "histogram": lambda bad: statistics.histogram(users(bad), [1, 2], **BUDGET),
}


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: type(bad).__name__)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_an_error_does_not_show_the_value(run: Any, bad: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        run(bad)
    place = re.search(r"\[(\d+)", str(caught.value))
    assert getattr(caught.value, "row", None) == (int(place[1]) if place else None)
    error: BaseException | None = caught.value
    while error is not None:  # a log may print what came before, too
        assert "7654" not in "".join(traceback.format_exception_only(error))
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("7654.25,b\n1,2\n", {}),  # a header that may be a row
        ("7654.25\n1\n", {}),
        ("7654.25;1\n1;2\n", {}),
        ("7654.25;1\n1;2\n", {"column": 1, "header": False}),
        ("v\n1\n7654.25x\n", {}),
        ("v\n1\n-7654e999\n", {}),
        ("v\n1\n7654.25\n", {"integers": True}),
        ("v\n1\n'7654.25'\n", {"integers": True}),
    ],
)
def test_a_table_shows_cells_and_columns_only_if_asked(
    tmp_path: Path, text: str, options: dict[str, Any]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    arguments = {"column": "v", **options}
    with pytest.raises(ValueError) as caught:
        read_column(path, **arguments)
    assert "7654" not in str(caught.value)
    with pytest.raises(ValueError, match="7654"):
        read_column(path, **arguments, show_values=True)


def test_what_a_protocol_refuses_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("v\n" + "1\n" * (N - 1) + "7654.25\n")
    with pytest.raises(ValueError, match=rf"row {N} has a value in column 'v'"):
        private().run(open_column(path, "v"))
    with pytest.raises(ValueError, match=rf"row {N} has 7654.25 in column 'v'"):
        private().run(open_column(path, "v", show_values=True))
