"""Counts of categories between parties: what each party has, and whom it hides."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pytest

pytest.importorskip("starlette")

from deployment_tasks import KEYS

from ikos import Box, Categories
from ikos.baselines import FrequencyEstimation
from ikos.deployment import Task
from ikos.deployment.analyzer import Stopped
from ikos.deployment.hpke import unseal
from ikos.deployment.reports import ClientReport
from ikos.primitives.randomness import secure

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


@pytest.mark.parametrize("options", [{}, {"categories": 5000, "set_size": 30}], ids=["one", "sets"])
def test_a_client_sends_one_part_of_constant_length_with_its_category(options) -> None:
    """Its own message comes first, and each random one is there with the probability of the task:
    not as often with 1e-9."""
    task = task_of(**options)
    protocol = task.protocol
    value = "blue" if not options else np.eye(1, 5000, 2, dtype=int)[0]
    random = 0
    for report in ClientReport.make_many(task.at(0), [value] * 40):
        assert list(map(len, report.parts)) == [0, task.part_bytes(1)]
        own, *others = messages_of(task, report.parts[1])
        assert len(others) == protocol.extra
        assert protocol.counts(np.array([own]))[2] == 1
        assert protocol.counts(np.array([own])).sum() <= protocol.set_size
        random += sum(map(bool, others))
    draws = 40 * protocol.extra
    mean, deviation = draws * protocol.chance, float(draws * protocol.chance) ** 0.5
    assert abs(random - mean) <= 7 * deviation + 20


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


@pytest.mark.slow
def test_envelopes_that_do_not_open_stop_the_release(world) -> None:
    made = sent(world, CHOSEN[:259])
    part = bytearray(made[0].parts[1])
    part[-1] ^= 1
    other = ClientReport(bytes(16), (b"", bytes(part)))
    world.send(300, other)
    with pytest.raises(Stopped, match=r"^\d+ envelopes of shuffler 1 do not open or are dup"):
        world.analyzer.release()


def test_the_guarantee_names_the_shuffler_and_the_encryption() -> None:
    task = task_of()
    words = list(map(str, task.protocol.guarantee.conditions))
    assert task.columns == 1
    assert task.protocol.guarantee.delta <= task.delta
    assert [
        sum(text in one for one in words)
        for text in ("at least 250 of 320", "not collude", "unchanged", "HPKE with ")
    ] == [1] * 4
    plain = FrequencyEstimation(320, Categories([4]), 6, 1e-6, min_honest=250)
    assert plain.extra == task.protocol.extra
    assert plain.chance == task.protocol.chance == task.noise[1]


def test_a_description_is_read_as_it_was_written_and_no_number_can_be_changed() -> None:
    task = task_of()
    assert Task.from_json(task.to_json()) == task
    values = json.loads(task.to_json())
    assert values["transport"] == {
        "kind": "frequencies",
        "set_size": 1,
        "prime": 4,
        "extra": task.transport.extra,
    }
    changes = {"modulus": "6", "precision": 2, "integers": False, "corrupt_shufflers": 1,
               "noise": ["binomial", "1/1000"], "epsilon": "2", "users": 321, "min_honest": 249,
               "delta": "1/10000000", "parameters": "0" * 64}  # fmt: skip
    for name, value in changes.items():
        with pytest.raises(ValueError, match=r"^a task "):
            Task.from_json(
                json.dumps(values | {name: value}, sort_keys=True, separators=(",", ":"))
            )
    for name in ("set_size", "prime", "extra"):
        terms = replace(task.transport, **{name: getattr(task.transport, name) + 1})
        with pytest.raises(ValueError, match="not those that this version"):
            Task(
                **{one.name: getattr(task, one.name) for one in fields(task)} | {"transport": terms}
            )


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"domain": Box(4)}, "domain"),
        ({"domain": Categories([2, 3])}, "domain"),
        ({"layout": "blocks"}, "layout"),
        ({"precision": 3}, "precision"),
        ({"modulus": 64}, "modulus"),
        ({"integers": True}, "integers"),
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
