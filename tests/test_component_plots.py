"""Figures of checks: what is drawn is the check's data, however small, and nothing is hidden."""

from __future__ import annotations

from functools import lru_cache

import gmpy2
import pytest
from gmpy2 import mpfr

from ikos.graphs import check_components
from ikos.graphs.component_bounds import BOUNDS
from ikos.numeric.rounding import DOWN
from ikos.results.confidence import clopper_pearson
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")

from ikos.plots.components import components_figure

CASES = {
    "common": (20, 3, 3000, {}),
    "single": (12, 3, 3000, {"shuffler": "single", "clear_share": False}),
    "no bound": (30, 1, 300, {}),
    "none connected": (30, 1, 50, {"clear_share": False}),
    "one user": (1, 3, 10, {}),
    "one row": (30, 3, 100, {"largest": 1}),
    "many users": (100_000, 3, 5, {"planted": 3}),
    "no samples planted": (30, 3, 100, {"planted": 0, "confidence": 0.5}),
    "always n components": (4, 1, 50, {"clear_share": False}),
    "very small": (60, 900, 50, {"planted": 8, "largest": 12}),
    "many rows": (64, 2, 500, {"planted": 12, "largest": 64}),
    "many samples": (4, 2, 60_000, {"confidence": 0.999999}),
}


@lru_cache
def checked(case):
    n, m, trials, options = CASES[case]
    return check_components(n, m, trials, rng=DeterministicRandom(1), **options)


@pytest.fixture(params=CASES)
def drawn(request):
    check = checked(request.param)
    return check, components_figure(check)


def points(axes, gid):
    lines = [line for line in axes.get_lines() if line.get_gid() == gid]
    assert len(lines) <= 1
    return dict(zip(*lines[0].get_data(), strict=True)) if lines else {}


def intervals(axes, gid):
    found = [lines for lines in axes.collections if lines.get_gid() == gid]
    assert len(found) <= 1
    return {
        path.vertices[0][0]: (path.vertices[0][1], path.vertices[1][1])
        for lines in found
        for path in lines.get_paths()
    }


def log10(value):
    return float(gmpy2.log10(mpfr(value)))


def near(values):
    return pytest.approx(values, rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_curves(drawn):
    check, figure = drawn
    axes = figure.axes[0]
    exact = {row.c: row.exact for row in check.rows if row.exact and row.exact.high}
    assert points(axes, "exact") == near({c: log10(value.high) for c, value in exact.items()})
    n, rows = check.n, len(check.rows)
    expected = {}
    if check.rows[0].lemma is not None:
        bounds = BOUNDS["lemma_c5"].values(n, check.graph, rows, DOWN)
        expected = {c: log10(bound) for c, bound in enumerate(bounds, 1)}
        for row in check.rows:
            assert row.lemma < 1e-300 or expected[row.c] == near(log10(float(row.lemma)))
    assert points(axes, "lemma") == near(expected)
    expected = {}
    if check.rows[0].bound is not None:
        bounds = BOUNDS["parts"].values(n, check.graph, rows, DOWN)
        expected = {c: min(0.0, log10(bound)) for c, bound in enumerate(bounds, 1)}
        for row in check.rows:
            assert row.bound < 1e-300 or expected[row.c] == near(log10(float(row.bound)))
    assert points(axes, "bound") == near(expected)


def test_samples(drawn):
    check, figure = drawn
    axes = figure.axes[0]
    seen = [row for row in check.rows if row.seen]
    unseen = [row for row in check.rows if not row.seen]
    assert points(axes, "sampled") == near(
        {row.c: log10(row.seen / check.tally.trials) for row in seen}
    )
    assert intervals(axes, "sampled-intervals") == {
        row.c: near((log10(row.sampled.low), log10(row.sampled.high))) for row in seen
    }
    assert points(axes, "sampled-limits") == near(
        {row.c: log10(row.sampled.high) for row in unseen}
    )


@pytest.mark.slow
def test_importance_samples(drawn):
    check, figure = drawn
    axes = figure.axes[0]
    middles, ends, limits = {}, {}, {}
    for tally in check.planted:
        c, seen = tally.parts, tally.counts.get(tally.parts, 0)
        found = clopper_pearson(seen, tally.trials, check.confidence)
        high = min(0.0, log10(tally.expected.high) + log10(found.high))
        if seen:
            middles[c] = log10(tally.expected.high) + log10(seen / tally.trials)
            ends[c] = near((log10(tally.expected.low) + log10(found.low), high))
        else:
            limits[c] = high
        row = check.rows[c - 1]
        if row.planted.high > 1e-300:
            assert high == near(log10(float(row.planted.high)))
    assert points(axes, "planted") == near(middles)
    assert intervals(axes, "planted-intervals") == ends
    assert points(axes, "planted-limits") == near(limits)


@pytest.mark.slow
def test_ratios(drawn):
    check, figure = drawn
    assert len(figure.axes) == 1 + bool(check.planted and check.rows[0].exact)
    if len(figure.axes) == 1:
        return
    axes = figure.axes[1]
    for c, (low, high) in intervals(axes, "ratio-intervals").items():
        row = check.rows[int(c) - 1]
        if row.planted.low > 1e-300:
            assert low * row.exact.high == near(float(row.planted.low))
            assert high * row.exact.high == near(float(row.planted.high))
        assert axes.get_ylim()[0] < low <= high < axes.get_ylim()[1]
    for tally in check.planted:
        share = tally.counts.get(tally.parts, 0) / tally.trials
        middle = share * float(tally.expected.high / check.rows[tally.parts - 1].exact.high)
        assert not share or points(axes, "ratio")[tally.parts] == near(middle)
    assert {tally.parts for tally in check.planted} == set(points(axes, "ratio"))
    assert set(points(axes, "exact-ratio").values()) == {1}


@pytest.mark.points(0)
def test_nothing_is_cut_or_overlaps(drawn):
    _, figure = drawn
    figure.draw_without_rendering()
    page = figure.bbox
    boxes = [figure.legends[0].get_window_extent(), *(t.get_window_extent() for t in figure.texts)]
    boxes += [axes.get_tightbbox() for axes in figure.axes]
    for box in boxes:
        if box.width:
            assert page.x0 <= box.x0 <= box.x1 <= page.x1
            assert page.y0 <= box.y0 <= box.y1 <= page.y1
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i] if box.width and other.width)
