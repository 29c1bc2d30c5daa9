"""``python -m ikos.cli.demo_deployment``: a private sum between programs on this machine, at once.

It prints and runs commands of `ikos`, as different people would on their own machines.
"""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from ikos.cli.errors import Command
from ikos.cli.output import print_text, say
from ikos.cli.program import execute

NAME = "python -m ikos.cli.demo_deployment"
SHUFFLERS = 5
TASK = (
    "--users", "1000", "--min-honest", "900", "--lower", "0", "--upper", "1", "--integers",
    "--epsilon", "1", "--delta", "1e-6",
)  # fmt: skip
"""Five shuffled messages suffice."""


@click.command("ikos.cli.demo_deployment", cls=Command)
def command() -> None:
    """Run a private sum between an analyzer and five shufflers on this machine.

    944 respondents of the American National Election Study of 1996 said whom
    they would vote for. How many would vote for Bob Dole (1) rather than Bill
    Clinton (0)? They are 944 of 1,000 clients who may report. Their answers
    are public, so the true value is shown next to the estimate.
    """
    from ikos.data.datasets import anes96_path, load_anes96

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="ikos-parties-") as home, ExitStack() as stack:
        stack.callback(_leave_interrupts)
        folder = Path(home) / "task"
        analyzer, *shufflers = (f"http://127.0.0.1:{port}" for port in _free_ports())
        addresses = [word for address in shufflers for word in ("--shuffler", address)]
        _run("task", "new", "--output", folder, *TASK, "--analyzer", analyzer, *addresses)
        for name in ("analyzer", *(f"shuffler-{j + 1}" for j in range(SHUFFLERS))):
            started = subprocess.Popen(_words("serve", name.partition("-")[0], folder / name))
            stack.callback(_stop, started)
        _run("submit", folder / "clients", "--values", anes96_path(), "--column", "vote")
        _run("task", "release", folder / "operator")
    truth = load_anes96("vote").sum()
    print_text(["", f"True value, shown because these data are public: {truth:g}"])


def _words(*words: object) -> list[str]:
    """Print a command line of ikos, and return it."""
    say(f"$ {shlex.join(['ikos', *map(str, words)])}")
    return [sys.executable, "-m", "ikos", *map(str, words)]


def _run(*words: object) -> None:
    """Run a command; if it fails, so does this one, without a further message."""
    if status := subprocess.run(_words(*words), check=False).returncode:
        raise click.exceptions.Exit(status)


def _free_ports() -> list[int]:
    """Return a free port for each party."""
    with ExitStack() as open_ports:
        servers = (socket.create_server(("127.0.0.1", 0)) for _ in range(SHUFFLERS + 1))
        return [open_ports.enter_context(server).getsockname()[1] for server in servers]


def _leave_interrupts() -> None:
    """Ignore Ctrl-C from now on: at the end it would leave processes and files behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stop(program: subprocess.Popen[bytes]) -> None:
    _leave_interrupts()
    program.terminate()
    try:
        program.wait(10)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


if __name__ == "__main__":
    execute(command, NAME)
