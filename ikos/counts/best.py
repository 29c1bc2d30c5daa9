"""The best of this library's analyses: for every count, the one that proves the most."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ikos.counts.direct_comparison import DirectComparison
from ikos.counts.higher_moments import HigherMoments, applies
from ikos.counts.second_moment import SecondMoment
from ikos.counts.types import Budget, FixedNoise, PrivacyProof, RemainingPrivacy, Scheme


class Best(HigherMoments):
    """The best of the second moment, higher moments and direct comparison."""

    name = "best"

    def guess(self, scheme: Scheme, goal: float | Budget) -> int:
        if isinstance(goal, Budget) and _compared(scheme, goal):
            goal = replace(goal, sums=1)  # neighbours are compared in each
        return super().guess(scheme, goal)

    def enough(self, scheme: Scheme, m: int, budget: Budget) -> bool:
        if self._others(scheme, m, budget):
            return True
        return _compared(scheme, budget) and DirectComparison().enough(scheme, m, budget)

    def privacy(
        self, scheme: Scheme, m: int, budget: Budget, *, steps: int = 8
    ) -> PrivacyProof | None:
        """Return the proof that leaves the most for the noise, or else that of the least delta.

        Neighbours are compared directly where the others do not reach delta.
        """

        def preference(proof: PrivacyProof) -> tuple[bool, float]:
            reached = proof.delta <= budget.delta
            return not reached, -proof.noise_epsilon if reached else proof.delta

        second = SecondMoment().privacy(scheme, m, budget)
        if second and second.delta <= budget.delta and second.noise_epsilon == budget.whole:
            return second  # no proof leaves more for the noise
        proofs = [second]
        higher = applies(scheme, budget)
        if _compared(scheme, budget) and not self._others(scheme, m, budget):
            proofs.append(DirectComparison().privacy(scheme, m, budget, steps=steps))
            higher = higher and not (proofs[-1] and proofs[-1].delta <= budget.delta)
        if higher:
            proofs.append(super().privacy(scheme, m, budget, steps=steps))
        known = (proof for proof in proofs if proof is not None)
        return min(known, key=preference, default=None)

    def _others(self, scheme: Scheme, m: int, budget: Budget) -> bool:
        """Whether the others are enough."""
        if SecondMoment().enough(scheme, m, budget):
            return True
        return applies(scheme, budget) and super().enough(scheme, m, budget)

    def remaining_privacy(
        self, scheme: Scheme, m: int, noise: FixedNoise, delta: Fraction
    ) -> RemainingPrivacy:
        proofs = [
            SecondMoment().remaining_privacy(scheme, m, noise, delta),
            super().remaining_privacy(scheme, m, noise, delta),
        ]
        if noise.part == 1 and DirectComparison().refusal(scheme) is None:
            proofs.append(DirectComparison().remaining_privacy(scheme, m, noise, delta))
        return min(proofs, key=lambda proof: proof.preference(delta))


def _compared(scheme: Scheme, budget: Budget) -> bool:
    """Whether the direct comparison covers such sums."""
    covered = DirectComparison().refusal(scheme) is None
    return covered and budget.reserve > 0 and budget.dimension == 1
