"""Public domains of users' values, scalars or vectors, not taken from the data.

A protocol's guarantee covers only vectors of its domain.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, ClassVar
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    NO_VALUE,
    NUMBER,
    InvalidValue,
    array,
    flag,
    integer,
    number,
    ordered,
    quote,
    real,
    refuse_missing,
    vector,
)
from ikos.data.sensitivity import Sensitivity
from ikos.primitives.modular import Zq, blocks

MAX_BOUND = 1e100

MAX_INTEGER = 1 << 52
"""Largest bound on integers: differences of two are exact in doubles."""

MAX_DIMENSION, MAX_CATEGORIES = 1 << 24, 1 << 20

TOLERANCE = 1e-9
"""Relative excess of a norm that is accepted as rounding; guarantees for a ball include it."""

MAX_RADIUS = 1e99
"""Largest radius of a ball: with the tolerance it is still within the largest bound."""

_BLOCK = 1 << 15  # entries checked at a time, in cache


def require(values: NDArray[Any], good: NDArray[np.bool_], first: int, what: str) -> None:
    """Refuse the first value, or entry of one, that is invalid; users count from ``first``."""
    if not good.all():
        row, *column = np.unravel_index(int(np.argmin(good)), good.shape)
        place = ", ".join(map(str, (first + int(row), *column)))
        lost = ", not missing" * bool(np.isnan(values[row, *column]).any())
        raise InvalidValue(f"x[{place}]", f"must {what}{lost}", row=first + int(row))


def checked_shape(shape: object, dimension: int) -> tuple[int, ...]:
    """Return the shape of values of ``dimension`` entries; an empty one is that of vectors."""
    axes = tuple(integer("shape", axis, low=1) for axis in ordered("shape", shape))
    if axes and math.prod(axes) != dimension:
        raise InvalidValue("shape", f"must have dimension = {dimension} entries, got {axes}")
    return axes or (dimension,)


class Domain(ABC):
    """A set of possible values of a user: scalars, vectors, or arrays of more axes.

    ``shape`` is that of a value, () for scalars, and ``dimension`` the number of its entries.
    Protocols read a value as a vector of its entries, the last axis fastest.
    """

    dimension: int
    shape: Sequence[int]

    @property
    def circumradius(self) -> float:
        """Bound on the Euclidean distance of a value from the middle of the bounds."""
        low, high = self.lower, self.upper  # type: ignore[attr-defined]
        return float((high - low) / 2 * math.sqrt(self.dimension))

    @abstractmethod
    def values(self, x: ArrayLike, first: int = 0) -> NDArray[Any]:
        """Return users' values, ``(k, *shape)``, checked and in the data's units: one row per user.

        The result is (k,) for scalars, else (k, dimension). Arrays of a suitable type, whose
        entries lie in this order, are not copied. Errors count users from ``first``.
        """

    @abstractmethod
    def value(self, x: ArrayLike) -> NDArray[Any]:
        """Return one user's value, checked, as an array of one."""

    def _rows(self, data: NDArray[Any]) -> NDArray[Any]:
        """Return users' values as rows; refuse those of another shape."""
        if data.shape[1:] != self.shape:
            wanted = ", ".join(map(str, ("users", *self.shape)))
            raise InvalidValue(
                "x", f"must have shape ({wanted}), a row for each user, got shape {data.shape}"
            )
        return data.reshape(len(data), self.dimension)

    def shaped(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows of ``dimension`` entries, or one, as values, ``(k, *shape)``: a view."""
        return rows.reshape(-1, *self.shape)

    @property
    def shape_parameter(self) -> dict[str, object]:
        """The shape by its name, if values are arrays of several axes; otherwise nothing.

        Parties must agree on it: the same sums are others' in another shape.
        """
        return {"shape": self.shape} if len(self.shape) > 1 else {}

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that make the domain, by name."""
        stated = (one.name for one in fields(self) if one.name != "shape")  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in stated} | self.shape_parameter


@dataclass(frozen=True)
class Bounds(Domain):
    """A public interval that contains every value; it must not be taken from the data.

    Its ends are within 1e100, and at least 1e-100 apart.
    """

    lower: float
    upper: float
    shape: ClassVar[tuple[int, ...]] = ()  # type: ignore[misc]

    def __post_init__(self) -> None:
        low = float(number("lower", self.lower, low=-MAX_BOUND, high=MAX_BOUND))
        high = float(number("upper", self.upper, low=-MAX_BOUND, high=MAX_BOUND))
        if not low < high:
            raise InvalidValue("upper", f"must be greater than lower = {low!r}, got {high!r}")
        if high - low < 1 / MAX_BOUND:
            raise ValueError(f"upper - lower must be at least 1e-100, got {high!r} and {low!r}")
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    def __str__(self) -> str:
        low, high = (repr(end).removesuffix(".0") for end in (self.lower, self.upper))
        return f"values in [{low}, {high}]"

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """One."""
        return 1

    @property
    def width(self) -> float:
        """``upper - lower``."""
        return self.upper - self.lower

    def value(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return one user's value, checked, as an array of one."""
        return self.values([x])  # type: ignore[arg-type]

    def rounding(self, steps: int) -> Fraction:
        """Return the largest variance of rounding a value to one of so many steps, in steps."""
        del steps
        return Fraction(1, 4)  # of a fair coin, halfway between two steps

    def precision(self, default: int, most: int = MAX_INTEGER) -> int:
        """Return the precision of an encoding for which none is requested, ``most`` or fewer."""
        del most
        return default

    def whole_steps(self, precision: object = None) -> int:
        """Return ``upper - lower``, the precision at which integers are encoded exactly.

        The bounds must be integers up to 2^52, and ``precision`` must be their difference or None.
        """
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if not bound.is_integer() or abs(bound) > MAX_INTEGER:
                problem = "must be an integer of at most 2^52 where values are integers"
                raise InvalidValue(name, f"{problem}, got {bound!r}")
        steps = int(self.upper) - int(self.lower)
        if precision is not None and precision != steps:
            raise InvalidValue(
                "precision",
                f"must be upper - lower = {steps} where values are integers, got {precision!r}",
            )
        return steps

    def values(self, x: ArrayLike, first: int = 0) -> NDArray[np.float64]:
        """Return values, (k,), as doubles, checked and in the data's units.

        Booleans are 0 and 1; NaN is outside. A data frame may have one column.
        """
        data = real("x", x, first)
        if data.ndim != 1:
            data = vector("x", x, data)
        values = data.astype(np.float64, copy=False)
        if values.size and not (  # NaN if there is one, and NaN fails every comparison
            np.minimum.reduce(values) >= self.lower and np.maximum.reduce(values) <= self.upper
        ):
            inside = (values >= self.lower) & (values <= self.upper)
            require(values, inside, first, f"be in [{self.lower:g}, {self.upper:g}]")
        return values

    @np.errstate(under="ignore")
    def unit(
        self, values: NDArray[np.float64], out: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return checked values as fractions, in [0, 1], of the way from ``lower`` to ``upper``.

        They are written to ``out`` if it is given, except that values between bounds of 0 and 1 are
        returned as they are.
        """
        if out is not None and self.lower == 0 and self.upper == 1:
            return values
        distance = np.subtract(values, self.lower, out=out)
        return np.divide(distance, self.upper - self.lower, out=distance)

    def total(self, parts: Fraction | float, users: int) -> float:
        """Return the sum over ``users`` in the data's units, from the sum of their fractions."""
        span = Fraction(self.upper) - Fraction(self.lower)
        return float(users * Fraction(self.lower) + span * Fraction(parts))

    def totals(
        self, steps: list[int], precision: int, users: int, offset: Fraction = Fraction(0)
    ) -> list[float]:
        """Return the same for many sums of fractions, each a number of steps of 1 / precision.

        The numbers are too large by an ``offset``.
        """
        step = (Fraction(self.upper) - Fraction(self.lower)) / precision
        least = users * Fraction(self.lower) - offset * step
        over = math.lcm(least.denominator, step.denominator)
        a, b = int(least * over), int(step * over)
        return [(a + b * z) / over for z in steps]  # each division is rounded once


@dataclass(frozen=True)
class IntegerBounds(Bounds):
    """Bounds on integers: both are integers up to 2^52, and other values are refused.

    Examples
    --------
    >>> IntegerBounds(0, 5).values([3, 0.5])
    Traceback (most recent call last):
    ...
    ikos.InvalidValue: x[1] must be an integer
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.whole_steps()

    def __str__(self) -> str:
        return super().__str__().replace("values", "integers")

    def values(self, x: ArrayLike, first: int = 0) -> NDArray[np.float64]:
        """Return values as `Bounds.values`; also refuse those that are not integers."""
        return whole(super().values(x, first), first)

    def rounding(self, steps: int) -> Fraction:
        """Return the largest variance of rounding a value to one of so many steps, in steps.

        It is 0 at multiples of ``upper - lower``.
        """
        # In lowest terms steps / width is a / m, and the value lower + j is at j a / m steps, whose
        # fraction takes each f = i / m, as a is prime to m. f (1 - f) is largest nearest to 1/2.
        m = Fraction(steps, int(self.width)).denominator
        return Fraction(m // 2 * (m - m // 2), m * m)

    def precision(self, default: int, most: int = MAX_INTEGER) -> int:
        """Return ``upper - lower``, at which nothing is rounded, unless that is too large."""
        steps = self.whole_steps()
        return steps if steps <= most else default


def number_bounds(lower: float, upper: float, integers: object) -> Bounds:
    """Return bounds on numbers, or on integers."""
    return (IntegerBounds if flag("integers", integers) else Bounds)(lower, upper)


def whole(values: NDArray[np.float64], first: int = 0) -> NDArray[np.float64]:
    """Return values; refuse the first that is not an integer."""
    require(values, values == np.floor(values), first, "be an integer")
    return values


@dataclass(frozen=True)
class Coordinates:
    """The properties of a domain that an encoding uses.

    ``exact`` means that all coordinates are integers between their ``bounds``. ``promise`` bounds
    the distance between two vectors of a user, in the data's units, more tightly than the bounds
    do; it is ``promised``, and checked, if it does not follow from the domain.
    """

    bounds: Bounds
    exact: bool
    promise: Sensitivity | None
    promised: bool = False


@dataclass(frozen=True)
class Vectors(Domain):
    """A set of vectors, none of which contains NaN, or of arrays with their entries."""

    shape: Sequence[int] = field(default=(), kw_only=True)

    def __repr__(self) -> str:
        stated = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({stated})"

    @abstractmethod
    def coordinates(self, integers: bool, sensitivity: Sensitivity | None) -> Coordinates:
        """Return the bounds of each coordinate and the sensitivity, given a promised one."""

    @abstractmethod
    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        """Raise ValueError for the first row outside the domain; rows count from ``first``."""

    def _set(self, **checked: Any) -> None:
        """Replace fields by what their checks return."""
        d = integer("dimension", self.dimension, low=1, high=MAX_DIMENSION)
        checked = {"dimension": d, "shape": checked_shape(self.shape, d), **checked}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _require(self, rows: NDArray[Any], good: NDArray[np.bool_], first: int, what: str) -> None:
        """Refuse the first invalid row, or entry of one, by its place among values."""
        require(self.shaped(rows), self.shaped(good) if good.ndim > 1 else good, first, what)

    def values(self, x: ArrayLike, first: int = 0) -> NDArray[Any]:
        """Return values, ``(k, *shape)``, checked, in the data's type and units, (k, dimension)."""
        data = self._rows(real("x", x, first))
        for part in blocks(data.shape[0], max(1, _BLOCK // self.dimension)):
            self._check(data[part].astype(np.float64, copy=False), first + part.start)
        return data

    def value(self, x: ArrayLike) -> NDArray[Any]:
        """Return one user's value, checked, as an array of one row."""
        row = array("x", x)
        if row.ndim != len(self.shape):
            size = " x ".join(map(str, self.shape))
            raise InvalidValue("x", f"must be one vector of {size}, got shape {row.shape}")
        return self.values(row[np.newaxis])


@dataclass(frozen=True, repr=False)
class Box(Vectors):
    """Vectors whose coordinates each lie between the same public bounds, as ``Bounds``.

    With a ``shape`` of ``dimension`` entries, values are matrices or tensors: those of k users have
    shape ``(k, *shape)``, and results the ``shape``. All else is as for vectors of their entries.

    Examples
    --------
    >>> Box(2).values([[0.5, -1.0]])
    Traceback (most recent call last):
    ...
    ikos.InvalidValue: x[0, 1] must be in [0, 1]
    >>> Box(4, shape=(2, 2)).values([[[0.5, 0.0], [1.0, 0.5]]])  # one user's matrix
    array([[0.5, 0. , 1. , 0.5]])
    """

    dimension: int
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        self._set(lower=self.bounds.lower, upper=self.bounds.upper)

    @property
    def bounds(self) -> Bounds:
        """The bounds of each coordinate."""
        return Bounds(self.lower, self.upper)

    def coordinates(self, integers: bool, sensitivity: Sensitivity | None) -> Coordinates:
        """Return the bounds and the promised sensitivity."""
        return Coordinates(self.bounds, integers, sensitivity, sensitivity is not None)

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        inside = (rows >= self.lower) & (rows <= self.upper)  # False for NaN
        self._require(rows, inside, first, f"be in [{self.lower:g}, {self.upper:g}]")


@dataclass(frozen=True, repr=False)
class Ball(Vectors):
    """Vectors of bounded Euclidean norm, such as clipped gradients.

    The ``radius`` is at most 1e99. A relative excess of 1e-9 is accepted as rounding. A ``shape``
    is as for `Box`; the norm is that of all entries, for matrices the Frobenius norm.

    Examples
    --------
    >>> Ball(2).values([[1.0, 1.0]])
    Traceback (most recent call last):
    ...
    ikos.InvalidValue: x[0] must have a norm of at most 1; clip it with ikos.vectors.clip
    """

    dimension: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        self._set(radius=float(number("radius", self.radius, low=1 / MAX_BOUND, high=MAX_RADIUS)))

    @property
    def circumradius(self) -> float:
        """Bound on the Euclidean norm."""
        return self.radius

    @property
    def reach(self) -> float:
        """Largest norm with the tolerance."""
        return self.radius * (1 + 2 * TOLERANCE)

    @property
    def lower(self) -> float:
        """Smallest value of a coordinate."""
        return -self.radius

    @property
    def upper(self) -> float:
        """Largest value of a coordinate."""
        return self.radius

    def coordinates(self, integers: bool, sensitivity: Sensitivity | None) -> Coordinates:
        """Return the bounds and the diameter, with the tolerance."""
        _refuse_promise(sensitivity)
        if integers:
            raise InvalidValue("integers", "must be False for a Ball; use a Box for integers")
        bounds = Bounds(-self.reach, self.reach)
        return Coordinates(bounds, False, Sensitivity(l2=2 * self.reach, proved=True))

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        self._require(rows, np.isfinite(rows), first, "be finite")
        # Scaled first, so that squares neither overflow nor vanish. For every dimension d, the
        # relative error of a norm, d 2^-52, is below the tolerance.
        with np.errstate(under="ignore"):
            inside = np.linalg.norm(rows / self.radius, axis=1) <= 1 + TOLERANCE
        problem = f"have a norm of at most {self.radius:g}; clip it with ikos.vectors.clip"
        self._require(rows, inside, first, problem)


@dataclass(frozen=True, repr=False)
class SparseTernary(Vectors):
    """Vectors of -1, 0 and 1, at most ``sparsity`` not 0: key-value data, ternary gradients.

    A ``shape`` is as for `Box`.
    """

    dimension: int
    sparsity: int
    lower: ClassVar[float] = -1.0
    upper: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        self._set()
        self._set(sparsity=integer("sparsity", self.sparsity, low=1, high=self.dimension))

    def coordinates(self, integers: bool, sensitivity: Sensitivity | None) -> Coordinates:
        """Return the bounds, and twice as many changes as entries."""
        del integers
        _refuse_promise(sensitivity)
        return Coordinates(
            Bounds(-1, 1), True, Sensitivity(l1=2 * self.sparsity, linf=2, proved=True)
        )

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        signs = (rows == 0) | (rows == 1) | (rows == -1)  # False for NaN
        self._require(rows, signs, first, "be -1, 0 or 1")
        sparse = np.count_nonzero(rows, axis=1) <= self.sparsity
        self._require(rows, sparse, first, f"have at most {self.sparsity} entries that are not 0")


@dataclass(frozen=True, repr=False)
class Runs(Vectors):
    """Vectors whose entries are in runs of the given ``sizes``."""

    sizes: Sequence[int]
    lower: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        sizes = tuple(integer("sizes", size, low=1) for size in ordered("sizes", self.sizes))
        integer("sizes in all", sum(sizes), low=1, high=MAX_CATEGORIES)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "shape", checked_shape(self.shape, self.dimension))

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Number of entries of all runs together."""
        return sum(self.sizes)

    @property
    def runs(self) -> list[slice]:
        """The entries of each run."""
        return [slice(*ends) for ends in pairwise(accumulate(self.sizes, initial=0))]

    def _entries(self, run: slice) -> str:
        """Return the first and last place of a run in words."""
        entries = (np.unravel_index(entry, self.shape) for entry in (run.start, run.stop - 1))
        ends = (tuple(map(int, entry)) for entry in entries)
        low, high = (end if self.shape_parameter else end[0] for end in ends)
        return f"its entries {low} to {high}"


@dataclass(frozen=True, repr=False)
class Categories(Runs):
    """One-hot vectors: one 1 for each question, in a run of coordinates with one per category.

    ``sizes`` are the numbers of categories of the questions. A ``shape`` is as for `Box`: one cell
    of a grid is one question, in ``Categories([100], shape=(10, 10))``.
    """

    upper: ClassVar[float] = 1.0

    def coordinates(self, integers: bool, sensitivity: Sensitivity | None) -> Coordinates:
        """Return the bounds, and two changes for each question."""
        del integers
        _refuse_promise(sensitivity)
        return Coordinates(
            Bounds(0, 1), True, Sensitivity(l1=2 * len(self.sizes), linf=1, proved=True)
        )

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        self._require(rows, (rows == 0) | (rows == 1), first, "be 0 or 1")  # False for NaN
        for run in self.runs:
            problem = f"have exactly one 1 among {self._entries(run)}"
            self._require(rows, rows[:, run].sum(axis=1) == 1, first, problem)


@dataclass(frozen=True, repr=False)
class Portions(Runs):
    """Vectors of integers of at least 0 that add up to at most ``total`` in each run.

    Such as a user's value and the rest of its range at the places of the user's group, or a 1 at a
    node on each level of a tree. ``sizes`` are the numbers of entries of the runs.

    Examples
    --------
    >>> Portions([3], 10).values([[7, 3, 0], [7, 4, 0]])
    Traceback (most recent call last):
    ...
    ikos.InvalidValue: x[1] must add up to at most 10 over its entries 0 to 2
    """

    total: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "total", integer("total", self.total, low=1, high=MAX_INTEGER))

    @property
    def upper(self) -> float:
        """Largest value of an entry."""
        return float(self.total)

    def coordinates(self, integers: bool, sensitivity: Sensitivity | None) -> Coordinates:
        """Return the bounds, and for each run a distance of at most twice the total.

        Entries are at least 0: the distance of two vectors in l1 norm is at most the sum of their
        norms, and in a run of one entry at most the total.
        """
        del integers
        _refuse_promise(sensitivity)
        apart = sum(min(size, 2) for size in self.sizes) * self.total
        return Coordinates(
            Bounds(0, self.total), True, Sensitivity(l1=apart, linf=self.total, proved=True)
        )

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        whole = (rows >= 0) & (rows == np.floor(rows))  # False for NaN
        self._require(rows, whole, first, "be an integer of at least 0")
        for run in self.runs:
            # a sum of integers is exact up to 2^53, and above it more than the total
            small = rows[:, run].sum(axis=1) <= self.total
            problem = f"add up to at most {self.total} over {self._entries(run)}"
            self._require(rows, small, first, problem)


def _refuse_promise(sensitivity: Sensitivity | None) -> None:
    """Refuse a promise about a domain that bounds the sensitivity itself."""
    if sensitivity is not None:
        raise InvalidValue("sensitivity", "must be None: it follows from the domain")


@dataclass(frozen=True)
class Residues(Domain):
    """The values of secure sums: integers modulo q, or from 0 to ``upper``; one per user."""

    group: Zq
    upper: int | None
    dimension: ClassVar[int] = 1  # type: ignore[misc]
    shape: ClassVar[tuple[int, ...]] = ()  # type: ignore[misc]

    def values(self, x: Any, first: int = 0) -> NDArray[Any]:
        """Return checked values as group elements; the first is user number ``first``'s."""
        data = list(x) if isinstance(x, range) else x
        return vector("x", x, self.group.elements(data, first=first, upper=self.upper))

    def value(self, x: Any) -> NDArray[Any]:
        """Return one user's value, checked, as an array of one."""
        return self.values([x])


@dataclass(frozen=True)
class ResidueVectors(Residues):
    """Vectors of ``dimension`` integers, as `Residues`, or arrays of a ``shape``."""

    dimension: int  # type: ignore[misc]
    shape: Sequence[int] = field(default=(), kw_only=True)  # type: ignore[assignment,misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", checked_shape(self.shape, self.dimension))

    def values(self, x: Any, first: int = 0) -> NDArray[Any]:
        """Return rows with each entry checked; the first is user number ``first``'s."""
        refuse_missing("x", x)
        data = np.asarray(x, dtype=object) if isinstance(x, (list, tuple)) else np.asarray(x)
        data = self._rows(data)
        most = self.group.q - 1 if self.upper is None else self.upper
        good = data.dtype.kind in "biu" and 0 <= data.min(initial=0) <= data.max(initial=0) <= most
        for place, column in () if good else zip(np.ndindex(*self.shape), data.T, strict=True):
            name = f"x[:, {', '.join(map(str, place))}]"
            self.group.elements(column, name, first, self.upper)
        return data


class CategoryLabels:
    """Distinct strings that name categories, and the positions of other strings among them.

    Two decimal numbers are the same if they are equal, exactly: 1.0 and 01 are 1. Other strings are
    the same if their characters are, accents composed (NFC).
    """

    OTHER, MISSING = -1, -2

    def __init__(self, name: str, labels: Sequence[str]) -> None:
        keys = list(map(self.key, labels))
        self._numbers = not any(isinstance(key, str) for key in keys)
        self._places = {key: place for place, key in enumerate(keys)}
        if len(self._places) != len(keys):
            raise InvalidValue(name, f"must be distinct, also as numbers, got {quote(labels)}")

    @staticmethod
    def key(text: str) -> str | Decimal:
        """Return what two strings have in common if they are the same."""
        # whatever a caller has set, exact; or if an exponent is too long NaN, which equals nothing
        number = Decimal(text, Context(traps=[])) if NUMBER.fullmatch(text) else None
        return normalize("NFC", text) if number is None else number

    def _place(self, text: str) -> int:
        place = self._places.get(self.key(text), self.OTHER)
        lost = not text or (self._numbers and text.casefold() in NO_VALUE)
        return self.MISSING if lost and place == self.OTHER else place

    def places(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the position of each string, `OTHER`, or `MISSING` for one that means no value."""
        places = {text: self._place(text) for text in set(texts)}
        return np.fromiter(map(places.__getitem__, texts), np.int64, len(texts))
