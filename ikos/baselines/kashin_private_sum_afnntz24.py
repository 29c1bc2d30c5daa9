"""Vectors of bounded norm: a private secure sum of each of their coefficients.

After AFNNTZ24, see `ikos.baselines.coefficients_afnntz24`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, quote, round_down, round_up, validate_users
from ikos.accounting.flooding_gkmps21 import rate_down
from ikos.accounting.optimal_composition import optimal_delta, optimal_local_epsilon
from ikos.accuracy import NoiseLaw, default_modulus
from ikos.aggregation.calibration import reports
from ikos.baselines.coefficients_afnntz24 import CoefficientSums, framed, noise_sums
from ikos.baselines.kashin import KASHIN
from ikos.counts import MessageCount, least, proved
from ikos.counts.private import lemma_5_2
from ikos.counts.rounding import UP, exact, float_up, rounding
from ikos.counts.secure import BEST, smallest
from ikos.counts.vectors import level_of_sums
from ikos.domains import Ball
from ikos.encoding import decode, encode
from ikos.errors import SumError
from ikos.modular import Zq
from ikos.noise import polya_population
from ikos.randomness import RandomSource
from ikos.results import Guarantee, present
from ikos.sharing import split
from ikos.shuffling import View

SECRECY_SHARE = Fraction(1, 100)
"""The part of delta for what shares of secure sums give away."""


@dataclass(frozen=True, init=False, repr=False)
class KashinPrivateSum(CoefficientSums):
    """Vectors of bounded norm by a private secure sum of each coefficient.

    As `KashinCorrelatedNoise`, but every coefficient goes through this library's secure sum with
    discrete Laplace noise: what a user of this library would do. The D noisy sums are accounted for
    together, as D purely private mechanisms at their exact composition.

    Parameters
    ----------
    n, domain, epsilon, delta, min_honest, releases, seed, bound
        As of `KashinCorrelatedNoise`.
    precision : int, optional
        Steps of the encoding. By default the smallest at which rounding adds at most a hundredth
        to the variance of the noise: the size of messages alone grows with it, and slowly.

    Attributes
    ----------
    messages : MessageCount
        Of each coefficient's sum.
    modulus : int
        Order of its group.
    rate : Fraction
        Of the discrete Laplace noise in each coefficient, in steps.
    sigma : float
        Security of all secure sums together, in bits.

    Warns
    -----
    RuntimeWarning
        As of `KashinCorrelatedNoise`: a vector without even coefficients is protected like any
        other, but its part of the estimate is biased.

    Notes
    -----
    By BBGN20, Lemma 5.2, the views are (epsilon, delta)-private: noisy sums take 99 % of delta,
    and (1 + e^epsilon) 2^-sigma the rest, so much for each of several releases: see
    `ikos.aggregation.calibration`. Each row of messages has a shuffler of its own. `run` makes the
    shares if 2 10^6 or fewer are needed, and otherwise adds up what they share: shares add up to
    it.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> from ikos.vectors import Ball
    >>> protocol = KashinPrivateSum(1000, Ball(8), 1, 1e-6)
    >>> protocol.coefficients, protocol.messages.total
    (16, 10)
    >>> result = protocol.run(np.full((1000, 8), 0.3), DeterministicRandom(0))
    >>> bool(np.linalg.norm(result.estimate - 300) < 3 * protocol.mse**0.5)
    True
    """

    modulus: int
    rate: Fraction
    messages: MessageCount
    sigma: float

    def __init__(
        self,
        n: int,
        domain: Ball,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        min_honest: int | None = None,
        releases: int = 1,
        seed: int = 0,
        bound: float = KASHIN,
    ) -> None:
        asked, frame, times = framed(n, domain, epsilon, delta, min_honest, releases, seed, bound)
        eps, allowed, honest = asked.budget
        copies = times * frame.rows
        for_noise = round_down(allowed * (1 - SECRECY_SHARE))
        local = optimal_local_epsilon(round_down(eps), for_noise, copies)
        if precision is None:
            # rounding users / 4 at most a hundredth of about 2 / rate^2
            p = max(1, math.ceil(local * math.sqrt(12.5 * honest)))
        else:
            p = integer("precision", precision, low=1, high=1 << 20)
        rate = rate_down(Fraction(local) / p)
        q = default_modulus(asked.n, p, NoiseLaw(rate, Fraction(asked.n, honest)))
        with rounding(UP):
            spare = exact(allowed * SECRECY_SHARE / times, UP)
            wanted = float_up(gmpy2.log2((1 + gmpy2.exp(exact(eps, UP))) / spare)) * (1 + 1e-14)
        # as for all coalitions: honest users' shares hide, whatever else is sent
        count, sigma = _separate(honest, q, wanted, frame.rows)
        # Lemma 5.2 with the level of all sums; a single honest user's values are the sums
        revealed = 0.0
        if not math.isinf(sigma):
            one = lemma_5_2(replace(count, sigma=sigma), eps).delta
            assert one is not None
            revealed = times * one
        noisy = optimal_delta(round_down(eps), copies, round_up(rate * p))
        proved_delta = (noisy + revealed) * (1 + 1e-15)
        if proved_delta > allowed:
            raise ValueError(f"delta: only {proved_delta!r} is proved, got {delta!r}")
        super().__init__(
            asked,
            frame=frame,
            releases=times,
            precision=p,
            proved_delta=proved_delta,
            modulus=q,
            rate=rate,
            messages=count,
            sigma=sigma,
        )

    @property
    def _particulars(self) -> str:
        return (
            f"{self.domain}, {self.coefficients} coefficients, precision={self.precision}, "
            f"q={quote(self.modulus)}, {self.messages.total} messages of each"
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user, for one run or all ``releases`` of them together."""
        return self._guaranteed(
            f"discrete Laplace mechanism; KOV15, Theorem 3.3, {self.coefficients:,} coefficients; "
            f"BBGN20, Lemma 5.2, with {self.messages.theorem}",
            present(self.min_honest, self.n),
            "while no shuffler colludes with the analyzer",
            random="noise and shares",
            reports=reports(self.releases),
        )

    @property
    def group(self) -> Zq:
        """The group of each coefficient's sum."""
        return Zq(self.modulus)

    @property
    def influence(self) -> float:
        """What moves every sum from one end of the group to the other, at most."""
        return math.sqrt(self.coefficients) * 2 * self.half * (self.modulus - 1) / self.precision

    def error(self, users: int) -> SumError:
        """Return what is known of noise, rounding and wrapping around together."""
        users = validate_users(users, self.n)
        law = NoiseLaw(self.rate, Fraction(users, self.min_honest))
        chance = law.tail_bound(Fraction(self.modulus - users * self.precision, 2))
        step = 2 * self.half / self.precision
        # an estimate of a coefficient that wrapped is wrong by at most q steps
        wrapped = (self.modulus * step) ** 2 * chance
        return self._error(law, users, 1.0, min(1.0, self.coefficients * chance), wrapped)

    @property
    def _sent(self) -> tuple[int, int]:
        return self.coefficients * self.messages.total, self.group.bits

    # Share i of coefficient j is row i D + j.

    def _encoded(self, units: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int64]:
        return encode(units.reshape(-1), self.precision, rng).reshape(units.shape)

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        users, many, m = rows.shape[0], self.coefficients, self.messages.total
        values = self._encoded(self._units(rows), rng).reshape(-1)
        values += polya_population(values.size, self.rate, parties=self.min_honest, rng=rng)
        shares = split(self.group.reduce(values), self.group, m, rng)
        return shares.reshape(m, users, many).transpose(0, 2, 1).reshape(m * many, users)

    def _users_of(self, view: View) -> int:
        rows = self.coefficients * self.messages.total
        if len(view.columns) != rows or view.clear is not None:
            raise ValueError(f"view must hold the output of {rows} shufflers, got {view!r}")
        sizes = {column.size for column in view.columns}
        if len(sizes) != 1 or not all(self.group.contains(column) for column in view.columns):
            raise ValueError(f"view must hold equally many messages in [0, {self.modulus}) each")
        return sizes.pop()

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        sums = [self.group.sum(column) for column in view.columns]
        many = self.coefficients
        return self._decoded([sum(sums[j::many]) for j in range(many)], users)

    def _decoded(self, totals: list[int], users: int) -> NDArray[np.float64]:
        p, q = self.precision, self.modulus
        found = [decode(total % q, users, p, q) for total in totals]
        return self._sum(np.array(found, dtype=np.float64) / p, users)

    def _noisy(
        self, totals: NDArray[np.int64], users: int, rng: RandomSource
    ) -> NDArray[np.float64]:
        noise = noise_sums(self.rate, users, self.min_honest, totals.size, rng)
        return self._decoded((totals + noise).tolist(), users)


def _separate(honest: int, q: int, wanted: float, sums: int) -> tuple[MessageCount, float]:
    """Return the fewest messages for this many separate sums at a level, and what is proved."""

    def each(m: int) -> MessageCount:
        return proved((honest, honest), q, m, analysis=BEST, shuffler="parallel", clear_share=False)

    def together(m: int) -> float:
        return level_of_sums(each(m).sigma, sums, analysis=BEST)

    near = least(
        (honest, honest),
        q,
        wanted,
        analysis=BEST,
        shuffler="parallel",
        clear_share=False,
    )
    m = smallest(lambda m: together(m) >= wanted, near.shuffled)
    return each(m), together(m)
