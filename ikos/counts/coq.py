"""Certificates of the secure sum as theorems that Coq checks against the sources in ``proofs``."""

from __future__ import annotations

from ikos._validation import InvalidValue
from ikos.counts.certificate import Certificate

__all__ = ["coq_theorem"]

_NAMES = {
    ("parallel", True): ("certified_parallel order", "Pr", "parallel {m} _"),
    ("single", True): ("certified_single order", "Pr", "single _"),
    ("parallel", False): (
        "certified_parallel_no_clear order (isT : (1 < {m})%N)",
        "Pr2",
        "parallel {m} _",
    ),
    ("single", False): ("certified_single_no_clear order (isT : (1 < {m})%N)", "Pr2", "single _"),
}
"""For each shuffler, with and without a clear share, names of ``proofs/Certificate.v``: the
theorem, the probability of an event, and the group of permutations."""

MOST_USERS = 100  # at which Coq takes more than six minutes for groups of order 2^64

_FILE = """\
(* What `ikos certify` claims of a secure sum. Compile the proofs first, and then this file:
   coqc -Q PROOFS Ikos FILE, where PROOFS is the folder of the proofs. *)
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Ikos Require Import Shuffle NoClear Instances Bipartite Numbers Certificate.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* {n} users hold values of an abelian group of {q} elements, and each sends {m} messages through
   {shufflers}{clear}. For no event T of the views do the
   probabilities for two inputs x and x' of the same sum differ by more than the root of this. *)
Theorem certificate (G : finZmodType) (x x' : {{ffun 'I_{n} -> G}}) T :
  nat_of_bin {q}%num = #|G| -> \\sum_i x i = \\sum_i x' i ->
  ({probability} (@owner {m} _) ({permutations}) x T -
   {probability} (@owner {m} _) ({permutations}) x' T) ^+ 2 <=
  (nat_of_bin {mantissa}%num)%:R / 2%:R ^+ {shift} / 2%:R.
Proof. by move=> order; apply: ({theorem}); vm_compute. Qed.
Print Assumptions certificate.
"""


def coq_theorem(certificate: Certificate) -> str:
    """Return a Coq file that states and proves what a certificate of the secure sum claims.

    The proof evaluates the exact recursion inside Coq, with the certificate's number of users,
    group and messages, and compares it with the certificate's bound. Nothing that this library
    computed is assumed.

    Parameters
    ----------
    certificate : Certificate
        From `ikos.counts.certificate.certify`, of at most 100 users.

    Returns
    -------
    str
        The file. ``coqc`` accepts it if and only if the exact value is at most the bound.

    Raises
    ------
    ValueError
        If the certificate claims nothing, if it has more than 100 users, or a single message
        without a clear share.

    Examples
    --------
    >>> from ikos.counts.certificate import certify
    >>> print(coq_theorem(certify(5, 4, 4)).splitlines()[11])
    Theorem certificate (G : finZmodType) (x x' : {ffun 'I_5 -> G}) T :
    """
    divergence = certificate.divergence
    if divergence.mantissa is None:
        raise InvalidValue("certificate", "must claim something: it has too few messages")
    if certificate.n > MOST_USERS:
        raise InvalidValue(
            "certificate", f"must have at most {MOST_USERS} users, got {certificate.n}"
        )
    theorem, probability, permutations = _NAMES[certificate.shuffler, certificate.clear_share]
    if not certificate.clear_share and certificate.m < 2:
        raise InvalidValue("certificate", "must have two messages where none is clear, got 1")
    shift = max(0, -divergence.exponent)
    return _FILE.format(
        n=certificate.n, q=certificate.q, m=certificate.m,
        shufflers="a single shuffler" if certificate.shuffler == "single" else "parallel shufflers",
        clear=", and one more in the clear" if certificate.clear_share else "",
        probability=probability, theorem=theorem.format(m=certificate.m),
        permutations=permutations.format(m=certificate.m),
        mantissa=divergence.mantissa << (divergence.exponent + shift), shift=shift,
    )  # fmt: skip
