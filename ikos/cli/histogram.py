"""``ikos histogram``: private counts of the values of a column, by category or by bin."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import click

from ikos.cli import release
from ikos.cli.errors import Command, clipped
from ikos.cli.options import option, options
from ikos.cli.output import at_least
from ikos.cli.types import BINS, Honest, Number, check_labels
from ikos.results.report import Field, Report, values

KEYS = [
    *release.TABLE_KEYS,
    Field("categories", "the categories counted; public"),
    Field("out_of_range", "with --bins, reject or clamp; else null"),
    Field("confidence", "of the intervals"),
    Field("standard_error", "bound on the root mean squared error of each count"),
    release.LEDGER,
    Field("choice", "with --max-error or --max-bytes, lines about the protocols, the one chosen "
          "first; else null"),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos histogram people.csv --column vote \\
      --categories yes,no --epsilon 1 --delta 1e-9
  ikos histogram people.csv --column age \\
      --bins 0,18,65,120 --epsilon 1 --delta 1e-9 --json
  ikos histogram people.csv --column age --max-error 20 \\
      --categories 0..120 --epsilon 1 --delta 1e-9
"""

SECTIONS = {"column": "Values", "epsilon": "Privacy", "shuffler": "Protocol",
            "confidence": "Output"}  # fmt: skip


@click.command(
    "histogram", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=release.COLUMNS
)
@release.of_table
@option("--categories")
@option("--other", metavar="NAME", help="Count all other values under this name.")
@option("--bins", type=BINS, metavar="LIST",
        help="Edges of bins of numbers, e.g. 0,18,65,120; each bin contains its lower edge, "
        "the last one both.")  # fmt: skip
@option("--max-error", type=Number(above=0),
        help="Largest error of each count (root mean square); fewest bytes.")  # fmt: skip
@option("--max-bytes", type=Number(above=0),
        help="Most bytes that each user sends, on average; smallest error.")  # fmt: skip
@options(
    "--on-out-of-range", "--epsilon", "--delta", "--ledger", "--min-honest", "--corrupt-shufflers",
    "--shuffler", "--clear-share/--no-clear-share", "--confidence",
    required=("--epsilon", "--delta"),
)  # fmt: skip
@release.nothing_released()
def command(
    categories: list[str] | None,
    other: str | None,
    bins: tuple[Fraction, ...] | None,
    confidence: float,
    **given: Any,
) -> Report:
    """Release private counts of the values of a column of TABLE.

    The categories or the edges of the bins must not be taken from the data: they are public, as is
    the number of rows. The guarantee covers all counts together, however many there are. TABLE is
    as for 'ikos sum'; the categories may be texts. By default, each category has a private sum;
    with --max-error or --max-bytes, protocols that send few messages are tried too.
    """
    from ikos.results.sums import Interval, budget_warnings
    from ikos.results.text import percent
    from ikos.statistics import histogram, histogram_protocols

    if (categories is None) == (bins is None):
        raise click.UsageError("give either --categories or --bins")
    on_out_of_range = given.pop("on_out_of_range")
    source = release.Source.taken(given, texts=categories is not None)
    if categories is not None:
        if on_out_of_range:
            raise click.UsageError("--on-out-of-range goes with --bins")
        labels, cells = _labelled(source, categories, other)
    elif other is not None:
        raise click.UsageError("--other goes with --categories")
    else:
        labels, cells = _binned(source, bins or (), on_out_of_range == "clamp")
    users = len(cells)
    given["min_honest"] = Honest.of(given["min_honest"], users)
    ledger = release.opened(given.pop("ledger"))
    limits, choice = [given["max_error"], given["max_bytes"]], None
    if any(limits):
        if all(limits):
            raise click.UsageError("give either --max-error or --max-bytes")
        choice = [
            f"{type(one).__name__}: error of each count at most "
            f"{at_least(math.sqrt(one.error(users).coordinate.mean_square))}; {one.cost()}."
            for one in histogram_protocols(users, len(labels), **given)
        ]
    result = histogram(cells, labels, ledger=ledger, **given).private

    ends = zip(*(end.tolist() for end in result.interval(confidence)), strict=True)
    counts = zip(labels, result.estimate.tolist(), map(Interval._make, ends), strict=True)
    found = SimpleNamespace(
        source=source, users=users, guarantee=result.guarantee, cost=result.cost,
        categories=labels, confidence=confidence, proved=result.guarantee.proved,
        out_of_range=None if bins is None else on_out_of_range or "reject",
        standard_error=math.sqrt(result.error.coordinate.mean_square), choice=choice,
        ledger=ledger,
    )  # fmt: skip
    notes = [
        f"Each interval holds the true count with {percent(confidence)} confidence. Nothing is "
        "clipped: small counts can come out negative.",
        *release.guarantee_notes(result.guarantee),
        f"The number of users, {users:,}, and the categories are public and not protected.",
        f"Sent, in a simulation of all parties: {result.cost}.",
        *(
            f"{'Not chosen' if place else 'Chosen'}: {line}"
            for place, line in enumerate(choice or ())
        ),
        *release.ledger_notes(ledger),
    ]
    title = f"Private counts of {source.which}, {users:,} user{'s' * (users != 1)}"
    rows = [release.Estimate(*one) for one in counts]
    warnings = budget_warnings(given["epsilon"], given["delta"], users)
    return Report(title, release.COLUMNS, rows, notes, values(KEYS, found), warnings)


def _binned(
    source: release.Source, bins: tuple[Fraction, ...], clamp: bool
) -> tuple[list[str], Any]:
    """Return the bins, and each user's bin."""
    import numpy as np

    from ikos._validation import quote

    texts, edges = [*map(quote, bins)], [*map(float, bins)]
    if len(edges) < 2 or sorted(set(edges)) != edges:
        got = clipped(",".join(texts))
        raise click.UsageError(
            f"--bins must be two or more numbers that grow as doubles, got {got}"
        )
    rule = release.Rule(edges[0], edges[-1], clamp)
    values = np.concatenate(release.blocks(source.values.seen(rule)))
    labels = [f"[{low}, {high})" for low, high in pairwise(texts)]
    labels[-1] = labels[-1][:-1] + "]"
    return labels, np.array(labels, dtype=object)[np.digitize(values, edges[1:-1])]


def _labelled(
    source: release.Source, labels: list[str], other: str | None
) -> tuple[list[str], Any]:
    """Return the categories, and each user's category."""
    import numpy as np

    from ikos.data.domains import CategoryLabels
    from ikos.data.tables import InvalidRow

    known = CategoryLabels("categories", labels)
    if other is not None:
        labels = [*labels, other]
    check_labels("--categories" if other is None else "--categories and --other", labels)
    names = np.array(labels, dtype=object)
    fits = False

    def look(cells: Any, _: int) -> Any:
        nonlocal fits
        places = known.places(cells.tolist())
        if (lost := places == CategoryLabels.MISSING).any():
            raise InvalidRow(int(np.argmax(lost)))
        others = places == CategoryLabels.OTHER
        if other is None and others.any():
            why = "which is none of the --categories; --other counts it"
            raise InvalidRow(int(np.argmax(others)), why)
        fits |= not others.all()
        return names[places]  # others are the last, as OTHER is -1

    found = np.concatenate(release.blocks(source.values.seen(look)))
    if not fits:
        raise click.UsageError(f"no value of {source.which} is one of the --categories")
    return labels, found
