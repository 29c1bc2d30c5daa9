"""All protocols for sums of vectors side by side, for one domain and one guarantee."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ikos._validation import integer
from ikos.aggregation.private_vector_sum import PrivateVectorSum
from ikos.aggregation.protocol import MAX_USERS, SumProtocol, budget
from ikos.baselines.central_gaussian import CentralGaussian
from ikos.baselines.collision_wlqdly21 import Collision
from ikos.baselines.compared import ComparisonRow, compare
from ikos.baselines.kashin_correlated_noise_afnntz24 import KashinCorrelatedNoise
from ikos.baselines.kashin_private_sum_afnntz24 import KashinPrivateSum
from ikos.baselines.pckv import PCKVGRR, PCKVUE
from ikos.baselines.privkv import PrivKV
from ikos.baselines.sampled_coordinates_scm22 import SampledCoordinates
from ikos.baselines.single_message_afnntz24 import SingleMessageGrid
from ikos.categories import Categories
from ikos.concurrency import Progress
from ikos.domains import Ball, Box, Domain, SparseTernary

Maker = Callable[[int, Any, Fraction, Fraction, dict[str, Any]], SumProtocol]


@dataclass(frozen=True)
class VectorProtocolSpec:
    """A protocol for sums of vectors, not yet made for any users.

    Attributes
    ----------
    key : str
        What it is called in programs; it does not change.
    name, source : str
        What it is called by people, and the paper that it is from.
    model : {"central", "shuffle", "local"}
        Whom its users trust.
    domains : tuple of type
        The domains that it is for.
    made_by : callable
        Makes it of users, domain, epsilon, delta and ``min_honest`` where that is given.
    note : str or None
        A special assumption, or what it does for a domain that it is not made for.
    """

    key: str
    name: str
    source: str
    model: str
    domains: tuple[type[Domain], ...]
    made_by: Maker = field(repr=False)
    note: str | None = None

    def make(
        self,
        n: int,
        domain: Domain,
        epsilon: Fraction,
        delta: Fraction,
        *,
        min_honest: int | None = None,
    ) -> SumProtocol:
        """Return the protocol; ValueError if there is none."""
        if not isinstance(domain, self.domains):
            names = " or ".join(kind.__name__ for kind in self.domains)
            raise ValueError(  # noqa: TRY004 - a row says so, as for any other that is impossible
                f"domain must be a {names}, got {type(domain).__name__}"
            )
        given: dict[str, Any] = {}
        if min_honest is not None and min_honest < n:
            given["min_honest"] = min_honest
        return self.made_by(n, domain, epsilon, delta, given)


@dataclass(frozen=True)
class VectorRow(ComparisonRow[VectorProtocolSpec, SumProtocol]):
    """A protocol for given users, domain and guarantee, or why there is none.

    Attributes
    ----------
    contender : VectorProtocolSpec
        Which.
    protocol : SumProtocol or None
        As it was made.
    reason : str or None
        Why it was not, in one line.
    """


def _around(domain: Box | Ball) -> Box:
    """Return the box itself, or the smallest around a ball."""
    if isinstance(domain, Box):
        return domain
    return Box(domain.dimension, -domain.reach, domain.reach)


_CURATOR = "all users trust the curator with their vectors, and to add the noise"
_BOX = "for a ball, in the box around it"

VECTOR_PROTOCOLS: tuple[VectorProtocolSpec, ...] = (
    VectorProtocolSpec(
        "central-gaussian",
        "central discrete Gaussian noise",
        "Canonne, Kamath, Steinke 2020",
        "central",
        (Box, Ball, SparseTernary, Categories),
        lambda n, domain, eps, delta, _: CentralGaussian(n, domain, eps, delta),
        _CURATOR,
    ),
    VectorProtocolSpec(
        "private-vector-sum",
        "noise of all users, over secure summation",
        "BBGN20, Section 5, accounts of this library",
        "shuffle",
        (Box, Ball, SparseTernary, Categories),
        lambda n, domain, eps, delta, more: PrivateVectorSum(n, domain, eps, delta, **more),
    ),
    VectorProtocolSpec(
        "kashin-private-sum",
        "noise of all users in even coefficients, over secure summation",
        "AFNNTZ24, Section 2.2, with BBGN20's sums",
        "shuffle",
        (Ball,),
        lambda n, domain, eps, delta, more: KashinPrivateSum(n, domain, eps, delta, **more),
    ),
    VectorProtocolSpec(
        "kashin-correlated-noise",
        "correlated noise in even coefficients",
        "AFNNTZ24, Algorithms 3 and 4, with GKMPS21",
        "shuffle",
        (Ball,),
        lambda n, domain, eps, delta, more: KashinCorrelatedNoise(n, domain, eps, delta, **more),
    ),
    VectorProtocolSpec(
        "kashin-sampled-noise",
        "correlated noise in a sample of even coefficients",
        "AFNNTZ24, end of Section 2.2, with GKMPS21",
        "shuffle",
        (Ball,),
        lambda n, domain, eps, delta, more: KashinCorrelatedNoise(
            n, domain, eps, delta, sampling="auto", **more
        ),
    ),
    VectorProtocolSpec(
        "sampled-coordinates",
        "randomized response on sampled coordinates",
        "SCM22, exact divergence, stratified",
        "shuffle",
        (Box, Ball),
        lambda n, domain, eps, delta, more: SampledCoordinates(
            n, _around(domain), eps, delta, messages=None, **more
        ),
        _BOX,
    ),
    VectorProtocolSpec(
        "one-coordinate",
        "randomized response on one coordinate of each user",
        "SCM22, exact divergence",
        "shuffle",
        (Box, Ball),
        lambda n, domain, eps, delta, more: SampledCoordinates(
            n, _around(domain), eps, delta, **more
        ),
        _BOX,
    ),
    VectorProtocolSpec(
        "single-message-grid",
        "randomized response on a grid of vectors",
        "AFNNTZ24, Algorithms 5 and 6, exact divergence",
        "shuffle",
        (Box, Ball),
        lambda n, domain, eps, delta, more: SingleMessageGrid(n, domain, eps, delta, **more),
    ),
    VectorProtocolSpec(
        "collision",
        "collision of hashed entries",
        "WLQDLY21, exact divergence",
        "shuffle",
        (SparseTernary,),
        lambda n, domain, eps, delta, more: Collision(n, domain, eps, delta, **more),
    ),
    VectorProtocolSpec(
        "privkv",
        "randomized response on one key",
        "PrivKV, exact divergence",
        "shuffle",
        (SparseTernary,),
        lambda n, domain, eps, delta, more: PrivKV(n, domain, eps, delta, **more),
    ),
    VectorProtocolSpec(
        "pckv-grr",
        "randomized response on one of a user's keys",
        "PCKV, exact divergence",
        "shuffle",
        (SparseTernary,),
        lambda n, domain, eps, delta, more: PCKVGRR(n, domain, eps, delta, **more),
        "vectors must have exactly as many entries as allowed",
    ),
    VectorProtocolSpec(
        "pckv-ue",
        "unary encoding of one of a user's keys",
        "PCKV, by clones (FMT21)",
        "shuffle",
        (SparseTernary,),
        lambda n, domain, eps, delta, more: PCKVUE(n, domain, eps, delta, **more),
    ),
    VectorProtocolSpec(
        "local-collision",
        "collision of hashed entries",
        "WLQDLY21",
        "local",
        (SparseTernary,),
        lambda n, domain, eps, _delta, _: Collision(n, domain, eps),
    ),
    VectorProtocolSpec(
        "local-privkv",
        "randomized response on one key",
        "PrivKV",
        "local",
        (SparseTernary,),
        lambda n, domain, eps, _delta, _: PrivKV(n, domain, eps),
    ),
)
"""All protocols that are compared."""


def vector_comparison(
    n: int,
    domain: Domain,
    epsilon: float | Fraction,
    delta: float | Fraction,
    *,
    min_honest: int | None = None,
    protocols: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> tuple[VectorRow, ...]:
    """Make every protocol for a domain, for the same users and the same guarantee.

    Parameters
    ----------
    n : int
        Users, at most 10^9; public.
    domain : Domain
        Where the vectors lie.
    epsilon, delta : float
        The guarantee, under replacement of one user's vector. The local protocols have a delta
        of 0.
    min_honest : int, optional
        How many users are honest and present at least; ``n`` by default.
    protocols : sequence of str, optional
        Only those of these keys; by default all of ``VECTOR_PROTOCOLS`` that are for the domain.
    progress : callable, optional
        Called with how many are made and of how many.

    Returns
    -------
    tuple of VectorRow
        The central model first, then the shuffle model, then the local one; in each the smallest
        bound on the mean squared error first, and last those that there are not.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range. That one protocol is not possible is
        no error: its row says why.

    Examples
    --------
    ``print(row)`` shows a row in a line.

    >>> from ikos.vectors import Box
    >>> for row in vector_comparison(
    ...     10**5, Box(64), 1, 1e-8, protocols=["one-coordinate", "single-message-grid"]
    ... ):
    ...     print(row.key, row.messages, row.reason is None)
    one-coordinate 1 True
    single-message-grid None False
    """
    users = integer("n", n, low=1, high=MAX_USERS)
    eps, small = budget(epsilon, delta)
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain, got {type(domain).__name__}")
    honest = None if min_honest is None else integer("min_honest", min_honest, low=1, high=users)
    if protocols is None:
        fitting = [one.key for one in VECTOR_PROTOCOLS if isinstance(domain, one.domains)]
        protocols = fitting

    def make(contender: VectorProtocolSpec) -> SumProtocol:
        return contender.make(users, domain, eps, small, min_honest=honest)

    return compare(
        VECTOR_PROTOCOLS, protocols, make, VectorRow, honest=honest, users=users, progress=progress
    )
