"""``ikos sum``: the private sum and mean of a column of a file.

The JSON object that ``--json`` prints is described in `ikos.cli.release`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

from ikos.cli.cluster import connected, scheduler_option, workers_option
from ikos.cli.errors import Command, leave_interrupts
from ikos.cli.output import print_json, print_text
from ikos.cli.types import (
    BOUND,
    CORRUPT,
    DELIMITER,
    DELTA,
    EPSILON,
    MODULUS,
    NAME,
    WHOLE,
    Decimal,
    Whole,
)

__all__ = ["command"]

EXAMPLES = """\b
Examples
  ikos sum people.csv --column age --lower 0 --upper 100 \\
      --epsilon 1 --delta 1e-9
  ikos sum adult.data --no-header --column 1 --lower 0 --upper 125 \\
      --integers --epsilon 0.5 --delta 1e-10 --json
  ikos sum people/ --column age --lower 0 --upper 100 \\
      --epsilon 1 --delta 1e-9 --threads 4
"""


@click.command("sum", cls=Command, epilog=EXAMPLES)
@click.argument("file")
@click.option(
    "--column", required=True, metavar="NAME", help="Its name, or number with --no-header."
)
@click.option("--lower", required=True, type=BOUND, help="Public lower bound of the values.")
@click.option("--upper", required=True, type=BOUND, help="Public upper bound of the values.")
@click.option(
    "--epsilon",
    required=True,
    type=EPSILON,
    help="Privacy budget, e.g. 1; smaller is more private.",
)
@click.option(
    "--delta",
    required=True,
    type=DELTA,
    help="Privacy failure probability, e.g. 1e-9; far below 1/users.",
)
@click.option("--no-header", is_flag=True, help="The file has no header line.")
@click.option("--delimiter", type=DELIMITER, default=",", help=r"Between cells [,]; \t for tabs.")
@click.option(
    "--on-out-of-range",
    type=click.Choice(["reject", "clamp"]),
    default="reject",
    help="Refuse values outside the bounds [default], or move them to the nearest bound.",
)
@click.option("--integers", is_flag=True, help="The values are integers: nothing is rounded.")
@click.option("--show-true", is_flag=True, help="Print the truth as well, which is NOT private.")
@click.option(
    "--confidence",
    type=Decimal(above="0", below="1"),
    default="0.95",
    help="Of the intervals [0.95].",
)
@click.option("--precision", type=WHOLE, help="Steps between the bounds [chosen].")
@click.option("--modulus", type=MODULUS, help="Order of the group, e.g. 2^32 [chosen].")
@click.option("--messages", type=WHOLE, help="Per user, even if they prove nothing [chosen].")
@click.option("--analysis", type=NAME["analysis"], help="Whose theorem; see 'ikos messages'.")
@click.option(
    "--shuffler",
    type=NAME["shuffler"],
    help="parallel: one per message [default]; single: one for all.",
)
@click.option(
    "--clear-share/--no-clear-share",
    default=None,
    help="Whether one message of each user bypasses the shufflers [yes].",
)
@click.option("--min-honest", type=WHOLE, help="Users who must be honest and present [all].")
@click.option(
    "--corrupt-shufflers", type=CORRUPT, help="How many may collude with the analyzer [0]."
)
@click.option(
    "--threads",
    type=Whole(low=1, high=1024),
    metavar="INTEGER",
    help="Cores to work on [all]; the result does not depend on it.",
)
@workers_option
@scheduler_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    file: str,
    column: str,
    lower: float,
    upper: float,
    epsilon: Fraction,
    delta: Fraction,
    no_header: bool,
    delimiter: str,
    on_out_of_range: str,
    show_true: bool,
    confidence: Fraction,
    threads: int | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Release the private sum and mean of a column of FILE.

    FILE is CSV or Parquet, a row per user, or a folder of such files. Of
    Parquet, no more than a few blocks of values are in memory. All users,
    shufflers and the analyzer are simulated here, or on a cluster. The
    bounds must not be taken from the data: they are public, as is the
    number of rows. Every further release about the same people adds to what
    it costs them.
    """
    from ikos.cli.release import Reading, release
    from ikos.tables import open_column
    from ikos.work import interrupts_kept

    if not lower < upper:
        raise click.UsageError(f"--upper must be greater than --lower, got {upper:g} and {lower:g}")
    if no_header and not column.isdigit():
        raise click.UsageError(
            f"with --no-header, --column is a number counted from 1, got {column!r}"
        )
    if threads is not None and (workers is not None or scheduler is not None):
        raise click.UsageError("--threads are for work without --workers and --scheduler")
    path = click.get_current_context().command_path
    reading = Reading()
    with reading.told(path), interrupts_kept(), connected(workers, scheduler) as cluster:
        made = release(
            open_column(file, column, header=not no_header, delimiter=delimiter),
            reading,
            command="sum",
            file=file,
            column=column,
            lower=lower,
            upper=upper,
            epsilon=epsilon,
            delta=delta,
            clamp=on_out_of_range == "clamp",
            show_true=show_true,
            confidence=float(confidence),
            threads=threads,
            cluster=cluster,
            options={name: value for name, value in options.items() if value is not None},
        )
    # What was said to be interrupted was not released, and what is released is so as a whole.
    leave_interrupts()
    for warning in made.warnings():
        click.echo(f"{path}: warning: {warning}", err=True)
    if as_json:
        print_json(made.json())
    else:
        print_text(made.text())
