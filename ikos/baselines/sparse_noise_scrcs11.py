"""Whole noise of a few random users, over secure summation (SCRCS11; GPV19).

SCRCS11 is Shi, Chan, Rieffel, Chow, Song, *Privacy-preserving aggregation of time-series data*,
NDSS 2011. GPV19 is Ghazi, Pagh, Velingker, *Scalable and differentially private distributed
aggregation in the shuffled model*, 2019, who sum securely by shuffling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import choice, round_up
from ikos.accounting.sparse_noise import divergence, least_chance, published_chance, silence
from ikos.accuracy import Noise, default_precision
from ikos.aggregation.private_sum import checked_modulus, checked_precision
from ikos.baselines.base import Asked
from ikos.baselines.secure_noise import NoiseOverSecureSum, hidden
from ikos.bounds import Bounds
from ikos.counts.rounding import rational
from ikos.noise import discrete_laplace
from ikos.randomness import RandomSource
from ikos.results import Guarantee, at_least, present

ACCOUNTANTS = ("exact", "published")
"""The divergence of the sum's law, or the probability that no one adds noise."""

HIDING_SHARE = Fraction(1, 2)
"""Largest part of delta that the number of messages is chosen to spend on imperfect hiding."""


@dataclass(frozen=True)
class SparseLaw(Noise):
    """The sum of discrete Laplace variables that each of some users adds with a probability."""

    rate: Fraction
    chance: Fraction
    users: int

    @property
    def variance(self) -> float:
        """Variance, 2 users chance alpha / (1 - alpha)^2 with alpha = exp(-rate)."""
        return self.users * float(self.chance) / (2 * math.sinh(float(self.rate) / 2) ** 2)

    def log_mgf(self, theta: float) -> mpfr:
        """Return ln E exp(theta noise), for 0 < theta < rate; the noise is symmetric."""
        s = mpfr(rational(self.rate))
        grown = 4 * gmpy2.exp(-s) * gmpy2.sinh(mpfr(theta) / 2) ** 2
        grown /= gmpy2.expm1(theta - s) * gmpy2.expm1(-theta - s)
        return self.users * gmpy2.log1p(rational(self.chance) * grown)


@dataclass(frozen=True, init=False, repr=False)
class SparseNoise(NoiseOverSecureSum):
    """A few random users add whole noise variables; all users' values are summed securely.

    Each user adds discrete Laplace noise of rate epsilon / precision with a small probability,
    independently of its value and of the others. One honest user's noise is enough for all.

    Parameters
    ----------
    n, epsilon, delta, min_honest, lower, upper
        As of `Baseline`. delta pays for both the chance of too little noise and imperfect hiding:
        messages are chosen to spend at most half of it, and noise gets all that they leave.
    precision, modulus : int, optional
        As for `ikos.PrivateSum`.
    messages : int, optional
        Messages of each user in all, the clear share included. Used even where they prove nothing;
        the guarantee then says so. By default the smallest number that proves its part of delta.
    analysis, shuffler, clear_share
        As for `ikos.SecureSum`.
    accountant : {"exact", "published"}
        How the noise's part of delta is computed: as the exact divergence of the sum's law, or as
        SCRCS11 do, as the probability that no honest user adds noise. The published one needs
        about ln(1 / delta) noisy users, the exact one a few (`ikos.accounting.sparse_noise`).

    Attributes
    ----------
    chance : Fraction
        Probability with which a user adds noise, a multiple of 2^-53.
    noise_delta : float
        The noise's part of delta, rounded up; 0.0 where the noisy sum is purely private.

    Examples
    --------
    >>> protocol = SparseNoise(10_000, epsilon=1, delta=1e-8)
    >>> published = SparseNoise(10_000, epsilon=1, delta=1e-8, accountant="published")
    >>> round(10_000 * published.chance), round(published.mse)  # noisy users, 2 / epsilon^2 each
    (19, 38)
    >>> protocol.mse < published.mse / 2
    True
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
        analysis: str = "best",
        shuffler: str = "parallel",
        clear_share: bool = True,
        accountant: str = "exact",
        lower: float = 0.0,
        upper: float = 1.0,
    ) -> None:
        asked = Asked.of(n, Bounds(lower, upper), epsilon, delta, min_honest)
        eps, allowed, honest = asked.epsilon, asked.delta, asked.min_honest
        by_law = choice("accountant", accountant, ACCOUNTANTS) == "exact"

        def needed(delta: Fraction, p: int) -> Fraction:
            if by_law:
                return least_chance(honest, delta, eps / p, p)
            return published_chance(honest, delta)

        spare = allowed * (1 - HIDING_SHARE)
        if precision is None:
            # as many users round as one noise variable comes from, by a first guess and a better
            first = default_precision(eps, math.ceil(1 / published_chance(honest, spare)))
            precision = default_precision(eps, math.ceil(1 / needed(spare, first)))
        p = checked_precision(precision)
        most = SparseLaw(eps / p, needed(spare, p), asked.n)
        q = checked_modulus(modulus, asked.n, p, most, analysis)
        hiding = allowed * HIDING_SHARE
        count, sums = hidden(asked, q, hiding, messages, analysis, shuffler, clear_share)
        assert count.delta is not None
        # a larger delta for the noise takes less noise, for which the modulus is large enough too
        chance = needed(max(spare, allowed - Fraction(count.delta)), p)
        spent = divergence(honest, chance, eps / p, p) if by_law else silence(honest, chance)
        super().__init__(
            asked, precision=p, messages=count, secure_sum=sums, chance=chance, noise_delta=spent
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run."""
        assert self.messages.delta is not None
        delta = min(1.0, round_up(Fraction(self.noise_delta) + Fraction(self.messages.delta)))
        return self._noisily(
            f"SCRCS11, noise of random users, delta {at_least(self.noise_delta, 3)}",
            delta,
            present(self.min_honest, self.n),
        )

    def _noise(self, users: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[Any]]:
        noisy = np.flatnonzero(rng.bernoullis(self.chance, users))
        return noisy, discrete_laplace(self.epsilon / self.precision, noisy.size, rng)

    def _law(self, users: int) -> SparseLaw:
        return SparseLaw(self.epsilon / self.precision, self.chance, users)
