"""Command-line values without a click type: numbers, percentages, times, lists and paths."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from ikos.cli.errors import clipped, problem
from ikos.cli.output import plain
from ikos.results.report import is_printable

ANALYSES = (
    "best", "direct_comparison", "higher_moments", "second_moment", "balle2020", "ghazi2020",
    "ishai2006", "exact",
)  # fmt: skip
"""The names in `ikos.counts`, which is slow to import, with "best" and its older name."""

SHUFFLERS = ("parallel", "single")

_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+")
_POWER = re.compile(r"([+-]?)([0-9]{1,30})(?:\^|\*\*)([0-9]{1,99})([+-][0-9]{1,30})?")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", re.ASCII)
_CELL = re.compile(r' *(?:"((?:[^"]|"")*)"|([^",]*)) *,')
_INTEGER = "(0|-?[1-9][0-9]{0,17})"
_RANGE = re.compile(rf"{_INTEGER}\.\.{_INTEGER}")
_MAX_BITS = 1 << 22
_MAX_EXPONENT = 4000


class Number(click.ParamType):  # type: ignore[type-arg]  # not subscriptable in older versions
    """An exact number within bounds, the last two excluded: 1000, 10^6, 1e6, 2^61-1, 0.1 or 1e-9.

    It becomes an ``int`` (whole numbers only), a ``Fraction`` or a ``float``, for which it must be
    bounded.
    """

    def __init__(
        self,
        low: int | str | None = None,
        high: int | str | None = None,
        *,
        above: int | None = None,
        below: int | None = None,
        kind: Callable[[Fraction], Any] = Fraction,
    ) -> None:
        self.name = "integer" if kind is int else "number"
        self.kind = kind
        self.rules = (
            ("at least", low, operator.ge), ("at most", high, operator.le),
            ("greater than", above, operator.gt), ("less than", below, operator.lt),
        )  # fmt: skip

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        if not isinstance(value, str):
            return value
        text = value
        if self.kind is int and _GROUPED.fullmatch(text):  # elsewhere it might be a decimal comma
            text = text.replace(",", "")
        try:
            number = parsed(text)
        except OverflowError:
            self.fail(f"{clipped(text)} is too large or too small to compute with", param, ctx)
        # a point in a whole number, as in 1.000, may separate thousands
        if number is None or (self.kind is int and (number.denominator != 1 or "." in text)):
            whole = "whole number such as 1000, 10^6"
            wanted = whole if self.kind is int else "number such as 0.1, 1e-9"
            self.fail(f"{clipped(text)} is not a {wanted} or 2^61-1", param, ctx)
        for relation, bound, holds in self.rules:
            if bound is not None and not holds(number, Fraction(bound)):
                name = max(param.opts, key=len) if param is not None else "the value"
                limit = bound if isinstance(bound, str) else plain(bound)
                message = f"{name} must be {relation} {limit}, got {clipped(text)[1:-1]}"
                raise click.UsageError(message, ctx)
        return self.kind(number)


def parsed(text: str) -> Fraction | None:
    """Return the number in a text, None if it is not one; OverflowError if it is out of range."""
    from ikos._validation import NUMBER  # imports numpy, which completion does not wait for

    if NUMBER.fullmatch(text):
        if len(text) > _MAX_EXPONENT:
            raise OverflowError
        if abs(int(text.lower().partition("e")[2] or 0)) > _MAX_EXPONENT:
            raise OverflowError
        return Fraction(text)
    if match := _POWER.fullmatch(text):
        base, exponent = int(match[2]), int(match[3])
        if base.bit_length() * exponent > _MAX_BITS:
            raise OverflowError
        power = base**exponent
        return Fraction((-power if match[1] == "-" else power) + int(match[4] or 0))
    return None


class Whole(Number):
    """A whole number, by default at least 0."""

    def __init__(self, low: int = 0, high: int | None = None) -> None:
        super().__init__(low, high, kind=int)


class Honest(click.ParamType):  # type: ignore[type-arg]
    """Number of honest users: a whole number, or a fraction of all users such as 80% or 0.8."""

    name = "integer|percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or the fraction of all users."""
        text = str(value)
        if text.endswith("%"):
            percentage = parsed(text[:-1])
            if percentage is None or not 0 < percentage <= 100:
                self.fail(f"{clipped(text)} is not between 0% and 100%", param, ctx)
            return percentage / 100
        if text.lstrip("+").startswith(("0.", ".")):
            return Number(above=0, below=1).convert(text, param, ctx)
        return WHOLE.convert(text, param, ctx)

    @staticmethod
    def of(honest: int | Fraction | None, users: int) -> int:
        """Return a number of users, with a fraction rounded up."""
        if honest is None:
            return users
        return honest if isinstance(honest, int) else math.ceil(honest * users)


class BlockLength(click.Choice):  # type: ignore[type-arg]
    """Number of coordinates that are shuffled together, or the name of a layout."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number or the name."""
        if str(value)[:1].isdecimal():
            return Whole(1).convert(value, param, ctx)
        return super().convert(value, param, ctx)


class OnMissing(click.Choice):  # type: ignore[type-arg]
    """What happens to missing values: a word, or the number that stands for each."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word or the number."""
        if str(value)[:1] in "+-.0123456789":
            return BOUND.convert(value, param, ctx)
        if value not in self.choices:
            self.fail(
                f"{clipped(value)} is not one of 'refuse', 'exclude', or a number", param, ctx
            )
        return value


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Numbers separated by commas, as a tuple."""

    name = "list"

    def __init__(self, each: Number) -> None:
        self.each = each

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the numbers."""
        return tuple(self.each.convert(part, param, ctx) for part in re.split(", *", str(value)))


class Cases(Numbers):
    """One number or several distinct ones, separated by commas.

    Groups of three digits may be the thousands of one number, and certainly are if one of them
    begins with 0.
    """

    def __init__(self, each: Number) -> None:
        super().__init__(each)
        self.name = each.name  # elsewhere the same option takes one number

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the numbers."""
        text = str(value)
        if self.each.kind is int and _GROUPED.fullmatch(text):
            if ",0" in text:
                return (self.each.convert(text, param, ctx),)
            self.fail(
                f"{clipped(text)} may be one number or several: omit commas, or add spaces",
                param, ctx,
            )  # fmt: skip
        numbers = super().convert(value, param, ctx)
        if len(set(numbers)) < len(numbers):
            self.fail(f"{clipped(text)} contains a number twice", param, ctx)
        return numbers


class DateTime(click.ParamType):  # type: ignore[type-arg]
    """A moment with its offset from UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the moment."""
        if _MOMENT.fullmatch(value):
            with suppress(ValueError):  # such as the 30th of February
                return datetime.fromisoformat(value)
        return self.fail(f"{clipped(value)} is not a time such as 2026-01-31T12:00:00Z", param, ctx)


class LabelList(click.ParamType):  # type: ignore[type-arg]
    """Labels: a line of CSV, where 0..99 is a range of integers; or @FILE, one label per line.

    A label in quotes, or in a file, is not a range. Spaces around labels are ignored, as in tables.
    """

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the labels."""
        try:
            labels = _of_file(value[1:]) if value.startswith("@") else _of_line(value)
        except (OSError, ValueError) as error:
            self.fail(problem(error), param, ctx)
        if not all(label and is_printable(label) for label in labels):
            self.fail(f"labels must be printable and not empty, got {clipped(value)}", param, ctx)
        return labels


def _of_file(name: str) -> list[str]:
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{clipped(name)} is not UTF-8") from None
    return [line.strip() for line in text.removesuffix("\n").split("\n")]


def _of_line(text: str) -> list[str]:
    from ikos.data.domains import MAX_CATEGORIES

    cells = list(_CELL.finditer(text + ","))
    if "".join(cell[0] for cell in cells) != text + ",":
        raise ValueError(f"quotes must be around whole labels, got {clipped(text)}")
    labels: list[str] = []
    for quoted, unquoted in (cell.groups() for cell in cells):
        label = (unquoted if quoted is None else quoted.replace('""', '"')).strip()
        span = _RANGE.fullmatch(label) if quoted is None else None
        numbers = range(int(span[1]), int(span[2]) + 1) if span else ()
        most = MAX_CATEGORIES - len(labels)
        if quoted is None and ".." in label and not 1 < len(numbers) <= most:
            raise ValueError(
                f"ranges must be of ascending integers, {MAX_CATEGORIES} at most, got "
                f"{clipped(label)}; a label in quotes is not a range"
            )
        labels += map(str, numbers) if numbers else [label]
    return labels


class CoordinateList(LabelList):
    """The number of coordinates of vectors, or their names, none of which is a number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number or the names."""
        from ikos._validation import NUMBER

        names: list[str] = super().convert(value, param, ctx)
        if len(names) == 1:
            return Whole(1).convert(value, param, ctx)
        if numbers := [name for name in names if NUMBER.fullmatch(name)]:
            self.fail(f"names must not be numbers, got {clipped(numbers[0])}", param, ctx)
        return names


def check_labels(options: str, labels: list[str]) -> None:
    """Refuse fewer than two labels, equal ones, or an empty one."""
    from ikos.data.domains import CategoryLabels

    if len(labels) < 2 or "" in labels:
        listed = clipped(",".join(labels))
        raise click.UsageError(f"{options} must be two or more labels, got {listed}")
    CategoryLabels(options, labels)


class Named(click.Path):
    """A file or folder. An empty name is refused: an unset variable would name the current folder.

    Where ``piped`` is true, ``-`` is standard input.
    """

    def __init__(self, piped: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.piped = piped

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail(f"must name a {'folder' if self.dir_okay else 'file'}, got ''", param, ctx)
        return "/dev/stdin" if self.piped and value == "-" else super().convert(value, param, ctx)


BINS = Numbers(Number("-1e100", "1e100"))
BOUND = Number("-1e100", "1e100", kind=float)
CONFIDENCE = Number(above=0, below=1, kind=float)
COORDINATES = CoordinateList()
CORRUPT = Whole(high=10**6)
DELTA = Number("1e-300", below=1)
EPSILON = Number("1e-100", 10**6)
HONEST = Honest()
FILE = Named(dir_okay=False, path_type=Path)
FOLDER = Named(path_type=Path)
INTEGER = Number(-(1 << 65536), 1 << 65536, kind=int)
LABELS = LabelList()
MISSING = OnMissing(["refuse", "exclude"])
MODULUS = Whole(2, 1 << 65600)  # for sums of any number of such integers
MOMENT = DateTime()
NAME = {"analysis": click.Choice(ANALYSES), "shuffler": click.Choice(SHUFFLERS)}
NORM = Number(above=0, high="1e99", kind=float)
PORTIONS = Numbers(Number(above=0, below=1, kind=float))
POSITIVE = Number(above=0, high=10**6, kind=float)
SECONDS = Number(0, 10**6, kind=float)
SIGMA = Number(above=0, high=10**6)
SIGMAS = Cases(SIGMA)
SIZES = Numbers(Whole(1))
TABLE = Named(piped=True)
WHOLE = Whole(1, 1 << 53)
USERS = Cases(WHOLE)
