"""Envelopes, tokens and reports: what opens where, and what nobody can tell."""

from __future__ import annotations

import hashlib
import json
import stat
from decimal import Decimal

import numpy as np
import pytest

pytest.importorskip("starlette")

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import mlkem, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from deployment_tasks import KEY, small_task
from hypothesis import given
from hypothesis import strategies as st

from ikos import Box, Categories
from ikos.deployment import opening, tokens
from ikos.deployment.hpke import PrivateKey, clear_part, info, read_clear, seal, unseal
from ikos.deployment.opening import KEMS, X25519, suite
from ikos.deployment.party_files import write_new
from ikos.deployment.reports import ClientReport

TASK = small_task()
FIRST = TASK.at(0)
CURVE = PrivateKey(KEY.raw, X25519)
SHORT = small_task(kem=X25519, public_keys=(CURVE.public_bytes,)).at(0)
BOTH = pytest.mark.parametrize(("window", "key"), [(FIRST, KEY), (SHORT, CURVE)], ids=[*KEMS])
OTHER = small_task(nonce=bytes(16)).at(0)
VECTORS = small_task(columns=40, values=(("domain", Box(5, 0, 300)),), windows=3)
shares = st.integers(0, TASK.modulus - 1)


@BOTH
@given(shares, st.integers(1, 3))
def test_what_is_sealed_opens_once_more(window, key, share, column):
    envelope = seal([share], window, column, 0)
    assert len(envelope) == window.task.block_bytes(0)
    assert unseal(envelope, key, window, column, 0) == [share]


@pytest.mark.parametrize(
    ("key", "window", "column", "block"),
    [
        (PrivateKey.generate(), VECTORS.at(1), 1, 2), (CURVE, VECTORS.at(1), 1, 2),
        (KEY, small_task(columns=40, values=(("domain", Box(5, 0, 2)),), windows=3).at(1), 1, 2),
        (KEY, VECTORS.at(0), 1, 2), (KEY, VECTORS.at(1), 2, 2), (KEY, VECTORS.at(1), 1, 3),
    ],
    ids=["key", "kem", "task", "window", "column", "block"],
)  # fmt: skip
def test_it_opens_nowhere_else(key, window, column, block):
    envelope = seal([5], VECTORS.at(1), 1, 2)
    assert unseal(envelope, KEY, VECTORS.at(1), 1, 2) == [5]
    with pytest.raises(ValueError, match=r"^an envelope could not be decrypted$") as caught:
        unseal(envelope, key, window, column, block)
    assert caught.value.__cause__ is None


@BOTH
@given(shares, st.data())
def test_no_bit_can_be_changed(window, key, share, data):
    envelope = bytearray(seal([share], window, 1, 0))
    # the highest bit of an X25519 key is ignored (RFC 7748), but it is bound into the derived key
    place = data.draw(st.integers(0, 8 * len(envelope) - 1))
    envelope[place // 8] ^= 1 << place % 8
    with pytest.raises(ValueError, match="could not be decrypted"):
        unseal(bytes(envelope), key, window, 1, 0)


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


def other_suite():
    pyhpke = pytest.importorskip("pyhpke")
    return pyhpke.CipherSuite.new(
        pyhpke.KEMId.DHKEM_X25519_HKDF_SHA256,
        pyhpke.KDFId.HKDF_SHA256,
        pyhpke.AEADId.AES128_GCM,
    )


def test_another_implementation_opens_what_is_sealed_here():
    other = other_suite()
    key = other.kem.deserialize_private_key(KEY.raw)
    envelope = seal([77], SHORT, 2, 0)
    context = other.create_recipient_context(envelope[:32], key, info(SHORT, 2, 0))
    assert context.open(envelope[32:]) == clear_part([77], TASK)


def test_what_another_implementation_seals_opens_here():
    other = other_suite()
    public = other.kem.deserialize_public_key(SHORT.public_key(0))
    enc, context = other.create_sender_context(public, info(SHORT, 3, 0))
    assert unseal(enc + context.seal(clear_part([78], TASK)), CURVE, SHORT, 3, 0) == [78]


def combined(lattice, curve, ciphertext, public):
    """The shared secret of MLKEM768-X25519 (X-Wing), as the draft combines those of both."""
    label = bytes.fromhex("5c2e2f2f5e5c")
    return hashlib.sha3_256(lattice + curve + ciphertext + public + label).digest()


def scheduled(shared, context):
    """The AEAD's key and first nonce by the key schedule of RFC 9180, section 5.1, base mode."""
    ids = b"HPKE" + b"".join(one.to_bytes(2, "big") for one in (0x647A, 1, 1))

    def extract(salt, label, ikm):
        return HKDF.extract(hashes.SHA256(), salt, b"HPKE-v1" + ids + label + ikm)

    def expand(label, length):
        given = length.to_bytes(2, "big") + b"HPKE-v1" + ids + label + bound
        return HKDFExpand(hashes.SHA256(), length, given).derive(secret)

    empty = bytes(32)  # of a salt, as HMAC pads it
    bound = b"\0" + extract(empty, b"psk_id_hash", b"") + extract(empty, b"info_hash", context)
    secret = extract(shared, b"secret", b"")
    return expand(b"key", 16), expand(b"base_nonce", 12)


def test_the_hybrid_is_that_of_the_draft_in_both_directions():
    """By ML-KEM, X25519, SHA3, HKDF and AES alone; the private keys are derived as it says."""
    seed = hashlib.shake_256(KEY.raw).digest(96)
    lattice = mlkem.MLKEM768PrivateKey.from_seed_bytes(seed[:64])
    curve = x25519.X25519PrivateKey.from_private_bytes(seed[64:])
    public = lattice.public_key().public_bytes_raw(), curve.public_key().public_bytes_raw()
    assert b"".join(public) == FIRST.public_key(0)
    # sealed here
    envelope = seal([77], FIRST, 2, 0)
    first, second, rest = envelope[:1088], envelope[1088:1120], envelope[1120:]
    exchanged = curve.exchange(x25519.X25519PublicKey.from_public_bytes(second))
    shared = combined(lattice.decapsulate(first), exchanged, second, public[1])
    key, nonce = scheduled(shared, info(FIRST, 2, 0))
    assert AESGCM(key).decrypt(nonce, rest, b"") == clear_part([77], TASK)
    # and opened here
    inner, first = lattice.public_key().encapsulate()
    fresh = x25519.X25519PrivateKey.generate()
    second = fresh.public_key().public_bytes_raw()
    shared = combined(inner, fresh.exchange(curve.public_key()), second, public[1])
    key, nonce = scheduled(shared, info(FIRST, 3, 0))
    sealed = first + second + AESGCM(key).encrypt(nonce, clear_part([78], TASK), b"")
    assert unseal(sealed, KEY, FIRST, 3, 0) == [78]


@pytest.mark.parametrize("kem", KEMS)
def test_keys(kem):
    key = PrivateKey.generate(kem)
    assert key.public_bytes == PrivateKey(key.raw, kem).public_bytes != KEY.public_bytes
    assert len(key.public_bytes) == KEMS[kem].public
    assert not any(text in repr(key) for text in (key.raw.hex(), repr(key.raw)))
    with pytest.raises(ValueError, match="must be 32 bytes"):
        PrivateKey(b"short", kem)


def test_a_library_without_the_hybrid(monkeypatch):
    """As version 47 of its wheels: it says so, and X25519 goes on working where it is asked for."""

    def unsupported(_):
        raise UnsupportedAlgorithm("ML-KEM-768 is not supported by this backend.")

    class Without:
        from_seed_bytes = staticmethod(unsupported)

    monkeypatch.setattr(opening, "MLKEM768PrivateKey", Without)
    for cached in (suite, opening.public_key):
        cached.cache_clear()
    try:
        assert PrivateKey.generate(X25519).kem == X25519
        assert unseal(seal([1], SHORT, 1, 0), CURVE, SHORT, 1, 0) == [1]
        for work in (PrivateKey.generate, lambda: ClientReport.make(FIRST, 1)):
            with pytest.raises(ValueError, match=r"^kem must be 'x25519' with cryptography"):
                work()
    finally:
        for cached in (suite, opening.public_key):
            cached.cache_clear()


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
    alike = [b"eight of" + bytes([j]) * 24 for j in range(4)]
    (tmp_path / "alike").write_bytes(alike[0] + alike[2])
    assert [one in tokens.TokenList(tmp_path / "alike") for one in alike] == [True, False] * 2
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
    assert all(len(report.parts) == TASK.parties for report in reports)


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("layout", "blocks"),
    [("separate", (1,) * 5), ("group", (5,)), ("blocks", (5,)), (2, (2, 2, 1))],
)
def test_a_report_of_a_vector_has_an_envelope_for_each_block(quiet, layout, blocks):
    values = (("domain", Box(5, 0, 3)), ("layout", layout))
    window = small_task(columns=40, values=values, windows=2).at(1)
    task, x = window.task, [3, 0, 1, 2, 3]
    assert task.blocks == blocks
    report = ClientReport.make(window, x)
    assert added_up(report, window) == x
    lengths = [len(part) for part in report.parts]
    part = (KEMS[task.kem].sealed + 16) * len(task.blocks) + 5 * task.width
    assert lengths == [5 * task.width, *[part] * task.columns]
    assert ClientReport.from_json(report.to_json(window), window) == report
    with pytest.raises(ValueError, match="not a valid report"):
        ClientReport.from_json(report.to_json(window), task.at(0))


def test_labels_are_vectors(quiet):
    values = (("domain", Categories([3])), ("labels", ("red", "green", "blue")))
    window = small_task(columns=40, values=values).at(0)
    assert added_up(ClientReport.make(window, "green"), window) == [0, 1, 0]
    assert added_up(ClientReport.make(window, [0, 0, 1]), window) == [0, 0, 1]
    with pytest.raises(ValueError, match=r"^x\[0\] must be one of the labels"):
        ClientReport.make(window, "violet")


def test_labels_that_are_numbers(quiet):
    """A column of them may be one of floats, or of texts of another program."""
    values = (("domain", Categories([2])), ("labels", ("0", "1")))
    task = small_task(columns=40, values=values)
    for one in ("1.0", "01", 1, 1.0, np.float32(1), Decimal("1.00")):
        assert task.values([one]).tolist() == [[0, 1]]
    assert task.values(np.array([0.0, 1.0])).tolist() == [[1, 0], [0, 1]]
    assert task.values([[0, 1]]).tolist() == [[0, 1]]
    for bad, lost in [(True, 0), ("x", 0), (0.5, 0), (np.nan, 1), (None, 1)]:
        what = ", not missing" * lost
        with pytest.raises(ValueError, match=rf"^x\[7\] must be one of the labels .*\){what}$"):
            task.values([1, bad], first=6)


def test_a_report_of_another_task_or_damaged():
    text = ClientReport.make(FIRST, 1).to_json(FIRST)
    with pytest.raises(ValueError, match="not a valid report"):
        ClientReport.from_json(text, OTHER)
    for place in range(len(ClientReport.from_json(text, FIRST).parts)):
        found = json.loads(text)
        found["parts"][place] = "x"  # not in the text: a short part may stand elsewhere, too
        with pytest.raises(ValueError, match="not a valid report"):
            ClientReport.from_json(json.dumps(found), FIRST)


@pytest.mark.parametrize("value", [-1, 2, 0.5, float("nan"), "3", None])
def test_values_that_a_task_does_not_allow(value):
    with pytest.raises((TypeError, ValueError), match="x"):
        ClientReport.make(FIRST, value)
