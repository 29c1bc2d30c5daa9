"""``ikos count``: how many users have one of some values, of all users or by groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli import groups, release
from ikos.cli.errors import Command
from ikos.cli.options import check_plot, from_option, takes
from ikos.cli.types import LABELS
from ikos.results.report import Field, Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ikos.data.tables import Cells

NUMBERS = ("count", "sum", "mean", "missing")
TITLES = {"sum": "count", "mean": "proportion", "count": "users"}

KEYS = [
    *groups.VECTOR_KEYS,
    Field("where", "the values that are counted", value="request.where"),
    Field("sum", "the estimated number of users with one of them; with --by null, as are all "
          "estimates beside those in rows", value="sum.value"),
    *groups.fields("sum")[1:],
    *groups.fields("mean", "their proportion; without --by, "),
    *groups.fields("count", "with --on-missing exclude and without --by, "),
    *groups.fields("missing", "without --by, "),
    Field("confidence", "confidence level of the intervals"),
    *groups.KEYS,
    release.LEDGER,
    release.PLOT,
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos count people.csv --column vote --where yes \\
      --epsilon 1 --delta 1e-9
  ikos count people.csv --column age --where 65..120 --by region \\
      --groups north,south --on-missing exclude --epsilon 1 --delta 1e-9
"""


@dataclass(frozen=True, kw_only=True)
class WhereRequest(release.TableRequest):
    """Options that select the users who are counted."""

    where: list[str] = from_option(
        type=LABELS, required=True, metavar="LIST",
        help="Values that are counted, written as --categories. All others are not.",
    )  # fmt: skip


@dataclass(frozen=True)
class Answers:
    """Whether texts are among the values that are counted: 1 or 0, or ``missing``."""

    where: list[str]
    missing: float | None

    def __call__(self, cells: NDArray[Any], _before: int) -> NDArray[Any]:
        """Return the answers in a block."""
        import numpy as np

        from ikos.data.domains import CategoryLabels
        from ikos.data.tables import InvalidRow

        places = CategoryLabels("where", self.where).places(cells.tolist())
        absent = places == CategoryLabels.MISSING
        if absent.any() and self.missing is None:
            raise InvalidRow(int(np.argmax(absent)))
        answers: NDArray[Any] = (places >= 0).astype(np.float64)
        answers[absent] = self.missing
        return answers


@dataclass(frozen=True, kw_only=True)
class CountRequest(groups.GroupedRequest, WhereRequest):
    """Options of counts."""

    confidence: float
    plot: Path | None

    @property
    def rule(self) -> release.Rule:
        """The bounds of an answer."""
        if self.fill not in (None, 0, 1):
            what = "must be refuse, exclude, or of answers 1 or 0, counted or not"
            raise click.UsageError(f"--on-missing {what}, got {self.fill:g}")
        return release.Rule(0, 1, integers=True, fill=self.fill)

    @property
    def cells(self) -> Cells:
        """The cells, of which answers are made as they are read."""
        from ikos.data.tables import Cells

        answers = Answers(self.where, math.nan if self.excluded else self.rule.fill)
        return Cells(self.column, texts=True, looks=(answers,))

    @property
    def limits(self) -> dict[str, Any]:
        """The bounds of an answer, which is an integer."""
        return super().limits | {"integers": True}


@click.command(
    "count", cls=Command, epilog=EXAMPLES, keys=KEYS,
    sections=groups.SECTIONS,
    columns=[*release.COLUMNS, *groups.columns(*NUMBERS)],
    help=f"""Release a differentially private count of users, and their proportion.

    The rows with any of the --where values in the column are counted together; 'ikos histogram'
    counts each value. Do not take the values from the data.

    {groups.TABLE}

    {groups.PUBLIC}""",
)  # fmt: skip
@release.of_table
@release.nothing_released()
@takes(CountRequest)
def command(request: CountRequest) -> Report:
    """Release a count."""
    from ikos.statistics import mean

    check_plot(request.plot)
    ledger = release.opened(request.ledger, request.note)
    answers, arguments = request.arguments()
    with release.adding_up():
        result = mean(answers, **arguments, ledger=ledger)
    report = groups.report(
        [request], result, "sum", NUMBERS, KEYS, title="count", confidence=request.confidence,
        ledger=ledger, shown=("sum", "mean", "count", "missing"),
        titles=TITLES,
    )  # fmt: skip
    return release.drawn(report, request.plot, result, "sum", "mean", titles=TITLES)
