"""Differentially private sums of vectors by secure summation, with noise in every coordinate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import choice, flag, floating, integer, quote, round_up, validate_users
from ikos.accounting.vector_noise import NoiseRate, Sensitivity
from ikos.accuracy import NoiseLaw
from ikos.aggregation.calibration import MAX_RELEASES, HiddenNoise, NoiseCalibration, reports
from ikos.aggregation.private_sum import checked_modulus
from ikos.aggregation.protocol import BaseProtocol
from ikos.aggregation.secure_sum import PSEUDORANDOM, digest, unproved_conditions
from ikos.aggregation.secure_vector_sum import LAYOUTS, Elements, SecureVectorSum
from ikos.concurrency import Progress
from ikos.counts import SHUFFLERS, Layout
from ikos.counts.private import checked_budget
from ikos.counts.secure import MAX_MESSAGES, checked_analysis, checked_trust
from ikos.counts.vectors import SEPARATE
from ikos.domains import Domain
from ikos.encoding import decode
from ikos.errors import NoisySum, SumError
from ikos.noise import polya_population
from ikos.randomness import RandomSource, secure
from ikos.results import Cost, Guarantee, SumResult
from ikos.shuffling import View
from ikos.vector_encoding import Encoding, converge, encoding_of

METHODS = {
    "pure": "discrete Laplace noise of l1 sensitivity",
    "composition": "discrete Laplace noise, by optimal composition over the coordinates",
    "renyi": "discrete Laplace noise, by Renyi composition of l2 sensitivity",
}


@dataclass(frozen=True, init=False, repr=False)
class PrivateVectorSum(BaseProtocol):
    """Differentially private summation of vectors: exact noise that nobody has to add alone.

    Each user encodes its vector in integers, adds a noise share to each coordinate, and sends the
    result through `SecureVectorSum`. The noise shares of ``min_honest`` users add up to exactly
    discrete Laplace noise in every coordinate, of the largest rate (inverse scale) that is proved.

    Parameters
    ----------
    n : int
        Users; public.
    domain : Box, Ball, SparseTernary or Categories
        Where the vectors lie. Reals are rounded at random to steps, integers and categories are
        not.
    epsilon, delta : float
        The guarantee, under replacement of one user's whole vector.
    precision : int, optional
        Steps between the smallest and the largest value of a coordinate. By default the smallest
        power of two at which rounding adds at most 1 % to the variance of the noise, and what it
        adds to sensitivities at most 1 % to the deviation.
    modulus : int, optional
        Order q of each coordinate's group, above n precision; by default as of `ikos.PrivateSum`,
        for each coordinate.
    layout : {"separate sums", "one group"}
        As of `SecureVectorSum`.
    messages : int, optional
        Messages of each sum in all, the clear share included; used even where they prove nothing.
        By default the smallest number that proves (epsilon, delta).
    sensitivity : Sensitivity, optional
        For a Box: a promise how far any two vectors that a user may have are apart, in the data's
        units. Privacy rests on it.
    integers : bool
        For a Box: promise that all entries are integers, and refuse others.
    analysis, shuffler, clear_share, min_honest, corrupt_shufflers
        As of `ikos.PrivateSum`.
    reserve : float
        As of `ikos.PrivateSum`.
    releases : int
        How many sums about the same users the guarantee is for, all of them together: the rounds
        of federated learning. Later vectors may depend on earlier results. The noise grows with
        about its square root, where it is not purely private.

    Attributes
    ----------
    layout : Layout
        Messages of each user, and what is proved for them.
    noise : NoiseRate
        The rate of the noise, and which bound proves it: "pure", "composition" or "renyi".
    guarantee : Guarantee
        What holds, by which theorem, under which conditions.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or nothing is proved for the setting
        and no ``messages`` are given.

    Examples
    --------
    >>> import numpy as np
    >>> from ikos.testing import DeterministicRandom
    >>> from ikos.vectors import Ball
    >>> protocol = PrivateVectorSum(1000, Ball(64), epsilon=1, delta=1e-8)
    >>> protocol.noise.method, round(protocol.error(1000).coordinate.mean_square ** 0.5, 1)
    ('renyi', 14.9)
    >>> x = np.random.default_rng(0).normal(size=(1000, 64))
    >>> x /= np.linalg.norm(x, axis=1, keepdims=True)
    >>> result = protocol.run(x, DeterministicRandom(0))  # omit the second in earnest
    >>> bool(np.linalg.norm(result.estimate - x.sum(axis=0)) < 1.5 * result.standard_error)
    True
    """

    n: int
    min_honest: int
    domain: Domain
    epsilon: Fraction
    encoding: Encoding
    noise: NoiseRate
    secure_sum: SecureVectorSum
    layout: Layout
    releases: int

    def __init__(
        self,
        n: int,
        domain: Domain,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        modulus: int | None = None,
        layout: str = SEPARATE,
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
        n, _ = self._checked_users(n)
        budget, allowed, spare = checked_budget(epsilon, delta, reserve)
        choice("layout", layout, LAYOUTS)
        analysis = checked_analysis(analysis)
        choice("shuffler", shuffler, SHUFFLERS)
        honest, corrupt = checked_trust(n, min_honest, corrupt_shufflers, shuffler)
        clear = flag("clear_share", clear_share)
        times = integer("releases", releases, low=1, high=MAX_RELEASES)
        made = encoding_of(domain, precision, integers, sensitivity)

        def hiding(encoding: Encoding) -> NoiseCalibration:
            return NoiseCalibration(
                honest=honest,
                most=n,
                epsilon=budget,
                delta=allowed,
                reserve=spare,
                shift=encoding.shift(domain.dimension),
                layout=layout,
                analysis=analysis,
                shuffler=shuffler,
                clear_share=clear,
                releases=times,
            )

        def signal(encoding: Encoding) -> float:
            return encoding.precision * float(hiding(encoding).least_rate) / math.sqrt(2)

        if not isinstance(made, Encoding):
            made = converge(made, signal, math.sqrt(honest) / 2)
        plan, p = hiding(made), made.precision
        q = checked_modulus(modulus, n, p, NoiseLaw(plan.least_rate, Fraction(n, honest)), analysis)
        found: HiddenNoise
        if messages is None:
            found = plan.chosen(q, corrupt)
        else:
            total = integer("messages", messages, low=1, high=MAX_MESSAGES)
            found = plan.given(q, total, corrupt)
        secure_sum = SecureVectorSum(
            n,
            domain.dimension,
            q,
            layout=layout,
            messages=found.layout.count.total,
            analysis=analysis,
            shuffler=shuffler,
            clear_share=clear,
            min_honest=honest,
            corrupt_shufflers=corrupt,
        )
        self._hold(
            n=n,
            min_honest=honest,
            domain=domain,
            epsilon=budget,
            encoding=made,
            noise=found.noise,
            secure_sum=secure_sum,
            layout=found.layout,
            releases=times,
        )

    @property
    def precision(self) -> int:
        """Steps of the encoding between the bounds of a coordinate."""
        return self.encoding.precision

    @property
    def modulus(self) -> int:
        """Order of each coordinate's group."""
        return self.secure_sum.q

    @property
    def rate(self) -> Fraction:
        """Inverse scale of the noise in every coordinate, in steps of the encoding, exactly."""
        return self.noise.rate

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user, for one run or all ``releases`` of them together."""
        delta, count = self.layout.delta, self.layout.count
        assert delta is not None
        conditions: tuple[str, ...] = (
            *unproved_conditions(count.analysis, self.modulus, self.dimension // self.layout.sums),
            *self.secure_sum.trust,
            reports(self.releases),
            PSEUDORANDOM,
        )
        if self.encoding.promised:
            conditions = (
                "while any two vectors that a user may have are within the promised sensitivity",
                *conditions,
            )
        theorem = f"{METHODS[self.noise.method]}; {count.theorem}"
        return Guarantee(round_up(self.epsilon), delta, theorem, conditions if delta < 1 else ())

    @property
    def wrap_probability(self) -> float:
        """Bound on the probability that any coordinate of a sum of all n wraps around."""
        return self.error(self.n).wrap_probability

    @property
    def influence(self) -> float:
        """Greatest Euclidean distance that one user's messages alone can move the estimate.

        A user may send any element of each coordinate's group: any of q points, in each.
        """
        reach = floating(Fraction(self.modulus - 1, self.precision))
        return self.encoding.bounds.width * reach * math.sqrt(self.dimension)

    @property
    def parameter_hash(self) -> str:
        """SHA-256 of the parameters, equal for two parties if and only if they agree on all."""
        return digest(self.parameters)

    @property
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""
        promise = self.encoding.promise
        return {
            "protocol": "ikos-private-vector-sum-1",
            "epsilon": str(self.epsilon),
            "releases": self.releases,
            "noise_rate": str(self.rate),
            "precision": self.precision,
            "lower": self.encoding.bounds.lower.hex(),
            "upper": self.encoding.bounds.upper.hex(),
            "integers": self.encoding.exact,
            "sensitivity": None
            if promise is None
            else [str(bound) for bound in (promise.l1, promise.l2, promise.linf)],
            "domain": type(self.domain).__name__,
            "secure_sum": self.secure_sum.parameters,
        }

    def error(self, users: int) -> SumError:
        """Return what is known of the error of a sum over so many users.

        Of each coordinate: noise of variance 2 alpha / (1 - alpha)^2 times users / min_honest,
        alpha = exp(-rate), rounding of at most users / 4, and wrap-around, in squared steps.
        """
        return NoisySum(
            NoiseLaw(self.rate, Fraction(validate_users(users, self.n), self.min_honest)),
            self.precision,
            users,
            self.encoding.bounds.width,
            self.modulus,
            rounded=not self.encoding.exact,
        ).error(self.dimension)

    def cost(self, users: int | None = None) -> Cost:
        """Return what ``users`` (all n by default) send."""
        return self.secure_sum.cost(users)

    # The client

    def report(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return one user's shares of its encoded and noisy vector.

        Parameters
        ----------
        x : (d,) array_like of float
            A vector of the domain.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (total, d) ndarray
            As `SecureVectorSum.report` returns them; the same warnings apply. The time that this
            takes depends, slightly, on the noise: do not send at once when it is done.
        """
        row = self._value(x)
        self.encoding.check(row)
        return self._messages(row, secure(rng))[:, 0].copy()

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[Any]:
        """Return everybody's shares of encoded and noisy vectors.

        Parameters
        ----------
        x : (k, d) array_like of float
            Vectors of the domain, ``min_honest <= k <= n``.
        rng : RandomSource, optional
            Secure randomness by default.

        Returns
        -------
        (total, k, d) ndarray
            Share j of each coordinate of each user.

        Raises
        ------
        ValueError
            Also if there would be more than 2^28 shares: `run` takes blocks of coordinates.
        """
        return self._messages(self._values(x), secure(rng))

    def _values(self, x: ArrayLike) -> NDArray[Any]:
        values = super()._values(x)
        self.encoding.check(values)
        return values

    def _messages(self, rows: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        return self.secure_sum.share_elements(self._noisy(rows, rng), rows.shape[0], rng)

    def _noisy(self, rows: NDArray[Any], rng: RandomSource) -> Elements:
        """Return what encodes a run of coordinates and adds everybody's noise to them."""
        group = self.secure_sum.group

        def elements(part: slice) -> NDArray[Any]:
            columns = self.encoding.encode(np.ascontiguousarray(rows[:, part].T), rng)
            result = columns.astype(group.dtype).reshape(-1)
            # All entries are independent, whichever of them share a variable.
            noise = polya_population(result.size, self.rate, parties=self.min_honest, rng=rng)
            noisy = np.flatnonzero(noise)
            changed = result[noisy]
            group.add(changed, group.reduce(noise[noisy]))
            result[noisy] = changed
            return result.reshape(columns.shape)

        return elements

    # The shufflers

    def shuffle(
        self, messages: NDArray[Any], rng: RandomSource | None = None, *, order: str = "sorted"
    ) -> View:
        """Pass shares through the shufflers, as `SecureVectorSum.shuffle` does."""
        return self.secure_sum.shuffle(messages, rng, order=order)

    # The analyzer

    def _users_of(self, view: View) -> int:
        return self.secure_sum.users(view)

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        return self._decoded(self.secure_sum.analyze(view), users)

    def _decoded(self, sums: NDArray[Any], users: int) -> NDArray[np.float64]:
        """Return the estimates that sums modulo q stand for."""
        p, q, bounds = self.precision, self.modulus, self.encoding.bounds
        parts = (Fraction(decode(int(z), users, p, q), p) for z in sums)
        return np.array([bounds.total(part, users) for part in parts])

    # All of them

    def run(
        self, x: ArrayLike, rng: RandomSource | None = None, *, progress: Progress | None = None
    ) -> SumResult:
        """Run the protocol on everybody's vectors, here.

        The same as `randomize`, `shuffle` and `analyze` with the same ``rng``. Some coordinates are
        worked on at a time, so that beside ``x`` little memory is needed.

        Parameters
        ----------
        x : (k, d) array_like of float
            Vectors of the domain, ``min_honest <= k <= n``.
        rng : RandomSource, optional
            Secure randomness by default.
        progress : callable, optional
            Called with the coordinates done and their number.

        Raises
        ------
        TypeError, ValueError
            If a vector is not of the domain (one with NaN is not), or there are too few or too
            many. Nothing is clipped.
        """
        source = secure(rng)
        values = self._values(x)
        sums = self.secure_sum.run_elements(self._noisy(values, source), source, progress)
        result = self._result(self._decoded(sums, values.shape[0]), values.shape[0])
        return replace(result, guarantee=result.guarantee.of_run(source))

    @property
    def _particulars(self) -> str:
        corrupt = self.secure_sum.corrupt_shufflers
        trust = f", corrupt_shufflers={corrupt}" if corrupt else ""
        return (
            f"{self.domain}, precision={self.precision}, q={quote(self.modulus)}{trust}, "
            f"{self.secure_sum.shuffler}: {self.layout}"
        )
