"""The setting with the fewest messages or bits: shufflers, clear share, layout of a vector.

Settings that cost the same are taken in the order of ``SETTINGS``, which puts first the one whose
proof asks least of whoever runs it:

- Parallel shufflers before a single one. A single shuffler's output can be computed from theirs,
  so that a count proved for parallel shufflers holds for a single one as well, and for one service
  that mixes m batches of n messages. Each batch is sorted by itself, and further messages make up
  for shufflers that collude with the analyzer; nothing makes up for a single one that does.
- A clear share before none. The count then holds also if that share is shuffled after all, and one
  message of each user, and one shuffler, need not be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ikos._validation import choice, flag, integer, number
from ikos.counts.private import MAX_PRECISION, checked_budget
from ikos.counts.secure import MAX_SIGMA, checked_trust, setting
from ikos.counts.types import SHUFFLERS, MessageCount
from ikos.counts.vectors import COMPOSED, Layout, private_vector_layouts, vector_layouts

SETTINGS = (("parallel", True), ("parallel", False), ("single", True), ("single", False))
"""Shuffler and clear share, in the order in which ties are resolved."""

MINIMIZE = ("messages", "bits")
"""What can be made small."""


@dataclass(frozen=True)
class Setting:
    """How to run a sum, chosen for what it costs.

    Attributes
    ----------
    shuffler : {"parallel", "single"}
        Shufflers.
    clear_share : bool
        Whether one share of each user bypasses them.
    layout : Layout
        What is sent and what is proved; of one sum for a scalar.
    """

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


def allowed_settings(
    shuffler: str | None, clear_share: bool | None, corrupt_shufflers: int = 0
) -> list[tuple[str, bool]]:
    """Return the settings with what is fixed, in the order of ``SETTINGS``; None leaves it free."""
    if shuffler is not None:
        choice("shuffler", shuffler, SHUFFLERS)
    if clear_share is not None:
        flag("clear_share", clear_share)
    return [
        (shuffling, clear)
        for shuffling, clear in SETTINGS
        if shuffler in (None, shuffling)
        and clear_share in (None, clear)
        and not (corrupt_shufflers and shuffling == "single")
    ]


def _best(
    layouts: Callable[[str, bool], list[Layout]], allowed: list[tuple[str, bool]], minimize: str
) -> Setting:
    """Return the first of the cheapest; of settings that none covers, raise the last refusal."""
    found: list[Setting] = []
    refusals: list[ValueError] = []
    for shuffler, clear in allowed:
        try:
            found += [Setting(shuffler, clear, layout) for layout in layouts(shuffler, clear)]
        except ValueError as refusal:  # arguments are in range: the analysis does not cover it
            refusals.append(refusal)
    if not found:
        raise refusals[-1]

    def cost(candidate: Setting) -> tuple[int, int]:
        both = candidate.messages_per_user, candidate.bits_per_user
        return both if minimize == "messages" else (both[1], both[0])

    return min(found, key=cost)


def cheapest(
    n: int,
    q: int,
    sigma: float | Fraction,
    *,
    minimize: str = "messages",
    shuffler: str | None = None,
    clear_share: bool | None = None,
    analysis: str = "best",
    dimension: int = 1,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
) -> Setting:
    """Return the setting in which sigma bits of security cost each user least.

    Parameters
    ----------
    n, q, sigma, analysis
        As in `ikos.message_count`.
    minimize : {"messages", "bits"}
        What each user sends least of. The same for one coordinate; for more, one sum over a group
        of order ``q**dimension`` mostly takes fewer messages and a sum for each coordinate fewer
        bits. Ties go to the less of the other, then in the order of ``SETTINGS``.
    shuffler, clear_share
        Fixed at a value, or free (None).
    dimension : int
        Coordinates; the layout is chosen as well.
    min_honest, corrupt_shufflers
        As in `vector_layouts`. With colluding shufflers, a single one is no choice.

    Returns
    -------
    Setting
        The choice, with the level that is proved for it.

    Raises
    ------
    ValueError
        If an argument is out of range, or the analysis covers none of the settings left.

    Examples
    --------
    >>> print(cheapest(1000, 2**64, 80))
    single, a clear share, one group: 22 messages of 64 bits per user (1,408 bits)
    >>> print(cheapest(10**6, 2**32, 60, minimize="bits", dimension=50, clear_share=True))
    parallel, a clear share, separate sums: 500 messages of 32 bits per user (16,000 bits)
    """
    choice("minimize", minimize, MINIMIZE)
    allowed = allowed_settings(shuffler, clear_share)
    n, q, analysis, *_ = setting(n, q, analysis, *allowed[0])
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    honest, corrupt = checked_trust(n, min_honest, corrupt_shufflers, shuffler)
    how: dict[str, Any] = {
        "analysis": analysis,
        "min_honest": honest,
        "corrupt_shufflers": corrupt,
    }
    integer("dimension", dimension, low=1)

    def layouts(shuffling: str, clear: bool) -> list[Layout]:
        given = {"shuffler": shuffling, "clear_share": clear, **how}
        return list(vector_layouts(n, q, wanted, dimension, **given))

    return _best(layouts, allowed_settings(shuffler, clear_share, corrupt), minimize)


def cheapest_private(
    n: int,
    q: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    minimize: str = "messages",
    shuffler: str | None = None,
    clear_share: bool | None = None,
    analysis: str = "best",
    dimension: int = 1,
    sensitivity: int | None = None,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
    reserve: float | Fraction = 0.01,
) -> Setting:
    """Return the setting in which (epsilon, delta)-differential privacy costs each user least.

    Parameters
    ----------
    n, q, epsilon, delta, precision, analysis, min_honest, reserve
        As in `ikos.private_message_count`.
    minimize, shuffler, clear_share, dimension, corrupt_shufflers
        As in `cheapest`.
    sensitivity : int, optional
        As in `private_vector_layouts`.

    Returns
    -------
    Setting
        The choice, with the delta that is proved for it and the epsilon left for the noise. Where
        a smaller ``sensitivity`` is promised, separate budgets for the coordinates are no
        choice: they would need more noise than the other layouts.

    Raises
    ------
    ValueError
        If an argument is out of range, or the analysis covers none of the settings left.

    Examples
    --------
    >>> print(cheapest_private(1000, 2**16, 1, 1e-12, 32))
    single, no clear share, one group: 7 messages of 16 bits per user (112 bits), noise scale 32
    """
    choice("minimize", minimize, MINIMIZE)
    allowed = allowed_settings(shuffler, clear_share)
    n, q, analysis, *_ = setting(n, q, analysis, *allowed[0])
    budget, failure, spare = checked_budget(epsilon, delta, reserve)
    p = integer("precision", precision, low=1, high=MAX_PRECISION)
    d = integer("dimension", dimension, low=1)
    moved = integer("sensitivity", d * p if sensitivity is None else sensitivity, low=1, high=d * p)
    honest, corrupt = checked_trust(n, min_honest, corrupt_shufflers, shuffler)
    how: dict[str, Any] = {
        "analysis": analysis,
        "min_honest": honest,
        "corrupt_shufflers": corrupt,
        "sensitivity": moved,
        "reserve": spare,
    }

    def layouts(shuffling: str, clear: bool) -> list[Layout]:
        given = {"shuffler": shuffling, "clear_share": clear, **how}
        found = private_vector_layouts(n, q, budget, failure, p, d, **given)
        return [layout for layout in found if layout.name != COMPOSED or moved == d * p]

    return _best(layouts, allowed_settings(shuffler, clear_share, corrupt), minimize)
