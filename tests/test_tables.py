"""Reading columns: what is a number is read exactly, everything else is refused in one line."""

from __future__ import annotations

import builtins
import gzip
import math
import os
import re
import sys
import threading
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos.tables import csv, open_column, read_column

ADULT = Path(__file__).parents[1] / ".." / "shared" / "data" / "adult.data"


@pytest.fixture
def write(tmp_path):
    def write(content, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refusal(path, column="a", **options):
    """Return the message of the refusal, after checking that it is one clean line."""
    with pytest.raises(ValueError) as caught:
        read_column(path, column, **options)
    message = str(caught.value)
    assert message
    assert message.isprintable()
    return message


class TestCsv:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("a\n1\n", [1]),
            ("a\n1", [1]),
            ("a,b\n1,x\n2.5,y\n", [1, 2.5]),
            ("b,a\nx,1\ny,-2\n", [1, -2]),
            ("a\r\n1\r\n2\r\n", [1, 2]),
            ("\ufeffa\n1\n", [1]),
            ('"a"\n"1"\n', [1]),
            ('"a" \n'.replace(" ", "") + " 1 \n\t2\t\n", [1, 2]),
            ("b, a\nx, 1\n", [1]),
            ('b, a\n"x, y", 1\n', [1]),
            ("a\n1\n\n\n", [1]),
            ("a\n1\n  \n\t\n\r\n", [1]),
            ("a\n+1.\n.5\n-1e-3\n1E+2\n007\n", [1, 0.5, -0.001, 100, 7]),
            ("a\n123456789012345678901234567890\n", [123456789012345678901234567890.0]),
            ("a\n1e-400\n", [0.0]),
            ('a,b\n1,"two\nlines"\n2,x\n', [1, 2]),
            ("Âge,a\nü,3\n", [3]),
        ],
    )
    def test_reads(self, write, text, expected):
        column = read_column(write(text), "a")
        assert column.dtype == np.float64
        assert column.tolist() == expected

    def test_header_is_optional(self, write):
        path = write("1,x\n2,y\n")
        for column in ("1", 1, np.int64(1)):
            assert read_column(path, column, header=False).tolist() == [1, 2]

    @pytest.mark.parametrize("delimiter", [";", "\t", "|", " ", ":"])
    def test_delimiters(self, write, delimiter):
        path = write(f"a{delimiter}b\n1{delimiter}2\n3{delimiter}4\n\n")
        assert read_column(path, "b", delimiter=delimiter).tolist() == [2, 4]

    @pytest.mark.parametrize(("given", "mark"), [(",", ";"), (",", "\t"), (",", "|"), (";", ",")])
    def test_another_delimiter_is_suggested(self, write, given, mark):
        path = write(f"a{mark}b\n1{mark}2\n")
        asked = f"are the columns separated by {mark!r}?"
        begins = f"delimiter must be what stands between the columns, got {given!r}: "
        for column in ("a", "b", "zzz"):  # and not the name that has them all
            message = refusal(path, column, delimiter=given)
            assert message.startswith(begins)
            assert message.endswith(f"no column {column!r}, but one other; {asked}")
        assert refusal(path, 2, header=False, delimiter=given).endswith(asked)
        if mark != ",":  # 1,2 has a decimal comma
            cell = refusal(write(f"1{mark}2\n"), 1, header=False, delimiter=given)
            assert asked in cell

    def test_a_column_alone_may_have_marks_in_its_name(self, write):
        assert read_column(write("a;b\n1\n"), "a;b").tolist() == [1]
        said = refusal(write("age\n1\n"), "agee", show_values=True)
        assert "did you mean 'age'?" in said

    @pytest.mark.parametrize("delimiter", ["", ",,", "1", ".", "-", "e", "\n", '"', "\0"])
    def test_impossible_delimiters(self, write, delimiter):
        assert "delimiter" in refusal(write("a\n1\n"), delimiter=delimiter)

    @pytest.mark.parametrize(
        "cell",
        [
            "x", "nan", "NaN", "inf", "-Infinity", "1_000", "0x10", "1e", "e5", ".", "+", "--1",
            "1 2", "1.2.3", "１２", "١", "1\u00a0", "1e5.5", "true", "1\x0c", "1\x1f", "-", "1d5",
        ],
    )  # fmt: skip
    def test_what_is_not_a_number(self, write, cell):
        message = refusal(write(f"b,a\nx,1\ny,{cell}\nz,3\n"))
        assert "row 2 (line 3)" in message
        assert "not a finite decimal number" in message
        assert "'a'" in message

    @pytest.mark.parametrize("cell", ["3,5", "1,000"])
    def test_commas_are_not_guessed_at(self, write, cell):
        message = refusal(write(f"a;b\n{cell};1\n"), delimiter=";")
        assert message.endswith("not a finite decimal number")

    @pytest.mark.parametrize(
        ("text", "exact"),
        [
            ("-0", 0), ("3.0", 3), ("+20e-1", 2), ("1e3", 1000), (" 007 ", 7),
            (str(2**53 + 1), 2**53 + 1), (str(2**64), 2**64), (f"-{2**70}.0", -(2**70)),
            (f"0.{'9' * 30}", None), ("1e1000", None), ("1e999999999", None), ("1.5", None),
            ("1e-999999999", None), ("9" * 5000, None), ("1e99999999999999999999", None),
        ],
    )  # fmt: skip
    def test_integers_are_exact(self, write, text, exact):
        path = write(f"a\n1\n{text}\n")
        if exact is None:
            assert "row 2 (line 3) has a value" in refusal(path, integers=True)
            return
        found = read_column(path, "a", integers=True)
        assert found.tolist() == [1, exact]
        assert found.dtype == (np.int64 if abs(exact) < 2**63 else object)

    def test_too_large_for_a_double(self, write):
        assert "beyond the largest double" in refusal(write("a\n1\n1e999\n"))

    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("a,b\n1,1\n,2\n", "row 2 (line 3) has no value"),
            ("a,b\n1,1\n  ,2\n", "row 2 (line 3) has no value"),
            ("a\n1\n\n3\n", "row 2 (line 3) is blank"),
            ("a\n1\n  \n3\n", "row 2 (line 3) is blank"),
            ("a\n\n1\n", "row 1 (line 2) is blank"),
            ('a\n1\n""\n', "row 2 (line 3) has no value"),
            ("a,b\n1,2\n3\n", "row 2 (line 3) has 1 cell, not 2"),
            ("a,b\n1,2\n3,4,5\n", "row 2 (line 3) has 3 cells, not 2"),
            ("a,b\n1,2,\n", "row 1 (line 2) has 3 cells, not 2"),
            ('a,b\n1,"x\ny\nz"\nbad,2\n', "row 2 (line 5) has a value"),
            ('a,b\n1,"x\ny\nz"\n\n4,2\n', "row 2 (line 5) is blank"),
            ('a,"b\nc"\n1,2\nbad,2\n', "row 2 (line 4) has a value"),
        ],
    )
    def test_where_a_cell_is_missing(self, write, text, where):
        assert where in refusal(write(text))

    @pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
    @pytest.mark.parametrize("bad", ["x", "", "1,2"])
    def test_positions_do_not_depend_on_blocks(self, write, offset, bad):
        row = csv.BLOCK + offset
        lines = ["1"] * (row + 1000)
        lines[row - 1] = bad
        message = refusal(write("a\n" + "\n".join(lines) + "\n"))
        assert f"row {row} (line {row + 1})" in message

    def test_blank_lines_across_blocks(self, write):
        text = "a\n" + "1\n" * (csv.BLOCK - 3)
        blank = "\n" * (2 * csv.BLOCK)
        assert read_column(write(text + blank), "a").size == csv.BLOCK - 3
        row = csv.BLOCK - 2
        assert f"row {row} (line {row + 1}) is blank" in refusal(write(text + blank + "1\n"))

    def test_blank_first_lines(self, write):
        assert "line 1 is blank" in refusal(write("\na\n1\n"))
        assert "row 1 (line 1) is blank" in refusal(write("\n1\n"), 1, header=False)

    @pytest.mark.parametrize("content", ["", "\ufeff"])
    @pytest.mark.parametrize("header", [True, False])
    def test_empty(self, write, content, header):
        assert "is empty" in refusal(write(content), "1", header=header)

    def test_no_rows(self, write):
        assert "has a header but no rows" in refusal(write("a,b\n"))
        assert "has a header but no rows" in refusal(write("a,b\n\n  \n"))
        assert "is empty" in refusal(write("\n\n"), 1, header=False)

    def test_unknown_column(self, write):
        path = write("Age,income,income_net\n1,2,3\n")
        message = refusal(path, "age")
        assert message.endswith("no column 'age' among its 3 columns; show_values=True lists them")
        message = refusal(path, "age", show_values=True)
        assert "its columns are 'Age', 'income', 'income_net'" in message
        assert message.endswith("did you mean 'Age'?")
        assert "did you mean" not in refusal(path, "zzz", show_values=True)
        many = write(",".join(f"c{i}" for i in range(100)) + "\n")
        assert len(refusal(many, "zzz", show_values=True)) < 500

    def test_a_row_in_place_of_the_header(self, write):
        assert "is the first line a row rather than a header?" in refusal(write("1,2\n3,4\n"))

    def test_a_header_in_place_of_a_row(self, write):
        message = refusal(write("age,b\n3,4\n"), 1, header=False)
        assert "is the first line a header?" in message

    def test_duplicate_names(self, write):
        path = write("a,b,a\n1,2,3\n")
        assert "2 columns named 'a': 1, 3" in refusal(path)
        assert read_column(path, "b").tolist() == [2]

    @pytest.mark.parametrize("column", ["age", "0", "-1", "1.0", "", "1_0", "٣"])
    def test_column_numbers(self, write, column):
        assert "counted from 1" in refusal(write("1\n"), column, header=False)

    def test_column_out_of_range(self, write):
        assert "has no column 3: it has 2 columns" in refusal(write("1,2\n"), 3, header=False)
        assert "it has 1 column" in refusal(write("1\n"), 3, header=False)

    def test_wrong_kinds(self, write):
        with pytest.raises(TypeError, match="column must be a name"):
            read_column(write("a\n1\n"), 1)
        with pytest.raises(TypeError, match="column must be an integer"):
            read_column(write("1\n"), 1.0, header=False)
        with pytest.raises(ValueError, match="column must be at least 1"):
            read_column(write("1\n"), 0, header=False)
        with pytest.raises(TypeError, match="header must be True or False"):
            read_column(write("1\n"), 1, header=0)
        with pytest.raises(TypeError, match="delimiter must be a string"):
            read_column(write("1\n"), 1, header=False, delimiter=1)
        for path, what in ((None, "NoneType None"), (3, "int 3"), (b"t.csv", "bytes b't.csv'")):
            with pytest.raises(TypeError, match=f"path must be a string or a path, got {what}$"):
                open_column(path, "a")

    @pytest.mark.parametrize(
        ("content", "where"),
        [
            (b"a\n1\n\xff\n", "is not UTF-8 text: look at line 3"),
            (b"b,a\nx,1\ncaf\xe9,2\n", "is not UTF-8 text: look at line 3"),
            ("a\n1\n".encode("utf-16"), "is UTF-16, not UTF-8 text: convert it"),
            (b"\xfe\xff" + "a\n1\n".encode("utf-16-be"), "is UTF-16"),
            (b"\xff\xfea\n", "is UTF-16"),
            ("a\n1\n".encode("utf-16-le"), "line 1 has a NUL byte"),
            (b"\xffa\n", "look at line 1"),
            (b"a\n1\n2\x00\n", "line 3 has a NUL byte"),
            (b"b,a\nx\x00,1\n", "line 2 has a NUL byte"),
            (b"\x1f\x8b\x08\n\x01", "it is damaged or not all there"),
            (b"\x1f\x8bxx", "it is damaged or not all there"),
            (b"\x1fa\n1\n\xff", "look at line 3"),
        ],
    )
    def test_what_is_not_text(self, write, content, where):
        assert where in refusal(write(content))

    def test_compressed_by_gzip(self, write):
        """As a file, whatever its name and with bytes of several chunks, or at the other end."""
        text = "a\n" + "".join(f"{i}\n" for i in range(100_000))
        packed = gzip.compress(text.encode())
        done = []
        values = read_column(write(packed), "a", progress=lambda *one: done.append(one))
        assert values.tolist() == list(range(100_000))
        assert done == sorted(done)
        assert done[-1] == (len(packed), len(packed))
        assert read_column(write(gzip.compress(b"a\n1\n") + gzip.compress(b"2\n")), "a").size == 2
        assert "row 100001 (line 100002)" in refusal(write(gzip.compress(text.encode() + b"x\n")))

    def test_damaged_gzip(self, write):
        packed = gzip.compress(b"a\n" + np.random.default_rng(0).bytes(3000).hex().encode())
        flipped = packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]  # of the checksum
        for bad in (packed[:5], packed[:20], packed[:-4], flipped, packed + b"x", packed[:50] * 2):
            assert "damaged or not all there" in refusal(write(bad))

    def test_positions_of_bytes_do_not_depend_on_chunks(self, write):
        lines = csv.CHUNK // 2 + 10
        for bad, what in ((b"\xff", "look at line {}"), (b"\0", "line {} has a NUL byte")):
            content = b"a\n" + b"1\n" * lines + bad + b"\n"
            assert what.format(lines + 2) in refusal(write(content))

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ('a\n1\n"2\n3\n', "ends inside a quoted cell"),
            ('b,a\n"x"y,1\n', "goes on after its closing quote"),
            ("a\r1\r2\r", "carriage return"),
            ("a\n" + '"' + "1\n" * 100_000, "is a closing"),
        ],
    )
    def test_malformed(self, write, text, what):
        assert what in refusal(write(text))

    def test_long_cells_are_not_printed_whole(self, write):
        assert len(refusal(write("a\n" + "x" * 100_000 + "\n"))) < 400

    def test_fast_and_slow_paths_agree(self, write, monkeypatch):
        text = "a,b\n" + "".join(f" {i}.25 ,x\n" for i in range(500))
        fast = read_column(write(text), "a")
        monkeypatch.setattr(csv, "BLOCK", 7)
        assert read_column(write(text), "a").tolist() == fast.tolist()

    @given(st.text(alphabet=st.sampled_from('0123456789+-.eE \t_xnaif١\n\r",\u00a0'), max_size=8))
    def test_the_look_at_the_block_is_as_strict_as_the_pattern(self, cell):
        """The fast conversion accepts a cell exactly if the pattern does, after its blanks."""
        if not cell.isascii() or cell.encode().translate(None, csv._NUMBER_BYTES):
            fast = False
        else:
            try:
                float(cell)
                fast = True
            except ValueError:
                fast = False
        assert fast == bool(csv._NUMBER.fullmatch(cell.strip(" \t")))

    @given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
    def test_doubles_survive(self, tmp_path_factory, values):
        path = tmp_path_factory.mktemp("doubles") / "t.csv"
        path.write_text("a\n" + "".join(f"{value!r}\n" for value in values))
        assert read_column(path, "a").tolist() == values

    @given(st.binary(max_size=60))
    def test_garbage_is_read_or_refused(self, tmp_path_factory, content):
        path = tmp_path_factory.mktemp("garbage") / "t.csv"
        path.write_bytes(b"a,b\n" + content)
        try:
            column = read_column(path, "a")
        except ValueError as error:
            message = str(error)
            assert message.isprintable()
        else:
            assert column.size
            assert np.isfinite(column).all()

    def test_progress(self, write):
        path = write("a\n" + "1\n" * 100_000)
        calls = []
        read_column(path, "a", progress=lambda done, whole: calls.append((done, whole)))
        assert calls == sorted(calls)
        assert calls[-1] == (path.stat().st_size,) * 2

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
    def test_pipes(self, tmp_path):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(b"a\n1\n2\n",))
        writer.start()
        assert read_column(pipe, "a", progress=pytest.fail).tolist() == [1, 2]
        writer.join()

    def test_the_census_file(self):
        if not ADULT.exists():
            pytest.skip("adult.data of the UCI repository is not beside the checkout")
        ages = read_column(ADULT, 1, header=False)
        assert (ages.size, ages.sum(), ages.min(), ages.max()) == (32561, 1256257, 17, 90)


class TestFiles:
    def test_missing(self, tmp_path):
        assert "there is no such file" in refusal(tmp_path / "nothing.csv")

    def test_directory(self, tmp_path):
        assert "is a folder without files" in refusal(tmp_path)

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read")
    def test_unreadable(self, write):
        path = write("a\n1\n")
        path.chmod(0)
        assert "permission denied" in refusal(path)

    def test_names_that_no_file_can_have(self, tmp_path):
        assert refusal("a\0b")
        assert refusal(tmp_path / ("x" * 5000))
        assert "\\n" in refusal(tmp_path / "two\nlines")


class TestParquet:
    @pytest.fixture
    def pa(self):
        return pytest.importorskip("pyarrow", reason="needs the extra ikos[parquet]")

    @pytest.fixture
    def store(self, pa, tmp_path):
        from pyarrow import parquet

        def store(values, kind=None, name="t.parquet", **options):
            path = tmp_path / name
            array = values if isinstance(values, pa.Array) else pa.array(values, kind)
            parquet.write_table(pa.table({"b": array, "a": array}), path, **options)
            return path

        return store

    def test_reads_every_kind_of_number(self, pa, store):
        kinds = [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(10, 2)]
        for kind in kinds:
            values = [Decimal(v) for v in (1, 2, 3)] if pa.types.is_decimal(kind) else [1, 2, 3]
            column = read_column(store(values, kind), "a")
            assert column.dtype == np.float64
            assert column.tolist() == [1, 2, 3]
        assert read_column(store(np.float16([1.5]), pa.float16()), "a").tolist() == [1.5]
        assert read_column(store(pa.array([2, 5, 2]).dictionary_encode()), "a").tolist() == [
            2,
            5,
            2,
        ]
        assert read_column(store([2**53 + 1]), "a").tolist() == [2.0**53]

    def test_many_row_groups(self, store):
        path = store(list(range(200_000)), row_group_size=30_000)
        calls = []
        column = read_column(path, "a", progress=lambda *call: calls.append(call))
        assert np.array_equal(column, np.arange(200_000))
        assert calls[-1] == (200_000, 200_000)

    def test_known_by_its_first_bytes(self, store):
        assert read_column(store([1.5], name="t.csv"), "a").tolist() == [1.5]

    @pytest.mark.parametrize("row", [1, 65_536, 65_537, 70_000])
    def test_missing_and_infinite(self, store, row):
        for bad, what in ((None, "no value"), (np.inf, "a value"), (np.nan, "a value")):
            values = [1.0] * 70_000
            values[row - 1] = bad
            message = refusal(store(values))
            assert f"row {row} has {what}" in message

    def test_integers_are_exact(self, pa, store):
        of = partial(read_column, column="a", integers=True)
        assert of(store([2**53 + 1, -5])).tolist() == [2**53 + 1, -5]
        assert of(store(pa.array([2**64 - 1, 3], pa.uint64()))).tolist() == [2**64 - 1, 3]
        assert of(store([2.0**70, -3.0])).tolist() == [2**70, -3]
        assert of(store([Decimal(10**25), Decimal("3.00")])).tolist() == [10**25, 3]
        for bad in (1.5, math.nan, math.inf):
            assert "row 2 has a value in column 'a', not an" in refusal(
                store([1, bad]), integers=True
            )
        assert "row 2 has no value" in refusal(store([1, None]), integers=True)

    def test_what_is_not_numbers(self, pa, store):
        message = refusal(store([True, False]))
        assert "booleans" in message
        assert "store 0 and 1" in message
        for values in (["x"], [date(2020, 1, 1)], [[1]], [{"x": 1}], [None]):
            assert "not numbers" in refusal(store(values))

    def test_columns(self, pa, tmp_path, store):
        from pyarrow import parquet

        assert "its columns are 'b', 'a'" in refusal(store([1]), "c")
        assert "header must be True for" in (said := refusal(store([1]), 1, header=False))
        assert "whose columns have names" in said
        said = refusal(store([1]), delimiter=";")
        assert re.fullmatch(r"delimiter must be left out for '.*', a Parquet file, got ';'", said)
        twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
        parquet.write_table(twice, tmp_path / "twice.parquet")
        assert "2 columns named 'a'" in refusal(tmp_path / "twice.parquet")
        dotted = pa.table([pa.array([1]), pa.array([2])], names=["a.b", "a"])
        parquet.write_table(dotted, tmp_path / "dotted.parquet")
        assert read_column(tmp_path / "dotted.parquet", "a.b").tolist() == [1]
        assert read_column(tmp_path / "dotted.parquet", "a").tolist() == [2]

    def test_empty_and_broken(self, pa, store, write):
        assert "columns but no rows" in refusal(store([], pa.int64()))
        assert "not a readable Parquet file" in refusal(write("a\n1\n", "t.parquet"))
        assert "not a readable Parquet file" in refusal(write(b"", "t.parquet"))
        assert "not a readable Parquet file" in refusal(write(b"PAR1" + b"x" * 100, "t.csv"))
        path = store(list(range(10_000)), write_page_checksum=True)
        content = path.read_bytes()
        assert "not a readable Parquet file" in refusal(write(content[:-100], "u.parquet"))
        for start in range(0, len(content) - 100, len(content) // 50):
            changed = content[:start] + b"\xff" * 50 + content[start + 50 :]
            assert len(changed) == len(content)
            try:
                column = read_column(write(changed, "v.parquet"), "a")
            except ValueError as error:
                message = str(error)
                assert message.isprintable()
            else:  # what was changed is not this column
                assert np.array_equal(column, np.arange(10_000))

    def test_without_pyarrow(self, store, monkeypatch):
        path = store([1])
        real = builtins.__import__

        def missing(name, *args, **kwargs):
            if name.startswith("pyarrow"):
                raise ImportError(name)
            return real(name, *args, **kwargs)

        for name in [name for name in sys.modules if name.startswith("pyarrow")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(builtins, "__import__", missing)
        with pytest.raises(ImportError, match=re.escape("pip install 'ikos[parquet]'")):
            read_column(path, "a")
