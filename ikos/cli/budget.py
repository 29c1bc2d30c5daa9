"""``ikos budget``: create and show the ledger of a group of users, and record releases by hand."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
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
    Field("file", "the ledger", value="path"),
    Field("epsilon", "total epsilon of all releases", value="total.epsilon"),
    Field("delta", "total delta of all releases", value="total.delta"),
    Field("slack", "the part of delta reserved for composition", value="total.slack"),
    Field("adjacency", "neighbouring relation of all guarantees"),
    Field("spent", "the fraction of the budget that is spent, 0 to 1"),
    Field("left", "the largest epsilon of the next release, and the largest delta at that epsilon"),
]

COLUMNS = [
    Field("number", "position in the ledger, from 1", ""),
    Field("time", "when it was recorded, in UTC", "recorded"),
    Field("epsilon", "epsilon of its guarantee", "epsilon", partial(at_least, digits=6)),
    Field("delta", "delta of its guarantee", "delta", at_least),
    Field("mu", "mu of Gaussian differential privacy, or null", "mu", partial(at_least, digits=6)),
    Field("note", "what was released", "note"),
    Field("key", "idempotency key of the release"),
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
    """Keep releases about the same users within a privacy budget.

    'new' creates a ledger file. A command with --ledger records its release there first, and stops
    if that exceeds the budget; 'enter' records releases made outside ikos. All print one JSON
    object with --json.
    """


_BAR = 40  # characters

DOCUMENTED: dict[str, Any] = {"cls": Command, "keys": KEYS, "columns": COLUMNS}


def _report(ledger: Ledger, entries: tuple[Any, ...]) -> Report:
    total = f"({float(ledger.total.epsilon):.6g}, {float(ledger.total.delta):.3g})"
    title = f"Budget {total} of {ledger.path}, {ledger.adjacency}"
    spent = ledger.spent
    full = round(_BAR * spent)
    notes = [
        f"spent [{'#' * full}{'.' * (_BAR - full)}] left",
        f"{100 * spent:.3g} % is spent. What is left for the next release: {ledger.left}.",
    ]
    return Report(title, COLUMNS, entries, notes, values(KEYS, ledger))


@command.command("new", epilog=f"{EXAMPLE}new a.ledger --epsilon 1 --delta 1e-6", **DOCUMENTED)
@click.argument("file", type=FILE)
@option("--epsilon", required=True, help="Total epsilon of all releases.")
@option("--delta", type=Number(0, below=1), required=True, help="Total delta of all releases.")
@option("--slack", type=Number(0, below=1), show_default="half of --delta",
        help="How much of --delta is reserved for composition. With 0, epsilons are only added "
        "up.")  # fmt: skip
@option("--adjacency", type=click.Choice(["replace-one", "add-or-remove-one"]),
        default="replace-one", help="What neighbouring inputs of all guarantees differ in: "
        "the data of one user, or whether one user takes part.")  # fmt: skip
def new(
    file: Path, epsilon: Fraction, delta: Fraction, slack: Fraction | None, adjacency: str
) -> Report:
    """Create a ledger with a total budget.

    If FILE exists, it must be a ledger with the same total, and is left unchanged.
    """
    from ikos.sums.ledger import Ledger

    ledger = Ledger.new(file, epsilon, delta, slack=slack, adjacency=adjacency)
    return _report(ledger, ledger.entries)


@command.command("show", epilog=f"{EXAMPLE}show a.ledger", **DOCUMENTED)
@click.argument("file", type=FILE)
def show(file: Path) -> Report:
    """Show a ledger's total budget, its remaining budget, and all releases."""
    from ikos.sums.ledger import Ledger

    ledger = Ledger(file)
    return _report(ledger, ledger.entries)


@command.command(
    "enter", epilog=f"{EXAMPLE}enter a.ledger --epsilon 0.1 --note survey", **DOCUMENTED
)
@click.argument("file", type=FILE)
@option("--epsilon", type=Number(0, 10**6), required=True, help="Epsilon of the release.")
@option("--delta", type=Number(0, 1), default="0", help="Delta of the release.")
@option("--mu", type=Number(0, 10**6),
        show_default="none",
        help="Mu, if the release is also mu-Gaussian differentially private.")  # fmt: skip
@option("--key", metavar="TEXT", show_default="a new random key",
        help="Identifies the release: entering the same key again has no effect.")  # fmt: skip
@option("--note", default="", help="Description of the release.")
def enter(
    file: Path,
    epsilon: Fraction,
    delta: Fraction,
    mu: Fraction | None,
    key: str | None,
    note: str,
) -> Report:
    """Record a release before it is made outside ikos."""
    from ikos.sums.ledger import Ledger

    ledger = Ledger(file)
    return _report(ledger, (ledger.enter(epsilon, delta, mu=mu, key=key, note=note),))
