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
import sys
import threading
import time
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
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _dropped
    from ikos.cli.program import commands, execute

    try:
        execute(commands, "ikos")
    except KeyboardInterrupt:  # in the midst of what is said about another one
        end_at_once()


def end_at_once(*_: object) -> NoReturn:
    """End the program at Ctrl-C, while nothing has begun: no command that could say more."""
    with suppress(OSError):
        os.write(2, b"ikos: error: interrupted\n")
    os._exit(130)


_SOON = 0.01  # seconds in which the callback that dropped an interrupt has surely returned


def _dropped(unraisable: Any) -> None:
    """Let an interrupt that Python drops come again, a moment later.

    It drops what is raised in a callback of its own, such as that of a lock of an import; the
    program would go on as if nobody had pressed Ctrl-C.
    """
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    threading.Thread(target=_interrupt_again, daemon=True).start()


def _interrupt_again() -> None:
    time.sleep(_SOON)
    main_thread = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main_thread is not None:
        signal.pthread_kill(main_thread, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


def __getattr__(name: str) -> Any:
    """Import `ikos.cli.program` for what it defines."""
    if name in ("COMMANDS", "commands", "execute"):
        from ikos.cli import program

        return getattr(program, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
