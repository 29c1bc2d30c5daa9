"""A secure source that writes to files which secret was drawn by whom, and where it was used."""

from __future__ import annotations

import hashlib
import os
import uuid
from functools import partial
from pathlib import Path

from ikos.primitives.randomness import Expanded, SecureRandom


def write(folder, *fields):
    with (Path(folder) / str(os.getpid())).open("a") as file:
        file.write(" ".join(map(str, fields)) + "\n")


def records(folder):
    """Return what was written, by whichever process, as tuples of texts."""
    lines = [line for file in Path(folder).iterdir() for line in file.read_text().splitlines()]
    return [tuple(line.split()) for line in lines]


def fingerprint(secret):
    return hashlib.sha256(secret).hexdigest()[:32]


class Recorded(SecureRandom):
    """A secure source whose families of sources are on record."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def streams(self):
        return partial(Source, self.folder)

    def __reduce__(self):
        return type(self), (self.folder,)


class Source(SecureRandom):
    def __init__(self, folder, number):
        super().__init__()
        self.folder, self.number, self.run = folder, number, uuid.uuid4().hex

    def family(self):
        secret = self.bytes(64)
        write(self.folder, "secret", fingerprint(secret), self.number, self.run)
        return partial(drawn, self.folder, secret, self.number, self.run)


def drawn(folder, secret, number, run, place):
    write(folder, "drawn", fingerprint(secret), number, run, place)
    label = hashlib.sha512(secret + place.to_bytes(16, "big")).digest()
    return Expanded(label)
