"""What ``ikos compare`` and ``ikos compare-vectors`` print: as text, and as a JSON object.

The JSON object that ``--json`` prints; all keys of a command are always there:

- ``command``, ``version``: strings; ``users``; ``min_honest``: how many of them are honest, at
  least; ``epsilon``, ``delta``: the guarantee that was asked for.
- Of ``compare``: ``lower``, ``upper``: the bounds of the values. Of ``compare-vectors``:
  ``domain`` ("box", "ball", "ternary" or "categories") and ``dimension``; ``lower`` and ``upper``,
  the bounds of coordinates, ``radius``, ``sparsity`` and ``sizes`` (a list), each null where the
  domain has none.
- ``data``: null, or with ``--data`` an object of ``file``, ``column``, ``out_of_range`` ("reject"
  or "clamp"), ``runs`` (of each protocol), ``seed`` (a string of digits, or null for secure
  randomness) and ``confidence`` (of the intervals).
- ``protocols``: a list of objects, one for each: the central model first, then the shuffle model,
  then the local one; in each by the mean squared error, and last what is not possible. They have

  - ``key``, ``name``, ``source`` (the paper), ``model`` ("central", "shuffle" or "local"),
    ``trust``: a special assumption, or null;
  - ``possible`` (boolean) and ``reason``: why not, or null. Where not, all that follows is null, or
    false where it is a boolean;
  - ``messages_per_user``, ``bits_per_message``, ``bits_per_user``: means, where these vary;
  - ``guarantee``: an object of ``epsilon``, ``delta``, ``adjacency``, ``theorem`` and
    ``conditions``;
  - ``mse``, ``standard_error`` and ``mean_error``: bounds on the mean squared error of the sum, on
    its root, and on that of the mean; in the data's units; of vectors, of the Euclidean distance;
  - ``influence``: the greatest difference that one user's messages can make to the sum, in the
    data's units; null where ``unlimited`` (boolean);
  - ``measured``: null, or an object of ``standard_error`` (the root mean squared error of the
    runs, NOT private), ``low`` and ``high`` (an approximate interval), ``ratio`` (to the bound),
    ``seconds`` (of one run) and ``errors`` (of each run); ``skipped``: with ``--data``, why there
    were no runs, or null.

- ``plot``: the file that was written, or null; ``warnings``: a list of strings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from ikos import __version__
from ikos.cli.errors import in_options
from ikos.cli.output import aligned, bold, integer_text, power_text, wrapped

if TYPE_CHECKING:
    from ikos.baselines import ComparisonRow, Measurement

CONFIDENCE = 0.95
"""Of the intervals of measured errors."""

MODELS = {
    "central": "Central model: a curator sees every value",
    "shuffle": "Shuffle model: shufflers mix everybody's messages",
    "local": "Local model: nobody is trusted",
}


@dataclass(frozen=True)
class Asked:
    """What the options say of users and guarantee, and of what is added up.

    Attributes
    ----------
    command : str
        Which command was called.
    what : str
        What is added up, for the title.
    own : mapping
        The same in the keys of the JSON object.
    legend : str
        What the table's errors are.
    """

    command: str
    users: int
    honest: int
    epsilon: Fraction
    delta: Fraction
    what: str
    own: Mapping[str, Any]
    legend: str

    @property
    def title(self) -> str:
        """What is compared."""
        from ikos.results import at_least

        return (
            f"Protocols for the sum of {power_text(self.users)} {self.what} with "
            f"({float(self.epsilon):.6g}, {at_least(float(self.delta), 3)})-differential privacy"
        )


def counted(users: int, one: str) -> str:
    """Return the name of what users hold, of many in the plural."""
    return f"{one}{'s' * (users > 1)}"


@dataclass(frozen=True)
class Data:
    """Where values come from, and how often protocols run on them."""

    file: str
    column: str
    clamp: bool
    runs: int
    seed: int | None

    @property
    def which(self) -> str:
        """The column, in words."""
        return f"column {self.column}" if self.column.isdigit() else f"column {self.column!r}"


R = TypeVar("R", bound="ComparisonRow")


@dataclass(frozen=True)
class Line(Generic[R]):
    """A protocol, and what was measured of it, or why nothing was."""

    row: R
    measured: Measurement | None = None
    skipped: str | None = None

    @property
    def reason(self) -> str | None:
        """Why it is not possible, without the setting, which it does not choose."""
        message = self.row.reason
        if message is not None and "does not cover" in message:
            message = message.partition(": ")[2].partition("; analysis=")[0] or message
        return None if message is None else in_options(message)


def no_protocol(lines: Sequence[Line[Any]]) -> str | None:
    """Return why there is none at all, or None where there is one."""
    if any(line.row.protocol for line in lines):
        return None
    reasons = "; ".join(f"{line.row.key}: {line.reason}" for line in lines)
    return f"no protocol is possible here: {reasons}"


# JSON


def as_json(
    asked: Asked,
    lines: Sequence[Line[Any]],
    data: Data | None,
    plot: Path | None,
    warnings: list[str],
) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    return {
        "command": asked.command,
        "version": __version__,
        "users": asked.users,
        "min_honest": asked.honest,
        "epsilon": float(asked.epsilon),
        "delta": float(asked.delta),
        **asked.own,
        "data": data
        and {
            "file": data.file,
            "column": data.column,
            "out_of_range": "clamp" if data.clamp else "reject",
            "runs": data.runs,
            "seed": None if data.seed is None else integer_text(data.seed),
            "confidence": CONFIDENCE,
        },
        "protocols": [_described(line, asked.users) for line in lines],
        "plot": None if plot is None else str(plot),
        "warnings": warnings,
    }


def _described(line: Line[Any], users: int) -> dict[str, Any]:
    row, contender = line.row, line.row.contender
    cost = None if row.protocol is None else row.protocol.cost()
    guarantee, rmse, influence = row.guarantee, row.rmse, row.influence
    return {
        "key": row.key,
        "name": contender.name,
        "source": contender.source,
        "model": contender.model,
        "trust": contender.note,
        "possible": row.protocol is not None,
        "reason": line.reason,
        "messages_per_user": cost and cost.messages_per_user,
        "bits_per_message": cost and cost.bits_per_message,
        "bits_per_user": cost and cost.bits_per_user,
        "guarantee": guarantee
        and {
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "adjacency": guarantee.adjacency,
            "theorem": guarantee.theorem,
            "conditions": list(guarantee.conditions),
        },
        "mse": _finite(row.mse),
        "standard_error": _finite(rmse),
        "mean_error": None if rmse is None else _finite(rmse / users),
        "influence": _finite(influence),
        "unlimited": influence is not None and math.isinf(influence),
        "measured": _runs(line),
        "skipped": line.skipped,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _runs(line: Line[Any]) -> dict[str, Any] | None:
    measured, bound = line.measured, line.row.rmse
    if measured is None:
        return None
    low, high = measured.interval(CONFIDENCE)
    return {
        "standard_error": measured.rmse,
        "low": low,
        "high": high,
        "ratio": measured.rmse / bound if bound else None,
        "seconds": measured.seconds,
        "errors": list(measured.errors),
    }


# Text


def as_text(
    asked: Asked, lines: Sequence[Line[Any]], data: Data | None, plot: Path | None
) -> list[str]:
    """Return the lines of the text."""
    text = [bold(line) for line in wrapped(asked.title, "", "")]
    if asked.honest < asked.users:
        verb = "user is" if asked.honest == 1 else "users are"
        text += wrapped(f"while at least {power_text(asked.honest)} {verb} honest and present")
    possible = [line for line in lines if line.row.protocol is not None]
    notes = _notes(possible)
    if possible:
        text += ["", *_table(possible, notes, asked.users)]
        text += wrapped(asked.legend)
    for note, mark in notes.items():
        text += wrapped(f"{mark} {note}.", "  ", "    ")
    if data is not None:
        text += ["", *_measured(possible, data)]
    absent = [line for line in lines if line.row.protocol is None]
    if absent:
        text += ["", bold("Not possible here")]
        for line in absent:
            text += wrapped(f"{line.row.key}: {line.reason}", "  ", "    ")
    text += ["", bold("What they are")]
    for line in lines:
        contender, guarantee = line.row.contender, line.row.guarantee
        proof = "" if guarantee is None else f". The proof: {guarantee.theorem}"
        named = f"{line.row.key}: {contender.name} ({contender.source}){proof}"
        text += wrapped(named, "  ", "    ")
    if plot is not None:
        text += ["", f"Plotted in {click.format_filename(plot)}"]
    return text


def _notes(lines: Sequence[Line[Any]]) -> dict[str, str]:
    """Return the special trust assumptions, each with the letter that marks it."""
    notes = dict.fromkeys(line.row.contender.note for line in lines)
    return dict(zip(filter(None, notes), "abcdefgh", strict=False))


def _table(lines: Sequence[Line[Any]], notes: dict[str, str], users: int) -> list[str]:
    from ikos.results import at_least

    cells = [
        ["", "messages", "bits", "MSE", "RMSE", "one", ""],
        ["", "per user", "/user", "of sum", "of mean", "user", "delta"],
    ]
    for line in lines:
        row, guarantee = line.row, line.row.guarantee
        assert row.protocol is not None
        assert guarantee is not None
        mse = row.protocol.mse
        cost = row.protocol.cost()
        cells.append(
            [
                row.key,
                _count(cost.messages_per_user),
                _count(cost.bits_per_user),
                _bound(mse),
                _bound(math.sqrt(mse) / users),
                _bound(row.protocol.influence),
                at_least(guarantee.delta * _NEARLY, 3),
            ]
        )
    return _grouped(cells, lines, [notes.get(line.row.contender.note or "") for line in lines])


def _measured(lines: Sequence[Line[Any]], data: Data) -> list[str]:
    """Return what was measured beside what is predicted."""
    from ikos.results import percent

    run = [line for line in lines if line.measured is not None]
    runs = f"{data.runs:,} run{'s' * (data.runs > 1)}"
    text = [
        bold(line)
        for line in wrapped(
            f"Measured error of the sum of {data.which} in {runs} of each, NOT private: do not "
            "publish",
            "",
            "",
        )
    ]
    cells = [
        ["", "bound", "measured", f"{percent(CONFIDENCE)} interval", "ratio", "s/run"],
    ]
    for line in run:
        measured, bound = line.measured, line.row.rmse
        assert measured is not None
        assert bound is not None
        low, high = measured.interval(CONFIDENCE)
        cells.append(
            [
                line.row.key,
                _bound(bound),
                _figures(measured.rmse, round),
                f"{_figures(low, math.floor)} to {_figures(high, math.ceil)}",
                f"{measured.rmse / bound:.2f}",
                f"{measured.seconds:.2g}",
            ]
        )
    if run:
        text += _grouped(cells, run, [None] * len(run))
        text += wrapped(
            "Bound and measured: root mean squared errors of the sum, in the data's units. The "
            "bound is for the worst values. The interval is approximate: errors are taken to have "
            "tails like Laplace noise, heavier than most have."
        )
    for line in lines:
        if line.skipped is not None:
            text += wrapped(f"{line.row.key} did not run: {line.skipped}", "  ", "    ")
    return text


def _grouped(
    cells: list[list[str]], lines: Sequence[Line[Any]], marks: list[str | None]
) -> list[str]:
    """Return a table with a heading for each model, and marks in front of its rows."""
    table = aligned(cells)
    head = len(cells) - len(lines)
    text, model = table[:head], None
    for line, shown, mark in zip(lines, table[head:], marks, strict=True):
        if line.row.contender.model != model:
            model = line.row.contender.model
            text.append(bold(MODELS[model]))
        text.append(f"{mark} {shown[2:]}" if mark else shown)
    return text


def _count(value: int | float) -> str:
    """Return a number of messages or bits, of a mean three digits."""
    if value == round(value):
        return f"{round(value):,}" if value < 10**6 else f"{value:.3g}"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _bound(value: float) -> str:
    """Return a bound, rounded up."""
    return "no limit" if math.isinf(value) else _figures(value * _NEARLY, math.ceil)


def _figures(value: float, rounded: Callable[[float], int]) -> str:
    """Return a number to three digits or more, in at most 8 characters."""
    from ikos.results import at_least, at_most

    if 1000 <= value < 10**6:
        return f"{rounded(value):,}"
    if rounded is round:
        return f"{value:.3g}"
    text = at_least if rounded is math.ceil else at_most
    return text(value, 3) if len(text(value, 3)) <= 8 else text(value, 2)


_NEARLY = 1 - 1e-12
"""So that 2 and a unit in the last place is printed as 2, and a delta as it was asked for."""
