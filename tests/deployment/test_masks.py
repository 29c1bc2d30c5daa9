"""Masked vectors between parties: the sum of complete reports of one set, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pytest

pytest.importorskip("starlette")

from deployment_tasks import KEYS, made_of

from ikos import Box, PrivateVectorSum
from ikos.deployment import Task
from ikos.deployment.envelopes import envelope_overhead
from ikos.deployment.hpke import read_clear, unseal
from ikos.deployment.masks import MasksTerms
from ikos.deployment.reports import ClientReport
from ikos.deployment.wire import Problem
from ikos.results.conditions import Kind
from ikos.transports import Masked, Shuffled
from ikos.transports.masks import SEAL_BYTES

BOX = Box(5, -5, 250)
VECTORS = [[-5, 250, 7, 1, 9], [0, 1, 2, 3, 4], [3, 3, 250, 8, -5], [1, 1, 1, 1, 1]]
EXACT = np.sum(VECTORS, axis=0).tolist()


@cache
def few() -> Task:
    """Return a task of two windows and two shufflers, of whom nothing is proved."""
    now = datetime.now(UTC).replace(microsecond=0)
    how = {"kem": KEYS[0].kem, "min_honest": 3, "integers": True}
    protocol = MasksTerms.private_sum(30, BOX, 1, 0.5, 1500, messages=3, **how)
    analyzer, *shufflers = (f"http://127.0.0.1:{9000 + j}" for j in range(3))
    return Task(
        **MasksTerms.fields_of(protocol, BOX), delta=protocol.delta, labels=(), corrupt_clients=0,
        kem=how["kem"], analyzer=analyzer, shufflers=tuple(shufflers), nonce=bytes(16),
        public_keys=tuple(key.public_bytes for key in KEYS[:2]),
        opens=now - timedelta(hours=1), period=3600, windows=2,
    )  # fmt: skip


@pytest.fixture
def world(world_of, date, remembered, monkeypatch):
    """All parties of a task, in its first window, though too few messages prove nothing."""
    monkeypatch.setattr(Task, "_check_proof", lambda _: None)
    date.now = few().opens
    return world_of(few())


def restarted(world):
    """Let every party go on from its disk."""
    for party in range(world.task.parties):
        world.parties[party].end()
        world.start(party)


def filled(world, window=0):
    reports = [world.report(vector, window) for vector in VECTORS]
    world.send_all(reports, window)
    return reports


def agreed(world):
    """Close the first window, and let all shufflers agree to all reports; return the ids."""
    world.analyzer.close_all()
    ids = world.shufflers[1].ids()
    for shuffler in world.shufflers.values():
        shuffler.agree(ids)
    return ids


def refused(name, work, *arguments):
    with pytest.raises(Problem) as caught:
        b"".join(work(*arguments))
    assert caught.value.name == name


@pytest.mark.slow
@pytest.mark.parametrize("windows", [(1,), pytest.param((0, 1), marks=pytest.mark.slow)])
def test_the_sum_is_that_of_complete_reports_in_each_window(world, date, windows):
    """A masked vector without its key is left out, and so is a key without its masked vector."""
    for window in windows:
        date.now = world.task.at(window).opens
        filled(world, window)
        for client, parties in ((4, (0, 1)), (5, (1, 2))):
            sent = world.send(client, world.report([250] * 5, window), parties, window)
            assert set(sent.values()) == {True}
        restarted(world)
        result = world.party(0, window).release()
        assert (result.estimate, result.users) == (EXACT, 4)
    world.start(0)
    assert world.party(0, 1).release() == result
    assert not any(world.party(0, 1).count(table) for table in ("report", "opened"))


@pytest.mark.slow
def test_an_analyzer_that_ends_after_the_shufflers_forgot_has_the_seals(world, monkeypatch):
    filled(world)

    def ends(_):
        raise OSError("the analyzer ended")

    monkeypatch.setattr(world.analyzer, "_conclude", ends)
    with pytest.raises(OSError, match="ended"):
        world.analyzer.release()
    assert [shuffler.state for shuffler in world.shufflers.values()] == ["sent"] * 2
    restarted(world)
    assert world.analyzer.release().estimate == EXACT


@pytest.mark.slow
def test_seals_are_released_in_the_order_of_ids_and_only_of_the_set(world):
    reports = sorted(filled(world), key=lambda report: report.id)
    other = world.report([0] * 5)
    world.send(4, other, (1, 2))
    world.analyzer.close_all()
    shuffler, another = world.shufflers.values()
    refused("notAgreed", shuffler.batch)
    ids = b"".join(report.id for report in reports)
    shuffler.agree(ids)
    refused("notAgreed", shuffler.batch)  # while the other has not agreed
    another.agree(ids)
    data = b"".join(shuffler.batch())
    seals = [report.parts[1][-SEAL_BYTES:] for report in reports]
    assert data.endswith(b"".join(seals))
    assert len(data) == shuffler.released_bytes(4) == 4 * len(other.parts[1])
    assert other.parts[1][-SEAL_BYTES:] not in data
    first = world.task.block_bytes(0)
    sent = [data[i * first : (i + 1) * first] for i in range(4)]
    assert sent == sorted(report.parts[1][:first] for report in reports)


@pytest.mark.slow
def test_a_seal_of_another_report_makes_noise_of_the_sum(world):
    """As an envelope does that somebody replaced: documentation, Security of a deployment."""
    reports = [world.report(vector) for vector in VECTORS]
    one, other = (list(report.parts) for report in reports[:2])
    one[1], other[1] = (
        mine[1][:-SEAL_BYTES] + theirs[1][-SEAL_BYTES:]
        for mine, theirs in ((one, other), (other, one))
    )
    for place, parts in enumerate((one, other)):
        reports[place] = replace(reports[place], parts=tuple(parts))
    world.send_all(reports)
    assert world.analyzer.release().estimate != EXACT


@pytest.mark.slow
def test_parts_of_other_lengths_are_no_report(world):
    report, window = world.report(VECTORS[0]), world.task.at(0)
    lengths = [world.task.part_bytes(party) for party in range(3)]
    assert [len(part) for part in report.parts] == lengths
    assert ClientReport.from_json(report.to_json(window), window) == report
    for party in range(3):
        parts = list(report.parts)
        parts[party] = parts[party][:-1]
        with pytest.raises(ValueError, match="is not a valid report"):
            ClientReport.from_json(ClientReport(report.id, tuple(parts)).to_json(window), window)


def test_a_share_of_a_key_that_is_none_is_refused_by_the_analyzer(world):
    part = world.report(VECTORS[0]).parts[0]
    world.analyzer.stored(bytes(16), b"\xff" * 100 + part[100:])  # any bytes are a masked vector
    with pytest.raises(ValueError, match="element of the group"):
        world.analyzer.stored(bytes(16), part[:-2] + b"\xff\xff")


@pytest.mark.slow
def test_what_is_sent_is_what_the_page_says(world):
    """Opened and unmasked without the library's own way: documentation, The wire format."""
    window, report = world.task.at(0), world.report(VECTORS[1])
    terms = json.loads(world.task.to_json())["transport"]
    names = "degree", "modulus_bits", "dropped_bits", "digits", "digit_bits", "key_modulus"
    n, k, r, digits, digit_bits, q = map(terms.get, names)
    masked = n * terms["samples"] * (k - r) // 8
    key = np.array(read_clear(report.parts[0][masked:], world.task))
    seals = np.zeros(SEAL_BYTES, np.uint8)
    for column, part in enumerate(report.parts[1:], 1):
        place, row = 0, []
        for block, size in enumerate(map(world.task.block_bytes, range(len(world.task.blocks)))):
            row += unseal(part[place : place + size], KEYS[0], window, column, block)
            place += size
        key += np.array(row)
        seals ^= np.frombuffer(part[place:], np.uint8)
    key = ((key + q // 2) % q - q // 2).astype(object)
    stream = hashlib.shake_256(b"ikos masked vector" + seals.tobytes()).digest(masked)
    sent = bytes(a ^ b for a, b in zip(report.parts[0][:masked], stream, strict=True))
    seed = hashlib.sha256(b"ikos masked vectors 1" + bytes.fromhex(world.task.parameters))
    seed.update(world.task.id + bytes(4))
    words = hashlib.shake_128(seed.digest() + bytes(8)).digest(8 * -(-k // 64) * n)
    public = np.frombuffer(words, "<u8").astype(object).reshape(-1, n)
    public = sum(row << 64 * place for place, row in enumerate(public)) % (1 << k)
    lanes = np.frombuffer(sent, "<u8").astype(object).reshape(k - r, n // 64)
    lanes = sum(row << 64 * place for place, row in enumerate(lanes))
    upper = np.concatenate([lanes >> j * (k - r) for j in range(64)]) % (1 << k - r)
    product = np.convolve(public, key)
    product = product[:n] - np.append(product[n:], 0)
    shift = k - terms["plaintext_bits"]
    left = ((upper << r) - product + (1 << shift - 1)) % (1 << k) >> shift
    runs = [left >> j * digit_bits & (1 << digit_bits) - 1 for j in range(digits)]
    values = np.concatenate(runs)
    assert values[:5].tolist() == [x + 5 for x in VECTORS[1]]
    assert not values[5:].any()


def test_reports_are_bound_to_the_window_and_all_parameters(world):
    contexts = [world.task.transport.context(world.task.at(number)) for number in (0, 1)]
    digest = bytes.fromhex(world.task.parameters)
    assert contexts == [digest + world.task.at(number).bound for number in (0, 1)]
    first = world.report(VECTORS[0]), world.report(VECTORS[0])
    assert first[0].parts[0] != first[1].parts[0]


# What a task says


@cache
def proved() -> Task:
    """Return a draft."""
    how = {"domain": Box(3000), "transport": "masks", "kem": "x25519", "min_honest": 900}
    return Task.new(1000, 1, 1e-6, corrupt_shufflers=1, **how)


def text_of(task, **changed):
    values = json.loads(task.to_json())
    values["transport"] |= changed
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


@pytest.mark.slow
def test_the_analyzers_share_of_a_key_counts_as_one_of_a_colluding_shuffler():
    """The level is that without a clear share: its theorem holds for a set that is chosen."""
    task = proved()
    options = {
        "corrupt_shufflers": 2,
        "clear_share": False,
        "messages": task.transport.messages,
        "layout": task.transport.block_length,
        "overhead": envelope_overhead("x25519"),
    }
    other = PrivateVectorSum(
        1000, Box(3000), 1, 1e-6, min_honest=900, transport=Masked(Shuffled(**options))
    )
    made = task.protocol
    assert made.transport.masks == other.transport.masks
    assert made.parameter_hash == task.parameters
    assert made.guarantee.delta == other.guarantee.delta <= 1e-6
    assert made.transport.sigma == other.transport.sigma
    assert made.transport.parties == task.columns == other.transport.parties - 1
    assert made.guarantee.computational
    texts = {one.kind: str(one) for one in made.guarantee.conditions}
    assert texts[Kind.USERS] == "while at least 900 of 1,000 users are honest and present"
    assert texts[Kind.PARTIES].startswith("while at most 1 of the shufflers colludes")
    assert texts[Kind.CRYPTOGRAPHY].startswith("the encryption of the envelopes holds")


@pytest.mark.slow
def test_it_is_read_as_it_was_written_and_shows_its_transport():
    task = proved()
    assert Task.from_json(task.to_json()) == task
    assert json.loads(task.to_json())["transport"] == {"kind": "masks", **asdict(task.transport)}
    shown = task.summary().as_dict()
    assert shown["transport"] == "masks"
    masks = task.protocol.transport.masks
    envelopes = len(task.blocks) * 48 + 2 * masks.degree
    assert task.part_bytes(1) == envelopes + SEAL_BYTES
    assert task.part_bytes(0) == masks.masked_bytes + 2 * masks.degree
    assert shown["bytes_per_client"] == task.part_bytes(0) + task.columns * task.part_bytes(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"degree": 4096}, {"modulus_bits": 60}, {"modulus_bits": 30}, {"plaintext_bits": 1},
        {"dropped_bits": 0}, {"digit_bits": 1}, {"digits": 1}, {"key_modulus": 64},
        {"samples": 7}, {"deviation": 1}, {"deviation": True}, {"degree": None}, {"kind": "shares"},
        {"more": 1},
    ],
)  # fmt: skip
def test_masks_that_are_not_those_computed_are_refused(changed):
    with pytest.raises(ValueError, match=r"of ikos computes|refused: transport|byte for byte"):
        Task.from_json(text_of(proved(), **changed))


@pytest.mark.slow
def test_a_description_that_proves_less_than_it_says_is_refused():
    task = proved()
    assert Task.from_json(made_of(task)[0]).parameters == task.parameters
    for weaker in ({"messages": task.columns}, {"corrupt_shufflers": 2}):
        with pytest.raises(ValueError, match=r"delta must be at least the .* prove"):
            Task.from_json(made_of(task, **weaker)[0])


def test_more_shufflers_make_longer_blocks_of_keys():
    task = proved()
    shufflers = [f"https://s{j}.example" for j in range(task.columns + 8)]
    how = {"domain": Box(3000), "transport": "masks", "kem": "x25519", "min_honest": 900}
    more = Task.new(1000, 1, 1e-6, corrupt_shufflers=1, shufflers=shufflers, **how)
    assert more.columns == task.columns + 8
    assert more.transport.block_length > task.transport.block_length
    assert (more.transport.degree, more.part_bytes(0)) == (2048, task.part_bytes(0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"domain": Box(3000), "layout": 4}, "layout must not be given with masks, got 4"),
        ({"upper": 3}, "transport must not be 'masks' for numbers"),
    ],
)
def test_what_masks_cannot_be(options, words):
    with pytest.raises(ValueError, match=words):
        Task.new(1000, 1, 1e-6, transport="masks", **options)
    with pytest.raises(ValueError, match="transport must be"):
        Task.new(1000, 1, 1e-6, domain=Box(3000), transport="mixnet")
