"""The reports that clients made, kept on disk before anything of them is sent.

That no client ever makes a second report rests on this: whoever sends for a client looks here
first, under a name that only its secret and the task determine.
"""

from __future__ import annotations

import contextlib
import hmac
import os
from collections.abc import Iterator
from pathlib import Path

from ikos.parties.reports import Report
from ikos.parties.seats import write_new
from ikos.parties.task import Task

__all__ = ["KeptReports"]

_LABEL = b"ikos-parties 1 kept"


class KeptReports:
    """A folder with the reports of clients of a task, a file for each.

    A file stays when its report was sent: were it gone, another program could make a second one.
    Its name is of the secret, so that one client finds one report, and says nothing of it.

    Parameters
    ----------
    path : Path
        The folder. It is made when the first report is.
    task : Task
        The task. Reports of other tasks may be in the same folder.

    Raises
    ------
    ValueError
        If the path is something else; of all methods, if what is there cannot be read, is no
        report, or cannot be written.
    """

    def __init__(self, path: Path, task: Task) -> None:
        self._path = path
        self._task = task
        with _refused(f"a folder, got {str(path)!r}"):
            if path.exists() and not path.is_dir():
                raise NotADirectoryError(None, "it is a file")

    def _place(self, secret: bytes, kind: str) -> Path:
        name = hmac.digest(secret, _LABEL + self._task.id, "sha256")[:16].hex()
        return self._path / f"{name}.{kind}"

    def has(self, secret: bytes) -> bool:
        """Whether a client's report was begun."""
        return self._place(secret, "json").exists()

    def of(self, secret: bytes) -> Report | None:
        """Return a client's report; None if none was begun."""
        return _read(self._place(secret, "json"), self._task)

    def add(self, secret: bytes, made: Report) -> Report | None:
        """Keep a client's report, on disk when this returns.

        Parameters
        ----------
        secret : bytes
            The client's.
        made : Report
            Of which nothing was sent.

        Returns
        -------
        Report or None
            If another program was faster, its report, which is the one to be sent.
        """
        with _refused(f"a folder that can be written, got {str(self._path)!r}"):
            self._path.mkdir(mode=0o700, exist_ok=True)
        place = self._place(secret, "json")
        if _write(place, made.to_json(self._task)):
            return None
        found = _read(place, self._task)
        if found is None:  # a link to nowhere, or gone again: what is made would be a second one
            raise ValueError(f"store must have files that stay, got {str(place)!r}")
        return found

    def is_sent(self, secret: bytes) -> bool:
        """Whether all parties have a client's report."""
        return self._place(secret, "sent").exists()

    def mark_sent(self, secret: bytes) -> None:
        """Remember that all parties have a client's report."""
        _write(self._place(secret, "sent"), "")


def _read(path: Path, task: Task) -> Report | None:
    """Return the report that a file holds; None if there is no file."""
    with _refused(f"a folder of files that can be read, got {str(path)!r}"):
        try:
            text = path.read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            return None
    try:
        return Report.from_json(text, task)
    except ValueError as error:
        raise ValueError(f"store must hold reports, got {str(path)!r}: {error}") from None


def _write(path: Path, text: str) -> bool:
    """Write a whole file that was not there, on disk when this returns; False if it was."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with _refused(f"a folder that can be written, got {str(path.parent)!r}"):
        try:
            write_new(part, text.encode())
            try:
                os.link(part, path)  # which replaces nothing, unlike a renaming
            except FileExistsError:
                return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
        with contextlib.suppress(OSError, AttributeError):  # folders have no sync everywhere
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    return True


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    """Refuse a store of which the system says no."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or "an error").lower()
        raise ValueError(f"store must be {what}: {reason}") from None
