"""Columns in blocks and in parts: a folder is its files, one after the other, and nothing else."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import platform
import subprocess
import sys
import threading
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos import PrivateSum
from ikos.tables import csv, open_column, parquet, read_column
from ikos.tables.parts import ROWS, BadRow, Stamp
from ikos.testing import DeterministicRandom


def rewrite(path, content, later=10**9):
    """Put something else in its place, and say that this was so many nanoseconds later."""
    found = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + later))
    assert path.stat().st_size == found.st_size
    assert path.stat().st_ino == found.st_ino


def first_numbers(part):
    return next(part.blocks())[:2].tolist()


def refusal(path, column="a", **options):
    """Return the message of the refusal, after checking that it is one clean line."""
    with pytest.raises(ValueError) as caught:
        read_column(path, column, **options)
    message = str(caught.value)
    assert message.isprintable()
    return message


@pytest.fixture
def put(tmp_path):
    """Write a file of the folder ``t`` and return the folder."""

    def put(name, content):
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / "t"

    return put


@pytest.fixture
def store(tmp_path):
    """Write a Parquet file of the folder ``t`` and return the folder."""
    pa = pytest.importorskip("pyarrow", reason="needs the extra ikos[parquet]")
    pq = pytest.importorskip("pyarrow.parquet")

    def store(name, values, **options):
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"b": pa.array(values), "a": pa.array(values)}), path, **options)
        return tmp_path / "t"

    return store


class TestCsvFolders:
    def test_files_in_the_order_of_their_names(self, put):
        put("b.csv", "a\n3\n")
        put("a/z.csv", "x,a\n0,2\n")
        put("a/b=1/c.csv", "a\n1\n")
        folder = put("c.CSV", "a\n4\n")
        assert read_column(folder, "a").tolist() == [1, 2, 3, 4]
        assert len(open_column(folder, "a").parts) == 4

    def test_what_is_ignored(self, put):
        for name in (".hidden.csv", "_SUCCESS", "_old/a.csv", ".git/a.csv", "a/.a.csv.crc"):
            folder = put(name, "not a table")
        assert "is a folder without files" in refusal(folder)
        put("a.csv", "a\n1\n")
        assert read_column(folder, "a").tolist() == [1]

    def test_every_file_must_be_such_a_table(self, put):
        put("1.csv", "a\n1\n")
        folder = put("2.csv", "b\n1\n")
        message = refusal(folder)
        assert "2.csv' has no column 'a'" in message
        put("2.csv", "a\n1\nx\n")
        assert "2.csv': row 2 (line 3) has a value" in refusal(folder)
        put("2.csv", "")
        assert "2.csv' is empty" in refusal(folder)
        put("2.csv", "a\n")
        assert read_column(folder, "a").tolist() == [1]
        put("1.csv", "a\n")
        assert "has a header but no rows" in refusal(folder)

    def test_one_width_without_a_header(self, put):
        put("1.csv", "1,2\n")
        folder = put("2.csv", "1,2,3\n")
        assert "has 2 columns and" in refusal(folder, 1, header=False)
        put("2.csv", "3,4\n")
        assert read_column(folder, 1, header=False).tolist() == [1, 3]

    @pytest.mark.parametrize("copy", ["a.csv~", "a.csv.bak", "a.txt", "a", "deeper/a.csv.old"])
    def test_copies_under_other_names(self, put, copy):
        put("a.csv", "a\n1\n")
        assert "do not end alike" in refusal(put(copy, "a\n1\n"))

    def test_links_that_count_twice(self, put):
        folder = put("a.csv", "a\n1\n")
        (folder / "b.csv").symlink_to(folder / "a.csv")
        assert "would count twice" in refusal(folder)
        (folder / "b.csv").unlink()
        (folder / "loop").symlink_to(folder)
        assert "would count twice" in refusal(folder)
        (folder / "loop").unlink()
        (folder / "gone.csv").symlink_to(folder / "nowhere")
        assert "gone.csv': there is no such file" in refusal(folder)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
    def test_what_is_no_file(self, put):
        folder = put("a.csv", "a\n1\n")
        os.mkfifo(folder / "pipe")
        assert "is in a folder of tables and is no file" in refusal(folder)

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read")
    def test_unreadable(self, put):
        put("b/b.csv", "a\n1\n")
        folder = put("a.csv", "a\n1\n")
        (folder / "a.csv").chmod(0)
        assert "a.csv': permission denied" in refusal(folder)
        (folder / "a.csv").chmod(0o600)
        (folder / "b").chmod(0)
        assert "b': permission denied" in refusal(folder)

    @pytest.mark.parametrize("name", ["_delta_log/0.json", ".hoodie/x"])
    def test_tables_that_keep_deleted_rows(self, put, name):
        put("a.csv", "a\n1\n")
        assert "rows that were deleted since" in refusal(put(name, "x"))

    def test_progress_is_of_the_whole_folder(self, put):
        put("1.csv", "a\n" + "1\n" * 50_000)
        folder = put("2.csv", "a\n" + "1\n" * 50_000)
        calls = []
        read_column(folder, "a", progress=lambda *call: calls.append(call))
        assert calls == sorted(calls)
        assert calls[-1] == (200_004, 200_004)

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
            assert read_column(pieces, "a").tolist() == expected

    def test_wide_rows_and_long_lines(self, put, monkeypatch):
        folder = put("1.csv", ",".join(f"c{i}" for i in range(99)) + ",a\n" + "1," * 99 + "7\n")
        monkeypatch.setattr(csv, "CELLS", 50)
        assert read_column(folder, "a").tolist() == [7]
        monkeypatch.setattr(csv, "CHUNK", 4)
        monkeypatch.setattr(csv, "LONGEST_LINE", 100)
        assert "line 1 is longer than" in refusal(folder)


class TestParts:
    def test_a_part_is_read_elsewhere(self, put, store):
        folders = [put("a.csv", "a\n1\n2\n"), store("../p/a.parquet", [1, 2]).parent / "p"]
        for folder in folders:
            part = pickle.loads(pickle.dumps(open_column(folder, "a").parts[0]))
            assert np.concatenate(list(part.blocks())).tolist() == [1, 2]

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
    def test_a_pipe_is_not(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        column = open_column(tmp_path / "pipe", "a")
        with pytest.raises(TypeError, match="no other process can read"):
            pickle.dumps(column)

    def test_a_file_that_grew(self, put, store):
        folder = put("a.csv", "a\n1\n")
        column = open_column(folder, "a")
        put("a.csv", "a\n1\n2\n")
        with pytest.raises(ValueError, match=r"a\.csv' was changed"):
            list(column.blocks())

    def test_a_file_that_grows_while_it_is_read(self, put):
        folder = put("a.csv", "a\n" + "1\n" * (2 * ROWS))
        blocks = open_column(folder, "a").blocks()
        next(blocks)
        with (folder / "a.csv").open("a") as file:
            file.write("2\n")
        with pytest.raises(ValueError, match="was changed"):
            list(blocks)

    @pytest.mark.parametrize("pickled", [False, True])
    @pytest.mark.parametrize("later", [10**9, -(10**9), 1000])
    def test_as_many_bytes_and_rows(self, put, store, pickled, later):
        """Other numbers in the same place, with any other time of writing."""
        folders = [
            (put("a.csv", "a\n1\n2\n"), "a.csv", b"a\n1\n3\n"),
            (store("../p/a.parquet", [1.0, 2.0]).parent / "p", "a.parquet", None),
        ]
        other = (store("../o/a.parquet", [1.0, 3.0]).parent / "o" / "a.parquet").read_bytes()
        for folder, name, content in folders:
            column = open_column(folder, "a")
            column = pickle.loads(pickle.dumps(column)) if pickled else column
            rewrite(folder / name, content or other, later)
            with pytest.raises(ValueError, match="was changed"):
                list(column.blocks())
            with pytest.raises(ValueError, match="was changed"):
                list(column.seen(lambda values, *_: values).blocks())
            assert read_column(folder, "a").tolist() == [1, 3]

    def test_as_many_bytes_between_two_parts(self, store, monkeypatch):
        monkeypatch.setattr(parquet, "RUN", 2)
        folder = store("a.parquet", [1.0, 2.0, 3.0, 4.0], row_group_size=2)
        first, second = open_column(folder, "a").parts
        assert np.concatenate(list(first.blocks())).tolist() == [1, 2]
        other = store("../o/a.parquet", [2.0, 1.0, 3.0, 4.0], row_group_size=2).parent / "o"
        rewrite(folder / "a.parquet", (other / "a.parquet").read_bytes())
        with pytest.raises(ValueError, match="was changed"):
            list(second.blocks())

    def test_as_many_bytes_while_it_is_read(self, put):
        folder = put("a.csv", "a\n" + "1\n" * (2 * ROWS))
        blocks = open_column(folder, "a").blocks()
        next(blocks)
        rewrite(folder / "a.csv", b"a\n" + b"2\n" * (2 * ROWS))
        with pytest.raises(ValueError, match="was changed"):
            list(blocks)

    def test_as_many_bytes_in_another_process(self, put):
        folder = put("a.csv", "a\n1\n2\n")
        (part,) = open_column(folder, "a").parts
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(first_numbers, (part,)) == [1, 2]
            rewrite(folder / "a.csv", b"a\n1\n3\n")
            with pytest.raises(ValueError, match="was changed"):
                pool.apply(first_numbers, (part,))

    def test_another_file_of_the_same_time(self, put):
        """Put in its place under the same name: in the process that opened it, the inode tells."""
        folder = put("a.csv", "a\n1\n2\n")
        column = open_column(folder, "a")
        found = (folder / "a.csv").stat()
        put("../new.csv", "a\n1\n3\n")
        os.utime(folder.parent / "new.csv", ns=(found.st_atime_ns, found.st_mtime_ns))
        (folder.parent / "new.csv").replace(folder / "a.csv")
        with pytest.raises(ValueError, match="was changed"):
            list(column.blocks())

    def test_another_inode_elsewhere(self, put):
        """What other processes see under the same path may have numbers of its own."""
        folder = put("a.csv", "a\n1\n2\n")
        (part,) = open_column(folder, "a").parts
        moved = pickle.loads(pickle.dumps(part))
        assert moved == part
        assert part.stamp.inode == (folder / "a.csv").stat().st_ino
        assert moved.stamp.inode is None
        found = (folder / "a.csv").stat()
        (folder / "a.csv").rename(folder.parent / "old.csv")
        put("a.csv", "a\n1\n2\n")
        os.utime(folder / "a.csv", ns=(found.st_atime_ns, found.st_mtime_ns))
        assert np.concatenate(list(moved.blocks())).tolist() == [1, 2]
        with pytest.raises(ValueError, match="was changed"):
            list(part.blocks())

    def test_copies_on_other_machines(self, put, monkeypatch):
        """They have the times of copying, before the column is opened; what is later is no copy."""
        folder = put("a.csv", "a\n1\n2\n")
        os.utime(folder / "a.csv", ns=(0, 10**18))
        column = open_column(folder, "a")
        sent = pickle.dumps(column)
        monkeypatch.setattr(platform, "node", lambda: "another")
        moved = pickle.loads(sent)
        assert np.concatenate(list(moved.blocks())).tolist() == [1, 2]
        opened = moved.parts[0].stamp.opened
        for time, same in ((10**18, True), (2 * 10**17, True), (opened - 10**9, True)):
            os.utime(folder / "a.csv", ns=(0, time))
            assert [block.tolist() for block in moved.blocks()] == [[1, 2]] * same
        os.utime(folder / "a.csv", ns=(0, opened + 10**10))
        with pytest.raises(ValueError, match="was changed"):
            list(moved.blocks())
        put("a.csv", "a\n1\n22\n")
        os.utime(folder / "a.csv", ns=(0, 10**18))
        with pytest.raises(ValueError, match="was changed"):
            list(moved.blocks())

    @pytest.mark.parametrize("coarse", [10**9, 2 * 10**9])
    def test_what_changes_nothing(self, put, coarse):
        """Whole seconds, reading twice at once, other rights, more names, new access times."""
        folder = put("a.csv", "a\n1\n2\n")
        path = folder / "a.csv"
        time = path.stat().st_mtime_ns // coarse * coarse
        os.utime(path, ns=(time, time))
        columns = [open_column(path, "a") for _ in range(2)]
        both = zip(*(column.blocks() for column in columns), strict=True)
        assert [[block.tolist() for block in pair] for pair in both] == [[[1, 2]] * 2]
        path.chmod(0o400)
        os.utime(path, ns=(0, time))
        os.link(path, folder.parent / "link.csv")
        np.memmap(path, mode="r")[:].sum()
        assert np.concatenate(list(columns[0].blocks())).tolist() == [1, 2]

    @pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="there is no /dev/stdin here")
    @pytest.mark.parametrize("kind", ["pipe", "file"])
    def test_what_is_handed_over(self, put, kind):
        """A pipe is known by nothing; a file by itself, under whatever name it comes."""
        path = put("a.csv", "a\n1\n2\n") / "a.csv"
        program = (
            "from ikos.tables import open_column\n"
            "column = open_column('/dev/stdin', 'a')\n"
            "print(column.parts[0].stored, [block.tolist() for block in column.blocks()])"
        )
        run = [sys.executable, "-c", program]
        if kind == "pipe":
            done = subprocess.run(run, input=path.read_bytes(), capture_output=True, check=True)
        else:
            with path.open("rb") as file:
                done = subprocess.run(run, stdin=file, capture_output=True, check=True)
        assert done.stdout.decode().strip() == f"{kind == 'file'} [[1.0, 2.0]]"

    def test_other_row_groups_in_as_many_bytes(self, store):
        folder = store("a.parquet", [1, 2, 3, 4], row_group_size=2)
        column = open_column(folder, "a")
        (part,) = column.parts
        other = store("a.parquet", [1, 2, 3, 4, 5], row_group_size=2) / "a.parquet"
        grown = pickle.loads(pickle.dumps(part))
        object.__setattr__(grown, "size", other.stat().st_size)
        object.__setattr__(grown, "stamp", Stamp.of(other.stat()))
        with pytest.raises(ValueError, match="was changed"):
            list(grown.blocks())

    def test_seen(self, store):
        folder = store("a.parquet", list(range(5)), row_group_size=2)
        found = []

        def look(values, before):
            found.append((before, values.size))
            return values + 1

        seen = open_column(folder, "a").seen(look)
        assert seen.rows == 5
        assert np.concatenate(list(seen.blocks())).tolist() == [1, 2, 3, 4, 5]
        assert sum(size for _, size in found) == 5
        assert found[0][0] == 0

    @pytest.mark.parametrize(
        ("text", "header", "row", "line"),
        [
            ("b,a\nx,1\ny,9\n", True, 2, 3),
            ('b,a\n"x\ny",1\n"z\n\n",9\n', True, 2, 4),
            ("x,1\ny,9\n", False, 2, 2),
            ("b,a\n" + "x,1\n" * 20_000 + "y,9\n", True, 20_001, 20_002),
            ("b,a\n" + '"x\n",1\n' * 600 + "y,9\n\n", True, 601, 1202),
        ],
        ids=["first", "quoted", "no header", "far", "far and quoted"],
    )
    def test_rows_that_are_refused_have_lines(self, tmp_path, text, header, row, line):
        """The same as those of cells that are no numbers; a pipe is gone, and has none."""

        def look(values, before):
            if (values > 5).any():
                raise BadRow(int(np.argmax(values > 5)), "too large")
            return values

        path = tmp_path / "t.csv"
        column = "a" if header else 2
        path.write_text(text)
        seen = open_column(path, column, header=header).seen(look).seen(lambda values, *_: values)
        with pytest.raises(ValueError, match=rf"^'.*t\.csv': row {row} \(line {line}\) has a v"):
            list(seen.blocks())
        shown = open_column(path, column, header=header, show_values=True).seen(look)
        named = "'a'" if header else "2"
        with pytest.raises(ValueError, match=rf" has 9 in column {named}, too large$"):
            list(shown.blocks())
        path.write_text(text.replace("9", "z"))
        assert f"row {row} (line {line}) has a value" in refusal(path, column, header=header)
        if not hasattr(os, "mkfifo"):
            return
        os.mkfifo(tmp_path / "pipe")
        threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,), daemon=True).start()
        seen = open_column(tmp_path / "pipe", column, header=header).seen(look)
        with pytest.raises(ValueError, match=rf"pipe': row {row} has a value in .*, too large$"):
            list(seen.blocks())

    def test_rows_of_parquet_have_no_lines(self, store):
        def look(values, before):
            raise BadRow(0, "refused")

        seen = open_column(store("a.parquet", list(range(5))), "a").seen(look)
        with pytest.raises(ValueError, match=r"row 1 has a value in column 'a', refused$"):
            list(seen.blocks())


class TestParquetFolders:
    def test_file_folder_and_split_folder_are_the_same(self, put, store, monkeypatch):
        values = np.random.default_rng(0).integers(0, 101, 5000).astype(float)
        monkeypatch.setattr(parquet, "RUN", 700)
        whole = store("whole/a.parquet", values, row_group_size=300) / "whole"
        for number, some in enumerate(np.array_split(values, 4)):
            split = store(f"split/k={number}/a.parquet", some, row_group_size=1000) / "split"
            put(f"csv/{number}.csv", "a\n" + "".join(f"{value}\n" for value in some))
        assert len(open_column(whole, "a").parts) == 6
        protocol = PrivateSum(5000, 1, 1e-8, lower=0, upper=100)
        expected = protocol.run(values, DeterministicRandom(7)).estimate
        for path in (whole / "a.parquet", whole, split, split.parent / "csv"):
            column = open_column(path, "a")
            assert column.rows in {5000, None}
            assert np.array_equal(np.concatenate(list(column.blocks())), values)
            assert protocol.run(column.blocks(), DeterministicRandom(7)).estimate == expected

    @pytest.mark.parametrize(("rows", "size"), [(1, 1), (2, 1), (7, 3), (6, 3), (5, 10)])
    @pytest.mark.parametrize("run", [1, 3, 4, 100])
    def test_row_groups(self, store, monkeypatch, rows, size, run):
        monkeypatch.setattr(parquet, "RUN", run)
        column = open_column(store("a.parquet", list(range(rows)), row_group_size=size), "a")
        assert column.rows == rows
        parts = [np.concatenate(list(part.blocks())) for part in column.parts]
        assert [part.size for part in parts] == [part.rows for part in column.parts]
        assert [part[0] for part in parts] == [part.first for part in column.parts]
        assert np.concatenate(parts).tolist() == list(range(rows))

    def test_a_file_without_rows(self, store):
        store("1.parquet", np.zeros(0))
        folder = store("2.parquet", [1.0])
        assert read_column(folder, "a").tolist() == [1]
        (folder / "2.parquet").unlink()
        assert "columns but no rows" in refusal(folder)

    def test_the_second_file(self, store, monkeypatch):
        monkeypatch.setattr(parquet, "RUN", 2)
        store("1.parquet", [1, 2, 3])
        folder = store("2.parquet", [1, 2, 3, None, 5], row_group_size=2)
        assert "2.parquet': row 4 has no value in column 'a'" in refusal(folder)
        store("2.parquet", ["x"])
        assert "2.parquet': column 'a' holds 'string', not numbers" in refusal(folder)
        store("2.parquet", [1.5])
        assert read_column(folder, "a").tolist() == [1, 2, 3, 1.5]

    def test_kinds_are_not_mixed(self, put, store):
        store("1", [1])
        message = refusal(put("README", "a\n1\n"))
        assert "holds Parquet and other files" in message
        assert "README" in message
        (store("2.parquet", [1]) / "1").unlink()
        assert "do not end alike" in refusal(put("README", "a\n1\n"))

    def test_both_endings_of_parquet(self, store):
        store("1.parquet", [1.5])
        assert read_column(store("2.pq", [2.5]), "a").tolist() == [1.5, 2.5]

    def test_memory_is_bounded(self, store):
        """One row group of 8 MB, of which never more than a few blocks of 1 MB are in memory."""
        import pyarrow as pa

        values = np.random.default_rng(1).random(10**6)
        folder = store("a.parquet", values, row_group_size=10**6)
        column = open_column(folder, "a")
        list(column.parts[0].blocks())  # what is imported stays
        before = pa.total_allocated_bytes()
        most = 0
        tracemalloc.start()
        for block in column.blocks():
            assert block.size <= ROWS
            most = max(most, pa.total_allocated_bytes() - before)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 5 * 2**20
        assert most < 6 * 2**20
