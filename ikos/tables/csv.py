"""CSV files in blocks of rows, and the row and the line of whatever is not plainly a number."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain, islice
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from ikos._validation import quote
from ikos.concurrency import Progress
from ikos.tables.parts import ROWS, Part, Stamp, position, readable, shown, words

BLOCK = 1 << 14
CHUNK = 1 << 18
_SOUGHT = 1 << 8  # rows, of which a line is sought
CELLS = 1 << 20  # of a block, where rows are wide
LONGEST_LINE = 1 << 26
_BLANKS = " \t"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NUMBER_BYTES = b"0123456789+-.eE" + _BLANKS.encode()
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_DIGITS = 1000  # of an integer, at most


def check_delimiter(delimiter: str) -> None:
    """Refuse a delimiter that is not one character, or that numbers and lines are made of."""
    if not isinstance(delimiter, str):
        raise TypeError(f"delimiter must be a string, got {type(delimiter).__name__}")
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"+-._\r\n\0':
        raise ValueError(
            "delimiter must be one character that cannot be part of a number or end a line, "
            f"got {quote(delimiter)}"
        )


@dataclass(frozen=True)
class CsvPart(Part):
    """One CSV file, or a pipe with one; as it is, or compressed by gzip.

    Attributes
    ----------
    header : bool
        Whether its first line holds the names of the columns.
    delimiter : str
        The character between cells.
    """

    header: bool
    delimiter: str

    @property
    def weight(self) -> int:
        """Its bytes; 0 where they are not known."""
        return self.size

    @property
    def named(self) -> str:
        """The column as messages name it."""
        return super().named if self.header else f"column {int(self.column)}"

    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[Any]]:
        """Yield the numbers, as `Part.blocks` says."""
        with self.opened() as file:
            if not self.stored and file.peek(4)[:4] == b"PAR1":  # type: ignore[attr-defined]
                raise ValueError(
                    f"{self.where} is Parquet in a pipe, which cannot be read: store it first"
                )
            reader = _Csv(file, self, progress)
            reader.begin()
            held: list[NDArray[Any]] = []
            for values in reader.numbers():
                held.append(values)
                if sum(some.size for some in held) >= ROWS:
                    yield np.concatenate(held)
                    held = []
            if held:
                yield np.concatenate(held)
            if not self.header and reader.row == 1:
                raise ValueError(f"{self.where} is empty")

    def line(self, row: int) -> int | None:
        """Return where a row begins: it is found once more, in a file that is stored."""
        if not self.stored:
            return None
        with self.opened() as file:
            reader = _Csv(file, self)
            reader.begin()
            before = 0
            while block := reader.rows(_SOUGHT):
                if row <= before + len(block):
                    return reader.line + sum(map(_height, block[: row - before - 1]))
                before += len(block)
        return None


def csv_part(
    path: str,
    given: str,
    size: int,
    column: str | int,
    *,
    stamp: Stamp | None,
    header: bool,
    delimiter: str,
    integers: bool,
    show_values: bool,
) -> tuple[CsvPart, int]:
    """Return the part that a CSV file is, and its columns if it can be looked at; else 0.

    Parameters
    ----------
    path, given : str
        The file, and what the user calls it.
    size : int
        Its bytes, 0 if not known.
    column : str or int
        Name, or number without a header.
    stamp : Stamp or None
        As of `Part`.
    header, delimiter, integers, show_values
        As of `CsvPart`.
    """
    where = shown(given)
    part = CsvPart(
        path, where, column, 0, None, size, stamp, integers, show_values, header, delimiter
    )
    if not part.stored:
        return part, 0
    with readable(part.where), open(path, "rb") as file:
        reader = _Csv(file, part)
        reader.begin()
        if not header:
            reader.top()
        return part, reader.width


class _Csv:
    """One pass over a CSV file: it can be a pipe."""

    def __init__(self, file: BinaryIO, part: CsvPart, progress: Progress | None = None) -> None:
        self.raw = file
        self.file: BinaryIO | gzip.GzipFile = file
        self.part = part
        self.where = part.where
        self.delimiter = delimiter = part.delimiter
        self.begun = False
        self.progress = progress
        self.width = 0  # of every row; that of the first where there is no header
        blanks = _BLANKS.replace(delimiter, "").encode()
        self.starts_blank = tuple(b"\n" + blanks[i : i + 1] for i in range(len(blanks)))
        self.blank_line = re.compile(rb"^[" + blanks + rb"]+(?=\r?$)", re.MULTILINE)
        # Strict, because a lenient reader lets an unclosed quote swallow all rows after it.
        self.reader = csv.reader(
            chain.from_iterable(self.chunks()),
            delimiter=delimiter,
            strict=True,
            skipinitialspace=delimiter != " ",
        )
        self.line = 1  # where the next row, or the block that is being looked at, begins
        self.row = 1  # the next row's number

    def chunks(self) -> Iterator[Iterable[str]]:
        """Yield the lines as text, some at a time, those of blanks alone as empty."""
        lines = 0
        if self.raw.peek(2)[:2] == _GZIP:  # type: ignore[attr-defined]
            self.file = gzip.GzipFile(fileobj=self.raw)
        while pair := self.read():
            chunk, rest = pair
            if len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
                line = lines + 1 + chunk.count(b"\n")
                raise ValueError(f"{self.where}: line {line} is longer than 64 MiB")
            chunk += rest
            if not self.begun:
                self.refuse_other(chunk)
                chunk = chunk.removeprefix(_BOM)
            self.begun = True
            if b"\0" in chunk:
                line = lines + 1 + chunk.count(b"\n", 0, chunk.index(b"\0"))
                raise ValueError(f"{self.where} is not a text file: line {line} has a NUL byte")
            # The blanks of a blank line would make it a row with one empty cell, as "" does.
            if chunk.startswith((b" ", b"\t")) or any(map(chunk.__contains__, self.starts_blank)):
                chunk = self.blank_line.sub(b"", chunk)
            try:
                text = chunk.decode()
            except UnicodeDecodeError as error:
                line = lines + 1 + chunk.count(b"\n", 0, error.start)
                raise ValueError(f"{self.where} is not UTF-8 text: look at line {line}") from None
            lines += chunk.count(b"\n")
            yield io.StringIO(text, newline="\n")

    def read(self) -> tuple[bytes, bytes] | None:
        """Return the next bytes and the rest of their last line, or None at the end."""
        try:
            chunk = self.file.read(CHUNK)
            return (chunk, self.file.readline(LONGEST_LINE)) if chunk else None
        except (gzip.BadGzipFile, zlib.error, EOFError):
            raise ValueError(
                f"{self.where} is compressed by gzip, and it is damaged or not all there"
            ) from None

    def refuse_other(self, chunk: bytes) -> None:
        """Refuse files that are no UTF-8, and say how to make it of them."""
        if chunk.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError(
                f"{self.where} is UTF-16, not UTF-8 text: convert it, as with "
                "iconv -f UTF-16 -t UTF-8"
            )

    def rows(self, count: int) -> list[list[str]]:
        """Return the next rows, as many as there are up to a count."""
        block: list[list[str]] = []
        self.line = self.reader.line_num + 1
        try:
            block.extend(islice(self.reader, count))
        except csv.Error as error:
            last = self.reader.line_num
            raise ValueError(f"{self.where}, line {last}: {_csv_advice(str(error))}") from None
        if self.progress is not None and (size := self.part.size):
            self.progress(min(self.raw.tell(), size), size)
        return block

    def top(self) -> bool:
        """Read the first row for its width alone; return whether there is one."""
        first = self.rows(1)
        if first and first[0]:
            self.set_width(first[0])
        return bool(first)

    def begin(self) -> None:
        """Find the column."""
        column, show = self.part.column, self.part.show_values
        if not self.part.header:
            self.index = int(column) - 1
            return
        top = self.rows(1)
        if top == [[]]:
            raise ValueError(f"{self.where}: line 1 is blank where the header should be")
        if not top:
            raise ValueError(f"{self.where} is empty")
        names = [cell.strip() for cell in top[0]]
        self.width = len(names)
        name = str(column).strip()
        if self.width == 1 and name != names[0]:
            alone = f", {quote(names[0])}" if show else ""
            self.refuse_delimiter(names[0], f"no column {quote(name)}, but one other{alone}")
        self.index = position(self.where, names, name, _advice(names), show=show)

    def refuse_delimiter(self, cell: str, what: str) -> None:
        """Refuse a table of one column if it looks as if it had more, with another delimiter."""
        marks = [mark for mark in ";\t|," if mark in cell]
        if marks:
            raise ValueError(
                f"delimiter must be what stands between the columns, got {self.delimiter!r}: "
                f"{self.where} has {what}; are the columns separated by {marks[0]!r}?"
            )

    def set_width(self, first: Sequence[str]) -> None:
        """Take the first row's width for that of all rows, where there is no header."""
        self.width = width = len(first)
        if self.index >= width:
            if width == 1:
                cell = f", whose first cell is {quote(first[0])}" if self.part.show_values else ""
                self.refuse_delimiter(first[0], f"one column{cell}")
            raise ValueError(
                f"{self.where} has no column {self.index + 1}: "
                f"it has {width} column{'s' * (width > 1)}"
            )

    def numbers(self) -> Iterator[NDArray[Any]]:
        """Yield the column's numbers, block by block."""
        blank = 0  # line of the first blank one since the last row: fine at the end alone
        while block := self.rows(max(1, min(BLOCK, CELLS // self.width)) if self.width else 1):
            trailing = len(block)
            while trailing and not block[trailing - 1]:
                trailing -= 1
            if blank and trailing:
                self.line = blank
                self.refuse_blank()
            if not trailing:
                blank = blank or self.line
                continue
            if trailing < len(block):
                blank = self.reader.line_num - (len(block) - trailing) + 1
                del block[trailing:]
            if not self.width and block[0]:
                self.set_width(block[0])
            yield self.convert(block)
            self.row += len(block)

    def convert(self, block: list[list[str]]) -> NDArray[Any]:
        """Return a block's numbers, or refuse its first cell that is none.

        Python's float() and int() accept more than a decimal number: nan, inf, underscores, the
        digits and blanks of every script. All of these need a character that a decimal number has
        not, so that one look at the characters of the whole block makes it as strict as the
        pattern.
        """
        if set(map(len, block)) == {self.width}:
            cells = [row[self.index] for row in block]
            joined = "".join(cells)
            if joined.isascii() and not joined.encode().translate(None, _NUMBER_BYTES):
                values = _integers(cells) if self.part.integers else _doubles(cells)
                if values is not None:
                    return values
        for row in block:
            self.check(row)
            self.row += 1
            self.line += _height(row)
        raise AssertionError("a block was refused, and none of its cells")

    def check(self, row: list[str]) -> None:
        """Refuse a row that is not of the table's width, or whose cell is not a number."""
        if not row:
            self.refuse_blank()
        if len(row) != self.width:
            cells = f"{len(row)} cell{'s' * (len(row) > 1)}"
            self.refuse(f"has {cells}, not {self.width} as the lines before")
        cell = row[self.index].strip(_BLANKS)
        if not cell:
            self.refuse(f"has no value in {self.part.named}")
        if not _NUMBER.fullmatch(cell):
            advice = ""
            if self.width == 1 and (marks := [mark for mark in ";\t|" if mark in cell]):
                advice = f" (are the columns separated by {marks[0]!r}?)"
            elif self.row == 1 and not re.search(r"[0-9]", cell):
                advice = " (is the first line a header?)" if self.line == 1 else ""
            self.refuse_cell(cell, f"not a finite decimal number{advice}")
        if self.part.integers and _integer(cell) is None:
            self.refuse_cell(cell, f"not an integer of at most {_DIGITS:,} digits")
        if not self.part.integers and not np.isfinite(float(cell)):
            self.refuse_cell(cell, "beyond the largest double")

    def refuse(self, what: str) -> NoReturn:
        raise ValueError(f"{self.where}: row {self.row} (line {self.line}) {what}")

    def refuse_cell(self, cell: str, why: str) -> NoReturn:
        raise self.part.bad(self.row, self.line, quote(cell), why)

    def refuse_blank(self) -> NoReturn:
        self.refuse(
            f"is blank and has no value in {self.part.named}; only the last lines may be blank"
        )


def _doubles(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """Return the numbers that texts stand for, or None if one is not a finite one."""
    try:
        values = np.array(list(map(float, cells)), dtype=np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _integers(cells: Sequence[str]) -> NDArray[Any] | None:
    """Return the integers that texts stand for, exactly, or None if one is none."""
    try:
        return words(list(map(int, cells)))
    except ValueError:  # 3.0, or 3e2, or none at all
        found = [exact for cell in cells if (exact := _integer(cell)) is not None]
        return words(found) if len(found) == len(cells) else None


def _integer(cell: str) -> int | None:
    """Return the integer that a text stands for, if it has not too many digits to compute with."""
    try:
        value = Decimal(cell)
    except InvalidOperation:
        return None
    if value.adjusted() >= _DIGITS or value != value.to_integral_value():
        return None
    return int(value)


def _height(row: list[str]) -> int:
    """Return how many lines a row takes: quoted cells keep their line ends."""
    return 1 + sum(cell.count("\n") for cell in row)


def _csv_advice(message: str) -> str:
    if "unexpected end" in message:
        return 'the file ends inside a quoted cell; a closing " is missing'
    if "expected after" in message:
        return "a quoted cell goes on after its closing quote"
    if "field larger" in message:
        return 'a cell is longer than 131,072 characters; is a closing " missing?'
    if "new-line" in message:
        return "a carriage return stands alone; lines must end in LF or CRLF"
    return message


def _advice(names: Sequence[str]) -> str:
    """Return what may be wrong with a header that has not the column."""
    if all(_NUMBER.fullmatch(name) for name in names):
        return "; is the first line a row rather than a header?"
    return ""
