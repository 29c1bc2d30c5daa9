"""What the commands print: numbers, styles, progress, and the one write at the end."""

from __future__ import annotations

import json
import math
import os
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

import click

MAX_EXACT = 1 << 53
"""Integers up to here are JSON numbers everywhere; larger ones can be rounded by readers."""

SIGPIPE_STATUS = 141  # what a shell reports for a program that a closed pipe ended


class Quiet(Exception):  # noqa: N818
    """The end of the program without a word."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def print_text(lines: list[str]) -> None:
    """Print a command's whole result."""
    _write("\n".join(lines) + "\n")


def print_json(result: dict[str, Any]) -> None:
    """Print a command's whole result as one JSON object, ASCII, without NaN or infinities."""
    _write(json.dumps(result, indent=2, allow_nan=False) + "\n")


def _write(text: str) -> None:
    stream = sys.stdout
    if stream is None:
        raise click.UsageError("cannot write the output: standard output is closed", _context())
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        discard_output()
        raise Quiet(SIGPIPE_STATUS) from None
    except OSError as error:
        discard_output()
        reason = (error.strerror or "output error").lower()
        raise click.UsageError(f"cannot write the output: {reason}", _context()) from None


def _context() -> click.Context | None:
    return click.get_current_context(silent=True)


def say(text: str) -> None:
    """Print a line beside the result, if anybody can read it: what matters is the result."""
    with suppress(OSError):
        click.echo(text, err=True)


def warn(message: str) -> None:
    """Print a warning of the command that runs."""
    complain(click.get_current_context().command_path, "warning", message)


def complain(path: str, kind: str, message: str) -> None:
    """Print what is wrong, an error in red and a warning in yellow where colours are wanted.

    Parameters
    ----------
    path : str
        The command.
    kind : str
        "error" or "warning".
    message : str
        The rest of the line.
    """
    shown = kind
    if styled(sys.stderr):
        shown = click.style(kind, bold=True, fg="red" if kind == "error" else "yellow")
    say(f"{path}: {shown}: {message}")


def discard_output() -> None:
    """Let standard output go nowhere, so that the interpreter's last flush cannot fail again."""
    try:
        target = os.open(os.devnull, os.O_WRONLY)
        os.dup2(target, sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass


def on_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal."""
    return stream is not None and stream.isatty()


def styled(stream: Any) -> bool:
    """Whether a stream is a terminal where colours and styles are wanted."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return on_terminal(stream) and not plain


def bold(text: str) -> str:
    """Return a heading, bold on a terminal where colours and styles are wanted."""
    return click.style(text, bold=True) if styled(sys.stdout) else text


def printable(text: str) -> str:
    """Return somebody else's words with nothing in them that commands a terminal or ends a line."""
    from ikos import _validation

    return _validation.printable(text)


def figures(value: float, scale: float) -> str:
    """Return a number to three significant digits of ``scale``, what it is uncertain by."""
    from ikos import results

    text = results.figures(value, scale)
    return f"{Decimal(text):,f}" if _grouped(scale, value) else text


def _grouped(scale: float, *values: float) -> bool:
    """Whether numbers are printed in groups of digits: if they need no exponent."""
    return 1e-9 < scale < 1e12 and max(map(abs, values)) < 1e15


def outwards(low: float, high: float) -> tuple[str, str]:
    """Return the ends of an interval, as `figures` prints them but rounded outwards."""
    from ikos.results import Interval

    scale = (high - low) / 2
    if not _grouped(scale, low, high):
        first, last = str(Interval(low, high)).strip("[]").split(", ")
        return first, last
    whole = float(low).is_integer() and float(high).is_integer()
    step = Decimal(1).scaleb(0 if whole else min(0, math.floor(math.log10(scale)) - 2))
    ends = ((low, ROUND_FLOOR), (high, ROUND_CEILING))
    texts = [f"{Decimal(end).quantize(step, way):,f}" for end, way in ends]
    first, last = (text if text.strip("-0.,") else text.removeprefix("-") for text in texts)
    return first, last


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table's lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  " + "  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


def wrapped(text: str, first: str = "  ", rest: str = "  ") -> list[str]:
    """Return a paragraph in lines of at most 80 columns."""
    return textwrap.wrap(
        text, 80, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def integer_text(value: int) -> str:
    """Return all the digits of an integer, also beyond Python's limit for str()."""
    if value.bit_length() <= 8192:
        return str(value)
    import gmpy2

    return str(gmpy2.mpz(value).digits())


def power_text(value: int) -> str:
    """Return an integer for people: grouped digits, a power of two, or its size."""
    if value < 10**7:
        return f"{value:,}"
    for offset, sign in ((0, ""), (1, "-1"), (-1, "+1")):
        power = value + offset
        if power & (power - 1) == 0:
            return f"2^{power.bit_length() - 1}{sign}"
    if value < 10**27:
        return f"{value:,}"
    return f"an integer of {value.bit_length():,} bits"


def remaining(noise_epsilon: float, epsilon: Fraction) -> Fraction:
    """Return what is left of epsilon for the noise; all of it is more than the double below it."""
    whole = math.nextafter(noise_epsilon, math.inf) >= epsilon
    return epsilon if whole else Fraction(noise_epsilon)


@contextmanager
def progress(
    label: str, parts: Sequence[str] | None = None
) -> Iterator[Callable[[int, int], None] | None]:
    """Give a callback that shows progress on standard error: on a terminal, and only if it lasts.

    Parameters
    ----------
    label : str
        What is going on.
    parts : sequence of str, optional
        The names of parts that take unequal times, or no names: they are counted, and no time left
        is shown.

    Yields
    ------
    callable or None
        To be called with what is done and the whole.
    """
    if not on_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    elapsed = rich.TimeElapsedColumn()
    columns: list[str | rich.ProgressColumn]
    if parts is None:
        percent = rich.TaskProgressColumn()
        columns = [rich.BarColumn(24), percent, elapsed, "elapsed,", rich.TimeRemainingColumn()]
        columns.append("left")
    else:
        columns = [rich.MofNCompleteColumn(), elapsed, "elapsed"]
    shown = rich.Progress(
        rich.SpinnerColumn(),
        "{task.description}",
        *columns,
        console=Console(stderr=True),
        redirect_stdout=False,
        redirect_stderr=False,
    )

    def described(done: int, whole: int) -> str:
        under_way = parts[done * len(parts) // whole :] if parts else ()
        return f"{label}: {under_way[0]}" if under_way else label

    def update(done: int, whole: int) -> None:
        shown.update(task, description=described(done, whole), completed=done, total=whole)

    whole = 1 if parts is None else len(parts) or None
    task = shown.add_task(described(0, 1), total=whole)
    # by itself, since the first part may be a long one
    start = threading.Timer(_LASTING, shown.start)
    start.daemon = True
    start.start()
    try:
        yield update
    finally:
        start.cancel()
        start.join()
        shown.stop()


_LASTING = 0.5
"""Seconds after which progress is shown."""
