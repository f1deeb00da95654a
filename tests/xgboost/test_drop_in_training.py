"""Training compared with XGBoost: printed lines, scores, callbacks and folds."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from comparison import BINARY, THREE, X, Y, assert_close, both, ours, theirs, train
from sklearn.model_selection import KFold


def error(predictions, data):
    """A custom metric."""
    return "mine", float(np.mean(np.abs(predictions - data.get_label())))


@pytest.mark.parametrize("verbose_eval", [True, False, None, 2, 3, 100])
def test_printed_lines_are_equal(capsys, verbose_eval):
    def run(xgb):
        train(
            xgb,
            {"eval_metric": ["rmse", "mae", "mape"]},
            rounds=7,
            evals=[(xgb.DMatrix(X, Y), "a"), (xgb.DMatrix(X[:9], Y[:9]), "b")],
            custom_metric=error,
            verbose_eval=verbose_eval,
        )
        return capsys.readouterr().out

    mine, other = both(run)
    assert mine == other
    assert bool(mine) == bool(verbose_eval)


def test_evals_result_has_the_same_order():
    def run(xgb):
        result = {}
        data = xgb.DMatrix(X, Y)
        booster = xgb.train(
            {"max_depth": 2, "eval_metric": ["mae", "rmse"]},
            data,
            2,
            evals=[(data, "a"), (data, "b")],
            evals_result=result,
            custom_metric=lambda p, d: [error(p, d), ("two", 2)],
            verbose_eval=False,
        )
        line = booster.eval_set([(data, "x"), (data, "y")], 3, error, False)
        return result, line

    (mine, line), (other, their_line) = both(run)
    assert str(mine).count("OrderedDict") == str(other).count("OrderedDict")
    for data, metrics in other.items():
        assert list(mine[data]) == list(metrics)
        for metric, scores in metrics.items():
            np.testing.assert_allclose(mine[data][metric], scores, 1e-5, 1e-6)
    cells, their_cells = line.split("\t"), their_line.split("\t")
    assert [c.split(":")[0] for c in cells] == [c.split(":")[0] for c in their_cells]
    assert [len(c) for c in cells] == [len(c) for c in their_cells]


STOPPING = {
    "error": ({"eval_metric": "error"}, {}),
    "the last": ({"eval_metric": ["logloss", "error"]}, {}),
    "auc": ({"eval_metric": "auc"}, {}),
    "turned round": ({"eval_metric": "auc"}, {"maximize": False}),
}


@pytest.mark.parametrize("case", STOPPING)
def test_early_stopping_stops_in_the_same_round(capsys, case):
    params, options = STOPPING[case]

    def run(xgb):
        booster = train(
            xgb,
            {"objective": "binary:logistic", "max_depth": 2, **params},
            BINARY,
            20,
            evals=[(xgb.DMatrix(X, BINARY), "v")],
            early_stopping_rounds=3,
            **options,
        )
        return (
            booster.num_boosted_rounds(),
            booster.best_iteration,
            booster.best_score,
            capsys.readouterr().out,
        )

    mine, other = both(run)
    assert mine == other


def test_attributes_of_early_stopping():
    def run(xgb):
        stopping = xgb.callback.EarlyStopping(rounds=2, save_best=True, min_delta=10)
        data = xgb.DMatrix(X, BINARY)
        booster = xgb.train(
            {"eval_metric": "error", "objective": "binary:logistic"},
            data,
            9,
            evals=[(data, "v")],
            callbacks=[stopping],
            verbose_eval=False,
        )
        return (
            booster.num_boosted_rounds(),
            booster.best_iteration,
            stopping.stopping_history,
            stopping.best_scores,
            stopping.current_rounds,
            stopping.starting_round,
            stopping.maximize,
        )

    mine, other = both(run)
    assert mine == other


def test_a_callback_that_stops_training_is_the_last_to_run(capsys):
    """A monitor after it does not print the scores of that round."""

    def run(xgb):
        class Stop(xgb.callback.TrainingCallback):
            def after_iteration(self, model, epoch, evals_log):
                return epoch == 1

        data = xgb.DMatrix(X, Y)
        callbacks = [Stop(), xgb.callback.EarlyStopping(rounds=2)]
        booster = train(xgb, rounds=5, evals=[(data, "v")], callbacks=callbacks)
        return booster.attributes()["best_iteration"], capsys.readouterr().out

    mine, other = both(run)
    assert mine == other


def test_callbacks_get_the_same_calls():
    def run(xgb):
        calls = []

        class Told(xgb.callback.TrainingCallback):
            def before_training(self, model):
                calls.append(("begin", type(model).__name__))
                return model

            def after_training(self, model):
                calls.append("end")
                return model

            def before_iteration(self, model, epoch, evals_log):
                calls.append(("before", epoch, list(evals_log)))
                return False

            def after_iteration(self, model, epoch, evals_log):
                calls.append((epoch, {k: list(v) for k, v in evals_log.items()}))
                return epoch == 2

        train(
            xgb,
            rounds=9,
            evals=[(xgb.DMatrix(X, Y), "a")],
            callbacks=[Told(), xgb.callback.LearningRateScheduler(lambda i: 0.1)],
            verbose_eval=False,
        )
        return calls

    mine, other = both(run)
    assert mine == other


def test_callbacks_may_take_the_model_by_name_only():
    def run(xgb):
        calls = []

        class Named(xgb.callback.TrainingCallback):
            def before_training(self, *, model):
                calls.append("before")
                return model

            def after_training(self, *, model):
                calls.append("after")
                return model

        train(xgb, callbacks=[Named()])
        xgb.cv({}, xgb.DMatrix(X, Y), 1, callbacks=[Named()])
        xgb.XGBRegressor(n_estimators=1, callbacks=[Named()]).fit(X, Y)
        return calls

    mine, other = both(run)
    assert mine == other == ["before", "after"] * 3


def test_evaluation_monitor_logger_and_checkpoint_files(tmp_path):
    def run(xgb):
        lines, folder = [], tmp_path / xgb.__name__
        folder.mkdir()
        train(
            xgb,
            rounds=7,
            evals=[(xgb.DMatrix(X, Y), "a")],
            callbacks=[
                xgb.callback.EvaluationMonitor(period=3, logger=lines.append),
                xgb.callback.EvaluationMonitor(rank=1, logger=lines.append),
                xgb.callback.TrainingCheckPoint(folder, "c", interval=2),
                xgb.callback.TrainingCheckPoint(folder, "p", True, interval=3),
            ],
            verbose_eval=False,
        )
        return lines, sorted(path.name for path in folder.iterdir())

    mine, other = both(run)
    assert mine == other


def test_ranking_metrics_have_a_default_cutoff_of_32():
    def run(xgb):
        metrics = ["ndcg", "ndcg-", "map", "pre", "ndcg@60", "pre@3"]
        params = {"objective": "binary:logistic", "eval_metric": metrics, "eta": 0.1}
        scores, data = {}, xgb.DMatrix(X[:, 1:], BINARY)
        xgb.train(params, data, 1, evals=[(data, "a")], evals_result=scores)
        return scores["a"]

    mine, other = both(run)
    for name, values in other.items():
        np.testing.assert_allclose(mine[name], values, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:map", "rank:pairwise"])
@pytest.mark.parametrize("tree_method", ["hist", "exact"])
@pytest.mark.parametrize("groups", ["equal labels", "single rows"])
def test_rankings_without_any_pair_have_empty_trees(objective, tree_method, groups):
    single = groups == "single rows"
    qid = np.arange(80) if single else np.repeat([0, 1], 40)

    def run(xgb):
        data = xgb.DMatrix(X, BINARY if single else np.zeros(80), qid=qid)
        params = {"objective": objective, "tree_method": tree_method}
        booster = xgb.train(params, data, 2)
        return booster.get_dump(with_stats=True), booster.eval(data)

    mine, other = both(run)
    assert mine == other


def test_gains_as_labels_and_grades_give_the_same_model_file():
    grades = THREE.astype(float)

    def run(xgb):
        files = []
        for exp_gain, labels in ((True, grades), (False, 2**grades - 1)):
            params = {"objective": "rank:ndcg", "ndcg_exp_gain": exp_gain}
            data = xgb.DMatrix(X, labels, qid=np.repeat([0, 1], 40), weight=[1, 3])
            content = json.loads(xgb.train(params, data, 3).save_raw("json"))
            content["learner"]["objective"]["lambdarank_param"].pop("ndcg_exp_gain")
            files.append(content)
        return files[0] == files[1]

    assert both(run) == (True, True)


def test_frames_and_arrays_give_the_same_model_file_but_for_names():
    polars = pytest.importorskip("polars")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    tables = [frame, polars.from_pandas(frame)]

    def run(xgb):
        files = []
        for table in (X, *tables):
            raw = xgb.train({}, xgb.DMatrix(table, Y), 3).save_raw("json")
            content = json.loads(raw)
            content["learner"] |= {"feature_names": [], "feature_types": []}
            files.append(content)
        return [other == files[0] for other in files]

    assert both(run) == ([True] * 3, [True] * 3)


def test_custom_objectives_get_and_return_the_same():
    def run(xgb):
        seen = []

        def squares(predictions, data):
            seen.append((predictions.dtype, predictions.shape, data.get_label().dtype))
            return predictions - data.get_label(), np.ones(len(predictions))

        class Squares(xgb.objective.Objective):
            def __call__(self, iteration, y_pred, dtrain):
                seen.append(iteration)
                return squares(y_pred, dtrain)

        class Trees(xgb.objective.TreeObjective):
            def __call__(self, iteration, y_pred, dtrain):
                return squares(y_pred, dtrain)

        predictions = [
            train(xgb, rounds=2, obj=own).predict(xgb.DMatrix(X))
            for own in (squares, Squares(), Trees())
        ]
        return seen, np.stack(predictions)

    (seen, mine), (their_seen, other) = both(run)
    assert seen == their_seen
    assert_close(mine, other)


TARGETS = np.stack([Y, Y[::-1] + X[:, 0], X[:, 2]], axis=1)
VECTOR = {"multi_strategy": "multi_output_tree"}
#: Split gradients, computed from gradients of three outputs.
REDUCED = {
    "none": lambda grad, hess: None,
    "all": lambda grad, hess: (grad, hess),
    "mean": lambda grad, hess: (grad.mean(axis=1), hess.mean(axis=1)),
    "two": lambda grad, hess: (grad[:, 1:].copy(), hess[:, 1:].copy()),
    "flat": lambda grad, hess: (grad[:, :2].ravel(), hess[:, :2].ravel()),
}


def reduced_by(xgb, reduced, labels=TARGETS):
    """Return an objective with these split gradients."""

    class Reduced(xgb.objective.TreeObjective):
        def __call__(self, iteration, y_pred, dtrain):
            return y_pred - labels, np.full(y_pred.shape, [1.0, 2.0, 1.0])

        def split_grad(self, iteration, grad, hess):
            return reduced(grad, hess)

    return Reduced()


@pytest.mark.filterwarnings("ignore:Since 2.1.0")
@pytest.mark.parametrize("params", [{}, {"lambda": 4, "alpha": 9, "eta": 0.6}])
@pytest.mark.parametrize("name", REDUCED)
def test_splits_by_split_gradients_equal_those_of_xgboost(name, params):
    def run(xgb):
        data, scores = xgb.DMatrix(X, TARGETS), {}
        booster = xgb.train(
            {**VECTOR, "max_depth": 3, "base_score": [0.1, 0.2, 0.3], **params},
            data,
            3,
            evals=[(data, "a")],
            evals_result=scores,
            obj=reduced_by(xgb, REDUCED[name]),
            verbose_eval=False,
        )
        covers = booster.get_score(importance_type="total_cover")
        return booster.predict(data), scores["a"]["rmse"], [*covers.values()], booster

    (*mine, booster), (*other, their_booster) = both(run)
    for found, expected in zip(mine, other, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
    # Model files are exchanged, whatever the number of split gradients.
    for xgb, trained in ((ours, their_booster), (theirs, booster)):
        again = xgb.Booster(model_file=trained.save_raw("json"))
        found = again.predict(xgb.DMatrix(X))
        np.testing.assert_allclose(found, other[0], rtol=2e-5, atol=1e-5)


def test_trees_of_one_output_use_split_gradients_only():
    def run(xgb):
        own = reduced_by(xgb, lambda grad, hess: (-2.0 * grad, 3.0 * hess))
        data = xgb.DMatrix(X, TARGETS)
        return xgb.train({"max_depth": 2}, data, 2, obj=own).predict(data)

    assert_close(*both(run))


@pytest.mark.parametrize(
    ("reduced", "error", "words"),
    [
        (lambda g, h: (g[:9], h[:9]), ValueError, "Mismatched size between the grad"),
        (lambda g, h: (g, h[:, :1]), ValueError, "Mismatched shape between the grad"),
        (lambda g, h: ([*g], [*h]), TypeError, "Expecting `np.ndarray` or `cupy.nd"),
        (lambda g, h: (g, h, h), ValueError, "too many values to unpack"),
        (lambda g, h: (g[:, [0] * 4], h[:, [0] * 4]), ValueError, "number of columns"),
    ],
)
def test_mismatched_gradients_raise_the_same_errors(reduced, error, words):
    def run(xgb):
        data = xgb.DMatrix(X, TARGETS)
        with pytest.raises(error):
            xgb.train(VECTOR, data, 1, obj=reduced_by(xgb, reduced))
        result = reduced(np.ones((len(X), 3)), np.ones((len(X), 3)))
        with pytest.raises(error, match=words):
            xgb.train({}, data, 1, obj=lambda margins, data: result)

    both(run)


def test_training_continues_from_any_kind_of_model(tmp_path):
    def run(xgb):
        before = train(xgb)
        path = tmp_path / f"{xgb.__name__}.json"
        before.save_model(path)
        starts = [before, str(path), path, before.save_raw()]
        more = [train(xgb, xgb_model=start) for start in starts]
        assert before.num_boosted_rounds() == 3
        assert [b.num_boosted_rounds() for b in more] == [6] * 4
        return np.stack([b.predict(xgb.DMatrix(X)) for b in more])

    assert_close(*both(run))


def test_training_does_not_continue_on_other_columns():
    def run(xgb):
        booster = train(xgb)
        for columns in (X[:, :3], np.column_stack([X, X[:, 0]])):
            data = xgb.DMatrix(columns, Y)
            with pytest.raises(ValueError, match="Number of columns does not match"):
                xgb.train({}, data, 1, xgb_model=booster)

    both(run)


def test_deprecated_positional_arguments():
    data = ours.DMatrix(X, Y)
    with pytest.warns(FutureWarning, match="Pass `evals` as keyword args"):
        ours.train({}, data, 1, [])
    with pytest.warns(FutureWarning, match="Pass `weight, base_margin` as"):
        weighted = ours.DMatrix(X, Y, Y, Y)
    np.testing.assert_array_equal(weighted.get_weight(), Y.astype(np.float32))


# --- Cross-validation -----------------------------------------------------------------

FOLDS = {
    "plain": ({}, {}, Y),
    "more": ({"eval_metric": ["mae", "rmse"]}, {"nfold": 4, "seed": 3}, Y),
    "in order": ({}, {"shuffle": False}, Y),
    "metrics": ({"eval_metric": "mae"}, {"metrics": ["rmse"]}, Y),
    "one metric": ({}, {"metrics": "mae", "show_stdv": False}, Y),
    "stratified": (
        {"objective": "binary:logistic"},
        {"stratified": True, "metrics": ("auc", "logloss"), "seed": 7},
        BINARY,
    ),
    "stopped": (
        {"objective": "binary:logistic"},
        {"metrics": "error", "early_stopping_rounds": 2, "num_boost_round": 20},
        BINARY,
    ),
    "a splitter": ({}, {"folds": KFold(3)}, Y),
    "rows": ({}, {"folds": [(range(40), range(40, 80)), (range(40, 80), [1, 2])]}, Y),
    "a metric": ({}, {"custom_metric": error}, Y),
    "an objective": (
        {},
        {"obj": lambda p, d: (p - d.get_label(), np.ones(len(p)))},
        Y,
    ),
    "changed": ({}, {"fpreproc": lambda a, b, p: (a, b, {**p, "eta": 0.1})}, Y),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, {}, THREE),
}


@pytest.mark.parametrize("case", FOLDS)
def test_cv_prints_and_returns_the_same(capsys, case):
    params, options, label = FOLDS[case]

    def run(xgb):
        frame = xgb.cv(
            {"max_depth": 2, **params},
            xgb.DMatrix(X, label),
            **{"num_boost_round": 4, "verbose_eval": 2, **options},
        )
        return capsys.readouterr().out, frame

    (printed, mine), (their_lines, other) = both(run)
    assert printed == their_lines
    pd.testing.assert_frame_equal(mine, other, rtol=1e-4, atol=1e-6)


def test_cv_with_groups_and_without_pandas():
    def run(xgb):
        data = xgb.DMatrix(X, THREE, group=[10] * 8)
        scores = xgb.cv({"objective": "rank:ndcg"}, data, 2, as_pandas=False)
        return {name: np.array(values) for name, values in scores.items()}

    mine, other = both(run)
    assert list(mine) == list(other)
    for name, scores in other.items():
        np.testing.assert_allclose(mine[name], scores, 0.02)


def test_mknfold_and_cvpack():
    def run(xgb):
        packs = xgb.training.mknfold(
            dall=xgb.DMatrix(X, Y), nfold=3, param={"max_depth": 2}, seed=1
        )
        packs[0].update(0, None)
        line = packs[0].eval(0, None, False)
        return (
            [(p.dtrain.num_row(), p.dtest.get_label().tolist()) for p in packs],
            line[:18],
            packs[0].num_boosted_rounds(),
            xgb.training.groups_to_rows(
                np.array([0, 2]), np.array([0, 3, 5, 9])
            ).tolist(),
        )

    mine, other = both(run)
    assert mine[1:] == other[1:]
    assert [sorted(labels) for _, labels in mine[0]] == [
        sorted(labels) for _, labels in other[0]
    ]


def test_rows_of_explicit_folds_stay_in_their_order():
    folds = [([5, 1, 2, 9], [23, 43, 11]), ([7, 9, 3, 7], [3, 30, 1])]

    def run(xgb):
        packs = xgb.training.mknfold(
            dall=xgb.DMatrix(X, Y), nfold=3, param={}, seed=0, folds=folds
        )
        labels = [[p.dtrain.get_label(), p.dtest.get_label()] for p in packs]
        scores = xgb.cv({"max_depth": 2}, xgb.DMatrix(X, Y), 2, folds=folds)
        return labels, scores

    (labels, mine), (_, other) = both(run)
    for rows, found in zip(folds, labels, strict=True):
        for part, label in zip(rows, found, strict=True):
            np.testing.assert_array_equal(label, np.float32(Y[part]))
    np.testing.assert_allclose(mine, other, 1e-5)


def test_save_best_of_a_linear_model_is_an_error():
    def run(xgb):
        stopping = xgb.callback.EarlyStopping(rounds=2, save_best=True)
        data = xgb.DMatrix(X, Y)
        with pytest.raises(ValueError, match="`save_best` is not applicable"):
            xgb.train(
                {"booster": "gblinear"},
                data,
                3,
                evals=[(data, "a")],
                callbacks=[stopping],
                verbose_eval=False,
            )

    both(run)


def test_callbacks_of_cv_get_the_boosters():
    def run(xgb):
        seen = []

        class Told(xgb.callback.TrainingCallback):
            def after_iteration(self, model, epoch, evals_log):
                fold = model.cvfolds[0]
                seen.append((epoch, len(model.cvfolds), fold.dtest.num_row()))
                seen.append((type(fold.bst).__name__, type(fold.dtrain).__name__))
                seen.extend(
                    (k, list(v), len(v["rmse"][-1])) for k, v in evals_log.items()
                )
                return False

        xgb.cv({"max_depth": 2}, xgb.DMatrix(X, Y), 2, callbacks=[Told()])
        return seen

    mine, other = both(run)
    assert mine == other


WITHOUT_ROWS = {
    "hist": {},
    "approx": {"tree_method": "approx"},
    "exact": {"tree_method": "exact"},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 4, "subsample": 0.5},
    "forest": {"num_parallel_tree": 2, "colsample_bynode": 0.5, "reg_lambda": 0},
    "dart": {"booster": "dart", "rate_drop": 0.5},
    "shotgun": {"booster": "gblinear", "updater": "shotgun"},
    "coord_descent": {"booster": "gblinear", "updater": "coord_descent"},
    "base_score": {"base_score": 0.25},
    "survival:aft": {"objective": "survival:aft"},
    "ranking": {"objective": "rank:ndcg"},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", WITHOUT_ROWS)
def test_data_without_rows_trains_trees_of_one_leaf(case):
    def run(xgb):
        kind = xgb.QuantileDMatrix if case == "dart" else xgb.DMatrix
        data = kind(np.empty((0, 4)), np.empty(0))
        if case == "survival:aft":
            data.set_info(label_lower_bound=[], label_upper_bound=[])
        result = {}
        options = {"evals": [(data, "t")], "evals_result": result, "verbose_eval": 0}
        booster = xgb.train(WITHOUT_ROWS[case], data, 2, **options)
        told = [result, booster.num_boosted_rounds(), booster.get_dump()]
        told.append(booster.predict(data).shape)
        seen = [booster.predict(xgb.DMatrix(X))]
        if "booster" not in WITHOUT_ROWS[case]:
            assert booster.predict(data, pred_leaf=True).shape[0] == 0
            seen.append(booster.predict(xgb.DMatrix(X), pred_leaf=True))
        if not booster.attr("objective") and case not in ("survival:aft", "ranking"):
            again = xgb.train(
                WITHOUT_ROWS[case],
                xgb.DMatrix(X, Y),
                2,
            )
            more = xgb.train(WITHOUT_ROWS[case], data, 1, xgb_model=again)
            assert more.num_boosted_rounds() == 3
        return told, seen

    (mine, values), (other, their_values) = both(run)
    assert mine == other
    for one, two in zip(values, their_values, strict=True):
        assert_close(one, two)


def test_models_of_no_rows_have_the_features_of_their_data():
    data = ours.QuantileDMatrix(np.empty((0, 4)), np.empty(0))
    data.feature_names, data.feature_types = list("abcd"), ["float"] * 4
    booster = ours.train({}, data, 1)
    assert booster.feature_names == list("abcd")
    assert booster.feature_types == ["float"] * 4


@pytest.mark.filterwarnings("ignore")
def test_batches_without_rows(tmp_path):
    def run(xgb, kind, prefix):
        class Batches(xgb.DataIter):
            def next(self, input_data):
                for n_rows in self.left:
                    input_data(data=X[:n_rows], label=Y[:n_rows])
                    return True
                return False

            def reset(self):
                self.left = iter(sizes)

        data = getattr(xgb, kind)(Batches(cache_prefix=prefix))
        return xgb.train({"max_depth": 2}, data, 2).predict(data)

    for sizes in ([0], [0, 0], [0, 40, 0, 20]):
        for kind in ("DMatrix", "QuantileDMatrix", "ExtMemQuantileDMatrix"):
            folder = tmp_path / f"{kind}{sizes}"
            prefix = None if kind == "QuantileDMatrix" else str(folder)
            mine = run(ours, kind, prefix)
            assert_close(mine, run(theirs, kind, prefix and f"{prefix}-theirs"))
