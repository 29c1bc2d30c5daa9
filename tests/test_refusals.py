"""Wrong arguments of every kind: one valid call of each callable, each argument replaced in turn.

The error is a TypeError or ValueError that names the parameter. By the type of the valid argument
the wrong ones are of another type, no numbers, or far out of range; the last column has those that
are just outside. What only the arguments together make wrong is refused in the tests of its room.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from inspect import signature
from typing import Any

import pytest

import ikos
from ikos import accounting, baselines, counts, graphs, noise, statistics
from ikos.accounting.privacy_filter import Charge, PrivacyFilter
from ikos.counts.floor import counting_floor
from ikos.counts.share_graph import ShareGraph
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import SecureRandom
from ikos.testing import DeterministicRandom

Row = tuple[Callable[..., Any], dict[str, Any], dict[str, list[Any]]]

LAW = [[0.5, 0.5], [0.25, 0.75]]
TRUST = {"shuffler": "parallel", "clear_share": True}
HONEST = {"min_honest": 900, "corrupt_shufflers": 0}
COUNT = {"n": 1000, "q": 2**32, "sigma": 40.0}
UNTIL = {"n": 1000, "q": 2**16, "precision": 32}
PRIVATE = {**UNTIL, "epsilon": 1.0, "delta": 1e-6}
BUDGET = {"epsilon": 0.5, "delta": 1e-6}
RANGE = {"lower": 0.0, "upper": 1.0}
DIGITS = {"n": 10**4, "epsilon": 1.0, "delta": 1e-8, "messages": 2, "accountant": "hoeffding"}
TRUSTED = {"shuffler": ["both", "Parallel"], "min_honest": [0, 1001], "corrupt_shufflers": [-1]}
COUNTED = {"n": [0, 10**100 + 1], "q": [1, 2**10**7], "sigma": [0, 10**13], **TRUSTED}
SPENT = {"epsilon": [0, 2e6], "delta": [0, 1.0]}
TARGETS = [[[0], [0]], [[1], [2]], [[-1], [0]], [[1.0], [0.0]], [0, 1], [[]]]
MODEL = {"n": 20, "m": 2, **TRUST}

ROWS: list[Row] = [
    # counts
    (ikos.message_count, {**COUNT, "analysis": "best", **TRUST, **HONEST}, COUNTED),
    (ikos.security_level, {"n": 9, "q": 2**32, "m": 9, "analysis": "best", **TRUST}, {"n": [0],
     "q": [1, -(2**300)], "m": [0]}),
    (counts.security_interval, {"n": 9, "q": 2**32, "m": 9, **TRUST}, {"n": [0], "q": [1],
     "m": [0]}),
    (counts.smallest_users, {"q": 2**16, "sigma": 40.0, "m": 10, "analysis": "best", **TRUST},
     {"m": [0, 1], "sigma": [0, 10**5]}),
    (counts.remaining, {"n": 1000, "q": 2**32, "total": 9, "honest": 900, **TRUST}, {"honest": [0,
     1001], "total": [0]}),
    (counts.necessary_messages, {**COUNT, **TRUST, **HONEST}, COUNTED),
    (counting_floor, {**COUNT, **TRUST}, {"n": [0], "q": [1], "sigma": [10**13]}),
    (counts.cheapest, {**COUNT, "minimize": "messages", "dimension": 2, "shuffler": "single"},
     {"dimension": [0, 10**7]}),
    (counts.vector_layouts, {**COUNT, "dimension": 3, "overhead": 48, **TRUST, **HONEST}, COUNTED),
    (counts.certify, {"n": 9, "q": 2**32, "m": 3, **TRUST}, {"m": [0, 10**9]}),
    (counts.certify_necessary, {"n": 1000, "q": 2**64, "m": 23, **TRUST}, {"m": [0, 3]}),
    (counts.mask_parameters, {"users": 100, "dimension": 1000, "largest": 200, "sigma": 80.0,
     "overhead": 48}, {"users": [0], "dimension": [0]}),
    (ikos.private_message_count, {**PRIVATE, "reserve": 0.01, "analysis": "second_moment", **TRUST,
     **HONEST}, {**SPENT, **TRUSTED, "n": [0], "precision": [0], "reserve": [0.51]}),
    (counts.private_delta, {**UNTIL, "epsilon": 1.0, "m": 5, "reserve": 0.01,
     "analysis": "second_moment", **TRUST}, {"m": [0]}),
    (counts.private_epsilon, {**UNTIL, "delta": 1e-6, "m": 6, "reserve": 0.01,
     "analysis": "second_moment", **TRUST}, {"delta": [0, 1]}),
    (counts.private_delta_interval, {**UNTIL, "epsilon": 1.0, "m": 3, "reserve": 0.01},
     {"reserve": [1], "m": [0]}),
    (counts.necessary_private_messages, {**PRIVATE, "reserve": 0.01, **HONEST}, SPENT),
    (counts.private_vector_layouts, {**PRIVATE, "q": 2**16, "dimension": 5, "sensitivity": 9,
     "reserve": 0.01, **TRUST}, {"dimension": [0], "sensitivity": [0, 161], "delta": [1],
     "corrupt_shufflers": [-1]}),
    (counts.private_remaining, {"n": 200, "q": 2**20, "total": 9, "noise_epsilon": 1.0,
     "delta": 1e-6, "precision": 10, "analysis": "second_moment"}, {"noise_users": [0, 201],
     "honest": [0, 201], "noise_epsilon": [0]}),
    (ShareGraph, {"m": 2, **TRUST}, {"m": [0], "shuffler": ["Parallel"]}),
    # accounting
    (accounting.amplified_delta, {"epsilon": 1.0, "n": 100, "local_epsilon": 2.0,
     "total_variation": 1.0}, {"n": [0], "epsilon": [-1], "local_epsilon": [0, 100],
     "total_variation": [0]}),
    (accounting.amplified_epsilon, {"delta": 1e-6, "n": 100, "local_epsilon": 2.0}, {"delta": [0,
     1]}),
    (accounting.amplified_local_epsilon, {**BUDGET, "n": 1000}, {"delta": [0, 1]}),
    (accounting.binary_response_delta, {"epsilon": 1.0, "n": 5, "gamma": 0.5, "bits": 1},
     {"epsilon": [-1], "n": [0], "gamma": [0]}),
    (accounting.binary_response_gamma, {**BUDGET, "n": 500, "bits": 2}, {"delta": [1],
     "bits": [0]}),
    (accounting.response_delta, {"epsilon": 1.0, "n": 1000, "k": 3, "gamma": 0.1,
     "accountant": "exact"}, {"n": [0, 10**10 + 1], "k": [1], "epsilon": [0], "gamma": [0, 1.5]}),
    (accounting.response_gamma, {**BUDGET, "n": 1000, "k": 3}, {"delta": [0, 1]}),
    (accounting.response_attained, {"epsilon": 1.0, "n": 100, "k": 3, "gamma": 0.1}, {"k": [2,
     Fraction(7, 2)]}),
    (accounting.laplace_report, {"local_epsilon": 1.0, "cells": 8}, {"local_epsilon": [0, 1e-21],
     "reach": [0.5]}),
    (accounting.gaussian_report, {"sigma": 1.0, "lost": 1e-6, "cells": 8}, {"sigma": [0, 0.05]}),
    (accounting.sets_report, {"local_epsilon": 1.0, "share": 0.25, "common": 0.0},
     {"local_epsilon": [0], "share": [1], "common": [0.5]}),
    (accounting.report_delta, {"report": accounting.discrete_report(LAW, 0, 1), "epsilon": 0.5,
     "n": 10}, {"report": [1], "epsilon": [0], "n": [1]}),
    (accounting.report_epsilon, {"report": accounting.discrete_report(LAW, 0, 1), "delta": 1e-3,
     "n": 10}, {"delta": [0, 1]}),
    (accounting.advanced_composition, {"budgets": [(1, 0)], "slack": 0.1}, {"slack": [0]}),
    (accounting.optimal_delta, {"epsilon": 1.0, "copies": 2, "local_epsilon": 1.0,
     "local_delta": 0.0}, {"epsilon": [-1], "copies": [0], "local_epsilon": [61],
     "local_delta": [1.5]}),
    (accounting.optimal_local_epsilon, {**BUDGET, "copies": 2}, {"epsilon": [0], "delta": [1]}),
    (accounting.paper_digits, {**DIGITS, "composition": "basic"}, {"n": [2, 10**9 + 1],
     "epsilon": [101], "delta": [1e-101], "composition": ["numerical"]}),
    (accounting.optimized_digits, {**DIGITS, "composition": "basic"}, {"n": [10**9 + 1],
     "epsilon": [101], "delta": [1e-101], "messages": [9], "composition": ["renyi"],
     "accountant": ["hypergeometric"]}),
    (accounting.DigitParameters, {"precision": 11, "domains": [3, 4], "places": [4, 1],
     "gammas": [0.5, 0.5]}, {"precision": [12, 0, 2**53], "domains": [[3], [2, 4], [3, 3], [], [1,
     12], [2**31, 4]], "places": [[5, 1], [4, 2], [0, 1], [12, 1]], "gammas": [[0.5, 0],
     [0.5, 1.5]]}),
    (accounting.recursive_digits((10, 100), (0.1, 0.5)).split, {"encoded": 234},
     {"encoded": [1001, [0.5], [-1]]}),
    (accounting.recursive_digits, {"precisions": [10, 100], "gammas": [0.1, 0.5]},
     {"precisions": [[], [0, 1], [2**52, 2]], "gammas": [[0.1], [0.1, 0.2, 0.3], [0.1, 0]]}),
    (accounting.digits_delta, {"epsilon": 1.0, "n": 1000,
     "digits": accounting.recursive_digits([10, 100], [0.1, 0.5]), "composition": "basic"},
     {"epsilon": [0, 101], "n": [0, 10**9 + 1], "digits": [(10, 100)],
      "composition": ["advanced"]}),
    (accounting.gaussian_delta, {"epsilon": 1.0, "mu": 1.0}, {"epsilon": [-1], "mu": [0]}),
    (accounting.gaussian_mu, BUDGET, {"delta": [0, 1]}),
    (PrivacyFilter.of, {**BUDGET, "slack": 1e-7}, {"epsilon": [0, 1e7], "delta": [1],
     "slack": [1e-5]}),
    (Charge.of, {**BUDGET, "mu": 0.1}, {"epsilon": [-1], "delta": [1.5], "mu": [-1]}),
    # graphs
    (graphs.component_counts, {**MODEL, "trials": 5, "backend": "scipy"}, {"n": [0, 2**31],
     "m": [0], "trials": [0]}),
    (graphs.tally_components, {**MODEL, "trials": 5, "backend": "scipy"}, {"n": [0, 2**31],
     "m": [0], "trials": [0]}),
    (graphs.sample_targets, {"n": 4, "m": 2, "trials": 1, "shuffler": "single"}, {"n": [0, 2**31],
     "m": [0]}),
    (graphs.component_pmf, MODEL, {"n": [0, 2049], "m": [0]}),
    (graphs.component_bound, {"n": 20, "m": 3, "c": 2}, {"n": [18], "m": [2], "c": [0, 21]}),
    (graphs.parts_bound, {"n": 20, "m": 3, "c": 2, **TRUST}, {"n": [0], "m": [0], "c": [0, 21]}),
    (graphs.excess_bound, {"n": 20, "m": 3, "q": 4}, {"n": [18], "m": [2], "q": [1]}),
    (graphs.enclosed_law, {**MODEL, "most": 3}, {"n": [0], "m": [0, 10_001], "most": [0, 21]}),
    (graphs.exact_component_law, MODEL, {"n": [0, 129], "m": [0]}),
    (graphs.component_moment, {**MODEL, "q": 4}, {"n": [0], "q": [1]}),
    (graphs.rare_components, {**MODEL, "trials": 5, "at_least": 2}, {"n": [1], "m": [1, 10_001],
     "trials": [0], "at_least": [0, 21]}),
    (graphs.check_components, {**MODEL, "trials": 5, "q": 4, "confidence": 0.9}, {"n": [0],
     "trials": [0], "q": [1], "largest": [21], "confidence": [0, 1 - 1e-16],
     "backend": ["igraph"]}),
    (graphs.count_components, {"targets": [[1], [0]], "clear_share": True, "backend": "scipy"},
     {"targets": TARGETS}),
    (graphs.component_labels, {"targets": [[1], [0]], "clear_share": True, "backend": "scipy"},
     {"targets": TARGETS}),
    (graphs.replayed_targets, {"n": 4, "m": 2, "shuffler": "single", "rng": DeterministicRandom(1)},
     {"n": [0], "m": [0], "rng": [None]}),
    (graphs.sweep, {"users": (19, 20), "messages": (3, 4)}, {"users": [(19,), (20, 19)]}),
    (graphs.multigraph, {"targets": [[1], [0]], "clear_share": True}, {"targets": TARGETS}),
    # noise and randomness
    (noise.geometric, {"s": 0.1, "size": 3}, {"s": [0, -0.5], "size": [2**40 + 1, (2, 3)]}),
    (noise.discrete_laplace, {"s": 0.1, "size": 3}, {"s": [0, -0.5], "size": [2**40 + 1]}),
    (noise.discrete_gaussian, {"variance": 1.0, "size": 3}, {"variance": [0], "size": [2**40 + 1]}),
    (noise.skellam, {"variance": 1.0, "size": 3}, {"variance": [0, 2**40 + 1],
     "size": [2**40 + 1]}),
    (noise.polya, {"r": 0.5, "s": 0.1, "size": 3}, {"s": [0], "r": [0], "size": [2**40 + 1]}),
    (noise.polya_population, {"n": 5, "s": 0.1, "parties": 5}, {"n": [0, 2**61], "s": [0],
     "parties": [0]}),
    (DeterministicRandom, {"seed": 1}, {}),
    (SecureRandom().integer, {"bound": 2}, {"bound": [0]}),
    (SecureRandom().permutations, {"count": 2, "n": 3}, {"n": [2**31]}),
    (Zq, {"q": 2}, {"q": [1]}),
    # sums, domains and statistics
    (ikos.SecureSum, {"n": 1000, "q": 2**16, "sigma": 40.0, "messages": 5, "analysis": "best",
     **TRUST, **HONEST}, TRUSTED),
    (ikos.SecureSum, {"n": 1000, "upper": 9}, {"upper": [0]}),
    (ikos.PrivateSum, {"n": 1000, **BUDGET, "precision": 20, "modulus": 2**17, "messages": 5,
     "analysis": "second_moment", **TRUST, **HONEST, "reserve": 0.01, **RANGE, "integers": False},
     {**SPENT, **TRUSTED}),
    (ikos.SecureVectorSum, {"n": 1000, "dimension": 3, "q": 2**16, "sigma": 40.0,
     "layout": "separate", "overhead": 48, **TRUST, **HONEST}, TRUSTED),
    (ikos.PrivateVectorSum, {"n": 1000, "domain": ikos.Box(3), **BUDGET, "precision": 8,
     "modulus": 2**15, "layout": "separate", "overhead": 48, "integers": False,
     "analysis": "second_moment", **TRUST, **HONEST, "reserve": 0.01, "releases": 1}, {**SPENT,
     **TRUSTED, "releases": [0]}),
    (ikos.Box, {"dimension": 3, **RANGE}, {"dimension": [0]}),
    (ikos.Ball, {"dimension": 3, "radius": 1.0}, {"dimension": [0], "radius": [0]}),
    (ikos.SparseTernary, {"dimension": 3, "sparsity": 2}, {"dimension": [0], "sparsity": [0, 4]}),
    (ikos.Categories, {"sizes": [2, 3]}, {"sizes": [[], [0]]}),
    (ikos.Sensitivity, {"l1": 2.0, "l2": 1.5, "linf": 1.0}, {"l1": [0], "linf": [-1]}),
    (statistics.mean, {"x": [0.0] * 50, **RANGE, **BUDGET}, SPENT),
    (statistics.variance, {"x": [0.0] * 50, **RANGE, **BUDGET}, SPENT),
    (statistics.histogram, {"x": ["a"] * 50, "categories": ["a", "b"], **BUDGET}, SPENT),
    (statistics.histogram_protocols, {"n": 50, "categories": 3, **BUDGET, "max_error": 40.0},
     {"n": [0], "categories": [0]}),
    # baselines
    (baselines.CentralDiscreteLaplace, {"n": 99, "epsilon": 1.0, "precision": 9, **RANGE},
     {"n": [0], "epsilon": [0]}),
    (baselines.CentralLaplace, {"n": 99, "epsilon": 1.0, **RANGE}, {"n": [0], "epsilon": [0]}),
    (baselines.LocalLaplace, {"n": 99, "epsilon": 1.0, **RANGE}, {"n": [0], "epsilon": [0]}),
    (baselines.LocalRandomizedResponse, {"n": 99, "epsilon": 1.0, **RANGE}, {"n": [0],
     "epsilon": [0]}),
    (baselines.CentralGaussian, {"n": 99, "domain": ikos.Ball(3), **BUDGET, "precision": 9,
     "integers": False, "releases": 1}, SPENT),
    (baselines.PrivacyBlanket, {"n": 1000, **BUDGET, "precision": 3, "min_honest": 900, **RANGE},
     {"min_honest": [0, 1001]}),
    (baselines.BinaryRandomizedResponse, {"n": 1000, **BUDGET, "accountant": "exact",
     "min_honest": 900}, {"min_honest": [0, 1001]}),
    (baselines.UnaryEncoding, {"n": 1000, **BUDGET, "messages": 2, "accountant": "exact",
     "min_honest": 900, **RANGE}, {"messages": [0]}),
    (baselines.RecursiveSum, {"n": 1000, **BUDGET, "messages": 2, "composition": "basic",
     "parameters": "paper", "min_honest": 900, **RANGE}, {"messages": [9]}),
    (baselines.SparseNoise, {"n": 1000, **BUDGET, "precision": 8, "messages": 5,
     "accountant": "exact", **TRUST, "min_honest": 900, **RANGE}, SPENT),
    (baselines.DesignatedNoise, {"n": 1000, **BUDGET, "precision": 8, "messages": 5, **TRUST,
     **RANGE}, SPENT),
    (baselines.SampleAndThreshold, {"n": 1000, **BUDGET, **RANGE}, SPENT),
    (baselines.Ternarizer, {"dimension": 3, "sparsity": 2, "bound": 1.0, "zeros": True},
     {"sparsity": [0, 4]}),
    (baselines.KashinFrame, {"dimension": 3, "seed": 0, "bound": 2.5}, {"dimension": [0]}),
]  # fmt: skip


def wrong(value: Any) -> list[Any]:
    """Return what is never an argument where this value is one."""
    if isinstance(value, bool):
        return [1, "yes", None]
    if isinstance(value, str):
        return ["nonsense", 5, b"best"]
    if isinstance(value, int):
        return [True, 1.5, "7", math.nan, -1]
    if isinstance(value, float):
        return [math.nan, math.inf, -1e301, "0.5", True, 1j]
    return [5]


@pytest.mark.points(len(ROWS))
@pytest.mark.parametrize(
    ("call", "valid", "outside"), ROWS, ids=[f"{call.__qualname__}" for call, *_ in ROWS]
)
def test_each_wrong_argument_is_named(
    call: Callable[..., Any], valid: dict[str, Any], outside: dict[str, list[Any]]
) -> None:
    call(**valid)
    cases = [(name, value) for name in valid for value in wrong(valid[name])]
    cases += [(name, value) for name, values in outside.items() for value in values]
    cases += [(name, 4) for name in ("rng", "executor") if name in signature(call).parameters]
    for name, value in cases:
        with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):  # noqa: PT012
            call(**{**valid, name: value})
            pytest.fail(f"{name}={value!r} is accepted")
