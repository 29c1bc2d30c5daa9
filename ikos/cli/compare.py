"""``ikos compare``: the protocols for a private sum, of scalars or of vectors, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ikos.cli import release
from ikos.cli.errors import Command, in_options, problem
from ikos.cli.options import (
    DOMAIN_KEYS,
    DomainRequest,
    check_plot,
    domain_values,
    from_option,
    takes,
)
from ikos.cli.output import at_least, power_text, progress
from ikos.cli.types import TABLE, Honest, Whole
from ikos.results.report import Field, Report
from ikos.results.text import grouped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ikos.baselines import ComparisonRow, Measurement
    from ikos.data.domains import Bounds, Domain
    from ikos.results.sums import Interval

CONFIDENCE = 0.95
"""Confidence of the intervals of measured errors."""

_NEARLY = 1 - 1e-12  # so that 2 and a unit in the last place is printed as 2


def bound(value: float) -> str:
    """Return a bound to three digits, rounded up."""
    if math.isinf(value):
        return "no limit"
    return at_least(value * _NEARLY)


def count(value: float) -> str:
    """Return a number of messages or bits, to three digits if it is a mean."""
    return f"{value:,.0f}" if value == round(value) else grouped(f"{value:.3g}")


def _error(row: Row) -> str:
    """Return the bound beside measured errors, and nothing without them."""
    return bound(row.entry.rmse or 0.0) if row.runs else ""


KEYS = [
    Field("users", "number of users"),
    Field("min_honest", "minimum number of honest users"),
    Field("epsilon", "epsilon of the guarantee"),
    Field("delta", "delta of the guarantee; 1/users^2 by default"),
    Field("releases", "number of sums about the same users that the guarantee covers together"),
    Field("overhead", "transport overhead per message in bytes, or null"),
    *DOMAIN_KEYS,
    Field("integers", "whether the values are integers", value="request.integers"),
    Field("data", "null, or with --data an object of file, column, out_of_range, runs (of each "
          "protocol), seed (null for secure randomness) and confidence (of the intervals)"),
    Field("plot", "the file that was written, or null"),
]  # fmt: skip

COLUMNS = [
    Field("key", "the protocol", "protocol", value="entry.key"),
    Field("model", "trust model: central, helpers, shuffle or local", "model",
          value="entry.spec.model"),
    Field("name", "the protocol in words", value="entry.spec.name"),
    Field("source", "the paper", value="entry.spec.source"),
    Field("trust", "a special assumption, or null", value="entry.spec.note"),
    Field("messages_per_user", "null if the protocol is not possible", "messages", count,
          "entry.messages", needed=True),
    Field("bits_per_user", "bits per user; the mean if they vary", "bits", count, "entry.bits"),
    Field("bytes_per_user", "bytes per user, with --overhead for each message; null without it",
          "bytes", count),
    Field("mse", "bound on the mean squared error of the sum, in squared units", "MSE", bound,
          "entry.mse"),
    Field("standard_error", "bound on the root mean squared error of the sum", "RMSE",
          value="entry.rmse", text=_error),
    Field("mean_error", "bound on the root mean squared error of the mean", "RMSE of mean", bound),
    Field("influence", "greatest change of the sum by one dishonest user; null if unlimited",
          "one user", bound, "entry.influence"),
    Field("unlimited", "whether there is no such limit"),
    Field("guarantee", "epsilon, delta, theorem, conditions, adjacency; of all releases together",
          value="entry.guarantee"),
    Field("measured", "with --data: root mean squared error of the runs, NOT private",
          "measured", count, "runs.rmse"),
    Field("low", "lower end of an approximate interval for it", "from", count, "interval.low"),
    Field("high", "upper end of that interval", "to", count, "interval.high"),
    Field("seconds", "seconds per run", "s/run", "{:.2g}".format, "runs.seconds"),
    Field("errors", "error of each run, NOT private", value="runs.errors"),
    Field("servers", "number of servers: the curator, or the analyzer and the helper or the fewest "
          "shufflers", "servers", value="entry.servers"),
    Field("task", "the --transport of 'ikos task new' that runs it between parties, or null",
          "task", value="entry.task"),
    Field("trusted", "who must be trusted, with what", "who is trusted with what",
          value="entry.trusted"),
    Field("reason", "why the protocol is not possible, or did not run; or null"),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos compare --users 10^4 --epsilon 1 --delta 1e-8
  ikos compare --data people.csv --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  ikos compare --users 10^4 --epsilon 1 --domain ball \\
      --dimension 64 --plot compare.png
  ikos compare --users 10^6 --epsilon 1 --domain categories \\
      --sizes 1000 --releases 52 --overhead 48
"""

SECTIONS = {"users": "Compared", "domain": "Vectors", "file": "On data", "plot": "Output"}

RUNS = 20

LEGEND = (
    "MSE and RMSE: bounds on the mean squared error of the sum, and on its root, whatever the "
    "values; for vectors, of the Euclidean distance from the sum. One user: how much one dishonest "
    "user can change the sum. All in the data's units. Task: the --transport of 'ikos task new' "
    "that runs it between parties, and whose --dry-run plans the number of shufflers; all others "
    "are simulations."
)
NOT_PRIVATE = "measured errors are differences from the true sum, and NOT private"
GAUSSIAN = (
    "A curator need not add Gaussian noise: where private-vector-sum has less error, a curator can "
    "add the same noise."
)


def _complete(_ctx: click.Context, _param: click.Parameter, start: str) -> list[CompletionItem]:
    from ikos.baselines import PROTOCOLS

    return [CompletionItem(spec.key) for spec in PROTOCOLS if spec.key.startswith(start)]


@dataclass(frozen=True)
class Row:
    """A protocol of the library's comparison, with its runs on the data, if any."""

    entry: ComparisonRow
    users: int
    overhead: int | None
    reason: str | None
    runs: Measurement | None = None

    @classmethod
    def of(cls, entry: ComparisonRow, users: int, overhead: int | None) -> Row:
        """Return a row without runs."""
        refusal = entry.refusal
        return cls(entry, users, overhead, None if refusal is None else in_options(refusal))

    @property
    def bytes_per_user(self) -> float | None:
        """Bytes that each user sends, with the overhead of each message."""
        messages, bits = self.entry.messages, self.entry.bits
        if self.overhead is None or messages is None or bits is None:
            return None
        return math.ceil(bits / 8) + self.overhead * messages

    @property
    def mean_error(self) -> float | None:
        """Bound on the root mean squared error of the mean."""
        return None if self.entry.rmse is None else self.entry.rmse / self.users

    @property
    def unlimited(self) -> bool:
        """Whether one user can change the sum without a limit."""
        return self.entry.influence is not None and math.isinf(self.entry.influence)

    @property
    def interval(self) -> Interval | None:
        """Approximate interval for the measured error."""
        return None if self.runs is None else self.runs.interval(CONFIDENCE)

    def __str__(self) -> str:
        """Return the explanation of the row, and why it has no numbers."""
        spec = self.entry.spec
        parts = [f"{spec.key}: {spec.name} ({spec.source})", spec.note]
        if self.reason:
            state = "did not run" if self.entry.protocol else "NOT possible here"
            parts.append(f"{state}: {self.reason}")
        return "; ".join(filter(None, parts))


@dataclass(frozen=True, kw_only=True)
class CompareRequest(DomainRequest):
    """Options of the command; those of a table are None without ``--data``."""

    users: int | None = from_option(type=Whole(1, 10**9), help="Number of users; or give --data.")
    min_honest: int | Fraction | None
    epsilon: Fraction = from_option(required=True)
    delta: Fraction | None = from_option(show_default="1/users^2")
    releases: int = from_option(
        type=Whole(1, 10**6), default=1,
        help="Number of sums about the same users, such as one a week, that the guarantee covers "
        "together.")  # fmt: skip
    lower: float | None = from_option(show_default="0 without --data")
    upper: float | None = from_option(show_default="1 without --data")
    integers: bool = from_option(
        help="The values are integers, rounded only where a protocol's steps do not fit them."
    )
    protocols: tuple[str, ...] = from_option(
        "--protocol", multiple=True, metavar="NAME", show_default="all", shell_complete=_complete,
        help="Only this protocol, as named in the table; may be repeated.")  # fmt: skip
    domain: str | None
    dimension: int | None
    radius: float | None
    sparsity: int | None
    sizes: tuple[int, ...] | None
    overhead: int | None
    file: str | None = from_option(
        "--data", type=TABLE, metavar="TABLE", show_default="none", help="Also run every protocol "
        "on a column of a table with one row per user, and print the errors, which are NOT "
        "private.")  # fmt: skip
    column: str | None
    no_header: bool
    delimiter: str | None
    show_values: bool
    on_out_of_range: str | None
    runs: int | None = from_option(
        type=Whole(1, 10**6), show_default=str(RUNS),
        help="Number of runs of each protocol on the data.")  # fmt: skip
    seed: int | None
    plot: Path | None = from_option(
        help="Plot the errors against messages and bits to a .png, .svg or .pdf file. Needs the "
        "extra 'plot'."
    )

    @property
    def space(self) -> Domain | Bounds:
        """The domain, of integers if they are."""
        from ikos.data.domains import Bounds, IntegerBounds

        space = super().space
        if not self.integers:
            return space
        if not isinstance(space, Bounds):
            raise click.UsageError(f"--integers is not for --domain {self.domain}")
        return IntegerBounds(space.lower, space.upper)

    def check(self) -> None:
        """Refuse options that do not go together."""
        if self.file is None:
            for_data = {
                "column": self.column, "no-header": self.no_header, "delimiter": self.delimiter,
                "show-values": self.show_values, "on-out-of-range": self.on_out_of_range,
                "runs": self.runs, "seed": self.seed,
            }  # fmt: skip
            for name, value in for_data.items():
                if value is not None and value is not False:
                    raise click.UsageError(f"--{name} needs --data")
            if self.users is None:
                raise click.UsageError("give --users, or --data, a table with a row for each")
        elif self.domain is not None or None in (self.column, self.lower, self.upper):
            raise click.UsageError("--data needs --column, --lower and --upper, and no --domain")


@dataclass(frozen=True)
class Compared:
    """The common parameters of all protocols, and the values of a table, if they run on one."""

    users: int
    min_honest: int
    epsilon: Fraction
    delta: Fraction
    space: Domain | Bounds
    values: NDArray[Any] | None = None
    clamped: int = 0

    @classmethod
    def of(cls, request: CompareRequest) -> Compared:
        """Return the parameters, with a table's number of users and the default delta."""
        space, users, values, clamped = request.space, request.users or 0, None, 0
        if request.file is not None:
            values, clamped = _column(request)
            users = values.size
        if request.users not in (None, users):
            raise click.UsageError(f"--users must be the {users} rows, got {request.users}")
        delta = request.delta
        if delta is None and users == 1:
            raise click.UsageError("give --delta: for a single user there is no default")
        if delta is None:
            delta = Fraction(1, users**2)
        honest = Honest.of(request.min_honest, users)
        return cls(users, honest, request.epsilon, delta, space, values, clamped)


def _column(request: CompareRequest) -> tuple[NDArray[Any], int]:
    """Return the values of the table, and the number of those moved to the bounds."""
    import numpy as np

    table = release.TableRequest(
        file=request.file or "", column=request.column or "", no_header=request.no_header,
        delimiter=request.delimiter, show_values=request.show_values,
    )  # fmt: skip
    clamp, truth = request.on_out_of_range == "clamp", release.Truth()
    rule = release.Rule(request.lower or 0.0, request.upper or 0.0, clamp, request.integers)
    values = np.concatenate(release.blocks(truth.seen(table.source().values, rule)))
    return values, truth.clamped


@click.command(
    "compare", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=COLUMNS
)
@takes(CompareRequest)
def command(request: CompareRequest) -> Report:
    """Compare private-sum protocols: cost, error, one user's influence.

    Shows what each user sends, how large the error can be, and how much one dishonest user can
    change the sum, for the same users and the same guarantee. With --domain the sums are of
    vectors. With --data every protocol also runs on a column of values, and measured errors are
    shown next to the bounds.
    """
    from ikos.baselines import comparison
    from ikos.results.sums import budget_warnings

    check_plot(request.plot)
    request.check()
    compared = Compared.of(request)
    with progress("choosing parameters") as shown:
        entries = comparison(
            compared.users, compared.epsilon, compared.delta, domain=compared.space,
            min_honest=compared.min_honest, overhead=request.overhead,
            releases=request.releases, protocols=request.protocols or None, progress=shown,
        )  # fmt: skip
    rows = [Row.of(entry, compared.users, request.overhead) for entry in entries]
    if not any(entry.protocol for entry in entries):
        reasons = "; ".join(f"{row.entry.key}: {row.reason}" for row in rows)
        raise click.UsageError(f"no protocol is possible here: {reasons}")
    warnings = budget_warnings(compared.epsilon, compared.delta, compared.users)
    if compared.values is not None:
        rows = _measured(rows, compared.values, request)
        warnings.append(NOT_PRIVATE)
        if compared.clamped:
            warnings.append(f"{compared.clamped:,} values were moved to the bounds")
    values = "vectors" if request.domain else "integers" if request.integers else "values"
    title = (
        f"Protocols for the sum of {power_text(compared.users)} {values} with "
        f"({float(compared.epsilon):.6g}, {at_least(float(compared.delta))})-differential privacy"
        + f" for {request.releases:,} releases together"
        * (request.releases > 1)
    )
    if request.plot is not None:
        from ikos.plots import save
        from ikos.plots.protocols import protocols_figure

        runs = {row.entry.key: row.runs for row in rows if row.runs is not None}
        save(protocols_figure(entries, title, measured=runs or None), request.plot)
    table = {
        "file": request.file, "column": request.column,
        "out_of_range": request.on_out_of_range or "reject", "runs": request.runs or RUNS,
        "seed": request.seed, "confidence": CONFIDENCE,
    }  # fmt: skip
    data = {
        "users": compared.users, "min_honest": compared.min_honest, "epsilon": compared.epsilon,
        "delta": compared.delta, "releases": request.releases, "overhead": request.overhead,
        **domain_values(request.domain, compared.space), "integers": request.integers,
        "data": None if request.file is None else table, "plot": request.plot,
    }  # fmt: skip
    return Report(title, COLUMNS, rows, _notes(request, compared, rows), data, warnings)


def _notes(request: CompareRequest, compared: Compared, rows: Sequence[Row]) -> list[str]:
    notes = [LEGEND]
    if request.delta is None:
        notes.append("delta is 1/users^2, as --delta was not given.")
    if request.releases > 1:
        notes.append(_releases_note(request.releases, compared, rows))
    if compared.min_honest < compared.users:
        honest = f"{compared.min_honest:,} of {compared.users:,}"
        notes.append(f"The guarantees hold while at least {honest} users are honest.")
    if any(row.runs for row in rows):
        notes.append(
            "Measured, NOT private: root mean squared error of the sum, with an approximate "
            f"{CONFIDENCE * 100:g} % interval."
        )
    return notes + [str(row) for row in rows] + [GAUSSIAN] * (request.domain is not None)


def _releases_note(releases: int, compared: Compared, rows: Sequence[Row]) -> str:
    """Return what one release may spend, which a task states for each window."""
    from ikos.baselines.registry import budget_each
    from ikos.results.text import at_most

    epsilon, delta = budget_each(compared.epsilon, compared.delta, releases)
    accounted = ", ".join(row.entry.key for row in rows if row.entry.spec.accounts)
    note = (
        f"Errors and costs are those of one release. Each of {releases:,} may spend "
        f"--epsilon {at_most(epsilon, 6)} --delta {at_most(float(delta), 3)} (KOV15), as each "
        "window of a task."
    )
    return note + f" With less noise: {accounted}, which account for all at once." * bool(accounted)


def _measured(rows: Sequence[Row], values: NDArray[Any], request: CompareRequest) -> list[Row]:
    """Run every protocol that is possible. Its draws do not depend on which others run."""
    from ikos.baselines import measure
    from ikos.testing import DeterministicRandom

    measured = []
    with progress("running") as shown:
        for done, row in enumerate(rows, 1):
            if row.entry.protocol is not None:
                rng = None if request.seed is None else DeterministicRandom(request.seed)
                try:
                    runs = measure(row.entry, values, request.runs or RUNS, rng)
                    row = replace(row, runs=runs)
                except (ValueError, MemoryError) as error:
                    row = replace(row, reason=problem(error))
            measured.append(row)
            shown(done, len(rows))
    return measured
