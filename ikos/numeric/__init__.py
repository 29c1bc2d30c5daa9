"""Numbers that know nothing of sums: directed rounding, searches, tails, distributions, rings."""
