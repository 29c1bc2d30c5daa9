"""Apply known mistakes to a copy of the library, one at a time, and see which the tests notice.

The table is ``tests/mutants.toml``: for each mistake what it means, its file, the text that it
replaces (which must occur exactly once) and the test files that should fail. A mutant that
survives shows a guarantee that no test of these files defends.

    python -m analysis.mutants                          # all of them: about an hour on one core
    python -m analysis.mutants --only deployment        # those whose words or file say so
    python -m analysis.mutants --list                   # whether each still applies, and no tests
    python -m analysis.mutants --random 200 --tests tests/counts ikos/counts/*.py

The last makes mutants of one token each from a seed, to compare the tests of two versions: the
rates at which they die, not single ones, some of which change nothing.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from analysis.output import main
from ikos.cli.errors import Command

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "mutants.toml"
DIED, SURVIVED, STALE = "died", "SURVIVED", "STALE"
_IGNORED = shutil.ignore_patterns(".*", "__pycache__", "*.pyc")
_SECONDS = 1800  # after which a mutant that does not end has been noticed


@dataclass(frozen=True)
class Mutant:
    """One mistake: what it means, where it is, and the tests that should notice it."""

    says: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    whole: bool = False  # the texts are those of the whole file

    def applied(self, text: str) -> str | None:
        """Return a file's text with the mistake, or None if it does not apply exactly once."""
        if self.whole:
            return self.new if text == self.old else None
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


def read(table: Path = TABLE) -> list[Mutant]:
    """Return the mutants of a table."""
    entries = tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


_TOKENS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+",
    "*": "+", "//": "*", "/": "*", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "&": "|",
    "and": "or", "or": "and", "not": "", "True": "False", "False": "True", "min": "max",
    "max": "min", "UP": "DOWN", "DOWN": "UP", "float_up": "float_down", "float_down": "float_up",
    "0": "1", "1": "2", "2": "3",
}  # fmt: skip
"""What a token becomes in a random mutant."""


def drawn(files: Sequence[Path], tree: Path, count: int, seed: int, tests: str) -> list[Mutant]:
    """Return mutants of one token each, of tokens drawn from some files without replacement."""
    places = []
    for file in files:
        text = (tree / file).read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            imports = token.line.startswith(("import ", "from ", "    from "))
            if token.string in _TOKENS and not imports:
                places.append((file, text, token))
    mutants = []
    for file, text, token in random.Random(seed).sample(places, min(count, len(places))):
        lines = text.splitlines(keepends=True)
        (row, start), (_, end) = token.start, token.end
        line, new = lines[row - 1], _TOKENS[token.string]
        lines[row - 1] = line[:start] + new + line[end:]
        says = f"line {row}: {token.string} -> {new} in {line.strip()}"
        mutants.append(Mutant(says, str(file), text, "".join(lines), tuple(tests.split()), True))
    return mutants


def applies(mutant: Mutant, tree: Path) -> bool:
    """Return whether a mutant's text occurs exactly once in a tree, and its tests are there."""
    file = tree / mutant.file
    return (
        file.is_file()
        and mutant.applied(file.read_text(encoding="utf-8")) is not None
        and all((tree / test.partition("::")[0]).exists() for test in mutant.tests)
    )


def outcome(mutant: Mutant, tree: Path) -> str:
    """Return what the tests make of a mutant in a tree, which is as before afterwards."""
    if not applies(mutant, tree):
        return STALE
    file = tree / mutant.file
    before = file.read_text(encoding="utf-8")
    changed = mutant.applied(before)
    assert changed is not None
    settings = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=no"]
    try:
        file.write_text(changed, encoding="utf-8")
        for tests in ("not slow or grid", "slow and not grid and not reproduces"):  # if need be
            command = [sys.executable, "-m", "pytest", *options, "-m", tests, *mutant.tests]
            done = subprocess.run(
                command, cwd=tree, env={**os.environ, **settings},
                capture_output=True, timeout=_SECONDS,
            )  # fmt: skip
            if done.returncode in (1, 2):
                return DIED
            if done.returncode not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
                what = done.stdout.decode()[-2000:]
                raise RuntimeError(f"pytest ended with {done.returncode}: {what}")
    except subprocess.TimeoutExpired:
        return DIED
    finally:
        file.write_text(before, encoding="utf-8")
    return SURVIVED


def outcomes(mutants: Sequence[Mutant], tree: Path) -> Iterator[tuple[Mutant, str, float]]:
    """Yield each mutant with what became of it and the seconds that it took, in a copy of a tree.

    The copy is at a path of its own, so that the tests import it whatever is installed.
    """
    with tempfile.TemporaryDirectory(prefix="ikos-mutants-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(tree, copy, ignore=_IGNORED, symlinks=True)
        for mutant in mutants:
            begun = time.monotonic()
            yield mutant, outcome(mutant, copy), time.monotonic() - begun


@click.command("python -m analysis.mutants", cls=Command)
@click.option(
    "--tree",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=ROOT,
    help="The library to change copies of.",
)
@click.option(
    "--table",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=TABLE,
    help="The mutants.",
)
@click.option("--only", default="", help="A word of what they say, or of their file.")
@click.option("--list", "listed", is_flag=True, help="Say which apply, and run no tests.")
@click.option("--random", "count", type=int, help="So many mutants of FILES in place of the table.")
@click.option("--seed", default=1, help="Where these are drawn from.")
@click.option("--tests", default="tests", help="What should notice these.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def command(
    tree: Path, table: Path, only: str, listed: bool, count: int | None, seed: int, tests: str,
    files: tuple[Path, ...],
) -> None:  # fmt: skip
    """Print a line for each mutant; the status is 1 if one survived or no longer applies."""
    made = read(table) if count is None else drawn(files, tree, count, seed, tests)
    mutants = [one for one in made if only in f"{one.says} {one.file}"]
    found: Iterator[tuple[Mutant, str, float]]
    if listed:
        found = ((one, "applies" if applies(one, tree) else STALE, 0.0) for one in mutants)
    else:
        found = outcomes(mutants, tree)
    bad = 0
    for mutant, what, seconds in found:
        bad += what in (SURVIVED, STALE)
        click.echo(f"{what:8} {seconds:4.0f} s  {mutant.file}: {mutant.says}")
    click.echo(f"{len(mutants)} mutants, {bad} of them not noticed or stale")
    click.get_current_context().exit(int(bad > 0))


if __name__ == "__main__":
    main(command)
