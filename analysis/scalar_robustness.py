"""BBGN20's Section 8: what one dishonest user can do to the result, and many to others' privacy.

    python -m analysis.scalar_robustness --output DIR

writes into DIR ``scalar-robustness.md``, ``.csv``: for each protocol the greatest skew that one
user can cause, by an attack on a run, next to what the calculator says; and
``missing-blankets.md``, ``.csv``: what the privacy blanket guarantees if some users add no noise,
and what noise for fewer users costs. Nothing but the honest users' randomness is drawn, from a
seeded generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.digit_floor import view_divergence
from analysis.output import Files, csv_text, main, markdown, plain_number, program
from ikos import PrivateSum
from ikos.accounting import response_delta
from ikos.baselines import (
    BinaryRandomizedResponse,
    CentralDiscreteLaplace,
    CorrelatedNoise,
    DesignatedNoise,
    LocalLaplace,
    LocalRandomizedResponse,
    PrivacyBlanket,
    RecursiveSum,
    SampleAndThreshold,
    SparseNoise,
    SumProtocol,
    UnaryEncoding,
)
from ikos.baselines.central_model import FINE
from ikos.baselines.recursive_sum_bbgn20 import DigitProtocol
from ikos.results.sums import at_least, at_most
from ikos.testing import DeterministicRandom

USERS, EPSILON, DELTA = 10**4, 1.0, 1e-8

HONEST = (Fraction(1), Fraction(19, 20), Fraction(9, 10), Fraction(4, 5), Fraction(1, 2))
"""Parts of the users who add noise."""

FAR = 1 << 50
"""Where noise, and so a message, may have any size: a message so far off."""

FLOOD = 10**5
"""Where a user may send any number of messages: this many."""

Messages = NDArray[Any]

_ATTACKED: dict[str, Callable[[], SumProtocol]] = {
    "central discrete Laplace": lambda: CentralDiscreteLaplace(USERS, EPSILON),
    "privacy blanket": lambda: PrivacyBlanket(USERS, EPSILON, DELTA),
    "recursive, 2 messages": lambda: RecursiveSum(USERS, EPSILON, DELTA, messages=2),
    "recursive, 3 messages": lambda: RecursiveSum(USERS, EPSILON, DELTA, messages=3),
    "binary randomized response": lambda: BinaryRandomizedResponse(USERS, EPSILON, DELTA),
    "unary encoding": lambda: UnaryEncoding(USERS, EPSILON, DELTA),
    "sample and threshold": lambda: SampleAndThreshold(USERS, EPSILON, DELTA),
    "local randomized response": lambda: LocalRandomizedResponse(USERS, EPSILON),
    "local Laplace": lambda: LocalLaplace(USERS, EPSILON),
    "IKOS": lambda: PrivateSum(USERS, EPSILON, DELTA),
    "designated noise": lambda: DesignatedNoise(USERS, EPSILON, DELTA),
    "sparse noise": lambda: SparseNoise(USERS, EPSILON, DELTA),
    "correlated noise": lambda: CorrelatedNoise(USERS, EPSILON, DELTA),
}


def _extremes(protocol: SumProtocol, messages: Messages) -> tuple[list[int], list[int]]:
    """Return the attacker's messages for the smallest and for the greatest estimate.

    The attacker knows all users' messages. Over a group it aims at the two ends of the window
    that sums are decoded to.
    """
    if isinstance(protocol, PrivateSum | DesignatedNoise | SparseNoise):
        q = protocol.modulus
        total = int(messages[:, :-1].astype(object).sum() % q)
        top = (messages.shape[1] * protocol.precision + q) // 2
        rest = [0] * (messages.shape[0] - 1)
        return [(top + 1 - total) % q, *rest], [(top - total) % q, *rest]
    if isinstance(protocol, DigitProtocol):
        highest = [k - 1 for k in protocol.digits.domains]
    elif isinstance(protocol, LocalLaplace):
        return [-FAR], [FAR]
    elif isinstance(protocol, CentralDiscreteLaplace):
        highest = [protocol.precision]
    else:
        highest = [1] * messages.shape[0]
    return [0] * len(highest), highest


def _values(protocol: SumProtocol, seed: int) -> NDArray[np.float64]:
    """Return all users' values: halves, or where the attacker's bit decides, if one does.

    A coin does not depend on its user's value. So with the coins of this seed, the first values are
    1 until a single one is missing to the threshold, and the others, the attacker's too, are 0.
    """
    if not isinstance(protocol, SampleAndThreshold):
        return np.full(USERS, 0.5)
    heads = protocol.randomize(np.ones(USERS), DeterministicRandom(seed))[0]
    return (np.cumsum(heads) < protocol.threshold).astype(np.float64)


def _flooded(protocol: CorrelatedNoise, seed: int) -> Iterator[Messages]:
    """Yield what the shuffler gets if the last user sends many smallest messages, or greatest.

    An honest user may send more than ten thousand, and an array with a column for each is too
    large. The shuffler takes no notice of columns: messages are put wherever there is room.
    """
    senders, sent = protocol._listed(_values(protocol, seed), DeterministicRandom(seed))
    others = sent[senders != USERS - 1]
    for value in (-protocol.precision, protocol.precision):
        messages = np.concatenate((others, np.full(FLOOD, value, dtype=sent.dtype)))
        room = np.zeros((-(-messages.size // USERS), USERS), dtype=sent.dtype)
        room.flat[: messages.size] = messages
        yield room


def _attacked(protocol: SumProtocol, seed: int) -> Iterator[Messages]:
    """Yield all users' messages, the attacker's for the smallest estimate and for the greatest."""
    if isinstance(protocol, CorrelatedNoise):
        yield from _flooded(protocol, seed)
        return
    messages = protocol.randomize(_values(protocol, seed), DeterministicRandom(seed))
    for extreme in _extremes(protocol, messages):
        attacked = messages.copy()
        attacked[:, -1] = extreme
        yield attacked


def skew(protocol: SumProtocol, seed: int) -> float:
    """Return by how much one user moves the estimate, all other messages fixed."""
    estimates = []
    for attacked in _attacked(protocol, seed):
        # the same seed: the curator's noise is the same in both
        view = protocol.shuffle(attacked, DeterministicRandom(seed + 1))
        estimates.append(protocol.analyze(view).estimate)
    return float(estimates[1] - estimates[0])


@dataclass(frozen=True)
class Attack:
    """What one dishonest user was seen to do, and what it can do."""

    name: str
    measured: float
    influence: float


def attacks(seed: int) -> Iterator[Attack]:
    """Attack a run of each protocol."""
    for name, make in _ATTACKED.items():
        protocol = make()
        yield Attack(name, skew(protocol, seed), protocol.influence)


# Missing blankets


@dataclass(frozen=True)
class Missing:
    """The privacy blanket where only some users answer at random."""

    honest: Fraction
    delta_low: float
    delta: float
    mse: float


def missing() -> Iterator[Missing]:
    """Compute what the noise for n users guarantees to fewer honest ones, and the price."""
    planned = PrivacyBlanket(USERS, EPSILON, DELTA)
    k, gamma = planned.digits.domains[0], planned.digits.gammas[0]
    for part in HONEST:
        honest = math.floor(part * USERS)
        low = view_divergence(honest, (k,), (float(gamma),), EPSILON)
        high = response_delta(EPSILON, honest, k, gamma)
        safe = PrivacyBlanket(USERS, EPSILON, DELTA, min_honest=honest)
        yield Missing(part, low, high, safe.mse)


_NOTE = f"""\
The skew of the estimate of a sum of n = {plain_number(USERS)} values in [0, 1], at ε = {EPSILON:g}
and δ = {DELTA:g}, that one user's messages can cause, the others' messages fixed. *measured*: by an
attack on a run. *influence*: by the calculator. Where that has no limit, the attack is one message
of ±{FAR // FINE:,} (local Laplace), or {plain_number(FLOOD)} messages of ±1 (correlated noise). For
sample and threshold the others' values are such that one bit decides whether the count is
suppressed. A user who lies about its value causes 1 in any protocol.
"""

_MISSING_NOTE = f"""\
The privacy blanket at n = {plain_number(USERS)}, ε = {EPSILON:g} and δ = {DELTA:g} if only a part
of the users answer at random, and the adversary knows the others' values. *δ*: that of the noise
for all n, between the true view's divergence on one pair of inputs, rounded down, and the proved
bound. *mse*: of noise that is enough for so few (`min_honest`), and the *price*, as a factor.
"""


def _tables(seed: int) -> Iterator[tuple[str, str]]:
    found = list(attacks(seed))
    lines = [
        [
            one.name,
            at_most(one.measured, 4 if math.isfinite(one.influence) else 2),
            "∞" if one.influence == math.inf else at_least(one.influence, 4),
        ]
        for one in found
    ]
    header = ["protocol", "measured", "influence"]
    yield "scalar-robustness.md", f"{_NOTE}\n{markdown(header, lines)}"
    yield (
        "scalar-robustness.csv",
        csv_text(
            header,
            ((one.name, one.measured, one.influence) for one in found),
        ),
    )
    rows = list(missing())
    header = ["honest", "δ at least", "δ at most", "mse", "price"]
    lines = [
        [
            f"{float(row.honest):.0%}",
            at_most(row.delta_low, 2),
            at_least(row.delta, 2),
            at_least(row.mse, 5),
            f"{row.mse / rows[0].mse:.2f}",
        ]
        for row in rows
    ]
    yield "missing-blankets.md", f"{_MISSING_NOTE}\n{markdown(header, lines)}"
    yield (
        "missing-blankets.csv",
        csv_text(
            ["honest", "delta_low", "delta_high", "mse"],
            ((float(row.honest), row.delta_low, row.delta, row.mse) for row in rows),
        ),
    )


@program()
def command(files: Files, seed: int, quick: bool) -> None:  # noqa: ARG001
    """Measure what dishonest users can do (BBGN20, Section 8).

    Takes half a minute, with --quick too.
    """
    for name, text in _tables(seed):
        files.text(name, text)


if __name__ == "__main__":
    main(command)
