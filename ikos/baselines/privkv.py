"""PrivKV as in WLQDLY21, Section 4: a user's value at one random key."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.accounting.wlqdly21 import privkv_variances, set_response_gamma
from ikos.baselines.base import Description
from ikos.baselines.key_values import SetResponse
from ikos.primitives.randomized_response import respond
from ikos.primitives.randomness import RandomSource

ANSWERS = 3  # 0 for no value, 1 for +1, 2 for -1


@dataclass(frozen=True, init=False, repr=False)
class PrivKV(SetResponse):
    """PrivKV: a user's value at one random key, by randomized response on three answers.

    Parameters
    ----------
    n, domain, epsilon, delta, local_epsilon, min_honest
        As for `KeyValueBaseline`. The sparsity does not change the messages.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random answer, 3/(e^eps + 2) for a local guarantee eps.

    Notes
    -----
    A message is 3 key + answer. Shuffled, it is as private as randomized response on three values,
    whatever the dimension: keys are drawn independently of the data, and may be seen (see
    ``ikos.accounting.blanket``).

    Examples
    --------
    >>> from ikos import SparseTernary
    >>> round(float(PrivKV(10_000, SparseTernary(4, 1), epsilon=2).gamma), 2)
    0.32
    """

    @classmethod
    def _calibrated(cls, terms: Any, most: Fraction | None) -> dict[str, object]:
        (eps, delta, honest), d, s = terms._budget, terms.domain.dimension, terms.domain.sparsity
        gamma = set_response_gamma(eps, delta, honest, ANSWERS, most_local=most)
        return {
            "gamma": gamma,
            "variances": privkv_variances(d, s, gamma),
            "_alphabet": ANSWERS * d,
            "_answers": Fraction(ANSWERS),
        }

    def _describe(self) -> Description:
        return self._response_described(
            "a coordinate",
            "randomized response on three values of a random key",
            influence=2 * self._scale,  # from one sign of a key to the other
        )

    @property
    def _scale(self) -> float:
        return self.domain.dimension / float(1 - self.gamma)

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        users = rows.shape[0]
        keys = rng.below(np.full(users, self.domain.dimension, dtype=np.int64))
        true = rows[np.arange(users), keys].astype(np.int64) % ANSWERS  # -1 becomes 2
        return (ANSWERS * keys + respond(true, ANSWERS, self.gamma, rng))[np.newaxis]

    def _counts(self, column: NDArray[Any]) -> NDArray[np.float64]:
        d = self.domain.dimension
        seen = np.bincount(column.astype(np.int64), minlength=ANSWERS * d).reshape(d, ANSWERS)
        expected = seen.sum(axis=1, keepdims=True) * (float(self.gamma) / ANSWERS)
        return np.asarray((seen[:, 1:] - expected) * self._scale, dtype=np.float64)
