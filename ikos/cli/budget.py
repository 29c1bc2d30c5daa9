"""``ikos budget``: the ledger of a group of users, made, shown, and entered by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command, Group
from ikos.cli.options import option
from ikos.cli.output import at_least
from ikos.cli.types import FILE, Number
from ikos.results.report import Field, Report, values

if TYPE_CHECKING:
    from ikos.sums.ledger import Ledger

KEYS = [
    Field("file", "the ledger", value=lambda ledger: ledger.path),
    Field("epsilon", "epsilon of all releases together", value="total.epsilon"),
    Field("delta", "delta of all releases together", value="total.delta"),
    Field("slack", "the part of delta that pays for composition", value="total.slack"),
    Field("adjacency", "what neighbouring inputs are, in every entry"),
    Field("spent", "the part of the budget that is spent, 0 to 1"),
    Field("left", "the largest epsilon, and with it the largest delta, of the next release"),
]

COLUMNS = [
    Field("number", "place in the ledger, from 1 on", ""),
    Field("time", "when it was entered, in UTC", "entered"),
    Field("epsilon", "epsilon of its guarantee", "epsilon", lambda x: at_least(x, 6)),
    Field("delta", "delta of its guarantee", "delta", at_least),
    Field("mu", "of Gaussian privacy, or null", "mu", lambda x: at_least(x, 6)),
    Field("note", "what was released", "note"),
    Field("key", "what identifies the release"),
    Field("statement", "theorem and conditions of its guarantee"),
    Field("parameters", "hash of the protocol's parameters, if it has one"),
]

EXAMPLE = "\b\nExample\n  ikos budget "

EXAMPLES = """\b
Examples
  ikos budget new survey.ledger --epsilon 1 --delta 1e-6
  ikos budget enter survey.ledger --epsilon 0.1 --delta 1e-9 --note "mean age"
  ikos budget show survey.ledger
"""


@click.group("budget", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Keep the releases about the same users within a total budget.

    'new' makes a ledger, a file; the option --ledger of a release enters it before it is made, and
    refuses it if it would overspend; 'enter' is for releases made elsewhere. All print one JSON
    object with --json.
    """


HOW: dict[str, Any] = {"cls": Command, "keys": KEYS, "columns": COLUMNS}


def _report(ledger: Ledger, entries: tuple[Any, ...]) -> Report:
    total = f"({float(ledger.total.epsilon):.6g}, {float(ledger.total.delta):.3g})"
    title = f"Budget {total} of {ledger.path}, {ledger.adjacency}"
    spent = f"{100 * ledger.spent:.3g}"
    notes = [f"{spent} % is spent. What is left for the next release: {ledger.left}."]
    return Report(title, COLUMNS, entries, notes, values(KEYS, ledger))


@command.command("new", epilog=f"{EXAMPLE}new a.ledger --epsilon 1 --delta 1e-6", **HOW)
@click.argument("file", type=FILE)
@option("--epsilon", required=True, help="Epsilon of all releases together.")
@option("--delta", type=Number(0, below=1), required=True, help="Delta of all releases together.")
@option("--slack", type=Number(0, below=1), show_default="half of --delta",
        help="Part of --delta that pays for composition. With 0, epsilons are added "
        "up.")  # fmt: skip
@option("--adjacency", type=click.Choice(["replace-one", "add-or-remove-one"]),
        default="replace-one", help="What neighbouring inputs are.")  # fmt: skip
def new(file: Path, **given: Any) -> Report:
    """Make a ledger with a total budget.

    A file that is there is left as it is; it must be a ledger with the same total.
    """
    from ikos.sums.ledger import Ledger

    ledger = Ledger.new(file, **given)
    return _report(ledger, ledger.entries)


@command.command("show", epilog=f"{EXAMPLE}show a.ledger", **HOW)
@click.argument("file", type=FILE)
def show(file: Path) -> Report:
    """Show a ledger's total, what is left of it, and all entries."""
    from ikos.sums.ledger import Ledger

    ledger = Ledger(file)
    return _report(ledger, ledger.entries)


@command.command("enter", epilog=f"{EXAMPLE}enter a.ledger --epsilon 0.1 --note survey", **HOW)
@click.argument("file", type=FILE)
@option("--epsilon", type=Number(0, 10**6), required=True, help="Epsilon of the release.")
@option("--delta", type=Number(0, 1), default="0", help="Delta of the release.")
@option("--mu", type=Number(0, 10**6), help="If the release is also mu-Gaussian private.")
@option("--key", metavar="TEXT", show_default="a new one",
        help="What identifies the release: entering it again changes nothing.")  # fmt: skip
@option("--note", metavar="TEXT", default="", help="What is released.")
def enter(file: Path, epsilon: Fraction, delta: Fraction, **given: Any) -> Report:
    """Enter a release that is made elsewhere, before it is made."""
    from ikos.sums.ledger import Ledger

    ledger = Ledger(file)
    return _report(ledger, (ledger.enter(epsilon, delta, **given),))
