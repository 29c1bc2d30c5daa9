"""One numeric column of a table, a row per user: from CSV or Parquet, a file or a folder of them.

Strict on purpose: a cell that is skipped, guessed or coerced would be a user whose value changes
without anybody's knowledge. What is not plainly a number is refused, with the file and the row
where it stands.

A column is opened first, which looks at every file's header and reads no values; then it is read
in blocks, in the memory of one of them, or in parts by many processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import flag, integer, quote
from ikos.concurrency import Progress
from ikos.tables.csv import check_delimiter, csv_part
from ikos.tables.files import SUFFIXES, files_in
from ikos.tables.parquet import parquet_parts
from ikos.tables.parts import Look, Part, SeenPart, readable, shown, status

__all__ = ["Column", "Look", "Part", "check_delimiter", "open_column", "read_column"]


@dataclass(frozen=True)
class Column:
    """One numeric column of a file, or of all files of a folder; not read yet.

    Attributes
    ----------
    where : str
        The path as messages show it.
    parts : tuple of Part
        What it is made of, in the order of the files' names and of their rows. Each can be pickled
        and read by another process that sees the same path, unless it is a pipe.
    """

    where: str
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int | None:
        """How many rows there are, where files say so: Parquet does, CSV does not."""
        counts = [part.rows for part in self.parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def seen(self, look: Look) -> Column:
        """Return the column whose numbers pass somebody's eyes, block by block.

        Parameters
        ----------
        look : callable
            Takes a block of numbers, and how many rows of the file come before; returns as many
            numbers. It is called where the block is read: for another process, it must be one that
            can be pickled. It refuses a row by ``ikos.tables.parts.BadRow``.
        """
        parts = (
            SeenPart(
                **{own.name: getattr(part, own.name) for own in fields(Part)}, part=part, look=look
            )
            for part in self.parts
        )
        return replace(self, parts=tuple(parts))

    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[Any]]:
        r"""Yield the numbers in blocks of about 2^17, in the memory of a few of them.

        Parameters
        ----------
        progress : callable, optional
            Called with what is done and the whole, in bytes (CSV) or rows (Parquet).

        Yields
        ------
        (rows,) ndarray
            Finite numbers, each the double nearest to what is written; with ``integers=True`` each
            exactly what is written, as int64, or as Python integers where one is longer.

        Raises
        ------
        ValueError
            As `read_column`.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for year in (2023, 2024):
        ...         _ = Path(folder, f"{year}.csv").write_text(f"year\n{year}\n")
        ...     list(open_column(folder, "year").blocks())
        [array([2023.]), array([2024.])]
        """
        whole = sum(part.weight for part in self.parts)
        before = 0
        empty = True
        for part in self.parts:
            for block in part.blocks(_shifted(progress, before, whole)):
                empty = False
                yield block
            before += part.weight
        if empty:
            raise ValueError(f"{self.where} has a header but no rows")


def _shifted(progress: Progress | None, before: int, whole: int) -> Progress | None:
    if progress is None:
        return None
    told = progress
    return lambda done, _: told(before + done, whole)


def open_column(
    path: str | os.PathLike[str],
    column: str | int,
    *,
    header: bool = True,
    delimiter: str | None = None,
    integers: bool = False,
    show_values: bool = False,
) -> Column:
    r"""Open one numeric column, to be read in blocks or in parts.

    Parameters
    ----------
    path : str or path-like
        A Parquet file (recognized by its first bytes or its suffix, ``.parquet``), else a CSV
        file: UTF-8, with or without a byte order mark, quoted with ``"``, compressed by gzip or
        not; or a pipe of CSV. Or a folder of CSV files or of Parquet files, and of folders of such,
        as for each value of a column (``year=2024``). Names that begin with ``.`` or ``_`` are
        ignored.
    column : str or int
        Its name; without a header its number, counted from 1. Each file must have it.
    header : bool
        Whether the first line of each CSV file holds the names of the columns.
    delimiter : str, optional
        The character between the cells of CSV files, a comma by default; Parquet has none.
    integers : bool
        Read integers of any size, exactly, and refuse other numbers.
    show_values : bool
        Let messages quote what the tables hold: the values that are refused, and the first line of
        CSV files, which may be a header or a row. By default they say where, never what.

    Returns
    -------
    Column
        In a folder, a file with a header or a schema and no rows adds none.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a file cannot be read or is no such table, the column is not in it, its name is not
        unique, or it is not one of numbers; in a folder, also if there are no files, or of both
        kinds, or one of no bytes (as an interrupted copy leaves behind), or of another width where
        there is no header.
    ImportError
        If a Parquet file is given and pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("name,age\nAnn,31\nBob, 45.5\n")
    ...     ages = open_column(path, "age")
    ...     len(ages.parts), ages.rows, [block.tolist() for block in ages.blocks()]
    (1, None, [[31.0, 45.5]])
    """
    header = flag("header", header)
    options = {
        "integers": flag("integers", integers),
        "show_values": flag("show_values", show_values),
    }
    _check_column(column, header)
    if delimiter is not None:
        check_delimiter(delimiter)
    if not isinstance(os.fspath(path) if isinstance(path, os.PathLike) else path, str):
        raise TypeError(f"path must be a string or a path, got {type(path).__name__} {quote(path)}")
    where = shown(path)
    with readable(where):
        in_folder = os.path.isdir(path)
    names = files_in(path) if in_folder else [os.fspath(path)]
    kinds: dict[bool, str] = {}
    parts: list[Part] = []
    widths: dict[int, str] = {}
    for name in names:
        with readable(shown(name)):
            real, size, stamp = status(name)
            parquet = _is_parquet(name, real, stamp is not None)
        kinds.setdefault(parquet, name)
        if len(kinds) > 1:
            raise ValueError(
                f"{where} holds Parquet and other files, {shown(kinds[True])} and "
                f"{shown(kinds[False])}: which are the table?"
            )
        if not parquet:
            part, width = csv_part(
                real,
                name,
                size,
                column,
                stamp=stamp,
                header=header,
                delimiter=delimiter or ",",
                **options,
            )
            parts.append(part)
            widths.setdefault(width, part.where)
            if not header and len(widths) > 1:
                (few, one), (many, other) = list(widths.items())
                raise ValueError(f"{one} has {few} columns and {other} has {many}")
            continue
        if not header:
            raise ValueError(
                f"header must be True for {shown(name)}, a Parquet file, whose columns have names: "
                "give the column's name, not its number"
            )
        if delimiter is not None:
            raise ValueError(
                f"delimiter must be left out for {shown(name)}, a Parquet file, got "
                f"{quote(delimiter)}"
            )
        if stamp is None:
            raise ValueError(
                f"{shown(name)} is Parquet in a pipe, which cannot be read: store it first"
            )
        parts += parquet_parts(real, name, size, str(column), stamp=stamp, **options)
    if not parts:
        raise ValueError(f"{where} has columns but no rows")
    return Column(where, tuple(parts))


def read_column(
    path: str | os.PathLike[str],
    column: str | int,
    *,
    header: bool = True,
    delimiter: str | None = None,
    integers: bool = False,
    show_values: bool = False,
    progress: Progress | None = None,
) -> NDArray[Any]:
    r"""Read one numeric column of a file or a folder of files.

    Parameters
    ----------
    path, column, header, delimiter, integers, show_values
        As for `open_column`.
    progress : callable, optional
        Called with what is done and the whole, in bytes (CSV) or rows (Parquet).

    Returns
    -------
    (rows,) ndarray
        Finite numbers, as of `Column.blocks`. At least one.

    Raises
    ------
    ValueError
        As `open_column`; and if a cell is missing, not a decimal number, or beyond the doubles, or
        a file changes after it was opened. The message is one line. Blanks around cells are allowed
        and blank lines at the end are not rows; ``nan``, ``inf``, ``1_000``, hexadecimal and a
        blank line in the middle are refused.
    ImportError
        If a Parquet file is given and pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("name,age\nAnn,31\nBob, 45.5\n")
    ...     read_column(path, "age")
    array([31. , 45.5])
    """
    found = open_column(
        path,
        column,
        header=header,
        delimiter=delimiter,
        integers=integers,
        show_values=show_values,
    )
    return np.concatenate(list(found.blocks(progress)))


def _is_parquet(name: str, real: str, stored: bool) -> bool:
    if name.lower().endswith(SUFFIXES):
        return True
    if not stored:
        return False  # what is read of a pipe is gone
    with open(real, "rb") as file:
        return file.read(4) == b"PAR1"


def _check_column(column: str | int, header: bool) -> None:
    if isinstance(column, str) and header:
        return
    if header:
        raise TypeError(f"column must be a name where there is a header, got {quote(column)}")
    if not isinstance(column, str):
        integer("column", column, low=1)
    elif not re.fullmatch(r"[0-9]{1,9}", column) or int(column) < 1:
        raise ValueError(
            f"column must be a number counted from 1 where there is no header, got {quote(column)}"
        )
