"""Vectors of bounded norm by sums of their Kashin coefficients (AFNNTZ24, Sections 1.3.1 and 2.2).

If each sum of D coefficients has an error of variance v, the sum of vectors has mean squared error
(d / D) D v. The guarantee is about D numbers in [-B, B], B = K R / sqrt(D), whatever the vector:
larger coefficients are cut off. docs/vector-protocols.md explains why sampling coefficients saves
messages.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue, choice, integer, number, quote, round_down, round_up
from ikos.accounting.composition import MAX_COPIES, MAX_LOCAL, optimal_delta, optimal_local_epsilon
from ikos.accounting.flooding_gkmps21 import MAX_STEPS, rate_down
from ikos.baselines.base import Baseline, Description, ProtocolTerms, checked, read_only_view
from ikos.baselines.correlated_noise_gkmps21 import FLOODINGS, Flooded, flooded, noise_sums
from ikos.baselines.kashin import KASHIN, KashinFrame
from ikos.counts.analyses import checked_scheme
from ikos.counts.types import Budget, MessageCount, lemma_5_2_delta, lemma_5_2_sigma
from ikos.data.domains import Ball
from ikos.data.encoding import decode, encode
from ikos.numeric.distributions import PolyaDifference, chernoff, default_modulus
from ikos.numeric.rounding import float_up
from ikos.numeric.search import bisect_integers
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import RandomSource
from ikos.primitives.samplers import polya_population
from ikos.primitives.sharing import split
from ikos.primitives.shuffling import View, release
from ikos.results.conditions import collusion, present, reports
from ikos.results.error import SumError, bennett
from ikos.results.sums import SumResult
from ikos.sums.private import MAX_RELEASES

ROUNDING_SHARE = 0.25  # what rounding may add to the variance of the noise, by default

SECRECY_SHARE = Fraction(1, 100)  # the fraction of delta for what shares of secure sums reveal

MAX_MADE = 2 * 10**6  # expected messages in all, above which a run simulates sums
_GRID = 1 << 20  # probabilities of reporting a coefficient are multiples of 1 / 2^20


@dataclass(frozen=True)
class SpreadError:
    """The error of one coordinate: all coefficients' errors, each with weight +-1/sqrt(D).

    ``law`` is the distribution of the noise in each of D coefficients, in steps of ``step`` data
    units over sqrt(D). ``variance`` bounds what rounding and sampling add, ``largest`` one user's
    part of it, ``wraps`` the probability that a sum wraps around, and ``wrapped`` what that adds.
    """

    law: PolyaDifference
    coefficients: int
    step: float
    variance: float
    largest: float
    wraps: float = 0.0
    wrapped: float = 0.0

    @property
    def mean_square(self) -> float:
        """Bound on the mean square."""
        noise = self.coefficients * self.law.variance * self.step**2
        return noise + self.variance + self.wrapped

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss.

        By Chernoff's bound, with Bennett's for the users' errors. Terms are symmetric or bounded on
        both sides, so the signs of the weights do not matter.
        """
        if miss <= 2 * self.wraps:
            return math.sqrt(self.mean_square / miss)

        def log_mgf(h: float) -> float:
            noise = self.law.log_mgf(h * self.step)
            return self.coefficients * noise + bennett(h, self.variance, self.largest)

        return chernoff(log_mgf, miss - self.wraps, float(self.law.rate) / self.step)


def user_variance(steps: int, g: float) -> float:
    """Return the largest variance of a sampled and rounded value in [0, 1], divided by g.

    A value (k + f) / p with 0 <= f <= 1 becomes k or k + 1 steps, so that the variance is
    (1 - g) (k + f)^2 + f (1 - f) over g p^2: largest in the last cell, k = p - 1.
    """
    k = steps - 1
    f = min(1.0, (2 * k * (1 - g) + 1) / (2 * g))
    return ((1 - g) * (k + f) ** 2 + f * (1 - f)) / (g * steps**2)


@dataclass(frozen=True, init=False, repr=False)
class CoefficientSums(Baseline):
    """Sums of coefficients, each with discrete Laplace noise of a rate in steps."""

    domain: Ball
    rate: Fraction
    sampling: Fraction
    frame: KashinFrame
    releases: int
    precision: int
    modulus: int | None
    proved_delta: float

    @property
    def coefficients(self) -> int:
        """Number of coefficients of a vector, D."""
        return self.frame.rows

    @property
    def half(self) -> float:
        """Bound B on the coefficients, in the data's units."""
        return self.frame.largest * self.domain.reach

    def _units(self, rows: NDArray[np.float64], first: int = 0) -> NDArray[np.float64]:
        """Return coefficients mapped from [-B, B] to [0, 1], (k, D); ``first`` is for warnings."""
        units = np.empty((rows.shape[0], self.coefficients))
        largest = self.frame.largest
        for part, coefficients, failed in self.frame._searched(rows, self.domain.reach):
            if failed.size:
                more = f" and {failed.size - 1:,} more" if failed.size > 1 else ""
                warnings.warn(
                    f"x[{first + part.start + failed[0]}]{more}: no coefficients within "
                    f"{self.frame.bound:g}/sqrt({self.coefficients}) were found; they are cut off "
                    "there, which is private, but this part of the estimate is biased. Use another "
                    "public seed, or a larger bound",
                    RuntimeWarning,
                    stacklevel=2,
                )
            np.multiply(coefficients, 0.5 / largest, out=units[part])
        units += 0.5
        # Privacy rests on this cut, not on the search, which fails for some vectors.
        np.clip(units, 0.0, 1.0, out=units)
        return units

    def _sum(self, units: NDArray[np.float64], users: int) -> NDArray[np.float64]:
        """Return the sum of vectors, (d,), from the sums of units, (D,)."""
        return self.frame.vectors(self.half * (2 * units[np.newaxis] - users)).reshape(-1)

    def _error(self, users: int) -> SumError:
        law = PolyaDifference(self.rate, Fraction(users, self.min_honest))
        p, g, many, width = self.precision, float(self.sampling), self.coefficients, 2 * self.half
        chance, wrapped = 0.0, 0.0
        if self.modulus is not None:
            chance = law.tail_bound(Fraction(self.modulus - users * p, 2))
            # a coefficient's estimate that wrapped is off by at most q steps
            wrapped = (self.modulus * width / p) ** 2 * chance
        each, square = width / math.sqrt(many), users * width**2
        coordinate = SpreadError(
            law,
            many,
            each / (p * g),
            square * user_variance(p, g),
            each / g,
            min(1.0, many * chance),
            wrapped,
        )
        sampled = square * (user_variance(p, g) - user_variance(p, 1.0))
        return SumError(
            coordinate, self.dimension * coordinate.mean_square, self.dimension * sampled
        )

    def _play(self, values: NDArray[Any], rng: RandomSource) -> SumResult:
        users = values.shape[0]
        if self.cost(users).messages <= MAX_MADE:
            return super()._play(values, rng)
        totals = np.zeros(self.coefficients, dtype=np.int64)
        first = 0
        for rows in self._rows(values):
            totals += self._encoded(self._units(rows, first), rng).sum(axis=0)
            first += rows.shape[0]
        totals += noise_sums(self.rate, users, self.min_honest, totals.size, rng)
        return self._result(self._estimate(totals, users), users)

    def _all_messages(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        return self._messages(values.astype(np.float64), rng)

    def _encoded(self, units: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int64]:
        """Return what is sent for each coefficient, (k, D), in {0..p}; 0 if it is not reported."""
        flat = units.reshape(-1)
        if self.sampling == 1:
            return encode(flat, self.precision, rng).reshape(units.shape)
        used = np.flatnonzero(rng.bernoullis(self.sampling, flat.size))
        result = np.zeros(flat.size, dtype=np.int64)
        result[used] = encode(flat[used], self.precision, rng)
        return result.reshape(units.shape)

    @abstractmethod
    def _estimate(self, totals: NDArray[Any], users: int) -> NDArray[np.float64]:
        """Return an estimate from the noisy sums of the encodings."""


def _checked_releases(terms: ProtocolTerms, frame: KashinFrame, releases: object) -> int:
    """Return a number of releases that can be accounted for, together with the budget."""
    number("epsilon", terms.epsilon, high=MAX_LOCAL)
    most = MAX_COPIES // frame.rows
    times = integer("releases", releases, low=1, high=MAX_RELEASES)
    if times > most:
        raise InvalidValue(
            "releases", f"must be at most {most} for {frame.rows} coefficients, got {times}"
        )
    return times


def _sampling(sampling: object) -> Fraction | None:
    """Check and return the probability of reporting a coefficient, or None for "auto"."""
    if isinstance(sampling, str):
        if sampling != "auto":
            raise InvalidValue("sampling", f"must be a probability or 'auto', got {sampling!r}")
        return None
    g = number("sampling", sampling, above=0, high=1)
    if (g * _GRID).denominator != 1:
        raise InvalidValue("sampling", f"must be a multiple of 2^-20, got {sampling!r}")
    return g


class Reported(NamedTuple):
    """The budget of a reported coefficient, its steps, and the variance of its sum in ranges."""

    epsilon: float
    delta: float
    precision: int
    variance: float


@dataclass(frozen=True)
class SamplingPlan:
    """The split of a budget among sampled coefficients, ``copies`` of them over all releases.

    ``central_share`` is the fraction of a coefficient's epsilon for the noise that remains;
    ``steps`` is its precision, or 0 for the default. The variances that are compared are
    approximate.
    """

    users: int
    epsilon: Fraction
    delta: Fraction
    copies: int
    central_share: Fraction
    steps: int

    def reported(self, g: Fraction) -> Reported:
        """Return the budget of a coefficient that is reported with probability g."""
        eps, delta, chance = self.epsilon, self.delta, float(g)
        each = round_down(min(delta / 2, delta / (2 * self.copies * g)))
        together = optimal_local_epsilon(
            round_down(eps), round_down(delta), self.copies, each * chance
        )
        local = math.log1p(math.expm1(together) / chance) * (1 - 1e-12)
        noise = 2 / (float(self.central_share) * local) ** 2

        def rounds_little(p: int) -> bool:
            added = user_variance(p, chance) - (1 - chance) / chance
            return self.users * added * chance**2 <= ROUNDING_SHARE * noise

        p = self.steps or bisect_integers(rounds_little, MAX_STEPS, 0)
        variance = noise / chance**2 + self.users * user_variance(p, chance)
        return Reported(local, each, p, variance)

    def smallest_sampling(self) -> Fraction:
        """Return the smallest g whose variance is at most twice that of g = 1."""
        most = 2 * self.reported(Fraction(1)).variance

        def enough(steps: int) -> bool:
            return self.reported(Fraction(steps, _GRID)).variance <= most

        return Fraction(bisect_integers(enough, _GRID, 0, close=2.0**-8), _GRID)

    def proved_delta(self, g: Fraction, local: float, delta: float) -> float:
        """Return the delta of all coefficients together, each (local, delta)-private if reported.

        Sampling amplifies (BBG18, Theorem 2), and composition is exact.
        """
        amplified = math.log1p(float(g) * math.expm1(local)) * (1 + 1e-13)
        each = float(g) * delta * (1 + 1e-15)
        return optimal_delta(round_down(self.epsilon), self.copies, amplified, each)


def _enough(proved: float, allowed: Fraction, delta: object) -> float:
    """Return a proved delta, or refuse one above the requested delta."""
    if proved > allowed:
        raise InvalidValue("delta", f"must be larger: {proved!r} is proved, got {delta!r}")
    return proved


@dataclass(frozen=True, init=False, repr=False)
class KashinCorrelatedNoise(CoefficientSums, Flooded):
    """Vectors of bounded norm by GKMPS21's sums of coefficients: AFNNTZ24, Algorithms 3 and 4.

    Each user writes its vector as D coefficients of similar size, 2 d to 4 d of them, and treats
    each like a value of `ikos.baselines.CorrelatedNoise`: messages carry the number of their
    coefficient. One shuffler mixes all of them.

    Parameters
    ----------
    n, epsilon, delta, min_honest
        As for `Baseline`. Epsilon is at most 60.
    domain : Ball
        The set of the vectors.
    sampling : float or "auto"
        The probability g with which a user reports a coefficient at all, a multiple of 2^-20. A
        smaller g means fewer messages and a larger error. "auto" takes the smallest g
        whose error bound is at most twice that of 1: about n epsilon^2 messages in total if that is
        less than D.
    precision, flooding, central_share
        As for `ikos.baselines.CorrelatedNoise`, for each coefficient.
    releases : int
        Number of runs about the same users that the guarantee covers together: at most 2^22 / D.
    seed, bound
        As for `ikos.baselines.kashin.KashinFrame`. The error grows as the square of the bound.

    Attributes
    ----------
    noise : Flooding
        Noise and floods of each coefficient.
    local_epsilon : float
        Epsilon of a reported coefficient.

    Warns
    -----
    RuntimeWarning
        If no coefficients within K are found for a vector. The guarantee covers it, as they are cut
        off; but its part of the estimate is biased, so ``mse`` and intervals do not hold.

    Notes
    -----
    A view is as for `ikos.baselines.CorrelatedNoise`, of labels, each for the number of a
    coefficient and a message. `run` omits messages that cancel if more than 2 10^6 are expected.

    Examples
    --------
    >>> from ikos import Ball
    >>> protocol = KashinCorrelatedNoise(10**5, Ball(8), 1, 1e-6)
    >>> protocol.coefficients, protocol.precision
    (16, 11)
    """

    local_epsilon: float

    def __init__(
        self,
        n: int,
        domain: Ball,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        sampling: float | Fraction | str = 1,
        precision: int | None = None,
        flooding: str = "certified",
        min_honest: int | None = None,
        central_share: float | Fraction = Fraction(3, 4),
        releases: int = 1,
        seed: int = 0,
        bound: float = KASHIN,
    ) -> None:
        terms = checked(n, domain, epsilon, delta, min_honest, (Ball,))
        frame = KashinFrame(domain.dimension, seed, bound)
        times = _checked_releases(terms, frame, releases)
        choice("flooding", flooding, FLOODINGS)
        share = number("central_share", central_share, low=0.001, high=0.999)
        steps = 0 if precision is None else integer("precision", precision, low=1, high=MAX_STEPS)
        plan = SamplingPlan(terms.n, terms.epsilon, terms.delta, times * frame.rows, share, steps)
        g = _sampling(sampling) or plan.smallest_sampling()
        local, local_delta, p, _ = plan.reported(g)
        noise = flooded(p, share, local, local_delta, flooding)
        proved = _enough(plan.proved_delta(g, local, noise.delta), terms.delta, delta)
        self._init(
            terms, frame=frame, releases=times, precision=p, sampling=g, modulus=None,
            rate=noise.central, noise=noise, flooding=flooding, proved_delta=proved,
            local_epsilon=local,
        )  # fmt: skip

    def _describe(self) -> Description:
        g = self.sampling
        sampled = "BBG18, Theorem 2; " if g < 1 else ""
        return self._floods_described(
            f"{self.domain}, {self.coefficients} coefficients sampled with probability "
            f"{float(g):.4g}",
            f"AFNNTZ24, Algorithm 3; GKMPS21, {self._proof}; {sampled}KOV15, Theorem 3.3, "
            f"{self.coefficients:,} coefficients",
            # For a user whose coefficients are all the largest; with precision 1 about half are 0.
            float(g),
            (2 * self.precision * self.coefficients - 1).bit_length(),
            reports=reports(self.releases),
        )

    # Labels: 1 + 2 p j and on for the coefficient j's messages -p..-1, 1..p; 0 is no message.

    def _labelled(self, coefficient: NDArray[np.int64], message: NDArray[np.int64]) -> NDArray[Any]:
        p = self.precision
        labels = 1 + 2 * p * coefficient + message + p - (message > 0)
        return labels.astype(np.min_scalar_type(2 * p * self.coefficients))

    def _steps(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int64]:
        return self._encoded(self._units(values), rng).reshape(-1)

    def _users_of(self, view: View) -> int:
        return self._counted(view, "labels", 2 * self.precision * self.coefficients)[1]

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        p = self.precision
        coefficient, place = np.divmod(view.columns[0].astype(np.int64) - 1, 2 * p)
        message = place - p + (place >= p)
        totals = np.zeros(self.coefficients, dtype=np.int64)
        np.add.at(totals, coefficient, message)
        return self._estimate(totals, users)

    def _estimate(self, totals: NDArray[Any], users: int) -> NDArray[np.float64]:
        return self._sum(totals / float(self.precision * self.sampling), users)

    def _view(self, values: NDArray[Any], rng: RandomSource) -> View:
        labels = self._listed(values.astype(np.float64), rng)[1]
        return read_only_view(release(labels, "sorted", rng), np.array([values.shape[0]]))


@dataclass(frozen=True, init=False, repr=False)
class KashinPrivateSum(CoefficientSums):
    """Vectors of bounded norm by a private secure sum of each coefficient.

    Like `KashinCorrelatedNoise`, but every coefficient goes through this library's secure sum with
    discrete Laplace noise. The D noisy sums are accounted for together, by exact composition of D
    purely private mechanisms.

    Parameters
    ----------
    n, domain, epsilon, delta, min_honest, releases, seed, bound
        As for `KashinCorrelatedNoise`, with the same warnings.
    precision : int, optional
        Steps of the encoding. By default the smallest at which rounding adds at most a hundredth to
        the variance of the noise: only the size of messages grows with it, and slowly.

    Attributes
    ----------
    messages, modulus
        Number of messages for each coefficient's sum, and the order of its group.
    rate : Fraction
        Rate of the discrete Laplace noise in each coefficient, in steps.
    sigma : float
        Security of all secure sums together, in bits.

    Notes
    -----
    By BBGN20, Lemma 5.2, the views are (epsilon, delta)-private: noisy sums take 99 % of delta, and
    (1 + e^epsilon) 2^-sigma for each release takes the rest. `run` makes the shares if at most 2
    10^6 are needed, and otherwise adds up the values that they share.

    Examples
    --------
    >>> from ikos import Ball
    >>> protocol = KashinPrivateSum(1000, Ball(8), 1, 1e-6)
    >>> protocol.coefficients, protocol.messages.total
    (16, 10)
    """

    modulus: int
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
        terms = checked(n, domain, epsilon, delta, min_honest, (Ball,))
        frame = KashinFrame(domain.dimension, seed, bound)
        times = _checked_releases(terms, frame, releases)
        (eps, allowed, honest), many = terms._budget, frame.rows
        copies = times * many
        for_noise = round_down(allowed * (1 - SECRECY_SHARE))
        local = optimal_local_epsilon(round_down(eps), for_noise, copies)
        if precision is None:
            # rounding, users / 4, at most a hundredth of about 2 / rate^2
            p = max(1, math.ceil(local * math.sqrt(12.5 * honest)))
        else:
            p = integer("precision", precision, low=1, high=1 << 20)
        rate = rate_down(Fraction(local) / p)
        q = default_modulus(terms.n, p, PolyaDifference(rate, Fraction(terms.n, honest)))
        # honest users' shares hide, whatever else is sent
        reserve = allowed * SECRECY_SHARE / times
        wanted = float_up(lemma_5_2_sigma(Budget(eps, reserve, Fraction(0), 1))) * (1 + 1e-14)
        scheme = checked_scheme(honest, q, clear_share=False)
        count = scheme.least(Fraction(wanted), many)
        sigma = scheme.level(count.shuffled, many)
        revealed = times * lemma_5_2_delta(sigma, eps)
        noisy = optimal_delta(round_down(eps), copies, round_up(rate * p))
        proved = _enough((noisy + revealed) * (1 + 1e-15), allowed, delta)
        self._init(
            terms, frame=frame, releases=times, precision=p, sampling=Fraction(1), modulus=q,
            rate=rate, messages=count, sigma=sigma, proved_delta=proved,
        )  # fmt: skip

    def _describe(self) -> Description:
        p, q, count = self.precision, self.modulus, self.messages
        steps = 2 * self.half * (q - 1) / p  # from one end of the group to the other
        return self._described(
            f"{self.domain}, {self.coefficients} coefficients, precision={p}, q={quote(q)}, "
            f"{count.total} messages of each",
            f"discrete Laplace mechanism; KOV15, Theorem 3.3, {self.coefficients:,} coefficients; "
            f"BBGN20, Lemma 5.2, with {count.theorem}",
            present(self.min_honest, self.n),
            collusion(0),
            influence=math.sqrt(self.coefficients) * steps,
            sent=(self.coefficients * count.total, self.group.bits),
            random="noise and shares",
            reports=reports(self.releases),
        )

    @property
    def group(self) -> Zq:
        """The group of each coefficient's sum."""
        return Zq(self.modulus)

    # Share i of coefficient j is row i D + j.

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        users, many, m = rows.shape[0], self.coefficients, self.messages.total
        values = self._encoded(self._units(rows), rng).reshape(-1)
        values += polya_population(values.size, self.rate, parties=self.min_honest, rng=rng)
        shares = split(self.group.reduce(values), self.group, m, rng)
        return shares.reshape(m, users, many).transpose(0, 2, 1).reshape(m * many, users)

    def _users_of(self, view: View) -> int:
        rows = self.coefficients * self.messages.total
        return int(self._below(view, "shares", *[self.modulus] * rows)[0].size)

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        sums = [self.group.sum(column) for column in view.columns]
        many = self.coefficients
        totals = np.array([sum(sums[j::many]) for j in range(many)], dtype=object)
        return self._estimate(totals, users)

    def _estimate(self, totals: NDArray[Any], users: int) -> NDArray[np.float64]:
        p, q = self.precision, self.modulus
        steps = [decode(int(total) % q, users, p, q) for total in totals]
        return self._sum(np.array(steps, dtype=np.float64) / p, users)
