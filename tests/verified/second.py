"""A second verifier, which shares no code with the library: one curve, in Python's integers.

It is written from docs/verified-sums.md alone, checks each proof by itself and follows the
equations as they are printed. About 20 ms for a proof of three bits.
"""

import functools
import hashlib
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

P = 2**256 - 2**32 - 977
Q = int("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
    1,
)


def add(a, b):
    """Add points in Jacobian coordinates; None is the identity."""
    if a is None or b is None:
        return a or b
    (x1, y1, z1), (x2, y2, z2) = a, b
    u1, u2 = x1 * z2 * z2 % P, x2 * z1 * z1 % P
    s1, s2 = y1 * z2**3 % P, y2 * z1**3 % P
    h, r = (u2 - u1) % P, (s2 - s1) % P
    if h:
        x = (r * r - h**3 - 2 * u1 * h * h) % P
        return x, (r * (u1 * h * h - x) - s1 * h**3) % P, z1 * z2 * h % P
    if r:
        return None
    s, m = 4 * x1 * y1 * y1 % P, 3 * x1 * x1 % P
    x = (m * m - 2 * s) % P
    return x, (m * (s - x) - 8 * y1**4) % P, 2 * y1 * z1 % P


def product(pairs):
    """Return the product of powers: pairs of a point and an exponent."""
    pairs = [(point, exponent % Q) for point, exponent in pairs]
    total = None
    for bit in reversed(range(256)):
        total = add(total, total)
        for point, exponent in pairs:
            if exponent >> bit & 1:
                total = add(total, point)
    return total


def point(data):
    """Read a compressed point."""
    assert len(data) == 33
    assert data[0] in (2, 3)
    x = int.from_bytes(data[1:], "big")
    y = pow(x**3 + 7, (P + 1) // 4, P)
    assert x < P
    assert (y * y - x**3 - 7) % P == 0
    return x, y if y % 2 == data[0] % 2 else P - y, 1


def scalar(data):
    """Read a scalar."""
    value = int.from_bytes(data, "big")
    assert value < Q
    return value


@functools.cache
def generator(label):
    counter = 0
    while True:
        text = b"ikos verified generator" + counter.to_bytes(4, "big") + label.encode()
        try:
            return point(b"\2" + hashlib.sha256(text).digest())
        except AssertionError:
            counter += 1


def challenge(*parts):
    text = b"ikos verified sum 1: proof"
    text += b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return int.from_bytes(hashlib.sha512(text).digest(), "big") % Q


def weights(largest):
    size = largest.bit_length()
    return [2**j for j in range(size - 1)] + [largest - 2 ** (size - 1) + 1] if size else []


def shape(statement):
    """Return the number of free bits, and f -> derived wires and f -> values, with c for 1.

    A statement is ("bounded", largest, dimension) or ("one-hot", dimension, steps, width).
    """
    kind, *numbers = statement
    largest, d = numbers if kind == "bounded" else (numbers[2] - 1, numbers[0])
    w = weights(largest)

    def number(f, i):
        return sum(w_j * f_j for w_j, f_j in zip(w, f[i * len(w) :], strict=False))

    if kind == "bounded":
        return d * len(w), lambda f, c: [], lambda f, c: [number(f, i) for i in range(d)]
    first = d * len(w)

    def values(f, c):
        classes = [*f[first:], c - sum(f[first:])]
        return [number(f, i) + numbers[1] * classes[i] for i in range(d)]

    return first + d - 1, lambda f, c: [c - sum(f[first:])], values


def valid(statement, context, name, commitments, proof):
    """Return whether a proof is valid, by both equations of the page."""
    free, derived, values = shape(statement)
    try:
        assert commitments
        assert len(proof) == 3 * 33 + 32 * (free + 2)
        C = None
        for at in range(0, len(commitments), 33):
            C = add(C, point(commitments[at : at + 33]))
        D, A, B = (point(proof[at : at + 33]) for at in (0, 33, 66))
        *f, z, link = (scalar(proof[at : at + 32]) for at in range(99, len(proof), 32))
    except AssertionError:
        return False
    c = challenge(context, name, commitments, proof[:99])
    wires = f + derived(f, c)
    left = [(D, c), (A, 1), (generator("k"), -z)]
    left += [(generator(f"bit {j}"), -f_j) for j, f_j in enumerate(f)]
    left += [(generator(f"square {j}"), -f_j * (c - f_j)) for j, f_j in enumerate(wires)]
    right = [(C, c), (B, 1), (generator("h"), -link)]
    bases = [G] + [generator(f"value {i}") for i in range(1, len(values(f, c)))]
    right += [(base, -y) for base, y in zip(bases, values(f, c), strict=True)]
    return product(left) is None and product(right) is None


def sha256(data):
    return hashlib.sha256(data).digest()


def own(text, size):
    """Read hexadecimal digits."""
    assert len(text) == 2 * size
    assert set(text) <= set("0123456789abcdef")
    return bytes.fromhex(text)


def certificate(data):
    """Return the number of reports and the sums of a valid certificate; AssertionError for others.

    Of a valid first line it checks what a reader relies on: types, sizes and what must agree.
    """
    *lines, nothing = data.split(b"\n")
    assert nothing == b""
    head, *rows, end = (line.decode("ascii") for line in lines)
    assert max(map(len, lines)) <= 65536

    def unique(pairs):
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    head, end = (json.loads(line, object_pairs_hook=unique) for line in (head, end))
    assert list(head) == ["certificate", "parameters", "window", "keys"]
    assert list(end) == ["sums", "blinding", "signatures"]
    assert head["certificate"] == "ikos-verified-sum-1"
    of = head["parameters"]
    canonical = json.dumps(of, sort_keys=True, separators=(",", ":")).encode()
    window = own(head["window"], len(head["window"]) // 2)
    context = sha256(canonical) + window
    assert 0 < len(window) <= 1000
    inner = of.get("secure_sum", of)
    numbers = [inner[name] for name in ("n", "min_honest", "dimension", "largest")]
    n, least, d, largest = numbers
    assert all(type(number) is int for number in numbers)
    assert 1 <= least <= n <= 10**9
    assert inner["q"] == hex(Q)
    assert 1 <= largest < 2**128
    hot = inner["one_hot"]
    statement = ("bounded", largest, d)
    if hot is not None:
        steps, width = hot["steps"], hot["width"]
        assert largest == steps + width - 1
        assert steps > 0 < width
        statement = ("one-hot", d, steps, width)
    bits = d * len(weights(largest)) if hot is None else d * (len(weights(width - 1)) + 1) - 1
    assert (1 if hot is None else 2) <= d
    assert bits <= 500
    if "secure_sum" in of:
        width = largest - of["precision"] + 1
        widths = [of[name] for name in ("noise_width", "noise_cut_width") if name in of]
        assert widths == [str(width)]
        assert hot in (None, {"steps": of["precision"], "width": width})
        assert -1e100 <= float.fromhex(of["lower"]) < float.fromhex(of["upper"]) <= 1e100
    added = inner["protocol"] == "ikos-added-openings-1"
    parties = inner["relays"] + 1 if added else 1
    assert added or inner["protocol"] == "ikos-shuffled-openings-1"
    assert type(head["keys"]) is type(end["sums"]) is type(end["signatures"]) is list
    keys = [own(key, 32) for key in head["keys"]]
    assert len(set(keys)) == len(keys)
    assert not added or len(keys) in (0, parties)
    text = b"ikos-verified-sum-1: digest" + len(context).to_bytes(4, "big") + context
    last, total = b"", None
    for row in rows:
        name, commitments, proof = row.split(" ")
        name, commitments = own(name, 16), own(commitments, 33 * parties)
        proof = own(proof, 99 + 32 * (bits + 2))
        assert name > last
        assert valid(statement, context, name, commitments, proof)
        for at in range(0, len(commitments), 33):
            total = add(total, point(commitments[at : at + 33]))
        text += name + commitments + sha256(proof)
        last = name
    assert least <= len(rows) <= n
    sums, blinding = end["sums"], scalar(own(end["blinding"], 32))
    assert len(sums) == d
    assert all(type(one) is int and 0 <= one <= len(rows) * largest for one in sums)
    bases = [G] + [generator(f"value {i}") for i in range(1, d)]
    opening = product(
        [(generator("h"), -blinding), *((b, -y) for b, y in zip(bases, sums, strict=False))]
    )
    assert add(total, opening) is None
    for key, signature in zip(keys, end["signatures"], strict=True):
        Ed25519PublicKey.from_public_bytes(key).verify(own(signature, 64), sha256(text))
    return len(rows), sums
