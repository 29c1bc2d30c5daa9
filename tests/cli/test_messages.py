"""``ikos messages``: every analysis side by side, with the library's numbers."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from command_lines import once

from ikos import PrivateSum, SecureSum, message_count
from ikos.cli import counting, messages_report
from ikos.counts import ANALYSES, least
from ikos.counts.floor import counting_floor

SECURE = ("--users", "10^6", "--modulus", "2^64", "--sigma", "80")
PRIVATE = ("--users", "1e6", "--epsilon", "1", "--delta", "1e-12")
SETTINGS = [(shuffler, clear) for shuffler in ("parallel", "single") for clear in (True, False)]

TOP = {
    "command", "version", "users", "min_honest", "corrupt_shufflers", "modulus", "sigma", "epsilon",
    "delta", "reserve", "precision", "lower", "upper", "integers", "bits_per_message", "rows",
    "floor", "plot", "warnings",
}  # fmt: skip
ROW = {
    "analysis", "assumes", "shuffler", "clear_share", "covered", "proved", "best", "shuffled",
    "clear", "total", "sigma", "unlimited", "delta", "noise_epsilon", "standard_error",
    "bits_per_user", "theorem", "reason",
}  # fmt: skip
FLOOR = {"shuffler", "clear_share", "shuffled", "clear", "total"}


def setting(row):
    return {key: row[key] for key in ("analysis", "shuffler", "clear_share")}


@pytest.mark.parametrize("options", [SECURE, PRIVATE])
def test_json_has_every_documented_key(run, options):
    result = run("messages", *options, "--json").json
    assert set(result) == TOP
    assert all(set(row) == ROW for row in result["rows"])
    assert all(set(row) == FLOOR for row in result["floor"] or [])
    assert set(re.findall(r"``(\w+)``", messages_report.__doc__ or "")) >= TOP | ROW | FLOOR


def test_every_analysis_in_every_setting_the_exact_one_first(run):
    rows = run("messages", *SECURE, "--json").json["rows"]
    found = [(row["analysis"], row["shuffler"], row["clear_share"]) for row in rows]
    assert sorted(found) == sorted((name, *each) for name in ANALYSES for each in SETTINGS)
    assert list(dict.fromkeys(name for name, *_ in found)) == list(ANALYSES)
    assert ANALYSES[0] == "second_moment"
    assert set(counting.ASSUMES) == set(ANALYSES)


def test_values_of_other_bounds_and_integers(run, refused):
    """Errors are in their units, and of integers nothing is rounded."""
    bounds = {"lower": -2, "upper": 5}
    options = ("--users", "300", "--epsilon", "1", "--delta", "1e-6", "--lower", "-2", "--upper",
               "5", "--analysis", "second_moment", "--json")  # fmt: skip
    for whole in (False, True):
        protocol = PrivateSum(300, 1, Fraction("1e-6"), **bounds, integers=whole)
        found = run("messages", *options, *["--integers"] * whole).json
        assert (found["lower"], found["upper"], found["integers"]) == (-2, 5, whole)
        assert (found["precision"], found["modulus"]) == (protocol.precision, str(protocol.modulus))
        (row,) = (row for row in found["rows"] if row["shuffler"] == "parallel" and row["clear"])
        assert row["total"] == protocol.messages.total
        assert row["standard_error"] == math.sqrt(protocol.mse)
    text = " ".join(run("messages", *options[:-1], "--integers").out.split())
    assert "Integers in [-2, 5] are taken as they are and added modulo" in text
    assert "scale with the width" not in text
    for name, value in (("--lower", ["-1"]), ("--upper", ["3"]), ("--integers", [])):
        said = refused("messages", *SECURE, name, *value)
        assert said == f"{name} is for a private sum, --sigma for a secure one"
    assert "--upper must be greater than --lower" in refused("messages", *PRIVATE, "--lower", "1")
    said = refused("messages", *PRIVATE, "--integers", "--upper", "1.5")
    assert "--upper must be an integer" in said


@pytest.mark.parametrize(
    ("options", "protocol"),
    [(SECURE, SecureSum(10**6, 2**64)), (PRIVATE, PrivateSum(10**6, 1, Fraction("1e-12")))],
)
def test_what_is_used_by_default_is_said(run, options, protocol):
    text = " ".join(run("messages", *options).out.split())
    assert f"share: {protocol.messages.shuffled} + 1 messages here." in text
    assert "Unless told otherwise" in text
    assert "Unless told" not in run("messages", *options, "--shuffler", "single").out


def test_numbers_are_the_librarys_secure_sum(run):
    result = run("messages", *SECURE, "--json").json
    assert result["modulus"] == str(2**64)
    assert (result["sigma"], result["epsilon"], result["precision"]) == (80, None, None)
    assert result["min_honest"] == result["users"] == 10**6
    assert result["reserve"] is result["delta"] is result["plot"] is None
    for row in result["rows"]:
        if not row["covered"]:
            assert row["reason"]
            assert not any(row[name] for name in ("best", "proved", "unlimited"))
            with pytest.raises(ValueError):
                message_count(10**6, 2**64, 80, **setting(row))
            continue
        count = message_count(10**6, 2**64, 80, **setting(row))
        assert (row["shuffled"], row["clear"], row["total"]) == (
            count.shuffled,
            count.clear,
            count.total,
        )
        assert row["sigma"] == count.sigma >= 80
        assert row["theorem"] == count.theorem
        assert row["bits_per_user"] == 64 * count.total
        assert row["delta"] is row["noise_epsilon"] is row["standard_error"] is None
        assert row["reason"] is None


def test_the_floor_is_the_librarys(run):
    result = run("messages", "--users", "1000", *SECURE[2:], "--json").json
    assert [(row["shuffler"], row["clear_share"]) for row in result["floor"]] == SETTINGS
    for row in result["floor"]:
        assert row["shuffled"] == counting_floor(1000, 2**64, 80, shuffler=row["shuffler"])
        assert row["total"] == row["shuffled"] + row["clear"]
        assert row["clear"] == row["clear_share"]
    floors = {(row["shuffler"], row["clear_share"]): row["total"] for row in result["floor"]}
    for row in result["rows"]:
        assert not row["covered"] or row["total"] >= floors[row["shuffler"], row["clear_share"]]
    text = " ".join(run("messages", "--users", "1000", *SECURE[2:]).out.split())
    floor = "No analysis can get below 8 with parallel shufflers or 7 with a single shuffler"
    assert floor in text
    one = run("messages", "--users", "1000", *SECURE[2:], "--shuffler", "single").out
    assert "No analysis can get below 7 shuffled messages, a clear share" in " ".join(one.split())


@pytest.mark.parametrize("extra", [(), ("--reserve", "0.2"), ("--min-honest", "10^5")])
def test_numbers_are_the_librarys_private_sum(run, extra):
    result = run("messages", *PRIVATE, *extra, "--json").json
    given = {"reserve": Fraction(1, 5)} if "--reserve" in extra else {}
    given |= {"min_honest": 10**5} if "--min-honest" in extra else {}
    protocol = PrivateSum(10**6, 1, Fraction("1e-12"), **given)
    modulus = protocol.modulus  # of all rows, also where a prime would be chosen
    assert int(result["modulus"]) == modulus
    assert result["precision"] == protocol.precision
    assert result["reserve"] == float(given.get("reserve", 0.01))
    assert result["min_honest"] == protocol.min_honest
    assert result["floor"] is None
    for row in (row for row in result["rows"] if row["covered"]):
        chosen = {"modulus": modulus, **setting(row), **given}
        protocol = PrivateSum(10**6, 1, Fraction("1e-12"), **chosen)
        count = protocol.messages
        assert row["total"] == count.total
        assert row["delta"] == count.delta <= 1e-12
        assert row["noise_epsilon"] == count.noise_epsilon <= 1
        assert row["standard_error"] ** 2 == pytest.approx(protocol.mse)


def test_a_reserve_can_save_messages_and_costs_noise(run):
    options = ("--users", "100", "--epsilon", "1", "--delta", "1e-4", "--analysis", "second_moment")
    few, many = (
        run("messages", *options, "--reserve", reserve, "--json").json["rows"]
        for reserve in ("0", "0.2")
    )
    assert all(row["noise_epsilon"] == 1 for row in few)
    assert all(a["total"] >= b["total"] for a, b in zip(few, many, strict=True))
    assert sum(row["total"] for row in few) > sum(row["total"] for row in many)


def test_fewer_honest_users(run):
    rows = run("messages", *SECURE, "--min-honest", "10^4", "--json").json["rows"]
    for row in (row for row in rows if row["covered"]):
        count = least((10**4, 10**6), 2**64, 80, **setting(row))
        assert (row["total"], row["sigma"]) == (count.total, count.sigma)
    text = " ".join(run("messages", *SECURE, "--min-honest", "10^4").out.split())
    assert "1,000,000 users, at least 10,000 of them honest, for a secure sum" in text
    assert "the numbers hold as long as at least 10,000 do not" in text


def test_best(run):
    rows = run("messages", *SECURE, "--json").json["rows"]
    fewest = min(row["total"] for row in rows if row["covered"])
    assert [row["best"] for row in rows] == [row["total"] == fewest for row in rows]
    for name in ANALYSES:
        totals = [row["total"] for row in rows if row["covered"] and row["analysis"] == name]
        assert totals == sorted(totals)


@pytest.mark.parametrize(
    "options",
    [
        SECURE,
        PRIVATE,
        (*SECURE, "--min-honest", "20"),
        (*PRIVATE, "--min-honest", "20"),
        ("--users", "1", *SECURE[2:]),
        ("--users", "3", *PRIVATE[2:]),
    ],
)
def test_words(run, options):
    text = run("messages", *options).out
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in ANALYSES)
    assert "published" not in text
    table = [line for line in text.splitlines() if re.search(r"[0-9] \+ [01] ", line)]
    starred = [line for line in table if line.startswith("* ")]
    assert 0 < len(starred) < len(table)
    assert "the exact second moment of the share graph: no" in text
    assert "What it means" in text
    assert ("The floor" in text) == ("--sigma" in options and options[1] != "1")
    assert ("noise eps" in text) == ("--epsilon" in options)


def test_why_the_default_is_not_starred(run):
    said = " ".join(run("messages", *PRIVATE).out.split())
    assert "5 + 1 messages here." in said
    assert "for the first starred row give --no-clear-share." in said
    assert "starred row give" not in run("messages", *PRIVATE, "--clear-share").out


def test_most_shufflers_colluding_is_warned_of(run):
    run("messages", *PRIVATE, "--corrupt-shufflers", "5")
    many = ("--corrupt-shufflers", "10^6")
    run("messages", *PRIVATE, *many, warning="corrupt_shufflers = 1,000,000: that is most of")


def test_who_proved_it(run):
    text = " ".join(run("messages", *SECURE).out.split())
    assert "at least 19 users, 3 shuffled messages and sigma 1" in text
    assert "proved for a prime modulus; at least 3 users, a single shuffler" in text
    assert "Not covered" not in text
    assert "balle2020, parallel and single: needs at least 19 honest users" in " ".join(
        run("messages", "--users", "18", *SECURE[2:]).out.split()
    )


COMPOSITE = "! not proved for a composite modulus; for comparison"
GHAZI = ("--analysis", "ghazi2020", "--shuffler", "single", "--no-clear-share")


class TestCompositeModulus:
    """The proof of ghazi2020 is for prime moduli."""

    def test_marked(self, run):
        text = run("messages", *SECURE).out
        assert re.search(r"^! ghazi2020 ", text, re.MULTILINE)
        assert text.count("\n!") == 1
        assert COMPOSITE in text
        assert "Each row without a ! is enough" in " ".join(text.split())
        rows = run("messages", *SECURE, "--json").json["rows"]
        for row in (row for row in rows if row["covered"]):
            assert row["proved"] is (row["analysis"] != "ghazi2020")

    @pytest.mark.parametrize("modulus", ["2^61-1", "2", "1000003"])
    def test_prime(self, run, modulus):
        options = ("--users", "1e6", "--modulus", modulus, "--sigma", "80")
        text = run("messages", *options).out
        assert "!" not in text
        assert "Each row is enough" in " ".join(text.split())
        rows = run("messages", *options, "--json").json["rows"]
        assert all(row["proved"] == row["covered"] for row in rows)

    @pytest.mark.parametrize("options", [(*SECURE, *GHAZI), (*PRIVATE, *GHAZI)])
    def test_alone_it_is_printed_and_never_the_best(self, run, options):
        text = run("messages", *options).out
        assert COMPOSITE in text
        assert "fewest messages" not in text
        assert "But no row is proved." in " ".join(text.split())
        (row,) = run("messages", *options, "--json").json["rows"]
        assert (row["covered"], row["proved"], row["best"]) == (True, False, False)

    def test_fewer_than_the_proved_rows_it_is_not_the_best(self, run, monkeypatch):
        real = messages_report.best
        seen = []
        monkeypatch.setattr(messages_report, "best", lambda rows: seen.append(rows) or real(rows))
        run("messages", *SECURE, "--json")
        (rows,) = seen
        ghazi = next(row for row in rows if row.analysis == "ghazi2020" and row.count)
        few = dataclasses.replace(ghazi, count=dataclasses.replace(ghazi.count, shuffled=1))
        others = [row for row in rows if row.analysis != "ghazi2020"]
        assert real([few, *others]) == real(others)
        assert real([few]) is None

    def test_too_long_to_be_tested(self, run):
        long = ("--users", "1000", "--modulus", "3^20000", "--sigma", "40", *GHAZI)
        text = run("messages", *long).out
        assert "! proved for a prime modulus only" in text
        assert max(map(len, text.splitlines())) <= 80


class TestCorruptShufflers:
    @pytest.mark.parametrize("options", [SECURE, PRIVATE])
    def test_as_many_more_messages(self, run, options):
        less = run("messages", *options, "--json").json
        more = run("messages", *options, "--corrupt-shufflers", "3", "--json").json
        assert (less["corrupt_shufflers"], more["corrupt_shufflers"]) == (0, 3)
        before = {tuple(setting(row).values()): row for row in less["rows"]}
        for row in more["rows"]:
            other = before[tuple(setting(row).values())]
            if row["shuffler"] == "single":
                assert not row["covered"]
                assert row["reason"] == "whoever controls a single shuffler sees everything"
            elif row["covered"]:
                assert row["shuffled"] == other["shuffled"] + 3
                assert (row["sigma"], row["delta"]) == (other["sigma"], other["delta"])
        assert sum(row["covered"] for row in more["rows"]) == 4

    def test_the_floor(self, run):
        less, more = (
            run("messages", *SECURE, "--corrupt-shufflers", corrupt, "--json").json["floor"]
            for corrupt in (0, 2)
        )
        parallel = [row for row in less if row["shuffler"] == "parallel"]
        assert [row["total"] for row in more] == [row["total"] + 2 for row in parallel]

    def test_words(self, run):
        text = run("messages", *SECURE, "--min-honest", "80%", "--corrupt-shufflers", "2").out
        flat = " ".join(text.split())
        assert max(map(len, text.splitlines())) <= 80
        assert "while at most 2 shufflers may collude, for a secure sum" in flat
        assert "2 of them for shufflers that collude" in flat
        assert "At most 2 of the shufflers may tell it all that they see" in flat
        assert "Each parallel shuffler mixes one number of every user." in flat
        text = run("messages", *SECURE, "--corrupt-shufflers", "1").out
        assert "At most 1 of the shufflers may tell it all that it sees" in " ".join(text.split())
        assert "single: whoever controls a single shuffler sees everything" in flat

    def test_the_library_agrees(self, run):
        rows = run("messages", *PRIVATE, "--corrupt-shufflers", "2", "--json").json["rows"]
        protocol = PrivateSum(10**6, 1, Fraction("1e-12"), corrupt_shufflers=2)
        (row,) = (
            row for row in rows if tuple(setting(row).values()) == ("second_moment", "parallel", 1)
        )
        assert row["total"] == protocol.messages.total
        assert row["standard_error"] ** 2 == pytest.approx(protocol.mse)


@pytest.mark.parametrize("share", ["80%", "0.8", "8e-1", "80.0 %"])
def test_a_share_of_honest_users(run, share):
    options = ("--users", "1001", *SECURE[2:], "--analysis", "second_moment", "--json")
    assert run("messages", *options, "--min-honest", share).json["min_honest"] == 801
    assert run("messages", *options, "--min-honest", "100%").json["min_honest"] == 1001


def test_warnings_are_in_the_json(run):
    weak = ("--users", "1000", "--epsilon", "50", "--delta", "1e-9", "--analysis", "second_moment")
    result = run("messages", *weak, "--json", warning="protects next to nobody").json
    assert result["warnings"] == ["epsilon = 50 protects next to nobody; 1 is customary"]
    assert run("messages", *PRIVATE, "--json").json["warnings"] == []


def test_plurals_and_which_row(run):
    text = " ".join(run("messages", *PRIVATE[:2], "--epsilon", "1e-6", *PRIVATE[4:]).out.split())
    assert "rounded to 1 step and added" in text
    assert "Whichever row is chosen, the sum will be off by at most" in text
    alone = run("messages", "--users", "20", *SECURE[2:], "--min-honest", "1").out
    assert "as long as at least 1 does not" in " ".join(alone.split())


def test_a_floor_of_one_message(run):
    text = " ".join(
        run("messages", "--users", "1e6", "--modulus", "2", "--sigma", "40").out.split()
    )
    assert "Counting excludes nothing here: the floor is 1 shuffled message" in text
    assert "No analysis can get below" not in text


def test_all_of_a_small_epsilon_is_said_to_be_left(run):
    options = ("--users", "1000", "--epsilon", "0.0001", "--delta", "1e-6", "--reserve", "0")
    assert " 0.0001 " in run("messages", *options, "--analysis", "second_moment").out


def test_progress(run, monkeypatch):
    from ikos.cli import messages

    seen = []

    @contextlib.contextmanager
    def shown(label, parts):
        yield lambda *step: seen.append((label, *step))

    monkeypatch.setattr(messages, "progress", shown)
    run("messages", *SECURE)
    assert seen == [("counting messages", done, 16) for done in range(1, 17)]


@pytest.mark.parametrize(
    "options",
    [
        ("--users", "1000", *SECURE[2:], "--min-honest", "1"),
        ("--users", "1000", "--epsilon", "1", "--delta", "1e-8", "--modulus", "2^1000"),
    ],
)
def test_hard_questions_are_answered_at_once(run, options):
    began = time.monotonic()
    run("messages", *options)
    assert time.monotonic() - began < 20  # minutes, once


def test_what_is_printed_is_not_more_than_is_proved(run):
    for line in run("messages", *PRIVATE).out.splitlines():
        if match := re.match(r"[* ] exact .* ([0-9.e-]+) +([0-9.]+) +[0-9]+$", line):
            assert 1e-12 <= float(match[1]) < 1.1e-12
            assert 0.99 <= float(match[2]) < 1


def test_narrowed(run):
    one = ("--analysis", "balle2020", "--shuffler", "single", "--no-clear-share")
    result = run("messages", *SECURE, *one, "--json").json
    (row,), (floor,) = result["rows"], result["floor"]
    assert (row["analysis"], row["shuffler"], row["clear_share"]) == ("balle2020", "single", False)
    assert (floor["shuffler"], floor["clear_share"]) == ("single", False)
    assert "Not covered" not in run("messages", *SECURE, *one).out


@pytest.mark.parametrize(
    ("text", "value"),
    [("1000000", 10**6), ("1,000,000", 10**6), ("10^6", 10**6), ("10**6", 10**6), ("1e6", 10**6),
     ("1.5e3", 1500),
     ("2^10-1", 1023), ("2^10+7", 1031), ("1.50E+3", 1500), ("007", 7)],
)  # fmt: skip
def test_ways_to_write_integers(run, text, value):
    options = ("--sigma", "40", "--shuffler", "single", "--no-clear-share", "--json")
    result = run("messages", "--users", text, "--modulus", text, *options).json
    assert (result["users"], result["modulus"]) == (value, str(value))


@pytest.mark.parametrize(
    "modulus",
    [
        pytest.param("2^1000000", marks=pytest.mark.slow),
        "1" + "0" * 5000,
        pytest.param("10^4400", marks=pytest.mark.slow),
        "2^1000-1",
    ],
)
def test_large_moduli(run, modulus):
    options = ("--users", "1000", "--modulus", modulus, "--sigma", "80")
    assert "Messages of each of 1,000 users for" in run("messages", *options).out
    result = run("messages", *options, "--json").json
    assert result["modulus"].isdigit()
    assert result["rows"][0]["bits_per_user"] < 2**53


def test_few_users(run):
    options = ("--users", "5", "--modulus", "2", "--sigma", "80")
    rows = run("messages", *options, "--json").json["rows"]
    assert any(row["covered"] for row in rows)
    assert any("needs at least 19 honest users, got 5" in (row["reason"] or "") for row in rows)


def test_one_user_has_nothing_to_hide(run):
    options = ("--users", "1", "--modulus", "2", "--sigma", "80")
    result = run("messages", *options, "--json").json
    covered = [row for row in result["rows"] if row["covered"]]
    assert {row["analysis"] for row in covered} == {"second_moment"}
    assert all(row["sigma"] is None and row["unlimited"] is True for row in covered)
    assert not any(row["unlimited"] for row in result["rows"] if not row["covered"])
    assert [row["total"] for row in covered] == [1, 1, 2, 2]
    assert result["floor"] is None
    text = " ".join(run("messages", *options).out.split())
    assert text.startswith("Messages of 1 user for a secure sum")
    assert "no limit" in text
    assert "nothing to hide: the sum is the user's value" in text
    private = run("messages", "--users", "1", "--epsilon", "1", "--delta", "0.01").out
    assert "the noise alone protects it" in " ".join(private.split())


@pytest.fixture
def plots():
    pytest.importorskip("matplotlib")


@pytest.mark.usefixtures("plots")
@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.png", b"\x89PNG"),
        pytest.param("b.SVG", b"<?xml", marks=pytest.mark.slow),
        pytest.param("ü c.pdf", b"%PDF", marks=pytest.mark.slow),
    ],
)
def test_plot(run, tmp_path, name, start):
    path = tmp_path / name
    path.write_text("what was there before")
    options = ("--users", "30", "--modulus", "2^32", "--sigma", "40", "--plot", path)
    assert f"Plotted in {path}\n" in run("messages", *options).out
    assert path.read_bytes().startswith(start)
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert list(tmp_path.iterdir()) == [path]
    first = path.read_bytes()
    assert run("messages", *options, "--json").json["plot"] == str(path)
    assert path.read_bytes() == first


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _words(path):
    """Return the texts of a figure, which SVG keeps as comments beside their outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.usefixtures("plots")
def test_plot_of_a_private_sum(run, tmp_path):
    path = tmp_path / "x.svg"
    options = ("--users", "1e7", "--epsilon", "1", "--delta", "1e-9", "--min-honest", "5e6")
    rows = run("messages", *options, "--plot", path, "--json").json["rows"]
    words = _words(path)
    totals = {
        (row["analysis"], row["shuffler"], row["clear_share"]): row["total"]
        for row in rows
        if row["covered"]
    }
    for analysis, shuffler, clear in (
        ("second_moment", "parallel", True),
        ("second_moment", "single", False),
        ("balle2020", "parallel", True),
        ("ghazi2020", "single", False),
        ("ishai2006", "single", False),
    ):
        assert f"{totals[analysis, shuffler, clear]}   {analysis}" in words
    assert any("messages at n = " in text for text in words)
    assert "users n, at least 50 % of them honest" in words
    assert not any("floor" in text or "attack" in text for text in words)


@pytest.mark.slow
@pytest.mark.usefixtures("plots")
@pytest.mark.parametrize("options", [SECURE, PRIVATE])
def test_plot_with_colluding_shufflers(run, tmp_path, options):
    path = tmp_path / "x.svg"
    more = (*options, "--corrupt-shufflers", "2", "--plot", path)
    rows = run("messages", *more, "--json").json["rows"]
    words = _words(path)
    for row in rows:
        if row["covered"] and row["clear_share"]:
            assert f"{row['total']}   {row['analysis']}" in words
    assert not any(text.startswith("single") or "ghazi" in text for text in words)
    assert "Shufflers that may collude with the analyzer: 2." in words


@pytest.mark.slow
@pytest.mark.usefixtures("plots")
@pytest.mark.parametrize(("modulus", "marked"), [("2^64", True), ("2^61-1", False)])
def test_plot_marks_what_is_not_proved(run, tmp_path, modulus, marked):
    path = tmp_path / "x.svg"
    run("messages", "--users", "1e6", "--modulus", modulus, "--sigma", "80", "--plot", path)
    assert ("ghazi2020: not proved for a composite modulus." in _words(path)) == marked


@pytest.mark.usefixtures("plots")
def test_plot_of_what_is_asked_alone(run, tmp_path):
    path = tmp_path / "x.svg"
    only = ("--analysis", "second_moment", "--shuffler", "single", "--clear-share")
    run("messages", *SECURE, *only, "--plot", path)
    words = _words(path)
    assert "single, clear share" in words
    assert "single, no clear share" not in words
    assert any("counting floor" in text for text in words)
    assert not any(re.search("attack|balle|ghazi|ishai", text) for text in words)


@pytest.mark.usefixtures("plots")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.gif", "does not end in .png, .svg, .pdf"),
        ("x", "does not end in .png, .svg, .pdf"),
        ("folder.png", "is a folder"),
        ("missing/x.png", "no such file or directory"),
        ("file/x.png", "not a directory"),
        ("x.png/", "is a folder"),
        (".png", "has no name before its suffix"),
        ("device.png", "not a regular file"),
        ("pipe.png", "not a regular file"),
        ("loop.png", "symbolic links"),
        ("x" * 300 + ".png", "file name too long"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="devices, pipes and links of POSIX")
def test_files_that_cannot_be_plotted_into(refused, tmp_path, monkeypatch, name, message):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "device.png").symlink_to("/dev/null")
    (tmp_path / "loop.png").symlink_to("loop.png")
    if name == "pipe.png":
        os.mkfifo(tmp_path / name)
    before = set(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    said = refused("messages", *SECURE, "--plot", name)
    assert message in said
    assert repr(name)[:50] in said
    assert set(tmp_path.rglob("*")) == before
    assert Path("/dev/null").is_char_device()


@pytest.mark.usefixtures("plots")
def test_a_full_disk_leaves_what_was_there(refused, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def full(self, file, **options):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    path = tmp_path / "x.png"
    path.write_text("before")
    assert "no space left on device" in refused("messages", *SECURE, "--plot", path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_without_matplotlib(refused, run, tmp_path, monkeypatch):
    for name in list(sys.modules):
        if name.partition(".")[0] == "matplotlib" or name == "ikos.plots.figures":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = refused("messages", *SECURE, "--plot", tmp_path / "x.png")
    assert said == "--plot needs matplotlib: pip install 'ikos[plot]'"
    assert not list(Path(tmp_path).iterdir())
    assert "Plotted" not in run("messages", *SECURE).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "missing option '--users'"),
        (("--users", "9"), "give --modulus and --sigma for a secure sum"),
        (("--users", "9", "--modulus", "9"), "give --modulus and --sigma for a secure sum"),
        (("--users", "9", "--sigma", "9"), "--sigma needs --modulus"),
        (("--users", "9", "--epsilon", "1"), "--epsilon needs --delta"),
        (("--users", "9", "--delta", "0.1"), "--delta needs --epsilon"),
        ((*SECURE, "--epsilon", "1"), "--epsilon is for a private sum, --sigma for a secure one"),
        ((*SECURE, "--delta", "0.1"), "--delta is for a private sum"),
        ((*SECURE, "--precision", "5"), "--precision is for a private sum"),
        ((*SECURE, "--reserve", "0.1"), "--reserve is for a private sum"),
        ((*SECURE, "--min-honest", "0"), "--min-honest must be at least 1, got 0"),
        ((*SECURE, "--min-honest", "1.5"), "must be a whole number, or a share such as 80% or 0.8"),
        ((*SECURE, "--min-honest", "0%"), "--min-honest must be more than 0% and at most 100%"),
        ((*SECURE, "--min-honest", "101%"), "--min-honest must be more than 0% and at most 100%"),
        ((*SECURE, "--min-honest", "most"), "'most' is not a whole number"),
        (
            (*SECURE, "--corrupt-shufflers", "1", "--shuffler", "single"),
            "--corrupt-shufflers must be 0 with a single shuffler, got 1: whoever controls",
        ),
        ((*SECURE, "--corrupt-shufflers", "-1"), "--corrupt-shufflers must be at least 0, got -1"),
        ((*SECURE, "--corrupt-shufflers", "1e9"), "must be at most 1000000, got 1e9"),
        (
            (*SECURE, "--corrupt-shufflers", "1", "--analysis", "ishai2006"),
            "; --analysis ishai2006: whoever controls a single shuffler sees everything",
        ),
        ((*SECURE, "--min-honest", "10^7"), "--min-honest must be at most --users = 1000000"),
        ((*PRIVATE, "--min-honest", "10^7"), "--min-honest must be at most --users = 1000000"),
        ((*PRIVATE, "--reserve", "0.6"), "--reserve must be at most 0.5"),
        ((*PRIVATE, "--reserve", "-0.1"), "--reserve must be at least 0"),
        ((*PRIVATE, "--reserve", "1%"), "'1%' is not a decimal number"),
        ((*SECURE, "--analysis", "published"), "'published' is not one of best, second_moment"),
        ((*SECURE, "--users", "0"), "--users must be at least 1, got 0"),
        ((*SECURE, "--users", "-1"), "--users must be at least 1, got -1"),
        ((*SECURE, "--users", "1_000"), "'1_000' is not a whole number"),
        ((*SECURE, "--users", "１０"), "is not a whole number"),
        ((*SECURE, "--users", "1.5"), "'1.5' is not a whole number"),
        ((*SECURE, "--users", "1.55e1"), "'1.55e1' is not a whole number"),
        ((*SECURE, "--users", "1e99"), "--users must be at most 9007199254740992, got 1e99"),
        ((*SECURE, "--users", "many"), "'many' is not a whole number"),
        ((*SECURE, "--modulus", "1"), "--modulus must be at least 2, got 1"),
        ((*SECURE, "--modulus", "2^0"), "--modulus must be at least 2, got 2^0"),
        ((*SECURE, "--modulus", "2^99999999"), "is too large to compute with"),
        ((*SECURE, "--modulus", "2^" + "9" * 50), "is too large to compute with"),
        ((*SECURE, "--modulus", "1e" + "9" * 50), "is too large to compute with"),
        ((*SECURE, "--modulus", "2^2^2"), "is not a whole number"),
        ((*SECURE, "--sigma", "0"), "--sigma must be greater than 0, got 0"),
        ((*SECURE, "--sigma", "1e300"), "--sigma must be at most 1000000, got 1e300"),
        ((*SECURE, "--sigma", "1000000.5"), "--sigma must be at most 1000000, got 1000000.5"),
        ((*PRIVATE, "--epsilon", "1000000.5"), "--epsilon must be at most 1000000, got 1000000.5"),
        ((*PRIVATE, "--epsilon", "1e-101"), "--epsilon must be at least 1e-100, got 1e-101"),
        ((*PRIVATE, "--delta", "1e-301"), "--delta must be at least 1e-300, got 1e-301"),
        ((*SECURE, "--sigma", "nan"), "is not a decimal number"),
        ((*SECURE, "--sigma", "1/2"), "is not a decimal number"),
        ((*SECURE, "--sigma", "0.5", "--analysis", "balle2020"), "needs sigma >= 1, got 0.5"),
        ((*SECURE, "--analysis", "ghazi2020", "--clear-share"), "covers this with --clear-share: "),
        (
            (*SECURE, "--users", "5", "--shuffler", "parallel", "--analysis", "balle2020"),
            "no theorem covers this with --shuffler parallel: --analysis balle2020 needs at least "
            "19 honest users, got 5",
        ),
        (
            (*PRIVATE, "--shuffler", "parallel", "--analysis", "ghazi2020"),
            "no theorem covers this with --shuffler parallel: --analysis ghazi2020 needs a single "
            "shuffler and no clear share",
        ),
        ((*SECURE, "--analysis", "none"), "'none' is not one of"),
        ((*PRIVATE, "--precision", "0"), "--precision must be at least 1, got 0"),
        ((*PRIVATE, "--precision", "-1"), "--precision must be at least 1, got -1"),
        ((*PRIVATE, "--modulus", "5"), "--modulus must be above users * steps = "),
        ((*PRIVATE, "--delta", "1"), "--delta must be less than 1, got 1"),
        ((*SECURE, "extra"), "unexpected extra argument"),
        ((*SECURE, "--jsn"), "--json"),
    ],
)
def test_mistakes(refused, options, message):
    assert message in refused("messages", *once(*options))
