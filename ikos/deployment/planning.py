"""How a task is chosen: blocks, precision, group and messages for a guarantee; and its report."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ikos._validation import quote
from ikos.counts.vectors import Layout, checked_layout, least_bytes, sums_of
from ikos.data.domains import Bounds, Domain
from ikos.deployment.enveloped import EnvelopedSum, EnvelopedVectorSum, noise_of, protocol_of
from ikos.deployment.opening import HYBRID, KEMS, TAG_BYTES, X25519
from ikos.deployment.task_fields import words_of
from ikos.results.report import Field, Report
from ikos.results.sums import at_least

if TYPE_CHECKING:
    from ikos.deployment.task import Task

NUMBERS = ("precision", "modulus", "min_honest", "corrupt_shufflers")
"""Parameters of a protocol that are chosen where a task does not give them."""

ENVELOPE_SECONDS, COORDINATE_SECONDS = {X25519: 65e-6, HYBRID: 100e-6}, 0.5e-6
"""What one core takes in a release, measured (documentation, Load): to fetch, open and add up an
envelope, and for each coordinate in it."""

COLUMNS = [Field("name", "one of the keys", ""), Field("value", "that of the key", "value")]
_PROMISED = ("min_honest", "corrupt_clients", "corrupt_shufflers")
_GUARANTEED = ("epsilon", "delta", "theorem", "conditions")


@dataclass(frozen=True)
class TaskPlan:
    """The numbers of a task: what its parties compute and prove, wherever they are."""

    delta: Fraction
    domain: Domain
    labels: tuple[str, ...]
    block_length: int
    corrupt_clients: int
    kem: str
    protocol: EnvelopedSum | EnvelopedVectorSum

    @classmethod
    def choose(
        cls,
        users: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        shufflers: int | None,
        kem: str,
        *,
        domain: Domain | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
        labels: Sequence[str] = (),
        layout: str | int = "separate",
        corrupt_clients: int = 0,
        **options: Any,
    ) -> TaskPlan:
        """Return the plan for so many shufflers, by default as many as the guarantee needs.

        The other parameters are those of `ikos.deployment.Task.new`.
        """
        if unknown := options.keys() - {*NUMBERS, "integers"}:
            raise TypeError(f"{min(unknown)} is not an option of a task")
        values = Bounds(lower, upper) if domain is None else domain
        length = checked_layout(layout, values.dimension, None)
        of_length = partial(protocol_of, users, values, epsilon, delta, kem=kem)
        if not length:
            candidates = partial(of_length, **options)
            length = _best_length(candidates, values.dimension, shufflers, kem)
        needed = of_length(length, **options)
        columns = needed.layout.count.total - 1
        if shufflers is None:
            shufflers = columns
        if shufflers < columns:
            raise ValueError(
                f"shufflers must be at least {columns} addresses for epsilon = {quote(epsilon)}, "
                f"delta = {quote(delta)}, {needed.min_honest:,} honest users and "
                f"{needed.corrupt_shufflers} colluding shufflers, got {shufflers}"
            )
        numbers = {name: getattr(needed, name) for name in NUMBERS}
        numbers["integers"] = needed.encoding.exact
        protocol = of_length(length, messages=shufflers + 1, **numbers)
        return cls(Fraction(delta), values, tuple(labels), length, corrupt_clients, kem, protocol)

    @property
    def columns(self) -> int:
        """Number of shufflers."""
        return self.protocol.layout.count.total - 1

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a task that follow from it."""
        protocol = self.protocol
        return {
            "users": protocol.n,
            "epsilon": protocol.epsilon,
            "delta": self.delta,
            "domain": self.domain,
            "integers": protocol.encoding.exact,
            "labels": self.labels,
            "corrupt_clients": self.corrupt_clients,
            "block_length": self.block_length,
            "messages": self.columns + 1,
            "noise": noise_of(protocol),
            "kem": self.kem,
            "parameters": protocol.parameter_hash,
            **{name: getattr(protocol, name) for name in NUMBERS},
        }


def _best_length(
    of_length: Callable[[int], EnvelopedSum | EnvelopedVectorSum],
    dimension: int,
    shufflers: int | None,
    kem: str,
) -> int:
    """Return the length of the fewest blocks for so many shufflers, or of the fewest bytes."""

    def shortest(length: int) -> int:
        """Return that of as many blocks: longer ones take as many bytes, and prove less."""
        return -(-dimension // sums_of(dimension, length))

    if shufflers is not None:
        lengths = sorted(set(map(shortest, range(1, dimension + 1))))
        fitting = bisect_right(
            lengths, shufflers + 1, key=lambda b: of_length(b).layout.count.total
        )
        return lengths[max(0, fitting - 1)]
    of_length = cache(of_length)

    def sealed(length: int) -> Layout:
        """Return what goes to shufflers, in whole bytes; the rest is the same for all lengths."""
        layout = of_length(shortest(length)).layout
        count = replace(layout.count, shuffled=layout.count.shuffled - 1)
        return replace(layout, length=length, bits=-(-layout.bits // 8) * 8, count=count)

    return shortest(least_bytes(sealed, dimension, KEMS[kem].sealed + TAG_BYTES).length)


def release_seconds(task: Task) -> float:
    """Return what one core takes to release a window with all clients' reports, about."""
    dimension, envelopes = task.domain.dimension, len(task.blocks)
    report_seconds = envelopes * ENVELOPE_SECONDS[task.kem] + dimension * COORDINATE_SECONDS
    return task.users * task.columns * report_seconds


def report_of(task: Task) -> Report:
    """Return the choices and the guarantee of a task, as a report for people and programs."""
    guarantee = task.protocol.guarantee
    shown = {
        "users": task.users,
        "min_reports": task.min_reports,
        "shuffled": task.columns,
        "domain": words_of(task.domain),
        "block_length": task.block_length,
        "blocks": len(task.blocks),
        "kem": task.kem,
        "keys": len(task.public_keys),
        "messages": task.columns * len(task.blocks) + 1,
        "bytes_per_client": sum(map(task.part_bytes, range(task.messages))),
        "bytes_per_shuffler": task.users * task.envelope_bytes,
        "release_seconds": float(f"{release_seconds(task):.2g}"),
        "integers": task.integers,
        "precision": task.precision,
        "modulus": str(task.modulus),
        "opens": task.opens.isoformat(),
        "closes": task.closes.isoformat(),
        "windows": task.windows,
    }
    data: dict[str, Any] = {
        **shown,
        "task": task.name,
        "requested_delta": task.delta,
        "root_mse": task.protocol.mse**0.5,
        **{name: getattr(task, name) for name in _PROMISED},
        **{name: getattr(guarantee, name) for name in _GUARANTEED},
    }
    dimension = task.domain.dimension
    notes = [
        f"A client sends each of {task.columns:,} shufflers {len(task.blocks):,} envelopes, "
        f"{task.envelope_bytes:,} bytes, and {data['bytes_per_client']:,} bytes in all. A "
        f"release takes one core about {data['release_seconds']:,.9g} s if all clients report.",
        f"Guarantee: {guarantee}.",
        *(f"Condition: {condition}." for condition in guarantee.conditions),
        f"Nothing is released for fewer than {task.min_reports:,} complete reports, of which "
        f"{task.corrupt_clients:,} may be dishonest.",
        "The root mean squared error of the sum"
        + f" (of all {dimension:,} coordinates together)" * (dimension > 1)
        + f" is at most {at_least(data['root_mse'], 4)}.",
    ]
    if task.windows > 1:
        notes.append(
            f"Each of {task.windows:,} windows of {timedelta(seconds=task.period)} has its own "
            "result, and spends this budget again on those who report in it."
        )
    rows = [{"name": name, "value": value} for name, value in shown.items()]
    return Report(f"Task {task.name}", COLUMNS, rows, notes, data)
