"""Prediction of wide rows reads only the used columns, in bounded blocks."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam
from hornbeam.boosting import margins as tree_margins
from hornbeam.forest.layout import Layout
from hornbeam.kernels.team import lease

WIDE = 300


class Reader:
    """Rows that record which values are read."""

    def __init__(self, rows):
        self.n_rows, self.n_features = rows.shape
        self.dtype = rows.dtype
        self._rows = rows
        self.read = []

    def rows(self, start, stop, features=None):
        block = self._rows[start:stop]
        block = block if features is None else block[:, features]
        self.read.append(block.shape)
        return np.ascontiguousarray(block)


def trained(width):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, width)).astype(np.float32)
    rows[:, width // 2] = rng.integers(9, size=500)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    labels = np.nan_to_num(rows[:, -1] - rows[:, 3] + rows[:, width // 2] % 2)
    types = ["c" if f == width // 2 else "q" for f in range(width)]
    data = hornbeam.DMatrix(rows, labels, feature_types=types)
    return hornbeam.train({"max_depth": 3}, data, 3), rows, data


@pytest.mark.parametrize("width", [20, WIDE])
def test_margins_and_leaves_of_wide_rows(width, monkeypatch):
    booster, rows, data = trained(width)
    model = booster.model
    layout = Layout.of(model.trees, model.tree_output, np.float32, width)
    used = {int(f) for tree in model.trees for f in tree.feature[tree.left >= 0]}
    expected = booster.predict(data, output_margin=True)
    with lease(1) as team:
        for most in (tree_margins._BLOCK_BYTES, 4 * 100 * len(used)):
            monkeypatch.setattr(tree_margins, "_BLOCK_BYTES", most)
            reader = Reader(rows)
            margins = np.full((500, 1), model.base_score[0], np.float32)
            tree_margins.add_layout(team, reader, layout, margins)
            np.testing.assert_array_equal(margins[:, 0], expected)
            leaves = tree_margins.leaf_indices(team, reader, layout)
            np.testing.assert_array_equal(
                leaves, booster.predict(data, pred_leaf=True).reshape(500, -1)
            )
            columns = len(used) if width == WIDE else width
            assert {shape[1] for shape in reader.read} == {columns}
    # In the second round each block has at most 100 rows of the used columns.
    assert max(shape[0] for shape in reader.read) <= 100
    assert sum(shape[0] for shape in reader.read) == 2 * 500


def test_all_kinds_of_prediction_agree():
    booster, rows, data = trained(WIDE)
    expected = booster.predict(data)
    np.testing.assert_array_equal(booster.predict(hornbeam.DMatrix(rows)), expected)
    np.testing.assert_array_equal(booster.inplace_predict(rows), expected)
    report = {}
    hornbeam.train(
        {"max_depth": 3}, data, 3, evals=[(data, "a")], evals_result=report,
        verbose_eval=False,
    )  # fmt: skip
    error = np.sqrt(np.mean(np.square(expected - data.get_label())))
    assert report["a"]["rmse"][-1] == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f4", np.float16])
def test_the_memory_layout_of_arrays_does_not_matter(dtype):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 5)).astype(dtype)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    data = hornbeam.DMatrix(rows, np.nan_to_num(rows[:, 0]))
    booster = hornbeam.train({"max_depth": 3}, data, 5, verbose_eval=False)
    expected = booster.predict(data)
    read_only = rows.copy()
    read_only.flags.writeable = False
    wide = np.repeat(rows, 2, axis=1)[:, ::2]
    for array in (rows, np.asfortranarray(rows), read_only, wide, rows[::-1][::-1]):
        np.testing.assert_array_equal(booster.inplace_predict(array), expected)
    for row in (0, 7, 299):
        alone = booster.inplace_predict(rows[row : row + 1])
        np.testing.assert_array_equal(alone, expected[row : row + 1])
    marked = np.where(np.isnan(rows), -9, rows).astype(dtype)
    found = booster.inplace_predict(marked, missing=-9)
    np.testing.assert_array_equal(found, expected)
