"""Messages between parties, besides shares: pydantic models, and bytes as text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ikos._validation import InvalidValue, quote
from ikos.results.sums import Interval, SumResult

ID_BYTES = 16
"""Bytes of a report's id."""

SLOWEST = 1 << 14
"""Bytes per second of a long content, which may take a proportional time."""

SHOWN = 1000
"""Most ids of refused reports in a status; the analyzer's log has all of them."""

_FEW, _LONG = 4, 500  # most sentences of other parties that are shown, and characters of each

Numbers = float | list[float]


def _plain(numbers: Any) -> Numbers:
    """Return a number, or an array as a list."""
    plain: Numbers = np.asarray(numbers).tolist()
    return plain


def encoded(data: bytes) -> str:
    """Return bytes in base64url without padding, as in addresses and headers."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decoded(text: object, length: int, name: str = "") -> bytes:
    """Return bytes of this length from their only base64url encoding.

    A ValueError does not quote the text: it may be a secret.
    """
    wrong = f"{name} must be {length} bytes in base64url".lstrip()
    try:
        data = base64.urlsafe_b64decode(f"{text}{'=' * (-len(str(text)) % 4)}")
    except (binascii.Error, ValueError):
        raise ValueError(wrong) from None
    if len(data) != length or encoded(data) != text:  # or it holds other characters
        raise ValueError(wrong)
    return data


def refusal(error: ValidationError) -> InvalidValue:
    """Return pydantic's first error: the field, the requirement, and the value."""
    first = error.errors(include_url=False)[0]
    name = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"])[1:]
    if first["type"] == "missing":
        return InvalidValue(name, "is missing")
    if first["type"].startswith(("extra", "unexpected")):
        return InvalidValue(name, "is unknown")
    if first["type"] == "value_error":
        why = first["ctx"]["error"]
        return why if isinstance(why, InvalidValue) and not name else InvalidValue(name, str(why))
    words = re.sub(r"^\w+ should ", "must ", first["msg"].replace(" is not ", " should be ", 1))
    return InvalidValue(name, f"{words}, got {quote(first['input'])}")


def first_few(sentences: list[str]) -> list[str]:
    """Return other parties' sentences, long ones cut, and after the first few only their number."""
    shown = sentences
    if len(sentences) > _FEW:  # then the result is as long as those that stay as they are
        shown = [*sentences[: _FEW - 1], f"and {len(sentences) - _FEW + 1:,} more"]
    return [sentence[:_LONG] for sentence in shown]


class Problem(Exception):  # noqa: N818
    """Why a request is refused: the problem's name, and a text that reveals nothing private."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.name = name


class Message(BaseModel):
    """A message in JSON; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class ProblemDetails(Message):
    """Why a request is refused, as in RFC 9457."""

    type: str
    detail: str


class Agreement(Message):
    """The digest of the batch to which a shuffler agreed."""

    digest: str


class Schedule(Message):
    """A party's answer about a task: which of its ``windows`` is open, if any."""

    task: str
    party: int = 0
    windows: int
    open: int | None


class Status(Message):
    """A party's public status of a window; unreleased reports are deleted when it ``expires``.

    ``time`` is its clock, in seconds since 1970, and ``version`` its ikos.
    """

    task: str
    window: int
    party: int = 0
    reports: int = Field(ge=0)
    opens: str
    closes: str
    expires: str
    time: float = Field(0, ge=0, le=1e12)
    version: str = Field("of an earlier version", pattern="^[0-9A-Za-z.+-]{1,40}$")


class Peers(Message):
    """Why a party cannot reach shufflers: the first few reasons, and the number of others."""

    unreachable: list[str]


class ShufflerStatus(Status):
    """A shuffler's public status of a window."""

    state: Literal["collecting", "closed", "agreed", "sent", "deleted"]


class ReleaseState(Message):
    """A release's progress; ``again``: seconds until the analyzer retries, if it does."""

    running: bool = False
    step: str | None = None
    message: str | None = None
    again: int | None = None

    @property
    def words(self) -> str:
        """Its current step, or what hinders it, as text."""
        again = "" if self.again is None else f"; retries in {self.again} s"
        return (self.message or self.step or "") + again


class Result(Message):
    """A result as published, with its 95 % interval and guarantee; ``text`` is for people.

    For vectors, lists with a number for each coordinate, each with its own interval.
    """

    estimate: Numbers
    sum_low: Numbers
    sum_high: Numbers
    mean: Numbers
    standard_error: float
    users: int = Field(gt=0)
    epsilon: float
    delta: float
    theorem: str
    conditions: list[str]
    refused: int = Field(0, ge=0)
    text: str

    @classmethod
    def of(cls, result: SumResult) -> Result:
        """Return the published form of a sum's result."""
        guarantee, interval = result.guarantee, result.interval(0.95)
        return cls(
            estimate=_plain(result.estimate),
            sum_low=_plain(interval.low),
            sum_high=_plain(interval.high),
            mean=_plain(result.mean()),
            standard_error=result.standard_error,
            users=result.users,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            theorem=guarantee.theorem,
            conditions=list(map(str, guarantee.conditions)),
            refused=len(result.refused),
            text=str(result),
        )

    def rows(self, labels: Sequence[str]) -> Iterator[tuple[str, float, Interval]]:
        """Yield each coordinate's label or number ('' for a scalar), with its sum and interval."""
        numbers = (self.estimate, self.sum_low, self.sum_high)
        sums, low, high = (column if isinstance(column, list) else [column] for column in numbers)
        many = isinstance(self.estimate, list)
        names = labels or ([str(j) for j in range(len(sums))] if many else [""])
        yield from zip(names, sums, starmap(Interval, zip(low, high, strict=True)), strict=True)


class AnalyzerStatus(Status):
    """The analyzer's public status of a window.

    ``reports`` counts clear shares, ``complete`` complete reports, once their number is known,
    and ``refused`` those that were refused: ``refusals`` has the first `SHOWN` of their ids, each
    with the number of the party that refused it.
    After a command to close, ``missing`` names the shufflers not notified yet.
    """

    state: Literal["collecting", "closed", "agreed", "stopped", "released"]
    complete: int | None = None
    refused: int = Field(0, ge=0)
    refusals: dict[str, int] = Field({}, max_length=SHOWN)
    release: ReleaseState = ReleaseState()
    result: Result | None = None
    missing: str | None = None
