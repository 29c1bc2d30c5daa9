"""Our accountants and errors next to the best published ones, in the same settings.

    python -m analysis.peers --output DIR

writes ``peers.md``. The peers' numbers were computed once, each with the program or the formula
that its row names; ours are computed here. Smaller is better in every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from analysis.output import Files, main, markdown, plain_number, program, stepped
from ikos.accounting import clones_delta, gaussian_mu, response_epsilon
from ikos.accounting.solve import bisect
from ikos.vectors import Ball, Categories, CentralGaussian, PrivateVectorSum

VARIATION_RATIO = "variation-ratio, generic (Wang et al. 2023)"
SKELLAM = "Skellam (Agarwal, Kairouz, Liu 2021)"
USERS = 10**5
STRICT = (1.0, 1e-8)


@dataclass(frozen=True)
class Row:
    """A setting, our number for it, the best peer's, and where that is from."""

    what: str
    ours: Callable[[], float]
    peer: float
    source: str


def _any_randomizer(n: int, local_epsilon: int, delta: float, peer: float) -> Row:
    def ours() -> float:
        def enough(epsilon: float) -> bool:
            return clones_delta(epsilon, n, local_epsilon) <= delta

        return bisect(enough, float(local_epsilon), 1e-3)

    what = f"ε of any {local_epsilon}-private messages, n = {plain_number(n)}, δ = {delta:g}"
    return Row(what, ours, peer, VARIATION_RATIO)


def _response(n: int, local_epsilon: int, delta: float, peer: float, source: str) -> Row:
    gamma = Fraction(10 / (math.exp(local_epsilon) + 9))
    what = (
        f"ε of {local_epsilon}-private answers on 10 values, n = {plain_number(n)}, δ = {delta:g}"
    )
    return Row(what, lambda: response_epsilon(delta, n, 10, gamma), peer, source)


def _ball(d: int, peer: float) -> Row:
    def ours() -> float:
        return math.sqrt(PrivateVectorSum(USERS, Ball(d), *STRICT).mse / d)

    return Row(f"error per coordinate, unit ball, d = {d:,}", ours, peer, SKELLAM)


def _curator() -> float:
    return math.sqrt(CentralGaussian(USERS, Ball(64), *STRICT, precision=1 << 20).mse / 64)


def _histogram() -> float:
    return PrivateVectorSum(USERS, Categories([10_000]), *STRICT).cost().messages_per_user


ROWS = (
    _any_randomizer(10**4, 1, 1e-6, 0.0432),
    _any_randomizer(10**5, 4, 1e-6, 0.118),
    _any_randomizer(10**6, 6, 1e-8, 0.132),
    _response(1000, 1, 1e-6, 0.080095, "variation-ratio; false: at least 0.080131 is needed"),
    _response(10**7, 3, 1e-8, 0.006420, VARIATION_RATIO),
    _response(10**8, 3, 1e-8, 0.001900, VARIATION_RATIO),
    _ball(64, 10.79),
    _ball(1000, 10.82),
    Row("the same with a curator, d = 64", _curator, 2 / gaussian_mu(*STRICT),
        "analytic Gaussian (Balle, Wang 2018), not rounded"),
    Row("messages of a user, histogram of 10^4 classes", _histogram, 54, "Luo, Wang, Yi 2022"),
)  # fmt: skip


def table(rows: list[tuple[Row, float]]) -> str:
    """Return the comparison in Markdown."""
    cells = [
        (row.what, f"{ours:.5g}" if ours < 1e4 else f"{ours:,.0f}",
         f"{row.peer:.5g}", row.source)
        for row, ours in rows
    ]  # fmt: skip
    return markdown(("what", "here", "best peer", "peer"), cells)


@program()
def command(files: Files) -> None:
    """Compute our side of the comparison with published accountants and protocols."""
    files.text("peers.md", table(stepped("computing", len(ROWS), ((r, r.ours()) for r in ROWS))))


if __name__ == "__main__":
    main(command)
