"""WLQDLY21's Figures 1 to 6 and its comparison after shuffling (6.5), computed anew.

    python -m analysis.wlqdly21_figures --output DIR

writes into DIR three figures, ``wlqdly21-figures-1-2``, ``-3-4`` and ``-5-6``, ``.svg`` and
``.png``; ``wlqdly21-errors.csv`` with what they show; ``wlqdly21-local.*``, the exact errors next
to Theorem 1's bound; ``wlqdly21-shuffled.*``, errors after shuffling; and ``wlqdly21.md``, tables
of all that.

Vectors are as in Section 6: the entries that are not 0 are at uniformly random places, with
uniformly random signs. What is simulated are not messages but, in one step for all users, the
counts that the analyzer makes of them, which have the same distribution:

- Collision. Let m be how many of a user's s events hit the value sent. For a uniform value m is
  binomial(s, 1/t). Otherwise, of the s places of the set S one is drawn: the events that have one
  hash value are drawn together with probability 1/s, so that P[m] = (t/s) binomial(s, 1/t)(m) for
  m >= 1, and 0 has the rest; which events they are is uniform. An event that the user does not have
  hits with probability 1/t, independently of all others.
- The baselines: binomial and multinomial counts of the events or keys drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom, norm

from analysis.output import Files, csv_text, main, markdown, program, steps
from analysis.plots.panels import Line, Panel, panels_figure
from analysis.wlqdly21_published import published_local_epsilon, published_lower_bound
from ikos import SparseTernary
from ikos.accounting.blanket import local_epsilon
from ikos.accounting.wlqdly21 import (
    collision_variances,
    set_response_gamma,
)
from ikos.baselines import PCKVGRR, PCKVUE, Collision, KeyValueBaseline, PrivKV
from ikos.plots.figures import Figure
from ikos.statistics import (
    maximum_absolute_error,
    projected_frequencies,
    total_variation_error,
)

EPSILONS = (0.001, 0.01, 0.1, 0.2, 0.4, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0)
SPARSITIES = (4, 8, 16, 32)
SETTINGS = (("1-2", 100_000, 256), ("3-4", 100_000, 1024), ("5-6", 10_000, 256))
"""Figures, users and dimensions."""

COUNTED = "PCKV-GRR, key counted"
MECHANISMS: dict[str, Callable[..., KeyValueBaseline]] = {
    "Collision": Collision,
    "PrivKV": PrivKV,
    "PCKV-GRR": lambda *size, **budget: PCKVGRR(*size, sampling="published", **budget),
    "PCKV-UE": PCKVUE,
    COUNTED: PCKVGRR,
}
KEYS = {"Collision": "collision", "PrivKV": "privkv", "PCKV-UE": "pckv-ue", COUNTED: "pckv-grr"}
"""Those of the library's comparison."""
OTHERS = tuple(MECHANISMS)[1:]
GUESS = "guess: all equal"

_TICKS = (0.001, 0.01, 0.1, 1)
_BUDGET = "local budget ε"


# People and what is counted of them


@dataclass(frozen=True)
class People:
    """Users with exactly s events each, in a uniformly random order."""

    events: NDArray[np.int64]
    dimension: int
    counts: NDArray[np.int64]

    @classmethod
    def drawn(cls, n: int, d: int, s: int, rng: np.random.Generator) -> People:
        """Draw all users' vectors."""
        keys = np.empty((n, s), dtype=np.int64)
        for column in range(s):
            todo = np.arange(n)
            while todo.size:  # uniform among the keys that a user does not have
                keys[todo, column] = rng.integers(0, d, todo.size)
                fresh = keys[todo, column, np.newaxis]
                todo = todo[(keys[todo, :column] == fresh).any(axis=1)]
        events = 2 * keys + rng.integers(0, 2, (n, s))
        return cls(events, d, np.bincount(events.reshape(-1), minlength=2 * d))

    @property
    def vectors(self) -> NDArray[np.int8]:
        """The vectors themselves, (n, d)."""
        result = np.zeros((self.events.shape[0], self.dimension), dtype=np.int8)
        signs = (1 - 2 * (self.events % 2)).astype(np.int8)
        np.put_along_axis(result, self.events // 2, signs, axis=1)
        return result

    def one_each(self, users: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return how often each event is drawn where these users draw one of their own."""
        column = rng.integers(0, self.events.shape[1], users.size)
        return np.bincount(self.events[users, column], minlength=2 * self.dimension)


def hits_law(s: int, t: int, gamma: float) -> NDArray[np.float64]:
    """Return the distribution of the number of a user's s events that hit the value sent."""
    law = np.asarray(binom.pmf(np.arange(s + 1), s, 1 / t), dtype=np.float64)
    own = t / s * law
    own[0] = 0
    own[0] = 1 - own.sum()
    return gamma * law + (1 - gamma) * own


def _collision(p: Collision, people: People, rng: np.random.Generator) -> NDArray[Any]:
    n, s = people.events.shape
    hits = rng.choice(s + 1, n, p=hits_law(s, p.t, float(p.gamma)))
    support = people.one_each(np.flatnonzero(hits == 1), rng)
    for m in range(2, s + 1):
        some = np.flatnonzero(hits == m)
        if some.size:
            chosen = np.argsort(rng.random((some.size, s)), axis=1)[:, :m]
            own = np.take_along_axis(people.events[some], chosen, axis=1)
            support += np.bincount(own.reshape(-1), minlength=support.size)
    support += rng.binomial(n - people.counts, 1 / p.t)
    gain = float((1 - p.gamma) * Fraction(p.t - s, s * p.t))
    return np.asarray((support - n / p.t) / gain)


def _privkv(p: PrivKV, people: People, rng: np.random.Generator) -> NDArray[Any]:
    n, s = people.events.shape
    d, gamma = people.dimension, float(p.gamma)
    own = rng.random(n) < s / d
    true = np.zeros((d, 3), dtype=np.int64)  # nothing, +1, -1
    true[:, 1:] = people.one_each(np.flatnonzero(own), rng).reshape(d, 2)
    others = np.flatnonzero(~own)
    while others.size:
        keys = rng.integers(0, d, others.size)
        taken = (people.events[others] // 2 == keys[:, np.newaxis]).any(axis=1)
        true[:, 0] += np.bincount(keys[~taken], minlength=d)
        others = others[taken]
    kept = rng.binomial(true, 1 - gamma)
    drawn = true.sum(axis=1)
    seen = kept + rng.multinomial(drawn - kept.sum(axis=1), [1 / 3] * 3)
    estimate = (seen[:, 1:] - drawn[:, np.newaxis] * gamma / 3) * d / (1 - gamma)
    return np.asarray(estimate.reshape(-1))


def _grr(p: PCKVGRR, people: People, rng: np.random.Generator) -> NDArray[Any]:
    n, s = people.events.shape
    events, gamma = 2 * people.dimension, float(p.gamma)
    kept = rng.binomial(people.one_each(np.arange(n), rng), 1 - gamma)
    seen = kept + rng.multinomial(n - int(kept.sum()), [1 / events] * events)
    return np.asarray((seen - n * gamma / events) * s / (1 - gamma))


def _ue(p: PCKVUE, people: People, rng: np.random.Generator) -> NDArray[Any]:
    n, s = people.events.shape
    drawn, q = people.one_each(np.arange(n), rng), float(p.q)
    seen = rng.binomial(drawn, 0.5) + rng.binomial(n - drawn, q)
    return np.asarray((seen - n * q) * s / float(Fraction(1, 2) - p.q))


def simulated(
    protocol: KeyValueBaseline, people: People, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return estimated counts of the events, (d, 2), as a run of the protocol would."""
    count: dict[type, Callable[..., NDArray[Any]]] = {
        Collision: _collision,
        PrivKV: _privkv,
        PCKVGRR: _grr,
        PCKVUE: _ue,
    }
    found = count[type(protocol)](protocol, people, rng)
    return found.reshape(-1, 2)


def errors(estimate: NDArray[np.float64], people: People) -> tuple[float, float]:
    """Return TVE and MAE of the frequencies (6.1), after the projection."""
    n, s = people.events.shape
    near, truth = projected_frequencies(estimate / n, s).reshape(-1), people.counts / n
    return total_variation_error(near, truth), maximum_absolute_error(near, truth)


def guess_errors(people: People) -> tuple[float, float]:
    """Return TVE and MAE of the guess that all events are equally frequent."""
    return errors(np.zeros((people.dimension, 2)), people)


# Figures 1 to 6


@dataclass(frozen=True)
class Point:
    """Means of ln TVE and ln MAE over repetitions, for one mechanism."""

    figures: str
    n: int
    d: int
    s: int
    epsilon: float
    mechanism: str
    tve: float
    mae: float


def measure(
    settings: Sequence[tuple[str, int, int]], epsilons: Sequence[float], runs: int, seed: int
) -> Iterator[list[Point]]:
    """Yield points, those of one setting and sparsity at a time."""
    for figures, n, d in settings:
        for s in SPARSITIES:
            logs: dict[tuple[float, str], list[tuple[float, float]]] = {}
            for run in range(runs):
                rng = np.random.default_rng([seed, n, d, s, run])
                people = People.drawn(n, d, s, rng)
                guessed = guess_errors(people)
                for epsilon in epsilons:
                    for name, make in MECHANISMS.items():
                        protocol = make(n, SparseTernary(d, s), epsilon=epsilon)
                        found = errors(simulated(protocol, people, rng), people)
                        logs.setdefault((epsilon, name), []).append(found)
                    logs.setdefault((epsilon, GUESS), []).append(guessed)
            yield [
                Point(figures, n, d, s, epsilon, name, *np.log(found).mean(axis=0).tolist())
                for (epsilon, name), found in logs.items()
            ]


def figure_of(points: Sequence[Point], runs: int) -> Figure:
    """Return one pair of figures: ln TVE above, ln MAE below."""
    rows: dict[str, list[Panel]] = {}
    for label, kind in (("mean of ln TVE", "tve"), ("mean of ln MAE", "mae")):
        rows[label] = []
        for s in sorted({point.s for point in points}):
            lines = []
            for name in (*MECHANISMS, GUESS):
                here = [p for p in points if (p.s, p.mechanism) == (s, name)]
                lines.append(
                    Line(
                        name,
                        tuple(p.epsilon for p in here),
                        tuple(float(getattr(p, kind)) for p in here),
                        "dashed" if name == GUESS else "",
                        protocol=KEYS.get(name, ""),
                    )
                )
            rows[label].append(Panel(f"s = {s}", tuple(lines), _BUDGET))
    first = points[0]
    return panels_figure(
        list(rows.items()),
        f"Errors of the frequencies of {2 * first.d:,} events, n = {first.n:,}, d = {first.d:,}",
        note=f"WLQDLY21, Figures {first.figures.replace('-', ' and ')}: projected onto the "
        f"simplex; means of {runs} runs",
        linear=True,
        ticks=_TICKS,
    )


def margins(points: Sequence[Point], others: Iterable[str] = OTHERS) -> str:
    """Return by how much Collision's errors are smaller, in the mean over the budgets."""
    found = {(p.figures, p.s, p.epsilon, p.mechanism): p for p in points}
    rows = []
    keys = list(dict.fromkeys((p.figures, p.n, p.d, p.s) for p in points))
    names = list(others)
    sums: dict[str, list[float]] = {}
    for figures, n, d, s in keys:
        row = [figures, f"{n:,}", f"{d:,}", str(s)]
        budgets = sorted({p.epsilon for p in points if (p.figures, p.s) == (figures, s)})
        for name in names:
            for kind in ("tve", "mae"):
                parts = []
                for epsilon in budgets:
                    ours = float(getattr(found[figures, s, epsilon, "Collision"], kind))
                    its = float(getattr(found[figures, s, epsilon, name], kind))
                    parts.append(1 - math.exp(ours - its))
                sums.setdefault(f"{name} {kind}", []).extend(parts)
                row.append(f"{100 * np.mean(parts):.0f} %")
        rows.append(row)
    rows.append(["all", "", "", ""] + [f"{100 * np.mean(part):.0f} %" for part in sums.values()])
    header = ["figures", "n", "d", "s"]
    return markdown(header + [f"{n} {k.upper()}" for n in names for k in ("tve", "mae")], rows)


def square_margins(settings: Sequence[tuple[str, int, int]], epsilons: Sequence[float]) -> str:
    """Return by how much Collision's exact mean squared error is smaller, whatever the users."""
    rows = []
    for d in sorted({d for _, _, d in settings}):
        for s in SPARSITIES:
            each: dict[str, list[float]] = {name: [] for name in OTHERS}
            for epsilon in epsilons:
                ours = _mean_square("Collision", d, s, epsilon)
                for name, found in each.items():
                    found.append(ours / _mean_square(name, d, s, epsilon))
            shares = [
                f"{100 * (1 - np.mean(found)):.0f} % ({100 * (1 - np.mean(np.sqrt(found))):.0f} %)"
                for found in each.values()
            ]
            rows.append([f"{d:,}", str(s), *shares])
    return markdown(["d", "s", *OTHERS], rows)


def _mean_square(name: str, d: int, s: int, epsilon: float) -> float:
    """Return the exact mean squared error of one user's part, with exactly s entries."""
    protocol = MECHANISMS[name](1, SparseTernary(d, s), epsilon=epsilon)
    return protocol.variances.mean_square(d, s, exactly=True)


def laws(points: Sequence[Point]) -> str:
    """Return how Collision's TVE changes with d and n, where it is not at the guess's level."""
    found = {(p.figures, p.s, p.epsilon, p.mechanism): p for p in points}
    rows = []
    for s in SPARSITIES:
        for epsilon in sorted({p.epsilon for p in points if p.epsilon >= 1}):
            here, more, fewer = (
                found.get((figures, s, epsilon, "Collision")) for figures in ("1-2", "3-4", "5-6")
            )
            if here is None or more is None or fewer is None:
                continue
            row = [str(s), f"{epsilon:g}"]
            for other in (more, fewer):
                row += [f"{math.exp(other.tve - here.tve):.2f}"]
            for other in (more, fewer):
                row += [f"{math.exp(other.mae - here.mae):.2f}"]
            d_law = math.sqrt(
                _mean_square("Collision", more.d, s, epsilon)
                / _mean_square("Collision", here.d, s, epsilon)
            )
            rows.append([*row, f"{d_law:.2f}"])
    header = ["s", "ε", "TVE, 4 d", "TVE, n/10", "MAE, 4 d", "MAE, n/10", "root MSE, 4 d"]
    return markdown(header, rows)


# Exact errors, and Theorem 1


def local_figure(settings: Sequence[tuple[str, int, int]], epsilons: Sequence[float]) -> Figure:
    """Return exact mean squared errors of the mean, next to the lower bound for epsilon <= 1."""
    rows: dict[str, list[Panel]] = {}
    for _, n, d in settings[:2]:
        panels = []
        for s in SPARSITIES:
            lines = [
                Line(
                    name,
                    tuple(epsilons),
                    tuple(_mean_square(name, d, s, epsilon) / n for epsilon in epsilons),
                    protocol=KEYS.get(name, ""),
                )
                for name in MECHANISMS
            ]
            low = tuple(epsilon for epsilon in epsilons if epsilon <= 1)
            bound = tuple(published_lower_bound(n, d, s, epsilon) for epsilon in low)
            lines.append(Line("Theorem 1 with c = 1", low, bound, "dashed"))
            panels.append(Panel(f"s = {s}", tuple(lines), _BUDGET))
        rows[f"MSE of the mean, d = {d:,}"] = panels
    return panels_figure(
        list(rows.items()),
        f"Exact mean squared errors in the local model, n = {settings[0][1]:,}",
        note="squared Euclidean norm, before any projection; dashed: WLQDLY21's lower bound "
        "min(s²/d, ds/(nε²)) for ε up to 1, its unnamed constant c taken as 1",
        ticks=_TICKS,
    )


# After shuffling


THEOREM = "Collision, Theorem 3"
CENTRAL = "central noise"


@dataclass(frozen=True)
class Shuffled:
    """A mechanism after shuffling: its local budget, and root mean squared error."""

    d: int
    s: int
    mechanism: str
    local: float
    error: float


def central_noise(s: int, epsilon: float, delta: float) -> float:
    """Return the standard deviation of a trusted curator's noise, Laplace or Gaussian.

    Two vectors with s entries differ by at most 2s in the sum of absolute values, and by 2 sqrt(s)
    in the Euclidean norm. The Gaussian's is the smallest for which its exact divergence (Balle,
    Wang, 2018) is at most delta.
    """
    reach = 2 * math.sqrt(s)

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        upper = norm.cdf(reach / (2 * sigma) - epsilon * sigma / reach)
        lower = norm.cdf(-reach / (2 * sigma) - epsilon * sigma / reach)
        return float(upper - math.exp(epsilon) * lower - delta)

    gaussian = math.exp(brentq(excess, math.log(reach / 1e3), math.log(reach * 1e6)))
    return min(gaussian, math.sqrt(2) * 2 * s / epsilon)


def after_shuffling(
    n: int, epsilon: float, delta: float, dimensions: Sequence[int], sparsities: Sequence[int]
) -> list[Shuffled]:
    """Return what each mechanism may spend and its error, sum of n vectors with s entries."""
    rows = []
    for d in dimensions:
        for s in sparsities:
            for name, make in MECHANISMS.items():
                protocol = make(n, SparseTernary(d, s), epsilon=epsilon, delta=delta)
                square = n * protocol.variances.mean_square(d, s, exactly=True)
                rows.append(Shuffled(d, s, name, protocol.local_epsilon, math.sqrt(square / d)))
            local, values = published_local_epsilon(epsilon, delta, n, s)
            t = round(values)
            gamma = set_response_gamma(Fraction(local), Fraction(0), 1, Fraction(t, s))
            square = n * collision_variances(t, s, gamma).mean_square(d, s, exactly=True)
            spent = local_epsilon(Fraction(t, s), gamma)
            rows.append(Shuffled(d, s, THEOREM, spent, math.sqrt(square / d)))
            rows.append(Shuffled(d, s, CENTRAL, math.nan, central_noise(s, epsilon, delta)))
    return rows


def shuffled_table(rows: Sequence[Shuffled]) -> str:
    """Return local budgets and errors as a table."""
    names = list(dict.fromkeys(row.mechanism for row in rows))
    found = {(row.d, row.s, row.mechanism): row for row in rows}
    lines = []
    for d, s in dict.fromkeys((row.d, row.s) for row in rows):
        cells = []
        for name in names:
            row = found[d, s, name]
            budget = "" if math.isnan(row.local) else f" ({row.local:.2f})"
            cells.append(f"{row.error:.4g}{budget}")
        lines.append([f"{d:,}", str(s), *cells])
    return markdown(["d", "s", *names], lines)


def shuffled_figure(rows: Sequence[Shuffled], n: int, epsilon: float, delta: float) -> Figure:
    """Return errors after shuffling against the dimension."""
    names = list(dict.fromkeys(row.mechanism for row in rows))
    panels = []
    for s in dict.fromkeys(row.s for row in rows):
        lines = []
        for name in names:
            here = [row for row in rows if (row.s, row.mechanism) == (s, name)]
            kind = {THEOREM: "dotted", CENTRAL: "dashed"}.get(name, "")
            x, y = tuple(float(row.d) for row in here), tuple(row.error for row in here)
            lines.append(Line(name, x, y, kind, protocol=KEYS.get(name, "")))
        panels.append(Panel(f"s = {s}", tuple(lines), "coordinates d"))
    return panels_figure(
        [("root mean squared error of a coordinate", panels)],
        f"After shuffling, n = {n:,}, ε = {epsilon:g}, δ = {delta:g}",
        note="exact, of the sum over all users with s entries each (WLQDLY21, Section 6.5); "
        "dashed: a trusted curator's Laplace or Gaussian noise",
        ticks=(100, 1000, 10_000, 100_000),
    )


# The program


def _text(
    points: Sequence[Point],
    settings: Sequence[tuple[str, int, int]],
    epsilons: Sequence[float],
    shuffled: Sequence[Shuffled],
) -> str:
    parts = [
        "How much smaller Collision's errors are, means over the budgets, after the projection:",
        margins(points),
        "The same of the exact mean squared error (of its root), without a projection:",
        square_margins(settings, epsilons),
    ]
    if len({p.figures for p in points}) == len(SETTINGS):
        parts += [
            "Collision with four times the dimension, and a tenth of the users:",
            laws(points),
        ]
    parts += [
        "After shuffling: root mean squared error of a coordinate of the sum (local budget):",
        shuffled_table(shuffled),
    ]
    return "\n".join(parts)


@program()
def command(files: Files, seed: int, quick: bool) -> None:
    """Compute WLQDLY21's Figures 1 to 6, and its comparison after shuffling.

    Takes a few minutes.
    """
    runs = 2 if quick else 10
    settings = (("5-6", 10_000, 256),) if quick else SETTINGS
    epsilons = EPSILONS[2::3] if quick else EPSILONS
    users, epsilon, delta = 100_000, 0.5, 1e-5
    dimensions = (256, 1024) if quick else (64, 256, 1024, 4096, 16_384, 65_536, 262_144)
    points: list[Point] = []
    with steps("measuring", len(settings) * len(SPARSITIES)) as step:
        for some in measure(settings, epsilons, runs, seed):
            points += some
            step()
    fields = list(Point.__dataclass_fields__)
    files.text(
        "wlqdly21-errors.csv",
        csv_text(fields, [[getattr(p, name) for name in fields] for p in points]),
    )
    for figures in dict.fromkeys(p.figures for p in points):
        here = [p for p in points if p.figures == figures]
        files.figure(f"wlqdly21-figures-{figures}", figure_of(here, runs))
    files.figure("wlqdly21-local", local_figure(settings, epsilons))
    sparsities = SPARSITIES[:1] if quick else SPARSITIES
    shuffled = after_shuffling(users, epsilon, delta, dimensions, sparsities)
    files.figure("wlqdly21-shuffled", shuffled_figure(shuffled, users, epsilon, delta))
    files.text("wlqdly21.md", _text(points, settings, epsilons, shuffled))


if __name__ == "__main__":
    main(command)
