"""Noise of one designated user, over secure summation (BBGN20, Section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, flag, round_up
from ikos.accuracy import NoiseLaw, default_precision
from ikos.aggregation import SecureSum
from ikos.aggregation.private_sum import checked_modulus, checked_precision
from ikos.aggregation.protocol import budget
from ikos.baselines.secure_noise import NoiseOverSecureSum, hiding
from ikos.bounds import Bounds
from ikos.counts import SHUFFLERS, MessageCount
from ikos.counts.secure import checked_analysis
from ikos.noise import discrete_laplace
from ikos.randomness import RandomSource, secure
from ikos.results import Guarantee


@dataclass(frozen=True, init=False, repr=False)
class DesignatedNoise(NoiseOverSecureSum):
    """One designated user adds all of the noise; everybody's values are summed securely.

    The error is that of the central model. The price is trust in one user: **if the designated user
    is dishonest, absent, or tells the analyzer its noise, nobody is protected.** And nobody is
    protected from the designated user, who can take its noise off the result. `ikos.PrivateSum`
    has the same error and none of this.

    Parameters
    ----------
    n : int
        Users; public. The first of them is the designated one.
    epsilon, delta : float
        The guarantee. All of epsilon is spent on noise, and all of delta on imperfect hiding.
    precision, modulus : int, optional
        As for `ikos.PrivateSum`.
    messages : int, optional
        Messages of each user in all, the clear share included. Used even where they prove nothing;
        the guarantee then says so. By default the smallest number that proves delta.
    analysis, shuffler, clear_share
        As for `ikos.SecureSum`.
    lower, upper : float
        Public bounds of the values.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = DesignatedNoise(1000, epsilon=1, delta=1e-6)
    >>> 2.0 < protocol.mse < 2.05, protocol.guarantee.delta <= 1e-6
    (True, True)
    >>> abs(protocol.run([0.25] * 1000, DeterministicRandom(0)).estimate - 250) < 20
    True
    """

    n: int
    epsilon: Fraction
    precision: int
    messages: MessageCount
    secure_sum: SecureSum
    domain: Bounds

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
        users, _ = self._checked_users(n)
        eps, allowed = budget(epsilon, delta)
        p = checked_precision(default_precision(eps, users) if precision is None else precision)
        q = checked_modulus(modulus, users, p, NoiseLaw(eps / p, Fraction(1)), analysis)
        count, secure_sum = hiding(
            users,
            q,
            eps,
            allowed,
            min_honest=users,
            messages=messages,
            analysis=checked_analysis(analysis),
            shuffler=choice("shuffler", shuffler, SHUFFLERS),
            clear_share=flag("clear_share", clear_share),
        )
        self._hold(
            n=users,
            epsilon=eps,
            precision=p,
            messages=count,
            secure_sum=secure_sum,
            domain=Bounds(lower, upper),
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed to each user for one run, except from the designated user."""
        delta = self.messages.delta
        assert delta is not None
        conditions: tuple[str, ...] = (
            "ONLY while the designated user, the first, is honest and present and does not collude "
            "with the analyzer: without its noise, or knowing it, anybody has the exact sum",
            "NOT from the designated user, who knows the noise",
            f"while all {self.n:,} users are honest and present",
            *self._conditions,
        )
        return Guarantee(
            round_up(self.epsilon),
            delta,
            f"discrete Laplace mechanism; {self.messages.theorem}",
            conditions if delta < 1 else (),
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
            Whether this is the user who adds the noise. Exactly one must, or nobody is protected.
        """
        source, value = secure(rng), self.domain.value(x)
        if flag("designated", designated):
            return self._messages(value, source)[:, 0].copy()
        nobody = np.empty(0, dtype=np.int64)
        return self._shares(value, nobody, nobody, source)[:, 0].copy()

    def _noise(self, users: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[Any]]:
        del users
        noise = discrete_laplace(self.epsilon / self.precision, 1, rng)
        return np.zeros(1, dtype=np.int64), noise

    def _law(self, users: int) -> NoiseLaw:
        del users
        return NoiseLaw(self.epsilon / self.precision, Fraction(1))
