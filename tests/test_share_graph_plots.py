"""What the pictures of share graphs show is what the graphs are."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from ikos.graphs import (
    component_labels,
    component_moment,
    excess_bound,
    multigraph,
    sample_targets,
)
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")

from analysis.plots.second_moments import excess_curve, excess_figure
from ikos.plots.share_graph import graph_figure

GRAPHS = [(12, 2, 2759, True), (40, 1, 2, True), (10, 2, 0, False), (5, 4, 1, False)]


def drawn(n, m, seed):
    return sample_targets(n, m, rng=DeterministicRandom(seed))[0]


@pytest.mark.points(2)
@pytest.mark.parametrize(("n", "m", "seed", "clear"), GRAPHS)
def test_every_edge_is_drawn_and_every_component_told_apart(n, m, seed, clear):
    targets = drawn(n, m, seed)
    (axes,) = graph_figure(multigraph(targets, clear_share=clear)).axes
    assert len(axes.patches) == n * m
    labels = component_labels(targets, clear_share=clear)[0]
    sizes = sorted(np.bincount(labels).tolist(), reverse=True)
    parts = axes.collections
    assert [len(part.get_offsets()) for part in parts] == [s * (2 - clear) for s in sizes]
    places = np.concatenate([part.get_offsets() for part in parts])
    assert len(np.unique(places, axis=0)) == n * (2 - clear)
    white = [tuple(part.get_facecolor()[0]) == (1, 1, 1, 1) for part in parts]
    assert white == [size == 1 for size in sizes]
    looks = [(*part.get_facecolor()[0], len(part.get_paths()[0].vertices)) for part in parts]
    larger = [look for look, size in zip(looks, sizes, strict=True) if size > 1]
    assert len(set(larger)) == len(larger)
    assert axes.get_title(loc="left").startswith(f"C = {len(sizes)} component")


def test_repeated_edges_do_not_hide_each_other():
    (axes,) = graph_figure(multigraph([[1, 1, 0], [0, 0, 1]])).axes
    shapes = {tuple(patch.get_path().vertices.ravel().round(6)) for patch in axes.patches}
    assert len(shapes) == 6


def test_loops_are_outside_the_circle_and_do_not_hide_each_other():
    (axes,) = graph_figure(multigraph([[0, 0, 1], [2, 1, 0], [1, 2, 2]])).axes
    paths = [patch.get_path().vertices for patch in axes.patches]
    loops = [path for path in paths if len(path) == 4 and (path[0] == path[3]).all()]
    assert len({tuple(path.ravel().round(6)) for path in loops}) == len(loops) == 5
    assert all((path[1:3] @ path[0] > 1).all() for path in loops)
    (axes,) = graph_figure(multigraph(np.zeros((1, 3), dtype=int))).axes
    assert len({tuple(patch.get_path().vertices.ravel()) for patch in axes.patches}) == 3


@pytest.mark.parametrize(
    ("graph", "error"),
    [
        (multigraph(np.arange(101)[:, None]), "at most 100 users and 1000 edges"),
        (multigraph(np.zeros((1, 1001), dtype=int)), "at most 100 users and 1000 edges"),
        (nx.MultiGraph(nx.path_graph(3)), "must be a share graph"),
        (nx.MultiGraph(), "must be a share graph"),
    ],
)
def test_what_is_no_share_graph_or_too_large_is_refused(graph, error):
    with pytest.raises(ValueError, match=error):
        graph_figure(graph)


@pytest.mark.parametrize("graph", [nx.cycle_graph(3), nx.MultiDiGraph([(0, 0)]), [[1, 0], [0, 1]]])
def test_what_is_no_multigraph_is_refused(graph):
    with pytest.raises(TypeError, match="graph must be a networkx"):
        graph_figure(graph)


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


@pytest.mark.points(1)
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
