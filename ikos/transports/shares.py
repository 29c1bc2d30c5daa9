"""Additive shares that shufflers mix (IKOS06; BBGN20, Sections 5.1 and 6).

A number is a vector of one coordinate. Vectors are cut into *blocks* of coordinates
(`ikos.counts.vectors`): a message is one element of the group of a block, a share of each of its
coordinates, and every block has its own shufflers. Shares are drawn coordinate by coordinate,
whatever the blocks are.

- A client's shares are an array (messages, dimension), of which message j of the block with
  coordinates ``blocks[k]`` is the part ``[j, blocks[k]]``. The last row is a clear share, if there
  is one; each other one goes to a separate shuffler, or all of a block's to its single one.
- The shufflers release a `View`: all columns of the first block, then those of the next, each in
  its own order, and the clear shares of whole vectors.
- The analyzer adds up all messages of a block, in the group Z_q^length, and joins the blocks' sums.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain, repeat
from operator import call
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from ikos._validation import (
    InvalidType,
    InvalidValue,
    choice,
    integer,
    quote,
    refuse_missing,
)
from ikos.counts import Layout, MessageCount, Remaining, private_remaining
from ikos.counts import remaining as remaining_count
from ikos.counts.analyses import checked_analysis, checked_scheme, same_family
from ikos.counts.private import checked_reserves
from ikos.counts.published import covered, unproved
from ikos.counts.types import MAX_MESSAGES, Trust
from ikos.counts.vectors import (
    ENVELOPE_BYTES,
    LAYOUTS,
    MASKED,
    checked_layout,
    level_of_sums,
    secure_layout,
)
from ikos.data.encoding import Encoding
from ikos.data.reading import Columns, Inputs, Participation, Reader, columns
from ikos.noise.base import Noise, UsersNoise
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.numeric.rounding import UP, exact, float_up
from ikos.primitives.concurrency import Interrupted, Progress, cores, spread
from ikos.primitives.mixing import MESSAGES_FOR_ALL_CORES, Encoder, mixed_sum, mixed_sums
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource
from ikos.primitives.sharing import USERS_PER_SOURCE, SharingScheme, split
from ikos.primitives.shuffling import MESSAGE_ORDERS, View, shuffle
from ikos.results.conditions import Condition, alone, collusion, present, unproved_group
from ikos.transports.base import (
    Need,
    Part,
    Recipe,
    Reports,
    ReportSet,
    Totals,
    Transport,
    Work,
    drawn_ids,
)
from ikos.transports.packing import pack, unpack
from ikos.transports.shares_budget import SharesBudget

USERS_PER_COORDINATE = 1 << 22
"""Users from which all threads share one coordinate of vectors."""

MAX_ENTRIES = 1 << 28
"""Most entries of an array of shares of vectors."""


@dataclass(frozen=True)
class Shares(Transport):
    """Shares modulo q of the values of ``n`` users; ``scalar`` if values are numbers.

    If the set of reports is chosen after the analyzer saw its own shares (``adaptive``), these hide
    nothing: the last row is the analyzer's, who counts among the colluding shufflers of ``trust``.
    docs/message-counts.md ("A batch of the analyzer's choice") proves that this suffices.
    """

    n: int
    q: int
    layout: Layout
    trust: Trust
    scalar: bool
    adaptive: bool = False
    assumptions: tuple[Condition, ...] = ()

    name: ClassVar[str] = "shares"

    def __post_init__(self) -> None:
        # colluding shufflers may cost too many messages
        integer("messages", self.layout.count.total, low=1, high=MAX_MESSAGES)

    @cached_property
    def scheme(self) -> SharingScheme:
        """The messages and their recipients, per coordinate."""
        trust = self.trust
        return SharingScheme(self.group, self.layout.count.total, trust.single, trust.clear_share)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """The coordinates that are shuffled together."""
        return tuple(blocks(self.dimension, self.layout.length))

    @property
    def shuffled(self) -> int:
        """Rows of shares that shufflers get."""
        return self.scheme.shuffled - self.adaptive

    @property
    def parties(self) -> int:
        """Shufflers per block: one for each shuffled message, or a single one."""
        return 1 if self.trust.single else self.shuffled

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The assumptions on the group, the users and the shufflers."""
        trust = self.trust
        if trust.single:
            shufflers = alone(trust.clear_share)
        else:
            which = "shufflers" if self.scalar or self.adaptive else "shufflers of each sum"
            shufflers = collusion(trust.corrupt_shufflers - self.adaptive, which)
        missing = unproved(self.layout.count.analysis, self.q, self.layout.length)
        return (
            *unproved_group(missing),
            present(trust.min_honest, self.n, adaptive=self.adaptive),
            shufflers,
            *self.assumptions,
        )

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        vector = {} if self.scalar else {"dimension": self.dimension, "layout": self.layout.name}
        return {
            "protocol": f"ikos-secure-{'' if self.scalar else 'vector-'}sum-2",
            "n": self.n,
            "q": hex(self.q),
            "shuffled": self.layout.count.shuffled,
            "clear": self.layout.count.clear,
            "shuffler": self.trust.shuffler,
            "min_honest": self.trust.min_honest,
            "corrupt_shufflers": self.trust.corrupt_shufflers,
            **vector,
            **({"adaptive": True} if self.adaptive else {}),
        }

    @property
    def description(self) -> str:
        """The shufflers and the honest users, in words."""
        trust = self.trust
        words = trust.shuffler
        if trust.min_honest < self.n:
            words += f", min_honest={trust.min_honest}"
        if corrupt := trust.corrupt_shufflers - self.adaptive:
            words += f", corrupt_shufflers={corrupt}"
        return words

    def remaining(self, *, honest: int | None, corrupt_shufflers: int | None) -> MessageCount:
        """Return the remaining guarantee of whole vectors if fewer are honest than planned."""
        count, present = self.layout.count, self._present(honest, corrupt_shufflers)
        order, analysis = self.q**self.layout.length, count.analysis or "best"
        rest = remaining_count(self.n, order, count.total, analysis=analysis, **present)
        level = level_of_sums(rest.sigma, self.layout.sums, analysis=rest.analysis)
        return replace(rest, sigma=level)

    def _present(self, honest: int | None, corrupt_shufflers: int | None) -> dict[str, Any]:
        """Return who is honest, as arguments of counts; as planned if it is None."""
        trust = self.trust
        corrupt = trust.corrupt_shufflers
        if corrupt_shufflers is not None:  # an analyzer that chooses the set is one more
            corrupt = integer("corrupt_shufflers", corrupt_shufflers, low=0) + self.adaptive
        least = trust.min_honest if honest is None else honest
        return {"honest": least, "corrupt_shufflers": corrupt, **trust.graph}

    def remaining_privacy(
        self,
        noise: Noise,
        precision: int,
        delta: float | Fraction,
        **present: int | None,
    ) -> Remaining:
        """Return the remaining privacy of a sum of numbers in {0..precision} with noise.

        By the published analysis requested, or by "best".
        """
        trust, count = self.trust, self.layout.count
        counted = self._present(**present)
        remaining = private_remaining(
            self.n,
            self.q,
            count.total,
            noise.value * precision,
            delta,
            precision,
            noise_users=trust.min_honest,
            analysis=same_family(count.analysis),
            **counted,
        )
        # the search may just miss the plan, where the plan itself holds
        planned = counted["honest"] >= trust.min_honest
        planned &= counted["corrupt_shufflers"] <= trust.corrupt_shufflers
        assert self.layout.epsilon is not None
        whole = float_up(exact(self.layout.epsilon, UP))
        if planned and remaining.epsilon > whole and count.delta and count.delta <= remaining.delta:
            return replace(remaining, epsilon=whole)
        return remaining

    # The clients

    def report(
        self, reader: Reader, values: NDArray[Any], rng: RandomSource, context: bytes = b""
    ) -> Reports:
        """Return a few clients' shares, a row of each for each party."""
        shares = self.shares_of(reader, values, rng)
        return self.reports(shares, drawn_ids(len(values), rng))

    def shares_of(self, reader: Reader, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return shares of a few users' checked values, (messages, k, dimension)."""
        if not self.scalar:
            return self._vector_shares(len(values), columns(reader, values, rng))
        elements = reader.elements(values, rng.streams()(0))
        return split(elements, self.group, self.scheme.messages, rng)[..., np.newaxis]

    def reports(self, shares: NDArray[Any], ids: tuple[bytes, ...]) -> Reports:
        """Return shares, (messages, k, dimension), by party."""
        last = 1 if self.adaptive or self.scheme.clear else 0
        mixed = shares[: len(shares) - last]
        rows = [np.moveaxis(mixed, 0, 1)] if self.trust.single else list(mixed)
        return Reports(ids, (tuple(shares[len(mixed) :]), *((row,) for row in rows)))

    def share(self, inputs: Inputs, rng: RandomSource, context: bytes = b"") -> NDArray[Any]:
        """Return all users' shares, (messages, k) of numbers, or (messages, k, dimension)."""
        if not self.scalar:
            vectors = inputs.vectors()
            return self._vector_shares(len(vectors), columns(inputs.reader, vectors, rng))
        elements = inputs.numbers(rng)
        if isinstance(elements, Encoder):
            encoder, elements = elements, np.empty(elements.users, dtype=self.group.dtype)
            for number, part in enumerate(blocks(encoder.users, USERS_PER_SOURCE)):
                encoder.write(number, part, elements[part])
        return split(elements, self.group, self.scheme.messages, rng)

    def _vector_shares(self, users: int, parts: Iterator[Columns]) -> NDArray[Any]:
        """Return the shares of vectors, (messages, users, dimension)."""
        m, d = self.scheme.messages, self.dimension
        entries = m * users * d
        if entries > MAX_ENTRIES:
            raise InvalidValue(
                "x",
                f"has users whose shares have {entries} entries, more than "
                f"{MAX_ENTRIES}; use run, or fewer users",
            )
        shares = np.empty((m, d, users), dtype=self.group.dtype)
        first = 0
        for elements, writes, bunches in parts:
            for write in writes:
                write(elements)
            for rows, rng in bunches:
                drawn = split(elements[rows].reshape(-1), self.group, m, rng)
                here = slice(first, first := first + rows.stop - rows.start)
                shares[:, here] = drawn.reshape(m, -1, users)
        return np.moveaxis(shares, 1, -1)

    # The shufflers

    def shuffle(
        self,
        shares: Any,
        rng: RandomSource,
        order: str,
        users: Participation,
        context: bytes = b"",
    ) -> View:
        """Pass shares, as `share` returns them, through the shufflers."""
        choice("order", order, MESSAGE_ORDERS)
        if not isinstance(shares, np.ndarray):
            raise InvalidType("shares", f"must be a numpy array, got {type(shares).__name__}")
        refuse_missing("shares", shares)
        rest = () if self.scalar else (self.dimension,)
        sent = shares.shape[1] if shares.ndim > 1 else "users"
        if shares.shape != (self.scheme.messages, sent, *rest):
            wanted = ", ".join(map(str, (self.scheme.messages, "users", *rest)))
            raise InvalidValue(
                "shares",
                f"must have shape ({wanted}), got {shares.shape}: "
                "all of a user's shares are needed, or none",
            )
        users.check("shares", shares.shape[1])
        self._check_elements("shares", shares)
        vectors = shares.reshape(*shares.shape[:2], self.dimension)
        mixed = vectors[: self.scheme.shuffled]
        released: list[NDArray[Any]] = []
        for block in self.blocks:
            messages = pack(mixed[..., block], self.group)
            released += shuffle(messages, shuffler=self.trust.shuffler, order=order, rng=rng)
        return View(tuple(released), self._clear(vectors[-1]) if self.scheme.clear else None)

    def _check_elements(self, name: str, elements: NDArray[Any]) -> None:
        """Refuse anything but an array of group elements."""
        if not self.group.contains(elements):
            raise ValueError(
                f"{name} must be of dtype {self.group.dtype} in [0, q) for q = {quote(self.q)}, "
                f"got dtype {elements.dtype} or values beyond (not shown)"
            )

    def _clear(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Return clear shares, (k, dimension), as read-only messages."""
        clear = pack(vectors, self.group).copy()
        clear.setflags(write=False)
        return clear

    def check(self, party: int, part: Part) -> None:
        """Refuse anything but rows of shares."""
        last = 1 if self.adaptive or self.scheme.clear else 0
        rows = (self.shuffled, self.dimension) if party and self.trust.single else (self.dimension,)
        if len(part) != (1 if party else last) or any(shares.shape[1:] != rows for shares in part):
            raise InvalidValue(
                "part", f"must hold rows of shares of shape {rows} for party {party}"
            )
        for shares in part:
            self._check_elements("part", shares)

    def release(self, party: int, part: Part, rng: RandomSource, **of: Unpack[ReportSet]) -> Any:
        """Return columns of mixed messages, one per block; the analyzer's part as it is."""
        if not party:
            return part
        (rows,) = part
        each = rows if self.trust.single else rows[:, np.newaxis]
        options: dict[str, Any] = {"shuffler": "single", "rng": rng}
        options["order"] = of.get("order", "sorted")
        mixed = (pack(np.moveaxis(each, 1, 0)[..., block], self.group) for block in self.blocks)
        return tuple(shuffle(messages, **options)[0] for messages in mixed)

    def view(self, released: Sequence[Any]) -> View:
        """Return the analyzer's view, as of all users at once."""
        analyzer, *by_party = released
        if self.adaptive:  # its own messages count as those of one more shuffler
            by_party.append(tuple(pack(analyzer[0][:, block], self.group) for block in self.blocks))
        released_columns = tuple(chain.from_iterable(zip(*by_party, strict=True)))
        return View(released_columns, self._clear(analyzer[0]) if self.scheme.clear else None)

    # The analyzer

    def totals(self, view: Any, context: bytes = b"") -> Totals:
        """Return the sum of each coordinate modulo q, and the number of users in a view."""
        if not isinstance(view, View):
            raise InvalidType("view", f"must be a View, got {type(view).__name__}")
        each, per_column = self.scheme.shuffled, 1
        if self.trust.single:
            each, per_column = 1, each
        expected = each * len(self.blocks)
        if len(view.columns) != expected or (view.clear is not None) != self.scheme.clear:
            raise InvalidValue(
                "view",
                f"must hold the output of {expected} shufflers "
                f"{'and' if self.scheme.clear else 'without'} clear shares, got {view!r}",
            )
        received = [(a, self.blocks[i // each]) for i, a in enumerate(view.columns) if per_column]
        sizes = {column.size / per_column for column, _ in received}
        if view.clear is not None:
            received.append((view.clear, slice(0, self.dimension)))
            sizes.add(view.clear.size)
        unasked = not per_column and any(column.size for column in view.columns)
        if unasked or len(sizes) != 1 or not float(users := sizes.pop()).is_integer():
            raise InvalidValue(
                "view",
                "must hold the same number of messages in all columns, clear shares included, "
                f"got {view!r}",
            )
        sums = [0] * self.dimension
        for messages, block in received:
            vectors = unpack(messages, self.group, block.stop - block.start)
            if not self.group.contains(vectors):
                raise InvalidValue(
                    "view",
                    f"must hold {self.group.dtype} messages in [0, q) for "
                    f"q = {quote(self.q)}; there are others (not shown)",
                )
            for c in range(block.start, block.stop):
                sums[c] += self.group.sum(np.ascontiguousarray(vectors[:, c - block.start]))
        return Totals([total % self.q for total in sums], int(users))

    # All of them

    def run(
        self, inputs: Inputs, rng: RandomSource, context: bytes = b"", **work: Unpack[Work]
    ) -> Totals:
        """Play all parties, message for message as `share`, `shuffle` and `totals` do."""
        if not self.scalar:
            vectors = inputs.vectors()
            parts = columns(inputs.reader, vectors, rng)
            return Totals(self._vector_sums(len(vectors), parts, **work), len(vectors))
        elements = inputs.numbers(rng)
        users = elements.users if isinstance(elements, Encoder) else elements.size
        total = mixed_sum(elements, self.scheme, rng, **work)
        return Totals([total], users)

    def _vector_sums(
        self,
        users: int,
        parts: Iterator[Columns],
        threads: int | None,
        progress: Progress | None,
    ) -> list[int]:
        """Return the sum of each coordinate modulo q; each thread makes those of some."""
        scheme, d = self.scheme, self.dimension
        if threads is None:
            threads = cores() if users * d * scheme.messages >= MESSAGES_FOR_ALL_CORES else 1
        sums: list[int] = []
        stop = threading.Event()
        pool = nullcontext() if threads == 1 else ThreadPoolExecutor(threads)
        try:
            with pool as executor, ExitStack() as before:
                before.callback(stop.set)  # before the executor waits for its threads
                for elements, writes, bunches in parts:
                    deque(spread(call, zip(writes, repeat(elements), strict=False), executor), 0)
                    totals: Iterable[list[int]]
                    if users < USERS_PER_COORDINATE:
                        tasks = ((elements[rows], scheme, rng, stop) for rows, rng in bunches)
                        totals = spread(mixed_sums, tasks, executor)
                    else:
                        add_up = partial(mixed_sum, scheme=scheme, threads=threads)
                        totals = ([add_up(elements[rows.start], rng=rng)] for rows, rng in bunches)
                    for total in chain.from_iterable(totals):
                        sums.append(total)
                        if progress is not None:
                            progress(len(sums), d)
        except KeyboardInterrupt:
            raise Interrupted(None, len(sums), d, "coordinates") from None
        return sums


@dataclass(frozen=True)
class Shuffled(Recipe):
    """The options of shares: the recipe of `Shares`.

    Parameters
    ----------
    shuffler : {"parallel", "single"}
        One shuffler per shuffled message, or one for all of them.
    clear_share : bool
        Whether the last share bypasses the shufflers: the analyzer may know whose it is.
    corrupt_shufflers : int
        How many parallel shufflers may collude with the analyzer; each costs a message.
    messages : int, optional
        Messages per user and block, the clear share included; by default the fewest proved.
    analysis : {"best", "second_moment", "balle2020", "ghazi2020", "ishai2006"}
        Bound on the security level; "best" is the best one proved.
    reserve : float or "fewest"
        For private sums: largest fraction of epsilon that imperfect hiding may take.
    layout : {"separate", "group", "blocks"} or int
        For vectors: the number of coordinates that are shuffled together.
    overhead : int
        For "blocks": transport overhead per message in bytes, 48 for an HPKE envelope.
    adaptive : bool
        Whether the set of reports is chosen after the analyzer saw its own shares, as in
        deployments. Then there is no clear share, and one more message.
    assumptions : tuple of Condition
        Further conditions of guarantees, such as the encryption of messages in transit.
    """

    shuffler: str = "parallel"
    clear_share: bool = True
    corrupt_shufflers: int = 0
    messages: int | None = None
    analysis: str = "best"
    reserve: float | Fraction | str = 0.01
    layout: str | int = "separate"
    overhead: int = ENVELOPE_BYTES
    adaptive: bool = False
    assumptions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.layout, str):
            choice("layout", self.layout, (*LAYOUTS, MASKED))

    @classmethod
    def of(cls, options: Shuffled) -> Shuffled:
        """Return the options."""
        return options

    def order(self, least: int) -> int:
        """Return the smallest power of two from ``least`` on; for "ghazi2020", the next prime."""
        if self.analysis == "ghazi2020":  # proved for primes only
            return covered(self.analysis, least)
        return 1 << (least - 1).bit_length()

    def trusted(self) -> dict[str, Any]:
        """Return the shufflers that are trusted; an analyzer that chooses is one that is not."""
        if not self.adaptive:
            clear, corrupt = self.clear_share, self.corrupt_shufflers
        else:
            clear, corrupt = False, integer("corrupt_shufflers", self.corrupt_shufflers, low=0) + 1
        return {"shuffler": self.shuffler, "clear_share": clear, "corrupt_shufflers": corrupt}

    def secure(
        self, users: Participation, dimension: int | None, q: int, upper: int | None, sigma: object
    ) -> Shares:
        """Return the fewest messages that prove a level, or a given number with its level."""
        del upper
        analysis = checked_analysis(self.analysis)
        scheme = checked_scheme(users.n, q, users.least, analysis=analysis, **self.trusted())
        size = (1, 1) if dimension is None else (dimension, self.layout)
        layout = secure_layout(scheme, sigma, *size, self.overhead, self.messages)
        more = self.adaptive, self.assumptions
        return Shares(users.n, q, layout, scheme.trust, dimension is None, *more)

    def _budget(self, need: Need) -> SharesBudget:
        """Return the plan of the shares of a private sum."""
        d = need.shift.dimension
        return SharesBudget(
            need=need,
            trust=Trust.of(need.users.n, min_honest=need.users.least, **self.trusted()),
            analysis=checked_analysis(self.analysis),
            reserve=checked_reserves(self.reserve)[-1],
            length=1 if need.scalar else checked_layout(self.layout, d, self.messages),
            overhead=integer("overhead", self.overhead, low=0),
        )

    def largest_noise(self, need: Need) -> UsersNoise:
        """Return the noise if hiding takes as much of epsilon as it may."""
        budget = self._budget(need)
        noise: Noise = budget.largest_noise
        if need.scalar:  # whatever the analysis spends on hiding
            noise = LaplaceNoise(need.epsilon * (1 - budget.reserve) / need.shift.l1)
        return UsersNoise(noise, need.users.least)

    def size(self, need: Need, encoding: Encoding, q: int) -> tuple[Shares, UsersNoise, float]:
        """Return the fewest messages that prove the budget, or given ones, with the noise."""
        del encoding
        messages = self.messages
        if messages is not None:
            messages = integer("messages", messages, low=1, high=MAX_MESSAGES)
        budget = self._budget(need)

        def cost(chosen: tuple[Layout, Noise]) -> tuple[bool, int]:
            layout, _ = chosen
            assert layout.delta is not None
            return layout.delta > need.delta, layout.messages_per_user

        reserves = checked_reserves(self.reserve)
        tried = [replace(budget, reserve=part).chosen(q, messages) for part in reserves]
        layout, noise = min(tried, key=cost)
        assert layout.delta is not None
        more = self.adaptive, self.assumptions
        transport = Shares(need.users.n, q, layout, budget.trust, need.scalar, *more)
        return transport, UsersNoise(noise, need.users.least), layout.delta
