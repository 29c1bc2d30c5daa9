"""A count, the trusted parties, the goal, and the interface of an analysis."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, TypedDict

import gmpy2
from gmpy2 import mpfr

from ikos._validation import InvalidValue, choice, flag, integer, quote
from ikos.counts.share_graph import SHUFFLERS, ShareGraph, share_graph, share_graphs
from ikos.numeric.rounding import DOWN, UP, exact, float_down, float_up, log2, rational, rounding
from ikos.numeric.search import smallest
from ikos.results.sums import at_least, at_most
from ikos.results.text import Printed, hundredths

Users = tuple[int, int]
"""The fewest and the most honest users for whom a level must hold."""

MAX_MESSAGES = 10**8
"""Larger numbers of messages or shufflers are taken for mistakes: no level needs them."""

MAX_SIGMA = 10**6
MAX_BITS = 10**7
"""Largest levels, and orders of groups in bits; larger ones are taken for mistakes."""


@dataclass(frozen=True)
class Trust:
    """The parties that a guarantee assumes to be honest.

    It holds while at least ``min_honest`` users are honest and do not drop out, and at most
    ``corrupt_shufflers`` parallel shufflers collude with the analyzer; a single one may not. With a
    ``clear_share``, the last share bypasses the shufflers; the analyzer may then know whose it is.
    """

    shuffler: str
    clear_share: bool
    min_honest: int
    corrupt_shufflers: int = 0

    def __post_init__(self) -> None:
        choice("shuffler", self.shuffler, SHUFFLERS)
        flag("clear_share", self.clear_share)
        integer("min_honest", self.min_honest, low=1)
        corrupt = integer("corrupt_shufflers", self.corrupt_shufflers, low=0, high=MAX_MESSAGES)
        if corrupt and self.single:
            raise InvalidValue(
                "corrupt_shufflers",
                f"must be 0 with a single shuffler, got {corrupt}: "
                "a party that controls it sees everything",
            )

    @classmethod
    def of(
        cls,
        n: int,
        shuffler: str = "parallel",
        clear_share: bool = True,
        min_honest: int | None = None,
        corrupt_shufflers: int = 0,
    ) -> Trust:
        """Return the trust among n users, all of them honest by default."""
        honest = n if min_honest is None else integer("min_honest", min_honest, low=1, high=n)
        return cls(shuffler, clear_share, honest, corrupt_shufflers)

    @property
    def single(self) -> bool:
        """Whether one shuffler has all shuffled messages."""
        return self.shuffler == "single"

    @property
    def graph(self) -> dict[str, Any]:
        """The arguments of counts that determine the share graph."""
        return {"shuffler": self.shuffler, "clear_share": self.clear_share}

    def share_graph(self, m: int) -> ShareGraph:
        """Return the share graph of m shuffled messages."""
        return share_graph(m, self.shuffler, self.clear_share)

    def share_graphs(self, m: int) -> list[ShareGraph]:
        """Return the graphs each of whose bounds holds for m shuffled messages."""
        return share_graphs(m, self.shuffler, self.clear_share)

    def hiding(self, total: int) -> int:
        """Return the number of a user's messages that go through honest shufflers."""
        return max(0, total - int(self.clear_share) - self.corrupt_shufflers)


@dataclass(frozen=True)
class MessageCount(Printed):
    """The number of messages per user, and its proved guarantee.

    Attributes
    ----------
    shuffled, clear : int
        Messages per user that go through a shuffler, and that bypass them: 0 or 1.
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
        For a private sum, the epsilon that remains for the noise, rounded down; else None.
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
        """Messages per user, the clear share included."""
        return self.shuffled + self.clear

    def with_corruption(self, corrupt: int, total: int | None = None) -> MessageCount:
        """Return the count to send when ``corrupt`` shufflers collude with the analyzer.

        Their messages are as good as clear, and given these the others are uniform shares of known
        differences. So a message is added for each, unless the ``total`` is fixed.
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
    """The privacy target of a noisy sum, and its sensitivity to one user.

    At most a fraction ``reserve`` of epsilon is spent on hiding instead of noise. Replacing one
    user moves the sum by ``sensitivity``, in l1 norm over all coordinates; the noise in each has
    rate noise_epsilon / sensitivity. There are ``sums`` sums, each of ``dimension`` coordinates.
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
    """A proved delta, rounded up, and the epsilon that remains for the noise, rounded down."""

    delta: float
    noise_epsilon: float
    analysis: str
    theorem: str


@dataclass(frozen=True)
class RemainingPrivacy:
    """The epsilon and delta proved for given noise, rounded up."""

    epsilon: mpfr
    delta: mpfr
    analysis: str
    theorem: str

    def preference(self, wanted: Fraction) -> tuple[bool, mpfr]:
        """Return a sort key: the least epsilon that reaches a delta first, or the least delta."""
        reached = bool(self.delta <= rational(wanted))
        return not reached, self.epsilon if reached else self.delta


@dataclass(frozen=True)
class FixedNoise:
    """Fixed noise: ``epsilon``-private, a fraction ``part`` of a variable exp(-rate |k|).

    Replacing one user moves the sum by at most ``sensitivity``.
    """

    users: int
    epsilon: float
    rate: Fraction
    part: Fraction
    sensitivity: int


class Choices(TypedDict, total=False):
    """Keywords that most functions of this package take, as `ikos.message_count` does."""

    analysis: str
    shuffler: str
    clear_share: bool


class Others(TypedDict, total=False):
    """Those of its keywords that do not determine the share graph."""

    analysis: str
    min_honest: int | None
    corrupt_shufflers: int


class TrustChoices(Choices, Others, total=False):
    """All of its keywords."""


class Uncovered(InvalidValue):
    """No theorem of an analysis covers a setting, for a ``reason``: an unmet requirement."""

    def __init__(self, analysis: Analysis, setting: str, reason: str) -> None:
        name, advice = analysis.name, (("analysis", "best", "covers this setting"),)
        what = f"{name!r} does not cover {setting}: {name} {reason}"
        super().__init__("analysis", what, advice=() if analysis.private else advice)
        self.reason = reason


class Analysis(ABC):
    """The scope and the theorems of one analysis; ``m`` counts shuffled messages.

    A new one needs a name, a theorem, the two abstract methods and an entry in
    ``ikos.counts.analyses.TABLE``. Privacy follows from the level by BBGN20, Lemma 5.2, unless the
    analysis has its own theorem.
    """

    name: ClassVar[str]
    theorem: ClassVar[str]
    min_sigma: ClassVar[int] = 0
    """The formula holds for levels from here on."""
    private: ClassVar[bool] = False
    """Whether the analysis has its own theorem on privacy."""

    @abstractmethod
    def refusal(self, scheme: Scheme, m: int | None = None) -> str | None:
        """Return the unmet requirement for a scheme (and m messages, if given), or None."""

    @abstractmethod
    def level(self, scheme: Scheme, m: int) -> float:
        """Return the sigma proved for every number of honest users, rounded down."""

    def guess(self, scheme: Scheme, goal: float | Budget) -> int:
        """Return a count at which to begin the search for the smallest that proves a goal."""
        del scheme, goal
        return 1

    def level_of_sums(self, sigma: float, sums: int) -> mpfr:
        """Return the level of separate sums, each of level sigma, rounded down: the union bound."""
        apart = log2(sums, UP)
        with rounding(DOWN):
            return mpfr(sigma) - apart

    def of_sums(self, sigma: float, sums: int) -> float:
        """Return the level of separate sums together, rounded down and at least 0."""
        if sums == 1 or sigma in (0.0, math.inf):
            return sigma
        return max(0.0, float_down(self.level_of_sums(sigma, sums)))

    def privacy(self, scheme: Scheme, m: int, budget: Budget) -> PrivacyProof | None:
        """Return the privacy proved for the messages and noise of the fewest users, if any."""
        sigma = replace(scheme, n=scheme.trust.min_honest).level(m, budget.sums)
        if not sigma:
            return None
        delta = lemma_5_2_delta(sigma, budget.epsilon)
        return PrivacyProof(delta, budget.whole, self.name, self._by_lemma)

    def enough(self, scheme: Scheme, m: int, budget: Budget) -> bool:
        """Whether the messages are proved to keep to the budget."""
        proof = self.privacy(scheme, m, budget)
        return proof is not None and proof.delta <= budget.delta

    @property
    def level_analysis(self) -> Analysis:
        """The analysis whose levels it has."""
        return self

    @property
    def _by_lemma(self) -> str:
        return f"BBGN20, Lemma 5.2, with {self.theorem}"

    def remaining_privacy(
        self, scheme: Scheme, m: int, noise: FixedNoise, delta: Fraction
    ) -> RemainingPrivacy:
        """Return the proved privacy for given noise.

        ``delta`` is the target: where there is a choice, epsilon is the least that reaches it.
        """
        del delta  # the lemma leaves no choice
        users = replace(scheme.trust, min_honest=noise.users)
        sigma = replace(scheme, n=noise.users, trust=users).level(m)
        reached = lemma_5_2_delta(sigma, Fraction(noise.epsilon)) if sigma else 1.0
        epsilon, delta = (exact(Fraction(value), UP) for value in (noise.epsilon, reached))
        return RemainingPrivacy(epsilon, delta, self.name, self._by_lemma)


@dataclass(frozen=True)
class Scheme:
    """The parameters of a proof: at most ``n`` honest users, group, trust and analysis."""

    n: int
    q: int
    trust: Trust
    analysis: Analysis

    @property
    def users(self) -> Users:
        """The fewest and the most honest users."""
        return self.trust.min_honest, self.n

    def with_honest(self, honest: int) -> Scheme:
        """Return the scheme in which at least this many users are honest."""
        return replace(self, trust=replace(self.trust, min_honest=honest))

    def refuse_uncovered(self, m: int | None = None) -> None:
        """Refuse a setting that the analysis does not cover."""
        reason = self.analysis.refusal(self, m)
        if reason is None:
            return
        clear = "a clear share" if self.trust.clear_share else "no clear share"
        setting = f"n = {quote(self.trust.min_honest)} with {self.trust.shuffler} shuffling"
        raise Uncovered(self.analysis, f"{setting} and {clear}", reason)

    def level(self, m: int, sums: int = 1) -> float:
        """Return the level of m shuffled messages per sum, and 0.0 where none is proved."""
        if self.analysis.refusal(self, m):
            return 0.0
        return self.analysis.of_sums(self.analysis.level(self, m), sums)

    def proved(self, m: int, budget: Budget | None = None) -> MessageCount:
        """Return m shuffled messages with their proved guarantee, if any.

        The delta for the fewest users holds for more, whose messages the adversary may know.
        ``sigma``, for inputs that may differ everywhere, is for every number of users.
        """
        clear, sigma, levels = (
            int(self.trust.clear_share),
            self.level(m),
            self.analysis.level_analysis,
        )
        if sigma:
            count = MessageCount(m, clear, sigma, levels.name, levels.theorem)
        else:
            count = MessageCount(m, clear, 0.0, None, "nothing is proved for this count")
        if budget is None:
            return count
        proof = self.analysis.privacy(self, m, budget)
        if proof is None:
            return replace(count, delta=1.0, noise_epsilon=budget.whole)
        return replace(
            count,
            analysis=proof.analysis,
            theorem=proof.theorem,
            delta=proof.delta,
            noise_epsilon=proof.noise_epsilon,
        )

    def least(self, sigma: Fraction, sums: int = 1) -> MessageCount:
        """Return the fewest messages per sum such that all sums together have this level."""
        self.refuse_uncovered()
        if sigma < self.analysis.min_sigma:
            reason = f"needs sigma >= {self.analysis.min_sigma}"
            raise Uncovered(self.analysis, f"sigma = {quote(sigma)}", reason)
        guess = self.analysis.guess(self, min(float(sigma) + math.log2(sums), MAX_SIGMA))
        return self.proved(
            smallest(lambda m: self.level(m, sums) >= sigma, guess, most=MAX_MESSAGES)
        )

    def least_private(self, budget: Budget) -> MessageCount:
        """Return the fewest messages per sum that are proved to keep to a budget."""
        self.refuse_uncovered()
        if not self.analysis.private and lemma_5_2_sigma(budget) > MAX_SIGMA:
            raise InvalidValue(
                "epsilon",
                f"must not ask for more than {MAX_SIGMA} bits of security with "
                f"analysis={self.analysis.name!r}, got {quote(budget.epsilon)}",
                advice=[("analysis", "best", "has no such limit")],
            )

        def enough(m: int) -> bool:
            return m >= 1 and self.analysis.enough(self, m, budget)

        return self.proved(
            smallest(enough, self.analysis.guess(self, budget), most=MAX_MESSAGES), budget
        )


def lemma_5_2_delta(sigma: float, epsilon: Fraction) -> float:
    """Return (1 + e^epsilon) 2^-sigma, rounded up and at most 1 (BBGN20, Lemma 5.2)."""
    if sigma == math.inf:
        return 0.0
    with rounding(UP):
        grown = 1 + gmpy2.exp(exact(epsilon, UP))
        return min(1.0, float_up(grown * gmpy2.exp2(-exact(Fraction(sigma), DOWN))))


def lemma_5_2_sigma(budget: Budget) -> mpfr:
    """Return the level that is enough for a budget by the same lemma, rounded up."""
    with rounding(UP):
        grown = 1 + gmpy2.exp(exact(budget.epsilon, UP))
        return gmpy2.log2(grown / exact(budget.delta, DOWN))
