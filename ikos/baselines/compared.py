"""What comparisons of protocols share, whether they are for sums of numbers or of vectors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ikos._validation import choice, quote
from ikos.concurrency import Progress
from ikos.results import Cost, Guarantee, Printed, at_least

MODELS = ("central", "shuffle", "local")
"""Whom users trust: a curator; shufflers, or some of the other users; nobody."""


class Named(Protocol):
    """A protocol that is not yet made for any users."""

    @property
    def key(self) -> str:
        """What it is called in programs."""

    @property
    def model(self) -> str:
        """Whom its users trust."""


class Priced(Protocol):
    """What a comparison asks of a protocol."""

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user."""

    @property
    def mse(self) -> float:
        """Bound on the mean squared error of the sum."""

    @property
    def influence(self) -> float:
        """Greatest difference that one user's messages can make."""

    def cost(self, users: int | None = None) -> Cost:
        """Return what is sent."""


C = TypeVar("C", bound=Named)
P = TypeVar("P", bound=Priced)


@dataclass(frozen=True)
class ComparisonRow(Printed, Generic[C, P]):
    """A protocol for given users and a given guarantee, or why there is none."""

    contender: C
    protocol: P | None
    reason: str | None = None

    def __str__(self) -> str:
        if self.protocol is None:
            return f"{self.key}: none, {self.reason}"
        return (
            f"{self.key}: error {at_least(math.sqrt(self.protocol.mse), 4)}, "
            f"{self.protocol.cost()}; "
            f"one user can move it by {at_least(self.protocol.influence, 4)}"
        )

    @property
    def key(self) -> str:
        """What it is called in programs."""
        return self.contender.key

    @property
    def messages(self) -> int | float | None:
        """Messages of each user; the mean where their number is random."""
        return None if self.protocol is None else self.protocol.cost().messages_per_user

    @property
    def bits(self) -> int | float | None:
        """Bits of each user."""
        return None if self.protocol is None else self.protocol.cost().bits_per_user

    @property
    def guarantee(self) -> Guarantee | None:
        """What is guaranteed to each user."""
        return None if self.protocol is None else self.protocol.guarantee

    @property
    def mse(self) -> float | None:
        """Bound on the mean squared error of the sum, in squared data units."""
        return None if self.protocol is None else self.protocol.mse

    @property
    def rmse(self) -> float | None:
        """Its root, in the data's units."""
        return None if self.protocol is None else math.sqrt(self.protocol.mse)

    @property
    def influence(self) -> float | None:
        """Greatest difference that one user's messages can make to the sum, in the data's units."""
        return None if self.protocol is None else self.protocol.influence

    def as_dict(self) -> dict[str, str | int | float | None]:
        """Return numbers and words by name, as a row of a data frame: None where there is none."""
        found = self.guarantee
        return {
            "key": self.key,
            "model": self.contender.model,
            "messages": self.messages,
            "bits": self.bits,
            "mse": self.mse,
            "rmse": self.rmse,
            "influence": self.influence,
            "epsilon": None if found is None else found.epsilon,
            "delta": None if found is None else found.delta,
            "reason": self.reason,
        }


R = TypeVar("R", bound=ComparisonRow[Any, Any])


def compare(
    contenders: Sequence[C],
    keys: Iterable[str] | None,
    make: Callable[[C], P],
    row: Callable[[C, P | None, str | None], R],
    *,
    honest: int | None,
    users: int,
    progress: Progress | None,
) -> tuple[R, ...]:
    """Return a row of each contender of some keys, or of all, made by ``make``."""
    wanted = _chosen(contenders, keys)
    checked_progress(progress)
    rows = []
    for done, contender in enumerate(wanted, 1):
        rows.append(row(contender, *_made(make, contender, honest, users)))
        if progress is not None:
            progress(done, len(wanted))
    return tuple(_ranked(rows))


def checked_progress(progress: object) -> None:
    """Refuse what cannot be called, before the first call of it."""
    if progress is not None and not callable(progress):
        kind = type(progress).__name__
        raise TypeError(f"progress must be callable, got {kind} {quote(progress)}")


def _chosen(contenders: Sequence[C], keys: object) -> list[C]:
    known = {contender.key: contender for contender in contenders}
    if keys is None:
        return list(known.values())
    if isinstance(keys, str):
        raise TypeError(f"protocols must be a sequence of keys, got the string {keys!r}")
    if not isinstance(keys, Iterable):
        kind = type(keys).__name__
        raise TypeError(f"protocols must be a sequence of keys, got {kind} {quote(keys)}")
    return [known[key] for key in dict.fromkeys(choice("protocols", key, known) for key in keys)]


def _made(
    make: Callable[[C], P], contender: C, honest: int | None, users: int
) -> tuple[P | None, str | None]:
    """Return a protocol and no reason, or none and why it is not possible."""
    try:
        return make(contender), None
    except ValueError as problem:
        reason = str(problem)
        if honest is not None and honest < users and reason.endswith(f", got {honest}"):
            reason = re.sub(r"^n must", "min_honest must", reason)
        return None, reason


def _ranked(rows: Iterable[R]) -> list[R]:
    """Return the central model first, then the shuffle model, then the local one; by error."""

    def order(row: R) -> tuple[int, float]:
        mse = row.mse
        return MODELS.index(row.contender.model), math.inf if mse is None else mse

    return sorted(rows, key=order)
