"""SCM22's Figures 1 to 3, computed anew: errors of means of vectors from sampled coordinates.

    python -m analysis.scm22_figures --output DIR

writes into DIR ``scm22-figure-1``, ``-2`` and ``-3``, ``.svg`` and ``.png``, ``scm22-errors.csv``
with what they show, and three tables: ``scm22-exponents.md``, the fitted exponents;
``scm22-reports.md``, the errors against t; and ``scm22-precisions.md``, against k.

The data are a stand-in for the paper's heartbeats, of the same shape: n synthetic curves of d
samples in [0, 1], made of five smooth waves of random heights, times and widths, then zeros from a
random time on. Every panel is computed twice: with the paper's probability of random answers at its
delta of 0.5, and at delta = 10^-6 with the exact accountant. Two errors are measured for each run:

- the paper's own, sum_j (z_j - s_j)^2 / (n/d)^2, with s_j the sum of the values that were drawn and
  z_j its estimate: the sampling is left out;
- the whole, of the estimated mean over all users, sum_j (estimate_j / n - mean_j)^2.

The paper's pairs are sent as separate messages for t > 1: as one message they are not private.
With the exact accountant a user draws one coordinate of each of t runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.experiments import exponent
from analysis.output import Files, csv_text, main, markdown, program, steps
from analysis.plots.panels import Line, Panel, panels_figure
from analysis.scm22_repaired import published_error
from ikos import Box
from ikos.accounting.scm22 import (
    coordinate_error,
    published_gamma,
    published_precision,
    published_single_gamma,
    sampled_answers,
)
from ikos.baselines import SampledCoordinates
from ikos.plots.figures import Figure
from ikos.results.sums import at_least
from ikos.testing import DeterministicRandom


@dataclass(frozen=True)
class FigureSetting:
    """One experiment; the defaults are the paper's."""

    published: bool = True
    d: int = 100
    n: int = 50_000
    k: int = 3
    t: int = 1
    epsilon: float = 0.95

    @property
    def delta(self) -> float:
        """The paper's, or one that means something."""
        return 0.5 if self.published else 1e-6

    def protocol(self) -> SampledCoordinates:
        """Return what is run."""
        return SampledCoordinates(
            self.n,
            Box(self.d),
            self.epsilon,
            self.delta,
            messages=self.t,
            precision=self.k,
            sampling="uniform" if self.published else "stratified",
            parameters="published" if self.published else "exact",
            centre=0 if self.published else None,
        )


@dataclass(frozen=True)
class Found:
    """What was measured: means over the runs, and their standard errors."""

    setting: FigureSetting
    gamma: float
    proved_delta: float
    own: float
    own_error: float
    whole: float
    whole_error: float


# Data


@lru_cache(maxsize=4)
def heartbeats(n: int, d: int, seed: int) -> NDArray[np.float64]:
    """Return n curves of d samples in [0, 1]: a stand-in for electrocardiograms.

    Five bell-shaped waves of random height, time and width, with noise; from a random time on a
    curve is 0, as heartbeats of different lengths are filled up.
    """
    rng = np.random.default_rng([seed, n, d])
    times = np.arange(d) / d
    curves = np.zeros((n, d))
    waves = ((0.08, 0.25, 0.03), (0.17, 0.2, 0.012), (0.22, 0.9, 0.015), (0.28, 0.3, 0.015),
             (0.45, 0.45, 0.05))  # fmt: skip
    for time, height, width in waves:
        centre = time + 0.015 * rng.standard_normal((n, 1))
        spread = width * np.exp(0.2 * rng.standard_normal((n, 1)))
        tall = height * np.exp(0.25 * rng.standard_normal((n, 1)))
        curves += tall * np.exp(-(((times - centre) / spread) ** 2) / 2)
    curves += 0.05 + 0.02 * rng.standard_normal((n, d))
    curves *= times < 0.55 + 0.4 * rng.random((n, 1))
    np.clip(curves, 0.0, 1.0, out=curves)  # made data; no user's values are clipped
    curves.setflags(write=False)
    return curves


# Errors


def errors(
    protocol: SampledCoordinates, x: NDArray[np.float64], rng: DeterministicRandom
) -> tuple[float, float]:
    """Return the paper's own error and the whole one of a run."""
    n, d = x.shape
    messages = protocol.randomize(x, rng)
    estimate = protocol.analyze(protocol.shuffle(messages.copy())).estimate
    whole = float(((estimate - x.sum(axis=0)) ** 2).sum()) / n**2
    # which values were drawn is known here alone
    coordinates, answers = np.divmod(messages, protocol.precision + 1)
    if protocol.answers.sampling == "stratified":
        size, longer = divmod(d, protocol.messages)
        sizes = [size] * (protocol.messages - longer) + [size + 1] * longer
        coordinates += (np.cumsum(sizes) - sizes)[:, np.newaxis]
    drawn = np.take_along_axis(x, coordinates.T, axis=1).T
    flat = coordinates.ravel()
    truth = np.bincount(flat, weights=drawn.ravel(), minlength=d)
    total = np.bincount(flat, weights=answers.ravel(), minlength=d)
    count = np.bincount(flat, minlength=d)
    gamma = float(protocol.gamma)
    debiased = (total / protocol.precision - count * gamma / 2) / (1 - gamma)
    return float(((debiased - truth) ** 2).sum()) * (d / n) ** 2, whole


def measure(setting: FigureSetting, runs: int, seed: int) -> Found:
    """Return the errors of a setting over some runs."""
    protocol = setting.protocol()
    x = heartbeats(setting.n, setting.d, seed)
    rng = DeterministicRandom(seed)
    found = np.array([errors(protocol, x, rng) for _ in range(runs)])
    own, whole = found.mean(axis=0)
    spread = found.std(axis=0, ddof=1) / math.sqrt(runs)
    return Found(
        setting,
        float(protocol.gamma),
        protocol.guarantee.delta,
        float(own),
        float(spread[0]),
        float(whole),
        float(spread[1]),
    )


def best_own(setting: FigureSetting) -> float:
    """Return the paper's error at the best precision with the exact accountant, worst case."""
    scale = setting.d**2 / setting.n

    def error(k: int) -> float:
        s = setting
        gamma = sampled_answers(s.epsilon, s.delta, s.n, s.d, k).gamma
        return scale * coordinate_error(k, gamma, 1).mean_square if gamma < 1 else math.inf

    k, here = 1, error(1)
    while (further := error(k + max(1, k // 8))) < here:
        k, here = k + max(1, k // 8), further
    return here


def bound(setting: FigureSetting) -> float | None:
    """Return the paper's bound on its error at its own precision; None where gamma exceeds 1."""
    s = setting
    k = published_precision(s.epsilon, s.delta, s.n, s.d, s.t)
    if s.t == 1:
        gamma = k * published_single_gamma(s.epsilon, s.delta, s.n, s.d, 1)
    else:
        gamma = k * published_gamma(s.epsilon, s.delta, s.n, s.d, 1, s.t)
    if gamma >= 1:
        return None
    return published_error(s.epsilon, s.delta, s.n, s.d, gamma, s.t)


# Panels


@dataclass(frozen=True)
class Sweep:
    """What varies in a panel, and over which values."""

    name: str
    axis: str
    published: tuple[float, ...]
    exact: tuple[float, ...]
    law: float | None = None

    def settings(self, published: bool, quick: bool) -> list[FigureSetting]:
        """Return the experiments of a panel."""
        values = self.published if published else self.exact
        if quick:
            values = (values[0], values[2])
        base = replace(QUICK if quick else FigureSetting(), published=published)
        changes: list[dict[str, Any]] = [
            {self.name: value if self.name == "epsilon" else int(value)} for value in values
        ]
        return [replace(base, **change) for change in changes]


QUICK = FigureSetting(n=10_000, d=10)

LOW = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
HIGH = (1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)
DIMENSIONS = (25, 50, 75, 100, 150, 200, 250)
USERS = (10_000, 15_000, 20_000, 30_000, 50_000, 70_000, 100_000)

FIGURES: dict[int, tuple[Sweep, Sweep]] = {
    1: (
        Sweep("t", "coordinates per user t", (1, 2, 3, 5, 8), (1, 2, 5, 10, 20, 50, 100)),
        Sweep("k", "precision k", (1, 2, 3, 4, 5, 7, 10), (1, 2, 3, 4, 5, 7, 10, 15, 20)),
    ),
    2: (
        Sweep("d", "coordinates d", DIMENSIONS, DIMENSIONS, 8 / 3),
        Sweep("n", "users n", USERS, USERS, -5 / 3),
    ),
    3: (
        Sweep("epsilon", "ε up to 1", LOW, LOW, -4 / 3),
        Sweep("epsilon", "ε above 1", HIGH, HIGH, -4 / 3),
    ),
}

LAWS = {8 / 3: "$d^{8/3}$", -5 / 3: "$n^{-5/3}$", -4 / 3: "$ε^{-4/3}$"}

TITLES = {
    1: "Figure 1 of SCM22: errors against t and k",
    2: "Figure 2 of SCM22: errors against the dimension and the users",
    3: "Figure 3 of SCM22: errors against ε",
}


WHOLE = "whole error: of the estimated mean of all users"
OWN = "the paper's error: of the sums\nof what was drawn, over (n/d)²"
REPORTS = "the same over (n t/d)², the mean\nnumber of reports squared"
BEST = "the paper's error at the best precision k\n(worst case, calculated)"
BOUND = "the paper's bound, at its own k\n(Section 4.5; Theorem 4.6 for t > 1)"
LAW = "the paper's power law, through\nthe last point of its error"
PARAMETERS = {True: "the paper's γ, δ = 0.5", False: "exact accountant, δ = 10⁻⁶"}
"""Whether they are the paper's."""


def panel(sweep: Sweep, found: Sequence[Found]) -> Panel:
    """Return what a panel shows."""
    published = found[0].setting.published
    x = tuple(float(getattr(one.setting, sweep.name)) for one in found)
    own = tuple(one.own for one in found)
    lines = [
        Line(WHOLE, x, tuple(one.whole for one in found)),
        Line(OWN, x, own),
    ]
    if sweep.name == "t":
        lines.append(Line(REPORTS, x, tuple(o / v**2 for o, v in zip(own, x, strict=True))))
    if sweep.name != "k":
        if published:
            bounds = [(v, bound(one.setting)) for v, one in zip(x, found, strict=True)]
            points = [(v, b) for v, b in bounds if b is not None]
            if points:
                ends = tuple(v for v, _ in points), tuple(b for _, b in points)
                lines.append(Line(BOUND, *ends, "dashed"))
        elif sweep.name != "t":
            lines.append(Line(BEST, x, tuple(best_own(one.setting) for one in found), "dotted"))
    if sweep.law is not None:
        y = tuple(own[-1] * (v / x[-1]) ** sweep.law for v in x)
        lines.append(Line(LAW, x, y, "dash-dotted"))
    parameters = PARAMETERS[published]
    title = parameters if sweep.law is None else f"{parameters}; law {LAWS[sweep.law]}"
    return Panel(title, tuple(lines), sweep.axis)


def draw(number: int, panels: Sequence[Panel], runs: int, base: FigureSetting) -> Figure:
    """Return a figure: the paper's parameters above, the exact ones below."""
    note = (
        f"Means of {runs} runs on n = {base.n:,} synthetic heartbeats of d = {base.d} samples; "
        f"where they do not vary t = 1, k = {base.k}, ε = {base.epsilon}."
    )
    pairs = [panels[first : first + 2] for first in range(0, len(panels), 2)]
    rows = [("mean squared error, normalized", pair) for pair in pairs]
    return panels_figure(rows, TITLES[number], note, beside=4.0)


# Tables


def _rows(found: Iterable[tuple[int, Sweep, Found]]) -> Iterator[tuple[object, ...]]:
    for number, sweep, one in found:
        s = one.setting
        yield (
            number, sweep.name, "published" if s.published else "exact", s.d, s.n, s.k, s.t,
            s.epsilon, s.delta, one.gamma, one.proved_delta, one.own, one.own_error,
            one.own / s.t**2, one.whole, one.whole_error,
        )  # fmt: skip


COLUMNS = (
    "figure", "varies", "parameters", "d", "n", "k", "t", "epsilon", "delta", "gamma",
    "proved_delta", "own", "own_se", "own_over_reports", "whole", "whole_se",
)  # fmt: skip


def exponents(panels: Sequence[tuple[Sweep, bool, Panel]]) -> str:
    """Return a table of the fitted exponents of a few panels."""
    rows = []
    for sweep, published, shown in panels:
        if sweep.law is None:
            continue
        cells = {line.name: line for line in shown.lines}
        kinds = (OWN, BEST, BOUND, WHOLE)
        fits = [
            f"{exponent(cells[kind].x, cells[kind].y):.2f}" if kind in cells else "-"
            for kind in kinds
        ]
        rows.append((sweep.axis, PARAMETERS[published], f"{sweep.law:.2f}", *fits))
    return markdown(
        ("against", "parameters", "paper's law", "own error", "at the best k", "paper's bound",
         "whole error"),
        rows,
    )  # fmt: skip


def against_t(found: Iterable[Found]) -> str:
    """Return a table of the errors against t."""
    rows = [
        (
            "paper" if one.setting.published else "exact",
            str(one.setting.t),
            f"{one.gamma:.4f}",
            at_least(one.proved_delta, 2),
            f"{one.own:.3g}",
            f"{one.own / one.setting.t**2:.3g}",
            f"{one.whole:.3g}",
        )
        for one in found
    ]
    head = ("parameters", "t", "γ", "δ proved", "over (n/d)²", "over (n t/d)²", "whole error")
    return markdown(head, rows)


def answer_variance(x: NDArray[np.float64] | float, k: int, gamma: float) -> NDArray[np.float64]:
    """Return the variance of the debiased answer about values in [0, 1], rounded to k steps.

    Examples
    --------
    >>> [float(answer_variance(0.5, k, 0.0)) for k in (1, 2)]  # of the rounding alone
    [0.25, 0.0]
    """
    steps = k * np.asarray(x, dtype=np.float64)
    above = steps - np.floor(steps)
    mean = (1 - gamma) * steps + gamma * k / 2
    square = (1 - gamma) * (steps**2 + above * (1 - above)) + gamma * k * (2 * k + 1) / 6
    return np.asarray((square - mean**2) / ((1 - gamma) * k) ** 2)


def against_k(found: Iterable[Found], x: NDArray[np.float64]) -> str:
    """Return a table of the errors against k with the paper's parameters, as they are expected."""
    rows = []
    for one in found:
        k, gamma = one.setting.k, one.gamma
        scale = one.setting.d**2 / one.setting.n
        bound = (1 / (4 * k**2) + gamma / 2) / (1 - gamma) ** 2
        worst = coordinate_error(k, gamma, 1).mean_square
        expected = answer_variance(x, k, gamma)
        errors = bound, worst, expected.mean(), expected[x > 0].mean()
        cells = (f"{scale * error:.3g}" for error in errors)
        rows.append((str(k), f"{gamma:.4f}", *cells, f"{one.own:.3g}", f"{one.whole:.3g}"))
    head = ("k", "γ", "the paper's bound", "worst case", "expected", "without the zeros",
            "measured", "whole error")  # fmt: skip
    return markdown(head, rows)


@program()
def command(files: Files, seed: int, quick: bool) -> None:
    """Compute SCM22's Figures 1 to 3 on synthetic heartbeats.

    Takes a few minutes.
    """
    runs = 3 if quick else 20
    jobs = [
        (number, sweep, published, sweep.settings(published, quick))
        for number, sweeps in FIGURES.items()
        for published in (True, False)
        for sweep in sweeps
    ]
    results: list[tuple[int, Sweep, Found]] = []
    shown: dict[int, list[tuple[Sweep, bool, Panel]]] = {number: [] for number in FIGURES}
    with steps("running", sum(len(settings) for *_, settings in jobs)) as step:
        for number, sweep, published, settings in jobs:
            found = []
            for setting in settings:
                found.append(measure(setting, runs, seed))
                step()
            results += [(number, sweep, one) for one in found]
            shown[number].append((sweep, published, panel(sweep, found)))
    files.text("scm22-errors.csv", csv_text(COLUMNS, _rows(results)))
    base = QUICK if quick else FigureSetting()
    files.text("scm22-exponents.md", exponents([one for many in shown.values() for one in many]))
    files.text("scm22-reports.md", against_t(one for _, sweep, one in results if sweep.name == "t"))
    of_k = (one for _, sweep, one in results if sweep.name == "k" and one.setting.published)
    files.text("scm22-precisions.md", against_k(of_k, heartbeats(base.n, base.d, seed)))
    for number, many in shown.items():
        drawn = draw(number, [one for *_, one in many], runs, base)
        files.figure(f"scm22-figure-{number}", drawn)


if __name__ == "__main__":
    main(command)
