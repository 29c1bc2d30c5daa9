"""Reading columns: what is a number is read exactly, everything else is refused in one line."""

from __future__ import annotations

import csv
import decimal
import gzip
import math
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos._validation import NUMBER
from ikos.data import table_files
from ikos.data.table_files import ROWS_PER_BLOCK
from ikos.data.tables import Cells, InvalidRow, open_column, open_columns, read_column

ADVICE = "; gaps=True accepts such rows"

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")


@pytest.fixture
def put(tmp_path):
    """Write a file of the folder ``t`` and return it."""

    def put(content, name="t.csv"):
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


@pytest.fixture
def pa():
    return pytest.importorskip("pyarrow", reason="needs the extra ikos[parquet]")


@pytest.fixture
def store(pa, tmp_path):
    """Write a Parquet file of the folder ``t`` and return it."""
    from pyarrow import parquet

    def store(values, kind=None, name="t.parquet", **options):
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        array = values if isinstance(values, pa.Array) else pa.array(values, kind)
        parquet.write_table(pa.table({"b": array, "a": array}), path, **options)
        return path

    return store


def refusal(path, column="a", **options):
    """Return the message of the refusal, after checking that it is one clean line."""
    with pytest.raises(ValueError) as caught:
        read_column(path, column, **options)
    message = str(caught.value)
    assert message.isprintable()
    assert 0 < len(message) < 500
    return message


class TestCsv:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("a\n1", [1]),
            ("a,b\n1,x\n2.5,y\n", [1, 2.5]),
            ("b,a\r\nx,1\r\ny,-2\r\n", [1, -2]),
            ("\ufeffa\n1\n", [1]),
            ('"a"\n"1"\n 1 \n\t2\t\n', [1, 1, 2]),
            ('b, a\n"x, y", 1\n', [1]),
            ("a\n1\n\n\r\n", [1]),
            ("a\n+1.\n.5\n-1e-3\n1E+2\n007\n1e-400\n", [1, 0.5, -0.001, 100, 7, 0]),
            ("a\n123456789012345678901234567890\n", [123456789012345678901234567890.0]),
            ('a,b\n1,"two\nlines"\n2,x\n', [1, 2]),
            ("Âge,a\nü,3\n", [3]),
        ],
    )
    def test_reads(self, put, text, expected):
        column = read_column(put(text), "a")
        assert column.dtype == np.float64
        assert column.tolist() == expected

    def test_header_is_optional(self, put):
        path = put("1,x\n2,y\n")
        for column in ("1", 1, np.int64(1)):
            assert read_column(path, column, header=False).tolist() == [1, 2]

    @pytest.mark.parametrize("delimiter", [";", "\t", " "])
    def test_delimiters(self, put, delimiter):
        path = put(f"a{delimiter}b\n1{delimiter}2\n3{delimiter}4\n\n")
        assert read_column(path, "b", delimiter=delimiter).tolist() == [2, 4]
        assert "no column 'b'" in refusal(path, "b")

    @pytest.mark.parametrize("delimiter", ["", ",,", "1", "e", "\n", '"'])
    def test_impossible_delimiters(self, put, delimiter):
        assert "delimiter" in refusal(put("a\n1\n"), delimiter=delimiter)

    @pytest.mark.parametrize(
        "cell",
        [
            "x", "-nan", "-Infinity", "1_000", "0x10", "1e", "e5", ".", "--1", "1 2", "1.2.3",
            "１２", "1\u00a0", "true", "1\x0c", "3.5;1", "1\0", "1'000", "1/2", "50%",
            "$5", "1d", "1+1",
        ],
    )  # fmt: skip
    def test_what_is_not_a_number(self, put, cell):
        said = refusal(put(f"b,a\nx,1\ny,{cell}\nz,3\n"))
        assert "row 2 has a value in column 'a', not a finite decimal number" in said

    @given(st.text(alphabet=st.sampled_from('0123456789+-.eE \t_xnaif١\n\r",\u00a0'), max_size=8))
    def test_the_look_at_a_block_is_as_strict_as_the_pattern(self, cell):
        """The conversion accepts a cell exactly if the pattern does, after its blanks."""
        number = bool(NUMBER.fullmatch(cell.strip(" \t")))
        assert (table_files._doubles([cell]) is not None) == number
        assert number or table_files._integers([cell]) is None

    @pytest.mark.parametrize(
        ("text", "exact"),
        [
            ("-0", 0), ("3.0", 3), ("+20e-1", 2), ("1e3", 1000), (" 007 ", 7),
            (str(2**53 + 1), 2**53 + 1), (str(2**64), 2**64), (f"-{2**70}.0", -(2**70)),
            (f"0.{'9' * 30}", None), ("1e1000", None), ("1e999999999", None), ("1.5", None),
            ("1e-999999999", None), ("9" * 5000, None), ("1e99999999999999999999", None),
        ],
    )  # fmt: skip
    def test_integers_are_exact(self, put, text, exact):
        path = put(f"a\n1\n{text}\n")
        if exact is None:
            assert "row 2 has a value" in refusal(path, integers=True)
            return
        found = read_column(path, "a", integers=True)
        assert found.tolist() == [1, exact]
        assert found.dtype == (np.int64 if abs(exact) < 2**63 else object)

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("a\n1\n1e999\n", "row 2 has a value in column 'a', not a finite"),
            ("a,b\n1,1\n,2\n", "row 2 has no value in column 'a'"),
            ("a,b\n1,1\n  ,2\n", "row 2 has no value"),
            ('a\n1\n""\n', "row 2 has no value"),
            ("a\n1\n\n3\n", "row 2 is blank"),
            ("a\n\n1\n", "row 1 is blank"),
            ("a,b\n1,2\n3\n", "row 2 has 1 cell, not 2"),
            ("a,b\n1,2,\n", "row 1 has 3 cells, not 2"),
            ('a,b\n1,"x\ny\nz"\nbad,2\n', "row 2 has a value"),
            ("a\n1\r2\n", "carriage return (CR) is inside a line"),  # of two users, or one
            ('a\n1\n"2\n3\n', "is not valid CSV"),
            ('b,a\n"x"y,1\n', "is not valid CSV"),
            ("a\n" + '"' + "1\n" * 100_000, "is not valid CSV"),
            ("", "is empty"),
            ("\ufeff", "is empty"),
            ("\na\n1\n", "is empty"),
            ("a,b\n\n", "has no rows"),
            ("a,b,a\n1,2,3\n", "2 columns named 'a'"),
            ("b,c\n1,2\n", "no column 'a'; it has 2 columns; show_values=True lists them"),
            ("b\n1\n", "no column 'a'; it has 1 column; show_values=True lists them"),
            (b"a\n1\n\xff\n", "is not UTF-8 text"),
            ("a\n1\n".encode("utf-16"), "is not UTF-8 text"),
            ("a\r1\r2\r", "lines must end with LF or CRLF"),
            ("b;a\n1,5;2\n", "; delimiter=';' if that separates cells"),
            ("b\ta\n1\t2\n", r"; delimiter='\t' if that separates cells"),
            (b"\x1f\x8bxx", "cannot read"),
            ("a\n" + "x" * 100_000 + "\n", "not a finite decimal number"),
        ],
    )
    def test_what_is_refused(self, put, text, what):
        assert what in refusal(put(text))

    def test_values_and_names_are_shown_if_asked(self, put):
        """By default they are not: test_data_in_errors."""
        assert "row 1 has 'x' in column 'a'" in refusal(put("a\nx\n"), show_values=True)
        many = put(",".join(f"c{i}" for i in range(100)) + "\n")
        assert "'c0', 'c1'" in refusal(many, show_values=True)

    @pytest.mark.parametrize(
        "form", ["plain", "quoted", "semicolons", "gzip", "folder", "CRLF", "BOM"]
    )
    def test_every_form_of_a_table_reads_the_same(self, put, form):
        """Each cell is the number that it plainly is, or refused with its row."""
        for cell, exact in [
            ("1", 1), ("1.0", 1), ("01", 1), (" 2 ", 2), ("-0.50", -0.5), ("1e3", 1000),
            ("+.5", 0.5), (f"{2**53 + 1}", 2.0**53), ("", None), (" ", None), ("NaN", None),
            ("NA", None), ("inf", ""), ("1_0", ""), ("0x1F", ""), ("１２", ""), ("TRUE", ""),
            ("1 000", ""), ("2020-01-01", ""),
        ]:  # fmt: skip
            rows = [["b", "a"], ["x", "7"], ["y", cell], ["z", "8"]]
            shown = '"{}"' if form == "quoted" else "{}"
            mark = ";" if form == "semicolons" else ","
            end = "\r\n" if form == "CRLF" else "\n"
            lines = [mark.join(map(shown.format, row)) + end for row in rows]
            content = ("\ufeff" * (form == "BOM") + "".join(lines)).encode()
            path = put(gzip.compress(content) if form == "gzip" else content)
            how = {"delimiter": ";"} if form == "semicolons" else {}
            path = path.parent if form == "folder" else path
            if isinstance(exact, str) or exact is None:
                what = "no value" if exact is None else "a value"
                assert f"row 2 has {what} in column 'a'" in refusal(path, **how)
            else:
                assert read_column(path, "a", **how).tolist() == [7, exact, 8]

    @pytest.mark.parametrize("word", ["", "NaN", "nan", "NA", "N/A", "null", "None", '""', '" "'])
    @pytest.mark.parametrize("integers", [False, True])
    def test_cells_without_a_value(self, put, word, integers):
        said = refusal(put(f"b,a\nx,1\ny,{word}\n"), integers=integers, show_values=True)
        assert said.endswith(f"row 2 has no value in column 'a'{'' if integers else ADVICE}")

    @pytest.mark.parametrize("text", ["3,5;2\n", "3;2\n", "3,5\t2\n"])
    def test_a_comma_is_no_delimiter_where_another_may_be(self, put, text):
        """The first cell of 3,5;2 is 3,5 for whoever wrote it, and not 3."""
        path = put(text)
        assert "if that separates cells" in refusal(path, 1, header=False)
        if text.startswith("3,"):
            assert read_column(path, 1, header=False, delimiter=",").tolist() == [3]

    @pytest.mark.parametrize("size", [131_072, 131_073, 2_000_000])
    def test_long_texts_in_other_columns(self, put, size):
        """The limit of the csv module is its users' again, whatever happens."""
        before = csv.field_size_limit(100)
        try:
            path = put(f"b,a\n{'x' * size},1\ny,2\n")
            blocks = open_column(path, "a").blocks()
            assert next(blocks).tolist() == [1, 2]
            assert csv.field_size_limit() == 100
            assert "not valid CSV" in refusal(put(f'b,a\n"{"x" * size},1\n'))
            assert csv.field_size_limit() == 100
        finally:
            csv.field_size_limit(before)

    def test_cells_have_some_limit(self, put, monkeypatch):
        """A quote that is not closed does not fill the memory."""
        monkeypatch.setattr(table_files, "_MAX_CELL_CHARACTERS", 1000)
        assert "is not valid CSV: field larger than" in refusal(put('a\n"' + "1\n" * 1000))

    def test_accents_are_composed_or_not(self, put):
        for one, other in [("é", "e\u0301"), ("e\u0301", "é"), ("é", "é")]:
            assert read_column(put(f"{one},b\n1,2\n"), other).tolist() == [1]
        assert "2 columns named" in refusal(put("é,e\u0301\n1,2\n"), "é")

    @pytest.mark.parametrize("offset", [-1, 0, 1])
    @pytest.mark.parametrize("bad", ["x", "", "1,2"])
    def test_positions_do_not_depend_on_blocks(self, put, monkeypatch, offset, bad):
        monkeypatch.setattr(table_files, "_CSV_ROWS_PER_BLOCK", 64)
        row = 128 + offset
        lines = ["1"] * (row + 100)
        lines[row - 1] = bad
        path = put("a\n" + "\n".join(lines) + "\n")
        assert f"row {row} " in refusal(path)
        blank = put("a\n" + "1\n" * row + "\n" * 200, "u.csv")
        assert read_column(blank, "a").size == row
        assert f"row {row + 1} is blank" in refusal(put(blank.read_text() + "1\n", "u.csv"))
        monkeypatch.setattr(
            table_files, "_CSV_CELLS_PER_BLOCK", 50
        )  # of wide rows, fewer at a time
        assert f"row {row} " in refusal(path)

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
            assert str(error).isprintable()  # noqa: PT017
        else:
            assert column.size
            assert np.isfinite(column).all()

    def test_texts_are_not_empty(self, put):
        path = put("a,b\nx,1\n ,2\n")
        with pytest.raises(ValueError, match="row 2 has no value in column 'a'"):
            list(open_column(path, "a", texts=True).blocks())

    @pytest.mark.slow
    def test_compressed_by_gzip(self, put):
        """Whatever its name, and with progress in bytes of the file; damaged, it is refused."""
        packed = gzip.compress(b"a\n" + b"".join(b"%d\n" % i for i in range(40_000)))
        done = []
        blocks = open_column(put(packed), "a").blocks(lambda *one: done.append(one))
        values = np.concatenate(list(blocks))
        assert values.tolist() == list(range(40_000))
        assert done == sorted(done)
        assert done[-1] == (len(packed), len(packed))
        assert read_column(put(gzip.compress(b"a\n1\n") + gzip.compress(b"2\n")), "a").size == 2
        flipped = packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]  # of the checksum
        for bad in (packed[:5], packed[:2000], packed[:-4], flipped, packed + b"77"):
            said = refusal(put(bad))
            assert said.endswith("t.csv': damaged or incomplete gzip data")

    def test_arguments(self, put):
        path, headless = put("a\n1\n"), put("1,2\n", "u.csv")
        for error, match, of in [
            (TypeError, "column must be a name", partial(read_column, path, 1)),
            (TypeError, "column", partial(read_column, headless, 1.0, header=False)),
            (ValueError, "column", partial(read_column, headless, 0, header=False)),
            (ValueError, "no column 3; it has 2", partial(read_column, headless, 3, header=False)),
            (TypeError, "header", partial(read_column, path, "a", header=0)),
        ]:  # fmt: skip
            with pytest.raises(error, match=match):
                of()
        for column in ("age", "0", "-1", "1.0", "", "1_0"):
            with pytest.raises((TypeError, ValueError), match="column must be"):
                read_column(headless, column, header=False)

    def test_the_census_file(self, adult):
        ages = read_column(adult, 1, header=False)
        assert (ages.size, ages.sum(), ages.min(), ages.max()) == (32561, 1256257, 17, 90)


def same(found, expected):
    """Whether arrays are equal, and their NaN at the same places."""
    return found.tolist() == pytest.approx(expected, nan_ok=True, rel=0, abs=0)


class TestMissing:
    """Missing values are read as NaN on request; everything else is refused as before."""

    @pytest.mark.parametrize("cell", ["", " ", '""', "NaN", "NA", "n/a", "null", "None"])
    def test_as_programs_write_them(self, put, cell):
        path = put(f"b,a\nx,1\ny,{cell}\nz,3\n")
        assert same(read_column(path, "a", gaps=True), [1, math.nan, 3])
        assert refusal(path).endswith(f"row 2 has no value in column 'a'{ADVICE}")

    @pytest.mark.parametrize(
        ("na", "cell", "gone"),
        [
            (["-"], "-", True), (["-"], " - ", True), (["-"], "--", None), ([], "-", None),
            (["Unknown"], "UNKNOWN", True), (["-999"], "-999", True), (["-999"], "-999.0", True),
            (["-999"], "-9.99e2", True), (["-999"], "999", False), (["0"], "0.0", True),
            (["."], ".", True), (["é"], "e\u0301", True),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("gaps", [False, True])
    def test_as_a_reader_names_them(self, put, na, cell, gone, gaps):
        path = put(f"a\n1\n{cell}\n3\n")
        if gone is None:
            assert "row 2 has a value in column 'a', not a" in refusal(path, na=na, gaps=gaps)
        elif gone and not gaps:
            assert refusal(path, na=na).endswith(f"row 2 has no value in column 'a'{ADVICE}")
        else:
            expected = [1, math.nan if gone else float(cell), 3]
            assert same(read_column(path, "a", na=na, gaps=gaps), expected)

    def test_the_first_row_that_is_refused_is_named(self, put):
        path = put('a\n1\n""\nx\n""\n')
        assert "row 2 has no value" in refusal(path)
        assert "row 3 has a value" in refusal(path, gaps=True)

    def test_texts(self, put):
        path = put("a,b\nx,1\n ,2\n-,3\nNA,4\n")
        column = read_column(path, "a", texts=True, gaps=True, na=["-"])
        assert column.tolist() == ["x", "", "", "NA"]
        said = refusal(put("a,b\nx,1\n-,2\n"), texts=True, na=["-"])
        assert said.endswith(f"row 2 has no value in column 'a'{ADVICE}")

    def test_parquet(self, pa, store):
        for kind in (pa.float32(), pa.float64(), pa.int16(), pa.uint64(), pa.decimal128(9, 2)):
            path = store([1, None, 7], kind)
            assert same(read_column(path, "a", gaps=True), [1, math.nan, 7])
            assert same(read_column(path, "a", gaps=True, na=["7", "x"]), [1, math.nan, math.nan])
            assert "row 2 has no value" in refusal(path, na=["7"])
            assert "row 2 has no value" in refusal(store([1, 7], kind), na=["7"])
        assert "row 2 has no value" in refusal(store([1, 7], pa.uint8()), na=["7"], integers=True)
        assert np.isnan(read_column(store([None], pa.null()), "a", gaps=True)).all()
        assert "row 2 has a value in column 'a', not a finite" in refusal(
            store([math.nan, math.inf]), gaps=True
        )
        words = read_column(store(["x", None, "-"]), "a", texts=True, gaps=True, na=["-"])
        assert words.tolist() == ["x", "", ""]

    def test_integers_of_any_size_have_no_gaps(self, put):
        assert refusal(put("a\n1\n"), integers=True, gaps=True).startswith("gaps must be False")


class TestNotation:
    """Numbers as people write them, of which none is read in two ways."""

    @pytest.mark.parametrize(
        ("cell", "thousands", "decimal", "exact"),
        [
            ("1,234", ",", ".", 1234), ("1,234,567.5", ",", ".", 1234567.5),
            ("-1,234", ",", ".", -1234),
            ("1234", ",", ".", 1234), (" 12,345 ", ",", ".", 12345), ("1,234e2", ",", ".", 123400),
            ("12,34", ",", ".", None), ("1,2345", ",", ".", None), (",123", ",", ".", None),
            ("0,123", ",", ".", None), ("1,,234", ",", ".", None), ("1234,567", ",", ".", None),
            ("1.234,5", ".", ",", 1234.5), ("1.234", ".", ",", 1234), ("1.23", ".", ",", None),
            ("3,5", None, ",", 3.5), (",5", None, ",", 0.5), ("5,", None, ",", 5),
            (",", None, ",", None), (" , ", None, ",", None),
            ("3.5", None, ",", None), ("1,2,3", None, ",", None), ("1 234", " ", ".", 1234),
            ("1\u202f234", "\u202f", ".", 1234), ("1'234", "'", ".", 1234),
            ("1 23", " ", ".", None),
            ("1e3", None, ",", 1000), ("1_000", ",", ".", None), ("", ",", ".", math.nan),
            ("n/a", ",", ".", math.nan), ("-", ",", ".", math.nan), ("-9", ",", ".", math.nan),
        ],
    )  # fmt: skip
    def test_numbers(self, put, cell, thousands, decimal, exact):
        path = put(f'b;a\nx;"7"\ny;"{cell}"\n')
        given = {"delimiter": ";", "thousands": thousands, "decimal": decimal, "na": ["-", "-9"]}
        if exact is None:
            assert "row 2 has a value in column 'a', not a" in refusal(path, gaps=True, **given)
            return
        assert same(read_column(path, "a", gaps=True, **given), [7, exact])
        if isinstance(exact, int):
            assert read_column(path, "a", integers=True, **given).tolist() == [7, exact]

    @given(st.text(alphabet=st.sampled_from("0123456789+-.,eE ;x"), max_size=9))
    def test_what_is_read_has_groups_of_three(self, cell):
        """Without its separators it is the same decimal number, or it is refused."""
        notation = table_files.Notation(thousands=",")
        found = table_files._csv_values(notation, Cells("a"), [cell])
        parts = (
            cell.strip(" \t").lstrip("+-").partition(".")[0].lower().partition("e")[0].split(",")
        )
        grouped = len(parts) > 1 and parts[0][:1] not in ("", "0") and len(parts[0]) < 4
        grouped = grouped and {len(part) for part in parts[1:]} == {3}
        plain = table_files._doubles([cell.replace(",", "")])
        if found is not None:
            assert found.tolist() == plain.tolist()
        assert (found is not None) == (plain is not None and ("," not in cell or grouped))

    def test_what_helps_is_said(self, put):
        said = refusal(put('a\n"1,234"\n'))
        assert "; thousands=',' if commas separate thousands; decimal=',' if they" in said
        assert "decimal=','" not in refusal(put('a\n"1,2,3"\n'), decimal=",")

    def test_arguments(self, put, store):
        path = put("a\n1\n")
        for wrong, said in (
            ({"thousands": ".", "decimal": "."}, "thousands must not be the decimal point"),
            ({"thousands": "1"}, "thousands must be one character"),
            ({"decimal": ";"}, "decimal must be one of"),
        ):
            assert said in refusal(path, **wrong)
        for option in ("thousands", "decimal"):
            said = refusal(store([1.0]), **{option: ","})
            assert said.startswith(f"{option} must be left out for")


class TestSeveralColumns:
    """They are read together: values of one row stay in one row, or nothing is read."""

    COLUMNS = (Cells("a"), Cells("b", texts=True), Cells("c", texts=True))

    def joined(self, path, columns=COLUMNS, **options):
        blocks = list(open_columns(path, columns, gaps=True, **options).row_blocks())
        return [np.concatenate(column).tolist() for column in zip(*blocks, strict=True)]

    def test_rows_stay_together(self, put, monkeypatch):
        monkeypatch.setattr(table_files, "_CSV_ROWS_PER_BLOCK", 7)
        rows = [(f"{i % 5 and i}", f"u{i}", "" if i % 3 else f"v{i}") for i in range(1, 100)]
        rows = [("", *row[1:]) if row[0] == "0" else row for row in rows]
        for part in range(3):
            text = "".join(f"{b},{c},{a}\n" for a, b, c in rows[part * 33 : part * 33 + 33])
            put("b,c,a\n" + text, f"p{part}.csv")
        folder = put("b,c,a\n", "p3.csv").parent
        a, b, c = self.joined(folder)
        numbers = [float(row[0] or "nan") for row in rows]
        assert (same(np.array(a), numbers), b, c) == (
            True, [row[1] for row in rows], [row[2] for row in rows],
        )  # fmt: skip
        headless = put("1,x,y\n2,z,\n", "u/u.csv")
        columns = (Cells("1"), Cells(2, texts=True), Cells(1))
        assert self.joined(headless, columns, header=False) == [[1, 2], ["x", "z"], [1, 2]]

    def test_a_refused_row_is_that_of_its_column(self, put):
        def no(texts, _before):
            raise InvalidRow(1, "which is refused")

        path = put("b,a,c\nu,1,v\nw,2,x\n")
        columns = (Cells("a"), Cells("b", texts=True, looks=(no,)))
        with pytest.raises(ValueError, match="row 2 has a value in column 'b', which is refused"):
            self.joined(path, columns)
        for text, said in (
            ("b,a,c\nu,1,v\nw,x,x\n", "row 2 has a value in column 'a', not"),
            ("b,a\nu,1\n", "no column 'c'"),
            ("b,a,c\nu,1,v\nw,2\n", "row 2 has 2 cells, not 3"),
        ):
            with pytest.raises(ValueError, match=said):
                self.joined(put(text))
        with pytest.raises(ValueError, match="row 1 has no value in column 'b'"):
            list(open_columns(put("a,b,c\n1,,x\n"), self.COLUMNS).row_blocks())

    def test_columns_are_checked(self, put):
        path = put("1,x\n")
        with pytest.raises(ValueError, match=r"columns\[1\] must be a number counted from 1"):
            self.joined(path, (Cells("1"), Cells("x")), header=False)
        with pytest.raises(ValueError, match="no column 3; it has 2"):
            self.joined(path, (Cells("1"), Cells("3")), header=False)

    def test_parquet(self, pa, tmp_path):
        from pyarrow import parquet

        table = pa.table({"c": ["x", None, "z"], "a": [1, None, 3], "b": ["u", "v", ""]})
        parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2)
        a, b, c = self.joined(tmp_path / "t.parquet")
        assert same(np.array(a), [1, math.nan, 3])
        assert (b, c) == (["u", "v", ""], ["x", "", "z"])
        with pytest.raises(ValueError, match="column 'c' holds string, not numbers"):
            self.joined(tmp_path / "t.parquet", (Cells("a"), Cells("c")))


class TestParquet:
    def test_reads_every_kind_of_number(self, pa, store):
        for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(10, 2)):
            values = [Decimal(v) for v in (1, 2, 3)] if pa.types.is_decimal(kind) else [1, 2, 3]
            column = read_column(store(values, kind), "a")
            assert column.dtype == np.float64
            assert column.tolist() == [1, 2, 3]
        assert read_column(store(np.float16([1.5]), pa.float16()), "a").tolist() == [1.5]
        repeated = store(pa.array([2, 5, 2]).dictionary_encode())
        assert read_column(repeated, "a").tolist() == [2, 5, 2]
        assert read_column(store([2**53 + 1]), "a").tolist() == [2.0**53]
        assert read_column(store([1.5], name="u.csv"), "a").tolist() == [1.5]  # by its first bytes

    @given(st.integers(-(10**20), 10**20), st.integers(0, 18))
    @pytest.mark.usefixtures("pa")
    def test_decimals_are_the_nearest_doubles(self, tmp_path_factory, digits, scale):
        """Arrow's own conversion is not, so that 0.3 was above a bound of 0.3."""
        import pyarrow as pa
        from pyarrow import parquet

        exact = Decimal(digits).scaleb(-scale, decimal.Context(prec=30))
        for kind in (pa.decimal128(38, 18), pa.decimal256(60, 18)):
            path = tmp_path_factory.mktemp("decimals") / "t.parquet"
            parquet.write_table(pa.table({"a": pa.array([exact], kind)}), path)
            assert read_column(path, "a").tolist() == [float(exact)]

    def test_texts(self, pa, store):
        """As a CSV file of the same values has them; floats of 32 bits as the equal double."""
        of = partial(open_column, column="a", texts=True)
        for values, kind, texts in [
            ([1, 0], pa.int8(), ["1", "0"]),
            ([2**64 - 1], pa.uint64(), [str(2**64 - 1)]),
            ([1.0, 0.1], pa.float64(), ["1.0", "0.1"]),
            ([1.0, 0.1], pa.float32(), ["1.0", "0.10000000149011612"]),
            (np.float16([0.1]), pa.float16(), ["0.0999755859375"]),
            ([Decimal("1.50")], pa.decimal128(5, 2), ["1.50"]),
            ([True], pa.bool_(), ["True"]),
            ([date(2020, 1, 2)], pa.date32(), ["2020-01-02"]),
            ([" é "], pa.large_string(), ["é"]),
            *[([" é "], view(), ["é"]) for view in [getattr(pa, "string_view", None)] if view],
        ]:
            assert next(of(store(values, kind)).blocks()).tolist() == texts
        repeated = store(pa.array(["x", "y"]).dictionary_encode())
        assert next(of(repeated).blocks()).tolist() == ["x", "y"]
        for values, kind in [
            (["x", None], None),
            ([1.5, None], None),
            ([1.5, math.nan], None),
            (["x", " "], None),
            ([1.5, math.nan], pa.float32()),
        ]:
            with pytest.raises(ValueError, match=rf"row 2 has no value in column 'a'{ADVICE}$"):
                list(of(store(values, kind)).blocks())
        for values in ([b"x"], [["x"]], [{"x": 1}], [datetime(2020, 1, 1)], [timedelta(1)]):
            with pytest.raises(ValueError, match=r"column 'a' holds .*, not strings or numbers$"):
                of(store(values))

    @pytest.mark.parametrize("row", [1, ROWS_PER_BLOCK, ROWS_PER_BLOCK + 1])
    def test_missing_and_infinite(self, store, row):
        for bad, what in ((None, "no value"), (np.inf, "a value"), (np.nan, "no value")):
            values = [1.0] * (ROWS_PER_BLOCK + 10)
            values[row - 1] = bad
            assert f"row {row} has {what} in column 'a'" in refusal(store(values))

    def test_integers_are_exact(self, pa, store):
        of = partial(read_column, column="a", integers=True)
        assert of(store([2**53 + 1, -5])).tolist() == [2**53 + 1, -5]
        assert of(store(pa.array([2**64 - 1, 3], pa.uint64()))).tolist() == [2**64 - 1, 3]
        assert of(store([2.0**70, -3.0])).tolist() == [2**70, -3]
        assert of(store([Decimal(10**25), Decimal("3.00")])).tolist() == [10**25, 3]
        for bad in (1.5, math.inf):
            assert "row 2 has a value in column 'a', not an" in refusal(
                store([1, bad]), integers=True
            )
        for bad in (None, math.nan):
            assert "row 2 has no value" in refusal(store([1, bad]), integers=True)

    def test_what_is_refused(self, pa, store, put):
        for values in ([True], ["x"], [date(2020, 1, 1)], [[1]], [{"x": 1}]):
            assert "not numbers" in refusal(store(values))
        for how in ({}, {"integers": True}, {"texts": True}):
            advice = "" if "integers" in how else ADVICE
            assert refusal(store([None]), **how).endswith(
                f"row 1 has no value in column 'a'{advice}"
            )
        assert "'b', 'a'" in refusal(store([1]), "c")
        assert "header must be left out for" in refusal(store([1]), 1, header=False)
        assert "delimiter must be left out" in refusal(store([1]), delimiter=";")
        assert "has no rows" in refusal(store([], pa.int64()))
        for broken in (b"a\n1\n", b"", b"PAR1" + b"x" * 100):
            assert "not a readable Parquet file" in refusal(put(broken, "u.parquet"))
        ends = pa.array([0, 3], pa.int32()).buffers()[1]
        latin = pa.StringArray.from_buffers(1, ends, pa.py_buffer(b"77\xff"))
        later = pa.array([77_000_000], pa.int32()).cast(pa.date32())
        for values in (latin, pa.DictionaryArray.from_arrays(pa.array([0]), latin), later):
            said = refusal(store(values), texts=True)
            assert "not a readable Parquet file (" in said
            assert "77" not in said.partition("t.parquet")[2]

    def test_columns_of_one_name_and_with_dots(self, pa, tmp_path):
        from pyarrow import parquet

        path = tmp_path / "t.parquet"
        parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
        assert "2 columns named 'a'" in refusal(path)
        parquet.write_table(pa.table([pa.array([1])], names=[" a "]), path)
        assert [read_column(path, name).tolist() for name in ("a", " a ", "a ")] == [[1]] * 3
        parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a.b", "a"]), path)
        assert [read_column(path, name).tolist() for name in ("a.b", "a")] == [[1], [2]]
        for structs in ([{"b": 1.5}], [{"b": {"c": 1}}]):
            both = {"a": pa.array(structs), "a.b": pa.array([20]), "e\u0301": pa.array([3])}
            parquet.write_table(pa.table(both), path)
            assert read_column(path, "a.b").tolist() == [20]
            assert read_column(path, "é").tolist() == [3]
            assert "holds struct" in refusal(path, "a")

    def test_damaged(self, store, put):
        """It is refused, or what was changed is not this column: pages have checksums."""
        content = store(list(range(10_000)), write_page_checksum=True).read_bytes()
        assert "not a readable Parquet file" in refusal(put(content[:-100], "u.parquet"))
        for start in range(0, len(content) - 100, len(content) // 20):
            changed = content[:start] + b"\xff" * 50 + content[start + 50 :]
            try:
                column = read_column(put(changed, "v.parquet"), "a")
            except ValueError as error:
                assert str(error).isprintable()  # noqa: PT017
            else:
                assert np.array_equal(column, np.arange(10_000))

    @pytest.mark.parametrize(("rows", "size"), [(1, 1), (7, 3), (6, 3)])
    @pytest.mark.parametrize("run", [1, 4, 100])
    def test_row_groups(self, store, monkeypatch, rows, size, run):
        monkeypatch.setattr(table_files, "ROWS_PER_PART", run)
        column = open_column(store(list(range(rows)), row_group_size=size), "a")
        assert column.rows == rows
        parts = [np.concatenate(list(part.blocks())) for part in column.parts]
        assert [part.size for part in parts] == [part.rows for part in column.parts]
        assert [part[0] for part in parts] == [part.first for part in column.parts]
        assert np.concatenate(parts).tolist() == list(range(rows))

    def test_fewer_rows_than_when_it_was_opened(self, store):
        column = open_column(store([1, 2, 3]), "a")
        store([1, 2])
        with pytest.raises(ValueError, match="was changed"):
            list(column.blocks())

    @pytest.mark.slow
    def test_memory_is_bounded(self, pa, store):
        """One row group of 8 MB, of which never more than a few blocks of 1 MB are in memory."""
        values = np.random.default_rng(1).random(10**6)
        column = open_column(store(values, row_group_size=10**6), "a")
        next(column.blocks())  # what is imported stays
        before, most = pa.total_allocated_bytes(), 0
        tracemalloc.start()
        for block in column.blocks():
            assert block.size <= ROWS_PER_BLOCK
            most = max(most, pa.total_allocated_bytes() - before)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert max(peak, most) < 6 * 2**20

    def test_without_pyarrow(self, store, monkeypatch):
        path = store([1])
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ImportError, match="pyarrow"):
            read_column(path, "a")


class TestFolders:
    def test_files_in_the_order_of_their_names(self, put):
        put("a\n3\n", "b.csv")
        put("x,a\n0,2\n", "a/z.csv")
        put("a\n1\n", "a/b=1/c.csv")
        folder = put("a\n4\n", "c.CSV").parent
        assert read_column(folder, "a").tolist() == [1, 2, 3, 4]
        assert len(open_column(folder, "a").parts) == 4

    def test_what_is_ignored(self, put):
        for name in (".hidden.csv", "_SUCCESS", "_old/a.csv", "a/.a.csv.crc"):
            put("not a table", name)
        folder = put("", ".empty").parent
        assert "is a folder without files" in refusal(folder)
        put("a\n1\n")
        assert read_column(folder, "a").tolist() == [1]

    def test_every_file_must_be_such_a_table(self, put, store):
        folder = put("a\n1\n", "1.csv").parent
        for second, what in [
            ("b\n1\n", "2.csv' has no column 'a'"),
            ("a\n1\nx\n", "2.csv': row 2 has a value"),
            ("", "2.csv' is empty"),
        ]:
            put(second, "2.csv")
            assert what in refusal(folder)
        put("a\n", "2.csv")
        assert read_column(folder, "a").tolist() == [1]
        put("a\n", "1.csv")
        assert "has no rows" in refusal(folder)
        put("1,2\n", "1.csv")
        put("1,2,3\n", "2.csv")
        assert "have 2 and 3 columns" in refusal(folder, 1, header=False)
        store([1.5], name="p/1.parquet")
        pq = store([2.5], name="p/2.pq").parent
        assert read_column(pq, "a").tolist() == [1.5, 2.5]
        store([1, None], name="p/2.pq")
        assert "2.pq': row 2 has no value in column 'a'" in refusal(pq)

    @pytest.mark.parametrize(
        "copy", ["a.csv~", "a.csv.bak", "a.txt", "README", "a.parquet", "deeper/a.csv.old"]
    )
    def test_copies_under_other_names(self, put, copy):
        put("a\n1\n", "a.csv")
        put("a\n1\n", copy)
        assert "have different suffixes" in refusal(put("a\n1\n", "a.csv").parent)

    def test_links_that_count_twice(self, put):
        folder = put("a\n1\n", "a.csv").parent
        for link, to in (("b.csv", folder / "a.csv"), ("loop", folder), ("c.csv", "hard")):
            if to == "hard":
                (folder / link).hardlink_to(folder / "a.csv")
            else:
                (folder / link).symlink_to(to)
            assert "would count twice" in refusal(folder)
            (folder / link).unlink()
        (folder / "gone.csv").symlink_to(folder / "nowhere")
        assert "gone.csv': no such file" in refusal(folder)

    @pytest.mark.parametrize(
        "name", ["_delta_log/0.json", ".hoodie/x", "metadata/v1.metadata.json"]
    )
    def test_tables_that_keep_deleted_rows(self, put, tmp_path, name):
        """The whole table, a partition or a file of it, also by a link from elsewhere."""
        path = put("a\n1\n", "year=2024/part=1/1.csv")
        link = tmp_path / "link.csv"
        link.symlink_to(path)
        inside = [path, path.parent, path.parents[1], path.parents[2], link]
        for one in inside:
            assert read_column(one, "a").tolist() == [1]
        put("x", name)
        for one in inside:
            assert "/t' is a" in (said := refusal(one))
            assert "rows that were deleted since" in said

    def test_a_folder_of_metadata_may_be_anyones(self, put):
        path = put("a\n1\n")
        put("x", "metadata/README.json")
        assert read_column(path, "a").tolist() == [1]

    @given(
        st.lists(st.sampled_from(["1", " 2.5", '"3"', "", "x", "1e9"]), max_size=12),
        st.sets(st.integers(0, 12)),
    )
    def test_cutting_a_file_changes_nothing(self, tmp_path_factory, cells, cuts):
        """But for where blank lines are: at the end of a file they are no rows."""
        folder = tmp_path_factory.mktemp("cut")
        whole, pieces = folder / "whole.csv", folder / "pieces"
        pieces.mkdir()
        whole.write_text("b,a\n" + "".join(f"y,{cell}\n" for cell in cells))
        ends = [0, *sorted(cut for cut in cuts if cut < len(cells)), len(cells)]
        for number, (start, stop) in enumerate(pairwise(ends)):
            text = "b,a\n" + "".join(f"y,{cell}\n" for cell in cells[start:stop])
            (pieces / f"{number:02}.csv").write_text(text)
        try:
            expected = read_column(whole, "a").tolist()
        except ValueError:
            with pytest.raises(ValueError):
                read_column(pieces, "a")
        else:
            calls = []
            found = open_column(pieces, "a").blocks(lambda *call: calls.append(call))
            assert np.concatenate(list(found)).tolist() == expected
            assert calls == sorted(calls)
            size = sum(path.stat().st_size for path in pieces.iterdir())
            assert calls[-1] == (size, size)


class TestParts:
    def test_a_part_is_read_elsewhere(self, put, store):
        for path in (put("a\n1\n2\n"), store([1, 2])):
            column = pickle.loads(pickle.dumps(open_column(path, "a")))
            assert np.concatenate(list(column.parts[0].blocks())).tolist() == [1, 2]

    @pytest.mark.parametrize("text", ["a\n1\n2\n3\n", "a\n1\n"])
    def test_a_file_of_another_length_is_refused(self, put, text):
        """Here, or where another machine has another copy."""
        path = put("a\n1\n2\n")
        part = pickle.loads(pickle.dumps(open_column(path, "a").parts[0]))
        path.write_text(text)
        with pytest.raises(ValueError, match=r"\.csv' was changed while it was being read"):
            list(part.blocks())

    def test_a_file_that_grows_while_it_is_read(self, put, monkeypatch):
        monkeypatch.setattr(table_files, "_CSV_ROWS_PER_BLOCK", 64)
        path = put("a\n" + "1\n" * 200)
        blocks = open_column(path, "a").blocks()
        next(blocks)
        with path.open("a") as file:
            file.write("2\n")
        with pytest.raises(ValueError, match="was changed"):
            list(blocks)

    @needs_pipes
    def test_a_pipe_is_read_once_and_here(self, tmp_path):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        column = open_column(pipe, "a")
        with pytest.raises(TypeError, match="no other process can read"):
            pickle.dumps(column)
        writer = threading.Thread(target=pipe.write_bytes, args=(b"a\n1\n2\n",))
        writer.start()
        assert [block.tolist() for block in column.blocks(pytest.fail)] == [[1, 2]]
        writer.join()

    @needs_pipes
    def test_a_pipe_is_no_file_of_a_folder(self, tmp_path):
        (tmp_path / "a.csv").write_text("a\n1\n")
        os.mkfifo(tmp_path / "b.csv")
        with pytest.raises(ValueError, match="is not a file"):
            open_column(tmp_path, "a")

    @pytest.mark.slow
    @pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="there is no /dev/stdin here")
    @pytest.mark.parametrize("kind", ["pipe", "file"])
    def test_standard_input(self, put, kind):
        """A file that is redirected is one that others can read, too."""
        path = put("a\n1\n2\n")
        program = (
            "from ikos.data.tables import open_column\n"
            "column = open_column('/dev/stdin', 'a')\n"
            "print(column.parts[0].stored, [block.tolist() for block in column.blocks()])"
        )
        given = {"input": path.read_bytes()} if kind == "pipe" else {"stdin": path.open("rb")}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, **given)
        assert done.stdout.decode().strip() == f"{kind == 'file'} [[1.0, 2.0]]"
        if kind == "file":
            given["stdin"].close()

    def test_looks_see_every_row_and_may_refuse_one(self, put, store):
        def look(values, before):
            found.append((before, values.size))
            if (values > 5).any():
                raise InvalidRow(int(np.argmax(values > 5)), "too large")
            return values + 1

        found = []
        seen = open_column(store(list(range(5)), row_group_size=2), "a").seen(look).seen(look)
        assert seen.rows == 5
        assert np.concatenate(list(seen.blocks())).tolist() == [2, 3, 4, 5, 6]
        assert sum(size for _, size in found) == 10
        assert found[0][0] == 0
        path = put("b,a\n" + "x,1\n" * 20_000 + "y,9\n")
        with pytest.raises(ValueError, match=r"t\.csv': row 20001 has a value in column 'a', too"):
            list(open_column(path, "a").seen(look).blocks())
        shown = open_column(put("9\n"), 1, header=False, show_values=True).seen(look)
        with pytest.raises(ValueError, match="row 1 has 9 in column 1, too large"):
            list(shown.blocks())


def test_files_that_cannot_be_read(tmp_path, put):
    assert "no such file" in refusal(tmp_path / "nothing.csv")
    assert refusal("a\0b") == r"path must hold no null character, got 'a\x00b'"
    assert "\\n" in refusal(tmp_path / "two\nlines")
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        path = put("a\n1\n")
        path.chmod(0)
        assert "permission denied" in refusal(path)
        assert "permission denied" in refusal(path.parent)
