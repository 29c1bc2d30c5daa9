"""Figures of papers and of the documentation, for the programs of `analysis`."""
