"""Files and queries have the rows of the same data in memory; errors name them."""

from __future__ import annotations

import tracemalloc
from time import process_time

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from hornbeam import DataError, DMatrix, read
from hornbeam.data.sources import batches, text_files
from hornbeam.data.sources.dispatch import open_source

N = 1000
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"])
FRAME.loc[::7, "b"] = np.nan
FRAME["city"] = RNG.choice(["Rome", "Oslo", "Bern"], N)
FRAME.loc[::11, "city"] = None
FRAME["i"] = np.arange(N)
FRAME["late"] = RNG.random(N) < 0.5
FRAME["y"] = RNG.normal(size=N)
ROWS = np.column_stack(
    [
        FRAME["a"],
        FRAME["b"],
        FRAME["city"].map({"Bern": 0, "Oslo": 1, "Rome": 2}),
        FRAME["i"],
        FRAME["late"],
    ]
)


@pytest.fixture(params=[64, batches.BATCH_ROWS], ids=["batches", "one batch"])
def size(request, monkeypatch):
    """Batches of few rows, or one for all of them."""
    monkeypatch.setattr(batches, "BATCH_ROWS", request.param)
    monkeypatch.setattr(text_files, "BLOCK", request.param * 64)
    return request.param


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_parquet(path):
    FRAME.to_parquet(path / "d.parquet", row_group_size=300)
    return "d.parquet"


def write_folder(path):
    (path / "parts").mkdir()
    FRAME[:300].to_parquet(path / "parts" / "0.parquet")
    FRAME[300:].to_parquet(path / "parts" / "1.parquet")
    (path / "parts" / "_SUCCESS").touch()
    return path / "parts"


def write_glob(path):
    write_folder(path)
    return "parts/*.parquet"


def write_csv(path):
    FRAME.to_csv(path / "d.csv", index=False)
    return "d.csv"


def write_csv_with_options(path):
    FRAME.to_csv(path / "d.txt", index=False, sep=";")
    return f"{path}/d.txt?format=csv&delimiter=;&label_column=y"


def write_compressed_csv(path):
    FRAME.to_csv(path / "d.csv.gz", index=False)
    return "d.csv.gz"


def write_tsv(path):
    FRAME.to_csv(path / "d.tsv", index=False, sep="\t")
    return "d.tsv?label_column=5"


def write_feather(path):
    pyarrow.feather.write_feather(FRAME, path / "d.feather")
    return path / "d.feather"


def write_ipc(path):
    table = pa.Table.from_pandas(FRAME)
    with pa.ipc.new_file(path / "d.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=300)
    return "d.arrow"


def write_ipc_stream(path):
    table = pa.Table.from_pandas(FRAME)
    with pa.ipc.new_stream(path / "d.arrows", table.schema) as file:
        file.write_table(table, max_chunksize=300)
    return "d.arrows"


def write_database(path):
    connection = duckdb.connect(path / "d.duckdb")
    connection.execute("CREATE TABLE flights AS SELECT * FROM FRAME")
    return read("SELECT * FROM flights ORDER BY i -- all", connection=connection)


WRITERS = [
    write_parquet,
    write_folder,
    write_glob,
    write_csv,
    write_csv_with_options,
    write_compressed_csv,
    write_tsv,
    write_feather,
    write_ipc,
    write_ipc_stream,
    write_database,
]


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_has_the_rows_that_were_written(write, folder, size):
    data = write(folder)
    field_columns = {} if "label_column" in str(data) else {"label": "y"}
    table = open_source(data, field_columns=field_columns)
    assert table.names == ["a", "b", "city", "i", "late"]
    assert table.types == ["float", "float", "c", "int", "i"]
    assert table.categories.of(2).tolist() == ["Bern", "Oslo", "Rome"]
    np.testing.assert_array_equal(table.info["label"], FRAME["y"])
    np.testing.assert_array_equal(table.rows(0, N), ROWS)
    np.testing.assert_array_equal(np.stack(table.columns(1, 5), 1), ROWS[:, 1:])
    chosen = [3, 0]
    parts = [part.rows(0, part.n_rows) for part in table.batches(chosen)]
    np.testing.assert_array_equal(np.concatenate(parts), ROWS[:, chosen])
    pieces = (write_folder, write_glob, write_ipc, write_ipc_stream)
    assert table.is_stream == (size == 64 or write in pieces)


@pytest.mark.parametrize("write", [write_parquet, write_csv, write_ipc, write_database])
def test_only_used_columns_are_read(write, folder, size):
    source = read(write(folder), columns=["b", "y"])
    assert source.column_names == ["b", "y"]
    table = open_source(source, field_columns={"label": "y"})
    assert table.names == ["b"]
    np.testing.assert_array_equal(table.column(0), ROWS[:, 1])


@pytest.mark.parametrize("write", WRITERS)
def test_sources_without_rows_have_columns(write, folder, monkeypatch):
    if write in (write_folder, write_glob):
        pytest.skip("two files")
    monkeypatch.setitem(globals(), "FRAME", FRAME[:0])
    table = open_source(write(folder))
    assert table.n_rows == 0
    assert table.names[0] == "a"
    assert table.rows(0, 0).shape == (0, table.n_features)


def test_columns_of_a_file_can_be_renamed(folder, size):
    source = read(write_parquet(folder), columns=["a", "b", "y"])
    table = open_source(source, names=["u", "v"], field_columns={"label": "y"})
    assert table.names == ["u", "v"]
    np.testing.assert_array_equal(table.column(1), ROWS[:, 1])


@pytest.mark.parametrize("query_id", [None, np.repeat([1, 2, 3, 4], N // 4)])
def test_libsvm(query_id, folder):
    cells = sp.random_array((N, 5), density=0.3, rng=RNG, format="csr")
    cells.data = np.ceil(cells.data * 8) / 8
    labels = np.rint(FRAME["y"] * 8) / 8
    with open("d.svm", "wb") as file:
        dump_svmlight_file(cells, labels, file, zero_based=True, query_id=query_id)
    for uri in ("d.svm", "d.svm?format=libsvm", "d.svm?n_features=7"):
        table = open_source(uri)
        assert not table.is_stream
        assert table.n_features == (7 if "n_features" in uri else 5)
        np.testing.assert_array_equal(table.info["label"], labels)
        if query_id is None:
            assert "qid" not in table.info
        else:
            np.testing.assert_array_equal(table.info["qid"], query_id)
        dense = cells.toarray()
        found = table.rows(0, N)[:, :5]
        np.testing.assert_array_equal(found, np.where(dense == 0, np.nan, dense))


@pytest.mark.parametrize(("largest", "n_features"), [(200_000, ""), (300_000, 400_000)])
def test_a_wide_libsvm_file_takes_little(largest, n_features, folder):
    (folder / "d.svm").write_text(f"1 0:1 5:2\n0 1:1 {largest}:3\n")
    begin = process_time()
    tracemalloc.start()
    try:
        data = DMatrix(f"d.svm?n_features={n_features}" if n_features else "d.svm")
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()
    assert process_time() - begin < 5  # a tenth of a second, where nothing is traced
    assert data.num_col() == (n_features or largest + 1)
    assert data.num_nonmissing() == 4


def test_a_dataset_of_files_with_partitions(folder, size):
    for year in (2020, 2021):
        (folder / "parted" / f"year={year}").mkdir(parents=True)
        FRAME[["a", "y"]].to_parquet(f"parted/year={year}/0.parquet")
    dataset = pyarrow.dataset.dataset("parted", partitioning="hive")
    table = open_source(dataset, field_columns={"label": "y"})
    assert table.names == ["a", "year"]
    np.testing.assert_array_equal(table.column(1), np.repeat([2020, 2021], N))
    np.testing.assert_array_equal(table.rows(N, N + 9)[:, 0], ROWS[:9, 0])


def test_a_csv_without_a_header(folder, size):
    np.savetxt("d.csv", FRAME[["y", "a", "i"]], delimiter=",")
    table = open_source("d.csv?format=csv&label_column=0&weight_column=2")
    assert table.names is None
    np.testing.assert_array_equal(table.info["label"], FRAME["y"])
    np.testing.assert_array_equal(table.info["weight"], FRAME["i"])
    np.testing.assert_array_equal(table.column(0), FRAME["a"])


@pytest.mark.parametrize(
    ("last", "types"),
    [
        ("1", ["int"]),
        ("1.5", ["float"]),
        ("x", ["c"]),
        ("", ["int"]),
        ("99999999999999999999", ["float"]),
    ],
)
def test_types_of_csv_columns_hold_for_all_rows(last, types, folder, size):
    values = ["7"] * N + [last]
    (folder / "d.csv").write_text("a,b\n" + "".join(f"{v},1\n" for v in values))
    table = open_source("d.csv", field_columns={"label": "b"})
    assert table.types == types
    assert table.n_rows == N + 1
    whole = pd.read_csv("d.csv")["a"]
    if types == ["c"]:
        assert table.categories.of(0).tolist() == ["7", "x"]
    else:
        np.testing.assert_array_equal(table.column(0), whole.astype(np.float64))


def test_a_csv_column_that_begins_with_missing_values(folder, size):
    lines = [f"{i},\n" for i in range(N)] + ["0,Rome\n"]
    (folder / "d.csv").write_text("a,city\n" + "".join(lines))
    table = open_source("d.csv")
    assert table.types == ["int", "c"]
    assert np.isnan(table.column(1)[:N]).all()


def test_quoted_null_values_are_strings(folder):
    (folder / "d.csv").write_text('country\nNA\n"NA"\nDE\n')
    table = open_source("d.csv")
    assert table.categories.of(0).tolist() == ["DE", "NA"]
    np.testing.assert_array_equal(table.column(0), [np.nan, 1, 0])


def test_a_query_runs_again_in_each_pass(folder):
    source = write_database(folder)
    first, second = open_source(source), open_source(source)
    np.testing.assert_array_equal(first.column(3), second.column(3))


def cut_short(name):
    whole = FRAME.to_parquet()
    with open(name, "wb") as file:
        file.write(whole[: len(whole) // 2])


def torn_inside(name):
    """A file with a valid footer and damaged rows."""
    whole = bytearray(FRAME.to_parquet(compression="gzip"))
    whole[4:2000] = bytes(1996)
    with open(name, "wb") as file:
        file.write(whole)


def text(content):
    def write(name):
        with open(name, "w") as file:
            file.write(content)

    return write


BAD_FILES = {
    "cut short": ("d.parquet", cut_short, ["cannot read d.parquet", "footer"]),
    "torn inside": ("d.parquet", torn_inside, ["cannot read d.parquet"]),
    "ragged": (
        "d.csv",
        text("a,b\n1,2\n3\n"),
        ["cannot read d.csv", "Row #3", "Expected 2 columns, got 1"],
    ),
    "empty csv": ("d.csv", text(""), ["cannot read d.csv", "empty"]),
    "csv of a control character": ("d.csv", text("\x1c"), ["d.csv", "empty"]),
    "csv with a long name": ("d.csv", text("x" * 200_000), ["first line of d.csv"]),
    "no ipc": ("d.arrow", text("hello"), ["cannot read d.arrow"]),
    "no libsvm": ("d.svm", text("1 x:y\n"), ["cannot read d.svm"]),
    "a libsvm index of 32 bits": (
        "d.svm",
        text("1 0:1\n0 2147483647:1\n"),
        ["d.svm has 2 entries", "feature 2147483647", "?n_features=2147483648"],
    ),
    "a libsvm index of 90 bits": (
        "d.svm",
        text(f"1 0:1\n0 {10**27}:1\n"),
        ["cannot read d.svm"],
    ),
    "unknown ending": ("d.xls", text("1"), ["d.xls: it must end in", "?format=csv"]),
    "date": (
        "d.csv",
        text("day\n2020-01-01\n"),
        ["batch 0 of d.csv", "'day'", "days"],
    ),
}


@pytest.mark.parametrize(("name", "write", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(name, write, words, folder):
    write(name)
    with pytest.raises(DataError) as error:
        open_source(name)
    for word in words:
        assert word in str(error.value), error.value


def test_a_ragged_row_far_down(folder, size):
    (folder / "d.csv").write_text("a,b\n" + "1,2\n" * 5000 + "1,2,3\n")
    with pytest.raises(DataError, match="Row #5002: Expected 2 columns, got 3"):
        open_source("d.csv")


BAD_PATHS = {
    "absent.csv": ["there is no file absent.csv"],
    "*.parquet": ["no file matches *.parquet"],
    "empty": ["the folder empty holds no files"],
    "mixed": ["different formats"],
    "parted": ["partitioned by a column", "year=2020", "partitioning='hive'"],
    "differing": ["batch 1 of differing (in differing/1.csv", "missing: 'b'"],
    "differing/?.csv?label_column=b": ["in differing/1.csv", "no column 'b' for label"],
    "d.csv?format=xml": ["no format 'xml'", "parquet, csv"],
    "d.csv?label=a": ["the option 'label'", "'label_column'"],
    "d.csv?label_column=z": ["d.csv has no column 'z'", "'a', 'b'"],
    "d.csv?label_column=5": ["d.csv has no column '5'"],
    "d.csv?label_column=a&label_column=b": ["gives label_column twice"],
    "d.csv?delimiter=::": ["one character"],
    "d.csv?format=libsvm&n_features=many": ["n_features must be a number"],
    "d.csv#cache": ["names a cache on disk", "ExtMemQuantileDMatrix"],
    "d.csv#": ["names no folder after #"],
}


@pytest.mark.parametrize(("path", "words"), BAD_PATHS.items(), ids=BAD_PATHS)
def test_bad_paths(path, words, folder):
    (folder / "d.csv").write_text("a,b\n1,2\n")
    for name in ("empty", "mixed", "differing"):
        (folder / name).mkdir()
    (folder / "parted" / "year=2020").mkdir(parents=True)
    (folder / "parted" / "year=2020" / "1.csv").write_text("a\n1\n")
    (folder / "mixed" / "1.csv").write_text("a\n1\n")
    (folder / "mixed" / "2.svm").write_text("1 0:1\n")
    (folder / "differing" / "0.csv").write_text("a,b\n1,2\n")
    (folder / "differing" / "1.csv").write_text("a\n1\n")
    with pytest.raises(DataError) as error:
        open_source(path).columns(0, 1)
    for word in words:
        assert word in str(error.value), error.value


def test_a_missing_column_raises(folder):
    for data in (write_parquet(folder), write_database(folder)):
        with pytest.raises(DataError, match="no column 'z' for weight; it has 'a', "):
            open_source(data, field_columns={"weight": "z"})
        with pytest.raises(DataError, match="no column 'z'; it has 'a', "):
            read(data, columns=["z"])
    with pytest.raises(DataError, match="no columns that could be chosen"):
        read([np.eye(2)], columns=["a"])


def test_text_labels_raise(folder):
    write_parquet(folder)
    with pytest.raises(DataError, match="label must be numbers"):
        open_source("d.parquet", field_columns={"label": "city"})


BAD_QUERIES = {
    "SELECT * FROM nowhere;": ["the query failed", "nowhere", "temporary tables"],
    "SELECT 1 +": ["the query failed", "yntax"],
    "CREATE TABLE t (a INTEGER)": ["must be one SELECT, but it is CREATE"],
    "SELECT 1; SELECT 2": ["must be one SELECT"],
    "": ["must be one SELECT, but it is nothing"],
    "SELECT CASE WHEN range = 999 THEN error('late') ELSE 1 END AS a "
    "FROM range(1000)": ["the query failed", "late"],
}


@pytest.mark.parametrize(("sql", "words"), BAD_QUERIES.items())
def test_bad_queries(sql, words, folder):
    with duckdb.connect("d.duckdb") as connection, pytest.raises(DataError) as error:
        open_source(read(sql, connection=connection))
    for word in words:
        assert word in str(error.value), error.value
    assert "\n" not in str(error.value)


def test_a_query_with_other_rows_in_each_pass_raises(folder, size):
    with duckdb.connect("d.duckdb") as connection:
        sql = "SELECT random() AS a, range AS b FROM range(1000)"
        table = open_source(read(sql, connection=connection))
        if not table.is_stream:  # kept from the first reading
            return
        with pytest.raises(DataError, match=r"row 0 differs .* ORDER BY"):
            table.column(0)


def test_a_file_that_changes_between_two_passes(folder, monkeypatch):
    monkeypatch.setattr(batches, "BATCH_ROWS", 64)
    write_parquet(folder)
    table = open_source("d.parquet", field_columns={"label": "y"})
    FRAME[:900].to_parquet("d.parquet")
    with pytest.raises(DataError, match="1000 rows in the first pass, and 900 now"):
        table.column(0)


@pytest.mark.parametrize(
    ("what", "connection", "words"),
    [
        (3, None, "cannot read this int"),
        (FRAME, None, "cannot read this pandas DataFrame in batches"),
        ("SELECT 1", object(), "must be one of DuckDB, not object"),
        (3, object(), "the text of a query, not int"),
    ],
)
def test_bad_reads(what, connection, words):
    with pytest.raises(DataError, match=words):
        read(what, connection=connection)


def test_a_name_may_have_a_line_separator_of_unicode(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a\u2028b,c\n1,2\n3,4\n", encoding="utf-8")
    assert read(path).column_names == ["a\u2028b", "c"]
