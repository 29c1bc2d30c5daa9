"""Tables of the documentation's pages, to be compared with the programs that compute them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

DRAWN_BY = "3.11"
"""The matplotlib of the files in docs/figures: others place letters a little differently."""

Row = tuple[str, ...]


def page(name: str) -> str:
    """Return a page of the documentation, or a table in ``figures/``."""
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> dict[Row, list[Row]]:
    """Return the rows of each Markdown table by its header."""
    found: dict[Row, list[Row]] = {}
    for block in re.findall(r"(?:^\|.*\|[ \t]*\n)+", text, re.MULTILINE):
        lines = [
            tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
            for line in block.splitlines()
        ]
        head, _, *body = lines
        found.setdefault(head, []).extend(body)
    return found


def prose(text: str) -> str:
    """Return a page in one line, as what is quoted of it may be broken anywhere."""
    return " ".join(text.split())


def assert_drawn(name: str, folder: Path) -> None:
    """Compare a figure of the documentation with one that a program has written."""
    matplotlib = pytest.importorskip("matplotlib")
    if ".".join(matplotlib.__version__.split(".")[:2]) != DRAWN_BY:
        return
    from matplotlib.image import imread

    same = np.array_equal(imread(DOCS / "figures" / f"{name}.png"), imread(folder / f"{name}.png"))
    assert same, f"make figures, and copy {name}.png"
