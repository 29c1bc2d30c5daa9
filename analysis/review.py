"""What a reviewer should check first, with the evidence: each claim's tests and its mutant.

The table is ``analysis/review.toml``. For each claim the tests that check it are run (of whole
files the quick ones), and then run again on a copy of the library with one known mistake
(`analysis.mutants`), which they must notice. ``make review`` runs all of it.

    python -m analysis.review                   # all claims
    python -m analysis.review --only noise      # those whose words or code say so
    python -m analysis.review --output docs     # write the table of docs/review.md, and run nothing
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import click

from analysis import mutants
from analysis.output import main
from ikos.cli.errors import Command
from ikos.plots import written_whole

TABLE = Path(__file__).with_suffix(".toml")
_PROCESSES = 2


@dataclass(frozen=True)
class Claim:
    """What is claimed, the section of its proof in ``docs``, its code, and what guards it.

    ``mutant`` is what an entry of ``tests/mutants.toml`` says; ``tests`` must notice it.
    """

    claim: str
    proof: str
    code: str
    tests: tuple[str, ...]
    mutant: str

    def row(self) -> list[str]:
        """Return the row of the documentation's table."""
        tests = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in self.tests)
        code = re.sub(r"([\w/]+\.py)", r"`\1`", self.code)
        page = self.proof.partition("#")[0].removesuffix(".md").replace("-", " ")
        return [self.claim, f"[{page}]({self.proof})", code, tests, self.mutant]


def claims() -> list[Claim]:
    """Return the claims of the table."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["claims"]
    return [Claim(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def guard(claim: Claim) -> mutants.Mutant:
    """Return a claim's mutant, for the tests of the claim."""
    (mutant,) = (one for one in mutants.read() if one.says == claim.mutant)
    return replace(mutant, tests=claim.tests)


def passed(claim: Claim, tree: Path) -> str:
    """Return how many tests of a claim passed, or "FAILED"."""
    some = "not reproduces" if all("::" in test for test in claim.tests) else "not slow"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"]
    done = subprocess.run(
        [*command, "-m", some, *claim.tests],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, check=False,
    )  # fmt: skip
    count = re.search(rb"(\d+) passed", done.stdout)
    return f"{int(count[1])} passed" if count and not done.returncode else "FAILED"


def evidence(claim: Claim, tree: Path = mutants.ROOT) -> tuple[str, str, float]:
    """Return the outcomes of a claim's tests and of its mutant, and the seconds they took."""
    begun = time.monotonic()
    tests = passed(claim, tree)
    ((_, mutant, _),) = mutants.outcomes([guard(claim)], tree)
    return tests, mutant, time.monotonic() - begun


@click.command("python -m analysis.review", cls=Command)
@click.option("--only", default="", help="A word of the claims, or of their code.")
@click.option(
    "--output",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of the documentation, to write its table.",
)
def command(only: str, output: Path | None) -> None:
    """Print claim, evidence and result; the status is 1 if anything fails."""
    chosen = [one for one in claims() if only in f"{one.claim} {one.code}"]
    if output is not None:
        head = ["claim", "proof", "code", "tests", "a mistake that they notice"]
        rows = [head, ["---"] * len(head), *(one.row() for one in chosen)]
        with written_whole(output / "figures" / "review.md") as file:
            file.write("".join(f"| {' | '.join(row)} |\n" for row in rows).encode())
        return
    bad = 0
    with ThreadPoolExecutor(_PROCESSES) as pool:
        for claim, (tests, mutant, seconds) in zip(chosen, pool.map(evidence, chosen), strict=True):
            holds = tests != "FAILED" and mutant == mutants.DIED
            bad += not holds
            click.echo(f"{'holds' if holds else 'FAILS':6} {seconds:4.0f} s  {claim.claim}")
            click.echo(f"       tests: {tests}; mutant {mutant}: {claim.mutant}")
    click.echo(f"{len(chosen)} claims, {bad} of them without their evidence")
    click.get_current_context().exit(int(bad > 0))


if __name__ == "__main__":
    main(command)
