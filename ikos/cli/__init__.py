"""The command line, ``ikos``: one module per command.

Results go to standard output, all at once at the end, so that nothing is half-printed; warnings,
errors and progress to standard error. A mistake is answered by one line,
``ikos COMMAND: error: ...``, and exit status 2; an interruption by a line and status 130; a check
that fails by status 1. Each command takes ``--json`` and documents the object that it prints in
its module.
"""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

import click

from ikos import __version__
from ikos.cli.errors import Interrupted, Quiet, leave_interrupts, one_line, problem
from ikos.cli.output import discard_output

__all__ = ["execute", "main"]

COMMANDS = (
    "sum", "messages", "compare", "compare-vectors", "graphs", "demo", "task", "serve", "submit",
)  # fmt: skip
"""Each a module of this package with a click command called ``command``."""


class Commands(click.Group):
    """The commands, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"ikos.cli.{name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(
                f"there is no command {args[0]!r}; the commands are {', '.join(COMMANDS)}", ctx
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="\b\nBegin with\n  ikos demo",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def commands(ctx: click.Context) -> None:
    """Sum private numbers in the shuffle model of differential privacy.

    Users split their numbers into random shares, shufflers mix everybody's
    shares, and the analyzer who adds them up learns a noisy sum and nothing
    else about anybody.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the command line and exit."""
    execute(commands, "ikos")


def execute(command: click.Command, name: str) -> NoReturn:
    """Run a command, with every mistake in one line, and exit.

    Parameters
    ----------
    command : click.Command
        What to run, with the arguments of this process.
    name : str
        The program's, for messages.
    """
    try:
        status = command.main(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else name
        _fail(path, one_line(error), 2)
    except (Interrupted, KeyboardInterrupt, click.Abort) as stop:
        leave_interrupts()
        said = getattr(stop, "said", None)
        if said is None:
            _fail(name, "interrupted", 130)
        click.echo(said, err=True)
        sys.exit(130)
    except Quiet as error:
        sys.exit(error.status)
    except OSError as error:
        discard_output()
        _fail(name, problem(error), 2)
    sys.exit(status or 0)


def _fail(path: str, message: str, status: int) -> NoReturn:
    click.echo(f"{path}: error: {message}", err=True)
    sys.exit(status)
