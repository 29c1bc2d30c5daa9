"""Tasks for tests of the parties, small enough to be made at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

from ikos.deployment.hpke import PrivateKey
from ikos.deployment.task import Task

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
    from dataclasses import fields

    first = _first(users, min_honest, columns, values)
    if not changed:
        return first
    parts = {field.name: getattr(first, field.name) for field in fields(first)}
    return Task(**{**parts, **changed})
