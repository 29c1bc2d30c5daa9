"""Values of options are read whole, as documented, or refused: never a part of one."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from math import inf, nextafter
from types import SimpleNamespace

import click
import pytest
from command_lines import PATHS
from hypothesis import given
from hypothesis import strategies as st

from ikos import Box, Categories
from ikos.cli import types
from ikos.cli.output import plain, power_text
from ikos.cli.submit import client_value
from ikos.cli.types import CoordinateList, DateTime, Honest, LabelList, Number, Numbers
from ikos.data.domains import Bounds

NONSENSE = (
    "", " ", " 3", "3 ", "3\n", "\xa03", "1_0", "3,abc", "3;4", "1 000", "1.000,5", "\u0663",
    "\uff13", "\u00bd", "1/3", "0x10", "nan", "inf", "-inf", "Infinity", "1e", "1e5.5", "1e1_0",
    "--5", "+-5", "1,00", "true",
)  # fmt: skip
"""Texts that some reader of numbers takes for a number, or for a part of one."""

NUMERIC = (Number, Numbers, Honest, types.BlockLength, types.OnMissing, DateTime, CoordinateList)

TEXTS = {
    "--column", "--delimiter", "--scheduler", "--other", "--key", "--note", "--protocol",
    "--shuffler", "--analyzer", "--host", "--value", "--by", "--thousands", "--on-missing", "words",
}  # fmt: skip
"""The options and arguments that take any text; those of clients' values have a test below."""

OPTIONS = [
    param for *_, command in PATHS for param in command.params if isinstance(param.type, NUMERIC)
]


def test_every_option_is_known():
    """Another type, such as those of click for numbers, would read 1_0 and Arabic digits."""
    for name, _, command in PATHS:
        for param in command.params:
            kind = type(param.type)
            assert kind in {
                Number, types.Whole, Numbers, types.Cases, Honest, types.BlockLength, DateTime,
                types.OnMissing, CoordinateList, LabelList, types.Named, click.Choice,
                type(click.BOOL), type(click.STRING),
            }, (name, param.opts)  # fmt: skip
            assert (
                param.opts[0] not in ("--categories", "--groups", "--na", "--where")
                or param.type is types.LABELS
            )
            if kind is type(click.STRING):
                assert param.opts[0] in TEXTS, (name, param.opts)
    assert len(OPTIONS) > 90


def read(param, text):
    """Return what an option makes of a text, or the message that refuses it."""
    try:
        return param.type.convert(text, param, None)
    except click.UsageError as error:
        return error.format_message()


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_refused(text):
    for param in OPTIONS:
        listed = isinstance(param.type, Numbers)
        if not listed or ("," not in text and text != " 3"):
            assert max(param.opts, key=len) in read(param, "5," * listed + text)


def test_grouped_digits_are_of_whole_numbers_and_points_of_others():
    for param in OPTIONS:
        if isinstance(param.type, Number):
            for text in ("1,000", "1.000", "1e999"):
                if not isinstance(number := read(param, text), str):
                    assert number == Fraction(text.replace(",", "")), text
                    assert ("." if param.type.kind is int else ",") not in text


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1,000,000", (10**6,)), ("10,050", (10050,)), ("1000,10^6", (1000, 10**6)),
     ("10, 500", (10, 500)), ("1000,050", (1000, 50))],
)  # fmt: skip
def test_a_comma_separates_thousands_or_numbers(text, numbers):
    assert types.USERS.convert(text, None, None) == numbers


@pytest.mark.slow
@given(st.text(st.sampled_from("0123456789.,eE+-^*_ \u0663xn"), max_size=8))
def test_what_is_read_is_what_is_written(text):
    """By Python's own grammar of exact numbers, where both have it."""
    try:
        found = Number().convert(text, None, None)
    except click.UsageError:
        return
    if not {"^", "*"} & set(text):
        assert found == Fraction(text)
        assert text.isascii()
        assert "_" not in text


def test_numbers_that_end_at_bounds():
    number = Number(above=0, below=1, kind=float)
    assert number.convert("0.1", None, None) == 0.1
    assert number.convert(repr(nextafter(1, 0)), None, None) == nextafter(1, 0)
    for text in ("0", "1", "1e4000", "-1e-300"):
        with pytest.raises(click.UsageError, match="must be"):
            number.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2028-02-29T00:00:00Z", datetime(2028, 2, 29, tzinfo=UTC)),
        *((text, None) for text in (
            "2027-02-30T12:00:00Z", "2026-1-31T12:00:00Z", "2026-01-31T12:00:00", "2026-01-31",
            "2026-01-31 12:00:00Z", "202\u0666-01-31T12:00:00Z", "2026-01-31T24:00:01Z",
            "2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00+99:00",
        )),
    ],
)  # fmt: skip
def test_moments(text, found):
    if found is not None:
        assert types.MOMENT.convert(text, None, None) == found
        return
    with pytest.raises(click.BadParameter, match=r" is not a time such as 2026-01-31T12:00:00Z$"):
        types.MOMENT.convert(text, None, None)


LABELS = [
    ("yes,no", ["yes", "no"]),
    (" yes , no ", ["yes", "no"]),
    ('"yes, always",no', ["yes, always", "no"]),
    ('"a ""b""", "c"', ['a "b"', "c"]),
    ("0..3,x", ["0", "1", "2", "3", "x"]),
    ("-1..1", ["-1", "0", "1"]),
    ('"18..24","25..34"', ["18..24", "25..34"]),
    ("07,1_0,1.5", ["07", "1_0", "1.5"]),
    ("one", ["one"]),
    ("a\u3000b,\u0646\u200c\u0647", ["a\u3000b", "\u0646\u200c\u0647"]),
    *((text, None) for text in (
        "", "a,", ",a", "a,,b", '""', 'a"b",c', '"a', '"a"b', '"a" "b"', "a\nb", "a\x1b[1m",
        "a\u202eb",
        "5..1", "5..5", "18..24..30", "07..12", "1..\u0663", "1_0..20", "0..1e3", "a..c", "..",
        "0..9999999", "@", "@none.txt",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), LABELS)
def test_labels(text, found):
    if found is not None:
        assert types.LABELS.convert(text, None, None) == found
        return
    with pytest.raises(click.BadParameter):
        types.LABELS.convert(text, None, None)


@given(st.lists(st.text('ab",. 0@-\u00e9').filter(str.strip), min_size=1))
def test_labels_in_quotes_are_texts(labels):
    """Whatever is in them."""
    labels = [label.strip() for label in labels]
    quoted = ",".join('"' + label.replace('"', '""') + '"' for label in labels)
    assert types.LABELS.convert(quoted, None, None) == labels


def test_labels_of_a_file(tmp_path):
    path = tmp_path / "labels.txt"
    read = lambda: types.LABELS.convert(f"@{path}", None, None)  # noqa: E731
    for end in ("", "\n", "\r\n"):
        path.write_bytes(('\ufeffyes, always\n18..24\r\n"x"' + end).encode())
        assert read() == ["yes, always", "18..24", '"x"']
    for wrong in (b"", b"a\n\nb\n", b"a\n\n", b"\xff\n", b"a\x00\n"):
        path.write_bytes(wrong)
        with pytest.raises(click.BadParameter):
            read()


def task(domain, labels=(), *, scalar=False):
    protocol = SimpleNamespace(reader=SimpleNamespace(scalar=scalar))
    return SimpleNamespace(domain=domain, labels=labels, protocol=protocol)


NUMBER = task(Bounds(0, 7), scalar=True)
VECTOR = task(Box(2), ("a", "b"))
LABEL = task(Categories([3]), ("0", "1", "a, b"))


@pytest.mark.parametrize(
    ("task", "text", "found"),
    [
        (NUMBER, "3", 3.0),
        (NUMBER, " 0.1\n", 0.1),
        *((NUMBER, text, None) for text in
          (*NONSENSE[:2], *NONSENSE[6:], "3,5", "1,000", "1e999", "3%", "3\n4")),
        (VECTOR, "0.5, 1", [0.5, 1.0]),
        *((VECTOR, text, None) for text in
          ("0.5,", ",1", "0,1_0", "0;1", "nan,0", "0,1e999", "", "a,b", "3", "0,1,2")),
        (LABEL, "0", "0"),
        (LABEL, "a, b\n", "a, b"),
        (LABEL, "0,1,0", "0,1,0"),  # no vector: the task refuses what is no label
    ],
)  # fmt: skip
def test_a_client_s_value(task, text, found):
    if found is not None:
        assert client_value(task, text) == found
        return
    with pytest.raises(click.UsageError) as refused:
        client_value(task, text)
    assert refused.value.message.startswith("--value must be ")
    assert text.strip() == "" or text not in refused.value.message


@pytest.mark.parametrize("size", ["2^1024", "2^14285", "2^14285-1", "123456789" * 200])
def test_sums_of_any_size(run, refused, tmp_path, size):
    """A float holds less than 2^1024, and str() writes 4,300 digits at most."""
    path, large = tmp_path / "a.csv", types.parsed(size)
    path.write_text("a\n7\n")
    line = ("secure-sum", path, "--column", "a")
    for more in (("--upper", size), ("--upper", "7", "--modulus", size)):
        assert run(*line, *more, "--json").json["sum"] == "7"
        assert "  sum       7\n" in run(*line, *more).out
    below = (*line, "--lower", f"-{size.removesuffix('-1')}", "--upper", "-8")
    out = run(*below, "--on-out-of-range", "clamp").out
    assert "and -8, are public" in " ".join(out.split())
    assert ", -8]; give public bounds" in refused(*below)
    assert refused(*line, "--lower", size, "--upper", "0").startswith("--upper must be greater")
    assert refused(*line, "--upper", size, "--modulus", "5").endswith("could wrap around, got 5")
    if large < 10**4000:
        path.write_text(f"a\n{large}\n")
        found = run(*line, "--upper", size, "--json").json
        assert (found["sum"], found["mean"]) == (str(large), None)
        assert run(*line, "--upper", size).status == 0


def test_integers_as_people_and_errors_write_them():
    for value, shown, quoted in (
        (0, "0", "0"), (-1000, "-1,000", "-1000"), (10**7, "10,000,000", "10000000"),
        (2**61 - 1, "2^61-1", "2^61-1"), (2**61 + 1, "2^61+1", "2^61+1"),
        (-(2**61) - 1, "-2^61-1", "-2^61-1"), (-(2**61), "-2^61", "-2^61"),
        (3**100000, "an integer of 158,497 bits", "an integer of 158497 bits"),
        (10**9 + 7, "1,000,000,007", "1000000007"),
    ):  # fmt: skip
        assert power_text(value) == shown
        assert plain(value) == quoted
        if "^" in shown:
            assert types.parsed(shown) == value
    assert (plain(0.5), plain(1e6), plain(-inf)) == ("0.5", "1000000", "-inf")
