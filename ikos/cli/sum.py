"""``ikos sum``: the private sum and mean of a column of a file.

The JSON object that ``--json`` prints is described in `ikos.cli.release`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

from ikos.cli.cluster import connected
from ikos.cli.errors import Command, leave_interrupts
from ikos.cli.options import JSON, check_bounds, check_column, option
from ikos.cli.output import print_json, print_text, warn
from ikos.cli.types import TABLE, WHOLE

EXAMPLES = """\b
Examples
  ikos sum people.csv --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  ikos sum adult.data --no-header --column 1 --integers \\
      --lower 0 --upper 99 --epsilon 1 --delta 1e-9 --json
  ikos sum people/ --column age --threads 4 \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  grep -v '^#' people.csv | ikos sum - --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
"""

SECTIONS = {
    "column": "Values",
    "epsilon": "Privacy",
    "precision": "Protocol",
    "threads": "Where to work",
    "confidence": "Output",
}


@click.command("sum", cls=Command, epilog=EXAMPLES, sections=SECTIONS)
@click.argument("file", type=TABLE, metavar="TABLE")
@option("--column", required=True)
@option("--no-header")
@option("--delimiter")
@option("--show-values")
@option("--lower", required=True)
@option("--upper", required=True)
@option("--on-out-of-range", default="reject")
@option("--integers", is_flag=True, help="The values are integers: nothing is rounded.")
@option("--epsilon", required=True)
@option("--delta", required=True)
@option("--min-honest")
@option("--corrupt-shufflers")
@option("--precision")
@option("--modulus")
@option(
    "--messages",
    type=WHOLE,
    shown="chosen",
    help="Messages of each user.",
)
@option("--unproved")
@option("--analysis")
@option("--shuffler")
@option("--clear-share/--no-clear-share")
@option("--threads")
@option(
    "--workers",
    help="Work in so many processes of Dask on this machine instead. Needs the extra 'cluster'.",
)
@option("--scheduler")
@option("--confidence")
@option("--show-true", is_flag=True, help="Print the truth as well, which is NOT private.")
@option(*JSON)
def command(
    file: str,
    column: str,
    lower: float,
    upper: float,
    epsilon: Fraction,
    delta: Fraction,
    no_header: bool,
    delimiter: str | None,
    show_values: bool,
    on_out_of_range: str,
    show_true: bool,
    confidence: Fraction,
    threads: int | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Release the private sum and mean of a column of TABLE.

    TABLE is CSV (.gz as well) or Parquet, a row per user, a folder of such
    files, or - for CSV from standard input. Of Parquet, no more than a few
    blocks of values are in memory. All users, shufflers and the analyzer are
    simulated here, or on a cluster. The bounds must not be taken from the
    data: they are public, as is the number of rows. Every further release
    about the same people adds to what it costs them.
    """
    from ikos.cli.release import Reading, release
    from ikos.tables import open_column

    check_bounds(lower, upper)
    check_column(column, header=not no_header)
    if threads is not None and (workers is not None or scheduler is not None):
        raise click.UsageError("--threads are for work without --workers and --scheduler")
    path = click.get_current_context().command_path
    reading = Reading()
    with reading.told(path), connected(workers, scheduler) as cluster:
        made = release(
            open_column(
                file,
                column,
                header=not no_header,
                delimiter=delimiter,
                show_values=show_values,
            ),
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
        warn(warning)
    if as_json:
        print_json(made.json())
    else:
        print_text(made.text())
