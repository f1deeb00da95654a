"""The gradient boosting estimators: scikit-learn's checks, and equality with train."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import hornbeam
from hornbeam import HornbeamClassifier, HornbeamRanker, HornbeamRegressor
from hornbeam.errors import DataError, HornbeamError, ParameterError
from hornbeam.params import parameter_table

ESTIMATORS = [HornbeamRegressor, HornbeamClassifier]
SINGLE = "predictions are float32, as XGBoost's are"
FOLDS = "the rows of a fold are drawn, whatever they weigh"


@parametrize_with_checks(
    [kind(n_estimators=9) for kind in ESTIMATORS],
    expected_failed_checks=lambda _: {"check_regressor_multioutput": SINGLE},
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.repeats
@parametrize_with_checks(
    [kind(n_bags=2, n_estimators=4) for kind in ESTIMATORS],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": FOLDS,
        "check_sample_weight_equivalence_on_sparse_data": FOLDS,
        "check_regressor_multioutput": SINGLE,
    },
)
def test_scikit_learn_estimator_checks_with_bags(estimator, check):
    check(estimator)


def test_fit_equals_train_on_the_same_data(diabetes):
    X, y = diabetes
    params = {"max_depth": 3, "learning_rate": 0.2, "subsample": 0.7}
    estimator = HornbeamRegressor(n_estimators=7, random_state=3, **params).fit(X, y)
    params |= {"objective": "reg:squarederror", "seed": 3}
    booster = hornbeam.train(params, hornbeam.DMatrix(X, y), 7)
    assert estimator.get_booster().digest() == booster.digest()
    np.testing.assert_array_equal(
        estimator.predict(X), booster.predict(hornbeam.DMatrix(X))
    )


def split(data):
    X, y = data
    return (X[::2], y[::2]), (X[1::2], y[1::2])


def test_early_stopping_predicts_with_the_best_round(diabetes):
    train, valid = split(diabetes)
    model = HornbeamRegressor(n_estimators=200, early_stopping_rounds=5)
    model.fit(*train, eval_set=[train, valid], verbose=False)
    scores = model.evals_result()["validation_1"]["rmse"]
    assert len(scores) < 200
    assert model.best_iteration == int(np.argmin(scores))
    assert model.best_score == min(scores)
    best = (0, model.best_iteration + 1)
    X = valid[0]
    np.testing.assert_array_equal(
        model.predict(X), model.predict(X, iteration_range=best)
    )
    assert model.apply(X).shape == (len(X), model.best_iteration + 1)
    assert (model.predict(X) != model.predict(X, iteration_range=(0, 0))).any()


def test_verbose_prints_scores(two, capsys):
    model = HornbeamClassifier(n_estimators=2)
    model.fit(*two, eval_set=[two])
    assert capsys.readouterr().out.startswith("[0]\tvalidation_0-logloss:")
    model.fit(*two, eval_set=[two], verbose=False)
    assert capsys.readouterr().out == ""


def test_weights_and_margins_are_passed_to_train(diabetes):
    X, y = diabetes
    weight = np.linspace(0.5, 2, len(y))
    margin = np.full(len(y), 100.0)
    model = HornbeamRegressor(n_estimators=3).fit(
        X,
        y,
        sample_weight=weight,
        base_margin=margin,
        eval_set=[(X, y)],
        sample_weight_eval_set=[weight],
        base_margin_eval_set=[margin],
        verbose=False,
    )
    matrix = hornbeam.DMatrix(X, y, weight=weight, base_margin=margin)
    history: dict = {}
    booster = hornbeam.train(
        {"objective": "reg:squarederror"},
        matrix,
        3,
        evals=[(matrix, "validation_0")],
        evals_result=history,
        verbose_eval=False,
    )
    assert model.get_booster().digest() == booster.digest()
    assert model.evals_result() == history
    np.testing.assert_array_equal(
        model.predict(X, base_margin=margin), booster.predict(matrix)
    )


def test_training_continues_from_an_estimator(diabetes):
    first = HornbeamRegressor(n_estimators=4).fit(*diabetes)
    more = HornbeamRegressor(n_estimators=3).fit(*diabetes, xgb_model=first)
    whole = HornbeamRegressor(n_estimators=7).fit(*diabetes)
    assert more.get_booster().digest() == whole.get_booster().digest()


def test_grid_search(diabetes):
    X, y = diabetes
    search = GridSearchCV(
        HornbeamRegressor(n_estimators=5), {"max_depth": [1, 2], "eta": [0.1]}, cv=2
    )
    with pytest.raises(ValueError, match="eta"):
        search.fit(X, y)
    search = GridSearchCV(
        HornbeamRegressor(n_estimators=5), {"max_depth": [1, 2]}, cv=2
    ).fit(X, y)
    assert search.best_params_["max_depth"] in (1, 2)
    assert cross_val_score(search.best_estimator_, X, y, cv=2).shape == (2,)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_depth": -1}, "max_depth must be 0 or more"),
        ({"learning_rate": np.nan}, "learning_rate must be a finite number"),
        ({"tree_method": "gpu_hist"}, "not in Hornbeam yet"),
        ({"eval_metric": "acu"}, "acu"),
        ({"early_stopping_rounds": 2, "quality": None}, "eval_set"),
        ({"n_estimators": -1}, "-1"),
    ],
)
def test_invalid_parameters(estimator, params, message, two):
    X, y = two
    with pytest.raises(HornbeamError) as caught:
        estimator(**params).fit(X, (y == y[0]).astype(int))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("num_leaves", "LightGBM has it, and here it is 'max_leaves'"),
        ("thread_count", "CatBoost or scikit-learn has it, and here it is 'n_jobs'"),
        ("max_depht", "did you mean 'max_depth'?"),
        ("eval_set", "'eval_set' is an argument of fit, not of Hornbeam"),
        ("qqq", "lists the known ones"),
    ],
)
@pytest.mark.parametrize("estimator", [*ESTIMATORS, HornbeamRanker])
def test_unknown_parameters(estimator, name, message):
    with pytest.raises(ParameterError, match=message) as caught:
        estimator(**{name: 1})
    assert caught.value.code == "unknown_parameter"


@pytest.mark.parametrize(
    "quality", [None, "fast", pytest.param("best", marks=pytest.mark.slow)]
)
def test_several_targets(quality, diabetes):
    X, y = diabetes
    targets = np.column_stack([y, 100 * X[:, 0] - y, 2 * y])
    model = HornbeamRegressor(quality=quality).fit(X, targets)
    predicted = model.predict(X)
    assert predicted.shape == targets.shape
    assert model.score(X, targets) > 0.5
    alone = HornbeamRegressor(quality=None).fit(X, targets[:, 1]).predict(X)
    if quality == "fast":
        bags = HornbeamRegressor(quality=quality, n_bags=2).fit(X, targets)
        assert bags.oob_prediction_.shape == targets.shape
        stopped = HornbeamRegressor(quality=quality)
        stopped.fit(X, targets, eval_set=[(X, targets)], verbose=False)
        assert stopped.best_iteration > 0
    if quality is None:
        np.testing.assert_array_equal(predicted[:, 1], alone)
    with pytest.raises(ValueError, match="1d array"):
        HornbeamClassifier().fit(X, targets > 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eval_set": [1]}, "eval_set must be a list of pairs"),
        ({"sample_weight_eval_set": [[1]]}, "has 1 entries and eval_set 0"),
        ({"sample_weight": [1.0]}, "weight"),
        ({"base_margin": [1.0]}, "base_margin"),
    ],
)
def test_invalid_data(arguments, message, diabetes):
    with pytest.raises(DataError, match=message):
        HornbeamRegressor(n_estimators=1).fit(*diabetes, **arguments)


def test_evals_result_without_eval_set_is_an_error(diabetes):
    model = HornbeamRegressor(n_estimators=1).fit(*diabetes)
    with pytest.raises(DataError, match="pass eval_set"):
        model.evals_result()
    with pytest.raises(AttributeError, match="early_stopping_rounds"):
        _ = model.best_iteration


# Parameters that an estimator sets itself, or that do not apply.
NOT_PARAMETERS = {
    "num_class",
    "num_target",
    "disable_default_eval_metric",
    "aft_loss_distribution",
    "aft_loss_distribution_scale",
}


def test_estimators_have_all_parameters_of_the_booster():
    taken = set(HornbeamRanker._get_param_names())
    rows = parameter_table()
    missing = {row.name for row in rows if not {row.name, *row.aliases} & taken}
    assert missing == NOT_PARAMETERS
    of_pairs = {name for name in taken if name.startswith(("lambdarank", "ndcg"))}
    for kind in ESTIMATORS:
        assert set(kind._get_param_names()) == taken - of_pairs


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5]},
        {"objective": "reg:expectileerror", "expectile_alpha": 0.3},
        {"objective": "reg:pseudohubererror", "huber_slope": 2.0},
        {"objective": "reg:tweedie", "tweedie_variance_power": 1.2},
        {"booster": "dart", "rate_drop": 0.5, "sample_type": "weighted"},
        {"booster": "gblinear", "feature_selector": "greedy", "top_k": 2},
        {"max_cached_hist_node": 3},
    ],
    ids=str,
)
def test_parameters_are_passed_to_the_booster(params, diabetes):
    X, y = diabetes
    model = clone(HornbeamRegressor(n_estimators=3, **params)).fit(X, y)
    plain = hornbeam.train(params, hornbeam.DMatrix(X, y), 3, verbose_eval=False)
    assert model.get_booster().digest() == plain.digest()
