"""What protocols refuse: every argument that is wrong, and views and messages of another kind."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from baselines.suite import CASES, inputs
from numpy.typing import NDArray

import ikos.baselines
from ikos import Ball, Box, Categories, SparseTernary
from ikos.accounting import DigitParameters
from ikos.baselines import (
    Baseline,
    BinaryRandomizedResponse,
    CentralGaussian,
    Collision,
    CorrelatedNoise,
    DesignatedNoise,
    FrequencyEstimation,
    KashinCorrelatedNoise,
    KashinPrivateSum,
    PrivacyBlanket,
    RecursiveSum,
    SampledCoordinates,
    SingleMessageGrid,
)
from ikos.primitives.shuffling import View
from ikos.testing import DeterministicRandom

N = 60
DOMAINS = {
    "Box": Box(5),
    "Ball": Ball(3),
    "SparseTernary": SparseTernary(8, 3),
    "Categories": Categories([7]),
    "Domain": Box(5),
}
LIMITS = {
    "n": (10**9 + 1,),
    "min_honest": (N + 1,),
    "epsilon": (0, 101),
    "delta": (1, 1e-200),
    "lower": (1,),
    "central_share": (1,),
    "sampling": (1.5, 0.3),
    "centre": (1.5,),
}
"""Values of a right type that are out of range for every protocol; not a class's own limits."""

CLASSES = [
    item
    for item in map(ikos.baselines.__dict__.get, ikos.baselines.__all__)
    if isinstance(item, type) and issubclass(item, Baseline) and not inspect.isabstract(item)
]


def right(kind: Any) -> dict[str, Any]:
    """Return the arguments that a protocol needs."""
    signature = inspect.signature(kind).parameters
    values: dict[str, Any] = {"n": N, "epsilon": 2, "delta": 1e-2}
    if "domain" in signature:
        values["domain"] = DOMAINS[signature["domain"].annotation.split(" ")[0]]
    return {name: value for name, value in values.items() if name in signature}


def wrong(name: str, annotation: str) -> list[Any]:
    """Return values that an argument of this type must not have."""
    types = set(annotation.split(" | "))
    values: list[Any] = [[0.5], np.array([0.5, 0.25])]
    if types & set(DOMAINS):
        return [*values, 5, "ball", type]
    if "bool" not in types:
        values.append(True)
    if "int" in types:
        values += [-1, 2.5] + [0] * (name != "seed")
    if "float" in types:
        values += [math.nan, math.inf] + [-1] * (name not in ("lower", "upper"))
    if types <= {"str", "None"}:
        values.append(3)
    if "None" not in types:
        values.append(None)
    return [*values, "unknown", *(LIMITS.get(name, ()) if types & {"int", "float"} else ())]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_wrong_argument_is_named(kind: Any) -> None:
    for name, parameter in inspect.signature(kind).parameters.items():
        named = "lower|upper" if name in ("lower", "upper") else name
        for value in wrong(name, parameter.annotation):
            with pytest.raises((TypeError, ValueError)) as caught:
                kind(**right(kind) | {name: value})
            assert re.match(rf"({named})\b", str(caught.value)), (name, value)


MANY = {"n": 1000, "domain": Ball(1024)}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (CentralGaussian, {"domain": Ball(2), "integers": True}, "integers must be"),
        (DesignatedNoise, {"precision": 10, "modulus": 100}, r"modulus must be above .* = 600"),
        (DesignatedNoise, {"precision": 2**53}, "precision must be at most"),
        (RecursiveSum, {"messages": 20}, "messages must be at most 8"),
        (
            RecursiveSum,
            {"parameters": "paper", "composition": "numerical"},
            "composition must be one of 'advanced', 'basic'",
        ),
        *(
            (
                RecursiveSum,
                {"parameters": DigitParameters(3, (4,), (1,), (gamma,))} | changes,
                message,
            )
            for gamma, changes, message in (
                (0.9, {"messages": 2}, "messages must be the number of digits, 1, got 2"),
                (0.9, {"composition": "advanced"}, "composition must be one of 'numerical', 'ba"),
                (1, {}, "parameters must have gammas below 1"),
                (2**-40, {}, "parameters must ask for more .* it proves nothing, where"),
            )
        ),
        (
            BinaryRandomizedResponse,
            {"gamma": 0.5, "accountant": "csuzz19"},
            "gamma is chosen by accountant='csuzz19'",
        ),
        (PrivacyBlanket, {"gamma": 0.5}, "precision must be an integer"),
        (CorrelatedNoise, {"precision": 1 << 17}, "precision must be at most"),
        (SingleMessageGrid, {"levels": 1 << 20}, r"levels must leave at most 2\^40"),
        (SingleMessageGrid, {"levels": 100}, "levels must be smaller, got 100"),
        (SampledCoordinates, {"messages": 6}, "messages must be at most 5, got 6"),
        (SampledCoordinates, {"parameters": "published", "epsilon": 7}, "epsilon must be at most"),
        (
            SampledCoordinates,
            {"epsilon": 1e-5, "delta": 1e-9, "messages": 5, "precision": 9, "n": 2},
            "precision and messages must be smaller, got 9 and 5",
        ),
        (Collision, {"delta": 0, "local_epsilon": 1}, "local_epsilon is for a shuffled guarantee"),
        (Collision, {"domain": SparseTernary(10**6, 40_000)}, "sparsity must be at most 32768"),
        (FrequencyEstimation, {"n": 1}, "n must be at least 2, got 1"),
        (FrequencyEstimation, {"domain": Categories([1])}, "domain must be one question with"),
        (FrequencyEstimation, {"domain": Categories([2, 3])}, "domain must be one question with"),
        (FrequencyEstimation, {"set_size": 4}, "set_size must be at most 3"),
        (
            FrequencyEstimation,
            {"n": 2, "domain": Categories([10**6]), "epsilon": 0.1},
            "n or epsilon must be",
        ),
        *(
            (kind, changes, message)
            for kind in (KashinCorrelatedNoise, KashinPrivateSum)
            for changes, message in (
                ({"epsilon": 60.5}, "epsilon must be at most 60, got 60.5$"),
                ({**MANY, "releases": 2049}, "releases must be at most 2048 for 2048 coeff"),
                ({**MANY, "releases": 10**6 + 1}, "releases must be at most 1000000"),
            )
        ),
    ],
)
def test_each_protocols_own_limits(kind: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        kind(**right(kind) | changes)


Change = Callable[[Any, Any], tuple[Any, ...]]

VIEWS: dict[str, list[Change]] = {
    "binary-randomized-response": [lambda _, view: (view.columns[0] + 2,)],
    "local-randomized-response": [lambda _, view: (view.clear,)],
    "unary-encoding": [
        lambda p, _: ([p.messages * 12 - 1, 2],),
        lambda p, _: ([-1, p.messages * 12 + 1],),
    ],
    "sample-and-threshold": [
        lambda p, _: ([60, p.threshold - 1],),
        lambda _p, _: ([60, 61],),
        lambda _p, _: ([60],),
    ],
    "recursive-two": [lambda p, view: (view.columns[0] + p.digits.domains[0], view.columns[1])],
    "recursive-single-shuffler": [
        lambda p, view: (view.columns[0] + sum(p.digits.domains),),
        lambda _, view: (view.columns[0] * 0,),
    ],
    "correlated-noise": [
        lambda _p, _: ([1, 2],),
        lambda _p, _: ([1, 3], [12]),
        lambda _p, _: ([1, 0], [12]),
        lambda _p, _: ([1.0], [12]),
        lambda _p, _: ([1], [12, 12]),
        lambda _p, _: ([1], [11]),
    ],
    "kashin-correlated-noise": [
        lambda _p, _: ([0], [12]),
        lambda p, _: ([2 * p.precision * p.coefficients + 1], [12]),
        lambda _, view: (view.columns[0], [13]),
    ],
    "kashin-private-sum": [lambda _, view: (*view.columns[1:], view.columns[0][1:])],
    "frequency-estimation": [
        lambda _p, _: ([1] * 11, [12]),
        lambda p, _: ([1] * 12 * (p.extra + 2), [12]),
        lambda _p, _: ([5] * 12, [12]),
    ],
    "single-message-box": [lambda p, view: (view.columns[0] + p.points,)],
    "sampled-coordinates-of-runs": [
        lambda _, view: (view.columns[0] * 0 + 99, view.columns[1]),
        lambda _, view: (view.columns[0].astype(float), view.columns[1]),
    ],
    "sampled-coordinates-uniform": [
        lambda _, view: (view.columns[0] * 0 + 99,),
        lambda _, view: (view.columns[0][:-1],),
    ],
    "privkv": [
        lambda _, view: (view.columns[0] * 0 + 15,),
        lambda _, view: (view.columns[0] * 0 - 1,),
        lambda _, view: (view.columns[0] * 1.0,),
    ],
    "collision": [
        lambda p, view: (view.columns[0] | np.uint64(p.t),),
        lambda _, view: (view.columns[0].astype(np.int64),),
    ],
    "pckv-ue": [  # 10 bits, 6 to spare
        lambda _, view: (view.columns[0].view("u1")[:12],),
        lambda _, view: (np.array([b"\0\1"] * 12, dtype="V2"),),
        lambda _, view: (np.array([b"\0"] * 12, dtype="V1"),),
    ],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_another_protocol_are_refused(name: str) -> None:
    protocol = CASES[name].small()
    x = inputs(protocol, protocol.n)
    good = protocol.shuffle(protocol.randomize(x, DeterministicRandom(1)))
    assert protocol.analyze(good).users == protocol.n
    for change in VIEWS[name]:
        columns = tuple(map(np.asarray, change(protocol, good)))
        with pytest.raises(ValueError, match=r"^view must h"):
            protocol.analyze(View(columns, None))


MESSAGES: dict[str, list[Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "central-discrete-laplace": [lambda m: m - m.max() - 1],
    "central-gaussian": [
        lambda m: m + (1 << 50),
        lambda m: m - (1 << 50),
        lambda m: m[:, :, :1],
        lambda m: m * 1.0,
    ],
    "frequency-estimation": [lambda m: np.repeat(m, 9, axis=0), lambda m: m * 0 + 5],
    "pckv-ue": [lambda m: m.view("u1")[:, :12]],
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_of_another_protocol_are_refused(name: str) -> None:
    protocol = CASES[name].small()
    good = protocol.randomize(inputs(protocol, protocol.n), DeterministicRandom(1))
    for change in MESSAGES[name]:
        with pytest.raises(ValueError, match=r"^messages must"):
            protocol.shuffle(change(good))


@pytest.mark.slow
def test_too_many_messages_for_memory_are_refused() -> None:
    for protocol in (
        KashinCorrelatedNoise(10**5, Ball(64), 1, 1e-6),
        KashinPrivateSum(10**5, Ball(1024), 1, 1e-6),
    ):
        x = np.broadcast_to(np.float32(0), (10**5, protocol.dimension))
        with pytest.raises(ValueError, match="use run"):
            protocol.randomize(x)
