"""A task's description of its transport, and what its parties do: a class for each transport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self

from ikos.deployment.opening import PrivateKey
from ikos.transports.base import Recipe, Reports, Totals, Transport
from ikos.transports.shares import Shuffled

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

Opened = tuple[list[int], bytes]
"""The analyzer's record of a party's batch: sums, and bytes that it needs later."""


class Terms(ABC):
    """The numbers of a transport that all parties need, even those that cannot compute them."""

    kind: str

    @classmethod
    @abstractmethod
    def checked_length(cls, layout: object, dimension: int) -> int:
        """Check a layout and return the length of its blocks, 0 if that is to be chosen."""

    @classmethod
    @abstractmethod
    def recipe(cls, shuffled: Shuffled) -> Recipe:
        """Return the recipe of the transport, with what is shared in envelopes."""

    @classmethod
    @abstractmethod
    def of(cls, transport: Transport) -> Self:
        """Return the terms of a transport that this recipe made."""

    @abstractmethod
    def part_bytes(self, task: Task, party: int) -> int:
        """Return the bytes that a client sends to a party."""

    @abstractmethod
    def parts(self, window: Window, report: Reports) -> tuple[bytes, ...]:
        """Return one client's messages, the analyzer's part first."""

    @abstractmethod
    def released(self, task: Task, parts: Sequence[bytes]) -> Iterator[bytes]:
        """Yield, in pieces, a party's release for its parts of a set, in the order of ids.

        It is as long as the parts together.
        """

    @abstractmethod
    def check(self, task: Task, part: bytes) -> None:
        """Raise ValueError for the analyzer's part of a report if it cannot be released."""

    @abstractmethod
    def opener(
        self, window: Window, key: PrivateKey, batches: int, reports: int
    ) -> AbstractContextManager[Callable[[int, bytes], Opened]]:
        """Decrypt batches of a set of reports, by the number of the party that released each.

        Raises ValueError, whose message names the party, if a batch cannot be decrypted.
        """

    @abstractmethod
    def totals(
        self, window: Window, opened: Sequence[Opened], parts: Iterable[tuple[int, bytes]]
    ) -> Totals:
        """Return the sums, from all batches and the analyzer's parts, which are read once.

        Each part comes with its report's place in the order of ids.
        """

    @abstractmethod
    def release_seconds(self, task: Task) -> float:
        """Return about the seconds of one core to release a window with all clients' reports."""
