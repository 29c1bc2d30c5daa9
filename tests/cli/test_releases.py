"""Releases of tables: what they print is what the library computes, and nothing private unasked."""

from __future__ import annotations

import gzip
import json
import shlex
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from ikos import Ledger, PrivateSum, SecureSum
from ikos.cli import main
from ikos.data.datasets import load_anes96

BUDGET = ("--epsilon", "1", "--delta", "1e-6")
AGE = ("--column", "age", "--lower", "0", "--upper", "100", *BUDGET)
EXACT = ("--column", "age", "--upper", "100")
AGES = 20 + np.arange(1000) % 50


class TestSum:
    @pytest.mark.slow
    @pytest.mark.usefixtures("seeded")
    @pytest.mark.parametrize("command", ["sum", "mean"])
    def test_numbers_are_the_librarys(self, run, people, command):
        result = run(command, people, *AGE, "--json", "--confidence", "0.9").json
        protocol = PrivateSum(1000, 1, Fraction("1e-6"), lower=0, upper=100)
        expected = protocol.run(AGES)
        assert (result["version"], result["command"], result["users"]) == (1, command, 1000)
        assert (result["sum"], result["mean"]) == (expected.estimate, expected.mean())
        assert (result["sum_low"], result["sum_high"]) == expected.interval(0.9)
        assert (result["mean_low"], result["mean_high"]) == expected.mean_interval(0.9)
        assert result["standard_error"] == expected.standard_error
        assert result["delta"] == result["guarantee"]["delta"] <= 1e-6
        assert result["guarantee"]["conditions"] == list(map(str, expected.guarantee.conditions))
        assert result["messages"]["shuffled"] == protocol.messages.shuffled
        assert result["modulus"] == str(protocol.modulus)
        assert result["not_private"] is None
        assert [row["name"] for row in result["rows"]] == (
            ["sum", "mean"] if command == "sum" else ["mean"]
        )

    @pytest.mark.slow
    def test_every_option_reaches_the_library(self, run, people, monkeypatch):
        seen = {}
        real = PrivateSum.__init__

        def spy(self, *args, **kwargs):
            seen.update(kwargs, args=args)
            real(self, *args, **kwargs)

        monkeypatch.setattr(PrivateSum, "__init__", spy)
        run(
            "sum", people, "--column", "age", "--lower", "-1e1", "--upper", "1e2", "--epsilon",
            "0.1", "--delta", "1e-7", "--precision", "500", "--modulus", "2^31-1", "--messages",
            "40", "--analysis", "balle2020", "--no-clear-share", "--min-honest", "90.01%",
            "--corrupt-shufflers", "2",
        )  # fmt: skip
        assert seen == {
            "args": (1000, Fraction(1, 10), Fraction(1, 10**7)), "lower": -10.0, "upper": 100.0,
            "precision": 500, "modulus": 2**31 - 1, "messages": 40, "analysis": "balle2020",
            "shuffler": "parallel", "clear_share": False, "min_honest": 901,
            "corrupt_shufflers": 2, "integers": False,
        }  # fmt: skip

    @pytest.mark.slow
    def test_text(self, run, people):
        text = " ".join(run("sum", people, *AGE).out.split())
        assert text.startswith("Private sum and mean of column 'age' estimate at least at most sum")
        assert "differential privacy, replace-one" in text
        assert "The number of users, 1,000, and the bounds, 0 and 100, are public" in text
        assert "while all 1,000 users are honest and present" in text
        assert "estimate" not in run("mean", people, *AGE, "--format", "csv").out.splitlines()[1]

    @pytest.mark.usefixtures("seeded")
    def test_every_form_of_a_table_and_any_threads_give_the_same(self, run, people, tmp_path):
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"age": AGES}), tmp_path / "p.parquet")
        (tmp_path / "p.csv.gz").write_bytes(gzip.compress(people.read_bytes()))
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "1.csv").write_bytes(people.read_bytes())
        found = [
            run("sum", tmp_path / name, *AGE, *threads, "--json").json["sum"]
            for name in ("people.csv", "p.csv.gz", "p.parquet", "folder")
            for threads in ((), ("--threads", "2"))
        ]
        assert len(set(found)) == 1

    def test_integers(self, run, refused, people):
        result = run("sum", people, *AGE, "--integers", "--json").json
        assert (result["integers"], result["precision"]) == (True, 100)
        assert result["sum"].is_integer()
        score = ("--column", "score", "--lower", "0", "--upper", "2", *BUDGET, "--integers")
        said = refused("sum", people, *score)
        assert "which is not an integer, although --integers was given" in said

    def test_clamped_only_if_asked(self, run, refused, people):
        narrow = ("--column", "age", "--lower", "30", "--upper", "40", *BUDGET)
        message = refused("sum", people, *narrow)
        assert "row 1 has a value in column 'age', outside [30, 40]" in message
        assert " 20 " not in message
        given = (*narrow, "--on-out-of-range", "clamp", "--show-true", "--json")
        result = run("sum", people, *given).json
        assert result["out_of_range"] == "clamp"
        truth = result["not_private"]
        assert truth["true_sum"] == np.clip(AGES, 30, 40).sum()
        assert truth["true_sum_before_clamping"] == AGES.sum()
        assert truth["clamped_values"] == np.sum((AGES < 30) | (AGES > 40))

    @pytest.mark.usefixtures("seeded")
    @pytest.mark.parametrize("how", ["text", "json", "csv", "markdown"])
    def test_without_show_true_the_output_depends_on_the_release_alone(
        self, run, people, monkeypatch, how
    ):
        """With the protocol's result fixed, other data gives the same output."""
        real, results = PrivateSum.run, []

        def replay(self, x, rng=None, **options):
            results.append(real(self, x, rng, **options))
            return results[0]

        monkeypatch.setattr(PrivateSum, "run", replay)
        clamp = ("--on-out-of-range", "clamp", "--format", how)
        first = run("sum", people, *AGE, *clamp).out
        people.write_text(people.read_text().replace(",25,", ",990,"))
        assert run("sum", people, *AGE, *clamp).out == first

    @pytest.mark.slow
    def test_what_proves_nothing_needs_its_flag(self, run, refused, people):
        two = (*AGE, "--messages", "2")
        assert "--messages 2 proves nothing; --unproved" in refused("sum", people, *two)
        given = (*two, "--unproved")
        warning = "--messages 2 proves nothing"
        assert run("sum", people, *given, warning=warning).out.startswith("NOT PRIVATE")
        result = run("sum", people, *given, "--json", warning=warning).json
        assert (result["proved"], result["delta"]) == (False, 1)
        assert result["warnings"]

    def test_less_than_asked_for_is_a_warning(self, run, people):
        few = ("--messages", "4", "--json")
        result = run("sum", people, *AGE, *few, warning="the proved delta is").json
        assert result["proved"] is True
        assert result["delta"] > result["requested_delta"] == 1e-6

    def test_a_formula_without_a_proof_for_the_group(self, run, refused, people):
        given = (*AGE, "--analysis", "ghazi2020", "--shuffler", "single", "--no-clear-share",
                 "--modulus", "2^20")  # fmt: skip
        said = "ghazi2020 is not proved for a composite modulus"
        assert f"{said}; --unproved" in refused("sum", people, *given)
        given = (*given, "--unproved", "--json")
        result = run("sum", people, *given, warning="ghazi2020 is not proved").json
        assert (result["proved"], result["delta"]) == (False, 1)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("options", "warning"),
        [(("--delta", "0.001"), "delta = 0.001 is not below 1/users"),
         (("--epsilon", "50"), "epsilon = 50 is very weak protection"),
         (("--epsilon", "0.0001"), "noise exceeds the signal")],
    )  # fmt: skip
    def test_budgets_that_protect_or_reveal_little(self, run, people, options, warning):
        given = [*AGE]
        given[given.index(options[0]) + 1] = options[1]
        assert warning in run("sum", people, *given, "--json", warning=warning).json["warnings"][0]

    def test_trust_that_costs_most_shufflers(self, run, people):
        run("sum", people, *AGE, "--corrupt-shufflers", "9", warning="corrupt_shufflers = 9")

    def test_bugs_are_not_hidden(self, people, monkeypatch, run):
        def broken(*args, **kwargs):
            raise AttributeError("a bug")

        monkeypatch.setattr(PrivateSum, "run", broken)
        with pytest.raises(AttributeError, match="a bug"):
            run("sum", people, *AGE)

    def test_memory(self, refused, people, monkeypatch):
        def short(*args, **kwargs):
            raise MemoryError

        monkeypatch.setattr(PrivateSum, "run", short)
        assert refused("sum", people, *AGE) == "not enough memory for this"

    @pytest.mark.slow
    def test_columns_by_number_and_other_delimiters(self, run, tmp_path):
        path = tmp_path / "t.txt"
        path.write_text("1\t2\n" * 30)
        given = ("--no-header", "--column", "2", "--delimiter", r"\t", *AGE[2:], "--json")
        assert run("sum", path, *given).json["users"] == 30


class TestSecureSum:
    @pytest.fixture
    def summed(self, run, tmp_path):
        """Sum values of a new file, and return the JSON object."""

        def summed(values, *options, **outcome):
            path = tmp_path / "values.csv"
            path.write_text("a\n" + "".join(f"{value}\n" for value in values))
            return run("secure-sum", path, "--column", "a", *options, "--json", **outcome).json

        return summed

    def test_numbers_are_the_librarys(self, run, people):
        result = run("secure-sum", people, *EXACT, "--json").json
        protocol = SecureSum(1000, 2**17)
        assert (result["sum"], result["mean"]) == (str(AGES.sum()), AGES.mean())
        assert (result["users"], result["lower"], result["upper"]) == (1000, 0, 100)
        assert result["modulus"] == "131072"
        assert result["differentially_private"] is False
        assert result["sigma"] == protocol.guarantee.sigma >= result["requested_sigma"] == 80
        assert result["guarantee"]["theorem"] == protocol.guarantee.theorem
        assert result["cost"]["messages_per_user"] == protocol.messages.total
        text = " ".join(run("secure-sum", people, *EXACT).out.split())
        assert "NOT differentially private" in text
        assert "are public and not protected" in text

    @pytest.mark.parametrize(
        ("values", "lower", "upper"),
        [
            ([0, 0, 0], 0, 1), ([4] * 16, 0, 4), ([-7] * 9, -7, -3), ([-3] * 9, -7, -3),
            ([-4] * 16, -4, 0), ([7], 7, 8), ([2**53 - 1] * 5, 0, 2**53 - 1),
            ([2**70 + 1, -(2**70)], -(2**70), 2**70 + 1),
        ],
    )  # fmt: skip
    def test_exact_at_either_end_of_what_is_possible(self, summed, values, lower, upper):
        result = summed(values, "--lower", lower, "--upper", upper)
        assert result["sum"] == str(sum(values))
        assert result["mean"] == float(Fraction(sum(values), len(values)))
        q = int(result["modulus"])
        assert q & (q - 1) == 0
        assert q > len(values) * (upper - lower) >= q // 2

    @pytest.mark.parametrize("extreme", [-3, 4])
    def test_the_smallest_group_is_enough_and_a_smaller_one_refused(
        self, summed, refused, tmp_path, extreme
    ):
        bounds = ("--lower", "-3", "--upper", "4")
        result = summed([extreme] * 10, *bounds, "--modulus", "71")
        assert (result["sum"], result["modulus"]) == (str(10 * extreme), "71")
        given = ("--column", "a", *bounds, "--modulus", "70")
        said = refused("secure-sum", tmp_path / "values.csv", *given)
        assert said.startswith("--modulus must be at least 71")

    def test_settings(self, run, people):
        given = ("--shuffler", "single", "--no-clear-share", "--analysis", "ghazi2020",
                 "--min-honest", "80%", "--sigma", "40.5", "--json")  # fmt: skip
        result = run("secure-sum", people, *EXACT, *given).json
        assert (result["shuffler"], result["clear_share"]) == ("single", False)
        assert (result["min_honest"], result["proved"]) == (800, True)  # modulo a prime
        assert int(result["modulus"]) % 2

    def test_values(self, run, refused, people):
        score = ("--column", "score", "--upper", "2")
        assert "row 2 has a value in column 'score'" in refused("secure-sum", people, *score)
        for long in (("--upper", "2^1000000"), ("--upper", "9", "--modulus", "2^1000000")):
            said = refused("secure-sum", people, "--column", "age", *long)
            assert f"{long[-2]} must be at most" in said
        low = ("--column", "age", "--upper", "68")
        assert "row 50" in refused("secure-sum", people, *low)
        clamped = run("secure-sum", people, *low, "--on-out-of-range", "clamp", "--json").json
        assert clamped["sum"] == str(np.clip(AGES, 0, 68).sum())

    def test_one_user_has_nothing_to_hide(self, summed):
        result = summed([5], "--upper", "9")
        assert (result["sum"], result["sigma"], result["proved"]) == ("5", None, True)


class TestHistogram:
    COUNT = ("--column", "vote", "--json", *BUDGET)

    @pytest.fixture
    def votes(self, tmp_path):
        path = tmp_path / "votes.csv"
        rows = ["yes", " no ", "yes", '"yes"', "perhaps"] * 200
        path.write_text("vote\n" + "\n".join(rows) + "\n\n\n")
        return path

    @staticmethod
    def near(result, expected):
        """The noise is beyond this with a probability below 1e-20 for each count."""
        found = {row["name"]: row["estimate"] for row in result["rows"]}
        assert found.keys() == expected.keys()
        assert all(abs(found[name] - count) < 120 for name, count in expected.items())
        assert all(row["low"] <= row["estimate"] <= row["high"] for row in result["rows"])

    def test_categories(self, run, refused, votes):
        given = ("histogram", votes, *self.COUNT, "--categories")
        result = run(*given, "yes,no,perhaps,never").json
        self.near(result, {"yes": 600, "no": 200, "perhaps": 200, "never": 0})
        assert (result["users"], result["proved"]) == (1000, True)
        assert result["guarantee"]["epsilon"] == 1
        assert result["guarantee"]["delta"] <= 1e-6
        self.near(run(*given, "yes", "--other", "rest").json, {"yes": 600, "rest": 400})
        for span in ("5..1", "0..10000000"):
            assert "ranges must be of ascending integers" in refused(
                *given, span, "--other", "rest"
            )
        said = refused(*given, "yes,no")
        assert "row 5 has a value in column 'vote', which is not one of the --categories" in said
        assert "perhaps" not in said
        assert "'perhaps'" in refused(*given, "yes,no", "--show-values")

    @pytest.mark.points(0)
    def test_categories_that_are_numbers(self, run, refused, tmp_path):
        """Integers with a gap are floats for some programs: all of them were counted as others."""
        path = tmp_path / "v.csv"
        given = ("histogram", path, *self.COUNT, "--other", "none", "--categories")
        path.write_text("vote\n" + "0.0\n1.0\n01\n9\n" * 250)
        self.near(run(*given, "0,1").json, {"0": 250, "1": 500, "none": 250})
        assert "no value of column 'vote' is one of the --categories" in refused(*given, "2,3")
        for word in ("NaN", "NA", '""'):
            path.write_text(f"vote\n1\n{word}\n" * 500)
            assert "row 2 has no value in column 'vote'" in refused(*given, "0,1")
        assert "must be distinct, also as numbers" in refused(*given, "1,1.0")
        assert "must be distinct" in refused(*given, "1,none")
        path.write_text("vote;x\n1;2\n")
        assert "--delimiter ';' if that separates cells" in refused(*given, "0,1")

    @pytest.mark.parametrize("kind", ["float32", "float64", "Int64", "bool"])
    def test_categories_of_typed_columns(self, run, refused, tmp_path, kind):
        pytest.importorskip("pyarrow")
        path = tmp_path / "v.parquet"
        given = ("histogram", path, *self.COUNT, "--categories", "0,1", "--other", "none")
        pd.DataFrame({"vote": pd.array([1, 0] * 500, kind)}).to_parquet(path)
        if kind == "bool":  # or False would be 0 here, and in a CSV file not
            assert "no value of column 'vote'" in refused(*given)
            return
        self.near(run(*given).json, {"0": 500, "1": 500, "none": 0})
        pd.DataFrame({"vote": pd.array([1, None], kind)}).to_parquet(path)
        assert "row 2 has no value in column 'vote'" in refused(*given)

    @pytest.mark.slow
    def test_limits(self, run, refused, tmp_path):
        path = tmp_path / "codes.csv"
        path.write_text("code\n" + "\n".join(str(i % 30) for i in range(1000)) + "\n")
        budget = ("--column", "code", "--epsilon", "2", "--delta", "1e-6")
        given = ("histogram", path, *budget, "--categories", "0..299,x")
        result = run(*given, "--max-error", "12", "--json").json
        self.near(result, {str(i): 1000 / 30 * (i < 30) for i in range(300)} | {"x": 0})
        assert len(result["choice"]) == 3
        assert result["choice"][0].startswith("FrequencyEstimation: error of each count at most")
        text = run(*given, "--max-bytes", "3000").out
        assert "Chosen: PrivateVectorSum" in text
        assert "Not chosen: FrequencyEstimation" in text
        limits = ("--max-error", "1", "--max-bytes", "1")
        assert "give either --max-error or --max-bytes" in refused(*given, *limits)
        assert "--max-bytes must be larger, got 0.1" in refused(*given, "--max-bytes", "0.1")

    @pytest.mark.points(0)
    def test_bins(self, run, refused, people):
        given = ("histogram", people, "--column", "age", "--json", *BUDGET, "--bins")
        result = run(*given, "0,30,50,69").json
        self.near(result, {"[0, 30)": 200, "[30, 50)": 400, "[50, 69]": 400})
        assert "outside [0, 60]" in refused(*given, "0,60")
        least = ("--epsilon", "1", "--delta", "1e-300", "--bins", "0,69", "--json")
        assert run("histogram", people, "--column", "age", *least).json["proved"]
        clamped = run(*given, "40,60", "--on-out-of-range", "clamp").json
        self.near(clamped, {"[40, 60]": 1000})

    def test_trust(self, run, votes):
        trust = ("--min-honest", "50%", "--corrupt-shufflers", "1", "--shuffler", "parallel")
        given = ("--categories", "yes", "--other", "x", *trust)
        conditions = run("histogram", votes, *self.COUNT, *given).json["guarantee"]["conditions"]
        assert any("500 of 1,000" in condition for condition in conditions)


class TestFigures:
    BY = ("--by", "name", "--groups", "p1,p2", "--other", "rest")
    BINS = ("--column", "age", "--bins", "0,50,99", *BUDGET)
    SCORES = ("--by", "score", "--groups", "0,0.25,0.5,0.75,1,1.25,1.5")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("line", "panels"),
        [
            (("sum", *AGE), ["sum", "mean"]),
            (("mean", *AGE), ["mean"]),
            (("sum", *AGE, *BY), ["sum", "mean", "count"]),
            (("mean", *AGE, "--on-missing", "exclude"), ["mean", "count", "missing"]),
            (("histogram", *BINS), ["count"]),
            (("histogram", *BINS, *SCORES), ["count"]),
            (("quantiles", *AGE), ["value"]),
            (("quantiles", *AGE, *BY), ["value"]),
        ],
    )
    def test_they_show_what_is_printed(self, run, people, tmp_path, monkeypatch, line, panels):
        figure = pytest.importorskip("matplotlib.figure").Figure
        real, drawn = figure.savefig, []
        monkeypatch.setattr(figure, "savefig", lambda self, *a, **k: (
            drawn.append(self), real(self, *a, **k)
        ))  # fmt: skip
        path = tmp_path / "x.svg"
        result = run(line[0], people, *line[1:], "--plot", path, "--json").json
        assert result["plot"] == str(path)
        assert path.read_text().startswith("<?xml")
        axes = drawn[0].axes
        assert [one.get_xlabel() for one in axes] == panels
        (points,) = (line for line in axes[0].lines if line.get_gid() == "estimates")
        rows = [row for row in result["rows"] if row.get("name") not in panels[1:]]
        (key,) = {panels[0], "estimate", "value"} & set(rows[0])
        shown = np.array([row[key] for row in rows], dtype=float)
        np.testing.assert_array_equal(shown, points.get_xdata())

    def test_a_full_disk_loses_the_figure_alone(self, people, tmp_path, monkeypatch, capsys):
        """What was released, and charged, is printed."""
        figure = pytest.importorskip("matplotlib.figure").Figure

        def full(self, file, **options):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(figure, "savefig", full)
        ledger = Ledger.new(tmp_path / "survey.ledger", 2, Fraction(1, 10**5))
        line = ("histogram", people, "--column", "age", "--bins", "0,50,99", *BUDGET, "--json",
                "--ledger", ledger.path, "--plot", tmp_path / "x.png")  # fmt: skip
        monkeypatch.setattr("sys.argv", ["ikos", *map(str, line)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert (end.value.code, err) == (2, "ikos histogram: error: no space left on device\n")
        assert len(json.loads(out)["rows"]) == 2
        assert json.loads(out)["plot"] is None
        assert len(ledger.entries) == 1
        assert not (tmp_path / "x.png").exists()


class TestDemo:
    @pytest.mark.usefixtures("seeded")
    @pytest.mark.slow
    def test_the_equivalent_command_line_is_equivalent(self, run):
        demo = run("demo", "--json").json
        same = run(*shlex.split(demo.pop("equivalent"))[1:], "--json").json
        assert (same.pop("command"), demo.pop("command")) == ("sum", "demo")
        assert set(same.pop("notes")) < set(demo.pop("notes"))
        assert same == demo

    @pytest.mark.points(0)
    def test_accuracy(self, run):
        demo = run("demo", "--json").json
        assert demo["delta"] < 1 / 944**2
        assert demo["not_private"]["true_sum"] == load_anes96("vote").sum()
        assert abs(demo["not_private"]["sum_error"]) < 20 * demo["standard_error"]
        assert "These answers are public" in " ".join(run("demo").out.split())
