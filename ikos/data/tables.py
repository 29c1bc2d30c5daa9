"""One column of a table with a row per user: from CSV or Parquet, a file or a folder of files.

Skipping, guessing or coercing a cell would silently change a user's value, so a cell that is not
plainly a number is refused, with its file and row. A new file format is a new entry of ``FORMATS``.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from ikos._validation import (
    NO_VALUE,
    NUMBER,
    InvalidType,
    InvalidValue,
    flag,
    integer,
    quote,
    text_of,
    whole_number,
)
from ikos.primitives.concurrency import Progress

__all__ = ["Column", "InvalidRow", "Look", "Part", "open_column", "read_column"]

ROWS = 1 << 17
"""Largest number of rows in a block: 1 MiB of doubles."""

RUN = 1 << 20
"""Fewest rows in a part of a Parquet file, except the last; row groups are not split."""

_CSV_ROWS, _CELLS = 1 << 14, 1 << 20  # largest block of CSV, whose cells are Python strings
_BUFFER = 1 << 20  # bytes of a Parquet column read at a time
_VERSIONED = {"_delta_log": "Delta Lake", ".hoodie": "Hudi", "metadata/*.metadata.json": "Iceberg"}
"""What the folders of formats that keep deleted rows contain."""

_LONGEST = 1 << 24  # largest number of characters of a CSV cell
_LIMIT = threading.Lock()  # while the limit of the csv module, which is one for all, is this
_CHARACTERS = b"0123456789+-.eE \t"  # in such numbers and the blanks around them
_DIGITS = 1000  # largest number of digits of an integer
_BLANK = "is blank; only the last lines may be"

Advice = Sequence[tuple[str, object, str]]

Look = Callable[[NDArray[Any], int], NDArray[Any]]
"""Takes a block of numbers and the number of the file's rows before it; returns a block of the same
size, or raises `InvalidRow`."""


class InvalidRow(ValueError):  # noqa: N818
    """Raised by a ``Look``: the ``row`` of a number in its block and, unless it is missing, why."""

    def __init__(self, row: int, why: str | None = None) -> None:
        super().__init__(row, why)
        self.row, self.why = row, why


@dataclass(frozen=True)
class Part:
    """A CSV file, or the rows after the ``first`` in some row ``groups`` of a Parquet file.

    ``weight`` is its bytes of CSV or rows of Parquet, and ``stored`` says that it is no pipe: then
    it can be pickled, and read by any process that sees the same path. The other attributes are as
    for `open_column`.
    """

    path: str
    where: str  # the path as messages show it
    kind: str
    column: str | int
    weight: int
    header: bool
    delimiter: str | None
    integers: bool
    show_values: bool
    texts: bool
    stored: bool
    width: int | None = None  # cells in a row, without a header
    groups: range | None = None
    first: int = 0
    looks: tuple[Look, ...] = field(default=(), repr=False)

    @property
    def rows(self) -> int | None:
        """Number of rows; None for CSV, which does not say."""
        return self.weight if FORMATS[self.kind].described else None

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the numbers as `Column.blocks` does."""
        for block, _ in self._read():
            yield block

    def _read(self) -> Iterator[tuple[NDArray[Any], int]]:
        """Yield the blocks, each with the part of ``weight`` read so far."""
        before = self.first
        for block, done in FORMATS[self.kind].read(self):
            for look in self.looks:
                try:
                    block = look(block, before)
                except InvalidRow as bad:
                    if bad.why is None:
                        raise self._missing(before + bad.row) from None
                    value = block[bad.row]
                    exact = value if isinstance(value, str) else int(value)
                    text = f"{value:.15g}" if isinstance(value, float) else quote(exact)
                    raise self._bad(before + bad.row, text, bad.why) from None
            yield block, done
            before += block.size

    def _refused(self, row: int, what: str, advice: Advice = ()) -> ValueError:
        return InvalidValue(None, f"{self.where}: row {row + 1} {what}", advice=advice)

    def _missing(self, row: int) -> ValueError:
        return self._refused(row, f"has no value in {self._named}")

    def _bad(self, row: int, value: str, why: str, advice: Advice = ()) -> ValueError:
        """Return the error for a value, quoted only on request: errors end up in logs."""
        what = value if self.show_values else "a value"
        return self._refused(row, f"has {what} in {self._named}, {why}", advice)

    @property
    def _named(self) -> str:
        return f"column {quote(self.column) if self.header else int(self.column)}"

    def __getstate__(self) -> dict[str, Any]:
        if not self.stored:
            raise TypeError(f"{self.where} is a pipe, which no other process can read: store it")
        return self.__dict__


@dataclass(frozen=True)
class Column:
    """One column of a file, or of all files of a folder; not yet read."""

    where: str
    parts: tuple[Part, ...]  # in the order of the files' names and their rows

    @property
    def rows(self) -> int | None:
        """Number of rows; None if a file is CSV, which does not say."""
        known = [part.rows for part in self.parts if part.rows is not None]
        return sum(known) if len(known) == len(self.parts) else None

    def seen(self, look: Look) -> Column:
        """Return the column with a ``Look``, which is called where a block is read."""
        parts = (replace(part, looks=(*part.looks, look)) for part in self.parts)
        return Column(self.where, tuple(parts))

    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[Any]]:
        """Yield the numbers in blocks of at most 2^17, holding only a few blocks in memory.

        ``progress`` is called with the amounts done and in all, in bytes (CSV) or rows (Parquet).
        Each number is the finite double nearest to its text; with ``integers=True`` it is exact,
        as int64, or as Python integers where one is longer. Raises ValueError as `read_column`.
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
    r"""Open one column, of numbers unless ``texts``: check all headers, and read no values.

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
        take cells as they are, without surrounding blanks, as objects of type str.
    show_values : bool
        Let messages quote refused values and the names in the first line of CSV files, which may be
        a data row. By default they give a value's position, never the value.

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
    ...     [block.tolist() for block in open_column(path, "age").blocks()]
    [[31.0, 45.5]]
    """
    if flag("header", header):
        if not isinstance(column, str):
            raise InvalidType(
                "column", f"must be a name where there is a header, got {quote(column)}"
            )
    else:
        if isinstance(column, str) and not (column.isascii() and column.isdecimal()):
            raise InvalidValue("column", f"must be a number counted from 1, got {quote(column)}")
        column = integer("column", int(column) if isinstance(column, str) else column, low=1)
    if delimiter is not None and not re.fullmatch(r'[^\w"+.\r\n\0-]', delimiter):
        raise InvalidValue(
            "delimiter",
            "must be one character that cannot be part of a number or end a line, "
            f"got {quote(delimiter)}",
        )
    parts: list[Part] = []
    for name in _files_in(path):
        where = _shown(name)
        with _readable(where):
            real, size = _status(name)
            kind = "csv" if real is None else _kind(real)
        part = Part(
            real or name, where, kind, column, size, header, delimiter,
            flag("integers", integers), flag("show_values", show_values), texts, real is not None,
        )  # fmt: skip
        if FORMATS[kind].described and not (header and delimiter is None):
            name = "delimiter" if header else "header"
            raise InvalidValue(name, f"must be left out for {where}, which is no CSV file")
        parts += FORMATS[kind].split(part) if part.stored else [part]  # a pipe is read only once
    widths = {part.width: part.where for part in parts}
    if len(widths) > 1:
        (few, one), (many, other), *_ = widths.items()
        raise ValueError(f"{one} and {other} have {few} and {many} columns")
    if not parts:
        raise ValueError(f"{_shown(path)} has no rows")
    return Column(_shown(path), tuple(parts))


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


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """Turn errors of the system into a one-line error."""
    try:
        yield
    except (OSError, zlib.error, EOFError) as error:  # the last two of damaged compressed files
        # only what the system says: the text of other errors may quote the file's content
        reason = getattr(error, "strerror", None) or "damaged or incomplete gzip data"
        raise ValueError(f"cannot read {where}: {reason.lower()}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{where} is not UTF-8 text") from None


def _status(path: str) -> tuple[str | None, int]:
    """Return a file's path for any process, or None for a pipe, and its size in bytes."""
    found = os.stat(path)
    real = os.path.realpath(path)
    if not stat.S_ISREG(found.st_mode) or real.startswith(("/dev/", "/proc/")):
        return None, 0
    return (real if os.path.exists(real) else None), found.st_size


def _kind(path: str) -> str:
    """Return the format of a file."""
    with open(path, "rb") as file:
        start = file.read(8)
    for kind, one in FORMATS.items():
        if path.lower().endswith(one.suffixes) or (one.start and start.startswith(one.start)):
            return kind
    return "csv"


def _suffix(path: str) -> str:
    """Return a file's suffix, the same for all suffixes of a format."""
    suffix = Path(path).suffix.lower()
    return next((one.suffixes[0] for one in FORMATS.values() if suffix in one.suffixes), suffix)


def _files_in(path: str | os.PathLike[str]) -> list[str]:
    """Return a file, or the files of a folder and its subfolders, ordered by name."""
    if "\0" in os.fsdecode(path):
        raise InvalidValue("path", f"must hold no null character, got {quote(path)}")
    found = [os.fspath(path)]
    if folder := os.path.isdir(path):
        with _readable(_shown(path)):
            found = _listed(found[0], {_identity(found[0])})
    _refuse_versioned(found)
    if not folder:
        return found
    if not found:
        raise ValueError(f"{_shown(path)} is a folder without files")
    for name in found:
        if not os.path.isfile(name):
            raise ValueError(f"{_shown(name)} is in a folder of tables and is no file")
        if _suffix(name) != _suffix(found[0]):
            raise ValueError(
                f"{_shown(found[0])} and {_shown(name)} do not end alike: files of one folder are "
                "one table, and a copy would count its rows twice; move it elsewhere"
            )
    return found


def _identity(path: str) -> tuple[int, int]:
    """Return what all names of a file or folder have in common, also hard links."""
    with _readable(_shown(path)):
        found = os.stat(path)
    return found.st_dev, found.st_ino


def _listed(folder: str, seen: set[tuple[int, int]]) -> list[str]:
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.startswith((".", "_")):  # all programs that write such folders put no rows there
            continue
        if (one := _identity(path)) in seen:
            raise ValueError(f"{_shown(path)} is a link: its rows would count twice")
        seen.add(one)
        found += _listed(path, seen) if os.path.isdir(path) else [path]
    return found


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


def _position(part: Part, names: Sequence[str], advice: Advice = ()) -> int:
    """Return the position of the column, or refuse it and list the others if they may be shown."""
    name = str(part.column)
    found = [index for index, one in enumerate(names) if _composed(one) == _composed(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"{part.where} has {len(found)} columns named {quote(name)}")
    listed = f"{len(names)} column{'s' * (len(names) != 1)}"
    if part.show_values or FORMATS[part.kind].described:  # these names are never a data row
        listed += f": {', '.join(map(quote, names[:20]))}"
    else:
        advice = [("show_values", True, "lists them"), *advice]
    what = f"{part.where} has no column {quote(name)} among its {listed}"
    raise InvalidValue(None, what, advice=advice)


def _composed(text: str) -> str:
    """Return a name without surrounding blanks and with one code for each accented letter."""
    return normalize("NFC", text.strip())


def _changed(part: Part) -> ValueError:
    return ValueError(f"{part.where} was changed while it was being read")


# CSV


@contextmanager
def _csv_table(part: Part) -> Iterator[tuple[BinaryIO, Iterator[list[str]], int, int]]:
    """Yield an open CSV file, its rows, the column's position in them, and their width."""
    mark = part.delimiter or ","
    with _readable(part.where), open(part.path, "rb") as file:
        binary: Any = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="\n")
        # strict, because a lenient reader lets an unclosed quote swallow all rows after it
        reader = csv.reader(text, delimiter=mark, strict=True, skipinitialspace=mark != " ")
        try:
            top = next(iter(_csv_rows(reader, 1)), None)
            if not top:
                raise ValueError(f"{part.where} is empty, or its first line is")
            advice = _advice(top)
            if part.header:
                names = [name.strip() for name in top]
                yield file, reader, _position(part, names, advice), len(top)
                return
            if (place := int(part.column) - 1) >= len(top):
                what = f"{part.where} has no column {place + 1}: it has {len(top)}"
                raise InvalidValue(None, what, advice=advice)
            if part.delimiter is None and advice and len(top) > 1:  # 3,5;2 is not 3
                raise InvalidValue("delimiter", f"must be given for {part.where}", advice=advice)
            yield file, chain([top], reader), place, len(top)
        except csv.Error as error:
            why = str(error)
            if why.startswith("new-line"):  # whether it ends a row is not known
                why = "a carriage return (CR) is inside a line; lines must end with LF or CRLF"
            raise ValueError(f"{part.where} is not valid CSV: {why}") from None


def _csv_rows(reader: Iterator[list[str]], count: int) -> list[list[str]]:
    """Return the next rows, at most ``count``, with cells as long as they are."""
    with _LIMIT:
        before = csv.field_size_limit(_LONGEST)
        try:
            return list(islice(reader, count))
        finally:
            csv.field_size_limit(before)


def _advice(cells: Sequence[str]) -> Advice:
    """Return which other delimiter the cells may have."""
    found = next((mark for mark in ";\t|" if any(mark in cell for cell in cells)), None)
    return [("delimiter", found, "if that separates cells")] if found else []


def _csv_parts(part: Part) -> Iterator[Part]:
    with _csv_table(part) as (*_, width):
        yield part if part.header else replace(part, width=width)


def _csv_blocks(part: Part) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield the numbers of a CSV file, and the bytes read so far."""
    with _csv_table(part) as (file, reader, place, width):

        def check_size() -> None:
            if part.stored and os.fstat(file.fileno()).st_size != part.weight:
                raise _changed(part)  # it may have other rows

        check_size()
        row = blank = 0
        while block := _csv_rows(reader, max(1, min(_CSV_ROWS, _CELLS // width))):
            whole = len(block)
            while block and not block[-1]:  # empty lines are allowed at the end only
                block.pop()
            if block and blank:
                raise part._refused(row, _BLANK)
            if block:
                done = file.tell() if part.stored else 0
                yield _csv_numbers(part, block, row, place, width), done
                row += len(block)
            blank += whole - len(block)
        check_size()


def _csv_numbers(
    part: Part, block: list[list[str]], row: int, place: int, width: int
) -> NDArray[Any]:
    """Return the numbers of a block of rows, or refuse the first cell that is not a number.

    Python's float() and int() accept more than decimal numbers: nan, inf, underscores, and digits
    and blanks of every script. All of these contain a character that no decimal number has, so one
    check of the characters of the whole block is as strict as the pattern.
    """
    convert: Callable[[Sequence[str]], NDArray[Any] | None] = _doubles
    said = "not a finite decimal number that a double holds"
    if part.integers:
        convert, said = _integers, f"not an integer of at most {_DIGITS:,} digits"
    if set(map(len, block)) == {width}:
        cells = [cells[place] for cells in block]
        if part.texts and all(texts := [cell.strip() for cell in cells]):
            return np.array(texts, dtype=object)
        joined = "".join(cells)
        plain = joined.isascii() and not joined.encode().translate(None, _CHARACTERS)
        if not part.texts and plain and (values := convert(cells)) is not None:
            return values
    for number, cells in enumerate(block, row):
        if not cells:
            raise part._refused(number, _BLANK)
        if len(cells) != width:
            has = f"has {len(cells)} cell{'s' * (len(cells) != 1)}, not {width} as the first line"
            raise part._refused(number, has)
        cell = cells[place].strip(None if part.texts else " \t")
        if not cell or (not part.texts and cell.casefold() in NO_VALUE):
            raise part._missing(number)
        if not part.texts and (not NUMBER.fullmatch(cell) or convert([cell]) is None):
            raise part._bad(number, quote(cell), said, _advice([cell]))
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
    try:
        values = list(map(Decimal, cells))
    except InvalidOperation:
        return None
    whole = all(one.adjusted() < _DIGITS and one == one.to_integral_value() for one in values)
    return _words(list(map(int, values))) if whole else None


def _words(found: Sequence[int]) -> NDArray[Any]:
    """Return integers as an array of int64, or of objects if some are longer."""
    try:
        return np.array(found, dtype=np.int64)
    except OverflowError:
        return np.array(found, dtype=object)


# Parquet


@contextmanager
def _parquet_table(part: Part) -> Iterator[tuple[Any, Any, str]]:
    """Yield pyarrow, an open Parquet file, and the column's name in it, after checking it."""
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
            schema, known = table.schema_arrow, pa.types
            column = schema.field(_position(part, schema.names))
            kind = column.type.value_type if known.is_dictionary(column.type) else column.type
            taken, what = [known.is_integer, known.is_floating, known.is_decimal], "numbers"
            taken += [known.is_null]  # in which every row has no value
            if part.texts:  # of others, such as bytes, Python's notation would be no one's text
                taken += [known.is_string, known.is_large_string, known.is_boolean, known.is_date]
                taken += [getattr(known, "is_string_view", known.is_string)]  # from Arrow 16 on
                what = "texts or numbers"
            if not any(of(kind) for of in taken):
                raise ValueError(f"{part.where}: {part._named} holds {kind}, not {what}")
            yield pa, table, column.name
    except (pa.ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
        kind = type(error).__name__  # not its text, which may quote the file's content
        raise ValueError(f"{part.where} is not a readable Parquet file ({kind})") from None


def _parquet_parts(part: Part) -> Iterator[Part]:
    """Yield runs of row groups of at least `RUN` rows."""
    with _parquet_table(part) as (_, table, _name):
        metadata = table.metadata
        counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    start = first = rows = 0
    for number, count in enumerate(counts, 1):
        rows += count
        if rows and (rows >= RUN or number == len(counts)):
            yield replace(part, weight=rows, groups=range(start, number), first=first)
            start, first, rows = number, first + rows, 0


def _parquet_blocks(part: Part) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield the numbers of some row groups, and the rows read so far."""
    assert part.groups is not None
    with _parquet_table(part) as (pa, table, name):
        done = 0
        for batch in table.iter_batches(ROWS, row_groups=[*part.groups], columns=[name]):
            # not the first column: of "a.b" there may be a field b in a column a, too
            array = batch.column(batch.schema.names.index(name))
            values = _parquet_numbers(part, array, pa, part.first + done)
            done += values.size
            yield values, done
        if done != part.weight:
            raise _changed(part)


def _parquet_numbers(part: Part, array: Any, pa: Any, row: int) -> NDArray[Any]:
    """Return the numbers of a batch, or refuse the first cell that is missing or not a number."""
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    floats = pa.types.is_floating(array.type)
    if part.texts:
        cells = list(map(text_of, array.to_pylist()))
        if "" in cells:
            raise part._missing(row + cells.index(""))
        return np.array(cells, dtype=object)
    empty = array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if empty.any():
        raise part._missing(row + int(np.argmax(empty)))
    if not part.integers or pa.types.is_signed_integer(array.type):
        # unchecked, because a checked cast refuses integers that a double rounds; copied, because
        # Arrow's memory is read-only
        kind = pa.int64() if part.integers else pa.float64()
        if pa.types.is_decimal(array.type):  # of which Arrow does not take the nearest double
            array = array.cast(pa.string())
        values = np.array(array.cast(kind, safe=False).to_numpy(zero_copy_only=False))
        if not (finite := np.isfinite(values)).all():
            first = int(np.argmin(finite))
            raise part._bad(row + first, repr(float(values[first])), "not a finite number")
        return values
    cells = array.to_pylist()
    found = [whole_number(Decimal.from_float(one) if floats else one) for one in cells]
    if None in found:
        first = found.index(None)
        raise part._bad(row + first, quote(cells[first]), "not an integer")
    return _words([one for one in found if one is not None])


@dataclass(frozen=True)
class Format:
    """How files of one kind are recognized, split and read.

    ``split`` checks that a file has the column, and yields its parts. ``read`` yields the numbers
    of a part in blocks of at most `ROWS`, each with how much of ``weight`` was read so far, and
    refuses all that is not plainly a number.
    """

    suffixes: tuple[str, ...]
    start: bytes  # of each file, if it is always the same
    described: bool  # files give the names of their columns, and their parts the number of rows
    split: Callable[[Part], Iterator[Part]]
    read: Callable[[Part], Iterator[tuple[NDArray[Any], int]]]


FORMATS = {
    "parquet": Format((".parquet", ".pq"), b"PAR1", True, _parquet_parts, _parquet_blocks),
    "csv": Format((), b"", False, _csv_parts, _csv_blocks),  # whatever no other format claims
}
"""All file formats."""
