"""Reports to helpers, opened as the page on the wire format says, without the library's own way."""

from __future__ import annotations

import hmac

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ikos.deployment.opening import unsealed


def seed_of(window, report, party, key):
    """Return the seed in a helper's envelope."""
    bound = window.task.id + window.number.to_bytes(4, "big") + party.to_bytes(4, "big")
    return unsealed(report.parts[party], key, b"ikos-parties 3 seed" + bound + report.id)


def vector_of(window, seed, report, party):
    """Return the vector that a seed stands for; it has at most 2^20 bytes of keystream."""
    task = window.task
    context = bytes.fromhex(task.parameters) + task.id + window.number.to_bytes(4, "big")
    bits = task.modulus.bit_length() - 1
    word = next(size for size in (1, 2, 4, 8) if 8 * size >= bits)
    info = b"ikos helpers 1" + context + party.to_bytes(4, "big") + report.id + bytes(4) + b"\1"
    key = hmac.digest(seed, info, "sha512")
    stream = Cipher(algorithms.AES256(key[:32]), modes.CTR(key[32:48])).encryptor()
    words = np.frombuffer(stream.update(bytes(task.domain.dimension * word)), f"<u{word}")
    return words.astype(object) % task.modulus


def opened_by_relays(window, report, keys):
    """Return what the openings of a report add up to, with the key of each relay."""
    width = 32 * (window.task.domain.dimension + 1)
    rows = [report.parts[0][-width:]]
    bound = window.task.id + window.number.to_bytes(4, "big")
    for party, key in enumerate(keys, 1):
        info = b"ikos-parties 3 opening" + bound + party.to_bytes(4, "big") + report.id
        rows.append(unsealed(report.parts[party], key, info))
    values = [[int.from_bytes(row[i : i + 32]) for i in range(0, width - 32, 32)] for row in rows]
    return np.array(values, dtype=object).sum(axis=0) % window.task.modulus


def unpacked(part, task):
    """Return a vector for the analyzer, or a helper's sum."""
    number, bits = int.from_bytes(part, "little"), task.modulus.bit_length() - 1
    return np.array(
        [number >> i * bits & task.modulus - 1 for i in range(task.domain.dimension)], dtype=object
    )


def opened(window, report, keys):
    """Return what the shares of a report add up to, with the key of each helper."""
    value = unpacked(report.parts[0], window.task)
    for party, key in enumerate(keys, 1):
        value += vector_of(window, seed_of(window, report, party, key), report, party)
    return value % window.task.modulus
