"""What shufflers pass on: envelopes of which they know no more than the size and the block.

A shuffler releases the envelopes of each block in the order of their bytes, which does not depend
on who sent them or when.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from ikos.deployment.hpke import info, seal
from ikos.deployment.openers import Chunk, openers
from ikos.deployment.opening import HYBRID, KEMS, TAG_BYTES, X25519, PrivateKey
from ikos.deployment.terms import Chosen, Opened, Terms
from ikos.results.conditions import Condition, Kind

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

ENVELOPE_SECONDS, COORDINATE_SECONDS = {X25519: 65e-6, HYBRID: 100e-6}, 0.5e-6
"""Time of a release on one core, measured (docs/scale.md, "Between programs: load"): to fetch, open
and add up an envelope, and for each coordinate in it."""

_ENVELOPES_PER_PIECE = 512
_CHUNK_ENVELOPES, _CHUNK_BYTES = 256, 1 << 20  # most that a process decrypts together


def envelope_overhead(kem: str) -> int:
    """Return the overhead of an envelope in bytes."""
    return KEMS[kem].sealed + TAG_BYTES


def encrypted(kem: str) -> Condition:
    """Return the condition that envelopes hide what they hold."""
    text = (
        f"the encryption of the envelopes holds (HPKE with {KEMS[kem].words}, HKDF-SHA256 and "
        "AES-128-GCM) against all but the analyzer"
    )
    return Condition(Kind.CRYPTOGRAPHY, text)


class EnvelopeTerms(Terms):
    """Terms of protocols whose clients send shufflers nothing but envelopes."""

    work: ClassVar[str]
    """What becomes of the contents of envelopes, of `ikos.deployment.opening.WORK`."""

    def part_bytes(self, task: Task, party: int) -> int:
        """Return the bytes of the envelopes for a shuffler; the analyzer gets none."""
        return task.envelope_bytes if party else 0

    def envelopes(self, window: Window, column: int, rows: Iterable[Sequence[int]]) -> bytes:
        """Return one client's envelopes for a shuffler: one of each row, for each block."""
        sealed, rows, first = [], list(rows), 0
        for block, length in enumerate(window.task.blocks):
            part = slice(first, first := first + length)
            sealed += [seal(row[part], window, column, block) for row in rows]
        return b"".join(sealed)

    def released(self, task: Task, parts: Sequence[bytes]) -> Iterator[bytes]:
        """Yield, in pieces, a shuffler's release for its parts of a set, in the order of ids.

        Here the envelopes of each block, in byte order. It is as long as the parts together.
        """
        first = 0
        for size in map(task.block_bytes, range(len(task.blocks))):
            ends = range(first, first := first + self.copies * size, size)
            envelopes = sorted(part[start : start + size] for part in parts for start in ends)
            for start in range(0, len(envelopes), _ENVELOPES_PER_PIECE):
                yield b"".join(envelopes[start : start + _ENVELOPES_PER_PIECE])

    @abstractmethod
    def gathered(self, task: Task, contents: Iterable[tuple[int, list[int]]]) -> list[int]:
        """Return what is kept of a batch: blocks, and what became of some envelopes of each."""

    @contextmanager
    def opener(
        self, window: Window, read_key: Callable[[], PrivateKey], batches: int, chosen: Chosen
    ) -> Iterator[Callable[[int, bytes], Opened]]:
        """Decrypt envelopes on all cores."""
        task, reports = window.task, len(chosen.ids)
        envelopes = reports * len(task.blocks) * self.copies
        with openers(read_key(), task, batches * envelopes, self.work) as answers:

            def open_batch(party: int, data: bytes) -> Opened:
                unopened = envelopes

                def contents() -> Iterator[tuple[int, list[int]]]:
                    nonlocal unopened
                    for block, opened, values in answers(chunks):
                        unopened -= opened
                        yield block, values

                chunks = _chunks(window, party, data, reports * self.copies)
                kept = self.gathered(task, contents())
                if unopened:
                    raise ValueError(
                        f"{unopened:,} envelopes of shuffler {party} could not be decrypted or are "
                        "duplicates, and no one can tell whose they are"
                    )
                return kept, b""

            yield open_batch

    def release_seconds(self, task: Task) -> float:
        """Return the seconds of one core to decrypt all envelopes."""
        seconds = len(task.blocks) * ENVELOPE_SECONDS[task.kem]
        seconds += sum(task.blocks) * COORDINATE_SECONDS
        return task.users * self.columns * self.copies * seconds


def _chunks(window: Window, party: int, data: bytes, envelopes: int) -> Iterator[Chunk]:
    """Yield this many envelopes of each block of a batch, without duplicates."""
    first = 0
    for block, coordinates in enumerate(window.task.blocks):
        size, bound = window.task.block_bytes(block), info(window, party, block).hex()
        ends = range(first, first := first + envelopes * size, size)
        sealed = iter({data[start : start + size] for start in ends})
        most = max(1, min(_CHUNK_ENVELOPES, _CHUNK_BYTES // size))
        while chunk := b"".join(islice(sealed, most)):
            yield block, chunk, bound, size, coordinates
