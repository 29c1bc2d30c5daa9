"""Vectors of elements of b bits, packed: element i has bits i b to i b + b - 1 of the whole.

The bytes are one little-endian integer, as long as the bits need; the last byte's other bits are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WORD = 64


def packed_bytes(dimension: int, bits: int) -> int:
    """Return the bytes of a vector of a number of elements."""
    return -(-dimension * bits // 8)


def packed(elements: NDArray[Any], bits: int) -> bytes:
    """Return a vector of unsigned integers below 2^bits as bytes."""
    octets = elements.astype(elements.dtype.newbyteorder("<"))[:, np.newaxis].view(np.uint8)
    each = np.unpackbits(octets, axis=1, count=bits, bitorder="little")
    return np.packbits(each.reshape(-1), bitorder="little").tobytes()


def check_packed(part: bytes, dimension: int, bits: int) -> None:
    """Raise ValueError for a vector of the right length with bits beyond its last element."""
    if part[-1] >> (-(-dimension * bits) % 8 or 8):
        raise ValueError("the bits after a vector's last element must be 0")


def add_packed(total: NDArray[np.uint64], parts: Sequence[bytes], bits: int) -> None:
    """Add packed vectors of one length to a total, modulo 2^64."""
    groups = -(-total.size // 8)  # of eight elements each, which are ``bits`` bytes
    rows = np.zeros((len(parts), groups * bits + 8), dtype=np.uint8)
    rows[:, : len(parts[0])] = np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), -1)
    for place in range(8):
        first, shift = divmod(place * bits, 8)
        where: Any = (rows.data, first, (rows.shape[1], bits))
        values = np.ndarray((len(parts), groups), "<u8", *where) >> np.uint64(shift)
        if shift + bits > _WORD:
            rest = rows[:, first + 8 :: bits][:, :groups].astype(np.uint64)
            values |= rest << np.uint64(_WORD - shift)
        if bits < _WORD:
            values &= np.uint64((1 << bits) - 1)
        here = total[place::8]
        here += values.sum(axis=0)[: here.size]
