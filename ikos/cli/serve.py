"""``ikos serve``: a shuffler or the analyzer of some tasks, until it is told to stop.

What it says are lines on standard error; it prints no result, and so takes no ``--json``.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command, Group
from ikos.cli.options import option
from ikos.cli.types import FILE, FOLDER, Decimal, Whole

if TYPE_CHECKING:
    from ikos.deployment.serve import Listening

EXAMPLES = """\b
Examples
  ikos serve shuffler visits/shuffler-1
  ikos serve analyzer visits/analyzer --host 0.0.0.0 \\
      --certificate chain.pem --private-key key.pem
  ikos serve shuffler visits/shuffler-2 \\
      --config shuffler.toml
"""

SHUFFLER_EXAMPLES = """\b
Examples
  ikos serve shuffler visits/shuffler-1
  ikos serve shuffler visits/shuffler-1 votes/shuffler-3 \\
      --host 127.0.0.1 --port 8443
"""

ANALYZER_EXAMPLES = """\b
Examples
  ikos serve analyzer visits/analyzer
  ikos serve analyzer visits/analyzer --host 0.0.0.0 \\
      --certificate chain.pem --private-key key.pem
"""


@click.group("serve", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Run a party of one task or several, until Ctrl-C or SIGTERM.

    The folders are made by 'ikos task new', and keep what the party
    collects: a party that was killed goes on when it is started again.
    Lines on standard error say what happens; there is nothing to print, and
    no --json.
    """


def _options(function: Callable[..., None]) -> Callable[..., None]:
    """Add what both parties take."""
    for decorator in reversed(
        (
            click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", type=FOLDER),
            option(
                "--host",
                metavar="HOST",
                shown="that of the address in the task, if on this machine alone",
                help="Name or number to listen at; without a certificate on loopback only.",
            ),
            option(
                "--port",
                type=Whole(high=65535),
                shown="that of the address in the task",
                help="Port to listen at; 0 for any.",
            ),
            option(
                "--certificate",
                type=FILE,
                metavar="FILE",
                help="PEM file with the certificate for TLS, and its chain.",
            ),
            option(
                "--private-key",
                type=FILE,
                metavar="FILE",
                help="PEM file with the private key of the certificate.",
            ),
            option("--ca"),
            option(
                "--rate",
                type=Decimal(above="0", high="1000000"),
                shown="5000",
                help="Reports a second at most.",
            ),
            option(
                "--config",
                type=FILE,
                metavar="FILE",
                help="TOML file with these settings; what is given here wins.",
            ),
        )
    ):
        function = decorator(function)
    return function


def _run(
    serve: Callable[[Sequence[Path], Listening], None],
    folders: Sequence[Path],
    config: Path | None,
    given: dict[str, Any],
) -> None:
    """Run a party with the settings of a file, and those that are given, which win."""
    from ikos.deployment.serve import Listening
    from ikos.deployment.settings import read_settings

    read = {} if config is None else read_settings(config)
    options = {name: value for name, value in given.items() if value is not None}
    settings = read | options
    if "rate" in settings:
        settings["rate"] = float(settings["rate"])
    try:
        serve(folders, Listening(**settings))
    except ValueError as error:
        if str(error) == "folders must be a shuffler's, got the analyzer's":
            from ikos.deployment.party_files import PartyConfig

            wrong = next(str(folder) for folder in folders if PartyConfig.read(folder).party == 0)
            raise ValueError(f"{wrong!r} must be a shuffler's, got the analyzer's") from None
        found = re.match(r"(\w+)(?: and (\w+))? must (?!be given)", str(error))
        names = set() if found is None else set(filter(None, found.groups()))
        if names & set(options) or not names & set(read):
            raise
        raise ValueError(f"{str(config)!r}: {error}") from None  # no option is to blame


def _let_signals_end() -> None:
    """Let Ctrl-C end the program at once until the server takes it, as SIGTERM does.

    Nothing is begun by then that a kill would harm; and an exception in the middle of an import
    may be taken for something else, or show a traceback.
    """
    # where it is ignored, in the background of a shell, it stays so
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@command.command("shuffler", cls=Command, epilog=SHUFFLER_EXAMPLES)
@_options
def shuffler(folders: tuple[Path, ...], config: Path | None, **given: Any) -> None:
    """Run the shuffler of the tasks in each FOLDER.

    It collects the envelopes of one column of each task, which it cannot
    open, and releases those of complete reports once, in an order that says
    nothing.
    """
    _let_signals_end()
    from ikos.deployment.serve import serve_shuffler

    _run(serve_shuffler, folders, config, given)


@command.command("analyzer", cls=Command, epilog=ANALYZER_EXAMPLES)
@_options
def analyzer(folders: tuple[Path, ...], config: Path | None, **given: Any) -> None:
    """Run the analyzer of the tasks in each FOLDER.

    It collects the clear shares, and releases the sum when its operator says
    so. Its address shows the state of all tasks to a browser.
    """
    _let_signals_end()
    from ikos.deployment.serve import serve_analyzer

    _run(serve_analyzer, folders, config, given)
