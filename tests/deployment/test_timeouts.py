"""Answers that drip, or never end, over real sockets: each exchange has an end."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("httpx")
import httpx

from ikos.deployment.remote import RemoteError, connect, exchange, within

SECONDS = 0.5
PATIENCE = 20.0


@contextmanager
def party(pieces: Iterator[bytes], pause: float, heard: list[bytes] | None = None) -> Iterator[str]:
    """Answer whatever is asked by pieces, with a pause after each."""
    heard = [] if heard is None else heard
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def serve() -> None:
            try:
                asked, _ = server.accept()
                with asked:
                    heard.append(asked.recv(1 << 16))
                    for piece in pieces:
                        asked.sendall(piece)
                        if ended.wait(pause):
                            return
            except OSError:
                return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            socket.create_connection(server.getsockname()).close()  # for who waits for somebody
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


def dripping(begin: bytes) -> Iterator[bytes]:
    """Yield bytes one by one, and then more without end."""
    return (bytes([byte]) for byte in itertools.chain(begin, itertools.repeat(97)))


DRIPS = {
    "head": dripping(b"HTTP/1.1 200 OK\r\nX: "),
    "hints": itertools.repeat(b"HTTP/1.1 102 Processing\r\n\r\n"),
    "body": dripping(HEAD.replace(b"5", b"9999")),
    "nothing": itertools.repeat(b""),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRIPS)
def test_an_answer_that_drips_is_given_up(kind):
    with party(DRIPS[kind], 0.05) as address, connect() as client:
        begun = time.monotonic()
        with pytest.raises(RemoteError, match="no answer in time"):
            exchange(client, "GET", address, "shuffler 1", seconds=SECONDS)
        assert time.monotonic() - begun < PATIENCE


def test_a_limit_ends_with_its_block():
    with connect() as client:
        with (
            party(iter([HEAD + b"hello"]), 0.0) as address,
            within(0.0),
            pytest.raises(httpx.TimeoutException),
        ):
            client.get(address)
        with party(iter([HEAD + b"hello"]), 0.0) as address:
            assert client.get(address).text == "hello"


def test_no_party_gives_cookies_to_another():
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 5\r\n\r\nhello"
    with party(iter([cookie]), 0.0) as address, connect() as client:
        exchange(client, "GET", address, "shuffler 1", seconds=PATIENCE)
        assert not list(client.cookies.jar)


def test_what_the_environment_names_is_not_gone_through(monkeypatch, tmp_path):
    """A proxy of the machine's, or a file of passwords."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    heard: list[bytes] = []
    with party(iter([HEAD + b"hello"]), 0.0, heard) as address, connect() as client:
        assert client.get(address).text == "hello"
    assert heard[0].startswith(b"GET / ")
    assert b"authorization" not in heard[0].lower()


def test_no_party_sends_others_elsewhere():
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
    with party(iter([moved]), 0.0) as address, connect() as client:
        assert client.get(address).status_code == 302
