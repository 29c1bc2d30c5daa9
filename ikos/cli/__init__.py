"""The command line, ``ikos``: one module per command, or for several that do the same.

A command returns an `ikos.report.Report`, which goes to standard output at the end, as a whole;
warnings, errors and progress go to standard error. A mistake is answered by one line,
``ikos COMMAND: error: ...``, and exit status 2, Ctrl-C by a line and status 130, a check that
fails by status 1. Each key of the JSON object of ``--json`` is stated once, by a `Field` in its
module's ``KEYS`` or ``COLUMNS``: name, meaning, and where its value is.
"""

from __future__ import annotations

import os
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        from ikos.cli.program import commands, execute

        execute(commands, "ikos")
    except KeyboardInterrupt:  # while modules are imported, or another one at the end
        os.write(2, b"ikos: error: interrupted\n")
        os._exit(130)
