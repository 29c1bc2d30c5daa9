"""The choice of a task's blocks, precision, group and messages for a guarantee; and its report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ikos._validation import InvalidType, InvalidValue, choice, quote
from ikos.data.domains import Bounds, Domain
from ikos.deployment.protocols import TERMS
from ikos.deployment.sums import NUMBERS
from ikos.deployment.task_fields import words_of
from ikos.deployment.terms import Wanted
from ikos.results.conditions import Kind
from ikos.results.report import Field, Report, cell
from ikos.results.text import at_least, grouped
from ikos.verified.statements import ORDER

if TYPE_CHECKING:
    from ikos.deployment.task import Task

COLUMNS = [
    Field("name", "one of the keys", ""),
    Field("value", "that of the key", "value", text=itemgetter("text")),
]
_REPORT_BYTES = 96  # on disk beside its part: twice its id, and twice the digest of its token
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
    lower: float | None = None,
    upper: float | None = None,
    labels: Sequence[str] = (),
    transport: str = "shares",
    corrupt_clients: int = 0,
    **options: Any,
) -> dict[str, Any]:
    """Return the fields of a task that determine what its parties compute and prove.

    They are for a number of ``shufflers``, by default the number that the guarantee needs. The
    other parameters are those of `ikos.deployment.Task.new`.
    """
    special = frozenset[str]().union(*(terms.options for terms in TERMS.values()))
    if unknown := options.keys() - {*NUMBERS, *special}:
        raise TypeError(f"{min(unknown)} is not an option of a task")
    values = _values(domain, lower, upper)
    terms = TERMS[choice("transport", transport, TERMS)]
    for name in special - terms.options:
        if (value := options.pop(name, None)) is not None:
            raise InvalidValue(name, f"must not be given with {transport}, got {quote(value)}")
    fields = terms.chosen(Wanted(users, values, epsilon, delta, shufflers, kem), **options)
    others = {"delta": Fraction(delta), "labels": tuple(labels), "kem": kem}
    return fields | others | {"corrupt_clients": corrupt_clients}


def _values(domain: Domain | None, lower: float | None, upper: float | None) -> Domain:
    """Return a domain, or that of numbers between bounds."""
    if domain is None:
        return Bounds(0.0 if lower is None else lower, 1.0 if upper is None else upper)
    if not isinstance(domain, Domain):
        raise InvalidType("domain", f"must be a domain of values, got {quote(domain)}")
    for name, bound in ("lower", lower), ("upper", upper):
        if bound is not None:
            raise InvalidValue(name, f"must not be given beside a domain, got {quote(bound)}")
    return domain


def report_of(task: Task) -> Report:
    """Return the choices and the guarantee of a task, as a report for people and programs."""
    guarantee = task.protocol.guarantee
    honest = any(condition.kind is Kind.USERS for condition in guarantee.conditions)
    envelopes = len(task.blocks) * task.transport.copies
    name = task.transport.intermediary
    whom, whose = f"the {name}", f"the {name}'s"
    if task.columns > 1:
        whom, whose = f"each of {task.columns:,} {name}s", f"a {name}'s"
    shown = {
        "users": task.users,
        "min_reports": task.min_reports,
        "shuffled": task.columns,
        "domain": words_of(task.domain),
        "transport": task.transport.kind,
        "block_length": task.blocks[0],
        "blocks": envelopes,
        "kem": task.kem,
        "keys": task.keys,
        "messages": task.columns * envelopes + bool(task.part_bytes(0)),
        "bytes_per_client": sum(map(task.part_bytes, range(task.parties))),
        "bytes_per_shuffler": task.users * task.part_bytes(1),
        "disk_per_shuffler": task.users * (_REPORT_BYTES + task.transport.stored_bytes(task, 1)),
        "disk_analyzer": task.users
        * (_REPORT_BYTES + task.part_bytes(0) + task.columns * task.transport.kept),
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
    seconds = data["release_seconds"]
    minutes = f"{float(f'{seconds / 60:.2g}'):,.9g} minutes"
    notes = [
        f"A client sends {whom} {envelopes:,} envelope{'s' * (envelopes > 1)}, "
        f"{task.part_bytes(1):,} bytes, and all parties {data['bytes_per_client']:,} bytes. A "
        f"release takes one core about {minutes if seconds >= 120 else f'{seconds:,.9g} s'} if all "
        "clients report.",
        f"Until then a window takes about {data['disk_per_shuffler']:,} bytes of {whose} disk, and "
        f"{data['disk_analyzer']:,} of the analyzer's.",
        f"Guarantee: {guarantee}.",
        *(f"Condition: {condition}." for condition in guarantee.conditions),
        f"Nothing is released for fewer than {task.min_reports:,} complete reports, of which "
        f"{f'{task.corrupt_clients:,}' if honest else 'any'} may be dishonest.",
        "The root mean squared error of the sum"
        + f" (of all {dimension:,} coordinates together)" * (dimension > 1)
        + f" is at most {grouped(at_least(data['root_mse'], 4))}.",
        *task.transport.notes(task),
    ]
    if task.windows > 1:
        notes.append(
            f"Each of {task.windows:,} windows of {timedelta(seconds=task.period)} has its own "
            "result, and spends this budget again on those who report in it."
        )
    texts = {name: cell(value) for name, value in shown.items()}
    modulus = "order of secp256k1" if task.modulus == ORDER else cell(task.modulus)
    texts |= {"domain": words_of(task.domain, cell), "modulus": modulus}
    rows = [{"name": key, "value": value, "text": texts[key]} for key, value in shown.items()]
    return Report(f"Task {task.name}", COLUMNS, rows, notes, data)
