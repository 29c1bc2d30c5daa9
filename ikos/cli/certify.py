"""``ikos certify``: the number behind a security level, for others to check."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ikos.cli.errors import Command
from ikos.cli.options import CLEAR_SHARE, from_option, takes
from ikos.cli.output import power_text, print_text
from ikos.cli.types import Whole
from ikos.results.report import Field, Report

COLUMNS = [
    Field("users", "number of users", "users", value="n"),
    Field("modulus", "order of the group of the shares; a string of digits", "modulus", power_text,
          value="q"),
    Field("shuffled", "shuffled messages of each user", "shuffled", value="m"),
    Field("shuffler", "parallel or single", "shuffler"),
    Field("clear_share", "whether a further message bypasses the shufflers"),
    Field("divergence", "upper bound on E[q^(C-1); C >= 2]: a mantissa and an exponent of 2",
          "divergence", str),
    Field("method", "how it was computed", "method"),
    Field("sigma", "security level in bits, proved by the divergence", "sigma"),
    Field("theorem", "the theorem that proves it"),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos certify --users 1000 --modulus 2^64 --messages 25
  ikos certify --users 10^6 --modulus 2^64 --messages 14 --coq
"""


@dataclass(frozen=True, kw_only=True)
class CertifyRequest:
    """Options of the command."""

    users: int = from_option(required=True, type=Whole(1))
    modulus: int = from_option(required=True, show_default=None)
    messages: int = from_option(required=True, type=Whole(1), show_default=None)
    shuffler: str
    clear_share: bool = from_option(CLEAR_SHARE)
    coq: bool = from_option(
        is_flag=True, help="Print a theorem for Coq instead, which proves the bound."
    )


@click.command("certify", cls=Command, epilog=EXAMPLES, columns=COLUMNS)
@takes(CertifyRequest)
def command(request: CertifyRequest) -> Report | None:
    """Show the number behind the security level of a secure sum.

    C is the number of components of the share graph of n users and q the
    modulus. The divergence is an upper bound on E[q^(C-1); C >= 2], an exact
    dyadic number in --json, and the level is (1 - log2 of it) / 2.

    With --coq the output is a file that states the security of this sum as a
    theorem. Coq proves it from the sources of the folder proofs, and takes no
    number of this program for granted.
    """
    from ikos.counts.certificate import certify

    if request.messages <= request.clear_share:
        raise click.UsageError(
            f"--messages must be at least 2, one of them the clear share, got {request.messages}"
        )
    certificate = certify(
        request.users, request.modulus, request.messages - request.clear_share,
        shuffler=request.shuffler, clear_share=request.clear_share,
    )  # fmt: skip
    if request.coq:
        from ikos.counts.coq import coq_theorem

        print_text(coq_theorem(certificate).splitlines())
        return None
    return Report("Certificate of a secure sum", COLUMNS, [certificate])
