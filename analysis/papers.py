"""Print the papers, item by item: what each item states, and a call that runs it.

The table is ``analysis/papers.toml``: for each paper, named as in ``docs/references.md``, a title,
the imports of its calls, and its items in the paper's order, each an `Item`. The tests run the
calls, and compare the page with this program's.

    python -m analysis.papers --output docs    # writes docs/papers.md
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.output import Files, main, program

TABLE = Path(__file__).with_suffix(".toml")

INTRO = """\
# The papers, item by item

Every numbered statement, table, figure and numeric claim of five papers ([](references.md)), each
with a call that runs it and, after an arrow, what the call gives. Begin with the imports at the top
of the section, in a checkout of the source, which `analysis` needs. An item *agrees* with the
paper, *differs* for the reason stated, or is *replaced* by what is stated; the word leads to the
page with the details.
"""

HEADER = """\
| statement, and whether it agrees | call, and what it gives |
|----------------------------------|-------------------------|
"""


@dataclass(frozen=True)
class Item:
    """An item of a paper. Unless it ``differs`` or something else is there ``instead``, it agrees.

    Parameters
    ----------
    item : str
        Its number, or its section and a few words.
    says : str
        What it states, in a sentence.
    page : str
        The page of the documentation that has the details, with an anchor.
    runs : str
        A doctest; or a command of `ikos` after ``$ ``, and its output; or a program of `analysis`,
        of which a test compares what the documentation shows. May be empty if
        ``instead`` explains it.
    differs, instead : str
        Why the paper has another result; what has taken the item's place.
    figures : sequence of str
        The files in ``docs/figures`` that the program makes.
    slow : bool
        Whether it takes more than a quarter of a second.
    """

    item: str
    says: str
    page: str
    runs: str = ""
    differs: str = ""
    instead: str = ""
    figures: Sequence[str] = ()
    slow: bool = False

    @property
    def command(self) -> str:
        """The command that it runs, or an empty text."""
        first = self.runs.partition("\n")[0]
        return first.removeprefix("$ ") if first.startswith("$ ") else ""

    @property
    def row(self) -> str:
        """Its row of the page's table."""
        verdict, why = "agrees", self.differs or self.instead
        if why:
            verdict = "**differs**" if self.differs else "**replaced**"
        verdict = f"[{verdict}]({self.page})" + (f": {why}" if why else "")
        cells = f"**{self.item}.** {self.says}<br>{verdict}", "<br>".join(_spans(self.runs))
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def _spans(runs: str) -> Iterator[str]:
    """Yield code for each line of a session: what is typed, and what is printed after an arrow."""
    for line in runs.splitlines():
        typed = line.startswith(("$ ", ">>> ", "... "))
        text = line.partition(" ")[2] if typed else " ".join(line.split())
        yield f"`{text}`" if typed else f"→ `{text}`"


@dataclass(frozen=True)
class Paper:
    """A paper: its short name and title, the imports of its calls, and its items."""

    name: str
    title: str
    imports: str
    items: Sequence[Item]

    @property
    def section(self) -> str:
        """Its section of the page."""
        rows = "".join(item.row for item in self.items)
        return f"## {self.name}: {self.title}\n\n```pycon\n{self.imports}```\n\n{HEADER}{rows}"


def papers() -> list[Paper]:
    """Return the table."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [
        Paper(name, paper["title"], paper["imports"], [Item(**item) for item in paper["items"]])
        for name, paper in table.items()
    ]


@program("--output docs", printed=True)
def command(files: Files) -> None:
    """Print the page of the papers, item by item."""
    files.report("papers", "\n".join([INTRO, *(paper.section for paper in papers())]))


if __name__ == "__main__":
    main(command)
