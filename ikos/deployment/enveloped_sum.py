"""The private sum of a task, whose analyzer sees one share of each client before any other.

The analyzer chooses among the complete reports after it has seen its own shares of them. So these
hide nothing: it counts as one more colluding shuffler. docs/deployment.md proves that this
suffices, as the honest shufflers release nothing before all of them agree to one choice
(`ikos.deployment.shuffler`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from ikos._validation import integer
from ikos.aggregation.private_sum import PrivateSum
from ikos.aggregation.shuffled_sum import collusion
from ikos.results import Guarantee, present

_ENCRYPTED = (
    "the encryption of the envelopes holds (HPKE with X25519, HKDF-SHA256 and AES-128-GCM) against "
    "all but the analyzer"
)


class EnvelopedSum(PrivateSum):
    """`ikos.PrivateSum` whose analyzer may choose among the reports after seeing its own shares.

    It takes no ``shuffler`` or ``clear_share``; ``corrupt_shufflers`` does not count the analyzer.
    """

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        corrupt_shufflers: int = 0,
        **options: Any,
    ) -> None:
        corrupt = integer("corrupt_shufflers", corrupt_shufflers, low=0)
        super().__init__(
            n, epsilon, delta, corrupt_shufflers=corrupt + 1, clear_share=False, **options
        )

    @property
    def corrupt_shufflers(self) -> int:
        """How many shufflers may collude with the analyzer, not counting the analyzer."""
        return self.trust.corrupt_shufflers - 1

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a proof assumes: who is honest and present."""
        return present(self.min_honest, self.n, adaptive=True), collusion(self.corrupt_shufflers)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each client."""
        found = super().guarantee
        return replace(found, conditions=(*found.conditions, _ENCRYPTED) if found.proved else ())
