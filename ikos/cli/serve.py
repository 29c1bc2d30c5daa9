"""``ikos serve``: a shuffler or the analyzer of some tasks, until it is told to stop.

It logs to standard error; it prints no result, and so takes no ``--json``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ikos.cli.errors import Command, Group
from ikos.cli.options import option
from ikos.cli.types import FILE, FOLDER, Whole

EXAMPLES = {
    "shuffler": """\
  ikos serve shuffler visits/shuffler-1
  ikos serve shuffler visits/shuffler-1 votes/shuffler-3 \\
      --host 127.0.0.1 --port 8443
  ikos serve shuffler visits/shuffler-2 \\
      --config shuffler.toml
""",
    "analyzer": """\
  ikos serve analyzer visits/analyzer
  ikos serve analyzer visits/analyzer --host 0.0.0.0 \\
      --certificate chain.pem --private-key key.pem
""",
}
_EXAMPLES = "\b\nExamples\n"


@click.group("serve", cls=Group, epilog=_EXAMPLES + "".join(EXAMPLES.values()))
def command() -> None:
    """Run a party of one task or several, until Ctrl-C or SIGTERM.

    The folders are made by 'ikos task new', and keep what the party collects: a party that was
    killed resumes when it is restarted. It logs to standard error; there is no --json.
    """


def _party(role: str, about: str) -> None:
    """Add the command of a role."""

    @command.command(role, cls=Command, epilog=_EXAMPLES + EXAMPLES[role], help=about)
    @click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", type=FOLDER)
    @option(
        "--host",
        metavar="HOST",
        shown="from the task's address, if on this machine alone",
        help="Name or number to listen at; without a certificate on loopback only.",
    )
    @option(
        "--port",
        type=Whole(high=65535),
        shown="from the task's address",
        help="Port to listen at; 0 for any.",
    )
    @click.option("--certificate", type=FILE, help="PEM file with the certificate and its chain.")
    @click.option("--private-key", type=FILE, help="PEM file with the key of the certificate.")
    @option("--ca")
    @option(
        "--rate",
        type=click.FloatRange(0, 1e6, min_open=True),
        shown="5000",
        help="Most reports per second.",
    )
    @click.option(
        "--config", type=FILE, help="TOML file with these settings; options given here win."
    )
    def run(folders: tuple[Path, ...], config: Path | None, **given: Any) -> None:
        # Until the server takes it, Ctrl-C ends the program at once, like SIGTERM: nothing has
        # begun by then. If it is ignored, in the background of a shell, it stays ignored.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        from ikos.deployment import serve

        options = {name: value for name, value in given.items() if value is not None}
        start: Callable[..., None] = getattr(serve, f"serve_{role}")
        start(folders, serve.Listening.read(config, options))


_party(
    "shuffler",
    """Run the shuffler of the tasks in each FOLDER.

    It collects the envelopes of one column of each task, which it cannot open, and releases those
    of complete reports once, in an order that reveals nothing.
    """,
)
_party(
    "analyzer",
    """Run the analyzer of the tasks in each FOLDER.

    It collects the clear shares, and releases the sum on its operator's command. Its address shows
    the state of all tasks to a browser.
    """,
)
