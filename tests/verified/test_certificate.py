"""Certificates: what is valid is accepted, also by a second reader; what is not names its line."""

from __future__ import annotations

import io

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from verified import second

import ikos
from ikos.testing import DeterministicRandom
from ikos.transports.base import ID_BYTES
from ikos.verified import certificate
from ikos.verified.certificate import Certificate, digest, verify

WINDOW = b"window 3"
SIGNERS = [Ed25519PrivateKey.from_private_bytes(bytes([j]) * 32) for j in (1, 2)]


def made(protocol, values, signers=(), seed=0) -> Certificate:
    """Return the certificate of a sum, by the roles one after the other."""
    rng = DeterministicRandom(seed)
    reports = protocol.share(values, rng, context=WINDOW)
    view = protocol.shuffle(reports, rng, context=WINDOW)
    context = protocol.context(WINDOW)
    evidence = protocol.transport.totals(view, context).evidence
    size = protocol.transport.public_bytes[0]
    rows = [row.tobytes() for row in evidence.public]
    listed = sorted(
        (name, row[:size], row[size:]) for name, row in zip(evidence.ids, rows, strict=True)
    )
    receipts = [(name, sent + second.sha256(proof)) for name, sent, proof in listed]
    return Certificate(
        protocol.parameters,
        WINDOW,
        listed,
        evidence.sums,
        evidence.blinding,
        [key.public_key().public_bytes_raw() for key in signers],
        [key.sign(digest(context, receipts)) for key in signers],
    )


def text(of: Certificate) -> bytes:
    return b"".join(of.lines())


def checked(data: bytes):
    return verify(io.BytesIO(data))


NUMBERS = ikos.PrivateSum(6, 20, 0.01, lower=-1, upper=7, min_honest=4, transport="verified")
PROTOCOLS = {
    "number": (NUMBERS, [0, 7, 3.5, -1, 2]),
    "secure": (ikos.SecureSum(6, upper=9, min_honest=2, transport="verified"), [9, 0, 3]),
    "vector": (
        ikos.SecureVectorSum(4, 2, upper=3, min_honest=2, transport="verified"),
        [[3, 0], [2, 2], [1, 3]],
    ),
    "class": (
        ikos.PrivateVectorSum(4, ikos.Categories([3]), 30, 0.01, transport="verified"),
        np.eye(3)[[0, 1, 1, 2]],
    ),
    "shuffled": (
        ikos.SecureSum(100, upper=3, min_honest=90, sigma=2, transport="verified-shuffled"),
        [1] * 95,
    ),
}


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.points(5)
def test_a_certificate_is_that_of_its_sum(kind):
    protocol, values = PROTOCOLS[kind]
    of = made(protocol, values, () if kind == "shuffled" else SIGNERS)
    result = checked(text(of))
    assert result.users == len(values)
    assert list(result.sums) == list(of.sums)
    assert result.parameter_hash.hex() == protocol.parameter_hash
    assert result.min_honest == protocol.min_honest
    assert second.certificate(text(of)) == (len(values), list(of.sums))
    if "secure_sum" not in protocol.parameters:
        assert result.estimates is None
        assert list(of.sums) == np.sum(values, axis=0).reshape(-1).tolist()
        return
    rng = DeterministicRandom(0)
    reports = protocol.share(values, rng, context=WINDOW)
    estimate = protocol.analyze(protocol.shuffle(reports, rng, context=WINDOW), context=WINDOW)
    assert result.estimates == pytest.approx(np.reshape(estimate.estimate, -1).tolist())


def test_ids_are_those_of_reports():
    assert certificate.ID_BYTES == ID_BYTES
