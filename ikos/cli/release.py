"""What commands that release results from a table share: reading, refusals and notes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.options import check_bounds, options
from ikos.cli.output import plain, power_text, progress
from ikos.cli.types import TABLE
from ikos.results.report import Field, digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ikos.data.tables import Column
    from ikos.results.sums import Interval
    from ikos.sums import PrivateSum, SecureSum
    from ikos.sums.ledger import Ledger

TABLE_KEYS = [
    Field("file", "the table", value="source.file"),
    Field("column", "the column", value="source.column"),
    Field("users", "rows of the table; public"),
    Field("guarantee", "epsilon, delta, theorem, conditions, adjacency"),
    Field("proved", "whether anything is proved"),
    Field("cost", "users, messages_per_user, bits_per_message"),
]
LEDGER = Field("ledger", "the --ledger, in which the release is entered; or null",
               value=lambda found: found.ledger and found.ledger.path)  # fmt: skip
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
          value=lambda found: digits(found.secure.q)),
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
        from ikos.results.text import figures

        scale = (self.interval.high - self.interval.low) / 2
        if all(float(one).is_integer() for one in (self.value, *self.interval)):
            scale = max(scale, 100.0)  # no decimals
        return figures(self.value, scale)

    def end(self, which: int) -> str:
        """Return an end of the interval, rounded outwards."""
        return str(self.interval).strip("[]").split(", ")[which]


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
    names = ("--column", "--no-header", "--delimiter", "--show-values")
    named = options(*names, required=("--column",))
    return click.argument("file", type=TABLE, metavar="TABLE")(named(command))


@dataclass(frozen=True)
class Source:
    """The table, and its column, which is not read yet."""

    file: str
    column: str
    values: Column

    @classmethod
    def taken(cls, given: dict[str, Any], **how: Any) -> Source:
        """Remove the options of `of_table` from those given, and open what they name."""
        from ikos.data.tables import open_column

        file, column = given.pop("file"), given.pop("column")
        how |= {name: given.pop(name) for name in ("delimiter", "show_values")}
        header = not given.pop("no_header")
        return cls(file, column, open_column(file, column, header=header, **how))

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

    def __call__(self, values: NDArray[Any], _before: int) -> NDArray[Any]:
        """Return a block of values within the bounds, or refuse one of them."""
        import numpy as np

        from ikos.data.tables import InvalidRow

        if self.exact and max(-self.lower, self.upper) >= 1 << 62:  # differences may not fit
            values = values.astype(object)
        outside = (values < self.lower) | (values > self.upper)
        if outside.any() and not self.clamp:
            raise InvalidRow(
                int(np.argmax(outside)),
                f"outside [{plain(self.lower)}, {plain(self.upper)}]; give public bounds that hold "
                "every value, or --on-out-of-range clamp",
            )
        inside = np.clip(values, self.lower, self.upper) if outside.any() else values
        if self.integers and (broken := inside != np.floor(inside)).any():
            raise InvalidRow(int(np.argmax(broken)), "which is no integer as --integers says")
        found: NDArray[Any] = inside - self.lower if self.exact else inside
        return found


def taken(given: dict[str, Any], exact: bool = False) -> tuple[Source, Rule]:
    """Remove the options of a sum's table and bounds from those given, and open the table."""
    lower, upper = given.pop("lower"), given.pop("upper")
    check_bounds(lower, upper)
    clamp, how = given.pop("on_out_of_range") == "clamp", {"integers": True} if exact else {}
    source = Source.taken(given, **how)
    return source, Rule(lower, upper, clamp, given.get("integers", False), exact)


@dataclass
class Truth:
    """What the data holder knows and no one else may: never printed unless requested."""

    total: float = 0.0
    clamped: int = 0
    before_clamping: float = 0.0

    def seen(self, column: Column, rule: Rule) -> Column:
        """Return a column as the rule gives it, adding up its truth as it is read."""

        def look(values: NDArray[Any], before: int) -> NDArray[Any]:
            inside = rule(values, before)
            self.total += float(inside.sum())
            self.before_clamping += float(values.sum())
            self.clamped += int((inside != values).sum())
            return inside

        return column.seen(look)


def read(column: Column, rule: Rule, truth: Truth | None = None) -> tuple[int, Any]:
    """Return the number of users and their values, unread if that is known and no truth asked."""
    seen = column.seen(rule) if truth is None else truth.seen(column, rule)
    if column.rows is not None and truth is None:
        return column.rows, seen
    held = blocks(seen)
    return sum(block.size for block in held), (held.popleft() for _ in range(len(held)))


def blocks(column: Column) -> deque[NDArray[Any]]:
    """Read a column."""
    with progress("reading") as shown:
        return deque(column.blocks(shown))


def run(protocol: PrivateSum | SecureSum, values: Any, *, unproved: bool, **how: Any) -> Any:
    """Run a protocol, unless it proves nothing."""
    if not (unproved or protocol.guarantee.proved):
        raise click.UsageError(f"{_why_unproved(protocol)}; --unproved runs it anyway")
    with progress("adding up shares") as shown:
        return protocol.run(values, progress=shown, **how)


def _why_unproved(protocol: PrivateSum | SecureSum) -> str:
    from ikos.counts.published import unproved

    count = protocol.messages
    why = unproved(count.analysis, secure_of(protocol).q)
    return f"{count.analysis} is {why}" if why else f"--messages {count.total} proves nothing"


def ledger_notes(ledger: Ledger | None) -> list[str]:
    """Return what is left in a ledger."""
    if ledger is None:
        return []
    return [f"Entered in {ledger.path}, which has {ledger.left} left."]


def opened(file: Path | None) -> Ledger | None:
    """Open a ledger, if one is given."""
    from ikos.sums.ledger import Ledger

    return None if file is None else Ledger(file)


def secure_of(protocol: PrivateSum | SecureSum) -> Any:
    """Return the secure sum that carries a protocol's messages, perhaps the protocol itself."""
    return getattr(protocol, "secure_sum", protocol)


@contextmanager
def nothing_released() -> Iterator[None]:
    """Say at Ctrl-C that the budget is not spent."""
    try:
        yield
    except KeyboardInterrupt as stop:
        said = str(stop) or "interrupted"
        raise KeyboardInterrupt(f"{said}; nothing was released") from None


def warnings_of(protocol: PrivateSum | SecureSum) -> list[str]:
    """Return warnings on the guarantee and on who is trusted."""
    from ikos.results.sums import trust_warnings

    said = f"{_why_unproved(protocol)}: what is released may give all values away"
    corrupt = secure_of(protocol).trust.corrupt_shufflers
    trusted = trust_warnings(corrupt, protocol.messages.shuffled)
    return [said] * (not protocol.guarantee.proved) + trusted


def guarantee_notes(guarantee: Any) -> list[str]:
    """Return the guarantee and its conditions."""
    if not guarantee.proved:
        return ["NOTHING is proved. The shares may give the values away."]
    return [f"Guarantee: {guarantee}.", *(f"Condition: {one}." for one in guarantee.conditions)]


def _shown(bound: float) -> str:
    return power_text(bound) if isinstance(bound, int) else f"{bound:,.10g}"


def notes_of(found: Any) -> list[str]:
    """Return the guarantee and its conditions, what is public, and what was sent."""
    rule = found.rule
    notes = guarantee_notes(found.guarantee)
    notes.append(
        f"The number of users, {found.users:,}, and the bounds, {_shown(rule.lower)} and "
        f"{_shown(rule.upper)}, are public and not protected."
    )
    if rule.clamp:
        notes.append(
            "Values outside the bounds were moved to the nearest bound. Their number, which is "
            "not private, is not shown."
        )
    sent = f"{found.cost}, integers modulo {power_text(found.secure.q)}"
    return [*notes, f"Sent, in a simulation of all parties: {sent}."]
