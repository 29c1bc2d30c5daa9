"""``ikos submit``: one client's report of its value, or those of many clients for trials."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command
from ikos.cli.options import option, options
from ikos.cli.output import on_terminal, progress, say
from ikos.cli.task import TASK_COLUMNS, TASK_KEYS
from ikos.cli.types import DELTA, EPSILON, FILE, FOLDER, SECONDS, TABLE, Whole, parsed
from ikos.results.report import Field, Report

if TYPE_CHECKING:
    from ikos.deployment.task import Task

KEYS = [
    *TASK_KEYS,
    Field("clients", "clients whose reports all parties have"),
    Field("parties", "number of parties"),
    Field("again", "whether an earlier call made the report, whose value stands; of many, whether "
          "it may have made some of them, as the store was there"),
    Field("store", "the folder where reports are kept"),
]  # fmt: skip

STANDS = "made by an earlier call: its value stands, and this one was not used"

EXAMPLES = """\b
Examples
  ikos submit visits/ --value 3 \\
      --max-epsilon 1 --max-delta 1e-8
  ikos submit visits/task.json --token secret.txt \\
      --value - < value.txt
  ikos submit visits/clients --values people.csv \\
      --column visits
"""

SECTIONS = {"value": "One client", "values": "Many clients", "window": "What is sent",
            "how": "Output"}  # fmt: skip


@click.command(
    "submit", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=TASK_COLUMNS
)
@click.argument("folder", type=FOLDER)
@option("--value", metavar="VALUE",
        help="This client's value: a number, a category, or numbers separated by commas; or - to "
        "read it from standard input: other users of this machine can see command "
        "lines.")  # fmt: skip
@option("--token", type=FILE, metavar="FILE", show_default="'token', next to the task",
        help="File with the client's secret, or - for standard input.")  # fmt: skip
@option("--values", type=TABLE, metavar="TABLE",
        help="Values of many clients, one per row, for trials: FOLDER is the "
        "clients'.")  # fmt: skip
@click.option(
    "--column",
    multiple=True,
    metavar="NAME",
    help="Name of the column of values; of vectors, given once for each coordinate: in order, "
    "unless the columns have the names of the coordinates.",
)
@options("--delimiter", "--show-values")
@option("--window", type=Whole(), metavar="NUMBER", show_default="the one that is open",
        help="Window, from 0 on, of a task that has several.")  # fmt: skip
@option("--max-epsilon", type=EPSILON, help="Send nothing to a task that promises less privacy.")
@option("--max-delta", type=DELTA, help="The same for its delta.")
@option("--store", type=FOLDER, metavar="FOLDER", show_default="'reports', next to the task",
        help="Folder that keeps reports before they are sent.")  # fmt: skip
@option("--wait", type=SECONDS, default=60, metavar="SECONDS",
        help="How long to retry parties that do not answer; each gets at least five "
        "seconds.")  # fmt: skip
@option("--ca")
def command(
    folder: Path, value: str | None, values: str | None, token: Path | None, **options: Any
) -> Report:
    """Send a client's report of its value to all parties of a task.

    FOLDER, or a file task.json, has the task. Its maker chose its guarantee, which is shown on a
    terminal before anything is sent; with --max-epsilon and --max-delta a task that promises less
    is refused.

    The report is made once and kept: later calls send the same one, whatever value they are given,
    so that no call can make it reveal more. Until all parties have it, it does not count.

    With --values one program sees the values of all clients: that is for demonstrations and tests
    only. Repeating the command resumes with those that not all parties have.
    """
    from ikos.deployment.party_files import read_task

    column = options.pop("column")
    how = {name: options.pop(name) for name in ("delimiter", "show_values")}
    if (value is None) == (values is None):
        raise click.UsageError("give --value for one client, or --values and --column for many")
    if (values is None) != (not column):
        raise click.UsageError("--values and --column belong together")
    if values is not None and token is not None:
        raise click.UsageError("--token is for --value, one client")
    task = read_task(folder)
    if on_terminal(sys.stderr):
        say(task.explain())
    home = folder if folder.is_dir() else folder.parent
    store: Path = options["store"] or _place(home, task)
    options |= {"store": store, "timeout": options.pop("wait")}
    clients, again = 1, store.exists()
    notes = [f"The task promises {task.protocol.guarantee}."]
    if value is not None:
        again = _one(task, home, value, token, options)
        title = f"All {task.messages} parties have the report."
        notes = [f"It was {STANDS}."] * again + notes
    else:
        clients = _many(task, home, str(values), column, how, options)
        title = f"All {task.messages} parties have the reports of {clients:,} clients."
        notes += ["For testing only: this program saw the values of all."]
        notes += ["Reports made by an earlier call keep the values that they had."] * again
    data = {
        **task.summary().data, "command": "submit", "clients": clients,
        "parties": task.messages, "again": again, "store": store,
    }  # fmt: skip
    return Report(title, TASK_COLUMNS, [], notes, data)


def _place(home: Path, task: Task) -> Path:
    """Return the folder of reports, one for both copies of a task: no client gets a second one."""
    from ikos.deployment.party_files import TASK, read_task

    inner = home / "clients"
    if (inner / TASK).is_file() and read_task(inner).id == task.id:
        home = inner
    return home / "reports"


def _one(task: Task, home: Path, value: str, token: Path | None, options: dict[str, Any]) -> bool:
    """Send one client's report; return whether it was made before."""
    from ikos.deployment.client import Client, Unsent, check_value
    from ikos.deployment.remote import connect, open_window

    if value == "-" and str(token) == "-":
        raise click.UsageError("--value and --token cannot both be read from standard input")
    secret = _secret(home, token)
    given = _given(task, sys.stdin.read() if value == "-" else value)
    check_value(task, given)  # checked also if an earlier report is sent
    timeout, window = options.pop("timeout"), options.pop("window")
    client = Client(task, secret, **options)
    if window is None:
        window = 0
        if task.windows > 1:
            with connect(options["ca"]) as http:
                window = open_window(http, task).number
    begun = client.begun(window)
    also = f"; it was {STANDS}" * begun
    try:
        return client.submit(given, window=window, timeout=timeout).again
    except Unsent as unsent:
        raise click.UsageError(f"{unsent}{also}") from None
    except KeyboardInterrupt:
        if not client.begun(window):
            raise
        raise KeyboardInterrupt(
            "interrupted; parts of the report may have reached some parties: submit again to go on "
            "with it"
        ) from None


def _given(task: Task, text: str) -> Any:
    """Return a client's value: a label, a number, or a list of numbers; errors do not quote it."""
    from ikos.data.domains import Categories

    text = text.strip()
    if task.labels and isinstance(task.domain, Categories):
        return text
    scalar = task.protocol.scalar
    found: list[float] = []
    with suppress(OverflowError, TypeError):  # too large, or no number
        numbers: list[Any] = [parsed(one) for one in ([text] if scalar else re.split(", *", text))]
        found = [*map(float, numbers)]
    if len(found) != task.domain.dimension:
        many = f"{task.domain.dimension:,} numbers separated by commas"
        raise click.UsageError(f"--value must be {'one number, such as 0.5' if scalar else many}")
    return found[0] if scalar else found


def _secret(home: Path, token: Path | None) -> bytes:
    """Return the client's secret; errors quote nothing of it."""
    from ikos.deployment import tokens
    from ikos.deployment.party_files import read_secret

    if str(token) == "-":
        with suppress(OSError, ValueError):  # closed, or not text, or not a secret
            return tokens.from_text(sys.stdin.read(1000).strip())
        raise click.UsageError("--token must be a client's secret")
    with suppress(ValueError):
        tokens.from_text(str(token))
        raise click.UsageError(
            "--token must be a file with the client's secret, not the secret itself: other users "
            "of this machine can see command lines"
        )
    return read_secret(home / "token" if token is None else token)


def _many(
    task: Task,
    home: Path,
    values: str,
    columns: Sequence[str],
    how: dict[str, Any],
    options: dict[str, Any],
) -> int:
    """Send the reports of many clients; return their number."""
    import numpy as np

    from ikos.data.domains import Categories
    from ikos.data.tables import open_column
    from ikos.deployment.client import Rejected, Unsent, submit_many
    from ikos.deployment.party_files import read_secrets
    from ikos.sums.shuffled_sum import with_location

    texts = isinstance(task.domain, Categories) and bool(task.labels)
    single = texts or task.protocol.scalar
    needed = 1 if single else task.domain.dimension
    if not len(columns) == len(set(columns)) == needed:
        of = "categories" if texts else "numbers" if single else f"vectors of {needed:,}"
        times = "once" if single else f"once for each of {needed:,} different columns"
        raise click.UsageError(f"--column must be given {times} for a task of {of}")
    if set(columns) == set(task.labels):
        columns = task.labels
    tables = [open_column(values, column, texts=texts, **how) for column in columns]
    if single:
        tables = [with_location(task.values, table) for table in tables]
    parts = [np.concatenate(list(table.blocks())) for table in tables]
    found = parts[0] if single else np.stack(parts, axis=1)
    secrets = read_secrets(home)
    if len(secrets) < len(found):
        few = f"{values!r} has {len(found)} rows, and there are {len(secrets)} clients"
        raise click.UsageError(few)
    done = 0
    with progress("reports sent") as show:

        def report(sent: int, whole: int) -> None:
            nonlocal done
            done = sent
            if show is not None:
                show(sent, whole)

        try:
            return submit_many(task, secrets[: len(found)], found, progress=report, **options)
        except (Rejected, Unsent, KeyboardInterrupt) as error:
            said = f"all parties have the reports of {done} of {len(found)} clients"
            if not isinstance(error, Rejected):
                said += ", and the same command resumes with the others"
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(f"interrupted; {said}") from None
            row = "" if error.row is None else f" Of row {error.row + 1}:"
            raise click.UsageError(f"{said}.{row} {error}") from None
