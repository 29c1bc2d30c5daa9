"""What is said of an analysis that does not prove its numbers."""

from __future__ import annotations

__all__ = ["unproved"]

MAX_TESTED_BITS = 1 << 13
"""Whether longer moduli are prime is not tested: it would take many seconds."""


def unproved(analysis: str | None, q: int) -> str | None:
    """Return why nothing is proved by an analysis for a group of order q, or None where it is."""
    if analysis != "ghazi2020":
        return None
    import gmpy2

    if q % 2 and q.bit_length() > MAX_TESTED_BITS:
        return "proved for a prime modulus only, and one of so many bits is not tested"
    return None if gmpy2.is_prime(q) else "not proved for a composite modulus"
