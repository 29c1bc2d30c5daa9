"""Releases by groups, and of columns in which values are missing: options, reading and rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import click

from ikos.cli import release
from ikos.cli.options import CLEAR_SHARE, from_option
from ikos.cli.output import plain, progress
from ikos.cli.types import Honest
from ikos.results.report import Field, Report, values

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    from numpy.typing import NDArray

    from ikos.data.tables import Cells
    from ikos.results.guarantees import Guarantee
    from ikos.results.sums import Cost, SumResult
    from ikos.sums.ledger import Ledger

Label = str | tuple[str, ...] | None
"""The label of a group, or for several columns of labels one of each."""

BY = Field("by", "the columns of the groups' labels; empty without groups", value="request.by")

KEYS = [
    Field("on_missing", "refuse, exclude, or the number that stands for each missing value",
          value="request.on_missing"),
    BY,
]  # fmt: skip
"""The keys of every release that may be by groups."""

VECTOR_KEYS = [
    *release.TABLE_KEYS,
    *(one for one in release.SUM_KEYS[len(release.TABLE_KEYS) :]
      if one.key not in ("messages", "modulus")),
]  # fmt: skip
"""The keys of every release of a sum of vectors."""

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
class BudgetRequest(release.TableRequest):
    """Options of private releases: the guarantee, the ledger, trusted parties."""

    epsilon: Fraction = from_option(required=True)
    delta: Fraction = from_option(required=True)
    ledger: Path | None
    note: str | None
    min_honest: int | Fraction | None
    corrupt_shufflers: int
    analysis: str
    shuffler: str
    clear_share: bool = from_option(CLEAR_SHARE)

    def trust(self, users: int) -> dict[str, Any]:
        """Return the options about trusted parties."""
        return {
            "min_honest": Honest.of(self.min_honest, users), "analysis": self.analysis,
            "corrupt_shufflers": self.corrupt_shufflers, "shuffler": self.shuffler,
            "clear_share": self.clear_share,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GroupsRequest(release.TableRequest):
    """Options of groups, and of missing values."""

    on_missing: str | float
    by: tuple[str, ...]
    groups: tuple[list[str], ...]
    other: str | None = from_option(
        metavar="NAME",
        show_default="other labels are refused",
        help="Name of one more group, of all users with other labels.",
    )

    @property
    def which(self) -> str:
        """The column, in words, and those of the groups."""
        by = f" by {' and '.join(map(release.named, self.by))}" if self.by else ""
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
    def other_group(self) -> str | None:
        """The name of one more group, if there is one."""
        return self.other

    @property
    def protected(self) -> list[str]:
        """A sentence on what is protected besides the values, if anything is."""
        value = "whether it has a value" if self.by else "Whether a user has a value"
        what = ["The group of each user"] * bool(self.by) + [value] * self.excluded
        verb = "are" if len(what) > 1 else "is"
        return [f"{' and '.join(what)} {verb} protected as the values are."] if what else []

    def looks(self, columns: Sequence[str]) -> list[release.Labelled]:
        """Return the checks of the labels in each column of them, besides ``columns`` of values."""
        if len(self.by) != len(self.groups):
            raise click.UsageError("--groups must be given once for each --by")
        if len({*columns, *self.by}) < len(columns) + len(self.by):
            listed = ", ".join((*columns, *self.by))
            raise click.UsageError(f"--column and --by must name different columns, got {listed}")
        if self.other_group is not None and not self.by:
            raise click.UsageError("--other goes with --by")
        return [
            release.Labelled("--groups", labels, self.other_group, self.excluded)
            for labels in self.groups
        ]

    def grouping(self, labels: Sequence[NDArray[Any]]) -> dict[str, Any]:
        """Return arguments of `ikos.statistics` about groups, from the columns of labels."""
        if not self.by:
            return {}
        if len(self.by) == 1:
            return {"by": labels[0], "groups": self.groups[0], "other": self.other_group}
        return {
            "by": dict(zip(self.by, labels, strict=True)),
            "groups": dict(zip(self.by, self.groups, strict=True)), "other": self.other_group,
        }  # fmt: skip

    def read(self, columns: Sequence[Cells]) -> tuple[list[NDArray[Any]], dict[str, Any]]:
        """Read columns of values and of labels together; return the values, and `grouping`."""
        import numpy as np

        from ikos.data.tables import Cells, open_columns

        looks = self.looks([str(one.column) for one in columns])
        labels = [
            Cells(column, texts=True, looks=(look,))
            for column, look in zip(self.by, looks, strict=True)
        ]
        gaps = self.on_missing != "refuse"
        table = open_columns(self.file, [*columns, *labels], gaps=gaps, **self.format)
        with progress("reading") as show:
            read = zip(*table.row_blocks(show), strict=True)
            values = [np.concatenate(blocks) for blocks in read]
        for column, look in zip(self.by, looks, strict=True):
            look.check(column)
        return values[: len(columns)], self.grouping(values[len(columns) :])


@dataclass(frozen=True)
class NamedColumns:
    """An array with a row for each user and names of its columns, as a data frame has them."""

    columns: list[str]
    values: NDArray[Any]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.values


@dataclass(frozen=True, kw_only=True)
class GroupedRequest(BudgetRequest, GroupsRequest, ABC):
    """Options of private releases, perhaps by groups, or of users who have a value."""

    @property
    @abstractmethod
    def rule(self) -> release.Rule:
        """The checks of values, and the public bounds."""

    @property
    @abstractmethod
    def cells(self) -> Cells:
        """The cells of the values."""

    @property
    def limits(self) -> dict[str, Any]:
        """The arguments of `ikos.statistics` about values."""
        return {"lower": self.rule.lower, "upper": self.rule.upper}

    def arguments(self, *others: GroupedRequest) -> tuple[Any, dict[str, Any]]:
        """Read the columns together; return the values, and arguments of `ikos.statistics`.

        The ``others`` are for more columns, which with this one are a table of values.
        """
        import numpy as np

        requests = (self, *others)
        values, grouping = self.read([one.cells for one in requests])
        x: Any = values[0]
        limits = self.limits
        if others:
            x = NamedColumns([one.column for one in requests], np.stack(values, axis=1))
            limits = {name: [one.limits[name] for one in requests] for name in ("lower", "upper")}
        return x, {
            "epsilon": self.epsilon, "delta": self.delta, **limits, **grouping,
            "missing": "exclude" if self.excluded else "refuse", **self.trust(values[0].size),
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ValuesRequest(GroupedRequest, release.BoundedRequest):
    """Options of releases of numbers between bounds."""

    @property
    def cells(self) -> Cells:
        """The cells of the values, checked as they are read."""
        from ikos.data.tables import Cells

        return Cells(self.column, looks=(self.rule,))

    @property
    def whole(self) -> bool:
        """Whether values are integers."""
        return False

    @property
    def rule(self) -> release.Rule:
        """The checks of values."""
        rule, fill = release.Rule.of(self, integers=self.whole), self.fill
        if fill is not None and not (
            self.lower <= fill <= self.upper and (fill.is_integer() or not self.whole)
        ):
            what = "must be a value within the bounds, with --integers an integer"
            raise click.UsageError(f"--on-missing {what}, got {plain(fill)}")
        return replace(rule, fill=fill)


@dataclass(frozen=True, kw_only=True)
class IntegersRequest(release.BoundedRequest):
    """Options of numbers that may be integers."""

    integers: bool


@dataclass(frozen=True, kw_only=True)
class NumbersRequest(ValuesRequest, IntegersRequest):
    """Options of releases of numbers between bounds that may be integers."""

    @property
    def whole(self) -> bool:
        """Whether values are integers."""
        return self.integers

    @property
    def limits(self) -> dict[str, Any]:
        """The bounds, and whether values are integers."""
        return super().limits | {"integers": self.integers}


MEANINGS = {
    "count": "the number of users who have a value", "sum": "the sum of the values",
    "mean": "the mean of the values; null if noise and data exclude no mean",
    "variance": "the variance of the values; null if noise and data exclude none",
    "missing": "the number of users without a value, with --on-missing exclude; else null",
}  # fmt: skip


@dataclass(frozen=True)
class Estimates:
    """The numbers of a group, or of all users."""

    count: release.EstimateRow | None = None
    sum: release.EstimateRow | None = None
    mean: release.EstimateRow | None = None
    variance: release.EstimateRow | None = None
    missing: release.EstimateRow | None = None
    group: Label = None
    column: str | None = None

    @classmethod
    def of(cls, result: Any, confidence: float, main: str) -> list[Estimates]:
        """Return the numbers of each row of a result, whose ``main`` number is its estimate."""
        import numpy as np

        from ikos.results.sums import Interval
        from ikos.results.tables import Results
        from ikos.statistics.groups import Means

        if isinstance(result, Results):
            return [
                replace(row, column=str(column))
                for column, one in result.items()
                for row in cls.of(one, confidence, main)
            ]
        if isinstance(result, Means):
            names = {name: name if name == "missing" else f"{name}s" for name in MEANINGS}
            numbers = {
                name: (getattr(result, of)(), getattr(result, f"{name}_interval")(confidence))
                for name, of in names.items()
                if hasattr(result, of) and (name != "missing" or result.excluded)
            }
        else:
            means = getattr(result, "means", None) or result.mean
            numbers = {
                main: (result.estimate, result.interval(confidence)),
                "mean": (means(), result.mean_interval(confidence)),
            }
        estimates = {}
        for name, (of_rows, band) in numbers.items():
            ends = (np.atleast_1d(end).tolist() for end in band)
            intervals = map(Interval._make, zip(*ends, strict=True))
            estimates[name] = [
                release.EstimateRow(name, *one)
                for one in zip(np.atleast_1d(of_rows).tolist(), intervals, strict=True)
            ]
        rows = [
            dict(zip(estimates, row, strict=True)) for row in zip(*estimates.values(), strict=True)
        ]
        groups, columns = (
            getattr(result, labels, None) or [None] * len(rows) for labels in ("groups", "columns")
        )
        return [
            cls(**row, group=group, column=column)
            for row, group, column in zip(rows, groups, columns, strict=True)
        ]


def fields(name: str, where: str = "") -> list[Field]:
    """Return the columns, or keys, of an estimate and its interval."""

    def text(write: Callable[[release.EstimateRow], str]) -> Callable[[Any], str]:
        return lambda row: write(getattr(row, name))

    title = "users" if name == "count" else name
    estimate = Field(name, f"{where}{MEANINGS[name]}", title, value=f"{name}.value", text=text(str))
    write = release.EstimateRow
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

COLUMN = Field("column", "with several columns, the name of one", "")


def columns(*names: str, where: str = "with --by, ") -> list[Field]:
    """Return the columns of a table by groups, with the numbers of these names."""
    return [GROUP, *(one for name in names for one in fields(name, where))]


def columns_of_several(*names: str) -> list[Field]:
    """Return the columns of a table by columns, groups or both."""
    return [COLUMN, *columns(*names, where="with --by or several columns, ")]


@dataclass(frozen=True)
class Outcome:
    """Numbers that were released together: a source of the values of keys."""

    requests: Sequence[GroupedRequest]
    confidence: float
    result: SumResult
    ledger: Ledger | None
    count: release.EstimateRow | None = None
    sum: release.EstimateRow | None = None
    mean: release.EstimateRow | None = None
    variance: release.EstimateRow | None = None
    missing: release.EstimateRow | None = None
    """Of one column of all users."""

    protocol: ClassVar[None] = None
    transport: ClassVar[None] = None
    modulus: ClassVar[None] = None
    standard_error: ClassVar[None] = None
    not_private: ClassVar[None] = None

    @property
    def request(self) -> GroupedRequest:
        """What is requested of every column; of several, otherwise the first."""
        return self.requests[0]

    @property
    def source(self) -> GroupedRequest:
        """The names of the table and the column."""
        return self.request

    @property
    def which(self) -> str:
        """The columns, in words, and those of the groups."""
        others = [release.named(one.column) for one in self.requests[:-1]]
        return ", ".join([*others, self.requests[-1].which])

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
        return int(cast(Any, self.result.error.coordinate).precision)

    @property
    def cost(self) -> Cost:
        """The messages and bits that were sent."""
        return self.result.cost

    @property
    def notes(self) -> list[str]:
        """What intervals contain, the guarantee, what is public and what is not, and the cost."""
        from ikos.results.text import percent

        request = self.request
        bounds = dict.fromkeys(release.bounds(one.rule) for one in self.requests)
        rows, limits = f"The number of users, {self.users:,},", f"bounds, {'; '.join(bounds)}"
        public = f"{rows} and the {limits}, are public and not protected."
        if request.by:
            public = (
                f"{rows} the {limits}, and the labels of the groups, are public and not protected."
            )
        return [
            f"Each interval contains the true value with {percent(self.confidence)} confidence.",
            *release.guarantee_notes(self.guarantee),
            public,
            *request.protected,
            *release.rule_notes(self.rule),
            f"Sent, in a simulation of all parties: {self.cost}.",
            *release.ledger_notes(self.ledger),
        ]  # fmt: skip

    @property
    def warnings(self) -> list[str]:
        """Warnings on the budget."""
        from ikos.results.sums import budget_warnings

        return budget_warnings(self.request.epsilon, self.request.delta, self.users)


def report(
    requests: Sequence[GroupedRequest],
    result: Any,
    main: str,
    names: Sequence[str],
    keys: list[Field],
    *,
    title: str,
    confidence: float,
    ledger: Ledger | None,
    shown: Sequence[str],
    titles: Mapping[str, str] | None = None,
) -> Report:
    """Return what is printed of a result: a row for each column and group, or of one per number.

    Its ``main`` number is its estimate where all users count. Of the ``names`` of numbers, only
    those ``shown`` are printed for people, some under other ``titles``.
    """
    renamed = titles or {}
    rows, several = Estimates.of(result, confidence, main), len(requests) > 1
    alone = not (several or requests[0].by)
    total = {name: getattr(rows[0], name) for name in MEANINGS} if alone else {}
    outcome = Outcome(requests, confidence, result._sum, ledger, **total)
    data = values(keys, outcome)
    if several:
        data |= {
            "column": [one.column for one in requests],
            "lower": [one.rule.lower for one in requests],
            "upper": [one.rule.upper for one in requests],
        }
    if not alone:
        table: list[Any] = rows
        head = [COLUMN] * several + [
            replace(one, title=renamed.get(one.key, one.title))
            if one.key.partition("_")[0] in ("group", *shown) else replace(one, title=None)
            for one in columns(*names)
        ]  # fmt: skip
    else:
        table = [one for name in shown if (one := getattr(rows[0], name)) is not None]
        name, *rest = release.COLUMNS
        head = [replace(name, text=lambda row: renamed.get(row.name, row.name)), *rest]
    return Report(
        f"Private {title} of {outcome.which}", head, table, outcome.notes, data, outcome.warnings
    )
