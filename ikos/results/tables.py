"""Results as tables of estimates with intervals, in all forms in which they are shown."""

from __future__ import annotations

import html
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ikos.results.intervals import Interval, rounded
from ikos.results.report import plain, printable
from ikos.results.text import Printed

if TYPE_CHECKING:
    from ikos.results.sums import SumResult

__all__ = ["Estimate", "EstimateTable", "Results", "Tabular"]

CONFIDENCE = 0.95
"""The confidence of each interval of a table by itself."""

_SHOWN_ROWS = 20

_CELL = 'style="padding:.15em .8em;text-align:{};white-space:nowrap"'


class Estimate(NamedTuple):
    """An estimate, NaN if nothing is known, with the ends of its 95 % interval.

    Examples
    --------
    >>> print(Estimate(0.2, 0.123456, 0.234567))
    0.200 [0.123, 0.235]
    """

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        interval = Interval(self.low, self.high)
        return f"{rounded(self.estimate, interval)} {interval}"


@dataclass(frozen=True)
class EstimateTable:
    """Estimates in rows.

    Attributes
    ----------
    names
        The names of the labels of a row; none if a result is a single row.
    labels
        A tuple of labels for each row, to be iterated once.
    quantities
        For each quantity by name, the estimates in all rows, and their `Interval`.
    drawn
        The quantities that figures show by default; all if empty.
    units
        Rows with the same first so many labels have the same units.
    """

    names: tuple[str, ...]
    labels: Iterable[tuple[Hashable, ...]]
    quantities: Mapping[str, tuple[Any, Interval]]
    drawn: tuple[str, ...] = ()
    units: int = 0

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """Return an array for each quantity, and for the low and the high ends of its intervals."""
        return {
            name + end: np.atleast_1d(np.asarray(numbers, dtype=np.float64)).ravel()
            for name, (estimates, (low, high)) in self.quantities.items()
            for end, numbers in (("", estimates), ("_low", low), ("_high", high))
        }

    def keys(self) -> list[str]:
        """Return the names of the labels, changed where they would hide another key."""
        keys: list[str] = []
        for name in self.names:
            key = name
            while key in keys or key in self.columns():
                key += "_label"
            keys.append(key)
        return keys

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the labels and numbers of each row by their keys."""
        keys, columns = self.keys(), self.columns()
        numbers = zip(*(column.tolist() for column in columns.values()), strict=True)
        for label, row in zip(self.labels, numbers, strict=True):
            yield dict(zip((*keys, *columns), (*label, *row), strict=True))

    def estimates(self) -> Iterator[tuple[tuple[Hashable, ...], dict[str, Estimate]]]:
        """Yield the labels of each row, and its estimates by quantity."""
        columns = iter(self.columns().values())
        triples = [
            map(Estimate, *(column.tolist() for column in three))
            for three in zip(columns, columns, columns, strict=True)
        ]
        for label, row in zip(self.labels, zip(*triples, strict=True), strict=True):
            yield label, dict(zip(self.quantities, row, strict=True))


class Tabular(Printed, ABC):
    """A result that is a table of estimates: for notebooks, programs, data frames and figures.

    Notebooks show a table, ``print`` all that is known, and ``repr`` one line. All intervals have
    a confidence of 95 %, each by itself. ``result[label]`` is an `Estimate` of the row with the
    label, or if there are several quantities a dict of them by name; of several labels, it is
    ``result[first, second]``. A result without labels is indexed by quantity.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # set in each class, so that dataclasses do not define another
        cls.__repr__ = Tabular._line  # type: ignore[method-assign,assignment]

    @property
    @abstractmethod
    def _sum(self) -> SumResult:
        """The private sum from which everything was computed."""

    @abstractmethod
    def _table(self) -> EstimateTable:
        """Return the estimates with their labels."""

    def _line(self) -> str:
        table = self._table()
        if table.names:
            rows = next(iter(table.columns().values())).size
            what = f"{', '.join(table.quantities)} in {rows:,} row{'s' * (rows != 1)}"
        else:
            ((_, row),) = table.estimates()
            what = ", ".join(f"{name} {estimate}" for name, estimate in row.items())
        total = self._sum
        return f"<{type(self).__name__} of {total.users:,} users: {what}; {total.guarantee.budget}>"

    def __getitem__(self, label: Any) -> Any:
        table = self._table()
        rows = dict(table.estimates())
        if not table.names:
            return rows[()][label]
        row = rows[(label,)] if (label,) in rows else rows[label]
        return row if len(row) > 1 else next(iter(row.values()))

    def as_dict(self) -> dict[str, Any]:
        """Return the estimates and their guarantee as a dict of plain objects.

        ``rows`` has a dict for each row: its labels by name, and each quantity with the ends of its
        interval as ``mean``, ``mean_low`` and ``mean_high``. Estimates of which nothing is known
        are NaN.
        """
        total = self._sum
        return {
            "users": total.users,
            "guarantee": plain(total.guarantee),
            "proved": total.guarantee.proved,
            "warnings": total.warnings(),
            "cost": plain(total.cost),
            "confidence": CONFIDENCE,
            "rows": list(self._table().rows()),
        }

    def to_json(self) -> str:
        """Return `as_dict` as strict JSON: NaN is null, and other labels are their texts."""
        data = self.as_dict()
        data["rows"] = [
            {key: _json_label(value) for key, value in row.items()} for row in data["rows"]
        ]
        return json.dumps(plain(data), indent=2, allow_nan=False, ensure_ascii=False)

    def to_frame(self) -> Any:
        """Return a pandas data frame indexed by labels, with the columns of `as_dict`."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame() needs pandas: pip install pandas") from None
        table, names = self._table(), self._table().names
        labels = list(table.labels)
        index: Any = None
        if len(names) == 1:
            index = pd.Index([label for (label,) in labels], name=names[0], tupleize_cols=False)
        elif names:
            index = pd.MultiIndex.from_tuples(labels, names=names)
        return pd.DataFrame(table.columns(), index=index)

    def plot(self, *quantities: str) -> Any:
        """Return a matplotlib figure of estimates and intervals; needs the extra ``plot``.

        Parameters
        ----------
        *quantities : str
            What to draw, such as ``"mean"``; by default what says most.
        """
        # by name: the plots need results, and no result needs a plot until it is asked for one
        plots = importlib.import_module("ikos.plots.estimates")
        return plots.estimates_figure(self._table(), quantities, self._caption())

    def _caption(self) -> str:
        total = self._sum
        return f"{total.users:,} users, {total.guarantee.budget}\nlines are 95 % intervals"

    def _repr_html_(self) -> str:
        table, guarantee = self._table(), self._sum.guarantee
        rows = next(iter(table.columns().values())).size
        if table.names:
            head = [*table.names, *table.quantities]
            some = islice(table.estimates(), _SHOWN_ROWS)
            body = [(tuple(map(label_text, label)), row.values()) for label, row in some]
        else:
            head = ["", "estimate"]
            ((_, row),) = table.estimates()
            body = [((name,), {name: estimate}.values()) for name, estimate in row.items()]
        lines = [_html_row("th", map(_escaped, head), len(body[0][0]))]
        lines += [
            _html_row("td", (*map(_escaped, label), *map(_html_estimate, row)), len(label))
            for label, row in body
        ]
        notes = ["In brackets: 95 % intervals."]
        if rows > _SHOWN_ROWS:
            notes.insert(0, f"The first {_SHOWN_ROWS} of {rows:,} rows.")
        proof = guarantee.budget + f", by {guarantee.theorem}" * (not guarantee.vacuous)
        notes += [f"Beware: {warning}" for warning in self._sum.warnings()]
        conditions = "".join(f"<li>{_escaped(one)}</li>" for one in guarantee.conditions)
        return (
            f'<table style="border-collapse:collapse;color:inherit">{"".join(lines)}</table>'
            f"<p>{'<br>'.join(map(_escaped, (*notes, proof)))}</p><ul>{conditions}</ul>"
        )


def _json_label(value: Any) -> Any:
    """Return a label as JSON has it."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, str | int | float) else str(value)


def label_text(label: Hashable) -> str:
    """Return a label for people; None stands for missing values."""
    return "missing" if label is None else str(label)


def _escaped(text: object) -> str:
    return html.escape(printable(str(text)))


def _html_estimate(estimate: Estimate) -> str:
    number, interval = str(estimate).split(" ", 1)
    return f'{number} <small style="opacity:.75">{interval}</small>'


def _html_row(kind: str, cells: Iterable[str], labels: int) -> str:
    """Return a row of a table, whose labels are on the left, in the reader's own colours."""
    line = ' style="border-bottom:1px solid currentColor"' * (kind == "th")
    texts = (
        f"<{kind} {_CELL.format('left' if place < labels else 'right')}>{cell}</{kind}>"
        for place, cell in enumerate(cells)
    )
    return f"<tr{line}>{''.join(texts)}</tr>"


class Results(dict[Hashable, Any], Tabular):
    """Results of one release by name: a dict, and one table with the name as first label."""

    def __init__(
        self,
        by: str | tuple[str, ...],
        results: Iterable[tuple[Hashable, Any]],
        *,
        units: bool = False,
    ) -> None:
        """Take the results by labels named ``by``, or if that is a tuple by tuples of labels.

        Each has ``units`` of its own, or they are the same.
        """
        super().__init__(results)
        self._by, self._units = by, units

    @property
    def _sum(self) -> SumResult:
        first: SumResult = next(iter(self.values()))._sum
        return first

    def _table(self) -> EstimateTable:
        tables = {key: result._table() for key, result in self.items()}
        first = next(iter(tables.values()))
        columns = [table.columns() for table in tables.values()]
        joined = {key: np.concatenate([some[key] for some in columns]) for key in columns[0]}
        names = (self._by,) if isinstance(self._by, str) else self._by
        return EstimateTable(
            (*names, *first.names),
            (
                (*((key,) if isinstance(self._by, str) else cast(Any, key)), *label)
                for key, table in tables.items()
                for label in table.labels
            ),
            {
                name: (joined[name], Interval(joined[f"{name}_low"], joined[f"{name}_high"]))
                for name in first.quantities
            },
            first.drawn,
            int(self._units),
        )

    def __str__(self) -> str:
        lines = [f"{key}: {line}" for key, result in self.items() for line in result._lines()]
        return "\n".join((*lines, *self._sum._end()))
