"""Tasks whose protocol is a private sum, whatever its transport."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, cast

from numpy.typing import ArrayLike, NDArray

from ikos.data.domains import Bounds, Domain
from ikos.deployment.terms import Terms
from ikos.primitives.randomness import RandomSource
from ikos.results.sums import SumResult
from ikos.sums.private import PrivateSum, PrivateVectorSum
from ikos.transports.base import Recipe, Reports, Totals, Transport

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

AnySum = PrivateSum | PrivateVectorSum

NUMBERS = ("precision", "modulus", "min_honest", "corrupt_shufflers", "integers")
"""Parameters of a private sum that are chosen where a task does not give them."""


def sum_of(
    users: int,
    domain: Domain,
    epsilon: float | Fraction,
    delta: float | Fraction,
    transport: Recipe,
    **numbers: Any,
) -> AnySum:
    """Return the private sum of values of a domain."""
    numbers["transport"] = transport
    if isinstance(domain, Bounds):
        numbers |= {"lower": domain.lower, "upper": domain.upper}
        return PrivateSum(users, epsilon, delta, **numbers)
    return PrivateVectorSum(users, domain, epsilon, delta, **numbers)


class SumTerms(Terms):
    """Terms of private sums."""

    @classmethod
    @abstractmethod
    def of(cls, transport: Transport) -> Self:
        """Return the terms of a transport of their kind."""

    @classmethod
    @abstractmethod
    def corrupt(cls, transport: Transport) -> int:
        """Return how many intermediaries may collude with the analyzer."""

    @classmethod
    def fields_of(cls, protocol: AnySum, domain: Domain) -> dict[str, Any]:
        """Return the fields of a task that follow from its protocol."""
        return {
            "users": protocol.n,
            "epsilon": protocol.epsilon,
            "domain": domain,
            "integers": protocol.encoding.exact,
            "transport": cls.of(protocol.transport),
            "noise": (protocol.noise.kind, protocol.noise.value),
            "parameters": protocol.parameter_hash,
            "precision": protocol.precision,
            "modulus": protocol.modulus,
            "min_honest": protocol.min_honest,
            "corrupt_shufflers": cls.corrupt(protocol.transport),
        }

    def context(self, window: Window) -> bytes:
        """Return what reports bind to a window, where the transport binds them."""
        return cast(AnySum, window.task.protocol).context(window.bound)

    def checked(self, task: Task, x: ArrayLike, first: int) -> NDArray[Any]:
        """Return clients' values, checked."""
        return cast(AnySum, task.protocol).reader.checked(x, first)

    def reports(self, window: Window, values: NDArray[Any], rng: RandomSource) -> Reports:
        """Return a few clients' reports of checked values."""
        protocol: AnySum = window.task.protocol
        return protocol.transport.report(protocol.reader, values, rng, self.context(window))

    def result(self, task: Task, totals: Totals) -> SumResult:
        """Return the private sum."""
        return cast(AnySum, task.protocol).result(totals)
