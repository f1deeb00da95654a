"""Draws of rows by keys: any order of the rows, on any processes, gives one model."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from group_processes import call_in_threads

import hornbeam
from hornbeam.distributed.group import join, leave
from hornbeam.distributed.tracker import Tracker

ROWS = 400
_random = np.random.default_rng(3)
X = np.round(_random.normal(size=(ROWS, 4)), 2)
X[_random.random(X.shape) < 0.3] = np.nan
Y = np.nan_to_num(X[:, 0]) + _random.normal(size=ROWS) / 3
WEIGHT = np.round(_random.random(ROWS), 3)
KEYS = np.arange(ROWS) * 7
PARAMS = {"max_depth": 3, "subsample": 0.4, "nthread": 1}
SAMPLING = {
    "uniform": {},
    "by gradient": {"sampling_method": "gradient_based"},
    "trees in a round": {"num_parallel_tree": 2},
}


def digest(rows, params=PARAMS, make=hornbeam.DMatrix, **fields):
    given = {name: values[rows] for name, values in fields.items()}
    matrix = make(X[rows], Y[rows], weight=WEIGHT[rows], **given)
    if not fields:
        matrix.set_info(row_key=matrix.hash_rows())
    return hornbeam.train(params, matrix, 5).digest()


def in_group(order, size, task=digest, **options):
    """Return the results of a task on parts of the rows in this order."""
    tracker = Tracker(size, "127.0.0.1", by_task=True)
    tracker.start()

    def run(number):
        join(tracker.host, tracker.port, tracker.token, task=str(number))
        try:
            return task(np.array_split(order, size)[number], **options)
        finally:
            leave()

    try:
        return call_in_threads(run, size)
    finally:
        tracker.close("the test has ended")


@pytest.mark.parametrize("fields", [{"row_key": KEYS}, {}], ids=["keys", "hashes"])
@pytest.mark.parametrize("kind", SAMPLING)
def test_one_model_whatever_the_order_of_the_rows_and_the_processes(kind, fields):
    params = PARAMS | SAMPLING[kind]
    expected = digest(np.arange(ROWS), params, **fields)
    assert expected != digest(np.arange(ROWS), params | {"seed": 1}, **fields)
    order = np.random.default_rng(1).permutation(ROWS)
    assert digest(order, params, **fields) == expected
    for size in (2, 3):
        assert set(in_group(order, size, params=params, **fields)) == {expected}


def test_without_keys_the_order_matters_and_numbers_are_the_keys_of_the_places():
    rows, order = np.arange(ROWS), np.random.default_rng(1).permutation(ROWS)
    trained = [
        hornbeam.train(PARAMS, hornbeam.DMatrix(X[own], Y[own]), 5).digest()
        for own in (rows, order)
    ]
    assert trained[0] != trained[1]
    keyed = hornbeam.DMatrix(X[order], Y[order], row_key=order)
    assert hornbeam.train(PARAMS, keyed, 5).digest() == trained[0]


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_one_model_on_any_number_of_threads(threads):
    rows = np.arange(ROWS)
    params = PARAMS | {"nthread": threads}
    assert digest(rows, params, row_key=KEYS) == digest(rows, row_key=KEYS)


@pytest.mark.parametrize("method", ["exact", "approx"])
def test_other_tree_methods(method):
    params = PARAMS | {"tree_method": method}
    order = np.random.default_rng(1).permutation(ROWS)
    expected = digest(np.arange(ROWS), params, row_key=KEYS)
    assert digest(order, params, row_key=KEYS) == expected


def test_kinds_of_matrices(tmp_path):
    order = np.random.default_rng(1).permutation(ROWS)
    expected = digest(order, row_key=KEYS)

    def sparse(data, *args, **fields):
        entries = scipy.sparse.csr_matrix(np.nan_to_num(data))
        return hornbeam.DMatrix(entries, *args, **fields)

    def external(*args, **fields):
        return hornbeam.DMatrix(*args, cache=tmp_path, **fields)

    def saved(*args, **fields):
        hornbeam.DMatrix(*args, **fields).save_binary(tmp_path / "matrix")
        return hornbeam.DMatrix(tmp_path / "matrix")

    def batches(data, label, weight, row_key):
        class Halves(hornbeam.DataIter):
            def reset(self):
                self.at = 0

            def next(self, input_data):
                own = slice(self.at * 200, self.at * 200 + 200)
                self.at += 1
                given = {"label": label, "weight": weight, "row_key": row_key}
                if self.at > 2:
                    return False
                input_data(data=data[own], **{k: v[own] for k, v in given.items()})
                return True

        return hornbeam.QuantileDMatrix(Halves())

    def sliced(data, label, weight, row_key):
        twice = np.concatenate([data, data])
        fields = {"label": label, "weight": weight, "row_key": row_key}
        whole = {name: np.concatenate([own, own]) for name, own in fields.items()}
        return hornbeam.DMatrix(twice, **whole).slice(np.arange(ROWS, 2 * ROWS))

    for make in (hornbeam.QuantileDMatrix, external, saved, batches, sliced):
        assert digest(order, make=make, row_key=KEYS) == expected, make
    orders = np.arange(ROWS), order
    first, second = (digest(rows, make=sparse, row_key=KEYS) for rows in orders)
    assert first == second


def test_a_column_is_the_key_and_no_feature():
    frame = pd.DataFrame({"x": X[:, 0], "y": Y, "id": KEYS.astype(str)})
    matrix = hornbeam.DMatrix(frame, "y", row_key="id")
    assert matrix.feature_names == ["x"]
    again = hornbeam.DMatrix(frame[::-1], "y", row_key="id")
    digests = [hornbeam.train(PARAMS, own, 3).digest() for own in (matrix, again)]
    assert digests[0] == digests[1]


def test_keys_are_those_of_the_values_and_not_of_their_types():
    matrix = hornbeam.DMatrix(X.astype(np.float32), Y)
    wide = hornbeam.DMatrix(X.astype(np.float32).astype(float), Y)
    np.testing.assert_array_equal(matrix.hash_rows(), wide.hash_rows())
    assert len(set(matrix.hash_rows().tolist())) == ROWS
    zeros = hornbeam.DMatrix(np.array([[0.0], [-0.0], [1.0]]))
    assert len(set(zeros.hash_rows().tolist())) == 2
    levels = pd.DataFrame({"c": pd.Categorical(list("abba"))})
    other = pd.DataFrame({"c": pd.Categorical(list("abba"), categories=list("ba"))})
    np.testing.assert_array_equal(
        hornbeam.DMatrix(levels).hash_rows(), hornbeam.DMatrix(other).hash_rows()
    )


def test_the_estimate_of_rows_out_of_bag_follows_the_keys():
    found = []
    for order in (np.arange(ROWS), np.random.default_rng(1).permutation(ROWS)):
        matrix = hornbeam.DMatrix(X[order], Y[order], row_key=KEYS[order])
        record = hornbeam.OutOfBag()
        hornbeam.train(PARAMS, matrix, 4, callbacks=[record])
        found.append(record.improvement)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_bad_keys_are_one_clear_error():
    with pytest.raises(hornbeam.DataError, match="row_key has 3 values for 400 rows"):
        hornbeam.DMatrix(X, Y, row_key=[1, 2, 3])
    with pytest.raises(hornbeam.DataError, match="row_key must be whole numbers"):
        hornbeam.DMatrix(X, Y, row_key=KEYS + 0.5)
    with pytest.raises(hornbeam.DataError, match="no longer has the rows"):
        hornbeam.QuantileDMatrix(X, Y).hash_rows()


def test_keys_in_one_process_only_are_one_error_in_all():
    def train(rows):
        matrix = hornbeam.DMatrix(X[rows], Y[rows])
        if rows[0] > 0:
            matrix.set_info(row_key=KEYS[rows])
        return hornbeam.train(PARAMS, matrix, 2).digest()

    found = in_group(np.arange(ROWS), 2, train)
    assert all("row_key" in text for text in found)


def test_early_stopping_does_not_depend_on_the_order_to_the_last_bit():
    """The model file has the best score."""

    def train(rows):
        held = rows % 4 == 0
        dtrain, dvalid = (
            hornbeam.DMatrix(X[own], Y[own], row_key=KEYS[own])
            for own in (rows[~held], rows[held])
        )
        options = {"evals": [(dvalid, "held")], "early_stopping_rounds": 2}
        return hornbeam.train(
            PARAMS, dtrain, 30, verbose_eval=False, **options
        ).digest()

    order = np.random.default_rng(1).permutation(ROWS)
    expected = train(np.arange(ROWS))
    assert train(order) == expected
    assert set(in_group(order, 3, train)) == {expected}
