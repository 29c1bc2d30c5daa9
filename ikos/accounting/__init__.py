"""Accountants: the guarantees of shuffled messages, and the randomness that a guarantee needs.

Every delta is an upper bound, rounded up, and every probability of a random answer is large enough
for the guarantee requested. Arguments of a wrong kind raise TypeError, those out of range
ValueError. There is one module per bound or paper; the proofs are in docs/accountants.md.
"""

from __future__ import annotations

from ikos.accounting.amplification import (
    amplified_delta,
    amplified_delta_floor,
    amplified_epsilon,
    amplified_local_epsilon,
)
from ikos.accounting.binary_response import binary_response_delta, binary_response_gamma
from ikos.accounting.blanket_convolution import (
    ReportLaw,
    discrete_report,
    gaussian_report,
    laplace_report,
    noise_report,
    report_delta,
    report_epsilon,
    sets_report,
)
from ikos.accounting.composition import advanced_composition, optimal_delta, optimal_local_epsilon
from ikos.accounting.digits_bbgn20 import (
    DigitParameters,
    digits_delta,
    optimized_digits,
    paper_digits,
    recursive_digits,
)
from ikos.accounting.shuffled_response import (
    ACCOUNTANTS,
    response_accountant,
    response_attained,
    response_delta,
    response_epsilon,
    response_gamma,
)
from ikos.numeric.gaussian import gaussian_delta, gaussian_mu

__all__ = [
    "ACCOUNTANTS",
    "DigitParameters",
    "ReportLaw",
    "advanced_composition",
    "amplified_delta",
    "amplified_delta_floor",
    "amplified_epsilon",
    "amplified_local_epsilon",
    "binary_response_delta",
    "binary_response_gamma",
    "digits_delta",
    "discrete_report",
    "gaussian_delta",
    "gaussian_mu",
    "gaussian_report",
    "laplace_report",
    "noise_report",
    "optimal_delta",
    "optimal_local_epsilon",
    "optimized_digits",
    "paper_digits",
    "recursive_digits",
    "report_delta",
    "report_epsilon",
    "response_accountant",
    "response_attained",
    "response_delta",
    "response_epsilon",
    "response_gamma",
    "sets_report",
]
