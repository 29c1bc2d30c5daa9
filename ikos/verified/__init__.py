"""Verified sums: commitments, proofs of valid values, certificates (extra ``verified``).

docs/verified-sums.md has the theorems.
"""
