"""The importance sampler: its law exactly, its estimates against the exact law, its limits."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from itertools import product
from multiprocessing import get_context
from typing import Any

import gmpy2
import numpy as np
import pytest
from exact.share_graph import SETTINGS
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray
from statistical import FALSE_ALARM, outcome_p_value, p_value_bound

from ikos.counts.share_graph import ShareGraph
from ikos.graphs import (
    Interrupted,
    PlantedTally,
    enclosed_law,
    exact_component_law,
    importance_sampling,
    rare_components,
)
from ikos.graphs.importance_sampling import _distribution, _draw_sizes, _plan
from ikos.graphs.share_graphs import Model
from ikos.testing import DeterministicRandom

CERTAIN = 1 - FALSE_ALARM


def weights(n: int, graph: ShareGraph) -> list[mpq]:
    """Return f_0..f_n as rationals."""
    values = [mpq(1)]
    for k in range(1, n + 1):
        values.append(values[-1] * graph.growth_exactly(k))
    return values


def compositions(n: int, parts: int) -> list[tuple[int, ...]]:
    return [s for s in product(range(1, n), repeat=parts) if sum(s) == n]


def size_law(n: int, graph: ShareGraph, parts: int) -> dict[tuple[int, ...], Fraction]:
    """Return the law of the ordered sizes, by its definition."""
    f = weights(n, graph)
    law = {s: math.prod((f[size] for size in s), start=mpq(1)) for s in compositions(n, parts)}
    total = sum(law.values(), mpq(0))
    return {s: Fraction(*map(int, (p / total).as_integer_ratio())) for s, p in law.items()}


def stirling(k: int, c: int) -> int:
    """Return S(k, c) by its recursion."""
    if k == c:
        return 1
    return 0 if c == 0 or c > k else c * stirling(k - 1, c) + stirling(k - 1, c - 1)


def model(graph: ShareGraph) -> dict[str, Any]:
    return {"shuffler": graph.shuffler, "clear_share": graph.clear_share}


CASES = [
    (n, ShareGraph(hiding if clear else hiding + 1, shuffler, clear), parts)
    for shuffler, clear in SETTINGS
    for n, hiding, parts in ((2, 2, 2), (5, 2, 2), (8, 3, 2), (6, 2, 4))
]


@pytest.mark.parametrize(("n", "graph", "parts"), CASES)
def test_expected_divisions(n: int, graph: ShareGraph, parts: int) -> None:
    """Q_c / c! as a rational, by all compositions, is enclosed and nearly met."""
    f = weights(n, graph)
    exact = sum(
        (math.prod((f[size] for size in s), start=mpq(1)) for s in compositions(n, parts)), mpq(0)
    ) / (f[n] * math.factorial(parts))
    found = _plan(Model(n, graph), parts).expected
    assert found.low <= exact <= found.high
    assert found.high - found.low <= exact * mpfr(2) ** -180


def test_expected_divisions_of_many_users_include_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where sizes are cut off: against all of them, with a cut that comes far too early."""
    graph = ShareGraph(3, "parallel", True)
    f = weights(40, graph)
    convolved = [sum((f[s] * f[k - s] for s in range(1, k)), mpq(0)) for k in range(41)]
    three = sum((f[s] * convolved[40 - s] for s in range(1, 40)), mpq(0))
    monkeypatch.setattr(importance_sampling, "cutoff", lambda n, graph, parts: 4)
    for parts, total in ((2, convolved[40]), (3, three)):
        exact = total / f[40] / math.factorial(parts)
        found = importance_sampling._SamplePlan(Model(40, graph), parts).expected
        assert found.low < exact < found.high
        assert found.high - found.low > exact * mpfr(2) ** -40


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
def test_many_users_are_what_tables_of_all_give(
    monkeypatch: pytest.MonkeyPatch, shuffler: str, clear: bool
) -> None:
    """Where only the largest part is left out of the tables."""
    large = Model(100, ShareGraph(9 if clear else 10, shuffler, clear))
    found = importance_sampling._SamplePlan(large, 4)
    assert found._smaller is not None
    monkeypatch.setattr(importance_sampling, "cutoff", lambda n, graph, parts: None)
    tables = importance_sampling._SamplePlan(large, 4)
    assert tables._smaller is None
    low, high = tables.expected.low, tables.expected.high
    assert max(low, found.expected.low) <= min(high, found.expected.high)
    assert found.expected.high - found.expected.low <= low * mpfr(2) ** -200


@pytest.mark.slow
@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
def test_sizes_of_many_users_follow_their_law(
    monkeypatch: pytest.MonkeyPatch, shuffler: str, clear: bool
) -> None:
    """With a cutoff so early that many sizes are drawn, and many are left out."""
    graph = ShareGraph(2 if clear else 3, shuffler, clear)
    monkeypatch.setattr(importance_sampling, "cutoff", lambda n, graph, parts: 6)
    sizes = importance_sampling._SamplePlan(Model(14, graph), 4).sizes(
        20_000, DeterministicRandom(51)
    )
    assert (sizes.sum(axis=1) == 14).all()
    law: Counter[tuple[int, ...]] = Counter()
    for ordered, chance in size_law(14, graph, 4).items():
        if max(ordered) > 14 - 6:
            law[tuple(sorted(ordered))] += chance  # type: ignore[assignment]
    total = sum(law.values())
    drawn = [tuple(sorted(row)) for row in sizes.tolist()]
    assert outcome_p_value(drawn, {s: p / total for s, p in law.items()}) > FALSE_ALARM


@pytest.mark.parametrize(("n", "graph", "parts"), CASES)
def test_estimator_is_unbiased_by_the_identity(n: int, graph: ShareGraph, parts: int) -> None:
    """sum_k S(k, c) P[C = k] = Q_c / c!: the drawn law adds up to one."""
    law = exact_component_law(n, graph.m, **model(graph))
    total = sum(stirling(k, parts) * p for k, p in enumerate(law, 1))
    found = _plan(Model(n, graph), parts).expected
    assert found.low <= mpq(total) <= found.high


@pytest.mark.slow
@pytest.mark.parametrize(("n", "graph", "parts"), CASES)
def test_sizes_follow_their_law(n: int, graph: ShareGraph, parts: int) -> None:
    """As sets: two parts are drawn smaller one first."""
    sizes = _plan(Model(n, graph), parts).sizes(20_000, DeterministicRandom(41))
    assert (sizes.sum(axis=1) == n).all()
    law: Counter[tuple[int, ...]] = Counter()
    for ordered, chance in size_law(n, graph, parts).items():
        law[tuple(sorted(ordered))] += chance  # type: ignore[assignment]
    drawn = [tuple(sorted(row)) for row in sizes.tolist()]
    assert outcome_p_value(drawn, law) > FALSE_ALARM


def planted_p_value(tally: PlantedTally) -> float:
    """Test the drawn components against S(k, c) P[C = k] / (Q_c / c!)."""
    law = exact_component_law(tally.n, tally.graph.m, **model(tally.graph))
    chances = [stirling(k, tally.parts) * p for k, p in enumerate(law, 1)]
    total = sum(chances)
    counts = [tally.counts.get(k, 0) for k in range(1, tally.n + 1)]
    return p_value_bound(counts, [float(p / total) for p in chances])


@pytest.mark.parametrize(("n", "graph", "parts"), CASES)
def test_drawn_graphs_follow_the_tilted_law(n: int, graph: ShareGraph, parts: int) -> None:
    tally = rare_components(
        n, graph.m, 20_000, at_least=parts, rng=DeterministicRandom(42), **model(graph)
    )
    assert tally.trials == sum(tally.counts.values()) == 20_000
    assert planted_p_value(tally) > FALSE_ALARM


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@pytest.mark.parametrize(("n", "hiding", "parts"), [(6, 2, 2), (20, 3, 4), (100, 9, 2)])
def test_intervals_contain_the_exact_probabilities(
    shuffler: str, clear: bool, n: int, hiding: int, parts: int
) -> None:
    """Down to 1e-25; each interval errs with probability 1e-9."""
    m = hiding if clear else hiding + 1
    setting: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    tally = rare_components(n, m, 5000, at_least=parts, rng=DeterministicRandom(44), **setting)
    law = enclosed_law(n, m, min(n, 12), **setting)
    tail = float(gmpy2.fsum([entry.high for entry in law[parts - 1 :]]))
    low, high = tally.interval(CERTAIN)
    assert low <= tail <= high
    assert low <= tally.estimate <= high
    for k in range(parts, min(n, parts + 3) + 1):
        low, high = tally.probability(k, CERTAIN)
        assert low <= float(law[k - 1]) <= high * (1 + 1e-12)


def test_interval_is_narrow_where_the_event_is_rare() -> None:
    """A thousand graphs give P[C >= 2] = 5e-23 within a per cent."""
    tally = rare_components(300, 10, 1000, rng=DeterministicRandom(45))
    low, high = tally.interval()
    exact = float(enclosed_law(300, 10, 2)[1])
    assert exact < 1e-22
    assert low <= exact <= high <= 1.01 * low


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(10**4, 4), (10**5, 3), (10**6, 4)])
def test_estimate_beyond_the_exact_law(n: int, m: int) -> None:
    """P[C >= 2] is n^(1-m) but for a relative n^(1-m): 1e-12, 1e-10 and 1e-18."""
    tally = rare_components(n, m, 60, rng=DeterministicRandom(46))
    assert tally.estimate == pytest.approx(n ** (1 - m), rel=1e-3)
    low, high = tally.interval(CERTAIN)
    assert low <= n ** (1 - m) <= high


def test_estimate_and_error_by_hand() -> None:
    """Three graphs of 2, 2 and 3 components: (1 + 1 + 1/3)/3 of the expected divisions."""
    expected = _plan(Model(6, ShareGraph(3, "parallel", True)), 2).expected
    tally = PlantedTally(6, ShareGraph(3, "parallel", True), 2, 3, {2: 2, 3: 1}, expected)
    scale = float(expected.high)
    assert tally.estimate == pytest.approx(scale * 7 / 9)
    assert tally.divisions(3) == 3
    assert tally.divisions(4) == 7


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_stirling_numbers(parts: int) -> None:
    tally = PlantedTally(
        20, ShareGraph(3, "parallel", True), parts, 1, {parts: 1},
        _plan(Model(20, ShareGraph(3, "parallel", True)), 2).expected,
    )  # fmt: skip
    assert [tally.divisions(k) for k in range(1, 13)] == [stirling(k, parts) for k in range(1, 13)]


# Drawing sizes


class Scripted(DeterministicRandom):
    """A source whose words are given."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(0)
        self.words = words

    def fill(self, out: NDArray[Any]) -> None:
        out[:] = np.array(self.words[: out.size], dtype=out.dtype)


def test_sizes_are_drawn_to_the_last_digit() -> None:
    half = 1 << 63
    law = np.array([half, half + 7], dtype=np.uint64)
    words = [0, half - 1, half, half + 6, half + 7, (1 << 64) - 1]
    assert _draw_sizes(law, len(words), Scripted(words)).tolist() == [1, 1, 2, 2, 3, 3]
    assert _distribution([mpfr(1), mpfr(2), mpfr(1)]).tolist() == [1 << 62, 3 << 62]
    assert _draw_sizes(_distribution([mpfr(5)]), 3, DeterministicRandom(1)).tolist() == [1, 1, 1]


# Executors, interruption, arguments


@pytest.mark.slow
def test_results_do_not_depend_on_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(executor: Any = None) -> PlantedTally:
        return rare_components(
            600, 3, 3000, at_least=3, rng=DeterministicRandom(48), executor=executor
        )

    alone = run()
    assert run() == alone
    with ThreadPoolExecutor(3) as threads:
        assert run(threads) == alone
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert run(processes) == alone
    assert pickle.loads(pickle.dumps(alone)).counts == alone.counts


def test_interruption_keeps_what_was_done() -> None:
    """What is kept is what fewer trials give."""

    def stop(done: int, trials: int) -> None:
        assert trials == 100_000
        if done >= 20_000:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        rare_components(20, 3, 100_000, rng=DeterministicRandom(49), progress=stop)
    partial = caught.value.partial
    assert partial.trials == caught.value.done
    assert 20_000 <= partial.trials < 100_000
    assert partial == rare_components(20, 3, partial.trials, rng=DeterministicRandom(49))


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"m must be at least 3 .* 2"):
        rare_components(10, 2, 10, clear_share=False)
    tally = rare_components(10, 3, 10, at_least=3, rng=DeterministicRandom(50))
    for k in (2, 11):
        with pytest.raises(ValueError, match=f"k must be .*, got {k}"):
            tally.probability(k)
