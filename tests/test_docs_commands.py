"""Every command that the documentation shows runs, but for those that need other machines."""

from __future__ import annotations

import gzip
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ikos import Ledger

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)

LANGUAGES = {
    "python": "run by tests/test_docs.py",
    "pycon": "run there, and what it prints is compared",
    "py": "starts processes: run by tests of its page",
    "console": "run here, or a program that has tests of its own",
    "sh": "typed in a shell: the options of its commands are compared here",
    "output": "what the block before prints: compared here, or by the test of its page",
    "text": "formulas, and lists",
    "toml": "a configuration: read by the tests of the servers",
}
"""What becomes of each kind of block."""

ELSEWHERE = ("serve", "submit", "task", "verify")
"""Commands between parties, of which tests/deployment runs each."""


def label(page: Path) -> str:
    return str(page.relative_to(ROOT))


def lines(language: str = "console") -> Iterator[tuple[str, list[str]]]:
    """Yield the page and the words of each command."""
    for page in PAGES:
        for kind, source in BLOCK.findall(page.read_text(encoding="utf-8")):
            if kind != language:
                continue
            for line in source.replace("\\\n", " ").splitlines():
                assert line.startswith("$ "), f"{label(page)}: {line}"
                yield label(page), shlex.split(line.removeprefix("$ "), comments=True)


def test_every_kind_of_block_is_known() -> None:
    found = {kind for page in PAGES for kind, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
    assert found == set(LANGUAGES)
    for page in PAGES:  # what is printed is output
        assert "```\n\n```text" not in page.read_text(encoding="utf-8"), label(page)


# The command line


def commands() -> list[str]:
    """Return the distinct commands that run on this machine alone."""
    found = {}
    for _, words in lines():
        alone = words[0] == "ikos" and words[1] not in ELSEWHERE and "--scheduler" not in words
        if alone:
            found[shlex.join(words[1:])] = None
    return list(found)


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the tables that the commands name, in which they run."""
    rng, n = np.random.default_rng(0), 600
    age, balance = rng.integers(18, 90, n), rng.integers(-900, 900, n)
    body = "\n".join(
        f"{a},{b},{a},{'north' if a % 2 else 'south'},{b if b % 9 else 'n/a'}"
        for a, b in zip(age, balance, strict=True)
    )
    (tmp_path / "people.csv").write_text(f"age,balance,code,region,visits\n{body}\n")
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress((tmp_path / "people.csv").read_bytes()))
    (tmp_path / "people").mkdir()
    (tmp_path / "visits").mkdir()
    for part in range(3):
        some = "\n".join(map(str, age[part::3]))
        (tmp_path / "people" / f"part-{part}.csv").write_text(f"age\n{some}\n")
        (tmp_path / "visits" / f"part-{part}.csv").write_text(f"minutes\n{some}\n2000\n")
    (tmp_path / "ikos").mkdir()
    (tmp_path / "ikos" / "data").symlink_to(ROOT / "ikos" / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def output_of(command: str) -> str:
    """Run a command of the library, and return what it prints."""
    cli = pytest.importorskip("ikos.cli.program")
    made = CliRunner().invoke(cli.commands, shlex.split(command), prog_name="ikos")
    assert made.exit_code == 0, made.output
    return made.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("coarse_digits")
@pytest.mark.parametrize("command", commands())
def test_it_runs(command: str, folder: Path) -> None:
    if "--plot" in command:
        pytest.importorskip("matplotlib")
    if "--workers" in command:
        pytest.importorskip("distributed")
    if ".parquet" in command:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"age": [20.0, 30.0] * 300}), folder / "people.parquet")
    if "--no-header" in command:
        command = command.replace("people.csv", "semicolons.csv")
        (folder / "semicolons.csv").write_text("1;2;0.5\n" * 600)
    if not command.startswith("budget new"):
        Ledger.new(folder / "survey.ledger", 1, Fraction(1, 10**6))
    assert output_of(command)
    for plot in re.findall(r"--plot (\S+)", command):
        assert (folder / plot).stat().st_size > 1000


# What the pages show of what is printed

VARIES = re.compile(r"<!-- varies: (.*?) -->")
"""Before a block of output: a pattern of what differs from run to run, and nothing else does."""

WALK_THROUGH = "docs/deployment.md"
"""Its scripts start servers, and tests/deployment/test_this_machine.py compares what they print."""


def shown() -> list[Any]:
    """Return the page, kind and source of each block whose output is shown, with the output."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        before = None
        for block in BLOCK.finditer(text):
            if block[1] == "output":
                assert before is not None
                assert before[1] in ("console", "python", "sh"), f"{label(page)}: {block[2]}"
                varies = VARIES.findall(text, before.end(), block.start())
                if (label(page), before[1]) != (WALK_THROUGH, "sh"):
                    line = text.count("\n", 0, block.start())
                    sample = (before[1], before[2], block[2], varies)
                    found.append(pytest.param(*sample, id=f"{label(page)}-{line}"))
            before = block
    return found


def printed(kind: str, source: str) -> str:
    """Run a block, and return what it prints."""
    if kind == "python":
        with redirect_stdout(StringIO()) as said:
            exec(source, {"__name__": "__main__"})
        return said.getvalue()
    commands = source.replace("\\\n", " ").splitlines()
    return "".join(output_of(line.removeprefix("$ ikos ")) for line in commands)


def is_shown(output: str, text: str, varies: list[str]) -> bool:
    """Return whether lines are printed as they are shown, one after the other."""
    for pattern in varies:
        output, text = (re.sub(pattern, "*", some) for some in (output, text))
    lines, all_lines = ([line.rstrip() for line in some.splitlines()] for some in (output, text))
    starts = range(len(all_lines) - len(lines) + 1)
    return any(all_lines[start : start + len(lines)] == lines for start in starts)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("kind", "source", "output", "varies"), shown())
def test_it_prints_what_is_shown(kind: str, source: str, output: str, varies: list[str]) -> None:
    text = printed(kind, source)
    assert is_shown(output, text, varies), text
    for pattern in varies:  # names what differs, not all
        assert re.search(r"[a-z]{3}", re.sub(pattern, "", output))


@pytest.mark.parametrize(
    ("output", "varies", "same"),
    [
        ("one 1\ntwo 2\n", [], True),
        ("two 2\n", [], True),
        ("one 1\nthree 3\n", [], False),
        ("one 3\n", [], False),
        ("one 3\n", [r"one \d"], True),
        ("two 3\n", [r"one \d"], False),
    ],
)
def test_a_sample_that_is_not_printed_is_found(output: str, varies: list[str], same: bool) -> None:
    assert is_shown(output, "one 1\ntwo 2\nthree 3\n", varies) == same


def test_samples_are_shown_on_many_pages() -> None:
    pages = {sample.id.rpartition("-")[0] for sample in shown()}
    assert pages >= {"README.md", "docs/cli.md", "docs/deployment.md", "docs/how-to/budget.md"}


def test_there_are_commands_on_many_pages() -> None:
    assert len(commands()) > 25
    assert {page for page, words in lines() if words[0] == "ikos"} >= {
        "README.md", "docs/cli.md", "docs/scale.md", "docs/tutorial.md", "docs/how-to/verify.md",
    }  # fmt: skip


def typed() -> list[str]:
    """Return the commands that stand in scripts for a shell."""
    found = []
    for page in PAGES:
        for kind, source in BLOCK.findall(page.read_text(encoding="utf-8")):
            if kind == "sh":
                whole = source.replace("\\\n", " ").splitlines()
                found += [line for line in whole if line.lstrip().startswith("ikos ")]
    return found


def test_scripts_name_commands_and_options_that_exist() -> None:
    cli = pytest.importorskip("ikos.cli.program")
    assert len(typed()) > 5
    for line in typed():
        _, name, *words = shlex.split(re.split(r" (?:2?>|&|\|)", line)[0], comments=True)
        command = cli.commands.get_command(None, name)
        assert command is not None, line
        if hasattr(command, "commands"):
            assert words[0] in command.commands, line
            command = command.commands[words[0]]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


# Tasks: none is refused


def tasks() -> list[str]:
    """Return the commands that make tasks, of pages and of help."""
    cli = pytest.importorskip("ikos.cli.program")
    found = []
    for page in PAGES:
        for kind, source in BLOCK.findall(page.read_text(encoding="utf-8")):
            if kind in ("console", "sh"):
                lines = source.replace("\\\n", " ").splitlines()
                found += [line.removeprefix("$ ") for line in lines if "ikos task new " in line]
    for words in (["task"], ["task", "new"]):
        shown = CliRunner().invoke(cli.commands, [*words, "--help"], prog_name="ikos").output
        examples = re.sub(r"\\\n\s+", " ", shown).splitlines()
        found += [line.strip() for line in examples if line.startswith("    ikos task new ")]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("command", tasks())
def test_tasks_can_be_made_as_shown(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)[1:]
    if "--dry-run" not in words:
        words[words.index("--output") + 1] = str(tmp_path / "made")
    assert output_of(shlex.join(words))


def test_tasks_are_made_on_pages_and_in_help() -> None:
    assert len(tasks()) >= 8


# The cluster of docs/scale.md

BEFORE = """
import numpy as np
import ikos
from ikos.data.tables import open_column

n = 300_000
ages = np.random.default_rng(0).uniform(18, 90, n)
protocol = ikos.PrivateSum(n, epsilon=1, delta=1e-10, lower=0, upper=100)
"""
"""What its script takes from the page's first blocks; workers import this as well."""


@pytest.mark.slow
def test_the_script_for_a_cluster_runs(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    arrays = pytest.importorskip("dask.array")
    config = pytest.importorskip("dask.config")
    pytest.importorskip("dask.dataframe")
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    (script,) = (source for kind, source in BLOCK.findall(text) if kind == "py")
    (first, *_) = (source for kind, source in BLOCK.findall(text) if kind == "python")
    assert BEFORE.splitlines()[-1] in first  # the same protocol
    shown = script.replace("result = ", "print(")
    shown = shown.replace(", cluster=cluster)", ", cluster=cluster).mean())")
    assert shown.count("print(") == 4
    (tmp_path / "script.py").write_text(BEFORE + shown)
    ages = np.full(300_000, 50.0)
    (tmp_path / "people").mkdir()
    for part in (0, 1):
        table = arrow.table({"age": ages[part::2]})
        parquet.write_table(table, tmp_path / "people" / f"part-{part}.parquet")
    with config.set(scheduler="synchronous"):  # whatever an earlier test asked for
        arrays.to_npy_stack(tmp_path / "ages", arrays.from_array(ages, chunks=100_000))
    run = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    first_mean, *others = map(float, run.stdout.split())
    assert abs(first_mean - 54) < 0.5
    assert len(others) == 3
    assert all(abs(mean - 50) < 0.1 for mean in others)


# Programs


def programs() -> list[tuple[str, str]]:
    """Return the programs that are shown, and their options."""
    shown = {
        (words[2], shlex.join(words[3:])) for _, words in lines() if words[:2] == ["python", "-m"]
    }
    for page in PAGES:  # and those that are named within a line
        for code in re.findall(r"`(python -m analysis\.[^`]+)`", page.read_text(encoding="utf-8")):
            words = shlex.split(" ".join(code.split()))
            shown.add((words[2], shlex.join(words[3:])))
    return sorted(pair for pair in shown if pair[0].startswith("analysis."))


@pytest.mark.parametrize(("program", "options"), programs())
def test_programs_have_the_options_that_are_shown(
    program: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(ROOT)
    module = importlib.import_module(program)
    known = {name for parameter in module.command.params for name in parameter.opts}
    assert {word for word in shlex.split(options) if word.startswith("--")} <= known


def test_other_commands_are_programs_of_the_shell() -> None:
    first = {words[0] for _, words in lines()}
    assert first <= {"ikos", "python", "make"}
