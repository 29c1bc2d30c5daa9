"""``ikos messages``: how many messages each user must send, by every analysis that says.

The JSON object that ``--json`` prints; all keys are always there:

- ``command``, ``version``: strings; ``users``; ``modulus``: a string of digits, because it can
  exceed 2^53.
- ``sigma``: the level asked for, or null; ``epsilon``, ``delta``: the privacy asked for, or null.
- ``precision``, ``standard_error``: of the private sum of values in [0, 1]; null for a secure sum.
- ``bits_per_message``.
- ``rows``: a list of objects, the fewest messages first and what is not covered last, with
  ``analysis``, ``shuffler``, ``clear_share`` (boolean), ``covered`` (boolean), ``best`` (boolean:
  no covered row has fewer messages), ``shuffled``, ``clear``, ``total``, ``sigma`` (proved; null
  also where it is unlimited), ``delta`` (proved) and ``noise_epsilon`` (private sums alone),
  ``bits_per_user``, ``theorem``, and ``reason``, which is null where covered, and where not is
  the only one of these that is not null.

Every number that is an integer here is below 2^53.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from ikos import __version__
from ikos.cli.budget import weak
from ikos.cli.errors import Command, in_options
from ikos.cli.output import (
    aligned,
    bold,
    integer_text,
    power_text,
    print_json,
    print_text,
    wrapped,
)
from ikos.cli.types import MODULUS, NAME, WHOLE, Decimal, Whole
from ikos.results import at_least

if TYPE_CHECKING:
    from ikos import MessageCount

__all__ = ["command"]

EXAMPLES = """\b
Examples
  ikos messages --users 10^6 --modulus 2^64 --sigma 80
  ikos messages --users 10^6 --epsilon 1 --delta 1e-12
"""


@dataclass(frozen=True)
class Row:
    """One analysis in one setting: what it proves, or why it says nothing."""

    analysis: str
    shuffler: str
    clear_share: bool
    count: MessageCount | None
    reason: str | None


@click.command("messages", cls=Command, epilog=EXAMPLES)
@click.option("--users", required=True, type=Whole(low=1, high=1 << 53), help="How many; 10^6.")
@click.option("--modulus", type=MODULUS, help="Order of the group, e.g. 2^64 or 1000003.")
@click.option(
    "--sigma",
    type=Decimal(above="0", below="1000001"),
    help="Security of a secure sum in bits, e.g. 80.",
)
@click.option(
    "--epsilon",
    type=Decimal(above="0", below="1000001"),
    help="Privacy budget of a private sum, e.g. 1.",
)
@click.option(
    "--delta",
    type=Decimal(above="0", below="1"),
    help="Privacy failure probability of a private sum, e.g. 1e-12.",
)
@click.option("--precision", type=WHOLE, help="Steps of a private sum's values [chosen].")
@click.option("--analysis", type=NAME["analysis"], help="Only this analysis.")
@click.option("--shuffler", type=NAME["shuffler"], help="Only parallel shufflers, or a single one.")
@click.option(
    "--clear-share/--no-clear-share",
    default=None,
    help="Only with, or without, a message that bypasses the shufflers.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    users: int,
    modulus: int | None,
    sigma: Fraction | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    precision: int | None,
    analysis: str | None,
    shuffler: str | None,
    clear_share: bool | None,
    as_json: bool,
) -> None:
    """Print how many messages each user must send.

    For a secure sum give --modulus and --sigma; for a differentially private
    sum --epsilon and --delta. Every analysis that says something is listed,
    for parallel shufflers and for a single one, with and without a clear share
    (one message of each user that bypasses the shufflers).
    """
    _check(sigma, modulus, epsilon, delta, precision)
    from ikos import PrivateSum, message_count, private_message_count

    error: float | None = None
    if sigma is None:
        assert epsilon is not None
        assert delta is not None
        # The parameters that the private sum chooses do not depend on the number of messages.
        chosen = PrivateSum(users, epsilon, delta, precision=precision, modulus=modulus, messages=5)
        precision, modulus, error = chosen.precision, chosen.modulus, math.sqrt(chosen.mse)
    assert modulus is not None
    q = modulus

    def ask(**setting: Any) -> MessageCount:
        if sigma is not None:
            return message_count(users, q, sigma, **setting)
        assert epsilon is not None
        assert delta is not None
        assert precision is not None
        return private_message_count(users, q, epsilon, delta, precision, **setting)

    rows = _rows(ask, [analysis] if analysis else _analyses(), shuffler, clear_share)
    if rows[0].count is None:
        reasons = dict.fromkeys(f"{row.analysis} {row.reason}" for row in rows)
        raise click.UsageError("no theorem covers this: " + "; ".join(reasons))
    asked = {"sigma": sigma, "epsilon": epsilon, "delta": delta}
    if epsilon is not None and delta is not None:
        for warning in weak(epsilon, delta, users):
            click.echo(f"{click.get_current_context().command_path}: warning: {warning}", err=True)
    if as_json:
        print_json(_json(users, q, asked, precision, error, rows))
    else:
        print_text(_text(users, q, asked, precision, error, rows))


def _check(
    sigma: Fraction | None,
    modulus: int | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    precision: int | None,
) -> None:
    """Refuse options that do not go together."""
    if sigma is None and epsilon is None and delta is None:
        raise click.UsageError(
            "give --modulus and --sigma for a secure sum, --epsilon and --delta for a private one"
        )
    if sigma is not None:
        for name, value in (("epsilon", epsilon), ("delta", delta), ("precision", precision)):
            if value is not None:
                raise click.UsageError(f"--{name} is for a private sum, --sigma for a secure one")
        if modulus is None:
            raise click.UsageError("--sigma needs --modulus, e.g. --modulus 2^64")
    elif epsilon is None or delta is None:
        given, missing = ("delta", "epsilon") if epsilon is None else ("epsilon", "delta")
        raise click.UsageError(f"--{given} needs --{missing}")


def _analyses() -> list[str]:
    """Return the names of analyses that are no other's second name.

    A name such as "published" stands for the best of others: asked for a count where most
    analyses have one, it says whose that is.
    """
    from ikos.counts import ANALYSES

    def alias(name: str) -> bool:
        counts = [row.count for row in _rows(_probe, [name], None, None) if row.count]
        return bool(counts) and all(count.analysis != name for count in counts)

    return [name for name in ANALYSES if not alias(name)]


def _probe(**setting: Any) -> MessageCount:
    from ikos import message_count

    return message_count(1000, 2, 20, **setting)


def _rows(
    ask: Callable[..., MessageCount],
    analyses: list[str],
    shuffler: str | None,
    clear_share: bool | None,
) -> list[Row]:
    """Return all rows, the fewest messages first, what is not covered last."""
    from ikos.counts import SHUFFLERS

    rows = []
    for analysis in analyses:
        for kind in (shuffler,) if shuffler else SHUFFLERS:
            for clear in (True, False) if clear_share is None else (clear_share,):
                count, reason = None, None
                try:
                    count = ask(analysis=analysis, shuffler=kind, clear_share=clear)
                except ValueError as error:
                    reason = _reason(str(error), analysis)
                rows.append(Row(analysis, kind, clear, count, reason))
    return sorted(rows, key=lambda row: row.count.total if row.count else math.inf)


def _reason(message: str, analysis: str) -> str:
    """Return why an analysis refuses, without the setting, which stands beside it."""
    if message.startswith("analysis ") and "does not cover" in message:
        message = message.partition(": ")[2] or message
        message = message.partition("; analysis=")[0]
    return in_options(message).removeprefix(f"{analysis} ")


def _best(rows: list[Row]) -> int:
    """Return the fewest messages."""
    return min(row.count.total for row in rows if row.count)


def _json(
    users: int,
    q: int,
    asked: dict[str, Fraction | None],
    precision: int | None,
    error: float | None,
    rows: list[Row],
) -> dict[str, Any]:
    bits = (q - 1).bit_length()
    best = _best(rows)

    def described(row: Row) -> dict[str, Any]:
        count = row.count
        return {
            "analysis": row.analysis,
            "shuffler": row.shuffler,
            "clear_share": row.clear_share,
            "covered": count is not None,
            "best": count is not None and count.total == best,
            "shuffled": count and count.shuffled,
            "clear": count and count.clear,
            "total": count and count.total,
            "sigma": count.sigma if count and math.isfinite(count.sigma) else None,
            "delta": count and count.delta,
            "noise_epsilon": count and count.noise_epsilon,
            "bits_per_user": count and count.total * bits,
            "theorem": count and count.theorem,
            "reason": row.reason,
        }

    return {
        "command": "messages",
        "version": __version__,
        "users": users,
        "modulus": integer_text(q),
        **{name: None if value is None else float(value) for name, value in asked.items()},
        "precision": precision,
        "standard_error": error,
        "bits_per_message": bits,
        "rows": [described(row) for row in rows],
    }


def _text(
    users: int,
    q: int,
    asked: dict[str, Fraction | None],
    precision: int | None,
    error: float | None,
    rows: list[Row],
) -> list[str]:
    covered = [row for row in rows if row.count]
    lines = [bold(line) for line in wrapped(_heading(users, q, asked), "", "")]
    if error is not None:
        lines += wrapped(
            f"Values in [0, 1] are rounded to {precision:,} steps and added modulo "
            f"{power_text(q)}. The sum will be off by {error:,.4g} (root mean square, at most), "
            f"the mean by {error / users:.3g}; both scale with the width of the bounds."
        )
    lines += ["", *_table(covered, (q - 1).bit_length()), ""]
    lines += [bold("Theorems")]
    theorems = dict.fromkeys(
        (row.count.analysis or row.analysis, row.count.theorem) for row in covered if row.count
    )
    for name, theorem in theorems:
        lines += wrapped(f"{name}: {theorem}", "  ", "    ")
    lines += _refusals([row for row in rows if not row.count])
    lines += ["", bold("What it means"), *_meaning(covered, asked)]
    return lines


def _heading(users: int, q: int, asked: dict[str, Fraction | None]) -> str:
    if asked["sigma"] is not None:
        return (
            f"Messages of each of {power_text(users)} users for a secure sum modulo "
            f"{power_text(q)} with {float(asked['sigma']):.10g} bits of security"
        )
    assert asked["epsilon"] is not None
    assert asked["delta"] is not None
    return (
        f"Messages of each of {power_text(users)} users for a ({float(asked['epsilon']):.10g}, "
        f"{float(asked['delta']):.3g})-differentially private sum"
    )


def _table(covered: list[Row], bits: int) -> list[str]:
    best = _best(covered)
    private = any(row.count and row.count.delta is not None for row in covered)
    head = ["analysis", "shuffler", "shuffled + clear", "= total", "sigma"]
    table = [head + ["delta"] * private + ["bits/user"]]
    for row in covered:
        count = row.count
        assert count is not None
        sent = count.total * bits
        table.append(
            [
                row.analysis,
                row.shuffler,
                f"{count.shuffled:,} + {count.clear}",
                f"{count.total:,}",
                "no limit" if math.isinf(count.sigma) else f"{count.sigma:,.2f}",
                *([] if count.delta is None else [at_least(count.delta, 2)]),
                f"{sent:,}" if sent < 10**10 else f"{sent:.4g}",
            ]
        )
    lines = aligned(table)
    for i, row in enumerate(covered, 1):
        if row.count and row.count.total == best:
            lines[i] = bold("*" + lines[i][1:])
    return [*lines, "  * fewest messages"]


def _refusals(refused: list[Row]) -> list[str]:
    if not refused:
        return []
    lines = ["", bold("Not covered")]
    refused.sort(key=lambda row: (row.analysis, row.reason or ""))
    for (analysis, reason), group in groupby(refused, lambda row: (row.analysis, row.reason)):
        lines += wrapped(f"{analysis}, {_settings(list(group))}: {reason}", "  ", "    ")
    return lines


def _settings(rows: list[Row]) -> str:
    """Return the settings of rows, shortly."""
    texts = []
    for shuffler in dict.fromkeys(row.shuffler for row in rows):
        clear = [row.clear_share for row in rows if row.shuffler == shuffler]
        text = f"{shuffler} with{'' if clear[0] else 'out'} a clear share"
        texts.append(shuffler if len(clear) > 1 else text)
    return " and ".join(texts)


def _meaning(rows: list[Row], asked: dict[str, Fraction | None]) -> list[str]:
    covered = [row for row in rows if row.count]
    count = covered[0].count
    assert count is not None
    kinds, clear = {row.shuffler for row in covered}, any(row.clear_share for row in covered)
    many = f"{count.total:,} random number{'s' * (count.total != 1)}"
    noisy = "" if asked["sigma"] is not None else ", rounded and with a little noise,"
    text = (
        f"Each user splits its value{noisy} into {many} that add up to it. "
        + ("Parallel shufflers mix one number of every user each. " if "parallel" in kinds else "")
        + ("A single shuffler mixes all numbers of all users. " if "single" in kinds else "")
        + ("A clear share goes straight to the analyzer. " if clear else "")
        + "The analyzer adds everything up. "
    )
    if asked["sigma"] is not None:
        text += (
            "It learns the sum and next to nothing else: with all that it sees, two inputs with "
            "the same sum can be told apart with an advantage of at most 2^-sigma. "
        )
    else:
        text += (
            "It learns a noisy sum and next to nothing about anybody: up to a factor e^epsilon "
            "and a probability delta, it would have seen the same had one user's value been "
            "another. "
        )
    text += "Where rows tie, choose what is easier to run."
    return wrapped(text)
