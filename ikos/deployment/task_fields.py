"""The fields of a task: how each is written, and which values are valid."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Len
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    InstanceOf,
    PlainSerializer,
    Strict,
)

from ikos._validation import InvalidValue, integer, quote
from ikos.data.domains import Ball, Bounds, Box, Categories, CategoryLabels, Domain
from ikos.deployment.opening import KEMS
from ikos.deployment.wire import decoded, encoded
from ikos.results.report import is_printable

NONCE_BYTES = 16
MAX_WINDOWS = 10_000
MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_ADDRESS = re.compile(rf"https?://({_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?/?")
_LONGEST_HOST = 253
_DOMAINS = {"number": Bounds, "box": Box, "ball": Ball, "categories": Categories}
_KINDS = {kind: name for name, kind in _DOMAINS.items()}


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


def _digits(text: str) -> int:
    """Return the integer in a text of decimal digits."""
    if not re.fullmatch(r"[0-9]{1,4000}", text):
        raise ValueError("must be at most 4,000 decimal digits")
    return int(text)


def _text(read: Callable[[str], Any]) -> BeforeValidator:
    """Let a field also be a string, as in JSON."""
    return BeforeValidator(lambda value: read(value) if isinstance(value, str) else value)


def _domain(value: object) -> object:
    """Return a domain, also from its form in JSON: its kind and its parameters."""
    if not isinstance(value, dict):
        return value
    try:
        kind, parameters = _DOMAINS[value["kind"]], {**value}
        del parameters["kind"]
        return kind(**{
            name: float.fromhex(number) if isinstance(number, str) else number
            for name, number in parameters.items()
        })  # fmt: skip
    except (TypeError, LookupError, OverflowError):
        raise ValueError(f"must be a domain's kind and parameters, got {quote(value)}") from None


def _without_shape(domain: Domain) -> Domain:
    """Return a domain of scalars or vectors, whose results are lists of numbers."""
    if domain.shape_parameter:
        raise ValueError(f"must be of scalars or vectors in a task, got shape {domain.shape}")
    return domain


def _domain_text(domain: Domain) -> dict[str, Any]:
    """Return a domain as in JSON, with bounds that are exact."""
    values = domain.parameters.items()
    exact = {name: x.hex() if isinstance(x, float) else x for name, x in values}
    return {"kind": _KINDS[type(domain)], **exact}


Integer = Annotated[int, Strict()]
Values = Annotated[
    InstanceOf[Domain],
    BeforeValidator(_domain),
    AfterValidator(_without_shape),
    PlainSerializer(_domain_text),
]
Label = Annotated[str, Strict(), Len(1, 100), AfterValidator(_label)]
Address = Annotated[str, Strict(), AfterValidator(_address)]
Ratio = Annotated[InstanceOf[Fraction], _text(_ratio), PlainSerializer(str)]
Moment = Annotated[
    AwareDatetime,
    AfterValidator(lambda moment: moment.astimezone(UTC).replace(microsecond=0)),
    PlainSerializer(lambda moment: f"{moment:{MOMENT}}"),
]
# JSON's numbers are doubles in many languages
Modulus = Annotated[int, Strict(), _text(_digits), PlainSerializer(str)]
Noise = tuple[Literal["laplace", "skellam", "binomial", "uniform"], Ratio]
Bytes = Annotated[
    bytes, Strict(), _text(lambda text: decoded(text, len(text) * 3 // 4)), PlainSerializer(encoded)
]
Nonce = Annotated[Bytes, Len(NONCE_BYTES, NONCE_BYTES)]


def words_of(domain: Domain, show: Callable[[Any], str] = str) -> str:
    """Return a domain as in a list of values, each shown by a function."""
    parts = [f"{name} {show(value)}" for name, value in domain.parameters.items()]
    return f"{_KINDS[type(domain)]}: {', '.join(parts)}"


def check_addresses(analyzer: str, shufflers: Sequence[str]) -> None:
    """Refuse parties with the same address: they would be one party."""
    seen: dict[tuple[str, int], str] = {}
    for number, address in enumerate((analyzer, *shufflers)):
        name = f"shufflers[{number - 1}]" if number else "analyzer"
        other = seen.setdefault(_place(address), name)
        if other != name:
            raise InvalidValue(
                "shufflers",
                "must have different addresses, none of them the analyzer's, "
                f"got one place for {other} and {name}: {quote(address)}",
            )


def check_schedule(opens: datetime, period: int, windows: int) -> None:
    """Refuse fewer windows than one, too many, or an end after the last year."""
    integer("windows", windows, low=1, high=MAX_WINDOWS)
    integer("period", period, low=1)
    try:
        _ = opens + windows * timedelta(seconds=period)
    except OverflowError:
        raise InvalidValue("period", f"must end before the year 10000, got {period}") from None


def check_keys(public_keys: Sequence[bytes], kem: str, windows: int, holders: int) -> None:
    """Refuse keys that are not of a KEM, not different, or not up to one per window and holder."""
    length = KEMS[kem].public
    if {len(key) for key in public_keys} != {length}:
        raise InvalidValue("public_keys", f"must be of {length} bytes for kem = {kem!r}")
    if len(set(public_keys)) < len(public_keys):
        raise InvalidValue("public_keys", "must be different")
    if len(public_keys) % holders:
        raise InvalidValue(
            "public_keys", f"must be as many for each of {holders} parties, got {len(public_keys)}"
        )
    integer("keys", len(public_keys) // holders, low=1, high=windows)


def check_labels(labels: tuple[str, ...], dimension: int) -> None:
    """Refuse labels that are not different, or not one for each coordinate."""
    if labels and len(set(labels)) != dimension:
        raise InvalidValue(
            "labels",
            f"must be {dimension} different ones, one for each coordinate, got {quote(labels)}",
        )


def category_labels(domain: Domain, labels: tuple[str, ...]) -> CategoryLabels | None:
    """Return an index of categories by label; ValueError for labels that are equal as numbers."""
    if isinstance(domain, Categories) and labels:
        return CategoryLabels("labels", labels)
    return None
