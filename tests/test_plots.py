"""Plots: curves hold the library's numbers, figures the curves, files all or nothing."""

from __future__ import annotations

import itertools
import math
import os
import sys
from fractions import Fraction

import pytest

from ikos import PrivateSum, message_count
from ikos.counts import necessary_messages, necessary_private_messages
from ikos.counts.floor import counting_floor
from ikos.plots import (
    BOTH_WAYS,
    attack_estimate,
    grid,
    private_curves,
    save,
    secure_curves,
    written_whole,
)

USERS = (2, 10, 19, 300, 10**4, 10**6)
SETTINGS = [(shuffler, clear) for shuffler in ("parallel", "single") for clear in (True, False)]


def names(curves):
    return [(curve.name, curve.shuffler, curve.clear_share) for curve in curves]


def test_secure_curves_are_the_librarys_numbers():
    curves = secure_curves(USERS, 2**32, 40)
    assert names(curves) == [
        ("necessary", "parallel", True),
        ("floor", "single", False),
        ("second_moment", "parallel", True),
        ("second_moment", "single", False),
        ("balle2020", "parallel", True),
        ("ghazi2020", "single", False),
        ("ishai2006", "single", False),
    ]
    for curve in curves:
        for n, total in curve.points:
            if curve.name == "floor":
                assert total == counting_floor(n, 2**32, 40, shuffler="single")
            elif curve.name == "necessary":
                way = {"shuffler": curve.shuffler, "clear_share": curve.clear_share}
                assert total == necessary_messages(n, 2**32, 40, **way) + curve.clear_share
            else:
                setting = {"shuffler": curve.shuffler, "clear_share": curve.clear_share}
                count = message_count(n, 2**32, 40, analysis=curve.name, **setting)
                assert total == count.total
    missing = {curve.name: set(USERS) - {n for n, _ in curve.points} for curve in curves}
    assert missing == {
        "necessary": set(), "floor": set(), "second_moment": set(), "ishai2006": set(),
        "ghazi2020": {2}, "balle2020": {2, 10},
    }  # fmt: skip


def test_the_attack_is_drawn_where_no_theorem_speaks():
    """Without a clear share the lower bound needs a common factor of n and q."""
    curves = secure_curves((100, 101), 2**32, 40, settings=[("parallel", False)])
    (attack,) = (curve for curve in curves if curve.name == "attack")
    assert attack.points == ((101, attack_estimate(101, 2**32, 40)),)


@pytest.mark.slow
def test_private_curves_are_what_the_private_sum_chooses():
    curves = private_curves((10, 300, 10**6), 1, 1e-8)
    assert {curve.name for curve in curves} == {
        "necessary",
        "direct_comparison",
        "higher_moments",
        "second_moment",
        "balle2020",
        "ghazi2020",
        "ishai2006",
    }
    lowest, *curves = curves
    for n, total in lowest.points:
        protocol = PrivateSum(n, 1, 1e-8)
        asked = (n, protocol.modulus, 1, 1e-8, protocol.precision)
        assert total == 1 + necessary_private_messages(*asked) <= protocol.messages.total
    for curve in curves:
        for n, total in curve.points:
            protocol = PrivateSum(
                n,
                1,
                1e-8,
                analysis=curve.name,
                shuffler=curve.shuffler,
                clear_share=curve.clear_share,
            )
            assert total == protocol.messages.total


@pytest.mark.slow
def test_private_curves_with_given_parameters():
    given = {"precision": 100, "reserve": Fraction(1, 5), "analyses": ["second_moment"]}
    users = (50, 200, 400)
    _, first, *_ = private_curves(
        users, 1, 1e-8, modulus=30_000, honest=Fraction(1, 2), settings=BOTH_WAYS[:1], **given
    )
    assert [n for n, _ in first.points] == [50, 200]  # 400 * 100 is above the modulus
    for n, total in first.points:
        protocol = PrivateSum(
            n,
            1,
            1e-8,
            precision=100,
            modulus=30_000,
            min_honest=n // 2,
            reserve=Fraction(1, 5),
            analysis="second_moment",
        )
        assert total == protocol.messages.total


def test_fewer_honest_users():
    (curve,) = (
        curve
        for curve in secure_curves([101], 2**32, 40, honest=Fraction(1, 10))
        if (curve.name, curve.shuffler) == ("second_moment", "single")
    )
    count = message_count(101, 2**32, 40, min_honest=11, shuffler="single", clear_share=False)
    assert curve.points == ((101, count.total),)


@pytest.mark.slow
def test_colluding_shufflers():
    """Each costs one message, of the lower bound too; a single one must not collude."""
    for curves in (
        lambda **more: secure_curves([100], 2**32, 40, settings=[("parallel", True)], **more),
        lambda **more: private_curves([100], 1, 1e-6, settings=[("parallel", True)], **more),
    ):
        assert [curve.at(100) for curve in curves(corrupt=3)] == [
            curve.at(100) + 3 for curve in curves()
        ]
    for compute in (secure_curves, private_curves):
        with pytest.raises(ValueError, match="corrupt_shufflers must be 0 with a single"):
            compute([100], 2, 1e-6, corrupt=1)


def test_settings_and_analyses_asked_for():
    curves = secure_curves([100], 2**32, 40, analyses=["second_moment"], settings=SETTINGS)
    assert names(curves) == [
        *(("necessary", *setting) for setting in SETTINGS[:3]),
        ("floor", "single", False),
        *(("second_moment", *setting) for setting in SETTINGS),
    ]
    single = secure_curves([100], 2**32, 40, settings=[("single", True)])
    assert names(single) == [
        ("necessary", "single", True),
        ("second_moment", "single", True),
        ("balle2020", "single", True),
    ]


def test_a_mistake_is_no_gap():
    with pytest.raises(ValueError, match="sigma"):
        secure_curves([10], 2, -1)
    with pytest.raises(ValueError, match="delta"):
        private_curves([10], 1, 2)


def test_progress_reaches_the_end():
    said = []
    secure_curves([10, 100], 2, 40, progress=lambda *step: said.append(step))
    done, whole = said[-1]
    assert done == whole == 16
    assert [step for step, _ in said] == sorted(step for step, _ in said)


def test_grid():
    users = grid(10, 10**6, 30, also=[12345])
    assert (users[0], users[-1]) == (10, 10**6)
    assert 12345 in users
    assert list(users) == sorted(set(users))
    ratios = [b / a for a, b in itertools.pairwise(users) if a > 1000]
    assert max(ratios) < 10 ** (1.1 / 30)
    assert grid(5, 5, 30) == (5,)
    assert grid(2, 2**53, 1)[-1] == 2**53


@pytest.mark.parametrize("n", [2, 3, 10, 1000, 10**9])
@pytest.mark.parametrize(("q", "sigma"), [(2**8, 20), (2**64, 80), (2**1000, 300)])
def test_the_attack_is_where_it_says_and_below_the_proof(n, q, sigma):
    m = attack_estimate(n, q, sigma)

    def log_advantage(m):
        return (math.log2(q) + math.log2(2 / math.pi) - math.log2(n**m + 2**m)) / 2

    assert log_advantage(m) <= -sigma < log_advantage(m - 1)
    assert m <= message_count(n, q, sigma).shuffled


# Figures


@pytest.fixture
def figures():
    pytest.importorskip("matplotlib")
    from ikos.plots import figures

    return figures


def drawn(figure):
    """Return the points of every named line, by the name that the curve gave it."""
    lines = [line for axes in figure.axes for line in axes.get_lines() if line.get_gid()]
    return {
        line.get_gid(): [(round(x), round(y)) for x, y in zip(*line.get_data(), strict=True)]
        for line in lines
        if line.get_gid() != "mark"
    }


@pytest.mark.parametrize("q", [2**32, 2**200])
@pytest.mark.parametrize("users", [(2, 30, 500), (10**3, 10**5, 10**6)])
def test_a_figure_holds_its_curves(figures, q, users):
    curves = secure_curves(users, q, 40)
    figure = figures.messages_figure(curves, "Title", mark=users[1])
    assert drawn(figure) == {
        f"{c.name}-{c.shuffler}-{'clear' if c.clear_share else 'shuffled'}": list(c.points)
        for c in curves
    }
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(texts) == len(curves)
    for curve in curves:
        total = curve.at(users[1])
        known = f"{total:,}   " if total else ""
        label = figures.label(curve).partition(", ")[0]
        assert sum(text.startswith(f"{known}{label}") for text in texts) >= 1
    for axes in figure.axes:
        assert axes.get_xscale() == "log"
        low, high = axes.get_ylim()
        for line in axes.get_lines():
            if line.get_gid() not in (None, "mark"):
                assert all(low <= y <= high for y in line.get_ydata())
        (mark,) = (line for line in axes.get_lines() if line.get_gid() == "mark")
        assert set(mark.get_xdata()) == {users[1]}


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (6, 30, [10, 20, 30]),
        (5, 60, [5, 10, 20, 50]),
        (8, 2000, [10, 20, 50, 100, 200, 500, 1000, 2000]),
        (7, 10**5, [10, 100, 1000, 10**4, 10**5]),
    ],
)
def test_axes_of_messages_have_numbers_enough(figures, low, high, shown):
    axes = figures.Figure().subplots()
    figures.log_messages(axes, low, high)
    assert [tick for tick in axes.get_yticks() if tick] == shown


def test_steps_err_on_the_safe_side(figures):
    curves = secure_curves((100, 10**6), 2**64, 80)
    for axes in figures.messages_figure(curves, "").axes:
        for line in axes.get_lines():
            if name := line.get_gid():
                first, last = line.get_ydata()
                between = last if line.get_drawstyle() == "steps-pre" else first
                safe = min if name.startswith(("necessary", "floor")) else max
                assert between == safe(first, last), name


@pytest.mark.points(1)
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
@pytest.mark.slow
def test_the_same_figure_makes_the_same_bytes(figures, tmp_path, suffix):
    curves = secure_curves((10, 1000), 2**32, 40)
    for name in "ab":
        save(figures.messages_figure(curves, "T"), tmp_path / (name + suffix))
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


# Files


def test_unknown_suffix(figures, tmp_path):
    figure = figures.messages_figure(secure_curves((1000,), 2, 40), "")
    with pytest.raises(ValueError, match=r"path must end in \.png"):
        save(figure, tmp_path / "x.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x", "x" * 251 + ".png"], ids=["short", "longest"])
def test_a_file_takes_its_name_when_it_is_whole(tmp_path, name):
    path = tmp_path / name
    with written_whole(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_unfinished_file_is_none(tmp_path, error):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def interrupted():
        with written_whole(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="devices, pipes and links of POSIX")
def test_only_regular_files_are_written(tmp_path):
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    before = set(tmp_path.iterdir())
    for name in (".", "device", "pipe", "loop", "missing/x", "y" * 300, "/proc/x.png"):
        with pytest.raises(OSError) as refused, written_whole(tmp_path / name):
            pass
        assert refused.value.filename == str(tmp_path / name)  # no temporary file's
    assert set(tmp_path.iterdir()) == before


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_links_to_links_are_followed_and_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b").symlink_to("../c")
    (tmp_path / "a").symlink_to("folder/b")
    with written_whole(tmp_path / "a") as file:
        file.write(b"new")
    assert (tmp_path / "c").read_bytes() == b"new"
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "folder" / "b").is_symlink()
