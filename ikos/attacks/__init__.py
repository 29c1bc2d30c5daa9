"""Attacks: what an analyzer can learn, measured, next to what the theorems say it cannot.

An attack takes what an analyzer sees and nothing else. What it gains, measured on simulated views
with a confidence interval, bounds from below what the theorems bound from above, so that the two
together tell how much of a bound is slack. Nothing in this library that protects data uses them.
"""

from ikos.attacks.tuple_counting import (
    Advantage,
    Fluctuation,
    consistent_tuples,
    fluctuation,
    measure_advantage,
    tuple_counts,
)

__all__ = [
    "Advantage",
    "Fluctuation",
    "consistent_tuples",
    "fluctuation",
    "measure_advantage",
    "tuple_counts",
]
