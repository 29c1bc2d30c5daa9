"""Connections of people who send nothing, read nothing or are ambiguous: each ends by itself."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
import time
import tracemalloc
from contextlib import asynccontextmanager, suppress

import pytest

pytest.importorskip("uvicorn", reason="needs the extra ikos[deployment]")

import h11
import uvicorn
from deployment_tls import certificates
from uvicorn.server import ServerState

from ikos.deployment import http
from ikos.deployment.http import Acceptor, TimedProtocol
from ikos.deployment.limits import Addresses

REQUEST = b"GET / HTTP/1.1\r\nHost: party\r\n\r\n"


BODY = b"x" * 10_000


async def application(scope, receive, send):
    if scope["path"] == "/slow":
        await asyncio.sleep(0.6)
    while scope["path"] == "/body" and (await receive()).get("more_body"):
        pass
    body = {"/long": BODY, "/endless": BODY * 1000}.get(scope["path"], b"ok")
    length = str(len(body)).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
    )
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def opened(most=100, tls=None, addresses=None):
    """Serve, and open connections; each gets a buffer of its own size in the system."""
    config = uvicorn.Config(
        application, http=TimedProtocol, lifespan="off", log_config=None, limit_concurrency=most + 1
    )
    config.load()
    state, writers = ServerState(), []
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    acceptor = Acceptor(config, state, listener, most, tls, addresses)

    async def connection(path=None):
        wire = socket.socket()
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.setblocking(False)
        await asyncio.get_running_loop().sock_connect(wire, listener.getsockname())
        reader, writer = await asyncio.open_connection(sock=wire, limit=1024)
        writers.append(writer)
        if path is not None:
            writer.write(REQUEST.replace(b"/", path, 1))
        return reader, writer

    connection.state, connection.acceptor = state, acceptor
    connection.place = listener.getsockname()
    try:
        yield connection
    finally:
        for writer in writers:
            writer.close()
        acceptor.close()
        listener.close()
        await acceptor.wait_closed()


async def until(check):
    """Wait until something is so; fail after half a minute."""
    async with asyncio.timeout(30):
        while not check():
            await asyncio.sleep(0.02)


async def ends(reader, seconds=30):
    try:
        return await asyncio.wait_for(reader.read(), seconds)
    except ConnectionError:
        return b""


def answer_to(*pieces, read=ends):
    """Return what is read of the answer to bytes that come in pieces."""

    async def check():
        async with opened() as connection:
            reader, writer = await connection()
            for number, piece in enumerate(pieces):
                await asyncio.sleep(0.02 * (number > 0))
                writer.write(piece)
            return await read(reader)

    return asyncio.run(check())


def status_of(*pieces):
    line = answer_to(*pieces, read=asyncio.StreamReader.readline)
    assert line.startswith(b"HTTP/1.1 ")
    return int(line.split()[1])


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(http, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(http, "SWEEP_SECONDS", 0.1)
    monkeypatch.setattr(http, "SLOWEST", 1 << 30)


BODY_TO_COME = b"PUT /body HTTP/1.1\r\nHost: party\r\nContent-Length: 2\r\n\r\nx"


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"G", REQUEST[:-2], REQUEST + b"GET / HT", BODY_TO_COME])
def test_a_head_or_body_that_does_not_come(hurried, sent):
    assert answer_to(sent).count(b"200 OK") == sent.count(REQUEST)


@pytest.mark.slow
def test_whole_requests_take_their_time(hurried):
    """An answer may take longer than a head, and the connection is there for the next."""

    async def check():
        async with opened() as connection:
            reader, writer = await connection()
            answers = []
            for path in (b"/slow", b"/", b"/slow"):
                writer.write(REQUEST.replace(b"/", path, 1))
                answers.append(await reader.readuntil(b"ok"))
            return answers

    assert all(answer.startswith(b"HTTP/1.1 200") for answer in asyncio.run(check()))


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("path", "times"),
    [(b"/endless", 1), (b"/long", 100), (b"/long", 4)],
    ids=["one answer", "many", "fewer than a buffer"],
)
@pytest.mark.parametrize("close", [False, True])
def test_answers_that_nobody_reads(hurried, path, times, close):
    """Also those that fit into a buffer, after which the connection could seem to be idle."""

    async def check():
        async with opened() as connection:
            _, writer = await connection()
            request = REQUEST.replace(b"/", path, 1)
            if close:
                request = request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            writer.write(request * times)
            await until(lambda: connection.state.connections)
            await until(lambda: not connection.state.connections)

    asyncio.run(check())


@pytest.mark.slow
def test_answers_that_are_read_slowly(monkeypatch):
    """What is long may take its time in proportion."""
    monkeypatch.setattr(http, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(http, "SLOWEST", len(BODY) * 100)  # ten seconds

    async def check():
        async with opened() as connection:
            reader, _ = await connection(b"/endless")
            await asyncio.sleep(0.5)
            head = await reader.readuntil(b"\r\n\r\n")
            return head, await reader.readexactly(len(BODY) * 1000)

    head, body = asyncio.run(check())
    assert head.startswith(b"HTTP/1.1 200")
    assert body == BODY * 1000


@pytest.mark.parametrize("pipelined", [False, True])
def test_a_limit_of_requests(monkeypatch, pipelined):
    monkeypatch.setattr(http, "REQUESTS", 3)

    async def check():
        async with opened() as connection:
            reader, writer = await connection()
            if pipelined:
                writer.write(REQUEST * 5)
                return await ends(reader)
            found = b""
            for _ in range(3):
                writer.write(REQUEST)
                found += await reader.readuntil(b"ok")
            return found + await ends(reader)

    answers = asyncio.run(check()).split(b"HTTP/1.1 200")[1:]
    assert [b"connection: close" in answer.lower() for answer in answers] == [False, False, True]


PUT = b"PUT / HTTP/1.1\r\nHost: party\r\n"
CHUNKS = b"2\r\nab\r\n0\r\n\r\n"


def head(lines, size=0):
    """Return a request whose head has so many lines, and at least so many bytes."""
    made = REQUEST[:-2] + b"a:b\r\n" * (lines - 2) + b"\r\n"
    return made.replace(b"Host: party", b"Host: party" + b"x" * (size + 4 - len(made)), 1)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (head(64), 200),
        (head(65), 400),
        (head(12_000), 400),
        (head(12_000)[:-4], 400),  # without an end
        (head(2, 1 << 14), 200),
        (head(2, 1 + (1 << 14)), 400),
        (head(2, 1 << 17), 400),
    ],
)
def test_long_heads_are_not_parsed(monkeypatch, sent, status, parts):
    """Whether they come at once or in parts: h11 sees no more than the limits."""
    parsed, usual = [], h11.Connection.next_event

    def next_event(self):
        parsed.append(self.trailing_data[0])
        return usual(self)

    monkeypatch.setattr(h11.Connection, "next_event", next_event)

    half = len(sent) // parts
    assert status_of(*filter(None, (sent[:half], sent[half:]))) == status
    assert all(one.partition(b"\r\n\r\n")[0].count(b"\n") < 64 for one in parsed)
    assert all(len(one.partition(b"\r\n\r\n")[0]) <= 1 << 14 for one in parsed)


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
@pytest.mark.parametrize("sent", [head(64), head(2, 1 << 14)])
def test_a_head_whose_end_comes_later_is_within_the_limits(sent, cut):
    assert status_of(sent[:-cut], sent[-cut:]) == 200


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/long", "/long"),
        (b"http://party/long", "/long"),
        (b"HTTPS://party:8443/long?a=b", "/long"),
        (b"http://party", "/"),
        (b"http://party?a=b", "/"),
        (b"http:///long", "http:///long"),
        (b"ftp://party/long", "ftp://party/long"),
        (b"*", "*"),
    ],
)
def test_targets(monkeypatch, target, path):
    """A target may be absolute (RFC 9112, 3.2.2): what counts is its path."""
    seen = []

    async def noting(scope, receive, send):
        seen.append((scope["path"], scope["query_string"]))
        await usual(scope, receive, send)

    usual = application
    monkeypatch.setattr(sys.modules[__name__], "application", noting)

    assert status_of(REQUEST.replace(b"/", target, 1)) == 200
    assert seen == [(path, b"a=b" if b"?" in target else b"")]


@pytest.mark.parametrize(
    "sent",
    [
        PUT + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
        PUT + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
        PUT + b"transfer-encoding: chunked\r\ncontent-length: 17\r\n\r\n" + CHUNKS,
        PUT + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nab",
        PUT + b"Content-Length: 2, 3\r\n\r\nab",
        PUT + b"Content-Length: +2\r\n\r\nab",
        PUT + b"Content-Length : 2\r\n\r\nab",
        PUT + b"Transfer-Encoding: identity, chunked\r\n\r\n" + CHUNKS,
        PUT + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
        PUT + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS,
        PUT + b"X: y\r\n\tz\r\n\r\n",
        PUT + b"X: y\nContent-Length: 2\r\n\r\nab",
        PUT + b"X: y\rContent-Length: 2\r\n\r\nab",
        PUT + b"Content-Length: 2\n\nab",
        PUT + b"Content-Length: 2\r\n\nab",
        PUT.replace(b"\r\n", b"\n") + b"\n",
    ],
)
def test_requests_with_two_ends(sent):
    """What another server might read otherwise is refused, and nothing after it is a request."""

    answers = answer_to(REQUEST + sent + REQUEST).split(b"HTTP/1.1 ")[1:]
    assert [int(answer[:3]) for answer in answers] == [200, 400]
    assert b"connection: close" in answers[-1].lower()


@pytest.mark.slow
def test_whoever_waits_makes_room():
    """All places are taken by who is silent, or does not read: each newcomer ends the oldest."""

    async def check():
        async with opened(most=4) as connection:
            silent, _ = await connection()
            deaf, _ = await connection(b"/endless")
            idle, _ = await connection(b"/")
            await idle.readuntil(b"ok")
            busy, _ = await connection(b"/slow")
            served = [await (await connection(b"/"))[0].readuntil(b"ok") for _ in range(3)]
            with pytest.raises(asyncio.IncompleteReadError):
                await asyncio.wait_for(deaf.readexactly(len(BODY) * 1000), 30)
            assert await ends(silent) == await ends(idle) == b""
            return [*served, await busy.readuntil(b"ok")]

    assert all(answer.startswith(b"HTTP/1.1 200") for answer in asyncio.run(check()))


@pytest.mark.slow
def test_a_body_that_does_not_come_makes_room():
    """One that has come does not, and may be answered later than its head's deadline."""

    async def check():
        async with opened(most=2) as connection:
            body, writer = await connection()
            writer.write(BODY_TO_COME)
            await until(lambda: connection.state.tasks)
            busy, _ = await connection(b"/slow")
            await until(lambda: len(connection.state.tasks) == 2)
            reader, _ = await connection(b"/")
            served = await asyncio.wait_for(reader.readuntil(b"ok"), 5)
            return served, await busy.readuntil(b"ok"), await ends(body)

    served, busy, body = asyncio.run(check())
    assert served.startswith(b"HTTP/1.1 200")
    assert busy.startswith(b"HTTP/1.1 200")
    assert body == b""


def test_who_waits_makes_room_where_descriptors_are_short(monkeypatch):
    usual, failed = socket.socket.accept, []

    def accept(listener):
        if not failed:
            failed.append(True)
            raise OSError(errno.EMFILE, "Too many open files")
        return usual(listener)

    async def check():
        async with opened() as connection:
            silent, _ = await connection()
            await until(lambda: connection.state.connections)
            monkeypatch.setattr(socket.socket, "accept", accept)
            served = await (await connection(b"/"))[0].readuntil(b"ok")
            return served, await ends(silent, 5)

    served, silent = asyncio.run(check())
    assert served.startswith(b"HTTP/1.1 200")
    assert silent == b""
    assert failed


@pytest.mark.slow
@pytest.mark.parametrize(("spare", "said"), [(1, b"HTTP/1.1 503"), (0, b"")])
def test_all_places_are_at_work(monkeypatch, spare, said):
    """A few more are told so, and no more than a few are kept."""
    monkeypatch.setattr(http, "SPARE_CONNECTIONS", spare)

    async def check():
        async with opened(most=2) as connection:
            busy = [(await connection(b"/slow"))[0] for _ in range(2)]
            await until(lambda: len(connection.state.tasks) == 2)
            over, _ = await connection(b"/")
            return await ends(over), [await one.readuntil(b"ok") for one in busy]

    over, answers = asyncio.run(check())
    assert over[:12] == said
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """TLS at both ends."""
    authority, certificate = certificates(tmp_path_factory.mktemp("tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return server, ssl.create_default_context(cafile=authority)


async def asked(connection, context, end=b"ok"):
    """Ask over TLS."""
    reader, writer = await asyncio.open_connection(
        *connection.place, ssl=context, server_hostname="localhost"
    )
    writer.write(REQUEST)
    answer = await reader.readuntil(end)
    writer.close()
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00"])
def test_a_handshake_that_does_not_come(monkeypatch, contexts, sent):
    monkeypatch.setattr(http, "HANDSHAKE_SECONDS", 0.3)

    async def check():
        async with opened(tls=contexts[0]) as connection:
            reader, writer = await connection()
            writer.write(sent)
            return await ends(reader), await asked(connection, contexts[1])

    ended, answer = asyncio.run(check())
    assert ended == b""
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.points(0)
def test_who_is_silent_takes_no_memory(contexts):
    async def check():
        async with opened(most=400, tls=contexts[0]) as connection:
            await asked(connection, contexts[1])
            tracemalloc.start()
            for _ in range(300):
                await connection()
            most = tracemalloc.get_traced_memory()[1]
            return most, await asked(connection, contexts[1])

    try:
        most, answer = asyncio.run(check())
    finally:
        tracemalloc.stop()
    assert answer.startswith(b"HTTP/1.1 200")
    assert most < 300 * 2**14  # of both ends


@pytest.mark.slow
def test_a_head_that_drips(hurried):
    async def check():
        async with opened() as connection:
            reader, writer = await connection()
            ended = asyncio.ensure_future(ends(reader))
            loop = asyncio.get_running_loop()
            begin = loop.time()
            while not ended.done() and loop.time() < begin + 5:
                writer.write(b"G")
                await asyncio.sleep(0.02)
            return ended.done() and await ended

    assert asyncio.run(check()) == b""


@pytest.mark.parametrize("waits", [True, False])
def test_a_limit_of_connections_from_an_address(monkeypatch, contexts, waits):
    """One more is closed, and each place is free again at its end."""
    monkeypatch.setattr(Addresses, "connecting", lambda self, host: host)  # also of this machine
    addresses = Addresses(1e6, 2)

    async def check():
        async with opened(tls=contexts[0] if waits else None, addresses=addresses) as connection:
            held = [await connection() for _ in range(2)]  # of TLS nothing is sent, or all
            for _, writer in held:
                writer.write(b"\x16" if waits else REQUEST)
            await until(lambda: not addresses.slots.free("127.0.0.1"))
            for _ in range(3):
                assert await ends((await connection())[0], 5) == b""
            for _, writer in held:
                writer.close()
            await until(lambda: not addresses.slots._taken)
            if waits:
                return await asked(connection, contexts[1])
            return await (await connection(b"/"))[0].readuntil(b"ok")

    assert asyncio.run(check()).startswith(b"HTTP/1.1 200")


def test_a_limit_of_new_connections_from_an_address(monkeypatch):
    """Each of them asks for something that is no route: the limit of requests does not see it."""
    monkeypatch.setattr(Addresses, "connecting", lambda self, host: host)

    async def check():
        async with opened(addresses=Addresses(3, 100)) as connection:
            found = []
            for _ in range(5):
                reader, _ = await connection(b"/")
                with suppress(ConnectionError):
                    found.append(await reader.read(9))
            return found

    assert [one for one in asyncio.run(check()) if one] == [b"HTTP/1.1 "] * 3


@pytest.mark.points(0)
def test_an_answer_over_tls_that_is_read_late(contexts):
    """It is the last of its connection; what the client has not read yet is kept for it."""
    request = b"GET /endless HTTP/1.1\r\nHost: party\r\nConnection: close\r\n\r\n"

    def read(place):
        with (
            socket.create_connection(place) as plain,
            contexts[1].wrap_socket(plain, server_hostname="localhost") as wire,
        ):
            wire.sendall(request)
            time.sleep(1.5)
            return sum(map(len, iter(lambda: wire.recv(1 << 20), b"")))

    async def check():
        async with opened(tls=contexts[0]) as connection:
            return await asyncio.to_thread(read, connection.place)

    assert asyncio.run(check()) > 1000 * len(BODY)


def test_few_answers_wait_to_be_read(contexts):
    """Over TLS, too, whose transport would take half a megabyte."""

    async def check():
        async with opened(tls=contexts[0]) as connection:
            _, writer = await asyncio.open_connection(
                *connection.place, ssl=contexts[1], server_hostname="localhost", limit=1024
            )
            writer.write(REQUEST.replace(b"/", b"/long", 1) * 200)
            await until(lambda: connection.state.connections)
            (one,) = connection.state.connections
            await until(lambda: one.flow.write_paused)
            found = one._unread()
            writer.transport.abort()
            return found

    assert asyncio.run(check()) < 2 * http.UNREAD_BYTES + 2 * len(BODY)


@pytest.mark.points(0)
def test_a_client_that_does_not_close_tls_holds_nobody_up(contexts):
    async def check():
        async with opened(tls=contexts[0]) as connection:
            wire = await asyncio.to_thread(
                lambda: contexts[1].wrap_socket(
                    socket.create_connection(connection.place), server_hostname="localhost"
                )
            )
            await until(lambda: connection.state.connections)
            connection.acceptor.close()
            for one in list(connection.state.connections):
                one.shutdown()
            async with asyncio.timeout(10):
                await until(lambda: not connection.state.connections)
            wire.close()

    asyncio.run(check())


@pytest.mark.parametrize("sent", [b"", b"\x16"])
def test_handshakes_that_do_not_come_make_room(contexts, sent):
    """All places are taken by stalled handshakes: clients are served, and the oldest are ended."""

    async def check():
        async with opened(most=4, tls=contexts[0]) as connection:
            stalled = [await connection() for _ in range(6)]
            for _, writer in stalled:
                writer.write(sent)
            answers = [await asyncio.wait_for(asked(connection, contexts[1]), 5) for _ in range(3)]
            return answers, [await ends(reader, 5) for reader, _ in stalled[:3]]

    answers, ended = asyncio.run(check())
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert ended == [b""] * 3
