"""Options that several commands take: their types, defaults and help, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ikos.cli import types
from ikos.cli.output import plain, progress
from ikos.results.report import Field

if TYPE_CHECKING:
    from ikos.cluster import Cluster
    from ikos.data.domains import Bounds, Domain


T = TypeVar("T")
R = TypeVar("R")


class Option(click.Option):
    """An option that shows its default as it is, where click puts a description in parentheses."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option, and its help."""
        record = super().get_help_record(ctx)
        if record is None or not isinstance(self.show_default, str):
            return record
        default = f"default: {self.show_default}"
        return record[0], record[1].replace(f"default: ({self.show_default})", default)


def _known(kind: Any, text: str, shown: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the settings of an option that are common to all commands."""
    return {"type": kind, "help": text, "show_default": shown, **more}


def _flag(text: str) -> dict[str, Any]:
    return {"is_flag": True, "help": text}


def _tab(_ctx: click.Context, _param: click.Parameter, delimiter: str | None) -> str | None:
    r"""Return a tab for the two characters \t."""
    return "\t" if delimiter == r"\t" else delimiter


CHOSEN = "chosen automatically"
CLEAR_SHARE = "--clear-share/--no-clear-share"

_SHARED: dict[str, dict[str, Any]] = {
    "--users": _known(types.WHOLE, "Number of users, e.g. 1000 or 10^6."),
    "--categories": _known(
        types.LABELS, "Categories, e.g. yes,no or 0..99, in double quotes if they contain commas; "
        "or @FILE, with one per line.", metavar="LIST",
    ),
    "--column": _known(None, "Column of the values: its name or, with --no-header, its number.",
                       metavar="NAME"),
    "--no-header": _flag("The first line is a row: columns have numbers, from 1."),
    "--delimiter": _known(
        None, r"Character between the cells of CSV; \t for a tab.", ",", metavar="CHARACTER",
        callback=_tab,
    ),
    "--show-values": _flag("Let error messages quote the table. Only for your own data."),
    "--na": _known(
        types.LABELS, "Further spellings of a missing value, e.g. unknown,- or -999.",
        "empty cells and, of numbers, NaN, NA, N/A, null, None", metavar="LIST",
    ),
    "--thousands": _known(
        None, "Character between groups of three digits in CSV, e.g. a comma.",
        "numbers with one are refused", metavar="CHARACTER",
    ),
    "--decimal": _known(click.Choice([".", ","]), "Decimal mark in CSV.", "."),
    "--on-missing": _known(
        types.MISSING, "Refuse missing values; leave out their users, whose number is then private "
        "too; or replace each by this public number.", default="refuse",
        metavar="[refuse|exclude|NUMBER]",
    ),
    "--by": _known(
        None, "Column of group labels: each group has its own results, and the group of a user is "
        "protected too. Repeat it for combinations of labels.", multiple=True, metavar="NAME",
    ),
    "--groups": _known(
        types.LABELS, "Public labels of the --by column, e.g. north,south or 0..9, in double "
        "quotes if they contain commas; or @FILE, with one per line. Repeat it for each --by.",
        multiple=True, metavar="LIST",
    ),
    "--on-out-of-range": _known(
        click.Choice(["reject", "clamp"]),
        "Refuse values outside the bounds, or move them to the nearest bound.", "reject",
    ),
    "--lower": _known(types.BOUND, "Public lower bound of the values."),
    "--upper": _known(types.BOUND, "Public upper bound of the values."),
    "--integers": _flag("The values are integers; nothing is rounded."),
    "--epsilon": _known(
        types.EPSILON, "Epsilon of the guarantee, e.g. 1; smaller is more private."
    ),
    "--delta": _known(
        types.DELTA, "Delta of the guarantee, e.g. 1e-9; keep it far below 1/users."
    ),
    "--ledger": _known(
        types.FILE, "Record the release in this ledger first, and refuse it if the budget would be "
        "exceeded; see 'ikos budget'.", "not recorded", metavar="FILE",
    ),
    "--note": _known(None, "Description of the release in the --ledger.", metavar="TEXT"),
    "--min-honest": _known(
        types.HONEST, "Minimum number of users who are honest and do not drop out: a count, or a "
        "percentage such as 80%.", "100%",
    ),
    "--corrupt-shufflers": _known(
        types.CORRUPT, "Number of parallel shufflers that may collude with the analyzer; each "
        "costs a message per user.", default=0,
    ),
    "--precision": _known(
        types.WHOLE, "Number of steps between the bounds, to which values are rounded.", CHOSEN
    ),
    "--modulus": _known(types.MODULUS, "Modulus of the shares, e.g. 2^32.", CHOSEN),
    "--messages": _known(
        types.WHOLE, "Number of messages per user, the clear share included.", CHOSEN
    ),
    "--reserve": _known(
        types.Number(),
        "Largest fraction of epsilon (at most 0.5) that imperfect hiding may take instead of "
        "noise.", "0.01",
    ),
    "--analysis": _known(
        types.NAME["analysis"],
        "Proof that bounds what shuffled messages reveal: best, direct_comparison, "
        "higher_moments, second_moment, balle2020, ghazi2020 or ishai2006. 'ikos messages' "
        "compares them.",
        default="best", metavar="NAME",
    ),
    "--unproved": _flag("Run even without a proven guarantee; values may be revealed."),
    "--shuffler": _known(
        types.NAME["shuffler"], "One shuffler for each message of a user, or a single one for all.",
        default="parallel",
    ),
    CLEAR_SHARE: _known(
        None, "Whether one message per user bypasses the shufflers.", default=True
    ),
    "--confidence": _known(types.CONFIDENCE, "Confidence level of each interval.", default=0.95),
    "--seed": _known(
        types.Whole(), "Seed for reproducible randomness; any whole number.", "secure randomness"
    ),
    "--threads": _known(
        types.Whole(1, 1024), "Number of threads; does not affect the result.", "all cores"
    ),
    "--workers": _known(
        types.Whole(1, 1024), "Run on this many Dask processes, started here. Needs the extra "
        "'cluster'.", "none",
    ),
    "--scheduler": _known(
        None, "Run on the Dask cluster of this scheduler, e.g. tcp://10.0.0.1:8786. Needs the "
        "extra 'cluster'.", "none", metavar="ADDRESS",
    ),
    "--domain": _known(
        click.Choice(["box", "ball", "ternary", "categories"]),
        "Vectors in a box: each coordinate between --lower and --upper; in a ball: within a "
        "Euclidean norm of --radius; ternary: --sparsity entries of -1 or 1, the rest 0; "
        "categories: one answer to each question of --sizes.", "numbers, not vectors",
    ),
    "--dimension": _known(types.Whole(1), "Number of coordinates per vector."),
    "--radius": _known(types.NORM, "Largest Euclidean norm, for --domain ball.", "1"),
    "--sparsity": _known(
        types.Whole(1), "Largest number of nonzero entries, for --domain ternary."
    ),
    "--sizes": _known(
        types.SIZES, "Number of answers to each question, for --domain categories, e.g. 2,5,12.",
        metavar="LIST",
    ),
    "--overhead": _known(
        types.Whole(), "Bytes that transport adds to each message, e.g. 48 for an HPKE envelope; "
        "lists bytes too.", "none", metavar="BYTES",
    ),
    "--plot": _known(
        types.FILE, "Draw the estimates and their 95 % intervals to a .png, .svg or .pdf file. "
        "Needs the extra 'plot'.", metavar="FILE",
    ),
    "--ca": _known(
        types.FILE, "PEM file of the certificate authorities (CAs) to trust.", "the system's",
        metavar="FILE",
    ),
}  # fmt: skip


def option(name: str, *names: str, **changes: Any) -> Callable[..., Any]:
    """Add an option as `click.option` does; common options need only their changes."""
    return click.option(name, *names, cls=Option, **{**_SHARED.get(name, {}), **changes})


def from_option(*flags: str, **changes: Any) -> Any:
    """Return a field of a request that an option sets, declared as by `option`.

    By default the option has the name of the field.
    """
    return field(metadata={"flags": flags, **changes})


def takes(request: type[T]) -> Callable[[Callable[[T], R]], Callable[..., R]]:
    """Let a command be a function of one request: a dataclass whose fields declare its options.

    A field with the name of a common option, or from `from_option`, is an option; any other is an
    argument of the command line.
    """

    def typed(function: Callable[[T], R]) -> Callable[..., R]:
        @wraps(function)
        def command(**chosen: Any) -> R:
            return function(request(**chosen))

        return _declared(request, command, {})

    return typed


_OF_COLUMNS: dict[str, dict[str, Any]] = {
    name: {"help": text, "multiple": True}
    for name, text in (
        ("column", "Column of the values: its name or, with --no-header, its number. Repeat it for "
         "several columns under one guarantee."),
        ("lower", "Public lower bound of the values: of all, or one for each --column."),
        ("upper", "Public upper bound of the values: of all, or one for each --column."),
    )
}  # fmt: skip


def takes_columns(request: type[T]) -> Callable[[Callable[[list[T]], R]], Callable[..., R]]:
    """Let a command be a function of requests, one for each ``--column``, as by `takes`.

    They differ in the column and its bounds, which are given once for all or for each.
    """

    def typed(function: Callable[[list[T]], R]) -> Callable[..., R]:
        @wraps(function)
        def command(**chosen: Any) -> R:
            size = len(chosen["column"])
            lists = {}
            for name in _OF_COLUMNS:
                some = chosen.pop(name)
                if len(some) not in (1, size):
                    what = "must be given once, or once for each --column"
                    raise click.UsageError(f"--{name} {what}, got {len(some)} for {size}")
                lists[name] = some * (size // len(some))
            columns = (
                dict(zip(lists, one, strict=True)) for one in zip(*lists.values(), strict=True)
            )
            return function([request(**chosen, **column) for column in columns])

        return _declared(request, command, _OF_COLUMNS)

    return typed


def _declared(
    request: Any, command: Callable[..., R], more: Mapping[str, dict[str, Any]]
) -> Callable[..., R]:
    """Add the options of a request to a command, some of them with ``more`` changes."""
    for one in reversed(fields(request)):
        changes = {**one.metadata, **more.get(one.name, {})}
        flags = changes.pop("flags", ()) or (f"--{one.name.replace('_', '-')}",)
        if one.metadata or flags[0] in _SHARED:
            option(*flags, one.name, **changes)(command)
    return command


def check_bounds(lower: float, upper: float) -> None:
    """Refuse bounds that contain at most one value."""
    if not lower < upper:
        ends = f"{plain(upper)} and {plain(lower)}"
        raise click.UsageError(f"--upper must be greater than --lower, got {ends}")


def check_plot(path: Path | None, option: str = "--plot") -> None:
    """Refuse a figure that cannot be drawn or stored, before anything is computed for it."""
    if path is None:
        return
    import ikos.plots.figures  # noqa: F401  (needs matplotlib)
    from ikos.plots.files import SUFFIXES, check_writable

    if path.suffix.lower() not in SUFFIXES:
        raise click.UsageError(f"{option} must end in {', '.join(SUFFIXES)}, got {path.name!r}")
    if not path.resolve().parent.is_dir():
        raise click.UsageError(f"{option} must be in a folder that exists, got {str(path)!r}")
    check_writable(path)


@contextmanager
def connected(workers: int | None, scheduler: str | None) -> Iterator[Cluster | None]:
    """Yield a cluster of processes started here, or of a scheduler's address, or None."""
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers and --scheduler cannot be combined")
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

DOMAINS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "box": ("Box", ("dimension",), ("lower", "upper")),
    "ball": ("Ball", ("dimension",), ("radius",)),
    "ternary": ("SparseTernary", ("dimension", "sparsity"), ()),
    "categories": ("Categories", ("sizes",), ()),
}
"""For each domain its class, the options that it needs, and those that it also takes."""

SCALARS = ("Bounds", (), ("lower", "upper"))
"""The same for scalars, without ``--domain``."""

DOMAIN_KEYS = [
    Field("domain", "domain of the vectors: box, ball, ternary or categories; null for scalars"),
    Field("dimension", "coordinates of a vector; 1 for scalars"),
    Field("lower", "public lower bound of the values or coordinates, or null"),
    Field("upper", "public upper bound, or null"),
    Field("radius", "largest norm in a ball, or null"),
    Field("sparsity", "largest number of nonzero entries of ternary vectors, or null"),
    Field("sizes", "number of answers to each question of categories, or null"),
]


class DomainRequest:
    """A request with the options of a domain, which has a name if it is one of vectors."""

    domain: str | None
    dimension: int | None
    lower: float | None
    upper: float | None
    radius: float | None
    sparsity: int | None
    sizes: tuple[int, ...] | None

    @property
    def space(self) -> Domain | Bounds:
        """The domain; options for another domain are refused."""
        from ikos.data import domains

        chosen = {one.key: value for one in DOMAIN_KEYS[1:] if (value := one.of(self)) is not None}
        kind, needed, taken = SCALARS if self.domain is None else DOMAINS[self.domain]
        for key in needed:
            if key not in chosen:
                raise click.UsageError(f"--domain {self.domain} needs --{key}")
        for key in chosen:
            if key not in needed + taken:
                problem = f"is not for --domain {self.domain}" if self.domain else "needs --domain"
                raise click.UsageError(f"--{key} {problem}")
        lower = 0.0 if self.lower is None else self.lower
        upper = 1.0 if self.upper is None else self.upper
        check_bounds(lower, upper)
        if self.domain is None:
            return domains.Bounds(lower, upper)
        return getattr(domains, kind)(**chosen)  # type: ignore[no-any-return]


def domain_values(name: str | None, domain: Domain | Bounds | None) -> dict[str, Any]:
    """Return the values of the keys of a domain, None for those that it does not have."""
    keys = (one.key for one in DOMAIN_KEYS[1:])
    return {"domain": name} | {key: getattr(domain, key, None) for key in keys}
