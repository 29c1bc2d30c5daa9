"""Releases by groups, and of columns in which values are missing: options, reading and rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import click

from ikos.cli import release
from ikos.cli.options import CLEAR_SHARE, from_option
from ikos.cli.output import plain, progress
from ikos.cli.types import Honest
from ikos.results.report import Field

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    from numpy.typing import NDArray

    from ikos.results.guarantees import Guarantee
    from ikos.results.sums import Cost, SumResult
    from ikos.statistics.groups import Means
    from ikos.sums.ledger import Ledger

Label = str | tuple[str, ...] | None
"""The label of a group, or for several columns of labels one of each."""

KEYS = [
    Field("on_missing", "refuse, exclude, or the number that stands for each missing value",
          value="request.on_missing"),
    Field("by", "the columns of the groups' labels; empty without groups", value="request.by"),
]  # fmt: skip
"""The keys of every release that may be by groups."""

SECTIONS = {"column": "Values", "lower": "Values", "epsilon": "Privacy", "by": "Groups",
            "no_header": "Table format", "analysis": "Protocol", "threads": "Where to run",
            "confidence": "Output"}  # fmt: skip

TABLE = (
    "TABLE is CSV (also .gz) or Parquet with one row per user, a folder of such files, or - for "
    "CSV from standard input. All users, shufflers and the analyzer are simulated here."
)

PUBLIC = (
    "The bounds, the groups and the number of rows are public: do not take bounds or groups from "
    "the data. With --by, all groups are one release with one guarantee; running the command for "
    "each group instead would publish the number of rows of each. Every further release about the "
    "same users adds to their privacy loss: 'ikos budget' keeps a total."
)


@dataclass(frozen=True, kw_only=True)
class GroupedRequest(release.BoundedRequest):
    """Options of private releases, perhaps by groups, or of users who have a value."""

    on_missing: str | float
    integers: bool
    by: tuple[str, ...]
    groups: tuple[list[str], ...]
    other: str | None = from_option(
        metavar="NAME",
        show_default="other labels are refused",
        help="Name of one more group, of all users with other labels.",
    )
    epsilon: Fraction = from_option(required=True)
    delta: Fraction = from_option(required=True)
    ledger: Path | None
    note: str | None
    min_honest: int | Fraction | None
    corrupt_shufflers: int
    analysis: str
    shuffler: str
    clear_share: bool = from_option(CLEAR_SHARE)

    @property
    def which(self) -> str:
        """The column, in words, and those of the groups."""
        by = f" by {', '.join(map(release.named, self.by))}" if self.by else ""
        return release.named(self.column) + by

    @property
    def excluded(self) -> bool:
        """Whether missing values are excluded."""
        return self.on_missing == "exclude"

    @property
    def fill(self) -> float | None:
        """The number that stands for each missing value, if there is one."""
        return self.on_missing if isinstance(self.on_missing, float) else None

    @property
    def rule(self) -> release.Rule:
        """The checks of values."""
        rule, fill = release.Rule.of(self, integers=self.integers), self.fill
        if fill is not None and not (
            self.lower <= fill <= self.upper and (fill.is_integer() or not self.integers)
        ):
            what = "must be a value within the bounds, with --integers an integer"
            raise click.UsageError(f"--on-missing {what}, got {plain(fill)}")
        return replace(rule, fill=fill)

    def trust(self, users: int) -> dict[str, Any]:
        """Return the options about trusted parties."""
        return {
            "min_honest": Honest.of(self.min_honest, users), "analysis": self.analysis,
            "corrupt_shufflers": self.corrupt_shufflers, "shuffler": self.shuffler,
            "clear_share": self.clear_share,
        }  # fmt: skip

    def arguments(self) -> tuple[NDArray[Any], dict[str, Any]]:
        """Read the columns together; return the values, and arguments of `ikos.statistics`."""
        import numpy as np

        from ikos.data.tables import Cells, open_columns

        if len(self.by) != len(self.groups):
            raise click.UsageError("--groups must be given once for each --by")
        if len(set(self.by)) < len(self.by):
            raise click.UsageError(f"--by must name different columns, got {', '.join(self.by)}")
        if self.other is not None and not self.by:
            raise click.UsageError("--other goes with --by")
        looks = [
            release.Labelled("--groups", labels, self.other, self.excluded)
            for labels in self.groups
        ]
        cells = [Cells(self.column, looks=(self.rule,))]
        cells += [
            Cells(column, texts=True, looks=(look,))
            for column, look in zip(self.by, looks, strict=True)
        ]
        gaps = self.excluded or self.fill is not None
        table = open_columns(self.file, cells, gaps=gaps, **self.format)
        with progress("reading") as show:
            read = zip(*table.row_blocks(show), strict=True)
            values, *labels = (np.concatenate(blocks) for blocks in read)
        for column, look in zip(self.by, looks, strict=True):
            look.check(column)
        arguments = {
            "lower": self.lower, "upper": self.upper, "integers": self.integers,
            "epsilon": self.epsilon, "delta": self.delta, "other": self.other,
            "missing": "exclude" if self.excluded else "refuse", **self.trust(values.size),
        }  # fmt: skip
        if len(self.by) == 1:
            arguments |= {"by": labels[0], "groups": self.groups[0]}
        elif self.by:
            arguments["by"] = dict(zip(self.by, labels, strict=True))
            arguments["groups"] = dict(zip(self.by, self.groups, strict=True))
        return values, arguments


@dataclass(frozen=True)
class Estimates:
    """The numbers of a group, or of all users."""

    count: release.Estimate | None = None
    sum: release.Estimate | None = None
    mean: release.Estimate | None = None
    missing: release.Estimate | None = None
    group: Label = None

    @classmethod
    def of(cls, result: Means, confidence: float, groups: Sequence[Label]) -> list[Estimates]:
        """Return the numbers of each group in a result."""
        import numpy as np

        from ikos.results.sums import Interval

        names = {"count": "counts", "sum": "sums", "mean": "means", "missing": "missing"}
        columns = {}
        for name in list(names)[: 4 if result.excluded else 3]:
            ends = map(np.atleast_1d, getattr(result, f"{name}_interval")(confidence))
            intervals = map(Interval._make, zip(*(end.tolist() for end in ends), strict=True))
            numbers = np.atleast_1d(getattr(result, names[name])()).tolist()
            columns[name] = [
                release.Estimate(name, *one) for one in zip(numbers, intervals, strict=True)
            ]
        rows = zip(*columns.values(), strict=True)
        return [
            cls(**dict(zip(columns, row, strict=True)), group=group)
            for group, row in zip(groups, rows, strict=True)
        ]


MEANINGS = {
    "count": "the number of users who have a value", "sum": "the sum of the values",
    "mean": "the mean of the values; null if noise and data exclude no mean",
    "missing": "the number of users without a value, with --on-missing exclude; else null",
}  # fmt: skip


def fields(name: str, where: str = "") -> list[Field]:
    """Return the columns, or keys, of an estimate and its interval."""

    def text(write: Callable[[release.Estimate], str]) -> Callable[[Any], str]:
        return lambda row: write(getattr(row, name))

    title = "users" if name == "count" else name
    estimate = Field(name, f"{where}{MEANINGS[name]}", title, value=f"{name}.value", text=text(str))
    write = release.Estimate
    return [
        estimate,
        Field(f"{name}_low", f"{where}lower end of its interval", "at least",
              value=f"{name}.interval.low", text=text(write.low)),
        Field(f"{name}_high", f"{where}upper end of its interval", "at most",
              value=f"{name}.interval.high", text=text(write.high)),
    ]  # fmt: skip


def label_text(label: Label) -> str:
    """Return the label of a group for people."""
    return ", ".join(label) if isinstance(label, tuple) else str(label)


GROUP = Field("group", "with --by, the label of the group; for several columns a list of them", "",
              show=label_text)  # fmt: skip
COLUMNS = [GROUP, *(one for name in MEANINGS for one in fields(name, "with --by, "))]


@dataclass(frozen=True)
class Outcome:
    """Numbers that were released together: a source of the values of keys."""

    request: GroupedRequest
    confidence: float
    result: SumResult
    ledger: Ledger | None
    count: release.Estimate | None = None
    sum: release.Estimate | None = None
    mean: release.Estimate | None = None
    missing: release.Estimate | None = None
    """Of all users, if there are no groups."""

    protocol: ClassVar[None] = None
    transport: ClassVar[None] = None
    modulus: ClassVar[None] = None
    standard_error: ClassVar[None] = None
    not_private: ClassVar[None] = None

    @property
    def source(self) -> GroupedRequest:
        """The names of the table and the column."""
        return self.request

    @property
    def trust(self) -> GroupedRequest:
        """The parties that it relies on."""
        return self.request

    @property
    def rule(self) -> release.Rule:
        """The checks of values."""
        return self.request.rule

    @property
    def users(self) -> int:
        """Number of rows."""
        return self.result.users

    @property
    def min_honest(self) -> int:
        """Number of honest users that the guarantee counts on."""
        return Honest.of(self.request.min_honest, self.users)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for all numbers."""
        return self.result.guarantee

    @property
    def delta(self) -> float:
        """The proved delta."""
        return self.guarantee.delta

    @property
    def precision(self) -> int:
        """The steps of the encoding between the bounds."""
        return int(self.result.domain.upper)

    @property
    def cost(self) -> Cost:
        """The messages and bits that were sent."""
        return self.result.cost

    @property
    def notes(self) -> list[str]:
        """What intervals contain, the guarantee, what is public and what is not, and the cost."""
        from ikos.results.text import percent

        request = self.request
        labels = ", and the labels of the groups," if request.by else ""
        value = "whether it has a value" if request.by else "Whether a user has a value"
        protected = ["The group of each user"] * bool(request.by) + [value] * request.excluded
        verb = "are" if len(protected) > 1 else "is"
        return [
            f"Each interval contains the true value with {percent(self.confidence)} confidence.",
            *release.guarantee_notes(self.guarantee),
            f"The number of users, {self.users:,}, the bounds, {release.bounds(self.rule)}{labels} "
            "are public and not protected.",
            *([f"{' and '.join(protected)} {verb} protected as the values are."] if protected
              else []),
            *release.rule_notes(self.rule),
            f"Sent, in a simulation of all parties: {self.cost}.",
            *release.ledger_notes(self.ledger),
        ]  # fmt: skip

    @property
    def warnings(self) -> list[str]:
        """Warnings on the budget."""
        from ikos.results.sums import budget_warnings

        return budget_warnings(self.request.epsilon, self.request.delta, self.users)
