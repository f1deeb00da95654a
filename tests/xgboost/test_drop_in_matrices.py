"""Matrices compared with XGBoost: accepted data, and results of getters."""

from __future__ import annotations

import gc
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import scipy.sparse
from comparison import NAMES, X, Y, assert_close, both, ours, theirs, train

FRAME = pd.DataFrame(X, columns=NAMES)
KINDS = pd.DataFrame({"kind": pd.Categorical(["a", "b"] * 40), "size": Y})


def make(xgb, **beside):
    return xgb.DMatrix(X, Y, **beside)


GETTERS = {
    "label": lambda d: d.get_label(),
    "weight": lambda d: d.get_weight(),
    "base_margin": lambda d: d.get_base_margin(),
    "feature_weights": lambda d: d.get_float_info("feature_weights"),
    "label_upper_bound": lambda d: d.get_float_info("label_upper_bound"),
    "group": lambda d: d.get_group(),
    "group_ptr": lambda d: d.get_uint_info("group_ptr"),
}
BESIDE = {
    "nothing": {},
    "all": {
        "weight": Y,
        "base_margin": Y,
        "feature_weights": [1, 2, 3, 4],
        "label_lower_bound": Y,
        "label_upper_bound": Y + 1,
    },
    "margins": {"base_margin": np.stack([Y, -Y], axis=1)},
    "groups": {"group": [30, 50], "weight": [1.0, 2.0]},
    "ids": {"qid": [0] * 30 + [4] * 50},
}


@pytest.mark.parametrize("getter", GETTERS)
@pytest.mark.parametrize("beside", BESIDE)
def test_getters_return_the_same_types_and_values(beside, getter):
    assert_close(*both(lambda xgb: GETTERS[getter](make(xgb, **BESIDE[beside]))))


CONTAINERS = {
    "array": X,
    "float32": X.astype(np.float32),
    "integers": (np.nan_to_num(X) * 10).astype(np.uint8),
    "list": X[:3].tolist(),
    "pandas": FRAME,
    "numbered columns": pd.DataFrame(X),
    "mixed columns": pd.DataFrame(
        {"x": [1, 2], "y": [True, False], "z": pd.array([1, None], dtype="Int64")}
    ),
    "pandas column": pd.Series([1.0, 2.0], name="s"),
    "polars": polars.DataFrame({"a": [1, 2], "b": [3.0, 4.0]}),
    "arrow": pyarrow.table({"a": [1, 2], "b": [3.0, 4.0]}),
    "sparse rows": scipy.sparse.csr_matrix(np.nan_to_num(X)),
    "sparse columns": scipy.sparse.csc_matrix(np.nan_to_num(X)),
    "coordinates": scipy.sparse.coo_matrix(np.nan_to_num(X)),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_give_the_same_matrix(container):
    def run(xgb):
        data = xgb.DMatrix(CONTAINERS[container])
        rows = data.get_data()
        told = (
            data.num_row(),
            data.num_col(),
            data.num_nonmissing(),
            data.feature_names,
            data.feature_types,
            type(rows).__name__,
            rows.dtype,
        )
        return told, rows.toarray()

    (told, mine), (their_words, other) = both(run)
    assert told == their_words
    assert_close(mine, other)


def test_categories_need_enable_categorical():
    def run(xgb):
        with pytest.raises(ValueError, match="enable_categorical"):
            xgb.DMatrix(KINDS)
        with pytest.raises(ValueError, match="for data must be int, float, bool"):
            xgb.QuantileDMatrix(KINDS)
        coded = xgb.DMatrix(X.round(), feature_types=["c", "q", "q", "q"])
        data = xgb.DMatrix(KINDS, enable_categorical=True)
        names = data.get_categories(export_to_arrow=True).to_arrow()
        return (
            coded.feature_types,
            data.feature_types,
            [(name, a if a is None else a.to_pylist()) for name, a in names],
        )

    mine, other = both(run)
    assert mine == other


@pytest.mark.parametrize("kind", ["DMatrix", "QuantileDMatrix"])
def test_frames_of_the_same_data_give_the_same_bytes(kind):
    words = np.array(["oak", "elm", "fir"])[np.arange(80) * 7 % 3]
    frame = polars.DataFrame(
        {
            "single": X[:, 0].astype(np.float32),
            "double": X[:, 2],
            "gaps": polars.Series(X[:, 1]).fill_nan(None),
            "whole": np.arange(80) % 9,
            "yes": X[:, 3] > 0.5,
            "seen": polars.Series(words, dtype=polars.Categorical),
            "named": polars.Series(words, dtype=polars.Enum(["fir", "elm", "oak"])),
        }
    )

    def run(xgb):
        models, names = set(), []
        for same in (frame, frame.to_pandas(), frame.to_arrow()):
            data = getattr(xgb, kind)(same, Y, enable_categorical=True)
            booster = xgb.train({"max_depth": 4, "max_cat_to_onehot": 1}, data, 3)
            models.add(bytes(booster.save_raw("json")))
            arrays = booster.get_categories(export_to_arrow=True).to_arrow()
            names.append([None if a is None else a.to_pylist() for _, a in arrays])
        return len(models), names

    mine, other = both(run)
    assert mine == other
    assert mine[0] == 1


def test_feature_types_declare_numbers_of_a_frame_as_category_codes():
    frame = pd.DataFrame(X.round() + 1, columns=NAMES)

    def run(xgb):
        data = xgb.DMatrix(frame, Y, feature_types=["c", "q", "q", "q"])
        booster = xgb.train({"max_depth": 2}, data, 2)
        assert booster.feature_types == ["c", "q", "q", "q"]
        return booster.predict(data)

    assert_close(*both(run))


def test_predictions_accept_codes_that_training_rejects():
    codes = np.nan_to_num(X * 4).round()
    wrong = codes.copy()
    wrong[:4, 0] = -1, 1.5, 9, 2.0**31
    types = ["c"] * 4

    def run(xgb):
        data = xgb.DMatrix(codes, Y, feature_types=types)
        booster = xgb.train({"max_cat_to_onehot": 1}, data, 2)
        other = xgb.DMatrix(wrong, Y, feature_types=types)
        for method in ("hist", "approx"):
            with pytest.raises(ValueError, match="Invalid categorical value detected"):
                xgb.train({"tree_method": method}, other, 1)
        return booster.predict(other)

    # XGBoost's error for a fraction has other words.
    wrong[1, 0] = 1.0
    assert_close(*both(run))


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix, pd.DataFrame])
def test_matrices_without_rows(kind):
    def run(xgb):
        seen = []
        for made in (xgb.DMatrix, xgb.QuantileDMatrix):
            data = made(kind(np.empty((0, 3))), np.empty(0))
            rows = data.get_data()
            sizes = data.num_row(), data.num_col(), data.num_nonmissing()
            seen.append((*sizes, rows.shape, rows.dtype, rows.indptr.tolist()))
            seen.append((data.get_label().shape, data.feature_names))
        pointers, values = data.get_quantile_cut()
        return *seen, pointers.tolist(), values.shape

    mine, other = both(run)
    assert mine == other


def test_predictions_of_no_rows_are_of_one_dimension():
    kinds = [
        {},
        {"output_margin": True},
        {"strict_shape": True},
        {"pred_leaf": True},
        {"pred_contribs": True},
        {"pred_interactions": True},
    ]

    def run(xgb):
        data = xgb.DMatrix(X, np.arange(len(X)) % 3)
        params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 2}
        booster = xgb.train(params, data, 2)
        none = np.empty((0, X.shape[1]))
        data = xgb.DMatrix(none)
        with xgb.config_context(verbosity=0):  # XGBoost warns of no rows
            predictions = [booster.predict(data, **kind).shape for kind in kinds]
        model = xgb.XGBClassifier(n_estimators=2).fit(X, np.arange(len(X)) % 3)
        return [
            *predictions,
            booster.inplace_predict(none).shape,
            model.predict(none).shape,
            model.predict_proba(none).shape,
            model.apply(none).shape,
        ]

    mine, other = both(run)
    assert mine == other


@pytest.mark.parametrize("shape", [(4, 0), (0, 0), (1, 0)])
def test_matrices_without_columns(shape):
    def run(xgb):
        seen = []
        for kind in (np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix):
            data = xgb.DMatrix(kind(np.empty(shape)), np.empty(shape[0]))
            rows = data.get_data()
            sizes = data.num_row(), data.num_col(), data.num_nonmissing()
            seen.append((*sizes, rows.shape, rows.indptr.tolist()))
            seen.append(data.slice([]).num_row())
            with pytest.raises(ValueError, match="0 feature is supplied"):
                xgb.train({}, data, 1)
            with pytest.raises(ValueError, match=r"at least (1|one) column"):
                xgb.QuantileDMatrix(kind(np.empty(shape)))
        return seen

    mine, other = both(run)
    assert mine == other


def test_labels_of_a_row_without_columns():
    def run(xgb):
        return xgb.DMatrix(np.array([[]]), label=np.arange(4.0)[::2]).get_label()

    assert_close(*both(run))


def test_labels_may_be_numeric_strings():
    text = pd.Series([f"{value:.0f}" for value in Y], dtype="str")
    for labels in (text, text.astype("category")):
        mine, other = both(lambda xgb, y=labels: xgb.DMatrix(X, y).get_label())
        np.testing.assert_array_equal(mine, other)
    words = pd.Series(["a", "b"] * 40, dtype="str")
    for xgb in (ours, theirs):
        with pytest.raises(ValueError, match="'a'"):
            xgb.DMatrix(X, words)


def test_categories_to_arrow_needs_export_to_arrow():
    def run(xgb):
        numbers = xgb.DMatrix(X, Y)
        booster = xgb.train({}, numbers, 1)
        for source in (numbers, booster, xgb.DMatrix(KINDS, enable_categorical=True)):
            with pytest.raises(ValueError, match="`export_to_arrow` option"):
                source.get_categories().to_arrow()
        return [
            source.get_categories(export_to_arrow=True).to_arrow()
            for source in (numbers, booster)
        ]

    mine, other = both(run)
    assert mine == other


def test_numbers_are_category_codes_if_the_reference_has_categories():
    def run(xgb):
        column = pd.DataFrame({"kind": pd.Categorical(["r", "g", "b", "b"] * 20)})
        codes = column["kind"].cat.codes.to_numpy().reshape(-1, 1)
        data = xgb.QuantileDMatrix(column, Y, enable_categorical=True)
        booster = xgb.train({"max_depth": 2}, data, 3)
        like = xgb.QuantileDMatrix(codes, ref=data, feature_names=["kind"])
        same = booster.predict(
            xgb.QuantileDMatrix(column, ref=data, enable_categorical=True)
        )
        np.testing.assert_array_equal(booster.predict(like), same)
        return booster.predict(like, pred_contribs=True)

    assert_close(*both(run))


def test_feature_names_and_types_are_set_and_removed():
    def run(xgb):
        data = make(xgb)
        seen = [(data.feature_names, data.feature_types)]
        data.feature_names, data.feature_types = NAMES, list("qiqi")
        seen.append((data.feature_names, data.feature_types))
        seen.append(data.slice([0, 1]).feature_names)
        for names in (["x"], ["a", "b", "c", "c"], ["a[", "b", "c", "d"]):
            with pytest.raises(ValueError):
                data.feature_names = names
        data.feature_names = None
        return [*seen, (data.feature_names, data.feature_types)]

    mine, other = both(run)
    assert mine == other


def test_set_info_and_fields():
    def run(xgb):
        data = make(xgb)
        data.set_info(label=-Y, weight=Y, feature_names=NAMES)
        data.set_float_info("base_margin", Y)
        data.set_float_info_npy2d("label_upper_bound", Y)
        data.set_uint_info("group", [40, 40])
        return np.concatenate(
            [data.get_label(), data.get_weight(), data.get_base_margin()]
        )

    assert_close(*both(run))


def test_get_data_and_cuts_are_float32():
    def run(xgb):
        data = make(xgb, weight=Y)
        part = data.slice(np.array([5, 1, 7]))
        assert type(part) is xgb.DMatrix
        train_on = make(xgb)
        xgb.train({}, train_on, 1)
        pointers, cuts = train_on.get_quantile_cut()
        return part.get_weight(), pointers, cuts

    mine, other = both(run)
    for one, two in zip(mine, other, strict=True):
        assert_close(one, two)


@pytest.mark.parametrize("method", ["hist", "approx"])
def test_cuts_after_training(method):
    numbers = np.random.default_rng(0).normal(size=(300, 3))
    kinds = pd.DataFrame(numbers).assign(k=pd.Categorical(np.arange(300) % 32))
    kinds.iloc[::3, 1] = np.nan
    batch = {"label": numbers[:, 0], "weight": np.arange(300.0) + 1}

    def run(xgb):
        sizes = []
        for data in (numbers, kinds):
            matrix = xgb.DMatrix(data, enable_categorical=True, **batch)
            xgb.train({"tree_method": method, "max_bin": 16}, matrix, 2)
            pointers, values = matrix.get_quantile_cut()
            assert pointers.dtype == np.uint64 and pointers[-1] == values.size
            sizes.append(np.diff(pointers).tolist())
        return sizes

    mine, other = both(run)
    assert mine == other


def test_matrices_store_their_arguments(tmp_path):
    def run(xgb):
        data = make(xgb, missing=0.5, silent=True)
        data.save_binary(tmp_path / "saved")
        with pytest.raises(ValueError):
            pickle.dumps(data)
        again = xgb.DMatrix(tmp_path / "saved")
        return (
            data.missing,
            data.silent,
            data.data_split_mode(),
            again.num_row(),
            isinstance(xgb.QuantileDMatrix(X, Y), xgb.DMatrix),
            issubclass(xgb.ExtMemQuantileDMatrix, xgb.DMatrix),
            issubclass(xgb.ExtMemQuantileDMatrix, xgb.QuantileDMatrix),
        )

    mine, other = both(run)
    assert mine == other


class Rows:
    """Rows by the sequence protocol alone, of no library."""

    def __len__(self):
        return 80

    def __getitem__(self, row):
        return X[row]


class Nothing:
    """No data at all."""


@pytest.mark.parametrize(
    "data", [Rows(), scipy.sparse.lil_matrix(np.nan_to_num(X))], ids=["rows", "lil"]
)
def test_data_of_unknown_types_is_converted_with_a_warning(data):
    def run(xgb):
        with pytest.warns(UserWarning, match="trying to convert it to csr_matrix"):
            return xgb.DMatrix(data).get_data().toarray()

    assert_close(*both(run))
    for xgb in (ours, theirs):
        with (
            pytest.raises(TypeError, match="Not supported type for data"),
            pytest.warns(UserWarning, match="Unknown data type"),
        ):
            xgb.DMatrix(Nothing())
        with pytest.raises(TypeError):
            xgb.QuantileDMatrix(Rows())


def test_sparse_columns_of_pandas_give_a_warning():
    frame = FRAME.fillna(0.0).astype(pd.SparseDtype(float, 0.0))

    def run(xgb):
        words = "Sparse arrays from pandas are converted into dense"
        for kind in (xgb.DMatrix, xgb.QuantileDMatrix):
            with pytest.warns(UserWarning, match=words):
                data = kind(frame, Y)
        booster = xgb.train({"max_depth": 2}, data, 2)
        with pytest.warns(UserWarning, match=words):
            return booster.inplace_predict(frame)

    assert_close(*both(run))


def test_saved_bytes_depend_on_the_values_alone(tmp_path):
    entries = scipy.sparse.random(50, 30, 0.05, format="csr", random_state=0)
    entries.data = np.round(entries.data * 9) + 1
    single = X.astype(np.float32)

    def run(xgb):
        def saved(data, **options):
            xgb.DMatrix(data, **options).save_binary(tmp_path / "saved")
            return (tmp_path / "saved").read_bytes()

        kinds = [entries.astype(kind) for kind in ("f8", "f4", "i4", "i1")]
        same = {saved(kind) for kind in [*kinds, entries.tocsc()]}
        same.add(saved(entries.toarray(), missing=0))
        dense = {saved(single), saved(np.asfortranarray(single.astype(np.float64)))}
        return len(same), len(dense)

    assert both(run) == ((1, 1), (1, 1))
    data = ours.DMatrix(X)  # Hornbeam trains on float64, and saves it
    data.save_binary(tmp_path / "double")
    np.testing.assert_array_equal(ours.DMatrix(tmp_path / "double").rows(0, 80), X)


@pytest.mark.parametrize("text", ["?format=csv&label_column=0", "?format=libsvm"])
def test_text_files_need_a_format(tmp_path, text, recwarn):
    lines = "1,2,3\n4,5,6\n" if "csv" in text else "1 0:1 2:3\n0 1:2\n1 0:5 1:1\n"
    (tmp_path / "table.txt").write_text(lines)

    def run(xgb):
        data = xgb.DMatrix(f"{tmp_path / 'table.txt'}{text}")
        recwarn.clear()
        return np.concatenate([data.get_label(), data.get_data().toarray().ravel()])

    assert_close(*both(run))


def batches(xgb, cache_prefix=None):
    class Halves(xgb.DataIter):
        def __init__(self):
            self.at = 0
            super().__init__(cache_prefix=cache_prefix)

        def next(self, input_data):
            if self.at == 2:
                return False
            rows = slice(self.at * 40, self.at * 40 + 40)
            input_data(data=X[rows], label=Y[rows])
            self.at += 1
            return True

        def reset(self):
            self.at = 0

    return Halves()


@pytest.mark.parametrize("kind", ["DMatrix", "QuantileDMatrix"])
def test_batches_train_the_same_model(kind):
    def run(xgb):
        data = getattr(xgb, kind)(batches(xgb))
        return xgb.train({"max_depth": 3}, data, 2).predict(xgb.DMatrix(X))

    assert_close(*both(run))


def test_batches_without_a_cache_are_read_once():
    def run(xgb):
        given = []
        buffer = np.empty((40, 4))  # which each batch overwrites

        class Once(xgb.DataIter):
            def next(self, input_data):
                if len(given) == 2:
                    return False
                rows = slice(40 * len(given), 40 * len(given) + 40)
                buffer[:] = X[rows]
                given.append(rows)
                input_data(data=buffer, label=Y[rows])
                return True

            def reset(self):
                return

        data = xgb.DMatrix(Once())
        booster = xgb.train({"max_depth": 3}, data, 2, evals=[(data, "train")])
        xgb.train({"max_depth": 3, "max_bin": 8}, data, 1)
        booster.predict(data, pred_contribs=True)
        return booster.predict(data), data.get_label()

    for mine, other in zip(*both(run), strict=True):
        assert_close(mine, other)


def test_the_temporary_cache_is_removed_with_its_matrix(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = ours.ExtMemQuantileDMatrix(batches(ours), max_bin=32)
    (folder,) = Path(tmp_path).iterdir()
    assert folder.name.startswith("hornbeam-") and any(folder.rglob("*"))
    booster = ours.train({"max_bin": 32, "max_depth": 3}, data, 2)
    whole = ours.QuantileDMatrix(X, Y, max_bin=32)
    again = ours.train({"max_bin": 32, "max_depth": 3}, whole, 2)
    assert booster.digest() == again.digest()
    del data, booster
    gc.collect()
    assert list(Path(tmp_path).iterdir()) == []


def test_batches_with_a_cache_are_binned_again(tmp_path):
    def run(xgb):
        prefix = str(tmp_path / xgb.__name__)
        data = xgb.DMatrix(batches(xgb, prefix))
        models = []
        for max_bin, weights in ((8, Y + 1), (4, Y + 1), (8, Y + 1), (4, Y + 2)):
            data.set_weight(weights)
            params = {"max_bin": max_bin, "max_depth": 2}
            models.append(xgb.train(params, data, 2))
        return data, models

    data, models = run(ours)
    for model, (max_bin, weights) in zip(
        models, ((8, Y + 1), (4, Y + 1), (8, Y + 1), (4, Y + 2)), strict=True
    ):
        params = {"max_bin": max_bin, "max_depth": 2}
        whole = ours.train(params, ours.DMatrix(X, Y, weight=weights), 2)
        assert model.digest() == whole.digest()
    run(theirs)
    del data, models, model
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["hist", "approx"])
@pytest.mark.parametrize("kind", ["DMatrix", "ExtMemQuantileDMatrix"])
def test_matrices_share_a_cache_prefix(kind, method, tmp_path):
    frames = [KINDS, pd.get_dummies(KINDS, dtype=float)]
    frames[1].iloc[::3, 1] = np.nan

    def run(xgb):
        class Halves(xgb.DataIter):
            def next(self, input_data):
                for rows in self.left:
                    part = self.frame.iloc[rows]
                    input_data(data=part, label=Y[rows])
                    return True
                return False

            def reset(self):
                self.left = iter([slice(0, 40), slice(40, 80)])

        made = []
        for frame in frames:
            source = Halves(cache_prefix=str(tmp_path / xgb.__name__ / "cache"))
            source.frame = frame
            made.append(getattr(xgb, kind)(source, enable_categorical=True))
            xgb.train({"tree_method": method, "max_depth": 2}, made[-1], 1)
        models = [
            xgb.train({"tree_method": method, "max_depth": 2}, data, 2) for data in made
        ]
        return [model.predict(data) for model, data in zip(models, made, strict=True)]

    if kind != "DMatrix" and method == "approx":
        with pytest.raises(ValueError, match="Only the `hist`"):
            run(ours)
        return
    (tmp_path / "xgboost").mkdir()
    for mine, other in zip(*both(run), strict=True):
        assert_close(mine, other)
    gc.collect()
    assert list((tmp_path / "hornbeam.xgboost").iterdir()) == []


def test_batches_are_keyword_arguments_and_errors_are_raised():
    class Wrong(ours.DataIter):
        def next(self, input_data):
            return input_data(X, Y)

        def reset(self):
            return

    class Broken(Wrong):
        def next(self, input_data):
            raise RuntimeError("no more")

    with pytest.raises(TypeError, match="Keyword argument"):
        ours.QuantileDMatrix(Wrong())
    with pytest.raises(RuntimeError, match="no more"):
        ours.DMatrix(Broken())
    one = ours.data.SingleBatchInternalIter(data=X, label=Y)
    assert ours.QuantileDMatrix(one).num_row() == 80


def test_quantile_dmatrix_for_evaluation_needs_ref():
    def run(xgb):
        data = xgb.QuantileDMatrix(X, Y)
        with pytest.raises(ValueError, match="should be used as a reference"):
            xgb.train({}, data, 1, evals=[(xgb.QuantileDMatrix(X, Y), "v")])
        result = {}
        referring = xgb.QuantileDMatrix(X, Y, ref=data)
        evals = [(referring, "v"), (data, "t")]
        xgb.train({"max_depth": 2}, data, 2, evals=evals, evals_result=result)
        return np.array([result["v"]["rmse"], result["t"]["rmse"]])

    assert_close(*both(run))


def test_type_checks_of_data():
    frames = [FRAME, FRAME["a"], X, CONTAINERS["polars"], CONTAINERS["arrow"], [1]]
    sparse = [CONTAINERS[k] for k in ("sparse rows", "sparse columns", "coordinates")]
    dtypes = [
        np.dtype(float),
        pd.Int8Dtype(),
        pd.Float64Dtype(),
        pd.BooleanDtype(),
        pd.CategoricalDtype(),
        pd.SparseDtype(),
        pd.ArrowDtype(pyarrow.int8()),
        pd.ArrowDtype(pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
        pd.StringDtype(),
    ]

    def run(xgb):
        names = [name for name in dir(ours.data) if name.startswith("is_")]
        of_types = [name for name in names if name.endswith("dtype")]
        of_sparse = [name for name in names if "scipy" in name]
        return (
            [xgb.compat.is_dataframe(frame) for frame in frames],
            [[getattr(xgb.data, n)(s) for n in of_sparse] for s in [*sparse, X]],
            [[bool(getattr(xgb.data, n)(d)) for n in of_types] for d in dtypes],
            xgb.data.is_on_cuda(X),
            xgb.compat.lazy_isinstance(FRAME, "pandas", "DataFrame"),
            xgb.compat.concat([X, X]).shape,
            type(xgb.compat.concat([sparse[0], sparse[0]])),
            xgb.compat.concat([FRAME, FRAME]).shape,
            xgb.compat.py_str(b"a"),
            xgb.compat.is_pandas_available(),
        )

    mine, other = both(run)
    assert mine == other
    assert train(ours).num_features() == theirs.DMatrix(X).num_col()


FLAT = np.arange(160.0)


@pytest.mark.parametrize("values", [FLAT, FLAT.reshape(2, 80), FLAT.reshape(80, 2)])
@pytest.mark.parametrize("field", ["label", "base_margin"])
def test_flat_fields_of_several_columns_are_reshaped(field, values):
    def run(xgb):
        data = xgb.DMatrix(X, **{field: values})
        data.set_info(**{field: values})
        return data.get_float_info(field).reshape(80, 2)

    assert_close(*both(run))
    assert make(ours, base_margin=Y.reshape(1, -1)).get_base_margin().shape == (80,)


def test_group_weights_may_be_set_before_the_groups():
    def run(xgb):
        data = xgb.DMatrix(X, np.round(Y), weight=[1.0, 3.0])
        weights = data.get_weight()
        data.set_group([30, 50])
        booster = xgb.train({"objective": "rank:ndcg"}, data, 2)
        return np.concatenate([weights, data.get_weight(), booster.predict(data)])

    assert_close(*both(run))
    for xgb in (ours, theirs):
        data = make(xgb, weight=[1.0, 3.0])
        with pytest.raises(xgb.core.XGBoostError, match="Size of weights must equal"):
            xgb.train({}, data, 1)

    def refer(xgb):
        data = xgb.QuantileDMatrix(X, np.round(Y), group=[30, 50], weight=[1.0, 3.0])
        return xgb.QuantileDMatrix(X, weight=[1.0, 3.0], ref=data).get_weight()

    assert_close(*both(refer))
    data = make(ours, weight=[1.0, 3.0])
    with pytest.raises(ours.core.XGBoostError, match="one for each group"):
        data.slice([0, 1])
    data.set_weight(Y)
    assert ours.train({}, data, 1).num_boosted_rounds() == 1


def test_fields_are_read_by_either_getter():
    def run(xgb):
        data = make(xgb, weight=Y)
        with pytest.raises(ValueError, match="Unknown key:group_ptr"):
            data.set_uint_info("group_ptr", [0, 30, 80])
        data.set_uint_info("group", [30, 50])
        return (
            data.get_uint_info("label"),
            data.get_uint_info("weight"),
            data.get_uint_info("base_margin"),
            data.get_float_info("group_ptr"),
            data.get_uint_info("group_ptr"),
        )

    for mine, other in zip(*both(run), strict=True):
        assert_close(mine, other)


def test_sizes_of_groups_are_compared_with_the_rows_in_training():
    def run(xgb):
        data = xgb.DMatrix(X, np.round(Y))
        data.set_uint_info("group", np.array([12, 34, 56], np.uint32)[::2])
        with pytest.raises(ValueError, match="Invalid query group structure"):
            xgb.train({"objective": "rank:ndcg"}, data, 1)
        return data.get_uint_info("group_ptr")

    assert_close(*both(run))


def test_empty_arrays_remove_fields():
    def run(xgb):
        data = make(xgb, **BESIDE["all"])
        data.set_info(weight=[], base_margin=[], feature_weights=np.empty(0))
        return [len(getter(data)) for getter in GETTERS.values()]

    mine, other = both(run)
    assert mine == other


def test_get_categories_with_export_to_arrow():
    def run(xgb):
        data = xgb.DMatrix(KINDS, Y, enable_categorical=True)
        booster = xgb.train({}, data, 1)
        names = []
        for holder in (data, booster):
            with pytest.raises(ValueError, match="`export_to_arrow` option"):
                holder.get_categories().to_arrow()
            names += holder.get_categories(export_to_arrow=True).to_arrow()
            kinds = holder.get_categories()
            again = xgb.DMatrix(KINDS, feature_types=kinds, enable_categorical=True)
            assert again.feature_types == ["c", "float"]
        return [(name, None if v is None else v.to_pylist()) for name, v in names]

    mine, other = both(run)
    assert mine == other


@pytest.mark.parametrize("mode", ["1", "-1", "0"])
def test_indexing_mode_of_libsvm_files(mode, tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("1 1:0.5 3:2\n0 2:1.5\n")
    uri = f"{path}?format=libsvm&indexing_mode={mode}"

    def run(xgb):
        return xgb.DMatrix(uri).get_data().toarray()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_close(*both(run))


def test_weights_of_libsvm_files(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("# label:weight\n1:0.5 0:2 3:1\n\n0:2 1:4 # a note\n1:0\n")

    def run(xgb):
        data = xgb.DMatrix(f"{path}?format=libsvm")
        fields = [data.get_label(), data.get_weight(), data.get_data().toarray()]
        return np.concatenate([values.ravel() for values in fields])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_close(*both(run))
    path.write_text("1:0.5 0:2\n0 1:4\n")
    with pytest.raises(ValueError, match=r"line 2 begins with '0'.*every row a weight"):
        ours.DMatrix(f"{path}?format=libsvm")


def test_types_of_times_are_refused():
    data = ours.DMatrix(X, Y)
    types = ["time", "duration", "time[UTC]", "float"]
    for call in (
        lambda: ours.DMatrix(X, Y, feature_types=types),
        lambda: ours.QuantileDMatrix(X, Y, feature_types=types),
        lambda: setattr(data, "feature_types", types),
        lambda: setattr(ours.Booster(), "feature_types", types),
    ):
        with pytest.raises(ValueError, match="All feature_types must be one of"):
            call()


def test_what_is_an_error_in_xgboost_only():
    objects = pd.DataFrame(X, columns=NAMES).astype(object)
    bins = {xgb: xgb.QuantileDMatrix(X, Y, max_bin=16) for xgb in (ours, theirs)}

    def run(xgb):
        yield lambda: xgb.DMatrix(objects, Y).num_col()
        yield lambda: train(xgb)[-1].num_boosted_rounds()

        def evaluate():
            other = xgb.QuantileDMatrix(X, Y, ref=bins[xgb])
            options = {"evals": [(other, "other")], "verbose_eval": False}
            return xgb.train({"max_bin": 16}, bins[xgb], 1, **options)

        yield lambda: evaluate().num_boosted_rounds()

    for call in run(theirs):
        with pytest.raises(ValueError):
            call()
    assert [call() for call in run(ours)] == [4, 1, 1]
