"""Sphinx configuration: `make docs`, or sphinx-build -W -n -b html docs docs/_build/html."""

from __future__ import annotations

import importlib
import itertools
import logging
import os
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from docutils import nodes
from latex2mathml.converter import convert

import ikos

project = "ikos"
author = "the ikos developers"
release = version = ikos.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["attrs_block", "deflist", "dollarmath"]
myst_heading_anchors = 3  # so that a link can name a heading of another page
html_math_renderer = "mathml"  # needs no script and no network
exclude_patterns = ["_build", "figures"]
nitpicky = True
default_role = "py:obj"

# Types stand in the numpydoc sections in words, "(n,) ndarray of int64": they are not names to
# look up, and signatures without annotations stay readable.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_ivar = True
add_module_names = True  # what stands before a name is where to import it from
toc_object_entries = False  # the contents beside a page show its sections, which names would hide

# All that these let pass: the words of an Attributes section's types ("(n,) ndarray or None", names
# that share a line, the distribution of the noise), and internals that docstrings name.
nitpick_ignore_regex = [
    ("py:class", r"ndarray|mapping|callable|sequence|iterable|(fractions\.)?Fraction|mpfr|mpq"),
    ("py:class", r"PolyaDifference|ErrorBound|Flooding|Trust|collections\.abc\..*"),
    ("py:class", r"n|m|q|k|d|2|delta|analysis|sets|lower|precision|epsilon|first|difference"),
    ("py:class", r"shuffler|correct"),
    ("py:class", r".* .*|Coefficients|numpy\..*"),  # words before a colon in a docstring
    ("py:class", r".*\".*"),  # a choice of strings
    ("py:obj", r"ikos\.modular\.Zq|ikos\.counts\.hockey_stick|release|inverse|COMPOSITIONS"),
    ("py:obj", r"Interrupted|Histogram|digest|SHOWN"),
    ("py:obj", r"ikos\.deployment\.service"),
    ("py:obj", r"run|report|randomize|sent|hash_values|blocks"),  # of the class that says so
]
suppress_warnings: list[str] = []

html_theme = "furo"
html_title = f"ikos {release}"
html_static_path = ["_static"]
html_css_files = ["math.css"]
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

nb_execution_mode = "force"  # what a page shows is what the library says now
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_output_stderr = "warn"
os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # the interpreter that builds this, and no other
logging.getLogger("traitlets").setLevel(logging.WARNING)

man_pages = [("cli", "ikos", "sum private numbers in the shuffle model", author, 1)]

try:
    cli = importlib.import_module("ikos.cli.program")
except ImportError:
    exclude_patterns.append("cli.md")
    suppress_warnings.append("toc.excluded")


def add_notebooks(app: Any) -> None:
    """Copy the notebooks to where Sphinx finds them, unless it makes what has no pictures."""
    if app.builder.format != "html":
        app.config.exclude_patterns.append("notebooks/*")
        app.config.suppress_warnings.append("toc.excluded")
        return
    importlib.import_module("matplotlib.font_manager")  # lists the fonts, of which a page may speak
    profile = Path(app.doctreedir) / "ipython" / "profile_default"  # not the user's own
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
    os.environ["IPYTHONDIR"] = str(profile.parent)
    pages = Path(app.srcdir) / "notebooks"
    pages.mkdir(exist_ok=True)
    sources = {path.name: path.read_bytes() for path in pages.parent.glob("../notebooks/*.ipynb")}
    for page in pages.glob("*.ipynb"):
        if page.name not in sources:
            page.unlink()
    for name, source in sources.items():
        page = pages / name
        if not page.exists() or page.read_bytes() != source:  # unchanged ones are not run again
            page.write_bytes(source)


def add_help(_app: Any, docname: str, source: list[str]) -> None:
    """Append the help of every command to the command line's page, under a group those in it."""
    if docname != "cli":
        return
    source[0] += help_section(2)
    for name in cli.COMMANDS:
        source[0] += help_section(2, name)
        for inner in getattr(cli.commands.get_command(None, name), "commands", ()):
            source[0] += help_section(3, name, inner)


def help_section(level: int, *names: str) -> str:
    """Return a heading and a command's help as Markdown."""
    run = CliRunner().invoke(cli.commands, [*names, "--help"], prog_name="ikos")
    heading = f"{'#' * level} `{' '.join(('ikos', *names))}`"
    command = cli.commands
    for name in names:
        command = command.get_command(None, name)
    keys = [f"- `{key}`: {said}" for key, said in getattr(command, "keys", {}).items()]
    keys += [f"- `rows[].{key}`: {said}" for key, said in getattr(command, "columns", {}).items()]
    listed = "\n".join(["\nKeys of the JSON object:\n", *keys, ""]) if keys else ""
    return f"\n{heading}\n\n```text\n{run.output.rstrip()}\n```\n{listed}"


def from_the_top(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Resolve a name that another module uses as a package exports it."""
    if node.get("refdomain") != "py":
        return None
    python = env.get_domain("py")
    document = node.get("refdoc")
    rooms = ("results.conditions", "results.sums", "baselines", "accounting")
    for package in ("ikos", *(f"ikos.{room}" for room in rooms)):
        target = f"{package}.{node['reftarget']}"
        found = python.resolve_xref(env, document, app.builder, "obj", target, node, contnode)
        if found is not None:
            return found
    return None


BAR = re.compile(r"`[^`]*`|(?<!\\)\|")


def bars(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Keep the bars of norms and absolute values, which are marks of substitutions otherwise."""
    for i, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...")):
            lines[i] = BAR.sub(lambda found: found[0] if "`" in found[0] else "\\|", line)


GROUP = re.compile(r"(?P<names>\w+(?:, \w+)+)(?P<kind> : .*)?")


def one_by_one(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Give each attribute that shares a line with others a line of its own."""
    if "Attributes" not in lines:
        return
    head, rest = (lines[: lines.index("Attributes") + 2], lines[lines.index("Attributes") + 2 :])
    out: list[str] = []
    while rest:
        line = rest.pop(0)
        group = GROUP.fullmatch(line)
        if group is None:
            out.append(line)
            continue
        body = list(itertools.takewhile(lambda text: text[:1] == " ", rest))
        del rest[: len(body)]
        for name in group["names"].split(", "):
            out += [name + (group["kind"] or ""), *body]
    lines[:] = head + out


FORMULA = "overflow-x: auto; overflow-y: hidden; padding: 0.5em 0"

SYMBOLS = {
    r">\|<": ">&#x2016;<",
    r">\{<": ">{<",
    r">\}<": ">}<",
    '<mo accent="true">&#x02015;</mo>': '<mo class="bar"></mo>',
    "&#x029F5;": "&#x02216;",
}
"""What the converter gets wrong: large brackets, a bar that does not stretch, a rare minus sign."""


def mathml(node: Any, display: str = "inline") -> str:
    """Return a formula as MathML."""
    text: str = convert(node.astext(), display=display)
    for wrong, right in SYMBOLS.items():
        text = text.replace(wrong, right)
    return text


def inline_math(translator: Any, node: Any) -> None:
    """Write a formula within a line."""
    translator.body.append(mathml(node))
    raise nodes.SkipNode


def displayed_math(translator: Any, node: Any) -> None:
    """Write a formula of its own."""
    translator.body.append(f'<div style="{FORMULA}">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (inline_math, None), (displayed_math, None))
    app.connect("builder-inited", add_notebooks, priority=1)
    app.connect("source-read", add_help)
    app.connect("autodoc-process-docstring", one_by_one, priority=100)
    app.connect("autodoc-process-docstring", bars)
    app.connect("missing-reference", from_the_top)
