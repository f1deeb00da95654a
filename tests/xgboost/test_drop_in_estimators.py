"""Estimators compared with XGBoost: the same code has the same results."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from contextlib import redirect_stdout

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import log_loss, mean_absolute_error, ndcg_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from hornbeam import xgboost as ours

theirs = pytest.importorskip("xgboost")

RNG = np.random.default_rng(7)
X = RNG.normal(size=(120, 5)).astype(np.float32)
Y = X[:, 0] * 3 + np.abs(X[:, 1]) + RNG.normal(size=120) * 0.1
BINARY = (Y > 1).astype(int)
THREE = np.digitize(Y, [0, 2])
TWO_COLUMNS = np.stack([Y, -2 * Y], axis=1)
LABELS, MULTILABEL = make_multilabel_classification(120, 5, n_classes=3, random_state=0)
WEIGHTS = RNG.random(120) + 0.5
FRAME = pd.DataFrame(X, columns=list("abcde"))
CATEGORIES = FRAME.assign(
    kind=pd.Categorical(RNG.choice(["red", "green", "blue"], 120))
)
GRADES = RNG.integers(0, 4, 120)
QID = np.repeat(np.arange(12), 10)
GROUPED = FRAME.assign(qid=QID)
EVALS = [(X, Y), (X[:40], Y[:40])]

CASES = []


def case(function):
    """Register a function to run with both modules."""
    CASES.append(function)
    return function


def comparable(value):
    """Return a value in a comparable form."""
    if isinstance(value, dict):
        return {name: comparable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(one) for one in value]
    if isinstance(value, np.ndarray):
        return ["array", value.dtype.str, value.shape, value.tolist()]
    if isinstance(value, float | np.floating):
        return float(value)
    return value


def observed(function, module):
    """Return the result or error of a function, its warnings and printed lines."""
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            found = comparable(function(module))
        except Exception as error:
            found = [kind.__name__ for kind in type(error).__mro__ if kind in COMMON]
    kinds = sorted({one.category.__name__ for one in caught})
    return found, kinds, printed.getvalue().splitlines()


#: The classes by which code may catch errors.
COMMON = {
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    NotImplementedError,
    TypeError,
    ValueError,
}


def assert_close(found, expected):
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for name, one in expected.items():
            assert_close(found[name], one)
    elif isinstance(expected, list):
        assert isinstance(found, list)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True)
    else:
        assert found == expected
        assert type(found) is type(expected)


def assert_same_lines(found, expected):
    """Compare printed lines, except for the last digits of numbers."""
    assert len(found) == len(expected)
    for line, other in zip(found, expected, strict=True):
        words, numbers = split_numbers(line)
        other_words, other_numbers = split_numbers(other)
        assert words == other_words
        assert numbers == pytest.approx(other_numbers, abs=2e-4)


def split_numbers(line):
    words, numbers = [], []
    for word in line.split("\t"):
        name, colon, value = word.rpartition(":")
        words.append(name + colon if colon else value)
        if colon:
            assert len(value.rpartition(".")[2]) == 5
            numbers.append(float(value))
    return words, numbers


# Regression


@case
def regressor(xgb):
    model = xgb.XGBRegressor(n_estimators=4, max_depth=3)
    returned = model.fit(X, Y) is model
    return {
        "returned": returned,
        "predictions": model.predict(X),
        "margins": model.predict(X, output_margin=True),
        "two rounds": model.predict(X, iteration_range=(0, 2)),
        "from a margin": model.predict(X, base_margin=Y),
        "leaves": model.apply(X),
        "leaves of two rounds": model.apply(X, (0, 2)),
        "importances": model.feature_importances_,
        "features": model.n_features_in_,
        "intercept": model.intercept_,
        "score": model.score(X, Y),
        "rounds": model.get_num_boosting_rounds(),
        "fitted": check_is_fitted(model),
        "trees": len(model.get_booster().get_dump()),
    }


@case
def printed_scores(xgb):
    model = xgb.XGBRegressor(n_estimators=4, max_depth=2, eval_metric=["mae", "rmse"])
    model.fit(X, Y, eval_set=EVALS)
    return model.evals_result()


@case
def scores_printed_every_third_round(xgb):
    model = xgb.XGBRegressor(n_estimators=8, max_depth=2)
    model.fit(X, Y, eval_set=EVALS, verbose=3)
    return list(model.evals_result())


@case
def no_printed_scores(xgb):
    return (
        xgb.XGBRegressor(n_estimators=2)
        .fit(X, Y, eval_set=EVALS, verbose=False)
        ._get_type()
    )


@case
def early_stopping(xgb):
    model = xgb.XGBRegressor(
        n_estimators=60, learning_rate=1.0, early_stopping_rounds=3, eval_metric="mae"
    )
    model.fit(X[:60], Y[:60], eval_set=[(X[60:], Y[60:])], verbose=10)
    all_rounds = model.get_booster().num_boosted_rounds()
    return {
        "best": model.best_iteration,
        "score": model.best_score,
        "rounds": all_rounds,
        "predictions": model.predict(X),
        "of all": model.predict(X, iteration_range=(0, all_rounds)),
        "leaves": model.apply(X).shape,
        "attributes": sorted(model.get_booster().attributes()),
    }


@case
def early_stopping_without_evaluation(xgb):
    return xgb.XGBRegressor(early_stopping_rounds=2).fit(X, Y)


@case
def no_early_stopping(xgb):
    return xgb.XGBRegressor(n_estimators=2).fit(X, Y).best_iteration


@case
def two_targets(xgb):
    model = xgb.XGBRegressor(n_estimators=3, max_depth=2).fit(X, TWO_COLUMNS)
    return (
        model.predict(X),
        model.intercept_,
        model.apply(X).shape,
        model.score(X, TWO_COLUMNS),
    )


@case
def two_targets_in_one_tree(xgb):
    model = xgb.XGBRegressor(
        n_estimators=3, max_depth=2, multi_strategy="multi_output_tree"
    )
    return model.fit(X, TWO_COLUMNS).predict(X), model.apply(X).shape


@case
def custom_objective_of_two_targets(xgb):
    def squared(y_true, y_pred):
        return y_pred - y_true, np.ones_like(y_true)

    model = xgb.XGBRegressor(n_estimators=3, max_depth=2, objective=squared)
    return model.fit(X, TWO_COLUMNS).predict(X)


@case
def base_scores_of_two_targets(xgb):
    model = xgb.XGBRegressor(n_estimators=2, base_score=[0.5, 1.5])
    return model.fit(X, TWO_COLUMNS).predict(X), model.intercept_


@case
def base_scores_of_multi_label_targets(xgb):
    model = xgb.XGBClassifier(n_estimators=2, base_score=np.array([0.2, 0.3, 0.5]))
    return model.fit(LABELS, MULTILABEL).predict_proba(LABELS), model.intercept_


@case
def infinite_values(xgb):
    return xgb.XGBRegressor().fit(np.where(X > 1, np.inf, X), Y)


@case
def weights_and_margins(xgb):
    model = xgb.XGBRegressor(n_estimators=3, max_depth=2)
    model.fit(
        X,
        Y,
        sample_weight=WEIGHTS,
        base_margin=Y / 2,
        eval_set=EVALS[1:],
        sample_weight_eval_set=[WEIGHTS[:40]],
        base_margin_eval_set=[Y[:40] / 2],
        verbose=False,
    )
    return model.evals_result(), model.predict(X, base_margin=Y / 2)


@case
def linear(xgb):
    model = xgb.XGBRegressor(
        booster="gblinear", n_estimators=20, updater="coord_descent"
    )
    model.fit(X, Y)
    return model.coef_, model.intercept_, model.predict(X), model.feature_importances_


@case
def linear_of_three_classes(xgb):
    model = xgb.XGBClassifier(
        booster="gblinear", n_estimators=5, updater="coord_descent"
    )
    model.fit(X, THREE)
    return model.coef_.shape, model.intercept_.shape, model.feature_importances_.shape


@case
def coefficients_of_trees(xgb):
    return xgb.XGBRegressor(n_estimators=1).fit(X, Y).coef_


@case
def dart(xgb):
    model = xgb.XGBRegressor(booster="dart", n_estimators=3, max_depth=2)
    return model.fit(X, Y).predict(X), model.feature_importances_


@case
def importances_of_every_type(xgb):
    found = {}
    for kind in ("weight", "gain", "cover", "total_gain", "total_cover"):
        model = xgb.XGBRegressor(n_estimators=3, max_depth=2, importance_type=kind)
        found[kind] = model.fit(X, Y).feature_importances_
    return found


@case
def importances_of_no_splits(xgb):
    return xgb.XGBRegressor(n_estimators=1, gamma=1e9).fit(X, Y).feature_importances_


@case
def no_rounds(xgb):
    return xgb.XGBRegressor(n_estimators=0).fit(X, Y).predict(X)


@case
def missing_as_a_number(xgb):
    holes = np.where(X > 1.5, -999.0, X)
    model = xgb.XGBRegressor(n_estimators=3, max_depth=2, missing=-999.0).fit(holes, Y)
    return model.predict(holes)


@case
def custom_objective_and_metric(xgb):
    def squared(y_true, y_pred):
        return y_pred - y_true, np.ones_like(y_true)

    model = xgb.XGBRegressor(
        n_estimators=3,
        objective=squared,
        eval_metric=mean_absolute_error,
        base_score=0.5,
    )
    model.fit(X, Y, eval_set=EVALS[1:])
    return model.predict(X), model.evals_result(), callable(model.objective)


@case
def custom_objective_with_weights(xgb):
    def weighted(y_true, y_pred, sample_weight=None):
        return (y_pred - y_true) * sample_weight, np.ones_like(y_true) * sample_weight

    model = xgb.XGBRegressor(n_estimators=3, objective=weighted)
    return model.fit(X, Y, sample_weight=WEIGHTS).predict(X)


@case
def custom_objective_without_sample_weight(xgb):
    def squared(y_true, y_pred):
        return y_pred - y_true, np.ones_like(y_true)

    return xgb.XGBRegressor(objective=squared).fit(X, Y, sample_weight=WEIGHTS)


@case
def named_and_custom_metrics(xgb):
    model = xgb.XGBRegressor(n_estimators=2, eval_metric=["rmse", mean_absolute_error])
    return model.fit(X, Y, eval_set=EVALS[1:]).evals_result()


@case
def two_custom_metrics(xgb):
    metrics = [mean_absolute_error, log_loss]
    return xgb.XGBRegressor(eval_metric=metrics).fit(X, Y)


@case
def metric_of_a_wrong_type(xgb):
    return xgb.XGBRegressor(eval_metric=3).fit(X, Y)


@case
def metrics_with_a_wrong_type(xgb):
    return xgb.XGBRegressor(eval_metric=["rmse", 3]).fit(X, Y)


@case
def evals_result_without_eval_set(xgb):
    return xgb.XGBRegressor(n_estimators=1).fit(X, Y).evals_result()


@case
def weights_without_eval_set(xgb):
    return xgb.XGBRegressor().fit(X, Y, sample_weight_eval_set=[WEIGHTS])


@case
def too_few_weights_of_eval_set(xgb):
    return xgb.XGBRegressor().fit(
        X, Y, eval_set=EVALS, sample_weight_eval_set=[WEIGHTS]
    )


@case
def feature_weights_twice(xgb):
    model = xgb.XGBRegressor(feature_weights=np.ones(5))
    return model.fit(X, Y, feature_weights=np.ones(5))


@case
def feature_weights_of_fit(xgb):
    model = xgb.XGBRegressor(n_estimators=1)
    return model.fit(X, Y, feature_weights=np.ones(5)).n_features_in_


@case
def positional_arguments(xgb):
    model = xgb.XGBRegressor(n_estimators=2)
    return model.fit(X, Y, WEIGHTS).predict(X, True)


@case
def continued_training(xgb):
    first = xgb.XGBRegressor(n_estimators=2, max_depth=2).fit(X, Y)
    again = xgb.XGBRegressor(n_estimators=3, max_depth=2)
    from_estimator = again.fit(X, Y, xgb_model=first).predict(X)
    from_booster = again.fit(X, Y, xgb_model=first.get_booster()).predict(X)
    return from_estimator, from_booster, again.get_booster().num_boosted_rounds()


@case
def unfitted_predict(xgb):
    return xgb.XGBRegressor().predict(X)


@case
def unfitted_attributes(xgb):
    return hasattr(xgb.XGBRegressor(), "n_features_in_")


@case
def too_many_columns(xgb):
    return xgb.XGBRegressor(n_estimators=1).fit(X, Y).predict(np.zeros((2, 9)))


@case
def frames(xgb):
    model = xgb.XGBRegressor(n_estimators=3, max_depth=2).fit(FRAME, Y)
    return (
        model.predict(FRAME),
        model.feature_names_in_.tolist(),
        model.feature_importances_,
    )


@case
def feature_names_of_arrays(xgb):
    return xgb.XGBRegressor(n_estimators=1).fit(X, Y).feature_names_in_


@case
def mismatched_feature_names(xgb):
    model = xgb.XGBRegressor(n_estimators=1).fit(FRAME, Y)
    return model.predict(FRAME.rename(columns={"a": "z"}))


@case
def mismatched_feature_names_not_validated(xgb):
    model = xgb.XGBRegressor(n_estimators=2).fit(FRAME, Y)
    return model.predict(FRAME.rename(columns={"a": "z"}), validate_features=False)


@case
def sparse(xgb):
    filled = np.where(np.abs(X) > 0.8, X, 0)
    found = []
    for kind in (
        scipy.sparse.csr_matrix,
        scipy.sparse.csc_matrix,
        scipy.sparse.coo_matrix,
    ):
        model = xgb.XGBRegressor(n_estimators=2, max_depth=2).fit(kind(filled), Y)
        found.append(model.predict(kind(filled)))
    return found


@case
def lists(xgb):
    model = xgb.XGBRegressor(n_estimators=2, max_depth=2).fit(X.tolist(), Y.tolist())
    return model.predict(X.tolist())


@case
def categories(xgb):
    model = xgb.XGBRegressor(n_estimators=3, max_depth=2, enable_categorical=True)
    model.fit(CATEGORIES, Y, eval_set=[(CATEGORIES[:40], Y[:40])], verbose=False)
    return model.predict(CATEGORIES), model.evals_result(), model.apply(CATEGORIES)


@case
def invalid_category_codes(xgb):
    codes = np.column_stack([THREE, X[:, 1].round(1)])
    model = xgb.XGBRegressor(
        n_estimators=3,
        max_depth=3,
        max_cat_to_onehot=1,
        enable_categorical=True,
        feature_types=["c", "q"],
    )
    model.fit(codes, THREE * 2.0)
    odd = np.column_stack([[-1, 7, 100_000, 0.5, 2.5, np.nan], np.zeros(6)])
    booster = model.get_booster()
    contributions = booster.predict(xgb.DMatrix(odd), pred_contribs=True)
    return model.predict(odd), model.apply(odd), contributions


@case
def category_codes_out_of_range(xgb):
    model = xgb.XGBRegressor(n_estimators=3, max_depth=3, enable_categorical=True)
    model.fit(CATEGORIES[["kind", "a"]].round(1), Y.round())
    return model.predict(np.array([[0, 0.5], [2, 0.5], [9, 0.5], [-1, 0.5]]))


@case
def categories_not_enabled(xgb):
    return xgb.XGBRegressor().fit(CATEGORIES, Y)


@case
def categories_with_exact(xgb):
    model = xgb.XGBRegressor(enable_categorical=True, tree_method="exact")
    return model.fit(CATEGORIES, Y)


@case
def constraints(xgb):
    found = []
    for monotone in ({"a": 1}, (1, 0, 0, 0, 0), "(1,0,0,0,0)"):
        model = xgb.XGBRegressor(
            n_estimators=3, max_depth=3, monotone_constraints=monotone
        )
        found.append(model.fit(FRAME, Y).predict(FRAME))
    together = [["a", "b"], ["c", "d", "e"]]
    model = xgb.XGBRegressor(n_estimators=3, interaction_constraints=together)
    return [*found, model.fit(FRAME, Y).predict(FRAME)]


@case
def callbacks_of_an_estimator(xgb):
    class Rounds(xgb.callback.TrainingCallback):
        def __init__(self):
            self.seen = []

        def after_iteration(self, model, epoch, evals_log):
            self.seen.append((epoch, list(evals_log)))
            return epoch == 2

    callback = Rounds()
    model = xgb.XGBRegressor(n_estimators=9, callbacks=[callback])
    model.fit(X, Y, eval_set=EVALS[1:], verbose=False)
    return callback.seen, model.get_booster().num_boosted_rounds()


# Classification


@case
def two_classes(xgb):
    model = xgb.XGBClassifier(n_estimators=3, max_depth=2)
    model.fit(X, BINARY, eval_set=[(X, BINARY)])
    return {
        "classes": model.classes_,
        "count": model.n_classes_,
        "labels": model.predict(X),
        "margins": model.predict(X, output_margin=True),
        "probabilities": model.predict_proba(X),
        "objective": model.objective,
        "accuracy": model.score(X, BINARY),
        "intercept": model.intercept_,
        "history": model.evals_result(),
    }


@case
def three_classes(xgb):
    model = xgb.XGBClassifier(n_estimators=3, max_depth=2)
    model.fit(X, THREE, eval_set=[(X, THREE)], verbose=2)
    return {
        "classes": model.classes_,
        "labels": model.predict(X),
        "margins": model.predict(X, output_margin=True),
        "probabilities": model.predict_proba(X),
        "objective": model.objective,
        "parameters": model.get_params()["objective"],
        "importances": model.feature_importances_,
        "leaves": model.apply(X).shape,
        "intercept": model.intercept_,
    }


@case
def softmax(xgb):
    model = xgb.XGBClassifier(n_estimators=3, max_depth=2, objective="multi:softmax")
    model.fit(X, THREE)
    return model.predict(X), model.predict_proba(X), model.objective


@case
def softprob_of_two_classes(xgb):
    model = xgb.XGBClassifier(n_estimators=3, objective="multi:softprob", num_class=2)
    model.fit(X, BINARY)
    return model.predict(X), model.predict_proba(X), model.get_params()["num_class"]


@case
def multi_label_targets(xgb):
    model = xgb.XGBClassifier(n_estimators=3, max_depth=2).fit(LABELS, MULTILABEL)
    return model.predict(LABELS), model.predict_proba(LABELS), model.n_classes_


@case
def one_class(xgb):
    model = xgb.XGBClassifier(n_estimators=1).fit(X, np.zeros(120))
    return model.n_classes_, model.classes_, model.predict_proba(X).shape


@case
def labels_from_one(xgb):
    return xgb.XGBClassifier().fit(X, BINARY + 1)


@case
def string_labels(xgb):
    return xgb.XGBClassifier().fit(X, np.where(BINARY, "yes", "no"))


@case
def fractional_labels(xgb):
    return xgb.XGBClassifier().fit(X, BINARY * 0.5)


@case
def boolean_labels(xgb):
    model = xgb.XGBClassifier(n_estimators=2).fit(X, BINARY == 1)
    return model.predict(X), model.classes_


@case
def labels_in_a_series(xgb):
    model = xgb.XGBClassifier(n_estimators=2).fit(FRAME, pd.Series(BINARY))
    return model.predict(FRAME)


@case
def custom_objective_of_a_classifier(xgb):
    def logistic(y_true, y_pred):
        p = 1 / (1 + np.exp(-y_pred))
        return p - y_true, p * (1 - p)

    model = xgb.XGBClassifier(n_estimators=3, objective=logistic)
    model.fit(X, BINARY)
    return (
        model.predict(X),
        model.predict_proba(X),
        model.predict(X, output_margin=True),
    )


@case
def custom_metric_of_probabilities(xgb):
    model = xgb.XGBClassifier(n_estimators=3, eval_metric=log_loss)
    model.fit(X, BINARY, eval_set=[(X, BINARY)])
    return model.evals_result()


@case
def custom_metric_of_labels(xgb):
    def wrong(labels, classes):
        return float(np.mean(labels != classes))

    model = xgb.XGBClassifier(
        n_estimators=3, objective="multi:softmax", eval_metric=wrong
    )
    model.fit(X, THREE, eval_set=[(X, THREE)])
    return model.evals_result()


@case
def documentation_link(xgb):
    return [kind()._get_doc_link() for kind in (xgb.XGBRegressor, xgb.XGBRFClassifier)]


@case
def balanced_classes(xgb):
    model = xgb.XGBClassifier(n_estimators=3, scale_pos_weight=3.0)
    return model.fit(X, BINARY).predict_proba(X)


# Forests


@case
def forests(xgb):
    regressor = xgb.XGBRFRegressor(
        n_estimators=5, max_depth=3, subsample=1, colsample_bynode=1
    )
    classifier = xgb.XGBRFClassifier(
        n_estimators=5, max_depth=3, subsample=1, colsample_bynode=1
    )
    regressor.fit(X, Y)
    classifier.fit(X, BINARY)
    return {
        "rounds": [
            regressor.get_num_boosting_rounds(),
            classifier.get_num_boosting_rounds(),
        ],
        "trees": len(regressor.get_booster().get_dump()),
        "boosted": regressor.get_booster().num_boosted_rounds(),
        "parallel": regressor.get_xgb_params()["num_parallel_tree"],
        "usual": xgb.XGBRFRegressor().get_xgb_params()["num_parallel_tree"],
        "predictions": regressor.predict(X),
        "labels": classifier.predict(X),
        "probabilities": classifier.predict_proba(X),
        "parameters": [
            xgb.XGBRFRegressor().get_params()[name]
            for name in ("learning_rate", "subsample", "colsample_bynode", "reg_lambda")
        ],
    }


@case
def forest_with_early_stopping(xgb):
    return xgb.XGBRFRegressor(early_stopping_rounds=2)


@case
def forest_with_callbacks(xgb):
    return xgb.XGBRFClassifier().set_params(callbacks=[]).fit(X, BINARY)


# Ranking


@case
def ranking_by_qid(xgb):
    model = xgb.XGBRanker(n_estimators=3, max_depth=2)
    model.fit(X, GRADES, qid=QID, eval_set=[(X, GRADES)], eval_qid=[QID], verbose=True)
    return model.predict(X), model.evals_result(), model.objective


@case
def ranking_by_group(xgb):
    model = xgb.XGBRanker(n_estimators=3, max_depth=2, objective="rank:pairwise")
    model.fit(
        X,
        GRADES,
        group=[10] * 12,
        eval_set=[(X[:20], GRADES[:20])],
        eval_group=[[10, 10]],
        sample_weight=np.arange(12) + 1.0,
    )
    return model.predict(X), model.evals_result()


@case
def ranking_by_a_column(xgb):
    model = xgb.XGBRanker(n_estimators=3, max_depth=2)
    model.fit(GROUPED, GRADES)
    return (
        model.predict(GROUPED),
        model.predict(FRAME),
        model.apply(GROUPED),
        model.score(GROUPED, GRADES),
        model.n_features_in_,
    )


@case
def ranking_by_a_column_among_numbers(xgb):
    numbered = pd.DataFrame(X).assign(qid=QID)
    model = xgb.XGBRanker(n_estimators=3, max_depth=2).fit(numbered, GRADES)
    return model.predict(numbered), model.n_features_in_


@case
def ranking_with_custom_metric(xgb):
    def ndcg(y_true, y_score):
        return ndcg_score([y_true], [y_score])

    model = xgb.XGBRanker(n_estimators=3, max_depth=2, eval_metric=ndcg)
    model.fit(GROUPED, GRADES, eval_set=[(GROUPED, GRADES)])
    return model.evals_result(), model.score(GROUPED, GRADES)


@case
def ranking_without_groups(xgb):
    return xgb.XGBRanker().fit(X, GRADES)


@case
def ranking_with_column_and_qid(xgb):
    return xgb.XGBRanker().fit(GROUPED, GRADES, qid=QID)


@case
def ranking_with_a_regression_objective(xgb):
    return xgb.XGBRanker(objective="reg:squarederror")


@case
def ranking_with_custom_objective(xgb):
    return xgb.XGBRanker(objective=lambda y_true, y_pred: (y_pred, y_pred))


@case
def ranking_parameters(xgb):
    model = xgb.XGBRanker(
        n_estimators=3,
        lambdarank_num_pair_per_sample=4,
        lambdarank_pair_method="topk",
        eval_metric=["ndcg@4", "map@4"],
        objective="rank:ndcg",
    )
    model.fit(X, GRADES > 1, qid=QID, eval_set=[(X, GRADES > 1)], eval_qid=[QID])
    return model.get_xgb_params()[
        "lambdarank_num_pair_per_sample"
    ], model.evals_result()


# Parameters


@case
def parameters(xgb):
    found = {}
    for name in (
        "XGBModel",
        "XGBRegressor",
        "XGBClassifier",
        "XGBRanker",
        "XGBRFRegressor",
        "XGBRFClassifier",
    ):
        estimator = getattr(xgb, name)
        found[name] = [
            estimator().get_params(),
            estimator().get_xgb_params(),
            repr(estimator(max_depth=3)),
        ]
    return found


@case
def parameters_in_kwargs(xgb):
    own = {"objective": "reg:tweedie", "tweedie_variance_power": 1.2}
    model = xgb.XGBRegressor(n_estimators=2, **own)
    model.fit(X, np.abs(Y))
    other = clone(model)
    return (
        model.get_params()["tweedie_variance_power"],
        model.kwargs,
        other.get_params()["tweedie_variance_power"],
        model.predict(X),
    )


@case
def set_params(xgb):
    model = xgb.XGBRegressor(max_depth=2)
    returned = model.set_params(max_depth=3, tweedie_variance_power=1.2)
    return returned is model, model.max_depth, model.kwargs, model.get_xgb_params()


@case
def set_params_of_a_fitted_model(xgb):
    model = xgb.XGBRegressor(n_estimators=2).fit(X, Y)
    model.set_params(n_estimators=7, eta=0.2)
    return model.get_num_boosting_rounds(), model.kwargs, model.predict(X)


@case
def unknown_parameters(xgb):
    return xgb.XGBRegressor(n_estimators=1, max_deth=3).fit(X, Y).n_features_in_


@case
def parameters_of_a_subclass(xgb):
    class Subclass(xgb.XGBRegressor):
        def __init__(self, depth=2, **kwargs):
            self.depth = depth
            super().__init__(max_depth=depth, **kwargs)

    model = Subclass(depth=3, n_estimators=2)
    return sorted(model.get_params()), model.max_depth, clone(model).n_estimators


@case
def random_generators(xgb):
    found = []
    for generator in (np.random.RandomState(3), np.random.default_rng(3)):
        model = xgb.XGBRegressor(random_state=generator)
        found.append(model.get_params()["random_state"])
    return found


@case
def categories_as_types(xgb):
    model = xgb.XGBRegressor(n_estimators=1, enable_categorical=True).fit(CATEGORIES, Y)
    return xgb.XGBRegressor(feature_types=model.get_booster().get_categories())


@case
def metadata_requests(xgb):
    found = {}
    for name in ("XGBRegressor", "XGBClassifier", "XGBRanker", "XGBRFClassifier"):
        routing = getattr(xgb, name)().get_metadata_routing()
        found[name] = {
            method: getattr(routing, method).requests
            for method in ("fit", "predict", "predict_proba", "score")
        }
    return found


@case
def tags(xgb):
    found = []
    for name in (
        "XGBModel",
        "XGBRegressor",
        "XGBClassifier",
        "XGBRanker",
        "XGBRFClassifier",
    ):
        model = getattr(xgb, name)(enable_categorical=True)
        found.append(
            [repr(model.__sklearn_tags__()), is_classifier(model), is_regressor(model)]
        )
    return found


# Copies and tools of scikit-learn


@case
def copies(xgb):
    model = xgb.XGBClassifier(n_estimators=2, max_depth=2).fit(X, THREE)
    expected = model.predict_proba(X)
    written = io.BytesIO()
    joblib.dump(model, written)
    written.seek(0)
    again = [
        pickle.loads(pickle.dumps(model)),
        cloudpickle.loads(cloudpickle.dumps(model)),
        joblib.load(written),
        copy.deepcopy(model),
    ]
    return [
        [np.array_equal(one.predict_proba(X), expected), one.n_classes_]
        for one in again
    ]


@case
def search(xgb):
    grid = GridSearchCV(
        xgb.XGBRegressor(n_estimators=2),
        {"max_depth": [1, 3], "reg_lambda": [1, 9]},
        cv=3,
    )
    grid.fit(X, Y)
    return grid.best_params_, grid.cv_results_["mean_test_score"]


@case
def pipeline(xgb):
    model = make_pipeline(StandardScaler(), xgb.XGBClassifier(n_estimators=2))
    return cross_val_score(model, X, BINARY, cv=3)


@case
def clone_of_a_fitted_model(xgb):
    model = xgb.XGBClassifier(n_estimators=2).fit(X, THREE)
    return clone(model).get_params()["objective"], hasattr(clone(model), "n_classes_")


@pytest.mark.parametrize("lines", CASES, ids=lambda lines: lines.__name__)
def test_both_estimators_behave_equally(lines):
    found, warned, printed = observed(lines, ours)
    expected, to_warn, to_print = observed(lines, theirs)
    assert_close(found, expected)
    assert warned == to_warn
    assert_same_lines(printed, to_print)
