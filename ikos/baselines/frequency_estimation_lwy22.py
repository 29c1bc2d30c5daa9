"""Histograms over many categories from few messages, some of them random (LWY22)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidType, InvalidValue, integer, quote, real, round_up
from ikos.accounting.lwy22 import random_messages
from ikos.baselines.base import ENTRIES_PER_PASS, Description, Padded, checked
from ikos.data.domains import Categories, require
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource
from ikos.primitives.shuffling import View
from ikos.results.conditions import Condition, alone
from ikos.results.error import Bounded, SumError
from ikos.results.sums import SumResult
from ikos.sums.protocol import digest


@dataclass(frozen=True, init=False, repr=False)
class FrequencyEstimation(Padded):
    """Each user sends its category, and some random ones that hide it; the analyzer counts them.

    A message names a set of ``set_size`` categories: one, or for larger domains an arithmetic
    progression modulo a prime q. A user sends a random message whose set contains its category, and
    up to ``extra`` uniformly random ones, each with probability ``chance``. Larger sets take fewer
    random messages, but other users' sets contain a category by chance.

    Parameters
    ----------
    n, epsilon, delta, min_honest
        As for `Baseline`; n is at least 2.
    domain : Categories
        One question with at least two categories.
    set_size : int, optional
        Categories in each message, from 1 to half of all. None stands for about q ln(n) / n,
        LWY22's choice for large domains.
    assumptions : tuple of Condition
        Further conditions of the guarantee, such as the encryption of messages in transit.

    Attributes
    ----------
    modulus : int
        q: the number of categories for sets of one, otherwise the next prime.
    extra, chance : int, Fraction
        The number of random messages is binomial.

    Notes
    -----
    `run` and `randomize` also take (n,) integers, the users' categories from 0 on: vectors of many
    categories are large. A message is 1 + s + q (d - 1) for the set {s, s + d, ..., s + (set_size -
    1) d} modulo q. A view holds a column of all messages and a second column with the number of
    users.

    Examples
    --------
    >>> from ikos import Categories
    >>> for size in 1, 100:
    ...     protocol = FrequencyEstimation(10**5, Categories([10**5]), 4, 1e-8, set_size=size)
    ...     each = math.sqrt(protocol.error(10**5).coordinate.mean_square)
    ...     print(round(protocol.cost().messages_per_user, 2), round(each, 2))
    19.42 4.29
    1.18 10.84
    >>> result = protocol.run(np.arange(10**5) // 50000)
    >>> bool((abs(result.estimate[:2] - 50000) < 100).all())
    True
    """

    domain: Categories
    set_size: int
    modulus: int
    extra: int
    chance: Fraction
    assumptions: tuple[Condition, ...]

    def __init__(
        self,
        n: int,
        domain: Categories,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        set_size: int | None = 1,
        min_honest: int | None = None,
        assumptions: tuple[Condition, ...] = (),
    ) -> None:
        integer("n", n, low=2)
        terms = checked(n, domain, epsilon, delta, min_honest, (Categories,))
        d = domain.dimension
        if len(domain.sizes) != 1 or d < 2:
            raise InvalidValue(
                "domain", f"must be one question with at least 2 categories, got {domain}"
            )
        if set_size is None:
            set_size = min(max(1, round(d * math.log(terms.n) / terms.n)), max(1, d // 2))
        c = integer("set_size", set_size, low=1, high=max(1, d // 2))
        assumed: Any = assumptions
        if not isinstance(assumed, tuple) or {*map(type, assumed)} - {Condition}:
            raise InvalidType("assumptions", f"must be conditions, got {quote(assumptions)}")
        q = d if c == 1 else int(gmpy2.next_prime(d - 1))
        extra, chance = random_messages(*terms._budget, Fraction(c, q))
        more = {"chance": chance, "assumptions": assumptions}
        self._init(terms, set_size=c, modulus=q, extra=extra, **more)

    def _describe(self) -> Description:
        c, mean = self.set_size, float(self.extra * self.chance)
        named, proof = "one category", "exact divergence"
        if c > 1:
            named, proof = f"sets of {c:,} categories", "divergence of disjoint sets"
        return self._described(
            f"{self.domain}, messages name {named}, {mean:.4g} random ones of each user",
            f"LWY22, binomial counts of random messages; {proof}",
            self._answering,
            alone(),
            *self.assumptions,
            # the sum of u sets, less its mean, against another one of u' <= extra + 1
            influence=float((self.extra + 1) / self._gain) * math.sqrt(2 * c) * (1 + 1e-12),
            sent=(1 + mean, (self.universe - 1).bit_length()),
            random="random messages",
        )

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        return {
            "protocol": "ikos-frequency-estimation-1",
            "n": self.n,
            "min_honest": self.min_honest,
            "categories": self.dimension,
            "epsilon": str(self.epsilon),
            "set_size": self.set_size,
            "modulus": self.modulus,
            "extra": self.extra,
            "chance": str(self.chance),
            **self.domain.shape_parameter,
        }

    @property
    def parameter_hash(self) -> str:
        """SHA-256 of the parameters, equal for two parties that agree on all of them."""
        return digest(self.parameters)

    @property
    def universe(self) -> int:
        """Number of different messages."""
        return self.modulus if self.set_size == 1 else self.modulus * (self.modulus - 1)

    @property
    def _gain(self) -> Fraction:
        """Return 1 less the probability that a user's set contains a fixed other category."""
        return 1 - Fraction(self.set_size - 1, self.modulus - 1)

    def _error(self, users: int) -> SumError:
        share, gain = Fraction(self.set_size, self.modulus), self._gain
        noise = users * self.extra * self.chance * share * (1 - share) / gain**2
        caught = users * (1 - gain) / gain  # of a category that no user has
        d = self.dimension
        return SumError(
            Bounded(round_up(noise + caught), 1.0), round_up(d * noise + (d - 1) * caught)
        )

    def _values(self, x: ArrayLike) -> NDArray[Any]:
        if isinstance(x, np.ndarray) and x.ndim == 1:
            labels = real("x", x)
            known = np.isin(labels, np.arange(self.dimension))
            require(labels, known, 0, f"be an integer from 0 to {self.dimension - 1}")
            self._participation.check("x", labels.size)
            return labels
        return super()._values(x)

    def _accepted(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(values.argmax(axis=1))

    def padded(self, vectors: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return the messages of a few users with checked vectors, (k, extra + 1); 0 for none.

        Each user's are in a uniformly random order, which does not tell which one is its own.
        """
        messages = self._messages(self._accepted(vectors), rng).T
        return np.take_along_axis(messages, rng.permutations(*messages.shape), axis=1)

    def _messages(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return messages, one column per user; 0 is no message."""
        users, q, c = values.size, self.modulus, self.set_size
        result = np.empty((self.extra + 1, users), dtype=np.int64)
        start, step = values.astype(np.int64), np.zeros(users, dtype=np.int64)
        if c > 1:
            step = rng.uniform(q - 1, users).astype(np.int64)
            start -= (step + 1) * rng.uniform(c, users).astype(np.int64)
        result[0] = 1 + start % q + q * step
        random = 1 + rng.uniform(self.universe, self.extra * users).astype(np.int64)
        random *= rng.bernoullis(self.chance, random.size)
        result[1:] = random.reshape(self.extra, users)
        return result

    def _check_messages(self, messages: NDArray[Any], order: str, **_: Any) -> None:
        super()._check_messages(messages, order, most=self.universe)
        if messages.shape[0] > self.extra + 1:
            raise InvalidValue(
                "messages",
                f"must be at most {self.extra + 1} of each user, got {messages.shape[0]}",
            )

    def _users_of(self, view: View) -> int:
        column, users = self._counted(view, "messages", self.universe)
        if not users <= column.size <= users * (self.extra + 1):
            raise InvalidValue("view", f"must hold 1 to {self.extra + 1} messages of each user")
        return users

    def _play(self, values: NDArray[Any], rng: RandomSource) -> SumResult:
        # The estimate is a function of the multiset, so messages are counted in any order.
        counts, sent, users = np.zeros(self.dimension, dtype=np.int64), 0, values.size
        for part in blocks(users, max(1, ENTRIES_PER_PASS // (self.extra + 1))):
            messages = self._messages(values[part], rng)
            messages = messages[messages != 0]
            counts += self.counts(messages)
            sent += messages.size
        return self._result(self._estimate(counts, sent, users), users)

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        column = view.columns[0]
        return self._estimate(self.counts(column), column.size, users)

    def counted(self, counts: NDArray[np.int64], sent: int, users: int) -> SumResult:
        """Return the result for the `counts` of ``sent`` messages of enough users."""
        self._participation.check("counts", users)
        return self._result(self._estimate(counts, sent, users), users)

    def counts(self, messages: NDArray[Any]) -> NDArray[np.int64]:
        """Return how many messages name each category."""
        q = self.modulus
        step, value = np.divmod(messages - 1, q)
        step += 1
        counts = np.bincount(value, minlength=q)
        for _ in range(self.set_size - 1):
            value += step
            value[value >= q] -= q
            counts += np.bincount(value, minlength=q)
        return counts[: self.dimension]

    def _estimate(self, counts: NDArray[np.int64], sent: int, users: int) -> NDArray[np.float64]:
        """Return the unbiased counts of users, each correctly rounded.

        All but one of each user's messages are random, and name a fixed category with probability c
        / q.
        """
        random = (sent - users) * Fraction(self.set_size, self.modulus)
        centre = random + users * (1 - self._gain)
        a, b = (1 / self._gain).as_integer_ratio()
        up, down = (centre / self._gain).as_integer_ratio()
        whole = math.lcm(b, down)
        a, up = a * (whole // b), up * (whole // down)
        return np.array([(a * count - up) / whole for count in counts.tolist()])
