"""A folder for one process: two that served it would each think that its store is theirs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

LOCK = "lock.sqlite3"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a party's folder; the system lets go of it when the process ends, however it does.

    The lock is SQLite's, on an empty database of its own: it works wherever the store does.

    Raises
    ------
    ValueError
        If another process holds it, or no lock can be had there.
    """
    path = folder / LOCK
    try:
        path.touch(mode=0o600, exist_ok=True)
        lock = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise ValueError(f"{str(folder)!r} cannot be served: {error}") from None
    with closing(lock):
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            reason = "another process serves it" if busy else str(error)
            raise ValueError(f"{str(folder)!r} cannot be served: {reason}") from None
        yield
