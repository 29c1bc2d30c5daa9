"""Keyword arguments that a function passes on to a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypedDict

from ikos._validation import quote


class SumOptions(TypedDict, total=False):
    """Those of `ikos.PrivateSum` that go with everything."""

    precision: int | None
    modulus: int | None
    messages: int | None
    analysis: str
    shuffler: str
    clear_share: bool
    min_honest: int | None
    corrupt_shufflers: int
    reserve: float | Fraction


class MeanOptions(SumOptions, total=False):
    """Those of `ikos.PrivateSum` that go with values within bounds."""

    integers: bool


class VectorSumOptions(SumOptions, total=False):
    """Those of `ikos.vectors.PrivateVectorSum` that go with columns."""

    layout: str
    releases: int


def check_passed_on(
    caller: str, given: Mapping[str, object], allowed: type, own: Mapping[str, str]
) -> None:
    """Refuse keyword arguments that are not passed on.

    Parameters
    ----------
    caller : str
        The function that was called.
    given : mapping
        What it does not name itself.
    allowed : type
        Which it passes on, the keys of a `TypedDict`.
    own : mapping
        Names that it must not pass on, because it says itself what they are, and the reasons.

    Examples
    --------
    >>> check_passed_on("means", {"integers": True}, SumOptions, {"integers": "columns are scaled"})
    Traceback (most recent call last):
    ...
    TypeError: means() takes no integers (columns are scaled), got True
    """
    known = allowed.__annotations__
    for name, value in given.items():
        if name in own:
            raise TypeError(f"{caller}() takes no {name} ({own[name]}), got {quote(value)}")
        if name not in known:
            raise TypeError(
                f"{caller}() got an unexpected keyword argument {name!r}; it passes on "
                f"{', '.join(known)}"
            )
