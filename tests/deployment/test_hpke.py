"""Envelopes, tokens and reports: what opens where, and what nobody can tell."""

from __future__ import annotations

import json
import stat

import pytest

pytest.importorskip("starlette")

from deployment_tasks import KEY, small_task
from hypothesis import given
from hypothesis import strategies as st

from ikos.deployment import tokens
from ikos.deployment.hpke import PrivateKey, clear_part, info, read_clear, seal, unseal
from ikos.deployment.party_files import write_new
from ikos.deployment.reports import ClientReport
from ikos.vectors import Box, Categories

TASK = small_task()
FIRST = TASK.at(0)
OTHER = small_task(nonce=bytes(16)).at(0)
VECTORS = small_task(columns=40, values=(("domain", Box(5, 0, 300)),), windows=3)
shares = st.integers(0, TASK.modulus - 1)


@given(shares, st.integers(1, 3))
def test_what_is_sealed_opens_once_more(share, column):
    envelope = seal([share], FIRST, column, 0)
    assert len(envelope) == TASK.block_bytes(0)
    assert unseal(envelope, KEY, FIRST, column, 0) == [share]


@pytest.mark.parametrize(
    ("key", "window", "column", "block"),
    [
        (PrivateKey.generate(), VECTORS.at(1), 1, 2),
        (KEY, small_task(columns=40, values=(("domain", Box(5, 0, 2)),), windows=3).at(1), 1, 2),
        (KEY, VECTORS.at(0), 1, 2), (KEY, VECTORS.at(1), 2, 2), (KEY, VECTORS.at(1), 1, 3),
    ],
    ids=["key", "task", "window", "column", "block"],
)  # fmt: skip
def test_it_opens_nowhere_else(key, window, column, block):
    envelope = seal([5], VECTORS.at(1), 1, 2)
    assert unseal(envelope, KEY, VECTORS.at(1), 1, 2) == [5]
    with pytest.raises(ValueError, match=r"^an envelope does not open$") as caught:
        unseal(envelope, key, window, column, block)
    assert caught.value.__cause__ is None


@given(shares, st.data())
def test_no_bit_can_be_changed(share, data):
    envelope = bytearray(seal([share], FIRST, 1, 0))
    # the highest bit of an X25519 key is ignored (RFC 7748), but it is bound into the derived key
    place = data.draw(st.integers(0, 8 * len(envelope) - 1))
    envelope[place // 8] ^= 1 << place % 8
    with pytest.raises(ValueError, match="does not open"):
        unseal(bytes(envelope), KEY, FIRST, 1, 0)


def test_what_is_no_element_of_the_group():
    q = TASK.modulus
    assert read_clear(clear_part([q - 1, 0], TASK), TASK) == [q - 1, 0]
    for wrong in (q, q + 1):
        if wrong < 256**TASK.width:
            with pytest.raises(ValueError, match="element of the group"):
                read_clear(bytes(TASK.width) + wrong.to_bytes(TASK.width, "big"), TASK)
        with pytest.raises(ValueError, match="share must be at most"):
            seal([wrong], FIRST, 1, 0)
    for part in (b"", bytes(VECTORS.width + 1)):
        with pytest.raises(ValueError, match="element of the group"):
            read_clear(part, VECTORS)


def suite():
    pyhpke = pytest.importorskip("pyhpke")
    return pyhpke.CipherSuite.new(
        pyhpke.KEMId.DHKEM_X25519_HKDF_SHA256,
        pyhpke.KDFId.HKDF_SHA256,
        pyhpke.AEADId.AES128_GCM,
    )


def test_another_implementation_opens_what_is_sealed_here():
    other = suite()
    key = other.kem.deserialize_private_key(KEY.raw)
    envelope = seal([77], FIRST, 2, 0)
    context = other.create_recipient_context(envelope[:32], key, info(FIRST, 2, 0))
    assert context.open(envelope[32:]) == clear_part([77], TASK)


def test_what_another_implementation_seals_opens_here():
    other = suite()
    public = other.kem.deserialize_public_key(TASK.public_key)
    enc, context = other.create_sender_context(public, info(FIRST, 3, 0))
    assert unseal(enc + context.seal(clear_part([78], TASK)), KEY, FIRST, 3, 0) == [78]


def test_keys():
    key = PrivateKey.generate()
    assert key.public_bytes == PrivateKey(key.raw).public_bytes != KEY.public_bytes
    assert not any(text in repr(key) for text in (key.raw.hex(), repr(key.raw)))
    with pytest.raises(ValueError, match="must be 32 bytes"):
        PrivateKey(b"short")


# Tokens


def test_tokens_differ_by_client_party_and_task():
    secrets = [tokens.fresh() for _ in range(5)]
    assert len(set(secrets)) == 5
    made = {
        tokens.for_party(secret, task, party)
        for secret in secrets for task in (TASK, OTHER.task) for party in range(4)
    }  # fmt: skip
    assert len(made) == 5 * 2 * 4
    assert not made & set(secrets)
    assert tokens.from_text(tokens.to_text(secrets[0])) == secrets[0]


def test_token_lists(tmp_path):
    all_tokens = [tokens.fresh() for _ in range(100)]
    path = tmp_path / "tokens"
    write_new(path, tokens.TokenList.pack(all_tokens[:50]))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_new(path, b"")
    found = tokens.TokenList(path)
    assert all(tokens.digest(token) in found for token in all_tokens[:50])
    assert not any(tokens.digest(token) in found for token in all_tokens[50:])
    assert bytes(32) not in found
    assert b"\xff" * 32 not in found
    assert not any(token in path.read_bytes() for token in all_tokens)
    for wrong in (b"", b"x" * 33):
        other = tmp_path / f"wrong-{len(wrong)}"
        other.write_bytes(wrong)
        with pytest.raises(ValueError, match="digests of 32 bytes"):
            tokens.TokenList(other)


# Reports


def added_up(report, window=FIRST):
    """Return the sum of a report's shares, as the envelopes of each block open."""
    task = window.task
    rows = [read_clear(report.parts[0], task)]
    for column, part in enumerate(report.parts[1:], 1):
        first, row = 0, []
        for block in range(len(task.blocks)):
            envelope = part[first : first + task.block_bytes(block)]
            row += unseal(envelope, KEY, window, column, block)
            first += task.block_bytes(block)
        rows.append(row)
    found = [sum(entries) % task.modulus for entries in zip(*rows, strict=True)]
    return found if len(found) > 1 else found[0]


def test_a_report_adds_up_to_its_value(quiet):
    for value in range(2):
        assert added_up(ClientReport.make(FIRST, value)) == value
    reports = list(ClientReport.make_many(FIRST, [1, 0, 1]))
    assert [added_up(report) for report in reports] == [1, 0, 1]
    assert len({report.id for report in reports}) == 3
    assert all(len(report.parts) == TASK.messages for report in reports)


@pytest.mark.parametrize("layout", ["separate", "group"])
def test_a_report_of_a_vector_has_an_envelope_for_each_block(quiet, layout):
    values = (("domain", Box(5, 0, 3)), ("layout", layout))
    window = small_task(columns=40, values=values, windows=2).at(1)
    task, x = window.task, [3, 0, 1, 2, 3]
    assert task.blocks == ((1,) * 5 if layout == "separate" else (5,))
    report = ClientReport.make(window, x)
    assert added_up(report, window) == x
    lengths = [len(part) for part in report.parts]
    assert lengths == [5 * task.width, *[48 * len(task.blocks) + 5 * task.width] * task.columns]
    assert ClientReport.from_json(report.to_json(window), window) == report
    with pytest.raises(ValueError, match="no report of it"):
        ClientReport.from_json(report.to_json(window), task.at(0))


def test_labels_are_vectors(quiet):
    values = (("domain", Categories([3])), ("labels", ("red", "green", "blue")))
    window = small_task(columns=40, values=values).at(0)
    assert added_up(ClientReport.make(window, "green"), window) == [0, 1, 0]
    assert added_up(ClientReport.make(window, [0, 0, 1]), window) == [0, 0, 1]
    with pytest.raises(ValueError, match=r"^x\[0\] must be one of the labels"):
        ClientReport.make(window, "violet")


def test_a_report_of_another_task_or_damaged():
    text = ClientReport.make(FIRST, 1).to_json(FIRST)
    with pytest.raises(ValueError, match="no report of it"):
        ClientReport.from_json(text, OTHER)
    for place in range(len(ClientReport.from_json(text, FIRST).parts)):
        found = json.loads(text)
        found["parts"][place] = "x"  # not in the text: a short part may stand elsewhere, too
        with pytest.raises(ValueError, match="no report of it"):
            ClientReport.from_json(json.dumps(found), FIRST)


@pytest.mark.parametrize("value", [-1, 2, 0.5, float("nan"), "3", None])
def test_values_that_a_task_does_not_allow(value):
    with pytest.raises((TypeError, ValueError), match="x"):
        ClientReport.make(FIRST, value)
