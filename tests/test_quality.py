"""What the estimators choose from the data: `quality`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split

import hornbeam
from hornbeam import HornbeamClassifier, HornbeamRanker, HornbeamRegressor
from hornbeam.cross_validation import FoldModels
from hornbeam.errors import ParameterError

#: Its models of all folds take most of the time.
BEST = pytest.param("best", marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def diabetes():
    return train_test_split(*load_diabetes(return_X_y=True), random_state=0)


@pytest.fixture(scope="module")
def cancer():
    return train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)


@pytest.fixture(scope="module")
def levels():
    """Return rows whose label is known only where leaves may be small."""
    rng = np.random.default_rng(0)
    codes = rng.integers(300, size=2000)
    X = pd.DataFrame({"level": pd.Categorical(codes), "noise": rng.normal(size=2000)})
    return X, rng.normal(size=300)[codes] * 10


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=600)), 0, 3)
    return X, y, np.repeat(np.arange(60), 10)


def test_auto_is_better_than_the_defaults_of_xgboost(diabetes, cancer):
    X, test, y, expected = diabetes
    errors = [
        root_mean_squared_error(expected, model.fit(X, y).predict(test))
        for model in (HornbeamRegressor(), HornbeamRegressor(quality=None))
    ]
    assert errors[0] < 0.95 * errors[1]
    X, test, y, expected = cancer
    losses = [
        log_loss(expected, model.fit(X, y).predict_proba(test))
        for model in (HornbeamClassifier(), HornbeamClassifier(quality=None))
    ]
    assert losses[0] < losses[1]


def test_the_model_is_that_of_the_chosen_parameters_on_all_rows(diabetes):
    X, _, y, _ = diabetes
    model = HornbeamRegressor().fit(X, y)
    chosen = model.chosen_
    assert set(chosen) == {
        *("quality", "learning_rate", "max_depth", "min_child_weight"),
        *("n_estimators", "held_out", "rmse"),
    }
    assert chosen["quality"] == "auto"
    assert chosen["learning_rate"] == 0.15
    assert chosen["held_out"] == "5 x 67 rows"
    assert model.get_num_boosting_rounds() == chosen["n_estimators"]
    given = {name: chosen[name] for name in (*list(chosen)[1:4], "n_estimators")}
    same = HornbeamRegressor(**given).fit(X, y).get_booster()
    assert same.get_dump(with_stats=True) == model.get_booster().get_dump(
        with_stats=True
    )


def test_the_choice_does_not_depend_on_the_threads(cancer, thread_counts):
    X, _, y, _ = cancer
    one, *others = (
        HornbeamClassifier(n_jobs=n, quality="fast").fit(X, y) for n in thread_counts
    )
    for many in others:
        assert one.chosen_ == many.chosen_
        assert one.get_booster().digest() == many.get_booster().digest()


def test_the_race_allows_small_leaves_where_they_pay(levels):
    assert HornbeamRegressor().fit(*levels).chosen_["min_child_weight"] == 2
    fast = HornbeamRegressor(quality="fast").fit(*levels)
    assert fast.chosen_["min_child_weight"] == 20


def test_means_of_levels_are_tried_with_leaves_of_the_usual_size():
    # Small leaves win the first race, and after that the means alone are no better.
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 5)), columns=[f"x{i}" for i in range(5)])
    levels = rng.integers(150, size=3000)
    y = X["x0"] + rng.normal(size=150)[levels] + rng.normal(size=3000)
    chosen = HornbeamRegressor().fit(X.assign(level=pd.Categorical(levels)), y).chosen_
    assert chosen["derived_features"] == ["mean(label | level)"]
    assert chosen["min_child_weight"] == 20


def test_means_of_two_categories_are_tried_where_both_decide():
    rng = np.random.default_rng(0)
    c, d = rng.integers(12, size=4000), rng.integers(15, size=4000)
    X = pd.DataFrame({"x": rng.normal(size=4000)})
    X = X.assign(c=pd.Categorical(c), d=pd.Categorical(d))
    y = X["x"] + 2 * rng.normal(size=(12, 15))[c, d] + rng.normal(size=4000)
    found = HornbeamRegressor().fit(X, y).chosen_["derived_features"]
    assert found[0] in ("mean(label | c, d)", "mean(label | d, c)")
    kept = HornbeamRegressor(cat_method="set").fit(X, y).chosen_
    assert not any("label" in text for text in kept.get("derived_features", ()))


def smooth(n_rows, seed, noise=0.2):
    """Return rows whose label is smooth in two numbers, but for the noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(-3.0, 3.0, size=(n_rows, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + noise * random.normal(size=n_rows)


def test_linear_leaves_are_chosen_where_they_pay(levels):
    X, y = smooth(1000, 0)
    test, expected = smooth(500, 1, noise=0.0)
    model = HornbeamRegressor().fit(X, y)
    constant = HornbeamRegressor(leaf_model="constant").fit(X, y)
    assert model.chosen_["leaf_model"] == "linear"
    assert model.chosen_["learning_rate"] == 0.2
    assert "leaf_model" not in constant.chosen_
    assert constant.chosen_["learning_rate"] == 0.15
    given = HornbeamRegressor(leaf_model="linear").fit(X, y).chosen_
    assert given["learning_rate"] == 0.2
    assert model.get_booster().model.has_linear_leaves
    assert not constant.get_booster().model.has_linear_leaves
    errors = [
        root_mean_squared_error(expected, own.predict(test))
        for own in (model, constant)
    ]
    assert errors[0] < 0.9 * errors[1]
    assert "leaf_model" not in HornbeamRegressor().fit(*levels).chosen_


def test_models_with_linear_leaves_are_the_same_on_any_threads(thread_counts):
    one, *others = (
        HornbeamRegressor(n_jobs=n, early_stopping_rounds=4).fit(*smooth(300, 0))
        for n in thread_counts
    )
    assert one.chosen_["leaf_model"] == "linear"
    for many in others:
        assert one.chosen_ == many.chosen_
        assert one.get_booster().digest() == many.get_booster().digest()


def test_what_excludes_linear_leaves_is_no_error():
    X, y = smooth(300, 0)
    model = HornbeamRegressor(monotone_constraints=(0, 1)).fit(X, y)
    assert "leaf_model" not in model.chosen_


def test_sizes_of_leaves_are_in_units_of_the_weights(diabetes):
    X, _, y, _ = diabetes
    model = HornbeamRegressor(quality="fast")
    alone = model.fit(X, y).chosen_
    heavy = model.fit(X, y, sample_weight=np.full(len(y), 8.0)).chosen_
    assert heavy["min_child_weight"] == 8 * alone["min_child_weight"]


@pytest.mark.parametrize(
    ("objective", "size"),
    [("reg:squarederror", "min_child_weight"), ("count:poisson", "min_samples_leaf")],
)
def test_rows_are_counted_where_hessians_do_not_count_them(diabetes, objective, size):
    X, _, y, _ = diabetes
    model = HornbeamRegressor(objective=objective, quality="fast").fit(X, y)
    assert size in model.chosen_


def test_symmetric_trees_count_no_rows(diabetes):
    X, _, y, _ = diabetes
    model = HornbeamRegressor(objective="count:poisson", grow_policy="symmetric")
    chosen = model.fit(X, y).chosen_
    assert "n_estimators" in chosen
    assert not chosen.keys() & {"min_samples_leaf", "min_child_weight"}


def test_a_training_goes_on_as_long_as_it_gains():
    X = np.random.default_rng(0).uniform(-3, 3, (600, 2))
    model = HornbeamRegressor(quality="fast", early_stopping_rounds=4)
    model.fit(X, np.sin(X).sum(axis=1))
    assert model.chosen_["n_estimators"] > 100


def test_bags_find_their_rounds_without_a_training_of_the_folds(diabetes, monkeypatch):
    X, _, y, _ = diabetes
    sizes = []
    update = FoldModels.update

    def counting(self, data, iteration, obj, rounds):
        sizes.extend([len(self.cvfolds)] * rounds)
        update(self, data, iteration, obj, rounds)

    monkeypatch.setattr(FoldModels, "update", counting)
    model = HornbeamRegressor(n_bags=3).fit(X, y)
    # Races of the leader, of small leaves, and of linear leaves.
    assert 0 < sizes.count(5) <= 3 * 25
    assert model.chosen_["held_out"] == "3 bags"
    assert sizes.count(3) >= model.chosen_["n_estimators"]


@pytest.mark.slow
def test_best_is_the_average_of_the_models_of_all_folds(diabetes):
    X, test, y, expected = diabetes
    model = HornbeamRegressor(quality="best").fit(X, y)
    chosen, booster = model.chosen_, model.get_booster()
    assert chosen["max_depth"] in (4, 6, 8)
    assert booster.num_boosted_rounds() == chosen["n_estimators"]
    assert len(booster.model.trees) == 5 * chosen["n_estimators"]
    error = root_mean_squared_error(expected, model.predict(test))
    auto = HornbeamRegressor().fit(X, y).predict(test)
    assert error < root_mean_squared_error(expected, auto)


def test_callbacks_see_a_training_on_all_rows(diabetes):
    class Rows(hornbeam.TrainingCallback):
        rounds = 0

        def after_iteration(self, model, epoch, evals_log):
            self.rounds += 1
            return False

    X, _, y, _ = diabetes
    rows = Rows()
    model = HornbeamRegressor(quality="best", max_depth=2, callbacks=[rows]).fit(X, y)
    assert rows.rounds == model.chosen_["n_estimators"]
    assert model.get_booster().num_boosted_rounds() == rows.rounds


def test_given_parameters_are_kept(diabetes):
    X, _, y, _ = diabetes
    model = HornbeamRegressor(max_depth=2, min_child_weight=3.0, quality="fast")
    chosen = model.fit(X, y).chosen_
    assert "max_depth" not in chosen
    assert "min_child_weight" not in chosen
    assert max(tree.depth() for tree in model.get_booster().model.trees) == 2


@pytest.mark.parametrize(
    "given", [{"n_estimators": 100}, {"learning_rate": 0.3}, {"quality": None}]
)
def test_nothing_is_chosen_where_rounds_or_rate_are_given(diabetes, given):
    X, _, y, _ = diabetes
    model = HornbeamRegressor(**given).fit(X, y)
    booster = hornbeam.train({}, hornbeam.DMatrix(X, y), 100, verbose_eval=False)
    assert model.get_booster().digest() == booster.digest()
    with pytest.raises(AttributeError, match="leave n_estimators and learning_rate"):
        _ = model.chosen_


def test_evaluation_data_of_the_user_stop_the_training(diabetes):
    X, test, y, expected = diabetes
    model = HornbeamRegressor().fit(X, y, eval_set=[(test, expected)], verbose=False)
    assert model.chosen_["held_out"] == "eval_set"
    scores = model.evals_result()["validation_0"]["rmse"]
    assert model.best_iteration == int(np.argmin(scores))
    assert len(scores) == model.best_iteration + 1 + 20


def test_patience_and_metric_are_those_of_the_user(cancer):
    X, _, y, _ = cancer
    model = HornbeamClassifier(eval_metric=["logloss", "auc"], early_stopping_rounds=3)
    assert 0.9 < model.fit(X, y).chosen_["auc"] <= 1
    assert "logloss" not in model.chosen_


def test_a_metric_of_the_user_decides(diabetes):
    def worst(labels, predictions):
        return np.abs(labels - predictions).max()

    X, _, y, _ = diabetes
    model = HornbeamRegressor(eval_metric=worst, quality="fast").fit(X, y)
    assert model.chosen_["worst"] > 0


def test_a_custom_objective_without_metric_has_the_defaults(diabetes):
    def squared(labels, predictions):
        return predictions - labels, np.ones(len(labels))

    X, _, y, _ = diabetes
    model = HornbeamRegressor(objective=squared).fit(X, y)
    assert model.get_booster().num_boosted_rounds() == 100
    chosen = HornbeamRegressor(objective=squared, eval_metric="mae", quality="fast")
    assert chosen.fit(X, y).chosen_["mae"] > 0


def test_groups_of_a_ranking_are_held_out_whole(lists):
    X, y, qid = lists
    model = HornbeamRanker(quality="fast").fit(X, y, qid=qid)
    assert model.chosen_["held_out"] == "1 x 120 rows"
    assert 0 < model.chosen_["ndcg@32"] <= 1


@pytest.mark.parametrize(
    ("booster", "reason"), [("dart", "booster='dart'"), ("gblinear", "booster=")]
)
def test_other_boosters_have_the_defaults_and_say_so(diabetes, booster, reason):
    X, _, y, _ = diabetes
    model = HornbeamRegressor(booster=booster).fit(X, y)
    assert reason in model.chosen_["not_chosen"]
    assert model.get_booster().num_boosted_rounds() == 100


def test_too_few_rows_or_groups_have_the_defaults(lists):
    model = HornbeamRegressor().fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])
    assert model.chosen_["not_chosen"] == "too few rows to hold some out: 3"
    X, y, qid = lists
    ranker = HornbeamRanker().fit(X[:10], y[:10], qid=qid[:10])
    assert ranker.chosen_["not_chosen"] == "too few groups to hold some out: 1"


def test_classes_of_one_row_each_have_the_defaults():
    X = load_iris().data[:12]
    model = HornbeamClassifier().fit(X, np.arange(12))
    assert "no class has two rows" in model.chosen_["not_chosen"]
    assert model.get_booster().num_boosted_rounds() == 100


def test_a_metric_that_held_out_rows_do_not_define_chooses_nothing():
    X = load_iris().data
    model = HornbeamClassifier(eval_metric="auc")
    with pytest.warns(UserWarning, match="auc is nan"):
        model.fit(X[:101], np.arange(101) == 7)
    assert "auc is not defined" in model.chosen_["not_chosen"]
    assert model.get_booster().num_boosted_rounds() == 100


def test_a_class_of_one_row_is_allowed():
    X, y = load_iris(return_X_y=True)
    model = HornbeamClassifier(quality="fast").fit(X[:101], y[:101])
    assert model.predict_proba(X).shape == (150, 3)


def test_continued_models_keep_their_rounds(diabetes):
    X, _, y, _ = diabetes
    first = HornbeamRegressor(n_estimators=5).fit(X, y)
    more = HornbeamRegressor().fit(X, y, xgb_model=first)
    assert more.get_booster().num_boosted_rounds() == 105


def test_an_unknown_quality_is_an_error(diabetes):
    X, _, y, _ = diabetes
    with pytest.raises(ParameterError, match="one of fast, auto, best, or None"):
        HornbeamRegressor(quality="good").fit(X, y)


def test_the_choice_is_saved_with_the_model_and_told(diabetes, tmp_path, capsys):
    X, _, y, _ = diabetes
    model = HornbeamRegressor(quality="fast", verbosity=2).fit(X, y)
    line = capsys.readouterr().err.splitlines()
    assert [
        text for text in line if text.startswith("hornbeam: chosen: quality fast, ")
    ]
    model.save_model(tmp_path / "model.json")
    loaded = HornbeamRegressor()
    loaded.load_model(tmp_path / "model.json")
    assert loaded.chosen_ == model.chosen_
    kept = hornbeam.Booster(model_file=tmp_path / "model.json")
    assert json.loads(kept.attr("hornbeam_chosen")) == model.chosen_


# --- Derived features -----------------------------------------------------------------


def crossed(rows, seed=0):
    """Return rows whose label is a ratio and a level's mean, and their labels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(1, 9, size=(rows, 4)), columns=list("abcd"))
    X["k"] = pd.Categorical(rng.integers(60, size=rows), categories=range(60))
    effects = np.random.default_rng(7).normal(size=60)
    y = 3 * X["a"] / X["b"] + effects[X["k"].cat.codes] + rng.normal(size=rows) * 0.3
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def ratios():
    return crossed(4000)


def test_crosses_are_derived_where_they_gain_on_held_out_rows(ratios):
    test, expected = crossed(1000, seed=1)
    errors = {}
    for crosses in ("auto", None):
        params = {"cross_features": crosses, "leaf_model": "constant"}
        model = HornbeamRegressor(**params, n_jobs=2).fit(*ratios)
        errors[crosses] = root_mean_squared_error(expected, model.predict(test))
        found = model.chosen_.get("derived_features", [])
        assert bool({"a / b", "b / a"} & {*found}) == (crosses == "auto")
    assert errors["auto"] < 0.95 * errors[None]
    assert model.n_features_in_ == 5


def test_crosses_are_not_tried_of_few_rows(ratios):
    X, y = ratios
    chosen = HornbeamRegressor(cat_method="set").fit(X[:600], y[:600]).chosen_
    assert "derived_features" not in chosen


def test_derived_features_do_not_depend_on_the_threads(ratios, thread_counts):
    one, *others = (HornbeamRegressor(n_jobs=n).fit(*ratios) for n in thread_counts)
    assert "derived_features" in one.chosen_
    for many in others:
        assert one.chosen_ == many.chosen_
        assert one.get_booster().digest() == many.get_booster().digest()


@pytest.mark.parametrize("quality", ["fast", BEST, None])
def test_asked_formulas_are_in_every_model(ratios, quality, tmp_path):
    X, y = ratios[0][:500], ratios[1][:500]
    formulas = ["a / b", "c - mean(c | k)"]
    asked = {"cat_method": "ordered_target", "cross_features": formulas}
    model = HornbeamRegressor(
        **asked,
        quality=quality,
        max_depth=3,
        early_stopping_rounds=5 if quality else None,
    ).fit(X, y)
    names = model.get_booster().feature_names
    assert {"mean(label | k)", *formulas} <= set(names)
    assert "k" not in model.get_booster().get_score()
    assert model.feature_importances_.shape == (len(names),)
    model.save_model(tmp_path / "model.json")
    again = HornbeamRegressor()
    again.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.feature_names_in_.tolist() == list("abcdk")


def test_the_shares_of_all_classes_but_the_first():
    X, y = crossed(400)
    labels = np.digitize(y, [2.0, 4.0])
    model = HornbeamClassifier(cat_method="ordered_target", n_estimators=3)
    names = model.fit(X, labels).get_booster().feature_names
    assert names[5:] == ["mean(label = 1 | k)", "mean(label = 2 | k)"]


def test_formulas_with_evaluation_data(ratios):
    X, y = ratios
    model = HornbeamRegressor(cross_features=["a / b"])
    model.fit(X[:800], y[:800], eval_set=[(X[800:], y[800:])], verbose=False)
    error = root_mean_squared_error(y[800:], model.predict(X[800:]))
    assert model.best_score == pytest.approx(error, rel=1e-5)


def test_a_constant_label_and_one_row_a_level():
    X = pd.DataFrame({"k": pd.Categorical(np.arange(200)), "x": np.arange(200.0)})
    constant = HornbeamRegressor(cat_method="ordered_target").fit(X, np.full(200, 2.0))
    np.testing.assert_allclose(constant.predict(X), 2.0)
    y = np.random.default_rng(0).normal(size=200)
    each = HornbeamRegressor(cat_method="ordered_target").fit(X, y)
    assert np.isfinite(each.predict(X)).all()


@pytest.mark.parametrize(
    "options",
    [
        {"cat_method": "target"},
        {"cross_features": "all"},
        {"cross_features": 3},
        {"cross_features": ["a - q"]},
        {"cross_features": ["a - k"]},
        {"cross_features": ["mean(label | a)"]},
        {"cross_features": ["a / b"], "monotone_constraints": {"a": 1}},
        {"cat_method": "ordered_target", "interaction_constraints": [["a", "b"]]},
    ],
)
@pytest.mark.parametrize("rounds", [None, 2])
def test_invalid_options_of_derived_features(ratios, options, rounds):
    X, y = ratios
    with pytest.raises(ParameterError):
        HornbeamRegressor(**options, n_estimators=rounds).fit(X[:100], y[:100])


def test_nothing_is_derived_for_constrained_trees(ratios):
    constraints = {"a": 1, "b": -1}
    chosen = HornbeamRegressor(monotone_constraints=constraints).fit(*ratios).chosen_
    assert "derived_features" not in chosen


def test_xgboosts_defaults_derive_nothing(ratios):
    model = HornbeamRegressor(quality=None, n_estimators=2).fit(*ratios)
    assert model.get_booster().model.derived is None


# --- Odd input ------------------------------------------------------------------------


def odd_rows(n_rows=60):
    return np.random.default_rng(0).normal(size=(n_rows, 3))


@pytest.mark.parametrize("quality", ["auto", "fast", "best"])
def test_one_class_has_the_defaults_and_says_so(quality):
    rows = odd_rows()
    for weights in (None, np.arange(60) % 2):
        labels = np.zeros(60) if weights is None else 1 - weights
        model = HornbeamClassifier(quality=quality)
        model.fit(rows, labels, sample_weight=weights)
        assert model.chosen_["not_chosen"] == "all rows are of one class"
        assert np.isfinite(model.predict_proba(rows)).all()


@pytest.mark.slow
@pytest.mark.parametrize("quality", ["auto", "fast", "best"])
@pytest.mark.parametrize("n_rows", [10, 11, 24])
def test_few_rows_are_fitted(quality, n_rows):
    rows = odd_rows(n_rows)
    few = {"quality": quality, "early_stopping_rounds": 3, "n_jobs": 1}
    model = HornbeamRegressor(**few).fit(rows, rows[:, 0])
    assert np.isfinite(model.predict(rows)).all()
    labels = np.repeat(np.arange(n_rows // 2), 2)  # two rows a class
    model = HornbeamClassifier(**few)
    model.fit(rows[: labels.size], labels)
    assert np.isfinite(model.predict_proba(rows)).all()


@pytest.mark.parametrize("quality", ["auto", "fast", BEST])
def test_columns_without_information_are_fitted(quality):
    rows = odd_rows()
    labels = rows[:, 0].copy()
    rows[:, 1], rows[:, 2] = np.nan, 7.0
    few = {"quality": quality, "early_stopping_rounds": 5, "n_jobs": 1}
    model = HornbeamRegressor(**few).fit(rows, labels)
    assert model.score(rows, labels) > 0.5
    blank = HornbeamRegressor(**few).fit(rows[:, 1:], labels)
    assert blank.predict(rows[:, 1:]) == pytest.approx(np.full(60, labels.mean()))
    model = HornbeamRegressor(**few).fit(rows, np.full(60, 3.0))
    assert model.predict(rows).tolist() == [3.0] * 60


@pytest.mark.parametrize("quality", ["auto", "fast"])
@pytest.mark.parametrize("factor", [1e-4, 1e-10, 1e-30])
def test_labels_in_a_large_unit_are_learned_as_in_another(quality, factor):
    rows = odd_rows(200)
    labels = rows[:, 0] + np.sin(2 * rows[:, 1])
    spread = (factor * labels).std()
    few = {"quality": quality, "early_stopping_rounds": 5, "n_jobs": 1}
    model = HornbeamRegressor(**few)
    model.fit(rows, factor * labels + 1000 * spread)
    assert model.chosen_["gain_epsilon"] == pytest.approx(1e-6 * spread**2, rel=1e-3)
    assert model.score(rows, factor * labels + 1000 * spread) > 0.8
    # Powers of two change no digit, so it is the model of labels in another unit.
    other = HornbeamRegressor(**few)
    other.fit(rows, (factor * labels + 1000 * spread) * 2.0**-7)
    expected = model.predict(rows).astype(np.float64) * 2.0**-7
    assert other.predict(rows) == pytest.approx(expected, rel=1e-6)


def test_labels_beyond_the_digits_of_leaf_values_are_told_of(capsys):
    rows = odd_rows()
    HornbeamRegressor(quality="fast").fit(rows, 1e-35 * rows[:, 0])
    assert "multiply the labels" in capsys.readouterr().err
    HornbeamRegressor(quality="fast", verbosity=0).fit(rows, 1e-35 * rows[:, 0])
    for labels in (1e-30 * rows[:, 0], rows[:, 0], np.full(60, 0.1), 1e30 * rows[:, 0]):
        model = HornbeamRegressor(quality="fast").fit(rows, labels)
        assert ("gain_epsilon" in model.chosen_) == (0 < labels.std() < 1e-20)
    kept = HornbeamRegressor(quality="fast", gain_epsilon=1e-9)
    assert "gain_epsilon" not in kept.fit(rows, 1e-4 * rows[:, 0]).chosen_
    assert not capsys.readouterr().err


@pytest.mark.slow
def test_many_classes_have_fewer_folds_and_rounds():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 3)
    rows = rng.normal(size=(40, 3))[labels] + 0.1 * rng.normal(size=(120, 3))
    model = HornbeamClassifier(n_jobs=1).fit(rows, labels)
    assert model.chosen_["held_out"] == "1 x 24 rows"
    assert model.chosen_["n_estimators"] <= 250 * 1.25
    few = HornbeamClassifier(n_jobs=1).fit(rows, labels % 4)
    assert few.chosen_["held_out"] == "5 x 24 rows"
