"""Figures of protocols: markers where the numbers are, all named."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import numpy as np
import pytest

from ikos.baselines import PROTOCOLS, Measurement, comparison, measure
from ikos.data.domains import Ball, Bounds, Box, Categories, SparseTernary
from ikos.plots import save
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")

from ikos.plots import protocols
from ikos.plots.style import LOOKS, MOST_LABELS

SEARCHED = ("recursive-2", "recursive-3", "recursive-4", "correlated-noise")
QUICK = tuple(spec.key for spec in PROTOCOLS if Bounds in spec.domains and spec.key not in SEARCHED)
SETTINGS = [(100, 1e-4), (10**4, 1e-8)]


@lru_cache
def rows(n, delta, keys=QUICK):
    return comparison(n, 1, delta, protocols=keys)


def markers(axes):
    keys = {spec.key for spec in PROTOCOLS if Bounds in spec.domains}
    return {
        line.get_gid(): (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.get_lines()
        if line.get_gid() in keys
    }


def check(figure, given):
    """Check the markers of both panels, inside the axes, and their names; a line is central."""
    drawn = [row for row in given if row.spec.model != "central"]
    for axes, sent in zip(figure.axes, ("messages", "bits"), strict=True):
        expected = {row.key: (getattr(row, sent), row.mse) for row in drawn if row.protocol}
        assert markers(axes) == expected
        frame = axes.get_window_extent()
        for place in expected.values():
            assert frame.contains(*axes.transData.transform(place))
    looks = {
        handle.get_label(): (handle.get_color(), handle.get_marker())
        for handle in figure.legends[0].legend_handles
    }
    for line in figure.axes[0].get_lines():
        if line.get_gid() in markers(figure.axes[0]):
            assert looks.pop(line.get_gid()) == (line.get_color(), line.get_marker())
    assert not {row.key for row in drawn if row.protocol} & set(looks)


@pytest.mark.points(0)
@pytest.mark.parametrize(("n", "delta"), SETTINGS)
def test_every_protocol_is_named(n, delta):
    given = rows(n, delta)
    figure = protocols.protocols_figure(given, "All")
    check(figure, given)
    best = min(row.mse for row in given if row.spec.model == "central")
    for axes in figure.axes:
        (line,) = (line for line in axes.get_lines() if line.get_gid() == "central")
        assert set(line.get_ydata()) == {best}


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
            bottom, top = axes.get_ylim()
            assert bottom < low**2 < high**2 < top


@pytest.mark.slow
@pytest.mark.parametrize("key", ["central-laplace", "local-laplace", "private-sum"])
def test_one_protocol(key, tmp_path):
    given = rows(100, 1e-4, (key,))
    figure = protocols.protocols_figure(given, "One")
    check(figure, given)
    save(figure, tmp_path / "one.pdf")
    assert (tmp_path / "one.pdf").stat().st_size > 1000


def test_no_error_at_all_is_drawn_on_the_logarithmic_axis():
    (row,) = rows(100, 1e-4, ("local-laplace",))
    measured = {row.key: Measurement((0.0, 0.0), 0.1)}
    figure = protocols.protocols_figure([row], "None", measured=measured)
    assert all(math.isfinite(end) and end > 0 for end in figure.axes[0].get_ylim())


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="rows must hold at least one protocol"):
        protocols.protocols_figure(rows(5, 1e-2, ("private-sum-bbgn20",)), "None")


def test_the_look_of_a_protocol_is_its_own_in_every_figure_and_hides_none():
    keys = ("private-sum", "designated-noise", "privacy-blanket", "local-laplace")
    many, few = (
        protocols.protocols_figure(rows(100, 1e-4, some), "Some") for some in (keys, keys[1:])
    )
    looks = [
        {
            line.get_gid(): (line.get_color(), line.get_marker(), line.get_markerfacecolor())
            for line in figure.axes[0].get_lines()
        }
        for figure in (many, few)
    ]
    assert looks[1].items() <= looks[0].items()
    assert {face for *_, face in looks[0].values()} == {"none"}


@pytest.mark.parametrize("kind", [Bounds, Box, Ball, SparseTernary, Categories])
def test_no_two_protocols_of_a_domain_look_alike(kind):
    looks = [LOOKS[spec.key] for spec in PROTOCOLS if kind in spec.domains]
    assert len(looks) == len(set(looks))


def test_protocols_at_the_same_place_are_around_each_other():
    (row,) = rows(100, 1e-4, ("privacy-blanket",))
    spec = next(spec for spec in PROTOCOLS if spec.key == "sample-threshold")
    figure = protocols.protocols_figure([row, replace(row, spec=spec)], "Two")
    sizes = [line.get_markersize() for line in figure.axes[0].get_lines()]
    assert abs(sizes[0] - sizes[1]) >= 4


@pytest.mark.points(0)
@pytest.mark.parametrize(("n", "delta"), SETTINGS)
def test_eight_are_labelled_and_the_others_faint(n, delta):
    given = rows(n, delta)
    figure = protocols.protocols_figure(given, "All")
    for axes in figure.axes:
        texts = [text for text in axes.texts if text.get_text()]  # others are lines to them
        names = {text.get_text() for text in texts}
        assert 6 <= len(names) <= MOST_LABELS
        faint = {line.get_gid() for line in axes.get_lines() if (line.get_alpha() or 1) < 1}
        assert not faint & names
        assert len(markers(axes)) - len(faint) <= MOST_LABELS
        boxes = [text.get_window_extent() for text in texts]
        assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
        frame = axes.get_window_extent()
        assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_what_no_other_beats_is_labelled():
    given = rows(10**4, 1e-8)
    figure = protocols.protocols_figure(given, "All")
    faint = {line.get_gid() for line in figure.axes[0].get_lines() if (line.get_alpha() or 1) < 1}
    assert {"privacy-blanket", "private-sum"}.isdisjoint(faint)
    assert {"local-laplace", "local-response"} <= faint


def test_the_line_is_named_by_its_protocol():
    figure = protocols.protocols_figure(rows(100, 1e-4, ("central-laplace", "private-sum")), "Two")
    assert figure.legends[0].get_texts()[-1].get_text() == "central-laplace"


@pytest.mark.slow
def test_labels_are_inside_the_axes_and_numbers_below_apart():
    keys = ("masked-vector-sum", "one-coordinate", "kashin-correlated-noise", "kashin-private-sum",
            "helpers-vector-sum", "helpers-vector-sum-parties", "private-vector-sum")  # fmt: skip
    given = comparison(1000, 8, 1e-6, domain=Ball(10**5), protocols=keys)
    figure = protocols.protocols_figure(given, "Far apart")
    figure.canvas.draw()
    for axes in figure.axes:
        frame = axes.get_window_extent()
        boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
        assert len(boxes) == len(keys)
        assert all(frame.contains(*box.p0) and frame.contains(*box.p1) for box in boxes)
        ticks = [tick.get_window_extent() for tick in axes.get_xticklabels() if tick.get_text()]
        assert len(ticks) > 2
        assert not any(one.overlaps(other) for one, other in combinations(ticks, 2))
