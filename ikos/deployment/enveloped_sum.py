"""The private sum of a task, whose analyzer sees one share of each client before any other.

The analyzer chooses which of the complete reports are summed after it has seen its own shares of
them. So its shares hide nothing, unlike those of a sum whose users are fixed beforehand
(`ikos.PrivateSum` with a clear share): the analyzer counts as one more colluding shuffler.

This suffices. A choice can depend only on the columns of the analyzer and of the colluding
shufflers. These are fewer than all columns, so they are uniform, and independent of the values, the
noise and the honest shufflers' columns. Given them, the choice is fixed, and the honest columns
share fixed differences from the noisy values: the bound without a clear share holds for any choice.
The honest shufflers release nothing before all of them agree to one choice
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
    """A private sum whose analyzer may choose among the reports after seeing its own shares.

    Parameters
    ----------
    n, epsilon, delta, options
        As for `ikos.PrivateSum`, without ``shuffler`` and ``clear_share``.
    corrupt_shufflers : int
        How many shufflers may collude with the analyzer, not counting the analyzer.

    Examples
    --------
    >>> found = EnvelopedSum(2000, 1, 1e-8, min_honest=1900, upper=10, integers=True)
    >>> found.messages.total  # one of them for the analyzer itself
    7
    >>> found.guarantee.conditions[0]
    'while at least 1,900 of 2,000 users are honest and present'
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
