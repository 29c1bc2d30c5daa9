"""What the privacy blanket and the recursive protocol share: digits through randomized response."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import validate_users
from ikos.accounting.digits_bbgn20 import DigitParameters
from ikos.baselines.base import NumberBaseline
from ikos.encoding import encode
from ikos.errors import Bounded, SumError
from ikos.randomized_response import debias, respond
from ikos.randomness import RandomSource
from ikos.results import Guarantee
from ikos.shuffling import View


@dataclass(frozen=True, init=False, repr=False)
class DigitProtocol(NumberBaseline):
    """A value's digits, each through randomized response and a shuffler (BBGN20, Section 4).

    Attributes
    ----------
    digits : DigitParameters
        Domains, place values and probabilities.
    shuffler : {"parallel", "single"}
        A shuffler for each digit, or one for all; digits then carry labels (Section 2.4).
    """

    digits: DigitParameters
    shuffler: str
    accountant: str

    @property
    @abstractmethod
    def _theorem(self) -> str:
        """What proves the guarantee."""

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run."""
        alone = "while no shuffler colludes with the analyzer"
        return self._guaranteed(self._theorem, self._answering, alone)

    @property
    def _gain(self) -> list[float]:
        """What a step of each digit is worth in the estimate, in units of the width."""
        return [
            place / self.digits.precision / float(1 - gamma)
            for place, gamma in zip(self.digits.places, self.digits.gammas, strict=True)
        ]

    @property
    def influence(self) -> float:
        """From the smallest to the greatest value of every digit; in the data's units."""
        return self.domain.width * sum(
            gain * (k - 1) for gain, k in zip(self._gain, self.digits.domains, strict=True)
        )

    def error(self, users: int) -> SumError:
        """Return bounds on the error of a sum over this many users."""
        users = validate_users(users, self.n)
        width = self.domain.width
        largest = 1 / self.digits.precision + sum(
            gain * (k - 1) * (1 - float(gamma) / 2)
            for gain, k, gamma in zip(
                self._gain, self.digits.domains, self.digits.gammas, strict=True
            )
        )
        return SumError.number(Bounded(width**2 * self.digits.mse(users), width * largest))

    @property
    def _labels(self) -> list[int]:
        """Where each digit's alphabet begins; all at 0 where shufflers keep them apart."""
        domains = self.digits.domains
        if self.shuffler == "parallel":
            return [0] * len(domains)
        return [sum(domains[:j]) for j in range(len(domains))]

    @property
    def _sent(self) -> tuple[int, int | float]:
        domains = self.digits.domains
        if self.shuffler == "single":
            return len(domains), (sum(domains) - 1).bit_length()
        bits = Fraction(sum((k - 1).bit_length() for k in domains), len(domains))
        return len(domains), int(bits) if bits.denominator == 1 else float(bits)

    def _digits(self, encoded: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield the digits of encoded values, the greatest place first."""
        for place in self.digits.places:
            digit, encoded = np.divmod(encoded, place)
            yield digit

    def _messages(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        encoded = encode(self.domain.unit(values), self.digits.precision, rng)
        messages = np.empty((len(self.digits.domains), values.size), dtype=np.int64)
        for j, digit in enumerate(self._digits(encoded)):
            messages[j] = respond(digit, self.digits.domains[j], self.digits.gammas[j], rng)
            messages[j] += self._labels[j]
        return messages

    @property
    def _shuffler(self) -> str:
        return self.shuffler

    def _by_digit(self, view: View) -> list[NDArray[Any]]:
        """Return each digit's answers, from 0; ValueError for what this protocol cannot send."""
        domains, labels = self.digits.domains, self._labels
        columns = list(view.columns)
        expected = 1 if self.shuffler == "single" else len(domains)
        if len(columns) != expected or view.clear is not None:
            raise ValueError(f"view must be one of {len(domains)} digits, got {view!r}")
        if self.shuffler == "single":
            column = columns[0]
            columns = [
                column[(column >= label) & (column < label + k)]
                for label, k in zip(labels, domains, strict=True)
            ]
            if sum(part.size for part in columns) != column.size:
                raise ValueError(f"view must hold messages below {sum(domains)}")
        answers = [column - label for column, label in zip(columns, labels, strict=True)]
        for answer, k in zip(answers, domains, strict=True):
            if answer.size != answers[0].size:
                raise ValueError("view must hold equally many messages for each digit")
            if answer.size and not (int(answer.min()) >= 0 and int(answer.max()) < k):
                raise ValueError(f"view must hold digits below {k}")
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

    @property
    def _particulars(self) -> str:
        gammas = ", ".join(f"{float(gamma):.4g}" for gamma in self.digits.gammas)
        return (
            f"digits of {self.digits.domains} values, answered at random with probability "
            f"({gammas}), {self.shuffler}"
        )
