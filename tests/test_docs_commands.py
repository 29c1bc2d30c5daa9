"""Every command that the documentation shows runs, but for those that need other machines."""

from __future__ import annotations

import gzip
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

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
    "text": "what is printed, and formulas",
    "toml": "a configuration: read by the tests of the servers",
}
"""What becomes of each kind of block."""

ELSEWHERE = ("serve", "submit", "task")
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


# The command line


def commands() -> list[str]:
    """Return the distinct commands that run on this machine alone."""
    found = {}
    for _, words in lines():
        alone = words[0] == "ikos" and words[1] not in ELSEWHERE and "--scheduler" not in words
        if alone:
            found[shlex.join(words[1:])] = None
    return list(found)


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tables that the commands name."""
    folder = tmp_path_factory.mktemp("commands")
    rng, n = np.random.default_rng(0), 600
    age, balance = rng.integers(18, 90, n), rng.integers(-900, 900, n)
    body = "\n".join(f"{a},{b},{a}" for a, b in zip(age, balance, strict=True))
    (folder / "people.csv").write_text(f"age,balance,code\n{body}\n")
    (folder / "people.csv.gz").write_bytes(gzip.compress((folder / "people.csv").read_bytes()))
    (folder / "people").mkdir()
    (folder / "visits").mkdir()
    for part in range(3):
        some = "\n".join(map(str, age[part::3]))
        (folder / "people" / f"part-{part}.csv").write_text(f"age\n{some}\n")
        (folder / "visits" / f"part-{part}.csv").write_text(f"minutes\n{some}\n2000\n")
    Ledger.new(folder / "survey.ledger", 1, Fraction(1, 10**6))
    (folder / "ikos").mkdir()
    (folder / "ikos" / "data").symlink_to(ROOT / "ikos" / "data")
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("coarse_digits")
@pytest.mark.parametrize("command", commands())
def test_it_runs(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli = pytest.importorskip("ikos.cli.program")
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
    monkeypatch.chdir(folder)
    made = CliRunner().invoke(cli.commands, shlex.split(command), prog_name="ikos")
    assert made.exit_code == 0, made.output
    assert made.stdout
    for plot in re.findall(r"--plot (\S+)", command):
        assert (folder / plot).stat().st_size > 1000


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


# Tasks: none is refused, and as many shufflers are needed as is said


def tasks() -> list[tuple[str, str]]:
    """Return the commands that make tasks, of pages and of help, and what is printed of each."""
    cli = pytest.importorskip("ikos.cli.program")
    found = []
    for page in PAGES:
        blocks = [
            (kind, source.replace("\\\n", " "))
            for kind, source in BLOCK.findall(page.read_text(encoding="utf-8"))
        ]
        for (kind, source), (after, printed) in pairwise([*blocks, ("", "")]):
            if kind in ("console", "sh"):
                said = printed if after == "text" and "--dry-run" in source else ""
                made = (line.removeprefix("$ ") for line in source.splitlines())
                found += [(line, said) for line in made if line.startswith("ikos task new ")]
    for words in (["task"], ["task", "new"]):
        shown = CliRunner().invoke(cli.commands, [*words, "--help"], prog_name="ikos").output
        examples = re.sub(r"\\\n\s+", " ", shown).splitlines()
        found += [(line.strip(), "") for line in examples if line.startswith("    ikos task new ")]
    return found


@pytest.mark.parametrize(("command", "printed"), tasks())
def test_tasks_can_be_made_as_shown(command: str, printed: str, tmp_path: Path) -> None:
    cli = pytest.importorskip("ikos.cli.program")
    _, *words = shlex.split(command)
    if "--dry-run" not in words:
        words[words.index("--output") + 1] = str(tmp_path / "made")
    made = CliRunner().invoke(cli.commands, words, prog_name="ikos")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith(printed)


def test_tasks_are_made_on_pages_and_in_help() -> None:
    assert len(tasks()) >= 8
    assert sum(bool(printed) for _, printed in tasks()) >= 2


# The cluster of docs/scale.md

BEFORE = """
import numpy as np
import ikos
from ikos.tables import open_column

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
