"""What strangers may ask for does not stay; docs/deployment-security.md lists the bounds."""

from __future__ import annotations

import asyncio
import gc
from datetime import timedelta
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")

import httpx
from deployment_tasks import KEY, small_task

from ikos.deployment import analyzer, endpoint, intermediary, limits, shuffler, tokens
from ikos.deployment.limits import Addresses
from ikos.deployment.party_files import PartyConfig, read_secrets, write_party_files
from ikos.deployment.reports import ClientReport
from ikos.deployment.wire import encoded

EACH = 15  # windows in a round


@pytest.fixture
def parties(tmp_path, monkeypatch):
    """The analyzer and a shuffler of a task of many windows, with what answers their requests."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: clock.now))
    task = small_task(windows=20 * EACH)
    write_party_files(task, [KEY], tmp_path / "task")

    def refuse(request):
        raise httpx.ConnectError("nobody listens")

    found = {}
    with httpx.Client(transport=httpx.MockTransport(refuse)) as http:
        for name, start, application in (
            ("analyzer", analyzer.analyzer, analyzer.application),
            ("shuffler-1", shuffler.shuffler, intermediary.application),
        ):
            one = start(PartyConfig.read(tmp_path / "task" / name), http)
            addresses = Addresses(100, 100)
            made = application({task.name: one}, rate=100, addresses=addresses)
            found[one.config.party] = one, made
        yield SimpleNamespace(
            task=task, found=found, clock=clock, secrets=read_secrets(tmp_path / "task" / "clients")
        )
        for one, _ in found.values():
            one.end()


async def asked(application, method, path, host, token=None):
    """Ask without a network, and return the answer's status."""
    headers = {} if token is None else {"Authorization": f"Bearer {tokens.to_text(token)}"}
    transport = httpx.ASGITransport(application, client=(host, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://party") as http:
        return (await http.request(method, path, headers=headers)).status_code


async def a_round(parties, first):
    """Let many strangers ask for everything; return the statuses."""
    seen = set()
    for number in range(first, first + EACH):
        at, host = parties.task.at(number).path, f"2001:db8:0:{number:x}::1"
        for party, (_, application) in parties.found.items():
            parts = ["", "/agreement" if party else "/page", "/reports", "/peers", f"/x{number}"]
            for part in parts:
                seen.add(await asked(application, "GET", at + part, host, bytes(32)))
            place = f"{at}/reports/{encoded(number.to_bytes(16, 'big'))}"
            seen.add(await asked(application, "PUT", place, host, bytes([number % 256]) * 32))
            for other in (f"/tasks/{parties.task.name}", f"/tasks/{number}", "/live", "/metrics"):
                seen.add(await asked(application, "GET", other, host))
    parties.clock.now += 10
    return seen


@pytest.mark.slow
def test_what_strangers_ask_for_is_not_kept(parties):
    """A second round of other windows, addresses, ids and tokens leaves no more objects."""
    counts = []
    for first in (EACH, 2 * EACH):
        assert asyncio.run(a_round(parties, first)) == {200, 401, 404}
        gc.collect()
        counts.append(len(gc.get_objects()))
    # an endpoint has twenty; of addresses the latest 1,024 are known, and then forgotten
    assert counts[1] - counts[0] < 2 * EACH
    for one, _ in parties.found.values():
        assert set(one._lasting) | set(one._endpoints) == {0}  # which is open
    for one in gc.get_objects():
        if isinstance(one, limits.Rate):
            one.allows("the next one")
            assert len(one._until) <= 1
        assert not (isinstance(one, limits.Slots) and one._taken)


@pytest.mark.slow
def test_windows_are_kept_while_something_is_known_of_them(parties, monkeypatch):
    """One that is asked for meanwhile is the same for all, as two would not know of each other."""
    task, (one, _) = parties.task, parties.found[1]
    assert one.at(5) is not one.at(6)
    early = one.at(5)
    assert one.at(5) is early
    early.close()
    assert one.at(0) is not one.at(5)
    assert set(one._lasting) == {0, 5}
    del early
    report = ClientReport.make(task.at(7), 1)
    monkeypatch.setattr(endpoint, "now", lambda: task.at(7).opens)
    one.expire(endpoint.now())  # window 0 has closed, and nobody reported
    assert set(one._lasting) == {5}
    waiting = one.at(7).intake.accept([(report.id, bytes(32), report.parts[1])])
    assert waiting.result() == [True]
    monkeypatch.setattr(endpoint, "now", lambda: task.at(9).opens + timedelta(seconds=1))
    one.expire(endpoint.now())
    gc.collect()
    assert set(one._lasting) == {5, 7}
    again = one.at(7).intake.accept([(report.id, bytes(32), report.parts[1])])
    assert again.result() == [False]
