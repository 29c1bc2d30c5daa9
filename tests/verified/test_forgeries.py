"""Forgeries: none is accepted, each is named, and a second verifier thinks the same."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass

import pytest
from verified import second
from verified.forgeries import CONTEXT, SETTINGS, Liar, base, cancelling, lies

from ikos import InvalidValue
from ikos.verified import group, proofs
from ikos.verified.group import ORDER
from ikos.verified.proofs import Proofs
from ikos.verified.statements import Form, Statement, bounded, one_hot

KINDS = list(SETTINGS)


def agreed(liar: Liar, report: tuple[bytes, bytes, bytes]) -> bool:
    return second.valid(liar.shape, liar.context, *report)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_forgery_is_accepted(kind):
    make, values, _ = SETTINGS[kind]
    liar = make()
    forged = list(lies(kind))
    assert len(forged) >= 150
    assert len({forgery.name for forgery in forged}) == len(forged)
    accepted = [one.name for one in forged if not liar.proofs.refused([one.report])]
    assert accepted == []
    assert [one.name for one in forged if agreed(liar, one.report)] == []
    # among honest reports, each of them is named, and no other
    reports = [liar.honest(values) for _ in range(2 * len(forged))]
    places = sorted(random.Random(1).sample(range(len(reports)), len(forged)))
    for place, one in zip(places, forged, strict=True):
        reports[place] = one.report
    assert liar.proofs.refused(reports) == places


@pytest.mark.parametrize("kind", KINDS)
def test_some_forgeries(kind):
    liar = SETTINGS[kind][0]()
    for _, report in random.Random(2).sample(list(lies(kind)), 8):
        assert liar.proofs.refused([report]) == [0]


def test_the_largest_statement_is_refused_and_accepted():
    statement = bounded(1, 500)
    of = Proofs(statement, CONTEXT)
    values = [b % 2 for b in range(500)]
    commitment = of.commit(values, 5)
    proof = of.prove(values, 5, [commitment], b"id", bytes(32))
    bad = proof[:-1] + bytes([proof[-1] ^ 1])
    assert of.refused([(b"id", commitment, proof), (b"id", commitment, bad)]) == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_liar_can_tell_the_truth(kind):
    """Its proofs of true bits are accepted: forgeries fail for what they are."""
    make, _, bits = SETTINGS[kind]
    liar = make()
    report = liar.lie(bits)
    assert liar.proofs.refused([report]) == []
    assert agreed(liar, report)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["number", "parts"])
def test_each_flipped_byte(kind):
    make, values, _ = SETTINGS[kind]
    liar = make()
    report = liar.honest(values)
    flipped = []
    for field in range(3):
        for place in range(len(report[field])):
            changed = bytearray(report[field])
            changed[place] ^= 1 << place % 8
            flipped.append((*report[:field], bytes(changed), *report[field + 1 :]))
    assert len(flipped) == 16 + 33 * liar.parts + liar.statement.proof_bytes
    assert liar.proofs.refused([report, *flipped]) == [*range(1, len(flipped) + 1)]
    assert not any(agreed(liar, one) for one in flipped[::7])


def test_batches_that_would_cancel():
    """For coefficients that were known before: all equal, or the same for both equations."""
    liar = SETTINGS["number"][0]()
    for name, reports in cancelling():
        assert liar.proofs.refused(reports) == [*range(len(reports))], name


def test_coefficients_are_new_in_each_batch(monkeypatch):
    liar = SETTINGS["number"][0]()
    seen = []
    product = group.power_product

    def spied(points, exponents):
        seen.append(tuple(exponents))
        return product(points, exponents)

    report = liar.honest([4])
    monkeypatch.setattr(group, "power_product", spied)
    for _ in range(8):
        assert liar.proofs.refused([report]) == []
    of_A, of_B = ({exponents[at] for exponents in seen} for at in (1, 3))
    assert len(of_A) == len(of_B) == 8
    assert not of_A & of_B
    assert all(max(some).bit_length() > 64 for some in (of_A, of_B))  # but with 2^-512


def test_a_planted_relation_proves_anything(monkeypatch):
    """Who plants ``square 0`` = k^tau proves that a bit is 10^6; with the hashed one, it fails."""
    liar = SETTINGS["number"][0]()
    tau = 12345
    wrong = [10**6, 0, 0]
    hashed = group.generator

    def planted(label):
        return hashed("k").multiply(tau.to_bytes(32)) if label == "square 0" else hashed(label)

    for generator, refused in ((planted, []), (hashed, [0])):
        monkeypatch.setattr(group, "generator", generator)
        monkeypatch.setattr("verified.forgeries.generator", generator)
        name, sent, proof = liar.lie(wrong)
        c = group.hash_scalar(proofs.PROOF, CONTEXT, name, sent, proof[:99])
        over = c * c * wrong[0] * (1 - wrong[0])  # of square 0, to be paid with k
        z = (int.from_bytes(proof[-64:-32]) - tau * over) % ORDER
        proof = proof[:-64] + z.to_bytes(32) + proof[-32:]
        assert liar.proofs.refused([(name, sent, proof)]) == refused


def test_generators_differ():
    labels = ["h", "k", *(f"{kind} {j}" for kind in ("bit", "square", "value") for j in range(500))]
    assert len({base(label).format() for label in labels}) == len(labels)


@pytest.mark.parametrize("largest", [1, 2, 3, 5, 6, 7, 12])
def test_every_value_has_a_proof(largest):
    of = Proofs(bounded(largest), CONTEXT)
    reports = []
    for y in range(largest + 1):
        r = secrets.randbelow(ORDER)
        commitment = of.commit([y], r)
        name = bytes([y])
        reports.append((name, commitment, of.prove([y], r, [commitment], name, bytes(32))))
    assert of.refused(reports) == []
    for y in (-1, largest + 1, 10**6):
        with pytest.raises(InvalidValue, match=r"^values must satisfy the statement$"):
            of.prove([y], 5, [commitment], b"id", bytes(32))


@pytest.mark.parametrize(("d", "steps", "width"), [(2, 1, 1), (3, 4, 2), (2, 2, 5), (3, 1, 3)])
def test_every_class_and_noise_has_a_proof(d, steps, width):
    """Also where noise exceeds the steps; all other values are refused."""
    statement = one_hot(d, steps, width)
    valid = set()
    noises = [[]]
    for _ in range(d):
        noises = [[*noise, z] for noise in noises for z in range(width)]
    for noise in noises:
        for x in range(d):
            valid.add(tuple(z + steps * (i == x) for i, z in enumerate(noise)))
    every = [()]
    for _ in range(d):
        every = [(*values, y) for values in every for y in range(-1, steps + width + 1)]
    for values in every:
        if values in valid:
            wires = statement.wires(statement.witness(values), 1)
            assert {*wires} <= {0, 1}
            assert tuple(form.at(wires, 1) for form in statement.outputs) == values
        else:
            with pytest.raises(InvalidValue, match="satisfy the statement"):
                statement.witness(values)
    of = Proofs(statement, CONTEXT)
    values = max(valid)
    commitment = of.commit(values, 9)
    proof = of.prove(values, 9, [commitment], b"id", bytes(32))
    assert of.refused([(b"id", commitment, proof)]) == []
    assert second.valid(("one-hot", d, steps, width), CONTEXT, b"id", commitment, proof)


@pytest.mark.parametrize("values", [[1, 2], [], [1.5]])
def test_values_of_another_shape(values):
    with pytest.raises((InvalidValue, TypeError)):
        bounded(5).witness(values)


def test_nonces_depend_on_all_that_is_proved():
    """The same fresh bytes, as after a restored snapshot: no two proofs share a nonce."""
    of = Proofs(bounded(5), CONTEXT)
    C = of.commit([4], 7)
    proofs_made = [
        of.prove(values, r, commitments, name, fresh)[66:99]
        for values, r, commitments, name, fresh in (
            ([4], 7, [C], b"id", bytes(32)),
            ([3], 7, [C], b"id", bytes(32)),
            ([4], 8, [C], b"id", bytes(32)),
            ([4], 7, [C, C], b"id", bytes(32)),
            ([4], 7, [C], b"ie", bytes(32)),
            ([4], 7, [C], b"id", b"\1" * 32),
        )
    ]
    proofs_made.append(Proofs(bounded(5), b"").prove([4], 7, [C], b"id", bytes(32))[66:99])
    assert len({*proofs_made}) == len(proofs_made)
    for length in (0, 16, 33):
        with pytest.raises(InvalidValue, match="fresh must be 32 bytes"):
            of.prove([4], 7, [C], b"id", bytes(length))


def test_each_nonce_is_another():
    """Two equal ones would give away a bit: f_j - f_k is then the challenge, or 0."""
    of = Proofs(bounded(105), CONTEXT)
    C = of.commit([90], 7)
    proof = of.prove([90], 7, [C], b"id", bytes(32))
    c = group.hash_scalar(proofs.PROOF, CONTEXT, b"id", C, proof[:99])
    *f, z, link = group.scalars(proof[99:])
    bits = of.statement.witness([90])
    nonces = [(f_j - c * b_j) % ORDER for f_j, b_j in zip(f, bits, strict=True)]
    nonces += [(link - c * 7) % ORDER, z * pow(c + 1, -1, ORDER) % ORDER]
    assert len({*nonces}) == len(nonces)
    assert min(nonces).bit_length() > 128


@dataclass(frozen=True)
class Bits(Statement):
    """A statement whose values are bits: any forms may be of them."""

    def witness(self, values):
        return list(values)


@pytest.mark.parametrize("bits", [[0, 0], [0, 1], [1, 0], [1, 1]])
def test_any_affine_statement(bits):
    """With constants in derived bits and in values: here exclusive bits, and 3 + 2b - 5d."""
    statement = Bits(2, (Form(1, ((0, -1), (1, -1))),), (Form(3, ((0, 2), (2, -5))),), ())
    of = Proofs(statement, CONTEXT)
    derived = 1 - sum(bits)
    y = 3 + 2 * bits[0] - 5 * derived
    for off in (0, 3, -3, 5):
        C = of.commit([y + off], 7)
        proof = of.prove(bits, 7, [C], b"id", bytes(32))
        valid = derived in (0, 1) and not off
        assert of.refused([(b"id", C, proof)]) == [0] * (not valid)
