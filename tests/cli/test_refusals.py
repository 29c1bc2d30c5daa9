"""A user's mistake: exit status 2, one line that names the option, and no traceback."""

from __future__ import annotations

import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import click
import pytest
from command_lines import once

from ikos import InvalidType, InvalidValue, Ledger
from ikos.cli import errors

SUM = ("sum", "people.csv", "--column", "age", "--lower", "0", "--upper", "100", "--epsilon", "1",
       "--delta", "1e-6")  # fmt: skip
EXACT = ("secure-sum", "people.csv", "--column", "age", "--upper", "100")
COUNTS = ("histogram", "people.csv", "--column", "age", "--epsilon", "1", "--delta", "1e-6")
COUNT = ("count", *COUNTS[1:], "--where", "1")
SECURE = ("messages", "--users", "1000", "--modulus", "2^32", "--sigma", "40")
PRIVATE = ("messages", "--users", "1000", "--epsilon", "1", "--delta", "1e-8")
COMPARE = ("compare", "--users", "1000", "--epsilon", "1", "--protocol", "local-laplace")
BALLS = ("compare", "--users", "1000", "--epsilon", "1", "--domain", "ball")
DATA = ("compare", "--data", "people.csv", "--column", "age", "--lower", "0", "--upper", "100",
        "--epsilon", "1", "--protocol", "local-laplace")  # fmt: skip
MEANS = ("mean", *SUM[1:], "--by", "name")
QUANTILES = ("quantiles", *SUM[1:])
EDGES = "--bins must be two or more numbers that increase as doubles"
GRAPHS = ("graphs", "--users", "10", "--messages", "2", "--trials", "10")

REFUSED = [
    # numbers
    (SUM, ("--epsilon", "0"), "--epsilon must be at least 1e-100, got 0"),
    (SUM, ("--epsilon", "1e7"), "--epsilon must be at most 1000000, got 1e7"),
    (SUM, ("--epsilon", "inf"), "'--epsilon': 'inf' is not a number such as 0.1"),
    (SUM, ("--epsilon", "1,000"), "'--epsilon': '1,000' is not a number"),
    (SUM, ("--epsilon", "1e999999999"), "too large or too small"),
    (SUM, ("--epsilon", ""), "'' is not a number"),
    (SUM, ("--delta", "0"), "--delta must be at least 1e-300, got 0"),
    (SUM, ("--delta", "1"), "--delta must be less than 1, got 1"),
    (SUM, ("--upper", "nan"), "'--upper': 'nan' is not a number"),
    (SUM, ("--upper", "-5"), "--upper must be greater than --lower, got -5 and 0"),
    (SUM, ("--confidence", "1"), "--confidence must be less than 1, got 1"),
    (SUM, ("--precision", "1.5"), "'--precision': '1.5' is not a whole number"),
    (SUM, ("--modulus", "7"), "--modulus must be "),
    (SUM, ("--modulus", "1"), "--modulus must be at least 2, got 1"),
    (SUM, ("--messages", "10^9"), "--messages must be at most 100000000"),
    (SUM, ("--min-honest", "abc"), "'--min-honest': 'abc' is not a whole number"),
    (SUM, ("--min-honest", "2^99999999"), "is too large or too small to compute with"),
    (SUM, ("--min-honest", "120%"), "is not between 0% and 100%"),
    (SUM, ("--min-honest", "1001"), "--min-honest must be at most 1000, got 1001"),
    (SUM, ("--corrupt-shufflers", "-1"), "--corrupt-shufflers must be at least 0, got -1"),
    (SUM, ("--threads", "0"), "--threads must be at least 1, got 0"),
    (SUM, ("--threads", "two"), "'--threads': 'two' is not a whole number such as 1000, 10^6"),
    (SUM, ("--workers", "1e4"), "--workers must be at most 1024, got 1e4"),
    (EXACT, ("--upper", "1.5"), "'--upper': '1.5' is not a whole number"),
    (EXACT, ("--upper", "-3"), "--upper must be greater than --lower"),
    (EXACT, ("--modulus", "70"), "--modulus must be at least 100001, or a sum"),
    (EXACT, ("--sigma", "0"), "--sigma must be greater than 0, got 0"),
    (SECURE, ("--users", "0"), "--users must be at least 1, got 0"),
    (SECURE, ("--users", "2^99"), "--users must be at most 2^53, got 2^99"),
    (PRIVATE, ("--reserve", "0.9"), "--reserve must be "),
    (GRAPHS, ("--trials", "0"), "--trials must be at least 1"),
    (GRAPHS, ("--users", "2^29"), "--users and --messages must have a product of at most"),
    (GRAPHS, ("--largest", "11"), "--largest must be at most 10, got 11"),
    # names
    (SUM, ("--analysis", "better"), "'--analysis': 'better' is not one of"),
    (SUM, ("--analysis", "ghazi2020"), "ghazi2020 needs a single shuffler and no clear share"),
    (SUM, ("--analysis", "ghazi2020"), "; --analysis best covers this setting"),
    (SUM, ("--lower", "0.5", "--integers"), "--lower must be an integer of at most 2^52 where"),
    (SUM, ("--shuffler", "three"), "'--shuffler': 'three' is not one of"),
    (SUM, ("--on-out-of-range", "drop"), "'drop' is not one of"),
    (SUM, ("--nonsense",), "no such option"),
    (SUM, ("more",), "unexpected extra argument"),
    (COMPARE, ("--lower", "0.5", "--integers"), "--lower must be an integer of at most 2^52 where"),
    (COMPARE, ("--domain", "box", "--dimension", "2", "--integers"),
     "--integers is not for --domain box"),
    (COMPARE, ("--protocol", "bogus"), "--protocol must be one of "),
    # what does not go together
    (SUM, ("--corrupt-shufflers", "1", "--shuffler", "single"), "--corrupt-shufflers must be 0"),
    (SUM, ("--threads", "2", "--workers", "2"), "--threads must be None with cluster="),
    (SUM, ("--workers", "2", "--scheduler", "x"), "cannot be combined"),
    (SUM, ("--no-header",), "--column must be a number counted from 1, got 'age'"),
    (SUM, ("--no-header", "--column", "\u0662"), "--column must be a number counted from 1, got"),
    (COUNTS, (), "give either --categories or --bins"),
    (COUNTS, ("--bins", "1,2", "--other", "x"), "--other goes with --categories"),
    (COUNTS, ("--bins", "3,2"), f"{EDGES}, got '3,"),
    (COUNTS, ("--bins", "3"), EDGES),
    (COUNTS, ("--bins", "2^53,2^53+1"), EDGES),
    (COUNTS, ("--categories", "a,a"), "--categories must be distinct, also as numbers, got"),
    (COUNTS, ("--categories", "a"), "--categories must be two or more labels, got 'a'"),
    (COUNTS, ("--categories", "a", "--other", "a"), "--categories and --other must be distinct"),
    (COUNTS, ("--categories", "a", "--other", ""), "--categories and --other must be two or more"),
    (COUNTS, ("--categories", "a", "--on-out-of-range", "clamp"),
     "--on-out-of-range goes with --bins"),
    (MEANS, (), "--groups must be given once for each --by"),
    (MEANS, ("--groups", "a,b", "--by", "age"), "--groups must be given once for each --by"),
    (MEANS, ("--groups", "a,b", "--by", "name", "--groups", "a,b"),
     "--column and --by must name different columns, got age, name, name"),
    (MEANS, ("--groups", "a,a"), "--groups must be distinct, also as numbers, got"),
    (MEANS, ("--groups", "a"), "--groups must be two or more labels, got 'a'"),
    (MEANS, ("--groups", "a,b", "--other", "b"), "--groups and --other must be distinct"),
    (MEANS, ("--groups", "a,b"), "which is not one of the --groups; use --other NAME"),
    (MEANS, ("--groups", "a,b", "--other", "c"), "no value of column 'name' is one of the --g"),
    (MEANS, ("--groups", "a,b", "--by", "none", "--groups", "a,b"), "has no column 'none'"),
    (MEANS, ("--groups", "a,b", "--no-header", "--column", "2"),
     "--by must be a number counted from 1, got 'name'"),
    *((MEANS, ("--groups", "a,b", *more), f"{more[0]} is not for --by and --on-missing exclude")
      for more in (("--precision", "9"), ("--modulus", "9"), ("--messages", "9"), ("--unproved",),
                   ("--threads", "2"), ("--workers", "2"), ("--show-true",))),
    (SUM, ("--other", "x"), "--other goes with --by"),
    (SUM, ("--groups", "a,b"), "--groups must be given once for each --by"),
    (SUM, ("--on-missing", "drop"), "'drop' is not one of"),
    (SUM, ("--on-missing", "101"), "--on-missing must be a value within the bounds"),
    (SUM, ("--on-missing", "0.5", "--integers"), "with --integers an integer, got 0.5"),
    (SUM, ("--on-missing", "exclude", "--threads", "2"), "--threads is not for --by and"),
    (SUM, ("--thousands", "."), "--thousands must not be the decimal point, got '.'"),
    (SUM, ("--thousands", "ab"), "--thousands must be one character that cannot be part"),
    (SUM, ("--na", ","), "labels must be printable and not empty"),
    (COUNT, ("--on-missing", "2"), "--on-missing must be refuse, exclude, or of answers 1 or 0, c"),
    (COUNT, ("--where", "a,a"), "--where must be distinct, also as numbers, got"),
    (COUNTS, ("--categories", "1,2", "--on-missing", "3"), "or one of the --categories, got '3'"),
    (COUNTS, ("--bins", "0,9", "--on-missing", "10"), "or a number within the --bins, got '10'"),
    (COUNTS, ("--bins", "0,9", "--on-missing", "x"), "or a number within the --bins, got 'x'"),
    (QUANTILES, ("--q", "1"), "--q must be less than 1, got 1"),
    (QUANTILES, ("--q", ""), "'' is not a number"),
    (QUANTILES, ("--bins", "1"), "--bins must be at least 2, got 1"),
    (QUANTILES, ("--bins", "102", "--integers"), "--bins must be at most 101, got 102"),
    (SECURE, ("--epsilon", "1"), "--epsilon is for a private sum, --sigma for a secure one"),
    (SECURE, ("--domain", "ball"), "--domain is for a private sum"),
    (SECURE, ("--dimension", "2^30"), "--dimension must be at most"),
    (SECURE, ("--dimension", "2", "--plot", "x.png"), "--plot is for scalar sums"),
    (("messages", "--users", "9"), (), "give --modulus and --sigma (or --messages) for"),
    (("messages", "--users", "9", "--sigma", "9"), (), "give --modulus and --sigma"),
    (("messages", "--users", "9", "--delta", "0.1"), (), "--epsilon and --delta for a private"),
    (PRIVATE, ("--dimension", "3"), "--dimension needs --domain"),
    (PRIVATE, ("--releases", "3"), "--releases needs --domain"),
    (PRIVATE, ("--domain", "ternary", "--dimension", "3"), "ternary needs --sparsity"),
    (PRIVATE, ("--domain", "ball", "--dimension", "3", "--lower", "0"), "--lower is not for"),
    (PRIVATE, ("--domain", "categories", "--sizes", "2,x"), "'--sizes': 'x' is not a whole number"),
    (PRIVATE, ("--analysis", "balle2020", "--min-honest", "3"), "no theorem covers this"),
    (BALLS, (), "--domain ball needs --dimension"),
    (BALLS, ("--dimension", "3", "--protocol", "private-sum"), "no protocol is possible here"),
    (BALLS, ("--dimension", "3", "--protocol", "collision"), "no protocol is possible here"),
    (COMPARE, ("--runs", "3"), "--runs needs --data"),
    (COMPARE, ("--seed", "0"), "--seed needs --data"),
    (SECURE, ("--lower", "0"), "--lower is for a private sum, --sigma for a secure one"),
    (SECURE, ("--json", "--format", "csv"), "--json contradicts --format csv"),
    (SECURE, ("--plot", ""), "'--plot': must name a file, got ''"),
    (COMPARE, ("--no-header",), "--no-header needs --data"),
    (COMPARE, ("--on-out-of-range", "reject"), "--on-out-of-range needs --data"),
    (("compare", "--epsilon", "1"), (), "give --users, or --data"),
    (DATA, ("--users", "7"), "--users must be the 1000 rows, got 7"),
    (DATA[:3], ("--epsilon", "1"), "--data needs --column"),
    # tables
    (SUM, ("--column", "agee"), "has no column 'agee'; it has 3 columns"),
    (SUM, ("--column", "agee", "--show-values"), "it has 3 columns: 'name', 'age'"),
    (SUM, ("--column", "name"), "row 1 has a value in column 'name'"),
    (SUM, ("--upper", "7", "--show-values"), "row 1 has 20 in column 'age', outside"),
    (SUM, ("--no-header", "--column", "9"), "has no column 9"),
    (("sum", "none.csv", *SUM[2:]), (), "cannot read 'none.csv': no such file"),
    (("histogram", "none.csv", *COUNTS[2:]), ("--categories", "a,b"), "'none.csv': no such file"),
    # figures
    (SECURE, ("--plot", "x.txt"), "--plot must end in .png, .svg, .pdf, got 'x.txt'"),
    (COMPARE, ("--plot", "none/x.png"), "--plot must be in a folder that exists"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "options", "said"), REFUSED)
def test_refused(refused, people, monkeypatch, line, options, said):
    if "--plot" in options:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(people.parent)
    assert said in refused(*once(*line, *options))


@pytest.mark.parametrize("line", [SUM, EXACT, GRAPHS], ids=lambda line: line[0])
def test_what_is_missing_is_named(refused, line):
    required = [word for word in line if word.startswith("--")]
    given = {word: value for word, value in pairwise(line) if word in required}
    for name in required:
        rest = [word for key, value in given.items() if key != name for word in (key, value)]
        head = line[:2] if line[1] == "people.csv" else line[:1]
        assert refused(*head, *rest) == f"missing option '{name}'"


DRAWN = [
    SUM, ("mean", *SUM[1:]), (*MEANS, "--groups", "p1,p2", "--other", "p"), QUANTILES,
    (*COUNTS, "--bins", "0,50,99"),
]  # fmt: skip


@pytest.mark.parametrize("extra", ["pyarrow", "matplotlib"])
def test_extras_that_are_missing(refused, tmp_path, monkeypatch, extra):
    monkeypatch.setitem(sys.modules, extra, None)
    if extra == "matplotlib":
        for name in list(sys.modules):
            if name.startswith("matplotlib.") or name == "ikos.plots.figures":
                monkeypatch.delitem(sys.modules, name)
        for line in (SECURE, *DRAWN):  # before any table is read
            said = refused(*line, "--plot", tmp_path / "x.png")
            assert "pip install 'ikos[plot]'" in said
    else:
        path = tmp_path / "x.parquet"
        path.write_bytes(b"PAR1")
        assert "pip install 'ikos[parquet]'" in refused("sum", path, *SUM[2:])
        for more in (("--delimiter", ";"), ("--no-header", "--column", "1")):
            said = refused(*once("sum", path, *SUM[2:], *more))
            assert said == f"{more[0]} must be left out for {str(path)!r}, which is not a CSV file"


def denied(path, **_):
    raise PermissionError(13, "Permission denied", str(path))


@pytest.mark.parametrize("line", DRAWN, ids=lambda line: f"{line[0]}-{len(line)}")
def test_figures_that_cannot_be_written_are_refused_before_a_release(
    refused, people, monkeypatch, line
):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(people.parent)
    ledger = Ledger.new("survey.ledger", 2, Fraction(1, 10**5))
    (people.parent / "folder.png").mkdir()
    (people.parent / "null.png").symlink_to("/dev/null")
    for path, said in (
        ("x.txt", "--plot must end in .png, .svg, .pdf"), ("none/x.png", "a folder that exists"),
        ("folder.png", "is a directory"), ("null.png", "not a regular file"),
    ):  # fmt: skip
        assert said in refused(*line, "--plot", path, "--ledger", "survey.ledger")
    before = sorted(people.parent.iterdir())
    monkeypatch.setattr(Path, "touch", denied)
    said = refused(*line, "--plot", "x.png", "--ledger", "survey.ledger")
    assert said == "'x.png': permission denied"
    assert sorted(people.parent.iterdir()) == before
    assert ledger.entries == ()


def test_parameters_are_options():
    """The names that begin a message of the library, and only those of the command's options."""
    names = ("--users", "--min-honest", "--port", "--host")
    with click.Context(click.Command("x", params=[click.Option([name]) for name in names])):
        for name, said in (
            ("n", "--users must be"), ("min_honest", "--min-honest must be"),
            ("host and port", "--host and --port must be"), ("port[3]", "--port must be"),
            ("x", "x must be"), ("users and x", "users and x must be"), (None, "must be"),
        ):  # fmt: skip
            assert errors.in_options(InvalidValue(name, "must be")) == said
            assert errors.in_options(InvalidType(name, "must be")) == said
        advice = [("port", "\t", "is new"), ("host", True, "too"), ("x", ";", "is no option")]
        said = "x must be; --port $'\\t' is new; --host too"
        assert errors.in_options(InvalidValue("x", "must be", advice=advice)) == said
        assert errors.in_options(ValueError("n must be")) == "n must be"
    assert errors.in_options(InvalidValue("n", "must be")) == "n must be"


def test_what_exceptions_say():
    missing = FileNotFoundError(2, "No such file or directory", "x" * 400)
    assert errors.problem(missing).endswith("...': no such file or directory")
    assert errors.problem(OverflowError()) == "a number is too large or too small to compute with"
    assert errors.problem(ValueError()) == "ValueError"
