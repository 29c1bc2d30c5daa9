"""Noise of one user or of a few, over secure summation (BBGN20, Section 5.2; SCRCS11; GPV19)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import choice, flag, floating, quote, round_up
from ikos.accounting.sparse_noise import divergence, least_chance, published_chance, silence
from ikos.baselines.base import (
    Description,
    NumberBaseline,
    ProtocolTerms,
    checked,
    noisy_error,
)
from ikos.counts import MessageCount
from ikos.counts.types import Budget, lemma_5_2_delta, lemma_5_2_sigma
from ikos.data.domains import number_bounds
from ikos.data.encoding import decode, steps_of
from ikos.data.reading import NoiseShares, Participation
from ikos.numeric.distributions import Distribution, PolyaDifference, default_precision
from ikos.numeric.rounding import float_up, rational
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.samplers import discrete_laplace
from ikos.primitives.sharing import split
from ikos.primitives.shuffling import View
from ikos.results.conditions import Condition, Kind, alone, collusion, present
from ikos.results.error import SumError
from ikos.results.text import at_least
from ikos.sums.private import checked_modulus, checked_precision
from ikos.transports import Shares, Shuffled

ACCOUNTANTS = ("exact", "published")  # the divergence, or P[no one adds noise]
HIDING_SHARE = Fraction(1, 2)  # largest fraction of delta that messages are chosen to spend


def hiding_shares(
    terms: ProtocolTerms, recipe: Shuffled, q: int, delta: Fraction
) -> tuple[Shares, MessageCount]:
    """Return shares that hide all but the sum, for delta, and their count, which proves one.

    By BBGN20, Lemma 5.2: if the sum of min_honest users is (epsilon, d)-private and their views of
    equal sums are within total variation 2^-sigma, then the view is (epsilon, d + (1 + e^epsilon)
    2^-sigma)-private. Messages of further honest users are attributed to the adversary. A requested
    number of messages may prove nothing: a delta of 1.0.
    """
    budget = Budget(terms.epsilon, delta, Fraction(0), 1)
    honest = Participation(terms.min_honest, terms.min_honest)
    sigma = Fraction(float_up(lemma_5_2_sigma(budget)))
    shares = recipe.secure(honest, None, q, None, sigma)
    hidden, theorem = 1.0, shares.theorem
    if shares.sigma:
        hidden = lemma_5_2_delta(shares.sigma, terms.epsilon)
        theorem = f"BBGN20, Lemma 5.2, with {theorem}"
    count = replace(shares.messages, theorem=theorem, delta=hidden, noise_epsilon=budget.whole)
    return shares, count


@dataclass(frozen=True, init=False, repr=False)
class NoiseOverSecureSum(NumberBaseline):
    """Values are rounded at random to {0..precision}, some users add noise, and all are shared."""

    precision: int
    messages: MessageCount
    shares: Shares

    def _shares_described(self, theorem: str, delta: float, *conditions: Condition) -> Description:
        """Return a description with a proved delta; if nothing is proved, without conditions."""
        shufflers = collusion(0)
        if self.shares.trust.single:
            shufflers = alone(self.shares.trust.clear_share)
        q, steps = self.modulus, floating(Fraction(self.modulus - 1, self.precision))
        description = self._described(
            f"{self.domain}, precision={self.precision}, q={quote(q)}, {self.messages.total} "
            "messages of each user",
            f"{theorem}; {self.messages.theorem}",
            *conditions,
            shufflers,
            # any of the q points of the window that sums are decoded to, as for `ikos.PrivateSum`
            influence=self.domain.width * steps,
            sent=(self.messages.total, self.shares.group.bits),
            random="shares",
            delta=delta,
        )
        if delta < 1:
            return description
        return replace(description, guarantee=replace(description.guarantee, conditions=()))

    @abstractmethod
    def _noise(self, users: int, rng: RandomSource) -> NoiseShares:
        """Return the users, of this many, who add noise, and their noise."""

    @abstractmethod
    def _law(self, users: int) -> Distribution:
        """Return the distribution of the sum of this many users' noise, in steps."""

    @property
    def modulus(self) -> int:
        """Order of the group."""
        return self.shares.q

    def _error(self, users: int) -> SumError:
        law = self._law(users)
        return noisy_error(self.domain, law, self.precision, users, self.modulus)

    def _messages(
        self, values: NDArray[np.float64], rng: RandomSource, *, noisy: bool = True
    ) -> NDArray[Any]:
        """Return the shares of rounded values, with noise."""
        noise, group = self._noise(values.size if noisy else 0, rng), self.shares.group
        elements = steps_of(values, self.domain, self.precision, rng).astype(group.dtype)
        group.add(elements, *noise)
        return split(elements, group, self.messages.total, rng)

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Pass shares through the shufflers, as `ikos.SecureSum.shuffle` does."""
        return self.shares.shuffle(messages, secure(rng), order, self._participation)

    def _users_of(self, view: View) -> int:
        return self.shares.totals(view).users

    def _totals(self, view: View, users: int) -> float:
        (z,) = self.shares.totals(view).sums
        steps = decode(z, users, self.precision, self.modulus)
        return self.domain.total(Fraction(steps, self.precision), users)


def _hiding_delta(count: MessageCount) -> float:
    """Return what imperfect hiding adds to delta."""
    return 1.0 if count.delta is None else count.delta


@dataclass(frozen=True, init=False, repr=False)
class DesignatedNoise(NoiseOverSecureSum):
    """One designated user adds all of the noise; all users' values are summed securely.

    The error is that of the central model. The price is trust in one user: **if the designated user
    is dishonest, absent, or reveals its noise to the analyzer, no one is protected.** Nor is anyone
    protected from the designated user, who can subtract its noise from the result.
    `ikos.PrivateSum` has the same error without this trust.

    Parameters
    ----------
    n, epsilon, delta, lower, upper, integers
        As for `Baseline`; the first user is the designated one. All of epsilon is spent on noise,
        and all of delta on imperfect hiding.
    precision, modulus, shuffler, clear_share
        As in `ikos.PrivateSum`.
    messages : int, optional
        Total messages per user, the clear share included. Used even if they prove nothing; the
        guarantee then says so. By default the smallest number that proves delta.

    Examples
    --------
    >>> protocol = DesignatedNoise(1000, epsilon=1, delta=1e-6)
    >>> 2.0 < protocol.mse < 2.05, protocol.guarantee.delta <= 1e-6
    (True, True)
    """

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        modulus: int | None = None,
        messages: int | None = None,
        shuffler: str = "parallel",
        clear_share: bool = True,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        bounds = number_bounds(lower, upper, integers)
        terms = checked(n, bounds, epsilon, delta)
        if precision is None:
            precision = bounds.precision(default_precision(terms.epsilon, terms.n))
        p = checked_precision(precision)
        noise = PolyaDifference(terms.epsilon / p, Fraction(1))
        recipe = Shuffled(shuffler, clear_share, messages=messages)
        q = checked_modulus(modulus, terms.n, p, noise, recipe.order)
        shares, count = hiding_shares(terms, recipe, q, terms.delta)
        self._init(terms, precision=p, shares=shares, messages=count)

    def _describe(self) -> Description:
        return self._shares_described(
            "discrete Laplace mechanism",
            _hiding_delta(self.messages),
            Condition(
                Kind.USERS,
                "ONLY while the designated user, the first, is honest and present and does not "
                "collude with the analyzer: without its noise, or knowing it, anyone has the exact "
                "sum",
            ),
            Condition(Kind.SCOPE, "NOT from the designated user, who knows the noise"),
            Condition(Kind.USERS, f"while all {self.n:,} users are honest and present"),
        )

    def report(
        self, x: float, rng: RandomSource | None = None, *, designated: bool = False
    ) -> NDArray[Any]:
        """Return one user's shares; exactly one must be ``designated``, or no one is protected."""
        noisy = flag("designated", designated)
        return self._messages(self.domain.value(x), secure(rng), noisy=noisy)[:, 0].copy()

    def _noise(self, users: int, rng: RandomSource) -> NoiseShares:
        first = np.arange(min(users, 1))
        return first, discrete_laplace(self.epsilon / self.precision, first.size, rng)

    def _law(self, users: int) -> PolyaDifference:
        del users
        return PolyaDifference(self.epsilon / self.precision, Fraction(1))


@dataclass(frozen=True)
class SparseLaw(Distribution):
    """The sum of discrete Laplace variables that each of some users adds with a probability."""

    rate: Fraction
    chance: Fraction
    users: int

    @property
    def variance(self) -> float:
        """Variance, 2 users chance alpha / (1 - alpha)^2 with alpha = exp(-rate)."""
        return self.users * float(self.chance) / (2 * math.sinh(float(self.rate) / 2) ** 2)

    def _log_mgf(self, theta: float) -> mpfr:
        """Return ln E exp(theta noise), for 0 < theta < rate; the noise is symmetric."""
        s = mpfr(rational(self.rate))
        grown = 4 * gmpy2.exp(-s) * gmpy2.sinh(mpfr(theta) / 2) ** 2
        grown /= gmpy2.expm1(theta - s) * gmpy2.expm1(-theta - s)
        return self.users * gmpy2.log1p(rational(self.chance) * grown)


@dataclass(frozen=True, init=False, repr=False)
class SparseNoise(NoiseOverSecureSum):
    """A few random users add whole noise variables; all users' values are summed securely.

    Each user adds discrete Laplace noise of rate epsilon / precision with a small probability,
    independently of its value and of the other users. One honest user's noise suffices for all.

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper, integers
        As for `Baseline`. delta pays for both the probability of too little noise and imperfect
        hiding: messages are chosen to spend at most half of it, and the rest is for the noise.
    precision, modulus, messages, shuffler, clear_share
        As for `DesignatedNoise`; by default the number of messages proves its part of delta.
    accountant : {"exact", "published"}
        How the noise's part of delta is computed: as the exact divergence of the sum, or as in
        SCRCS11, as the probability that no honest user adds noise, which takes more noise.

    Attributes
    ----------
    chance : Fraction
        Probability with which a user adds noise, a multiple of 2^-53.
    noise_delta : float
        The noise's part of delta, rounded up; 0.0 if the noisy sum has pure differential privacy.

    Examples
    --------
    >>> exact = SparseNoise(10_000, epsilon=1, delta=1e-8)
    >>> published = SparseNoise(10_000, epsilon=1, delta=1e-8, accountant="published")
    >>> round(10_000 * published.chance), exact.mse < published.mse / 2
    (19, True)
    """

    chance: Fraction
    noise_delta: float

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        min_honest: int | None = None,
        precision: int | None = None,
        modulus: int | None = None,
        messages: int | None = None,
        shuffler: str = "parallel",
        clear_share: bool = True,
        accountant: str = "exact",
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        bounds = number_bounds(lower, upper, integers)
        terms = checked(n, bounds, epsilon, delta, min_honest)
        eps, allowed, honest = terms._budget
        exact = choice("accountant", accountant, ACCOUNTANTS) == "exact"

        def needed(delta: Fraction, p: int) -> Fraction:
            if exact:
                return least_chance(honest, delta, eps / p, p)
            return published_chance(honest, delta)

        reserve = allowed * (1 - HIDING_SHARE)
        if precision is None:
            # rounding users per noise variable, by a first guess and a better one
            first = default_precision(eps, math.ceil(1 / published_chance(honest, reserve)))
            better = default_precision(eps, math.ceil(1 / needed(reserve, first)))
            precision = bounds.precision(better)
        p = checked_precision(precision)
        most = SparseLaw(eps / p, needed(reserve, p), terms.n)
        recipe = Shuffled(shuffler, clear_share, messages=messages)
        q = checked_modulus(modulus, terms.n, p, most, recipe.order)
        shares, count = hiding_shares(terms, recipe, q, allowed * HIDING_SHARE)
        # a larger delta for the noise takes less noise, for which the modulus also suffices
        chance = needed(max(reserve, allowed - Fraction(_hiding_delta(count))), p)
        spent = divergence(honest, chance, eps / p, p) if exact else silence(honest, chance)
        self._init(
            terms, precision=p, shares=shares, messages=count, chance=chance,
            noise_delta=spent,
        )  # fmt: skip

    def _describe(self) -> Description:
        delta = Fraction(self.noise_delta) + Fraction(_hiding_delta(self.messages))
        return self._shares_described(
            f"SCRCS11, noise of random users, delta {at_least(self.noise_delta, 3)}",
            min(1.0, round_up(delta)),
            present(self.min_honest, self.n),
        )

    def _noise(self, users: int, rng: RandomSource) -> NoiseShares:
        noisy = np.flatnonzero(rng.bernoullis(self.chance, users))
        return noisy, discrete_laplace(self.epsilon / self.precision, noisy.size, rng)

    def _law(self, users: int) -> SparseLaw:
        return SparseLaw(self.epsilon / self.precision, self.chance, users)
