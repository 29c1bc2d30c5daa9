"""The settings of a server in a file of TOML, with every key and value checked."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ikos._validation import quote

LONGEST = 1 << 16


def _text(value: object, _: Path) -> str | None:
    return value if isinstance(value, str) and value else None


def _file(value: object, folder: Path) -> Path | None:
    return folder / value if isinstance(value, str) and value else None


def _port(value: object, _: Path) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535
    return value if right and isinstance(value, int) else None


def _rate(value: object, _: Path) -> float | None:
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e9
    return float(value) if right and isinstance(value, (int, float)) else None


KEYS: dict[str, tuple[str, Callable[[object, Path], Any]]] = {
    "host": ("a text", _text),
    "port": ("a whole number from 0 to 65535", _port),
    "certificate": ("the name of a file", _file),
    "private_key": ("the name of a file", _file),
    "ca": ("the name of a file", _file),
    "rate": ("a positive number", _rate),
}
"""Each key with what it must be: the parts of `ikos.deployment.serve.Listening`."""


def read_settings(path: Path) -> dict[str, Any]:
    r"""Return the settings of a file, those that are there, in the types of `Listening`.

    Parameters
    ----------
    path : Path
        TOML in UTF-8. Names of files are relative to its folder.

    Raises
    ------
    ValueError
        If it cannot be read, or has a key or a value that it should not have, which is named.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "shuffler.toml")
    ...     _ = path.write_text('host = "127.0.0.1"\nport = 8001\n')
    ...     read_settings(path)
    {'host': '127.0.0.1', 'port': 8001}
    """
    shown = repr(str(path))
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise ValueError(f"at most {LONGEST} bytes")
        found = tomllib.loads(text.decode())
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise ValueError(f"config must be a file that can be read, got {shown}: {reason}") from None
    except ValueError as error:  # of decoding and of TOML as well
        reason = " ".join(str(error).split())
        raise ValueError(f"config must be TOML, got {shown}: {reason}") from None
    settings = {}
    for key, value in found.items():
        if key not in KEYS:
            raise ValueError(
                f"{shown}: there is no key {quote(key)}; the keys are {', '.join(KEYS)}"
            )
        wanted, read = KEYS[key]
        settings[key] = read(value, path.parent)
        if settings[key] is None:
            raise ValueError(f"{shown}: {key} must be {wanted}, got {quote(value)}")
    return settings
