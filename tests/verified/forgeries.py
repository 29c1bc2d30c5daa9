"""Reports that are not valid, each named, made with the library's code and a prover that lies."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ikos.verified import group
from ikos.verified.group import ORDER, generator
from ikos.verified.proofs import PROOF, Proofs
from ikos.verified.statements import Statement, bounded, one_hot

Report = tuple[bytes, bytes, bytes]
Extra = dict[str, dict[str, int]]  # exponents of generators, by their labels, for each of D, A, B

P = 2**256 - 2**32 - 977
HALF = (ORDER + 1) // 2
CONTEXT = bytes(range(32)) + b"window 3"
POINTS = {"D": 0, "A": 1, "B": 2}


class Forgery(NamedTuple):
    """A report that must be refused, and why."""

    name: str
    report: Report


def base(label: str) -> group.Point:
    return group.BASE if label == "value 0" else generator(label)


def times(encoded: bytes, by: dict[str, int]) -> bytes:
    """Return a point times powers of generators."""
    factor = group.power_product([*map(base, by)], [*by.values()])
    return group.encode(group.combine([group.decode(encoded), factor]))


@dataclass
class Liar:
    """A client with the library's code, which proves as well as one can whatever it likes."""

    statement: Statement
    shape: tuple[object, ...]
    parts: int = 1
    context: bytes = CONTEXT
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    @functools.cached_property
    def proofs(self) -> Proofs:
        return Proofs(self.statement, self.context)

    def id(self) -> bytes:
        return self.rng.randbytes(16)

    def commit(self, values: Sequence[int], r: int, also: dict[str, int] | None = None) -> bytes:
        """Return the commitments, whose product has these values and blinding factor."""
        sent = []
        for _ in range(self.parts - 1):
            v, s = [self.rng.randrange(ORDER) for _ in values], self.rng.randrange(ORDER)
            sent.append(self.proofs.commit(v, s))
            values, r = [y - x for y, x in zip(values, v, strict=True)], r - s
        return b"".join([times(self.proofs.commit(values, r), also or {}), *sent])

    def honest(self, values: Sequence[int], name: bytes | None = None) -> Report:
        name, r = name or self.id(), self.rng.randrange(ORDER)
        sent = self.commit(values, r)
        return name, sent, self.proofs.prove(values, r, [sent], name, self.rng.randbytes(32))

    def lie(
        self,
        bits: Sequence[int],
        values: Sequence[int] | None = None,
        *,
        also: dict[str, int] | None = None,
        before: Extra | None = None,
        after: Extra | None = None,
        hashed: Callable[[bytes, bytes, bytes, bytes], tuple[bytes, ...]] | None = None,
        label: bytes = PROOF,
        guess: int | None = None,
    ) -> Report:
        """Return the best report for any numbers in place of bits, and for any values.

        ``also``: more in the commitment; ``before`` and ``after``: more in the points, before and
        after they are hashed; ``hashed``: what is hashed of context, id, commitments and points;
        ``guess``: a challenge for which the proof would be right.
        """
        statement, r = self.statement, self.rng.randrange(ORDER)
        wires = statement.wires(bits, 1)
        made = [form.at(wires, 1) for form in statement.outputs]
        name, sent = self.id(), self.commit(made if values is None else values, r, also)
        rho, alpha, beta, *a = (self.rng.randrange(ORDER) for _ in range(statement.free + 3))
        of_a = statement.wires(a, 0)
        exponents: list[dict[str, int]] = [
            {"k": rho, **{f"bit {j}": b for j, b in enumerate(bits)}},
            {"k": alpha, **{f"bit {j}": a_j for j, a_j in enumerate(a)}},
            {"h": beta} | {f"value {i}": f.at(of_a, 0) for i, f in enumerate(statement.outputs)},
        ]
        for j, (b_j, a_j) in enumerate(zip(wires, of_a, strict=True)):
            guessed = (guess or 0) * b_j * (1 - b_j)  # cancels the square at this challenge
            exponents[0][f"square {j}"] = a_j * (1 - 2 * b_j) + guessed
            exponents[1][f"square {j}"] = -a_j * a_j
        for at, more in (before or {}).items():
            for one, exponent in more.items():
                exponents[POINTS[at]][one] = exponents[POINTS[at]].get(one, 0) + exponent
        points = [
            group.encode(group.power_product([*map(base, e)], [*e.values()])) for e in exponents
        ]
        text = (self.context, name, sent, b"".join(points))
        c = group.hash_scalar(label, *(hashed or (lambda *parts: parts))(*text))
        for at, more in (after or {}).items():
            points[POINTS[at]] = times(points[POINTS[at]], more)
        answers = [c * b_j + a_j for b_j, a_j in zip(bits, a, strict=True)]
        answers += [c * rho + alpha, c * r + beta]
        return name, sent, b"".join([*points, *((x % ORDER).to_bytes(32) for x in answers)])


SETTINGS = {
    "number": (lambda: Liar(bounded(5), ("bounded", 5, 1)), [4], [0, 1, 1]),
    "parts": (lambda: Liar(bounded(105), ("bounded", 105, 1), 2), [90], [0, 0, 0, 0, 1, 1, 1]),
    "box": (lambda: Liar(bounded(5, 2), ("bounded", 5, 2)), [4, 1], [0, 1, 1, 1, 0, 0]),
    "class": (lambda: Liar(one_hot(3, 4, 2), ("one-hot", 3, 4, 2)), [1, 5, 0], [1, 1, 0, 0, 1]),
}


def lies(kind: str) -> Iterator[Forgery]:
    """Yield the forgeries of a setting."""
    make, values, bits = SETTINGS[kind]
    liar = make()
    statement = liar.statement
    assert statement.witness(values) == bits

    def forged(name: str, *args: object, **changes: object) -> Forgery:
        return Forgery(name, liar.lie(*args, **changes))

    # what is no bit
    for j in range(statement.free):
        for number in (2, 3, -1, -5, HALF, ORDER - 2, 1 << 128):
            yield forged(f"bit {j} is {number}", [*bits[:j], number, *bits[j + 1 :]])
    for guess in range(1, 4):
        yield forged(f"a guessed challenge {guess}", [2, *bits[1:]], guess=guess)

    # values outside, and other values than the bits'
    for off in (1, -1, 5, 10**6, HALF, statement.steps, -statement.steps):
        if off:
            yield forged(f"the commitment is off by {off}", bits, [values[0] + off, *values[1:]])
    for far in (6, 7, 106, 127, 128, 10**6, -1, ORDER // 2):
        over = far - sum(statement.weights[:-1])
        first = [*[1] * (len(statement.weights) - 1), over * pow(statement.weights[-1], -1, ORDER)]
        yield forged(f"the first value is {far}", [*first, *bits[len(first) :]])
    if statement.steps:  # the last class is derived: 1 less the others
        for classes in ((1, 1), (HALF, HALF), (2, -1), (-1, 1), (ORDER - 1, 2)):
            yield forged(f"the classes are {classes}", [*bits[:-2], *classes])
        yield forged("two ones", bits, [1, 5, 4])
        yield forged("no one", bits, [1, 1, 0])
    if statement.dimension > 1:
        yield forged("the values are swapped", bits, [values[1], values[0], *values[2:]])

    # other generators
    labels = ["k", "bit 0", "square 0", "h", "value 0", "value 7", "bit 99"]
    for label in labels:
        if label != "h":
            yield forged(f"the commitment has a {label}", bits, also={label: 1})
        for at, own in (("D", "k"), ("A", "k"), ("B", "h")):
            if label != own:
                yield forged(f"{at} has a {label}", bits, before={at: {label: 1}})
            yield forged(f"{at} has a {label}, not hashed", bits, after={at: {label: 1}})

    # what is hashed
    parts = ("context", "id", "commitments", "points")
    for place, part in enumerate(parts):

        def empty(*texts: bytes, place: int = place) -> tuple[bytes, ...]:
            return *texts[:place], b"", *texts[place + 1 :]

        yield forged(f"the hash has no {part}", bits, hashed=empty)
    for point, at in POINTS.items():
        cut = 33 * at
        yield forged(
            f"the hash has no {point}",
            bits,
            hashed=lambda k, i, s, d, cut=cut: (k, i, s, d[:cut] + d[cut + 33 :]),
        )
    yield forged("the hash has one commitment", bits, hashed=lambda k, i, s, d: (k, i, s[:32], d))
    yield forged("the hash moves a byte", bits, hashed=lambda k, i, s, d: (k + i[:1], i[1:], s, d))
    yield forged("the hash has another order", bits, hashed=lambda k, i, s, d: (i, k, s, d))
    yield forged("the hash has another label", bits, label=b"ikos verified sum 0: proof")
    other = CONTEXT[:-1] + b"4"
    yield forged("another window", bits, hashed=lambda k, i, s, d: (other, i, s, d))
    task = b"\1" + CONTEXT[1:]
    yield forged("another task", bits, hashed=lambda k, i, s, d: (task, i, s, d))
    yield forged("a window that is a prefix", bits, hashed=lambda k, i, s, d: (k[:-1], i, s, d))

    # copied and altered
    name, sent, proof = liar.honest(values)
    second = liar.honest(values)
    liar.id()
    yield Forgery("a copied proof", (liar.id(), sent, proof))
    yield Forgery("a copied proof for another commitment", (name, second[1], proof))
    yield Forgery("another proof of the same value", (name, sent, second[2]))
    yield Forgery("the id is longer", (name + b"\0", sent, proof))
    yield Forgery("the id is empty", (b"", sent, proof))
    D, A, B, answers = proof[:33], proof[33:66], proof[66:99], proof[99:]
    mauled = {
        "D and A are swapped": A + D + B + answers,
        "A and B are swapped": D + B + A + answers,
        "D is the commitment": sent[:33] + A + B + answers,
        "points of another proof": second[2][:99] + answers,
        "answers of another proof": proof[:99] + second[2][99:],
        "D is negated": bytes([D[0] ^ 1]) + D[1:] + A + B + answers,
        "all points are negated": b"".join(
            bytes([p[0] ^ 1]) + p[1:] for p in (D, A, B)
        ) + answers,
        "truncated by a byte": proof[:-1],
        "truncated by a scalar": proof[:-32],
        "a byte longer": proof + b"\0",
        "a scalar longer": proof + bytes(32),
        "empty": b"",
        "points alone": proof[:99],
        "answers alone": answers,
        "all zero": bytes(len(proof)),
        "all ones": b"\xff" * len(proof),
    }  # fmt: skip
    for what, bytes_ in mauled.items():
        yield Forgery(what, (name, sent, bytes_))
    numbers = [int.from_bytes(answers[at : at + 32]) for at in range(0, len(answers), 32)]
    changes: dict[str, Callable[[int], int]] = {
        "is one more": lambda x: x + 1,
        "is negated": lambda x: -x,
        "is doubled": lambda x: 2 * x,
        "is 0": lambda x: 0,
    }
    for j, number in enumerate(numbers):
        for what, change in changes.items():
            changed = (change(number) % ORDER).to_bytes(32)
            bytes_ = proof[: 99 + 32 * j] + changed + proof[131 + 32 * j :]
            yield Forgery(f"answer {j} {what}", (name, sent, bytes_))
        for limit in (ORDER, ORDER + 1, 2**256 - 1):
            bytes_ = proof[: 99 + 32 * j] + limit.to_bytes(32) + proof[131 + 32 * j :]
            yield Forgery(f"answer {j} is {limit:x}", (name, sent, bytes_))

    # encodings of points
    long = group.decode(D).format(compressed=False)
    encodings = {
        "uncompressed": long,
        "hybrid": bytes([6 + long[-1] % 2]) + long[1:],
        "uncompressed and cut": long[:33],
        "the identity": bytes(33),
        "of 32 bytes": D[:32],
        "without prefix": D[1:] + b"\2",
        **{f"of prefix {prefix}": bytes([prefix]) + D[1:] for prefix in (0, 1, 4, 5, 6, 7, 255)},
        "beyond the field": b"\2" + (P + 1).to_bytes(32),  # 1 is an x on the curve
        "not on the curve": b"\2" + (5).to_bytes(32),
    }
    for what, encoding in encodings.items():
        yield Forgery(f"D {what}", (name, sent, encoding + proof[33:]))
        yield Forgery(f"a commitment {what}", (name, encoding + sent[33:], proof))
    yield Forgery("no commitment", (name, b"", proof))
    if not statement.steps:
        nothing = liar.proofs.prove([0] * statement.dimension, 0, [], name, bytes(32))
        yield Forgery("no commitment to nothing", (name, b"", nothing))
    yield Forgery("the commitment twice", (name, sent + sent, proof))
    yield Forgery("one more commitment", (name, sent + second[1][:33], proof))
    yield Forgery("a commitment and a byte", (name, sent + b"\2", proof))
    if liar.parts == 2:
        for label in ("value 0", "h", "k"):
            moved = times(sent[:33], {label: 5}) + times(sent[33:], {label: -5})
            yield Forgery(f"a {label} moved from one to the other", (name, moved, proof))
        yield Forgery("parts are swapped", (name, sent[33:] + sent[:33], proof))
        yield Forgery("one part alone", (name, sent[:33], proof))
        whole = group.combine([group.decode(sent[:33]), group.decode(sent[33:])])
        yield Forgery("the product alone", (name, group.encode(whole), proof))


def cancelling(kind: str = "number") -> Iterator[tuple[str, list[Report]]]:
    """Yield reports whose equations fail, and cancel for coefficients that were known before."""
    make, values, bits = SETTINGS[kind]
    liar = make()
    for at, label in (("A", "k"), ("B", "h"), ("D", "bit 0"), ("B", "value 0")):
        pair = [liar.lie(bits, after={at: {label: sign}}) for sign in (1, -1)]
        yield f"{at} times {label}, and by it", pair
    both = {"A": {"h": 1}, "B": {"h": -1}}
    yield "one report, A times h and B by it", [liar.lie(bits, after=both)]
    for j in range(5):
        pair = [_moved(liar.honest(values), 99 + 32 * j, by) for by in (1, -1)]
        yield f"answer {j} one more, and one less", pair
    yield "three", [liar.lie(bits, after={"A": {"k": by}}) for by in (1, 1, -2)]


def _moved(report: Report, at: int, by: int) -> Report:
    name, sent, proof = report
    moved = (int.from_bytes(proof[at : at + 32]) + by) % ORDER
    return name, sent, proof[:at] + moved.to_bytes(32) + proof[at + 32 :]
