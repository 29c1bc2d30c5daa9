"""Counts of categories between parties: what each party has, and whom it hides."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

pytest.importorskip("starlette")

from deployment_tasks import KEYS
from scipy.stats import binomtest
from statistical import FALSE_ALARM, uniform_p_value

from ikos import Box, Categories
from ikos.accounting.lwy22 import random_messages_delta
from ikos.baselines import FrequencyEstimation
from ikos.deployment import Task
from ikos.deployment.analyzer import Stopped
from ikos.deployment.hpke import info, unseal
from ikos.deployment.opening import public_key, suite
from ikos.deployment.reports import ClientReport
from ikos.primitives.randomness import secure
from ikos.results.sums import Cost
from ikos.transports.base import Totals

LABELS = ("red", "green", "blue", "none")
CHOSEN = ["red"] * 150 + ["green"] * 100 + ["blue"] * 50


@cache
def task_of(categories: int = 4, users: int = 320, **options: object) -> Task:
    """Return a task of two windows."""
    now = datetime.now(UTC).replace(microsecond=0)
    labels = LABELS if categories == 4 else ()
    return Task.new(
        users, 6, 1e-6, domain=Categories([categories]), labels=labels, transport="frequencies",
        min_honest=250, corrupt_clients=10, analyzer="http://127.0.0.1:9000",
        shufflers=["http://127.0.0.1:9001"], kem=KEYS[0].kem,
        public_keys=[key.public_bytes for key in KEYS[:2]], windows=2,
        opens=now, closes=timedelta(hours=1), **options,
    )  # fmt: skip


def messages_of(task: Task, part: bytes) -> list[int]:
    """Open a client's envelopes for the shuffler, in the first window."""
    size = task.block_bytes(0)
    envelopes = [part[start : start + size] for start in range(0, len(part), size)]
    return [unseal(one, KEYS[0], task.at(0), 1, 0)[0] for one in envelopes]


SETS = {"categories": 5000, "set_size": 30}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, SETS], ids=["one", "sets"])
def test_a_client_sends_its_category_among_random_ones(options) -> None:
    """Uniform ones, each there with the probability of the task, its own at a uniform place: 1e-9
    each."""
    task = task_of(**options)
    protocol, clients = task.protocol, 250
    value = "blue" if not options else np.eye(1, 5000, 2, dtype=int)[0]
    places, others, present = [], [], 0
    for report in ClientReport.make_many(task.at(0), [value] * clients):
        assert [len(part) for part in report.parts] == [task.part_bytes(0), task.part_bytes(1)]
        messages = messages_of(task, report.parts[1])
        named = [i for i, one in enumerate(messages) if one and names(protocol, one, 2)]
        assert len(messages) == protocol.extra + 1
        assert named
        places += named[:1] if len(named) == 1 else []
        others += [one for one in messages if one and not names(protocol, one, 2)]
        present += sum(map(bool, messages)) - 1
    draws = clients * protocol.extra
    assert binomtest(present, draws, float(protocol.chance)).pvalue > FALSE_ALARM
    assert uniform_p_value(places, protocol.extra + 1) > FALSE_ALARM
    if not options:  # all but the client's own category
        assert uniform_p_value([one - 1 - (one > 3) for one in others], 3) > FALSE_ALARM
    else:
        assert uniform_p_value([16 * one // task.order for one in others], 16) > FALSE_ALARM


def names(protocol: FrequencyEstimation, message: int, category: int) -> bool:
    """Whether a message names a category."""
    return bool(protocol.counts(np.array([message]))[category])


def test_what_the_shuffler_releases_does_not_depend_on_the_order_of_clients() -> None:
    task = task_of()
    parts = [
        report.parts[1] for report in ClientReport.make_many(task.at(0), ["red", "green", "none"])
    ]
    released = b"".join(task.transport.released(task, parts))
    assert released == b"".join(task.transport.released(task, parts[::-1]))
    size = task.block_bytes(0)
    envelopes = [released[start : start + size] for start in range(0, len(released), size)]
    assert envelopes == sorted(envelopes)
    assert Counter(messages_of(task, released)) == sum(
        (Counter(messages_of(task, part)) for part in parts), Counter()
    )


@pytest.fixture
def world(world_of, date):
    """All parties of a task, in its first window."""
    date.now = task_of().opens
    return world_of(task_of())


def sent(world, values):
    made = list(ClientReport.make_many(world.task.at(0), values))
    for client, report in enumerate(made):
        world.send(client, report)
    return made


@pytest.mark.slow
def test_counts_are_those_of_complete_reports(world, monkeypatch) -> None:
    """They are what the protocol makes of the same messages, with two processes or none."""
    made = sent(world, CHOSEN)
    world.send(301, world.report("none"), (0,))
    world.send(302, world.report("none"), (1,))
    messages = np.array([messages_of(world.task, report.parts[1]) for report in made]).T
    protocol: FrequencyEstimation = world.task.protocol
    expected = protocol.analyze(protocol.shuffle(messages, secure(None)))
    monkeypatch.setattr("ikos.deployment.openers.cores", lambda: 2)
    monkeypatch.setattr("ikos.deployment.openers.ENOUGH", 100)
    result = world.analyzer.release()
    assert result.users == 300
    assert result.estimate == expected.estimate.tolist()
    for low, high, count in zip(result.sum_low, result.sum_high, (150, 100, 50, 0), strict=True):
        assert low - 40 <= count <= high + 40
    assert not any(world.party(0, 0).count(table) for table in ("report", "opened"))


def damaged(task: Task, report: ClientReport) -> bytes:
    """Change a bit of the last envelope."""
    part = bytearray(report.parts[1])
    part[-1] ^= 1
    return bytes(part)


def doubled(task: Task, report: ClientReport) -> bytes:
    """Send one envelope twice."""
    size = task.block_bytes(0)
    return report.parts[1][:-size] + report.parts[1][:size]


def too_large(task: Task, report: ClientReport) -> bytes:
    """Send a message that there is not."""
    size = task.block_bytes(0)
    plain = task.modulus.to_bytes(task.width, "big")
    bound = info(task.at(0), 1, 0)
    sealed = suite(task.kem).encrypt(plain, public_key(task.at(0).public_key(0), task.kem), bound)
    return report.parts[1][:-size] + bytes(sealed)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [damaged, doubled, too_large])
def test_envelopes_without_a_message_of_the_task_stop_the_release(world, wrong) -> None:
    made = sent(world, CHOSEN[:259])
    part = wrong(world.task, made[0])
    world.send(300, ClientReport(bytes(16), (b"", part)))
    with pytest.raises(
        Stopped, match=r"^\d+ envelopes of shuffler 1 could not be decrypted or are"
    ):
        world.analyzer.release()


@pytest.mark.slow
def test_an_envelope_opens_in_its_window_alone(world, date) -> None:
    date.now = world.task.at(1).opens
    for client, report in enumerate(ClientReport.make_many(world.task.at(0), CHOSEN[:260])):
        world.send(client, report, window=1)
    with pytest.raises(Stopped, match="could not be decrypted"):
        world.party(0, 1).release()


def test_a_result_is_of_enough_reports_and_says_what_was_sent() -> None:
    task = task_of()
    terms, copies = task.transport, task.transport.copies
    totals = Totals([150, 90, 60, 20, 320], 300)
    assert terms.result(task, totals).cost == Cost(300, copies, 3)
    with pytest.raises(ValueError, match="min_honest = 250"):
        terms.result(task, replace(totals, users=249))
    assert task.summary().data["blocks"] == copies
    assert task.summary().data["messages"] == copies
    assert task.transport.release_seconds(task) > 320 * copies * 60e-6


def test_the_guarantee_names_the_shuffler_and_the_encryption() -> None:
    task = task_of()
    words = list(map(str, task.protocol.guarantee.conditions))
    assert task.columns == 1
    assert task.protocol.guarantee.delta <= task.delta
    assert [
        sum(text in one for one in words)
        for text in ("at least 250 of 320", "not collude", "unchanged", "HPKE with ")
    ] == [1] * 4
    sent, chance = task.transport.extra, task.noise[1]
    by_honest = [random_messages_delta(6, n * sent, 2 * chance / 4) for n in (250, 240)]
    assert by_honest[0] <= 1e-6 < by_honest[1]
    between = Fraction(1e-6) * Fraction(2**53 + 1, 2**53)  # two doubles
    assert (
        Task.new(
            320, 6, between, domain=Categories([4]), transport="frequencies", min_honest=250
        ).protocol.guarantee.delta
        == 1e-6
    )


def test_a_description_is_read_as_it_was_written_and_no_number_can_be_changed() -> None:
    task = task_of()
    assert Task.from_json(task.to_json()) == task
    values = json.loads(task.to_json())
    assert values["transport"] == {
        "kind": "frequencies",
        "set_size": 1,
        "progression_modulus": 4,
        "extra": task.transport.extra,
    }
    box = {"kind": "box", "dimension": 4, "lower": "0x0.0p+0", "upper": "0x1.0p+0"}
    changes = {
        "modulus": "6",
        "domain": box,
        "precision": 2,
        "integers": False,
        "corrupt_shufflers": 1,
        "noise": ["binomial", "1/1000"],
        "epsilon": "2",
        "users": 321,
        "min_honest": 249,
        "delta": "1/10000000",
        "parameters": "0" * 64,
    }
    for name, value in changes.items():
        with pytest.raises(ValueError, match=r"^a task "):
            Task.from_json(
                json.dumps(values | {name: value}, sort_keys=True, separators=(",", ":"))
            )
    for name in ("set_size", "progression_modulus", "extra"):
        terms = replace(task.transport, **{name: getattr(task.transport, name) + 1})
        with pytest.raises(ValueError, match="not those that this version"):
            Task(
                **{one.name: getattr(task, one.name) for one in fields(task)} | {"transport": terms}
            )


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"domain": Box(4)}, "domain"),
        ({"domain": "four"}, "domain"),
        ({"lower": 0}, "lower"),
        ({"kem": "rsa"}, "kem"),
        ({"windows": 1.5}, "windows"),
        ({"closes": 5}, "closes"),
        ({"opens": "now"}, "opens"),
        ({"domain": Categories([2, 3])}, "domain"),
        ({"layout": "blocks"}, "layout"),
        ({"precision": 0}, "precision"),
        ({"modulus": 64}, "modulus"),
        ({"corrupt_shufflers": 1}, "corrupt_shufflers"),
        ({"shufflers": ["https://a.example", "https://b.example"]}, "shufflers"),
        ({"set_size": 3}, "set_size"),
        ({"transport": "shares", "set_size": 2}, "set_size"),
        ({"transport": "counts"}, "transport"),
    ],
    ids=str,
)
def test_what_does_not_go_with_frequencies_is_refused(changes, name) -> None:
    given = {"domain": Categories([4]), "transport": "frequencies"} | changes
    with pytest.raises((ValueError, TypeError), match=f"^{name} "):
        Task.new(320, 6, 1e-6, **given)
