"""Invalid input raises an error with the cause, the position and the remedy.

Errors of matrices are tested in `data/test_bad_data.py`, and those of model files in
`forest/test_broken_models.py`.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from samples import few_values, ranked

import hornbeam
from hornbeam import (
    Booster,
    DataError,
    DMatrix,
    ModelFileError,
    NotTrainedError,
    ParameterError,
    QuantileDMatrix,
    explain,
)

NAN, INF = float("nan"), float("inf")
NAMES = list("abc")
ROWS, LABELS = few_values(60, 3)
LABELS = LABELS.astype(np.float64)
DATA = DMatrix(ROWS, LABELS, feature_names=NAMES)
MODEL = hornbeam.train({"max_depth": 3}, DATA, 4)
TWO = np.stack([LABELS, -LABELS], axis=1)
VECTOR = {"multi_strategy": "multi_output_tree"}
CLASSES = {"objective": "multi:softprob", "num_class": 3}
SOFTMAX = hornbeam.train(CLASSES, DMatrix(ROWS, ranked(LABELS, 3)), 2)


def train(params=None, rows=ROWS, labels=LABELS, rounds=2, evals=None, **arguments):
    """Train; arguments of `DMatrix` are passed to it."""
    info = {
        name: arguments.pop(name)
        for name in ("weight", "base_margin", "feature_names")
        if name in arguments
    }
    return hornbeam.train(
        params or {}, DMatrix(rows, labels, **info), rounds, evals=evals, **arguments
    )


GRADES = np.arange(60.0) % 4


def rank(params=None, labels=GRADES, **info):
    """Train a ranking model with six groups."""
    data = DMatrix(ROWS, labels, **{"group": [10] * 6, **info})
    return hornbeam.train({"objective": "rank:ndcg", **(params or {})}, data, 1)


def changed(values, row, value):
    values = np.array(values, float)
    values[row] = value
    return values


def bounded(lower, upper):
    """Return survival data with these label bounds."""
    bounds = np.full(60, float(lower)), np.full(60, float(upper))
    return DMatrix(ROWS, label_lower_bound=bounds[0], label_upper_bound=bounds[1])


def half(raw):
    return bytes(raw[: len(raw) // 2])


def objective_giving(result):
    return lambda: train(obj=lambda margins, data: result)


THREE = np.ones((60, 3))


def vector_objective_giving(*result, **params):
    """Return a function that trains multi-output trees by these gradients."""
    params = {"multi_strategy": "multi_output_tree", "num_target": 3, **params}
    data = DMatrix(ROWS, THREE)
    return lambda: hornbeam.train(params, data, 1, obj=lambda margins, data: result)


class Formulas(SimpleNamespace):
    """A compiled custom objective with some invalid formulas."""

    def __init__(self, **wrong):
        right = {"gradient": lambda y, m: m - y, "hessian": lambda y, m: 1.0}
        super().__init__(**right | wrong)


def metric_giving(result):
    return lambda: train(evals=[(DATA, "a")], custom_metric=lambda p, d: result)


DART = {"booster": "dart", "rate_drop": 0.5}


def vector_leaves():
    params = {**CLASSES, "multi_strategy": "multi_output_tree"}
    return hornbeam.train(params, DMatrix(ROWS, ranked(LABELS, 3)), 2)


def linear():
    return hornbeam.train({"booster": "gblinear"}, DATA, 2)


# name: (action, error class, words of the message)
CASES = {
    # Plots
    "a plot of another object than a model": (
        lambda: explain.plot_shap_summary("model.json", ROWS),
        ParameterError,
        "must be a Booster or an estimator of Hornbeam, not str",
    ),
    "a plot of an unknown feature": (
        lambda: explain.plot_partial_dependence(MODEL, DATA, "d"),
        ParameterError,
        "'d' is not a feature of this model|'a', 'b', 'c'",
    ),
    "a plot of data without a column": (
        lambda: explain.plot_shap_summary(
            MODEL, DMatrix(ROWS[:, :2], feature_names=["a", "b"])
        ),
        DataError,
        "the columns are not those of training|missing: 'c'",
    ),
    "residuals without labels": (
        lambda: explain.plot_residuals(MODEL, DMatrix(ROWS, feature_names=NAMES)),
        DataError,
        "the data has none|pass labels",
    ),
    "calibration of regression": (
        lambda: explain.plot_calibration(MODEL, DATA),
        ParameterError,
        "'reg:squarederror' predicts no probabilities|binary:logistic",
    ),
    "residuals of classification": (
        lambda: explain.plot_residuals(SOFTMAX, DMatrix(ROWS, ranked(LABELS, 3))),
        ParameterError,
        "does not predict numbers|plot_confusion",
    ),
    "a plot of one output of several": (
        lambda: explain.plot_shap_summary(SOFTMAX, ROWS),
        ParameterError,
        "the model has 3 outputs|output='output 0'",
    ),
    "reliability of a mean": (
        lambda: explain.plot_quantile_reliability(MODEL, DATA),
        ParameterError,
        "predicts no quantiles|reg:quantileerror",
    ),
    "learning curves without evals": (
        lambda: explain.plot_learning_curves({}),
        DataError,
        "nothing was evaluated|evals_result",
    ),
    "a waterfall of a row out of range": (
        lambda: explain.plot_shap_waterfall(MODEL, DATA, 60),
        DataError,
        "there is no row 60|0 to 59",
    ),
    # Tree methods
    "exact multi-output trees": (
        lambda: hornbeam.train(
            {**CLASSES, **VECTOR, "tree_method": "exact"},
            DMatrix(ROWS, ranked(LABELS, 3)),
            1,
        ),
        ParameterError,
        "'exact' grows one tree for each output|tree_method='hist'|multi_strategy",
    ),
    "exact with categories": (
        lambda: train(
            {"tree_method": "exact"},
            pd.DataFrame({"a": LABELS, "b": pd.Categorical(["x", "y"] * 30)}),
        ),
        DataError,
        "column 'b' is categorical|'exact' splits between numbers|tree_method='hist'",
    ),
    "local sketch with categories": (
        lambda: train(
            {"tree_method": "approx", "sketch_scope": "local"},
            pd.DataFrame({"a": LABELS, "b": pd.Categorical(["x", "y"] * 30)}),
        ),
        DataError,
        "column 'b' is categorical|sketch_scope='local' splits between numbers|'hist'",
    ),
    "exact with a quantile matrix": (
        lambda: hornbeam.train(
            {"tree_method": "exact"}, QuantileDMatrix(ROWS, LABELS), 1
        ),
        DataError,
        "need the values of features|keeps only their bins|make a DMatrix",
    ),
    "sketch_scope with hist": (
        lambda: train({"sketch_scope": "local"}),
        ParameterError,
        "sketch_scope='local' requires tree_method='approx'|by 'hist'|leave",
    ),
    "default_direction with hist": (
        lambda: train({"default_direction": "left"}),
        ParameterError,
        "default_direction='left' requires tree_method='exact'|by 'hist'|or leave",
    ),
    "sketch_eps with hist": (
        lambda: train({"sketch_eps": 0.1}),
        ParameterError,
        "sketch_eps=0.1 requires tree_method='approx'|by 'hist'|leave sketch_eps out",
    ),
    "sketch_eps with exact": (
        lambda: train({"sketch_eps": 0.1, "tree_method": "exact"}),
        ParameterError,
        "sketch_eps=0.1 requires tree_method='approx'|by 'exact'|leave sketch_eps out",
    ),
    "sketch_eps and max_bin": (
        lambda: train({"sketch_eps": 0.1, "max_bin": 64, "tree_method": "approx"}),
        ParameterError,
        "sketch_eps=0.1 corresponds to max_bin=10|max_bin is 64|keep one of them",
    ),
    "max_bin with exact": (
        lambda: train({"max_bin": 64, "tree_method": "exact"}),
        ParameterError,
        "max_bin=64 has no effect on tree_method='exact'|leave it out",
    ),
    "max_cached_hist_node with a local sketch": (
        lambda: train(
            {
                "max_cached_hist_node": 9,
                "tree_method": "approx",
                "sketch_scope": "local",
            }
        ),
        ParameterError,
        "max_cached_hist_node=9 has no effect on tree_method='approx'|leave it out",
    ),
    # Line search
    "penalty with line search": (
        lambda: train({"leaf_solver": "line_search", "reg_lambda": 1.0}),
        ParameterError,
        "leaf_solver='line_search' gives|ignores reg_lambda=1.0|leave",
    ),
    "monotone constraints with line search": (
        lambda: train({"leaf_solver": "line_search", "monotone_constraints": [1]}),
        ParameterError,
        "ignores monotone_constraints=[1]|leave one of the two out",
    ),
    "line search without a loss per row": (
        lambda: train({"leaf_solver": "line_search", "objective": "rank:ndcg"}),
        ParameterError,
        "rank:ndcg is not a loss of single rows|leave leaf_solver out",
    ),
    "line search with a custom objective": (
        lambda: train(
            {"leaf_solver": "line_search"}, obj=lambda m, d: (m - LABELS, np.ones(4))
        ),
        ParameterError,
        "needs the loss itself|its gradients|as formulas|leave leaf_solver out",
    ),
    "line search of a linear model": (
        lambda: train({"leaf_solver": "line_search", "booster": "gblinear"}),
        ParameterError,
        "leaf_solver='line_search' has no effect with booster='gblinear'|leave it out",
    ),
    "updater of another tree method": (
        lambda: train({"tree_method": "hist", "updater": "grow_colmaker"}),
        ParameterError,
        "'grow_colmaker' implies tree_method='exact'|is 'hist'|leave updater out",
    ),
    "exact without rows": (
        lambda: train({"tree_method": "exact"}, np.empty((0, 2)), []),
        DataError,
        "no rows to learn from|pass at least one row",
    ),
    # Refresh, prune and merge
    "update without a model": (
        lambda: train({"process_type": "update"}),
        ParameterError,
        "updates the rounds of a model|there are none|xgb_model",
    ),
    "update of more rounds than the model has": (
        lambda: train(
            {"process_type": "update"}, rounds=5, feature_names=NAMES, xgb_model=MODEL
        ),
        ParameterError,
        "all 4 rounds of the model have been updated|lower num_boost_round",
    ),
    "update with monotone constraints": (
        lambda: train(
            {"process_type": "update", "monotone_constraints": {"a": 1}},
            rounds=1,
            feature_names=NAMES,
            xgb_model=MODEL,
        ),
        ParameterError,
        "from the data alone|ignore monotone_constraints|leave",
    ),
    "updater without update": (
        lambda: train({"updater": "prune"}),
        ParameterError,
        "updater='prune' updates the trees of a model|process_type='update'",
    ),
    "refresh_leaf without update": (
        lambda: train({"refresh_leaf": False}),
        ParameterError,
        "refresh_leaf=False has no effect|leave it out",
    ),
    "growing updater with process_type=update": (
        lambda: train({"process_type": "update", "updater": "grow_quantile_histmaker"}),
        ParameterError,
        "grows trees|'refresh', 'prune' or both",
    ),
    "decay beyond 1": (
        lambda: MODEL.refit(DATA, 1.5),
        ParameterError,
        "decay must be from 0 to 1, not 1.5",
    ),
    "refit without a model": (
        lambda: Booster().refit(DATA),
        NotTrainedError,
        "neither been trained nor loaded",
    ),
    "refit on too many targets": (
        lambda: MODEL.refit(
            DMatrix(ROWS, np.stack([LABELS] * 2, axis=1), feature_names=NAMES)
        ),
        DataError,
        "the labels have 2 columns, but the model has 1 targets",
    ),
    "merge of different objectives": (
        lambda: MODEL + SOFTMAX,
        ParameterError,
        "the models differ in objective|the same objective",
    ),
    "merge of different base scores": (
        lambda: MODEL + hornbeam.train({"base_score": 7}, DATA, 1),
        ParameterError,
        "the base scores|[7.0]|train them with the same base_score",
    ),
    "merge of different columns": (
        lambda: MODEL + train({"base_score": MODEL.model.base_score[0]}),
        ParameterError,
        "the models differ in feature_names|the same columns",
    ),
    "merge of scalar and vector leaves": (
        lambda: SOFTMAX + vector_leaves(),
        ParameterError,
        "the same multi_strategy",
    ),
    "refit of a linear model": (
        lambda: linear().refit(DATA),
        ParameterError,
        "a linear model has no leaves to refit",
    ),
    "merge of linear models": (
        lambda: linear() + linear(),
        ParameterError,
        "linear models cannot be merged",
    ),
    "update of a linear model": (
        lambda: hornbeam.train(
            {"process_type": "update", "booster": "gblinear"}, DATA, xgb_model=linear()
        ),
        ParameterError,
        "updates trees, and booster='gblinear' has none",
    ),
    "merge of no boosters": (
        lambda: hornbeam.merge([]),
        ParameterError,
        "a list of boosters, one at least",
    ),
    "monotone constraints of a linear model": (
        lambda: train({"booster": "gblinear", "monotone_constraints": (1,)}),
        ParameterError,
        "monotone_constraints=(1,) has no effect with booster='gblinear'|leave it out",
    ),
    # DART
    "dropout without dart": (
        lambda: train({"rate_drop": 0.3}),
        ParameterError,
        "rate_drop=0.3 has no effect with booster='gbtree'|set booster='dart'",
    ),
    "dart continued as gbtree": (
        lambda: Booster(
            {"booster": "gbtree"}, model_file=hornbeam.train(DART, DATA, 2).save_raw()
        ),
        ParameterError,
        "cannot continue a model of booster='dart'|leave booster out",
    ),
    "iteration range of dart in training": (
        lambda: hornbeam.train(DART, DATA, 4).predict(
            DATA, training=True, iteration_range=(0, 2)
        ),
        ParameterError,
        "training=True drops trees of all rounds|leave one of the two out",
    ),
    # Labels and weights
    "label nan": (
        lambda: train(labels=changed(LABELS, 7, NAN)),
        DataError,
        "label is nan in row 7|drop the rows",
    ),
    "label infinite": (
        lambda: train(labels=changed(LABELS, 3, -INF)),
        DataError,
        "label is -inf in row 3",
    ),
    "labels too few": (
        lambda: train(labels=LABELS[:-1]),
        DataError,
        "label has 59 values for 60 rows|one for each row",
    ),
    "labels as text": (
        lambda: train(labels=["yes"] * 60),
        DataError,
        "label must be numbers|HornbeamClassifier",
    ),
    "no labels": (
        lambda: hornbeam.train({}, DMatrix(ROWS), 1),
        DataError,
        "the training data has no labels|DMatrix(data, label)",
    ),
    "no labels to evaluate": (
        lambda: train(evals=[(DMatrix(ROWS), "valid")]),
        DataError,
        "'valid' in evals has no labels|DMatrix(data, label=...)",
    ),
    "no labels for update": (
        lambda: Booster().update(DMatrix(ROWS), 0),
        DataError,
        "no labels",
    ),
    "labels beyond float32": (
        lambda: train(labels=LABELS * 1e300),
        DataError,
        "not a finite float32 number|scale the labels",
    ),
    "weight negative": (
        lambda: train(weight=changed(np.ones(60), 5, -1)),
        DataError,
        "weight is -1.0 in row 5|must not be negative",
    ),
    "weight nan": (
        lambda: train(weight=changed(np.ones(60), 5, NAN)),
        DataError,
        "weight is nan in row 5",
    ),
    "weights all zero": (
        lambda: train(weight=np.zeros(60)),
        DataError,
        "every weight is zero|at least one row must count",
    ),
    "weights too many": (
        lambda: train(weight=np.ones(61)),
        DataError,
        "weight has 61 values for 60 rows",
    ),
    "label beyond num_class": (
        lambda: train(CLASSES, labels=np.arange(60) % 4),
        DataError,
        "label 3 in row 3|num_class=3|from 0 to 2",
    ),
    "label between classes": (
        lambda: train(CLASSES, labels=np.full(60, 0.5)),
        DataError,
        "label 0.5 in row 0|integers",
    ),
    "label outside of 0 to 1": (
        lambda: train({"objective": "binary:logistic"}, labels=np.arange(60)),
        DataError,
        "label 2 in row 2 is outside [0, 1]|code the two classes as 0 and 1",
    ),
    "label not 0 or 1": (
        lambda: train({"objective": "binary:hinge"}, labels=np.full(60, 0.5)),
        DataError,
        "label 0.5 in row 0 is not a class of binary:hinge|0 and 1",
    ),
    "label no class of the focal loss": (
        lambda: train({"objective": "binary:focal"}, labels=np.full(60, 0.5)),
        DataError,
        "label 0.5 in row 0 is not a class of binary:focal|0 and 1",
    ),
    "power of the focal loss below zero": (
        lambda: train({"objective": "binary:focal", "focal_gamma": -1}),
        ParameterError,
        "focal_gamma must be 0 or more, not -1",
    ),
    "base score of 1 for the focal loss": (
        lambda: train({"objective": "binary:focal", "base_score": 1}),
        ParameterError,
        "base_score=1 must be above 0 and below 1 for binary:focal",
    ),
    "negative amount": (
        lambda: train({"objective": "dist:lognormal"}, labels=np.arange(60.0)),
        DataError,
        "label 0 in row 0 is not above 0|dist:lognormal|dist:normal",
    ),
    "negative count of a distribution": (
        lambda: train({"objective": "dist:negbinomial"}, labels=-np.arange(60.0)),
        DataError,
        "label -1 in row 1 is not a count, as dist:negbinomial requires",
    ),
    "broken count of a distribution": (
        lambda: train({"objective": "dist:negbinomial"}, labels=np.full(60, 1.5)),
        DataError,
        "label 1.5 in row 0 is not a count",
    ),
    "distributions of several targets": (
        lambda: train({"objective": "dist:normal"}, labels=TWO),
        DataError,
        "the labels have 2 columns, and dist:normal supports one target",
    ),
    "base score with a standard deviation of 0": (
        lambda: train({"objective": "dist:normal", "base_score": [1, 0]}),
        ParameterError,
        "base_score=0 must be above 0 for the standard deviation of dist:normal",
    ),
    "interval of another objective": (
        lambda: MODEL.predict_interval(DATA),
        ParameterError,
        "objective='reg:squarederror' predicts no distribution|dist:normal",
    ),
    "interval of probability 1": (
        lambda: train({"objective": "dist:normal"}).predict_interval(DMatrix(ROWS), 1),
        ParameterError,
        "coverage must be above 0 and below 1|not 1",
    ),
    "likelihood of a single prediction": (
        lambda: train(
            {"eval_metric": "normal-nll"}, evals=[(DMatrix(ROWS, LABELS), "a")]
        ),
        DataError,
        "normal-nll measures two parameters of a distribution|objective='dist:normal'",
    ),
    "likelihood under another distribution": (
        lambda: train(
            {"objective": "dist:normal", "eval_metric": "negbinomial-nll"},
            labels=-np.arange(1.0, 61.0),
            evals=[(DMatrix(ROWS, np.arange(60.0)), "a")],
        ),
        DataError,
        "negbinomial-nll needs parameters above 0|row 0|objective='dist:negbinomial'",
    ),
    "likelihood of an invalid label": (
        lambda: train(
            {"objective": "dist:normal", "eval_metric": "lognormal-nll"},
            evals=[(DMatrix(ROWS, -np.ones(60)), "a")],
        ),
        DataError,
        "lognormal-nll needs labels that are above 0|row 0 is -1",
    ),
    "count below zero": (
        lambda: train({"objective": "count:poisson"}, labels=-np.arange(60.0)),
        DataError,
        "label -1 in row 1 is negative|reg:squarederror",
    ),
    "amount of zero": (
        lambda: train({"objective": "reg:gamma"}, labels=np.arange(60.0)),
        DataError,
        "label 0 in row 0 is not above 0|reg:squarederror",
    ),
    "label without a logarithm": (
        lambda: train({"objective": "reg:squaredlogerror"}, labels=np.full(60, -1.0)),
        DataError,
        "label -1 in row 0 is not above -1",
    ),
    "no power of Tweedie's": (
        lambda: train({"objective": "reg:tweedie", "tweedie_variance_power": 2}),
        ParameterError,
        "tweedie_variance_power must be at least 1 and below 2, not 2",
    ),
    "quantile level of 1": (
        lambda: train({"objective": "reg:quantileerror", "quantile_alpha": 1.0}),
        ParameterError,
        "quantile_alpha must be above 0 and below 1, not 1",
    ),
    "descending quantile levels": (
        lambda: train(
            {"objective": "reg:expectileerror", "expectile_alpha": [0.9, 0.1]}
        ),
        ParameterError,
        "expectile_alpha=[0.9, 0.1] must be strictly increasing|sort it",
    ),
    "no quantile level": (
        lambda: train({"objective": "reg:quantileerror"}),
        ParameterError,
        "requires quantile_alpha",
    ),
    "slope of zero": (
        lambda: train({"objective": "reg:pseudohubererror", "huber_slope": 0}),
        ParameterError,
        "huber_slope must be above 0, not 0",
    ),
    "base score of 0 for Tweedie": (
        lambda: train({"objective": "reg:tweedie", "base_score": 0}),
        ParameterError,
        "base_score=0 must be above 0 for reg:tweedie",
    ),
    "label beyond num_class in evals": (
        lambda: train(
            CLASSES,
            labels=ranked(LABELS, 3),
            evals=[(DMatrix(ROWS, np.arange(60) % 4), "valid")],
        ),
        DataError,
        "from 0 to 2|row 3 is 3|num_class",
    ),
    # Features
    "no rows": (
        lambda: train(rows=np.empty((0, 3)), labels=[]),
        DataError,
        "no rows to learn from|(0, 3)|at least one row",
    ),
    "no rows in a QuantileDMatrix": (
        lambda: QuantileDMatrix(np.empty((0, 3)), []),
        DataError,
        "no rows to learn from",
    ),
    "no rows to evaluate": (
        lambda: train(evals=[(DMatrix(ROWS[:0], LABELS[:0]), "a")]),
        DataError,
        "rmse is not defined for 0 rows",
    ),
    "no columns": (
        lambda: train(rows=np.empty((60, 0))),
        DataError,
        "no columns|(60, 0)",
    ),
    "dates among the features": (
        lambda: train(
            rows=pd.DataFrame({"n": LABELS, "day": pd.date_range("2020", periods=60)})
        ),
        DataError,
        "'day' (datetime64",
    ),
    "complex features": (
        lambda: train(rows=ROWS * 1j),
        DataError,
        "complex",
    ),
    "1-d features": (
        lambda: train(rows=ROWS[:, 0]),
        DataError,
        "2-d|(60,)|reshape(-1, 1)",
    ),
    "1-d features in place": (
        lambda: MODEL.inplace_predict(ROWS[0]),
        DataError,
        "2-d|(3,)|reshape(1, -1) for one row",
    ),
    "duplicate names": (
        lambda: train(feature_names=["a", "b", "a"]),
        DataError,
        "'a'|more than once",
    ),
    "infinite feature": (
        lambda: train(rows=changed(ROWS, (4, 1), INF)),
        DataError,
        "column 1 holds inf in row 4",
    ),
    "an array instead of a matrix": (
        lambda: hornbeam.train({}, ROWS, 1),
        DataError,
        "dtrain must be a DMatrix, not ndarray|DMatrix(data, label)",
    ),
    "an array to update": (
        lambda: Booster().update(ROWS, 0),
        DataError,
        "expected a DMatrix, got ndarray",
    ),
    "an array to evaluate": (
        lambda: MODEL.eval(ROWS),
        DataError,
        "expected a DMatrix, got ndarray",
    ),
    # Columns at prediction
    "fewer columns": (
        lambda: MODEL.predict(DMatrix(ROWS[:, :2])),
        DataError,
        "3 columns in training|has 2|same columns in the same order",
    ),
    "other names": (
        lambda: MODEL.predict(DMatrix(ROWS, feature_names=["a", "b", "x"])),
        DataError,
        "missing: 'c'|not in training: 'x'",
    ),
    "a category for a number": (
        lambda: MODEL.inplace_predict(
            pd.DataFrame({"a": ["x", "y"], "b": [1, 2], "c": [1, 2]})
        ),
        DataError,
        "categories where training had numbers: 'a'",
    ),
    "other columns in evals": (
        lambda: train(evals=[(DMatrix(ROWS[:, :2], LABELS), "valid")]),
        DataError,
        "3 columns in training|has 2",
    ),
    "other columns to continue": (
        lambda: train(rows=ROWS[:, :2], xgb_model=MODEL),
        DataError,
        "3 columns in training|has 2",
    ),
    "an array to predict": (
        lambda: MODEL.predict(ROWS),
        DataError,
        "expected a DMatrix, got ndarray|inplace_predict",
    ),
    "prediction without a model": (
        lambda: Booster().predict(DATA),
        NotTrainedError,
        "neither been trained nor loaded",
    ),
    # Margins
    "margins of other outputs": (
        lambda: train(base_margin=np.zeros((60, 2))),
        DataError,
        "base_margin has 2 columns|1 outputs",
    ),
    "one margin for three classes": (
        lambda: SOFTMAX.predict(DMatrix(ROWS, base_margin=np.zeros(60))),
        DataError,
        "base_margin has 1 columns|3 outputs",
    ),
    "margins too few in place": (
        lambda: MODEL.inplace_predict(ROWS, base_margin=[0.0]),
        DataError,
        "base_margin has 1 values for 60 rows",
    ),
    # Parameters
    "learning rate nan": (
        lambda: train({"eta": NAN}),
        ParameterError,
        "eta must be a finite number",
    ),
    "learning rate negative": (
        lambda: train({"learning_rate": -0.1}),
        ParameterError,
        "learning_rate must be 0 or more, not -0.1",
    ),
    "learning rate too large": (
        lambda: train({"eta": 1e308}, rounds=1),
        DataError,
        "leaf value is beyond the range of float32|lower learning_rate",
    ),
    "misspelt": (
        lambda: train({"max_dept": 3}),
        ParameterError,
        "unknown parameter 'max_dept'|did you mean 'max_depth'",
    ),
    "not supported": (
        lambda: train({"sparse_threshold": 0.2}),
        ParameterError,
        "'sparse_threshold' of XGBoost is not in Hornbeam yet",
    ),
    "monotone constraints for too many features": (
        lambda: train({"monotone_constraints": "(1,0,0,-1)"}),
        ParameterError,
        "monotone_constraints has 4 numbers|3 features|a dict by name",
    ),
    "monotone constraint of an unknown feature": (
        lambda: hornbeam.train({"monotone_constraints": {"x": 1}}, DATA, 1),
        ParameterError,
        "monotone_constraints names 'x'|no feature|'a', 'b', 'c'",
    ),
    "monotone constraint of a categorical feature": (
        lambda: hornbeam.train(
            {"monotone_constraints": (0, 1)},
            DMatrix(pd.DataFrame({"a": LABELS, "b": ["x", "y"] * 30}), LABELS),
            1,
        ),
        ParameterError,
        "direction for column 'b'|categories|make it 0",
    ),
    "monotone constraint of 2": (
        lambda: train({"monotone_constraints": (2, 0)}),
        ParameterError,
        "monotone_constraints must be 1, -1 or 0 (increasing, decreasing, none), not 2",
    ),
    "monotone constraints that are not a list": (
        lambda: train({"monotone_constraints": 1}),
        ParameterError,
        "monotone_constraints must be a list of numbers|or a dict by name, not 1",
    ),
    "negative feature cost": (
        lambda: train({"feature_costs": [-1]}),
        ParameterError,
        "feature_costs must be 0 or more, not -1",
    ),
    "monotone constraints with sketch_outputs": (
        lambda: train(
            {**CLASSES, **VECTOR, "sketch_outputs": 2, "monotone_constraints": (1,)},
            labels=ranked(LABELS, 3),
        ),
        ParameterError,
        "sketch_outputs=2 searches splits by projections|leave one of the two out",
    ),
    "goss with subsample": (
        lambda: train({"sampling_method": "goss", "subsample": 0.5}),
        ParameterError,
        "top_rate and other_rate|leave subsample out",
    ),
    "goss rates above 1": (
        lambda: train({"sampling_method": "goss", "top_rate": 0.7, "other_rate": 0.5}),
        ParameterError,
        "top_rate=0.7 and other_rate=0.5|their sum is above 1|lower one",
    ),
    "interactions of unknown names": (
        lambda: hornbeam.train({"interaction_constraints": [["a", "x"]]}, DATA, 1),
        ParameterError,
        "interaction_constraints names 'x'|no feature|'a', 'b', 'c'",
    ),
    "interactions of unknown indices": (
        lambda: train({"interaction_constraints": [[0, 1], [3]]}),
        ParameterError,
        "interaction_constraints names 3|there are: 0 to 2",
    ),
    "interactions that are not lists": (
        lambda: train({"interaction_constraints": [0, 1]}),
        ParameterError,
        "interaction_constraints must be a list of lists of features|[[0, 1], [2, 3]]",
    ),
    "set twice": (
        lambda: train({"eta": 0.1, "learning_rate": 0.2}),
        ParameterError,
        "eta=0.1 and learning_rate=0.2|keep one",
    ),
    "parameters as text": (
        lambda: train("eta=0.1"),
        ParameterError,
        "params must be a dict",
    ),
    # Ranking
    "grade above 31": (
        lambda: rank(labels=changed(GRADES, 3, 32)),
        DataError,
        "label 32 in row 3|whole grades from 0 to 31|ndcg_exp_gain=False",
    ),
    "fractional grade": (
        lambda: rank({"objective": "rank:xendcg"}, changed(GRADES, 3, 0.5)),
        DataError,
        "label 0.5 in row 3|whole grades",
    ),
    "negative grade": (
        lambda: rank({"ndcg_exp_gain": False}, changed(GRADES, 3, -1)),
        DataError,
        "label -1 in row 3|gains of 0 or more",
    ),
    "grades for rank:map": (
        lambda: rank({"objective": "rank:map"}),
        DataError,
        "rank:map needs labels of 1 for relevant rows|use ndcg for grades",
    ),
    "no group with a pair": (
        lambda: rank(labels=np.repeat(np.arange(6.0), 10)),
        DataError,
        "no group has rows with different labels|rank:ndcg has no pairs to learn|qid",
    ),
    "groups of one row": (
        lambda: rank(group=np.ones(60, int)),
        DataError,
        "no group has rows with different labels|groups of several rows",
    ),
    "weights that differ in a group": (
        lambda: rank(weight=changed(np.ones(60), 12, 3)),
        DataError,
        "weight is 3 in row 12 and 1 in the first row of its group, 1|for each group",
    ),
    "several labels in a ranking": (
        lambda: rank(labels=np.column_stack([GRADES, GRADES])),
        DataError,
        "2 columns|rank:ndcg supports one target",
    ),
    "num_class with a ranking": (
        lambda: rank({"num_class": 3}),
        ParameterError,
        "num_class=3 is for the objectives multi:softmax|not for rank:ndcg",
    ),
    "no pairs": (
        lambda: rank({"lambdarank_num_pair_per_sample": 0}),
        ParameterError,
        "lambdarank_num_pair_per_sample must be from 1 to",
    ),
    "unknown pair method": (
        lambda: rank({"lambdarank_pair_method": "all"}),
        ParameterError,
        "lambdarank_pair_method must be 'topk' or 'mean'",
    ),
    "metric at 0": (
        lambda: rank({"eval_metric": "ndcg@0"}),
        ParameterError,
        "needs a number of ranks|such as 'ndcg@5'",
    ),
    "misspelt objective": (
        lambda: train({"objective": "reg:squarederor"}),
        ParameterError,
        "unknown objective 'reg:squarederor'|did you mean 'reg:squarederror'",
    ),
    "survival time of zero": (
        lambda: train({"objective": "survival:cox"}, labels=changed(LABELS + 9, 4, 0)),
        DataError,
        "label 0 in row 4 is not a time for survival:cox|minus the censoring time",
    ),
    "no events": (
        lambda: train({"objective": "survival:cox"}, labels=-1 - LABELS**2),
        DataError,
        "needs events|none in 60 rows",
    ),
    "no label bounds": (
        lambda: train({"objective": "survival:aft"}),
        DataError,
        "no label_lower_bound, which survival:aft requires|label_upper_bound=...",
    ),
    "negative label bounds": (
        lambda: hornbeam.train({"objective": "survival:aft"}, bounded(-1, 0), 1),
        DataError,
        "label_upper_bound is not above 0 in row 0|correct it, or drop the row",
    ),
    "lower bound above upper bound": (
        lambda: hornbeam.train({"objective": "survival:aft"}, bounded(2, 1), 1),
        DataError,
        "label_lower_bound is 2.0 in row 0, above label_upper_bound 1.0",
    ),
    "a base score without a logarithm": (
        lambda: train({"objective": "survival:cox", "base_score": 0}),
        ParameterError,
        "base_score=0 must be above 0 for survival:cox",
    ),
    "no such distribution": (
        lambda: train({"aft_loss_distribution": "weibull"}),
        ParameterError,
        "'normal' or 'logistic' or 'extreme', not 'weibull'",
    ),
    "aft scale of zero": (
        lambda: train({"aft_loss_distribution_scale": 0}),
        ParameterError,
        "aft_loss_distribution_scale must be above 0, not 0",
    ),
    "misspelt metric": (
        lambda: train({"eval_metric": "rmsee"}),
        ParameterError,
        "unknown eval_metric 'rmsee'|did you mean 'rmse'",
    ),
    "no num_class": (
        lambda: train({"objective": "multi:softmax"}),
        ParameterError,
        "requires num_class",
    ),
    "classes without a softmax": (
        lambda: train({"num_class": 3}),
        ParameterError,
        "num_class=3 is for the objectives multi:softmax|not for reg:squarederror",
    ),
    "base scores of other outputs": (
        lambda: train({**CLASSES, "base_score": [1, 2]}),
        ParameterError,
        "base_score has 2 values|3 outputs",
    ),
    "another base score": (
        lambda: train({"base_score": 9}, xgb_model=MODEL),
        ParameterError,
        "base_score=9|leave it out when you continue",
    ),
    "other outputs": (
        lambda: train(CLASSES, xgb_model=MODEL),
        ParameterError,
        "3 outputs, but the model has 1",
    ),
    "other parallel trees": (
        lambda: train({"num_parallel_tree": 2}, xgb_model=MODEL),
        ParameterError,
        "num_parallel_tree=2 differs from the model's 1|leave it out",
    ),
    "another number of bins": (
        lambda: hornbeam.train(
            {"max_bin": 8}, QuantileDMatrix(ROWS, LABELS, max_bin=16), 1
        ),
        DataError,
        "max_bin=16|max_bin=8|same max_bin for both",
    ),
    # Arguments of train
    "negative rounds": (
        lambda: train(rounds=-1),
        ParameterError,
        "num_boost_round must be 0 or more, not -1",
    ),
    "fractional rounds": (
        lambda: train(rounds=1.5),
        ParameterError,
        "num_boost_round must be an integer, not 1.5",
    ),
    "no number of rounds": (
        lambda: train(rounds=None),
        ParameterError,
        "num_boost_round must be an integer, not None",
    ),
    "rounds nan": (
        lambda: train(rounds=NAN),
        ParameterError,
        "num_boost_round must be an integer, not nan",
    ),
    "an array in evals": (
        lambda: train(evals=[(ROWS, "valid")]),
        DataError,
        "pairs (DMatrix, name)|'valid' is a ndarray",
    ),
    "a single pair as evals": (
        lambda: train(evals=(DATA, "valid")),
        DataError,
        "pairs (DMatrix, name)",
    ),
    "early stopping on nothing": (
        lambda: train(early_stopping_rounds=3),
        DataError,
        "pass evals to train",
    ),
    "negative patience": (
        lambda: train(early_stopping_rounds=-3, evals=[(DATA, "a")]),
        ParameterError,
        "1 or more: -3",
    ),
    "xgb_model of another type": (
        lambda: train(xgb_model=3),
        ParameterError,
        "a path, the bytes of a model file, or a Booster|not from 3",
    ),
    # Custom objectives and metrics
    "objective as obj argument": (
        lambda: train(obj="reg:squarederror"),
        ParameterError,
        "must be a function|'reg:squarederror'|the parameter objective",
    ),
    "compiled objective with a wrong gradient": (
        lambda: train(obj=Formulas(hessian=lambda y, m: 3.0)),
        ParameterError,
        "hessian is 3 in row 0|label|margin -1.7|gradient changes there by 1 a margin",
    ),
    "compiled objective with nan": (
        lambda: train(obj=Formulas(gradient=lambda y, m: m**0.5 - y)),
        ParameterError,
        "Formulas: gradient is nan|in row 0|finite at any margin",
    ),
    "scalar compiled objective with classes": (
        lambda: train(CLASSES, obj=Formulas()),
        ParameterError,
        "Formulas is a loss of one margin|num_class=3|(predictions, data)",
    ),
    "objective returns nothing": (
        objective_giving(None),
        DataError,
        "must return (gradients, hessians)|not None",
    ),
    "objective returns three arrays": (
        objective_giving((LABELS, LABELS, LABELS)),
        DataError,
        "must return (gradients, hessians)",
    ),
    "split gradients for scalar leaves": (
        objective_giving((LABELS, LABELS, LABELS, LABELS)),
        ParameterError,
        "split gradients|multi_strategy='multi_output_tree'|leave",
    ),
    "split gradients with sketch_outputs": (
        vector_objective_giving(THREE, THREE, LABELS, LABELS, sketch_outputs=1),
        ParameterError,
        "split gradients|leave sketch_outputs out",
    ),
    "split gradients with monotone constraints": (
        vector_objective_giving(THREE, THREE, LABELS, LABELS, monotone_constraints=[1]),
        ParameterError,
        "monotone_constraints|leave monotone_constraints out",
    ),
    "too many split gradients": (
        vector_objective_giving(THREE, THREE, *[np.ones((60, 4))] * 2),
        DataError,
        "have 4 columns|the model has 3 outputs|one for each output at most",
    ),
    "split gradients without hessians": (
        vector_objective_giving(THREE, THREE, THREE[:, :2], LABELS),
        DataError,
        "gradients to split by have 2 columns|give a hessian for each",
    ),
    "gradients too few": (
        objective_giving((LABELS[:5], LABELS)),
        DataError,
        "gradients have the shape (5,)|60 rows|give the shape (60, 1)",
    ),
    "gradients nan": (
        objective_giving((changed(LABELS, 9, NAN), LABELS)),
        DataError,
        "gradients hold nan in row 9|must be finite",
    ),
    "hessians infinite": (
        objective_giving((LABELS, changed(LABELS, 9, INF))),
        DataError,
        "hessians hold inf in row 9",
    ),
    "hessians as text": (
        objective_giving((LABELS, ["a"] * 60)),
        DataError,
        "hessians must be an array of numbers",
    ),
    "gradients ragged": (
        objective_giving(([[1], [1, 2]] * 30, LABELS)),
        DataError,
        "gradients must be an array of numbers",
    ),
    "gradients beyond float32": (
        objective_giving((LABELS * 1e300, np.ones(60))),
        DataError,
        "not a finite float32 number",
    ),
    "no gradients": (
        lambda: Booster().boost(DATA, 0),
        DataError,
        "gradients are missing; give grad and hess",
    ),
    "gradients twice": (
        lambda: Booster().boost(DATA, 0, grad=LABELS, hess=LABELS, fobj=len),
        ParameterError,
        "either fobj, or grad and hess",
    ),
    "metric returns a number": (
        metric_giving(3.0),
        DataError,
        "must return (name, value)|not 3.0",
    ),
    "metric returns a string": (
        metric_giving(("score", "high")),
        DataError,
        "must return (name, value)|('score', 'high')",
    ),
    "metric with a tab": (
        metric_giving(("a\tb", 1.0)),
        DataError,
        "a string without tabs",
    ),
    # iteration_range
    "rounds beyond the last": (
        lambda: MODEL.predict(DATA, iteration_range=(0, 5)),
        ParameterError,
        "iteration_range=(0, 5)|4 rounds|0 <= begin < end <= 4",
    ),
    "rounds backwards": (
        lambda: MODEL.predict(DATA, iteration_range=(3, 1)),
        ParameterError,
        "iteration_range=(3, 1)",
    ),
    "rounds as one number": (
        lambda: MODEL.predict(DATA, iteration_range=3),
        ParameterError,
        "two whole numbers (begin, end), not 3",
    ),
    "rounds of inplace_predict": (
        lambda: MODEL.inplace_predict(ROWS, iteration_range=("a", "b")),
        ParameterError,
        "two whole numbers",
    ),
    "contributions and leaves": (
        lambda: MODEL.predict(DATA, pred_contribs=True, pred_leaf=True),
        ParameterError,
        "pred_leaf, pred_contribs and pred_interactions|one of them at a time",
    ),
    "contributions and interactions": (
        lambda: MODEL.predict(DATA, pred_contribs=True, pred_interactions=True),
        ParameterError,
        "one of them at a time",
    ),
    "approx_contribs without pred_contribs": (
        lambda: MODEL.predict(DATA, approx_contribs=True),
        ParameterError,
        "approx_contribs=True|pred_contribs=True or pred_interactions=True",
    ),
    "background that is not a DMatrix": (
        lambda: MODEL.shap_values(DATA, ROWS),
        DataError,
        "expected a DMatrix, got ndarray",
    ),
    "background without rows": (
        lambda: MODEL.shap_values(DATA, DMatrix(ROWS[:0], feature_names=NAMES)),
        DataError,
        "the background has no rows|a sample of the training data",
    ),
    "background with other columns": (
        lambda: MODEL.shap_values(DATA, DMatrix(ROWS, feature_names=list("abd"))),
        DataError,
        "missing: 'c'",
    ),
    "another kind of prediction": (
        lambda: MODEL.inplace_predict(ROWS, predict_type="leaf"),
        ParameterError,
        "'value' or 'margin', not 'leaf'",
    ),
    # Multi-output trees
    "sketch_outputs for scalar leaves": (
        lambda: train({"sketch_outputs": 2}),
        ParameterError,
        "sketch_outputs=2 is for multi-output trees|multi_strategy|leave",
    ),
    "negative sketch_outputs": (
        lambda: train({**VECTOR, "sketch_outputs": -1}),
        ParameterError,
        "sketch_outputs must be 0 or more, not -1",
    ),
    "scalar leaves after vector leaves": (
        lambda: train(
            labels=TWO,
            xgb_model=train(VECTOR, labels=TWO),
            params={"multi_strategy": "one_output_per_tree"},
        ),
        ParameterError,
        "multi_strategy='one_output_per_tree' differs from the model's|leave it out",
    ),
    # iteration_range of linear models and DART
    "iteration range of a linear model": (
        lambda: linear().predict(DATA, iteration_range=(0, 1)),
        ParameterError,
        "changes all weights|iteration_range=(0, 1)|leave it out",
    ),
    "a slice of a linear model": (
        lambda: linear()[:1],
        ParameterError,
        "has no separate rounds|copy() returns the whole model",
    ),
    "iteration range of dart out of range": (
        lambda: hornbeam.train(DART, DATA, 2).predict(DATA, iteration_range=(1, 3)),
        ParameterError,
        "iteration_range=(1, 3)|2 rounds",
    ),
    # Single trees and forests
    "targets beyond float32 in a tree": (
        lambda: hornbeam.DecisionTreeRegressor().fit([[1.0], [2.0]], [1.0, -1e300]),
        DataError,
        "target of row 1 is -1e+300|float32|scale the targets down",
    ),
    # Exports
    "export to an unknown language": (
        lambda: MODEL.export("model.exe"),
        ParameterError,
        "'model.exe' must be one of .onnx, .c, .py, .json, .ubj|save_model",
    ),
    "export without a model": (
        lambda: Booster().export("model.c"),
        NotTrainedError,
        "neither been trained nor loaded|train it",
    ),
    "export option of another language": (
        lambda: MODEL.export("model.py", input_type="float64"),
        ParameterError,
        "an export to '.py' has no option input_type|iteration_range, output_margin",
    ),
    # Model files
    "random bytes": (
        lambda: Booster(model_file=b"garbage"),
        ModelFileError,
        "neither JSON nor UBJSON|restore it from a copy",
    ),
    "empty file": (
        lambda: Booster(model_file=b""),
        ModelFileError,
        "it is empty",
    ),
    "truncated": (
        lambda: Booster(model_file=half(MODEL.save_raw("ubj"))),
        ModelFileError,
        "damaged or edited",
    ),
    "truncated text": (
        lambda: Booster(model_file=half(MODEL.save_raw("json"))),
        ModelFileError,
        "damaged or edited",
    ),
    "edited": (
        lambda: Booster(model_file=bytes(MODEL.save_raw("json").replace(b"1.", b"2."))),
        ModelFileError,
        "the checksum is|damaged or edited",
    ),
    "an unknown format": (
        lambda: MODEL.save_raw("deprecated"),
        ParameterError,
        "'deprecated' is unknown; pass 'json' or 'ubj'",
    ),
}


#: Cases whose formulas are compiled.
FORMULAS = {
    "compiled objective with a wrong gradient",
    "compiled objective with nan",
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[pytest.mark.jit] * (c in FORMULAS)) for c in CASES],
)
def test_bad_input_raises_a_clear_error(case):
    act, error, needed = CASES[case]
    with pytest.raises(error) as caught:
        act()
    message = str(caught.value)
    for words in needed.split("|"):
        assert words in message, message
    assert len(message) < 400 and "\n" not in message
    assert isinstance(caught.value, hornbeam.HornbeamError)


# --- Entry points ---------------------------------------------------------------------

ORDER = np.arange(60.0)
NAMED = pd.DataFrame(ROWS, columns=NAMES)
CATEGORIES = pd.DataFrame({"a": LABELS, "b": pd.Categorical(["x", "y"] * 30)})

# Invalid data for an objective, a booster or a constraint:
# (parameters, rows, other arguments of the matrix, words of the message).
UNLEARNABLE = {
    "a negative count": (
        {"objective": "count:poisson"},
        ROWS,
        {"label": changed(ORDER, 7, -1)},
        "label -1 in row 7 is negative|choose",
    ),
    "1.5 for a probability": (
        {"objective": "reg:logistic"},
        ROWS,
        {"label": changed(ORDER % 2, 7, 1.5)},
        "label 1.5 in row 7 is outside [0, 1]|code the two classes as 0 and 1",
    ),
    "1.5 for one of two classes": (
        {"objective": "binary:logistic"},
        ROWS,
        {"label": changed(ORDER % 2, 7, 1.5)},
        "label 1.5 in row 7 is outside [0, 1]|code the two classes as 0 and 1",
    ),
    "1.5 for a class and its raw margin": (
        {"objective": "binary:logitraw"},
        ROWS,
        {"label": changed(ORDER % 2, 7, 1.5)},
        "label 1.5 in row 7 is outside [0, 1]|code the two classes as 0 and 1",
    ),
    "a class beyond num_class": (
        {"objective": "multi:softmax", "num_class": 3},
        ROWS,
        {"label": changed(ORDER % 3, 7, 3)},
        "label 3 in row 7|num_class=3|from 0 to 2",
    ),
    "a zero time": (
        {"objective": "survival:cox"},
        ROWS,
        {"label": changed(ORDER + 1, 7, 0)},
        "label 0 in row 7 is not a time for survival:cox|give the time of an event",
    ),
    "a quantile at 1": (
        {"objective": "reg:quantileerror", "quantile_alpha": [0.5, 1.0]},
        ROWS,
        {"label": ORDER},
        "quantile_alpha must be above 0 and below 1, not 1",
    ),
    "an expectile at 0": (
        {"objective": "reg:expectileerror", "expectile_alpha": 0},
        ROWS,
        {"label": ORDER},
        "expectile_alpha must be above 0 and below 1, not 0",
    ),
    "lower bound above upper bound": (
        {"objective": "survival:aft"},
        ROWS,
        {
            "label_lower_bound": changed(np.full(60, 2.0), 7, 3),
            "label_upper_bound": np.full(60, 2.0),
        },
        "label_lower_bound is 3.0 in row 7, above label_upper_bound 2.0",
    ),
    "no group with a pair": (
        {"objective": "rank:pairwise"},
        ROWS,
        {"label": ORDER // 10, "group": [10] * 6},
        "no group has rows with different labels|qid or group",
    ),
    "monotone constraint of a categorical feature": (
        {"monotone_constraints": {"b": 1}},
        CATEGORIES,
        {"label": LABELS},
        "a direction for column 'b'|categories|make it 0",
    ),
    "four constraints for three features": (
        {"monotone_constraints": (0, 1, 1, 1)},
        ROWS,
        {"label": LABELS},
        "monotone_constraints has 4 numbers|3 features|by name",
    ),
    "monotone constraint of an unknown name": (
        {"monotone_constraints": {"x": 1}},
        NAMED,
        {"label": LABELS},
        "monotone_constraints names 'x'|there are: 'a', 'b', 'c'",
    ),
    "interactions of an unknown name": (
        {"interaction_constraints": [["a", "x"]]},
        NAMED,
        {"label": LABELS},
        "interaction_constraints names 'x'|there are: 'a', 'b', 'c'",
    ),
    "gradients of the wrong shape": (
        {"obj": lambda margins, data: (margins[:5], np.ones(5))},
        ROWS,
        {"label": LABELS},
        "gradients have the shape (5,)|rows|give the shape",
    ),
    "gradient nan": (
        {"obj": lambda m, data: (changed(m, 9, NAN), np.ones(len(m)))},
        ROWS,
        {"label": LABELS},
        "gradients hold nan in row 9|must be finite",
    ),
}


def by_train(params, obj, rows, info):
    hornbeam.train(params, DMatrix(rows, **info), 1, obj=obj)


def by_quantile_matrix(params, obj, rows, info):
    hornbeam.train(params, QuantileDMatrix(rows, **info), 1, obj=obj)


def by_cv(params, obj, rows, info):
    hornbeam.cv(params, DMatrix(rows, **info), 1, nfold=3, obj=obj)


def by_estimator(params, obj, rows, info):
    objective = str(params.get("objective", ""))
    if objective.startswith(("survival:aft", "multi:")):
        pytest.skip("it has no bounds to fit, and counts classes itself")
    ranks = objective.startswith("rank:")
    kind = hornbeam.HornbeamRanker if ranks else hornbeam.HornbeamRegressor
    if obj is not None:
        params = {**params, "objective": lambda y, margins: obj(margins, None)}
    groups = {name: values for name, values in info.items() if name != "label"}
    kind(n_estimators=1, **params).fit(rows, info["label"], **groups)


@pytest.mark.parametrize("way", [by_train, by_quantile_matrix, by_cv, by_estimator])
@pytest.mark.parametrize("case", UNLEARNABLE)
def test_invalid_training_data_is_rejected_by_each_entry_point(case, way):
    params, rows, info, needed = UNLEARNABLE[case]
    own = {**params}
    obj = own.pop("obj", None)
    with pytest.raises(hornbeam.HornbeamError) as caught:
        way(own, obj, rows, info)
    for words in needed.split("|"):
        assert words in str(caught.value)


# --- After an error -------------------------------------------------------------------


def test_an_error_does_not_change_the_model():
    model = MODEL.copy()
    digest = model.digest()
    for act in (
        lambda: model.update(DMatrix(ROWS), 0),
        lambda: model.update(DMatrix(ROWS[:, :2], LABELS), 0),
        lambda: model.update(DATA, 0, lambda margins, data: None),
        lambda: model.boost(DATA, 0, grad=LABELS, hess=changed(LABELS, 0, NAN)),
        lambda: model.set_param("eta", NAN),
        lambda: model.set_param({"base_score": 3}),
        lambda: model.load_model(b"garbage"),
    ):
        with pytest.raises(hornbeam.HornbeamError):
            act()
        assert model.digest() == digest
    model.update(DATA, 0)
    again = MODEL.copy()
    again.update(DATA, 0)
    assert model.digest() == again.digest()


def test_a_new_model_can_be_trained_after_an_error():
    model = Booster({"max_depth": 3})
    for data in (
        DMatrix(ROWS),
        DMatrix(np.empty((0, 2)), []),
        DMatrix(changed(ROWS[:, :2], (0, 0), INF), LABELS),
    ):
        with pytest.raises(DataError):
            model.update(data, 0)
    for number in range(4):
        model.update(DATA, number)
    assert model.digest() == MODEL.digest()
