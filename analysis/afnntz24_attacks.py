"""AFNNTZ24's attacks, run: reconstruction from few messages, and dishonest users.

    python -m analysis.afnntz24_attacks --output DIR

writes into DIR ``afnntz24-reconstruction.svg``, ``.png``, ``.csv``: how far the target's vector is
from the set that the attack ends with, and a vector that no user has; ``afnntz24-poisoning.svg``,
``.png``, ``.csv``: the squared error that dishonest users cause, against the number of shufflers;
``afnntz24-dishonest.md``: what one user does to each protocol; and ``afnntz24-floors.md``: how many
messages are needed at least, and what it takes to limit them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from analysis.afnntz24_bounds import (
    counter_bits,
    least_messages,
    poisoning_floor,
    token_bits,
)
from analysis.afnntz24_poisoning import CoefficientSum, Poisoned, flooded, poison
from analysis.output import Files, csv_text, main, markdown, plain_number, program, steps
from analysis.plots.afnntz24_attacks import (
    ReconstructionPanel,
    reconstruction_figure,
)
from analysis.plots.panels import Line, Panel, panels_figure
from analysis.reconstruction_afnntz24 import (
    Reconstruction,
    SplitSum,
    measure_reconstruction,
    random_unit,
)
from ikos import Ball
from ikos.baselines import KashinCorrelatedNoise, KashinFrame, SingleMessageGrid
from ikos.plots.figures import Figure
from ikos.results.sums import at_least, at_most
from ikos.testing import DeterministicRandom

# Reconstruction

USERS, PRECISION, RATE, MODULUS = 6, 1000, Fraction(1, 100), 1 << 14

PROTOCOLS = ("pieces of about its size", "shares modulo q")

Found = dict[str, dict[int, dict[int, Reconstruction]]]


def split_protocol(name: str, d: int, k: int) -> SplitSum:
    """Return the protocol that is attacked."""
    if name == PROTOCOLS[1]:
        return SplitSum(USERS, d, k, PRECISION, RATE, modulus=MODULUS)
    spread = round(0.6 * PRECISION / math.sqrt(d))
    return SplitSum(USERS, d, k, PRECISION, RATE, spread=spread)


def reconstructions(
    dimensions: tuple[int, ...], most: int, trials: int, seed: int, step: Callable[[], None]
) -> Found:
    """Attack both protocols in each dimension, with 1 to ``most`` messages per user."""
    found: Found = {}
    for i, name in enumerate(PROTOCOLS):
        for d in dimensions:
            for k in range(1, most + 1):
                rng = DeterministicRandom(10**6 * seed + 10**4 * i + 100 * d + k)
                result = measure_reconstruction(split_protocol(name, d, k), trials, rng)
                found.setdefault(name, {}).setdefault(d, {})[k] = result
                step()
    return found


def _spread(values: tuple[float, ...]) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9)).tolist()
    return low, middle, high


def _panel(by_messages: dict[int, Reconstruction]) -> ReconstructionPanel:
    return ReconstructionPanel(
        tuple(by_messages),
        tuple(_spread(found.own) for found in by_messages.values()),
        tuple(_spread(found.other) for found in by_messages.values()),
        math.sqrt(next(iter(by_messages.values())).mean_square),
    )


def _reconstruction_figure(found: Found, trials: int) -> Figure:
    rows = {
        name: {d: _panel(by_messages) for d, by_messages in by_dimension.items()}
        for name, by_dimension in found.items()
    }
    note = (
        f"{USERS} users with vectors of norm 1 whose messages are added up; the set holds the sums "
        f"of all k of the {USERS}k messages. Lines are medians of {trials} runs,\nbands go from "
        "the 10th to the 90th percentile. The attack succeeds where the two are apart: in more "
        "dimensions more messages are needed. q = 2¹⁴ is 16 units."
    )
    return reconstruction_figure(
        rows, "Reconstruction of a user's vector from few messages (AFNNTZ24, Algorithm 1)", note
    )


def _reconstruction_table(found: Found) -> str:
    header = ["protocol", "d", "k", "sets", "own", "other", "limit", "gain", "runs"]
    rows = [
        (
            name, d, k, r.subsets, float(np.median(r.own)), float(np.median(r.other)),
            math.sqrt(r.mean_square), r.gain, len(r.own),
        )
        for name, by_dimension in found.items()
        for d, by_messages in by_dimension.items()
        for k, r in by_messages.items()
    ]  # fmt: skip
    return csv_text(header, rows)


# Dishonest users

HONEST, STEPS = 1000, 64


@dataclass(frozen=True)
class _Attacked:
    name: str
    coefficients: np.ndarray
    bound: float
    inverse: Callable[..., np.ndarray]
    malicious: int


def _attacked(d: int, seed: int) -> Iterator[_Attacked]:
    x = random_unit(HONEST, d, DeterministicRandom(seed))
    frame = KashinFrame(d)
    even = frame.coefficients(x)
    for malicious in (1, 10):
        users = "1 dishonest user" if malicious == 1 else f"{malicious} dishonest users"
        yield _Attacked(f"coordinates within [−1, 1],\n{users}", x, 1.0, np.asarray, malicious)
        yield _Attacked(
            f"Kashin's coefficients,\n{users}",
            even,
            frame.largest,
            lambda a: frame.vectors(a[np.newaxis])[0],
            malicious,
        )


def poisoned(case: _Attacked, shufflers: int, seed: int) -> Poisoned:
    """Attack one sum of coefficients that this many shufflers share."""
    many = case.coefficients.shape[1]
    protocol = CoefficientSum(many, case.bound, STEPS, shufflers, inverse=case.inverse)
    rng = DeterministicRandom(10**6 * seed + shufflers)
    return poison(protocol, case.coefficients, case.malicious, rng=rng)


def poisonings(d: int, seed: int, step: Callable[[], None]) -> list[Line]:
    """Attack sums of coordinates and of Kashin's coefficients with 1 to D shufflers."""
    curves = []
    for case in _attacked(d, seed):
        many = case.coefficients.shape[1]
        shufflers = [1 << e for e in range(many.bit_length())]
        measured, limits = [], []
        for s in shufflers:
            found = poisoned(case, s, seed)
            measured.append((float(s), found.attacked))
            limits.append(found.limit)
            step()
        curves.append(Line(case.name, tuple(shufflers), tuple(limits), measured=tuple(measured)))
    return curves


def _noise(d: int) -> float:
    """Return the squared error of the published noise for Kashin's coefficients, eps = 1."""
    frame = KashinFrame(d)
    budget = 1 / (2 * math.sqrt(2 * d * math.log(2 / 1e-6)))
    return d * 2 * (2 * frame.largest / budget) ** 2


def _poisoning_figure(curves: list[Line], d: int) -> Figure:
    levels = {
        "(2·10)²: 10 users who lie about\ntheir vectors, in any protocol": 400.0,
        f"privacy noise of Algorithm 3\n(ε = 1, δ = 10⁻⁶): {_noise(d):.2g}": _noise(d),
    }
    note = (
        f"d = {d}, {HONEST:,} users, D = {2 * d} coefficients. Every shuffler takes D/s of them "
        "and lets D/s messages per user pass; the dishonest users' are all\n"
        "about one coefficient. No privacy noise is in the measured errors. The lines fall as 1/s, "
        "and further where each shuffler has one coefficient."
    )
    names = zip(levels.items(), ("dashed", "dotted"), strict=True)
    references = [
        Line(name, curves[1].x, (level,) * len(curves[1].x), style)
        for (name, level), style in names
    ]
    panel = Panel("markers: measured; lines: at most", (*curves, *references), "shufflers s")
    return panels_figure(
        [("squared error of the sum", [panel])],
        "What dishonest users do to a sum of vectors (AFNNTZ24, Section 4)",
        note,
    )


def _poisoning_table(curves: list[Line]) -> str:
    rows = [
        (curve.name.replace("\n", " "), *values)
        for curve in curves
        for values in zip(curve.x, (m for _, m in curve.measured), curve.y, strict=True)
    ]
    return csv_text(["attack", "shufflers", "measured", "at_most"], rows)


def dishonest(seed: int) -> Iterator[tuple[str, int, float, float]]:
    """Yield protocol, messages of the dishonest user, measured distance, and what it can be.

    Distances of the estimate with all users honest from that with one user's messages replaced.
    """
    n, d = 1000, 4
    x = random_unit(n, d, DeterministicRandom(seed))
    grid = SingleMessageGrid(n, Ball(d), 1, 1e-6)
    sent = grid.randomize(x, DeterministicRandom(seed))
    low, high = (
        grid.analyze(grid.shuffle(flooded(sent, 0, label))).estimate
        for label in (0, grid.points - 1)
    )
    yield f"one message, grid, d = {d}", 1, float(np.linalg.norm(high - low)), grid.influence
    kashin = KashinCorrelatedNoise(n, Ball(d), 1, 1e-6)
    many = kashin.randomize(x, DeterministicRandom(seed))
    honest, attacked = (
        kashin.analyze(kashin.shuffle(messages)).estimate
        for messages in (many, flooded(many, 0, 2 * kashin.precision))
    )
    moved = float(np.linalg.norm(attacked - honest))
    yield f"many messages, Kashin, d = {d}", len(many), moved, kashin.influence


def _dishonest_table(seed: int) -> str:
    rows = [
        (
            name,
            f"{count:,}",
            at_most(moved, 4),
            "no limit" if math.isinf(limit) else at_least(limit, 4),
        )
        for name, count, moved, limit in dishonest(seed)
    ]
    return markdown(["protocol", "messages", "moved", "influence"], rows)


# Floors


def floors() -> Iterator[tuple[int, int, int, int, float, float, float]]:
    """Yield n, d, the fewest messages, the same for sums, a distance, and two storages in bytes."""
    delta = 1e-10
    for n in (10**4, 10**6, 10**8):
        for d in (10**2, 10**4, 10**6):
            error = 2 * math.log(1.25 / delta) * d  # of the Gaussian mechanism at epsilon = 1
            yield (
                n,
                d,
                least_messages(n, d, 1, delta, error),
                least_messages(n, d, 1, delta, error, protocol="summation"),
                poisoning_floor(n, d, 1, delta, error, messages=d),
                counter_bits(n, d) / 8,
                token_bits(n, d) / 8,
            )


def _bytes(count: float) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.3g} B"


def _floor_table() -> str:
    header = [
        "n", "d", "messages", "messages, sums", "one user moves", "counters", "tokens",
    ]  # fmt: skip
    rows = [
        (
            plain_number(n),
            plain_number(d),
            f"{k:,}",
            f"{sums:,}",
            f"{moved:.3g}",
            _bytes(counters),
            _bytes(tokens),
        )
        for n, d, k, sums, moved, counters, tokens in floors()
    ]
    return markdown(header, rows)


@program()
def command(files: Files, seed: int, quick: bool) -> None:
    """Run AFNNTZ24's attacks, and compute what they prove.

    Takes half a minute.
    """
    dimensions, most, trials, d = ((2, 8), 3, 4, 16) if quick else ((2, 4, 8), 5, 40, 512)
    with steps("reconstruction", 2 * len(dimensions) * most) as step:
        found = reconstructions(dimensions, most, trials, seed, step)
    files.text("afnntz24-reconstruction.csv", _reconstruction_table(found))
    files.figure("afnntz24-reconstruction", _reconstruction_figure(found, trials))
    exponent = d.bit_length() - 1
    with steps("dishonest users", 2 * (2 * exponent + 3)) as step:
        curves = poisonings(d, seed, step)
    files.text("afnntz24-poisoning.csv", _poisoning_table(curves))
    files.figure("afnntz24-poisoning", _poisoning_figure(curves, d))
    files.text("afnntz24-dishonest.md", _dishonest_table(seed))
    files.text("afnntz24-floors.md", _floor_table())


if __name__ == "__main__":
    main(command)
