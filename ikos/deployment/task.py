"""The description of a task, which all parties share: immutable, identified by its hash."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import math
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import numpy as np
from annotated_types import Len
from numpy.typing import ArrayLike, NDArray
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    InstanceOf,
    PlainSerializer,
    Strict,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass

from ikos._validation import InvalidType, InvalidValue, integer, quote, text_of
from ikos.counts.vectors import Layout, checked_layout, least_bytes, sums_of
from ikos.data.domains import Ball, Bounds, Box, Categories, CategoryLabels, Domain
from ikos.deployment.opening import HYBRID, KEMS, TAG_BYTES, X25519, best_kem
from ikos.deployment.wire import decoded, encoded, refusal
from ikos.noise.skellam import SkellamNoise
from ikos.results.conditions import Condition, Kind, collusion, present
from ikos.results.guarantees import Guarantee
from ikos.results.report import Field, Report, is_printable
from ikos.results.sums import at_least
from ikos.sums.private import PrivateAggregation, PrivateSum, PrivateVectorSum

VERSION: Final = "ikos-parties-2"
NONCE_BYTES = 16
LONGEST = 1 << 20
"""Largest number of characters of a description."""

MAX_WINDOWS = 10_000
MAX_BATCH = 10**9
"""Bytes of a shuffler's batch, which is one value in the analyzer's store."""

ENVELOPE_SECONDS, COORDINATE_SECONDS = {X25519: 65e-6, HYBRID: 100e-6}, 0.5e-6
"""What one core takes in a release, measured (documentation, Load): to fetch, open and add up an
envelope, and for each coordinate in it."""

MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_ADDRESS = re.compile(rf"https?://({_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?/?")
_LONGEST_HOST = 253
_NUMBERS = ("precision", "modulus", "min_honest", "corrupt_shufflers")
_DOMAINS = {"number": Bounds, "box": Box, "ball": Ball, "categories": Categories}
_KINDS = {kind: name for name, kind in _DOMAINS.items()}

_PROMISED = ("min_honest", "corrupt_clients", "corrupt_shufflers")
_GUARANTEED = ("epsilon", "delta", "theorem", "conditions")
_ENCRYPTED = (
    "the encryption of the envelopes holds (HPKE with {}, HKDF-SHA256 and AES-128-GCM) against all "
    "but the analyzer"
)
COLUMNS = [Field("name", "one of the keys", ""), Field("value", "that of the key", "value")]


class _Enveloped(PrivateAggregation):
    """A private sum whose analyzer may choose among the reports after seeing its own shares.

    So these hide nothing: the analyzer counts as one more colluding shuffler, beyond
    ``corrupt_shufflers``. docs/deployment.md proves that this suffices, as the honest shufflers
    release nothing before all of them agree to one choice (`ikos.deployment.shuffler`).
    """

    def __init__(
        self, *given: Any, corrupt_shufflers: int = 0, kem: str = X25519, **options: Any
    ) -> None:
        self.kem = kem
        corrupt = integer("corrupt_shufflers", corrupt_shufflers, low=0)
        options |= {"corrupt_shufflers": corrupt + 1, "clear_share": False}
        super().__init__(*given, **options)

    @property
    def corrupt_shufflers(self) -> int:
        """How many shufflers may collude with the analyzer, not counting the analyzer."""
        return self.trust.corrupt_shufflers - 1

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What a proof assumes: who is honest and present."""
        return present(self.min_honest, self.n, adaptive=True), collusion(self.corrupt_shufflers)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee of each client."""
        found = super().guarantee
        encrypted = Condition(Kind.CRYPTOGRAPHY, _ENCRYPTED.format(KEMS[self.kem].words))
        return replace(found, conditions=(*found.conditions, encrypted) if found.proved else ())


class EnvelopedSum(_Enveloped, PrivateSum):
    """A private sum of numbers between parties."""


class EnvelopedVectorSum(_Enveloped, PrivateVectorSum):
    """A private sum of vectors between parties."""


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


def _label(text: str) -> str:
    """Return a label: one that controls a terminal could show another result than was released."""
    if not is_printable(text):
        raise ValueError(f"must be printable, got {quote(text)}")
    return text


def _ratio(text: str) -> Fraction:
    """Return the ratio in a text, without an exponent: 1e999999999 would take all memory."""
    if not re.fullmatch(r"[0-9]{1,2000}(/[0-9]{1,2000})?", text):
        raise ValueError
    return Fraction(text)


def _text(read: Callable[[str], Any]) -> BeforeValidator:
    """Let a field also be given as in JSON, as a text."""
    return BeforeValidator(lambda value: read(value) if isinstance(value, str) else value)


def _domain(given: object) -> object:
    """Return a domain, also from its form in JSON: its kind and its parameters."""
    if not isinstance(given, dict):
        return given
    try:
        kind, parameters = _DOMAINS[given["kind"]], {**given}
        del parameters["kind"]
        return kind(**{
            name: float.fromhex(value) if isinstance(value, str) else value
            for name, value in parameters.items()
        })  # fmt: skip
    except (TypeError, LookupError, OverflowError):
        raise ValueError(f"must be a domain's kind and parameters, got {quote(given)}") from None


def _domain_text(domain: Domain) -> dict[str, Any]:
    """Return a domain as in JSON, with bounds that are exact."""
    found = {one.name: getattr(domain, one.name) for one in fields(domain)}  # type: ignore[arg-type]
    exact = {name: x.hex() if isinstance(x, float) else x for name, x in found.items()}
    return {"kind": _KINDS[type(domain)], **exact}


Integer = Annotated[int, Strict()]
Values = Annotated[InstanceOf[Domain], BeforeValidator(_domain), PlainSerializer(_domain_text)]
Label = Annotated[str, Strict(), Len(1, 100), AfterValidator(_label)]
Address = Annotated[str, Strict(), AfterValidator(_address)]
Ratio = Annotated[InstanceOf[Fraction], _text(_ratio), PlainSerializer(str)]
Moment = Annotated[
    AwareDatetime,
    AfterValidator(lambda moment: moment.astimezone(UTC).replace(microsecond=0)),
    PlainSerializer(lambda moment: f"{moment:{MOMENT}}"),
]
# JSON's numbers are doubles in many languages
Modulus = Annotated[int, Strict(), _text(int), PlainSerializer(str)]
Noise = tuple[Literal["laplace", "skellam"], Ratio]
Bytes = Annotated[
    bytes, Strict(), _text(lambda text: decoded(text, len(text) * 3 // 4)), PlainSerializer(encoded)
]
Nonce = Annotated[Bytes, Len(NONCE_BYTES, NONCE_BYTES)]


@dataclass(frozen=True)
class Task:
    """What the parties of a private sum agree on: of numbers, or of vectors.

    Everything in it is public. Its hash is bound into every envelope, token and request, so that
    parties with different descriptions cannot communicate. `Task.new` chooses the numbers.

    Attributes
    ----------
    users, min_honest, corrupt_clients : int
        Clients that may take part; honest ones that the guarantee needs in a release; dishonest
        ones that it allows besides: nothing is released for fewer reports than both together.
    epsilon, delta : Fraction
        The guarantee of each client, under replacement of its value.
    domain, integers : Domain, bool
        Where values lie: `ikos.data.domains.Bounds` for numbers, or a `Box`, `Ball` or
        `Categories`; and whether those of bounds or a box are integers.
    labels : tuple of str
        Names of the coordinates of vectors, such as the categories of a histogram; or none.
    corrupt_shufflers : int
        Number of shufflers that may collude with the analyzer.
    precision, modulus, messages : int
        As in `ikos.PrivateSum` and `ikos.PrivateVectorSum`; one message of each block goes
        to the analyzer itself, in the clear.
    block_length : int
        Coordinates whose shares are in one envelope; the last block may be shorter.
    shufflers, analyzer : tuple of str, str
        Their addresses, a shuffler per shuffled message.
    kem, public_keys : str, tuple of bytes
        How envelopes are encrypted, ``"mlkem768-x25519"`` or ``"x25519"``; the analyzer's keys, of
        which it erases the private ones as windows are over. Key k of K is that of the windows w,
        of W, with floor(w K / W) = k.
    opens, period, windows : datetime, int, int
        When the first window opens, in UTC to the second; the seconds for which each is open; how
        many there are, one after the other. Each has its own reports and its own result.
    noise : (str, Fraction)
        That of a coordinate of a sum over ``min_honest`` clients: ("laplace", rate) or ("skellam",
        variance). It follows from the other numbers, for clients that cannot compute it.
    nonce, parameters : bytes, str
        Random bytes; the protocol's ``parameter_hash``, which every party computes again.
    """

    users: Integer
    min_honest: Integer
    epsilon: Ratio
    delta: Ratio
    domain: Values
    integers: Annotated[bool, Strict()]
    labels: tuple[Label, ...]
    corrupt_clients: Integer
    corrupt_shufflers: Integer
    precision: Integer
    modulus: Modulus
    block_length: Integer
    messages: Integer
    noise: Noise
    shufflers: tuple[Address, ...]
    analyzer: Address
    kem: Literal["mlkem768-x25519", "x25519"]
    public_keys: tuple[Bytes, ...]
    opens: Moment
    period: Integer
    windows: Integer
    nonce: Nonce
    parameters: Annotated[str, Strict()]
    version: Literal["ikos-parties-2"] = VERSION

    def __post_init__(self) -> None:
        seen: dict[tuple[str, int], str] = {}
        for number, address in enumerate((self.analyzer, *self.shufflers)):
            name = f"shufflers[{number - 1}]" if number else "analyzer"
            other = seen.setdefault(_place(address), name)
            if other != name:
                raise InvalidValue(
                    "shufflers",
                    "must have different addresses, none of them the analyzer's, "
                    f"got one place for {other} and {name}: {quote(address)}",
                )
        integer("windows", self.windows, low=1, high=MAX_WINDOWS)
        integer("period", self.period, low=1)
        try:
            _ = self.closes
        except OverflowError:
            raise InvalidValue(
                "period", f"must end before the year 10000, got {self.period}"
            ) from None
        length = KEMS[self.kem].public
        if {len(key) for key in self.public_keys} != {length}:
            raise InvalidValue("public_keys", f"must be of {length} bytes for kem = {self.kem!r}")
        if len(set(self.public_keys)) < len(self.public_keys):
            raise InvalidValue("public_keys", "must be different")
        integer("keys", len(self.public_keys), low=1, high=self.windows)
        integer("block_length", self.block_length, low=1, high=self.domain.dimension)
        protocol = self.protocol
        if self.labels and len(set(self.labels)) != self.domain.dimension:
            raise InvalidValue(
                "labels",
                f"must be {self.domain.dimension} different ones, one for each coordinate, "
                f"got {quote(self.labels)}",
            )
        _ = self._places  # which refuses labels that are the same number
        if self.users * self.envelope_bytes > MAX_BATCH:
            raise InvalidValue(
                "users",
                f"must be at most {MAX_BATCH // self.envelope_bytes} where a client sends "
                f"each shuffler {self.envelope_bytes} bytes, got {self.users}: a batch is at "
                f"most {MAX_BATCH} bytes",
            )
        if (length := len(self.to_json())) > LONGEST:
            raise InvalidValue(
                "windows",
                f"must have fewer keys, or fewer labels: the description is {length} "
                f"characters, and must be at most {LONGEST}",
            )
        integer("corrupt_clients", self.corrupt_clients, low=0, high=self.users - self.min_honest)
        if len(self.shufflers) != self.columns:
            raise InvalidValue(
                "shufflers",
                f"must be {self.columns} addresses, one for each shuffled message, "
                f"got {len(self.shufflers)}",
            )
        if not protocol.guarantee.proved or protocol.guarantee.delta > self.delta:
            raise InvalidValue(
                "messages",
                f"must be enough for delta = {quote(self.delta)}, got "
                f"{self.messages}: they prove {at_least(protocol.guarantee.delta, 6)}",
            )
        if (protocol.parameter_hash, _noise(protocol)) != (self.parameters, self.noise):
            raise ValueError(
                "parameters and noise of the task are not those that this version of ikos computes "
                "from its numbers: all parties need the same version"
            )

    @classmethod
    def new(
        cls,
        users: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        domain: Domain | None = None,
        lower: float = 0.0,
        upper: float = 1.0,
        labels: Sequence[str] = (),
        layout: str | int = "separate",
        shufflers: Sequence[str] | None = None,
        analyzer: str | None = None,
        kem: str | None = None,
        public_keys: Sequence[bytes] = (),
        keys: int | None = None,
        opens: datetime | None = None,
        closes: datetime | timedelta = timedelta(days=1),
        windows: int = 1,
        corrupt_clients: int = 0,
        **options: Any,
    ) -> Task:
        """Return a new task, with precision, modulus and messages chosen for it.

        Parameters
        ----------
        users, epsilon, delta, corrupt_clients, labels, windows
            As for a task.
        domain : Domain, optional
            Of vectors. By default, values are numbers between ``lower`` and ``upper``.
        layout : {"separate", "group", "blocks"} or int
            Coordinates in an envelope: 1, all, the best number, or a given one. "blocks" are as few
            as the ``shufflers`` prove; without these, those that take the fewest bytes.
        shufflers, analyzer, public_keys
            More shufflers than the guarantee needs are all used. Without keys the task is a draft,
            which needs no addresses and cannot run: it gives the number of shufflers needed,
            ``columns``, and what they prove.
        keys
            Number of keys of a draft, by default one for each window.
        kem
            That of the keys. By default the hybrid of ML-KEM-768 and X25519, if this machine's
            ``cryptography`` has it (from version 48 on); otherwise X25519.
        opens, closes : datetime, datetime or timedelta
            When the first window opens, now by default; when it closes, or how long each is open.
        options
            ``integers``, ``min_honest``, ``corrupt_shufflers``, ``precision`` and ``modulus``, as
            in `ikos.PrivateSum`.

        Examples
        --------
        >>> draft = Task.new(2000, 1, 1e-8, min_honest=1900, upper=7, integers=True)
        >>> draft.columns
        5
        >>> from ikos import Categories
        >>> votes = Categories([3])
        >>> draft = Task.new(2000, 1, 1e-8, domain=votes, labels=["yes", "no", "unknown"])
        >>> draft.columns, draft.blocks, draft.part_bytes(1)
        (6, (1, 1, 1), 3414)
        """
        if isinstance(shufflers, str):
            raise InvalidType("shufflers", f"must be addresses, got {quote(shufflers)}")
        if public_keys and (shufflers is None or analyzer is None):
            raise InvalidValue("shufflers and analyzer", "must be given with public_keys")
        kem = kem or best_kem()
        count = integer("keys", windows if keys is None else keys, low=1, high=MAX_WINDOWS)
        drafted = tuple(number.to_bytes(KEMS[kem].public) for number in range(count))
        if unknown := options.keys() - {*_NUMBERS, "integers"}:
            raise TypeError(f"{min(unknown)} is not an option of a task")
        values = Bounds(lower, upper) if domain is None else domain
        length = checked_layout(layout, values.dimension, None)
        made_of = partial(_protocol, users, values, epsilon, delta, kem=kem)
        if not length:
            given = None if shufflers is None else len(shufflers)
            length = _best_length(partial(made_of, **options), values.dimension, given, kem)
        needed = made_of(length, **options)
        columns = needed.layout.count.total - 1
        if shufflers is None:
            shufflers = [f"https://shuffler-{j}.invalid" for j in range(1, columns + 1)]
        if len(shufflers) < columns:
            raise InvalidValue(
                "shufflers",
                f"must be at least {columns} addresses for epsilon = {quote(epsilon)}, "
                f"delta = {quote(delta)}, {needed.min_honest:,} honest users and "
                f"{needed.corrupt_shufflers} colluding shufflers, got {len(shufflers)}",
            )
        numbers = {name: getattr(needed, name) for name in _NUMBERS}
        numbers["integers"] = needed.encoding.exact
        messages = len(shufflers) + 1
        chosen = made_of(length, messages=messages, **numbers)
        now = datetime.now(UTC)
        opens = opens or now
        period = closes if isinstance(closes, timedelta) else closes - opens
        if period <= timedelta():
            start, end = (one.astimezone(UTC) for one in (max(opens, now), opens + period))
            raise InvalidValue("closes", f"must be later than {start:{MOMENT}}, got {end:{MOMENT}}")
        try:
            made = cls(
                users=chosen.n,
                delta=Fraction(delta),
                domain=values,
                labels=tuple(labels),
                block_length=length,
                corrupt_clients=corrupt_clients,
                messages=messages,
                shufflers=tuple(shufflers),
                analyzer=analyzer or "https://analyzer.invalid",
                kem=kem,  # type: ignore[arg-type]
                public_keys=tuple(public_keys) or drafted,
                opens=opens,
                period=math.ceil(period.total_seconds()),
                windows=windows,
                nonce=os.urandom(NONCE_BYTES),
                parameters=chosen.parameter_hash,
                noise=_noise(chosen),
                epsilon=chosen.epsilon,
                **numbers,
            )
        except ValidationError as error:
            raise refusal(error) from None
        if made.closes <= now:
            raise InvalidValue("closes", f"must be in the future, got {made.closes:{MOMENT}}")
        return made

    @cached_property
    def protocol(self) -> EnvelopedSum | EnvelopedVectorSum:
        """The protocol that clients and analyzer run, with its guarantee."""
        options = {name: getattr(self, name) for name in (*_NUMBERS, "integers", "kem")}
        budget = (self.epsilon, self.delta)
        return _protocol(
            self.users, self.domain, *budget, self.block_length, messages=self.messages, **options
        )

    @property
    def closes(self) -> datetime:
        """When the last window closes."""
        return self.opens + self.windows * timedelta(seconds=self.period)

    def at(self, number: int) -> Window:
        """Return a window, from 0 on."""
        return Window(self, integer("window", number, low=0, high=self.windows - 1))

    def current(self, now: datetime) -> Window:
        """Return the window that is open; before all of them the first, after them the last."""
        passed = (now - self.opens) // timedelta(seconds=self.period)
        return self.at(min(max(0, passed), self.windows - 1))

    def windows_of(self, key: int) -> range:
        """Return the windows of a key, one after the other."""
        keys, windows = len(self.public_keys), self.windows
        return range(-(-key * windows // keys), -(-(key + 1) * windows // keys))

    @property
    def min_reports(self) -> int:
        """Number of complete reports that a release needs."""
        return self.min_honest + self.corrupt_clients

    @property
    def columns(self) -> int:
        """Number of shufflers, and of each client's shuffled messages."""
        return self.messages - 1

    @cached_property
    def width(self) -> int:
        """Bytes of one coordinate of a share."""
        return (self.protocol.group.bits + 7) // 8

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The coordinates of each block, whose shares are in one envelope; 1 for numbers."""
        return tuple(part.stop - part.start for part in self.protocol.blocks)

    def block_bytes(self, block: int) -> int:
        """Return the bytes of each envelope of a block."""
        return KEMS[self.kem].sealed + self.width * self.blocks[block] + TAG_BYTES

    @cached_property
    def envelope_bytes(self) -> int:
        """Bytes of a client's envelopes for one shuffler."""
        return sum(map(self.block_bytes, range(len(self.blocks))))

    def part_bytes(self, party: int) -> int:
        """Return the bytes that a client sends to a party: envelopes, or the clear share."""
        return self.envelope_bytes if party else self.width * self.domain.dimension

    @cached_property
    def _places(self) -> CategoryLabels | None:
        """Find values among the labels of categories; other domains have none."""
        known = isinstance(self.domain, Categories) and self.labels
        return CategoryLabels("labels", self.labels) if known else None

    def values(self, x: ArrayLike, first: int = 0) -> NDArray[Any]:
        """Return some clients' values as the protocol takes them; labels become vectors.

        TypeError or ValueError for one that the task does not allow, by its place from ``first``.
        """
        given = x if isinstance(x, np.ndarray) else np.asarray(x, dtype=object)
        if self._places is None or given.ndim != 1:
            return self.protocol.checked(x, first)
        places = self._places.places(list(map(text_of, given)))
        if (wrong := places < 0).any():
            row = int(np.argmax(wrong))
            lost = ", not missing" * bool(places[row] == CategoryLabels.MISSING)
            raise InvalidValue(
                f"x[{first + row}]",
                f"must be one of the labels {quote(self.labels)}{lost}",
                row=first + row,
            )
        rows = np.zeros((given.size, len(self.labels)), np.uint8)
        rows[np.arange(given.size), places] = 1
        return self.protocol.checked(rows, first)

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
            raise ValueError(f"a task is refused: {refusal(error)}") from None
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
            raise ValueError(f"a task must be a JSON object of version {VERSION!r}") from None
        if task.to_json() != text.strip():
            raise ValueError("a task must be written as it was made, got another form of it")
        return task

    @property
    def release_seconds(self) -> float:
        """What one core takes to release a window with all clients' reports, about."""
        dimension, envelopes = self.domain.dimension, len(self.blocks)
        each = envelopes * ENVELOPE_SECONDS[self.kem] + dimension * COORDINATE_SECONDS
        return self.users * self.columns * each

    def summary(self) -> Report:
        """Return the choices and the guarantee, as a report for people and programs."""
        guarantee = self.protocol.guarantee
        shown = {
            "users": self.users,
            "min_reports": self.min_reports,
            "shuffled": self.columns,
            "domain": words_of(self.domain),
            "block_length": self.block_length,
            "blocks": len(self.blocks),
            "kem": self.kem,
            "keys": len(self.public_keys),
            "messages": self.columns * len(self.blocks) + 1,
            "bytes_per_client": sum(map(self.part_bytes, range(self.messages))),
            "bytes_per_shuffler": self.users * self.envelope_bytes,
            "release_seconds": float(f"{self.release_seconds:.2g}"),
            "integers": self.integers,
            "precision": self.precision,
            "modulus": str(self.modulus),
            "opens": self.opens.isoformat(),
            "closes": self.closes.isoformat(),
            "windows": self.windows,
        }
        data: dict[str, Any] = {
            **shown,
            "task": self.name,
            "requested_delta": self.delta,
            "root_mse": self.protocol.mse**0.5,
            **{name: getattr(self, name) for name in _PROMISED},
            **{name: getattr(guarantee, name) for name in _GUARANTEED},
        }
        dimension = self.domain.dimension
        notes = [
            f"A client sends each of {self.columns:,} shufflers {len(self.blocks):,} envelopes, "
            f"{self.envelope_bytes:,} bytes, and {data['bytes_per_client']:,} bytes in all. A "
            f"release takes one core about {data['release_seconds']:,.9g} s if all clients report.",
            f"Guarantee: {guarantee}.",
            *(f"Condition: {condition}." for condition in guarantee.conditions),
            f"Nothing is released for fewer than {self.min_reports:,} complete reports, of which "
            f"{self.corrupt_clients:,} may be dishonest.",
            "The root mean squared error of the sum"
            + f" (of all {dimension:,} coordinates together)" * (dimension > 1)
            + f" is at most {at_least(data['root_mse'], 4)}.",
        ]
        if self.windows > 1:
            notes.append(
                f"Each of {self.windows:,} windows of {timedelta(seconds=self.period)} has its own "
                "result, and spends this budget again on those who report in it."
            )
        rows = [{"name": name, "value": value} for name, value in shown.items()]
        return Report(f"Task {self.name}", COLUMNS, rows, notes, data)

    def explain(self) -> str:
        """Return `summary` as text."""
        return str(self.summary())


def words_of(domain: Domain) -> str:
    """Return a domain as in a list of values."""
    text = ", ".join(f"{one.name} {getattr(domain, one.name)}" for one in fields(domain))  # type: ignore[arg-type]
    return f"{_KINDS[type(domain)]}: {text}"


def _protocol(
    users: int,
    domain: Domain,
    epsilon: float | Fraction,
    delta: float | Fraction,
    block_length: int,
    **options: Any,
) -> EnvelopedSum | EnvelopedVectorSum:
    """Return the private sum of values of a domain, between parties."""
    if isinstance(domain, Bounds):
        options |= {"lower": domain.lower, "upper": domain.upper}
        return EnvelopedSum(users, epsilon, delta, **options)
    return EnvelopedVectorSum(users, domain, epsilon, delta, layout=block_length, **options)


def _best_length(
    made: Callable[[int], EnvelopedSum | EnvelopedVectorSum],
    dimension: int,
    shufflers: int | None,
    kem: str,
) -> int:
    """Return the length of the fewest blocks for so many shufflers, or of the fewest bytes."""

    def shortest(length: int) -> int:
        """Return that of as many blocks: longer ones take as many bytes, and prove less."""
        return -(-dimension // sums_of(dimension, length))

    if shufflers is not None:
        lengths = sorted(set(map(shortest, range(1, dimension + 1))))
        fitting = bisect_right(lengths, shufflers + 1, key=lambda b: made(b).layout.count.total)
        return lengths[max(0, fitting - 1)]
    made = cache(made)

    def sealed(length: int) -> Layout:
        """Return what goes to shufflers, in whole bytes; the rest is the same for all lengths."""
        layout = made(shortest(length)).layout
        count = replace(layout.count, shuffled=layout.count.shuffled - 1)
        return replace(layout, length=length, bits=-(-layout.bits // 8) * 8, count=count)

    return shortest(least_bytes(sealed, dimension, KEMS[kem].sealed + TAG_BYTES).length)


def _noise(protocol: EnvelopedSum | EnvelopedVectorSum) -> Noise:
    """Return the kind of a protocol's noise, and its rate or variance."""
    noise = protocol.noise
    if isinstance(noise, SkellamNoise):
        return "skellam", noise.variance
    return "laplace", noise.rate


@plain_dataclass(frozen=True)
class Window:
    """One collection of a task, with its own reports, release and result."""

    task: Task
    number: int

    @property
    def opens(self) -> datetime:
        """From when on reports are accepted."""
        return self.task.opens + self.number * timedelta(seconds=self.task.period)

    @property
    def closes(self) -> datetime:
        """From when on they are not."""
        return self.opens + timedelta(seconds=self.task.period)

    @property
    def key(self) -> int:
        """The number of its key, which some windows share."""
        return self.number * len(self.task.public_keys) // self.task.windows

    @property
    def public_key(self) -> bytes:
        """The key to which its envelopes are sealed."""
        return self.task.public_keys[self.key]

    @property
    def bound(self) -> bytes:
        """What binds to it: the hash of the task, and its number."""
        return self.task.id + self.number.to_bytes(4, "big")

    @property
    def path(self) -> str:
        """Its place at each party."""
        return f"/tasks/{self.task.name}/windows/{self.number}"


_ADAPTER = TypeAdapter(Task)
