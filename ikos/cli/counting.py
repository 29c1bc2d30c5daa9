"""What the commands that count messages share: their rows, and why an analysis says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import click

from ikos.cli.errors import in_options
from ikos.cli.output import bold, wrapped

if TYPE_CHECKING:
    from ikos import MessageCount

__all__ = [
    "ASSUMES",
    "SEES_ALL",
    "Row",
    "asked_settings",
    "assumptions",
    "best",
    "check_collusion",
    "reason",
    "uncovered",
]

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

SEES_ALL = "whoever controls a single shuffler sees everything"


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
