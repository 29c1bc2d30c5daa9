"""The claims for reviewers: what each names is there, and the page shows them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_docs_links import DOCS, ROOT, broken

from analysis import mutants
from analysis.review import Claim, claims, command, guard, passed

CLAIMS = claims()


def test_what_claims_name_is_there() -> None:
    for claim in CLAIMS:
        assert not broken(DOCS / "review.md", claim.proof)
        for file, names in re.findall(r"([\w/]+\.py)(?:: ([\w, ]+))?", claim.code):
            module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
            assert all(hasattr(module, name) for name in filter(None, names.split(", ")))
        assert mutants.applies(guard(claim), ROOT)


def test_the_page_has_them(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    CliRunner().invoke(command, ["--output", str(tmp_path)], catch_exceptions=False)
    same = [(folder / "figures" / "review.md").read_text("utf-8") for folder in (tmp_path, DOCS)]
    assert same[0] == same[1], "python -m analysis.review --output docs"


@pytest.mark.slow
def test_tests_that_fail_or_are_missing_are_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_a():\n    pass\n\ndef test_b():\n    assert 0\n")
    claim = Claim("", "", "", ("test_it.py::test_a",), "")
    assert passed(claim, tmp_path) == "1 passed"
    for name in ("test_b", "test_c"):
        assert passed(Claim("", "", "", (f"test_it.py::{name}",), ""), tmp_path) == "FAILED"
