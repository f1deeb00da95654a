"""Checksums that identify tables, and slices of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from hornbeam.data.align import align
from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.row_blocks import row_slices
from hornbeam.data.sources.dispatch import open_source
from hornbeam.errors import DataError

NAMES = pd.Categorical(["x", "y", "x", None, "z", "y"])
FRAME = pd.DataFrame(
    {
        "a": np.arange(6, dtype=np.float32),
        "b": [0.1, np.nan, 3, 4, 5, 6],
        "c": NAMES,
        "d": np.arange(6),
    }
)
ARRAY = FRAME[["a", "b", "d"]].to_numpy()


def stream(data, size, *, content):
    """Return the rows as a stream, with or without a checksum in the first pass."""
    parts = [data[i : i + size] for i in range(0, len(data), size)]
    return open_source(parts, content=content)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_checksums_do_not_depend_on_batches(size):
    first = stream(ARRAY, 6, content=True).content()
    assert stream(ARRAY, size, content=True).content() == first
    assert stream(ARRAY, size, content=False).content() == first
    assert as_table(ARRAY).content() == first


@pytest.mark.parametrize("table", [FRAME, ARRAY], ids=["frame", "array"])
def test_checksums_depend_on_every_value(table):
    before = as_table(table).content()
    for column in range(table.shape[1]):
        changed = table.copy()
        if isinstance(table, pd.DataFrame):
            changed.iloc[4, column] = "x" if column == 2 else 77
        else:
            changed[4, column] = 77
        assert as_table(changed).content() != before
        assert stream(changed, 4, content=True).content() != before


def test_checksums_depend_on_category_names():
    other = FRAME.assign(c=NAMES.rename_categories(["x", "y", "w"]))
    assert as_table(FRAME).content() != as_table(other).content()


@pytest.mark.parametrize("is_stream", [False, True])
def test_checksums_depend_on_selection_and_recoding(is_stream):
    table = as_table(FRAME)
    if is_stream:
        table = stream(FRAME, 4, content=True)
    turned = table.select([1, 0, 2, 3])
    fewer = FRAME.assign(c=NAMES.set_categories(["z", "y", "x"]))
    recoded = align(table, as_table(fewer).schema)
    contents = [each.content() for each in (table, turned, recoded)]
    assert len(set(contents)) == 3
    assert contents == [each.content() for each in (table, turned, recoded)]


CONTAINERS = {
    "frame": FRAME,
    "array": ARRAY,
    "columns": np.asfortranarray(ARRAY.astype(np.float32)),
    "sparse": sp.csr_matrix(np.nan_to_num(ARRAY)),
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("rows", [1, 4, 6, 100])
def test_row_slices_have_the_columns_of_the_table(name, rows):
    table = as_table(CONTAINERS[name])
    whole = table.columns(0, table.n_features)
    blocks = list(row_slices(table, rows))
    assert [first for first, _ in blocks] == list(range(0, 6, rows))
    for feature, column in enumerate(whole):
        parts = [block.column(feature) for _, block in blocks]
        assert {part.dtype for part in parts} == {column.dtype}
        np.testing.assert_array_equal(np.concatenate(parts), column)
    for first, block in blocks:
        some = block.take(np.array([0]))
        np.testing.assert_array_equal(some.rows(0, 1), table.rows(first, first + 1))


def test_a_table_without_rows_has_no_slices():
    assert list(row_slices(as_table(ARRAY[:0]), 3)) == []


def test_errors_of_a_slice_name_the_row_of_the_table():
    bad = ARRAY.copy()
    bad[4, 1] = np.inf
    with pytest.raises(DataError, match="column 1 holds inf in row 4"):
        for _, block in row_slices(as_table(bad), 3):
            block.columns(0, 3)
    coded = as_table(np.where(bad == np.inf, 0.5, 1.0), types=["c"] * 3)
    with pytest.raises(DataError, match=r"row 4 of column 1 holds 0\.5"):
        for _, block in row_slices(coded, 3):
            block.columns(0, 3)
