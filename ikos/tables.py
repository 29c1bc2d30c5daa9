"""One numeric column of a table, a row per user, from CSV or Parquet.

Strict on purpose: a cell that is skipped, guessed or coerced would be a user whose value changes
without anybody's knowledge. What is not plainly a number is refused, with the row and the line
where it stands.
"""

from __future__ import annotations

import csv
import difflib
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from ikos._validation import flag, integer, quote
from ikos.work import Progress

__all__ = ["check_delimiter", "read_column"]

BLOCK = 1 << 14
CHUNK = 1 << 18
_BLANKS = " \t"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NUMBER_BYTES = b"0123456789+-.eE" + _BLANKS.encode()
_BOM = b"\xef\xbb\xbf"


def read_column(
    path: str | os.PathLike[str],
    column: str | int,
    *,
    header: bool = True,
    delimiter: str = ",",
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    r"""Read one numeric column of a CSV or Parquet file.

    Parameters
    ----------
    path : str or path-like
        A Parquet file (recognized by its first bytes or its suffix, ``.parquet``), else a CSV
        file: UTF-8, with or without a byte order mark, quoted with ``"``.
    column : str or int
        Its name; without a header its number, counted from 1.
    header : bool
        Whether the first line of a CSV file holds the names of the columns.
    delimiter : str
        The character between the cells of a CSV file.
    progress : callable, optional
        Called with what is done and the whole, in bytes (CSV) or rows (Parquet).

    Returns
    -------
    (rows,) ndarray of float64
        Finite numbers, each the double nearest to what is written. At least one.

    Raises
    ------
    ValueError
        If the file cannot be read or is no such table, the column is not in it or its name is
        not unique, or a cell is missing, not a decimal number, or beyond the doubles. The message
        is one line. Blanks around cells are allowed and blank lines at the end are not rows;
        ``nan``, ``inf``, ``1_000``, hexadecimal and a blank line in the middle are refused.
    ImportError
        If a Parquet file is given and pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("name,age\nAnn,31\nBob, 45.5\n")
    ...     read_column(path, "age")
    array([31. , 45.5])
    """
    header = flag("header", header)
    _check_column(column, header)
    check_delimiter(delimiter)
    name = Path(path)
    try:
        with name.open("rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            if name.suffix.lower() in {".parquet", ".pq"} or file.peek(4)[:4] == b"PAR1":
                if not header:
                    raise ValueError(
                        f"{_shown(path)} is a Parquet file, whose columns have names: "
                        "give the column's name, not its number"
                    )
                return _read_parquet(file, _shown(path), str(column), progress)
            return _Csv(file, _shown(path), size, delimiter, progress).read(column, header)
    except OSError as error:
        raise ValueError(f"cannot read {_shown(path)}: {_reason(error)}") from None


def _shown(path: str | os.PathLike[str]) -> str:
    # Not `quote`: the end of a long path tells more than its beginning.
    text = repr(os.fspath(path))
    return text if len(text) <= 200 else f"'...{text[-196:]}"


def _reason(error: OSError) -> str:
    reasons: dict[type[OSError], str] = {
        FileNotFoundError: "there is no such file",
        IsADirectoryError: "it is a directory",
        PermissionError: "permission denied",
    }
    return reasons.get(type(error)) or (error.strerror or "input error").lower()


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


def check_delimiter(delimiter: str) -> None:
    """Refuse a delimiter that is not one character, or that numbers and lines are made of."""
    if not isinstance(delimiter, str):
        raise TypeError(f"delimiter must be a string, got {type(delimiter).__name__}")
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"+-._\r\n\0':
        raise ValueError(
            "delimiter must be one character that cannot be part of a number or end a line, "
            f"got {quote(delimiter)}"
        )


def _position(where: str, names: Sequence[str], column: str) -> int:
    """Return where the column of that name is, or say which there are."""
    found = [index for index, name in enumerate(names) if name == column]
    if len(found) == 1:
        return found[0]
    if found:
        places = ", ".join(str(index + 1) for index in found)
        raise ValueError(f"{where} has {len(found)} columns named {column!r}: {places}")
    close = difflib.get_close_matches(column.lower(), [name.lower() for name in names], 3, 0.6)
    meant = [name for name in names if name.lower() in close]
    listed = ", ".join(map(quote, names[:20])) + (", ..." if len(names) > 20 else "")
    advice = f"; did you mean {' or '.join(map(quote, meant[:3]))}?" if meant else ""
    if not meant and len(names) == 1:
        marks = [mark for mark in (";", "\t", "|", ",") if mark in names[0]]
        advice = f"; are the columns separated by {marks[0]!r}?" if marks else ""
    elif not meant and all(_NUMBER.fullmatch(name) for name in names):
        advice = "; is the first line a row rather than a header?"
    raise ValueError(f"{where} has no column {quote(column)}; its columns are {listed}{advice}")


class _Csv:
    """One pass over a CSV file: it can be a pipe."""

    def __init__(
        self, file: BinaryIO, where: str, size: int, delimiter: str, progress: Progress | None
    ) -> None:
        self.file = file
        self.where = where
        self.size = size
        self.bytes_done = 0
        self.progress = progress
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
        while chunk := self.file.read(CHUNK) + self.file.readline():
            if not self.bytes_done and chunk.startswith(_BOM):
                chunk = chunk[len(_BOM) :]
            self.bytes_done += len(chunk)
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
                raise ValueError(
                    f"{self.where} is not UTF-8 text: line {line} has the byte "
                    f"0x{chunk[error.start]:02x}"
                ) from None
            lines += chunk.count(b"\n")
            yield io.StringIO(text, newline="\n")

    def rows(self, count: int) -> list[list[str]]:
        """Return the next rows, as many as there are up to a count."""
        block: list[list[str]] = []
        self.line = self.reader.line_num + 1
        try:
            block.extend(islice(self.reader, count))
        except csv.Error as error:
            last = self.reader.line_num
            raise ValueError(f"{self.where}, line {last}: {_csv_advice(str(error))}") from None
        if self.progress is not None and self.size:
            self.progress(min(self.bytes_done, self.size), self.size)
        return block

    def read(self, column: str | int, header: bool) -> NDArray[np.float64]:
        if header:
            top = self.rows(1)
            if top == [[]]:
                raise ValueError(f"{self.where}: line 1 is blank where the header should be")
            if not top:
                raise ValueError(f"{self.where} is empty")
            names = [cell.strip() for cell in top[0]]
            self.width = len(names)
            self.index = _position(self.where, names, str(column).strip())
            self.name = f"column {quote(names[self.index])}"
        else:
            self.width = 0  # that of the first row
            self.index = int(column) - 1
            self.name = f"column {int(column)}"
        parts = list(self.numbers())
        if not parts:
            what = "has a header but no rows" if header else "is empty"
            raise ValueError(f"{self.where} {what}")
        return np.concatenate(parts)

    def numbers(self) -> Iterator[NDArray[np.float64]]:
        """Yield the column's numbers, block by block."""
        blank = 0  # line of the first blank one since the last row: fine at the end alone
        while block := self.rows(BLOCK):
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
                self.width = len(block[0])
                if self.index >= self.width:
                    raise ValueError(
                        f"{self.where} has no column {self.index + 1}: "
                        f"it has {self.width} column{'s' * (self.width > 1)}"
                    )
            yield self.convert(block)
            self.row += len(block)

    def convert(self, block: list[list[str]]) -> NDArray[np.float64]:
        """Return a block's numbers, or refuse its first cell that is none.

        Python's float() accepts more than a decimal number: nan, inf, underscores, the digits and
        blanks of every script. All of these need a character that a decimal number has not, so
        that one look at the characters of the whole block makes it as strict as the pattern.
        """
        if set(map(len, block)) == {self.width}:
            cells = [row[self.index] for row in block]
            joined = "".join(cells)
            if joined.isascii() and not joined.encode().translate(None, _NUMBER_BYTES):
                try:
                    values = np.array(list(map(float, cells)), dtype=np.float64)
                except ValueError:
                    pass
                else:
                    if np.isfinite(values).all():
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
            self.refuse(f"has no value in {self.name}")
        if not _NUMBER.fullmatch(cell):
            advice = ""
            if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", cell):
                advice = " (write a decimal point, not a comma)"
            elif self.row == 1 and not re.search(r"[0-9]", cell):
                advice = " (is the first line a header?)" if self.line == 1 else ""
            self.refuse(f"has {quote(cell)} in {self.name}, not a finite decimal number{advice}")
        if not np.isfinite(float(cell)):
            self.refuse(f"has {quote(cell)} in {self.name}, beyond the largest double")

    def refuse(self, what: str) -> NoReturn:
        raise ValueError(f"{self.where}: row {self.row} (line {self.line}) {what}")

    def refuse_blank(self) -> NoReturn:
        self.refuse(f"is blank and has no value in {self.name}; only the last lines may be blank")


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


def _read_parquet(
    file: BinaryIO, where: str, column: str, progress: Progress | None
) -> NDArray[np.float64]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            f"{where} is a Parquet file, and reading one needs pyarrow: pip install 'ikos[parquet]'"
        ) from None
    if not file.seekable():
        raise ValueError(f"{where} is Parquet in a pipe, which cannot be read: store it first")
    try:
        table = pq.ParquetFile(file, page_checksum_verification=True)
        field = table.schema_arrow.field(_position(where, table.schema_arrow.names, column))
        target = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        _check_type(pa.types, f"{where}: column {quote(column)}", target)
        total = table.metadata.num_rows
        if not total:
            raise ValueError(f"{where} has columns but no rows")
        values = np.empty(total, dtype=np.float64)
        done = 0
        for batch in table.iter_batches(1 << 16, columns=[column]):
            part = batch.column(0)
            part = part.dictionary_decode() if pa.types.is_dictionary(part.type) else part
            _fill(values[done : done + len(part)], part, pa, f"{where}: row", done, column)
            done += len(part)
            if progress is not None:
                progress(done, total)
    except (pa.ArrowException, OSError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{where} is not a readable Parquet file: {first.rstrip('.')}") from None
    return values


def _check_type(types: Any, which: str, kind: Any) -> None:
    if types.is_boolean(kind):
        raise ValueError(
            f"{which} holds booleans, not numbers: store 0 and 1, with bounds 0 and 1, for a count"
        )
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        raise ValueError(f"{which} holds {quote(str(kind))}, not numbers")


def _fill(out: NDArray[np.float64], part: Any, pa: Any, where: str, done: int, column: str) -> None:
    """Copy a batch's numbers, or refuse its first that is missing or not finite."""
    if part.null_count:
        first = int(np.argmax(part.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(f"{where} {done + first + 1} has no value in column {quote(column)}")
    # Arrow's checked casts refuse integers that a double rounds; here, as for text, the nearest
    # double is what is meant.
    out[:] = part.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    finite = np.isfinite(out)
    if not finite.all():
        first = int(np.argmin(finite))
        raise ValueError(
            f"{where} {done + first + 1} has {float(out[first])!r} in column {quote(column)}, "
            "not a finite number"
        )
