"""One column of a table with a row per user: from CSV or Parquet, a file or a folder of files.

Skipping, guessing or coercing a cell would silently change a user's value, so a cell that is not
plainly a number is refused, with its file and row. Opening a column checks every file's header and
reads no values; it is then read in blocks, or in parts by several processes.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from ikos._validation import flag, integer, quote, whole_number
from ikos.concurrency import Progress

__all__ = ["BadRow", "Column", "Look", "Part", "open_column", "read_column"]

ROWS = 1 << 17
"""Largest number of rows in a block: 1 MiB of doubles."""

RUN = 1 << 20
"""Fewest rows in a part of a Parquet file, except the last; row groups are not split."""

_CSV_ROWS, _CELLS = 1 << 14, 1 << 20  # largest block of CSV, whose cells are Python strings
_BUFFER = 1 << 20  # bytes of a Parquet column read at a time
_PARQUET = (".parquet", ".pq")
_VERSIONED = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}  # formats that keep deleted rows
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_CHARACTERS = b"0123456789+-.eE \t"  # in such numbers and the blanks around them
_DIGITS = 1000  # largest number of digits of an integer

Look = Callable[[NDArray[Any], int], NDArray[Any]]
"""Takes a block of numbers and the number of rows before it; returns a block of the same size, or
raises `BadRow`."""


class BadRow(ValueError):  # noqa: N818
    """Raised by a ``Look``: a bad number's position in the block, and what is wrong with it."""

    def __init__(self, place: int, why: str) -> None:
        super().__init__(why)
        self.place = place
        self.why = why


@dataclass(frozen=True)
class Part:
    """One CSV file, or a run of row groups of one Parquet file.

    It holds no open file. Unless it is a pipe, it can be pickled and read by another process that
    sees the same path.

    Attributes
    ----------
    path : str
        The file, with all links resolved.
    where : str
        The file as messages show it.
    weight : int
        Its bytes of CSV or rows of Parquet, which `blocks` reports as progress.
    column, header, delimiter, integers, show_values, texts
        As for `open_column`.
    stored : bool
        Whether it is a file that any process can read, and not a pipe.
    groups : range or None
        The row groups of Parquet; None for CSV.
    first : int
        Rows of the file before this part.
    looks : tuple of callable
        What `Column.seen` added.
    """

    path: str
    where: str
    column: str | int
    weight: int
    header: bool
    delimiter: str
    integers: bool
    show_values: bool
    stored: bool
    groups: range | None = None
    first: int = 0
    texts: bool = False
    looks: tuple[Look, ...] = field(default=(), repr=False)

    @property
    def rows(self) -> int | None:
        """Number of rows; None for CSV, which does not say."""
        return None if self.groups is None else self.weight

    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[Any]]:
        """Yield the numbers, at most `ROWS` at a time, as `Column.blocks` does."""
        before = self.first
        read = _csv_blocks if self.groups is None else _parquet_blocks
        for block in read(self, progress or (lambda *_: None)):
            seen = block
            for look in self.looks:
                try:
                    seen = look(seen, before)
                except BadRow as bad:
                    value = seen[bad.place]
                    exact = value if isinstance(value, str) else int(value)
                    text = f"{value:.15g}" if isinstance(value, float) else quote(exact)
                    raise self._bad(before + bad.place, text, bad.why) from None
            yield seen
            before += block.size

    def _refuse(self, row: int, what: str) -> NoReturn:
        raise ValueError(f"{self.where}: row {row + 1} {what}")

    def _bad(self, row: int, value: str, why: str) -> ValueError:
        """Return the error for a value, quoted only on request: errors end up in logs."""
        what = value if self.show_values else "a value"
        return ValueError(f"{self.where}: row {row + 1} has {what} in {self._named}, {why}")

    @property
    def _named(self) -> str:
        return f"column {quote(self.column) if self.header else int(self.column)}"

    def __getstate__(self) -> dict[str, Any]:
        if not self.stored:
            raise TypeError(f"{self.where} is a pipe, which no other process can read: store it")
        return self.__dict__


@dataclass(frozen=True)
class Column:
    """One column of a file, or of all files of a folder; not yet read.

    Attributes
    ----------
    where : str
        The path as messages show it.
    parts : tuple of Part
        In the order of the files' names and their rows.
    """

    where: str
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int | None:
        """Number of rows; None if a file is CSV, which does not say."""
        counts = [part.rows for part in self.parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def seen(self, look: Look) -> Column:
        """Return the column with a function that checks each block and may change it.

        It takes a block of numbers and the number of rows of the file before it, and returns a
        block of the same size. It is called where the block is read, in any process, and raises
        `BadRow` to refuse a row.
        """
        return replace(
            self, parts=tuple(replace(part, looks=(*part.looks, look)) for part in self.parts)
        )

    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[Any]]:
        """Yield the numbers in blocks of at most 2^17, holding only a few blocks in memory.

        Parameters
        ----------
        progress : callable, optional
            Called with the amounts done and in all, in bytes (CSV) or rows (Parquet).

        Yields
        ------
        (rows,) ndarray
            Finite numbers, each the double nearest to its text; with ``integers=True`` exact, as
            int64, or as Python integers where one is longer.

        Raises
        ------
        ValueError
            As for `read_column`.
        """
        whole, before, empty = sum(part.weight for part in self.parts), 0, True

        def report(done: int, _: int) -> None:
            if progress is not None:
                progress(before + done, whole)

        for part in self.parts:
            for block in part.blocks(report):
                empty = False
                yield block
            before += part.weight
        if empty:
            raise ValueError(f"{self.where} has no rows")


def open_column(
    path: str | os.PathLike[str],
    column: str | int,
    *,
    header: bool = True,
    delimiter: str | None = None,
    integers: bool = False,
    show_values: bool = False,
    texts: bool = False,
) -> Column:
    r"""Open one column, of numbers unless ``texts``, to be read in blocks or in parts.

    Parameters
    ----------
    path : str or path-like
        A Parquet file (recognized by its first bytes or its suffix, ``.parquet`` or ``.pq``), or a
        CSV file or pipe: UTF-8, with or without a byte order mark, quoted with ``"``, possibly
        compressed by gzip. Or a folder of such files and folders, such as one per value of a column
        (``year=2024``), all with the same suffix. Names that begin with ``.`` or ``_`` are ignored.
    column : str or int
        Its name; without a header, its number, counted from 1. Each file must have it.
    header : bool
        Whether the first line of each CSV file holds the column names.
    delimiter : str, optional
        The character between the cells of CSV files, a comma by default; Parquet has none.
    integers : bool
        Read integers of any size, exactly, and refuse other numbers.
    show_values : bool
        Let messages quote refused values and the names in the first line of CSV files, which may be
        a data row. By default they give a value's position, never the value.
    texts : bool
        Take cells as they are, without surrounding blanks, as objects of type str.

    Returns
    -------
    Column
        In a folder, a file with a header or a schema and no rows adds none.

    Raises
    ------
    ValueError
        If a file cannot be read or is no such table, or the column is missing, has no unique name,
        or does not hold numbers; in a folder, also if there are no files, files with different
        suffixes, an empty file, or files of different widths without a header.

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
    integers, show_values = flag("integers", integers), flag("show_values", show_values)
    if header and not isinstance(column, str):
        raise TypeError(f"column must be a name where there is a header, got {quote(column)}")
    if not header:
        if isinstance(column, str) and not re.fullmatch(r"[0-9]{1,9}", column):
            raise ValueError(f"column must be a number counted from 1, got {quote(column)}")
        column = integer("column", int(column) if isinstance(column, str) else column, low=1)
    if not isinstance(delimiter, str | None):
        raise TypeError(f"delimiter must be a string, got {type(delimiter).__name__}")
    if delimiter is not None and (
        len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"+-._\r\n\0'
    ):
        raise ValueError(
            "delimiter must be one character that cannot be part of a number or end a line, "
            f"got {quote(delimiter)}"
        )
    if not isinstance(os.fspath(path) if isinstance(path, os.PathLike) else path, str):
        raise TypeError(f"path must be a string or a path, got {type(path).__name__} {quote(path)}")
    where = _shown(path)
    names = _files_in(path) if os.path.isdir(path) else [os.fspath(path)]
    parts: list[Part] = []
    widths: dict[int, str] = {}
    for name in names:
        here = _shown(name)
        with _readable(here):
            real, size = _status(name)
        marks = delimiter or ",", integers, show_values
        part = Part(real or name, here, column, size, header, *marks, real is not None, texts=texts)
        if not part.stored:  # a pipe cannot be read twice
            parts.append(part)
        elif not _is_parquet(part):
            parts.append(part)
            with _csv_table(part) as (*_, width):
                widths.setdefault(width, here)
        elif not header:
            raise ValueError(
                f"header must be True for {here}, a Parquet file, whose columns have names"
            )
        elif delimiter is not None:
            raise ValueError(
                f"delimiter must be left out for {here}, a Parquet file, got {quote(delimiter)}"
            )
        else:
            parts += _parquet_parts(part)
    if not header and len(widths) > 1:
        (few, one), (many, other) = list(widths.items())[:2]
        raise ValueError(f"{one} has {few} columns and {other} has {many}")
    if not parts:
        raise ValueError(f"{where} has no rows")
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
        As for `Column.blocks`.

    Returns
    -------
    (rows,) ndarray
        Numbers as `Column.blocks` yields them; at least one.

    Raises
    ------
    ValueError
        As for `open_column`; and if a cell is missing, not a decimal number, or beyond the doubles.
        The message is one line. Blanks around cells are allowed, and so are empty lines at the end,
        which are not rows; ``nan``, ``inf``, ``1_000``, hexadecimal and an empty line in the middle
        are refused.
    """
    found = open_column(
        path, column, header=header, delimiter=delimiter, integers=integers, show_values=show_values
    )
    return np.concatenate(list(found.blocks(progress)))


# Files


def _shown(path: str | os.PathLike[str]) -> str:
    """Return a path for messages; the beginning of a long one is cut off."""
    if os.fspath(path) == "/dev/stdin":
        return "standard input"
    text = repr(os.fspath(path))
    return text if len(text) <= 200 else f"'...{text[-196:]}"


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """Turn errors of the system into a one-line error."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise ValueError(f"{where} is compressed by gzip and damaged or incomplete") from None
    except OSError as error:
        reason = (error.strerror or "input error").lower()
        raise ValueError(f"cannot read {where}: {reason}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{where} is not UTF-8 text") from None


def _status(path: str) -> tuple[str | None, int]:
    """Return a file's path for any process, or None for a pipe, and its size in bytes."""
    found = os.stat(path)
    real = os.path.realpath(path)
    if not stat.S_ISREG(found.st_mode) or real.startswith(("/dev/", "/proc/")):
        return None, 0
    return (real if os.path.exists(real) else None), found.st_size


def _files_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return the files of a folder and its subfolders, ordered by name."""
    with _readable(_shown(folder)):
        found = _listed(os.fspath(folder), {os.path.realpath(folder)})
    if not found:
        raise ValueError(f"{_shown(folder)} is a folder without files")
    for path in found:
        if not os.path.isfile(path):
            raise ValueError(f"{_shown(path)} is in a folder of tables and is no file")
        if _suffix(path) != _suffix(found[0]):
            raise ValueError(
                f"{_shown(found[0])} and {_shown(path)} do not end alike: files of one folder are "
                "one table, and a copy would count its rows twice; move it elsewhere"
            )
    return found


def _listed(folder: str, seen: set[str]) -> list[str]:
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name in _VERSIONED:
            raise ValueError(
                f"{_shown(folder)} is a {_VERSIONED[name]} table: some of its files may hold "
                "rows that were deleted since; export it to a folder of Parquet files"
            )
        if name.startswith((".", "_")):  # all programs that write such folders put no rows there
            continue
        if (real := os.path.realpath(path)) in seen:
            raise ValueError(f"{_shown(path)} is a link: its rows would count twice")
        seen.add(real)
        found += _listed(path, seen) if os.path.isdir(path) else [path]
    return found


def _suffix(path: str) -> str:
    suffix = Path(path).suffix.lower()
    return _PARQUET[0] if suffix in _PARQUET else suffix


def _position(part: Part, names: Sequence[str]) -> int:
    """Return the position of the column, or refuse it and list the others if they may be shown."""
    parquet = part.path.lower().endswith(_PARQUET)  # its names are never a data row
    name = str(part.column)
    found = [index for index, one in enumerate(names) if one == name]
    if len(found) == 1:
        return found[0]
    if found:
        places = ", ".join(str(index + 1) for index in found)
        raise ValueError(f"{part.where} has {len(found)} columns named {quote(name)}: {places}")
    listed = f" among its {len(names)} columns; show_values=True lists them"
    if part.show_values or parquet:
        listed = (
            "; its columns are " + ", ".join(map(quote, names[:20])) + ", ..." * (len(names) > 20)
        )
    if len(names) == 1 and not parquet:
        listed += f" (with the delimiter {part.delimiter!r})"
    raise ValueError(f"{part.where} has no column {quote(name)}{listed}")


# CSV


@contextmanager
def _csv_table(part: Part) -> Iterator[tuple[BinaryIO, Iterator[list[str]], int, int]]:
    """Yield an open CSV file, its rows, the column's position in them, and their width."""
    mark = part.delimiter
    with _readable(part.where), open(part.path, "rb") as file:
        binary: Any = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="\n")
        # strict, because a lenient reader lets an unclosed quote swallow all rows after it
        reader = csv.reader(text, delimiter=mark, strict=True, skipinitialspace=mark != " ")
        try:
            top = next(reader, None)
            if not top:
                raise ValueError(f"{part.where} is empty, or its first line is")
            if part.header:
                names = [name.strip() for name in top]
                place = _position(replace(part, column=str(part.column).strip()), names)
                yield file, reader, place, len(top)
                return
            if (place := int(part.column) - 1) >= len(top):
                raise ValueError(f"{part.where} has no column {place + 1}: it has {len(top)}")
            yield file, chain([top], reader), place, len(top)
        except csv.Error as error:
            raise ValueError(f"{part.where} is not valid CSV: {error}") from None


def _csv_blocks(part: Part, progress: Progress) -> Iterator[NDArray[Any]]:
    """Yield the numbers of a CSV file."""
    with _csv_table(part) as (file, reader, place, width):
        _check_size(part, file)
        row = blank = 0
        while block := list(islice(reader, max(1, min(_CSV_ROWS, _CELLS // width)))):
            whole = len(block)
            while block and not block[-1]:  # empty lines are allowed at the end only
                block.pop()
            if block and blank:
                part._refuse(row, "is blank; only the last lines may be")
            if block:
                yield _csv_numbers(part, block, row, place, width)
                row += len(block)
            blank += whole - len(block)
            if part.weight:
                progress(min(file.tell(), part.weight), part.weight)
        _check_size(part, file)


def _check_size(part: Part, file: BinaryIO) -> None:
    """Refuse a CSV file whose length has changed since it was opened: it may have other rows."""
    if part.stored and os.fstat(file.fileno()).st_size != part.weight:
        raise ValueError(f"{part.where} was changed while it was being read")


def _csv_numbers(
    part: Part, block: list[list[str]], row: int, place: int, width: int
) -> NDArray[Any]:
    """Return the numbers of a block of rows, or refuse the first cell that is not a number.

    Python's float() and int() accept more than decimal numbers: nan, inf, underscores, and digits
    and blanks of every script. All of these contain a character that no decimal number has, so one
    check of the characters of the whole block is as strict as the pattern.
    """
    if set(map(len, block)) == {width}:
        cells = [cells[place] for cells in block]
        if part.texts and all(texts := [cell.strip() for cell in cells]):
            return np.array(texts, dtype=object)
        joined = "".join(cells)
        if not part.texts and joined.isascii() and not joined.encode().translate(None, _CHARACTERS):
            values = _integers(cells) if part.integers else _doubles(cells)
            if values is not None:
                return values
    for number, cells in enumerate(block, row):
        if not cells:
            part._refuse(number, "is blank; only the last lines may be")
        if len(cells) != width:
            part._refuse(number, f"has {len(cells)} cells, not {width} as the first line")
        cell = cells[place].strip(None if part.texts else " \t")
        if not cell:
            part._refuse(number, f"has no value in {part._named}")
        if part.texts:
            continue
        if not _NUMBER.fullmatch(cell):
            raise part._bad(number, quote(cell), "not a finite decimal number")
        if part.integers and _integers([cell]) is None:
            raise part._bad(number, quote(cell), f"not an integer of at most {_DIGITS:,} digits")
        if not part.integers and _doubles([cell]) is None:
            raise part._bad(number, quote(cell), "beyond the largest double")
    raise AssertionError("a block was refused, and none of its cells")


def _doubles(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """Return texts as doubles, or None if one is not a finite double."""
    try:
        values = np.array(list(map(float, cells)), dtype=np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _integers(cells: Sequence[str]) -> NDArray[Any] | None:
    """Return texts as integers, exactly, or None if one is not an integer."""
    try:
        return _words(list(map(int, cells)))
    except ValueError:  # 3.0, 3e2, or not a number
        pass
    found = []
    for cell in cells:
        try:
            value = Decimal(cell)
        except InvalidOperation:
            return None
        if value.adjusted() >= _DIGITS or value != value.to_integral_value():
            return None
        found.append(int(value))
    return _words(found)


def _words(found: Sequence[int]) -> NDArray[Any]:
    """Return integers as an array of int64, or of objects if some are longer."""
    try:
        return np.array(found, dtype=np.int64)
    except OverflowError:
        return np.array(found, dtype=object)


# Parquet


def _is_parquet(part: Part) -> bool:
    if part.path.lower().endswith(_PARQUET):
        return True
    with _readable(part.where), open(part.path, "rb") as file:
        return file.read(4) == b"PAR1"


@contextmanager
def _parquet_table(part: Part) -> Iterator[tuple[Any, Any]]:
    """Yield pyarrow and an open Parquet file, after checking the column."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            f"{part.where} is a Parquet file, and reading one needs pyarrow: "
            "pip install 'ikos[parquet]'"
        ) from None
    try:
        with open(part.path, "rb") as file:
            # buffered, not read ahead, which would hold all of a row group's column in memory
            table = pq.ParquetFile(
                file, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
            )
            names = table.schema_arrow.names
            kind = table.schema_arrow.field(_position(part, names)).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not part.texts and not any(
                of(kind) for of in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
            ):
                raise ValueError(f"{part.where}: {part._named} holds {kind}, not numbers")
            yield pa, table
    except (pa.ArrowException, OSError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{part.where} is not a readable Parquet file: {first}") from None


def _parquet_parts(part: Part) -> Iterator[Part]:
    """Yield the parts of a Parquet file: runs of row groups of at least `RUN` rows."""
    with _parquet_table(part) as (_, table):
        metadata = table.metadata
        counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    start = first = rows = 0
    for number, count in enumerate(counts, 1):
        rows += count
        if rows and (rows >= RUN or number == len(counts)):
            yield replace(part, weight=rows, groups=range(start, number), first=first)
            start, first, rows = number, first + rows, 0


def _parquet_blocks(part: Part, progress: Progress) -> Iterator[NDArray[Any]]:
    """Yield the numbers of some row groups."""
    assert part.groups is not None
    with _parquet_table(part) as (pa, table):
        done = 0
        batches = table.iter_batches(ROWS, row_groups=[*part.groups], columns=[part.column])
        for batch in batches:
            values = _parquet_numbers(part, batch.column(0), pa, part.first + done)
            done += values.size
            yield values
            progress(done, part.weight)
        if done != part.weight:
            raise ValueError(f"{part.where} was changed while it was being read")


def _parquet_numbers(part: Part, array: Any, pa: Any, row: int) -> NDArray[Any]:
    """Return the numbers of a batch, or refuse the first cell that is missing or not a number."""
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if part.texts:
        cells = ["" if one is None else str(one).strip() for one in array.to_pylist()]
        if "" in cells:
            part._refuse(row + cells.index(""), f"has no value in {part._named}")
        return np.array(cells, dtype=object)
    if array.null_count:
        first = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        part._refuse(row + first, f"has no value in {part._named}")
    if not part.integers or pa.types.is_signed_integer(array.type):
        # unchecked, because a checked cast refuses integers that a double rounds; copied, because
        # Arrow's memory is read-only
        kind = pa.int64() if part.integers else pa.float64()
        values = np.array(array.cast(kind, safe=False).to_numpy(zero_copy_only=False))
        finite = np.isfinite(values)
        if not finite.all():
            first = int(np.argmin(finite))
            raise part._bad(row + first, repr(float(values[first])), "not a finite number")
        return values
    found = []
    for place, value in enumerate(array.to_pylist(), row):
        whole = isinstance(value, float) and value.is_integer()
        exact = int(value) if whole else whole_number(value)
        if exact is None:
            raise part._bad(place, quote(value), "not an integer")
        found.append(exact)
    return _words(found)
