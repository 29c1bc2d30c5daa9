"""Jobs on a CSV beside other libraries: the documentation's table, and what it says about them."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
from pages import page, rows

from analysis import peer_libraries as module

installed = pytest.mark.parametrize("library", module.LIBRARIES, ids=lambda one: one.name)


def number(cell):
    return float(cell.replace(",", "").removesuffix(" %"))


def shown(library):
    ((header, body),) = rows(page("figures/peer-libraries.md")).items()
    assert header == module.HEADER
    return [row for row in body if row[1] == library.name]


@pytest.mark.slow
@pytest.mark.reproduces
@installed
def test_the_documentations_table(library):
    """Words, lines and errors at 1,000 rows.

    Of 180 errors, at least: their mean square is off by a factor of four, and fewer than 80 % of
    95 % intervals hold, with a probability below 1e-10.
    """
    if library.version is None:
        pytest.skip(f"{library.package} is not installed: pip install ikos[peers]")
    for row, again in zip(shown(library), module.rows(library, (60, 60, 60), (1000,)), strict=True):
        assert row[:5] == again[:5], "make figures, and copy it"
        assert 0.5 < number(row[5]) / number(again[5]) < 2, row
        assert (row[8] == "none") == (again[7] == "none")
        if again[7] != "none":
            assert min(number(row[8]), number(again[7])) > 80


def test_lines_are_those_of_the_body():
    assert module.lines(module._histogram_diffprivlib) == 5


def test_a_table_is_the_truth_and_its_text_has_empty_cells():
    table = module.Table(1000, 3)
    read = list(csv.DictReader(io.StringIO(table.text())))
    assert sum(not row["salary"] for row in read) == 100
    north = [float(row["salary"]) for row in read if row["region"] == "region 01" and row["salary"]]
    assert table.truth["count"][1] == len(north)
    assert table.truth["mean"][1] == pytest.approx(np.mean(north))
    assert table.truth["count"].sum() == 900
    assert table.truth["bin"].sum() == 1000


def test_errors_of_means_are_within_the_bounds():
    table = module.Table(1000, 3)
    truth = table.truth["mean"]
    answers = [{"mean": ([math.nan, -1e9, truth[2]], truth, truth + np.array([-1, 1, 1]))}]
    found = module.errors(answers, table)["mean"]
    assert found.errors.tolist() == [[module.UPPER / 2 - truth[0], -truth[1], 0]]
    assert found.holds.tolist() == [[False, True, True]]


@pytest.mark.slow
def test_missing_values_in_diffprivlib():
    """A missing value makes a quantile NaN, and a mean of present values too little noise."""
    tools = pytest.importorskip("diffprivlib.tools")
    values = np.linspace(0, 1, 1000)
    values[0] = math.nan
    assert math.isnan(tools.quantile(values, 0.5, epsilon=1, bounds=(0, 1)))
    values[:] = math.nan
    means = []
    for other in (0, 1):
        values[:2] = 0.5, other
        means.append([tools.nanmean(values, epsilon=1, bounds=(0, 1)) for _ in range(200)])
    assert max(means[0]) < 0.3 < 0.7 < min(means[1])
