"""``ikos submit``: one client's report of its value, or those of many to try things out.

The JSON object that ``--json`` prints has the keys ``command``, ``task`` (its name), ``clients``
(whose reports all parties have), ``parties`` (how many), ``again`` (whether the report was made by
an earlier call, whose value stands; for many, whether reports may have been, as ``store`` was there
before), ``store`` (the folder where reports are kept), and what the task promises: ``epsilon``,
``delta``, ``theorem``, ``conditions``, ``min_honest``, ``min_reports``, ``corrupt_clients``,
``corrupt_shufflers``, ``lower``, ``upper`` and ``integers``.
"""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command, problem
from ikos.cli.options import JSON, option
from ikos.cli.output import on_terminal, print_json, print_text, printable, progress, say, wrapped
from ikos.cli.task import promised
from ikos.cli.types import DELTA, EPSILON, FILE, FOLDER, TABLE

if TYPE_CHECKING:
    from ikos.deployment.task import Task

STDIN = "-"
TOKEN = "token"
REPORTS = "reports"
CLIENTS = "clients"
MADE = "made by an earlier call"
STANDS = f"{MADE}: its value stands, and this one was not used"
_LONGEST = 1000

EXAMPLES = """\b
Examples
  ikos submit visits/ --value 3 \\
      --max-epsilon 1 --max-delta 1e-8
  ikos submit visits/task.json --token secret.txt \\
      --value - < value.txt
  ikos submit visits/clients --values people.csv \\
      --column visits
"""

SECTIONS = {
    "value": "One client",
    "values": "Many clients",
    "max_epsilon": "What is sent",
    "as_json": "Output",
}


@click.command("submit", cls=Command, epilog=EXAMPLES, sections=SECTIONS)
@click.argument("folder", type=FOLDER)
@click.option(
    "--value",
    metavar="NUMBER",
    help="This client's value, or - to read it from standard input: other users of this machine "
    "can see what stands on a command line.",
)
@option(
    "--token",
    type=FILE,
    metavar="FILE",
    shown="'token', next to the task",
    help="The client's secret, or - for standard input.",
)
@click.option(
    "--values",
    type=TABLE,
    help="Of many clients, a row for each, to try things out: FOLDER is the clients'.",
)
@click.option("--column", metavar="NAME", help="Column of the values: its name.")
@option("--show-values")
@click.option(
    "--max-epsilon", type=EPSILON, help="Send nothing to a task that promises less privacy."
)
@click.option("--max-delta", type=DELTA, help="The same, of its delta.")
@option(
    "--store",
    type=FOLDER,
    metavar="FOLDER",
    shown="'reports', next to the task",
    help="Where reports are kept before they are sent.",
)
@option(
    "--wait",
    type=click.FloatRange(0, 1e6),
    default=60,
    metavar="SECONDS",
    help="How long to go on where a party does not answer; each gets five seconds at least.",
)
@option("--ca")
@option(*JSON)
def command(
    folder: Path,
    value: str | None,
    token: Path | None,
    store: Path | None,
    values: str | None,
    column: str | None,
    show_values: bool,
    wait: float,
    ca: Path | None,
    as_json: bool,
    **limits: Fraction | None,
) -> None:
    """Send a client's report of its value to all parties of a task.

    FOLDER, or a file task.json, has the task. Its maker chose what it
    promises: that is shown before anything is sent, on a terminal, and
    with --max-epsilon and --max-delta a task that promises less is refused.

    The report is made once and kept: a call that follows sends the same one
    on, whatever value it is given, so that no call can make it tell more.
    Until all parties have it, it does not count.

    With --values one program sees the values of all clients: that is for
    demonstrations and tests only. The same command again goes on with those
    that not all parties have.
    """
    from ikos.deployment.party_files import read_task

    if (value is None) == (values is None):
        raise click.UsageError("give --value for one client, or --values and --column for many")
    if (values is None) != (column is None):
        raise click.UsageError("--values and --column belong together")
    if values is not None and token is not None:
        raise click.UsageError("--token is for --value, one client")
    task = read_task(folder)
    if on_terminal(sys.stderr):
        for text in task.explain().splitlines():
            say("\n".join(wrapped(text, "", " " * 12)))
    home = folder if folder.is_dir() else folder.parent
    if store is None:
        store = _place(home, task)
    options = {"patience": wait, "ca": ca, **limits}
    try:
        if values is None:
            clients, again = 1, _one(task, home, str(value), token, store, options)
        else:
            again = store.exists()
            clients = _many(task, home, values, str(column), show_values, store, options)
    except ValueError as error:
        raise click.UsageError(printable(problem(error))) from None
    if as_json:
        result = {"command": "submit", "task": task.name, "clients": clients}
        result |= {"parties": task.messages, "again": again, "store": str(store)}
        print_json({**result, **promised(task)})
        return
    if values is None:
        lines = [f"All {task.messages} parties have the report."]
        lines += [f"It was {STANDS}."] if again else []
    else:
        lines = [
            f"All {task.messages} parties have the reports of {clients:,} clients.",
            "For testing only: this program saw the values of all.",
        ]
        stands = f"Of reports {MADE} the values stand, whatever the table has now."
        lines += wrapped(stands, "", "") if again else []
    print_text([*lines, *wrapped(f"The task promises {task.protocol.guarantee}.", "", "  ")])


def _place(home: Path, task: Task) -> Path:
    """Return the folder of reports, so that a client which was tried alone has no second one.

    It is the same for one client and for many, and for both copies of a task that are made with
    it: the one next to the folder ``clients`` and the one in there.
    """
    from ikos.deployment.party_files import TASK, read_task

    inner = home / CLIENTS
    if (inner / TASK).is_file() and read_task(inner).id == task.id:
        return inner / REPORTS
    return home / REPORTS


def _one(
    task: Task,
    home: Path,
    value: str,
    token: Path | None,
    store: Path,
    options: dict[str, Any],
) -> bool:
    """Send one client's report; return whether it was made before."""
    from ikos.deployment.client import Client, Unsent

    if value == STDIN and str(token) == STDIN:
        raise click.UsageError("--value and --token cannot both be read from standard input")
    secret = _secret(home, token)
    number = _allowed(task, _read("--value") if value == STDIN else value)
    patience = options.pop("patience")
    client = Client(task, secret, store=store, **options)
    kept = client.begun
    path = click.get_current_context().command_path
    try:
        return client.submit(number, patience=patience).again
    except Unsent as unsent:
        also = f"; it was {STANDS}" if kept else ""
        raise click.UsageError(printable(str(unsent)) + also) from None
    except KeyboardInterrupt:
        if not client.begun:
            raise
        raise click.Abort(
            f"{path}: interrupted; parts of the report may have reached some parties: submit again "
            "to go on with it"
        ) from None


def _read(name: str) -> str:
    """Return what standard input holds, a line."""
    try:
        text = sys.stdin.read(_LONGEST + 1)
    except (OSError, ValueError):  # closed, or not text
        raise click.UsageError(f"{name} cannot be read from standard input") from None
    if len(text) > _LONGEST or not text.strip():
        raise click.UsageError(f"{name} must be a line of standard input")
    return text


def _secret(home: Path, token: Path | None) -> bytes:
    """Return the client's secret; an error quotes nothing of it."""
    from ikos.deployment import tokens
    from ikos.deployment.party_files import read_secret

    if str(token) == STDIN:
        try:
            return tokens.from_text(_read("--token").strip())
        except ValueError:
            raise click.UsageError("--token must be a client's secret") from None
    place = home / TOKEN if token is None else token
    if not place.exists():
        with suppress(ValueError):
            tokens.from_text(str(token))
            raise click.UsageError(
                "--token must be a file with the client's secret, not the secret itself: other "
                "users of this machine can see what stands on a command line"
            )
        raise click.UsageError(
            f"no such file: {str(place)!r}; give the file with the client's secret as --token"
        )
    return read_secret(place)


def _allowed(task: Task, text: str) -> float:
    """Return a value that the task allows, also where an earlier one will be sent on."""
    number = math.nan
    with suppress(ValueError, OverflowError):
        number = float(text)
    if not task.lower <= number <= task.upper or (task.integers and not number.is_integer()):
        # without quoting it: it is a person's, and may come from a file
        kind = "an integer" if task.integers else "a number"
        raise click.UsageError(f"--value must be {kind} in [{task.lower:g}, {task.upper:g}]")
    return number


def _many(
    task: Task,
    home: Path,
    values: str,
    column: str,
    show_values: bool,
    store: Path,
    options: dict[str, Any],
) -> int:
    """Send the reports of many clients; return how many these are."""
    import numpy as np

    from ikos.aggregation.shuffled_sum import with_location
    from ikos.deployment.client import Rejected, Unsent, submit_many
    from ikos.deployment.party_files import read_secrets
    from ikos.tables import open_column

    table = open_column(values, column, show_values=show_values)
    found = np.concatenate(list(with_location(task.protocol, table).blocks()))
    secrets = read_secrets(home)
    if len(secrets) < found.size:
        raise click.UsageError(
            f"{values!r} has {found.size:,} rows, and there are {len(secrets):,} clients"
        )
    done = 0
    path = click.get_current_context().command_path
    with progress("reports sent") as show:

        def report(sent: int, whole: int) -> None:
            nonlocal done
            done = sent
            if show is not None:
                show(sent, whole)

        def so_far() -> str:
            return f"all parties have the reports of {done:,} of {found.size:,} clients"

        go_on = "the same command goes on with the others"
        try:
            return submit_many(
                task, secrets[: found.size], found, store=store, progress=report, **options
            )
        except (Rejected, Unsent) as error:
            row = "" if error.row is None else f" Of row {error.row + 1:,}:"
            then = f", and {go_on}" if isinstance(error, Unsent) else ""
            raise click.UsageError(f"{so_far()}{then}.{row} {printable(str(error))}") from None
        except KeyboardInterrupt:
            raise click.Abort(f"{path}: interrupted; {so_far()}, and {go_on}") from None
