"""BBGN20's Figure 2, computed anew: errors of the mean of synthetic data.

    python -m analysis.bbgn20_figure_2 --output DIR

writes into DIR ``bbgn20-figure-2.svg``, ``.png`` and ``.csv``. The values are uniform on [0, 1], or
normal with mean 0.573 and standard deviation 0.1. Of these about one in 10^5 is outside of [0, 1]
and is drawn again: no protocol takes it, and nothing is clipped. The values are the same for all
protocols and runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.experiments import NAMES, Errors, measured, protocols
from analysis.output import Files, csv_text, main, program, stepped
from analysis.plots.panels import Line, Panel, panels_figure
from ikos.plots.figures import Figure
from ikos.testing import DeterministicRandom

USERS = (1000, 2000, 5000, 10_000)

DATA = ("uniform", "normal")

SHUFFLED = (
    "SingleMessage",
    "Recursive, 2 msg.",
    "Recursive, 2 msg., opt.",
    "Recursive, 3 msg.",
    "Recursive, 3 msg., opt.",
)
"""Of the upper panels."""

OUTER = ("LocalLaplace", "CentralLaplace", "IKOS")
"""Of the lower panels."""

KEYS = (
    *("privacy-blanket", "recursive-2-paper", "recursive-2", "recursive-3-paper", "recursive-3"),
    *("local-laplace", "central-laplace", "private-sum"),
)
"""Those of the library's comparison, of the upper panels and then of the lower."""

_FEW = 20


def data(name: str, n: int, seed: int) -> NDArray[np.float64]:
    """Return n values in [0, 1], uniform or normal; what falls outside is drawn again."""
    rng = np.random.default_rng([seed, n, DATA.index(name)])
    if name == "uniform":
        return rng.random(n)
    values = rng.normal(0.573, 0.1, n)
    while (outside := (values < 0) | (values > 1)).any():
        values[outside] = rng.normal(0.573, 0.1, int(outside.sum()))
    return values


Found = tuple[str, str, int, Errors]


def measure_all(runs: int, seed: int, users: Sequence[int] = USERS) -> Iterator[Found]:
    """Yield data set, protocol, users and errors, at epsilon = 1 and delta = 1/n^2."""
    for n in users:
        for number, (name, protocol) in enumerate(protocols(n, 1.0, n**-2.0).items()):
            for kind in DATA:
                rng = DeterministicRandom(10**9 * seed + 10**4 * n + 10 * number + DATA.index(kind))
                yield kind, name, n, measured(protocol, data(kind, n, seed), runs, rng)


def _curve(found: Sequence[Found], kind: str, name: str) -> Line:
    here = [(n, errors) for values, other, n, errors in found if (values, other) == (kind, name)]
    shift = 1.02 ** (NAMES.index(name) % 5 - 2)  # so that bars do not hide each other
    users, means = tuple(n * shift for n, _ in here), tuple(errors.mean for _, errors in here)
    tenths = [np.quantile(errors.values, (0.1, 0.9)).tolist() for _, errors in here]
    points = zip(users, means, tenths, strict=True)
    made = tuple((n, mean, *ends) for n, mean, ends in points)
    key = KEYS[(*SHUFFLED, *OUTER).index(name)]
    return Line(name, users, means, measured=made, protocol=key)


def error_figure(found: Sequence[Found], runs: int) -> Figure:
    """Return the figure: shuffle protocols above, against the other models below."""
    known = {name for _, name, _, _ in found}
    rows = []
    for names, what in ((SHUFFLED, "shuffled digits"), (OUTER, "three models")):
        panels = []
        for kind in DATA:
            lines = tuple(_curve(found, kind, name) for name in names if name in known)
            panels.append(Panel(f"{kind} values, {what}", lines, "users n"))
        rows.append(("absolute error of the mean", panels))
    return panels_figure(
        rows,
        "Error of a mean of n values in [0, 1], ε = 1, δ = 1/n²",
        f"bars: from the 10th to the 90th percentile of {runs} runs; points: their means",
        ticks=sorted({n for _, _, n, _ in found}),
        beside=2.4,
    )


def _table(found: Sequence[Found]) -> str:
    rows = []
    for kind, name, n, errors in found:
        few = errors.first(_FEW)
        means = (few.mean, few.deviation, errors.mean, *errors.interval())
        rows.append((kind, name, n, *means, errors.values.size))
    columns = ["data", "protocol", "n", "mean_20", "deviation_20", "mean", "low", "high", "runs"]
    return csv_text(columns, rows)


@program()
def command(files: Files, seed: int, quick: bool) -> None:
    """Compute BBGN20's Figure 2 on uniform and normal values.

    Takes a minute or two.
    """
    runs = _FEW if quick else 400
    users = USERS[:2] if quick else USERS
    found = stepped("running", len(users) * 8 * len(DATA), measure_all(runs, seed, users))
    files.text("bbgn20-figure-2.csv", _table(found))
    files.figure("bbgn20-figure-2", error_figure(found, runs))


if __name__ == "__main__":
    main(command)
