"""Certificates: files by which anyone can check a verified sum, line by line.

The first line states the parameters of the sum, its window and the parties' public keys, as JSON.
A line follows for each report, in the order of ids: its id, its commitments and its proof, in
hexadecimal. The last line has the sums in steps, the blinding factor with which they open the
product of all commitments, and the parties' signatures of the list, as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, BinaryIO, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ikos._validation import InvalidValue, choice, integer, number
from ikos.verified import group
from ikos.verified.proofs import Proofs
from ikos.verified.statements import ORDER, POINT_BYTES, SCALAR_BYTES, Statement, bounded, one_hot

FORMAT = "ikos-verified-sum-1"
ID_BYTES, KEY_BYTES, SIGNATURE_BYTES = 16, 32, 64
_LONGEST = 1 << 16  # bytes of a line
_TOGETHER = 1000  # reports that are verified together, about a megabyte
_MAX_USERS, _MAX_RELAYS, _MAX_WINDOW, _MAX_BOUND = 10**9, 100, 1000, 1e100
_OPENINGS = {"ikos-added-openings-1": "relays", "ikos-shuffled-openings-1": "shares"}
_SUMS = "ikos-private-sum-2", "ikos-private-vector-sum-2"
_NAMES = {"protocol", "epsilon", "precision", "lower", "upper", "integers", "secure_sum"}
_WIDTHS = {"noise_width", "noise_cut_width"}  # one of them: of uniform or of cut noise
_MORE = {"releases", "sensitivity", "domain", "sizes", "shape"}  # of vectors
_FIELDS = "the id", "the commitments", "the proof"

Report = tuple[bytes, bytes, bytes]
"""An id, the commitments one after the other, and the proof."""


class Units(NamedTuple):
    """The bounds of the data, their distance in steps, and the number of values of the noise."""

    lower: Fraction
    upper: Fraction
    precision: int
    width: int


def digest(context: bytes, receipts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return what every party signs: SHA-256 of the context, and of a set of reports.

    ``receipts`` are the ids, in order, each with the commitments and the SHA-256 of the proof.
    """
    hashed = _begun(context)
    for id, receipt in receipts:
        hashed.update(id + receipt)
    return hashed.digest()


def _begun(context: bytes) -> hashlib._Hash:
    """Return the digest of no reports yet."""
    return hashlib.sha256(f"{FORMAT}: digest".encode() + len(context).to_bytes(4) + context)


@dataclass(frozen=True)
class Certificate:
    """What lets anyone check a verified sum: see `verify`.

    Attributes
    ----------
    parameters, window : dict, bytes
        Those of the sum, `ikos.PrivateSum.parameters`, and its name.
    reports : iterable of (bytes, bytes, bytes)
        Each report's id, its commitments one after the other, and its proof, in the order of ids.
    sums, blinding : sequence of int, int
        The sum of each coordinate in steps, noise included, and of the blinding factors.
    keys, signatures : sequence of bytes
        Each party's Ed25519 public key, and its signature of the `digest` of the reports; none if
        one process played all parties.
    """

    parameters: Mapping[str, Any]
    window: bytes
    reports: Iterable[Report]
    sums: Sequence[int]
    blinding: int
    keys: Sequence[bytes] = ()
    signatures: Sequence[bytes] = ()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the file."""
        head = {"certificate": FORMAT, "parameters": self.parameters, "window": self.window.hex()}
        yield json.dumps(head | {"keys": [key.hex() for key in self.keys]}).encode() + b"\n"
        for report in self.reports:
            yield " ".join(part.hex() for part in report).encode() + b"\n"
        end = {"sums": [*self.sums], "blinding": self.blinding.to_bytes(SCALAR_BYTES).hex()}
        signatures = [signature.hex() for signature in self.signatures]
        yield json.dumps(end | {"signatures": signatures}).encode() + b"\n"


@dataclass(frozen=True)
class Checked:
    """A valid certificate: its first line, ``users`` reports with ``sums``.

    Each report has this number of ``commitments``, and satisfies the ``statement``; there are
    ``min_honest`` to ``n`` of them.
    """

    parameters: dict[str, Any]
    window: bytes
    keys: tuple[bytes, ...]
    statement: Statement
    commitments: int
    n: int
    min_honest: int
    users: int = 0
    sums: tuple[int, ...] = ()

    @property
    def parameter_hash(self) -> bytes:
        """The hash of the parameters, as of the sum."""
        canonical = json.dumps(self.parameters, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).digest()

    @property
    def units(self) -> Units | None:
        """The bounds and the noise of the data; None of exact sums."""
        return _units(self.parameters, self.statement) if "secure_sum" in self.parameters else None

    @property
    def estimates(self) -> list[float] | None:
        """The sums in the units of the data, less the mean of the noise; None of exact sums."""
        if self.units is None:
            return None
        lower, upper, precision, width = self.units
        step, mean = (upper - lower) / precision, Fraction(self.users * (width - 1), 2)
        return [float(self.users * lower + (total - mean) * step) for total in self.sums]


def verify(file: BinaryIO, progress: Callable[[int], None] | None = None) -> Checked:
    """Check a certificate, in the memory of a thousand reports.

    A valid one proves, if discrete logarithms on secp256k1 are hard and SHA-256 and SHA-512 are
    random oracles, that each listed report commits to a valid value for these parameters and this
    window, that the sums are theirs, and that the parties with these keys signed the list. It does
    not prove that reports are of eligible users, that none is left out, or that there is no other
    list.

    Parameters
    ----------
    file : binary file
        The certificate.
    progress : callable, optional
        Called with the number of reports that are verified.

    Raises
    ------
    InvalidValue
        For the first line that does not fit.

    Examples
    --------
    >>> import io
    >>> from ikos.verified.statements import bounded
    >>> parameters = {
    ...     "protocol": "ikos-added-openings-1", "relays": 1, "n": 2, "min_honest": 1,
    ...     "q": hex(ORDER), "dimension": 1, "largest": 5, "one_hot": None,
    ... }
    >>> verify(io.BytesIO(b"".join(Certificate(parameters, b"window", [], [0], 0).lines())))
    Traceback (most recent call last):
    ikos.InvalidValue: line 2: the number of reports must be at least 1, got 0
    """
    lines = _Lines(file)
    try:
        return _verified(lines, progress)
    except RecursionError:
        raise InvalidValue(f"line {lines.number}:", "it must not be nested as deeply") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidValue(f"line {lines.number}:", str(error)) from None


class _Lines:
    """The lines of a file, with the number of the last one that was read."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.number = file, 0

    def read(self) -> str:
        self.number += 1
        line = self.file.readline(_LONGEST + 1)
        if not (line.endswith(b"\n") and line.isascii()):
            whole = f"a whole line of at most {_LONGEST:,} characters of ASCII"
            raise ValueError(f"it must be {whole if line else 'there: the file ends before it'}")
        return line[:-1].decode()


def _verified(lines: _Lines, progress: Callable[[int], None] | None) -> Checked:
    """Return what is checked; a ValueError is about the last line that was read."""
    stated = _stated(lines.read())
    context = stated.parameter_hash + stated.window
    proofs, hashed = Proofs(stated.statement, context), _begun(context)
    sizes = ID_BYTES, stated.commitments * POINT_BYTES, stated.statement.proof_bytes
    last, product, text = b"", None, ""
    reports: list[Report] = []
    while not text.startswith("{"):
        text = lines.read()
        if not (ended := text.startswith("{")):
            parts = text.split(" ")
            if len(parts) != len(sizes):
                raise ValueError("it must be an id, commitments and a proof, or the last line")
            id, sent, proof = (_octets(*of) for of in zip(_FIELDS, parts, sizes, strict=True))
            if id <= last:
                raise ValueError("the id must be greater than that of the line before")
            last = id
            reports.append((id, sent, proof))
        if ended or len(reports) == _TOGETHER:
            for place in proofs.refused(reports)[:1]:
                lines.number += place - len(reports) + (not ended)
                raise ValueError("its proof must be valid for the sum and the window of line 1")
            for id, sent, proof in reports:
                points = (sent[at : at + POINT_BYTES] for at in range(0, len(sent), POINT_BYTES))
                product = group.combine([product, *map(group.decode, points)])
                hashed.update(id + sent + hashlib.sha256(proof).digest())
            stated, reports = replace(stated, users=stated.users + len(reports)), []
            if progress is not None:
                progress(stated.users)
    sums, blinding, signatures = _end(text, stated)
    if not proofs.opens([group.encode(product)] if product else [], sums, blinding):
        raise ValueError(
            "sums must be those of the reports: with blinding, open the product of all commitments"
        )
    for party, (key, signature) in enumerate(zip(stated.keys, signatures, strict=True)):
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, hashed.digest())
        except InvalidSignature:
            raise ValueError(f"signatures[{party}] must be that by keys[{party}]") from None
    if lines.file.read(1):
        lines.number += 1
        raise ValueError("it must not be there")
    return replace(stated, sums=tuple(sums))


def _stated(text: str) -> Checked:
    """Return what the first line states; nothing is built before its numbers are checked."""
    head = _object(text, certificate=str, parameters=dict, window=str, keys=list)
    choice("certificate", head["certificate"], [FORMAT])
    outer = inner = head["parameters"]
    if private := "secure_sum" in outer:
        choice("protocol", outer.get("protocol"), _SUMS)
        inner = dict(outer["secure_sum"])
    own = _OPENINGS[choice("protocol", inner.get("protocol"), _OPENINGS)]
    n = integer("n", inner.get("n"), low=1, high=_MAX_USERS)
    least = integer("min_honest", inner.get("min_honest"), low=1, high=n)
    added = own == "relays"
    relays = integer("relays", inner.get("relays", 0), low=int(added), high=_MAX_RELAYS)
    d, hot = inner.get("dimension"), dict(inner.get("one_hot") or {})
    statement = one_hot(d, **hot) if hot else bounded(inner.get("largest"), d)
    integer("largest", inner.get("largest"), low=statement.largest, high=statement.largest)
    expected = {"protocol": inner["protocol"], own: inner.get(own), "n": n, "min_honest": least}
    expected |= {"q": hex(ORDER), "dimension": d, "largest": statement.largest}
    expected |= {"one_hot": hot or None}
    more = () if private else ("upper", "shape")
    named = {name: value for name, value in inner.items() if name not in more} == expected
    others = outer.keys() - _WIDTHS
    if not named or (private and not _NAMES <= others <= _NAMES | _MORE):
        raise ValueError("parameters must have their own names alone, and fit each other")
    if private:
        _units(outer, statement)
    window = _octets("window", head["window"])
    if not 1 <= len(window) <= _MAX_WINDOW:
        raise ValueError(f"window must be 1 to {_MAX_WINDOW} bytes, got {len(window)}")
    keys = tuple(_octets("keys", key, KEY_BYTES) for key in head["keys"])
    if len({*keys}) < len(keys) or (keys and relays and len(keys) != relays + 1):
        raise ValueError("keys must be different ones, one for each party, or none")
    return Checked(outer, window, keys, statement, relays + 1, n, least)


def _units(outer: Mapping[str, Any], statement: Statement) -> Units:
    """Return the units of a private sum's parameters, which must fit the statement."""
    low, high = (float.fromhex(outer[end]) for end in ("lower", "upper"))
    lower = number("lower", low, low=-_MAX_BOUND)
    upper = number("upper", high, above=low, high=_MAX_BOUND)
    precision = integer("precision", outer["precision"], low=1, high=statement.largest)
    width = statement.largest - precision + 1
    named = [outer[name] for name in outer.keys() & _WIDTHS]
    if named != [str(width)] or statement.steps not in (0, precision):
        raise ValueError("noise_width, precision and largest must fit each other")
    return Units(lower, upper, precision, width)


def _end(text: str, stated: Checked) -> tuple[list[int], int, list[bytes]]:
    """Return what the last line has: the opening of all reports, and signatures."""
    end = _object(text, sums=list, blinding=str, signatures=list)
    integer("the number of reports", stated.users, low=stated.min_honest, high=stated.n)
    most = stated.users * stated.statement.largest
    sums = [integer("sums", total, low=0, high=most) for total in end["sums"]]
    opening = int.from_bytes(_octets("blinding", end["blinding"], SCALAR_BYTES))
    signatures = [_octets("signatures", one, SIGNATURE_BYTES) for one in end["signatures"]]
    if len(sums) != stated.statement.dimension or len(signatures) != len(stated.keys):
        raise ValueError("it must have a sum for each coordinate, and a signature for each key")
    return sums, integer("blinding", opening, high=ORDER - 1), signatures


def _object(text: str, **kinds: type) -> dict[str, Any]:
    """Return an object of JSON with these names alone, and values of these kinds."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a name must not be there twice")
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError:  # it may be any file
        found = None
    if not isinstance(found, dict) or {name: type(x) for name, x in found.items()} != kinds:
        raise ValueError(f"it must be an object of JSON with the names {', '.join(kinds)}")
    return found


def _octets(where: str, text: object, size: int | None = None) -> bytes:
    """Return bytes from the one form of their hexadecimal digits."""
    octets = bytes.fromhex(str(text))
    if octets.hex() != text or size not in (None, len(octets)):
        of = "" if size is None else f" of {size} bytes"
        raise ValueError(f"{where} must be lower-case hexadecimal digits{of}")
    return octets
