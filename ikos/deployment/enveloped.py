"""The private sums that clients and analyzer run: as the library's, but of envelopes alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from ikos._validation import integer
from ikos.data.domains import Bounds, Domain
from ikos.deployment.opening import KEMS, X25519
from ikos.noise.skellam import SkellamNoise
from ikos.results.sums import Guarantee, present
from ikos.sums.private import PrivateAggregation, PrivateSum, PrivateVectorSum
from ikos.sums.shuffled_sum import collusion

_ENCRYPTED = (
    "the encryption of the envelopes holds (HPKE with {}, HKDF-SHA256 and AES-128-GCM) against all "
    "but the analyzer"
)


class _Enveloped(PrivateAggregation):
    """A private sum whose analyzer may choose among the reports after seeing its own shares.

    So these hide nothing: the analyzer counts as one more colluding shuffler, beyond
    ``corrupt_shufflers``. docs/deployment.md proves that this suffices, as the honest shufflers
    release nothing before all of them agree to one choice (`ikos.deployment.intermediary`).
    """

    def __init__(
        self, *arguments: Any, corrupt_shufflers: int = 0, kem: str = X25519, **options: Any
    ) -> None:
        self.kem = kem
        corrupt = integer("corrupt_shufflers", corrupt_shufflers, low=0)
        options |= {"corrupt_shufflers": corrupt + 1, "clear_share": False}
        super().__init__(*arguments, **options)

    @property
    def corrupt_shufflers(self) -> int:
        """How many shufflers may collude with the analyzer, not counting the analyzer."""
        return self.trust.corrupt_shufflers - 1

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a proof assumes: who is honest and present."""
        return present(self.min_honest, self.n, adaptive=True), collusion(self.corrupt_shufflers)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee of each client."""
        guarantee = super().guarantee
        encrypted = _ENCRYPTED.format(KEMS[self.kem].words)
        conditions = (*guarantee.conditions, encrypted) if guarantee.proved else ()
        return replace(guarantee, conditions=conditions)


class EnvelopedSum(_Enveloped, PrivateSum):
    """A private sum of numbers between parties."""


class EnvelopedVectorSum(_Enveloped, PrivateVectorSum):
    """A private sum of vectors between parties."""


def protocol_of(
    users: int,
    domain: Domain,
    epsilon: float | Fraction,
    delta: float | Fraction,
    block_length: int,
    **options: Any,
) -> EnvelopedSum | EnvelopedVectorSum:
    """Return the private sum of values of a domain, between parties."""
    if isinstance(domain, Bounds):
        options |= {"lower": domain.lower, "upper": domain.upper}
        return EnvelopedSum(users, epsilon, delta, **options)
    return EnvelopedVectorSum(users, domain, epsilon, delta, layout=block_length, **options)


def noise_of(protocol: EnvelopedSum | EnvelopedVectorSum) -> tuple[str, Fraction]:
    """Return the kind of a protocol's noise, and its rate or variance."""
    noise = protocol.noise
    if isinstance(noise, SkellamNoise):
        return "skellam", noise.variance
    return "laplace", noise.rate
