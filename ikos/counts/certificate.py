"""The numbers behind a count, as exact dyadic rationals that others can check."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any, Unpack

import gmpy2
from gmpy2 import mpfr

from ikos._validation import InvalidValue, integer
from ikos.counts import direct_comparison, higher_moments, hockey_stick, necessary, second_moment
from ikos.counts.analyses import checked_scheme
from ikos.counts.direct_comparison import DirectPoint
from ikos.counts.higher_moments import Point
from ikos.counts.private import budget_of
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import MAX_MESSAGES, Choices
from ikos.numeric.rounding import DOWN, UP, log2, rounding


@dataclass(frozen=True)
class Dyadic:
    """The number ``mantissa * 2**exponent``, or infinity where ``mantissa`` is None.

    An upper bound, or a lower one where ``lower`` is true.
    """

    mantissa: int | None
    exponent: int
    lower: bool = False

    @classmethod
    def of(cls, value: mpfr, lower: bool = False) -> Dyadic:
        """Return a floating-point number exactly."""
        if not value < math.inf:
            return cls(None, 0)
        mantissa, exponent = value.as_mantissa_exp()
        return cls(int(mantissa), int(exponent), lower)

    def __str__(self) -> str:
        """Return the logarithm to four decimals, rounded up, or down for a ``lower`` bound."""
        if not self.mantissa:
            return "2^inf" if self.mantissa is None else "2^-inf"
        direction = DOWN if self.lower else UP
        with rounding(direction):
            rounded = 10_000 * (log2(self.mantissa, direction) + self.exponent)
            whole = gmpy2.floor(rounded) if self.lower else gmpy2.ceil(rounded)
        return f"2^{int(whole) / 10_000:.4f}"


@dataclass(frozen=True)
class _Certified:
    """The parameters of a count, and the ``theorem`` that proves it."""

    n: int
    q: int
    m: int
    shuffler: str
    clear_share: bool
    theorem: str


@dataclass(frozen=True)
class Certificate(_Certified):
    """The proof of ``security_level(n, q, m, ...)``.

    ``divergence`` is an upper bound on E[q^(C-1); C >= 2], C the components of the share graph,
    found by ``method``; it proves ``sigma``. It is infinite, and nothing is claimed, unless it is
    known to be below 2.
    """

    sigma: float
    divergence: Dyadic
    method: str


@dataclass(frozen=True)
class PrivateCertificate(_Certified):
    """The proof of ``private_proved(n, q, m, epsilon, delta, precision, ...)``.

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


@dataclass(frozen=True)
class GivenSumCertificate(Certificate):
    """The proof of ``private_proved(...)`` by views compared given the sum.

    ``delta`` is 2^-sigma, and all of ``epsilon`` is left for the noise, of rate ``noise_epsilon /
    precision``; other fields are as in `Certificate`.
    """

    epsilon: Fraction
    noise_epsilon: float
    precision: int
    delta: float


@dataclass(frozen=True)
class MomentCertificate(_Certified):
    """The proof of ``private_proved(...)`` by higher moments.

    Other fields are as in `PrivateCertificate`; ``blurred`` is k, and ``parameters`` are the
    theorem's. ``main`` is a lower bound on g_0; upper bounds are ``difference`` of |R|^2, averaged
    over the noise, ``reference`` of |r|^2, ``spread``, ``first``, ``tall``, ``wide`` and ``own`` of
    E beta^K, M_K, M_K1, V_l and A_K3, ``paired`` of the K2-th moment of the terms of degree two
    (0 where these are in ``difference`` and ``reference``), and ``eta`` of what follows from those.
    """

    epsilon: Fraction
    noise_epsilon: float
    precision: int
    blurred: int
    parameters: Point
    relative: Dyadic
    main: Dyadic
    difference: Dyadic
    reference: Dyadic
    spread: Dyadic
    first: Dyadic
    tall: Dyadic
    wide: Dyadic
    own: Dyadic
    paired: Dyadic
    eta: Dyadic
    delta: float


@dataclass(frozen=True)
class DirectCertificate(_Certified):
    """The proof of ``private_proved(...)`` by direct comparison of the neighbours.

    Other fields are as in `PrivateCertificate`, but noise_epsilon + ln(1 + c) <= epsilon;
    ``parameters`` are the theorem's. ``main`` is a lower bound on g_0; upper bounds are
    ``remainder`` of |R|^2, ``user`` of E (X + b)^K, ``single`` and ``paired`` of the moments of Y
    and Q (0 where no terms are lifted), ``tall``, ``wide``, ``fourth`` and ``own`` of those of p_1,
    p_2, p_4 and X in the bad event, and ``proved`` of the delta that follows from those.
    """

    epsilon: Fraction
    noise_epsilon: float
    precision: int
    parameters: DirectPoint
    relative: Dyadic
    main: Dyadic
    remainder: Dyadic
    user: Dyadic
    single: Dyadic
    paired: Dyadic
    tall: Dyadic
    wide: Dyadic
    fourth: Dyadic
    own: Dyadic
    proved: Dyadic
    delta: float


@dataclass(frozen=True)
class NecessaryCertificate(_Certified):
    """The proof that the security level of m shuffled messages is at most ``sigma``.

    Two inputs differ by y; ``difference`` has its nonzero entries, each with the number of its
    users. ``second`` and ``mean`` are lower bounds on E D_1^2 and E |D_1|, found by ``method``,
    "hoelder" or "normal limit"; ``fourth`` and ``rest`` upper bounds of E D_1^4 and R;
    ``total_variation`` is at most ``(mean - sqrt(2 rest)) / 2``.
    """

    difference: tuple[tuple[int, int], ...]
    second: Dyadic
    fourth: Dyadic
    mean: Dyadic
    rest: Dyadic
    method: str
    total_variation: Dyadic
    sigma: float


def _numbers(bound: Any, *lower: str) -> dict[str, Any]:
    """Return the floating-point fields of a bound; the named ones are lower bounds."""
    values = ((field.name, getattr(bound, field.name)) for field in fields(bound))
    return {name: Dyadic.of(x, name in lower) for name, x in values if isinstance(x, mpfr)}


def certify_necessary(
    n: int, q: int, m: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> NecessaryCertificate:
    """Return the certificate of an upper bound on the security level of m shuffled messages.

    The parameters are those of `ikos.counts.security_interval`.

    Raises
    ------
    ValueError
        If the theorem proves nothing for this m.

    Examples
    --------
    >>> found = certify_necessary(1000, 2**64, 23)
    >>> found.method, round(found.sigma, 2), found.difference[0]
    ('normal limit', 78.55, (2, 500))
    """
    scheme = checked_scheme(n, q, shuffler=shuffler, clear_share=clear_share)
    graph = ShareGraph(integer("m", m, low=1, high=MAX_MESSAGES), shuffler, clear_share)
    bound = necessary.best(scheme.n, scheme.q, graph)
    if bound is None or not bound.total_variation:
        raise InvalidValue("m", f"must be a count that the theorem covers, got {m}")
    numbers, variation = _numbers(bound, "second", "mean"), bound.total_variation
    return NecessaryCertificate(
        scheme.n, scheme.q, **asdict(graph), **numbers,
        theorem=necessary.THEOREM, difference=tuple(bound.y), method=bound.method,
        total_variation=Dyadic.of(variation, lower=True), sigma=bound.level,
    )  # fmt: skip


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
    sigma = second_moment.level(scheme.users, scheme.q, graph)
    return Certificate(
        scheme.n, scheme.q, **asdict(graph), theorem=second_moment.THEOREM,
        sigma=sigma, divergence=Dyadic.of(bound.upper), method=bound.method,
    )  # fmt: skip


def certify_private(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    *,
    reserve: float | Fraction = 0.01,
    **choices: Unpack[Choices],
) -> PrivateCertificate | GivenSumCertificate | MomentCertificate | DirectCertificate:
    """Return the certificate of a private sum's delta.

    The parameters are those of `ikos.counts.private_proved`; ``analysis`` is "second_moment",
    "higher_moments", "direct_comparison" or "best", the one that proves the most.

    Examples
    --------
    >>> found = certify_private(1000, 2**16, 5, 1, 1e-6, 32, analysis="second_moment")
    >>> print(found.difference, found.excess)
    2^-30.8407 2^-23.8631
    >>> certify_private(1000, 2**16, 4, 1, 1e-6, 32).parameters.d
    2
    """
    scheme = checked_scheme(n, q, **choices)
    budget = budget_of(epsilon, delta, reserve, precision)
    proof = scheme.analysis.privacy(scheme, integer("m", m, low=1, high=MAX_MESSAGES), budget)
    if isinstance(proof, hockey_stick.Privacy):
        about = asdict(proof.graph) | _numbers(proof) | _numbers(proof.divergences)
        kind: type[PrivateCertificate | GivenSumCertificate | MomentCertificate | DirectCertificate]
        kind = PrivateCertificate
    elif isinstance(proof, direct_comparison.DirectPrivacy):
        graph = ShareGraph(higher_moments.hiding(scheme, m), "parallel", True)
        about = asdict(graph) | _numbers(proof.bound, "main")
        about["parameters"] = proof.bound.point
        kind = DirectCertificate
    elif isinstance(proof, higher_moments.MomentPrivacy) and proof.bound is not None:
        graph = ShareGraph(higher_moments.hiding(scheme, m), "parallel", True)
        about = asdict(graph) | _numbers(proof.bound, "main")
        about |= {"parameters": proof.bound.point, "blurred": proof.bound.k}
        kind = MomentCertificate
    elif proof is not None and proof.theorem == second_moment.GIVEN_SUM:
        about = vars(certify(n, q, m, **scheme.trust.graph)).copy()
        del about["n"], about["q"], about["theorem"]
        kind = GivenSumCertificate
    else:
        raise InvalidValue(
            "m",
            f"must be a count for which {scheme.analysis.name!r} proves a guarantee, got {m}",
        )
    return kind(
        n=scheme.n, q=scheme.q, theorem=proof.theorem, epsilon=budget.epsilon,
        noise_epsilon=proof.noise_epsilon, precision=precision, delta=proof.delta, **about,
    )  # fmt: skip
