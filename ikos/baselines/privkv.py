"""PrivKV as WLQDLY21's Section 4 has it: one random key of each user, by randomized response.

After Ye, Hu, Meng, Zheng, *PrivKV: Key-Value Data Collection with Local Differential Privacy*,
IEEE S&P 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.accounting.wlqdly21 import (
    SupportVariances,
    privkv_variances,
    set_response_gamma,
)
from ikos.baselines.key_values import SetResponse, asked_for
from ikos.domains import SparseTernary
from ikos.randomized_response import respond
from ikos.randomness import RandomSource

ANSWERS = 3
"""0 for no value, 1 for +1, 2 for -1."""


@dataclass(frozen=True, init=False, repr=False)
class PrivKV(SetResponse):
    """PrivKV: what a user has at one random key, by randomized response on three answers.

    Parameters
    ----------
    n, domain, epsilon, delta, local_epsilon, min_honest
        As of `KeyValueBaseline`. The sparsity does not change the messages.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random answer, 3/(e^eps + 2) for a local guarantee eps.
    mse : float
        n (s v_1 + (d - s) v_0), exact: v_0 = d (2 gamma/3) / (1 - gamma)^2 and
        v_1 = d (1 - gamma/3) / (1 - gamma)^2 - 1.

    Notes
    -----
    A message is 3 key + answer. Shuffled, it is as private as randomized response on three values,
    whatever the dimension: keys are drawn without regard to the data, and may be seen (see
    ``ikos.accounting.blanket``).

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> from ikos.vectors import SparseTernary
    >>> protocol = PrivKV(10_000, SparseTernary(4, 1), epsilon=2)
    >>> protocol.report([0, -1, 0, 0], DeterministicRandom(0)).shape
    (1,)
    """

    gamma: Fraction

    def __init__(
        self,
        n: int,
        domain: SparseTernary,
        epsilon: float | Fraction,
        delta: float | Fraction = 0,
        *,
        local_epsilon: float | Fraction | None = None,
        min_honest: int | None = None,
    ) -> None:
        asked, most = asked_for(n, domain, epsilon, delta, local_epsilon, min_honest)
        gamma = set_response_gamma(*asked.budget, ANSWERS, most_local=most)
        super().__init__(asked, gamma=gamma)

    @property
    def _particulars(self) -> str:
        return (
            f"{self.domain}, a coordinate answered at random with probability "
            f"{float(self.gamma):.4g}"
        )

    @property
    def variances(self) -> SupportVariances:
        """Variances of one user's part of the estimates."""
        return privkv_variances(self.domain.dimension, self.domain.sparsity, self.gamma)

    @property
    def _answers(self) -> int:
        return ANSWERS

    @property
    def _response(self) -> str:
        return "randomized response on three values of a random key"

    @property
    def influence(self) -> float:
        """From one sign of a key to the other."""
        return 2 * self._scale

    @property
    def _scale(self) -> float:
        return self.domain.dimension / float(1 - self.gamma)

    @property
    def _sent(self) -> tuple[int, int]:
        return 1, (ANSWERS * self.domain.dimension - 1).bit_length()

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        users = rows.shape[0]
        keys = rng.below(np.full(users, self.domain.dimension, dtype=np.int64))
        true = rows[np.arange(users), keys].astype(np.int64) % ANSWERS  # -1 becomes 2
        return (ANSWERS * keys + respond(true, ANSWERS, self.gamma, rng))[np.newaxis]

    def _valid(self, column: NDArray[Any]) -> bool:
        most = ANSWERS * self.domain.dimension
        return column.dtype.kind in "iu" and bool(((column >= 0) & (column < most)).all())

    def _counts(self, column: NDArray[Any]) -> NDArray[np.float64]:
        d = self.domain.dimension
        seen = np.bincount(column.astype(np.int64), minlength=ANSWERS * d).reshape(d, ANSWERS)
        expected = seen.sum(axis=1, keepdims=True) * (float(self.gamma) / ANSWERS)
        return np.asarray((seen[:, 1:] - expected) * self._scale, dtype=np.float64)
