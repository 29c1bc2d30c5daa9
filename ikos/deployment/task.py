"""The description of a task, which all parties share: immutable, identified by its hash."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    HttpUrl,
    PlainValidator,
    Strict,
    ValidationError,
)
from pydantic.dataclasses import dataclass

from ikos._validation import integer, quote
from ikos.deployment.enveloped_sum import EnvelopedSum
from ikos.deployment.wire import decoded, encoded, in_one_line
from ikos.modular import Zq
from ikos.results import at_least

VERSION = "ikos-parties-1"
NONCE_BYTES = 16
KEY_BYTES = 32
LONGEST = 1 << 16
"""Characters of a description at most."""

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_LONGEST_HOST = 253
_SHOWN = "%Y-%m-%d %H:%M:%S"
_NUMBERS = (
    "precision", "modulus", "min_honest", "lower", "upper", "integers", "corrupt_shufflers",
)  # fmt: skip
MOMENT = "%Y-%m-%dT%H:%M:%SZ"

_T = TypeVar("_T")


def on_loopback(host: str) -> bool:
    """Whether a host is this machine by its name or number alone."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _address(value: str) -> str:
    """Return the address of a party, without a slash at its end: https, or http on loopback."""
    wanted = f"must be an address such as https://host:8443, got {quote(value)}"
    try:
        url, parts = HttpUrl(value), urlsplit(value)
    except ValueError:
        raise ValueError(wanted) from None
    plain = f"{url.scheme}://{parts.netloc}"
    # nothing but scheme, host and port; and a host as it is looked up, not one that is rewritten
    host, known = parts.hostname or "", (url.host or "").strip("[]")
    with contextlib.suppress(ValueError):
        host = str(ipaddress.ip_address(host))
    odd = "@" in parts.netloc or parts.netloc.endswith((":", " ")) or len(host) > _LONGEST_HOST
    odd = odd or host != known
    if ":" not in host:  # else a number in brackets
        odd = odd or not all(map(_LABEL.fullmatch, host.split(".")))
    if odd or not url.port or value not in (plain, plain + "/"):
        raise ValueError(wanted)
    if url.scheme == "http" and not on_loopback(host):
        raise ValueError(
            f"must begin with https:// (http:// on this machine alone), got {quote(value)}"
        )
    return plain


def _socket(address: str) -> tuple[str, int]:
    """Return where a party listens, the same for all ways to write it."""
    url = HttpUrl(address)
    # a server at localhost listens at both
    host = "localhost" if url.host in ("127.0.0.1", "[::1]") else str(url.host)
    return host, url.port or 0


def _moment(value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.strptime(value, MOMENT).replace(tzinfo=UTC)
        except ValueError:
            raise ValueError(
                f"must be a time such as 2026-01-31T12:00:00Z, got {quote(value)}"
            ) from None
    if not isinstance(value, datetime):
        raise ValueError(f"must be a time, got {quote(value)}")  # noqa: TRY004 (pydantic's)
    if value.tzinfo is None:
        raise ValueError(f"must have a time zone, got {quote(value)}")
    return value.astimezone(UTC).replace(microsecond=0)


def _ratio(text: str) -> Fraction:
    if not re.fullmatch(r"[0-9]{1,2000}(/[0-9]{1,2000})?", text):  # no exponent: 1e999999999
        raise ValueError(f"must be a ratio of integers, got {quote(text)}")
    return Fraction(text)


def _from_text(kind: type[_T], read: Callable[[str], _T]) -> PlainValidator:
    """Let a part be of a type, or the text that stands for it in JSON."""

    def check(value: object) -> _T:
        if isinstance(value, str):
            try:
                value = read(value)
            except (OverflowError, ZeroDivisionError) as error:
                raise ValueError(f"is out of range: {error}") from None
        if type(value) is not kind:
            raise ValueError(f"must be a text, got {quote(value)}")
        return value

    return PlainValidator(check)


def _bytes(length: int) -> PlainValidator:
    def check(value: object) -> bytes:
        if isinstance(value, str):
            return decoded(value, length)
        if not isinstance(value, bytes) or len(value) != length:
            raise ValueError(f"must be {length} bytes, got {quote(value)}")
        return value

    return PlainValidator(check)


Integer = Annotated[int, Strict()]
Text = Annotated[str, Strict()]
Address = Annotated[str, Strict(), AfterValidator(_address)]
Ratio = Annotated[Fraction, _from_text(Fraction, _ratio)]
Bound = Annotated[float, _from_text(float, float.fromhex)]


@dataclass(frozen=True, config=ConfigDict(arbitrary_types_allowed=True))
class Task:
    """What the parties of one private sum agree on.

    Everything in it is public. Its hash is bound into every envelope, token and request, so that
    parties with different descriptions cannot talk to each other. `Task.new` chooses the numbers.

    Attributes
    ----------
    users : int
        Clients that may take part.
    min_honest : int
        Honest clients that the guarantee needs in what is released.
    epsilon, delta : Fraction
        The guarantee for each client, under replacement of its value.
    lower, upper : float
        Public bounds of the values.
    integers : bool
        Whether values are integers.
    corrupt_clients : int
        Dishonest clients that the guarantee allows: nothing is released for fewer complete reports
        than `min_reports`, which counts these too.
    corrupt_shufflers : int
        Shufflers that may collude with the analyzer.
    precision, modulus, messages : int
        As of `ikos.PrivateSum`; one of the messages is for the analyzer itself, in the clear.
    shufflers : tuple of str
        Their addresses, one for each shuffled message.
    analyzer : str
        Its address.
    public_key : bytes
        The analyzer's X25519 key, to which shares are encrypted.
    opens, closes : datetime
        From when to when reports are accepted, in UTC to the second.
    nonce : bytes
        Random: no two tasks are the same.
    parameters : str
        The protocol's ``parameter_hash``: parties whose library would compute anything else refuse.

    Raises
    ------
    ValueError
        If a part is not what it should be, or the guarantee is not proved for the numbers.
    """

    users: Integer
    min_honest: Integer
    epsilon: Ratio
    delta: Ratio
    lower: Bound
    upper: Bound
    integers: Annotated[bool, Strict()]
    corrupt_clients: Integer
    corrupt_shufflers: Integer
    precision: Integer
    modulus: Annotated[int, _from_text(int, int)]
    messages: Integer
    shufflers: tuple[Address, ...]
    analyzer: Address
    public_key: Annotated[bytes, _bytes(KEY_BYTES)]
    opens: Annotated[datetime, BeforeValidator(_moment)]
    closes: Annotated[datetime, BeforeValidator(_moment)]
    nonce: Annotated[bytes, _bytes(NONCE_BYTES)]
    parameters: Text

    def __post_init__(self) -> None:
        seen: dict[tuple[str, int], str] = {}
        for number, address in enumerate((self.analyzer, *self.shufflers)):
            name = f"shufflers[{number - 1}]" if number else "analyzer"
            other = seen.setdefault(_socket(address), name)
            if other != name:
                raise ValueError(
                    "shufflers must have different addresses, none of them the analyzer's, "
                    f"got one place for {other} and {name}: {quote(address)}"
                )
        if self.closes <= self.opens:
            raise ValueError(
                f"closes must be later than opens, got {self.closes:{MOMENT}} "
                f"and {self.opens:{MOMENT}}"
            )
        protocol = self.protocol
        integer("corrupt_clients", self.corrupt_clients, low=0, high=self.users - self.min_honest)
        if len(self.shufflers) != self.columns:
            raise ValueError(
                f"shufflers must be {self.columns} addresses, one for each shuffled message, "
                f"got {len(self.shufflers)}"
            )
        if not protocol.guarantee.proved or protocol.guarantee.delta > self.delta:
            raise ValueError(
                f"messages must be enough for delta = {quote(self.delta)}, got "
                f"{self.messages}: they prove {at_least(protocol.guarantee.delta, 6)}"
            )
        if protocol.parameter_hash != self.parameters:
            raise ValueError(
                "parameters of the task are not those that this version of ikos computes from its "
                "numbers: all parties need the same version"
            )

    @classmethod
    def new(
        cls,
        users: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        shufflers: Sequence[str],
        analyzer: str,
        public_key: bytes,
        opens: datetime,
        closes: datetime,
        lower: float = 0.0,
        upper: float = 1.0,
        integers: bool = False,
        min_honest: int | None = None,
        corrupt_clients: int = 0,
        corrupt_shufflers: int = 0,
        precision: int | None = None,
        modulus: int | None = None,
    ) -> Task:
        """Return a new task, with precision, modulus and messages chosen for it.

        More shufflers than the guarantee needs are used; fewer are refused.
        """
        if isinstance(shufflers, str):
            raise TypeError(f"shufflers must be addresses, got {quote(shufflers)}")
        options: dict[str, Any] = {
            "lower": lower, "upper": upper, "integers": integers, "min_honest": min_honest,
            "corrupt_shufflers": corrupt_shufflers,
        }  # fmt: skip
        needed = EnvelopedSum(
            users, epsilon, delta, precision=precision, modulus=modulus, **options
        )
        columns = needed.messages.total - 1
        if len(shufflers) < columns:
            raise ValueError(
                f"shufflers must be at least {columns} addresses for epsilon = {quote(epsilon)}, "
                f"delta = {quote(delta)} and {needed.min_honest:,} honest users"
                f"{f', {corrupt_shufflers} shufflers colluding' if corrupt_shufflers else ''}, "
                f"got {len(shufflers)}"
            )
        chosen = EnvelopedSum(
            users, epsilon, delta, precision=needed.precision, modulus=needed.modulus,
            messages=len(shufflers) + 1, **options,
        )  # fmt: skip
        try:
            return cls(
                users=chosen.n,
                delta=Fraction(delta),
                corrupt_clients=corrupt_clients,
                messages=len(shufflers) + 1,
                shufflers=tuple(shufflers),
                analyzer=analyzer,
                public_key=public_key,
                opens=opens,
                closes=closes,
                nonce=os.urandom(NONCE_BYTES),
                parameters=chosen.parameter_hash,
                epsilon=chosen.epsilon,
                **{name: getattr(chosen, name) for name in _NUMBERS},
            )
        except ValidationError as error:
            raise ValueError(in_one_line(error)) from None

    @cached_property
    def protocol(self) -> EnvelopedSum:
        """The protocol that clients and analyzer run, which has the guarantee."""
        options = {name: getattr(self, name) for name in _NUMBERS}
        return EnvelopedSum(self.users, self.epsilon, self.delta, messages=self.messages, **options)

    @property
    def min_reports(self) -> int:
        """Complete reports that a release needs."""
        return self.min_honest + self.corrupt_clients

    @property
    def columns(self) -> int:
        """Shuffled messages of each client, and shufflers."""
        return self.messages - 1

    @cached_property
    def share_bytes(self) -> int:
        """Bytes of a share, the same for all."""
        return (Zq(self.modulus).bits + 7) // 8

    def address(self, party: int) -> str:
        """Return the address of a party: 0 for the analyzer, j for shuffler j, from 1 on."""
        integer("party", party, low=0, high=self.columns)
        return self.analyzer if party == 0 else self.shufflers[party - 1]

    @cached_property
    def id(self) -> bytes:
        """SHA-256 of the description."""
        return hashlib.sha256(self.to_json().encode()).digest()

    @property
    def name(self) -> str:
        """The hash as it stands in addresses: 43 characters."""
        return encoded(self.id)

    def to_json(self) -> str:
        """Return the description as canonical JSON: one line, keys in order, one text for each."""
        values: dict[str, Any] = {"version": VERSION}
        for field in fields(self):
            value = getattr(self, field.name)
            match value:
                case bytes():
                    value = encoded(value)
                case datetime():
                    value = value.strftime(MOMENT)
                case float():
                    value = value.hex()
                case Fraction():
                    value = str(value)
            # JSON's numbers are doubles in many languages
            values[field.name] = str(value) if field.name == "modulus" else value
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Task:
        """Return the task of a description, checked in every part.

        Raises
        ------
        TypeError
            If it is no text.
        ValueError
            If it is not what `to_json` returns for some task.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, got {type(text).__name__}")
        if len(text) > LONGEST:
            raise ValueError(f"a task must be at most {LONGEST} characters, got {len(text)}")
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):  # too many brackets
            raise ValueError("a task must be JSON, got something else") from None
        if not isinstance(values, dict) or values.pop("version", None) != VERSION:
            raise ValueError(f"a task must be a JSON object of version {VERSION!r}")
        try:
            task = cls(**values)
        except ValidationError as error:
            raise ValueError(f"a task is refused: {in_one_line(error)}") from None
        except (TypeError, OverflowError) as error:
            raise ValueError(f"a task has a part of the wrong kind: {error}") from None
        if task.to_json() != text.strip():
            raise ValueError("a task must be written as it was made, got another form of it")
        return task

    def explain(self) -> str:
        """Return what was chosen and why, in lines for people."""
        protocol = self.protocol
        kind = "integers" if self.integers else "numbers"
        steps = "" if self.integers else f", rounded to {self.precision:,} steps"
        return "\n".join(
            (
                f"task        {self.name}",
                f"guarantee   {protocol.guarantee}",
                *(f"            {condition}" for condition in protocol.guarantee.conditions),
                f"clients     at most {self.users:,}; nothing is released for fewer than "
                f"{self.min_reports:,}, of whom {self.corrupt_clients:,} may be dishonest",
                f"values      {kind} from {self.lower:g} to {self.upper:g}{steps}",
                f"modulus     {self.modulus}, {Zq(self.modulus).bits} bits: the noisy sum has room",
                f"messages    {self.columns} to a shuffler each, 1 in the clear to the analyzer",
                f"error       {at_least(protocol.mse**0.5, 4)} "
                "(sum of all, root mean square, at most)",
                f"open        {self.opens:{_SHOWN}} to {self.closes:{_SHOWN}} UTC",
            )
        )
