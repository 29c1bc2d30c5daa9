"""Which way imports go: what the layout promises, read from the sources."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import ikos

ROOT = Path(ikos.__file__).parent
ABOVE = {"__main__", "cli"}
"""Programs: nothing that is imported knows of them."""

CALCULATORS = ("numeric", "counts", "accounting", "graphs", "results")
PROTOCOLS = {"sums", "baselines", "statistics"}


def _named(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {_named(path): path for path in ROOT.rglob("*.py")}


def imported(source: str, modules: frozenset[str]) -> set[str]:
    """Return the modules that a source imports, at its top or later, for types or to run."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            inner = {f"{node.module}.{name.name}" for name in node.names}
            found |= inner & modules | {str(node.module)}
    return found


@cache
def _graph() -> nx.DiGraph:
    modules = frozenset(FILES)
    return nx.DiGraph(
        (name, other)
        for name, path in FILES.items()
        for other in imported(path.read_text("utf-8"), modules)
    )


def _room(module: str) -> str:
    return module.removeprefix("ikos.").split(".")[0]


@cache
def _rooms() -> nx.DiGraph:
    # the package itself imports its parts when they are asked for, and is asked for its version
    edges = {(_room(a), _room(b)) for a, b in _graph().edges if b.startswith("ikos.")}
    return nx.DiGraph((a, b) for a, b in edges if a != b and a != "ikos")


@pytest.mark.slow
def test_the_sources_are_read():
    assert _graph().has_edge("ikos.sums.secure", "ikos.counts")
    source = "import a.b\ndef f():\n    from c import d, e"
    assert imported(source, frozenset({"c.d"})) == {"a.b", "c", "c.d"}


def test_no_room_needs_itself():
    assert not list(nx.simple_cycles(_rooms()))


@pytest.mark.parametrize("room", CALCULATORS)
def test_calculators_know_no_protocol(room):
    assert not nx.descendants(_rooms(), room) & (PROTOCOLS | ABOVE)


def test_nothing_knows_the_programs():
    users = {a for a, b in _rooms().edges if b in ABOVE} - ABOVE
    assert not users
    assert not {b for b in _graph() if b.split(".")[0] in {"analysis", "tests", "benchmarks"}}


PARTIES = {
    "client": ("client",),
    "shuffler": ("shuffler", "intermediary"),
    "helper": ("helper", "adder", "intermediary"),
    "relay": ("relay", "adder", "intermediary"),
    "analyzer": ("analyzer",),
}


@pytest.mark.parametrize("party", PARTIES)
def test_no_party_knows_another(party):
    """Neither itself nor through what it imports."""
    theirs = {m for p, ms in PARTIES.items() if p != party for m in ms} - {*PARTIES[party]}
    others = {f"ikos.deployment.{m}" for m in theirs}
    for module in PARTIES[party]:
        assert not nx.descendants(_graph(), f"ikos.deployment.{module}") & others


def test_clients_need_no_server():
    """A device installs ``ikos[client]``, which is less than ``ikos[deployment]``."""
    needed = {other.split(".")[0] for other in nx.descendants(_graph(), "ikos.deployment.client")}
    servers = {"h11", "prometheus_client", "starlette", "uvicorn"}
    assert not needed & {*servers, "matplotlib", "networkx"}
    extras = tomllib.loads((ROOT.parent / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    names = {
        extra: {re.split(r"[>=]", one)[0] for one in extras[extra]}
        for extra in ("client", "deployment")
    }
    assert names["client"] <= needed
    assert names["deployment"] == {"ikos[client]", *servers}


def test_plots_and_extras_are_not_needed():
    """Nothing draws, or asks for an extra, but the rooms that are there for it."""
    rooms = {"plots", "cluster", "deployment", "data", "cli"}
    extras = {"matplotlib", "dask", "distributed", "starlette", "uvicorn", "httpx", "pyarrow"}
    users = {_room(a) for a, b in _graph().edges if b.split(".")[0] in extras}
    assert users <= rooms
    assert {a for a, b in _graph().edges if b == "coincurve"} == {"ikos.verified.group"}
    elsewhere = {a for a, b in _graph().edges if b.split(".")[0] == "dp_accounting"}
    assert elsewhere == {"ikos.accounting.loss_distributions"}
    assert not nx.ancestors(_graph(), "ikos.accounting.loss_distributions")
