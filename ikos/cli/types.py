"""Values on the command line: exact decimals, finite numbers, integers written as powers.

What is out of range is refused in the library's words: ``--option must be ..., got ...``.
"""

from __future__ import annotations

import errno
import math
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from ikos.cli.errors import clipped
from ikos.cli.names import ANALYSES, SHUFFLERS
from ikos.cli.output import MAX_EXACT, power_text

if TYPE_CHECKING:
    Base = click.ParamType[Any]
else:
    Base = click.ParamType  # not subscriptable in older versions

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,9}))?")
_DIGITS = re.compile(r"[0-9]+")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_POWER = re.compile(r"([0-9]{1,30})(?:\^|\*\*)([0-9]{1,99})(?:([+-])([0-9]{1,30}))?")
_SCIENTIFIC = re.compile(r"([0-9]{1,30})(?:\.([0-9]{0,30}))?[eE]\+?([0-9]{1,99})")
_SIGNED_POWER = re.compile(r"([+-]?)([0-9]{1,30})(?:\^|\*\*)([0-9]{1,99})([+-][0-9]{1,30})?")
MAX_BITS = 1 << 22
MAX_EXPONENT = 320
_MAX_POWER_BITS = 1280  # as many decimal digits as MAX_EXPONENT, by the bits of their base


def _refuse(
    rule: str, text: str, param: click.Parameter | None, ctx: click.Context | None
) -> NoReturn:
    name = max(param.opts, key=len) if param is not None else "the value"
    raise click.UsageError(f"{name} must be {rule}, got {_clipped(text)}", ctx)


class Decimal(Base):
    """An exact decimal number, such as 0.1, 1e-9, 3, 10^6 or -2^53+1, within bounds.

    Parameters
    ----------
    above, below : str, optional
        Excluded bounds.
    low, high : str, optional
        Included bounds.
    grouped : bool, optional
        Whether 1,000 is a thousand: only where the number is whole, or it might be a one.
    """

    name = "number"

    def __init__(
        self,
        above: str | None = None,
        below: str | None = None,
        low: str | None = None,
        high: str | None = None,
        *,
        grouped: bool = False,
    ) -> None:
        self.above = above
        self.below = below
        self.low = low
        self.high = high
        self.grouped = grouped

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        """Return the exact value."""
        if isinstance(value, Fraction):
            return value
        text = str(value).strip()
        try:
            result = _decimal(text, self.grouped)
        except OverflowError:
            self.fail(f"{clipped(text)} is too large or too small to compute with", param, ctx)
        if result is None:
            hint = "; write it without commas" if "," in text else ""
            if text.endswith("%"):
                hint = "; write 0.95 for 95 %"
            said = f"{clipped(text)} is not a decimal number such as 0.1 or 1e-9{hint}"
            self.fail(said, param, ctx)
        if self.above is not None and result <= Fraction(self.above):
            _refuse(f"greater than {self.above}", text, param, ctx)
        if self.low is not None and result < Fraction(self.low):
            _refuse(f"at least {self.low}", text, param, ctx)
        if self.below is not None and result >= Fraction(self.below):
            _refuse(f"less than {self.below}", text, param, ctx)
        if self.high is not None and result > Fraction(self.high):
            _refuse(f"at most {self.high}", text, param, ctx)
        return result


def _decimal(text: str, grouped: bool) -> Fraction | None:
    """Return the number that a text stands for, or None.

    Raises OverflowError for one beyond 10^±`MAX_EXPONENT` or so, without computing it.
    """
    if len(text) > 1000:
        return None
    if grouped and _GROUPED.fullmatch(text.lstrip("+-")):
        text = text.replace(",", "")
    if match := _DECIMAL.fullmatch(text):
        # Without this bound 1e999999999 would be computed, digit by digit.
        if abs(int(match[1] or 0)) > MAX_EXPONENT:
            raise OverflowError
        return Fraction(text)
    if match := _SIGNED_POWER.fullmatch(text):
        base, exponent = int(match[2]), int(match[3])
        if base.bit_length() * exponent > _MAX_POWER_BITS:
            raise OverflowError
        power = base**exponent
        return Fraction((-power if match[1] == "-" else power) + int(match[4] or 0))
    return None


class Bound(Decimal):
    """A bound of the data: a double of moderate size, so that sums and errors are finite."""

    def convert(  # type: ignore[override]
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the nearest double."""
        exact = super().convert(value, param, ctx)
        if exact and not Fraction("1e-100") <= abs(exact) <= Fraction("1e100"):
            self.fail(
                f"{clipped(str(value))} is neither 0 nor between 1e-100 and 1e100 in size",
                param,
                ctx,
            )
        return float(exact)


class Whole(Base):
    """A whole number: 1000000, 10^6, 10**6, 1e6 or 2^61-1.

    Parameters
    ----------
    low : int
        The smallest that is accepted.
    high : int, optional
        The largest that is accepted, by default one of 2^22 bits.
    """

    name = "integer"

    def __init__(self, low: int = 0, high: int | None = None) -> None:
        self.low = low
        self.high = high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the integer."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        try:
            result = _whole(text)
        except OverflowError:
            self.fail(f"{clipped(text)} is too large to compute with", param, ctx)
        if result is None and re.fullmatch(r"-\d+", text):
            _refuse(f"at least {self.low}", text, param, ctx)
        if result is None:
            self.fail(
                f"{clipped(text)} is not a whole number such as 1000, 10^6, 1e6 or 2^61-1",
                param,
                ctx,
            )
        if result < self.low:
            _refuse(f"at least {self.low}", text, param, ctx)
        if self.high is not None and result > self.high:
            most = power_text(self.high) if self.high > 1 << 64 else self.high
            _refuse(f"at most {most}", text, param, ctx)
        return result


def _whole(text: str) -> int | None:
    """Return the integer that a text stands for, or None.

    Raises OverflowError for one of more than `MAX_BITS` bits, without computing it.
    """
    if _GROUPED.fullmatch(text):  # as results are printed
        text = text.replace(",", "")
    if _DIGITS.fullmatch(text):
        if len(text) <= 4000:
            return int(text)
        import gmpy2

        result = int(gmpy2.mpz(text))
        return _bounded(result)
    if match := _POWER.fullmatch(text):
        base, exponent = int(match[1]), int(match[2])
        if base.bit_length() * exponent > MAX_BITS + 64:
            raise OverflowError
        offset = int(match[4] or 0)
        return _bounded(int(base**exponent + (-offset if match[3] == "-" else offset)))
    if match := _SCIENTIFIC.fullmatch(text):
        fraction, exponent = match[2] or "", int(match[3])
        shift = exponent - len(fraction.rstrip("0"))
        if exponent > 4000:
            raise OverflowError
        if shift >= 0:
            return int(int(match[1] + fraction.rstrip("0")) * 10**shift)
    return None


def _bounded(value: int) -> int:
    if value.bit_length() > MAX_BITS:
        raise OverflowError
    return value


class Honest(Base):
    """How many users are honest: a whole number, or their share as 80% or 0.8."""

    name = "integer|share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | Fraction:
        """Return the number, or the share of all users."""
        if isinstance(value, (int, Fraction)):
            return value
        text = str(value).strip()
        number = text.removesuffix("%").rstrip()
        match = _DECIMAL.fullmatch(number)
        if match is not None and len(text) <= 100 and abs(int(match[1] or 0)) <= MAX_EXPONENT:
            share = Fraction(number) / (100 if text.endswith("%") else 1)
            if text.endswith("%") and not 0 < share <= 1:
                _refuse("more than 0% and at most 100%", text, param, ctx)
            if text.endswith("%") or 0 < share < 1:
                return share
        if "." in text and "e" not in text.lower():
            _refuse("a whole number, or a share such as 80% or 0.8", text, param, ctx)
        try:
            if _whole(text) is None and not re.fullmatch(r"-\d+", text):
                self.fail(
                    f"{clipped(text)} is not a whole number such as 1000 or 10^6, or a share such "
                    "as 80% or 0.8",
                    param,
                    ctx,
                )
        except OverflowError:
            pass  # which is said below
        return Whole(low=1, high=MAX_EXACT).convert(text, param, ctx)

    @staticmethod
    def of(honest: int | Fraction | None, users: int) -> int:
        """Return how many of all users these are, a share rounded up; refuse more than all."""
        if honest is None:
            return users
        found = honest if isinstance(honest, int) else math.ceil(honest * users)
        if found > users:
            raise click.UsageError(f"--min-honest must be at most --users = {users}, got {found}")
        return found


class Delimiter(Base):
    r"""One character; a tab can be written \t or tab."""

    name = "character"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the character."""
        text = {"\\t": "\t", "tab": "\t"}.get(value, str(value))
        if ctx is not None and ctx.resilient_parsing:  # quickly, for a shell that completes
            return text
        from ikos.tables import check_delimiter

        try:
            check_delimiter(text)
        except ValueError as error:
            self.fail(str(error).removeprefix("delimiter "), param, ctx)
        return text


class Name(Base):
    """One of some names.

    Parameters
    ----------
    names : str
        Which there are.
    listed : bool, optional
        Whether the help shows them instead of ``NAME``.
    """

    name = "name"

    def __init__(self, *names: str, listed: bool = True) -> None:
        self.names = names
        self.listed = listed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        if value not in self.names:
            self.fail(f"{clipped(str(value))} is not one of {', '.join(self.names)}", param, ctx)
        return str(value)

    def get_metavar(
        self,
        param: click.Parameter,  # noqa: ARG002
        ctx: click.Context | None = None,  # noqa: ARG002
    ) -> str | None:
        """Return what the help shows."""
        return f"[{'|'.join(self.names)}]" if self.listed else None

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the names that begin so."""
        return [CompletionItem(name) for name in self.names if name.startswith(incomplete)]


class _File(Base):
    """The name of a file."""

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Let the shell complete names of files."""
        return [CompletionItem(incomplete, type="file")]


class Table(_File):
    """A CSV or Parquet file, a folder of such files, or ``-`` for CSV from standard input."""

    name = "table"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> str:
        """Return the name of a file or folder."""
        return "/dev/stdin" if value == "-" else str(value)


class Named(click.Path):
    """A file or folder; an empty name would be the current folder.

    Parameters
    ----------
    kind : str
        "file" or "folder".
    """

    def __init__(self, kind: str) -> None:
        super().__init__(path_type=Path)
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "" and param is not None:
            name = param.opts[0] if isinstance(param, click.Option) else self.kind.upper()
            raise click.UsageError(f"{name} must be the name of a {self.kind}, got ''", ctx)
        return super().convert(value, param, ctx)


class PlotFile(_File):
    """The name of a figure's file, which says its format."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, of a file that can be written as far as can be told."""
        path, shown = Path(value), clipped(str(value))
        if ctx is not None and ctx.resilient_parsing:  # quickly, for a shell that completes
            return path
        from ikos.plots.files import SUFFIXES, destination

        if path.name.lower() in SUFFIXES:
            self.fail(f"{shown} has no name before its suffix", param, ctx)
        if path.suffix.lower() not in SUFFIXES:
            self.fail(f"{shown} does not end in {', '.join(SUFFIXES)}", param, ctx)
        try:
            if str(value).endswith(os.sep):
                raise IsADirectoryError
            if not os.access(destination(path).parent, os.W_OK):
                raise PermissionError(errno.EACCES, "Permission denied")
        except IsADirectoryError:
            self.fail(f"{shown} is a folder", param, ctx)
        except OSError as error:
            reason = (error.strerror or "output error").lower()
            self.fail(f"{shown} cannot be written: {reason}", param, ctx)
        return path


def _clipped(text: str) -> str:
    """Return a number's text as it is, if that is short."""
    return text if len(text) <= 60 else text[:57] + "..."


BOUND = Bound()
CONFIDENCE = Decimal(above="0", below="1", high="0.9999999999999999")  # no double is between
CORRUPT = Whole(high=10**6)
DELIMITER = Delimiter()
DELTA = Decimal(above="0", low="1e-300", below="1")
EPSILON = Decimal(above="0", low="1e-100", high="1000000")
FILE = Named("file")
FOLDER = Named("folder")
HONEST = Honest()
INTEGER = Decimal(grouped=True)
MODULUS = Whole(low=2)
NAME = {
    "analysis": Name(*ANALYSES, listed=False),
    "shuffler": Name(*SHUFFLERS),
}
PLOT = PlotFile()
SECONDS = Decimal(low="0", high="1000000")
SIGMA = Decimal(above="0", high="1000000")
TABLE = Table()
WHOLE = Whole(low=1, high=MAX_EXACT)
