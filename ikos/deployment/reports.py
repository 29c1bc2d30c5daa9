"""A client's report: its shares, each ready for its party, made once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel

from ikos.deployment.hpke import clear_part, seal, size
from ikos.deployment.task import Task
from ikos.deployment.wire import decoded, encoded
from ikos.modular import Zq
from ikos.randomness import RandomSource, secure
from ikos.sharing import split

__all__ = ["ClientReport"]

ID_BYTES = 16


class _ReportFile(BaseModel):
    """A report on the client's own disk."""

    task: str
    id: str
    parts: list[str]
    digest: str


@dataclass(frozen=True, repr=False)
class ClientReport:
    """What one client sends: printed without any of it.

    Attributes
    ----------
    id : bytes
        Random; the same at all parties, so that they can tell which reports are complete.
    parts : tuple of bytes
        The clear share for the analyzer, then the envelope for each shuffler.
    """

    id: bytes
    parts: tuple[bytes, ...]

    @classmethod
    def make(cls, task: Task, value: float, rng: RandomSource | None = None) -> ClientReport:
        """Return a report of a value: rounded, with noise, split, encrypted.

        Parameters
        ----------
        task : Task
            What it is for.
        value : float
            Within the task's bounds.
        rng : RandomSource, optional
            Secure randomness by default. Ids and envelopes are always random.

        Raises
        ------
        TypeError, ValueError
            If it is not a value that the task allows.
        """
        return cls._of(task, task.protocol.report(value, rng))

    @classmethod
    def make_many(
        cls, task: Task, values: ArrayLike, rng: RandomSource | None = None
    ) -> Iterator[ClientReport]:
        """Yield reports of the values of many clients, for trying things out on one machine.

        As `make` for each; the shares of all are drawn together, which is faster.
        """
        source, protocol = secure(rng), task.protocol
        elements = protocol.encoded(protocol.checked(values), source.streams()(0))
        group = Zq(task.modulus)
        for shares in split(elements, group, task.messages, source).T:
            yield cls._of(task, shares)

    @classmethod
    def _of(cls, task: Task, found: NDArray[Any]) -> ClientReport:
        *shares, clear = map(int, found)
        envelopes = (seal(share, task, column) for column, share in enumerate(shares, 1))
        return cls(os.urandom(ID_BYTES), (clear_part(clear, task), *envelopes))

    @property
    def _digest(self) -> str:
        """SHA-256: a damaged file is found, whose parts under another id would count twice."""
        return hashlib.sha256(b"".join((self.id, *self.parts))).hexdigest()

    def to_json(self, task: Task) -> str:
        """Return the report as text, for the client's own disk."""
        parts = [encoded(part) for part in self.parts]
        file = _ReportFile(task=task.name, id=encoded(self.id), parts=parts, digest=self._digest)
        return file.model_dump_json()

    @classmethod
    def from_json(cls, text: str, task: Task) -> ClientReport:
        """Return a report of a task from text; ValueError, quoting none of it, otherwise."""
        lengths = [task.share_bytes, *[size(task)] * task.columns]
        try:
            found = _ReportFile.model_validate_json(text)
            pairs = zip(found.parts, lengths, strict=True)
            parts = tuple(decoded(part, length) for part, length in pairs)
            report = cls(decoded(found.id, ID_BYTES), parts)
            if (found.task, found.digest) != (task.name, report._digest):
                raise ValueError
        except ValueError:
            raise ValueError("what is kept for this task is no report of it") from None
        return report

    def __repr__(self) -> str:
        return f"<ClientReport of {len(self.parts)} parts>"
