"""How often a client or an address may send requests, and how many at a time.

All counters are in memory; they expire within a second or two.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.types import Scope

_SLACK = 1e-6  # seconds, for rounding


class Rate:
    """At most ``rate`` a second for each key, and as many at once; at least one.

    For each key it stores when the full number is allowed at once again; soon after, it forgets the
    key.
    """

    def __init__(self, rate: float) -> None:
        self._step = 1 / rate
        self._most = max(1.0, self._step) + _SLACK
        self._until: dict[Hashable, float] = {}
        self._swept = time.monotonic()

    def allows(self, key: Hashable = None) -> bool:
        """Whether one more is allowed now; it is counted if it is."""
        now = time.monotonic()
        until = max(now, self._until.get(key, now)) + self._step
        if until > now + self._most:
            return False
        if now > self._swept + self._most:
            self._until = {known: then for known, then in self._until.items() if then > now}
            self._swept = now
        self._until[key] = until
        return True


class Slots:
    """At most ``most`` at a time for each key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[Hashable, int] = {}

    def free(self, key: Hashable) -> bool:
        """Whether one more may be taken."""
        return self._taken.get(key, 0) < self._most

    def take(self, key: Hashable) -> None:
        """Take a slot, whether or not one is free."""
        self._taken[key] = self._taken.get(key, 0) + 1

    def leave(self, key: Hashable) -> None:
        """Leave a slot that was taken."""
        others = self._taken.pop(key) - 1
        if others:
            self._taken[key] = others


class Addresses:
    """Limits for each address: an IPv4 address, or the 64 bits that an IPv6 network has.

    Addresses on loopback are not limited: they are programs of this machine, or a proxy that the
    configuration does not name. For requests from ``proxy`` the last address in X-Forwarded-For
    counts, which the proxy wrote; from anyone else that header counts for nothing.
    """

    def __init__(
        self, rate: float, connections: int, proxy: IPv4Network | IPv6Network | None = None
    ) -> None:
        self.slots, self._rate, self._proxy = Slots(connections), Rate(rate), proxy
        self._arrivals = Rate(rate)  # a handshake of TLS costs more than a request

    def connecting(self, host: str) -> Hashable:
        """Return the key of a connecting address, or None if it has no limit, as the proxy."""
        return None if self._is_proxy(host) else _key(host)

    def admits(self, key: Hashable) -> bool:
        """Whether one more connection is admitted now; it is counted if it is."""
        return self.slots.free(key) and self._arrivals.allows(key)

    def allows(self, scope: Scope) -> bool:
        """Whether a request is allowed; it is counted if it is."""
        host, _ = scope["client"] or ("", 0)
        if self._is_proxy(host):
            lines = [text for name, text in scope["headers"] if name == b"x-forwarded-for"]
            host = b",".join(lines).rpartition(b",")[2].decode("latin-1").strip()
        key = _key(host)
        return key is None or self._rate.allows(key)

    def _is_proxy(self, host: str) -> bool:
        address = _address(host)
        return self._proxy is not None and address is not None and address in self._proxy


@lru_cache(1024)
def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return an address, if it is one; one of IPv4 as such, though an IPv6 socket shows IPv6."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _key(host: str) -> Hashable:
    """Return what counts as one address; None for this machine."""
    address = _address(host)
    if address is None:
        return host or None  # for anything but an address, from the proxy, the text itself counts
    if address.is_loopback:
        return None
    return int(address) >> 64 if isinstance(address, IPv6Address) else address
