"""``ikos histogram``: private counts of the values of a column, by category or by bin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli import groups, release
from ikos.cli.errors import Command, clipped
from ikos.cli.options import check_plot, from_option, takes
from ikos.cli.output import at_least
from ikos.cli.types import BINS, BOUND, Number
from ikos.results.report import Field, Report, values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ikos.results.guarantees import Guarantee
    from ikos.results.sums import Cost, SumResult
    from ikos.sums.ledger import Ledger

KEYS = [
    *release.TABLE_KEYS,
    Field("categories", "the categories counted; public"),
    Field("out_of_range", "with --bins, reject or clamp; else null"),
    Field("on_missing", "refuse, exclude, or the value that stands for each missing one"),
    groups.BY,
    *groups.fields("missing", "without --by, "),
    Field("confidence", "confidence level of the intervals"),
    Field("standard_error", "bound on the root mean squared error of each count"),
    release.LEDGER,
    release.PLOT,
    Field("choice", "with --max-error or --max-bytes, a line for each protocol, the chosen one "
          "first; else null"),
]  # fmt: skip

COLUMNS = [groups.GROUP, replace(release.COLUMNS[0], title="category"), *release.COLUMNS[1:]]

EXAMPLES = """\b
Examples
  ikos histogram people.csv --column vote \\
      --categories yes,no --epsilon 1 --delta 1e-9
  ikos histogram people.csv --column age \\
      --bins 0,18,65,120 --epsilon 1 --delta 1e-9 --json
  ikos histogram people.csv --column age --max-error 20 \\
      --categories 0..120 --epsilon 1 --delta 1e-9
  ikos histogram people.csv --column vote --categories yes,no \\
      --by region --groups north,south --epsilon 1 --delta 1e-9
"""

SECTIONS = {"column": "Values", "by": "Groups", "other": "Values", "epsilon": "Privacy",
            "no_header": "Table format", "max_error": "Protocol", "on_out_of_range": "Values",
            "analysis": "Protocol",
            "shuffler": "Protocol", "confidence": "Output"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CellsRequest(groups.GroupsRequest):
    """Options that select what is counted."""

    categories: list[str] | None
    other: str | None = from_option(
        metavar="NAME",
        show_default="other values are refused",
        help="Name under which all other values are counted; other labels of groups are refused.",
    )
    bins: tuple[Fraction, ...] | None = from_option(
        type=BINS, metavar="LIST", help="Edges of bins of numbers, e.g. 0,18,65,120; each contains "
        "its lower edge, and the last one both edges.")  # fmt: skip
    on_out_of_range: str | None
    on_missing: str = from_option(
        type=str, metavar="[refuse|exclude|VALUE]",
        help="Refuse missing values; count them too, and with --by leave out users without a "
        "label; or a public category, or with --bins a number, that stands for each.",
    )  # fmt: skip
    max_error: Fraction | None = from_option(
        type=Number(above=0),
        help="Limit on the root mean squared error of each count: take the protocol with the "
        "fewest bytes.",
    )
    max_bytes: Fraction | None = from_option(
        type=Number(above=0),
        help="Limit on the mean bytes per user: take the protocol with the smallest error.",
    )


@dataclass(frozen=True, kw_only=True)
class HistogramRequest(groups.BudgetRequest, CellsRequest):
    """Options of histograms."""

    confidence: float
    plot: Path | None

    def check(self) -> None:
        """Refuse options that do not go together."""
        if (self.categories is None) == (self.bins is None):
            raise click.UsageError("give either --categories or --bins")
        if self.bins is None and self.on_out_of_range:
            raise click.UsageError("--on-out-of-range goes with --bins")
        if self.categories is None and self.other is not None:
            raise click.UsageError("--other goes with --categories")
        if self.max_error is not None and self.max_bytes is not None:
            raise click.UsageError("give either --max-error or --max-bytes")

    @property
    def budget(self) -> dict[str, Any]:
        """The guarantee, and the limit by which a protocol is chosen."""
        return {
            "epsilon": self.epsilon, "delta": self.delta, "max_error": self.max_error,
            "max_bytes": self.max_bytes,
        }  # fmt: skip

    @property
    def other_group(self) -> None:
        """There is no group of other labels: ``other`` is a category."""

    def looks(self, columns: Sequence[str]) -> list[release.Labelled]:
        """Return the checks of the labels, of which others cannot be counted."""
        return [replace(look, remedy="") for look in super().looks(columns)]

    @property
    def filled(self) -> bool:
        """Whether a value stands for missing ones."""
        return self.on_missing not in ("refuse", "exclude")


@dataclass(frozen=True)
class Count(release.EstimateRow):
    """A count of a group, or of all users."""

    group: groups.Label = None


@dataclass(frozen=True)
class HistogramOutcome:
    """A histogram that was released: the source of the values of `KEYS`."""

    request: HistogramRequest
    users: int
    categories: list[str]
    out_of_range: str | None
    on_missing: str
    missing: release.EstimateRow | None
    confidence: float
    choice: list[str] | None
    result: SumResult
    ledger: Ledger | None

    @property
    def source(self) -> HistogramRequest:
        """The names of the table and the column."""
        return self.request

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for all counts."""
        return self.result.guarantee

    @property
    def cost(self) -> Cost:
        """The messages and bits that were sent."""
        return self.result.cost

    @property
    def standard_error(self) -> float:
        """Bound on the root mean squared error of each count."""
        return math.sqrt(self.result.error.coordinate.mean_square)


@click.command(
    "histogram", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=COLUMNS
)
@release.of_table
@release.nothing_released()
@takes(HistogramRequest)
def command(request: HistogramRequest) -> Report:
    """Release differentially private counts of a column's values.

    Counts the rows in each of the --categories, which may be text, or the --bins of numbers. These
    are public, as is the number of rows: do not take them from the data. One guarantee covers all
    counts, however many there are. With --by, the rows of each group are counted, in one release
    that protects the group of each user too. TABLE is as for 'ikos sum'.

    By default, each category has a separate private sum; with --max-error or --max-bytes, protocols
    with few messages are tried too.
    """
    from ikos.results.sums import Interval, budget_warnings
    from ikos.statistics import histogram

    check_plot(request.plot)
    request.check()
    labels, cells, grouping = _cells(request)
    users, ledger = len(cells), release.opened(request.ledger, request.note)
    names = [*labels, *(["missing"] if request.excluded else [])]
    missing = "refuse" if request.filled and request.bins else request.on_missing
    choice = _choice(request, users, len(names))
    with release.adding_up():
        counts = histogram(
            cells, labels, ledger=ledger, missing=missing, **grouping, **request.budget,
            **request.trust(users),
        )  # fmt: skip
    rows = []
    for group, result in (counts if request.by else {None: counts}).items():
        ends = (end.tolist() for end in result.private.interval(request.confidence))
        intervals = map(Interval._make, zip(*ends, strict=True))
        estimates = zip(names, result.private.estimate.tolist(), intervals, strict=True)
        rows += [Count(*estimate, group) for estimate in estimates]
    alone = not request.by
    outcome = HistogramOutcome(
        request, users, labels, (request.on_out_of_range or "reject") if request.bins else None,
        request.on_missing, rows[-1] if request.excluded and alone else None, request.confidence,
        choice, counts._sum, ledger,
    )  # fmt: skip
    title = f"Private counts of {request.which}, {users:,} user{'s' * (users != 1)}"
    warnings = budget_warnings(request.epsilon, request.delta, users)
    data = values(KEYS, outcome)
    columns = release.COLUMNS if alone else COLUMNS
    report = Report(title, columns, rows, _notes(outcome), data, warnings)
    return release.drawn(report, request.plot, counts)


def _choice(request: HistogramRequest, users: int, categories: int) -> list[str] | None:
    """Return lines about the protocols for a limit, the chosen one first."""
    from ikos.statistics import histogram_protocols

    if request.max_error is None and request.max_bytes is None:
        return None
    # with groups, users without a label have a place of their own
    counted = math.prod(map(len, request.groups)) * categories
    counted += request.excluded and bool(request.by)
    protocols = histogram_protocols(users, counted, **request.budget, **request.trust(users))
    return [
        f"{type(protocol).__name__}: error of each count at most "
        f"{at_least(math.sqrt(protocol.error(users).coordinate.mean_square))}; {protocol.cost()}."
        for protocol in protocols
    ]


def _notes(outcome: HistogramOutcome) -> list[str]:
    from ikos.results.text import percent

    request = outcome.request
    public = "the categories and the labels of the groups" if request.by else "and the categories"
    return [
        f"Each interval contains the true count with {percent(outcome.confidence)} confidence. "
        "Nothing is clipped: small counts can come out negative.",
        *release.guarantee_notes(outcome.guarantee),
        f"The number of users, {outcome.users:,}, {public} are public and not protected.",
        *request.protected,
        *(
            [f"The value {request.on_missing}, which is public, stands for each missing one."]
            if request.filled
            else []
        ),
        f"Sent, in a simulation of all parties: {outcome.cost}.",
        *(
            f"{'Not chosen' if place else 'Chosen'}: {line}"
            for place, line in enumerate(outcome.choice or ())
        ),
        *release.ledger_notes(outcome.ledger),
    ]


def _cells(request: HistogramRequest) -> tuple[list[str], NDArray[Any], dict[str, Any]]:
    """Return the categories or bins, each user's or None, and arguments about groups."""
    if request.categories is not None:
        return _labelled(request, request.categories)
    return _binned(request, request.bins or ())


def _binned(
    request: HistogramRequest, bins: tuple[Fraction, ...]
) -> tuple[list[str], NDArray[Any], dict[str, Any]]:
    """Return the bins, each user's bin, and arguments about groups."""
    import numpy as np

    from ikos._validation import quote
    from ikos.data.tables import Cells

    texts, edges = [*map(quote, bins)], [*map(float, bins)]
    if len(edges) < 2 or sorted(set(edges)) != edges:
        raise click.UsageError(
            "--bins must be two or more numbers that increase as doubles, got "
            + clipped(",".join(texts))
        )
    fill = None
    if request.filled:
        try:
            fill = float(BOUND.convert(request.on_missing, None, None))
        except click.BadParameter:
            fill = math.nan
        if not edges[0] <= fill <= edges[-1]:
            what = "must be refuse, exclude or a number within the --bins"
            raise click.UsageError(f"--on-missing {what}, got {clipped(request.on_missing)}")
    rule = release.Rule(edges[0], edges[-1], request.on_out_of_range == "clamp", fill=fill)
    (values,), grouping = request.read([Cells(request.column, looks=(rule,))])
    labels = [f"[{low}, {high})" for low, high in pairwise(texts)]
    labels[-1] = labels[-1][:-1] + "]"
    cells = np.array(labels, dtype=object)[np.digitize(values, edges[1:-1]) % len(labels)]
    cells[np.isnan(values)] = None
    return labels, cells, grouping


def _labelled(
    request: HistogramRequest, labels: list[str]
) -> tuple[list[str], NDArray[Any], dict[str, Any]]:
    """Return the categories, each user's category, and arguments about groups."""
    from ikos.data.tables import Cells

    labelled = release.Labelled(
        "--categories", labels, request.other, gaps=request.on_missing != "refuse"
    )
    every = [*labels, *([] if request.other is None else [request.other])]
    if request.filled and request.on_missing not in every:
        what = "must be refuse, exclude or one of the --categories"
        raise click.UsageError(f"--on-missing {what}, got {clipped(request.on_missing)}")
    (cells,), grouping = request.read([Cells(request.column, texts=True, looks=(labelled,))])
    labelled.check(request.column)
    return every, cells, grouping
