"""The out-of-bag improvement of rounds."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import hornbeam
from hornbeam import DMatrix, OutOfBag
from hornbeam.errors import ParameterError

SHARE = 0.6


def table(n_rows=400, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, 4)).astype(np.float32)
    signal = rows[:, 0] * rows[:, 1] + np.sin(3 * rows[:, 2])
    return rows, signal + noise * rng.normal(size=n_rows)


def watched(params, data, rounds=6, **arguments):
    """Return the model and the callback."""
    bag = OutOfBag()
    params = {"subsample": SHARE, "max_depth": 3, **params}
    model = hornbeam.train(params, data, rounds, callbacks=[bag], **arguments)
    return model, bag


def logistic(m, y):
    return np.logaddexp(0.0, m) - y * m


def softmax(m, y):
    return np.logaddexp.reduce(m, axis=1) - m[np.arange(y.size), y.astype(int)]


LOSSES = {
    "reg:squarederror": (lambda m, y: (m - y) ** 2, {}),
    "reg:absoluteerror": (lambda m, y: np.abs(m - y), {"leaf_solver": "line_search"}),
    "binary:logistic": (logistic, {"num_parallel_tree": 2}),
    "multi:softprob": (softmax, {"num_class": 3, "seed": 5}),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", LOSSES)
def test_improvement_is_the_decrease_of_the_loss_of_out_of_bag_rows(
    objective, weighted
):
    loss, params = LOSSES[objective]
    x, y = table(150)
    if objective.startswith("binary"):
        y = (y > 0).astype(float)
    elif objective.startswith("multi"):
        y = np.digitize(y, [-0.4, 0.4]).astype(float)
    weights = (
        np.random.default_rng(1).uniform(0.2, 2, 150) if weighted else np.ones(150)
    )
    data = DMatrix(x, y, weight=weights if weighted else None)
    model, bag = watched({"objective": objective, **params}, data)
    assert len(bag.improvement) == 6
    each = len(model.model.trees) // 6
    seed = params.get("seed", 0)
    for k, found in enumerate(bag.improvement[1:], 1):
        drawn = [
            [naive.draw(row, tree, 0, seed) < SHARE * 2**32 for row in range(150)]
            for tree in range(k * each, (k + 1) * each)
        ]
        left = ~np.any(drawn, axis=0)
        before, after = (
            model.predict(data, output_margin=True, iteration_range=(0, end))
            for end in (k, k + 1)
        )
        gain = loss(before, y)[left] - loss(after, y)[left]
        expected = np.average(gain, weights=weights[left])
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_improvements_do_not_depend_on_threads_and_batches():
    x, y = table(20_000)
    data = DMatrix(x, y)
    whole = [watched({"nthread": k}, data)[1].improvement for k in (1, 2, 3, 7)]
    assert whole[0] == whole[1] == whole[2] == whole[3]
    begun, first = watched({}, data, 2)
    _, rest = watched({}, data, 4, xgb_model=begun)
    assert first.improvement == whole[0][:2]
    np.testing.assert_allclose(rest.improvement, whole[0][2:], rtol=1e-9)


def test_improvements_with_external_memory(tmp_path):
    x, y = table(3000)
    _, memory = watched({}, DMatrix(x, y))
    _, disk = watched({}, DMatrix(x, y, cache=tmp_path))
    assert memory.improvement == disk.improvement


def test_cumulative_improvement_gives_the_best_round():
    x, y = table(3000, noise=2.0)
    train, test = DMatrix(x[:1000], y[:1000]), DMatrix(x[1000:], y[1000:])
    scores = {}
    params = {"learning_rate": 0.1, "max_depth": 5}
    _, bag = watched(
        params, train, 200, evals=[(test, "test")], evals_result=scores,
        verbose_eval=False,
    )  # fmt: skip
    errors = scores["test"]["rmse"]
    # Conservative, as Ridgeway found, and much better than all rounds.
    assert 0 < bag.best_rounds <= np.argmin(errors) + 20
    assert errors[bag.best_rounds - 1] < 1.03 * min(errors) < errors[-1]


def test_improvements_resume_from_a_checkpoint(tmp_path):
    x, y = table()
    data = DMatrix(x, y)
    _, whole = watched({}, data, 6)

    def part(rounds):
        bag = OutOfBag()
        keep = hornbeam.TrainingCheckPoint(tmp_path, interval=1, resume=True)
        params = {"subsample": SHARE, "max_depth": 3}
        hornbeam.train(params, data, rounds, callbacks=[bag, keep])
        return bag

    part(3)
    np.testing.assert_allclose(part(6).improvement, whole.improvement, rtol=1e-9)


def test_estimators_have_oob_improvement():
    """Both losses of an improvement are of the same rows, as in gbm."""
    x, y = table(4000)
    x, y, unseen, labels = x[:2000], y[:2000], x[2000:], y[2000:]
    common = {"n_estimators": 60, "learning_rate": 0.1, "max_depth": 3}
    common |= {"subsample": 0.5, "random_state": 0}
    theirs = GradientBoostingRegressor(**common).fit(x, y)
    ours = hornbeam.HornbeamRegressor(callbacks=[OutOfBag()], **common).fit(x, y)
    mine, others = ours.oob_improvement_, theirs.oob_improvement_
    assert mine.shape == others.shape
    fall = np.var(labels) - np.mean((ours.predict(unseen) - labels) ** 2)
    assert mine.sum() == pytest.approx(fall, rel=0.1)
    without = hornbeam.HornbeamRegressor(n_estimators=2).fit(x, y)
    with pytest.raises(AttributeError, match=r"pass one in callbacks"):
        _ = without.oob_improvement_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"subsample": 1.0}, r"there are none with subsample=1\.0; set subsample"),
        ({"sampling_method": "gradient_based"}, "sampling_method='gradient_based'"),
        ({"booster": "dart"}, "booster='dart'"),
        ({"objective": "rank:ndcg"}, "rank:ndcg has no loss of single rows"),
    ],
)
def test_training_without_a_sample_raises_an_error(params, message):
    x, y = table()
    data = DMatrix(x, y > 0, group=[200, 200])
    with pytest.raises(ParameterError, match=message):
        watched(params, data)


def test_custom_gradients_and_cv_are_not_supported():
    x, y = table()
    data = DMatrix(x, y)
    with pytest.raises(ParameterError, match="a function that returns gradients only"):
        watched({}, data, obj=lambda m, d: (m - y, np.ones(y.size)))
    with pytest.raises(ParameterError, match="cv evaluates on rows"):
        hornbeam.cv({"subsample": 0.5}, data, 2, callbacks=[OutOfBag()])
