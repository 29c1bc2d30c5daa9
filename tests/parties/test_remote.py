"""Other parties from afar: answers that are too slow, too long, or of somebody else."""

from __future__ import annotations

import gzip
import socket
import ssl
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("httpx", reason="needs the extra ikos[parties]")

import httpx
from parties_tasks import small_task

from ikos.parties import remote, tokens
from ikos.parties.remote import RemoteAnalyzer, RemoteError, RemoteShuffler, Untrusted, agreement_of

TASK = small_task()
CONTROL = bytes(range(32))


class Dripping(httpx.SyncByteStream):
    """A byte a second, by the clock of the test."""

    def __init__(self, clock, data):
        self.clock, self.data = clock, data

    def __iter__(self):
        for byte in self.data:
            self.clock.now += 1
            yield bytes([byte])


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=time.monotonic())
    monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def client(answer):
    def streamed(request):
        found = answer(request)
        return httpx.Response(found.status_code, headers=found.headers, stream=found.stream)

    return httpx.Client(transport=httpx.MockTransport(streamed))


def ways(http):
    shuffler = RemoteShuffler(http, TASK, 2, CONTROL)
    analyzer = RemoteAnalyzer(http, TASK, CONTROL)
    return {
        "status": lambda: shuffler.status(2.0),
        "close": shuffler.close,
        "agree": lambda: shuffler.agree(b""),
        "forget": shuffler.forget,
        "agreement": lambda: agreement_of(http, TASK, 2),
        "analyzer": analyzer.status,
        "analyzer closes": analyzer.close,
        "analyzer releases": analyzer.release,
    }


@pytest.mark.parametrize("way", ways(None))
def test_bytes_that_drip_are_given_up(clock, way):
    begin = clock.now
    with (
        client(lambda _: httpx.Response(200, stream=Dripping(clock, b" " * 10_000))) as http,
        pytest.raises(RemoteError, match="answers too slowly"),
    ):
        ways(http)[way]()
    assert clock.now - begin <= 2 + {"status": 2, "agreement": 20, "analyzer closes": 120}.get(
        way, 60
    )


def untrusted():
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("kind", "cause", "words"),
    [
        (
            httpx.ConnectError,
            ConnectionRefusedError(111, "Connection refused"),
            "connection refused",
        ),
        (httpx.ConnectError, socket.gaierror(-2, "Name or service not known"), "no such host"),
        (
            httpx.ReadError,
            ConnectionResetError(104, "Connection reset by peer"),
            "connection reset",
        ),
        (httpx.ConnectError, ssl.SSLError(1, "wrong version number"), "it speaks no TLS that is"),
        (httpx.ConnectTimeout, TimeoutError(), "no answer in time"),
        (httpx.ReadTimeout, None, "no answer in time"),
        (httpx.RemoteProtocolError, None, "the connection broke"),
        (httpx.WriteError, OSError(), "the connection broke"),
    ],
)
@pytest.mark.parametrize("way", ["status", "analyzer", "agreement"])
def test_why_nobody_answers(way, kind, cause, words):
    def answer(_):
        raise kind("of no use to people") from httpcore(cause)

    with client(answer) as http, pytest.raises(RemoteError) as caught:
        ways(http)[way]()
    assert f" does not answer: {words}" in str(caught.value)
    assert type(caught.value) is RemoteError


def httpcore(cause):
    """The library between, whose errors are none of the system's."""
    error = Exception("of the library")
    error.__cause__ = cause
    return error


def test_a_certificate_that_is_not_trusted():
    def answer(_):
        raise httpx.ConnectError("of no use to people") from httpcore(untrusted())

    with client(answer) as http, pytest.raises(Untrusted) as caught:
        RemoteAnalyzer(http, TASK).status()
    assert str(caught.value) == (
        f"the analyzer at {TASK.analyzer}: its certificate cannot be verified (see --ca): "
        "self-signed certificate"
    )


def test_a_batch_may_take_as_long_as_it_takes(clock):
    with client(lambda _: httpx.Response(200, stream=Dripping(clock, bytes(500)))) as http:
        assert RemoteShuffler(http, TASK, 2, CONTROL).batch(1 << 20) == bytes(500)


def test_what_is_packed_is_not_unpacked():
    """A megabyte could be made of a kilobyte."""
    packed = gzip.compress(bytes(1 << 20))
    assert len(packed) < 1 << 11

    def answer(request):
        headers = {"Content-Encoding": "gzip"}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(packed))

    with client(answer) as http:
        assert RemoteShuffler(http, TASK, 2, CONTROL).batch(1 << 21) == packed


def test_what_the_analyzer_is_asked():
    asked = []

    def answer(request):
        asked.append((request.method, str(request.url), request.headers.get("authorization")))
        return httpx.Response(200, json={"task": TASK.name, "state": "closed"})

    place = f"{TASK.analyzer}/tasks/{TASK.name}"
    with client(answer) as http:
        assert RemoteAnalyzer(http, TASK).status()["state"] == "closed"
        RemoteAnalyzer(http, TASK, CONTROL).close()
        RemoteAnalyzer(http, TASK, CONTROL).release()
    secret = f"Bearer {tokens.to_text(CONTROL)}"
    assert asked == [
        ("GET", place, None), ("POST", f"{place}/close", secret),
        ("POST", f"{place}/release", secret),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "found", [{}, [], {"task": "x", "state": "closed"}, {"task": TASK.name, "state": 3}]
)
def test_what_is_not_the_analyzer(found):
    with (
        client(lambda _: httpx.Response(200, json=found)) as http,
        pytest.raises(RemoteError, match=f"what answers at {TASK.analyzer} is not the analyzer"),
    ):
        RemoteAnalyzer(http, TASK).status()
