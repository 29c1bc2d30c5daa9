"""``ikos compare-vectors``: every protocol for sums of vectors, side by side.

The JSON object that ``--json`` prints is described in `ikos.cli.compare_report`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.budget import usual_delta
from ikos.cli.compare_report import Asked, Line, as_json, as_text, counted, no_protocol
from ikos.cli.errors import Command, unwritten
from ikos.cli.names import VECTOR_PROTOCOLS
from ikos.cli.options import FIGURE, option
from ikos.cli.output import print_json, print_text, progress, warn
from ikos.cli.types import Honest, Name, Whole
from ikos.cli.vector_domains import described, domain_of, domain_options

if TYPE_CHECKING:
    from ikos.baselines import ComparisonRow
    from ikos.vectors import Domain

EXAMPLES = """\b
Examples
  ikos compare-vectors --users 10^4 --epsilon 1 \\
      --domain ball --dimension 64
  ikos compare-vectors --users 10^5 --epsilon 1 \\
      --domain ternary --dimension 1000 --sparsity 10
  ikos compare-vectors --users 10^5 --epsilon 1 \\
      --domain categories --sizes 2,5,12 \\
      --plot histograms.png
"""

SECTIONS = {"users": "What to compare", "domain": "The vectors", "plot": "Output"}

MOST_USERS = 10**9
LEGEND = (
    "MSE: bound on the mean squared Euclidean distance from the sum, whatever the vectors; RMSE: "
    "its root for the mean, both in the data's units. One user: how far the messages of one "
    "dishonest user can move the sum at most. A curator is not bound to Gaussian noise: where "
    "private-vector-sum has less error, a curator can add the same."
)


@click.command("compare-vectors", cls=Command, epilog=EXAMPLES, sections=SECTIONS)
@option("--users", required=True, type=Whole(low=1, high=MOST_USERS))
@option("--min-honest")
@option("--epsilon", required=True)
@option("--delta", shown="1/users^2")
@option(
    "--protocol",
    "protocols",
    type=Name(*VECTOR_PROTOCOLS, listed=False),
    shown="all for the domain",
)
@domain_options(required=True)
@option("--plot", help=FIGURE.format("the errors against messages and bits"))
@option("--json", "json")
def command(
    users: int,
    domain: str,
    epsilon: Fraction,
    delta: Fraction | None,
    min_honest: int | Fraction | None,
    protocols: tuple[str, ...],
    plot: Path | None,
    json: bool,
    **given: Any,
) -> None:
    """Compare all protocols for a private sum of vectors.

    For so many users, vectors of one kind, and the same guarantee to each of
    them: what each sends, how far off the sum can be, and how far one
    dishonest user can move it.
    """
    if plot is not None:
        import ikos.plots.protocols  # noqa: F401  (says at once whether it can be done)
    vectors, what = domain_of(domain, given)
    honest = Honest.of(min_honest, users)
    asked = Asked(
        "compare-vectors",
        users,
        honest,
        epsilon,
        usual_delta(delta, users),
        f"{counted(users, 'vector')} {what}",
        described(domain, vectors),
        LEGEND,
    )
    unfit = _unfit(domain, vectors, protocols)
    if unfit and unfit.keys() >= set(protocols):
        raise click.UsageError(
            "; ".join(f"--protocol {key} {reason}" for key, reason in unfit.items())
        )
    lines = _lines(asked, vectors, protocols, unfit)
    if (why := no_protocol(lines)) is not None:
        raise click.UsageError(why)
    if plot is not None:
        from ikos.plots import save
        from ikos.plots.protocols import protocols_figure

        try:
            save(protocols_figure([line.row for line in lines], asked.title), plot)
        except OSError as error:
            raise unwritten(plot, error) from None
    from ikos.results import budget_warnings

    warnings = budget_warnings(epsilon, asked.delta, users)
    for warning in warnings:
        warn(warning)
    if json:
        print_json(as_json(asked, lines, None, plot, warnings))
    else:
        print_text(as_text(asked, lines, None, plot))


def _unfit(name: str, domain: Domain, protocols: tuple[str, ...]) -> dict[str, str]:
    """Return the protocols that are for another domain, and for which."""
    from ikos.baselines import PROTOCOLS
    from ikos.vectors import Ball, Box, Categories, SparseTernary

    names = {Box: "box", Ball: "ball", SparseTernary: "ternary", Categories: "categories"}
    return {
        one.key: f"needs --domain {' or '.join(names[kind] for kind in one.domains)}, got {name}"
        for one in PROTOCOLS
        if one.key in protocols and not isinstance(domain, one.domains)
    }


def _lines(
    asked: Asked, domain: Domain, protocols: tuple[str, ...], unfit: dict[str, str]
) -> list[Line[ComparisonRow]]:
    from ikos.baselines import PROTOCOLS, comparison

    keys = tuple(dict.fromkeys(protocols)) or tuple(
        one.key for one in PROTOCOLS if isinstance(domain, one.domains)
    )
    with progress("choosing parameters", keys) as shown:
        rows = comparison(
            asked.users,
            asked.epsilon,
            asked.delta,
            domain=domain,
            min_honest=asked.honest,
            protocols=keys,
            progress=shown,
        )
    return [Line(replace(row, reason=unfit.get(row.key, row.reason))) for row in rows]
