"""Differentially private sums (BBGN20, Algorithms 5 and 6), of numbers or of vectors.

Values are encoded as integers, noise is added, and a transport adds them up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np

from ikos._validation import InvalidValue, flag, integer, quote, round_up, validate_users
from ikos.counts import Layout, Remaining
from ikos.counts.private import checked_budget
from ikos.counts.vectors import ENVELOPE_BYTES
from ikos.data.domains import Bounds, Coordinates, Domain
from ikos.data.encoding import MAX_PRECISION, Encoding, coordinates_of, decode
from ikos.data.reading import Reader, Values
from ikos.data.sensitivity import Sensitivity
from ikos.noise.base import Noise, PlacedNoise
from ikos.numeric import distributions
from ikos.numeric.distributions import default_modulus
from ikos.primitives.randomness import RandomSource
from ikos.results.conditions import PROMISED, pseudorandom, reports
from ikos.results.error import NoisySum, SumError
from ikos.results.guarantees import Guarantee
from ikos.results.sums import SumResult, footer, noise_warnings
from ikos.results.text import at_least, grouped
from ikos.sums.base import Sum, chosen_recipe, participation
from ikos.transports import Recipe, Shuffled
from ikos.transports.base import Need, Totals

MAX_USERS, MAX_VECTORS = 1 << 53, 10**9
"""Largest numbers of users with scalars and with vectors."""

MAX_RELEASES = 10**6
"""Largest number of sums about the same users."""


def checked_precision(precision: object) -> int:
    """Check and return the number of steps of an encoding."""
    return integer("precision", precision, low=1, high=MAX_PRECISION)


def checked_modulus(
    modulus: object,
    users: int,
    precision: int,
    noise: distributions.Distribution,
    order: Callable[[int], int],
) -> int:
    """Check and return the group order; by default, one that is rarely too small.

    ``order`` returns the smallest one, from a number on, that a transport takes.
    """
    if modulus is None:
        return order(default_modulus(users, precision, noise))
    q = integer("modulus", modulus, low=2)
    if q <= users * precision:
        raise InvalidValue(
            "modulus", f"must be above n * precision = {users * precision}, got {quote(modulus)}"
        )
    return q


@dataclass(frozen=True, repr=False)
class _Private(Sum[SumResult]):
    """The common part of private sums of scalars and of vectors.

    The budget, and the proved ``total_delta``, are for ``releases`` about the same users.
    """

    epsilon: Fraction
    delta: Fraction
    releases: int
    total_delta: float

    def _size(
        self, recipe: Recipe, need: Need, domain: Domain, encoding: Encoding, modulus: int | None
    ) -> None:
        """Set all fields: the transport and the noise that a recipe proves for an encoding."""
        noise = recipe.largest_noise(need).distribution(need.users.n)
        q = checked_modulus(modulus, need.users.n, encoding.precision, noise, recipe.order)
        transport, added, proved = recipe.size(need, encoding, q)
        reader = Reader(need.users, domain, encoding, added, transport.ring, need.scalar)
        budget = need.epsilon, need.delta, need.releases
        _Private.__init__(self, reader, transport, *budget, proved)

    def __post_init__(self) -> None:
        _ = self.guarantee, self._cost  # computed once, not in each run

    @property
    def domain(self) -> Domain:
        """The domain of the values."""
        return self.reader.domain

    @property
    def encoding(self) -> Encoding:
        """The encoding of values as integers."""
        return cast(Encoding, self.reader.encoding)

    @property
    def _added(self) -> PlacedNoise:
        return cast(PlacedNoise, self.reader.noise)

    @property
    def noise(self) -> Noise:
        """The noise of each coordinate, in steps of the encoding."""
        return self._added.noise

    @property
    def precision(self) -> int:
        """Number of steps of the encoding between the bounds of a coordinate."""
        return self.encoding.precision

    @property
    def modulus(self) -> int:
        """Order of each coordinate's group."""
        return self.transport.group.q

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee per user, for one run or for all ``releases`` together."""
        transport, delta = self.transport, self.total_delta
        promise = self.encoding.promise
        conditions = (
            *([] if promise is None or promise.proved else [PROMISED]),
            *transport.conditions,
            reports(self.releases),
            pseudorandom(),
        )
        theorem = transport.theorem
        if not self.reader.scalar or self.messages.delta is None:  # proved without its noise
            theorem = f"{self.noise.theorem}; {theorem}"
        return Guarantee(round_up(self.epsilon), delta, theorem, conditions if delta < 1 else ())

    def error(self, users: int) -> SumError:
        """Return bounds on the error of a sum over ``users`` (BBGN20, Section 5.3)."""
        users, transport = validate_users(users, self.n), self.transport
        return NoisySum(
            self._added.distribution(users),
            self.precision,
            users,
            self.encoding.bounds.width,
            self.modulus,
            rounded=not self.encoding.exact,
            digits=transport.digits,
            failure=transport.failure,
        ).error(self.reader.dimension)

    @cached_property
    def _error(self) -> SumError:
        return self.error(self.n)

    @property
    def mse(self) -> float:
        """Bound on the mean squared error (of vectors, in Euclidean norm) over all n users."""
        return self._error.mean_square

    @property
    def influence(self) -> float:
        """Greatest Euclidean distance by which one user's messages alone can move the estimate.

        Other transports than shares bound it more tightly.
        """
        return self.encoding.bounds.width * (self.transport.reach / self.precision)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        bounds, noise = self.encoding.bounds, self.noise
        return {
            "epsilon": str(self.epsilon),
            f"noise_{noise.parameter}": str(noise.value),
            "precision": self.precision,
            "lower": bounds.lower.hex(),
            "upper": bounds.upper.hex(),
            "integers": self.encoding.exact,
            "secure_sum": self.transport.parameters,
        }

    def randomize(self, x: Values, rng: RandomSource | None = None, *, context: bytes = b"") -> Any:
        """Return all users' shares of encoded and noisy values, as `share`."""
        return self.share(x, rng, context=context)

    def _decoded(self, totals: Totals, rng: RandomSource | None = None) -> SumResult:
        p, q, users, bounds = self.precision, self.modulus, totals.users, self.encoding.bounds
        mean = self._added.mean(users)
        whole = math.floor(mean)  # subtracted first, for a window around the possible sums
        steps = [decode((z - whole) % q, users, p, q) for z in totals.sums]
        sums = bounds.totals(steps, p, users, mean - whole)
        estimate: Any = sums[0]
        if not self.reader.scalar:
            estimate = self.domain.shaped(np.array(sums))[0]
            estimate.setflags(write=False)
        guarantee = self.guarantee
        return SumResult(
            estimate=estimate,
            users=users,
            domain=self.domain,
            guarantee=guarantee if rng is None else guarantee.of_run(rng),
            cost=replace(self._cost, users=users),
            error=self._error if users == self.n else self.error(users),
            refused=totals.refused,
            soundness=self.transport.soundness,
            certificate=self.certificate(totals),
        )

    @property
    def _values(self) -> str:
        return f"{self.domain}, precision={self.precision}"

    def __str__(self) -> str:
        error = math.sqrt(self.mse)
        which = "sum, " * self.reader.scalar
        lines = [
            self._title,
            f"error     {grouped(at_least(error, 4))} ({which}root mean square, at most)",
            *self.transport.influence_lines(self.encoding.step),
            *(f"beware    {warning}" for warning in noise_warnings(self.domain, self.n, error)),
            *footer(self.guarantee, str(self.cost()), self.n),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, init=False, repr=False)
class PrivateSum(_Private):
    """Differentially private summation: exact discrete Laplace noise that no user adds alone.

    Each user rounds its value to {0..precision} at random, adds a noise share, and sends the
    result through `SecureSum`. The noise shares of ``min_honest`` users add up to exactly discrete
    Laplace noise of inverse scale noise_epsilon / precision, drawn by integer arithmetic.

    Parameters
    ----------
    n : int
        Users, from 1 to 2^53; public.
    epsilon, delta : float
        The guarantee, under replacement of one user's value. The noise alone has pure differential
        privacy; ``delta`` and a small fraction of ``epsilon`` pay for the imperfect hiding.
    precision : int, optional
        Number of steps p of the encoding, at most 2^52. By default the smallest p at which
        randomized rounding adds at most 1 % to the variance of the noise, about 3.5 epsilon
        sqrt(min_honest).
    modulus : int, optional
        Order q of the group, above n p. A sum that wraps around gives a wrong result and costs no
        privacy. By default the smallest power of two at which the noisy sum wraps around with
        probability at most 2^-40 and this adds at most a thousandth of the noise's variance to the
        mean squared error; with ``analysis="ghazi2020"``, proved for primes only, the next prime.
    messages, analysis, shuffler, clear_share, corrupt_shufflers
        As in `SecureSum`; by default the fewest messages that prove (epsilon, delta).
    reserve : float or "fewest"
        Largest fraction of ``epsilon`` that may be spent on the imperfect hiding instead of noise.
        "fewest" is 1 %, or where that saves messages 2 or 4 %; the error grows by as much.
    min_honest : int, optional
        The guarantee holds while at least this many users are honest and present; ``n`` by default.
        With all n present, the noise variance is n / min_honest times as large. `run` and `analyze`
        refuse fewer.
    lower, upper : float
        Public bounds on the values, within 1e100. Results are in the same units.
    integers : bool
        Promise that the values are integers, and refuse other values. The bounds must be integers,
        and the precision is ``upper - lower``: nothing is rounded.

    Attributes
    ----------
    messages : MessageCount
        Messages per user, the sigma and delta proved for them, and ``noise_epsilon``, the epsilon
        that remains for the noise.
    guarantee : Guarantee
        With its theorem and conditions, for one run: k runs about the same users are (k epsilon, k
        delta)-private.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> ages = np.random.default_rng(0).uniform(18, 90, 10_000)
    >>> protocol = PrivateSum(10_000, epsilon=1, delta=1e-8, lower=0, upper=100)
    >>> result = protocol.run(ages, DeterministicRandom(0))  # in production, omit the generator
    >>> low, high = result.interval(0.999999)
    >>> bool(low < ages.sum() < high), bool(high - low < 4000)
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
        analysis: str = "best",
        shuffler: str = "parallel",
        clear_share: bool = True,
        min_honest: int | None = None,
        corrupt_shufflers: int = 0,
        reserve: float | Fraction | str = 0.01,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
        transport: str | Recipe | None = None,
    ) -> None:
        n = integer("n", n, low=1, high=MAX_USERS)
        budget, allowed, _ = checked_budget(epsilon, delta, reserve)
        options = Shuffled(shuffler, clear_share, corrupt_shufflers, messages, analysis, reserve)
        recipe, users = chosen_recipe(transport, options), participation(n, min_honest)
        bounds = Bounds(lower, upper)

        def need(encoding: Encoding) -> Need:
            return Need(users, bounds, budget, allowed, encoding.shift(1), 1, scalar=True)

        known = Coordinates(bounds, flag("integers", integers), None)
        encoding = recipe.encoding(known, precision, need)
        self._size(recipe, need(encoding), bounds, encoding, modulus)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        return {"protocol": "ikos-private-sum-2", **super().parameters}

    def remaining(
        self,
        *,
        honest: int | None = None,
        corrupt_shufflers: int | None = None,
        delta: float | Fraction | None = None,
    ) -> Remaining:
        """Return the remaining guarantee if fewer users or shufflers are honest than planned.

        Parameters
        ----------
        honest, corrupt_shufflers : int, optional
            As in `SecureSum.remaining`.
        delta : float, optional
            The target, by default the delta of the sum.

        Returns
        -------
        Remaining
            The smallest epsilon proved with this delta, rounded up, by the published analysis
            requested, or by "best". A delta for which none is proved is refused.
        """
        allowed = self.delta if delta is None else delta
        present = {"honest": honest, "corrupt_shufflers": corrupt_shufflers}
        return self.transport.remaining_privacy(self.noise, self.precision, allowed, **present)


@dataclass(frozen=True, init=False, repr=False)
class PrivateVectorSum(_Private):
    """Differentially private summation of vectors: exact noise that no user adds alone.

    Like `ikos.PrivateSum`, with exactly discrete Laplace or Skellam noise in every coordinate,
    whichever is proved with less noise.

    Parameters
    ----------
    n : int
        Users; public.
    domain : Box, Ball, SparseTernary, Categories or Portions
        The domain of the vectors. Reals are rounded at random to steps; integers are not.
    epsilon, delta : float
        The guarantee, under replacement of one user's whole vector.
    precision : int, optional
        Number of steps between the smallest and the largest value of a coordinate. By default the
        smallest power of two at which rounding adds at most 1 % to the variance of the noise, and
        its effect on sensitivities adds at most 1 % to the standard deviation.
    layout, overhead
        As in `SecureVectorSum`; ``messages`` are per block. With "masked", the guarantee is
        computational, and all of epsilon is spent on the noise.
    sensitivity : Sensitivity, optional
        For a Box: a promised bound on the distance between any two vectors of a user, in the data's
        units. Privacy rests on it.
    integers : bool
        For a Box: promise that all entries are integers, and refuse other entries.
    modulus, messages, analysis, shuffler, clear_share, min_honest, corrupt_shufflers, reserve
        As in `ikos.PrivateSum`.
    releases : int
        Number of sums about the same users that the guarantee covers, such as rounds of federated
        learning. Later vectors may depend on earlier results.

    Attributes
    ----------
    layout : Layout
        Messages per user, and their proved guarantee.
    noise : LaplaceNoise or SkellamNoise
        Its ``kind`` is "laplace", with a ``rate``, or "skellam", with a ``variance``.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> from ikos import Ball
    >>> protocol = PrivateVectorSum(1000, Ball(64), epsilon=1, delta=1e-8)
    >>> x = np.random.default_rng(0).normal(size=(1000, 64))
    >>> x /= np.linalg.norm(x, axis=1, keepdims=True)
    >>> result = protocol.run(x, DeterministicRandom(0))  # in production, omit the generator
    >>> bool(np.linalg.norm(result.estimate - x.sum(axis=0)) < 1.5 * result.standard_error)
    True
    """

    def __init__(
        self,
        n: int,
        domain: Domain,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        modulus: int | None = None,
        layout: str | int = "separate",
        overhead: int = ENVELOPE_BYTES,
        messages: int | None = None,
        sensitivity: Sensitivity | None = None,
        integers: bool = False,
        analysis: str = "best",
        shuffler: str = "parallel",
        clear_share: bool = True,
        min_honest: int | None = None,
        corrupt_shufflers: int = 0,
        reserve: float | Fraction | str = 0.01,
        releases: int = 1,
        transport: str | Recipe | None = None,
    ) -> None:
        n = integer("n", n, low=1, high=MAX_VECTORS)
        budget, allowed, _ = checked_budget(epsilon, delta, reserve)
        options = Shuffled(
            shuffler, clear_share, corrupt_shufflers, messages, analysis, reserve, layout, overhead
        )
        recipe, users = chosen_recipe(transport, options), participation(n, min_honest)
        times = integer("releases", releases, low=1, high=MAX_RELEASES)
        known = coordinates_of(domain, integers, sensitivity)
        d = domain.dimension

        def need(encoding: Encoding) -> Need:
            return Need(users, domain, budget, allowed, encoding.shift(d), times, scalar=False)

        encoding = recipe.encoding(known, precision, need)
        self._size(recipe, need(encoding), domain, encoding, modulus)

    @property
    def layout(self) -> Layout:
        """Messages per user; see `guarantee` for their proved guarantee."""
        return self.transport.layout

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that the parties must agree on."""
        promise = self.encoding.promise
        bounds = None if promise is None else (promise.l1, promise.l2, promise.linf)
        sizes = getattr(self.domain, "sizes", ())
        return {
            "protocol": "ikos-private-vector-sum-2",
            **super().parameters,
            "releases": self.releases,
            "sensitivity": None if bounds is None else [str(bound) for bound in bounds],
            "domain": type(self.domain).__name__,
            **({"sizes": list(sizes)} if len(sizes) > 1 else {}),
            **self.domain.shape_parameter,
        }
