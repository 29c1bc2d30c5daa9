"""The share graph's second moments once more: the recursion over B(k, s) in ball arithmetic.

Written from the formulas alone, with factorials, and without anything of the library's. What is
returned are balls (python-flint's arb) that contain the true values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

flint = pytest.importorskip("flint", reason="python-flint is the independent evaluator")

BITS = 500
SETTINGS = [("parallel", True), ("single", True), ("parallel", False), ("single", False)]


@contextmanager
def precisely(bits: int = BITS) -> Iterator[None]:
    before, flint.ctx.prec = flint.ctx.prec, bits
    try:
        yield
    finally:
        flint.ctx.prec = before


@dataclass(frozen=True)
class Recursion:
    """All quantities for k = 0..n users.

    ``connected[k]`` is c_k, ``excess[k]`` is delta_k = E[q^(C-1)] - 1, ``divergence[k]`` is
    Delta = E[q^(C-1); C >= 2] = delta_k + 1 - c_k, and B(k, s) = g_s g_(k-s) / g_k.
    """

    q: int
    g: list[Any]
    connected: list[Any]
    excess: list[Any]
    divergence: list[Any]

    def separated(self, k: int, s: int) -> Any:
        """B(k, s)."""
        return self.g[s] * self.g[k - s] / self.g[k]

    def colourings(self, k: int) -> Any:
        """E[q^C]; 1 for nobody."""
        return self.q * (1 + self.excess[k]) if k else flint.arb(1)


def recursion(n: int, q: int, m: int, shuffler: str, clear: bool) -> Recursion:
    """c_k = 1 - sum w c_s and delta_k = sum w c_s (q (1 + delta_(k-s)) - 1), w = (s/k) B(k, s)."""
    arb = flint.arb
    single = shuffler == "single"
    factorial = [arb(1)]
    for k in range(1, (m * n if single else n) + 1):
        factorial.append(factorial[-1] * k)
    # C(k, s) = k! / (s! (k-s)!) and C(mk, ms): powers of them are B
    if single:
        g = [factorial[m * k] / factorial[k] ** (1 if clear else 2) for k in range(n + 1)]
    else:
        power = m - 1 if clear else m - 2
        g = [factorial[k] ** power if power >= 0 else 1 / factorial[k] for k in range(n + 1)]
    c, delta, total = [arb(0)], [arb(0)], [arb(0)]
    rooted, others = [arb(0)], [arb(0)]  # s c_s g_s; (q (1 + delta_j) - 1) g_j
    for k in range(1, n + 1):
        scale = 1 / (g[k] * k)
        split = sum((rooted[s] * g[k - s] for s in range(1, k)), arb(0)) * scale
        c.append(1 - split)
        delta.append(sum((rooted[s] * others[k - s] for s in range(1, k)), arb(0)) * scale)
        total.append(delta[k] + split)
        rooted.append(k * c[k] * g[k])
        others.append((q * (1 + delta[k]) - 1) * g[k])
    return Recursion(q, g, c, delta, total)


def bits(divergence: Any) -> Any:
    """(1 - log2 Delta) / 2."""
    return (1 - flint.arb(divergence).log() / flint.arb(2).log()) / 2
