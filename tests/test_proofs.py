"""The machine-checked proofs: what cites them, certificates as theorems, and Coq's own word."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import coq_grid
from ikos.counts.certificate import Certificate, Dyadic, certify
from ikos.counts.coq import coq_theorem
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
    compiled = (PROOFS / "Makefile").read_text(encoding="utf-8").splitlines()[1].split()[2:]
    assert {f"{name}.v" for name in [*compiled, "Assumptions"]} == {path.name for path in sources}


@pytest.mark.parametrize(("shuffler", "clear"), KINDS)
def test_a_certificate_is_stated_with_its_numbers(shuffler: str, clear: bool) -> None:
    found = certify(12, 2**20, 9, shuffler=shuffler, clear_share=clear)
    text = coq_theorem(found)
    bound = re.search(r"nat_of_bin (\d+)%num\)%:R / 2%:R \^\+ (\d+) / 2%:R\.", text)
    assert bound is not None
    divergence = found.divergence
    assert divergence.mantissa is not None
    assert int(bound[1]) == divergence.mantissa * 2 ** (int(bound[2]) + divergence.exponent)
    assert "{ffun 'I_12 -> G}" in text
    assert "nat_of_bin 1048576%num = #|G|" in text
    assert text.count("(@owner 9 _)") == 2
    assert text.count("Pr2 (") == (0 if clear else 2)
    assert ("one more in the clear" in text) is clear
    assert ("a single shuffler" in text) is (shuffler == "single")
    assert text.count("(parallel 9 _)" if shuffler == "parallel" else "(single _)") == 2


def test_a_bound_above_one_is_a_whole_number() -> None:
    found = replace(certify(5, 4, 4), divergence=Dyadic(3, 2))
    assert "(nat_of_bin 12%num)%:R / 2%:R ^+ 0 / 2%:R" in coq_theorem(found)


@pytest.mark.parametrize(
    "found",
    [certify(30, 2**64, 2), certify(101, 2**8, 9), certify(5, 2, 1, clear_share=False)],
    ids=["nothing", "users", "messages"],
)
def test_what_coq_could_not_check_is_refused(found: Certificate) -> None:
    with pytest.raises(ValueError, match="certificate must"):
        coq_theorem(replace(found, divergence=Dyadic(1, 0)) if found.m == 1 else found)


def compiled(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Return what Coq says of a file."""
    path = folder / "Claim.v"
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        ["coqc", "-w", "none", "-Q", str(PROOFS), "Ikos", path],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def built() -> str:
    """Compile the proofs where that has not been done, and return what was said."""
    done = subprocess.run(
        ["make", "-C", str(PROOFS), "check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@NEEDS_COQ
@pytest.mark.slow
def test_every_theorem_is_proved_without_an_axiom(built: str) -> None:
    assert built.count(CLOSED) == 1 + len(theorems())  # the Makefile's own line says it once more


@NEEDS_COQ
@pytest.mark.slow
@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(("shuffler", "clear"), KINDS)
def test_coq_proves_the_exact_value_and_one_unit_less_is_refused(
    shuffler: str, clear: bool, tmp_path: Path
) -> None:
    found = certify(5, 4, 4, shuffler=shuffler, clear_share=clear)
    exact = rational(5, 4, ShareGraph(4, shuffler, clear)).divergence[5]
    least = math.ceil(exact * 2**300)
    for mantissa, status in ((least, 0), (least - 1, 1)):
        done = compiled(coq_theorem(replace(found, divergence=Dyadic(mantissa, -300))), tmp_path)
        assert done.returncode == status
        assert (done.stdout.strip() == CLOSED) is (status == 0)


@NEEDS_COQ
@pytest.mark.slow
@pytest.mark.usefixtures("built")
def test_coq_agrees_with_a_grid_of_certificates(tmp_path: Path) -> None:
    claimed = coq_grid.claimed()
    assert len(claimed) == 191
    text = "\n".join([coq_grid.HEAD, *map(coq_grid.statement, claimed)])
    assert compiled(text, tmp_path).returncode == 0
