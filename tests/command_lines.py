"""Command lines: what tests that run them have in common."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ikos.cli.program import SETTINGS, commands

POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes, signals and terminals of POSIX")

SCRIPT = Path(sys.executable).with_name("ikos")
PROGRAM = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "ikos"]

BOUNDS = ("--column", "a", "--lower", "0", "--upper", "1", "--epsilon", "1", "--delta", "0.01")
COUNT = ("messages", "--users", "1000", "--modulus", "2^32", "--sigma", "40")

MANY = ("--protocol", "--shuffler", "--by", "--groups")
"""Options that can be given many times, by some commands."""


def once(*words):
    """Return a command line in which the last value of an option is the only one."""
    line, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        if str(word).startswith("--") and word in line and word not in MANY:
            line[line.index(word) + 1] = rest.pop(0)
        else:
            line.append(word)
    return line


def program(*arguments, **options):
    """Run the program in a process of its own."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([*PROGRAM, *map(str, arguments)], text=True, timeout=60, **options)


def paths(command=commands, *words):
    """Yield every command, as the words that name it, and what it is."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, **SETTINGS)
        for name in command.list_commands(context):
            yield from paths(command.get_command(context, name), *words, name)


PATHS = [(" ".join(("ikos", *words)), words, command) for words, command in paths()]
EVERY = pytest.mark.parametrize(("name", "words", "command"), PATHS, ids=[one[0] for one in PATHS])
