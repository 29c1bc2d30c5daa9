"""``ikos sum``: what it prints is what the library computes, and nothing private unasked."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from command_lines import once
from hypothesis import given
from hypothesis import strategies as st

from ikos import PrivateSum
from ikos.cli import release

ADULT = Path(__file__).parents[2] / ".." / "shared" / "data" / "adult.data"
AGE = ("--column", "age", "--lower", "0", "--upper", "100", "--epsilon", "1", "--delta", "1e-6")
AGES = 20 + np.arange(1000) % 50

TYPES = {
    "command": str, "version": str, "file": str, "column": str, "users": int, "lower": float,
    "upper": float, "out_of_range": str, "sum": float, "sum_low": float, "sum_high": float,
    "mean": float, "mean_low": float, "mean_high": float, "confidence": float,
    "standard_error": float, "epsilon": float, "delta": float, "requested_delta": float,
    "noise_epsilon": float, "proved": bool, "adjacency": str, "theorem": str, "conditions": list,
    "warnings": list, "analysis": str, "sigma": float, "unlimited": bool, "shuffler": str,
    "clear_share": bool, "shuffled": int, "clear": int, "total": int, "bits_per_message": int,
    "bits_per_user": int, "all_messages": int, "precision": int, "modulus": str, "integers": bool,
    "min_honest": int, "corrupt_shufflers": int, "wrap_probability": float,
    "not_private": type(None),
}  # fmt: skip


def test_json_has_every_documented_key(run, people):
    result = run("sum", people, *AGE, "--json").json
    assert {key: type(value) for key, value in result.items()} == TYPES
    documented = set(re.findall(r"``(\w+)``", release.__doc__ or ""))
    truth = run("sum", people, *AGE, "--json", "--show-true").json["not_private"]
    assert set(TYPES) | set(truth) <= documented


@pytest.mark.usefixtures("seeded")
def test_numbers_are_the_librarys(run, people):
    result = run("sum", people, *AGE, "--json", "--confidence", "0.9").json
    protocol = PrivateSum(1000, 1, Fraction("1e-6"), lower=0, upper=100)
    expected = protocol.run(AGES)
    assert result["sum"] == expected.estimate
    assert result["mean"] == expected.mean()
    assert (result["sum_low"], result["sum_high"]) == expected.interval(0.9)
    assert (result["mean_low"], result["mean_high"]) == expected.mean_interval(0.9)
    assert result["standard_error"] == expected.standard_error
    assert result["delta"] == expected.guarantee.delta <= 1e-6
    assert result["theorem"] == expected.guarantee.theorem
    assert result["conditions"] == list(expected.guarantee.conditions)
    assert result["total"] == protocol.messages.total
    assert result["sigma"] == protocol.messages.sigma
    assert result["modulus"] == str(protocol.modulus)
    assert result["bits_per_user"] == expected.cost.bits_per_user
    assert result["all_messages"] == expected.cost.messages


def test_every_option_reaches_the_library(run, people, monkeypatch):
    seen = {}
    real = PrivateSum.__init__

    def spy(self, *args, **kwargs):
        seen.update(kwargs, args=args)
        real(self, *args, **kwargs)

    monkeypatch.setattr(PrivateSum, "__init__", spy)
    run(
        "sum", people, "--column", "age", "--lower", "-1e1", "--upper", "1e2", "--epsilon", "0.1",
        "--delta", "1e-7", "--precision", "500", "--modulus", "2^31-1", "--messages", "40",
        "--analysis", "balle2020", "--shuffler", "parallel", "--no-clear-share",
        "--min-honest", "900", "--corrupt-shufflers", "2",
    )  # fmt: skip
    assert seen == {
        "args": (1000, Fraction(1, 10), Fraction(1, 10**7)), "lower": -10.0, "upper": 100.0,
        "precision": 500, "modulus": 2**31 - 1, "messages": 40, "analysis": "balle2020",
        "shuffler": "parallel", "clear_share": False, "min_honest": 900, "corrupt_shufflers": 2,
        "integers": False,
    }  # fmt: skip


def test_words(run, people):
    text = run("sum", people, *AGE).out
    flat = " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "Private sum and mean of column 'age'" in flat
    assert "95 % interval" in flat
    assert "-differential privacy under replacement of one user's value" in flat
    assert "hockey-stick" in flat
    assert "1,000 of 1,000 users are honest and present" in flat
    assert "The number of users, 1,000, and the bounds, 0 and 100, are public" in flat
    assert "messages of" in flat
    assert "bits per user" in flat
    assert "NOT private" not in flat
    published = " ".join(run("sum", people, *AGE, "--analysis", "balle2020").out.split())
    assert "BBGN20, Lemma 5.2, with BBGN20, Corollary 6.1" in published


def test_the_printed_numbers_are_rounded_to_what_is_uncertain(run, people):
    options = ("--json", "--show-true")
    exact = run("sum", people, *AGE, *options).json
    assert abs(exact["sum"] - AGES.sum()) < 20 * exact["standard_error"]
    text = run("sum", people, *AGE).out
    total = next(line for line in text.splitlines() if line.startswith("  sum")).split()
    low, high = (float(total[i].replace(",", "")) for i in (2, 4))
    assert low < float(total[1].replace(",", "")) < high
    assert high - low == pytest.approx(exact["sum_high"] - exact["sum_low"], rel=0.02)


def test_integers(run, people, refused):
    result = run("sum", people, *AGE, "--integers", "--json").json
    assert result["integers"] is True
    assert result["precision"] == 100
    assert result["sum"] == int(result["sum"])
    score = ("--column", "score", "--lower", "0", "--upper", "2", *AGE[6:])
    assert "row 2 (line 3) has a value in column 'score'" in refused(
        "sum", people, *score, "--integers"
    )
    assert "--integers" in refused("sum", people, *once(*AGE, "--integers", "--upper", "99.5"))
    message = refused("sum", people, *AGE, "--integers", "--precision", "7")
    assert message == "--precision must be upper - lower = 100 with --integers, got 7"


class TestOutOfRange:
    NARROW = ("--column", "age", "--lower", "30", "--upper", "40", *AGE[6:])

    def test_refused_by_default(self, refused, people):
        message = refused("sum", people, *self.NARROW)
        assert "row 1 (line 2) has a value in column 'age', outside [30, 40]" in message
        assert "--on-out-of-range clamp" in message

    def test_clamped(self, run, people):
        clamped = np.clip(AGES, 30, 40)
        clamp = (*self.NARROW, "--on-out-of-range", "clamp", "--show-true", "--json")
        result = run("sum", people, *clamp).json
        assert result["out_of_range"] == "clamp"
        truth = result["not_private"]
        assert truth["true_sum"] == clamped.sum()
        assert truth["true_mean"] == clamped.mean()
        assert truth["true_sum_before_clamping"] == AGES.sum()
        assert truth["clamped_values"] == (clamped != AGES).sum()
        assert truth["sum_error"] == result["sum"] - truth["true_sum"]
        assert truth["mean_error"] == truth["sum_error"] / 1000
        assert abs(truth["sum_error"]) < 20 * result["standard_error"]

    @pytest.mark.usefixtures("seeded")
    def test_what_is_printed_does_not_tell_whether_anything_was_clamped(self, run, tmp_path):
        """Two files with the same clamped values print the same: the count is not released."""
        options = ("--column", "a", "--lower", "0", "--upper", "1", *AGE[6:])
        path, texts = tmp_path / "t.csv", []
        for top in ("1", "5"):
            path.write_text("a\n" + "0\n" * 50 + f"{top}\n" * 50)
            texts.append(run("sum", path, *options, "--on-out-of-range", "clamp").out)
        assert texts[0] == texts[1]
        assert "Values outside the bounds were moved to the nearest bound" in texts[0]

    def test_the_bounds_are_within_range(self, run, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("a\n" + "0\n1\n" * 50)
        run("sum", path, "--column", "a", "--lower", "0", "--upper", "1", *AGE[6:])


def test_show_true(run, people):
    text = run("sum", people, *AGE, "--show-true").out
    assert "The truth, NOT private: do not publish" in text
    assert f"{AGES.sum():,}" in text
    assert run("sum", people, *AGE, "--json").json["not_private"] is None


@pytest.mark.usefixtures("seeded")
def test_without_show_true_the_output_depends_on_the_release_alone(run, people, monkeypatch):
    """With the protocol's result fixed, other data gives the same text and the same JSON."""
    real, results = PrivateSum.run, []

    def replay(self, x, rng=None, **options):
        results.append(real(self, x, rng, **options))
        return results[0]

    monkeypatch.setattr(PrivateSum, "run", replay)
    first = [run("sum", people, *AGE, *json).out for json in ((), ("--json",))]
    people.write_text(people.read_text().replace(",25,", ",99,"))
    assert [run("sum", people, *AGE, *json).out for json in ((), ("--json",))] == first


class TestUnproved:
    def test_warning(self, run, people):
        warning = "ikos sum: warning: 2 messages per user prove nothing"
        two = (*AGE, "--messages", "2", "--unproved")
        text = run("sum", people, *two, warning=warning).out
        assert text.startswith("NOT PRIVATE, nothing is proved")
        assert "NOTHING is proved" in text
        assert "-differential privacy under" not in text
        result = run("sum", people, *two, "--json", warning=warning).json
        assert result["proved"] is False
        assert result["delta"] == 1
        assert result["analysis"] is None
        assert result["conditions"] == []
        assert result["warnings"] == [
            "2 messages per user prove nothing: this result has no differential privacy guarantee"
        ]

    def test_is_refused_without_its_flag(self, run, people):
        refused = run("sum", people, *AGE, "--messages", "2", status=2)
        assert refused.out == ""
        assert "2 messages per user prove nothing; --unproved" in refused.err

    def test_one_message(self, run, people):
        one = (*AGE, "--messages", "1", "--no-clear-share", "--unproved")
        text = run("sum", people, *one, warning="1 message per user proves nothing").out
        assert "1 message of" in text

    def test_less_than_asked_for(self, run, people):
        for analysis, few in (("second_moment", "5"), ("balle2020", "6")):
            warning = f"{few} messages per user prove delta = "
            options = ("--analysis", analysis, "--messages", few, "--json")
            result = run("sum", people, *AGE, *options, warning=warning).json
            assert result["proved"] is True
            assert result["delta"] > result["requested_delta"] == 1e-6

    def test_enough(self, run, people):
        for analysis in ("second_moment", "balle2020"):
            options = (*AGE, "--analysis", analysis)
            total = run("sum", people, *options, "--json").json["total"]
            run("sum", people, *options, "--messages", total)


@pytest.mark.slow
def test_settings(run, people):
    single = ("--shuffler", "single", "--no-clear-share")
    result = run("sum", people, *AGE, *single, "--analysis", "ishai2006", "--json").json
    assert (result["shuffler"], result["clear_share"], result["clear"]) == ("single", False, 0)
    assert result["analysis"] == "ishai2006"
    assert run("sum", people, *AGE, *single, "--json").json["analysis"] == "second_moment"
    wide = " ".join(run("sum", people, *AGE, *single, "--modulus", "2^1500").out.split())
    assert "messages of 1,500 bits per user" in wide
    assert "through one shuffler" in " ".join(run("sum", people, *AGE, *single).out.split())
    honest = run("sum", people, *AGE, "--min-honest", "500", "--corrupt-shufflers", "1").out
    assert "500 of 1,000 users" in honest
    assert "at most 1 of the shufflers colludes" in honest


def test_honest_users_are_a_number_or_a_share(run, people):
    for text, users in (("80%", 800), ("0.9995", 1000), ("500", 500)):
        assert run("sum", people, *AGE, "--min-honest", text, "--json").json["min_honest"] == users


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (("--delta", "0.001"), "delta = 0.001 is not below 1/users = 0.001"),
        (("--epsilon", "50"), "epsilon = 50 protects next to nobody"),
    ],
)
def test_budgets_that_protect_little_are_accepted_with_a_warning(run, people, options, warning):
    run("sum", people, *once(*AGE, *options), warning=warning)
    run("messages", "--users", "1000", *once(*AGE[6:], *options), warning=warning)


def test_the_delta_that_was_asked_for_is_said_where_another_is_proved(run, people):
    remark = "(delta = 1e-06 was asked for; whole messages prove more)"
    text = " ".join(run("sum", people, *AGE).out.split())
    assert "(1, 1e-06)-differential privacy" in text
    assert remark not in text
    published = " ".join(run("sum", people, *AGE, "--analysis", "balle2020").out.split())
    assert remark in published
    assert "(1, 1e-06)-differential privacy" not in published


def test_what_is_left_of_epsilon_is_said(run, people):
    text = " ".join(run("sum", people, *AGE).out.split())
    left = re.search(r"Of epsilon, ([0-9.]+) is left for the noise", text)
    result = run("sum", people, *AGE, "--json").json
    assert 0.99 <= float(left[1]) <= result["noise_epsilon"] < 1
    assert "is left for the noise" not in run("sum", people, *AGE, "--analysis", "balle2020").out


def test_the_proof_is_named_on_a_line_of_its_own(run, people):
    lines = run("sum", people, *AGE).out.splitlines()
    proof = next(i for i, line in enumerate(lines) if line.startswith("  The proof: hockey-stick"))
    assert lines[lines.index("  It holds") + 1].startswith("  - while at least 1,000 of 1,000")
    assert proof < lines.index("  It holds")


def test_a_formula_without_a_proof_for_the_modulus(run, people):
    prime = (*AGE, "--analysis", "ghazi2020", "--shuffler", "single", "--no-clear-share")
    single = (*prime, "--modulus", "2^31", "--unproved")
    assert "--unproved runs it" in run("sum", people, *single[:-1], status=2).err
    warning = "ghazi2020: not proved for a composite modulus"
    text = " ".join(run("sum", people, *single, warning=warning).out.split())
    assert "NOTHING is proved: ghazi2020 is not proved for a composite modulus." in text
    assert "-differential privacy under" not in text
    result = run("sum", people, *single, "--json", warning=warning).json
    assert (result["proved"], result["delta"], result["analysis"]) == (False, 1, None)
    assert (result["conditions"], result["sigma"]) == ([], 0)
    covered = run("sum", people, *prime, "--json").json
    assert (covered["proved"], covered["warnings"]) == (True, [])


def test_one_step(run, people):
    one = ("--precision", "1", "--modulus", "2^20")
    assert "at random to 1 step." in " ".join(run("sum", people, *AGE, *one).out.split())


def test_few_users(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "0\n" * 20)
    small = ("--column", "a", "--lower", "0", "--upper", "1", "--epsilon", "0.01", "--delta", "0.1")
    for _ in range(20):  # the noise is symmetric about 0: below it every other time
        said = run("sum", path, *small, warning="delta = 0.1 is not below 1/users = 0.05").out
        if "beyond what the bounds allow" in said:
            return
    pytest.fail("an estimate below the smallest possible sum was not remarked upon")


def test_parquet(run, refused, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs the extra ikos[parquet]")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"age": AGES, "member": AGES > 30}), path)
    assert run("sum", path, *AGE, "--json").json["users"] == 1000
    assert "booleans" in refused("sum", path, "--column", "member", *AGE[2:])
    said = refused("sum", path, "--no-header", "--column", "1", *AGE[2:])
    assert said.startswith(f"--no-header must be left out for {str(path)!r}, a Parquet file, whose")
    said = refused("sum", path, *AGE, "--delimiter", ";")
    assert said == f"--delimiter must be left out for {str(path)!r}, a Parquet file, got ';'"


def test_delimiters(run, refused, tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("age\tb\n" + "20\tx\n" * 30)
    for tab in ("\t", "\\t", "tab"):
        assert run("sum", path, *AGE, "--delimiter", tab, "--json").json["users"] == 30
    assert "has no column 'age'" in refused("sum", path, *AGE)
    assert "'--delimiter': must be one character" in refused("sum", path, *AGE, "--delimiter", "ab")


@pytest.mark.parametrize("text", ["100", "10^2", "10**2", "2^6+36", "1e2", "+10^2"])
def test_ways_to_write_numbers(run, people, text):
    assert run("sum", people, *AGE[:4], "--upper", text, *AGE[6:], "--json").json["upper"] == 100


def test_negative_powers(run, people):
    result = run("sum", people, *AGE[:2], "--lower", "-2^3+1", *AGE[4:], "--json").json
    assert result["lower"] == -7


def test_names_that_would_break_lines(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('"a\nb",café\n' + "1,2\n" * 30)
    rest = AGE[2:]
    assert r"column 'a\nb'" in run("sum", path, "--column", "a\nb", *rest).out
    assert run("sum", path, "--column", "café", *rest, "--json").json["column"] == "café"


def test_the_census_file(run):
    if not ADULT.exists():
        pytest.skip("adult.data of the UCI repository is not beside the checkout")
    ages = ("--no-header", "--column", "1", "--lower", "17", "--upper", "90")
    budget = ("--epsilon", "1", "--delta", "1e-10")
    result = run("sum", ADULT, *ages, *budget, "--show-true", "--json").json
    assert result["users"] == 32561
    assert result["not_private"]["true_sum"] == 1256257
    assert abs(result["not_private"]["sum_error"]) < 20 * result["standard_error"]
    assert result["standard_error"] / 32561 < 0.01


def test_sums_of_integers_are_printed_as_such(run, people):
    given = ("--column", "age", "--lower", "0", "--upper", "100", "--integers", "--show-true")
    text = run("sum", people, *given, "--epsilon", "1", "--delta", "1e-6").out
    assert re.search(r"^  sum +[\d,]+ +[\d,]+ to [\d,]+$", text, re.MULTILINE)
    assert re.search(r"^  sum +[\d,]+ +-?[\d,]+$", text, re.MULTILINE)  # the truth and the error


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--epsilon", "0"), "--epsilon must be greater than 0, got 0"),
            (("--epsilon", "-1"), "--epsilon must be greater than 0, got -1"),
            (("--epsilon", "inf"), "'--epsilon': 'inf' is not a decimal number"),
            (("--epsilon", "1_0"), "'--epsilon': '1_0' is not a decimal number"),
            (("--epsilon", "1e7"), "--epsilon must be at most 1000000, got 1e7"),
            (("--epsilon", "1e-310"), "--epsilon must be at least 1e-100, got 1e-310"),
            (("--epsilon", "1e999999999"), "too large or too small"),
            (("--epsilon", "1e9999999999999999"), "not a decimal number"),
            (("--epsilon", ""), "'' is not a decimal number"),
            (("--delta", "0"), "--delta must be greater than 0, got 0"),
            (("--delta", "1"), "--delta must be less than 1, got 1"),
            (("--lower", "nan"), "'--lower': 'nan' is not a decimal number"),
            (("--upper", "1e200"), "'--upper': '1e200' is neither 0 nor between 1e-100 and 1e100"),
            (("--upper", "-5"), "--upper must be greater than --lower, got -5 and 0"),
            (("--lower", "100"), "--upper must be greater than --lower, got 100 and 100"),
            (("--confidence", "1"), "--confidence must be less than 1, got 1"),
            (
                ("--confidence", "0." + "9" * 20),
                f"--confidence must be at most 0.9999999999999999, got 0.{'9' * 20}",
            ),
            (("--confidence", "95"), "--confidence must be less than 1, got 95"),
            (("--precision", "0"), "--precision must be at least 1, got 0"),
            (("--precision", "1.5"), "'--precision': '1.5' is not a whole number"),
            (("--precision", "2^53"), "--precision must be at most 4503599627370496"),
            (
                ("--modulus", "7"),
                "--modulus must be above users * steps = 1,000 * 112 = 112,000, got 7",
            ),
            (("--modulus", "1"), "--modulus must be at least 2, got 1"),
            (("--messages", "0"), "--messages must be at least 1, got 0"),
            (("--analysis", "better"), "'--analysis': 'better' is not one of"),
            (
                ("--analysis", "ghazi2020"),
                "needs a single shuffler and no clear share; --analysis best covers this setting",
            ),
            (("--shuffler", "three"), "'--shuffler': 'three' is not one of parallel, single"),
            (
                ("--min-honest", "abc"),
                "'--min-honest': 'abc' is not a whole number such as 1000 or 10^6, or a share such "
                "as 80% or 0.8",
            ),
            (("--min-honest", "-3"), "--min-honest must be at least 1, got -3"),
            (("--min-honest", "2^99999999"), "is too large to compute with"),
            (("--epsilon", "10^400"), "'--epsilon': '10^400' is too large or too small"),
            (("--epsilon", "2^" + "9" * 50), "is too large or too small to compute with"),
            (("--upper", "1,000"), "'--upper': '1,000' is not a decimal number"),
            (("--min-honest", "0"), "--min-honest must be at least 1, got 0"),
            (("--min-honest", "1001"), "--min-honest must be at most 1000, got 1001"),
            (("--analysis", "published"), "'--analysis': 'published' is not one of"),
            (
                ("--min-honest", "3", "--analysis", "balle2020"),
                "--analysis balle2020 does not cover 3 honest users (--min-honest) with parallel "
                "shuffling and a clear share: balle2020 needs at least 19 honest users, got 3;",
            ),
            (("--min-honest", "3", "--analysis", "balle2020"), "--analysis best covers"),
            (("--corrupt-shufflers", "-1"), "--corrupt-shufflers must be at least 0, got -1"),
            (("--corrupt-shufflers", "1", "--shuffler", "single"), "--corrupt-shufflers must be 0"),
            (("--on-out-of-range", "drop"), "'drop' is not one of reject, clamp"),
            (
                ("--column", "agee"),
                "among its 3 columns; --show-values lists them",
            ),
            (("--column", "name"), "row 1 (line 2) has a value in column 'name'"),
            (("--column", "agee", "--show-values"), "did you mean 'age'?"),
            (("--column", "name", "--show-values"), "row 1 (line 2) has 'p0' in column 'name'"),
            (("--upper", "7", "--show-values"), "row 1 (line 2) has 20 in column 'age', outside"),
            (("--no-header",), "--column is a number counted from 1, got 'age'"),
            (("--no-header", "--column", "9"), "has no column 9"),
            (("--no-header", "--column", "2"), "is the first line a header?"),
            (("--nonsense",), "no such option '--nonsense'"),
            (("--bogus",), "no such option '--bogus'"),
            (("--upp", "3"), "no such option '--upp'. Did you mean '--upper'?"),
            (("--epsilom", "3"), "no such option '--epsilom'. Did you mean '--epsilon'?"),
            (("more",), "unexpected extra argument"),
        ],
    )
    def test_options(self, refused, people, options, message):
        assert message in refused("sum", people, *once(*AGE, *options))

    def test_more_messages_than_can_be_run(self, refused, people, monkeypatch):
        message = refused("sum", people, *AGE, "--messages", "10^9")
        assert message == "--messages must be at most 100000000, got 1000000000"
        monkeypatch.setattr(release, "MAX_MESSAGES", 10**5)
        message = refused("sum", people, *AGE, "--messages", "101")
        assert "1,000 users with 101 messages each are more than the 100,000" in message
        assert "give fewer --messages" in message

    def test_another_delimiter_is_suggested(self, refused, tmp_path):
        path = tmp_path / "semicolons.csv"
        path.write_text("name;age\nx;3\n")
        assert "are the columns separated by ';'?" in refused("sum", path, *AGE)

    @pytest.mark.parametrize("option", ["--column", "--lower", "--upper", "--epsilon", "--delta"])
    def test_required(self, refused, people, option):
        place = AGE.index(option)
        rest = AGE[:place] + AGE[place + 2 :]
        assert refused("sum", people, *rest) == f"missing option '{option}'"

    def test_files(self, refused, tmp_path):
        assert "missing argument 'TABLE'" in refused("sum", *AGE)
        assert "there is no such file" in refused("sum", tmp_path / "nothing.csv", *AGE)
        assert "is a folder without files" in refused("sum", tmp_path, *AGE)
        empty = tmp_path / "empty.csv"
        empty.touch()
        assert "is empty" in refused("sum", empty, *AGE)

    def test_memory(self, refused, people, monkeypatch):
        def fail(*args, **kwargs):
            raise MemoryError

        monkeypatch.setattr(PrivateSum, "run", fail)
        assert refused("sum", people, *AGE) == "not enough memory for this"

    def test_bugs_are_not_hidden(self, run, people, monkeypatch):
        def fail(*args, **kwargs):
            raise KeyError("a bug")

        monkeypatch.setattr(PrivateSum, "run", fail)
        with pytest.raises(KeyError, match="a bug"):
            run("sum", people, *AGE)


class TestFolders:
    def test_out_of_range_names_the_file_and_its_row(self, run, refused, tmp_path):
        for name, ages in (("1.csv", (20, 30)), ("2.csv", (40, 500))):
            (tmp_path / name).write_text("age\n" + "".join(f"{age}\n" for age in ages * 20))
        message = refused("sum", tmp_path, *AGE)
        assert "2.csv': row 2 (line 3) has a value in column 'age', outside [0, 100]" in message
        clamp = ("--on-out-of-range", "clamp", "--show-true", "--json")
        result = run("sum", tmp_path, *AGE, *clamp).json
        assert result["users"] == 80
        assert result["not_private"]["clamped_values"] == 20
        assert result["not_private"]["true_sum"] == 20 * (20 + 30 + 40 + 100)

    @pytest.mark.usefixtures("seeded")
    def test_every_form_of_a_table_and_any_threads_give_the_same(self, run, people, tmp_path):
        pa = pytest.importorskip("pyarrow", reason="needs the extra ikos[parquet]")
        parquet = pytest.importorskip("pyarrow.parquet")
        folder = tmp_path / "parquet"
        folder.mkdir()
        for number, ages in enumerate(np.array_split(AGES, 3)):
            parquet.write_table(pa.table({"age": ages}), folder / f"{number}.parquet")
        expected = run("sum", people, *AGE, "--json", "--show-true").json
        for options in ((), ("--threads", "1"), ("--threads", "3")):
            found = run("sum", folder, *AGE, "--json", "--show-true", *options).json
            assert {**found, "file": None} == {**expected, "file": None}

    def test_threads_are_not_workers(self, refused, people):
        for other in (("--workers", "2"), ("--scheduler", "tcp://127.0.0.1:1")):
            assert "--threads are for work without" in refused(
                "sum", people, *AGE, "--threads", "1", *other
            )


@given(
    st.lists(
        st.lists(st.floats(-1e100, 1e100, allow_nan=False), min_size=1, max_size=20),
        min_size=1,
        max_size=5,
    )
)
def test_the_truth_is_correctly_rounded_however_it_is_cut(blocks):
    reading = release.Reading()
    for block in map(np.array, blocks):
        reading.add(block, np.clip(block, -1, 1))
    together = np.concatenate([np.array(block) for block in blocks])
    clipped = np.clip(together, -1, 1)
    changed = int((clipped != together).sum())
    assert reading.truth == release.Truth(math.fsum(clipped), changed, math.fsum(together))


INTERRUPTED = """
import os, signal, sys
from ikos import concurrency
from ikos.cli import main, output, sum
from ikos.aggregation import execution, private_sum
from ikos.tables import csv

def now(*_):
    os.kill(os.getpid(), signal.SIGINT)

where = sys.argv.pop(1)
if where == "reading":
    real = csv._Csv.convert
    def convert(self, block):
        if self.row > 2 * csv.ROWS:
            now()
        return real(self, block)
    csv._Csv.convert = convert
elif where == "encoding":
    real = private_sum.PrivateSum.encoded
    def encoded(self, values, rng, out=None):
        now()
        return real(self, values, rng)
    private_sum.PrivateSum.encoded = encoded
elif where == "adding":
    real = execution.mixed_sum
    def mixed_sum(*args, progress=None, **options):
        return real(*args, progress=lambda done, _: now() if done == 2 else None, **options)
    execution.mixed_sum = mixed_sum
else:
    real = sum.print_text
    def print_text(lines):
        now()
        real(lines)
        now()
    sum.print_text = print_text
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("reading", r"after reading 262,144 rows"),
        ("encoding", r"after reading all 300,000 rows"),
        ("adding", r"after 2 of \d+ pieces of the shufflers' output"),
    ],
)
def test_an_interruption_releases_nothing_and_says_what_was_done(tmp_path, where, said):
    path = tmp_path / "t.csv"
    path.write_text("age\n" + "30\n" * 300_000)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, where, "sum", path, *AGE, "--threads", "1"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert re.fullmatch(rf"ikos sum: interrupted {said}; nothing was released\n", done.stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_what_is_being_printed_is_printed_as_a_whole(people):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "printing", "sum", people, *AGE],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Private sum and mean")


def test_all_that_is_missing_is_named_at_once(refused):
    assert refused("sum", "people.csv") == (
        "missing --column, --lower, --upper, --epsilon, --delta"
    )
    assert refused("sum").startswith("missing TABLE, --column, --lower")
