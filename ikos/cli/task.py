"""``ikos task`` and ``ikos serve``: the folders, programs and result of a sum between parties."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command, Group
from ikos.cli.options import check_bounds, option, options
from ikos.cli.output import complain, print_report, say
from ikos.cli.release import COLUMNS, Estimate, guarantee_notes
from ikos.cli.types import (
    COORDINATES,
    CORRUPT,
    FILE,
    FOLDER,
    MOMENT,
    NORM,
    POSITIVE,
    SECONDS,
    BlockLength,
    Honest,
    Whole,
    check_labels,
)
from ikos.results.report import Field, Report

if TYPE_CHECKING:
    from ikos.deployment.remote import RemoteAnalyzer
    from ikos.deployment.task import Task, Window
    from ikos.deployment.wire import AnalyzerStatus, Result

TASK_KEYS = [
    Field("task", "its name, the hash of its description"),
    Field("users", "clients that may take part"),
    Field("min_honest", "honest clients that a release must contain"),
    Field("corrupt_clients", "dishonest clients that may also be in it"),
    Field("min_reports", "complete reports that a release needs: the sum of both"),
    Field("domain", "where values lie: numbers within bounds, a box, a ball, or categories"),
    Field("integers", "whether values are integers"),
    Field("epsilon", "epsilon of the guarantee"),
    Field("delta", "proved delta of the guarantee"),
    Field("requested_delta", "the delta requested"),
    Field("theorem", "theorem of the guarantee"),
    Field("conditions", "conditions of the guarantee"),
    Field("corrupt_shufflers", "shufflers that may collude with the analyzer"),
    Field("precision", "steps of the encoding between the bounds"),
    Field("modulus", "order of the group of the shares, a string of digits"),
    Field("shuffled", "number of shufflers"),
    Field("block_length", "coordinates in an envelope; the last one may have fewer"),
    Field("blocks", "envelopes of a client for each shuffler"),
    Field("kem", "how envelopes are encrypted: mlkem768-x25519 or x25519"),
    Field("keys", "keys of the analyzer, each for some windows"),
    Field("messages", "messages of a client: all envelopes, and the clear share for the analyzer"),
    Field("bytes_per_client", "bytes that a client sends to all parties together"),
    Field("bytes_per_shuffler", "bytes that a shuffler receives, and later sends, if all report"),
    Field("release_seconds", "what a core takes, about, to release a result if all report"),
    Field("root_mse", "bound on the root mean squared error of the sum of all clients"),
    Field("opens", "when the first window opens"),
    Field("closes", "when the last window closes"),
    Field("windows", "how many windows there are, each with its own reports and result"),
]
"""The keys of the JSON object that describes a task, `ikos.deployment.Task.summary`."""

NEW_KEYS = [
    *TASK_KEYS,
    Field("task", "its name, the hash of its description; null for a dry run"),
    Field("output", "the folder made; null for a dry run"),
    Field("folders", "the recipient of each folder or file in it"),
    Field("shufflers", "their addresses; null for a dry run without them"),
    Field("analyzer", "its address; null for a dry run without it"),
]

STATUS_KEYS = [
    Field("task", "its name"),
    Field("window", "its number, from 0 on"),
    Field("party", "0, the analyzer"),
    Field("state", "collecting, closed, agreed, stopped or released"),
    Field("reports", "reports at the analyzer"),
    Field("complete", "complete reports; null before it is known"),
    Field("opens", "when reports begin to be accepted"),
    Field("closes", "when reports cease to be accepted"),
    Field("expires", "when the analyzer deletes what was not released"),
    Field("release", "running, step, message, and again: the seconds until the next attempt, or "
          "null"),
    Field("result", "null before it is released; estimate, sum_low, sum_high, mean, "
          "standard_error, users, epsilon, delta, theorem, conditions, text; of vectors, the first "
          "four are lists"),
]  # fmt: skip

TASK_COLUMNS = [Field("name", "one of the keys"), Field("value", "that of the key")]

EXAMPLES = """\b
Examples
  ikos task new --dry-run --users 10^4 --min-honest 9000 \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  ikos task new --output visits --users 2000 --integers \\
      --lower 0 --upper 7 --epsilon 1 --delta 1e-8 \\
      --min-honest 95% --analyzer https://analyzer.example \\
      --shuffler https://a.example --shuffler https://b.example \\
      --shuffler https://c.example --shuffler https://d.example \\
      --shuffler https://e.example --shuffler https://f.example
  ikos task new --dry-run --users 10^4 --min-honest 90% \\
      --categories red,green,blue --windows 24 --hours 1 \\
      --epsilon 0.1 --delta 1e-9
"""

SECTIONS = {"users": "Clients and their values", "epsilon": "Privacy", "precision": "Protocol",
            "shufflers": "The parties", "opens": "When", "output": "Output"}  # fmt: skip

SECRECY = (
    "Give each folder to a different person, over a channel that no one else can read, and keep no "
    "copies: a holder of the analyzer's and all shufflers' folders sees who sent what."
)


@click.group("task", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Make, watch and end sums of parties that do not trust each other.

    'new' chooses the numbers of a task and writes a folder for each party; 'ikos serve' runs the
    parties and 'ikos submit' the clients; 'status' shows the progress, 'close' ends the collection
    and 'release' releases the result, once. All print one JSON object with --json.
    """


@command.command(
    "new", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=NEW_KEYS, columns=TASK_COLUMNS
)
@options("--users", "--lower", "--upper", "--integers", required=("--users",))
@option("--categories")
@click.option("--coordinates", type=COORDINATES, metavar="NAMES",
        help="Add up vectors: their number of coordinates, or the names, as categories are given, "
        "all between the bounds.")  # fmt: skip
@click.option("--norm", type=NORM, metavar="NUMBER",
        help="Largest Euclidean norm of the vectors, instead of bounds.")  # fmt: skip
@option("--layout", type=BlockLength(["separate", "group", "blocks"]), default="separate",
        metavar="LAYOUT", help="Coordinates of vectors in an envelope: one (separate), all "
        "(group), a number, or blocks: the most that the shufflers prove; without their "
        "addresses, as many as take the fewest bytes.")  # fmt: skip
@options("--epsilon", "--delta", required=("--epsilon", "--delta"))
@option("--ledger", type=FILE, metavar="FILE",
        help="Ledger ('ikos budget new') in which the analyzer enters each release first; one that "
        "does not fit is stopped.")  # fmt: skip
@option("--min-honest", required=True, show_default=None,
        help="Honest clients that a release must contain: a number, or a share such as 90%. With "
        "all, one that is missing stops the release.")  # fmt: skip
@option("--corrupt-clients", type=CORRUPT, default=0,
        help="Dishonest clients that may be among them: nothing is released for fewer complete "
        "reports than both together.")  # fmt: skip
@options("--corrupt-shufflers", "--precision")
@option("--modulus", type=Whole(2, 1 << 4096))
@click.option("--kem", type=click.Choice(["mlkem768-x25519", "x25519"]),
        show_default="the first, if this machine has it",
        help="How envelopes are encrypted. A quantum computer could open those of x25519, which "
        "are 1,088 bytes shorter.")  # fmt: skip
@click.option("--shuffler", "shufflers", multiple=True, metavar="URL",
        help="Address of a shuffler, given once for each; https, or http on this "
        "machine.")  # fmt: skip
@option("--analyzer", metavar="URL", help="Address of the analyzer.")
@option("--opens", type=MOMENT, metavar="TIME", show_default="now",
        help="When reports begin to be accepted, such as 2026-01-31T12:00:00Z.")  # fmt: skip
@option("--closes", type=MOMENT, metavar="TIME", help="When reports cease to be accepted, in the "
        "first window.")  # fmt: skip
@option("--hours", type=POSITIVE, show_default="24",
        help="How long reports are accepted in each window, instead of --closes.")  # fmt: skip
@option("--windows", type=Whole(1), default=1,
        help="How many windows there are, one after the other, each with a result.")  # fmt: skip
@option("--keys", type=Whole(1), show_default="one for each window",
        help="How many keys the analyzer has, each for some windows: it erases a key when they are "
        "over.")  # fmt: skip
@option("--output", type=FOLDER, metavar="FOLDER", help="The folder to be made.")
@option("--dry-run", is_flag=True,
        help="Show what is needed, and write nothing; addresses are optional.")  # fmt: skip
def new(
    output: Path | None,
    dry_run: bool,
    shufflers: tuple[str, ...],
    hours: float | None,
    ledger: Path | None,
    **given: Any,
) -> Report:
    """Make a task and a folder for each party.

    The precision, the group and the number of messages are chosen, and so the number of shufflers.
    Give each folder to a different person: a holder of all parties' folders sees everything.
    """
    from ikos.deployment.opening import PrivateKey
    from ikos.deployment.party_files import write_party_files
    from ikos.deployment.task import Task
    from ikos.results.sums import budget_warnings

    given |= _values(*map(given.pop, ("categories", "coordinates", "norm", "lower", "upper")))
    given["min_honest"] = Honest.of(given["min_honest"], given["users"])
    if given["closes"] is not None and hours is not None:
        raise click.UsageError("give either --closes or --hours")
    if dry_run and output is not None:
        raise click.UsageError("--dry-run writes nothing: omit --output")
    if not dry_run and None in (output, given["analyzer"]):
        raise click.UsageError("missing option '--output' or '--analyzer' (or --dry-run)")
    made = [PrivateKey.generate(given["kem"]) for _ in range(given["keys"] or given["windows"])]
    given["closes"] = given["closes"] or timedelta(hours=24 if hours is None else hours)
    public = () if dry_run else [key.public_bytes for key in made]
    task = Task.new(shufflers=shufflers or (None if dry_run else ()), public_keys=public, **given)
    report, folders = task.summary(), {}
    needed = "1 shuffler is" if task.columns == 1 else f"{task.columns} shufflers are"
    title, notes = f"{needed} needed, and an analyzer.", ["Nothing was written."]
    if output is not None:
        folders = write_party_files(task, made, output, ledger)
        handed = [f"Give {folder} to {whom}." for folder, whom in folders.items()]
        title, notes = report.title, [*handed, SECRECY]
    warnings = budget_warnings(given["epsilon"], given["delta"], task.users)
    data = {
        **report.data, "command": "task new", "task": task.name if folders else None,
        "output": output, "folders": folders, "shufflers": shufflers or None,
        "analyzer": given["analyzer"],
    }  # fmt: skip
    return replace(report, title=title, notes=[*report.notes, *notes], data=data, warnings=warnings)


def _values(
    categories: list[str] | None,
    coordinates: list[str] | int | None,
    norm: float | None,
    lower: float | None,
    upper: float | None,
) -> dict[str, Any]:
    """Return the options of `Task.new` that say where values lie."""
    from ikos.data.domains import Ball, Box, Categories

    bounded = (lower, upper) != (None, None)
    if bounded + (categories is not None) + (norm is not None) != 1:
        raise click.UsageError("give --lower and --upper, or --categories, or --norm")
    if lower is not None or upper is not None:
        if lower is None or upper is None:
            raise click.UsageError("--lower and --upper belong together")
        check_bounds(lower, upper)
    if (coordinates is None) != (norm is None) and not bounded:
        raise click.UsageError("--coordinates goes with bounds or --norm")
    if coordinates is None and categories is None:
        return {"lower": lower, "upper": upper}
    if categories is not None:
        check_labels("--categories", categories)
        return {"domain": Categories([len(categories)]), "labels": categories}
    names = coordinates if isinstance(coordinates, list) else []
    if names:
        check_labels("--coordinates", names)
    dimension: Any = len(names) or coordinates
    domain = Box(dimension, lower, upper) if norm is None else Ball(dimension, norm)  # type: ignore[arg-type]
    return {"domain": domain, "labels": names}


# Requests to the analyzer


def _asks(name: str, epilog: str) -> Callable[[Any], Any]:
    """Add a command that asks the analyzer, with the common options."""

    def add(function: Any) -> Any:
        made = option("--window", type=Whole(), metavar="NUMBER", show_default="the current one",
                      help="Window, from 0 on, of a task that has several.")(function)  # fmt: skip
        made = click.argument("folder", type=FOLDER)(option("--ca")(made))
        of = {"keys": STATUS_KEYS, "columns": COLUMNS}
        return command.command(name, cls=Command, epilog=epilog, **of)(made)

    return add


@_asks("status", "\b\nExample\n  ikos task status visits/task.json --json")
def status(folder: Path, ca: Path | None, window: int | None) -> Report:
    """Show the progress of a window of the task of FOLDER, or of a file task.json.

    Asks the analyzer, which tells anyone.
    """
    from ikos.deployment.party_files import read_task
    from ikos.deployment.remote import RemoteAnalyzer, connect

    task = read_task(folder)
    with connect(ca) as http:
        chosen = _window(task, window)
        return status_report(chosen, RemoteAnalyzer(http, chosen).status(), "status")


@_asks("close", "\b\nExample\n  ikos task close visits/operator")
def close(folder: Path, ca: Path | None, window: int | None) -> Report:
    """Stop all parties from accepting reports, now and for good.

    FOLDER is the operator's. Without this, a window closes at its time.
    """
    with _operated(folder, ca, window) as (chosen, analyzer):
        found = analyzer.close()
    if found.missing:
        raise click.UsageError(
            f"the analyzer closed the task, but {found.missing}; it goes on to tell them"
        )
    if found.state == "released":
        path = click.get_current_context().command_path
        complain(path, "warning", "the task was released already: nothing was left to close")
    return status_report(chosen, found, "close")


@_asks("release", "\b\nExample\n  ikos task release visits/operator --wait 0 --json")
@option("--wait", type=SECONDS, default=600, metavar="SECONDS",
        help="How long to follow it; it continues at the analyzer.")  # fmt: skip
def release(folder: Path, wait: float, ca: Path | None, window: int | None) -> Report:
    """Release the sum of the complete reports, once, and print it.

    FOLDER is the operator's. An open window is closed first, unless it has too few reports: to end
    it anyway, use 'ikos task close' first. Steps are shown on standard error. If a party does not
    answer, the analyzer retries and resumes where it was, even after this command has ended.
    """
    path = click.get_current_context().command_path
    with _operated(folder, ca, window) as (chosen, analyzer):
        try:
            found = analyzer.finish(wait, lambda step: say(f"{path}: {step}"))
        except KeyboardInterrupt:
            goes_on = "the release goes on at the analyzer"
            said = goes_on if analyzer.ordered else "nothing was ordered"
            raise KeyboardInterrupt(f"interrupted; {said}") from None
    report = status_report(chosen, found, "release")
    if found.state == "stopped":
        print_report(report)
        raise click.exceptions.Exit(1)
    return report


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


def status_report(window: Window, found: AnalyzerStatus, command: str) -> Report:
    """Return the analyzer's status of a window, with the result if there is one."""
    from ikos.results.sums import Guarantee, at_least, budget_warnings

    task = window.task

    complete = "" if found.complete is None else f", {found.complete:,} of them complete"
    early = found.state == "collecting" and datetime.now(UTC) < window.opens
    title = f"{'not open yet' if early else found.state}: {found.reports:,} reports{complete}"
    notes = [
        f"At least {task.min_reports:,} of {task.users:,} reports must be complete.",
        f"Open from {window.opens:%Y-%m-%d %H:%M:%S} to {window.closes:%Y-%m-%d %H:%M:%S} UTC.",
    ]
    if task.windows > 1:
        notes.append(f"Window {window.number}, of 0 to {task.windows - 1}.")
    if words := found.release.words:
        notes.append(f"Release: {words}.")
    rows = []
    if (result := found.result) is not None:
        rows = _estimates(task, result)
        budget = Guarantee(result.epsilon, result.delta, result.theorem, tuple(result.conditions))
        notes += [
            "Each interval holds the true value with 95% confidence.",
            "The standard error of the sum"
            + " (of all coordinates together)" * isinstance(result.estimate, list)
            + f" is at most {at_least(result.standard_error, 4)}.",
            *guarantee_notes(budget),
            *budget_warnings(result.epsilon, result.delta, result.users),
        ]
    shown = found.model_dump(exclude={"missing", "time", "version"})
    data = {"command": f"task {command}", **shown}
    return Report(title.capitalize(), COLUMNS, rows, notes, data)


def _estimates(task: Task, result: Result) -> list[Estimate]:
    """Return what was released, by name: sums and means, or the counts of a histogram."""
    from ikos.data.domains import Categories
    from ikos.results.sums import Interval

    counted, rows = isinstance(task.domain, Categories), []
    for label, total, ends in result.rows(task.labels):
        own = f" {label}" if label else ""
        rows.append(Estimate(label if counted else f"sum{own}", total, ends))
        if not counted:
            mean = Interval(*(end / result.users for end in ends))
            rows.append(Estimate(f"mean{own}", total / result.users, mean))
    return rows


# The parties' programs

_SHUFFLERS = """\
  ikos serve shuffler visits/shuffler-1 votes/shuffler-3 \\
      --host 127.0.0.1 --port 8443
"""
_ANALYZER = """\
  ikos serve analyzer visits/analyzer --host 0.0.0.0 \\
      --certificate chain.pem --private-key key.pem
"""
_EXAMPLES = "\b\nExamples\n"


@click.group("serve", cls=Group, epilog=_EXAMPLES + _SHUFFLERS + _ANALYZER)
def command_serve() -> None:
    """Run a party of one task or several, until Ctrl-C or SIGTERM.

    The folders are made by 'ikos task new', and keep what the party collects: a party that was
    killed resumes when it is restarted. It logs to standard error; there is no --json.
    """


def _party(role: str, examples: str, about: str) -> None:
    """Add the command of a role."""

    @command_serve.command(role, cls=Command, epilog=_EXAMPLES + examples, help=about)
    @click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", type=FOLDER)
    @option("--host", metavar="HOST", show_default="the task's, if on this machine alone",
            help="Name or number to listen at; without a certificate on loopback "
            "only.")  # fmt: skip
    @option("--port", type=Whole(high=65535), show_default="the task's",
            help="Port to listen at; 0 for any.")  # fmt: skip
    @option("--certificate", type=FILE, help="PEM file with the certificate and its chain.")
    @option("--private-key", type=FILE, help="PEM file with the key of the certificate.")
    @option("--ca")
    @option("--rate", type=POSITIVE, show_default="5000",
            help="Most reports per second.")  # fmt: skip
    @option("--group-access", is_flag=True, default=None,
            help="Accept keys and folders that their group may use, as some orchestration sets "
            "it; otherwise only their owner may.")  # fmt: skip
    @option("--config", type=FILE, help="TOML file with these settings; options given here win.")
    def run(folders: tuple[Path, ...], config: Path | None, **given: Any) -> None:
        # Until the server takes it, Ctrl-C ends the program at once, like SIGTERM: nothing has
        # begun by then. If it is ignored, in the background of a shell, it stays ignored.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        from ikos.deployment import server
        from ikos.deployment.settings import Listening

        options = {name: value for name, value in given.items() if value is not None}
        start: Callable[..., None] = getattr(server, f"serve_{role}")
        start(folders, Listening.read(config, options))


_party(
    "shuffler",
    _SHUFFLERS,
    """Run the shuffler of the tasks in each FOLDER.

    It collects the envelopes of one column of each task, which it cannot open, and releases those
    of complete reports once, in an order that reveals nothing.
    """,
)
_party(
    "analyzer",
    _ANALYZER,
    """Run the analyzer of the tasks in each FOLDER.

    It collects the clear shares, and releases the sum on its operator's command. Its address shows
    the state of all tasks to a browser.
    """,
)
