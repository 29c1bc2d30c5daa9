"""Tasks whose clients send the analyzer a vector, and each helper a seed.

A helper decrypts a seed when it comes, and releases the sum of the vectors that the seeds of the
set stand for, once.
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

from ikos.counts.helpers import SEED_BYTES
from ikos.deployment.adding import AddingTerms
from ikos.deployment.opening import PrivateKey
from ikos.deployment.packed import add_packed, packed
from ikos.deployment.sums import sum_of
from ikos.deployment.task_fields import Integer
from ikos.deployment.terms import Chosen, Opened, Wanted
from ikos.primitives.concurrency import cores
from ikos.primitives.randomness import RandomSource, secure
from ikos.transports.base import Reports, Totals, Transport
from ikos.transports.helpers import AddedShares, AddedVectors, Helpers

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

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


def added_shares(task: Task) -> AddedShares:
    """Return the transport of a task with helpers."""
    return cast(AddedShares, task.protocol.transport)


@dataclass(frozen=True)
class HelpersTerms(AddingTerms):
    """Terms of sums with helpers, to which users add noise, or the parties."""

    helpers: Integer
    noise: Literal["users", "parties"]
    _: KW_ONLY
    kind: Literal["helpers"] = "helpers"

    intermediary: ClassVar[str] = "helper"
    options: ClassVar[frozenset[str]] = frozenset({"helpers", "noise"})
    label: ClassVar[bytes] = b"ikos-parties 3 seed"
    secret: ClassVar[str] = "seeds"

    # How a task is made

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
        count = cls.count_of(wanted, helpers, corrupt_shufflers)
        recipe = Helpers(count, noise or "users", (cls.encrypted(wanted.kem),))
        budget = wanted.epsilon, wanted.delta
        protocol = sum_of(wanted.users, wanted.domain, *budget, recipe, **numbers)
        return cls.fields_of(protocol, wanted.domain)

    @classmethod
    def of(cls, transport: Transport) -> Self:
        """Return the terms of a transport."""
        adding: Any = "parties" if cast(AddedShares, transport).noise else "users"
        return cls(transport.parties, adding)

    def recipe(self, kem: str) -> Helpers:
        """Return the recipe of sums with helpers."""
        return Helpers(self.helpers, self.noise, (self.encrypted(kem),))

    # What is sent

    @property
    def columns(self) -> int:
        """Number of helpers."""
        return self.helpers

    def own_bytes(self, task: Task) -> int:
        """Return the bytes of the vector for the analyzer."""
        return self.batch_bytes(task, 1)

    def secret_bytes(self, task: Task) -> int:
        """Return the bytes of a seed."""
        del task
        return SEED_BYTES

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
        (number,), ((vector,), *seeds) = report.ids, report.parts
        own = packed(vector[0], added_shares(window.task).group.bits)
        return own, *self.envelopes(window, number, (seed.tobytes() for (seed,) in seeds))

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
