"""`hornbeam.ray.train`: the model of one process, with any number of workers."""

import itertools
import os
import re
import signal

import numpy as np
import pandas as pd
import pytest
import ray
from own_process import run_in_own_process
from rows import FRAME, PARAMS, ROWS, alone, matrix

import hornbeam
import hornbeam.ray
from hornbeam.callbacks import TrainingCallback
from hornbeam.errors import ErrorCode

pytestmark = pytest.mark.usefixtures("cluster")


def dataset(frame=FRAME, blocks=5):
    bounds = np.linspace(0, len(frame), blocks + 1).astype(int)
    return ray.data.from_pandas(
        [frame.iloc[low:high] for low, high in itertools.pairwise(bounds)]
    )


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_any_number_of_workers_trains_the_model_of_one_process(num_workers, capsys):
    frame = FRAME.drop(columns="q")
    data = dataset(frame)
    booster = hornbeam.ray.train(
        PARAMS,
        data,
        8,
        label="y",
        weight="w",
        num_workers=num_workers,
        evals=[(data, "train")],
    )
    assert booster.digest() == alone(frame=frame, weight="w").digest()
    assert len(booster.history["train"]["rmse"]) == 8
    lines = re.findall(r"^\[\d\]\ttrain-rmse:[\d.]+$", capsys.readouterr().out, re.M)
    assert len(lines) == 8


def test_dates_are_expanded_as_in_one_process():
    # Of one month in the first block, of three in all, and missing in the last.
    when = pd.Series(
        pd.date_range("2023-03-01", periods=ROWS, freq="2h", tz="Asia/Tokyo")
    )
    when[900:] = pd.NaT
    frame = FRAME[["a", "y"]].assign(when=when)
    features = frame[["a", "when"]]
    booster = hornbeam.ray.train(
        PARAMS, dataset(frame, 4), 4, label="y", num_workers=3, dates="expand"
    )
    matrix = hornbeam.DMatrix(features, frame["y"], dates="expand")
    expected = hornbeam.train(PARAMS, matrix, 4, verbose_eval=False)
    assert booster.digest() == expected.digest()
    assert "month(when)" in booster.feature_names
    found = hornbeam.ray.predict(booster, dataset(frame, 4), keep_columns=["y"])
    by_label = dict(zip(frame["y"], expected.inplace_predict(features), strict=True))
    rows = found.take_all()  # a second call might have the blocks in another order
    assert len(rows) == ROWS
    assert [row["predictions"] for row in rows] == [by_label[row["y"]] for row in rows]
    with pytest.raises(hornbeam.DataError, match=r"'when'.*expand"):
        hornbeam.ray.train({}, dataset(frame, 4), 4, label="y")


def test_query_groups_stay_whole():
    frame = FRAME.drop(columns="w").assign(y=(FRAME["y"] > 0).astype(float))
    params = {"objective": "rank:ndcg", "max_depth": 3}
    booster = hornbeam.ray.train(
        params, dataset(frame, 4), 4, label="y", qid="q", num_workers=3
    )
    assert booster.digest() == alone(params, 4, frame, qid="q").digest()


def test_more_workers_than_rows():
    frame = FRAME[["a", "b", "y"]].iloc[:2]
    params = {"max_depth": 2, "min_child_weight": 0}
    booster = hornbeam.ray.train(params, dataset(frame, 1), 2, label="y", num_workers=3)
    assert booster.digest() == alone(params, 2, frame).digest()


class Strike(TrainingCallback):
    """Kills the first process that comes to a round, once."""

    def __init__(self, marker, epoch):
        self.marker, self.epoch = marker, epoch

    def after_iteration(self, model, epoch, evals_log):
        if epoch == self.epoch:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return False
            os.kill(os.getpid(), signal.SIGKILL)
        return False


@pytest.mark.parametrize("num_workers", [1, 3])
def test_training_goes_on_when_a_worker_is_killed(tmp_path, num_workers):
    frame = FRAME.drop(columns=["q", "w"])
    train, valid = frame.iloc[:800], frame.iloc[800:]
    params = PARAMS | {"booster": "dart", "rate_drop": 0.3}
    booster = hornbeam.ray.train(
        params,
        dataset(train),
        30,
        label="y",
        evals=[(dataset(valid, 2), "valid")],
        num_workers=num_workers,
        callbacks=[
            Strike(str(tmp_path / "struck"), 4),
            hornbeam.EarlyStopping(rounds=2, save_best=True),
        ],
        verbose_eval=False,
    )
    expected = hornbeam.train(
        params,
        matrix(train),
        30,
        evals=[(matrix(valid), "valid")],
        callbacks=[hornbeam.EarlyStopping(rounds=2, save_best=True)],
        verbose_eval=False,
    )
    assert (tmp_path / "struck").exists()
    assert booster.digest() == expected.digest()
    assert booster.history == expected.history


class Processes(TrainingCallback):
    """Writes a file with the name of each process."""

    def __init__(self, folder):
        self.folder = folder

    def before_training(self, model):
        (self.folder / str(os.getpid())).touch()
        return model


def test_processes_of_workers_are_used_again(tmp_path):
    # On a busy machine Ray may end idle processes before the next training.
    seen = set()
    for run in "abcdefgh":
        folder = tmp_path / run
        folder.mkdir()
        options = {"label": "y", "callbacks": [Processes(folder)]}
        hornbeam.ray.train({}, dataset(FRAME.drop(columns="q")), 2, **options)
        processes = set(os.listdir(folder))
        assert len(processes) == 2
        if processes & seen:
            return
        seen = processes
    pytest.fail("each training had new processes")


def test_workers_that_are_lost_again_and_again(tmp_path):
    class Always(TrainingCallback):
        def before_iteration(self, model, epoch, evals_log):
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(hornbeam.errors.ClusterError, match="lost 2 times") as caught:
        hornbeam.ray.train(
            {}, dataset(), 3, label="y", callbacks=[Always()], max_failures=1
        )
    assert caught.value.code == ErrorCode.WORKERS_LOST


def test_an_error_names_its_worker():
    class Fail(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if hornbeam.distributed.joined_group().rank == 1:
                raise KeyError("no such thing")

    with pytest.raises(hornbeam.errors.ClusterError) as caught:
        hornbeam.ray.train({}, dataset(), 3, label="y", callbacks=[Fail()])
    assert re.match(
        r"worker 1 \(.*, process \d+\) raised KeyError: ", str(caught.value)
    )


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"num_workers": 4}, ErrorCode.TOO_FEW_SLOTS, "need 4.*has 3"),
        ({"dates": "ignore"}, ErrorCode.UNKNOWN_OPTION, "dates must be one of"),
        ({"num_workers": 0}, ErrorCode.PARAMETER_OUT_OF_RANGE, "num_workers=0"),
        ({"label": "z"}, ErrorCode.COLUMN_NOT_FOUND, "no column 'z'"),
        ({"evals": [1]}, ErrorCode.INVALID_EVALS, "pairs"),
        ({"params": {"tree_method": "exact"}}, ErrorCode.UNSUPPORTED_ON_CLUSTER, ""),
        ({"params": {"device": "gpu"}}, ErrorCode.UNSUPPORTED_ON_CLUSTER, "device"),
        ({"params": {"depth": 3}}, ErrorCode.UNKNOWN_PARAMETER, "depth"),
        ({"dataset": FRAME}, ErrorCode.UNSUPPORTED_COLLECTION, "from_pandas"),
    ],
)
def test_bad_input_is_one_clear_error(change, code, words):
    given = {"params": {}, "dataset": dataset(), "num_boost_round": 2, "label": "y"}
    given |= change
    with pytest.raises(hornbeam.HornbeamError, match=words) as caught:
        hornbeam.ray.train(**given)
    assert caught.value.code == code


def test_estimators_name_what_trains_on_a_dataset():
    with pytest.raises(hornbeam.HornbeamError, match="no estimators on Ray"):
        hornbeam.HornbeamRegressor(n_estimators=2).fit(dataset(), FRAME["y"])


def test_a_worker_of_another_version(monkeypatch):
    monkeypatch.setattr("hornbeam.distributed.transport.__version__", "9.9")
    with pytest.raises(
        hornbeam.errors.ClusterError, match=r"worker \d .* 9.9"
    ) as caught:
        hornbeam.ray.train({}, dataset(), 2, label="y")
    assert caught.value.code == ErrorCode.WORKER_VERSION_MISMATCH


def test_workers_without_hornbeam():
    run_in_own_process(
        """
        import sys
        from conftest import start

        def hide():
            sys.modules["hornbeam"] = None

        start(hide)
        import pandas as pd
        import ray
        import hornbeam.ray
        from hornbeam.errors import ErrorCode

        data = ray.data.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "y": [0.0, 1.0]}))
        try:
            hornbeam.ray.train({}, data, 2, label="y")
        except hornbeam.errors.ClusterError as error:
            assert error.code == ErrorCode.WORKER_VERSION_MISMATCH
            assert "worker 0 (" in str(error) and "has no Hornbeam" in str(error)
        else:
            raise AssertionError
        """
    )


def test_without_ray_the_error_names_the_extra():
    run_in_own_process(
        """
        import sys
        sys.modules["ray"] = None
        try:
            import hornbeam.ray
        except ImportError as error:
            assert 'pip install "hornbeam[ray]"' in str(error)
        else:
            raise AssertionError
        """
    )


def test_a_dataset_without_rows():
    with pytest.raises(hornbeam.DataError, match="no rows") as caught:
        hornbeam.ray.train({}, dataset(FRAME.iloc[:0], 1), 2, label="y")
    assert caught.value.code == ErrorCode.EMPTY_DATA


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (FRAME.drop(columns="e"), "block 2 .* other columns than 0: missing: .?e"),
        (
            FRAME.assign(e="text"),
            "has categories in column 'e'",
        ),
    ],
)
def test_blocks_with_different_columns_or_types(other, words):
    data = ray.data.from_pandas([FRAME, FRAME, other, other])
    with pytest.raises(hornbeam.HornbeamError, match=words) as caught:
        hornbeam.ray.train({}, data, 2, label="y")
    assert caught.value.code == ErrorCode.PARTITION_COLUMNS_MISMATCH


def test_predictions_are_those_of_the_model():
    frame = FRAME.drop(columns=["q", "w"])
    booster = alone(frame=frame)
    data = dataset(frame)
    found = hornbeam.ray.predict(booster, data, keep_columns=["y"]).to_pandas()
    expected = pd.Series(booster.predict(matrix(frame)), index=frame["y"])
    assert list(found.columns) == ["y", "predictions"]
    assert len(found) == ROWS
    assert np.array_equal(expected[found["y"]].to_numpy(), found["predictions"])
    contributions = hornbeam.ray.predict(booster, data, pred_contribs=True).take(1)
    assert contributions[0]["predictions"].shape == (len(booster.feature_names) + 1,)
    with pytest.raises(Exception, match="no column 'a'"):
        hornbeam.ray.predict(booster, dataset(frame.drop(columns="a"))).materialize()
