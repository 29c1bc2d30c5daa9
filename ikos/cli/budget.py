"""Budgets: what delta is by default, and what to say of one that protects little."""

from __future__ import annotations

from fractions import Fraction

import click

__all__ = ["usual_delta", "weak"]

LARGE_EPSILON = 10


def usual_delta(delta: Fraction | None, users: int) -> Fraction:
    """Return delta, by default what Table 3 of BBGN20 takes."""
    if delta is not None:
        return delta
    if users == 1:
        raise click.UsageError("give --delta: for a single user there is no default")
    return Fraction(1, users**2)


def weak(epsilon: Fraction, delta: Fraction, users: int) -> list[str]:
    """Return warnings for a budget that a mechanism could spend on giving somebody away.

    Publishing one user's value in full, chosen at random, is (0, 1/n)-private: a delta of 1/n or
    more excludes next to nothing. At an epsilon of 10 a likelihood ratio of 22,000 is allowed.
    """
    said = []
    if delta * users >= 1:
        said.append(
            f"delta = {float(delta):.3g} is not below 1/users = {1 / users:.3g}: it would allow "
            "publishing a random user's value; take it far smaller"
        )
    if epsilon > LARGE_EPSILON:
        said.append(f"epsilon = {float(epsilon):.6g} protects next to nobody; 1 is customary")
    return said
