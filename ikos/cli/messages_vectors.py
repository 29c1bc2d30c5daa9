"""``ikos messages-vectors``: how many messages sums of vectors take, by every analysis and layout.

The JSON object that ``--json`` prints is described in `ikos.cli.messages_vectors_report`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.counting import (
    RESERVE,
    SEES_ALL,
    asked_settings,
    check_collusion,
    listing_options,
    reason,
    reserve_option,
    uncovered,
)
from ikos.cli.errors import Command
from ikos.cli.messages_vectors_report import Asked, Floor, Noise, Row, as_json, as_text
from ikos.cli.options import option
from ikos.cli.output import print_json, print_text, progress, warn
from ikos.cli.types import SIGMA, Honest, Whole
from ikos.cli.vector_domains import described, domain_of, domain_options

if TYPE_CHECKING:
    from ikos.counts import Layout

EXAMPLES = """\b
Examples
  ikos messages-vectors --users 10^5 --dimension 256 \\
      --modulus 2^32 --sigma 80
  ikos messages-vectors --users 10^5 --epsilon 1 \\
      --delta 1e-10 --domain ball --dimension 1024
  ikos messages-vectors --users 10^4 --epsilon 1 \\
      --delta 1e-8 --domain categories --sizes 2,5,12
"""

SECTIONS = {
    "users": "Users",
    "modulus": "A secure sum",
    "epsilon": "A private sum",
    "domain": "The vectors (a secure sum takes --dimension alone)",
    "analysis": "What to list",
    "json": "Output",
}


@click.command("messages-vectors", cls=Command, epilog=EXAMPLES, sections=SECTIONS)
@option("--users", required=True, type=Whole(low=1, high=1 << 53))
@option("--min-honest")
@option(
    "--corrupt-shufflers",
    help="How many of each sum's parallel shufflers may collude with the analyzer.",
)
@option(
    "--modulus",
    help="Order of the group of each coordinate's shares, e.g. 2^32.",
    shown="chosen for a private sum",
)
@option("--sigma", type=SIGMA, help="Security of the whole vector in bits, e.g. 80.")
@option("--epsilon")
@option("--delta")
@option(
    "--releases",
    type=Whole(low=1, high=10**6),
    shown="1",
    help="How many sums about the same users the budget is for, all together.",
)
@option("--integers", is_flag=True, help="Of a box: entries are integers, nothing is rounded.")
@option("--precision", help="Steps between the bounds of a coordinate.")
@reserve_option()
@domain_options(required=False)
@listing_options("all of a sum", "each sum")
@option("--json", "json")
def command(
    users: int,
    modulus: int | None,
    sigma: Fraction | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    releases: int | None,
    integers: bool,
    precision: int | None,
    reserve: Fraction | None,
    domain: str | None,
    dimension: int | None,
    min_honest: int | Fraction | None,
    corrupt_shufflers: int,
    analysis: str | None,
    shuffler: str | None,
    clear_share: bool | None,
    json: bool,
    **given: Any,
) -> None:
    """Print how many messages each user must send, for sums of vectors.

    For a secure sum give --modulus, --sigma and --dimension; for a
    differentially private one --epsilon, --delta and --domain. Coordinates
    are summed apart, each with shares and shufflers of its own, or as one
    group, whose messages are whole vectors of shares: both are listed, for
    every analysis that says something.

    For a secure sum, it also prints the floor: the number of messages below
    which no analysis, present or future, can get.
    """
    from ikos.counts import ANALYSES
    from ikos.counts.secure import checked_analysis

    private = {
        "epsilon": epsilon, "delta": delta, "releases": releases, "integers": integers or None,
        "precision": precision, "reserve": reserve, "domain": domain, **given,
    }  # fmt: skip
    _check(sigma, modulus, dimension, private)
    check_collusion(corrupt_shufflers, shuffler)
    trust = {"min_honest": Honest.of(min_honest, users), "corrupt_shufflers": corrupt_shufflers}
    analyses = [checked_analysis(analysis)] if analysis else list(ANALYSES)
    ways = asked_settings(shuffler, clear_share)
    if sigma is None:
        assert domain is not None
        asked = _private(users, modulus, {**private, "dimension": dimension}, given, trust)
    else:
        assert modulus is not None
        assert dimension is not None
        from ikos.counts.vectors import checked_dimension

        checked_dimension(dimension, modulus)
        asked = Asked(users, trust["min_honest"], corrupt_shufflers, modulus, dimension, sigma)
    rows = _rows(asked, analyses, ways)
    if all(row.count is None for row in rows):
        raise click.UsageError(uncovered(rows, analysis, shuffler, clear_share))
    floor = _floor(asked, ways)
    warnings: list[str] = []
    if asked.noise is not None:
        from ikos.results import budget_warnings

        warnings = budget_warnings(asked.noise.epsilon, asked.noise.delta, users)
    for warning in warnings:
        warn(warning)
    if json:
        print_json(as_json(asked, rows, floor, warnings))
    else:
        print_text(as_text(asked, rows, floor))


def _check(
    sigma: Fraction | None,
    modulus: int | None,
    dimension: int | None,
    private: Mapping[str, object],
) -> None:
    """Refuse options that do not go together."""
    epsilon, delta = private["epsilon"], private["delta"]
    if sigma is None and epsilon is None and delta is None:
        raise click.UsageError(
            "give --modulus, --sigma and --dimension for a secure sum, --epsilon, --delta and "
            "--domain for a private one"
        )
    if sigma is not None:
        for name, value in private.items():
            if value is not None:
                raise click.UsageError(f"--{name} is for a private sum, --sigma for a secure one")
        if modulus is None:
            raise click.UsageError("--sigma needs --modulus, e.g. --modulus 2^32")
        if dimension is None:
            raise click.UsageError("--sigma needs --dimension, e.g. --dimension 256")
        return
    if epsilon is None or delta is None:
        known, missing = ("delta", "epsilon") if epsilon is None else ("epsilon", "delta")
        raise click.UsageError(f"--{known} needs --{missing}")
    if private["domain"] is None:
        raise click.UsageError("--epsilon needs --domain: box, ball, ternary or categories")
    if private["integers"] and private["domain"] != "box":
        raise click.UsageError(f"--integers is not for --domain {private['domain']}")
    if private["precision"] is not None and private["domain"] not in ("box", "ball"):
        raise click.UsageError(f"--precision is not for --domain {private['domain']}")


def _private(
    users: int,
    modulus: int | None,
    private: Mapping[str, Any],
    given: Mapping[str, Any],
    trust: Mapping[str, int],
) -> Asked:
    """Return what is asked for a private sum, with the parameters that it chooses."""
    from ikos.vectors import PrivateVectorSum

    name, dimension = private["domain"], private["dimension"]
    domain, words = domain_of(name, {"dimension": dimension, **given})
    noise = Noise(
        epsilon=private["epsilon"],
        delta=private["delta"],
        releases=private["releases"] or 1,
        integers=bool(private["integers"]),
        reserve=RESERVE if private["reserve"] is None else private["reserve"],
        precision=private["precision"],
        domain=domain,
        words=words,
        described=described(name, domain),
    )
    # What the private sum chooses does not depend on the number of messages.
    chosen = PrivateVectorSum(
        users, domain, noise.epsilon, noise.delta, modulus=modulus, messages=5,
        min_honest=trust["min_honest"], **noise.options,
    )  # fmt: skip
    noise = noise.with_precision(chosen.precision)
    return Asked(
        users, **trust, q=chosen.modulus, dimension=domain.dimension, sigma=None, noise=noise
    )


def _rows(asked: Asked, analyses: list[str], ways: list[tuple[str, bool]]) -> list[Row]:
    """Return all rows, analysis by analysis, of each the fewest messages first."""
    rows: list[Row] = []
    with progress("counting messages", parts=analyses) as shown:
        for i, analysis in enumerate(analyses):
            of_one: list[Row] = []
            for j, (shuffler, clear) in enumerate(ways, 1):
                of_one += _setting_rows(asked, analysis, shuffler, clear)
                if shown is not None:
                    shown(i * len(ways) + j, len(analyses) * len(ways))
            rows += sorted(of_one, key=lambda row: row.cost)
    return rows


def _setting_rows(asked: Asked, analysis: str, shuffler: str, clear: bool) -> list[Row]:
    """Return a row of each layout."""
    how: dict[str, Any] = {
        "analysis": analysis,
        "shuffler": shuffler,
        "clear_share": clear,
        "min_honest": asked.min_honest,
        "corrupt_shufflers": asked.corrupt_shufflers,
    }

    def refused(problem: ValueError | str, names: tuple[str, ...]) -> list[Row]:
        why = reason(str(problem), analysis)
        return [Row(analysis, shuffler, clear, None, None, why, name=name) for name in names]

    if asked.corrupt_shufflers and shuffler == "single":
        return refused(SEES_ALL, asked.layouts)
    if asked.noise is None:
        try:
            return [_row(asked, how, layout, None) for layout in _secure(asked, how)]
        except ValueError as problem:
            return refused(problem, asked.layouts)
    rows: list[Row] = []
    for name in asked.layouts:
        try:
            rows.append(_row(asked, how, *_noisy(asked, asked.noise, how, name)))
        except ValueError as problem:
            rows += refused(problem, (name,))
    return rows


def _row(asked: Asked, how: Mapping[str, Any], layout: Layout, error: float | None) -> Row:
    from ikos.counts.published import unproved

    analysis, shuffler, clear = how["analysis"], how["shuffler"], how["clear_share"]
    missing = unproved(analysis, asked.q, asked.dimension // layout.sums)
    name = layout.name if asked.dimension > 1 else asked.layouts[0]
    return Row(
        analysis, shuffler, clear, layout.count, error, None, missing, name=name, layout=layout
    )


def _secure(asked: Asked, how: Mapping[str, Any]) -> tuple[Layout, ...]:
    from ikos.counts import vector_layouts

    assert asked.sigma is not None
    return vector_layouts(asked.users, asked.q, asked.sigma, asked.dimension, **how)


def _noisy(asked: Asked, noise: Noise, how: Mapping[str, Any], name: str) -> tuple[Layout, float]:
    """Return a layout of a private sum, and a bound on the root of its mean squared error."""
    from ikos.counts.vectors import ONE_GROUP, checked_dimension
    from ikos.vectors import PrivateVectorSum

    if name == ONE_GROUP:
        checked_dimension(asked.dimension, asked.q)
    protocol = PrivateVectorSum(
        asked.users, noise.domain, noise.epsilon, noise.delta,
        modulus=asked.q, layout=name, **how, **noise.options,
    )  # fmt: skip
    return protocol.layout, math.sqrt(protocol.mse)


def _floor(asked: Asked, ways: list[tuple[str, bool]]) -> list[Floor] | None:
    """Return the floor in each setting and layout, or None where there is none.

    A vector that is hidden with sigma bits has every coordinate hidden with as many, so that the
    floor of one coordinate's sum is one of each separate sum. For the rest see `ikos messages`.
    """
    from ikos.counts.floor import counting_floor
    from ikos.counts.vectors import ONE_GROUP

    if asked.sigma is None or asked.users == 1:
        return None
    sizes = {max(2, asked.min_honest), asked.users}
    return [
        Floor(
            name,
            shuffler,
            clear,
            asked.corrupt_shufflers
            + max(
                counting_floor(
                    n,
                    asked.q ** (asked.dimension if name == ONE_GROUP else 1),
                    asked.sigma,
                    shuffler=shuffler,
                    clear_share=clear,
                )
                for n in sizes
            ),
        )
        for name in asked.layouts
        for shuffler, clear in ways
        if not (asked.corrupt_shufflers and shuffler == "single")
    ]
