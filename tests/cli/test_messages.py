"""``ikos messages``: every analysis side by side, with the library's numbers."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from ikos import PrivateSum, message_count, private_message_count
from ikos.cli import messages
from ikos.counts import ANALYSES

SECURE = ("--users", "10^6", "--modulus", "2^64", "--sigma", "80")
PRIVATE = ("--users", "1e6", "--epsilon", "1", "--delta", "1e-12")
SETTINGS = [(shuffler, clear) for shuffler in ("parallel", "single") for clear in (True, False)]

TOP = {
    "command", "version", "users", "modulus", "sigma", "epsilon", "delta", "precision",
    "standard_error", "bits_per_message", "rows",
}  # fmt: skip
ROW = {
    "analysis", "shuffler", "clear_share", "covered", "best", "shuffled", "clear", "total", "sigma",
    "delta", "noise_epsilon", "bits_per_user", "theorem", "reason",
}  # fmt: skip


@pytest.mark.parametrize("options", [SECURE, PRIVATE])
def test_json_has_every_documented_key(run, options):
    result = run("messages", *options, "--json").json
    assert set(result) == TOP
    assert all(set(row) == ROW for row in result["rows"])
    assert set(re.findall(r"``(\w+)``", messages.__doc__ or "")) >= TOP | ROW


def test_every_analysis_in_every_setting(run):
    rows = run("messages", *SECURE, "--json").json["rows"]
    names = [name for name in ANALYSES if name != "published"]
    found = [(row["analysis"], row["shuffler"], row["clear_share"]) for row in rows]
    assert sorted(found) == sorted((name, *setting) for name in names for setting in SETTINGS)


def test_numbers_are_the_librarys_secure_sum(run):
    result = run("messages", *SECURE, "--json").json
    assert result["modulus"] == str(2**64)
    assert (result["sigma"], result["epsilon"], result["precision"]) == (80, None, None)
    for row in result["rows"]:
        setting = {key: row[key] for key in ("analysis", "shuffler", "clear_share")}
        if not row["covered"]:
            assert row["reason"]
            assert not row["best"]
            with pytest.raises(ValueError):
                message_count(10**6, 2**64, 80, **setting)
            continue
        count = message_count(10**6, 2**64, 80, **setting)
        assert (row["shuffled"], row["clear"], row["total"]) == (
            count.shuffled,
            count.clear,
            count.total,
        )
        assert row["sigma"] == count.sigma >= 80
        assert row["theorem"] == count.theorem
        assert row["bits_per_user"] == 64 * count.total
        assert row["delta"] is row["noise_epsilon"] is row["reason"] is None


def test_numbers_are_the_librarys_private_sum(run):
    result = run("messages", *PRIVATE, "--json").json
    protocol = PrivateSum(10**6, 1, Fraction("1e-12"))
    assert int(result["modulus"]) == protocol.modulus
    assert result["precision"] == protocol.precision
    assert result["standard_error"] ** 2 == pytest.approx(protocol.mse)
    for row in (row for row in result["rows"] if row["covered"]):
        setting = {key: row[key] for key in ("analysis", "shuffler", "clear_share")}
        count = private_message_count(
            10**6, protocol.modulus, 1, Fraction("1e-12"), protocol.precision, **setting
        )
        assert row["total"] == count.total
        assert row["delta"] == count.delta <= 1e-12
        assert row["noise_epsilon"] == count.noise_epsilon


def test_best(run):
    rows = run("messages", *SECURE, "--json").json["rows"]
    totals = [row["total"] for row in rows if row["covered"]]
    assert totals == sorted(totals)
    assert [row["best"] for row in rows] == [row["total"] == totals[0] for row in rows]


@pytest.mark.parametrize("options", [SECURE, PRIVATE])
def test_words(run, options):
    text = run("messages", *options).out
    assert max(map(len, text.splitlines())) <= 80
    for name in ANALYSES:
        assert (name in text) == (name != "published")
    table = [line for line in text.splitlines() if re.search(r"[0-9] \+ [01] ", line)]
    starred = [line for line in table if line.startswith("* ")]
    assert 0 < len(starred) < len(table)
    assert "Corollary 6.1" in text
    assert "What it means" in text
    assert "needs a single shuffler and no clear share" in " ".join(text.split())


def test_narrowed(run):
    one = ("--analysis", "balle2020", "--shuffler", "single", "--no-clear-share")
    (row,) = run("messages", *SECURE, *one, "--json").json["rows"]
    assert (row["analysis"], row["shuffler"], row["clear_share"]) == ("balle2020", "single", False)
    published = run("messages", *SECURE, "--analysis", "published", "--json").json["rows"]
    assert {row["analysis"] for row in published} == {"published"}
    assert all(row["covered"] for row in published)
    assert "Not covered" not in run("messages", *SECURE, *one).out


def test_given_parameters_of_a_private_sum(run):
    result = run("messages", *PRIVATE, "--precision", "100", "--modulus", "2^61-1", "--json").json
    assert result["precision"] == 100
    assert result["modulus"] == str(2**61 - 1)
    assert result["bits_per_message"] == 61


@pytest.mark.parametrize(
    ("text", "value"),
    [("1000000", 10**6), ("10^6", 10**6), ("10**6", 10**6), ("1e6", 10**6), ("1.5e3", 1500),
     ("2^10-1", 1023), ("2^10+7", 1031), ("1.50E+3", 1500), ("007", 7)],
)  # fmt: skip
def test_ways_to_write_integers(run, text, value):
    options = ("--sigma", "40", "--shuffler", "single", "--no-clear-share", "--json")
    result = run("messages", "--users", text, "--modulus", text, *options).json
    assert (result["users"], result["modulus"]) == (value, str(value))


@pytest.mark.parametrize("modulus", ["2^1000000", "1" + "0" * 5000, "10^4400", "2^1000-1"])
def test_large_moduli(run, modulus):
    options = ("--users", "1000", "--modulus", modulus, "--sigma", "80")
    assert "Messages of each of 1,000 users" in run("messages", *options).out
    result = run("messages", *options, "--json").json
    assert result["modulus"].isdigit()
    assert result["rows"][0]["bits_per_user"] < 2**53


def test_few_users(run):
    options = ("--users", "5", "--modulus", "2", "--sigma", "80")
    rows = run("messages", *options, "--json").json["rows"]
    assert any(row["covered"] for row in rows)
    assert any("n >= 19" in (row["reason"] or "") for row in rows)


def test_an_analysis_with_an_unlimited_level(run, monkeypatch):
    """A level may be infinite, for a single user: no Infinity in JSON, a word in the table."""
    import ikos

    real = ikos.message_count

    def infinite(n, q, sigma, **setting):
        count = real(max(n, 1000), q, sigma, **setting)
        return (
            count if n > 1 else type(count)(1, 0, float("inf"), count.analysis, "nothing to hide")
        )

    monkeypatch.setattr(ikos, "message_count", infinite)
    options = ("--users", "1", "--modulus", "2", "--sigma", "80", "--analysis", "balle2020")
    assert run("messages", *options, "--json").json["rows"][0]["sigma"] is None
    assert "no limit" in run("messages", *options).out


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
        ((*SECURE, "--users", "0"), "'0' is less than 1"),
        ((*SECURE, "--users", "-1"), "'-1' is less than 1"),
        ((*SECURE, "--users", "1_000"), "'1_000' is not a whole number"),
        ((*SECURE, "--users", "１０"), "is not a whole number"),
        ((*SECURE, "--users", "1.5"), "'1.5' is not a whole number"),
        ((*SECURE, "--users", "1.55e1"), "'1.55e1' is not a whole number"),
        ((*SECURE, "--users", "1e99"), "'1e99' is more than 9007199254740992"),
        ((*SECURE, "--users", "many"), "'many' is not a whole number"),
        ((*SECURE, "--modulus", "1"), "'1' is less than 2"),
        ((*SECURE, "--modulus", "2^0"), "'2^0' is less than 2"),
        ((*SECURE, "--modulus", "2^99999999"), "is too large to compute with"),
        ((*SECURE, "--modulus", "2^" + "9" * 50), "is too large to compute with"),
        ((*SECURE, "--modulus", "1e" + "9" * 50), "is too large to compute with"),
        ((*SECURE, "--modulus", "2^2^2"), "is not a whole number"),
        ((*SECURE, "--sigma", "0"), "'0' is not greater than 0"),
        ((*SECURE, "--sigma", "1e300"), "is not less than 1000001"),
        ((*SECURE, "--sigma", "nan"), "is not a decimal number"),
        ((*SECURE, "--sigma", "1/2"), "is not a decimal number"),
        ((*SECURE, "--sigma", "0.5", "--analysis", "balle2020"), "needs sigma >= 1, got 0.5"),
        ((*SECURE, "--analysis", "ghazi2020", "--clear-share"), "no theorem covers this"),
        ((*SECURE, "--users", "5", "--shuffler", "parallel", "--analysis", "balle2020"), "n >= 19"),
        ((*SECURE, "--analysis", "none"), "'none' is not one of"),
        ((*PRIVATE, "--precision", "0"), "--precision must be at least 1"),
        ((*PRIVATE, "--modulus", "5"), "--modulus must be above n * precision"),
        ((*PRIVATE, "--delta", "1"), "'1' is not less than 1"),
        ((*SECURE, "extra"), "unexpected extra argument"),
        ((*SECURE, "--jsn"), "--json"),
    ],
)
def test_mistakes(refused, options, message):
    assert message in refused("messages", *options)
