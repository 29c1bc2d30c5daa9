"""Certificates of the secure sum as theorems that Coq checks against the sources in ``proofs``."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2

from ikos._validation import InvalidValue
from ikos.counts.certificate import Certificate
from ikos.counts.share_graph import ShareGraph
from ikos.numeric.search import smallest
from ikos.results.report import digits

__all__ = ["coq_theorem"]

MOST_USERS = 300  # whose recursion Coq evaluates within seconds
_BITS = 64  # of the bound that is stated
_PARTS = 8  # into which the theorem for any number of users splits it
_SCALE = 20_000  # bits after the point of sums that are very small

_HEAD = """\
(* What `ikos certify` claims of a secure sum. Compile the proofs first, and then this file:
   coqc -w none -Q PROOFS Ikos FILE, where PROOFS is the folder of the proofs. *)
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Shuffle NoClear Instances Kinds Rounded AnyNumber.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* {users} hold values of an abelian group of
   {q} elements.
   Each sends {m} messages through {shufflers}{clear}.
   For no event T of the views do the probabilities for two inputs x and x' of the same sum differ
   by more than the root of the bound. *)
"""

_FEW = """\
Theorem certificate (G : finZmodType) (x x' : {{ffun 'I_{n} -> G}}) T :
  nat_of_bin {q} = #|G| -> \\sum_i x i = \\sum_i x' i ->
  ({pr} (@owner {m} _) ({group}) x T - {pr} (@owner {m} _) ({group}) x' T) ^+ 2 <=
  (nat_of_bin {mantissa})%:R / 2%:R ^+ {shift} / 2%:R.
Proof.
move=> order; apply: (@rounded_security{suffix} {bits} {single} {n} {m} G {q} {mantissa} {shift}
  order x x' T).
by vm_compute.
Qed.
Print Assumptions certificate.
"""

_MANY = """\
Theorem certificate (n : nat) (G : finZmodType) (x x' : {{ffun 'I_n -> G}}) T :
  (nat_of_bin {n} <= n)%N -> nat_of_bin {q} = #|G| ->
  \\sum_i x i = \\sum_i x' i ->
  ({pr} (@owner {m} _) ({group}) x T - {pr} (@owner {m} _) ({group}) x' T) ^+ 2 <=
  (nat_of_bin {mantissa})%:R / 2%:R ^+ {shift} / 2%:R.
Proof.
move=> users order; apply: (@any_security{suffix} {bits} {scale} {single} {m} {q} {v} {z} {parts}
  {n} {mantissa} {shift} n users G order x x' T).
  exact (leq_trans (positive_gt0 {positive}) users).
vm_compute; reflexivity.
Qed.
Print Assumptions certificate.
"""


def coq_theorem(certificate: Certificate) -> str:
    """Return a Coq file that states and proves what a certificate of the secure sum claims.

    Coq evaluates the bound itself: nothing that this library computed is assumed. Up to 300 users
    this is the exact recursion, rounded up; for more it is a theorem for this number of users and
    every larger one. The bound that is stated is the certificate's rounded up to 64 bits, and for
    more than 300 users above it by a factor of 1 + 8/n.

    Parameters
    ----------
    certificate : Certificate
        From `ikos.counts.certificate.certify`.

    Returns
    -------
    str
        The file. ``coqc`` accepts it only if what it states is proved.

    Raises
    ------
    ValueError
        If the certificate claims nothing, or if it has more than 300 users and the theorem for
        any number of users does not cover them.

    Examples
    --------
    >>> from ikos.counts.certificate import certify
    >>> print(coq_theorem(certify(5, 4, 4)).splitlines()[13])
    Theorem certificate (G : finZmodType) (x x' : {ffun 'I_5 -> G}) T :
    """
    n, q, m = certificate.n, certificate.q, certificate.m
    mantissa, shift = stated(certificate)
    many = n > MOST_USERS
    single = certificate.shuffler == "single"
    facts: dict[str, object] = {
        "n": f"{n}%num" if many else n, "q": f"{digits(q)}%num", "m": m, "shift": f"{shift}%num",
        "mantissa": f"{digits(mantissa)}%num", "bits": f"{evaluated_bits(certificate)}%num",
        "single": str(single).lower(), "group": "single _" if single else f"parallel {m} _",
        "pr": "Pr" if certificate.clear_share else "Pr2",
        "suffix": "" if certificate.clear_share else "_no_clear",
    }  # fmt: skip
    if many:
        facts |= _cut(certificate)
    head = _HEAD.format(
        users=f"{n} users{' or more' * many}", q=digits(q), m=m,
        shufflers="a single shuffler" if single else "parallel shufflers",
        clear=", and one more in the clear" if certificate.clear_share else "",
    )  # fmt: skip
    return head + (_MANY if many else _FEW).format(**facts)


def evaluated_bits(certificate: Certificate) -> int:
    """Return the bits in which Coq evaluates the bound.

    Where a single message hides, lower and upper bounds of the recursion part by a factor of two
    with every user.
    """
    return _BITS + 32 + (certificate.n if _graph(certificate).hiding < 2 else 0)


def _graph(certificate: Certificate) -> ShareGraph:
    return ShareGraph(certificate.m, certificate.shuffler, certificate.clear_share)


def stated(certificate: Certificate) -> tuple[int, int]:
    """Return the bound that is stated of a certificate, a mantissa and a negative exponent of 2."""
    divergence = certificate.divergence
    if divergence.mantissa is None:
        raise InvalidValue("certificate", "must claim something: it has too few messages")
    bound = divergence.mantissa * Fraction(2) ** divergence.exponent
    if certificate.n > MOST_USERS:
        bound *= 1 + Fraction(8, certificate.n)
    shift = max(0, _BITS - bound.numerator.bit_length() + bound.denominator.bit_length())
    return math.ceil(bound * 2**shift), shift


def _cut(certificate: Certificate) -> dict[str, object]:
    """Return where the theorem for any number of users cuts its sums, or refuse the certificate."""
    n, q = certificate.n, certificate.q
    graph = _graph(certificate)
    root, exact = gmpy2.iroot(3 * q, 6)
    v = max(2, int(root) + (not exact))
    least = 6 * q * v
    if graph.hiding >= 2 and graph.growth_exactly(n + 1) >= least:
        z = smallest(lambda z: graph.growth_exactly(z + 1) >= least, 1, most=n)
        if n > _PARTS + 8 * z:
            return {
                "v": f"{v}%num", "z": f"{z}%num", "parts": _PARTS, "scale": f"{_SCALE}%num",
                "positive": n,
            }  # fmt: skip
    raise InvalidValue(
        "certificate",
        f"must be one that Coq can check, of at most {MOST_USERS} users or of many more, "
        f"got {n} users",
    )
