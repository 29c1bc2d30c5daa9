"""Accountants: what shuffled messages guarantee, and how much randomness a guarantee needs.

Every delta is an upper bound, rounded up, and every probability of a random answer suffices for the
guarantee asked for. Arguments of a wrong kind raise TypeError, those out of range ValueError; both
name the argument. There is one module per bound; the proofs are in the documentation's page on
accountants:

- `ikos.accounting.blanket`, `ikos.accounting.bbgn19`: randomized response on k values;
  `response_delta`, `response_epsilon` and `response_gamma` use any of them.
- `ikos.accounting.binary_response`, `ikos.accounting.csuzz19`: bits, seen as one count.
- `ikos.accounting.clones_fmt21`: any locally private messages, shuffled.
- `ikos.accounting.composition`: several messages. `ikos.accounting.digits_bbgn20`: the recursive
  protocol's. `ikos.accounting.optimal_composition`: many copies of any mechanism.
- `ikos.accounting.sample_threshold`, `ikos.accounting.sparse_noise`,
  `ikos.accounting.flooding_gkmps21`: for the protocols of these names.
- `ikos.accounting.scm22`, `ikos.accounting.wlqdly21`: sampled coordinates, and sparse vectors of
  signs.
"""

from __future__ import annotations

from ikos.accounting.binary_response import binary_response_delta, binary_response_gamma
from ikos.accounting.clones_fmt21 import clones_delta, clones_local_epsilon
from ikos.accounting.composition import advanced_composition, composed_divergence
from ikos.accounting.digits_bbgn20 import DigitParameters, optimized_digits, paper_digits
from ikos.accounting.optimal_composition import optimal_delta, optimal_local_epsilon
from ikos.accounting.shuffled_response import (
    ACCOUNTANTS,
    response_accountant,
    response_delta,
    response_epsilon,
    response_gamma,
)

__all__ = [
    "ACCOUNTANTS",
    "DigitParameters",
    "advanced_composition",
    "binary_response_delta",
    "binary_response_gamma",
    "clones_delta",
    "clones_local_epsilon",
    "composed_divergence",
    "optimal_delta",
    "optimal_local_epsilon",
    "optimized_digits",
    "paper_digits",
    "response_accountant",
    "response_delta",
    "response_epsilon",
    "response_gamma",
]
