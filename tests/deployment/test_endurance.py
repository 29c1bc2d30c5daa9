"""Parties in processes under everything at once: many clients, random kills, full and bad disks.

Clients add their noise, and the tests know it: every sum must be exact to the last unit. The sizes
here are those of each run of the slow tests; IKOS_ENDURANCE=2000 makes them those whose outcome
docs/scale.md tells, with as many clients.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

pytest.importorskip("starlette")
if sys.platform != "linux":  # signals, prlimit
    pytest.skip("these tests are for Linux", allow_module_level=True)

from deployment_helpers import opened as opened_by_helpers
from deployment_processes import PATIENCE, Fleet, opened, put_part, run, until
from deployment_world import flip

from ikos import Categories, Ledger
from ikos.deployment.hpke import PrivateKey
from ikos.deployment.intermediary import agreed_digest
from ikos.deployment.reports import ClientReport, ReportStore
from ikos.transports import Shares

pytestmark = pytest.mark.slow

FULL = int(os.environ.get("IKOS_ENDURANCE", "0"))
CLIENTS, CLASSES, COLUMNS = (FULL, 50, 5) if FULL else (200, 8, 6)
KILLS, RELEASES, WINDOWS, FLIPS = (300, 20, 100, 35) if FULL else (12, 1, 12, 5)

COMMON_POINTS = [
    "Intake.accept:before", "Intake.accept:after", "Endpoint.close:before",
    "Endpoint.close:after", "Endpoint.expire:before", "Endpoint.expire:after",
    "Store._write_tally:after", "Store._line:before", "Store.shrink:before", "Store.shrink:after",
]  # fmt: skip
SHUFFLER_POINTS = [
    *COMMON_POINTS,
    "ShufflerEndpoint.ids:after", "ShufflerEndpoint.agree:before", "ShufflerEndpoint.agree:after",
    "ShufflerEndpoint.batch:after", "ShufflerEndpoint.released:within",
    "ShufflerEndpoint.forget:before", "ShufflerEndpoint.forget:after",
]  # fmt: skip
HELPER_POINTS = [
    *COMMON_POINTS, "HelperEndpoint.ids:after", "HelperEndpoint.agree:after",
    "HelperEndpoint.sum:after", "HelperEndpoint._keep:after", "HelperEndpoint.batch:after",
    "HelperEndpoint.forget:after", "KeyFile.erase:before", "KeyFile.erase:after",
]  # fmt: skip
ANALYZER_POINTS = [
    *COMMON_POINTS,
    "Endpoint.note:after", "AnalyzerEndpoint.close_all:after", "AnalyzerEndpoint._agree:after",
    "Ledger.enter_run:before", "ledger._write:after", "Ledger.enter_run:after",
    "RemoteShuffler.batch:after", "RemoteShuffler.forget:after",
    "AnalyzerEndpoint._open_batches:after",
    "AnalyzerEndpoint._sum:after", "AnalyzerEndpoint._conclude:after", "KeyFile.erase:before",
    "KeyFile.erase:after",
]  # fmt: skip


@pytest.fixture
def sums(monkeypatch):
    """Return a list that gets what all shares of each batch of clients add up to, noise and all."""
    made, usual = [], Shares.shares_of

    def shares_of(transport, reader, values, rng):
        found = usual(transport, reader, values, rng)
        made.append(found.sum(axis=(0, 1), dtype=object) % transport.q)
        return found

    monkeypatch.setattr(Shares, "shares_of", shares_of)
    return made


def test_three_windows_of_a_histogram_and_a_ledger_that_refuses_the_fourth(tmp_path, sums):
    """Clients ask which window is open; an analyzer that is killed pays once."""
    labels = [f"class {place}" for place in range(CLASSES)]
    ledger = Ledger.new(tmp_path / "ledger", 3, 0.1, slack=0)
    fleet = Fleet(
        tmp_path, columns=COLUMNS, ledger=ledger.path, users=CLIENTS, min_honest=CLIENTS // 2,
        delta=0.001 if FULL else 0.02, windows=4, domain=Categories([CLASSES]), labels=labels,
        closes=timedelta(hours=1) + datetime.now(UTC), opens=datetime.now(UTC), kem="x25519",
        keys=[PrivateKey.generate("x25519")],
    )  # fmt: skip
    try:
        (running,) = fleet.tasks
        task, parties = running.task, range(COLUMNS + 1)
        for window in range(4):
            fleet.set_clock((window + 0.5) * task.period)
            counts = [(window + 2) * place % 23 for place in range(CLASSES - 1)]
            users = CLIENTS if window < 3 else CLIENTS // 2
            counts.append(users - sum(counts))
            values = [label for label, n in zip(labels, counts, strict=True) for _ in range(n)]
            running.submit(values, window=None, connections=8, timeout=600)
            there = [running.ask(p, "GET", window=window).json()["reports"] for p in parties]
            assert there == [users] * len(parties)
            if window == 1:
                fleet.orders(0).write_text("RemoteShuffler.batch:before 3")
            with fleet.watched():
                found = running.release(window)
            states = {running.ask(p, "GET", window=window).json()["state"] for p in parties[1:]}
            if window < 3:
                assert (found["state"], states) == ("released", {"sent"})
                noise = centred(sums.pop() - counts, task.modulus)
                assert 0 < np.abs(noise).max() < 40 * task.protocol.noise.deviation
                assert found["result"]["estimate"] == (counts + noise).tolist()
            else:
                assert (found["state"], states) == ("stopped", {"deleted"})
                assert "the ledger refuses this release" in found["release"]["message"]
        assert fleet.deaths == 1
        keys = [entry.key for entry in ledger.entries]
        assert keys == [task.at(window).path for window in range(3)]
        for party in parties:
            with closing(sqlite3.connect(fleet.home(running, party) / "store.sqlite3")) as store:
                for table in ("report", "opened", "complete"):
                    assert store.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    finally:
        fleet.end()


def centred(numbers, modulus):
    """Return the residues of least absolute value."""
    return (numbers + modulus // 2) % modulus - modulus // 2


class Collection:
    """Windows of one task, whose ledger fits some releases, with what their clients kept."""

    def __init__(self, folder, windows, releases, holders=1, **options):
        self.keys = [PrivateKey.generate("x25519") for _ in range(windows * holders)]
        self.ledger = Ledger.new(folder / "ledger", releases, 0.9, slack=0)
        self.fleet = Fleet(
            folder, keys=self.keys, kem="x25519", ledger=self.ledger.path, users=60, min_honest=50,
            delta=0.05, windows=windows, opens=datetime.now(UTC), closes=timedelta(hours=1),
            **options,
        )  # fmt: skip
        (self.running,) = self.fleet.tasks
        self.task, self.parties = self.running.task, range(self.running.task.parties)
        self.kept, self.orders = folder / "reports", folder / "orders-client"
        self.releases, self.results = releases, {}
        self.clients_killed = 0

    def go_to(self, window):
        """Let it be in the middle of a window."""
        self.fleet.set_clock((window + 0.5) * self.task.period)

    def ask(self, party, window, path="", **options):
        control = self.running.controls[party - 1] if party else None
        return self.running.ask(party, "GET", path, control, window, **options)

    def states(self, window):
        return {self.ask(party, window).json()["state"] for party in self.parties[1:]}

    def sent(self, window, client):
        return ReportStore(self.kept, self.task.at(window)).of(self.running.secrets[client])

    def answer(self, window, client, report, party):
        """Return the status of the answer to a part, once there is one that is not for now."""
        return until(
            lambda: (
                (found := self.running.status(client, report, party, window)) not in
                (None, 429, 503, 507) and found
            ),
            "an answer to a part",
        )  # fmt: skip

    def submit(self, rng, window):
        """Let 52 clients report, the last in a process that is killed, another to some parties."""
        self.go_to(window)
        values = [rng.randrange(2) for _ in range(51)]
        self.running.submit(values, window=window, store=self.kept)
        command = ("client", self.orders, self.running.home, 51, self.kept)
        if rng.random() < 0.5:
            self.orders.write_text(f"client.send_part:before {rng.randint(1, 5)}")
        client = run(*command, 0, window)
        time.sleep(rng.uniform(0.5, 4))
        client.kill()
        self.clients_killed += client.wait(PATIENCE) == -signal.SIGKILL
        self.orders.unlink(missing_ok=True)
        again = run(*command, 1, window, stdout=subprocess.DEVNULL)
        assert again.wait(2 * PATIENCE) == 0
        partial = ClientReport.make(self.task.at(window), 1)
        for party in rng.sample(self.parties, rng.randint(1, min(4, self.task.columns))):
            until(lambda p=party: put_part(
                self.fleet.http, self.task.at(window), self.running.secrets[52], partial, p
            ), "a part is taken")  # fmt: skip
        for client in rng.sample(range(52), 6):  # what was acknowledged is there
            report = self.sent(window, client)
            assert {self.answer(window, client, report, p) for p in self.parties} == {200}

    def is_refused(self, window):
        """Assert that no party takes a new report, whatever was or was not acknowledged."""
        late = ClientReport.make(self.task.at(window), 1)
        assert {self.answer(window, 53, late, party) for party in self.parties} == {410}

    def release(self, window):
        """Release a window, or be refused by the ledger; nothing is released a second time."""
        found = self.running.release(window)
        allowed = len(self.results) < self.releases
        assert found["state"] == ("released" if allowed else "stopped"), found["release"]
        if not allowed:
            assert "the ledger refuses this release" in found["release"]["message"]
            assert found["result"] is None
            until(lambda: self.states(window) == {"deleted"}, "shufflers delete")
        else:
            self.results[window] = found["result"]
            sent = [self.sent(window, client) for client in range(52)]
            assert (found["complete"], found["result"]["users"]) == (52, 52)
            total = sum(self.opened(self.task.at(window), one) for one in sent)
            assert found["result"]["estimate"] == centred(total, self.task.modulus)
            assert self.states(window) == {"sent"}
            ids = b"".join(sorted(one.id for one in sent))
            for party in self.parties[1:]:
                agreed = self.ask(party, window, "/agreement").json()["digest"]
                assert agreed == agreed_digest(self.task.at(window), ids)
                assert self.ask(party, window, "/batch").status_code == 410
        self.is_paid()
        assert self.running.release(window)["result"] == self.results.get(window)
        self.is_erased(window)

    def opened(self, window, report):
        """Return what the shares of a report add up to."""
        return opened(window, report.parts, self.keys[window.number])[0]

    def is_paid(self):
        """Assert that the ledger has each release once, in order."""
        paid = [entry.key for entry in self.ledger.entries]
        assert paid == [self.task.at(window).path for window in self.results]

    def is_erased(self, window):
        """Assert that a window's private keys will be erased, and later ones are there."""
        for party in self.task.key_holders:
            file = self.fleet.home(self.running, party) / "private-key"
            until(lambda f=file: f.read_text().splitlines()[window] == 43 * ".", "it is erased")
            assert "." not in "".join(file.read_text().splitlines()[window + 1 :])


class Helped(Collection):
    """With two helpers instead of shufflers."""

    def __init__(self, folder, windows, releases):
        super().__init__(folder, windows, releases, 2, columns=2, transport="helpers")

    def opened(self, window, report):
        """Return what the shares of a report add up to."""
        (value,) = opened_by_helpers(window, report, self.keys[2 * window.number :][:2])
        return int(value)


@pytest.mark.parametrize(
    ("kind", "points"), [(Collection, SHUFFLER_POINTS), (Helped, HELPER_POINTS)]
)
def test_random_kills(tmp_path, kind, points):
    """Parties and clients die, starve, stand still and lose time; every promise is kept."""
    rng = random.Random(9)
    collection = kind(tmp_path, WINDOWS, RELEASES)
    fleet, running, period = collection.fleet, collection.running, collection.task.period
    try:
        with fleet.storm(rng, (points, ANALYZER_POINTS)):
            expiring, window = [], 0
            while (
                window < RELEASES + 2
                or len(collection.results) < RELEASES
                or fleet.deaths + collection.clients_killed < KILLS
            ):
                collection.submit(rng, window)
                fleet.set_clock((window + 1.5) * period)
                collection.is_refused(window)
                collection.go_to(window)  # a clock that is set back opens what it alone closed
                if window % 8 == 1:
                    expiring.append(window)
                else:
                    collection.release(window)
                    collection.is_refused(window)
                window += 1
                print(f"{window} windows, {fleet.deaths} + {collection.clients_killed} killed")
            for window in expiring:
                fleet.set_clock(WINDOWS * period + timedelta(days=31).total_seconds())
                until(lambda w=window: collection.states(w) == {"deleted"}, "it expires")
                until(lambda w=window: collection.ask(0, w).json()["state"] == "stopped", "also")
                collection.go_to(window)
                collection.is_refused(window)
                assert running.release(window)["result"] is None
        fleet.ready()
        for window, result in collection.results.items():
            assert collection.ask(0, window).json()["result"] == result
        collection.is_paid()
        assert len(collection.results) == RELEASES
        assert set(fleet.ends) == {-signal.SIGKILL}
    finally:
        fleet.end()


def test_flipped_bits(tmp_path):
    """One bit of a file is flipped: the sum is exact, or there is none until it is repaired."""
    rng = random.Random(9)
    collection = Collection(tmp_path, FLIPS, FLIPS)
    fleet, running = collection.fleet, collection.running
    outcomes = []
    try:
        for window in range(FLIPS):
            collection.go_to(window)
            values = [rng.randrange(2) for _ in range(52)]
            running.submit(values, window=window, store=collection.kept)
            kind = ("store.sqlite3", "store.sqlite3-wal", "store.sqlite3-count", "private-key",
                    "ledger")[window % 5]  # fmt: skip
            party = rng.choice(collection.parties) if kind.startswith("store") else 0
            fleet.kill(party)
            home, safe = fleet.home(running, party), tmp_path / "safe"
            if kind == "store.sqlite3":
                with closing(sqlite3.connect(home / kind)) as store:
                    store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            file = tmp_path / "ledger" if kind == "ledger" else home / kind
            whole = home if kind.startswith("store") else file
            shutil.copytree(whole, safe) if whole is home else shutil.copy2(whole, safe)
            own = range(44 * window, 44 * window + 43)  # its key, as others may be erased
            place = rng.choice(own if kind == "private-key" else range(file.stat().st_size))
            bit = 1 << rng.randrange(8)
            flip(file, place, bit)
            fleet.start(party)
            outcome = tried(fleet, running, party, window)
            outcomes.append((kind, outcome))
            print(kind, party, place, outcome)
            if outcome != "released":
                fleet.kill(party)
                if whole is home:
                    shutil.rmtree(whole)
                safe.rename(whole)
                fleet.start(party)
            elif whole is home:
                shutil.rmtree(safe)
            else:
                safe.unlink()
            if outcome == "released" and kind == "ledger" and not readable(collection.ledger):
                flip(file, place, bit)  # of an earlier entry, which only its readers check
            fleet.ready()
            collection.release(window)
        assert {kind for kind, outcome in outcomes if outcome != "released"}
    finally:
        fleet.end()


def readable(ledger):
    """Whether all entries are what was written."""
    try:
        return bool(ledger.entries)
    except ValueError:
        return False


def tried(fleet, running, party, window):
    """Return how a release ends: it is made, hindered, or a party does not start."""
    process = fleet.processes[party]
    until(lambda: process.poll() is not None or fleet.answers(party), "it starts or refuses")
    if process.poll() is not None:
        assert process.returncode > 0
        return "not started"
    running.ask(0, "POST", "/release", running.operator, window)

    def done():
        found = running.ask(0, "GET", window=window).json()
        assert found["state"] != "stopped", found["release"]
        return "released" if found["state"] == "released" else found["release"]["message"]

    return until(done, "a release or what hinders it")
