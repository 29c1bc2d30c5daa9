"""The recursive protocol (BBGN20, Section 4), and its case of one message, the privacy blanket.

Balle, Bell, Gascon, Nissim, *The Privacy Blanket of the Shuffle Model*, CRYPTO 2019 (BBGN19), and
*Private Summation in the Multi-Message Shuffle Model*, CCS 2020 (BBGN20).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, choice, integer, number, round_up
from ikos.accounting.blanket import LEAST_GAMMA, TooManyTermsError
from ikos.accounting.digits_bbgn20 import (
    COMPOSITIONS,
    FREE_COMPOSITIONS,
    MAX_MESSAGES,
    DigitParameters,
    accounted_digits,
    optimized_digits,
    paper_digits,
)
from ikos.accounting.shuffled_response import (
    ACCOUNTANTS,
    THEOREMS,
    response_accountant,
    response_gamma,
)
from ikos.baselines.base import (
    Description,
    NumberBaseline,
    ProtocolTerms,
    checked,
    refuse_unproved,
)
from ikos.counts import SHUFFLERS
from ikos.data.domains import number_bounds
from ikos.data.encoding import steps_of
from ikos.primitives.randomized_response import debias, grid_up, respond
from ikos.primitives.randomness import RandomSource
from ikos.primitives.shuffling import View
from ikos.results.conditions import collusion
from ikos.results.error import Bounded, SumError

MAX_PRECISION = 1 << 20

PARAMETERS = ("optimized", "paper")  # source of the precisions and the split of the budget


@dataclass(frozen=True, init=False, repr=False)
class DigitProtocol(NumberBaseline):
    """A value's digits, each through randomized response and a shuffler."""

    digits: DigitParameters
    shuffler: str
    proved_delta: float

    @abstractmethod
    def _theorem(self) -> str:
        """Return the theorems behind the guarantee."""

    def _describe(self) -> Description:
        domains = self.digits.domains
        gammas = ", ".join(f"{float(gamma):.4g}" for gamma in self.digits.gammas)
        bits: int | float = (sum(domains) - 1).bit_length()
        if self.shuffler == "parallel":
            each = [(k - 1).bit_length() for k in domains]
            bits = each[0] if len(set(each)) == 1 else sum(each) / len(each)
        # one user's influence: from the smallest to the greatest value of every digit
        steps = sum(gain * (k - 1) for gain, k in zip(self._gain, domains, strict=True))
        return self._described(
            f"digits of {domains} values, answered at random with probability ({gammas}), "
            f"{self.shuffler}",
            self._theorem(),
            self._answering,
            collusion(0),
            influence=self.domain.width * steps,
            sent=(len(domains), bits),
            delta=self.proved_delta,
        )

    @property
    def _gain(self) -> list[float]:
        """The value of one step of each digit in the estimate, in units of the width."""
        return [
            place / self.digits.precision / float(1 - gamma)
            for place, gamma in zip(self.digits.places, self.digits.gammas, strict=True)
        ]

    def _error(self, users: int) -> SumError:
        digits, width = self.digits, self.domain.width
        rounding = self.domain.rounding(digits.precision)
        largest = (1 / digits.precision if rounding else 0.0) + sum(
            gain * (k - 1) * (1 - float(gamma) / 2)
            for gain, k, gamma in zip(self._gain, digits.domains, digits.gammas, strict=True)
        )
        return SumError.number(Bounded(width**2 * digits.mse(users, rounding), width * largest))

    @property
    def _labels(self) -> list[int]:
        """Start of each digit's alphabet; all 0 if shufflers keep digits apart."""
        domains = self.digits.domains
        if self.shuffler == "parallel":
            return [0] * len(domains)
        return [sum(domains[:j]) for j in range(len(domains))]

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        encoded = steps_of(values, self.domain, self.digits.precision, rng)
        messages = np.empty((len(self.digits.domains), values.size), dtype=np.int64)
        for j, digit in enumerate(self.digits.split(encoded)):
            messages[j] = respond(digit, self.digits.domains[j], self.digits.gammas[j], rng)
            messages[j] += self._labels[j]
        return messages

    @property
    def _shuffler(self) -> str:
        return self.shuffler

    def _by_digit(self, view: View) -> list[NDArray[Any]]:
        """Return each digit's answers, from 0; ValueError for messages of another protocol."""
        domains = self.digits.domains
        if self.shuffler == "parallel":
            return list(self._below(view, "digits", *domains))
        (column,) = self._below(view, "labelled digits", sum(domains))
        answers = [
            column[(column >= label) & (column < label + k)] - label
            for label, k in zip(self._labels, domains, strict=True)
        ]
        if len({answer.size for answer in answers}) > 1:
            raise InvalidValue("view", "must hold the same number of messages for each digit")
        return answers

    def _users_of(self, view: View) -> int:
        return int(self._by_digit(view)[0].size)

    def _totals(self, view: View, users: int) -> float:
        total = Fraction(0)
        digits = self.digits
        for answer, k, place, gamma in zip(
            self._by_digit(view), digits.domains, digits.places, digits.gammas, strict=True
        ):
            total += place * debias(int(answer.sum()), users, k, gamma)
        return self.domain.total(total / digits.precision, users)


def _accounted(
    name: str, digits: DigitParameters, terms: ProtocolTerms, composition: str
) -> tuple[DigitParameters, float]:
    """Return a caller's digits with the delta that is proved; ValueError if it is too large."""
    digits, proved = accounted_digits(digits, terms.min_honest, terms.epsilon, composition)
    refuse_unproved(name, proved, terms)
    return digits, proved


@dataclass(frozen=True, init=False, repr=False)
class PrivacyBlanket(DigitProtocol):
    """One message per user: its rounded value, or with some probability a uniform one.

    Each user rounds its value at random to {0..precision}, and sends the result through randomized
    response on these ``precision + 1`` values and a shuffler. The mean squared error grows as
    n^(1/3), the best for a single message.

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper, integers
        As for `Baseline`.
    precision : int, optional
        Steps p of the encoding; by default the number with the smallest error that a search finds,
        or for ``integers`` ``upper - lower``, if it is smaller.
    gamma : float or Fraction, optional
        Probability of a uniform answer for a given ``precision``, rounded up to a multiple of
        2^-53; by default the least found. ValueError if it proves a larger ``delta`` than that
        requested. The guarantee has the delta that is proved.

    Attributes
    ----------
    digits : DigitParameters
        The domain, and the probability of a uniform answer.
    proved_delta : float
        The delta of the guarantee: ``delta``, or what is proved for a given ``gamma``.

    Examples
    --------
    >>> protocol = PrivacyBlanket(10**4, epsilon=1, delta=1e-8)
    >>> protocol.digits.domains, round(protocol.mse, 1)
    ((7,), 221.1)
    """

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        gamma: float | Fraction | None = None,
        min_honest: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        bounds = number_bounds(lower, upper, integers)
        terms = checked(n, bounds, epsilon, delta, min_honest)
        eps, small, honest = terms._budget
        proved_delta = round_up(small)

        def digits_of(p: int) -> DigitParameters:
            least = grid_up(response_gamma(eps, small, honest, p + 1))
            if least == 1:
                raise InvalidValue("precision", f"must be smaller, got {p}: every answer is random")
            proved = response_accountant(eps, honest, p + 1, least)
            return DigitParameters(p, (p + 1,), (1,), (least,), (proved,))

        if gamma is not None:
            chance = number("gamma", gamma, low=LEAST_GAMMA, below=1, high=1 - LEAST_GAMMA)
            p = integer("precision", precision, low=1, high=MAX_PRECISION)
            digits = DigitParameters(p, (p + 1,), (1,), (chance,))
            digits, proved_delta = _accounted("gamma", digits, terms, "basic")
        elif precision is None:
            digits = optimized_digits(honest, eps, small, 1, composition="basic")
            p = bounds.precision(digits.precision, digits.precision)
            if p < digits.precision:  # fewer values need fewer random answers
                digits = digits_of(p)
        else:
            digits = digits_of(integer("precision", precision, low=1, high=MAX_PRECISION))
        self._init(terms, digits=digits, shuffler="parallel", proved_delta=proved_delta)

    def _theorem(self) -> str:
        return THEOREMS[self.digits.accountants[0]]

    @property
    def precision(self) -> int:
        """Steps of the encoding, {0..precision}."""
        return self.digits.precision

    @property
    def gamma(self) -> Fraction:
        """Probability of a uniform answer."""
        return self.digits.gammas[0]


@dataclass(frozen=True, init=False, repr=False)
class RecursiveSum(DigitProtocol):
    """Several messages per user, one for each digit of its value.

    A value is rounded at random to an integer in {0..precision}; each of its digits in a mixed
    radix goes through randomized response and a shuffler. With m messages the mean squared error
    grows as n^(3^-m).

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper, integers
        As for `Baseline`; the guarantee covers all messages together.
    messages : int, optional
        Digits, 1 to 8; by default 2, or those of ``parameters``.
    parameters : {"optimized", "paper"} or DigitParameters
        Domains and budget split from a search for the smallest error, or by BBGN20's Theorem 4.2,
        with probabilities that count every value of the domains (docs/errata.md). Or any digits,
        such as those of ``ikos.accounting.recursive_digits``: ValueError if they prove a larger
        ``delta`` than that requested. The guarantee has the delta that is proved for them.
    composition : {"numerical", "advanced", "basic"}, optional
        How the messages' guarantees are composed. By default "numerical", but "basic" for the
        paper's parameters (which allow only "advanced" instead) and where exact losses would take
        too long. Not "advanced" for given digits. The attribute states the choice.
    shuffler : {"parallel", "single"}
        One shuffler per digit, or one for all of them, with labels (Section 2.4).

    Attributes
    ----------
    digits : DigitParameters
        Domains, place values, and the probability of a uniform answer for each digit.
    proved_delta : float
        The delta of the guarantee: ``delta``, or what is proved for given digits.

    Examples
    --------
    >>> protocol = RecursiveSum(10**4, epsilon=1, delta=1e-8)
    >>> protocol.digits.domains, protocol.mse < 90
    ((3, 5), True)

    Precisions and probabilities of Algorithms 3 and 4, and what 0.2342 is sent as:

    >>> from ikos.accounting import recursive_digits
    >>> from ikos.testing import DeterministicRandom
    >>> digits = recursive_digits((10, 100), (0.01, 0.05))
    >>> protocol = RecursiveSum(2 * 10**5, epsilon=1, delta=1e-8, parameters=digits)
    >>> f"{protocol.guarantee.delta:.0e}", protocol.report(0.2342, DeterministicRandom(0)).tolist()
    ('3e-10', [2, 34])
    """

    parameters: str | DigitParameters
    composition: str

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        messages: int | None = None,
        parameters: str | DigitParameters = "optimized",
        composition: str | None = None,
        shuffler: str = "parallel",
        min_honest: int | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        terms = checked(n, number_bounds(lower, upper, integers), epsilon, delta, min_honest)
        free = parameters if isinstance(parameters, DigitParameters) else None
        m = 2 if free is None else len(free.domains)
        if messages is not None:
            m = integer("messages", messages, low=1, high=MAX_MESSAGES)
        if free is None and not isinstance(parameters, str):
            raise InvalidType(
                "parameters",
                "must be one of 'optimized', 'paper', or DigitParameters, such as "
                f"ikos.accounting.recursive_digits returns, got {type(parameters).__name__}",
            )
        if free is None:
            choice("parameters", parameters, PARAMETERS)
        elif m != len(free.domains):
            raise InvalidValue(
                "messages", f"must be the number of digits, {len(free.domains)}, got {m}"
            )
        elif max(free.gammas) == 1:
            raise InvalidValue(
                "parameters", "must have gammas below 1: at 1 all answers of a digit are random"
            )
        published = parameters == "paper"
        allowed = (
            COMPOSITIONS[1:] if published else COMPOSITIONS if free is None else FREE_COMPOSITIONS
        )
        method = "basic" if published else "numerical"
        if composition is not None:
            method = choice("composition", composition, allowed)
        choice("shuffler", shuffler, SHUFFLERS)

        def accounted(method: str) -> tuple[DigitParameters, float]:
            if free is not None:
                return _accounted("parameters", free, terms, method)
            make = paper_digits if published else optimized_digits
            need = terms.min_honest, terms.epsilon, terms.delta, m
            return make(*need, composition=method), round_up(terms.delta)

        try:
            digits, proved = accounted(method)
        except TooManyTermsError:
            if composition is not None:
                raise
            method = "basic"  # for which no number of users is too large
            digits, proved = accounted(method)
        self._init(
            terms, digits=digits, shuffler=shuffler, parameters=parameters, composition=method,
            proved_delta=proved,
        )  # fmt: skip

    def _theorem(self) -> str:
        known = self.digits.accountants
        if not known:
            return "numerical composition of the exact losses of privacy blankets (BBGN19)"
        composed = [f"{self.composition} composition"] * (len(self.digits.domains) > 1)
        return "; ".join(composed + [THEOREMS[each] for each in ACCOUNTANTS if each in known])
