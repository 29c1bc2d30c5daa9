"""Attacks: measurements of what an analyzer can learn, next to what the theorems exclude.

An attack takes only what an analyzer sees. Its gain, measured on simulated views with a confidence
interval, bounds from below what the theorems bound from above; together they show how much of a
bound is slack. Nothing in this library that protects data uses attacks.
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
