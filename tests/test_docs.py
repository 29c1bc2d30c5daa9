"""Every Python block of the documentation and the README runs, and prints what it says."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ikos
from ikos.cli import program as cli
from ikos.results.sums import at_least

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    ROOT / "README.md",
]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def label(page: Path) -> str:
    """Return a page's name: there is more than one index."""
    return str(page.relative_to(ROOT))


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


SEARCHES = (
    *("amplify", "baselines", "errata", "message-counts", "scale", "vector-protocols", "vectors"),
)
"""Pages of which single lines search for seconds."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=label(page), marks=[pytest.mark.slow] * (page.stem in SEARCHES))
        for page in PAGES
    ],
)
def test_page(page: Path) -> None:
    assert run_page(page.read_text(encoding="utf-8"), page.name) == ""


def scripts(page: str) -> list[str]:
    """Return a page's scripts that start processes, which ``run_page`` leaves out."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [source for language, source, _ in blocks(text) if language == "py"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2))
def test_scripts_of_the_guide_run(number: int, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    script = tmp_path / "script.py"
    script.write_text(scripts("how-to/cluster.md")[number], encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    if number == 0:
        assert abs(float(run.stdout) - 0.5) < 0.01
    else:
        assert sum(ast.literal_eval(run.stdout).values()) == 200_000


def test_the_guide_has_two_scripts() -> None:
    assert len(scripts("how-to/cluster.md")) == 2


def test_a_wrong_number_is_found() -> None:
    assert "Got" in run_page("```pycon\n>>> 1 + 1\n3\n```\n", "wrong")


def test_a_broken_block_is_found() -> None:
    with pytest.raises(ZeroDivisionError):
        run_page("```python\nx = 0\n```\n\n```python\n1 / x\n```\n", "broken")


def test_the_help_of_every_command_is_printed() -> None:
    pytest.importorskip("latex2mathml")
    conf = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    page = [""]
    conf["add_help"](None, "cli", page)
    for name in cli.COMMANDS:
        command = cli.commands.get_command(None, name)
        for path in (name, *(f"{name} {inner}" for inner in getattr(command, "commands", ()))):
            assert f"`ikos {path}`\n\n```text\nUsage: ikos {path} " in page[0]


FIGURES = {
    "message_counts": ("message-counts", "attack-advantage"),
    "bbgn20_figure_2": ("bbgn20-figure-2",),
    "random_graphs": (
        *("graph-connected", "graph-components", "graph-bipartite", "second-moment"),
        *("components-parallel", "components-single"),
    ),
}
"""Of each program that takes less than two minutes, what is shown of it. Its tables have tests."""

DRAWN_BY = "3.11"
"""The matplotlib of the files in docs/figures: others place letters a little differently."""


@pytest.mark.slow
@pytest.mark.parametrize("program", FIGURES)
@pytest.mark.reproduces
def test_figures_are_the_programs(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    if ".".join(matplotlib.__version__.split(".")[:2]) != DRAWN_BY:
        pytest.skip(f"the figures were drawn by matplotlib {DRAWN_BY}")
    from matplotlib.image import imread

    monkeypatch.syspath_prepend(ROOT)
    module = importlib.import_module(f"analysis.{program}")
    if program == "random_graphs":  # what takes long there is its tables
        monkeypatch.setattr(module, "RARE", module.RARE[:1])
        monkeypatch.setattr(module, "SWEPT_USERS", (19, 19))
    made = CliRunner().invoke(module.command, ["--output", str(tmp_path)])
    assert made.exit_code == 0, made.output
    for name in FIGURES[program]:
        shown = imread(ROOT / "docs" / "figures" / f"{name}.png")
        drawn = imread(tmp_path / f"{name}.png")
        # processors differ in last digits, and so a few pixels by a shade
        same = shown.shape == drawn.shape and np.abs(shown - drawn).max() < 2 / 255
        assert same, f"make figures, and copy {name}.png"


def test_pages_have_blocks() -> None:
    languages = {
        label(page): {language for language, *_ in blocks(page.read_text("utf-8"))}
        for page in PAGES
    }
    without = {
        "accountants", "api", "benchmarks", "cli", "deployment", "deployment-http",
        "deployment-operations", "glossary", "how-to/index", "index", "references", "review",
        "stability",
    }  # fmt: skip
    for page in PAGES[:-1]:
        key = label(page)
        assert "pycon" in languages[key] or key[len("docs/") : -len(".md")] in without, key
    assert "python" in languages["README.md"]


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_console_blocks_name_commands_and_options_that_exist(page: Path) -> None:
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


@pytest.mark.slow
def test_the_error_that_the_readme_shows_is_the_one_of_its_protocol() -> None:
    """The rest of what it shows there is random."""
    protocol = ikos.PrivateSum(100_000, epsilon=1, delta=1e-10, lower=0, upper=100)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"\nerror     {at_least(protocol.mse**0.5, 4)} (sum, root mean square" in readme
    cost = protocol.cost()
    assert f"{protocol.messages.total} messages of {cost.bits_per_message} bits" in readme
