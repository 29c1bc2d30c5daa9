"""Numerical tools, independent of sums: directed rounding, searches, distributions, rings."""
