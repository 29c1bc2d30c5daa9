"""AFNNTZ24's laws for many messages: errors, messages, and Kashin's constant, measured.

    python -m analysis.afnntz24_rates --output DIR

writes into DIR ``afnntz24-errors``, ``afnntz24-messages`` and ``afnntz24-kashin``, each as
``.svg``, ``.png`` and ``.csv``, and ``afnntz24-rates.md``, the errors of Algorithms 3 and 4. By
Theorem 2.6 the mean squared error of a sum of vectors of norm 1 is of the order d / epsilon^2, with
min(n epsilon^2, d) messages from each user (end of Section 2.2). Vectors are normal ones of norm 1,
half of them around one direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.experiments import exponent
from analysis.output import Files, csv_text, main, markdown, plain_number, program, steps
from analysis.plots.panels import Line, Panel, panels_figure
from ikos import Ball
from ikos.baselines import KashinCorrelatedNoise, KashinFrame, KashinPrivateSum, SumProtocol
from ikos.plots.figures import Figure
from ikos.testing import DeterministicRandom

DELTA = 1e-6

PROTOCOLS: dict[str, Callable[[int, int, float], SumProtocol]] = {
    "correlated noise (Algorithms 3, 4)": lambda n, d, e: KashinCorrelatedNoise(
        n, Ball(d), e, DELTA
    ),
    "correlated noise, sampled": lambda n, d, e: KashinCorrelatedNoise(
        n, Ball(d), e, DELTA, sampling="auto"
    ),
    "secure sum of each coefficient": lambda n, d, e: KashinPrivateSum(n, Ball(d), e, DELTA),
}

KEYS = dict(
    zip(
        PROTOCOLS,
        ("kashin-correlated-noise", "kashin-sampled-noise", "kashin-private-sum"),
        strict=True,
    )
)
"""Those of the library's comparison."""

Setting = tuple[int, int, float]
"""Users, coordinates, epsilon."""

ERRORS: dict[str, tuple[Setting, ...]] = {
    "d": tuple((10_000, d, 1.0) for d in (8, 16, 32, 64, 128, 256, 512)),
    "n": tuple((n, 64, 1.0) for n in (1000, 3000, 10_000, 30_000, 100_000)),
    "ε": tuple((10_000, 64, e) for e in (0.25, 0.5, 1.0, 2.0, 4.0)),
}
MESSAGES: dict[str, tuple[Setting, ...]] = {
    "d": tuple((100_000, 2**k, 1.0) for k in range(3, 15)),
    "n": tuple((n, 1024, 1.0) for n in (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)),
    "ε": tuple((100_000, 1024, e) for e in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)),
}
_PLACE = {"n": 0, "d": 1, "ε": 2}
_LABELS = {"n": "users n", "d": "coordinates d", "ε": "ε"}


def data(n: int, d: int, seed: int) -> NDArray[np.float64]:
    """Return n vectors of norm 1, half of them around one direction."""
    rng = np.random.default_rng([seed, n, d])
    x = rng.normal(size=(n, d))
    x[: n // 2, 0] += math.sqrt(d)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x


@dataclass(frozen=True)
class Point:
    """A protocol in a setting: bounds, and squared errors of runs."""

    panel: str
    name: str
    setting: Setting
    mse: float
    messages: float
    squares: NDArray[np.float64]

    @property
    def x(self) -> float:
        """What varies."""
        return float(self.setting[_PLACE[self.panel]])

    @property
    def measured(self) -> tuple[float, float, float, float]:
        """x, and the mean of squares with two standard errors to both sides."""
        mean = float(self.squares.mean())
        spread = 2 * float(self.squares.std(ddof=1)) / math.sqrt(self.squares.size)
        return self.x, mean, max(mean - spread, mean / 10), mean + spread


def points(settings: dict[str, tuple[Setting, ...]], runs: int, seed: int) -> Iterator[Point]:
    """Yield each protocol in each setting, run so often."""
    for panel, many in settings.items():
        for n, d, epsilon in many:
            x = data(n, d, seed) if runs else np.empty((0, d))
            truth = x.sum(axis=0)
            for number, (name, make) in enumerate(PROTOCOLS.items()):
                protocol = make(n, d, epsilon)
                rng = DeterministicRandom(10**9 * seed + 10 * n + number)
                errors = [protocol.run(x, rng).estimate - truth for _ in range(runs)]
                squares = np.array([float(np.sum(error**2)) for error in errors])
                cost = protocol.cost().messages_per_user
                yield Point(panel, name, (n, d, epsilon), protocol.mse, cost, squares)


def _of(found: Iterable[Point], panel: str, name: str) -> list[Point]:
    return [point for point in found if (point.panel, point.name) == (panel, name)]


def _fixed(panel: str, setting: Setting) -> str:
    n, d, epsilon = setting
    words = {"n": f"n = {n:,}", "d": f"d = {d:,}", "ε": f"ε = {epsilon:g}"}
    return ", ".join(word for name, word in words.items() if name != panel)


def error_figure(found: Sequence[Point], runs: int) -> Figure:
    """Return the figure of errors: bounds as lines, measured means as points."""
    panels, first = [], next(iter(PROTOCOLS))
    slopes = {}
    for panel, settings in _panels(found):
        curves = []
        for name in PROTOCOLS:
            here = _of(found, panel, name)
            xs = tuple(point.x for point in here)
            measured = tuple(point.measured for point in here)
            mses = tuple(point.mse for point in here)
            curves.append(Line(name, xs, mses, measured=measured, protocol=KEYS[name]))
            if name == first:
                slopes[panel] = exponent(xs, [middle for _, middle, _, _ in measured])
        law = tuple(d / e**2 for _, d, e in settings)
        curves.append(Line("d/ε²", curves[0].x, law, "dashed"))
        panels.append(Panel(_fixed(panel, settings[0]), tuple(curves), _LABELS[panel]))
    fitted = ", ".join(f"{name} {round(value, 2) + 0.0:.2f}" for name, value in slopes.items())
    note = (
        f"δ = {DELTA:g}; lines: bounds; points: means of {runs} runs with two standard errors; "
        f"fitted exponents: {fitted} (first protocol, measured)"
    )
    rows = [("mean squared error of the sum", panels)]
    return panels_figure(rows, "Sums of vectors of norm 1, many messages", note)


def _panels(found: Sequence[Point]) -> Iterator[tuple[str, list[Setting]]]:
    for panel in dict.fromkeys(point.panel for point in found):
        yield panel, [point.setting for point in _of(found, panel, next(iter(PROTOCOLS)))]


def message_figure(found: Sequence[Point]) -> Figure:
    """Return the figure of messages per user, next to min(n epsilon^2, d)."""
    panels = []
    for panel, settings in _panels(found):
        curves = []
        for name in PROTOCOLS:
            here = _of(found, panel, name)
            xs = tuple(point.x for point in here)
            sent = tuple(point.messages for point in here)
            curves.append(Line(name, xs, sent, protocol=KEYS[name]))
        law = tuple(min(n * e**2, d) for n, d, e in settings)
        curves.append(Line("min(nε², d)", curves[0].x, law, "dashed"))
        panels.append(Panel(_fixed(panel, settings[0]), tuple(curves), _LABELS[panel]))
    note = f"δ = {DELTA:g}; means, for a user all of whose coefficients are the largest"
    return panels_figure([("messages", panels)], "Messages per user (AFNNTZ24)", note)


# Kashin's constant

_BOUNDS = tuple(round(1.2 + 0.05 * k, 2) for k in range(37))


def unit_vectors(frame: KashinFrame, users: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Return vectors of norm 1 of several kinds; the last two know the frame."""
    d, rng = frame.dimension, np.random.default_rng([seed, frame.dimension])
    sparse = np.zeros((users, d))
    for row in sparse:
        k = int(rng.integers(1, d + 1))
        row[rng.permutation(d)[:k]] = rng.choice([-1, 1], k)
    rows = np.eye(frame.rows)[: min(users, frame.rows)]
    found = {
        "normal": rng.normal(size=(users, d)),
        "sparse signs": sparse,
        "heavy tails": rng.laplace(size=(users, d)) ** 3,
        "rows of the frame": frame.vectors(rows),
        "signs of its rows": frame.vectors(rng.choice([-1.0, 1.0], (users, frame.rows))),
    }
    for x in found.values():
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return found


def kashin_constants(d: int, users: int, seed: int) -> dict[str, float]:
    """Return the least K of a grid that is found for all vectors of each kind.

    And, as "no search", the largest coefficient of U x itself.
    """
    result, largest = {}, 0.0
    frame = KashinFrame(d, seed, 3.0)
    for name, x in unit_vectors(frame, users, seed).items():
        largest = max(largest, float(np.abs(frame.apply(x)).max()) * math.sqrt(frame.rows))
        low, high = -1, len(_BOUNDS) - 1  # too small, and enough
        while high - low > 1:
            middle = (low + high) // 2
            try:
                KashinFrame(d, seed, _BOUNDS[middle]).coefficients(x)
            except ValueError:
                low = middle
            else:
                high = middle
        result[name] = _BOUNDS[high]
    result["no search: coefficients of U x"] = largest
    return result


def kashin_figure(found: dict[int, dict[str, float]], users: int) -> Figure:
    """Return the figure of the constants against d."""
    dimensions = tuple(map(float, found))
    names = next(iter(found.values()))
    curves = [Line(name, dimensions, tuple(of[name] for of in found.values())) for name in names]
    curves.append(Line("K = 2.5, the default", dimensions, (2.5,) * len(found), "dashed"))
    curves.append(Line("K = 1, a lower bound", dimensions, (1.0,) * len(found), "dotted"))
    panel = Panel("", tuple(curves), "coordinates d")
    note = f"the largest that one of {users} vectors of each kind needs; 2 d coefficients"
    rows = [("largest coefficient, times sqrt(D)", [panel])]
    return panels_figure(rows, "How even coefficients can be", note)


# Tables and files


def _table(found: Sequence[Point]) -> str:
    rows = []
    for point in found:
        n, d, epsilon = point.setting
        mean = float(point.squares.mean()) if point.squares.size else None
        rows.append((point.panel, point.name, n, d, epsilon, point.mse, mean, point.messages))
    columns = ["panel", "protocol", "n", "d", "epsilon", "bound", "measured", "messages"]
    return csv_text(columns, rows)


def measured_table(found: Iterable[Point]) -> str:
    """Return what the first protocol's errors are, as a table in Markdown."""
    first = next(iter(PROTOCOLS))
    rows = [
        (
            point.panel,
            plain_number(point.setting[0]),
            f"{point.setting[1]}",
            f"{point.setting[2]:g}",
            f"{math.ceil(point.mse):,}",
            f"{point.squares.mean():,.0f}",
        )
        for point in found
        if point.name == first
    ]
    return markdown(["varied", "n", "d", "ε", "bound", "measured"], rows)


@program()
def command(files: Files, seed: int, quick: bool) -> None:
    """Measure the errors and messages of AFNNTZ24's multi-message protocols.

    Takes about a quarter of an hour.
    """
    runs = 3 if quick else 20
    users = 20 if quick else 100
    dimensions = tuple(2**k for k in range(2, 6 if quick else 13))
    errors = {name: many[:2] for name, many in ERRORS.items()} if quick else ERRORS
    messages = {name: many[:3] for name, many in MESSAGES.items()} if quick else MESSAGES
    if quick:
        errors = {name: tuple((500, 8 if name != "d" else d, e) for _, d, e in many)
                  for name, many in errors.items()}  # fmt: skip
        errors["n"] = ((500, 8, 1.0), (1000, 8, 1.0))
    found: list[Point] = []
    several = len(PROTOCOLS) * sum(map(len, errors.values()))
    with steps("running", several) as step:
        for one in points(errors, runs, seed):
            found.append(one)
            step()
    files.text("afnntz24-errors.csv", _table(found))
    files.text("afnntz24-rates.md", measured_table(found))
    files.figure("afnntz24-errors", error_figure(found, runs))
    counted = list(points(messages, 0, seed))
    files.text("afnntz24-messages.csv", _table(counted))
    files.figure("afnntz24-messages", message_figure(counted))
    constants = {}
    with steps("representing", len(dimensions)) as step:
        for d in dimensions:
            constants[d] = kashin_constants(d, users, seed)
            step()
    names = list(next(iter(constants.values())))
    rows = [[d, *(of[name] for name in names)] for d, of in constants.items()]
    files.text("afnntz24-kashin.csv", csv_text(["d", *names], rows))
    files.figure("afnntz24-kashin", kashin_figure(constants, users))


if __name__ == "__main__":
    main(command)
