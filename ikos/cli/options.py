"""Options that several commands take: the type, default and help of each."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.names import MAX_WORKERS
from ikos.cli.output import FORMAT
from ikos.cli.types import (
    BOUND,
    CORRUPT,
    DELTA,
    EPSILON,
    FILE,
    HONEST,
    MODULUS,
    NAME,
    WHOLE,
    Number,
    Whole,
)
from ikos.report import FORMATS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JSON = ("--json", "as_json")


def _known(kind: Any, said: str, **more: Any) -> dict[str, Any]:
    """Return what is the same for an option wherever it is taken."""
    return {"type": kind, "help": said, **more}


def _flag(said: str) -> dict[str, Any]:
    return {"is_flag": True, "help": said}


_SHARED: dict[str, dict[str, Any]] = {
    "--users": _known(WHOLE, "Number of users, e.g. 1000 or 10^6."),
    "--protocol": _known(None, "Only this protocol, as the table calls it; can be given many "
                         "times.", multiple=True, metavar="NAME", shown="all"),
    "--column": _known(None, "Column of the values: its name, or its number with --no-header.",
                       metavar="NAME"),
    "--no-header": _flag("The table has no header line."),
    "--delimiter": _known(
        None, r"Delimiter of the cells of CSV; \t for tabs.", metavar="CHARACTER", shown=",",
        callback=lambda _ctx, _param, given: {"\\t": "\t", "tab": "\t"}.get(given, given),
    ),
    "--show-values": _flag("Let messages quote the table's content: for your own data."),
    "--on-out-of-range": _known(
        click.Choice(["reject", "clamp"]), default="reject",
        said="Refuse values outside the bounds, or move them to the nearest bound.",
    ),
    "--lower": _known(BOUND, "Public lower bound of the values."),
    "--upper": _known(BOUND, "Public upper bound of the values."),
    "--integers": _flag("The values are integers: nothing is rounded."),
    "--epsilon": _known(EPSILON, "Privacy budget, e.g. 1; smaller is more private."),
    "--delta": _known(DELTA, "Delta of the guarantee, e.g. 1e-9; far below 1/users."),
    "--min-honest": _known(
        HONEST, "Least number of honest users: a number, or a share such as 80%.",
        shown="all",
    ),
    "--corrupt-shufflers": _known(
        CORRUPT, "How many parallel shufflers may collude with the analyzer.", default=0
    ),
    "--precision": _known(WHOLE, "Steps between the bounds.", shown="chosen"),
    "--modulus": _known(MODULUS, "Order of the group of the shares, e.g. 2^32.", shown="chosen"),
    "--messages": _known(WHOLE, "Messages of each user.", shown="chosen"),
    "--reserve": _known(
        Number(), shown="0.01",
        said="Part of epsilon, up to 0.5, spent on hiding by shuffling instead of noise.",
    ),
    "--analysis": _known(
        NAME["analysis"], default="best", metavar="NAME",
        said="Bound on what shuffling hides: best, second_moment, balle2020, ghazi2020 or "
        "ishai2006; see 'ikos messages'.",
    ),
    "--unproved": _flag("Run even if nothing is proved about what is hidden."),
    "--shuffler": _known(
        NAME["shuffler"], "One shuffler per message, or a single one for all.",
        default="parallel",
    ),
    "--clear-share/--no-clear-share": _known(
        None, "Whether one message of each user bypasses the shufflers.", default=True
    ),
    "--confidence": _known(
        click.FloatRange(0, 1, min_open=True, max_open=True), "Confidence of each interval.",
        default=0.95,
    ),
    "--seed": _known(Whole(), "Make draws reproducible; any number.", shown="secure randomness"),
    "--threads": _known(
        click.IntRange(1, 1024), "Threads to run on; the result does not depend on it.",
        shown="all cores",
    ),
    "--workers": {"type": click.IntRange(1, MAX_WORKERS)},
    "--scheduler": _known(
        None, "Run on the cluster of a Dask scheduler, e.g. tcp://10.0.0.1:8786. Needs the extra "
        "'cluster'.", metavar="ADDRESS",
    ),
    "--domain": _known(
        click.Choice(["box", "ball", "ternary", "categories"]),
        "Where vectors lie. box: each coordinate between bounds; ball: within a Euclidean ball; "
        "ternary: a few entries of -1 or 1, else 0; categories: an answer to each of several "
        "questions.",
    ),
    "--dimension": _known(Whole(1), "Coordinates of each vector."),
    "--radius": _known(
        Number(above=0, high=10**100, kind=float), "For a ball: the largest norm.", shown="1"
    ),
    "--sparsity": _known(Whole(1), "For ternary vectors: most entries that are not 0."),
    "--sizes": _known(
        None, "For categories: number of answers to each question, e.g. 2,5,12.", metavar="LIST",
        callback=lambda _ctx, _param, text: _sizes(text),
    ),
    "--plot": {"type": FILE},
    "--ca": _known(
        FILE, "PEM file of authorities to trust in certificates, instead of the system's.",
        metavar="FILE",
    ),
    "--json": _flag("Print one JSON object."),
}  # fmt: skip


def option(name: str, *names: str, **changes: Any) -> Callable[..., Any]:
    """Add an option as `click.option` does; for common options, most is known.

    ``shown`` is the help's description of a default that is None.
    """
    known = {**_SHARED.get(name, {}), **changes}
    shown = known.pop("shown", None)
    if shown is not None and known.get("default") is None:
        known["show_default"] = shown
    return click.option(name, *names, **known)


def options(*names: str, required: tuple[str, ...] = ()) -> Callable[[Any], Any]:
    """Add several common options, some of them required."""

    def add(command: Any) -> Any:
        for name in reversed(names):
            command = option(name, **({"required": True} if name in required else {}))(command)
        return command

    return add


def format_options(command: Any) -> Any:
    """Add ``--format``, and ``--json`` as its short form, for `print_report`."""

    def choose(ctx: click.Context, _param: click.Parameter, wanted: str) -> None:
        ctx.meta[FORMAT] = wanted

    def json(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
        if wanted and ctx.meta[FORMAT] not in ("text", "json"):
            raise click.UsageError(f"--json contradicts --format {ctx.meta[FORMAT]}", ctx)
        if wanted:
            ctx.meta[FORMAT] = "json"

    add_json = click.option(
        "--json", is_flag=True, expose_value=False, callback=json, help="The same as --format json."
    )
    add_format = click.option(
        "--format", "how", type=click.Choice(FORMATS), default="text", is_eager=True,
        expose_value=False, callback=choose,
        help="How to print the result; csv has only the table.",
    )  # fmt: skip
    return add_format(add_json(command))


def _sizes(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise click.UsageError(f"--sizes must be numbers such as 2,5,12, got {text[:60]!r}")
    return tuple(map(int, parts))


def check_bounds(lower: float | Fraction, upper: float | Fraction) -> None:
    """Refuse bounds that contain at most one value."""
    if not lower < upper:
        raise click.UsageError(f"--upper must be greater than --lower, got {upper} and {lower}")


def check_plot(path: Path | None) -> None:
    """Refuse a figure that cannot be drawn or named so, before anything is computed for it."""
    if path is None:
        return
    import ikos.plots.figures  # noqa: F401  (needs matplotlib)
    from ikos.plots import SUFFIXES

    if path.suffix.lower() not in SUFFIXES:
        raise click.UsageError(f"--plot must end in {', '.join(SUFFIXES)}, got {path.name!r}")
    if not path.resolve().parent.is_dir():
        raise click.UsageError(f"--plot must be in a folder that exists, got {str(path)!r}")


def save_plot(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all."""
    from ikos.plots import save

    try:
        save(figure, path)
    except OSError as error:
        reason = (error.strerror or "output error").lower()
        raise click.UsageError(f"cannot write {str(path)!r}: {reason}") from None
