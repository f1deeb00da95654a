"""Several targets: each label column has an output and separate trees."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost

import hornbeam
from hornbeam.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 5))
Y = np.column_stack([X[:, 0] > 0, X[:, 1] + X[:, 2] > 0.3, RNG.random(3000) > 0.5]) * 1
OBJECTIVES = ["reg:squarederror", "binary:logistic", "reg:logistic"]


def train(labels, rounds=4, **params):
    params = {"max_depth": 3, "nthread": 1, **params}
    data = hornbeam.DMatrix(X, labels)
    return hornbeam.train(params, data, rounds, verbose_eval=False)


@pytest.mark.parametrize("scale_pos_weight", [1, 3])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_target_trains_independently(objective, scale_pos_weight):
    params = {"objective": objective, "scale_pos_weight": scale_pos_weight}
    together = train(Y, **params)
    predictions = together.predict(hornbeam.DMatrix(X))
    assert predictions.shape == Y.shape
    assert together.model.num_target == 3 and len(together.model.trees) == 12
    for k in range(3):
        alone = train(Y[:, k], **params)
        np.testing.assert_array_equal(
            predictions[:, k], alone.predict(hornbeam.DMatrix(X))
        )


def test_training_of_several_targets_continues_from_a_file(tmp_path):
    params = {"objective": "binary:logistic"}
    train(Y, 2, **params).save_model(tmp_path / "model.json")
    data = hornbeam.DMatrix(X, Y)
    params = {"max_depth": 3, "nthread": 1, **params}
    more = hornbeam.train(
        params, data, 2, xgb_model=tmp_path / "model.json", verbose_eval=False
    )
    assert more.digest() == train(Y, 4, **params).digest()


def test_a_base_score_for_each_target():
    """The labels tell how many there are, as in XGBoost."""
    scores = {"base_score": [0.25, 0.5, 2.0], "max_depth": 3, "tree_method": "exact"}
    found = train(Y, 2, **scores).predict(hornbeam.DMatrix(X))
    theirs = xgboost.train(scores, xgboost.DMatrix(X, Y), 2)
    np.testing.assert_allclose(found, theirs.predict(xgboost.DMatrix(X)), atol=1e-5)
    assert (
        train(Y, 2, num_target=3, **scores).digest() == train(Y, 2, **scores).digest()
    )
    for labels, outputs in ((Y[:, 0], 1), (Y[:, :2], 2)):
        with pytest.raises(
            ParameterError, match=f"3 values, but the model has {outputs}"
        ):
            train(labels, **scores)


def test_metrics_are_means_over_targets():
    data, history = hornbeam.DMatrix(X, Y), {}
    booster = hornbeam.train(
        {"objective": "reg:squarederror", "eval_metric": ["rmse", "mae"]},
        data, 2, evals=[(data, "all")], evals_result=history, verbose_eval=False,
    )  # fmt: skip
    off = booster.predict(data) - Y
    for name, value in (("rmse", np.sqrt((off**2).mean())), ("mae", abs(off).mean())):
        assert history["all"][name][-1] == pytest.approx(value, rel=1e-6)


def test_single_target_objectives_reject_several_targets():
    with pytest.raises(DataError, match="3 columns, and multi:softprob supports one"):
        train(Y, objective="multi:softprob", num_class=2)
    with pytest.raises(DataError, match="the labels have 2 columns, but the model"):
        train(Y[:, :2], objective="reg:squarederror", num_target=3)
    data = hornbeam.DMatrix(X, Y)
    with pytest.raises(DataError, match="auc is a metric of one label per row"):
        hornbeam.train(
            {"objective": "binary:logistic", "eval_metric": "auc"}, data, 1,
            evals=[(data, "all")], verbose_eval=False,
        )  # fmt: skip
