"""Parts of a column: what can be read by itself, here or by another process."""

from __future__ import annotations

import difflib
import os
import platform
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from ikos._validation import quote
from ikos.concurrency import Progress

ROWS = 1 << 17
"""Rows of a block, about: 1 MiB of doubles."""

Look = Callable[[NDArray[Any], int], NDArray[Any]]
"""Takes numbers, and how many rows of the file come before; returns as many numbers, or refuses one
of these by `BadRow`."""


class BadRow(ValueError):  # noqa: N818
    """What a `Look` refuses: it is said with the file, the column and the line, if there are lines.

    Parameters
    ----------
    place : int
        Of the number in the block.
    why : str
        The rest of the message.
    """

    def __init__(self, place: int, why: str) -> None:
        super().__init__(why)
        self.place = place
        self.why = why


_ELSEWHERE = ("/dev/", "/proc/")  # names that mean another file in another process


@dataclass(frozen=True)
class Stamp:
    """What tells whether a file is still the one that was opened, besides its size.

    Attributes
    ----------
    written : int
        When it was last written, in nanoseconds since 1970, as finely as its file system says.
    opened : int
        When it was looked at, by the clock of the machine that did.
    machine : str
        That machine's name.
    inode : int or None
        Its number there. None once this was pickled: another process may see another number.
    """

    written: int
    opened: int = field(compare=False)
    machine: str = field(compare=False)
    inode: int | None = field(compare=False)

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        """Return the stamp of a file of which the system has just said this."""
        return cls(found.st_mtime_ns, time.time_ns(), platform.node(), found.st_ino)

    def differs(self, found: os.stat_result) -> bool:
        """Return whether what is found under the same path is another file, or was rewritten.

        On the machine that opened it, any other time of writing says so. On another one the path
        may lead to a copy, with the time of copying: there, only a time after the opening does.
        """
        if self.inode not in (None, found.st_ino):
            return True
        if found.st_mtime_ns == self.written:
            return False
        here = self.machine == platform.node()
        return here or found.st_mtime_ns > max(self.written, self.opened)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "inode": None}


@dataclass(frozen=True)
class Part(ABC):
    """One CSV file, or a run of row groups of one Parquet file.

    It is a description and holds no open file. It can be pickled, and read by another process that
    sees the same path; a pipe cannot.

    Attributes
    ----------
    path : str
        The file, with all links resolved.
    where : str
        The file as messages show it.
    column : str or int
        As it was asked for.
    first : int
        Rows of the file before this part.
    rows : int or None
        Rows of this part, if that is known without reading it.
    size : int
        Bytes of the file; 0 for a pipe.
    stamp : a stamp, or None
        What else it is known by; None if it cannot be read again, anywhere.
    integers, show_values : bool
        As for `ikos.tables.open_column`.
    """

    path: str
    where: str
    column: str | int
    first: int
    rows: int | None
    size: int
    stamp: Stamp | None
    integers: bool
    show_values: bool

    @property
    def stored(self) -> bool:
        """Whether it is a file that can be read again, anywhere."""
        return self.stamp is not None

    @property
    @abstractmethod
    def weight(self) -> int:
        """What `blocks` counts to when it tells its progress."""

    @abstractmethod
    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[Any]]:
        """Yield the numbers, about `ROWS` at a time.

        Parameters
        ----------
        progress : callable, optional
            Called with what is done and the whole, `weight`.

        Raises
        ------
        ValueError
            As `ikos.tables.open_column` and `ikos.tables.read_column` do, and if the file is no
            longer the one that was opened first.
        """

    @property
    def named(self) -> str:
        """The column as messages name it."""
        return f"column {quote(self.column)}"

    def bad(self, row: int, line: int | None, value: str, why: str) -> ValueError:
        """Return the error for a value: it says where and why, and what only if that is asked for.

        Errors end up in logs, where people's values must not.
        """
        place = "" if line is None else f" (line {line})"
        what = value if self.show_values else "a value"
        return ValueError(f"{self.where}: row {row}{place} has {what} in {self.named}, {why}")

    def line(self, row: int) -> int | None:  # noqa: ARG002
        """Return where a row of the file begins, if it has lines and can be read again."""
        return None

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the file, and make sure that it is the one it was, and is until it is closed."""
        with readable(self.where), open(self.path, "rb") as file:
            if self.stamp is None:
                yield file
                return
            before = os.fstat(file.fileno())
            if before.st_size != self.size or self.stamp.differs(before):
                self.refuse_changed()
            yield file
            after = os.fstat(file.fileno())
            if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                self.refuse_changed()

    def refuse_changed(self) -> NoReturn:
        """Say that the rows that were counted, or half of them, are not those that are there."""
        raise ValueError(f"{self.where} was changed while it was being read")

    def __getstate__(self) -> dict[str, Any]:
        if not self.stored:
            raise TypeError(f"{self.where} is a pipe, which no other process can read: store it")
        return self.__dict__


@dataclass(frozen=True)
class SeenPart(Part):
    """A part whose numbers somebody looks at, wherever they are read.

    Attributes
    ----------
    part : Part
        Where they come from.
    look : callable
        What is done with each block.
    """

    part: Part
    look: Look

    @property
    def weight(self) -> int:
        """As of the part."""
        return self.part.weight

    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[Any]]:
        """Yield the numbers, as `Part.blocks` says."""
        before = self.first
        for block in self.part.blocks(progress):
            try:
                seen = self.look(block, before)
            except BadRow as bad:
                row, value = before + bad.place + 1, block[bad.place]
                text = f"{value:.15g}" if isinstance(value, float) else quote(int(value))
                raise self.part.bad(row, self.part.line(row), text, bad.why) from None
            yield seen
            before += block.size

    @property
    def named(self) -> str:
        """As of the part."""
        return self.part.named

    def line(self, row: int) -> int | None:
        """As of the part."""
        return self.part.line(row)


def shown(path: str | os.PathLike[str]) -> str:
    """Return a path for messages; the end of a long one tells more than its beginning."""
    if os.fspath(path) == "/dev/stdin":
        return "standard input"
    text = repr(os.fspath(path))
    return text if len(text) <= 200 else f"'...{text[-196:]}"


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Say in one line what the system says."""
    reasons: dict[type[OSError], str] = {
        FileNotFoundError: "there is no such file",
        IsADirectoryError: "it is a directory",
        PermissionError: "permission denied",
    }
    try:
        yield
    except OSError as error:
        reason = reasons.get(type(error)) or (error.strerror or "input error").lower()
        raise ValueError(f"cannot read {where}: {reason}") from None


def status(path: str | os.PathLike[str]) -> tuple[str, int, Stamp | None]:
    """Return where another process finds a file, its bytes, and its stamp if it finds it at all."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        return os.fspath(path), 0, None
    real = os.path.realpath(path)
    if real.startswith(_ELSEWHERE) or not os.path.exists(real):
        return os.fspath(path), found.st_size, None
    return real, found.st_size, Stamp.of(found)


def words(found: Sequence[int]) -> NDArray[Any]:
    """Return integers as an array: of 64 bits each, or of objects where some are longer."""
    try:
        return np.array(found, dtype=np.int64)
    except OverflowError:
        return np.array(found, dtype=object)


def position(
    where: str, names: Sequence[str], column: str, advice: str = "", *, show: bool = True
) -> int:
    """Return where the column of that name is, or say which there are, if they may be shown."""
    found = [index for index, name in enumerate(names) if name == column]
    if len(found) == 1:
        return found[0]
    if found:
        places = ", ".join(str(index + 1) for index in found)
        raise ValueError(f"{where} has {len(found)} columns named {column!r}: {places}")
    if not show:
        count = f"{len(names)} column{'s' * (len(names) > 1)}"
        raise ValueError(
            f"{where} has no column {quote(column)} among its {count}{advice}; show_values=True "
            "lists them"
        )
    close = difflib.get_close_matches(column.lower(), [name.lower() for name in names], 3, 0.6)
    meant = [name for name in names if name.lower() in close]
    listed = ", ".join(map(quote, names[:20])) + (", ..." if len(names) > 20 else "")
    if meant:
        advice = f"; did you mean {' or '.join(map(quote, meant[:3]))}?"
    raise ValueError(f"{where} has no column {quote(column)}; its columns are {listed}{advice}")
