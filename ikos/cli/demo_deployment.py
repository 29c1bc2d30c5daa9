"""``python -m ikos.cli.demo_deployment``: a private sum between programs on this machine, at once.

Five shufflers and an analyzer run as they would in earnest, ``ikos serve``, each with a folder and
a port of its own; two thousand clients report to them, and one that stops half-way. What is
simulated is that all of this is on one machine, and one program is all clients.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import numpy as np

from ikos.cli import execute
from ikos.cli.errors import Command, leave_interrupts
from ikos.cli.output import aligned, bold, figures, print_text, wrapped
from ikos.cli.task import result_lines

if TYPE_CHECKING:
    import httpx

    from ikos.deployment.task import Task

NAME = "python -m ikos.cli.demo_deployment"
CLIENTS = 2000
SHUFFLERS = 5
MIN_HONEST = 1900
EPSILON, DELTA = 1, "1e-8"  # for which five shuffled messages suffice
COLUMN = "vote"
REACHED = (0, 1, 2)
"""The parties that the client reaches who stops half-way: the analyzer and two shufflers."""

_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_COMMAND_SECONDS = 120.0


@dataclass(frozen=True)
class _Party:
    """A program that runs."""

    number: int
    folder: Path
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def name(self) -> str:
        return f"shuffler {self.number}" if self.number else "analyzer"

    def on_disk(self) -> int:
        """Return the bytes of what it keeps, with the log of what is not yet in its place."""
        return sum(path.stat().st_size for path in self.folder.glob("store.sqlite3*"))


@dataclass(frozen=True)
class _Look:
    """What each party has, at one time."""

    reports: tuple[int, ...]
    on_disk: tuple[int, ...]


@click.command("ikos.cli.demo_deployment", cls=Command)
def command() -> None:
    """Run a private sum between an analyzer and five shufflers on this machine.

    How many of 2,000 answers are for Bob Dole (1) rather than Bill Clinton
    (0)? They are those of the 944 people of the American National Election
    Study of 1996, over again from the first where they end. They are
    public, so the truth is shown beside the estimate.
    """
    signal.signal(signal.SIGTERM, _ended)
    with tempfile.TemporaryDirectory(prefix="ikos-parties-") as folder, ExitStack() as stack:
        # what ends is ended whole: another Ctrl-C meanwhile would leave things behind
        stack.callback(leave_interrupts)
        lines = _run(Path(folder), stack)
    print_text(lines)


def _ended(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _run(folder: Path, stack: ExitStack) -> list[str]:
    """Return the account of it all."""
    from ikos.datasets import load_anes96
    from ikos.deployment.client import put_part, submit_many
    from ikos.deployment.party_files import read_secrets
    from ikos.deployment.remote import connect
    from ikos.deployment.reports import Report
    from ikos.deployment.serve import serve_analyzer, serve_shuffler

    del serve_analyzer, serve_shuffler  # run by other programs: here it shows that they are there
    began = time.monotonic()
    task = _task(folder / "task")
    secrets = read_secrets(folder / "task" / "clients")
    answers = load_anes96(COLUMN)
    votes = np.resize(answers, CLIENTS)  # over again from the first where they end
    http = stack.enter_context(connect())
    _say(f"starting {task.messages} programs")
    with _timed() as starting:
        parties = stack.enter_context(_parties(task, folder))
        for party in parties:
            _ready(party, task, http)
    _say(f"{CLIENTS:,} clients report")
    with _timed() as sending:
        submit_many(task, secrets[:CLIENTS], votes)
    unlucky = Report.make(task, 1)
    for number in REACHED:
        if not put_part(http, task, secrets[CLIENTS], unlucky, number):
            raise click.UsageError(f"{parties[number].name} does not take a report")
    before = _look(parties, task, http)
    _say("closing the task, and releasing its result")
    with _timed() as releasing:
        _ikos("task", "close", str(folder / "task" / "operator"), "--json")
        found = _ikos("task", "release", str(folder / "task" / "operator"), "--json")
    after = _look(parties, task, http)
    _say("stopping all programs, and removing their files")
    times = {
        "all programs listen": starting[0],
        f"{CLIENTS:,} clients, {CLIENTS * task.messages:,} requests": sending[0],
        "close and release": releasing[0],
        "altogether": time.monotonic() - began,
    }
    return _account(task, parties, before, after, found, float(votes.sum()), answers.size, times)


def _say(text: str) -> None:
    click.echo(f"{NAME}: {text}", err=True)


@contextmanager
def _timed() -> Iterator[list[float]]:
    took: list[float] = []
    began = time.monotonic()
    yield took
    took.append(time.monotonic() - began)


def _task(output: Path) -> Task:
    """Return a task, with the folders of its parties written."""
    from ikos.deployment.hpke import PrivateKey
    from ikos.deployment.party_files import write_seats
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
    write_seats(task, key, output)
    return task


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at, for now."""
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
            role, name = ("shuffler", f"shuffler-{number}") if number else ("analyzer", "analyzer")
            own, log = folder / "task" / name, folder / f"{name}.log"
            with log.open("wb") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", "ikos", "serve", role, str(own)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                )
            parties.append(_Party(number, own, log, process))
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


def _ready(party: _Party, task: Task, http: httpx.Client) -> None:
    """Wait until a program answers."""
    import httpx

    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        if party.process.poll() is not None:
            said = party.log.read_text(errors="replace").splitlines() or ["without a word"]
            raise click.UsageError(f"the {party.name} ended: {said[-1]}")
        try:
            http.get(f"{task.address(party.number)}/health", timeout=2).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise click.UsageError(f"the {party.name} does not answer")


def _look(parties: Sequence[_Party], task: Task, http: httpx.Client) -> _Look:
    """Ask each party how many reports it has, and see what it keeps."""
    reports = []
    for party in parties:
        answer = http.get(f"{task.address(party.number)}/tasks/{task.name}").raise_for_status()
        reports.append(int(answer.json()["reports"]))
    return _Look(tuple(reports), tuple(party.on_disk() for party in parties))


def _ikos(*arguments: str) -> dict[str, Any]:
    """Run a command as the operator would, and return what it prints."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ikos", *arguments],
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise click.UsageError(f"'ikos {' '.join(arguments[:2])}' does not end") from None
    if done.returncode:
        said = done.stderr.splitlines() or ["without a word"]
        raise click.UsageError(f"'ikos {' '.join(arguments[:2])}' failed: {said[-1]}")
    return dict(json.loads(done.stdout))


def _account(
    task: Task,
    parties: Sequence[_Party],
    before: _Look,
    after: _Look,
    found: dict[str, Any],
    truth: float,
    people: int,
    times: dict[str, float],
) -> list[str]:
    """Return the lines to be printed."""
    from ikos.deployment import hpke

    result = found["result"]
    rows = [("", "reports", "bytes on disk", "after release")]
    for party, reports, held, left in zip(
        parties, before.reports, before.on_disk, after.on_disk, strict=True
    ):
        rows.append((party.name, f"{reports:,}", f"{held:,}", f"{left:,}"))
    reached = " and ".join(str(number) for number in REACHED if number)
    error = result["estimate"] - truth
    size = result["standard_error"]
    return [
        *wrapped(
            f"How many of {CLIENTS:,} answers are for Bob Dole (1) rather than Bill Clinton (0)? "
            f"They are those of the {people:,} people of the American National Election Study of "
            "1996, over again from the first where they end.",
            "",
            "",
        ),
        "",
        bold("The task"),
        *(line for text in task.explain().splitlines() for line in wrapped(text, "  ", " " * 14)),
        "",
        bold("What each party holds"),
        *aligned(rows),
        *wrapped(
            f"One client reached the analyzer and the shufflers {reached} alone: "
            f"{found['complete']:,} of {found['reports']:,} reports are complete, and no other is "
            "in the sum."
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
            f"{found['complete']:,} numbers in an order that says nothing: not whose they are, "
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
