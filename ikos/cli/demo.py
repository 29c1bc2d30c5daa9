"""``ikos demo``: a private sum and mean of real data, at once."""

from __future__ import annotations

import shlex
from dataclasses import replace
from fractions import Fraction

import click

from ikos.cli.errors import Command
from ikos.cli.options import format_options
from ikos.cli.release import COLUMNS, Source
from ikos.cli.sum import KEYS, release_sum
from ikos.report import Field, Report

VOTE, EPSILON, DELTA = "vote", "1", "1e-6"  # delta below 1 / 944^2

EXAMPLES = """\b
Examples
  ikos demo
  ikos demo --json
"""


@click.command(
    "demo", cls=Command, epilog=EXAMPLES, columns=COLUMNS,
    keys=[*KEYS, Field("equivalent", "the equivalent command line")],
)  # fmt: skip
@format_options
def command() -> Report:
    """Run a private sum on real data that comes with the package.

    944 respondents of the American National Election Study of 1996 said for
    whom they would vote. How many for Bob Dole (1) rather than Bill Clinton
    (0)? The answers are public, so the truth is shown next to the
    estimate.
    """
    from ikos.datasets import ANES96_BOUNDS, anes96_path

    lower, upper = ANES96_BOUNDS[VOTE]
    path = str(anes96_path())
    equivalent = shlex.join([
        "ikos", "sum", path, "--column", VOTE, "--lower", f"{lower:g}", "--upper", f"{upper:g}",
        "--integers", "--epsilon", EPSILON, "--delta", DELTA, "--show-true",
    ])  # fmt: skip
    report = release_sum(
        Source(path, VOTE), "sum and mean", lower=lower, upper=upper,
        epsilon=Fraction(EPSILON), delta=Fraction(DELTA), show_true=True, integers=True,
    )  # fmt: skip
    told = [
        "944 people said whom they would vote for in 1996: 1 for Bob Dole, 0 for Bill Clinton. "
        "The sum is how many chose Dole, the mean is their share. These answers are public.",
        f"The same as: {equivalent}",
    ]
    data = {**report.data, "equivalent": equivalent}
    return replace(report, notes=[*told, *report.notes], data=data)
