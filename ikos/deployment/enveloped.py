"""The transports of tasks, and the private sums that clients and analyzer run over them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, get_args

from ikos._validation import choice
from ikos.data.domains import Bounds, Domain
from ikos.deployment.masks import MasksTerms
from ikos.deployment.opening import KEMS, TAG_BYTES, X25519
from ikos.deployment.shares import EnvelopeTerms, SharesTerms
from ikos.results.conditions import Condition, Kind
from ikos.sums.private import PrivateSum, PrivateVectorSum
from ikos.transports.shares import Shuffled

AnyTerms = SharesTerms | MasksTerms
"""The terms of every transport that tasks can have."""

TERMS: dict[str, type[EnvelopeTerms]] = {terms.kind: terms for terms in get_args(AnyTerms)}

_ENCRYPTED = (
    "the encryption of the envelopes holds (HPKE with {}, HKDF-SHA256 and AES-128-GCM) against all "
    "but the analyzer"
)


def protocol_of(
    users: int,
    domain: Domain,
    epsilon: float | Fraction,
    delta: float | Fraction,
    block_length: str | int = 1,
    *,
    transport: str = "shares",
    kem: str = X25519,
    corrupt_shufflers: int = 0,
    messages: int | None = None,
    **options: Any,
) -> PrivateSum | PrivateVectorSum:
    """Return the private sum of values of a domain, between parties.

    The analyzer may choose among the reports after seeing its own shares. So these shares hide
    nothing: the analyzer counts as one more colluding shuffler, beyond ``corrupt_shufflers``.
    docs/message-counts.md ("A batch of the analyzer's choice") and, for masked vectors,
    docs/masked-vectors.md prove that this suffices, as the honest shufflers release nothing before
    all of them agree to one choice (`ikos.deployment.intermediary`).
    """
    shuffled = Shuffled(
        corrupt_shufflers=corrupt_shufflers,
        messages=messages,
        layout=block_length,
        overhead=envelope_overhead(kem),
        adaptive=True,
        assumptions=(Condition(Kind.CRYPTOGRAPHY, _ENCRYPTED.format(KEMS[kem].words)),),
    )
    options["transport"] = TERMS[choice("transport", transport, TERMS)].recipe(shuffled)
    if isinstance(domain, Bounds):
        options |= {"lower": domain.lower, "upper": domain.upper}
        return PrivateSum(users, epsilon, delta, **options)
    return PrivateVectorSum(users, domain, epsilon, delta, **options)


def envelope_overhead(kem: str) -> int:
    """Return the overhead of an envelope in bytes."""
    return KEMS[kem].sealed + TAG_BYTES


def noise_of(protocol: PrivateSum | PrivateVectorSum) -> tuple[str, Fraction]:
    """Return the kind of a protocol's noise, and its rate or variance."""
    return protocol.noise.kind, protocol.noise.value
