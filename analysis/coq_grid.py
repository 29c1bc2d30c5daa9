"""Write certificates of a grid of settings as statements that Coq then checks.

python -m analysis.coq_grid > build/Grid.v && coqc -Q proofs Ikos build/Grid.v
"""

from __future__ import annotations

from itertools import product

from ikos.counts.certificate import Certificate, certify

SETTINGS = tuple(
    product((2, 3, 5, 8, 12), (2, 3, 4, 256), (2, 3, 5), ("parallel", "single"), (True, False))
)
"""Numbers of users, orders of the group, numbers of messages, shufflers, and clear shares."""

WEIGHTS = {
    ("parallel", True): "parallel_f", ("parallel", False): "parallel_f2",
    ("single", True): "single_f", ("single", False): "single_f2",
}  # fmt: skip
"""The recursion's weights in ``proofs/Numbers.v``."""

HEAD = """\
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect.
From Ikos Require Import Numbers Certificate.
"""


def claimed() -> list[Certificate]:
    """Return the certificates that claim something."""
    found = (
        certify(n, q, m, shuffler=shuffler, clear_share=clear)
        for n, q, m, shuffler, clear in SETTINGS
    )
    return [one for one in found if one.divergence.mantissa is not None]


def statement(certificate: Certificate) -> str:
    """Return the statement that Coq's own value is at most the certificate's."""
    bound, weights = certificate.divergence, WEIGHTS[certificate.shuffler, certificate.clear_share]
    assert bound.mantissa is not None
    shift = max(0, -bound.exponent)
    mantissa = bound.mantissa << (bound.exponent + shift)
    numbers = f"{certificate.n} {certificate.m} {certificate.q} {mantissa} {shift}"
    return f"Goal certified {weights} {numbers}. Proof. by vm_compute. Qed."


if __name__ == "__main__":
    print(HEAD, *map(statement, claimed()), sep="\n")
