"""The reports that clients made, kept on disk before anything of them is sent.

So that no client ever makes a second report, a program that sends for a client looks here first,
under a name that only the client's secret and the task determine.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
from collections.abc import Iterator
from pathlib import Path

from ikos.deployment.party_files import reason, write_new
from ikos.deployment.reports import ClientReport
from ikos.deployment.task import Task

_LABEL = b"ikos-parties 1 kept"
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}
"""Errors of file systems that have no links, or cannot sync a folder."""


class ReportStore:
    """A folder with the reports of clients of a task, a file for each.

    A file stays when its report was sent: were it gone, another program could make a second one.
    Its name is derived from the secret and reveals nothing of it. The folder is made when the first
    report is, and may hold reports of other tasks. All methods raise ValueError where it cannot be
    read or written, or holds something else.
    """

    def __init__(self, path: Path | str, task: Task) -> None:
        if path == "":  # a variable that is not set rather than the current folder
            raise ValueError("store must name a folder, got ''")
        self._path = Path(path).absolute()
        self._task = task
        self._named = False
        with _refused("a folder", path):
            if self._path.exists() and not self._path.is_dir():
                raise NotADirectoryError(None, "it is a file")

    def _place(self, secret: bytes, kind: str) -> Path:
        name = hmac.digest(secret, _LABEL + self._task.id, "sha256")[:16].hex()
        return self._path / f"{name}.{kind}"

    def _exists(self, secret: bytes, kind: str) -> bool:
        with _refused("a folder that can be read", self._path):
            return self._place(secret, kind).exists()

    def has(self, secret: bytes) -> bool:
        """Whether a client's report was begun."""
        return self._exists(secret, "json") or self.is_sent(secret)

    def of(self, secret: bytes) -> ClientReport | None:
        """Return a client's report, on disk when this returns; None if none was begun."""
        place = self._place(secret, "json")
        found = _read(place, self._task)
        if found is not None:
            self._sync()  # the program that kept it may have ended before it was on disk
        elif self.is_sent(secret):
            raise ValueError(f"store must keep what was sent, and {str(place)!r} is gone")
        return found

    def add(self, secret: bytes, made: ClientReport) -> ClientReport | None:
        """Keep a client's report, of which nothing was sent; it is on disk when this returns.

        If another program was faster, its report is returned, which is the one to be sent.
        """
        with _refused("a folder that can be written", self._path):
            self._path.mkdir(mode=0o700, exist_ok=True)
        place = self._place(secret, "json")
        if not self.is_sent(secret) and _write(place, made.to_json(self._task)):
            self._sync()
            return None
        found = self.of(secret)
        if found is None:  # a link to nowhere, or gone again: a new one would be a second one
            raise ValueError(f"store must have files that stay, got {str(place)!r}")
        return found

    def _sync(self) -> None:
        """Put the names on disk: of the files, and once of the folder."""
        _sync(self._path)
        if not self._named:
            _sync(self._path.parent)
            self._named = True

    def is_sent(self, secret: bytes) -> bool:
        """Whether all parties have a client's report."""
        return self._exists(secret, "sent")

    def mark_sent(self, secret: bytes) -> None:
        """Remember that all parties have a client's report."""
        _write(self._place(secret, "sent"), "")


def _read(path: Path, task: Task) -> ClientReport | None:
    """Return the report that a file holds; None if there is no file."""
    with _refused("a folder of files that can be read", path):
        try:
            text = path.read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            return None
    try:
        return ClientReport.from_json(text, task)
    except ValueError as error:
        raise ValueError(f"store must hold reports, got {str(path)!r}: {error}") from None


def _write(path: Path, text: str) -> bool:
    """Write a whole file that was not there, and its content to disk; False if it was there."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with _refused("a folder that can be written", path.parent):
        try:
            write_new(part, text.encode())
            try:
                os.link(part, path)  # which replaces nothing, unlike a renaming
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise OSError(error.errno, "its file system has no hard links") from None
                raise
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
    return True


def _sync(path: Path) -> None:
    """Put the names in a folder on disk, where a system can."""
    with _refused("a folder that can be written", path):
        try:
            folder = os.open(path, os.O_RDONLY)
        except PermissionError:  # folders cannot be opened on Windows
            return
        try:
            os.fsync(folder)
        except OSError as error:
            if error.errno not in _NO_SYNC:  # what may not be on disk must not be sent
                raise
        finally:
            os.close(folder)


@contextlib.contextmanager
def _refused(what: str, path: Path | str) -> Iterator[None]:
    """Refuse a store where the system fails."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"store must be {what}, got {str(path)!r}: {reason(error)}") from None
