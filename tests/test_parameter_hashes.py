"""What parties must agree on: no constructor argument is left out of the parameter hash."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from ikos import (
    Ball,
    Box,
    Categories,
    PrivateSum,
    PrivateVectorSum,
    SecureSum,
    SecureVectorSum,
    Sensitivity,
    SparseTernary,
)
from ikos.baselines import FrequencyEstimation
from ikos.data.domains import Bounds, Domain
from ikos.deployment.shares import SharesTerms
from ikos.transports import Masked, Shuffled

TRUST: dict[str, Any] = {
    "messages": 30, "analysis": "balle2020", "shuffler": "single", "clear_share": False,
    "min_honest": 90, "corrupt_shufflers": 1,
}  # fmt: skip
SECURE: dict[str, Any] = {"n": 101, "q": 2**17, "upper": 7, "sigma": 40, **TRUST}
PRIVATE: dict[str, Any] = {
    "n": 101, "epsilon": 2, "delta": 1e-9, "precision": 8, "modulus": 10**7, "reserve": 0.2,
    "integers": True, **TRUST,
}  # fmt: skip
BUDGET: dict[str, Any] = {"n": 100, "epsilon": 1, "delta": 1e-4}
LAYOUT: dict[str, Any] = {"layout": "group", "overhead": 1000}

PINNED: dict[str, Any] = {"messages": 9, "precision": 7, "modulus": 2**16}

PROTOCOLS: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = [
    (SecureSum, {"n": 100, "q": 2**16, "messages": 9}, SECURE),
    (
        SecureVectorSum,
        {"n": 100, "q": 2**16, "messages": 9, "dimension": 8},
        {**SECURE, **LAYOUT, "dimension": 9, "shape": (2, 4)},
    ),
    (PrivateSum, {**BUDGET, **PINNED, "upper": 7}, {**PRIVATE, "lower": -1, "upper": 8}),
    (
        PrivateVectorSum,
        {**BUDGET, **PINNED, "domain": Box(4, 0, 7)},
        {**PRIVATE, **LAYOUT, "domain": Box(5), "sensitivity": Sensitivity(l1=2), "releases": 3},
    ),
]
CHOOSING = {"sigma", "analysis", "overhead", "delta", "reserve"}
"""Arguments by which others are chosen: where all are given, nothing is left to agree on."""


@pytest.mark.slow
@pytest.mark.points(len(PROTOCOLS))
@pytest.mark.parametrize(("make", "given", "changes"), PROTOCOLS)
def test_every_argument_changes_the_hash(
    make: Callable[..., Any], given: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Whatever the constructor takes, now or later, and though nothing follows from it."""
    assert set(changes) | {"transport"} == set(inspect.signature(make).parameters)
    for name, value in changes.items():
        base = dict(given)
        if name in CHOOSING:
            del base["messages"]
        if name == "overhead":
            base |= {"layout": "blocks", name: 0}
        assert make(**base).parameter_hash != make(**{**base, name: value}).parameter_hash, name


OPTIONS: dict[str, Any] = {
    "shuffler": "single", "clear_share": False, "corrupt_shufflers": 1, "messages": 5, "layout": 2,
    "adaptive": True,
}  # fmt: skip
"""Options of shares; others choose these, or are conditions of a guarantee."""


@pytest.mark.parametrize(
    "recipe",
    [lambda one: one, pytest.param(Masked, marks=pytest.mark.slow)],
    ids=["shares", "masks"],
)
def test_every_option_of_a_recipe_changes_the_hash(recipe: Callable[[Shuffled], Any]) -> None:
    assert {*OPTIONS, *CHOOSING, "assumptions"} >= {one.name for one in fields(Shuffled)}
    keys = Shuffled(messages=4, layout="group")
    hashes = {
        SecureVectorSum(100, 8, upper=7, transport=recipe(one)).parameter_hash
        for one in (keys, *(replace(keys, **{name: value}) for name, value in OPTIONS.items()))
    }
    assert len(hashes) == len(OPTIONS) + 1


DOMAINS: list[tuple[Domain, dict[str, Any]]] = [
    (Box(4), {"dimension": 5, "lower": -1, "upper": 2, "shape": (2, 2)}),
    (Ball(4), {"dimension": 5, "radius": 2, "shape": (4, 1)}),
    (SparseTernary(4, 2), {"dimension": 5, "sparsity": 3, "shape": (1, 4)}),
    (Categories([2, 3]), {"sizes": [3, 2], "shape": (1, 5)}),
]


def test_every_part_of_a_domain_changes_the_hash() -> None:
    found = set()
    for domain, changes in DOMAINS:
        assert set(changes) == {one.name for one in fields(domain)}  # type: ignore[arg-type]
        found.add(PrivateVectorSum(**BUDGET, domain=domain).parameter_hash)
        for name, value in changes.items():
            other: Domain = replace(domain, **{"shape": (), name: value})  # type: ignore[type-var]
            found.add(PrivateVectorSum(**BUDGET, domain=other).parameter_hash)
    cells = (FrequencyEstimation(100, Categories([4], shape=shape), 1, 1e-4)
             for shape in ((), (2, 2)))  # fmt: skip
    assert len({one.parameter_hash for one in cells}) == 2
    assert len(found) == len(DOMAINS) + sum(len(changes) for _, changes in DOMAINS)


@pytest.mark.parametrize(
    ("inner", "domain"), [(PrivateSum, {}), (PrivateVectorSum, {"domain": Box(4)})]
)
def test_sums_between_parties_are_others(inner: Callable[..., Any], domain: dict[str, Any]) -> None:
    """They count on no clear share, and on one more colluding shuffler: the analyzer.

    Sums with those options that are not between parties have other parameters.
    """
    given = {**BUDGET, **domain, "messages": 9}
    between = {"domain": Bounds(0, 1), **given}
    found = SharesTerms.private_sum(between.pop("n"), **between, corrupt_shufflers=1).parameter_hash
    how = Shuffled(corrupt_shufflers=1, messages=9, adaptive=True)
    del given["messages"]
    assert found == inner(**given, transport=how).parameter_hash
    as_counted = replace(how, clear_share=False, corrupt_shufflers=2, adaptive=False)
    for other in (as_counted, replace(how, corrupt_shufflers=0)):
        assert found != inner(**given, transport=other).parameter_hash
