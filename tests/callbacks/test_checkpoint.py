"""Checkpoints next to those of XGBoost."""

from __future__ import annotations

import os
import pickle

import pytest
import xgboost
from small_training import ROUNDS, fit

import hornbeam
from hornbeam.errors import ParameterError


@pytest.mark.parametrize("interval", [1, 5])
def test_checkpoints_have_the_names_of_xgboost(tmp_path, interval):
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    fit(hornbeam, [hornbeam.TrainingCheckPoint(tmp_path / "ours", interval=interval)])
    theirs = xgboost.callback.TrainingCheckPoint(tmp_path / "theirs", interval=interval)
    fit(xgboost, [theirs])
    assert sorted(os.listdir(tmp_path / "ours")) == sorted(
        os.listdir(tmp_path / "theirs")
    )


def test_training_continues_from_a_checkpoint(tmp_path):
    checkpoint = hornbeam.TrainingCheckPoint(tmp_path, name="part", interval=5)
    whole = fit(hornbeam, [checkpoint])
    half = hornbeam.Booster(model_file=tmp_path / "part_5.ubj")
    assert half.num_boosted_rounds() == 6
    resumed = fit(hornbeam, [checkpoint], xgb_model=half, rounds=ROUNDS - 6)
    assert resumed.digest() == whole.digest()
    assert (tmp_path / "part_11.ubj").exists()


def test_a_pickled_checkpoint_is_a_booster(tmp_path):
    checkpoint = hornbeam.TrainingCheckPoint(tmp_path, as_pickle=True, interval=11)
    booster = fit(hornbeam, [checkpoint])
    saved = pickle.loads((tmp_path / "model_11.pkl").read_bytes())
    assert saved.digest() == booster.digest()


def test_invalid_arguments_of_checkpoints(tmp_path):
    with pytest.raises(ParameterError, match="interval of TrainingCheckPoint"):
        hornbeam.TrainingCheckPoint(tmp_path, interval=0)
    with pytest.raises(ParameterError, match="is not a directory; create it first"):
        fit(hornbeam, [hornbeam.TrainingCheckPoint(tmp_path / "absent")])
