"""``ikos compare-vectors``: what it prints is what the protocols say."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from ikos.baselines import comparison
from ikos.cli import compare_report
from ikos.vectors import Ball, Box, Categories, SparseTernary

BALL = ("--users", "1000", "--domain", "ball", "--dimension", "4", "--epsilon", "1",
        "--delta", "1e-6")  # fmt: skip
FEW = ("--protocol", "private-vector-sum", "--protocol", "one-coordinate")
KEYS = {
    "command", "version", "users", "min_honest", "epsilon", "delta", "domain", "dimension",
    "lower", "upper", "radius", "sparsity", "sizes", "data", "protocols", "plot", "warnings",
}  # fmt: skip


def flat(text):
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("options", "domain", "keys"),
    [
        (
            ("--domain", "box", "--dimension", "3", "--lower", "-2", "--upper", "5"),
            Box(3, -2, 5),
            {"lower": -2, "upper": 5},
        ),
        (("--domain", "box", "--dimension", "3"), Box(3), {"lower": 0, "upper": 1}),
        (("--domain", "ball", "--dimension", "4", "--radius", "2.5"), Ball(4, 2.5),
         {"radius": 2.5}),
        (("--domain", "ternary", "--dimension", "9", "--sparsity", "2"), SparseTernary(9, 2),
         {"sparsity": 2}),
        (("--domain", "categories", "--sizes", "2, 3"), Categories([2, 3]), {"sizes": [2, 3]}),
    ],
)  # fmt: skip
def test_numbers_are_the_librarys(run, options, domain, keys):
    few = [] if isinstance(domain, SparseTernary) else ["private-vector-sum", "central-gaussian"]
    only = [word for key in few for word in ("--protocol", key)]
    budget = ("--users", "400", "--epsilon", "2", "--delta", "1e-5")
    found = run("compare-vectors", *budget, *options, *only, "--json").json
    rows = comparison(400, 2, 1e-5, domain=domain, protocols=few or None)
    assert set(found) == KEYS
    documented = set(re.findall(r"``(\w+)``", compare_report.__doc__ or ""))
    assert documented >= KEYS
    own = {name: found[name] for name in ("lower", "upper", "radius", "sparsity", "sizes")}
    assert own == dict.fromkeys(own) | keys
    assert (found["domain"], found["dimension"]) == (options[1], domain.dimension)
    assert [row["key"] for row in found["protocols"]] == [row.key for row in rows]
    for printed, row in zip(found["protocols"], rows, strict=True):
        assert printed["possible"] == (row.protocol is not None)
        assert printed["messages_per_user"] == row.messages
        assert printed["mse"] == row.mse
        if row.protocol is not None:
            assert printed["mean_error"] == row.rmse / 400
            assert printed["unlimited"] == math.isinf(row.influence)
            assert printed["guarantee"]["epsilon"] == row.guarantee.epsilon


def test_delta_and_honest_users(run):
    found = run("compare-vectors", *BALL[:8], *FEW, "--min-honest", "60%", "--json").json
    assert (found["delta"], found["min_honest"]) == (1e-6, 600)
    rows = comparison(
        1000,
        1,
        1e-6,
        domain=Ball(4),
        min_honest=600,
        protocols=["private-vector-sum", "one-coordinate"],
    )
    assert [row["mse"] for row in found["protocols"]] == [row.mse for row in rows]


def test_text(run):
    text = run("compare-vectors", *BALL, "--protocol", "single-message-grid", *FEW).out
    assert max(map(len, text.splitlines())) <= 80
    assert flat(text).startswith(
        "Protocols for the sum of 1,000 vectors of 4 coordinates and norm at most 1 with "
        "(1, 1e-06)-differential privacy"
    )
    assert "mean squared Euclidean distance" in flat(text)
    assert "a for a ball, in the box around it." in flat(text)
    for row in comparison(1000, 1, 1e-6, domain=Ball(4)):
        if row.key in FEW:
            (line,) = re.findall(rf"^[ a-h] {row.key} .*$", text, re.MULTILINE)
            mse, mean = (float(word.replace(",", "")) for word in line[2:].split()[3:5])
            assert row.mse <= mse <= 1.1 * row.mse
            assert row.rmse / 1000 <= mean <= 1.1 * row.rmse / 1000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--domain", "ternary", "--dimension", "9", "--sparsity", "1"),
         "vectors of 9 coordinates with at most 1 entry of -1 or 1 with"),
        (("--domain", "categories", "--sizes", "4"),
         "vectors of answers to 1 question of 4 categories in all with"),
        (("--domain", "categories", "--sizes", "1"),
         "vectors of answers to 1 question of 1 category in all with"),
        (("--domain", "ball", "--dimension", "1"), "vectors of 1 coordinate and norm at most 1 "),
        (("--domain", "box", "--dimension", "1000", "--lower", "-1"),
         "vectors of 1,000 coordinates in [-1, 1] with"),
    ],
)  # fmt: skip
def test_words_of_domains(run, options, words):
    budget = ("--users", "100", "--epsilon", "1", "--protocol", "central-gaussian")
    assert words in flat(run("compare-vectors", *budget, *options).out)


def test_what_is_not_possible(run, refused):
    budget = ("--users", "100", "--domain", "ball", "--dimension", "4", "--epsilon", "1")
    text = run("compare-vectors", *budget, "--protocol", "collision", *FEW).out
    assert "Not possible here\n  collision: needs --domain ternary, got ball\n" in text
    rows = run("compare-vectors", *budget, "--protocol", "collision", *FEW, "--json").json
    assert "needs --domain ternary, got ball" in [row["reason"] for row in rows["protocols"]]
    said = refused("compare-vectors", *budget, "--protocol", "collision")
    assert said == "--protocol collision needs --domain ternary, got ball"
    categories = (*budget[:2], "--domain", "categories", "--sizes", "2,3", *budget[6:])
    both = ("--protocol", "collision", "--protocol", "one-coordinate")
    assert refused("compare-vectors", *categories, *both) == (
        "--protocol one-coordinate needs --domain box or ball, got categories; "
        "--protocol collision needs --domain ternary, got categories"
    )


def test_weak_budgets(run):
    options = (*BALL[:6], "--epsilon", "11", "--delta", "0.5", "--protocol", "central-gaussian")
    warnings = ["protects next to nobody", "it would allow"][::-1]
    run("compare-vectors", *options, warning=warnings)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--domain", "box"), "--domain box needs --dimension"),
        (("--domain", "ball", "--sizes", "2"), "--sizes is not for --domain ball"),
        (("--domain", "ternary", "--dimension", "3"), "--domain ternary needs --sparsity"),
        (("--domain", "categories"), "--domain categories needs --sizes"),
        (("--domain", "categories", "--sizes", "2", "--dimension", "2"),
         "--dimension is not for --domain categories"),
        (("--domain", "box", "--dimension", "3", "--radius", "2"),
         "--radius is not for --domain box"),
        (("--domain", "ball", "--dimension", "3", "--upper", "2"),
         "--upper is not for --domain ball"),
        (("--domain", "ternary", "--dimension", "2", "--sparsity", "3"),
         "--sparsity must be at most 2, got 3"),
        (("--domain", "ball", "--dimension", "3", "--radius", "-1"),
         "--radius must be greater than 0, got -1"),
        (("--domain", "ball", "--dimension", "3", "--radius", "0"),
         "--radius must be greater than 0, got 0"),
        (("--domain", "box", "--dimension", "3", "--upper", "0"),
         "--upper must be greater than --lower, got 0 and 0"),
        (("--domain", "ball", "--dimension", "10^9"),
         "--dimension must be at most 1048576, got 1000000000"),
        (("--domain", "box", "--dimension", "2", "--lower", "3"),
         "--upper must be greater than --lower, got 1 and 3"),
        (("--domain", "categories", "--sizes", "2,a"), "--sizes must be numbers such as 2,5,12"),
        (("--domain", "categories", "--sizes", ""), "--sizes must be numbers such as 2,5,12"),
        (("--domain", "categories", "--sizes", "2,0"), "--sizes must be at least 1, got 0"),
        (("--domain", "categories", "--sizes", "9" * 5000), "--sizes must be at most 1048576"),
        (("--domain", "ball", "--dimension", "3", "--min-honest", "101"),
         "--min-honest must be at most --users = 100, got 101"),
        (("--domain", "ball", "--dimension", "3", "--protocol", "best"), "'best' is not one of "),
    ],
)  # fmt: skip
def test_refused(refused, options, said):
    assert said in refused("compare-vectors", "--users", "100", "--epsilon", "1", *options)


def test_one_user_has_no_default_delta(refused):
    options = ("--users", "1", "--domain", "ball", "--dimension", "3", "--epsilon", "1")
    assert "give --delta" in refused("compare-vectors", *options)


def test_plot(run, refused, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "vectors.png"
    found = run("compare-vectors", *BALL, *FEW, "--plot", path, "--json").json
    assert found["plot"] == str(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "cannot be written" in refused(
        "compare-vectors", *BALL, *FEW, "--plot", tmp_path / "no" / "vectors.png"
    )


@pytest.mark.slow
def test_long_titles_fit(tmp_path):
    """In two lines, above the axes, of the widest words that there are."""
    pytest.importorskip("matplotlib")
    from ikos.plots.protocols import protocols_figure

    rows = comparison(100, 1, 1e-6, domain=Ball(3), protocols=["private-vector-sum"])
    figure = protocols_figure(
        rows, "Words of some length " * 4 + "with (1, 1e-08)-differential privacy"
    )
    renderer = figure.canvas.get_renderer()
    (drawn,) = (text for text in figure.texts if text.get_text().startswith("Words"))
    box = drawn.get_window_extent(renderer)
    assert drawn.get_text().count("\n") == 1
    assert "(1,\N{NO-BREAK SPACE}1e-08)-differential" in drawn.get_text()
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= max(axes.get_window_extent(renderer).y1 for axes in figure.axes)
    assert np.isfinite(box.y0)
