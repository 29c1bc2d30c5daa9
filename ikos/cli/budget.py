"""Budgets: what delta is by default."""

from __future__ import annotations

from fractions import Fraction

import click


def usual_delta(delta: Fraction | None, users: int) -> Fraction:
    """Return delta, by default what Table 3 of BBGN20 takes."""
    if delta is not None:
        return delta
    if users == 1:
        raise click.UsageError("give --delta: for a single user there is no default")
    return Fraction(1, users**2)
