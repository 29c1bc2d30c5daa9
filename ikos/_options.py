"""Keyword arguments that a function passes on to a protocol."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from ikos._validation import quote

__all__ = ["check_passed_on"]


def check_passed_on(
    caller: str, given: Mapping[str, object], taker: Callable[..., object], own: Mapping[str, str]
) -> None:
    """Refuse keyword arguments that are not passed on.

    Parameters
    ----------
    caller : str
        The function that was called.
    given : mapping
        What it does not name itself.
    taker : callable
        What it passes them to.
    own : mapping
        Names that it must not pass on, because it says itself what they are, and the reasons.

    Examples
    --------
    >>> check_passed_on("means", {"integers": True}, print, {"integers": "columns are scaled"})
    Traceback (most recent call last):
    ...
    TypeError: means() takes no integers (columns are scaled), got True
    """
    parameters = inspect.signature(taker).parameters.values()
    known = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.name not in own]
    for name, value in given.items():
        if name in own:
            raise TypeError(f"{caller}() takes no {name} ({own[name]}), got {quote(value)}")
        if name not in known:
            raise TypeError(
                f"{caller}() got an unexpected keyword argument {name!r}; it passes on "
                f"{', '.join(known)}"
            )
