"""Reports of each round to an engine, whose functions are written in Python here."""

import shutil
from contextlib import contextmanager

import numpy as np
import pytest

import hornbeam
from hornbeam.callbacks.round_report import RoundReport
from hornbeam.errors import ErrorCode


class Checkpoint:
    """A copy of a folder."""

    def __init__(self, folder):
        self.folder = f"{folder}-kept"
        shutil.copytree(folder, self.folder)

    @contextmanager
    def as_directory(self):
        yield self.folder


def train(rounds=5, **options):
    """Return the booster, and what was reported."""
    found = []

    class Report(RoundReport):
        _checkpoint = Checkpoint

        def _report(self, metrics, checkpoint=None):
            found.append((metrics, checkpoint))

    x = np.random.default_rng(0).normal(size=(200, 3))
    data = hornbeam.DMatrix(x, x[:, 0])
    booster = hornbeam.train(
        {"max_depth": 2, "eval_metric": ["rmse", "mae"]},
        data,
        rounds,
        evals=[(data, "train")],
        verbose_eval=False,
        callbacks=[Report(**options)],
    )
    return booster, found


def test_all_metrics_and_the_model_that_training_returns():
    booster, found = train()
    history = booster.history["train"]
    assert [metrics for metrics, _ in found[:-1]] == [
        {"train-rmse": rmse, "train-mae": mae}
        for rmse, mae in zip(history["rmse"], history["mae"], strict=True)
    ]
    assert [checkpoint for _, checkpoint in found[:-1]] == [None] * 5
    metrics, checkpoint = found[-1]
    assert metrics == found[-2][0]
    assert RoundReport.get_model(checkpoint).digest() == booster.digest()


def test_checkpoints_after_every_second_round():
    booster, found = train(4, frequency=2, filename="model.json")
    assert [checkpoint is not None for _, checkpoint in found] == [0, 1, 0, 1]
    models = [
        RoundReport.get_model(checkpoint, "model.json")
        for _, checkpoint in found
        if checkpoint is not None
    ]
    assert [model.num_boosted_rounds() for model in models] == [2, 4]
    assert models[1].digest() == booster.digest()
    _, found = train(5, frequency=2, checkpoint_at_end=False)
    assert [checkpoint is not None for _, checkpoint in found] == [0, 1, 0, 1, 0]


def test_chosen_and_changed_metrics():
    _, found = train(1, metrics="train-mae", checkpoint_at_end=False)
    ((metrics, _),) = found
    assert list(metrics) == ["train-mae"]

    def doubled(metrics):
        return {name: 2.0 * value for name, value in metrics.items()}

    _, twice = train(
        1,
        metrics={"loss": "train-mae"},
        results_postprocessing_fn=doubled,
        checkpoint_at_end=False,
    )
    assert twice == [({"loss": 2.0 * metrics["train-mae"]}, None)]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"frequency": -1}, ErrorCode.PARAMETER_OUT_OF_RANGE),
        ({"metrics": ["valid-mae"]}, ErrorCode.UNKNOWN_EVAL_METRIC),
    ],
)
def test_bad_options(options, code):
    with pytest.raises(hornbeam.ParameterError) as caught:
        train(**options)
    assert caught.value.code == code
