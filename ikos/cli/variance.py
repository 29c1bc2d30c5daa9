"""``ikos variance``: the private variance of a column, of all users or by groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ikos.cli import groups, release
from ikos.cli.errors import Command
from ikos.cli.options import check_plot, takes_columns
from ikos.results.report import Field, Report

NUMBERS = ("count", "sum", "mean", "variance", "missing")

KEYS = [
    *groups.VECTOR_KEYS,
    Field("variance", "the estimate of the variance; with --by or several columns null, as are "
          "all estimates beside those in rows", value="variance.value"),
    *groups.fields("variance")[1:],
    *groups.fields("mean", "without --by, "),
    *groups.fields("count", "with --on-missing exclude and without --by, "),
    *groups.fields("sum", "with --on-missing exclude and without --by, "),
    *groups.fields("missing", "without --by, "),
    Field("confidence", "confidence level of the intervals"),
    *groups.KEYS,
    release.LEDGER,
    release.PLOT,
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos variance people.csv --column age \\
      --lower 0 --upper 120 --epsilon 1 --delta 1e-9
  ikos variance people.csv --column pay --by region \\
      --groups north,south --lower 0 --upper 10^6 --epsilon 1 --delta 1e-9
"""


@dataclass(frozen=True, kw_only=True)
class VarianceRequest(groups.ValuesRequest):
    """Options of variances."""

    confidence: float
    plot: Path | None


@click.command(
    "variance", cls=Command, epilog=EXAMPLES, sections=groups.SECTIONS, keys=KEYS,
    columns=[*release.COLUMNS, *groups.columns_of_several(*NUMBERS)],
    help=f"""Release a differentially private variance and mean of a table column, or of several.

    The variance has the denominator n, the number of users.

    {groups.TABLE}

    {groups.PUBLIC}""",
)  # fmt: skip
@release.of_table
@release.nothing_released()
@takes_columns(VarianceRequest)
def command(requests: list[VarianceRequest]) -> Report:
    """Release variances."""
    from ikos.statistics import variance, variances

    request, *others = requests
    check_plot(request.plot)
    ledger = release.opened(request.ledger, request.note)
    values, arguments = request.arguments(*others)
    with release.adding_up():
        result = (variances if others else variance)(values, **arguments, ledger=ledger)
    report = groups.report(
        requests, result, "variance", NUMBERS, KEYS, title="variance",
        confidence=request.confidence, ledger=ledger,
        shown=("variance", "mean", "count", "missing"),
    )  # fmt: skip
    return release.drawn(report, request.plot, result, "variance", "mean")
