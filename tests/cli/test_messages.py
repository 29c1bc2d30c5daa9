"""``ikos messages``: its numbers are those of the library, for numbers and for vectors."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from ikos import (
    Ball,
    Box,
    Categories,
    PrivateSum,
    PrivateVectorSum,
    SecureSum,
    SecureVectorSum,
    SparseTernary,
    message_count,
)
from ikos.counts import (
    necessary_messages,
    necessary_private_messages,
    vector_layouts,
)
from ikos.counts.analyses import LEVELS
from ikos.transports import Helpers, Masked, Shuffled

SECURE = ("messages", "--users", "10^6", "--modulus", "2^64", "--sigma", "80", "--json")
PRIVATE = ("messages", "--users", "1000", "--epsilon", "1", "--delta", "1e-8", "--json")
VECTORS = ("messages", "--users", "10^4", "--modulus", "2^32", "--sigma", "80", "--dimension", "16",
           "--json")  # fmt: skip
SETTINGS = [(kind, clear) for kind in ("parallel", "single") for clear in (True, False)]
LAYOUTS = {"separate sums": "separate", "one group": "group"}


def how(row):
    return {name: row[name] for name in ("analysis", "shuffler", "clear_share")}


def spent(row):
    return Fraction(str(row["reserve"]))


def of_shares(result):
    return [row for row in result["rows"] if row["transport"] == "shares"]


def covered(result):
    return [row for row in of_shares(result) if row["total"] is not None]


class TestNumbers:
    @pytest.mark.parametrize(
        ("extra", "honest", "corrupt"),
        [((), 10**6, 0), (("--min-honest", "1%"), 10**4, 0),
         (("--corrupt-shufflers", "3"), 10**6, 3)],
    )  # fmt: skip
    def test_secure_sums_are_the_librarys(self, run, extra, honest, corrupt):
        result = run(*SECURE, *extra).json
        assert (result["modulus"], result["sigma"], result["epsilon"]) == (str(2**64), 80, None)
        assert (result["users"], result["min_honest"]) == (10**6, honest)
        found = [
            (row["analysis"], row["shuffler"], row["clear_share"]) for row in of_shares(result)
        ]
        assert sorted(found) == sorted((name, *each) for name in LEVELS for each in SETTINGS)
        for row in of_shares(result):
            if row["total"] is None:
                assert row["reason"]
                assert row["best"] is row["proved"] is False
                if not corrupt:
                    with pytest.raises(ValueError):
                        message_count(10**6, 2**64, 80, min_honest=honest, **how(row))
                continue
            count = message_count(10**6, 2**64, 80, min_honest=honest, **how(row)).with_corruption(
                corrupt
            )
            assert (row["shuffled"], row["clear"]) == (count.shuffled, count.clear)
            assert row["total"] == row["messages_per_user"] == count.total
            assert (row["sigma"], row["theorem"]) == (count.sigma, count.theorem)
            assert row["bits_per_user"] == 64 * count.total
            assert row["delta"] is row["noise_epsilon"] is row["standard_error"] is None
            way = {"shuffler": row["shuffler"], "clear_share": row["clear_share"]}
            needed = max(necessary_messages(n, 2**64, 80, corrupt_shufflers=corrupt, **way)
                         for n in (honest, 10**6))  # fmt: skip
            assert row["necessary"] == needed <= row["shuffled"]
            assert row["proved"] == (row["analysis"] != "ghazi2020")
        fewest = min(row["total"] for row in covered(result) if row["proved"])
        assert all(
            row["best"] == (row["proved"] and row["total"] == fewest) for row in covered(result)
        )

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("extra", "given"),
        [
            ((), {}),
            (("--reserve", "0.2"), {"reserve": Fraction(1, 5)}),
            (("--min-honest", "100"), {"min_honest": 100}),
            (("--lower", "-2", "--upper", "7", "--integers"),
             {"lower": -2, "upper": 7, "integers": True}),
            (("--precision", "9", "--modulus", "2^31-1"), {"precision": 9, "modulus": 2**31 - 1}),
        ],
    )  # fmt: skip
    def test_private_sums_are_the_librarys(self, run, extra, given):
        result = run(*PRIVATE, *extra).json
        chosen = PrivateSum(1000, 1, Fraction("1e-8"), **given)
        fixed = {"modulus": chosen.modulus, "precision": chosen.precision}
        assert result["modulus"] == str(chosen.modulus)
        assert result["precision"] == chosen.precision
        assert result["reserve"] == float(given.get("reserve", 0.01))
        for row in covered(result):
            rows = given | fixed | {"reserve": spent(row)}
            protocol = PrivateSum(1000, 1, Fraction("1e-8"), **rows, **how(row))
            count = protocol.messages
            assert row["total"] == count.total
            assert row["delta"] == count.delta <= 1e-8
            assert row["noise_epsilon"] == count.noise_epsilon <= 1
            assert row["standard_error"] ** 2 == pytest.approx(protocol.mse)
            assert row["sigma"] is None
            if (row["shuffler"], row["clear_share"]) == ("parallel", True):
                given_ = (protocol.modulus, 1, Fraction("1e-8"), protocol.precision)
                corrupt = protocol.transport.trust.corrupt_shufflers
                kept = {"min_honest": protocol.min_honest, "reserve": spent(row),
                        "corrupt_shufflers": corrupt}  # fmt: skip
                assert row["necessary"] == necessary_private_messages(1000, *given_, **kept)
                assert row["necessary"] <= count.shuffled
            else:
                assert row["necessary"] is None

    def test_a_larger_reserve_is_listed_where_it_saves_messages(self, run):
        given = (*PRIVATE, "--analysis", "higher_moments")
        rows = covered(run(*given).json)
        usual = [row for row in rows if row["reserve"] == 0.01]
        more = [row for row in rows if row["reserve"] == 0.02]
        assert [row["total"] for row in usual] == [6] * 4
        assert [row["total"] for row in more] == [5] * 4
        assert all(row["best"] == (row in more) for row in rows)
        error = max(row["standard_error"] for row in usual)
        assert all(error < row["standard_error"] < 1.02 * error for row in more)
        assert covered(run(*given, "--reserve", "0.01").json) == [
            row | {"best": True, "smallest": True} for row in usual
        ]

    def test_of_a_prime_ghazi2020_is_proved(self, run):
        options = ("--modulus", "2^61-1", "--analysis", "ghazi2020")
        rows = covered(run("messages", "--users", "1000", "--sigma", "40", *options, "--json").json)
        assert [row["proved"] for row in rows] == [True]

    def test_one_user_has_nothing_to_hide(self, run):
        given = ("--users", "1", *SECURE[3:])
        rows = covered(run("messages", *given).json)
        assert all(row["unlimited"] and row["sigma"] is None for row in rows)

    @pytest.mark.parametrize("users", ["10^12", "1,000,000", "2^50-1"])
    @pytest.mark.parametrize("modulus", ["2^4096", "10^9+7"])
    def test_large_numbers(self, run, users, modulus):
        given = ("--users", users, "--modulus", modulus, "--sigma", "200")
        assert covered(run("messages", *given, "--analysis", "best", "--json").json)

    @pytest.mark.points(0)
    def test_text_rounds_in_the_safe_direction(self, run):
        rows = covered(run(*PRIVATE).json)
        lines = run(*PRIVATE[:-1]).out.splitlines()
        table = [line.split() for line in lines if line.strip(" *+").startswith("shares")]
        assert len(table) == len(rows)
        for cells, row in zip(table, rows, strict=True):
            proved = cells.index("yes" if row["proved"] else "no")
            delta, left, error = map(float, cells[proved - 3 : proved])
            assert delta >= row["delta"]
            assert left <= row["noise_epsilon"] or left == 1
            assert error >= row["standard_error"]


class TestSeveral:
    @pytest.mark.points(1)
    @pytest.mark.parametrize(
        ("common", "users", "sigmas"),
        [(("--modulus", "2^16", "--min-honest", "80%"), ("100", "2000"), ("20", "40.5")),
         (("--epsilon", "1", "--delta", "1e-6", "--analysis", "balle2020"), ("100", "2000"), ())],
        ids=["secure", "private"],
    )  # fmt: skip
    def test_rows_are_those_of_one_sum_each(self, run, common, users, sigmas):
        def table(users, sigma):
            level = ("--sigma", sigma) if sigma else ()
            return run("messages", "--users", users, *common, *level, "--json").json

        result = table(", ".join(users), ",".join(sigmas))
        single = [table(n, sigma) for n in users for sigma in sigmas or (None,)]
        assert result["rows"] == [row for one in single for row in one["rows"]]
        for one in single:
            for row in of_shares(one):
                own = {"requested_sigma": one["sigma"]}
                own |= {key: one[key] for key in ("users", "min_honest", "modulus", "precision")}
                assert own.items() <= row.items()
        for key, value in single[0].items():
            if key not in ("rows", "notes"):
                same = all(one[key] == value for one in single)
                assert result[key] == (value if same else None)

    def test_columns_that_tell_sums_apart_are_shown(self, run):
        common = ("messages", "--modulus", "2^16", "--analysis", "best")
        heads = {
            (users, sigma): run(*common, "--users", users, "--sigma", sigma).out.split("\n\n")[1]
            for users in ("100", "100,2000") for sigma in ("20", "20,30")
        }  # fmt: skip
        for (users, sigma), table in heads.items():
            assert ("users" in table, "sigma >=" in table) == ("," in users, "," in sigma)

    @pytest.mark.points(1)
    @pytest.mark.parametrize("extra", [(), ("--min-honest", "90%"), ("--corrupt-shufflers", "2")])
    def test_levels_of_given_messages_are_the_librarys(self, run, extra):
        line = ("--users", "2000", "--modulus", "2^16", "--messages", "4,15", *extra, "--json")
        rows = run("messages", *line).json["rows"]
        trust = {"min_honest": 1800 if "90%" in extra else 2000,
                 "corrupt_shufflers": 2 * ("2" in extra)}  # fmt: skip
        assert sorted({row["total"] or 0 for row in rows}) == [0, 4, 15]
        assert len(of_shares({"rows": rows})) == len(rows)  # others have no messages to choose
        for row in covered({"rows": rows}):
            protocol = SecureSum(2000, 2**16, messages=row["total"], **how(row), **trust)
            assert row["sigma"] == protocol.messages.sigma
            assert row["proved"] == (row["sigma"] > 0)
            assert row["requested_sigma"] is row["necessary"] is None
        for total in (4, 15):
            levels = {row["sigma"]: row["best"] for row in rows if row["total"] == total}
            assert levels[max(levels)] is (max(levels) > 0)
            assert sum(levels.values()) <= 1

    def test_given_messages_of_vectors_are_those_of_each_sum(self, run):
        line = ("messages", "--users", "1000", "--modulus", "2^16", "--messages", "9",
                "--analysis", "best", "--dimension", "3")  # fmt: skip
        title = "Security of a secure sum with 9 messages per user and sum: vectors of 3"
        assert title in " ".join(run(*line).out.split())
        rows = covered(run(*line, "--json").json)
        assert {(row["sums"], row["total"], row["messages_per_user"]) for row in rows} == {
            (1, 9, 9), (3, 9, 27)
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("--users 10,500 --sigma 40", "'10,500' may be one number or several"),
            ("--users 10,,20 --sigma 40", "'' is not a whole number"),
            ("--users 10,20,10 --sigma 40", "'10,20,10' contains a number twice"),
            ("--users 10 --sigma 40,4e1", "'40,4e1' contains a number twice"),
            ("--users 10 --sigma 40 --messages 3", "--sigma and --messages cannot be combined"),
            ("--users 10 --messages 3 --epsilon 1", "--epsilon is for a private sum, --messages"),
            ("--users 10,90 --sigma 40 --analysis balle2020", "no theorem covers 10 users"),
            ("--users 10,20 --sigma 40 --plot x.png", "--plot takes one number of --users"),
            ("--users 10 --messages 9 --plot x.png", "--plot takes one number of --users"),
        ],
    )
    def test_refusals(self, refused, line, reason):
        assert reason in refused("messages", *line.split(), "--modulus", "2^16")


class TestVectors:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("extra", "trust"),
        [((), {}), (("--min-honest", "50%"), {"min_honest": 5000}),
         (("--corrupt-shufflers", "3"), {"corrupt_shufflers": 3})],
    )  # fmt: skip
    def test_secure_sums_are_the_librarys(self, run, extra, trust):
        result = run(*VECTORS, *extra).json
        assert {row["layout"] for row in covered(result)} == set(LAYOUTS)
        for row in covered(result):
            group, apart = vector_layouts(10**4, 2**32, 80, 16, **how(row), **trust)
            layout = group if row["layout"] == "one group" else apart
            assert row["messages_per_user"] == layout.messages_per_user
            assert row["bits_per_user"] == layout.bits_per_user
            assert row["sigma"] == layout.sigma >= 80
            assert row["shuffled"] == layout.count.shuffled >= row["necessary"]
            assert row["total"] * row["sums"] == row["messages_per_user"]
            assert row["proved"] == (row["analysis"] != "ghazi2020")
        proved = [row for row in covered(result) if row["proved"]]
        for mark, cost in (("best", "messages_per_user"), ("smallest", "bits_per_user")):
            least_cost = min(row[cost] for row in proved)
            assert all(row[mark] == (row[cost] == least_cost) for row in proved)

    @pytest.mark.slow
    def test_blocks_take_the_fewest_bytes(self, run):
        given = ("--users", "500", "--modulus", "2^23", "--sigma", "80", "--dimension", "100")
        line = ("messages", *given, "--analysis", "best", "--shuffler", "parallel",
                "--overhead", "48", "--json")  # fmt: skip
        result = run(*line).json
        assert result["overhead"] == 48
        assert {row["layout"] for row in result["rows"]} > set(LAYOUTS)
        for row in result["rows"]:
            named = {layout.name: layout for layout in vector_layouts(
                500, 2**23, 80, 100, overhead=48, **how(row)
            )}  # fmt: skip
            layout = named[row["layout"]]
            assert row["sums"] == layout.sums
            assert row["messages_per_user"] == layout.messages_per_user
            assert row["bytes_per_user"] == layout.bytes_per_user(48)
            assert row["shuffled"] == layout.count.shuffled >= row["necessary"]
            asked = {"shuffler": "parallel", "clear_share": row["clear_share"]}
            assert row["necessary"] == necessary_messages(
                500, 2 ** (23 * layout.length), 80, **asked
            )
            assert row["smallest"] == row["layout"].startswith("blocks")

    def test_blocks_of_all_or_of_one_coordinate_are_said_once(self, run):
        line = (*VECTORS, "--analysis", "second_moment", "--overhead", "0")
        assert [row["layout"] for row in run(*line).json["rows"]].count("separate sums") == 4

    def test_an_overhead_is_for_vectors(self, refused):
        assert "--overhead needs --dimension" in refused(*SECURE, "--overhead", "48")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("options", "domain", "given"),
        [
            (("ball", "--dimension", "9", "--radius", "2", "--releases", "10"), Ball(9, 2),
             {"releases": 10}),
            (("box", "--dimension", "3", "--lower", "-2", "--upper", "5", "--integers"),
             Box(3, -2, 5), {"integers": True}),
            (("ternary", "--dimension", "9", "--sparsity", "2"), SparseTernary(9, 2), {}),
            (("categories", "--sizes", "2,3", "--min-honest", "700"), Categories([2, 3]),
             {"min_honest": 700}),
        ],
    )  # fmt: skip
    def test_private_sums_are_the_librarys(self, run, options, domain, given):
        result = run(*PRIVATE, "--domain", *options).json
        chosen = PrivateVectorSum(1000, domain, 1, Fraction("1e-8"), **given)
        assert result["modulus"] == str(chosen.modulus)
        assert (result["dimension"], result["domain"]) == (domain.dimension, options[0])
        for row in covered(result):
            protocol = PrivateVectorSum(
                1000, domain, 1, Fraction("1e-8"), layout=LAYOUTS[row["layout"]], **how(row),
                **(given | {"modulus": chosen.modulus, "precision": chosen.precision}),
                reserve=spent(row),
            )  # fmt: skip
            assert row["messages_per_user"] == protocol.layout.messages_per_user
            assert row["bits_per_user"] == protocol.layout.bits_per_user
            assert row["delta"] == protocol.layout.delta <= 1e-8
            assert row["standard_error"] ** 2 == pytest.approx(protocol.mse)


class TestTransports:
    def rows(self, run, *line, helpers=2):
        given = ("messages", *line, "--analysis", "best", "--shuffler", "single", "--json")
        result = run(*given, "--helpers", helpers).json
        assert result["helpers"] == helpers
        listed = run(*given).json["rows"]
        assert of_shares(result) == listed  # marked as without other transports
        return [row for row in result["rows"] if row not in listed]

    def check(self, row, protocol, servers):
        assert row["proved"]
        assert not row["best"]
        assert not row["smallest"]
        assert row["modulus"] == str(protocol.transport.q)
        assert row["messages_per_user"] == protocol.transport.layout.messages_per_user
        assert row["bits_per_user"] == protocol.transport.layout.bits_per_user
        assert row["servers"] == servers
        assert row["theorem"].startswith(protocol.transport.theorem)
        if isinstance(protocol, PrivateSum | PrivateVectorSum):
            assert row["precision"] == protocol.precision
            assert row["delta"] == protocol.guarantee.delta
            assert row["standard_error"] ** 2 == pytest.approx(protocol.mse)
            assert row["sigma"] is row["unlimited"] is None
        else:
            level = protocol.transport.sigma
            assert row["sigma"] == (None if row["unlimited"] else level)
            assert row["unlimited"] == math.isinf(level)

    @pytest.mark.parametrize("helpers", [2, 60])
    def test_numbers_are_the_librarys(self, run, helpers):
        users, parties = self.rows(run, *PRIVATE[1:7], "--min-honest", "900", helpers=helpers)
        for row, noise in (users, "users"), (parties, "parties"):
            recipe = Helpers(helpers, noise)
            protocol = PrivateSum(1000, 1, Fraction("1e-8"), min_honest=900, transport=recipe)
            self.check(row, protocol, helpers + 1)
            assert (row["transport"], row["noise"]) == ("helpers", noise)
            assert row["shuffled"] is row["clear"] is row["analysis"] is None
        whom = f"analyzer or one of {helpers} helpers: its shares"
        assert users["trusted"] == f"{whom}; users: randomness"
        assert parties["trusted"] == f"{whom} and noise"
        # precision and modulus are those of the noise
        assert (users["modulus"] == parties["modulus"]) == (helpers == 2)
        assert users["precision"] < parties["precision"]

    @pytest.mark.slow
    def test_vectors_are_the_librarys(self, run):
        masks, users, parties = self.rows(
            run, *PRIVATE[1:7], "--domain", "ball", "--dimension", "9",
            "--releases", "3",
        )  # fmt: skip
        given = (1000, Ball(9), 1, Fraction("1e-8"))
        recipes = (Masked(Shuffled(layout="blocks", overhead=0)), Helpers(2), Helpers(2, "parties"))
        for row, recipe in zip((masks, users, parties), recipes, strict=True):
            protocol = PrivateVectorSum(*given, releases=3, transport=recipe)
            shuffled = protocol.transport.layout.count.shuffled
            self.check(row, protocol, 1 + shuffled)
            assert (row["shuffled"] is None) == (row["transport"] == "helpers")
        assert "assuming Ring-LWE" in masks["theorem"]
        assert masks["trusted"].endswith(" shufflers: who sent what; users: randomness")

    def test_secure_sums_are_the_librarys(self, run):
        (row,) = self.rows(run, *SECURE[1:-1])
        self.check(row, SecureSum(10**6, 2**64, transport=Helpers(2)), 3)
        assert row["unlimited"]
        assert row["sigma"] is None
        assert "assuming that HKDF-SHA512 and AES-256 are pseudorandom" in row["theorem"]
        assert row["trusted"].endswith("its shares; users: presence")

    @pytest.mark.slow
    def test_secure_vectors_are_the_librarys(self, run):
        given = ("--users", "1000", "--modulus", "2^23", "--sigma", "80", "--dimension", "5000")
        masks, helpers = self.rows(run, *given)
        protocol = SecureVectorSum(
            1000, 5000, 2**23, upper=(2**23 - 1) // 1000,
            transport=Masked(Shuffled(layout="blocks", overhead=0)),
        )  # fmt: skip
        self.check(masks, protocol, 1 + protocol.transport.layout.count.shuffled)
        self.check(helpers, SecureVectorSum(1000, 5000, 2**23, transport=Helpers(2)), 3)

    def test_what_a_transport_cannot_do_is_told(self, run):
        line = ("--users", "1000", "--modulus", "2^16-15", "--sigma", "20")
        (row,) = self.rows(run, *line)
        assert "--modulus must be a power of two" in row["reason"]
        assert row["servers"] is row["trusted"] is row["bits_per_user"] is None
        assert row["reason"] in " ".join(run("messages", *line).out.split())

    def test_chosen_shares_are_listed_alone_unless_helpers_are(self, run, refused):
        line = ("messages", "--users", "1000", "--modulus", "2^16", "--sigma", "20", "--json")
        for chosen, others in (
            ((), 1), (("--shuffler", "single"), 0), (("--no-clear-share",), 0),
            (("--shuffler", "single", "--helpers", "1"), 1),
        ):  # fmt: skip
            result = run(*line, *chosen).json
            assert len(result["rows"]) - len(of_shares(result)) == others
        text = run(*line[:-1], "--shuffler", "single").out
        assert "transport" not in text
        assert "trusted" not in text
        messages = ("--messages", "9", "--helpers", "2")
        assert "--helpers and --messages cannot" in refused(*line[:5], *messages)
        assert "--helpers must be at most 1000" in refused(*line[:-1], "--helpers", "1001")

    @pytest.mark.slow
    def test_a_million_users_and_a_thousand_classes(self, run):
        line = ("messages", "--users", "10^6", "--epsilon", "1", "--delta", "1e-12", "--domain",
                "categories", "--sizes", "1000", "--overhead", "1136", "--json")  # fmt: skip
        chosen = ("--analysis", "best", "--shuffler", "parallel", "--helpers", "1")
        rows = [row for row in run(*line, *chosen).json["rows"] if row["transport"] == "helpers"]
        assert [row["bytes_per_user"] for row in rows] == [2500 + 32 + 2 * 1136] * 2


class TestPlot:
    @pytest.mark.slow
    @pytest.mark.parametrize("line", [SECURE, PRIVATE], ids=["secure", "private"])
    def test_a_figure_is_written(self, run, tmp_path, line):
        pytest.importorskip("matplotlib")
        path = tmp_path / "x.svg"
        assert run(*line, "--plot", path).json["plot"] == str(path)
        assert path.read_text().startswith("<?xml")

    @pytest.mark.points(0)
    def test_a_full_disk_leaves_what_was_there(self, refused, tmp_path, monkeypatch):
        pytest.importorskip("matplotlib")
        from matplotlib.figure import Figure

        def full(self, file, **options):
            file.write(b"half of it")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Figure, "savefig", full)
        path = tmp_path / "x.png"
        path.write_text("before")
        line = ("messages", "--users", "100", "--modulus", "2^16", "--sigma", "20")
        said = refused(*line, "--analysis", "best", "--shuffler", "parallel", "--plot", path)
        assert said == "no space left on device"
        assert path.read_text() == "before"
        assert list(tmp_path.iterdir()) == [path]
