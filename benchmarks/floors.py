"""What no implementation can beat: the keystream, the sort, one pass over the messages."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

CHUNK = bytes(1 << 20)


def keystream(out: NDArray[Any]) -> None:
    """Fill an array with AES-256-CTR keystream under one key, straight from the cipher."""
    encryptor = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor()
    target = out.data.cast("B")
    for start in range(0, len(target), len(CHUNK)):
        piece = target[start : start + len(CHUNK)]
        encryptor.update_into(memoryview(CHUNK)[: len(piece)], piece)


def sort_rows(rows: NDArray[Any]) -> None:
    """Sort each row in place with numpy."""
    for row in rows:
        row.sort()


def add_up(rows: NDArray[Any]) -> int:
    """Pass over the messages once, wrapping."""
    return int(np.add.reduce(rows, axis=None))
