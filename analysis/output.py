"""What the analysis commands share: where they write, tables, figures, and progress."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.output import print_text, progress
from ikos.plots import save, written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Folder",
    "csv_text",
    "filled",
    "markdown",
    "output_option",
    "plain_number",
    "quick_option",
    "save_figure",
    "seed_option",
    "steps",
    "write_text",
]


# Options


class Folder(click.Path):
    """A folder that is named: an empty text, as of a variable that is not set, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail("must name a folder, got ''", param, ctx)
        return super().convert(value, param, ctx)


output_option = click.option(
    "--output",
    required=True,
    type=Folder(file_okay=False, path_type=Path),
    help="The folder to write into; made where it is missing.",
)

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Of the experiments; the same seed gives the same files.",
)

quick_option = click.option(
    "--quick", is_flag=True, help="Coarse curves and few trials: to see that it runs."
)


# Files


@contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """Give a folder to write into, made where it is missing; say in one line what fails.

    Parameters
    ----------
    folder : Path
        Where the files go.

    Yields
    ------
    Path
        The same.

    Raises
    ------
    click.UsageError
        For an `OSError`, with the name of the file.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except OSError as error:
        reason = (error.strerror or "output error").lower()
        raise click.UsageError(
            f"cannot write {error.filename or str(folder)!r}: {reason}"
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, and print its name."""
    with written_whole(path) as file:
        file.write(text.encode())
    print_text([str(path)])


def save_figure(folder: Path, name: str, figure: Figure) -> None:
    """Write a figure as SVG and as PNG, and print the names of the files."""
    for suffix in (".svg", ".png"):
        save(figure, folder / (name + suffix))
        print_text([str(folder / (name + suffix))])


# Tables


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
    """Return a number of users for a table: large powers of ten as such, others in full.

    Examples
    --------
    >>> plain_number(1000), plain_number(10**6), plain_number(1234567)
    ('1,000', '10^6', '1,234,567')
    """
    exponent = len(str(n)) - 1
    return f"10^{exponent}" if exponent >= 4 and n == 10**exponent else f"{n:,}"


# Progress


@contextmanager
def steps(what: str, whole: int) -> Iterator[Callable[..., None]]:
    """Give a function to be called after each step, with its weight, to show progress.

    Parameters
    ----------
    what : str
        What is going on.
    whole : int
        The sum of all weights.
    """
    done = 0
    with progress(what) as shown:

        def step(weight: int = 1) -> None:
            nonlocal done
            done += weight
            if shown is not None:
                shown(done, whole)

        yield step
