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
from ikos.deployment.hpke import PrivateKey, clear_part, info, read_clear, seal, size, unseal
from ikos.deployment.party_files import write_new
from ikos.deployment.reports import ClientReport

TASK = small_task()
OTHER = small_task(nonce=bytes(16))
shares = st.integers(0, TASK.modulus - 1)


@given(shares, st.integers(1, 3))
def test_what_is_sealed_opens_once_more(share, column):
    envelope = seal(share, TASK, column)
    assert len(envelope) == size(TASK)
    assert unseal(envelope, KEY, TASK, column) == share


@pytest.mark.parametrize(
    ("key", "task", "column"),
    [(PrivateKey.generate(), TASK, 1), (KEY, OTHER, 1), (KEY, TASK, 2)],
    ids=["key", "task", "column"],
)
def test_it_opens_nowhere_else(key, task, column):
    envelope = seal(5, TASK, 1)
    with pytest.raises(ValueError, match=r"^an envelope does not open$") as caught:
        unseal(envelope, key, task, column)
    assert caught.value.__cause__ is None


@given(shares, st.data())
def test_no_bit_can_be_changed(share, data):
    envelope = bytearray(seal(share, TASK, 1))
    # the highest bit of an X25519 key is ignored (RFC 7748), but it is bound into the derived key
    place = data.draw(st.integers(0, 8 * len(envelope) - 1))
    envelope[place // 8] ^= 1 << place % 8
    with pytest.raises(ValueError, match="does not open"):
        unseal(bytes(envelope), KEY, TASK, 1)


def test_what_is_no_element_of_the_group():
    q = TASK.modulus
    assert read_clear(clear_part(q - 1, TASK), TASK) == q - 1
    for wrong in (q, q + 1):
        if wrong < 256**TASK.share_bytes:
            with pytest.raises(ValueError, match="element of the group"):
                read_clear(wrong.to_bytes(TASK.share_bytes, "big"), TASK)
        with pytest.raises(ValueError, match="share must be at most"):
            seal(wrong, TASK, 1)
    with pytest.raises(ValueError, match="element of the group"):
        read_clear(bytes(TASK.share_bytes + 1), TASK)


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
    envelope = seal(77, TASK, 2)
    context = other.create_recipient_context(envelope[:32], key, info(TASK, 2))
    assert context.open(envelope[32:]) == clear_part(77, TASK)


def test_what_another_implementation_seals_opens_here():
    other = suite()
    public = other.kem.deserialize_public_key(TASK.public_key)
    enc, context = other.create_sender_context(public, info(TASK, 3))
    assert unseal(enc + context.seal(clear_part(78, TASK)), KEY, TASK, 3) == 78


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
        for secret in secrets for task in (TASK, OTHER) for party in range(4)
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


def added_up(report, task=TASK):
    parts = [unseal(part, KEY, task, column) for column, part in enumerate(report.parts[1:], 1)]
    return (sum(parts) + read_clear(report.parts[0], task)) % task.modulus


def quiet(monkeypatch):
    """No noise, so that a report can be looked at."""
    import numpy as np

    from ikos.aggregation import private_sum

    none = np.empty(0, dtype=np.int64)
    monkeypatch.setattr(private_sum, "polya_shares", lambda *_, **__: (none, none))


def test_a_report_adds_up_to_its_value(monkeypatch):
    quiet(monkeypatch)
    for value in range(2):
        assert added_up(ClientReport.make(TASK, value)) == value
    reports = list(ClientReport.make_many(TASK, [1, 0, 1]))
    assert [added_up(report) for report in reports] == [1, 0, 1]
    assert len({report.id for report in reports}) == 3
    assert all(len(report.parts) == TASK.messages for report in reports)


def test_a_report_of_another_task_or_damaged():
    text = ClientReport.make(TASK, 1).to_json(TASK)
    with pytest.raises(ValueError, match="no report of it"):
        ClientReport.from_json(text, OTHER)
    for place in range(len(ClientReport.from_json(text, TASK).parts)):
        found = json.loads(text)
        found["parts"][place] = "x"  # not in the text: a short part may stand elsewhere, too
        with pytest.raises(ValueError, match="no report of it"):
            ClientReport.from_json(json.dumps(found), TASK)


@pytest.mark.parametrize("value", [-1, 2, 0.5, float("nan"), "3", None])
def test_values_that_a_task_does_not_allow(value):
    with pytest.raises((TypeError, ValueError), match="x"):
        ClientReport.make(TASK, value)
