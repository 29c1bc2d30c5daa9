"""``ikos histogram``: private counts of the values of a column, by category or by bin."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from ikos.cli import release
from ikos.cli.errors import Command
from ikos.cli.options import format_options, option, options
from ikos.cli.output import print_report
from ikos.cli.types import parsed
from ikos.report import Report

KEYS = {
    key: meaning
    for key, meaning in release.KEYS.items()
    if key in ("command", "version", "file", "column", "users", "guarantee", "proved", "cost",
               "warnings", "rows", "notes")
} | {
    "categories": "what is counted; public",
    "out_of_range": "with --bins, reject or clamp; else null",
    "confidence": "of the intervals",
    "standard_error": "of each count: bound on the root of its mean squared error",
}  # fmt: skip

EXAMPLES = """\b
Examples
  ikos histogram people.csv --column vote \\
      --categories yes,no --epsilon 1 --delta 1e-9
  ikos histogram people.csv --column age \\
      --bins 0,18,65,120 --epsilon 1 --delta 1e-9 --json
"""

SECTIONS = {
    "column": "Values",
    "epsilon": "Privacy",
    "shuffler": "Protocol",
    "confidence": "Output",
}


@click.command(
    "histogram", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=release.COLUMNS
)
@release.of_table
@option("--categories", metavar="LIST", help="What the column holds, e.g. yes,no or 1,2,3.")
@option("--other", metavar="NAME", help="Count all other values under this name.")
@option(
    "--bins",
    metavar="LIST",
    help="Edges of bins of numbers, e.g. 0,18,65,120; of each bin the lower edge belongs to it, "
    "of the last one both.",
)
@options(
    "--on-out-of-range", "--epsilon", "--delta", "--min-honest", "--corrupt-shufflers",
    "--shuffler", "--clear-share/--no-clear-share", "--confidence",
    required=("--epsilon", "--delta"),
)  # fmt: skip
@format_options
def command(
    how: str,
    categories: str | None,
    other: str | None,
    bins: str | None,
    on_out_of_range: str,
    epsilon: Fraction,
    delta: Fraction,
    confidence: float,
    **given: Any,
) -> None:
    """Release private counts of the values of a column of TABLE.

    The categories or the edges of the bins must not be taken from the data:
    they are public, as is the number of rows. All counts together have the
    guarantee, however many there are. TABLE is as for 'ikos sum', and the
    categories may be texts.
    """
    import numpy as np

    from ikos.results import Interval, budget_warnings, percent
    from ikos.vectors import Categories, PrivateVectorSum

    if (categories is None) == (bins is None):
        raise click.UsageError("give --categories or --bins")
    if other is not None and bins is not None:
        raise click.UsageError("--other goes with --categories")
    source, clamp = release.Source.taken(given), on_out_of_range == "clamp"
    with release.nothing_released():
        if bins is not None:
            labels, cells = _binned(source, bins, clamp)
        else:
            labels, cells = _labelled(source, str(categories), other)
        release.honest_users(given, len(cells))
        users, chosen = len(cells), Categories([len(labels)])
        one_hot = np.zeros((users, len(labels)), dtype=np.uint8)
        one_hot[np.arange(users), cells] = 1
        result = PrivateVectorSum(users, chosen, epsilon, delta, **given).run(one_hot)

    ends = zip(*(end.tolist() for end in result.interval(confidence)), strict=True)
    counts = zip(result.estimate.tolist(), map(Interval._make, ends), strict=True)
    columns, rows = release.estimates(dict(zip(labels, counts, strict=True)))
    title = f"Private counts of {source.which}, {users:,} users"
    notes = [
        f"Each interval holds the true count with {percent(confidence)} confidence. Nothing is "
        "clipped: small counts can come out negative.",
        *release.guarantee_notes(result.guarantee),
        f"The number of users, {users:,}, and the categories are public and not protected.",
        f"Sent, in a simulation of all parties: {result.cost}.",
    ]
    data = {
        "command": "histogram",
        "file": source.file,
        "column": source.column,
        "users": users,
        "categories": labels,
        "out_of_range": None if bins is None else on_out_of_range,
        "guarantee": result.guarantee,
        "proved": result.guarantee.proved,
        "cost": result.cost,
        "confidence": confidence,
        "standard_error": math.sqrt(result.error.coordinate.mean_square),
        "warnings": budget_warnings(epsilon, delta, users),
    }
    print_report(Report(title, columns, rows, notes, data), how)


def _binned(source: release.Source, bins: str, clamp: bool) -> tuple[list[str], list[int]]:
    """Return the bins, and of each user the place of its own."""
    import numpy as np

    found = [parsed(text.strip()) for text in bins.split(",")]
    edges = [float(edge) for edge in found if edge is not None]
    if len(edges) != len(found) or len(edges) < 2 or sorted(set(edges)) != edges:
        raise click.UsageError(f"--bins must be two or more growing numbers, got {bins[:60]!r}")
    _, values = release.read(source.open(), release.Rule(edges[0], edges[-1], clamp))
    blocks = values if isinstance(values, Iterator) else values.blocks()
    cells = np.concatenate([np.digitize(block, edges[1:-1]) for block in blocks])
    pairs = list(zip(bins.split(","), bins.split(",")[1:], strict=False))
    labels = [f"[{low.strip()}, {high.strip()})" for low, high in pairs]
    return [*labels[:-1], labels[-1][:-1] + "]"], cells.tolist()


def _labelled(
    source: release.Source, categories: str, other: str | None
) -> tuple[list[str], list[int]]:
    """Return the categories, and of each user the place of its own."""
    labels = [text.strip() for text in categories.split(",")] + ([] if other is None else [other])
    if len(set(labels)) != len(labels) or "" in labels:
        raise click.UsageError(
            f"--categories must be distinct and not empty, got {categories[:60]!r}"
        )
    places = {label: place for place, label in enumerate(labels)}
    cells = []
    for where, row, text in _texts(source):
        place = places.get(text, None if other is None else len(labels) - 1)
        if place is None:
            said = f"{text[:60]!r}, which is" if source.show_values else "a value that is"
            raise click.UsageError(
                f"{where}: row {row:,} has {said} none of the --categories; --other counts it"
            )
        cells.append(place)
    if not cells:
        raise click.UsageError(f"{source.file!r} has no rows")
    return labels, cells


def _texts(source: release.Source) -> Iterator[tuple[str, int, str]]:
    """Yield of each row its file, its number, and its cell as a text."""
    for path in _files(Path(source.file)):
        if path.endswith((".parquet", ".pq")):
            from pyarrow import parquet

            column = parquet.read_table(path, columns=[source.column]).column(0)
            cells = ["" if one is None else str(one).strip() for one in column.to_pylist()]
        else:
            cells = list(_csv_texts(path, source))
        for row, text in enumerate(cells, 1):
            yield repr(path), row, text


def _files(path: Path) -> list[str]:
    """Return a file, or the files of a folder, which must be of one kind: a copy counts twice."""
    if not path.is_dir():
        return [str(path)]
    hidden = (".", "_")
    found = sorted(
        one
        for one in path.rglob("*")
        if one.is_file() and not any(p.startswith(hidden) for p in one.relative_to(path).parts)
    )
    if len({one.suffix for one in found}) != 1:
        raise click.UsageError(f"{str(path)!r} must hold files that end alike, such as .csv")
    return [str(one) for one in found]


def _csv_texts(path: str, source: release.Source) -> Iterator[str]:
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=source.delimiter or ",", strict=True)
        width, at = 0, int(source.column) - 1 if source.no_header else -1
        for row in rows:
            if not width:
                width = len(row)
                if not source.no_header:
                    if row.count(source.column) != 1:
                        raise click.UsageError(
                            f"{path!r} has no column {source.column!r}, or several"
                        )
                    at = row.index(source.column)
                    continue
            if not row and not any(rows):  # blank lines at the end are no rows
                return
            if len(row) != width or not 0 <= at < width:
                raise click.UsageError(
                    f"{path!r}, line {rows.line_num:,}: {len(row)} cells, where there must be "
                    f"{max(width, at + 1)}"
                )
            yield row[at].strip()
