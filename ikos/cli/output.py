"""Output of the commands: the result in one write at the end; warnings and progress before it."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import click

from ikos.results import text
from ikos.results.report import Field, Report, printable

SECONDS_PER_LINE = 10.0  # of progress, where there is no terminal
SIGPIPE_STATUS = 141  # a shell's status for a program ended by a closed pipe


def print_text(lines: Sequence[str]) -> None:
    """Print a command's whole result."""
    _write(_lines("\n".join(lines)) + "\n")


def print_report(report: Report) -> None:
    """Print the running command's report, after its warnings, in its ``--format``."""
    context = click.get_current_context()
    for warning in report.warnings:
        complain(context.command_path, "warning", warning)
    notes = [*report.notes]
    for key, words in ("plot", "Plotted"), ("draw", "Drawn"):
        if (path := report.data.get(key)) is not None:
            notes.append(f"{words} in {click.format_filename(path)}")
    data = {"command": context.info_name, **report.data}
    width = shutil.get_terminal_size().columns if on_terminal(sys.stdout) else None
    form = context.meta.get("ikos.format", "text")
    shown = replace(report, notes=notes, data=data)
    # JSON escapes what is not ASCII, and a file of CSV is for programs
    if form in ("text", "markdown") or (form == "csv" and on_terminal(sys.stdout)):
        shown = _printable(shown)
    _write(shown.render(form, styled=styled(sys.stdout), width=width))


def _printable(report: Report) -> Report:
    """Return a report whose cells, title and notes do not control a terminal or end a line."""

    def safe(column: Field) -> Field:
        def value(row: Any) -> Any:
            cell = column.of(row)
            return printable(cell) if isinstance(cell, str) else cell

        def text(row: Any) -> str:
            return printable(column.read(row))

        title = None if column.title is None else printable(column.title)
        return replace(column, title=title, value=value, text=text)

    notes, columns = [*map(printable, report.notes)], [*map(safe, report.columns)]
    return replace(report, title=printable(report.title), columns=columns, notes=notes)


def _lines(text: str) -> str:
    """Return lines that do not control a terminal."""
    return "\n".join(map(printable, text.split("\n")))


def _write(text: str) -> None:
    stream = sys.stdout
    try:
        if stream is None:
            raise OSError(errno.EBADF, "standard output is closed")
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        discard_output()
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(SIGPIPE_STATUS) from None
        message = f"cannot write the output: {(error.strerror or 'output error').lower()}"
        raise click.UsageError(message, click.get_current_context(silent=True)) from None


def discard_output() -> None:
    """Discard further standard output, so that the interpreter's last flush cannot fail again."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str, start: str = "") -> None:
    """Print lines on standard error; ignore a failure, as the result matters more."""
    with suppress(OSError):
        click.echo(start + _lines(text), err=True)


def complain(path: str, kind: str, message: str) -> None:
    """Print ``path: kind: message``, an error in red and a warning in yellow on a terminal."""
    if styled(sys.stderr):
        kind = click.style(kind, bold=True, fg="red" if kind == "error" else "yellow")
    say(printable(message), f"{path}: {kind}: ")


def on_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal."""
    return stream is not None and stream.isatty()


def styled(stream: Any) -> bool:
    """Whether a stream is a terminal where colours and styles are wanted."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return on_terminal(stream) and not plain


def at_least(value: float, digits: int = 3) -> str:
    """Return a number with this many significant digits, rounded up."""
    return text.grouped(text.at_least(value, digits))


def at_most(value: float, digits: int = 3) -> str:
    """Return a number with this many significant digits, rounded down."""
    return text.grouped(text.at_most(value, digits))


def power_text(value: int) -> str:
    """Return an integer for people: grouped digits, a power of two, or its size."""
    for offset in (0, -1, 1):
        power = abs(value - offset)
        if power >= 10**7 - 1 and power & (power - 1) == 0:
            sign, more = "-" * (value < 0), f"{offset:+d}" if offset else ""
            return f"{sign}2^{power.bit_length() - 1}{more}"
    if abs(value) < 10**27:
        return f"{value:,}"
    return f"an integer of {value.bit_length():,} bits"


def plain(value: float) -> str:
    """Return a number as errors quote it, without separators."""
    return power_text(value).replace(",", "") if isinstance(value, int) else f"{value:.10g}"


@contextmanager
def _lines_at_times(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for the amounts done and in all, and print them at times as a percentage."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    # the command's last line, or before the first the begin of its first computation
    last = meta.setdefault("ikos.last_line", [time.monotonic()])
    reached, ended = (0, 1), threading.Event()

    def report(done: int, whole: int) -> None:
        nonlocal reached
        reached = done, whole

    def tell() -> None:
        while not ended.wait(last[0] + SECONDS_PER_LINE - time.monotonic()):
            last[0] = time.monotonic()
            done, whole = reached
            say(f"{label}: {100 * done // max(whole, 1)} %")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield report
    finally:
        ended.set()
        thread.join()


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for the amounts done and in all: a bar, or without a terminal lines."""
    if not on_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
        with _lines_at_times(label) as report:
            yield report
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, redirect_stdout=False) as shown:
        task = shown.add_task(label, total=None)
        yield lambda done, whole: shown.update(task, completed=done, total=whole)
