"""``ikos secure-sum``: the exact sum of a column of integers, of which only the sum is learned."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

from ikos.cli import release
from ikos.cli.errors import Command
from ikos.cli.options import check_bounds, format_options, option, options
from ikos.cli.output import power_text, print_report, progress
from ikos.cli.types import INTEGER, SIGMA
from ikos.report import Field, Report, digits

KEYS = {
    **release.KEYS,
    "sum": "exact, a string of digits",
    "mean": "the nearest double",
    "differentially_private": "false, always: the analyzer learns the sum as it is",
    "guarantee": "sigma (total variation at most 2^-sigma), theorem, conditions",
    "sigma": "that of the guarantee; null where there is nothing to hide",
    "requested_sigma": "the security that was asked for",
}

COLUMNS = [
    Field("name", "sum or mean", ""),
    Field("value", "exact sum, rounded mean", "exact"),
]

EXAMPLES = """\b
Examples
  ikos secure-sum people.csv --column age --upper 100
  ikos secure-sum adult.data --no-header --column 1 \\
      --upper 99 --min-honest 80% --json
  ikos secure-sum people/ --column age \\
      --lower -1 --upper 100 --sigma 40 --shuffler single
"""

SECTIONS = {
    "column": "Values",
    "sigma": "Security",
    "modulus": "Protocol",
    "threads": "Where to run",
    "how": "Output",
}

EXPOSED = (
    "NOT differentially private: the analyzer learns the sum as it is. A party that knows the "
    "other values, or the sum of the same people without one of them, subtracts. 'ikos sum' adds "
    "noise against that."
)


@click.command(
    "secure-sum", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=COLUMNS
)
@release.of_table
@option("--lower", type=INTEGER, default=0)
@option("--upper", type=INTEGER, required=True)
@option("--on-out-of-range")
@option("--sigma", type=SIGMA, default="80", help="Security in bits, e.g. 80.")
@options("--min-honest", "--corrupt-shufflers")
@option("--modulus", shown="holds every sum")
@options("--analysis", "--shuffler", "--clear-share/--no-clear-share", "--unproved", "--threads")
@format_options
def command(
    how: str,
    lower: int,
    upper: int,
    on_out_of_range: str,
    sigma: Fraction,
    modulus: int | None,
    unproved: bool,
    threads: int | None,
    **given: Any,
) -> None:
    """Sum a column of TABLE, exactly and securely.

    The values are integers. The analyzer learns their sum and, up to a
    probability of 2^-sigma, nothing else. The sum itself is NOT
    differentially private: for that there is 'ikos sum'.

    TABLE is CSV (.gz as well) or Parquet, a row per user, a folder of such
    files, or - for CSV from standard input. All users, shufflers and the
    analyzer are simulated here. The bounds must not be taken from the data:
    they are public, as is the number of rows.
    """
    from ikos import SecureSum
    from ikos.counts.published import covered

    check_bounds(lower, upper)
    source, clamp = release.Source.taken(given), on_out_of_range == "clamp"
    rule = release.Rule(lower, upper, clamp, exact=True)
    with release.nothing_released():
        users, values = release.read(source.open(integers=True), rule)
        least = users * (upper - lower) + 1
        if modulus is not None and modulus < least:
            raise click.UsageError(
                f"--modulus must be at least {digits(least)}, or a sum of {users:,} values in "
                f"[{lower}, {upper}] could wrap around, got {digits(modulus)}"
            )
        q = 1 << (least - 1).bit_length() if modulus is None else modulus
        if modulus is None and given["analysis"] == "ghazi2020":  # which is proved for primes alone
            q = covered("ghazi2020", least)
        release.honest_users(given, users)
        protocol = SecureSum(users, q, upper=upper - lower, sigma=sigma, **given)
        release.check_runnable(protocol, q, unproved=unproved)
        with progress("adding up shares") as shown:
            z = protocol.run(values, threads=threads, progress=shown)

    total, guarantee, cost = z + users * lower, protocol.guarantee, protocol.cost()
    mean = Fraction(total, users)
    sent = f"{cost}, integers modulo {power_text(q)}"
    notes = [EXPOSED, *release.notes_of(guarantee, lower, upper, users, sent, clamp=clamp)]
    title = f"Exact sum and mean of {source.which}"
    report = Report(
        title if guarantee.proved else f"NOT SECURE, nothing is proved: {title.lower()}",
        COLUMNS,
        [
            {"name": "sum", "value": total},
            {"name": "mean", "value": mean.numerator if mean.denominator == 1 else float(mean)},
        ],
        notes,
        {
            "command": "secure-sum",
            **release.about(source, protocol, protocol, clamp),
            "lower": lower,
            "upper": upper,
            "sum": digits(total),
            "mean": mean,
            "differentially_private": False,
            "sigma": guarantee.sigma if guarantee.proved else 0.0,
            "requested_sigma": sigma,
            "cost": cost,
            "warnings": release.warnings_of(protocol, q, protocol.corrupt_shufflers),
        },
    )
    print_report(report, how)
