"""Several group elements as one message, which sorting moves as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue
from ikos.primitives.modular import Zq


def pack(elements: NDArray[Any], group: Zq) -> NDArray[Any]:
    """Return vectors of group elements, (..., b), as messages, (...)."""
    if elements.shape[-1] == 1:
        return np.ascontiguousarray(elements[..., 0])
    if group.dtype == object:
        width = (group.bits + 7) // 8
        joined = b"".join(int(value).to_bytes(width, "little") for value in elements.flat)
        octets = np.frombuffer(joined, dtype=np.uint8)
        octets = octets.reshape(*elements.shape[:-1], elements.shape[-1] * width).copy()
    else:
        octets = np.ascontiguousarray(elements, dtype=group.dtype.newbyteorder("<")).view(np.uint8)
    return octets.view(np.dtype((np.void, octets.shape[-1])))[..., 0]


def unpack(messages: NDArray[Any], group: Zq, dimension: int) -> NDArray[Any]:
    """Return the vectors, (k, b), of k messages; ValueError if they are not such messages."""
    if dimension == 1:
        return messages[:, np.newaxis]
    width = (group.bits + 7) // 8 if group.dtype == object else group.dtype.itemsize
    if messages.dtype != np.dtype((np.void, dimension * width)):
        raise InvalidValue(
            "view",
            f"must hold vectors of {dimension} elements as messages, got an array of "
            f"{messages.dtype}",
        )
    octets = np.ascontiguousarray(messages)[:, np.newaxis].view(np.uint8)
    if group.dtype != object:
        return octets.view(group.dtype.newbyteorder("<")).astype(group.dtype, copy=False)
    flat = octets.tobytes()
    result = np.empty(messages.size * dimension, dtype=object)
    result[:] = [
        int.from_bytes(flat[start : start + width], "little")
        for start in range(0, len(flat), width)
    ]
    return result.reshape(messages.size, dimension)
