"""Other parties from afar: answers that are too slow, too long, or of somebody else."""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl

import pytest

pytest.importorskip("httpx", reason="needs the extra ikos[deployment]")

import httpx
from deployment_tasks import small_task

from ikos.deployment import remote
from ikos.deployment.remote import (
    RemoteAnalyzer,
    RemoteError,
    RemoteShuffler,
    Unanswered,
    Untrusted,
    within,
)
from ikos.deployment.wire import SLOWEST

TASK = small_task()
FIRST = TASK.at(0)
CONTROL = bytes(range(32))


@pytest.fixture(name="limits")
def fixture_limits(monkeypatch):
    """Seconds that exchanges may take, which `test_deadlines` has kept over real sockets."""
    limits = []

    def noted(seconds):
        limits.append(seconds)
        return within(seconds)

    monkeypatch.setattr(remote, "within", noted)
    return limits


def client(answer):
    def streamed(request):
        found = answer(request)
        return httpx.Response(found.status_code, headers=found.headers, stream=found.stream)

    return httpx.Client(transport=httpx.MockTransport(streamed))


def ways(http):
    shuffler = RemoteShuffler(http, FIRST, 2, CONTROL)
    analyzer = RemoteAnalyzer(http, FIRST, CONTROL)
    return {
        "status": shuffler.status,
        "close": shuffler.close,
        "agree": lambda: shuffler.agree(b""),
        "forget": shuffler.forget,
        "agreement": shuffler.agreement,
        "analyzer": analyzer.status,
        "analyzer closes": analyzer.close,
        "analyzer releases": analyzer.release,
    }


@pytest.mark.parametrize("way", ways(None))
def test_every_exchange_has_an_end(limits, way):
    with (
        client(lambda _: httpx.Response(200, stream=httpx.ByteStream(b"?"))) as http,
        contextlib.suppress(RemoteError),
    ):
        ways(http)[way]()
    seconds = {"status": 2.0, "agreement": 20.0, "analyzer closes": 120.0}.get(way, 60.0)
    assert limits == [seconds]


def untrusted():
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = 18, "self-signed certificate"
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
        (httpx.ConnectError, ssl.SSLError(1, "wrong version number"), "its TLS is not understood"),
        (httpx.ConnectTimeout, TimeoutError(), "no answer in time"),
        (httpx.ReadTimeout, None, "no answer in time"),
        (httpx.RemoteProtocolError, None, "the connection broke"),
        (httpx.WriteError, OSError(), "the connection broke"),
    ],
)
def test_why_nobody_answers(kind, cause, words):
    def answer(_):
        raise kind("of no use to people") from httpcore(cause)

    with client(answer) as http, pytest.raises(RemoteError) as caught:
        ways(http)["status"]()
    assert f" does not answer: {words}" in str(caught.value)
    assert type(caught.value) is Unanswered


def httpcore(cause):
    """The library between, whose errors are none of the system's."""
    error = Exception("of the library")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (18, "see --ca"),
        (9, "check the clock here"),
        (10, "renew it there, or check the clock here"),
        (62, "have one issued for the address in the task"),
    ],
)
def test_a_certificate_that_is_not_trusted(code, advice):
    error = untrusted()
    error.verify_code = code

    def answer(_):
        raise httpx.ConnectError("of no use to people") from httpcore(error)

    with client(answer) as http, pytest.raises(Untrusted) as caught:
        RemoteAnalyzer(http, FIRST).status()
    assert str(caught.value) == (
        f"the analyzer at {TASK.analyzer}: its certificate cannot be verified ({advice}): "
        "self-signed certificate"
    )


BYTES = {"Content-Type": "application/octet-stream"}


def test_a_batch_may_take_its_time_in_proportion(limits):
    """The same for the ids of one, which are sent."""

    def answer(request):
        return httpx.Response(200, headers=BYTES, stream=httpx.ByteStream(bytes(500)))

    with client(answer) as http:
        shuffler = RemoteShuffler(http, FIRST, 2, CONTROL)
        assert shuffler.batch((1 << 16) + 100 * SLOWEST) == bytes(500)
        shuffler.agree(bytes(10 * SLOWEST))
    assert limits == [160.0, 70.0]


def test_a_page_is_no_batch():
    """A server between answers so while it is mended."""
    page = {"Content-Type": "text/html"}

    def answer(request):
        return httpx.Response(200, headers=page, stream=httpx.ByteStream(b"<p>later</p>"))

    with client(answer) as http:
        shuffler = RemoteShuffler(http, FIRST, 2, CONTROL)
        for ask in (shuffler.ids, lambda: shuffler.batch(1000)):
            with pytest.raises(RemoteError, match="shuffler 2 sent an unexpected answer"):
                ask()


@pytest.mark.parametrize(
    "found", [{}, [], {"task": "x", "state": "closed"}, {"task": TASK.name, "state": 3}]
)
def test_what_is_not_the_analyzer(found):
    with (
        client(lambda _: httpx.Response(200, json=found)) as http,
        pytest.raises(RemoteError, match=r"the analyzer at .* sent an unexpected answer"),
    ):
        RemoteAnalyzer(http, FIRST).status()


def test_compressed_answers_stay_compressed():
    """A kilobyte could become a megabyte: none is asked for, and what comes keeps its size."""
    packed = gzip.compress(bytes(1 << 20))

    def answer(request):
        asked.append(request.headers["Accept-Encoding"])
        headers = {"Content-Encoding": "gzip", **BYTES}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(packed))

    asked = []
    with client(answer) as http, remote.connect() as usual:
        http.headers = usual.headers
        shuffler = RemoteShuffler(http, FIRST, 2, CONTROL)
        assert shuffler.batch(1 << 21) == packed
        with pytest.raises(RemoteError, match="unexpected answer"):
            shuffler.status()
    assert asked == ["identity"] * 2
