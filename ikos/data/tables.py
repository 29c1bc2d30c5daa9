"""Columns of a table with a row per user: from CSV or Parquet, a file or a folder of files."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, choice, flag, integer, quote
from ikos.data.table_files import (
    FORMATS,
    Block,
    Cells,
    InvalidRow,
    Look,
    Notation,
    Part,
    readable,
)
from ikos.primitives.concurrency import Progress

__all__ = [
    "Cells", "Column", "InvalidRow", "Look", "Part", "Table", "open_column", "open_columns",
    "read_column",
]  # fmt: skip

_VERSIONED = {"_delta_log": "Delta Lake", ".hoodie": "Hudi", "metadata/*.metadata.json": "Iceberg"}
"""Names in the folders of formats that keep deleted rows."""


@dataclass(frozen=True)
class Table:
    """Some columns of a file, or of all files of a folder; not yet read."""

    where: str
    parts: tuple[Part, ...]  # in the order of the files' names and their rows

    @property
    def rows(self) -> int | None:
        """Number of rows; None if a file is CSV, which does not state it."""
        known = [part.rows for part in self.parts if part.rows is not None]
        return sum(known) if len(known) == len(self.parts) else None

    def row_blocks(self, progress: Progress | None = None) -> Iterator[Block]:
        """Yield the values of at most 2^17 rows at a time, as an array for each column.

        ``progress`` is called with the amounts done and in all, in bytes (CSV) or rows (Parquet).
        Raises ValueError as `read_column`.
        """
        whole, before, empty = sum(part.weight for part in self.parts), 0, True
        report = progress if progress is not None and whole else lambda *_: None
        for part in self.parts:
            for block, done in part._read():
                empty = False
                yield block
                report(before + min(done, part.weight), whole)
            before += part.weight
            report(before, whole)
        if empty:
            raise ValueError(f"{self.where} has no rows")


@dataclass(frozen=True)
class Column(Table):
    """One column of a file, or of all files of a folder; not yet read."""

    def seen(self, look: Look) -> Column:
        """Return the column with a ``Look``, which is called where a block is read."""

        def looked(cells: Cells) -> Cells:
            return replace(cells, looks=(*cells.looks, look))

        parts = (replace(part, cells=(looked(part.cells[0]),)) for part in self.parts)
        return Column(self.where, tuple(parts))

    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[Any]]:
        """Yield the numbers in blocks of at most 2^17, holding only a few blocks in memory.

        Each number is the finite double nearest to its text; with ``integers=True`` it is exact,
        as int64, or as Python integers where one is longer. Otherwise as ``row_blocks``.
        """
        for (block,) in self.row_blocks(progress):
            yield block


def open_column(
    path: str | os.PathLike[str],
    column: str | int,
    *,
    header: bool = True,
    delimiter: str | None = None,
    integers: bool = False,
    show_values: bool = False,
    texts: bool = False,
    gaps: bool = False,
    na: Sequence[str] = (),
    thousands: str | None = None,
    decimal: str = ".",
) -> Column:
    r"""Open one column, of numbers unless ``texts``: check all headers, read no values.

    Parameters
    ----------
    path : str or path-like
        A Parquet file (recognized by its first bytes or its suffix, ``.parquet`` or ``.pq``), or a
        CSV file or pipe: UTF-8, quoted with ``"``, possibly compressed by gzip. Or a folder of such
        files and folders, all with the same suffix. Names that begin with ``.`` or ``_`` are
        ignored.
    column : str or int
        Its name; without a header, its number, counted from 1. Each file must have it.
    header : bool
        Whether the first line of each CSV file holds the column names.
    delimiter : str, optional
        The character between the cells of CSV files, a comma by default.
    integers, texts : bool
        Read integers of any size, exactly, as secure sums need them, and refuse other numbers; or
        read cells as strings, without surrounding blanks, in an object array.
    show_values : bool
        Let messages quote refused values and the names in the first line of CSV files, which may be
        a data row. By default they state a value's position, never the value.
    gaps : bool
        Read missing values as NaN, or as empty strings if ``texts``. By default they are refused.
    na : sequence of str
        Cells that also have no value. Empty ones have none, and among numbers those that are
        ``NaN``, ``NA``, ``N/A``, ``null`` or ``None``, in capitals or not.
    thousands, decimal : str, optional
        The characters between groups of three digits, by default none, and before decimals, a
        point or a comma, in CSV files.

    Raises
    ------
    ValueError
        If a file cannot be read or is not such a table, or the column is missing, has no unique
        name, or does not hold numbers; in a folder, also if there are no files, files with
        different suffixes, an empty file, or files of different widths without a header.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("name,age\nAnn,31\nBob, 45.5\n")
    ...     [block.tolist() for block in open_column(path, "age").blocks()]
    [[31.0, 45.5]]
    """
    cells = Cells(column, flag("integers", integers), flag("texts", texts))
    if integers and flag("gaps", gaps):
        raise InvalidValue("gaps", "must be False for integers of any size")
    table = open_columns(
        path, [cells], header=header, delimiter=delimiter, show_values=show_values, gaps=gaps,
        na=na, thousands=thousands, decimal=decimal,
    )  # fmt: skip
    return Column(table.where, table.parts)


def open_columns(
    path: str | os.PathLike[str],
    columns: Sequence[Cells],
    *,
    header: bool = True,
    delimiter: str | None = None,
    show_values: bool = False,
    gaps: bool = False,
    na: Sequence[str] = (),
    thousands: str | None = None,
    decimal: str = ".",
) -> Table:
    r"""Open several columns, which are read together, row by row; options are as for `open_column`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text('region,pay\nnorth,"1,234"\nsouth,n/a\n')
    ...     columns = [Cells("pay"), Cells("region", texts=True)]
    ...     table = open_columns(path, columns, gaps=True, thousands=",")
    ...     [[column.tolist() for column in block] for block in table.row_blocks()]
    [[[1234.0, nan], ['north', 'south']]]
    """
    checked = [
        replace(one, column=_checked_column(f"columns[{place}]" if place else "column", one.column,
                                            flag("header", header)))
        for place, one in enumerate(columns)
    ]  # fmt: skip
    mark = "must be one character that cannot be part of a number or end a line"
    if delimiter is not None and not re.fullmatch(r'[^\w"+.\r\n\0-]', delimiter):
        raise InvalidValue("delimiter", f"{mark}, got {quote(delimiter)}")
    choice("decimal", decimal, (".", ","))
    if thousands is not None and not re.fullmatch(r'[^\w"+\r\n\0-]', thousands):
        raise InvalidValue("thousands", f"{mark}, got {quote(thousands)}")
    if thousands == decimal:
        raise InvalidValue("thousands", f"must not be the decimal point, got {quote(thousands)}")
    part = partial(
        Part, cells=tuple(checked), header=header, delimiter=delimiter,
        notation=Notation.of(flag("gaps", gaps), na, thousands, decimal),
        show_values=flag("show_values", show_values),
    )  # fmt: skip
    parts = [piece for name in _files_in(path) for piece in _parts(part, name)]
    widths = {piece.width: piece.where for piece in parts}
    if len(widths) > 1:
        (few, first), (many, other), *_ = widths.items()
        raise ValueError(f"{first} and {other} have {few} and {many} columns")
    if not parts:
        raise ValueError(f"{_shown(path)} has no rows")
    return Table(_shown(path), tuple(parts))


def _checked_column(name: str, column: str | int, header: bool) -> str | int:
    """Check and return a column: its name, or without a header its number."""
    if header:
        if not isinstance(column, str):
            raise InvalidType(name, f"must be a name where there is a header, got {quote(column)}")
        return column
    if isinstance(column, str) and not (column.isascii() and column.isdecimal()):
        raise InvalidValue(name, f"must be a number counted from 1, got {quote(column)}")
    return integer(name, int(column) if isinstance(column, str) else column, low=1)


def _parts(part: Callable[..., Part], path: str) -> list[Part]:
    """Return the parts of a file, after checking that it has the column."""
    where = _shown(path)
    with readable(where):
        real, size = _status(path)
        kind = "csv" if real is None else _kind(real)
    whole = part(path=real or path, where=where, kind=kind, weight=size, stored=real is not None)
    notation = whole.notation
    for name, used in (
        ("header", not whole.header), ("delimiter", whole.delimiter is not None),
        ("thousands", notation.thousands is not None), ("decimal", notation.decimal != "."),
    ):  # fmt: skip
        if used and FORMATS[kind].described:
            raise InvalidValue(name, f"must be left out for {where}, which is not a CSV file")
    return list(FORMATS[kind].split(whole)) if whole.stored else [whole]  # a pipe is read once


def read_column(path: str | os.PathLike[str], column: str | int, **options: Any) -> NDArray[Any]:
    """Read one numeric column at once: all blocks of `open_column`, with its ``options``.

    Raises
    ------
    ValueError
        As for `open_column`; and if a cell is missing, not a decimal number, or beyond the doubles.
        The message is one line. Blanks around cells are allowed, and so are empty lines at the end,
        which are not rows; ``nan``, ``inf``, ``1_000``, hexadecimal and an empty line in the middle
        are refused.
    """
    return np.concatenate(list(open_column(path, column, **options).blocks()))


# Files


def _shown(path: str | os.PathLike[str]) -> str:
    """Return a path for messages."""
    if os.fspath(path) == "/dev/stdin":
        return "standard input"
    return repr(os.fspath(path))


def _status(path: str) -> tuple[str | None, int]:
    """Return a file's path for any process, or None for a pipe, and its size in bytes."""
    status = os.stat(path)
    real = os.path.realpath(path)
    if not stat.S_ISREG(status.st_mode) or real.startswith(("/dev/", "/proc/")):
        return None, 0
    return (real if os.path.exists(real) else None), status.st_size


def _kind(path: str) -> str:
    """Return the format of a file."""
    with open(path, "rb") as file:
        start = file.read(8)
    for kind, form in FORMATS.items():
        if path.lower().endswith(form.suffixes) or (form.start and start.startswith(form.start)):
            return kind
    return "csv"


def _suffix(path: str) -> str:
    """Return a file's suffix, the same for all suffixes of a format."""
    suffix = Path(path).suffix.lower()
    return next((form.suffixes[0] for form in FORMATS.values() if suffix in form.suffixes), suffix)


def _files_in(path: str | os.PathLike[str]) -> list[str]:
    """Return a file, or the files of a folder and its subfolders, ordered by name."""
    if "\0" in os.fsdecode(path):
        raise InvalidValue("path", f"must hold no null character, got {quote(path)}")
    names = [os.fspath(path)]
    if folder := os.path.isdir(path):
        with readable(_shown(path)):
            names = _listed(names[0], {_identity(names[0])})
    _refuse_versioned(names)
    if not folder:
        return names
    if not names:
        raise ValueError(f"{_shown(path)} is a folder without files")
    for name in names:
        if not os.path.isfile(name):
            raise ValueError(f"{_shown(name)} is in a folder of tables and is not a file")
        if _suffix(name) != _suffix(names[0]):
            raise ValueError(
                f"{_shown(names[0])} and {_shown(name)} have different suffixes: all files of a "
                "folder form one table, and a backup copy would count its rows twice; move it "
                "elsewhere"
            )
    return names


def _identity(path: str) -> tuple[int, int]:
    """Return the device and number that all names of a file or folder share, also hard links."""
    with readable(_shown(path)):
        status = os.stat(path)
    return status.st_dev, status.st_ino


def _listed(folder: str, seen: set[tuple[int, int]]) -> list[str]:
    names = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.startswith((".", "_")):  # all programs that write such folders put no rows there
            continue
        if (identity := _identity(path)) in seen:
            raise ValueError(f"{_shown(path)} is a link: its rows would count twice")
        seen.add(identity)
        names += _listed(path, seen) if os.path.isdir(path) else [path]
    return names


def _refuse_versioned(names: Sequence[str]) -> None:
    """Refuse files anywhere below the folder of a table that keeps deleted rows."""
    paths = {Path(way(name)) for name in names for way in (os.path.abspath, os.path.realpath)}
    for folder in sorted({parent for path in paths for parent in path.parents}):
        for pattern, kind in _VERSIONED.items():
            if any(folder.glob(pattern)):
                raise ValueError(
                    f"{_shown(folder)} is a table of {kind}: some of its files may hold rows that "
                    "were deleted since; export it to a folder of Parquet files"
                )
