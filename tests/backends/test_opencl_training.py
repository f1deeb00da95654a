"""Models that are trained on a device have the digests of those of the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import digests
import numpy as np
import pytest
from opencl_device import HALVES, NAME, needs_two
from selection import IS_WHOLE, REPEATS

import hornbeam
from hornbeam.backends.opencl import devices, queue
from hornbeam.backends.opencl.devices import find_device, opencl
from hornbeam.binning import external_build
from hornbeam.cpu_count import available_threads
from hornbeam.errors import ErrorCode

#: What a device refuses, each with one error.
REFUSED = {
    **dict.fromkeys(("exact", "approx_of_nodes"), "sort values"),
    **dict.fromkeys(("sparse", "approx_sparse"), "stored entries"),
    **dict.fromkeys(("gblinear", "gblinear_thrifty", "updated"), "none are grown"),
}
#: Configurations that are trained by other functions than `digests.train`.
ELSEWHERE = {
    *("boosted_by_hand", "cross_validation", "drop_in", "estimators"),
    "single_trees_and_forests",
}
FAST = {
    *("depthwise", "lossguide", "categories_in_sets", "weights_and_base_margin"),
    *("uniform_rows", "goss", "columns_by_level_and_node", "monotone_intermediate"),
    *("min_samples_and_smoothing", "dart", "logistic", "softprob", "ndcg"),
    *("continued", "custom_objective", "linear_leaves", "vectors"),
    *("external_memory", *REFUSED),
}


@pytest.fixture
def trained_there(monkeypatch):
    """Let the configurations of `digests` train on the device; return their models."""
    train, models = digests.train, []

    def train_there(params, data, rounds=digests.ROUNDS, **kwargs):
        model = train({**params, "device": NAME}, data, rounds, **kwargs)
        models.append(model)
        return model

    monkeypatch.setattr(digests, "train", train_there)
    return models


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else REPEATS)
        for name in digests.CONFIGURATIONS
        if name not in ELSEWHERE
    ],
)
def test_each_configuration_has_its_recorded_digest(name, trained_there):
    if name in REFUSED:
        with pytest.raises(hornbeam.ParameterError, match=REFUSED[name]) as error:
            digests.CONFIGURATIONS[name]()
        assert "device=" in str(error.value)
        return
    assert digests.differing(digests.find([name])) == []
    assert trained_there


def rows(n=2000):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(n, 5))
    return hornbeam.DMatrix(data, (data[:, 0] * data[:, 1] > 0).astype(float))


def test_callbacks_and_early_stopping_see_the_same_losses():
    def train(device):
        losses = {}
        model = hornbeam.train(
            {"objective": "binary:logistic", "device": device, "eta": 0.9},
            data,
            60,
            evals=[(data, "train"), (rows(500), "valid")],
            evals_result=losses,
            early_stopping_rounds=3,
            verbose_eval=False,
        )
        return model.digest(), model.best_iteration, losses

    data = rows()
    assert train(NAME) == train("cpu")


def test_training_goes_on_from_one_device_to_the_other():
    data, params = rows(), {"objective": "binary:logistic"}
    expected = hornbeam.train(params, data, 6)
    begun = hornbeam.train({**params, "device": NAME}, data, 3)
    assert hornbeam.train(params, data, 3, xgb_model=begun).digest() == (
        expected.digest()
    )
    booster = hornbeam.Booster(params, [data])
    for number in range(6):
        booster.set_param("device", NAME if number % 2 else "cpu")
        booster.update(data, number)
    assert booster.digest() == expected.digest()


def test_estimators_train_on_a_device():
    data = np.random.default_rng(1).normal(size=(500, 4))
    labels = data[:, 0] > data[:, 1]

    def fit(device):
        model = hornbeam.HornbeamClassifier(n_estimators=5, device=device)
        return model.fit(data, labels).get_booster().digest()

    assert fit(NAME) == fit(None)


def test_gradients_beyond_float32_are_one_error():
    labels = np.full(2000, 1e300)
    huge = hornbeam.DMatrix(np.arange(2000.0)[:, None], labels)
    with pytest.raises(hornbeam.DataError) as error:
        hornbeam.train({"device": NAME, "base_score": 0.5}, huge)
    assert error.value.code == ErrorCode.FLOAT_OVERFLOW


@pytest.mark.slow
@pytest.mark.parametrize("units", [1, 2])
def test_the_number_of_compute_units_does_not_matter(units):
    """PoCL reads it when it is loaded, so another process runs the tests."""
    if units == available_threads() and not IS_WHOLE:
        pytest.skip("the tests themselves run on so many")
    tests = Path(__file__).parent
    arguments = "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", ""
    files = str(tests / "test_opencl_rows.py"), "-k", "items or work_items"
    process = subprocess.run(
        [sys.executable, *arguments, *files],
        env=os.environ | {"POCL_MAX_PTHREAD_COUNT": str(units)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout


def lose(context):
    """Let copies fail: OpenCL finds no such part of a buffer."""
    copy = opencl().enqueue_copy

    def fail(queue, target, source, **options):
        return copy(queue, target, source, **options, src_offset=1 << 60)

    context.setattr(opencl(), "enqueue_copy", fail)


def fill(context):
    """Let buffers not fit."""
    buffer = queue._buffer_type()

    def fail(context, flags, size):
        return buffer(context, flags, size + (1 << 60))

    context.setattr(queue, "_buffer_type", lambda: fail)


#: What happens to a device, and the code of the error.
FAILURES = {
    "lost": (lose, ErrorCode.DEVICE_FAILED),
    "full": (fill, ErrorCode.DEVICE_OUT_OF_MEMORY),
}


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("memory", id="in memory"),
        pytest.param("blocks", id="in external memory"),
        pytest.param("two", id="on two devices", marks=needs_two),
        pytest.param("two, blocks", id="external, two devices", marks=needs_two),
    ],
)
@pytest.mark.parametrize("failure", FAILURES)
def test_after_a_device_fails_training_goes_on_with_the_cpu(
    monkeypatch, tmp_path, failure, place
):
    name = NAME
    if "two" in place:
        monkeypatch.setattr(devices, "find_devices", lambda: HALVES)
        name = "+".join(device.name for device in HALVES)
    data, params = rows(), {"objective": "binary:logistic", "max_depth": 3}
    if "blocks" in place:
        monkeypatch.setattr(external_build, "BLOCK_ROWS", 500)
        x, y = data.get_data().toarray(), data.get_label()
        batches = lambda: iter([(x[:900], y[:900]), (x[900:], y[900:])])  # noqa: E731
        data = hornbeam.ExtMemQuantileDMatrix(batches, cache=tmp_path)
    booster = hornbeam.Booster({**params, "device": name}, [data])
    here = hornbeam.Booster(params, [data])
    for own in (booster, here):
        own.update(data, 0)
        own.update(data, 1)
        own.set_param("max_depth", 5)  # a deeper tree takes more memory
    before, (fail, code) = booster.digest(), FAILURES[failure]

    with monkeypatch.context() as context:
        fail(context)
        with pytest.raises(hornbeam.DeviceError, match="device='cpu'") as error:
            booster.update(data, 2)
    assert error.value.code == code
    assert "of which this training has taken" in str(error.value)
    if failure == "full":
        needed, available = (error.value.details[k] for k in ("needed", "available"))
        assert needed > 2000 * 10
        assert available == find_device(name.partition("+")[0]).memory
    assert booster.digest() == before
    booster.set_param("device", "cpu")
    booster.update(data, 2)
    here.update(data, 2)
    assert booster.digest() == here.digest()
