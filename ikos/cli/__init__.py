"""The command line, ``ikos``: one module per command.

Results go to standard output, all at once at the end, so that nothing is half-printed; warnings,
errors and progress to standard error. A mistake is answered by one line,
``ikos COMMAND: error: ...``, and exit status 2; an interruption by a line and status 130; a check
that fails by status 1. Each command takes ``--json`` and documents the object that it prints in
its module.

Here is only what runs before anything takes time to be imported.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ikos.cli.program import COMMANDS, commands, execute

__all__ = ["COMMANDS", "commands", "end_at_once", "execute", "main"]


def main() -> NoReturn:
    """Run the command line and exit."""
    with suppress(ValueError):  # not the main thread's to say
        # where it is ignored, in the background of a shell, it stays so
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, end_at_once)
    from ikos.cli.program import commands, execute

    execute(commands, "ikos")


def end_at_once(*_: object) -> NoReturn:
    """End the program at Ctrl-C, while nothing has begun: no command that could say more."""
    with suppress(OSError):
        os.write(2, b"ikos: error: interrupted\n")
    os._exit(130)


def __getattr__(name: str) -> Any:
    """Import `ikos.cli.program` for what it defines."""
    if name in ("COMMANDS", "commands", "execute"):
        from ikos.cli import program

        return getattr(program, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
