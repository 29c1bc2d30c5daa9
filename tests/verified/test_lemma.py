"""The lemma and the theorems by enumeration: the library's equations over groups of 2, 3 and 5."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from fractions import Fraction
from functools import cache

import pytest
from verified.toy import independent, one_coordinate

from ikos.verified import proofs, statements
from ikos.verified.proofs import Proofs
from ikos.verified.statements import Form, Statement, bounded, one_hot

FRESH = bytes(32)


def substitute(monkeypatch, group):
    """Let proofs be of another group."""
    monkeypatch.setattr(proofs, "group", group)
    for name in ("POINT_BYTES", "SCALAR_BYTES"):
        monkeypatch.setattr(statements, name, getattr(group, name))


def accepts(monkeypatch, of, report):
    """Whether both equations hold for one report: each by itself, with coefficients 1 and 0."""
    for pair in ([1, 0], [0, 1]):
        monkeypatch.setattr(proofs, "_coefficients", lambda count, pair=pair: pair)
        if of.refused([report]):
            return False
    return True


def proofs_of(group, of, y, r):
    """Return the proofs of a witness, for all randomness, each as often as it comes."""
    commitment = of.commit(y, r)
    found = Counter()
    for nonces in itertools.product(range(group.ORDER), repeat=of.statement.free + 3):
        group.nonces = nonces.__getitem__
        found[of.prove(y, r, [commitment], b"id", FRESH)] += 1
    return commitment, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "statement", "functions"),
    [(3, bounded(1), 12), (3, one_hot(2, 1, 1), 6), (3, bounded(2), 2), (5, bounded(1), 3)],
)
def test_a_proof_says_nothing_whatever_the_hash(monkeypatch, p, statement, functions):
    """Lemma 1: given C, the law is uniform on the accepting tuples, whoever the witness is."""
    ranges = itertools.product(range(p), repeat=statement.dimension)
    values = [y for y in ranges if _satisfies(statement, y)]
    for seed in range(functions):
        group = one_coordinate(p, statement.free + 1, statement.dimension, seed)
        substitute(monkeypatch, group)
        of = Proofs(statement, b"context")
        laws: dict[bytes, list[Counter[bytes]]] = {}
        for y, r in itertools.product(values, range(p)):
            commitment, law = proofs_of(group, of, y, r)
            laws.setdefault(commitment, []).append(law)
        assert sum(map(len, laws.values())) == p * len(values)
        for commitment, of_witnesses in laws.items():
            assert all(law == of_witnesses[0] for law in of_witnesses)
            assert set(of_witnesses[0].values()) == {1}
            size = len(next(iter(of_witnesses[0])))
            if p**size < 20_000:  # otherwise, that all are there is shown by the smaller ones
                every = map(bytes, itertools.product(range(p), repeat=size))
                accepted = {
                    one for one in every if accepts(monkeypatch, of, (b"id", commitment, one))
                }
                assert accepted == set(of_witnesses[0])


def _satisfies(statement: Statement, y: tuple[int, ...]) -> bool:
    try:
        bits = statement.witness(y)
    except ValueError:
        return False
    wires = statement.wires(bits, 1)
    assert {*wires} <= {0, 1}
    return tuple(form.at(wires, 1) for form in statement.outputs) == tuple(y)


@pytest.mark.parametrize("p", [3, 5, pytest.param(7, marks=pytest.mark.slow)])
def test_a_false_report_answers_two_challenges_at_most(monkeypatch, p):
    """Theorem 4's polynomial, with the exponents that an algebraic adversary must know."""
    labels = ["k", "bit 0", "square 0", "h", "value 0", "unknown"]
    group = independent(p, labels)
    substitute(monkeypatch, group)
    of = Proofs(bounded(1), b"")
    rng = random.Random(p)
    best = Counter()
    for _ in range(900):
        C, D, A, B = _first(rng, p)
        first = bytes((*D, *A, *B))
        answered = 0
        for c in range(p):
            group.oracle = {(b"", b"id", bytes(C), first): c}
            f, z = (c * D[1] + A[1]) % p, (c * D[0] + A[0]) % p  # else the exponents differ
            answer = bytes((f, z, (c * C[3] + B[3]) % p))
            answered += accepts(monkeypatch, of, (b"id", bytes(C), first + answer))
        false = any(C[at] for at in (0, 1, 2, 5)) or C[4] > 1
        best[false] = max(best[false], answered)
    assert best == {False: p, True: 2}


def _first(rng: random.Random, p: int) -> list[list[int]]:
    """Return exponents of a report's points: some are those of a proof, the others anything."""
    bit, a, blinding, rho, beta = (rng.randrange(p) for _ in range(5))
    proof = [
        [0, 0, 0, blinding, bit, 0],
        [rho, bit, a * (1 - 2 * bit) % p, 0, 0, 0],
        [rng.randrange(p), a, -a * a % p, 0, 0, 0],
        [0, 0, 0, beta, a, 0],
    ]
    changes = rng.sample([(i, j) for i in range(4) for j in range(6)], rng.randrange(4))
    for i, j in changes:
        proof[i][j] = rng.randrange(p)
    return proof


@cache
def _columns(q: int, m: int, r: tuple[int, ...]) -> Counter[tuple[tuple[int, ...], ...]]:
    """Return the law of m shuffled columns of shares of r."""
    found = Counter()
    for drawn in itertools.product(range(q), repeat=len(r) * (m - 1)):
        rows = [drawn[b * (m - 1) : (b + 1) * (m - 1)] for b in range(len(r))]
        shares = [(*row, (r_b - sum(row)) % q) for row, r_b in zip(rows, r, strict=True)]
        found[tuple(tuple(sorted(column)) for column in zip(*shares, strict=True))] += 1
    return found


def _distance(first: Counter, second: Counter) -> Fraction:
    difference = sum(abs(first[x] - second[x]) for x in first | second)
    return Fraction(difference, 2 * first.total())


@cache
def _given(q, m, C, y, other):
    """Return the distance of the columns given the commitments, for two inputs; h = g."""
    laws = (
        _columns(q, m, tuple((c - y_b) % q for c, y_b in zip(C, values, strict=True)))
        for values in (y, other)
    )
    return _distance(*laws)


@pytest.mark.parametrize(
    ("n", "q", "m", "a", "distance", "worst"),
    [
        (2, 2, 2, 1, Fraction(1, 4), Fraction(1, 2)),
        (3, 2, 3, 1, Fraction(1, 8), Fraction(1, 4)),
        (3, 3, 2, 1, Fraction(31, 81), Fraction(7, 9)),
        (3, 3, 2, 2, Fraction(31, 81), Fraction(7, 9)),
    ],
)
def test_the_commitment_is_the_clear_share(monkeypatch, n, q, m, a, distance, worst):
    """Theorem 1: distances of the plain protocol with a clear share; without it, given C."""
    group = one_coordinate(q, 1, 1, 0)
    group.generators |= {"h": (a,), "value 0": (1,)}
    group.BASE = (1,)
    substitute(monkeypatch, group)
    of = Proofs(Statement(0, (), (Form(0, ()),), ()), b"")
    points = {(y, r): of.commit([y], r)[0] for y in range(q) for r in range(q)}

    @cache
    def view(values):
        law = Counter()
        for r in itertools.product(range(q), repeat=n):
            C = tuple(points[pair] for pair in zip(values, r, strict=True))
            law |= {(C, V): count for V, count in _columns(q, m, r).items()}
        return law

    pairs = [
        (y, other)
        for y in itertools.product(range(q), repeat=n)
        for other in itertools.product(range(q), repeat=n)
        if sum(y) % q == sum(other) % q and y < other
    ]
    assert max(_distance(view(y), view(other)) for y, other in pairs) == distance
    every = itertools.product(range(q), repeat=n)
    assert max(_given(q, m, C, *pair) for C in every for pair in pairs) == worst


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "q", "m", "adaptive"), [(2, 2, 2, Fraction(1, 2)), (3, 3, 2, Fraction(5, 9))]
)
def test_who_chooses_the_set_sees_more(n, q, m, adaptive):
    """With one spare report: why messages are counted without a clear share then."""
    y, other = (0,) * (n + 1), (1,) * (n + 1)  # any n of them have equal sums
    sets = [*itertools.combinations(range(n + 1), n)]
    total = sum(
        max(_given(q, m, tuple(C[b] for b in S), y[:n], other[:n]) for S in sets)
        for C in itertools.product(range(q), repeat=n + 1)
    )
    assert total / q ** (n + 1) == adaptive


@pytest.mark.parametrize("missing", [0, 1])
def test_a_coalition_of_adders_sees_the_sum_alone(monkeypatch, missing):
    """Theorem 5 with n = 2, q = 3 and one relay: equal laws for equal sums, and only for them."""
    group = one_coordinate(3, 1, 1, 0)
    substitute(monkeypatch, group)
    of = Proofs(Statement(0, (), (Form(0, ()),), ()), b"")

    def user(y):
        for v1, s0, s1 in itertools.product(range(3), repeat=3):
            shares = [((y - v1) % 3, s0), (v1, s1)]
            yield tuple(of.commit([v], s) for v, s in shares), shares

    @cache
    def view(values):
        law = Counter()
        for users in itertools.product(*(list(user(y)) for y in values)):
            seen = tuple((points, shares[1 - missing]) for points, shares in users)
            sums = zip(*(shares[missing] for _, shares in users), strict=True)
            law[seen, tuple(sum(column) % 3 for column in sums)] += 1
        return law

    for y, other in itertools.combinations(itertools.product(range(3), repeat=2), 2):
        assert (view(y) == view(other)) == (sum(y) % 3 == sum(other) % 3)
