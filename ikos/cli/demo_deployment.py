"""``python -m ikos.cli.demo_deployment``: a private sum between programs on this machine, at once.

Five shufflers and an analyzer run as they would in production, ``ikos serve``, each with a folder
and a port of its own; two thousand clients report to them, and one that stops half-way. Simulated
are one machine instead of many, and one program that is all clients.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click
import numpy as np

from ikos.cli.errors import Command, leave_interrupts
from ikos.cli.output import aligned, bold, figures, print_text, wrapped
from ikos.cli.program import execute
from ikos.cli.task import result_lines

if TYPE_CHECKING:
    import httpx

    from ikos.deployment.task import Task
    from ikos.deployment.wire import AnalyzerStatus

NAME = "python -m ikos.cli.demo_deployment"
CLIENTS = 2000
SHUFFLERS = 5
MIN_HONEST = 1900
EPSILON, DELTA = 1, "1e-8"  # for which five shuffled messages suffice
COLUMN = "vote"
REACHED = (0, 1, 2)
"""The parties that receive parts of the client that stops half-way: analyzer and two shufflers."""

_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_COMMAND_SECONDS = 120.0
_QUESTION = (
    "How many of {:,} answers are for Bob Dole (1) rather than Bill Clinton (0)? They are those of "
    "the {:,} people of the American National Election Study of 1996, repeated from the first."
)


class _Party(NamedTuple):
    """A program that runs."""

    name: str
    address: str
    folder: Path
    log: Path
    process: subprocess.Popen[bytes]

    def held(self, task: Task, http: httpx.Client) -> tuple[int, int]:
        """Return its reports, and the bytes of what it keeps on disk."""
        answer = http.get(f"{self.address}/tasks/{task.name}").raise_for_status()
        on_disk = sum(path.stat().st_size for path in self.folder.glob("store.sqlite3*"))
        return int(answer.json()["reports"]), on_disk


@click.command("ikos.cli.demo_deployment", cls=Command)
def command() -> None:
    """Run a private sum between an analyzer and five shufflers on this machine.

    How many of 2,000 answers are for Bob Dole (1) rather than Bill Clinton
    (0)? They are those of the 944 people of the American National Election
    Study of 1996, repeated from the first. They are public, so the truth is
    shown next to the estimate.
    """
    signal.signal(signal.SIGTERM, _ended)
    with tempfile.TemporaryDirectory(prefix="ikos-parties-") as folder, ExitStack() as stack:
        # the end is not interrupted: another Ctrl-C meanwhile would leave things behind
        stack.callback(leave_interrupts)
        lines = _run(Path(folder), stack)
    print_text(lines)


def _ended(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _run(folder: Path, stack: ExitStack) -> list[str]:
    """Return the account of it all."""
    from ikos.datasets import load_anes96
    from ikos.deployment.client import send_part, submit_many
    from ikos.deployment.party_files import read_secrets
    from ikos.deployment.remote import connect
    from ikos.deployment.reports import ClientReport
    from ikos.deployment.serve import serve_analyzer
    from ikos.deployment.wire import AnalyzerStatus

    del serve_analyzer  # run by other programs: here it shows that the extra is installed
    times: dict[str, float] = {}
    began = last = time.monotonic()

    def took(what: str) -> None:
        nonlocal last
        times[what], last = time.monotonic() - last, time.monotonic()

    task = _task(folder / "task")
    secrets = read_secrets(folder / "task" / "clients")
    answers = load_anes96(COLUMN)
    votes = np.resize(answers, CLIENTS)  # repeated from the first
    http = stack.enter_context(connect())
    _say(f"starting {task.messages} programs")
    parties = stack.enter_context(_parties(task, folder))
    for party in parties:
        _ready(party, http)
    took("all programs listen")
    _say(f"{CLIENTS:,} clients report")
    submit_many(task, secrets[:CLIENTS], votes)
    unlucky = ClientReport.make(task, 1)
    for number in REACHED:
        send_part(http, task, secrets[CLIENTS], unlucky, number)
    took(f"{CLIENTS:,} clients, {CLIENTS * task.messages:,} requests")
    before = [party.held(task, http) for party in parties]
    _say("closing the task, and releasing its result")
    _ikos("task", "close", str(folder / "task" / "operator"), "--json")
    text = _ikos("task", "release", str(folder / "task" / "operator"), "--json")
    found = AnalyzerStatus.model_validate_json(text)
    took("close and release")
    after = [party.held(task, http) for party in parties]
    _say("stopping all programs, and removing their files")
    times["altogether"] = time.monotonic() - began
    rows = [("", "reports", "bytes on disk", "after release")]
    for one, (reports, held), (_, left) in zip(parties, before, after, strict=True):
        rows.append((one.name, f"{reports:,}", f"{held:,}", f"{left:,}"))
    return _account(task, rows, found, float(votes.sum()), answers.size, times)


def _say(text: str) -> None:
    click.echo(f"{NAME}: {text}", err=True)


def _task(output: Path) -> Task:
    """Return a task, with the folders of its parties written."""
    from ikos.deployment.hpke import PrivateKey
    from ikos.deployment.party_files import write_party_files
    from ikos.deployment.task import Task

    key = PrivateKey.generate()
    analyzer, *shufflers = (f"http://127.0.0.1:{port}" for port in _free_ports(SHUFFLERS + 1))
    now = datetime.now(UTC)
    task = Task.new(
        CLIENTS + 1,
        EPSILON,
        float(DELTA),
        integers=True,
        min_honest=MIN_HONEST,
        shufflers=shufflers,
        analyzer=analyzer,
        public_key=key.public_bytes,
        opens=now - timedelta(seconds=1),
        closes=now + timedelta(hours=1),
    )
    write_party_files(task, key, output)
    return task


def _free_ports(count: int) -> list[int]:
    """Return ports at which no program listens, for now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def _parties(task: Task, folder: Path) -> Iterator[list[_Party]]:
    """Run a program for each party; all have ended afterwards."""
    parties: list[_Party] = []
    try:
        for number in range(task.messages):
            name = f"shuffler-{number}" if number else "analyzer"
            own, log = folder / "task" / name, folder / f"{name}.log"
            with log.open("wb") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", "ikos", "serve", name.partition("-")[0], str(own)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                )
            address = task.address(number)
            parties.append(_Party(name.replace("-", " "), address, own, log, process))
        yield parties
    finally:
        leave_interrupts()
        for party in parties:
            party.process.terminate()
        until = time.monotonic() + _STOP_SECONDS
        for party in parties:
            try:
                party.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                party.process.kill()
                party.process.wait()


def _ready(party: _Party, http: httpx.Client) -> None:
    """Wait until a program answers."""
    import httpx

    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        if party.process.poll() is not None:
            lines = party.log.read_text(errors="replace").splitlines() or ["without a word"]
            raise click.UsageError(f"the {party.name} ended: {lines[-1]}")
        try:
            http.get(f"{party.address}/health", timeout=2).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise click.UsageError(f"the {party.name} does not answer")


def _ikos(*arguments: str) -> str:
    """Run a command as the operator would, and return what it prints."""
    command = f"'ikos {' '.join(arguments[:2])}'"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ikos", *arguments],
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise click.UsageError(f"{command} does not end") from None
    if done.returncode:
        lines = done.stderr.splitlines() or ["without a word"]
        raise click.UsageError(f"{command} failed: {lines[-1]}")
    return done.stdout


def _account(
    task: Task,
    rows: Sequence[tuple[str, ...]],
    found: AnalyzerStatus,
    truth: float,
    people: int,
    times: dict[str, float],
) -> list[str]:
    """Return the lines to be printed."""
    from ikos.deployment import hpke

    assert found.result is not None
    error, size = found.result.estimate - truth, found.result.standard_error
    reached = " and ".join(str(number) for number in REACHED if number)
    return [
        *wrapped(_QUESTION.format(CLIENTS, people), "", ""),
        "",
        bold("The task"),
        *(line for text in task.explain().splitlines() for line in wrapped(text, "  ", " " * 14)),
        "",
        bold("What each party holds"),
        *aligned(rows),
        *wrapped(
            f"One client reached the analyzer and the shufflers {reached} alone: "
            f"{found.complete:,} of {found.reports:,} reports are complete, and no other is in the "
            "sum."
        ),
        "",
        bold("What it cannot know"),
        *wrapped(
            f"A shuffler sees who sends it an envelope, and when: {hpke.size(task)} bytes, "
            "encrypted to the analyzer. It sees no share, and no other column."
        ),
        *wrapped(
            "The analyzer sees who sends it a clear share, and when: a number that is uniformly "
            f"random modulo {task.modulus:,}, whatever the vote. Of each other column it sees "
            f"{found.complete:,} numbers in an order that says nothing: not whose they are, "
            "nor which of them belong together. Only the total means anything."
        ),
        *wrapped(
            "This holds while the analyzer and the shufflers are different people, who do not "
            "share what they have."
        ),
        "",
        bold("The result"),
        *result_lines(task, found, "  "),
        *wrapped(
            f"The truth, which these public data allow to be shown: {truth:,.0f}. The error is "
            f"{figures(error, size)}, of a standard error of {figures(size, size)}."
        ),
        "",
        bold("Seconds"),
        *aligned([(what, f"{seconds:.1f}") for what, seconds in times.items()]),
    ]


if __name__ == "__main__":
    execute(command, NAME)
