"""Which files a folder of tables is made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from ikos.tables.parts import readable, shown

SUFFIXES = (".parquet", ".pq")
_VERSIONED = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
"""Marks of formats whose folders hold rows that were deleted since."""


def files_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return the files of a folder and of its folders, in the order of their names.

    Names that begin with ``.`` or ``_`` are ignored, as all programs do that write such folders:
    they hold no rows.

    Raises
    ------
    ValueError
        If there are none; names end in different ways, as copies' do (``a.csv~``, ``a.csv.bak``); a
        folder or file cannot be read, or is reached twice through links; or it is a table of a
        format with its own list of files.
    """
    where = shown(folder)
    found: list[str] = []
    seen = {os.path.realpath(folder)}

    def refuse(error: OSError) -> NoReturn:
        with readable(shown(error.filename)):
            raise error
        raise AssertionError

    for base, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        for name in sorted({*folders, *names} & set(_VERSIONED)):
            raise ValueError(
                f"{shown(base)} is a {_VERSIONED[name]} table: some of its files may hold rows "
                "that were deleted since; export it to a folder of Parquet files"
            )
        folders[:] = [name for name in folders if not _ignored(name)]
        names = [name for name in names if not _ignored(name)]
        for name in folders + names:
            path = os.path.join(base, name)
            real = os.path.realpath(path)
            if real in seen:
                raise ValueError(
                    f"{shown(path)} is a link to what {where} holds already: its rows would count "
                    "twice"
                )
            seen.add(real)
        for name in names:
            path = os.path.join(base, name)
            with readable(shown(path)):
                os.stat(path)
            if not os.path.isfile(path):
                raise ValueError(f"{shown(path)} is in a folder of tables and is no file")
            found.append(path)
    if not found:
        raise ValueError(f"{where} is a folder without files (names that begin with . or _ apart)")
    found.sort(key=lambda path: Path(path).parts)
    _alike(found)
    return found


def _alike(paths: list[str]) -> None:
    """Refuse names with different endings: rows of a copy or of a note would be users."""
    endings = [_ending(path) for path in paths]
    for path, ending in zip(paths, endings, strict=True):
        if ending != endings[0]:
            raise ValueError(
                f"{shown(paths[0])} and {shown(path)} do not end alike: files of one folder are "
                "one table, and a copy would count its rows twice; move what is not a part of it "
                "elsewhere"
            )


def _ending(path: str) -> str:
    ending = Path(path).suffix.lower()
    return SUFFIXES[0] if ending in SUFFIXES else ending


def _ignored(name: str) -> bool:
    return name.startswith((".", "_"))
