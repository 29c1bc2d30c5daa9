"""Limits: what is allowed by hand count, and who counts as one."""

from __future__ import annotations

from fractions import Fraction
from ipaddress import ip_network
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")

from hypothesis import given
from hypothesis import strategies as st

from ikos.deployment import limits
from ikos.deployment.limits import Addresses, Rate, Slots


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@given(
    st.sampled_from([1, 2, 4, 8, 64]),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), max_size=60),
)
def test_a_rate_is_a_bucket_of_tokens(rate, steps):
    """As counted in rational numbers: one bucket for each key, full at first, refilled evenly."""
    clock = SimpleNamespace(now=0.0)
    left, then = dict.fromkeys("ab", Fraction(rate)), dict.fromkeys("ab", Fraction(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: clock.now))
        tried = Rate(rate)
        for key, sixteenths in steps:
            clock.now += sixteenths / 16
            now = Fraction(clock.now)
            left[key] = min(Fraction(rate), left[key] + (now - then[key]) * rate)
            then[key] = now
            allowed = left[key] >= 1
            left[key] -= allowed
            assert tried.allows(key) == allowed


def test_a_rate_below_one(clock):
    """One at a time, however rarely."""
    rate = Rate(0.25)
    found = []
    for _ in range(9):
        found.append(rate.allows())
        clock.now += 1
    assert found == [True, *[False] * 3] * 2 + [True]


def test_a_rate_forgets(clock):
    rate = Rate(2)
    for key in range(100):
        assert rate.allows(key)
        clock.now += 0.25
        assert len(rate._until) <= 8
    assert rate.allows(99)
    assert not rate.allows(99)  # the first of them was 0.25 s ago
    clock.now += 10
    assert rate.allows("another")
    assert list(rate._until) == ["another"]


def test_places():
    slots = Slots(2)
    slots.take("a")
    assert slots.free("a")
    slots.take("a")
    assert (slots.free("a"), slots.free("b")) == (False, True)
    slots.take("a")
    slots.leave("a")
    assert not slots.free("a")
    slots.leave("a")
    assert slots.free("a")
    slots.leave("a")
    assert not slots._taken


def scope(host, *forwarded):
    return {
        "client": host and (host, 1),
        "headers": [(b"x-forwarded-for", one.encode()) for one in forwarded],
    }


def together(first, second, proxy=None):
    """Whether two requests count as one address's."""
    addresses = Addresses(1, 1, proxy and ip_network(proxy))
    assert addresses.allows(first)
    return not addresses.allows(second)


def test_who_is_one_address():
    assert together(scope("192.0.2.1"), scope("192.0.2.1"))
    assert not together(scope("192.0.2.1"), scope("192.0.2.2"))
    assert together(scope("192.0.2.1"), scope("::ffff:192.0.2.1"))  # a socket of both kinds
    assert not together(scope("::ffff:192.0.2.1"), scope("::ffff:192.0.2.2"))
    assert together(scope("2001:db8::1"), scope("2001:db8::2"))  # a host has the whole network
    assert together(scope("2001:db8::1"), scope("2001:DB8:0:0:ffff::1"))
    assert not together(scope("2001:db8::1"), scope("2001:db8:0:1::1"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", None])
def test_this_machine_is_not_limited(host):
    assert not together(scope(host), scope(host))
    assert Addresses(1, 1).connecting(host or "") is None


def test_the_header_counts_from_the_named_proxy_alone():
    one, two = scope("192.0.2.1", "198.51.100.1"), scope("192.0.2.1", "198.51.100.2")
    assert together(one, two)  # anybody can write it
    assert together(one, two, "192.0.2.2")
    assert not together(one, two, "192.0.2.0/24")
    assert together(one, scope("192.0.2.1", "203.0.113.1, 198.51.100.1"), "192.0.2.1")
    assert together(one, scope("192.0.2.1", "203.0.113.1", "198.51.100.1"), "192.0.2.1")
    assert not together(one, scope("192.0.2.1", "198.51.100.1, 203.0.113.1"), "192.0.2.1")
    assert together(scope("::1", "2001:db8::1"), scope("::1", "2001:db8::2"), "::1")
    assert together(scope("::1", "made up"), scope("::1", "made up"), "::1")
    assert not together(scope("192.0.2.1"), scope("192.0.2.1"), "192.0.2.1")  # it limits by itself
    named = Addresses(1, 1, ip_network("192.0.2.1"))
    assert named.connecting("192.0.2.1") is None
    assert named.connecting("192.0.2.2") is not None
