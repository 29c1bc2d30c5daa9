"""Command-line values without a click type: exact numbers, and shares of the users."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from ikos.cli.errors import clipped
from ikos.cli.output import power_text

ANALYSES = (
    "best", "higher_moments", "second_moment", "balle2020", "ghazi2020", "ishai2006", "exact",
)  # fmt: skip
"""The names in `ikos.counts`, which is slow to import, with "best" and its older name."""

SHUFFLERS = ("parallel", "single")

_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,9}))?")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+")
_POWER = re.compile(r"([+-]?)([0-9]{1,30})(?:\^|\*\*)([0-9]{1,99})([+-][0-9]{1,30})?")
_MAX_BITS = 1 << 22
_MAX_EXPONENT = 4000


class Number(click.ParamType):  # type: ignore[type-arg]  # not subscriptable in older versions
    """An exact number within bounds, the last two excluded: 1000, 10^6, 1e6, 2^61-1, 0.1 or 1e-9.

    It becomes an ``int`` (whole numbers only), a ``Fraction`` or a ``float``.
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
        text = value.strip()
        if self.kind is int and _GROUPED.fullmatch(text):  # elsewhere it might be a decimal comma
            text = text.replace(",", "")
        try:
            found = parsed(text)
        except OverflowError:
            self.fail(f"{clipped(text)} is too large or too small to compute with", param, ctx)
        if found is None or (self.kind is int and found.denominator != 1):
            whole = "whole number such as 1000, 10^6"
            such = whole if self.kind is int else "number such as 0.1, 1e-9"
            self.fail(f"{clipped(text)} is not a {such} or 2^61-1", param, ctx)
        for word, bound, holds in self.rules:
            if bound is not None and not holds(found, Fraction(bound)):
                name = max(param.opts, key=len) if param is not None else "the value"
                shown = bound if isinstance(bound, str) else power_text(bound)
                said = f"{name} must be {word} {shown}, got {clipped(text)[1:-1]}"
                raise click.UsageError(said, ctx)
        return self.kind(found)


def parsed(text: str) -> Fraction | None:
    """Return the number that a text stands for, or None; OverflowError if it is out of range."""
    if match := _PLAIN.fullmatch(text):
        if max(abs(int(match[1] or 0)), len(text)) > _MAX_EXPONENT:
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
    """How many users are honest: a whole number, or their share as 80% or 0.8."""

    name = "integer|share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or the share of all users."""
        text = str(value).strip()
        if text.endswith("%"):
            share = parsed(text[:-1].rstrip())
            if share is None or not 0 < share <= 100:
                self.fail(f"{clipped(text)} is not between 0% and 100%", param, ctx)
            return share / 100
        if text.lstrip("+").startswith(("0.", ".")):
            return Number(above=0, below=1).convert(text, param, ctx)
        return WHOLE.convert(text, param, ctx)

    @staticmethod
    def of(honest: int | Fraction | None, users: int) -> int:
        """Return a number of users, with a share rounded up."""
        if honest is None:
            return users
        return honest if isinstance(honest, int) else math.ceil(honest * users)


class BlockLength(click.Choice):  # type: ignore[type-arg]
    """How many coordinates are shuffled together: a whole number, or a name for it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number or the name."""
        if str(value)[:1].isdecimal():
            return Whole(1).convert(value, param, ctx)
        return super().convert(value, param, ctx)


class Named(click.Path):
    """A file or folder; an empty name, as of a variable that is not set, would be the folder here.

    Where ``piped`` is true, ``-`` is standard input.
    """

    def __init__(self, piped: bool = False, **how: Any) -> None:
        super().__init__(**how)
        self.piped = piped

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail(f"must name a {'folder' if self.dir_okay else 'file'}, got ''", param, ctx)
        return "/dev/stdin" if self.piped and value == "-" else super().convert(value, param, ctx)


BOUND = Number(-(10**100), 10**100, kind=float)
CORRUPT = Whole(high=10**6)
DELTA = Number("1e-300", below=1)
EPSILON = Number("1e-100", 10**6)
HONEST = Honest()
FILE = Named(dir_okay=False, path_type=Path)
FOLDER = Named(path_type=Path)
INTEGER = Number(kind=int)
MODULUS = Whole(2)
NAME = {"analysis": click.Choice(ANALYSES), "shuffler": click.Choice(SHUFFLERS)}
SIGMA = Number(above=0, high=10**6)
TABLE = Named(piped=True)
WHOLE = Whole(1, 1 << 53)
