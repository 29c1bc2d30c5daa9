"""A few randomly drawn coordinates per user, by randomized response (SCM22)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue, choice, integer, number, round_up, validate_users
from ikos.accounting import scm22
from ikos.accounting.scm22 import SAMPLINGS, SampledAnswers
from ikos.accounting.shuffled_response import THEOREMS
from ikos.baselines.base import ENTRIES_PER_PASS, Baseline, Description, checked, draw_subsets
from ikos.data.domains import Box
from ikos.data.encoding import encode
from ikos.primitives.modular import blocks
from ikos.primitives.randomized_response import grid_up, respond
from ikos.primitives.randomness import RandomSource
from ikos.primitives.shuffling import View
from ikos.results.conditions import Condition, Kind, collusion
from ikos.results.error import Bounded, SumError
from ikos.results.sums import SumResult

PARAMETERS = ("exact", "published")


@dataclass(frozen=True, init=False, repr=False)
class SampledCoordinates(Baseline):
    """Each user reports one or a few coordinates, drawn independently of its vector.

    The value of a coordinate is rounded at random to {0..precision}, goes through randomized
    response on these ``precision + 1`` values, and is sent with the number of the coordinate as one
    integer. For one message the probability of a random answer is that of a *scalar* protocol with
    all n users, whatever the dimension. The dimension adds the error of the sampling, which falls
    with the number of messages. The guarantees are those of `ikos.accounting.scm22`.

    Parameters
    ----------
    n, epsilon, delta, min_honest
        As for `Baseline`.
    domain : Box
        Bounds on the coordinates.
    messages : int, optional
        Number t of coordinates that each user reports, one per message; None for the number with
        the smallest error or, if ``parameters`` is "published", for 1, the paper's choice.
    precision : int, optional
        Steps k of the encoding; by default the number with the smallest error that a search finds.
    sampling : {"stratified", "uniform"}
        "stratified" cuts the coordinates into t runs of about equal length, each with a shuffler,
        and a user draws one of each. "uniform" draws t without replacement, as in the paper, for
        one shuffler; it takes far more random answers. They agree for one message.
    parameters : {"exact", "published"}
        "published" takes the paper's probability of a random answer, and its k if ``precision`` is
        None. The guarantee is then the one proved here, not the paper's.
    centre : float, optional
        A public guess that replaces unreported values, by default the middle of the bounds; the
        paper's is ``domain.lower``. The estimate is unbiased for any centre.

    Attributes
    ----------
    answers : SampledAnswers
        How coordinates are drawn and answered, with ``messages``, ``precision`` and ``gamma``, the
        probability of a random answer.

    Examples
    --------
    >>> protocol = SampledCoordinates(50_000, Box(100), 0.95, 1e-6, precision=3)
    >>> round(float(protocol.gamma), 4)  # the paper: 1.35
    0.0037
    """

    domain: Box
    answers: SampledAnswers
    messages: int
    precision: int
    gamma: Fraction
    centre: float
    parameters: str
    proved_delta: float

    def __init__(
        self,
        n: int,
        domain: Box,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        messages: int | None = 1,
        precision: int | None = None,
        sampling: str = "stratified",
        parameters: str = "exact",
        min_honest: int | None = None,
        centre: float | None = None,
    ) -> None:
        terms = checked(n, domain, epsilon, delta, min_honest, (Box,))
        (eps, small, honest), d = terms._budget, domain.dimension
        choice("sampling", sampling, SAMPLINGS)
        choice("parameters", parameters, PARAMETERS)
        middle = (domain.lower + domain.upper) / 2
        if centre is not None:
            middle = float(number("centre", centre, low=domain.lower, high=domain.upper))
        t = None if messages is None else integer("messages", messages, low=1, high=d)
        k = precision
        if k is not None:
            k = integer("precision", precision, low=1, high=scm22.MAX_VALUES - 1)
        need, proved = (eps, small, honest, d), round_up(small)
        if parameters == "published":
            answers = _published(need, 1 if t is None else t, k, sampling)
            proved, method, name = scm22.sampled_delta(answers, eps, honest, d, float(small))
            answers = replace(answers, composition=method, accountant=name)
        elif t is None or k is None:
            answers = scm22.optimized_answers(
                *need, sampling=sampling, messages=t, precision=k, centre=_part(domain, middle)
            )
        else:
            answers = scm22.sampled_answers(*need, k, t, sampling=sampling)
            if answers.gamma == 1:
                raise ValueError(
                    f"precision and messages must be smaller, got {k} and {t}: every answer would "
                    "be random"
                )
        self._init(
            terms, answers=answers, messages=answers.messages, precision=answers.precision,
            gamma=answers.gamma, centre=middle, parameters=parameters, proved_delta=proved,
        )  # fmt: skip

    def _describe(self) -> Description:
        many = "one coordinate" if self.messages == 1 else f"{self.messages} coordinates"
        shufflers = collusion(0)
        if self.messages > 1:
            unlinked = f"{shufflers}, and a user's messages cannot be told to be of one user"
            shufflers = Condition(Kind.PARTIES, unlinked)
        return self._described(
            f"{many} of {self.dimension}, {self.precision + 1} values answered at random with "
            f"probability {float(self.gamma):.4g}",
            self._theorem(),
            self._answering,
            shufflers,
            influence=self._farthest(),
            sent=(self.messages, (max(self._ends) - 1).bit_length()),
            delta=self.proved_delta,
        )

    def _theorem(self) -> str:
        """Return the theorem of the guarantee."""
        t = self.messages
        proof = [f"{THEOREMS[self.answers.accountant]} on {self.precision + 1} values"]
        if self.answers.sampling == "uniform" and 1 < t < self.dimension:
            # the guarantee holds even if the adversary knows which coordinates each user drew
            proof.append("among those who drew the same coordinates, binomial tail included")
        elif t < self.dimension:
            proof.append(scm22.COMPOSITIONS["single"])
        if t > 1:
            proof.append(scm22.COMPOSITIONS[self.answers.composition].format(t=t))
        if self.parameters == "published":
            proof.append("for the probability of SCM22")
        return "; ".join(proof)

    def _farthest(self) -> float:
        """Return how far one user's messages alone can move the estimate.

        With one shuffler, a user may send all messages about one coordinate; the shuffler of a run
        takes one message per user.
        """
        gamma, most = float(self.gamma), max(self._extremes)

        def reach(weight: float, size: int) -> float:
            other = math.sqrt(2) * most if size > 1 else 0.0
            return weight * max(1 / (1 - gamma), other)

        width = self.domain.bounds.width
        t, d = self.messages, self.dimension
        if self.answers.sampling == "uniform":
            return width * t * reach(d / t, d)
        fewer, size, longer = scm22.stratum_sizes(d, t)
        parts = fewer * reach(size, size) ** 2 + longer * reach(size + 1, size + 1) ** 2
        return width * math.sqrt(parts)

    def _error(self, users: int) -> SumError:
        # Both mean squares are attained, by users whose coordinates all have the worst value.
        width, c = self.domain.bounds.width, self._part
        whole = scm22.total_error(users, self.dimension, self.answers, c)
        weight = float(max(weight for weight, _ in self._weights))
        each = scm22.coordinate_error(self.precision, self.gamma, weight, c)
        above, below = self._extremes
        largest = max(weight * above + float(c), weight * below + 1 - float(c))
        return SumError(
            Bounded(width**2 * users * each.mean_square, width * largest * (1 + 1e-12)),
            width**2 * whole.mean_square,
            width**2 * whole.sampling,
        )

    def published_error(self, users: int | None = None) -> float:
        """Return a bound on the error as in the paper, without the error of the sampling.

        It is the mean squared distance of the debiased sums from the sums of the values drawn, over
        (n / d)^2. For t messages the error of the mean would be this divided by t^2.
        """
        n = validate_users(users, self.n)
        each = scm22.coordinate_error(self.precision, self.gamma, 1).mean_square
        d = self.dimension
        return self.domain.bounds.width**2 * self.messages * d * d / n * each

    @property
    def _width(self) -> Fraction:
        return Fraction(self.domain.upper) - Fraction(self.domain.lower)

    @property
    def _part(self) -> Fraction:
        return _part(self.domain, self.centre)

    @property
    def _extremes(self) -> tuple[float, float]:
        """How far a debiased answer can be above and below the centre, in widths."""
        gamma, c = float(self.gamma), float(self._part)
        return (1 - gamma / 2) / (1 - gamma) - c, c + gamma / 2 / (1 - gamma)

    @property
    def _weights(self) -> list[tuple[Fraction, int]]:
        return scm22.weights(self.dimension, self.messages, self.answers.sampling)

    @property
    def _sizes(self) -> NDArray[np.int64]:
        """Number of coordinates that each shuffler's messages are about."""
        if self.answers.sampling == "uniform":
            return np.array([self.dimension], dtype=np.int64)
        fewer, size, longer = scm22.stratum_sizes(self.dimension, self.messages)
        return np.repeat(np.array([size, size + 1], dtype=np.int64), (fewer, longer))

    @property
    def _ends(self) -> list[int]:
        """Number of different messages that each shuffler takes."""
        return [size * (self.precision + 1) for size in self._sizes.tolist()]

    @property
    def _starts(self) -> NDArray[np.int64]:
        """The first coordinate of each shuffler."""
        sizes = self._sizes
        return np.cumsum(sizes) - sizes

    def _drawn(self, users: int, rng: RandomSource) -> NDArray[np.int64]:
        """Draw the coordinates that users report, (t, users), independently of the vectors."""
        t, d = self.messages, self.dimension
        if t == d:
            return np.repeat(np.arange(d, dtype=np.int64), users).reshape(d, users)
        if self.answers.sampling == "stratified":
            within = rng.below(np.repeat(self._sizes, users)).reshape(t, users)
            return within + self._starts[:, np.newaxis]
        return np.ascontiguousarray(draw_subsets(users, d, t, rng).T)

    def _answered(
        self, rows: NDArray[Any], rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return coordinates and answers, (t, users) each, of users with checked vectors."""
        drawn = self._drawn(rows.shape[0], rng)
        values = np.take_along_axis(rows, drawn.T, axis=1).T.astype(np.float64)
        unit = self.domain.bounds.unit(np.ascontiguousarray(values).reshape(-1))
        encoded = encode(unit, self.precision, rng)
        answers = respond(encoded, self.precision + 1, self.gamma, rng)
        return drawn, answers.reshape(drawn.shape)

    def _messages(self, rows: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        drawn, answers = self._answered(rows, rng)
        within = drawn - self._starts[:, np.newaxis]
        return np.asarray(within * (self.precision + 1) + answers)

    def _rows(self, values: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Yield some users' vectors at a time, unconverted: few of their entries are read."""
        for part in blocks(values.shape[0], max(1, ENTRIES_PER_PASS // self.messages)):
            yield values[part]

    def _play(self, values: NDArray[Any], rng: RandomSource) -> SumResult:
        # The estimate is a function of the multiset, so answers are added up in any order.
        counted = np.zeros((2, self.dimension))
        for rows in self._rows(values):
            counted += self._counted(*self._answered(rows, rng))
        return self._result(self._estimate(counted, values.shape[0]), values.shape[0])

    @property
    def _shuffler(self) -> str:
        return "single" if self.answers.sampling == "uniform" else "parallel"

    def _users_of(self, view: View) -> int:
        each = self.messages if self.answers.sampling == "uniform" else 1
        size = int(self._below(view, "answers about coordinates", *self._ends)[0].size)
        if size % each:
            raise InvalidValue(
                "view", f"must hold {self.messages} messages of each user, got {view!r}"
            )
        return size // each

    def _counted(
        self, coordinates: NDArray[np.int64], answers: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the sum and the number of each coordinate's answers: exact, below 2^53."""
        flat, d = coordinates.reshape(-1), self.dimension
        sums = np.bincount(flat, weights=answers.reshape(-1), minlength=d)
        return np.stack([sums, np.bincount(flat, minlength=d)])

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        counted = np.zeros((2, self.dimension))
        for column, start in zip(view.columns, self._starts.tolist(), strict=True):
            for part in blocks(column.size, ENTRIES_PER_PASS):
                labels = column[part].astype(np.int64)
                coordinates, answers = np.divmod(labels, self.precision + 1)
                counted += self._counted(coordinates + start, answers)
        return self._estimate(counted, users)

    def _estimate(self, counted: NDArray[np.float64], users: int) -> NDArray[np.float64]:
        """Return the sums in the data's units, each correctly rounded.

        From N answers y of sum T, each drawn with probability 1 / w, a coordinate is estimated as
        users c + w sum (v - c), v = lower + width (y / k - gamma / 2) / (1 - gamma).
        """
        width, lower = self._width, Fraction(self.domain.lower)
        gamma, centre = self.gamma, Fraction(self.centre)
        estimate: list[float] = []
        for weight, count in self._weights:
            first = users * centre
            of_sum = weight * width / (self.precision * (1 - gamma))
            of_count = weight * (lower - centre - width * gamma / (2 * (1 - gamma)))
            whole = math.lcm(first.denominator, of_sum.denominator, of_count.denominator)
            a, b, c = (int(part * whole) for part in (first, of_sum, of_count))
            pairs = counted[:, len(estimate) : len(estimate) + count].T.astype(np.int64).tolist()
            estimate += [(a + b * total + c * number) / whole for total, number in pairs]
        return np.array(estimate)


def _part(domain: Box, centre: float) -> Fraction:
    """Return a centre as a fraction of the way from ``lower`` to ``upper``."""
    lower, upper = Fraction(domain.lower), Fraction(domain.upper)
    return (Fraction(centre) - lower) / (upper - lower)


def _published(
    need: tuple[Fraction, Fraction, int, int], t: int, k: int | None, sampling: str
) -> SampledAnswers:
    """Return SCM22's parameters; refused if a probability would exceed 1.

    The composition of the messages is not the paper's, and gives the proved delta.
    """
    eps, small, honest, d = need
    users = integer("n", honest, low=2)
    if k is None:
        k = max(1, round(scm22.published_precision(eps, small, users, d, t)))
    if t == 1:
        gamma = scm22.published_single_gamma(eps, small, users, d, k)
    else:
        gamma = scm22.published_gamma(eps, small, users, d, k, t)
    if gamma >= 1:
        raise InvalidValue(
            "n",
            "must be larger for parameters='published': SCM22's probability of a random answer "
            f"is {gamma:.3g}",
        )
    return SampledAnswers(t, k, grid_up(gamma), sampling, "published")
