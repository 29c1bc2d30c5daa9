"""The bounds of P[C = c] beside the exact law and beside samples, with a verdict."""

from __future__ import annotations

from dataclasses import dataclass

from ikos.counts.share_graph import ShareGraph
from ikos.graphs.component_law import (
    Enclosure,
)
from ikos.graphs.rare_events import PlantedTally
from ikos.graphs.sampling import Tally
from ikos.results import Interval

__all__ = ["FALSE_ALARM", "ComponentCheck", "ComponentRow", "check_components"]

FALSE_ALARM = 1e-9
"""Samples are said to contradict the exact law where they would so seldom be as far from it."""

MAX_ROWS = 64


@dataclass(frozen=True)
class ComponentRow:
    """What is known of P[C = c] for one c.

    Attributes
    ----------
    c : int
        Components.
    exact : Enclosure or None
        The exact law; None for more than 2048 users.
    lemma : float or None
        Lemma C.5 of BBGN20, where it is stated.
    bound : float or None
        `parts_bound`, where two or more messages hide.
    seen : int
        Sampled graphs with c components.
    sampled : Interval
        What they say of P[C = c].
    planted : Interval or None
        What importance sampling says of it, where it was asked.
    """

    c: int
    exact: Enclosure | None
    lemma: float | None
    bound: float | None
    seen: int
    sampled: Interval
    planted: Interval | None


@dataclass(frozen=True)
class ComponentCheck:
    """The exact law, the bounds and samples of the number of components, side by side.

    Attributes
    ----------
    n : int
        Users.
    graph : ShareGraph
        The model: shuffled messages m, shuffler, clear share.
    q : int or None
        Order of the group, if moments were asked for.
    confidence : float
        Of the intervals, each on its own.
    rows : tuple of ComponentRow
        For c = 1, 2, ...
    tally : Tally or None
        The sampled graphs; None if none was drawn.
    planted : tuple of PlantedTally
        The importance samples, for 2, 3, ... components and more.
    fit : float or None
        An upper bound of the p-value of the sampled counts under the exact law (or, beyond its
        reach, None).
    planted_fit : float or None
        The same for the importance samples: the smallest of theirs, times their number.
    excess, excess_bound : float or None
        E[q^C]/q - 1, rounded up, and Lemma C.5's bound of it where it is stated.
    """

    n: int
    graph: ShareGraph
    q: int | None
    confidence: float
    rows: tuple[ComponentRow, ...]
    tally: Tally | None
    planted: tuple[PlantedTally, ...]
    fit: float | None
    planted_fit: float | None
    excess: float | None
    excess_bound: float | None

    @property
    def bounded(self) -> bool | None:
        """Whether the exact law is below every bound, by enclosures; None if it is not known."""
