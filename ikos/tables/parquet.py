"""Parquet files: runs of row groups, read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ikos._validation import quote, whole_number
from ikos.concurrency import Progress
from ikos.tables.parts import ROWS, Part, Stamp, position, readable, shown, words

RUN = 1 << 20
"""Rows of a part at least, if the file has them; row groups are not cut."""

_BUFFER = 1 << 20  # bytes of a column read at a time, however long its row group is


@dataclass(frozen=True)
class ParquetPart(Part):
    """A run of row groups of one Parquet file.

    Attributes
    ----------
    groups : range
        Their numbers.
    total : int
        Rows of the whole file.
    """

    groups: range
    total: int

    @property
    def weight(self) -> int:
        """Its rows."""
        assert self.rows is not None
        return self.rows

    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[Any]]:
        """Yield the numbers, as `Part.blocks` says."""
        assert self.rows is not None
        name = str(self.column)
        with self.opened() as file, _table(file, self.where, name) as (pa, table):
            counts = _counts(table)
            ends = sum(counts[: self.groups.start]), sum(counts[: self.groups.stop]), sum(counts)
            if ends != (self.first, self.first + self.rows, self.total):
                self.refuse_changed()
            done = 0
            batches = table.iter_batches(ROWS, row_groups=list(self.groups), columns=[name])
            for batch in batches:
                values = self._numbers(batch.column(0), pa, self.first + done)
                done += values.size
                yield values
                if progress is not None:
                    progress(done, self.rows)
            if done != self.rows:
                self.refuse_changed()

    def _numbers(self, part: Any, pa: Any, before: int) -> NDArray[Any]:
        """Return a batch's numbers, or refuse its first that is missing or none of these."""
        part = part.dictionary_decode() if pa.types.is_dictionary(part.type) else part
        if part.null_count:
            first = int(np.argmax(part.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"{self.where}: row {before + first + 1} has no value in {self.named}")
        if self.integers:
            return self._integers(part, pa, before)
        # Arrow's checked casts refuse integers that a double rounds; here, as for text, the
        # nearest double is what is meant. A copy, because Arrow's own memory cannot be written to.
        cast = part.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        values: NDArray[np.float64] = np.array(cast, dtype=np.float64)
        finite = np.isfinite(values)
        if not finite.all():
            first = int(np.argmin(finite))
            said = repr(float(values[first]))
            raise self.bad(before + first + 1, None, said, "not a finite number")
        return values

    def _integers(self, part: Any, pa: Any, before: int) -> NDArray[Any]:
        """Return a batch's integers exactly, whatever their type."""
        if pa.types.is_signed_integer(part.type):
            cast = part.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return np.array(cast, dtype=np.int64)
        found = []
        for place, value in enumerate(part.to_pylist()):
            whole = isinstance(value, float) and value.is_integer()
            exact = int(value) if whole else whole_number(value)
            if exact is None:
                raise self.bad(before + place + 1, None, quote(value), "not an integer")
            found.append(exact)
        return words(found)


def parquet_parts(
    path: str,
    given: str,
    size: int,
    column: str,
    *,
    stamp: Stamp,
    integers: bool,
    show_values: bool,
) -> Iterator[ParquetPart]:
    """Yield the parts of a file.

    Parameters
    ----------
    path, given : str
        The file, and what the user calls it.
    size : int
        Its bytes.
    column : str
        The name of the column.
    stamp, integers, show_values
        As of `Part`.
    """
    where = shown(given)
    with readable(where), open(path, "rb") as file, _table(file, where, column) as (_, table):
        counts = _counts(table)
        if sum(counts) != table.metadata.num_rows:
            raise ValueError(
                f"{where} is not a readable Parquet file: it says that it has "
                f"{table.metadata.num_rows:,} rows, its row groups have {sum(counts):,}"
            )
    start = first = rows = 0
    for number, count in enumerate(counts):
        rows += count
        if rows and (rows >= RUN or number == len(counts) - 1):
            groups = range(start, number + 1)
            options = integers, show_values
            yield ParquetPart(
                path, where, column, first, rows, size, stamp, *options, groups, sum(counts)
            )
            start, first, rows = number + 1, first + rows, 0


@contextmanager
def _table(file: BinaryIO, where: str, column: str) -> Iterator[tuple[Any, Any]]:
    """Give pyarrow and an open table that has the column, of numbers."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            f"{where} is a Parquet file, and reading one needs pyarrow: pip install 'ikos[parquet]'"
        ) from None
    try:
        # buffered, and not ahead, or a row group's column would be read as a whole
        table = pq.ParquetFile(
            file, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
        )
        field = table.schema_arrow.field(position(where, table.schema_arrow.names, column))
        target = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        _check_type(pa.types, f"{where}: column {quote(column)}", target)
        yield pa, table
    except (pa.ArrowException, OSError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{where} is not a readable Parquet file: {first.rstrip('.')}") from None


def _counts(table: Any) -> list[int]:
    """Return the rows of each row group."""
    metadata = table.metadata
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


def _check_type(types: Any, which: str, kind: Any) -> None:
    if types.is_boolean(kind):
        raise ValueError(
            f"{which} holds booleans, not numbers: store 0 and 1, with bounds 0 and 1, for a count"
        )
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        raise ValueError(f"{which} holds {quote(str(kind))}, not numbers")
