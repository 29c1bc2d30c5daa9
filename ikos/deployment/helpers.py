"""Tasks whose clients send the analyzer a vector, and each helper a seed.

A helper decrypts a seed when it comes, and releases the sum of the vectors that the seeds of the
set stand for, once. Envelopes are bound to the task, the window, the helper and the report's id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ikos._validation import InvalidValue, quote
from ikos.counts.helpers import SEED_BYTES
from ikos.deployment.envelopes import envelope_overhead
from ikos.deployment.opening import KEMS, PrivateKey, public_key, suite
from ikos.deployment.packed import add_packed, packed
from ikos.deployment.sums import AnySum, SumTerms, sum_of
from ikos.deployment.task_fields import Integer
from ikos.deployment.terms import Chosen, Opened, Wanted
from ikos.primitives.concurrency import cores
from ikos.primitives.randomness import RandomSource, secure
from ikos.results.conditions import Condition, Kind
from ikos.transports.base import Reports, Totals, Transport
from ikos.transports.helpers import AddedShares, AddedVectors, Helpers

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

LABEL = b"ikos-parties 3 seed"

ENTRIES_AT_ONCE = 1 << 16
"""Coordinates that are added up together."""

LONG_VECTOR = 1 << 14
"""Coordinates of a vector from which on threads hinder each other less than they help."""

SETTLE_SECONDS, NOISE_SECONDS = 0.1, 15e-6
"""From the drawing of noise to the answer, and for each coordinate: longer than most noise takes,
whose time reveals a little."""

REPORT_SECONDS, COORDINATE_SECONDS = 20e-6, 6e-9
"""Time of a release on one core, measured: to add up a report, and each coordinate of it."""

_T = TypeVar("_T")


def encrypted(kem: str) -> Condition:
    """Return the condition that envelopes hide seeds."""
    text = (
        f"assuming that the encryption of seeds holds (HPKE with {KEMS[kem].words}, HKDF-SHA256 "
        "and AES-128-GCM) against all but their helper, and that of connections (TLS)"
    )
    return Condition(Kind.CRYPTOGRAPHY, text, computational=True)


def seed_info(window: Window, party: int, number: bytes) -> bytes:
    """Return the context to which the envelope of a helper and a report's id is bound."""
    return LABEL + window.bound + party.to_bytes(4, "big") + number


def added_shares(task: Task) -> AddedShares:
    """Return the transport of a task with helpers."""
    return cast(AddedShares, task.protocol.transport)


@dataclass(frozen=True)
class HelpersTerms(SumTerms):
    """Terms of sums with helpers, to which users add noise, or the parties."""

    helpers: Integer
    noise: Literal["users", "parties"]
    _: KW_ONLY
    kind: Literal["helpers"] = "helpers"

    intermediary: ClassVar[str] = "helper"
    options: ClassVar[frozenset[str]] = frozenset({"helpers", "noise"})
    copies: ClassVar[int] = 1

    # How a task is made

    @staticmethod
    def key_holders(columns: int) -> range:
        """Return the helpers: the analyzer decrypts nothing."""
        return range(1, columns + 1)

    @classmethod
    def chosen(
        cls,
        wanted: Wanted,
        *,
        helpers: int | None = None,
        noise: Literal["users", "parties"] | None = None,
        corrupt_shufflers: int = 0,
        **numbers: Any,
    ) -> dict[str, Any]:
        """Return the fields of a task that follow from a guarantee."""
        if corrupt_shufflers:
            raise InvalidValue(
                "corrupt_shufflers",
                f"must not be given with helpers, of which any may be, got {corrupt_shufflers}",
            )
        count = wanted.shufflers or (1 if helpers is None else helpers)
        if helpers not in (None, count):
            raise InvalidValue(
                "helpers", f"must be the number of addresses, {count}, got {quote(helpers)}"
            )
        recipe = Helpers(count, noise or "users", (encrypted(wanted.kem),))
        budget = wanted.epsilon, wanted.delta
        protocol = sum_of(wanted.users, wanted.domain, *budget, recipe, **numbers)
        return cls.fields_of(protocol, wanted.domain)

    @classmethod
    def of(cls, transport: Transport) -> Self:
        """Return the terms of a transport."""
        adding: Any = "parties" if cast(AddedShares, transport).noise else "users"
        return cls(transport.parties, adding)

    @classmethod
    def corrupt(cls, transport: Transport) -> int:
        """Return all helpers but one."""
        return transport.parties - 1

    def protocol(self, task: Task) -> AnySum:
        """Return the private sum that clients and parties run."""
        recipe = Helpers(self.helpers, self.noise, (encrypted(task.kem),))
        names = ("precision", "modulus", "min_honest", "integers")
        numbers = {name: getattr(task, name) for name in names}
        budget = task.epsilon, task.delta
        return sum_of(task.users, task.domain, *budget, recipe, **numbers)

    # What is sent

    @property
    def columns(self) -> int:
        """Number of helpers."""
        return self.helpers

    def order(self, task: Task) -> int:
        """Return the order of the group."""
        return task.modulus

    def blocks(self, task: Task) -> tuple[int, ...]:
        """Return that a seed is for all coordinates."""
        return (added_shares(task).dimension,)

    def part_bytes(self, task: Task, party: int) -> int:
        """Return the bytes of the vector for the analyzer, or of a helper's envelope."""
        return envelope_overhead(task.kem) + SEED_BYTES if party else self.batch_bytes(task, 1)

    def stored_bytes(self, task: Task, party: int) -> int:
        """Return those of the vector, or of a seed: helpers store it under a symmetric key."""
        return SEED_BYTES if party else self.part_bytes(task, party)

    def batch_bytes(self, task: Task, reports: int) -> int:
        """Return the bytes of one vector, whatever the number of reports."""
        del reports
        return -(-added_shares(task).dimension * added_shares(task).group.bits // 8)

    def release_seconds(self, task: Task) -> float:
        """Return the seconds of one core to add up the vectors of a helper and the analyzer."""
        return task.users * (REPORT_SECONDS + added_shares(task).dimension * COORDINATE_SECONDS)

    # The clients

    def parts(self, window: Window, report: Reports) -> tuple[bytes, ...]:
        """Return the packed vector, and each helper's envelope."""
        task, (number,), ((vector,), *seeds) = window.task, report.ids, report.parts
        envelopes = (
            suite(task.kem).encrypt(
                seed.tobytes(),
                public_key(window.public_key(party), task.kem),
                seed_info(window, party, number),
            )
            for party, (seed,) in enumerate(seeds, 1)
        )
        return packed(vector[0], added_shares(task).group.bits), *map(bytes, envelopes)

    # The analyzer

    def check(self, task: Task, part: bytes) -> None:
        """Raise ValueError for bits that belong to no element."""
        bits = added_shares(task).dimension * added_shares(task).group.bits
        if part[-1] >> (bits % 8 or 8):
            raise ValueError("the bits after a vector's last element must be 0")

    @contextmanager
    def opener(
        self, window: Window, read_key: Callable[[], PrivateKey], batches: int, chosen: Chosen
    ) -> Iterator[Callable[[int, bytes], Opened]]:
        """Keep each helper's sums, packed as they come."""
        del window, read_key, batches, chosen

        def keep(_: int, data: bytes) -> Opened:
            return [], data

        yield keep

    def totals(self, window: Window, opened: Sequence[Opened], chosen: Chosen) -> Totals:
        """Return the sums of all parties, with the analyzer's noise, if the parties add noise.

        It is stored within the result before any of it is published, or drawn again.
        """
        transport, users = added_shares(window.task), len(chosen.ids)
        add = partial(add_packed, bits=transport.group.bits)

        def zeros() -> NDArray[np.uint64]:
            return np.zeros(transport.dimension, dtype=np.uint64)

        vectors = (part for _, part in chosen.parts())
        own = transport.elements(added_up(vectors, zeros, add, transport.dimension))
        view = [AddedVectors(noisy(transport, own, secure(None)), users)]
        for _, released in opened:
            add(total := zeros(), [released])
            view.append(AddedVectors(transport.elements(total), users))
        return transport.totals(tuple(view))


# The parties that add up


def added_up(
    items: Iterable[_T],
    zeros: Callable[[], NDArray[Any]],
    add: Callable[[NDArray[Any], list[_T]], None],
    dimension: int,
) -> NDArray[Any]:
    """Return a sum of vectors, which threads add to their totals, some items at a time."""
    todo, taking = iter(items), threading.Lock()
    most, threads = max(1, ENTRIES_AT_ONCE // dimension), cores()

    def work(_: int) -> NDArray[Any]:
        total = zeros()
        while True:
            with taking:
                some = list(islice(todo, most))
            if not some:
                return total
            add(total, some)

    if dimension < LONG_VECTOR:
        return work(0)
    with ThreadPoolExecutor(threads) as executor:
        first, *others = executor.map(work, range(threads))
    for other in others:
        first += other
    return first


def noisy(transport: AddedShares, sums: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
    """Return a party's sums with its noise, if it adds any, after a time that tells nothing."""
    if transport.noise is not None:
        begin = time.monotonic()
        transport.noisy(transport.elements(transport.zeros()), secure(None))  # to know how long
        now = time.monotonic()
        least = SETTLE_SECONDS + NOISE_SECONDS * transport.dimension
        until = now + max(least, 2 * (now - begin))
        sums = transport.noisy(sums, rng)
        time.sleep(max(0.0, until - time.monotonic()))
    return sums
