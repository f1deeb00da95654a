"""From any of its checkpoints a training goes on to the bits of one in one go."""

from __future__ import annotations

import numpy as np
import pytest
from samples import few_values, ranked

import hornbeam

ROWS, LABELS = few_values(400, 5, missing=0.1)

BOOSTERS = {
    "trees": {"subsample": 0.6, "colsample_bynode": 0.5},
    "dropout": {"booster": "dart", "rate_drop": 0.4, "subsample": 0.6},
    "weights": {"booster": "gblinear", "feature_selector": "random"},
    "forests": {"num_parallel_tree": 3, "subsample": 0.6, "colsample_bynode": 0.5},
    "classes": {"objective": "multi:softprob", "num_class": 3, "subsample": 0.6},
}


@pytest.mark.parametrize("as_pickle", [False, True])
@pytest.mark.parametrize("name", BOOSTERS)
def test_checkpoints_go_on_to_the_same_bits(name, as_pickle, tmp_path):
    params = {"max_depth": 3, "seed": 3} | BOOSTERS[name]
    if params.get("booster") == "gblinear":
        del params["max_depth"]
    labels = ranked(LABELS, 3) if name == "classes" else LABELS
    data = hornbeam.DMatrix(ROWS, labels)
    point = hornbeam.TrainingCheckPoint(tmp_path, interval=1, as_pickle=as_pickle)
    whole = hornbeam.train(params, data, 7, callbacks=[point])
    for done in (2, 5):
        path = tmp_path / f"model_{done}.{'pkl' if as_pickle else 'ubj'}"
        start = np.load(path, allow_pickle=True) if as_pickle else path
        begun = hornbeam.Booster(params, model_file=start)
        rounds = 7 - begun.num_boosted_rounds()
        assert 0 < rounds < 7
        again = hornbeam.DMatrix(ROWS, labels)
        model = hornbeam.train(params, again, rounds, xgb_model=begun)
        assert model.digest() == whole.digest()
