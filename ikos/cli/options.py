"""Options that several commands take: the type, default and help of each, and what they choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli import types
from ikos.cli.output import plain, progress
from ikos.results.report import Field

if TYPE_CHECKING:
    from ikos.cluster import Cluster
    from ikos.data.domains import Bounds, Domain


def _known(kind: Any, said: str, shown: str | None = None, **more: Any) -> dict[str, Any]:
    """Return what is the same for an option wherever it is taken."""
    return {"type": kind, "help": said, "show_default": shown, **more}


def _flag(said: str) -> dict[str, Any]:
    return {"is_flag": True, "help": said}


_SHARED: dict[str, dict[str, Any]] = {
    "--users": _known(types.WHOLE, "Number of users, e.g. 1000 or 10^6."),
    "--categories": _known(
        types.LABELS, "Labels, e.g. yes,no or 0..99; those with commas in quotes, as in CSV; or "
        "@FILE, with one a line.",
        metavar="LIST",
    ),
    "--column": _known(None, "Column of the values: its name, or its number with --no-header.",
                       metavar="NAME"),
    "--no-header": _flag("The table has no header line."),
    "--delimiter": _known(
        None, r"Delimiter of the cells of CSV; \t for tabs.", ",", metavar="CHARACTER",
        callback=lambda _ctx, _param, given: "\t" if given == r"\t" else given,
    ),
    "--show-values": _flag("Let messages quote the table's content: for your own data."),
    "--on-out-of-range": _known(
        click.Choice(["reject", "clamp"]),
        "Refuse values outside the bounds, or move them to the nearest bound.", "reject",
    ),
    "--lower": _known(types.BOUND, "Public lower bound of the values."),
    "--upper": _known(types.BOUND, "Public upper bound of the values."),
    "--integers": _flag("The values are integers: nothing is rounded."),
    "--epsilon": _known(types.EPSILON, "Privacy budget, e.g. 1; smaller is more private."),
    "--delta": _known(types.DELTA, "Delta of the guarantee, e.g. 1e-9; far below 1/users."),
    "--ledger": _known(
        types.FILE, "Enter the release in this file of 'ikos budget' first; refuse it if it would "
        "overspend.", metavar="FILE",
    ),
    "--min-honest": _known(
        types.HONEST, "Least number of honest users: a number, or a share such as 80%.", "all"
    ),
    "--corrupt-shufflers": _known(
        types.CORRUPT, "How many parallel shufflers may collude with the analyzer.", default=0
    ),
    "--precision": _known(types.WHOLE, "Steps between the bounds.", "chosen"),
    "--modulus": _known(types.MODULUS, "Order of the group of the shares, e.g. 2^32.", "chosen"),
    "--messages": _known(types.WHOLE, "Messages of each user.", "chosen"),
    "--reserve": _known(
        types.Number(),
        "Part of epsilon, up to 0.5, spent on hiding by shuffling instead of noise.", "0.01",
    ),
    "--analysis": _known(
        types.NAME["analysis"],
        "Bound on what shuffling hides: best, higher_moments, second_moment, balle2020, "
        "ghazi2020 or ishai2006; "
        "see 'ikos messages'.", default="best", metavar="NAME",
    ),
    "--unproved": _flag("Run even if nothing is proved about what is hidden."),
    "--shuffler": _known(
        types.NAME["shuffler"], "One shuffler per message, or a single one for all.",
        default="parallel",
    ),
    "--clear-share/--no-clear-share": _known(
        None, "Whether one message of each user bypasses the shufflers.", default=True
    ),
    "--confidence": _known(types.CONFIDENCE, "Confidence of each interval.", default=0.95),
    "--seed": _known(types.Whole(), "Make draws reproducible; any number.", "secure randomness"),
    "--threads": _known(
        types.Whole(1, 1024), "Threads to run on; the result does not depend on it.",
        "all cores",
    ),
    "--workers": _known(
        types.Whole(1, 1024),
        "Run in this many Dask processes on this machine. Needs the extra 'cluster'.",
    ),
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
    "--dimension": _known(types.Whole(1), "Coordinates of each vector."),
    "--radius": _known(types.NORM, "For a ball: the largest norm.", "1"),
    "--sparsity": _known(types.Whole(1), "For ternary vectors: most entries that are not 0."),
    "--sizes": _known(
        types.SIZES, "For categories: number of answers to each question, e.g. 2,5,12.",
        metavar="LIST",
    ),
    "--overhead": _known(
        types.Whole(), "Bytes by which each message grows on its way: 48 in an HPKE envelope.",
        metavar="BYTES",
    ),
    "--plot": {"type": types.FILE},
    "--ca": _known(
        types.FILE, "PEM file of authorities to trust in certificates, instead of the system's.",
        metavar="FILE",
    ),
}  # fmt: skip


def option(name: str, *names: str, **changes: Any) -> Callable[..., Any]:
    """Add an option as `click.option` does; for common options, most is known."""
    return click.option(name, *names, **{**_SHARED.get(name, {}), **changes})


def options(*names: str, required: tuple[str, ...] = ()) -> Callable[[Any], Any]:
    """Add several common options, some of them required."""

    def add(command: Any) -> Any:
        for name in reversed(names):
            command = option(name, **({"required": True} if name in required else {}))(command)
        return command

    return add


def check_bounds(lower: float, upper: float) -> None:
    """Refuse bounds that contain at most one value."""
    if not lower < upper:
        ends = f"{plain(upper)} and {plain(lower)}"
        raise click.UsageError(f"--upper must be greater than --lower, got {ends}")


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


@contextmanager
def connected(workers: int | None, scheduler: str | None) -> Iterator[Cluster | None]:
    """Yield a cluster of processes started here, or of a scheduler's address, or None."""
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers are started here, without --scheduler: give one of them")
    if workers is None and scheduler is None:
        yield None
        return
    from ikos.cluster import Cluster, ClusterError
    from ikos.cluster.waiting import connection

    try:
        with nullcontext() if scheduler is None else progress("connecting"):
            opened = Cluster(workers, scheduler=scheduler)
        with opened as cluster, connection():
            yield cluster
    except ClusterError as error:
        option = "--workers" if scheduler is None else "--scheduler"
        raise click.UsageError(f"{option}: {error}") from None


# Domains of numbers and vectors

DOMAINS = {
    "box": ("Box", ("dimension",), ("lower", "upper")),
    "ball": ("Ball", ("dimension",), ("radius",)),
    "ternary": ("SparseTernary", ("dimension", "sparsity"), ()),
    "categories": ("Categories", ("sizes",), ()),
}
"""For each domain its class, the options that it needs, and those that it also takes."""

DOMAIN_OPTIONS = ("--domain", "--dimension", "--radius", "--sparsity", "--sizes")
"""Options for vectors alone."""


def _its(key: str, meaning: str) -> Field:
    return Field(key, meaning, value=lambda found: getattr(found.domain, key, None))


def _name(found: Any) -> str | None:
    kind = type(found.domain).__name__
    return next((name for name, (one, _, _) in DOMAINS.items() if one == kind), None)


DOMAIN_KEYS = [
    Field("domain", "where vectors lie: box, ball, ternary or categories; null for numbers",
          value=_name),
    Field("dimension", "coordinates of a vector; 1 for numbers"),
    _its("lower", "public lower bound of the values or coordinates, or null"),
    _its("upper", "public upper bound, or null"),
    _its("radius", "of a ball, or null"),
    _its("sparsity", "of ternary vectors, or null"),
    _its("sizes", "of categories: how many answers each question has, or null"),
]  # fmt: skip


def domain_of(name: str | None, given: Mapping[str, Any]) -> Domain | Bounds:
    """Return the domain, numbers without a name; refuse options for another domain.

    ``given`` holds the values of all options of domains, None if not given.
    """
    from ikos.data import domains

    keys = [key.key for key in DOMAIN_KEYS[1:]]
    chosen = {key: given[key] for key in keys if given.get(key) is not None}
    kind, needed, taken = DOMAINS[name] if name is not None else ("", (), ("lower", "upper"))
    for key in needed:
        if key not in chosen:
            raise click.UsageError(f"--domain {name} needs --{key}")
    for key in chosen:
        if key not in needed + taken:
            said = f"is not for --domain {name}" if name else "needs --domain"
            raise click.UsageError(f"--{key} {said}")
    lower, upper = chosen.get("lower", 0.0), chosen.get("upper", 1.0)
    check_bounds(lower, upper)
    return getattr(domains, kind)(**chosen) if name is not None else domains.Bounds(lower, upper)
