"""hornbeam.xgboost.dask: the same calls as with xgboost.dask, the same results."""

from __future__ import annotations

import asyncio
import json
import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from selection import REPEATS

from hornbeam import xgboost as ours

theirs = pytest.importorskip("xgboost")
pytest.importorskip("xgboost.dask")

pytestmark = [
    # Warnings of XGBoost's matrices that are deleted without being awaited.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RNG = np.random.default_rng(3)
X = RNG.normal(size=(200, 5)).astype(np.float32)
Y = X[:, 0] * 2 + X[:, 1] ** 2
TWO, THREE = (Y > 1).astype(int), np.digitize(Y, [0, 2])
GRADES, QID = RNG.integers(0, 4, 200), np.repeat(np.arange(20), 10)
FRAME = pd.DataFrame(X, columns=list("abcde"))


def array(values):
    chunks = ((50,) * 4, *((width,) for width in values.shape[1:]))
    return da.from_array(values, chunks=chunks)


def frame(values):
    values = values if isinstance(values, pd.DataFrame) else pd.Series(values)
    return dd.from_pandas(values, npartitions=4)


def seen(value):
    """Return a value as lists and numbers, for comparison."""
    if isinstance(value, da.Array | dd.Series | dd.DataFrame):
        whole = np.asarray(value.compute())
        return [type(value).__name__, whole.shape, whole.dtype.str, whole.tolist()]
    if isinstance(value, dict):
        return {name: seen(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [seen(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def assert_close(found, expected):
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for name, one in expected.items():
            assert_close(found[name], one)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True)
    else:
        assert found == expected


def arrays(xgb, client):
    data = xgb.dask.DaskDMatrix(client, array(X), array(Y))
    found = xgb.dask.train(client, {"max_depth": 2}, data, 3, evals=[(data, "it")])
    return {
        "history": found["history"],
        "of the matrix": xgb.dask.predict(client, found, data),
        "of an array": xgb.dask.predict(client, found["booster"], array(X)),
        "in place": xgb.dask.inplace_predict(client, found, array(X)),
        "margins": xgb.dask.predict(client, found, array(X), output_margin=True),
        "contributions": xgb.dask.predict(client, found, array(X), pred_contribs=True),
        "columns": data.num_col(),
    }


def frames(xgb, client):
    params = {"max_depth": 2, "objective": "multi:softprob", "num_class": 3}
    data = xgb.dask.DaskQuantileDMatrix(client, frame(FRAME), frame(THREE))
    found = xgb.dask.train(client, params, data, 2)
    numbers = xgb.dask.DaskQuantileDMatrix(client, frame(FRAME), frame(Y))
    regression = xgb.dask.train(client, {"max_depth": 2}, numbers, 2)
    series = xgb.dask.predict(client, regression, frame(FRAME))
    return {
        "several": xgb.dask.predict(client, found, frame(FRAME)),
        "in place": xgb.dask.inplace_predict(client, found, frame(FRAME)),
        "one": series,
        "called": series.name,
        "features": found["booster"].feature_names,
    }


def regressor(xgb, client):
    model = xgb.dask.DaskXGBRegressor(n_estimators=3, max_depth=2)
    model.client = client
    model.fit(array(X), array(Y), eval_set=[(array(X), array(Y))], verbose=False)
    again = pickle.loads(pickle.dumps(model))
    return {
        "predictions": model.predict(array(X)),
        "margins": model.predict(array(X), output_margin=True),
        "leaves": model.apply(array(X)),
        "history": model.evals_result(),
        "features": model.n_features_in_,
        "score": model.score(array(X), array(Y)),
        "pickled": again.predict(array(X)),
    }


def classifier(xgb, client):
    model = xgb.dask.DaskXGBClassifier(n_estimators=3, max_depth=2)
    model.fit(frame(FRAME), frame(TWO))
    return {
        "labels": model.predict(frame(FRAME)),
        "probabilities": model.predict_proba(frame(FRAME)),
        "margins": model.predict(frame(FRAME), output_margin=True),
        "objective": model.objective,
        "names": model.feature_names_in_.tolist(),
    }


def three_classes(xgb, client):
    model = xgb.dask.DaskXGBClassifier(n_estimators=3, max_depth=2)
    model.fit(array(X), array(THREE))
    return {
        "labels": model.predict(array(X)),
        "probabilities": model.predict_proba(array(X)),
        "classes": np.sort(model.classes_),
        "count": model.n_classes_,
        "objective": model.objective,
        "score": model.score(array(X), array(THREE)),
    }


def ranker(xgb, client):
    model = xgb.dask.DaskXGBRanker(n_estimators=3, max_depth=2, allow_group_split=True)
    evals = {"eval_set": [(array(X), array(GRADES))], "eval_qid": [array(QID)]}
    model.fit(array(X), array(GRADES), qid=array(QID), **evals)
    return model.predict(array(X)), model.evals_result()


def forests(xgb, client):
    params = {"n_estimators": 4, "max_depth": 2, "subsample": 1, "colsample_bynode": 1}
    regressor = xgb.dask.DaskXGBRFRegressor(**params).fit(array(X), array(Y))
    classifier = xgb.dask.DaskXGBRFClassifier(**params).fit(array(X), array(TWO))
    return {
        "predictions": regressor.predict(array(X)),
        "labels": classifier.predict(array(X)),
        "trees": len(regressor.get_booster().get_dump()),
    }


def early_stopping(xgb, client):
    model = xgb.dask.DaskXGBRegressor(
        n_estimators=50, learning_rate=1.0, early_stopping_rounds=2
    )
    evals = [(array(X)[100:], array(Y)[100:])]
    model.fit(array(X)[:100], array(Y)[:100], eval_set=evals, verbose=False)
    return model.best_iteration, model.best_score, model.predict(array(X))


def own_objective(xgb, client):
    def squared(y_true, y_pred):
        return y_pred - y_true, np.ones_like(y_true)

    model = xgb.dask.DaskXGBRegressor(n_estimators=2, objective=squared)
    first = model.fit(array(X), array(Y)).predict(array(X)).compute()
    model.fit(array(X), array(Y), xgb_model=model.get_booster())
    return first, model.predict(array(X)), model.get_booster().num_boosted_rounds()


def parameters(xgb, client):
    return [
        getattr(xgb.dask, f"DaskXGB{kind}")(max_depth=3, huber_slope=2).get_params()
        for kind in ("Regressor", "Classifier", "Ranker", "RFRegressor", "RFClassifier")
    ]


def ranking_without_pairs(xgb, client):
    params = {"n_estimators": 2, "eval_metric": ["ndcg", "map"]}
    model = xgb.dask.DaskXGBRanker(**params, allow_group_split=True)
    equal = array(np.zeros(200))
    evals = {"eval_set": [(array(X), array(GRADES > 1))], "eval_qid": [array(QID)]}
    model.fit(array(X), equal, qid=array(QID), **evals)
    return model.predict(array(X)), model.evals_result()


QUICK = [classifier, parameters, ranking_without_pairs]
OTHERS = [
    arrays,
    early_stopping,
    forests,
    frames,
    own_objective,
    ranker,
    regressor,
    three_classes,
]


@pytest.mark.parametrize(
    "lines",
    [*QUICK, *(pytest.param(lines, marks=REPEATS) for lines in OTHERS)],
    ids=lambda lines: lines.__name__,
)
def test_results_equal_those_of_xgboost(lines, client):
    assert_close(seen(lines(ours, client)), seen(lines(theirs, client)))


def with_a_setting(xgb, client):
    data = xgb.dask.DaskDMatrix(client, array(X), array(Y))
    with dask.config.set({"xgboost.port": 1}):
        xgb.dask.train(client, {}, data, 1)


WRONG = [
    (lambda xgb, client: xgb.dask.DaskDMatrix("here", array(X)), "Client"),
    (lambda xgb, client: xgb.dask.DaskDMatrix(client, X, Y), "Expecting"),
    (lambda xgb, client: xgb.dask.DaskDMatrix(client, array(Y)), "2 dimensional"),
    (lambda xgb, client: xgb.dask.predict(client, 1, array(X)), "Expecting"),
    (lambda xgb, client: xgb.dask.DaskXGBRegressor().predict(array(X)), "need to call"),
    (
        lambda xgb, client: xgb.dask.DaskXGBRanker().fit(
            array(X), array(GRADES), qid=array(QID)
        ),
        "X is required to be a",
    ),
    (
        lambda xgb, client: xgb.dask.DaskXGBRanker().fit(
            frame(FRAME), frame(GRADES), group=frame(QID)
        ),
        "Use the `qid` instead of the `group`",
    ),
    (
        lambda xgb, client: xgb.dask.DaskXGBRanker().fit(frame(FRAME), frame(GRADES)),
        "`qid` is required for ranking",
    ),
    (
        lambda xgb, client: xgb.dask.DaskXGBRanker(objective=np.add),
        "ustom objective function not supported",
    ),
    (
        lambda xgb, client: xgb.dask.DaskXGBRegressor(booster="gblinear").fit(
            array(X), array(Y)
        ),
        "`gblinear` is not supported for distributed training",
    ),
    (
        lambda xgb, client: xgb.dask.DaskXGBRegressor(device="cuda:0").fit(
            array(X), array(Y)
        ),
        "doesn't support selecting device ordinal",
    ),
    (with_a_setting, "Unknown configuration"),
]


@pytest.mark.parametrize(("lines", "words"), WRONG, ids=[words for _, words in WRONG])
def test_errors_equal_those_of_xgboost(lines, words, client):
    kinds = []
    for xgb in (ours, theirs):
        with pytest.raises((TypeError, ValueError, NotImplementedError)) as raised:
            lines(xgb, client)
        assert words in str(raised.value)
        kinds.append(
            [kind for kind in (TypeError, ValueError) if isinstance(raised.value, kind)]
        )
    assert kinds[0] == kinds[1]


def test_the_model_equals_that_of_one_machine(client):
    model = ours.dask.DaskXGBRegressor(n_estimators=3).fit(array(X), array(Y))
    alone = ours.XGBRegressor(n_estimators=3).fit(X, Y)
    assert model.get_booster().digest() == alone.get_booster().digest()
    assert isinstance(model.get_booster(), ours.dask.Booster)
    config = json.loads(model.get_booster().save_config())
    assert config["learner"]["generic_param"]["nthread"] == "1"  # of a worker
    forest = ours.dask.DaskXGBRFRegressor().fit(array(X), array(Y))
    assert len(forest.get_booster().get_dump()) == 1


def test_unsorted_query_groups_are_sorted(client):
    order = RNG.permutation(200)
    mixed = frame(FRAME.iloc[order].reset_index(drop=True))
    grades, qid = frame(GRADES[order]), frame(QID[order])
    model = ours.dask.DaskXGBRanker(n_estimators=3, max_depth=2)
    model.fit(mixed, grades, qid=qid, eval_set=[(mixed, grades)], eval_qid=[qid])
    together = np.argsort(QID[order], kind="stable")
    alone = ours.XGBRanker(n_estimators=3, max_depth=2)
    alone.fit(
        FRAME.iloc[order[together]], GRADES[order[together]], qid=QID[order[together]]
    )
    np.testing.assert_array_equal(
        model.predict(mixed).compute().to_numpy(), alone.predict(FRAME.iloc[order])
    )


def test_all_functions_with_an_asynchronous_client(cluster):
    async def learned(depth):
        async with Client(cluster.scheduler_address, asynchronous=True) as client:
            data = await ours.dask.DaskQuantileDMatrix(client, array(X), array(TWO))
            params = {"max_depth": depth, "objective": "binary:logistic"}
            found = await ours.dask.train(client, params, data, 2)
            model = await ours.dask.DaskXGBClassifier(n_estimators=2, max_depth=depth)
            await model.fit(array(X), array(TWO))
            assert model.get_booster().digest() == found["booster"].digest()
            with pytest.raises(ValueError, match="event loop; run it in a thread"):
                data.get_label()
            lazily = [
                await ours.dask.predict(client, found, data),
                await ours.dask.inplace_predict(client, found, array(X)),
                (await model.predict_proba(array(X)))[:, 1],
            ]
            return await asyncio.gather(*map(client.compute, lazily))

    async def both():
        return await asyncio.gather(learned(2), learned(3))

    for depth, found in zip((2, 3), asyncio.run(both()), strict=True):
        alone = ours.XGBClassifier(n_estimators=2, max_depth=depth).fit(X, TWO)
        for predictions in found:
            expected = alone.predict_proba(X)[:, 1]
            np.testing.assert_allclose(predictions, expected, rtol=1e-6)


def test_tasks_that_train_secede_from_the_thread_pool(client):
    # More tasks than threads, and the actors of each need threads as well.
    tasks = [
        client.submit(
            ours.dask.DaskXGBRegressor(n_estimators=n).fit, array(X), array(Y)
        )
        for n in range(1, 4)
    ]
    rounds = [task.result().get_booster().num_boosted_rounds() for task in tasks]
    assert rounds == [1, 2, 3]


def test_an_unknown_parameter_is_a_warning(client):
    data = ours.dask.DaskDMatrix(client, array(X), array(Y))
    with pytest.warns(UserWarning, match=r'Parameters: \{ "max_deth" \} are not used'):
        ours.dask.train(client, {"max_deth": 2}, data, 1)


def test_a_base_score_for_each_target(client):
    targets = np.stack([Y, -Y], axis=1)
    params = {"n_estimators": 2, "base_score": [0.5, 1.5], "max_depth": 2}
    model = ours.dask.DaskXGBRegressor(**params).fit(array(X), array(targets))
    alone = ours.XGBRegressor(**params).fit(X, targets)
    np.testing.assert_array_equal(model.predict(array(X)).compute(), alone.predict(X))


def test_metrics_are_printed_by_the_client(client, capsys):
    data = ours.dask.DaskDMatrix(client, array(X), array(Y))
    ours.dask.train(client, {}, data, 3, evals=[(data, "it")], verbose_eval=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["[0]\tit-rmse", "[2]\tit-rmse"]


def test_a_task_has_a_communicator_of_one_rank(client):
    def task():
        with ours.dask.CommunicatorContext() as args:
            return args["DMLC_TASK_ID"], ours.collective.get_world_size()

    name, size = client.submit(task).result()
    assert name.startswith("[xgboost.dask-")
    assert size == 1
    with pytest.raises(ValueError, match="worker"):
        ours.dask.CommunicatorContext()
