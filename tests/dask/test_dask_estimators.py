"""Estimators for Dask collections equal those for one machine."""

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from hornbeam import (
    DataError,
    HornbeamClassifier,
    HornbeamRanker,
    HornbeamRegressor,
)
from hornbeam.dask import (
    DaskHornbeamClassifier,
    DaskHornbeamRanker,
    DaskHornbeamRegressor,
)

# The first fit may compile the kernels.
pytestmark = pytest.mark.timeout(240)

ROWS = 200
SMALL = {"n_estimators": 4, "max_depth": 3}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(9)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
    frame.loc[rng.random(ROWS) < 0.1, "a"] = np.nan
    frame["kind"] = rng.choice(["x", "y", "z"], ROWS)
    return frame


@pytest.fixture(scope="module")
def target(frame):
    return (frame["b"] + (frame["kind"] == "x")).rename("target")


@pytest.fixture
def collection(client, frame):
    return dd.from_pandas(frame, npartitions=3)


def in_chunks(array, size=80):
    return da.from_array(np.asarray(array), chunks=(size, *np.shape(array)[1:]))


def like(series, collection):
    """Return a series with as many partitions as a collection."""
    return dd.from_pandas(series, npartitions=collection.npartitions)


def test_a_regressor_on_dataframes(client, collection, frame, target):
    one = HornbeamRegressor(**SMALL).fit(frame, target)
    many = DaskHornbeamRegressor(**SMALL)
    many.client = client
    assert many.fit(collection, like(target, collection)) is many
    assert many.get_booster().digest() == one.get_booster().digest()
    assert many.n_features_in_ == 4
    assert many.feature_names_in_.tolist() == ["a", "b", "c", "kind"]
    np.testing.assert_array_equal(many.feature_importances_, one.feature_importances_)
    lazy = many.predict(collection)
    assert isinstance(lazy, dd.Series)
    np.testing.assert_array_equal(lazy.compute(), one.predict(frame))
    leaves = many.apply(collection)
    assert isinstance(leaves, da.Array)
    np.testing.assert_array_equal(leaves.compute(), one.apply(frame))
    score = many.score(collection, like(target, collection))
    assert score == one.score(frame, target)


def test_a_regressor_on_arrays_with_all_arguments_of_fit(client, frame, target):
    x, y = frame[["a", "b", "c"]].to_numpy(), target.to_numpy()
    weight = np.linspace(0.5, 2, ROWS)
    margin = np.linspace(-1, 1, ROWS)
    settings = {**SMALL, "early_stopping_rounds": 2, "colsample_bytree": 0.7}
    one = HornbeamRegressor(**settings, feature_weights=[1, 2, 3])
    one.fit(
        x,
        y,
        sample_weight=weight,
        base_margin=margin,
        eval_set=[(x[:50], y[:50])],
        sample_weight_eval_set=[weight[:50]],
        base_margin_eval_set=[margin[:50]],
        verbose=False,
    )
    many = DaskHornbeamRegressor(**settings)
    many.fit(
        in_chunks(x),
        in_chunks(y),
        sample_weight=in_chunks(weight),
        base_margin=in_chunks(margin),
        eval_set=[(in_chunks(x[:50], 20), in_chunks(y[:50]))],
        sample_weight_eval_set=[in_chunks(weight[:50])],
        base_margin_eval_set=[in_chunks(margin[:50])],
        feature_weights=[1, 2, 3],
        verbose=False,
    )
    assert many.get_booster().digest() == one.get_booster().digest()
    assert many.evals_result() == one.evals_result()
    assert many.best_iteration == one.best_iteration
    lazy = many.predict(in_chunks(x), base_margin=in_chunks(margin))
    assert lazy.dtype == np.float32
    np.testing.assert_array_equal(lazy, one.predict(x, base_margin=margin))
    lazy = many.predict(in_chunks(x), iteration_range=(0, 1), output_margin=True)
    expected = one.predict(x, iteration_range=(0, 1), output_margin=True)
    np.testing.assert_array_equal(lazy, expected)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["frame", "array", "delayed"])
def test_a_classifier_with_labels_of_any_type(client, frame, target, kind, n_classes):
    edges = [0.0] if n_classes == 2 else [-0.5, 0.5]
    names = np.array(["no", "perhaps", "yes"])[:n_classes]
    label = names[np.digitize(target, edges)]
    x = frame[["a", "b", "c"]]
    one = HornbeamClassifier(**SMALL).fit(x, label)
    many = DaskHornbeamClassifier(**SMALL)
    if kind == "frame":
        X = dd.from_pandas(x, npartitions=3)
        many.fit(X, like(pd.Series(label, frame.index), X))
    else:
        X = in_chunks(x)
        one = HornbeamClassifier(**SMALL).fit(x.to_numpy(), label)
        if kind == "array":
            many.fit(X, in_chunks(label))
        else:
            halves = slice(90), slice(90, None)
            many.fit(
                [delayed(x.to_numpy()[half]) for half in halves],
                [delayed(label[half].tolist()) for half in halves],
            )
    assert many.classes_.tolist() == names.tolist() and many.n_classes_ == n_classes
    assert many.get_booster().digest() == one.get_booster().digest()
    plain = x if kind == "frame" else x.to_numpy()
    assert isinstance(many.predict(X), dd.Series if kind == "frame" else da.Array)
    np.testing.assert_array_equal(many.predict(X).compute(), one.predict(plain))
    probabilities = many.predict_proba(X)
    assert isinstance(probabilities, da.Array)
    assert probabilities.shape[1] == n_classes
    np.testing.assert_array_equal(probabilities, one.predict_proba(plain))
    margins = many.predict(X, output_margin=True)
    np.testing.assert_array_equal(margins, one.predict(plain, output_margin=True))
    y = like(pd.Series(label), X) if kind == "frame" else in_chunks(label)
    assert many.score(X, y) == one.score(plain, label)


def test_custom_objectives_and_metrics(client, frame, target):
    def squares(labels, predictions, sample_weight=None):
        return predictions - labels, np.ones_like(labels)

    def largest(labels, predictions):
        return np.abs(labels - predictions).max()

    x, y = frame[["a", "b"]].to_numpy(), target.to_numpy()
    settings = {**SMALL, "objective": squares, "eval_metric": largest}
    one = HornbeamRegressor(**settings).fit(x, y, eval_set=[(x, y)], verbose=False)
    many = DaskHornbeamRegressor(**settings)
    X, Y = in_chunks(x), in_chunks(y)
    many.fit(X, Y, eval_set=[(X, Y)], verbose=False)
    assert many.get_booster().digest() == one.get_booster().digest()
    assert many.evals_result() == one.evals_result()
    np.testing.assert_array_equal(many.predict(X), one.predict(x))


def test_prediction_intervals_of_a_regressor(client, frame, target):
    rows = frame[["a", "b", "c"]].to_numpy()
    params = {**SMALL, "objective": "dist:normal"}
    alone = HornbeamRegressor(**params).fit(rows, target.to_numpy())
    model = DaskHornbeamRegressor(**params).fit(in_chunks(rows), in_chunks(target))
    assert model.get_booster().digest() == alone.get_booster().digest()
    found = model.predict_interval(in_chunks(rows), 0.5)
    assert found.shape == (ROWS, 2)
    np.testing.assert_array_equal(
        found.compute(), alone.predict_interval(rows, coverage=0.5)
    )
    predicted = model.predict(in_chunks(rows)).compute()
    np.testing.assert_array_equal(predicted, alone.predict(rows))


def test_query_groups_of_a_ranker_stay_on_one_worker(client):
    rng = np.random.default_rng(3)
    qid = np.sort(rng.integers(0, 12, ROWS))
    x = rng.normal(size=(ROWS, 2))
    y = x[:, 0] + rng.normal(size=ROWS)

    def centred(labels, margins, group):
        ends = np.cumsum(group)
        assert ends[-1] == len(labels)
        gradient = margins - labels
        for begin, end in zip(ends - group, ends, strict=True):
            gradient[begin:end] -= gradient[begin:end].mean()
        return gradient, np.ones_like(gradient)

    ranker = DaskHornbeamRanker(objective=centred, base_score=0.5, **SMALL)
    X, Y, Q = in_chunks(x, 60), in_chunks(y), in_chunks(qid)
    ranker.fit(X, Y, qid=Q, eval_set=[(X, Y)], eval_qid=[Q])
    assert ranker.predict(X).compute().shape == (ROWS,)
    sizes = np.unique(qid, return_counts=True)[1]
    one = HornbeamRegressor(
        objective=lambda labels, margins: centred(labels, margins, sizes),
        base_score=0.5,
        **SMALL,
    ).fit(x, y)
    assert ranker.get_booster().digest() == one.get_booster().digest()
    with pytest.raises(DataError, match="ranking needs the query group of each row"):
        ranker.fit(X, Y)
    with pytest.raises(DataError, match="eval_set needs the query group"):
        ranker.fit(X, Y, qid=Q, eval_set=[(X, Y)])


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:xendcg"])
def test_a_ranker_equals_that_of_one_machine(client, objective):
    rng = np.random.default_rng(3)
    qid = np.sort(rng.integers(0, 12, ROWS))
    x = rng.normal(size=(ROWS, 2))
    y = np.clip(np.round(x[:, 0] + rng.normal(size=ROWS)), 0, 3)
    weights = rng.uniform(0.5, 2, 12)
    params = {"objective": objective, "lambdarank_unbiased": True, **SMALL}
    one = HornbeamRanker(**params).fit(
        x, y, qid=qid, sample_weight=weights, eval_set=[(x, y)], eval_qid=[qid]
    )
    X, Y, Q = in_chunks(x, 60), in_chunks(y, 60), in_chunks(qid, 60)
    many = DaskHornbeamRanker(**params)
    many.fit(
        X, Y, qid=Q, sample_weight=in_chunks(weights[qid], 60), eval_set=[(X, Y)],
        eval_qid=[Q],
    )  # fmt: skip
    assert many.get_booster().digest() == one.get_booster().digest()
    assert many.evals_result() == one.evals_result()
    np.testing.assert_array_equal(many.predict(X), one.predict(x))
    assert many.score(X, Y, qid=Q) == one.score(x, y, qid=qid)


def test_estimators_are_cloned_pickled_and_saved(client, frame, target, tmp_path):
    many = DaskHornbeamClassifier(**SMALL)
    many.client = client
    assert clone(many).get_params() == many.get_params()
    ranker = DaskHornbeamRanker(max_depth=2, allow_group_split=True)
    assert clone(ranker).get_params()["allow_group_split"] is True
    with pytest.raises(NotFittedError):
        many.predict(da.ones((3, 2)))
    X, label = in_chunks(frame[["a", "b"]]), np.where(target > 0, "up", "down")
    many.fit(X, in_chunks(label))
    again = pickle.loads(pickle.dumps(many))
    np.testing.assert_array_equal(again.predict(X), many.predict(X))
    many.save_model(tmp_path / "model.json")
    one = HornbeamClassifier()
    one.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(one.predict(X.compute()), many.predict(X))
    other = DaskHornbeamClassifier()
    other.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(other.predict(X), many.predict(X))


def test_training_continues_a_model(client, frame, target):
    x, y = frame[["a", "b"]].to_numpy(), target.to_numpy()
    first = HornbeamRegressor(**SMALL).fit(x, y)
    more = DaskHornbeamRegressor(**SMALL).fit(
        in_chunks(x), in_chunks(y), xgb_model=first
    )
    one = HornbeamRegressor(**SMALL).fit(x, y, xgb_model=first)
    assert more.get_booster().digest() == one.get_booster().digest()


def test_errors_in_labels_name_the_partition(client, frame, target):
    X = in_chunks(frame[["a", "b"]])
    label = np.where(target > 0, 1.0, 0.0)
    with pytest.raises(DataError, match=r"partition 1 of y: .*contains NaN"):
        broken = label.copy()
        broken[90] = np.nan
        DaskHornbeamClassifier().fit(X, in_chunks(broken))
    with pytest.raises(DataError, match="partition 0 of y: Unknown label type"):
        DaskHornbeamClassifier().fit(X, in_chunks(target.to_numpy()))
    with pytest.raises(DataError, match="eval_set has the label 2"):
        DaskHornbeamClassifier(**SMALL).fit(
            X, in_chunks(label), eval_set=[(X, in_chunks(label + 1))]
        )
    with pytest.raises(DataError, match="requires y to be passed"):
        DaskHornbeamRegressor().fit(X, None)
    with pytest.raises(DataError, match="sample_weight_eval_set has 2 entries"):
        DaskHornbeamRegressor().fit(
            X, X[:, 1], eval_set=[(X, X[:, 1])], sample_weight_eval_set=[None, None]
        )
