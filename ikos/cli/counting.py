"""What the commands that count messages share: their rows, and why an analysis says nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import in_options
from ikos.cli.options import option
from ikos.cli.output import bold, power_text, wrapped
from ikos.cli.types import Decimal

if TYPE_CHECKING:
    from ikos import MessageCount

RESERVE = Fraction(1, 100)
"""Unless given otherwise."""

ASSUMES = {
    "second_moment": (
        "this library, by the exact second moment of the share graph: no conditions."
    ),
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

SEES_ALL = "whoever controls a single shuffler sees everything"


def reserve_option() -> Callable[[Any], Any]:
    """Add the option of `RESERVE`."""
    return option(
        "--reserve",
        type=Decimal(),
        shown="0.01",
        help="Part of epsilon, 0 to 0.5, that may be spent on hiding by shuffling rather than on "
        "noise.",
    )


def listing_options(single: str, bypassing: str) -> Callable[[Any], Any]:
    """Add the options of what is listed.

    Parameters
    ----------
    single : str
        What a single shuffler is for.
    bypassing : str
        Of what a clear share is a message.
    """
    added = (
        option(
            "--analysis",
            default=None,
            shown="all",
            help="Only one analysis: best, second_moment, balle2020, ghazi2020 or ishai2006.",
        ),
        option(
            "--shuffler",
            default=None,
            shown="both",
            help=f"Only a shuffler for each message, or only a single one for {single}.",
        ),
        option(
            "--clear-share/--no-clear-share",
            default=None,
            shown="both",
            help=f"Only with, or only without, a message of {bypassing} that bypasses the "
            "shufflers.",
        ),
    )

    def add(command: Any) -> Any:
        for one in reversed(added):
            command = one(command)
        return command

    return add


@dataclass(frozen=True)
class Row:
    """One analysis in one setting: what it proves, or why it says nothing.

    Where it has a count, ``unproved`` says why that is no proof, if so.
    """

    analysis: str
    shuffler: str
    clear_share: bool
    count: MessageCount | None
    error: float | None
    reason: str | None
    unproved: str | None = None

    @property
    def fewest(self) -> int | None:
        """Messages of each user that are proved to be enough, if there are any."""
        return self.count.total if self.count and not self.unproved else None


def best(rows: Sequence[Row]) -> int | None:
    """Return the fewest messages that are proved to be enough."""
    return min((row.fewest for row in rows if row.fewest is not None), default=None)


def asked_settings(shuffler: str | None, clear_share: bool | None) -> list[tuple[str, bool]]:
    """Return the settings that are asked for; None is for all."""
    from ikos.counts import SHUFFLERS

    return [
        (kind, clear)
        for kind in ([shuffler] if shuffler else SHUFFLERS)
        for clear in ((True, False) if clear_share is None else (clear_share,))
    ]


def check_collusion(corrupt_shufflers: int, shuffler: str | None) -> None:
    """Refuse a single shuffler that colludes."""
    if corrupt_shufflers and shuffler == "single":
        raise click.UsageError(
            f"--corrupt-shufflers must be 0 with a single shuffler, got {corrupt_shufflers}: "
            f"{SEES_ALL}"
        )


def users_asked(users: int, honest: int) -> str:
    """Return whose messages are counted, as a heading begins."""
    who = "Messages of "
    who += "1 user" if users == 1 else f"each of {power_text(users)} users"
    return who + (f", at least {power_text(honest)} of them honest," if honest < users else "")


def others_honest(users: int, honest: int) -> str:
    """Return what the numbers ask of users."""
    if honest == users:
        return ""
    return (
        "The other users may tell the analyzer all that they know; the numbers hold as long as at "
        f"least {power_text(honest)} {'does' if honest == 1 else 'do'} not. "
    )


def each_enough(rows: Sequence[Row]) -> str:
    """Return which of the rows that have counts are enough."""
    sound = sum(not row.unproved for row in rows)
    if not sound:
        return "But no row is proved. "
    if sound == 1:
        return ""
    which = "Each row" if sound == len(rows) else "Each row without a !"
    return f"{which} is enough by itself. Where rows tie, choose what is easier to run."


def reason(message: str, analysis: str) -> str:
    """Return why an analysis refuses, without the setting, which stands beside it."""
    if message.startswith("analysis ") and "does not cover" in message:
        message = message.partition(": ")[2] or message
        message = message.partition("; analysis=")[0]
    return in_options(message).removeprefix(f"{analysis} ")


def uncovered(
    rows: Sequence[Row], analysis: str | None, shuffler: str | None, clear_share: bool | None
) -> str:
    """Return why there is no row at all, with the options that leave none."""
    narrowed = [] if shuffler is None else [f"--shuffler {shuffler}"]
    if clear_share is not None:
        narrowed.append("--clear-share" if clear_share else "--no-clear-share")
    where = f" with {' '.join(narrowed)}" if narrowed else ""
    option = "--analysis " if analysis else ""
    reasons = dict.fromkeys(
        f"{option}{row.analysis}{'' if str(row.reason).startswith('needs ') else ':'} {row.reason}"
        for row in rows
    )
    return f"no theorem covers this{where}: {'; '.join(reasons)}"


def assumptions(rows: Sequence[Row]) -> list[str]:
    """Return who proved what the rows say, and why others say nothing."""
    covered = dict.fromkeys(row.analysis for row in rows if row.count)
    lines = [bold("Who proved it, and what it assumes")]
    for name in covered:
        lines += wrapped(f"{name}: {ASSUMES[name]}", "  ", "    ")
    refused = [row for row in rows if row.analysis not in covered]
    if not refused:
        return lines
    lines += ["", bold("Not covered")]
    refused.sort(key=lambda row: (row.analysis, row.reason or ""))
    for (analysis, why), group in groupby(refused, lambda row: (row.analysis, row.reason)):
        lines += wrapped(f"{analysis}, {_places(list(group))}: {why}", "  ", "    ")
    return lines


def _places(rows: list[Row]) -> str:
    """Return the settings of rows, shortly."""
    texts = []
    for shuffler in dict.fromkeys(row.shuffler for row in rows):
        clear = list(dict.fromkeys(row.clear_share for row in rows if row.shuffler == shuffler))
        text = f"{shuffler} with{'' if clear[0] else 'out'} a clear share"
        texts.append(shuffler if len(clear) > 1 else text)
    return " and ".join(texts)
