"""The checker: what it puts side by side, what its verdict says, and that it can say no."""

from __future__ import annotations

import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from exact.share_graph import SETTINGS
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

from ikos.counts.share_graph import ShareGraph
from ikos.graphs import (
    ComponentCheck,
    Enclosure,
    Interrupted,
    PlantedTally,
    Tally,
    check_components,
    component_bound,
    component_moment,
    enclosed_law,
    exact_component_law,
    excess_bound,
    parts_bound,
    rare_components,
    sampling,
    tally_components,
)
from ikos.graphs import check as checking
from ikos.graphs.component_bounds import BOUNDS
from ikos.graphs.share_graphs import Model
from ikos.numeric.rounding import DOWN, float_up, rounding
from ikos.results.confidence import clopper_pearson
from ikos.testing import DeterministicRandom


def check(n: int = 20, m: int = 3, trials: int = 20_000, **options: Any) -> ComponentCheck:
    return check_components(n, m, trials, rng=DeterministicRandom(61), **options)


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
def test_rows_hold_the_law_the_bounds_and_the_samples(shuffler: str, clear: bool) -> None:
    setting: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    found = check(q=16, largest=5, confidence=0.9, planted=500, **setting)
    law = enclosed_law(20, 3, 5, **setting)
    assert [row.exact for row in found.rows] == list(law)
    stated = shuffler == "parallel" and clear
    for c, row in enumerate(found.rows, 1):
        assert row.c == c
        assert (row.lemma is not None) == stated
        assert row.lemma is None or float_up(row.lemma) == component_bound(20, 3, c)
        assert row.bound is not None
        assert float_up(row.bound) == parts_bound(20, 3, c, **setting)
        assert row.slack is not None
        assert row.slack <= float(row.bound) / float(law[c - 1]) * (1 + 1e-12)
        assert row.slack >= float(row.bound) / float(law[c - 1]) * (1 - 1e-12)
        assert row.seen == found.tally[c]
        assert row.sampled == clopper_pearson(row.seen, 20_000, 0.9)
        assert (row.planted is None) == (c == 1)
    assert [tally.parts for tally in found.planted] == [2, 3, 4, 5]
    assert all(tally.trials == 500 for tally in found.planted)
    assert found.excess is not None
    assert found.excess.high == component_moment(20, 3, 16, **setting).excess
    shown = found.excess_bound and float_up(found.excess_bound.high)
    assert shown == (excess_bound(20, 3, 16) if stated else None)
    assert found.holds
    assert found.bounded
    assert found.agrees


@pytest.mark.slow
def test_samples_are_those_of_the_sampler() -> None:
    """The same seed gives the tally that the sampler gives, on any executor."""
    found = check()
    assert found.tally == tally_components(20, 3, 20_000, rng=DeterministicRandom(61))
    with ThreadPoolExecutor(2) as threads:
        assert check(executor=threads) == found


def test_verdict_says_what_was_and_was_not_seen() -> None:
    bounds, samples, unseen, planted = check().verdict
    assert bounds.startswith(
        "Proved for c = 1 to 6: the exact distribution is below the bounds, for c >= 2 by"
    )
    assert samples == "A sample of 20,000 graphs agrees with the exact distribution."
    assert unseen.startswith("Not seen: 3 components or more. The sample says P[C >= 3] < 0.00019")
    assert "P[C = 3] is 3.53e-06: one in 283,334 graphs." in unseen
    assert "agree with the exact distribution, down to P[C = 6] = 2.6e-15." in planted


def test_a_bound_below_the_law_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    lemma = BOUNDS["lemma_c5"]

    def wrong(*setting: Any) -> list[mpfr]:
        return [value / 6 ** (c - 1) for c, value in enumerate(lemma.values(*setting), 1)]

    monkeypatch.setitem(BOUNDS, "lemma_c5", replace(lemma, values=wrong))
    found = check(trials=100)
    assert found.bounded is False
    assert not found.holds
    assert found.verdict[0] == "VIOLATED: the exact distribution is above a bound, at c = 2."


@pytest.mark.points(1)
@pytest.mark.parametrize("n", [20, 3000])
@pytest.mark.parametrize("m", [3, 450])
def test_a_moment_next_to_its_bound(monkeypatch: pytest.MonkeyPatch, n: int, m: int) -> None:
    """Also where no double is above 0 and as small."""

    def with_bound(bound: mpfr) -> ComponentCheck:
        monkeypatch.setattr(checking, "lemma_excess", lambda *_: bound)
        return check(n=n, m=m, trials=1, planted=0, largest=1, q=16)

    excess = check(n=n, m=m, trials=1, planted=0, largest=1, q=16).excess
    assert excess is not None
    if n == 20:
        law = enclosed_law(n, m, n)
        assert excess.low <= sum((16**c - 1) * mpq(p.low) for c, p in enumerate(law)) <= excess.high
    with rounding(DOWN):
        middle, wrong = (excess.low + excess.high) / 2, excess.low / mpfr("1e298")
    for bound, bounded, said in (
        (excess.high, True, "Proved"),
        (middle, None, "UNDECIDED"),
        (excess.low, None, "UNDECIDED"),
        (wrong, False, "VIOLATED"),
    ):
        found = with_bound(bound)
        assert found.bounded is bounded
        assert found.verdict[0].startswith(said)
        assert ("E[q^C]" in found.verdict[0]) == (bounded is not True)


def test_what_agrees_in_all_digits_is_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check(m=450, trials=10, planted=0)
    assert [row.bounded for row in found.rows] == [True, None, None, None, None, None]
    assert (found.bounded, found.holds) == (None, True)
    assert found.verdict[0] == (
        "UNDECIDED: the known digits do not decide whether a bound holds at "
        "c = 2, c = 3, c = 4, c = 5, c = 6."
    )
    parts = BOUNDS["parts"]

    def wrong(*setting: Any) -> list[mpfr]:
        with rounding(DOWN):
            return [value * (1 - mpfr(2) ** -240) for value in parts.values(*setting)]

    monkeypatch.setitem(BOUNDS, "parts", replace(parts, values=wrong))
    found = check(m=450, trials=10, planted=0)
    assert (found.bounded, found.holds) == (False, False)
    assert [row.bounded for row in found.rows[1:]] == [False] * 5


right_sample = Model.sample


def one_permutation_twice(self: Model, trials: int, rng: Any) -> NDArray[np.int32]:
    graphs = right_sample(self, trials, rng)
    graphs[:, :, 1] = graphs[:, :, 0]
    return graphs


@pytest.mark.slow
def test_samples_of_a_wrong_model_contradict_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "sample", one_permutation_twice)
    found = check(n=5, m=2, trials=2_000)
    assert found.agrees is False
    assert not found.holds
    assert found.verdict[1].startswith("CONTRADICTED: a sample of 2,000 graphs")
    assert found.bounded


def test_wrong_importance_samples_contradict_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "sample", one_permutation_twice)
    found = check(n=6, m=2, planted=20_000, trials=100)
    assert found.agrees is False
    assert not found.holds
    assert found.verdict[-1].startswith("CONTRADICTED: importance samples of 20,000 graphs")


def test_rare_counts_that_are_seen_contradict_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single graph of 300 components where it has probability 1e-5000 is enough."""

    def broken(self: Model, trials: int, rng: Any) -> NDArray[np.int32]:
        graphs = right_sample(self, trials, rng)
        graphs[0] = np.arange(self.n)[:, None]
        return graphs

    monkeypatch.setattr(Model, "sample", broken)
    found = check(n=300, m=10, trials=1000, planted=0)
    assert found.fit is not None
    assert found.fit < 1e-50
    assert not found.holds


def test_many_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "_SLOTS_PLANTED", 1_000_000)
    found = check(n=5000, m=4, trials=5, q=2**16)
    assert found.bounded
    assert found.agrees
    assert found.excess is not None
    assert found.excess_bound is not None
    assert float(found.excess) == pytest.approx((2**16 - 1) * 5000.0**-3, rel=1e-6)
    assert [tally.parts for tally in found.planted] == [2, 3, 4, 5, 6]
    assert {tally.trials for tally in found.planted} == {1_000_000 // (5000 * 4 * 6)}
    for row in found.rows[1:]:
        assert row.planted is not None
        assert row.planted.low <= row.exact.high
        assert row.exact.low <= row.planted.high
    assert found.verdict[0].startswith("Proved for c = 1 to 6")
    assert "P[C = 2] is 8e-12: one in 1.2e+11 graphs." in found.verdict[2]


def test_it_prints_what_people_read() -> None:
    found = check()
    text = str(found).splitlines()
    assert text[0].startswith("n = 20, ShareGraph(m=3")
    assert text[2] == "c = 2: P = 0.0025179, at most 0.00376, seen 49 times in 20,000"
    assert tuple(text[7:]) == found.verdict


@pytest.mark.parametrize(
    ("n", "m", "clear"), [(1, 3, True), (1, 1, False), (2, 1, True), (5, 2, False), (5, 1, False)]
)
def test_small_and_unbounded_settings(n: int, m: int, clear: bool) -> None:
    found = check(n=n, m=m, trials=500, clear_share=clear)
    assert found.holds
    assert found.agrees
    assert len(found.rows) == min(n, 6)
    assert all(isinstance(line, str) and line for line in found.verdict)
    if n == 1:
        assert found.verdict[-1] == "Seen up to C = 1, the most there can be."


@pytest.mark.slow
def test_few_samples_of_a_rare_event_do_not_contradict() -> None:
    """False alarms: 200 seeds of small samples, none below 1e-9."""
    for seed in range(200):
        found = check_components(6, 2, 30, planted=30, rng=DeterministicRandom(seed))
        assert found.agrees


@pytest.mark.slow
def test_interruption_checks_what_was_done() -> None:
    def stop(done: int, trials: int) -> None:
        if done > trials // 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        check(trials=200_000, progress=stop)
    partial = caught.value.partial
    assert isinstance(partial, ComponentCheck)
    assert partial.tally.trials == caught.value.done > 100_000
    assert partial.planted == ()
    assert partial.holds


def test_interruption_of_importance_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    from ikos.graphs import importance_sampling

    right = importance_sampling._planted

    def stop(*batch: Any) -> Any:
        if batch[0][1] == 4:
            raise KeyboardInterrupt
        return right(*batch)

    monkeypatch.setattr(importance_sampling, "_planted", stop)
    with pytest.raises(Interrupted) as caught:
        check(trials=1000)
    partial = caught.value.partial
    assert isinstance(partial, ComponentCheck)
    assert [tally.parts for tally in partial.planted] == [2, 3]
    assert partial.tally.trials == 1000


def test_a_law_that_is_one_to_all_digits_is_not_above_its_bound() -> None:
    """P[C >= 2] is 1e-105 here: the enclosure of P[C = 1] must not end above 1."""
    found = check(n=60, m=60, trials=5, planted=5)
    assert found.bounded
    assert found.holds
    assert found.rows[0].slack == 1.0
    assert found.verdict[1].startswith("A sample of 5 graphs agrees")


def test_the_verdict_does_not_underflow() -> None:
    found = check(n=100, m=60, trials=1, planted=2, largest=4)
    assert found.verdict[1] == "A sample of 1 graph agrees with the exact distribution."
    assert re.search(r"P\[C = 4\] = \d\.\d+e-3\d\d\.", found.verdict[-1])


def test_progress_counts_the_law_and_importance_samples() -> None:
    seen: list[tuple[int, int]] = []
    check(trials=50_000, planted=100, progress=lambda done, whole: seen.append((done, whole)))
    (whole,) = {whole for _, whole in seen}
    parts = [done / whole for done, _ in seen]
    assert parts == sorted(parts)
    assert len(set(parts)) > 5  # for each c of the law, and each of the importance samples
    assert parts[-1] == 1


def test_interruption_before_a_graph_was_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*batch: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling, "_tallied", stop)
    with pytest.raises(Interrupted) as caught:
        check()
    partial = caught.value.partial
    assert isinstance(partial, ComponentCheck)
    assert caught.value.done == partial.tally.trials == 0
    assert (partial.bounded, partial.agrees) == (True, None)
    assert all(row.sampled == (0, 1) for row in partial.rows)
    assert partial.verdict[1:] == ("No graph was sampled.",)


# The tests of fit, by hand


def bound_of(counts: list[int], chances: list[Fraction]) -> float:
    """Return Agrawal's bound for so many counts and probabilities, by its formula."""
    trials = sum(counts)
    seen = [(k, float(p)) for k, p in zip(counts, chances, strict=True)]
    t = sum(k * math.log(k / (trials * p)) for k, p in seen if k)
    degrees = len(counts) - 1
    return min(1.0, math.exp(degrees * (1 + math.log(t / degrees)) - t)) if t > degrees else 1.0


def test_the_fit_has_the_cells_that_the_law_says() -> None:
    """Cells of their own for all that 1e-3 graphs or more are expected of, one for the rest."""
    law = exact_component_law(5, 2)
    tally = Tally(5, ShareGraph(2, "parallel", True), 40, {1: 20, 2: 10, 4: 10}, 0)
    assert all(p * 40 >= 1e-3 for p in law)
    expected = bound_of([20, 10, 0, 10, 0, 0], [*law, Fraction(1, 10**300)])
    assert 0 < expected < 1e-4
    assert checking._fit(tally, enclosed_law(5, 2, 5)) == pytest.approx(expected, rel=1e-9)


def test_the_fit_pools_what_is_rare() -> None:
    law = exact_component_law(6, 3)
    tally = Tally(6, ShareGraph(3, "parallel", True), 1000, {1: 990, 3: 3, 5: 7}, 0)
    assert [p * 1000 >= 1e-3 for p in law] == [True, True, True, True, False, False]
    expected = bound_of([990, 0, 3, 0, 7], [*law[:4], law[4] + law[5]])
    for known in (4, 6):  # what is beyond the law is pooled too
        found = checking._fit(tally, enclosed_law(6, 3, known))
        assert found == pytest.approx(expected, rel=1e-9)


def test_the_fit_of_planted_graphs_by_hand() -> None:
    """Cells for 2, 3, ... to the last known c, and one for the rest, which is the true rest."""
    law = exact_component_law(14, 3)
    graph = ShareGraph(3, "parallel", True)
    expected = rare_components(14, 3, 1, rng=DeterministicRandom(1)).expected
    stirling = [2 ** (k - 1) - 1 for k in range(1, 15)]
    total = sum((s * p for s, p in zip(stirling, law, strict=True)), Fraction(0))
    chances = [s * p / total for s, p in zip(stirling, law, strict=True)]
    counts = {2: 900, 3: 60, 4: 30, 7: 9, 9: 1}
    tally = PlantedTally(14, graph, 2, 1000, counts, expected)
    cells = [counts.get(k, 0) for k in range(2, 9)]
    right = bound_of([*cells, 1], [*chances[1:8], sum(chances[8:], Fraction(0))])
    found = checking._planted_fit([tally], enclosed_law(14, 3, 8))
    assert found == pytest.approx(right, rel=1e-9)


def test_several_importance_samples_are_corrected_for_their_number() -> None:
    found = check(n=6, m=2, trials=10, planted=300, largest=5)
    law = enclosed_law(6, 2, 6)
    assert found.planted_fit == checking._planted_fit(found.planted, law)
    half = [PlantedTally(6, t.graph, t.parts, 40, {6: 40}, t.expected) for t in found.planted]
    fits = [checking._planted_fit([tally], law) for tally in half]
    assert 0 < min(fits) < 1e-3
    assert checking._planted_fit(half, law) == min(1.0, 4 * min(fits))


def test_slack_is_of_the_upper_end_of_an_enclosure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law that is not known well enough does not prove a bound."""

    def wide(n: int, m: int, most: int, **model: Any) -> tuple[Enclosure, ...]:
        return tuple(Enclosure(e.low, e.high * 100) for e in enclosed_law(n, m, most, **model))

    monkeypatch.setattr(checking, "enclosed_law", wide)
    assert check(trials=10, planted=0).bounded is None


@pytest.mark.parametrize(("m", "shuffler"), [(50, "parallel"), (60, "single")])
def test_many_messages(m: int, shuffler: str) -> None:
    """P[C >= 2] is far below all digits of P[C = 1]."""
    found = check(n=30, m=m, trials=3, planted=3, shuffler=shuffler, largest=30)
    assert found.bounded
    assert found.holds


def test_a_group_that_is_too_large_to_compute_with() -> None:
    found = check(n=300, trials=2, planted=0, q=2 ** (10**7))
    assert found.excess is None
    assert found.holds


@pytest.mark.points(1)
@pytest.mark.parametrize(("m", "clear"), [(1, True), (2, False), (1, False)])
def test_many_users_of_whom_few_hide(m: int, clear: bool) -> None:
    found = check(n=3000, m=m, trials=200, clear_share=clear)
    assert found.bounded is None
    assert found.agrees
    assert found.planted == ()
    assert found.verdict[0].startswith("Nothing to prove")
