"""The protocols that BBGN20 runs, and their errors: what Table 2 and Figure 2 share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ikos import PrivateSum
from ikos.baselines import CentralLaplace, LocalLaplace, PrivacyBlanket, RecursiveSum, SumProtocol
from ikos.primitives.randomness import RandomSource

_MAKERS: dict[str, Callable[[int, float, float], SumProtocol]] = {
    "CentralLaplace": lambda n, epsilon, _: CentralLaplace(n, epsilon),
    "LocalLaplace": lambda n, epsilon, _: LocalLaplace(n, epsilon),
    "IKOS": PrivateSum,
    "SingleMessage": PrivacyBlanket,
    "Recursive, 2 msg.": lambda *b: RecursiveSum(*b, messages=2, parameters="paper"),
    "Recursive, 2 msg., opt.": lambda *b: RecursiveSum(*b, messages=2),
    "Recursive, 3 msg.": lambda *b: RecursiveSum(*b, messages=3, parameters="paper"),
    "Recursive, 3 msg., opt.": lambda *b: RecursiveSum(*b, messages=3),
}

NAMES = tuple(_MAKERS)
"""As in Table 2."""


def protocols(
    n: int, epsilon: float, delta: float, names: Sequence[str] = NAMES
) -> dict[str, SumProtocol]:
    """Return those of the protocols that there are for this many users."""
    found = {}
    for name in names:
        try:
            found[name] = _MAKERS[name](n, epsilon, delta)
        except ValueError:  # too few users for the published digits
            continue
    return found


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the slope of a straight line through points on logarithmic axes, by least squares."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


@dataclass(frozen=True)
class Errors:
    """Absolute errors of the mean of values in [0, 1], one for each run."""

    values: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(self.values.mean())

    @property
    def deviation(self) -> float:
        """Their sample standard deviation."""
        return float(self.values.std(ddof=1))

    def interval(self, z: float = 1.96) -> tuple[float, float]:
        """Return the normal approximation's interval of the mean; 95 % by default."""
        reach = z * self.deviation / math.sqrt(self.values.size)
        return self.mean - reach, self.mean + reach

    def first(self, runs: int) -> Errors:
        """Return the first of them."""
        return Errors(self.values[:runs])


def measured(protocol: SumProtocol, x: NDArray[np.float64], runs: int, rng: RandomSource) -> Errors:
    """Run a protocol on the same values many times."""
    truth = math.fsum(x)
    errors = [abs(protocol.run(x, rng).estimate - truth) / x.size for _ in range(runs)]
    return Errors(np.array(errors))


def expected_error(protocol: SumProtocol) -> tuple[float, float] | None:
    """Return bounds of the expected absolute error of the mean; None where none is closed.

    Discrete Laplace noise N of alpha = e^-rate has E|N| = 2 alpha / (1 - alpha^2). Rounding adds an
    independent centred error R, so that E|N| <= E|N + R| <= sqrt(E (N + R)^2) by Jensen's
    inequality, and E|N + R| <= E|N| + sqrt(E R^2), E R^2 <= n/4. A wrap-around is left out: it has
    probability 2^-40.
    """
    if isinstance(protocol, PrivateSum | CentralLaplace):
        rate = (
            protocol.noise.value
            if isinstance(protocol, PrivateSum)
            else (protocol.epsilon / protocol.precision)
        )
        alpha = math.exp(-float(rate))
        noise = -2 * alpha / math.expm1(-2 * float(rate))
        scale = protocol.precision * protocol.n
        low = noise / scale
        high = (noise + math.sqrt(protocol.n) / 2) / scale
        return low, min(high, math.sqrt(protocol.mse) / protocol.n)
    return None
