"""Pieces of table files, read in blocks: the formats, CSV and Parquet.

Skipping, guessing or coercing a cell would silently change a user's value, so a cell that is not
plainly a number is refused, with its file and row; so is a missing one, unless it was asked for.
All columns of a part are read in one pass. A new file format is a new entry of ``FORMATS``.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from itertools import chain, compress, islice
from typing import Any, BinaryIO
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from ikos._validation import NO_VALUE, NUMBER, InvalidValue, quote, text_of, whole_number
from ikos.data.domains import CategoryLabels

ROWS_PER_BLOCK = 1 << 17
"""Largest number of rows in a block: 1 MiB of doubles."""

ROWS_PER_PART = 1 << 20
"""Least number of rows in a part of a Parquet file, except the last; row groups are not split."""

_CSV_ROWS_PER_BLOCK = 1 << 14
_CSV_CELLS_PER_BLOCK = 1 << 20  # cells of CSV are Python strings
_BUFFER_BYTES = 1 << 20  # of a Parquet column read at a time

_MAX_CELL_CHARACTERS = 1 << 24  # of CSV
_FIELD_SIZE_LOCK = threading.Lock()  # while the limit of the csv module, which is global, is this
_NUMBER_CHARACTERS = b"0123456789+-.eE \t"  # of decimal numbers and the blanks around them
_MAX_DIGITS = 1000  # of an integer
_BLANK = "is blank; only the last lines may be"

Advice = Sequence[tuple[str, object, str]]

Look = Callable[[NDArray[Any], int], NDArray[Any]]
"""A function of a block of numbers and the number of the file's rows before it.

It returns a block of the same size, or raises `InvalidRow`."""

Block = tuple[NDArray[Any], ...]
"""Values of the same rows: an array for each column."""


class InvalidRow(ValueError):  # noqa: N818
    """Raised by a ``Look``: the refused ``row`` of its block and, unless it has no value, why."""

    def __init__(self, row: int, why: str | None = None) -> None:
        super().__init__(row, why)
        self.row, self.why = row, why


@dataclass(frozen=True)
class Notation:
    """How cells are written: those without a value, and numbers.

    Beside empty cells, and in columns of numbers `NO_VALUE`, those in ``na`` have no value: by
    their text, whatever the case, or if they are numbers, by their number. Such ``gaps`` are NaN or
    empty strings; without ``gaps``, they are refused. The other attributes are as for
    `open_column`.
    """

    gaps: bool = False
    na: frozenset[str | Decimal] = frozenset()
    thousands: str | None = None
    decimal: str = "."

    @classmethod
    def of(cls, gaps: bool, na: Sequence[str], thousands: str | None, decimal: str) -> Notation:
        """Return a notation with the keys of cells that have no value."""
        return cls(
            gaps, frozenset(CategoryLabels.key(one.casefold()) for one in na), thousands, decimal
        )

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as in programs."""
        return self.thousands is None and self.decimal == "."

    @property
    def codes(self) -> list[float]:
        """The numbers that mean no value."""
        return [float(one) for one in self.na if isinstance(one, Decimal)]

    def lacks(self, cell: str, *, text: bool) -> bool:
        """Whether a cell has no value."""
        word = cell.strip().casefold()
        return not word or (not text and word in NO_VALUE) or CategoryLabels.key(word) in self.na

    def plain(self, cells: Sequence[str]) -> Sequence[str]:
        """Return cells with numbers as in programs; what looks like one and is not is a ``?``."""
        if self.is_plain:
            return cells
        mark, point = re.escape(self.thousands or ""), re.escape(self.decimal)
        whole = rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+|[0-9]*" if mark else "[0-9]*"
        number = re.compile(rf"([+-]?)({whole})(?:{point}([0-9]*))?([eE][+-]?[0-9]+)?")

        def rewritten(cell: str) -> str:
            text = cell.strip(" \t")
            if text and (match := number.fullmatch(text)):
                sign, digits, fraction, power = match.groups(default="")
                digits = digits.replace(self.thousands, "") if self.thousands else digits
                return f"{sign}{digits}{'.' * bool(fraction)}{fraction}{power}" or "?"
            return "?" if NUMBER.fullmatch(text) else text

        return list(map(rewritten, cells))


@dataclass(frozen=True)
class Cells:
    """The cells of one column, by name or number: numbers, ``integers`` of any size, or ``texts``.

    The ``looks`` are called with each block that is read of them.
    """

    column: str | int
    integers: bool = False
    texts: bool = False
    looks: tuple[Look, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        """Return the column as errors name it."""
        return f"column {quote(self.column) if isinstance(self.column, str) else self.column}"


@dataclass(frozen=True)
class Part:
    """A CSV file, or the rows after the ``first`` in some row ``groups`` of a Parquet file.

    ``weight`` is its bytes of CSV or rows of Parquet. If it is ``stored``, not a pipe, it can be
    pickled, and read by any process that sees the same path. The other attributes are as
    for `open_column`.
    """

    path: str
    where: str  # the path in messages
    kind: str
    cells: tuple[Cells, ...]
    notation: Notation
    weight: int
    header: bool
    delimiter: str | None
    show_values: bool
    stored: bool
    width: int | None = None  # cells in a row, without a header
    groups: range | None = None
    first: int = 0

    @property
    def rows(self) -> int | None:
        """Number of rows; None for CSV, which does not state it."""
        return self.weight if FORMATS[self.kind].described else None

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the numbers as `Column.blocks` does."""
        for block, _ in self._read():
            yield block[0]

    def _read(self) -> Iterator[tuple[Block, int]]:
        """Yield the blocks, each with the amount of ``weight`` read so far."""
        before = self.first
        for block, done in FORMATS[self.kind].read(self):
            columns = zip(self.cells, block, strict=True)
            yield tuple(self._seen(cells, values, before) for cells, values in columns), done
            before += block[0].size

    def _seen(self, cells: Cells, values: NDArray[Any], before: int) -> NDArray[Any]:
        """Return what the looks make of a block of one column."""
        for look in cells.looks:
            try:
                values = look(values, before)
            except InvalidRow as bad:
                if bad.why is None:
                    raise self._missing(before + bad.row, cells) from None
                value = values[bad.row]
                exact = value if isinstance(value, str) else int(value)
                text = f"{value:.15g}" if isinstance(value, float) else quote(exact)
                raise self._bad(before + bad.row, cells, text, bad.why) from None
        return values

    def _refused(self, row: int, what: str, advice: Advice = ()) -> ValueError:
        return InvalidValue(None, f"{self.where}: row {row + 1} {what}", advice=advice)

    def _missing(self, row: int, cells: Cells) -> ValueError:
        gaps = not (self.notation.gaps or cells.integers)
        advice = [("gaps", True, "accepts such rows")] if gaps else []
        return self._refused(row, f"has no value in {cells}", advice)

    def _bad(self, row: int, cells: Cells, value: str, why: str, advice: Advice = ()) -> ValueError:
        """Return the error for a value, quoted only on request: errors end up in logs."""
        what = value if self.show_values else "a value"
        return self._refused(row, f"has {what} in {cells}, {why}", advice)

    def __getstate__(self) -> dict[str, Any]:
        if not self.stored:
            raise TypeError(f"{self.where} is a pipe, which no other process can read: store it")
        return self.__dict__


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn errors of the system into a one-line error."""
    try:
        yield
    except (OSError, zlib.error, EOFError) as error:  # the last two of damaged compressed files
        # only the system's description: the text of other errors may quote the file's content
        reason = getattr(error, "strerror", None) or "damaged or incomplete gzip data"
        raise ValueError(f"cannot read {where}: {reason.lower()}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{where} is not UTF-8 text") from None


def _position(part: Part, cells: Cells, names: Sequence[str], advice: Advice = ()) -> int:
    """Return the position of a column, or refuse it and list the others if they may be shown."""
    name = str(cells.column)
    places = [place for place, other in enumerate(names) if _composed(other) == _composed(name)]
    if len(places) == 1:
        return places[0]
    if places:
        raise ValueError(f"{part.where} has {len(places)} columns named {quote(name)}")
    listed = _columns(len(names))
    if part.show_values or FORMATS[part.kind].described:  # never a data row
        listed += f": {', '.join(map(quote, names[:20]))}"
    else:
        advice = [*advice, ("show_values", True, "lists them")]
    what = f"{part.where} has no column {quote(name)}; it has {listed}"
    raise InvalidValue(None, what, advice=advice)


def _columns(number: int) -> str:
    return f"{number} column{'s' * (number != 1)}"


def _composed(text: str) -> str:
    """Return a name without surrounding blanks and with one code for each accented letter."""
    return normalize("NFC", text.strip())


def _changed(part: Part) -> ValueError:
    return ValueError(f"{part.where} was changed while it was being read")


# CSV


@contextmanager
def _csv_table(part: Part) -> Iterator[tuple[BinaryIO, Iterator[list[str]], list[int], int]]:
    """Yield an open CSV file, its rows, the columns' positions in them, and their width."""
    mark = part.delimiter or ","
    with readable(part.where), open(part.path, "rb") as file:
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
                places = [_position(part, cells, names, advice) for cells in part.cells]
                yield file, reader, places, len(top)
                return
            places = [int(cells.column) - 1 for cells in part.cells]
            if (last := max(places)) >= len(top):
                what = f"{part.where} has no column {last + 1}; it has {_columns(len(top))}"
                raise InvalidValue(None, what, advice=advice)
            if part.delimiter is None and advice and len(top) > 1:  # 3,5;2 is not 3
                raise InvalidValue("delimiter", f"must be given for {part.where}", advice=advice)
            yield file, chain([top], reader), places, len(top)
        except csv.Error as error:
            why = str(error)
            if why.startswith("new-line"):  # whether it ends a row is not known
                why = "a carriage return (CR) is inside a line; lines must end with LF or CRLF"
            raise ValueError(f"{part.where} is not valid CSV: {why}") from None


def _csv_rows(reader: Iterator[list[str]], count: int) -> list[list[str]]:
    """Return the next rows, at most ``count``, with cells as long as they are."""
    with _FIELD_SIZE_LOCK:
        before = csv.field_size_limit(_MAX_CELL_CHARACTERS)
        try:
            return list(islice(reader, count))
        finally:
            csv.field_size_limit(before)


def _advice(cells: Sequence[str]) -> Advice:
    """Return advice on another delimiter that the cells may have."""
    delimiter = next((mark for mark in ";\t|" if any(mark in cell for cell in cells)), None)
    return [("delimiter", delimiter, "if that separates cells")] if delimiter else []


def _csv_parts(part: Part) -> Iterator[Part]:
    with _csv_table(part) as (*_, width):
        yield part if part.header else replace(part, width=width)


def _csv_blocks(part: Part) -> Iterator[tuple[Block, int]]:
    """Yield the values of a CSV file, and the bytes read so far."""
    with _csv_table(part) as (file, reader, places, width):

        def check_size() -> None:
            if part.stored and os.fstat(file.fileno()).st_size != part.weight:
                raise _changed(part)  # it may have other rows

        check_size()
        row = blank = 0
        while block := _csv_rows(
            reader, max(1, min(_CSV_ROWS_PER_BLOCK, _CSV_CELLS_PER_BLOCK // width))
        ):
            whole = len(block)
            while block and not block[-1]:  # empty lines are allowed at the end only
                block.pop()
            if block and blank:
                raise part._refused(row, _BLANK)
            if block:
                done = file.tell() if part.stored else 0
                yield _csv_block(part, block, row, places, width), done
                row += len(block)
            blank += whole - len(block)
        check_size()


def _csv_block(
    part: Part, block: list[list[str]], row: int, places: Sequence[int], width: int
) -> Block:
    """Return the values of a block of rows, or refuse the first cell that is not one."""
    columns = list(zip(part.cells, places, strict=True))
    if set(map(len, block)) == {width}:
        found = [
            _csv_values(part.notation, cells, [line[place] for line in block])
            for cells, place in columns
        ]
        values = tuple(one for one in found if one is not None)
        if len(values) == len(found):
            return values
    for number, line in enumerate(block, row):
        if not line:
            raise part._refused(number, _BLANK)
        if len(line) != width:
            has = f"has {len(line)} cell{'s' * (len(line) != 1)}, not {width} as the first line"
            raise part._refused(number, has)
        for cells, place in columns:
            _check_cell(part, cells, number, line[place])
    raise AssertionError("a block was refused, and none of its cells")


def _csv_values(notation: Notation, cells: Cells, column: Sequence[str]) -> NDArray[Any] | None:
    """Return the values of a column's cells, or None if one is refused."""
    convert, _ = _converter(cells)
    column = column if cells.texts else notation.plain(column)
    if not notation.na and (values := convert(column)) is not None:
        return values
    lacks = {cell: notation.lacks(cell, text=cells.texts) for cell in set(column)}
    there = np.array([not lacks[cell] for cell in column])
    if not (notation.gaps or there.all()):
        return None
    some = convert(list(compress(column, there)))
    if some is None or there.all():
        return some
    values = np.full(there.size, "" if cells.texts else math.nan, dtype=some.dtype)
    values[there] = some
    return values


def _check_cell(part: Part, cells: Cells, row: int, cell: str) -> None:
    """Refuse a cell that is not plainly a value."""
    if _csv_values(part.notation, cells, [cell]) is not None:
        return
    text = cell if cells.texts else part.notation.plain([cell])[0]
    if part.notation.lacks(text, text=cells.texts):
        raise part._missing(row, cells)
    advice = _advice([cell])
    if not advice and "," in cell and part.notation.is_plain:
        advice = [
            ("thousands", ",", "if commas separate thousands"),
            ("decimal", ",", "if they are decimal points"),
        ]
    raise part._bad(row, cells, quote(cell.strip()), f"not {_converter(cells)[1]}", advice)


def _converter(cells: Cells) -> tuple[Callable[[Sequence[str]], NDArray[Any] | None], str]:
    """Return a function that converts cells, all or none, and the description of a valid cell."""
    if cells.texts:
        return _strings, "a string"
    if cells.integers:
        return _integers, f"an integer of at most {_MAX_DIGITS:,} digits"
    return _doubles, "a finite decimal number that a double holds"


def _strings(cells: Sequence[str]) -> NDArray[Any] | None:
    """Return cells without surrounding blanks, or None if one is empty."""
    strings = [cell.strip() for cell in cells]
    return np.array(strings, dtype=object) if all(strings) else None


def _are_plain(cells: Sequence[str]) -> bool:
    """Whether all characters are those of decimal numbers.

    Python's float() and int() accept more than decimal numbers: nan, inf, underscores, and digits
    and blanks of every script. All of these contain a character that no decimal number has, so one
    check of the characters of a whole block is as strict as a pattern for each cell.
    """
    joined = "".join(cells)
    return joined.isascii() and not joined.encode().translate(None, _NUMBER_CHARACTERS)


def _doubles(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """Return cells as doubles, or None if one is not a finite decimal number in their range."""
    if not _are_plain(cells):
        return None
    try:
        values = np.array(list(map(float, cells)), dtype=np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _integers(cells: Sequence[str]) -> NDArray[Any] | None:
    """Return cells as integers, exactly, or None if one is not an integer."""
    if not _are_plain(cells):
        return None
    try:
        return _words(list(map(int, cells)))
    except ValueError:  # 3.0, 3e2, or not a number
        pass
    try:
        values = list(map(Decimal, cells))
    except InvalidOperation:
        return None
    whole = all(x.adjusted() < _MAX_DIGITS and x == x.to_integral_value() for x in values)
    return _words(list(map(int, values))) if whole else None


def _words(integers: Sequence[int]) -> NDArray[Any]:
    """Return integers as an array of int64, or of objects if some are longer."""
    try:
        return np.array(integers, dtype=np.int64)
    except OverflowError:
        return np.array(integers, dtype=object)


# Parquet


@contextmanager
def _parquet_table(part: Part) -> Iterator[tuple[Any, Any, list[str]]]:
    """Yield pyarrow, an open Parquet file, and the columns' names in it, after checking them."""
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
                file, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
            )
            schema = table.schema_arrow
            columns = [schema.field(_position(part, cells, schema.names)) for cells in part.cells]
            for cells, column in zip(part.cells, columns, strict=True):
                _check_parquet_type(part, cells, column.type, pa)
            yield pa, table, [column.name for column in columns]
    except (pa.ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
        kind = type(error).__name__  # not its text, which may quote the file's content
        raise ValueError(f"{part.where} is not a readable Parquet file ({kind})") from None


def _check_parquet_type(part: Part, cells: Cells, kind: Any, pa: Any) -> None:
    """Refuse a column of another type."""
    known = pa.types
    kind = kind.value_type if known.is_dictionary(kind) else kind
    taken, what = [known.is_integer, known.is_floating, known.is_decimal], "numbers"
    taken += [known.is_null]  # in which every row has no value
    if cells.texts:  # others, such as bytes, would be read in Python's notation
        taken += [known.is_string, known.is_large_string, known.is_boolean, known.is_date]
        taken += [getattr(known, "is_string_view", known.is_string)]  # from Arrow 16 on
        what = "strings or numbers"
    if not any(of(kind) for of in taken):
        raise ValueError(f"{part.where}: {cells} holds {kind}, not {what}")


def _parquet_parts(part: Part) -> Iterator[Part]:
    """Yield runs of row groups of at least `ROWS_PER_PART` rows."""
    with _parquet_table(part) as (_, table, _name):
        metadata = table.metadata
        counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    start = first = rows = 0
    for number, count in enumerate(counts, 1):
        rows += count
        if rows and (rows >= ROWS_PER_PART or number == len(counts)):
            yield replace(part, weight=rows, groups=range(start, number), first=first)
            start, first, rows = number, first + rows, 0


def _parquet_blocks(part: Part) -> Iterator[tuple[Block, int]]:
    """Yield the values of some row groups, and the rows read so far."""
    assert part.groups is not None
    with _parquet_table(part) as (pa, table, names):
        done, wanted = 0, [*dict.fromkeys(names)]
        for batch in table.iter_batches(ROWS_PER_BLOCK, row_groups=[*part.groups], columns=wanted):
            # not the first column: of "a.b" there may be a field b in a column a, too
            arrays = [batch.column(batch.schema.names.index(name)) for name in names]
            columns = zip(part.cells, arrays, strict=True)
            row = part.first + done
            values = tuple(_parquet_values(part, cells, one, pa, row) for cells, one in columns)
            done += values[0].size
            yield values, done
        if done != part.weight:
            raise _changed(part)


def _parquet_values(part: Part, cells: Cells, array: Any, pa: Any, row: int) -> NDArray[Any]:
    """Return the values of a batch, or refuse the first cell that is not one."""
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    notation = part.notation
    if cells.texts:
        strings = list(map(text_of, array.to_pylist()))
        lacks = {text: notation.lacks(text, text=True) for text in set(strings)}
        values = np.array(["" if lacks[text] else text for text in strings], dtype=object)
        if not notation.gaps and "" in values:
            raise part._missing(row + values.tolist().index(""), cells)
        return values
    empty = array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if empty.any() and not notation.gaps:
        raise part._missing(row + int(np.argmax(empty)), cells)
    values = (
        _parquet_integers(part, cells, array.to_pylist(), row)
        if cells.integers and not pa.types.is_signed_integer(array.type)
        else _parquet_numbers(part, cells, array, pa, row)
    )
    if (coded := np.isin(values, notation.codes)).any():
        if not notation.gaps:
            raise part._missing(row + int(np.argmax(coded)), cells)
        values[coded] = math.nan
    return values


def _parquet_numbers(part: Part, cells: Cells, array: Any, pa: Any, row: int) -> NDArray[Any]:
    """Return cells as numbers, NaN where there is none, or refuse the first that is not finite."""
    # unchecked, because a checked cast refuses integers that a double rounds; copied, because
    # Arrow's memory is read-only
    kind = pa.int64() if cells.integers else pa.float64()
    if pa.types.is_decimal(array.type):  # of which Arrow does not take the nearest double
        array = array.cast(pa.string())
    values = np.array(array.cast(kind, safe=False).to_numpy(zero_copy_only=False))
    if (infinite := np.isinf(values)).any():
        first = int(np.argmax(infinite))
        raise part._bad(row + first, cells, repr(float(values[first])), "not a finite number")
    return values


def _parquet_integers(part: Part, cells: Cells, column: Sequence[Any], row: int) -> NDArray[Any]:
    """Return cells as integers, exactly, or refuse the first that is not an integer."""
    integers = []
    for number, cell in enumerate(column, row):
        value = whole_number(Decimal.from_float(cell) if isinstance(cell, float) else cell)
        if value is None:
            raise part._bad(number, cells, quote(cell), "not an integer")
        integers.append(value)
    return _words(integers)


@dataclass(frozen=True)
class Format:
    """A file format: how its files are recognized, split and read.

    ``split`` checks that a file has the columns, and yields its parts. ``read`` yields the values
    of a part in blocks of at most `ROWS_PER_BLOCK` rows, each with the amount of ``weight`` read so
    far, and refuses everything that is not plainly a value.
    """

    suffixes: tuple[str, ...]
    start: bytes  # of each file, if it is always the same
    described: bool  # files give the names of their columns, and their parts the number of rows
    split: Callable[[Part], Iterator[Part]]
    read: Callable[[Part], Iterator[tuple[Block, int]]]


FORMATS = {
    "parquet": Format((".parquet", ".pq"), b"PAR1", True, _parquet_parts, _parquet_blocks),
    "csv": Format((), b"", False, _csv_parts, _csv_blocks),  # all other files
}
"""All file formats."""
