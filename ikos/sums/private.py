"""Differentially private sums (BBGN20, Algorithms 5 and 6), of numbers or of vectors.

Values are encoded as integers, noise is added, and `ShuffledSum` adds them up.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import flag, floating, integer, quote, round_up, validate_users
from ikos.counts import MessageCount, Remaining, private_remaining
from ikos.counts.analyses import same_family
from ikos.counts.private import checked_budget
from ikos.counts.published import covered
from ikos.counts.secure import MAX_MESSAGES, checked_analysis
from ikos.counts.types import Trust
from ikos.counts.vectors import ENVELOPE_BYTES, MASKED, checked_layout
from ikos.data.domains import Bounds, Domain
from ikos.data.encoding import MAX_PRECISION, Encoding, converge, decode, encoding_of
from ikos.data.sensitivity import Sensitivity
from ikos.noise.skellam import SkellamNoise, VectorNoise
from ikos.numeric.distributions import (
    Distribution,
    PolyaDifference,
    default_modulus,
    default_precision,
)
from ikos.numeric.rounding import UP, exact, float_up
from ikos.primitives.concurrency import Scratch
from ikos.primitives.randomness import RandomSource
from ikos.primitives.samplers import polya_shares, skellam_draws
from ikos.results.error import NoisySum, SumError
from ikos.results.sums import Guarantee, SumResult, at_least, footer
from ikos.sums.calibration import MAX_RELEASES, NoiseCalibration, reports
from ikos.sums.masked_vectors import VectorSum, masked_vectors
from ikos.sums.secure import SecureSum, SecureVectorSum
from ikos.sums.shuffled_sum import (
    PSEUDORANDOM,
    NoiseShares,
    ShuffledSum,
    Values,
)

MAX_USERS, MAX_VECTORS = 1 << 53, 10**9
"""Largest numbers of users with numbers and with vectors."""

METHODS = {
    "pure": "discrete Laplace noise of l1 sensitivity",
    "skellam": "Skellam noise, by Gaussian differential privacy of rounded vectors' l2 distances",
}


def checked_precision(precision: object) -> int:
    """Check and return the number of steps of an encoding."""
    return integer("precision", precision, low=1, high=MAX_PRECISION)


def checked_modulus(
    modulus: object, users: int, precision: int, law: Distribution, analysis: str
) -> int:
    """Check and return the group order; by default, `default_modulus`."""
    if modulus is None:
        return covered(analysis, default_modulus(users, precision, law))
    q = integer("modulus", modulus, low=2)
    if q <= users * precision:
        raise ValueError(
            f"modulus must be above n * precision = {users * precision}, got {quote(modulus)}"
        )
    return q


@dataclass(frozen=True, repr=False)
class PrivateAggregation(ShuffledSum[SumResult]):
    """The common part of `PrivateSum` and `PrivateVectorSum`.

    ``noise`` is per coordinate; the budget is for ``releases`` about the same users.
    """

    domain: Domain
    epsilon: Fraction
    delta: Fraction
    encoding: Encoding
    noise: VectorNoise
    releases: int

    def _calibrate(
        self,
        plan: NoiseCalibration,
        domain: Domain,
        encoding: Encoding,
        law: Distribution,
        modulus: int | None,
        messages: int | None,
        *,
        masked: bool = False,
    ) -> None:
        """Set all fields: the messages and the noise that a plan proves for an encoding."""
        q = checked_modulus(modulus, plan.users, encoding.precision, law, plan.analysis)
        if messages is not None:
            messages = integer("messages", messages, low=1, high=MAX_MESSAGES)
        masks, noise = None, plan.largest_noise
        if masked:
            if q & (q - 1):
                raise ValueError(
                    f"modulus must be a power of two with masked vectors, got {quote(q)}"
                )
            p, middle = encoding.precision, q // 2 - 1
            how: dict[str, Any] = {"overhead": plan.overhead, "analysis": plan.analysis}
            how |= {"allowed": plan.hiding(), "deviation": noise.deviation}
            masks = masked_vectors(
                plan.users, domain.dimension, p, middle, plan.trust, SecureVectorSum, **how
            )
            layout = plan.masked(masks.layout(q.bit_length() - 1), masks.lost(masks.keys.sigma))
        else:
            layout, noise = plan.chosen(q, messages)
        PrivateAggregation.__init__(
            self,
            plan.users,
            domain.dimension,
            q,
            layout,
            plan.trust,
            domain=domain,
            epsilon=plan.epsilon,
            delta=plan.delta,
            encoding=encoding,
            noise=noise,
            releases=plan.releases,
            masks=masks,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        # computed once, not in each run
        _ = self.guarantee, self.masks or self.setting, self._cost

    @property
    def precision(self) -> int:
        """Number of steps of the encoding between the bounds of a coordinate."""
        return self.encoding.precision

    @property
    def modulus(self) -> int:
        """Order of each coordinate's group."""
        return self.q

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee of each user, for one run or for all ``releases`` together."""
        delta, theorem = self.layout.delta, self.theorem
        assert delta is not None
        promise = "while any two vectors that a user may have are within the promised sensitivity"
        conditions = (
            *([promise] if self.encoding.promised else []),
            *self.conditions,
            reports(self.releases),
            PSEUDORANDOM,
        )
        if not self.scalar:
            theorem = f"{METHODS[self.noise.method]}; {theorem}"
        said, masked = conditions if delta < 1 else (), self.masks is not None
        return Guarantee(round_up(self.epsilon), delta, theorem, said, computational=masked)

    def error(self, users: int) -> SumError:
        """Return bounds on the error of a sum over this many users (BBGN20, Section 5.3)."""
        users, masks = validate_users(users, self.n), self.masks
        spoiled: dict[str, Any] = {}
        if masks is not None:
            spoiled = {"digits": masks.parameters.digits, "failure": masks.parameters.failure}
        return NoisySum(
            self.noise.law(Fraction(users, self.trust.min_honest)),
            self.encoding.precision,
            users,
            self.encoding.bounds.width,
            self.q,
            rounded=not self.encoding.exact,
            **spoiled,
        ).error(self.dimension)

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

        A user may send any group elements, and so move each coordinate to any of the q points of
        the window that sums are decoded to (BBGN20, Section 8).
        """
        reach = floating(Fraction(self.q - 1, self.precision))
        return self.encoding.bounds.width * reach * math.sqrt(self.dimension)

    @property
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""
        bounds = self.encoding.bounds
        return {
            "epsilon": str(self.epsilon),
            **self._noise_parameters,
            "precision": self.precision,
            "lower": bounds.lower.hex(),
            "upper": bounds.upper.hex(),
            "integers": self.encoding.exact,
            "secure_sum": self.sharing_parameters,
        }

    @property
    def _noise_parameters(self) -> dict[str, object]:
        if isinstance(self.noise, SkellamNoise):
            return {"noise_variance": str(self.noise.variance)}
        return {"noise_rate": str(self.noise.rate)}

    @cached_property
    def secure_sum(self) -> Any:
        """The `SecureSum` or `SecureVectorSum` of the noisy integers; of keys, for masked ones."""
        if self.masks is not None:
            return self.masks.keys
        count, how = self.layout.count, asdict(self.trust)
        how |= {"messages": count.total, "analysis": count.analysis or "best"}
        if self.scalar:
            return SecureSum(self.n, self.q, **how)
        return SecureVectorSum(self.n, self.dimension, self.q, layout=self.layout.length, **how)

    def checked(self, x: Any, first: int = 0) -> NDArray[Any]:
        """Return checked values in the data's units; arrays of a suitable type are not copied."""
        values = self.domain.values(x, first)
        self.encoding.check(values, first)
        return values

    def rounded(
        self, values: NDArray[Any], rng: RandomSource, out: NDArray[Any], scratch: Scratch
    ) -> None:
        """Write checked values, rounded at random, as group elements."""
        self.encoding.encode(values, rng, out.reshape(-1), scratch)

    def noise_shares(self, size: int, rng: RandomSource) -> NoiseShares:
        """Draw the noise of so many entries; all are independent, also those of one variable."""
        if isinstance(self.noise, SkellamNoise):
            share = self.noise.variance / self.trust.min_honest
            return np.arange(size), skellam_draws(share, size, rng)
        return polya_shares(size, self.noise.rate, self.trust.min_honest, rng)

    def randomize(self, x: Values, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return all users' shares of encoded and noisy values, as `share` does."""
        return self.share(x, rng)

    def _result(self, totals: list[int], users: int, rng: RandomSource | None = None) -> SumResult:
        p, bounds = self.encoding.precision, self.encoding.bounds
        steps = [decode(z, users, p, self.q) for z in totals]
        sums = bounds.totals(steps, p, users)
        estimate: Any = sums[0]
        if not self.scalar:
            estimate = np.array(sums)
            estimate.setflags(write=False)
        guarantee = self.guarantee
        return SumResult(
            estimate=estimate,
            users=users,
            domain=self.domain,
            guarantee=guarantee if rng is None else guarantee.of_run(rng),
            cost=replace(self._cost, users=users),
            error=self._error if users == self.n else self.error(users),
        )

    @property
    def _values(self) -> str:
        return f"{self.domain}, precision={self.precision}"

    def __str__(self) -> str:
        error = at_least(math.sqrt(self.mse), 4)
        error = f"error     {error} ({'sum, ' * self.scalar}root mean square, at most)"
        return "\n".join((self._title, error, *footer(self.guarantee, str(self.cost()), self.n)))


@dataclass(frozen=True, init=False, repr=False)
class PrivateSum(PrivateAggregation):
    """Differentially private summation: exact discrete Laplace noise that no user adds alone.

    Each user rounds its value to {0..precision} at random, adds a noise share, and sends the
    result through `SecureSum`. The noise shares of ``min_honest`` users add up to exactly discrete
    Laplace noise of inverse scale noise_epsilon / precision, drawn by integer arithmetic.

    Parameters
    ----------
    n : int
        Users, from 1 to 2^53; public.
    epsilon, delta : float
        The guarantee, under replacement of one user's value. The noise alone is purely private;
        ``delta`` and a small part of ``epsilon`` pay for the imperfect hiding.
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
    reserve : float
        Largest share of ``epsilon`` that may be spent on the imperfect hiding instead of noise.
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
        Messages of each user, the sigma and delta proved for them, and ``noise_epsilon``, the part
        of epsilon left for the noise.
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
        reserve: float | Fraction = 0.01,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
    ) -> None:
        n = integer("n", n, low=1, high=MAX_USERS)
        budget, allowed, reserve = checked_budget(epsilon, delta, reserve)
        analysis = checked_analysis(analysis)
        trust = Trust.of(n, shuffler, clear_share, min_honest, corrupt_shufflers)
        bounds = Bounds(lower, upper)
        if exact := flag("integers", integers):
            precision = bounds.whole_steps(precision)
        if precision is None:
            precision = default_precision(budget, trust.min_honest)
        p = checked_precision(precision)
        encoding = Encoding(bounds, p, exact, None)
        plan = NoiseCalibration(
            users=n,
            trust=trust,
            epsilon=budget,
            delta=allowed,
            reserve=reserve,
            shift=encoding.shift(1),
            length=1,
            analysis=analysis,
            always_pure=True,
        )
        law = PolyaDifference(budget * (1 - reserve) / p, Fraction(n, trust.min_honest))
        self._calibrate(plan, bounds, encoding, law, modulus, messages)

    @property
    def lower(self) -> float:
        """The smallest value."""
        return self.encoding.bounds.lower

    @property
    def upper(self) -> float:
        """The largest value."""
        return self.encoding.bounds.upper

    @property
    def integers(self) -> bool:
        """Whether the values are promised to be integers."""
        return self.encoding.exact

    @property
    def messages(self) -> MessageCount:
        """Messages of each user, and what is proved for them."""
        return self.layout.count

    @property
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""
        return {"protocol": "ikos-private-sum-2", **super().parameters}

    @property
    def rate(self) -> Fraction:
        """Inverse scale of the noise, in steps of the encoding, exactly."""
        assert not isinstance(self.noise, SkellamNoise)
        return self.noise.rate

    def remaining(
        self,
        *,
        honest: int | None = None,
        corrupt_shufflers: int | None = None,
        delta: float | Fraction | None = None,
    ) -> Remaining:
        """Return what is still proved if fewer users or shufflers are honest than planned.

        Parameters
        ----------
        honest, corrupt_shufflers : int, optional
            As in `SecureSum.remaining`.
        delta : float, optional
            The delta to be reached, by default the sum's own.

        Returns
        -------
        Remaining
            The smallest epsilon proved with this delta, rounded up, by the published analysis that
            was asked for, or by "best". A delta with which none is proved is refused.
        """
        count, planned = self.messages, self.trust
        assert count.noise_epsilon is not None
        users = self.min_honest if honest is None else honest
        corrupt = planned.corrupt_shufflers if corrupt_shufflers is None else corrupt_shufflers
        left = private_remaining(
            self.n,
            self.modulus,
            count.total,
            count.noise_epsilon,
            self.delta if delta is None else delta,
            self.precision,
            honest=users,
            noise_users=self.min_honest,
            corrupt_shufflers=corrupt,
            analysis=same_family(count.analysis),
            **planned.graph,
        )
        # the search may miss the plan by a hair, where the plan itself holds
        if users < self.min_honest or corrupt > planned.corrupt_shufflers:
            return left
        epsilon = float_up(exact(self.epsilon, UP))
        if left.epsilon <= epsilon or not count.delta or count.delta > left.delta:
            return left
        return replace(left, epsilon=epsilon)


@dataclass(frozen=True, init=False, repr=False)
class PrivateVectorSum(VectorSum[SumResult], PrivateAggregation):
    """Differentially private summation of vectors: exact noise that no user adds alone.

    Like `ikos.PrivateSum`, with exactly discrete Laplace or Skellam noise in every coordinate, the
    smallest that is proved.

    Parameters
    ----------
    n : int
        Users; public.
    domain : Box, Ball, SparseTernary or Categories
        Where the vectors lie. Reals are rounded at random to steps; integers are not.
    epsilon, delta : float
        The guarantee, under replacement of one user's whole vector.
    precision : int, optional
        Number of steps between the smallest and the largest value of a coordinate. By default the
        smallest power of two at which rounding adds at most 1 % to the variance of the noise, and
        its effect on sensitivities adds at most 1 % to the standard deviation.
    layout, overhead
        As in `SecureVectorSum`; ``messages`` are per block. With "masked", the guarantee is
        computational, and all of epsilon is for the noise.
    sensitivity : Sensitivity, optional
        For a Box: a promise of how far apart any two vectors of a user may be, in the data's units.
        Privacy rests on it.
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
        Messages of each user, and what is proved for them.
    noise : LaplaceNoise or SkellamNoise
        Its ``method`` is "pure", with a ``rate``, or "skellam", with a ``variance``.

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
        reserve: float | Fraction = 0.01,
        releases: int = 1,
    ) -> None:
        n = integer("n", n, low=1, high=MAX_VECTORS)
        budget, allowed, reserve = checked_budget(epsilon, delta, reserve)
        analysis = checked_analysis(analysis)
        trust = Trust.of(n, shuffler, clear_share, min_honest, corrupt_shufflers)
        times = integer("releases", releases, low=1, high=MAX_RELEASES)
        made = encoding_of(domain, precision, integers, sensitivity)
        length = checked_layout(layout, domain.dimension, messages)
        added = integer("overhead", overhead, low=0)

        def plan(encoding: Encoding) -> NoiseCalibration:
            return NoiseCalibration(
                users=n,
                trust=trust,
                epsilon=budget,
                delta=allowed,
                reserve=reserve * (layout != MASKED),  # nothing else costs epsilon
                shift=encoding.shift(domain.dimension),
                length=length,
                overhead=added,
                analysis=analysis,
                releases=times,
            )

        def signal(encoding: Encoding) -> float:
            ideal = replace(plan(encoding), drawn=False)
            return encoding.precision / ideal.largest_noise.deviation

        if not isinstance(made, Encoding):
            made = converge(made, signal, math.sqrt(trust.min_honest) / 2)
        found = plan(made)
        law = found.largest_noise.law(Fraction(n, trust.min_honest))
        self._calibrate(found, domain, made, law, modulus, messages, masked=layout == MASKED)

    @property
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""
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
        }
