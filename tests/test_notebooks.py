"""The notebooks are stored without outputs, have the parts they should, and run without a word of
complaint; what they assert of the mathematics then holds.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "notebooks").glob("*.ipynb"))
QUICK = "02-private-sum"
"""The one that the quick tests run."""

STRICT = "import warnings\nwarnings.simplefilter('error')"
LENIENT = "warnings.simplefilter('default')"
"""After the last cell: the kernel's own way to end is none of the notebook's business."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def read(page: Path) -> Any:
    return nbformat.read(page, as_version=nbformat.NO_CONVERT)


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def words(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def executed(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a notebook in a fresh kernel that writes into a folder alone, warnings being errors."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(folder / name.lower()))
    # the kernel of the interpreter that runs the tests, whatever else is called python3
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    work = folder / "work"
    work.mkdir()
    cells = [nbformat.v4.new_code_cell(source) for source in (STRICT, LENIENT)]
    notebook.cells = [cells[0], *notebook.cells, cells[1]]
    resources = {"metadata": {"path": str(work)}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources)
    client.execute()
    assert not list(work.iterdir())
    return notebook


def complaints(notebook: Any) -> str:
    """Return what cells wrote to the standard error."""
    outputs = (output for cell in code(notebook) for output in cell.outputs)
    return "".join(output.text for output in outputs if output.get("name") == "stderr")


def test_their_numbers_sort() -> None:
    numbers = [page.stem[:3] for page in PAGES]
    assert numbers == sorted({*numbers})
    assert all(re.fullmatch(r"\d\d-", number) for number in numbers)
    assert QUICK in {page.stem for page in PAGES}


# Running them


@pytest.mark.points(0)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem != QUICK))
        for page in PAGES
    ],
)
@pytest.mark.reproduces
def test_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = executed(read(page), tmp_path, monkeypatch)
    assert complaints(notebook) == ""
    shown = [output for cell in code(notebook) for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in shown) >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    ["assert 1 + 1 == 3", "import warnings; warnings.warn('look out')", "1 / 0"],
    ids=["assert", "warning", "error"],
)
def test_a_wrong_cell_is_found(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(wrong)])
    with pytest.raises(CellExecutionError):
        executed(notebook, tmp_path, monkeypatch)


@pytest.mark.slow
def test_a_complaint_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = nbformat.v4.new_code_cell("import sys; print('hm', file=sys.stderr)")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    assert complaints(executed(notebook, tmp_path, monkeypatch)) == "hm\n"


# How they are stored


@pages
def test_stored_without_outputs(page: Path) -> None:
    notebook = read(page)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata == {"language_info": {"name": "python"}}
    for cell in notebook.cells:
        assert cell.metadata == {}
        assert re.fullmatch(r"[a-z][a-z0-9-]*", cell.id)
    for cell in code(notebook):
        assert (cell.outputs, cell.execution_count) == ([], None)


@pages
def test_stored_the_same_way(page: Path) -> None:
    """As Jupyter writes it, a line of source to a line, so that differences are readable."""
    text = page.read_text(encoding="utf-8")
    stored = json.loads(text)
    assert text == json.dumps(stored, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


# What is in them


@pages
def test_parts(page: Path) -> None:
    notebook = read(page)
    first, last = notebook.cells[0], notebook.cells[-1]
    assert first.cell_type == last.cell_type == "markdown"
    title, blank, *opening = first.source.splitlines()
    assert re.match(r"# \w", title)
    assert (blank, len(opening)) == ("", 3)
    heading, blank, *exercises = last.source.splitlines()
    assert heading == "## Something to try"
    numbered = [line[:3] for line in exercises if line[:3] != "   "]
    assert numbered in (["1. ", "2. "], ["1. ", "2. ", "3. "])
    headings = [line for text in words(notebook) for line in text.splitlines() if line[:1] == "#"]
    assert len(headings) == len(set(headings))
    assert all(re.match(r"#{1,3} \w", line) for line in headings)


@pages
def test_cells_are_short(page: Path) -> None:
    notebook = read(page)
    assert all(len(cell.source.splitlines()) <= 30 for cell in code(notebook))
    assert max(len(line) for text in words(notebook) for line in text.splitlines()) <= 110


@pages
def test_code_proves_something_by_public_names(page: Path) -> None:
    source = "\n".join(cell.source for cell in code(read(page)))
    assert len(re.findall(r"^ *assert ", source, re.MULTILINE)) >= 5
    assert not re.search(r"[.\s]_[a-z]", source)  # a name that is not public
    assert set(re.findall(r"^[%!].*", source, re.MULTILINE)) == {"%matplotlib inline"}
    assert not re.search(r"https?:|/home|/tmp|/work|np\.random\.(?!default_rng\(\d)", source)


@pages
def test_words_hold_no_measured_numbers(page: Path) -> None:
    """Numbers that are computed are printed: those in words would go stale."""
    prose = " ".join(words(read(page))[:-1])
    assert not re.search(r"\d+\.\d+|\d,\d{3}", prose)


@pages
def test_seeded_randomness_is_named(page: Path) -> None:
    notebook = read(page)
    seeded = any("DeterministicRandom(" in cell.source for cell in code(notebook))
    prose = " ".join(" ".join(words(notebook)).split())
    assert not seeded or "protects nothing" in prose
