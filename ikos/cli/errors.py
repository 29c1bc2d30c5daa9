"""From exceptions to one line in the words of the command line."""

from __future__ import annotations

import re
import signal
import threading
from typing import Any

import click

__all__ = [
    "Command",
    "Interrupted",
    "Quiet",
    "in_options",
    "leave_interrupts",
    "one_line",
    "problem",
]

MISTAKES = (ValueError, TypeError, ArithmeticError, MemoryError, ImportError, OSError)
"""What the library raises for arguments and data; anything else is a bug and shows itself."""

_OPTIONS = {
    "n": "--users", "m": "--messages", "q": "--modulus", "shufflers": "--shuffler",
    "patience": "--wait",
}  # fmt: skip
_OPTIONS |= {
    name: "--" + name.replace("_", "-")
    for name in (
        "analysis", "analyzer", "backend", "bound", "ca", "certificate", "closes", "column",
        "confidence", "config", "corrupt_clients",
        "corrupt_shufflers", "delimiter", "delta", "dimension", "epsilon", "host",
        "largest", "lower", "max_delta", "max_epsilon", "messages", "min_honest", "modulus",
        "opens", "output", "planted",
        "port", "precision", "radius", "rate", "reserve", "runs", "scheduler", "seed", "shuffler",
        "sigma", "sizes", "sparsity",
        "store", "threads", "trials", "upper", "users", "value", "workers",
    )
}  # fmt: skip


_EXTRAS = {
    "httpx": "parties", "starlette": "parties", "uvicorn": "parties",
    "cryptography.hazmat.primitives.hpke": "parties",
}  # fmt: skip
"""Modules that a fresh installation may lack, where the library does not say it itself."""


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C, in a form that click does not meddle with.

    Parameters
    ----------
    said : str, optional
        The line to be printed; a general one by default.
    """

    def __init__(self, said: str | None = None) -> None:
        super().__init__(said)
        self.said = said


class Quiet(Exception):  # noqa: N818
    """The end of the program without a word."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Command(click.Command):
    """A command whose mistakes become usage errors."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with what the library refuses as a usage error."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None
        except MISTAKES as error:
            raise click.UsageError(problem(error), ctx) from None


def leave_interrupts() -> None:
    """Let nothing interrupt the program any more: it is about to say its last, and to end."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def problem(error: BaseException) -> str:
    """Return what an exception of the library says, in the words of the command line."""
    if isinstance(error, MemoryError):
        return "not enough memory for this"
    if isinstance(error, ImportError) and error.name in _EXTRAS:
        extra = _EXTRAS[error.name]
        return f"this needs the extra {extra!r}: pip install 'ikos[{extra}]'"
    if isinstance(error, OSError) and error.filename is not None:
        reason = (error.strerror or "an error").lower()
        return f"{str(error.filename)!r} cannot be read: {reason}"
    if isinstance(error, OSError):  # no file's, so a stream's
        return f"cannot write the output: {(error.strerror or 'output error').lower()}"
    if isinstance(error, OverflowError):
        return "a number is too large or too small to compute with"
    return in_options(str(error)) or type(error).__name__


def in_options(message: str) -> str:
    """Return a message of the library with its parameters named as options."""
    message = re.sub(
        r"^(\w+)(?:\[\d+\])?(?= must )", lambda match: _OPTIONS.get(match[1], match[0]), message
    )
    message = re.sub(
        r"^(host|certificate) and (port|private_key)(?= must )",
        lambda match: f"--{match[1]} and --{match[2].replace('_', '-')}",
        message,
    )
    message = re.sub(r"^n \* m(?= must )", "--users * --messages", message)
    message = re.sub(
        r"\bclear_share=(True|False)",
        lambda match: "--clear-share" if match[1] == "True" else "--no-clear-share",
        message,
    )
    message = re.sub(r"""\b(analysis|shuffler)=["'](\w+)["']""", r"--\1 \2", message)
    message = message.replace("integers=True", "--integers")
    message = message.replace("--shuffler single, --no", "--shuffler single --no")
    return re.sub(r"\bor give precision=", "or give --precision", message)


def one_line(error: click.ClickException) -> str:
    """Return click's message as one line that goes on from ``error:``."""
    message = " ".join(error.format_message().split()).removesuffix(".")
    for start in ("Invalid value", "Missing", "No such", "Got unexpected", "Option", "Error"):
        if message.startswith(start):
            return message[0].lower() + message[1:]
    return message
