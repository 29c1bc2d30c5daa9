"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
"""Suffixes of figures' file names."""

# Files do not contain their date: the same figure makes the same bytes.
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": "ikos"}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None},
}  # fmt: skip


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Yield the name of a new file in the same folder, which is removed if it is still there."""
    target = Path(os.path.realpath(path))
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(target).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
    temporary = target.with_name(f".ikos-{secrets.token_hex(8)}")
    try:
        yield temporary
    except OSError as error:
        if str(error.filename) != str(temporary):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file in the same folder, renamed to ``path`` once it is complete.

    Links are followed, and the folder must exist. After an exception, an existing file under this
    name is unchanged.
    """
    with _temporary(path) as temporary:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(os.path.realpath(path))


def check_writable(path: Path) -> None:
    """Raise the `OSError` of `written_whole` where no file can be written, and write none."""
    with _temporary(path) as temporary:
        temporary.touch(exist_ok=False)


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all, in the format of its file name.

    Parameters
    ----------
    figure : Figure
    path : Path
        A name that ends in one of ``SUFFIXES``, in either case.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        from ikos._validation import InvalidValue  # with numpy, which completion has no time for

        raise InvalidValue("path", f"must end in {', '.join(SUFFIXES)}, got {path.name!r}")
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "ikos", "pdf.fonttype": 42}), written_whole(path) as file:
        figure.savefig(file, format=suffix[1:], metadata=_METADATA[suffix])
