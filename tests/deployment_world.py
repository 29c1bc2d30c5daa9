"""All parties of a task in one process, with faults where they are asked for."""

from __future__ import annotations

import random
import shutil
import threading
import time
from functools import partial
from pathlib import Path

from deployment_tasks import KEYS, SIGNERS

from ikos.deployment import tokens
from ikos.deployment.analyzer import AnalyzerEndpoint
from ikos.deployment.endpoint import PartyEndpoints
from ikos.deployment.helper import HelperEndpoint
from ikos.deployment.party_files import PartyConfig, folder_of, write_party_files
from ikos.deployment.relay import RelayEndpoint
from ikos.deployment.remote import RemoteError
from ikos.deployment.reports import ClientReport
from ikos.deployment.shuffler import ShufflerEndpoint
from ikos.deployment.wire import Problem


def kept_reports(connection, part_bytes):
    """Return the reports in a database: window, id, digest of the token, and part."""
    found, size = set(), 48 + part_bytes
    for window, parts in connection.execute("SELECT window, parts FROM report"):
        for at in range(0, len(parts), size):
            one = parts[at : at + size]
            found.add((window, one[:16], one[16:48], one[48:]))
    return found


def flip(path, place, bits=1):
    """Change a byte where it is, as a disk does."""
    with path.open("r+b", buffering=0) as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ bits]))


def until_it_is(check):
    """Wait for what other threads do."""
    until = time.monotonic() + 60
    while not check():
        assert time.monotonic() < until
        time.sleep(0.01)


def told(waiting):
    """Return whether a part is new, or the name of the problem."""
    [answer] = waiting.result()
    return answer.name if isinstance(answer, Problem) else answer


ENDPOINTS = {"shuffler": ShufflerEndpoint, "helper": HelperEndpoint, "relay": RelayEndpoint}


class Faults:
    """Breaks the connection at some of the calls, before or after what they do."""

    def __init__(self):
        self.planned = []
        self.calls = 0
        self._lock = threading.Lock()  # shufflers are asked at once

    def plan(self, *pairs):
        """Break call number k (from now on) before (False) or after (True) it was done."""
        self.planned = [(self.calls + number, after) for number, after in pairs]

    def around(self, work, *arguments):
        with self._lock:
            here, self.calls = self.calls, self.calls + 1
        if (here, False) in self.planned:
            raise RemoteError("the connection broke")
        try:
            found = work(*arguments)
        except Problem as refused:
            raise RemoteError(str(refused), refused.name) from None
        if (here, True) in self.planned:
            raise RemoteError("the connection broke")
        return found


class Direct:
    """A shuffler, as others speak to it, without a network."""

    def __init__(self, world, window, party):
        self.world, self.window, self.party = world, window, party
        self.name = world.task.party_name(party)

    def _shuffler(self):
        return self.world.parties[self.party].at(self.window.number)

    def close(self):
        self.world.faults.around(self._shuffler().close)

    def ids(self):
        return self.world.faults.around(self._shuffler().ids)

    def examine(self, receipts):
        return self.world.faults.around(self._shuffler().examine, receipts)

    def agree(self, ids):
        self.world.faults.around(self._shuffler().agree, ids)

    def batch(self, limit):
        found = self.world.faults.around(lambda: b"".join(self._shuffler().batch()))
        assert len(found) <= limit
        return found

    def agreement(self):
        return self.world.faults.around(self._shuffler().agreement)

    def forget(self):
        self.world.faults.around(self._shuffler().forget)


class World:
    """Everybody; the first window, where no other is named."""

    def __init__(self, task, folder: Path, base=None, ledger=None):
        self.task = task
        self.folder = folder / "task"
        if base is not None:
            shutil.copytree(base.folder, self.folder)
        else:
            keys = [key for key in KEYS if key.public_bytes in task.public_keys]
            signing = SIGNERS[: len(task.transport.signing_keys)]
            write_party_files(task, keys, self.folder, ledger, ledger and "sums", signing)
        text = (self.folder / "clients" / "tokens.txt").read_text()
        self.secrets = [tokens.from_text(line) for line in text.split()]
        self.faults = Faults()
        self.parties = {}
        try:
            for party in (*range(1, task.columns + 1), 0):
                self.start(party)
        except BaseException:
            self.stop()
            raise

    @property
    def analyzer(self):
        return self.parties[0].at(0)

    @property
    def shufflers(self):
        return {party: one.at(0) for party, one in self.parties.items() if party}

    def party(self, number, window=0):
        return self.parties[number].at(window)

    def start(self, number):
        """Start a party from its folder; where it runs already, as after a kill."""
        kind = ENDPOINTS[self.task.transport.intermediary] if number else AnalyzerEndpoint
        config = PartyConfig.read(self.folder / folder_of(self.task, number))
        self.parties[number] = PartyEndpoints(config, kind, partial(Direct, self))

    def stop(self):
        """End all parties that were started."""
        for party in self.parties.values():
            party.end()

    def send(self, client, report, parties=None, window=0):
        """Send a report, or some of its parts; return whether each is new, or the problem."""
        sent = {}
        for party, waiting in self._send(client, report, parties, window):
            if (new := told(waiting)) is True:
                one = self.party(party, window)
                one.received(report.id, one.stored(report.id, report.parts[party]))
            sent[party] = new
        return sent

    def send_all(self, reports, window=0):
        """Send the reports of the first clients; the stores write all of them at once."""
        waiting = [list(self._send(*one, window=window)) for one in enumerate(reports)]
        assert {told(one) for parts in waiting for _, one in parts} == {True}

    def _send(self, client, report, parties=None, window=0):
        parties = list(range(self.task.parties)) if parties is None else list(parties)
        random.Random(client).shuffle(parties)
        for party in parties:
            token = tokens.digest(tokens.for_party(self.secrets[client], self.task, party))
            one = self.party(party, window)
            stored = one.stored(report.id, report.parts[party])
            yield party, one.intake.accept([(report.id, token, stored)])

    def report(self, value, window=0):
        return ClientReport.make(self.task.at(window), value)
