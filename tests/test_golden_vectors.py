"""What is computed from given inputs is what it was, whatever is set: see `golden_vectors`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_vectors import FOLDER, compute
from hostile import hostile

FILES = sorted(path.stem for path in FOLDER.iterdir())
STEPS = {"secure-counts": 80, "private-counts": 41, "vector-counts": 12, "protocols": 24,
         "parameter-hashes": 8, "accountants": 22, "private-sums": 5, "vector-sums": 8,
         "secure-sums": 5, "tasks": 4, "wire": 8}  # fmt: skip
"""Of the long files the quick tests take one line in this many; the slow ones take the others."""


def same(found: Any, golden: Any) -> bool:
    """Whether two JSON values are equal, floats up to what numerical libraries may differ in."""
    if isinstance(golden, list):
        return len(found) == len(golden) and all(map(same, found, golden))
    if isinstance(golden, dict):
        return found.keys() == golden.keys() and all(same(found[k], golden[k]) for k in golden)
    if isinstance(golden, float):
        return bool(found == pytest.approx(golden, rel=1e-12, abs=0))
    return bool(found == golden)


def check(name: str, quick: bool) -> None:
    entries = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    step = STEPS.get(name, 1)
    for line, (operation, arguments, golden) in enumerate(entries):
        if (line % step == 0) is not quick:
            continue
        with hostile():
            found = compute(operation, arguments)
        assert same(found, golden), (operation, arguments)


@pytest.mark.points(20)
@pytest.mark.parametrize("name", FILES)
def test_nothing_has_moved(name: str) -> None:
    check(name, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_nothing_else_has_moved(name: str) -> None:
    check(name, quick=False)


def test_a_change_is_noticed() -> None:
    golden = {"a": [1, 2.5, "x"], "b": None}
    assert same({"a": [1, 2.5 * (1 + 1e-14), "x"], "b": None}, golden)
    assert not same({"a": [1, 2.5 * (1 + 1e-9), "x"], "b": None}, golden)
    assert not same({"a": [2, 2.5, "x"], "b": None}, golden)
    assert not same({"a": [1, 2.5, "x", 4], "b": None}, golden)
    assert not same({"a": [1, 2.5, "x"]}, golden)
