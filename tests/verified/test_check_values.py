"""Check values that another implementation must reproduce, byte for byte."""

import hashlib

import pytest

from ikos import InvalidType, InvalidValue
from ikos.verified import group
from ikos.verified.proofs import Proofs
from ikos.verified.statements import MAX_BITS, ORDER, bounded, one_hot, weights

C47 = "0231c38acd884a6a074cf9c6ad03aa90014335ed9fa42bb4b35b3ef2a11fc67ff0"


@pytest.mark.parametrize(
    ("label", "first", "last"),
    [
        ("h", "0219c3652476e374cb2a25284a8a1643", "d8741ad37ef36177de5152f853110df86d"),
        ("k", "027521c5", "5b986bf9"),
        ("bit 0", "0294b333", "af26be2"),
    ],
)
def test_generators(label, first, last):
    encoding = group.encode(group.generator(label)).hex()
    assert encoding.startswith(first)
    assert encoding.endswith(last)


def test_weights_and_bits():
    assert weights(5) == (1, 2, 2)
    assert bounded(5).witness([4]) == [0, 1, 1]


def test_commitment():
    assert Proofs(bounded(5), b"").commit([4], 7).hex() == C47


@pytest.mark.parametrize("largest", [1, 2, 3, 5, 8, 49, 105, 127, 128])
def test_weights_make_exactly_the_range(largest):
    made = {0}
    for weight in weights(largest):
        made |= {value + weight for value in made}
    assert made == set(range(largest + 1))
    assert len(weights(largest)) == largest.bit_length()


def test_sizes():
    assert bounded(105).proof_bytes == 387
    assert one_hot(50, 90, 2).proof_bytes == 99 + 32 * (99 + 2)


def test_the_challenge_is_injective_in_its_parts():
    """The encoding that another client writes: the label, then each part after its length."""
    parts = (b"context", b"", b"id")
    text = b"label" + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    expected = int.from_bytes(hashlib.sha512(text).digest(), "big") % ORDER
    assert group.hash_scalar(b"label", *parts) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: bounded(0),
        lambda: bounded(1 << 128),
        lambda: bounded(105, MAX_BITS // 7 + 1),
        lambda: bounded(105, 0),
        lambda: bounded(105, 10**30),
        lambda: one_hot(1, 5, 2),
        lambda: one_hot(5, 0, 2),
        lambda: one_hot(5, 5, 0),
        lambda: one_hot(251, 5, 2),
        lambda: one_hot(10**30, 5, 2),
    ],
)
def test_statements_refuse_what_they_cannot_prove(make):
    with pytest.raises(InvalidValue, match="must be at"):
        make()


def test_the_largest_statements():
    assert bounded(105, MAX_BITS // 7).free == 497
    assert one_hot(250, 5, 2).free == 499
    with pytest.raises(InvalidValue, match=r"at most 71 .* 7 of a user's 500 bits .*, got 72$"):
        bounded(105, 72)
    with pytest.raises(InvalidType, match="largest must be an integer"):
        bounded(5.0)
