"""Errors compared with XGBoost: their types, and the text of their messages."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from comparison import BINARY, NAMES, THREE, X, Y, both, ours, theirs, train

FRAME = pd.DataFrame(X, columns=NAMES)
GAPS = np.where(BINARY > 0, np.nan, 1.0)


def named(xgb):
    """Return a booster with feature names."""
    return xgb.train({"max_depth": 2}, xgb.DMatrix(FRAME, Y), 1)


def kinds(xgb, names):
    """Return a matrix of one categorical column."""
    frame = pd.DataFrame({"kind": pd.Categorical(list(names) * 40)})
    return xgb.DMatrix(frame, Y, enable_categorical=True)


def ranked(xgb, label, **fields):
    """Return a booster of a ranking."""
    return xgb.train({"objective": "rank:ndcg"}, xgb.DMatrix(X, label, **fields), 1)


def batches(xgb, *parts):
    """Return an iterator over arrays."""

    class Parts(xgb.DataIter):
        def next(self, input_data):
            for part in self.left:
                input_data(data=part, label=Y)
                return 1
            return 0

        def reset(self):
            self.left = iter(parts)

    return Parts()


#: The failing code, and text that the messages of both libraries contain.
CASES = {
    "objective": (
        lambda x: train(x, {"objective": "no"}),
        "Unknown objective function",
    ),
    "metric": (
        lambda x: train(x, {"eval_metric": "no"}, evals=[(x.DMatrix(X, Y), "a")]),
        "Unknown metric function no",
    ),
    "booster": (lambda x: train(x, {"booster": "no"}), "Unknown gbm type no"),
    "updater": (lambda x: train(x, {"updater": "no"}), "Unknown tree updater no"),
    "tree method": (lambda x: train(x, {"tree_method": "no"}), "Invalid Input: 'no'"),
    "no number": (
        lambda x: train(x, {"eta": "no"}),
        "Invalid Parameter format for learning_rate expect float but value='no'",
    ),
    "no whole number": (
        lambda x: train(x, {"max_depth": True}),
        "Invalid Parameter format for max_depth expect int but value='True'",
    ),
    "below": (
        lambda x: train(x, {"max_depth": -1}),
        "value -1 for Parameter max_depth should be greater equal to 0",
    ),
    "beyond": (lambda x: train(x, {"subsample": 2}), "for Parameter subsample exceed"),
    "no classes": (
        lambda x: train(x, {"objective": "multi:softprob"}, THREE),
        "value 0 for Parameter num_class should be greater equal to 1",
    ),
    "device": (lambda x: train(x, {"device": "no"}), "Invalid argument for `device`"),
    "constraints": (
        lambda x: train(x, {"monotone_constraints": {"no": 1}}),
        "Constrained features are not a subset of training data feature names",
    ),
    "labels of classes": (
        lambda x: train(x, {"objective": "binary:logistic"}, BINARY * 1.2),
        "label must be in (0, 1) for logistic regression",
    ),
    "labels of amounts": (
        lambda x: train(x, {"objective": "reg:gamma"}, BINARY),
        "label must be positive for gamma regression",
    ),
    "labels of counts": (
        lambda x: train(x, {"objective": "count:poisson"}, -Y),
        "label must be non-negative for Poisson/Tweedie regression",
    ),
    "labels beyond": (
        lambda x: train(x, {"objective": "multi:softmax", "num_class": 2}, THREE),
        "label must be discrete values in the range of [0, num_class)",
    ),
    "labels missing": (lambda x: x.DMatrix(X, GAPS), "Label contains NaN, infinity"),
    "too few labels": (lambda x: x.DMatrix(X, Y[:4]), "Invalid size for `label`"),
    "no batches": (
        lambda x: x.QuantileDMatrix(batches(x)),
        "must have at least 1 batch",
    ),
    "batches of other widths": (
        lambda x: x.QuantileDMatrix(batches(x, X, X[:, :3])),
        "Inconsistent number of columns",
    ),
    "no labels": (lambda x: x.train({}, x.DMatrix(X), 1), "Invalid shape of labels"),
    "negative weights": (
        lambda x: x.DMatrix(X, Y, weight=-Y),
        "Weights must be positive values",
    ),
    "groups twice": (
        lambda x: x.DMatrix(X, group=[80], qid=[0] * 80),
        "Either one of `group` or `qid` should be None",
    ),
    "groups in disorder": (
        lambda x: x.DMatrix(X, qid=[1] * 30 + [0] * 50),
        "`qid` must be sorted in non-decreasing order",
    ),
    "rows of groups": (
        lambda x: x.DMatrix(X, group=[40, 40]).slice([1]),
        "slice does not support group structure",
    ),
    "infinite": (
        lambda x: x.DMatrix(np.where(X > 0.9, np.inf, X)),
        "Input data contains `inf` or a value too large",
    ),
    "text": (
        lambda x: x.DMatrix(pd.DataFrame({"x": ["a"]})),
        "DataFrame.dtypes for data must be int, float, bool or category",
    ),
    "dates": (
        lambda x: x.DMatrix(pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])})),
        "DataFrame.dtypes for data must be int, float, bool or category",
    ),
    "no codes": (
        lambda x: x.train({}, x.DMatrix(-X.round(), Y, feature_types=["c"] * 4), 1),
        "Invalid categorical value detected",
    ),
    "codes of another column": (
        lambda x: x.QuantileDMatrix(-X.round(), Y, feature_types=["c"] * 4),
        "Invalid categorical value detected",
    ),
    "categories with exact": (
        lambda x: x.train({"tree_method": "exact"}, kinds(x, "ab"), 1),
        "`exact` tree method doesn't support categorical features",
    ),
    "categories of a linear model": (
        lambda x: x.train({"booster": "gblinear"}, kinds(x, "ab"), 1),
        "`gblinear` doesn't support categorical features",
    ),
    "types of categories": (
        lambda x: x.QuantileDMatrix(
            pd.DataFrame({"kind": pd.Categorical(["a", "b"])}), feature_types=["c"]
        ),
        "must be set to `True`.  Invalid columns:",
    ),
    "columns by node with exact": (
        lambda x: train(x, {"tree_method": "exact", "colsample_bynode": 0.5}),
        "column sample by node is not yet supported by the exact tree method",
    ),
    "grades": (
        lambda x: ranked(x, np.arange(80), group=[40, 40]),
        "Set `ndcg_exp_gain` to false to use custom DCG gain",
    ),
    "weights of no group": (
        lambda x: ranked(x, THREE, group=[40, 40], weight=np.ones(3)),
        "equal to the number of query groups when ranking group is used",
    ),
    "weights of rows": (
        lambda x: ranked(x, THREE, group=[40, 40], weight=np.ones(80)),
        "equal to the number of query groups when ranking group is used",
    ),
    "weights of columns twice": (
        lambda x: x.XGBRegressor(feature_weights=np.ones(4)).fit(
            X, Y, feature_weights=np.ones(4)
        ),
        "Use the one in constructor or `set_params` instead",
    ),
    "another category": (
        lambda x: x.train({}, kinds(x, "ab"), 1).predict(kinds(x, "ac")),
        "Found a category not in the training set",
    ),
    "another kind of categories": (
        lambda x: x.train({}, kinds(x, "ab"), 1).predict(kinds(x, [1, 2])),
        "For a categorical feature, the index type must match",
    ),
    "one row": (lambda x: named(x).inplace_predict(X[0]), "Number of columns"),
    "sizes of groups": (
        lambda x: x.train({"objective": "rank:ndcg"}, x.DMatrix(X, THREE, group=[3])),
        "Invalid query group structure. The number of rows obtained from group",
    ),
    "one dimension": (lambda x: x.DMatrix(X[0]), "Please reshape the input data"),
    "no container": (lambda x: x.DMatrix(object()), "Not supported type for data."),
    "bins": (
        lambda x: x.train({"max_bin": 9}, x.QuantileDMatrix(X, Y), 1),
        "Inconsistent `max_bin`",
    ),
    "more columns": (
        lambda x: train(x).predict(x.DMatrix(np.tile(X, 2))),
        "Number of columns does not match number of features in booster",
    ),
    "fewer columns": (
        lambda x: train(x).inplace_predict(X[:, :3]),
        "Feature shape mismatch, expected: 4, got 3",
    ),
    "no names": (
        lambda x: named(x).predict(x.DMatrix(X)),
        "data did not contain feature names, but the following fields are expected: a",
    ),
    "other names": (
        lambda x: named(x).predict(x.DMatrix(FRAME[["a", "b", "c"]].assign(e=1))),
        "training data did not have the following fields: e",
    ),
    "another order": (
        lambda x: named(x).inplace_predict(FRAME[NAMES[::-1]]),
        "feature_names mismatch: ['a', 'b', 'c', 'd'] ['d', 'c', 'b', 'a']",
    ),
    "no matrix": (lambda x: train(x).predict(X), "Expecting data to be a DMatrix"),
    "two kinds": (
        lambda x: train(x).predict(x.DMatrix(X), pred_leaf=True, output_margin=True),
        "One type of prediction at a time",
    ),
    "rounds beyond": (
        lambda x: train(x).predict(x.DMatrix(X), iteration_range=(0, 9)),
        "Out of range for tree layers",
    ),
    "nothing learned": (lambda x: x.Booster().predict(x.DMatrix(X)), "0 feature is"),
    "nothing best": (
        lambda x: train(x).best_iteration,
        "early stopping",
    ),
    "no file": (lambda x: x.Booster(model_file="no.json"), "Opening no.json failed"),
    "no folder": (lambda x: train(x).save_model("no/m.json"), "No such file"),
    "no format": (lambda x: train(x).save_raw("no"), "Unknown model format: "),
    "no dump": (
        lambda x: train(x).get_dump(dump_format="no"),
        "Unknown Model Builder:no",
    ),
    "no importance": (
        lambda x: train(x).get_score(importance_type="no"),
        "Unknown feature importance type",
    ),
    "no model": (lambda x: train(x, xgb_model=3), "3"),
    "no cache": (lambda x: x.Booster(cache=[X]), "Invalid cache item: ndarray"),
    "no training": (lambda x: x.train({}, X, 1), "Invalid cache item: ndarray"),
    "no evals": (
        lambda x: train(x, evals=[(X, "a")]),
        "Invalid type for the `evals`",
    ),
    "no data to stop by": (
        lambda x: train(x, early_stopping_rounds=2),
        "Must have at least 1 validation dataset for early stopping",
    ),
    "no such data": (
        lambda x: train(
            x,
            evals=[(x.DMatrix(X, Y), "a")],
            callbacks=[x.callback.EarlyStopping(rounds=1, data_name="b")],
        ),
        "No dataset named: b",
    ),
    "no such metric": (
        lambda x: train(
            x,
            evals=[(x.DMatrix(X, Y), "a")],
            callbacks=[x.callback.EarlyStopping(rounds=1, metric_name="b")],
        ),
        "No metric named: b",
    ),
    "no callback": (
        lambda x: train(x, callbacks=[3]),
        "callback must be an instance of `TrainingCallback`",
    ),
    "no function": (
        lambda x: train(x, custom_metric=3),
        "metric must be callable object for monitoring",
    ),
    "no gradients": (
        lambda x: x.Booster({}, [x.DMatrix(X, Y)]).boost(x.DMatrix(X, Y), 0),
        "Invalid input for the boost function",
    ),
    "folds of codes": (
        lambda x: x.cv({}, x.QuantileDMatrix(X, Y), 1),
        "`QuantileDMatrix` is not yet supported",
    ),
    "best of folds": (
        lambda x: x.cv(
            {},
            x.DMatrix(X, Y),
            1,
            callbacks=[x.callback.EarlyStopping(rounds=1, save_best=True)],
        ),
        "`save_best` is not applicable to the `cv` function",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_errors_have_equal_types_and_messages(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong, words = CASES[case]

    def run(xgb):
        with pytest.raises(Exception) as caught:
            wrong(xgb)
        return caught.value

    mine, other = both(run)
    assert words in str(other)
    assert words in str(mine)
    kind = type(other)
    assert isinstance(
        mine, ours.core.XGBoostError if kind.__name__ == "XGBoostError" else kind
    )
    if isinstance(mine, ours.core.XGBoostError):
        assert isinstance(mine, ValueError)


def test_messages_of_xgboost_are_followed_by_those_of_hornbeam():
    with pytest.raises(ours.core.XGBoostError) as caught:
        ours.DMatrix(X, GAPS)
    first, second = str(caught.value).splitlines()
    assert first == "Label contains NaN, infinity or a value too large."
    assert second.startswith("label is nan in row 0 (so in")


def test_collective_group_of_one_worker():
    def run(xgb):
        group = xgb.collective
        with pytest.raises(TypeError, match="only takes in numpy"):
            group.allreduce([1], group.Op.SUM)
        return (
            group.get_rank(),
            group.get_world_size(),
            group.is_distributed(),
            group.get_processor_name(),
            group.broadcast({"a": 1}, 0),
            group.allreduce(np.arange(4.0).reshape(2, 2), group.Op.MAX).tolist(),
            group.Config(retry=2, timeout=3).get_comm_config({}),
            xgb.tracker.get_family("127.0.0.1"),
            {name: int(op) for name, op in group.Op.__members__.items()},
        )

    mine, other = both(run)
    assert mine == other
    with ours.collective.CommunicatorContext(dmlc_communicator="rabit") as args:
        assert args == {"dmlc_communicator": "rabit"}
    with pytest.raises(ValueError, match="Expecting either 'host' or 'task'"):
        ours.tracker.RabitTracker(n_workers=1, host_ip=None, sortby="no")
    assert ours.build_info().keys() >= theirs.build_info().keys() - {"GLIBC_VERSION"}
    assert ours.__version__ == theirs.__version__
