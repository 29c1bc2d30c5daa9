"""``ikos demo``: a private sum and mean of real data, at once.

The JSON object that ``--json`` prints is described in `ikos.cli.release`, with ``not_private``
filled in (the data is public) and one more key, ``equivalent``, the same as a command line.
"""

from __future__ import annotations

import shlex
import textwrap
from fractions import Fraction

import click

from ikos.cli.errors import Command
from ikos.cli.options import JSON, option
from ikos.cli.output import bold, power_text, print_json, print_text

COLUMN = "vote"
EPSILON = "1"
DELTA = "1e-6"  # below 1 / 944^2


EXAMPLES = """\b
Examples
  ikos demo
  ikos demo --json
"""


@click.command("demo", cls=Command, epilog=EXAMPLES)
@option(*JSON)
def command(as_json: bool) -> None:
    """Run a private sum on real data that comes with the package.

    944 respondents of the American National Election Study of 1996 said for
    whom they would vote. How many for Bob Dole (1) rather than Bill Clinton
    (0)? The answers are public, so the truth is shown beside the estimate.
    """
    from ikos.cli.release import Reading, release
    from ikos.datasets import ANES96_BOUNDS, anes96_path
    from ikos.tables import open_column

    lower, upper = ANES96_BOUNDS[COLUMN]
    path = str(anes96_path())
    equivalent = [
        "ikos", "sum", path, "--column", COLUMN, "--lower", f"{lower:g}", "--upper", f"{upper:g}",
        "--integers", "--epsilon", EPSILON, "--delta", DELTA, "--show-true",
    ]  # fmt: skip
    made = release(
        open_column(path, COLUMN),
        Reading(),
        command="demo",
        file=path,
        column=COLUMN,
        lower=lower,
        upper=upper,
        epsilon=Fraction(EPSILON),
        delta=Fraction(DELTA),
        clamp=False,
        show_true=True,
        confidence=0.95,
        options={"integers": True},
    )
    if as_json:
        print_json({**made.json(), "equivalent": shlex.join(equivalent)})
        return
    count, result = made.protocol.messages, made.result
    story = (
        "944 people said whom they would vote for in 1996: 1 for Bob Dole, 0 for Bill Clinton. "
        "The sum is how many chose Dole, the mean is their share."
    )
    saw = (
        f"The analyzer saw {count.shuffled} shuffled columns of {result.users} numbers"
        + (", and one column in the users' order" if count.clear else "")
        + f": each number for itself uniformly random modulo {power_text(made.protocol.modulus)}, "
        "only the total of all of them means anything."
    )
    print_text(
        [
            *textwrap.wrap(story, 80),
            "",
            "The same as",
            *_continued(equivalent),
            "",
            *made.text(),
            "",
            bold("What the analyzer saw"),
            *textwrap.wrap(saw, 80, initial_indent="  ", subsequent_indent="  "),
        ]
    )


def _continued(arguments: list[str]) -> list[str]:
    """Return a command line in lines of 80 columns that a shell reads as one."""
    # An option and its value stay together; quoting is for paths with blanks.
    pieces: list[str] = []
    for argument in map(shlex.quote, arguments):
        if argument.startswith("--") or not pieces or not pieces[-1].startswith("--"):
            pieces.append(argument)
        else:
            pieces[-1] += f" {argument}"
    lines = ["  "]
    for piece in pieces:
        if len(lines[-1]) + len(piece) > 76 and lines[-1].strip():
            lines[-1] += "\\"
            lines.append("      ")
        lines[-1] += f"{piece} "
    return [line.rstrip() for line in lines]
