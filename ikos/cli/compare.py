"""``ikos compare``: the protocols for a private sum, of numbers or of vectors, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli import release
from ikos.cli.domains import KEYS as DOMAIN_KEYS
from ikos.cli.domains import OPTIONS, described, domain_of, in_words
from ikos.cli.errors import Command, first_given, problem
from ikos.cli.names import PROTOCOLS, VECTOR_PROTOCOLS
from ikos.cli.options import (
    check_bounds,
    check_plot,
    format_options,
    option,
    options,
    save_plot,
    usual_delta,
)
from ikos.cli.output import at_least, power_text, print_report, progress
from ikos.cli.types import TABLE, Honest, Whole
from ikos.report import KEYS as REPORT_KEYS
from ikos.report import READ, Field, Report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikos.baselines import Measurement
    from ikos.vectors import Domain

CONFIDENCE = 0.95
"""Of the intervals of measured errors."""

_NEARLY = 1 - 1e-12  # so that 2 and a unit in the last place is printed as 2


def bound(value: float) -> str:
    """Return a bound to three digits, rounded up."""
    if math.isinf(value):
        return "no limit"
    value *= _NEARLY
    return f"{math.ceil(value):,}" if 1000 <= value < 10**6 else at_least(value, 3)


def count(value: float) -> str:
    """Return a number of messages or bits, three digits of a mean."""
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else f"{value:.3g}"


KEYS = {
    **REPORT_KEYS,
    "users": "how many there are",
    "min_honest": "how many of them are honest, at least",
    "epsilon": "the guarantee that was asked for",
    "delta": "the same",
    **DOMAIN_KEYS,
    "data": "null, or with --data an object of file, column, out_of_range, runs (of each "
    "protocol), seed (null for secure randomness) and confidence (of the intervals)",
    "plot": "the file that was written, or null",
}

COLUMNS = [
    Field("key", "the protocol", "protocol"),
    Field("model", "whom users trust: central, shuffle or local", "model"),
    Field("name", "the protocol in words"),
    Field("source", "the paper"),
    Field("trust", "a special assumption, or null"),
    Field("messages_per_user", "null where the protocol is not possible", "messages", count),
    Field("bits_per_user", "means, where these vary", "bits", count),
    Field("mse", "bound on the mean squared error of the sum, in squared units", "MSE", bound),
    Field("standard_error", "its root"),
    Field("mean_error", "the same, of the mean", "RMSE of mean", bound),
    Field("influence", "greatest change of the sum by one dishonest user; null if unlimited",
           "one user", bound),
    Field("unlimited", "whether there is no such limit"),
    Field("guarantee", "epsilon, delta, theorem, conditions, adjacency"),
    Field("measured", "with --data: root mean squared error of the runs, NOT private",
           "measured", count),
    Field("low", "lower end of an approximate interval for it", "from", count),
    Field("high", "upper end", "to", count),
    Field("seconds", "of one run", "s/run", lambda value: f"{value:.2g}"),
    Field("errors", "of each run, NOT private"),
    Field("reason", "why the protocol is not possible, or did not run; or null"),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos compare --users 10^4 --epsilon 1 --delta 1e-8
  ikos compare --data people.csv --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  ikos compare --users 10^4 --epsilon 1 --domain ball \\
      --dimension 64 --plot compare.png
"""

SECTIONS = {
    "users": "What to compare",
    "domain": "Vectors",
    "file": "On data",
    "plot": "Output",
}

MOST_USERS = 10**9
RUNS = 20
OF_DATA = (
    "column", "no_header", "delimiter", "show_values", "on_out_of_range", "runs", "seed",
)  # fmt: skip
"""Parameters that say something of data alone."""

LEGEND = (
    "MSE: bound on the mean squared error of the sum, whatever the values (of vectors, of its "
    "Euclidean distance). One user: how much the messages of one dishonest user can change the "
    "sum. All in the data's units."
)
NOT_PRIVATE = "measured errors are differences from the true sum, and NOT private"
GAUSSIAN = (
    "A curator is not bound to Gaussian noise: where private-vector-sum has less error, a curator "
    "can add the same."
)


@click.command(
    "compare", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=COLUMNS
)
@option("--users", type=Whole(1, MOST_USERS), help="How many users there are; or give --data.")
@options("--min-honest", "--epsilon", required=("--epsilon",))
@option("--delta", shown="1/users^2")
@option("--lower", shown="0 without --data")
@option("--upper", shown="1 without --data")
@option("--protocol", "protocols", type=click.Choice([*PROTOCOLS, *VECTOR_PROTOCOLS]))
@options("--domain", *OPTIONS)
@option(
    "--data",
    "file",
    type=TABLE,
    help="Also run every protocol on a column of a table, a row per user, and print how far off "
    "it is, which is NOT private.",
)
@options("--column", "--no-header", "--delimiter", "--show-values", "--on-out-of-range")
@option("--runs", type=Whole(1, 10**6), shown=str(RUNS), help="Runs of each protocol on the data.")
@option("--seed")
@option("--plot", help="Plot the errors against messages and bits, to a .png, .svg or .pdf.")
@format_options
def command(
    how: str,
    users: int | None,
    min_honest: int | Fraction | None,
    epsilon: Fraction,
    delta: Fraction | None,
    lower: float | None,
    upper: float | None,
    protocols: tuple[str, ...],
    domain: str | None,
    runs: int | None,
    seed: int | None,
    plot: Path | None,
    on_out_of_range: str,
    **given: Any,
) -> None:
    """Compare all protocols for a private sum.

    For a number of users, and the same guarantee to each of them: what each
    sends, how far off the sum can be, and how much one dishonest user can
    change it. With --domain the sums are of vectors. With --data every
    protocol also runs on a column of values, and what is measured stands next
    to what is predicted.
    """
    from ikos.results import budget_warnings

    check_plot(plot)
    space = domain_of(domain, {**given, "lower": lower, "upper": upper})
    values, data, warnings = None, None, []
    if given["file"] is None:
        if option := first_given(*OF_DATA):
            raise click.UsageError(f"{option} needs --data")
        if users is None:
            raise click.UsageError("give --users, or --data, a table with a row for each")
    else:
        if domain is not None or given["column"] is None or lower is None or upper is None:
            raise click.UsageError("--data needs --column, --lower and --upper, and no --domain")
        source = release.Source.taken(given)
        values, moved = _values(source, lower, upper, on_out_of_range)
        if users is not None and users != values.size:
            raise click.UsageError(f"--users must be the {values.size:,} rows, got {users:,}")
        users = int(values.size)
        data = {
            "file": source.file, "column": source.column,
            "out_of_range": on_out_of_range, "runs": runs or RUNS, "seed": seed,
            "confidence": CONFIDENCE,
        }  # fmt: skip
        warnings = [NOT_PRIVATE] + [f"{moved:,} values were moved to the bounds"] * bool(moved)
    honest = Honest.of(min_honest, users)
    asked = (users, epsilon, usual_delta(delta, users))
    bounds = (0.0 if lower is None else lower, 1.0 if upper is None else upper)
    check_bounds(*bounds)
    made = _comparison(asked, space, bounds, honest, protocols)
    if not any(row.protocol for row in made):
        reasons = "; ".join(f"{row.key}: {in_words(str(row.reason))}" for row in made)
        raise click.UsageError(f"no protocol is possible here: {reasons}")
    measured: dict[str, Measurement] = {}
    rows = [_row(row, users) for row in made]
    if values is not None:
        measured = _measure(made, values, runs or RUNS, seed, rows)
    delta_text = at_least(float(asked[2]), 3)
    title = (
        f"Protocols for the sum of {power_text(users)} {'vectors' if space else 'values'} with "
        f"({float(epsilon):.6g}, {delta_text})-differential privacy"
    )
    if plot is not None:
        from ikos.plots.protocols import protocols_figure

        save_plot(protocols_figure(made, title, measured=measured or None), plot)
    report = Report(
        title,
        COLUMNS,
        [row for row in rows if how not in READ or row["messages_per_user"] is not None],
        [*_notes(rows, honest, users), *([GAUSSIAN] if space else [])],
        {
            "command": "compare",
            "users": users,
            "min_honest": honest,
            "epsilon": epsilon,
            "delta": asked[2],
            **described(domain, space),
            **({} if space else dict(zip(("lower", "upper"), bounds, strict=True))),
            "data": data,
            "plot": plot,
            "warnings": budget_warnings(epsilon, asked[2], users) + warnings,
        },
    )  # fmt: skip
    print_report(report, how)


def _comparison(
    asked: tuple[int, Fraction, Fraction],
    space: Domain | None,
    bounds: tuple[float, float],
    honest: int,
    protocols: Sequence[str],
) -> tuple[Any, ...]:
    """Return the rows of the library's comparison, those of other domains with a reason."""
    from ikos.baselines import comparison

    keys = tuple(dict.fromkeys(protocols)) or None
    names = keys or (PROTOCOLS if space is None else VECTOR_PROTOCOLS)
    with progress("choosing parameters", names) as shown:
        how: dict[str, Any] = {"min_honest": honest, "protocols": keys, "progress": shown}
        if space is None:
            return comparison(*asked, lower=bounds[0], upper=bounds[1], **how)
        return comparison(*asked, domain=space, **how)


def _row(row: Any, users: int) -> dict[str, Any]:
    """Return a row of the report."""
    spec, cost, rmse = row.spec, row.protocol and row.protocol.cost(), row.rmse
    return {
        "key": row.key,
        "model": spec.model,
        "name": spec.name,
        "source": spec.source,
        "trust": spec.note,
        "messages_per_user": cost and cost.messages_per_user,
        "bits_per_user": cost and cost.bits_per_user,
        "mse": row.mse,
        "standard_error": rmse,
        "mean_error": None if rmse is None else rmse / users,
        "influence": row.influence,
        "unlimited": row.influence is not None and math.isinf(row.influence),
        "guarantee": row.guarantee,
        "reason": None if row.reason is None else in_words(row.reason),
    }


def _notes(rows: Sequence[Mapping[str, Any]], honest: int, users: int) -> list[str]:
    """Return what people must know to read the table."""
    notes = [LEGEND]
    if honest < users:
        notes.append(f"While at least {honest:,} of {users:,} users are honest and present.")
    if any(row.get("measured") is not None for row in rows):
        notes.append(
            "Measured, NOT private: root mean squared error of the sum, with an approximate "
            f"{CONFIDENCE * 100:g} % interval; the bound is the root of the MSE."
        )
    for row in rows:
        said = [f"{row['key']}: {row['name']} ({row['source']})", row["trust"]]
        if row["reason"]:
            how = "did not run" if row["guarantee"] else "NOT possible here"
            said.append(f"{how}: {row['reason']}")
        notes.append("; ".join(filter(None, said)))
    return notes


def _values(
    source: release.Source, lower: float, upper: float, on_out_of_range: str
) -> tuple[NDArray[np.float64], int]:
    """Return the column, within the bounds, and how many values were moved to them."""
    import numpy as np

    check_bounds(lower, upper)
    truth = release.Truth()
    rule = release.Rule(lower, upper, on_out_of_range == "clamp")
    _, blocks = release.read(source.open(), rule, truth)
    values = np.concatenate(list(blocks))
    if values.size > MOST_USERS:
        raise click.UsageError(f"{source.file!r} has more than {MOST_USERS:,} rows")
    return values, truth.clamped


def _measure(
    made: Sequence[Any],
    values: NDArray[np.float64],
    runs: int,
    seed: int | None,
    rows: Sequence[dict[str, Any]],
) -> dict[str, Measurement]:
    """Run every protocol that there is. Its draws do not depend on which others run."""
    from ikos.baselines import measure
    from ikos.testing import DeterministicRandom

    measured = {}
    with progress("running", [row.key for row in made]) as shown:
        for done, (row, line) in enumerate(zip(made, rows, strict=True), 1):
            if row.protocol is not None:
                rng = None if seed is None else DeterministicRandom(seed)
                try:
                    found = measured[row.key] = measure(row, values, runs, rng)
                except (ValueError, MemoryError) as error:
                    line["reason"] = problem(error)
                else:
                    low, high = found.interval(CONFIDENCE)
                    line |= {"measured": found.rmse, "low": low, "high": high}
                    line |= {"seconds": found.seconds, "errors": found.errors}
            if shown is not None:
                shown(done, len(made))
    return measured
