"""Accountants: what shuffled messages guarantee, and how much randomness a guarantee needs.

Every delta is an upper bound, rounded up, and every probability of a random answer is enough for
the guarantee that it was asked for.
"""

from __future__ import annotations

from ikos.accounting.composition import advanced_composition, basic_composition
from ikos.accounting.digits_bbgn20 import DigitParameters, optimized_digits, paper_digits
from ikos.accounting.shuffled_response import (
    ACCOUNTANTS,
    response_delta,
    response_epsilon,
    response_gamma,
)

__all__ = [
    "ACCOUNTANTS",
    "DigitParameters",
    "advanced_composition",
    "basic_composition",
    "optimized_digits",
    "paper_digits",
    "response_delta",
    "response_epsilon",
    "response_gamma",
]
