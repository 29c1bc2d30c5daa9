"""The recursive protocol with any number of messages (BBGN20, Section 4, Algorithms 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ikos._validation import choice, integer
from ikos.accounting.blanket import TooManyTermsError
from ikos.accounting.digits_bbgn20 import (
    COMPOSITIONS,
    MAX_MESSAGES,
    optimized_digits,
    paper_digits,
)
from ikos.accounting.shuffled_response import ACCOUNTANTS, THEOREMS
from ikos.baselines.base import Asked
from ikos.baselines.digits import DigitProtocol
from ikos.bounds import Bounds
from ikos.counts import SHUFFLERS

PARAMETERS = ("optimized", "paper")
"""Whose precisions and split of the budget."""


@dataclass(frozen=True, init=False, repr=False)
class RecursiveSum(DigitProtocol):
    """Several messages from each user, each a digit of what the ones before it left over.

    A value is rounded at random to an integer of {0..precision}; its digits in a mixed radix go
    through randomized response each, and a shuffler each. With m messages the mean squared error
    grows as n^(3^-m).

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper
        As of `Baseline`; the guarantee is of all messages together.
    messages : int
        Digits, 1 to 8.
    parameters : {"optimized", "paper"}
        Domains and split of the budget from a search for the smallest error, or by BBGN20's
        Theorem 4.2, with probabilities that count every value of the domains (the paper's formulas
        count one too few, and are not private enough).
    composition : {"numerical", "advanced", "basic"}, optional
        How the messages' guarantees are added up. By default "numerical"; "basic" for the paper's
        parameters, which "numerical" is not for, and where the search for exact losses gives up
        because it would take too long, which happens at small budgets. The attribute says which.
    accountant : {"exact", "bennett", "hoeffding", "closed-form"}
        For each digit. "numerical" composition is exact. Where "exact" gives up otherwise,
        Bennett's inequality takes its place, and ``guarantee`` says so.
    shuffler : {"parallel", "single"}
        A shuffler for each digit, or one for all of them, with labels (BBGN20, Section 2.4).

    Attributes
    ----------
    digits : DigitParameters
        Domains, place values, and the probability of a uniform answer for each digit.
    mse : float
        By BBGN20, Lemma A.1.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = RecursiveSum(10**4, epsilon=1, delta=1e-8)
    >>> protocol.digits.domains, protocol.mse < 90
    ((3, 5), True)
    >>> result = protocol.run(np.full(10**4, 0.3), DeterministicRandom(0))
    >>> abs(result.estimate - 3000) < 6 * 90**0.5
    True
    """

    parameters: str
    composition: str

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        messages: int = 2,
        parameters: str = "optimized",
        composition: str | None = None,
        accountant: str = "exact",
        shuffler: str = "parallel",
        min_honest: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
    ) -> None:
        asked = Asked.of(n, Bounds(lower, upper), epsilon, delta, min_honest)
        given = asked.min_honest, asked.epsilon, asked.delta
        m = integer("messages", messages, low=1, high=MAX_MESSAGES)
        whose = choice("parameters", parameters, PARAMETERS)
        allowed = COMPOSITIONS if whose == "optimized" else COMPOSITIONS[1:]
        default = "numerical" if whose == "optimized" else "basic"
        adding = choice("composition", default if composition is None else composition, allowed)
        name = choice("accountant", accountant, ACCOUNTANTS)
        kind = choice("shuffler", shuffler, SHUFFLERS)
        make = optimized_digits if whose == "optimized" else paper_digits
        try:
            digits = make(*given, m, composition=adding, accountant=name)
        except TooManyTermsError:
            if composition is not None:
                raise
            adding = "basic"  # which any number of users is few enough for
            digits = make(*given, m, composition=adding, accountant=name)
        made = {"parameters": whose, "composition": adding}
        super().__init__(asked, digits=digits, shuffler=kind, accountant=name, **made)

    @property
    def _theorem(self) -> str:
        digits = self.digits
        if not digits.accountants:
            return "numerical composition of the exact losses of privacy blankets (BBGN19)"
        each = [THEOREMS[name] for name in ACCOUNTANTS if name in digits.accountants]
        composed = [f"{self.composition} composition"] if len(digits.domains) > 1 else []
        return "; ".join(composed + each)
