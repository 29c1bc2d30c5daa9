"""The data set that comes with the package is what it says, and what its source says."""

from __future__ import annotations

import numpy as np
import pytest

from ikos.data.datasets import ANES96_BOUNDS, anes96_path, load_anes96


def test_one_row_per_respondent():
    for column, (lower, upper) in ANES96_BOUNDS.items():
        values = load_anes96(column)
        assert values.shape == (944,)
        assert lower <= values.min()
        assert values.max() <= upper
        assert np.array_equal(values, np.floor(values))


def test_unknown_column():
    with pytest.raises(ValueError, match="column must be one of 'age', 'tv_news', 'vote'"):
        load_anes96("income")


def test_documented():
    readme = anes96_path().with_name("README.md").read_text()
    header = anes96_path().read_text().splitlines()[0]
    for column in header.split(","):
        assert f"`{column}`" in readme
    assert set(header.split(",")) == set(ANES96_BOUNDS)


def test_agrees_with_its_source():
    pytest.importorskip("pandas", reason="the source is read through statsmodels and pandas")
    anes96 = pytest.importorskip(
        "statsmodels.datasets.anes96", reason="the source is in statsmodels"
    )
    source = anes96.load_pandas().data
    for column in ANES96_BOUNDS:
        original = source["TVnews" if column == "tv_news" else column]
        assert np.array_equal(load_anes96(column), original.to_numpy())
    assert anes96.COPYRIGHT == "This is public domain."
