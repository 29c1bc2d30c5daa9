"""Command lines: what tests that run them have in common."""

from __future__ import annotations

MANY = ("--protocol", "--shuffler")
"""Options that can be given many times, by some commands."""


def once(*words):
    """Return a command line in which the last value of an option is the only one."""
    line, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        if str(word).startswith("--") and word in line and word not in MANY:
            line[line.index(word) + 1] = rest.pop(0)
        else:
            line.append(word)
    return line
