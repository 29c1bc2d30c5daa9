"""What commands that release results from a table share: reading, refusals and notes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import clipped
from ikos.cli.options import options
from ikos.cli.output import figures, grouped, power_text, progress
from ikos.cli.types import TABLE
from ikos.report import Field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikos import PrivateSum, SecureSum
    from ikos.results import Interval
    from ikos.tables import Column, Look

MAX_MESSAGES = 10**11
"""About a quarter of an hour on one core."""

TABLE_KEYS = [
    Field("file", "the table", value="source.file"),
    Field("column", "the column", value="source.column"),
    Field("users", "rows of the table; public"),
    Field("guarantee", "epsilon, delta, theorem, conditions, adjacency"),
    Field("proved", "whether anything is proved"),
    Field("cost", "users, messages_per_user, bits_per_message"),
]
"""The keys of every release's JSON object; integers of 2^53 or more are strings of digits."""

SUM_KEYS = [
    *TABLE_KEYS,
    Field("lower", "public lower bound of the values", value="rule.lower"),
    Field("upper", "public upper bound of the values", value="rule.upper"),
    Field("out_of_range", "reject or clamp",
          value=lambda found: "clamp" if found.rule.clamp else "reject"),
    Field("messages", "of each user: shuffled, clear, and what they prove",
          value="protocol.messages"),
    Field("shuffler", "parallel or single", value="secure.trust.shuffler"),
    Field("clear_share", "whether a message of each user bypasses the shufflers",
          value="secure.trust.clear_share"),
    Field("modulus", "order of the group of the shares, a string of digits",
          value=lambda found: str(found.secure.q)),
    Field("min_honest", "users that the guarantee counts on", value="protocol.min_honest"),
    Field("corrupt_shufflers", "number of shufflers that may collude with the analyzer",
          value="secure.trust.corrupt_shufflers"),
]  # fmt: skip
"""Those of sums."""


@dataclass(frozen=True)
class Estimate:
    """A released number, with its interval."""

    name: str
    value: float
    interval: Interval

    def __str__(self) -> str:
        """Return the number to three digits of its uncertainty."""
        scale = (self.interval.high - self.interval.low) / 2
        if all(float(one).is_integer() for one in (self.value, *self.interval)):
            scale = max(scale, 100.0)  # no decimals
        return figures(self.value, scale)

    def end(self, which: int) -> str:
        """Return an end of the interval, rounded outwards."""
        return grouped(str(self.interval).strip("[]").split(", ")[which])


COLUMNS = [
    Field("name", "the sum or the mean, or the category or bin", ""),
    Field("estimate", "unbiased, not clipped", "estimate", value="value", text=str),
    Field("low", "lower end of its interval", "at least", value="interval.low",
          text=lambda row: row.end(0)),
    Field("high", "upper end of its interval", "at most", value="interval.high",
          text=lambda row: row.end(1)),
]  # fmt: skip


def of_table(command: Any) -> Any:
    """Add the argument and the options that select the values."""
    named = options(
        "--column", "--no-header", "--delimiter", "--show-values", required=("--column",)
    )
    return click.argument("file", type=TABLE, metavar="TABLE")(named(command))


@dataclass(frozen=True)
class Source:
    """The table, the column, and how to read it."""

    file: str
    column: str
    no_header: bool = False
    delimiter: str | None = None
    show_values: bool = False

    @classmethod
    def taken(cls, given: dict[str, Any]) -> Source:
        """Remove the options of `of_table` from those given, and return what they say."""
        names = ("file", "column", "no_header", "delimiter", "show_values")
        source = cls(**{name: given.pop(name) for name in names})
        if source.no_header and not source.column.isdigit():
            raise click.UsageError(
                "with --no-header, --column is a number counted from 1, got "
                f"{clipped(source.column)}"
            )
        return source

    def open(self, *, integers: bool = False, texts: bool = False) -> Column:
        """Return the column, whose values are not read yet."""
        from ikos.tables import open_column

        return open_column(
            self.file, self.column, header=not self.no_header, delimiter=self.delimiter,
            integers=integers, show_values=self.show_values, texts=texts,
        )  # fmt: skip

    @property
    def which(self) -> str:
        """The column, in words."""
        return f"column {self.column}" if self.column.isdigit() else f"column {self.column!r}"


@dataclass(frozen=True)
class Rule:
    """Checks of values before they are encoded, also applied by workers of a cluster.

    With ``exact``, values are integers of any size, returned less the lower bound.
    """

    lower: float | int
    upper: float | int
    clamp: bool = False
    integers: bool = False
    exact: bool = False

    def __call__(self, values: NDArray[Any], before: int) -> NDArray[Any]:
        """Return a block of values within the bounds, or refuse one of them."""
        import numpy as np

        from ikos.tables import BadRow

        del before
        if self.exact and max(-self.lower, self.upper) >= 1 << 62:  # differences may not fit
            values = values.astype(object)
        outside = (values < self.lower) | (values > self.upper)
        if outside.any() and not self.clamp:
            raise BadRow(
                int(np.argmax(outside)),
                f"outside [{self.lower:,.10g}, {self.upper:,.10g}]; give public bounds that hold "
                "every value, or --on-out-of-range clamp",
            )
        inside = np.clip(values, self.lower, self.upper) if outside.any() else values
        if self.integers and (broken := inside != np.floor(inside)).any():
            raise BadRow(int(np.argmax(broken)), "which is no integer as --integers says")
        found: NDArray[Any] = inside - self.lower if self.exact else inside
        return found


@dataclass
class Truth:
    """What the data holder knows and no one else may: never printed unless requested."""

    total: float = 0.0
    clamped: int = 0
    before_clamping: float = 0.0

    def add(self, given: NDArray[np.float64], inside: NDArray[np.float64]) -> None:
        """Add the truth of a block, as given and as used by the protocol."""
        self.total += float(inside.sum())
        self.before_clamping += float(given.sum())
        self.clamped += int((inside != given).sum())


def read(table: Column, rule: Rule, truth: Truth | None = None) -> tuple[int, Any]:
    """Return the number of users, and their values as protocols take them.

    If the table says how many rows it has, and the truth is not wanted, rows are read as they are
    added up; otherwise they are read now, 8 bytes each.
    """
    if table.rows is not None and truth is None:
        return table.rows, table.seen(rule)

    def look(values: NDArray[Any], before: int) -> NDArray[Any]:
        inside = rule(values, before)
        if truth is not None:
            truth.add(values, inside)
        return inside

    with progress("reading") as shown:
        held = deque(table.seen(look).blocks(shown))
    return sum(block.size for block in held), _drained(held)


def all_of(table: Column, look: Look) -> NDArray[Any]:
    """Return all values of a column, as returned by a look."""
    import numpy as np

    with progress("reading") as shown:
        return np.concatenate(list(table.seen(look).blocks(shown)))


def _drained(held: deque[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    while held:
        yield held.popleft()


def run(protocol: PrivateSum | SecureSum, values: Any, *, unproved: bool, **how: Any) -> Any:
    """Run a protocol, unless it proves nothing or takes too long."""
    count, users = protocol.messages, protocol.n
    if not (unproved or protocol.guarantee.proved):
        why = unproved_for(count.analysis, secure_of(protocol).q)
        said = f"{count.analysis} is {why}" if why else f"{_many(count.total)} nothing"
        raise click.UsageError(f"{said}; --unproved runs it anyway")
    if users * count.total > MAX_MESSAGES:
        raise click.UsageError(
            f"{users:,} users with {count.total:,} messages each are more than the "
            f"{MAX_MESSAGES:,} messages that can be run here"
        )
    with progress("adding up shares") as shown:
        return protocol.run(values, progress=shown, **how)


def secure_of(protocol: PrivateSum | SecureSum) -> Any:
    """Return the secure sum that carries a protocol's messages, perhaps the protocol itself."""
    return getattr(protocol, "secure_sum", protocol)


def unproved_for(analysis: str | None, q: int, dimension: int = 1) -> str | None:
    """Return why an analysis proves nothing for a group, although its formula gives a value."""
    from ikos.counts.published import unproved

    return unproved(analysis, q, dimension)


def _many(total: int) -> str:
    return "1 message per user proves" if total == 1 else f"{total:,} messages per user prove"


@contextmanager
def nothing_released() -> Iterator[None]:
    """Say at Ctrl-C that the budget is not spent."""
    try:
        yield
    except KeyboardInterrupt as stop:
        path = click.get_current_context().command_path
        said = str(stop) or "interrupted"
        raise click.Abort(f"{path}: {said}; nothing was released") from None


def warnings_of(protocol: PrivateSum | SecureSum) -> list[str]:
    """Return warnings on the guarantee and on who is trusted."""
    from ikos.results import trust_warnings

    count, secure = protocol.messages, secure_of(protocol)
    why = unproved_for(count.analysis, secure.q)
    said = [f"{count.analysis}: {why}"] if why else []
    if not (protocol.guarantee.proved or why):
        said.append(f"{_many(count.total)} nothing: what is released may give all values away")
    return said + trust_warnings(secure.trust.corrupt_shufflers, count.shuffled)


def guarantee_notes(guarantee: Any) -> list[str]:
    """Return the guarantee and its conditions."""
    if not guarantee.proved:
        return ["NOTHING is proved. The shares may give the values away."]
    return [
        f"Guarantee: {guarantee}.",
        *(f"Condition: {condition}." for condition in guarantee.conditions),
    ]


def notes_of(found: Any) -> list[str]:
    """Return the guarantee and its conditions, what is public, and what was sent."""
    rule = found.rule
    notes = guarantee_notes(found.guarantee)
    notes.append(
        f"The number of users, {found.users:,}, and the bounds, {rule.lower:,.10g} and "
        f"{rule.upper:,.10g}, are public and not protected."
    )
    if rule.clamp:
        notes.append(
            "Values outside the bounds were moved to the nearest bound. Their number, which is "
            "not private, is not shown."
        )
    sent = f"{found.cost}, integers modulo {power_text(found.secure.q)}"
    return [*notes, f"Sent, in a simulation of all parties: {sent}."]
