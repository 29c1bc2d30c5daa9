"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SUFFIXES", "save", "written_whole"]

SUFFIXES = (".png", ".svg", ".pdf")
"""What a figure's file name may end in."""

# Nothing in a file says when it was made: the same figure makes the same bytes.
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": "ikos"},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write that takes its name only once it is whole.

    Until then, and for good after an exception, whatever was there under the name stays.

    Parameters
    ----------
    path : Path
        The file; a link is followed. Its folder must exist.

    Yields
    ------
    BinaryIO
        A temporary file in the same folder.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(path))
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format that its file name ends in.

    Parameters
    ----------
    figure : Figure
        What to write.
    path : Path
        A name that ends in one of `SUFFIXES`, in capitals or not.

    Raises
    ------
    ValueError
        If it ends in something else.
    OSError
        If it cannot be written; then nothing is.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"path must end in {', '.join(SUFFIXES)}, got {path.name!r}")
    import matplotlib as mpl

    with (
        mpl.rc_context({"svg.hashsalt": "ikos", "pdf.fonttype": 42}),
        written_whole(path) as file,
    ):
        figure.savefig(file, format=suffix[1:], metadata=_METADATA[suffix])
