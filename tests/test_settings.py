"""Whatever its caller has set, the library computes the same, and it leaves that as it was."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hostile import forget, hostile

import ikos
from ikos import accounting, baselines, counts, graphs, statistics
from ikos.accounting.uniform_noise import composed_delta
from ikos.cli.program import commands
from ikos.counts.certificate import Dyadic
from ikos.data.sensitivity import Shift
from ikos.noise.cut_laplace_noise import CutLaplaceNoise
from ikos.numeric.uniform_sum import UniformSum
from ikos.primitives import samplers as noise
from ikos.results import confidence
from ikos.results.text import figures
from ikos.testing import DeterministicRandom

SOME = ("central-discrete", "sample-threshold", "sparse-noise", "correlated-noise", "recursive-2")
ROOT = Path(ikos.__file__).parent.parent


def cli(*words: str) -> Callable[[], Any]:
    """Return a call of a command that returns what it prints."""

    def call() -> Any:
        found = CliRunner().invoke(commands, words)
        assert found.exit_code == 0, found.output
        return found.output

    return call


def ball() -> Any:
    x = np.full((20, 3), 1e-200)
    protocol = ikos.PrivateVectorSum(20, ikos.Ball(3), 1, 0.01, messages=3)
    return protocol.run(x, DeterministicRandom(1)).estimate.tolist()


def importance(executor: ThreadPoolExecutor | None = None) -> Any:
    rng = DeterministicRandom(2)
    found = graphs.rare_components(40, 4, 200, at_least=3, rng=rng, executor=executor)
    return repr(found), found.estimate, found.interval()


def on_threads() -> Any:
    with ThreadPoolExecutor(2) as executor:
        return importance(executor)


def of_a_sum(*arguments: Any, **options: Any) -> Any:
    protocol = ikos.PrivateSum(*arguments, **options)
    result = protocol.run(np.linspace(0, 1, protocol.n), DeterministicRandom(3))
    return repr(protocol), repr(result), str(result), result.interval(0.9)


CASES: dict[str, Callable[[], Any]] = {
    "distribution of components": lambda: [float(p) for p in graphs.component_pmf(10, 3)],
    "check of components": lambda: str(
        graphs.check_components(12, 3, 500, rng=DeterministicRandom(1))
    ),
    "importance sampling": importance,
    "importance sampling on threads": on_threads,
    "enclosures": lambda: [(float(p), str(p)) for p in graphs.enclosed_law(10, 3, 8)],
    "moment": lambda: repr(graphs.component_moment(10, 4, 2**8)),
    "logarithm of a certificate": lambda: str(Dyadic(12345, -70)),
    "masks": lambda: (lambda found: (repr(found), found.security))(
        counts.mask_parameters(1000, 100, 1000, sigma=40)
    ),
    "what is left": lambda: repr(counts.private_remaining(9000, 2**22, 8, 0.99, 1e-6, 354)),
    "sum": lambda: of_a_sum(100, 1, 1e-6),
    "uniform noise": lambda: (
        composed_delta(400, 16, 30, 1.0),
        composed_delta(100, 16, 5, 1.0, 3),
        CutLaplaceNoise.least(Fraction(1), Fraction(1, 10**6), Shift(1, 9, 81, 9), 500),
        [UniformSum(400, 15).half_width(0.05, users) for users in (0, 400)],
    ),
    "counts of weak privacy": lambda: counts.private_delta(1000, 2**30, 5, 300.0, 354),
    "ball of tiny vectors": ball,
    "local epsilon": lambda: accounting.amplified_local_epsilon(1.0, 1e-6, 1000),
    "report": lambda: accounting.report_epsilon(accounting.laplace_report(1.0, 50), 1e-6, 1000),
    "advanced composition": lambda: accounting.advanced_composition([(0.01, 0.0)] * 900, 1e-6),
    "comparison": lambda: [repr(row) for row in baselines.comparison(100, 1, 1e-4, protocols=SOME)],
    "noise": lambda: noise.discrete_laplace(Fraction(1, 9), 50, DeterministicRandom(4)).tolist(),
    "interval": lambda: confidence.clopper_pearson(0, 10**6, 0.999),
    "figures": lambda: [figures(0.123456, 1e-3), figures(5e300, 1.0), figures(-1e-9, 1.0)],
    "histogram": lambda: str(
        statistics.histogram(
            [1, 2, 2, 3] * 50, range(4), epsilon=1, delta=1e-6, rng=DeterministicRandom(5)
        )
    ),
    "ikos compare": cli(
        "compare",
        "--users",
        "100",
        "--epsilon",
        "1",
        "--delta",
        "1e-4",
        *(word for key in SOME for word in ("--protocol", key)),
    ),
    "ikos graphs": cli(
        "graphs", "--users", "12", "--messages", "3", "--trials", "9", "--seed", "1"
    ),
    "ikos messages": cli("messages", "--users", "100", "--epsilon", "1", "--delta", "1e-4"),
    "ikos secure-sum": cli("messages", "--users", "3", "--modulus", "2^2500", "--sigma", "9"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_a_clean_process(name: str) -> None:
    forget()
    clean = CASES[name]()
    forget()
    try:
        with hostile(), np.printoptions(precision=1, threshold=1):
            found = CASES[name]()
    finally:
        forget()
    assert repr(found) == repr(clean)


@pytest.mark.slow
def test_what_is_computed_at_import_is_too() -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from hostile import hostile\n"
        "with hostile():\n"
        "    from ikos import accounting, baselines, counts, graphs, noise, statistics, sums\n"
        "    print(counts.private_delta(1000, 2**30, 5, 300.0, 354))"
    )
    run = [sys.executable, "-W", "error", "-c", program]
    found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(found.stdout) == counts.private_delta(1000, 2**30, 5, 300.0, 354)


SHARED = {
    "decimal": {"getcontext", "setcontext", "localcontext", "DefaultContext"},
    "gmpy2": {"get_context", "set_context", "local_context"},
    "locale": {"setlocale"},
    "np": {"seterr", "seterrcall", "set_printoptions"},
    "random": {"seed", "random", "choice", "shuffle", "sample", "randrange"},
    "scipy.special": {"seterr"},
    "sys": {"set_int_max_str_digits"},
    "warnings": {"simplefilter", "filterwarnings"},
}
"""What is the process's or the thread's, and so the caller's."""


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["ikos", "analysis"])
def test_no_module_asks_for_settings_that_are_shared(folder: str) -> None:
    shared = {f"{module}.{name}" for module, names in SHARED.items() for name in names}
    attributes = {name.rpartition(".")[2] for name in shared}
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in attributes:
                assert ast.unparse(node) not in shared, (path, node.lineno)
            if isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{one.name}" for one in node.names}
                assert not names & shared, (path, node.lineno)
