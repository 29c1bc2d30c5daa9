"""The description of a task, which all parties share: one immutable object, told by its hash."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from ikos._validation import integer, quote
from ikos.deployment.enveloped_sum import EnvelopedSum
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
_MOMENT = "%Y-%m-%dT%H:%M:%SZ"


def encoded(data: bytes) -> str:
    """Return bytes in base64url without padding, as they stand in addresses and headers."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decoded(name: str, text: object, length: int) -> bytes:
    """Return so many bytes of base64url; there is one text for each.

    Raises
    ------
    ValueError
        If it is anything else. The text is not quoted: it may be a secret.
    """
    refused = f"{name} must be {length} bytes in base64url"
    if not isinstance(text, str):
        raise ValueError(refused)  # noqa: TRY004 (one answer to whoever sends this)
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(refused) from None
    if len(data) != length or encoded(data) != text:
        raise ValueError(refused)
    return data


def moment(name: str, value: object) -> datetime:
    """Return a time in UTC to the second, from a datetime with a zone or a text such as its own."""
    if isinstance(value, str):
        try:
            value = datetime.strptime(value, _MOMENT).replace(tzinfo=UTC)
        except ValueError:
            raise ValueError(
                f"{name} must be a time such as 2026-01-31T12:00:00Z, got {quote(value)}"
            ) from None
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be a datetime, got {quote(value)}")
    if value.tzinfo is None:
        raise ValueError(f"{name} must have a time zone, got {quote(value)}")
    return value.astimezone(UTC).replace(microsecond=0)


def on_loopback(host: str) -> bool:
    """Whether a host is this machine by its name or number alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address(name: str, value: object) -> str:
    """Check and return the address of a party: https, or http on this machine."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be an address, got {quote(value)}")
    got = f"got {quote(value)}"
    wanted = f"{name} must be an address such as https://host:8443, {got}"
    try:
        parts = urlsplit(value)
    except ValueError:
        raise ValueError(wanted) from None
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"{name} must have a port from 1 to 65535, {got}")
    if parts.scheme in ("https", "http") and not value.startswith(parts.scheme):
        raise ValueError(f"{name} must begin with {parts.scheme}:// in small letters, {got}")
    host, plain = parts.hostname, f"{parts.scheme}://{parts.netloc}"
    odd = parts.username is not None or parts.netloc.endswith(":")
    if not host or odd or value not in (plain, plain + "/"):
        raise ValueError(wanted)
    if not _is_host(host):
        raise ValueError(
            f"{name} must have a host of letters, digits and hyphens between dots, or a number of "
            f"the network's, {got}"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and on_loopback(host)):
        raise ValueError(f"{name} must begin with https:// (http:// on this machine alone), {got}")
    return plain


def _is_host(host: str) -> bool:
    """Whether a host can be one: a number, or a name of labels such as DNS has."""
    try:
        return bool(ipaddress.ip_address(host)) and "%" not in host
    except ValueError:
        labels = host.split(".")
    # a name that ends in digits would be taken for a number
    right = all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit()
    return right and len(host) <= _LONGEST_HOST


def _socket(address: str) -> tuple[str, int]:
    """Return where a party listens, the same for all that can be written for it."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    with contextlib.suppress(ValueError):
        host = str(ipaddress.ip_address(host))
    if host in ("127.0.0.1", "::1"):  # a server at localhost listens at both
        host = "localhost"
    return host, parts.port or (443 if parts.scheme == "https" else 80)


def _different(addresses: Sequence[str]) -> None:
    """Refuse two parties at one place; the first address is the analyzer's."""
    seen: dict[tuple[str, int], str] = {}
    for number, address in enumerate(addresses):
        name = "analyzer" if number == 0 else f"shufflers[{number - 1}]"
        other = seen.setdefault(_socket(address), name)
        if other != name:
            raise ValueError(
                "shufflers must have different addresses, none of them the analyzer's, "
                f"got one place for {other} and {name}: {quote(address)}"
            )


@dataclass(frozen=True)
class Task:
    """What the parties of one private sum agree on.

    Everything in it is public. Its hash is bound into every envelope, token and request, so that
    parties with different descriptions cannot talk to each other. `Task.new` chooses the numbers.

    Attributes
    ----------
    users : int
        Clients that may take part.
    min_honest : int
        Honest clients in what is released, on whom the guarantee counts.
    epsilon, delta : Fraction
        The guarantee for each client, under replacement of its value.
    lower, upper : float
        Public bounds of the values.
    integers : bool
        Whether values are integers.
    corrupt_clients : int
        The guarantee holds while no more of the clients in it are dishonest: programs count
        reports, and cannot tell. Nothing is released for fewer complete reports than `min_reports`.
    corrupt_shufflers : int
        The guarantee holds while no more of the shufflers collude with the analyzer.
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
    TypeError, ValueError
        If a part is not what it should be, or the guarantee is not proved for the numbers.
    """

    users: int
    min_honest: int
    epsilon: Fraction
    delta: Fraction
    lower: float
    upper: float
    integers: bool
    corrupt_clients: int
    corrupt_shufflers: int
    precision: int
    modulus: int
    messages: int
    shufflers: tuple[str, ...]
    analyzer: str
    public_key: bytes
    opens: datetime
    closes: datetime
    nonce: bytes
    parameters: str

    def __post_init__(self) -> None:
        addresses = [_address("analyzer", self.analyzer)]
        addresses += [_address(f"shufflers[{i}]", s) for i, s in enumerate(self.shufflers)]
        _different(addresses)
        set_ = object.__setattr__
        set_(self, "analyzer", addresses[0])
        set_(self, "shufflers", tuple(addresses[1:]))
        for name, length in (("public_key", KEY_BYTES), ("nonce", NONCE_BYTES)):
            value = getattr(self, name)
            if not isinstance(value, bytes) or len(value) != length:
                raise ValueError(f"{name} must be {length} bytes, got {quote(value)}")
        for name in ("opens", "closes"):
            set_(self, name, moment(name, getattr(self, name)))
        if self.closes <= self.opens:
            raise ValueError(
                f"closes must be later than opens, got {self.closes.strftime(_MOMENT)} "
                f"and {self.opens.strftime(_MOMENT)}"
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
        if isinstance(shufflers, str) or not all(isinstance(one, str) for one in shufflers):
            raise TypeError(f"shufflers must be addresses, got {quote(shufflers)}")
        needed = EnvelopedSum(
            users, epsilon, delta, lower=lower, upper=upper, integers=integers,
            min_honest=min_honest, corrupt_shufflers=corrupt_shufflers, precision=precision,
            modulus=modulus,
        )  # fmt: skip
        columns = needed.messages.total - 1
        if len(shufflers) < columns:
            raise ValueError(
                f"shufflers must be at least {columns} addresses for epsilon = {quote(epsilon)}, "
                f"delta = {quote(delta)} and {needed.min_honest:,} honest users"
                f"{f', {corrupt_shufflers} shufflers colluding' if corrupt_shufflers else ''}, "
                f"got {len(shufflers)}"
            )
        chosen = EnvelopedSum(
            users, epsilon, delta, lower=lower, upper=upper, integers=integers,
            min_honest=min_honest, corrupt_shufflers=corrupt_shufflers,
            precision=needed.precision, modulus=needed.modulus, messages=len(shufflers) + 1,
        )  # fmt: skip
        return cls(
            users=chosen.n,
            min_honest=chosen.min_honest,
            epsilon=chosen.epsilon,
            delta=Fraction(delta),
            lower=chosen.lower,
            upper=chosen.upper,
            integers=chosen.integers,
            corrupt_clients=integer("corrupt_clients", corrupt_clients),
            corrupt_shufflers=chosen.corrupt_shufflers,
            precision=chosen.precision,
            modulus=chosen.modulus,
            messages=len(shufflers) + 1,
            shufflers=tuple(shufflers),
            analyzer=analyzer,
            public_key=public_key,
            opens=opens,
            closes=closes,
            nonce=os.urandom(NONCE_BYTES),
            parameters=chosen.parameter_hash,
        )

    @cached_property
    def protocol(self) -> EnvelopedSum:
        """The protocol that clients and analyzer run, and what its guarantee rests on."""
        return EnvelopedSum(
            self.users, self.epsilon, self.delta, precision=self.precision, modulus=self.modulus,
            messages=self.messages, min_honest=self.min_honest, lower=self.lower, upper=self.upper,
            integers=self.integers, corrupt_shufflers=self.corrupt_shufflers,
        )  # fmt: skip

    @property
    def min_reports(self) -> int:
        """Complete reports without which nothing is released."""
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
            if isinstance(value, bytes):
                value = encoded(value)
            elif isinstance(value, datetime):
                value = value.strftime(_MOMENT)
            elif isinstance(value, float):
                value = value.hex()
            elif isinstance(value, Fraction) or field.name == "modulus":
                value = str(value)  # JSON's numbers are doubles in many languages
            values[field.name] = list(value) if isinstance(value, tuple) else value
        return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

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
        except (ValueError, RecursionError):  # brackets without end
            raise ValueError("a task must be JSON, got something else") from None
        if not isinstance(values, dict):
            raise ValueError("a task must be a JSON object")  # noqa: TRY004
        if values.get("version") != VERSION:
            raise ValueError(
                f"version of the task must be {VERSION!r}, got {quote(values.get('version'))}"
            )
        names = {field.name for field in fields(cls)}
        if set(values) != names | {"version"}:
            odd = sorted((names | {"version"}) ^ set(values))
            raise ValueError(f"a task must have its parts and no others: look at {odd[0]!r}")
        try:
            task = cls(**_read(values))
        except (TypeError, KeyError, OverflowError, ZeroDivisionError) as error:
            raise ValueError(f"a task has a part of the wrong kind: {error}") from None
        if task.to_json() != text.strip():
            raise ValueError("a task must be written as it was made, got another form of it")
        return task

    def explain(self) -> str:
        """Return what was chosen and why, in lines for people."""
        protocol = self.protocol
        error = at_least(protocol.mse**0.5, 4)
        return "\n".join(
            (
                f"task        {self.name}",
                f"guarantee   {protocol.guarantee}",
                *(f"            {condition}" for condition in protocol.guarantee.conditions),
                f"clients     at most {self.users:,}; nothing is released for fewer than "
                f"{self.min_reports:,}, of whom {self.corrupt_clients:,} may be dishonest",
                f"values      {values_in_words(self)}",
                f"modulus     {self.modulus}, {Zq(self.modulus).bits} bits: the noisy sum has room",
                f"messages    {self.columns} to a shuffler each, 1 in the clear to the analyzer",
                f"error       {error} (sum of all, root mean square, at most)",
                f"open        {self.opens:{_SHOWN}} to {self.closes:{_SHOWN}} UTC",
            )
        )


def values_in_words(task: Task) -> str:
    """Return what the values are, and to what they are rounded."""
    bounds = f"from {task.lower:g} to {task.upper:g}"
    if task.integers:
        return f"integers {bounds}"
    return f"numbers {bounds}, rounded to {task.precision:,} step{'s' * (task.precision != 1)}"


_COUNTS = (
    "users", "min_honest", "corrupt_clients", "corrupt_shufflers", "precision", "messages",
)  # fmt: skip
_RATIO = re.compile(r"[0-9]{1,2000}(/[0-9]{1,2000})?")


def _read(values: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a description in their types."""
    read = {name: value for name, value in values.items() if name != "version"}
    for name in _COUNTS:
        if type(read[name]) is not int:  # nothing else that counts as one: a task has one form
            raise TypeError(f"{name} must be an integer, got {quote(read[name])}")
    for name in ("epsilon", "delta"):
        ratio = _text(name, read[name])
        if not _RATIO.fullmatch(ratio):  # an exponent may stand for endless digits
            raise ValueError(f"{name} must be a ratio of integers, got {quote(ratio)}")
        read[name] = Fraction(ratio)
    for name in ("lower", "upper"):
        read[name] = float.fromhex(_text(name, read[name]))
    read["modulus"] = int(_text("modulus", read["modulus"]))
    read["public_key"] = decoded("public_key", read["public_key"], KEY_BYTES)
    read["nonce"] = decoded("nonce", read["nonce"], NONCE_BYTES)
    for name in ("opens", "closes"):
        read[name] = moment(name, _text(name, read[name]))
    if not isinstance(read["shufflers"], list):
        raise TypeError("shufflers must be a list of addresses")
    read["shufflers"] = tuple(read["shufflers"])
    return read


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, got {quote(value)}")
    return value
