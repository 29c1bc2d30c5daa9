"""Every link within the documentation leads somewhere, and every paper that is named is listed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "how-to").glob("*.md")),
    *sorted((ROOT / "ikos").rglob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
]

FENCE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"``.+?``|`[^`\n]+`")
LINK = re.compile(r"\]\(\s*<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\[[^\]\n]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
ATTRIBUTE = re.compile(r"<\w[^>]*?\b(?:href|src)\s*=\s*[\"']([^\"']*)[\"']", re.IGNORECASE)
SHOWN = re.compile(r"^`{3,}\{(?:include|figure|image)\}\s+(\S+)|^:file:\s*(\S+)", re.MULTILINE)
TREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^(?:[^:<\n]+<(?P<named>[^>\n]+)>|(?P<plain>[\w./-]+))$", re.MULTILINE)
LABEL = re.compile(r"^\(([\w-]+)\)=\s*$", re.MULTILINE)
HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^(?:https?|mailto):")


def label(page: Path) -> str:
    """Return a page's name."""
    return str(page.relative_to(ROOT))


@cache
def text_of(page: Path) -> str:
    """Return the Markdown of a page or of a notebook's cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return what a link may name within a page: labels, and headings as GitHub and MyST do."""
    text = FENCE.sub("", text_of(page))
    found = set(LABEL.findall(text))
    for marks, heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        if len(marks) <= 3 or page.suffix == ".ipynb" or DOCS not in page.parents:
            found.add(slug)  # the built pages give deeper headings no name
    if page == DOCS / "cli.md":  # which is built with the help of every command
        found |= {f"ikos-{name}" for name in commands()}
    return frozenset(found)


def commands() -> Iterator[str]:
    """Yield the names of the commands, and in groups those of both."""
    from ikos.cli import program as cli

    for name in cli.COMMANDS:
        yield name
        command = cli.commands.get_command(None, name)
        yield from (f"{name}-{inner}" for inner in getattr(command, "commands", ()))


@cache
def labels() -> frozenset[str]:
    """Return the labels that any page of the site may name without saying where they are."""
    return frozenset().union(
        *(LABEL.findall(text_of(page)) for page in PAGES if DOCS in page.parents)
    )


def targets(page: Path) -> Iterator[str]:
    """Yield where a page's links lead, what it includes, and its table of contents."""
    whole = text_of(page)
    prose = CODE.sub("", FENCE.sub("", whole))
    for pattern in (LINK, DEFINITION, ATTRIBUTE):
        yield from pattern.findall(prose)
    for parts in SHOWN.findall(whole):
        yield from filter(None, parts)
    for tree in TREE.findall(whole):
        for entry in ENTRY.finditer(re.sub(r"^:.*$", "", tree, flags=re.MULTILINE)):
            name = entry["named"] or entry["plain"]
            yield f"{name}.ipynb" if name.startswith("notebooks/") else f"{name}.md"


def broken(page: Path, target: str) -> str:
    """Return what is wrong with a link, or an empty text."""
    if ELSEWHERE.match(target):
        return ""
    path, _, anchor = unquote(target).partition("#")
    if not path:
        if not anchor:
            return "leads nowhere"
        known = anchors(page) | (labels() if DOCS in page.parents else set())
        return "" if anchor in known else f"has no anchor {anchor!r}"
    there = (page.parent / path).resolve()
    if page.parent == DOCS and path.startswith("notebooks/"):  # where the site has copies
        there = ROOT / path
    if not there.is_relative_to(ROOT) or not there.exists():
        return f"has no file {path!r}"
    if anchor and (there.suffix not in (".md", ".ipynb") or anchor not in anchors(there)):
        return f"{path!r} has no anchor {anchor!r}"
    return ""


FIGURE = re.compile(
    r"^```\{figure\} figures/(\S+)\n(?::target: _images/(\S+)\n)?(?::alt: (.+))?", re.MULTILINE
)


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent == DOCS], ids=label)
def test_figures_lead_to_themselves_and_are_described(page: Path) -> None:
    """A click shows what is too small in a narrow window: the built site keeps images there."""
    for shown, target, alternative in FIGURE.findall(text_of(page)):
        assert target == shown
        assert alternative, shown


@pytest.mark.points(60)
@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = [f"{target}: {why}" for target in targets(page) if (why := broken(page, target))]
    assert not wrong


def test_links_are_found_and_broken_ones_told() -> None:
    found = {target for page in PAGES for target in targets(page)}
    assert {"docs/figures/ikos.svg", "docs/threats.md", "figures/models.html"} <= found
    assert {"figures/bbgn20-table-1.md", "how-to/cluster.md", "#not-protected"} <= found
    assert {"../vectors.md#how-to-choose", "references.md#other-ways"} <= found
    assert len(found) > 60
    index = DOCS / "index.md"
    for target, why in (
        ("no-such-page.md", "has no file 'no-such-page.md'"),
        ("../../outside", "has no file '../../outside'"),
        ("#no-such-label", "has no anchor 'no-such-label'"),
        ("vectors.md#no-such-part", "'vectors.md' has no anchor 'no-such-part'"),
        ("", "leads nowhere"),
        ("scale.md#time", ""),
        ("https://example.org/#x", ""),
    ):
        assert broken(index, target) == why


PATH = re.compile(
    r"`((?:docs|ikos|tests|analysis|benchmarks|notebooks|\.ci)/[\w./*-]*|[A-Z]+\.(?:md|cff))`"
)
PROGRAM = re.compile(r"python -m ((?:analysis|ikos)\b[\w.]*)")
COMMANDS = re.compile(r"^```(?:console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MADE = re.compile(r"\bmake ([a-z][a-z-]+)\b(?=[`\s#])")


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_files_programs_and_targets_that_are_named_exist(page: Path) -> None:
    text = text_of(page)
    for path in PATH.findall(text):
        assert any(ROOT.glob(path.rstrip("/"))), path
    for program in PROGRAM.findall(text):
        path = ROOT / program.rstrip(".").replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), program
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    code = " ".join([*COMMANDS.findall(text), *CODE.findall(text)])
    assert set(MADE.findall(f"{code} ")) <= rules


NAME = re.compile(r"\b[A-Z]{1,7}\d\d\b")
"""A paper's short name: the initials of its authors, and its year."""


def test_papers_that_are_named_are_in_the_references() -> None:
    listed = re.findall(r"^- \*\*(\w+)\*\*: ", text_of(DOCS / "references.md"), re.MULTILINE)
    assert len(listed) == len(set(listed)) > 30
    code = [*(ROOT / "ikos").rglob("*.py"), *(ROOT / "analysis").glob("*.py")]
    texts = [text_of(page) for page in PAGES if page.name != "references.md"]
    texts += [path.read_text("utf-8") for path in [*code, *(DOCS / "figures").glob("*.md")]]
    named = {name for text in texts for name in NAME.findall(text)}
    assert {"BBGN20", "GPV19", "W65", "FMT21"} <= named
    assert named <= set(listed)
