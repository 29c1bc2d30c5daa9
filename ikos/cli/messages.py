"""``ikos messages``: how many messages each user must send, by every analysis that says."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.counting import (
    RESERVE,
    SEES_ALL,
    Row,
    asked_settings,
    check_collusion,
    listing_options,
    reason,
    reserve_option,
    uncovered,
)
from ikos.cli.errors import Command, unwritten
from ikos.cli.messages_report import Asked, Floor, Values, as_json, as_text
from ikos.cli.options import FIGURE, check_bounds, option
from ikos.cli.output import power_text, print_json, print_text, progress, warn
from ikos.cli.types import SIGMA, Honest, Whole

if TYPE_CHECKING:
    from ikos import MessageCount

EXAMPLES = """\b
Examples
  ikos messages --users 10^6 --modulus 2^64 --sigma 80
  ikos messages --users 10^6 --epsilon 1 --delta 1e-12
  ikos messages --users 1000 --modulus 2^32 --sigma 40 \\
      --shuffler parallel --plot messages.svg
"""

SECTIONS = {
    "users": "Users",
    "modulus": "A secure sum",
    "epsilon": "A private sum",
    "analysis": "What to list",
    "plot": "Output",
}


@click.command("messages", cls=Command, epilog=EXAMPLES, sections=SECTIONS)
@option("--users", required=True, type=Whole(low=1, high=1 << 53))
@option("--min-honest")
@option("--corrupt-shufflers")
@option(
    "--modulus",
    help="Order of the group of the shares, e.g. 2^64 or 1000003.",
    shown="chosen for a private sum",
)
@option("--sigma", type=SIGMA, help="Security in bits, e.g. 80.")
@option("--epsilon")
@option("--delta")
@option("--lower", shown="0")
@option("--upper", shown="1")
@option("--integers", is_flag=True, help="The values are integers: nothing is rounded.")
@option("--precision")
@reserve_option()
@listing_options("all", "each user")
@option("--plot", help=FIGURE.format("the messages against the users"))
@option("--json", "json")
def command(
    users: int,
    modulus: int | None,
    sigma: Fraction | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    lower: float | None,
    upper: float | None,
    integers: bool,
    precision: int | None,
    reserve: Fraction | None,
    min_honest: int | Fraction | None,
    corrupt_shufflers: int,
    analysis: str | None,
    shuffler: str | None,
    clear_share: bool | None,
    plot: Path | None,
    json: bool,
) -> None:
    """Print how many messages each user must send.

    For a secure sum give --modulus and --sigma; for a differentially private
    one --epsilon and --delta. Every analysis that says something is listed,
    for parallel shufflers and for a single one, with and without a clear share
    (one message of each user that bypasses the shufflers).

    For a secure sum, it also prints the floor: the number of messages below
    which no analysis, present or future, can get.
    """
    from ikos.counts import ANALYSES
    from ikos.counts.secure import checked_analysis

    values = {"lower": lower, "upper": upper, "integers": integers or None}
    _check(sigma, modulus, epsilon, delta, {**values, "precision": precision, "reserve": reserve})
    honest = Honest.of(min_honest, users)
    check_collusion(corrupt_shufflers, shuffler)
    if plot is not None:
        import ikos.plots.figures  # noqa: F401  (says at once whether it can be done)
    if sigma is None:
        low, high = 0.0 if lower is None else lower, 1.0 if upper is None else upper
        check_bounds(low, high)
        held = Values(low, high, integers)
        asked = _private(users, honest, modulus, epsilon, delta, reserve, precision, held)
    else:
        assert modulus is not None
        asked = Asked(users, honest, modulus, sigma, None, None, None, None)
    asked = replace(asked, corrupt=corrupt_shufflers)
    analyses = [checked_analysis(analysis)] if analysis else list(ANALYSES)
    ways = asked_settings(shuffler, clear_share)
    rows = _rows(asked, analyses, ways)
    if all(row.count is None for row in rows):
        raise click.UsageError(uncovered(rows, analysis, shuffler, clear_share))
    floor = _floor(asked, ways)
    if plot is not None:
        narrowed = shuffler is not None or clear_share is not None
        _plot(plot, asked, analyses, ways if narrowed else None, modulus, precision)
    from ikos.results import budget_warnings, trust_warnings

    warnings = (
        budget_warnings(epsilon, delta, users) if epsilon is not None and delta is not None else []
    )
    most = max(row.count.shuffled for row in rows if row.count)
    warnings += trust_warnings(corrupt_shufflers, most)
    for warning in warnings:
        warn(warning)
    if json:
        print_json(as_json(asked, rows, floor, plot, warnings))
    else:
        print_text(as_text(asked, rows, floor, plot))


def _check(
    sigma: Fraction | None,
    modulus: int | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    private: Mapping[str, object],
) -> None:
    """Refuse options that do not go together."""
    if sigma is None and epsilon is None and delta is None:
        raise click.UsageError(
            "give --modulus and --sigma for a secure sum, --epsilon and --delta for a private one"
        )
    if sigma is not None:
        for name, value in {"epsilon": epsilon, "delta": delta, **private}.items():
            if value is not None:
                raise click.UsageError(f"--{name} is for a private sum, --sigma for a secure one")
        if modulus is None:
            raise click.UsageError("--sigma needs --modulus, e.g. --modulus 2^64")
    elif epsilon is None or delta is None:
        given, missing = ("delta", "epsilon") if epsilon is None else ("epsilon", "delta")
        raise click.UsageError(f"--{given} needs --{missing}")


def _private(
    users: int,
    honest: int,
    modulus: int | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    reserve: Fraction | None,
    precision: int | None,
    values: Values,
) -> Asked:
    """Return what is asked for a private sum, with the parameters that it chooses."""
    from ikos import PrivateSum

    assert epsilon is not None
    assert delta is not None
    spare = RESERVE if reserve is None else reserve
    # What the private sum chooses does not depend on the number of messages.
    chosen = PrivateSum(
        users,
        epsilon,
        delta,
        precision=precision,
        modulus=modulus,
        messages=5,
        min_honest=honest,
        reserve=spare,
        **asdict(values),
    )
    return Asked(
        users, honest, chosen.modulus, None, epsilon, delta, spare, chosen.precision, values
    )


def _ask(
    asked: Asked, analysis: str, shuffler: str, clear: bool
) -> tuple[MessageCount, float | None]:
    """Return the messages, and for a private sum its standard error."""
    from ikos import PrivateSum
    from ikos.counts import least

    setting: dict[str, Any] = {
        "analysis": analysis,
        "shuffler": shuffler,
        "clear_share": clear,
    }
    if asked.sigma is not None:
        count = least((asked.honest, asked.users), asked.q, asked.sigma, **setting)
        return count.with_corruption(asked.corrupt), None
    assert asked.epsilon is not None
    assert asked.delta is not None
    assert asked.reserve is not None
    protocol = PrivateSum(
        asked.users,
        asked.epsilon,
        asked.delta,
        precision=asked.precision,
        modulus=asked.q,
        min_honest=asked.honest,
        corrupt_shufflers=asked.corrupt,
        reserve=asked.reserve,
        **asdict(asked.values),
        **setting,
    )
    return protocol.messages, math.sqrt(protocol.mse)


def _rows(asked: Asked, analyses: list[str], settings: list[tuple[str, bool]]) -> list[Row]:
    """Return all rows, analysis by analysis, of each the fewest messages first."""
    rows: list[Row] = []
    with progress("counting messages", parts=analyses) as shown:
        for i, analysis in enumerate(analyses):
            of_one = []
            for j, (shuffler, clear) in enumerate(settings, 1):
                of_one.append(_row(asked, analysis, shuffler, clear))
                if shown is not None:
                    shown(i * len(settings) + j, len(analyses) * len(settings))
            rows += sorted(of_one, key=lambda row: row.count.total if row.count else math.inf)
    return rows


def _row(asked: Asked, analysis: str, shuffler: str, clear: bool) -> Row:
    count, error, why = None, None, None
    try:
        if asked.corrupt and shuffler == "single":
            raise ValueError(SEES_ALL)
        count, error = _ask(asked, analysis, shuffler, clear)
    except ValueError as problem:
        why = reason(str(problem), analysis)
    from ikos.counts.published import unproved

    missing = unproved(analysis, asked.q) if count else None
    return Row(analysis, shuffler, clear, count, error, why, missing)


def _floor(asked: Asked, settings: list[tuple[str, bool]]) -> list[Floor] | None:
    """Return the floor in each setting, or None where there is none.

    The level must hold for every number of honest users from the fewest to all: the highest
    floor of some of these counts is a floor. What colluding shufflers pass on is as good as clear,
    and clear messages do not count.
    """
    from ikos.counts.floor import counting_floor

    if asked.sigma is None or asked.users == 1:
        return None
    sizes = {max(2, asked.honest), asked.users}
    floors = []
    for shuffler, clear in settings:
        if asked.corrupt and shuffler == "single":
            continue
        shuffled = max(
            counting_floor(n, asked.q, asked.sigma, shuffler=shuffler, clear_share=clear)
            for n in sizes
        )
        floors.append(Floor(shuffler, clear, shuffled + asked.corrupt))
    return floors


def _plot(
    path: Path,
    asked: Asked,
    analyses: list[str],
    settings: Sequence[tuple[str, bool]] | None,
    modulus: int | None,
    precision: int | None,
) -> None:
    """Write the figure: as asked at the asked users, and as much to both sides."""
    from ikos.counts.published import unproved
    from ikos.plots import BOTH_WAYS, grid, private_curves, save, secure_curves
    from ikos.plots.figures import messages_figure

    low, high = max(2, asked.users // 1000), min(1 << 53, 1000 * max(2, asked.users))
    chosen = settings or BOTH_WAYS
    options: dict[str, Any] = {
        "analyses": analyses,
        "settings": [way for way in chosen if way[0] == "parallel" or not asked.corrupt],
        "honest": Fraction(asked.honest, asked.users),
        "corrupt": asked.corrupt,
    }
    with progress("plotting", parts=()) as shown:
        options["progress"] = shown
        if asked.sigma is not None:
            users = grid(low, high, 30, also=[asked.users])
            curves = secure_curves(users, asked.q, asked.sigma, **options)
        else:
            assert asked.epsilon is not None
            assert asked.delta is not None
            if asked.values.integers:
                precision = asked.precision
            options |= {"precision": precision, "modulus": modulus, "reserve": asked.reserve}
            users = grid(low, high, 12, also=[asked.users])
            curves = private_curves(users, asked.epsilon, asked.delta, **options)
    notes = ["Totals count the clear share where there is one."]
    drawn = {curve.name for curve in curves}
    if "attack" in drawn:
        notes.append("The attack is on parallel shufflers; an estimate, not a proof.")
    if "ghazi2020" in drawn and (missing := unproved("ghazi2020", asked.q)):
        notes.append(f"ghazi2020: {missing}.")
    if asked.corrupt:
        notes.append(f"Shufflers that may collude with the analyzer: {asked.corrupt:,}.")
    if asked.sigma is None:
        notes.append("Precision and modulus are chosen for each n, unless given.")
    figure = messages_figure(
        curves,
        _title(asked),
        mark=asked.users,
        honest=options["honest"],
        footnote="\n".join(notes),
    )
    try:
        save(figure, path)
    except OSError as error:
        raise unwritten(path, error) from None


def _title(asked: Asked) -> str:
    if asked.sigma is None:
        assert asked.epsilon is not None
        assert asked.delta is not None
        return (
            "Messages of a private sum with "
            f"ε = {float(asked.epsilon):.6g}, δ = {float(asked.delta):.3g}"
        )
    modulus = re.sub(r"2\^(\d+)", r"$\\mathbf{2^{\1}}$", power_text(asked.q))
    return (
        f"Messages of a secure sum modulo {modulus} with {float(asked.sigma):,.6g} bits of security"
    )
