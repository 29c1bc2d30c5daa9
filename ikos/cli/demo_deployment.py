"""``python -m ikos.cli.demo_deployment``: a private sum between programs on this machine, at once.

Five shufflers and an analyzer run as in production, by ``ikos serve``, each with its own folder and
port; two thousand clients report to them, and one stops halfway. Only two things are simulated:
there is one machine, and one program is all clients.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import numpy as np

from ikos.cli.errors import Command, leave_interrupts
from ikos.cli.options import format_options
from ikos.cli.output import at_least, say
from ikos.cli.program import execute
from ikos.cli.release import guarantee_notes
from ikos.report import Field, Report

if TYPE_CHECKING:
    import httpx

    from ikos.deployment.task import Task

NAME = "python -m ikos.cli.demo_deployment"
CLIENTS = 2000
SHUFFLERS = 5
MIN_HONEST = 1900
EPSILON, DELTA = 1, "1e-8"  # five shuffled messages suffice
REACHED = (0, 1, 2)
"""The parties that receive parts of the client that stops halfway: analyzer and two shufflers."""

COLUMNS = [
    Field("party", "which", ""),
    Field("reports", "reports that it accepted", "reports"),
    Field("before", "bytes that it keeps on disk before the release", "bytes on disk"),
    Field("after", "bytes that it keeps after it", "after release"),
]

_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0


@click.command("ikos.cli.demo_deployment", cls=Command, columns=COLUMNS)
@format_options
def command() -> Report:
    """Run a private sum between an analyzer and five shufflers on this machine.

    How many of 2,000 answers are for Bob Dole (1) rather than Bill Clinton
    (0)? They are those of the 944 people of the American National Election
    Study of 1996, repeated from the first. They are public, so the truth is
    shown next to the estimate.
    """
    signal.signal(signal.SIGTERM, _ended)
    with tempfile.TemporaryDirectory(prefix="ikos-parties-") as folder, ExitStack() as stack:
        # another Ctrl-C during the end would leave things behind
        stack.callback(leave_interrupts)
        return _run(Path(folder) / "task", stack)


def _ended(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _run(folder: Path, stack: ExitStack) -> Report:
    """Play all parties, and return the report."""
    from ikos.datasets import load_anes96
    from ikos.deployment import hpke
    from ikos.deployment.client import send_part, submit_many
    from ikos.deployment.party_files import (
        folder_of,
        read_control,
        read_secrets,
        write_party_files,
    )
    from ikos.deployment.remote import RemoteAnalyzer, connect
    from ikos.deployment.reports import ClientReport
    from ikos.deployment.serve import serve_analyzer
    from ikos.deployment.task import Task

    del serve_analyzer  # run by other programs: here it shows that the extra is installed
    key = hpke.PrivateKey.generate()
    analyzer, *shufflers = (f"http://127.0.0.1:{port}" for port in _free_ports(SHUFFLERS + 1))
    task = Task.new(
        CLIENTS + 1, EPSILON, float(DELTA), integers=True, min_honest=MIN_HONEST,
        shufflers=shufflers, analyzer=analyzer, public_key=key.public_bytes,
    )  # fmt: skip
    write_party_files(task, key, folder)
    began = time.monotonic()
    secrets = read_secrets(folder / "clients")
    answers = load_anes96("vote")
    votes = np.resize(answers, CLIENTS)  # repeated from the first
    http = stack.enter_context(connect())
    say(f"{NAME}: starting {task.messages} programs")
    folders = [folder / folder_of(party) for party in range(task.messages)]
    for party, program in enumerate([_start(one, stack) for one in folders]):
        _wait(task.address(party), folders[party], program, http)
    say(f"{NAME}: {CLIENTS:,} clients report")
    submit_many(task, secrets[:CLIENTS], votes)
    unlucky = ClientReport.make(task, 1)
    for party in REACHED:
        send_part(http, task, secrets[CLIENTS], unlucky, party)
    rows = [_held(task, folder, party, http) for party in range(task.messages)]
    say(f"{NAME}: closing the task, and releasing its result")
    operated = RemoteAnalyzer(http, task, read_control(folder / "operator"))
    operated.close()
    result = operated.finish().result
    assert result is not None
    for party, row in enumerate(rows):
        row["after"] = _held(task, folder, party, http)["before"]
    say(f"{NAME}: stopping all programs, and removing their files")
    truth, error = int(votes.sum()), at_least(result.standard_error, 4)
    reached = " and ".join(map(str, REACHED[1:]))
    notes = [
        f"The answers are those of the {answers.size:,} people of the American National Election "
        "Study of 1996, repeated from the first.",
        f"One client reached the analyzer and the shufflers {reached} alone: {result.users:,} of "
        f"{CLIENTS + 1:,} reports are complete, and no other is in the sum.",
        f"A shuffler sees who sends it an envelope, and when: {hpke.size(task)} bytes, encrypted "
        "to the analyzer. It sees no share, and no other column.",
        "The analyzer sees who sends it a clear share, and when: a number that is uniformly random "
        f"modulo {task.modulus:,}, whatever the vote. Of each other column it sees "
        f"{result.users:,} numbers in an order that says nothing: not whose they are, nor which of "
        "them belong together. Only the total means anything.",
        "This holds while the analyzer and the shufflers are different people, who do not share "
        "what they have.",
        f"The estimated sum is {result.estimate:,.0f}, with a standard error of at most {error}, "
        f"and the truth, which these public data allow to be shown, {truth:,}.",
        *guarantee_notes(task.protocol.guarantee),
        f"It took {time.monotonic() - began:.1f} seconds.",
    ]
    title = f"How many of {CLIENTS:,} answers are for Bob Dole (1) rather than Bill Clinton (0)?"
    return Report(
        title,
        COLUMNS,
        rows,
        notes,
        {"command": NAME, "result": result.model_dump(), "truth": truth},
    )


def _free_ports(count: int) -> list[int]:
    """Return ports at which no program listens, for now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _held(task: Task, folder: Path, party: int, http: httpx.Client) -> dict[str, Any]:
    """Return what a party says that it has, and the bytes that it keeps on disk."""
    from ikos.deployment.party_files import folder_of

    answer = http.get(f"{task.address(party)}/tasks/{task.name}").raise_for_status()
    stores = (folder / folder_of(party)).glob("store.sqlite3*")
    return {
        "party": folder_of(party).replace("-", " "),
        "reports": int(answer.json()["reports"]),
        "before": sum(path.stat().st_size for path in stores),
    }


def _start(folder: Path, stack: ExitStack) -> subprocess.Popen[bytes]:
    """Start a party's program, which ends with the stack."""
    role = folder.name.partition("-")[0]
    with folder.with_suffix(".log").open("wb") as log:
        program = subprocess.Popen(
            [sys.executable, "-m", "ikos", "serve", role, str(folder)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
    stack.callback(_stop, program)
    return program


def _stop(program: subprocess.Popen[bytes]) -> None:
    leave_interrupts()
    program.terminate()
    try:
        program.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def _wait(address: str, folder: Path, program: subprocess.Popen[bytes], http: httpx.Client) -> None:
    """Wait until a program answers."""
    import httpx

    until = time.monotonic() + _READY_SECONDS
    while program.poll() is None and time.monotonic() < until:
        try:
            http.get(f"{address}/health", timeout=2).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    lines = folder.with_suffix(".log").read_text(errors="replace").splitlines()
    raise click.UsageError(f"the {folder.name} does not answer: {(lines or ['no word'])[-1]}")


if __name__ == "__main__":
    execute(command, NAME)
