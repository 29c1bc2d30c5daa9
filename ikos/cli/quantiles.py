"""``ikos quantiles``: private quantiles of a column, of all users or by groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ikos.cli import groups, release
from ikos.cli.errors import Command
from ikos.cli.options import CHOSEN, check_plot, from_option, takes
from ikos.cli.types import PORTIONS, WHOLE
from ikos.results.report import Field, Report, values

KEYS = [
    *groups.VECTOR_KEYS,
    Field("integers", "whether values were taken as integers", value="request.integers"),
    Field("bins", "number of bins, in which quantiles are found"),
    Field("confidence", "confidence level of the intervals"),
    *groups.KEYS,
    release.LEDGER,
    release.PLOT,
]  # fmt: skip

COLUMNS = [
    groups.GROUP,
    Field("q", "the fraction of users up to the quantile", "quantile", show="{:g}".format),
    Field("value", "the estimate; null if noise and data exclude no value", "estimate",
          value="estimate.value", text=lambda row: str(row.estimate)),
    Field("low", "lower end of its interval", "at least", value="estimate.interval.low",
          text=lambda row: row.estimate.low()),
    Field("high", "upper end of its interval", "at most", value="estimate.interval.high",
          text=lambda row: row.estimate.high()),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos quantiles people.csv --column age --integers \\
      --lower 0 --upper 120 --epsilon 1 --delta 1e-9
  ikos quantiles people.csv --column pay --q 0.5,0.9 --by region \\
      --groups north,south --lower 0 --upper 10^6 --epsilon 1 --delta 1e-9
"""


@dataclass(frozen=True, kw_only=True)
class QuantilesRequest(groups.NumbersRequest):
    """Options of quantiles."""

    q: tuple[float, ...] = from_option(
        type=PORTIONS, default="0.25,0.5,0.75", metavar="LIST",
        help="The quantiles, between 0 and 1: 0.5 is the median.",
    )  # fmt: skip
    bins: int | None = from_option(
        type=WHOLE, help="Number of bins between the bounds.", show_default=CHOSEN
    )
    confidence: float
    plot: Path | None


@dataclass(frozen=True)
class Quantile:
    """A quantile of a group, or of all users."""

    group: groups.Label
    q: float
    estimate: release.EstimateRow


@dataclass(frozen=True)
class QuantilesOutcome(groups.Outcome):
    """Quantiles that were released: a source of the values of `KEYS`."""

    bins: int = 0


@click.command(
    "quantiles", cls=Command, epilog=EXAMPLES, keys=KEYS, columns=COLUMNS,
    sections={"q": "Quantiles", **groups.SECTIONS},
    help=f"""Release differentially private quantiles of a table column.

    By default the quartiles; all quantiles are of one release. Intervals end at the edges of
    equal bins between the bounds: one for each integer with --integers, but at most 1,024, and
    otherwise 32 to 1,024, the more the more users. Groups need some 200 users each.

    {groups.TABLE}

    {groups.PUBLIC}""",
)  # fmt: skip
@release.of_table
@release.nothing_released()
@takes(QuantilesRequest)
def command(request: QuantilesRequest) -> Report:
    """Release quantiles."""
    from ikos.results.sums import Interval
    from ikos.statistics import quantiles

    check_plot(request.plot)
    ledger = release.opened(request.ledger, request.note)
    values_read, arguments = request.arguments()
    with release.adding_up():
        found = quantiles(values_read, request.q, bins=request.bins, ledger=ledger, **arguments)
    results = found if request.by else {None: found}
    rows = []
    for group, result in results.items():
        ends = (end.tolist() for end in result.interval(request.confidence))
        numbers = zip(request.q, result.estimate.tolist(), *ends, strict=True)
        rows += [
            Quantile(group, q, release.EstimateRow("value", value, Interval(low, high)))
            for q, value, low, high in numbers
        ]
    outcome = QuantilesOutcome(
        [request], request.confidence, result.private, ledger, bins=result.bins
    )
    report = Report(
        f"Private quantiles of {request.which}", COLUMNS, rows, outcome.notes,
        values(KEYS, outcome), outcome.warnings,
    )  # fmt: skip
    return release.drawn(report, request.plot, found)
