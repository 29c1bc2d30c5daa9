"""The program that applies known mistakes: it tells what dies, what survives and what is stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis import mutants
from analysis.mutants import DIED, STALE, SURVIVED, Mutant


@pytest.fixture(name="tree")
def fixture_tree(tmp_path: Path) -> Path:
    (tmp_path / "doubled.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "test_doubled.py").write_text(
        "from doubled import double\n\n\ndef test():\n    assert double(1) == 2\n"
    )
    return tmp_path


def mutant(old: str, new: str) -> Mutant:
    return Mutant("a mistake", "doubled.py", old, new, ("test_doubled.py",))


def test_the_table_is_whole() -> None:
    found = mutants.read()
    assert len(found) >= 60
    assert len({(one.file, one.old, one.new) for one in found}) == len(found)
    assert all(one.says and one.old != one.new and one.tests for one in found)


def test_what_applies_exactly_once(tree: Path) -> None:
    assert mutants.applies(mutant("2 * x", "3 * x"), tree)
    assert not mutants.applies(mutant("4 * x", "3 * x"), tree)
    assert not mutants.applies(mutant("x", "y"), tree)  # twice


@pytest.mark.slow
def test_outcomes(tree: Path) -> None:
    tried = [mutant("2 * x", "3 * x"), mutant("2 * x", "x * 2"), mutant("4 * x", "3 * x")]
    before = (tree / "doubled.py").read_text()
    assert [what for _, what, _ in mutants.outcomes(tried, tree)] == [DIED, SURVIVED, STALE]
    assert (tree / "doubled.py").read_text() == before


def test_random_mutants_change_one_token_each(tree: Path) -> None:
    text = (tree / "doubled.py").read_text()
    made = mutants.drawn([Path("doubled.py")], tree, 5, 1, "test_doubled.py")
    changed = {text.replace("2", "3"), text.replace("*", "+")}
    assert {one.applied(text) for one in made} == changed
    assert {one.applied(text + "#") for one in made} == {None}
