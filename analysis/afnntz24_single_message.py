"""AFNNTZ24's protocol of one message: errors, their exponents, and the floor below them.

    python -m analysis.afnntz24_single_message --output DIR

writes into DIR ``afnntz24-single-message.svg``, ``.png``, ``.csv`` and
``afnntz24-single-message.md``: slopes of the error in n and in epsilon, next to d/(d+2) and
-4/(d+2). Measured are errors of uniform vectors of [0, 1]^d, with up to 10^6 users; delta = 1e-10.
The floor is Theorem 1.4's with all constants,
`analysis.afnntz24_bounds.single_message_floor`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.afnntz24_bounds import published_error, single_message_floor
from analysis.experiments import exponent
from analysis.output import Files, csv_text, main, markdown, program, steps
from analysis.plots.afnntz24_attacks import GridCurve, single_message_figure
from ikos import Box
from ikos.baselines import SingleMessageGrid
from ikos.plots.figures import Figure
from ikos.testing import DeterministicRandom

DELTA = 1e-10
DIMENSIONS = (1, 2, 3, 4, 5, 6)
FIXED_USERS, FIXED_EPSILON = 10**9, 1.0


@dataclass(frozen=True)
class Point:
    """One setting."""

    d: int
    n: int
    epsilon: float
    levels: int
    gamma: float
    mse: float
    published: float
    floor: float
    measured: float
    expected: float
    runs: int


def measured(protocol: SingleMessageGrid, runs: int, seed: int) -> tuple[float, float]:
    """Return the mean squared error of runs on uniform vectors, and its exact value."""
    if not runs:
        return math.nan, math.nan
    draw = np.random.default_rng([seed, protocol.n, protocol.dimension])
    rng = DeterministicRandom(10**6 * seed + protocol.dimension)
    x = draw.random((protocol.n, protocol.dimension))
    truth = x.sum(axis=0)
    squares = [((protocol.run(x, rng).estimate - truth) ** 2).sum() for _ in range(runs)]
    return float(np.mean(squares)), protocol.expected_square(x)


def points(
    users: Sequence[int],
    epsilons: Sequence[float],
    runs: int,
    most: int,
    seed: int,
    step: Callable[[], None],
) -> list[Point]:
    """Return all settings; errors are measured for up to ``most`` users."""
    settings = [(n, FIXED_EPSILON) for n in users]
    settings += [(FIXED_USERS, epsilon) for epsilon in epsilons]
    found = []
    for d in DIMENSIONS:
        for n, epsilon in settings:
            protocol = SingleMessageGrid(n, Box(d), epsilon, DELTA)
            here = min(10 * runs, max(runs, runs * 10**6 // n)) if n <= most else 0
            found.append(
                Point(
                    d,
                    n,
                    epsilon,
                    protocol.levels,
                    float(protocol.gamma),
                    protocol.mse,
                    published_error(n, d, epsilon, DELTA),
                    single_message_floor(n, d, epsilon, DELTA, shape="box"),
                    *measured(protocol, here, seed),
                    here,
                )
            )
            step()
    return found


def settings(*, quick: bool) -> tuple[list[int], list[float], int, int]:
    """Return users, epsilons, runs, and the most users with whom there are runs."""
    if quick:
        return [10**4, 10**5], [0.5, 1.0], 3, 10**5
    return [round(10 ** (e / 2)) for e in range(8, 19)], [0.05, 0.1, 0.2, 0.5, 1.0], 30, 10**6


def _along(found: Sequence[Point], d: int, *, users: bool) -> list[Point]:
    """Return a dimension's points at one epsilon, or at one number of users."""
    if users:
        return [p for p in found if p.d == d and p.epsilon == FIXED_EPSILON]
    return [p for p in found if p.d == d and p.n == FIXED_USERS]


def _curve(found: Sequence[Point], d: int, *, users: bool) -> GridCurve:
    here = sorted(_along(found, d, users=users), key=lambda p: (p.n, p.epsilon))
    places = [float(p.n) if users else p.epsilon for p in here]
    unique = dict(zip(places, here, strict=True))
    return GridCurve(
        d,
        tuple(unique),
        tuple(p.mse / d for p in unique.values()),
        tuple(p.floor / d for p in unique.values()),
        tuple((place, p.measured / d) for place, p in unique.items() if p.runs),
    )


def error_figure(found: Sequence[Point]) -> Figure:
    """Return the figure."""
    return single_message_figure(
        [_curve(found, d, users=True) for d in DIMENSIONS],
        [_curve(found, d, users=False) for d in DIMENSIONS],
        "A vector in one message: the error of the sum (AFNNTZ24, Algorithms 5 and 6)",
        f"A box of width 1, δ = 10⁻¹⁰; left: ε = {FIXED_EPSILON:g}; right: n = 10⁹. Slopes are "
        "about d/(d+2) in n and −4/(d+2) in ε; steps are those of the grid.",
    )


def _slopes(found: Sequence[Point]) -> str:
    rows = []
    for d in DIMENSIONS:
        users = _along(found, d, users=True)
        epsilons = _along(found, d, users=False)
        seen = [p for p in users if p.runs]
        rows.append(
            (
                f"{d}",
                f"{d / (d + 2):.3f}",
                f"{exponent([p.n for p in users], [p.mse for p in users]):.3f}",
                f"{exponent([p.n for p in seen], [p.measured for p in seen]):.3f}",
                f"{exponent([p.n for p in seen], [p.expected for p in seen]):.3f}",
                f"{exponent([p.n for p in users], [p.floor for p in users]):.3f}",
                f"{-4 / (d + 2):.3f}",
                f"{exponent([p.epsilon for p in epsilons], [p.mse for p in epsilons]):.3f}",
            )
        )
    header = ["d", "d/(d+2)", "bound", "measured", "expected", "floor", "-4/(d+2)", "bound in ε"]
    return markdown(header, rows)


def _table(found: Sequence[Point]) -> str:
    header = [
        "d", "n", "epsilon", "levels", "gamma", "mse", "published", "floor", "measured",
        "expected", "runs",
    ]  # fmt: skip
    rows = []
    for p in found:
        seen = (p.measured, p.expected) if p.runs else (None, None)
        paper = None if math.isinf(p.published) else p.published
        rows.append((p.d, p.n, p.epsilon, p.levels, p.gamma, p.mse, paper, p.floor, *seen, p.runs))
    return csv_text(header, rows)


@program()
def command(files: Files, seed: int, quick: bool) -> None:
    """Compute and measure the errors of one message per user.

    Takes about five minutes.
    """
    users, epsilons, runs, most = settings(quick=quick)
    with steps("running", len(DIMENSIONS) * (len(users) + len(epsilons))) as step:
        found = points(users, epsilons, runs, most, seed, step)
    files.text("afnntz24-single-message.csv", _table(found))
    files.text("afnntz24-single-message.md", _slopes(found))
    files.figure("afnntz24-single-message", error_figure(found))


if __name__ == "__main__":
    main(command)
