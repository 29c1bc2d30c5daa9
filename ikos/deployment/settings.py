"""The settings of a server: where and how it listens, from a TOML file and the command line."""

from __future__ import annotations

import ssl
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, IPvAnyNetwork, Strict, ValidationError
from pydantic.dataclasses import dataclass

from ikos._validation import InvalidValue
from ikos.deployment.party_files import PartyConfig, owner_alone, reason
from ikos.deployment.task_fields import on_loopback
from ikos.deployment.wire import refusal

__all__ = ["Listening"]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Listening:
    """Where and how a server listens.

    By default, ``host`` and ``port`` are those of the party's address in its tasks, if that is on
    loopback. Without ``certificate`` and ``private_key`` (PEM files) the host must be on loopback.
    Port 0 is any free one. ``ca`` holds authorities to trust instead of the system's; ``rate``
    limits reports per second, ``address_rate`` and ``address_connections`` what comes from one
    address (`ikos.deployment.limits.Addresses`, also for ``proxy``). With ``metrics_port``, metrics
    are served there instead, in plain HTTP. ``keep_days`` after closing, unreleased reports are
    deleted. With ``group_access``, the group of a file of secrets, or of a party's folder, may use
    it too.
    """

    host: Annotated[str | None, Field(min_length=1)] = None
    port: Annotated[int | None, Strict(), Field(ge=0, le=65535)] = None
    certificate: Path | None = None
    private_key: Path | None = None
    ca: Path | None = None
    rate: Annotated[float, Strict(), Field(gt=0, lt=1e9)] = 5000.0
    address_rate: Annotated[float, Strict(), Field(gt=0, lt=1e9)] = 100.0
    address_connections: Annotated[int, Strict(), Field(gt=0)] = 100
    proxy: IPvAnyNetwork | None = None
    metrics_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    metrics_port: Annotated[int | None, Strict(), Field(ge=0, le=65535)] = None
    keep_days: Annotated[float, Strict(), Field(gt=0, lt=1e5)] = 30.0
    group_access: Annotated[bool, Strict()] = False

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidValue("certificate and private_key", "must be given together")
        if self.certificate is None and self.host is not None and not on_loopback(self.host):
            raise InvalidValue(
                "host",
                f"must be on loopback without a certificate, got {self.host!r}: give "
                "certificate and private_key",
            )
        self.tls()

    @classmethod
    def read(cls, path: Path | None, options: Mapping[str, Any]) -> Listening:
        """Return a TOML file's settings, overridden by options; errors name the setting."""
        settings = {} if path is None else _toml(path)
        try:
            return cls(**{**settings, **options})
        except ValidationError as error:
            wrong = refusal(error)
            if path is None or any(name in (wrong.parameter or "") for name in options):
                raise wrong from None
            raise ValueError(f"{str(path)!r}: {wrong}") from None

    def tls(self) -> ssl.SSLContext | None:
        """Return a TLS context from the current files; ValueError if they do not match."""
        if self.certificate is None or self.private_key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # a server that is started automatically cannot ask for a password
            context.load_cert_chain(self.certificate, self.private_key, password=lambda: b"")
        except OSError as error:  # ssl.SSLError is one
            why = "they are not" if isinstance(error, ssl.SSLError) else reason(error)
            raise InvalidValue(
                "certificate and private_key",
                "must be PEM files of a certificate and its key "
                f"without a password, got {str(self.certificate)!r} and {str(self.private_key)!r}: "
                f"{why}",
            ) from None
        owner_alone(self.private_key, group=self.group_access)
        return context

    def of(self, configs: Sequence[PartyConfig]) -> Listening:
        """Return where to listen for some parties, by default on their address in the tasks."""
        if self.host is not None and self.port is not None:
            return self
        address, *others = sorted({config.task.address(config.party) for config in configs})
        if others:
            raise InvalidValue(
                "host and port",
                "must be given where tasks have different addresses for this party, "
                f"got {address} and {others[0]}",
            )
        parts = urlsplit(address)
        host = self.host or parts.hostname or ""
        if self.host is None and not on_loopback(host):
            raise InvalidValue(
                "host",
                f"must be given: the party's address in the task, {address}, is not on this "
                "machine alone",
            )
        tls = parts.scheme == "https"
        if self.port is None and tls and self.certificate is None:
            raise InvalidValue(
                "certificate and private_key",
                f"must be given for {address}, or the port to which a "
                "proxy with a certificate passes requests",
            )
        port = parts.port or (443 if tls else 80)
        return replace(self, host=host, port=port if self.port is None else self.port)

    def places(self) -> Iterator[tuple[str, int, str]]:
        """Yield where it listens, and by which settings: for all, and for metrics elsewhere."""
        yield self.host or "", self.port or 0, "host and port"
        if self.metrics_port is not None:
            yield self.metrics_host, self.metrics_port, "metrics_host and metrics_port"


def _toml(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file; file names in it are relative to its folder."""
    try:
        settings = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise InvalidValue(
            "config", f"must be a file that can be read, got {str(path)!r}: {reason(error)}"
        ) from None
    except ValueError as error:  # errors of decoding and of TOML
        why = " ".join(str(error).split())
        raise InvalidValue("config", f"must be TOML, got {str(path)!r}: {why}") from None
    for name in {"certificate", "private_key", "ca"} & settings.keys():
        if isinstance(settings[name], str):
            settings[name] = path.parent / settings[name]
    return settings
