"""The machine-checked proofs: what cites them, certificates as theorems, and Coq's own word."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from ikos.counts.certificate import Certificate, Dyadic, certify
from ikos.counts.coq import coq_theorem, evaluated_bits, stated
from ikos.counts.recursion import rational
from ikos.counts.share_graph import ShareGraph

ROOT = Path(__file__).parents[1]
PROOFS = ROOT / "proofs"
NEEDS_COQ = pytest.mark.skipif(shutil.which("coqc") is None, reason="needs Coq and MathComp")
KINDS = [("parallel", True), ("parallel", False), ("single", True), ("single", False)]
CLOSED = "Closed under the global context"


def theorems() -> set[str]:
    """Return the theorems whose assumptions the build prints."""
    text = (PROOFS / "Assumptions.v").read_text(encoding="utf-8")
    return set(re.findall(r"^Print Assumptions (\w+)\.$", text, re.MULTILINE))


def expanded(name: str) -> list[str]:
    """Return what a name with braces stands for."""
    braces = re.search(r"\{([^{}]*)\}", name)
    if braces is None:
        return [name]
    before, after = name[: braces.start()], name[braces.end() :]
    return [each for part in braces[1].split(",") for each in expanded(before + part + after)]


def tabulated() -> set[str]:
    """Return the names in the table of the proofs' own description."""
    text = (PROOFS / "README.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| [A-Z][^|]* \|([^|]*)\|", text, re.MULTILINE)
    return {
        each for cell in cells for name in re.findall(r"`(.*?)`", cell) for each in expanded(name)
    }


def test_what_the_documentation_cites_is_checked() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in PROOFS.glob("*.v")}
    stated = set(
        re.findall(
            r"^(?:Theorem|Lemma|Corollary|Example) (\w+)", "".join(sources.values()), re.MULTILINE
        )
    )
    cited = set()
    for page in (ROOT / "docs").rglob("*.md"):
        marks = re.findall(
            r"^Machine-checked: (.*?)\(\[", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        cited |= {name for mark in marks for name in re.findall(r"`(\w+)`", mark)}
    assert len(cited) > 10
    assert cited <= theorems() <= stated
    assert tabulated() & stated <= theorems()
    makefile = (PROOFS / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    compiled = re.search(r"^FILES := (.*)$", makefile, re.MULTILINE)[1].split()  # type: ignore[index]
    assert {f"{name}.v" for name in [*compiled, "Assumptions"]} == {path.name for path in sources}


@pytest.mark.parametrize(("shuffler", "clear"), KINDS)
def test_a_certificate_is_stated_with_its_numbers(shuffler: str, clear: bool) -> None:
    found = certify(12, 2**20, 9, shuffler=shuffler, clear_share=clear)
    text = coq_theorem(found)
    bound = re.search(r"nat_of_bin (\d+)%num\)%:R / 2%:R \^\+ (\d+)%num / 2%:R\.", text)
    assert bound is not None
    divergence = found.divergence
    assert divergence.mantissa is not None
    claim = divergence.mantissa * Fraction(2) ** divergence.exponent
    assert claim <= Fraction(int(bound[1]), 2 ** int(bound[2])) < claim * (1 + Fraction(1, 2**62))
    assert "{ffun 'I_12 -> G}" in text
    assert "nat_of_bin 1048576%num = #|G|" in text
    assert text.count("(@owner 9 _)") == 2
    assert text.count("Pr2 (") == (0 if clear else 2)
    assert ("one more in the clear" in text) is clear
    assert ("a single shuffler" in text) is (shuffler == "single")
    assert text.count("(parallel 9 _)" if shuffler == "parallel" else "(single _)") == 2


def test_a_bound_of_many_users_is_for_every_larger_number() -> None:
    text = coq_theorem(certify(10**6, 2**64, 13))
    assert "(nat_of_bin 1000000%num <= n)%N" in text
    assert "1000000 users or more" in text
    assert stated(replace(certify(5, 4, 4), divergence=Dyadic(3, 80))) == (3 << 80, 0)


@pytest.mark.parametrize(
    "found",
    [certify(30, 2**64, 2), certify(301, 2**256, 38), certify(301, 2, 2, clear_share=False)],
    ids=["nothing", "group", "messages"],
)
def test_what_coq_could_not_check_is_refused(found: Certificate) -> None:
    with pytest.raises(ValueError, match="certificate must"):
        coq_theorem(found)


def compiled(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Return what Coq says of a file."""
    path = folder / "Claim.v"
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        ["coqc", "-w", "none", "-Q", str(PROOFS), "Ikos", path],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def make(target: str) -> str:
    """Make a target of the proofs, and return what is said."""
    command = ["make", "-C", str(PROOFS), target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built() -> None:
    """Compile the proofs where that has not been done."""
    make("all")


@NEEDS_COQ
@pytest.mark.slow
@pytest.mark.usefixtures("built")
def test_every_theorem_is_proved_without_an_axiom() -> None:
    said = make("check").count(CLOSED) - 1  # in the recipe's own line
    assert said == len(theorems())


@NEEDS_COQ
@pytest.mark.slow
@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(("shuffler", "clear"), KINDS)
def test_coq_proves_the_exact_value_and_one_unit_less_is_refused(
    shuffler: str, clear: bool, tmp_path: Path
) -> None:
    found = certify(5, 4, 4, shuffler=shuffler, clear_share=clear)
    exact = rational(5, 4, ShareGraph(4, shuffler, clear)).divergence[5]
    shift = 60 - exact.numerator.bit_length() + exact.denominator.bit_length()
    least = math.ceil(exact * 2**shift)
    for mantissa, status in ((least, 0), (least - 1, 1)):
        done = compiled(coq_theorem(replace(found, divergence=Dyadic(mantissa, -shift))), tmp_path)
        assert done.returncode == status
        assert (done.stdout.strip() == CLOSED) is (status == 0)


@NEEDS_COQ
@pytest.mark.slow
@pytest.mark.usefixtures("built")
def test_coq_agrees_with_a_grid_of_certificates(tmp_path: Path) -> None:
    few = product((2, 3, 5, 12, 30), (2, 3, 256, 2**64), (2, 3, 6, 20), KINDS)
    settings = [*few, *product((100,), (2**64,), (20, 21), KINDS)]
    lines = [
        "From Coq Require Import NArith.",
        "From mathcomp Require Import all_ssreflect.",
        "From Ikos Require Import Rounded.",
    ]
    for n, q, m, (shuffler, clear) in settings:
        found = certify(n, q, m, shuffler=shuffler, clear_share=clear)
        if found.divergence.mantissa is not None:
            kind = f"{shuffler == 'single'} {clear}".lower()
            mantissa, shift = stated(found)
            numbers = f"{evaluated_bits(found)} {kind} {n} {m} {q} {mantissa} {shift}"
            lines.append(f"Goal certified_rounded {numbers}. Proof. by vm_compute. Qed.")
    assert len(lines) > 200
    done = compiled("\n".join(lines), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@NEEDS_COQ
@pytest.mark.slow
@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("n", "q", "m", "shuffler", "clear"),
    [
        (301, 2**64, 40, "parallel", True),
        (10**6, 2**64, 13, "parallel", True),
        (10**6, 2**64, 14, "single", False),
        (10**9, 2**32, 3, "single", True),
        (10**9, 2**64, 7, "parallel", False),
    ],
)
def test_coq_proves_certificates_of_many_users(
    n: int, q: int, m: int, shuffler: str, clear: bool, tmp_path: Path
) -> None:
    found = certify(n, q, m, shuffler=shuffler, clear_share=clear)
    done = compiled(coq_theorem(found), tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, CLOSED)
    mantissa, exponent = found.divergence.mantissa, found.divergence.exponent
    assert mantissa is not None
    less = replace(found, divergence=Dyadic(mantissa * 15 // 16, exponent))
    assert compiled(coq_theorem(less), tmp_path).returncode == 1
