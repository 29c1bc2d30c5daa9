"""``ikos task``: a private sum between parties: its folders, how far it is, its end and its result.

With ``--json``, ``ikos task new`` prints an object with the keys ``command``, ``task`` (its name,
the hash of its description), ``output`` (None for ``--dry-run``), ``users``, ``min_honest``,
``corrupt_clients``, ``min_reports`` (complete ones that a release needs), ``lower``, ``upper``,
``integers``, ``epsilon``, ``delta`` (what is proved), ``requested_delta``, ``theorem``,
``conditions``, ``corrupt_shufflers``, ``precision``, ``modulus`` (a string), ``shuffled`` (messages
of each client to a shuffler each: the number of shufflers), ``root_mse`` (of the sum, at most),
``opens``, ``closes``, ``shufflers``, ``analyzer`` (addresses; None for a dry run without them) and
``folders``, each with whom it is for.

``status``, ``close`` and ``release`` print what the analyzer answers: ``task``, ``party`` (0),
``state`` (collecting, closed, agreed, stopped or released), ``reports``, ``complete`` (None before
it is known), ``opens``, ``closes``, ``release`` (an object: ``running``, ``step``, ``message``, and
``again``, the seconds until the analyzer tries again, or None) and ``result`` (None before it is
released, or an object: ``estimate``, ``sum_low``, ``sum_high``, ``mean``, ``standard_error``,
``users``, ``epsilon``, ``delta``, ``theorem``, ``conditions``, ``text``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command, Group, clipped
from ikos.cli.options import JSON, check_bounds, option
from ikos.cli.output import print_json, print_text, printable, say, warn, wrapped
from ikos.cli.types import CORRUPT, FOLDER, WHOLE, Honest, Whole

if TYPE_CHECKING:
    from ikos.deployment.party_files import Operator
    from ikos.deployment.remote import RemoteAnalyzer
    from ikos.deployment.task import Task
    from ikos.deployment.wire import AnalyzerStatus, ReleaseState

_SECONDS = click.FloatRange(0, 1e6)
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


def _moment(_: click.Context, param: click.Parameter, text: str | None) -> datetime | None:
    try:
        found = None if text is None else datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        raise click.UsageError(
            f"{param.opts[0]} must be a time such as 2026-01-31T12:00:00Z, got "
            + clipped(str(text))
        ) from None
    return found and found.replace(tzinfo=UTC)


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
@click.option("--integers", is_flag=True, help="The values are integers, and so is the sum.")
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
@option("--modulus", type=Whole(low=2, high=1 << 4096))
@click.option(
    "--shuffler",
    "shufflers",
    multiple=True,
    metavar="URL",
    help="Address of a shuffler, once for each; https, or http on this machine.",
)
@click.option("--analyzer", metavar="URL", help="Address of the analyzer.")
@option(
    "--opens",
    callback=_moment,
    metavar="TIME",
    shown="now",
    help="From when reports are accepted, such as 2026-01-31T12:00:00Z.",
)
@click.option(
    "--closes", callback=_moment, metavar="TIME", help="From when none are accepted any more."
)
@option(
    "--hours",
    type=click.FloatRange(0, 1e6, min_open=True),
    shown="24",
    help="How long reports are accepted, instead of --closes.",
)
@click.option("--output", type=FOLDER, metavar="FOLDER", help="A folder to be made.")
@click.option(
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
    opens: datetime | None,
    closes: datetime | None,
    hours: float | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a task and a folder for each party.

    The precision, the group and the messages are chosen, and so how many
    shufflers there must be. Give each folder to a different person: a holder
    of those of all parties sees everything.
    """
    from ikos.deployment.enveloped_sum import EnvelopedSum
    from ikos.deployment.hpke import PrivateKey
    from ikos.deployment.party_files import write_party_files
    from ikos.deployment.task import Task
    from ikos.results import budget_warnings

    check_bounds(options["lower"], options["upper"])
    options["min_honest"] = Honest.of(min_honest, users)
    start, end = _times(opens, closes, hours)
    if dry_run and output is not None:
        raise click.UsageError("--dry-run writes nothing: leave --output away")
    for name, given in (("output", output), ("analyzer", analyzer)):
        if given is None and not dry_run:
            raise click.UsageError(f"missing option '--{name}' (or --dry-run)")
    addresses = shufflers
    if dry_run and not shufflers:
        numbers = {name: value for name, value in options.items() if name != "corrupt_clients"}
        needed = EnvelopedSum(users, epsilon, delta, **numbers).messages.total - 1
        addresses = tuple(f"https://shuffler-{j}.invalid" for j in range(1, needed + 1))
    key = PrivateKey.generate()
    made = Task.new(
        users,
        epsilon,
        delta,
        shufflers=addresses,
        analyzer=analyzer or "https://analyzer.invalid",
        public_key=key.public_bytes,
        opens=start,
        closes=end,
        **options,
    )
    if output is not None:
        write_party_files(made, key, output)
    for warning in budget_warnings(epsilon, delta, users):
        warn(warning)
    folders = {} if output is None else _folders(made, output)
    if as_json:
        named = {"shufflers": (shufflers and list(shufflers)) or None, "analyzer": analyzer}
        print_json(_new_json(made, output) | named | {"folders": folders})
        return
    first, *explained = made.explain().splitlines()
    about = [line for text in explained for line in wrapped(text, "", " " * 12)]
    if output is None:
        needed_words = "1 shuffler is" if made.columns == 1 else f"{made.columns} shufflers are"
        print_text(
            [f"{needed_words} needed, and an analyzer.", "", *about, "", "Nothing was written."]
        )
        return
    handed = [line for folder, whom in folders.items() for line in (f"  {folder}", f"      {whom}")]
    warned = (
        "Each folder to a different person, over a channel that no one else can read, and keep no "
        "copies: a holder of the analyzer's and all shufflers' folders sees who sent what."
    )
    print_text([first, *about, "", "Give", *handed, *wrapped(warned, "", "")])


def _times(
    opens: datetime | None, closes: datetime | None, hours: float | None
) -> tuple[datetime, datetime]:
    if closes is not None and hours is not None:
        raise click.UsageError("--closes and --hours say the same: give one of them")
    now = datetime.now(UTC).replace(microsecond=0)
    start = opens or now
    end = closes or start + timedelta(hours=hours or 24)
    if end <= now:
        name = "--closes" if hours is None else "--opens and --hours"
        raise click.UsageError(f"{name} must be in the future, got {end.isoformat()}")
    return start, end


def _folders(task: Task, output: Path) -> dict[str, str]:
    """Return whom each folder is for."""
    return {
        **{
            str(output / f"shuffler-{j}"): f"for {task.address(j)}: ikos serve shuffler"
            for j in range(1, task.columns + 1)
        },
        str(output / "analyzer"): f"for {task.analyzer}: ikos serve analyzer",
        str(output / "operator"): "for the operator: ikos task close, release",
        str(output / "clients" / "tokens.txt"): "for each client a line, once: ikos submit",
        str(output / "task.json"): "for all",
    }


def promised(task: Task) -> dict[str, Any]:
    """Return what a task promises, for ``--json``."""
    guarantee = task.protocol.guarantee
    return {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "theorem": guarantee.theorem,
        "conditions": list(guarantee.conditions),
        **{
            name: getattr(task, name)
            for name in (
                "min_honest", "min_reports", "corrupt_clients", "corrupt_shufflers", "lower",
                "upper", "integers",
            )
        },
    }  # fmt: skip


def _new_json(task: Task, output: Path | None) -> dict[str, Any]:
    return {
        "command": "task new",
        "task": None if output is None else task.name,
        "output": None if output is None else str(output),
        "users": task.users,
        **promised(task),
        "requested_delta": float(task.delta),
        "precision": task.precision,
        "modulus": str(task.modulus),
        "shuffled": task.columns,
        "root_mse": task.protocol.mse**0.5,
        "opens": task.opens.isoformat(),
        "closes": task.closes.isoformat(),
    }


# What is asked of the analyzer


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


@command.command(
    "status", cls=Command, epilog="\b\nExample\n  ikos task status visits/task.json --json"
)
@click.argument("folder", type=FOLDER)
@option("--ca")
@option(*JSON)
def status(folder: Path, ca: Path | None, as_json: bool) -> None:
    """Say how far the task of FOLDER, or of a file task.json, is.

    Asks the analyzer, which tells anyone.
    """
    from ikos.deployment.party_files import read_task

    task = read_task(folder)
    with _asking(ca, task) as analyzer:
        found = analyzer.status()
    _print(task, found, as_json=as_json)


@command.command("close", cls=Command, epilog="\b\nExample\n  ikos task close visits/operator")
@click.argument("folder", type=FOLDER)
@option("--ca")
@option(*JSON)
def close(folder: Path, ca: Path | None, as_json: bool) -> None:
    """Let no party accept any more reports, now and for good.

    FOLDER is the operator's. Without this, a task closes at its time.
    """
    operator = _operator(folder)
    with _asking(ca, operator.task, operator.control) as analyzer:
        found = analyzer.close()
    if found.missing:
        raise click.UsageError(
            f"the analyzer closed the task, but {printable(found.missing)}; it goes on to tell them"
        )
    if found.state == "released" and not as_json:
        path = click.get_current_context().command_path
        say(f"{path}: the task was released already: nothing was left to close")
    _print(operator.task, found, as_json=as_json)


@command.command("release", cls=Command, epilog=RELEASE_EXAMPLES)
@click.argument("folder", type=FOLDER)
@option(
    "--wait",
    type=_SECONDS,
    default=600,
    metavar="SECONDS",
    help="How long to follow it; it goes on at the analyzer.",
)
@option("--ca")
@option(*JSON)
def release(folder: Path, wait: float, ca: Path | None, as_json: bool) -> None:
    """Release the sum of the complete reports, once, and print it.

    FOLDER is the operator's. A task that is open is closed first, but not
    while it has too few reports: 'ikos task close' first, to end it
    nevertheless. Steps are said on standard error. Where a party does not
    answer the analyzer tries again, and goes on where it was, also when
    this command has ended.
    """
    operator = _operator(folder)
    path = click.get_current_context().command_path
    try:
        with _asking(ca, operator.task, operator.control) as analyzer:
            _check_reports(operator.task, analyzer.status())
            found = _follow(analyzer, wait, path)
    except KeyboardInterrupt:
        raise click.Abort(f"{path}: interrupted; the release goes on at the analyzer") from None
    stopped = found.state == "stopped"
    if stopped:
        say(f"{path}: stopped for good: {printable(str(found.release.message))}")
    if as_json:
        print_json(found.to_json())
    elif not stopped:
        print_text(result_lines(operator.task, found))
    if stopped:
        raise click.exceptions.Exit(1)


def _operator(folder: Path) -> Operator:
    """Return the operator's folder; a usage error that says which one is meant."""
    from ikos.deployment.party_files import CONTROL, Operator

    control = folder / CONTROL
    if not control.exists():
        raise click.UsageError(
            f"no such file: {str(control)!r}; give the operator's folder, which has it"
        )
    return Operator.read(folder)


def _check_reports(task: Task, found: AnalyzerStatus) -> None:
    """Refuse to end a collection that would end with nothing, for good."""
    # reports at the analyzer: no more than these can be complete
    if found.state == "collecting" and found.reports < task.min_reports:
        left = max(timedelta(), task.closes - datetime.now(UTC).replace(microsecond=0))
        raise click.UsageError(
            f"the task is still collecting, and has {found.reports:,} of the {task.min_reports:,} "
            f"reports that a release needs: released now it would stop for good. It closes in "
            f"{left}; to end it nevertheless, 'ikos task close' comes first"
        )


def _follow(analyzer: RemoteAnalyzer, wait: float, path: str) -> AnalyzerStatus:
    """Order a release, once, say each step, and return the last status: released or stopped."""
    until = time.monotonic() + wait
    pause, hindered = _PAUSE, None
    steps: set[str] = set()
    found = analyzer.release()
    while found.state not in ("released", "stopped"):
        now = found.release
        words = printable((now.step if now.running else now.message) or "beginning")
        # a new attempt begins with steps that were said
        new = words not in steps if now.running else words != hindered
        if now.running:
            steps.add(words)
        else:
            hindered = words
            if now.again is None:
                raise click.UsageError(f"the analyzer gave up: {words}; release again to go on")
        if new:
            say(f"{path}: {words}{_again(now)}")
            pause = _PAUSE
        left = until - time.monotonic()
        if left <= 0:
            raise click.UsageError(
                f"not released within --wait: {hindered or words}; release again to follow it"
            )
        time.sleep(min(left, pause))
        pause = min(2 * pause, _LONGEST_PAUSE)
        found = analyzer.status()  # the analyzer itself tries again, ever more slowly
    return found


def _again(now: ReleaseState) -> str:
    """Return when the analyzer tries again, if it does."""
    return "" if now.again is None else f"; tries again in {now.again} s"


@contextmanager
def _asking(ca: Path | None, task: Task, control: bytes | None = None) -> Iterator[RemoteAnalyzer]:
    """Let the analyzer be asked; a usage error where it does not answer, or refuses."""
    from ikos.deployment.remote import RemoteAnalyzer, RemoteError, connect

    with connect(ca) as http:
        try:
            yield RemoteAnalyzer(http, task, control)
        except RemoteError as error:
            raise click.UsageError(str(error)) from None


def _print(task: Task, found: AnalyzerStatus, *, as_json: bool) -> None:
    """Print a status, and the result where there is one."""
    if as_json:
        print_json(found.to_json())
        return
    early = found.state == "collecting" and datetime.now(UTC) < task.opens
    here = f"{found.reports} at the analyzer"
    if found.complete is not None:
        here += f", {found.complete} of them complete"
    lines = [
        f"task      {task.name}",
        f"state     {'not open yet' if early else found.state}",
        f"reports   {here}; at least {task.min_reports} must be, of {task.users}",
        f"open      {task.opens:%Y-%m-%d %H:%M:%S} to {task.closes:%Y-%m-%d %H:%M:%S} UTC",
    ]
    words = found.release.message or found.release.step
    if words:
        lines.append(f"release   {words}{_again(found.release)}")
    result = result_lines(task, found)
    print_text([*map(printable, lines), *(["", *result] if result else [])])


def result_lines(task: Task, found: AnalyzerStatus, indent: str = "") -> list[str]:
    """Return the result in lines for people; none before it is released."""
    result = found.result
    if result is None:
        return []
    first, *others = map(printable, result.text.splitlines())
    low, high = result.sum_low, result.sum_high
    if task.integers and low is not None and high is not None and result.estimate.is_integer():
        from ikos.results import Interval

        first = f"sum       {int(result.estimate)}  95 % interval {Interval(low, high)}"
    return [line for text in (first, *others) for line in wrapped(text, indent, indent + " " * 10)]
