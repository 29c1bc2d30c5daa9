"""Results of a command or an analysis, as text, JSON, CSV, Markdown, or HTML for a notebook."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from ikos.results.conditions import Condition
from ikos.results.text import grouped

__all__ = ["FORMATS", "VERSION", "Field", "Report"]

VERSION = 1
"""Version of the JSON keys; it grows when a key changes its meaning or is removed."""

FORMATS = ("text", "json", "csv", "markdown")

_JSON_INTEGERS = 1 << 53  # larger integers are strings in JSON, as a reader may round them

# Unicode's categories Cc, Cs, Zl and Zp, and its controls of direction: with those, digits of a
# result could be shown in another order. Joiners and spaces of all kinds are part of ordinary text.
_CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def is_printable(text: str) -> bool:
    """Whether no character controls a terminal, ends a line, or changes the order of others."""
    return not _CONTROLS.search(text)


def printable(text: str) -> str:
    """Return a text with a question mark for each character that `is_printable` refuses."""
    return _CONTROLS.sub("?", text)


def cell(value: Any) -> str:
    """Return a value as tables show it by default."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if value.bit_length() <= 1024 else f"({value.bit_length():,} bits)"
    return grouped(f"{value:.6g}") if isinstance(value, (float, Fraction)) else str(value)


@dataclass(frozen=True)
class Field:
    """A column of a report, or a key of its JSON object, stated once: name, meaning and value.

    Attributes
    ----------
    key, meaning : str
        Its name in JSON and CSV, and its meaning, for the documentation.
    title : str or None
        Its heading for people; None for columns that only programs get.
    show, text : callable
        Returns the text for people, from the value or, where that is not enough, from the whole
        row.
    value : callable, str or None
        How to find its value in a row or in the data: a function, or the path of an attribute, such
        as ``"cost.users"``; by default the attribute or key of a mapping named ``key``.
    needed : bool
        Whether rows in which it is None are hidden from people.

    Examples
    --------
    >>> Field("half", "half of it", value=lambda number: number / 2).of(3)
    1.5
    """

    key: str
    meaning: str
    title: str | None = None
    show: Callable[[Any], str] = cell
    value: Callable[[Any], Any] | str | None = None
    text: Callable[[Any], str] | None = None
    needed: bool = False

    def of(self, data: Any) -> Any:
        """Return its value in a row or in the data."""
        if callable(self.value):
            return self.value(data)
        if isinstance(data, Mapping):
            return data.get(self.key)
        for name in (self.value or self.key).split("."):
            data = None if data is None else getattr(data, name)
        return data

    def read(self, row: Any) -> str:
        """Return the text for a row as people read it."""
        if (value := self.of(row)) is None:
            return ""
        return self.show(value) if self.text is None else self.text(row)


def values(fields: Sequence[Field], data: Any) -> dict[str, Any]:
    """Return the values of fields in ``found``, by their keys."""
    return {field.key: field.of(data) for field in fields}


@dataclass(frozen=True)
class Report:
    """Results ready to be rendered: a title, a table, notes and data.

    ``rows`` are mappings, or objects from which the ``columns`` take their values. ``notes`` are
    paragraphs that people must know to read the table, and ``warnings`` are for those who skip
    them, too. ``data`` beyond the table is for programs: numbers, strings, sequences, mappings and
    dataclasses.

    Examples
    --------
    >>> report = Report(
    ...     "Votes",
    ...     [Field("who", "for whom", "candidate"), Field("count", "how many", "votes")],
    ...     [{"who": "Clinton", "count": 1500}, {"who": "Dole", "count": None}],
    ... )
    >>> print(report)
    Votes
    <BLANKLINE>
      candidate  votes
      Clinton    1,500
      Dole
    """

    title: str
    columns: Sequence[Field]
    rows: Sequence[Any]
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def __str__(self) -> str:
        return self.text()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object: the data beyond the table, then its rows and notes.

        Integers of magnitude 2^53 or more become strings of digits, fractions the nearest double,
        and numbers that are not finite, or beyond doubles, None.
        """
        rows = [values(self.columns, row) for row in self.rows]
        document = {"version": VERSION, **self.data, "warnings": self.warnings}
        document |= {"rows": rows, "notes": self.notes}
        return {key: plain(value) for key, value in document.items()}

    def render(self, kind: str = "text", *, styled: bool = False, width: int | None = None) -> str:
        """Return the report in one of the ``FORMATS``; as CSV, all columns of the table alone."""
        if kind == "json":
            return json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n"
        if kind == "csv":
            return self._csv()
        if kind == "markdown":
            return self._markdown()
        return self.text(styled=styled, width=width) + "\n"

    def text(self, *, styled: bool = False, width: int | None = None) -> str:
        """Return text, with paragraphs in lines of at most 80 characters.

        On a terminal, ``styled`` headings are bold, and a table wider than its ``width`` is shown
        in parts, one below the other, each of which begins with the columns that tell the rows
        apart.
        """
        from rich.cells import cell_len

        wrapped = min(80, width or 80)
        lines = textwrap.wrap(self.title, wrapped)
        if styled:
            lines = [f"\x1b[1m{line}\x1b[0m" for line in lines]
        columns, table = self._shown()
        widths = [max(map(cell_len, cells)) + 2 for cells in zip(*table, strict=True)]
        left = [all(isinstance(c.of(row), str | None) for row in self.rows) for c in columns]
        for part in _parts(widths, table[1:], width) if table[1:] else ():
            lines.append("")
            for i, cells in enumerate(table):
                line = ""
                for j in part:
                    blank = " " * (widths[j] - 2 - cell_len(cells[j]))
                    line += f"  {cells[j]}{blank}" if left[j] or not j else f"  {blank}{cells[j]}"
                line = line.rstrip()
                lines.append(f"\x1b[1m{line}\x1b[0m" if styled and not i else line)
        for i, note in enumerate(self.notes):
            lines += [""] * (not i) + textwrap.wrap(
                note, wrapped, initial_indent="  ", subsequent_indent="    ",
                break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip
        return "\n".join(lines)

    def _shown(self) -> tuple[list[Field], list[list[str]]]:
        """Return the nonempty columns shown to people, and the lines of the table."""
        needed = [column for column in self.columns if column.needed]
        rows = [row for row in self.rows if all(field.of(row) is not None for field in needed)]
        columns = [c for c in self.columns if c.title is not None and any(map(c.read, rows))]
        head = [str(column.title) for column in columns]
        return columns, [head, *([column.read(row) for column in columns] for row in rows)]

    def _csv(self) -> str:
        out = io.StringIO()
        writer = csv.DictWriter(out, [column.key for column in self.columns], lineterminator="\n")
        writer.writeheader()
        for row in self.as_dict()["rows"]:
            cells = {k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in row.items()}
            writer.writerow(cells)
        return out.getvalue()

    def _markdown(self) -> str:
        _, (head, *body) = self._shown()
        lines = [f"**{self.title}**", ""]
        if body:
            table = [head, ["---"] * len(head), *body]
            cells = ([text.replace("|", "\\|") for text in row] for row in table)
            lines += [*(f"| {' | '.join(row)} |" for row in cells), ""]
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    def _repr_html_(self) -> str:
        _, (head, *body) = self._shown()

        def lines(kind: str, *rows: Sequence[str]) -> str:
            cells = [[f"<{kind}>{html.escape(text)}</{kind}>" for text in row] for row in rows]
            return "".join(f"<tr>{''.join(row)}</tr>" for row in cells)

        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return (
            f"<p><b>{html.escape(self.title)}</b></p>"
            f"<table><thead>{lines('th', head)}</thead><tbody>{lines('td', *body)}</tbody></table>"
            f"<ul>{notes}</ul>"
        )


def _parts(widths: Sequence[int], body: Sequence[Sequence[str]], most: int | None) -> list[Any]:
    """Return the column indices of each part of a table that is too wide."""
    every = list(range(len(widths)))
    if most is None or sum(widths) <= most:
        return [every]
    first = 0  # columns that begin each part
    while len({tuple(cells[:first]) for cells in body}) < len(body) and (
        sum(widths[: first + 1]) <= most / 2
    ):
        first += 1
    parts = [every[:first]]
    for i in every[first:]:
        if len(parts[-1]) > first and sum(widths[j] for j in parts[-1]) + widths[i] > most:
            parts.append(every[:first])
        parts[-1] = [*parts[-1], i]
    return parts


def digits(value: int) -> str:
    """Return all digits of an integer, also beyond Python's limit for str()."""
    if value.bit_length() <= 2048:
        return str(value)
    import gmpy2

    return str(gmpy2.mpz(value).digits())


def plain(value: Any) -> Any:
    """Return a value for JSON: see `Report.as_dict`."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value if abs(value) < _JSON_INTEGERS else digits(value)
    if isinstance(value, (float, Fraction)):
        most = sys.float_info.max
        return float(value) if -most <= value <= most else None
    if isinstance(value, Path | Condition):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, (Sequence, Set, Iterator)):
        return [plain(one) for one in value]
    raise TypeError(f"data must hold numbers, strings and collections, got {type(value).__name__}")
