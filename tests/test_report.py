"""Reports: what each of their forms keeps of what was found."""

from __future__ import annotations

import csv
import io
import json
import math
import unicodedata
from fractions import Fraction
from pathlib import Path

import pytest

from ikos.results.report import FORMATS, Field, Report, is_printable, printable
from ikos.results.sums import Cost

REPORT = Report(
    "A title",
    [
        Field("name", "which", "name"),
        Field("count", "how many", "count"),
        Field("hidden", "for programs"),
        Field("empty", "nothing anywhere", "empty"),
    ],
    [
        {"name": "a|<b>", "count": 12345, "hidden": math.inf},
        {"name": "[bold]c[/bold]", "count": 2**64},
    ],
    ["A note of two words.", "x" * 30 + " " + "y" * 60],
    {
        "ratio": Fraction(1, 8), "large": -(2**53), "small": 2**53 - 1, "huge": 10**5000,
        "nan": math.nan, "path": Path("a.csv"), "cost": Cost(3, 2, 1.5), "flag": True,
        "pairs": {"a": (1, None)},
    },
)  # fmt: skip


@pytest.mark.slow
def test_what_is_printable() -> None:
    """All of Unicode: ordinary text of all scripts, and nothing that controls a terminal."""
    refused = {chr(i) for i in range(0x110000) if not is_printable(chr(i))}
    turns = {"LRM", "RLM", "ALM", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    marks = {"\u200e": "LRM", "\u200f": "RLM", "\u061c": "ALM"}
    named = {c for c in refused if marks.get(c, unicodedata.bidirectional(c)) in turns}
    assert len(named) == len(turns)
    assert refused - named == {
        chr(i) for i in range(0x110000) if unicodedata.category(chr(i)) in ("Cc", "Cs", "Zl", "Zp")
    }
    ordinary = "\u3000\u00a0\u202f\u00ad\u0646\u200c\u0647 \U0001f469\u200d\U0001f52c"
    assert printable(ordinary) == ordinary
    assert printable("a\x1b[2J\u202eb\n") == "a?[2J?b?"


def test_json_is_ascii_and_finite_and_keeps_integers() -> None:
    text = REPORT.render("json")
    assert text.isascii()
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert found["ratio"] == 0.125
    assert (found["large"], found["small"]) == (str(-(2**53)), 2**53 - 1)
    assert found["huge"] == "1" + "0" * 5000
    assert (found["nan"], found["path"], found["flag"]) == (None, "a.csv", True)
    assert found["cost"] == {"users": 3, "messages_per_user": 2, "bits_per_message": 1.5}
    assert found["pairs"] == {"a": [1, None]}
    first, second = found["rows"]
    assert first == {"name": "a|<b>", "count": 12345, "hidden": None, "empty": None}
    assert second["count"] == str(2**64)
    assert found["notes"] == list(REPORT.notes)


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="data"):
        Report("", [], [], data={"a": object()}).as_dict()


def test_csv_has_every_column_and_row() -> None:
    rows = list(csv.DictReader(io.StringIO(REPORT.render("csv"))))
    assert rows[0] == {"name": "a|<b>", "count": "12345", "hidden": "", "empty": ""}
    assert rows[1]["count"] == str(2**64)


def test_text_shows_titled_columns_that_are_not_empty_as_they_are() -> None:
    text = REPORT.render("text")
    assert "\x1b" not in text
    title, _, head, first, second, _, *notes = text.splitlines()
    assert title == "A title"
    assert head.split() == ["name", "count"]
    assert first.split() == ["a|<b>", "12,345"]
    assert second.split() == ["[bold]c[/bold]", f"{2**64:,}"]
    assert max(map(len, notes)) <= 80
    assert notes[0] == "  A note of two words."
    assert "\x1b[1m" in REPORT.render("text", styled=True)


def test_tables_are_never_cut() -> None:
    wide = Report("t", [Field(c, "", c) for c in "ab"], [{"a": "x" * 300, "b": "y" * 300}])
    assert f"{'x' * 300}  {'y' * 300}" in wide.text()


def test_a_table_is_shown_in_parts_on_a_narrow_terminal() -> None:
    rows = [{"a": "x", "b": 1, "c": 2}, {"a": "y", "b": 3, "c": 4}, {"a": "z"}]
    columns = [Field("a", "", "first"), Field("b", "", "second", needed=True), Field("c", "", "c")]
    wide = Report("t", columns, rows)
    assert wide.text().splitlines()[2:] == ["  first  second  c", "  x           1  2",
                                            "  y           3  4"]  # fmt: skip
    assert wide.text(width=16).splitlines()[2:] == [
        "  first  second", "  x           1", "  y           3", "",
        "  first  c", "  x      2", "  y      4",
    ]  # fmt: skip
    assert wide.text(width=18) == wide.text()
    assert len(wide.as_dict()["rows"]) == 3


def test_values_are_where_fields_say() -> None:
    cost = Cost(3, 2, 1.5)
    assert Field("users", "").of(cost) == 3
    assert Field("a", "", value="users.real").of(cost) == 3
    assert Field("a", "", value="b.c").of(type("Found", (), {"b": None})) is None
    assert Field("a", "", "a", text=str).read({"a": 1}) == "{'a': 1}"


def test_markdown_and_html_are_escaped() -> None:
    markdown = REPORT.render("markdown")
    assert "| a\\|<b> | 12,345 |" in markdown
    assert "- A note of two words." in markdown
    html = REPORT._repr_html_()
    assert "<td>a|&lt;b&gt;</td><td>12,345</td>" in html


@pytest.mark.parametrize("how", FORMATS)
def test_a_report_without_rows(how: str) -> None:
    assert Report("t", [Field("a", "", "a")], [], ["n"]).render(how).endswith("\n")
