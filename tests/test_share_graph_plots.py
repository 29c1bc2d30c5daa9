"""What the pictures of share graphs show is what the graphs are."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from ikos.graphs import (
    component_labels,
    component_moment,
    count_components,
    excess_bound,
    sample_targets,
)
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")

from analysis.plots.second_moments import excess_curve, excess_figure
from ikos.plots.share_graphs import graph_figure

GRAPHS = [
    (12, 2, 2759, True), (40, 1, 2, True), (20, 3, 5, True), (10, 2, 0, False), (5, 4, 1, False),
]  # fmt: skip


def drawn(n, m, seed):
    return sample_targets(n, m, rng=DeterministicRandom(seed))[0]


def edges(axes):
    return [tuple(map(int, patch.get_gid().split("-")[1:])) for patch in axes.patches]


def users(axes):
    return {line.get_gid(): line for line in axes.get_lines()}


def look(line):
    return line.get_marker(), line.get_markerfacecolor()


@pytest.mark.parametrize(("n", "m", "seed", "clear"), GRAPHS)
def test_every_edge_and_every_user_is_drawn_once(n, m, seed, clear):
    targets = drawn(n, m, seed)
    (axes,) = graph_figure(targets, clear_share=clear).axes
    wanted = {(i, to, h) for i, row in enumerate(targets.tolist()) for h, to in enumerate(row)}
    found = edges(axes)
    assert len(found) == n * m
    if clear:  # an undirected edge may be named from either end
        assert Counter((min(i, j), max(i, j), h) for i, j, h in found) == Counter(
            (min(i, j), max(i, j), h) for i, j, h in wanted
        )
    else:
        assert set(found) == wanted
    sides = ("",) if clear else ("left-", "right-")
    assert set(users(axes)) == {f"user-{side}{i}" for side in sides for i in range(n)}
    numbers = Counter(text.get_text() for text in axes.texts if text.get_text().isdigit())
    assert numbers == Counter({str(i): len(sides) for i in range(n)})


@pytest.mark.parametrize(("n", "m", "seed", "clear"), GRAPHS)
def test_components_are_told_apart_and_those_alone_are_hollow(n, m, seed, clear):
    targets = drawn(n, m, seed)
    labels = component_labels(targets, clear_share=clear)[0]
    (axes,) = graph_figure(targets, clear_share=clear).axes
    lines = users(axes)
    side = "" if clear else "left-"
    looks = {}
    for i, part in enumerate(labels.tolist()):
        looks.setdefault(part, set()).add(look(lines[f"user-{side}{i}"]))
    assert all(len(found) == 1 for found in looks.values())
    sizes = np.bincount(labels)
    larger = [found.pop() for part, found in looks.items() if sizes[part] > 1]
    assert len(set(larger)) == len(larger)
    assert len({marker for marker, _ in larger}) == min(5, len(larger))
    for part, found in looks.items():
        if sizes[part] == 1:
            assert found == {("o", "white")}
    assert ("o", "white") not in larger
    # an edge has the colour of both of its ends
    for patch, (i, j, _) in zip(axes.patches, edges(axes), strict=True):
        ends = (f"user-{side}{i}", f"user-{'' if clear else 'right-'}{j}")
        colours = {lines[end].get_markerfacecolor() for end in ends}
        assert len(colours) == 1
        if colours != {"white"}:
            assert np.allclose(patch.get_edgecolor()[:3], rgb(colours.pop()))


def rgb(colour):
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "seed", "clear"), GRAPHS)
def test_users_do_not_overlap_and_lie_within_the_figure(n, m, seed, clear):
    figure = graph_figure(drawn(n, m, seed), clear_share=clear)
    (axes,) = figure.axes
    points = np.array([line.get_xydata()[0] for line in axes.get_lines()])
    inches = axes.transData.transform(points) / figure.dpi
    gaps = np.linalg.norm(inches[:, None] - inches[None], axis=-1) + 9 * np.eye(len(points))
    assert gaps.min() > 17 / 72  # the largest marker's points
    assert (inches > 0.05).all()
    assert (inches < figure.get_size_inches() - 0.05).all()


def test_components_lie_apart():
    targets = drawn(40, 1, 2)
    labels = component_labels(targets)[0]
    (axes,) = graph_figure(targets).axes
    places = np.array([users(axes)[f"user-{i}"].get_xydata()[0] for i in range(40)])
    boxes = [
        (places[labels == part].min(axis=0), places[labels == part].max(axis=0))
        for part in range(labels.max() + 1)
    ]
    for i, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:i]:
            assert (high < other_low).any() or (other_high < low).any()


def test_repeated_edges_and_loops_do_not_hide_each_other():
    (axes,) = graph_figure([[1, 1, 0], [0, 0, 1]]).axes
    shapes = {tuple(patch.get_path().vertices.ravel().round(6)) for patch in axes.patches}
    assert len(axes.patches) == len(shapes) == 6
    (axes,) = graph_figure([[0, 0, 0]]).axes
    shapes = {tuple(patch.get_path().vertices.ravel().round(6)) for patch in axes.patches}
    assert len(shapes) == 3


def test_copies_stand_in_two_columns():
    (axes,) = graph_figure(drawn(10, 2, 0), clear_share=False).axes
    columns = {
        side: {line.get_xdata()[0] for name, line in users(axes).items() if f"-{side}-" in name}
        for side in ("left", "right")
    }
    assert len(columns["left"]) == len(columns["right"]) == 1
    assert max(columns["left"]) < min(columns["right"])
    assert any("left copy to a right copy" in text.get_text() for text in axes.texts)


@pytest.mark.slow
def test_the_legend_and_the_title_count():
    targets = drawn(12, 2, 2759)
    figure = graph_figure(targets)
    (axes,) = figure.axes
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert said == [
        "a component of 8 users", "a component of 3 users", "a user alone: nothing hides it",
    ]  # fmt: skip
    assert axes.get_title(loc="left").startswith("C = 3 components of 12 users")
    assert graph_figure(targets, title="Mine").axes[0].get_title(loc="left") == "Mine"


@pytest.mark.points(2)
@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize(
    "targets",
    [
        [[0]],
        [[0] * 50],
        np.arange(100)[:, None],
        np.arange(40)[:, None].repeat(2, axis=1),
        (np.arange(60) ^ 1)[:, None],
        np.roll(np.arange(100), 1)[:, None],
        [[1] * 20, [0] * 20],
    ],
)
@pytest.mark.slow
def test_extreme_graphs_are_drawn_without_a_warning(targets, clear):
    figure = graph_figure(targets, clear_share=clear)
    figure.draw_without_rendering()
    assert len(figure.axes[0].patches) == np.asarray(targets).size
    counts = count_components(targets, clear_share=clear).counts[0]
    assert re.match(rf"C = {counts} component", figure.axes[0].get_title(loc="left"))


def test_the_same_graph_gives_the_same_picture():
    one, other = (users(graph_figure(drawn(20, 3, 1)).axes[0]) for _ in range(2))
    assert all((one[name].get_xydata() == other[name].get_xydata()).all() for name in one)


@pytest.mark.parametrize(
    ("targets", "error"),
    [
        (np.arange(101)[:, None], "at most 100 users and 1000 edges"),
        (np.zeros((1, 1001), dtype=int), "at most 100 users and 1000 edges"),
        ([[0], [0]], "must name each user 1 times"),
        ([0, 1], "must have shape"),
    ],
)
def test_what_is_no_graph_or_too_large_is_refused(targets, error):
    with pytest.raises(ValueError, match=error):
        graph_figure(targets)


# The second moment


def lines(axes):
    return {line.get_gid(): dict(zip(*line.get_data(), strict=True)) for line in axes.get_lines()}


def test_the_curves_are_the_moments_their_bounds_and_their_leading_terms():
    users = [5, 19, 100, 200]
    curves = [excess_curve(users, m, 16) for m in (2, 3, 5)]
    found = lines(excess_figure(curves).axes[0])
    assert set(found) == {
        *(f"{kind}-{m}" for m in (2, 3, 5) for kind in ("exact", "leading")), "bound-3", "bound-5",
    }  # fmt: skip
    for m in (2, 3, 5):
        for n in users:
            exact = found[f"exact-{m}"][n]
            assert exact == pytest.approx(float(component_moment(n, m, 16).excess))
            assert found[f"leading-{m}"][n] == pytest.approx(15 * n ** (1 - m))
            assert exact > found[f"leading-{m}"][n] * (1 - n ** (1 - m))
    assert set(found["bound-3"]) == {19, 100, 200}  # it is stated from 19 users on
    assert found["bound-5"][100] == excess_bound(100, 5, 16)
    # a first-order term: what is left falls with n
    left = [found["exact-3"][n] / found["leading-3"][n] - 1 for n in users]
    assert left == sorted(left, reverse=True)
    assert 0 < left[-1] < 1e-3


@pytest.mark.parametrize("shuffler", ["parallel", "single"])
@pytest.mark.parametrize("clear", [True, False])
def test_the_leading_term_of_every_model(shuffler, clear):
    m = 3 if clear else 4
    curve = excess_curve([50, 500], m, 7, shuffler=shuffler, clear_share=clear)
    ratios = [exact / lead for exact, lead in zip(curve.exact, curve.leading, strict=True)]
    assert abs(ratios[1] - 1) < abs(ratios[0] - 1) < 0.02
    assert abs(ratios[1] - 1) < 1e-3
    assert (curve.bound == (None, None)) == (shuffler == "single" or not clear)


def test_the_bound_is_left_out_where_it_is_not_stated():
    curve = excess_curve([19, 200], 3, 2**10)
    assert curve.bound[0] is None  # the group is too large
    assert curve.bound[1] == excess_bound(200, 3, 2**10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "curves",
    [
        [excess_curve([1], 1, 2)],
        [excess_curve([1, 2], 3, 2)],
        [excess_curve([2, 50], 300, 2)],
        [excess_curve([2, 50], 3, 2**2000)],
        [excess_curve([10], m, 16) for m in range(1, 9)],
    ],
)
def test_extreme_moments_are_drawn_without_a_warning(curves):
    excess_figure(curves).draw_without_rendering()


def test_moments_that_do_not_go_together_are_refused():
    one = excess_curve([10], 3, 16)
    for other in (excess_curve([10], 3, 17), excess_curve([10], 3, 16, clear_share=False)):
        with pytest.raises(ValueError, match="curves must be for one group"):
            excess_figure([one, other])
    with pytest.raises(ValueError, match="at least one"):
        excess_figure([])
    with pytest.raises(ValueError, match="users must hold"):
        excess_curve([], 3, 16)
    with pytest.raises(ValueError, match="at most 2048"):
        excess_curve([2049], 3, 16)


def test_labels_and_legends():
    figure = excess_figure([excess_curve([10, 100], m, 16) for m in (3, 4)])
    (axes,) = figure.axes
    assert axes.get_xlabel() == "users n"
    assert "no unit" in axes.get_ylabel()
    assert axes.get_xscale() == axes.get_yscale() == "log"
    said = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert said[:3] == ["m = 3", "m = 4", "exact"]
    assert "n^{1-m}" in said[-1]
