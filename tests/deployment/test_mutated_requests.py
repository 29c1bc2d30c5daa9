"""Requests that are almost right, to servers as they run: whatever is refused changes nothing."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import random
import re
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("starlette")
if sys.platform != "linux":  # as for other tests of processes
    pytest.skip("these tests are for Linux", allow_module_level=True)

from deployment_processes import Fleet
from deployment_world import kept_reports

from ikos import Categories
from ikos.deployment import tokens
from ikos.deployment.opening import HYBRID, PrivateKey
from ikos.deployment.reports import ClientReport
from ikos.deployment.wire import decoded, encoded

pytestmark = pytest.mark.slow

REQUESTS = int(os.environ.get("IKOS_MUTATED_REQUESTS", "1500"))
LABELS = ["red", "green", "blue"]
VALUES = [LABELS[place % 3] for place in range(24)]
TOGETHER = 32
HEADERS = [b"", b"0", b"-1", b"+5", b"\xff\xfe", b"Bearer", b"Bearer \xc3\xa4", b"9" * 25]
HEADERS += [b"sha-256=::", b"chunked", b"x" * 9000, b"a\tb", b"1, 2", b'{"a": [', b"keep-alive"]
PATHS = [b"/../", b"//", b"%2f", b"%00", b"%ff", b"%C3%A4", b"?a=b", b"#", b"0", b"1" * 5000]


def request(method, path, body=b"", bearer=None):
    """Return a request as a client sends it: its first line and headers, and its body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: party"]
    if bearer is not None:
        lines.append(f"Authorization: Bearer {tokens.to_text(bearer)}")
    if body:
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        lines += [f"Content-Digest: sha-256=:{digest}:", f"Content-Length: {len(body)}"]
    return [line.encode() for line in lines], body


class Storm:
    """Draws requests, and knows what the parties must hold of them."""

    def __init__(self, running, seed):
        self.task, self.running, self.draw = running.task, running, random.Random(seed)
        self.everybody = range(self.task.parties)
        window = self.task.at(1)
        self.reports = [ClientReport.make(window, value) for value in VALUES]

    def usual(self, party):
        """Return a request of any kind: with a control, only what changes nothing if it is right.

        Window 0 is closed, and its batch agreed; window 1 is open; window 2 is not open yet.
        """
        draw, running = self.draw, self.running
        control = running.controls[party - 1] if party else running.operator
        strange = draw.choice([draw.randbytes(32), *running.controls[party:], running.secrets[0]])
        at = self.task.at(draw.choice([0, 1, 1, 1, 2])).path
        if draw.random() < 0.5:
            report = draw.choice(self.reports)
            token = tokens.for_party(draw.choice(running.secrets), self.task, party)
            return request("PUT", f"{at}/reports/{encoded(report.id)}", report.parts[party], token)
        ids = b"".join(self.complete)
        kinds = [("POST", "/close", b"", strange), ("GET", "", b"", None)]
        kinds += (
            [
                ("GET", "/reports", b"", control),
                ("PUT", "/batch", ids, control),
                ("PUT", "/batch", ids[16 * draw.randrange(3) :], control),
                ("GET", "/batch", b"", control),
                ("DELETE", "/batch", b"", strange),
                ("GET", "/agreement", b"", None),
            ]
            if party
            else [("POST", "/release", b"{}", strange), ("GET", "/page", b"", None)]
        )
        method, path, body, bearer = draw.choice(kinds)
        return request(method, at + path, body, bearer)  # fmt: skip

    def mutated(self, party):
        """Return the bytes of a request in which something is wrong, mostly."""
        draw, (lines, body) = self.draw, self.usual(party)
        for _ in range(draw.choice([1, 1, 2])):
            kind = draw.randrange(8)
            at = draw.randrange(len(lines))
            if kind == 0:
                lines.pop(at)
            elif kind == 1:
                lines.insert(draw.randrange(1, len(lines) + 1), lines[at])
            elif kind == 2:
                name = lines[at].partition(b":")[0]
                names = [name, b"Transfer-Encoding", b"Content-Encoding", b"Expect", b"Upgrade"]
                lines.append(draw.choice(names) + b": " + draw.choice(HEADERS))
            elif kind == 3:
                parts = lines[0].split(b"/")
                first, second = draw.choices(range(len(parts)), k=2)
                parts[first], parts[second] = parts[second], parts[first]
                lines[0] = b"/".join(parts)
            elif kind == 4:
                place = draw.randrange(len(lines[0]))
                lines[0] = lines[0][:place] + draw.choice(PATHS) + lines[0][place:]
            elif kind == 5:  # as those of another KEM are
                body = draw.choice([b"", body[:-1], body + b"x", 2 * body, body[1088:], body[:56]])
            elif kind == 6 and body:
                place = draw.randrange(len(body))
                body = (
                    body[:place] + bytes([body[place] ^ 1 << draw.randrange(8)]) + body[place + 1 :]
                )
            if kind in (5, 6) and draw.random() < 0.7:  # lengths and digests that are right
                lines = [one for one in lines if not one.startswith(b"Content-")]
                lines += request("PUT", "/", body)[0][2:]
            if not lines:
                lines = [b""]
        raw = bytearray(b"\r\n".join([*lines, b"", b""]) + body)
        for _ in range(draw.choice([0, 0, 1, 3])):
            raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        if draw.random() < 0.1:
            del raw[draw.randrange(len(raw)) :]
        return bytes(raw)


async def answer(port, raw):
    """Return the status of the first answer, 0 if none comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        return int((await asyncio.wait_for(reader.readline(), 1)).split()[1])
    except (TimeoutError, IndexError, ConnectionError):
        return 0
    finally:
        writer.close()


def kept(raw):
    """Return the row of a report that a request leaves."""
    head, _, body = raw.partition(b"\r\n\r\n")
    window, number = re.match(rb"PUT \S*/windows/(\d+)/reports/([\w-]{22})", head).groups()
    token = re.search(rb"(?im)^authorization:\s*bearer ([\w-]{43})", head)[1]
    length = int(re.search(rb"(?im)^content-length:\s*(\d+)", head)[1])
    digest = tokens.digest(tokens.from_text(token.decode()))
    return int(window), decoded(number.decode(), 16), digest, body[:length]


def stored(fleet, running, party):
    """Return all rows in a store but those that count its changes; of reports, each."""
    path = fleet.home(running, party) / "store.sqlite3"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        tables = ("complete", "opened", "fact")
        found = {
            one: {tuple(row) for row in store.execute(f"SELECT * FROM {one}")} for one in tables
        }
        return {**found, "report": kept_reports(store, running.task.part_bytes(party))}


def test_mutated_requests(tmp_path, quiet):
    """No error of a server, and no trace of what was refused; then the sum is exact."""
    now, kem = datetime.now(UTC).replace(microsecond=0), HYBRID
    fleet = Fleet(
        tmp_path, columns=6, keys=[PrivateKey(bytes(range(32)), kem)], kem=kem, windows=3,
        domain=Categories([3]), labels=LABELS, delta=0.9,
        opens=now - timedelta(hours=1, minutes=10), closes=now - timedelta(minutes=10),
    )  # fmt: skip
    try:
        (running,) = fleet.tasks
        storm = Storm(running, 20)
        fleet.set_clock(-3600)  # to the first window
        running.submit(VALUES)
        fleet.set_clock(0)
        assert running.ask(0, "POST", "/close", running.operator).status_code == 200
        control = running.controls[0]
        data = running.ask(1, "GET", "/reports", control).content
        storm.complete = [data[at : at + 16] for at in range(0, len(data), 16)]
        for party in storm.everybody[1:]:
            control = running.controls[party - 1]
            assert running.ask(party, "PUT", "/batch", control, content=data).status_code == 200
        for party in storm.everybody[1:]:  # each notes once that its batch was sent
            assert running.ask(party, "GET", "/batch", running.controls[party - 1]).is_success
        before = [stored(fleet, running, party) for party in storm.everybody]
        seen, rows = Counter(), {party: set() for party in storm.everybody}

        async def send(free, party, raw):
            async with free:
                status = await answer(int(running.task.address(party)[-5:]), raw)
            seen[status] += 1
            assert status != 500, raw
            if status == 201:
                rows[party].add(kept(raw))

        async def all_of_them():
            free = asyncio.Semaphore(TOGETHER)
            parties = ([*storm.everybody] * REQUESTS)[:REQUESTS]
            await asyncio.gather(*(send(free, j, storm.mutated(j)) for j in parties))

        asyncio.run(all_of_them())
        assert {200, 201, 400, 401, 403, 404, 405, 409, 410} <= set(seen), seen
        assert seen[0] + seen[429] < REQUESTS / 5, seen
        for party in storm.everybody:
            after = stored(fleet, running, party)
            assert after.pop("report") - before[party].pop("report") == rows[party]
            assert after == before[party]
            said = fleet.log(party).read_text()
            assert not re.search("ERROR|WARNING|Traceback|Exception", said), said
            assert fleet.processes[party].poll() is None
        found = running.release()
        assert found["result"]["estimate"] == [8, 8, 8]
    finally:
        fleet.end()
