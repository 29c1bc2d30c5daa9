"""Figures of protocols: markers where the numbers are, all named, no name upon another."""

from __future__ import annotations

import itertools
import math
import time
from functools import lru_cache

import numpy as np
import pytest

from ikos.baselines import PROTOCOLS, comparison, measure
from ikos.bounds import Bounds
from ikos.plots import save
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg

from ikos.plots import protocols

SEARCHED = ("recursive-2", "recursive-3", "recursive-4", "correlated-noise")
QUICK = tuple(
    contender.key
    for contender in PROTOCOLS
    if Bounds in contender.domains and contender.key not in SEARCHED
)
SETTINGS = [(100, 1e-4), (10**4, 1e-8), (10**6, 1e-12), (10**9, 1e-18)]


@lru_cache
def rows(n, delta, keys=QUICK):
    return comparison(n, 1, delta, protocols=keys)


def boxes(figure, axes):
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    return {text.get_text(): text.get_window_extent(canvas.get_renderer()) for text in axes.texts}


def markers(axes):
    keys = {contender.key for contender in PROTOCOLS if Bounds in contender.domains}
    return {
        line.get_gid(): (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.get_lines()
        if line.get_gid() in keys
    }


def check(figure, given):
    """Check markers and names in both panels; central protocols are the line."""
    drawn = [row for row in given if row.contender.model != "central"]
    for axes, sent in zip(figure.axes, ("messages", "bits"), strict=True):
        expected = {row.key: (getattr(row, sent), row.mse) for row in drawn if row.protocol}
        assert markers(axes) == expected
        found = boxes(figure, axes)
        assert set(found) == set(expected)
        frame = axes.get_window_extent()
        for box in found.values():
            assert frame.x0 <= box.x0 < box.x1 <= frame.x1
            assert frame.y0 <= box.y0 < box.y1 <= frame.y1
        for (a, one), (b, other) in itertools.combinations(found.items(), 2):
            assert not one.overlaps(other), (a, b)
        for key, place in expected.items():
            x, y = axes.transData.transform(place)
            assert frame.x0 < x < frame.x1
            assert frame.y0 < y < frame.y1
            assert not any(box.contains(x, y) for box in found.values()), key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "delta"), [*SETTINGS[:2], pytest.param(*SETTINGS[2], marks=pytest.mark.slow)]
)
def test_every_protocol_is_named_and_no_name_is_upon_another(n, delta):
    given = rows(n, delta)
    figure = protocols.protocols_figure(given, "All")
    check(figure, given)
    best = min(row.mse for row in given if row.contender.model == "central")
    for axes in figure.axes:
        (line,) = (line for line in axes.get_lines() if line.get_gid() == "central")
        assert set(line.get_ydata()) == {best}


@pytest.mark.slow
@pytest.mark.parametrize(("n", "delta"), SETTINGS)
def test_with_the_protocols_of_several_messages(n, delta):
    given = rows(n, delta, None)
    check(protocols.protocols_figure(given, "All"), given)


def test_it_takes_no_search_of_minutes():
    given = rows(10**4, 1e-8)
    began = time.process_time()
    protocols.protocols_figure(given, "All")
    assert time.process_time() - began < 10


@pytest.mark.slow
def test_measured_errors_are_drawn_with_their_intervals():
    given = rows(100, 1e-4)
    values = np.linspace(0, 1, 100)
    measured = {row.key: measure(row, values, 5, DeterministicRandom(1)) for row in given}
    figure = protocols.protocols_figure(given, "All", measured=measured)
    check(figure, given)
    for axes in figure.axes:
        lines = {line.get_gid(): line for line in axes.get_lines()}
        for key in markers(axes):
            low, high = measured[key].interval()
            assert list(lines[f"{key}-interval"].get_ydata()) == pytest.approx([low**2, high**2])
            assert lines[f"{key}-measured"].get_ydata()[0] == pytest.approx(measured[key].rmse ** 2)
            bottom, top = axes.get_ylim()
            assert bottom < low**2 < high**2 < top


def test_the_legend_tells_what_is_drawn():
    given = rows(100, 1e-4)
    (legend,) = protocols.protocols_figure(given, "All").legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == [
        "shuffle model, private sums of ikos", "shuffle model", "local model",
        "central model, the best compared",
    ]  # fmt: skip
    few = [row for row in given if row.key in ("private-sum", "privacy-blanket")]
    (legend,) = protocols.protocols_figure(few, "Two").legends
    assert [text.get_text() for text in legend.get_texts()] == words[:2]


@pytest.mark.parametrize("key", ["central-laplace", "local-laplace", "private-sum"])
def test_one_protocol(key, tmp_path):
    given = rows(100, 1e-4, (key,))
    figure = protocols.protocols_figure(given, "One")
    check(figure, given)
    save(figure, tmp_path / "one.pdf")
    assert (tmp_path / "one.pdf").stat().st_size > 1000


def test_no_error_at_all_is_drawn_on_the_logarithmic_axis():
    (row,) = rows(100, 1e-4, ("local-laplace",))
    figure = protocols.protocols_figure(
        [row], "None", measured={row.key: protocols_measured((0.0, 0.0))}
    )
    assert all(math.isfinite(end) and end > 0 for end in figure.axes[0].get_ylim())


def protocols_measured(errors):
    from ikos.baselines import Measurement

    return Measurement(errors, 0.1)


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="rows must hold at least one protocol"):
        protocols.protocols_figure(rows(5, 1e-2, ("private-sum-bbgn20",)), "None")
