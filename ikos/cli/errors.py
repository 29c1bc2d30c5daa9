"""Commands that answer a mistake by one line, and exceptions in the words of the command line."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Any

import click
from click.shell_completion import CompletionItem

from ikos.cli import end_at_once
from ikos.cli.output import print_text

MISTAKES = (ValueError, TypeError, ArithmeticError, MemoryError, ImportError, OSError)
"""What the library raises for arguments and data; anything else is a bug and shows itself."""

_OPTIONS = {
    "n": "--users", "m": "--messages", "q": "--modulus", "shufflers": "--shuffler",
    "patience": "--wait",
}  # fmt: skip
_OPTIONS |= {
    name: "--" + name.replace("_", "-")
    for name in (
        "analysis", "analyzer", "backend", "bound", "ca", "certificate", "closes", "column",
        "confidence", "config", "corrupt_clients",
        "corrupt_shufflers", "delimiter", "delta", "dimension", "epsilon", "host",
        "largest", "lower", "max_delta", "max_epsilon", "messages", "min_honest", "modulus",
        "opens", "output", "planted",
        "port", "precision", "radius", "rate", "reserve", "runs", "scheduler", "seed", "shuffler",
        "sigma", "sizes", "sparsity",
        "store", "threads", "trials", "upper", "users", "value", "workers",
    )
}  # fmt: skip


_EXTRAS = {
    "httpx": "deployment", "starlette": "deployment", "uvicorn": "deployment",
    "pydantic": "deployment", "prometheus_client": "deployment",
    "cryptography.hazmat.primitives.hpke": "deployment",
}  # fmt: skip
"""Modules that a fresh installation may lack, where the library does not say it itself."""


_MORE = {">=": "at least", ">": "more than"}


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C, in a form that click does not meddle with.

    Parameters
    ----------
    said : str, optional
        The line to be printed; a general one by default.
    """

    def __init__(self, said: str | None = None) -> None:
        super().__init__(said)
        self.said = said


class _Mistakes(click.Command):
    """What commands and groups of them have in common: usage errors, and help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments, each option once."""
        given = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # the parser does not say whose mistake it is
            if isinstance(error, click.NoSuchOption):
                name = error.option_name
                meant = [known for known in error.possibilities or () if _near(name, known)]
                raise click.NoSuchOption(name, possibilities=meant, ctx=error.ctx) from None
            raise
        if not ctx.resilient_parsing:
            self._once(ctx, given)
        return rest

    def _once(self, ctx: click.Context, given: list[str]) -> None:
        """Refuse an option that is given again, so that neither value is dropped in silence."""
        seen = set()
        for param in self.make_parser(ctx).parse_args(given)[2]:
            if not isinstance(param, click.Option) or param.multiple:
                continue
            if param.name in seen:
                names = " and ".join(map(repr, [*param.opts, *param.secondary_opts]))
                raise click.UsageError(f"option {names} can be given only once", ctx)
            seen.add(param.name)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help, with `unbroken` texts as they were."""
        return super().get_help(ctx).replace("\N{NO-BREAK SPACE}", " ").replace(_HYPHEN, "-")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what a shell may put there, options without their defaults."""
        found = super().shell_complete(ctx, incomplete)
        for item in found:
            item.help = item.help and item.help.partition("  [default:")[0]
        return found

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option, which prints as results are printed: whole, or with one line."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _print_help
        return option


def _near(given: str, known: str) -> bool:
    """Whether an option may be what was meant: click, which counts the dashes, guesses wildly."""
    given, known = given.lstrip("-"), known.lstrip("-")
    return known.startswith(given) or SequenceMatcher(None, given, known).ratio() >= _NEAR


_NEAR = 0.7


def _print_help(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        print_text([ctx.get_help()])
        ctx.exit()


class Command(_Mistakes):
    """A command whose mistakes become usage errors.

    Parameters
    ----------
    sections : mapping, optional
        Headings of the help, each by the name of the first option under it.
    """

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.sections = dict(sections or {})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments; all that are missing are named at once."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter:
            found = self.make_parser(ctx).parse_args(args=given)[0]
            missing = [
                param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
                for param in self.params
                if param.required and not isinstance(found.get(str(param.name)), str | tuple | list)
            ]
            if len(missing) < 2:
                raise
            raise click.UsageError(f"missing {', '.join(missing)}", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with what the library refuses as a usage error."""
        try:
            _take_interrupts()
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None
        except (*MISTAKES, SystemError) as error:
            if _of_an_interrupt(error):
                raise Interrupted from None
            if isinstance(error, SystemError):
                raise
            raise click.UsageError(problem(error), ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings, all aligned."""
        sections: dict[str, list[tuple[str, str]]] = {}
        heading = "Options"
        for param in self.get_params(ctx):
            heading = self.sections.get(str(param.name), heading)
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(heading, []).append(record)
        names = [name for rows in sections.values() for name, _ in rows]
        width = min(_WIDEST, max(map(len, names), default=0))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows], _WIDEST)


_WIDEST = 28
"""Of the names of options beside which there is room for help."""


class Group(_Mistakes, click.Group):
    """Commands, in the order in which they were made, with their help where none is named."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"invoke_without_command": True, **options})

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, or say which there are."""
        try:
            result = super().invoke(ctx)
        except KeyboardInterrupt:  # another one, while the command ended
            raise Interrupted from None
        if ctx.invoked_subcommand is None:
            print_text([ctx.get_help()])
        return result

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name all commands."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say which there are."""
        known = args[0].startswith("-") or self.get_command(ctx, args[0]) is not None
        if not known and not ctx.resilient_parsing:
            names = ", ".join(self.list_commands(ctx))
            raise click.UsageError(
                f"there is no command {clipped(args[0])}; the commands are {names}", ctx
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the commands do, each summary whole."""
        names = self.list_commands(ctx)
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.summary(ctx, name)) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what a shell may put there, with summaries that are whole."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=self.summary(ctx, name)) for name in names] + options

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return what a command does."""
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=1000)


_HYPHEN = "\N{NON-BREAKING HYPHEN}"
_LONGEST = 30


def unbroken(text: str) -> str:
    """Return a short text of the help that stays on one line."""
    if len(text) > _LONGEST:
        return text
    return text.replace(" ", "\N{NO-BREAK SPACE}").replace("-", _HYPHEN)


def clipped(text: str, most: int = 60) -> str:
    """Return a text as messages quote it, by default never longer than a short line."""
    shown = repr(text)
    return shown if len(shown) <= most else shown[: most - 4] + "...'"


def _take_interrupts() -> None:
    """Let Ctrl-C be an exception again: there is something to be said when it comes."""
    with suppress(ValueError):  # not the main thread's to say
        if signal.getsignal(signal.SIGINT) is end_at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _of_an_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: in the midst of its import, a module of C raises ImportError."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def leave_interrupts() -> None:
    """Let nothing interrupt the program any more: it is about to say its last, and to end."""
    while threading.current_thread() is threading.main_thread():
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return
        except KeyboardInterrupt:  # one that came just before, which this call raises
            continue


def problem(error: BaseException) -> str:
    """Return what an exception of the library says, in the words of the command line."""
    if isinstance(error, MemoryError):
        return "not enough memory for this"
    if isinstance(error, ImportError) and error.name in _EXTRAS:
        extra = _EXTRAS[error.name]
        return f"this needs the extra {extra!r}: pip install 'ikos[{extra}]'"
    if isinstance(error, OSError) and error.strerror:
        # not what failed, which an error does not say: reading, writing, or finding it
        names = [clipped(str(name), 300) for name in (error.filename, error.filename2) if name]
        reason = error.strerror[0].lower() + error.strerror[1:]
        return f"{' and '.join(names)}: {reason}" if names else reason
    if isinstance(error, OverflowError):
        return "a number is too large or too small to compute with"
    return in_options(str(error)) or type(error).__name__


def unwritten(path: object, error: OSError) -> click.UsageError:
    """Return the usage error for a file that cannot be written."""
    reason = (error.strerror or "output error").lower()
    return click.UsageError(f"cannot write {str(path)!r}: {reason}")


def in_options(message: str) -> str:
    """Return a message of the library with its parameters named as options."""
    message = re.sub(
        r"^(\w+)(?:\[\d+\])?(?= must )", lambda match: _OPTIONS.get(match[1], match[0]), message
    )
    message = re.sub(
        r"^(host|certificate) and (port|private_key)(?= must )",
        lambda match: f"--{match[1]} and --{match[2].replace('_', '-')}",
        message,
    )
    message = re.sub(r"^n \* m(?= must )", "--users * --messages", message)
    message = re.sub(
        r"\bclear_share=(True|False)",
        lambda match: "--clear-share" if match[1] == "True" else "--no-clear-share",
        message,
    )
    message = re.sub(r"""\b(analysis|shuffler)=["'](\w+)["']""", r"--\1 \2", message)
    message = re.sub(
        r"^analysis '(\w+)' does not cover n = (.+?) with (?=parallel |single )",
        r"--analysis \1 does not cover \2 honest users (--min-honest) with ",
        message,
    )
    message = re.sub(
        r"\bneeds n (>=?) (\d+), got n = (?=\d)",
        lambda match: f"needs {_MORE[match[1]]} {match[2]} honest users, got ",
        message,
    )
    message = re.sub(
        r"^(--modulus must be above) n \* precision = (\d+)",
        lambda match: f"{match[1]} users * steps = {int(match[2]):,}",
        message,
    )
    message = re.sub(r"^plots need ", "--plot needs ", message)
    message = re.sub(r"^('.*') must be a task: ", r"cannot read \1: ", message)
    message = re.sub(r"^header must be True for", "--no-header must be left out for", message)
    message = message.replace(" for this q, got ", " for this --modulus, got ")
    message = message.replace("integers=True", "--integers")
    message = message.replace("show_values=True", "--show-values")
    message = message.replace(
        "give certificate and private_key", "give --certificate and --private-key"
    )
    message = message.replace("--shuffler single, --no", "--shuffler single --no")
    return re.sub(r"\bor give precision=", "or give --precision", message)


def one_line(error: click.ClickException) -> str:
    """Return click's message as one line that goes on from ``error:``."""
    message = " ".join(error.format_message().split()).removesuffix(".")
    for start in ("Invalid value", "Missing", "No such", "Got unexpected", "Option", "Error"):
        if message.startswith(start):
            return message[0].lower() + message[1:]
    return message
