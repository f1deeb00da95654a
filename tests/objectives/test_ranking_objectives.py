"""Objectives of ranking in training: groups, weights, position bias, labels."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam
from hornbeam import Booster, DMatrix
from hornbeam.kernels.team import lease
from hornbeam.objectives.registry import create
from hornbeam.params import Parameters

OBJECTIVES = ["rank:ndcg", "rank:map", "rank:pairwise", "rank:xendcg"]
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(900, 4)).astype(np.float32)
GROUPS = np.sort(RNG.integers(60, size=900))
GRADES = np.clip(np.round(ROWS[:, 0] + ROWS[:, 1] + RNG.normal(size=900)), 0, 3)


def labels_for(objective):
    return (GRADES > 1) * 1.0 if objective == "rank:map" else GRADES


def matrix(objective, **info):
    return DMatrix(ROWS, labels_for(objective), **{"qid": GROUPS, **info})


def train(objective, data=None, rounds=4, xgb_model=None, **params):
    params = {"objective": objective, "max_depth": 3, "nthread": 1, **params}
    data = matrix(objective) if data is None else data
    return hornbeam.train(params, data, rounds, verbose_eval=False, xgb_model=xgb_model)


@pytest.mark.parametrize("method", ["topk", "mean"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_improves_the_ranking(objective, method):
    history, data = {}, matrix(objective)
    hornbeam.train(
        {"objective": objective, "lambdarank_pair_method": method, "max_depth": 3},
        data, 10, evals=[(data, "a")], evals_result=history, verbose_eval=False,
    )  # fmt: skip
    ((name, values),) = history["a"].items()
    metric = "map" if objective == "rank:map" else "ndcg"
    is_top = method == "topk" and objective != "rank:xendcg"
    assert name == (f"{metric}@32" if is_top else metric)
    assert values[-1] > values[0] + 0.01


def test_the_default_metric_has_the_number_of_top_ranks():
    params = {"lambdarank_num_pair_per_sample": 5, "objective": "rank:map"}
    assert create(Parameters.resolve(params)).default_metric == "map@5"
    params |= {"objective": "rank:pairwise", "lambdarank_pair_method": "mean"}
    assert create(Parameters.resolve(params)).default_metric == "ndcg"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_base_score_is_zero_and_predictions_are_margins(objective):
    model = train(objective)
    assert model.model.base_score.tolist() == [0.0]
    data = matrix(objective)
    np.testing.assert_array_equal(
        model.predict(data), model.predict(data, output_margin=True)
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equivalent_groups_and_weights_give_the_same_model(objective):
    sizes = np.unique(GROUPS, return_counts=True)[1]
    weights = RNG.uniform(0.5, 2, sizes.size)
    digests = {
        train(objective, matrix(objective, **info)).digest()
        for info in (
            {"weight": weights},
            {"weight": weights.repeat(sizes)},
            {"qid": None, "group": sizes, "weight": weights},
            {"qid": None, "group": [*sizes, 0], "weight": [*weights, 9]},
        )
    }
    assert len(digests) == 1
    assert train(objective).digest() not in digests
    # Only the proportions of weights matter.
    twice = train(objective, matrix(objective, weight=2 * weights))
    assert twice.digest() in digests


def test_without_groups_all_rows_are_one_group():
    labels = labels_for("rank:ndcg")
    one = train("rank:ndcg", DMatrix(ROWS, labels)).digest()
    assert train("rank:ndcg", DMatrix(ROWS, labels, group=[900])).digest() == one
    assert train("rank:ndcg").digest() != one


def test_changed_groups_are_used_in_the_next_round():
    data = matrix("rank:ndcg")
    booster = train("rank:ndcg", data)
    data.set_info(group=[900])
    booster.update(data, 4)
    again = train("rank:ndcg")
    again.update(DMatrix(ROWS, GRADES, group=[900]), 4)
    assert booster.digest() == again.digest()


SETTINGS = {
    "as it is": {},
    "mean": {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 3},
    "unbiased": {"lambdarank_unbiased": True, "lambdarank_bias_norm": 0.5},
    "unbiased mean": {"lambdarank_unbiased": True, "lambdarank_pair_method": "mean"},
}


@pytest.mark.parametrize("how", ["memory", "ubj", "json"])
@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_continued_from_a_file_gives_the_same_model(objective, case, how):
    params = SETTINGS[case]
    whole = train(objective, rounds=6, **params)
    model = train(objective, rounds=3, **params)
    if how != "memory":
        model = model.save_raw(how)
    params = {"objective": objective, "max_depth": 3, **params}
    more = hornbeam.train(params, matrix(objective), 3, xgb_model=model)
    assert more.digest() == whole.digest()
    loaded = Booster(model_file=whole.save_raw("json"))
    assert loaded.digest() == whole.digest()
    for name, value in SETTINGS[case].items():
        if objective != "rank:xendcg":  # which has none of these
            assert getattr(loaded.params, name) == value


def test_the_position_bias_is_part_of_the_model():
    model = train("rank:ndcg", lambdarank_unbiased=True)
    bias = model.model.objective_state
    assert list(bias) == ["ti+", "tj-"] and not train("rank:ndcg").model.objective_state
    for ratios in bias.values():
        assert ratios.shape == (32,) and ratios[0] == 1.0
        assert np.unique(ratios).size > 5
    assert model.digest() != train("rank:ndcg").digest()
    np.testing.assert_array_equal(model[:2].model.objective_state["ti+"], bias["ti+"])


def test_another_objective_drops_the_position_bias():
    model = train("rank:ndcg", lambdarank_unbiased=True)
    more = train("reg:squarederror", rounds=1, xgb_model=model)
    assert not more.model.objective_state and more.digest() != model.digest()
    assert list(model.model.objective_state) == ["ti+", "tj-"]


def test_a_repeated_round_uses_the_position_bias_before_it():
    params = {"objective": "rank:ndcg", "lambdarank_unbiased": True}
    of, info = create(Parameters.resolve(params)), matrix("rank:ndcg").info
    scores = np.random.default_rng(3).normal(size=(1, 900))
    with lease(2) as team:
        first, again = (of.gradients(team, scores, info, 0) for _ in range(2))
        of.state = of.next_state
        then = of.gradients(team, scores, info, 0)
    np.testing.assert_array_equal(first, again)
    assert (then[0] != first[0]).any()


def test_the_seed_determines_sampled_pairs():
    for params in (SETTINGS["mean"], {}):
        objective = "rank:ndcg" if params else "rank:xendcg"
        digests = [train(objective, seed=s, **params).digest() for s in (0, 0, 1, -1)]
        assert digests[0] == digests[1] and len(set(digests)) == 3
    assert train("rank:ndcg", seed=1).digest() == train("rank:ndcg").digest()


def test_setting_the_learning_rate_keeps_the_position_bias():
    plain = train("rank:ndcg", rounds=3, learning_rate=0.2, lambdarank_unbiased=True)
    params = {"objective": "rank:ndcg", "max_depth": 3, "lambdarank_unbiased": True}
    scheduled = hornbeam.train(
        {"learning_rate": 0.2, **params}, matrix("rank:ndcg"), 3,
        callbacks=[hornbeam.LearningRateScheduler(lambda round: 0.2)],
    )  # fmt: skip
    assert scheduled.digest() == plain.digest()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_quantile_and_external_memory_matrices_give_the_same_ranking_model(
    objective, tmp_path
):
    params = {**SETTINGS["unbiased"], "subsample": 0.7}
    plain = train(objective, **params).digest()
    labels = labels_for(objective)
    quantile = hornbeam.QuantileDMatrix(ROWS, labels, qid=GROUPS)
    on_disk = matrix(objective, cache=tmp_path, memory_limit="4GB")
    assert train(objective, quantile, **params).digest() == plain
    assert train(objective, on_disk, **params).digest() == plain
