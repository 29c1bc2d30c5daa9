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
from ikos.cli.options import FIGURE, check_bounds, option
from ikos.cli.output import print_json, print_text, progress, warn
from ikos.cli.types import Bound, Honest, Name, Whole

if TYPE_CHECKING:
    from ikos.vectors import Domain, VectorRow

__all__ = ["command"]

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
NEEDED = {
    "box": ("dimension",),
    "ball": ("dimension",),
    "ternary": ("dimension", "sparsity"),
    "categories": ("sizes",),
}
"""The options that each domain needs."""
ALLOWED = {"box": ("lower", "upper"), "ball": ("radius",), "ternary": (), "categories": ()}
"""Those that it takes besides."""
RADIUS = Bound(above="0")
LEGEND = (
    "MSE: bound on the mean squared Euclidean distance from the sum, whatever the vectors; RMSE: "
    "its root for the mean, both in the data's units. One user: how far the messages of one "
    "dishonest user can move the sum at most. A curator is not bound to Gaussian noise: where "
    "private-vector-sum has less error, a curator can add the same."
)


def _sizes(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    """Return whole numbers that commas separate."""
    if value is None:
        return None
    parts = value.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise click.UsageError(f"--sizes must be numbers such as 2,5,12, got {value[:60]!r}")
    if any(len(part) > 9 for part in parts):
        raise click.UsageError("--sizes must be at most 1048576 in all")
    return tuple(int(part) for part in parts)


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
@option(
    "--domain",
    required=True,
    type=Name(*NEEDED, listed=False),
    help="Where vectors lie. box: each coordinate between bounds; ball: within a Euclidean ball; "
    "ternary: a few entries of -1 or 1 and else 0; categories: an answer to each of several "
    "questions.",
)
@option("--dimension", type=Whole(low=1), help="Coordinates of each vector.")
@option("--lower", shown="0", help="Of a box: public lower bound of the coordinates.")
@option("--upper", shown="1", help="Of a box: public upper bound of the coordinates.")
@option("--radius", type=RADIUS, shown="1", help="Of a ball: the largest norm.")
@option(
    "--sparsity", type=Whole(low=1), help="Of ternary vectors: how many entries are not 0 at most."
)
@option(
    "--sizes",
    callback=_sizes,
    metavar="LIST",
    help="Of categories: how many answers each question has, e.g. 2,5,12.",
)
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
    vectors, what = _domain(domain, given)
    own = {"lower": None, "upper": None, "radius": None, "sparsity": None, "sizes": None}
    held = {name: getattr(vectors, name) for name in own if hasattr(vectors, name)}
    honest = Honest.of(min_honest, users)
    asked = Asked(
        "compare-vectors",
        users,
        honest,
        epsilon,
        usual_delta(delta, users),
        f"{counted(users, 'vector')} {what}",
        {"domain": domain, "dimension": vectors.dimension, **own, **held},
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
    from ikos.results import weak

    warnings = weak(epsilon, asked.delta, users)
    for warning in warnings:
        warn(warning)
    if json:
        print_json(as_json(asked, lines, None, plot, warnings))
    else:
        print_text(as_text(asked, lines, None, plot))


def _domain(name: str, given: dict[str, Any]) -> tuple[Domain, str]:
    """Return where vectors lie, and that in words; refuse options that are for another domain."""
    from ikos.vectors import Ball, Box, Categories, SparseTernary

    for key, value in given.items():
        if value is None and key in NEEDED[name]:
            raise click.UsageError(f"--domain {name} needs --{key}")
        if value is not None and key not in NEEDED[name] + ALLOWED[name]:
            raise click.UsageError(f"--{key} is not for --domain {name}")
    options = {key: value for key, value in given.items() if value is not None}
    if name == "box":
        check_bounds(options.get("lower", 0.0), options.get("upper", 1.0))
        box = Box(**options)
        return box, f"of {_coordinates(box)} in [{box.lower:.6g}, {box.upper:.6g}]"
    if name == "ball":
        ball = Ball(**options)
        return ball, f"of {_coordinates(ball)} and norm at most {ball.radius:.6g}"
    if name == "ternary":
        sparse = SparseTernary(**options)
        return sparse, (
            f"of {_coordinates(sparse)} with at most {sparse.sparsity:,} "
            f"entr{'ies' if sparse.sparsity > 1 else 'y'} of -1 or 1"
        )
    kinds = Categories(**options)
    count = len(kinds.sizes)
    return kinds, (
        f"of answers to {count:,} question{'s' * (count > 1)} of {kinds.dimension:,} "
        f"categor{'ies' if kinds.dimension > 1 else 'y'} in all"
    )


def _coordinates(domain: Domain) -> str:
    return f"{domain.dimension:,} coordinate{'s' * (domain.dimension > 1)}"


def _unfit(name: str, domain: Domain, protocols: tuple[str, ...]) -> dict[str, str]:
    """Return the protocols that are for another domain, and for which."""
    from ikos.vectors import VECTOR_CONTENDERS, Ball, Box, Categories, SparseTernary

    names = {Box: "box", Ball: "ball", SparseTernary: "ternary", Categories: "categories"}
    return {
        one.key: f"needs --domain {' or '.join(names[kind] for kind in one.domains)}, got {name}"
        for one in VECTOR_CONTENDERS
        if one.key in protocols and not isinstance(domain, one.domains)
    }


def _lines(
    asked: Asked, domain: Domain, protocols: tuple[str, ...], unfit: dict[str, str]
) -> list[Line[VectorRow]]:
    from ikos.vectors import vector_comparison

    with progress("choosing parameters") as shown:
        rows = vector_comparison(
            asked.users,
            domain,
            asked.epsilon,
            asked.delta,
            min_honest=asked.honest,
            protocols=protocols or None,
            progress=shown,
        )
    return [Line(replace(row, reason=unfit.get(row.key, row.reason))) for row in rows]
