"""Tasks whose clients send shares of their values; the common part of all shares in envelopes.

A client sends a share in the clear to the analyzer, and to each shuffler an envelope for each block
of coordinates. A shuffler releases the envelopes of each block in the order of their bytes, which
does not depend on who sent them or when.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY
from itertools import islice
from operator import add
from typing import TYPE_CHECKING, Annotated, Literal, Self, cast

from pydantic import Strict
from pydantic.dataclasses import dataclass

from ikos.counts.vectors import checked_layout
from ikos.deployment.hpke import clear_part, info, read_clear, seal
from ikos.deployment.openers import Chunk, openers
from ikos.deployment.opening import HYBRID, X25519, PrivateKey
from ikos.deployment.terms import Opened, Terms
from ikos.transports.base import Recipe, Reports, Totals, Transport
from ikos.transports.shares import Shares, Shuffled

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

Integer = Annotated[int, Strict()]

ENVELOPE_SECONDS, COORDINATE_SECONDS = {X25519: 65e-6, HYBRID: 100e-6}, 0.5e-6
"""Time of a release on one core, measured (docs/scale.md, "Between programs: load"): to fetch, open
and add up an envelope, and for each coordinate in it."""

_ENVELOPES_PER_PIECE = 512
_CHUNK_ENVELOPES, _CHUNK_BYTES = 256, 1 << 20  # most that a process decrypts together


@dataclass(frozen=True)
class EnvelopeTerms(Terms):
    """Terms of shares in envelopes, of whatever is shared.

    Each block of ``block_length`` coordinates has ``messages`` messages, the analyzer's included.
    """

    messages: Integer
    block_length: Integer

    @staticmethod
    @abstractmethod
    def shares(transport: Transport) -> Shares:
        """Return the shares of a transport that are in envelopes."""

    def part_bytes(self, task: Task, party: int) -> int:
        """Return the bytes of a shuffler's envelopes, or of the analyzer's share."""
        return task.envelope_bytes if party else task.width * task.shares.dimension

    def parts(self, window: Window, report: Reports) -> tuple[bytes, ...]:
        """Return the analyzer's share, and each shuffler's envelopes."""
        (*_, own), *others = report.parts
        blocks = list(enumerate(window.task.shares.blocks))
        envelopes = (
            b"".join(seal(row[0, part].tolist(), window, column, block) for block, part in blocks)
            for column, (row, *_) in enumerate(others, 1)
        )
        return (clear_part(own[0].tolist(), window.task), *envelopes)

    def released(self, task: Task, parts: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the envelopes of each block in byte order."""
        first = 0
        for size in map(task.block_bytes, range(len(task.blocks))):
            envelopes = sorted(part[first : first + size] for part in parts)
            for start in range(0, len(envelopes), _ENVELOPES_PER_PIECE):
                yield b"".join(envelopes[start : start + _ENVELOPES_PER_PIECE])
            first += size

    def check(self, task: Task, part: bytes) -> None:
        """Raise ValueError for an invalid share: later it would stop the release."""
        read_clear(part, task)

    @contextmanager
    def opener(
        self, window: Window, key: PrivateKey, batches: int, reports: int
    ) -> Iterator[Callable[[int, bytes], Opened]]:
        """Decrypt envelopes on all cores, and add up the shares in each batch."""
        task = window.task
        with openers(key, task, batches * reports * len(task.blocks)) as add_up:

            def open_batch(party: int, data: bytes) -> Opened:
                totals, unopened = [0] * task.shares.dimension, reports * len(task.blocks)
                for block, opened, sums in add_up(_chunks(window, party, data, reports)):
                    part = task.shares.blocks[block]
                    totals[part] = map(add, totals[part], sums)
                    unopened -= opened
                if unopened:
                    raise ValueError(
                        f"{unopened:,} envelopes of shuffler {party} could not be decrypted or are "
                        "duplicates"
                    )
                return totals, b""

            yield open_batch

    def totals(
        self, window: Window, opened: Sequence[Opened], parts: Iterable[tuple[int, bytes]]
    ) -> Totals:
        """Return the sums of all shares."""
        task, users = window.task, 0
        totals = [0] * task.shares.dimension
        for sums, _ in opened:
            totals = list(map(add, totals, sums))
        for _, part in parts:  # each was checked when it came
            totals = list(map(add, totals, read_clear(part, task)))
            users += 1
        return Totals([total % task.shares.q for total in totals], users)

    def release_seconds(self, task: Task) -> float:
        """Return the seconds of one core to decrypt all envelopes."""
        seconds = len(task.blocks) * ENVELOPE_SECONDS[task.kem]
        return task.users * task.columns * (seconds + task.shares.dimension * COORDINATE_SECONDS)


def _chunks(window: Window, party: int, data: bytes, reports: int) -> Iterator[Chunk]:
    """Yield the envelopes of a batch, without duplicates."""
    first = 0
    for block, coordinates in enumerate(window.task.blocks):
        size, bound = window.task.block_bytes(block), info(window, party, block).hex()
        ends = range(first, first := first + reports * size, size)
        sealed = iter({data[start : start + size] for start in ends})
        most = max(1, min(_CHUNK_ENVELOPES, _CHUNK_BYTES // size))
        while chunk := b"".join(islice(sealed, most)):
            yield block, chunk, bound, size, coordinates


@dataclass(frozen=True)
class SharesTerms(EnvelopeTerms):
    """Terms of shares of values."""

    _: KW_ONLY
    kind: Literal["shares"] = "shares"

    @classmethod
    def checked_length(cls, layout: object, dimension: int) -> int:
        """Check a layout and return the length of its blocks, 0 if that is to be chosen."""
        return checked_layout("separate" if layout is None else layout, dimension, None)

    @classmethod
    def recipe(cls, shuffled: Shuffled) -> Recipe:
        """Return the recipe of shares."""
        return shuffled

    @classmethod
    def of(cls, transport: Transport) -> Self:
        """Return the terms of shares."""
        layout = cls.shares(transport).layout
        return cls(layout.count.total, layout.length)

    @staticmethod
    def shares(transport: Transport) -> Shares:
        """Return the transport."""
        return cast(Shares, transport)
