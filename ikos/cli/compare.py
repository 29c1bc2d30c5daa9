"""``ikos compare``: every protocol for sums, side by side.

The JSON object that ``--json`` prints is described in `ikos.cli.compare_report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ikos.cli.budget import usual_delta
from ikos.cli.compare_report import (
    Asked,
    Data,
    Line,
    as_json,
    as_text,
    counted,
    no_protocol,
)
from ikos.cli.errors import Command, problem, unwritten
from ikos.cli.names import PROTOCOLS
from ikos.cli.options import FIGURE, check_bounds, check_column, option
from ikos.cli.output import print_json, print_text, progress, warn
from ikos.cli.types import TABLE, Honest, Name, Whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikos.baselines import ComparisonRow as Row

EXAMPLES = """\b
Examples
  ikos compare --users 10^4 --epsilon 1 --delta 1e-8
  ikos compare --users 10^6 --epsilon 1 \\
      --protocol private-sum --protocol privacy-blanket \\
      --plot compare.png
  ikos compare --data people.csv --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
"""

SECTIONS = {
    "users": "What to compare",
    "file": "On data",
    "plot": "Output",
}

MOST_USERS = 10**9
RUNS = 20
MOST_RUNS = 10**6

LEGEND = (
    "MSE: bound on the mean squared error of the sum, whatever the values; RMSE: its root for the "
    "mean, both in the data's units. One user: how much the messages of one dishonest user can "
    "change the sum at most."
)
NOT_PRIVATE = (
    "measured errors are differences from the true sum, and NOT private: for data that may be known"
)


@click.command("compare", cls=Command, epilog=EXAMPLES, sections=SECTIONS)
@option(
    "--users",
    type=Whole(low=1, high=MOST_USERS),
    help="How many users there are, e.g. 1000 or 10^6; or give --data.",
)
@option("--min-honest")
@option("--epsilon", required=True)
@option("--delta", shown="1/users^2")
@option("--lower", shown="0 without --data")
@option("--upper", shown="1 without --data")
@option("--protocol", "protocols", type=Name(*PROTOCOLS, listed=False))
@option(
    "--data",
    "file",
    type=TABLE,
    help="Also run every protocol on a column of values, a CSV or Parquet file with a row per "
    "user or a folder of such files, and print how far off it is, which is NOT private.",
)
@option("--column")
@option("--no-header")
@option("--delimiter")
@option("--show-values")
@option("--on-out-of-range")
@option(
    "--runs",
    type=Whole(low=1, high=MOST_RUNS),
    shown=str(RUNS),
    help="Runs of each protocol on the data.",
)
@option("--seed")
@option("--plot", help=FIGURE.format("the errors against messages and bits"))
@option("--json", "json")
def command(
    users: int | None,
    epsilon: Fraction,
    delta: Fraction | None,
    lower: float | None,
    upper: float | None,
    min_honest: int | Fraction | None,
    protocols: tuple[str, ...],
    file: str | None,
    column: str | None,
    no_header: bool,
    delimiter: str | None,
    show_values: bool,
    on_out_of_range: str | None,
    runs: int | None,
    seed: int | None,
    plot: Path | None,
    json: bool,
) -> None:
    """Compare all protocols for a private sum.

    For so many users, and the same guarantee to each of them: what each sends,
    how far off the sum can be, and how much one dishonest user can change it.
    With --data every protocol also runs on a column of values, and what is
    measured stands beside what is predicted.
    """
    if plot is not None:
        import ikos.plots.protocols  # noqa: F401  (says at once whether it can be done)
    if file is None:
        given = {
            "column": column, "no_header": no_header or None, "delimiter": delimiter,
            "show_values": show_values or None,
            "on_out_of_range": on_out_of_range, "runs": runs, "seed": seed,
        }  # fmt: skip
        for name, value in given.items():
            if value is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --data")
        if users is None:
            raise click.UsageError("give --users, or --data, a table with a row for each")
        low, high, data = 0.0 if lower is None else lower, 1.0 if upper is None else upper, None
        check_bounds(low, high)
    else:
        for name, needed in (("column", column), ("lower", lower), ("upper", upper)):
            if needed is None:
                raise click.UsageError(f"--data needs --{name}")
        assert column is not None
        assert lower is not None
        assert upper is not None
        low, high = lower, upper
        check_bounds(low, high)
        data = Data(file, column, on_out_of_range == "clamp", runs or RUNS, seed)
        values, moved = _values(
            data,
            low,
            high,
            header=not no_header,
            delimiter=delimiter,
            show_values=show_values,
        )
        if users is not None and users != values.size:
            raise click.UsageError(
                f"--users must be the {values.size:,} rows of {file!r}, or left out, got {users:,}"
            )
        users = int(values.size)
    honest = Honest.of(min_honest, users)
    asked = Asked(
        "compare",
        users,
        honest,
        epsilon,
        usual_delta(delta, users),
        f"{counted(users, 'value')} in [{low:.6g}, {high:.6g}]",
        {"lower": low, "upper": high},
        LEGEND,
    )
    lines = _lines(asked, protocols)
    if (why := no_protocol(lines)) is not None:
        raise click.UsageError(why)
    if data is not None:
        lines = _measured(lines, values, data)
    if plot is not None:
        _plot(plot, asked, lines)
    from ikos.results import budget_warnings

    warnings = budget_warnings(epsilon, asked.delta, users)
    if data is not None:
        warnings.append(NOT_PRIVATE)
        if moved:
            warnings.append(
                f"{moved:,} of {users:,} values were moved to the bounds; errors are of the sum "
                "of what they were moved to"
            )
    for warning in warnings:
        warn(warning)
    if json:
        print_json(as_json(asked, lines, data, plot, warnings))
    else:
        print_text(as_text(asked, lines, data, plot))


def _values(
    data: Data,
    lower: float,
    upper: float,
    *,
    header: bool,
    delimiter: str | None,
    show_values: bool,
) -> tuple[NDArray[np.float64], int]:
    """Return the column, within the bounds, and how many values were moved to them."""
    import numpy as np

    from ikos.cli.release import Rule
    from ikos.tables import open_column

    check_column(data.column, header=header)
    rule = Rule(lower, upper, data.clamp, False)
    moved = 0

    def look(found: NDArray[np.float64], before: int) -> NDArray[np.float64]:
        nonlocal moved
        inside = rule(found, before)
        moved += int((inside != found).sum())
        return inside

    table = open_column(
        data.file, data.column, header=header, delimiter=delimiter, show_values=show_values
    )
    with progress("reading") as shown:
        values = np.concatenate(list(table.seen(look).blocks(shown)))
    if values.size > MOST_USERS:
        raise click.UsageError(f"{data.file!r} has {values.size:,} rows, more than {MOST_USERS:,}")
    return values, moved


def _lines(asked: Asked, protocols: Sequence[str]) -> list[Line[Row]]:
    keys = tuple(dict.fromkeys(protocols)) or PROTOCOLS
    with progress("choosing parameters", keys) as shown:
        from ikos.baselines import comparison  # takes a second, in which something is shown

        rows = comparison(
            asked.users,
            asked.epsilon,
            asked.delta,
            **asked.own,
            min_honest=asked.honest,
            protocols=keys,
            progress=shown,
        )
    return [Line(row) for row in rows]


def _measured(lines: list[Line[Row]], values: NDArray[np.float64], data: Data) -> list[Line[Row]]:
    """Run every protocol that there is. Its draws do not depend on which others run."""
    from ikos.baselines import measure
    from ikos.testing import DeterministicRandom

    measured = []
    with progress("running", [line.row.key for line in lines]) as shown:
        for i, line in enumerate(lines):

            def step(done: int, whole: int, before: int = i) -> None:
                if shown is not None:
                    shown(before * whole + done, len(lines) * whole)

            if line.row.protocol is not None:
                rng = None if data.seed is None else DeterministicRandom(data.seed)
                try:
                    found = measure(line.row, values, data.runs, rng, progress=step)
                    line = replace(line, measured=found)
                except (ValueError, MemoryError) as error:
                    line = replace(line, skipped=problem(error))
            step(data.runs, data.runs)
            measured.append(line)
    return measured


def _plot(path: Path, asked: Asked, lines: list[Line[Row]]) -> None:
    from ikos.plots import save
    from ikos.plots.protocols import protocols_figure

    figure = protocols_figure(
        [line.row for line in lines],
        asked.title,
        measured={line.row.key: line.measured for line in lines if line.measured is not None},
    )
    try:
        save(figure, path)
    except OSError as error:
        raise unwritten(path, error) from None
