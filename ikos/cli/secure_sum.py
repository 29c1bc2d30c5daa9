"""``ikos secure-sum``: the exact sum of a column of integers, of which only the sum is learned.

The JSON object that ``--json`` prints is described in `ikos.cli.secure_sum_report`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command, leave_interrupts
from ikos.cli.options import JSON, check_bounds, check_column, option
from ikos.cli.output import print_json, print_text, progress, warn
from ikos.cli.types import INTEGER, SIGMA, TABLE, Honest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ikos.cli.release import Reading
    from ikos.cli.secure_sum_report import Report
    from ikos.tables import Column

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
    "threads": "Where to work",
    "as_json": "Output",
}


@click.command("secure-sum", cls=Command, epilog=EXAMPLES, sections=SECTIONS)
@click.argument("file", type=TABLE, metavar="TABLE")
@option("--column", required=True)
@option("--no-header")
@option("--delimiter")
@option("--show-values")
@option("--lower", type=INTEGER, default="0")
@option("--upper", type=INTEGER, required=True)
@option("--on-out-of-range", default="reject")
@option("--sigma", type=SIGMA, default="80", help="Security in bits, e.g. 80.")
@option("--min-honest")
@option("--corrupt-shufflers")
@option("--modulus", shown="holds every sum")
@option("--analysis")
@option("--shuffler")
@option("--clear-share/--no-clear-share")
@option("--unproved")
@option("--threads")
@option(*JSON)
def command(
    file: str,
    column: str,
    no_header: bool,
    delimiter: str | None,
    show_values: bool,
    lower: Fraction,
    upper: Fraction,
    on_out_of_range: str,
    sigma: Fraction,
    modulus: int | None,
    threads: int | None,
    as_json: bool,
    **options: Any,
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
    from ikos._validation import quote
    from ikos.cli.release import Reading
    from ikos.tables import open_column

    for name, bound in (("lower", lower), ("upper", upper)):
        if bound.denominator != 1:
            raise click.UsageError(f"--{name} must be a whole number, got {quote(bound)}")
    check_bounds(lower, upper)
    check_column(column, header=not no_header)
    reading = Reading()
    with reading.told(click.get_current_context().command_path):
        report = _sum(
            open_column(
                file,
                column,
                header=not no_header,
                delimiter=delimiter,
                integers=True,
                show_values=show_values,
            ),
            reading,
            file,
            Rule(int(lower), int(upper), on_out_of_range == "clamp", column),
            sigma,
            modulus,
            threads,
            options,
        )
    leave_interrupts()  # what is released is so as a whole
    for warning in report.warnings():
        warn(warning)
    if as_json:
        print_json(report.json())
    else:
        print_text(report.text())


@dataclass(frozen=True)
class Rule:
    """What values may be."""

    lower: int
    upper: int
    clamp: bool
    column: str

    def __call__(self, values: NDArray[Any], before: int) -> NDArray[Any]:
        """Return how far a block of integers is above the lower bound, or refuse one of them."""
        import numpy as np

        from ikos.tables import BadRow

        del before
        if max(-self.lower, self.upper) >= 1 << 62:  # differences may not fit in 64 bits
            values = values.astype(object)
        outside = (values < self.lower) | (values > self.upper)
        if outside.any() and not self.clamp:
            raise BadRow(
                int(np.argmax(outside)),
                f"outside [{self.lower}, {self.upper}]; give public bounds that hold every value, "
                "or --on-out-of-range clamp",
            )
        above: NDArray[Any] = np.clip(values, self.lower, self.upper) - self.lower
        return above

    def least_modulus(self, users: int) -> int:
        """Return the smallest order of a group in which no sum of so many values wraps around."""
        return users * (self.upper - self.lower) + 1


def _sum(
    table: Column,
    reading: Reading,
    file: str,
    rule: Rule,
    sigma: Fraction,
    modulus: int | None,
    threads: int | None,
    options: Mapping[str, Any],
) -> Report:
    """Run the secure sum of a column.

    Where the number of rows is known, values are read as they are added up. Else they are read
    first, 8 bytes for each.

    Parameters
    ----------
    table : Column
        The values, one per user.
    reading : Reading
        Told how far the reading has come.
    file : str
        Where it comes from, for the report.
    rule : Rule
        What values may be.
    sigma, modulus, threads
        As the options say.
    options : mapping
        Further arguments of `SecureSum`; ``min_honest`` may be a share of the users.
    """
    from ikos import SecureSum
    from ikos.cli.release import MAX_MESSAGES, drained, refusal
    from ikos.cli.secure_sum_report import Report
    from ikos.counts.published import covered

    def look(values: NDArray[Any], before: int) -> NDArray[Any]:
        above = rule(values, before)
        reading.rows += values.size
        return above

    def blocks() -> Iterator[NDArray[Any]]:
        with progress("reading") as shown:
            yield from table.seen(look).blocks(shown)
        reading.whole = True

    users = table.rows
    held: deque[NDArray[Any]] = deque()
    if users is None:
        held.extend(blocks())
        users = reading.rows
    least = rule.least_modulus(users)
    if modulus is not None and modulus < least:
        raise click.UsageError(
            f"--modulus must be at least {least}, or a sum of {users:,} values in [{rule.lower}, "
            f"{rule.upper}] could wrap around, got {modulus}"
        )
    given = dict(options)
    anyway = given.pop("unproved")
    if isinstance(given["min_honest"], Fraction):
        given["min_honest"] = Honest.of(given["min_honest"], users)
    # a power of two, the fastest to work with: its elements have no more bits than those of least
    q = 1 << (least - 1).bit_length() if modulus is None else modulus
    if modulus is None and given["analysis"] == "ghazi2020":  # which is proved for primes alone
        q = covered("ghazi2020", least)
    protocol = SecureSum(users, q, upper=rule.upper - rule.lower, sigma=sigma, **given)
    if not (anyway or protocol.guarantee.proved):
        raise click.UsageError(refusal(protocol.messages, q))
    if users * protocol.messages.total > MAX_MESSAGES:
        raise click.UsageError(
            f"{users:,} users with {protocol.messages.total:,} messages each are more than "
            f"the {MAX_MESSAGES:,} messages that can be run here; give a smaller --sigma"
        )
    values = drained(held) if held else blocks()
    with progress("adding up shares") as shown:
        z = protocol.run(values, threads=threads, progress=shown)
    total = z + users * rule.lower
    return Report(file, rule.column, rule.lower, rule.upper, rule.clamp, sigma, protocol, total)
