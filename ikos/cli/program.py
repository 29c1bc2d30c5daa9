"""The program ``ikos``: its commands, their help, and how each ends."""

from __future__ import annotations

import importlib
import sys
from typing import Any, NoReturn

import click

from ikos import __version__
from ikos.cli.errors import Command, Group, one_line, problem
from ikos.cli.output import complain, discard_output, say

COMMANDS = (
    "sum", "mean", "variance", "count", "histogram", "quantiles", "secure-sum", "messages",
    "certify", "budget", "compare", "graphs", "demo", "task", "serve", "submit", "verify",
)  # fmt: skip
"""Each the ``command`` of the module of its name, or ``command_NAME`` of one of `MODULES`."""

MODULES = {"mean": "sum", "secure-sum": "sum", "demo": "sum"}
"""The modules of commands that share a module."""

SETTINGS: dict[str, Any] = {
    "help_option_names": ["-h", "--help"], "max_content_width": 80, "show_default": True,
}  # fmt: skip


class Commands(Group):
    """The commands, each imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command."""
        if name not in COMMANDS:
            return super().get_command(ctx, name)
        module = importlib.import_module(f"ikos.cli.{MODULES.get(name, name)}")
        attribute = f"command_{name.replace('-', '_')}" if name in MODULES else "command"
        command: click.Command = getattr(module, attribute)
        return command


@click.group(cls=Commands, context_settings=SETTINGS, epilog="To get started: ikos demo")
@click.version_option(__version__, message="ikos %(version)s")
def commands() -> None:
    """Compute sums of private numbers in the shuffle model of differential privacy.

    Each user splits a number into random shares, shufflers mix the shares of all users, and the
    analyzer adds them up: it learns a noisy sum, and what it sees is
    (epsilon, delta)-differentially private. task, serve and submit run the parties as separate
    programs; sum, mean, variance, count, histogram, quantiles and demo simulate them all.
    """


@commands.command("help", cls=Command, epilog="\b\nExample\n  ikos help task new")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
def help_command(words: tuple[str, ...]) -> None:
    """Show the help of a command (same as COMMAND --help)."""
    commands.main([*words, "--help"], "ikos", standalone_mode=False)


def execute(command: click.Command, name: str) -> NoReturn:
    """Run a command with this process's arguments, every mistake in one line, and exit."""
    try:
        status = command.main(prog_name=name, standalone_mode=False, **SETTINGS)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        _fail(context.command_path if context is not None else name, one_line(error), 2)
    except (KeyboardInterrupt, click.Abort) as stop:
        if not str(stop):
            _fail(name, "interrupted", 130)
        say(str(stop))
        sys.exit(130)
    except OSError as error:
        discard_output()
        _fail(name, problem(error), 2)
    sys.exit(status or 0)


def _fail(path: str, message: str, status: int) -> NoReturn:
    complain(path, "error", message)
    sys.exit(status)
