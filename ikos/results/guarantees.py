"""The guarantees of protocols and runs, each with its theorem and conditions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

from ikos._validation import InvalidType, quote
from ikos.primitives.randomness import RandomSource, SecureRandom
from ikos.results.conditions import SEEDED, Condition
from ikos.results.text import Printed, at_least, hundredths

__all__ = ["Guarantee", "SecureGuarantee"]


class _Proof(Printed, ABC):
    """A guarantee that is void unless all its conditions are met."""

    theorem: str
    conditions: tuple[Condition, ...]
    computational: bool

    def __post_init__(self) -> None:
        for condition in self.conditions:
            if not isinstance(condition, Condition):  # of which it is not known whether it is met
                raise InvalidType(
                    "conditions", f"must be of type Condition, got {quote(condition)}"
                )
        computational = any(condition.computational for condition in self.conditions)
        object.__setattr__(self, "computational", computational)

    @property
    @abstractmethod
    def vacuous(self) -> bool:
        """Whether nothing is proved because there are too few messages."""

    @property
    def proved(self) -> bool:
        """Whether something is proved, for this group and this run."""
        return not self.vacuous and all(condition.met for condition in self.conditions)

    @property
    @abstractmethod
    def statement(self) -> str:
        """The guarantee in words."""

    def __str__(self) -> str:
        if self.vacuous:
            return self.statement
        unmet = (str(condition) for condition in self.conditions if not condition.met)
        return "; ".join((f"{self.statement} ({self.theorem})", *unmet))


@dataclass(frozen=True)
class Guarantee(_Proof):
    """A differential privacy guarantee, the theorem that proves it, and its conditions.

    A delta of 1 means that nothing is proved, and so does a condition that is not ``met``. Inputs
    are neighbours if they differ in one user's value; the number of users is public. A
    ``computational`` guarantee, one with a computational condition, holds against tests that cannot
    break its assumptions, up to the advantage of those that can.
    """

    epsilon: float
    delta: float
    theorem: str
    conditions: tuple[Condition, ...]
    adjacency: str = "replace-one"
    computational: bool = field(init=False)

    @property
    def vacuous(self) -> bool:
        """Whether nothing is proved because there are too few messages."""
        return self.delta >= 1

    def of_run(self, rng: RandomSource) -> Guarantee:
        """Return the guarantee of a run, void unless its randomness is secure."""
        if isinstance(rng, SecureRandom):
            return self
        return replace(self, conditions=(SEEDED, *self.conditions))

    @property
    def budget(self) -> str:
        """The guarantee in words."""
        if self.vacuous:
            return "no differential privacy is proved: too few messages"
        epsilon, delta = at_least(self.epsilon, 6), at_least(self.delta, 3)
        kind = "computational " * self.computational
        return f"({epsilon}, {delta})-{kind}differential privacy, {self.adjacency}"

    statement = budget


@dataclass(frozen=True)
class SecureGuarantee(_Proof):
    """The guarantee of a secure sum: it hides all but the sum. It is not differential privacy.

    The analyzer's views of any two inputs with the same sum are within total variation
    ``2**-sigma``. ``sigma`` is rounded down; 0.0 if nothing is proved, infinite if nothing is lost,
    as of a single user. ``theorem`` and ``conditions`` are as in `ikos.Guarantee`. A
    ``computational`` guarantee bounds the advantage of tests, up to their advantage against its
    assumptions.
    """

    sigma: float
    theorem: str
    conditions: tuple[Condition, ...]
    computational: bool = field(init=False)

    @property
    def vacuous(self) -> bool:
        """Whether nothing is proved because there are too few messages."""
        return self.sigma <= 0

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        if self.vacuous:
            return "nothing is proved: too few messages"
        distance = "0" if math.isinf(self.sigma) else f"2^-{hundredths(self.sigma)}"
        if self.computational:
            return (
                "any test that distinguishes two inputs with the same sum with an advantage above "
                f"{distance} breaks an assumption"
            )
        return f"views of any two inputs with the same sum are within total variation {distance}"
