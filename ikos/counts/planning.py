"""The cheapest shufflers, clear share and layout of a sum.

Settings of the same cost are ordered as in ``SETTINGS``: first the one whose proof assumes least.
The output of a single shuffler can be computed from that of parallel ones; and a count with a clear
share also holds if that share is shuffled.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Unpack

from ikos._validation import choice, flag
from ikos.counts.analyses import checked_scheme
from ikos.counts.share_graph import SHUFFLERS
from ikos.counts.types import MessageCount, Others
from ikos.counts.vectors import Layout, vector_layouts

SETTINGS = (("parallel", True), ("parallel", False), ("single", True), ("single", False))
"""Shuffler and clear share, in the order in which ties are resolved."""

MINIMIZE = ("messages", "bits")
"""The costs that can be minimized."""


@dataclass(frozen=True)
class Setting:
    """A setting of a sum with the least cost; ``layout`` has the messages and the guarantee."""

    shuffler: str
    clear_share: bool
    layout: Layout

    @property
    def count(self) -> MessageCount:
        """Messages of each sum."""
        return self.layout.count

    @property
    def messages_per_user(self) -> int:
        """Messages that each user sends."""
        return self.layout.messages_per_user

    @property
    def bits_per_user(self) -> int:
        """Bits that each user sends, before any encryption."""
        return self.layout.bits_per_user

    def __str__(self) -> str:
        clear = "a clear share" if self.clear_share else "no clear share"
        return f"{self.shuffler}, {clear}, {self.layout}"


def _covered(
    n: object, q: object, shuffler: str | None, clear_share: bool | None, choices: Others
) -> list[tuple[str, bool]]:
    """Return the settings that are covered, in the order of ``SETTINGS``; None leaves it free."""
    if shuffler is not None:
        choice("shuffler", shuffler, SHUFFLERS)
    if clear_share is not None:
        flag("clear_share", clear_share)
    covered, refusal = [], None
    for kind, clear in SETTINGS:
        if shuffler not in (None, kind) or clear_share not in (None, clear):
            continue
        if kind == "single" and shuffler is None and choices.get("corrupt_shufflers"):
            continue
        scheme = checked_scheme(n, q, shuffler=kind, clear_share=clear, **choices)
        try:
            scheme.refuse_uncovered()
            covered.append((kind, clear))
        except ValueError as error:
            refusal = error
    if refusal is not None and not covered:
        raise refusal
    return covered


def cheapest(
    n: int,
    q: int,
    sigma: float | Fraction,
    *,
    minimize: str = "messages",
    shuffler: str | None = None,
    clear_share: bool | None = None,
    dimension: int = 1,
    **choices: Unpack[Others],
) -> Setting:
    """Return the setting with the least cost per user for sigma bits of security.

    Parameters
    ----------
    n, q, sigma, **choices
        As in `ikos.message_count`: ``analysis``, ``min_honest``, ``corrupt_shufflers`` (with any,
        a single shuffler is excluded).
    minimize : {"messages", "bits"}
        Quantity to minimize. Ties are broken by the other quantity, then by the order of
        ``SETTINGS``.
    shuffler, clear_share
        Fixed at a value, or free (None).
    dimension : int
        Coordinates; the layout is chosen as well. One group mostly takes fewer messages and
        separate sums fewer bits.

    Examples
    --------
    >>> print(cheapest(1000, 2**64, 80))
    single, a clear share, one group: 22 messages of 64 bits per user (1,408 bits)
    >>> print(cheapest(10**6, 2**32, 60, minimize="bits", dimension=50, clear_share=True))
    parallel, a clear share, separate sums: 500 messages of 32 bits per user (16,000 bits)
    """
    choice("minimize", minimize, MINIMIZE)
    settings = [
        Setting(kind, clear, layout)
        for kind, clear in _covered(n, q, shuffler, clear_share, choices)
        for layout in vector_layouts(
            n, q, sigma, dimension, shuffler=kind, clear_share=clear, **choices
        )
    ]

    def cost(setting: Setting) -> tuple[int, int]:
        both = setting.messages_per_user, setting.bits_per_user
        return both if minimize == "messages" else both[::-1]

    return min(settings, key=cost)
