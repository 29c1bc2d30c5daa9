"""What no implementation can beat: the keystream, the sort, one pass over messages or edges."""

from __future__ import annotations

import os
from operator import mul
from typing import Any

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

CHUNK = bytes(1 << 20)
THOUSAND = [mpfr(mpq(1, k), 256) for k in range(1, 1001)]


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


def take_off(rows: NDArray[Any]) -> None:
    """Take all rows but the last off it, a pass over each: what makes it the last share."""
    for row in rows[:-1]:
        np.subtract(rows[-1], row, out=rows[-1])


def add_up(rows: NDArray[Any]) -> int:
    """Pass over the messages once, wrapping in their own type."""
    return int(np.add.reduce(rows, axis=None, dtype=rows.dtype))


def weak_components(matrix: csr_array) -> int:
    """Search the weakly connected components of a graph whose matrix is there."""
    return int(connected_components(matrix, directed=False)[0])


def multiply_and_add(count: int) -> None:
    """Multiply and add this many pairs of numbers of 256 bits, rounded up, in thousands."""
    with gmpy2.context(precision=256, round=gmpy2.RoundUp):
        for _ in range(count // 1000):
            gmpy2.fsum(map(mul, THOUSAND, THOUSAND))
