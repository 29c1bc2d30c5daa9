"""``ikos messages``: how many messages each user must send, by every analysis that says.

The JSON object that ``--json`` prints; all keys are always there:

- ``command``, ``version``: strings; ``users``; ``min_honest``: how many of them are honest, at
  least; ``modulus``: a string of digits, because it can exceed 2^53.
- ``sigma``: the level asked for, or null; ``epsilon``, ``delta``, ``reserve``: the privacy asked
  for and the largest part of epsilon that hiding may take, or null.
- ``precision``: of the private sum of values in [0, 1]; null for a secure sum.
- ``bits_per_message``.
- ``rows``: a list of objects, one for each analysis in each setting; of an analysis the fewest
  messages first and what is not covered last. They have

  - ``analysis``; ``assumes``: who proved it, under which conditions; ``shuffler``;
    ``clear_share`` (boolean);
  - ``covered`` (boolean) and ``reason``: why not, or null. Where not, all that follows is null but
    ``best``;
  - ``best`` (boolean: no covered row has fewer messages), ``shuffled``, ``clear``, ``total``,
    ``bits_per_user``, ``theorem``;
  - ``sigma``: proved; null also where it is unlimited;
  - for a private sum ``delta`` (proved), ``noise_epsilon`` (what is left of epsilon for the noise)
    and ``standard_error`` (of the sum of values in [0, 1], at most); else null.

- ``floor``: for a secure sum of two or more users a list of objects, one for each setting, with
  ``shuffler``, ``clear_share``, ``shuffled``, ``clear`` and ``total``: no analysis can ever prove
  ``sigma`` for fewer messages. Else null.
- ``plot``: the file that was written, or null.

Every number that is an integer here is below 2^53.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos import __version__
from ikos.cli.budget import weak
from ikos.cli.errors import Command, in_options
from ikos.cli.output import (
    aligned,
    at_most,
    bold,
    integer_text,
    power_text,
    print_json,
    print_text,
    progress,
    wrapped,
)
from ikos.cli.types import MODULUS, NAME, PLOT, WHOLE, Decimal, Whole
from ikos.results import at_least

if TYPE_CHECKING:
    from ikos import MessageCount

__all__ = ["command"]

EXAMPLES = """\b
Examples
  ikos messages --users 10^6 --modulus 2^64 --sigma 80
  ikos messages --users 10^6 --epsilon 1 --delta 1e-12
"""

ASSUMES = {
    "exact": "this library, by the collision identity: no conditions.",
    "balle2020": (
        "Balle, Bell, Gascon, Nissim 2020: at least 19 users, 3 shuffled messages and sigma 1; "
        "parallel shufflers and a clear share, from which the other settings follow."
    ),
    "ghazi2020": (
        "Ghazi, Manurangsi, Pagh, Velingker 2020, with the constants that Balle et al. state: "
        "proved for a prime modulus; at least 3 users, a single shuffler, no clear share."
    ),
    "ishai2006": (
        "Ishai, Kushilevitz, Ostrovsky, Sahai 2006, with the constants of Balle et al.: at least "
        "2 users, a single shuffler, no clear share."
    ),
}
"""Who proved what an analysis says, and under which conditions."""

RESERVE = Fraction(1, 100)


@dataclass(frozen=True)
class Asked:
    """What the options say, with the parameters of a private sum filled in."""

    users: int
    honest: int
    q: int
    sigma: Fraction | None
    epsilon: Fraction | None
    delta: Fraction | None
    reserve: Fraction | None
    precision: int | None

    @property
    def bits(self) -> int:
        """Bits of a message."""
        return (self.q - 1).bit_length()


@dataclass(frozen=True)
class Row:
    """One analysis in one setting: what it proves, or why it says nothing."""

    analysis: str
    shuffler: str
    clear_share: bool
    count: MessageCount | None
    error: float | None
    reason: str | None


@dataclass(frozen=True)
class Floor:
    """The fewest messages that counting does not exclude, in one setting."""

    shuffler: str
    clear_share: bool
    shuffled: int


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
@click.option(
    "--reserve",
    type=Decimal(),
    help="Part of epsilon that a private sum may spend on hiding by shuffling rather than on "
    "noise, 0 to 0.5 [0.01].",
)
@click.option(
    "--min-honest", type=Whole(low=1), help="How many users are honest at least [all of them]."
)
@click.option("--analysis", type=NAME["analysis"], help="Only this analysis.")
@click.option("--shuffler", type=NAME["shuffler"], help="Only parallel shufflers, or a single one.")
@click.option(
    "--clear-share/--no-clear-share",
    default=None,
    help="Only with, or without, a message that bypasses the shufflers.",
)
@click.option(
    "--plot",
    type=PLOT,
    help="Also plot the messages against the users, e.g. --plot messages.png; or .svg, .pdf. "
    "Needs matplotlib (the extra 'plot').",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    users: int,
    modulus: int | None,
    sigma: Fraction | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    precision: int | None,
    reserve: Fraction | None,
    min_honest: int | None,
    analysis: str | None,
    shuffler: str | None,
    clear_share: bool | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Print how many messages each user must send.

    For a secure sum give --modulus and --sigma; for a differentially private
    sum --epsilon and --delta. Every analysis that says something is listed,
    for parallel shufflers and for a single one, with and without a clear share
    (one message of each user that bypasses the shufflers).

    For a secure sum, it also prints the floor: the number of messages below
    which no analysis, present or future, can get.
    """
    from ikos.counts import ANALYSES, SHUFFLERS

    _check(sigma, modulus, epsilon, delta, precision, reserve)
    honest = users if min_honest is None else min_honest
    if honest > users:
        raise click.UsageError(f"--min-honest must be at most --users = {users}, got {honest}")
    if plot is not None:
        import ikos.plots.drawing  # noqa: F401  (says at once whether it can be done)
    if sigma is None:
        asked = _private(users, honest, modulus, epsilon, delta, reserve, precision)
    else:
        assert modulus is not None
        asked = Asked(users, honest, modulus, sigma, None, None, None, None)
    analyses = [analysis] if analysis else list(ANALYSES)
    settings = [
        (kind, clear)
        for kind in ([shuffler] if shuffler else SHUFFLERS)
        for clear in ((True, False) if clear_share is None else (clear_share,))
    ]
    rows = _rows(asked, analyses, settings)
    if all(row.count is None for row in rows):
        reasons = dict.fromkeys(f"{row.analysis} {row.reason}" for row in rows)
        raise click.UsageError("no theorem covers this: " + "; ".join(reasons))
    floor = _floor(asked, settings)
    if plot is not None:
        narrowed = shuffler is not None or clear_share is not None
        _plot(plot, asked, analyses, settings if narrowed else None, modulus, precision)
    if epsilon is not None and delta is not None:
        for warning in weak(epsilon, delta, users):
            click.echo(f"{click.get_current_context().command_path}: warning: {warning}", err=True)
    if as_json:
        print_json(_json(asked, rows, floor, plot))
    else:
        print_text(_text(asked, rows, floor, plot))


def _check(
    sigma: Fraction | None,
    modulus: int | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    precision: int | None,
    reserve: Fraction | None,
) -> None:
    """Refuse options that do not go together."""
    if sigma is None and epsilon is None and delta is None:
        raise click.UsageError(
            "give --modulus and --sigma for a secure sum, --epsilon and --delta for a private one"
        )
    if sigma is not None:
        private = {"epsilon": epsilon, "delta": delta, "precision": precision, "reserve": reserve}
        for name, value in private.items():
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
    )
    return Asked(
        users, honest, chosen.modulus, None, epsilon, delta, spare, precision=chosen.precision
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
        return least((asked.honest, asked.users), asked.q, asked.sigma, **setting), None
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
        reserve=asked.reserve,
        **setting,
    )
    return protocol.messages, math.sqrt(protocol.mse)


def _rows(asked: Asked, analyses: list[str], settings: list[tuple[str, bool]]) -> list[Row]:
    """Return all rows, analysis by analysis, of each the fewest messages first."""
    rows = []
    for analysis in analyses:
        of_one = []
        for shuffler, clear in settings:
            count, error, reason = None, None, None
            try:
                count, error = _ask(asked, analysis, shuffler, clear)
            except ValueError as problem:
                reason = _reason(str(problem), analysis)
            of_one.append(Row(analysis, shuffler, clear, count, error, reason))
        rows += sorted(of_one, key=lambda row: row.count.total if row.count else math.inf)
    return rows


def _floor(asked: Asked, settings: list[tuple[str, bool]]) -> list[Floor] | None:
    """Return the floor in each setting, or None where there is none.

    The level must hold for every number of honest users from the fewest to all: the highest
    floor of some of these counts is a floor.
    """
    from ikos.counts.floor import counting_floor

    if asked.sigma is None or asked.users == 1:
        return None
    sizes = {max(2, asked.honest), asked.users}
    floors = []
    for shuffler, clear in settings:
        shuffled = max(
            counting_floor(n, asked.q, asked.sigma, shuffler=shuffler, clear_share=clear)
            for n in sizes
        )
        floors.append(Floor(shuffler, clear, shuffled))
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
    from ikos.plots import BOTH_WAYS, grid, private_curves, save, secure_curves
    from ikos.plots.drawing import messages_figure

    low, high = max(2, asked.users // 1000), min(1 << 53, 1000 * max(2, asked.users))
    options: dict[str, Any] = {
        "analyses": analyses,
        "settings": settings or BOTH_WAYS,
        "honest": Fraction(asked.honest, asked.users),
    }
    with progress("Plotting") as shown:
        options["progress"] = shown
        if asked.sigma is not None:
            users = grid(low, high, 30, also=[asked.users])
            curves = secure_curves(users, asked.q, asked.sigma, **options)
        else:
            assert asked.epsilon is not None
            assert asked.delta is not None
            options |= {"precision": precision, "modulus": modulus, "reserve": asked.reserve}
            users = grid(low, high, 12, also=[asked.users])
            curves = private_curves(users, asked.epsilon, asked.delta, **options)
    notes = ["Totals count the clear share where there is one."]
    if any(curve.name == "attack" for curve in curves):
        notes.append("The attack is an estimate, not a proof.")
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
        reason = (error.strerror or "output error").lower()
        raise click.UsageError(f"cannot write {str(path)!r}: {reason}") from None


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
        f"Messages of a secure sum modulo {modulus} with {float(asked.sigma):.6g} bits of security"
    )


def _reason(message: str, analysis: str) -> str:
    """Return why an analysis refuses, without the setting, which stands beside it."""
    if message.startswith("analysis ") and "does not cover" in message:
        message = message.partition(": ")[2] or message
        message = message.partition("; analysis=")[0]
    return in_options(message).removeprefix(f"{analysis} ")


def _best(rows: list[Row]) -> int:
    """Return the fewest messages."""
    return min(row.count.total for row in rows if row.count)


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _json(
    asked: Asked, rows: list[Row], floor: list[Floor] | None, plot: Path | None
) -> dict[str, Any]:
    best = _best(rows)

    def described(row: Row) -> dict[str, Any]:
        count = row.count
        return {
            "analysis": row.analysis,
            "assumes": ASSUMES[row.analysis],
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
            "standard_error": row.error,
            "bits_per_user": count and count.total * asked.bits,
            "theorem": count and count.theorem,
            "reason": row.reason,
        }

    return {
        "command": "messages",
        "version": __version__,
        "users": asked.users,
        "min_honest": asked.honest,
        "modulus": integer_text(asked.q),
        "sigma": _number(asked.sigma),
        "epsilon": _number(asked.epsilon),
        "delta": _number(asked.delta),
        "reserve": _number(asked.reserve),
        "precision": asked.precision,
        "bits_per_message": asked.bits,
        "rows": [described(row) for row in rows],
        "floor": floor
        and [
            {
                "shuffler": found.shuffler,
                "clear_share": found.clear_share,
                "shuffled": found.shuffled,
                "clear": int(found.clear_share),
                "total": found.shuffled + found.clear_share,
            }
            for found in floor
        ],
        "plot": None if plot is None else str(plot),
    }


def _text(asked: Asked, rows: list[Row], floor: list[Floor] | None, plot: Path | None) -> list[str]:
    covered = [row for row in rows if row.count]
    lines = [bold(line) for line in wrapped(_heading(asked), "", "")]
    error = max((row.error for row in covered if row.error is not None), default=None)
    if error is not None:
        lines += wrapped(
            f"Values in [0, 1] are rounded to {asked.precision:,} steps and added modulo "
            f"{power_text(asked.q)}. The sum will be off by {error:,.4g} (root mean square, at "
            f"most), the mean by {error / asked.users:.3g}; both scale with the width of the "
            "bounds."
        )
    lines += ["", *_table(covered, asked), ""]
    if floor is not None:
        lines += [bold("The floor"), *_floor_text(floor, asked), ""]
    lines += [bold("Who proved it, and what it assumes")]
    for name in dict.fromkeys(row.analysis for row in covered):
        lines += wrapped(f"{name}: {ASSUMES[name]}", "  ", "    ")
    silent = {row.analysis for row in rows} - {row.analysis for row in covered}
    lines += _refusals([row for row in rows if row.analysis in silent])
    lines += ["", bold("What it means"), *_meaning(covered, asked)]
    if plot is not None:
        lines += ["", f"Plotted in {click.format_filename(plot)}"]
    return lines


def _heading(asked: Asked) -> str:
    who = f"Messages of each of {power_text(asked.users)} user{'s' * (asked.users > 1)}"
    if asked.honest < asked.users:
        who += f", at least {power_text(asked.honest)} of them honest,"
    if asked.sigma is not None:
        return (
            f"{who} for a secure sum modulo {power_text(asked.q)} with "
            f"{float(asked.sigma):.10g} bits of security"
        )
    assert asked.epsilon is not None
    assert asked.delta is not None
    return (
        f"{who} for a ({float(asked.epsilon):.10g}, {float(asked.delta):.3g})-differentially "
        "private sum"
    )


def _table(covered: list[Row], asked: Asked) -> list[str]:
    best = _best(covered)
    table = [["analysis", "shuffler", "shuffled + clear", "= total"]]
    table[0] += ["sigma"] if asked.sigma is not None else ["delta", "noise eps"]
    table[0] += ["bits/user"]
    for row in covered:
        count = row.count
        assert count is not None
        sent = count.total * asked.bits
        if asked.sigma is not None:
            proved = [
                "no limit"
                if math.isinf(count.sigma)
                else f"{math.floor(100 * count.sigma) / 100:,.2f}"
            ]
        else:
            assert count.delta is not None
            assert count.noise_epsilon is not None
            proved = [at_least(count.delta, 2), at_most(count.noise_epsilon, 4)]
        table.append(
            [
                row.analysis,
                row.shuffler,
                f"{count.shuffled:,} + {count.clear}",
                f"{count.total:,}",
                *proved,
                f"{sent:,}" if sent < 10**10 else f"{sent:.4g}",
            ]
        )
    lines = aligned(table)
    for i, row in enumerate(covered, 1):
        if row.count and row.count.total == best:
            lines[i] = bold("*" + lines[i][1:])
    return [*lines, "  * fewest messages"]


def _floor_text(floor: list[Floor], asked: Asked) -> list[str]:
    assert asked.sigma is not None
    counts = {found.shuffler: found.shuffled for found in floor}
    words = {"parallel": "with parallel shufflers", "single": "with a single shuffler"}
    if len(set(counts.values())) == 1:
        text = f"{floor[0].shuffled:,} shuffled message{'s' * (floor[0].shuffled > 1)}"
    else:
        parts = [f"{shuffled:,} {words[shuffler]}" for shuffler, shuffled in counts.items()]
        text = f"{' or '.join(parts)} (shuffled messages)"
    if any(found.clear_share for found in floor):
        text += ", a clear share not counted"
    return wrapped(
        f"No analysis can get below {text}. With fewer, what comes out of the shufflers fits too "
        f"few of the inputs with that sum for {float(asked.sigma):.10g} bits of security. Whether "
        "so few can be enough is not known."
    )


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


def _meaning(covered: list[Row], asked: Asked) -> list[str]:
    count = min((row.count for row in covered if row.count), key=lambda found: found.total)
    kinds, clear = {row.shuffler for row in covered}, any(row.clear_share for row in covered)
    many = f"{count.total:,} random number{'s' * (count.total != 1)}"
    noisy = "" if asked.sigma is not None else ", rounded and with a little noise,"
    if asked.users == 1:
        text = "With a single user there is nobody to hide among"
        if asked.sigma is not None:
            text += " and nothing to hide: the sum is the user's value, whatever is sent."
        else:
            text += ": the sum is the user's value, and the noise alone protects it."
        return wrapped(text)
    text = (
        f"Each user splits its value{noisy} into {many} that add up to it. "
        + ("Parallel shufflers mix one number of every user each. " if "parallel" in kinds else "")
        + ("A single shuffler mixes all numbers of all users. " if "single" in kinds else "")
        + ("A clear share goes straight to the analyzer. " if clear else "")
        + "The analyzer adds everything up. "
    )
    if asked.sigma is not None:
        text += (
            "It learns the sum and next to nothing else: with all that it sees, two inputs with "
            "the same sum can be told apart with an advantage of at most 2^-sigma. "
        )
    else:
        text += (
            "It learns a noisy sum and next to nothing about anybody: up to a factor e^epsilon "
            "and a probability delta, it would have seen the same had one user's value been "
            "another. Shuffled numbers hide a value well but not perfectly; what is missing costs "
            "the delta listed and a part of epsilon, and the noise gets the rest, the noise "
            "epsilon. "
        )
    if asked.honest < asked.users:
        text += (
            "The other users may tell the analyzer all that they know; the numbers hold as long as "
            f"at least {power_text(asked.honest)} do not. "
        )
    if len(covered) > 1:
        text += "Each row is enough by itself. Where rows tie, choose what is easier to run."
    return wrapped(text)
