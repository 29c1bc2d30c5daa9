"""One report: what a command or an analysis found, for people and for programs.

A command or an analysis fills a `Report`; this module alone turns it into text for a terminal,
JSON, CSV, Markdown, or HTML for a notebook.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

__all__ = ["FORMATS", "KEYS", "VERSION", "Field", "Report"]

VERSION = 1
"""Of the JSON object. It grows when a key changes its meaning or goes."""

KEYS = {
    "command": "which command printed it",
    "version": "of these keys, 1",
    "warnings": "what was said on standard error",
    "rows": "the table, as below",
    "notes": "what else is printed, in sentences",
}
"""Keys of the JSON object of every command."""

READ = ("text", "markdown")
"""The forms that people read."""

FORMATS = ("text", "json", "csv", "markdown")

EXACT = 1 << 53
"""Integers below this are JSON numbers; a reader may round larger ones, which are strings."""


def cell(value: Any) -> str:
    """Return a value as tables show it unless told otherwise."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if value.bit_length() <= 1024 else f"({value.bit_length():,} bits)"
    return f"{value:,.6g}" if isinstance(value, (float, Fraction)) else str(value)


@dataclass(frozen=True)
class Field:
    """A column of a report.

    Attributes
    ----------
    key : str
        Its name in JSON and CSV.
    meaning : str
        What it holds, for the documentation.
    title : str or None
        Its heading where people read it; None for what only programs get.
    show : callable
        Returns a value of it as people read it.
    """

    key: str
    meaning: str
    title: str | None = None
    show: Callable[[Any], str] = cell


@dataclass(frozen=True)
class Report:
    """What was found, ready to be shown.

    Attributes
    ----------
    title : str
        What it is about, in one line.
    columns : sequence of Field
        Of the table.
    rows : sequence of mapping
        The table: of each row a value, or None, by the key of its column.
    notes : sequence of str
        What people must know to read the table, a paragraph each.
    data : mapping
        What is found beyond the table, for programs: numbers, texts, sequences, mappings and
        dataclasses.

    Examples
    --------
    >>> report = Report(
    ...     "Votes",
    ...     [Field("who", "for whom", "candidate"), Field("count", "how many", "votes")],
    ...     [{"who": "Clinton", "count": 1500}, {"who": "Dole", "count": None}],
    ...     ["Of 2000 people."],
    ...     {"command": "votes", "bound": Fraction(1, 4)},
    ... )
    >>> print(report)
    Votes
    <BLANKLINE>
      candidate  votes
      Clinton    1,500
      Dole
    <BLANKLINE>
      Of 2000 people.
    >>> report.as_dict()["rows"], report.as_dict()["bound"]
    ([{'who': 'Clinton', 'count': 1500}, {'who': 'Dole', 'count': None}], 0.25)
    >>> print(report.render("csv"), end="")
    who,count
    Clinton,1500
    Dole,
    """

    title: str
    columns: Sequence[Field]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object: what is beyond the table, then its rows and notes.

        Returns
        -------
        dict
            Integers of 2^53 or more in size are strings of digits, fractions the nearest double,
            and numbers that are not finite None.
        """
        keys = [column.key for column in self.columns]
        rows = [{key: row.get(key) for key in keys} for row in self.rows]
        found = {"version": VERSION, "warnings": (), **self.data, "rows": rows, "notes": self.notes}
        return {key: _plain(value) for key, value in found.items()}

    def render(self, how: str = "text", *, styled: bool = False) -> str:
        """Return the report in one of the ``FORMATS``.

        Parameters
        ----------
        how : {"text", "json", "csv", "markdown"}
            Of CSV, the table alone, with all columns.
        styled : bool
            Whether text has bold headings, for a terminal.
        """
        if how == "json":
            return json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n"
        if how == "csv":
            return self._csv()
        return self._markdown() if how == "markdown" else self.text(styled=styled) + "\n"

    def text(self, *, styled: bool = False) -> str:
        """Return text for a terminal, paragraphs in lines of 80 columns."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
        shown, body = self._shown()
        for i, column in enumerate(shown):
            words = all(isinstance(row.get(column.key), str | None) for row in self.rows)
            left = not i or words
            table.add_column(
                Text(str(column.title)), no_wrap=True, justify="left" if left else "right"
            )
        for cells in body:
            table.add_row(*map(Text, cells))
        out = io.StringIO()
        console = Console(
            file=out,
            width=10_000,
            force_terminal=styled,
            color_system="standard" if styled else None,
        )
        console.print(table)
        lines = textwrap.wrap(self.title, 80)
        if styled:
            lines = [f"\x1b[1m{line}\x1b[0m" for line in lines]
        if body:
            lines += ["", *(f"  {line}".rstrip() for line in out.getvalue().splitlines())]
        for i, note in enumerate(self.notes):
            lines += [""] * (not i) + textwrap.wrap(
                note, 80, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
            )
        return "\n".join(lines)

    def _shown(self) -> tuple[list[Field], list[list[str]]]:
        """Return the columns that people see, those that are empty left out, and their cells."""
        shown = [column for column in self.columns if column.title is not None]
        shown = [column for column in shown if any(_text(column, row) for row in self.rows)]
        return shown, [[_text(column, row) for column in shown] for row in self.rows]

    def _csv(self) -> str:
        out = io.StringIO()
        writer = csv.DictWriter(out, [column.key for column in self.columns], lineterminator="\n")
        writer.writeheader()
        for row in self.as_dict()["rows"]:
            nested = (list, dict)
            writer.writerow(
                {k: json.dumps(v) if isinstance(v, nested) else v for k, v in row.items()}
            )
        return out.getvalue()

    def _markdown(self) -> str:
        shown, body = self._shown()
        table = [[str(column.title) for column in shown], ["---"] * len(shown), *body]
        lines = [f"**{self.title}**", ""]
        if body:
            cells = ([text.replace("|", "\\|") for text in row] for row in table)
            lines += [*(f"| {' | '.join(row)} |" for row in cells), ""]
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    def _repr_html_(self) -> str:
        shown, body = self._shown()

        def row(cells: Sequence[str], kind: str) -> str:
            return "".join(f"<{kind}>{html.escape(text)}</{kind}>" for text in cells)

        head = f"<tr>{row([str(column.title) for column in shown], 'th')}</tr>"
        rows = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in body)
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return (
            f"<p><b>{html.escape(self.title)}</b></p>"
            f"<table><thead>{head}</thead><tbody>{rows}</tbody></table><ul>{notes}</ul>"
        )


def _text(column: Field, row: Mapping[str, Any]) -> str:
    value = row.get(column.key)
    return "" if value is None else column.show(value)


def digits(value: int) -> str:
    """Return all the digits of an integer, also beyond Python's limit for str()."""
    if value.bit_length() <= 8192:
        return str(value)
    import gmpy2

    return str(gmpy2.mpz(value).digits())


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: see `Report.as_dict`."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value if abs(value) < EXACT else digits(value)
    if isinstance(value, (float, Fraction)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, (Sequence, Set, Iterator)):
        return [_plain(one) for one in value]
    raise TypeError(f"data must hold numbers, texts and collections, got {type(value).__name__}")
