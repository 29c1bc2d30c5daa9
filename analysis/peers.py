"""Our accountants and errors next to the best published ones, in the same settings.

    python -m analysis.peers --output DIR

writes ``peers.md``. Ours are computed here, and also what no proof can be below. The peers' were
computed once: WPLWL23's by its authors' program (24 halvings), SCW25's by Fourier transforms with
the steps of its authors' program, (e^eps0 - 1)/1200, LWY22's with the noise that its authors'
program finds, AKL21's and BW18's by their formulas. Smaller is better in every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from analysis.output import Files, main, markdown, plain_number, program, stepped
from ikos import Ball, Categories, PrivateVectorSum
from ikos.accounting import (
    ReportLaw,
    amplified_delta_floor,
    amplified_epsilon,
    gaussian_mu,
    laplace_report,
    report_delta,
    report_epsilon,
    response_attained,
    response_epsilon,
)
from ikos.baselines import CentralGaussian, FrequencyEstimation
from ikos.numeric.search import bisect
from ikos.results.sums import at_least, at_most

USERS = 10**5
STRICT = (1.0, 1e-8)


@dataclass(frozen=True)
class Row:
    """A setting, our number for it, what this library had before, and the best published one.

    If less than some number is impossible, ``attained`` is a delta that inputs attain at an
    epsilon, for the ``delta`` that is claimed; a peer at which more is attained is ``false``.
    """

    what: str
    ours: Callable[[], float]
    before: float
    peer: float
    source: str
    delta: float = 0.0
    attained: Callable[[float], float] | None = None
    false: bool = False

    def least(self, ours: float) -> float | None:
        """Return the largest epsilon found, from half of ours on, that is not enough."""
        attained = self.attained
        if attained is None:
            return None
        return bisect(lambda eps: attained(eps) > self.delta, ours / 2, ours, close=1e-5)


def _setting(kind: str, n: int, delta: float) -> str:
    return f"ε of {kind}, n = {plain_number(n)}, δ = {delta:.0e}".replace("e-0", "e-")


def _any_randomizer(n: int, local: int, delta: float, before: float, peer: float) -> Row:
    return Row(
        _setting(f"any {local}-private messages", n, delta),
        lambda: amplified_epsilon(delta, n, local),
        before, peer, "WPLWL23",
        delta, lambda epsilon: amplified_delta_floor(epsilon, n, local),
    )  # fmt: skip


def laplace_among_zeros(local: float, cells: int = 1 << 15) -> ReportLaw:
    """Return the report of 0 or 1 with Laplace noise, where all other users hold 0.

    Their law is the whole blanket, so both bounds of `report_delta` are on what is revealed.
    """
    y = np.linspace(0, 1, cells + 1)
    parts = np.exp(-local * y[:-1]) * -math.expm1(-local / cells) / 2
    zero = np.concatenate(([0.5], parts, [math.exp(-local) / 2]))
    ratio, ones = np.exp(local * (2 * y - 1)), np.ones(cells + 2)
    ratios = np.concatenate((ratio[:1], ratio)), np.concatenate((ratio, ratio[-1:]))
    return ReportLaw(zero, zero, zero[::-1], (ones, ones), ratios)


def _laplace(n: int, local: int, delta: float, before: float, peer: float) -> Row:
    return Row(
        _setting(f"{local}-private Laplace noise on [0, 1]", n, delta),
        lambda: report_epsilon(laplace_report(local), delta, n),
        before, peer, "SCW25",
        delta, lambda epsilon: report_delta(laplace_among_zeros(local), epsilon, n)[0],
    )  # fmt: skip


def _response(
    n: int, local: int, delta: float, before: float, peer: float, source: str, false: bool = False
) -> Row:
    gamma = Fraction(10 / (math.exp(local) + 9))
    return Row(
        _setting(f"{local}-private answers on 10 values", n, delta),
        lambda: response_epsilon(delta, n, 10, gamma),
        before, peer, source,
        delta, lambda epsilon: response_attained(epsilon, n, 10, gamma), false,
    )  # fmt: skip


def _ball(d: int, before: float, peer: float) -> Row:
    def ours() -> float:
        return math.sqrt(PrivateVectorSum(USERS, Ball(d), *STRICT).mse / d)

    return Row(f"error per coordinate, unit ball, d = {d:,}", ours, before, peer, "AKL21")


def _curator() -> float:
    return math.sqrt(CentralGaussian(USERS, Ball(64), *STRICT).mse / 64)


def _histogram() -> FrequencyEstimation:
    return FrequencyEstimation(USERS, Categories([10_000]), *STRICT)


def _error_of_counts() -> float:
    return math.sqrt(_histogram().error(USERS).coordinate.mean_square)


NOISE = 76.599  # random messages about each class by LWY22's program, which takes delta = n^-2

ROWS = (
    _any_randomizer(10**4, 1, 1e-6, 0.053005, 0.0432065),
    _any_randomizer(10**5, 4, 1e-6, 0.16977, 0.118161),
    _any_randomizer(10**6, 6, 1e-8, 0.18947, 0.132397),
    _laplace(10**4, 1, 1e-6, 0.053005, 0.038241),
    _laplace(10**5, 4, 1e-6, 0.16977, 0.098104),
    _laplace(10**6, 6, 1e-8, 0.18947, 0.114548),
    _response(1000, 1, 1e-6, 0.080161, 0.081103, "SCW25"),
    _response(1000, 1, 1e-6, 0.080161, 0.080095, "WPLWL23", false=True),
    _response(10**7, 3, 1e-8, 0.007244, 0.0064128, "WPLWL23"),
    _response(10**8, 3, 1e-8, 0.002166, 0.0018956, "WPLWL23"),
    _ball(64, 14.86, 10.79),
    _ball(1000, 15.48, 10.82),
    Row("the same with a curator, d = 64", _curator, 10.87, 2 / gaussian_mu(*STRICT), "BW18"),
    Row("messages of a user, histogram of 10^4 classes",
        lambda: _histogram().cost().messages_per_user, 60_000, 1 + NOISE / 10, "LWY22"),
    Row("error of each of its counts", _error_of_counts, 2.80, math.sqrt(NOISE), "LWY22"),
)  # fmt: skip


def table() -> str:
    """Compute our side, and return the comparison in Markdown."""

    def cells(row: Row) -> tuple[str, ...]:
        ours, source = row.ours(), row.source
        least = row.least(ours)
        if row.attained and row.false:
            source += f", false: δ ≥ {at_most(row.attained(row.peer), 5)}"
        return (
            row.what, at_least(ours, 5), "-" if least is None else at_most(least, 5),
            f"{row.before:,.5g}", f"{row.peer:.5g}", source,
        )  # fmt: skip

    header = ("what", "here", "not below", "before", "best peer", "whose")
    return markdown(header, stepped("computing", len(ROWS), map(cells, ROWS)))


@program()
def command(files: Files) -> None:
    """Compute our side of the comparison with published accountants and protocols."""
    files.text("peers.md", table())


if __name__ == "__main__":
    main(command)
