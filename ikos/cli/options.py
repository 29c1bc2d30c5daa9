"""Options that several commands take: of each the type, the unit, the default and the words."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import click

from ikos.cli.errors import clipped, unbroken
from ikos.cli.names import MAX_WORKERS
from ikos.cli.types import (
    BOUND,
    CONFIDENCE,
    CORRUPT,
    DELIMITER,
    DELTA,
    EPSILON,
    FILE,
    HONEST,
    MODULUS,
    NAME,
    PLOT,
    WHOLE,
    Name,
    Whole,
)

FIGURE = "Also plot {}, to a file .png, .svg or .pdf. Needs the extra 'plot'."
JSON = ("--json", "as_json")

_SHARED: dict[str, dict[str, Any]] = {
    "--users": {"help": "How many users there are, e.g. 1000 or 10^6."},
    "--protocol": {
        "multiple": True,
        "shown": "all",
        "help": "Only this protocol, as the table calls it; can be given many times.",
    },
    "--column": {
        "metavar": "NAME",
        "help": "Column of the values: its name, or its number with --no-header.",
    },
    "--no-header": {"is_flag": True, "help": "The table has no header line."},
    "--delimiter": {
        "type": DELIMITER,
        "shown": ",",
        "help": r"What is between the cells of CSV; \t for tabs.",
    },
    "--show-values": {
        "is_flag": True,
        "help": "Let messages quote what the table holds: for your own data.",
    },
    "--on-out-of-range": {
        "type": Name("reject", "clamp"),
        "shown": "reject",
        "help": "Refuse values outside the bounds, or move them to the nearest bound.",
    },
    "--lower": {"type": BOUND, "help": "Public lower bound of the values."},
    "--upper": {"type": BOUND, "help": "Public upper bound of the values."},
    "--epsilon": {"type": EPSILON, "help": "Privacy budget, e.g. 1; smaller is more private."},
    "--delta": {
        "type": DELTA,
        "help": "Delta of the guarantee, e.g. 1e-9; far below 1/users.",
    },
    "--min-honest": {
        "type": HONEST,
        "shown": "all",
        "help": "How many users are honest at least: a number, or a share such as 80%.",
    },
    "--corrupt-shufflers": {
        "type": CORRUPT,
        "default": 0,
        "help": "How many parallel shufflers may collude with the analyzer.",
    },
    "--precision": {
        "type": WHOLE,
        "shown": "chosen",
        "help": "Steps between the bounds.",
    },
    "--modulus": {
        "type": MODULUS,
        "shown": "chosen",
        "help": "Order of the group of the shares, e.g. 2^32.",
    },
    "--analysis": {
        "type": NAME["analysis"],
        "default": "best",
        "help": "Which bound: best, second_moment, balle2020, ghazi2020 or ishai2006; see "
        "'ikos messages'.",
    },
    "--unproved": {
        "is_flag": True,
        "help": "Run it even where nothing is proved of what it hides.",
    },
    "--shuffler": {
        "type": NAME["shuffler"],
        "default": "parallel",
        "help": "A shuffler for each message, or a single one for all.",
    },
    "--clear-share/--no-clear-share": {
        "default": True,
        "help": "With or without a message of each user that bypasses the shufflers.",
    },
    "--confidence": {
        "type": CONFIDENCE,
        "default": "0.95",
        "help": "Confidence of each interval.",
    },
    "--seed": {
        "type": Whole(),
        "shown": "secure randomness",
        "help": "Draw the same each time; any number.",
    },
    "--threads": {
        "type": Whole(low=1, high=1024),
        "shown": "all cores",
        "help": "Threads to work on; the result does not depend on it.",
    },
    "--workers": {"type": Whole(low=1, high=MAX_WORKERS)},
    "--scheduler": {
        "metavar": "ADDRESS",
        "help": "Work on the cluster of a Dask scheduler, e.g. tcp://10.0.0.1:8786. Needs the "
        "extra 'cluster'.",
    },
    "--plot": {"type": PLOT},
    "--ca": {
        "type": FILE,
        "metavar": "FILE",
        "help": "PEM file of authorities to trust in certificates, instead of the system's.",
    },
    "--json": {"is_flag": True, "help": "Print one JSON object."},
}


def option(name: str, *names: str, **changes: Any) -> Callable[..., Any]:
    """Add an option. Of those that several commands take, most is known.

    Parameters
    ----------
    name, *names : str
        As for `click.option`.
    **changes
        As for `click.option`; and ``shown``, what the help says of a default that is none.
    """
    known = {**_SHARED.get(name, {}), **changes}
    shown = known.pop("shown", None) or known.get("default")
    if shown is not None and known["help"]:
        known["help"] += f"  {unbroken(f'[default: {_default(name, shown)}]')}"
    return click.option(name, *names, **known)


def _default(name: str, value: object) -> str:
    """Return how a default is written; of a pair of flags its name."""
    if not isinstance(value, bool):
        return str(value)
    yes, _, no = name.replace("--", "").partition("/")
    return yes if value else no


def check_bounds(lower: float | Fraction, upper: float | Fraction) -> None:
    """Refuse bounds that hold no more than one value."""
    if not lower < upper:
        high, low = (
            f"{bound:.15g}" if isinstance(bound, float) else str(bound) for bound in (upper, lower)
        )
        raise click.UsageError(f"--upper must be greater than --lower, got {high} and {low}")


def check_column(column: str, *, header: bool) -> None:
    """Refuse the name of a column where there are no names."""
    if not header and not column.isdigit():
        raise click.UsageError(
            f"with --no-header, --column is a number counted from 1, got {clipped(column)}"
        )
