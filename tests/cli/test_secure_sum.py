"""``ikos secure-sum``: the sum is exact, nothing wraps around, and what is said of it is proved."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from command_lines import once

from ikos import SecureSum
from ikos.cli import release, secure_sum_report

AGE = ("--column", "age", "--upper", "100")
AGES = 20 + np.arange(1000) % 50
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")

TYPES = {
    "command": str, "version": str, "file": str, "column": str, "users": int, "lower": int,
    "upper": int, "out_of_range": str, "sum": str, "mean": float, "differentially_private": bool,
    "sigma": float, "unlimited": bool, "requested_sigma": float, "proved": bool, "theorem": str,
    "conditions": list, "warnings": list, "analysis": str, "shuffler": str, "clear_share": bool,
    "shuffled": int, "clear": int, "total": int, "bits_per_message": int, "bits_per_user": int,
    "all_messages": int, "modulus": str, "min_honest": int, "corrupt_shufflers": int,
}  # fmt: skip


@pytest.fixture
def summed(run, tmp_path):
    """Sum values of a new file, and return the JSON object."""

    def summed(values, *options, **outcome):
        path = tmp_path / "values.csv"
        path.write_text("a\n" + "".join(f"{value}\n" for value in values))
        return run("secure-sum", path, "--column", "a", *options, "--json", **outcome).json

    return summed


def flat(text):
    return " ".join(text.split())


def test_json_has_every_documented_key(run, people):
    result = run("secure-sum", people, *AGE, "--json").json
    assert {key: type(value) for key, value in result.items()} == TYPES
    assert set(TYPES) == set(re.findall(r"``(\w+)``", secure_sum_report.__doc__ or ""))


def test_numbers_are_the_librarys(run, people):
    result = run("secure-sum", people, *AGE, "--json").json
    protocol = SecureSum(1000, 2**17)
    assert (result["sum"], result["mean"]) == (str(AGES.sum()), AGES.mean())
    assert (result["users"], result["lower"], result["upper"]) == (1000, 0, 100)
    assert result["modulus"] == "131072"
    assert result["differentially_private"] is False
    assert result["sigma"] == protocol.guarantee.sigma == protocol.messages.sigma >= 80
    assert result["requested_sigma"] == 80
    assert (result["proved"], result["unlimited"], result["warnings"]) == (True, False, [])
    assert result["theorem"] == protocol.guarantee.theorem
    assert result["conditions"] == list(protocol.guarantee.conditions)
    cost = protocol.cost()
    assert result["total"] == cost.messages_per_user == protocol.messages.total
    assert (result["shuffled"], result["clear"]) == (result["total"] - 1, 1)
    assert result["bits_per_message"] == cost.bits_per_message == 17
    assert result["bits_per_user"] == cost.bits_per_user
    assert result["all_messages"] == cost.messages


def test_every_option_reaches_the_library(run, people, monkeypatch):
    seen = {}
    real, real_run = SecureSum.__init__, SecureSum.run

    def spy(self, *args, **kwargs):
        seen.update(kwargs, args=args)
        real(self, *args, **kwargs)

    def spy_run(self, x, rng=None, *, threads=None, **options):
        assert rng is None, "the command line must use secure randomness"
        seen.update(threads=threads)
        return real_run(self, x, rng, threads=threads, **options)

    monkeypatch.setattr(SecureSum, "__init__", spy)
    monkeypatch.setattr(SecureSum, "run", spy_run)
    run(
        "secure-sum", people, "--column", "age", "--lower", "-1e1", "--upper", "1e2", "--sigma",
        "40.5", "--modulus", "2^31-1", "--analysis", "balle2020", "--shuffler", "parallel",
        "--no-clear-share", "--min-honest", "90.01%", "--corrupt-shufflers", "2", "--threads", "2",
    )  # fmt: skip
    assert seen == {
        "args": (1000, 2**31 - 1), "upper": 110, "sigma": Fraction(81, 2), "analysis": "balle2020",
        "shuffler": "parallel", "clear_share": False, "min_honest": 901, "corrupt_shufflers": 2,
        "threads": 2,
    }  # fmt: skip


class TestExact:
    @pytest.mark.parametrize(
        ("values", "lower", "upper"),
        [
            ([0, 0, 0], 0, 1), ([1, 1, 1], 0, 1), ([4] * 16, 0, 4), ([5] * 3, 0, 5),
            ([-7] * 9, -7, -3), ([-3] * 9, -7, -3), ([-7, -3, -5], -7, -3), ([-2, 3, 1], -2, 3),
            ([-4] * 16, -4, 0), ([7], 7, 8), ([8], 7, 8), ([2**53 - 1] * 5, 0, 2**53 - 1),
            ([1 - 2**53] * 5 + [2**53 - 1] * 4, 1 - 2**53, 2**53 - 1),
            ([2**53 - 1] * 1500 + [2**53 - 2], -5, 2**53 - 1),
        ],
    )  # fmt: skip
    def test_whatever_the_bounds(self, summed, values, lower, upper):
        """Also at either end of what is possible, where a group that is too small wraps around."""
        result = summed(values, "--lower", lower, "--upper", upper)
        assert result["sum"] == str(sum(values))
        assert result["mean"] == float(Fraction(sum(values), len(values)))
        q = int(result["modulus"])
        assert q & (q - 1) == 0
        assert q > len(values) * (upper - lower) >= q // 2

    @pytest.mark.parametrize("extreme", [-3, 4])
    def test_in_the_smallest_group(self, summed, extreme):
        bounds = ("--lower", "-3", "--upper", "4")
        result = summed([extreme] * 10, *bounds, "--modulus", "71")
        assert (result["sum"], result["modulus"]) == (str(10 * extreme), "71")

    def test_a_smaller_group_is_refused(self, refused, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("a\n" + "4\n" * 10)
        bounds = ("--column", "a", "--lower", "-3", "--upper", "4")
        for q in ("70", "2"):
            assert refused("secure-sum", path, *bounds, "--modulus", q) == (
                "--modulus must be at least 71, or a sum of 10 values in [-3, 4] could wrap "
                f"around, got {q}"
            )

    def test_any_group_that_is_large_enough(self, summed):
        for q in ("2^17-1", "2^64", "2^127-1"):
            assert summed([100] * 1000, "--upper", "100", "--modulus", q)["sum"] == "100000"

    @pytest.mark.parametrize(
        ("text", "bound"),
        [("10^15", 10**15), ("2^53-1", 2**53 - 1), ("1,000,000", 10**6), ("1,000", 1000),
         ("1e3", 1000)],
    )  # fmt: skip
    def test_bounds_however_they_are_written(self, summed, text, bound):
        result = summed([bound, -1], "--upper", text, "--lower", "-1,000")
        assert (result["lower"], result["upper"]) == (-1000, bound)
        assert result["sum"] == str(bound - 1)

    def test_whole_numbers_however_they_are_written(self, summed):
        result = summed(["1.0", "2e1", "-0", " 3"], "--upper", "100")
        assert (result["sum"], result["mean"]) == ("24", 6)


class TestValues:
    def test_what_is_no_integer(self, refused, people):
        message = refused("secure-sum", people, "--column", "score", "--upper", "2")
        assert message == (
            f"'{people}': row 2 has a value in column 'score', not an integer of at most "
            "1,000 digits"
        )

    @pytest.mark.parametrize(
        ("bounds", "row", "value"),
        [
            (("--upper", "68"), 50, 69), (("--lower", "21", "--upper", "69"), 1, 20),
            (("--lower", "-9", "--upper", "-1"), 1, 20),
        ],
    )  # fmt: skip
    def test_out_of_range(self, run, refused, people, bounds, row, value):
        message = refused("secure-sum", people, "--column", "age", *bounds)
        assert f"row {row} has a value in column 'age', outside [" in message
        shown = refused("secure-sum", people, "--column", "age", *bounds, "--show-values")
        assert f" has {value} in column 'age', outside [" in shown
        assert message.endswith(
            "; give public bounds that hold every value, or --on-out-of-range clamp"
        )
        run("secure-sum", people, "--column", "age", "--lower", "20", "--upper", "69")

    def test_the_file_and_its_row_are_named(self, refused, tmp_path):
        for name, ages in (("1.csv", (20, 30)), ("2.csv", (40, 500))):
            (tmp_path / name).write_text("age\n" + "".join(f"{age}\n" for age in ages))
        message = refused("secure-sum", tmp_path, *AGE)
        assert "2.csv': row 2 has a value in column 'age', outside [0, 100]" in message

    def test_rows_are_counted_over_blocks(self, refused, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("age\n" + "30\n" * 200_000 + "101\n")
        assert "row 200001 has a value in column 'age'" in refused("secure-sum", path, *AGE)

    def test_clamped(self, run, people):
        narrow = ("--column", "age", "--lower", "30", "--upper", "40", "--on-out-of-range", "clamp")
        result = run("secure-sum", people, *narrow, "--json").json
        assert result["out_of_range"] == "clamp"
        assert result["sum"] == str(np.clip(AGES, 30, 40).sum())
        text = flat(run("secure-sum", people, *narrow).out)
        assert "Values outside the bounds were moved to the nearest bound" in text
        inside = ("--column", "score", "--upper", "1", "--on-out-of-range", "clamp")
        run("secure-sum", people, *inside, status=2)

    @pytest.mark.parametrize("largest", [2**53 + 1, 2**62, 2**63 + 1, 2**64 + 1, 2**70 + 1])
    def test_integers_that_doubles_do_not_hold(self, run, refused, tmp_path, largest):
        path = tmp_path / "t.csv"
        path.write_text(f"a\n{largest}\n{-largest}\n{largest}\n7\n")
        bounds = ("--column", "a", "--lower", -largest, "--upper", largest)
        found = run("secure-sum", path, *bounds, "--json").json
        assert found["sum"] == str(largest + 7)
        assert found["lower"] == str(-largest)  # text, as readers of JSON may have doubles alone
        assert str(largest) in run("secure-sum", path, *bounds).out.replace(",", "")
        less = ("--column", "a", "--lower", -largest, "--upper", largest - 1)
        assert f"outside [{-largest}, {largest - 1}]" in refused("secure-sum", path, *less)
        clamped = run("secure-sum", path, *less, "--on-out-of-range", "clamp", "--json").json
        assert clamped["sum"] == str(largest + 5)
        equal = ("--column", "a", "--lower", largest, "--upper", largest)
        assert f"got {largest} and {largest}" in refused("secure-sum", path, *equal)

    @pytest.mark.parametrize("form", ["folder", "parquet"])
    def test_every_form_of_a_table_and_any_threads_give_the_same(self, run, tmp_path, form):
        if form == "parquet":
            pa = pytest.importorskip("pyarrow", reason="needs the extra ikos[parquet]")
            parquet = pytest.importorskip("pyarrow.parquet")
        for number, ages in enumerate(np.array_split(AGES, 3)):
            if form == "parquet":
                parquet.write_table(pa.table({"age": ages}), tmp_path / f"{number}.parquet")
            else:
                (tmp_path / f"{number}.csv").write_text("\n".join(["age", *map(str, ages)]))
        for options in ((), ("--threads", "1"), ("--threads", "3")):
            found = run("secure-sum", tmp_path, *AGE, *options, "--json").json
            assert (found["sum"], found["users"]) == (str(AGES.sum()), 1000)

    def test_no_header(self, run, tmp_path):
        path = tmp_path / "t.tsv"
        path.write_text("x\t3\ny\t4\n")
        columns = ("--no-header", "--column", "2", "--delimiter", "tab")
        result = run("secure-sum", path, *columns, "--upper", "9", "--json").json
        assert (result["sum"], result["column"]) == ("7", "2")


class TestWords:
    def test_all_that_matters_is_said(self, run, people):
        text = run("secure-sum", people, *AGE).out
        assert max(map(len, text.splitlines())) <= 80
        lines = text.splitlines()
        assert lines[:3] == ["Exact sum and mean of column 'age'", "  sum   44,500", "  mean  44.5"]
        assert "NOT differentially private" in lines
        text = flat(text)
        assert "Whoever knows the other values, or the sum of the same people without one" in text
        assert "'ikos sum' adds noise against that" in text
        guarantee = SecureSum(1000, 2**17).guarantee
        assert f"told apart with an advantage of at most {guarantee.distance}: " in text
        assert f"The proof: {guarantee.theorem}." in text
        assert all(f" - {condition}" in text for condition in guarantee.conditions)
        assert "The number of users, 1,000, and the bounds, 0 and 100, are public" in text
        assert "Any one of them can shift it by any amount" in text
        cost = SecureSum(1000, 2**17).cost()
        size = math.ceil(cost.bits_per_user / 8)
        assert f"{cost.messages_per_user} messages of 17 bits per user ({size} bytes)" in text
        assert f"{cost.messages_per_user - 1} shuffled, each through a shuffler of its own" in text
        assert f"{cost.messages:,} messages in all, numbers modulo 131,072" in text
        assert "lower bound" not in text
        assert "leave it the sum of the others'" not in text

    def test_the_level_is_rounded_down(self, run, people, monkeypatch):
        real = SecureSum.__init__

        def lower(self, *args, **kwargs):
            real(self, *args, **kwargs)
            object.__setattr__(self.messages, "sigma", 80.9999)

        monkeypatch.setattr(SecureSum, "__init__", lower)
        text = flat(run("secure-sum", people, *AGE).out)
        assert "at most 2^-80.99: " in text
        assert "(2^-80 was asked for; whole messages prove more)" in text
        exactly = flat(run("secure-sum", people, *AGE, "--sigma", "80.995").out)
        assert "was asked for" not in exactly

    def test_means_that_are_rounded(self, run, people, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("a\n1\n0\n0\n")
        text = run("secure-sum", path, "--column", "a", "--upper", "1").out
        assert "  mean  0.333333333333333 (rounded)\n" in text
        assert "(rounded)" not in run("secure-sum", people, *AGE).out

    def test_settings(self, run, people):
        trust = ("--min-honest", "50%", "--corrupt-shufflers", "2", "--lower", "-5")
        text = flat(run("secure-sum", people, *AGE, *trust).out)
        assert "while at least 500 of 1,000 users are honest and present" in text
        assert "while at most 2 of the shufflers collude with the analyzer" in text
        assert "Users who tell the analyzer their values leave it the sum of the others'." in text
        assert "Each value is sent less the lower bound." in text
        single = ("--shuffler", "single", "--no-clear-share")
        text = flat(run("secure-sum", people, *AGE, *single).out)
        assert "while the shuffler does not collude with the analyzer" in text
        assert "shuffled, through one shuffler." in text
        assert "1 clear" not in text

    def test_wide_messages(self, run, people):
        text = flat(run("secure-sum", people, *AGE, "--modulus", "2^1500", "--sigma", "9").out)
        assert re.search(r"\d+ messages of 1,500 bits per user", text)

    def test_one_user_has_nothing_to_hide(self, run, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("a\n3\n")
        one = ("secure-sum", path, "--column", "a", "--upper", "9")
        text = flat(run(*one).out)
        assert "With a single user there is nothing to hide: the sum is the user's value." in text
        assert "told apart" not in text
        result = run(*one, "--json").json
        assert (result["sum"], result["sigma"], result["unlimited"]) == ("3", None, True)

    def test_a_formula_without_a_proof_for_the_modulus(self, run, people):
        """Without one that is given, there is a prime; what is not proved is not claimed."""
        single = (*AGE, "--analysis", "ghazi2020", "--shuffler", "single", "--no-clear-share")
        composite = (*single, "--modulus", "2^31", "--unproved")
        assert "--unproved runs it" in run("secure-sum", people, *composite[:-1], status=2).err
        warning = "ikos secure-sum: warning: ghazi2020: not proved for a composite modulus"
        text = run("secure-sum", people, *composite, warning=warning).out
        assert text.startswith("NOT SECURE, nothing is proved")
        assert "NOTHING is proved: ghazi2020 is not proved for a composite modulus." in text
        assert "told apart" not in text
        result = run("secure-sum", people, *composite, "--json", warning=warning).json
        assert (result["proved"], result["sigma"], len(result["warnings"])) == (False, 0, 1)
        assert result["conditions"][0] == "NOT for this group: not proved for a composite modulus"
        for prime in ((), ("--modulus", "2^31-1")):
            result = run("secure-sum", people, *single, *prime, "--json").json
            assert (result["proved"], result["warnings"]) == (True, [])
            assert result["sigma"] >= 80
            assert gmpy2.is_prime(int(result["modulus"]))


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--upper", "99.5"), "--upper must be a whole number, got 99.5"),
            (("--lower", "0.25"), "--lower must be a whole number, got 0.25"),
            (("--lower", "100"), "--upper must be greater than --lower, got 100 and 100"),
            (("--upper", "-5"), "--upper must be greater than --lower, got -5 and 0"),
            (("--upper", "99.1"), "--upper must be a whole number, got 99.1"),
            (("--upper", "1,00"), "'--upper': '1,00' is not a decimal number"),
            (("--upper", "1e999"), "'--upper': '1e999' is too large"),
            (("--upper", "nan"), "'--upper': 'nan' is not a decimal number"),
            (("--sigma", "0"), "--sigma must be greater than 0, got 0"),
            (("--sigma", "0.5", "--analysis", "balle2020"), "balle2020 needs sigma >= 1"),
            (("--modulus", "1"), "--modulus must be at least 2, got 1"),
            (("--modulus", "100000"), "--modulus must be at least 100001, or a sum of 1,000"),
            (("--analysis", "better"), "'--analysis': 'better' is not one of"),
            (("--analysis", "ghazi2020"), "--analysis best covers this setting"),
            (("--min-honest", "0"), "--min-honest must be at least 1, got 0"),
            (("--min-honest", "1001"), "--min-honest must be at most 1000, got 1001"),
            (("--min-honest", "101%"), "--min-honest must be more than 0% and at most 100%"),
            (("--corrupt-shufflers", "1", "--shuffler", "single"), "--corrupt-shufflers must be 0"),
            (("--on-out-of-range", "drop"), "'drop' is not one of reject, clamp"),
            (
                ("--column", "agee"),
                "among its 3 columns; --show-values lists them",
            ),
            (("--column", "name"), "row 1 has a value in column 'name'"),
            (("--column", "name", "--show-values"), "row 1 has 'p0' in column 'name'"),
            (("--no-header",), "--column is a number counted from 1, got 'age'"),
            (("--epsilon", "1"), "no such option"),
        ],
    )
    def test_options(self, refused, people, options, message):
        assert message in refused("secure-sum", people, *once(*AGE, *options))

    @pytest.mark.parametrize("option", ["--column", "--upper"])
    def test_required(self, refused, people, option):
        place = AGE.index(option)
        rest = AGE[:place] + AGE[place + 2 :]
        assert refused("secure-sum", people, *rest) == f"missing option '{option}'"

    def test_files(self, refused, tmp_path):
        assert "missing argument 'TABLE'" in refused("secure-sum", *AGE)
        assert "no such file" in refused("secure-sum", tmp_path / "nothing.csv", *AGE)
        assert "is a folder without files" in refused("secure-sum", tmp_path, *AGE)

    def test_more_messages_than_can_be_run(self, refused, people, monkeypatch):
        monkeypatch.setattr(release, "MAX_MESSAGES", 10**4)
        message = refused("secure-sum", people, *AGE)
        assert re.match(r"1,000 users with \d+ messages each are more than the 10,000", message)
        assert message.endswith("; give a smaller --sigma")


INTERRUPTED = """
import os, signal, sys
from ikos.cli import main, secure_sum
from ikos.aggregation import execution
from ikos import tables

def now():
    os.kill(os.getpid(), signal.SIGINT)

where = sys.argv.pop(1)
if where == "reading":
    real = tables._csv_numbers
    def numbers(part, block, row, *where):
        if row > 2 * tables.ROWS:
            now()
        return real(part, block, row, *where)
    tables._csv_numbers = numbers
elif where == "adding":
    real = execution.mixed_sum
    def mixed_sum(*args, progress=None, **options):
        return real(*args, progress=lambda done, _: now() if done == 2 else None, **options)
    execution.mixed_sum = mixed_sum
else:
    real = secure_sum.print_text
    def print_text(lines):
        now()
        real(lines)
    secure_sum.print_text = print_text
main()
"""


def interrupted(where, path):
    return subprocess.run(
        [sys.executable, "-c", INTERRUPTED, where, "secure-sum", path, *AGE, "--threads", "1"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@POSIX
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("reading", r"after reading 278,528 rows"),
        ("adding", r"after 2 of \d+ pieces of the shufflers' output"),
    ],
)
def test_an_interruption_releases_nothing_and_says_what_was_done(tmp_path, where, said):
    path = tmp_path / "t.csv"
    path.write_text("age\n" + "30\n" * 300_000)
    done = interrupted(where, path)
    assert (done.returncode, done.stdout) == (130, "")
    assert re.fullmatch(
        rf"ikos secure-sum: interrupted {said}; nothing was released\n", done.stderr
    )


def test_an_interruption_before_anything_is_added_up(run, people, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(SecureSum, "run", interrupt)
    assert run("secure-sum", people, *AGE, status=130).err == (
        "ikos secure-sum: interrupted after reading all 1,000 rows; nothing was released\n"
    )


@POSIX
def test_what_is_being_printed_is_printed_as_a_whole(people):
    done = interrupted("printing", people)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Exact sum and mean")
    assert done.stdout.endswith("reaches.\n")
