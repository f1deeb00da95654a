"""Survival analysis with censored times: objectives, metrics, training."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

import hornbeam
from hornbeam import DataError, DMatrix, ParameterError, QuantileDMatrix
from hornbeam.kernels.survival import DISTRIBUTIONS
from hornbeam.objectives.registry import create
from hornbeam.params import Parameters


def made(rows=800, seed=0):
    """Return rows, log-normal times that two columns decide, and when one looked."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4)).astype(np.float32)
    times = np.exp(0.8 * X[:, 0] - 0.5 * np.abs(X[:, 1]) + 0.5 * rng.normal(size=rows))
    return X, times, rng.exponential(3, rows)


X, TIMES, UNTIL = made()
#: Some seen, some known to be later, and the first hundred between two looks.
LOWER = np.minimum(TIMES, UNTIL)
UPPER = np.where(TIMES <= UNTIL, TIMES, np.inf)
LOWER[:100], UPPER[:100] = np.floor(TIMES[:100]), np.floor(TIMES[:100]) + 1
BOUNDS = {"label_lower_bound": LOWER, "label_upper_bound": UPPER}
SIGNED = np.where(TIMES <= UNTIL, TIMES, -UNTIL)

INFO = {"survival:cox": {"label": SIGNED}, "survival:aft": BOUNDS}


def train(params, rows=X, rounds=5, matrix=DMatrix, **info):
    data = matrix(rows, **info)
    report = {}
    params = {"max_depth": 3, "nthread": 1, **params}
    booster = hornbeam.train(
        params, data, rounds, evals=[(data, "a")], evals_result=report,
        verbose_eval=False,
    )  # fmt: skip
    return booster, report["a"]


@pytest.mark.parametrize("objective", INFO)
def test_the_effect_of_a_feature_on_times_is_learned(objective):
    booster, report = train({"objective": objective}, rounds=40, **INFO[objective])
    (losses,) = report.values()
    assert (np.diff(losses) < 0).all() and losses[-1] < losses[0] - 0.2
    predicted, margins = (
        booster.predict(DMatrix(X), output_margin=margin) for margin in (False, True)
    )
    np.testing.assert_allclose(predicted, np.exp(margins), rtol=1e-6)
    sign = -1 if objective == "survival:cox" else 1  # a hazard shortens the time
    order = np.corrcoef(margins, sign * np.log(TIMES))
    assert order[0, 1] > 0.8
    gains = booster.get_score(importance_type="gain")
    assert sorted(gains, key=gains.get)[-2:] == ["f1", "f0"]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_uncensored_rows_locate_the_distribution(distribution):
    """A leaf of rows of one kind goes to where the likelihood is greatest."""
    rng = np.random.default_rng(0)
    z = {
        "normal": rng.normal(size=4000),
        "logistic": rng.logistic(size=4000),
        "extreme": -rng.gumbel(size=4000),
    }[distribution]
    times = np.exp(1.5 + 0.4 * z)
    booster, _ = train(
        {
            "objective": "survival:aft",
            "aft_loss_distribution": distribution,
            "aft_loss_distribution_scale": 0.4,
            "lambda": 0,
        },
        np.zeros((4000, 1)),
        30,
        label_lower_bound=times,
        label_upper_bound=np.where(times < 9, times, np.inf),
    )
    margin = booster.predict(DMatrix(np.zeros((1, 1))), output_margin=True)
    assert margin == pytest.approx(1.5, abs=0.03)


@pytest.mark.parametrize("objective", INFO)
def test_base_scores_of_survival_objectives(objective):
    base = {"survival:cox": 1.0, "survival:aft": 0.5}[objective]
    booster, _ = train({"objective": objective}, **INFO[objective])
    assert booster.model.base_score.tolist() == [base]
    margin = booster.objective.to_margin(np.array([2.5]))
    assert margin == pytest.approx(np.log(2.5), rel=1e-7)
    with pytest.raises(ParameterError, match="base_score=0 must be above 0"):
        create(Parameters.resolve({"objective": objective, "base_score": 0}))


def test_a_row_of_weight_n_is_n_rows_for_cox():
    rng = np.random.default_rng(1)
    count = rng.integers(1, 4, len(X))
    weighted, once = train(
        {"objective": "survival:cox"}, label=SIGNED, weight=count, rounds=8
    )
    copied, each = train(
        {"objective": "survival:cox"},
        np.repeat(X, count, axis=0),
        label=np.repeat(SIGNED, count),
        rounds=8,
    )
    np.testing.assert_allclose(
        weighted.predict(DMatrix(X)), copied.predict(DMatrix(X)), rtol=1e-4
    )
    np.testing.assert_allclose(once["cox-nloglik"], each["cox-nloglik"], rtol=1e-6)


def test_interval_accuracy_counts_predictions_within_bounds():
    booster, report = train(
        {"objective": "survival:aft", "eval_metric": "interval-regression-accuracy"},
        **BOUNDS,
    )
    predicted = booster.predict(DMatrix(X))
    share = np.mean((predicted >= LOWER) & (predicted <= UPPER))
    (found,) = report.values()
    assert found[-1] == pytest.approx(share, abs=1e-3)


def test_early_stopping_maximises_interval_accuracy():
    def fit(rounds):
        data, held_out = DMatrix(X, **BOUNDS), DMatrix(-X, **BOUNDS)
        params = {
            "objective": "survival:aft",
            "eval_metric": "interval-regression-accuracy",
        }
        return hornbeam.train(
            params, data, 30, evals=[(held_out, "a")], early_stopping_rounds=rounds,
            verbose_eval=False,
        )  # fmt: skip

    stopped, whole = fit(3), fit(30)
    assert stopped.num_boosted_rounds() < 30
    assert stopped.best_score <= whole.best_score


def test_model_files_have_the_distribution(tmp_path):
    params = {
        "objective": "survival:aft",
        "aft_loss_distribution": "logistic",
        "aft_loss_distribution_scale": 1.2,
    }
    booster, _ = train(params, **BOUNDS)
    booster.save_model(tmp_path / "model.json")
    loaded = hornbeam.Booster(model_file=tmp_path / "model.json")
    assert loaded.params.aft_loss_distribution == "logistic"
    assert loaded.params.aft_loss_distribution_scale == 1.2
    assert loaded.digest() == booster.digest()
    text = (tmp_path / "model.json").read_text()
    (tmp_path / "model.json").write_text(text.replace("logistic", "logarithmic"))
    with pytest.raises(hornbeam.ModelFileError):
        hornbeam.Booster(model_file=tmp_path / "model.json")


# --- The same bits --------------------------------------------------------------------


@examples(12)
@given(
    st.sampled_from(sorted(INFO)),
    st.sampled_from(sorted(DISTRIBUTIONS)),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from([1, 30]),
    st.integers(0, 2**32),
)
def test_threads_bins_and_row_order_do_not_change_the_model(
    objective, distribution, n_rows, weighted, most, seed
):
    """On threads, on bins, continued, and with rows in any order."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(9, size=(n_rows, 3)).astype(np.float32)
    label = rng.integers(1, most + 1, n_rows) * rng.choice([-1.0, 1.0], n_rows)
    label[0] = abs(label[0])
    info = {"label": label}
    if objective == "survival:aft":
        lower = np.maximum(label, 0)
        upper = np.where(label > 0, label, rng.choice([2.5, np.inf], n_rows))
        info = {"label_lower_bound": lower, "label_upper_bound": upper}
    if weighted:
        info["weight"] = rng.random(n_rows) + 0.01
    params = {"objective": objective, "min_child_weight": 0.1}
    if objective == "survival:aft":
        params["aft_loss_distribution"] = distribution
    booster, _ = train(params, rows, **info)
    digest = booster.digest()
    assert train({**params, "nthread": 3}, rows, **info)[0].digest() == digest
    assert train(params, rows, matrix=QuantileDMatrix, **info)[0].digest() == digest
    half, _ = train(params, rows, 2, **info)
    more = hornbeam.train(
        {"max_depth": 3, "min_child_weight": 0.1}, DMatrix(rows, **info), 3,
        xgb_model=half.save_raw(), verbose_eval=False,
    )  # fmt: skip
    assert more.digest() == digest
    order = rng.permutation(n_rows)
    shuffled = {name: values[order] for name, values in info.items()}
    assert train(params, rows[order], **shuffled)[0].digest() == digest


# --- What is wrong --------------------------------------------------------------------


def test_labels_of_evals_are_checked():
    booster, _ = train({"objective": "survival:aft"}, **BOUNDS)
    with pytest.raises(DataError, match="no label_lower_bounds to measure against"):
        booster.eval(DMatrix(X, TIMES))
    data = DMatrix(X, label_lower_bound=LOWER * 0, label_upper_bound=np.zeros(len(X)))
    with pytest.raises(DataError, match="label_upper_bound is 0 in row 0"):
        booster.eval(data)


@pytest.mark.parametrize("metric", ["cox-nloglik", "aft-nloglik"])
def test_metrics_of_times_require_predictions_above_zero(metric):
    data = DMatrix(X, SIGNED, **BOUNDS)
    params = {"objective": "reg:squarederror", "eval_metric": metric}
    with pytest.raises(DataError, match=f"{metric} needs predictions above 0"):
        hornbeam.train(params, data, 1, evals=[(data, "a")], verbose_eval=False)
    params |= {"objective": "multi:softprob", "num_class": 3}
    data = DMatrix(X, np.arange(len(X)) % 3, **BOUNDS)
    with pytest.raises(DataError, match="it measures objectives of one output"):
        hornbeam.train(params, data, 1, evals=[(data, "a")], verbose_eval=False)


def test_training_without_events_is_an_error():
    with pytest.raises(DataError, match="needs events, and there are none in"):
        train({"objective": "survival:cox"}, label=-UNTIL)
    weight = (SIGNED < 0) * 1.0
    with pytest.raises(DataError, match="needs events"):
        train({"objective": "survival:cox"}, label=SIGNED, weight=weight)
