"""Noise of one designated user, over secure summation (BBGN20, Section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import flag
from ikos.accuracy import NoiseLaw, default_precision
from ikos.aggregation.private_sum import checked_modulus, checked_precision
from ikos.baselines.base import Asked
from ikos.baselines.secure_noise import NoiseOverSecureSum, hidden
from ikos.bounds import Bounds
from ikos.noise import discrete_laplace
from ikos.randomness import RandomSource, secure
from ikos.results import Guarantee


@dataclass(frozen=True, init=False, repr=False)
class DesignatedNoise(NoiseOverSecureSum):
    """One designated user adds all of the noise; all users' values are summed securely.

    The error is that of the central model. The price is trust in one user: **if the designated user
    is dishonest, absent, or tells the analyzer its noise, no one is protected.** And no one is
    protected from the designated user, who can take its noise off the result. `ikos.PrivateSum`
    has the same error and none of this.

    Parameters
    ----------
    n, epsilon, delta, lower, upper
        As of `Baseline`; the first user is the designated one. All of epsilon is spent on noise,
        and all of delta on imperfect hiding.
    precision, modulus : int, optional
        As for `ikos.PrivateSum`.
    messages : int, optional
        Messages of each user in all, the clear share included. Used even where they prove nothing;
        the guarantee then says so. By default the smallest number that proves delta.
    analysis, shuffler, clear_share
        As for `ikos.SecureSum`.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = DesignatedNoise(1000, epsilon=1, delta=1e-6)
    >>> 2.0 < protocol.mse < 2.05, protocol.guarantee.delta <= 1e-6
    (True, True)
    >>> abs(protocol.run([0.25] * 1000, DeterministicRandom(0)).estimate - 250) < 20
    True
    """

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        precision: int | None = None,
        modulus: int | None = None,
        messages: int | None = None,
        analysis: str = "best",
        shuffler: str = "parallel",
        clear_share: bool = True,
        lower: float = 0.0,
        upper: float = 1.0,
    ) -> None:
        asked = Asked.of(n, Bounds(lower, upper), epsilon, delta)
        if precision is None:
            precision = default_precision(asked.epsilon, asked.n)
        p = checked_precision(precision)
        q = checked_modulus(modulus, asked.n, p, NoiseLaw(asked.epsilon / p, Fraction(1)), analysis)
        count, sums = hidden(asked, q, asked.delta, messages, analysis, shuffler, clear_share)
        super().__init__(asked, precision=p, messages=count, secure_sum=sums)

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run, except from the designated user."""
        delta = self.messages.delta
        assert delta is not None
        return self._noisily(
            "discrete Laplace mechanism",
            delta,
            "ONLY while the designated user, the first, is honest and present and does not collude "
            "with the analyzer: without its noise, or knowing it, anyone has the exact sum",
            "NOT from the designated user, who knows the noise",
            f"while all {self.n:,} users are honest and present",
        )

    def report(
        self, x: float, rng: RandomSource | None = None, *, designated: bool = False
    ) -> NDArray[Any]:
        """Return one user's shares.

        Parameters
        ----------
        x : float
            Within the bounds.
        rng : RandomSource, optional
            Secure randomness by default.
        designated : bool
            Whether this is the user who adds the noise. Exactly one must, or no one is protected.
        """
        source, value = secure(rng), self.domain.value(x)
        if flag("designated", designated):
            return self._messages(value, source)[:, 0].copy()
        none = np.empty(0, dtype=np.int64)
        return self._shares(value, none, none, source)[:, 0].copy()

    def _noise(self, users: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[Any]]:
        del users
        noise = discrete_laplace(self.epsilon / self.precision, 1, rng)
        return np.zeros(1, dtype=np.int64), noise

    def _law(self, users: int) -> NoiseLaw:
        del users
        return NoiseLaw(self.epsilon / self.precision, Fraction(1))
