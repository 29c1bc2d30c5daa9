"""Certificates: what is valid is accepted, also by a second reader; what is not names its line."""

from __future__ import annotations

import io
import json
import tracemalloc
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from verified import second

import ikos
from ikos import InvalidValue
from ikos.sums.protocol import digest as digest_of_parameters
from ikos.testing import DeterministicRandom
from ikos.transports import Verified
from ikos.transports.base import ID_BYTES
from ikos.verified import certificate
from ikos.verified.certificate import Certificate, digest, verify
from ikos.verified.group import ORDER
from ikos.verified.proofs import Proofs

WINDOW = b"window 3"
SIGNERS = tuple(Ed25519PrivateKey.from_private_bytes(bytes([j]) * 32) for j in (1, 2))
INVALID = "its proof must be valid for the sum and the window of line 1"
PUBLIC = tuple(key.public_key().public_bytes_raw() for key in SIGNERS)


def totals_of(protocol, values, seed=0, name=WINDOW):
    rng = DeterministicRandom(seed)
    reports = protocol.share(values, rng, context=name)
    view = protocol.shuffle(reports, rng, context=name)
    return protocol.transport.totals(view, protocol.context(name))


def signed(of: Certificate, signers=SIGNERS) -> Certificate:
    """Return a certificate with the parties' signatures of its reports."""
    context = bytes.fromhex(digest_of_parameters(of.parameters)) + of.window
    receipts = [(name, sent + second.sha256(proof)) for name, sent, proof in of.reports]
    signatures = [key.sign(digest(context, receipts)) for key in signers]
    keys = [key.public_key().public_bytes_raw() for key in signers]
    return replace(of, keys=keys, signatures=signatures)


def made(protocol, values, signers=(), seed=0, name=WINDOW) -> Certificate:
    """Return the certificate of a sum, by the roles one after the other."""
    evidence = totals_of(protocol, values, seed, name).evidence
    size = protocol.transport.public_bytes[0]
    rows = zip(evidence.ids, (row.tobytes() for row in evidence.public), strict=True)
    reports = sorted((id, row[:size], row[size:]) for id, row in rows)
    sums, blinding = list(evidence.sums), evidence.blinding
    return signed(Certificate(protocol.parameters, name, reports, sums, blinding), signers)


def text(of: Certificate) -> bytes:
    return b"".join(of.lines())


def checked(data: bytes):
    return verify(io.BytesIO(data))


def refused(data: bytes) -> str:
    """Return why both readers refuse a certificate: the first one's words."""
    with pytest.raises(InvalidValue) as error:
        checked(data)
    with pytest.raises(Exception):  # noqa: B017 - whatever a short program raises
        second.certificate(data)
    return str(error.value)


NUMBERS = ikos.PrivateSum(6, 20, 0.01, lower=-1, upper=7, min_honest=4, transport="verified")
VOTES = ikos.PrivateVectorSum(4, ikos.Categories([3]), 30, 0.01, transport="verified")
PROTOCOLS = {
    "number": (NUMBERS, [0, 7, 3.5, -1, 2]),
    "secure": (ikos.SecureSum(6, upper=9, min_honest=2, transport="verified"), [9, 0, 3]),
    "vector": (
        ikos.SecureVectorSum(4, 2, upper=3, min_honest=2, transport="verified"),
        [[3, 0], [2, 2], [1, 3]],
    ),
    "class": (VOTES, np.eye(3)[[0, 1, 1, 2]]),
    "cut": (ikos.PrivateSum(3, 20, 0.01, transport=Verified(noise="laplace")), [1, 0.5, 0]),
    "shuffled": (
        ikos.SecureSum(100, upper=3, min_honest=90, sigma=2, transport="verified-shuffled"),
        [1] * 95,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_certificate_is_that_of_its_sum(kind):
    protocol, values = PROTOCOLS[kind]
    of = made(protocol, values, () if kind == "shuffled" else SIGNERS)
    result = checked(text(of))
    assert result.users == len(values)
    assert list(result.sums) == list(of.sums)
    assert result.parameter_hash.hex() == protocol.parameter_hash
    assert (result.n, result.min_honest) == (protocol.n, protocol.min_honest)
    assert result.commitments == 1 + (kind != "shuffled")
    assert second.certificate(text(of)) == (len(values), list(of.sums))
    if "secure_sum" not in protocol.parameters:
        assert result.estimates is None
        assert list(of.sums) == np.sum(values, axis=0).reshape(-1).tolist()
    else:
        estimate = protocol.result(totals_of(protocol, values)).estimate
        assert result.estimates == pytest.approx(np.reshape(estimate, -1).tolist())


@cache
def number() -> Certificate:
    return made(*PROTOCOLS["number"], SIGNERS)


def test_without_signatures():
    of = replace(number(), keys=(), signatures=())
    assert checked(text(of)).keys == ()
    assert second.certificate(text(of))


def test_ids_are_those_of_reports():
    assert certificate.ID_BYTES == ID_BYTES


def test_the_digest_has_context_and_reports_apart():
    reports = [(b"a" * 16, b"b" * 65)]
    every = [
        digest(b"context", reports),
        digest(b"context", []),
        digest(b"context" + b"a" * 16, [(b"", b"b" * 65)]),
        digest(b"contexta", [(b"a" * 15, b"b" * 65)]),
    ]
    assert len({*every}) == len(every)
    expected = b"ikos-verified-sum-1: digest\0\0\0\7context" + b"a" * 16 + b"b" * 65
    assert every[0] == second.sha256(expected)


def edited(path: str, value: object, of: Certificate | None = None) -> bytes:
    """Return a certificate with another value in its first line; a name of more parts is within."""
    head, *rest = (of or number()).lines()
    document = json.loads(head)
    *outer, last = path.split(".")
    inner = document
    for name in outer:
        inner = inner[name]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return b"".join([json.dumps(document).encode() + b"\n", *rest])


OF = "parameters.secure_sum"
HEADS = {
    "certificate": ["ikos-verified-sum-2", 1, None, ...],
    "window": ["", "0", "0A", "zz", None, 5, "00" * 1001, ...],
    "keys": [
        [PUBLIC[0].hex()],
        [PUBLIC[0].hex()] * 2,
        [key.hex() for key in PUBLIC] + ["00" * 32],
        [PUBLIC[0].hex(), PUBLIC[1].hex().upper()],
        ["00", "01"],
        {PUBLIC[0].hex(): 1, PUBLIC[1].hex(): 1},
        None,
        ...,
    ],
    "more": [1],
    "parameters": [None, [], "x", {}, ...],
    "parameters.protocol": ["ikos-private-sum-3", 1, None, [], ...],
    "parameters.more": [1],
    "parameters.precision": [0, -1, 10, 8, 24, 10**40, "9", 9.0, True, None, ...],
    "parameters.noise_width": ["14", "16", "15.0", " 15", 15, None, ...],
    "parameters.noise_cut_width": ["15"],
    "parameters.lower": ["0x1.c000000000000p+2", "-0x1p+333", "nan", "-inf", "x", 0, None, ...],
    "parameters.upper": ["inf", "0x1p+99999", "0x1p+333", "-0x1p+0", ...],
    OF: [None, 5, [], {}, "x"],
    f"{OF}.protocol": ["ikos-shuffled-openings-1", "ikos-added-openings-2", [], None, ...],
    f"{OF}.n": [0, -6, 3, 10**9 + 1, 10**40, "6", 6.0, True, None, ...],
    f"{OF}.min_honest": [0, -1, 7, 4.0, None, ...],
    f"{OF}.q": ["0x5", hex(ORDER).upper(), hex(ORDER + 1), ORDER, None, ...],
    f"{OF}.dimension": [0, -1, 101, 10**30, "1", 1.0, True, None, ...],
    f"{OF}.largest": [0, -5, 24, 22, 10**40, 23.0, "23", None, ...],
    f"{OF}.one_hot": [
        {},
        [],
        0,
        "",
        {"steps": 9, "width": 15},
        {"steps": 9, "width": 10**40},
        {"steps": 10**30, "width": 2},
        {"steps": -9, "width": 33},
        {"steps": 9},
        {"steps": 9, "width": 15, "more": 1},
        ...,
    ],
    f"{OF}.relays": [0, -1, 2, 101, 10**40, 1.0, True, "1", None, ...],
    f"{OF}.shares": [[]],
    f"{OF}.upper": ["0x17"],
    f"{OF}.more": [1],
}


@pytest.mark.parametrize("path", HEADS)
def test_first_lines_that_do_not_fit(path, monkeypatch):
    """None of them makes anything: no generator, no proof, no long loop."""
    number()  # kept, as it is made of proofs
    monkeypatch.setattr(Proofs, "refused", lambda *_: pytest.fail("is not read"))
    for value in HEADS[path]:
        assert refused(edited(path, value)).startswith("line 1: "), value


def test_first_lines_that_are_no_object():
    _, *rest = number().lines()
    head = next(number().lines())
    for line in (
        b"",
        b"\n",
        b"[]\n",
        b"{}\n",
        b"{" * 60_000 + b"\n",
        b"[" * 60_000 + b"\n",
        b'{"certificate": ' * 1000 + b"1" + b"}" * 1000 + b"\n",
        b"1" * 6000 + b"\n",
        b"x" * (1 << 17) + b"\n",
        head[:-1] + b" " * (1 << 16) + b"\n",
        head[:-2] + b"\n",
        head.replace(b'"keys"', "\u00fc".encode() + b'"keys"'),
        head.replace(b'{"certificate"', b'{"window": "00", "certificate"'),
        head.replace(b'"n": 6', b'"n": 5, "n": 6'),
        head.replace(b'"n": 6', b'"n": ' + b"9" * 5000),
    ):
        assert refused(line + b"".join(rest)).startswith("line 1: "), line[:50]
    assert "the names certificate, parameters, window, keys" in refused(b"id,proof\n")
    assert refused(b"") == "line 1: it must be there: the file ends before it"


def test_other_parameters_have_other_proofs():
    """The names that are only hashed: a sum of another epsilon has none of these reports."""
    for path, value in {
        "parameters.epsilon": "2",
        "parameters.integers": True,
        "parameters.lower": "-0x1p+1",
        f"{OF}.n": 7,
        f"{OF}.min_honest": 3,
        "window": "00",
    }.items():
        assert refused(edited(path, value)) == f"line 2: {INVALID}", path


def replaced(place: int, change, of: Certificate | None = None) -> bytes:
    lines = [*(of or number()).lines()]
    lines[place] = change(lines[place])
    return b"".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("together", [2, 1000])
def test_the_report_that_is_not_valid_is_named(together, monkeypatch):
    monkeypatch.setattr(certificate, "_TOGETHER", together)
    assert checked(text(number())).users == 5
    for line in range(2, 7):
        for at in (0, 33, 34, 98, 99, 100, 230, 231, 300, -2):  # of the id, and so on

            def flipped(row, at=at):
                digit = b"1" if row[at : at + 1] != b"1" else b"2"
                return row[:at] + digit + row[at + 1 :] if at > 0 else row[:at] + digit + b"\n"

            found = refused(replaced(line - 1, flipped))
            assert found.startswith(f"line {line}: ") or (at == 0 and "id" in found), at


def moved(changes) -> bytes:
    lines = [*number().lines()]
    return b"".join(lines[at] if isinstance(at, int) else at for at in changes)


@pytest.mark.slow
def test_lists_that_do_not_fit():
    first = [*number().lines()][1]
    name, sent, proof = first[:-1].split(b" ")
    for lines, at, why in (
        ([0, 2, 1, 3, 4, 5, 6], 3, "greater"),
        ([0, 1, 1, 2, 3, 4, 5, 6], 3, "greater"),
        ([0, 1, 2, 3, 4, 6], 6, "open the product"),  # one left out
        ([0, 1, 2, 3, 6], 5, "the number of reports must be at least 4, got 3"),
        ([0, 6], 2, "the number of reports must be at least 4, got 0"),
        ([0, 1, 2, 3, 4, 5], 7, "the file ends before it"),
        ([0, 1, 2, 3, 4, 5, 6, 6], 8, "must not be there"),
        ([0, 1, 2, 3, 4, 5, 6, b"\n"], 8, "must not be there"),
        ([0, 0, 1, 2, 3, 4, 5, 6], 2, "names"),
        ([0, b"\n", 1, 2, 3, 4, 5, 6], 2, "an id, commitments and a proof"),
        ([0, name + b" " + sent + b"\n", 2, 3, 4, 5, 6], 2, "an id, commitments and a proof"),
        ([0, first[:-1] + b" \n", 2, 3, 4, 5, 6], 2, "an id, commitments and a proof"),
        ([0, first[:-1] + b"\r\n", 2, 3, 4, 5, 6], 2, "the proof must be"),
        ([0, first.replace(b" ", b"\t"), 2, 3, 4, 5, 6], 2, "an id, commitments and a proof"),
        ([0, first.upper(), 2, 3, 4, 5, 6], 2, "lower-case"),
        ([0, first[2:], 2, 3, 4, 5, 6], 2, "the id must be lower-case hexadecimal digits of 16"),
        ([0, first[:-3] + b"\n", 2, 3, 4, 5, 6], 2, "the proof must be lower-case"),
        ([0, name + b" " + sent + sent + b" " + proof + b"\n", 2, 3, 4, 5, 6], 2, "commitments"),
        ([0, name + b" " + sent[:66] + b" " + proof + b"\n", 2, 3, 4, 5, 6], 2, "commitments"),
        (
            [0, name + b" " + sent[66:] + sent[:66] + b" " + proof + b"\n", 2, 3, 4, 5, 6],
            2,
            INVALID,
        ),
        ([0, 1, 2, 3, 4, 5, [*number().lines()][6][:-1]], 7, "a whole line"),
    ):
        found = refused(moved(lines))
        assert found.startswith(f"line {at}: "), (found, lines)
        assert why in found, (found, why)


def test_more_reports_than_users():
    """Each is valid, and their sum is right: eight of a sum of at most six users."""
    one, two = number(), made(*PROTOCOLS["number"], seed=1)
    both = replace(
        one,
        reports=sorted([*one.reports, *two.reports[:3]]),
        sums=[one.sums[0] + two.sums[0]],
        blinding=(one.blinding + two.blinding) % ORDER,
    )
    assert refused(text(both)) == "line 10: the number of reports must be at most 6, got 8"


def ended(**changes: object) -> bytes:
    *lines, end = number().lines()
    document = {**json.loads(end), **changes}
    kept = {name: value for name, value in document.items() if value is not ...}
    return b"".join([*lines, json.dumps(kept).encode() + b"\n"])


@pytest.mark.slow
def test_last_lines_that_do_not_fit():
    of = number()
    total, (first, other) = of.sums[0], (one.hex() for one in of.signatures)
    blinding = of.blinding.to_bytes(32).hex()
    third = SIGNERS[0].sign(b"x").hex()
    for changes in (
        *({"sums": sums} for sums in (
            [total + 1], [total - 1], [total + 9], [-1], [5 * 23 + 1], [10**400],
            [total + ORDER], [total - ORDER],
            [float(total)], [str(total)], [True], [None], [], [total, 0], total, {"0": total}, ...,
        )),
        *({"blinding": one} for one in (
            "00" * 32, "00" * 31, blinding.upper(), blinding + "00", f"{of.blinding ^ 1:064x}",
            f"{ORDER:064x}", "ff" * 32, f"{ORDER - of.blinding:064x}", of.blinding, None, ...,
        )),
        *({"signatures": some} for some in (
            [], [first], [other, first], [first, first], [first, third], [third, other],
            [first, other, other], [first, other.upper()], [first, other[2:]], [first, None],
            {first: 1, other: 2}, None, ...,
        )),
        {"more": 1},
    ):  # fmt: skip
        assert refused(ended(**changes)).startswith("line 7: "), changes
    assert checked(ended())


def test_signatures_are_of_this_list():
    """A list with one report less, and the right sum of the others, that nobody signed."""
    of, left = number(), made(NUMBERS, [0, 7, 3.5, -1], SIGNERS, seed=2)
    assert checked(text(left)).users == 4
    unsigned = replace(left, signatures=of.signatures)
    assert "signatures[0] must be" in refused(text(unsigned))
    half = replace(left, signatures=[left.signatures[0], of.signatures[1]])
    assert "signatures[1] must be" in refused(text(half))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["class", "vector"])
def test_sums_of_coordinates(kind):
    of = made(*PROTOCOLS[kind])
    assert checked(text(of)).users
    *lines, end = of.lines()
    for change in ([1, -1], [0, 1], [-1, 0]):
        sums = [x + by for x, by in zip(of.sums, [*change, 0], strict=False)]
        changed = json.dumps({**json.loads(end), "sums": sums}).encode() + b"\n"
        assert "open the product" in refused(b"".join([*lines, changed]))


VOTES_OF = {
    "parameters.precision": [0, 2, 5],
    "parameters.noise_width": ["3", "5"],
    f"{OF}.one_hot": [None, {"steps": 2, "width": 3}, {"steps": 1, "width": 3}],
    f"{OF}.largest": [1, 3, 5, 4.0, True],
    f"{OF}.dimension": [1, 2, 251],
    "parameters.more": [1],
}


@pytest.mark.parametrize("path", VOTES_OF)
def test_first_lines_of_votes(path):
    of = made(*PROTOCOLS["class"])
    assert of.parameters["secure_sum"]["one_hot"] == {"steps": 1, "width": 4}
    for value in VOTES_OF[path]:
        line = "line 1: " if path.endswith(("largest", "precision", "width", "more")) else "line "
        assert refused(edited(path, value, of)).startswith(line), value
    assert refused(edited("parameters.sizes", [3], of)) == f"line 2: {INVALID}"


def test_relays_without_keys():
    of = replace(number(), keys=(), signatures=())
    for relays in (0, 101, 10**40):
        assert refused(edited(f"{OF}.relays", relays, of)).startswith("line 1: "), relays


def test_progress_counts_reports(monkeypatch):
    monkeypatch.setattr(certificate, "_TOGETHER", 2)
    seen = []
    verify(io.BytesIO(text(number())), seen.append)
    assert seen == [2, 4, 5]


@pytest.mark.slow
def test_memory_does_not_grow(monkeypatch):
    """With the reports' number: what stays is a hash and a point."""
    monkeypatch.setattr(Proofs, "refused", lambda *_: [])
    monkeypatch.setattr(Proofs, "opens", lambda *_: True)
    of = replace(number(), keys=(), signatures=())
    _, sent, proof = of.reports[0]
    parameters = {**of.parameters}
    parameters["secure_sum"] = {**of.parameters["secure_sum"], "n": 10**6}

    def peak(users: int) -> int:
        reports = ((number.to_bytes(16), sent, proof) for number in range(users))
        lines = replace(of, parameters=parameters, reports=reports).lines()

        class File:
            def readline(self, most: int) -> bytes:
                return next(lines)

            def read(self, most: int) -> bytes:
                return b""

        tracemalloc.start()
        try:
            assert verify(File()).users == users
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = peak(3000), peak(12_000)
    assert many < 1.1 * few < 10**7
