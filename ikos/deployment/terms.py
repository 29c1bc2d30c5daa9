"""A task's description of its protocol, and what its parties do: a class for each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import ArrayLike, NDArray

from ikos.data.domains import Domain
from ikos.deployment.opening import PrivateKey
from ikos.primitives.randomness import RandomSource
from ikos.results.sums import SumResult
from ikos.transports.base import Reports, Totals

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

Opened = tuple[list[int], bytes]
"""The analyzer's record of a party's batch: sums or counts, and bytes that it needs later."""


@dataclass(frozen=True)
class Chosen:
    """The set of reports of a release, by ids in ascending order.

    ``parts`` reads the analyzer's parts from its disk: each with its report's place among the ids.
    Reports that were ``refused`` are not in the set.
    """

    ids: Sequence[bytes]
    parts: Callable[[], Iterator[tuple[int, bytes]]]
    refused: Sequence[bytes] = ()


@dataclass(frozen=True)
class Wanted:
    """The requirements of a task, whatever its protocol.

    Without a number of ``shufflers``, it gets as many as the guarantee needs.
    """

    users: int
    domain: Domain
    epsilon: float | Fraction
    delta: float | Fraction
    shufflers: int | None
    kem: str


class Terms(ABC):
    """The numbers of a protocol that all parties need, even those that cannot compute them."""

    kind: str
    intermediary: ClassVar[str] = "shuffler"
    """What a party between clients and the analyzer is called, and its program."""

    options: ClassVar[frozenset[str]] = frozenset()
    """The options of `ikos.deployment.Task.new` that only some kinds take."""

    signing_keys: tuple[bytes, ...] = ()
    """Public keys, Ed25519, of the parties that sign a release, the analyzer's first; or none."""

    kept: ClassVar[int] = 0
    """Bytes of a report that the analyzer keeps of each batch."""

    @staticmethod
    def key_holders(columns: int) -> range:
        """Return the parties that decrypt envelopes, of a task with a number of intermediaries."""
        del columns
        return range(1)

    # How a task is made

    @classmethod
    @abstractmethod
    def chosen(cls, wanted: Wanted, **options: Any) -> dict[str, Any]:
        """Return the fields of a task that follow from a guarantee.

        The options are those of `ikos.deployment.Task.new`, of which this refuses what it does not
        take.
        """

    @abstractmethod
    def protocol(self, task: Task) -> Any:
        """Return the protocol that clients and analyzer run."""

    @classmethod
    @abstractmethod
    def fields_of(cls, protocol: Any, domain: Domain) -> dict[str, Any]:
        """Return the fields of a task that follow from its protocol, these terms among them."""

    # What is sent

    @property
    @abstractmethod
    def columns(self) -> int:
        """Number of intermediaries."""

    @property
    @abstractmethod
    def copies(self) -> int:
        """Envelopes that a client sends each intermediary for each block."""

    @abstractmethod
    def order(self, task: Task) -> int:
        """Return the number of elements, of which an envelope has one for each coordinate."""

    @abstractmethod
    def blocks(self, task: Task) -> tuple[int, ...]:
        """Return the coordinates of each block."""

    @abstractmethod
    def part_bytes(self, task: Task, party: int) -> int:
        """Return the bytes that a client sends to a party."""

    def stored_bytes(self, task: Task, party: int) -> int:
        """Return the bytes that a party stores of each client's part."""
        return self.part_bytes(task, party)

    def receipt_bytes(self, task: Task) -> int:
        """Return the bytes of a report's receipt; 0 if no party checks any."""
        del task
        return 0

    def notes(self, task: Task) -> list[str]:
        """Return what is known of the result besides its guarantee, in words."""
        del task
        return []

    def batch_bytes(self, task: Task, reports: int) -> int:
        """Return the length of an intermediary's release of a number of reports."""
        return reports * self.part_bytes(task, 1)

    @abstractmethod
    def release_seconds(self, task: Task) -> float:
        """Return about the seconds of one core to release a window with all clients' reports."""

    # The clients

    @abstractmethod
    def checked(self, task: Task, x: ArrayLike, first: int) -> NDArray[Any]:
        """Return clients' values, checked; the first is client number ``first``'s."""

    @abstractmethod
    def reports(self, window: Window, values: NDArray[Any], rng: RandomSource) -> Reports:
        """Return a few clients' reports of checked values."""

    @abstractmethod
    def parts(self, window: Window, report: Reports) -> tuple[bytes, ...]:
        """Return one client's messages, the analyzer's part first."""

    # The analyzer

    @abstractmethod
    def check(self, task: Task, part: bytes) -> None:
        """Raise ValueError for the analyzer's part of a report if it cannot be released."""

    def receipts(
        self, window: Window, reports: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the id of each report, and its receipt, or None for a report that is refused.

        Reports are ids and the analyzer's parts. Before the set is fixed, the analyzer hands
        receipts to the other parties, which refuse reports, too.
        """
        del window
        return ((number, b"") for number, _ in reports)

    @abstractmethod
    def opener(
        self, window: Window, read_key: Callable[[], PrivateKey], batches: int, chosen: Chosen
    ) -> AbstractContextManager[Callable[[int, bytes], Opened]]:
        """Read batches of a set of reports, by the number of the party that released each.

        ``read_key`` returns the analyzer's private key, if it holds one. Raises ValueError, whose
        message names the party, for a batch that no honest party releases.
        """

    @abstractmethod
    def totals(self, window: Window, opened: Sequence[Opened], chosen: Chosen) -> Totals:
        """Return the totals, from all batches and the analyzer's parts."""

    def certificate(
        self,
        window: Window,
        opened: Sequence[Opened],
        chosen: Chosen,
        sign: Callable[[bytes], bytes],
    ) -> Iterator[bytes]:
        """Yield, in pieces, a file by which others can check the totals; nothing without one."""
        del window, opened, chosen, sign
        return iter(())

    @abstractmethod
    def result(self, task: Task, totals: Totals) -> SumResult:
        """Return the result for the totals of enough reports."""
