"""The description of a task, which all parties share: immutable, identified by its hash."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from annotated_types import Len
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    FiniteFloat,
    InstanceOf,
    PlainSerializer,
    Strict,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass

from ikos._validation import integer, quote
from ikos.aggregation.private_sum import PrivateSum
from ikos.aggregation.shuffled_sum import collusion
from ikos.deployment.wire import decoded, encoded, in_one_line
from ikos.modular import Zq
from ikos.report import Field, Report
from ikos.results import Guarantee, at_least, present

VERSION: Final = "ikos-parties-1"
NONCE_BYTES = 16
KEY_BYTES = 32
LONGEST = 1 << 16
"""Largest number of characters of a description."""

MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_ADDRESS = re.compile(rf"https?://({_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?/?")
_LONGEST_HOST = 253
_NUMBERS = (
    "precision", "modulus", "min_honest", "lower", "upper", "integers", "corrupt_shufflers",
)  # fmt: skip

_PROMISED = ("min_honest", "corrupt_clients", "corrupt_shufflers")
_GUARANTEED = ("epsilon", "delta", "theorem", "conditions")
_ENCRYPTED = (
    "the encryption of the envelopes holds (HPKE with X25519, HKDF-SHA256 and AES-128-GCM) against "
    "all but the analyzer"
)
COLUMNS = [Field("name", "one of the keys", ""), Field("value", "that of the key", "value")]


class EnvelopedSum(PrivateSum):
    """`ikos.PrivateSum` whose analyzer may choose among the reports after seeing its own shares.

    So these hide nothing: the analyzer counts as one more colluding shuffler, beyond
    ``corrupt_shufflers``. docs/deployment.md proves that this suffices, as the honest shufflers
    release nothing before all of them agree to one choice (`ikos.deployment.shuffler`).
    """

    def __init__(
        self,
        n: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        corrupt_shufflers: int = 0,
        **options: Any,
    ) -> None:
        corrupt = integer("corrupt_shufflers", corrupt_shufflers, low=0)
        super().__init__(
            n, epsilon, delta, corrupt_shufflers=corrupt + 1, clear_share=False, **options
        )

    @property
    def corrupt_shufflers(self) -> int:
        """How many shufflers may collude with the analyzer, not counting the analyzer."""
        return self.trust.corrupt_shufflers - 1

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a proof assumes: who is honest and present."""
        return present(self.min_honest, self.n, adaptive=True), collusion(self.corrupt_shufflers)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each client."""
        found = super().guarantee
        return replace(found, conditions=(*found.conditions, _ENCRYPTED) if found.proved else ())


def on_loopback(host: str) -> bool:
    """Whether a host is this machine by its name or number alone."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _place(address: str) -> tuple[str, int]:
    """Return the host and port of an address, however it is written."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    # resolvers read 127.0x1 and the like as addresses too: only what names one plainly is taken
    if ":" in host or host.rpartition(".")[2][:1].isdecimal():
        host = str(ipaddress.ip_address(host))
    host = "localhost" if host in ("127.0.0.1", "::1") else host  # one machine
    return host, (443 if parts.scheme == "https" else 80) if parts.port is None else parts.port


def _address(value: str) -> str:
    """Return the address of a party, without a trailing slash: https, or http on loopback."""
    host, port = "", 0
    if _ADDRESS.fullmatch(value):
        with contextlib.suppress(ValueError):
            host, port = _place(value)
    if not port or len(host) > _LONGEST_HOST:
        raise ValueError(f"must be an address such as https://host:8443, got {quote(value)}")
    if value.startswith("http:") and not on_loopback(host):
        raise ValueError(
            f"must begin with https:// (http:// on this machine alone), got {quote(value)}"
        )
    return value.removesuffix("/")


def _ratio(text: str) -> Fraction:
    """Return the ratio in a text, without an exponent: 1e999999999 would take all memory."""
    if not re.fullmatch(r"[0-9]{1,2000}(/[0-9]{1,2000})?", text):
        raise ValueError
    return Fraction(text)


def _text(read: Callable[[str], Any]) -> BeforeValidator:
    """Let a field also be given as in JSON, as a text."""
    return BeforeValidator(lambda value: read(value) if isinstance(value, str) else value)


def _bytes(length: int) -> tuple[Any, ...]:
    read = _text(lambda text: decoded(text, length))
    return Strict(), Len(length, length), read, PlainSerializer(encoded)


Integer = Annotated[int, Strict()]
Address = Annotated[str, Strict(), AfterValidator(_address)]
Ratio = Annotated[InstanceOf[Fraction], _text(_ratio), PlainSerializer(str)]
Bound = Annotated[FiniteFloat, Strict(), _text(float.fromhex), PlainSerializer(float.hex)]
Moment = Annotated[
    AwareDatetime,
    AfterValidator(lambda moment: moment.astimezone(UTC).replace(microsecond=0)),
    PlainSerializer(lambda moment: f"{moment:{MOMENT}}"),
]
# JSON's numbers are doubles in many languages
Modulus = Annotated[int, Strict(), _text(int), PlainSerializer(str)]
Key = Annotated[bytes, *_bytes(KEY_BYTES)]
Nonce = Annotated[bytes, *_bytes(NONCE_BYTES)]


@dataclass(frozen=True)
class Task:
    """What the parties of one private sum agree on.

    Everything in it is public. Its hash is bound into every envelope, token and request, so that
    parties with different descriptions cannot communicate. `Task.new` chooses the numbers.

    Attributes
    ----------
    users, min_honest, corrupt_clients : int
        Clients that may take part; honest ones that the guarantee needs in a release; dishonest
        ones that it allows besides: nothing is released for fewer reports than both together.
    epsilon, delta : Fraction
        The guarantee of each client, under replacement of its value.
    lower, upper, integers : float, float, bool
        Public bounds on the values, and whether they are integers.
    corrupt_shufflers : int
        Number of shufflers that may collude with the analyzer.
    precision, modulus, messages : int
        As in `ikos.PrivateSum`; one message goes to the analyzer itself, in the clear.
    shufflers, analyzer, public_key : tuple of str, str, bytes
        Their addresses, a shuffler per shuffled message, and the analyzer's X25519 key.
    opens, closes : datetime
        When reports are accepted, in UTC to the second.
    nonce, parameters : bytes, str
        Random bytes; the protocol's ``parameter_hash``, which every party computes again.
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
    modulus: Modulus
    messages: Integer
    shufflers: tuple[Address, ...]
    analyzer: Address
    public_key: Key
    opens: Moment
    closes: Moment
    nonce: Nonce
    parameters: Annotated[str, Strict()]
    version: Literal["ikos-parties-1"] = VERSION

    def __post_init__(self) -> None:
        seen: dict[tuple[str, int], str] = {}
        for number, address in enumerate((self.analyzer, *self.shufflers)):
            name = f"shufflers[{number - 1}]" if number else "analyzer"
            other = seen.setdefault(_place(address), name)
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
        shufflers: Sequence[str] | None = None,
        analyzer: str | None = None,
        public_key: bytes | None = None,
        opens: datetime | None = None,
        closes: datetime | timedelta = timedelta(days=1),
        corrupt_clients: int = 0,
        **options: Any,
    ) -> Task:
        """Return a new task, with precision, modulus and messages chosen for it.

        Parameters
        ----------
        users, epsilon, delta, corrupt_clients
            As for a task.
        shufflers, analyzer, public_key
            More shufflers than the guarantee needs are all used. Without a key the task is a draft,
            which needs no addresses and cannot run: it gives the number of shufflers needed,
            ``columns``, and what they prove.
        opens, closes : datetime, datetime or timedelta
            Now by default; when, or how long after it opens.
        options
            ``lower``, ``upper``, ``integers``, ``min_honest``, ``corrupt_shufflers``, ``precision``
            and ``modulus``, as in `ikos.PrivateSum`.

        Examples
        --------
        >>> draft = Task.new(2000, 1, 1e-8, min_honest=1900, upper=7, integers=True)
        >>> draft.columns
        5
        """
        if isinstance(shufflers, str):
            raise TypeError(f"shufflers must be addresses, got {quote(shufflers)}")
        if public_key is not None and (shufflers is None or analyzer is None):
            raise ValueError("shufflers and analyzer must be given with public_key")
        if unknown := options.keys() - set(_NUMBERS):
            raise TypeError(f"{min(unknown)} is not an option of a task")
        needed = EnvelopedSum(users, epsilon, delta, **options)
        columns = needed.messages.total - 1
        if shufflers is None:
            shufflers = [f"https://shuffler-{j}.invalid" for j in range(1, columns + 1)]
        if len(shufflers) < columns:
            raise ValueError(
                f"shufflers must be at least {columns} addresses for epsilon = {quote(epsilon)}, "
                f"delta = {quote(delta)}, {needed.min_honest:,} honest users and "
                f"{needed.corrupt_shufflers} colluding shufflers, got {len(shufflers)}"
            )
        numbers = {name: getattr(needed, name) for name in _NUMBERS}
        messages = len(shufflers) + 1
        chosen = EnvelopedSum(users, epsilon, delta, messages=messages, **numbers)
        now = datetime.now(UTC)
        opens = opens or now
        try:
            made = cls(
                users=chosen.n,
                delta=Fraction(delta),
                corrupt_clients=corrupt_clients,
                messages=messages,
                shufflers=tuple(shufflers),
                analyzer=analyzer or "https://analyzer.invalid",
                public_key=public_key or bytes(KEY_BYTES),
                opens=opens,
                closes=opens + closes if isinstance(closes, timedelta) else closes,
                nonce=os.urandom(NONCE_BYTES),
                parameters=chosen.parameter_hash,
                epsilon=chosen.epsilon,
                **numbers,
            )
        except ValidationError as error:
            raise ValueError(in_one_line(error)) from None
        if made.closes <= now:
            raise ValueError(f"closes must be in the future, got {made.closes:{MOMENT}}")
        return made

    @cached_property
    def protocol(self) -> EnvelopedSum:
        """The protocol that clients and analyzer run, with its guarantee."""
        options = {name: getattr(self, name) for name in _NUMBERS}
        return EnvelopedSum(self.users, self.epsilon, self.delta, messages=self.messages, **options)

    @property
    def min_reports(self) -> int:
        """Number of complete reports that a release needs."""
        return self.min_honest + self.corrupt_clients

    @property
    def columns(self) -> int:
        """Number of shufflers, and of each client's shuffled messages."""
        return self.messages - 1

    @cached_property
    def share_bytes(self) -> int:
        """Bytes of a share, the same for all shares."""
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
        """The hash as in addresses, 43 characters."""
        return encoded(self.id)

    def to_json(self) -> str:
        """Return the description as canonical JSON: one line, keys in order, one text per task."""
        values = _ADAPTER.dump_python(self, mode="json")
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Task:
        """Return the task of a description; ValueError if it is not what `to_json` returns."""
        if len(text) > LONGEST:
            raise ValueError(f"a task must be at most {LONGEST} characters, got {len(text)}")
        try:
            values = json.loads(text)
            if values["version"] != VERSION:
                raise ValueError
            task = cls(**values)
        except ValidationError as error:
            raise ValueError(f"a task is refused: {in_one_line(error)}") from None
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
            raise ValueError(f"a task must be a JSON object of version {VERSION!r}") from None
        if task.to_json() != text.strip():
            raise ValueError("a task must be written as it was made, got another form of it")
        return task

    def summary(self) -> Report:
        """Return the choices and the guarantee, as a report for people and programs."""
        guarantee = self.protocol.guarantee
        shown = {
            "users": self.users,
            "min_reports": self.min_reports,
            "shuffled": self.columns,
            "lower": self.lower,
            "upper": self.upper,
            "integers": self.integers,
            "precision": self.precision,
            "modulus": str(self.modulus),
            "opens": self.opens.isoformat(),
            "closes": self.closes.isoformat(),
        }
        data: dict[str, Any] = {
            **shown,
            "task": self.name,
            "requested_delta": self.delta,
            "root_mse": self.protocol.mse**0.5,
            **{name: getattr(self, name) for name in _PROMISED},
            **{name: getattr(guarantee, name) for name in _GUARANTEED},
        }
        notes = [
            f"Guarantee: {guarantee}.",
            *(f"Condition: {condition}." for condition in guarantee.conditions),
            f"Nothing is released for fewer than {self.min_reports:,} complete reports, of which "
            f"{self.corrupt_clients:,} may be dishonest.",
            f"The root mean squared error of the sum is at most {at_least(data['root_mse'], 4)}.",
        ]
        rows = [{"name": name, "value": value} for name, value in shown.items()]
        return Report(f"Task {self.name}", COLUMNS, rows, notes, data)

    def explain(self) -> str:
        """Return `summary` as text."""
        return str(self.summary())


_ADAPTER = TypeAdapter(Task)
