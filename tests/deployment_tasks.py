"""Tasks for tests of the parties, small enough to be made at once."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ikos.deployment.hpke import PrivateKey
from ikos.deployment.task import Task
from ikos.results.guarantees import Guarantee

SIGNERS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(3)]
KEY, *_ = KEYS = [PrivateKey(bytes(range(first, first + 32))) for first in range(3)]


@cache
def _first(users: int, min_honest: int, columns: int, values: tuple) -> Task:
    now = datetime.now(UTC).replace(microsecond=0)
    return Task.new(
        users,
        1,
        0.9,
        shufflers=[f"http://127.0.0.1:{9001 + j}" for j in range(columns)],
        analyzer="http://127.0.0.1:9000",
        public_keys=[KEY.public_bytes],
        opens=now - timedelta(hours=1),
        closes=now + timedelta(days=1),
        min_honest=min_honest,
        **{"integers": True, **dict(values)},
    )


def small_task(
    users: int = 6, min_honest: int = 3, columns: int = 8, values: tuple = (), **changed: object
) -> Task:
    """Return a task of a few users, by default of bits; with other parts where they are given."""
    first = _first(users, min_honest, columns, values)
    if not changed:
        return first
    parts = {field.name: getattr(first, field.name) for field in fields(first)}
    return Task(**{**parts, **changed})


def made_of(task: Task, **changed: object) -> tuple[str, Guarantee]:
    """Return the description of a task with other parts and all that follows from them, and what
    it proves."""
    parts = {field.name: getattr(task, field.name) for field in fields(task)} | changed
    messages = parts.pop("messages", task.transport.messages)
    names = (
        "users", "domain", "epsilon", "delta", "min_honest", "corrupt_shufflers", "precision",
        "modulus", "integers", "kem",
    )  # fmt: skip
    protocol = task.transport.private_sum(
        **{name: parts[name] for name in names},
        block_length=task.transport.block_length, messages=messages,
    )  # fmt: skip
    values = json.loads(task.to_json()) | {
        name: str(value) if isinstance(value, Fraction) or name == "modulus" else value
        for name, value in changed.items()
        if name != "messages"
    }
    values["transport"] = asdict(task.transport.of(protocol.transport))
    values["shufflers"] = [f"https://s{j}.example" for j in range(messages - 1)]
    values["parameters"] = protocol.parameter_hash
    values["noise"] = [protocol.noise.kind, str(protocol.noise.value)]
    return json.dumps(values, sort_keys=True, separators=(",", ":")), protocol.guarantee
