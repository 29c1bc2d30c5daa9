"""Envelopes: what clients encrypt to the analyzer, and shufflers pass on unread.

HPKE in base mode (RFC 9180) with the KEM of the task, HKDF-SHA256 and AES-128-GCM. An envelope
holds an element for each coordinate of one block. Its key is bound to the task, window, column and
block: elsewhere it cannot be decrypted. All envelopes of a block have one size.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ikos._validation import integer
from ikos.deployment.opening import PrivateKey, public_key, read_elements, suite, unsealed

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

__all__ = ["PrivateKey", "seal", "unseal"]

LABEL = b"ikos-parties 3 envelope"


def info(window: Window, column: int, block: int) -> bytes:
    """Return the context to which an envelope's key is bound."""
    integer("column", column, low=1, high=window.task.columns)
    integer("block", block, low=0, high=len(window.task.blocks) - 1)
    return LABEL + window.bound + column.to_bytes(4, "big") + block.to_bytes(4, "big")


def clear_part(shares: Iterable[int], task: Task) -> bytes:
    """Return shares as big-endian bytes of constant length, one after the other."""
    checked = (integer("share", share, low=0, high=task.order - 1) for share in shares)
    return b"".join(share.to_bytes(task.width, "big") for share in checked)


def read_clear(part: bytes, task: Task) -> list[int]:
    """Return the shares encoded by bytes; ValueError if one is not an element of the group."""
    return read_elements(part, task.width, task.order)


def seal(shares: Iterable[int], window: Window, column: int, block: int) -> bytes:
    """Return the shares of a block of one column, encrypted to the analyzer."""
    kem = window.task.kem
    part, key = clear_part(shares, window.task), public_key(window.public_key(0), kem)
    return bytes(suite(kem).encrypt(part, key, info(window, column, block)))


def unseal(envelope: bytes, key: PrivateKey, window: Window, column: int, block: int) -> list[int]:
    """Return the shares in an envelope.

    ValueError, which quotes nothing, if the envelope cannot be decrypted or holds anything but
    elements of the group. Their number follows from the envelope's length.
    """
    return read_clear(unsealed(envelope, key, info(window, column, block)), window.task)
