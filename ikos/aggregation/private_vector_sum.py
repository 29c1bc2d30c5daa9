"""Differentially private sums of vectors by secure summation, with noise in every coordinate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ikos._validation import integer, quote
from ikos.accounting.vector_noise import Sensitivity
from ikos.accuracy import NoiseLaw
from ikos.aggregation.calibration import MAX_RELEASES, NoiseCalibration
from ikos.aggregation.private_sum import PrivateAggregation, checked_modulus
from ikos.aggregation.shuffled_sum import layout_name
from ikos.bounds import Domain
from ikos.counts.private import checked_budget
from ikos.counts.secure import MAX_MESSAGES, checked_analysis
from ikos.encoding import Encoding, converge, encoding_of
from ikos.trust import Trust

MAX_USERS = 10**9
"""Most users."""


@dataclass(frozen=True, init=False, repr=False)
class PrivateVectorSum(PrivateAggregation):
    """Differentially private summation of vectors: exact noise that no user adds alone.

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
    layout : {"separate", "group"}
        As of `SecureVectorSum`.
    sensitivity : Sensitivity, optional
        For a Box: a promise how far any two vectors that a user may have are apart, in the data's
        units. Privacy rests on it.
    integers : bool
        For a Box: promise that all entries are integers, and refuse others.
    messages, analysis, shuffler, clear_share, min_honest, corrupt_shufflers, reserve
        As of `ikos.PrivateSum`; messages, of each sum.
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
        layout: str = "separate",
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
        n = integer("n", n, low=1, high=MAX_USERS)
        budget, allowed, spare = checked_budget(epsilon, delta, reserve)
        layout = layout_name(layout)
        analysis = checked_analysis(analysis)
        trust = Trust.of(n, shuffler, clear_share, min_honest, corrupt_shufflers)
        times = integer("releases", releases, low=1, high=MAX_RELEASES)
        made = encoding_of(domain, precision, integers, sensitivity)

        def plan(encoding: Encoding) -> NoiseCalibration:
            return NoiseCalibration(
                users=n,
                trust=trust,
                epsilon=budget,
                delta=allowed,
                reserve=spare,
                shift=encoding.shift(domain.dimension),
                layout=layout,
                analysis=analysis,
                releases=times,
            )

        def signal(encoding: Encoding) -> float:
            return encoding.precision * float(plan(encoding).least_rate) / math.sqrt(2)

        if not isinstance(made, Encoding):
            made = converge(made, signal, math.sqrt(trust.min_honest) / 2)
        noise = NoiseLaw(plan(made).least_rate, Fraction(n, trust.min_honest))
        q = checked_modulus(modulus, n, made.precision, noise, analysis)
        if messages is not None:
            messages = integer("messages", messages, low=1, high=MAX_MESSAGES)
        found = plan(made).chosen(q, messages)
        super().__init__(
            n,
            domain.dimension,
            q,
            found.layout,
            trust,
            domain=domain,
            epsilon=budget,
            delta=allowed,
            encoding=made,
            noise=found.noise,
            releases=times,
        )

    scalar = False

    @property
    def parameters(self) -> dict[str, object]:
        """What the parties must agree on."""
        promise = self.encoding.promise
        bounds = None if promise is None else (promise.l1, promise.l2, promise.linf)
        return {
            "protocol": "ikos-private-vector-sum-1",
            **super().parameters,
            "releases": self.releases,
            "sensitivity": None if bounds is None else [str(bound) for bound in bounds],
            "domain": type(self.domain).__name__,
        }

    @property
    def _title(self) -> str:
        corrupt = self.trust.corrupt_shufflers
        trust = f", corrupt_shufflers={corrupt}" if corrupt else ""
        return (
            f"{type(self).__name__} of {self.n:,} user{'s' * (self.n > 1)}, {self.domain}, "
            f"precision={self.precision}, q={quote(self.modulus)}{trust}, "
            f"{self.shuffler}: {self.layout}"
        )
