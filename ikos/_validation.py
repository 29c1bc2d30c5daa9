"""Checks of arguments, shared by all public functions.

Each check returns the value in the type that the caller computes with, or raises an `InvalidType`
(wrong kind) or `InvalidValue` (out of range) that names the parameter and quotes the value. For
users' data, messages give a value's position and never the value: errors end up in logs.
"""

from __future__ import annotations

import copyreg
import math
import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T")

MAX_COUNTED_USERS = 10**100  # largest n for which messages are counted
MAX_MASKED_USERS = 1 << 40
MAX_PROTOCOL_USERS = 10**9  # largest n of other accountants
MAX_SIMULATED_USERS = 1 << 18  # largest n of attacks: the counts of tuples are exact
"""Most users; a larger number is taken for a mistake."""

NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A decimal number. float() accepts more: nan, inf, 1_000, and the digits of every script."""

NO_VALUE = {"", "nan", "na", "n/a", "null", "none"}
"""Strings, in lower case, that programs write for missing numbers."""


class Invalid(Exception):  # noqa: N818
    """An invalid argument: the common part of `InvalidValue` and `InvalidType`."""

    def __init__(
        self,
        parameter: str | None,
        what: str,
        *,
        row: int | None = None,
        advice: Sequence[tuple[str, object, str]] = (),
    ) -> None:
        words = " ".join(filter(None, (parameter, what)))
        effects = (f"{argument}={value!r} {effect}" for argument, value, effect in advice)
        super().__init__("; ".join((words, *effects)))
        self.parameter, self.what, self.row, self.advice = parameter, what, row, advice

    def __reduce__(self) -> tuple[Any, ...]:
        new = copyreg.__newobj__  # type: ignore[attr-defined]
        return new, (type(self), *self.args), self.__dict__


class InvalidValue(Invalid, ValueError):  # noqa: N818
    """An argument is out of range: a ValueError, in parts that programs read.

    Attributes
    ----------
    parameter : str or None
        The parameter, or the place in it, such as ``x[3]``, with which the message begins.
    what : str
        The rest of the message.
    row : int or None
        For users' values: the index of the user whose value is invalid, in the values of the call.
    advice : sequence of (str, object, str)
        Arguments that would help: parameter, value, and its effect.

    Examples
    --------
    >>> import ikos
    >>> try:
    ...     ikos.Box(2).values([[0.5, 1.0], [0.5, -1.0]])
    ... except ikos.InvalidValue as error:
    ...     print(error, "->", error.row)
    x[1, 1] must be in [0, 1] -> 1
    """

    __module__ = "ikos"


class InvalidType(Invalid, TypeError):  # noqa: N818
    """An argument is of the wrong kind: a TypeError, otherwise as `InvalidValue`."""

    __module__ = "ikos"


def quote(value: object) -> str:
    """Return a short line that shows ``value`` in an error message."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
        if isinstance(value, Fraction):  # as a decimal, if that is exact
            text = repr(float(value)).removesuffix(".0")
            text = text if Fraction(text) == value else str(value)
    except (ValueError, OverflowError):  # more digits than Python writes or a double holds
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def ordered(name: str, value: object) -> Iterable[Any]:
    """Return the items of an ordered collection; a set and a string are not."""
    if isinstance(value, (str, bytes, Set, Mapping)) or not isinstance(value, Iterable):
        raise InvalidType(name, f"must be a sequence, got {type(value).__name__} {quote(value)}")
    return value


def integer(name: str, value: object, *, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as a Python ``int`` within ``[low, high]``; numpy integers are allowed."""
    if isinstance(value, (bool, np.bool_)):
        raise InvalidType(name, f"must be an integer, got the boolean {value!r}")
    try:
        result = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        kind = type(value).__name__
        raise InvalidType(name, f"must be an integer, got {kind} {quote(value)}") from None
    if low is not None and result < low:
        raise InvalidValue(name, f"must be at least {quote(low)}, got {quote(result)}")
    if high is not None and result > high:
        raise InvalidValue(name, f"must be at most {quote(high)}, got {quote(result)}")
    return result


def rational(name: str, value: object) -> Fraction:
    """Return the exact value of an ``int``, ``Fraction`` or finite ``float``."""
    if isinstance(value, (bool, np.bool_)):
        raise InvalidType(name, f"must be a number, got the boolean {value!r}")
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            raise InvalidValue(name, f"must be finite, got {float(value)!r}")
        return Fraction(*value.as_integer_ratio())
    if isinstance(value, (Rational, np.integer)):
        return Fraction(int(value.numerator), int(value.denominator))
    raise InvalidType(
        name, f"must be an int, a Fraction or a float, got {type(value).__name__} {quote(value)}"
    )


def number(
    name: str,
    value: object,
    *,
    above: float | Fraction | None = None,
    below: float | Fraction | None = None,
    low: float | Fraction | None = None,
    high: float | Fraction | None = None,
) -> Fraction:
    """Return the exact value of a finite number within open or closed bounds."""
    result = rational(name, value)
    for bound, outside, relation in (
        (above, operator.le, "greater than"),
        (below, operator.ge, "less than"),
        (low, operator.lt, "at least"),
        (high, operator.gt, "at most"),
    ):
        if bound is not None and outside(result, bound):
            raise InvalidValue(name, f"must be {relation} {float(bound):g}, got {quote(value)}")
    return result


def choice(name: str, value: object, allowed: Collection[str]) -> str:
    """Return ``value`` if it is one of the ``allowed`` strings."""
    if not isinstance(value, str):
        raise InvalidType(name, f"must be a string, got {type(value).__name__} {quote(value)}")
    if value not in allowed:
        options = ", ".join(repr(option) for option in allowed)
        raise InvalidValue(name, f"must be one of {options}, got {value!r}")
    return value


def flag(name: str, value: object) -> bool:
    """Return ``value`` if it is a boolean."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidType(name, f"must be True or False, got {type(value).__name__} {quote(value)}")
    return bool(value)


def refuse_missing(name: str, x: _T) -> _T:
    """Return ``x``; refuse masked values, also in lists, because masks would be ignored."""
    if isinstance(x, (list, tuple)) and any(
        issubclass(kind, (np.ma.MaskedArray, list, tuple)) for kind in set(map(type, x))
    ):
        for row in x:
            refuse_missing(name, row)
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise InvalidValue(name, "must not hold masked values")
    return x


def array(name: str, x: object) -> NDArray[Any]:
    """Return ``x`` as an array; refuse masked values."""
    return np.asarray(refuse_missing(name, x))


def doubles(name: str, x: object) -> NDArray[np.float64]:
    """Return an array of real numbers as doubles; those too large for a double become infinite."""
    values = array(name, x)
    if values.dtype.kind not in "iuf":
        raise InvalidType(name, f"must hold real numbers, got an array of {values.dtype}")
    with np.errstate(over="ignore"):
        return values.astype(np.float64)


def real(name: str, x: object, first: int = 0) -> NDArray[Any]:
    """Return ``x`` as an array of real numbers; errors count its entries from ``first``.

    Booleans are 0 and 1; decimals and fractions that are whole count as integers.
    """
    values = array(name, x)
    if values.dtype.kind in "iuf":
        return values
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    # the entries before conversion: a single string would turn all numbers of an array into strings
    entries = x if isinstance(x, np.ndarray) else np.asarray(x, dtype=object)
    converted = np.empty(entries.shape, dtype=object)
    for index, value in np.ndenumerate(entries):
        exact = value
        if not isinstance(value, float | np.floating):  # missing ones: NaN, which domains refuse
            exact = math.nan if index and missing(value) else whole_number(value)
        converted[index] = exact
        if exact is None or (isinstance(exact, int) and not -(1 << 63) <= exact < 1 << 64):
            place = ", ".join(map(str, (index[0] + first, *index[1:]))) if index else ""
            what = "a float, or an integer of 64 bits at most" if index else "an array"
            where = f"{name}[{place}]" if index else name
            row = int(index[0]) + first if index else None
            raise InvalidType(where, f"must be {what}, got {type(value).__name__}", row=row)
    return np.array(converted.tolist())


def missing(value: Any) -> bool:
    """Whether an entry is None, NaN, NaT or NA; the last does not say whether it equals itself."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True
    except ValueError:  # an array
        return False


def reject_missing(name: str, values: Iterable[Any], wanted: str, first: int = 0) -> None:
    """Refuse missing entries, with positions from ``first``; ``wanted`` describes valid ones."""
    for place, value in enumerate(values, first):
        if missing(value):
            raise InvalidValue(f"{name}[{place}]", f"must be {wanted}, not missing", row=place)


def text_of(value: Any) -> str:
    """Return an entry as a string without surrounding blanks, empty if it is missing.

    Floats of fewer bits become the double that equals them, as wherever they are numbers.
    """
    value = value.item() if isinstance(value, np.floating) else value
    return "" if missing(value) else str(value).strip()


def whole_number(value: Any) -> int | None:
    """Return the integer equal to an entry of an object array, or None."""
    with suppress(TypeError, ValueError, OverflowError):  # not a number, or not finite
        if isinstance(value, np.bool_ | Fraction | Decimal):
            return int(value) if value == int(value) else None
        return operator.index(value)
    return None


def vector(name: str, x: object, values: NDArray[Any]) -> NDArray[Any]:
    """Return ``x`` as an array of one value per user; a data frame may have one column."""
    if values.ndim == 2 and values.shape[1] == 1 and hasattr(x, "columns"):
        return values[:, 0]
    if values.ndim != 1:
        raise InvalidValue(
            name,
            f"must be one-dimensional, got shape {values.shape}: give one value per user "
            "(an iterator yields arrays of them)",
        )
    return values


def validate_users(users: object, n: int) -> int:
    """Return a number of users from 1 to n; ``None`` means n."""
    return n if users is None else integer("users", users, low=1, high=n)


def floating(value: Fraction) -> float:
    """Return a rational of at least 0 as a float; infinite from 2^1000 on."""
    return float(value) if value < 1 << 1000 else math.inf


def round_up(value: Fraction) -> float:
    """Return the smallest float that is at least a rational."""
    result = float(value)
    return math.nextafter(result, math.inf) if Fraction(result) < value else result


def round_down(value: Fraction) -> float:
    """Return the largest float that is at most a rational."""
    return -round_up(-value)
