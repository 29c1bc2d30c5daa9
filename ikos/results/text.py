"""Numbers for people, rounded in the safe direction."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

_WIDE = Context(prec=700, Emin=-(10**5), Emax=10**5, traps=[InvalidOperation])


def at_least(value: float | Fraction, digits: int) -> str:
    """Return a number to this many significant digits, rounded up.

    The text is at least the value, when read as a double for a float, exactly for a fraction.

    Examples
    --------
    >>> at_least(1e-8, 3), at_least(1.0000001e-8, 3), at_least(Fraction(1e-8), 3)
    ('1e-08', '1.01e-08', '1.01e-08')
    """
    return _directed(value, digits, ROUND_CEILING)


def at_most(value: float | Fraction, digits: int) -> str:
    """Return a number to this many significant digits, rounded down; otherwise as `at_least`."""
    return _directed(value, digits, ROUND_FLOOR)


def _directed(value: float | Fraction, digits: int, rounding: str) -> str:
    if isinstance(value, float):
        text = f"{value:.{digits}g}"
        if float(text) == value or not math.isfinite(value):
            return text
    above, below = map(Decimal, value.as_integer_ratio())
    context = _WIDE.copy()
    context.prec, context.rounding = digits, rounding
    return f"{float(context.divide(above, below)):.{digits}g}"


def hundredths(value: float) -> Decimal:
    """Return a level to two decimals, rounded down."""
    exact = Decimal.from_float(value)
    return exact if math.isinf(value) else exact.quantize(Decimal("0.01"), ROUND_FLOOR, _WIDE)


def percent(confidence: float) -> str:
    """Return a confidence in per cent, rounded down."""
    return f"{at_most(100 * Fraction(repr(confidence)), 6)} %"


def grouped(text: str) -> str:
    """Return the text of a number with its thousands separated, below 10^9 without an exponent.

    Examples
    --------
    >>> grouped("1.426e+05"), grouped("12345.50"), grouped("1e+09"), grouped("1e-08")
    ('142,600', '12,345.50', '1e+09', '1e-08')
    """
    number = Decimal(text)
    if not number.is_finite() or ("e" in text and not 1 <= number.copy_abs() < 10**9):
        return text
    return f"{number:,f}"


def figures(value: float, scale: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """Return a number to three significant digits of ``scale``, its uncertainty, for people.

    Without a scale (0 or infinite), or if it is far smaller than the number, all digits of the
    double are kept.
    """
    return grouped(_figures(value, scale, rounding))


def _figures(value: float, scale: float, rounding: str) -> str:
    short = f"{value:.10g}"
    double = short if float(short) == value else repr(float(value)).removesuffix(".0")
    if not (math.isfinite(value) and 0 < scale < math.inf):
        return double
    place = math.floor(math.log10(scale)) - 2
    step = Decimal((0, (1,), place if place > 15 else min(place, 0)))
    rounded = Decimal.from_float(value).quantize(step, rounding, _WIDE)
    text = f"{rounded if rounded else rounded.copy_abs():f}"
    if len(text) <= 18:
        return text
    # with an exponent, further digits are not those of the double
    return double if len(rounded.as_tuple().digits) > 17 else f"{rounded.normalize(_WIDE):e}"


class Printed:
    """A class that notebooks show as ``print`` does, not as a list of fields."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # set in each class, because the __repr__ of a dataclass would take precedence
        cls._repr_pretty_ = Printed._repr_pretty_  # type: ignore[method-assign]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002
        printer.text(str(self))
