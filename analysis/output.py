"""What the analysis programs share: their command lines, the files they write, and progress.

A program is a function of `Files` and of options, made a command by `program`: it computes, and
writes tables in Markdown and CSV, and figures as SVG and PNG. Each file is written whole, or not at
all when interrupted.
"""

from __future__ import annotations

import csv
import inspect
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ikos.cli.errors import Command
from ikos.cli.output import print_text, progress
from ikos.cli.program import execute
from ikos.cli.types import Whole
from ikos.plots import save, written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


T = TypeVar("T")


class Folder(click.Path):
    """A folder that is named: an empty text, as of a variable that is not set, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail("must name a folder, got ''", param, ctx)
        return super().convert(value, param, ctx)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table's lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  " + "  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


@dataclass(frozen=True)
class Files:
    """The folder that a program writes into; without one, nothing is written."""

    folder: Path | None

    def text(self, name: str, text: str) -> None:
        """Write a file whole or not at all, and print its name."""
        if self.folder is not None:
            with written_whole(self.folder / name) as file:
                file.write(text.encode())
            print_text([str(self.folder / name)])

    def report(self, name: str, text: str) -> None:
        """Print a text, and write it as ``name.md``."""
        print_text(text.splitlines())
        self.text(f"{name}.md", text)

    def figure(self, name: str, figure: Figure) -> None:
        """Write a figure as SVG and as PNG, and print the names of the files."""
        for suffix in (".svg", ".png"):
            if self.folder is not None:
                save(figure, self.folder / (name + suffix))
                print_text([str(self.folder / (name + suffix))])


_SEED = click.option(
    "--seed",
    type=Whole(),
    default=1,
    show_default=True,
    help="Of the experiments; the same seed gives the same files.",
)
_QUICK = click.option(
    "--quick", is_flag=True, help="Coarse curves and few trials: to see that it runs."
)


def program(
    *examples: str, printed: bool = False
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function of `Files` and, where it has them, of ``seed`` and ``quick``.

    Further options are added by click. A program that prints its results takes ``--output`` or not.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        name = f"python -m analysis.{Path(function.__code__.co_filename).stem}"
        shown = examples or ("--output build/figures",)
        lines = (f"  {name} {example}".rstrip() for example in shown)
        epilog = "\n".join(("\b", "Examples", *lines, ""))

        def command(output: Path | None, **options: Any) -> None:
            with _filled(output):
                function(Files(output), **options)

        command.__doc__ = function.__doc__
        command.__dict__.update(function.__dict__)  # options that click has added
        taken = inspect.signature(function).parameters
        for option, own in (("quick", _QUICK), ("seed", _SEED)):
            if option in taken:
                command = own(command)
        words = "The folder to write into" + (" as well" if printed else "")
        folder = click.option(
            "--output",
            required=not printed,
            type=Folder(file_okay=False, path_type=Path),
            help=f"{words}; made where it is missing.",
        )
        settings = {"help_option_names": ["-h", "--help"]}
        made = click.command(name, cls=Command, epilog=epilog, context_settings=settings)
        return made(folder(command))

    return decorate


def main(command: click.Command) -> None:
    """Run a program from the shell."""
    assert command.name is not None
    execute(command, command.name)


@contextmanager
def _filled(folder: Path | None) -> Iterator[None]:
    """Make the folder, if there is one; say in one line what cannot be written."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        reason = (error.strerror or "output error").lower()
        raise click.UsageError(
            f"cannot write {error.filename or str(folder)!r}: {reason}"
        ) from None


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, every column to the right."""
    body = [list(header), ["--:"] * len(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*body, strict=True)]
    lines = []
    for row in body:
        cells = (
            cell.rjust(width, "-" if cell == "--:" else " ")
            for cell, width in zip(row, widths, strict=True)
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as comma-separated values; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue()


def plain_number(n: int) -> str:
    """Return a number of users for a table: large powers of ten as such, others in full."""
    exponent = len(str(n)) - 1
    return f"10^{exponent}" if exponent >= 4 and n == 10**exponent else f"{n:,}"


@contextmanager
def steps(what: str, whole: int) -> Iterator[Callable[..., None]]:
    """Give a function to be called after each step, with its weight, to show progress."""
    done = 0
    with progress(what) as shown:

        def step(weight: int = 1) -> None:
            nonlocal done
            done += weight
            shown(done, whole)

        yield step


def stepped(what: str, whole: int, found: Iterable[T]) -> list[T]:
    """Return all that an iterable yields, each of which is a step of the progress shown."""
    results = []
    with steps(what, whole) as step:
        for one in found:
            results.append(one)
            step()
    return results
