"""A client's report, a part for each party: created once, and stored before it is sent."""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from numpy.typing import ArrayLike

from ikos._validation import InvalidValue
from ikos.deployment.party_files import reason, write_new
from ikos.deployment.task import Window
from ikos.deployment.wire import ID_BYTES, decoded, encoded
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import secure
from ikos.transports.base import Reports

__all__ = ["ClientReport"]

ENTRIES_PER_PASS = 1 << 16
"""Number of coordinates of clients' values that are drawn together."""

_LABEL = b"ikos-parties 3 kept"
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}
"""Errors of file systems that cannot sync a folder."""

_NO_LINKS = {*_NO_SYNC, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP}
"""Errors of file systems without hard links, as exFAT, SMB and Android's."""


@dataclass(frozen=True, repr=False)
class ClientReport:
    """One client's report: a part for each party, the analyzer's first.

    The id is random, and the same at all parties, to find the complete reports.
    """

    id: bytes
    parts: tuple[bytes, ...]

    @classmethod
    def make(cls, window: Window, value: ArrayLike) -> ClientReport:
        """Return a report of a valid value."""
        return next(cls.make_many(window, [value]))  # type: ignore[arg-type]

    @classmethod
    def make_many(cls, window: Window, values: ArrayLike) -> Iterator[ClientReport]:
        """Yield a report for each value, as `make`; many are drawn together, for speed."""
        task, rng = window.task, secure(None)
        checked = task.values(values)
        entries = max(task.domain.dimension, task.transport.copies)
        for some in blocks(len(checked), max(1, ENTRIES_PER_PASS // entries)):
            reports = task.transport.reports(window, checked[some], rng)
            for user in range(len(reports.ids)):
                yield cls.of(window, reports.of(user))

    @classmethod
    def of(cls, window: Window, report: Reports) -> ClientReport:
        """Return the parts of one client's report as they are sent."""
        (number,) = report.ids
        return cls(number, window.task.transport.parts(window, report))

    @property
    def _digest(self) -> str:
        """SHA-256, to detect a damaged file, whose parts would count twice under another id."""
        return hashlib.sha256(b"".join((self.id, *self.parts))).hexdigest()

    def to_json(self, window: Window) -> str:
        """Return the report as text, for the client's own disk."""
        parts = [encoded(part) for part in self.parts]
        report = {"id": encoded(self.id), "parts": parts, "digest": self._digest}
        return json.dumps({"window": window.path, **report})

    @classmethod
    def from_json(cls, text: str, window: Window) -> ClientReport:
        """Return the report in a text; ValueError, which quotes none of it, if it is not one."""
        lengths = map(window.task.part_bytes, range(window.task.parties))
        try:
            values = json.loads(text)
            pairs = zip(values["parts"], lengths, strict=True)
            parts = tuple(decoded(part, length) for part, length in pairs)
            report = cls(decoded(values["id"], ID_BYTES), parts)
            if (values["window"], values["digest"]) != (window.path, report._digest):
                raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError("the stored file is not a valid report for this task") from None
        return report


class ReportStore:
    """A folder with the reports of a window's clients, one file each.

    So that no client ever makes a second report, a program that sends for a client looks here
    first, and a file stays after its report was sent. Its name is derived from the client's secret
    and the window, and reveals nothing of the secret. All methods raise ValueError if the folder
    cannot be read or written, or holds something else.
    """

    def __init__(self, path: Path | str, window: Window) -> None:
        if not Path(path).parts:  # probably an unset variable, not the current folder
            raise InvalidValue("store", "must name a folder, got ''")
        self._path = Path(path).absolute()
        self._window = window

    def of_window(self, window: Window) -> ReportStore:
        """Return the same folder with the reports of another window."""
        return ReportStore(self._path, window)

    def _place(self, secret: bytes, kind: str) -> Path:
        name = hmac.digest(secret, _LABEL + self._window.bound, "sha256")[:16].hex()
        return self._path / f"{name}.{kind}"

    def has(self, secret: bytes) -> bool:
        """Whether a client's report was begun."""
        with self._refused():
            return self._place(secret, "json").exists() or self.is_sent(secret)

    def is_sent(self, secret: bytes) -> bool:
        """Whether all parties have a client's report."""
        with self._refused():
            return self._place(secret, "sent").exists()

    def mark_sent(self, secret: bytes) -> None:
        """Record that all parties have a client's report."""
        with self._refused():
            _write(self._place(secret, "sent"), "")

    def of(self, secret: bytes) -> ClientReport | None:
        """Return a client's report, on disk on return; None if none was begun."""
        place = self._place(secret, "json")
        with self._refused():
            try:
                text = place.read_text(encoding="ascii", errors="replace")
            except FileNotFoundError:
                if self.is_sent(secret):
                    raise InvalidValue(
                        "store", f"must keep sent reports, but {str(place)!r} was deleted"
                    ) from None
                return None
            self._sync()  # the program that kept it may have ended before it was on disk
        try:
            return ClientReport.from_json(text, self._window)
        except ValueError as error:
            raise InvalidValue("store", f"must hold reports, got {str(place)!r}: {error}") from None

    def add(self, secret: bytes, report: ClientReport) -> ClientReport:
        """Keep a client's report before any of it is sent; it is on disk on return.

        If another program was faster, its report is returned, and is the one to be sent.
        """
        place = self._place(secret, "json")
        with self._refused():
            self._path.mkdir(mode=0o700, exist_ok=True)
            if not self.is_sent(secret) and _write(place, report.to_json(self._window)):
                self._sync()
                return report
        earlier = self.of(secret)
        if earlier is None:  # a dangling link, or deleted: a new report would be a second one
            missing = f"{str(place)!r} was deleted or is a broken link"
            raise InvalidValue("store", f"must keep its files, but {missing}")
        return earlier

    def _sync(self) -> None:
        """Sync the names of the files, and of the folder, to disk."""
        _sync(self._path)
        _sync(self._path.parent)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Refuse a store if the system fails."""
        try:
            yield
        except OSError as error:
            raise InvalidValue(
                "store",
                "must be a folder that can be read and written, "
                f"got {str(self._path)!r}: {reason(error)}",
            ) from None


def _write(path: Path, text: str) -> bool:
    """Write a whole new file to disk; False if it existed."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        write_new(part, text.encode())
        try:
            os.link(part, path)  # unlike renaming, this replaces nothing
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            part.unlink()  # there is room for one
            # replaces nothing either; what a crash leaves of it is refused, and was never sent
            write_new(path, text.encode())
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    return True


def _sync(folder: Path) -> None:
    """Sync the names in a folder to disk, if the system can."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except PermissionError:  # folders cannot be opened on Windows
        return
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _NO_SYNC:  # what may not be on disk must not be sent
            raise
    finally:
        os.close(number)
