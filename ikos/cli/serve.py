"""``ikos serve``: the programs of the parties of a sum."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from ikos.cli.errors import Command, Group
from ikos.cli.options import from_option, takes
from ikos.cli.types import FILE, FOLDER, POSITIVE, Whole

SHUFFLERS = """\
  ikos serve shuffler visits/shuffler-1 votes/shuffler-3 \\
      --host 127.0.0.1 --port 8443
"""
HELPERS = """\
  ikos serve helper visits/helper-1 --host 127.0.0.1 --port 8443
"""
RELAYS = """\
  ikos serve relay visits/relay-1 --host 127.0.0.1 --port 8443
"""
ANALYZER = """\
  ikos serve analyzer visits/analyzer --host 0.0.0.0 \\
      --certificate chain.pem --private-key key.pem
"""
EXAMPLES = "\b\nExamples\n"


@click.group("serve", cls=Group, epilog=EXAMPLES + SHUFFLERS + ANALYZER)
def command() -> None:
    """Run a shuffler, a helper, a relay or the analyzer of one or more tasks.

    The program runs until Ctrl-C or SIGTERM, and logs to standard error. 'ikos task new' creates
    the folders, which keep what a party collects: a party that was killed resumes when it is
    restarted.
    """


@dataclass(frozen=True, kw_only=True)
class ServeRequest:
    """Folders of one party of several tasks, and its settings: None for those not given."""

    folders: tuple[Path, ...]
    host: str | None = from_option(
        metavar="HOST", show_default="the task's, if on this machine", help="Host name or address "
        "to listen on; without a certificate, loopback only.")  # fmt: skip
    port: int | None = from_option(
        type=Whole(high=65535), show_default="the task's",
        help="Port to listen on; 0 for any free port.")  # fmt: skip
    certificate: Path | None = from_option(
        type=FILE,
        show_default="none: http, on this machine only",
        help="PEM file with the certificate and its chain.",
    )
    private_key: Path | None = from_option(
        type=FILE, help="PEM file with the private key of the certificate."
    )
    ca: Path | None
    rate: float | None = from_option(
        type=POSITIVE, show_default="5000", help="Maximum number of reports per second."
    )
    group_access: bool | None = from_option(
        is_flag=True, default=None, help="Accept secrets and folders that are accessible "
        "to their group, as some orchestrators create them, not only to their owner.")  # fmt: skip
    config: Path | None = from_option(
        type=FILE, help="TOML file with these settings; the command line takes precedence."
    )

    def run(self, serve: Callable[..., None]) -> None:
        """Serve the folders until a signal."""
        from ikos.deployment.settings import Listening

        settings = {
            name: value
            for name, value in asdict(self).items()
            if value is not None and name not in ("folders", "config")
        }
        serve(self.folders, Listening.read(self.config, settings))


def _party(role: str, examples: str, text: str) -> None:
    """Add the command of a role."""

    @command.command(role, cls=Command, epilog=EXAMPLES + examples, help=text)
    @click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", type=FOLDER)
    @takes(ServeRequest)
    def run(request: ServeRequest) -> None:
        # Until the server takes it, Ctrl-C ends the program at once, like SIGTERM: nothing has
        # begun by then. If it is ignored, in the background of a shell, it stays ignored.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        from ikos.deployment import server

        roles = {
            "shuffler": server.serve_shuffler,
            "helper": server.serve_helper,
            "relay": server.serve_relay,
            "analyzer": server.serve_analyzer,
        }
        request.run(roles[role])


_party(
    "shuffler",
    SHUFFLERS,
    """Run a shuffler for the tasks in the given folders.

    It collects the envelopes of one column of each task, which it cannot decrypt, and releases
    those of complete reports once, in an order that reveals nothing.
    """,
)
_party(
    "helper",
    HELPERS,
    """Run a helper for the tasks in the given folders.

    It collects a seed from each client, and releases the sum of the vectors that those of complete
    reports stand for, once, with its noise if the parties of the task add noise.
    """,
)
_party(
    "relay",
    RELAYS,
    """Run a relay for the tasks in the given folders.

    It collects an opening from each client, refuses those that do not fit the commitments that the
    analyzer has, and releases the sum of those of complete reports, once, with its signature.
    """,
)
_party(
    "analyzer",
    ANALYZER,
    """Run the analyzer of the tasks in the given folders.

    It collects its own parts of reports, and releases the sum on its operator's command. A browser
    at its address shows the state of all tasks.
    """,
)
