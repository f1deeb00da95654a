"""The same values give the same model, byte for byte, in whatever container."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

import hornbeam
from hornbeam import DMatrix, QuantileDMatrix

N_ROWS = 120
LABELS = np.random.default_rng(0).normal(size=N_ROWS)
WORDS = ["pear", "apple", "zoë", "fig", "nut", "plum"]
TYPES = {
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int8": pa.int8(),
    "int32": pa.int32(),
    "bool": pa.bool_(),
}
WORDS_OF_TYPES = {"bool": "i", "int8": "int", "int32": "int"}


class Stream:
    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@st.composite
def numbers(draw):
    """Draw a table of numbers with nulls, as an Arrow table."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    columns = {}
    for i in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(list(TYPES)))
        scale = draw(st.sampled_from([2, 100]))
        values = (rng.normal(size=N_ROWS) * scale).clip(-100, 100).astype(kind)
        null = rng.random(N_ROWS) < draw(st.sampled_from([0, 0.2]))
        columns[f"x{i}"] = pa.array(values, TYPES[kind], mask=null)
    return pa.table(columns)


@st.composite
def texts(draw):
    """Draw a column of words or null."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    words = np.array(WORDS, object)[rng.integers(0, len(WORDS), N_ROWS)]
    words[rng.random(N_ROWS) < draw(st.sampled_from([0, 0.2]))] = None
    return pa.array(words, pa.string())


def dictionary(words, levels):
    places = [
        None if word is None else levels.index(word) for word in words.to_pylist()
    ]
    return pa.DictionaryArray.from_arrays(pa.array(places), pa.array(levels))


def chunks(table):
    return pa.concat_tables([table.slice(0, 50), table.slice(50, 0), table.slice(50)])


def frames(table):
    """Return the Arrow table in every kind of frame that keeps its types."""
    arrow = table.to_pandas(types_mapper=pd.ArrowDtype)
    return {
        "arrow": table,
        "arrow chunks": chunks(table),
        "arrow stream": Stream(table),
        "polars": pl.DataFrame(table),
        "polars chunks": pl.from_arrow(chunks(table), rechunk=False),
        "polars stream": Stream(pl.DataFrame(table)),
        "polars lazy": pl.LazyFrame(table),
        "pandas arrow": arrow,
        "pandas": table.to_pandas(),
        "pandas nullable": arrow.convert_dtypes(dtype_backend="numpy_nullable"),
        "pandas objects": arrow.astype(object),
        # "batches": [table.slice(0, 70), table.slice(70)],
    }


def digest(data, types=None, matrix=DMatrix, names=None):
    own = {"max_bin": 16} if matrix is QuantileDMatrix else {}
    rows = matrix(
        data, LABELS, feature_types=types, feature_names=names, nthread=1, **own
    )
    params = {"max_depth": 3, "max_bin": 16, "min_child_weight": 0, "nthread": 1}
    return hornbeam.train(params, rows, 3, verbose_eval=False).digest()


@given(numbers(), st.sampled_from([DMatrix, QuantileDMatrix]))
@examples(6)
def test_numbers(table, matrix):
    names = table.column_names
    types = [
        WORDS_OF_TYPES.get(kind, "float")
        for kind in (str(field.type) for field in table.schema)
    ]
    dense = np.column_stack(
        [column.cast("double").to_numpy() for column in table.columns]
    )
    expected = digest(dense, types, names=names)
    rows, columns = np.nonzero(~np.isnan(dense))
    cells = scipy.sparse.coo_array(
        (dense[rows, columns], (rows, columns)), shape=dense.shape
    )
    arrays = {
        "fortran": np.asfortranarray(dense),
        "list": [[None if v != v else v for v in row] for row in dense.tolist()],
        "masked": np.ma.MaskedArray(np.nan_to_num(dense, nan=9), np.isnan(dense)),
        "objects": dense.astype(object),
        "csr": cells.tocsr(),
        "csc": cells.tocsc(),
        "coo": cells,
        "pandas sparse": pd.DataFrame(dense, columns=names).astype("Sparse"),
    }
    for container, data in {**frames(table), **arrays}.items():
        assert digest(data, types, matrix, names) == expected, container


@given(texts(), st.sampled_from([DMatrix, QuantileDMatrix]))
@examples(6)
def test_words(words, matrix):
    n = pa.array(LABELS.astype(np.float32).round())
    table = pa.table({"n": n, "k": words})
    expected = digest(table, None, matrix)
    categories = pl.DataFrame(table).with_columns(pl.col("k").cast(pl.Categorical))
    present = sorted(set(words.to_pylist()) - {None})
    halves = [
        dictionary(words.slice(0, 60), present[::-1]),
        dictionary(words.slice(60), present[1:] + present[:1]),
    ]
    others = {
        "polars categorical": categories,
        "polars categorical chunks": pl.concat(
            [categories[:9], categories[9:]], rechunk=False
        ),
        "arrow dictionaries": pa.table({"n": n, "k": pa.chunked_array(halves)}),
    }
    for container, data in {**frames(table), **others}.items():
        assert digest(data, None, matrix) == expected, container


@given(texts(), st.permutations(WORDS), st.sampled_from([DMatrix, QuantileDMatrix]))
@examples(6)
def test_declared_categories(words, levels, matrix):
    n = pa.array(LABELS.astype(np.float32).round())
    enum = pl.Series("k", words).cast(pl.Enum(levels))
    frame = pl.DataFrame({"n": n, "k": enum})
    arrow = pa.table({"n": n, "k": dictionary(words, levels)})
    expected = digest(frame, None, matrix)
    containers = {
        "polars lazy": frame.lazy(),
        "polars stream": Stream(frame),
        "arrow": arrow,
        "arrow chunks": chunks(arrow),
        "pandas": arrow.to_pandas(),
        "pandas by hand": pd.DataFrame(
            {"n": n.to_numpy(), "k": pd.Categorical(words.to_pylist(), levels)}
        ),
        # "batches": [arrow.slice(0, 33), arrow.slice(33)],
    }
    for container, data in containers.items():
        assert digest(data, None, matrix) == expected, container
