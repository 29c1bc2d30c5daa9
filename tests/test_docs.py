"""Every Python block of the documentation and the README runs, and prints what it says."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks(text: str) -> list[tuple[str, str, int]]:
    """Return the language, source and first line of each fenced block."""
    return [
        (match[1], match[2], text.count("\n", 0, match.start(2))) for match in BLOCK.finditer(text)
    ]


def run_page(text: str, name: str) -> str:
    """Run a page's blocks in one namespace, and return the report of what failed."""
    # Complaints of the examples go to the report, what plain blocks print goes nowhere.
    namespace: dict[str, Any] = {"__name__": "__main__"}
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    for language, source, line in blocks(text):
        if language not in ("python", "pycon", "doctest"):
            continue
        if ">>>" in source:
            test = doctest.DocTestParser().get_doctest(source, {}, name, name, line)
            test.globs = namespace
            runner.run(test, out=report.append, clear_globs=False)
        else:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * line + source, name, "exec"), namespace)
    return "".join(report)


SEARCHES = ("errata", "vectors")
"""Pages of which single lines search for seconds."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.stem in SEARCHES))
        for page in PAGES
    ],
)
def test_page(page: Path) -> None:
    assert run_page(page.read_text(encoding="utf-8"), page.name) == ""


def test_a_wrong_number_is_found() -> None:
    assert "Got" in run_page("```pycon\n>>> 1 + 1\n3\n```\n", "wrong")


def test_a_broken_block_is_found() -> None:
    with pytest.raises(ZeroDivisionError):
        run_page("```python\nx = 0\n```\n\n```python\n1 / x\n```\n", "broken")


def test_pages_have_blocks() -> None:
    languages = {
        page.stem: {language for language, *_ in blocks(page.read_text("utf-8"))} for page in PAGES
    }
    for page in ("summation", "message-counts", "noise", "randomness", "threats", "errata"):
        assert "pycon" in languages[page]
    assert "python" in languages["README"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_console_blocks_name_commands_and_options_that_exist(page: Path) -> None:
    cli = pytest.importorskip("ikos.cli")
    for language, source, _ in blocks(page.read_text(encoding="utf-8")):
        lines = source.replace("\\\n", " ").splitlines() if language == "console" else []
        for line in lines:
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words[:1] != ["ikos"]:
                continue
            assert words[1] in cli.COMMANDS, line
            command = cli.commands.get_command(None, words[1])
            if hasattr(command, "commands"):  # of a group, one of its own
                assert words[2] in command.commands, line
                command = command.commands[words[2]]
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words[2:] if word.startswith("--")} <= known, line
