"""Attacks: measured lower bounds on an analyzer's advantage, next to the proved upper bounds.

An attack uses only the analyzer's view. Its advantage, measured on simulated views with a
confidence interval, bounds from below the quantity that the theorems bound from above; together
they show how loose a bound can be at most. Nothing in this library that protects data uses attacks.
"""

from ikos.attacks.tuple_counting import (
    Advantage,
    measure_advantage,
    tuple_counts,
)

__all__ = [
    "Advantage",
    "measure_advantage",
    "tuple_counts",
]
