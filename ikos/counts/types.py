"""What a count is, what it is asked for, and what an analysis has to provide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import gmpy2
from gmpy2 import mpfr

from ikos.counts.rounding import DOWN, UP, exact, float_down, float_up, log2, rounding
from ikos.results import Printed, at_least, at_most, hundredths
from ikos.trust import Trust

Users = tuple[int, int]
"""The fewest and the most honest users for whom a level must hold."""

MAX_SIGMA = 10**6
MAX_BITS = 10**7
MAX_USERS = 10**100
MAX_MESSAGES = 10**8
"""Levels, orders of groups (in bits), users and messages beyond these are slips.

No level within them asks for as many messages of two or more users.
"""


@dataclass(frozen=True)
class MessageCount(Printed):
    """How many messages each user sends, and what is proved for that many.

    Attributes
    ----------
    shuffled, clear : int
        Messages of each user that go through a shuffler, and that bypass them: 0 or 1.
    sigma : float
        Proved security in bits: the views of two inputs with the same sum are within total
        variation ``2**-sigma``. Rounded down; 0.0 where nothing is proved, infinite for one user.
    analysis : str or None
        The analysis that proves it, or None where nothing is proved.
    theorem : str
        The statement behind ``sigma``, with its source.
    delta : float or None
        For a private sum, the proved delta, rounded up (1.0 where nothing is proved); else None.
    noise_epsilon : float or None
        For a private sum, what is left of epsilon for the noise, rounded down; else None.
    """

    shuffled: int
    clear: int
    sigma: float
    analysis: str | None
    theorem: str
    delta: float | None = None
    noise_epsilon: float | None = None

    @property
    def total(self) -> int:
        """Messages of each user, the clear share included."""
        return self.shuffled + self.clear

    def with_corruption(self, corrupt: int, total: int | None = None) -> MessageCount:
        """Return the count to send when ``corrupt`` shufflers collude with the analyzer.

        A colluding shuffler's messages are as good as clear. What is proved is what the others'
        messages prove: given the former, the latter are uniform shares of known differences. So
        as many messages are added, unless their ``total`` was fixed beforehand.
        """
        if total is not None:
            return replace(self, shuffled=total - self.clear)
        return replace(self, shuffled=self.shuffled + corrupt)

    def __str__(self) -> str:
        clear = " + 1 clear" if self.clear else ""
        messages = f"{self.shuffled} shuffled{clear} messages"
        # whether q is prime is not known here
        by = "ghazi2020, for prime q only" if self.analysis == "ghazi2020" else f"{self.analysis}"
        if self.delta is not None and self.delta < 1:
            assert self.noise_epsilon is not None
            delta, noise = at_least(self.delta, 3), at_most(self.noise_epsilon, 6)
            return f"{messages}; delta = {delta}, noise_epsilon = {noise} (analysis: {by})"
        if self.analysis is None or self.delta is not None:
            return f"{messages}; nothing is proved"
        return f"{messages}; sigma = {hundredths(self.sigma)} bits (analysis: {by})"


@dataclass(frozen=True)
class Budget:
    """The privacy that a noisy sum is to have, and what one user can change.

    At most a share ``reserve`` of epsilon is spent on imperfect hiding in place of noise. One
    user's replacement moves the sum by ``sensitivity``, in l1 norm over all coordinates, and the
    noise has rate noise_epsilon / sensitivity in each. There are ``sums`` separate sums, each of
    ``dimension`` coordinates in one group.
    """

    epsilon: Fraction
    delta: Fraction
    reserve: Fraction
    sensitivity: int
    dimension: int = 1
    sums: int = 1

    @property
    def whole(self) -> float:
        """All of epsilon, rounded down."""
        return float_down(exact(self.epsilon, DOWN))


@dataclass(frozen=True)
class PrivacyProof:
    """A delta that is proved, rounded up, and what is left of epsilon for the noise."""

    delta: float
    noise_epsilon: float
    theorem: str


@dataclass(frozen=True)
class GivenNoise:
    """Noise that is there already: ``epsilon``-private by itself, of this mean number of jumps."""

    users: int
    epsilon: float
    jumps: mpfr


class Analysis(ABC):
    """What one analysis covers and proves; ``m`` counts shuffled messages.

    A new one needs a name, a theorem, the three abstract methods and an entry in
    ``ikos.counts.analyses.TABLE``. Privacy follows from the level by BBGN20, Lemma 5.2, unless it
    has a theorem of its own.
    """

    name: ClassVar[str]
    theorem: ClassVar[str]
    min_sigma: ClassVar[int] = 0
    """The formula holds for levels from here on."""
    private: ClassVar[bool] = False
    """Whether it has a theorem of its own on privacy."""

    @abstractmethod
    def refusal(self, n: int, m: int | None, trust: Trust) -> str | None:
        """Return why it does not cover n users (and m messages, if given), or None."""

    @abstractmethod
    def level(self, users: Users, q: int, m: int, trust: Trust) -> float:
        """Return the sigma proved for every number of users in a range, rounded down."""

    @abstractmethod
    def guess(self, n: int, q: int, sigma: float, trust: Trust) -> int:
        """Return a count near the smallest that proves sigma."""

    def covered_level(self, users: Users, q: int, m: int, trust: Trust) -> float:
        """Return the level, and 0.0 where the analysis does not cover the setting."""
        if any(self.refusal(n, m, trust) for n in users):
            return 0.0
        return self.level(users, q, m, trust)

    def level_of_sums(self, sigma: float, sums: int) -> mpfr:
        """Return the level of separate sums, each of level sigma, rounded down.

        By the union bound: the sums are run independently, so that each of ``sums`` changes of one
        coordinate moves the view by 2^-sigma at most.
        """
        apart = log2(sums, UP)
        with rounding(DOWN):
            return mpfr(sigma) - apart

    def of_sums(self, sigma: float, sums: int) -> float:
        """Return the level of separate sums together, rounded down and at least 0."""
        if sums == 1 or sigma in (0.0, float("inf")):
            return sigma
        return max(0.0, float_down(self.level_of_sums(sigma, sums)))

    def privacy(self, n: int, q: int, m: int, trust: Trust, budget: Budget) -> PrivacyProof | None:
        """Return the privacy that n users' messages and noise prove, if any."""
        sigma = self.of_sums(self.covered_level((n, n), q, m, trust), budget.sums)
        if not sigma:
            return None
        delta = lemma_5_2_delta(sigma, budget.epsilon)
        return PrivacyProof(delta, budget.whole, f"BBGN20, Lemma 5.2, with {self.theorem}")

    def privacy_guess(self, n: int, q: int, trust: Trust, budget: Budget) -> int:
        """Return a count near the smallest that is private enough."""
        sigma = min(float(lemma_5_2_sigma(budget)) + budget.sums.bit_length() - 1, MAX_SIGMA)
        return self.guess(n, q, sigma, trust)

    def remaining_privacy(
        self, q: int, m: int, trust: Trust, noise: GivenNoise, delta: Fraction
    ) -> tuple[mpfr, mpfr, str]:
        """Return the epsilon and delta that are proved for given noise, and the theorem.

        ``delta`` is wanted: where there is a choice, epsilon is the least that reaches it.
        """
        del delta  # the lemma leaves no choice
        sigma = self.covered_level((noise.users, noise.users), q, m, trust)
        found = lemma_5_2_delta(sigma, Fraction(noise.epsilon)) if sigma else 1.0
        theorem = f"BBGN20, Lemma 5.2, with {self.theorem}"
        return mpfr(noise.epsilon), exact(Fraction(found), UP), theorem


def lemma_5_2_delta(sigma: float, epsilon: Fraction) -> float:
    """Return (1 + e^epsilon) 2^-sigma, rounded up and at most 1 (BBGN20, Lemma 5.2)."""
    if sigma == float("inf"):
        return 0.0
    with rounding(UP):
        grown = 1 + gmpy2.exp(exact(epsilon, UP))
        return min(1.0, float_up(grown * gmpy2.exp2(-exact(Fraction(sigma), DOWN))))


def lemma_5_2_sigma(budget: Budget) -> mpfr:
    """Return the level that is enough for a budget by the same lemma, rounded up."""
    with rounding(UP):
        grown = 1 + gmpy2.exp(exact(budget.epsilon, UP))
        return gmpy2.log2(grown / exact(budget.delta, DOWN))
