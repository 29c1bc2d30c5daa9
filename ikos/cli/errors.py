"""Commands that report a mistake in one line, exceptions as usage errors, and help in sections."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.output import print_report, print_text
from ikos.results.report import FORMATS

if TYPE_CHECKING:
    from ikos.results.report import Field

KEYS = {
    "command": "the command that printed the object",
    "version": "version of these keys, 1",
    "warnings": "the warnings on standard error",
    "rows": "the table, as below",
    "notes": "the sentences printed below the table",
}
"""Common keys of the JSON objects of commands."""

MISTAKES = (ValueError, TypeError, ArithmeticError, MemoryError, ImportError, OSError)
"""The library's exceptions for arguments and data; anything else is a bug and is not caught."""

PARAMETERS = {
    "n": "users", "m": "messages", "q": "modulus", "timeout": "wait", "header": "no_header",
    "missing": "on_missing", "gaps": "on_missing", "columns": "column or by",
}  # fmt: skip
"""Parameters of the library whose options have other names."""


_OPTION_WIDTH = 22  # longer options have their explanation on the next line


class _Mistakes(click.Command):
    """The common part of commands and groups: usage errors, and whole summaries."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments, and refuse an option given twice: neither value is dropped silently."""
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # the parser does not name the command
            raise
        if not ctx.resilient_parsing:
            parameters = self.make_parser(ctx).parse_args(words)[2]
            for option in parameters:
                single = isinstance(option, click.Option) and not option.multiple
                if single and parameters.count(option) > 1:
                    raise click.UsageError(f"{option.opts[0]} can be given only once", ctx)
        return rest

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002
        """Return the summary of the command, unabridged."""
        return super().get_short_help_str(1000)


class Command(_Mistakes):
    """A command that turns mistakes into usage errors and prints the report that it returns.

    ``sections`` maps options to the headings of the help, in the order of the help: each begins
    some options under its heading, and several may share one. ``keys`` and ``columns`` describe the
    JSON object and its rows, for the documentation. With columns it takes ``--format``, and
    ``--json`` as its short form.
    """

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, str] | None = None,
        keys: Sequence[Field] = (),
        columns: Sequence[Field] = (),
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.sections = dict(sections or {})
        self.keys = {**(KEYS if columns else {}), **{key.key: key.meaning for key in keys}}
        self.columns = {column.key: column.meaning for column in columns}
        hidden: dict[str, Any] = {"expose_value": False, "callback": _choose}
        formats = click.Option(
            ["--format"], type=click.Choice(FORMATS), default="text", is_eager=True,
            help="Format of the result; csv contains only the table.", **hidden,
        )  # fmt: skip
        json = click.Option(["--json"], is_flag=True, help="Same as --format json.", **hidden)
        self.params += [formats, json] if columns else []

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, turning refusals of the library into usage errors."""
        try:
            if (report := super().invoke(ctx)) is not None:
                print_report(report)
        except KeyboardInterrupt as stop:
            raise click.Abort(f"{ctx.command_path}: {stop}" if str(stop) else "") from None
        except MISTAKES as error:
            raise click.UsageError(problem(error), ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings."""
        heading = "Options"
        sections: dict[str, list[tuple[str, str]]] = {heading: []}
        sections |= {name: [] for name in self.sections.values()}
        for param in self.get_params(ctx):
            heading = self.sections.get(str(param.name), heading)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections[heading].append(record)
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows, col_max=_OPTION_WIDTH)


def _choose(ctx: click.Context, _param: click.Parameter, value: str | bool) -> None:
    if value and value != "text":
        form = "json" if value is True else value
        if (before := ctx.meta.setdefault("ikos.format", form)) != form:
            other = before if value is True else value
            raise click.UsageError(f"--json contradicts --format {other}", ctx)


class Group(_Mistakes, click.Group):
    """Commands, in the order of their definition; without a command, the help is shown."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"invoke_without_command": True, **options})

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, or list the commands."""
        result = super().invoke(ctx)
        if ctx.invoked_subcommand is None:
            print_text([ctx.get_help()])
        return result

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find a command, or refuse its name and suggest a similar one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            sentences = [error.message, *(f"Did you mean {name!r}?" for name in near)]
            raise click.UsageError(" ".join(sentences), ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name all commands."""
        return list(self.commands)


def clipped(text: str, most: int = 60) -> str:
    """Return a text as messages quote it, by default no longer than a short line."""
    shown = repr(text)
    return shown if len(shown) <= most else shown[: most - 4] + "...'"


def problem(error: BaseException) -> str:
    """Return the message of a library exception, in the words of the command line."""
    if isinstance(error, MemoryError):
        return "not enough memory for this"
    if isinstance(error, ModuleNotFoundError) and error.name:  # others have messages
        return "this needs the extra 'deployment': pip install 'ikos[deployment]'"
    if isinstance(error, OSError) and error.strerror:
        # an error does not tell which operation failed: reading, writing, or finding the file
        names = [clipped(str(name), 300) for name in (error.filename, error.filename2) if name]
        return ": ".join([" and ".join(names)] * bool(names) + [error.strerror.lower()])
    if isinstance(error, OverflowError):
        return "a number is too large or too small to compute with"
    return in_options(error) or type(error).__name__


def in_options(error: BaseException) -> str:
    """Return the message of an exception, with options instead of the library's parameters.

    The message is unchanged if the command lacks an option for one of its parameters; advice of
    which it lacks the option is left out.
    """
    from ikos._validation import InvalidType, InvalidValue

    if not isinstance(error, InvalidType | InvalidValue):
        return str(error)
    names = re.split(r"( and | or )", error.parameter or "")
    options = [word if i % 2 else _option(word) for i, word in enumerate(names)]
    subject = "".join(map(str, options)) if all(options) else error.parameter
    advice = (
        f"{option}{'' if value is True else ' ' + _in_shell(value)} {effect}"
        for argument, value, effect in error.advice
        if (option := _option(argument))
    )
    return "; ".join((" ".join(filter(None, (subject, error.what))), *advice))


def _option(parameter: str) -> str | None:
    """Return the running command's option for a parameter, or for a place in it."""
    context = click.get_current_context(silent=True)
    name = parameter.partition("[")[0]
    name = PARAMETERS.get(name, name)
    params = context.command.params if context else ()
    names = name.split(" or ")
    options = (
        " or ".join(one.opts)
        for one in params
        if isinstance(one, click.Option) and one.name in names
    )
    return " or ".join(options) or None


def _in_shell(value: object) -> str:
    """Return a value as typed in a shell."""
    text = str(value)
    return shlex.quote(text) if text.isprintable() else f"${text!r}"


def one_line(error: click.ClickException) -> str:
    """Return click's message as one line that follows ``error:``."""
    message = " ".join(error.format_message().split()).removesuffix(".")
    for start in ("Invalid value", "Missing", "No such", "Got unexpected", "Option", "Error"):
        if message.startswith(start):
            return message[0].lower() + message[1:]
    return message
