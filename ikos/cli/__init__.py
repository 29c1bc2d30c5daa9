"""The command line, ``ikos``: one module per command, or for several similar ones.

A command returns an `ikos.results.report.Report`, which is written to standard output at the end,
as a whole; all else goes to standard error. Each key of the JSON object of ``--json`` is stated
once, by a `Field` in its module's ``KEYS`` or ``COLUMNS``.
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
    except KeyboardInterrupt:  # while modules are imported, or a second one at the end
        os.write(2, b"ikos: error: interrupted\n")
        os._exit(130)
