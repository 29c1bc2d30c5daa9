"""``ikos submit``: send the report of one client, or for trials those of many."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command
from ikos.cli.options import from_option, takes
from ikos.cli.output import on_terminal, progress, say
from ikos.cli.task import TASK_COLUMNS, TASK_KEYS
from ikos.cli.types import DELTA, EPSILON, FILE, FOLDER, SECONDS, TABLE, Whole, parsed
from ikos.results.report import Field, Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ikos.deployment.task import Task

KEYS = [
    *TASK_KEYS,
    Field("clients", "clients whose reports all parties have"),
    Field("parties", "number of parties"),
    Field("again", "whether an earlier call made the report, whose value stands; for many "
          "clients, whether it may have made some of them, as the store existed"),
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

SECTIONS = {"value": "One client", "values": "Many clients", "window": "Sending",
            "format": "Output"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SubmitRequest:
    """Options of a client, or of many."""

    folder: Path
    value: str | None = from_option(
        metavar="VALUE",
        help="This client's value: a number, a category, or numbers separated by commas; or - to "
        "read it from standard input, as other users of this machine can see command lines.",
    )
    token: Path | None = from_option(
        type=FILE, metavar="FILE", show_default="'token', next to the task",
        help="File with the client's secret, or - for standard input.")  # fmt: skip
    values: str | None = from_option(
        type=TABLE, metavar="TABLE", help="Table with one client's value per row, for trials; "
        "FOLDER is then the folder of all clients.")  # fmt: skip
    column: tuple[str, ...] = from_option(
        multiple=True,
        help="Column of the values; for vectors, repeat it for each coordinate, in their order "
        "unless the columns are named like the coordinates.",
    )
    delimiter: str | None
    show_values: bool
    window: int | None = from_option(
        type=Whole(), show_default="the one that is open",
        help="Number of the window, from 0, if the task has several.")  # fmt: skip
    max_epsilon: Fraction | None = from_option(
        type=EPSILON, show_default="any", help="Refuse a task whose epsilon is larger than this."
    )
    max_delta: Fraction | None = from_option(
        type=DELTA, show_default="any", help="Refuse a task whose delta is larger than this."
    )
    store: Path | None = from_option(
        type=FOLDER, metavar="FOLDER", show_default="'reports', next to the task",
        help="Folder that keeps reports before they are sent.")  # fmt: skip
    wait: float = from_option(
        type=SECONDS, default=60, metavar="SECONDS",
        help="Seconds to retry parties that do not answer; each gets at least five.")  # fmt: skip
    ca: Path | None

    def check(self) -> None:
        """Refuse options that do not go together."""
        if (self.value is None) == (self.values is None):
            raise click.UsageError("give --value for one client, or --values and --column for many")
        if (self.values is None) != (not self.column):
            raise click.UsageError("--values and --column belong together")
        if self.values is not None and self.token is not None:
            raise click.UsageError("--token is for --value, one client")
        if self.value == "-" and str(self.token) == "-":
            raise click.UsageError("--value and --token cannot both be read from standard input")

    @property
    def home(self) -> Path:
        """The folder of the task."""
        return self.folder if self.folder.is_dir() else self.folder.parent


@click.command(
    "submit", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=TASK_COLUMNS
)
@click.argument("folder", type=FOLDER)
@takes(SubmitRequest)
def command(request: SubmitRequest) -> Report:
    """Send a client's value to all parties of a task.

    FOLDER contains the task (or give its task.json). The task's author chose the guarantee, which
    is shown on a terminal before anything is sent; with --max-epsilon and --max-delta, a task that
    guarantees less is refused.

    The report is created once and stored: later calls send the same one, whatever their value, so
    that they reveal nothing more. A report counts only once every party has received it.

    With --values one program sees the values of all clients: that is for demonstrations and tests
    only. Repeat the command to resend the reports that some parties lack.
    """
    from ikos.deployment.party_files import read_task

    request.check()
    task = read_task(request.folder)
    if on_terminal(sys.stderr):
        say(task.explain())
    store = request.store or _place(request.home, task)
    again = store.exists()
    notes = [f"The task's guarantee: {task.protocol.guarantee}."]
    if request.value is not None:
        clients, again = 1, _one(task, request, request.value, store)
        title = f"All {task.parties} parties have the report."
        notes = [f"It was {STANDS}."] * again + notes
    else:
        clients = _many(task, request, store)
        title = f"All {task.parties} parties have the reports of {clients:,} clients."
        notes += ["For testing only: this program saw the values of all clients."]
        notes += ["Reports made by an earlier call keep the values that they had."] * again
    data = {
        **task.summary().data, "command": "submit", "clients": clients,
        "parties": task.parties, "again": again, "store": store,
    }  # fmt: skip
    return Report(title, TASK_COLUMNS, [], notes, data)


def _place(home: Path, task: Task) -> Path:
    """Return the folder of reports, the same for both copies of a task, so no client has two."""
    from ikos.deployment.party_files import TASK, read_task

    inner = home / "clients"
    if (inner / TASK).is_file() and read_task(inner).id == task.id:
        home = inner
    return home / "reports"


def _one(task: Task, request: SubmitRequest, text: str, store: Path) -> bool:
    """Send one client's report; return whether an earlier call made it."""
    from ikos.deployment.client import Client, Unsent, check_value

    secret = _secret(request.home, request.token)
    value = client_value(task, sys.stdin.read() if text == "-" else text)
    check_value(task, value)  # checked also if an earlier report is sent
    client = Client(
        task, secret, store=store, ca=request.ca, max_epsilon=request.max_epsilon,
        max_delta=request.max_delta,
    )  # fmt: skip
    window = _window(task, request)
    stands = f"; it was {STANDS}" * client.begun(window)
    try:
        return client.submit(value, window=window, timeout=request.wait).again
    except Unsent as unsent:
        raise click.UsageError(f"{unsent}{stands}") from None
    except KeyboardInterrupt:
        if not client.begun(window):
            raise
        raise KeyboardInterrupt(
            "interrupted; parts of the report may have reached some parties: submit again to resume"
        ) from None


def _window(task: Task, request: SubmitRequest) -> int:
    """Return the number of the window to report in, by default the open one."""
    from ikos.deployment.remote import connect, open_window

    if request.window is not None or task.windows == 1:
        return request.window or 0
    with connect(request.ca) as http:
        return open_window(http, task).number


def client_value(task: Task, text: str) -> str | float | list[float]:
    """Return a client's value: a label, a number, or a list of numbers; errors do not quote it."""
    from ikos.data.domains import Bounds, Categories

    text = text.strip()
    if task.labels and isinstance(task.domain, Categories):
        return text
    scalar = isinstance(task.domain, Bounds)
    numbers: list[float] = []
    with suppress(OverflowError, TypeError):  # too large, or not a number
        exact: list[Any] = [parsed(word) for word in re.split(", *", text)]
        numbers = [*map(float, exact)]
    if len(numbers) != task.domain.dimension:
        many = f"{task.domain.dimension:,} numbers separated by commas"
        raise click.UsageError(f"--value must be {'one number, such as 0.5' if scalar else many}")
    return numbers[0] if scalar else numbers


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


def _columns(task: Task, request: SubmitRequest) -> NDArray[Any]:
    """Read the values of many clients."""
    import numpy as np

    from ikos.data.domains import Bounds, Categories
    from ikos.data.reading import located
    from ikos.data.tables import open_column

    texts = isinstance(task.domain, Categories) and bool(task.labels)
    single = texts or isinstance(task.domain, Bounds)
    needed, columns = 1 if single else task.domain.dimension, request.column
    if not len(columns) == len(set(columns)) == needed:
        kind = "categories" if texts else "numbers" if single else f"vectors of {needed:,}"
        times = "once" if single else f"once for each of {needed:,} different columns"
        raise click.UsageError(f"--column must be given {times} for a task of {kind}")
    if set(columns) == set(task.labels):
        columns = task.labels
    tables = [
        open_column(str(request.values), column, texts=texts, delimiter=request.delimiter,
                    show_values=request.show_values)
        for column in columns
    ]  # fmt: skip
    if single:
        tables = [located(task.values, table) for table in tables]
    parts = [np.concatenate(list(table.blocks())) for table in tables]
    return parts[0] if single else np.stack(parts, axis=1)


def _many(task: Task, request: SubmitRequest, store: Path) -> int:
    """Send the reports of many clients; return their number."""
    from ikos.deployment.client import Rejected, Unsent, submit_many
    from ikos.deployment.party_files import read_secrets

    values, secrets = _columns(task, request), read_secrets(request.home)
    if len(secrets) < len(values):
        raise click.UsageError(
            f"{request.values!r} has {len(values)} rows, and there are {len(secrets)} clients"
        )
    done = 0
    with progress("reports sent") as show:

        def report(sent: int, whole: int) -> None:
            nonlocal done
            done = sent
            show(sent, whole)

        try:
            return submit_many(
                task, secrets[: len(values)], values, window=request.window, store=store,
                ca=request.ca, timeout=request.wait, progress=report,
                max_epsilon=request.max_epsilon, max_delta=request.max_delta,
            )  # fmt: skip
        except (Rejected, Unsent, KeyboardInterrupt) as error:
            state = f"all parties have the reports of {done} of {len(values)} clients"
            if not isinstance(error, Rejected):
                state += ", and the same command resumes with the others"
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(f"interrupted; {state}") from None
            row = "" if error.row is None else f" Row {error.row + 1}:"
            raise click.UsageError(f"{state}.{row} {error}") from None
