"""``ikos task``: the folders, the progress and the result of a sum between parties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli import types
from ikos.cli.errors import Command, Group
from ikos.cli.options import check_bounds, from_option, option, takes
from ikos.cli.output import complain, print_report, say
from ikos.cli.release import COLUMNS, EstimateRow, guarantee_notes
from ikos.cli.types import Honest, Whole, check_labels
from ikos.results.report import Field, Report

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ikos.deployment.opening import PrivateKey
    from ikos.deployment.remote import RemoteAnalyzer
    from ikos.deployment.task import Task, Window
    from ikos.deployment.wire import AnalyzerStatus, Result

TASK_KEYS = [
    Field("task", "name of the task, the hash of its description"),
    Field("users", "clients that may take part"),
    Field("min_honest", "minimum number of honest clients in a release"),
    Field("corrupt_clients", "dishonest clients tolerated in a release"),
    Field("min_reports", "complete reports that a release needs: the sum of both"),
    Field("domain", "domain of the values: numbers within bounds, a box, a ball, or categories"),
    Field("integers", "whether values are integers"),
    Field("epsilon", "epsilon of the guarantee"),
    Field("delta", "proved delta of the guarantee"),
    Field("requested_delta", "the delta requested"),
    Field("theorem", "theorem of the guarantee"),
    Field("conditions", "conditions of the guarantee"),
    Field("corrupt_shufflers", "shufflers, helpers or relays that may collude with the analyzer"),
    Field("precision", "steps of the encoding between the bounds; mostly 1 for categories"),
    Field(
        "modulus",
        "order of the group of the shares, or one more than there are messages of "
        "frequencies; a string of digits",
    ),
    Field("shuffled", "number of shufflers, helpers or relays"),
    Field(
        "transport",
        "what clients send: shares; masks, with shares of their keys; helpers: a "
        "vector, and seeds; verified: a proof, and openings; or frequencies",
    ),
    Field("block_length", "coordinates per envelope; the last one may have fewer"),
    Field("blocks", "envelopes per client and shuffler, helper or relay"),
    Field("kem", "KEM of the envelopes: mlkem768-x25519 or x25519"),
    Field(
        "keys",
        "number of key pairs of the analyzer, or of each helper or relay, each for consecutive "
        "windows",
    ),
    Field("messages", "messages per client: all envelopes, and the analyzer's part, if any"),
    Field("bytes_per_client", "bytes that a client sends to all parties"),
    Field("bytes_per_shuffler", "bytes that a shuffler, helper or relay receives, if all report"),
    Field(
        "disk_per_shuffler",
        "approximate bytes on the disk of a shuffler, helper or relay per window, if all report",
    ),
    Field("disk_analyzer", "approximate bytes on the analyzer's disk per window, if all report"),
    Field("release_seconds", "approximate time on one core to release a result if all report"),
    Field("root_mse", "bound on the root mean squared error of the sum of all clients"),
    Field("opens", "when the first window opens"),
    Field("closes", "when the last window closes"),
    Field("windows", "number of windows, each with its own reports and result"),
]
"""The keys of the JSON object that describes a task, `ikos.deployment.Task.summary`."""

NEW_KEYS = [
    *TASK_KEYS,
    Field("task", "name of the task, the hash of its description; null for a dry run"),
    Field("output", "the folder that was created; null for a dry run"),
    Field("folders", "the recipient of each folder or file in it"),
    Field("shufflers", "addresses of shufflers, helpers or relays; null for a dry run without any"),
    Field("analyzer", "address of the analyzer; null for a dry run without it"),
]

STATUS_KEYS = [
    Field("task", "name of the task"),
    Field("window", "number of the window, from 0"),
    Field("party", "0, the analyzer"),
    Field("state", "collecting, closed, agreed, stopped or released"),
    Field("reports", "reports at the analyzer"),
    Field("complete", "complete reports; null before their number is known"),
    Field("refused", "verified reports that were refused; 0 before that is known"),
    Field("refusals", "ids of these, 1,000 at most, each with the number of the party that "
          "refused it"),
    Field("opens", "when the window opens"),
    Field("closes", "when the window closes"),
    Field("expires", "when the analyzer deletes unreleased reports"),
    Field("release", "running, step, message, and again: the seconds until the next attempt, or "
          "null"),
    Field("result", "null before the release; estimate, sum_low, sum_high, mean, "
          "standard_error, users, epsilon, delta, theorem, conditions, refused, text; for vectors, "
          "the first four are lists"),
]  # fmt: skip

CERTIFICATE_KEYS = [
    Field("task", "name of the task"),
    Field("window", "number of the window, from 0"),
    Field("output", "the file that was created"),
    Field("bytes", "its length"),
]

TASK_COLUMNS = [Field("name", "one of the keys"), Field("value", "the value of the key")]

EXAMPLES = """\b
Examples
  ikos task new --dry-run --users 10^4 --min-honest 9000 \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  ikos task new --dry-run --users 10^6 --min-honest 90% \\
      --categories red,green,blue --transport helpers --helpers 2 \\
      --epsilon 1 --delta 1e-9
  ikos task new --output visits --users 2000 --integers \\
      --lower 0 --upper 7 --epsilon 1 --delta 1e-8 \\
      --min-honest 95% --analyzer https://analyzer.example \\
      --shuffler https://a.example --shuffler https://b.example \\
      --shuffler https://c.example --shuffler https://d.example \\
      --shuffler https://e.example
  ikos task new --dry-run --users 10^4 --min-honest 90% \\
      --categories red,green,blue --windows 24 --hours 1 \\
      --epsilon 0.1 --delta 1e-9
"""

SECTIONS = {"users": "Clients and their values", "epsilon": "Privacy", "precision": "Protocol",
            "shufflers": "The parties", "opens": "Windows", "output": "Output"}  # fmt: skip

SECRECY = (
    "Give each folder to a different person, over a channel that no one else can read, and keep no "
    "copies: anyone who holds the folders of all parties sees who sent what."
)


@click.group("task", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Create, monitor and finish a sum between separate parties.

    'new' chooses the parameters of a task and writes a folder for each party; 'ikos serve' runs the
    parties and 'ikos submit' the clients; 'status' shows the progress, 'close' ends the collection
    and 'release' releases the result, once. The parties need not trust each other. All commands
    print one JSON object with --json.
    """


@dataclass(frozen=True, kw_only=True)
class TaskRequest:
    """Options of a new task."""

    users: int = from_option(
        required=True, help="Number of clients that may take part, e.g. 1000 or 10^6."
    )
    lower: float | None
    upper: float | None
    integers: bool
    categories: list[str] | None
    coordinates: list[str] | int | None = from_option(
        type=types.COORDINATES, metavar="NAMES", help="Sum vectors: the number of their "
        "coordinates, or the names, listed like categories.")  # fmt: skip
    norm: float | None = from_option(
        type=types.NORM, help="Largest Euclidean norm of the vectors, instead of bounds."
    )
    transport: str = from_option(
        type=click.Choice(["shares", "masks", "helpers", "verified", "frequencies"]),
        default="shares",
        help="What clients send: shares of their values; masked vectors, and shares of the masks' "
        "keys: fewer bytes for thousands of coordinates, under an assumption; a vector, and a seed "
        "for each helper, that look random to it: still fewer, for any domain, if one of the "
        "analyzer and the helpers is honest; verified: commitments with a proof that the value is "
        "valid, and an opening for each relay: anyone can check the sum; or, for --categories, "
        "their category among random ones: with more error and one trusted shuffler.",
    )  # fmt: skip
    helpers: int | None = from_option(
        type=Whole(1), show_default="1, or the number of addresses", help="Number of helpers, for "
        "--transport helpers.",
    )  # fmt: skip
    relays: int | None = from_option(
        type=Whole(1), show_default="1, or the number of addresses", help="Number of relays, for "
        "--transport verified.",
    )  # fmt: skip
    noise: str | None = from_option(
        type=click.Choice(["users", "parties"]), show_default="users", help="Who adds noise, for "
        "--transport helpers: the users, of whom --min-honest must be honest; or the analyzer and "
        "each helper, all of it: no user must be honest, and the error is larger.",
    )  # fmt: skip
    set_size: int | None = from_option(
        type=Whole(1), show_default="1", help="Categories per message, for frequencies: more take "
        "fewer messages where there are many categories, and add error.",
    )  # fmt: skip
    layout: str | int | None = from_option(
        type=types.BlockLength(["separate", "group", "blocks"]), metavar="LAYOUT",
        show_default="separate", help="Coordinates per envelope, for shares of vectors: one "
        "(separate), all (group), a number, or blocks: as many as the given shufflers support or, "
        "without addresses, as minimize the bytes.")  # fmt: skip
    epsilon: Fraction = from_option(required=True)
    delta: Fraction = from_option(required=True)
    ledger: Path | None = from_option(
        help="Ledger ('ikos budget new') in which the analyzer records each release first; it "
        "stops one that would exceed the budget."
    )
    note: str | None = from_option(help="Description of the releases in the --ledger.")
    min_honest: int | Fraction = from_option(
        required=True, show_default=None, help="Minimum number of honest clients in a release: a "
        "count, or a percentage such as 90%. With 100%, one missing report stops it. With --noise "
        "parties they need not be honest.")  # fmt: skip
    corrupt_clients: int = from_option(
        type=types.CORRUPT, default=0, help="Dishonest clients tolerated in a release, which needs "
        "--min-honest plus this many complete reports.")  # fmt: skip
    corrupt_shufflers: int
    precision: int | None
    modulus: int | None = from_option(type=Whole(2, 1 << 4096))
    kem: str = from_option(
        type=click.Choice(["mlkem768-x25519", "x25519"]),
        default="mlkem768-x25519",
        help="Key exchange of the envelopes. Those of x25519 are 1,088 bytes shorter, but a "
        "quantum computer could decrypt them.",
    )
    shufflers: tuple[str, ...] = from_option(
        "--shuffler", "--helper", "--relay", type=str, default=None, multiple=True, metavar="URL",
        help="Address of a shuffler, helper or relay (https, or http on this machine); repeat for "
        "each.")  # fmt: skip
    analyzer: str | None = from_option(
        metavar="URL", help="Address of the analyzer, likewise; needed unless --dry-run."
    )
    opens: datetime | None = from_option(
        type=types.MOMENT, metavar="TIME", show_default="now",
        help="When the first window opens, e.g. 2026-01-31T12:00:00Z.")  # fmt: skip
    closes: datetime | None = from_option(
        type=types.MOMENT,
        metavar="TIME",
        show_default="after --hours",
        help="When the first window closes.",
    )
    hours: float | None = from_option(
        type=types.POSITIVE, show_default="24",
        help="Hours that each window is open, instead of --closes.")  # fmt: skip
    windows: int = from_option(
        type=Whole(1), default=1,
        help="Number of consecutive windows, each with its own reports and result.")  # fmt: skip
    keys: int | None = from_option(
        type=Whole(1), show_default="one per window",
        help="Number of key pairs of the analyzer, or of each helper or relay, for consecutive "
        "windows; a private key is erased when they are over.")  # fmt: skip
    output: Path | None = from_option(
        type=types.FOLDER, metavar="FOLDER", help="Folder to create; needed unless --dry-run."
    )
    dry_run: bool = from_option(
        is_flag=True, help="Show what is needed without writing anything; addresses are optional."
    )

    def check(self) -> None:
        """Refuse contradictory options."""
        if self.closes is not None and self.hours is not None:
            raise click.UsageError("give either --closes or --hours")
        if self.dry_run and self.output is not None:
            raise click.UsageError("--dry-run writes nothing: omit --output")
        for name in ("output", "analyzer"):
            if not self.dry_run and getattr(self, name) is None:
                raise click.UsageError(f"missing option '--{name}' (or --dry-run)")
        if self.note is not None and self.ledger is None:
            raise click.UsageError("--note needs --ledger")
        if self.transport == "frequencies" and self.categories is None:
            raise click.UsageError("--transport frequencies needs --categories")

    @property
    def domain(self) -> dict[str, Any]:
        """The arguments of `Task.new` for the domain of the values."""
        from ikos.data.domains import Ball, Box, Categories

        options = {
            "categories": self.categories, "coordinates": self.coordinates, "norm": self.norm,
            "lower": self.lower, "upper": self.upper,
        }  # fmt: skip
        match tuple(name for name, value in options.items() if value is not None):
            case ("lower", "upper"):
                return self._bounds
            case ("categories",):
                labels = self.categories or []
                check_labels("--categories", labels)
                return {"domain": Categories([len(labels)]), "labels": labels}
            case ("coordinates", "lower", "upper"):
                dimension, names = self._dimension
                return {"domain": Box(dimension, **self._bounds), "labels": names}
            case ("coordinates", "norm"):
                dimension, names = self._dimension
                return {"domain": Ball(dimension, self.norm or 0), "labels": names}
        raise click.UsageError(
            "give --lower and --upper for numbers, also --coordinates for vectors; or "
            "--coordinates and --norm; or --categories"
        )

    @property
    def _bounds(self) -> dict[str, Any]:
        lower, upper = self.lower or 0.0, self.upper or 0.0
        check_bounds(lower, upper)
        return {"lower": lower, "upper": upper}

    @property
    def _dimension(self) -> tuple[int, list[str]]:
        """The number of coordinates, and their names."""
        if isinstance(self.coordinates, int):
            return self.coordinates, []
        names = self.coordinates or []
        check_labels("--coordinates", names)
        return len(names), names

    def task(self, keys: list[PrivateKey], signing: list[Ed25519PrivateKey]) -> Task:
        """Return the task; for a dry run a draft, without keys."""
        from ikos.deployment.task import Task

        hours = timedelta(hours=24 if self.hours is None else self.hours)
        return Task.new(
            self.users, self.epsilon, self.delta, **self.domain, integers=self.integers,
            transport=self.transport, layout=self.layout, set_size=self.set_size,
            helpers=self.helpers, noise=self.noise, relays=self.relays,
            signing_keys=[key.public_key().public_bytes_raw() for key in signing] or None,
            min_honest=Honest.of(self.min_honest, self.users),
            corrupt_clients=self.corrupt_clients, corrupt_shufflers=self.corrupt_shufflers,
            precision=self.precision, modulus=self.modulus, kem=self.kem,
            shufflers=self.shufflers or (None if self.dry_run else ()), analyzer=self.analyzer,
            public_keys=() if self.dry_run else [key.public_bytes for key in keys],
            keys=self.keys, opens=self.opens, closes=self.closes or hours, windows=self.windows,
        )  # fmt: skip


@command.command(
    "new", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=NEW_KEYS, columns=TASK_COLUMNS
)
@takes(TaskRequest)
def new(request: TaskRequest) -> Report:
    """Create a task and a folder for each party.

    Chooses the precision, the group and the number of messages, and so how many shufflers are
    needed, if there are any. Give each folder to a different person: anyone who holds all of them
    sees everything.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ikos._validation import InvalidValue
    from ikos.deployment.opening import PrivateKey
    from ikos.deployment.party_files import write_party_files
    from ikos.deployment.protocols import TERMS
    from ikos.deployment.task import BatchTooLarge
    from ikos.results.sums import budget_warnings, noise_warnings

    request.check()
    terms, columns = TERMS[request.transport], len(request.shufflers)
    count = (request.keys or request.windows) * len(terms.key_holders(columns))
    keys = [PrivateKey.generate(request.kem) for _ in range(count)]
    signs = "signing_keys" in terms.options and not request.dry_run
    signing = [Ed25519PrivateKey.generate() for _ in range((columns + 1) * signs)]
    try:
        task = request.task(keys, signing)
    except BatchTooLarge as error:
        raise InvalidValue("users", error.what, advice=[*_fitting(request)]) from None
    report, folders = task.summary(), {}
    name = task.transport.intermediary
    needed = f"1 {name} is" if task.columns == 1 else f"{task.columns} {name}s are"
    title, notes = f"{needed} needed, and an analyzer.", ["Nothing was written."]
    if request.output is not None:
        folders = write_party_files(
            task, keys, request.output, request.ledger, request.note or "", signing
        )
        recipients = [f"Give {folder} to {whom}." for folder, whom in folders.items()]
        title, notes = report.title, [*recipients, SECRECY]
    warnings = budget_warnings(request.epsilon, request.delta, task.users)
    warnings += noise_warnings(task.domain, task.users, task.protocol.mse**0.5)
    data = {
        **report.data, "command": "task new", "task": task.name if folders else None,
        "output": request.output, "folders": folders, "shufflers": request.shufflers or None,
        "analyzer": request.analyzer,
    }  # fmt: skip
    return replace(report, title=title, notes=[*report.notes, *notes], data=data, warnings=warnings)


def _fitting(request: TaskRequest) -> Iterator[tuple[str, str, str]]:
    """Yield the transports with which a task's batches fit, as advice, with bytes per client."""
    layouts = {
        "shares": "blocks", "masks": None, "helpers": None, "verified": None, "frequencies": None
    }  # fmt: skip
    for transport, layout in layouts.items():
        for kem in (request.kem, "x25519"):
            other = replace(
                request, transport=transport, layout=layout, kem=kem, shufflers=(), dry_run=True
            )
            with suppress(ValueError, TypeError):
                data = other.task([], []).summary().data
                options = f"--layout {layout} " * bool(layout) + f"--kem {data['kem']}"
                effect = f"{options} fits: {data['bytes_per_client']:,} bytes per client"
                yield "transport", transport, effect
                break


# Requests to the analyzer


def _query(name: str, epilog: str, keys: list[Field] = STATUS_KEYS) -> Callable[[Any], Any]:
    """Add a command that queries the analyzer, with the common options."""

    def add(function: Any) -> Any:
        window = option("--window", type=Whole(), show_default="the current one",
                        help="Number of the window, from 0, if the task has several.")  # fmt: skip
        arguments = click.argument("folder", type=types.FOLDER)(option("--ca")(window(function)))
        documented = {"keys": keys, "columns": COLUMNS}
        return command.command(name, cls=Command, epilog=epilog, **documented)(arguments)

    return add


@_query("status", "\b\nExample\n  ikos task status visits/task.json --json")
def status(folder: Path, ca: Path | None, window: int | None) -> Report:
    """Show the progress of a window of a task.

    FOLDER contains the task (or give its task.json). Queries the analyzer; no secret is needed.
    """
    from ikos.deployment.party_files import read_task
    from ikos.deployment.remote import RemoteAnalyzer, connect

    task = read_task(folder)
    with connect(ca) as http:
        chosen = _window(task, window)
        return status_report(chosen, RemoteAnalyzer(http, chosen).status(), "status")


@_query("close", "\b\nExample\n  ikos task close visits/operator")
def close(folder: Path, ca: Path | None, window: int | None) -> Report:
    """Stop all parties from accepting reports, permanently.

    FOLDER is the operator's folder. Windows also close by themselves when their time is up.
    """
    with _operated(folder, ca, window) as (chosen, analyzer):
        closed = analyzer.close()
    if closed.missing:
        raise click.UsageError(
            f"the analyzer closed the task, but {closed.missing}; it will keep notifying them"
        )
    if closed.state == "released":
        path = click.get_current_context().command_path
        complain(path, "warning", "the task was released already: there was nothing to close")
    return status_report(chosen, closed, "close")


@_query("release", "\b\nExample\n  ikos task release visits/operator --wait 0 --json")
@option("--wait", type=types.SECONDS, default=600, metavar="SECONDS",
        help="Seconds to wait for the result; the release goes on at the analyzer.")  # fmt: skip
def release(folder: Path, wait: float, ca: Path | None, window: int | None) -> Report:
    """Release the sum of the complete reports, once, and print it.

    FOLDER is the operator's folder. An open window is closed first, unless it has too few reports:
    to end it anyway, use 'ikos task close' first. Steps are shown on standard error. If a party
    does not answer, the analyzer retries and resumes where it stopped, even after this command has
    ended.
    """
    path = click.get_current_context().command_path
    with _operated(folder, ca, window) as (chosen, analyzer):
        try:
            finished = analyzer.finish(wait, lambda step: say(f"{path}: {step}"))
        except KeyboardInterrupt:
            effect = "nothing was requested"
            if analyzer.ordered:
                effect = "the release goes on at the analyzer"
            raise KeyboardInterrupt(f"interrupted; {effect}") from None
    report = status_report(chosen, finished, "release")
    if finished.state == "stopped":
        print_report(report)
        raise click.exceptions.Exit(1)
    return report


@_query(
    "certificate",
    "\b\nExample\n  ikos task certificate visits/task.json visits.certificate",
    CERTIFICATE_KEYS,
)
@click.argument("output", metavar="FILE", type=types.FILE)
def certificate(folder: Path, output: Path, ca: Path | None, window: int | None) -> Report:
    """Fetch the certificate of a verified sum, for 'ikos verify'.

    FOLDER contains the task (or give its task.json). Queries the analyzer; no secret is needed.
    """
    from ikos.deployment.party_files import read_task
    from ikos.deployment.remote import RemoteAnalyzer, connect

    chosen = _window(read_task(folder), window)
    try:
        with connect(ca) as http, output.open("xb") as file:
            RemoteAnalyzer(http, chosen).certificate(file)
    except FileExistsError:
        raise click.UsageError(f"FILE must not exist yet, got {str(output)!r}") from None
    except BaseException:
        output.unlink(missing_ok=True)
        raise
    length = output.stat().st_size
    data = {"command": "task certificate", "task": chosen.task.name, "window": chosen.number,
            "output": output, "bytes": length}  # fmt: skip
    note = f"Check it: ikos verify {output} --task {folder}"
    return Report(f"{length:,} bytes in {output}", COLUMNS, [], [note], data)


def _window(task: Task, number: int | None) -> Window:
    """Return a window of a task, by default the current one by this machine's clock."""
    return task.current(datetime.now(UTC)) if number is None else task.at(number)


@contextmanager
def _operated(
    folder: Path, ca: Path | None, number: int | None
) -> Iterator[tuple[Window, RemoteAnalyzer]]:
    """Yield a window of the task of the operator's folder, and its analyzer."""
    from ikos.deployment.party_files import read_control, read_task
    from ikos.deployment.remote import RemoteAnalyzer, connect

    task, control = read_task(folder), read_control(folder)
    if number is None and task.windows > 1:
        raise click.UsageError(f"give --window, from 0 to {task.windows - 1}")
    window = _window(task, number)
    with connect(ca) as http:
        yield window, RemoteAnalyzer(http, window, control)


def status_report(window: Window, status: AnalyzerStatus, command: str) -> Report:
    """Return the analyzer's status of a window, with the result if there is one."""
    from ikos.results.sums import at_least, budget_warnings

    task = window.task
    complete = "" if status.complete is None else f", {status.complete:,} of them complete"
    complete += f", {status.refused:,} refused" * bool(status.refused)
    early = status.state == "collecting" and datetime.now(UTC) < window.opens
    title = f"{'not open yet' if early else status.state}: {status.reports:,} reports{complete}"
    notes = [
        f"At least {task.min_reports:,} of {task.users:,} reports must be complete.",
        f"Open from {window.opens:%Y-%m-%d %H:%M:%S} to {window.closes:%Y-%m-%d %H:%M:%S} UTC.",
    ]
    if task.windows > 1:
        notes.append(f"Window {window.number} of windows 0 to {task.windows - 1}.")
    for party in sorted(set(status.refusals.values())):
        refused = [number for number, by in status.refusals.items() if by == party]
        some = ", ".join(refused[:5]) + f" and {len(refused) - 5:,} more" * (len(refused) > 5)
        notes.append(f"Refused by {task.party_name(party)}: {some}.")
    if words := status.release.words:
        notes.append(f"Release: {words}.")
    rows = []
    if (result := status.result) is not None:
        rows = _estimates(task, result)
        notes += [
            "Each interval contains the true value with 95% confidence.",
            "The standard error of the sum"
            + " of all coordinates" * isinstance(result.estimate, list)
            + f" is at most {at_least(result.standard_error, 4)}.",
            *guarantee_notes(task.protocol.guarantee),
            *budget_warnings(result.epsilon, result.delta, result.users),
            *task.transport.notes(task),
        ]
        if task.transport.signing_keys:
            notes.append("Its certificate, for anyone to check: ikos task certificate.")
    fields = status.model_dump(exclude={"missing", "time", "version"})
    data = {"command": f"task {command}", **fields}
    return Report(title.capitalize(), COLUMNS, rows, notes, data)


def _estimates(task: Task, result: Result) -> list[EstimateRow]:
    """Return the released sums and means, or the counts of a histogram."""
    from ikos.data.domains import Categories
    from ikos.results.sums import Interval

    counted, rows = isinstance(task.domain, Categories), []
    for label, total, ends in result.rows(task.labels):
        coordinate = f" {label}" if label else ""
        rows.append(EstimateRow(label if counted else f"sum{coordinate}", total, ends))
        if not counted:
            mean = Interval(*(end / result.users for end in ends))
            rows.append(EstimateRow(f"mean{coordinate}", total / result.users, mean))
    return rows
