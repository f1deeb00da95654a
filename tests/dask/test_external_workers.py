"""Workers that keep codes on disk grow the same trees, and leave nothing there."""

import time

import numpy as np
import pandas as pd
import pytest
from dask import delayed

import hornbeam
from hornbeam import DataError, DMatrix, ParameterError
from hornbeam.dask import DaskDMatrix, DaskQuantileDMatrix, train

# The first fit of all may have to compile the kernels.
pytestmark = pytest.mark.time_limit(240)

ROWS = 600
PARAMS = {"max_depth": 4, "subsample": 0.7, "objective": "binary:logistic"}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 4)), columns=list("abcd"))
    frame.loc[rng.random(ROWS) < 0.2, "a"] = np.nan
    frame["kind"] = rng.choice(["x", "y", "z"], ROWS)
    frame["label"] = (frame["b"] + (frame["kind"] == "x") > 0.3).astype(int)
    return frame


@pytest.fixture(scope="module")
def digest(frame):
    dtrain = DMatrix(frame, "label")
    return hornbeam.train(PARAMS, dtrain, 5, verbose_eval=False).digest()


def no_rows_in(*folders):
    """Wait until nothing is left: workers delete when they have let go."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not any(folder.exists() and list(folder.iterdir()) for folder in folders):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("kind", "held"), [(DaskDMatrix, False), (DaskQuantileDMatrix, True)]
)
def test_the_model_is_that_of_memory(client, frame, digest, tmp_path, kind, held):
    for number in range(3):
        part = frame[200 * number : 200 * number + 200]
        part.to_parquet(tmp_path / f"{number}.parquet")
    paths = [delayed(str(tmp_path / f"{number}.parquet")) for number in range(3)]
    folders = [tmp_path / "one", tmp_path / "two"]
    dtrain = kind(client, paths, "label", cache=[str(f) for f in folders])
    found = train(
        client,
        {**PARAMS, "extmem_single_page": held},
        dtrain,
        5,
        evals=[(dtrain, "train")],
        verbose_eval=False,
    )
    assert found["booster"].digest() == digest
    assert len(found["history"]["train"]["logloss"]) == 5
    del found
    assert no_rows_in(*folders)


def test_codes_may_be_wider_in_the_memory_of_one_machine(client, tmp_path):
    levels = pd.Categorical(np.arange(512) % 256, range(256))
    frame = pd.DataFrame({"kind": levels, "label": np.arange(512) % 7})
    frame.loc[511, "kind"] = None  # only one of the members sees it
    parts = [delayed(frame[:200]), delayed(frame[200:])]
    dtrain = DaskDMatrix(client, parts, "label", cache=str(tmp_path))
    found = train(client, {}, dtrain, 3, verbose_eval=False)["booster"]
    one = hornbeam.train({}, DMatrix(frame, "label"), 3, verbose_eval=False)
    assert found.digest() == one.digest()


def test_what_cannot_be_is_said_with_the_worker(client, frame, tmp_path):
    data = [delayed(frame)]
    (tmp_path / "file").write_text("")
    matrix = DaskDMatrix(client, data, "label", cache=str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"on the worker at tcp://.*which is a file"):
        train(client, PARAMS, matrix, 1)
    matrix = DaskDMatrix(
        client, data, "label", cache=str(tmp_path / "rows"), memory_limit="1MB"
    )
    with pytest.raises(ParameterError, match=r"tcp://.*memory_limit=1 MB is too small"):
        train(client, PARAMS, matrix, 1)
