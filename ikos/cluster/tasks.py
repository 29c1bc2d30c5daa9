"""What runs on workers: clients, envelopes, shufflers, and the analyzer's part of each sum."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.aggregation.shuffled_sum import ShuffledSum, checked_blocks
from ikos.cluster.errors import Refusal
from ikos.modular import Zq
from ikos.randomness import RandomSource, secure
from ikos.sharing import Partition, Sharing, SharingScheme
from ikos.shuffling import release

NONCE_BYTES = 16


def digest(sharings: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the SHA-256 of blocks' numbers and nonces, in whatever order they come."""
    pairs = sorted(number.to_bytes(8, "big") + nonce for number, nonce in sharings)
    return hashlib.sha256(b"".join(pairs)).digest()


@dataclass(frozen=True, repr=False)
class Checked:
    """Checked values on their way to a worker; their printed form shows none."""

    blocks: Sequence[NDArray[Any]]


class Block(Sharing):
    """One sharing of the elements of a block of users, which the last row of shares overwrites.

    Its nonce tells it from every other sharing: it comes from the operating system whatever ``rng``
    is, so that no two runs have the same.
    """

    def __init__(
        self, number: int, elements: NDArray[Any], setting: SharingScheme, rng: RandomSource
    ) -> None:
        super().__init__(elements, setting.group, setting.messages, rng)
        self.number = number
        self.nonce = os.urandom(NONCE_BYTES)
        for place, here in enumerate(self.blocks):
            drawn = np.empty(here.stop - here.start, dtype=self.group.dtype)
            for row in range(self.messages - 1):
                self.draw(row, place, drawn, peel=True)
            self.finish(place)

    def row(self, row: int, out: NDArray[Any]) -> NDArray[Any]:
        """Overwrite ``out``, as long as the block, with the shares of one row, and return it."""
        if row == self.messages - 1:
            out[:] = self.last
            return out
        for place, here in enumerate(self.blocks):
            self.draw(row, place, out[here], peel=False)
        return out

    def __getstate__(self) -> dict[str, Any]:
        # nothing is subtracted from the last row any more, so that it needs no lock
        return {name: value for name, value in self.__dict__.items() if name != "_locks"}

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + _bytes(self.last)

    def __repr__(self) -> str:
        return f"<Block {self.number}: {self.last.size:,} users>"


def _bytes(a: NDArray[Any]) -> int:
    """Return the memory that messages take, for the scheduler to know what is large."""
    return a.nbytes + (a.size * sys.getsizeof(a[0]) if a.dtype == object and a.size else 0)


@dataclass(frozen=True, repr=False)
class BlockSharing:
    """Where clients work: turns values into a `Block`.

    Rounding and noise draw from sources of ``encoding`` (`RandomSource.streams`), of which each
    block has ``stride`` to itself, and the secret from one of ``sharing``.
    """

    clients: ShuffledSum[Any]
    encoding: Callable[[int], RandomSource]
    sharing: Callable[[int], RandomSource]
    stride: int

    __name__ = "clients"  # what Dask names tasks by, where it would otherwise print all of this

    def __call__(self, given: Any, number: int) -> Block | Refusal:
        """Return a fresh sharing of values: checked ones, a part of a table, or a partition."""
        setting = self.clients.setting
        try:
            encoded = [
                self.clients.encoded(values, self.encoding(number * self.stride + place))
                for place, values in enumerate(self._values(given))
            ]
            encoded.append(np.empty(0, dtype=setting.group.dtype))  # for a block without users
            return Block(number, np.concatenate(encoded), setting, self.sharing(number))
        except Exception as error:  # to be raised by the driver, without a word in Dask's logs
            told = isinstance(given, Checked) or _is_part(given)  # which know their place
            return Refusal.of(error, None if told else number)

    def _values(self, given: Any) -> Iterable[NDArray[Any]]:
        if isinstance(given, Checked):
            return given.blocks
        if _is_part(given):
            return checked_blocks(self.clients, iter(given.blocks()))
        if hasattr(given, "to_numpy"):
            given = given.to_numpy()
        if not isinstance(given, np.ndarray):
            given = np.array(given)
        return checked_blocks(self.clients, given)


def _is_part(given: Any) -> bool:
    """Whether it is a part of a table: it is read here, and names the file and row of a mistake."""
    return hasattr(given, "blocks") and hasattr(given, "rows")


@dataclass(frozen=True, repr=False)
class Seen:
    """Which sharing of a block there is, of how many users, and the sum of their clear shares."""

    number: int
    nonce: bytes
    users: int
    clear: int


def described(block: Block | Refusal, *, clear: bool) -> Seen | Refusal:
    """Return which sharing a block is, or why there is none; with its clear shares, or 0."""
    if isinstance(block, Refusal):
        return block
    total = block.group.sum(block.last) if clear else 0
    return Seen(block.number, block.nonce, block.last.size, total)


@dataclass(frozen=True, repr=False)
class Envelope:
    """One block's messages to one shuffler, or those in a range of values."""

    number: int
    nonce: bytes
    shares: NDArray[Any]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + _bytes(self.shares)


def posted(block: Block | Refusal, pieces: Sequence[Partition]) -> tuple[Envelope | Refusal, ...]:
    """Return a block's envelopes for some pieces of one shuffler's output.

    There may be none though there was a block: values can be bad when they are read again.
    """
    if isinstance(block, Refusal):
        return (block,) * len(pieces)
    rows, users = pieces[0].rows, block.last.size
    if pieces[0].parts == 1:
        shares = np.empty((len(rows), users), dtype=block.group.dtype)
        for row, out in zip(rows, shares, strict=True):
            block.row(row, out)
        return (Envelope(block.number, block.nonce, shares.reshape(-1)),)
    found: list[list[NDArray[Any]]] = [[] for _ in pieces]
    ends = [piece.ends(block.group.q) for piece in pieces]
    drawn = np.empty(users, dtype=block.group.dtype)
    for row in rows:
        block.row(row, drawn)
        for shares_in_range, (low, high) in zip(found, ends, strict=True):
            shares_in_range.append(drawn[(drawn >= low) & (drawn <= high)])
    return tuple(Envelope(block.number, block.nonce, np.concatenate(some)) for some in found)


def picked(envelopes: tuple[Envelope | Refusal, ...], place: int) -> tuple[Envelope | Refusal]:
    """Return one of several envelopes."""
    return (envelopes[place],)


@dataclass(frozen=True)
class Released:
    """What the analyzer makes of messages: their sum modulo q, their number, whose they are."""

    total: int
    count: int
    digest: bytes


def mixed(received: Sequence[tuple[Envelope | Refusal]], group: Zq) -> Released | Refusal:
    """Mix the messages of all envelopes and add them up; return why, if one is missing."""
    envelopes = []
    for (envelope,) in received:
        if isinstance(envelope, Refusal):
            return envelope
        envelopes.append(envelope)
    messages = np.concatenate([envelope.shares for envelope in envelopes])
    whose = digest((envelope.number, envelope.nonce) for envelope in envelopes)
    output = release(messages, "sorted", secure(None))
    return Released(group.sum(output), output.size, whose)
