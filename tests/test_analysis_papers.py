"""The papers, item by item: each call gives what the table says, and the page shows the table."""

from __future__ import annotations

import ast
import doctest
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages import DOCS, ROOT

from analysis.papers import Item, Paper, command, papers
from ikos.cli import program as cli

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PAPERS = papers()


def reproduced(path: Path) -> set[str]:
    """Return the names and strings in the code of a module, if it has tests that reproduce."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.name for node in nodes if isinstance(node, ast.alias)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    return names if "reproduces" in names else set()


TESTS = [reproduced(path) for path in sorted((ROOT / "tests").glob("test_*.py"))]


def session(source: str, globs: dict[str, Any]) -> str:
    """Run a doctest in a namespace, and return the report of what failed."""
    report: list[str] = []
    test = doctest.DocTestParser().get_doctest(source, {}, "item", None, None)
    test.globs = globs
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    runner.run(test, out=report.append, clear_globs=False)
    return "".join(report)


@cache
def imported(imports: str) -> dict[str, Any]:
    """Return the namespace in which a paper's items begin."""
    globs: dict[str, Any] = {}
    assert session(imports, globs) == ""
    return globs


def items(*, programs: bool) -> list[Any]:
    """Return the items that programs of ``analysis`` make, or those that are calls."""
    return [
        pytest.param(
            paper, item, id=f"{paper.name}-{item.item}", marks=[pytest.mark.slow] * item.slow
        )
        for paper in PAPERS
        for item in paper.items
        if item.runs and item.command.startswith("python -m analysis.") == programs
    ]


@pytest.mark.points(1000)
@pytest.mark.parametrize(("paper", "item"), items(programs=False))
def test_calls_give_what_is_shown(paper: Paper, item: Item) -> None:
    if not item.command:
        assert session(item.runs, dict(imported(paper.imports))) == ""
        return
    name, *words = shlex.split(item.command)
    assert name == "ikos"
    run = CliRunner().invoke(cli.commands, words, prog_name="ikos")
    expected = item.runs.partition("\n")[2]
    assert doctest.OutputChecker().check_output(expected, run.output, FLAGS), run.output


@pytest.mark.points(1000)
@pytest.mark.parametrize(("paper", "item"), items(programs=True))
def test_a_test_reproduces_what_programs_make(paper: Paper, item: Item) -> None:
    program = shlex.split(item.command)[2].removeprefix("analysis.")
    made = [program, *(Path(name).stem for name in item.figures)]
    assert any(all(any(name in text for text in texts) for name in made) for texts in TESTS)


def test_every_item_is_run_or_explained() -> None:
    names = [(paper.name, item.item) for paper in PAPERS for item in paper.items]
    assert len(names) == len(set(names)) > 100
    for paper in PAPERS:
        for item in paper.items:
            assert item.runs or item.instead, item.item
            assert not (item.differs and item.instead), item.item
            assert all((DOCS / "figures" / name).is_file() for name in item.figures), item.item


def test_the_page_shows_the_table(tmp_path: Path) -> None:
    run = CliRunner().invoke(command, ["--output", str(tmp_path)])
    assert run.exit_code == 0, run.output
    same = (tmp_path / "papers.md").read_text("utf-8") == (DOCS / "papers.md").read_text("utf-8")
    assert same, "python -m analysis.papers --output docs"
