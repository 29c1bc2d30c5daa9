"""``ikos task``: a private sum between parties: its folders, how far it is, its end and its result.

With ``--json``, ``ikos task new`` prints an object with the keys ``command``, ``task`` (its name,
the hash of its description), ``output`` (None for ``--dry-run``), ``users``, ``min_honest``,
``corrupt_clients``, ``min_reports`` (complete ones, without which nothing is released),
``lower``, ``upper``, ``integers``, ``epsilon``, ``delta`` (what is proved), ``requested_delta``,
``theorem``, ``conditions``, ``corrupt_shufflers``, ``precision``, ``modulus`` (a string),
``shuffled`` (messages of each client to a shuffler each: so many shufflers), ``root_mse`` (of the
sum, at most), ``opens``, ``closes``, ``shufflers``, ``analyzer`` (addresses; None for a dry run
without them) and ``folders``, from what to whom it is to be given.

``status``, ``close`` and ``release`` print what the analyzer answers: ``task``, ``party`` (0),
``state`` (collecting, closed, agreed, stopped or released), ``reports``, ``complete`` (None before
it is known), ``opens``, ``closes``, ``release`` (an object: ``running``, ``step``, ``message``, and
``again``, the seconds until the analyzer tries again, or None) and ``result`` (None before it is
released, or an object: ``estimate``, ``sum_low``, ``sum_high``, ``mean``, ``standard_error``,
``users``, ``epsilon``, ``delta``, ``theorem``, ``conditions``, ``text``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command, Group, Interrupted
from ikos.cli.options import JSON, check_bounds, option
from ikos.cli.output import (
    Quiet,
    print_json,
    print_text,
    printable,
    say,
    warn,
    wrapped,
)
from ikos.cli.types import CORRUPT, FOLDER, SECONDS, WHOLE, Decimal, Honest, Whole

if TYPE_CHECKING:
    from ikos.deployment.party_files import Operator
    from ikos.deployment.remote import RemoteAnalyzer
    from ikos.deployment.task import Task

HOURS = Decimal(above="0", high="1000000")
GROUP = Whole(low=2, high=1 << 4096)


FOLLOW_SECONDS = "600"
_PAUSE = 0.1
_LONGEST_PAUSE = 2.0

EXAMPLES = """\b
Examples
  ikos task new --dry-run --users 10^4 --min-honest 9000 \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  ikos task status visits/operator --json
  ikos task close visits/operator
  ikos task release visits/operator
"""

NEW_EXAMPLES = """\b
Examples
  ikos task new --dry-run --users 2000 --integers \\
      --lower 0 --upper 7 --epsilon 1 --delta 1e-8 \\
      --min-honest 95%
  ikos task new --output visits --users 2000 --integers \\
      --lower 0 --upper 7 --epsilon 1 --delta 1e-8 \\
      --min-honest 95% --hours 72 \\
      --analyzer https://analyzer.example:8443 \\
      --shuffler https://a.example:8443 \\
      --shuffler https://b.example:8443 \\
      --shuffler https://c.example:8443 \\
      --shuffler https://d.example:8443 \\
      --shuffler https://e.example:8443 \\
      --shuffler https://f.example:8443
"""


@click.group("task", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Make, watch and end sums of parties that do not trust each other.

    'new' chooses the numbers of a task and writes a folder for each party;
    'ikos serve' runs the parties and 'ikos submit' the clients; 'status'
    says how far it is, 'close' ends the collection and 'release' releases
    the result, once. All print one JSON object with --json.
    """


ca_option = option("--ca")

SECTIONS = {
    "users": "Clients and their values",
    "epsilon": "Privacy",
    "precision": "Protocol",
    "shufflers": "The parties",
    "opens": "When",
    "output": "Output",
}


@command.command("new", cls=Command, epilog=NEW_EXAMPLES, sections=SECTIONS)
@option("--users", required=True, type=WHOLE, help="Clients, each of whom gets a secret.")
@option("--lower", required=True)
@option("--upper", required=True)
@option("--integers", is_flag=True, help="The values are integers, and so is the sum.")
@option("--epsilon", required=True)
@option("--delta", required=True)
@option(
    "--min-honest",
    required=True,
    shown=None,
    help="Honest clients that must be in what is released: a number, or a share such as 90%. With "
    "all, one that is missing stops the release.",
)
@option(
    "--corrupt-clients",
    type=CORRUPT,
    default=0,
    help="Dishonest clients that may be among them: nothing is released for fewer complete "
    "reports than both together.",
)
@option("--corrupt-shufflers", help="How many shufflers may collude with the analyzer.")
@option("--precision")
@option("--modulus", type=GROUP)
@click.option(
    "--shuffler",
    "shufflers",
    multiple=True,
    metavar="URL",
    help="Address of a shuffler, once for each; https, or http on this machine.",
)
@option("--analyzer", metavar="URL", help="Address of the analyzer.")
@option(
    "--opens",
    metavar="TIME",
    shown="now",
    help="From when reports are accepted, such as 2026-01-31T12:00:00Z.",
)
@option("--closes", metavar="TIME", help="From when none are accepted any more.")
@option(
    "--hours",
    type=HOURS,
    shown="24",
    help="How long reports are accepted, instead of --closes.",
)
@option("--output", type=FOLDER, metavar="FOLDER", help="A folder to be made.")
@option(
    "--dry-run",
    is_flag=True,
    help="Say what is needed, and write nothing; addresses are not needed.",
)
@option(*JSON)
def new(
    output: Path | None,
    users: int,
    min_honest: int | Fraction,
    epsilon: Fraction,
    delta: Fraction,
    shufflers: tuple[str, ...],
    analyzer: str | None,
    opens: str | None,
    closes: str | None,
    hours: Fraction | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a task and a folder for each party.

    The precision, the group and the messages are chosen, and so how many
    shufflers there must be. All folders are for different people: whoever
    has those of all parties sees everything.
    """
    from ikos.results import budget_warnings

    check_bounds(options["lower"], options["upper"])
    options["min_honest"] = Honest.of(min_honest, users)
    start, end = _times(opens, closes, hours)
    if dry_run:
        if output is not None:
            raise click.UsageError("--dry-run writes nothing: leave --output away")
    elif output is None:
        raise click.UsageError("missing option '--output' (or --dry-run)")
    elif analyzer is None:
        raise click.UsageError("missing option '--analyzer' (or --dry-run)")
    made = _made(users, epsilon, delta, shufflers, analyzer, start, end, options, output)
    for warning in budget_warnings(epsilon, delta, users):
        warn(warning)
    folders = {} if output is None else _folders(made, output)
    if as_json:
        named = bool(shufflers), analyzer is not None
        print_json(_new_json(made, output, folders, *named))
        return
    named_first, *explained = made.explain().splitlines()
    about = [line for text in explained for line in wrapped(text, "", " " * 12)]
    if output is None:
        needed = "1 shuffler is" if made.columns == 1 else f"{made.columns} shufflers are"
        lines = [f"{needed} needed, and an analyzer.", "", *about]
        print_text([*lines, "", "Nothing was written."])
        return
    handed = [line for folder, whom in folders.items() for line in (f"  {folder}", f"      {whom}")]
    print_text(
        [
            named_first,
            *about,
            "",
            "Give",
            *handed,
            *wrapped(
                "Each folder to somebody else, by a way that nobody else can read, and keep no "
                "copies: whoever has the analyzer's and all shufflers' sees who sent what.",
                "",
                "",
            ),
        ]
    )


def _times(
    opens: str | None, closes: str | None, hours: Fraction | None
) -> tuple[datetime, datetime]:
    from ikos.deployment.task import moment

    if closes is not None and hours is not None:
        raise click.UsageError("--closes and --hours say the same: give one of them")
    now = datetime.now(UTC).replace(microsecond=0)
    start = now if opens is None else moment("opens", opens)
    if closes is not None:
        end = moment("closes", closes)
    else:
        end = start + timedelta(hours=float(24 if hours is None else hours))
    if end <= now:
        if closes is None and hours is not None:
            raise click.UsageError(
                f"--hours must reach into the future, got a task that closes at {end.isoformat()}"
            )
        raise click.UsageError(f"--closes must be in the future, got {closes or end.isoformat()}")
    return start, end


def _made(
    users: int,
    epsilon: Fraction,
    delta: Fraction,
    shufflers: tuple[str, ...],
    analyzer: str | None,
    opens: datetime,
    closes: datetime,
    options: dict[str, Any],
    output: Path | None,
) -> Task:
    """Return the task, with its folders written where there is an output."""
    from ikos.deployment.enveloped_sum import EnvelopedSum
    from ikos.deployment.hpke import PrivateKey
    from ikos.deployment.party_files import write_seats
    from ikos.deployment.task import Task

    if output is None and not shufflers:
        numbers = {name: value for name, value in options.items() if name != "corrupt_clients"}
        needed = EnvelopedSum(users, epsilon, delta, **numbers).messages.total - 1
        # names that stand for none, as many as it takes
        shufflers = tuple(f"https://shuffler-{j}.invalid" for j in range(1, needed + 1))
    key = PrivateKey.generate()
    made = Task.new(
        users,
        epsilon,
        delta,
        shufflers=shufflers,
        analyzer=analyzer or "https://analyzer.invalid",
        public_key=key.public_bytes,
        opens=opens,
        closes=closes,
        **options,
    )
    if output is not None:
        write_seats(made, key, output)
    return made


def _folders(task: Task, output: Path) -> dict[str, str]:
    """Return whom each folder is for."""
    return {
        **{
            str(output / f"shuffler-{j}"): f"to whoever runs {task.address(j)}: ikos serve shuffler"
            for j in range(1, task.columns + 1)
        },
        str(output / "analyzer"): f"to whoever runs {task.analyzer}: ikos serve analyzer",
        str(output / "operator"): "to whoever may close and release: ikos task close, release",
        str(output / "clients" / "tokens.txt"): "to each client a line, once: ikos submit",
        str(output / "task.json"): "to everybody",
    }


def _new_json(
    task: Task, output: Path | None, folders: dict[str, str], shufflers: bool, analyzer: bool
) -> dict[str, Any]:
    guarantee = task.protocol.guarantee
    return {
        "command": "task new",
        "task": None if output is None else task.name,
        "output": None if output is None else str(output),
        "users": task.users,
        "min_honest": task.min_honest,
        "corrupt_clients": task.corrupt_clients,
        "min_reports": task.min_reports,
        "lower": task.lower,
        "upper": task.upper,
        "integers": task.integers,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "requested_delta": float(task.delta),
        "theorem": guarantee.theorem,
        "conditions": list(guarantee.conditions),
        "corrupt_shufflers": task.corrupt_shufflers,
        "precision": task.precision,
        "modulus": str(task.modulus),
        "shuffled": task.columns,
        "root_mse": task.protocol.mse**0.5,
        "opens": task.opens.isoformat(),
        "closes": task.closes.isoformat(),
        "shufflers": list(task.shufflers) if shufflers else None,
        "analyzer": task.analyzer if analyzer else None,
        "folders": folders,
    }


# What is asked of the analyzer


STATUS_EXAMPLES = """\b
Examples
  ikos task status visits/task.json
  ikos task status visits/operator --json
"""

CLOSE_EXAMPLES = """\b
Examples
  ikos task close visits/operator
  ikos task close visits/operator --ca authorities.pem
"""

RELEASE_EXAMPLES = """\b
Examples
  ikos task release visits/operator
  ikos task release visits/operator --wait 0 --json

\b
Exit status
  1    it stopped for good: too few reports were complete,
       or a party sent what it should not
  2    a mistake; or a party does not answer, or refuses;
       or too few reports are there yet
  130  interrupted: the release goes on at the analyzer
"""


@command.command("status", cls=Command, epilog=STATUS_EXAMPLES)
@click.argument("folder", type=FOLDER)
@ca_option
@option(*JSON)
def status(folder: Path, ca: Path | None, as_json: bool) -> None:
    """Say how far the task of FOLDER, or of a file task.json, is.

    Asks the analyzer, who tells everybody.
    """
    from ikos.deployment.party_files import read_task

    task = read_task(folder)
    with _asking(ca, task) as analyzer:
        found = analyzer.status()
    _print(task, found, as_json=as_json)


@command.command("close", cls=Command, epilog=CLOSE_EXAMPLES)
@click.argument("folder", type=FOLDER)
@ca_option
@option(*JSON)
def close(folder: Path, ca: Path | None, as_json: bool) -> None:
    """Let no party accept any more reports, now and for good.

    FOLDER is the operator's. Without this, a task closes at its time.
    """
    operator = _operator(folder)
    with _asking(ca, operator.task, operator.control) as analyzer:
        found = analyzer.close()
    missing = found.pop("missing", None)
    if missing:
        raise click.UsageError(
            f"the analyzer closed the task, but {printable(str(missing))}; it goes on to tell them"
        )
    if found["state"] == "released" and not as_json:
        path = click.get_current_context().command_path
        say(f"{path}: the task was released already: nothing was left to close")
    _print(operator.task, found, as_json=as_json)


@command.command("release", cls=Command, epilog=RELEASE_EXAMPLES)
@click.argument("folder", type=FOLDER)
@option(
    "--wait",
    type=SECONDS,
    default=FOLLOW_SECONDS,
    metavar="SECONDS",
    help="How long to follow it; it goes on at the analyzer.",
)
@ca_option
@option(*JSON)
def release(folder: Path, wait: Fraction, ca: Path | None, as_json: bool) -> None:
    """Release the sum of the complete reports, once, and print it.

    FOLDER is the operator's. A task that is open is closed first, but not
    while it has too few reports: 'ikos task close' first, to end it
    nevertheless. Steps are said on standard error. Where a party does not
    answer the analyzer tries again, and goes on where it was, even if
    nobody follows it.
    """
    operator = _operator(folder)
    path = click.get_current_context().command_path
    try:
        with _asking(ca, operator.task, operator.control) as analyzer:
            _worth_it(operator.task, analyzer.status())
            found = _followed(analyzer, float(wait), path)
    except KeyboardInterrupt:
        raise Interrupted(f"{path}: interrupted; the release goes on at the analyzer") from None
    if found["state"] == "stopped":
        why = printable(str(_release_of(found).get("message")))
        say(f"{path}: stopped for good: {why}")
        if as_json:
            print_json(found)
        raise Quiet(1)
    if as_json:
        print_json(found)
    else:
        print_text(result_lines(operator.task, found))


def _operator(folder: Path) -> Operator:
    """Return the operator's folder; a usage error that says which one is meant."""
    from ikos.deployment.party_files import CONTROL, Operator

    try:
        return Operator.read(folder)
    except ValueError:
        control = folder / CONTROL
        if control.exists():
            raise
        raise click.UsageError(
            f"no such file: {str(control)!r}; give the operator's folder, which has it"
        ) from None


def _worth_it(task: Task, found: dict[str, Any]) -> None:
    """Refuse to end a collection that would end with nothing, for all, and for good."""
    reports = found.get("reports")
    # at the analyzer: no more than these can be complete
    if (
        found["state"] != "collecting"
        or not isinstance(reports, int)
        or reports >= task.min_reports
    ):
        return
    left = max(timedelta(), task.closes - datetime.now(UTC).replace(microsecond=0))
    raise click.UsageError(
        f"the task is still collecting, and has {reports:,} of the {task.min_reports:,} reports "
        f"that a release needs: released now it would stop for good. It closes in {left}; to end "
        "it nevertheless, 'ikos task close' comes first"
    )


def _followed(analyzer: RemoteAnalyzer, wait: float, path: str) -> dict[str, Any]:
    """Order a release, once, and return the last status: released or stopped."""
    until = time.monotonic() + wait
    pause, hindered = _PAUSE, None
    steps: set[str] = set()
    found = analyzer.release()
    while found["state"] not in ("released", "stopped"):
        now = _release_of(found)
        running = bool(now.get("running"))
        said = printable(str(now.get("step" if running else "message") or "beginning"))
        # what is tried again begins with steps that were said
        news = said not in steps if running else said != hindered
        if running:
            steps.add(said)
        else:
            hindered = said
            if now.get("again") is None:
                raise click.UsageError(f"the analyzer gave up: {said}; release again to go on")
        if news:
            say(f"{path}: {said}{_again(now)}")
            pause = _PAUSE
        left = until - time.monotonic()
        if left <= 0:
            raise click.UsageError(
                f"not released within --wait: {hindered or said}; release again to follow it"
            )
        time.sleep(min(left, pause))
        pause = min(2 * pause, _LONGEST_PAUSE)
        found = analyzer.status()  # the analyzer itself tries again, ever more slowly
    return found


def _again(now: dict[str, Any]) -> str:
    """Return when the analyzer tries again, if it does."""
    again = now.get("again")
    return "" if again is None else f"; tries again in {printable(str(again))} s"


def _release_of(found: dict[str, Any]) -> dict[str, Any]:
    now = found.get("release")
    return now if isinstance(now, dict) else {}


@contextmanager
def _asking(ca: Path | None, task: Task, control: bytes | None = None) -> Iterator[RemoteAnalyzer]:
    """Let the analyzer be asked; a usage error where it does not answer, or refuses."""
    from ikos.deployment.remote import RemoteAnalyzer, RemoteError, connect

    with connect(ca) as http:
        try:
            yield RemoteAnalyzer(http, task, control)
        except RemoteError as error:
            raise click.UsageError(str(error)) from None


def _print(task: Task, found: dict[str, Any], *, as_json: bool) -> None:
    """Print a status, and the result where there is one."""
    if as_json:
        print_json(found)
        return
    complete = found.get("complete")
    early = found["state"] == "collecting" and datetime.now(UTC) < task.opens
    lines = [
        f"task      {task.name}",
        f"state     {'not open yet' if early else found['state']}",
        f"reports   {found.get('reports')} at the analyzer"
        + ("" if complete is None else f", {complete} of them complete")
        + f"; at least {task.min_reports} must be, of {task.users}",
        f"open      {task.opens:%Y-%m-%d %H:%M:%S} to {task.closes:%Y-%m-%d %H:%M:%S} UTC",
    ]
    now = _release_of(found)
    words = now.get("message") or now.get("step")
    if words:
        lines.append(f"release   {words}{_again(now)}")
    result = result_lines(task, found)
    print_text([*map(printable, lines), *(["", *result] if result else [])])


def result_lines(task: Task, found: dict[str, Any], indent: str = "") -> list[str]:
    """Return the result in lines for people; none before it is released."""
    result = found.get("result")
    if not isinstance(result, dict):
        return []
    first, *others = map(printable, str(result.get("text")).splitlines() or [""])
    figures = [result.get(name) for name in ("estimate", "sum_low", "sum_high")]
    finite = [one for one in figures if isinstance(one, float) and math.isfinite(one)]
    if task.integers and len(finite) == len(figures) and finite[0].is_integer():
        from ikos.results import Interval

        first = f"sum       {int(finite[0])}  95 % interval {Interval(finite[1], finite[2])}"
    return [line for text in (first, *others) for line in wrapped(text, indent, indent + " " * 10)]
