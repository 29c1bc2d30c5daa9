"""A small real data set that comes with the package, one row per person.

944 respondents of the 1996 American National Election Study, in the public domain; its README is in
``ikos/data``.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice
from ikos.data.tables import read_column

__all__ = ["ANES96_BOUNDS", "anes96_path", "load_anes96"]

ANES96_BOUNDS = {"age": (18.0, 100.0), "tv_news": (0.0, 7.0), "vote": (0.0, 1.0)}
"""Bounds on each column, taken from its question and not from the answers."""


def anes96_path() -> Path:
    """Return the path of the CSV file."""
    return Path(str(resources.files("ikos") / "data" / "anes96.csv"))


def load_anes96(column: str) -> NDArray[np.float64]:
    """Return one column, one value for each of the 944 respondents.

    Parameters
    ----------
    column : {"age", "tv_news", "vote"}
        Age in years; days of the past week on which the respondent watched news on television;
        expected vote for president, 0 for Clinton and 1 for Dole.

    Examples
    --------
    >>> ages = load_anes96("age")
    >>> ages.size, ages.min(), ages.max()
    (944, np.float64(19.0), np.float64(91.0))
    """
    return read_column(anes96_path(), choice("column", column, ANES96_BOUNDS))
