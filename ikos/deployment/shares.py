"""Tasks whose clients send shares of their values; the common part of all shares in envelopes.

A client sends a share in the clear to the analyzer, and to each shuffler an envelope for each block
of coordinates.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, replace
from fractions import Fraction
from functools import cache, partial
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from pydantic.dataclasses import dataclass

from ikos._validation import InvalidValue, quote
from ikos.counts.vectors import Layout, checked_layout, least_bytes, sums_of
from ikos.data.domains import Domain
from ikos.deployment.envelopes import EnvelopeTerms, encrypted, envelope_overhead
from ikos.deployment.hpke import clear_part, read_clear
from ikos.deployment.opening import X25519
from ikos.deployment.sums import NUMBERS, AnySum, SumTerms, sum_of
from ikos.deployment.task_fields import Integer
from ikos.deployment.terms import Chosen, Opened, Wanted
from ikos.transports.base import Recipe, Reports, Totals, Transport
from ikos.transports.shares import Shares, Shuffled

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window


@dataclass(frozen=True)
class ShareTerms(EnvelopeTerms, SumTerms):
    """Terms of private sums whose clients send shares in envelopes, of whatever is shared.

    Each block of ``block_length`` coordinates has ``messages`` messages, the analyzer's included.
    """

    messages: Integer
    block_length: Integer

    work: ClassVar[str] = "add up"
    copies: ClassVar[int] = 1

    @property
    def columns(self) -> int:
        """Number of shufflers: one for each shuffled message."""
        return self.messages - 1

    # How a task is made

    @classmethod
    @abstractmethod
    def checked_length(cls, layout: object, dimension: int) -> int:
        """Check a layout and return the length of its blocks, 0 if that is to be chosen."""

    @classmethod
    @abstractmethod
    def recipe(cls, shuffled: Shuffled) -> Recipe:
        """Return the recipe of the transport, with what is shared in envelopes."""

    @staticmethod
    @abstractmethod
    def shares(transport: Transport) -> Shares:
        """Return the shares of a transport that are in envelopes."""

    @classmethod
    def private_sum(
        cls,
        users: int,
        domain: Domain,
        epsilon: float | Fraction,
        delta: float | Fraction,
        block_length: str | int = 1,
        *,
        kem: str = X25519,
        corrupt_shufflers: int = 0,
        messages: int | None = None,
        **options: Any,
    ) -> AnySum:
        """Return the private sum of values of a domain, between parties.

        The analyzer may choose among the reports after seeing its own shares. So these shares hide
        nothing: the analyzer counts as one more colluding shuffler, beyond ``corrupt_shufflers``.
        docs/message-counts.md ("A batch of the analyzer's choice") and, for masked vectors,
        docs/masked-vectors.md prove that this suffices, as the honest shufflers release nothing
        before all of them agree to one choice (`ikos.deployment.intermediary`).
        """
        shuffled = Shuffled(
            corrupt_shufflers=corrupt_shufflers,
            messages=messages,
            layout=block_length,
            overhead=envelope_overhead(kem),
            adaptive=True,
            assumptions=(encrypted(kem),),
        )
        return sum_of(users, domain, epsilon, delta, cls.recipe(shuffled), **options)

    @classmethod
    def chosen(
        cls,
        wanted: Wanted,
        *,
        layout: str | int | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the fields of a task that follow from a guarantee."""
        length, shufflers = cls.checked_length(layout, wanted.domain.dimension), wanted.shufflers
        budget = wanted.epsilon, wanted.delta
        of_length: Callable[..., AnySum] = partial(
            cls.private_sum, wanted.users, wanted.domain, *budget, kem=wanted.kem
        )
        if not length:
            length = cls._best_length(partial(of_length, **options), shufflers, wanted.kem)
        needed = of_length(length, **options)
        columns = needed.messages.total - 1
        corrupt = options.get("corrupt_shufflers", 0)
        if shufflers is None:
            shufflers = columns
        if shufflers < columns:
            raise InvalidValue(
                "shufflers",
                f"must be at least {columns} addresses for epsilon = {quote(wanted.epsilon)}, "
                f"delta = {quote(wanted.delta)}, {needed.min_honest:,} honest users and "
                f"{corrupt} colluding shufflers, got {shufflers}",
            )
        numbers = {name: getattr(needed, name) for name in ("precision", "modulus", "min_honest")}
        numbers |= {"corrupt_shufflers": corrupt, "integers": needed.encoding.exact}
        return cls.fields_of(of_length(length, messages=shufflers + 1, **numbers), wanted.domain)

    @classmethod
    def _best_length(
        cls, of_length: Callable[[int], AnySum], shufflers: int | None, kem: str
    ) -> int:
        """Return the length of the fewest blocks for so many shufflers, or of the fewest bytes."""
        of_length = cache(of_length)
        dimension = cls.shares(of_length(1).transport).dimension

        def shortest(length: int) -> int:
            """Return that of as many blocks: longer ones take as many bytes, and prove less."""
            return -(-dimension // sums_of(dimension, length))

        if shufflers is not None:
            lengths = sorted(set(map(shortest, range(1, dimension + 1))))
            total = shufflers + 1
            fitting = bisect_right(lengths, total, key=lambda b: of_length(b).messages.total)
            return lengths[max(0, fitting - 1)]

        def sealed(length: int) -> Layout:
            """Return what goes to shufflers, in whole bytes; the rest is the same for all."""
            layout = cls.shares(of_length(shortest(length)).transport).layout
            count = replace(layout.count, shuffled=layout.count.shuffled - 1)
            return replace(layout, length=length, bits=-(-layout.bits // 8) * 8, count=count)

        return shortest(least_bytes(sealed, dimension, envelope_overhead(kem)).length)

    @classmethod
    def corrupt(cls, transport: Transport) -> int:
        """Return how many shufflers may collude, as the analyzer counts as one more."""
        return cls.shares(transport).trust.corrupt_shufflers - 1

    def protocol(self, task: Task) -> AnySum:
        """Return the private sum that clients and analyzer run."""
        numbers = {name: getattr(task, name) for name in (*NUMBERS, "kem")}
        budget = task.epsilon, task.delta, self.block_length
        return self.private_sum(task.users, task.domain, *budget, messages=self.messages, **numbers)

    # What is sent

    def shares_of(self, task: Task) -> Shares:
        """Return what clients share in envelopes."""
        return self.shares(task.protocol.transport)

    def order(self, task: Task) -> int:
        """Return the order of the group of shares."""
        return self.shares_of(task).q

    def blocks(self, task: Task) -> tuple[int, ...]:
        """Return the coordinates of each block."""
        return tuple(part.stop - part.start for part in self.shares_of(task).blocks)

    def part_bytes(self, task: Task, party: int) -> int:
        """Return the bytes of a shuffler's envelopes, or of the analyzer's share."""
        return super().part_bytes(task, party) if party else task.width * sum(task.blocks)

    # The clients

    def parts(self, window: Window, report: Reports) -> tuple[bytes, ...]:
        """Return the analyzer's share, and each shuffler's envelopes."""
        (*_, own), *others = report.parts
        envelopes = (
            self.envelopes(window, column, row.tolist())
            for column, (row, *_) in enumerate(others, 1)
        )
        return (clear_part(own[0].tolist(), window.task), *envelopes)

    # The analyzer

    def check(self, task: Task, part: bytes) -> None:
        """Raise ValueError for an invalid share: later it would stop the release."""
        read_clear(part, task)

    def gathered(self, task: Task, contents: Iterable[tuple[int, list[int]]]) -> list[int]:
        """Return the sums of all shares of a batch."""
        totals, blocks = [0] * sum(task.blocks), self.shares_of(task).blocks
        for block, sums in contents:
            totals[blocks[block]] = map(add, totals[blocks[block]], sums)
        return totals

    def totals(self, window: Window, opened: Sequence[Opened], chosen: Chosen) -> Totals:
        """Return the sums of all shares."""
        task = window.task
        totals = [0] * sum(task.blocks)
        for sums, _ in opened:
            totals = list(map(add, totals, sums))
        for _, part in chosen.parts():  # each was checked when it came
            totals = list(map(add, totals, read_clear(part, task)))
        return Totals([total % task.order for total in totals], len(chosen.ids))


@dataclass(frozen=True)
class SharesTerms(ShareTerms):
    """Terms of shares of values."""

    _: KW_ONLY
    kind: Literal["shares"] = "shares"

    options: ClassVar[frozenset[str]] = frozenset({"layout"})

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
