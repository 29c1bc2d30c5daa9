"""The choice of a task's blocks, precision, group and messages for a guarantee; and its report."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ikos._validation import InvalidValue, choice, quote
from ikos.counts.vectors import Layout, least_bytes, sums_of
from ikos.data.domains import Bounds, Domain
from ikos.deployment.enveloped import TERMS, envelope_overhead, noise_of, protocol_of
from ikos.deployment.shares import EnvelopeTerms
from ikos.deployment.task_fields import words_of
from ikos.results.report import Field, Report
from ikos.results.text import at_least
from ikos.sums.private import PrivateSum, PrivateVectorSum

if TYPE_CHECKING:
    from ikos.deployment.task import Task

NUMBERS = ("precision", "modulus", "min_honest", "corrupt_shufflers")
"""Parameters of a protocol that are chosen where a task leaves them open."""

COLUMNS = [Field("name", "one of the keys", ""), Field("value", "that of the key", "value")]
_PROMISED = ("min_honest", "corrupt_clients", "corrupt_shufflers")
_GUARANTEED = ("epsilon", "delta", "theorem", "conditions")


def chosen_fields(
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
    transport: str = "shares",
    layout: str | int | None = None,
    corrupt_clients: int = 0,
    **options: Any,
) -> dict[str, Any]:
    """Return the fields of a task that determine what its parties compute and prove.

    They are for a number of ``shufflers``, by default the number that the guarantee needs. The
    other parameters are those of `ikos.deployment.Task.new`.
    """
    if unknown := options.keys() - {*NUMBERS, "integers"}:
        raise TypeError(f"{min(unknown)} is not an option of a task")
    values = Bounds(lower, upper) if domain is None else domain
    kind = TERMS[choice("transport", transport, TERMS)]
    length = kind.checked_length(layout, values.dimension)
    of_length: Callable[..., PrivateSum | PrivateVectorSum] = partial(
        protocol_of, users, values, epsilon, delta, transport=transport, kem=kem
    )
    if not length:
        length = _best_length(kind, partial(of_length, **options), shufflers, kem)
    needed = of_length(length, **options)
    columns = needed.messages.total - 1
    corrupt = options.get("corrupt_shufflers", 0)
    if shufflers is None:
        shufflers = columns
    if shufflers < columns:
        raise InvalidValue(
            "shufflers",
            f"must be at least {columns} addresses for epsilon = {quote(epsilon)}, "
            f"delta = {quote(delta)}, {needed.min_honest:,} honest users and "
            f"{corrupt} colluding shufflers, got {shufflers}",
        )
    numbers = {name: getattr(needed, name) for name in ("precision", "modulus", "min_honest")}
    numbers |= {"corrupt_shufflers": corrupt, "integers": needed.encoding.exact}
    protocol = of_length(length, messages=shufflers + 1, **numbers)
    fixed = {"delta": Fraction(delta), "labels": tuple(labels), "corrupt_clients": corrupt_clients}
    return fixed | fields_of(protocol, values, kind.of(protocol.transport)) | {"kem": kem}


def fields_of(
    protocol: PrivateSum | PrivateVectorSum, domain: Domain, terms: EnvelopeTerms
) -> dict[str, Any]:
    """Return the fields of a task that follow from its protocol."""
    return {
        "users": protocol.n,
        "epsilon": protocol.epsilon,
        "domain": domain,
        "integers": protocol.encoding.exact,
        "transport": terms,
        "noise": noise_of(protocol),
        "parameters": protocol.parameter_hash,
        "precision": protocol.precision,
        "modulus": protocol.modulus,
        "min_honest": protocol.min_honest,
        "corrupt_shufflers": terms.shares(protocol.transport).trust.corrupt_shufflers - 1,
    }


def _best_length(
    kind: type[EnvelopeTerms],
    of_length: Callable[[int], PrivateSum | PrivateVectorSum],
    shufflers: int | None,
    kem: str,
) -> int:
    """Return the longest block length for these shufflers, or the one with the fewest bytes."""
    of_length = cache(of_length)
    dimension = kind.shares(of_length(1).transport).dimension

    def shortest(length: int) -> int:
        """Return the shortest length with as few blocks: longer ones cost no less, prove less."""
        return -(-dimension // sums_of(dimension, length))

    if shufflers is not None:
        lengths = sorted(set(map(shortest, range(1, dimension + 1))))
        fitting = bisect_right(lengths, shufflers + 1, key=lambda b: of_length(b).messages.total)
        return lengths[max(0, fitting - 1)]

    def sealed(length: int) -> Layout:
        """Return the bytes sent to shufflers; the rest is the same for all lengths."""
        layout = kind.shares(of_length(shortest(length)).transport).layout
        count = replace(layout.count, shuffled=layout.count.shuffled - 1)
        return replace(layout, length=length, bits=-(-layout.bits // 8) * 8, count=count)

    return shortest(least_bytes(sealed, dimension, envelope_overhead(kem)).length)


def report_of(task: Task) -> Report:
    """Return the choices and the guarantee of a task, as a report for people and programs."""
    guarantee = task.protocol.guarantee
    shown = {
        "users": task.users,
        "min_reports": task.min_reports,
        "shuffled": task.columns,
        "domain": words_of(task.domain),
        "transport": task.transport.kind,
        "block_length": task.transport.block_length,
        "blocks": len(task.blocks),
        "kem": task.kem,
        "keys": len(task.public_keys),
        "messages": task.columns * len(task.blocks) + 1,
        "bytes_per_client": sum(map(task.part_bytes, range(task.parties))),
        "bytes_per_shuffler": task.users * task.part_bytes(1),
        "release_seconds": float(f"{task.transport.release_seconds(task):.2g}"),
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
        f"{task.part_bytes(1):,} bytes, and {data['bytes_per_client']:,} bytes in all. A "
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
