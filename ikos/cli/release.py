"""The common part of commands that release results from a table: requests, reading and notes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ikos.cli.options import check_bounds, from_option
from ikos.cli.output import plain, power_text, print_report, progress
from ikos.cli.types import TABLE, check_labels
from ikos.results.report import Field, Report, digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ikos.data.tables import Column
    from ikos.results.guarantees import Guarantee, SecureGuarantee
    from ikos.results.sums import Cost, Interval
    from ikos.results.tables import Tabular
    from ikos.sums import PrivateSum, SecureSum
    from ikos.sums.ledger import Ledger
    from ikos.transports import Transport

TABLE_KEYS = [
    Field("file", "the table", value="source.file"),
    Field("column", "the column; of several a list", value="source.column"),
    Field("users", "rows of the table; public"),
    Field("guarantee", "epsilon, delta, theorem, conditions, adjacency"),
    Field("proved", "whether there is a proof", value="guarantee.proved"),
    Field("cost", "users, messages_per_user, bits_per_message"),
]
"""The keys of every release's JSON object; integers of 2^53 or more are strings of digits."""

LEDGER = Field("ledger", "the --ledger in which the release is recorded; or null",
               value="ledger.path")  # fmt: skip
PLOT = Field("plot", "the file that was written, or null", value="request.plot")

SUM_KEYS = [
    *TABLE_KEYS,
    Field("lower", "public lower bound of the values; of several columns a list",
          value="rule.lower"),
    Field("upper", "public upper bound of the values; likewise", value="rule.upper"),
    Field("out_of_range", "reject or clamp", value="rule.out_of_range"),
    Field("messages", "messages per user: shuffled, clear, and what they prove",
          value="protocol.messages"),
    Field("shuffler", "parallel or single", value="trust.shuffler"),
    Field("clear_share", "whether one message per user bypasses the shufflers",
          value="trust.clear_share"),
    Field("modulus", "order of the group of the shares, a string of digits"),
    Field("min_honest", "honest users that the guarantee counts on"),
    Field("corrupt_shufflers", "number of shufflers that may collude with the analyzer",
          value="trust.corrupt_shufflers"),
]  # fmt: skip
"""The keys of releases of sums."""


@dataclass(frozen=True)
class EstimateRow:
    """A released number, with its interval."""

    name: str
    value: float
    interval: Interval

    def __str__(self) -> str:
        """Return the number to the digits of its interval."""
        from ikos.results.intervals import rounded

        return rounded(self.value, self.interval)

    def low(self) -> str:
        """Return the lower end of the interval, rounded outwards."""
        return str(self.interval).strip("[]").split(", ")[0]

    def high(self) -> str:
        """Return the upper end, rounded outwards."""
        return str(self.interval).strip("[]").split(", ")[1]


COLUMNS = [
    Field("name", "the sum or the mean, or the category or bin", ""),
    Field("estimate", "unbiased, not clipped", "estimate", value="value", text=str),
    Field("low", "lower end of its interval", "at least", value="interval.low",
          text=EstimateRow.low),
    Field("high", "upper end of its interval", "at most", value="interval.high",
          text=EstimateRow.high),
]  # fmt: skip


of_table = click.argument("file", type=TABLE, metavar="TABLE")
"""Adds the argument of a `TableRequest`."""


@dataclass(frozen=True)
class Source:
    """The table, and its column, which is not read yet."""

    file: str
    column: str
    values: Column

    @property
    def which(self) -> str:
        """The column, in words."""
        return named(self.column)


def named(column: str) -> str:
    """Return a column in words."""
    return f"column {column}" if column.isdigit() else f"column {column!r}"


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """Options that select the values of a column of a table."""

    file: str
    column: str = from_option(required=True)
    no_header: bool
    delimiter: str | None
    show_values: bool
    na: list[str] | None = None
    thousands: str | None = None
    decimal: str | None = None

    @property
    def format(self) -> dict[str, Any]:
        """How the table is written."""
        return {
            "header": not self.no_header, "delimiter": self.delimiter, "na": self.na or (),
            "thousands": self.thousands, "decimal": self.decimal or ".",
            "show_values": self.show_values,
        }  # fmt: skip

    def source(self, **options: Any) -> Source:
        """Open the table, with further options of `open_column`."""
        from ikos.data.tables import open_column

        column = open_column(self.file, self.column, **self.format, **options)
        return Source(self.file, self.column, column)


@dataclass(frozen=True, kw_only=True)
class BoundedRequest(TableRequest):
    """Options that select values between bounds."""

    lower: float = from_option(required=True)
    upper: float = from_option(required=True)
    on_out_of_range: str | None


@dataclass(frozen=True)
class Rule:
    """Checks of values before they are encoded, also applied by workers of a cluster.

    Missing values, NaN, become the ``fill``, or stay. With ``exact``, values are integers of any
    size, returned less the lower bound.
    """

    lower: float | int
    upper: float | int
    clamp: bool = False
    integers: bool = False
    exact: bool = False
    fill: float | None = None

    @classmethod
    def of(cls, request: BoundedRequest, *, integers: bool = False, exact: bool = False) -> Rule:
        """Return the rule of a sum, whose bounds are checked."""
        check_bounds(request.lower, request.upper)
        clamp = request.on_out_of_range == "clamp"
        return cls(request.lower, request.upper, clamp, integers, exact)

    @property
    def out_of_range(self) -> str:
        """Whether values outside the bounds are clamped or rejected."""
        return "clamp" if self.clamp else "reject"

    def filled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values with missing ones replaced."""
        import numpy as np

        return values if self.fill is None else np.where(np.isnan(values), self.fill, values)

    def __call__(self, values: NDArray[Any], _before: int) -> NDArray[Any]:
        """Return a block of values within the bounds, or refuse one of them."""
        import numpy as np

        from ikos.data.tables import InvalidRow

        values = self.filled(values)
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
        if self.integers and (broken := np.floor(inside) < inside).any():  # not of NaN
            reason = "which is not an integer, although --integers was given"
            raise InvalidRow(int(np.argmax(broken)), reason)
        return inside - self.lower if self.exact else inside


@dataclass
class Truth:
    """True values, which only the data holder may know: never printed unless requested."""

    total: float = 0.0
    clamped: int = 0
    before_clamping: float = 0.0

    def seen(self, column: Column, rule: Rule) -> Column:
        """Return a column checked by the rule, adding up its true values as it is read."""

        def look(values: NDArray[Any], before: int) -> NDArray[Any]:
            values = rule.filled(values)
            inside = rule(values, before)
            self.total += float(inside.sum())
            self.before_clamping += float(values.sum())
            self.clamped += int((inside != values).sum())
            return inside

        return column.seen(look)


def read(column: Column, rule: Rule, truth: Truth | None = None) -> tuple[int, Any]:
    """Return the number of users and their values, which stay unread if the number is known."""
    checked = column.seen(rule) if truth is None else truth.seen(column, rule)
    if column.rows is not None and truth is None:
        return column.rows, checked
    parts = blocks(checked)
    return sum(part.size for part in parts), (parts.popleft() for _ in range(len(parts)))


@dataclass
class Labelled:
    """Replaces texts by their labels as they are read, and refuses those that have none.

    Missing texts become None where there may be ``gaps``, and are refused elsewhere.
    """

    option: str
    labels: list[str]
    other: str | None
    gaps: bool = False
    remedy: str = "; use --other NAME to count such values"
    fits: bool = False
    """Whether a text was one of the labels."""

    def __post_init__(self) -> None:
        from ikos.data.domains import CategoryLabels

        name = self.option.removeprefix("--")
        self._known = CategoryLabels(name, self.labels)
        every = self.labels if self.other is None else [*self.labels, self.other]
        check_labels(self.option if self.other is None else f"{self.option} and --other", every)

    def __call__(self, cells: NDArray[Any], _before: int) -> NDArray[Any]:
        """Return the labels of a block."""
        import numpy as np

        from ikos.data.domains import CategoryLabels
        from ikos.data.tables import InvalidRow

        places = self._known.places(cells.tolist())
        if (missing := places == CategoryLabels.MISSING).any() and not self.gaps:
            raise InvalidRow(int(np.argmax(missing)))
        others = places == CategoryLabels.OTHER
        if self.other is None and others.any():
            reason = f"which is not one of the {self.option}{self.remedy}"
            raise InvalidRow(int(np.argmax(others)), reason)
        self.fits |= bool((places >= 0).any())
        # MISSING is -2, OTHER -1
        return np.array([*self.labels, None, self.other], dtype=object)[places]

    def check(self, column: str) -> None:
        """Refuse a column of which no text was one of the labels."""
        if not self.fits:
            raise click.UsageError(f"no value of {named(column)} is one of the {self.option}")


def blocks(column: Column) -> deque[NDArray[Any]]:
    """Read a column."""
    with progress("reading") as shown:
        return deque(column.blocks(shown))


def check_proved(protocol: PrivateSum | SecureSum, *, unproved: bool) -> None:
    """Refuse a protocol without a proven guarantee, unless it may be ``unproved``."""
    if not (unproved or protocol.guarantee.proved):
        raise click.UsageError(f"{_why_unproved(protocol)}; --unproved runs it anyway")


def _why_unproved(protocol: PrivateSum | SecureSum) -> str:
    from ikos.counts.published import unproved

    count = protocol.messages
    reason = unproved(count.analysis, protocol.transport.group.q)
    return f"{count.analysis} is {reason}" if reason else f"--messages {count.total} proves nothing"


def ledger_notes(ledger: Ledger | None) -> list[str]:
    """Return a line on the remaining budget of a ledger."""
    if ledger is None:
        return []
    return [f"Recorded in {ledger.path}, which has {ledger.left} left."]


def opened(file: Path | None, note: str | None = None) -> Ledger | None:
    """Open a ledger, if one is given, with the note of a release."""
    from ikos.sums.ledger import Ledger

    if file is None and note is not None:
        raise click.UsageError("--note needs --ledger")
    return None if file is None else Ledger(file).noted(note or "")


@contextmanager
def adding_up() -> Iterator[None]:
    """Show the progress of the sums that are run meanwhile."""
    from ikos.primitives.concurrency import reporting

    with progress("adding up shares") as shown, reporting(shown):
        yield


def drawn(
    report: Report,
    path: Path | None,
    result: Tabular,
    *quantities: str,
    titles: Mapping[str, str] | None = None,
) -> Report:
    """Return a report after drawing its figure, if there is a ``path`` for it.

    The panels of some quantities have other ``titles``.
    """
    if path is not None:
        from ikos.plots import save

        try:
            figure = result.plot(*quantities)
            for axes in figure.axes:
                name = axes.get_xlabel()
                axes.set_xlabel((titles or {}).get(name, name))
            save(figure, path)
        except (ValueError, MemoryError, OSError):
            # the result is released, and is not lost with its figure
            print_report(replace(report, data={**report.data, "plot": None}))
            raise
    return report


@contextmanager
def nothing_released() -> Iterator[None]:
    """State at Ctrl-C that nothing was released."""
    try:
        yield
    except KeyboardInterrupt as stop:
        reason = str(stop) or "interrupted"
        raise KeyboardInterrupt(f"{reason}; nothing was released") from None


@dataclass(frozen=True)
class SumOutcome:
    """A sum that was released: the source of the values of `SUM_KEYS`."""

    source: Source
    rule: Rule
    users: int
    protocol: PrivateSum | SecureSum
    guarantee: Guarantee | SecureGuarantee
    cost: Cost

    @property
    def transport(self) -> Transport:
        """The transport that added up the shares."""
        return self.protocol.transport

    @property
    def trust(self) -> Any:
        """The parties that it relies on."""
        return cast(Any, self.transport).trust

    @property
    def min_honest(self) -> int:
        """Number of honest users that the guarantee counts on."""
        return self.protocol.min_honest

    @property
    def modulus(self) -> str:
        """Order of the group of the shares, in digits."""
        return digits(self.transport.group.q)


def warnings_of(protocol: PrivateSum | SecureSum, corrupt_shufflers: int) -> list[str]:
    """Return warnings on the guarantee and on the trusted parties."""
    from ikos.results.sums import trust_warnings

    warnings = trust_warnings(corrupt_shufflers, protocol.messages.shuffled)
    if not protocol.guarantee.proved:
        warnings.insert(0, f"{_why_unproved(protocol)}: the release may reveal all values")
    return warnings


def guarantee_notes(guarantee: Guarantee | SecureGuarantee) -> list[str]:
    """Return the guarantee and its conditions."""
    if not guarantee.proved:
        return ["NOTHING is proved. The shares may reveal the values."]
    return [f"Guarantee: {guarantee}.", *(f"Condition: {one}." for one in guarantee.conditions)]


def _shown(bound: float) -> str:
    return power_text(bound) if isinstance(bound, int) else f"{bound:,.10g}"


def notes_of(outcome: SumOutcome) -> list[str]:
    """Return the guarantee and its conditions, the public numbers, and the cost."""
    rule = outcome.rule
    notes = guarantee_notes(outcome.guarantee)
    notes.append(
        f"The number of users, {outcome.users:,}, and the bounds, {bounds(rule)}, are public and "
        "not protected."
    )
    sent = f"{outcome.cost}, integers modulo {power_text(outcome.transport.group.q)}"
    return [*notes, *rule_notes(rule), f"Sent, in a simulation of all parties: {sent}."]


def bounds(rule: Rule) -> str:
    """Return the bounds for people."""
    return f"{_shown(rule.lower)} and {_shown(rule.upper)}"


def rule_notes(rule: Rule) -> list[str]:
    """Return what a rule may have changed."""
    notes = []
    if rule.clamp:
        notes.append(
            "Values outside the bounds were moved to the nearest bound. Their number, which is "
            "not private, is not shown."
        )
    if rule.fill is not None:
        notes.append(
            f"The value {_shown(rule.fill)}, which is public, stands for each missing one. Their "
            "number, which is not private, is not shown."
        )
    return notes
