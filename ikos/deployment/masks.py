"""Tasks whose clients send masked vectors, and shares of the masks' keys.

A client sends the analyzer its sealed masked vector and a share of its key, and each shuffler the
envelopes of the key's blocks and its seal. A shuffler releases the envelopes as for any shares, and
the seals of the set in the order of ids: before that, nobody can open a masked vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ikos.counts.masks import SEAL_BYTES
from ikos.deployment.opening import PrivateKey
from ikos.deployment.shares import ShareTerms
from ikos.deployment.task_fields import Integer
from ikos.deployment.terms import Chosen, Opened
from ikos.transports.base import Recipe, Reports, Totals, Transport
from ikos.transports.masks import Masked, Masks, joint
from ikos.transports.shares import Shares, Shuffled

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

COORDINATE_SECONDS = 20e-9
"""Seconds of one core per coordinate of a release, measured: to decrypt, unpack and add it up."""

_NUMBERS = (
    "degree", "modulus_bits", "plaintext_bits", "dropped_bits", "digit_bits", "digits",
    "key_modulus", "samples", "deviation",
)  # fmt: skip


@dataclass(frozen=True)
class MasksTerms(ShareTerms):
    """Terms of masked vectors: of the shares of keys, and `ikos.counts.masks.MaskParameters`."""

    degree: Integer
    modulus_bits: Integer
    plaintext_bits: Integer
    dropped_bits: Integer
    digit_bits: Integer
    digits: Integer
    key_modulus: Integer
    samples: Integer
    deviation: Integer
    _: KW_ONLY
    kind: Literal["masks"] = "masks"

    kept: ClassVar[int] = SEAL_BYTES

    @classmethod
    def checked_length(cls, layout: object, dimension: int) -> int:
        """Return 0: the blocks of keys are chosen."""
        del layout, dimension
        return 0

    @classmethod
    def recipe(cls, shuffled: Shuffled) -> Recipe:
        """Return the recipe of masked vectors with these options for the shares of keys."""
        return Masked(shuffled)

    @classmethod
    def of(cls, transport: Transport) -> Self:
        """Return the terms of masked vectors."""
        layout, masks = cls.shares(transport).layout, asdict(_masks(transport).masks)
        return cls(layout.count.total, layout.length, *(masks[name] for name in _NUMBERS))

    @staticmethod
    def shares(transport: Transport) -> Shares:
        """Return the shares of keys."""
        return _masks(transport).keys

    def part_bytes(self, task: Task, party: int) -> int:
        """Return the bytes of the key's envelopes or share, and of the seal or masked vector."""
        more = SEAL_BYTES if party else _masks_of(task).masks.masked_bytes
        return super().part_bytes(task, party) + more

    def parts(self, window: Window, report: Reports) -> tuple[bytes, ...]:
        """Return the sealed masked vector before the share, and seals after envelopes."""
        own, *others = super().parts(window, report)
        (masked, _), *by_shuffler = report.parts
        sealed = (
            part + seal.tobytes() for part, (_, seal) in zip(others, by_shuffler, strict=True)
        )
        return (masked.tobytes() + own, *sealed)

    def released(self, task: Task, parts: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the envelopes in their order, then the seals in the order of the parts."""
        yield from super().released(task, parts)
        yield b"".join(part[-SEAL_BYTES:] for part in parts)

    def check(self, task: Task, part: bytes) -> None:
        """Raise ValueError for an invalid share; any bytes are a masked vector."""
        super().check(task, part[_masks_of(task).masks.masked_bytes :])

    @contextmanager
    def opener(
        self, window: Window, read_key: Callable[[], PrivateKey], batches: int, chosen: Chosen
    ) -> Iterator[Callable[[int, bytes], Opened]]:
        """Decrypt the envelopes of keys, and keep the seals."""
        with super().opener(window, read_key, batches, chosen) as open_batch:

            def open_batch_with_seals(party: int, data: bytes) -> Opened:
                sums, _ = open_batch(party, data)
                return sums, data[-len(chosen.ids) * SEAL_BYTES :]

            yield open_batch_with_seals

    def totals(self, window: Window, opened: Sequence[Opened], chosen: Chosen) -> Totals:
        """Return the sums of vectors: one masked vector is in memory at a time."""
        masks = _masks_of(window.task)
        size, total = masks.masks.masked_bytes, masks.zeros()
        seals = joint([_bytes(rest).reshape(-1, SEAL_BYTES) for _, rest in opened])

        def shares() -> Iterator[tuple[int, bytes]]:
            for place, part in chosen.parts():
                masks.add_opened(total, _bytes(part[:size]), seals[place])
                yield place, part[size:]

        keys = super().totals(window, opened, replace(chosen, parts=shares))
        return masks.unmask(total, keys, self.context(window))

    def release_seconds(self, task: Task) -> float:
        """Return the seconds of one core to decrypt all envelopes and masked vectors."""
        vectors = task.users * task.domain.dimension * COORDINATE_SECONDS
        return super().release_seconds(task) + vectors


def _masks(transport: Transport) -> Masks:
    """Return a transport as one of masked vectors, which it must be."""
    return cast(Masks, transport)


def _masks_of(task: Task) -> Masks:
    return _masks(task.protocol.transport)


def _bytes(data: bytes) -> NDArray[Any]:
    return np.frombuffer(data, np.uint8)
