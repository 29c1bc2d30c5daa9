"""``ikos messages-vectors``: every analysis and layout side by side, with the library's numbers."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from ikos.cli import messages_vectors_report
from ikos.counts import ANALYSES, vector_layouts
from ikos.counts.floor import counting_floor
from ikos.vectors import Ball, Box, Categories, PrivateVectorSum, SparseTernary

SECURE = ("--users", "10^4", "--dimension", "16", "--modulus", "2^32", "--sigma", "80")
PRIVATE = ("--users", "1000", "--epsilon", "1", "--delta", "1e-8", "--domain")
BALL = (*PRIVATE, "ball", "--dimension", "64")
BOX = (*PRIVATE, "box", "--dimension", "3")
SETTINGS = [(shuffler, clear) for shuffler in ("parallel", "single") for clear in (True, False)]
LAYOUTS = ("separate sums", "one group")

TOP = {
    "command", "version", "users", "min_honest", "corrupt_shufflers", "modulus", "dimension",
    "sigma", "epsilon", "delta", "reserve", "releases", "domain", "lower", "upper", "radius",
    "sparsity", "sizes", "precision", "integers", "rows", "floor", "warnings",
}  # fmt: skip
ROW = {
    "analysis", "assumes", "shuffler", "clear_share", "layout", "sums", "covered", "proved", "best",
    "smallest", "shuffled", "clear", "total", "messages_per_user", "bits_per_message",
    "bits_per_user", "theorem", "proved_sigma", "unlimited", "proved_delta", "noise_epsilon",
    "standard_error", "reason",
}  # fmt: skip
FLOOR = {"layout", "shuffler", "clear_share", "shuffled", "clear", "total"}


def flat(text):
    return " ".join(text.split())


def how(row):
    return {key: row[key] for key in ("analysis", "shuffler", "clear_share")}


def cost_of(row):
    return {key: row[key] for key in ("messages_per_user", "bits_per_message", "bits_per_user")}


def promised(layout):
    return {key: getattr(layout, key) for key in cost_of(dict.fromkeys(ROW))}


@pytest.mark.parametrize("options", [SECURE, BALL])
def test_json_has_every_documented_key(run, options):
    result = run("messages-vectors", *options, "--json").json
    assert set(result) == TOP
    assert all(set(row) == ROW for row in result["rows"])
    assert all(set(row) == FLOOR for row in result["floor"] or [])
    documented = set(re.findall(r"``(\w+)``", messages_vectors_report.__doc__ or ""))
    assert documented == TOP | ROW | FLOOR
    found = [(row["analysis"], row["shuffler"], row["clear_share"], row["layout"])
             for row in result["rows"]]  # fmt: skip
    every = [(name, *each, layout) for name in ANALYSES for each in SETTINGS for layout in LAYOUTS]
    assert sorted(found) == sorted(every)
    assert list(dict.fromkeys(name for name, *_ in found)) == list(ANALYSES)


@pytest.mark.parametrize(
    ("extra", "trust"),
    [
        ((), {}),
        (("--min-honest", "50%"), {"min_honest": 5000}),
        (("--corrupt-shufflers", "3"), {"corrupt_shufflers": 3}),
    ],
)
def test_secure_sums_are_the_librarys(run, extra, trust):
    result = run("messages-vectors", *SECURE, *extra, "--json").json
    assert (result["modulus"], result["sigma"]) == (str(2**32), 80)
    assert result["epsilon"] is result["domain"] is result["precision"] is None
    covered = [row for row in result["rows"] if row["covered"]]
    assert {row["layout"] for row in covered} == set(LAYOUTS)
    for row in result["rows"]:
        if not row["covered"]:
            assert row["reason"]
            assert row["messages_per_user"] is row["proved_sigma"] is None
            assert not any(row[name] for name in ("best", "smallest", "proved", "unlimited"))
            if row["shuffler"] == "parallel" or not trust.get("corrupt_shufflers"):
                with pytest.raises(ValueError):
                    vector_layouts(10**4, 2**32, 80, 16, **how(row), **trust)
            continue
        group, apart = vector_layouts(10**4, 2**32, 80, 16, **how(row), **trust)
        layout = group if row["layout"] == "one group" else apart
        assert cost_of(row) == promised(layout)
        assert row["proved_sigma"] == layout.sigma >= 80
        assert (row["shuffled"], row["clear"]) == (layout.count.shuffled, layout.count.clear)
        assert row["total"] * row["sums"] == row["messages_per_user"]
        assert row["theorem"] == layout.count.theorem
        assert row["proved"] == (row["analysis"] != "ghazi2020")
        assert row["proved_delta"] is row["noise_epsilon"] is row["standard_error"] is None
    sound = [row for row in covered if row["proved"]]
    for mark, cost in (("best", "messages_per_user"), ("smallest", "bits_per_user")):
        least = min(row[cost] for row in sound)
        assert [row[mark] for row in covered] == [
            row["proved"] and row[cost] == least for row in covered
        ]
    for name in ANALYSES:
        order = [row["messages_per_user"] for row in covered if row["analysis"] == name]
        assert order == sorted(order)


@pytest.mark.parametrize(
    ("options", "domain", "given"),
    [
        (("ball", "--dimension", "64", "--radius", "2"), Ball(64, 2), {}),
        (("ball", "--dimension", "9", "--releases", "10"), Ball(9), {"releases": 10}),
        (("box", "--dimension", "3", "--lower", "-2", "--upper", "5", "--precision", "9"),
         Box(3, -2, 5), {"precision": 9}),
        (("box", "--dimension", "3", "--lower", "-2", "--upper", "5", "--integers"),
         Box(3, -2, 5), {"integers": True}),
        (("box", "--dimension", "3", "--modulus", "10^6", "--reserve", "0.2"), Box(3),
         {"modulus": 10**6, "reserve": Fraction(1, 5)}),
        (("ternary", "--dimension", "9", "--sparsity", "2"), SparseTernary(9, 2), {}),
        (("categories", "--sizes", "2,3", "--min-honest", "700"), Categories([2, 3]),
         {"min_honest": 700}),
        (("categories", "--sizes", "2,3", "--corrupt-shufflers", "2"), Categories([2, 3]),
         {"corrupt_shufflers": 2}),
    ],
)  # fmt: skip
def test_private_sums_are_the_librarys(run, options, domain, given):
    result = run("messages-vectors", *PRIVATE, *options, "--json").json
    default = PrivateVectorSum(1000, domain, 1, Fraction("1e-8"), **given)
    assert result["modulus"] == str(default.modulus)
    assert result["precision"] == default.precision
    assert (result["dimension"], result["domain"]) == (domain.dimension, options[0])
    assert result["integers"] == given.get("integers", False)
    assert result["releases"] == given.get("releases", 1)
    own = {key: result[key] for key in ("lower", "upper", "radius", "sparsity", "sizes")}
    held = {key: getattr(domain, key) for key in own if hasattr(domain, key)}
    held |= {key: list(value) for key, value in held.items() if isinstance(value, tuple)}
    assert own == dict.fromkeys(own) | held
    assert result["floor"] is result["sigma"] is None
    covered = [row for row in result["rows"] if row["covered"]]
    assert len({(row["layout"], row["analysis"]) for row in covered}) >= 4
    for row in covered:
        protocol = PrivateVectorSum(
            1000, domain, 1, Fraction("1e-8"), layout=row["layout"], **how(row),
            **(given | {"modulus": default.modulus, "precision": default.precision}),
        )  # fmt: skip
        assert cost_of(row) == promised(protocol.layout)
        assert row["proved_delta"] == protocol.layout.delta <= 1e-8
        assert row["noise_epsilon"] == protocol.layout.count.noise_epsilon
        assert row["standard_error"] ** 2 == pytest.approx(protocol.error(1000).mean_square)
        assert row["proved_sigma"] == protocol.layout.sigma


def test_the_floor_is_the_librarys(run):
    result = run("messages-vectors", *SECURE, "--json").json
    found = [(row["layout"], row["shuffler"], row["clear_share"]) for row in result["floor"]]
    assert found == [(layout, *each) for layout in LAYOUTS for each in SETTINGS]
    floors = {}
    for row in result["floor"]:
        order = 2**512 if row["layout"] == "one group" else 2**32
        assert row["shuffled"] == counting_floor(10**4, order, 80, shuffler=row["shuffler"])
        assert row["total"] == row["shuffled"] + row["clear"]
        floors[row["layout"], row["shuffler"], row["clear_share"]] = row["total"]
    for row in result["rows"]:
        place = row["layout"], row["shuffler"], row["clear_share"]
        assert not row["covered"] or row["total"] >= floors[place]
    more = run("messages-vectors", *SECURE, "--corrupt-shufflers", "2", "--json").json["floor"]
    assert {row["shuffler"] for row in more} == {"parallel"}
    for row in more:
        place = row["layout"], "parallel", row["clear_share"]
        assert row["total"] == floors[place] + 2
    text = flat(run("messages-vectors", *SECURE).out)
    apart, group = (floors[layout, "parallel", False] for layout in LAYOUTS)
    one = floors["one group", "single", False]
    assert (
        f"below so many shuffled messages: {apart} of each separate sum; "
        f"{group} (parallel shufflers) or {one} (a single one) as one group." in text
    )


@pytest.mark.parametrize(
    "options",
    [
        SECURE,
        BALL,
        (*SECURE, "--min-honest", "20", "--corrupt-shufflers", "2"),
        ("--users", "1", *SECURE[2:]),
        ("--users", "1", *BALL[2:]),
        ("--users", "2^53", "--dimension", "10^4", "--modulus", "2^64", "--sigma", "9"),
        ("--users", "9e7", *BALL[2:-1], "4096", "--releases", "10^6", "--min-honest", "99"),
    ],
)
def test_words(run, options):
    text = run("messages-vectors", *options).out
    assert max(map(len, text.splitlines())) <= 82  # 80 but for sizes nobody has
    table = [line for line in text.splitlines() if re.search(r"[0-9] \+ [01] ", line)]
    assert any(line.startswith(("* ", "# ")) for line in table)
    assert any(line.startswith(("+ ", "# ")) for line in table)
    for line in table:
        words = line[2:].replace(",", "").split()
        shuffled, clear, total = int(words[3]), int(words[5]), float(words[6])
        dimension = int(options[options.index("--dimension") + 1].replace("10^4", "10000"))
        sums = dimension if words[2] == "separate" else 1
        assert total == pytest.approx((shuffled + clear) * sums, rel=1e-3)
    assert "the exact second moment of the share graph: no" in text
    assert ("The floor" in text) == ("--sigma" in options and options[1] != "1")
    assert ("off by at most" in text) == ("--epsilon" in options)


def test_what_is_used_by_default_is_said(run):
    said = "uses separate sums, parallel shufflers and a clear share: {:,} messages here."
    private = PrivateVectorSum(1000, Ball(64), 1, Fraction("1e-8")).layout.messages_per_user
    assert said.format(private) in flat(run("messages-vectors", *BALL).out)
    _, secure = vector_layouts(10**4, 2**32, 80, 16)
    assert said.format(secure.messages_per_user) in flat(run("messages-vectors", *SECURE).out)
    assert "Unless told" not in run("messages-vectors", *SECURE, "--no-clear-share").out


def test_one_coordinate_has_one_layout(run):
    rows = run("messages-vectors", *SECURE[:2], "--dimension", "1", *SECURE[4:], "--json").json[
        "rows"
    ]
    assert {row["layout"] for row in rows} == {"one group"}
    scalar = run("messages", *SECURE[:2], *SECURE[4:], "--json").json["rows"]
    assert [row["total"] for row in rows] == [row["total"] for row in scalar]
    text = run("messages-vectors", *BOX[:-1], "1").out
    assert "separate" not in text.replace("uses separate sums", "")


def test_groups_for_which_nothing_is_proved(run):
    text = run("messages-vectors", *SECURE).out
    assert "! not proved for a composite modulus; for comparison" in text
    assert "! not proved for vectors of several coordinates as one group; for comparison" in text
    assert text.count("\n!") == 2
    prime = (*SECURE[:4], "--modulus", "2^31-1", *SECURE[6:])
    rows = run("messages-vectors", *prime, "--json").json["rows"]
    ghazi = {row["layout"]: row["proved"] for row in rows if row["covered"]
             and row["analysis"] == "ghazi2020"}  # fmt: skip
    assert ghazi == {"one group": False, "separate sums": True}
    alone = run("messages-vectors", *SECURE, "--analysis", "ghazi2020").out
    assert "But no row is proved." in flat(alone)
    assert "fewest" not in alone


def test_groups_too_large_to_be_counted(run, refused):
    """The private sum has a layout left; a secure one of so many coordinates is refused."""
    ball = (
        *PRIVATE,
        "ball",
        "--dimension",
        "2^19",
        "--precision",
        "2^40",
        "--analysis",
        "second_moment",
    )
    said = flat(run("messages-vectors", *ball).out)
    assert "group: --dimension must be at most " in said
    assert "separate: 524,288 sums" in said
    secure = ("messages-vectors", *SECURE[:2], "--dimension", "10^6", *SECURE[4:])
    assert refused(*secure) == (
        "--dimension must be at most 312500 for this --modulus, got 1000000: groups are counted "
        "up to order 2**10000000"
    )


def test_weak_budgets(run):
    weak = ("--users", "100", "--epsilon", "11", "--delta", "0.5", *BOX[6:])
    warnings = ["it would allow", "protects next to nobody"]
    result = run("messages-vectors", *weak, "--json", warning=warnings).json
    assert len(result["warnings"]) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give --modulus, --sigma and --dimension for a secure sum"),
        (("--sigma", "80"), "--sigma needs --modulus, e.g. --modulus 2^32"),
        (("--sigma", "80", "--modulus", "9"), "--sigma needs --dimension, e.g. --dimension 256"),
        (("--epsilon", "1"), "--epsilon needs --delta"),
        (("--delta", "1e-9"), "--delta needs --epsilon"),
        (PRIVATE[2:-1], "--epsilon needs --domain: box, ball, ternary or categories"),
        (BALL[2:-2], "--domain ball needs --dimension"),
        ((*BALL[2:], "--upper", "3"), "--upper is not for --domain ball"),
        ((*BALL[2:], "--integers"), "--integers is not for --domain ball"),
        ((*PRIVATE[2:], "categories", "--sizes", "2", "--precision", "1"),
         "--precision is not for --domain categories"),
        ((*BOX[2:], "--integers", "--upper", "8", "--precision", "4"),
         "--precision must be upper - lower = 8 with --integers, got 4"),
        ((*BOX[2:], "--modulus", "100"), "--modulus must be above users * steps = "),
        ((*BOX[2:], "--reserve", "0.7"), "--reserve must be at most 0.5, got 0.7"),
        ((*BOX[2:], "--releases", "0"), "--releases must be at least 1, got 0"),
        ((*BOX[2:], "--sigma", "80"), "--epsilon is for a private sum, --sigma for a secure one"),
        ((*SECURE[2:], "--domain", "box"), "--domain is for a private sum, --sigma for a secure"),
        ((*SECURE[2:], "--lower", "0"), "--lower is for a private sum, --sigma for a secure one"),
        ((*SECURE[2:], "--corrupt-shufflers", "1", "--shuffler", "single"),
         "--corrupt-shufflers must be 0 with a single shuffler, got 1"),
        ((*SECURE[2:], "--analysis", "ishai2006", "--clear-share"),
         "no theorem covers this with --clear-share: --analysis ishai2006 needs a single"),
        ((*SECURE[2:], "--min-honest", "1001"),
         "--min-honest must be at most --users = 1000, got 1001"),
        (("--users", "10^10", *BOX[2:]), "option '--users' can be given only once"),
    ],
)  # fmt: skip
def test_refused(refused, options, said):
    assert said in refused("messages-vectors", "--users", "1000", *options)


def test_too_many_users_for_a_private_sum(refused):
    said = refused("messages-vectors", "--users", "10^10", *BOX[2:])
    assert said == "--users must be at most 1000000000, got 10000000000"
