"""The numbers behind a count, as exact dyadic rationals that others can check."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction

import gmpy2
from gmpy2 import mpfr

from ikos._validation import integer
from ikos.counts import second_moment
from ikos.counts.analyses import checked_scheme
from ikos.counts.private import budget_of
from ikos.counts.rounding import UP, log2, rounding
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import MAX_MESSAGES


@dataclass(frozen=True)
class Dyadic:
    """The number ``mantissa * 2**exponent``, or infinity where ``mantissa`` is None."""

    mantissa: int | None
    exponent: int

    @classmethod
    def of(cls, value: mpfr) -> Dyadic:
        """Return a floating-point number exactly."""
        if not value < math.inf:
            return cls(None, 0)
        mantissa, exponent = value.as_mantissa_exp()
        return cls(int(mantissa), int(exponent))

    def __str__(self) -> str:
        """Return an upper bound: the logarithm is rounded up to four decimals."""
        if not self.mantissa:
            return "2^inf" if self.mantissa is None else "2^-inf"
        with rounding(UP):
            rounded = gmpy2.ceil(10_000 * (log2(self.mantissa, UP) + self.exponent))
        return f"2^{int(rounded) / 10_000:.4f}"


@dataclass(frozen=True)
class _Certified:
    """What a number is proved for, and the ``theorem`` that proves it."""

    n: int
    q: int
    m: int
    shuffler: str
    clear_share: bool
    theorem: str


@dataclass(frozen=True)
class Certificate(_Certified):
    """Why ``security_level(n, q, m, ...)`` is what it is.

    ``divergence`` is an upper bound of E[q^(C-1); C >= 2], C the components of the share graph,
    found by ``method``; it proves ``sigma``. It is infinite where it is not known to be below 2,
    and nothing is claimed.
    """

    sigma: float
    divergence: Dyadic
    method: str


@dataclass(frozen=True)
class PrivateCertificate(_Certified):
    """Why ``private_proved(n, q, m, epsilon, delta, precision, ...)`` is what it is.

    ``m`` and ``clear_share`` are those of the bound used: with all messages shuffled it may be the
    one for m - 1 shuffled messages and a clear share. The noise has rate ``noise_epsilon /
    precision``; c = ``relative`` has noise_epsilon + 2 ln(1 + c) <= epsilon; ``difference`` and
    ``excess`` bound Delta_A, averaged over the noise, and E[q^(C-1)] - 1.
    """

    epsilon: Fraction
    noise_epsilon: float
    precision: int
    relative: Dyadic
    difference: Dyadic
    excess: Dyadic
    delta: float


def certify(
    n: int, q: int, m: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> Certificate:
    """Return the certificate of `ikos.security_level`, for ``analysis="second_moment"``.

    Examples
    --------
    >>> found = certify(1000, 2**64, 24)
    >>> print(found.divergence, found.method)
    2^-165.2130 largest component
    """
    scheme = checked_scheme(n, q, shuffler=shuffler, clear_share=clear_share)
    graph = ShareGraph(integer("m", m, low=1, high=MAX_MESSAGES), shuffler, clear_share)
    bound = second_moment.bound(scheme.users, scheme.q, graph)
    return Certificate(
        **asdict(graph),
        n=scheme.n,
        q=scheme.q,
        sigma=second_moment.level(scheme.users, scheme.q, graph),
        divergence=Dyadic.of(bound.upper),
        method=bound.method,
        theorem=second_moment.THEOREM,
    )


def certify_private(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    shuffler: str = "parallel",
    clear_share: bool = True,
    reserve: float | Fraction = 0.01,
) -> PrivateCertificate:
    """Return the certificate of `ikos.counts.private_proved`, for ``analysis="second_moment"``.

    Examples
    --------
    >>> found = certify_private(1000, 2**16, 5, 1, 1e-6, 32)
    >>> print(found.difference, found.excess)
    2^-30.8407 2^-23.8631
    """
    scheme = checked_scheme(n, q, shuffler=shuffler, clear_share=clear_share)
    budget = budget_of(epsilon, delta, reserve, precision)
    m = integer("m", m, low=1, high=MAX_MESSAGES)
    found = second_moment.SecondMoment().best(scheme, m, budget)
    assert found is not None
    return PrivateCertificate(
        **asdict(found.graph),
        n=scheme.n,
        q=scheme.q,
        epsilon=budget.epsilon,
        noise_epsilon=found.noise_epsilon,
        precision=budget.sensitivity,
        relative=Dyadic.of(found.relative),
        difference=Dyadic.of(found.divergences.difference),
        excess=Dyadic.of(found.divergences.excess),
        delta=found.delta,
        theorem=found.theorem,
    )
