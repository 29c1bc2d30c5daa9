"""Lemma C.4 of BBGN20, checked by enumeration.

    python -m analysis.lemma_c4

computes both sides of P[R(X) = S(R'(X))] = E[q^(C - mn)] as fractions, at many small sizes or at
one that is asked for. Each side is computed twice: the left-hand side also as the probability that
two views agree (Lemma C.2), the right-hand side also by the exact law of C. The exit status is 0
if all four are equal everywhere, and 1 if not.

``--json`` prints an object with

- ``checks``: for each size the integers ``users``, ``messages``, ``modulus``, ``permutations`` and
  ``tuples``; the ``shuffler``; the fractions, as texts, ``matched`` and ``views`` (left),
  ``expected`` and ``formula`` (right); and ``equal``, whether these four are;
- ``holds``: whether they are equal everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from analysis.enumeration import CollisionIdentity, case_count, check_collision_identity
from analysis.output import aligned, main
from ikos.cli.errors import Command
from ikos.cli.output import print_text, progress
from ikos.cli.types import MODULUS, NAME, WHOLE
from ikos.counts.share_graph import SHUFFLERS

Size = tuple[int, int, int, str]

SIZES = ((1, 2), (2, 2), (2, 3), (2, 4), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2))
"""Users and messages of the default grid."""

MODULI = (2, 3, 4, 6)
"""Its groups; the order need not be prime."""

GRID_CASES = 12_000_000
"""Of these sizes, those with at most this many pairs of a permutation and a tuple of shares."""

EXAMPLES = """\b
Examples
  python -m analysis.lemma_c4
  python -m analysis.lemma_c4 --users 3 --messages 3 --modulus 4 --shuffler parallel
"""


def default_grid(shufflers: Sequence[str] = SHUFFLERS) -> Iterator[Size]:
    """Yield the sizes that take a few seconds in all: users, messages, modulus, shuffler."""
    for shuffler in shufflers:
        for n, m in SIZES:
            for q in MODULI:
                try:
                    few = case_count(n, m, q, shuffler=shuffler) <= GRID_CASES
                except ValueError:  # too many to be enumerated at all
                    few = False
                if few:
                    yield n, m, q, shuffler


def check_all(sizes: Sequence[Size]) -> list[CollisionIdentity]:
    """Check the identity at each size, with progress on standard error."""
    found = []
    # before anything is enumerated, so that a size that is refused is refused at once
    weights = [case_count(n, m, q, shuffler=shuffler) for n, m, q, shuffler in sizes]
    with progress("enumerating") as shown:
        for i, (n, m, q, shuffler) in enumerate(sizes, 1):
            found.append(check_collision_identity(n, m, q, shuffler=shuffler))
            if shown is not None:
                shown(sum(weights[:i]), sum(weights))
    return found


def _text(found: Sequence[CollisionIdentity]) -> list[str]:
    header = ("n", "m", "q", "shuffler", "permutations", "tuples", "left", "right", "equal")
    rows = [
        (
            str(check.n),
            str(check.m),
            str(check.q),
            check.shuffler,
            f"{check.permutations:,}",
            f"{check.tuples:,}",
            str(check.matched),
            str(check.expected),
            "yes" if check.holds else "NO",
        )
        for check in found
    ]
    return [
        "Lemma C.4 of BBGN20, and for one shuffler: P[R(X) = S(R'(X))] = E[q^(C - mn)]",
        "",
        *aligned([header, *rows]),
        "",
        *(line for check in found if not check.holds for line in _difference(check)),
        _verdict(found),
    ]


def _difference(check: CollisionIdentity) -> list[str]:
    """Return what a row of two numbers cannot say: which of the four is another one."""
    return [
        f"n = {check.n}, m = {check.m}, q = {check.q}, {check.shuffler}:",
        *aligned(
            [
                ("P[R(X) = S(R'(X))], enumerated", str(check.matched)),
                ("P[V(X) = V'(X)], enumerated", str(check.views)),
                ("E[q^(C - mn)], enumerated", str(check.expected)),
                ("E[q^(C - mn)], by the exact law", str(check.formula)),
            ]
        ),
        "",
    ]


def _verdict(found: Sequence[CollisionIdentity]) -> str:
    wrong = sum(not check.holds for check in found)
    if wrong:
        return f"The identity fails in {wrong} of {len(found)} cases."
    if len(found) == 1:
        return "The identity holds."
    return f"The identity holds in all {len(found)} cases."


def _json(found: Sequence[CollisionIdentity]) -> dict[str, Any]:
    return {
        "checks": [
            {
                "users": check.n,
                "messages": check.m,
                "modulus": check.q,
                "shuffler": check.shuffler,
                "permutations": check.permutations,
                "tuples": check.tuples,
                "matched": str(check.matched),
                "views": str(check.views),
                "expected": str(check.expected),
                "formula": str(check.formula),
                "equal": check.holds,
            }
            for check in found
        ],
        "holds": all(check.holds for check in found),
    }


@click.command(
    "python -m analysis.lemma_c4",
    cls=Command,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.option("--users", type=WHOLE, help="How many, e.g. 3.")
@click.option("--messages", type=WHOLE, help="Of each user, all of them shuffled, e.g. 2.")
@click.option("--modulus", type=MODULUS, help="Order of the group, e.g. 4; need not be prime.")
@click.option("--shuffler", type=NAME["shuffler"], help="Only parallel shufflers, or a single one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    users: int | None,
    messages: int | None,
    modulus: int | None,
    shuffler: str | None,
    as_json: bool,
) -> None:
    """Check Lemma C.4 of BBGN20 by listing every permutation.

    The probability that the shares of two independent sharings of the same
    uniform inputs are equal once the shufflers have permuted one of them is an
    expectation over the components of a random graph. Both sides are computed
    as fractions. Without sizes, many small ones are checked, in a few seconds.

    The exit status is 1 if the two sides differ anywhere.
    """
    shufflers = [shuffler] if shuffler else list(SHUFFLERS)
    if users is None and messages is None and modulus is None:
        sizes = list(default_grid(shufflers))
    elif users is None or messages is None or modulus is None:
        given = {"--users": users, "--messages": messages, "--modulus": modulus}
        missing = " and ".join(name for name, value in given.items() if value is None)
        raise click.UsageError(f"a single size also needs {missing}")
    else:
        sizes = [(users, messages, modulus, kind) for kind in shufflers]
    found = check_all(sizes)
    if as_json:
        print_text([json.dumps(_json(found), indent=2, allow_nan=False)])
    else:
        print_text(_text(found))
    if not all(check.holds for check in found):
        click.get_current_context().exit(1)


if __name__ == "__main__":
    main(command)
