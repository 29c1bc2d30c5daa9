"""What parties send each other in addition to shares: models of pydantic, and bytes as text."""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ikos._validation import quote
from ikos.results import SumResult


def encoded(data: bytes) -> str:
    """Return bytes in base64url without padding, as they stand in addresses and headers."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decoded(text: object, length: int, name: str = "") -> bytes:
    """Return this many bytes of base64url, of which each has one text.

    Raises
    ------
    ValueError
        If it is anything else. The text is not quoted: it may be a secret.
    """
    refused = f"{name} must be {length} bytes in base64url".lstrip()
    try:
        data = base64.b64decode(f"{text}{'=' * (-len(str(text)) % 4)}", b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(refused) from None
    if len(data) != length or encoded(data) != text:
        raise ValueError(refused)
    return data


def in_one_line(error: ValidationError) -> str:
    """Return the first thing that pydantic refuses: the field, what it must be, what it is."""
    first = error.errors(include_url=False)[0]
    name = "".join(f"[{one}]" if isinstance(one, int) else str(one) for one in first["loc"])
    if first["type"] == "missing":
        return f"{name} is missing"
    if first["type"].startswith(("extra", "unexpected")):
        return f"{name} is unknown"
    if first["type"] == "value_error":
        return f"{name} {first['ctx']['error']}".lstrip()
    words = re.sub(r"^\w+ should ", "must ", first["msg"].replace(" is not ", " should be ", 1))
    return f"{name} {words}, got {quote(first['input'])}"


class Message(BaseModel):
    """A message in JSON; what is not known of it is ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class Problem(Message):
    """Why a request is refused, as in RFC 9457."""

    type: str
    detail: str


class Agreement(Message):
    """The digest of the batch that a shuffler agreed to."""

    digest: str


class ShufflerStatus(Message):
    """What a shuffler tells anyone about a task."""

    task: str
    party: int
    state: Literal["collecting", "closed", "agreed", "sent", "deleted"]
    reports: int = Field(ge=0)
    opens: str
    closes: str


class ReleaseState(Message):
    """How far a release is; ``again``: seconds until the analyzer tries again, if it does."""

    running: bool = False
    step: str | None = None
    message: str | None = None
    again: int | None = None


class Result(Message):
    """A result as it is published.

    Attributes
    ----------
    estimate : float
        Of the sum.
    sum_low, sum_high : float or None
        The 95 % interval of the sum, where there is one.
    mean, standard_error : float
        The estimate of the mean, and the standard error of the sum.
    users : int
        Clients in the sum.
    epsilon, delta, theorem, conditions
        The guarantee to each client.
    text : str
        All of it, for people.
    """

    estimate: float
    sum_low: float | None
    sum_high: float | None
    mean: float
    standard_error: float
    users: int
    epsilon: float
    delta: float
    theorem: str
    conditions: list[str]
    text: str

    @classmethod
    def of(cls, result: SumResult) -> Result:
        """Return what is published of the result of a sum."""
        guarantee = result.guarantee
        interval: tuple[float, float] | tuple[None, None] = (None, None)
        with suppress(ValueError):  # the sum may have wrapped around: no interval at 95 %
            interval = result.interval(0.95)
        return cls(
            **{name: getattr(result, name) for name in ("estimate", "standard_error", "users")},
            **{name: getattr(guarantee, name) for name in ("epsilon", "delta", "theorem")},
            sum_low=interval[0],
            sum_high=interval[1],
            mean=result.mean(),
            conditions=list(guarantee.conditions),
            text=str(result),
        )


class AnalyzerStatus(Message):
    """What the analyzer tells anyone about a task.

    Attributes
    ----------
    task : str
        The task's name.
    party : int
        0.
    state : str
        ``collecting``, ``closed``, ``agreed``, ``stopped`` or ``released``.
    reports : int
        Clear shares that were accepted.
    opens, closes : str
        When reports are accepted.
    complete : int or None
        Complete reports, once it is known.
    release : ReleaseState
        How far the release is.
    result : Result or None
        What was released.
    missing : str or None
        After an order to close: which shufflers do not know it yet.
    """

    task: str
    party: Literal[0] = 0
    state: Literal["collecting", "closed", "agreed", "stopped", "released"]
    reports: int
    opens: str
    closes: str
    complete: int | None = None
    release: ReleaseState = ReleaseState()
    result: Result | None = None
    missing: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the status as ``--json`` prints it, without ``missing`` where nothing is."""
        found = self.model_dump()
        if self.missing is None:
            del found["missing"]
        return found
