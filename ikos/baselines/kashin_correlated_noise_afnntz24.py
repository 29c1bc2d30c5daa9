"""Vectors of bounded norm: correlated noise in each of their coefficients (AFNNTZ24, Section 2.2).

That sampling coefficients saves messages is proved in docs/vectors.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, integer, number, round_down, validate_users
from ikos.accounting.flooding_gkmps21 import MAX_STEPS, Flooding
from ikos.accounting.optimal_composition import optimal_delta, optimal_local_epsilon
from ikos.accuracy import NoiseLaw
from ikos.aggregation.calibration import reports
from ikos.baselines.coefficients_afnntz24 import (
    ROUNDING_SHARE,
    CoefficientSums,
    framed,
    noise_sums,
    user_variance,
)
from ikos.baselines.flooding import FLOODINGS, Flooded, counted_column, counted_view, flooded
from ikos.baselines.kashin import KASHIN
from ikos.domains import Ball
from ikos.encoding import encode
from ikos.errors import SumError
from ikos.randomness import RandomSource
from ikos.results import Guarantee
from ikos.shuffling import View, release

_GRID = 1 << 20
"""Probabilities of reporting a coefficient are multiples of 1 / 2^20."""


@dataclass(frozen=True)
class _Plan:
    """How one coefficient is reported."""

    sampling: Fraction
    epsilon: float
    delta: float
    steps: int

    def variance(self, share: float, users: int) -> float:
        """Return about the variance of a sum, in units of one coefficient's range."""
        g = float(self.sampling)
        noise = 2 / (share * self.epsilon * g) ** 2
        return noise + users * user_variance(self.steps, g)


def _sampling(sampling: object) -> Fraction | None:
    """Check and return the probability of reporting a coefficient, or None for "auto"."""
    if sampling is None:
        return Fraction(1)
    if isinstance(sampling, str):
        if sampling != "auto":
            raise ValueError(f"sampling must be a probability or 'auto', got {sampling!r}")
        return None
    g = number("sampling", sampling, above=0, high=1)
    if (g * _GRID).denominator != 1:
        raise ValueError(f"sampling must be a multiple of 2^-20, got {sampling!r}")
    return g


def _plan(
    eps: Fraction, delta: Fraction, many: int, g: Fraction, share: float, users: int, steps: int
) -> _Plan:
    """Return the budget of one coefficient, and the steps if these are 0."""
    each = round_down(min(delta / 2, delta / (2 * many * g)))
    together = optimal_local_epsilon(round_down(eps), round_down(delta), many, each * float(g))
    local = math.log1p(math.expm1(together) / float(g)) * (1 - 1e-12)
    noise = 2 / (share * local) ** 2

    def rounds_little(p: int) -> bool:
        added = user_variance(p, float(g)) - (1 - float(g)) / float(g)
        return users * added * float(g) ** 2 <= ROUNDING_SHARE * noise

    low, high = 0, 1
    while not steps and not rounds_little(high) and high < MAX_STEPS:
        low, high = high, 2 * high
    while not steps and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rounds_little(middle) else (middle, high)
    return _Plan(g, local, each, steps or high)


@dataclass(frozen=True, init=False, repr=False)
class KashinCorrelatedNoise(Flooded, CoefficientSums):
    """Vectors of bounded norm by GKMPS21's sums of coefficients: AFNNTZ24, Algorithms 3 and 4.

    Each user writes its vector as D coefficients of about the same size, 2 d to 4 d of them. Each
    is rounded at random to {0..precision} and sent as one message, with its number, unless it is
    0; in addition to messages that all together make discrete Laplace noise of each coefficient,
    and messages that cancel, which hide everything else. One shuffler mixes all of them.

    Parameters
    ----------
    n, epsilon, delta, min_honest
        As of `ikos.baselines.Baseline`. Epsilon is at most 60.
    domain : Ball
        Where the vectors lie.
    sampling : float or "auto", optional
        The probability g with which a user reports a coefficient at all, a multiple of 2^-20; by
        default 1. Fewer messages and a larger error. "auto" takes the smallest at which the error
        bound is at most twice that of 1: about n epsilon^2 messages in all where that is less
        than D.
    precision : int, optional
        Steps of the encoding. By default the smallest at which rounding adds at most a quarter
        to the variance of the noise: the number of messages grows faster than the precision.
    flooding : {"certified", "paper"}
        As of `ikos.baselines.CorrelatedNoise`.
    central_share : float
        The part of each coefficient's epsilon for the noise that remains in the estimate; the
        rest is for the messages that cancel.
    releases : int
        How many runs about the same users the guarantee is for, all of them together: at most
        2^22 / D.
    seed : int
        Public: of the frame. Not to be chosen for the data.
    bound : float
        Kashin's constant K: see `ikos.baselines.kashin`. The error grows as its square. At most
        sqrt(d) is used.

    Attributes
    ----------
    noise : Flooding
        Of each coefficient.
    frame : KashinFrame
        Coefficients from vectors and back.
    local_epsilon : float
        Of a coefficient that is reported.

    Warns
    -----
    RuntimeWarning
        From `report`, `randomize`, `sent` and `run`, if a vector has no coefficients within K that
        are found. The guarantee covers every vector of the ball: this one's coefficients are cut
        off. But its part of the estimate is biased, so that ``mse`` and intervals do not hold.

    Notes
    -----
    A view holds one column of labels, each the number of a coefficient and a message, and a second
    of one entry, the number of users, which is public. `run` makes all messages if 2 10^6 or fewer
    are expected, and otherwise leaves out those that cancel, whose sum is 0; the cost counts them.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> from ikos.vectors import Ball
    >>> protocol = KashinCorrelatedNoise(10**5, Ball(8), 1, 1e-6)
    >>> protocol.coefficients, protocol.precision
    (16, 11)
    >>> x = np.full((10**5, 8), 0.3)
    >>> result = protocol.run(x, DeterministicRandom(0))
    >>> bool(np.linalg.norm(result.estimate - 30_000) < 3 * protocol.mse**0.5)
    True
    """

    sampling: Fraction
    flooding: str
    local_epsilon: float
    noise: Flooding

    def __init__(
        self,
        n: int,
        domain: Ball,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        sampling: float | Fraction | str | None = None,
        precision: int | None = None,
        flooding: str = "certified",
        min_honest: int | None = None,
        central_share: float | Fraction = Fraction(3, 4),
        releases: int = 1,
        seed: int = 0,
        bound: float = KASHIN,
    ) -> None:
        asked, frame, times = framed(n, domain, epsilon, delta, min_honest, releases, seed, bound)
        many = times * frame.rows
        eps, allowed, users = asked.epsilon, asked.delta, asked.n
        choice("flooding", flooding, FLOODINGS)
        share = number("central_share", central_share, low=0.001, high=0.999)
        steps = 0 if precision is None else integer("precision", precision, low=1, high=MAX_STEPS)

        def plan(g: Fraction) -> _Plan:
            return _plan(eps, allowed, many, g, float(share), users, steps)

        wanted = _sampling(sampling)
        chosen = plan(Fraction(1))
        if wanted is None:
            most = 2 * chosen.variance(float(share), users)
            low, high = 0, _GRID  # of the grid: too few, and enough
            while high - low > max(1, high >> 8):
                middle = (low + high) // 2
                tried = plan(Fraction(middle, _GRID))
                if tried.variance(float(share), users) <= most:
                    high, chosen = middle, tried
                else:
                    low = middle
        elif wanted < 1:
            chosen = plan(wanted)
        p, local, g = chosen.steps, chosen.epsilon, chosen.sampling
        noise = flooded(p, share, local, chosen.delta, flooding)
        amplified = math.log1p(float(g) * math.expm1(local)) * (1 + 1e-13)
        each = float(g) * noise.delta * (1 + 1e-15)
        proved_delta = optimal_delta(round_down(eps), many, amplified, each)
        if proved_delta > allowed:
            raise ValueError(
                f"delta must be larger for {frame.rows:,} coefficients: {proved_delta!r} "
                f"is proved, got {delta!r}"
            )
        super().__init__(
            asked,
            frame=frame,
            releases=times,
            precision=p,
            proved_delta=proved_delta,
            sampling=g,
            flooding=flooding,
            local_epsilon=local,
            noise=noise,
        )

    @property
    def _particulars(self) -> str:
        return (
            f"{self.domain}, {self.coefficients} coefficients sampled with probability "
            f"{float(self.sampling):.4g}, precision={self.precision}, {self.flooding} floods"
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user, for one run or all ``releases`` of them together."""
        sampled = "BBG18, Theorem 2; " if self.sampling < 1 else ""
        return self._unseen(
            f"AFNNTZ24, Algorithm 3; GKMPS21, {{how}}; {sampled}KOV15, Theorem 3.3, "
            f"{self.coefficients:,} coefficients",
            reports(self.releases),
        )

    def error(self, users: int) -> SumError:
        """Return what is known of noise, rounding and sampling together."""
        users = validate_users(users, self.n)
        law = NoiseLaw(self.noise.central, Fraction(users, self.min_honest))
        return self._error(law, users, float(self.sampling))

    @property
    def _sent(self) -> tuple[float, int]:
        """The mean, at most: for a user all of whose coefficients are the largest.

        Of precision 1 about half as many are not 0.
        """
        each = float(self.sampling) + sum(kind.mean for kind in self._kinds)
        labels = 2 * self.precision * self.coefficients
        return self.coefficients * each, (labels - 1).bit_length()

    # Labels: 1 + 2 p j and on for the coefficient j's messages -p..-1, 1..p; 0 is no message.

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(np.min_scalar_type(2 * self.precision * self.coefficients))

    def _labels(self, coefficient: NDArray[np.int64], message: NDArray[np.int64]) -> NDArray[Any]:
        p = self.precision
        place = np.where(message < 0, message + p, message + p - 1)
        labels: NDArray[Any] = (1 + 2 * p * coefficient + place).astype(self._dtype)
        return labels

    def _listed(
        self, values: NDArray[np.float64], rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        encoded = self._encoded(self._units(values), rng).reshape(-1)
        places = [np.flatnonzero(encoded)]
        messages = [encoded[places[0]]]
        for kind in self._kinds:  # each pair of a user and a coefficient has noise of its own
            place, message = kind.sent(encoded.size, rng)
            places.append(place)
            messages.append(message)
        sender, coefficient = np.divmod(np.concatenate(places), self.coefficients)
        labels = self._labels(coefficient, np.concatenate(messages))
        order = np.lexsort((labels, sender))
        return sender[order], labels[order]

    def _encoded(self, units: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int64]:
        flat = units.reshape(-1)
        if self.sampling == 1:
            return encode(flat, self.precision, rng).reshape(units.shape)
        used = np.flatnonzero(rng.bernoullis(self.sampling, flat.size))
        result = np.zeros(flat.size, dtype=np.int64)
        result[used] = encode(flat[used], self.precision, rng)
        return result.reshape(units.shape)

    def _users_of(self, view: View) -> int:
        column, users = counted_column(view, "labels")
        most = 2 * self.precision * self.coefficients
        if column.size and not 1 <= column.min() <= column.max() <= most:
            raise ValueError(f"view must hold labels from 1 to {most}")
        return users

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        p = self.precision
        coefficient, place = np.divmod(view.columns[0].astype(np.int64) - 1, 2 * p)
        message = np.where(place < p, place - p, place - p + 1)
        totals = np.zeros(self.coefficients, dtype=np.int64)
        np.add.at(totals, coefficient, message)
        return self._estimate(totals, users)

    def _estimate(self, totals: NDArray[np.int64], users: int) -> NDArray[np.float64]:
        return self._sum(totals / float(self.precision * self.sampling), users)

    def _view(self, values: NDArray[Any], rng: RandomSource) -> View:
        labels = self._listed(values.astype(np.float64), rng)[1]
        return counted_view(release(labels, "sorted", rng), values.shape[0])

    def _noisy(
        self, totals: NDArray[np.int64], users: int, rng: RandomSource
    ) -> NDArray[np.float64]:
        noise = noise_sums(self.noise.central, users, self.min_honest, totals.size, rng)
        return self._estimate(totals + noise, users)
